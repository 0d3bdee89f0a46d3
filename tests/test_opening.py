"""Files on the command line: groups, columns, policies, parts; against the library on the same
rows."""

from __future__ import annotations

import doctest
import gc
import json
import re
import shlex
import sqlite3
import tempfile
import zipfile
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from twosample import Columns, InputError, two_sample_test
from twosample._cli import main as cli
from twosample._cli.files import columns_from
from twosample._data.streams import Stream
from twosample._files import records
from twosample._files import text as textfiles
from twosample._files.formats import read_source
from twosample._files.inputs import Groups
from twosample._files.layout import Layout
from twosample._files.opening import ReadOptions, open_file

QUICK = ["--method", "mmd-median", "--permutations", "99", "--seed", "0"]


def table(rows: int, shift: float, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "id": range(rows),
            "age": rng.normal(shift, 1, rows).round(3),
            "zip": rng.choice(["E1", "SW7"], rows),
            "when": pd.to_datetime("2024-01-01")
            + pd.to_timedelta(rng.integers(0, 40, rows), unit="D"),
        }
    )
    frame.loc[rng.random(rows) < 0.1, "age"] = np.nan
    return frame


X, Y = table(50, 0.0, 1), table(40, 1.5, 2)
BOTH = pd.concat([X.assign(group="old"), Y.assign(group="new")]).sample(
    frac=1, random_state=0, ignore_index=True
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, frame in (("x", X), ("y", Y), ("both", BOTH)):
        frame.to_csv(f"{name}.csv", index=False)
        pl.from_pandas(frame).write_parquet(f"{name}.parquet")
    return tmp_path


def call(*words: str, code: int = 0) -> SimpleNamespace:
    done = CliRunner().invoke(cli.build(), list(words))
    assert done.exit_code == code, (done.output, done.stderr, done.exception)
    return done


def asked(*words: str) -> dict[str, object]:
    return json.loads(call("test", *words, *QUICK, "--json").stdout)


def library(x: pd.DataFrame, y: pd.DataFrame, columns: Columns | None = None):
    return two_sample_test(x, y, "mmd-median", permutations=99, rng=0, columns=columns)


# Columns and policies


@pytest.mark.parametrize(
    ("words", "columns"),
    [
        (["--columns", "age", "--missing", "drop"], Columns(keep=["age"], missing="drop")),
        (["--drop", "id,when", "--missing", "drop"], Columns(drop=["id", "when"], missing="drop")),
        (
            ["--drop", "id", "--type", "when=number", "--missing", "indicator"],
            Columns(drop=["id"], kinds={"when": "number"}, missing="indicator"),
        ),
    ],
)  # fmt: skip
def test_options_give_what_the_library_gives(folder, words, columns):
    found, expected = asked("x.csv", "y.csv", *words), library(X, Y, columns)
    assert (found["statistic"], found["pvalue"]) == (
        pytest.approx(expected.statistic, abs=1e-9),
        expected.pvalue,
    )
    assert found["dropped"] == list(expected.dropped)


def test_rows_that_are_left_out_are_counted_wherever_the_result_is_shown(folder):
    gone = int(X["age"].isna().sum()), int(Y["age"].isna().sum())
    words = [
        "test",
        "x.csv",
        "y.csv",
        "--columns",
        "age,zip",
        "--missing",
        "drop",
        *QUICK,
        "--report",
        "page.html",
    ]
    shown = call(*words).stdout
    assert f"x.csv, 50 rows, {gone[0]} of them left out for missing values" in shown
    assert f"y.csv, 40 rows, {gone[1]} of them left out for missing values" in shown
    page = Path("page.html").read_text()
    assert f"{gone[0]} left out for missing values" in page
    assert "--columns age,zip --missing drop" in page
    assert "left out" not in call("test", "x.csv", "y.csv", "--columns", "zip", *QUICK).stdout


def test_codes_are_read_as_they_are_written(folder):
    Path("a.csv").write_text("code,flag,n\n02139,True,1\n2139,False,1.0\n94103,true,2\n")
    rules = columns_from(None, None, ["code=category", "flag=category", "n=category"], "error")
    found = open_file("a.csv", ReadOptions(rules)).data
    assert found.to_dict(as_series=False) == {
        "code": ["02139", "2139", "94103"],
        "flag": [True, False, True],
        "n": ["1", "1", "2"],
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--missing", "error", "--drop", "when"], "x.csv contains {gaps} missing values .first at line {line}, column 'age'.*--missing"),
        (["--columns", "height"], "x.csv has no column 'height'; it has id, age, zip, when"),
        (["--drop", "height"], "no column 'height'"),
        (["--drop", "height", "--drop", "weight"], "no column 'height' or 'weight'"),
        (["--type", "zip"], "--type is 'zip'; give a column and a kind, such as --type zip=category"),
        (["--type", "zip=date"], "column 'zip' is to be a 'date'; use one of number, category"),
        (["--type", "zip=number", "--type", "zip=category"], "gives column 'zip' two kinds"),
        (["--missing", "ignore"], "--missing is 'ignore'; use error, drop or indicator"),
        (["--resize", "8x8"], "x.csv is no folder of pictures"),
        (["--resize", "8"], "--resize is '8'; give width and height"),
        (["--by", "zip"], "takes both samples from one file; leave out y.csv"),
        (["--stream", "--missing", "error"], "x.csv contains {gaps} missing values .first at row"),
    ],
)  # fmt: skip
def test_errors_name_file_line_and_column(folder, words, message):
    gaps = X["age"].isna()
    done = call("test", "x.csv", "y.csv", *words, *QUICK, code=2)
    expected = (
        message.format(gaps=gaps.sum(), line=gaps.idxmax() + 2) if "{" in message else message
    )
    assert re.search(expected, done.stderr)
    assert done.stdout == "" and done.stderr.startswith("error: ")


