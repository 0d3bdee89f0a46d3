"""Files to samples, for the command line: CSV, TSV, Parquet, Arrow and NumPy files into what `as_samples` takes.

Text files need a header line. In them an empty field, `NA`, `N/A` and `null` are missing values, `true` and `false` are
booleans, and a date stays a date: whether such a column can be tested is for `samples` to say. Nothing is unpickled.
"""

from __future__ import annotations

import csv
import io
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .errors import InputError, MissingDependency, TwoSampleError

if TYPE_CHECKING:
    import polars

Table: TypeAlias = "polars.DataFrame | npt.NDArray[Any]"
"""A table with named columns, or an array whose first axis counts the points."""

_MISSING = ["", "NA", "N/A", "null", "NULL"]
_PART = 2**19  # numbers in a part of a file: 4 MiB in float64


def read_pair(path_x: str | Path, path_y: str | Path) -> tuple[Table, Table]:
    """The contents of two files."""
    return read(path_x), read(path_y)


def read(path: str | Path) -> Table:
    """The contents of one file, by the ending of its name.

    Parameters
    ----------
    path : str or Path
        A file that ends in .csv, .tsv, .parquet, .pq, .arrow, .feather, .ipc, .npy or .npz. Of an .npz file that
        holds several arrays, `data.npz::images` picks the one called `images`.

    Returns
    -------
    polars.DataFrame or numpy.ndarray
        A table for the formats that name their columns, an array for those of NumPy.

    Raises
    ------
    InputError
        If the file is not there, cannot be read, or is not what its name says.
    MissingDependency
        If it takes polars, which is not installed.
    """
    file, member = _locate(path)
    ending = file.suffix.lower()
    if os.path.isdir(file):
        raise InputError(f"{file} is a folder; give a file.")
    if ending not in _READERS:
        what = f"ends in '{file.suffix}'" if file.suffix else "has no ending"
        raise InputError(f"{file} {what}, which is none of the known kinds: {', '.join(_READERS)}.")
    if member is not None and ending != ".npz":
        raise InputError(f"{file}::{member} picks an array by its name, but only .npz files have any; give {file}.")
    with _open(file) as stream, _told_about(file):
        if not stream.peek(1):
            raise InputError(f"{file} is empty (0 bytes); was it written completely?")
        if ending == ".npz":
            return _read_npz(stream, file, member)
        return _READERS[ending](stream, file)


def _locate(path: str | Path) -> tuple[Path, str | None]:
    """The file, and what follows '::' unless that is a part of an existing file's name."""
    name, separator, member = str(path).rpartition("::")
    if not separator or not name or Path(path).exists():
        return Path(path), None
    return Path(name), member


@contextmanager
def _open(file: Path) -> Iterator[io.BufferedReader]:
    try:
        stream = file.open("rb")
    except FileNotFoundError:
        raise InputError(f"{file} does not exist; check the path (seen from {Path.cwd()}).") from None
    except PermissionError:
        raise InputError(f"{file} may not be read by this user; change its permissions.") from None
    except (OSError, ValueError) as error:  # a name that is too long, a NUL in it, a device that fails
        raise InputError(f"{file} cannot be opened: {_sentence(error)}") from error
    with stream:
        yield stream


@contextmanager
def _told_about(file: Path) -> Iterator[None]:
    """Turn whatever a parser raises into a sentence that names the file: there, any failure is the file's."""
    try:
        yield
    except TwoSampleError:
        raise
    except MemoryError as error:
        raise InputError(f"{file} does not fit into memory, or its header is damaged.") from error
    except Exception as error:
        if "allow_pickle" in str(error):
            raise InputError(f"{file} holds Python objects, which are never unpickled; save numbers.") from error
        what = f"{file} cannot be read as {file.suffix[1:].lower()}: {_sentence(error)}"
        raise InputError(f"{what} Is it damaged, cut short or misnamed?") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # how polars fails where it should not; not an Exception
            raise
        raise InputError(f"{file} cannot be read as {file.suffix[1:].lower()}: it is damaged.") from error


def _sentence(error: BaseException) -> str:
    """The first line of a foreign message, ending in a full stop."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    line = next(iter(text.strip().splitlines()), "") or type(error).__name__
    line = re.sub(r"<[\w.]+ object at 0x[0-9a-f]+>", "something else", line)
    return line[:200].rstrip(" .:") + "."


def _polars(file: Path) -> Any:
    try:
        import polars
    except ImportError as error:
        raise MissingDependency(f"{file} takes polars to read; pip install 'twosample[tables]'.") from error
    return polars


class _Unheard:
    """Sends standard error to nowhere while polars reads binary files: it tells of a panic there before it raises.

    The descriptor is that of the whole process, so the last of several threads to leave brings it back.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._kept = threading.Lock(), 0, -1

    def __enter__(self) -> None:
        with self._lock, suppress(OSError):  # a process may have closed it
            if not self._inside:
                if sys.stderr is not None:
                    sys.stderr.flush()
                self._kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, 2)
                os.close(nowhere)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside = max(0, self._inside - 1)
            if not self._inside and self._kept >= 0:
                os.dup2(self._kept, 2)
                os.close(self._kept)
                self._kept = -1


