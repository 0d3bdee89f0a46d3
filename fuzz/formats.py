"""Small files that are right, by ending, and files whose headers say what they like."""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.feather
import pyarrow.parquet
from mutations import (
    FIELDS,
    NUMBERS,
    ODD,
    Rng,
    altered_bytes,
    altered_table,
    altered_tree,
    deep_json,
    json_text,
    pick,
)
from PIL import Image

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


def written(write: Callable[[io.BytesIO], object]) -> bytes:
    """What a function writes to a file."""
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


def _arrays() -> list[np.ndarray]:
    plain = np.arange(20.0).reshape(10, 2)
    whole = np.arange(3, dtype=">i4")
    return [
        plain,
        np.arange(96, dtype=np.uint8).reshape(6, 4, 4),
        np.arange(5) > 2,
        whole,
        plain.T,
        np.zeros((0, 2)),
    ]


def _parquet() -> list[bytes]:
    table = TABLE.to_arrow()
    options: list[dict[str, Any]] = [
        {},
        {"compression": "none"},
        {"compression": "gzip", "row_group_size": 5},
        {"use_dictionary": False},
    ]
    by_arrow = [
        written(lambda stream, o=each: pyarrow.parquet.write_table(table, stream, **o))
        for each in options
    ]
    return [written(TABLE.write_parquet), *by_arrow]


def _arrow() -> list[bytes]:
    plain = {"compression": "uncompressed"}
    return [
        written(TABLE.write_ipc),
        written(lambda stream: TABLE.write_ipc(stream, compression="zstd")),
        written(lambda stream: pyarrow.feather.write_feather(TABLE.to_arrow(), stream, **plain)),
        written(TABLE.write_ipc_stream),
    ]


def _database() -> bytes:
    with sqlite3.connect(":memory:") as database:
        database.execute(
            "CREATE TABLE t (size REAL, count INTEGER, kind TEXT, new BOOLEAN, gap REAL)"
        )
        database.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", TABLE.rows())
        return database.serialize()


def _pictures() -> list[bytes]:
    grey = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8))
    forms = [
        ("PNG", "L"),
        ("JPEG", "L"),
        ("PNG", "RGB"),
        ("JPEG", "RGB"),
        ("PNG", "P"),
        ("PNG", "RGBA"),
        ("PNG", "1"),
    ]
    return [
        written(lambda stream, k=kind, m=mode: grey.convert(m).save(stream, k))
        for kind, mode in forms
    ]


def _first_lines(path: Path) -> str:
    return "".join(path.read_text().splitlines(keepends=True)[:9])


def seeds() -> dict[str, list[bytes]]:
    """The files that are right, from several writers."""
    orders = _first_lines(DEMO / "orders_last_month.csv")
    blobs = _first_lines(DEMO / "blob_p.csv")
    tables = [orders.encode(), blobs.encode(), TABLE.write_csv().encode()]
    tabs = [orders.replace(",", "\t").encode(), TABLE.write_csv(separator="\t").encode()]
    rows = [TABLE.write_ndjson().encode(), pl.read_csv(orders.encode()).write_ndjson().encode()]
    plain, grid, *_ = _arrays()
    return {
        ".csv": tables,
        ".tsv": tabs,
        ".csv.gz": [gzip.compress(each, mtime=0) for each in tables],
        ".jsonl": rows,
        ".jsonl.gz": [gzip.compress(each, mtime=0) for each in rows],
        ".parquet": _parquet(),
        ".arrow": _arrow(),
        ".npy": [written(lambda stream, a=array: np.save(stream, a)) for array in _arrays()],
        ".npz": [
            written(lambda stream: np.savez(stream, plain)),
            written(lambda stream: np.savez_compressed(stream, images=grid, labels=plain)),
        ],
        ".db": [_database()],
        ".png": _pictures(),
    }


def altered(ending: str, seed: bytes, rng: Rng) -> tuple[str, bytes]:
    """How a file of an ending was changed, and what became of it."""
    if ending in (".csv", ".tsv") and rng.random() < 0.85:
        return "fields", altered_table(seed.decode(), "," if ending == ".csv" else "\t", rng)
    if ending == ".jsonl" and rng.random() < 0.8:
        return "values", altered_lines(seed, rng)
    if ending.endswith(".gz") and rng.random() < 0.6:
        return "compressed", zipped_with_lies(gzip.decompress(seed), ending, rng)
    if ending == ".npy" and rng.random() < 0.5:
        return "header", npy_with_lies(rng)
    if ending == ".npz" and rng.random() < 0.4:
        return "archive", npz_with_lies(rng)
    if ending == ".png" and rng.random() < 0.2:
        return "header", png_with_lies(seed, rng)
    return "bytes", altered_bytes(seed, rng)


