"""What the values of a test would be if the difference that was seen were there, or larger.

Without a difference, T = sum_i w_i e_i^2 in every labelling, where the e_i are differences of means
by chance. With a difference d_i along the axes it is

    sum_i w_i (u d_i + e_i)^2 = u^2 sum_i w_i d_i^2 + 2 u sum_i w_i d_i e_i + sum_i w_i e_i^2.

So the labellings are draws of what chance does, to all views at once, and the difference is planted
into each of them. In samples of other sizes the e_i are smaller or larger. Relative to them it is
the factor u that grows with the sizes, as 1 / sqrt(1/n + 1/m).

Weights that hold the inverse of the pooled covariance C shrink as the difference grows, since C
contains it: by k (d + e)(d + e)', with k = n m / (n + m)^2, where it contained k e e'. With many
axes and few points this is what counts most. Two updates of rank one give

    T = h / (1 + k h),   h = a + k b^2 / (1 - k q),

where a is the sum above, q = sum_i w_i e_i^2 and b = u sum_i w_i d_i e_i + q.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .._fusing import combine_kinds, gamma_surprise

_LEAST_REST = 1e-9  # it is 0 where some feature is the label itself
_HIDDEN = 0.1  # spreads of T: what may hide in a row whose value is no larger than by chance


def rest(values: Tensor, inner: Tensor) -> Tensor:
    """1 - k T: the share of the labels that a row's features do not explain."""
    unexplained = 1 - inner * values
    return unexplained.clamp_min(_LEAST_REST)


def shrinkage(observed: Tensor, noise: Tensor, inner: Tensor) -> Tensor:
    """(K, 1) which share of the (K, 1) observed values is a difference and not chance.

    `noise` has (K, B) values without a difference, and `inner` the k of each row, (K, 1).
    """
    if not len(observed):  # PyTorch warns of the spread of nothing
        return observed
    by_chance = noise / rest(noise, inner)
    mean = by_chance.mean(1, keepdim=True)
    spread = by_chance.std(1, keepdim=True)
    # T is too large by its mean without a difference. Less than that is no difference, but may
    # hide a small one.
    excess = observed / rest(observed, inner) - mean
    gain = torch.maximum(excess, _HIDDEN * spread)
    return torch.where(observed > 0, gain / observed, 0.0)


@dataclass(frozen=True, eq=False)
class PlantedStack:
    """The rows of one stack of views, with a difference planted into the loudest of them."""

    kind: int
    gain: Tensor  # (K, 1) sum_i w_i d_i^2
    cross: Tensor  # (K, B) sum_i w_i d_i e_i
    noise: Tensor  # (K, B) sum_i w_i e_i^2
    inner: Tensor  # (K, 1) the k above; 0 where weights do not depend on the covariance
    mean: Tensor  # (K, 1) of the noise
    variance: Tensor  # (K, 1)
    others: Tensor  # (B,) the largest surprise over rows without a planted difference
    largest: Tensor  # (B,) the largest over all rows, without any difference
    observed: float  # the largest surprise of the observed labelling

    def surprise(self, factor: float) -> Tensor:
        """(B,) the largest surprise with a difference `factor` times as large."""
        if not len(self.gain):
            return self.others
        cross = factor * self.cross
        gain = factor**2 * self.gain
        total = gain + 2 * cross + self.noise  # a
        squares = (cross + self.noise).square()  # b^2
        unexplained = rest(self.noise, self.inner)  # 1 - k q
        within = total + self.inner * squares / unexplained  # h
        within = within.clamp_min(0)  # a sum of squares, but for rounding
        values = within / (1 + self.inner * within)  # T
        surprises = gamma_surprise(values, self.mean, self.variance)
        return torch.maximum(surprises.amax(0), self.others)


class Planted:
    """The values of a fused statistic over labellings, with a difference of any size planted.

    Attributes
    ----------
    observed
        The value of the observed labelling, measured by the tails of the others.
    """

    def __init__(self, stacks: list[PlantedStack], shares: Tensor) -> None:
        self._stacks = stacks
        self._shares = shares
        without = [stack.largest for stack in stacks]
        self._reference = self._by_kind(without)
        observed = [torch.tensor([stack.observed], dtype=torch.float64) for stack in stacks]
        self.observed = float(self._fused(observed))

    @classmethod
    def of_one(cls, observed: Tensor, cross: Tensor, noise: Tensor) -> Planted:
        """For one squared difference that is not weighed: (1, 1) observed, (1, B) by chance.

        `cross` are (1, B) inner products of the observed difference and those by chance.
        """
        inner = torch.zeros(1, 1, dtype=torch.float64)
        kept = shrinkage(observed, noise, inner)
        mean = noise.mean(1, keepdim=True)
        variance = noise.var(1, keepdim=True)
        stack = PlantedStack(
            kind=0,
            gain=kept * observed,
            cross=kept.sqrt() * cross,
            noise=noise,
            inner=inner,
            mean=mean,
            variance=variance,
            others=torch.zeros(noise.shape[1], dtype=torch.float64),
            largest=gamma_surprise(noise, mean, variance)[0],
            observed=float(gamma_surprise(observed, mean, variance)),
        )
        return cls([stack], torch.ones(1, dtype=torch.float64))

    def values(self, factor: float) -> Tensor:
        """(B,) one for each labelling, with the estimated difference times `factor`."""
        surprises = [stack.surprise(factor) for stack in self._stacks]
        return self._fused(surprises)

    def _fused(self, surprises: list[Tensor]) -> Tensor:
        """(B,) from (B,) surprises of each stack, measured without a difference."""
        largest = self._by_kind(surprises)
        return combine_kinds(largest, self._reference, self._shares)

    def _by_kind(self, surprises: list[Tensor]) -> Tensor:
        """(kinds, B) the largest over the stacks of each kind."""
        largest = []
        for kind in range(len(self._shares)):
            pairs = zip(self._stacks, surprises, strict=True)
            members = [surprise for stack, surprise in pairs if stack.kind == kind]
            largest.append(torch.stack(members).amax(0))
        return torch.stack(largest)
