"""How different two samples are, in numbers that people know: AUC, accuracy, shares of rows.

The witness of a test tells rows of X from rows of Y. How well it does on rows whose labels it has
not seen is an effect that needs no knowledge of kernels: 0.5 is chance and 1 is certainty.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from .._result import Effect, TwoSampleResult
from .._statistics.base import SquaredMMD
from .._statistics.folds import CrossFitted
from .._threads import few_threads
from ..errors import IncompatibleParts, InputError
from .held_out import as_array, embedded, held_out
from .intervals import CONFIDENCE, Area, Interval, around, auc_interval, delong, wilson
from .power import PredictedPower, predict_power

_LEAST = 10  # rows of each sample, of which a witness can be learned and judged
_GUESSING = 0.5  # the AUC without any difference
_ONE_SIDED = 0.9  # whose ends are one-sided bounds of 95 %


class Judged(NamedTuple):
    """What scores of rows say, given which of them are of X."""

    area: Area
    accuracy: float
    changed: float  # a lower bound of the total variation
    sizes: tuple[int, int]

    def auc_interval(self, confidence: float = CONFIDENCE) -> Interval:
        """The interval for the AUC."""
        return auc_interval(self.area, self.sizes, confidence)


@few_threads
def measured(parts: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The numbers of an effect that come with the one of this name, from parts of a result."""
    result = TwoSampleResult(effect=Effect(), **parts)
    if name == "mmd2_interval":
        return {name: mmd2_interval(result)}
    found = judged(result)
    if found is None:
        return {}
    return {
        "auc": found.area.auc,
        "accuracy": found.accuracy,
        "auc_interval": found.auc_interval(),
        "changed": found.changed,
    }


def judged(result: TwoSampleResult) -> Judged | None:
    """How well the witness of a test does; None where there is no witness, or no rows are kept."""
    scores = cross_fitted(result)
    if scores is None:
        return None
    return judge(scores, result.sizes[0])


def cross_fitted(result: TwoSampleResult) -> CrossFitted | None:
    """Scores of the tested rows, by witnesses that have not seen their labels; None if none are."""
    if result.fitted is None or result.samples is None or result.calibrated is None:
        return None
    if result.design is not None:
        return None  # rows depend on each other, and intervals would be too narrow
    n, m = result.sizes
    own = getattr(result.calibrated.prepared, "scores", None)
    if own is not None:
        # A classifier was trained on other rows.
        return CrossFitted(torch.cat(own), torch.zeros(n + m, dtype=torch.long), 0.0)
    if min(n, m) < _LEAST:
        return None
    fitted, samples = held_out(result)
    points = embedded(fitted, samples, torch.Generator().manual_seed(0))
    statistic = fitted.spec.statistic
    prepared = result.calibrated.prepared
    try:
        with torch.no_grad():
            return statistic.cross_fitted(fitted.representation, points, prepared)
    except IncompatibleParts:  # a statistic of the user's that has no witness
        return None


def judge(found: CrossFitted, n: int) -> Judged:
    """AUC, accuracy and total variation from scores of n rows of X, then those of Y."""
    scores = as_array(found.scores)
    folds = found.folds.numpy()
    of_x = scores[:n]
    of_y = scores[n:]
    folds_x = folds[:n]
    folds_y = folds[n:]
    areas = []
    weights = []
    for fold in range(int(folds.max()) + 1):
        here_x = folds_x == fold
        here_y = folds_y == fold
        areas.append(delong(of_x[here_x], of_y[here_y]))
        weights.append(here_x.sum() + here_y.sum())
    shares = np.array(weights) / sum(weights)
    auc = float(shares @ [area.auc for area in areas])
    variance = float(shares**2 @ [area.variance for area in areas])
    right_x = of_x[folds_x >= 0] > 0
    right_y = of_y[folds_y >= 0] <= 0
    accuracy = float(right_x.mean() + right_y.mean()) / 2
    sizes = (len(right_x), len(right_y))
    # Without a difference, what one fold says of another is what that one says of it: both see the
    # product of their differences. Counted twice, it has twice the variance.
    noise = found.noise
    low, high = auc_interval(Area(auc, 2 * variance), sizes)
    if low <= _GUESSING <= high:
        noise = 1.0  # there may be no difference, whatever chance says of the noise
    changed = _changed(float(right_x.mean()), float(right_y.mean()), sizes, noise)
    return Judged(Area(auc, (1 + noise) * variance), accuracy, changed, sizes)


def _changed(right_x: float, right_y: float, sizes: tuple[int, int], noise: float) -> float:
    """A lower bound of the total variation: of Pr(above 0) of X less that of Y."""
    n, m = sizes
    low_x, _ = wilson(right_x * n, n, _ONE_SIDED)
    low_y, _ = wilson(right_y * m, m, _ONE_SIDED)
    reach = math.hypot(right_x - low_x, right_y - low_y) * math.sqrt(1 + noise)
    return max(0.0, right_x + right_y - 1 - reach)


def mmd2_interval(result: TwoSampleResult, confidence: float = CONFIDENCE) -> Interval | None:
    """The interval for MMD^2 by the normal law of the MMD; None where the test has none."""
    estimate = mmd2_estimate(result)
    if estimate is None:
        return None
    low, high = around(estimate.value, estimate.error, confidence)
    root = math.sqrt(max(0.0, estimate.value))
    reach = (high - estimate.value) / (2 * root) if root > 0 else math.inf
    if reach < root:
        # The error grows with the MMD, so an estimate that is too small seems too sure of itself.
        # That of the MMD, the root, does not.
        low, high = (root - reach) ** 2, (root + reach) ** 2
    return max(0.0, low), max(0.0, high)  # no square is below 0


def mmd2_estimate(result: TwoSampleResult) -> SquaredMMD | None:
    """An estimate of MMD^2 without bias, and its error; None where the test has none."""
    if result.fitted is None or result.samples is None or result.calibrated is None:
        return None
    if result.design is not None:
        return None
    statistic = result.fitted.spec.statistic
    if statistic.pair_estimator is None:
        representation = result.fitted.representation
        (*_, rows) = embedded(result.fitted, result.samples, torch.Generator()).parts
        return statistic.squared_mmd(representation, result.calibrated.prepared, rows)
    try:
        plan = predict_power(result)
    except (InputError, IncompatibleParts):  # too few rows, or no shuffles
        return None
    if not isinstance(plan, PredictedPower):
        return None
    # The sum of all squared eigenvalues, each of which is at most its root.
    squares = max(0.0, *plan.second_order)
    return SquaredMMD(plan.mmd2, plan.standard_error, math.sqrt(squares), squares)
