"""Extreme values: which columns have some, how such a column is scaled, and how they are drawn in.

A mean and a standard deviation follow one value wherever it goes, and the other values end up in
the same place. Quantiles do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .moments import Moments

FARTHEST = 20
"""A value is extreme if it is more than so many interquartile ranges away from the median.

Values of normal, exponential, Poisson or geometric columns never are, in 20,000 rows.
"""

CODES = frozenset(
    sign * value
    for sign in (1, -1)
    for value in (99, 999, 9999, 99_999, 999_999, 9_999_999, 99_999_999, 999_999_999, 2**31 - 1)
) | {-1.0, -9.0, 32_767.0, -32_768.0, 65_535.0, -(2.0**31), 888.0, 8888.0, 88_888.0}
"""Numbers that often stand for something else, such as a missing value."""

_NORMAL_RANGE = 1.3489795003921634  # from quartile to quartile of a normal column, in deviations
FENCE = FARTHEST * _NORMAL_RANGE
"""Scaled values beyond it are drawn in: 27 standard deviations of a normal column."""

# Share of the values below and above a range, and how many deviations of a normal column it spans.
# Most values of a sparse column are the same, so that narrow ranges of it are empty.
_RANGES = ((0.25, _NORMAL_RANGE), (0.05, 3.2897072539029444), (0.01, 4.652695748081682))
_ROUNDING = 1e-12  # a range that is smaller in proportion to its ends is empty but for rounding

_MOST_ROWS = 20_000  # for quantiles: then one in four is off by a third of a per cent
_MOST_NUMBERS = 2**21  # 16 MiB in float64
_FEWEST_ROWS = 100
_LARGEST_LOG = 709.0


# Which rows


def rows_for_quantiles(
    sizes: tuple[int, int], numbers: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Which rows of X and of Y quantiles are taken from, sorted: all of them unless they are many.

    They are drawn from all rows alike, blind to labels, so the p-value stays exact. The draw
    depends on the sizes only: a stream gives the quantiles of the same rows in memory.
    """
    n, m = sizes
    most = max(_FEWEST_ROWS, min(_MOST_ROWS, _MOST_NUMBERS // max(1, numbers)))
    if n + m <= most:
        return torch.arange(n), torch.arange(m)
    # At random in every test: at places fixed for ever, as many would always be of X, and labels
    # would not be exchangeable given the quantiles.
    drawn = torch.randperm(n + m, generator=generator)[:most]
    pooled = drawn.sort().values
    return pooled[pooled < n], pooled[pooled >= n] - n


# What quantiles tell


@dataclass(frozen=True, eq=False)
class Spread:
    """Where the bulk of each column lies, and whether some of its values are far away from there.

    Attributes
    ----------
    extreme
        For each column whether it has extreme values.
    median, scale
        The median, and the standard deviation of a normal column with the same range of quantiles.
        They are 0 and 1 where the column has no extreme values.
    beyond
        How many of the values that quantiles were taken from are extreme.
    values
        How many values that were.
    """

    extreme: NDArray[np.bool_]
    median: NDArray[np.float64]
    scale: NDArray[np.float64]
    beyond: NDArray[np.int64]
    values: NDArray[np.int64]

    @classmethod
    def of(cls, points: NDArray[Any], moments: Moments, wanted: NDArray[np.bool_]) -> Spread:
        """The spread of the `wanted` ones of (N, d) columns; NaN does not count.

        The points are some of those, or all of those, that have these moments.
        """
        width = points.shape[1]
        spread = cls(
            np.zeros(width, dtype=np.bool_),
            np.zeros(width),
            np.ones(width),
            np.zeros(width, dtype=np.int64),
            np.zeros(width, dtype=np.int64),
        )
        for at in np.flatnonzero(wanted):
            values = points[:, at].astype(np.float64)
            values = values[~np.isnan(values)]
            bulk = _median_and_scale(values)
            if bulk is None:
                continue
            median, scale = bulk
            # The moments know the farthest values even where not all rows are at hand.
            ends = np.array([moments.low[at], moments.high[at]])
            if _are_beyond(ends, median, scale).any():
                spread.extreme[at] = True
                spread.median[at] = median
                spread.scale[at] = scale
                spread.beyond[at] = _are_beyond(values, median, scale).sum()
                spread.values[at] = len(values)
        return spread

    def columns(self, places: NDArray[np.int64]) -> Spread:
        """The spread of the columns at these places."""
        return Spread(
            self.extreme[places],
            self.median[places],
            self.scale[places],
            self.beyond[places],
            self.values[places],
        )


def _median_and_scale(values: NDArray[np.float64]) -> tuple[float, float] | None:
    """The median and the deviation of a normal column with the same range; None if all are empty.

    Both are made of halves, since the sum or difference of two values may exceed float64.
    """
    last = len(values) - 1
    if last < 1:
        return None
    # As many below a range as above it, so that a column and its negative have the same.
    below = [int(tail * last) for tail, _ in _RANGES]
    above = [last - place for place in below]
    middle = [last // 2, last - last // 2]
    ordered = np.partition(values, [*below, *above, *middle])
    median = ordered[middle[0]] / 2 + ordered[middle[1]] / 2
    for start, end, (_, deviations) in zip(below, above, _RANGES, strict=True):
        low = ordered[start]
        high = ordered[end]
        half = high / 2 - low / 2
        if half > _ROUNDING * max(abs(low), abs(high)):
            scale = min(half / deviations, np.finfo(np.float64).max / 2) * 2
            return float(median), float(scale)
    return None


def _are_beyond(values: NDArray[np.float64], median: float, scale: float) -> NDArray[np.bool_]:
    distance = np.abs(values / 2 - median / 2)
    with np.errstate(over="ignore"):  # a fence beyond float64 is one that no value reaches
        return np.asarray(distance > scale / 2 * FENCE)


# What becomes of scaled values


def drawn_in(scaled: Tensor) -> Tensor:
    """Scaled values in float64, those beyond the fence drawn in: f + log(1 + |z| - f).

    They keep their order and can be told apart, but one of them cannot outweigh all others.
    """
    if not len(scaled) or bool(scaled.abs().max() <= FENCE):
        return scaled
    size = scaled.abs().clamp(max=torch.finfo(scaled.dtype).max)
    inside = size.clamp(max=FENCE)
    return (inside + torch.log1p(size - inside)).copysign(scaled)


def let_out(scaled: Tensor) -> Tensor:
    """Undo `drawn_in`."""
    size = scaled.abs()
    inside = size.clamp(max=FENCE)
    # Learned locations may lie anywhere; the exponential of more is infinite.
    outside = (size - inside).clamp(max=_LARGEST_LOG)
    return (inside + torch.expm1(outside)).copysign(scaled)


def stretch(scaled: Tensor) -> Tensor:
    """How much longer a small step is once it is let out: the derivative of `let_out`."""
    return torch.exp((scaled.abs() - FENCE).clamp(min=0))
