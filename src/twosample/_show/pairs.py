"""How two columns go together in each sample: a cloud of points, or a table of shares."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._data.schema import Column
from .._insight.changes import PairChange
from .._insight.held_out import column_rows
from .._insight.summaries import levels_of
from .._result import TwoSampleResult
from .maps import Array, Scatter
from .svg import tick_label

_MOST_POINTS = 400  # of each sample that are drawn
_MOST_LEVELS = 5  # of a category, the most common ones; what is rarer is "other"
_CUTS = np.arange(1, 5) / 5  # quantiles at which numbers are cut beside a category
_YES = 0.5


@dataclass(frozen=True, eq=False)
class Grid:
    """Two columns of which at least one is a category, or true and false.

    Attributes
    ----------
    names
        The column of the lines, and that of the cells in a line.
    lines, cells
        The levels of the two, as texts; numbers are cut into intervals.
    x, y
        (lines, cells) which share of a line is in each cell, in X and in Y; 0 in a line without
        rows.
    """

    names: tuple[str, str]
    lines: tuple[str, ...]
    cells: tuple[str, ...]
    x: Array
    y: Array


def pair_of(result: TwoSampleResult, pair: PairChange) -> Scatter | Grid:
    """What there is to see of a pair, in the rows that were tested."""
    first, second = (column_rows(result, name) for name in pair.columns)
    if first.column.kind == second.column.kind == "numeric":
        present = []
        for a, b in zip(first.rows, second.rows, strict=True):
            here = ~_is_missing(first.column, a) & ~_is_missing(second.column, b)
            points = np.column_stack([a[here, 0], b[here, 0]])
            present.append(points[:: max(1, -(-len(points) // _MOST_POINTS))])
        of_y = np.repeat([False, True], [len(present[0]), len(present[1])])
        return Scatter(np.concatenate(present), of_y, pair.columns)
    # The category makes the lines, so that one reads how the other column is spread within each.
    if first.column.kind == "numeric":
        first, second = second, first
    lines, line_of = _coded(first.column, first.rows)
    cells, cell_of = _coded(second.column, second.rows)
    shares = []
    for line, cell in zip(line_of, cell_of, strict=True):
        counts = np.zeros((len(lines), len(cells)))
        np.add.at(counts, (line, cell), 1)
        shares.append(counts / np.maximum(counts.sum(1, keepdims=True), 1))
    names = (first.column.name, second.column.name)
    return Grid(names, lines, cells, shares[0], shares[1])


Codes = tuple[NDArray[np.int64], NDArray[np.int64]]


def _coded(column: Column, rows: tuple[Array, Array]) -> tuple[tuple[str, ...], Codes]:
    """The levels of a column, or intervals of its numbers, and the number of each row's level."""
    pooled = np.concatenate(rows)
    missing = _is_missing(column, pooled)
    names: list[str]
    if missing.all():
        names = []
        codes = np.zeros(len(pooled), dtype=np.int64)
    elif column.kind == "numeric":
        known = pooled[~missing, 0]
        # Two digits, so that the ends of an interval fit above a cell.
        cuts = np.unique([float(f"{cut:.2g}") for cut in np.quantile(known, _CUTS)])
        codes = np.searchsorted(cuts, pooled[:, 0], side="right")
        ends = [tick_label(cut) for cut in cuts.tolist()]
        between = [f"{low}–{high}" for low, high in itertools.pairwise(ends)]
        names = [f"< {ends[0]}", *between, f"≥ {ends[-1]}"]
    elif column.kind == "boolean":
        codes = (pooled[:, 0] > _YES).astype(np.int64)
        names = ["false", "true"]
    else:
        names = levels_of(column)
        codes = pooled[:, : len(names)].argmax(1)
    if missing.any():
        codes = np.where(missing, len(names), codes)
        names = [*names, "missing"]
    codes, names = _most_common(codes, names)
    n = len(rows[0])
    return tuple(names), (codes[:n], codes[n:])


def _most_common(codes: NDArray[np.int64], names: list[str]) -> tuple[NDArray[np.int64], list[str]]:
    """The same levels without those that no row has, and with rare ones as one."""
    counts = np.bincount(codes, minlength=len(names))
    kept = np.sort(np.argsort(-counts, kind="stable")[:_MOST_LEVELS])
    kept = kept[counts[kept] > 0]
    new = np.full(len(names), len(kept))
    new[kept] = np.arange(len(kept))
    shown = [names[place] for place in kept]
    if counts.sum() > counts[kept].sum():
        shown.append("other")
    return new[codes], shown


def _is_missing(column: Column, rows: Array) -> NDArray[np.bool_]:
    if not column.missing:
        return np.zeros(len(rows), dtype=bool)
    missing: NDArray[np.bool_] = rows[:, -1] > _YES
    return missing
