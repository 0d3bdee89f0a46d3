"""Scenarios of the arena that are drawn from formulas: columns of numbers of many kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .scenario import Pair, Scenario

Array: TypeAlias = NDArray[np.float64]
Change: TypeAlias = Callable[[Array, np.random.Generator], Array]
"""(columns, generator) -> the same columns, changed."""


def _normal(
    name: str,
    group: str,
    about: str,
    sizes: int | tuple[int, int],
    columns: int,
    change: Change,
) -> Scenario:
    """Standard normal columns; those of Y are changed."""
    n, m = (sizes, sizes) if isinstance(sizes, int) else sizes

    def pair(rng: np.random.Generator, different: bool) -> Pair:
        x = rng.standard_normal((n, columns))
        y = rng.standard_normal((m, columns))
        return x, (change(y, rng) if different else y)

    return Scenario(name, group, about, (n, m), "numbers", pair)


def _of_columns(
    name: str, group: str, about: str, rows: int, draw: Callable[..., Array]
) -> Scenario:
    """X is draw(rng, rows, False), and Y is draw(rng, rows, True)."""

    def pair(rng: np.random.Generator, different: bool) -> Pair:
        x = draw(rng, rows, False)
        y = draw(rng, rows, different)
        return x, y

    return Scenario(name, group, about, (rows, rows), "numbers", pair)


# Shifts of mean, spread and tail in the first columns


def mean(shift: float, columns: int) -> Change:
    """Move the first columns."""

    def change(y: Array, rng: np.random.Generator) -> Array:
        y[:, :columns] += shift
        return y

    return change


def spread(factor: float, columns: int) -> Change:
    """Spread the first columns."""

    def change(y: Array, rng: np.random.Generator) -> Array:
        y[:, :columns] *= factor
        return y

    return change


def tail(freedom: float, columns: int) -> Change:
    """Give the first columns Student's law, of unit variance."""

    def change(y: Array, rng: np.random.Generator) -> Array:
        heavy = rng.standard_t(freedom, size=(len(y), columns))
        y[:, :columns] = heavy / np.sqrt(freedom / (freedom - 2))
        return y

    return change


# Changed dependence, with every single column as it was


def correlation(size: float) -> Change:
    """Correlate the first two columns."""

    def change(y: Array, rng: np.random.Generator) -> Array:
        y[:, 1] = size * y[:, 0] + np.sqrt(1 - size**2) * y[:, 1]
        return y

    return change


def common_factor(size: float) -> Change:
    """Correlate every two columns by `size`."""

    def change(y: Array, rng: np.random.Generator) -> Array:
        factor = rng.standard_normal((len(y), 1))
        mixed: Array = np.sqrt(1 - size) * y + np.sqrt(size) * factor
        return mixed

    return change


def circle(share: float) -> Change:
    """Let the second column have the first one's magnitude in some rows: no correlation."""

    def change(y: Array, rng: np.random.Generator) -> Array:
        sign = rng.choice([-1.0, 1.0], size=len(y))
        tied = rng.random(len(y)) < share
        y[:, 1] = np.where(tied, sign * np.abs(y[:, 0]), y[:, 1])
        return y

    return change


def parity(order: int, share: float) -> Change:
    """Make the product of the first columns positive in a share of the rows."""

    def change(y: Array, rng: np.random.Generator) -> Array:
        positive = rng.random(len(y)) < share
        product = y[:, :order].prod(axis=1)
        wrong = (product > 0) != positive
        y[wrong, 0] *= -1
        return y

    return change


def contamination(share: float, distance: float) -> Change:
    """Put some rows into a narrow cluster at a distance from the centre, in two columns."""

    def change(y: Array, rng: np.random.Generator) -> Array:
        odd = rng.random(len(y)) < share
        y[odd] *= 0.3
        y[odd, :2] += distance / np.sqrt(2)
        return y

    return change


# Uniform densities with bumps


def _bump(t: Array) -> Array:
    """A smooth wave on (-1, 0): up in the first half, down in the second."""
    with np.errstate(divide="ignore", over="ignore"):
        up = np.exp(-1 / np.maximum(1 - (4 * t + 3) ** 2, 0))
        down = np.exp(-1 / np.maximum(1 - (4 * t + 1) ** 2, 0))
    return up - down


