"""The weights of a sum of kernels that maximise J: against a grid, against the conditions of an
optimum, at edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from bank import (
    naive_h,
    naive_matrix,
    naive_mmd2_paired,
    naive_mmd2_unbiased,
    naive_witness,
    points,
    seeded,
)
from twosample._estimators import (
    covariance_paired,
    covariance_unpaired,
    mkl_weights,
    variance_paired,
    variance_unpaired,
)
from twosample._kernels import (
    DeepKernel,
    Gaussian,
    InverseMultiquadric,
    Kernel,
    Laplace,
    Linear,
    OnFeatures,
    WeightedSum,
)
from twosample._objectives import PowerCriterion

Penalty = Literal["exact", "ridge"]
every_penalty = pytest.mark.parametrize("penalty", ["exact", "ridge"])
every_size = pytest.mark.parametrize(
    ("sizes", "paired"),
    [((12, 12), True), ((12, 12), False), ((14, 9), True)],
    ids=["pairs", "n = m", "n > m"],
)
GRID = (
    torch.tensor(
        [(i, j, 100 - i - j) for i in range(101) for j in range(101 - i)], dtype=torch.float64
    )
    / 100
)


def two_samples(n: int, m: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """A difference in spread: kernels of several bandwidths see it, none sees all of it."""
    return points(n, seed=seed), 2 * points(m, seed=seed + 1)


def three(total: float = 1.0) -> WeightedSum:
    return WeightedSum([Gaussian(0.6), Laplace(1.5), Gaussian(3.0)], [total / 3] * 3).double()


def naive_b_and_A(  # noqa: N802
    kernels: Sequence[Kernel], x: Tensor, y: Tensor, paired: bool
) -> tuple[Tensor, Tensor]:
    """Section A10 of the reference, from double loops; for other sizes what the variance of the
    witness makes of it."""
    n, m = len(x), len(y)
    of_x, of_y = range(n), range(n, n + m)
    matrices = [naive_matrix(kernel, torch.cat([x, y])).tolist() for kernel in kernels]
    if paired:
        b = [naive_mmd2_paired(K, of_x, of_y) for K in matrices]
        rows = torch.tensor([naive_h(K, of_x, of_y) for K in matrices], dtype=torch.float64).sum(
            2
        )  # (L, n)
        total = rows.sum(1)
        return torch.tensor(
            b, dtype=torch.float64
        ), 4 / n**3 * rows @ rows.T - 4 / n**4 * torch.outer(total, total)
    b = [naive_mmd2_unbiased(K, of_x, of_y) for K in matrices]
    w = torch.tensor([naive_witness(K, of_x, of_y) for K in matrices], dtype=torch.float64)
    A = sum(torch.cov(part, correction=0) * 4 / part.shape[1] for part in (w[:, :n], w[:, n:]))
    return torch.tensor(b, dtype=torch.float64), A * (2 * n * m / (n + m))


def regularised(A: Tensor, regulariser: float, penalty: Penalty, total: float = 1.0) -> Tensor:
    added = torch.eye(len(A)) if penalty == "ridge" else torch.ones(len(A), len(A)) / total**2
    return A + regulariser * added.double()


def objective(w: Tensor, b: Tensor, M: Tensor) -> Tensor:
    """b'w / sqrt(w'Mw) for weights in the rows of w."""
    return (w @ b) / ((w @ M) * w).sum(-1).sqrt()


def check_optimality(w: Tensor, b: Tensor, M: Tensor, tolerance: float = 1e-9) -> None:
    """Karush, Kuhn and Tucker, for w scaled so that b'w = w'Mw: Mw - b >= 0, and = 0 wherever w >
    0."""
    assert (w >= 0).all()
    u = w * (b @ w) / (w @ M @ w)
    gradient = M @ u - b
    size = float(b.abs().max())
    assert float(gradient.min()) > -tolerance * size
    assert float((gradient * u).abs().max()) < tolerance * size * float(u.max())


# The quantities


@every_size
def test_j_of_a_sum_is_the_quotient_that_the_program_maximises(
    sizes: tuple[int, int], paired: bool
):
    x, y = two_samples(*sizes)
    kernel, criterion = three(), PowerCriterion(paired=paired, regulariser=1e-3)
    b, A = naive_b_and_A(kernel.kernels, x, y, paired and len(x) == len(y))
    for weights in GRID[::1000]:
        kernel.set_weights(weights)
        w = kernel.weights
        expected = (b @ w) / torch.sqrt(w @ A @ w + 1e-3)
        assert criterion(kernel, x, y).item() == pytest.approx(expected.item(), rel=1e-9)


def test_covariances_of_one_kernel_are_its_variance():
    h, w = points(9, columns=4), points(5, columns=4, seed=1)
    for column in range(4):
        found = covariance_paired(h)[column, column], covariance_unpaired(h, w)[column, column]
        expected = variance_paired(h[:, column]), variance_unpaired(h[:, column], w[:, column])
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)


# Against a grid


@every_penalty
@every_size
@pytest.mark.parametrize("regulariser", [1e-8, 1e-2])
def test_no_weights_on_a_fine_grid_are_better(
    sizes: tuple[int, int], paired: bool, penalty: Penalty, regulariser: float
):
    x, y = two_samples(*sizes)
    kernel, criterion = three(), PowerCriterion(regulariser, paired, penalty)
    b, A = naive_b_and_A(kernel.kernels, x, y, paired and len(x) == len(y))
    M = regularised(A, regulariser, penalty)
    w = criterion.best_weights(kernel, x, y)
    assert w.dtype == torch.float64 and float(w.sum()) == pytest.approx(1)
    check_optimality(w, b, M)
    values = objective(GRID, b, M)
    assert float(values.max() - objective(w, b, M)) < 1e-9
    assert float((GRID[values.argmax()] - w).abs().max()) < 0.03
    if penalty == "exact":  # J itself, at the weights as the kernel holds them
        kernel.set_weights(w)
        assert criterion(kernel, x, y).item() >= float(values.max()) - 1e-9


@every_penalty
@pytest.mark.parametrize("seed", range(6))
def test_weights_that_are_zero_at_the_optimum(seed: int, penalty: Penalty):
    """Small samples, where most kernels help nothing: the optimum lies on an edge or in a corner of
    the simplex."""
    x, y = two_samples(8, 6, seed=10 * seed)
    kernel = WeightedSum([Gaussian(0.3), Gaussian(1.0), Linear()]).double()
    b, A = naive_b_and_A(kernel.kernels, x, y, paired=False)
    w = PowerCriterion(1e-4, penalty=penalty).best_weights(kernel, x, y)
    M = regularised(A, 1e-4, penalty)
    assert (w == 0).any()
    check_optimality(w, b, M)
    assert float(objective(GRID, b, M).max() - objective(w, b, M)) < 1e-9


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 8),
    st.integers(1, 10),
    st.sampled_from(["exact", "ridge"]),
)
def test_no_random_weights_are_better(seed: int, kernels: int, rank: int, penalty: Penalty):
    """A of any rank, with kernels of very different sizes, and b that need not be in its range."""
    made = seeded(seed)
    factor = torch.randn(rank, kernels, generator=made, dtype=torch.float64)
    factor = factor * 10 ** torch.randn(kernels, generator=made, dtype=torch.float64)
    b = torch.randn(kernels, generator=made, dtype=torch.float64) + 0.5
    A, total = factor.T @ factor, 3.0
    w = mkl_weights(b, A, 1e-6, total=total, penalty=penalty)
    assert (w >= 0).all() and float(w.sum()) == pytest.approx(total)
    if (b > 0).any():
        M = regularised(A, 1e-6, penalty, total)
        others = -torch.rand(200, kernels, generator=made, dtype=torch.float64).log()
        others = torch.cat([others, others * w, torch.eye(kernels, dtype=torch.float64)])
        value = float(objective(w, b, M))
        assert float(objective(others, b, M).max()) <= value * (1 + 1e-9)


# Identities


@every_penalty
@pytest.mark.parametrize("total", [1.0, 2.5])
def test_one_kernel_gets_all_the_weight(total: float, penalty: Penalty):
    x, y = two_samples(12, 12)
    kernel = WeightedSum([Gaussian(1.0)], [total]).double()
    w = PowerCriterion(penalty=penalty).best_weights(kernel, x, y)
    assert w.item() == pytest.approx(total)
    assert PowerCriterion(0.0)(kernel, x, y).item() == pytest.approx(
        PowerCriterion(0.0)(Gaussian(1.0).double(), x, y).item(), rel=1e-9
    )


def test_the_weights_keep_their_sum_and_lambda_knows_it():
    """The best weights that add up to 5 are 5 times those that add up to 1 with lambda / 25."""
    x, y = two_samples(14, 9)
    wide = PowerCriterion(1e-2).best_weights(three(5.0), x, y)
    narrow = PowerCriterion(1e-2 / 25).best_weights(three(), x, y)
    assert float(wide.sum()) == pytest.approx(5)
    torch.testing.assert_close(wide / 5, narrow, rtol=1e-6, atol=1e-8)


def test_the_weights_do_not_depend_on_those_before():
    x, y = two_samples(14, 9)
    kernel, before = three(), PowerCriterion().best_weights(three(), x, y)
    kernel.set_weights([1.0, 0.0, 0.0])
    torch.testing.assert_close(
        PowerCriterion().best_weights(kernel, x, y), before, rtol=1e-6, atol=1e-9
    )


def test_the_order_of_the_kernels_does_not_matter():
    x, y = two_samples(12, 12)
    kernel = three()
    turned = WeightedSum(list(kernel.kernels)[::-1]).double()
    w, other = (PowerCriterion().best_weights(each, x, y) for each in (kernel, turned))
    torch.testing.assert_close(w, other.flip(0), rtol=1e-6, atol=1e-9)


def test_both_penalties_agree_at_the_papers_lambda_and_not_at_a_large_one():
    x, y = two_samples(20, 20)
    small, large = (
        [
            PowerCriterion(regulariser, penalty=p).best_weights(three(), x, y)
            for p in ("exact", "ridge")
        ]
        for regulariser in (1e-8, 1e-2)
    )
    torch.testing.assert_close(*small, rtol=0, atol=1e-4)
    assert float((large[0] - large[1]).abs().max()) > 1e-2


def test_they_beat_equal_weights_and_every_kernel_alone():
    x, y = (z.float() for z in two_samples(150, 120))
    kernel = WeightedSum(
        [Gaussian(factor=2.0**k) for k in range(-3, 3)] + [InverseMultiquadric(), Laplace()]
    )
    kernel.start(torch.cat([x, y]), seeded())
    criterion = PowerCriterion()
    with torch.no_grad():
        others = [float(criterion(each, x, y)) for each in (kernel, *kernel.kernels)]
        kernel.set_weights(criterion.best_weights(kernel, x, y))
        assert float(criterion(kernel, x, y)) >= max(others)


# Edges


@every_penalty
def test_without_any_sign_of_a_difference_the_best_single_kernel_is_taken(penalty: Penalty):
    b, variances = (
        torch.tensor([-0.3, -0.01, -0.02]).double(),
        torch.tensor([9.0, 1e-4, 1.0]).double(),
    )
    w = mkl_weights(b, torch.diag(variances), 1e-8, total=2.0, penalty=penalty)
    assert w.tolist() == [0, 0, 2]  # -0.02 against -0.1 and -1


def test_points_that_are_the_same_in_both_samples_take_the_fallback():
    x = points(10)
    kernel = three()
    b, A = naive_b_and_A(kernel.kernels, x, x, paired=False)
    assert (b < 0).all()
    w = PowerCriterion(paired=False).best_weights(kernel, x, x)
    assert sorted(w.tolist()) == [0, 0, pytest.approx(1)]
    assert int(w.argmax()) == int((b / (A.diagonal() + 1e-8).sqrt()).argmax())


@every_penalty
@every_size
def test_kernels_that_are_alike_make_a_singular_matrix_and_do_no_harm(
    sizes: tuple[int, int], paired: bool, penalty: Penalty
):
    x, y = two_samples(*sizes)
    criterion = PowerCriterion(paired=paired, penalty=penalty)
    twice = WeightedSum(
        [Gaussian(0.6), Laplace(1.5), Gaussian(0.6), Gaussian(3.0), Laplace(1.5)]
    ).double()
    w, expected = (criterion.best_weights(kernel, x, y) for kernel in (twice, three()))
    merged = torch.stack([w[0] + w[2], w[1] + w[4], w[3]])
    if penalty == "exact":
        torch.testing.assert_close(merged, expected, rtol=1e-4, atol=1e-6)
    else:  # which spreads weight over copies, for a lambda that counts them twice
        torch.testing.assert_close(merged, expected, rtol=0, atol=1e-2)


def test_more_kernels_than_points():
    x, y = two_samples(4, 4)
    kernel = WeightedSum([Gaussian(0.3 * 1.5**k) for k in range(9)]).double()
    b, A = naive_b_and_A(kernel.kernels, x, y, paired=True)
    criterion = PowerCriterion(1e-6)
    w = criterion.best_weights(kernel, x, y)
    M = regularised(A, 1e-6, "exact")
    others = -torch.rand(1000, 9, generator=seeded(), dtype=torch.float64).log()
    assert float(objective(others, b, M).max()) <= float(objective(w, b, M)) * (1 + 1e-9)


def test_a_kernel_without_variance_and_lambda():
    b, A = torch.tensor([0.5, 0.1]).double(), torch.tensor([[1.0, 0.0], [0.0, 0.0]]).double()
    w = mkl_weights(b, A, 0.0)
    assert torch.isfinite(w).all() and float(w[1]) == pytest.approx(1)


def test_networks_run_once_and_only_tiles_are_held():
    """One embedding for the whole sum; with a memory for tiles of 6 rows the weights are the
    same."""

    class Counting(nn.Module):
        calls = 0

        def forward(self, z: Tensor) -> Tensor:
            self.calls += 1
            return 2 * z

    x, y = two_samples(30, 25)
    net, other = Counting(), Counting()
    kernel = WeightedSum(
        [OnFeatures(net, Gaussian(1.0)), DeepKernel(other, Gaussian(0.5), Gaussian(2.0))]
    ).double()
    w = PowerCriterion().best_weights(kernel, x, y)
    assert (net.calls, other.calls) == (1, 1)
    torch.testing.assert_close(
        PowerCriterion().best_weights(kernel, x, y, memory=4000), w, rtol=1e-6, atol=1e-9
    )
    assert not w.requires_grad
