"""JSON lines and SQLite: against pandas and the standard library, and a sentence for whatever is
wrong."""

from __future__ import annotations

import gzip
import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twosample import Columns, InputError
from twosample._files.formats import read_source


def read(path):
    """The contents of a file, without where its rows stand."""
    return read_source(path).data


FRAME = pd.DataFrame(
    {
        "size": [1.5, None, 3.0],
        "count": [1, 2, 3],
        "kind": ["a", "b", None],
        "new": [True, False, True],
    }
)


def lines(folder: Path, content: str, name: str = "rows.jsonl") -> Path:
    (folder / name).write_text(content, encoding="utf-8")
    return folder / name


@pytest.fixture
def shop(tmp_path):
    with sqlite3.connect(path := tmp_path / "shop.db") as database:
        FRAME.to_sql("orders", database, index=False)
        database.execute("CREATE TABLE mixed (v, w)")
        database.executemany(
            "INSERT INTO mixed VALUES (?, ?)", [(1, "x"), ("two", "y"), (None, "z")]
        )
        database.execute("CREATE VIEW large AS SELECT * FROM orders WHERE count > 1")
        database.execute('CREATE TABLE "odd ""name" (v)')
        database.execute('INSERT INTO "odd ""name" VALUES (7)')
        database.execute("CREATE TABLE raw (v)")
        database.execute("INSERT INTO raw VALUES (x'00ff')")
    database.close()
    return path


# JSON lines


@pytest.mark.parametrize("name", ["t.jsonl", "t.ndjson", "t.jsonl.gz", "t.NDJSON.GZ"])
def test_json_lines_are_what_pandas_wrote(tmp_path, name):
    content = FRAME.to_json(orient="records", lines=True).encode()
    (tmp_path / name).write_bytes(
        gzip.compress(content) if name.lower().endswith("gz") else content
    )
    found = read(tmp_path / name)
    assert found.to_dict(as_series=False) == {
        "size": [1.5, None, 3.0],
        "count": [1, 2, 3],
        "kind": ["a", "b", None],
        "new": [True, False, True],
    }
    assert found.dtypes == [pl.Float64, pl.Int64, pl.String, pl.Boolean]


def test_names_in_any_order_and_those_that_are_not_there(tmp_path):
    path = lines(tmp_path, '{"a": 1}\n\n  {"b": "x", "a": 2.5}\r\n{"a": null, "c": NaN}\n')
    assert read(path).drop("c").to_dict(as_series=False) == {
        "a": [1.0, 2.5, None],
        "b": [None, "x", None],
    }
    assert read_source(path).place(1) == "line 3"  # the blank line counts


