"""Whole files to what `as_samples` takes: the ending of a file's name says how to read it."""

from __future__ import annotations

import io
import os
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .._data.columns import Columns
from .._data.tables import AS_FOUND, Source
from .._progress import bar
from ..errors import InputError
from .handles import check_survival, empty, ending_of, opened, polars_for, told_about, unheard
from .images import picture_parts, read_pictures
from .json_lines import read_json_lines
from .json_tables import read_json
from .layout import AS_IT_SHOWS, SEPARATORS, Layout
from .records import Records
from .servers import is_address, read_address
from .text import line_of, read_text
from .workbooks import WORKBOOKS, read_workbook

if TYPE_CHECKING:
    import polars

Contents: TypeAlias = "polars.DataFrame | npt.NDArray[Any]"
"""A table with named columns, or an array whose first axis counts the points."""

Place: TypeAlias = Callable[[int], str] | None
"""Row -> what messages call it; None for "row 16"."""

Reader: TypeAlias = Callable[[io.BufferedReader, Path, Columns, Layout], tuple[Contents, Place]]

# The name of a SQLite file, and a query behind "::" if there is one.
_DATABASE = re.compile(
    r"(?:(sqlite:///)(?P<any>.+?)|(?P<file>.+?\.(?:db|sqlite|sqlite3)))(?:::(?P<query>.*))?",
    re.DOTALL,
)

JSON_LINES = (".jsonl", ".ndjson")
JSON = (*JSON_LINES, ".json")
TYPED = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
"""Endings of tables that polars reads in parts."""


def read_source(
    path: str | Path,
    rules: Columns = AS_FOUND,
    layout: Layout = AS_IT_SHOWS,
    *,
    resize: tuple[int, int] | None = None,
    progress: bool | None = False,
) -> Source:
    """The contents of one file, by the ending of its name.

    Parameters
    ----------
    path : str or Path
        A file that ends in .csv, .tsv, .txt, .json, .jsonl or .ndjson, also with .gz after it,
        .xlsx, .parquet, .pq, .arrow, .feather, .ipc, .npy or .npz. Of an .npz file that holds
        several arrays, `data.npz::images` picks the one called `images`, and of a workbook
        `book.xlsx::May` the sheet `May`. A folder of PNG and JPEG files. A SQLite or DuckDB
        database (.db, .sqlite, .sqlite3, .duckdb, or sqlite:/// before any other name) with a query
        or the name of a table: `shop.db::SELECT * FROM orders`. An address that polars reads:
        `postgresql://host/shop::SELECT * FROM orders`, `s3://bucket/orders.parquet`.
    rules : Columns
        What the user says of the columns, where it matters to how a file is read.
    layout : Layout
        What the user says of how tables are written.
    resize : pair of int, optional
        Width and height to which pictures are brought.
    progress : bool, optional
        Show a bar while many pictures are read; None for only on a terminal.

    Returns
    -------
    Source
        With a table for the formats that name their columns, an array for those of NumPy and for
        pictures.

    Raises
    ------
    InputError
        If the file is not there, cannot be read, or is not what its name says.
    MissingDependency
        If it takes polars, Pillow or another package that is not installed.
    """
    name = str(path)
    if is_address(name):
        return read_address(name)
    database = database_of(name)
    if database is not None:
        return _read_database(name, *database, rules)
    file, member = locate(path)
    if os.path.isdir(file):
        return _read_folder(name, file, resize, progress)
    if resize is not None:
        raise InputError(
            f"{file} is no folder of pictures, so there is nothing to resize; leave out --resize."
        )
    with opened(file) as stream, told_about(file):
        ending = _known_ending(file)
        if member is not None and ending not in (".npz", *WORKBOOKS):
            raise InputError(
                f"{file}::{member} picks an array or a sheet by its name, but only .npz and .xlsx "
                f"files have any; give {file}."
            )
        if not stream.peek(1):
            raise empty(file)
        if ending == ".npz":
            return Source(_read_npz(stream, file, member), name)
        if ending in WORKBOOKS:
            table, of_sheet = read_workbook(stream, file, member, layout)
            return Source(table, name, place=of_sheet)
        contents, place = _READERS[ending](stream, file, rules, layout)
        return Source(contents, name, place=place)


