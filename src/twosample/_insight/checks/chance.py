"""How likely it is that two samples of one distribution differ so much."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr

_MANY = 100_000  # so many counts that the normal law is as good as the exact one


def all_in_one(times: int, size: int, other: int) -> float:
    """The chance that `times` of size + other values are all among the `size` of one sample.

    Exact, whatever the distribution, for equal values as for the largest ones.
    """
    if times > size:
        return 0.0
    total = size + other
    of_one = gammaln(size + 1) - gammaln(size - times + 1)
    of_all = gammaln(total + 1) - gammaln(total - times + 1)
    return float(np.exp(of_one - of_all))


def equal_shares(first: tuple[int, int], second: tuple[int, int]) -> float:
    """The two-sided p-value of equal shares; each is (count, size).

    Twice the smaller tail of the hypergeometric law, which is exact; of very many the normal one.
    """
    (a, n), (b, m) = first, second
    both = a + b
    if not n or not m or both in (0, n + m):
        return 1.0
    if both > _MANY:
        share = both / (n + m)
        apart = abs(a / n - b / m) / np.sqrt(share * (1 - share) * (1 / n + 1 / m))
        return float(min(1.0, 2 * ndtr(-apart)))
    possible = np.arange(max(0, both - m), min(both, n) + 1)
    logs = _log_ways(n, possible) + _log_ways(m, both - possible)
    chances = np.exp(logs - logs.max())
    chances /= chances.sum()
    tails = (chances[possible <= a].sum(), chances[possible >= a].sum())
    return float(min(1.0, 2 * min(tails)))


def _log_ways(size: int, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    ways = gammaln(size + 1) - gammaln(chosen + 1) - gammaln(size - chosen + 1)
    return np.asarray(ways, dtype=np.float64)