def altered_lines(content: bytes, rng: Rng) -> bytes:
    """JSON lines with values, names and lines changed."""
    lines = content.decode().splitlines()
    odd = [*ODD, *FIELDS]
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(len(lines)))
        how = int(rng.integers(10))
        if how == 0:
            lines.insert(
                place,
                pick(rng, ["", " ", "null", "[1, 2]", "3", '"x"', "{}", "[", deep_json(2000, rng)]),
            )
        elif how == 1:
            lines.insert(place, deep_json(int(pick(rng, [20, 900, 20_000])), rng))
        elif how == 2:
            name = pick(rng, FIELDS)
            value = pick(rng, odd)
            lines = [_with(line, name, value) for line in lines]
        else:
            with suppress(ValueError, RecursionError):
                lines[place] = json_text(altered_tree(json.loads(lines[place]), rng, odd), rng)
    return (pick(rng, ["\n", "\n", "\n", "\r\n", "\r"]).join(lines) + pick(rng, ["\n", ""])).encode(
        "utf-8", "replace"
    )


def _with(line: str, name: str, value: Any) -> str:
    try:
        return json.dumps(json.loads(line) | {name: value})
    except (ValueError, TypeError, RecursionError):
        return line


def zipped_with_lies(content: bytes, ending: str, rng: Rng) -> bytes:
    """A gzip file of something odd, in several members, with more behind it, or a bomb of some
    megabytes.
    """
    inner = altered(ending.removesuffix(".gz"), content, rng)[1]
    good = gzip.compress(inner, mtime=0)
    how = int(rng.integers(6))
    if how == 0:
        return good + pick(rng, [b"\0" * 20, b"x", good, good[:15], rng.bytes(9)])
    if how == 1:
        return gzip.compress(good, mtime=0)
    if how == 2:
        return gzip.compress(inner[: len(inner) // 2], mtime=0) + gzip.compress(
            inner[len(inner) // 2 :], mtime=0
        )
    if how == 3 and rng.random() < 0.1:
        return gzip.compress(content + bytes(2**25), mtime=0)
    return good if how == 4 else inner


def npy_with_lies(rng: Rng) -> bytes:
    """An NPY file whose header says what it likes."""
    descr = pick(
        rng,
        [
            *(
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
            ),
            *(
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
            ),
        ],
    )
    number = str(pick(rng, NUMBERS))
    shapes = [
        "(2, 3)",
        "(6,)",
        "()",
        "(0,)",
        "(2,-3)",
        f"({number},)",
        f"({number}, {number})",
        "(2.0,)",
        "(True,)",
    ]
    shape = pick(rng, [*shapes, "[2,3]", "(" + "1," * 70 + ")", "6", "None", "(2, 3"])
    order = pick(rng, ["False", "True", "0", "None", "'F'"])
    header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"
    if rng.random() < 0.2:
        others = [
            "{",
            "{}",
            "(" * 2000,
            "[" * 60_000,
            "__import__('os').system('true')",
            "{'a': 1}",
            "-" * 5000 + "1",
        ]
        header = pick(
            rng, [*others, header + "x", header * 2, header.replace("'shape'", "'shape', 'x'")]
        )
    text = header.encode() + b" " * int(pick(rng, [0, 1, 63])) + b"\n"
    version, width = pick(
        rng, [((1, 0), "<H"), ((2, 0), "<I"), ((3, 0), "<I"), ((4, 0), "<I"), ((0, 9), "<H")]
    )
    length = len(text) if rng.random() < 0.8 else int(pick(rng, NUMBERS))
    size = struct.pack(width, length % 256 ** struct.calcsize(width))
    return (
        b"\x93NUMPY"
        + bytes(version)
        + size
        + text
        + np.arange(6.0).tobytes()[: int(pick(rng, [48, 48, 47, 0]))]
    )


_MEMBERS = [
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
]
_PACKINGS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]


def npz_with_lies(rng: Rng) -> bytes:
    """A zip archive whose members are odd: names, kinds, sizes, a bomb of some megabytes."""
    good = written(lambda stream: np.save(stream, np.arange(6.0)))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", pick(rng, _PACKINGS)) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a name that is there already
        for _ in range(int(rng.integers(0, 3))):
            content = pick(
                rng,
                [good, npy_with_lies(rng), b"", b"text", altered_bytes(good, rng), b"\x80\x04N."],
            )
            with suppress(ValueError, IndexError):
                file.writestr(pick(rng, _MEMBERS), content)
        if rng.random() < 0.03:
            file.writestr("bomb.npy", _bomb(), zipfile.ZIP_DEFLATED)
    return stream.getvalue() if rng.random() < 0.6 else altered_bytes(stream.getvalue(), rng)


def _bomb() -> bytes:
    header = {"descr": "|u1", "fortran_order": False, "shape": (2**40,)}
    return written(lambda stream: np.lib.format.write_array_header_1_0(stream, header)) + bytes(
        2**26
    )


def png_with_lies(seed: bytes, rng: Rng) -> bytes:
    """A picture that says it is of another size."""
    if not seed.startswith(b"\x89PNG"):
        return altered_bytes(seed, rng)
    sizes = [0, 1, 8, 9, 10_000, 60_000, 2**31 - 1, 2**32 - 1]
    width = int(pick(rng, sizes))
    height = int(pick(rng, sizes))
    start = seed[:12] + b"IHDR" + struct.pack(">II", width, height) + seed[24:29]
    return start + struct.pack(">I", zlib.crc32(start[12:])) + seed[33:]
