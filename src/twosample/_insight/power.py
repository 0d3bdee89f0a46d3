"""Power: the chance of finding the difference that is there, the points it takes, and how to divide them.

`predict_power(result)` takes what a test saw on its held-out points, none of which trained the
kernel, and asks the paper's formula, equation (3), about any other number of points.
`corollary_split` and `choose_split` divide points between training and test.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral
from statistics import NormalDist
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray

from .._data.embedding import embed_samples
from .._estimators import asymptotic_power, mmd2_unbiased, variance_terms
from .._kernels import Kernel
from .._products import moments
from .._random import Generators, RNGLike
from .._resources import Resources
from .._result import ALPHA, TwoSampleResult
from .._statistics import MMD
from .._two_sample import TwoSampleTest
from ..errors import IncompatibleParts, InputError

_LEAST_POINTS = 4  # of each sample: an unbiased variance is an average over as many distinct points
_MOST_POINTS = 2**53  # no plan asks for more
_LEAST_PILOT = 40  # points of each sample from which a learning curve can be drawn
_PILOT_SHARES = (
    0.125,
    0.25,
    0.5,
    0.75,
)  # of the pilot to train on: steps of an octave, and one near its end


class DetectableEffect(NamedTuple):
    """The smallest difference that a test finds with a wanted power."""

    mmd: float
    mmd2: float


@dataclass(frozen=True, eq=False)
class PredictedPower:
    """The power of a fitted test at any number of tested points.

    The estimate of MMD^2 at n and m points is taken to be normal around its mean, with the variance
    that it has at n and m exactly, and to be compared with the threshold of the shuffles, scaled
    from the sizes they were drawn at.

    Attributes
    ----------
    mmd2
        MMD^2 on the held-out points without bias; it may be negative.
    first_order
        Var_P(w) and Var_Q(w) of the witness w: what falls like 1 / n in the variance. Without bias,
        so below 0 by chance.
    second_order
        What falls like 1 / n^2: E[k^2] of the centred kernel for two points of X, two of Y, one of
        each.
    bias
        What a biased estimate adds to MMD^2, times the points of X and of Y; zeros for the others.
    null_distribution
        The statistic over shuffles.
    sizes
        How many points these were taken from.
    estimator
        Of the test: "unbiased", "biased" or "paired".
    """

    mmd2: float
    first_order: tuple[float, float]
    second_order: tuple[float, float, float]
    bias: tuple[float, float]
    null_distribution: NDArray[np.float64] = field(repr=False)
    sizes: tuple[int, int]
    estimator: str

    @property
    def standard_error(self) -> float:
        """Of `mmd2`."""
        return self.deviation(*self.sizes)

    @property
    def criterion(self) -> float:
        """J of the paper without bias in its variance; infinite if that comes out as 0."""
        n, m = self.sizes
        sigma = math.sqrt(max(0.0, self._first(n, m)) * 2 * n * m / (n + m))
        return self.mmd2 / sigma if sigma else math.copysign(math.inf, self.mmd2)

    def deviation(self, n: int, m: int | None = None) -> float:
        """The standard deviation of the statistic at n points of X and m of Y: both terms, neither below 0."""
        n, m = self._sizes(n, m)
        second = math.fsum(
            w * v for w, v in zip(self._weights(n, m), self.second_order, strict=True)
        )
        return math.sqrt(max(0.0, self._first(n, m)) + max(0.0, second))

    def threshold(self, n: int, m: int | None = None, alpha: float = ALPHA) -> float:
        """The value that the statistic must exceed at n and m points, from that of the shuffles at `sizes`."""
        _check_share("alpha", alpha)
        n, m = self._sizes(n, m)
        draws = len(self.null_distribution)
        # p <= alpha means that fewer than this many shuffles reach the observed value.
        rank = math.floor(alpha * (draws + 1) + 1e-9)
        if rank < 1:
            raise InputError(
                f"with {draws} shuffles no p-value is below {1 / (draws + 1):.2g}, so the power at "
                f"alpha = {alpha:g} "
                f"is 0; use permutations={math.ceil(1 / alpha) - 1} or more."
            )
        value = float(np.partition(self.null_distribution, draws - rank)[draws - rank])
        return value * self._scale(n, m) / self._scale(*self.sizes)

    def power(self, n: int, m: int | None = None, alpha: float = ALPHA) -> float:
        """The predicted chance that p <= alpha when n points of X and m of Y (n if None) are tested.

        Points that train the kernel come on top. The kernel is the one that was fitted: more
        training points would make a better one.
        """
        n, m = self._sizes(n, m)
        here = self._at(self.mmd2)
        return asymptotic_power(
            here.mmd2 + here._bias(n, m), here.deviation(n, m), self.threshold(n, m, alpha)
        )

    def power_interval(
        self, n: int, m: int | None = None, alpha: float = ALPHA, *, confidence: float = 0.9
    ) -> tuple[float, float]:
        """Where the power lies with this confidence, given that MMD^2 is itself an estimate.

        From the held-out points of one test it is wide: power 0.5 at the sizes of that test means
        that the estimate is one that chance moves by more than it takes to go to 0.1 or 0.9.
        """
        low, high = self._ends(confidence)
        return low.power(n, m, alpha), high.power(n, m, alpha)

    def samples_needed(
        self, power: float = 0.9, alpha: float = ALPHA, *, ratio: float = 1.0
    ) -> int | None:
        """The smallest number of points of X to test, with `ratio` times as many of Y, for a wanted power.

        None if the estimated MMD^2 is not positive: then no number of points is known to be enough.
        """
        _check_share("power", power)
        if not 0 < ratio < math.inf:
            raise InputError(f"ratio is {ratio}; it must be a positive number, such as 1.")

        def enough(n: int) -> bool:
            return self.power(n, max(2, round(n * ratio)), alpha) >= power

        high = 2
        while not enough(high):
            high *= 2
            if self.mmd2 <= 0 or high > _MOST_POINTS:
                return None
        low = high // 2  # not enough, or 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high

    def samples_interval(
        self,
        power: float = 0.9,
        alpha: float = ALPHA,
        *,
        ratio: float = 1.0,
        confidence: float = 0.9,
    ) -> tuple[int | None, int | None]:
        """Where `samples_needed` lies with this confidence; None for an end that no number of points is known for."""
        low, high = self._ends(confidence)
        return high.samples_needed(power, alpha, ratio=ratio), low.samples_needed(
            power, alpha, ratio=ratio
        )

    def smallest_effect(
        self, n: int, m: int | None = None, *, power: float = 0.9, alpha: float = ALPHA
    ) -> DetectableEffect:
        """The smallest MMD, by this kernel, that a test on n and m points finds with a wanted power.

        The variance is that of the difference at hand; for a smaller one its first order shrinks
        with MMD^2.
        """
        _check_share("power", power)
        n, m = self._sizes(n, m)
        least, z = self.threshold(n, m, alpha) - self._bias(n, m), NormalDist().inv_cdf(power)
        mmd2 = least + z * self.deviation(n, m)
        if mmd2 < self.mmd2 and self.mmd2 > 0:
            # mmd2 = least + z sqrt(slope mmd2 + second), which is quadratic
            slope, second = (
                max(0.0, self._first(n, m)) / self.mmd2,
                self._at(0.0).deviation(n, m) ** 2,
            )
            middle = least + z * z * slope / 2
            mmd2 = middle + math.copysign(
                math.sqrt(max(0.0, middle**2 - least**2 + z * z * second)), z
            )
        mmd2 = max(0.0, mmd2)
        return DetectableEffect(math.sqrt(mmd2), mmd2)

    def __str__(self) -> str:
        n, m = self.sizes
        low, high = self.power_interval(n, m)
        now = f"Power {self.power(n, m):.2f} ({low:.2f} to {high:.2f}) on {n} + {m} points at alpha = {ALPHA:g}"
        needed = self.samples_needed()
        if needed is None:
            return f"{now}; the estimated MMD^2 is {self.mmd2:.2g}, so no number of points is known to be enough."
        return f"{now}; {needed} of each sample would have power 0.9."

    def _sizes(self, n: int, m: int | None) -> tuple[int, int]:
        m = n if m is None else m
        for name, value in (("n", n), ("m", m)):
            if not isinstance(value, Integral) or value < 2:
                raise InputError(f"{name} is {value!r}; it must be a whole number of at least 2.")
        if self.estimator == "paired" and n != m:
            raise InputError(f"MMD('paired') needs samples of one size, not {n} and {m}.")
        return int(n), int(m)

    def _bias(self, n: int, m: int) -> float:
        return self.bias[0] / n + self.bias[1] / m

    def _first(self, n: int, m: int) -> float:
        return 4 * self.first_order[0] / n + 4 * self.first_order[1] / m

    def _weights(self, n: int, m: int) -> tuple[float, float, float]:
        """What `second_order` counts with in the variance of the statistic."""
        if self.estimator == "biased":
            return 2 / n**2, 2 / m**2, 4 / (n * m)  # up to terms in 1 / n^3
        if self.estimator == "paired":  # no k(X_i, Y_i)
            return 2 / (n * (n - 1)), 2 / (m * (m - 1)), 4 / (n * (n - 1))
        return 2 / (n * (n - 1)), 2 / (m * (m - 1)), 4 / (n * m)

    def _scale(self, n: int, m: int) -> float:
        """The null distribution is as wide as this, up to a factor: when P = Q, all of `second_order` are one number.

        For large samples and for the biased estimate it is sqrt(2) (1 / n + 1 / m).
        """
        return math.sqrt(math.fsum(self._weights(n, m)))

    def _ends(self, confidence: float) -> tuple[PredictedPower, PredictedPower]:
        """The same with MMD^2 at either end of its interval."""
        _check_share("confidence", confidence)
        width = NormalDist().inv_cdf(0.5 + confidence / 2) * self.standard_error
        return self._at(self.mmd2 - width), self._at(self.mmd2 + width)

    def _at(self, mmd2: float) -> PredictedPower:
        """The same for another MMD^2; 0 for one below 0.

        Without a difference the witness is 0 and so is the first order of the variance. A
        difference e times as large, as when a part e of the points of Q are as they are here and
        the others are of P, has e^2 times the MMD^2 and e^2 times the variance of the witness.
        Upwards that one is kept as it is: a ratio to an MMD^2 near 0 is noise.
        """
        mmd2 = max(0.0, mmd2)
        factor = min(1.0, mmd2 / self.mmd2) if self.mmd2 > 0 else float(mmd2 > 0)
        x, y = self.first_order
        return dataclasses.replace(self, mmd2=mmd2, first_order=(factor * x, factor * y))


def predict_power(result: TwoSampleResult) -> PredictedPower:
    """From the result of an MMD test, its power at any number of tested points.

    MMD^2 and its variance come from the held-out points, which had no part in training, so they are
    not flattered; one more pass over the kernel matrix gives the variance without bias.

    Examples
    --------
    >>> import numpy as np, twosample
    >>> from twosample._insight.power import predict_power
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(0, 1, (200, 2)), rng.normal(0.3, 1, (200, 2))
    >>> plan = predict_power(twosample.two_sample_test(X, Y, "mmd-median", rng=0))
    >>> plan.power(50) < plan.power(100) < 0.9 <= plan.power(plan.samples_needed(0.9))
    True
    """
    fitted, samples = result.fitted, result.samples
    if fitted is None or samples is None:
        raise InputError(
            "this result has lost its fitted test or its points, or never had them: a test of "
            "streams keeps no rows. "
            "Test a part of them that fits in memory, and take the result as `two_sample_test` "
            "returns it."
        )
    kernel = cast(Kernel, fitted.representation)
    statistic = fitted.spec.statistic
    if not isinstance(statistic, MMD) or not statistic.sums_all_pairs:
        raise IncompatibleParts(
            "the formula for power is that of a two-sided MMD over all pairs, not of "
            f"{statistic!r}. Use a test with "
            "MMD('unbiased'), such as mmd-d."
        )
    if len(result.null_distribution) == 0:
        raise IncompatibleParts(
            f"the threshold comes from shuffles, of which {fitted.spec.calibration!r} makes none. "
            "Use Permutation()."
        )
    n, m = result.sizes
    if min(n, m) < _LEAST_POINTS:
        raise InputError(
            f"{n} and {m} points were tested; the variance of MMD^2 takes at least {_LEAST_POINTS} "
            "of each sample."
        )
    with torch.no_grad():
        generator = Generators(0).torch("power")  # in which batches the points are embedded
        resources = Resources(fitted.spec.memory)
        z = embed_samples(samples, kernel.embed, generator, resources).parts
        is_y = torch.cat([torch.zeros(n), torch.ones(m)]).long()
        sums, squares = (
            part.double().cpu() for part in moments(kernel, z, is_y, memory=fitted.spec.memory)
        )
        own = kernel.pairs(z, z).double().cpu()
    xx, yy, xy = sums[:n, 0].sum(), sums[n:, 1].sum(), sums[:n, 1].sum()
    terms = variance_terms(sums[:n], sums[n:], squares)
    bias = (0.0, 0.0)
    if statistic.estimator == "biased":  # k(z, z) in the place of k(z, z') for every point
        bias = (
            float(own[:n].mean() - xx / (n * (n - 1))),
            float(own[n:].mean() - yy / (m * (m - 1))),
        )
    return PredictedPower(
        mmd2=float(mmd2_unbiased(xx, yy, xy, n, m)),
        first_order=(float(terms.x), float(terms.y)),
        second_order=(float(terms.xx), float(terms.yy), float(terms.xy)),
        bias=bias,
        null_distribution=np.asarray(result.null_distribution, dtype=np.float64),
        sizes=(n, m),
        estimator=statistic.estimator,
    )


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
    for name, value in (("total", total), ("half_at", half_at)):
        if not isinstance(value, Integral) or value < 2 * _LEAST_POINTS:
            raise InputError(
                f"{name} is {value!r}; it must be a whole number of at least {2 * _LEAST_POINTS}."
            )

    def rate(count: int) -> float:
        return float((count * math.sqrt(math.log(count))) ** 0.75)

    wanted = round(half_at / 2 * rate(total) / rate(half_at))
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
        The share to train on: the one with the largest predicted power, or the one nearest to a
        half where its advantage is within the error of the prediction.
    rows
        The prediction for each share.
    flat
        Whether the advantage of the best one was within the error.
    limit, loss
        J of a kernel trained on t points is fitted as limit - loss t^(-1/3) sqrt(log t).
    pilot
        (training points, J on the other points of the pilot, its standard error) that this was
        fitted to.
    """

    fraction: float
    rows: tuple[SplitRow, ...]
    flat: bool
    limit: float
    loss: float
    pilot: tuple[tuple[float, float, float], ...]

    def __str__(self) -> str:
        chosen = next(row for row in self.rows if row.fraction == self.fraction)
        why = "; others are no better within the error of the prediction" if self.flat else ""
        return (
            f"Train on {self.fraction:g} of the points ({chosen.train} of each sample) and test "
            f"{chosen.tested}: "
            f"predicted power {chosen.power:.2f}{why}."
        )


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

    The test's kernel is trained on several parts of the pilot, each time J is estimated on the
    other points of it, and the curve of J against training points is fitted with the rate of the
    paper's theorem. A share f of `total` then has the power of a kernel trained on f `total` points
    that is tested on the others.

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
    if not isinstance(repeats, Integral) or repeats < 1:
        raise InputError(f"repeats is {repeats!r}; it must be a whole number of at least 1.")
    if not fractions:
        raise InputError(
            "there are no fractions to choose from; give some, such as (0.3, 0.5, 0.7)."
        )
    for fraction in fractions:
        _check_share("a fraction", fraction)
    size = min(len(X), len(Y))
    if size < _LEAST_PILOT:
        raise InputError(
            f"the pilot has {len(X)} and {len(Y)} points; it takes at least {_LEAST_PILOT} of each "
            "sample."
        )
    total = size if total is None else total
    if not isinstance(total, Integral) or total < 2 * _LEAST_POINTS:
        raise InputError(
            f"total is {total!r}; it must be a whole number of at least {2 * _LEAST_POINTS}."
        )
    generators = Generators(rng)
    sizes: list[float] = []
    found: list[list[PredictedPower]] = []
    for share in _PILOT_SHARES:
        part = dataclasses.replace(
            test, learning=dataclasses.replace(test.learning, train_fraction=share)
        )
        results = [
            part.run(
                X, Y, rng=generators.numpy(f"pilot {share} {k}"), device=device, progress=progress
            )
            for k in range(repeats)
        ]
        a, b = results[0].train_sizes or (0, 0)
        sizes.append(2 * a * b / (a + b))
        found.append([predict_power(result) for result in results])
    return _choose(sizes, found, int(total), sorted(fractions), alpha)


