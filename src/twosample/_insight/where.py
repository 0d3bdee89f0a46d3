"""Where samples differ, from the permutations of the test itself: columns, and pairs of columns.

A test that looks at single columns and at pairs of them has their values for every labelling. From
these come a p-value for each column and for each pair, and p-values that are adjusted for their
number by the distribution of the largest value.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._calibration import pvalue
from .._fusing import step_down
from .._result import ALPHA, TwoSampleResult, format_pvalue
from .._two_sample import FittedTest

_COUNTED = 0.2  # p-values above it are told from their count alone


@dataclass(frozen=True)
class PairDifference:
    """Two columns of a table: a test of whether their joint distribution is the same in X and Y.

    Attributes
    ----------
    columns
        The names of the two.
    statistic, pvalue
        log 1/p by the tail of the pair's own values, and its p-value over the shuffles of the joint
        test. It is exact for the equality of the joint distribution of these two columns, whatever
        the others do.
    adjusted
        The p-value after the correction for the number of pairs.
    columns_adjusted
        The adjusted p-values of its two columns, each by itself.
    """

    columns: tuple[str, str]
    statistic: float
    pvalue: float
    adjusted: float
    columns_adjusted: tuple[float, float]

    def reject(self, alpha: float = ALPHA) -> bool:
        """Whether equality of the joint distribution is rejected: adjusted p at most `alpha`."""
        return self.adjusted <= alpha

    def follows_from(self, alpha: float = ALPHA) -> tuple[str, ...]:
        """Which of its two columns differ by themselves.

        The pair differs with them, which says nothing about how the two go together.
        """
        both = zip(self.columns, self.columns_adjusted, strict=True)
        return tuple(name for name, adjusted in both if adjusted <= alpha)

    def sentence(self, alpha: float = ALPHA) -> str:
        """The outcome in words, for the level `alpha`."""
        first, second = self.columns
        p = f"(p = {format_pvalue(self.adjusted)})"
        if not self.reject(alpha):
            return f"{first} and {second}: no difference found {p}"
        causes = self.follows_from(alpha)
        if not causes:
            return f"{first} and {second} go together otherwise {p}"
        verb = "differs" if len(causes) == 1 else "differ"
        return f"{first} and {second} differ, since {' and '.join(causes)} {verb} {p}"

    def to_dict(self, alpha: float = ALPHA) -> dict[str, Any]:
        """Plain values, ready for JSON; the sentence is that for the level `alpha`."""
        plain = dataclasses.asdict(self)
        plain["columns"] = list(self.columns)
        plain["columns_adjusted"] = list(self.columns_adjusted)
        plain["sentence"] = self.sentence(alpha)
        return plain


class Local(NamedTuple):
    """The tests of some sets of columns."""

    keys: list[tuple[int, ...]]  # the numbers of their columns
    statistics: list[float]
    pvalues: list[float]
    stepped: list[float]  # adjusted by the distribution of the largest value


def local_tests(result: TwoSampleResult, fitted: FittedTest) -> tuple[Local, Local] | None:
    """The tests of columns and those of pairs; None for a test that looks at no single column."""
    calibrated = result.calibrated
    if calibrated is None:
        return None
    parts = calibrated.shuffles.within(fitted.spec.memory)
    by_columns = fitted.spec.statistic.by_columns(calibrated.prepared, parts)
    resolution = calibrated.prepared.resolution
    columns = _tested({key: each for key, each in by_columns.items() if len(key) == 1}, resolution)
    pairs = _tested({key: each for key, each in by_columns.items() if len(key) == 2}, resolution)
    return (columns, pairs) if columns.keys else None


def _tested(values: dict[tuple[int, ...], Tensor], resolution: float) -> Local:
    if not values:
        return Local([], [], [], [])
    rows = torch.stack(list(values.values()))  # (H, B + 1)
    pvalues = [pvalue(row, resolution) for row in rows]
    statistics = []
    for row, p in zip(rows, pvalues, strict=True):
        # The tail tells small p-values apart, where counts have come to their end.
        statistics.append(float(row[0]) if p <= _COUNTED else -math.log(p))
    stepped = step_down(rows, resolution).tolist()
    return Local(list(values), statistics, pvalues, stepped)


def pair_differences(
    pairs: Local,
    adjusted: Sequence[float],
    names: Sequence[str],
    of_columns: Sequence[float],
) -> tuple[PairDifference, ...]:
    """One record a pair; `of_columns` has the adjusted p-value of each column."""
    records = []
    for number, (first, second) in enumerate(pairs.keys):
        record = PairDifference(
            columns=(names[first], names[second]),
            statistic=pairs.statistics[number],
            pvalue=pairs.pvalues[number],
            adjusted=adjusted[number],
            columns_adjusted=(of_columns[first], of_columns[second]),
        )
        records.append(record)
    return tuple(records)
