"""Places of encoded columns, as tensors of whole numbers that a view keeps as buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def no_places(*shape: int) -> Tensor:
    """An empty buffer of places, which `fit` replaces."""
    return torch.empty(shape, dtype=torch.int64)


def as_places(numbers: Sequence[Any]) -> Tensor:
    """Whole numbers as a tensor, also where there are none."""
    return torch.tensor(numbers, dtype=torch.int64)


def columns_at(rows: Tensor, places: Tensor) -> Tensor:
    """(N, ...) the columns of rows at `places`; zeros where a place is -1."""
    is_there = places >= 0
    values = rows[:, places.clamp_min(0)]
    zero = torch.zeros((), dtype=rows.dtype)
    return torch.where(is_there, values, zero)


def most_frequent(levels: list[int], rows: Tensor, most: int) -> list[int]:
    """The encoded columns of a category's most frequent levels, at most `most` of them."""
    shares = rows[:, levels].mean(0)
    # Stable, so that levels of equal shares keep their order on every machine.
    order = shares.argsort(descending=True, stable=True)
    kept = order[:most].tolist()
    return [levels[place] for place in kept]
