"""The options of commands that read files: which columns, as what, missing values, groups, pictures."""

from __future__ import annotations

import csv
from typing import Annotated, Any

import typer

from .._data.columns import Columns
from .._files.images import parse_size
from .._files.opening import Groups, Reading
from ..errors import InputError

By = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Take both samples from A: the column that says which row is whose; COLUMN=a,b picks two of its values.",
    ),
]
Keep = Annotated[
    str | None,
    typer.Option("--columns", metavar="NAMES", help="Test these columns only, such as age,height."),
]
Drop = Annotated[str | None, typer.Option(metavar="NAMES", help="Test all columns but these.")]
Types = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="NAME=KIND",
        help="Take a column as a number or a category; may be repeated.",
    ),
]
Missing = Annotated[
    str,
    typer.Option(
        metavar="POLICY",
        help="What becomes of missing values: error; drop (leave out their rows); indicator (the mean in their place, "
        "and a column that says so).",
    ),
]
Resize = Annotated[
    str | None,
    typer.Option(
        metavar="WIDTHxHEIGHT", help="Bring the pictures of folders to one size, such as 64x64."
    ),
]


def columns_from(
    keep: str | None, drop: str | None, types: list[str] | None, missing: str
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
    if missing not in ("error", "drop", "indicator"):
        raise InputError(f"--missing is {missing!r}; use error, drop or indicator.")
    return Columns(_names(keep), _names(drop) or (), kinds, missing)  # type: ignore[arg-type]


def reading_from(
    columns: Columns,
    by: str | None,
    resize: str | None,
    stream: bool | None,
    *,
    progress: bool = False,
) -> Reading:
    """What the options say of how files are read."""
    groups = None if by is None else Groups.parse(by)
    return Reading(
        columns, groups, None if resize is None else parse_size(resize), stream, progress
    )


def _names(text: str | None) -> tuple[str, ...] | None:
    """Names with commas between them; one that has a comma itself is in quotes."""
    return None if text is None else tuple(name.strip() for name in next(csv.reader([text]), []))
