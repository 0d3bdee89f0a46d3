"""Power: the variance of MMD^2 without bias, predictions against simulation, and how to split."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from bank import KERNELS, make, naive_h, naive_matrix, points, seeded
from twosample import products
from twosample.estimators import (
    mmd2_unbiased,
    variance_of_mmd2_paired,
    variance_paired,
    variance_terms,
    variance_terms_paired,
)
from twosample.kernels import Gaussian
from twosample.products import moments, paired_moments

SIZES = [(4, 4), (6, 5), (4, 8)]


def two_samples(n: int, m: int) -> Tensor:
    """Points of X, then of Y, that differ."""
    return torch.cat([points(n, seed=3), 0.4 + 1.5 * points(m, seed=4)])


def labels(n: int, m: int) -> Tensor:
    return torch.cat([torch.zeros(n), torch.ones(m)]).long()


# The variance without bias: every average over distinct indices, one tuple at a time


def average(*choices: object, of: object) -> float:
    """The mean of `of` over tuples of distinct indices: `choices` are (indices, how many) for each sample."""
    tuples = itertools.product(*(itertools.permutations(range(size), count) for size, count in choices))
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
    assert float(variance_terms_paired(*paired_moments(kernel, z[:n], z[n:]))[0]) == pytest.approx(expected, rel=1e-9)


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
    monkeypatch.setattr(products, "_CACHE_ROWS", rows)  # with 1, features of several columns go through tiles
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

DRAWS = 4000


def drawn(n: int, m: int, count: int = DRAWS, shift: float = 0.8) -> tuple[Tensor, Tensor, Tensor]:
    """Gaussian kernel matrices of `count` pairs of samples: blocks xx, yy, xy."""
    x = torch.randn(count, n, 2, generator=seeded(21), dtype=torch.float64)
    y = torch.randn(count, m, 2, generator=seeded(22), dtype=torch.float64) + torch.tensor([shift, 0.0])

    def gaussian(a: Tensor, b: Tensor) -> Tensor:
        return torch.exp(-torch.cdist(a, b).square() / 2)

    return gaussian(x, x), gaussian(y, y), gaussian(x, y)


def off_diagonal(K: Tensor) -> Tensor:
    return K - torch.diag_embed(K.diagonal(dim1=1, dim2=2))


def agree_in_the_mean(estimates: Tensor, values: Tensor) -> None:
    """The mean of unbiased estimates of a variance, and the variance of `values`, within 4 standard errors of both."""
    squares = (values - values.mean()).square()
    error = math.hypot(float(estimates.std()), float(squares.std())) / math.sqrt(len(values))
    assert abs(float(estimates.mean() - values.var())) < 4 * error
    assert error < 0.06 * float(values.var())  # or the limit would say nothing


@pytest.mark.parametrize("shift", [0.0, 0.8])
@pytest.mark.parametrize(("n", "m"), [(8, 8), (6, 12)])
def test_variance_terms_have_the_variance_of_mmd2(n: int, m: int, shift: float):
    xx, yy, xy = drawn(n, m, shift=shift)
    xx, yy = off_diagonal(xx), off_diagonal(yy)
    values = mmd2_unbiased(xx.sum((1, 2)), yy.sum((1, 2)), xy.sum((1, 2)), n, m)
    estimates = []
    for a, b, c in zip(xx, yy, xy, strict=True):
        squares = torch.tensor([[a.square().sum(), c.square().sum()], [c.square().sum(), b.square().sum()]])
        t = variance_terms(torch.stack([a.sum(1), c.sum(1)], 1), torch.stack([c.sum(0), b.sum(1)], 1), squares)
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
