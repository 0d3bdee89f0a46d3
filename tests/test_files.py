"""The file readers: what each format gives, and a sentence with the file's name for whatever is
wrong with one."""

from __future__ import annotations

import contextlib
import gzip
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twosample import Columns
from twosample._files.formats import read_source
from twosample._files.opening import ReadOptions, open_file
from twosample.errors import InputError


def read(path):
    """The contents of a file, without where its rows stand."""
    return read_source(path).data


TABLE = pl.DataFrame({"size": [1.5, 2.5, 3.5], "kind": ["a", "b", "a"], "new": [True, False, True]})


def text(folder: Path, content: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# What comes out


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("t.csv", pl.DataFrame.write_csv),
        ("t.CSV", pl.DataFrame.write_csv),
        ("t.tsv", lambda table, path: table.write_csv(path, separator="\t")),
        ("t.parquet", pl.DataFrame.write_parquet),
        ("t.pq", pl.DataFrame.write_parquet),
        ("t.arrow", pl.DataFrame.write_ipc),
        ("t.feather", pl.DataFrame.write_ipc),
        ("t.ipc", pl.DataFrame.write_ipc_stream),
        ("t[1]*?.csv", pl.DataFrame.write_csv),
    ],
)
def test_tables_come_back_as_they_were_written(tmp_path, name, write):
    write(TABLE, path := tmp_path / name)
    assert read(path).equals(TABLE)
    assert read(str(path)).equals(TABLE)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.uint8, np.bool_])
@pytest.mark.parametrize("shape", [(5,), (5, 2), (5, 4, 4, 3), (0, 2)])
def test_arrays_come_back_as_they_were_written(tmp_path, kind, shape):
    array = np.arange(np.prod(shape)).reshape(shape).astype(kind)
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "a.npz", anything=array)
    np.savez_compressed(tmp_path / "b.npz", images=array, labels=np.zeros(3))
    for name in ("a.npy", "a.npz", "b.npz::images"):
        found = read(f"{tmp_path}/{name}")
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize(
    ("content", "column", "values"),
    [
        ("v\n1\n2\n", pl.Int64, [1, 2]),
        ('v\n"1"\n"2"\n', pl.Int64, [1, 2]),
        ("v\n1e3\n-inf\n", pl.Float64, [1000.0, -np.inf]),
        ("v,w\n1,2\nNA,2\n,2\nN/A,2\nnull,2\n", pl.Float64, [1, None, None, None, None]),
        ("v\ntrue\nfalse\n", pl.Boolean, [True, False]),
        ("v\nTrue\nFalse\n", pl.Boolean, [True, False]),
        ("w,v\n1, true\n2, FALSE\n", pl.Boolean, [True, False]),
        ("w, v\n1, 2.5\n1, 3\n", pl.Float64, [2.5, 3.0]),
        ("w,v\n1, red \n1,blue\n", pl.String, ["red", "blue"]),
        ("v\nyes\nno\n", pl.String, ["yes", "no"]),
        ("v\n2020-02-13\n2020-02-14\n", pl.Date, None),
        ("v\n2020-02-13 10:00:00\n", pl.Datetime, None),
        ('v,w\n"a, b",1\n"c ""d""",2\n', pl.String, ["a, b", 'c "d"']),
        ('v,w\n"two\nlines",1\n', pl.String, ["two\nlines"]),
        ("\ufeffv,w\r\n1,2\r\n3,4\r\n", pl.Int64, [1, 3]),
        ("\n\nv,w\n1,2\n\n3,4\n\n\n", pl.Int64, [1, 3]),
        ("v,w\n1,2\n\n3,\n", pl.Int64, [1, 3]),
        ("v,w\n,\n1,2\n", pl.Int64, [None, 1]),
        ("v\n" + "1\n" * 5000 + "1.5\n", pl.Float64, [1.0] * 5000 + [1.5]),
        ("v\n" + "1\n" * 5000 + "x\n", pl.String, ["1"] * 5000 + ["x"]),
        ("v,w\n", pl.String, []),
        ("v\n1", pl.Int64, [1]),
    ],
)
def test_types_of_text(tmp_path, content, column, values):
    found = read(text(tmp_path, content))["v"]
    if found.dtype.is_numeric() and column.is_numeric():
        found = found.cast(column)
    assert found.dtype == column
    assert values is None or found.to_list() == values


