"""Units and cells: the one shape that every design has.

Rows that move together are a unit. Units that may change places with each other are a cell. A move
permutes the units within every cell, in any way:

    moves = Sym(cell 1) x Sym(cell 2) x ...

These are a group, whatever the units and the cells are, so a permutation test over them is exact
wherever the units of a cell are exchangeable when the null hypothesis holds. Single rows in one
cell are the ordinary permutation test. Every cell keeps its number of units in X; where units have
different numbers of rows, a move changes the number of rows in X.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from ..errors import InputError

Codes: TypeAlias = tuple[Tensor, Tensor]
"""A whole number for each row of X and of Y: rows of equal numbers belong together."""

SplitRows: TypeAlias = tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]
"""(to train on, to test) for X and for Y."""

SIDE = "side"
"""What a unit is called of which a cell has one in X and one in Y: the cells are counted then."""

_LEAST = 2  # rows in each part of a split, as in a split of single rows
_PLURALS = {"series": "series", "stratum": "strata"}


@dataclass(frozen=True, eq=False)
class Units:
    """Which rows of two samples move together, and which of these units may change places.

    Attributes
    ----------
    of_x, of_y
        (n,) and (m,) the unit of each row. Units of X have the numbers from 0 on, then those of Y.
    cells
        (units,) the cell of each unit.
    unit, cell
        What messages call one of them; `cell` is "" where there is only one.
    used
        Which rows of X and of Y these are, where others are left out; None for all.
    note
        What else there is to say of them.
    """

    of_x: Tensor
    of_y: Tensor
    cells: Tensor
    unit: str = "unit"
    cell: str = ""
    used: Codes | None = None
    note: str = ""

    def __post_init__(self) -> None:
        if not len(self.of_x) or not len(self.of_y):
            return
        last = int(self.of_x.max())
        first = int(self.of_y.min())
        if last >= first or int(self.of_y.max()) >= len(self.cells):
            raise InputError(
                f"units of X have numbers up to {last}, those of Y from {first} on, and "
                f"{len(self.cells)} units have cells; number those of X from 0 on, then those of Y."
            )

    @classmethod
    def of(
        cls,
        codes: Codes,
        cells: Codes | None = None,
        *,
        unit: str = "unit",
        cell: str = "",
        note: str = "",
    ) -> Units:
        """Rows of one sample with the same code are a unit, in the cell of its first row.

        Rows whose code is negative are left out.
        """
        used = None
        if bool((torch.cat(codes) < 0).any()):
            used = torch.nonzero(codes[0] >= 0)[:, 0], torch.nonzero(codes[1] >= 0)[:, 0]
            codes = _taken(codes, used)
            cells = None if cells is None else _taken(cells, used)
        of_x, first_x = _numbered(codes[0])
        of_y, first_y = _numbered(codes[1])
        if cells is None:
            of_units = torch.zeros(len(first_x) + len(first_y), dtype=torch.int64)
        else:
            of_units = torch.cat([cells[0][first_x], cells[1][first_y]])
            _, of_units = torch.unique(of_units, return_inverse=True)
        return cls(of_x, of_y + len(first_x), of_units, unit, cell, used, note)

    @property
    def counts(self) -> tuple[int, int]:
        """How many units X and Y have."""
        of_x = int(self.of_x.max()) + 1 if len(self.of_x) else 0
        return of_x, len(self.cells) - of_x

    @property
    def sizes(self) -> tuple[int, int]:
        """How many rows X and Y have."""
        return len(self.of_x), len(self.of_y)

    @property
    def usual_sizes(self) -> tuple[int, int]:
        """How many rows X and Y would have if all units had as many: no move changes these."""
        units_x, units_y = self.counts
        rows = sum(self.sizes)
        of_x = round(rows * units_x / (units_x + units_y))
        return of_x, rows - of_x

    @property
    def rows(self) -> Tensor:
        """(units,) how many rows each unit has."""
        return torch.bincount(torch.cat([self.of_x, self.of_y]), minlength=len(self.cells))

    def in_cells(self) -> tuple[Tensor, Tensor]:
        """(cells,) how many units of X and of Y each cell has."""
        units_x, _ = self.counts
        count = int(self.cells.max()) + 1
        of_x = torch.bincount(self.cells[:units_x], minlength=count)
        of_y = torch.bincount(self.cells[units_x:], minlength=count)
        return of_x, of_y

    def labellings(self) -> int:
        """How many ways there are to say which units are in X."""
        of_x, of_y = self.in_cells()
        ways = 1
        for x, y in zip(of_x.tolist(), of_y.tolist(), strict=True):
            ways *= math.comb(x + y, x)
        return ways

    def check(self) -> None:
        """Refuse units of which none can change its place."""
        of_x, of_y = self.in_cells()
        if not bool(((of_x > 0) & (of_y > 0)).any()):
            raise InputError(
                f"no {self.cell or 'cell'} has {plural(self.unit)} of both X and Y, so nothing can "
                "change places; see whether the values are the same in both samples."
            )

    def take(self, rows_x: Tensor, rows_y: Tensor) -> Units:
        """The units of some rows, in this order."""
        codes = _taken((self.of_x, self.of_y), (rows_x, rows_y))
        cells = (self.cells[codes[0]], self.cells[codes[1]])
        return Units.of(codes, cells, unit=self.unit, cell=self.cell, note=self.note)

    def split(self, fraction: float, generator: torch.Generator, most: int | None) -> SplitRows:
        """Whole units to train on, about this share of every cell, and all others.

        A cell with at least two units of each sample is split; of the others, each goes to one side
        as a whole, so that what can change places stays together. `most` rows of each sample are
        trained on at most.
        """
        self.check()
        trained = self._trained(fraction, generator)
        of_x = self._cut(self.of_x, trained, generator, most)
        of_y = self._cut(self.of_y, trained, generator, most)
        self._check_split(of_x, of_y, fraction)
        return of_x, of_y

    def _trained(self, fraction: float, generator: torch.Generator) -> Tensor:
        """(units,) whether each is trained on."""
        units_x, units_y = self.counts
        of_x, of_y = self.in_cells()
        split = (of_x >= 2) & (of_y >= 2)
        whole = _drawn(torch.nonzero(~split)[:, 0], fraction, generator)
        trained = torch.isin(self.cells, whole)
        of_sample = torch.arange(units_x + units_y) >= units_x
        # A group is what a share is taken of: the units of one sample in one cell.
        groups = 2 * self.cells + of_sample
        order = torch.randperm(len(groups), generator=generator)
        order = order[groups[order].argsort(stable=True)]
        counts = torch.bincount(groups, minlength=2 * len(of_x))
        wanted = _shares(counts, fraction, generator)
        first = counts.cumsum(0) - counts
        rank = torch.arange(len(order)) - first[groups[order]]
        is_chosen = (rank < wanted[groups[order]]) & split[self.cells[order]]
        trained[order[is_chosen]] = True
        return trained

    def _cut(
        self, of_rows: Tensor, trained: Tensor, generator: torch.Generator, most: int | None
    ) -> tuple[Tensor, Tensor]:
        order = torch.randperm(len(of_rows), generator=generator)
        is_trained = trained[of_rows[order]]
        # Rows beyond `most` are neither trained on nor tested: their units were seen.
        return order[is_trained][:most], order[~is_trained]

    def _check_split(
        self, of_x: tuple[Tensor, Tensor], of_y: tuple[Tensor, Tensor], fraction: float
    ) -> None:
        for name, parts, count in zip("XY", (of_x, of_y), self.counts, strict=True):
            if min(len(parts[0]), len(parts[1])) < _LEAST:
                raise InputError(
                    f"{name} has {counted(count, self.unit)}, too few to train on some and test "
                    f"others with train_fraction={fraction}; use a method without training, such "
                    "as 'spectral' or 'mmd-median'."
                )
        self.take(of_x[1], of_y[1]).check()

    def describe(self) -> str:
        """How many units there are, and in how many cells."""
        of_x, of_y = self.in_cells()
        if self.unit == SIDE:
            words = counted(int(((of_x > 0) & (of_y > 0)).sum()), self.cell)
        else:
            words = f"{of_x.sum()} + {of_y.sum()} {plural(self.unit)}"
            if self.cell:
                words += f" within {counted(len(of_x), self.cell)}"
        return f"{words}, {self.note}" if self.note else words


def _taken(codes: Codes, rows: Codes) -> Codes:
    return codes[0][rows[0]], codes[1][rows[1]]


def _numbered(codes: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers from 0 on in the place of codes, and the first row of each."""
    values, numbers = torch.unique(codes, return_inverse=True)
    first = torch.full((len(values),), len(codes), dtype=torch.int64)
    first.scatter_reduce_(0, numbers, torch.arange(len(codes)), "amin")
    return numbers, first


def _drawn(among: Tensor, fraction: float, generator: torch.Generator) -> Tensor:
    """A random share of these numbers."""
    order = torch.randperm(len(among), generator=generator)
    return among[order[: round(len(among) * fraction)]]


def _shares(counts: Tensor, fraction: float, generator: torch.Generator) -> Tensor:
    """A share of every count in whole numbers, at least 1 and leaving 1 where there are 2.

    Rounded so that the sums over many small counts come out right, from a random start.
    """
    exact = counts.double() * fraction
    start = torch.rand(1, generator=generator, dtype=torch.float64)
    # Where a running sum passes a whole number decides which counts are rounded up.
    ends = (exact.cumsum(0) + start).floor()
    shares = ends.diff(prepend=start.floor()).long()
    return torch.minimum(shares.clamp_min(1), (counts - 1).clamp_min(0))


def plural(noun: str) -> str:
    """More than one of them."""
    return _PLURALS.get(noun, f"{noun}s")


def counted(number: int, noun: str) -> str:
    """A number of them."""
    return f"{number} {noun if number == 1 else plural(noun)}"
