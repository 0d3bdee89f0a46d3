"""Signs that rows depend on each other, where nobody has said so.

Two things are looked at, in each sample by itself, so labels have no say. First the order of rows:
if they are independent, neighbours resemble each other no more than others do, so the rank
autocorrelations of a column at lags 1, 2, ... are nearly independent and normal with variance 1/n.
Then columns whose values repeat in runs, as the name of a subject does, and explain much of the
other columns. Limits are such that hardly any independent rows give a false alarm: memory that
spoils a p-value stands out far more clearly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy  # which imports its parts, such as scipy.stats, when they are used
from numpy.typing import NDArray

_CHANCE = 1e-5  # of a false alarm: what matters stands out much more than that
_LAGS = 10
_LEAST_NEIGHBOURS = 0.1  # a lag-1 correlation that matters: it widens a variance by a fifth
_LEAST_MEAN = 0.04  # the same of the mean over all lags
_LEAST_EXPLAINED = 0.1  # intraclass correlation that matters
_FEWEST_ROWS = 50
_FEWEST_LEVELS = 5  # of a column that may name groups
_MOST_ROWS = 20_000
_MOST_COLUMNS = 100


class Look(NamedTuple):
    """A sample in the order in which it came."""

    name: str
    values: NDArray[np.float64]  # (rows, columns), levels of categories counted
    columns: Sequence[str]


def signs_of_dependence(samples: Sequence[Look]) -> str | None:
    """A sentence on the clearest sign that rows depend on each other, and what to do; or None."""
    looks = [look for look in samples if len(look.values) >= _FEWEST_ROWS]
    looks = [look._replace(values=look.values[:_MOST_ROWS, :_MOST_COLUMNS]) for look in looks]
    if not looks:
        return None
    tests = sum(3 * look.values.shape[1] for look in looks)
    chance = _CHANCE / max(1, tests)
    limit = float(scipy.stats.norm.isf(chance))
    for look in looks:
        found = _group_column(look, limit)
        if found is not None:
            column, share, levels = found
            return (
                f"in {look.name}, rows of one {column!r} follow each other, and which of its "
                f"{levels} values a row has explains {share:.0%} of another column; if rows of one "
                f"{column!r} belong together, say so with groups={column!r}, or p-values are too "
                "small"
            )
    worst: tuple[float, str] | None = None
    for look in looks:
        for place, correlation in _neighbours(look.values, chance):
            if worst is None or correlation > worst[0]:
                worst = (correlation, f"column {look.columns[place]!r} of {look.name}")
    if worst is None:
        return None
    correlation, where = worst
    return (
        f"neighbouring rows resemble each other (a rank correlation of {correlation:.2f} in "
        f"{where}), as in a series or where several rows belong to one subject; independent rows "
        "do not. Say which with blocks='auto' or groups=..., or p-values are too small; if the "
        "rows were only sorted, shuffle them"
    )


def _neighbours(values: NDArray[np.float64], chance: float) -> list[tuple[int, float]]:
    """The columns in which neighbours resemble each other more than chance allows."""
    if _is_sorted_with_ties(values):
        return []  # somebody has put the rows in order: it says nothing about how they were taken
    rows = len(values)
    limit = float(scipy.stats.norm.isf(chance)) / math.sqrt(rows)
    # A mean over L lags is a quadratic form of the ranks with the skewness 3 (L - 1) / sqrt(n L).
    skewness = 3 * (_LAGS - 1) / math.sqrt(rows * _LAGS)
    of_mean = float(scipy.stats.pearson3.isf(chance, skewness)) / math.sqrt(rows * _LAGS)
    found = []
    for place in range(values.shape[1]):
        if _is_monotone(values[:, place]):
            continue  # a number of the row, or a time
        r = rank_autocorrelation(values[:, place], _LAGS)
        mean = float(r.mean())
        of_next = r[0] > max(limit, _LEAST_NEIGHBOURS)
        of_many = mean > max(of_mean, _LEAST_MEAN)
        if of_next or of_many:
            found.append((place, float(max(r[0], mean))))
    return found


def rank_autocorrelation(column: NDArray[np.float64], lags: int) -> NDArray[np.float64]:
    """(lags,) correlations of the ranks of rows with those of the rows 1, 2, ... further on."""
    ranks = scipy.stats.rankdata(column)
    centred = ranks - ranks.mean()
    total = float(centred @ centred)
    if total <= 0:
        return np.zeros(lags)
    products = [float(centred[lag:] @ centred[:-lag]) for lag in range(1, lags + 1)]
    # About 1/n too small on average, for rows that are independent.
    return np.array(products) / total + 1 / len(column)


def _is_monotone(column: NDArray[np.float64]) -> bool:
    steps = np.diff(column)
    return bool((steps > 0).all() or (steps < 0).all())


def _is_sorted_with_ties(values: NDArray[np.float64]) -> bool:
    """Whether any column is in order, and has values that repeat."""
    steps = np.diff(values, axis=0)
    changes = (steps != 0).any(0)
    in_order = ((steps >= 0).all(0) | (steps <= 0).all(0)) & changes
    repeats = (steps == 0).any(0)
    return bool((in_order & repeats).any())


def _group_column(look: Look, limit: float) -> tuple[str, float, int] | None:
    """A column that may name groups: which one, what it explains at most, and its levels."""
    values = look.values
    rows = len(values)
    best: tuple[str, float, int] | None = None
    for place in range(values.shape[1]):
        levels, codes, counts = np.unique(values[:, place], return_inverse=True, return_counts=True)
        if not _FEWEST_LEVELS <= len(levels) <= rows / 2:
            continue
        # How often the next row has the same value, against what a random order gives.
        repeated = float((np.diff(codes) == 0).mean())
        expected = float((counts * (counts - 1)).sum()) / (rows * (rows - 1))
        deviation = math.sqrt(max(expected * (1 - expected), 1 / rows) / rows)
        if repeated < 0.5 or (repeated - expected) / deviation < limit:
            continue
        for other in range(values.shape[1]):
            if other == place or _is_monotone(values[:, other]):
                continue
            share = _explained(scipy.stats.rankdata(values[:, other]), codes, counts, limit)
            if share >= _LEAST_EXPLAINED and (best is None or share > best[1]):
                best = (str(look.columns[place]), share, len(levels))
    return best


def _explained(
    values: NDArray[np.float64],
    codes: NDArray[np.int64],
    counts: NDArray[np.int64],
    limit: float,
) -> float:
    """The intraclass correlation; 0 where chance may have made it."""
    rows = len(values)
    groups = len(counts)
    centred = values - values.mean()
    total = float(centred @ centred)
    means = np.bincount(codes, weights=centred) / counts
    between = float((counts * means**2).sum())
    within = total - between
    if within <= 0:
        return 0.0  # it says the same as the other column
    of_groups = between / (groups - 1)
    of_rows = within / (rows - groups)
    # F is about normal for many groups.
    deviation = math.sqrt(2 / (groups - 1) + 2 / (rows - groups))
    if (of_groups / of_rows - 1) / deviation < limit:
        return 0.0
    usual = (rows - float((counts**2).sum()) / rows) / (groups - 1)
    return (of_groups - of_rows) / (of_groups + (usual - 1) * of_rows)
