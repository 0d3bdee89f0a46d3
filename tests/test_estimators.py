from __future__ import annotations

import itertools
import math

import pytest
import scipy.stats
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor

from bank import (
    make,
    naive_h,
    naive_mmd2_biased,
    naive_mmd2_paired,
    naive_mmd2_unbiased,
    naive_variance,
    naive_witness,
    points,
)
from twosample._estimators import (
    asymptotic_power,
    mmd2_biased,
    mmd2_paired,
    mmd2_unbiased,
    power_criterion,
    variance_paired,
    variance_unpaired,
)

SIZES = [(2, 2), (7, 7), (9, 5), (2, 11)]
sizes = pytest.mark.parametrize(("n", "m"), SIZES)


def matrix(n: int, m: int, seed: int = 0) -> Tensor:
    """The matrix of a deep kernel on n points, then m others."""
    z = torch.cat([points(n, seed=seed), 0.5 + 1.5 * points(m, seed=seed + 1)])
    return make("deep, linear kappa")(z, z).detach()  # k(x, x) differs from point to point


def block(K: Tensor, rows: range, columns: range, *, diagonal: bool = True) -> Tensor:
    """The sum of a block, entry by entry, as a tensor."""
    terms = [float(K[i, j]) for i in rows for j in columns if diagonal or i != j]
    return torch.tensor(math.fsum(terms), dtype=torch.float64)


def blocks(K: Tensor, n: int, m: int, *, diagonal: bool) -> tuple[Tensor, Tensor, Tensor]:
    x, y = range(n), range(n, n + m)
    return block(K, x, x, diagonal=diagonal), block(K, y, y, diagonal=diagonal), block(K, x, y)


# MMD^2


@sizes
def test_unbiased_is_the_double_loop(n: int, m: int):
    K = matrix(n, m)
    expected = naive_mmd2_unbiased(K.tolist(), range(n), range(n, n + m))
    assert mmd2_unbiased(*blocks(K, n, m, diagonal=False), n, m).item() == pytest.approx(
        expected, rel=1e-12
    )


@sizes
def test_biased_is_the_double_loop(n: int, m: int):
    K = matrix(n, m)
    expected = naive_mmd2_biased(K.tolist(), range(n), range(n, n + m))
    assert mmd2_biased(*blocks(K, n, m, diagonal=True), n, m).item() == pytest.approx(
        expected, rel=1e-12
    )


@pytest.mark.parametrize("n", [2, 7, 12])
def test_paired_is_the_double_loop(n: int):
    K = matrix(n, n)
    pairs = torch.tensor(math.fsum(float(K[i, n + i]) for i in range(n)), dtype=torch.float64)
    expected = naive_mmd2_paired(K.tolist(), range(n), range(n, 2 * n))
    assert mmd2_paired(*blocks(K, n, n, diagonal=False), pairs, n).item() == pytest.approx(
        expected, rel=1e-12
    )


def test_one_call_serves_every_shuffle():
    sums = [points(5, columns=1, seed=seed)[:, 0] for seed in range(4)]
    for estimate in (
        lambda xx, yy, xy, _: mmd2_unbiased(xx, yy, xy, 4, 6),
        lambda xx, yy, xy, _: mmd2_biased(xx, yy, xy, 4, 6),
        lambda xx, yy, xy, pairs: mmd2_paired(xx, yy, xy, pairs, 4),
    ):
        together = estimate(*sums)
        assert together.shape == (5,)
        assert together.tolist() == [float(estimate(*one)) for one in zip(*sums, strict=True)]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 8), st.integers(2, 8))
def test_biased_is_never_negative(seed: int, n: int, m: int):
    K = matrix(n, m, seed)
    assert mmd2_biased(*blocks(K, n, m, diagonal=True), n, m) >= -1e-14


# Unbiasedness, by enumeration

ATOMS = [[0.0, 0.0, 0.0], [1.0, 0.5, 0.0], [-1.0, 2.0, 1.0]]
P, Q = [0.5, 0.25, 0.25], [0.125, 0.5, 0.375]


def from_sums(estimator: str, K: Tensor, n: int, m: int) -> float:
    """The estimate of the library, from sums over the matrix of n points, then m others."""
    xx, yy, xy = blocks(K, n, m, diagonal=estimator == "biased")
    if estimator == "paired":
        return mmd2_paired(xx, yy, xy, K[:n, n:].diagonal().sum(), n).item()
    return (mmd2_biased if estimator == "biased" else mmd2_unbiased)(xx, yy, xy, n, m).item()


def expectation(estimator: str, n: int, m: int) -> float:
    """Over every sample of n draws from P and m from Q on three atoms."""
    z = torch.tensor(ATOMS, dtype=torch.float64)
    K = make("deep, linear kappa")(z, z).detach()
    terms = []
    for drawn in itertools.product(range(3), repeat=n + m):
        chance = math.prod(P[i] for i in drawn[:n]) * math.prod(Q[i] for i in drawn[n:])
        terms.append(chance * from_sums(estimator, K[list(drawn)][:, list(drawn)], n, m))
    return math.fsum(terms)


def population() -> tuple[float, float, float]:
    """MMD^2 of P and Q, and E k(x, x) - E k(x, x') under P and under Q."""
    z = torch.tensor(ATOMS, dtype=torch.float64)
    K = make("deep, linear kappa")(z, z).detach()
    p, q = torch.tensor(P, dtype=torch.float64), torch.tensor(Q, dtype=torch.float64)
    gaps = [float(w @ K.diagonal() - w @ K @ w) for w in (p, q)]
    return float((p - q) @ K @ (p - q)), *gaps


