"""Files that inflate to more than the memory holds, and fields that never end, are sentences."""

from __future__ import annotations

import gzip
import resource
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from twosample import InputError
from twosample._data.streams import Stream
from twosample._files import limits
from twosample._files import text as textfiles
from twosample._files.formats import read_source
from twosample._files.limits import LengthCheck, inflated_size
from twosample._files.opening import ReadOptions, open_file

MIB = 2**20


@pytest.fixture
def small(monkeypatch):
    """Two MiB of memory, of which a sample may have half a MiB."""
    monkeypatch.setattr("twosample._files.opening.available_memory", lambda: 2 * MIB)


def zipped(path, *blocks: bytes):
    with gzip.open(path, "wb") as file:
        for block in blocks:
            file.write(block)
    return path


def rows_of(kind: str) -> tuple[bytes, bytes]:
    """The beginning of a file, and a MiB of rows of 0."""
    if kind.startswith("csv") or kind.startswith("tsv"):
        return b"a\n", b"0\n" * (MIB // 2)
    return b"", b'{"a":0}\n' * (MIB // 8)


@pytest.mark.parametrize("kind", ["csv.gz", "tsv.gz", "jsonl.gz", "ndjson.gz"])
@pytest.mark.parametrize("stream", [None, True])
def test_text_that_inflates_beyond_the_memory(tmp_path, small, kind, stream):
    header, rows = rows_of(kind)
    path = zipped(tmp_path / f"bomb.{kind}", header, *[rows] * 4)
    assert path.stat().st_size < MIB // 20
    with pytest.raises(InputError, match=r"bomb\..* over 100 times its size.*; .* --no-limit"):
        open_file(str(path), ReadOptions(stream=stream))


def test_an_array_that_inflates_beyond_the_memory(tmp_path, small):
    np.savez_compressed(tmp_path / "bomb.npz", np.zeros((MIB, 2)))
    with pytest.raises(InputError, match=r"bomb\.npz inflates from \d+ bytes to 16777344 or more"):
        open_file(str(tmp_path / "bomb.npz"))
    lifted = open_file(str(tmp_path / "bomb.npz"), ReadOptions(unlimited=True))
    assert isinstance(lifted, Stream)
    assert len(lifted) == MIB


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_a_table_that_inflates_beyond_the_memory(tmp_path, small, kind):
    table = pl.DataFrame({"a": np.zeros(4 * MIB)})
    path = tmp_path / f"bomb.{kind}"
    if kind == "parquet":
        table.write_parquet(path)
    else:
        table.write_ipc(path, compression="zstd")
    assert path.stat().st_size < MIB // 10
    with pytest.raises(InputError, match=rf"bomb\.{kind} inflates from \d+ bytes to 33554432 or"):
        open_file(str(path))
    assert isinstance(open_file(str(path), ReadOptions(unlimited=True)), Stream)


def test_pictures_that_inflate(tmp_path):
    Image.new("1", (20_000, 20_000)).save(tmp_path / "bomb.png")
    assert (tmp_path / "bomb.png").stat().st_size < MIB
    with pytest.raises(InputError, match=r"bomb\.png is too large a picture"):
        open_file(str(tmp_path))


def test_what_fits_is_no_bomb(tmp_path, monkeypatch):
    path = zipped(tmp_path / "zeros.csv.gz", *rows_of("csv"))
    assert len(open_file(str(path))) == MIB // 2
    # It does not fit, but neither does it inflate so much: it is read in parts.
    monkeypatch.setattr("twosample._files.opening.available_memory", lambda: 2 * MIB)
    numbers = np.random.default_rng(0).normal(size=200_000)
    text = "".join(f"{number}\n" for number in numbers)
    path = zipped(tmp_path / "numbers.csv.gz", b"a\n", text.encode())
    assert isinstance(open_file(str(path)), Stream)


def test_short_values_take_more_memory_than_their_text(tmp_path, small):
    (tmp_path / "digits.csv").write_bytes(b"a\n" + b"0\n" * (MIB // 8))  # 1/4 MiB, as numbers 1
    assert isinstance(open_file(str(tmp_path / "digits.csv")), Stream)


def test_inflated_size_stops_and_forgives(tmp_path):
    path = zipped(tmp_path / "a.gz", *[b"0" * MIB] * 8)
    assert inflated_size(path, 100 * MIB)[0] == 8 * MIB
    assert inflated_size(path, 2 * MIB)[0] <= 4 * MIB
    path.write_bytes(path.read_bytes()[:-20])
    assert inflated_size(path, 100 * MIB)[0] <= 8 * MIB
    path.write_bytes(path.read_bytes()[:10] + b"\xff" * 50)  # no deflate
    assert inflated_size(path, 100 * MIB)[0] == 0
    path.write_bytes(b"no gzip")
    assert inflated_size(path, 100 * MIB)[0] == 0


LONG = b"x" * (MIB + 1)


@pytest.mark.parametrize(
    "blocks",
    [
        (b"a,b\n1,2\n3,", LONG, b"\n"),
        (b'a,b\n1,2\n3,"', LONG, b'"\n'),
        (b'a,b\n1,2\n3,"', b"1,2\n" * (MIB // 4 + 1), b'"\n'),
        (b'a,b\n1,2\n3,"', b'""\n' * (MIB // 3 + 1), b'"\n'),
        (b"a,b\n1,2\n3,", LONG),
        (b"a,b\n1,2\n", LONG, LONG, b",2\n"),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_field_that_does_not_end(tmp_path, monkeypatch, blocks, ending, stream):
    monkeypatch.setattr(textfiles, "PIECE", 2**16)
    path = tmp_path / f"long.{ending}"
    if ending == "csv":
        path.write_bytes(b"".join(blocks))
    else:
        zipped(path, *blocks)
    with pytest.raises(InputError, match=r"line \d+: a field has more than 1048576 bytes"):
        open_file(str(path), ReadOptions(stream=stream))


@pytest.mark.parametrize("stream", [False, True])
def test_a_line_that_does_not_end(tmp_path, monkeypatch, stream):
    monkeypatch.setattr(limits, "LONGEST_LINE", 2**16)
    monkeypatch.setattr(limits, "LONGEST_FIELD", 2**12)
    (tmp_path / "long.csv").write_bytes(b"a,b\n" + b"1," * 2**16)
    with pytest.raises(InputError, match="line 2: a line has more than 65536 bytes"):
        open_file(str(tmp_path / "long.csv"), ReadOptions(stream=stream))
    (tmp_path / "long.jsonl").write_bytes(b'{"a": 1}\n{"a": [' + b"1," * 2**16)
    with pytest.raises(InputError, match="line 2: it has more than 65536 bytes"):
        open_file(str(tmp_path / "long.jsonl"), ReadOptions(stream=stream))


def test_a_text_that_is_too_long_in_records(tmp_path):
    (tmp_path / "long.jsonl").write_bytes(b'{"a": "' + LONG + b'"}\n')
    with pytest.raises(InputError, match="text of 1048577 characters in column 'a' at line 1"):
        read_source(tmp_path / "long.jsonl")
    with closing(sqlite3.connect(tmp_path / "long.db")) as database:
        database.execute("CREATE VIEW v AS SELECT hex(zeroblob(500000000)) AS a")
        database.execute("CREATE VIEW w AS SELECT hex(zeroblob(1000000)) AS a")
        database.commit()
    with pytest.raises(InputError, match="too big"):
        read_source(f"{tmp_path / 'long.db'}::v")
    with pytest.raises(InputError, match="text of 2000000 characters in column 'a'"):
        read_source(f"{tmp_path / 'long.db'}::w")


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_fields_and_lines_are_measured_whatever_the_blocks(monkeypatch, size):
    """Against the longest field by hand."""
    monkeypatch.setattr(limits, "LONGEST_FIELD", 20)
    monkeypatch.setattr(limits, "LONGEST_LINE", 60)
    rng = np.random.default_rng(size)
    for _ in range(300):
        fields = ["".join(rng.choice(list("ab\n,"), rng.integers(0, 24))) for _ in range(9)]
        quoted = [f'"{field}"' if set(field) & set("\n,") else field for field in fields]
        lines = [",".join(quoted[start : start + 3]) for start in (0, 3, 6)]
        text = "\n".join(lines).encode()
        check = LengthCheck(Path("file"), ",")
        too_long = max(map(len, quoted)) > 20 or max(map(len, lines)) > 60
        try:
            for start in range(0, len(text), size):
                check.see(text[start : start + size])
        except InputError:
            assert too_long
        else:
            # Within one block nothing is too long: blocks of the file are as long as a field may be.
            assert not too_long or size >= 20


def test_an_open_quotation_mark_takes_no_time_that_grows_with_its_square():
    text = b'a,"' + b'""\n' * 300_000
    assert textfiles._last_end(text) == 0
    assert textfiles._end_of_header(b"\n" * 300_000 + b"a,b\n1,2\n") == 300_004


@pytest.mark.slow
def test_a_gigabyte_in_a_megabyte_within_little_memory(tmp_path):
    """It took 7.4 GB and 150 s, and under a limit of memory it aborted."""
    path = tmp_path / "bomb.csv.gz"
    zipped(path, b"a,b\n1,", *[b"9" * MIB] * 1024)
    command = [sys.executable, "-m", "twosample", "test", str(path), str(path)]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))

    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, timeout=300)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {path}")
    assert done.stderr.count("\n") == 1
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    assert used < 1500  # megabytes, of all children of this process
