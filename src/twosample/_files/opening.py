"""What the command line calls A and B becomes two samples: files, folders, or two groups of rows of one file."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .._data.columns import Columns
from .._data.streams import Stream
from .._data.tables import AS_FOUND, Source, count, label, listed
from .._progress import Tick, bar
from ..errors import InputError
from .formats import (
    JSON_LINES,
    TYPED,
    check_typed,
    database_of,
    ending_of,
    extract_member,
    locate,
    member_size,
    read_source,
)
from .handles import is_zipped, opened, polars_for, told_about
from .images import picture_parts
from .records import RecordParts, json_parts, query_parts
from .text import PIECE, SEPARATORS, text_parts

_COMPRESSED = 4  # times as large is a table once it is no longer compressed
_OBJECTS = 8  # times as large are values as objects of Python
_MOST_GROUPS = 1000  # for an answer before memory is full of them


@dataclass(frozen=True)
class Groups:
    """Which rows of one file are X and which Y.

    Attributes
    ----------
    column
        The column that says it.
    values
        Its value in the rows of X and in those of Y; None if it has just two, X being the first by
        the alphabet.
    """

    column: str
    values: tuple[str, str] | None = None

    @classmethod
    def parse(cls, text: str) -> Groups:
        """From `group`, or from `group=a,b`."""
        column, equals, values = text.partition("=")
        chosen = [value.strip() for value in values.split(",")]
        if not column or (
            equals and (len(chosen) != 2 or not all(chosen) or chosen[0] == chosen[1])
        ):
            raise InputError(
                f"--by is {text!r}; give a column, or a column and two of its values: --by "
                "group=a,b."
            )
        return cls(column, (chosen[0], chosen[1]) if equals else None)


@dataclass(frozen=True)
class Reading:
    """How the files of a command are read.

    Attributes
    ----------
    rules
        What the user says of columns and missing values.
    by
        How one file is two samples; None for two files.
    resize
        Width and height to which pictures are brought.
    stream
        Whether files are read in parts; None for those that would fill the memory.
    progress
        Whether to show a bar.
    """

    rules: Columns = AS_FOUND
    by: Groups | None = None
    resize: tuple[int, int] | None = None
    stream: bool | None = None
    progress: bool = False


def open_pair(a: str, b: str | None, reading: Reading) -> tuple[Stream | Source, Stream | Source]:
    """The two samples that a command is about."""
    if reading.by is None:
        if b is None:
            raise InputError(
                f"{a} is one sample; give a second file, or say which column tells two apart: --by "
                "COLUMN."
            )
        x, y = (_opened(file, reading, reading.rules) for file in (a, b))
        return x, y
    if b is not None:
        raise InputError(
            f"--by {reading.by.column} takes both samples from one file; leave out {b}, or --by."
        )
    return _two_groups(a, reading, reading.by)


def open_file(
    path: str, *, stream: bool | None = None, reading: Reading | None = None
) -> Stream | Source:
    """One file as a `Stream` or as its contents; `stream` says which if there is no `reading`."""
    reading = Reading(stream=stream) if reading is None else reading
    return _opened(path, reading, reading.rules)


def name_of(sample: Stream | Source) -> str:
    """What a sample from a file is called."""
    source = sample if isinstance(sample, Source) else sample._source
    return "" if source is None else source.name


def _opened(path: str, reading: Reading, rules: Columns) -> Stream | Source:
    check_typed(path)
    maker = _maker(path, reading, rules)
    stream = reading.stream
    if stream is None:
        stream = _size(path) > available_memory() // 4
    if not stream or maker is None:  # of a kind that nothing reads, as `read_source` says
        return read_source(path, rules, resize=reading.resize, progress=reading.progress)
    made = maker()
    made._source = Source((), path)
    return made


def _maker(path: str, reading: Reading, rules: Columns) -> Callable[[], Stream] | None:
    """What makes a stream of the file, if it is of a known kind."""
    if os.path.isdir(path):
        return lambda: Stream(picture_parts(Path(path), reading.resize))
    if (found := database_of(path)) is not None:
        return lambda: _record_stream(
            found[0], partial(query_parts, *found, rules), reading.progress
        )
    file, member = locate(path)
    ending = ending_of(file)
    plain = ending.removesuffix(".gz")
    if (separator := SEPARATORS.get(plain)) is not None:
        return lambda: _text_stream(file, rules, separator, reading.progress)
    if plain in JSON_LINES:
        return lambda: _record_stream(file, partial(json_parts, file, rules), reading.progress)
    if ending == ".npz":
        return lambda: _member_stream(file, member)
    if ending in TYPED:
        return lambda: Stream.parquet(path, rules.keep)
    return (lambda: Stream.npy(path)) if ending == ".npy" else None


# Files that have no parts by themselves become temporary ones that do: their text would be parsed
# in every pass.


def _text_stream(file: Path, rules: Columns, separator: str, progress: bool) -> Stream:
    """CSV and TSV."""
    with bar(
        f"reading {file.name}", 2 * (1 + _size(str(file)) // PIECE), progress
    ) as tick:  # in two passes
        return _by_parquet(text_parts(file, rules, separator=separator, tick=tick))


def _record_stream(file: Path, parts: Callable[[Tick], RecordParts], progress: bool) -> Stream:
    """JSON lines, or what a database answers."""
    pl = polars_for(file)
    types = {
        bool: pl.Boolean,
        int: pl.Int64,
        float: pl.Float64,
        str: pl.String,
        type(None): pl.String,
    }
    with bar(f"reading {file.name}", None, progress) as tick, opened(file), told_about(file):
        return _by_parquet(
            pl.DataFrame(columns, {name: types[kind] for name, kind in kinds.items()})
            for columns, kinds in parts(tick)
        )


def _member_stream(file: Path, member: str | None) -> Stream:
    """An array of an NPZ file."""
    return _in_folder(lambda folder: Stream.npy(extract_member(file, member, folder)))


def _by_parquet(tables: Iterator[Any]) -> Stream:
    def fill(folder: Path) -> Stream:
        return Stream.parquet(
            [_parquet(table, folder / f"{at}.parquet") for at, table in enumerate(tables)]
        )

    return _in_folder(fill)


def _in_folder(fill: Callable[[Path], Stream]) -> Stream:
    """A stream of files in a temporary folder, which goes when the stream does."""
    folder = Path(tempfile.mkdtemp(prefix="twosample-"))
    try:
        stream = fill(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    stream._remove = weakref.finalize(stream, shutil.rmtree, folder, ignore_errors=True)
    return stream


def _parquet(part: Any, file: Path) -> Path:
    try:
        part.write_parquet(file)
    except OSError as error:
        raise InputError(
            f"parts of a file cannot be written to {file.parent} ({error.strerror or error}); set "
            "TMPDIR to a "
            "folder with more room, or convert the file to Parquet."
        ) from error
    return file


def _size(path: str) -> int:
    """Bytes that a file, or a folder of pictures, takes in memory, roughly."""
    if os.path.isdir(path):
        return sum(part.rows * part.form.bytes for part in picture_parts(Path(path)))
    found = database_of(path)
    file, member = locate(path) if found is None else (found[0], None)
    if not file.is_file():
        return 0
    ending = ending_of(file)
    if ending == ".npz":
        return member_size(file, member)
    size = file.stat().st_size * (_COMPRESSED if is_zipped(file) else 1)
    return size * (_OBJECTS if found is not None or ending.removesuffix(".gz") in JSON_LINES else 1)


def available_memory() -> int:
    """Bytes of memory that are free, or a number that no file reaches where the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (OSError, ValueError, AttributeError):
        return sys.maxsize


