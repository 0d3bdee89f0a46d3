"""Rows that come more than once: independent rows that are equal, or copies of one row?

Coins and small categories repeat rows, and each is a row of its own. A file that was appended to
itself repeats rows, too, and each copy counts as evidence that is not there: with every row three
times, a test rejects nearly always. Which of the two it is can be seen from how often rows come.

Let F_k be the number of different rows that come k times. If rows are independent, of whatever
distribution, then F_k is about the sum of exp(-l) l^k / k! over the different rows, where l is how
often one is expected. So k! F_k is a sequence of moments, and log-convex:

    F_k^2 <= (k + 1) / k * F_(k-1) * F_(k+1)

Rows that come three times each have F_3 > 0 and F_2 = F_4 = 0. No independent rows do that. Nor do
two equal rows stand in different samples more often than not.

Where so few rows come more than once that this cannot tell, a column does: if its values are all
different, but for those of rows that are equal as a whole, then these are copies. To be wrong about
this does no harm: all rows that come two to four times in X and Y together are left out, which
looks at no label, so that a test of the others is exact for copies and for independent rows alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, gammaincinv

from .row_keys import Keys, in_order

Repeats: TypeAlias = Literal["once", "refuse", "allow"]
"""What becomes of copies of rows: each is tested once, or none, or each as a row of its own."""

Why: TypeAlias = Literal["independent", "identical", "multiples", "copies", "few", "unclear"]
"""What the repetitions are.

independent
    Rows that repeat as independent ones do, or none that repeat.
identical
    X and Y hold the same rows, each as often.
multiples
    Each row of X, or of Y, comes twice as often as it should, or three times, ...
copies
    Rows were copied, within a sample or from one to the other.
few
    A few rows were copied, it seems; they can do without them.
unclear
    It seems so, but of too many rows to do without them.
"""

_DOUBT = 1e-4  # the chance to take independent rows for copies
_MANY = 30  # different rows, all of which come a multiple of 2, 3, ... times by no chance
_SOME = 3  # different rows: with fewer that repeat, a test is as good as without
_FEW = 4  # times: a row that comes more often is a value of its own, such as zero
_CONTAINED = 0.1  # of its rows: a sample that has fewer of its own is a part of the other


@dataclass(frozen=True, eq=False)
class Counted:
    """How often rows come in X and in Y.

    Attributes
    ----------
    singles
        How many rows of X and of Y come once only, in both samples together.
    repeated
        The keys of the others, sorted.
    in_x, in_y
        How often each of those comes in X and in Y.
    """

    singles: tuple[int, int]
    repeated: Keys
    in_x: NDArray[np.int64]
    in_y: NDArray[np.int64]

    @classmethod
    def of(cls, keys_x: Keys, keys_y: Keys) -> Counted:
        """Count the rows of two samples by their keys."""
        pooled = in_order(np.concatenate([keys_x, keys_y]))
        again = pooled[1:][pooled[1:] == pooled[:-1]]
        if not len(again):
            none = np.zeros(0, dtype=np.int64)
            return cls((len(keys_x), len(keys_y)), again, none, none)
        repeated = again[np.append(True, again[1:] != again[:-1])]
        # Sorted, because searching for one after the other takes longer where they lie apart.
        in_x = _how_often(repeated, in_order(keys_x))
        in_y = _how_often(repeated, in_order(keys_y))
        singles = (len(keys_x) - int(in_x.sum()), len(keys_y) - int(in_y.sum()))
        return cls(singles, repeated, in_x, in_y)

    @property
    def together(self) -> NDArray[np.int64]:
        """How often each of the repeated rows comes in both samples."""
        return self.in_x + self.in_y

    @property
    def identical(self) -> bool:
        """Whether X and Y hold the same rows, each as often."""
        return self.singles == (0, 0) and bool(np.array_equal(self.in_x, self.in_y))

    @property
    def different(self) -> tuple[int, int]:
        """How many different rows X and Y have."""
        repeated_x = int((self.in_x > 0).sum())
        repeated_y = int((self.in_y > 0).sum())
        return self.singles[0] + repeated_x, self.singles[1] + repeated_y

    @property
    def shared(self) -> int:
        """How many different rows are in both samples."""
        return int(((self.in_x > 0) & (self.in_y > 0)).sum())

    def thinned(self, times_x: int, times_y: int) -> Counted:
        """The counts if only every so-many-th copy was there."""
        return replace(self, in_x=self.in_x // times_x, in_y=self.in_y // times_y)


def _how_often(kinds: Keys, keys: Keys) -> NDArray[np.int64]:
    """How often each of these kinds, which are sorted, is among the keys."""
    place, among = _places(kinds, keys)
    return np.bincount(place[among], minlength=len(kinds))


def _places(kinds: Keys, keys: Keys) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where each key stands among the kinds, of which there is one, and whether it is there."""
    place = np.minimum(np.searchsorted(kinds, keys), len(kinds) - 1)
    return place, kinds[place] == keys


