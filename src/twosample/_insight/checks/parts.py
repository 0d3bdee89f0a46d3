"""A batch of rows as columns of numbers and of labels, whatever it came as; nothing is refused."""

from __future__ import annotations

import importlib.util
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, TypeAlias, cast

import narwhals as nw
import numpy as np
import torch
from numpy.typing import NDArray

from ..._data.reading import as_narwhals
from ..._data.row_keys import Keys, few_kinds
from ..._data.tables import Source, Table
from ..._data.values import days_of_text
from ...errors import printable

Holds: TypeAlias = Literal["numbers", "true and false", "dates", "text", "something else"]
"""What a column holds, in the words of messages."""

MOST_LEVELS = 20_000
"""Levels of a column that are counted one by one."""

_SHOWN = 1000  # levels that are kept where there are more
_TOGETHER = 64  # columns that polars is asked about at a time


@dataclass(frozen=True, eq=False)
class Numbers:
    """The values of a column of numbers, of true and false, or of dates (in days since 1970).

    Attributes
    ----------
    holds
        What its values are.
    missing
        How many values are not there.
    low, high
        The range of the others; NaN if there are none.
    count
        What says how often a number is there.
    make_values, make_some
        What gives all values, and those at some places, as `values` and `some` do.
    native
        The series of polars that has the values; None if they are in an array.
    """

    holds: Holds
    missing: int
    low: float
    high: float
    count: Callable[[float], int]
    make_values: Callable[[], NDArray[Any]]
    make_some: Callable[[NDArray[np.int64]], NDArray[Any]]
    native: Any = None

    @classmethod
    def of(cls, holds: Holds, values: NDArray[Any]) -> Numbers:
        """Numbers in an array, NaN where one is missing."""
        values = np.ascontiguousarray(values)
        values = values.astype(np.int64 if values.dtype.kind in "iu" else np.float64, copy=False)
        low = values.min() if len(values) else math.nan
        high = values.max() if len(values) else math.nan
        missing = 0
        if np.isnan(low):  # which it is if one of them is
            present = values[~np.isnan(values)]
            missing = len(values) - len(present)
            low = present.min() if len(present) else math.nan
            high = present.max() if len(present) else math.nan
        return cls(
            holds,
            missing,
            float(low),
            float(high),
            lambda number: int((values == number).sum()),
            lambda: values,
            values.__getitem__,
        )

    @cached_property
    def values(self) -> NDArray[Any]:
        """(N,) all of them, of int64 or float64, with NaN for missing values."""
        return self.make_values()

    def some(self, places: NDArray[np.int64] | None) -> NDArray[np.float64]:
        """Those at some places, or all."""
        values = self.values if places is None else self.make_some(places)
        return values.astype(np.float64)

    def numbered(self, places: NDArray[np.int64]) -> NDArray[np.float64]:
        """Those at some places."""
        return self.some(places)

    def keys(self) -> NDArray[Any]:
        """What rows are known by."""
        return self.values

    def series(self) -> Any:
        """The values as a series of polars, with NaN for missing ones."""
        import polars

        if self.native is None:
            return polars.Series(self.values.astype(np.float64, copy=False))
        return self.native.cast(polars.Float64).fill_null(math.nan)


@dataclass(frozen=True, eq=False)
class Labels:
    """The values of a column of text, counted."""

    holds: Holds
    counts: Mapping[str, int]  # of the most frequent levels, where there are very many
    different: int
    hashes: Keys
    missing: int

    def numbered(self, places: NDArray[np.int64]) -> NDArray[np.float64]:
        """A number for each label at some places, the same for the same label."""
        # The first bits of a hash, which float64 holds exactly.
        return (self.hashes[places] >> np.uint64(11)).astype(np.float64)

    def keys(self) -> NDArray[Any]:
        """What rows are known by."""
        return self.hashes

    def series(self) -> Any:
        """The same as a series of polars."""
        import polars

        return polars.Series(self.hashes)


