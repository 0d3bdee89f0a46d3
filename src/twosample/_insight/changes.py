"""What changed from X to Y, column by column and pair by pair, in the user's own units.

Descriptions are of the rows that were tested. Whether a change is more than chance is for the
p-values to say: they come from the permutations of the test, adjusted for the number of columns,
and none is below the p-value of the test itself.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._data.schema import Column
from .._result import ALPHA, TwoSampleResult, format_pvalue
from .._threads import few_threads
from .distances import Distance, total_variation, wasserstein
from .explain import Explanation
from .held_out import as_array, held_out, places
from .intervals import (
    CONFIDENCE,
    Array,
    Interval,
    around,
    difference_of_means,
    difference_of_shares,
)
from .summaries import ColumnData, ColumnSummary, column_data, levels_of
from .where import PairDifference

_LEVELS_TOLD = 3
_LEAST_ROWS = 2  # of values that are not missing, for a mean to have an error


@dataclass(frozen=True)
class LevelChange:
    """One level of a category: its share before and after, and an interval for the difference."""

    level: str
    before: float
    after: float
    interval: Interval | None

    def sentence(self) -> str:
        """The change in words."""
        shares = f"{_percent(self.before)} -> {_percent(self.after)}"
        if self.before == 0 and self.after > 0:
            return f"new level '{self.level}': {shares}"
        if self.after == 0 and self.before > 0:
            return f"level '{self.level}' is gone: {shares}"
        return f"'{self.level}': {shares}"


@dataclass(frozen=True)
class ColumnChange:
    """One column of a table before (X) and after (Y), and what is known of the change.

    Intervals take rows as independent. A test with a design (groups, blocks, strata, pairs) has
    none.

    Attributes
    ----------
    name, kind
        As in the user's table.
    before, after
        The column in X and in Y: mean, spread, quantiles, share missing, shares of levels.
    difference, interval
        The mean in Y less that in X, in the user's units, and its interval of 95 %. For true and
        false it is the difference of the shares of true. For a category it is the effect.
    effect, effect_interval
        How large the change is, on one scale for all columns. Of numbers, how far values move on
        average (Wasserstein) in units of their pooled spread. Of categories and of true and false,
        the share of rows that would have to change (total variation).
    levels
        The levels of a category whose share changed, those that moved most first.
    missing_interval
        The interval for the share missing in Y less that in X; None where none are missing.
    pvalue, adjusted
        From the permutations of the test: of this column alone, and adjusted for the number of
        columns. The adjusted one is never below the p-value of the test itself, so no column is
        said to differ where the test finds no difference. None where the test has none.
    """

    name: str
    kind: str
    before: ColumnSummary
    after: ColumnSummary
    difference: float | None
    interval: Interval | None
    effect: float
    effect_interval: Interval | None
    levels: tuple[LevelChange, ...] = ()
    missing_interval: Interval | None = None
    pvalue: float | None = None
    adjusted: float | None = None

    @property
    def size(self) -> float:
        """The effect, or the change of the share missing if that is larger."""
        effect = self.effect if math.isfinite(self.effect) else 0.0
        return max(effect, abs(self.after.missing - self.before.missing))

    def reject(self, alpha: float = ALPHA) -> bool:
        """Whether this column is said to differ: the adjusted p-value is at most `alpha`."""
        return self.adjusted is not None and self.adjusted <= alpha

    def sentence(self) -> str:
        """The change in words."""
        parts = []
        if self.kind == "category":
            told = [level for level in self.levels if level.before != level.after]
            parts += [level.sentence() for level in told[:_LEVELS_TOLD]]
        elif self.kind == "boolean" and self.difference is not None:
            parts.append(f"true: {_percent(self.before.mean)} -> {_percent(self.after.mean)}")
        elif self.difference is not None:
            mean = f"mean {self.before.mean:.4g} -> {self.after.mean:.4g}"
            spread = f"spread {self.before.spread:.3g} -> {self.after.spread:.3g}"
            parts += [mean, spread]
        if self.before.missing != self.after.missing:
            shares = f"{_percent(self.before.missing)} -> {_percent(self.after.missing)}"
            parts.append(f"missing {shares}")
        return f"{self.name}: {'; '.join(parts) or 'no change'}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        plain = dataclasses.asdict(self)
        plain["before"] = self.before.to_dict()
        plain["after"] = self.after.to_dict()
        plain["sentence"] = self.sentence()
        return plain


@dataclass(frozen=True)
class PairChange:
    """How two columns go together before (X) and after (Y).

    Attributes
    ----------
    columns
        The names of the two.
    measure
        "correlation" of two columns of numbers (or of true and false), "correlation ratio" of a
        category and numbers, "Cramér's V" of two categories. All are 0 for columns that have
        nothing to do with each other, and at most 1.
    before, after
        It in X and in Y.
    interval
        The interval of 95 % for the correlation in Y less that in X; None for other measures.
    pvalue, adjusted
        As of a `ColumnChange`: of the joint distribution of the two columns.
    follows_from
        Which of the two differ by themselves at 0.05: the pair differs with them.
    """

    columns: tuple[str, str]
    measure: str
    before: float
    after: float
    interval: Interval | None
    pvalue: float
    adjusted: float
    follows_from: tuple[str, ...] = ()

    @property
    def effect(self) -> float:
        """By how much the measure changed, without a sign."""
        return abs(self.after - self.before)

    def reject(self, alpha: float = ALPHA) -> bool:
        """Whether this pair is said to differ: the adjusted p-value is at most `alpha`."""
        return self.adjusted <= alpha

    def sentence(self) -> str:
        """The change in words."""
        first, second = self.columns
        change = f"{self.measure} {self.before:.2f} -> {self.after:.2f}"
        return f"{first} and {second}: {change} (p = {format_pvalue(self.adjusted)})"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        plain = dataclasses.asdict(self)
        plain["effect"] = self.effect
        plain["sentence"] = self.sentence()
        return plain


@few_threads
def column_changes(result: TwoSampleResult, explanation: Explanation) -> tuple[ColumnChange, ...]:
    """One record a column, in the order of the table; none for images."""
    fitted, samples = held_out(result)
    if not samples.schema.columns:
        return ()
    tests = {column.name: column for column in explanation.columns}
    changes = []
    for data in column_data(samples, fitted.scaling):
        change = describe(data)
        if result.design is not None:
            change = _without_intervals(change)
        test = tests.get(change.name)
        if test is not None:
            change = dataclasses.replace(change, pvalue=test.pvalue, adjusted=test.adjusted)
        changes.append(change)
    return tuple(changes)


def _without_intervals(change: ColumnChange) -> ColumnChange:
    """For rows that depend on each other, of which intervals would be too narrow."""
    levels = [dataclasses.replace(level, interval=None) for level in change.levels]
    return dataclasses.replace(
        change, interval=None, effect_interval=None, missing_interval=None, levels=tuple(levels)
    )


def describe(data: ColumnData, confidence: float = CONFIDENCE) -> ColumnChange:
    """The change of one column, without p-values."""
    before = data.summary(0)
    after = data.summary(1)
    difference: float | None = None
    interval: Interval | None = None
    levels: tuple[LevelChange, ...] = ()
    if data.column.kind == "category":
        distance = total_variation(*_counts_with_missing(data), confidence)
        difference = distance.value
        interval = distance.interval
        levels = _level_changes(data)
    else:
        distance = _distance_of_numbers(data, confidence)
        x, y = data.values
        if min(len(x), len(y)) >= _LEAST_ROWS:
            difference = float(y.mean() - x.mean())
            interval = _interval_of_means(data.column, x, y)
    missing = None
    if any(data.missing):
        (gaps_x, gaps_y), (n, m) = data.missing, data.sizes
        missing = difference_of_shares((gaps_x, n), (gaps_y, m))
    return ColumnChange(
        name=data.column.name,
        kind=data.column.kind,
        before=before,
        after=after,
        difference=difference,
        interval=interval,
        effect=distance.value,
        effect_interval=distance.interval,
        levels=levels,
        missing_interval=missing,
    )


def _interval_of_means(column: Column, x: Array, y: Array) -> Interval:
    if column.kind == "boolean":
        return difference_of_shares((float(x.sum()), len(x)), (float(y.sum()), len(y)))
    return difference_of_means(x, y)


def _distance_of_numbers(data: ColumnData, confidence: float) -> Distance:
    """In units of the pooled spread, or of shares for true and false."""
    x, y = data.values
    if min(len(x), len(y)) < _LEAST_ROWS:
        return Distance(math.nan, (0.0, math.inf))
    if data.column.kind == "boolean":
        return total_variation(_false_and_true(x), _false_and_true(y), confidence)
    unit = float(np.concatenate([x, y]).std())
    if unit == 0:
        return Distance(0.0, (0.0, 0.0))
    value, (low, high) = wasserstein(x / unit, y / unit, confidence)
    return Distance(value, (low, high))


def _false_and_true(values: Array) -> Array:
    """How many are false, and how many are true."""
    true = float((values > 0.5).sum())
    return np.array([len(values) - true, true])


def _counts_with_missing(data: ColumnData) -> tuple[Array, Array]:
    """How often each level comes, a missing value being one more."""
    both = []
    for counts, missing in zip(data.counts, data.missing, strict=True):
        both.append(np.append(counts, missing))
    return both[0], both[1]


def _level_changes(data: ColumnData) -> tuple[LevelChange, ...]:
    n, m = data.sizes
    changes = []
    names = levels_of(data.column)
    for name, count_x, count_y in zip(names, *data.counts, strict=True):
        if count_x == count_y == 0:
            continue
        interval = difference_of_shares((float(count_x), n), (float(count_y), m))
        changes.append(LevelChange(name, float(count_x) / n, float(count_y) / m, interval))
    changes.sort(key=lambda change: -abs(change.after - change.before))
    return tuple(changes)


# Pairs.


@few_threads
def pair_changes(result: TwoSampleResult, explanation: Explanation) -> tuple[PairChange, ...]:
    """One record for each pair of columns that the test looked at."""
    _, samples = held_out(result)
    if not samples.schema.columns:
        return ()
    if not explanation.pairs:
        return ()
    schema = samples.schema
    independent = result.design is None
    measures = _Measures(schema.columns, places(schema), samples.x, samples.y, independent)
    return tuple(measures.change(pair) for pair in explanation.pairs)


class _Measures:
    """How columns go together in each sample, from the moments of their encoded columns."""

    def __init__(
        self, columns: Sequence[Column], where: Any, x: Any, y: Any, independent: bool
    ) -> None:
        self._independent = independent
        self._numbers = {column.name: number for number, column in enumerate(columns)}
        self._where = where
        parts = [as_array(part) for part in (x, y)]
        self._sizes = [len(part) for part in parts]
        self._means = [part.mean(0) for part in parts]
        self._second = [part.T @ part / len(part) for part in parts]

    def change(self, pair: PairDifference) -> PairChange:
        """The record of one pair."""
        first, second = (self._numbers[name] for name in pair.columns)
        measure, before = self._measured(first, second, 0)
        _, after = self._measured(first, second, 1)
        interval = None
        if measure == "correlation" and self._independent:
            interval = _interval_of_correlations(before, after, self._sizes)
        return PairChange(
            columns=pair.columns,
            measure=measure,
            before=before,
            after=after,
            interval=interval,
            pvalue=pair.pvalue,
            adjusted=pair.adjusted,
            follows_from=pair.follows_from(),
        )

    def _measured(self, first: int, second: int, sample: int) -> tuple[str, float]:
        column_a, place_a = self._where[first]
        column_b, place_b = self._where[second]
        kinds = (column_a.kind == "category", column_b.kind == "category")
        # The last indicator of a column with gaps says where they are.
        a = np.arange(place_a.start, place_a.stop - int(column_a.missing))
        b = np.arange(place_b.start, place_b.stop - int(column_b.missing))
        means = self._means[sample]
        second_moments = self._second[sample]
        if all(kinds):
            return "Cramér's V", _cramer(means[a], means[b], second_moments[np.ix_(a, b)])
        if any(kinds):
            levels, number = (a, b[0]) if kinds[0] else (b, a[0])
            variance = second_moments[number, number] - means[number] ** 2
            return "correlation ratio", _ratio(
                means[levels], second_moments[levels, number], means[number], variance
            )
        covariance = second_moments[a[0], b[0]] - means[a[0]] * means[b[0]]
        of_a = second_moments[a[0], a[0]] - means[a[0]] ** 2
        of_b = second_moments[b[0], b[0]] - means[b[0]] ** 2
        return "correlation", _bounded(covariance, math.sqrt(max(0.0, of_a * of_b)))


def _cramer(shares_a: Array, shares_b: Array, joint: Array) -> float:
    expected = np.outer(shares_a, shares_b)
    seen = expected > 0
    chi2 = float(((joint - expected)[seen] ** 2 / expected[seen]).sum())
    fewest = min(int((shares_a > 0).sum()), int((shares_b > 0).sum()))
    return _bounded(math.sqrt(chi2), math.sqrt(max(0, fewest - 1)))


def _ratio(shares: Array, sums: Array, mean: float, variance: float) -> float:
    """The root of the share of the variance that lies between levels."""
    seen = shares > 0
    between = float((shares[seen] * (sums[seen] / shares[seen] - mean) ** 2).sum())
    return _bounded(math.sqrt(max(0.0, between)), math.sqrt(max(0.0, variance)))


def _bounded(value: float, largest: float) -> float:
    """`value` over the largest that it could be; 0 where a column is constant."""
    if largest <= 1e-12:
        return 0.0
    return float(min(1.0, max(-1.0, value / largest)))


def _interval_of_correlations(before: float, after: float, sizes: Sequence[int]) -> Interval | None:
    """By the interval of Zou from those of Fisher for each."""
    ends = []
    for value, size in zip((before, after), sizes, strict=True):
        if size <= 3:
            return None
        clipped = min(1 - 1e-9, max(-1 + 1e-9, value))
        low, high = around(math.atanh(clipped), 1 / math.sqrt(size - 3))
        ends.append((math.tanh(low), math.tanh(high)))
    (low_x, high_x), (low_y, high_y) = ends
    difference = after - before
    low = difference - math.hypot(after - low_y, high_x - before)
    high = difference + math.hypot(high_y - after, before - low_x)
    return low, high


def _percent(share: float | None) -> str:
    if share is None:
        return "unknown"
    percent = 100 * share
    if 0 < percent < 0.1:
        return f"{percent:.2g} %"
    return f"{percent:.1f} %"
