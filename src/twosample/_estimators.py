"""The equations, as pure functions in the paper's symbols.

X_1 ... X_n and Y_1 ... Y_m are the samples, k the kernel,

    H_ij = k(X_i, X_j) + k(Y_i, Y_j) - k(X_i, Y_j) - k(X_j, Y_i)    and the witness
    w(z) = mean_j k(z, X_j) - mean_j k(z, Y_j).

Sums come in, so nothing here knows how they were made; all arguments broadcast, so one call serves
every shuffle. References: [Liu2020] equations (2) to (5); [Gretton2012] lemma 6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import scipy  # which imports its parts, such as scipy.stats, when they are used
import torch
from torch import Tensor

from ._eigen import eigh

REGULARISER = 1e-8
"""lambda of equation (4), as in all of the paper's experiments."""


def mmd2_unbiased(
    xx: Tensor,
    yy: Tensor,
    xy: Tensor,
    n: int | Tensor,
    m: int | Tensor,
) -> Tensor:
    """MMD^2, the unbiased estimate of minimum variance.

        mean_{i != j} k(X_i, X_j) + mean_{i != j} k(Y_i, Y_j) - 2 mean_ij k(X_i, Y_j)

    `xx` and `yy` are sums *without* their diagonals, `xy` the sum over all n m pairs. n and m may
    be tensors, where labellings have samples of different sizes; a sample of one point has no pairs
    and a mean of 0.
    """
    mean_xx = xx / _ordered_pairs(n)
    mean_yy = yy / _ordered_pairs(m)
    mean_xy = xy / (n * m)
    return mean_xx + mean_yy - 2 * mean_xy


def mmd2_biased(
    xx: Tensor,
    yy: Tensor,
    xy: Tensor,
    n: int | Tensor,
    m: int | Tensor,
) -> Tensor:
    """The squared MMD of the two empirical distributions, never negative.

    `xx` and `yy` are sums *with* their diagonals.
    """
    mean_xx = xx / n**2
    mean_yy = yy / m**2
    mean_xy = xy / (n * m)
    return mean_xx + mean_yy - 2 * mean_xy


def mmd2_paired(
    xx: Tensor,
    yy: Tensor,
    xy: Tensor,
    pairs: Tensor,
    n: int,
) -> Tensor:
    """The U-statistic of equation (2), sum_{i != j} H_ij / (n (n - 1)), for n = m.

    `xx` and `yy` without diagonals, `xy` over all pairs, `pairs` the sum of the dropped terms
    k(X_i, Y_i).
    """
    sum_of_h = xx + yy - 2 * (xy - pairs)
    return sum_of_h / _ordered_pairs(n)


def _ordered_pairs(n: int | Tensor) -> int | Tensor:
    """How many (i, j) with i != j there are among n points."""
    pairs = n * (n - 1)
    return pairs if isinstance(pairs, int) else pairs.clamp_min(1)


def variance_paired(h: Tensor) -> Tensor:
    """sigma^2 of equation (5) without lambda: four times the population variance of h.

    h_i is mean_j H_ij. This is the same number as (4 / n^3) sum_i (sum_j H_ij)^2 - (4 / n^4)
    (sum_ij H_ij)^2, but centred first, so rounding can never make it negative.
    """
    return 4 * h.var(correction=0)


def variance_unpaired(witness_x: Tensor, witness_y: Tensor) -> Tensor:
    """sigma^2 for any n and m, without lambda: (2 n m / (n + m)) (4 Var_x(w) / n + 4 Var_y(w) / m).

    At n = m this is 4 (Var_x(w) + Var_y(w)); equation (5) is smaller by 8 Cov(w(X_i), w(Y_i)), the
    covariance of the pairs, which has expectation zero for independent samples.
    """
    n = len(witness_x)
    m = len(witness_y)
    of_x = 4 * witness_x.var(correction=0)
    of_y = 4 * witness_y.var(correction=0)
    return (of_x / n + of_y / m) * _harmonic_mean(n, m)


def _harmonic_mean(n: int, m: int) -> float:
    """2 n m / (n + m): the size of each of two equal samples that would tell as much."""
    return 2 * n * m / (n + m)


class VarianceTerms(NamedTuple):
    """What the variance of MMD^2 is made of, at any sizes.

    These are unbiased estimates, so any may fall below 0 by chance. With w the witness, and k
    centred under both of its distributions (less E over one point, less E over the other, plus E
    over both), the five terms of the Hoeffding decomposition of MMD^2 are uncorrelated:

        Var[MMD^2] = 4 Var_P(w) / n + 4 Var_Q(w) / m
                     + 2 xx / (n (n - 1)) + 2 yy / (m (m - 1)) + 4 xy / (n m).

    The paper's xi_1 is x + y, and its xi_2 is 2 xi_1 + xx + yy + 2 xy.
    """

    x: Tensor  # Var_P(w(X))
    y: Tensor  # Var_Q(w(Y))
    xx: Tensor  # E[k(X, X')^2], k centred under P and P
    yy: Tensor  # E[k(Y, Y')^2], under Q and Q
    xy: Tensor  # E[k(X, Y)^2], under P and Q