Column: TypeAlias = Numbers | Labels


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows of a sample.

    Attributes
    ----------
    rows
        How many.
    columns
        By their names; None for images.
    images
        (N, ...) pixels; None for tables.
    named
        Whether the columns have names of their own.
    """

    rows: int
    columns: dict[str, Column] | None
    images: NDArray[Any] | None = None
    named: bool = False


def part_of(batch: object, sample: str) -> Part:
    """A batch of anything that a test takes, as columns."""
    if isinstance(batch, Source):
        batch = batch.data
    if isinstance(batch, Table):
        return _part_of_table(batch)
    native: object = batch
    if not isinstance(batch, torch.Tensor | np.ndarray | list | tuple):
        native = as_narwhals(batch, sample)
    if isinstance(native, nw.DataFrame):
        names = [str(name) for name in native.columns]
        named = names != [str(position) for position in range(len(names))]
        known = _numbers_of_polars(native.to_native())
        columns = {
            name: known.get(name) or _column(series)
            for name, series in zip(names, native.iter_columns(), strict=True)
        }
        return Part(len(native), columns, named=named)
    if isinstance(native, nw.Series):
        return Part(len(native), {str(native.name or 0): _column(native)})
    return _part_of_array(native)


def _part_of_array(data: Any) -> Part:
    if isinstance(data, torch.Tensor):
        data = data.detach().cpu()
        if data.dtype.is_floating_point and data.dtype != torch.float64:
            data = data.float()  # NumPy does not know all of them
    if isinstance(data, np.ma.MaskedArray):
        is_number = data.dtype.kind in "biuf"
        data = np.ma.filled(data.astype(np.float64 if is_number else object), np.nan)
    array = np.asarray(data)
    if array.ndim > 2:
        return Part(len(array), None, images=array)
    array = array.reshape(len(array), -1) if array.ndim else array.reshape(1, 1)
    columns = {str(place): _array_column(array[:, place]) for place in range(array.shape[1])}
    return Part(len(array), columns)


def _array_column(values: NDArray[Any]) -> Column:
    if values.dtype.kind == "b":
        return Numbers.of("true and false", values.astype(np.float64))
    if values.dtype.kind in "iuf":
        return Numbers.of("numbers", values)
    return _labels([None if value is None else str(value) for value in values.tolist()])


def _part_of_table(table: Table) -> Part:
    columns: dict[str, Column] = {}
    for place, name in enumerate(table.names):
        if place in table.labels:
            columns[name] = _labels(table.labels[place])
        else:
            holds: Holds = "true and false" if table.kinds[place] == "boolean" else "numbers"
            columns[name] = Numbers.of(holds, table.numbers[:, place])
    return Part(len(table), columns, named=table.named)


# Columns of tables


def _column(column: nw.Series[Any]) -> Column:
    dtype = column.dtype
    if dtype == nw.Boolean:
        floats = _as_floats(column) if column.null_count() else column.to_numpy().astype(np.float64)
        return Numbers.of("true and false", floats)
    if dtype.is_numeric():
        exact = dtype.is_integer() and dtype not in (nw.Int128, nw.UInt128, nw.UInt64)
        if exact and not column.null_count():
            return Numbers.of("numbers", column.to_numpy())
        return Numbers.of("numbers", _as_floats(column))
    if dtype in (nw.Date, nw.Datetime):
        days = _as_floats(column.dt.timestamp("us")) / 86_400e6
        return Numbers.of("dates", days)
    if dtype == nw.Duration:
        return Numbers.of("numbers", _as_floats(column.dt.total_microseconds()) / 1e6)
    written = days_of_text(column)
    if written is not None:
        return Numbers.of("dates", written)
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        return _text(column)
    values = _with_gaps(column)
    texts = [None if value is None else str(value) for value in values]
    if all(value is None or isinstance(value, str) for value in values):
        return _labels(texts)
    return _labels(texts, "something else")


def _with_gaps(column: nw.Series[Any]) -> list[Any]:
    """The values of a column, None where one is missing; pandas has several signs for that."""
    gaps = column.is_null().to_list()
    return [None if gap else value for value, gap in zip(column.to_list(), gaps, strict=True)]


def _as_floats(column: nw.Series[Any]) -> NDArray[np.float64]:
    try:
        return np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64)
    except ValueError:  # pyarrow casts no whole numbers that must be rounded
        values = _with_gaps(column)
        return np.array([math.nan if value is None else float(value) for value in values])


def _of_polars(column: nw.Series[Any]) -> Any | None:
    """The series of polars that it is; None if it is of another library."""
    if importlib.util.find_spec("polars") is None:
        return None
    import polars

    native = column.to_native()
    return native if isinstance(native, polars.Series) else None


def _numbers_of_polars(table: object) -> dict[str, Numbers]:
    """The columns of a table of polars that are plain numbers; none of another table.

    They stay there, and are looked at together: that takes polars less time than one by one, or
    than NumPy takes to have each in one piece.
    """
    if importlib.util.find_spec("polars") is None:
        return {}
    import polars as pl

    if not isinstance(table, pl.DataFrame):
        return {}
    table = table.select(pl.col(pl.Float64, pl.Int64))
    if not table.width or not table.height:
        return {}

    kinds = table.schema  # once: it is made anew each time

    def asked(name: str) -> list[pl.Expr]:
        column = pl.col(name)
        nans = column.is_nan().sum() if kinds[name] == pl.Float64 else pl.lit(0)
        return [column.null_count(), nans, column.min(), column.max()]

    # One column after the other, because caches then hold it for the next question. Not all of a
    # wide table at once: the questions would take more memory than the answers.
    answers: list[Any] = []
    for first in range(0, table.width, _TOGETHER):
        some = table[:, first : first + _TOGETHER]
        questions = [each for name in some.columns for each in asked(name)]
        numbered = (each.alias(str(place)) for place, each in enumerate(questions))
        answers += some.select(numbered).row(0)
    rows = _Rows(table)
    found = {}
    for place, name in enumerate(table.columns):
        gaps, nans, low, high = answers[4 * place : 4 * place + 4]
        missing = gaps + nans
        there = missing < table.height
        found[name] = Numbers(
            "numbers",
            missing,
            float(low) if there else math.nan,
            float(high) if there else math.nan,
            partial(_count, table[name]),
            table[name].to_numpy,
            partial(rows.at, name),
            table[name],
        )
    return found


def _count(series: Any, number: float) -> int:
    # As a whole number, if it is one: else polars makes all values fractions first.
    return int((series == (int(number) if number.is_integer() else number)).sum())


class _Rows:
    """Some rows of a table of polars, taken together the first time one column asks for them."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self._taken: dict[int, tuple[NDArray[np.int64], Any]] = {}

    def at(self, name: str, places: NDArray[np.int64]) -> NDArray[Any]:
        if id(places) not in self._taken:
            self._taken[id(places)] = (places, self._table[places])
        values: NDArray[Any] = self._taken[id(places)][1][name].to_numpy()
        return values