def test_lines_are_those_of_the_file_whatever_stands_in_it(folder):
    Path("odd.csv").write_text('\n\nv,w\n1,"two\nlines"\n\n2,x\n,y\n')
    done = call("test", "odd.csv", "odd.csv", "--missing", "error", *QUICK, code=2)
    assert "odd.csv contains 1 missing value (first at line 8, column 'v')" in done.stderr


def test_fit_keeps_the_options_and_apply_uses_them(folder):
    options = ["--drop", "id", "--type", "when=number", "--missing", "drop"]
    shown = call(
        "fit", "x.csv", "y.csv", "-o", "k", "--method", "mmd-o", *options, "--seed", "0"
    ).stdout
    assert "x.csv, 50 rows, " in shown and "left out for missing values" in shown
    found = json.loads(call("apply", "k", "y.csv", "x.csv", "--seed", "1", "--json").stdout)
    assert found["dropped"] == [int(Y["age"].isna().sum()), int(X["age"].isna().sum())]
    assert (
        "No such option" in call("apply", "k", "y.csv", "x.csv", "--missing", "drop", code=2).stderr
    )
    by_group = call("apply", "k", "both.csv", "--by", "group", "--seed", "1", code=0).stdout
    assert "both.csv where group is new" in by_group


def test_plan_takes_them_too(folder):
    words = [
        "plan",
        "both.csv",
        "--by",
        "group",
        "--columns",
        "age,zip",
        "--missing",
        "indicator",
        *QUICK,
    ]
    assert call(*words).stdout.startswith("Power 0.9 takes ")


# Two groups of one file


@pytest.mark.parametrize("file", ["both.csv", "both.parquet"])
def test_groups_are_the_rows_that_say_so(folder, file):
    found = asked(file, "--by", "group=old,new", "--columns", "age,zip", "--missing", "drop")
    old, new = (BOTH[BOTH["group"] == value] for value in ("old", "new"))
    expected = library(old[["age", "zip"]], new[["age", "zip"]], Columns(missing="drop"))
    assert (found["statistic"], found["pvalue"]) == (
        pytest.approx(expected.statistic, abs=1e-9),
        expected.pvalue,
    )
    assert found["files"] == [f"{file} where group is old", f"{file} where group is new"]
    assert found["rows"] == [50, 40]


def test_rows_of_groups_are_rows_of_the_file(folder):
    words = ["both.csv", "--by", "group", "--columns", "age,zip", "--missing", "drop", "--explain"]
    shown = asked(*words)["explanation"]
    for name, rows in (("new", shown["rows_x"]), ("old", shown["rows_y"])):
        for row in rows:
            of_the_file = BOTH.iloc[row["row"]]
            assert of_the_file["group"] == name
            assert row["values"]["age"] == pytest.approx(of_the_file["age"], abs=1e-5)