def perturbed(dimension: int, bumps: int, rows: int) -> Scenario:
    """Uniform points, and points of a uniform density with bumps in every direction.

    The density is that of Schrab et al., "MMD aggregated two-sample test" (2023), with smoothness 1
    and the largest amplitude that keeps it positive. The signs of the bumps are drawn anew.
    """
    amplitude = np.exp(dimension) / bumps * 0.99

    def pair(rng: np.random.Generator, different: bool) -> Pair:
        x = rng.random((rows, dimension))
        if not different:
            return x, rng.random((rows, dimension))
        signs = rng.choice([-1.0, 1.0], size=(bumps,) * dimension)
        accepted: list[Array] = []
        while sum(map(len, accepted)) < rows:
            points = rng.random((2 * rows, dimension))
            cell = np.minimum((points * bumps).astype(int), bumps - 1)
            waves = _bump(points * bumps - cell - 1).prod(axis=1)
            density = 1 + amplitude * signs[tuple(cell.T)] * waves
            # The density is below 2, which makes it twice the chance to keep a point.
            accepted.append(points[2 * rng.random(2 * rows) < density])
        return x, np.concatenate(accepted)[:rows]

    about = f"a uniform density with {bumps} bumps a direction in {dimension} dimensions"
    name = f"perturbed-{dimension}d-{bumps}"
    return Scenario(name, "perturbed uniforms", about, (rows, rows), "numbers", pair)


# Discrete and heavy-tailed columns


def _poisson_rate(rng: np.random.Generator, rows: int, changed: bool) -> Array:
    rates = np.array([2.4 if changed else 2.0, 1.0, 5.0])
    return rng.poisson(rates, size=(rows, 3)).astype(np.float64)


def _poisson_dispersion(rng: np.random.Generator, rows: int, changed: bool) -> Array:
    """The mean stays 3; Y's first column is a Poisson whose rate varies from row to row."""
    counts = rng.poisson(3.0, size=(rows, 3)).astype(np.float64)
    if changed:
        rate = rng.gamma(9.0, 1 / 3, size=rows)
        counts[:, 0] = rng.poisson(rate)
    return counts


def _exclusive_or(rng: np.random.Generator, rows: int, changed: bool) -> Array:
    """Eight coins; in Y the third tends to tell whether the first two differ."""
    coins = rng.integers(0, 2, size=(rows, 8))
    if changed:
        told = rng.random(rows) < 0.45
        coins[:, 2] = np.where(told, coins[:, 0] ^ coins[:, 1], coins[:, 2])
    return coins.astype(np.float64)


def _rounded(rng: np.random.Generator, rows: int, changed: bool) -> Array:
    """Five columns of whole numbers between about -3 and 3."""
    points = rng.standard_normal((rows, 5))
    if changed:
        points[:, 0] += 0.28
    return np.round(points)


def _cauchy_place(rng: np.random.Generator, rows: int, changed: bool) -> Array:
    points = rng.standard_cauchy((rows, 4))
    if changed:
        points[:, 0] += 0.45
    return points


def _cauchy_scale(rng: np.random.Generator, rows: int, changed: bool) -> Array:
    points = rng.standard_cauchy((rows, 4))
    if changed:
        points[:, 0] *= 1.55
    return points


def _lognormal(rng: np.random.Generator, rows: int, changed: bool) -> Array:
    logarithms = rng.standard_normal((rows, 5))
    if changed:
        logarithms[:, 0] = 1.3 * logarithms[:, 0]
    return np.exp(1.5 * logarithms)


def _lognormal_dependence(rng: np.random.Generator, rows: int, changed: bool) -> Array:
    logarithms = rng.standard_normal((rows, 5))
    if changed:
        logarithms = correlation(0.5)(logarithms, rng)
    return np.exp(1.5 * logarithms)


def _mixture(rng: np.random.Generator, rows: int, changed: bool) -> Array:
    """One mode against two close ones of the same mean and variance."""
    points = rng.standard_normal((rows, 3))
    if changed:
        side = rng.choice([-1.0, 1.0], size=rows)
        points[:, 0] = 0.8 * side + 0.6 * points[:, 0]
    return points


def _swapped_marks(rng: np.random.Generator, rows: int, changed: bool) -> Array:
    """A heavy-tailed column whose spread depends on another one, in X by more than in Y."""
    points = rng.standard_t(3, size=(rows, 4))
    steepness = 0.25 if changed else 0.6
    points[:, 1] *= np.exp(steepness * np.tanh(points[:, 0]))
    return points


_SHIFTS = "shifts"
_DEPENDENCE = "dependence"
_PARITY = "parities"
_RARE = "contaminations"
_ODD = "discrete and heavy-tailed"
_SIZES = "small, unequal, wide"

