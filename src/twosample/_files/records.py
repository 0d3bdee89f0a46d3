"""Rows of plain values, as JSON lines and databases have them: a column is what all of its values are."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

from .._data.columns import Columns
from .._data.tables import label
from .._progress import Tick
from ..errors import InputError
from .handles import opened

CHUNK = 50_000
"""Rows that are read at a time where a file is read in parts."""

Values: TypeAlias = dict[str, list[Any]]
"""Column -> its values: booleans, numbers, text and None."""

RecordParts: TypeAlias = Iterator[tuple[Values, dict[str, type]]]
"""Rows, some at a time, and the type of each column: bool, int, float, str, or NoneType if it has no value."""

_WORDS = {bool: "true or false", float: "a number", str: "text"}


@dataclass(frozen=True)
class Chunk:
    """Some rows.

    Attributes
    ----------
    columns
        What stands in each column; nothing in those that are not named.
    numbers
        What messages call the rows: the number of a line, or of a row.
    """

    columns: Values
    numbers: Sequence[int]


@dataclass(frozen=True)
class Records:
    """The columns of all rows.

    Attributes
    ----------
    columns
        Name -> its values, which but for None are all of one type: bool, int, float or str.
    place
        Row -> what messages call it.
    """

    columns: Values
    place: Callable[[int], str]


def read_json_lines(lines: Iterable[bytes], file: Path, rules: Columns) -> Records:
    """One JSON object on each line; what it does not name is missing."""
    return _all_rows(next(json_chunks(lines, file, None)), Survey(file, rules, "line {}"))


def read_query(file: Path, query: str | None, rules: Columns) -> Records:
    """What a query, or a whole table by its name, gives of a SQLite database."""
    return _all_rows(
        next(query_chunks(file, query, None)), Survey(file, rules, "row {} of the query")
    )


def _all_rows(chunk: Chunk, survey: Survey) -> Records:
    survey.see(chunk)
    types = survey.types()
    return Records(survey.columns(chunk, types), lambda row: survey.place(chunk.numbers[row]))


def json_parts(file: Path, rules: Columns, tick: Tick) -> RecordParts:
    """JSON lines in parts; together they are what `read_json_lines` gives."""

    def chunks() -> Iterator[Chunk]:
        with opened(file) as lines:
            yield from json_chunks(lines, file, CHUNK)

    return _parts(chunks, Survey(file, rules, "line {}"), tick)


def query_parts(file: Path, query: str | None, rules: Columns, tick: Tick) -> RecordParts:
    """The answer to a query in parts; together they are what `read_query` gives."""
    return _parts(
        partial(query_chunks, file, query, CHUNK), Survey(file, rules, "row {} of the query"), tick
    )


def _parts(chunks: Callable[[], Iterator[Chunk]], survey: Survey, tick: Tick) -> RecordParts:
    """In two passes: the type of a column is that of all its values."""
    for chunk in chunks():
        tick("types of columns")
        survey.see(chunk)
    types = survey.types()
    for chunk in chunks():
        tick("rows")
        yield survey.columns(chunk, types), types


# Where rows come from


def json_chunks(lines: Iterable[bytes], file: Path, size: int | None) -> Iterator[Chunk]:
    """The objects of JSON lines, `size` of them at a time or all at once."""
    rows: dict[int, dict[str, Any]] = {}
    empty = True
    for number, line in enumerate(lines, 1):
        if line.strip():
            rows[number] = _json_object(line, f"{file}, line {number}")
        if len(rows) == size:
            empty = False
            yield _spread(rows)
            rows = {}
    if rows:
        yield _spread(rows)
    elif empty:
        raise InputError(f"{file} has no line with text in it; was it written completely?")


def _spread(rows: dict[int, dict[str, Any]]) -> Chunk:
    names = dict.fromkeys(name for row in rows.values() for name in row)
    return Chunk({name: [row.get(name) for row in rows.values()] for name in names}, list(rows))


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
        raise InputError(
            f"{where}: this is not JSON ({error}); give one object on each line."
        ) from error
    if not isinstance(found, dict):
        raise InputError(
            f"{where}: this is no object; give one on each line, as in "
            f'{{"age": 31, "zip": "02139"}}.'
        )
    return found


def query_chunks(file: Path, query: str | None, size: int | None) -> Iterator[Chunk]:
    """What a database, which is opened for reading only, answers: `size` rows at a time, at least once, or all."""
    try:
        address = f"file:{quote(str(file.absolute()))}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as database:
            tables = [
                name
                for (name,) in database.execute(
                    "SELECT name FROM sqlite_schema WHERE type <> 'index'"
                )
            ]
            if query is None or not query.strip():
                first = tables[0] if tables else "orders"
                raise InputError(
                    f"{file} is a database with the tables {', '.join(tables) or '(none)'}; say "
                    "what to test, as in "
                    f"'{file}::{first}' or '{file}::SELECT * FROM {first}'."
                )
            database.set_authorizer(_only_reading)
            known = query.strip() in tables
            cursor = database.execute(
                f'SELECT * FROM "{query.strip().replace(chr(34), chr(34) * 2)}"' if known else query
            )
            names = [column[0] for column in cursor.description or ()]
            if not names:
                raise InputError(f"{file} has no rows to give for {query!r}; ask with SELECT.")
            if (twice := next((name for name in names if names.count(name) > 1), None)) is not None:
                raise InputError(
                    f"{file} gives {names.count(twice)} columns called '{twice}'; rename them with "
                    "AS."
                )
            start = 0
            while (
                rows := cursor.fetchall() if size is None else cursor.fetchmany(size)
            ) or not start:
                columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
                yield Chunk(columns, range(start, start + len(rows)))
                start += max(1, len(rows))
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        asked = "be read" if query is None else f"answer {query!r}"
        raise InputError(f"{file} cannot {asked}: {str(error).rstrip('.')}.") from error


_READING = (
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
)


def _only_reading(action: int, *_: object) -> int:
    """Whether a query may do this: even in a database that is read only, ATTACH and VACUUM INTO would make files."""
    return sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY


# What columns hold


@dataclass
class _Seen:
    """What is known of a column: the number of the first row of each type, and what its whole numbers need."""

    first: dict[type, int] = field(default_factory=dict)
    as_float: bool = False
    beyond: int | None = None  # the first row with a number that is no float either


class Survey:
    """What the columns of a file hold, from all of its rows.

    Parameters
    ----------
    file
        What messages call it.
    rules
        What the user says of columns.
    place
        What messages call a row, with {} for its number.
    """

    def __init__(self, file: Path, rules: Columns, place: str) -> None:
        self._file, self._rules, self._place = file, rules, place
        self._seen: dict[str, _Seen] = {}

    def place(self, number: int) -> str:
        """What messages call the row of this number."""
        return self._place.format(number)

    def see(self, chunk: Chunk) -> None:
        """Take note of some rows."""
        for name, values in chunk.columns.items():
            seen = self._seen.setdefault(name, _Seen())
            if self._unused(name):
                continue
            for number, value in zip(chunk.numbers, values, strict=True):
                if value is not None:
                    self._note(seen, name, number, value)

    def _note(self, seen: _Seen, name: str, number: int, value: Any) -> None:
        kind = float if type(value) is int else type(value)
        if kind not in _WORDS:
            raise InputError(
                f"{self._file} has {'bytes' if kind is bytes else 'a list or an object'} in column "
                f"'{name}' at "
                f"{self.place(number)}; spread it over columns of numbers, or leave it out with "
                f"--drop {name}."
            )
        seen.first.setdefault(kind, number)
        if type(value) is float:
            seen.as_float = True
        elif type(value) is int and abs(value) >= 2**63:
            seen.as_float = True
            if abs(value) > sys.float_info.max and seen.beyond is None:
                seen.beyond = number

    def _unused(self, name: str) -> bool:
        return name in self._rules.drop or (
            self._rules.keep is not None and name not in self._rules.keep
        )

    def types(self) -> dict[str, type]:
        """Of which type each column is: bool, int, float or str; NoneType if it has no value, or is not tested."""
        if not self._seen:
            raise InputError(f"{self._file} has no column: its objects are empty.")
        return {name: self._type(name, seen) for name, seen in self._seen.items()}

    def _type(self, name: str, seen: _Seen) -> type:
        if not seen.first:
            return type(None)
        if len(seen.first) > 1:
            if self._rules.kind_of(name) is not None:
                return str  # which `reading` takes for what the user said
            (one, first), (other, then) = list(seen.first.items())[:2]
            raise InputError(
                f"{self._file} has {_WORDS[one]} in column '{name}' at {self.place(first)} but "
                f"{_WORDS[other]} at "
                f"{self.place(then)}; make them alike, say what they are with --type "
                f"{name}=category, or leave them "
                f"out with --drop {name}."
            )
        (kind,) = seen.first
        if kind is float and seen.beyond is not None:
            raise InputError(
                f"{self._file} has a number in column '{name}' at {self.place(seen.beyond)} that "
                "is too large for any "
                "computer's floats."
            )
        return int if kind is float and not seen.as_float else kind

    def columns(self, chunk: Chunk, types: dict[str, type]) -> Values:
        """All columns in these rows, each of its type."""
        return {
            name: [
                None if kind is type(None) or value is None else _CONVERT[kind](value)
                for value in values
            ]
            for name, kind in types.items()
            for values in [chunk.columns.get(name, [None] * len(chunk.numbers))]
        }


_CONVERT: dict[type, Callable[[Any], Any]] = {bool: bool, int: int, float: float, str: label}