def variance_terms(sums_x: Tensor, sums_y: Tensor, squares: Tensor) -> VarianceTerms:
    """The terms of the variance without bias, from averages over distinct points only.

    n and m must be at least 4. `sums_x` is (n, 2): for each point of X the sums of its kernel
    values with the other points of X and with those of Y. `sums_y` is (m, 2), with X and with the
    other points of Y. `squares` holds the (2, 2) sums of squared values, without k(z, z).
    `products.moments` gives all three.

    Writing A_i, C_i for the columns of `sums_x` and F for `squares`, for example the sum of
    k(X_i, X_j) k(X_i, X_k) over distinct i, j, k is sum A_i^2 - F_xx.
    """
    n = len(sums_x)
    m = len(sums_y)
    if min(n, m) < 4:
        raise ValueError(f"a variance without bias takes 4 points of each sample, not {n} and {m}.")
    # A and C stand at X, with X and with Y; D and B at Y, with X and with Y.
    a, c = sums_x.T
    d, b = sums_y.T
    aa = a @ a
    bb = b @ b
    cc = c @ c
    dd = d @ d
    ac = a @ c
    bd = b @ d
    f_xx = squares[0, 0]
    f_yy = squares[1, 1]
    f_xy = squares[0, 1]
    # How many pairs and triples of distinct points there are in X and in Y.
    n2 = _ordered_pairs(n)
    m2 = _ordered_pairs(m)
    n3 = n2 * (n - 2)
    m3 = m2 * (m - 2)

    # E[k(X, X') k(X, X'')], with Y in the place of X' and X'', and the same for Y.
    x_xx = (aa - f_xx) / n3
    x_xy = ac / (n2 * m)
    x_yy = (cc - f_xy) / (n * m2)
    y_yy = (bb - f_yy) / m3
    y_xy = bd / (m2 * n)
    y_xx = (dd - f_xy) / (m * n2)

    # Products of two expectations: four distinct points. The product of two sums loses the terms
    # in which a point stands twice; those with two such points, lost too often, come back.
    xx = a.sum()
    yy = b.sum()
    xy = c.sum()
    n4 = n3 * (n - 3)
    m4 = m3 * (m - 3)
    xx_xx = (xx * xx - 4 * aa + 2 * f_xx) / n4
    yy_yy = (yy * yy - 4 * bb + 2 * f_yy) / m4
    xx_xy = (xx * xy - 2 * ac) / (n3 * m)
    yy_xy = (yy * xy - 2 * bd) / (m3 * n)
    xy_xy = (xy * xy - cc - dd + f_xy) / (n2 * m2)

    # E[w(X)^2] and (E w(X))^2, and the same for Y.
    square_x = x_xx - 2 * x_xy + x_yy
    square_y = y_yy - 2 * y_xy + y_xx
    mean_x_squared = xx_xx - 2 * xx_xy + xy_xy
    mean_y_squared = yy_yy - 2 * yy_xy + xy_xy
    # E[k^2], each with its mean square over single points taken out.
    k_xx = f_xx / n2
    k_yy = f_yy / m2
    k_xy = f_xy / (n * m)
    return VarianceTerms(
        x=square_x - mean_x_squared,
        y=square_y - mean_y_squared,
        xx=k_xx - 2 * x_xx + xx_xx,
        yy=k_yy - 2 * y_yy + yy_yy,
        xy=k_xy - x_yy - y_xx + xy_xy,
    )


def variance_terms_paired(sums: Tensor, squares: Tensor) -> tuple[Tensor, Tensor]:
    """xi_1 = E[H_12 H_13] - E[H_12]^2 and xi_2 = E[H_12^2] - E[H_12]^2 without bias; n at least 4.

    From R_i = sum_{j != i} H_ij and F = sum_{i != j} H_ij^2, as `products.paired_moments` gives
    them, with averages over distinct indices: sum H_ij H_ik = sum R_i^2 - F and sum H_ij H_kl =
    (sum R_i)^2 - 4 sum R_i^2 + 2 F. 4 xi_1 is sigma^2, of which `variance_paired` is the
    V-statistic.
    """
    n = len(sums)
    if n < 4:
        raise ValueError(f"a variance without bias takes 4 pairs, not {n}.")
    total = sums.sum()
    rows = sums @ sums  # sum R_i^2
    # How many pairs, triples and quadruples of distinct indices there are.
    n2 = _ordered_pairs(n)
    n3 = n2 * (n - 2)
    n4 = n3 * (n - 3)
    mean_squared = (total * total - 4 * rows + 2 * squares) / n4
    of_triples = (rows - squares) / n3
    of_pairs = squares / n2
    xi_1 = of_triples - mean_squared
    xi_2 = of_pairs - mean_squared
    return xi_1, xi_2


