"""What each chart shows: its numbers, the names of its axes, and what it points out.

A chart is described here once and drawn twice: by `plots` with matplotlib, and by `svg_charts` on
the pages. Neither works out a number, a limit or a word again. Charts of points in a plane are
described in `maps`, those of single columns in `marginals`. Nothing here draws.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from .._calibration import null_threshold
from .._insight.comparing import Comparison, effects
from .._insight.power import PredictedPower, predict_power
from .._insight.prediction import PowerPlan
from .._objectives import PowerCriterion
from .._result import ALPHA, TwoSampleResult, format_pvalue
from .._statistics import Law
from ..errors import IncompatibleParts, InputError

Array = NDArray[np.float64]
Ends = tuple[float, float]
"""The low and the high end of an axis or of an interval."""

_FAR = 1.0  # widths of a null distribution beyond which an axis is broken
_BEYOND = 0.5  # of that width, where what is far out stands then

_FEWEST_BINS = 10
_MOST_BINS = 60
_LAW_BINS = 40
_CURVE_SIZES = 48  # sizes at which a power curve is computed


@dataclass(frozen=True)
class Mark:
    """A value that a chart points out, and what is written about it.

    Attributes
    ----------
    value
        Where it is along the horizontal axis.
    flag
        The text beside it on a page, which has no legend.
    legend
        The text in the legend of a figure, which has no room beside it.
    """

    value: float
    flag: str
    legend: str


@dataclass(frozen=True, eq=False)
class Series:
    """A line through points, and its name in the legend."""

    name: str
    x: Array
    y: Array


# The null distribution.


@dataclass(frozen=True, eq=False)
class NullDistribution:
    """What the statistic looks like when P = Q, and the observed value.

    Attributes
    ----------
    edges, shares
        The edges of the bins, and the share of the null distribution that falls into each bin.
    source
        Where the null distribution comes from: shuffles, or a limiting law.
    symbol
        What the statistic is called: "MMD²" or "T²". It labels the axis.
    observed
        The statistic of the test.
    threshold_value
        alpha -> the value that the statistic must exceed; None if no value is rejected at so small
        an alpha.
    """

    edges: Array
    shares: Array
    source: str
    symbol: str
    observed: Mark
    threshold_value: Callable[[float], float | None]

    title = "Against chance"
    y_label = "share"

    def threshold(self, alpha: float) -> Mark | None:
        """The value that the statistic must exceed at level `alpha`, if there is one."""
        value = self.threshold_value(alpha)
        if value is None:
            return None
        return Mark(value, f"threshold at α = {alpha:g}", f"threshold at alpha = {alpha:g}")

    @property
    def x_label(self) -> str:
        """The label of the horizontal axis, for those who do not know the statistic."""
        return f"{self.symbol}: the farther right, the less like chance"

    @property
    def is_far(self) -> bool:
        """Whether the observed value is so far out that the bins would collapse beside it."""
        extent = float(self.edges[-1] - self.edges[0])
        return bool(self.observed.value > self.edges[-1] + _FAR * extent)

    def x_limits(self, thresholds: Iterable[Mark | None], broken: bool = False) -> Ends:
        """Ends between which the bins, the observed value and these thresholds are in view.

        On a `broken` axis an observed value that is far out stands at the right end.
        """
        values = [*self.edges.tolist(), self.observed.value]
        if broken and self.is_far:
            low, high = float(self.edges[0]), float(self.edges[-1])
            values = [low, high + _BEYOND * (high - low)]
        values += [mark.value for mark in thresholds if mark is not None]
        low = min(values)
        high = max(values)
        margin = 0.03 * (high - low)
        return low - margin, high + margin

    @property
    def alt(self) -> str:
        """The chart in words, for those who do not see it."""
        return (
            f"Histogram of {self.symbol} when both samples come from one distribution, between "
            f"{self.edges[0]:.3g} and {self.edges[-1]:.3g}; "
            f"the observed value is {self.observed.value:.3g}."
        )


def null_of(result: TwoSampleResult) -> NullDistribution:
    """The null distribution of a test."""
    values = np.asarray(result.null_distribution, dtype=np.float64)
    value_at: Callable[[float], float | None]
    if len(values):
        edges = _bin_edges(values)
        shares = np.histogram(values, edges)[0] / len(values)
        value_at = functools.partial(null_threshold, values)
    else:
        law = _law(result)
        # All but one in a thousand at each end; from 0 for statistics that are never below it.
        lowest = min(law.threshold(0.999), 0.0)
        highest = law.threshold(0.001)
        edges = np.linspace(lowest, highest, _LAW_BINS + 1)
        above = [law.survival(edge) for edge in edges.tolist()]
        shares = -np.diff(above)
        value_at = law.threshold
    symbol = "MMD²" if result.fitted is None else result.fitted.spec.statistic.symbol
    observed = Mark(
        result.statistic,
        f"observed: {result.statistic:.3g}",
        f"observed, p = {format_pvalue(result.pvalue)}",
    )

    def threshold(alpha: float) -> float | None:
        # A test that is one of two has a share of the level.
        return value_at(alpha * result.share)

    return NullDistribution(edges, shares, result.calibration, symbol, observed, threshold)


def _bin_edges(values: Array) -> Array:
    edges: Array = np.histogram_bin_edges(values, "auto")
    bins = len(edges) - 1
    if _FEWEST_BINS <= bins <= _MOST_BINS:
        return edges
    # A few far-out values make "auto" bins very thin; a few shuffles make them very wide.
    bins = min(max(bins, _FEWEST_BINS), _MOST_BINS)
    readable: Array = np.histogram_bin_edges(values, bins)
    return readable


def _law(result: TwoSampleResult) -> Law:
    if result.fitted is None or result.calibrated is None:
        raise InputError(
            "this result holds neither shuffles nor the statistic whose law could take their "
            "place; use the result as the test returned it."
        )
    return result.fitted.spec.statistic.law(result.calibrated.prepared)


# Power.


@dataclass(frozen=True, eq=False)
class PowerCurve:
    """The predicted power of a test at one level, over the number of points of X that are tested.

    Attributes
    ----------
    alpha, wanted, ratio
        The level of the test, the power that is wanted, and how many points of Y are tested for
        each point of X.
    sizes, power, low, high
        (K,) numbers of points of X, the predicted power, and the ends of its interval of
        confidence 0.9.
    here
        The points of X in the test at hand.
    needed
        The points of X that give the wanted power; None if no number is known to.
    """

    alpha: float
    wanted: float
    ratio: float
    sizes: NDArray[np.int64]
    power: Array
    low: Array
    high: Array
    here: Mark
    needed: Mark | None

    title = "Power"
    y_label = "power"
    x_label = "points of X tested"
    band_name = "90 % interval"

    @property
    def name(self) -> str:
        """The name of the curve in a legend."""
        return f"power at alpha = {self.alpha:g}"

    def x_label_of(self, unit: str, names: tuple[str, str] = ("X", "Y")) -> str:
        """The label of the horizontal axis where points are known to be "rows" or "images"."""
        if abs(self.ratio - 1) < 1e-9:
            return f"{unit} tested of each sample"
        x, y = names
        return f"{unit} tested of {x}, {self.ratio:.3g} times as many of {y}"

    def alt(self, unit: str, name: str = "X") -> str:
        """The chart in words, for those who do not see it; `name` is what X is called."""
        fewest = self.sizes[0]
        power = self.power[0]
        start = f"Predicted {self.name}: {power:.2f} with {fewest} {unit} of {name}"
        if self.needed is None:
            return f"{start}."
        needed = self.needed.value
        return f"{start}, {self.wanted:g} with {needed:.0f}."


def power_over_sizes(
    predicted: PowerPlan,
    *,
    power: float = 0.9,
    alpha: float = ALPHA,
    sizes: tuple[int, int] | None = None,
) -> PowerCurve:
    """The predicted power, from a few points to more than the wanted power takes.

    `sizes` are those of the test at hand, where the prediction comes from a part of its points.
    """
    n, m = predicted.sizes if sizes is None else sizes
    ratio = m / n  # more data come in the proportions of those at hand
    needed = predicted.samples_needed(power, alpha, ratio=ratio)
    # Twice as far as what is pointed out, but not so far that the test at hand is lost from view.
    farthest = min(needed or 8 * n, 64 * n)
    spaced = np.geomspace(4, 2 * max(n, farthest), _CURVE_SIZES)
    sizes_of_x = np.unique(spaced.round().astype(np.int64))  # (K,)
    values = []
    lows = []
    highs = []
    for size in sizes_of_x.tolist():
        of_y = max(2, round(size * ratio))
        low, high = predicted.power_interval(size, of_y, alpha)
        values.append(predicted.power(size, of_y, alpha))
        lows.append(low)
        highs.append(high)
    needed_mark = None
    if needed is not None:
        flag = f"{needed:,} for power {power:g}"
        needed_mark = Mark(needed, flag, f"{needed} points for {power:g}")
    return PowerCurve(
        alpha=alpha,
        wanted=power,
        ratio=ratio,
        sizes=sizes_of_x,
        power=np.array(values),
        low=np.array(lows),
        high=np.array(highs),
        here=Mark(n, f"here: {n:,}", f"{n} points, as here"),
        needed=needed_mark,
    )


def sizes_in_view(curves: Iterable[PowerCurve]) -> Ends:
    """The smallest and the largest size of any of these curves."""
    sizes = np.concatenate([curve.sizes for curve in curves])
    return float(sizes.min()), float(sizes.max())


# How far many samples are from one reference.


@dataclass(frozen=True)
class Distance:
    """How far one sample is from the reference of a comparison.

    Attributes
    ----------
    name, adjusted
        The name of the sample, and its p-value after the correction.
    value
        The MMD; for tests without one the AUC of their witness, or else their statistic.
    ends
        The interval that holds the MMD with a confidence of about 0.9, or the AUC with one of 0.95;
        None where there is no formula for it.
    """

    name: str
    adjusted: float
    value: float
    ends: Ends | None

    @property
    def tick(self) -> str:
        """The sample on the axis of a figure."""
        return f"{self.name} (p = {format_pvalue(self.adjusted)})"

    @property
    def in_words(self) -> str:
        """The sample, how far it is, and the interval."""
        text = f"{self.name} {self.value:.3g}"
        if self.ends is None:
            return text
        low, high = self.ends
        return f"{text} ({low:.3g} to {high:.3g})"

    def differs(self, alpha: float) -> bool:
        """Whether the sample is found to differ at level `alpha`."""
        return self.adjusted <= alpha


@dataclass(frozen=True)
class Distances:
    """How far each sample of a comparison is from the reference.

    Attributes
    ----------
    samples
        One distance for each sample, in the order of the comparison; never empty.
    effect
        What the distance is: "MMD", "AUC" or "statistic".
    alpha
        The level of the comparison. Samples that differ are drawn filled.
    """

    samples: Sequence[Distance]
    effect: str
    alpha: float

    @property
    def title(self) -> str:
        """What filled dots are."""
        return f"Filled: adjusted p at most {self.alpha:g}"

    @property
    def x_label(self) -> str:
        """The label of the axis."""
        if self.effect == "AUC":
            return "AUC against the reference; 0.5 is guessing"
        return f"{self.effect} from the reference"

    @property
    def origin(self) -> float:
        """Where a sample is that cannot be told from the reference."""
        return 0.5 if self.effect == "AUC" else 0.0

    @property
    def confidence(self) -> str:
        """How sure the intervals are, in words."""
        return "95 %" if self.effect == "AUC" else "about 90 %"

    @property
    def x_limits(self) -> Ends:
        """Ends between which the origin, all distances and their intervals are in view."""
        values = [self.origin]
        for distance in self.samples:
            values += [distance.value, *(distance.ends or ())]
        return min(values), 1.02 * max(values)

    @property
    def has_intervals(self) -> bool:
        """Whether any distance has an interval."""
        return any(distance.ends is not None for distance in self.samples)

    @property
    def alt(self) -> str:
        """The chart in words, for those who do not see it."""
        listed = "; ".join(distance.in_words for distance in self.samples)
        return f"{self.effect} of each sample from the reference: {listed}."


def distances_of(
    comparison: Comparison,
    explained: Mapping[str, TwoSampleResult] | None = None,
    adjusted: Mapping[str, float] | None = None,
) -> Distances:
    """How far each sample is from the reference.

    `explained` holds results of the same fitted tests on a part of the points, where an interval
    from all of them would take long; `adjusted` other p-values than those of the comparison.
    """
    if not len(comparison):
        raise InputError("no sample has been compared, so there is nothing to draw.")
    effect, values = effects(comparison)
    sources = explained or comparison
    samples = []
    adjusted = adjusted or comparison.adjusted
    aucs = {name: result.effect for name, result in comparison.items()}
    if effect == "statistic" and all(each.auc is not None for each in aucs.values()):
        # Statistics of different samples cannot be compared, and say little to anybody.
        for name, each in aucs.items():
            samples.append(Distance(name, adjusted[name], each.auc or 0.5, each.auc_interval))
        return Distances(samples, "AUC", comparison.alpha)
    for name, value in values.items():
        ends = _interval_of_mmd(comparison[name], sources.get(name))
        samples.append(Distance(name, adjusted[name], value, ends))
    return Distances(samples, effect, comparison.alpha)


def _interval_of_mmd(result: TwoSampleResult, explained: TwoSampleResult | None) -> Ends | None:
    """The interval of about 90 % for the MMD, from a normal law for its square."""
    if explained is None or result.effect.mmd is None:
        return None
    try:
        predicted = predict_power(explained)
    except (InputError, IncompatibleParts):
        return None  # the dot is drawn without its interval
    if not isinstance(predicted, PredictedPower):
        return None
    deviation = predicted.deviation(*result.sizes)
    half = NormalDist().inv_cdf(0.95) * deviation  # 5 % on either side
    # An estimate below 0 counts as 0: its interval must not shrink to nothing.
    mmd2 = max(0.0, result.statistic)
    low = math.sqrt(max(0.0, mmd2 - half))
    high = math.sqrt(mmd2 + half)
    return low, high


# Training.


@dataclass(frozen=True, eq=False)
class TrainingCurve:
    """The objective over the steps of training.

    Attributes
    ----------
    batches
        Its value on the batch of each step.
    validation
        Its value on the validation points; None where no points were set aside.
    held_out
        Its value on the held-out points, where the result knows it.
    kept
        The step whose parameters were kept; None where that is the last one.
    """

    batches: Series
    validation: Series | None
    held_out: float | None
    kept: Mark | None

    title = "Training"
    x_label = "step"
    y_label = "objective"

    @property
    def steps(self) -> int:
        """How many steps were taken."""
        return len(self.batches.x)

    @property
    def y_limits(self) -> Ends:
        """Ends between which all values are in view."""
        values = self.batches.y.tolist()
        if self.validation is not None:
            values += self.validation.y.tolist()
        if self.held_out is not None:
            values.append(self.held_out)
        low = min(values)
        high = max(values)
        return low, high + 0.04 * (high - low)  # the highest line stays whole

    @property
    def alt(self) -> str:
        """The chart in words, for those who do not see it."""
        values = self.batches.y
        return (
            f"The objective over {self.steps} training steps, from {values[0]:.3g} to "
            f"{values[-1]:.3g}."
        )


def training_of(result: TwoSampleResult) -> TrainingCurve:
    """The objective on the batches, on the validation points, and on the held-out points."""
    log = result.training
    if log is None or not log.objective:
        raise InputError(f"{result.method} took no training steps, so there is no curve to draw.")
    steps = np.arange(1, log.steps + 1, dtype=np.float64)
    objective = np.asarray(log.objective, dtype=np.float64)
    batches = Series("training batches", steps, objective)
    validation = None
    kept = None
    if log.validation:
        at, values = np.array(log.validation, dtype=np.float64).T  # from pairs of step and value
        validation = Series("validation", at, values)
        # Without validation the last step is kept, and there is nothing to point out.
        text = f"kept: step {log.best_step}"
        kept = Mark(log.best_step, text, text)
    return TrainingCurve(batches, validation, held_out_objective(result), kept)


def held_out_objective(result: TwoSampleResult) -> float | None:
    """The objective on the held-out points: J for tests that train for power, None for others."""
    fitted = result.fitted
    if fitted is None or fitted.spec.learning is None:
        return None
    # Only J is known on the held-out points; the result keeps no other objective.
    trains_for_power = isinstance(fitted.spec.learning.objective, PowerCriterion)
    return result.effect.criterion if trains_for_power else None
