"""Intervals for shares, means and areas under curves, as pure functions of what was counted.

Each gives (low, high) for a confidence level. One-sided bounds at level a are the ends of the
two-sided interval of confidence 1 - 2 a.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Interval: TypeAlias = tuple[float, float]
Array: TypeAlias = NDArray[np.float64]

CONFIDENCE = 0.95
"""Of the intervals that results come with."""


def deviate(confidence: float) -> float:
    """How many standard errors an interval of this confidence reaches to either side."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def around(value: float, error: float, confidence: float = CONFIDENCE) -> Interval:
    """The interval by the normal law, for an estimate with this standard error."""
    reach = deviate(confidence) * error
    return value - reach, value + reach


class Area(NamedTuple):
    """An area under a curve, and its variance."""

    auc: float
    variance: float


def delong(scores_x: Array, scores_y: Array) -> Area:
    """The AUC and its variance without any assumption about the scores [DeLong1988].

    With V_i the share of Y below the i-th score of X and W_j the share of X above the j-th of Y,
    ties counting half, the variance is Var(V) / n + Var(W) / m.
    """
    n = len(scores_x)
    m = len(scores_y)
    below = _shares_below(scores_y, scores_x)
    above = 1 - _shares_below(scores_x, scores_y)
    variance = float(np.var(below, ddof=1)) / n + float(np.var(above, ddof=1)) / m
    return Area(float(below.mean()), variance)


def _shares_below(reference: Array, values: Array) -> Array:
    """For each value the share of the reference below it, ties counting half."""
    ordered = np.sort(reference)
    left = np.searchsorted(ordered, values, side="left")
    right = np.searchsorted(ordered, values, side="right")
    shares: Array = (left + right) / (2 * len(ordered))
    return shares


def auc_interval(
    area: Area,
    sizes: tuple[int, int],
    confidence: float = CONFIDENCE,
) -> Interval:
    """The interval for an AUC, on the scale of log(a / (1 - a)), so that it ends before 0 and 1.

    Where all scores of X lie above those of Y, or nearly, the variance is that of a share with half
    a row on the other side: no data show an AUC of 1.
    """
    smaller = min(sizes)
    least = 1 / (2 * smaller)
    auc = min(1 - least, max(least, area.auc))
    error = math.sqrt(area.variance)
    if auc != area.auc or area.variance == 0:
        error = math.sqrt(auc * (1 - auc) / smaller)
    logit = math.log(auc / (1 - auc))
    low, high = around(logit, error / (auc * (1 - auc)), confidence)
    ends = (1 / (1 + math.exp(-low)), 1 / (1 + math.exp(-high)))
    return min(ends[0], area.auc), max(ends[1], area.auc)


def wilson(count: float, size: int, confidence: float = CONFIDENCE) -> Interval:
    """The interval of Wilson for a share, `count` of `size`."""
    if size == 0:
        return 0.0, 1.0
    z = deviate(confidence)
    share = count / size
    middle = (share + z * z / (2 * size)) / (1 + z * z / size)
    inner = share * (1 - share) / size + z * z / (4 * size * size)
    reach = z * math.sqrt(inner) / (1 + z * z / size)
    return max(0.0, middle - reach), min(1.0, middle + reach)


def difference_of_shares(
    before: tuple[float, int],
    after: tuple[float, int],
    confidence: float = CONFIDENCE,
) -> Interval:
    """The interval of Newcombe for the second share less the first, each a count and a size.

    [Newcombe1998], method 10: it holds for shares near 0 too, where a normal law does not.
    """
    count_x, n = before
    count_y, m = after
    share_x = count_x / n
    share_y = count_y / m
    low_x, high_x = wilson(count_x, n, confidence)
    low_y, high_y = wilson(count_y, m, confidence)
    difference = share_y - share_x
    low = difference - math.hypot(share_y - low_y, high_x - share_x)
    high = difference + math.hypot(high_y - share_y, share_x - low_x)
    return low, high


def difference_of_means(x: Array, y: Array, confidence: float = CONFIDENCE) -> Interval:
    """The interval for the mean of `y` less that of `x`, by the t law of Welch."""
    n = len(x)
    m = len(y)
    difference = float(y.mean() - x.mean())
    of_x = float(np.var(x, ddof=1)) / n
    of_y = float(np.var(y, ddof=1)) / m
    error = math.sqrt(of_x + of_y)
    if error == 0:
        return difference, difference
    degrees = (of_x + of_y) ** 2 / (of_x**2 / (n - 1) + of_y**2 / (m - 1))
    reach = student(confidence, degrees) * error
    return difference - reach, difference + reach


def student(confidence: float, degrees: float) -> float:
    """The quantile of Student's law that an interval of this confidence reaches to."""
    # Not by `scipy.stats`, which takes a second to import.
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + confidence / 2))
