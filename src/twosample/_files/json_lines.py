"""JSON lines to records: one object on each line; what it does not name is missing."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from .._data.columns import Columns
from .._progress import Tick
from ..errors import InputError
from .handles import opened
from .limits import lines_of
from .records import Chunk, RecordParts, Records, TypeFinder, all_records, record_parts

_PLACE = "line {}"


def read_json_lines(stream: io.BufferedReader, file: Path, rules: Columns) -> Records:
    """The records of all lines."""
    (chunk,) = _chunks(lines_of(stream, file), file, None)
    return all_records(chunk, TypeFinder(file, rules, _PLACE))


def json_parts(file: Path, rules: Columns, tick: Tick) -> RecordParts:
    """The records in parts; together they are what `read_json_lines` gives."""

    def chunks(size: int) -> Iterator[Chunk]:
        with opened(file) as stream:
            yield from _chunks(lines_of(stream, file), file, size)

    return record_parts(chunks, TypeFinder(file, rules, _PLACE), tick)


def _chunks(lines: Iterable[bytes], file: Path, size: int | None) -> Iterator[Chunk]:
    """The objects of the lines, `size` of them at a time, or all at once."""
    rows: dict[int, dict[str, Any]] = {}
    is_empty = True
    for number, line in enumerate(lines, 1):
        if line.strip():
            rows[number] = _json_object(line, f"{file}, line {number}")
            is_empty = False
        if len(rows) == size:
            yield _as_chunk(rows)
            rows = {}
    if rows:
        yield _as_chunk(rows)
    if is_empty:
        raise InputError(f"{file} has no line with text in it; was it written completely?")


def _as_chunk(rows: dict[int, dict[str, Any]]) -> Chunk:
    # A dict rather than a set: columns stay in the order in which they come.
    names = dict.fromkeys(name for row in rows.values() for name in row)
    columns = {}
    for name in names:
        columns[name] = [row.get(name) for row in rows.values()]
    return Chunk(columns, list(rows))


def without_repeats(place: str) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    """What makes an object of its members, none of which may have a name twice."""

    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            raise InputError(f"{place}: an object has a name twice; name each value once.")
        return members

    return made


def _json_object(line: bytes, place: str) -> dict[str, Any]:
    try:
        value = json.loads(line, object_pairs_hook=without_repeats(place))
    except InputError:
        raise
    except (ValueError, RecursionError) as error:  # a UnicodeDecodeError is a ValueError
        raise InputError(
            f"{place}: this is not JSON ({error}); give one object on each line."
        ) from error
    if not isinstance(value, dict):
        raise InputError(
            f"{place}: this is no object; give one on each line, as in "
            '{"age": 31, "zip": "02139"}.'
        )
    return value
