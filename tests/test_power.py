"""Power: the variance of MMD^2 without bias, predictions against simulation, and how to split."""

from __future__ import annotations

import dataclasses
import doctest
import functools
import itertools
import math
from pathlib import Path

import numpy as np
import predicted_power  # benchmarks/ is on the path of the tests
import pytest
import scipy.stats
import torch
from torch import Tensor

import twosample
from bank import KERNELS, make, naive_h, naive_matrix, points, seeded
from twosample import _products as products
from twosample._calibration import PairSwap, Permutation
from twosample._estimators import (
    mmd2_unbiased,
    variance_of_mmd2_paired,
    variance_paired,
    variance_terms,
    variance_terms_paired,
)
from twosample._insight import power as power_module
from twosample._insight.power import (
    PredictedPower,
    choose_split,
    corollary_split,
    fit_learning_curve,
    predict_power,
)
from twosample._kernels import Gaussian, Linear
from twosample._products import moments, paired_moments
from twosample._statistics import MMD
from twosample._two_sample import FittedTest, TwoSampleTest
from twosample.errors import IncompatibleParts, InputError

ROOT = Path(__file__).parents[1]
SIZES = [(4, 4), (6, 5), (4, 8)]


def two_samples(n: int, m: int) -> Tensor:
    """Points of X, then of Y, that differ."""
    return torch.cat([points(n, seed=3), 0.4 + 1.5 * points(m, seed=4)])


def labels(n: int, m: int) -> Tensor:
    return torch.cat([torch.zeros(n), torch.ones(m)]).long()


# The variance without bias: every average over distinct indices, one tuple at a time


def average(*choices: object, of: object) -> float:
    """The mean of `of` over tuples of distinct indices: `choices` are (indices, how many) for each
    sample."""
    tuples = itertools.product(
        *(itertools.permutations(range(size), count) for size, count in choices)
    )
    values = [of(*(i for part in group for i in part)) for group in tuples]
    return math.fsum(values) / len(values)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("n", [4, 6])
def test_paired_terms_are_averages_over_distinct_indices(name: str, n: int):
    z = two_samples(n, n)
    H = naive_h(naive_matrix(make(name), z).tolist(), range(n), range(n, 2 * n))
    squared_mean = average((n, 4), of=lambda i, j, k, m: H[i][j] * H[k][m])
    expected = (
        average((n, 3), of=lambda i, j, k: H[i][j] * H[i][k]) - squared_mean,
        average((n, 2), of=lambda i, j: H[i][j] ** 2) - squared_mean,
    )
    found = variance_terms_paired(*paired_moments(make(name), z[:n], z[n:]))
    assert [float(value) for value in found] == pytest.approx(expected, rel=1e-8, abs=1e-10)


def test_paired_terms_at_eight_pairs():
    n, kernel = 8, make("deep, linear kappa")
    z = two_samples(n, n)
    H = naive_h(naive_matrix(kernel, z).tolist(), range(n), range(n, 2 * n))
    expected = average((n, 3), of=lambda i, j, k: H[i][j] * H[i][k]) - average(
        (n, 4), of=lambda i, j, k, m: H[i][j] * H[k][m]
    )
    assert float(variance_terms_paired(*paired_moments(kernel, z[:n], z[n:]))[0]) == pytest.approx(
        expected, rel=1e-9
    )


