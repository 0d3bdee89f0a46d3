"""Views of two or three columns of a table: how they go together."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from .._checks import check_whole
from .base import ColumnSets, Family, Layout, Pooled, Seen, View
from .places import as_places, columns_at, most_frequent, no_places
from .scores import bumps, correlations, ranks

_PAIRS = 500
_TRIPLES = 1500


class Products(View):
    """One feature a view: the product of the scores of two columns, or of three.

    Parameters
    ----------
    order
        How many columns are multiplied.
    most
        At most so many products. Of more, half are those whose columns depend most on each other in
        the pooled points, and the others are drawn at random; of three columns all are drawn.
    """

    regularisation = (math.inf,)
    factors: Tensor  # (views, order) encoded columns
    owners: Tensor  # (views, order) columns of the table

    def __init__(self, order: Literal[2, 3] = 2, most: int | None = None) -> None:
        super().__init__()
        self.order = order
        self.family: Family
        if order == 2:
            self.family = "pair"
            self.kind = "products"
            self.weight = 0.07
            usual = _PAIRS
        else:
            self.family = "triple"
            self.kind = "products of three"
            # Of three columns a difference is either plain to see or not there.
            self.weight = 0.04
            usual = _TRIPLES
        self.most = usual if most is None else most
        self.register_buffer("factors", no_places(0, order))
        self.register_buffer("owners", no_places(0, order))

    def extra_repr(self) -> str:
        return f"order={self.order}, most={self.most}"

    def fit(self, pooled: Pooled, layout: Layout) -> None:
        self.factors = _factors(pooled, layout, self.order, self.most)
        self.owners = layout.owners()[self.factors]

    def features(self, seen: Seen) -> Tensor:
        scores = seen.scores
        if self.order == 3:
            # Products of three normal scores have tails that no sample of usual size fills.
            scores = ranks(scores)
        product = self._factor(scores, 0)
        for place in range(1, self.order):
            product.mul_(self._factor(scores, place))
        return product[:, :, None]

    def _factor(self, scores: Tensor, place: int) -> Tensor:
        """(N, views) the scores of one factor of each product."""
        columns = self.factors[:, place].expand(len(scores), -1)
        # It takes a quarter of the time of brackets, and there are many products.
        return scores.gather(1, columns)

    def columns(self) -> ColumnSets:
        columns = []
        for owners in self.owners.tolist():
            different = set(owners)  # a number and where it is missing are one column
            columns.append(tuple(sorted(different)))
        return columns


class _AllPairs(View):
    """Features of all pairs of columns together, in one view.

    Parameters
    ----------
    most
        At most so many pairs, chosen as in `Products`; None for the usual number.
    """

    family = "joint"
    kind = "together"
    weight = 0.17
    usual = _PAIRS
    factors: Tensor  # (pairs, 2) encoded columns

    def __init__(self, most: int | None = None) -> None:
        super().__init__()
        self.most = self.usual if most is None else most
        check_whole("most", self.most, 1)
        self.register_buffer("factors", no_places(0, 2))

    def extra_repr(self) -> str:
        return f"most={self.most}"

    def features(self, seen: Seen) -> Tensor:
        features = self.of_pairs(seen.scores, *self.factors.T)
        # A table with one number has no pair, and then there is no view.
        return features[:, None][:, : len(self.columns())]

    @abstractmethod
    def of_pairs(self, scores: Tensor, one: Tensor, other: Tensor) -> Tensor:
        """(N, features) of all pairs, from scores and the places of each pair's two columns."""

    def columns(self) -> ColumnSets:
        return [()] if len(self.factors) else []


class Dependence(_AllPairs):
    """The products of all pairs of columns: small changes of many correlations."""

    regularisation = (math.inf, 0.1, 0.01, 1e-3)

    def fit(self, pooled: Pooled, layout: Layout) -> None:
        self.factors = _factors(pooled, layout, 2, self.most)

    def of_pairs(self, scores: Tensor, one: Tensor, other: Tensor) -> Tensor:
        return scores[:, one] * scores[:, other]


class Waves(_AllPairs):
    """Sums and differences of all pairs of numbers, as angles: columns that go round.

    The rank of a number goes once round the circle, from the least value to the largest. A pair has
    the cosine and the sine of the sum of its two angles, and of their difference. Directions and
    hours of the day have no ends, and what two of them share is such a sum or difference, which
    kernels and cells see in pieces.
    """

    usual = 64  # four features each

    def fit(self, pooled: Pooled, layout: Layout) -> None:
        numbers = layout.numbers()
        strength = correlations(pooled.scores[:, numbers])
        chosen = combinations(len(numbers), 2, self.most, strength)
        self.factors = as_places(numbers)[chosen]

    def of_pairs(self, scores: Tensor, one: Tensor, other: Tensor) -> Tensor:
        angles = 2 * math.pi * ranks(scores)
        sums = angles[:, one] + angles[:, other]
        differences = angles[:, one] - angles[:, other]
        return torch.cat([sums.cos(), sums.sin(), differences.cos(), differences.sin()], 1)

    def size(self) -> int:
        return 4 * len(self.factors)


