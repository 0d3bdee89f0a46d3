"""JSON files that hold one table: a list of objects, or lists of values by the names of columns.

The forms that pandas writes are known, too: columns of values by the names of rows, and lists of
rows apart from the names of columns.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .._data.columns import Columns
from .._data.reading import NO_NAME
from .._progress import Tick
from ..errors import InputError
from .handles import opened
from .json_lines import json_parts, read_json_lines, without_repeats
from .records import Chunk, RecordParts, Records, TypeFinder, all_records, record_parts

_PLACE = "row {}"
_FORMS = (
    'give a list of objects, [{"age": 31}, {"age": 47}], or of values by column, {"age": [31, 47]}'
)


def read_json(stream: io.BufferedReader, file: Path, rules: Columns) -> Records:
    """The records of a JSON file; one with an object on each line is read as such."""
    content = stream.read()
    if _has_lines(content):
        return read_json_lines(io.BufferedReader(io.BytesIO(content)), file, rules)
    return all_records(_chunk(content, file), TypeFinder(file, rules, _PLACE))


def json_table_parts(file: Path, rules: Columns, tick: Tick) -> RecordParts:
    """The records in parts; but for lines, the file is parsed as a whole."""
    with opened(file) as stream:
        content = stream.read()
    if _has_lines(content):
        return json_parts(file, rules, tick)
    whole = _chunk(content, file)

    def chunks(size: int) -> Iterator[Chunk]:
        for start in range(0, len(whole.numbers), size):
            part = slice(start, start + size)
            columns = {name: values[part] for name, values in whole.columns.items()}
            yield Chunk(columns, whole.numbers[part])

    return record_parts(chunks, TypeFinder(file, rules, _PLACE), tick)


def _has_lines(content: bytes) -> bool:
    """Whether the first line with text is an object, and another line begins with one, too."""
    first, _, rest = content.strip().partition(b"\n")
    if not rest.strip().startswith(b"{"):
        return False
    try:
        return isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


def _chunk(content: bytes, file: Path) -> Chunk:
    """All rows of the table."""
    try:
        value = json.loads(content, object_pairs_hook=without_repeats(str(file)))
    except InputError:
        raise
    except (ValueError, RecursionError) as error:  # a UnicodeDecodeError is a ValueError
        raise InputError(f"{file} is not JSON ({error}); {_FORMS}.") from error
    columns = _columns(value, file)
    lengths = {name: len(values) for name, values in columns.items()}
    if len({*lengths.values()}) > 1:
        (one, rows), (other, more) = _two_that_differ(lengths)
        raise InputError(
            f"{file} has {rows} values in column '{one}' but {more} in '{other}'; give as many in "
            "each."
        )
    if not lengths:
        raise InputError(f"{file} holds no table; {_FORMS}.")
    return Chunk(columns, range(next(iter(lengths.values()))))


def _two_that_differ(lengths: dict[str, int]) -> tuple[tuple[str, int], tuple[str, int]]:
    first = next(iter(lengths.items()))
    other = next(item for item in lengths.items() if item[1] != first[1])
    return first, other


def _columns(value: Any, file: Path) -> dict[str, list[Any]]:
    """The values of each column, whichever form they are in."""
    if isinstance(value, list) and all(isinstance(row, dict) for row in value):
        # A dict rather than a set: columns stay in the order in which they come.
        names = dict.fromkeys(name for row in value for name in row)
        return {name: [row.get(name) for row in value] for name in names}
    if isinstance(value, list) and value and all(isinstance(row, list) for row in value):
        return _from_rows(value, None, file)
    if isinstance(value, dict) and value:
        if {"columns", "data"} <= {*value} <= {"columns", "data", "index"}:  # of pandas: "split"
            return _from_rows(value["data"], value["columns"], file)
        if all(isinstance(values, list) for values in value.values()):
            return value
        if all(isinstance(values, dict) for values in value.values()):  # of pandas: the default
            rows = dict.fromkeys(row for values in value.values() for row in values)
            return {name: [values.get(row) for row in rows] for name, values in value.items()}
    raise InputError(f"{file} holds no table as known here; {_FORMS}.")


def _from_rows(rows: Any, names: Any, file: Path) -> dict[str, list[Any]]:
    """Columns of lists of rows, which have these names, or are called by their places."""
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise InputError(f"{file} holds no table as known here; {_FORMS}.")
    width = len(names) if isinstance(names, list) else len(rows[0]) if rows else 0
    for number, row in enumerate(rows):
        if len(row) != width:
            raise InputError(f"{file} has {len(row)} values in row {number}, not {width}.")
    called = range(width) if names is None else names
    columns = [str(name) if name not in (None, "") else NO_NAME for name in called]
    if len({*columns}) < width:
        raise InputError(f"{file} has several columns of the same name; rename them.")
    return {name: [row[place] for row in rows] for place, name in enumerate(columns)}
