"""Regions where samples differ, in words: "age < 25 and hours >= 40: 4 % -> 9 %".

A region is a rule of one or two conditions on columns. It is found on one half of the rows and
counted on the other, so its numbers are not flattered by having been picked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from .._data.schema import Schema
from .._result import TwoSampleResult
from .._threads import few_threads
from .held_out import held_out, places
from .intervals import Array, Interval, difference_of_shares
from .summaries import levels_of

_CUTS = np.arange(1, 20) / 20  # quantiles of the pooled rows at which numbers are cut
_MOST_ROWS = 20_000  # of each sample that rules are searched on
_FIRST = 40  # conditions that are tried as the first of two
_LEAST_SHARE = 0.01  # of the pooled rows that a region holds
_GAIN = 1.15  # by which a second condition must tell more than the first alone
_YES = 0.5

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Region:
    """A part of the table whose share of the rows is not the same in X and in Y.

    Attributes
    ----------
    rule
        The conditions in words, such as "age < 25 and hours >= 40".
    columns
        The columns that they are about.
    before, after
        The share of rows of X and of Y that are in it, on rows that had no part in finding it.
    interval
        Of 95 %, for the second less the first.
    sizes
        How many rows of X and of Y were counted.
    """

    rule: str
    columns: tuple[str, ...]
    before: float
    after: float
    interval: Interval
    sizes: tuple[int, int]

    def sentence(self) -> str:
        """The region in words."""
        return f"{self.rule}: {100 * self.before:.1f} % -> {100 * self.after:.1f} %"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return dataclasses.asdict(self) | {"sentence": self.sentence()}


class _Condition(NamedTuple):
    """A condition on one column: which of the columns, its words, and where it holds."""

    column: str
    words: str
    holds: Flags  # (N,)


@few_threads
def regions_of(result: TwoSampleResult, count: int = 3) -> tuple[Region, ...]:
    """The regions that tell most, whose numbers hold on the other half; none where nothing does.

    None for images, and none where the test itself finds no difference.
    """
    fitted, samples = held_out(result)
    if not samples.schema.columns or not result.reject():
        return ()
    chosen = [_some(len(part)) for part in (samples.x, samples.y)]
    points = torch.cat([samples.x[chosen[0]], samples.y[chosen[1]]])
    values: Array = fitted.scaling.undo(points).numpy()
    is_y = np.repeat([False, True], [len(chosen[0]), len(chosen[1])])
    # The rows were drawn in a random order, so every second one is a half at random.
    finds = np.arange(len(is_y)) % 2 == 0
    conditions = list(_conditions(samples.schema, values, finds))
    found: list[Region] = []
    for rule in _rules(conditions, is_y, finds, count):
        region = _counted(rule, is_y, ~finds)
        low, high = region.interval
        if low > 0 or high < 0:
            found.append(region)
    return tuple(found)


def _some(size: int) -> torch.Tensor:
    """Some rows in a random order, always the same."""
    generator = torch.Generator().manual_seed(size)
    return torch.randperm(size, generator=generator)[:_MOST_ROWS]


def _conditions(schema: Schema, values: Array, finds: Flags) -> Iterator[_Condition]:
    """Everything that a rule may ask of a column."""
    for column, place in places(schema):
        encoded = values[:, place]
        present = np.ones(len(values), dtype=bool)
        if column.missing:
            present = encoded[:, -1] <= _YES
            yield _Condition(column.name, f"{column.name} is missing", ~present)
        if column.kind == "category":
            for number, level in enumerate(levels_of(column)):
                holds = encoded[:, number] > _YES
                yield _Condition(column.name, f"{column.name} = {level}", holds)
        elif column.kind == "boolean":
            is_true = (encoded[:, 0] > _YES) & present
            yield _Condition(column.name, f"{column.name} is true", is_true)
        elif (present & finds).any():
            numbers = encoded[:, 0]
            # Cuts come from the rows that rules are found on.
            quantiles = np.quantile(numbers[present & finds], _CUTS)
            for cut in sorted({float(f"{quantile:.3g}") for quantile in quantiles}):
                below = (numbers < cut) & present
                yield _Condition(column.name, f"{column.name} < {cut:g}", below)
                yield _Condition(column.name, f"{column.name} >= {cut:g}", present & ~below)


def _rules(
    conditions: list[_Condition], is_y: Flags, finds: Flags, count: int
) -> list[tuple[_Condition, ...]]:
    """The best rule, then the best one about other columns, and so on."""
    if not conditions:
        return []
    holds = np.stack([condition.holds[finds] for condition in conditions], 1).astype(np.float32)
    labels = is_y[finds]
    alone = _deviations(holds[~labels].sum(0), holds[labels].sum(0), labels)
    order = np.argsort(-np.abs(alone), kind="stable")
    candidates: list[tuple[float, tuple[int, ...]]] = []
    candidates += [(abs(float(alone[number])), (int(number),)) for number in order]
    for first in order[:_FIRST].tolist():
        both = holds * holds[:, first : first + 1]
        together = _deviations(both[~labels].sum(0), both[labels].sum(0), labels)
        for second in np.argsort(-np.abs(together), kind="stable")[:_FIRST].tolist():
            if conditions[second].column != conditions[first].column:
                value = abs(float(together[second]))
                candidates.append((value / _GAIN, (first, second)))
    candidates.sort(key=lambda item: -item[0])
    rules: list[tuple[_Condition, ...]] = []
    used: set[str] = set()
    for _, numbers in candidates:
        rule = tuple(conditions[number] for number in numbers)
        names = {condition.column for condition in rule}
        if not names & used:
            rules.append(rule)
            used |= names
        if len(rules) == count:
            break
    return rules


def _deviations(of_x: Array, of_y: Array, labels: Flags) -> Array:
    """The difference of shares in standard errors; 0 for regions that hold few rows."""
    m = int(labels.sum())
    n = len(labels) - m
    pooled = (of_x + of_y) / (n + m)
    error = np.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m)) + 1e-12
    deviations = (of_y / m - of_x / n) / error
    few = np.minimum(pooled, 1 - pooled) < _LEAST_SHARE
    result: Array = np.where(few, 0.0, deviations)
    return result


def _counted(rule: tuple[_Condition, ...], is_y: Flags, counts: Flags) -> Region:
    """The region of a rule, counted on the rows that did not find it."""
    holds = np.logical_and.reduce([condition.holds for condition in rule])
    in_x = int((holds & ~is_y & counts).sum())
    in_y = int((holds & is_y & counts).sum())
    n = int((~is_y & counts).sum())
    m = int((is_y & counts).sum())
    words = " and ".join(condition.words for condition in rule)
    names = tuple(dict.fromkeys(condition.column for condition in rule))
    interval = difference_of_shares((in_x, n), (in_y, m))
    return Region(words, names, in_x / n, in_y / m, interval, (n, m))
