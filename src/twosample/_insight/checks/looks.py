"""What one pass over a sample leaves behind: a few numbers a column, some rows, keys of rows.

Memory is bounded, however many rows a stream gives. At most 20,000 rows are kept, drawn without
looking at what is in them, and at most 4 million keys: those of rows whose key is small, which are
all copies of some of the rows rather than some copies of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from ..._data.columns import Columns
from ..._data.copies import Counted
from ..._data.reading import read
from ..._data.row_keys import Keys, array_keys, mixed, row_keys
from ..._data.streams import Stream
from ..._data.tables import AS_FOUND, Origin, Source
from .parts import Column, Holds, Labels, Numbers, Part, part_of

_ROWS = 20_000  # that are kept to look at
_KEYS = 2**22  # of rows of a stream
_MOST_LEVELS = 20_000
_UNLIKELY = 1e-6  # the chance to take independent numbers for those of rows
_ALL_KEYS = np.uint64(2**64 - 1)


@dataclass
class ColumnLook:
    """What is known of a column of one sample.

    Attributes
    ----------
    holds
        What its values are; several where batches differ, nothing where all are missing.
    rows, missing
        How many values there should be, and how many there are not.
    low, high
        The range of its numbers.
    at_low, at_high
        How many of them are at the ends of it.
    order
        1 if they never fall from row to row, -1 if they never rise, 0 if neither.
    levels
        How often each label comes; only the most frequent where there are very many.
    different
        How many labels there are; at least so many, where there are very many.
    all_different
        Whether no label came twice in a batch.
    """

    holds: set[Holds] = field(default_factory=set)
    rows: int = 0
    missing: int = 0
    low: float = np.inf
    high: float = -np.inf
    at_low: int = 0
    at_high: int = 0
    order: int | None = None
    levels: Counter[str] = field(default_factory=Counter)
    different: int = 0
    all_different: bool = True
    _last: float | None = None

    @property
    def present(self) -> int:
        """How many values are not missing."""
        return self.rows - self.missing

    @property
    def numeric(self) -> bool:
        """Whether it holds numbers or dates only."""
        return bool(self.holds) and self.holds <= {"numbers", "dates"}

    @property
    def textual(self) -> bool:
        """Whether it holds text only."""
        return self.holds == {"text"}

    def include(self, column: Column, rows: int) -> None:
        """Count the values of the next batch."""
        self.rows += rows
        self.missing += column.missing
        if column.missing < rows:
            self.holds.add(column.holds)
        if isinstance(column, Labels):
            self._include_labels(column)
        elif column.missing < rows:
            values = column.values
            self._include_numbers(values[~np.isnan(values)] if column.missing else values)

    def _include_labels(self, column: Labels) -> None:
        self.all_different &= column.different == len(column.hashes) - column.missing
        self.levels.update(column.counts)
        self.different = max(len(self.levels), self.different, column.different)
        if len(self.levels) > _MOST_LEVELS:
            self.levels = Counter(dict(self.levels.most_common(_MOST_LEVELS // 2)))

    def _include_numbers(self, values: NDArray[Any]) -> None:
        low = float(values.min())
        high = float(values.max())
        if low <= self.low:
            self.at_low = int((values == low).sum()) + self.at_low * (low == self.low)
            self.low = low
        if high >= self.high:
            self.at_high = int((values == high).sum()) + self.at_high * (high == self.high)
            self.high = high
        self._look_at_order(values)

    def _look_at_order(self, values: NDArray[Any]) -> None:
        if self.order == 0:
            return
        order = _order(values[:100])  # of most columns this says it already
        if order:
            order = _order(values)
        if order and self._last is not None:
            joint = _order(np.array([self._last, values[0]]))
            order = order if joint in (order, 2) else 0
        if order == 2:  # all equal so far, which fits any order
            order = self.order if self.order is not None else 2
        elif self.order not in (None, 2, order):
            order = 0
        self.order = order
        self._last = float(values[-1])


def _order(values: NDArray[Any]) -> int:
    """1 where values never fall, -1 where they never rise, 2 where they are all equal, else 0."""
    rises = bool((values[1:] >= values[:-1]).all())
    falls = bool((values[1:] <= values[:-1]).all())
    if rises and falls:
        return 2
    return 1 if rises else -1 if falls else 0


@dataclass
class KeyLook:
    """The keys of the rows of a sample; of very many rows those that are small.

    Attributes
    ----------
    below
        Keys above this one are not kept.
    total
        A sum over all keys, which does not depend on their order.
    """

    most: int | None
    below: np.uint64 = _ALL_KEYS
    rows: int = 0
    total: int = 0
    _kept: list[Keys] = field(default_factory=list)
    _size: int = 0

    def include(self, keys: Keys) -> None:
        """Keep the keys of the next batch."""
        self.rows += len(keys)
        self.total = (self.total + int(mixed(keys).sum(dtype=np.uint64))) % 2**64
        small = keys if self.below == _ALL_KEYS else keys[keys <= self.below]
        self._kept.append(small)
        self._size += len(small)
        while self.most is not None and self._size > self.most:
            self.below = np.uint64(int(self.below) // 2)
            kept = self.all()
            self._kept = [kept[kept <= self.below]]
            self._size = len(self._kept[0])

    @property
    def complete(self) -> bool:
        """Whether all keys were kept."""
        return bool(self.below == _ALL_KEYS)

    def all(self) -> Keys:
        """All keys that were kept, in the order of the rows."""
        if len(self._kept) != 1:
            self._kept = [np.concatenate([np.empty(0, dtype=np.uint64), *self._kept])]
        return self._kept[0]

    def same(self, other: KeyLook) -> bool:
        """Whether two samples hold the same rows, each as often, in whatever order."""
        return (self.rows, self.total) == (other.rows, other.total)

    def counted(self, other: KeyLook) -> Counted:
        """How often rows come in this sample and in another; of the kinds that both have kept."""
        below = min(self.below, other.below)
        of_x = self.all()
        of_y = other.all()
        if below != _ALL_KEYS:
            of_x = of_x[of_x <= below]
            of_y = of_y[of_y <= below]
        return Counted.of(of_x, of_y)


@dataclass
class Look:
    """What is known of a sample.

    Attributes
    ----------
    name
        What messages call it.
    source
        The file, on the command line.
    rows
        How many rows it has.
    columns
        What is known of each column; empty for images.
    shape
        Of an image; None for tables.
    named
        Whether columns have names of their own.
    keys
        The keys of the rows; None where the columns by which to know them are not there.
    key_columns
        The columns that make the keys: all but those that number the rows.
    """

    name: str
    source: Source | None
    keys: KeyLook | None
    rows: int = 0
    columns: dict[str, ColumnLook] = field(default_factory=dict)
    shape: tuple[int, ...] | None = None
    named: bool = False
    key_columns: tuple[str, ...] | None = None
    _drawn: list[NDArray[np.uint64]] = field(default_factory=list)
    _some: dict[str, list[NDArray[np.float64]]] = field(default_factory=dict)
    _below: np.uint64 = _ALL_KEYS

    def some(self, column: str) -> NDArray[np.float64]:
        """The values of a column of numbers in the rows that were kept, without missing ones."""
        values = np.concatenate([np.empty(0), *self._some.get(column, [])])
        present: NDArray[np.float64] = values[~np.isnan(values)]
        return present

    def include(self, part: Part, tested: Sequence[str] | None) -> None:
        """Look at the next batch, of which these columns are tested."""
        if part.images is not None or part.columns is None:
            self._include_images(part)
            return
        columns = part.columns
        if tested is not None:
            columns = {name: columns[name] for name in tested}
        self.named = part.named
        drawn = self._draw(part.rows)
        for name, column in columns.items():
            self.columns.setdefault(name, ColumnLook()).include(column, part.rows)
            if isinstance(column, Numbers):
                values = column.values if drawn is None else column.values[drawn]
                self._some.setdefault(name, []).append(values.astype(np.float64))
        self.rows += part.rows
        self._thin_out()
        self._include_keys(columns, part.rows)

    def _include_images(self, part: Part) -> None:
        if part.images is None:
            return
        self.rows += part.rows
        self.shape = part.images.shape[1:]
        if self.keys is not None:
            self.keys.include(array_keys(part.images))

    def _include_keys(self, columns: dict[str, Column], rows: int) -> None:
        if self.key_columns is None:
            self.key_columns = tuple(
                name for name in sorted(columns) if not self.numbers_rows(name)
            ) or tuple(sorted(columns))
        if self.keys is None or not columns.keys() >= set(self.key_columns):
            self.keys = None
            return
        self.keys.include(row_keys((columns[name].keys() for name in self.key_columns), rows))

    def _draw(self, rows: int) -> NDArray[np.int64] | None:
        """Which of the next rows are kept; None for all."""
        numbers = mixed(np.arange(self.rows, self.rows + rows, dtype=np.uint64))
        while self._below == _ALL_KEYS and rows > 2 * _ROWS and (numbers <= self._below).all():
            self._below = np.uint64(int(self._below) // max(2, rows // _ROWS))
        if self._below == _ALL_KEYS:
            self._drawn.append(numbers)
            return None
        drawn = np.flatnonzero(numbers <= self._below)
        self._drawn.append(numbers[drawn])
        return drawn

    def _thin_out(self) -> None:
        """Keep fewer rows where there are too many."""
        while sum(map(len, self._drawn)) > 2 * _ROWS:
            self._below = np.uint64(int(self._below) // 2)
            drawn = np.concatenate(self._drawn)
            keep = drawn <= self._below
            self._drawn = [drawn[keep]]
            for name, values in self._some.items():
                self._some[name] = [np.concatenate(values)[keep]]

    def numbers_rows(self, column: str) -> bool:
        """Whether a column numbers the rows: whole numbers, no two alike, close to each other."""
        return self.chance_of_numbers(column) < _UNLIKELY

    def chance_of_numbers(self, column: str) -> float:
        """The largest chance that independent rows would have numbers like these; 1 for others.

        Of whole numbers from a range of R, s independent ones are all different with a chance of
        exp(-s (s - 1) / 2R) at most. If they are all different, they are in order with a chance of
        1 / s!.
        """
        look = self.columns[column]
        if look.holds != {"numbers"} or look.missing:
            return 1.0
        some = self.some(column)
        size = len(some)
        if size < 2 or not np.array_equal(some, np.floor(some)) or len(np.unique(some)) < size:
            return 1.0
        spread = look.high - look.low + 1
        chance = float(np.exp(-size * (size - 1) / 2 / spread))
        in_order = look.order in (1, -1)
        # Numbers with large gaps may be a quantity by which the file is sorted.
        if in_order and spread <= 10 * look.rows:
            chance = min(chance, float(np.exp(-gammaln(size + 1.0))))
        return chance


def look_at(
    stream: Stream, sample: str, rules: Columns = AS_FOUND, like: Look | None = None
) -> Look:
    """Go once through a sample. Rows are known by the columns by which those of `like` are."""
    origin = stream.origin(sample)
    most = None if stream.in_memory else _KEYS
    look = Look(origin.sample, origin.source, KeyLook(most))
    if like is not None:
        look.key_columns = like.key_columns
    stream.count(sample, rules)  # batches that come only once are kept as `rules` read them
    for batch in _batches(stream):
        part = _part(batch, origin, rules)
        if not part.rows:
            continue
        tested = None
        if part.columns is not None:
            names = list(part.columns)
            tested = [names[place] for place in rules.places(names, origin.sample)]
        look.include(part, tested)
    return look


def _part(batch: object, origin: Origin, rules: Columns) -> Part:
    try:
        return part_of(batch, origin.sample)
    except (TypeError, ValueError, RuntimeError):
        read(batch, origin, rules)  # which has a sentence for what nobody can read
        raise


def _batches(stream: Stream) -> Iterable[object]:
    return iter(stream) if stream.in_memory else stream.filled()
