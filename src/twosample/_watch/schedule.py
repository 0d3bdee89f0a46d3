"""Exact tests on days that are known in advance: the level is spent, a part of it at each look.

If look k rejects where its p-value is at most a_k, and the a_k sum to alpha, the chance of any
false alarm is at most alpha, whatever the looks have in common: they may all test the rows so far.
If each look tests rows of its own, the chance is 1 - prod (1 - a_k), and the a_k may be a little
larger.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .._checks import check_alpha, check_whole
from ..errors import InputError


@dataclass(frozen=True)
class Schedule:
    """The levels of exact tests on days that are known in advance: alpha spending.

    The simple alternative to `Watch`: better if there are few looks and their number is certain,
    worse if there are many or if somebody may look once more. docs/watching.md has a picture.

    Parameters
    ----------
    looks
        How many tests there will be.
    alpha
        The chance of any false alarm over all of them.
    shape
        By look k of K, a share (k / K) ** shape of alpha is spent: 1 for the same at each look, 3
        for more at later looks, when there are more rows.
    independent
        Whether each look tests rows of its own, which no other look sees.

    Examples
    --------
    >>> import twosample
    >>> schedule = twosample.Schedule(looks=30, alpha=0.05)
    >>> round(schedule.level(1), 6), schedule.permutations(1)
    (0.001667, 2999)
    """

    looks: int
    alpha: float = 0.05
    shape: float = 1.0
    independent: bool = False

    def __post_init__(self) -> None:
        check_whole("looks", self.looks, 1)
        check_alpha(self.alpha)
        if not 0 < self.shape < math.inf:
            raise InputError(f"shape is {self.shape}; give a number above 0, such as 1 or 3.")

    @property
    def levels(self) -> tuple[float, ...]:
        """The level of each look: it rejects where its p-value is at most this."""
        return tuple(self.level(look) for look in range(1, self.looks + 1))

    def level(self, look: int) -> float:
        """The level of one look, from 1 on."""
        check_whole("look", look, 1)
        if look > self.looks:
            raise InputError(
                f"look {look} is not planned: the level is spent after {self.looks}. Plan more "
                "looks in advance, or use Watch, which may go on for ever."
            )
        before: float = ((look - 1) / self.looks) ** self.shape
        after: float = (look / self.looks) ** self.shape
        share = after - before
        if self.independent:
            # prod (1 - a_k) = (1 - alpha) ** (sum of shares) = 1 - alpha.
            return -math.expm1(share * math.log1p(-self.alpha))
        return self.alpha * share

    def permutations(self, look: int) -> int:
        """Permutations for this look: the smallest p-value is a fifth of the level, or less."""
        # A p-value is at least 1 / (B + 1); five of them below the level leave room for ties.
        return math.ceil(5 / self.level(look)) - 1

    def reject(self, look: int, pvalue: float) -> bool:
        """Whether an exact p-value of this look is a finding."""
        if not 0 < pvalue <= 1:
            raise InputError(f"pvalue is {pvalue}; an exact p-value lies in (0, 1].")
        return pvalue <= self.level(look)
