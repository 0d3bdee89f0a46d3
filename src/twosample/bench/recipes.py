"""How a method is set up in an experiment: its recipe.

default   as this library does it for anybody, without settings for any data set
paper     as the authors' code does it for each data set, which made the published numbers
stated    as the paper's text says, where that differs from the code
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from .._insight.locations import How, locations
from .._methods import ABLATIONS, METHODS, ablation, me
from .._random import Generators
from .._two_sample import FittedTest, TwoSampleTest
from ..errors import InputError
from . import authors
from .experiments import Setting

RECIPES = ("default", "paper", "stated")

PERMUTATIONS = 199
"""How many each test has.

0.05 (199 + 1) is whole, so the level is exact. More would cost time and gain little power.
"""


def check(recipe: str) -> None:
    """Raise an error for a recipe that does not exist."""
    if recipe not in RECIPES:
        raise InputError(f"there is no recipe {recipe!r}; use one of {', '.join(RECIPES)}.")


LOCATIONS: Mapping[str, How] = MappingProxyType(
    {"deep-me-trained": "trained", "deep-me-selected": "selected"}
)
"""Tests at one location, which is found with the kernel that mmd-d has trained."""


def fit(
    method: str, recipe: str, setting: Setting, X: Any, Y: Any, generators: Generators
) -> FittedTest:
    """Return the test of a method, fitted on the training samples X and Y."""
    # Locations are looked for with a trained deep kernel.
    first = "mmd-d" if method in LOCATIONS else method
    test = build(first, recipe, setting, X, Y)
    # On the CPU, so that a trial is the same on every machine of a cluster.
    fitted = test.fit(X, Y, rng=generators.numpy("fit"), device="cpu", progress=False)
    if method not in LOCATIONS:
        return fitted
    at_location = locations(
        fitted,
        X,
        Y,
        1,
        how=LOCATIONS[method],
        permutations=PERMUTATIONS,
        rng=generators.numpy("locations"),
        progress=False,
    )
    return at_location.fitted


def build(method: str, recipe: str, setting: Setting, X: Any, Y: Any) -> TwoSampleTest:
    """Return the test of a method, to be fitted on the training samples X and Y."""
    check(recipe)
    if recipe == "default":
        return _default(method)
    numbers = authors.numbers(setting, stated=recipe == "stated")
    return authors.build(method, setting, numbers, X, Y, permutations=PERMUTATIONS)


def _default(method: str) -> TwoSampleTest:
    if method in ABLATIONS:
        return ablation(method, permutations=PERMUTATIONS)
    if method == "me-1":
        return me(1, permutations=PERMUTATIONS)
    return METHODS[method](permutations=PERMUTATIONS)