@pytest.mark.parametrize(
    ("estimator", "n", "m"),
    [("unbiased", 3, 2), ("unbiased", 2, 2), ("paired", 2, 2), ("paired", 3, 3)],
)
def test_unbiased_and_paired_have_the_right_expectation(estimator: str, n: int, m: int):
    assert expectation(estimator, n, m) == pytest.approx(population()[0], rel=1e-12)


def test_the_bias_of_biased_is_known():
    mmd2, gap_p, gap_q = population()
    assert expectation("biased", 3, 2) == pytest.approx(mmd2 + gap_p / 3 + gap_q / 2, rel=1e-12)


@pytest.mark.parametrize(("n", "m"), [(4, 4), (5, 3)])
def test_unbiased_averages_to_zero_over_all_labellings(n: int, m: int):
    K = matrix(n, m)
    values = []
    for x in itertools.combinations(range(n + m), n):
        order = [*x, *sorted(set(range(n + m)) - set(x))]
        values.append(from_sums("unbiased", K[order][:, order], n, m))
    assert math.fsum(values) == pytest.approx(0, abs=1e-11)
    assert max(values) > 0.01


# Variances


def row_means(K: Tensor, n: int) -> Tensor:
    """h_i = mean_j H_ij."""
    return torch.tensor(naive_h(K.tolist(), range(n), range(n, 2 * n)), dtype=torch.float64).mean(1)


@pytest.mark.parametrize("n", [2, 7, 12])
def test_variance_paired_is_equation_5(n: int):
    K = matrix(n, n)
    expected = naive_variance(K.tolist(), range(n), range(n, 2 * n))
    assert variance_paired(row_means(K, n)).item() == pytest.approx(expected, rel=1e-9)


@settings(max_examples=100, deadline=None)
@given(
    hnp.arrays(float, st.integers(1, 20), elements=st.floats(-1e6, 1e6)),
    st.sampled_from([0.0, 1.0, 1e8]),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_variance_paired_is_never_negative(values, offset: float, dtype: torch.dtype):
    h = torch.tensor(values + offset).to(dtype)
    assert variance_paired(h) >= 0


@settings(max_examples=50, deadline=None)
@example(0.1, 3)
@given(st.floats(-1e6, 1e6), st.integers(1, 50))
def test_variance_of_constant_data_is_nothing(value: float, count: int):
    h = torch.full((count,), value, dtype=torch.float64)
    for variance in (variance_paired(h), variance_unpaired(h, h[:1])):
        assert 0 <= variance <= 1e-28 * value**2


@sizes
def test_variance_unpaired_is_its_definition(n: int, m: int):
    w = naive_witness(matrix(n, m).tolist(), range(n), range(n, n + m))
    spread = []
    for part in (w[:n], w[n:]):
        mean = math.fsum(part) / len(part)
        spread.append(math.fsum((value - mean) ** 2 for value in part) / len(part))
    expected = 2 * n * m / (n + m) * (4 * spread[0] / n + 4 * spread[1] / m)
    at = torch.tensor(w, dtype=torch.float64)
    assert variance_unpaired(at[:n], at[n:]).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", [3, 7, 12])
def test_at_equal_sizes_the_variances_differ_by_the_covariance_of_the_pairs(n: int):
    K = matrix(n, n)
    w = naive_witness(K.tolist(), range(n), range(n, 2 * n))
    at_x, at_y = w[:n], w[n:]
    mean_x, mean_y = math.fsum(at_x) / n, math.fsum(at_y) / n
    covariance = math.fsum((a - mean_x) * (b - mean_y) for a, b in zip(at_x, at_y, strict=True)) / n
    assert abs(covariance) > 1e-4  # or the next line would say nothing
    x, y = (torch.tensor(part, dtype=torch.float64) for part in (at_x, at_y))
    difference = variance_unpaired(x, y) - variance_paired(row_means(K, n))
    assert difference.item() == pytest.approx(8 * covariance, rel=1e-10)


# Power


def test_power_criterion_is_equation_4():
    mmd2, variance = torch.tensor([0.3, -0.2, 0.0]), torch.tensor([0.04, 0.01, 0.0])
    found = power_criterion(mmd2.double(), variance.double(), 0.05)
    assert found.tolist() == pytest.approx([0.3 / 0.09**0.5, -0.2 / 0.06**0.5, 0.0], rel=1e-6)


def test_power_criterion_without_spread_is_finite():
    zero = torch.tensor(0.0, dtype=torch.float64, requires_grad=True)
    criterion = power_criterion(torch.tensor(0.5, dtype=torch.float64), 0 * zero, 1e-8)
    (slope,) = torch.autograd.grad(criterion, zero)
    assert criterion.item() == pytest.approx(5000)
    assert torch.isfinite(slope)


@settings(max_examples=50, deadline=None)
@given(st.floats(-2, 2), st.floats(1e-3, 10), st.floats(-2, 2))
def test_asymptotic_power_is_that_of_a_normal_estimate(
    mmd2: float, deviation: float, threshold: float
):
    expected = scipy.stats.norm.sf(threshold, loc=mmd2, scale=deviation)
    assert asymptotic_power(mmd2, deviation, threshold) == pytest.approx(
        expected, rel=1e-9, abs=1e-14
    )


def test_asymptotic_power_without_spread_is_certain():
    assert asymptotic_power(0.2, 0.0, 0.1) == 1.0
    assert asymptotic_power(0.1, 0.0, 0.2) == 0.0