SCENARIOS = (
    perturbed(1, 2, 250),
    perturbed(1, 3, 600),
    perturbed(1, 4, 1400),
    perturbed(2, 1, 180),
    perturbed(2, 2, 1500),
    _normal("mean-1-of-5", _SHIFTS, "mean of 1 of 5 columns", 250, 5, mean(0.33, 1)),
    _normal("mean-1-of-50", _SHIFTS, "mean of 1 of 50 columns", 500, 50, mean(0.27, 1)),
    _normal("mean-all-10", _SHIFTS, "mean of all of 10 columns", 200, 10, mean(0.14, 10)),
    _normal("spread-1-of-5", _SHIFTS, "spread of 1 of 5 columns", 300, 5, spread(1.3, 1)),
    _normal("spread-1-of-50", _SHIFTS, "spread of 1 of 50 columns", 500, 50, spread(1.27, 1)),
    _normal("spread-all-10", _SHIFTS, "spread of all of 10 columns", 300, 10, spread(1.08, 10)),
    _normal("tail-1-of-5", _SHIFTS, "tail of 1 of 5 columns", 250, 5, tail(3, 1)),
    _normal("tail-1-of-50", _SHIFTS, "tail of 1 of 50 columns", 500, 50, tail(3, 1)),
    _normal("tail-all-10", _SHIFTS, "tail of all of 10 columns", 250, 10, tail(5, 10)),
    _of_columns("two-modes", _SHIFTS, "two modes in 1 of 3 columns", 500, _mixture),
    _normal("correlation-1-of-45", _DEPENDENCE, "1 of 45 correlations", 400, 10, correlation(0.4)),
    _normal("correlation-all-45", _DEPENDENCE, "all 45 correlations", 400, 10, common_factor(0.1)),
    _normal("circle-5", _DEPENDENCE, "2 of 5 columns, uncorrelated", 300, 5, circle(0.5)),
    _normal("parity-3-of-5", _PARITY, "product of 3 of 5 columns", 2000, 5, parity(3, 0.9)),
    _normal("parity-3-of-5-small", _PARITY, "product of 3 of 5 columns", 300, 5, parity(3, 0.9)),
    _normal("parity-3-of-10", _PARITY, "product of 3 of 10 columns", 2000, 10, parity(3, 0.9)),
    _normal("parity-3-of-20", _PARITY, "product of 3 of 20 columns", 2000, 20, parity(3, 0.9)),
    _normal("parity-4-of-10", _PARITY, "product of 4 of 10 columns", 2000, 10, parity(4, 0.95)),
    _normal("contamination-2", _RARE, "2 % of rows elsewhere", 800, 5, contamination(0.02, 5.0)),
    _normal("contamination-5", _RARE, "5 % of rows elsewhere", 300, 5, contamination(0.05, 3.8)),
    _of_columns("poisson-rate", _ODD, "rate of 1 of 3 counts", 350, _poisson_rate),
    _of_columns("poisson-spread", _ODD, "1 of 3 counts varies more", 500, _poisson_dispersion),
    _of_columns("coins", _ODD, "the third of 8 coins follows two others", 400, _exclusive_or),
    _of_columns("rounded", _ODD, "mean of 1 of 5 columns of whole numbers", 300, _rounded),
    _of_columns("cauchy-place", _ODD, "place of 1 of 4 Cauchy columns", 300, _cauchy_place),
    _of_columns("cauchy-scale", _ODD, "scale of 1 of 4 Cauchy columns", 400, _cauchy_scale),
    _of_columns("lognormal", _ODD, "spread of 1 of 5 lognormal columns", 300, _lognormal),
    _of_columns(
        "lognormal-pair", _ODD, "2 of 5 lognormals go together", 300, _lognormal_dependence
    ),
    _of_columns("heavy-pair", _ODD, "spread of one column by another", 1000, _swapped_marks),
    _normal("small-mean", _SIZES, "mean of 1 of 3 columns", 30, 3, mean(0.9, 1)),
    _normal("small-spread", _SIZES, "spread of all of 3 columns", 30, 3, spread(1.6, 3)),
    _normal("unequal-mean", _SIZES, "mean of 1 of 5 columns", (100, 5000), 5, mean(0.35, 1)),
    _normal("unequal-pair", _SIZES, "1 of 10 correlations", (100, 5000), 5, correlation(0.5)),
    _normal("unequal-spread", _SIZES, "spread of 1 of 5 columns", (100, 5000), 5, spread(1.4, 1)),
    _normal("wide-mean", _SIZES, "mean of all of 500 columns", 100, 500, mean(0.07, 500)),
    _normal("wide-few", _SIZES, "mean of 5 of 500 columns", 100, 500, mean(0.52, 5)),
    _normal(
        "wide-factor", _SIZES, "all correlations of 500 columns", 100, 500, common_factor(0.04)
    ),
)

NULLS = (
    "perturbed-1d-3",
    "perturbed-2d-1",
    "mean-1-of-5",
    "mean-1-of-50",
    "correlation-1-of-45",
    "parity-3-of-20",
    "poisson-rate",
    "coins",
    "rounded",
    "cauchy-place",
    "lognormal",
    "small-mean",
    "unequal-mean",
    "wide-mean",
)
"""The scenarios that are run without a difference, too: each is another kind of rows."""
