"""One column of one sample in numbers: in the user's units, without the values that are missing."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._data.samples import Samples, Scaling
from .._data.schema import Column
from .held_out import as_array, places
from .intervals import Array

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Which quantiles of numbers are told."""

_YES = 0.5  # indicators are 0 or 1, up to the rounding of single precision
_DIGITS = 7  # that single precision keeps


@dataclass(frozen=True)
class ColumnSummary:
    """One column of one sample.

    Attributes
    ----------
    size
        How many rows there are.
    missing
        The share of rows without a value.
    mean, spread
        The mean and the standard deviation of numbers, and for true and false the share of true;
        None for categories, and where all values are missing.
    quantiles
        Share -> the value below which so many lie: 5, 25, 50, 75 and 95 %. Empty unless the column
        holds numbers.
    levels
        Level -> its share of all rows; empty unless the column is a category.
    """

    size: int
    missing: float
    mean: float | None = None
    spread: float | None = None
    quantiles: Mapping[float, float] = dataclasses.field(default_factory=dict)
    levels: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "size": self.size,
            "missing": self.missing,
            "mean": self.mean,
            "spread": self.spread,
            "quantiles": {f"{share:g}": value for share, value in self.quantiles.items()},
            "levels": dict(self.levels),
        }


class ColumnData(NamedTuple):
    """One column of both samples."""

    column: Column
    values: tuple[Array, Array]  # numbers in the user's units, those that are not missing
    counts: tuple[Array, Array]  # of the levels of a category, and of missing values at the end
    missing: tuple[int, int]
    sizes: tuple[int, int]

    def summary(self, sample: int) -> ColumnSummary:
        """The column in X (0) or in Y (1)."""
        size = self.sizes[sample]
        missing = self.missing[sample] / size
        if self.column.kind == "category":
            shares = self.counts[sample] / size
            named = zip(levels_of(self.column), shares.tolist(), strict=False)
            return ColumnSummary(size, missing, levels=dict(named))
        values = self.values[sample]
        if not len(values):
            return ColumnSummary(size, missing)
        mean = float(values.mean())
        spread = float(values.std())
        quantiles: Mapping[float, float] = {}
        if self.column.kind == "numeric":
            found = np.quantile(values, QUANTILES).tolist()
            quantiles = {q: _rounded(v) for q, v in zip(QUANTILES, found, strict=True)}
        return ColumnSummary(size, missing, _rounded(mean), _rounded(spread), quantiles)


def levels_of(column: Column) -> list[str]:
    """The levels of a category; what is none of them is the last."""
    features = column.features[: len(column.features) - int(column.missing)]
    return [feature.removeprefix(f"{column.name}=") for feature in features]


def column_data(samples: Samples, scaling: Scaling) -> list[ColumnData]:
    """All columns of a table, in the user's units."""
    units = [as_array(scaling.undo(part)) for part in (samples.x, samples.y)]
    data = []
    for column, place in places(samples.schema):
        encoded = [part[:, place] for part in units]
        data.append(_of_column(column, encoded))
    return data


def _of_column(column: Column, encoded: list[Array]) -> ColumnData:
    values = []
    counts = []
    missing = []
    for part in encoded:
        gaps = part[:, -1] > _YES if column.missing else np.zeros(len(part), dtype=bool)
        missing.append(int(gaps.sum()))
        if column.kind == "category":
            indicators = part[:, : len(levels_of(column))]
            counts.append((indicators > _YES).sum(0).astype(np.float64))
            values.append(np.empty(0))
        else:
            counts.append(np.empty(0))
            values.append(np.ascontiguousarray(part[~gaps, 0]))
    sizes = (len(encoded[0]), len(encoded[1]))
    return ColumnData(
        column,
        (values[0], values[1]),
        (counts[0], counts[1]),
        (missing[0], missing[1]),
        sizes,
    )


def _rounded(value: float) -> float:
    """A value without the digits that single precision has made up."""
    return float(f"{value:.{_DIGITS}g}")
