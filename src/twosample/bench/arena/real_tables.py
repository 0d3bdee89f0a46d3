"""Scenarios of the arena on tables of scikit-learn: real rows, and a change that is planted.

The rows are split at random into two samples, and then one of the samples is changed. So without
the change all splits are equally likely.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...errors import MissingDependency
from .scenario import Draw, Pair, Scenario

Array: TypeAlias = NDArray[np.float64]
Plant: TypeAlias = Callable[[Array, np.random.Generator], Array]

_GROUP = "real tables"
_ROWS = {"wine": 178, "breast_cancer": 569, "diabetes": 442, "digits": 1797}


@cache
def _table(name: str) -> tuple[Array, NDArray[np.int64]]:
    """A table of scikit-learn and the class of each row."""
    try:
        from sklearn import datasets
    except ImportError:
        raise MissingDependency(
            "these tables come with scikit-learn; pip install 'twosample[sklearn]'."
        ) from None
    bunch: Any = getattr(datasets, f"load_{name}")()
    return np.asarray(bunch.data, dtype=np.float64), np.asarray(bunch.target, dtype=np.int64)


def _planted(table: str, rows: int, plant: Plant) -> Draw:
    """Two samples of a table; Y is changed."""

    def pair(rng: np.random.Generator, different: bool) -> Pair:
        points, _ = _table(table)
        order = rng.permutation(len(points))[: 2 * rows]
        x = points[order[:rows]]
        y = points[order[rows:]]
        return x, (plant(y, rng) if different else y)

    return pair


def _mixed(table: str, rows: int, classes: tuple[int, ...], weight: float) -> Draw:
    """Two samples of a table; some classes come into Y `weight` times as easily as others."""

    def pair(rng: np.random.Generator, different: bool) -> Pair:
        points, labels = _table(table)
        favoured = np.isin(labels, classes)
        weights = np.where(favoured & different, weight, 1.0)
        # The smallest of exponential times with these rates: drawing by weight, none twice.
        order = np.argsort(rng.exponential(size=len(labels)) / weights)
        y = points[rng.permutation(order[:rows])]
        x = points[rng.permutation(order[rows:])[:rows]]
        return x, y

    return pair


# What is planted


def shift(column: int, size: float) -> Plant:
    """Move a column by `size` of its standard deviations."""

    def plant(y: Array, rng: np.random.Generator) -> Array:
        y[:, column] += size * y[:, column].std()
        return y

    return plant


def noise(column: int, size: float) -> Plant:
    """Add noise of `size` standard deviations to a column."""

    def plant(y: Array, rng: np.random.Generator) -> Array:
        values = y[:, column]
        noisy = values + size * values.std() * rng.standard_normal(len(y))
        if np.all(values == np.round(values)):
            # Whole numbers stay so, within their range: else every digit would tell.
            noisy = np.clip(np.round(noisy), values.min(), values.max())
        y[:, column] = noisy
        return y

    return plant


def shuffle(column: int, share: float) -> Plant:
    """Shuffle the values of a column among a share of the rows, so that its law stays."""

    def plant(y: Array, rng: np.random.Generator) -> Array:
        chosen = np.flatnonzero(rng.random(len(y)) < share)
        y[chosen, column] = y[rng.permutation(chosen), column]
        return y

    return plant


def _plants(name: str, table: str, about: str, plant: Plant) -> Scenario:
    rows = _ROWS[table] // 2
    pair = _planted(table, rows, plant)
    return Scenario(name, _GROUP, about, (rows, rows), "numbers", pair)


def _mixes(name: str, table: str, about: str, classes: tuple[int, ...], weight: float) -> Scenario:
    # All rows of a small table would leave no choice of whom to draw.
    rows = _ROWS[table] // 3
    pair = _mixed(table, rows, classes, weight)
    return Scenario(name, _GROUP, about, (rows, rows), "numbers", pair)


SCENARIOS = (
    _plants("wine-shift", "wine", "one column moved", shift(0, 0.5)),
    _plants("wine-shuffle", "wine", "one column shuffled", shuffle(6, 0.7)),
    _mixes("wine-classes", "wine", "shares of classes", (1,), 2.2),
    _plants("cancer-shift", "breast_cancer", "one column moved", shift(9, 0.3)),
    _plants("cancer-noise", "breast_cancer", "noise in one column", noise(2, 0.35)),
    _plants("cancer-shuffle", "breast_cancer", "one column shuffled", shuffle(5, 0.5)),
    _mixes("cancer-classes", "breast_cancer", "shares of classes", (0,), 1.6),
    _plants("diabetes-shift", "diabetes", "one column moved", shift(2, 0.3)),
    _plants("diabetes-noise", "diabetes", "noise in one column", noise(4, 0.7)),
    _plants("diabetes-shuffle", "diabetes", "one column shuffled", shuffle(3, 1.0)),
    _plants("pixels-noise", "digits", "noise in one pixel", noise(28, 0.45)),
    _plants("pixels-shuffle", "digits", "one pixel shuffled", shuffle(36, 0.8)),
    _mixes("pixels-classes", "digits", "shares of classes", (3, 8), 1.35),
)

NULLS = ("wine-shift", "cancer-shift", "diabetes-shift", "pixels-noise")
"""The tables, each once without a change."""