def test_nan_in_text_is_a_number(tmp_path):
    found = read(text(tmp_path, "v,w\nnan,1\nNaN,2\n2.5,3\n"))["v"]
    assert found.dtype == pl.Float64
    assert found.is_nan().to_list() == [True, True, False]


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ('a,"pipe 12"""', ["a", 'pipe 12"']),
        ('"""a""",b', ['"a"', "b"]),
        ('"a ""x"" y","b"""', ['a "x" y', 'b"']),
        ('a,""""', ["a", '"']),
        ('"a"",b",c', ['a",b', "c"]),
        ('"a\nb""",c', ['a\nb"', "c"]),
        ('\ufeff"a""",b', ['a"', "b"]),
        ('\n\na,"b"""', ["a", 'b"']),
        (' a ," b"""', ["a", 'b"']),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_quotation_marks_in_names(tmp_path, header, names, stream):
    path = text(tmp_path, f'{header}\n1,02139\n3,"0""4"\n')
    for rules in (Columns(), Columns(kinds={names[1]: "category"})):
        sample = open_file(str(path), ReadOptions(rules=rules, stream=stream))
        if stream:
            (table,) = (pl.DataFrame(part.read()) for part in sample.partitions)
        else:
            table = sample.data
        assert table.columns == names
        assert table[names[0]].to_list() == [1, 3]
        assert table[names[1]].to_list() == ["02139", '0"4']


ROWS = "".join(f"{row},{row % 3},k{row % 4}\n" for row in range(2500))


@pytest.mark.parametrize(
    "content",
    [
        "a,b,c\n" + ROWS,
        "a,b,c\n" + ROWS + "1.5,2,x\n",  # a fraction comes late
        "a,b,c\n" + ROWS + "n/a,NA,\n",
        "a,b,c\n" + ROWS + '1,2,"x,y"\n',
        "a,b,c\n" + ROWS + "1,2,é\n",
        "a,b,c\n" + ROWS.replace(",k", ",2026-01-0"),
        "a;b;c\n" + ROWS.replace(",", ";"),
        "a;b;c\n" + ROWS.replace(",k", ";1,").replace(",", ";", 1),
        "\na,b,c\n" + ROWS,
        "a,b,c\r\n" + ROWS.replace("\n", "\r\n"),
        "a,b,c\n" + ROWS + "1,2\n",
        "a,b,c\n" + ROWS + "1,2,3,4\n",
    ],
)
@pytest.mark.parametrize("kinds", [{}, {"b": "category"}])
@pytest.mark.filterwarnings("ignore::twosample.InputNote")
def test_a_file_that_is_read_ahead_gives_the_same(tmp_path, monkeypatch, content, kinds):
    path = text(tmp_path, content)

    def outcome():
        try:
            return read_source(path, Columns(kinds=kinds)).data
        except InputError as error:
            return str(error)

    whole = outcome()
    monkeypatch.setattr("twosample._files.text._LARGE", 1)
    ahead = outcome()
    if isinstance(whole, str):
        assert ahead == whole
    else:
        assert ahead.equals(whole)
        assert ahead.dtypes == whole.dtypes


def test_a_mark_and_a_blank_line_before_the_names(tmp_path):
    table = read(text(tmp_path, "\ufeff\nx,y"))
    assert table.columns == ["x", "y"]
    assert not len(table)


def test_names_that_are_whole_numbers_are_names(tmp_path):
    assert read(text(tmp_path, "0,1,2\n5,6,7\n")).columns == ["0", "1", "2"]


def test_a_name_with_colons_is_a_file(tmp_path):
    assert len(read(text(tmp_path, "a\n1\n", "x::y.csv"))) == 1


