"""Tables as people have them: separators, encodings, decimals, headers, workbooks, JSON, databases."""

from __future__ import annotations

import contextlib
import datetime
import http.server
import json
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path

import polars as pl
import pytest
import xlsxwriter
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from twosample._cli import main as cli
from twosample._data.columns import Columns
from twosample._files.formats import read_source, typed_size
from twosample._files.handles import without_password
from twosample._files.layout import AS_IT_SHOWS, Layout
from twosample._files.opening import ReadOptions, open_file
from twosample._files.servers import read_address
from twosample.errors import InputError, InputNote, MissingDependency

TABLE = pl.DataFrame({"age": [1.5, 2.25, None], "city": ["Zürich", "Köln", "Bern"], "n": [1, 2, 3]})
CELLS = [["age", "city", "n"], ["1.5", "Zürich", "1"], ["2.25", "Köln", "2"], ["", "Bern", "3"]]
QUICK = ["--method", "mmd-median", "--permutations", "99", "--seed", "0", "--quiet"]


def lines(separator: str, *, decimal: str = ".", rows=CELLS) -> str:
    return "".join(separator.join(row).replace(".", decimal) + "\n" for row in rows)


def read(
    path, layout: Layout = AS_IT_SHOWS, stream: bool = False
) -> tuple[pl.DataFrame, list[str]]:
    """The table in a file, and the notes on the way."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if stream:
            parts = list(open_file(str(path), ReadOptions(layout=layout, stream=True)))
            table = pl.concat(parts)
        else:
            table = read_source(path, Columns(), layout).data
    assert all(each.category is InputNote for each in caught)
    return table, [str(each.message) for each in caught]


both = pytest.mark.parametrize("stream", [False, True])


@both
@pytest.mark.parametrize(
    ("name", "text", "encoding", "layout", "says"),
    [
        ("a.csv", lines(","), "utf-8", {}, []),
        ("a.csv", lines(","), "utf-8-sig", {}, []),
        ("a.csv", lines(","), "utf-16", {}, []),
        ("a.csv", lines(","), "utf-32", {}, []),
        ("a.csv", lines(";"), "utf-8", {}, ["separated by semicolons"]),
        ("a.csv", lines(";"), "utf-8", {"separator": ";"}, []),
        ("a.csv", lines("\t"), "utf-8", {}, ["separated by tabulators"]),
        ("a.csv", lines("|"), "utf-8", {}, ["separated by bars"]),
        ("a.csv", lines("~"), "utf-8", {"separator": "~"}, []),
        ("a.tsv", lines("\t"), "utf-8", {}, []),
        ("a.tsv", lines(","), "utf-8", {}, ["separated by commas"]),
        ("a.txt", lines(","), "utf-8", {}, []),
        ("a.txt", lines("\t"), "utf-8", {"separator": "tab"}, []),
        ("a.txt", lines(";"), "utf-8", {}, []),
        ("a.csv", lines(","), "cp1252", {}, ["not UTF-8 text, and is read as cp1252.*line 2.*Zürich"]),
        ("a.csv", lines(","), "cp1252", {"encoding": "latin-1"}, []),
        ("a.csv", lines(","), "mac_roman", {"encoding": "mac_roman"}, []),
        ("a.csv", lines(";", decimal=","), "utf-8", {}, ["semicolons", "has decimal commas"]),
        ("a.csv", lines(";", decimal=","), "utf-8", {"decimal": ","}, ["semicolons"]),
        ("a.tsv", lines("\t", decimal=","), "cp1252", {}, ["cp1252", "has decimal commas"]),
    ],
)  # fmt: skip
def test_layouts_are_found_and_said(tmp_path, name, text, encoding, layout, says, stream):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    table, notes = read(path, Layout(**layout), stream)
    assert_frame_equal(table, TABLE)
    assert len(notes) == len(says)
    for note, part in zip(notes, says, strict=True):
        assert re.search(part, note) and path.name in note


@both
def test_any_number_of_blanks_separate_a_plain_text(tmp_path, stream):
    path = tmp_path / "a.txt"
    path.write_text('  age   city n\n 1.5  "New  York"  1 \n\t2.5 Bern\t2\n')
    table, notes = read(path, stream=stream)
    assert table.rows() == [(1.5, "New  York", 1), (2.5, "Bern", 2)] and not notes


@both
def test_names_of_rows_as_R_writes_them(tmp_path, stream):  # noqa: N802
    path = tmp_path / "a.txt"
    path.write_text('"age" "n"\n"1" 1.5 3\n"2" 2.5 4\n')
    table, _ = read(path, stream=stream)
    assert table.columns == ["Unnamed: 0", "age", "n"] and table["age"].to_list() == [1.5, 2.5]
    # In a CSV file a field too many is a mistake: a decimal comma, perhaps.
    (tmp_path / "a.csv").write_text("price,n\n1,5,3\n2,5,4\n")
    with pytest.raises(InputError, match="line 2: 3 fields where the header has 2"):
        read(tmp_path / "a.csv", stream=stream)


@both
def test_a_file_without_names(tmp_path, stream):
    path = tmp_path / "a.csv"
    path.write_text("1.5,red\n2.5,blue\n3.5,red\n")
    with pytest.raises(InputError, match=r"begins with data \(1.5, red\).*--no-header"):
        read(path, stream=stream)
    table, _ = read(path, Layout(header=False), stream)
    assert table.columns == ["0", "1"] and table.rows() == [
        (1.5, "red"),
        (2.5, "blue"),
        (3.5, "red"),
    ]
    path.write_text("1.5,red\n2.5\n")
    with pytest.raises(InputError, match="line 2: 1 field where"):
        read(path, Layout(header=False), stream)
    path.write_bytes(b"1.5,red\r2.5,blue\r")
    assert len(read(path, Layout(header=False), stream)[0]) == 2


def test_lines_of_a_file_without_names_are_its_own(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("1.5,2\n" * 5)
    source = read_source(path, Columns(), Layout(header=False))
    assert [source.place(row) for row in (0, 4)] == ["line 1", "line 5"]


@pytest.mark.parametrize(
    "header", ["2019,2020,2021", "0,1,2", "name,2019,2020", "nan,inf,x", "q0.1,q0.5,q0.9", "a,1,b"]
)
def test_names_that_are_no_data(tmp_path, header):
    path = tmp_path / "a.csv"
    path.write_text(f"{header}\n1,2,3\n4,5,6\n")
    assert read(path)[0].columns == header.split(",")


@both
def test_columns_without_names(tmp_path, stream):
    path = tmp_path / "a.csv"
    path.write_text(",a,\n0,1.5,\n1,2.5,\n")
    table, notes = read(path, stream=stream)
    assert table.columns == ["Unnamed: 0", "a", "Unnamed: 2"]
    assert len(notes) == 1 and "no name for 1 of 3 columns, called 'Unnamed: 2'" in notes[0]


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        (["1,5", "2,25"], True),
        (["1,5", "2", "3"], False),  # a slip, perhaps
        (["0,123", "1,234"], True),
        (["1234,567", "1,234"], True),
        (["1,234", "5,678"], False),  # thousands, perhaps
        (["1,5", "2.5"], False),
        (["1,5", "x"], False),
        (["1", "2"], False),
        (["1,5e-3", "2"], True),
    ],
)
def test_decimal_commas_are_found_only_where_they_must_be_ones(tmp_path, cells, found):
    path = tmp_path / "a.csv"
    path.write_text("v;w\n" + "".join(f"{cell};1\n" for cell in cells))
    _, notes = read(path, Layout(separator=";"))
    assert any("decimal commas" in note for note in notes) == found


@both
def test_points_among_decimal_commas_are_refused(tmp_path, stream):
    """In such a file 1.500 is most likely 1500, and polars would read 1.5."""
    path = tmp_path / "a.csv"
    path.write_text("v;w\n1,5;1.500\n2,5;900\n")
    with pytest.raises(InputError, match=r"'1\.500' in column 'w' where decimals have commas"):
        read(path, Layout(decimal=","), stream)
    table, _ = read(path, Layout(decimal="."), stream)
    assert table["w"].to_list() == [1.5, 900.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"separator": "::"}, "--sep is '::'; give one character"),
        ({"separator": "a"}, "--sep is 'a'"),
        ({"separator": '"'}, "--sep is "),
        ({"decimal": ";"}, "--decimal is ';'; give a point or a comma"),
        ({"encoding": "klingon"}, "--encoding is 'klingon', which Python does not know"),
        ({"encoding": "base64"}, "--encoding is 'base64'"),
    ],
)
def test_layouts_that_are_none(options, message):
    with pytest.raises(InputError, match=message):
        Layout(**options)


@both
def test_text_that_is_not_what_the_user_says(tmp_path, stream):
    path = tmp_path / "a.csv"
    path.write_bytes(lines(",").encode("latin-1"))
    for encoding in ("utf-8", "ascii", "utf-16"):
        with pytest.raises(InputError, match=r"a\.csv is not (text in|UTF-8)"):
            read(path, Layout(encoding=encoding), stream)


# JSON


@both
@pytest.mark.parametrize(
    "value",
    [
        TABLE.to_dicts(),
        TABLE.to_dict(as_series=False),
        {name: dict(enumerate(column)) for name, column in TABLE.to_dict(as_series=False).items()},
        {"columns": TABLE.columns, "index": [0, 1, 2], "data": [list(row) for row in TABLE.rows()]},
        None,
    ],
    ids=["records", "columns", "pandas", "split", "lines"],
)
def test_json(tmp_path, value, stream):
    path = tmp_path / "a.json"
    one_a_line = "\n".join(json.dumps(row) for row in TABLE.to_dicts())
    path.write_text(one_a_line if value is None else json.dumps(value))
    assert_frame_equal(read(path, stream=stream)[0], TABLE)


def test_rows_without_names_in_json(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("[[1, 2.5], [2, 3.5]]")
    assert read(path)[0].to_dict(as_series=False) == {"0": [1, 2], "1": [2.5, 3.5]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("[1, 2]", "holds no table as known here; give a list of objects"),
        ('{"a": 1}', "holds no table as known here"),
        ('{"a": [1], "b": [1, 2]}', "1 values in column 'a' but 2 in 'b'"),
        ('[{"a": 1, "a": 2}]', "has a name twice"),
        ("[[1], [1, 2]]", "2 values in row 1, not 1"),
        ("[{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "holds no table"),
        ("\x00", "is not JSON"),
        ('[{"a": [1], "b": 1}, {"a": 2, "b": "x"}]', "2 things stand in the way: .*'a'.*'b'"),
        ('{"columns": ["a", "a"], "data": [[1, 2]]}', "several columns of the same name"),
    ],
)
def test_json_that_is_no_table(tmp_path, text, message):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read(path)


@both
def test_dates_in_json_are_dates(tmp_path, stream):
    path = tmp_path / "a.json"
    days = ["2024-01-31", "2024-02-01 12:00", "2024-02-01T12:00:00+02:00", None]
    path.write_text(json.dumps([{"day": day, "code": "2024-13-45"} for day in days]))
    table, _ = read(path, stream=stream)
    noon = datetime.datetime(2024, 2, 1, 12)
    assert table["day"].to_list() == [
        *(datetime.datetime(2024, 1, 31), noon, noon - datetime.timedelta(hours=2), None)
    ]
    assert table["code"].dtype == pl.String


# Workbooks


@pytest.fixture
def book(tmp_path):
    """A workbook of several sheets."""
    path = tmp_path / "book.xlsx"
    with xlsxwriter.Workbook(path) as workbook:
        for name in ("May", "June"):
            sheet = workbook.add_worksheet(name)
            sheet.write_row(0, 0, ["", "age", "city", "when", "ok"])
            for row in range(1, 5):
                sheet.write_row(row, 0, [row - 1, row + 0.5, "ab"[row % 2]])
                day = datetime.datetime(2024, 1, row)
                sheet.write_datetime(row, 3, day, workbook.add_format({"num_format": "yyyy-mm-dd"}))
                sheet.write_boolean(row, 4, row > 2)
        odd = workbook.add_worksheet("odd")
        odd.write_column(0, 0, ["v", 1, "?", 3, 4])
        workbook.add_worksheet("empty")
    return path


def test_sheets(book):
    table, notes = read(book)
    assert table.columns == ["Unnamed: 0", "age", "city", "when", "ok"]
    assert table.rows()[1] == (1, 2.5, "a", datetime.date(2024, 1, 2), False)
    assert (
        len(notes) == 1 and "has 4 sheets ('May', 'June', 'odd', 'empty'), of which the" in notes[0]
    )
    for how in (read(f"{book}::June"), read(book, Layout(sheet="June"))):
        assert how[0].equals(table) and not how[1]
    odd = read_source(f"{book}::odd")
    assert (
        odd.data["v"].to_list() == ["1", "?", "3", "4"] and odd.place(1) == "row 3 of sheet 'odd'"
    )
    assert read(f"{book}::odd", Layout(header=False))[0].columns == ["0"]
    assert len(read(f"{book}::empty")[0]) == 0
    with pytest.raises(InputError, match="has no sheet 'Mai'; it has 'May', 'June'"):
        read(f"{book}::Mai")


def test_workbooks_on_the_command_line(book, tmp_path):
    done = CliRunner().invoke(cli.build(), ["test", f"{book}::May", f"{book}::June", *QUICK])
    assert done.exit_code == 0 and "No difference found: p = 1.00" in done.stdout
    done = CliRunner().invoke(cli.build(), ["test", f"{book}::odd", f"{book}::odd", *QUICK])
    assert done.exit_code == 2 and "'?' at row 3 of sheet 'odd'" in done.stderr


def test_a_workbook_that_would_take_all_memory(tmp_path):
    """One cell in the last row and column: calamine makes room for all cells before it, or dies."""
    path = tmp_path / "huge.xlsx"
    with xlsxwriter.Workbook(path) as workbook:
        sheet = workbook.add_worksheet()
        sheet.write(0, 0, "a")
        sheet.write(1_048_575, 16_383, 1)
    with pytest.raises(InputError, match=r"huge\.xlsx cannot be read as xlsx: it is damaged, or"):
        typed_size(path, 2**28, 2**30)
    for content in (b"PK\x03\x04", b"no workbook", b"PK\x05\x06" + bytes(18)):
        path.write_bytes(content)
        with pytest.raises(InputError, match="cannot be read as xlsx"):
            read(path)


def test_packages_that_are_not_there(tmp_path, book, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("shop.duckdb").touch()
    for module, name, extra in [
        ("fastexcel", "book.xlsx", "excel"),
        ("duckdb", "shop.duckdb::t", "duckdb"),
        ("adbc_driver_postgresql", "postgresql://h/d::t", "postgres"),
    ]:
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(MissingDependency, match=rf"takes {module} .*twosample\[{extra}\]"):
            read_source(name)


# Databases


@pytest.fixture
def shop(tmp_path):
    """A DuckDB file."""
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute(
            "CREATE TABLE orders AS SELECT range AS n, range * 1.5 AS price, DATE '2024-01-01' AS day, "
            "CASE WHEN range % 3 = 0 THEN NULL ELSE 'x' END AS kind FROM range(6)"
        )
    return path


def test_duckdb(shop, tmp_path):
    table = read_source(f"{shop}::orders").data
    assert table["n"].to_list() == list(range(6)) and table["kind"].null_count() == 2
    assert float(table["price"][5]) == 7.5 and table["day"].dtype == pl.Date
    few = read_source(f"{shop}::SELECT n FROM orders WHERE n > 3").data
    assert few["n"].to_list() == [4, 5]
    before = sorted(tmp_path.iterdir())
    for query, message in [
        ("", r"is a database with the tables orders; say what to test, as in '.*duckdb::orders'"),
        ("nosuch", "cannot answer 'nosuch': .*does not exist"),
        ("DROP TABLE orders", "cannot answer 'DROP TABLE orders': .*read-only"),
        (f"COPY orders TO '{tmp_path}/out.csv'", "cannot answer .*disabled by configuration"),
        (f"SELECT * FROM read_text('{__file__}')", "cannot answer .*disabled by configuration"),
        ("SELECT", "cannot answer"),
    ]:
        with pytest.raises(InputError, match=message):
            read_source(f"{shop}::{query}")
    assert sorted(tmp_path.iterdir()) == before
    (tmp_path / "no.duckdb").write_bytes(b"no database")
    with pytest.raises(InputError, match=r"no\.duckdb cannot answer 't'"):
        read_source(tmp_path / "no.duckdb::t")


@pytest.fixture(scope="module")
def server():
    """The address of a PostgreSQL server of our own, on loopback, by a user without rights."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    program = shutil.which("initdb") or (str(found[-1]) if found else None)
    if program is None or shutil.which("psql") is None:
        pytest.skip("takes PostgreSQL's server")
    pytest.importorskip("adbc_driver_postgresql")
    # The server refuses to run as root.
    user = "nobody" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="twosample-pg-"))
    if user is not None:
        os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    tools = Path(program).resolve().parent

    def run(name: str, *words: str) -> None:
        where = tools / name
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C"}
        subprocess.run(
            [str(where if where.exists() else name), *words],
            **({} if user is None else {"user": user}),
            cwd=folder, env=environment, check=True, timeout=120,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    data = str(folder / "data")
    try:
        run("initdb", "-D", data, "-U", "tester", "--auth=trust", "--no-sync")
        options = f"-h 127.0.0.1 -p {port} -k {folder} -F"
        run("pg_ctl", "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            address = f"postgresql://tester:secret@127.0.0.1:{port}/postgres"
            create = (
                "CREATE TABLE {} AS SELECT g AS n, ({} + 10 * sin(g * 7.7))::float8 AS price, "
                "(g * 1.25)::numeric AS paid, 'x' || (g % 3) AS kind, DATE '2024-01-01' + g % 30 "
                "AS day, g % 2 = 0 AS ok, CASE WHEN g % 5 > 0 THEN g END AS gap "
                "FROM generate_series(1, 60) g"
            )
            for name, mean in (("may", 20), ("june", 40)):
                run("psql", address, "-c", create.format(name, mean))
            yield address
        finally:
            run("pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_postgresql(server):
    source = read_source(f"{server}::may")
    table = source.data
    assert table["n"].to_list() == list(range(1, 61)) and table["gap"].null_count() == 12
    assert table["paid"].to_list()[:2] == [1.25, 2.5] and table["day"].dtype == pl.Date
    assert source.name.startswith("postgresql://tester:***@127.0.0.1:")
    few = read_source(f"{server}::SELECT n FROM may WHERE n > 58 ORDER BY n").data
    assert few["n"].to_list() == [59, 60]
    for query, message in [
        ("nosuch", "nosuch.* does not exist"),
        ("DROP TABLE may", "cannot execute DROP TABLE in a read-only transaction"),
        ("SELECT 1; SELECT 2", "multiple commands"),
    ]:
        with pytest.raises(InputError, match=message) as caught:
            read_source(f"{server}::{query}")
        assert "secret" not in str(caught.value)


def test_postgresql_on_the_command_line(server, tmp_path):
    page = tmp_path / "page.html"
    words = ["test", f"{server}::may", f"{server}::june", "--drop", "n", *QUICK]
    done = CliRunner().invoke(cli.build(), [*words, "--report", str(page)])
    assert done.exit_code == 0 and "The samples differ" in done.stdout, done.output
    assert "secret" not in done.output + page.read_text()
    done = CliRunner().invoke(cli.build(), ["test", f"{server}::may", f"{server}::may", *QUICK])
    assert done.exit_code == 0 and "No difference found: p = 1.00" in done.stdout


def test_a_server_that_is_not_there():
    pytest.importorskip("adbc_driver_postgresql")
    with pytest.raises(InputError, match=r"cannot answer 't': .*Connection refused") as caught:
        read_address("postgresql://tester:secret@127.0.0.1:1/shop::t")
    assert "secret" not in str(caught.value)


def test_passwords_are_not_shown():
    for scheme in ("postgresql", "s3"):
        assert without_password(f"{scheme}://me:p@ss:w@h/d::SELECT ':@'").count("p@ss") == 0
    for same in ("postgresql://me@h/d::t", "a:b.csv", "C:\\data\\a@b.csv", "s3://bucket/a:b@c"):
        assert without_password(same) == same


# Object stores


class _Store(http.server.SimpleHTTPRequestHandler):
    """Serves files, also parts of them, as object stores do."""

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path.replace("/bucket/", "/")))
        if not path.is_file():
            self.send_error(404)
            return
        content = path.read_bytes()
        first, last = 0, len(content) - 1
        asked = self.headers.get("Range")
        if asked:
            start, _, end = asked.removeprefix("bytes=").partition("-")
            first = int(start) if start else max(0, len(content) - int(end))
            last = min(last, int(end)) if start and end else last
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(last - first + 1))
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content[first : last + 1])

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A folder that is served on loopback, as a web server and as S3."""
    pl.DataFrame({"a": list(range(50)), "b": ["x", "y"] * 25}).write_parquet(tmp_path / "t.parquet")
    handler = lambda *given: _Store(*given, directory=str(tmp_path))  # noqa: E731
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{running.server_address[1]}"
        for name, value in {
            "AWS_ENDPOINT_URL": address,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "word",
            "AWS_REGION": "here",
            "NO_PROXY": "127.0.0.1",
        }.items():
            monkeypatch.setenv(name, value)
        yield address
        running.shutdown()


@pytest.mark.parametrize("where", ["{}/t.parquet", "s3://bucket/t.parquet"])
def test_parquet_in_object_stores(store, where):
    path = where.format(store)
    assert read_source(path).data["a"].to_list() == list(range(50))
    stream = open_file(path, ReadOptions(Columns(keep=["a"]), stream=True))
    assert [row for part in stream for row in part["a"].to_list()] == list(range(50))
    done = CliRunner().invoke(cli.build(), ["test", path, path, *QUICK])
    assert done.exit_code == 0 and "No difference found: p = 1.00" in done.stdout, done.output
    with pytest.raises(InputError, match="cannot be read"), contextlib.redirect_stderr(None):
        read_source(path.replace("t.parquet", "absent.parquet"))
