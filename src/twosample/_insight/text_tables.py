"""Tables of texts, for terminals and for notebooks. The first line of a table is its head."""

from __future__ import annotations

import html
from collections.abc import Sequence

Cells = Sequence[Sequence[str]]


def aligned(cells: Cells) -> list[str]:
    """The lines of a table for a terminal, with columns of one width."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for line in cells:
        padded = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        lines.append(("  " + "  ".join(padded)).rstrip())
    return lines


def html_table(cells: Cells) -> str:
    """A table for a notebook."""
    head, *body = cells
    rows = ["".join(f"<th style='text-align:left'>{html.escape(cell)}</th>" for cell in head)]
    rows += ["".join(f"<td>{html.escape(cell)}</td>" for cell in line) for line in body]
    return "<table>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"


def html_list(notes: Sequence[str]) -> str:
    """Sentences as a list; nothing where there are none."""
    if not notes:
        return ""
    return "<ul>" + "".join(f"<li>{html.escape(note)}</li>" for note in notes) + "</ul>"
