"""Rows of plain values, as JSON lines and databases have them: a column is what all of its values are."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .columns import Columns
from .errors import InputError
from .reading import label

_WORDS = {bool: "true or false", float: "a number", str: "text"}


@dataclass(frozen=True)
class Records:
    """The columns of rows of plain values: booleans, numbers, text and None.

    Attributes
    ----------
    columns
        Name -> its values, which but for None are all of one type: bool, int, float or str.
    place
        Row -> what messages call it.
    """

    columns: dict[str, list[Any]]
    place: Callable[[int], str]


def read_json_lines(lines: Iterable[bytes], file: Path, rules: Columns) -> Records:
    """One JSON object on each line; what it does not name is missing."""
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            rows.append(_json_object(line, f"{file}, line {number}"))
            numbers.append(number)
    if not rows:
        raise InputError(f"{file} has no line with text in it; was it written completely?")
    names = list(dict.fromkeys(name for row in rows for name in row))
    if not names:
        raise InputError(f"{file} has no column: its objects are empty.")

    def place(row: int) -> str:
        return f"line {numbers[row]}"

    columns = {name: _uniform([row.get(name) for row in rows], name, file, place, rules) for name in names}
    return Records(columns, place)


def _json_object(line: bytes, where: str) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise InputError(f"{where}: an object has a name twice; name each value once.")
        return found

    try:
        found = json.loads(line, object_pairs_hook=once)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:  # a UnicodeDecodeError is a ValueError
        raise InputError(f"{where}: this is not JSON ({error}); give one object on each line.") from error
    if not isinstance(found, dict):
        raise InputError(f'{where}: this is no object; give one on each line, as in {{"age": 31, "zip": "02139"}}.')
    return found


def read_query(file: Path, query: str | None, rules: Columns) -> Records:
    """What a query, or a whole table by its name, gives of a SQLite database, which is opened for reading only."""
    try:
        address = f"file:{quote(str(file.absolute()))}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as database:
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type <> 'index'")]
            if query is None or not query.strip():
                first = tables[0] if tables else "orders"
                raise InputError(
                    f"{file} is a database with the tables {', '.join(tables) or '(none)'}; say what to test, as in "
                    f"'{file}::{first}' or '{file}::SELECT * FROM {first}'."
                )
            database.set_authorizer(_only_reading)
            known = query.strip() in tables
            cursor = database.execute(
                f'SELECT * FROM "{query.strip().replace(chr(34), chr(34) * 2)}"' if known else query
            )
            names = [column[0] for column in cursor.description or ()]
            rows = cursor.fetchall()
    except InputError:
        raise
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        asked = "be read" if query is None else f"answer {query!r}"
        raise InputError(f"{file} cannot {asked}: {str(error).rstrip('.')}.") from error
    if not names:
        raise InputError(f"{file} has no rows to give for {query!r}; ask with SELECT.")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{file} gives {names.count(twice)} columns called '{twice}'; rename them with AS.")

    def place(row: int) -> str:
        return f"row {row} of the query"

    columns = {name: _uniform([row[at] for row in rows], name, file, place, rules) for at, name in enumerate(names)}
    return Records(columns, place)


_READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)


def _only_reading(action: int, *_: object) -> int:
    """Whether a query may do this: even in a database that is read only, ATTACH and VACUUM INTO would make files."""
    return sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY


def _uniform(values: list[Any], name: str, file: Path, place: Callable[[int], str], rules: Columns) -> list[Any]:
    """The values of a column, which are all of one type; as text where the user said what they are and they are not."""
    kinds: dict[type, int] = {}  # with the first row of each
    for row, value in enumerate(values):
        if value is None:
            continue
        kind = float if type(value) is int else type(value)
        if kind not in _WORDS:
            raise InputError(
                f"{file} has {'bytes' if kind is bytes else 'a list or an object'} in column '{name}' at {place(row)}; "
                f"spread it over columns of numbers, or leave it out with --drop {name}."
            )
        kinds.setdefault(kind, row)
    if len(kinds) < 2:
        return _floats(values, name, file, place) if float in kinds else values
    if rules.kind_of(name) is not None:
        return [None if value is None else label(value) for value in values]
    if name in rules.drop or (rules.keep is not None and name not in rules.keep):
        return [None] * len(values)
    (one, first), (other, then) = list(kinds.items())[:2]
    raise InputError(
        f"{file} has {_WORDS[one]} in column '{name}' at {place(first)} but {_WORDS[other]} at {place(then)}; make "
        f"them alike, say what they are with --type {name}=category, or leave them out with --drop {name}."
    )


def _floats(values: Sequence[Any], name: str, file: Path, place: Callable[[int], str]) -> list[Any]:
    """Whole numbers as they are if all are, and not too large; else floats."""
    if all(value is None or (type(value) is int and abs(value) < 2**63) for value in values):
        return list(values)
    try:
        return [None if value is None else float(value) for value in values]
    except OverflowError:
        too_large = next(row for row, value in enumerate(values) if type(value) is int and abs(value) >= 2**1023)
        raise InputError(
            f"{file} has a number in column '{name}' at {place(too_large)} that is too large for any computer's floats."
        ) from None
