"""Weights of rows: each row is kept with a chance that is proportional to its weight.

If rows are draws from P and a row x is kept with the chance w(x), from 0 to 1, the rows that are
kept are draws from the distribution whose density is proportional to w P: independent ones, and
unweighted. Whatever is exact for rows is exact for them. So weights need no statistic of their own.
The price is the rows that are not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._design import Design, Key
from .._random import Generators, RNGLike
from ..errors import InputError
from .keys import Described, row_values
from .reading import as_narwhals
from .streams import Stream, known_rows, len_of
from .tables import Source


class Weighed(NamedTuple):
    """What weights have left of two samples."""

    x: Any
    y: Any
    design: Design  # whose arrays are those of the rows that are left
    rng: RNGLike | None  # for the test of them: the seed that was drawn, where none was given
    words: str

    def described(self, design: str | None) -> str:
        """What moved, if anything was said of it, and how many rows were left."""
        return self.words if design is None else f"{design}; {self.words}"


def weighed(X: Any, Y: Any, weights: Key, design: Design, rng: RNGLike | None) -> Weighed:
    """Keep each row of both samples with a chance proportional to its weight.

    The chances are the weights themselves where none is above 1, else the weights over the largest
    of their sample. Of a stream one number for each row is kept in memory.
    """
    generators = Generators(rng)
    if generators.seed is not None:
        rng = generators.seed
    generator = generators.torch("weights")
    column = weights if isinstance(weights, str) else None
    kept = []
    left = []
    for place, (name, data) in enumerate(zip("XY", (X, Y), strict=True)):
        rows = _kept(data, name, weights, place, generator)
        kept.append(rows)
        if isinstance(data, Stream):
            left.append(_taken_of_stream(data, name, rows, column))
        else:
            left.append(_taken(data, name, rows, column))
    design = design.taken(kept[0].numpy(), kept[1].numpy())
    words = f"weights kept {len(kept[0])} + {len(kept[1])} of {len_of(X)} + {len_of(Y)} rows"
    return Weighed(left[0], left[1], design, rng, words)


def _kept(data: Any, name: str, weights: Key, place: int, generator: torch.Generator) -> Tensor:
    if known_rows(data) is None:
        raise InputError(
            f"{name} is an iterator that can be read only once, and rows are kept by weights that "
            "have to be read before; pass Stream.batches(function), which can be read again."
        )
    batches = data.filled if isinstance(data, Stream) else lambda: [data]
    sample = Described(name, batches, len_of(data), None)
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


def _taken_of_stream(stream: Stream, name: str, rows: Tensor, column: str | None) -> Stream:
    """The same rows in every pass."""

    def batches() -> Iterator[Any]:
        first = 0
        for batch in stream.filled():
            end = first + len_of(batch)
            start, stop = torch.searchsorted(rows, torch.tensor([first, end])).tolist()
            if stop > start:
                data = batch.data if isinstance(batch, Source) else batch
                yield _some(data, name, (rows[start:stop] - first).numpy(), column)
            first = end

    return Stream.batches(batches)


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
