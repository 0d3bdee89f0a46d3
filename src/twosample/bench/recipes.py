"""How a method is set up in an experiment, by recipe.

default   as this library does it for anybody: no setting knows which data it is for
paper     as the authors' code does it for each data set, which made the published numbers
stated    as the paper's text says, where that differs from the code
"""

from __future__ import annotations

from typing import Any

from .. import methods
from ..errors import InputError
from ..two_sample import TwoSampleTest
from . import authors
from .experiments import Setting

RECIPES = ("default", "paper", "stated")

PERMUTATIONS = 199
"""For each test: 0.05 (199 + 1) is whole, so the level is exact; more would cost time and gain little power."""


def check(recipe: str) -> None:
    """Raise an error for a recipe that does not exist."""
    if recipe not in RECIPES:
        raise InputError(f"there is no recipe {recipe!r}; use one of {', '.join(RECIPES)}.")


def build(method: str, recipe: str, setting: Setting, X: Any, Y: Any) -> TwoSampleTest:
    """The test of a method, to be fitted on the training samples X and Y."""
    check(recipe)
    if recipe == "default":
        return _default(method)
    numbers = authors.numbers(setting, stated=recipe == "stated")
    return authors.build(method, setting, numbers, X, Y, permutations=PERMUTATIONS)


def _default(method: str) -> TwoSampleTest:
    if method in methods.ABLATIONS:
        return methods.ablation(method, permutations=PERMUTATIONS)
    return methods.METHODS[method](permutations=PERMUTATIONS)
