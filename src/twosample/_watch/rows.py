"""The rows that a watch keeps: the latest batches, to learn from; and a reference, to be spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .._design import Units
from ..errors import InputError

MOST_ROWS = 2000
"""Rows of each sample that are kept to learn from: more would cost more and teach little."""

_MOST_BYTES = 2**24  # of each sample, whatever the rows
_FEWEST_ROWS = 50


class Batch(NamedTuple):
    """The points of a batch, or of what is kept of one."""

    x: Tensor
    y: Tensor
    units: Units | None = None  # that move together, where they are not single points

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of points of X and of Y."""
        return len(self.x), len(self.y)

    def pooled(self) -> Tensor:
        """The points of x, then those of y."""
        return torch.cat([self.x, self.y])


@dataclass(frozen=True, eq=False)
class Recent:
    """The latest batches, as many as there is room for: bounded, whatever came before."""

    batches: tuple[Batch, ...] = ()

    def __len__(self) -> int:
        return sum(sum(batch.sizes) for batch in self.batches)

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Number of points of X and of Y in each batch."""
        return [batch.sizes for batch in self.batches]

    @property
    def x(self) -> Tensor:
        """The points of X in all batches."""
        return torch.cat([batch.x for batch in self.batches])

    @property
    def y(self) -> Tensor:
        """The points of Y in all batches."""
        return torch.cat([batch.y for batch in self.batches])

    def pooled(self) -> Tensor:
        """All points, batch after batch."""
        return torch.cat([batch.pooled() for batch in self.batches])

    def of_bin(self) -> Tensor:
        """The bin of each of `pooled`: 0 for X and 1 for Y of the first batch, and so on."""
        counts = torch.tensor([size for sizes in self.sizes for size in sizes])
        return torch.repeat_interleave(torch.arange(len(counts)), counts)

    def with_batch(self, batch: Batch, generator: torch.Generator) -> Recent:
        """With another batch, and without the oldest ones where there is no room for them."""
        room = _room(batch)
        x = _some(batch.x, room, generator)
        y = _some(batch.y, room, generator)
        kept = [Batch(x, y)]
        of_x = len(x)
        of_y = len(y)
        for older in reversed(self.batches):
            of_x += len(older.x)
            of_y += len(older.y)
            if max(of_x, of_y) > room:
                break
            kept.append(older)
        return Recent(tuple(reversed(kept)))

    def tensors(self) -> dict[str, Tensor]:
        """All of it, for a file."""
        if not self.batches:
            return {}
        return {"x": self.x, "y": self.y, "sizes": torch.tensor(self.sizes)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Recent:
        """What `tensors` gave."""
        if not tensors:
            return cls()
        of_x, of_y = tensors["sizes"].T.tolist()
        parts_x = torch.split(tensors["x"], of_x)
        parts_y = torch.split(tensors["y"], of_y)
        batches = [Batch(x, y) for x, y in zip(parts_x, parts_y, strict=True)]
        return cls(tuple(batches))


def _room(batch: Batch) -> int:
    bytes_of_row = 8 * max(1, batch.x[:1].numel())
    return max(_FEWEST_ROWS, min(MOST_ROWS, _MOST_BYTES // bytes_of_row))


def _some(rows: Tensor, most: int, generator: torch.Generator) -> Tensor:
    if len(rows) <= most:
        return rows
    chosen = torch.randperm(len(rows), generator=generator)[:most]
    return rows[chosen.sort().values]


@dataclass(frozen=True, eq=False)
class Reference:
    """Reference rows that no batch has been compared with yet, in random order.

    A row is compared once. With the same rows every day, the days would not be independent: a
    reference that happens to be odd looks odd every day, and wealth grows without a difference.
    """

    rows: Tensor
    spent: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, wanted: int) -> tuple[Tensor, Reference]:
        """So many rows, or all that are left; and what is left then."""
        if not len(self.rows):
            raise InputError(
                f"all {self.spent} rows of the reference are spent: each is compared once. Give "
                "more rows of it to Watch.refill, or watch two streams. Batches that raised no "
                "alarm do not become the reference."
            )
        taken = self.rows[:wanted]
        left = Reference(self.rows[wanted:], self.spent + len(taken))
        return taken, left


def set_aside(count: int) -> int:
    """How many of so many reference rows fix columns and scales, and are never tested."""
    return min(count, max(_FEWEST_ROWS, min(MOST_ROWS // 2, count // 5)))


def checked_sizes(sizes: Sequence[int]) -> None:
    """Refuse a batch without rows on one side."""
    for sample, size in zip("XY", sizes, strict=True):
        if size < 1:
            raise InputError(f"{sample} has no rows; a batch has at least one of each sample.")
