"""Power: the chance of finding the difference that is there, and the points that takes.

`predict_power(result)` takes what a test saw on its held-out points, none of which trained the
kernel. For an MMD it asks the paper's formula, equation (3), about any other number of points. For
a test of views it plants the difference into the shuffles; see `prediction`.
`corollary_split` and `choose_split` divide points between training and test.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._calibration import Calibrated, null_threshold
from .._checks import check_alpha, check_share, check_whole
from .._data.embedding import embed_samples
from .._data.samples import Samples
from .._design import SIDE, Units, plural
from .._estimators import asymptotic_power, mmd2_biased, mmd2_unbiased, variance_terms
from .._kernels import Kernel
from .._products import block_sums, moments
from .._random import Generators, RNGLike, takes_rng
from .._resources import Resources
from .._result import ALPHA, TwoSampleResult
from .._statistics.mmd import PairSums
from .._threads import few_threads
from .._two_sample import FittedTest, TwoSampleTest
from ..errors import IncompatibleParts, InputError
from .prediction import PlantedPower, PowerPlan, too_few

_LEAST_POINTS = 4  # of each sample: an unbiased variance is an average over as many distinct points
_MOST_SHUFFLES = 999  # that a difference is planted into: more would make a power finer than 0.02
_MOST_UNITS = 5000  # whose matrix of kernel values takes 200 MB
_LEAST_PILOT = 40  # points of each sample from which a learning curve can be drawn
# Shares of the pilot to train on: steps of an octave, and one near its end.
_PILOT_SHARES = (0.125, 0.25, 0.5, 0.75)


class DetectableEffect(NamedTuple):
    """The smallest difference that a test finds with a wanted power."""

    mmd: float
    mmd2: float


@dataclass(frozen=True, eq=False)
class PredictedPower(PowerPlan):
    """The power of a fitted MMD test at any number of tested points.

    The prediction takes the estimate of MMD^2 at n and m points as normal around its mean, with the
    exact variance for these sizes. The test rejects where the estimate exceeds a threshold: that of
    the shuffles, scaled from the sizes at which they were drawn to n and m.

    Attributes
    ----------
    mmd2
        An unbiased estimate of MMD^2 on the held-out points; it may be negative.
    first_order
        Var_P(w) and Var_Q(w) of the witness w: the part of the variance that falls like 1 / n.
        These estimates are unbiased, so by chance they may lie below 0.
    second_order
        The part that falls like 1 / n^2: E[k^2] of the centred kernel for two points of X, for two
        points of Y, and for one of each.
    bias
        What a biased estimate adds to MMD^2, times the number of points of X and of Y. Zeros for
        the other estimators.
    null_distribution
        The statistic over shuffles.
    sizes
        The numbers of points of X and Y from which all this was estimated.
    estimator
        The estimator of the test: "unbiased", "biased" or "paired".
    share
        Its share of the level, where another test has the rest.
    unit
        What is counted: points, or the units that move together.
    """

    mmd2: float
    first_order: tuple[float, float]
    second_order: tuple[float, float, float]
    bias: tuple[float, float]
    null_distribution: NDArray[np.float64] = field(repr=False)
    sizes: tuple[int, int]
    estimator: str
    share: float = 1.0
    unit: str = "points"

    @property
    def standard_error(self) -> float:
        """The standard error of `mmd2`."""
        return self.deviation(*self.sizes)

    @property
    def criterion(self) -> float:
        """J of the paper with an unbiased variance; infinite if the variance comes out as 0."""
        n, m = self.sizes
        first = max(0.0, self._first(n, m))
        # The paper has one size for both samples; for two, that is their harmonic mean.
        sigma = math.sqrt(first * 2 * n * m / (n + m))
        if sigma == 0:
            return math.copysign(math.inf, self.mmd2)
        return self.mmd2 / sigma

    def deviation(self, n: int, m: int | None = None) -> float:
        """The standard deviation of the statistic at n points of X and m of Y (n if None)."""
        n, m = self._sizes(n, m)
        of_xx, of_yy, of_xy = self._weights(n, m)
        xx, yy, xy = self.second_order
        first = self._first(n, m)
        second = math.fsum([of_xx * xx, of_yy * yy, of_xy * xy])
        # Neither part of a variance is below 0, whatever its estimate.
        variance = max(0.0, first) + max(0.0, second)
        return math.sqrt(variance)

    def threshold(self, n: int, m: int | None = None, alpha: float = ALPHA) -> float:
        """The value that the statistic must exceed at n points of X and m of Y (n if None)."""
        check_alpha(alpha)
        n, m = self._sizes(n, m)
        level = alpha * self.share
        at_our_sizes = null_threshold(self.null_distribution, level)
        if at_our_sizes is None:
            raise too_few(len(self.null_distribution), level)
        # Without a difference the whole distribution shrinks with the sizes, its quantiles too.
        our_n, our_m = self.sizes
        return at_our_sizes * self._scale(n, m) / self._scale(our_n, our_m)

    def power(self, n: int, m: int | None = None, alpha: float = ALPHA) -> float:
        """The predicted chance that p <= alpha, with n points of X and m of Y (n if None) tested.

        Points that train the kernel come on top. The kernel is the one that was fitted: more
        training points would make a better one.
        """
        n, m = self._sizes(n, m)
        here = self._at(self.mmd2)  # a negative estimate counts as no difference
        mean = here.mmd2 + here._bias(n, m)
        deviation = here.deviation(n, m)
        threshold = self.threshold(n, m, alpha)
        return asymptotic_power(mean, deviation, threshold)

    def smallest_effect(
        self, n: int, m: int | None = None, *, power: float = 0.9, alpha: float = ALPHA
    ) -> DetectableEffect:
        """The smallest MMD, by this kernel, that n and m points show with a wanted power.

        The variance is that of the difference at hand. For a smaller difference its first order
        shrinks with MMD^2.
        """
        check_share("power", power)
        n, m = self._sizes(n, m)
        threshold = self.threshold(n, m, alpha)
        least = threshold - self._bias(n, m)
        z = NormalDist().inv_cdf(power)
        mmd2 = least + z * self.deviation(n, m)
        if mmd2 < self.mmd2 and self.mmd2 > 0:
            # mmd2 = least + z sqrt(slope mmd2 + second) is quadratic in mmd2. The larger root is
            # the answer for z > 0, that is for a power above one half, the smaller one below.
            slope = max(0.0, self._first(n, m)) / self.mmd2
            second = self._at(0.0).deviation(n, m) ** 2
            middle = least + z * z * slope / 2
            discriminant = middle**2 - least**2 + z * z * second
            root = math.sqrt(max(0.0, discriminant))
            mmd2 = middle + math.copysign(root, z)
        mmd2 = max(0.0, mmd2)
        return DetectableEffect(math.sqrt(mmd2), mmd2)

    @property
    def no_difference(self) -> str | None:
        if self.mmd2 > 0:
            return None
        return f"the estimated MMD^2 is {self.mmd2:.2g}, not above 0"

    def smallest_sentence(self, n: int, m: int, power: float, alpha: float) -> str:
        smallest = self.smallest_effect(n, m, power=power, alpha=alpha).mmd
        mmd = math.sqrt(max(0.0, self.mmd2))
        return (
            f"The smallest MMD found with power {power:g} on {n} + {m} rows is {smallest:.3g}; "
            f"here it is {mmd:.3g}."
        )

    def _difference(self, n: int, m: int, power: float, alpha: float) -> dict[str, Any]:
        effect = self.smallest_effect(n, m, power=power, alpha=alpha)
        return {
            "mmd2": self.mmd2,
            "standard_error": self.standard_error,
            "smallest_mmd": effect.mmd,
            "smallest_mmd2": effect.mmd2,
        }

    def _sizes(self, n: int, m: int | None) -> tuple[int, int]:
        """Both sizes, checked."""
        n, m = super()._sizes(n, m)
        if self.estimator == "paired" and n != m:
            raise InputError(f"MMD('paired') needs samples of one size, not {n} and {m}.")
        return n, m

    def _bias(self, n: int, m: int) -> float:
        """By how much the estimate exceeds MMD^2 in the mean."""
        of_x, of_y = self.bias
        return of_x / n + of_y / m

    def _first(self, n: int, m: int) -> float:
        """The first order of the variance."""
        of_x, of_y = self.first_order
        return 4 * of_x / n + 4 * of_y / m

    def _weights(self, n: int, m: int) -> tuple[float, float, float]:
        """The weights of `second_order` in the variance of the statistic."""
        # A mean over distinct terms: its variance falls with their number. Pairs within a sample
        # come twice, as (i, j) and (j, i). Those between samples have the factor 2 in MMD^2.
        pairs_x = n * (n - 1)
        pairs_y = m * (m - 1)
        pairs_xy = n * m
        if self.estimator == "biased":  # up to terms in 1 / n^3
            pairs_x = n**2
            pairs_y = m**2
        elif self.estimator == "paired":  # no k(X_i, Y_i)
            pairs_xy = n * (n - 1)
        return 2 / pairs_x, 2 / pairs_y, 4 / pairs_xy

    def _scale(self, n: int, m: int) -> float:
        """How wide the null distribution is, up to a factor that does not depend on the sizes.

        When P = Q, all of `second_order` are one number. For large samples, and for the biased
        estimate, the width is sqrt(2) (1 / n + 1 / m).
        """
        weights = self._weights(n, m)
        return math.sqrt(math.fsum(weights))

    def _ends(self, confidence_level: float) -> tuple[PredictedPower, PredictedPower]:
        """The same with MMD^2 at either end of its interval."""
        check_share("confidence_level", confidence_level)
        # Half of what is left out lies on either side.
        deviations = NormalDist().inv_cdf(0.5 + confidence_level / 2)
        width = deviations * self.standard_error
        low = self._at(self.mmd2 - width)
        high = self._at(self.mmd2 + width)
        return low, high

    def _at(self, mmd2: float) -> PredictedPower:
        """The same for another MMD^2; 0 for one below 0.

        Without a difference the witness is 0, and so is the first order of the variance. A
        difference e times as large has e^2 times the MMD^2 and e^2 times the variance of the
        witness: it is there when a share e of the points of Q are as they are here, and the others
        are points of P. Upwards the first order is kept as it is: a ratio to an MMD^2 near 0 is
        noise.
        """
        mmd2 = max(0.0, mmd2)
        if self.mmd2 > 0:
            factor = min(1.0, mmd2 / self.mmd2)
        else:
            factor = 1.0 if mmd2 > 0 else 0.0
        of_x, of_y = self.first_order
        first_order = (factor * of_x, factor * of_y)
        return dataclasses.replace(self, mmd2=mmd2, first_order=first_order)


@few_threads
def predict_power(result: TwoSampleResult) -> PowerPlan:
    """From the result of a test, predict its power at any number of tested points.

    Tests of views, such as `spectral` and `auto`, give a `PlantedPower`: the difference that they
    saw is planted into their shuffles. Tests of an MMD give a `PredictedPower`. MMD^2 and its
    variance come from the held-out points, which had no part in training, so they are not
    flattered. One more pass over the kernel matrix gives the variance without bias.

    Where groups or blocks move together, the answer is in groups or blocks: two units are compared
    by the mean of the kernel over their rows. Each is taken to have as many rows as here. Of pairs
    it is in pairs, and within strata in rows or groups, with strata in the shares that they have
    here; see `in_strata`.

    Examples
    --------
    >>> import numpy as np, twosample
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(0, 1, (200, 2)), rng.normal(0.3, 1, (200, 2))
    >>> plan = twosample.predict_power(twosample.two_sample_test(X, Y, "mmd-median", rng=0))
    >>> plan.power(50) < plan.power(100) < 0.9 <= plan.power(plan.samples_needed(0.9))
    True
    """
    planted = _planted(result)
    if planted is not None:
        return planted
    return _by_formula(result)


def _planted(result: TwoSampleResult) -> PlantedPower | None:
    """The prediction of a test that can plant a difference into its shuffles."""
    fitted = result.fitted
    calibrated = result.calibrated
    if fitted is None or calibrated is None:
        return None
    some = calibrated.shuffles.first(_MOST_SHUFFLES + 1)
    if len(some) < 2:
        return None
    # The first is the observed order.
    planted = fitted.spec.statistic.planted(calibrated.prepared, some[1:])
    if planted is None:
        return None
    units = calibrated.units
    if units is None:
        return PlantedPower.of(planted, result.sizes, result.follow_up)
    of_x, of_y = units.in_cells()
    if len(of_x) == 1:
        return PlantedPower.of(planted, units.counts, None, _unit_of(units))
    # Cells of one sample have no part in the comparison.
    both = [(x, y) for x, y in zip(of_x.tolist(), of_y.tolist(), strict=True) if x and y]
    sizes = (sum(x for x, _ in both), sum(y for _, y in both))
    return PlantedPower.of(planted, sizes, None, _unit_of(units), tuple(both))


def _by_formula(result: TwoSampleResult) -> PredictedPower:
    """The prediction of an MMD test."""
    fitted = result.fitted
    samples = result.samples
    if fitted is None or samples is None:
        raise InputError(
            "this result has lost its fitted test or its points, or never had them: a test of "
            "streams keeps no rows. Test a part of them that fits in memory, and take the result "
            "as `two_sample_test` returns it."
        )
    estimator = fitted.spec.statistic.pair_estimator
    if estimator is None:
        raise IncompatibleParts(
            "the formula for power is that of a two-sided MMD over all pairs, not of "
            f"{fitted.spec.statistic!r}. Use a test with MMD('unbiased'), such as mmd-d."
        )
    if len(result.null_distribution) == 0:
        raise IncompatibleParts(
            f"the threshold comes from shuffles, of which {fitted.spec.calibration!r} makes none. "
            "Use Permutation()."
        )
    units = samples.units
    n, m = result.units or result.sizes
    if min(n, m) < _LEAST_POINTS:
        raise InputError(
            f"{n} and {m} {_unit_of(units)} were tested; the variance of MMD^2 takes at least "
            f"{_LEAST_POINTS} of each sample."
        )
    null = np.asarray(result.null_distribution, dtype=np.float64)
    if units is None:
        sums, squares, own = _kernel_moments(fitted, samples)
    else:
        (sums, squares, own), null = _unit_moments(result, fitted, samples, units)
    at_x = sums[:n]  # (n, 2): for each point of X its sums with X and with Y
    at_y = sums[n:]  # (m, 2)
    xx = at_x[:, 0].sum()
    xy = at_x[:, 1].sum()
    yy = at_y[:, 1].sum()
    terms = variance_terms(at_x, at_y, squares)
    bias = (0.0, 0.0)
    if estimator == "biased":
        # It has k(z, z) for every point where the unbiased one has the mean of k(z, z').
        mean_xx = xx / (n * (n - 1))
        mean_yy = yy / (m * (m - 1))
        of_x = float(own[:n].mean() - mean_xx)
        of_y = float(own[n:].mean() - mean_yy)
        bias = (of_x, of_y)
    return PredictedPower(
        mmd2=float(mmd2_unbiased(xx, yy, xy, n, m)),
        first_order=(float(terms.x), float(terms.y)),
        second_order=(float(terms.xx), float(terms.yy), float(terms.xy)),
        bias=bias,
        null_distribution=null,
        sizes=(n, m),
        estimator=estimator,
        share=result.share,
        unit=_unit_of(units),
    )


def _unit_of(units: Units | None) -> str:
    """What the test moved, in the plural."""
    if units is None:
        return "points"
    return plural(units.cell if units.unit == SIDE else units.unit)


class _Moments(NamedTuple):
    sums: Tensor
    squares: Tensor
    own: Tensor


def _kernel_moments(fitted: FittedTest, samples: Samples) -> _Moments:
    """What the estimates need of the kernel matrix.

    For each point the sums of k with the other points of X and of Y, (N, 2); the sums of k^2 over
    pairs within and between the samples, (2, 2); and k(z, z), (N,).
    """
    kernel = cast(Kernel, fitted.representation)  # an MMD sees points through nothing else
    n, m = samples.sizes
    is_y = torch.arange(n + m) >= n
    memory = fitted.spec.memory
    with torch.no_grad():
        generator = Generators(0).torch("power")  # in which batches the points are embedded
        z = embed_samples(samples, kernel.embed, generator, Resources(memory)).parts
        sums, squares = moments(kernel, z, is_y.long(), memory=memory)
        own = kernel.pairs(z, z)
    # The variance is a small difference of large sums, which single precision would lose.
    return _Moments(
        sums=sums.double().cpu(),
        squares=squares.double().cpu(),
        own=own.double().cpu(),
    )


def _unit_moments(
    result: TwoSampleResult, fitted: FittedTest, samples: Samples, units: Units
) -> tuple[_Moments, NDArray[np.float64]]:
    """As `_kernel_moments` for units, and the statistic of units over the shuffles.

    Two units are compared by the mean of the kernel over their rows: a unit is a point then.
    """
    count = len(units.cells)
    if count > _MOST_UNITS:
        raise InputError(
            f"{count:,} units were tested; power is predicted from a matrix of units, of which "
            f"there may be {_MOST_UNITS:,}. Test fewer."
        )
    kernel = cast(Kernel, fitted.representation)
    memory = fitted.spec.memory
    of_rows = torch.cat([units.of_x, units.of_y])
    with torch.no_grad():
        generator = Generators(0).torch("power")
        z = embed_samples(samples, kernel.embed, generator, Resources(memory)).parts
        sums = block_sums(kernel, kernel.centred(z), of_rows, memory=memory)
    rows = units.rows.double()
    K = sums.double().cpu() / rows[:, None] / rows  # (units, units)
    own = K.diagonal().clone()
    K.fill_diagonal_(0)
    n, _ = units.counts
    is_x = torch.arange(count) < n
    member = torch.stack([is_x, ~is_x], 1).double()
    squares = member.T @ K.square() @ member
    moments_of_units = _Moments(sums=K @ member, squares=squares, own=own)
    return moments_of_units, _null_of_units(result, units, PairSums(K), own)


def _null_of_units(
    result: TwoSampleResult, units: Units, sums: PairSums, own: Tensor
) -> NDArray[np.float64]:
    """The statistic over the shuffles of the test, with units as points."""
    calibrated = cast("Calibrated", result.calibrated)
    fitted = cast("FittedTest", result.fitted)
    bins = calibrated.prepared.bins
    bin_of = torch.empty(len(units.cells), dtype=torch.int64)
    bin_of[units.of_x] = bins.of_x
    bin_of[units.of_y] = bins.of_y
    n, m = units.counts
    values = []
    for part in calibrated.shuffles.within(fitted.spec.memory):
        in_x = bins.in_x(part)[:, bin_of]
        xx, yy, xy = sums.of_pairs(in_x)
        if fitted.spec.statistic.pair_estimator == "biased":
            of_x = in_x @ own
            values.append(mmd2_biased(xx + of_x, yy + own.sum() - of_x, xy, n, m))
        else:
            values.append(mmd2_unbiased(xx, yy, xy, n, m))
    return torch.cat(values)[1:].numpy()


# How to split.


def corollary_split(total: int, *, half_at: int = 1000) -> int:
    """How many of `total` points of each sample to train on, by the rate of the paper's corollary.

    For large N, (C / (sqrt(3) J*) N sqrt(log N))^(3/4) training points maximise the paper's bound
    on the power: a share that falls about as N^(-1/4). The constant depends on the data and is not
    known: `half_at` sets it, as the number of points at which half of them train. Below it the rate
    says more than half. `choose_split` asks the data instead.

    Examples
    --------
    >>> [corollary_split(total) for total in (1000, 10_000, 100_000)]
    [500, 3132, 19150]
    """
    check_whole("total", total, 2 * _LEAST_POINTS)
    check_whole("half_at", half_at, 2 * _LEAST_POINTS)

    def rate(count: int) -> float:
        growth = count * math.sqrt(math.log(count))
        return float(growth**0.75)

    at_half = half_at / 2
    wanted = round(at_half * rate(total) / rate(half_at))
    # Either part needs enough points for a variance.
    return min(max(wanted, _LEAST_POINTS), total - _LEAST_POINTS)


class SplitRow(NamedTuple):
    """What is predicted for one way of splitting."""

    fraction: float
    train: int  # points of each sample
    tested: int
    criterion: float  # J of a kernel trained on so many points
    power: float


@dataclass(frozen=True)
class SplitChoice:
    """How to divide points between training and test, and what that is based on.

    Attributes
    ----------
    fraction
        The share to train on. It is the one with the largest predicted power, or the one nearest to
        a half if the advantage of the best is within the error of the prediction.
    rows
        The prediction for each share.
    flat
        Whether the advantage of the best share was within the error.
    limit, loss
        The curve that was fitted: J of a kernel trained on t points is
        limit - loss t^(-1/3) sqrt(log t).
    pilot
        What it was fitted to: for each number of training points, that number, J on the other
        points of the pilot, and its standard error.
    """

    fraction: float
    rows: tuple[SplitRow, ...]
    flat: bool
    limit: float
    loss: float
    pilot: tuple[tuple[float, float, float], ...]

    def __str__(self) -> str:
        fractions = [row.fraction for row in self.rows]
        chosen = self.rows[fractions.index(self.fraction)]
        why = "; others are no better within the error of the prediction" if self.flat else ""
        return (
            f"Train on {self.fraction:g} of the points ({chosen.train} of each sample) and test "
            f"{chosen.tested}: predicted power {chosen.power:.2f}{why}."
        )


@takes_rng
def choose_split(
    test: TwoSampleTest,
    X: Any,
    Y: Any,
    *,
    total: int | None = None,
    fractions: Sequence[float] = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8),
    alpha: float = ALPHA,
    repeats: int = 2,
    rng: RNGLike | None = None,
    device: str = "auto",
    progress: bool | None = False,
) -> SplitChoice:
    """Choose the share of points to train on, by predicted power on a pilot.

    X and Y are pilot data, all of which count as training data from now on: **none of these points
    may be tested**, or the p-value would no longer be exact. Usually they are the training half of
    the data at hand.

    The test's kernel is trained on several parts of the pilot. Each time J is estimated on the
    other points of the pilot. The curve of J against training points is then fitted with the rate
    of the paper's theorem. The power of a share f of `total` is that of a kernel that is trained on
    f `total` points and tested on the others.

    Parameters
    ----------
    test
        A test with training.
    X, Y
        The pilot, of at least 40 points each.
    total
        Points of each sample to divide; None means as many as the smaller of X and Y.
    fractions
        The shares to choose from.
    alpha
        The level of the test to come.
    repeats
        Trainings for each number of points.
    rng, device, progress
        As in `TwoSampleTest.run`.
    """
    if test.learning is None:
        raise IncompatibleParts(
            f"{test.name} does not train, so there is nothing to split. Test all points."
        )
    check_whole("repeats", repeats, 1)
    if not fractions:
        raise InputError(
            "there are no fractions to choose from; give some, such as (0.3, 0.5, 0.7)."
        )
    for fraction in fractions:
        check_share("a fraction", fraction)
    n = len(X)
    m = len(Y)
    size = min(n, m)
    if size < _LEAST_PILOT:
        raise InputError(
            f"the pilot has {n} and {m} points; it takes at least {_LEAST_PILOT} of each sample."
        )
    total = size if total is None else total
    check_whole("total", total, 2 * _LEAST_POINTS)
    generators = Generators(rng)
    sizes: list[float] = []
    predictions: list[list[PredictedPower]] = []
    for share in _PILOT_SHARES:
        learning = dataclasses.replace(test.learning, train_fraction=share)
        part = dataclasses.replace(test, learning=learning)
        plans = []
        for repeat in range(repeats):
            draws = generators.numpy(f"pilot {share} {repeat}")
            result = part.run(X, Y, rng=draws, device=device, progress=progress)
            plans.append(_by_formula(result))
        a, b = result.train_sizes or (0, 0)
        sizes.append(2 * a * b / (a + b))  # the harmonic mean: what counts with unequal sizes
        predictions.append(plans)
    return _choose(sizes, predictions, int(total), sorted(fractions), alpha)


def _choose(
    sizes: Sequence[float],
    predictions: Sequence[Sequence[PredictedPower]],
    total: int,
    fractions: Sequence[float],
    alpha: float,
) -> SplitChoice:
    """The best of `fractions`, from predictions with kernels trained on `sizes` points."""
    # Through its second order J depends a little on how many are tested; half is the usual share.
    tested_half = max(2, total // 2)
    values, errors = _criteria(predictions, tested_half)
    limit, loss, covariance = fit_learning_curve(sizes, values, errors)
    all_plans = list(itertools.chain.from_iterable(predictions))
    rows = []
    scores = []
    gradients = []  # of the scores, in limit and loss
    for fraction in fractions:
        wanted = round(fraction * total)
        train = min(max(wanted, 2), total - 2)  # either part needs two points for a variance
        tested = total - train
        root = math.sqrt(tested)
        rate = _rate(train)
        criterion = limit - loss * rate
        # Equation (3): the estimate lies sqrt(tested) J deviations above its mean without a
        # difference, and the threshold so many as the ratio says.
        score = root * criterion - _mean_ratio(all_plans, tested, alpha)
        scores.append(score)
        gradients.append(root * np.array([1.0, -rate]))
        row = SplitRow(
            fraction=fraction,
            train=train,
            tested=tested,
            criterion=criterion,
            power=NormalDist().cdf(score),
        )
        rows.append(row)
    best = int(np.argmax(scores))
    from_half = [abs(fraction - 0.5) for fraction in fractions]
    half = int(np.argmin(from_half))
    direction = gradients[best] - gradients[half]
    variance = float(direction @ covariance @ direction)
    error = math.sqrt(variance)
    # A half is the usual choice; only an advantage that is no error speaks against it.
    advantage = scores[best] - scores[half]
    flat = best != half and advantage <= error
    chosen = half if flat else best
    return SplitChoice(
        fraction=fractions[chosen],
        rows=tuple(rows),
        flat=flat,
        limit=limit,
        loss=loss,
        pilot=tuple(zip(sizes, values, errors, strict=True)),
    )


def _criteria(
    predictions: Sequence[Sequence[PredictedPower]], tested: int
) -> tuple[list[float], list[float]]:
    """J at so many tested points for each number of training points, and its standard error."""
    values = []
    errors = []
    for plans in predictions:
        criteria = []
        standard_errors = []
        for plan in plans:
            sigma = math.sqrt(tested) * plan.deviation(tested)
            criteria.append(plan.mmd2 / sigma)
            standard_errors.append(plan.standard_error / sigma)
        values.append(math.fsum(criteria) / len(plans))
        # Repeats share the points of the pilot: together they are taken to know no more than one
        # of them.
        errors.append(math.fsum(standard_errors) / len(plans))
    return values, errors


def _mean_ratio(plans: Sequence[PredictedPower], n: int, alpha: float) -> float:
    """How many standard deviations the threshold lies above the mean without a difference.

    The mean over all kernels, since any one of them has few shuffles.
    """
    ratios = []
    for plan in plans:
        threshold = plan.threshold(n, n, alpha)
        above = threshold - plan._bias(n, n)
        ratios.append(above / plan.deviation(n, n))
    return math.fsum(ratios) / len(ratios)


def fit_learning_curve(
    sizes: Sequence[float], values: Sequence[float], errors: Sequence[float]
) -> tuple[float, float, NDArray[np.float64]]:
    """Fit J(t) = limit - loss t^(-1/3) sqrt(log t) with loss >= 0, by weighted least squares.

    Returns
    -------
    tuple
        limit, loss, and their (2, 2) covariance as if loss were free: that more training has not
        helped on the pilot does not make it certain that it never will.
    """
    design = np.array([[1.0, -_rate(size)] for size in sizes])  # (sizes, 2)
    positive = np.maximum(errors, 1e-12)  # an error of 0 would weigh infinitely
    weights = 1 / np.square(positive)
    information = design.T @ (weights[:, None] * design)  # (2, 2)
    covariance = np.linalg.inv(information)
    weighted = weights * np.asarray(values)
    limit, loss = covariance @ (design.T @ weighted)
    if loss < 0:  # a kernel does not get worse by training
        limit = np.average(values, weights=weights)
        loss = 0.0
    return float(limit), float(loss), covariance


def _rate(size: float) -> float:
    """t^(-1/3) sqrt(log t): the rate at which J of a trained kernel comes near its best.

    It falls from 5 points on.
    """
    falling = size ** (-1 / 3)
    return float(falling * math.sqrt(math.log(size)))
