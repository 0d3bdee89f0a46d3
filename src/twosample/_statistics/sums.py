"""Sums of the features of all views over bins of points: all that `Spectral` needs of the data.

Points are looked at once, some at a time, so that memory is bounded whatever their number. Workers
may do pieces of the work.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._data.samples import EmbeddedSamples
from .._progress import bar
from .._views import Seen, View, Views
from .base import Bins

_LEAST_PIECE = 2**16  # points whose sums are made by one piece of work
_PIECES = 64  # at most so many of them: each returns the sums of all features
_AT_ONCE = 2**23  # bytes of features at a time
_FEWEST_AT_ONCE = 16  # points, whatever the bytes of one
_ROWS_FOR_COVARIANCE = 20_000  # points; more would improve it by little
_ROWS_FOR_LARGE = 4000  # for large covariances, which would cost more than all the rest
_LARGE = 10**5  # numbers in the covariances of a stack are many beyond this


class Sums(NamedTuple):
    """What a stack sums over points."""

    totals: Tensor  # (S, views, features) of features over bins
    some: Tensor  # (views, features) of features over the points that are in the products
    products: Tensor  # (views, features, features) of features with each other
    counted: int  # how many points are in the products

    def plus(self, other: Sums) -> Sums:
        """The sums over the points of both."""
        # In place: there may be no memory for a third.
        self.totals.add_(other.totals)
        self.some.add_(other.some)
        self.products.add_(other.products)
        counted = self.counted + other.counted
        return Sums(self.totals, self.some, self.products, counted)

    def of_first(self, views: int) -> Sums:
        """Those of the first so many views."""
        return Sums(
            self.totals[:, :views],
            self.some[:views],
            self.products[:views],
            self.counted,
        )


def add_up(
    views: Views,
    points: EmbeddedSamples,
    bins: Bins,
    rank: Tensor,
) -> list[Sums]:
    """The sums of all stacks over all points; `rank` is a random order of the points."""
    (rows,) = points.parts
    resources = points.resources
    shared = resources.workers.share(views)
    of_all = bins.of_all
    # The same pieces whoever does them, or sums would be rounded in other ways.
    share = -(-len(rows) // _PIECES)  # rounded up
    size = max(_LEAST_PIECE, share)
    pieces = range(0, len(rows), size)

    def work() -> Iterator[tuple[Any, ...]]:
        for first in pieces:
            part = slice(first, first + size)
            yield shared, rows[part], of_all[part], bins.count, rank[part]

    totals: list[Sums] = []
    # Of one piece there is no progress to show.
    progress = resources.progress if len(pieces) > 1 else False
    with bar("looking through the views", len(pieces), progress) as tick:
        for sums in resources.workers.map(_sums_of_piece, work()):
            if totals:
                both = zip(totals, sums, strict=True)
                totals = [total.plus(more) for total, more in both]
            else:
                totals = sums
            tick("")
    return totals


def _sums_of_piece(
    views: Views,
    rows: Tensor,
    of_bin: Tensor,
    count: int,
    rank: Tensor,
) -> list[Sums]:
    """The sums over some points; `rank` is the place of each in a random order of all points."""
    first = 0
    with torch.no_grad():
        shapes = shapes_of(views, rows)
        adding = [_Adding(stack, shape, count) for stack, shape in zip(views, shapes, strict=True)]
        for seen in seen_in_parts(views, rows):
            here = slice(first, first + len(seen))
            for stack in adding:
                stack.add(seen, of_bin[here], rank[here])
            first += len(seen)
    return [stack.sums() for stack in adding]


class _Adding:
    """The sums of one stack over the points seen so far."""

    def __init__(self, stack: View, shape: tuple[int, int], count: int) -> None:
        number, width = shape
        self.stack = stack
        self.totals = torch.zeros(count, number, width, dtype=torch.float64)
        self.some = torch.zeros(number, width, dtype=torch.float64)
        self.products = torch.zeros(number, width, width, dtype=torch.float64)
        is_large = self.products.numel() > _LARGE
        self.most = _ROWS_FOR_LARGE if is_large else _ROWS_FOR_COVARIANCE
        self.counted = 0

    def add(self, seen: Seen, of_bin: Tensor, rank: Tensor) -> None:
        """Add points to their bins; those of a low rank count for the covariance, too."""
        first = 0
        for features in features_in_parts(self.stack, seen, self.some.numel()):
            here = slice(first, first + len(features))
            first += len(features)
            self.totals.index_add_(0, of_bin[here], features)
            chosen = rank[here] < self.most
            if not bool(chosen.all()):  # otherwise spare a copy
                features = features[chosen]
            self._add_products(features)

    def _add_products(self, features: Tensor) -> None:
        self.counted += len(features)
        self.some += features.sum(0)
        if features.shape[2] == 1:
            # Squares, without a matrix of one number for each of many views.
            values = features[:, :, 0]
            self.products[:, 0, 0] += values.square().sum(0)
        else:
            by_view = features.transpose(0, 1)  # (views, N, features)
            half = features.shape[2] // 2
            first = by_view[:, :, :half]
            second = by_view[:, :, half:]
            # What is below the diagonal follows from what is above it.
            self.products[:, :half].baddbmm_(first.mT, by_view)
            self.products[:, half:, half:].baddbmm_(second.mT, second)

    def sums(self) -> Sums:
        half = self.products.shape[1] // 2
        self.products[:, half:, :half] = self.products[:, :half, half:].mT
        return Sums(self.totals, self.some, self.products, self.counted)


def shapes_of(views: Views, rows: Tensor) -> list[tuple[int, int]]:
    """How many views each stack has, and how many features each of them."""
    seen = views.see(rows[:1])
    shapes = []
    for stack in views:
        _, number, width = stack.features(seen).shape
        shapes.append((number, width))
    return shapes


def seen_in_parts(views: Views, rows: Tensor) -> Iterator[Seen]:
    """What views share of some rows at a time."""
    width = rows[0].numel()
    for part in torch.split(rows, _points_at_once(width)):
        yield views.see(part)


def features_in_parts(stack: View, seen: Seen, width: int) -> Iterator[Tensor]:
    """(N, views, features) of some points at a time; `width` is how many a point has in all."""
    if width:
        for part in seen.parts(_points_at_once(width)):
            yield stack.features(part)


def _points_at_once(width: int) -> int:
    """How many points of so many numbers in float64 are looked at together."""
    bytes_of_point = 8 * max(1, width)
    return max(_FEWEST_AT_ONCE, _AT_ONCE // bytes_of_point)
