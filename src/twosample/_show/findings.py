"""What a page has to say about one result, and which of its rows that comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import torch

from .._data.samples import Samples
from .._insight.changes import ColumnChange, PairChange, column_changes, pair_changes
from .._insight.explain import Explanation, explain
from .._insight.held_out import held_out
from .._random import Generators, RNGLike
from .._resources import Resources
from .._result import TwoSampleResult
from .maps import PointMap, point_map, row_numbers
from .page import levels_with, or_why

ROWS_SHOWN = 8
"""The most telling rows of each sample that a page shows."""

Change = TypeVar("Change", ColumnChange, PairChange)

_CANDIDATES = 5  # telling rows for each that is shown, so that those need not be alike
_MOST_ROWS = 4000  # held-out rows of each sample, for what compares all of them with each other
_MOST_POINTS = 1500  # on the map
_MOST_PICTURES = 600  # on the map, where each point comes with its picture


@dataclass(frozen=True, eq=False)
class Findings:
    """Everything that several parts of a page need to know about one result.

    Attributes
    ----------
    result
        The result of the test.
    alpha, levels
        The level of the verdict, and all levels that a reader may choose from.
    generators
        Where random choices come from.
    explanation
        What tells the samples apart; None where that is not known.
    why_not
        A sentence that says why there is no explanation; "" if there is one.
    names
        What X and Y are called.
    """

    result: TwoSampleResult
    alpha: float
    levels: tuple[float, ...]
    generators: Generators
    explanation: Explanation | None
    why_not: str
    names: tuple[str, str] = ("X", "Y")

    @cached_property
    def columns(self) -> list[ColumnChange]:
        """Every column, those with the largest effects first; none for images."""
        if self.explanation is None:
            return []
        changes = [self._closed(each) for each in column_changes(self.result, self.explanation)]
        return sorted(changes, key=lambda change: -change.size)

    @cached_property
    def pairs(self) -> list[PairChange]:
        """Every pair that was tested: those that go together otherwise, then by their effects."""
        if self.explanation is None:
            return []
        changes = [self._closed(each) for each in pair_changes(self.result, self.explanation)]
        return sorted(changes, key=lambda pair: (len(pair.follows_from), -pair.effect))

    def _closed(self, change: Change) -> Change:
        """A change whose p-value is not below that of the test, which looks at all rows."""
        adjusted = 1.0 if change.adjusted is None else change.adjusted
        return replace(change, adjusted=max(adjusted, self.result.pvalue))

    @property
    def explained(self) -> TwoSampleResult | None:
        """The result of the rows that the explanation is about."""
        return None if self.explanation is None else self.explanation.result

    @cached_property
    def map(self) -> PointMap | None:
        """The map of these rows; None where there is none to draw."""
        explanation = self.explanation
        if explanation is None:
            return None
        most = _MOST_PICTURES if self.unit == "images" else _MOST_POINTS
        rng = self.generators.numpy("map")
        points, _ = or_why(lambda: point_map(explanation, most=most, rng=rng, names=self.names))
        return points

    @property
    def unit(self) -> str:
        """What a point is: "rows" or "images"."""
        fitted = self.result.fitted
        return "images" if fitted is not None and fitted.schema.kind == "image" else "rows"

    @property
    def compares_all_pairs(self) -> bool:
        """Whether the test compares all points with each other."""
        fitted = self.result.fitted
        return fitted is None or fitted.spec.statistic.compares_all_pairs

    @property
    def rows_used(self) -> str:
        """Which rows were explained, when not all of the held-out ones were: a sentence or ""."""
        # A page that used all rows need not say so.
        explained = self.explained
        if explained is None or explained.sizes == self.result.sizes:
            return ""
        n, m = explained.sizes
        all_n, all_m = self.result.sizes
        used = f"{n:,} + {m:,}"
        held_out_points = f"{all_n:,} + {all_m:,}"
        return f"From {used} of the {held_out_points} held-out {self.unit}, drawn at random."

    def at_levels(self, text: Callable[[float], str]) -> dict[float, str]:
        """A text for each level."""
        return {level: text(level) for level in self.levels}


def findings_of(
    result: TwoSampleResult,
    alpha: float,
    explanation: Explanation | None,
    generators: Generators,
    progress: bool | None,
    names: tuple[str, str] = ("X", "Y"),
) -> Findings:
    """What a page has to say about a result; it is explained here if it has not been yet."""
    levels = levels_with(alpha)
    why_not = ""
    if explanation is None:
        explanation, why_not = or_why(lambda: _explain_a_part(result, alpha, generators, progress))
    return Findings(
        result=result,
        alpha=alpha,
        levels=levels,
        generators=generators,
        explanation=explanation,
        why_not=why_not,
        names=names,
    )


def _explain_a_part(
    result: TwoSampleResult, alpha: float, generators: Generators, progress: bool | None
) -> Explanation:
    fitted, _ = held_out(result)
    part = result
    if fitted.spec.statistic.compares_all_pairs:
        part = on_fewer_points(result, _MOST_ROWS, generators.numpy("fewer"))
    return explain(
        part,
        alpha=alpha,
        rows=_CANDIDATES * ROWS_SHOWN,
        rng=generators.numpy("explain"),
        progress=progress,
    )


def on_fewer_points(
    result: TwoSampleResult, most: int, rng: RNGLike | None = None
) -> TwoSampleResult:
    """The same fitted test on at most `most` held-out points of each sample, drawn at random.

    Some points of a sample of independent points are such a sample, too. So what is exact for all
    points is exact for these.
    """
    fitted, samples = held_out(result)
    if max(samples.sizes) <= most:
        return result
    generators = Generators(rng)
    n, m = samples.sizes
    order_x = torch.randperm(n, generator=generators.torch("fewer"))
    # Samples of one size may be pairs, which stay together.
    order_y = order_x
    if n != m:
        order_y = torch.randperm(m, generator=generators.torch("fewer of Y"))
    chosen_x = order_x[:most].sort().values
    chosen_y = order_y[:most].sort().values
    rows_x, rows_y = row_numbers(samples)
    fewer = Samples(
        samples.x[chosen_x.to(samples.x.device)],
        samples.y[chosen_y.to(samples.y.device)],
        samples.schema,
        (rows_x[chosen_x], rows_y[chosen_y]),
        units=None if samples.units is None else samples.units.take(chosen_x, chosen_y),
    )
    # The points are scaled already, and what was learned stays as it is.
    part = fitted._test_scaled(fewer, generators, Resources(fitted.spec.memory))
    return replace(part, names=result.names, seed=result.seed)