def test_a_number_that_is_a_float_a_million_rows_later_makes_the_column_floats(tmp_path):
    path = lines(
        tmp_path, '{"v": 1}\n' * 5000 + '{"v": 1.5}\n{"v": 123456789012345678901234567890}\n'
    )
    assert read(path)["v"].dtype == pl.Float64


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("\n\n", "no line with text"),
        ("{}\n", "its objects are empty"),
        ('{"a": 1}\n{"a": \n', "line 2: this is not JSON"),
        ('{"a": 1}\n[1]\n', "line 2: this is no object"),
        ('{"a": 1, "a": 2}\n', "line 1: an object has a name twice"),
        ('{"a": 1}\n\n{"a": "x"}\n', "a number in column 'a' at line 1 but text at line 3; .*--type a=category"),
        ('{"a": true}\n{"a": 1}\n', "true or false in column 'a' at line 1 but a number at line 2"),
        ('{"a": [1, 2]}\n', "a list or an object in column 'a' at line 1; .*--drop a"),
        ("[" * 100_000 + "\n", "line 1: this is not JSON"),
        ('{"a": 1%s}\n' % ("0" * 400), "column 'a' at line 1 that is too large"),
    ],
)  # fmt: skip
def test_lines_that_cannot_be_read(tmp_path, content, message):
    path = lines(tmp_path, content)
    with pytest.raises(InputError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_mixed_columns_are_what_the_user_says(tmp_path):
    path = lines(tmp_path, '{"a": 1.0, "b": 1}\n{"a": "x", "b": "2.5"}\n{"a": true, "b": null}\n')
    rules = Columns(kinds={"a": "category", "b": "number"})
    assert read_source(path, rules).data.to_dict(as_series=False) == {
        "a": ["1", "x", "true"],
        "b": ["1", "2.5", None],
    }
    assert read_source(path, Columns(drop=["a", "b"])).data["a"].null_count() == 3


def test_compressed_files_that_are_damaged(tmp_path):
    whole = gzip.compress(b'{"a": 1}\n' * 2000)
    for name, content in (
        ("a.jsonl.gz", whole[:40]),
        ("b.jsonl.gz", b"not gzip"),
        ("c.csv.gz", whole[:40]),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=rf"{name} cannot be read as gz"):
            read(tmp_path / name)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.dictionaries(
            st.text(max_size=3),
            st.none() | st.integers() | st.floats() | st.text(max_size=4),
            max_size=3,
        ),
        min_size=1,
        max_size=6,
    )
)
def test_any_objects_come_back_or_are_a_sentence(tmp_path_factory, rows):
    path = lines(tmp_path_factory.getbasetemp(), "\n".join(map(json.dumps, rows)))
    try:
        table = read(path)
    except InputError:
        return
    for name in table.columns:
        for found, row in zip(table[name].to_list(), rows, strict=True):
            assert found == row.get(name) or found != found or isinstance(row[name], int)


# SQLite


def test_a_query_and_a_table_are_what_pandas_reads(shop, monkeypatch):
    monkeypatch.chdir(shop.parent)
    query = "SELECT size, kind FROM orders WHERE kind IS NOT NULL"
    with sqlite3.connect(shop) as database:
        expected = pd.read_sql(query, database).convert_dtypes()
    database.close()
    for path in (
        f"{shop}::{query}",
        f"sqlite:///shop.db::{query}",
        f"sqlite:///{shop}::{query}",
        f"shop.db::{query}",
    ):
        pd.testing.assert_frame_equal(read(path).to_pandas().convert_dtypes(), expected)
    assert read(f"{shop}::orders").height == 3 and read(f"{shop}:: large ").height == 2
    assert read(f'{shop}::odd "name')["v"].to_list() == [7]
    assert read_source("shop.db::orders").place(1) == "row 1 of the query"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "",
            r"is a database with the tables orders, mixed, large.*; say what to test, as in "
            r"'.*::orders'",
        ),
        ("nothing", "cannot answer 'nothing'"),
        ("SELECT * FROM absent", "no such table: absent"),
        ("SELECT 1; SELECT 2", "one statement"),
        (
            "DELETE FROM orders",
            "cannot answer 'DELETE FROM orders': (not authorized|attempt to write)",
        ),
        ("SELECT size, size FROM orders", "2 columns called 'size'; rename them with AS"),
        ("mixed", "a number in column 'v' at row 0 of the query but text at row 1 of the query"),
        ("raw", "bytes in column 'v' at row 0 of the query"),
    ],
)
def test_queries_that_cannot_be_answered(shop, query, message):
    with pytest.raises(InputError, match=message):
        read(f"{shop}::{query}")
    assert read(f"{shop}::orders").height == 3


def test_databases_that_are_none(tmp_path):
    (tmp_path / "text.db").write_text("a,b\n1,2\n" * 200)
    for path, message in (
        ("text.db::t", "file is not a database"),
        ("absent.sqlite::t", "does not exist"),
        ("text.db", "not a database"),
    ):
        with pytest.raises(InputError, match=message):
            read(tmp_path / path)


def test_without_polars(shop):
    program = (
        "import sys; sys.modules['polars'] = None\n"
        "from twosample.errors import MissingDependency\n"
        "from twosample._files.formats import read_source\n"
        "try: read_source('shop.db::orders')\n"
        "except MissingDependency as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=shop.parent, capture_output=True, text=True, check=True
    )
    assert done.stdout == "shop.db takes polars to read; pip install 'twosample[tables]'.\n"
