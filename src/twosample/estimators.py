"""The equations, as pure functions in the paper's symbols.

X_1 ... X_n and Y_1 ... Y_m are the samples, k the kernel,

    H_ij = k(X_i, X_j) + k(Y_i, Y_j) - k(X_i, Y_j) - k(X_j, Y_i)    and the witness
    w(z) = mean_j k(z, X_j) - mean_j k(z, Y_j).

Sums come in, so nothing here knows how they were made; all arguments broadcast, so one call serves every shuffle.
References: [Liu2020] equations (2) to (5); [Gretton2012] lemma 6.
"""

from __future__ import annotations

import torch
from torch import Tensor

REGULARISER = 1e-8
"""lambda of equation (4), as in all of the paper's experiments."""


def mmd2_unbiased(xx: Tensor, yy: Tensor, xy: Tensor, n: int, m: int) -> Tensor:
    """MMD^2, minimum variance unbiased: mean_{i != j} k(X_i, X_j) + mean_{i != j} k(Y_i, Y_j) - 2 mean_ij k(X_i, Y_j).

    `xx` and `yy` are sums *without* their diagonals, `xy` the sum over all n m pairs.
    """
    return xx / (n * (n - 1)) + yy / (m * (m - 1)) - 2 * xy / (n * m)


def mmd2_biased(xx: Tensor, yy: Tensor, xy: Tensor, n: int, m: int) -> Tensor:
    """The squared MMD of the two empirical distributions, never negative; `xx` and `yy` *with* their diagonals."""
    return xx / n**2 + yy / m**2 - 2 * xy / (n * m)


def mmd2_paired(xx: Tensor, yy: Tensor, xy: Tensor, pairs: Tensor, n: int) -> Tensor:
    """The U-statistic of equation (2), sum_{i != j} H_ij / (n (n - 1)), for n = m.

    `xx` and `yy` without diagonals, `xy` over all pairs, `pairs` the sum of the dropped terms k(X_i, Y_i).
    """
    return (xx + yy - 2 * (xy - pairs)) / (n * (n - 1))


def variance_paired(h: Tensor) -> Tensor:
    """sigma^2 of equation (5) without lambda, from h_i = mean_j H_ij: four times their population variance.

    The same number as (4 / n^3) sum_i (sum_j H_ij)^2 - (4 / n^4) (sum_ij H_ij)^2, but centred first, so rounding can
    never make it negative.
    """
    return 4 * h.var(correction=0)


def variance_unpaired(witness_x: Tensor, witness_y: Tensor) -> Tensor:
    """sigma^2 for any n and m, without lambda: (2 n m / (n + m)) (4 Var_x(w) / n + 4 Var_y(w) / m).

    At n = m this is 4 (Var_x(w) + Var_y(w)); equation (5) is smaller by 8 Cov(w(X_i), w(Y_i)), the covariance of the
    pairs, which has expectation zero for independent samples.
    """
    n, m = len(witness_x), len(witness_y)
    spread = 4 * witness_x.var(correction=0) / n + 4 * witness_y.var(correction=0) / m
    return spread * (2 * n * m / (n + m))


def power_criterion(mmd2: Tensor, variance: Tensor, regulariser: float) -> Tensor:
    """J = MMD^2 / sqrt(sigma^2 + lambda), equation (4): the test's power grows with it at every level."""
    return mmd2 / torch.sqrt(variance + regulariser)


def asymptotic_power(mmd2: float, deviation: float, threshold: float) -> float:
    """Pr(estimate > threshold) for an estimate that is normal around `mmd2` with this deviation, equation (3)."""
    if deviation <= 0:
        return float(mmd2 > threshold)
    return float(torch.special.ndtr(torch.tensor((mmd2 - threshold) / deviation, dtype=torch.float64)))


def balanced_accuracy(scores_x: Tensor, scores_y: Tensor) -> float:
    """(Pr(score > 0 on X) + Pr(score <= 0 on Y)) / 2: the accuracy of a classifier when both samples weigh the same."""
    return float((scores_x > 0).double().mean() + (scores_y <= 0).double().mean()) / 2


def area_under_curve(scores_x: Tensor, scores_y: Tensor) -> float:
    """Pr(a score of X > a score of Y) + Pr(equal) / 2, from ranks."""
    ordered = scores_y.sort().values
    below, up_to = (torch.searchsorted(ordered, scores_x, right=right).double() for right in (False, True))
    return float((below + up_to).mean()) / (2 * len(scores_y))