_unheard = _Unheard()


# Text


def _read_text(stream: io.BufferedReader, file: Path, *, separator: str) -> polars.DataFrame:
    pl = _polars(file)
    raw = _with_newlines(stream.read())
    header = _header(raw, file, separator)
    try:
        table = pl.read_csv(
            raw,
            separator=separator,
            infer_schema_length=None,  # a column is what all of its values are, not what the first hundred seem
            null_values=_MISSING,
            try_parse_dates=True,
        )
    except pl.exceptions.PolarsError:
        _scan(raw, file, separator, len(header))  # says which line, if it is a matter of lines
        raise
    if (table.width and table[:, -1].null_count()) or b'"' in raw or raw.count(b"\r") != raw.count(b"\r\n"):
        # A row that is too short, or blank, reads as missing values at its end; one whose last field is empty does too.
        # What a quotation mark within a field means, or a carriage return alone, is not the same to all readers.
        rows, blank = _scan(raw, file, separator, len(header))
        if [name.strip() for name in table.columns] != header or rows != table.height:
            raise InputError(
                f"{file} can be read in two ways, with {rows} or with {table.height} rows: a quotation mark stands "
                "within a field, or lines end in different ways; mend that."
            )
        if blank and len(header) > 1:
            table = table.with_row_index("").filter(~pl.col("").is_in(blank)).drop("")
    return table.select(_typed(pl, column).alias(column.name.strip()) for column in table)  # type: ignore[no-any-return]


def _with_newlines(raw: bytes) -> bytes:
    """Lines that end in carriage returns alone, as on old Macs, with the newlines that polars takes."""
    return raw if b"\n" in raw else raw.replace(b"\r", b"\n")


def _rows(raw: bytes, separator: str) -> Any:
    text = io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8-sig", newline="")
    return csv.reader(text, delimiter=separator, strict=True)


