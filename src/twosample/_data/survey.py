"""The first pass over two samples: what they are, how they are scaled, and which rows go where.

What is in memory is read once, and both the rows that are picked and those that are tested are at
hand afterwards. Of other streams only the picked rows are kept; `rereading` goes through them
again.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._design import Codes, Design, Units, memory_of
from .._design import Rows as EachRow
from ..errors import InputError, Obstacles
from .columns import Columns
from .extremes import rows_for_quantiles
from .keys import Described, codes_for
from .profile import Profile, schema_and_scaling
from .reading import read
from .samples import Samples, Scaling, split_rows
from .schema import Schema
from .streams import Pair, Stream, held
from .tables import AS_FOUND, Images, Table

_BY_ROWS = EachRow()

MAX_TRAINING_ROWS = 100_000
"""At most so many rows of each stream are trained on: 300 batches, the usual, see 76,800 rows."""

_START_ROWS = 10_000  # pooled rows from which a kernel that is not trained takes its medians


# Which rows


class SampleRows(NamedTuple):
    """Rows of one sample, both in the order in which they are used."""

    picked: Tensor  # to fit on
    tested: Tensor


Rows: TypeAlias = tuple[SampleRows, SampleRows]
"""The rows of X and those of Y."""

Names: TypeAlias = tuple[str, str]
"""What messages call the samples."""

Pick: TypeAlias = Callable[[tuple[int, int], int | None, Units | None, Names], Rows]
"""(sizes, numbers in a row, units, names of the samples) -> the rows to pick, and those to test.