def _choose(
    sizes: Sequence[float],
    found: Sequence[Sequence[PredictedPower]],
    total: int,
    fractions: Sequence[float],
    alpha: float,
) -> SplitChoice:
    """The best of `fractions`, from predictions with kernels that were trained on so many points."""
    reference = max(2, total // 2)  # the number of tested points at which J is taken
    everything = [plan for plans in found for plan in plans]

    def mean_ratio(n: int) -> float:
        """How many standard deviations the threshold lies above the mean without a difference, over all kernels."""
        ratios = [
            (p.threshold(n, n, alpha) - p._bias(n, n)) / p.deviation(n, n) for p in everything
        ]
        return math.fsum(ratios) / len(ratios)

    values, errors = [], []
    for plans in found:
        sigmas = [math.sqrt(reference) * plan.deviation(reference) for plan in plans]
        values.append(
            math.fsum(p.mmd2 / s for p, s in zip(plans, sigmas, strict=True)) / len(plans)
        )
        # Repeats share the points of the pilot: together they are taken to know no more than one of
        # them.
        errors.append(
            math.fsum(p.standard_error / s for p, s in zip(plans, sigmas, strict=True)) / len(plans)
        )
    limit, loss, covariance = fit_learning_curve(sizes, values, errors)

    rows, scores, gradients = [], [], []
    for fraction in fractions:
        train = min(max(round(fraction * total), 2), total - 2)
        tested = total - train
        criterion = limit - loss * _rate(train)
        scores.append(math.sqrt(tested) * criterion - mean_ratio(tested))
        gradients.append(math.sqrt(tested) * np.array([1.0, -_rate(train)]))
        rows.append(SplitRow(fraction, train, tested, criterion, NormalDist().cdf(scores[-1])))
    best = int(np.argmax(scores))
    half = min(range(len(fractions)), key=lambda k: abs(fractions[k] - 0.5))
    direction = gradients[best] - gradients[half]
    flat = best != half and scores[best] - scores[half] <= math.sqrt(
        float(direction @ covariance @ direction)
    )
    return SplitChoice(
        fraction=fractions[half if flat else best],
        rows=tuple(rows),
        flat=flat,
        limit=limit,
        loss=loss,
        pilot=tuple(zip(sizes, values, errors, strict=True)),
    )


def fit_learning_curve(
    sizes: Sequence[float], values: Sequence[float], errors: Sequence[float]
) -> tuple[float, float, NDArray[np.float64]]:
    """Fit J(t) = limit - loss t^(-1/3) sqrt(log t) with loss >= 0, by weighted least squares.

    Returns
    -------
    tuple
        limit, loss, and their (2, 2) covariance as if loss were free: more training not having
        helped on the pilot does not make it certain that it will not.
    """
    design = np.array([[1.0, -_rate(size)] for size in sizes])
    weights = 1 / np.square(np.maximum(errors, 1e-12))
    covariance = np.linalg.inv(design.T @ (weights[:, None] * design))
    limit, loss = covariance @ (design.T @ (weights * np.asarray(values)))
    if loss < 0:
        limit, loss = np.average(values, weights=weights), 0.0
    return float(limit), float(loss), covariance


def _rate(size: float) -> float:
    """t^(-1/3) sqrt(log t), the rate at which J of a trained kernel comes near its best, from 5 points on falling."""
    return float(size ** (-1 / 3) * math.sqrt(math.log(size)))


def _check_share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise InputError(f"{name} is {value}; it must lie strictly between 0 and 1.")
