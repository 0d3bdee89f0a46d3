"""Views of the columns of a table: all of them together, and each alone."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from .._checks import check_whole
from .base import FEW, ColumnSets, Layout, Pooled, Seen, View
from .places import as_places, columns_at, most_frequent, no_places
from .scores import bumps, correlations, ranks, tail_weights, waves

Of: TypeAlias = Literal["columns", "flags", "spreads", "levels", "indicators"]

_MOST_LEVELS = 64  # of a category in a view of its own; rarer ones share a place
_MOST_LINEAR = 512  # columns seen together as they are; more are projected
_MOST_MARKS = 4  # frequent values of a number that are looked at by themselves
_KINDS: dict[Of, tuple[str, float]] = {
    "columns": ("values", 0.75),
    "flags": ("flags", 0.75),
    "spreads": ("spreads", 0.14),
    "levels": ("levels", 0.36),
    "indicators": ("indicators", 0.3),
}
"""What values are of -> their kind, and its share of the level."""
_HEAVY = 5.0  # tail weight: a normal law has 2.6, Laplace's 3.3, Cauchy's some 8
_MEANS_OF_FEW = 0.4  # the most that the distance of all means weighs for few effective columns
_MEANS_OF_ALIKE = 0.15  # what it weighs more for each other column that a column stands for
_MOST_OF_MEANS = 1.5  # twice what single columns weigh
_CORRELATED_ROWS = 2000  # rows that tell how columns depend on each other
_LEAST_COUNT = 6  # of equal values: fewer are found in one sample by chance more than once in 20


class _AllColumns(View):
    """All columns together, in one view. More than 512 are projected at random onto so many."""

    family = "joint"
    projection: Tensor  # (atoms, 512), or empty where there are fewer

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("projection", torch.empty(0, 0))

    def fit(self, pooled: Pooled, layout: Layout) -> None:
        atoms = pooled.scores.shape[1]
        if atoms > _MOST_LINEAR:
            fixed = torch.Generator().manual_seed(0)  # any projection does, but always the same
            shape = (atoms, _MOST_LINEAR)
            self.projection = torch.randn(shape, generator=fixed, dtype=torch.float64)

    def features(self, seen: Seen) -> Tensor:
        features = self.of_scores(seen.scores)
        if self.projection.numel():
            features = features @ self.projection
        return features[:, None]  # one view

    def of_scores(self, scores: Tensor) -> Tensor:
        """(N, atoms) what is seen of (N, atoms) normal scores."""
        return scores

    def columns(self) -> ColumnSets:
        return [()]


class Together(_AllColumns):
    """All columns together as they are: their normal scores, their ranks, or squares of scores."""

    kind = "together"
    weight = 0.17
    regularisation = (math.inf, 0.1, 1e-3)

    def __init__(self, of: Literal["scores", "ranks", "squares"] = "scores") -> None:
        super().__init__()
        self.of = of

    def extra_repr(self) -> str:
        return repr(self.of)

    def of_scores(self, scores: Tensor) -> Tensor:
        if self.of == "ranks":
            return ranks(scores)
        if self.of == "squares":
            return scores.square()
        return scores


class Means(_AllColumns):
    """How far apart the means of all scores are: many columns that move a little.

    This is a row of `Together("scores")` as a kind of its own. Where columns depend on each other,
    they move together, and their distance tells more than any single column does. Of many columns
    that do not, it tells little. So its weight depends on how many other columns a column stands
    for, which is the sum of its squared correlations with them.
    """

    kind = "means"
    regularisation = (math.inf,)

    def fit(self, pooled: Pooled, layout: Layout) -> None:
        super().fit(pooled, layout)
        columns = pooled.scores.shape[1]
        others = _columns_alike(pooled.scores[:_CORRELATED_ROWS])
        alone = columns / (1 + others)  # the effective number of columns
        of_few = min(_MEANS_OF_FEW, 2 / alone)
        self.weight = min(_MOST_OF_MEANS, of_few + _MEANS_OF_ALIKE * others)


def _columns_alike(scores: Tensor) -> float:
    """How many other columns a column stands for, on average over (N, columns) scores.

    That is the sum of its squared correlations with them, less what chance makes of it.
    """
    rows, columns = scores.shape
    squares = correlations(scores).square()
    squares.fill_diagonal_(0.0)
    by_chance = (columns - 1) / max(1, rows - 1)
    of_columns = float(squares.sum(1).mean())
    return max(0.0, of_columns - by_chance)


class Positions(View):
    """One feature a view: where a number lies, by its score, its rank or its value as it is.

    Normal scores see the tails of a number, ranks the middle, and values that are far away count
    most as they are. Where tails are heavy, waves of ranks take the place of ranks.
    """

    of: Of = "columns"
    family = "column"
    kind, weight = _KINDS["columns"]
    regularisation = (math.inf,)
    atoms: Tensor  # encoded columns with a score: numbers, and flags in older files
    numbers: Tensor  # those of more than two values
    heavy: Tensor  # the places in `numbers` of those whose tails are heavy
    owners: Tensor  # the column that each view looks at

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("atoms", no_places(0))
        self.register_buffer("numbers", no_places(0))
        self.register_buffer("heavy", no_places(0))
        self.register_buffer("owners", no_places(0))

    def fit(self, pooled: Pooled, layout: Layout) -> None:
        self.numbers = as_places(layout.numbers())
        self.atoms = self.numbers.clone()
        weights = tail_weights(pooled.rows[:, self.numbers])
        self.heavy = (weights > _HEAVY).nonzero()[:, 0]
        owner = layout.owners()
        of_numbers = owner[self.numbers]
        self.owners = torch.cat([owner[self.atoms], of_numbers, of_numbers])

    def features(self, seen: Seen) -> Tensor:
        scores = seen.scores[:, self.atoms]
        numbers = seen.scores[:, self.numbers]
        in_ranks = ranks(numbers)
        in_ranks[:, self.heavy] = waves(numbers[:, self.heavy])
        values = seen.rows[:, self.numbers]
        features = torch.cat([scores, in_ranks, values], 1)
        return features[:, :, None]

    def columns(self) -> ColumnSets:
        return [(owner,) for owner in self.owners.tolist()]


class Values(View):
    """One feature a view: the score of a column, its rank, its square, an indicator of a level.

    Parameters
    ----------
    of
        "columns" that are numbers, booleans, or say where values are missing; "flags", which are
        those of them that have two values; "spreads" of numbers, which are the squares alone;
        "levels" of categories; or "indicators", all encoded columns that are 0 or 1, as they are.
    """

    family = "column"
    regularisation = (math.inf,)
    atoms: Tensor  # encoded columns that are seen as they are
    numbers: Tensor  # encoded columns of more than two values, which have a square
    owners: Tensor  # the column that each view looks at

    def __init__(self, of: Of = "columns") -> None:
        super().__init__()
        self.of = of
        # Levels are many, and would take from the share of the columns. So they have their own.
        self.kind, self.weight = _KINDS[of]
        self.register_buffer("atoms", no_places(0))
        self.register_buffer("numbers", no_places(0))
        self.register_buffer("owners", no_places(0))

    def extra_repr(self) -> str:
        return repr(self.of)

    @property
    def are_counts(self) -> bool:
        return self.of == "indicators"

    def fit(self, pooled: Pooled, layout: Layout) -> None:
        atoms: list[int] = []
        numbers: list[int] = []
        if self.of == "levels":
            atoms = layout.levels()
        elif self.of == "flags":
            atoms = layout.flags()
            self.weight = _KINDS["flags"][1] * _share_of_flags(layout)
        elif self.of == "indicators":
            is_indicator = ((pooled.rows == 0) | (pooled.rows == 1)).all(0)
            atoms = is_indicator.nonzero().flatten().tolist()
        elif self.of == "spreads":
            numbers = layout.numbers()
        else:
            atoms = layout.singles()
            numbers = layout.numbers()
        self.atoms = as_places(atoms)
        self.numbers = as_places(numbers)
        owner = layout.owners()
        of_atoms = owner[self.atoms]
        of_numbers = owner[self.numbers]
        # Where values are seen, so are ranks.
        of_ranks = of_numbers[:0] if self.of == "spreads" else of_numbers
        self.owners = torch.cat([of_atoms, of_ranks, of_numbers])

    def features(self, seen: Seen) -> Tensor:
        if self.are_counts:
            return seen.rows[:, self.atoms, None]
        values = seen.scores[:, self.atoms]
        numbers = seen.scores[:, self.numbers]
        squares = numbers.square()
        if self.of == "spreads":
            return squares[:, :, None]
        # Normal scores see the tails and ranks the middle, where values with heavy tails differ.
        in_ranks = ranks(numbers)
        features = torch.cat([values, in_ranks, squares], 1)
        return features[:, :, None]

    def columns(self) -> ColumnSets:
        return [(owner,) for owner in self.owners.tolist()]


def _share_of_flags(layout: Layout) -> float:
    """Which share of the numbers and flags are flags: a boolean weighs no more than a number."""
    flags = max(1, len(layout.flags()))  # where there are none, the weight is not used
    return flags / (flags + len(layout.numbers()))


class Overall(View):
    """One feature: the mean score of all numbers of a row, or the mean of their squares.

    Where all columns rise together, or all spread, each by little, this is what tells it best.

    Parameters
    ----------
    of
        "scores" or "squares".
    """

    family = "joint"
    regularisation = (math.inf,)
    numbers: Tensor  # encoded columns

    def __init__(self, of: Literal["scores", "squares"] = "scores") -> None:
        super().__init__()
        self.of = of
        self.kind, self.weight = _KINDS["columns" if of == "scores" else "spreads"]
        self.register_buffer("numbers", no_places(0))

    def extra_repr(self) -> str:
        return repr(self.of)

    def fit(self, pooled: Pooled, layout: Layout) -> None:
        self.numbers = as_places(layout.numbers())

    def features(self, seen: Seen) -> Tensor:
        numbers = seen.scores[:, self.numbers]
        if self.of == "squares":
            numbers = numbers.square()
        mean = numbers.mean(1, keepdim=True)
        return mean[:, :, None][:, : len(self.columns())]

    def columns(self) -> ColumnSets:
        # Of a single number it would be that column once more.
        return [()] if len(self.numbers) > 1 else []


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
    weight = 0.14
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