def _text(column: nw.Series[Any]) -> Labels:
    native = _of_polars(column)
    if native is None:
        return _labels([None if value is None else str(value) for value in _with_gaps(column)])
    import polars

    return _counted(native.cast(polars.String))


def _labels(values: list[str | None], holds: Holds = "text") -> Labels:
    # By one way wherever there is one, so that a table of pandas and one of polars can be compared.
    if importlib.util.find_spec("polars") is not None:
        import polars

        try:
            series = polars.Series(values, dtype=polars.String)
        except UnicodeEncodeError:  # of half a character, which Python lets into text
            series = polars.Series([value and printable(value) for value in values])
        return _counted(series, holds)
    counts = Counter(values)
    missing = counts.pop(None, 0)
    hashes = np.array([hash(value) & (2**64 - 1) for value in values], dtype=np.uint64)
    return Labels(holds, cast("Counter[str]", counts), len(counts), hashes, missing)


def _counted(values: Any, holds: Holds = "text") -> Labels:
    """The labels of a series of polars, counted by polars; by their hashes, which is quicker."""
    import polars

    hashes = values.hash(0)
    keys = hashes.to_numpy()
    missing = values.null_count()
    few = few_kinds(keys)
    firsts = hashes.arg_unique() if few is None else few.first
    different = len(firsts) - (missing > 0)
    if few is not None:
        counts = dict(zip(values.gather(firsts).to_list(), few.times.tolist(), strict=True))
    elif different > MOST_LEVELS:
        rows = hashes.to_frame("hash").with_row_index("first")
        first = polars.col("first").first()
        table = rows.group_by("hash").agg(polars.len(), first).top_k(_SHOWN, by="len")
        labels = values.gather(table["first"]).to_list()
        counts = dict(zip(labels, table["len"].to_list(), strict=True))
    else:
        by_hash = dict(hashes.value_counts().iter_rows())
        labels = values.gather(firsts).to_list()
        counts = {
            label: by_hash[key]
            for label, key in zip(labels, hashes.gather(firsts).to_list(), strict=True)
        }
    counts.pop(None, None)
    return Labels(holds, counts, different, keys, missing)
