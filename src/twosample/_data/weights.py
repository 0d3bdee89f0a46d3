"""Weights of rows: each row is kept with a chance that is proportional to its weight.

If rows are draws from P and a row x is kept with the chance w(x), from 0 to 1, the rows that are
kept are draws from the distribution whose density is proportional to w P: independent ones, and
unweighted. Whatever is exact for rows is exact for them. So weights need no statistic of their own.
The price is the rows that are not kept.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._design import Design, Key
from ..errors import InputError
from .keys import Described, row_values
from .reading import as_narwhals
from .streams import Stream, len_of
from .tables import Source


class Weighed(NamedTuple):
    """What weights have left of two samples."""

    x: Any
    y: Any
    design: Design | None  # whose arrays are those of the rows that are left
    words: str


def weighed(
    X: Any, Y: Any, weights: Key, design: Design | None, generator: torch.Generator
) -> Weighed:
    """Keep each row of both samples with a chance proportional to its weight.

    The chances are the weights themselves where none is above 1, else the weights over the largest
    of their sample.
    """
    kept = []
    left = []
    for place, (name, data) in enumerate(zip("XY", (X, Y), strict=True)):
        rows = _kept(data, name, weights, place, generator)
        kept.append(rows)
        left.append(_taken(data, name, rows, weights if isinstance(weights, str) else None))
    if design is not None:
        design = design.taken(kept[0].numpy(), kept[1].numpy())
    words = f"weights kept {len(kept[0])} + {len(kept[1])} of {_count(X)} + {_count(Y)} rows"
    return Weighed(left[0], left[1], design, words)


def _kept(data: Any, name: str, weights: Key, place: int, generator: torch.Generator) -> Tensor:
    if not isinstance(data, Source) and (isinstance(data, Stream) or hasattr(data, "__next__")):
        raise InputError(
            f"{name} is a stream, and weights choose among rows that are in memory; choose the "
            "rows of its batches yourself, each with a chance proportional to its weight."
        )
    sample = Described(name, lambda: [data], _count(data), None)
    values = row_values(weights, place, sample)
    if values.dtype.kind not in "biuf" or not np.isfinite(values).all() or (values < 0).any():
        raise InputError(
            f"the weights of {name} are not all numbers from 0 on; give one for each row."
        )
    largest = float(values.max(initial=0.0))
    if largest == 0:
        raise InputError(f"all weights of {name} are 0, so no row of it would be left.")
    chances = torch.from_numpy(values.astype(np.float64) / max(1.0, largest))
    drawn = torch.rand(len(chances), generator=generator, dtype=torch.float64)
    return torch.nonzero(drawn < chances)[:, 0]


def _count(data: Any) -> int:
    return len_of(data)


def _taken(data: Any, name: str, rows: Tensor, column: str | None) -> Any:
    """Some rows of a sample, without the column of weights, which know where they stood."""
    if isinstance(data, Source):
        places = rows.numpy() if data.rows is None else data.rows[rows.numpy()]
        inner = _some(data.data, name, rows.numpy(), column)
        return Source(inner, data.name, places, data.place)
    some = _some(data, name, rows.numpy(), column)
    return Source(some, name, rows.numpy(), command_line=False)


def _some(data: Any, name: str, rows: NDArray[np.int64], column: str | None) -> Any:
    if isinstance(data, np.ndarray | Tensor):
        taken = data[rows]
        return taken if column is None else np.delete(np.asarray(taken), int(column), axis=1)
    native = None if isinstance(data, list | tuple) else as_narwhals(data, name)
    if isinstance(native, nw.DataFrame):
        known = {str(each): each for each in native.columns}
        table = native if column is None else native.drop(known[column])
        return table[rows.tolist()].to_native()
    if isinstance(native, nw.Series):
        return native[rows.tolist()].to_native()
    return _some(np.asarray(data), name, rows, column)
