"""The other readers: what a file says according to Python's own modules, NumPy, pyarrow and
Pillow.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
import sqlite3
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
from cases import check, check_sentence, only_our_warnings
from PIL import Image, ImageOps

from twosample._data.survey import as_samples
from twosample._files.layout import AS_IT_SHOWS, Layout, find_dialect
from twosample._files.opening import ReadOptions, open_file
from twosample._files.parts import npy_parts, parquet_parts
from twosample.errors import InputError

MISSING = {"", "NA", "N/A", "n/a", "null", "NULL"}


def content_of(path: Path) -> bytes:
    """The bytes of a file, as they were before they were compressed."""
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == ".gz" else content


def agrees_with_csv(table: pl.DataFrame, path: Path, layout: Layout = AS_IT_SHOWS) -> None:
    """Every cell is what Python's own reader has there, by the layout that was found."""
    with only_our_warnings():
        dialect = find_dialect(path, layout)
    text = dialect.before + content_of(path).decode(dialect.encoding).removeprefix("\ufeff")
    text = text if "\n" in text else text.replace("\r", "\n")  # as old Macs end lines
    if dialect.separator == " ":  # any number of blanks, but for those within quotation marks
        lines = [re.sub(r'("[^"]*")|[ \t]+', _one_blank, line.strip()) for line in text.split("\n")]
        text = "\n".join(lines)
    source = io.StringIO(text, newline="")
    rows = list(csv.reader(source, delimiter=dialect.separator, strict=True))
    header, *body = [row for row in rows if row]
    names = [name.strip() or f"Unnamed: {place}" for place, name in enumerate(header)]
    check(table.columns == names, f"columns {table.columns}, not {header}")
    if len(header) == 1:  # a blank line may be a row whose value is missing
        check(len(body) <= table.height <= len(rows), f"{table.height} rows, not {len(body)}")
        return
    check(table.height == len(body), f"{table.height} rows, not {len(body)}")
    for column, name in enumerate(table.columns):
        for number, (value, row) in enumerate(zip(table[name].to_list(), body, strict=True)):
            check(len(row) == len(header), f"row {number} has {len(row)} fields")
            check(
                same(value, row[column], dialect.decimal),
                f"row {number}, column {name!r}: {value!r}, not {row[column]!r}",
            )


def _one_blank(match: re.Match[str]) -> str:
    return match[1] or " "


def same(value: Any, cell: str, decimal: str = ".") -> bool:
    """Whether a value is one that a cell stands for."""
    text = cell.strip()
    if decimal == "," and re.fullmatch(r"[-+]?\d*,\d+(?:[eE][-+]?\d+)?", text):
        if isinstance(value, str):
            value = float(value)
        text = text.replace(",", ".")
    if value is None:
        return text in MISSING
    if isinstance(value, bool):
        return text.lower() == str(value).lower()
    if isinstance(value, int):
        return int(text) == value
    if isinstance(value, float):
        return equal(value, float(text))
    if isinstance(value, str):
        return text == value.strip()  # Python strips some signs that Unicode has for no blanks
    return True  # a date, whose forms are polars' own


def equal(one: Any, other: Any) -> bool:
    """Whether two values are the same, as nan is to nan."""
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def agrees_with_json(table: pl.DataFrame, path: Path) -> None:
    """Every value is what Python's own reader has there."""
    rows = [json.loads(line) for line in io.BytesIO(content_of(path)) if line.strip()]
    names = list(dict.fromkeys(name for row in rows for name in row))
    check(table.columns == names, f"columns {table.columns}, not {names}")
    check_rows(table, [[row.get(name) for name in names] for row in rows])


def agrees_with_sqlite(table: pl.DataFrame, path: Path, query: str) -> None:
    """Every value is what SQLite gives."""
    with sqlite3.connect(path) as database:
        rows = database.execute(f"SELECT * FROM {query}" if " " not in query else query).fetchall()
    check_rows(table, [list(row) for row in rows])


def check_rows(table: pl.DataFrame, rows: list[list[Any]]) -> None:
    """The rows of a table are these; whole numbers may have become floats."""
    check(table.height == len(rows), f"{table.height} rows, not {len(rows)}")
    for number, (one, other) in enumerate(zip(table.rows(), rows, strict=True)):
        for value, expected in zip(one, other, strict=True):
            as_float = isinstance(value, float) and type(expected) is int
            if isinstance(value, date) and isinstance(expected, str):  # of JSON and SQLite
                check(_is_date(value, expected), f"row {number}: {value!r}, not {expected!r}")
                continue
            right = equal(value, float(expected) if as_float else expected)
            check(right, f"row {number}: {value!r}, not {expected!r}")


