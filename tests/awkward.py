"""A bank of small awkward tables, as people have them, each with what a careful analyst would say.

`CASES` has the cases. Each makes its files in the present folder and names a line of the command
`twosample test`; `test_awkward.py` runs them all. By hand:

    python tests/awkward.py            # list them
    python tests/awkward.py FOLDER     # write the files of each into a folder of its own

"age" is what differs, by one and a half deviations, wherever something does.
"""

from __future__ import annotations

import datetime
import gzip
import json
import os
import shlex
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

ROWS = (70, 60)


@dataclass(frozen=True)
class Case:
    """Two samples, and what to say about them.

    Attributes
    ----------
    name
        What is awkward.
    make
        Writes the files.
    words
        What follows `twosample test`.
    verdict
        "differ", "same", or "refused" for none.
    says
        Patterns that the notes, warnings or errors contain.
    silent
        Whether nothing but the answer may be said.
    """

    name: str
    make: Callable[[], None]
    words: tuple[str, ...]
    verdict: str
    says: tuple[str, ...] = ()
    silent: bool = False


CASES: list[Case] = []


def case(
    name: str, line: str, verdict: str, *says: str, silent: bool = False
) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Add what a function makes to the bank."""

    def added(make: Callable[[], None]) -> Callable[[], None]:
        CASES.append(Case(name, make, tuple(shlex.split(line)), verdict, says, silent))
        return make

    return added


def people(which: int, shift: float = 0.0) -> pd.DataFrame:
    """The rows of X (0) or Y (1): numbers, and a category with letters beyond ASCII."""
    rng = np.random.default_rng([which, 16])
    rows = ROWS[which]
    return pd.DataFrame(
        {
            "age": (rng.normal(40, 8, rows) + shift).round(1),
            "visits": rng.poisson(3, rows),
            "city": rng.choice(["Zürich", "Köln", "Málaga"], rows),
        }
    )


def pair(differ: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    """X and Y."""
    return people(0), people(1, 12.0 if differ else 0.0)


def write(differ: bool, ending: str, **options: Any) -> None:
    """Both as text, as pandas writes it with these options."""
    options = {"index": False, "encoding": "utf-8"} | options
    for name, frame in zip("xy", pair(differ), strict=True):
        frame.to_csv(f"{name}.{ending}", **options)


def add(
    line: str,
    *,
    cells: Callable[[int, np.random.Generator], list[Any]],
    differ: bool = False,
    ending: str = "csv",
) -> None:
    """Both with one more column, whose cells are made for each sample; `line` is its name."""
    for which, frame in enumerate(pair(differ)):
        rng = np.random.default_rng([which, 7])
        frame[line] = cells(which, rng)
        frame.to_csv(f"{'xy'[which]}.{ending}", index=False)  # fmt: skip


def put(x: str | bytes, y: str | bytes | None = None, ending: str = "csv") -> None:
    """These contents, the same twice if there is only one."""
    for name, content in (("x", x), ("y", x if y is None else y)):
        raw = content.encode() if isinstance(content, str) else content
        Path(f"{name}.{ending}").write_bytes(raw)


CSV = "x.csv y.csv"

# Separators, characters, decimals


for verdict in ("same", "differ"):
    differs = verdict == "differ"
    case("plain", CSV, verdict, silent=True)(lambda d=differs: write(d, "csv"))
    case("semicolons", CSV, verdict, "x.csv is separated by semicolons", "y.csv is separated by")(
        lambda d=differs: write(d, "csv", sep=";")
    )
    case("decimal commas and semicolons", CSV, verdict, "semicolons", "has decimal commas")(
        lambda d=differs: write(d, "csv", sep=";", decimal=",")
    )
    case(
        "Windows characters",
        CSV,
        verdict,
        "not UTF-8 text, and is read as cp1252",
        "Zürich|Köln|Má",
    )(lambda d=differs: write(d, "csv", encoding="cp1252"))
    case("UTF-16", CSV, verdict, silent=True)(lambda d=differs: write(d, "csv", encoding="utf-16"))
    case("an index of pandas", CSV, verdict, "Unnamed: 0.* (?:only names|numbers) the rows")(
        lambda d=differs: write(d, "csv", index=True)
    )
    case("no header, and said", f"{CSV} --no-header", verdict, silent=True)(
        lambda d=differs: write(d, "csv", header=False)
    )

case("tabulators in a .csv", CSV, "differ", "separated by tabulators")(
    lambda: write(True, "csv", sep="\t")
)
case("bars", CSV, "differ", "separated by bars")(lambda: write(True, "csv", sep="|"))
case("a separator that is said", f"{CSV} --sep ~", "differ", silent=True)(
    lambda: write(True, "csv", sep="~")
)
case("a .tsv", "x.tsv y.tsv", "differ", silent=True)(lambda: write(True, "tsv", sep="\t"))
case("a .tsv of commas", "x.tsv y.tsv", "differ", "separated by commas")(lambda: write(True, "tsv"))
case("a .txt of commas", "x.txt y.txt", "differ", silent=True)(lambda: write(True, "txt"))
case("a .txt of tabulators", "x.txt y.txt", "same", silent=True)(
    lambda: write(False, "txt", sep="\t")
)
case("a mark of byte order", CSV, "differ", silent=True)(
    lambda: write(True, "csv", encoding="utf-8-sig")
)
case("an encoding that is said", f"{CSV} --encoding mac_roman", "same", silent=True)(
    lambda: write(False, "csv", encoding="mac_roman")
)
case(
    "an encoding that is wrong",
    f"{CSV} --encoding utf-8",
    "refused",
    "x.csv is not UTF-8 text",
    "y.csv is not UTF-8",
)(lambda: write(False, "csv", encoding="cp1252"))
case("decimal commas in quotes", CSV, "differ", "has decimal commas")(
    lambda: write(True, "csv", decimal=",", quoting=1)
)
case("decimal commas that are said", f"{CSV} --decimal , --sep ;", "same", silent=True)(
    lambda: write(False, "csv", sep=";", decimal=",")
)
case("compressed", "x.csv.gz y.csv.gz", "differ", silent=True)(lambda: write(True, "csv.gz"))
case("lines as Windows ends them", CSV, "same", silent=True)(
    lambda: write(False, "csv", lineterminator="\r\n")
)
case("lines as old Macs ended them", CSV, "differ", silent=True)(
    lambda: write(True, "csv", lineterminator="\r")
)


@case(
    "thousands or decimals, nobody knows",
    CSV,
    "refused",
    "'v' holds numbers, but not as they are read",
)
def _() -> None:
    add(
        "v",
        cells=lambda which, rng: [f"{a},{b}" for a, b in rng.integers(100, 999, (ROWS[which], 2))],
    )


@case(
    "points for thousands among decimal commas",
    f"{CSV} --decimal ,",
    "refused",
    r"x.csv has '\d\.\d+' in column 'paid' where decimals have commas",
    r"y.csv has '\d\.\d+'",
)
def _() -> None:
    for which, frame in enumerate(pair(False)):
        frame["paid"] = [f"{1 + row % 9}.{100 + row}" for row in range(len(frame))]
        frame.to_csv(f"{'xy'[which]}.csv", sep=";", decimal=",", index=False)


@case("blanks between fields", "x.txt y.txt", "differ", silent=True)
def _() -> None:
    for name, frame in zip("xy", pair(True), strict=True):
        rows = [frame.columns, *frame.itertuples(index=False)]
        Path(f"{name}.txt").write_text(
            "".join("".join(f"{cell!s:>12}" for cell in row) + "\n" for row in rows)
        )


@case(
    "names of rows, as R writes them",
    "x.txt y.txt",
    "differ",
    "Unnamed: 0.* (?:only names|numbers) the rows",
)
def _() -> None:
    for name, frame in zip("xy", pair(True), strict=True):
        lines = [" ".join(f'"{column}"' for column in frame.columns)]
        lines += [
            f'"{row}" {age} {visits} "{city}"' for row, age, visits, city in frame.itertuples()
        ]
        Path(f"{name}.txt").write_text("\n".join(lines))


@case("what numpy.savetxt writes", "x.txt y.txt --no-header", "differ", silent=True)
def _() -> None:
    for name, frame in zip("xy", pair(True), strict=True):
        np.savetxt(f"{name}.txt", frame[["age", "visits"]])


@case(
    "what numpy.savetxt writes, and nothing said",
    "x.txt y.txt",
    "refused",
    "x.txt begins with data .*--no-header",
    "y.txt begins with data",
)
def _() -> None:
    for name, frame in zip("xy", pair(True), strict=True):
        np.savetxt(f"{name}.txt", frame[["age", "visits"]])


case(
    "no header, and nothing said",
    CSV,
    "refused",
    "x.csv begins with data .*--no-header",
    "y.csv begins with data",
)(lambda: write(True, "csv", header=False))
case("years as names", CSV, "same", silent=True)(
    lambda: put(
        *(
            pd.DataFrame(
                np.random.default_rng(which).normal(size=(60, 3)), columns=[2019, 2020, 2021]
            ).to_csv(index=False)
            for which in (0, 1)
        )
    )
)
case("an index that is named by --drop", f"{CSV} --drop 'Unnamed: 0'", "same", silent=True)(
    lambda: write(False, "csv", index=True)
)
case(
    "an index that is wanted",
    f"{CSV} --type 'Unnamed: 0=number' --columns age,'Unnamed: 0'",
    "same",
    silent=True,
)(lambda: write(False, "csv", index=True))
case(
    "an index of pandas in Parquet",
    "x.parquet y.parquet",
    "same",
    "__index_level_0__.* (?:only names|numbers) the rows",
)(
    lambda: [
        frame.sample(frac=1, random_state=0).to_parquet(f"{name}.parquet")
        for name, frame in zip("xy", pair(False), strict=True)
    ]
)
case("commas at the ends of lines", CSV, "same", "no name for 1 of 4 columns, called 'Unnamed: 3'")(
    lambda: put(*(frame.to_csv(index=False, lineterminator=",\n") for frame in pair(False)))
)
case("blank lines", CSV, "differ", silent=True)(
    lambda: put(
        *("\n\n" + frame.to_csv(index=False, lineterminator="\n\n") for frame in pair(True))
    )
)
case("columns in another order", CSV, "same", silent=True)(
    lambda: put(
        *(
            frame[list(order)].to_csv(index=False)
            for frame, order in zip(
                pair(False), (["age", "visits", "city"], ["city", "age", "visits"]), strict=True
            )
        )
    )
)
case("blanks around names and values", CSV, "same", silent=True)(
    lambda: put(*(frame.to_csv(index=False).replace(",", " , ") for frame in pair(False)))
)


@case("separators and newlines within quotation marks", CSV, "differ", silent=True)
def _() -> None:
    for name, frame in zip("xy", pair(True), strict=True):
        frame["city"] = frame["city"].map(
            {"Zürich": "Zürich, ZH", "Köln": 'the "old"\ntown', "Málaga": "Málaga"}
        )
        frame.to_csv(f"{name}.csv", index=False)


case(
    "a line with a field too many",
    CSV,
    "refused",
    "x.csv, line 3: 4 fields where the header has 3",
    "y.csv, line 2: 2 fields",
)(lambda: put("a,b,c\n1,2,3\n1,2,3,4\n", "a,b,c\n1,2\n"))
case("names twice", CSV, "refused", "x.csv has 2 columns called 'a' and 2 columns called 'b'")(
    lambda: put("a,b,a,b\n1,2,3,4\n" * 1 + "1,2,3,4\n")
)
case("an empty file", CSV, "refused", r"x.csv is empty \(0 bytes\)", "y.csv is empty")(
    lambda: put("")
)
case(
    "a header and no row",
    CSV,
    "refused",
    "x.csv is empty: it has 0 rows",
    "y.csv is empty: it has 0 rows",
)(lambda: put("a,b\n"))
case("a workbook that is called .csv", CSV, "refused", "x.csv .*is it of another kind")(
    lambda: put(b"PK\x03\x04\x14\0\0\0\x08\0\xff\x81")
)
case(
    "text that is called .xlsx",
    "x.xlsx y.xlsx",
    "refused",
    "x.xlsx cannot be read as xlsx",
    "y.xlsx cannot be read",
)(lambda: put("a,b\n1,2\n", ending="xlsx"))
case(
    "files that do not exist",
    "x.csv y.odd",
    "refused",
    "x.csv does not exist",
    "y.odd does not exist",
)(lambda: None)
case(
    "a file of a kind that nobody reads",
    "x.sav y.sav",
    "refused",
    r"x.sav ends in '\.sav', which is none of the known kinds",
)(lambda: put("?", ending="sav"))


# Missing values


def gaps(rates: tuple[float, float], written: str = "") -> None:
    """Both with gaps in age at these rates."""
    for which, frame in enumerate(pair(False)):
        missing = np.random.default_rng([which, 3]).random(len(frame)) < rates[which]
        frame["age"] = frame["age"].astype(object).where(~missing, written)
        frame.to_csv(f"{'xy'[which]}.csv", index=False)


case(
    "missing values, as many in both",
    CSV,
    "same",
    "Missing values are counted and tested as such .column 'age': ",
)(lambda: gaps((0.2, 0.2)))
case(
    "missing values, more in one",
    CSV,
    "differ",
    r"column 'age': \d of 70 in x.csv, \d\d of 60 in y.csv",
)(lambda: gaps((0.05, 0.6)))
case("all missing in one", CSV, "differ", "column 'age': 0 of 70 in x.csv, 60 of 60 in y.csv")(
    lambda: gaps((0.0, 1.1))
)
case("missing values to be left out", f"{CSV} --missing drop", "same", silent=True)(
    lambda: gaps((0.05, 0.6))
)
case(
    "missing values to be refused",
    f"{CSV} --missing error",
    "refused",
    r"x.csv contains \d+ missing values .first at line \d+, column 'age'",
    r"y.csv contains \d+ missing",
)(lambda: gaps((0.2, 0.2)))
for written in ("NA", "N/A", "n/a", "null", "nan"):
    case(f"missing values written {written}", CSV, "same", "Missing values are counted")(
        lambda word=written: gaps((0.2, 0.2), word)
    )
for written in ("?", "-", "unknown", "#N/A"):
    case(
        f"cells written {written}",
        CSV,
        "refused",
        rf"'age' holds numbers, but not in all cells: x.csv has '{written[0] if written != '?' else '.'}.*at line \d+",
        "--type age=category",
        "--drop age",
    )(lambda word=written: gaps((0.05, 0.05), word))
case("missing levels", CSV, "differ", "column 'kind': ")(
    lambda: add(
        "kind",
        cells=lambda which, rng: rng.choice(
            ["a", "b", ""], ROWS[which], p=[0.5, 0.4, 0.1] if which else [0.3, 0.1, 0.6]
        ).tolist(),
    )
)
case("NaN in arrays", "x.npy y.npy", "same", r"column 1: \d+ of 70 in x.npy, \d+ of 60 in y.npy")(
    lambda: [
        np.save(
            f"{name}.npy",
            frame.assign(visits=frame["visits"].replace(3, np.nan))[["age", "visits"]],
        )
        for name, frame in zip("xy", pair(False), strict=True)
    ]
)
case(
    "infinity",
    CSV,
    "refused",
    "x.csv contains 1 non-finite value .first at line 7, column 'v'",
    "y.csv contains 1 non-finite value",
)(
    lambda: add(
        "v",
        cells=lambda which, rng: [*rng.normal(size=5), "inf", *rng.normal(size=ROWS[which] - 6)],
    )
)


# Dates, times, truths


def days(which: int, rng: np.random.Generator, later: int = 0) -> list[str]:
    """Days of a month, or of one so many days later."""
    first = datetime.date(2024, 3, 1)
    return [
        str(first + datetime.timedelta(days=int(day) + later * which))
        for day in rng.integers(0, 30, ROWS[which])
    ]


case(
    "dates of the same month",
    CSV,
    "same",
    "Dates are tested as days since 1970-01-01.*column 'day'.*--drop day",
)(lambda: add("day", cells=days))
case(
    "dates of different months",
    CSV,
    "same",
    "day is apart in both samples",
)(lambda: add("day", cells=lambda which, rng: days(which, rng, 31)))
case("dates of different months, left out", f"{CSV} --drop day", "same", silent=True)(
    lambda: add("day", cells=lambda which, rng: days(which, rng, 31))
)
case("dates as levels", f"{CSV} --type day=category", "same", silent=True)(
    lambda: add("day", cells=days)
)
case(
    "dates but for a cell",
    CSV,
    "refused",
    "'day' holds dates, but not in all cells: x.csv has 'soon' at line 2",
)(lambda: add("day", cells=lambda which, rng: ["soon", *days(which, rng)[1:]]))
case(
    "dates in one file, numbers in the other",
    CSV,
    "refused",
    "x.csv has dates in column 'day' but y.csv has numbers",
)(
    lambda: add(
        "day",
        cells=lambda which, rng: (
            rng.normal(size=ROWS[which]).tolist() if which else days(which, rng)
        ),
    )
)
case("times of a day", CSV, "differ", "times as seconds: column 'at'")(
    lambda: add(
        "at",
        cells=lambda which, rng: [
            f"{int(hour):02}:30:00"
            for hour in rng.integers(12 * which, 12 * which + 9, ROWS[which])
        ],
    )
)
case("instants with a zone", CSV, "same", "column 'at'")(
    lambda: add(
        "at", cells=lambda which, rng: [f"{day}T12:00:00+02:00" for day in days(which, rng)]
    )
)
case(
    "dates as Americans write them",
    CSV,
    "refused",
    "'day' holds dates, but not as they are read here: x.csv has '03/.*/2024' at line 2.*like 2024-",
)(
    lambda: add(
        "day",
        cells=lambda which, rng: [
            datetime.date.fromisoformat(day).strftime("%m/%d/%Y") for day in days(which, rng)
        ],
    )
)
case("true and false", CSV, "differ", silent=True)(
    lambda: add(
        "ok", cells=lambda which, rng: (rng.random(ROWS[which]) < (0.9 if which else 0.2)).tolist()
    )
)
case("TRUE and true", CSV, "same", silent=True)(
    lambda: add(
        "ok",
        cells=lambda which, rng: [
            ("TRUE", "FALSE")[bit] if which else ("true", "false")[bit]
            for bit in rng.integers(0, 2, ROWS[which])
        ],
    )
)
case("true and 1", CSV, "same", silent=True)(
    lambda: add(
        "ok",
        cells=lambda which, rng: [
            int(bit) if which else bool(bit) for bit in rng.integers(0, 2, ROWS[which])
        ],
    )
)
case(
    "true and yes", CSV, "refused", "x.csv has true and false in column 'ok' but y.csv has strings"
)(
    lambda: add(
        "ok",
        cells=lambda which, rng: [
            ("no", "yes")[bit] if which else bool(bit) for bit in rng.integers(0, 2, ROWS[which])
        ],
    )
)


# Text and levels


def levels(differ: bool) -> Callable[[int, np.random.Generator], list[str]]:
    """One of 62 levels for each row; if they differ, each sample has mostly its own."""

    def cells(which: int, rng: np.random.Generator) -> list[str]:
        weights = np.ones(62)
        if differ:
            weights[31 * which : 31 * which + 31] = 20
        return [f"L{level:03}" for level in rng.choice(62, ROWS[which], p=weights / weights.sum())]

    return cells


def words(which: int, rng: np.random.Generator) -> list[str]:
    """A sentence for each row."""
    some = ["the", "lamp", "came", "late", "but", "works", "well", "never", "again", "blue"]
    return [" ".join(rng.choice(some, 5)) for _ in range(ROWS[which])]


case(
    "free text",
    CSV,
    "same",
    r"1 column is left out, since free text .*column 'note' \(1\d\d different values in 130",
)(lambda: add("note", cells=words))
case("free text, and a difference", CSV, "differ", "left out, since free text")(
    lambda: add("note", cells=words, differ=True)
)
case("identifiers that are text", CSV, "same", "left out, since free text and identifiers .*'id'")(
    lambda: add(
        "id", cells=lambda which, rng: [f"user-{1000 * which + row}" for row in range(ROWS[which])]
    )
)
case(
    "nothing but free text",
    f"{CSV} --columns note",
    "refused",
    "'note' has 1.* as a category it would tell nothing",
)(lambda: add("note", cells=words))
case(
    "free text that is to be a category",
    f"{CSV} --columns note --type note=category",
    "same",
    silent=True,
)(lambda: add("note", cells=words))
case(
    "many levels",
    CSV,
    "same",
    r"50 most frequent .*'kind' .\d+ of \d+ levels.*--type kind=category",
)(lambda: add("kind", cells=levels(False)))
case("many levels, other frequent ones", CSV, "differ", "50 most frequent .*'kind'")(
    lambda: add("kind", cells=levels(True))
)
case("many levels, all told apart", f"{CSV} --type kind=category", "differ", silent=True)(
    lambda: add("kind", cells=levels(True))
)
case("codes that look like numbers", f"{CSV} --type zip=category", "differ", silent=True)(
    lambda: add(
        "zip",
        cells=lambda which, rng: rng.choice(
            ["02139", "94103"], ROWS[which], p=[0.9, 0.1] if which else [0.2, 0.8]
        ).tolist(),
    )
)
case(
    "prices with a sign of currency",
    CSV,
    "refused",
    "'v' holds numbers, but not as they are read here: x.csv has '[$]",
)(
    lambda: add(
        "v", cells=lambda which, rng: [f"${value:.2f}" for value in rng.normal(50, 9, ROWS[which])]
    )
)
case("lengths with a unit", CSV, "refused", "not as they are read here: x.csv has '.* kg'")(
    lambda: add(
        "v",
        cells=lambda which, rng: [f"{value:.1f} kg" for value in rng.normal(50, 9, ROWS[which])],
    )
)
case(
    "numbers in one file, words in the other",
    CSV,
    "refused",
    "x.csv has numbers in column 'v' but y.csv has strings or categories",
)(
    lambda: add(
        "v",
        cells=lambda which, rng: (
            rng.choice(["low", "high"], ROWS[which]).tolist()
            if which
            else rng.normal(size=ROWS[which]).tolist()
        ),
    )
)
case("a column that one file has not", CSV, "refused", "missing in y.csv: 'city'")(
    lambda: put(
        *(
            frame.to_csv(index=False) if at == 0 else frame.drop(columns="city").to_csv(index=False)
            for at, frame in enumerate(pair(False))
        )
    )
)
case("columns to leave out, said twice", f"{CSV} --drop age --drop city", "same", silent=True)(
    lambda: write(True, "csv")
)
case(
    "a column to leave out that is not there",
    f"{CSV} --drop nosuch --drop none",
    "refused",
    "there is no column 'nosuch' or 'none'; there are age, city, visits",
)(lambda: write(True, "csv"))


@case(
    "three columns at fault in one file, one in the other",
    CSV,
    "refused",
    "3 things stand in the way",
    r"1\. x.csv has strings .* column 'a' but y.csv has numbers.*'\?' at line 5",
    r"2\. x.csv has strings .* column 'b' but y.csv has numbers.*'\$5' at line 6",
    r"3\. .*x.csv has numbers in column 'c' but y.csv has strings",
)
def _() -> None:
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(40, 3)).round(2), columns=list("abc")).astype(object)
    y = x.copy()
    x.loc[3, "a"], x.loc[4, "b"], y["c"] = "?", "$5", "word"
    put(x.to_csv(index=False), y.to_csv(index=False))


# Workbooks, JSON, databases


def books(differ: bool, **options: Any) -> None:
    """Both as workbooks of two sheets, of which the second is the other sample."""
    frames = pair(differ)
    for which, name in enumerate("xy"):
        with pd.ExcelWriter(f"{name}.xlsx", engine="xlsxwriter") as book:
            frames[which].to_excel(book, sheet_name="data", index=False, **options)
            frames[0].to_excel(book, sheet_name="old", index=False)


case(
    "workbooks",
    "x.xlsx y.xlsx",
    "differ",
    r"x.xlsx has 2 sheets \('data', 'old'\), of which the first is read; --sheet",
)(lambda: books(True))
case("workbooks, a sheet that is said", "x.xlsx y.xlsx --sheet data", "differ", silent=True)(
    lambda: books(True)
)
case("two sheets of a workbook", "y.xlsx::old y.xlsx::data", "differ", silent=True)(
    lambda: books(True)
)
case(
    "a sheet that is not there",
    "x.xlsx y.xlsx --sheet Data",
    "refused",
    "x.xlsx has no sheet 'Data'; it has 'data', 'old'",
    "y.xlsx has no sheet",
)(lambda: books(True))


@case(
    "a workbook with an index, dates, truths and gaps",
    "x.xlsx y.xlsx",
    "same",
    "Unnamed: 0",
    "Dates are tested as days.*'day'",
    "column 'visits': ",
)
def _() -> None:
    for which, frame in enumerate(pair(False)):
        rng = np.random.default_rng([which, 6])
        frame["day"] = pd.to_datetime(days(which, rng))
        frame["ok"] = rng.random(len(frame)) < 0.5
        frame["visits"] = frame["visits"].where(frame["visits"] != 2)
        frame.to_excel(f"{'xy'[which]}.xlsx", engine="xlsxwriter")


@case(
    "a workbook with an odd cell",
    "x.xlsx y.xlsx",
    "refused",
    "x.xlsx has 'n.a.' at row 5 of sheet 'Sheet1'",
)
def _() -> None:
    for name, frame in zip("xy", pair(False), strict=True):
        frame["age"] = frame["age"].astype(object)
        frame.loc[3, "age"] = "n.a."
        frame.to_excel(f"{name}.xlsx", engine="xlsxwriter", index=False)


for orient in ("records", "columns", "split", "list"):
    case(f"JSON, {orient}", "x.json y.json", "differ", silent=True)(
        lambda how=orient: [
            Path(f"{name}.json").write_text(
                json.dumps(frame.to_dict("list")) if how == "list" else frame.to_json(orient=how)
            )
            for name, frame in zip("xy", pair(True), strict=True)
        ]
    )
case("JSON lines in a .json", "x.json y.json", "same", silent=True)(
    lambda: [
        frame.to_json(f"{name}.json", orient="records", lines=True)
        for name, frame in zip("xy", pair(False), strict=True)
    ]
)
case(
    "JSON with lists in cells",
    "x.json y.json",
    "refused",
    "x.json has a list or an object in column 'tags' at row 0",
    "x.json has a number in column 'v' at row 0 but text at row 1",
    "y.json",
)(lambda: put('[{"tags": [1], "v": 1}, {"tags": [2], "v": "x"}]', ending="json"))
case("JSON with dates", "x.json y.json", "differ", "Dates are tested as days.*'day'")(
    lambda: [
        Path(f"{'xy'[which]}.json").write_text(
            json.dumps([{"day": day} for day in days(which, np.random.default_rng(which), 31)])
        )
        for which in (0, 1)
    ]
)


def database(name: str, table: str, frame: pd.DataFrame) -> None:
    """A table of a SQLite database."""
    with sqlite3.connect(name) as connection:
        frame.to_sql(table, connection, index=False)


case("two tables of a database", "shop.db::may shop.db::june", "differ", silent=True)(
    lambda: [
        database("shop.db", table, frame)
        for table, frame in zip(("may", "june"), pair(True), strict=True)
    ]
)
case(
    "two queries of a database",
    "'shop.db::SELECT age FROM may' 'shop.db::SELECT age FROM may WHERE age > 0'",
    "same",
    silent=False,
)(
    lambda: [
        database("shop.db", table, frame)
        for table, frame in zip(("may", "june"), pair(True), strict=True)
    ]
)
case(
    "a database and no query",
    "shop.db shop.db::june",
    "refused",
    "shop.db is a database with the tables may, june; say what",
)(
    lambda: [
        database("shop.db", table, frame)
        for table, frame in zip(("may", "june"), pair(True), strict=True)
    ]
)


@case("two tables of DuckDB", "shop.duckdb::may shop.duckdb::june", "differ", silent=True)
def _() -> None:
    import duckdb

    with duckdb.connect("shop.duckdb") as connection:
        for table, frame in zip(("may", "june"), pair(True), strict=True):
            arrow = pl.from_pandas(frame).to_arrow()
            connection.register("given", arrow)
            connection.execute(f"CREATE TABLE {table} AS SELECT * FROM given")


@case(
    "two groups of a German export",
    "all.csv --by gruppe",
    "differ",
    "not UTF-8 text",
    "separated by semicolons",
    "has decimal commas",
    "Unnamed: 0",
    "Dates are tested",
    "column 'visits': ",
)
def _() -> None:
    frames = []
    for which, frame in enumerate(pair(True)):
        rng = np.random.default_rng([which, 11])
        frame["day"] = days(which, rng)
        frame["visits"] = frame["visits"].where(frame["visits"] != 2)
        frames.append(frame.assign(gruppe="ab"[which]))
    both = pd.concat(frames, ignore_index=True)
    both.to_csv("all.csv", sep=";", decimal=",", encoding="cp1252")


@case("a CSV file and a Parquet file of the same rows", "x.csv x.parquet", "same", silent=False)
def _() -> None:
    frame = people(0)
    frame.to_csv("x.csv", index=False)
    frame.to_parquet("x.parquet", index=False)


@case(
    "a file that was compressed twice",
    "x.csv.gz y.csv.gz",
    "refused",
    "x.csv.gz is not UTF-8 text .*is it of another kind",
)
def _() -> None:
    put(
        gzip.compress(gzip.compress(people(0).to_csv(index=False).encode(), mtime=0), mtime=0),
        ending="csv.gz",
    )


def main() -> None:
    """List the cases, or write their files."""
    if len(sys.argv) < 2:
        for each in CASES:
            print(f"{each.verdict:8} {each.name}: twosample test {shlex.join(each.words)}")  # noqa: T201
        return
    top = Path(sys.argv[1]).absolute()
    for number, each in enumerate(CASES):
        folder = top / f"{number:03}"
        folder.mkdir(parents=True)
        os.chdir(folder)
        each.make()
        (folder / "CASE.txt").write_text(f"{each.name}\n{shlex.join(each.words)}\n{each.verdict}\n")


if __name__ == "__main__":
    main()
