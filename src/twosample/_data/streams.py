"""Samples that are larger than memory: a `Stream` gives the rows of a sample in parts, as often as they are needed.

Two passes make a test of two streams. The first, `survey`, learns what `as_samples` learns of data
that are all there, and picks the rows to train on. The second, `embed_streams`, sends all other
rows through the network and keeps only what the kernel compares: features, and the columns that it
sees as they are. No pass holds more than a few parts.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import narwhals as nw
import numpy as np
import torch
from torch import Tensor

from .._progress import bar
from .._resources import HERE, Resources, Workers
from ..errors import InputError
from .columns import Columns
from .samples import (
    EmbeddedSamples,
    Profile,
    Samples,
    Scaling,
    Schema,
    check_left,
    rules_of,
    schema_and_scaling,
    split_rows,
)
from .tables import AS_FOUND, Origin, Source, as_narwhals
from .tables import Table as ReadTable
from .tables import read as read_data

MAX_TRAINING_ROWS = 100_000
"""At most so many rows of each stream are trained on: training costs batches, and 300 of them see 76,800 rows."""

_START_ROWS = 10_000  # pooled rows from which a kernel that is not trained takes its medians
_PART = 2**19  # numbers in a part of what is in memory already: 4 MiB in float64

Rows: TypeAlias = tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]
"""For each sample the rows that are picked and the rows that are to be tested, both in the order they are used in."""

Pick: TypeAlias = Callable[[tuple[int, int], int], Rows]
"""(sizes of the samples, numbers in a row) -> which rows are picked, and which are to be tested."""


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
        self._make: Callable[[], Iterable[object]] | None = None
        self._once: Iterator[object] | None = None
        self._remove: Callable[[], object] = _nothing
        self._rows: int | None = None
        self._source: Source | None = None  # the file, for messages
        self._closed = False

    @classmethod
    def parquet(
        cls, paths: str | Path | Sequence[str | Path], columns: Sequence[str] | None = None
    ) -> Stream:
        """The rows of Parquet or Arrow files, of all columns or of those that are named. It takes polars."""
        from .._files.parts import parquet_parts  # the door for files stands above this one

        return cls(part for path in _listed(paths) for part in parquet_parts(path, columns))

    @classmethod
    def npy(cls, paths: str | Path | Sequence[str | Path]) -> Stream:
        """The rows of one or several NPY files, which are memory-mapped for as long as a part of them is read."""
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
                "or a function "
                "that gives one."
            )
        return stream

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The parts. For a function that gives batches it takes a pass to count them."""
        self._settle("the stream")
        if self._partitions is None:
            return tuple(_Batch(self._make, at, len_of(batch)) for at, batch in enumerate(self))  # type: ignore[arg-type]
        return self._partitions

    def __iter__(self) -> Iterator[object]:
        self._settle("the stream")
        if self._partitions is None:
            return iter(self._make())  # type: ignore[misc]
        return (batch for partition in self._partitions for batch in _batches_of(partition))

    def __len__(self) -> int:
        """The number of rows, which for some streams takes a pass to count."""
        return self._count("the stream")

    def __bool__(self) -> bool:
        return True  # a question that must not take a pass

    def close(self) -> None:
        """Remove what was written to a temporary folder; the stream cannot be read any more."""
        self._closed, self._once = True, None
        self._remove()

    def _origin(self, sample: str) -> Origin:
        return Origin(sample) if self._source is None else Origin.of(self._source, sample)

    def _count(self, sample: str, rules: Columns = AS_FOUND) -> int:
        self._settle(sample, rules)
        if self._rows is None:
            if self._partitions is not None and all(
                part.rows is not None for part in self._partitions
            ):
                self._rows = sum(part.rows or 0 for part in self._partitions)
            else:
                self._rows = sum(map(len_of, self))
        return self._rows

    def _settle(self, sample: str, rules: Columns = AS_FOUND) -> None:
        """Write the batches of an iterator to files, in the first pass that wants them."""
        if self._closed:
            raise InputError(
                "this stream is closed: it was interrupted, or its files are removed; make a new "
                "one."
            )
        if self._once is None:
            return
        folder = Path(tempfile.mkdtemp(prefix="twosample-"))
        # Also when the stream is forgotten or the program ends; not a TemporaryDirectory, which
        # warns of that.
        self._remove = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        written: list[Partition] = []
        rows, once, self._once = 0, self._once, None
        try:
            for batch in once:
                if count := len_of(batch):
                    written.append(
                        _spilled(batch, folder / str(len(written)), Origin(sample, rows), rules)
                    )
                    rows += count
        except BaseException:
            self.close()
            raise
        self._partitions, self._rows = tuple(written), rows