def variance_of_mmd2_paired(xi_1: Tensor, xi_2: Tensor, n: int) -> Tensor:
    """Var[MMD^2] of equation (2) at n pairs: (4 (n - 2) xi_1 + 2 xi_2) / (n (n - 1))."""
    of_points = 4 * (n - 2) * xi_1
    of_pairs = 2 * xi_2
    return (of_points + of_pairs) / _ordered_pairs(n)


def power_criterion(mmd2: Tensor, variance: Tensor, regulariser: float) -> Tensor:
    """J = MMD^2 / sqrt(sigma^2 + lambda), equation (4): power grows with it at every level."""
    return mmd2 / torch.sqrt(variance + regulariser)


def asymptotic_power(mmd2: float, deviation: float, threshold: float) -> float:
    """Pr(estimate > threshold), equation (3), for an estimate that is normal around `mmd2`."""
    if deviation <= 0:
        return float(mmd2 > threshold)
    z = (mmd2 - threshold) / deviation
    # Not by `scipy.stats.norm`, which takes a second to import.
    probability = torch.special.ndtr(torch.tensor(z, dtype=torch.float64))
    return float(probability)


def t2_from_whitened(share: Tensor, degrees: int) -> Tensor:
    """Hotelling's T^2 from the share of the total scatter that is between the means.

    With T = W + c d d' the total scatter, W the scatter within and S = W / degrees, Sherman and
    Morrison give c d' S^-1 d = degrees share / (1 - share) where share = c d' T^-1 d, in [0, 1).
    """
    # Rounding can bring the share to 1 where the means differ by far more than the spread.
    rest = (1 - share).clamp_min(torch.finfo(torch.float64).eps)
    return degrees * share / rest


def noncentrality(features_x: Tensor, features_y: Tensor, regulariser: float) -> Tensor:
    """What T^2 grows with for each point: d' (S + lambda I)^-1 d.

    d is the difference of the means and S = (2 n m / (n + m)) (S_x / n + S_y / m). At n = m, S =
    S_x + S_y is the covariance of the differences f(X_i) - f(Y_i) of [Jitkrittum2016] without that
    of the pairs, which has expectation zero for independent samples.
    """
    n = len(features_x)
    m = len(features_y)
    d = features_x.mean(0) - features_y.mean(0)  # (p,)
    harmonic = _harmonic_mean(n, m)
    S_x = _covariance(features_x)
    S_y = _covariance(features_y)
    S = S_x * (harmonic / n) + S_y * (harmonic / m)  # (p, p)
    identity = torch.eye(len(d), dtype=d.dtype, device=d.device)
    solution = torch.linalg.solve(S + regulariser * identity, d)
    value: Tensor = d @ solution
    return value


def _covariance(features: Tensor) -> Tensor:
    centred = features - features.mean(0)
    return centred.T @ centred / len(features)


_RealFunction: TypeAlias = Callable[[float], float]


def two_binomials(
    n: int,
    m: int,
    *,
    two_sided: bool,
) -> tuple[_RealFunction, _RealFunction]:
    """Survival function and threshold of p_x - p_y, shares of heads in n and in m throws.

    The coin is fair. At n = m, (1 + p_x - p_y) / 2 is the accuracy of a classifier that guesses and
    follows the binomial law of 2 n throws [LopezPaz2017]. A coin that is not fair has less spread,
    so its p-values are larger than they need be.
    """
    heads = np.arange(n + 1)
    weights = scipy.stats.binom.pmf(heads, n, 0.5)

    def survival(difference: float) -> float:
        least = abs(difference) if two_sided else difference
        if two_sided and least < 1e-12:
            return 1.0
        # p_y <= p_x - least, for every number of heads in X; 1e-9 forgives rounding at a tie.
        p_x = heads / n
        most = np.floor(m * (p_x - least) + 1e-9)
        given_x = scipy.stats.binom.cdf(most, m, 0.5)
        tail = float(weights @ given_x)
        if two_sided:
            tail = 2 * tail  # symmetric about 0
        return min(1.0, tail)

    def threshold(alpha: float) -> float:
        # By bisection: the law is a step function, which has no inverse in closed form.
        low = -1.0
        high = 1.0 + 1 / max(n, m)
        for _ in range(60):
            middle = (low + high) / 2
            if survival(middle) <= alpha and middle > 0:
                high = middle
            else:
                low = middle
        return high

    return survival, threshold


