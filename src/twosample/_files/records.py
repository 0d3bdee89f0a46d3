"""Rows of plain values, as JSON and databases have them, to columns of one type each.

A column is what all of its values are, so all rows are looked at before any is converted. Neither
JSON nor SQLite has dates of its own: text is a date if all of a column is, as ISO 8601 writes it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from .._data.columns import Columns
from .._data.values import label
from .._progress import Tick
from ..errors import InputError, Obstacles
from .limits import LONGEST_FIELD

CHUNK = 50_000
"""Rows that are read at a time where a file is read in parts."""

Values: TypeAlias = dict[str, list[Any]]
"""Column -> its values: booleans, numbers, text and None."""

Types: TypeAlias = dict[str, type]
"""Column -> bool, int, float, str or datetime; NoneType if it has no value, or is not tested."""

RecordParts: TypeAlias = Iterator[tuple[Values, Types]]
"""Rows, some at a time, and the type of each column."""

_NoneType = type(None)
_WORDS = {bool: "true or false", float: "a number", str: "text"}
_DATE = re.compile(r"\s*\d{4}-\d\d-\d\d(?:[T ].*)?\s*")


def _date(text: str) -> datetime | None:
    """The date that a text stands for, in UTC if it has a time zone; None for any other text."""
    if _DATE.fullmatch(text) is None:
        return None
    try:
        value = datetime.fromisoformat(text.strip())
        return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None


_CONVERT: dict[type, Callable[[Any], Any]] = {
    bool: bool,
    int: int,
    float: float,
    str: label,
    datetime: _date,
}


@dataclass(frozen=True)
class Chunk:
    """Some rows.

    Attributes
    ----------
    columns
        The values in each column; a column without any may be left out.
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
        Name -> its values, which but for None are all of one type.
    place
        Row -> what messages call it.
    """

    columns: Values
    place: Callable[[int], str]


def all_records(chunk: Chunk, finder: TypeFinder) -> Records:
    """The records of a file whose rows are all in one chunk."""
    finder.see(chunk)
    columns = finder.converted(chunk, finder.types())
    return Records(columns, lambda row: finder.place(chunk.numbers[row]))


def record_parts(
    chunks: Callable[[int], Iterable[Chunk]], finder: TypeFinder, tick: Tick
) -> RecordParts:
    """The records of a file in parts, in two passes: one for types, one for values.

    Parameters
    ----------
    chunks
        Number of rows -> the rows of the file, so many at a time.
    finder
        What finds out the types.
    tick
        Called for each chunk of each pass.
    """
    for chunk in chunks(CHUNK):
        tick("types of columns")
        finder.see(chunk)
    types = finder.types()
    for chunk in chunks(CHUNK):
        tick("rows")
        yield finder.converted(chunk, types), types


@dataclass
class _Seen:
    """What is known of a column.

    Attributes
    ----------
    first
        Type -> the number of the first row of that type; int counts as float.
    dates
        Whether all of its text is dates.
    needs_float
        Whether int64 cannot hold all of its numbers.
    too_large
        The first row with a number that is too large even for a float.
    """

    first: dict[type, int] = field(default_factory=dict)
    dates: bool = True
    needs_float: bool = False
    too_large: int | None = None


class TypeFinder:
    """Finds out the types of columns from all rows of a file.

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
        self._file = file
        self._rules = rules
        self._place = place
        self._dropped = set(rules.drop)
        self._kept = None if rules.keep is None else set(rules.keep)
        self._seen: dict[str, _Seen] = {}
        self._obstacles = Obstacles()

    def place(self, number: int) -> str:
        """What messages call the row of this number."""
        return self._place.format(number)

    def see(self, chunk: Chunk) -> None:
        """Take note of the types in some rows."""
        for name, values in chunk.columns.items():
            seen = self._seen.setdefault(name, _Seen())
            if self._is_unused(name):  # whatever it holds, it is not an error
                continue
            with self._obstacles.noted(name):
                for number, value in zip(chunk.numbers, values, strict=True):
                    if value is not None:
                        self._note(seen, name, number, value)

    def _note(self, seen: _Seen, name: str, number: int, value: Any) -> None:
        # type() rather than isinstance, because a bool is an int, too.
        kind = float if type(value) is int else type(value)
        if kind not in _WORDS:
            shown = "bytes" if kind is bytes else "a list or an object"
            raise InputError(
                f"{self._file} has {shown} in column '{name}' at {self.place(number)}; spread it "
                f"over columns of numbers, or leave it out with --drop {name}."
            )
        if kind is str and len(value) > LONGEST_FIELD:
            raise InputError(
                f"{self._file} has a text of {len(value)} characters in column '{name}' at "
                f"{self.place(number)}, and at most {LONGEST_FIELD} are read; leave it out with "
                f"--drop {name}."
            )
        seen.first.setdefault(kind, number)
        if kind is str and seen.dates:
            seen.dates = _date(value) is not None
        if type(value) is float:
            seen.needs_float = True
        elif type(value) is int and abs(value) >= 2**63:  # too large for int64
            seen.needs_float = True
            if abs(value) > sys.float_info.max and seen.too_large is None:
                seen.too_large = number

    def _is_unused(self, name: str) -> bool:
        if name in self._dropped:
            return True
        return self._kept is not None and name not in self._kept

    def types(self) -> Types:
        """The type of each column."""
        if not self._seen:
            raise InputError(f"{self._file} has no column: its objects are empty.")
        types: Types = {}
        for name, seen in self._seen.items():
            with self._obstacles.noted(name):
                types[name] = self._type(name, seen)
        self._obstacles.raise_any()
        return types

    def _type(self, name: str, seen: _Seen) -> type:
        if not seen.first:
            return _NoneType
        if len(seen.first) > 1:
            # With --type, all values become text, which is then read as what the user said.
            if self._rules.kind_of(name) is not None:
                return str
            raise self._mixed(name, seen)
        (kind,) = seen.first
        if kind is str and seen.dates and self._rules.kind_of(name) != "category":
            return datetime
        if kind is not float:
            return kind
        if seen.too_large is not None:
            raise InputError(
                f"{self._file} has a number in column '{name}' at {self.place(seen.too_large)} "
                "that is too large for any computer's floats."
            )
        return float if seen.needs_float else int

    def _mixed(self, name: str, seen: _Seen) -> InputError:
        (one, here), (other, there) = list(seen.first.items())[:2]
        return InputError(
            f"{self._file} has {_WORDS[one]} in column '{name}' at {self.place(here)} but "
            f"{_WORDS[other]} at {self.place(there)}; make them alike, say what they are with "
            f"--type {name}=category, or leave them out with --drop {name}."
        )

    def converted(self, chunk: Chunk, types: Types) -> Values:
        """All columns in these rows, each of its type."""
        nothing = [None] * len(chunk.numbers)
        columns: Values = {}
        for name, kind in types.items():
            if kind is _NoneType or name not in chunk.columns:
                columns[name] = nothing
                continue
            convert = _CONVERT[kind]
            columns[name] = [
                None if value is None else convert(value) for value in chunk.columns[name]
            ]
        return columns