def test_lines_of_groups_are_lines_of_the_file(folder):
    first = BOTH.index[(BOTH["group"] == "new") & BOTH["age"].isna()][0]
    words = ["both.csv", "--by", "group", "--columns", "age", "--missing", "error"]
    done = call("test", *words, *QUICK, code=2)
    assert (
        f"both.csv where group is new contains {Y['age'].isna().sum()} missing values"
        in done.stderr
    )
    assert f"first at line {first + 2}, column 'age'" in done.stderr


@pytest.mark.parametrize(
    ("by", "message"),
    [
        ("id", "has 50 values ('0', '1', '10', '11', '12', ... 50 in all) in column 'id', and a test takes two"),
        ("constant", "has 1 value ('7') in column 'constant'"),
        ("age", "missing ones in column 'age'"),
        ("height", "has no column 'height' for --by; it has 'id', 'age', 'zip', 'when', 'constant'"),
        ("zip=E1,N4", "has no 'N4' in column 'zip'; it has 'E1', 'SW7'"),
        ("zip=E1", "give a column, or a column and two of its values: --by group=a,b"),
        ("=a,b", "give a column"),
        ("zip=a,a", "give a column"),
    ],
)  # fmt: skip
def test_groups_that_are_not_two(folder, by, message):
    X.assign(constant=7).to_csv("x.csv", index=False)
    assert message in call("test", "x.csv", "--by", by, *QUICK, code=2).stderr


def test_an_array_has_no_groups(folder):
    np.save("a.npy", np.zeros((5, 2)))
    assert "its columns have no names" in call("test", "a.npy", "--by", "group", code=2).stderr


# Parts


def test_parts_give_what_memory_gives(folder):
    pl.from_pandas(X).write_ipc("x.arrow")
    Y.to_csv("y.tsv.gz", index=False, sep="\t")
    words = ["--drop", "id,when", "--missing", "indicator"]
    expected = asked("x.parquet", "y.parquet", *words)
    for pair in (["x.parquet", "y.parquet"], ["x.arrow", "y.parquet"], ["x.csv", "y.tsv.gz"]):
        found = asked(*pair, *words, "--stream")
        assert (found["pvalue"], found["rows"]) == (expected["pvalue"], [50, 40])
        assert found["statistic"] == pytest.approx(expected["statistic"], abs=1e-6)


@pytest.mark.parametrize("missing", ["drop", "indicator"])
@pytest.mark.parametrize("file", ["both.parquet", "both.csv"])
def test_groups_in_parts(folder, file, missing, monkeypatch):
    monkeypatch.setattr(textfiles, "PIECE", 500)
    words = [file, "--by", "group", "--columns", "age,zip", "--missing", missing]
    expected, found = asked(*words), asked(*words, "--stream")
    assert (found["pvalue"], found["sizes"], found["dropped"]) == (
        expected["pvalue"],
        expected["sizes"],
        expected["dropped"],
    )
    assert found["statistic"] == pytest.approx(expected["statistic"], abs=1e-6)


def test_errors_in_parts_name_the_file(folder):
    words = ["x.parquet", "y.parquet", "--columns", "age", "--stream", "--missing", "error"]
    done = call("test", *words, *QUICK, code=2)
    first, *others = done.stderr.splitlines()
    assert first == "error: 2 things stand in the way:"
    for number, (line, name, frame) in enumerate(zip(others, "xy", (X, Y), strict=True), 1):
        gaps = frame["age"].isna().sum()
        assert line.startswith(f"  {number}. {name}.parquet contains {gaps} missing values (first ")
    assert "--missing drop" in done.stderr


