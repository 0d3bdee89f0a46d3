"""A number for each row, by which equal rows know each other."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Keys: TypeAlias = NDArray[np.uint64]
"""64 bits for each row: equal for equal rows, different for others but for an accident."""

_CHUNK = 2**15  # rows whose bits are mixed at a time: caches hold them
_MANY = 2**17  # keys that are worth an import
_EARLY = 2000  # rows in which kinds of keys are looked for
_FEW = 16  # kinds that are counted one by one
_EXACT = 2**53  # up to which float64 has all whole numbers
_FACTOR = 0x9E3779B97F4A7C15  # of splitmix64, as are the two below
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


def column_keys(values: NDArray[Any]) -> Keys:
    """The bits of the values of a column. 1 and 1.0 are the same, and so are 0.0 and -0.0."""
    if values.dtype == np.uint64:
        return values  # keys already, such as those of labels
    bits: Keys = (values.astype(np.float64, copy=False) + 0.0).view(np.uint64)
    if (
        values.dtype == np.int64
        and values.size
        and max(-int(values.min()), int(values.max())) > _EXACT
    ):
        # float64 would make equal what is not.
        is_exact = (values >= -_EXACT) & (values <= _EXACT)
        bits = np.where(is_exact, bits, values.view(np.uint64))
    return bits


def row_keys(columns: Iterable[NDArray[Any]], rows: int) -> Keys:
    """A key for each row, from its columns in this order."""
    listed = list(columns)
    # Any odd numbers will do, if they are others for each column.
    factors = mixed(np.arange(len(listed), dtype=np.uint64)) | np.uint64(1)
    keys = np.zeros(rows, dtype=np.uint64)
    for start in range(0, rows, _CHUNK):
        chunk = slice(start, start + _CHUNK)
        for values, factor in zip(listed, factors, strict=True):
            folded = _folded(column_keys(values[chunk]))
            folded *= factor
            keys[chunk] += folded
        keys[chunk] = mixed(keys[chunk])
    return keys


def _folded(bits: Keys) -> Keys:
    # Low bits are 0 in most numbers, and bits of a product depend on lower ones only.
    folded: Keys = bits ^ (bits >> np.uint64(23)) ^ (bits >> np.uint64(41))
    return folded


def array_keys(points: NDArray[Any]) -> Keys:
    """A key for each row of an array, of any number of dimensions."""
    flat = points.reshape(len(points), -1)
    width = flat.shape[1]
    factors = mixed(np.arange(width, dtype=np.uint64)) | np.uint64(1)
    total = np.empty(len(flat), dtype=np.uint64)
    rows = max(1, _CHUNK // max(1, width))
    for start in range(0, len(flat), rows):
        some = column_keys(np.ascontiguousarray(flat[start : start + rows]))
        total[start : start + rows] = (_folded(some) * factors).sum(axis=1, dtype=np.uint64)
    return mixed(total)


def mixed(keys: Keys) -> Keys:
    """The keys with every bit depending on all: splitmix64. Small keys are then a fair sample."""
    with np.errstate(over="ignore"):
        mixing = keys + np.uint64(_FACTOR)
        mixing = (mixing ^ (mixing >> np.uint64(30))) * np.uint64(_FIRST)
        mixing = (mixing ^ (mixing >> np.uint64(27))) * np.uint64(_SECOND)
    return mixing ^ (mixing >> np.uint64(31))


class Kinds(NamedTuple):
    """The different keys of some rows: where each comes first, in this order, and how often."""

    first: NDArray[np.int64]
    times: NDArray[np.int64]


def few_kinds(keys: Keys) -> Kinds | None:
    """The different keys, if they are few and come early; else None.

    Those that come early are counted one by one. If nothing is left over, there are no others.
    """
    kinds, first = np.unique(keys[:_EARLY], return_index=True)
    if len(kinds) > _FEW:
        return None
    times = np.array([np.count_nonzero(keys == kind) for kind in kinds], dtype=np.int64)
    if times.sum() < len(keys):
        return None
    order = np.argsort(first)
    return Kinds(first[order], times[order])


def are_for_polars(rows: int) -> bool:
    """Whether there are so many rows that polars pays, and it is there."""
    return rows >= _MANY and importlib.util.find_spec("polars") is not None


def in_order(keys: Keys) -> Keys:
    """The keys, sorted; many of them by polars, where it is there: it is several times as quick."""
    if not are_for_polars(len(keys)):
        return np.sort(keys)
    import polars

    ordered: Keys = polars.Series(keys).sort().to_numpy()
    return ordered