def _known_ending(file: Path) -> str:
    ending = ending_of(file)
    if ending in _READERS or ending in (".npz", *WORKBOOKS):
        return ending
    shown = f"ends in '{ending}'" if ending else "has no ending"
    known = [kind for kind in _READERS if not kind.endswith(".gz")]
    raise InputError(
        f"{file} {shown}, which is none of the known kinds: {', '.join(known)}, .npz, .xlsx, .db, "
        ".duckdb; text and JSON also with .gz."
    )


def database_of(name: str) -> tuple[Path, str | None] | None:
    """The file and the query, if the name is that of a SQLite database."""
    match = _DATABASE.fullmatch(name)
    if match is None or is_address(name) or os.path.isdir(name):
        return None
    return Path(match["any"] or match["file"]), match["query"]


def locate(path: str | Path) -> tuple[Path, str | None]:
    """The file, and what follows '::', unless a file of the whole name exists."""
    name, separator, member = str(path).rpartition("::")
    # Also "::" may be part of a name.
    if not separator or not name or Path(path).exists():
        return Path(path), None
    return Path(name), member


def _read_folder(
    name: str, folder: Path, resize: tuple[int, int] | None, progress: bool | None
) -> Source:
    parts = picture_parts(folder, resize)
    files = [file for part in parts for file in part.files]
    with bar(f"reading {folder.name}", len(files), progress) as tick:
        pixels = read_pictures(parts, tick)
    return Source(pixels, name, place=lambda row: str(files[row]))


# Text and databases


def _read_text(
    stream: io.BufferedReader, file: Path, rules: Columns, layout: Layout
) -> tuple[polars.DataFrame, Place]:
    table, dialect = read_text(file, rules, layout)
    # The line is looked up only if a message names the row, since it takes a pass over the file.
    return table, partial(line_of, file, dialect=dialect)


def _read_json_lines(
    stream: io.BufferedReader, file: Path, rules: Columns, layout: Layout
) -> tuple[polars.DataFrame, Place]:
    records = read_json_lines(stream, file, rules)
    return _as_table(records, file), records.place


def _read_json(
    stream: io.BufferedReader, file: Path, rules: Columns, layout: Layout
) -> tuple[polars.DataFrame, Place]:
    records = read_json(stream, file, rules)
    return _as_table(records, file), records.place


def _read_database(name: str, file: Path, query: str | None, rules: Columns) -> Source:
    from .database import read_query  # here, because it takes sqlite3

    with opened(file):  # which says why a file cannot be read better than SQLite does
        records = read_query(file, query, rules)
    return Source(_as_table(records, file), name, place=records.place)


def _as_table(records: Records, file: Path) -> polars.DataFrame:
    table: polars.DataFrame = polars_for(file).DataFrame(records.columns)
    return table


# Tables with types


def _read_parquet(
    stream: io.BufferedReader, file: Path, rules: Columns, layout: Layout
) -> tuple[polars.DataFrame, Place]:
    with unheard:  # polars writes to standard error before it raises
        table: polars.DataFrame = polars_for(file).read_parquet(stream)
    return table, None


def _read_arrow(
    stream: io.BufferedReader, file: Path, rules: Columns, layout: Layout
) -> tuple[polars.DataFrame, Place]:
    pl = polars_for(file)
    table: polars.DataFrame
    with unheard:
        if is_arrow_file(stream):
            table = pl.read_ipc(stream)
        else:
            # From memory: polars would read on from where the buffer of `stream` ends.
            table = pl.read_ipc_stream(io.BytesIO(stream.read()))
    return table, None


def is_arrow_file(stream: io.BufferedReader) -> bool:
    """Whether it is the file format of Arrow (Feather version 2), not the streaming format."""
    return stream.peek(6)[:6] == b"ARROW1"


def typed_size(file: Path, room: int, memory: int) -> int:
    """Bytes of a Parquet, Arrow or Excel file in memory, by what it says; 0 if it does not say.

    Refuses a file that would end the process, see `check_survival`.
    """
    if not file.is_file():
        return 0
    if ending_of(file) in WORKBOOKS:
        return check_survival(file, "read_excel", room, memory)
    if ending_of(file) not in TYPED:
        return 0
    if ending_of(file) in (".parquet", ".pq"):
        return check_survival(file, "read_parquet", room, memory)
    with opened(file) as stream:
        reader = "read_ipc" if is_arrow_file(stream) else "read_ipc_stream"
    return check_survival(file, reader, room, memory)


