"""One file, or folder, as a sample: its contents, or a `Stream` if they would fill the memory."""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from .._data.columns import Columns
from .._data.streams import Stream
from .._data.tables import AS_FOUND, Source
from .._data.temporary import make_folder, remove_folder, removed_with
from .._progress import Tick, bar
from ..errors import InputError
from .formats import (
    JSON,
    JSON_LINES,
    TYPED,
    database_of,
    extract_member,
    locate,
    member_size,
    read_source,
    typed_size,
)
from .handles import ending_of, is_zipped, opened, polars_for, told_about, without_password
from .images import picture_parts
from .json_lines import json_parts
from .json_tables import json_table_parts
from .layout import AS_IT_SHOWS, SEPARATORS, Layout
from .limits import HARMLESS, available_memory, check_inflation, count_of, inflated_size
from .records import RecordParts
from .servers import address_stream, is_address
from .text import PIECE, text_parts
from .workbooks import WORKBOOKS, workbook_size

_UNZIPPED = 4  # times as large as its file a text is, roughly, for a bar of progress
_AS_OBJECTS = 8  # times as large as their text values are while they are objects of Python

Sample: TypeAlias = Stream | Source
"""What `two_sample_test` takes for X or Y, and which knows its name."""


@dataclass(frozen=True)
class ReadOptions:
    """How the files of a command are read.

    Attributes
    ----------
    rules
        What the user says of columns and missing values.
    layout
        What the user says of how tables are written.
    resize
        Width and height to which pictures are brought.
    stream
        Whether files are read in parts; None for only those that would fill the memory.
    progress
        Whether to show a bar.
    unlimited
        Whether a small file may inflate to more than the memory holds.
    """

    rules: Columns = AS_FOUND
    layout: Layout = AS_IT_SHOWS
    resize: tuple[int, int] | None = None
    stream: bool | None = None
    progress: bool = False
    unlimited: bool = False


DEFAULTS = ReadOptions()


def open_file(path: str, options: ReadOptions = DEFAULTS) -> Sample:
    """One file as a `Stream`, or as its contents."""
    memory = sys.maxsize if options.unlimited else available_memory()
    # A quarter, because two samples and copies of both must find room.
    room = available_memory() // 4
    size = _size(path, room, memory)
    if not options.unlimited:
        check_inflation(Path(path), size.packed, size.unpacked, size.memory, room)
    in_parts = options.stream
    if in_parts is None:
        in_parts = size.memory > room
    maker = _stream_maker(path, options) if in_parts else None
    if maker is None:  # also for a kind of file that nothing reads, about which this raises
        return read_source(
            path, options.rules, options.layout, resize=options.resize, progress=options.progress
        )
    stream = maker()
    stream.source = Source((), without_password(path))
    return stream


def name_of(sample: Sample) -> str:
    """What a sample from a file is called."""
    source = sample if isinstance(sample, Source) else sample.source
    return "" if source is None else source.name


def _stream_maker(path: str, options: ReadOptions) -> Callable[[], Stream] | None:
    """What makes a stream of the file; None if it is of no known kind."""
    rules = options.rules
    if os.path.isdir(path):
        return lambda: Stream(picture_parts(Path(path), options.resize))
    database = database_of(path)
    if database is not None:
        return lambda: _database_stream(*database, options)
    if is_address(path):
        return address_stream(path, rules.keep)
    file, member = locate(path)
    ending = ending_of(file)
    unzipped = ending.removesuffix(".gz")
    if unzipped in SEPARATORS:
        return lambda: _text_stream(file, options)
    if unzipped in JSON_LINES:
        return lambda: _record_stream(file, partial(json_parts, file, rules), options)
    if unzipped == ".json":
        return lambda: _record_stream(file, partial(json_table_parts, file, rules), options)
    if ending == ".npz":
        return lambda: _member_stream(file, member)
    if ending == ".npy":
        return lambda: Stream.npy(path)
    if ending in TYPED:
        # Of these, columns that are not tested need not be read at all.
        return lambda: Stream.parquet(path, rules.keep)
    return None


# A stream is read several times. Where that would mean to parse text, inflate an array or ask a
# database again, the rows are written to temporary files that can be read in parts.


