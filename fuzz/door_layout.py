"""Tables as people have them: text in any layout, JSON tables, workbooks, DuckDB, addresses.

Text is compared with Python's csv by the layout that was found, JSON with Python's json, and what
is read in parts with what is read as a whole.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import oracles
import polars as pl
from cases import ACCEPTED, REFUSED, Case, check, check_sentence, only_our_warnings
from formats import TABLE, written
from mutations import FIELDS, ODD, Rng, altered_bytes, altered_table, altered_tree, json_text, pick

from twosample._data.columns import Columns
from twosample._files.formats import read_source, typed_size
from twosample._files.layout import AS_IT_SHOWS, Layout
from twosample.errors import InputError, MissingDependency

SEPARATORS = [",", ";", "\t", "|", " ", "~"]
ENCODINGS = ["utf-8", "utf-8", "cp1252", "latin-1", "utf-16", "utf-8-sig", "utf-32", "mac_roman"]
NUMBERS = [f"{number / 7:.3f}" for number in range(-9, 30)]
WORDS = ["a", "b", "Zürich", "New York", "02139", "x;y", "x,y", "2024-01-31", "", "true", "1.500"]
ADDRESSES = [
    "postgresql://127.0.0.1:1/x::t", "postgresql://me:word@127.0.0.1:1/x::SELECT 1", "postgresql://",
    "postgres://::", "s3://", "s3://bucket/x.csv", "http://127.0.0.1:1/x.parquet", "mysql://h/d::t",
    "://", "sqlite:///absent.db::t", "absent.duckdb", "absent.duckdb::t", "::",
    "postgresql://me:word@127.0.0.1:1/x?options=::t", "gs://b/x.parquet::t", "a b://c", "hf://x",
]  # fmt: skip
QUERIES = ["t", "t", "", "SELECT * FROM t", "DROP TABLE t", "COPY t TO 'made.csv'", "nosuch", ";",
           "SELECT 1; SELECT 2", "SELECT [1, 2] AS a", "ATTACH 'made.db'", "\0", "INSTALL httpfs"]  # fmt: skip


class Door:
    """Files and addresses, with what a user may say of how they are written."""

    def __init__(self) -> None:
        self._book = written(lambda stream: TABLE.write_excel(stream))
        self._duck = _duck()

    def case(self, rng: Rng) -> Case:
        """A file, and the layout that the user says it has."""
        kind = pick(rng, ["text"] * 14 + ["json"] * 4 + ["xlsx"] * 2 + ["duckdb", "address"])
        if kind == "address":
            return Case(kind, {}, (pick(rng, ADDRESSES), AS_IT_SHOWS))
        if kind == "duckdb":
            content = altered_bytes(self._duck, rng) if rng.random() < 0.5 else self._duck
            name = f"case.duckdb::{pick(rng, QUERIES)}"
            return Case(kind, {"case.duckdb": content}, (name, AS_IT_SHOWS))
        if kind == "xlsx":
            layout = Layout(header=rng.random() < 0.8, sheet=pick(rng, [None, None, "Sheet1", "x"]))
            name = pick(rng, ["case.xlsx", "case.xlsx", "case.xlsx::Sheet1", "case.xlsx::"])
            return Case(kind, {"case.xlsx": _altered_book(self._book, rng)}, (name, layout))
        if kind == "json":
            return Case(kind, {"case.json": _altered_json(rng)}, ("case.json", AS_IT_SHOWS))
        ending = pick(rng, [".csv", ".csv", ".tsv", ".txt"])
        content, layout = _text(rng)
        return Case(kind, {f"case{ending}": content}, (f"case{ending}", layout))

    def judge(self, case: Case) -> str:
        """Read it, and compare with what another reader finds."""
        name, layout = case.data
        path = Path(name.partition("::")[0])
        before = {file: Path(file).read_bytes() for file in case.files}
        try:
            with only_our_warnings():
                if case.kind == "xlsx" and b"XFD1048576" in _unpacked(before["case.xlsx"]):
                    typed_size(path, 2**28, 2**30)  # by a child process, as the command line does
                sample = read_source(name, Columns(), layout).data
        except MissingDependency:
            return REFUSED
        except InputError as error:
            check_sentence(str(error))
            check("word@" not in str(error), "a password is shown")
            if case.kind in ("text", "json"):
                parts = oracles.in_parts(name, layout)
                check(parts is None, "refused as a whole, but not in parts")
            return REFUSED
        finally:
            same = all(Path(file).read_bytes() == content for file, content in before.items())
            check(same, "reading has written")
            check(not [file.unlink() for file in Path().glob("made*")], "reading has made a file")
        if case.kind == "text":
            oracles.agrees_with_csv(sample, path, layout)
        elif case.kind == "json":
            _agrees_with_json(sample, path)
        if case.kind in ("text", "json"):
            oracles.agrees_in_parts(sample, name, layout)
        oracles.check_samples(sample)
        return ACCEPTED


def _text(rng: Rng) -> tuple[bytes, Layout]:
    """A table in some layout, changed a little, and what the user says of it."""
    separator = pick(rng, SEPARATORS)
    decimal = pick(rng, [".", ".", ","])
    width = int(rng.integers(1, 5))
    rows = [[pick(rng, ["", *"abcde"]) + str(place) * (place > 0) for place in range(width)]]
    if rng.random() < 0.3:
        rows = []
    kinds = [pick(rng, [NUMBERS, NUMBERS, WORDS]) for _ in range(width)]
    for _ in range(int(rng.integers(0, 12))):
        rows.append([pick(rng, kind).replace(".", decimal) for kind in kinds])
    if rng.random() < 0.1:
        rows = [rows[0], *([str(at), *row] for at, row in enumerate(rows[1:]))] if rows else rows
    text = "\n".join(separator.join(_quoted(cell, separator) for cell in row) for row in rows)
    if rng.random() < 0.4 and text:
        content = altered_table(text, separator, rng)
    else:
        content = text.encode(pick(rng, ENCODINGS), "replace")
    if rng.random() < 0.1:
        content = altered_bytes(content, rng) if content else content
    said: dict[str, Any] = {}
    if rng.random() < 0.3:
        said["separator"] = separator
    if rng.random() < 0.3:
        said["decimal"] = pick(rng, [".", ",", decimal])
    if rng.random() < 0.2:
        said["encoding"] = pick(rng, ENCODINGS)
    return content, Layout(**said, header=rng.random() < 0.75)


def _quoted(cell: str, separator: str) -> str:
    return f'"{cell}"' if separator in cell else cell


def _altered_json(rng: Rng) -> bytes:
    rows = TABLE.head(int(rng.integers(0, 9))).to_dicts()
    forms: list[Any] = [
        rows,
        TABLE.to_dict(as_series=False),
        {name: dict(enumerate(column)) for name, column in TABLE.to_dict(as_series=False).items()},
        {"columns": TABLE.columns, "data": [list(row) for row in TABLE.rows()]},
        [list(row) for row in TABLE.rows()],
    ]
    value = pick(rng, forms)
    for _ in range(int(rng.integers(0, 3))):
        value = altered_tree(value, rng, [*ODD, *FIELDS])
    text = json_text(value, rng) if rng.random() < 0.9 else "\n".join(map(json.dumps, rows))
    content = text.encode("utf-8", "replace")
    return altered_bytes(content, rng) if rng.random() < 0.15 and content else content


def _agrees_with_json(table: pl.DataFrame, path: Path) -> None:
    """Every value is what Python's own reader has there, where it has a list of objects."""
    content = path.read_bytes()
    try:
        value = json.loads(content)
    except ValueError:
        return  # an object on each line: see the door `reader`
    if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        names = list(dict.fromkeys(name for row in value for name in row))
        check(table.columns == names, f"columns {table.columns}, not {names}")
        oracles.check_rows(table, [[row.get(name) for name in names] for row in value])


