"""The mean and the variance of T over all shuffles, in closed form: no shuffle is drawn for them.

With z_s = 1 for the bins that a shuffle puts into X, and t_s their sums along the axes of a view,

    T = sum_a w_a (sum_s z_s t_sa + r_a)^2,

where r are the sums of what stays in X. Every choice of as many bins for X is equally likely.
With centred u_s = t_s - mean t and y_s = z_s - mean z, and with o = r + sum_s z_s mean t, it is
T = Q + L + C, where

    Q = sum_a w_a (sum_s y_s u_sa)^2,   L = 2 sum_s y_s l_s,   l_s = sum_a w_a o_a u_sa,

and C = sum_a w_a o_a^2. L is a sum over a sample without replacement, and the variance of Q is that
of a sum over pairs [KaziAoual1995].
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .._fusing import Moments

FEWEST_BINS = 4
"""Fewer have no variance of this form."""

_VALUES_AT_ONCE = 2**19  # sums along axes, which a core's cache holds


class _Labels(NamedTuple):
    """Which bins are in X, as far as moments depend on it: sums of powers of the centred labels."""

    bins: int  # S
    squares: float  # sum_s y_s^2
    cubes: float
    fourths: float

    @classmethod
    def of(cls, bins: int, in_x: int) -> _Labels:
        in_y = bins - in_x
        both = in_x * in_y
        squares = both / bins
        cubes = both * (in_y - in_x) / bins**2
        fourths = both * (in_x**3 + in_y**3) / bins**4
        return cls(bins, squares, cubes, fourths)


def moments_over_shuffles(
    totals: Tensor,
    weights: Tensor,
    in_x: int,
    staying: Tensor | None = None,
) -> Moments:
    """(rows, 1) the mean and the variance of T, for views times lambdas rows.

    Parameters
    ----------
    totals
        (S, views, axes) the t: sums over the bins that move, four at least.
    weights
        (views, lambdas, axes) the w.
    in_x
        How many of the bins are in X.
    staying
        (views, axes) the r; None if nothing stays, where `totals` sum to 0.
    """
    bins, views, axes = totals.shape
    labels = _Labels.of(bins, in_x)
    step = max(1, _VALUES_AT_ONCE // (bins * axes))
    means = []
    variances = []
    for first in range(0, views, step):
        some = slice(first, first + step)
        of_some = totals[:, some].transpose(0, 1)  # (views, S, axes)
        offset = None
        if staying is not None:
            middle = of_some.mean(1, keepdim=True)
            of_some = of_some - middle
            offset = staying[some] + in_x * middle[:, 0]
        mean, variance = _moments(of_some, weights[some], labels, offset)
        means.append(mean)
        variances.append(variance)
    mean = torch.cat(means).flatten()
    variance = torch.cat(variances).flatten()
    return mean[:, None], variance.clamp_min(0)[:, None]


def _moments(u: Tensor, w: Tensor, labels: _Labels, o: Tensor | None) -> Moments:
    """(views, lambdas) mean and variance, for (views, S, axes) u and (views, lambdas, axes) w."""
    S = labels.bins
    y2 = labels.squares
    own = u.square() @ w.mT  # (views, S, lambdas) of each bin with itself
    trace = own.sum(1)
    squares = own.square().sum(1)
    gram = u.mT @ u  # (views, axes, axes)
    pairs = ((w @ gram.square()) * w).sum(2)  # the squares of all bins with each other

    mean = y2 * trace / (S - 1)
    # [KaziAoual1995] for two centred matrices, one of which is y y'.
    first = 2 * y2**2 * ((S - 1) * pairs - trace.square()) / ((S - 1) ** 2 * (S + 1))
    of_labels = S * (S + 1) * labels.fourths - 3 * (S - 1) * y2**2
    of_bins = S * (S + 1) * squares - (S - 1) * (trace.square() + 2 * pairs)
    second = of_labels * of_bins / ((S + 1) * S * (S - 1) * (S - 2) * (S - 3))
    variance = first + second
    if o is not None:
        shifts = u @ (w * o[:, None]).mT  # (views, S, lambdas)
        of_shifts = 4 * y2 / (S - 1) * shifts.square().sum(1)
        third = S * labels.cubes / ((S - 1) * (S - 2))
        covariance = 2 * third * (own * shifts).sum(1)  # of Q and L
        mean = mean + (w * o[:, None].square()).sum(2)
        variance = variance + of_shifts + 2 * covariance
    return mean, variance