def test_parts_of_text_leave_nothing_behind(folder, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "tmp"))
    (folder / "tmp").mkdir()
    stream = open_file("x.csv", ReadOptions(stream=True))
    assert len(stream) == 50 and len(list((folder / "tmp").glob("*/*.parquet"))) == 1
    del stream
    gc.collect()
    assert not list((folder / "tmp").iterdir())
    Path("bad.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(InputError, match="line 3"):
        open_file("bad.csv", ReadOptions(stream=True))
    assert not list((folder / "tmp").iterdir())


def test_a_stream_of_arrow_has_no_parts(folder):
    pl.from_pandas(X).write_ipc_stream("x.arrow")
    assert (
        "write it as Parquet"
        in call("test", "x.arrow", "y.parquet", "--stream", *QUICK, code=2).stderr
    )


def test_folders_of_pictures(folder):
    for name, brighter in (("p", 0), ("q", 90)):
        Path(name).mkdir()
        for number in range(20):
            pixels = np.random.default_rng([number, brighter]).integers(
                brighter, 160, (6, 4, 3), dtype=np.uint8
            )
            Image.fromarray(pixels).save(f"{name}/{number:02}.png")
    found = asked("p", "q", "--report", "page.html")
    assert found["reject"] and found["rows"] == [20, 20]
    assert "images tested" in Path("page.html").read_text()
    assert asked("p", "q", "--stream")["pvalue"] == found["pvalue"]
    assert asked("p", "q", "--resize", "3x3")["reject"]


def in_every_kind(name: str, frame: pd.DataFrame) -> dict[str, str]:
    """The rows as all kinds of files that hold tables, by kind."""
    frame.to_json(f"{name}.jsonl", orient="records", lines=True, date_format="iso")
    frame.to_json(f"{name}.ndjson.gz", orient="records", lines=True, date_format="iso")
    pl.from_pandas(frame).write_ipc(f"{name}.ipc")
    with closing(sqlite3.connect("rows.db")) as database:
        frame.to_sql(name, database, index=False)
    kinds = {
        ending: f"{name}.{ending}" for ending in ("parquet", "csv", "jsonl", "ndjson.gz", "ipc")
    }
    return kinds | {"table": f"rows.db::{name}", "query": f"rows.db::SELECT age, zip FROM {name}"}


def test_every_kind_of_file_is_read_in_parts(folder, monkeypatch):
    x, y = in_every_kind("x", X), in_every_kind("y", Y)
    words = ["--columns", "age,zip", "--missing", "drop"]
    expected = asked(x["parquet"], y["parquet"], *words)
    monkeypatch.setattr(records, "CHUNK", 7)
    for kind in x:
        found = asked(x[kind], y[kind], *words, "--stream")
        assert (found["pvalue"], found["sizes"], found["dropped"]) == (
            expected["pvalue"],
            expected["sizes"],
            expected["dropped"],
        ), kind


def test_arrays_of_an_archive_are_read_in_parts(folder, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "tmp"))
    (folder / "tmp").mkdir()
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 3)), rng.normal(1, size=(40, 3))
    np.savez("one.npz", x)
    np.savez_compressed("both.npz", x=x, y=y, empty=np.zeros((0, 3)), objects=np.array([{}, None]))
    expected = asked("one.npz", "both.npz::y")
    assert asked("one.npz", "both.npz::y", "--stream")["pvalue"] == expected["pvalue"]
    for path, message in (
        ("both.npz", r"both\.npz holds 4 arrays \(empty, objects, x, y\)"),
        ("both.npz::z", "holds no array called 'z'"),
        ("both.npz::objects", r"both\.npz .*[Oo]bjects"),
    ):
        with pytest.raises(InputError, match=message):
            open_file(path, ReadOptions(stream=True))
    with zipfile.ZipFile("text.npz", "w") as archive:
        archive.writestr("a.npy", "1, 2, 3")
        archive.writestr("b", "1, 2, 3")
    for member in "ab":
        for stream in (True, False):
            with pytest.raises(InputError, match=f"holds '{member}', which is no array"):
                open_file(f"text.npz::{member}", ReadOptions(stream=stream))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=100))
    with pytest.raises(InputError, match=r"both\.npz does not fit into .*; set TMPDIR"):
        open_file("both.npz::x", ReadOptions(stream=True))
    gc.collect()
    assert not list((folder / "tmp").iterdir())


def test_what_fills_the_memory_is_read_in_parts(folder, monkeypatch):
    kinds = in_every_kind("x", X)
    np.savez_compressed("zeros.npz", np.zeros((1000, 2)))  # 16 kB, of which the file has less
    monkeypatch.setattr("twosample._files.opening.available_memory", lambda: 40_000)
    assert not any(isinstance(open_file(kinds[kind]), Stream) for kind in ("parquet", "csv", "ipc"))
    for kind in ("jsonl", "ndjson.gz", "table"):  # objects take more memory than text
        assert isinstance(open_file(kinds[kind]), Stream), kind
    assert isinstance(open_file("zeros.npz"), Stream) and Path("zeros.npz").stat().st_size < 1000
    monkeypatch.setattr("twosample._files.opening.available_memory", lambda: 2000)
    assert all(isinstance(open_file(file), Stream) for file in kinds.values())
    Path("x.odd").touch()
    with pytest.raises(InputError, match="none of the known kinds"):
        open_file("x.odd", ReadOptions(stream=True))