@dataclass(frozen=True, eq=False)
class Verdict:
    """What the repetitions of two samples are, and how many of the copies to test.

    Attributes
    ----------
    why
        What they are.
    times
        How often each row of X and of Y comes at least; 1 but for "multiples".
    use_x, use_y
        How many of each of the repeated rows of X and of Y a test may use.
    """

    why: Why
    times: tuple[int, int]
    use_x: NDArray[np.int64]
    use_y: NDArray[np.int64]


def judge(counted: Counted, tell_tale: Callable[[], bool]) -> Verdict:
    """Whether rows are copies, and how many of them a test may use then.

    `tell_tale` says whether there is a column whose values are all different but for those of
    rows that are equal as a whole. It is asked only where that matters.
    """
    times_x = _multiple(counted.in_x, counted.singles[0])
    times_y = _multiple(counted.in_y, counted.singles[1])
    times = (times_x, times_y)
    thin = counted.thinned(*times)
    if thin.identical:
        return Verdict("identical", times, thin.in_x, thin.in_y)
    often = _often(thin)
    if impossible(often) or _too_often_in_both(thin):
        # What no distribution explains is not one in which each row was multiplied, either.
        return _each_once(counted)
    if times != (1, 1):
        return Verdict("multiples", times, thin.in_x, thin.in_y)
    few = thin.together <= _FEW
    if few.sum() < _SOME or not tell_tale():
        return Verdict("independent", times, thin.in_x, thin.in_y)
    use_x = np.where(few, 0, thin.in_x)
    use_y = np.where(few, 0, thin.in_y)
    left_x = thin.singles[0] + use_x.sum()
    left_y = thin.singles[1] + use_y.sum()
    rows_x = thin.singles[0] + thin.in_x.sum()
    rows_y = thin.singles[1] + thin.in_y.sum()
    enough = 2 * left_x >= rows_x and 2 * left_y >= rows_y
    return Verdict("few" if enough else "unclear", times, use_x, use_y)


def _multiple(counts: NDArray[np.int64], singles: int) -> int:
    """The number that all counts are multiples of; 1 if that may be chance."""
    there = counts[counts > 0]
    if singles or not len(there):
        return 1
    times = int(np.gcd.reduce(there))
    # Few counts may be equal by design: ten of each kind.
    return times if len(there) >= _MANY else 1


def _often(counted: Counted) -> NDArray[np.int64]:
    """How many different rows come 0, 1, 2, ... times in both samples together."""
    together = counted.together
    often = np.bincount(together[together > 0], minlength=3)
    often[1] += sum(counted.singles)
    return often


def _too_often_in_both(counted: Counted) -> bool:
    """Whether rows that come twice stand once in X and once in Y more often than not.

    For independent rows the chance of this is at most 1/2, whatever the distributions of X and Y:
    2 a b <= a^2 + b^2.
    """
    twice = counted.together == 2
    pairs = int(twice.sum())
    apart = int((twice & (counted.in_x == 1)).sum())
    if not pairs:
        return False
    # The chance of so many heads of fair coins.
    return apart > 0 and float(bdtrc(apart - 1, pairs, 0.5)) < _DOUBT


def impossible(often: NDArray[np.int64]) -> bool:
    """Whether independent rows, of whatever distribution, would hardly ever come so often.

    `often` says how many different rows come 0, 1, 2, ... times.
    """
    often = np.append(often, 0)  # nothing comes more often than the most frequent row
    times = np.flatnonzero(often[:-1])
    times = times[times >= 2]
    # Poisson bounds: of the middle from below, of its neighbours from above.
    middle = gammaincinv(often[times], _DOUBT)
    before = gammaincinv(often[times - 1] + 1, 1 - _DOUBT)
    after = gammaincinv(often[times + 1] + 1, 1 - _DOUBT)
    return bool((middle**2 > (times + 1) / times * before * after).any())


def _each_once(counted: Counted) -> Verdict:
    """Each different row once; those of both samples in none, since they tell nothing apart.

    A sample that is a part of the other keeps them: it is compared with the rest of the other.
    If rows were copied whatever is in them, then the rows that are left are independent.
    """
    there_x = counted.in_x > 0
    there_y = counted.in_y > 0
    shared = there_x & there_y
    different_x, different_y = counted.different
    own_x = different_x - counted.shared
    own_y = different_y - counted.shared
    times = (1, 1)
    if not own_x and not own_y:
        return Verdict("identical", times, counted.in_x, counted.in_y)
    x_in_y = own_x < own_y and own_x < _CONTAINED * different_x
    y_in_x = own_y < own_x and own_y < _CONTAINED * different_y
    use_x = there_x & (~shared | x_in_y)
    use_y = there_y & (~shared | y_in_x)
    return Verdict("copies", times, use_x.astype(np.int64), use_y.astype(np.int64))


def rows_to_use(keys: Keys, repeated: Keys, use: NDArray[np.int64]) -> NDArray[np.bool_]:
    """For each row whether a test may use it: the first `use` of each of the repeated ones."""
    place, among = _places(repeated, keys)
    used = ~among
    rows = np.flatnonzero(among)
    kinds = place[among]
    order = np.argsort(kinds, kind="stable")
    in_order = kinds[order]
    first = np.searchsorted(in_order, in_order)  # where the rows of its kind begin
    rank = np.arange(len(order)) - first
    used[rows[order]] = rank < use[in_order]
    return used
