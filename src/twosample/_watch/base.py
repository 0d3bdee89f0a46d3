"""What a witness is: it bets on a batch with what it knows from before, then learns from it.

A witness is replaced, never changed in place: an error half way leaves everything as it was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import Tensor

from .._calibration import Permutation
from .._random import Generators
from .._statistics.base import Bins
from .._two_sample import FittedTest
from .door import Door
from .rows import Batch, Recent

GROWTH = 1.5
"""Views and kernels are fitted again when there are so many times as many rows."""


class Bet(NamedTuple):
    """The outcome of a batch."""

    log_evalues: Tensor  # (B + 1,) of all labellings, the observed one first
    leading: tuple[tuple[tuple[int, ...], float], ...] = ()
    """Columns, and their share of the evidence so far; no columns stand for all together."""


class Witness(ABC):
    """What a watch bets with.

    Attributes
    ----------
    name
        What it is called in a file.
    """

    name: str

    @abstractmethod
    def observe(
        self, batch: Batch, door: Door, generators: Generators, permutations: int
    ) -> tuple[Bet, Witness]:
        """The bet on a batch, and the witness that has learned from it."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], dict[str, Tensor], FittedTest | None]:
        """All it has learned: plain values, tensors, and what was fitted."""

    @abstractmethod
    def restored(
        self, values: Mapping[str, Any], tensors: Mapping[str, Tensor], fitted: FittedTest | None
    ) -> Witness:
        """The witness with what `state` gave."""


class Labellings(NamedTuple):
    """A batch cut into bins, and ones where the bins of each labelling are in X."""

    bins: Bins
    in_x: Tensor  # (B + 1, S), the observed labelling first


def draw_labellings(
    batch: Batch, permutations: int, generators: Generators, most: int | None = None
) -> Labellings:
    """Labellings of a batch that its design allows; all there are, where they are few."""
    plan = Permutation(permutations)
    generator = generators.torch("bins")
    if batch.units is not None:
        bins = plan.plan_units(batch.units, generator, most=most)
    else:
        bins = plan.plan(*batch.sizes, generator, most=most)
    shuffles = plan.shuffles(bins, generators.torch("permutations"))
    return Labellings(bins, bins.in_x(shuffles.all()))


def recent_from(tensors: Mapping[str, Tensor]) -> Recent:
    """The latest rows, from the tensors of a file."""
    of_recent = {
        name.removeprefix("recent."): each
        for name, each in tensors.items()
        if name.startswith("recent.")
    }
    return Recent.from_tensors(of_recent)
