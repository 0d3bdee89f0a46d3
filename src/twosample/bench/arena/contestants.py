"""Who takes part in the arena: all of our methods by name, and the rivals.

Every contestant gets the same rows. One that trains splits what it gets. Tables and images reach
the rivals as our library encodes and scales them, without a look at labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..._api import two_sample_test
from ..._data.columns import Columns
from ..._data.streams import held
from ..._data.survey import every_row, survey
from ..._methods import METHODS
from ...errors import InputError, InputWarning
from . import rivals
from .rivals import Rival
from .scenario import Kind, Pair, Scenario

Cost: TypeAlias = Literal["quick", "medium", "slow"]

TRIALS: dict[Cost, int] = {"quick": 100, "medium": 30, "slow": 10}
"""How many tests a cell has, by what a test costs."""

_COLUMNS = Columns(missing="indicator")
_QUICK = ("auto", "spectral", "mmd-fuse", "mmd-agg", "mmd-median", "mmd-o", "mmd-mkl", "c2st-trees")
_SLOW_ON_IMAGES = (
    "mmd-d",
    "c2st-s",
    "c2st-l",
    "c2st-trees",
    "me",
    "scf",
    "mmd-block",
    "mmd-compressed",
)


@dataclass(frozen=True)
class Contestant:
    """A test that takes part.

    Attributes
    ----------
    name
        What `twosample bench arena` calls it.
    about
        What it is, in a few words.
    test
        (the two samples, their kind, generator) -> p-value.
    cost, cost_on_images
        What a test costs, which decides how many tests a cell has by default.
    kinds
        The kinds of samples that it takes.
    ours
        Whether it is a method of this library.
    """

    name: str
    about: str
    test: Callable[[Pair, Kind, np.random.Generator], float]
    cost: Cost
    cost_on_images: Cost
    kinds: tuple[Kind, ...] = ("numbers", "images", "table")
    ours: bool = False

    def trials(self, scenario: Scenario) -> int:
        """How many tests it has in a scenario by default."""
        return TRIALS[self.cost_on_images if scenario.kind == "images" else self.cost]

    def pvalue(self, scenario: Scenario, pair: Pair, rng: np.random.Generator) -> float:
        """Test two samples of a scenario."""
        with warnings.catch_warnings():
            # They are about constant pixels, or levels that are rare.
            warnings.simplefilter("ignore", InputWarning)
            return self.test(pair, scenario.kind, rng)


def _method(name: str) -> Contestant:
    """One of our methods, as it is by default."""

    def test(pair: Pair, kind: Kind, rng: np.random.Generator) -> float:
        columns = _COLUMNS if kind == "table" else None
        x, y = pair
        result = two_sample_test(x, y, name, rng=rng, columns=columns, progress=False)
        return result.pvalue

    on_images: Cost = "slow" if name in _SLOW_ON_IMAGES else "medium"
    cost: Cost = "quick" if name in _QUICK else "medium"
    return Contestant(name, "ours", test, cost, on_images, ours=True)


def _rival(name: str, about: str, rival: Rival, cost: Cost, on_images: Cost) -> Contestant:
    def test(pair: Pair, kind: Kind, rng: np.random.Generator) -> float:
        points, n = encoded(pair, kind)
        return rival(points, n, rng)

    return Contestant(name, about, test, cost, on_images)


def encoded(pair: Pair, kind: Kind) -> tuple[NDArray[np.float64], int]:
    """The pooled rows as our methods see them, and how many of them are X's."""
    x, y = pair
    columns = _COLUMNS if kind == "table" else None
    looked = survey((held(x), held(y)), every_row, columns=columns)
    samples = looked.scaling.apply(looked.picked)
    pooled = np.concatenate([samples.x.numpy(), samples.y.numpy()])
    n = len(samples.x)
    return pooled.reshape(len(pooled), -1).astype(np.float64), n


def _columnwise(pair: Pair, kind: Kind, rng: np.random.Generator) -> float:
    x, y = pair
    if kind == "table":
        return rivals.columnwise(_table_columns(x, y), len(x))
    pooled = np.concatenate([x, y])
    flat = pooled.reshape(len(pooled), -1).astype(np.float64)
    return rivals.columnwise(list(flat.T), len(x))


def _table_columns(x: Any, y: Any) -> list[NDArray[Any]]:
    """The columns of two polars tables, and for each with missing values whether they are."""
    columns: list[NDArray[Any]] = []
    for name in x.columns:
        cells = [*x[name].to_list(), *y[name].to_list()]
        absent = np.array([cell is None for cell in cells])
        if x[name].dtype.is_numeric():
            numbers = [np.nan if cell is None else float(cell) for cell in cells]
            columns.append(np.array(numbers))
            if absent.any():
                columns.append(absent)
        else:
            # A missing value is a level of its own.
            columns.append(np.array([str(cell) for cell in cells]))
    return columns


_RIVALS = (
    Contestant(
        "ks-holm",
        "Kolmogorov-Smirnov or chi-squared for every column, corrected as Holm does",
        _columnwise,
        "quick",
        "medium",
    ),
    _rival("energy", "energy distance", rivals.energy, "quick", "quick"),
    _rival(
        "kernel-lr",
        "kernel likelihood ratio",
        rivals.kernel_likelihood_ratio,
        "medium",
        "medium",
    ),
    _rival("boosted-trees", "boosted trees, split", rivals.boosted_trees, "quick", "slow"),
    _rival("forest", "random forest, split", rivals.random_forest, "quick", "medium"),
    _rival(
        "forest-oob",
        "random forest out of bag, grown anew for every labelling",
        rivals.out_of_bag_forest,
        "slow",
        "slow",
    ),
)


def contestants() -> dict[str, Contestant]:
    """All contestants by name, the most important first."""
    every = [*(_method(name) for name in METHODS), *_RIVALS]
    return {contestant.name: contestant for contestant in every}


def select(names: Iterable[str]) -> list[Contestant]:
    """The contestants of these names; all if there is none.

    Raises
    ------
    InputError
        If a name is none of theirs.
    """
    known = contestants()
    wanted = list(dict.fromkeys(names))
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise InputError(f"there is no contestant {unknown[0]!r}; use one of {', '.join(known)}.")
    return [known[name] for name in wanted] if wanted else list(known.values())