# Groups of one file


def open_groups(
    path: str, reading: Reading, by: str
) -> tuple[Stream | Source, dict[str, Stream | Source]]:
    """The rows of one group of a file, and those of each other group by its value; `by` is COLUMN=VALUE."""
    column, equals, reference = (part.strip() for part in by.partition("="))
    if not column or (equals and not reference):
        raise InputError(
            f"--by is {by!r}; give a column and the value of the reference: --by week=1."
        )
    group, found = _grouped(path, reading, column)
    values = sorted(value for value in found if value is not None)
    if reference not in values:
        why = f"no {reference!r}" if equals else f"{count(len(values), 'value')}"
        example = f"--by {column}={values[0] if values else 'VALUE'}"
        raise InputError(
            f"{path} has {why} in column '{column}' ({listed(values)}); say which is the "
            f"reference: {example}."
        )
    if None in found:
        raise InputError(
            f"{path} has {count(found[None], 'missing value')} in column '{column}', so these rows "
            "are of no group; "
            "name or remove them."
        )
    if len(values) < 2:
        raise InputError(
            f"{path} has one value in column '{column}'; there is nothing to compare it with."
        )
    return group(reference), {value: group(value) for value in values if value != reference}


def _two_groups(path: str, reading: Reading, by: Groups) -> tuple[Stream | Source, Stream | Source]:
    group, found = _grouped(path, reading, by.column)
    first, second = _values(path, by, found)
    return group(first), group(second)


