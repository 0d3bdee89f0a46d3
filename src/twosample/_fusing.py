"""From several statistics to one: values of many rows, fused over all labellings.

Rows are statistics (a kernel, a view), columns the B + 1 labellings, the observed one among them.
Every function here treats the labellings alike: in whatever order they come, each gets the same
value. If P = Q, the observed one then is as likely as any other to have the largest value, and its
rank gives an exact p-value.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import torch
from torch import Tensor

from .errors import InputError

Moments: TypeAlias = tuple[Tensor, Tensor]
"""(R, 1) means and variances of rows."""

_AT_ONCE = 2**16  # values that a core's cache holds, with what is made of them
_LEAST_SHAPE = 0.25  # half of one degree of freedom's; below it the error of -log p exceeds 4 %
_NEAR_THE_MEAN = 1e-3  # relative distance within which a series takes the place of 0 / 0
_LEAST_RATIO = 1e-20  # of a value to its mean: what is smaller is 0 but for rounding
_QUANTILE = 0.8  # of maxima, beyond which their tail is measured
_EXCESSES = 500  # of 1, with which the mean excess of a tail starts
_TIE = 1e-9  # surprises that differ by less are equal but for rounding
# A row whose variance is this small beside its squared mean is constant. So is, nearly, every T of
# more features than points with little regularisation; what is left varies by rounding.
_CONSTANT = 1e-14
_ROUNDING = 1e-12  # of the largest value of a row, whatever its own resolution


def snapped(values: Tensor, resolution: Tensor) -> Tensor:
    """(R, B + 1) values in which those that differ by rounding only are equal.

    `resolution` has the rounding error of each row, (R,). Functions of the values then have the
    ties that exact arithmetic has.
    """
    in_order, places = values.sort(dim=1)
    largest = in_order.abs().amax(1, keepdim=True)
    rounding = _ROUNDING * largest
    tolerance = torch.maximum(resolution[:, None], rounding)
    # A group of equal values starts where the step from the value before is no rounding.
    steps = in_order.diff(dim=1)
    starts = torch.ones_like(in_order, dtype=torch.bool)
    starts[:, 1:] = steps > tolerance
    numbers = torch.arange(values.shape[1])
    numbers = numbers.expand_as(places)
    firsts = torch.where(starts, numbers, 0)
    first = firsts.cummax(1).values  # the place where each value's group starts
    equal = in_order.gather(1, first)
    # Back to the labellings that the values came from.
    by_labelling = torch.empty_like(values)
    return by_labelling.scatter_(1, places, equal)


def smallest_rank(values: Tensor, weights: Tensor) -> Tensor:
    """(B + 1,) minus the logarithm of the smallest p-value over rows, each over its row's weight.

    The p-value of labelling b in row r is the share of labellings that reach its value,

        p_rb = #{b' : v_rb' >= v_rb} / (B + 1),

    so that ties count against it. [Schrab2023] rejects where p_rb <= u w_r in any row, with the u
    that gives the test its level; -log min_r p_rb / w_r orders the labellings in the same way.

    Parameters
    ----------
    values
        (R, B + 1).
    weights
        (R,) positive; rows of equal weight count alike.
    """
    labellings = values.shape[1]
    in_order = values.sort(dim=1).values
    below = torch.searchsorted(in_order, values.contiguous())  # (R, B + 1) how many are smaller
    reached = labellings - below
    pvalues = reached.double() / labellings
    weighted = pvalues / weights[:, None]
    smallest = weighted.amin(0)
    return -smallest.log()


def soft_maximum(values: Tensor, sharpness: float) -> Tensor:
    """(B + 1,) the (1/s) log mean_r exp(s v_rb): a mean for small s, the maximum for large ones."""
    rows = len(values)
    log_sum = torch.logsumexp(sharpness * values, 0)
    log_mean = log_sum - math.log(rows)
    return log_mean / sharpness


def surprise(values: Tensor, moments: Moments | None = None) -> Tensor:
    """(R, B + 1) the -log p of each value by a gamma law with the mean and variance of its row.

    Values that are weighted sums of squares are near to a gamma law when P = Q, whatever their
    number of degrees of freedom. -log p makes rows comparable far in the tail, where standardised
    values are not: a value 10 spreads above its mean is common for one degree of freedom, and
    unheard of for a hundred.

    With the shape k = mean^2 / variance and x = k value / mean, p = Q(k, x) by the formula of
    Barndorff-Nielsen, log p = log Phi(-r), where

        r = w + log(u / w) / w,   w = sign(x - k) sqrt(2 (x - k - k log(x / k))),
        u = (x - k) / sqrt(k).

    For shapes of 0.5 and more it is within 0.01 of -log p where that is below 1, and within 1.2 %
    beyond, however far. Shapes below 0.25 are raised to it. A constant row is 0 everywhere.

    Parameters
    ----------
    values
        (R, B + 1), none of them negative.
    moments
        (R, 1) means and variances over all labellings, where they are known. Those of the values
        have noise, which another seed has otherwise.
    """
    smallest = float(values.min())
    if smallest < 0:
        raise InputError(f"a gamma law has no negative values, and {smallest:.3g} is among them.")
    labellings = values.shape[1]
    step = max(1, _AT_ONCE // labellings)
    surprises = torch.empty_like(values)
    for start in range(0, len(values), step):
        rows = slice(start, start + step)
        if moments is None:
            mean, variance = moments_of(values[rows])
        else:
            mean, variance = (each[rows] for each in moments)
        surprises[rows] = gamma_surprise(values[rows], mean, variance)
    return surprises


def moments_of(values: Tensor) -> Moments:
    """(R, 1) means and variances of the values of rows."""
    mean = values.mean(1, keepdim=True)
    variance = values.var(1, keepdim=True, correction=0)
    return mean, variance


def gamma_surprise(values: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """The -log p of values by gamma laws of these means and variances; see `surprise`."""
    least_variance = _CONSTANT * mean.square()
    is_constant = variance <= least_variance
    # Any law does for a constant row, whose surprises are not used.
    one = torch.ones_like(mean)
    mean = torch.where(is_constant, one, mean)
    variance = torch.where(is_constant, one, variance)
    shape = mean.square() / variance
    shape = shape.clamp_min(_LEAST_SHAPE)  # k
    ratio = values / mean
    ratio = ratio.clamp_min(_LEAST_RATIO)  # x / k
    eta, correction = _deviates(ratio)
    root = shape.sqrt()
    r = root * eta + correction / root
    log_p = torch.special.log_ndtr(-r)
    return torch.where(is_constant, 0.0, -log_p)


def _deviates(ratio: Tensor) -> tuple[Tensor, Tensor]:
    """W / sqrt(k), and log(u / w) / w times sqrt(k): neither depends on the shape k."""
    excess = ratio - 1
    # In place: there are as many as rows times labellings, and copies take time.
    half_square = excess - ratio.log()
    eta = half_square.mul_(2).sqrt_()
    eta = eta.copysign_(excess)
    correction = (excess / eta).log_()
    correction = correction.div_(eta)
    # At the mean both are 0 / 0, and near it digits are lost. Series take their place.
    near = excess.abs() < _NEAR_THE_MEAN
    eta_series = excess * (1 - excess / 3)
    correction_series = 1 / 3 - excess / 36
    eta = torch.where(near, eta_series, eta)
    correction = torch.where(near, correction_series, correction)
    return eta, correction


def fuse_kinds(surprises: Tensor, kinds: Tensor, shares: Tensor) -> Tensor:
    """(B + 1,) log(1 + mean 1/p) over kinds of rows, each kind with its share of the level.

    Within a kind the largest surprise counts. How large that is by chance differs from kind to
    kind: with the number of rows, with how they depend on each other, and with their tails. So it
    is measured by its own law, as `by_own_tail` does. Kinds are combined by the mean of 1/p,
    weighted by their shares: one kind with a small p is enough, and several that agree help each
    other.

    Parameters
    ----------
    surprises
        (R, B + 1), as `surprise` gives them.
    kinds
        (R,) the number of each row's kind, from 0 on; every kind has a row.
    shares
        (kinds,) positive.
    """
    maxima = [surprises[kinds == kind].amax(0) for kind in range(len(shares))]
    largest = torch.stack(maxima)
    return combine_kinds(largest, largest, shares)


def combine_kinds(largest: Tensor, reference: Tensor, shares: Tensor) -> Tensor:
    """(B,) the same as `fuse_kinds`, from the (kinds, B) maxima of the kinds.

    `reference` has the (kinds, any) maxima whose tails measure them: the maxima themselves, where
    they are all that there are.
    """
    relative = shares / shares.sum()
    log_shares = relative.log().tolist()
    terms = []
    for kind, log_share in enumerate(log_shares):
        surprises = by_tail(largest[kind], reference[kind])
        terms.append(log_share + surprises)  # log of share / p
    log_mean = torch.logsumexp(torch.stack(terms), 0)
    # Positive for every labelling, so that it can be shared out among points.
    return torch.nn.functional.softplus(log_mean)


def by_own_tail(largest: Tensor) -> Tensor:
    """(B + 1,) the -log p of each maximum by the tail that the maxima have themselves."""
    return by_tail(largest, largest)


def by_tail(largest: Tensor, reference: Tensor) -> Tensor:
    """(B,) the -log p of each maximum M by the tail of other maxima.

    With q the 80 % quantile of the others over the labellings, and e their mean excess over q,

        -log p = log 5 + (M - q) / e,

    which follows their tail and goes beyond it. If surprises were exact, e would be about 1. So the
    mean starts from five hundred excesses of 1, which makes it steadier.
    """
    quantile = reference.quantile(_QUANTILE)
    above = reference - quantile
    # Where values are tied, many are the quantile but for rounding: they exceed nothing.
    exceeding = above[above > _TIE]
    excess = (exceeding.sum() + _EXCESSES) / (len(exceeding) + _EXCESSES)
    return (largest - quantile) / excess - math.log(1 - _QUANTILE)


def step_down(values: Tensor, tolerance: float = 0.0) -> Tensor:
    """(H,) p-values of hypotheses, adjusted by the largest of their values [Westfall1993].

    The hypothesis with the largest observed value is compared with the maximum over all hypotheses,
    the next one with the maximum over those that are left, and so on:

        p_k = max_{i <= k} #{b : max_{h >= i} v_hb >= v_i0} / (B + 1),

    where hypotheses are numbered by their observed values v_h0, the largest first. The observed
    labelling counts itself, so no p-value is 0. Let I be the hypotheses that hold. If no shuffle
    changes the joint distribution of their values, the chance that any of I has a p-value of at
    most alpha is at most alpha: the first of I to be compared is compared with a maximum over all
    of I.

    Parameters
    ----------
    values
        (H, B + 1), the observed labelling first. All rows are on one scale, such as -log p.
    tolerance
        Values that differ by no more are ties, which count.
    """
    hypotheses, labellings = values.shape
    observed = values[:, 0]
    order = observed.argsort(descending=True, stable=True)
    in_order = values[order]
    # Maxima over each hypothesis and those after it: running ones, from the last to the first.
    from_last = in_order.flip(0).cummax(0)
    remaining = from_last.values.flip(0)
    thresholds = in_order[:, :1] - tolerance
    reached = remaining >= thresholds
    # No p-value is below that of a hypothesis compared before.
    counts = reached.sum(1).cummax(0).values
    adjusted = torch.empty(hypotheses, dtype=torch.float64)
    adjusted[order] = counts.double() / labellings
    return adjusted