def _unpacked(content: bytes) -> bytes:
    """All that is in an archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return b"".join(archive.read(name) for name in archive.namelist())
    except Exception:
        return b""


def _altered_book(content: bytes, rng: Rng) -> bytes:
    """A workbook with other bytes, or other XML in it."""
    if rng.random() < 0.4:
        return altered_bytes(content, rng)
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(made, "w") as other:
        for name in archive.namelist():
            inside = archive.read(name)
            if "sheet1" in name and rng.random() < 0.8:
                old = pick(rng, [b'r="B2"', b"<v>1.5</v>", b't="s"', b"</row>", b"<sheetData>"])
                new = pick(rng, [b'r="XFD9"', b"<v>x</v>", b't="b"', b't="e"', b"", b"<v>1e999</v>",
                                 b'r="XFD1048576"'] if rng.random() < 0.05 else
                                [b'r="C7"', b"<v>x</v>", b't="b"', b't="e"', b"", b"<v>1e999</v>"])  # fmt: skip
                inside = inside.replace(old, new, int(rng.integers(1, 4)))
            elif rng.random() < 0.1:
                inside = altered_bytes(inside, rng)
            if rng.random() < 0.98:
                other.writestr(name, inside)
    return made.getvalue()


def _duck() -> bytes:
    """A DuckDB file with a table."""
    import tempfile

    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.duckdb"
        with duckdb.connect(str(path)) as database:
            database.execute("CREATE TABLE t AS SELECT range AS a, 'x' AS b FROM range(5)")
        return path.read_bytes()
