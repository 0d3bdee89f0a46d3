"""Signs that rows depend on each other, where nobody has said so.

Two things are looked at, in each sample by itself, so labels have no say. First the order of rows:
if they are independent, neighbours resemble each other no more than others do, so the rank
autocorrelations of a column at lags 1, 2, ... are nearly independent and normal with variance 1/n.
Then columns whose values repeat in runs, as the name of a subject does, and explain much of the
other columns. What spoils a p-value stands out so clearly that false alarms can be rare.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainccinv, ndtri

MOST_ROWS = 5000
"""Rows of a sample that are looked at: of so many, all that matters stands out."""

MOST_COLUMNS = 100
"""Columns that are looked at."""

_CHANCE = 0.01  # of a false alarm for two samples
_LAGS = 10
_LEAST_NEIGHBOURS = 0.1  # a lag-1 correlation that matters: it widens a variance by a fifth
_LEAST_MEAN = 0.04  # the same of the mean over all lags
_LEAST_EXPLAINED = 0.1  # intraclass correlation that matters
_NORMAL = 0.01  # the skewness below which a law is as good as normal
_FEWEST_ROWS = 50
_FEWEST_LEVELS = 5  # of a column that may name groups
_STRETCHES = 10  # of rows that follow each other, of a sample with too many


def places_to_look_at(rows: int) -> NDArray[np.int64]:
    """Which rows of many are looked at: stretches from all over the sample.

    The first ones alone may be those of one subject.
    """
    if rows <= MOST_ROWS:
        return np.arange(rows)
    length = MOST_ROWS // _STRETCHES
    starts = np.linspace(0, rows - length, _STRETCHES).astype(np.int64)
    return (starts[:, None] + np.arange(length)).ravel()


class Look(NamedTuple):
    """A sample in the order in which it came."""

    name: str
    values: NDArray[np.float64]  # (rows, columns), levels of categories counted
    columns: Sequence[str]


class Sign(NamedTuple):
    """What shows that rows depend on each other.

    Attributes
    ----------
    sample
        The sample in which it shows.
    column
        The column whose values seem to name groups of rows, or whose neighbours resemble each
        other.
    strength
        How much of another column the groups explain, or the rank correlation of neighbours.
    groups
        How many groups there are; None where it is neighbours.
    """

    sample: str
    column: str
    strength: float
    groups: int | None


def signs_of_dependence(samples: Sequence[Look]) -> Sign | None:
    """The clearest sign that rows depend on each other; None if there is none."""
    looks = [look for look in samples if len(look.values) >= _FEWEST_ROWS]
    looks = [look._replace(values=look.values[:MOST_ROWS, :MOST_COLUMNS]) for look in looks]
    tests = sum(3 * look.values.shape[1] for look in looks)
    chance = _CHANCE / max(1, tests)
    limit = -float(ndtri(chance))
    counted = [[_Counted.of(column) for column in look.values.T] for look in looks]
    for look, columns in zip(looks, counted, strict=True):
        found = _group_column(look, columns, limit)
        if found is not None:
            column, share, levels = found
            return Sign(look.name, column, share, levels)
    signs = [
        Sign(look.name, look.columns[place], correlation, None)
        for look, columns in zip(looks, counted, strict=True)
        for place, correlation in _neighbours(look.values, columns, chance)
    ]
    return max(signs, key=lambda sign: sign.strength, default=None)


class _Counted(NamedTuple):
    """The values of a column as numbers of its levels, which are in order."""

    codes: NDArray[np.int64]  # (rows,)
    counts: NDArray[np.int64]  # (levels,)

    @classmethod
    def of(cls, column: NDArray[np.float64]) -> _Counted:
        _, codes, counts = np.unique(column, return_inverse=True, return_counts=True)
        return cls(codes, counts)

    def ranks(self) -> NDArray[np.float64]:
        """The ranks of the values, of tied ones their mean."""
        # Not by scipy.stats, which takes long to import.
        means = np.cumsum(self.counts) - (self.counts - 1) / 2
        return np.asarray(means[self.codes], dtype=np.float64)


def _neighbours(
    values: NDArray[np.float64], columns: Sequence[_Counted], chance: float
) -> list[tuple[int, float]]:
    """The columns in which neighbours resemble each other more than chance allows."""
    if _is_sorted_with_ties(values):
        return []  # somebody has put the rows in order: it says nothing about how they were taken
    # A column that is monotone is a number of the row, or a time.
    places = [place for place in range(values.shape[1]) if not _is_monotone(values[:, place])]
    ranks = [_standard_ranks(columns[place]) for place in places]
    rows = len(values)
    # Correlations at one lag, and their mean over L lags, have these skewnesses if rows are
    # independent. That of the ranks is 0, unless many are tied, as in a column of rare events.
    of_ranks = np.array([(each * each * each).mean() ** 2 for each in ranks])
    of_lag = of_ranks / math.sqrt(rows)
    of_mean = (of_ranks + 3 * (_LAGS - 1)) / math.sqrt(rows * _LAGS)
    limits = _exceeded(chance, of_lag) / math.sqrt(rows)
    limits_of_mean = _exceeded(chance, of_mean) / math.sqrt(rows * _LAGS)
    found = []
    for at, place in enumerate(places):
        r = _autocorrelation(ranks[at], _LAGS)
        mean = float(r.mean())
        of_next = r[0] > max(limits[at], _LEAST_NEIGHBOURS)
        of_many = mean > max(limits_of_mean[at], _LEAST_MEAN)
        if of_next or of_many:
            found.append((place, float(max(r[0], mean))))
    return found


def _standard_ranks(column: _Counted) -> NDArray[np.float64]:
    """The ranks of a column, with mean 0 and variance 1; zeros if all are equal."""
    ranks = column.ranks()
    centred = ranks - ranks.mean()
    spread = float(centred.std()) or 1.0
    return np.asarray(centred / spread, dtype=np.float64)


def _exceeded(chance: float, skewness: NDArray[np.float64]) -> NDArray[np.float64]:
    """What a variable with mean 0, variance 1 and this skewness exceeds with a chance.

    By Pearson's third law: a gamma variable with the shape 4 / skewness^2.
    """
    shape = 4 / np.maximum(skewness, _NORMAL) ** 2
    of_gamma = (gammainccinv(shape, chance) - shape) / np.sqrt(shape)
    return np.asarray(np.where(skewness > _NORMAL, of_gamma, -ndtri(chance)), dtype=np.float64)


def _autocorrelation(ranks: NDArray[np.float64], lags: int) -> NDArray[np.float64]:
    """(lags,) correlations of standard ranks with those of the rows 1, 2, ... further on."""
    rows = len(ranks)
    products = [float(ranks[lag:] @ ranks[:-lag]) for lag in range(1, lags + 1)]
    # About 1/n too small on average, for rows that are independent.
    return (np.array(products) + 1) / rows


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


def _group_column(
    look: Look, columns: Sequence[_Counted], limit: float
) -> tuple[str, float, int] | None:
    """A column that may name groups: which one, what it explains at most, and its levels."""
    values = look.values
    rows = len(values)
    best: tuple[str, float, int] | None = None
    for place, (codes, counts) in enumerate(columns):
        if not _FEWEST_LEVELS <= len(counts) <= rows / 2:
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
            share = _explained(columns[other].ranks(), codes, counts, limit)
            if share >= _LEAST_EXPLAINED and (best is None or share > best[1]):
                best = (str(look.columns[place]), share, len(counts))
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
