"""Shuffles of bins, in parts: what a permutation test goes through without ever holding it.

A hundred thousand permutations of two thousand bins would take gigabytes. They are drawn some at a
time instead, and drawn again, the same ones, whenever somebody goes through them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from ._resources import DEFAULT_MEMORY

Draw: TypeAlias = Callable[[int, torch.Generator], Tensor]
"""(how many, a generator) -> (how many, moving) random shuffles."""

_AT_ONCE = 256  # shuffles in a part: enough for a quick product of matrices
_COPIES = 16  # a part in int64, its keys, and what a statistic makes of it


@dataclass(frozen=True, eq=False)
class Shuffles:
    """(B + 1, moving) permutations of the moving bins, the identity first, in parts.

    Attributes
    ----------
    count
        B + 1: how many there are, the identity included.
    moving
        How many bins move.
    parts
        Gives them anew, so many rows at a time at most.
    """

    count: int
    moving: int
    parts: Callable[[int], Iterator[Tensor]]

    @classmethod
    def random(cls, count: int, moving: int, draw: Draw, generator: torch.Generator) -> Shuffles:
        """The identity and `count` random shuffles; `generator` is left where it was."""
        state = generator.get_state()

        def parts(rows: int) -> Iterator[Tensor]:
            again = torch.Generator()
            again.set_state(state)
            identity = torch.arange(moving)[None]
            # Numbers come from the generator one after the other, so the parts together are what
            # one large draw would give.
            first = min(rows - 1, count)
            yield torch.cat([identity, draw(first, again)])
            for done in range(first, count, rows):
                yield draw(min(rows, count - done), again)

        return cls(count + 1, moving, parts)

    @classmethod
    def listed(cls, count: int, moving: int, make: Callable[[], Iterable[list[int]]]) -> Shuffles:
        """All shuffles there are, as `make` lists them, the identity first."""

        def parts(rows: int) -> Iterator[Tensor]:
            remaining = iter(make())
            while part := list(itertools.islice(remaining, rows)):
                yield torch.tensor(part).reshape(len(part), moving)

        return cls(count, moving, parts)

    @classmethod
    def none(cls, moving: int) -> Shuffles:
        """The identity alone, where nothing is shuffled."""
        return cls(1, moving, lambda rows: iter([torch.arange(moving)[None]]))

    def __len__(self) -> int:
        return self.count

    def within(self, memory: int = DEFAULT_MEMORY) -> Iterator[Tensor]:
        """Parts of some hundred rows, or fewer where `memory` bytes hold no more."""
        row = _COPIES * 8 * max(1, self.moving)
        return self.parts(max(2, min(_AT_ONCE, memory // row)))

    def first(self, count: int) -> Tensor:
        """So many of them at most, from the identity on."""
        rows: list[Tensor] = []
        for part in self.parts(_AT_ONCE):
            rows.append(part)
            if sum(map(len, rows)) >= count:
                break
        return torch.cat(rows)[:count]

    def all(self) -> Tensor:
        """All of them at once."""
        return torch.cat(list(self.parts(_AT_ONCE)))
