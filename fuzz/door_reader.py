"""Files: every reader against another one, Python's `csv` for text, NumPy and pyarrow for the rest."""

from __future__ import annotations

import csv
import io
import math
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq
from cases import ACCEPTED, REFUSED, Case, check, check_sentence, only_our_warnings
from mutations import NUMBERS, Rng, altered_bytes, altered_table, pick

from twosample.errors import InputError
from twosample.files import npy_parts, parquet_parts, read
from twosample.samples import as_samples

MISSING = {"", "NA", "N/A", "null", "NULL"}
DEMO = Path(__file__).parents[1] / "demo"

TABLE = pl.DataFrame(
    {
        "size": [1.5, 2.25, -3.0, 1e300, 0.1, 7.0] * 3,
        "count": [1, 2, 3, 2**53, -5, 0] * 3,
        "kind": ["a", "b", "ü", "a", "日", ""] * 3,
        "new": [True, False, True, True, False, False] * 3,
        "gap": [1.0, None, 3.0, None, 5.0, 6.0] * 3,
    }
)


def _bytes(write: Callable[[io.BytesIO], object]) -> bytes:
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


def _seeds() -> dict[str, list[bytes]]:
    """Small files that are right, by ending, from several writers."""
    orders = "".join((DEMO / "orders_last_month.csv").read_text().splitlines(keepends=True)[:9])
    blobs = "".join((DEMO / "blob_p.csv").read_text().splitlines(keepends=True)[:9])
    table = TABLE.to_arrow()
    plain, grid = np.arange(20.0).reshape(10, 2), np.arange(96, dtype=np.uint8).reshape(6, 4, 4)
    arrays = [plain, grid, np.arange(5) > 2, np.arange(3, dtype=">i4"), np.asfortranarray(plain), np.zeros((0, 2))]
    parquet = [
        _bytes(lambda stream, options=options: pq.write_table(table, stream, **options))
        for options in (
            {},
            {"compression": "none"},
            {"compression": "gzip", "row_group_size": 5},
            {"use_dictionary": False},
        )
    ]
    arrow = [_bytes(TABLE.write_ipc), _bytes(lambda stream: TABLE.write_ipc(stream, compression="zstd"))]
    feather = _bytes(lambda stream: pyarrow.feather.write_feather(table, stream, compression="uncompressed"))
    return {
        ".csv": [orders.encode(), blobs.encode(), TABLE.write_csv().encode()],
        ".tsv": [orders.replace(",", "\t").encode(), TABLE.write_csv(separator="\t").encode()],
        ".parquet": [_bytes(TABLE.write_parquet), *parquet],
        ".arrow": [*arrow, feather, _bytes(TABLE.write_ipc_stream)],
        ".npy": [_bytes(lambda stream, array=array: np.save(stream, array)) for array in arrays],
        ".npz": [
            _bytes(lambda stream: np.savez(stream, plain)),
            _bytes(lambda stream: np.savez_compressed(stream, images=grid, labels=plain)),
        ],
    }


class Door:
    """Files with the endings that `twosample.files.read` knows."""

    def __init__(self) -> None:
        self.seeds = _seeds()

    def case(self, rng: Rng) -> Case:
        """A file with an ending, from one that was right."""
        ending = pick(rng, [".csv", ".csv", ".tsv", ".parquet", ".arrow", ".npy", ".npz"])
        seed = pick(rng, self.seeds[ending])
        how, content = self._made(ending, seed, rng)
        if rng.random() < 0.02:
            how, ending = "misnamed", pick(rng, list(self.seeds))
        return Case(f"{ending[1:]}: {how}", {f"case{ending}": content})

    def _made(self, ending: str, seed: bytes, rng: Rng) -> tuple[str, bytes]:
        if ending in (".csv", ".tsv") and rng.random() < 0.85:
            return "fields", altered_table(seed.decode(), "," if ending == ".csv" else "\t", rng)
        if ending == ".npy" and rng.random() < 0.5:
            return "header", npy_with_lies(rng)
        if ending == ".npz" and rng.random() < 0.4:
            return "archive", npz_with_lies(rng)
        return "bytes", altered_bytes(seed, rng)

    def judge(self, case: Case) -> str:
        """Read it, and compare with what another reader finds."""
        (name,) = case.files
        path = Path(name)
        try:
            with only_our_warnings():
                found = read(path)
        except InputError as error:
            check_sentence(str(error), name)
            return REFUSED
        compare = {".csv": agrees_with_csv, ".tsv": agrees_with_csv, ".parquet": agrees_with_pyarrow}
        compare |= {".arrow": agrees_with_pyarrow, ".npy": agrees_with_numpy, ".npz": agrees_with_numpy}
        compare[path.suffix](found, path)
        check_samples(found)
        return ACCEPTED


