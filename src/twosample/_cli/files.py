"""Options of commands that read files: which columns, as what, missing values, groups, pictures."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._data.columns import Columns
from ..errors import InputError

if TYPE_CHECKING:
    from .._files.layout import Layout
    from .._files.opening import ReadOptions

By = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Take both samples from A: the column that says which row is whose; COLUMN=a,b picks "
        "two of its values.",
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="NAMES",
        help="Test these columns only, such as age,height; may be repeated.",
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(metavar="NAMES", help="Test all columns but these; may be repeated."),
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="NAME=KIND",
        help="Take a column as a number or a category; may be repeated.",
    ),
]
Missing = Annotated[
    str | None,
    typer.Option(
        metavar="POLICY",
        help="What to do about missing values: indicator (put the mean in their place and add a "
        "column that says so: the default, with a note); drop (leave out their rows); error.",
        show_default=False,
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(
        "--sep",
        metavar="CHARACTER",
        help="What stands between the fields of text, such as ';' or tab; by default what the file "
        "shows.",
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(
        metavar="MARK",
        help="What stands before the decimals of numbers in text: . or ,; by default what the file "
        "shows.",
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="How text is encoded, such as cp1252; by default UTF-8 if it is that, else a guess.",
    ),
]
NoHeader = Annotated[
    bool,
    typer.Option(
        "--no-header",
        help="The first line of text, or row of a sheet, is data; columns are called 0, 1, ...",
    ),
]
Sheet = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The sheet of a workbook; by default the first."),
]
Resize = Annotated[
    str | None,
    typer.Option(
        metavar="WIDTHxHEIGHT", help="Bring the pictures of folders to one size, such as 64x64."
    ),
]

NoLimit = Annotated[
    bool,
    typer.Option(
        "--no-limit",
        help="Read files that inflate to more than 100 times their size, whatever the memory.",
    ),
]


Groups = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Rows of one group (a subject, a session) move together; the column is not tested.",
    ),
]
Blocks = Annotated[
    str | None,
    typer.Option(
        metavar="ROWS",
        help="Rows are a series: blocks of so many move together. 50+10 leaves 10 out after each; "
        "'auto' finds both numbers.",
    ),
]
Strata = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Rows change places only within a stratum (a site, a prompt); not tested either.",
    ),
]
Pairs = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Rows of A and B with the same value are a pair (the same subject before and after).",
    ),
]

Weights = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Keep each row with a chance proportional to this column, which is not tested.",
    ),
]


def design_options(
    groups: str | None, blocks: str | None, strata: str | None, pairs: str | None
) -> dict[str, Any]:
    """What the options say of rows that depend on each other, as `two_sample_test` takes it."""
    return {"groups": groups, "blocks": blocks, "strata": strata, "pairs": pairs}


def columns_from(
    keep: list[str] | None, drop: list[str] | None, types: list[str] | None, missing: str | None
) -> Columns:
    """What the options say of columns."""
    kinds: dict[str, Any] = {}
    for text in types or ():
        name, equals, kind = text.rpartition("=")
        if not equals or not name:
            raise InputError(
                f"--type is {text!r}; give a column and a kind, such as --type zip=category."
            )
        if kinds.setdefault(name, kind) != kind:
            raise InputError(f"--type gives column '{name}' two kinds; choose one.")
    if missing not in (None, "error", "drop", "indicator"):
        raise InputError(f"--missing is {missing!r}; use error, drop or indicator.")
    return Columns(_names(keep), _names(drop) or (), kinds, missing)  # type: ignore[arg-type]


def layout_from(
    separator: str | None,
    decimal: str | None,
    encoding: str | None,
    no_header: bool,
    sheet: str | None,
) -> Layout:
    """What the options say of how tables are written."""
    from .._files.layout import Layout

    return Layout(separator, decimal, encoding, not no_header, sheet)


def read_options_from(
    columns: Columns,
    layout: Layout,
    *,
    resize: str | None,
    stream: bool | None,
    progress: bool,
    unlimited: bool,
) -> ReadOptions:
    """What the options say of how files are read."""
    from .._files.images import parse_size
    from .._files.opening import ReadOptions

    return ReadOptions(
        rules=columns,
        layout=layout,
        resize=None if resize is None else parse_size(resize),
        stream=stream,
        progress=progress,
        unlimited=unlimited,
    )


def _names(texts: list[str] | None) -> tuple[str, ...] | None:
    """Names with commas between them; a name that contains a comma stands in quotes."""
    if texts is None:
        return None
    names: dict[str, None] = {}
    for text in texts:
        fields = next(csv.reader([text]), [""])
        names |= dict.fromkeys(name.strip() for name in fields)
    return tuple(names)
