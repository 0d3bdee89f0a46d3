"""Mean and spread of columns, in parts that merge: those of a whole need no second pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CHUNK = 2**18  # numbers that are copied at a time: 2 MiB in float64, which caches hold
_LARGEST = 1 - 2.0**-53  # the float64 before 1
_NO_SIZE = -1100  # exponent of a column of zeros: smaller than that of any float64


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, range, mean and sum of squared deviations of columns; NaN does not count.

    The moments of two parts of the data merge into those of both. Columns may have any magnitude
    that float64 can hold: `mean` is in units of 2^`exponent`, a power of two of each column's own,
    and `square` in units of its square.
    """

    count: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    exponent: NDArray[np.int64]
    mean: NDArray[np.float64]
    square: NDArray[np.float64]

    @classmethod
    def of(cls, points: NDArray[Any]) -> Moments:
        """The moments of (N, d) points, N > 0, in float64. Some rows are copied at a time."""
        rows = max(1, _CHUNK // max(1, points.shape[1]))
        starts = range(0, len(points), rows)
        chunks = (points[start : start + rows].astype(np.float64) for start in starts)
        return reduce(Moments.merged, map(cls._of_chunk, chunks))

    @classmethod
    def _of_chunk(cls, points: NDArray[np.float64]) -> Moments:
        """The moments of (N, d) points, which are destroyed."""
        count = np.full(points.shape[1], len(points))
        low = points.min(axis=0)
        high = points.max(axis=0)
        gaps = np.isnan(points) if np.isnan(low).any() else None
        if gaps is not None:
            count = count - gaps.sum(axis=0)
            low = np.where(gaps, np.inf, points).min(axis=0)
            high = np.where(gaps, -np.inf, points).max(axis=0)
        largest = np.maximum(np.abs(low), np.abs(high))
        size = np.where(count > 0, largest, 0.0)
        # A column of zeros has the smallest unit, so that it never makes other parts' values tiny.
        exponent = np.where(size > 0, np.frexp(size)[1], _NO_SIZE)
        # Multiplying by a power of two is exact. Then |value| < 1, and no square overflows.
        np.ldexp(points, -exponent, out=points)
        mean = np.zeros_like(size)
        # The second round finds what rounding left of the first, which counts where the mean is
        # large beside the deviation.
        for _ in range(2):
            if gaps is not None:
                points[gaps] = 0.0
            shift = points.sum(axis=0) / np.maximum(count, 1)
            points -= shift
            mean += shift
        if gaps is not None:
            points[gaps] = 0.0
        square = np.einsum("ij,ij->j", points, points)
        return cls(count, low, high, exponent, mean, square)

    def merged(self, other: Moments) -> Moments:
        """The moments of both parts together."""
        exponent = np.maximum(self.exponent, other.exponent)
        mean, square = self._in_units(exponent)
        other_mean, other_square = other._in_units(exponent)
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        # A part without values has a mean of 0, which must not count.
        mean = np.where(self.count > 0, mean, 0.0)
        apart = other_mean - mean
        return Moments(
            count,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            exponent,
            mean + apart * share,
            square + other_square + apart**2 * (self.count * share),
        )

    def _in_units(
        self, exponent: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and sum of squares in units of other powers of two."""
        steps = self.exponent - exponent
        return np.ldexp(self.mean, steps), np.ldexp(self.square, 2 * steps)

    def filled(self, rows: int, values: NDArray[np.float64]) -> Moments:
        """The moments if the mean stood wherever one of `rows` values is missing.

        A column without any value has `values` there.
        """
        empty = self.count == 0
        low = np.where(empty, values, self.low)
        high = np.where(empty, values, self.high)
        return replace(self, count=np.full_like(self.count, rows), low=low, high=high)

    def columns(self, places: Sequence[int] | NDArray[np.int64]) -> Moments:
        """The moments of the columns at these places."""
        at = np.asarray(places, dtype=np.int64)
        return Moments(
            self.count[at],
            self.low[at],
            self.high[at],
            self.exponent[at],
            self.mean[at],
            self.square[at],
        )

    def shift_and_scale(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard deviation of each column; for a constant one its value and 1."""
        deviation = np.sqrt(self.square / self.count)
        # Rounding must not carry a value beyond the unit, which may be the largest there is.
        shift = np.ldexp(np.clip(self.mean, -_LARGEST, _LARGEST), self.exponent)
        scale = np.ldexp(np.minimum(deviation, _LARGEST), self.exponent)
        scale = np.maximum(scale, np.finfo(np.float64).tiny)
        constant = self.low == self.high
        return np.where(constant, self.low, shift), np.where(constant, 1.0, scale)
