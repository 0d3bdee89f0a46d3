"""How far apart two columns are: Wasserstein for numbers, total variation for categories.

Both distances of the rows at hand are too large by chance, the more so the fewer rows there are.
An upper bound may ignore that. A lower bound takes off what chance would give by itself.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .intervals import (
    CONFIDENCE,
    Array,
    Interval,
    deviate,
    difference_of_means,
    difference_of_shares,
)

_MEAN_OF_ABSOLUTE = math.sqrt(2 / math.pi)  # of a standard normal number


class Distance(NamedTuple):
    """A distance between two columns, and what is known of it."""

    value: float
    interval: Interval


def wasserstein(x: Array, y: Array, confidence: float = CONFIDENCE) -> Distance:
    """The area between the two distribution functions: how far values move, on average.

    With h' = sign(F - G), it is the mean of h over Y less that over X, which gives its error. It is
    at least the difference of the means, which bounds it from below where values move one way.
    """
    n = len(x)
    m = len(y)
    values = np.concatenate([x, y])
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    steps = np.diff(ordered)
    is_x = order < n
    below_x = np.cumsum(is_x)[:-1] / n  # F and G between neighbours
    below_y = np.cumsum(~is_x)[:-1] / m
    apart = below_x - below_y
    value = float(np.abs(apart) @ steps)
    potential = np.concatenate([[0.0], np.cumsum(np.sign(apart) * steps)])
    of_x = float(np.var(potential[is_x], ddof=1)) / n
    of_y = float(np.var(potential[~is_x], ddof=1)) / m
    error = math.sqrt(of_x + of_y)
    pooled = (n * below_x + m * below_y) / (n + m)
    spread = np.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))
    by_chance = _MEAN_OF_ABSOLUTE * float(spread @ steps)

    # Two lower bounds share what may be left out below.
    strict = (1 + confidence) / 2
    low_mean, high_mean = difference_of_means(x, y, strict)
    of_means = max(0.0, low_mean, -high_mean)
    of_areas = value - by_chance - deviate(strict) * error
    low = min(value, max(of_means, of_areas, 0.0))
    # h is flat where the two functions cross, by chance too. No h varies more than the values.
    widest = math.sqrt(float(np.var(x, ddof=1)) / n + float(np.var(y, ddof=1)) / m)
    return Distance(value, (low, value + deviate(confidence) * widest))


def total_variation(before: Array, after: Array, confidence: float = CONFIDENCE) -> Distance:
    """Half of what the shares of all levels change by, from their counts."""
    n = int(before.sum())
    m = int(after.sum())
    shares_x = before / n
    shares_y = after / m
    grown = shares_y > shares_x
    value = float((shares_y - shares_x)[grown].sum())
    counts = ((float(before[grown].sum()), n), (float(after[grown].sum()), m))
    _, high = difference_of_shares(*counts, confidence)
    pooled = (before + after) / (n + m)
    spread = np.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))
    by_chance = _MEAN_OF_ABSOLUTE * float(spread.sum()) / 2

    strict = (1 + confidence) / 2
    low_all, _ = difference_of_shares(*counts, strict)
    low = max(0.0, low_all - by_chance)
    # One level alone bounds it, too, in either direction; all of them share the rest.
    each = 1 - (1 - strict) / max(1, len(before))
    for count_x, count_y in zip(before.tolist(), after.tolist(), strict=True):
        low_level, high_level = difference_of_shares((count_x, n), (count_y, m), each)
        low = max(low, low_level, -high_level)
    return Distance(value, (min(low, value), max(high, value)))
