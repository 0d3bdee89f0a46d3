"""Where rows come from: a `Stream` gives those of a sample in parts, as often as they are needed.

What is in memory is a stream of one part, so that everything after this has one way to ask for
rows. Only two things differ: what is in memory is read once, and all of it may be kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError
from .columns import Columns
from .reading import as_narwhals
from .spilled import Spilled, spill
from .tables import AS_FOUND, Origin, Source
from .temporary import make_folder, removed_with

_PART = 2**19  # numbers in a part of what is in memory already: 4 MiB in float64


class Partition(Protocol):
    """A part of a stream, to be read on its own, also in another process."""

    @property
    def rows(self) -> int | None:
        """How many rows it has, where that is known without reading it."""

    def read(self) -> object:
        """The rows: an array, a table or images, anything that `as_samples` takes."""


class Stream:
    """The rows of a sample in parts, as often as they are needed; none of it stays in memory.

    `two_sample_test` takes a Stream for X, for Y or for both. Iterating over a stream gives its
    parts.

    Parameters
    ----------
    partitions
        Objects with `rows`, a number or None, and `read()`, which gives an array, a table or
        images. See `parquet`, `npy` and `batches` for the usual ones.

    Examples
    --------
    >>> import numpy as np
    >>> from twosample._data.streams import Stream
    >>> stream = Stream.batches(lambda: (np.full((5, 2), step) for step in range(3)))
    >>> len(stream), len(stream.partitions)
    (15, 3)
    """

    def __init__(self, partitions: Iterable[Partition]) -> None:
        self._partitions: tuple[Partition, ...] | None = tuple(partitions)
        self._make: Callable[[], Iterable[object]] | None = None  # gives the batches anew
        self._once: Iterator[object] | None = None  # gives the batches a single time
        self._remove: Callable[[], object] = _nothing
        self._rows: int | None = None
        self.source: Source | None = None  # the file, for messages
        self.keep: NDArray[np.bool_] | None = None  # rows that may be used of what is in memory
        self._closed = False

    @classmethod
    def parquet(
        cls, paths: str | Path | Sequence[str | Path], columns: Sequence[str] | None = None
    ) -> Stream:
        """The rows of Parquet or Arrow files, of all columns or of some. It takes polars."""
        from .._files.parts import parquet_parts  # the door for files stands above this one

        return cls(part for path in _listed(paths) for part in parquet_parts(path, columns))

    @classmethod
    def npy(cls, paths: str | Path | Sequence[str | Path]) -> Stream:
        """The rows of NPY files, which are memory-mapped for as long as a part of them is read."""
        from .._files.parts import npy_parts  # the door for files stands above this one

        return cls(part for path in _listed(paths) for part in npy_parts(path))

    @classmethod
    def batches(cls, source: Iterable[object] | Callable[[], Iterable[object]]) -> Stream:
        """The rows of batches: arrays, tables or images of any lengths.

        A function that gives the same batches anew each time it is called is called for every pass,
        and once before to count the rows. So is a collection, such as a list of arrays. An iterator
        can be gone through only once: its batches are written to a temporary folder as they come,
        which is removed with the stream.
        """
        stream = cls(())
        stream._partitions = None
        if callable(source):
            stream._make = source
        elif isinstance(source, Iterator):
            stream._once = source
        elif isinstance(source, Iterable):
            stream._make = _Collection(source)
        else:
            raise InputError(
                f"the batches are a {type(source).__name__}; pass an iterable of arrays or tables, "
                "or a function that gives one."
            )
        return stream

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The parts. For a function that gives batches it takes a pass to count them."""
        self._settle("the stream")
        if self._partitions is not None:
            return self._partitions
        make = self._make or _no_batches
        return tuple(_Batch(make, place, len_of(batch)) for place, batch in enumerate(make()))

    def __iter__(self) -> Iterator[object]:
        self._settle("the stream")
        if self._partitions is None:
            make = self._make or _no_batches
            return iter(make())
        return (batch for partition in self._partitions for batch in _batches_of(partition))

    def __len__(self) -> int:
        """The number of rows, which for some streams takes a pass to count."""
        return self.count("the stream")

    def __bool__(self) -> bool:
        return True  # a question that must not take a pass

    def close(self) -> None:
        """Remove what was written to a temporary folder; the stream cannot be read any more."""
        self._closed = True
        self._once = None
        self._remove()

    @property
    def in_memory(self) -> bool:
        """Whether all rows are in memory, in one part, and may be kept there."""
        return self._partitions is not None and any(
            isinstance(part, _Held) for part in self._partitions
        )

    def origin(self, sample: str) -> Origin:
        """What messages say of where the rows come from."""
        return Origin(sample) if self.source is None else Origin.of(self.source, sample)

    def filled(self) -> Iterator[object]:
        """The batches that have rows."""
        return (batch for batch in self if len_of(batch))

    def count(self, sample: str, rules: Columns = AS_FOUND) -> int:
        """The number of rows. Batches that come only once are kept as `rules` read them."""
        self._settle(sample, rules)
        if self._rows is None:
            sizes = [part.rows for part in self._partitions or ()]
            known = [rows for rows in sizes if rows is not None]
            if self._partitions is not None and len(known) == len(sizes):
                self._rows = sum(known)
            else:
                self._rows = sum(map(len_of, self))
        return self._rows

    def can_travel(self) -> bool:
        """Whether another process, maybe on another machine, can read the parts."""
        parts = self._partitions
        return parts is not None and all(
            part.rows is not None and not isinstance(part, Spilled) for part in parts
        )

    def _settle(self, sample: str, rules: Columns = AS_FOUND) -> None:
        """Write the batches of an iterator to files, in the first pass that wants them."""
        if self._closed:
            raise InputError(
                "this stream is closed: it was interrupted, or its files are removed; make a new "
                "one."
            )
        if self._once is None:
            return
        once = self._once
        self._once = None
        folder = make_folder()
        self._remove = removed_with(self, folder)
        written: list[Partition] = []
        rows = 0
        try:
            for batch in once:
                size = len_of(batch)
                if size:
                    file = folder / str(len(written))
                    written.append(spill(batch, file, Origin(sample, rows), rules))
                    rows += size
        except BaseException:
            self.close()
            raise
        self._partitions = tuple(written)
        self._rows = rows


