"""Values as texts, and tables of texts for terminals and notebooks.

The first line of a table is its head.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

Cells = Sequence[Sequence[str]]


def as_text(value: float | bool | str, digits: int = 6) -> str:
    """A value of the data in few characters, as Python spells it."""
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    return str(value)


def percent(share: float) -> str:
    """A share in percent, with one decimal."""
    rounded = round(100 * share, 1)
    return f"{rounded + 0.0:.1f} %"  # adding 0.0 makes 0.0 of -0.0


def aligned(cells: Cells) -> list[str]:
    """The lines of a table for a terminal, with columns of one width."""
    columns = zip(*cells, strict=True)
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for row in cells:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        line = "  " + "  ".join(padded)
        lines.append(line.rstrip())  # the last column needs no width
    return lines


def html_table(cells: Cells) -> str:
    """A table for a notebook."""
    head, *body = cells
    rows = [_html_row(head, "th style='text-align:left'", "th")]
    rows += [_html_row(line, "td", "td") for line in body]
    return f"<table>{''.join(rows)}</table>"


def _html_row(cells: Sequence[str], start: str, end: str) -> str:
    texts = [f"<{start}>{html.escape(cell)}</{end}>" for cell in cells]
    return f"<tr>{''.join(texts)}</tr>"


def html_list(notes: Sequence[str]) -> str:
    """Sentences as a list; nothing where there are none."""
    if not notes:
        return ""
    items = [f"<li>{html.escape(note)}</li>" for note in notes]
    return f"<ul>{''.join(items)}</ul>"