@pytest.mark.filterwarnings("ignore::twosample.errors.InputNote")
@pytest.mark.parametrize("stream", [False, True])
def test_text_that_was_read_otherwise_in_parts(folder, stream, monkeypatch):
    monkeypatch.setattr("twosample._files.text.PIECE", 5)
    Path("mac.csv").write_bytes(b"a,b\r1,x\r2,y\r")
    Path("other.csv").write_text(
        "a,b\n1.5,\uff11\uff12\n", encoding="utf-8"
    )  # digits, but none that float takes here
    Path("nothing.csv").write_bytes(b"")
    Path("more.csv").write_text("a,b\n1,2\n3,4,\n")
    Path("blank.csv").write_text(" \nx\n\ny\n")  # a column whose name is a blank
    Path("nameless.csv").write_text("a,,\n1,x,y\n2,02139,02139\n")
    Path("mark.csv").write_text("abcd\nxxxx\n\ufeffy\n", encoding="utf-8")
    Path("late.csv").write_text("\ufeff\n\n\n\n\na,b\n1,2\n", encoding="utf-8")

    def rows(name):
        found = open_file(name, ReadOptions(stream=stream))
        return (pl.concat(list(found)) if stream else found.data).rows()

    assert rows("mac.csv") == [(1, "x"), (2, "y")]
    assert rows("blank.csv") == [("x",), (None,), ("y",)]
    assert rows("late.csv") == [(1, 2)]
    assert rows("nameless.csv") == [(1, "x", "y"), (2, "02139", "02139")]
    assert rows("mark.csv") == [("xxxx",), ("\ufeffy",)]
    assert rows("other.csv") == [(1.5, "\uff11\uff12")]
    with pytest.raises(InputError, match=r"nothing\.csv is empty \(0 bytes\)"):
        rows("nothing.csv")
    with pytest.raises(InputError, match=r"more\.csv, line 3: 3 fields where the header has 2"):
        rows("more.csv")


def test_fields_that_polars_joins_are_no_missing_values(folder):
    line = (
        'd,b,c\x0c\u0663,000","3,571",a,02139\x0c"2,714","3,143",,true\x0c"0,857",.,286",true,'
        '2024-01-31\x0c"0,000","0,714",true,02139\x0c"0,714","3,286",New York,02139'
    )
    Path("joined.csv").write_text(line, encoding="utf-8")
    with pytest.raises(InputError, match="can be read in two ways"):
        open_file("joined.csv", ReadOptions(layout=Layout(header=False)))


VALUES = [None, True, False, 0, -3, 2**40, 2**70, 0.5, float("nan"), "", "x", "02139", "é"]


@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(st.dictionaries(st.sampled_from("abc"), st.sampled_from(VALUES)), max_size=12),
    few=st.lists(st.sampled_from(VALUES), min_size=1, max_size=4),
    chunk=st.integers(1, 5),
    blank=st.integers(0, 12),
)
def test_records_in_parts_are_what_they_are_as_a_whole(rows, few, chunk, blank):
    rows = [
        {name: value if value in few else few[0] for name, value in row.items()} for row in rows
    ]
    lines = [json.dumps(row) for row in rows]
    lines.insert(blank, " ")
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        file = Path("t.jsonl")
        file.write_text("\n".join(lines))
        with closing(sqlite3.connect("t.db")) as database, database:
            database.execute("CREATE TABLE t (a, b, c)")
            known = [
                [None if row.get(name) == 2**70 else row.get(name) for name in "abc"]
                for row in rows
            ]
            database.executemany("INSERT INTO t VALUES (?, ?, ?)", known)
        for path in ("t.jsonl", "t.db::t"):
            compare_parts_with_whole(path, Columns(kinds={"c": "category"}), chunk, patch)


def compare_parts_with_whole(
    path: str, rules: Columns, chunk: int, patch: pytest.MonkeyPatch
) -> None:
    patch.setattr(records, "CHUNK", chunk)
    try:
        expected = read_source(path, rules).data
    except InputError as error:
        with pytest.raises(InputError, match=re.escape(str(error))):
            open_file(path, ReadOptions(rules, stream=True))
        return
    stream = open_file(path, ReadOptions(rules, stream=True))
    if not len(expected):
        assert len(stream) == 0
        return
    found = pl.concat(list(stream))
    empty = [name for name in expected.columns if expected[name].dtype == pl.Null]
    assert_frame_equal(found, expected.with_columns(pl.col(empty).cast(pl.String)))