@pytest.mark.parametrize("name", ["gaussian", "linear", "deep, linear kappa", "rational quadratic"])
@pytest.mark.parametrize(("n", "m"), SIZES)
def test_terms_are_averages_over_distinct_points(name: str, n: int, m: int):
    z = two_samples(n, m)
    K = naive_matrix(make(name), z).tolist()

    def side(x: range, y: range) -> tuple[float, float]:
        """Var_P(w(X)) and E[k(X, X')^2] with k centred, all expectations apart."""
        a, b = len(x), len(y)
        one = average((a, 3), of=lambda i, j, k: K[x[i]][x[j]] * K[x[i]][x[k]])
        mixed = average((a, 2), (b, 1), of=lambda i, j, s: K[x[i]][x[j]] * K[x[i]][y[s]])
        other = average((a, 1), (b, 2), of=lambda i, s, t: K[x[i]][y[s]] * K[x[i]][y[t]])
        within = average((a, 4), of=lambda i, j, k, l: K[x[i]][x[j]] * K[x[k]][x[l]])  # noqa: E741
        between = average((a, 3), (b, 1), of=lambda i, j, k, s: K[x[i]][x[j]] * K[x[k]][y[s]])
        across = average((a, 2), (b, 2), of=lambda i, j, s, t: K[x[i]][y[s]] * K[x[j]][y[t]])
        square = average((a, 2), of=lambda i, j: K[x[i]][x[j]] ** 2)
        return one - 2 * mixed + other - (within - 2 * between + across), square - 2 * one + within

    x, y = range(n), range(n, n + m)
    cross = (
        average((n, 1), (m, 1), of=lambda i, s: K[x[i]][y[s]] ** 2)
        - average((n, 1), (m, 2), of=lambda i, s, t: K[x[i]][y[s]] * K[x[i]][y[t]])
        - average((m, 1), (n, 2), of=lambda s, i, j: K[x[i]][y[s]] * K[x[j]][y[s]])
        + average((n, 2), (m, 2), of=lambda i, j, s, t: K[x[i]][y[s]] * K[x[j]][y[t]])
    )
    (var_x, xx), (var_y, yy) = side(x, y), side(y, x)
    sums, squares = moments(make(name), z, labels(n, m))
    found = [float(value) for value in variance_terms(sums[:n], sums[n:], squares)]
    assert found == pytest.approx([var_x, var_y, xx, yy, cross], rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("rows", [1, 5, 512])
@pytest.mark.parametrize("name", KERNELS)
def test_moments_are_sums_of_the_matrix(name: str, rows: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        products, "_CACHE_ROWS", rows
    )  # with 1, features of several columns go through tiles
    n, m = 9, 6
    z, bins = two_samples(n, m), labels(n, m)[torch.randperm(n + m, generator=seeded(5))]
    K = naive_matrix(make(name), z).fill_diagonal_(0)
    member = torch.nn.functional.one_hot(bins).double()
    sums, squares = moments(make(name), z, bins)
    torch.testing.assert_close(sums, K @ member, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(squares, member.T @ K.square() @ member, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(*(moments(make(name), p, bins)[0] for p in (z, make(name).embed(z))))


def test_moments_keep_to_their_memory():
    widest = 0

    class Watched(Gaussian):
        def tile(self, a: products.Embedded, b: products.Embedded) -> Tensor:
            nonlocal widest
            widest = max(widest, len(a[0]), len(b[0]))
            return super().tile(a, b)

    budget = 2**20
    moments(Watched(1.0), points(700, dtype=torch.float32), labels(350, 350), memory=budget)
    assert 12 * (4 + 8) * widest**2 <= budget
    widest = 0
    paired_moments(Watched(1.0), points(350), points(350, seed=1), memory=budget)
    assert widest and 5 * 12 * 8 * widest**2 <= budget


@pytest.mark.parametrize("short", [(3, 9), (9, 3)])
def test_fewer_than_four_points_have_no_such_variance(short: tuple[int, int]):
    sums, squares = moments(Gaussian(1.0).double(), two_samples(*short), labels(*short))
    with pytest.raises(ValueError, match="takes 4 points"):
        variance_terms(sums[: short[0]], sums[short[0] :], squares)
    with pytest.raises(ValueError, match="takes 4 pairs, not 3"):
        variance_terms_paired(torch.ones(3), torch.tensor(3.0))


# The variance against that of many estimates

DRAWS = 2500


def drawn(n: int, m: int, count: int = DRAWS, shift: float = 0.8) -> tuple[Tensor, Tensor, Tensor]:
    """Gaussian kernel matrices of `count` pairs of samples: blocks xx, yy, xy."""
    x = torch.randn(count, n, 2, generator=seeded(21), dtype=torch.float64)
    y = torch.randn(count, m, 2, generator=seeded(22), dtype=torch.float64) + torch.tensor(
        [shift, 0.0]
    )

    def gaussian(a: Tensor, b: Tensor) -> Tensor:
        return torch.exp(-torch.cdist(a, b).square() / 2)

    return gaussian(x, x), gaussian(y, y), gaussian(x, y)


def off_diagonal(K: Tensor) -> Tensor:
    return K - torch.diag_embed(K.diagonal(dim1=1, dim2=2))


def agree_in_the_mean(estimates: Tensor, values: Tensor) -> None:
    """The mean of unbiased estimates of a variance, and the variance of `values`, within 4 standard
    errors of both."""
    squares = (values - values.mean()).square()
    error = math.hypot(float(estimates.std()), float(squares.std())) / math.sqrt(len(values))
    assert abs(float(estimates.mean() - values.var())) < 4 * error
    assert error < 0.08 * float(values.var())  # or the limit would say nothing


@pytest.mark.parametrize("shift", [0.0, 0.8])
@pytest.mark.parametrize(("n", "m"), [(8, 8), (6, 12)])
def test_variance_terms_have_the_variance_of_mmd2(n: int, m: int, shift: float):
    xx, yy, xy = drawn(n, m, shift=shift)
    xx, yy = off_diagonal(xx), off_diagonal(yy)
    values = mmd2_unbiased(xx.sum((1, 2)), yy.sum((1, 2)), xy.sum((1, 2)), n, m)
    estimates = []
    for a, b, c in zip(xx, yy, xy, strict=True):
        squares = torch.tensor(
            [[a.square().sum(), c.square().sum()], [c.square().sum(), b.square().sum()]]
        )
        t = variance_terms(
            torch.stack([a.sum(1), c.sum(1)], 1), torch.stack([c.sum(0), b.sum(1)], 1), squares
        )
        second = 2 * t.xx / (n * (n - 1)) + 2 * t.yy / (m * (m - 1)) + 4 * t.xy / (n * m)
        estimates.append(4 * t.x / n + 4 * t.y / m + second)
    agree_in_the_mean(torch.stack(estimates), values)


def test_paired_variance_is_that_of_mmd2_and_the_v_statistic_is_larger():
    n = 8
    xx, yy, xy = drawn(n, n)
    H = xx + yy - xy - xy.mT
    off = off_diagonal(H)
    values = off.sum((1, 2)) / (n * (n - 1))
    terms = [variance_terms_paired(h.sum(1), h.square().sum()) for h in off]
    agree_in_the_mean(torch.stack([variance_of_mmd2_paired(*term, n) for term in terms]), values)
    unbiased, biased = (
        4 * torch.stack([t[0] for t in terms]).mean(),
        torch.stack([variance_paired(h.mean(1)) for h in H]),
    )
    # xi_1 is Var_P(w) + Var_Q(w), known here from a large sample.
    big = drawn(1500, 1500, count=1)
    truth = 4 * ((big[0] - big[2]).mean(2).var() + (big[2].mT - big[1]).mean(2).var())
    assert abs(float(unbiased - truth)) < 0.1 * float(truth) < abs(float(biased.mean() - truth))


# Predictions: a Gaussian kernel on shifted normals, whose MMD is known

SHIFT = 0.8


def shifted(
    n: int, m: int, rng: np.random.Generator, shift: float = SHIFT
) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(size=(n, 2)), rng.normal((shift, 0.0), 1.0, size=(m, 2))


def known_mmd2(bandwidth: float, scales: np.ndarray, shift: float = SHIFT) -> float:
    """Of the standardised points: the kernel of width sigma on N(0, diag(s^2)) and on the same at a
    distance."""
    widths = bandwidth**2 + 2 * scales**2
    within = float(np.prod(np.sqrt(bandwidth**2 / widths)))
    return 2 * within * (1 - math.exp(-((shift * scales[0]) ** 2) / (2 * widths[0])))


def gaussian_test(estimator: str = "unbiased", permutations: int = 199) -> TwoSampleTest:
    return TwoSampleTest(
        Gaussian(1.0),
        statistic=MMD(estimator),
        calibration=Permutation(permutations),
        name="gaussian",
    )


@functools.cache
def prepared(estimator: str = "unbiased") -> tuple[FittedTest, PredictedPower]:
    """A fitted test, and the prediction from a large held-out set."""
    rng = np.random.default_rng(1)
    fitted = gaussian_test(estimator).fit(*shifted(1000, 1000, rng), rng=0)
    large = dataclasses.replace(
        fitted, spec=dataclasses.replace(fitted.spec, calibration=Permutation(999))
    )
    return fitted, predict_power(large.test(*shifted(1500, 1500, rng), rng=1))


@pytest.fixture(scope="module")
def plan() -> PredictedPower:
    """From a small held-out set."""
    return predict_power(prepared()[0].test(*shifted(40, 50, np.random.default_rng(5)), rng=2))


def test_mmd2_is_the_known_one():
    fitted, plan = prepared()
    truth = known_mmd2(1.0, 1 / fitted.scaling.scale.numpy())
    assert abs(plan.mmd2 - truth) < 4 * plan.standard_error < 0.5 * truth


@pytest.mark.parametrize(
    ("estimator", "n", "m"),
    [
        ("unbiased", 15, 15),
        ("unbiased", 30, 30),
        ("unbiased", 20, 60),
        ("unbiased", 80, 15),
        ("biased", 30, 20),
    ],
)
def test_predicted_power_is_that_of_simulation(estimator: str, n: int, m: int):
    fitted, plan = prepared(estimator)
    rng, tests = np.random.default_rng(7), 250
    rejections = sum(fitted.test(*shifted(n, m, rng), rng=k).reject() for k in range(tests))
    limits = scipy.stats.binomtest(rejections, tests).proportion_ci(0.999)
    assert limits.low < plan.power(n, m) < limits.high
    assert 0.1 < plan.power(n, m) < 0.9  # where a wrong variance or threshold would show


def test_mmd2_is_unbiased_whatever_the_test_uses():
    rng = np.random.default_rng(3)
    X, Y = shifted(40, 40, rng)
    results = {e: gaussian_test(e).run(X, Y, rng=0) for e in ("unbiased", "biased", "paired")}
    plans = {e: predict_power(result) for e, result in results.items()}
    expected = results["unbiased"].statistic
    for e, plan in plans.items():
        assert plan.mmd2 == pytest.approx(expected, rel=1e-4)
        assert plan.estimator == e
    added = sum(plans["biased"].bias) / 40
    assert results["biased"].statistic == pytest.approx(expected + added, rel=1e-4)
    for n in (10, 40, 160):  # the three behave alike
        powers = [plan.power(n) for plan in plans.values()]
        assert max(powers) - min(powers) < 0.12


def test_one_score_goes_without_pairs_and_agrees_with_tiles():
    rng = np.random.default_rng(4)
    X, Y = shifted(60, 40, rng)

    class NoFeatures(Linear):
        def features(self, z: products.Embedded) -> None:
            return None

    plans = [
        predict_power(TwoSampleTest(kernel).run(X, Y, rng=0)) for kernel in (Linear(), NoFeatures())
    ]
    assert plans[0].mmd2 == pytest.approx(plans[1].mmd2, rel=1e-4)
    assert plans[0].first_order == pytest.approx(plans[1].first_order, rel=1e-3)
    assert plans[0].second_order == pytest.approx(plans[1].second_order, rel=1e-3)


def test_threshold_is_where_the_test_rejects(plan: PredictedPower):
    fitted, _ = prepared()
    n, m = plan.sizes
    for seed in range(20):
        result = fitted.test(*shifted(n, m, np.random.default_rng(seed), shift=0.4), rng=seed)
        for alpha in (0.05, 0.1, 0.29):
            threshold = predict_power(result).threshold(n, m, alpha)
            assert result.reject(alpha) == (result.statistic > threshold)


def test_power_grows_with_points_with_the_level_and_with_the_effect(plan: PredictedPower):
    curve = [plan.power(n) for n in (2, 3, 5, 10, 20, 40, 80, 160, 1000, 10**6)]
    assert curve == sorted(curve) and curve[0] < 0.2 and curve[-1] > 0.999
    assert plan.power(40, 30) < plan.power(40, 50) < plan.power(40, 500)
    levels = [plan.power(30, alpha=alpha) for alpha in (0.01, 0.05, 0.2)]
    assert levels == sorted(levels)
    low, high = plan.power_interval(30)
    assert low < plan.power(30) < high
    inner = plan.power_interval(30, confidence_level=0.5)
    assert low < inner[0] < inner[1] < high


def test_the_older_name_of_a_confidence_level_warns_and_works(plan: PredictedPower):
    with pytest.warns(DeprecationWarning, match="now called `confidence_level`") as caught:
        power = plan.power_interval(30, confidence=0.5)
    assert power == plan.power_interval(30, confidence_level=0.5)
    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="now called `confidence_level`"):
        samples = plan.samples_interval(0.8, confidence=0.5)
    assert samples == plan.samples_interval(0.8, confidence_level=0.5)


def test_the_prediction_is_a_method_of_the_result_too():
    fitted, _ = prepared()
    result = fitted.test(*shifted(20, 20, np.random.default_rng(0)), rng=0)
    assert str(result.predict_power()) == str(predict_power(result))


@pytest.mark.parametrize("power", [0.3, 0.8, 0.9, 0.99])
@pytest.mark.parametrize("ratio", [1.0, 2.5])
def test_samples_needed_is_the_smallest_number(plan: PredictedPower, power: float, ratio: float):
    n = plan.samples_needed(power, ratio=ratio)
    assert n is not None
    assert plan.power(n, round(n * ratio)) >= power > plan.power(n - 1, round((n - 1) * ratio))
    low, high = plan.samples_interval(power, ratio=ratio)
    assert low is not None and low < n and (high is None or n < high)


@pytest.mark.parametrize("estimator", ["unbiased", "biased"])
@pytest.mark.parametrize("power", [0.2, 0.5, 0.8])
@pytest.mark.parametrize(
    "n", [10, 20, 100, 1000]
)  # the difference here is too small, about right, large, very large
def test_smallest_effect_is_where_power_is_reached(estimator: str, n: int, power: float):
    _, plan = prepared(estimator)
    effect = plan.smallest_effect(n, 2 * n, power=power)
    assert effect.mmd**2 == pytest.approx(effect.mmd2)
    assert plan._at(effect.mmd2).power(n, 2 * n) == pytest.approx(power)
    assert (effect.mmd2 <= plan.mmd2) == (plan.power(n, 2 * n) >= power)
    assert plan.smallest_effect(2 * n, 4 * n, power=power).mmd < effect.mmd


def test_criterion_and_standard_error(plan: PredictedPower):
    n, m = plan.sizes
    first = 4 * plan.first_order[0] / n + 4 * plan.first_order[1] / m
    assert plan.criterion == pytest.approx(plan.mmd2 / math.sqrt(first * 2 * n * m / (n + m)))
    assert plan.standard_error**2 > first
    assert dataclasses.replace(plan, first_order=(-1.0, 0.1)).criterion == math.inf
    # Terms that came out below 0 count as nothing.
    only_second = dataclasses.replace(plan, first_order=(-1.0, 0.1)).deviation(n, m)
    assert only_second**2 == pytest.approx(plan.standard_error**2 - first)


def test_no_difference_has_no_number_of_points(plan: PredictedPower):
    nothing = dataclasses.replace(plan, mmd2=-1e-4)
    assert nothing.samples_needed() is None
    assert nothing.power(10**6) == pytest.approx(nothing.power(100), abs=0.001)
    assert 0.01 < nothing.power(100) < 0.06  # about the level
    low, high = nothing.power_interval(100)
    assert low == nothing.power(100) < high
    assert "no number of points is known to be enough" in str(nothing)
    assert "points at alpha = 0.05; " in str(
        plan
    ) and "of each sample would have power 0.9." in str(plan)


def test_errors_of_predictions(plan: PredictedPower):
    rng = np.random.default_rng(0)
    fitted, _ = prepared()
    for wrong in (lambda: plan.power(1), lambda: plan.power(10, 1), lambda: plan.power(10.5)):
        with pytest.raises(InputError, match="whole number of at least 2"):
            wrong()
    for wrong in (
        lambda: plan.power(10, alpha=0),
        lambda: plan.samples_needed(1.0),
        lambda: plan.smallest_effect(9, power=0),
        lambda: plan.power_interval(9, confidence_level=1),
    ):
        with pytest.raises(InputError, match="strictly between 0 and 1"):
            wrong()
    with pytest.raises(InputError, match="ratio is 0"):
        plan.samples_needed(ratio=0)
    with pytest.raises(InputError, match="use permutations=999 or more"):
        plan.power(20, alpha=0.001)
    with pytest.raises(InputError, match="3 and 9 points were tested"):
        predict_power(fitted.test(*shifted(3, 9, rng), rng=0))
    result = fitted.test(*shifted(9, 9, rng), rng=0)
    with pytest.raises(InputError, match="has lost its fitted test"):
        predict_power(dataclasses.replace(result, fitted=None))
    with pytest.raises(IncompatibleParts, match=r"of which Permutation.* makes none"):
        predict_power(dataclasses.replace(result, null_distribution=np.array([])))
    paired = predict_power(gaussian_test("paired").run(*shifted(9, 9, rng), rng=0))
    with pytest.raises(InputError, match="needs samples of one size, not 9 and 10"):
        paired.power(9, 10)


def test_tests_that_the_formula_is_not_of_are_refused():
    X, Y = shifted(40, 40, np.random.default_rng(0))
    block = TwoSampleTest(Gaussian(1.0), statistic=MMD("block"), calibration=PairSwap(19))
    for test, name in (
        (twosample.METHODS["me"](steps=2, permutations=19), "Hotelling"),
        (block, "BlockMMD"),
    ):
        result = test.run(X, Y, rng=0)
        with pytest.raises(
            IncompatibleParts, match=f"that of a two-sided MMD over all pairs, not of {name}"
        ):
            predict_power(result)


# How to split


def test_the_rate_of_the_corollary():
    def rate(total: float) -> float:
        return (total * math.sqrt(math.log(total))) ** 0.75

    assert corollary_split(1000) == 500
    assert corollary_split(4000, half_at=4000) == 2000
    for total in (2000, 50_000, 10**7):
        assert corollary_split(total) == pytest.approx(500 * rate(total) / rate(1000), abs=0.5)
    shares = [corollary_split(10**k) / 10**k for k in range(3, 9)]
    assert shares == sorted(shares, reverse=True)
    assert corollary_split(8) == 4 and corollary_split(30) <= 26
    for wrong in (7, 10.5):
        with pytest.raises(InputError, match="total is"):
            corollary_split(wrong)
    with pytest.raises(InputError, match="half_at is 3"):
        corollary_split(100, half_at=3)


def curve(sizes: list[float], limit: float, loss: float) -> list[float]:
    return [limit - loss * t ** (-1 / 3) * math.sqrt(math.log(t)) for t in sizes]


def test_a_learning_curve_is_found_again():
    sizes = [50.0, 100.0, 200.0, 300.0]
    limit, loss, covariance = fit_learning_curve(
        sizes, curve(sizes, 0.4, 0.7), [0.1, 0.1, 0.2, 0.3]
    )
    assert (limit, loss) == pytest.approx((0.4, 0.7))
    # Against the spread of fits to disturbed curves.
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(2000, 4)) * [0.01, 0.01, 0.02, 0.03]
    found = [
        fit_learning_curve(sizes, curve(sizes, 0.4, 0.7) + e, [0.01, 0.01, 0.02, 0.03])[:2]
        for e in noise
    ]
    assert np.cov(np.array(found).T) == pytest.approx(covariance / 100, rel=0.15)


def test_a_falling_learning_curve_counts_as_flat():
    limit, loss, covariance = fit_learning_curve([50, 100, 200], [0.3, 0.2, 0.1], [1.0, 1.0, 2.0])
    assert (limit, loss) == (pytest.approx((0.3 + 0.2 + 0.1 / 4) / 2.25), 0.0)
    assert covariance[1, 1] > 0


def pilot_of(values: list[float], error: float) -> list[list[PredictedPower]]:
    """Plans of kernels with these J and a standard error of J, in units where sigma is 1 and the
    threshold small."""
    size = round(1 / error**2)
    return [
        [
            PredictedPower(
                mmd2=value,
                first_order=(0.125, 0.125),
                second_order=(1e-6, 1e-6, 1e-6),
                bias=(0.0, 0.0),
                null_distribution=np.linspace(-1, 1, 99) * 1e-4 * 1000 / size,
                sizes=(size, size),
                estimator="unbiased",
            )
        ]
        for value in values
    ]


def test_a_steep_learning_curve_trains_on_more_than_half():
    sizes = [50.0, 100.0, 200.0, 300.0]
    found = power_module._choose(
        sizes, pilot_of(curve(sizes, 0.5, 1.2), 0.003), 400, [0.2, 0.5, 0.8], 0.05
    )
    assert (found.fraction, found.flat) == (0.8, False)
    assert (found.limit, found.loss) == pytest.approx((0.5, 1.2), rel=1e-2)
    assert max(found.rows, key=lambda row: row.power).fraction == 0.8
    assert [(row.train, row.tested) for row in found.rows] == [(80, 320), (200, 200), (320, 80)]
    assert str(found).startswith(
        "Train on 0.8 of the points (320 of each sample) and test 80: predicted power "
    )


def test_a_flat_learning_curve_tests_more_only_if_that_is_sure():
    sizes = [50.0, 100.0, 200.0, 300.0]
    sure = power_module._choose(sizes, pilot_of([0.1] * 4, 0.001), 400, [0.2, 0.5, 0.8], 0.05)
    assert (sure.fraction, sure.flat) == (0.2, False)
    unsure = power_module._choose(sizes, pilot_of([0.1] * 4, 0.2), 400, [0.2, 0.5, 0.8], 0.05)
    assert (unsure.fraction, unsure.flat) == (0.5, True)
    assert "others are no better within the error" in str(unsure)


def test_choose_split_from_a_pilot():
    X, Y = shifted(120, 100, np.random.default_rng(2))
    test = twosample.mmd_o(steps=3, permutations=99)
    first, second = (choose_split(test, X, Y, total=300, repeats=1, rng=3) for _ in range(2))
    assert first == second
    assert [row.fraction for row in first.rows] == pytest.approx(
        [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    )
    assert all(row.train + row.tested == 300 and 0 <= row.power <= 1 for row in first.rows)
    assert [round(size) for size, _, _ in first.pilot] == [13, 27, 55, 82]
    assert first.rows[3].power > 0.8  # 150 points tested at a shift of 0.8
    assert (
        choose_split(test, X, Y, fractions=(0.5,), repeats=1, rng=3).rows[0].tested == 50
    )  # of the smaller sample


def test_errors_of_choose_split():
    X, Y = shifted(60, 30, np.random.default_rng(2))
    with pytest.raises(IncompatibleParts, match="mmd-median does not train"):
        choose_split(twosample.mmd_median(), X, X)
    with pytest.raises(InputError, match="60 and 30 points; it takes at least 40"):
        choose_split(twosample.mmd_o(), X, Y)
    for options, message in (
        ({"fractions": ()}, "no fractions"),
        ({"fractions": (0.5, 1.0)}, "a fraction is 1.0"),
        ({"repeats": 0}, "repeats is 0"),
        ({"total": 5}, "total is 5"),
    ):
        with pytest.raises(InputError, match=message):
            choose_split(twosample.mmd_o(), X, X, **options)


# The page


def test_the_page_gives_what_it_shows():
    results = doctest.testfile(
        str(ROOT / "docs" / "power.md"), module_relative=False, optionflags=doctest.ELLIPSIS
    )
    assert results.attempted > 5 and results.failed == 0


def test_the_table_is_what_the_stored_runs_give():
    page = (ROOT / "docs" / "power.md").read_text()
    assert predicted_power.table() in page
    assert predicted_power.views_table() in page