# NumPy


def _read_npy(
    stream: io.BufferedReader, file: Path, rules: Columns, layout: Layout
) -> tuple[npt.NDArray[Any], Place]:
    array: npt.NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return array, None


def _read_npz(stream: io.BufferedReader, file: Path, member: str | None) -> npt.NDArray[Any]:
    with _archive(stream, file) as archive:
        name = _chosen(archive, file, member)
        array: npt.NDArray[Any] = archive[name]
    if not isinstance(array, np.ndarray):  # of a member that is no NPY file, NumPy gives the bytes
        raise _no_array(file, name)
    return array


def member_size(file: Path, member: str | None) -> tuple[int, int]:
    """Bytes of an array in an NPZ file, unpacked and packed; 0 if the file cannot be read.

    They are what the file says, and no more is ever unpacked.
    """
    try:
        with opened(file) as stream, _archive(stream, file) as archive:
            name = _chosen(archive, file, member)
            info = archive.zip.getinfo(f"{name}.npy")
            return info.file_size, info.compress_size
    except Exception:  # whoever reads the array says what is wrong
        return 0, 0


def extract_member(file: Path, member: str | None, folder: Path) -> Path:
    """An array of an NPZ file as an NPY file in the folder."""
    with opened(file) as stream, told_about(file), _archive(stream, file) as archive:
        name = _chosen(archive, file, member)
        target = folder / "array.npy"
        size = archive.zip.getinfo(f"{name}.npy").file_size
        if size > shutil.disk_usage(folder).free:
            raise InputError(
                f"{file} does not fit into {folder} without compression; set TMPDIR to a larger "
                "folder."
            )
        with archive.zip.open(f"{name}.npy") as packed, target.open("wb") as unpacked:
            if packed.peek(6)[:6] != b"\x93NUMPY":
                raise _no_array(file, name)
            shutil.copyfileobj(packed, unpacked)
        # So that an error in the array is raised here, where it names the file that the user knows.
        mapped(target)
    return target


def _archive(stream: io.BufferedReader, file: Path) -> Any:
    if stream.peek(4)[:4] not in (b"PK\x03\x04", b"PK\x05\x06"):  # a zip file, an empty one
        raise InputError(f"{file} is not an .npz archive; write it with numpy.savez.")
    return np.load(stream, allow_pickle=False)


def _chosen(archive: Any, file: Path, member: str | None) -> str:
    """The name of the array that is meant: `member`, or the only one."""
    names = sorted(archive.files)
    listed = ", ".join(names) or "nothing"
    if member is not None:
        if member not in names:
            raise InputError(f"{file} holds no array called '{member}'; it holds {listed}.")
        name = member
    elif len(names) == 1:
        name = names[0]
    else:
        example = names[0] if names else "name"
        raise InputError(
            f"{file} holds {len(names)} arrays ({listed}); pick one as in {file}::{example}."
        )
    if f"{name}.npy" not in archive.zip.namelist():
        raise _no_array(file, name)
    return name


def _no_array(file: Path, name: str) -> InputError:
    return InputError(f"{file} holds '{name}', which is no array; write it with numpy.savez.")


def mapped(file: Path) -> npt.NDArray[Any]:
    """The array of an NPY file, mapped into memory rather than read."""
    array: npt.NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise InputError(f"{file} is not an .npy file; write it with numpy.save.")
    return array


_READERS: dict[str, Reader] = {
    **dict.fromkeys(SEPARATORS, _read_text),
    **dict.fromkeys((f"{ending}.gz" for ending in SEPARATORS), _read_text),
    ".json": _read_json,
    ".json.gz": _read_json,
    **dict.fromkeys(JSON_LINES, _read_json_lines),
    **dict.fromkeys((f"{ending}.gz" for ending in JSON_LINES), _read_json_lines),
    ".parquet": _read_parquet,
    ".pq": _read_parquet,
    ".arrow": _read_arrow,
    ".feather": _read_arrow,
    ".ipc": _read_arrow,
    ".npy": _read_npy,
}
