"""Many samples in their order, such as days: how far each column of each is from the reference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .._insight.changes import ColumnChange, describe
from .._insight.comparing import Comparison
from .._insight.held_out import held_out
from .._insight.summaries import column_data
from .._result import TwoSampleResult
from .findings import Findings

FEWEST = 3
"""Samples that it takes for an order to show anything."""


@dataclass(frozen=True)
class Moment:
    """One column of one sample.

    Attributes
    ----------
    sample
        The name of the sample.
    effect
        How far the column is from that of the reference; NaN where it is not known.
    adjusted
        The p-value of the column in this sample, not below that of the sample after the correction.
    sentence
        What changed, in words.
    """

    sample: str
    effect: float
    adjusted: float
    sentence: str


@dataclass(frozen=True)
class Timeline:
    """One column over all samples, in their order."""

    name: str
    unit: str
    moments: Sequence[Moment]

    @property
    def largest(self) -> float:
        """The largest effect of any sample."""
        known = [each.effect for each in self.moments if math.isfinite(each.effect)]
        return max(known, default=0.0)

    def differing(self, alpha: float) -> list[Moment]:
        """The samples whose column differs at this level."""
        return [each for each in self.moments if each.adjusted <= alpha]

    def alt(self, alpha: float) -> str:
        """The chart in words, for those who do not see it."""
        names = [each.sample for each in self.differing(alpha)]
        found = f"it differs in {', '.join(names)}" if names else "it differs in none"
        return (
            f"How far {self.name} is from the reference in each of {len(self.moments)} samples, "
            f"at most {self.largest:.2g} {self.unit}; {found}."
        )


def in_words(names: Sequence[str], all_names: Sequence[str]) -> str:
    """Some of the samples in their order; neighbours as "a to c"."""
    runs: list[list[str]] = []
    before = ""
    for name in all_names:
        if name in names:
            if before in names and runs:
                runs[-1].append(name)
            else:
                runs.append([name])
        before = name
    words = []
    for run in runs:
        # Two neighbours are as short as a range.
        words += run if len(run) < FEWEST else [f"{run[0]} to {run[-1]}"]
    return ", ".join(words)


def timelines_of(
    comparison: Comparison, findings: Mapping[str, Findings], adjusted: Mapping[str, float]
) -> list[Timeline]:
    """Every column over all samples: those that differ most often first, then by their effects.

    `adjusted` has the p-values of the samples.
    """
    by_column: dict[str, list[Moment]] = {}
    units: dict[str, str] = {}
    results = [result for result in comparison.values() if result.samples is not None]
    if len(comparison) < FEWEST or len(results) < len(comparison):  # streams keep no rows
        return []
    for name, result in comparison.items():
        for change in _changes(result, findings.get(name)):
            own = 1.0 if change.adjusted is None else change.adjusted
            moment = Moment(
                sample=name,
                effect=change.size,
                adjusted=max(own, adjusted[name]),
                sentence=change.sentence(),
            )
            by_column.setdefault(change.name, []).append(moment)
            units[change.name] = "spreads" if change.kind == "numeric" else "of the rows"
    lines = [Timeline(name, units[name], moments) for name, moments in by_column.items()]
    alpha = comparison.alpha
    lines.sort(key=lambda line: (-len(line.differing(alpha)), -line.largest))
    return lines


def _changes(result: TwoSampleResult, findings: Findings | None) -> Sequence[ColumnChange]:
    """The columns of one sample; without p-values where nobody asked for them."""
    if findings is not None and findings.columns:
        return findings.columns
    fitted, samples = held_out(result)
    if not samples.schema.columns:
        return ()
    return [describe(data) for data in column_data(samples, fitted.scaling)]
