"""How long blocks of a series have to be: a rule from the data.

With R(k) the autocovariance at lag k, g = sum_k R(k) is the long-run variance, and of blocks of
length L the mean varies as if it were

    g (1 - G / (g L) + ...),    G = sum_k |k| R(k).

A shuffle of blocks therefore has a variance that is too small by the share G / (g L), and a test
rejects too often. G and g are estimated as by [Politis2004]: sums over lags up to M with their
flat-top window, where M is twice the last lag at which the autocorrelation stands out. From there
[Politis2004] take the length that is best for a standard error. A level needs longer blocks: here
the share is to be 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_MOST_MISSED = 0.05  # of the long-run variance, by blocks of the length that is found
_FEWEST_BLOCKS = 10  # of each sample, however long the memory of the series is
_MOST_COLUMNS = 50


def block_length(series: Sequence[NDArray[np.float64]], smaller: int) -> int:
    """Rows of a block, for stretches (rows, columns) of series in the order of time.

    The largest length that any of the first columns asks for, but never so large that the smaller
    sample, of so many rows, has fewer than ten blocks.
    """
    columns = min(_MOST_COLUMNS, series[0].shape[1])
    lengths = [_length([each[:, column] for each in series]) for column in range(columns)]
    most = max(1, smaller // _FEWEST_BLOCKS)
    wanted = math.ceil(max(lengths, default=1.0))
    return min(max(1, wanted), most)


def _length(series: Sequence[NDArray[np.float64]]) -> float:
    """The length that one column asks for."""
    rows = sum(map(len, series))
    longest = max(map(len, series))
    lags = min(longest - 1, math.ceil(math.sqrt(rows)) + 20)
    if lags < 1:
        return 1.0
    R = autocovariance(series, lags)
    if R[0] <= 0:
        return 1.0
    window = 2 * _last_lag(R / R[0], rows)
    k = np.arange(1, min(window, lags) + 1)
    weights = np.clip(2 * (1 - k / window), 0, 1)  # flat up to half of the window
    g = R[0] + 2 * float((weights * R[k]).sum())
    G = 2 * float((weights * k * R[k]).sum())
    if g <= 0:  # a series that swings back and forth: its means vary less than those of noise
        return 1.0
    return float(abs(G) / g / _MOST_MISSED)


def autocovariance(series: Sequence[NDArray[np.float64]], lags: int) -> NDArray[np.float64]:
    """(lags + 1,) autocovariances of stretches, each about its own mean."""
    rows = sum(map(len, series))
    R = np.zeros(lags + 1)
    for each in series:
        centred = each - each.mean()
        for lag in range(min(lags, len(each) - 1) + 1):
            R[lag] += float(centred[lag:] @ centred[: len(centred) - lag]) / rows
    return R


def _last_lag(correlation: NDArray[np.float64], rows: int) -> int:
    """The lag after which none of the next few autocorrelations stands out, at least 1."""
    digits = math.log10(max(10, rows))
    limit = 2 * math.sqrt(digits / rows)
    run = max(5, math.ceil(math.sqrt(digits)))
    quiet = np.abs(correlation[1:]) < limit
    for lag in range(len(quiet)):
        if quiet[lag : lag + run].all():
            return max(1, lag)
    return max(1, len(quiet))