def balanced_accuracy(scores_x: Tensor, scores_y: Tensor) -> float:
    """The accuracy of a classifier when both samples weigh the same.

    (Pr(score > 0 on X) + Pr(score <= 0 on Y)) / 2
    """
    right_on_x = (scores_x > 0).double().mean()
    right_on_y = (scores_y <= 0).double().mean()
    return float(right_on_x + right_on_y) / 2


def area_under_curve(scores_x: Tensor, scores_y: Tensor) -> float:
    """Pr(a score of X > a score of Y) + Pr(equal) / 2, from ranks."""
    ordered = scores_y.sort().values
    below = torch.searchsorted(ordered, scores_x, right=False).double()
    up_to = torch.searchsorted(ordered, scores_x, right=True).double()
    # A tie is in one of the two, so it counts half.
    mean = float((below + up_to).mean())
    return mean / (2 * len(scores_y))


def noncentrality_at_most(values: Tensor, degrees: Tensor, alpha: float) -> Tensor:
    """Upper bounds, with error alpha, for the noncentrality of values of chi-squared laws.

    The bound is the noncentrality with which a value so small has a chance of alpha; 0 where even
    without any it is rarer.
    """
    bounds = scipy.special.chndtrinc(values.numpy(), degrees.numpy(), alpha)
    rare = scipy.special.chdtr(degrees.numpy(), values.numpy()) <= alpha
    return torch.from_numpy(np.where(rare, 0.0, bounds))


def covariance_paired(h: Tensor) -> Tensor:
    """A with w'Aw = sigma^2 of sum_l w_l k_l, from the (n, L) means h of each kernel.

    See `variance_paired`.
    """
    centred = h - h.mean(0)
    return 4 * centred.T @ centred / len(h)


def covariance_unpaired(witness_x: Tensor, witness_y: Tensor) -> Tensor:
    """The same for any n and m, from the (n, L) and (m, L) witnesses of each kernel.

    See `variance_unpaired`.
    """
    n = len(witness_x)
    m = len(witness_y)
    of_x = covariance_paired(witness_x)
    of_y = covariance_paired(witness_y)
    return (of_x / n + of_y / m) * _harmonic_mean(n, m)


def mkl_weights(
    b: Tensor,
    A: Tensor,
    regulariser: float,
    *,
    total: float = 1.0,
    penalty: Literal["exact", "ridge"] = "exact",
) -> Tensor:
    """The weights w >= 0, adding up to Q = `total`, that maximise J of sum_l w_l k_l.

    [Liu2020], multiple kernels. b holds the L values of MMD^2 and A, (L, L), the covariances: MMD^2
    is b'w and sigma^2 is w'Aw. On the weights that add up to Q, lambda is (lambda / Q^2) (1'w)^2,
    so J depends on the direction of w only, and the best one solves

        minimise w'Mw over w >= 0 with b'w = 1,    M = A + (lambda / Q^2) 11'.

    With the penalty "ridge", M = A + lambda I as the paper's proposition has it, which maximises a
    J whose lambda grows with |w|^2. Where no kernel has an MMD^2 above 0, the program has no
    solution: the one kernel with the largest b_l / sqrt(M_ll) gets all the weight.
    """
    b = b.double().cpu()
    A = A.double().cpu()
    count = len(b)
    if penalty == "ridge":
        added = torch.eye(count, dtype=torch.float64)
    else:
        added = torch.full((count, count), total**-2, dtype=torch.float64)
    M = A + regulariser * added
    tiny = torch.finfo(torch.float64).tiny
    scale = M.diagonal().clamp_min(tiny).sqrt()
    alone = b / scale  # J of each kernel by itself
    best = int(alone.argmax())
    if alone[best] > 0:
        w = _program(alone / alone[best], M / torch.outer(scale, scale)) / scale
    else:
        w = torch.zeros_like(b)
        w[best] = 1.0
    return w * (total / w.sum())


def _program(b: Tensor, M: Tensor) -> Tensor:
    """The direction of the w that minimises w'Mw over w >= 0 with b'w = 1.

    For any C'C = M and c > 0, the minimiser of |C w|^2 + c (b'w - 1)^2 over w >= 0 has that
    direction: along a ray with b'u = 1 and q = u'Mu, the least value is c q / (c + q), which grows
    with q. So it is least squares, for singular M too (two kernels alike). Here c = 1, for b and M
    of order one.
    """
    values, vectors = eigh(M)
    roots = values.clamp_min(0).sqrt()  # rounding can take an eigenvalue of 0 below it
    C = roots[:, None] * vectors.T
    rows = torch.cat([C, b[None]]).numpy()
    goal = np.zeros(len(rows))
    goal[-1] = 1.0
    w, _ = scipy.optimize.nnls(rows, goal, maxiter=100 * len(b) + 100)
    return torch.from_numpy(w)
