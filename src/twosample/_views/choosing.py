"""Which views suit the points, and which points the views are fitted on."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .._data.embedding import row_keys
from .base import View
from .clusters import Clusters
from .columns import Levels, Marks, Means, Overall, Positions, Shapes, Together, Values
from .groups import Cells, Dependence, Products, Waves
from .images import Patches, Pixels, Textures, Tones
from .landmarks import Landmarks, Scatter

_FIT_ROWS = 20_000  # rows that views are fitted on: quantiles of more hardly differ
_ODD = 0x9E3779B97F4A7C15 - 2**64  # of the golden ratio: multiples of it look random


class Kind(NamedTuple):
    """A kind of views, and its share of the level, relative to those of others."""

    name: str
    weight: float


_KERNELS = Kind(Landmarks.kind, 0.68)
_OF_ONE_COLUMN = Kind("values", 0.45)
_IN_FEW_COLUMNS = {
    1: {
        "landmarks": _KERNELS,
        "shapes": _KERNELS,
        "values": _OF_ONE_COLUMN,
        "flags": _OF_ONE_COLUMN,
        "spreads": _OF_ONE_COLUMN,
    },
    2: {"landmarks": _KERNELS, "products": _KERNELS, "cells": _KERNELS},
}
"""Kinds that are others in tables of so many columns."""
_WITH_CATEGORIES = {
    "flags": 2.4,
    "levels": 2.8,
    "marks": 3.2,
    "spreads": 0.5,
    "landmarks": 0.4,
}
"""How many times more kinds weigh in tables with categories.

Columns of such tables mostly change alone, by a level or a value that is frequent. Kernels see
numbers and categories on one scale, which suits neither.
"""


def for_tables(columns: int, *, categories: bool) -> list[View]:
    """The usual views of a table of so many columns, with or without categories among them."""
    views: list[View] = [
        Landmarks("gaussian"),
        Positions(),
        Values("flags"),
        Values("spreads"),
        Values("levels"),
        Levels(),
        Marks(),
    ]
    if columns > 1:
        views += [
            Landmarks("laplace"),
            Scatter(),
            Clusters(),
            Overall("scores"),
            Overall("squares"),
            Shapes(),
            Waves(),
            Products(2),
            Cells(),
        ]
    if columns > 2:
        views += [
            Together("scores"),
            Together("ranks"),
            Together("squares"),
            Dependence(),
            Products(3),
        ]
    # A distance has no scale that suits numbers and categories alike.
    if columns > 2 and not categories:
        views.append(Means())
    return views


def kind_of(stack: View, columns: int, *, categories: bool) -> Kind:
    """The kind of a stack of views of a table of so many columns, which is 0 for images.

    Kernels of all columns see whatever there is in one column, or in one pair. So the shape of that
    column, and the products and cells of that pair, are of their kind, which has a larger share of
    the level than in wider tables. In wider tables with categories single columns have more.
    """
    own = Kind(stack.kind, stack.weight)
    if columns in _IN_FEW_COLUMNS:
        return _IN_FEW_COLUMNS[columns].get(stack.kind, own)
    if categories:
        times = _WITH_CATEGORIES.get(stack.kind, 1.0)
        return Kind(stack.kind, times * stack.weight)
    return own


def for_images() -> list[View]:
    """The usual views of images."""
    return [
        Landmarks("gaussian"),
        Landmarks("laplace"),
        Scatter(),
        Pixels(),
        Patches(),
        Textures(),
        Tones(),
    ]


class Chosen(NamedTuple):
    """Points that views are fitted on."""

    typical: Tensor  # points that stand for all
    different: Tensor  # points of which no two are equal


def by_content(points: Tensor) -> Chosen:
    """Some of the points, chosen and ordered by their values only.

    Neither labels nor the order of rows nor a seed have a say in which points become landmarks.
    """
    keys = row_keys(points.flatten(1))
    order = torch.argsort(keys, stable=True)
    in_order = keys[order]  # equal points are neighbours
    is_first = torch.ones(len(order), dtype=torch.bool)
    is_first[1:] = in_order[1:] != in_order[:-1]
    numbers = torch.arange(len(order))
    firsts = torch.where(is_first, numbers, 0).cummax(0).values
    times = numbers - firsts  # how often an equal point came before
    # Points that are equal get keys that differ, or some kinds of points would be chosen whole.
    mixed = (in_order + times * _ODD) * _ODD
    by_mixed = order[mixed.argsort(stable=True)]
    typical = by_mixed[:_FIT_ROWS]
    different = order[is_first][:_FIT_ROWS]
    return Chosen(points[typical], points[different])
