"""Views of the columns of a table: all of them together, and each alone."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from .._checks import check_whole
from .base import FEW, ColumnSets, Layout, Pooled, Seen, View
from .places import as_places, columns_at, most_frequent, no_places
from .scores import bumps, ranks

_MOST_LEVELS = 64  # of a category in a view of its own; rarer ones share a place
_MOST_LINEAR = 512  # columns seen together as they are; more are projected
_MOST_MARKS = 4  # frequent values of a number that are looked at by themselves
_KINDS = {"columns": "values", "levels": "levels", "indicators": "indicators"}
_WEIGHTS = {"columns": 0.25, "levels": 0.25, "indicators": 0.3}
_LEAST_COUNT = 6  # of equal values: fewer are found in one sample by chance more than once in 20


class Together(View):
    """All columns together as they are: their normal scores, their ranks, or squares of scores.

    More columns than 512 are projected at random onto so many.
    """

    family = "joint"
    kind = "together"
    weight = 0.17
    regularisation = (math.inf, 0.1, 1e-3)
    projection: Tensor  # (atoms, 512), or empty where there are fewer

    def __init__(self, of: Literal["scores", "ranks", "squares"] = "scores") -> None:
        super().__init__()
        self.of = of
        self.register_buffer("projection", torch.empty(0, 0))

    def extra_repr(self) -> str:
        return repr(self.of)

    def fit(self, pooled: Pooled, layout: Layout) -> None:
        atoms = pooled.scores.shape[1]
        if atoms > _MOST_LINEAR:
            fixed = torch.Generator().manual_seed(0)  # any projection does, but always the same
            shape = (atoms, _MOST_LINEAR)
            self.projection = torch.randn(shape, generator=fixed, dtype=torch.float64)

    def features(self, seen: Seen) -> Tensor:
        features = seen.scores
        if self.of == "ranks":
            features = ranks(features)
        elif self.of == "squares":
            features = features.square()
        if self.projection.numel():
            features = features @ self.projection
        return features[:, None]  # one view

    def columns(self) -> ColumnSets:
        return [()]


class Values(View):
    """One feature a view: the score of a column, its rank, its square, an indicator of a level.

    Parameters
    ----------
    of
        "columns" that are numbers, booleans, or say where values are missing; "levels" of
        categories; or "indicators", all encoded columns that are 0 or 1, as they are.
    """

    family = "column"
    regularisation = (math.inf,)
    atoms: Tensor  # encoded columns that are seen as they are
    numbers: Tensor  # encoded columns of more than two values, which have a square
    owners: Tensor  # the column that each view looks at

    def __init__(self, of: Literal["columns", "levels", "indicators"] = "columns") -> None:
        super().__init__()
        self.of = of
        # Levels are many, and would take from the share of the columns. So they have their own.
        self.kind = _KINDS[of]
        self.weight = _WEIGHTS[of]
        self.register_buffer("atoms", no_places(0))
        self.register_buffer("numbers", no_places(0))
        self.register_buffer("owners", no_places(0))

    def extra_repr(self) -> str:
        return repr(self.of)

    @property
    def are_counts(self) -> bool:
        return self.of == "indicators"

    def fit(self, pooled: Pooled, layout: Layout) -> None:
        numbers = []
        if self.of == "levels":
            atoms = layout.levels()
        elif self.of == "indicators":
            is_indicator = ((pooled.rows == 0) | (pooled.rows == 1)).all(0)
            atoms = is_indicator.nonzero().flatten().tolist()
        else:
            atoms = layout.singles()
            numbers = layout.numbers()
        self.atoms = as_places(atoms)
        self.numbers = as_places(numbers)
        owner = layout.owners()
        of_atoms = owner[self.atoms]
        of_numbers = owner[self.numbers]
        self.owners = torch.cat([of_atoms, of_numbers, of_numbers])

    def features(self, seen: Seen) -> Tensor:
        if self.are_counts:
            return seen.rows[:, self.atoms, None]
        values = seen.scores[:, self.atoms]
        numbers = seen.scores[:, self.numbers]
        # Normal scores see the tails and ranks the middle, where values with heavy tails differ.
        in_ranks = ranks(numbers)
        squares = numbers.square()
        features = torch.cat([values, in_ranks, squares], 1)
        return features[:, :, None]

    def columns(self) -> ColumnSets:
        return [(owner,) for owner in self.owners.tolist()]


class Shapes(View):
    """Twenty bumps over the normal scores of a number: any difference in its distribution."""

    family = "column"
    kind = "shapes"
    weight = 0.12
    regularisation = (math.inf, *FEW)
    numbers: Tensor  # encoded columns
    owners: Tensor  # the columns of the table that these are

    def __init__(self, bumps: int = 20, width: float = 0.4) -> None:
        super().__init__()
        check_whole("bumps", bumps, 2)
        self.bumps = bumps
        self.width = width
        self.register_buffer("numbers", no_places(0))
        self.register_buffer("owners", no_places(0))

    def extra_repr(self) -> str:
        return f"bumps={self.bumps}, width={self.width:g}"

    def fit(self, pooled: Pooled, layout: Layout) -> None:
        self.numbers = as_places(layout.numbers())
        self.owners = layout.owners()[self.numbers]

    def features(self, seen: Seen) -> Tensor:
        scores = seen.scores[:, self.numbers]
        return bumps(scores, self.bumps, self.width)

    def size(self) -> int:
        return len(self.numbers) * self.bumps

    def columns(self) -> ColumnSets:
        return [(owner,) for owner in self.owners.tolist()]


class Levels(View):
    """The indicators of a category together: their shares, as in a chi-squared test."""

    family = "column"
    kind = "shapes"
    weight = 0.12
    places: Tensor  # (categories, levels) encoded columns; -1 where there is none
    owners: Tensor  # (categories,) columns of the table

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("places", no_places(0, 0))
        self.register_buffer("owners", no_places(0))

    def fit(self, pooled: Pooled, layout: Layout) -> None:
        categories = layout.categories()
        rows = pooled.rows
        kept = [most_frequent(levels, rows, _MOST_LEVELS) for levels in categories.values()]
        counts = [len(levels) for levels in kept]
        width = max(counts, default=0)
        self.places = torch.full((len(kept), width), -1)
        for row, levels in enumerate(kept):
            self.places[row, : counts[row]] = as_places(levels)
        self.owners = as_places(list(categories))

    def features(self, seen: Seen) -> Tensor:
        return columns_at(seen.rows, self.places)

    def columns(self) -> ColumnSets:
        return [(owner,) for owner in self.owners.tolist()]


class Marks(View):
    """One feature a view: whether a number is one of its frequent values, its least or its largest.

    Codes such as 999 and -1, zeros, and limits at which values are cut off are not numbers like
    the others. A column whose values hardly repeat has none.
    """

    family = "column"
    kind = "marks"
    weight = 0.09
    regularisation = (math.inf,)
    numbers: Tensor  # (views,) encoded columns
    values: Tensor  # (views,) the value that each view looks for
    owners: Tensor  # (views,) columns of the table

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("numbers", no_places(0))
        self.register_buffer("values", torch.empty(0, dtype=torch.float64))
        self.register_buffer("owners", no_places(0))

    def fit(self, pooled: Pooled, layout: Layout) -> None:
        numbers = []
        values = []
        for place in layout.numbers():
            marks = _marks(pooled.rows[:, place])
            numbers += [place] * len(marks)
            values += marks
        self.numbers = as_places(numbers)
        self.values = torch.tensor(values, dtype=torch.float64)
        self.owners = layout.owners()[self.numbers]

    def features(self, seen: Seen) -> Tensor:
        is_mark = seen.rows[:, self.numbers] == self.values
        return is_mark.double()[:, :, None]

    def size(self) -> int:
        return len(self.numbers)

    def columns(self) -> ColumnSets:
        return [(owner,) for owner in self.owners.tolist()]


def _marks(column: Tensor) -> list[float]:
    """The values of a column that are looked at by themselves."""
    values, counts = torch.unique(column, return_counts=True)
    by_count = counts.argsort(descending=True, stable=True)
    last = len(values) - 1
    places = {0, last, *by_count[:_MOST_MARKS].tolist()}
    repeated = [place for place in sorted(places) if int(counts[place]) >= _LEAST_COUNT]
    return [float(values[place]) for place in repeated]