def _batches_of(partition: Partition) -> Iterable[object]:
    """A part as it is read, or in pieces where it says how."""
    pieces = getattr(partition, "pieces", None)
    return [partition.read()] if pieces is None else pieces()


def _nothing() -> None:
    """There is nothing to remove."""


def _no_batches() -> Iterable[object]:
    return ()


def len_of(batch: object) -> int:
    """The rows of a batch; 1 for what has no length, for `as_samples` to complain of."""
    try:
        return len(batch)  # type: ignore[arg-type]
    except TypeError:
        return 1


def known_rows(data: object) -> int | None:
    """The rows of a sample; None for an iterator, which can be gone through only once."""
    once = isinstance(data, Iterator) or (isinstance(data, Stream) and data._once is not None)
    return None if once else len_of(data)


def _listed(paths: str | Path | Sequence[str | Path]) -> Sequence[str | Path]:
    return [paths] if isinstance(paths, str | os.PathLike) else paths


@dataclass(frozen=True)
class _Collection:
    batches: Iterable[object]

    def __call__(self) -> Iterable[object]:
        return self.batches


@dataclass(frozen=True)
class _Batch:
    """One of the batches that a function gives; to get there it goes through those before."""

    make: Callable[[], Iterable[object]]
    place: int
    rows: int

    def read(self) -> object:
        return next(islice(iter(self.make()), self.place, None))


@dataclass(frozen=True)
class _Slice:
    """Some of the rows of what is in memory already."""

    data: Any

    @property
    def rows(self) -> int:
        return len_of(self.data)

    def read(self) -> object:
        return self.data


class _Held(_Slice):
    """All rows of what is in memory already."""


# What comes in

Pair: TypeAlias = tuple[Stream, Stream]
"""X and Y."""


@contextmanager
def open_samples(X: object, Y: object, memory: int) -> Iterator[Pair]:
    """Both samples as streams, which are closed at the end if they were made here.

    If one of them has to be read in parts, both are. Streams, iterators of batches and memory maps
    of more than a quarter of `memory` have to be.
    """
    in_parts = _has_parts(X, memory) or _has_parts(Y, memory)
    x = _opened(X, "X", in_parts)
    y = _opened(Y, "Y", in_parts)
    try:
        yield x, y
    finally:
        for stream, given in ((x, X), (y, Y)):
            if stream is not given:
                stream.close()


def held(data: object) -> Stream:
    """What is in memory, as a stream of one part."""
    stream = Stream([_Held(data)])
    stream.source = data if isinstance(data, Source) else None
    return stream


def _has_parts(data: object, memory: int) -> bool:
    if isinstance(data, np.memmap):
        return data.nbytes > memory // 4
    return isinstance(data, Stream | Iterator)


def _opened(data: object, sample: str, in_parts: bool) -> Stream:
    if isinstance(data, Stream):
        return data
    return _cut(data, sample) if in_parts else held(data)


def _cut(data: Any, sample: str) -> Stream:
    """What is in memory, or comes in batches, in parts, so that it is not copied as a whole."""
    if isinstance(data, Source):
        stream = _cut(data.data, sample)
        stream.source = data
        return stream
    if isinstance(data, Iterator):
        return Stream.batches(data)
    if isinstance(data, np.ndarray | Tensor) and data.ndim and len(data):
        step = max(1, _PART // max(1, int(np.prod(data.shape[1:]))))
        return Stream(_Slice(data[start : start + step]) for start in range(0, len(data), step))
    table = None if isinstance(data, list | tuple) else as_narwhals(data, sample)
    if isinstance(table, nw.DataFrame) and len(table) and table.columns:
        step = max(1, _PART // len(table.columns))
        starts = range(0, len(table), step)
        return Stream(_Slice(table[start : start + step].to_native()) for start in starts)
    return Stream([_Slice(data)])