The numbers are None where all rows are in memory: then no limit holds. Units are None where each
row moves by itself.
"""


def training_rows(train_fraction: float, generator: torch.Generator, memory: int) -> Pick:
    """Pick a part of each sample at random, whole units of it, to train on; the rest is tested.

    At most `MAX_TRAINING_ROWS` of each stream, and no more than a quarter of `memory` holds.
    """

    def pick(
        sizes: tuple[int, int], numbers: int | None, units: Units | None, names: Names
    ) -> Rows:
        most = _most(MAX_TRAINING_ROWS, numbers, memory)
        of_x, of_y = split_rows(
            sizes, train_fraction, generator, most=most, units=units, names=names
        )
        return SampleRows(*of_x), SampleRows(*of_y)

    return pick


def starting_rows(generator: torch.Generator, memory: int) -> Pick:
    """Pick rows from which a kernel starts, blind to labels; all rows are tested.

    Of streams at most 10,000 pooled rows, and no more than a quarter of `memory` holds. Where there
    are not so many, all of them, in order.
    """

    def pick(
        sizes: tuple[int, int], numbers: int | None, units: Units | None, names: Names
    ) -> Rows:
        n, m = sizes
        # Medians of more rows would cost more and hardly differ.
        most = _most(_START_ROWS, numbers, memory)
        if most is None or n + m <= most:
            return every_row(sizes)
        some = torch.randperm(n + m, generator=generator)[:most].sort().values
        of_x = SampleRows(some[some < n], torch.arange(n))
        of_y = SampleRows(some[some >= n] - n, torch.arange(m))
        return of_x, of_y

    return pick


def fitting_rows(generator: torch.Generator, memory: int) -> Pick:
    """Pick as many rows of each sample as `training_rows` may take; none is tested."""

    def some_of(size: int, most: int | None) -> SampleRows:
        order = torch.arange(size)
        if most is not None and size > most:
            order = torch.randperm(size, generator=generator)[:most]
        return SampleRows(order, torch.arange(0))

    def pick(
        sizes: tuple[int, int], numbers: int | None, units: Units | None, names: Names
    ) -> Rows:
        most = _most(MAX_TRAINING_ROWS, numbers, memory)
        return some_of(sizes[0], most), some_of(sizes[1], most)

    return pick


def every_row(
    sizes: tuple[int, int],
    numbers: int | None = None,
    units: Units | None = None,
    names: Names = ("X", "Y"),
) -> Rows:
    """Pick all rows, and test all."""
    all_x = torch.arange(sizes[0])
    all_y = torch.arange(sizes[1])
    return SampleRows(all_x, all_x), SampleRows(all_y, all_y)


def _most(rows: int, numbers: int | None, memory: int) -> int | None:
    """How many rows of each sample may be kept; None for all."""
    if numbers is None:
        return None
    of_both = 2 * 8 * max(1, numbers)  # bytes of a row of X and of one of Y in float64
    return max(2, min(rows, memory // 4 // of_both))


# The pass


@dataclass(frozen=True, eq=False)
class Survey:
    """What the first pass over two samples tells.

    Attributes
    ----------
    schema, scaling
        How rows become points, learned from all rows of both samples pooled.
    picked
        The rows that were picked, encoded but not scaled.
    held_out
        The rows that are to be tested, encoded but not scaled; None where they have to be read
        again.
    rows
        Which rows these are.
    sizes
        How many rows the samples have.
    marks
        A checksum of the picked rows of each stream, by which the second pass knows them again.
    dropped
        How many rows of each sample are left out because something in them is missing.
    names
        What messages call the samples.
    tested_units
        Which of the rows to test move together; None where each moves by itself.
    """

    schema: Schema
    scaling: Scaling
    picked: Samples
    held_out: Samples | None
    rows: Rows
    sizes: tuple[int, int]
    marks: tuple[int, int]
    dropped: tuple[int, int]
    names: Names
    tested_units: Units | None = None

    @property
    def tested(self) -> tuple[int, int]:
        """How many rows of each sample are to be tested."""
        return len(self.rows[0].tested), len(self.rows[1].tested)


def survey(
    pair: Pair,
    pick: Pick,
    *,
    schema: Schema | None = None,
    scaling: Scaling | None = None,
    columns: Columns | None = None,
    generator: torch.Generator | None = None,
    design: Design = _BY_ROWS,
) -> Survey:
    """Go once through X, then through Y; raise and warn of all that is wrong with them.

    Parameters
    ----------
    pair
        X and Y as streams.
    pick
        Which rows to fit on, and which to test.
    schema, scaling
        How earlier data were encoded and scaled. What is not given is learned from both samples.
    columns
        As in `as_samples`. Leaving out rows of a stream takes a pass of its own, since the rows to
        pick are drawn from the others.
    generator
        Draws the rows that quantiles are taken from, where there are many. A test needs one; for
        data that are only looked at, always the same rows will do.
    design
        Which rows move together. Of a stream it takes a pass of its own to see them.
    """
    rules = without_columns(rules_of(schema, columns), design.columns)
    generator = generator or torch.Generator().manual_seed(0)
    in_memory = pair[0].in_memory and pair[1].in_memory
    # Both are counted, and what is in memory is read, before rows are drawn: a sample that cannot
    # be read gets its own sentence, not one about its size.
    obstacles = Obstacles()
    passes = []
    for stream, name in zip(pair, "XY", strict=True):
        with obstacles.noted():
            passes.append(_FirstPass(stream, name, rules, in_memory))
    obstacles.raise_any()
    x, y = passes
    units = _units(design, x, y)
    names = (x.profile.sample, y.profile.sample)
    # Of the rows that units are made of, and the same rows where all are counted.
    chosen: Rows | None = None
    drawn: Rows | None = None
    for_quantiles = (torch.arange(0), torch.arange(0))
    for at, sample in enumerate((x, y)):
        for table in sample.tables():
            if drawn is None:
                # Only now is it known how wide a row is, and so how many there is room for.
                numbers = None if in_memory else sample.profile.numbers
                rows = (x.usable, y.usable) if units is None else units.sizes
                chosen = pick(rows, numbers, units, names)
                drawn = _in_all(chosen, units)
                for_quantiles = rows_for_quantiles(
                    (x.usable, y.usable), sample.profile.numbers, generator
                )
            sample.include(table, drawn[at].picked, for_quantiles[at])
    if chosen is None or drawn is None:
        raise InputError(f"{names[0]} is empty: it has 0 rows.")
    schema, scaling = schema_and_scaling(x.profile, y.profile, schema, scaling)
    of_x, of_y = drawn
    picked_units = None
    tested_units = None
    if units is not None:
        picked_units = units.take(chosen[0].picked, chosen[1].picked)
        tested_units = units.take(chosen[0].tested, chosen[1].tested)
    picked = _samples(x, y, schema, of_x.picked, of_y.picked, picked_units)
    held_out = None
    if in_memory:
        held_out = _samples(x, y, schema, of_x.tested, of_y.tested, tested_units)
    return Survey(
        schema,
        scaling,
        picked,
        held_out,
        rows=(x.rows_of(of_x), y.rows_of(of_y)),
        sizes=(x.size, y.size),
        marks=(x.mark, y.mark),
        dropped=picked.dropped,
        names=names,
        tested_units=tested_units,
    )


def _in_all(chosen: Rows, units: Units | None) -> Rows:
    """Rows among those that units are made of, counted among all."""
    if units is None or units.used is None:
        return chosen
    of_x, of_y = chosen
    used_x, used_y = units.used
    return (
        SampleRows(used_x[of_x.picked], used_x[of_x.tested]),
        SampleRows(used_y[of_y.picked], used_y[of_y.tested]),
    )


def without_columns(rules: Columns, columns: tuple[str, ...]) -> Columns:
    """The rules, with columns that only say which rows belong together left out."""
    more = [name for name in dict.fromkeys(columns) if name not in rules.drop]
    if not more:
        return rules
    # One that is kept or has a kind is refused as any column is that is to be left out and used.
    return replace(rules, drop=(*rules.drop, *more))


def _memory(design: Design, x: _FirstPass, y: _FirstPass, codes: list[Codes]) -> int:
    """For how many rows the series remember, by what is in memory."""
    values = (x.values(), y.values())
    if values[0] is None or values[1] is None:
        raise InputError(
            "how long blocks are and how many rows are left out after each is found in the rows, "
            "which a stream does not keep; give both, such as blocks 50+10."
        )
    # About the mean of each sample: where they differ, that is no memory.
    of_x = values[0] - values[0].mean(0)
    of_y = values[1] - values[1].mean(0)
    pooled = np.concatenate([of_x, of_y])
    rows = design.series((x.usable, y.usable), codes)
    return memory_of([pooled[each.numpy()] for each in rows])


def _units(design: Design, x: _FirstPass, y: _FirstPass) -> Units | None:
    sizes = (x.usable, y.usable)
    codes = codes_for(design, x.described(), y.described())
    if design.wants_memory:
        design = design.resolved(_memory(design, x, y, codes), min(sizes))
    units = design.units(sizes, codes)
    if units is None:
        return None
    if units.used is None and units.sizes != sizes:
        raise InputError(
            f"{design!r} gave units for {units.sizes} rows, and the samples have {sizes}."
        )
    units.check()
    return units


def as_samples(
    X: object, Y: object, *, schema: Schema | None = None, columns: Columns | None = None
) -> Samples:
    """Validate two samples and encode them as tensors.

    Parameters
    ----------
    X, Y : array, table or images
        NumPy arrays, torch tensors or nested lists of numbers, one row a point (one dimension is
        one column); pandas, polars or pyarrow tables with numeric, boolean, string or categorical
        columns, matched by name; or images: (N, H, W) or (N, H, W, C) of uint8, (N, H, W) or (N, C,
        H, W) of floats.
    schema : Schema, optional
        How earlier data were encoded. Without it the schema is learned from X and Y pooled.
    columns : Columns, optional
        Which columns to take, as what, and what becomes of missing values. A schema has its own.

    Returns
    -------
    Samples

    Raises
    ------
    InputError
        If the data cannot be tested as they are: the message names sample, row and column, and what
        to do.

    Warns
    -----
    InputWarning
        If columns are constant, or levels of a category are not those of the `schema`.

    Examples
    --------
    >>> samples = as_samples([[1.0, 2.0], [3.0, 5.0]], [[0.0, 2.0]])
    >>> samples.sizes, samples.schema.features
    ((2, 1), ('0', '1'))
    """
    return survey((held(X), held(Y)), every_row, schema=schema, columns=columns).picked


def rules_of(schema: Schema | None, columns: Columns | None) -> Columns:
    """What was said of the columns: by whoever fitted the test if there is one, else now."""
    if columns is not None and not isinstance(columns, Columns):
        raise InputError(
            f"columns is a {type(columns).__name__}; give a twosample.Columns, as in "
            "Columns(keep=['age'])."
        )
    if schema is None:
        return AS_FOUND if columns is None else columns
    if columns is not None:
        raise InputError(
            "a fitted test knows its columns; leave out `columns`, or fit another test."
        )
    return schema.rules


class _FirstPass:
    """One of the samples on its way through the first pass.

    Attributes
    ----------
    size
        How many rows it has.
    profile
        What is known of it.
    mark
        A checksum of the rows that are kept, in the order of a stream.
    copies
        How many rows are left out because they are copies of others.
    """

    def __init__(self, stream: Stream, name: str, rules: Columns, in_memory: bool) -> None:
        self.profile = Profile(stream.origin(name), rules)
        self.mark = 0
        self.copies = 0
        self._stream = stream
        self._name = name
        self._wanted: NDArray[np.int64] | None = None  # rows of a stream to keep, sorted
        self._for_quantiles: NDArray[np.int64] | None = None  # likewise
        self._kept: list[Table | Images] = []
        self._held: Table | Images | None = None  # the sample, where it is in memory
        self._encoded: Tensor | None = None  # all of what is held
        # Where the rows that may be used stand in the sample as it came; None for all, in order.
        self._places: Tensor | None = None
        self._complete: Tensor | None = None  # rows, counted as they came, where some are left out
        if in_memory:
            self._held = self.profile.read(next(iter(stream)))
            self.size = len(self._held)
            source = self.profile.origin.source
            if source is not None and source.rows is not None:
                self._places = torch.from_numpy(np.ascontiguousarray(source.rows, dtype=np.int64))
            if stream.keep is not None:
                self._keep(np.flatnonzero(stream.keep))
        else:
            self.size = stream.count(name, rules)
            if not self.size:
                raise InputError(f"{self.profile.sample} is empty: its stream gave no rows.")
        if rules.policy == "drop":
            self._drop()

    def _keep(self, rows: NDArray[np.int64]) -> None:
        """Use only these rows of what is held: the others are copies."""
        if self._held is None:
            return
        self.copies = len(self._held) - len(rows)
        self._held = (
            self._held[rows] if isinstance(self._held, np.ndarray) else self._held.take(rows)
        )
        places = torch.from_numpy(rows)
        self._places = places if self._places is None else self._places[places]

    def _drop(self) -> None:
        """Use only the rows in which nothing is missing."""
        complete = self._complete_rows()
        self._complete = complete
        if not len(complete):
            raise InputError(
                f"every row of {self.profile.sample} has a missing value, so none is left; leave "
                "out the columns that do."
            )
        if isinstance(self._held, Table):
            self._held = self._held.complete_rows()
        self._places = complete if self._places is None else self._places[complete]

    def _complete_rows(self) -> Tensor:
        batches = self._stream.filled() if self._held is None else [self._held]
        complete = [torch.empty(0, dtype=torch.bool)]
        first = 0
        for batch in batches:
            origin = replace(self.profile.origin, first=first)
            data = read(batch, origin, self.profile.rules)
            complete.append(usable(data, self.profile.rules))
            first += len(data)
        return torch.cat(complete).nonzero()[:, 0]

    @property
    def usable(self) -> int:
        """How many rows may be used."""
        return self.size if self._places is None else len(self._places)

    @property
    def dropped(self) -> int:
        """How many rows are left out because something in them is missing."""
        return self.size - self.copies - self.usable

    def described(self) -> Described:
        """The rows as they came, for a design to look at."""
        return Described(self.profile.sample, self._stream.filled, self.size, self._complete)

    def values(self) -> NDArray[np.float64] | None:
        """(N, columns) numbers of the rows that may be used; None where they are not in memory."""
        if self._held is None:
            return None
        if isinstance(self._held, np.ndarray):
            pixels: NDArray[np.float64] = self._held.reshape(len(self._held), -1).mean(1)
            return pixels[:, None].astype(np.float64)
        return self._held.as_numbers()

    def tables(self) -> Iterator[Table | Images]:
        """The rows, validated; what is in memory has been read already."""
        if self._held is not None:
            yield self._held
            return
        for batch in self._stream.filled():
            yield self.profile.read(batch)
        check_count(self._name, self.size, self.profile.rows)

    def include(self, data: Table | Images, picked: Tensor, for_quantiles: Tensor) -> None:
        """Count these rows, and keep those of them that are picked; in memory, keep them all."""
        if self._held is not None:
            # What is held has no rows any more that are left out.
            every = len(for_quantiles) == len(data)
            self.profile.include(data, None if every else for_quantiles.numpy())
            return
        if self._wanted is None or self._for_quantiles is None:
            self._wanted = self._in_sample(picked).sort().values.numpy()
            self._for_quantiles = self._in_sample(for_quantiles).numpy()
        here = self._in_batch(self._wanted, len(data))
        if len(here):
            self._kept.append(data[here] if isinstance(data, np.ndarray) else data.take(here))
        self.profile.include(data, self._in_batch(self._for_quantiles, len(data)))

    def _in_batch(self, wanted: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
        """Which of the next so many rows are wanted."""
        first = self.profile.rows
        start, end = np.searchsorted(wanted, (first, first + rows))
        return wanted[start:end] - first

    def points(self, schema: Schema, drawn: Tensor) -> Tensor:
        """The rows that were drawn, encoded, in their order."""
        if self._held is None:
            return self._placed(schema, drawn)
        if self._encoded is None:
            self._encoded = schema.tensor(self._held, self.profile.sample)
        # Where all are wanted, as without a split, they are shared.
        return self._encoded if _is_whole(drawn, self.usable) else self._encoded[drawn]

    def _placed(self, schema: Schema, drawn: Tensor) -> Tensor:
        """The rows that were kept in the order of the stream, in the order they were drawn in."""
        dtype = {"": torch.float64, "uint8": torch.uint8, "float32": torch.float32}[schema.pixels]
        points = torch.empty((len(drawn), *schema.shape), dtype=dtype)
        places = torch.argsort(drawn)  # the k-th row of the stream goes to places[k]
        start = 0
        self._kept.reverse()
        while self._kept:
            # Popped, so that no row is in memory twice for longer than it takes to encode it.
            piece = schema.tensor(self._kept.pop(), self.profile.sample)
            self.mark = marked(piece, self.mark)
            points[places[start : start + len(piece)]] = piece
            start += len(piece)
        return points

    def is_whole(self, drawn: Tensor) -> bool:
        """Whether these are all rows of the sample as it came, in order."""
        return self._places is None and _is_whole(drawn, self.size)

    def rows_of(self, drawn: SampleRows) -> SampleRows:
        """Where rows that were drawn stand in the sample as it came."""
        return SampleRows(self._in_sample(drawn.picked), self._in_sample(drawn.tested))

    def _in_sample(self, drawn: Tensor) -> Tensor:
        return drawn if self._places is None else self._places[drawn]


def _is_whole(rows: Tensor, size: int) -> bool:
    return len(rows) == size and torch.equal(rows, torch.arange(size))


def _samples(
    x: _FirstPass,
    y: _FirstPass,
    schema: Schema,
    of_x: Tensor,
    of_y: Tensor,
    units: Units | None,
) -> Samples:
    rows = None
    if not (x.is_whole(of_x) and y.is_whole(of_y)):
        rows = (x._in_sample(of_x), y._in_sample(of_y))
    dropped = (x.dropped, y.dropped)
    return Samples(x.points(schema, of_x), y.points(schema, of_y), schema, rows, dropped, units)


# What both passes know


def usable(data: Table | Images, rules: Columns) -> Tensor:
    """For each row whether it is not to be left out."""
    if rules.policy == "drop" and isinstance(data, Table):
        return torch.from_numpy(data.complete())
    return torch.ones(len(data), dtype=torch.bool)


def marked(points: Tensor, mark: int) -> int:
    """The checksum of points that follow those of `mark`."""
    return zlib.crc32(np.ascontiguousarray(points.numpy()).tobytes(), mark)


def check_count(sample: str, before: int, now: int) -> None:
    """Refuse a stream that gives more or fewer rows than before."""
    if before != now:
        raise InputError(
            f"{sample} gave {before} rows when it was read first and {now} the next time; a stream "
            "must give the same rows each time. Pass an iterator that can be read only once as it "
            "is, and it is kept in a file."
        )