COMMAS = Layout(separator=",", decimal=".")  # without a look at what the cells may show
CELLS = [
    "",
    "1",
    "2.5",
    "007",
    " 3 ",
    "nan",
    "NA",
    "true",
    "False",
    "2024-01-31",
    "x",
    '"a,b"',
    '"two\nlines"',
    "é",
]


@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(st.tuples(*[st.sampled_from(CELLS)] * 3), min_size=1, max_size=12),
    few=st.lists(st.sampled_from(CELLS), min_size=1, max_size=3),
    piece=st.integers(1, 60),
    first=st.integers(1, 4),
)
def test_text_in_parts_is_what_it_is_as_a_whole(rows, few, piece, first):
    cells = [
        [cell if cell in few else few[0] for cell in row] for row in rows
    ]  # so that columns have types
    raw = "\n".join(["a, b ,c", *map(",".join, cells)]).encode() + b"\n"
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        file = Path(folder) / "t.csv"
        file.write_bytes(raw)
        rules = Columns(kinds={"c": "category"})
        try:
            expected = read_source(file, rules, COMMAS).data
        except InputError as error:
            expected = str(error)
        patch.setattr(textfiles, "PIECE", piece)
        patch.setattr(textfiles, "FIRST", first)
        ticks: list[str] = []
        try:
            found = pl.concat(
                list(textfiles.text_parts(file, rules, COMMAS, tick=ticks.append)),
                how="vertical_relaxed",
            )
        except InputError as error:
            found = str(error)
    if isinstance(expected, str):
        assert found == expected
    else:
        assert_frame_equal(found, expected)
        assert ticks.count("rows") == ticks.count("types of columns") > 0


@settings(max_examples=200, deadline=None)
@given(
    cells=st.lists(st.sampled_from(CELLS), min_size=1, max_size=9),
    few=st.sets(st.sampled_from(CELLS), min_size=1),
)
def test_a_column_of_text_is_what_all_of_its_values_are(cells, few):
    kept = [cell if cell in few else min(few) for cell in cells]
    raw = "\n".join(["a,b", *(f"{cell},0" for cell in kept)]).encode()
    expected = read_bytes(raw)
    for first in (1, 2, 5):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(textfiles, "FIRST", first)
            found = read_bytes(raw)
        assert type(found) is type(expected)
        if isinstance(expected, str):
            assert found == expected
        else:
            assert_frame_equal(found, expected)


def read_bytes(raw: bytes) -> pl.DataFrame | str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "t.csv"
        file.write_bytes(raw)
        try:
            return textfiles.read_text(file, Columns(), COMMAS)[0]
        except InputError as error:
            return str(error).replace(folder, "")


@pytest.mark.parametrize("piece", [1, 7, 30, 10_000])
def test_errors_in_parts_of_text_name_the_line(folder, piece, monkeypatch):
    monkeypatch.setattr(textfiles, "PIECE", piece)
    Path("bad.csv").write_text("a,b\n1,2\n\n3,4\n5,6\n7\n8,9\n")
    with pytest.raises(InputError, match=r"bad\.csv, line 6: 1 field where the header has 2"):
        list(textfiles.text_parts(Path("bad.csv"), Columns(), COMMAS, tick=str))


def test_groups_are_parsed():
    assert Groups.parse("group") == Groups("group")
    assert Groups.parse("group=a, b") == Groups("group", ("a", "b"))


# The page

PAGE = Path(__file__).parents[1] / "docs" / "files.md"


def test_the_page_gives_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert results.attempted > 5 and results.failed == 0
    blocks = re.findall(r"```console\n(.+?)```", PAGE.read_text(), re.DOTALL)
    commands = [part for block in blocks for part in block.split("$ twosample ")[1:]]
    assert len(commands) == 6
    for command in commands:
        line, _, shown = command.partition("\n")
        done = CliRunner().invoke(cli.build(), shlex.split(line))
        assert (done.output + done.stderr * (not done.output)).strip() == shown.strip()
        assert done.exit_code == (2 if shown.startswith("error") else 0)