def _grouped(
    path: str, reading: Reading, column: str
) -> tuple[Callable[[str], Stream | Source], dict[str | None, int]]:
    """What gives the rows of a group by its value, and how many rows each has; None stands for a missing value."""
    rules = reading.rules
    if column in rules.drop or column in (rules.keep or ()):
        raise InputError(
            f"column '{column}' says which row is whose, so it is not tested; do not name it "
            "elsewhere."
        )
    whole = _opened(path, reading, Columns(kinds=dict(rules.kinds) | {column: "category"}))
    if isinstance(whole, Stream):
        found = _counted(path, column, (_labels(batch, path, column) for batch in whole))
        return lambda value: _group_stream(whole, path, column, value), found
    labels = _labels(whole.data, path, column)
    return lambda value: _group(whole, path, column, labels, value), _counted(
        path, column, iter([labels])
    )


def _counted(path: str, column: str, parts: Iterator[list[str | None]]) -> dict[str | None, int]:
    found: dict[str | None, int] = {}
    for labels in parts:
        for value in labels:
            found[value] = found.get(value, 0) + 1
        if len(found) > _MOST_GROUPS:
            raise InputError(
                f"{path} has more than {_MOST_GROUPS} values in column '{column}'; --by takes "
                "groups."
            )
    return found


def _labels(table: Any, path: str, column: str) -> list[str | None]:
    """To which group each row belongs."""
    columns = [] if isinstance(table, np.ndarray) else table.columns
    if column not in columns:
        has = f"it has {listed(columns)}" if columns else "its columns have no names"
        raise InputError(f"{path} has no column '{column}' for --by; {has}.")
    return [
        None if value is None or value != value else label(value)
        for value in table[column].to_list()
    ]


def _values(path: str, by: Groups, found: Mapping[str | None, int]) -> tuple[str, str]:
    """The values of the two groups, which must be there."""
    values = sorted(value for value in found if value is not None)
    if by.values is not None:
        if absent := [value for value in by.values if value not in found]:
            raise InputError(
                f"{path} has no '{absent[0]}' in column '{by.column}'; it has {listed(values)}."
            )
        return by.values
    if len(values) == 2 and None not in found:
        return values[0], values[1]
    shown = f"{count(len(values), 'value')} ({listed(values)})" if values else "no value"
    gaps = f" and {count(found[None], 'missing one')}" if None in found else ""
    example = ",".join(values[:2]) if len(values) > 1 else "a,b"
    raise InputError(
        f"{path} has {shown}{gaps} in column '{by.column}', and a test takes two groups; choose "
        "them as in "
        f"--by {by.column}={example}."
    )


def _group_name(path: str, column: str, value: str) -> str:
    return f"{path} where {column} is {value}"


def _group(whole: Source, path: str, column: str, labels: list[str | None], value: str) -> Source:
    rows = np.flatnonzero(np.array([found == value for found in labels]))
    return Source(
        whole.data.drop(column)[rows], _group_name(path, column, value), rows, whole.place
    )


def _group_stream(whole: Stream, path: str, column: str, value: str) -> Stream:
    def batches() -> Iterator[Any]:
        for batch in whole:
            mine = np.flatnonzero(
                np.array([found == value for found in _labels(batch, path, column)])
            )
            yield batch.drop(column)[mine]  # type: ignore[attr-defined]

    stream = Stream.batches(batches)
    stream._source = Source(
        (), _group_name(path, column, value), place=lambda row: f"row {row} of that group"
    )
    return stream