class Cells(View):
    """Two columns together: each bump or level of one times each of the other.

    Parameters
    ----------
    most
        At most so many pairs, chosen as in `Products`.
    """

    family = "pair"
    kind = "cells"
    weight = 0.14
    numbers: Tensor  # (numbers, 2) columns that are numbers, and their encoded columns
    places: Tensor  # (columns, slots) encoded columns that are indicators; -1 for none
    pairs: Tensor  # (views, 2) columns

    def __init__(self, most: int = _PAIRS, bumps: int = 5, width: float = 0.65) -> None:
        super().__init__()
        check_whole("bumps", bumps, 2)
        self.most = most
        self.bumps = bumps
        self.width = width
        self.register_buffer("numbers", no_places(0, 2))
        self.register_buffer("places", no_places(0, 0))
        self.register_buffer("pairs", no_places(0, 2))

    def extra_repr(self) -> str:
        return f"most={self.most}, bumps={self.bumps}, width={self.width:g}"

    def fit(self, pooled: Pooled, layout: Layout) -> None:
        members = layout.members()
        # A number has bumps, and one slot more says where it is missing.
        slots = self.bumps + 1
        self.places = torch.full((len(members), slots), -1)
        is_number = set(layout.numbers())
        numbers = []
        leading = []  # the encoded column that stands for each column in correlations
        for column, atoms in enumerate(members):
            if atoms[0] in is_number:
                numbers.append((column, atoms[0]))
                leading.append(atoms[0])
                start = self.bumps
                indicators = atoms[1:]
            else:
                start = 0
                indicators = most_frequent(atoms, pooled.rows, slots)
                leading.append(indicators[0])
            end = start + len(indicators)
            self.places[column, start:end] = as_places(indicators)
        self.numbers = as_places(numbers).reshape(-1, 2)
        strength = correlations(pooled.scores[:, leading])
        self.pairs = combinations(len(members), 2, self.most, strength)

    def features(self, seen: Seen) -> Tensor:
        rows = seen.rows.flatten(1)
        basis = columns_at(rows, self.places)  # (N, columns, slots)
        columns, atoms = self.numbers.T
        scores = seen.scores[:, atoms]
        basis[:, columns, : self.bumps] = bumps(scores, self.bumps, self.width)
        slots = self._slots()
        basis = basis[:, :, :slots]
        one, other = self.pairs.T
        left = basis.index_select(1, one)[:, :, :, None]
        right = basis.index_select(1, other)[:, :, None, :]
        return (left * right).flatten(2)

    def size(self) -> int:
        slots = max(self.bumps, self.places.shape[1])
        return len(self.pairs) * slots**2

    def _slots(self) -> int:
        """How many slots some column uses: others would make every view wider."""
        used = (self.places >= 0).any(0)
        if len(self.numbers):
            used[: self.bumps] = True
        return int(used.sum())

    def columns(self) -> ColumnSets:
        return [tuple(pair) for pair in self.pairs.tolist()]


def _factors(pooled: Pooled, layout: Layout, order: int, most: int) -> Tensor:
    """(K, order) the encoded columns to multiply, at most `most` products of them."""
    # Levels of a category are multiplied by `Cells`, all of them at once.
    single = layout.singles()
    strength = None
    if order == 2:
        strength = correlations(pooled.scores[:, single])
    chosen = combinations(len(single), order, most, strength)
    return as_places(single)[chosen]


def combinations(columns: int, order: int, most: int, strength: Tensor | None) -> Tensor:
    """(K, order) sets of columns: all of them, or `most` of them.

    Of too many, half are those of the greatest `strength` and the others are drawn at random,
    always the same. Labels have no part in the choice.
    """
    total = math.comb(columns, order)
    if total <= most:
        every = list(itertools.combinations(range(columns), order))
        return as_places(every).reshape(-1, order)
    chosen: set[tuple[int, ...]] = set()
    in_order = []
    if strength is not None:
        in_order = _strongest_pairs(strength, most // 2)
        chosen.update(in_order)
    fixed = np.random.default_rng(0)
    while len(in_order) < most:
        drawn = fixed.choice(columns, order, replace=False)
        drawn.sort()
        group = tuple(drawn.tolist())
        if group not in chosen:
            chosen.add(group)
            in_order.append(group)
    return as_places(in_order)


def _strongest_pairs(strength: Tensor, count: int) -> list[tuple[int, ...]]:
    """The pairs of columns of the greatest (columns, columns) strength."""
    columns = len(strength)
    pairs = torch.triu_indices(columns, columns, 1)  # (2, pairs)
    one, other = pairs
    strengths = strength[one, other]
    order = strengths.argsort(descending=True, stable=True)
    kept = order[:count]
    strongest = pairs[:, kept].T.tolist()
    return [tuple(pair) for pair in strongest]
