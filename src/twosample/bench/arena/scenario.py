"""A scenario of the arena: two samples to be told apart, drawn anew from every generator."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

Pair: TypeAlias = tuple[Any, Any]
"""Two samples: arrays of numbers, arrays of images, or polars tables."""

Draw: TypeAlias = Callable[[np.random.Generator, bool], Pair]
"""(generator, whether the samples differ) -> the two samples."""

Kind: TypeAlias = Literal["numbers", "images", "table"]
"""What the samples are: arrays of columns, arrays of pictures, or tables of mixed columns."""


@dataclass(frozen=True)
class Scenario:
    """Two samples that differ in a known way, or, in the null version, do not.

    Attributes
    ----------
    name
        What `twosample bench arena` calls it; a null version's ends in "-null".
    group
        The heading under which it is shown.
    about
        What differs, in a few words.
    sizes
        How many rows X and Y have. That is all that a test gets: one that splits splits these.
    kind
        What the samples are.
    pair
        Draws them.
    different
        Whether there is a difference; False for a null version.
    """

    name: str
    group: str
    about: str
    sizes: tuple[int, int]
    kind: Kind
    pair: Draw
    different: bool = True

    def draw(self, rng: np.random.Generator) -> Pair:
        """Draw the two samples."""
        return self.pair(rng, self.different)

    def null(self) -> Scenario:
        """The same scenario without the difference."""
        return dataclasses.replace(self, name=f"{self.name}-null", different=False)
