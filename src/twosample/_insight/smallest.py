"""What could have been found: the smallest difference that a test would have seen.

"No difference found" says little without it. It is the difference with which the test rejects in
four of five pairs of samples of these sizes, in the units of an effect.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import torch

from .._calibration import null_threshold
from .._checks import check_alpha, check_share
from .._result import ALPHA, TwoSampleResult
from .._statistics import HotellingT2
from .._threads import few_threads
from .tolerance import auc_of_separation

POWER = 0.8
"""With which the difference would have been found."""

_MOST_SHUFFLES = 499  # into which a difference is planted


@dataclass(frozen=True)
class SmallestDifference:
    """The smallest difference that a test finds with some power; None for units it has not.

    Attributes
    ----------
    power, alpha
        How often it is found, at this level.
    auc
        The AUC of the difference.
    shift
        How far one column of numbers moves, in its spreads.
    share
        By how much the share of one level of a category changes.
    mmd
        The MMD by the kernel of the test.
    """

    power: float
    alpha: float
    auc: float | None = None
    shift: float | None = None
    share: float | None = None
    mmd: float | None = None

    def sentence(self) -> str:
        """The difference in words."""
        found = f"would have been found with power {self.power:g}"
        if self.shift is not None:
            return (
                f"A shift of one column by {self.shift:.2g} of its spread (AUC {self.auc:.2f}) "
                f"{found}."
            )
        if self.share is not None:
            points = 100 * self.share
            return f"A change of one level's share by {points:.2g} percentage points {found}."
        if self.auc is not None:
            return f"A difference that tells rows apart with an AUC of {self.auc:.2f} {found}."
        return f"An MMD of {self.mmd:.2g}, by the kernel of this test, {found}."

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "power": self.power,
            "alpha": self.alpha,
            "auc": self.auc,
            "shift": self.shift,
            "share": self.share,
            "mmd": self.mmd,
            "sentence": self.sentence(),
        }


@few_threads
def smallest_difference(
    result: TwoSampleResult, power: float = POWER, alpha: float = ALPHA
) -> SmallestDifference | None:
    """The smallest difference that this test finds; None where it cannot be said.

    That is the case without shuffles, with too few for the level, or with a design.
    """
    check_share("power", power)
    check_alpha(alpha)
    if result.fitted is None or result.calibrated is None:
        return None
    if result.design is not None:
        return None  # it would take fewer units than rows to tell
    threshold = null_threshold(result.null_distribution, alpha * result.share)
    if threshold is None or len(result.null_distribution) < 2:
        return None
    statistic = result.fitted.spec.statistic
    if isinstance(statistic, HotellingT2):
        return _of_features(result, threshold, power, alpha)
    if statistic.symbol == "MMD²":
        return _of_mmd(result, threshold, power, alpha)
    return _of_views(result, threshold, power, alpha)


def would_be_found(result: TwoSampleResult, alpha: float = ALPHA) -> SmallestDifference | None:
    """What a test that found nothing at this level would have found; None if it found something."""
    return None if result.reject(alpha) else smallest_difference(result, alpha=alpha)


def could_find(result: TwoSampleResult, alpha: float = ALPHA) -> str:
    """What would have been found at this level, in a sentence; "" where nothing can be said."""
    smallest = would_be_found(result, alpha)
    return "" if smallest is None else smallest.sentence()


def _of_views(
    result: TwoSampleResult, threshold: float, power: float, alpha: float
) -> SmallestDifference | None:
    """By planting a difference into the shuffles of the test."""
    fitted = result.fitted
    calibrated = result.calibrated
    if fitted is None or calibrated is None:
        return None
    shuffles = calibrated.shuffles.first(_MOST_SHUFFLES + 1)[1:]  # the first is the observed order
    null = torch.from_numpy(result.null_distribution[: len(shuffles)])
    found = fitted.spec.statistic.separation_found(
        fitted.representation, calibrated.prepared, shuffles, null, threshold, power
    )
    if found is None or not math.isfinite(found.separation):
        return None
    if found.what == "levels":
        if result.samples is None:  # of a stream the share of a level is not kept
            return None
        of_level = float(result.samples.pooled()[:, found.place].double().mean())
        share = min(1.0, found.separation * math.sqrt(of_level * (1 - of_level)))
        return SmallestDifference(power, alpha, auc=0.5 + share / 2, share=share)
    auc = auc_of_separation(found.separation)
    shift = found.separation if found.what == "columns" else None
    return SmallestDifference(power, alpha, auc=auc, shift=shift)


def _of_mmd(
    result: TwoSampleResult, threshold: float, power: float, alpha: float
) -> SmallestDifference:
    """The MMD^2 m with m = threshold + z sqrt(v + 4 m s), whose variance is as large as can be.

    v is the variance of the null distribution, and s, the largest eigenvalue of the kernel's
    covariance times 1/n + 1/m, is at most sqrt(v / 2).
    """
    z = NormalDist().inv_cdf(power)
    variance = float(result.null_distribution.var())
    # A biased estimate is above 0 without any difference; what it adds is no difference.
    bias = max(0.0, float(result.null_distribution.mean()))
    least = threshold - bias
    slope = 2 * z * z * math.sqrt(variance / 2)
    inner = (least + slope) ** 2 - least**2 + z * z * variance
    mmd2 = least + slope + math.copysign(math.sqrt(max(0.0, inner)), z)
    mmd = math.sqrt(max(0.0, mmd2))
    return SmallestDifference(power, alpha, auc=_auc_of_classifier(result, mmd), mmd=mmd)


def _auc_of_classifier(result: TwoSampleResult, mmd: float) -> float | None:
    """The AUC that goes with an MMD of scores; None for tests that have no scores."""
    if result.fitted is None or result.calibrated is None:
        return None
    scores = getattr(result.calibrated.prepared, "scores", None)
    if scores is None:
        return None
    if getattr(result.fitted.representation, "decides", False):
        return 0.5 + min(1.0, mmd) / 2  # the MMD is 2 accuracy - 1
    spread = math.sqrt(sum(float(part.var()) for part in scores) / 2)
    return auc_of_separation(mmd / spread) if spread > 0 else None


def _of_features(
    result: TwoSampleResult, threshold: float, power: float, alpha: float
) -> SmallestDifference | None:
    """By the noncentral chi-squared law of T^2."""
    from scipy.special import chndtrinc

    if result.fitted is None or result.samples is None:
        return None
    with torch.no_grad():
        features = result.fitted.representation(result.samples.x[:1])
    n, m = result.sizes
    noncentrality = float(chndtrinc(threshold, features.shape[1], 1 - power))
    if not math.isfinite(noncentrality):
        return None
    separation = math.sqrt(noncentrality * (1 / n + 1 / m))
    return SmallestDifference(power, alpha, auc=auc_of_separation(separation))
