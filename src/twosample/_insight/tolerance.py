"""Does a difference matter? Three verdicts for a tolerance that the user states.

A tolerance is a margin in units that mean something: of AUC, of a column's spread, of MMD. Each of
two one-sided tests has an error of at most alpha at the margin:

    differ        a lower bound of the difference lies above the margin, and the test itself rejects
    equivalent    an upper bound of it lies below
    undecided     neither: there are too few rows to say

Where several margins are given, the samples are equivalent if they are within all of them, each
tested at alpha. They differ if they are beyond any, for which the margins share alpha.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal, TypeAlias

from .._result import ALPHA, TwoSampleResult
from .._threads import few_threads
from ..errors import IncompatibleParts, InputError
from .changes import describe
from .effects import judged, mmd2_estimate
from .held_out import held_out
from .intervals import difference_of_shares
from .summaries import ColumnData, column_data

Verdict: TypeAlias = Literal["differ", "no difference found", "equivalent", "undecided"]

UNITS = ("auc", "mmd", "spread")
"""What a tolerance may be in, beside the name of a column."""


@dataclass(frozen=True)
class Margin:
    """One margin, and what the samples say about it.

    Attributes
    ----------
    unit
        "auc", "mmd", "spread" or the name of a column.
    margin
        What was tolerated, in this unit.
    value
        The estimate of the difference; None where there is none.
    low, high
        One-sided bounds of the difference, each with an error of at most alpha (`low` with a share
        of it, where there are several margins).
    about
        What the numbers are of: the column, for "spread" the one that is farthest out.
    """

    unit: str
    margin: float
    value: float | None
    low: float
    high: float
    about: str

    @property
    def verdict(self) -> Verdict:
        """What these bounds say by themselves."""
        if self.low > self.margin:
            return "differ"
        return "equivalent" if self.high < self.margin else "undecided"

    def sentence(self) -> str:
        """The bounds in words."""
        value = "not known" if self.value is None else f"{self.value:.3g}"
        return (
            f"{self.about}: {value}, at least {self.low:.3g} and at most {self.high:.3g}, "
            f"where {self.margin:g} is tolerated"
        )


@dataclass(frozen=True)
class Decision:
    """The verdict on a difference, given a tolerance or without one.

    Attributes
    ----------
    verdict
        Without a tolerance "differ" or "no difference found"; with one "differ" (by more than it),
        "equivalent" (within it) or "undecided" (not enough rows to say).
    alpha
        The error that either of the first and the second may have.
    margins
        What each margin of the tolerance says.
    """

    verdict: Verdict
    alpha: float
    margins: tuple[Margin, ...] = ()

    def sentence(self) -> str:
        """The verdict in words."""
        if not self.margins:
            differ = self.verdict == "differ"
            return "The samples differ." if differ else "No difference found."
        words = {
            "differ": "The samples differ by more than the tolerance",
            "equivalent": "The samples are equivalent within the tolerance",
            "undecided": "Not enough rows to say whether the samples differ by more than the "
            "tolerance",
        }
        told = "; ".join(margin.sentence() for margin in self.margins)
        return f"{words[self.verdict]} ({told})."

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        margins = []
        for margin in self.margins:
            plain = {
                "unit": margin.unit,
                "margin": margin.margin,
                "value": margin.value,
                "low": margin.low,
                "high": margin.high if math.isfinite(margin.high) else None,
                "about": margin.about,
                "verdict": margin.verdict,
            }
            margins.append(plain)
        return {"verdict": self.verdict, "alpha": self.alpha, "margins": margins}


@few_threads
def decide(result: TwoSampleResult, alpha: float = ALPHA) -> Decision:
    """The verdict of a result, with its tolerance if it has one."""
    rejects = result.reject(alpha)
    if result.tolerance is None:
        return Decision("differ" if rejects else "no difference found", alpha)
    count = len(result.tolerance)
    margins = []
    for unit, margin in result.tolerance.items():
        # Any of the margins makes the samples differ, so they share alpha; all of them make them
        # equivalent, so each has it.
        margins.append(_margin_of(result, unit, margin, alpha / count, alpha))
    verdicts = [margin.verdict for margin in margins]
    verdict: Verdict = "undecided"
    if rejects and "differ" in verdicts:
        verdict = "differ"
    elif all(each == "equivalent" for each in verdicts):
        verdict = "equivalent"
    return Decision(verdict, alpha, tuple(margins))


def _margin_of(
    result: TwoSampleResult, unit: str, margin: float, alpha_low: float, alpha_high: float
) -> Margin:
    _, samples = held_out(result)
    if result.design is not None:
        raise IncompatibleParts(
            f"a tolerance takes independent rows, and here {result.design}: its bounds would be "
            "too narrow. Leave one of the two out."
        )
    names = [column.name for column in samples.schema.columns]
    # A column of such a name would be meant, but for the units themselves.
    if unit == "auc":
        return _margin_of_auc(result, margin, alpha_low, alpha_high)
    if unit == "mmd":
        return _margin_of_mmd(result, margin, alpha_low, alpha_high)
    if not names or (unit != "spread" and unit not in names):
        known = ", ".join(names) or "none: these are images"
        raise InputError(
            f"tolerance has {unit!r}, which is neither 'auc', 'mmd' or 'spread' nor a column. "
            f"The columns are: {known}."
        )
    chosen = names if unit == "spread" else [unit]
    return _margin_of_columns(result, unit, chosen, margin, alpha_low, alpha_high)


# AUC


def _margin_of_auc(
    result: TwoSampleResult, margin: float, alpha_low: float, alpha_high: float
) -> Margin:
    found = judged(result)
    if found is None:
        raise IncompatibleParts(
            f"{result.method} on {result.sizes[0]} + {result.sizes[1]} rows has no AUC to be "
            "tolerated; take more rows, or a tolerance in 'spread'."
        )
    low, _ = found.auc_interval(1 - 2 * alpha_low)
    _, high = found.auc_interval(1 - 2 * alpha_high)
    best = _best_auc_at_most(result, alpha_high)
    if best is not None:
        # What was learned may fall short of the best witness, which counts.
        high = max(high, best)
    return Margin("auc", margin, found.area.auc, low, high, "AUC")


def _best_auc_at_most(result: TwoSampleResult, alpha: float) -> float | None:
    """What the AUC of no witness of a test of views exceeds; None for tests of other kinds."""
    if result.fitted is None or result.calibrated is None:
        return None
    statistic = result.fitted.spec.statistic
    bound = statistic.separation_at_most(result.calibrated.prepared, alpha)
    if bound is None:
        return None
    return auc_of_separation(math.sqrt(bound)) if math.isfinite(bound) else 1.0


def auc_of_separation(separation: float) -> float:
    """The AUC of scores that are normal, and so many spreads apart."""
    return NormalDist().cdf(separation / math.sqrt(2))


# MMD


def _margin_of_mmd(
    result: TwoSampleResult, margin: float, alpha_low: float, alpha_high: float
) -> Margin:
    found = mmd2_estimate(result)
    if found is None:
        raise IncompatibleParts(
            f"{result.method} has no MMD to be tolerated; use a tolerance in 'auc' or 'spread'."
        )
    n, m = result.sizes
    low = found.value - NormalDist().inv_cdf(1 - alpha_low) * found.error
    # The error is larger where the MMD is, so the one at the margin counts.
    error = max(found.error, found.error_at(margin**2, n, m))
    high = found.value + NormalDist().inv_cdf(1 - alpha_high) * error
    return Margin("mmd", margin, _root(found.value), _root(low), _root(high), "MMD")


def _root(value: float) -> float:
    return math.sqrt(max(0.0, value))


# Columns


def _margin_of_columns(
    result: TwoSampleResult,
    unit: str,
    names: list[str],
    margin: float,
    alpha_low: float,
    alpha_high: float,
) -> Margin:
    """The column that is farthest out, where there are several."""
    fitted, samples = held_out(result)
    margins = []
    for data in column_data(samples, fitted.scaling):
        if data.column.name in names:
            alpha_each = alpha_low / len(names)
            margins.append(_margin_of_column(data, unit, margin, alpha_each, alpha_high))
    low = max(each.low for each in margins)
    high = max(each.high for each in margins)
    farthest = max(margins, key=lambda each: (each.high, each.value or 0.0))
    about = farthest.about
    return Margin(unit, margin, farthest.value, low, high, about)


def _margin_of_column(
    data: ColumnData, unit: str, margin: float, alpha_low: float, alpha_high: float
) -> Margin:
    """The effect of a column, or the change of its share missing if that is larger."""
    for_low = describe(data, 1 - 2 * alpha_low)
    for_high = describe(data, 1 - 2 * alpha_high)
    low, _ = for_low.effect_interval or (0.0, math.inf)
    _, high = for_high.effect_interval or (0.0, math.inf)
    value = for_low.effect
    if any(data.missing):
        (gaps_x, gaps_y), (n, m) = data.missing, data.sizes
        below, above = difference_of_shares((gaps_x, n), (gaps_y, m), 1 - 2 * alpha_low)
        low = max(low, below, -above)
        below, above = difference_of_shares((gaps_x, n), (gaps_y, m), 1 - 2 * alpha_high)
        high = max(high, above, -below)
        value = max(value, abs(gaps_y / m - gaps_x / n))
    about = f"change of {data.column.name} in spreads"
    if data.column.kind != "numeric":
        about = f"share of {data.column.name} that changed"
    return Margin(unit, margin, value, low, high, about)