def _is_date(value: date, text: str) -> bool:
    """Whether a date is the one that a text stands for, in UTC if it has a zone."""
    instant = datetime.fromisoformat(text.strip())
    offset = instant.utcoffset()
    naive = instant.replace(tzinfo=None)
    return value == (naive if offset is None else naive - offset)


def agrees_with_pyarrow(table: pl.DataFrame, path: Path) -> None:
    """The same numbers, where pyarrow can read it too; and in parts as in one piece."""
    if path.suffix == ".parquet":
        parts = [part.read() for part in parquet_parts(path)]
        check(
            not parts or pl.concat(parts).equals(table, null_equal=True),
            "in parts it is something else",
        )
    try:
        other = pyarrow.parquet.read_table(path) if path.suffix == ".parquet" else read_arrow(path)
        other.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, TypeError):
        return  # it is stricter: it knows checks of text and of offsets that polars does not make
    check(table.columns == other.column_names, f"columns {table.columns}, not {other.column_names}")
    for name in table.columns:
        ours = table[name].to_list()
        theirs = other.column(name).to_pylist()
        check(repr(ours) == repr(theirs), f"column {name!r}: {ours!r}, not {theirs!r}"[:500])


def read_arrow(path: Path) -> pa.Table:
    """The table in an Arrow file, of either format."""
    if path.read_bytes()[:6] == b"ARROW1":
        return pa.ipc.open_file(path).read_all()
    return pa.ipc.open_stream(path.read_bytes()).read_all()


def agrees_with_numpy(array: np.ndarray, path: Path) -> None:
    """The same array as by `numpy.load`; an NPY file in parts as in one piece."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            check(_alike(array, archive[archive.files[0]]), "another array")
        return
    check(_alike(array, np.load(path, allow_pickle=False)), "another array")
    if not array.ndim or not array.nbytes:
        return
    try:
        parts = npy_parts(path)
    except InputError as error:
        check_sentence(str(error), path.name)
        return
    # Parts are in the order of bytes of this machine, the file may be in another.
    whole = np.concatenate([part.read() for part in parts]).astype(array.dtype)
    check(_alike(array, whole), "in parts it is something else")


def in_parts(data: str, layout: Layout = AS_IT_SHOWS) -> list[Any] | None:
    """The parts of a file that is streamed; None if it is refused, with a sentence."""
    try:
        with only_our_warnings():
            return list(open_file(data, ReadOptions(layout=layout, stream=True)))
    except InputError as error:
        check_sentence(str(error), data.partition("::")[0])
        return None


def agrees_in_parts(sample: Any, data: str, layout: Layout = AS_IT_SHOWS) -> None:
    """In parts it is what it is in one piece; only what has no rows may be refused."""
    parts = in_parts(data, layout)
    rows = 0 if isinstance(sample, np.ndarray) and not sample.ndim else len(sample)
    check(parts is not None or not rows, "refused in parts, but not as a whole")
    if not parts:
        check(not rows, "in parts it has no rows")
    elif isinstance(sample, np.ndarray):
        check(
            _alike(sample, np.concatenate(parts).astype(sample.dtype)),
            "in parts it is something else",
        )
    else:
        whole = pl.concat(parts, how="vertical_relaxed")
        check(whole.columns == sample.columns, f"in parts it has the columns {whole.columns}")
        check_rows(whole, [list(row) for row in sample.rows()])


def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    return (
        one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    )


def agrees_with_pillow(images: np.ndarray, folder: Path) -> None:
    """The pixels that Pillow shows, one picture after the other."""
    files = sorted(file for file in folder.iterdir() if file.suffix == ".png")
    check(len(images) == len(files), f"{len(images)} pictures of {len(files)}")
    for pixels, file in zip(images, files, strict=True):
        with Image.open(file) as picture:
            mode = "L" if pixels.ndim == 2 else {3: "RGB", 4: "RGBA"}[pixels.shape[2]]
            shown = np.asarray(ImageOps.exif_transpose(picture).convert(mode))
        check(np.array_equal(pixels, shown), f"{file.name} has other pixels")


def check_samples(sample: Any) -> None:
    """What was read can be tested, or there is a sentence."""
    try:
        with only_our_warnings():
            samples = as_samples(sample, sample)
    except InputError as error:
        check_sentence(str(error))
        return
    check(len(samples.x) == len(sample), "rows were lost")
    check(bool(samples.x.isfinite().all()), "values that are not finite")