# Lies in headers


def npy_with_lies(rng: Rng) -> bytes:
    """An NPY file whose header says what it likes."""
    descr = pick(
        rng,
        [
            "'<f8'",
            "'<f4'",
            "'|u1'",
            "'>i8'",
            "'|O'",
            "'<U3'",
            "'|V8'",
            "[('a','<f8')]",
            "'<M8[D]'",
            "'<c16'",
            "'|b1'",
            "'<f2'",
            "'<g'",
            "'x'",
            "'<f8000'",
            "[]",
            "None",
            "'<U999999999'",
            "('<f8',(2,))",
            "'|S0'",
            "'<m8'",
        ],
    )
    number = str(pick(rng, NUMBERS))
    shape = pick(
        rng,
        [
            "(2, 3)",
            "(6,)",
            "()",
            "(0,)",
            "(2,-3)",
            f"({number},)",
            f"({number}, {number})",
            "(2.0,)",
            "(True,)",
            "[2,3]",
            "(" + "1," * 70 + ")",
            "6",
            "None",
            "(2, 3",
        ],
    )
    order = pick(rng, ["False", "True", "0", "None", "'F'"])
    header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"
    if rng.random() < 0.2:
        header = pick(
            rng,
            [
                "{",
                "{}",
                "(" * 2000,
                "[" * 60_000,
                "__import__('os').system('true')",
                header + "x",
                "{'a': 1}",
                header * 2,
                "-" * 5000 + "1",
                header.replace("'shape'", "'shape', 'x'"),
            ],
        )
    text = header.encode() + b" " * int(pick(rng, [0, 1, 63])) + b"\n"
    version, width = pick(rng, [((1, 0), "<H"), ((2, 0), "<I"), ((3, 0), "<I"), ((4, 0), "<I"), ((0, 9), "<H")])
    length = len(text) if rng.random() < 0.8 else int(pick(rng, NUMBERS))
    size = struct.pack(width, length % 256 ** struct.calcsize(width))
    return b"\x93NUMPY" + bytes(version) + size + text + np.arange(6.0).tobytes()[: int(pick(rng, [48, 48, 47, 0]))]


