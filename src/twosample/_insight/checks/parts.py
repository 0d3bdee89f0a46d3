"""A batch of rows as columns of numbers and of labels, whatever it came as; nothing is refused."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import narwhals as nw
import numpy as np
import torch
from numpy.typing import NDArray

from ..._data.reading import as_narwhals
from ..._data.row_keys import Keys
from ..._data.tables import Source, Table

Holds: TypeAlias = Literal["numbers", "true and false", "dates", "text", "something else"]
"""What a column holds, in the words of messages."""

_MOST_LEVELS = 20_000  # that are counted one by one
_SHOWN = 1000  # of which are kept where there are more


@dataclass(frozen=True, eq=False)
class Numbers:
    """The values of a column of numbers, of true and false, or of dates (in days since 1970)."""

    holds: Holds
    values: NDArray[Any]  # (N,) of int64 or float64, with NaN for missing values
    missing: int

    def keys(self) -> NDArray[Any]:
        """What rows are known by."""
        return self.values


@dataclass(frozen=True, eq=False)
class Labels:
    """The values of a column of text, counted."""

    holds: Holds
    counts: Mapping[str, int]  # of the most frequent levels, where there are very many
    different: int
    hashes: Keys
    missing: int

    def keys(self) -> NDArray[Any]:
        """What rows are known by."""
        return self.hashes


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
        columns = {
            name: _column(series) for name, series in zip(names, native.iter_columns(), strict=True)
        }
        return Part(len(native), columns, named=named)
    if isinstance(native, nw.Series):
        return Part(len(native), {str(native.name or 0): _column(native)})
    return _part_of_array(native)


def _part_of_array(data: Any) -> Part:
    if isinstance(data, torch.Tensor):
        data = data.detach().cpu()
        data = data.float() if data.dtype == torch.bfloat16 else data
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
        return Numbers("true and false", values.astype(np.float64), 0)
    if values.dtype.kind in "iuf":
        return _numbers("numbers", values)
    return _labels([None if value is None else str(value) for value in values.tolist()])


def _part_of_table(table: Table) -> Part:
    columns: dict[str, Column] = {}
    for place, name in enumerate(table.names):
        if place in table.labels:
            columns[name] = _labels(table.labels[place])
        else:
            holds: Holds = "true and false" if table.kinds[place] == "boolean" else "numbers"
            columns[name] = _numbers(holds, table.numbers[:, place])
    return Part(len(table), columns, named=table.named)


# Columns of tables


def _column(column: nw.Series[Any]) -> Column:
    dtype = column.dtype
    if dtype == nw.Boolean:
        return _numbers("true and false", _as_floats(column))
    if dtype.is_numeric():
        exact = dtype.is_integer() and dtype not in (nw.Int128, nw.UInt128, nw.UInt64)
        if exact and not column.null_count():
            return Numbers("numbers", np.asarray(column.to_numpy()).astype(np.int64), 0)
        return _numbers("numbers", _as_floats(column))
    if dtype in (nw.Date, nw.Datetime):
        days = _as_floats(column.dt.timestamp("us")) / 86_400e6
        return _numbers("dates", days)
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
    return np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64)


def _numbers(holds: Holds, values: NDArray[Any]) -> Numbers:
    values = np.ascontiguousarray(values)
    if values.dtype.kind in "iu":
        return Numbers(holds, values.astype(np.int64), 0)
    values = values.astype(np.float64, copy=False)
    # A sum is quick, and NaN if one of the values is.
    with np.errstate(all="ignore"):
        missing = int(np.isnan(values).sum()) if np.isnan(values.sum()) else 0
    return Numbers(holds, values, missing)


def _text(column: nw.Series[Any]) -> Labels:
    if importlib.util.find_spec("polars") is not None:
        import polars

        native = column.to_native()
        if isinstance(native, polars.Series):
            return _counted(native.cast(polars.String))
    return _labels([None if value is None else str(value) for value in _with_gaps(column)])


def _labels(values: list[str | None], holds: Holds = "text") -> Labels:
    # By one way wherever there is one, so that a table of pandas and one of polars can be compared.
    if importlib.util.find_spec("polars") is not None:
        import polars

        return _counted(polars.Series(values, dtype=polars.String), holds)
    counts = Counter(values)
    missing = counts.pop(None, 0)
    hashes = np.array([hash(value) & (2**64 - 1) for value in values], dtype=np.uint64)
    return Labels(holds, cast("Counter[str]", counts), len(counts), hashes, missing)


def _counted(values: Any, holds: Holds = "text") -> Labels:
    """The labels of a series of polars, counted by polars."""
    table = values.alias("level").value_counts(name="count").drop_nulls("level")
    different = table.height
    if different > _MOST_LEVELS:
        table = table.top_k(_SHOWN, by="count")
    counts = dict(zip(table["level"].to_list(), table["count"].to_list(), strict=True))
    return Labels(holds, counts, different, values.hash(0).to_numpy(), values.null_count())