def _header(raw: bytes, file: Path, separator: str) -> list[str]:
    """The column names, which must be there, differ from each other, and be names."""
    try:
        fields: list[str] = next((row for row in _rows(raw, separator) if row), [])
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 text; save it as CSV in UTF-8.") from error
    names = [field.strip() for field in fields]
    if not names:
        raise InputError(f"{file} has no line with text in it; was it written completely?")
    if all(map(_is_number, names)) and not all(name.isdigit() for name in names):
        raise InputError(
            f"{file} begins with numbers ({', '.join(names[:3])}, ...) where column names should be; add a header line."
        )
    if "" in names:
        raise InputError(
            f"{file} has no name for column {names.index('') + 1} of {len(names)}; name it, "
            "or leave it out if it only counts the rows."
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{file} has {names.count(twice)} columns called '{twice}'; give each a name of its own.")
    other = next((mark for mark in ",;\t|" if mark != separator and mark in names[0]), None)
    if len(names) == 1 and other is not None:
        raise InputError(
            f"{file} has one column, {names[0]!r}, and seems to be separated by {other!r}; "
            "separate it by commas (.csv) or tabulators (.tsv)."
        )
    if not "".join("".join(names).split()).isprintable():
        raise InputError(f"{file} does not begin with the names of columns as text does; is it of another kind?")
    return names


def _scan(raw: bytes, file: Path, separator: str, width: int) -> tuple[int, list[int]]:
    """How many data rows there are, and which, counted from 0, are blank lines.

    A row with more or fewer fields than the header is refused.
    """
    rows = _rows(raw, separator)
    blank: list[int] = []
    count = -1  # the header
    try:
        for row in rows:
            if row and len(row) != width:
                fields = "1 field" if len(row) == 1 else f"{len(row)} fields"
                raise InputError(
                    f"{file}, line {rows.line_num}: {fields} where the header has {width}; "
                    "mend that line (a value that contains the separator needs quotes around it)."
                )
            if not row:
                blank.append(count)
            if row or count >= 0:
                count += 1
    except csv.Error as error:
        raise InputError(f"{file}, line {rows.line_num}: {_sentence(error)} Is a quotation mark left open?") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 text (after line {rows.line_num}); save it as CSV in UTF-8.") from error
    return max(count, 0), blank


def _typed(pl: Any, column: polars.Series) -> polars.Series:
    """A text column whose values are numbers or booleans but for blanks around them, or nan, as what it means."""
    if column.dtype != pl.String:
        return column
    text = column.str.strip_chars()
    text = text.set(text.is_in(_MISSING), None)
    if text.null_count() == len(text):
        return text
    number = text.cast(pl.Float64, strict=False)
    if number.null_count() == text.null_count():
        return number
    truth = text.str.to_lowercase()
    if truth.drop_nulls().is_in(["true", "false"]).all():
        return truth == "true"
    return text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# Tables with types


def _read_parquet(stream: io.BufferedReader, file: Path) -> polars.DataFrame:
    with _unheard:
        table: polars.DataFrame = _polars(file).read_parquet(stream)
    return table


def _read_arrow(stream: io.BufferedReader, file: Path) -> polars.DataFrame:
    pl = _polars(file)
    whole = stream.peek(6)[:6] == b"ARROW1"  # the file format (Feather version 2); without it, the streaming format
    # polars would read on from where the buffer of `stream` ends, so the streaming format is read from memory.
    with _unheard:
        table: polars.DataFrame = pl.read_ipc(stream) if whole else pl.read_ipc_stream(io.BytesIO(stream.read()))
    return table


# NumPy


def _read_npy(stream: io.BufferedReader, file: Path) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return array


def _read_npz(stream: io.BufferedReader, file: Path, member: str | None = None) -> npt.NDArray[Any]:
    if stream.peek(4)[:4] not in (b"PK\x03\x04", b"PK\x05\x06"):  # a zip file, an empty one
        raise InputError(f"{file} is not an .npz archive; write it with numpy.savez.")
    with np.load(stream, allow_pickle=False) as archive:
        names = sorted(archive.files)
        listed = ", ".join(names) or "nothing"
        if member is None and len(names) != 1:
            raise InputError(
                f"{file} holds {len(names)} arrays ({listed}); pick one as in {file}::{names[0] if names else 'name'}."
            )
        if member is not None and member not in names:
            raise InputError(f"{file} holds no array called '{member}'; it holds {listed}.")
        array: npt.NDArray[Any] = archive[names[0] if member is None else member]
    if not isinstance(array, np.ndarray):  # the bytes of a member that is no NPY file
        raise InputError(f"{file} holds '{member or names[0]}', which is no array; write it with numpy.savez.")
    return array


# Files in parts


@dataclass(frozen=True)
class NpyRows:
    """Rows `start` ... `start + rows - 1` of an NPY file."""

    path: Path
    start: int
    rows: int

    def read(self) -> npt.NDArray[Any]:
        """The rows, as an array in memory."""
        with _told_about(self.path):
            # The map goes when this returns, and with it the pages that reading has brought into memory.
            return np.array(_mapped(self.path)[self.start : self.start + self.rows])


@dataclass(frozen=True)
class ParquetRows:
    """Rows `start` ... `start + rows - 1` of a Parquet file."""

    path: Path
    start: int
    rows: int
    columns: tuple[str, ...] | None = None

    def read(self) -> polars.DataFrame:
        """The rows, as a table in memory."""
        with _told_about(self.path), _unheard:
            part = _scanned(self.path, self.columns).slice(self.start, self.rows).collect()
        return part  # type: ignore[no-any-return]

    def pieces(self) -> Iterator[polars.DataFrame]:
        """The rows, fewer at a time: what becomes of a table in float64 takes several times its memory."""
        part = self.read()
        return part.iter_slices(max(1, _PART // max(1, part.width)))


def npy_parts(path: str | Path) -> list[NpyRows]:
    """An NPY file in parts of some million numbers at most."""
    file = Path(path)
    with _open(file), _told_about(file):
        array = _mapped(file)
    if array.ndim == 0:
        raise InputError(f"{file} holds a single number, not rows; save a 2-D array, one row a point.")
    width = int(np.prod(array.shape[1:], dtype=np.int64))
    return [NpyRows(file, start, rows) for start, rows in _cuts(len(array), width, _PART)]


def parquet_parts(path: str | Path, columns: Sequence[str] | None = None) -> list[ParquetRows]:
    """A Parquet file in parts of some million numbers at most; of its columns those that are named, or all."""
    file = Path(path)
    chosen = None if columns is None else tuple(columns)
    with _open(file), _told_about(file), _unheard:
        names = _scanned(file, None).collect_schema().names()
        if absent := [name for name in chosen or () if name not in names]:
            raise InputError(f"{file} has no column {absent[0]!r}; it has {', '.join(names[:10])}.")
        rows = int(_scanned(file, None).select(_polars(file).len()).collect().item())
    # Larger than those of other files: polars finds a row of a row group by going through those before it.
    return [ParquetRows(file, *cut, chosen) for cut in _cuts(rows, len(chosen or names), 4 * _PART)]


def _cuts(rows: int, width: int, numbers: int) -> Iterator[tuple[int, int]]:
    step = max(1, numbers // max(1, width))
    return ((start, min(step, rows - start)) for start in range(0, rows, step))


def _mapped(file: Path) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise InputError(f"{file} is not an .npy file; write it with numpy.save.")
    return array


def _scanned(file: Path, columns: tuple[str, ...] | None) -> Any:
    lazy = _polars(file).scan_parquet(file, glob=False, hive_partitioning=False)
    return lazy if columns is None else lazy.select(columns)


_READERS: dict[str, Callable[[io.BufferedReader, Path], Table]] = {
    ".csv": partial(_read_text, separator=","),
    ".tsv": partial(_read_text, separator="\t"),
    ".parquet": _read_parquet,
    ".pq": _read_parquet,
    ".arrow": _read_arrow,
    ".feather": _read_arrow,
    ".ipc": _read_arrow,
    ".npy": _read_npy,
    ".npz": _read_npz,
}