def _text_stream(file: Path, options: ReadOptions) -> Stream:
    """CSV, TSV and other text."""
    size = file.stat().st_size if file.is_file() else 0
    if is_zipped(file):
        size *= _UNZIPPED
    pieces = 2 * (1 + size // PIECE)  # in each of two passes
    with bar(f"reading {file.name}", pieces, options.progress) as tick:
        return _as_parquet(text_parts(file, options.rules, options.layout, tick=tick))


def _database_stream(file: Path, query: str | None, options: ReadOptions) -> Stream:
    """What a database answers."""
    from .database import query_parts  # here, because it takes sqlite3

    return _record_stream(file, partial(query_parts, file, query, options.rules), options)


def _record_stream(
    file: Path, parts: Callable[[Tick], RecordParts], options: ReadOptions
) -> Stream:
    """JSON, or what a database answers."""
    pl = polars_for(file)
    types_of_polars = {
        bool: pl.Boolean,
        int: pl.Int64,
        float: pl.Float64,
        str: pl.String,
        datetime: pl.Datetime,
        type(None): pl.String,  # of a column without values; any type would do
    }

    def tables(tick: Tick) -> Iterable[Any]:
        for columns, types in parts(tick):
            yield pl.DataFrame(
                columns, {name: types_of_polars[kind] for name, kind in types.items()}
            )

    progress = bar(f"reading {file.name}", None, options.progress)
    with progress as tick, opened(file), told_about(file):
        return _as_parquet(tables(tick))


def _member_stream(file: Path, member: str | None) -> Stream:
    """An array of an NPZ file."""
    return _in_folder(lambda folder: Stream.npy(extract_member(file, member, folder)))


def _as_parquet(tables: Iterable[Any]) -> Stream:
    """A stream of tables of polars, each of which becomes a temporary file."""

    def fill(folder: Path) -> Stream:
        files = []
        for number, table in enumerate(tables):
            file = folder / f"{number}.parquet"
            _write_parquet(table, file)
            files.append(file)
        return Stream.parquet(files)

    return _in_folder(fill)


def _in_folder(fill: Callable[[Path], Stream]) -> Stream:
    """A stream of files in a temporary folder, which is removed when the stream is."""
    folder = make_folder()
    try:
        stream = fill(folder)
    except BaseException:
        remove_folder(folder)
        raise
    stream._remove = removed_with(stream, folder)
    return stream


def _write_parquet(table: Any, file: Path) -> None:
    try:
        table.write_parquet(file)
    except OSError as error:
        raise InputError(
            f"parts of a file cannot be written to {file.parent} ({error.strerror or error}); set "
            "TMPDIR to a folder with more room, or convert the file to Parquet."
        ) from error


@dataclass(frozen=True)
class _Size:
    """How large a file, or a folder of pictures, is.

    Attributes
    ----------
    packed, unpacked
        Bytes of it as it is, and those it inflates to.
    memory
        Bytes that it takes in memory, roughly.
    """

    packed: int = 1
    unpacked: int = 0
    memory: int = 0


def _size(path: str, room: int, memory: int) -> _Size:
    """How large a file is; one that inflates to more than `room` is not read to its end."""
    if os.path.isdir(path):
        pixels = sum(part.rows * part.format.bytes for part in picture_parts(Path(path)))
        return _Size(memory=pixels)  # Pillow refuses a picture that inflates too much
    database = database_of(path)
    if database is not None:
        file, _ = database
        return _Size(memory=_AS_OBJECTS * file.stat().st_size if file.is_file() else 0)
    if is_address(path):
        return _Size()
    file, member = locate(path)
    if not file.is_file():
        return _Size()
    ending = ending_of(file)
    packed = file.stat().st_size
    unpacked = packed
    if ending == ".npz":
        unpacked, packed = member_size(file, member)
    elif ending in TYPED:
        unpacked = max(packed, typed_size(file, room, memory))
    elif ending in WORKBOOKS:
        unpacked, packed = workbook_size(file)
        if unpacked <= room:  # else the file is refused, or too large to be read twice
            unpacked = max(unpacked, typed_size(file, room, memory))
    elif is_zipped(file):
        unpacked, packed = inflated_size(file, room)
    factor = 1.0
    if ending.removesuffix(".gz") in JSON:
        factor = _AS_OBJECTS
    elif ending.removesuffix(".gz") in SEPARATORS:
        factor = _density(file)
    return _Size(packed, unpacked, int(factor * unpacked))


def _density(file: Path) -> float:
    """How many times as large as its text a table is in memory, by its beginning; at least 1."""
    with opened(file) as stream:
        try:
            text = stream.read(HARMLESS)
        except (OSError, EOFError, zlib.error):  # whoever reads the file says what is wrong
            return 1.0
    # Whatever stands between fields, it is at most as often there as the most frequent of these.
    values = max(count_of(text, mark) for mark in ",;\t| ") + count_of(text, "\n")
    return max(1.0, 8 * values / max(1, len(text)))