def _batches_of(partition: Partition) -> Iterable[object]:
    """A part as it is read, or in pieces where it says how."""
    pieces = getattr(partition, "pieces", None)
    return [partition.read()] if pieces is None else pieces()


def _nothing() -> None:
    """There is nothing to remove."""


def len_of(batch: object) -> int:
    """The rows of a batch; 1 for what has no length, for `as_samples` to complain of."""
    try:
        return len(batch)  # type: ignore[arg-type]
    except TypeError:
        return 1


def known_rows(data: object) -> int | None:
    """The rows of a sample; None for an iterator of batches, which can be gone through only once."""
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
class _Held:
    """Rows that are in memory already."""

    data: Any

    @property
    def rows(self) -> int:
        return len_of(self.data)

    def read(self) -> object:
        return self.data


@dataclass(frozen=True)
class _Spilled:
    """A batch in a temporary file, as it was read by these rules."""

    path: Path
    rows: int
    rules: Columns

    def read(self) -> object:
        if self.path.suffix == ".npy":
            return np.load(self.path, allow_pickle=False)
        with np.load(self.path, allow_pickle=False) as saved:
            form = json.loads(saved["form"].tobytes())
            labels = {
                int(place): [None if code < 0 else levels[code] for code in saved[f"codes{place}"]]
                for place, levels in form["levels"].items()
            }
            names, named, kinds, left_out = (
                form[key] for key in ("names", "named", "kinds", "left_out")
            )
            return ReadTable(
                names, named, kinds, saved["numbers"], labels, frozenset(left_out), self.rules
            )


def _spilled(batch: object, file: Path, origin: Origin, rules: Columns) -> _Spilled:
    """Write a batch: an array as it is, which may be half as large as its float64s, anything else as it was read."""
    plain = (
        isinstance(batch, np.ndarray)
        and batch.dtype.kind in "biuf"
        and not isinstance(batch, np.ma.MaskedArray)
    )
    data: Any = batch if plain else read_data(batch, origin, rules)
    try:
        if isinstance(data, np.ndarray):
            np.save(file.with_suffix(".npy"), data, allow_pickle=False)
            return _Spilled(file.with_suffix(".npy"), len(data), rules)
        levels = {place: sorted({*labels} - {None}) for place, labels in data.labels.items()}
        form = {key: getattr(data, key) for key in ("names", "named", "kinds")}
        form |= {"levels": levels, "left_out": sorted(data.left_out)}
        arrays = {
            "numbers": data.numbers,
            "form": np.frombuffer(json.dumps(form).encode(), dtype=np.uint8),
        }
        for place, known in levels.items():
            code = {level: number for number, level in enumerate(known)} | {None: -1}
            arrays[f"codes{place}"] = np.array(
                [code[label] for label in data.labels[place]], dtype=np.int64
            )
        np.savez(file.with_suffix(".npz"), allow_pickle=False, **arrays)
    except OSError as error:
        raise InputError(
            f"batches of {origin.sample} cannot be written to {file.parent} "
            f"({error.strerror or error}); set TMPDIR to "
            "a folder with more room, or pass Stream.batches(function), which can be read again."
        ) from error
    return _Spilled(file.with_suffix(".npz"), len(data), rules)


# What comes in


@contextmanager
def open_streams(X: object, Y: object, memory: int) -> Iterator[tuple[Stream, Stream] | None]:
    """Both samples as streams if one of them has to be read as one, else None.

    Streams, iterators of batches and memory maps of more than a quarter of `memory` have to be.
    What is made here is closed at the end.
    """
    if not any(_is_streamed(data, memory) for data in (X, Y)):
        yield None
        return
    x, y = (
        data if isinstance(data, Stream) else _as_stream(data, name)
        for data, name in ((X, "X"), (Y, "Y"))
    )
    try:
        yield x, y
    finally:
        for stream, data in ((x, X), (y, Y)):
            if stream is not data:
                stream.close()


