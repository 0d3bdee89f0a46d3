"""How one column of a table is distributed in each sample: densities of numbers, or shares."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .._data.schema import Column
from .._insight.held_out import column_rows
from .._insight.summaries import levels_of
from .._result import TwoSampleResult

Array = NDArray[np.float64]

_CURVE_POINTS = 96
_MOST_COUNTS = 10  # whole numbers that are shown one by one
_MOST_LEVELS = 7  # of a category


@dataclass(frozen=True, eq=False)
class Densities:
    """The densities of a column of numbers.

    Attributes
    ----------
    name
        The column, as in the user's table.
    at
        Where the densities are given, in the user's units.
    x, y
        The densities of X and of Y at these points.
    samples
        What X and Y are called.
    """

    name: str
    at: Array
    x: Array
    y: Array
    samples: tuple[str, str] = ("X", "Y")

    @property
    def highest(self) -> float:
        """The largest of all densities, where the axis ends."""
        return float(max(self.x.max(), self.y.max()))

    @property
    def alt(self) -> str:
        """The chart in words, for those who do not see it."""
        top_x = self.at[self.x.argmax()]
        top_y = self.at[self.y.argmax()]
        x, y = self.samples
        return (
            f"Densities of {self.name}; the highest is at {top_x:.3g} in {x} and at {top_y:.3g} in "
            f"{y}."
        )


@dataclass(frozen=True, eq=False)
class Shares:
    """The shares of the levels of a category or a boolean, or of a few whole numbers.

    Attributes
    ----------
    name
        The column, as in the user's table.
    levels
        The levels, as texts.
    x, y
        The share of each level in X and in Y.
    ordered
        Whether the levels have an order of their own, as numbers do.
    samples
        What X and Y are called.
    """

    name: str
    levels: tuple[str, ...]
    x: Array
    y: Array
    ordered: bool = False
    samples: tuple[str, str] = ("X", "Y")

    @property
    def shown(self) -> Shares:
        """The levels that a chart has room for: the most common ones, or all numbers in order."""
        total = self.x + self.y
        if self.ordered:
            places = np.arange(len(total))
        else:
            places = np.argsort(-total, kind="stable")[:_MOST_LEVELS]
        is_there = total[places] > 0
        places = places[is_there]
        levels = tuple(self.levels[place] for place in places)
        return replace(self, levels=levels, x=self.x[places], y=self.y[places])

    @property
    def highest(self) -> float:
        """The largest of all shares, where the axis ends."""
        return float(max(self.x.max(), self.y.max()))

    @property
    def alt(self) -> str:
        """The chart in words, for those who do not see it."""
        texts = []
        for place, level in enumerate(self.levels):
            in_x = 100 * self.x[place]
            in_y = 100 * self.y[place]
            texts.append(f"{level} {in_x:.0f} % and {in_y:.0f} %")
        x, y = self.samples
        return f"Shares of the levels of {self.name} in {x} and in {y}: {', '.join(texts)}."


def marginal_of(
    result: TwoSampleResult,
    name: str,
    most: int | None = None,
    samples: tuple[str, str] = ("X", "Y"),
) -> Densities | Shares:
    """How one column of a table is distributed in each of the held-out samples.

    Of numbers at most so many of each sample are looked at; None for all. `samples` are what X and
    Y are called.
    """
    column, (x, y) = column_rows(result, name)
    if column.kind == "numeric":
        if most is not None:
            x = x[:: -(-len(x) // most)]
            y = y[:: -(-len(y) // most)]
        present_x = _present(column, x)
        present_y = _present(column, y)
        return replace(_of_numbers(name, present_x[:, 0], present_y[:, 0]), samples=samples)
    if column.kind == "boolean":
        levels = ["false", "true"]
        x = _truth_shares(column, x)
        y = _truth_shares(column, y)
    else:
        levels = levels_of(column)
    if column.missing:
        levels.append("missing")
    # Each row has a 1 at its level and 0 elsewhere, so means are shares.
    return Shares(name, tuple(levels), x.mean(0), y.mean(0), samples=samples)


def _of_numbers(name: str, x: Array, y: Array) -> Densities | Shares:
    pooled = np.concatenate([x, y])
    counts = _few_whole_numbers(pooled)
    if counts is not None:
        levels = tuple(f"{count:g}" for count in counts)
        share_x = _count_shares(x, counts)
        share_y = _count_shares(y, counts)
        return Shares(name, levels, share_x, share_y, ordered=True)
    at = _along_the_bulk(pooled)
    width = _bandwidth(pooled, at)
    density_x = _density(x, at, width)
    density_y = _density(y, at, width)
    return Densities(name, at, density_x, density_y)


def _count_shares(values: Array, counts: Array) -> Array:
    whole = np.rint(values)
    matches = whole[:, None] == counts  # (N, counts)
    shares: Array = matches.mean(0)
    return shares


def _truth_shares(column: Column, values: Array) -> Array:
    """(N, 2) or (N, 3): whether a row is false, true or missing."""
    true = values[:, :1]
    if not column.missing:
        return np.column_stack([1 - true, true])
    missing = values[:, -1:]
    true = true * (1 - missing)  # a gap is filled with a value that was never there
    false = 1 - true - missing
    return np.column_stack([false, true, missing])


def _present(column: Column, values: Array) -> Array:
    """The rows of a column of numbers where it is not missing; all of them where it always is."""
    if not column.missing:
        return values
    there = values[:, -1] < 0.5
    return values[there] if there.any() else values


def _few_whole_numbers(values: Array) -> Array | None:
    """The values of a column that has few, all of them whole; None for other columns.

    A density would smear them.
    """
    whole = np.rint(values) + 0.0  # never -0
    distinct: Array = np.unique(whole)
    # The points were scaled in single precision, so a whole number may be off by a small part of
    # the range; undoing the scaling adds a rounding of the size of the numbers.
    extent = float(np.ptp(values))
    largest = float(np.abs(values).max())
    tolerance = min(0.01, 1e-5 * extent) + 1e-12 * largest
    farthest_off = np.abs(values - whole).max()
    if len(distinct) > _MOST_COUNTS or farthest_off > tolerance:
        return None
    return distinct


def _along_the_bulk(values: Array) -> Array:
    """Points along the bulk of the values."""
    low, high = np.quantile(values, [0.005, 0.995]).tolist()
    margin = 0.08 * (high - low)
    if margin == 0:  # a column that is constant but for a few rows
        margin = 0.5 * max(1.0, abs(low))
    return np.linspace(low - margin, high + margin, _CURVE_POINTS)


def _bandwidth(pooled: Array, at: Array) -> float:
    """Silverman's rule for the pooled values, never narrower than the grid.

    One width for both samples, so that a difference of the curves is one of the data.
    """
    quarter, three_quarters = np.quantile(pooled, [0.25, 0.75])
    deviation = float(pooled.std())
    normal_deviation = float(three_quarters - quarter) / 1.349  # that of a normal law
    spread = min(deviation, normal_deviation) or deviation
    silverman = 0.9 * spread * math.pow(len(pooled), -0.2)
    grid_step = float(at[1] - at[0])
    return max(silverman, grid_step)


def _density(values: Array, at: Array, width: float) -> Array:
    """A Gaussian kernel density, in parts so that memory stays small."""
    total = np.zeros(len(at))
    for part in np.array_split(values, 8):
        distances = (at[:, None] - part) / width  # (points of the curve, values)
        bells = np.exp(-0.5 * distances**2)
        total += bells.sum(1)
    # All bells together have this area, and a density has the area 1.
    area = len(values) * width * math.sqrt(2 * math.pi)
    density: Array = total / area
    return density
