"""How long blocks of a series have to be, and how far apart: a rule from the data.

Stretches of a stationary series that know nothing of each other, and have as many rows each, are
independent and of one distribution, so they are exchangeable. Neighbouring blocks do know of each
other. If a gap of d rows is left out after each, they know less: nothing at all where the memory of
the series is at most d rows. The memory is estimated as by [Politis2004]: the last lag m at which
the autocorrelation stands out. Beyond twice that lag their window takes it for 0, hence d = 2 m.
Blocks are nine times as long, so that a tenth of the rows is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_FEWEST_BLOCKS = 10  # of each sample, however long the memory of the series is
_ROWS_FOR_ONE = 9  # of a block, for one that is left out
_MOST_COLUMNS = 50


def gap_for(memory: int, length: int | None, smaller: int) -> int:
    """Rows to leave out after each block, of a length that is given or is yet to be found.

    Never more than a block has, of which the smaller sample, of so many rows, is to have ten: where
    the memory is long and rows are few, the gap is shorter than it should be.
    """
    most = smaller // _FEWEST_BLOCKS // 2 if length is None else length
    return min(2 * memory, most)


def length_for(gap: int, smaller: int) -> int:
    """Rows of a block, where so many are left out after it."""
    room = smaller // _FEWEST_BLOCKS
    return max(1, min(_ROWS_FOR_ONE * max(1, gap), room - gap))


def memory_of(series: Sequence[NDArray[np.float64]]) -> int:
    """The last lag at which any of the first columns resembles itself, 0 where there is none.

    `series` are stretches (rows, columns) in the order of time.
    """
    rows = sum(map(len, series))
    longest = max(map(len, series), default=0)
    lags = min(longest - 1, math.ceil(math.sqrt(rows)) + 20)
    if lags < 1:
        return 0
    most = 0
    for column in range(min(_MOST_COLUMNS, series[0].shape[1])):
        R = _autocovariance([each[:, column] for each in series], lags)
        if R[0] > 0:
            most = max(most, _last_lag(R[1:] / R[0], rows))
    return most


def _autocovariance(series: Sequence[NDArray[np.float64]], lags: int) -> NDArray[np.float64]:
    """(lags + 1,) autocovariances of stretches, each about its own mean."""
    rows = sum(map(len, series))
    R = np.zeros(lags + 1)
    for each in series:
        centred = each - each.mean()
        for lag in range(min(lags, len(each) - 1) + 1):
            R[lag] += float(centred[lag:] @ centred[: len(centred) - lag]) / rows
    return R


def _last_lag(correlation: NDArray[np.float64], rows: int) -> int:
    """The lag after which none of the next few autocorrelations, from lag 1 on, stands out."""
    digits = math.log10(max(10, rows))
    limit = 2 * math.sqrt(digits / rows)
    run = max(5, math.ceil(math.sqrt(digits)))
    quiet = np.abs(correlation) < limit
    for lag in range(len(quiet)):
        if quiet[lag : lag + run].all():
            return lag
    return len(quiet)