# What goes wrong


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"is empty \(0 bytes\)"),
        ("\n\n", "no line with text"),
        ("a,b\n1,2\n3\n", "line 3: 1 field where the header has 2"),
        ("a,b\n1,2\n3,4,5\n", "line 3: 3 fields where the header has 2"),
        ('a,b\n"x\ny",2\n3,4,5\n', "line 4: 3 fields where the header has 2"),
        ("a,b\n1,2\n\n3\n", "line 4: 1 field where the header has 2"),
        ('a,b\n1,"2\n3,4\n', "quotation mark"),
        ("a,b,a\n1,2,3\n", "2 columns called 'a'"),
        ("a, a\n1,2\n", "2 columns called 'a'"),
        ("0.5,1\n2,3\n", r"begins with data \(0.5, 1\) .* --no-header"),
        ("5,3,1\n2,3,5\n", r"begins with data \(5, 3, 1\) .* --no-header"),
        ("1,red\n2,blue\n3,red\n", r"begins with data \(1, red\) .* --no-header"),
        (b"PK\x03\x04\n1\n", "is it of another kind"),
        (b"a,b\n\x81,2\n", r"not UTF-8 text \(line 2\)"),
        (b"a,b\n" + b"1,2\n" * 5000 + b"\x01\xff,2\n", r"not UTF-8 text \(line 5002\)"),
        (b"\xff\xfea,b", "not text in utf-16"),
    ],
)
def test_text_that_cannot_be_read(tmp_path, content, message):
    path = text(tmp_path, content)
    with pytest.raises(InputError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("ending", ["parquet", "pq", "arrow", "feather", "ipc", "npy", "npz"])
@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"ARROW1\0\0", b"PK\x03\x04", b"\x93NUMPY", bytes(range(256)) * 4]
)
def test_files_that_are_not_what_they_say(tmp_path, ending, content):
    path = text(tmp_path, content, f"f.{ending}")
    with pytest.raises(InputError, match=r"f\."):
        read(path)


@pytest.mark.parametrize("ending", ["parquet", "arrow", "ipc", "npy", "npz"])
def test_files_that_were_cut_short(tmp_path, ending):
    path = tmp_path / f"whole.{ending}"
    array = np.arange(400.0)
    {
        "parquet": lambda: pl.DataFrame({"a": array}).write_parquet(path),
        "arrow": lambda: pl.DataFrame({"a": array}).write_ipc(path),
        "ipc": lambda: pl.DataFrame({"a": array}).write_ipc_stream(path),
        "npy": lambda: np.save(path, array),
        "npz": lambda: np.savez(path, array),
    }[ending]()
    whole = path.read_bytes()
    for part in (0.3, 0.6, 0.9):
        with pytest.raises(InputError, match="cut short"):
            read(text(tmp_path, whole[: int(len(whole) * part)], f"cut.{ending}"))