def _is_streamed(data: object, memory: int) -> bool:
    if isinstance(data, np.memmap):
        return data.nbytes > memory // 4
    return isinstance(data, Stream | Iterator)


def _as_stream(data: Any, sample: str) -> Stream:
    if isinstance(data, Source):
        stream = _as_stream(data.data, sample)
        stream._source = data
        return stream
    if isinstance(data, Iterator):
        return Stream.batches(data)
    if isinstance(data, np.ndarray | Tensor) and data.ndim and len(data):
        step = max(1, _PART // max(1, int(np.prod(data.shape[1:]))))
        return Stream(_Held(data[start : start + step]) for start in range(0, len(data), step))
    table = None if isinstance(data, list | tuple) else as_narwhals(data, sample)
    if isinstance(table, nw.DataFrame) and len(table) and table.columns:
        step = max(1, _PART // len(table.columns))
        return Stream(
            _Held(table[start : start + step].to_native()) for start in range(0, len(table), step)
        )
    return Stream([_Held(data)])


# Which rows


def training_rows(train_fraction: float, generator: torch.Generator, memory: int) -> Pick:
    """A part of each sample to train on, the rest to test.

    At most `MAX_TRAINING_ROWS` of each, and no more than a quarter of `memory` holds as float64.
    Below these limits the rows are those that `samples.split` draws.
    """

    def pick(sizes: tuple[int, int], numbers: int) -> Rows:
        return split_rows(
            sizes, train_fraction, generator, most=_most(MAX_TRAINING_ROWS, numbers, memory)
        )

    return pick


def starting_rows(generator: torch.Generator, memory: int) -> Pick:
    """Rows of the pooled samples, drawn blind to labels, from which a kernel starts; all are tested.

    At most 10,000, and no more than a quarter of `memory` holds; all of them, in order, where there
    are not so many.
    """

    def pick(sizes: tuple[int, int], numbers: int) -> Rows:
        n, m = sizes
        most = _most(_START_ROWS, numbers, memory)
        some = torch.arange(n + m)
        if n + m > most:
            some = torch.randperm(n + m, generator=generator)[:most].sort().values
        return (some[some < n], torch.arange(n)), (some[some >= n] - n, torch.arange(m))

    return pick


def fitting_rows(generator: torch.Generator, memory: int) -> Pick:
    """As many rows of each sample as `training_rows` may take, and none to test."""

    def pick(sizes: tuple[int, int], numbers: int) -> Rows:
        most, none = _most(MAX_TRAINING_ROWS, numbers, memory), torch.arange(0)
        orders = (
            torch.randperm(n, generator=generator)[:most] if n > most else torch.arange(n)
            for n in sizes
        )
        of_x, of_y = ((order, none) for order in orders)
        return of_x, of_y

    return pick


def all_rows(sizes: tuple[int, int], numbers: int) -> Rows:
    """No row is picked, and all are tested."""
    none = torch.arange(0)
    return (none, torch.arange(sizes[0])), (none, torch.arange(sizes[1]))


def _most(rows: int, numbers: int, memory: int) -> int:
    return max(2, min(rows, memory // 4 // (2 * 8 * max(1, numbers))))


# The first pass


@dataclass(frozen=True, eq=False)
class Survey:
    """What the first pass over two streams tells.

    Attributes
    ----------
    schema, scaling
        How rows become points, from all rows of both samples pooled.
    picked
        The rows that were picked, encoded but not scaled.
    rows
        Which these are, and which are to be tested.
    sizes
        Rows of the streams.
    marks
        A checksum of the picked rows of each sample, by which a later pass knows them again.
    dropped
        How many rows of each sample are left out because something in them is missing.
    """

    schema: Schema
    scaling: Scaling
    picked: Samples
    rows: Rows
    sizes: tuple[int, int]
    marks: tuple[int, int]
    dropped: tuple[int, int] = (0, 0)

    @property
    def tested(self) -> tuple[int, int]:
        """How many rows of each sample are to be tested."""
        return len(self.rows[0][1]), len(self.rows[1][1])


def survey(
    x: Stream,
    y: Stream,
    pick: Pick,
    *,
    schema: Schema | None = None,
    columns: Columns | None = None,
) -> Survey:
    """Go once through X, then through Y; raise and warn of all that `as_samples` raises and warns of.

    Parameters
    ----------
    x, y
        The streams.
    pick
        Which rows to keep.
    schema
        How earlier data were encoded. Without it the schema is learned from both streams.
    columns
        As in `as_samples`. Leaving out rows takes a pass of its own, since the rows to keep are
        drawn from the others.
    """
    rules = rules_of(schema, columns)
    named = ((x, "X"), (y, "Y"))
    n, m = (_counted(stream, name, rules) for stream, name in named)
    usable = (
        [_complete_rows(stream, name, rules) for stream, name in named]
        if rules.missing == "drop"
        else None
    )
    profiles, rows = (Profile(x._origin("X"), rules), Profile(y._origin("Y"), rules)), None
    kept: tuple[list[Any], list[Any]] = ([], [])
    for at, (stream, name) in enumerate(named):
        profile, wanted = profiles[at], np.empty(0, dtype=np.int64)
        for batch in _filled(stream):
            data = profile.read(batch)
            if rows is None:  # now it is known how wide they are
                rows = _picked(pick, (n, m), profile.numbers, usable)
            if not profile.batches:
                wanted = np.sort(rows[at][0].numpy())
            first, end = np.searchsorted(wanted, (profile.rows, profile.rows + len(data)))
            if end > first:
                index = wanted[first:end] - profile.rows
                kept[at].append(data[index] if isinstance(data, np.ndarray) else data.take(index))
            profile.include(data)
        _check_count(name, (n, m)[at], profile.rows)
    if rows is None:
        raise InputError("X is empty: it has 0 rows.")
    schema, scaling = schema_and_scaling(*profiles, schema)
    (of_x, mark_x), (of_y, mark_y) = (
        _encoded(kept[at], rows[at][0], schema, profiles[at]) for at in (0, 1)
    )
    dropped = n - profiles[0].kept, m - profiles[1].kept
    picked = Samples(of_x, of_y, schema, (rows[0][0], rows[1][0]), dropped)
    return Survey(schema, scaling, picked, rows, (n, m), (mark_x, mark_y), dropped)


def _complete_rows(stream: Stream, sample: str, rules: Columns) -> Tensor:
    """The rows of a stream in which nothing is missing."""
    origin, first, found = stream._origin(sample), 0, []
    for batch in _filled(stream):
        data = read_data(batch, replace(origin, first=first), rules)
        whole = data.complete() if isinstance(data, ReadTable) else np.ones(len(data), dtype=bool)
        found.append(np.flatnonzero(whole) + first)
        first += len(data)
    rows = torch.from_numpy(np.concatenate([*found, np.empty(0, dtype=np.int64)]))
    check_left(len(rows), origin.sample)
    return rows


def _picked(pick: Pick, sizes: tuple[int, int], numbers: int, usable: list[Tensor] | None) -> Rows:
    """What `pick` picks, where only some rows may be used, as rows of the streams."""
    if usable is None:
        return pick(sizes, numbers)
    drawn = pick((len(usable[0]), len(usable[1])), numbers)
    of_x, of_y = (
        (may[kept], may[tested]) for may, (kept, tested) in zip(usable, drawn, strict=True)
    )
    return of_x, of_y


def _encoded(
    pieces: list[Any], rows: Tensor, schema: Schema, profile: Profile
) -> tuple[Tensor, int]:
    """Rows that were kept in the order of the stream, encoded and in the order of `rows`; and their checksum."""
    dtype = {"": torch.float64, "uint8": torch.uint8, "float32": torch.float32}[schema.pixels]
    points = torch.empty((len(rows), *schema.shape), dtype=dtype)
    place, start, mark = torch.argsort(rows), 0, 0
    pieces.reverse()
    while pieces:
        piece = schema._tensor(pieces.pop(), profile.sample)
        mark = _marked(piece, mark)
        points[place[start : start + len(piece)]] = piece
        start += len(piece)
    return points, mark


def _marked(points: Tensor, mark: int) -> int:
    return zlib.crc32(np.ascontiguousarray(points.numpy()).tobytes(), mark)


def _filled(stream: Stream) -> Iterator[object]:
    return (batch for batch in stream if len_of(batch))


def _counted(stream: Stream, sample: str, rules: Columns) -> int:
    count = stream._count(sample, rules)
    if not count:
        raise InputError(f"{stream._origin(sample).sample} is empty: its stream gave no rows.")
    return count


def _check_count(sample: str, before: int, now: int) -> None:
    if before != now:
        raise InputError(
            f"{sample} gave {before} rows when it was read first and {now} the next time; a stream "
            "must give the "
            "same rows each time. Pass an iterator that can be read only once as it is, and it is "
            "kept in a file."
        )


# The second pass


def embed_streams(
    x: Stream,
    y: Stream,
    found: Survey,
    scaling: Scaling,
    embed: Callable[[Tensor], tuple[Tensor, ...]],
    generator: torch.Generator,
    *,
    device: torch.device,
    resources: Resources = Resources(),
) -> EmbeddedSamples:
    """Go once through both streams; keep of the rows that are to be tested what `embed` makes of them.

    The streams are merged at random: of all ways to deal the points of X and of Y out to the
    batches, each is as likely. So what a network does with a batch (the rounding of a matrix
    product, a normalisation) may depend on the company of a point but never on its label: if P = Q,
    the merged rows are independent of their labels.

    Embedded points stay in memory as long as they take no more than `memory` bytes; beyond that
    they are in a temporary file without a name, which vanishes with them.

    The workers of `resources` read the parts themselves and embed the same batches, where parts can be read
    elsewhere: of files, which must be found at the same place on all machines, not of batches that
    a function gives.
    """
    n, m = found.tested
    count, width = n + m, int(np.prod(found.schema.shape))
    is_x = torch.zeros(count, dtype=torch.bool)
    is_x[torch.randperm(count, generator=generator)[:n]] = True
    point = 64 * 4 * max(256, width)  # bytes, with the activations of a usual network
    batches = max(1, min(count // 2, -(-count * point // resources.memory)))
    parts: tuple[Tensor, ...] = ()
    dealt = (
        (int(labels.sum()), int((~labels).sum()), torch.randperm(len(labels), generator=generator))
        for labels in torch.tensor_split(is_x, batches)
    )
    memory = resources.memory
    workers = resources.workers
    if workers is not HERE and _can_travel(x) and _can_travel(y):
        pieces = _embedded_there((x, y), found, scaling, embed, dealt, workers)
    else:
        pieces = _embedded_here((x, y), found, scaling, embed, dealt, device)
    with torch.no_grad(), bar("reading", batches, resources.progress) as tick:
        for z, where in pieces:
            parts = parts or _room(z, count, memory)
            for part, new in zip(parts, z, strict=True):
                part[where] = new.cpu()
            tick("")
    return EmbeddedSamples(parts, (n, m), found.schema, found.dropped).to(device=device)


Dealt: TypeAlias = Iterator[tuple[int, int, Tensor]]
"""For each batch how many of the next rows of X and of Y it takes, and their order in it: a file may be sorted."""

Piece: TypeAlias = tuple[tuple[Tensor, ...], Tensor]
"""Embedded rows, and their places among those of X, then of Y, that are tested."""


def _embedded_here(
    pair: tuple[Stream, Stream],
    found: Survey,
    scaling: Scaling,
    embed: Callable[[Tensor], tuple[Tensor, ...]],
    dealt: Dealt,
    device: torch.device,
) -> Iterator[Piece]:
    readers = [
        _Tested(stream, name, found.sizes[at], found.rows[at], found, scaling, device)
        for at, (stream, name) in enumerate(zip(pair, "XY", strict=True))
    ]
    for of_x, of_y, order in dealt:
        points, (at_x, at_y) = zip(readers[0].take(of_x), readers[1].take(of_y), strict=True)
        yield (
            embed(torch.cat(points)[order.to(device)]),
            torch.cat([at_x, at_y + found.tested[0]])[order],
        )
    for reader, mark in zip(readers, found.marks, strict=True):
        reader.finish(mark)


def _can_travel(stream: Stream) -> bool:
    """Whether another process, maybe on another machine, can read the parts, and it is known what they hold."""
    parts = stream._partitions
    return parts is not None and all(
        part.rows is not None and not isinstance(part, _Spilled) for part in parts
    )


def _embedded_there(
    pair: tuple[Stream, Stream],
    found: Survey,
    scaling: Scaling,
    embed: Callable[[Tensor], tuple[Tensor, ...]],
    dealt: Dealt,
    workers: Workers,
) -> Iterator[Piece]:
    """As `_embedded_here`. A part is read once, by one worker, and goes to those whose batches take of its rows."""
    at = [_places(found.rows[k][1], found.sizes[k]) for k in (0, 1)]
    tested = [places[places >= 0] for places in at]  # in the order of the stream

    def arguments() -> Iterator[tuple[Any, ...]]:
        # When the last is out, nothing here refers to the parts any more, so workers forget those
        # they are done with.
        network, how = workers.share(embed), workers.share((found.schema, scaling))
        parts = [
            list(_parts_there(stream, name, at[k], found.rows[k][0], points, how, workers))
            for k, (stream, name, points) in enumerate(
                zip(pair, "XY", (found.picked.x, found.picked.y), strict=True)
            )
        ]
        done = [0, 0]
        for of_x, of_y, order in dealt:
            batches.append((of_x, of_y))
            spans, taken = [], []
            for k, rows in enumerate((of_x, of_y)):
                first, end = done[k], done[k] + rows
                done[k] = end
                for part, begins, stops in parts[k]:
                    if begins < end and stops > first:
                        spans.append(slice(max(first, begins) - begins, min(end, stops) - begins))
                        taken.append(part)
            yield (network, order, spans, *taken)

    batches: list[tuple[int, int]] = []
    begun_x = begun_y = 0
    for number, z in enumerate(workers.map(_embedded_rows, arguments())):
        of_x, of_y = batches[number]
        of_both = (
            tested[0][begun_x : begun_x + of_x],
            tested[1][begun_y : begun_y + of_y] + found.tested[0],
        )
        begun_x, begun_y = begun_x + of_x, begun_y + of_y
        yield z, torch.cat(of_both)


def _parts_there(
    stream: Stream,
    sample: str,
    places: Tensor,
    picked: Tensor,
    points: Tensor,
    how: Any,
    workers: Workers,
) -> Iterator[tuple[Any, int, int]]:
    """What stands for the rows of each part that are tested, and which of them these are."""
    picked, order = torch.sort(picked)
    row, count = 0, 0
    for part in stream.partitions:
        rows = part.rows or 0
        tested = places[row : row + rows] >= 0
        mark = None
        first, end = torch.searchsorted(picked, torch.tensor([row, row + rows])).tolist()
        if not tested[
            picked[first:end] - row
        ].all():  # a kernel that is not trained starts from rows that are tested
            mark = _marked(points[order[first:end]], 0)
        elsewhere = getattr(part, "elsewhere", None)  # workers may stand in another folder
        part = part if elsewhere is None else elsewhere()
        if tested.any() or mark is not None:
            own = int(tested.sum())
            yield workers.call(_read_part, how, part, sample, row, tested, mark), count, count + own
            count += own
        row += rows


def _read_part(
    how: tuple[Schema, Scaling],
    part: Partition,
    sample: str,
    first: int,
    tested: Tensor,
    mark: int | None,
) -> Tensor:
    """The rows of a part that are tested, scaled; the others must be those that were picked."""
    schema, scaling = how
    try:
        batch = part.read()
    except (InputError, OSError) as error:
        raise InputError(
            f"a worker cannot read {sample} from row {first} on ({error}); files must be found at "
            "the same place on "
            "all machines."
        ) from error
    data = read_data(batch, Origin(sample, first), schema.rules)
    schema._check(data, sample, warn=False)
    points, picked = schema._tensor(data, sample), _usable(data, schema)
    _check_count(sample, first + len(tested), first + len(points))
    if mark is not None and _marked(points[picked & ~tested], 0) != mark:
        raise InputError(_OTHER_ROWS.format(sample))
    return scaling._apply(points[tested], torch.float32, torch.device("cpu"))


def _usable(data: ReadTable | Any, schema: Schema) -> Tensor:
    """Which rows are not to be left out."""
    if schema.rules.missing == "drop" and isinstance(data, ReadTable):
        return torch.from_numpy(data.complete())
    return torch.ones(len(data), dtype=torch.bool)


def _embedded_rows(
    embed: Callable[[Tensor], tuple[Tensor, ...]],
    order: Tensor,
    spans: Sequence[slice],
    *parts: Tensor,
) -> tuple[Tensor, ...]:
    """The rows of a batch through `embed` in a random order, and back in that of the parts."""
    points = torch.cat([part[span] for part, span in zip(parts, spans, strict=True)])
    back = torch.argsort(order)
    return tuple(part[back] for part in embed(points[order]))


_OTHER_ROWS = (
    "{} gave other rows when it was read again, or in another order, so that rows would be tested "
    "that were trained "
    "on; a stream must give the same rows each time."
)


def _places(tested: Tensor, size: int) -> Tensor:
    """Of each row of a stream its place among those that are tested; -1 for none."""
    places = torch.full((size,), -1)
    places[tested] = torch.arange(len(tested))
    return places


class _Tested:
    """The rows of a stream that are to be tested, scaled, as many at a time as are asked for."""

    def __init__(
        self,
        stream: Stream,
        sample: str,
        size: int,
        rows: tuple[Tensor, Tensor],
        found: Survey,
        scaling: Scaling,
        device: torch.device,
    ) -> None:
        self.sample, self.size, self.schema = sample, size, found.schema
        self.places = _places(rows[1], size)
        self.points = torch.empty((0, *found.schema.shape), device=device)
        self.at = torch.empty(0, dtype=torch.int64)
        self.rest = self._read(stream, scaling, device)
        self.rows, self.mark, self.dropped = 0, 0, False

    def _read(
        self, stream: Stream, scaling: Scaling, device: torch.device
    ) -> Iterator[tuple[Tensor, Tensor]]:
        for batch in _filled(stream):
            data = read_data(batch, Origin(self.sample, self.rows), self.schema.rules)
            self.schema._check(data, self.sample, warn=False)
            points, usable = self.schema._tensor(data, self.sample), _usable(data, self.schema)
            if self.rows + len(points) > self.size:
                _check_count(self.sample, self.size, self.rows + len(points))
            at = self.places[self.rows : self.rows + len(points)]
            self.rows += len(points)
            tested = at >= 0
            if (trained_on := usable & ~tested).any():
                self.dropped, self.mark = True, _marked(points[trained_on], self.mark)
            if not tested.all():
                points, at = points[tested], at[tested]
            yield scaling._apply(points, torch.float32, device), at

    def take(self, count: int) -> tuple[Tensor, Tensor]:
        """The next `count` rows, and their places among all that are tested."""
        pieces, places, have = [self.points], [self.at], len(self.at)
        while have < count:
            found = next(self.rest, None)
            if found is None:
                _check_count(self.sample, self.size, self.rows)
                break
            pieces.append(found[0])
            places.append(found[1])
            have += len(found[1])
        points, at = (
            torch.cat(found) if len(found) > 1 else found[0] for found in (pieces, places)
        )
        self.points, self.at = points[count:], at[count:]
        return points[:count], at[:count]

    def finish(self, mark: int) -> None:
        """Read what is left, and see that the rows that were trained on are those that were left out."""
        for _ in self.rest:
            pass
        _check_count(self.sample, self.size, self.rows)
        if self.dropped and self.mark != mark:
            raise InputError(_OTHER_ROWS.format(self.sample))


def _is_spilled(parts: tuple[Tensor, ...], memory: int) -> bool:
    return sum(part.numel() * part.element_size() for part in parts) > memory


def _room(z: tuple[Tensor, ...], count: int, memory: int) -> tuple[Tensor, ...]:
    """Tensors for `count` points like `z`, in a file if they take more than `memory` bytes."""
    shapes = [(count, *part.shape[1:]) for part in z]
    empty = tuple(
        torch.empty(shape, dtype=part.dtype, device="meta")
        for shape, part in zip(shapes, z, strict=True)
    )
    if not _is_spilled(empty, memory):
        return tuple(
            torch.empty(shape, dtype=part.dtype) for shape, part in zip(shapes, z, strict=True)
        )
    return tuple(_mapped(shape, part.dtype) for shape, part in zip(shapes, z, strict=True))


def _mapped(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    numbers = torch.empty(0, dtype=dtype).numpy().dtype
    try:
        with tempfile.TemporaryFile(prefix="twosample-") as file:
            if hasattr(
                os, "posix_fallocate"
            ):  # or a full disk would end the process when a page is written
                os.posix_fallocate(file.fileno(), 0, max(1, int(np.prod(shape)) * numbers.itemsize))
            return torch.from_numpy(np.memmap(file, dtype=numbers, mode="w+", shape=shape))
    except OSError as error:
        raise InputError(
            f"the embedded points cannot be written to {tempfile.gettempdir()} "
            f"({error.strerror or error}); set TMPDIR "
            "to a folder with more room, or give the test more memory."
        ) from error
