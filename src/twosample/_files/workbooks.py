"""Sheets of Excel workbooks to tables, by polars and fastexcel."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, InputNote, MissingDependency, warn
from .handles import polars_for, unheard
from .layout import Layout

if TYPE_CHECKING:
    import polars

WORKBOOKS = (".xlsx", ".xlsm")
"""Endings of workbooks."""


def read_workbook(
    stream: io.BufferedReader, file: Path, sheet: str | None, layout: Layout
) -> tuple[polars.DataFrame, Callable[[int], str]]:
    """A sheet of a workbook, and what messages call its rows."""
    pl = polars_for(file)
    content = stream.read()
    name = _sheet(content, file, sheet if sheet is not None else layout.sheet)
    with unheard:
        table: polars.DataFrame = pl.read_excel(
            io.BytesIO(content),
            sheet_name=name,
            has_header=layout.header,
            infer_schema_length=None,  # all rows: a column is what all of its values are
            raise_if_empty=False,
            drop_empty_rows=False,
            drop_empty_cols=False,
        )
    names = _names(table.columns, layout.header)
    table.columns = names
    first = 2 if layout.header else 1  # the row of the sheet in which the data begin
    return table, lambda row: f"row {row + first} of sheet '{name}'"


def _names(given: list[str], header: bool) -> list[str]:
    """The names of columns; those without any are called as pandas calls them."""
    if not header:
        return [str(place) for place in range(len(given))]
    return [
        f"Unnamed: {place}" if name.startswith("__UNNAMED__") or not name.strip() else name.strip()
        for place, name in enumerate(given)
    ]


def _sheet(content: bytes, file: Path, wanted: str | None) -> str:
    """The name of the sheet that is meant: the wanted one, or the first."""
    sheets: list[str] = _fastexcel(file).read_excel(content).sheet_names
    if not sheets:
        raise InputError(f"{file} has no sheets.")
    if wanted is None:
        if len(sheets) > 1:
            shown = ", ".join(f"'{sheet}'" for sheet in sheets[:10])
            warn(
                f"{file} has {len(sheets)} sheets ({shown}), of which the first is read; --sheet "
                f"NAME, or '{file}::{sheets[1]}', picks another.",
                InputNote,
            )
        return sheets[0]
    if wanted not in sheets:
        shown = ", ".join(f"'{sheet}'" for sheet in sheets[:10])
        raise InputError(f"{file} has no sheet '{wanted}'; it has {shown}.")
    return wanted


def _fastexcel(file: Path) -> Any:
    try:
        import fastexcel
    except ImportError as error:
        raise MissingDependency(
            f"{file} takes fastexcel to read; pip install 'twosample[excel]'."
        ) from error
    return fastexcel


def workbook_size(file: Path) -> tuple[int, int]:
    """Bytes of a workbook, unpacked and packed, by what it says; 0 if it cannot be read."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
    except (OSError, zipfile.BadZipFile, ValueError):  # whoever reads the file says what is wrong
        return 0, 0
    unpacked = sum(member.file_size for member in members)
    packed = sum(member.compress_size for member in members)
    return unpacked, packed