def test_python_objects_are_not_unpickled(tmp_path):
    path = tmp_path / "objects.npy"
    np.save(path, np.array([{"a": 1}, None], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "objects.npz", np.array([None], dtype=object))
    text(tmp_path, pickle.dumps([1, 2, 3]), "pickle.npz")
    for name, message in (
        ("objects.npy", "Python objects"),
        ("objects.npz", "Python objects"),
        ("pickle.npz", "savez"),
    ):
        with pytest.raises(InputError, match=message):
            read(tmp_path / name)


def test_a_header_that_claims_too_much_memory(tmp_path):
    np.save(path := tmp_path / "a.npy", np.zeros((7, 11)))
    path.write_bytes(path.read_bytes().replace(b"(7, 11)", b"(7777777777777, 11)".ljust(7)))
    with pytest.raises(InputError, match=r"a\.npy"):
        read(path)


def test_archives_with_several_arrays_or_none(tmp_path):
    np.savez(tmp_path / "two.npz", images=np.zeros(3), labels=np.zeros(3))
    np.savez(tmp_path / "none.npz")
    with pytest.raises(
        InputError, match=r"holds 2 arrays \(images, labels\); pick one as in .*two\.npz::images"
    ):
        read(tmp_path / "two.npz")
    with pytest.raises(InputError, match="holds no array called 'image'; it holds images, labels"):
        read(f"{tmp_path}/two.npz::image")
    with pytest.raises(InputError, match="holds 0 arrays"):
        read(tmp_path / "none.npz")


def test_paths_that_lead_nowhere(tmp_path):
    text(tmp_path, "a\n1\n")
    for path, message in [
        (tmp_path / "absent.csv", r"absent\.csv does not exist"),
        (tmp_path / "absent.npz::x", "does not exist"),
        (tmp_path / "table.csv" / "table.csv", "cannot be opened"),
        (tmp_path / ("x" * 300 + ".csv"), "cannot be opened"),
        (tmp_path / "nul\0.csv", "cannot be opened"),
        (tmp_path / "table.csv::a", r"only \.npz and \.xlsx files"),
        (tmp_path / "table.xlsx", r"table\.xlsx does not exist"),
        (tmp_path / "table.odd", r"table\.odd does not exist"),
        (tmp_path / "table", r"table does not exist"),
        (tmp_path / "table.csv.gz", "does not exist"),
        (tmp_path / "table.npy.gz", r"table\.npy\.gz does not exist"),
        (tmp_path / "shop.duckdb::orders", r"shop\.duckdb does not exist"),
        (tmp_path / "shop.db::orders", r"shop\.db does not exist"),
        ("mysql://host/shop::SELECT 1", "addresses of mysql are not read here, but those of post"),
        (
            "postgresql://me:secret@host/shop",
            r"postgresql://me:\*\*\*@host/shop is a database; say",
        ),
        ("s3://bucket/table.csv", "of files at an address only Parquet is read"),
    ]:
        with pytest.raises(InputError, match=message):
            read(path)
    for name, message in [
        ("table.odd", r"ends in '\.odd', .*\.csv, .*\.tsv, .*\.parquet, .*\.xlsx"),
        ("table", r"has no ending, .*\.npz"),
        ("table.npy.gz", r"ends in '\.npy\.gz', .* text and JSON also with \.gz"),
    ]:
        (tmp_path / name).write_bytes(gzip.compress(b"a"))
        with pytest.raises(InputError, match=message):
            read(tmp_path / name)
    (tmp_path / "folder.csv").mkdir()
    for path in (tmp_path, tmp_path / "folder.csv"):
        with pytest.raises(InputError, match="is a folder without PNG or JPEG files"):
            read(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_files_of_somebody_else(tmp_path):
    path = text(tmp_path, "a\n1\n")
    path.chmod(0)
    with pytest.raises(InputError, match="may not be read"):
        read(path)


def test_permission_denied_is_a_sentence(tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = text(tmp_path, "a\n1\n")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match=r"table\.csv may not be read"):
        read(path)


def test_without_polars(tmp_path):
    text(tmp_path, "a\n1\n")
    np.save(tmp_path / "a.npy", np.zeros(2))
    program = (
        "import sys; sys.modules['polars'] = None\n"
        "from twosample.errors import MissingDependency\n"
        "from twosample._files.formats import read_source\n"
        "assert read_source('a.npy').data.shape == (2,)\n"
        "try: read_source('table.csv')\n"
        "except MissingDependency as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "table.csv takes polars to read; pip install 'twosample[tables]'.\n"


@settings(max_examples=200, deadline=None)
@given(
    ending=st.sampled_from(["csv", "tsv", "parquet", "arrow", "ipc", "npy", "npz"]),
    start=st.sampled_from(
        [
            b"",
            b"a,b\n1,2\n",
            b"PAR1",
            b"ARROW1\0\0",
            b"\x93NUMPY\x01\0",
            b"PK\x03\x04",
            b"\xff\xff\xff\xff",
        ]
    ),
    rest=st.one_of(
        st.binary(max_size=300), st.text(alphabet='ab1.,;"\n\t \ufeff', max_size=60).map(str.encode)
    ),
)
@pytest.mark.filterwarnings("ignore::twosample.InputNote")
def test_any_bytes_give_data_or_a_sentence(tmp_path_factory, ending, start, rest):
    path = text(tmp_path_factory.getbasetemp(), start + rest, f"fuzz.{ending}")
    with contextlib.suppress(InputError):
        assert isinstance(read(path), pl.DataFrame | np.ndarray)