def npz_with_lies(rng: Rng) -> bytes:
    """A zip archive whose members are odd: names, kinds, sizes, a bomb of some hundred megabytes."""
    good = _bytes(lambda stream: np.save(stream, np.arange(6.0)))
    stream = io.BytesIO()
    with zipfile.ZipFile(
        stream, "w", pick(rng, [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    ) as file:
        for _ in range(int(rng.integers(0, 3))):
            name = pick(
                rng,
                [
                    "a.npy",
                    "a.npy",
                    "b",
                    "../x.npy",
                    "/etc/x.npy",
                    "a/b.npy",
                    ".npy",
                    "",
                    "é.npy",
                    "a\nb.npy",
                    "x" * 300,
                    "a.txt",
                ],
            )
            content = pick(rng, [good, npy_with_lies(rng), b"", b"text", altered_bytes(good, rng), b"\x80\x04N."])
            try:
                with __import__("warnings").catch_warnings():
                    __import__("warnings").simplefilter("ignore")  # of a name that is there already
                    file.writestr(name, content)
            except (ValueError, IndexError):
                continue
        if rng.random() < 0.03:
            file.writestr("bomb.npy", _bomb(), zipfile.ZIP_DEFLATED)
    return stream.getvalue() if rng.random() < 0.6 else altered_bytes(stream.getvalue(), rng)


def _bomb() -> bytes:
    header = _bytes(
        lambda stream: np.lib.format.write_array_header_1_0(
            stream, {"descr": "|u1", "fortran_order": False, "shape": (2**40,)}
        )
    )
    return header + bytes(2**26)


# The other readers


def agrees_with_csv(found: pl.DataFrame, path: Path) -> None:
    """Every cell is what Python's own reader has there."""
    separator = "," if path.suffix == ".csv" else "\t"
    text = path.read_bytes().decode("utf-8-sig")
    text = text if "\n" in text else text.replace("\r", "\n")
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True) if row]
    header, *body = rows
    check(found.columns == [name.strip() for name in header], f"columns {found.columns}, not {header}")
    if len(header) == 1:
        body_or_blank = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True))
        check(len(body) <= found.height <= len(body_or_blank), f"{found.height} rows, not {len(body)}")
        return
    check(found.height == len(body), f"{found.height} rows, not {len(body)}")
    for column, name in enumerate(found.columns):
        for number, (value, row) in enumerate(zip(found[name].to_list(), body, strict=True)):
            check(len(row) == len(header), f"row {number} has {len(row)} fields")
            check(same(value, row[column]), f"row {number}, column {name!r}: {value!r}, not {row[column]!r}")


def same(value: Any, cell: str) -> bool:
    """Whether a value is one that a cell stands for."""
    text = cell.strip()
    if value is None:
        return text in MISSING
    if isinstance(value, bool):
        return text.lower() == str(value).lower()
    if isinstance(value, int):
        return int(text) == value
    if isinstance(value, float):
        number = float(text)
        return number == value or (math.isnan(number) and math.isnan(value))
    return text == value if isinstance(value, str) else True  # a date, whose forms are polars' own


def agrees_with_pyarrow(found: pl.DataFrame, path: Path) -> None:
    """The same numbers, where pyarrow can read it too; and in parts as in one piece."""
    if path.suffix == ".parquet":
        parts = [part.read() for part in parquet_parts(path)]
        check(not parts or pl.concat(parts).equals(found, null_equal=True), "in parts it is something else")
    try:
        other = pq.read_table(path) if path.suffix == ".parquet" else read_arrow(path)
        other.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, TypeError):
        return  # it is stricter: it knows checks of text and of offsets that polars does not make
    check(found.columns == other.column_names, f"columns {found.columns}, not {other.column_names}")
    for name in found.columns:
        ours, theirs = found[name].to_list(), other.column(name).to_pylist()
        check(repr(ours) == repr(theirs), f"column {name!r}: {ours!r}, not {theirs!r}"[:500])


def read_arrow(path: Path) -> pa.Table:
    """The table in an Arrow file, of either format."""
    if path.read_bytes()[:6] == b"ARROW1":
        return pa.ipc.open_file(path).read_all()
    return pa.ipc.open_stream(path.read_bytes()).read_all()


def agrees_with_numpy(found: np.ndarray, path: Path) -> None:
    """The same array as by `numpy.load`; an NPY file in parts as in one piece."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            check(_equal(found, archive[archive.files[0]]), "another array")
        return
    check(_equal(found, np.load(path, allow_pickle=False)), "another array")
    if found.ndim and found.nbytes:
        try:
            parts = npy_parts(path)
        except InputError as error:
            check_sentence(str(error), path.name)
            return
        whole = np.concatenate([part.read() for part in parts]).astype(found.dtype)  # in the order of bytes of the file
        check(_equal(found, whole), "in parts it is something else")


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def check_samples(found: Any) -> None:
    """What was read can be tested, or there is a sentence."""
    try:
        with only_our_warnings():
            samples = as_samples(found, found)
    except InputError as error:
        check_sentence(str(error))
        return
    check(len(samples.x) == len(found), "rows were lost")
    check(bool(samples.x.isfinite().all()), "values that are not finite")
