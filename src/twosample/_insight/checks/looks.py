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
from ..._data.extremes import CODES
from ..._data.reading import read
from ..._data.row_keys import Keys, array_keys, mixed, row_keys
from ..._data.streams import Stream
from ..._data.tables import AS_FOUND, Origin, Source
from ..._design import places_to_look_at
from ..._design.dependence import MOST_COLUMNS, MOST_ROWS
from .keys import ALL_KEYS, KeyLook
from .parts import MOST_LEVELS, Column, Holds, Labels, Numbers, Part, part_of

_ROWS = 20_000  # that are kept to look at
_KEYS = 2**22  # of rows of a stream
_CHUNK = 2**15  # rows of which it is drawn at a time: caches hold them
_STRETCH = 500  # rows of a batch that are kept in their order
_A_FEW = 1000  # rows that show how many different values a column has
_UNLIKELY = 1e-6  # the chance to take independent numbers for those of rows


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
        How many of them are at the ends of it, if the ends are `CODES`.
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

    def include(self, column: Column, rows: int, start: NDArray[np.int64]) -> None:
        """Count the values of the next batch; `start` are the places of its first rows."""
        self.rows += rows
        self.missing += column.missing
        if column.missing < rows:
            self.holds.add(column.holds)
        if isinstance(column, Labels):
            self._include_labels(column)
        elif column.missing < rows:
            self._include_numbers(column, start)

    def _include_labels(self, column: Labels) -> None:
        self.all_different &= column.different == len(column.hashes) - column.missing
        self.levels.update(column.counts)
        self.different = max(len(self.levels), self.different, column.different)
        if len(self.levels) > MOST_LEVELS:
            self.levels = Counter(dict(self.levels.most_common(MOST_LEVELS // 2)))

    def _include_numbers(self, column: Numbers, start: NDArray[np.int64]) -> None:
        low = column.low
        high = column.high
        if low <= self.low:
            self.at_low = _times(low, column) + self.at_low * (low == self.low)
            self.low = low
        if high >= self.high:
            self.at_high = _times(high, column) + self.at_high * (high == self.high)
            self.high = high
        self._look_at_order(column, start)

    def _look_at_order(self, column: Numbers, start: NDArray[np.int64]) -> None:
        if self.order == 0:
            return
        first = column.some(start)
        if _order(first[~np.isnan(first)]) == 0:  # as of most columns
            self.order = 0
            return
        values = column.values
        values = values[~np.isnan(values)] if column.missing else values
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


def _without_gaps(values: NDArray[np.float64]) -> NDArray[np.float64]:
    gaps = np.isnan(values)
    if not gaps.any():
        return values
    middle = 0.0 if gaps.all() else float(np.median(values[~gaps]))
    return np.where(gaps, middle, values)


def _times(code: float, column: Numbers) -> int:
    """How often a code is there; 0 for other values, which nobody asks for."""
    return column.count(code) if code in CODES else 0


def _order(values: NDArray[Any]) -> int:
    """1 where values never fall, -1 where they never rise, 2 where they are all equal, else 0."""
    rises = bool((values[1:] >= values[:-1]).all())
    falls = bool((values[1:] <= values[:-1]).all())
    if rises and falls:
        return 2
    return 1 if rises else -1 if falls else 0


@dataclass
class Look:
    """What is known of a sample.

    Attributes
    ----------
    name
        What messages call it.
    source
        The file, on the command line.
    in_memory
        Whether all rows are there at once, so that there is one batch of them.
    rows
        How many rows it has.
    columns
        What is known of each column; empty for images.
    shape
        Of an image; None for tables.
    named
        Whether columns have names of their own.
    key_columns
        The columns by which rows are known: all but those that number the rows.
    """

    name: str
    source: Source | None
    in_memory: bool
    rows: int = 0
    columns: dict[str, ColumnLook] = field(default_factory=dict)
    shape: tuple[int, ...] | None = None
    named: bool = False
    key_columns: tuple[str, ...] | None = None
    _keys: KeyLook | None = None
    _held: dict[str, Column] | None = None  # what is in memory, until all of its keys are made
    _drawn: list[Keys] = field(default_factory=list)
    _some: dict[str, list[NDArray[np.float64]]] = field(default_factory=dict)
    _below: np.uint64 = ALL_KEYS
    _places: list[NDArray[np.int64]] = field(default_factory=list)  # of rows in their order
    _ordered: dict[str, list[NDArray[np.float64]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._keys = KeyLook(None if self.in_memory else _KEYS)

    @property
    def keys(self) -> KeyLook | None:
        """The keys of the rows; None where the columns by which to know them are not there."""
        if self._held is not None:
            self._include_keys(self._held, self.rows)
            self._held = None
        return self._keys

    def keys_by(self, names: Sequence[str], *, by_polars: bool) -> Keys | None:
        """Keys of the rows by some columns alone; None if these are not in memory.

        Rows that are equal there have equal keys, in another sample, too. By polars it takes a
        fraction of the time, but those are other keys.
        """
        if not names or self._held is None or not self._held.keys() >= set(names):
            return None
        columns = [self._held[name] for name in names]
        if not by_polars:
            return row_keys((column.keys() for column in columns), self.rows)
        hashes = [column.series().hash(place) for place, column in enumerate(columns)]
        keys: Keys = sum(hashes[1:], start=hashes[0]).to_numpy()
        return keys

    def telling_columns(self, most: int) -> list[str]:
        """Some of the columns by which rows are known: those with the most different values."""

        def different(name: str) -> int:
            return self.columns[name].different or len(np.unique(self.some(name)[:_A_FEW]))

        return sorted(self.key_columns or (), key=different, reverse=True)[:most]

    def some(self, column: str) -> NDArray[np.float64]:
        """The values of a column of numbers in the rows that were kept, without missing ones."""
        values = np.concatenate([np.empty(0), *self._some.get(column, [])])
        present: NDArray[np.float64] = values[~np.isnan(values)]
        return present

    def in_order(self) -> tuple[NDArray[np.int64], dict[str, NDArray[np.float64]]]:
        """The places of some rows that follow each other, and their columns as numbers.

        Labels are numbered, and the median stands for missing values.
        """
        places = np.concatenate([np.empty(0, dtype=np.int64), *self._places])
        return places, {
            name: _without_gaps(np.concatenate(values))
            for name, values in self._ordered.items()
            if sum(map(len, values)) == len(places)
        }

    def include(self, part: Part, tested: Sequence[str] | None) -> None:
        """Look at the next batch, of which these columns are tested."""
        if part.columns is None:
            self._include_images(part)
            return
        columns = part.columns
        if tested is not None:
            columns = {name: columns[name] for name in tested}
        self.named = part.named
        drawn = self._draw(part.rows)
        followed = self._follow(part.rows)
        start = np.arange(min(_A_FEW, part.rows))
        for name, column in columns.items():
            if len(self._ordered) < MOST_COLUMNS or name in self._ordered:
                self._ordered.setdefault(name, []).append(column.numbered(followed))
            self.columns.setdefault(name, ColumnLook()).include(column, part.rows, start)
            if isinstance(column, Numbers):
                self._some.setdefault(name, []).append(column.some(drawn))
        self.rows += part.rows
        self._thin_out()
        if self.key_columns is None:
            names = [name for name in sorted(columns) if not self.numbers_rows(name)]
            self.key_columns = tuple(names or sorted(columns))
        if self.in_memory:
            self._held = columns
        else:
            self._include_keys(columns, part.rows)

    def _include_images(self, part: Part) -> None:
        if part.images is None:
            return
        followed = self._follow(part.rows)
        brightness = part.images[followed].reshape(len(followed), -1).mean(1, dtype=np.float64)
        self._ordered.setdefault("brightness", []).append(brightness)
        self.rows += part.rows
        self.shape = part.images.shape[1:]
        if self._keys is not None:
            self._keys.include(array_keys(part.images))

    def _include_keys(self, columns: dict[str, Column], rows: int) -> None:
        names = self.key_columns or ()
        if self._keys is None or not columns.keys() >= set(names):
            self._keys = None
            return
        self._keys.include(row_keys((columns[name].keys() for name in names), rows))

    def _follow(self, rows: int) -> NDArray[np.int64]:
        """Which of the next rows are kept in their order."""
        followed = places_to_look_at(rows)
        if not self.in_memory:
            left = MOST_ROWS - sum(map(len, self._places))
            followed = np.arange(min(rows, left, _STRETCH))
        self._places.append(self.rows + followed)
        return followed

    def _draw(self, rows: int) -> NDArray[np.int64] | None:
        """Which of the next rows are kept; None for all."""
        if self._below == ALL_KEYS and rows > 2 * _ROWS:
            self._below = np.uint64(int(self._below) // max(2, rows // _ROWS))
        drawn = []
        for start in range(0, rows, _CHUNK):
            places = np.arange(start, min(start + _CHUNK, rows))
            numbers = mixed((self.rows + places).astype(np.uint64))
            small = numbers <= self._below
            drawn.append(places[small])
            self._drawn.append(numbers[small])
        return None if self._below == ALL_KEYS else np.concatenate(drawn)

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
        spread = look.high - look.low + 1
        # Fewer whole numbers than values cannot be all different.
        if size < 2 or spread < size or not np.array_equal(some, np.floor(some)):
            return 1.0
        if len(np.unique(some)) < size:
            return 1.0
        chance = float(np.exp(-size * (size - 1) / 2 / spread))
        in_order = look.order in (1, -1)
        # Numbers with large gaps may be a quantity by which the file is sorted.
        if in_order and spread <= 10 * look.rows:
            chance = min(chance, float(np.exp(-gammaln(size + 1.0))))
        return chance


def look_at(
    stream: Stream,
    sample: str,
    rules: Columns = AS_FOUND,
    key_columns: tuple[str, ...] | None = None,
) -> Look:
    """Go once through a sample; `key_columns` are those by which rows are known, if that is."""
    origin = stream.origin(sample)
    look = Look(origin.sample, origin.source, stream.in_memory, key_columns=key_columns)
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
