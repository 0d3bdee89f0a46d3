"""Whatever came in becomes a `Table` or an array of images, or a sentence that says why not.

Each column is what the user says, else what it is. Missing values stay where they are, unless the
user says that they are an error; infinite values always are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, cast

import narwhals as nw
import numpy as np
import torch
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError, Obstacles
from .columns import Columns
from .tables import (
    AS_FOUND,
    LAYOUTS,
    ColumnKind,
    Images,
    Kind,
    Origin,
    Source,
    Table,
    count,
    listed,
    repeated,
)
from .values import as_numbers, column_values, label, temporal_kind

NO_NAME = "Unnamed: 0"
"""What pandas calls the first column if it has no name, as an index has none."""

_CHANNELS = (1, 3, 4)
_INDEX_LEVEL = re.compile(r"__index_level_\d+__")  # an index of pandas in a Parquet file


def read(
    data: object,
    origin: Origin,
    rules: Columns = AS_FOUND,
    obstacles: Obstacles | None = None,
) -> Table | Images:
    """Validate a sample, or a part of one.

    What is wrong with single columns is gathered in `obstacles`, for whoever goes on to see what
    else is wrong; without any it is raised.
    """
    gathered = Obstacles() if obstacles is None else obstacles
    table = _read(data, origin, rules, gathered)
    if obstacles is None:
        gathered.raise_any()
    return table


def _read(data: object, origin: Origin, rules: Columns, obstacles: Obstacles) -> Table | Images:
    if isinstance(data, Source):
        data = data.data
    if isinstance(data, Table):
        return _read_again(data, origin, rules)
    native: object = data
    if not isinstance(data, torch.Tensor | np.ndarray | list | tuple):
        native = as_narwhals(data, origin.sample)
    if isinstance(native, nw.DataFrame):
        names = [str(name) for name in native.columns]
        # Names that only count the columns, such as those of pd.DataFrame(array), are no names.
        named = names != [str(position) for position in range(len(names))]
        columns = list(native.iter_columns())
        return _read_table(columns, names, named, len(native), origin, rules, obstacles)
    if isinstance(native, nw.Series):
        name = str(native.name or 0)
        return _read_table([native], [name], False, len(native), origin, rules, obstacles)
    if isinstance(native, torch.Tensor):
        array = _from_torch(native, origin)
    else:
        array = _from_numpy(native, origin)
    if array.ndim == 0:
        raise InputError(
            f"{origin.sample} is a single {type(data).__name__}, not rows; pass a 2-D array or a "
            "table, one row a point."
        )
    _check_size(len(array), int(np.prod(array.shape[1:])), origin)
    if array.ndim == 1:
        array = array.reshape(-1, 1)
    return _read_array(array, origin, rules)


def _read_again(table: Table, origin: Origin, rules: Columns) -> Table:
    """A table that was kept as it was read first; now more of its columns may be left out."""
    if table.rules == rules:
        return table
    if replace(table.rules, drop=rules.drop) == rules and {*rules.drop} >= {*table.rules.drop}:
        return replace(table.without({*rules.drop}), rules=rules)
    raise InputError(
        f"the batches of {origin.sample} were kept as they were read first, with {table.rules!r}, "
        f"so they cannot be read with {rules!r}; pass Stream.batches(function), which can be read "
        "again."
    )


def _from_torch(data: Tensor, origin: Origin) -> NDArray[Any]:
    if data.layout != torch.strided or data.is_nested:
        raise InputError(
            f"{origin.sample} is a sparse or nested tensor ({data.layout}); pass a dense one, see "
            "to_dense()."
        )
    if data.is_quantized:
        raise InputError(
            f"{origin.sample} is a tensor that is quantized; pass one of plain numbers, see "
            "dequantize()."
        )
    if data.is_meta:
        raise InputError(
            f"{origin.sample} is a tensor that is on the meta device; pass one of plain numbers, "
            "with values."
        )
    if data.is_floating_point() and data.dtype != torch.float64:
        data = data.float()  # NumPy has no bfloat16
    array: NDArray[Any] = data.numpy(force=True)
    return array


def _from_numpy(data: Any, origin: Origin) -> NDArray[Any]:
    if isinstance(data, np.ma.MaskedArray) and data.dtype.kind in "biuf" and np.ma.is_masked(data):
        # np.asarray would show what the mask hides.
        data = np.ma.filled(data.astype(np.float64), np.nan)
    try:
        return np.asarray(data)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(
            f"{origin.sample} is no array of numbers ({error}); pass rows of the same length."
        ) from error


def as_narwhals(data: object, sample: str) -> object:
    """A narwhals table or series, or `data` itself if it is neither."""
    try:
        native: object = nw.from_native(cast("Any", data), allow_series=True, pass_through=True)
    except DuplicateError as error:
        twice = ", ".join(line.removeprefix("- ") for line in str(error).splitlines()[1:])
        raise InputError(
            f"{sample} has several columns of the same name ({twice}); rename them."
        ) from error
    if isinstance(native, nw.LazyFrame):
        raise InputError(f"{sample} is a lazy table; collect it before testing.")
    if native is data and hasattr(data, "__dataframe__"):
        raise InputError(
            f"{sample} is a {type(data).__name__}; convert it to a pandas, polars or pyarrow table."
        )
    if native is data and hasattr(data, "toarray"):
        raise InputError(f"{sample} is a sparse matrix; pass {sample}.toarray().")
    return native


# Arrays


def _read_array(array: NDArray[Any], origin: Origin, rules: Columns) -> Table | Images:
    kind = array.dtype.kind
    dtype = f"(dtype={array.dtype})"
    if kind in "biuf" and array.ndim > 2:
        return _read_images(array, origin, rules)
    if kind in "biuf":
        return _read_matrix(array, origin, rules)
    if kind == "O":
        # None among numbers is a missing value.
        if array.ndim == 2 and all(value is None or _is_number(value) for value in array.flat):
            return _read_matrix(array.astype(np.float64), origin, rules)
        complaint = (
            f"is an object array {dtype}; convert it to numbers, or pass a table with named columns"
        )
    elif kind in "US":
        complaint = (
            f"is an array of strings {dtype}; pass a table with named columns, where strings are "
            "categories"
        )
    elif kind in "mM":
        complaint = (
            f"holds dates or durations {dtype}; turn them into numbers, such as days since a fixed "
            "date"
        )
    elif kind == "c":
        complaint = (
            f"is complex {dtype}; pass the real and the imaginary parts as columns of their own"
        )
    else:
        complaint = f"does not hold numbers {dtype}; pass a table with named columns"
    raise InputError(f"{origin.sample} {complaint}.")


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def _read_matrix(array: NDArray[Any], origin: Origin, rules: Columns) -> Table:
    every = [str(position) for position in range(array.shape[1])]
    places = rules.places(every, origin.sample)
    names = [every[place] for place in places]
    if len(names) < len(every):
        array = array[:, places]
    with np.errstate(over="ignore"):  # a long double may become infinite: found below
        numbers = array.astype(np.float64, order="C")  # (N, d), always a copy
    _check_values(numbers, origin, lambda place: f"column {names[place[1]]}", rules)
    plain: Kind = "boolean" if array.dtype.kind == "b" else "numeric"
    left_out = frozenset(every) - {*names}
    table = Table(names, False, [plain] * len(names), numbers, {}, left_out, rules)
    for position, name in enumerate(names):
        asked = rules.kind_of(name)
        if asked == "number":
            table.kinds[position] = "numeric"
        elif asked == "category":
            values = numbers[:, position]
            gaps = np.isnan(values)
            table.kinds[position] = "category"
            table.labels[position] = [
                None if gap else label(value) for value, gap in zip(values, gaps, strict=True)
            ]
            numbers[~gaps, position] = 0.0
    return table


def _read_images(array: NDArray[Any], origin: Origin, rules: Columns) -> Images:
    # That missing values are an error holds for images anyway.
    if rules not in (AS_FOUND, Columns(missing="error")):
        raise InputError(
            f"{origin.sample} holds images, which have no columns to choose; leave out {rules!r}."
        )
    shape = array.shape
    whole = array.dtype == np.uint8
    known = whole or array.dtype.kind == "f"
    if array.ndim == 3 and known:
        array = array[:, None]
    elif array.ndim == 4 and known and (shape[1] in _CHANNELS or shape[3] in _CHANNELS):
        # Where both axes could be the channels, bytes have them last, as files do, and floats
        # first, as torch does.
        last = shape[3] in _CHANNELS and (whole or shape[1] not in _CHANNELS)
        array = array.transpose(0, 3, 1, 2) if last else array
    else:
        raise InputError(
            f"{origin.sample} has shape {shape} and dtype {array.dtype}; a table is 2-D, and "
            f"images are {LAYOUTS}."
        )
    pixels = np.uint8 if whole else np.float32
    with np.errstate(over="ignore"):  # a double may become infinite: found below
        images = array.astype(pixels, order="C")  # (N, C, H, W), always a copy
    _check_values(
        images, origin, lambda place: f"channel {place[1]}, pixel ({place[2]}, {place[3]})", None
    )
    return images


# Tables


def _read_table(
    series: list[nw.Series[Any]],
    every: list[str],
    named: bool,
    rows: int,
    origin: Origin,
    rules: Columns,
    obstacles: Obstacles,
) -> Table:
    _check_size(rows, len(every), origin)
    twice = repeated(every)
    if twice:
        raise InputError(
            f"{origin.sample} has several columns of the name {listed(sorted(twice))}; rename them."
        )
    places = _without_index(rules.places(every, origin.sample), every, rules)
    names = [every[place] for place in places]
    left_out = frozenset(every) - {*names}
    declared = frozenset(
        every[place] for place in places if series[place].dtype in (nw.Categorical, nw.Enum)
    )
    numbers = np.zeros((rows, len(names)))
    table = Table(names, named, [], numbers, {}, left_out, rules, declared)
    for position, place in enumerate(places):
        gaps = np.zeros(rows, dtype=bool)
        # Counting takes polars a tenth of the time of asking where they are.
        if series[place].null_count():
            gaps = np.asarray(series[place].is_null().to_numpy(), dtype=bool)
            table.numbers[gaps, position] = np.nan
        # Where gaps are an error, there is no need to read what is between them. Nor is anything
        # known of a column that cannot be read.
        table.kinds.append("unknown")
        if not gaps.all() and not (gaps.any() and rules.policy == "error"):
            with obstacles.noted((origin.sample, names[position])):
                table.kinds[position] = _fill_in(table, position, series[place], gaps, origin)
    with obstacles.noted((origin.sample, "values")):
        _check_values(table.numbers, origin, lambda place: table.where(place[1]), rules)
    # What has been refused must not disturb the rest of the first pass.
    table.numbers[np.isinf(table.numbers)] = np.nan
    return table


def _without_index(places: list[int], names: list[str], rules: Columns) -> list[int]:
    """The places of columns but for those of an index, unless the user wants it, or all are."""
    said = {*(rules.keep or ()), *dict(rules.kinds)}
    left = [place for place in places if names[place] in said or not is_index(names, place)]
    return left or places


def is_index(names: Sequence[str], place: int) -> bool:
    """Whether a column only names the rows: it has no name, or one that pandas gives to an index.

    In a CSV file of pandas it is the first, and has no name; read again it is "Unnamed: 0".
    """
    name = names[place]
    return (place == 0 and name in ("", NO_NAME)) or _INDEX_LEVEL.fullmatch(name) is not None


def _fill_in(
    table: Table, position: int, column: nw.Series[Any], gaps: NDArray[np.bool_], origin: Origin
) -> ColumnKind:
    """Put what is there of a column into the table, and say what it is."""
    rows = np.flatnonzero(~gaps)
    name = table.names[position]
    where = table.where(position)
    try:
        present = column if len(rows) == len(gaps) else column.filter((~gaps).tolist())
    except NotImplementedError as error:  # of pyarrow, for some of its types
        raise InputError(
            f"{origin.sample} has values of type {column.dtype} in {where}, of which those that "
            "are not missing cannot be taken; convert them to another type."
        ) from error
    asked = table.rules.kind_of(name)
    temporal = temporal_kind(present) if asked is None else None
    if asked == "number" or temporal is not None:
        table.numbers[rows, position] = as_numbers(present, name, where, rows, origin)
        return temporal or "numeric"
    kind, values = column_values(present, asked, name, where, origin)
    if not isinstance(values, list):
        table.numbers[rows, position] = values
        return kind
    labels: list[str | None] = [None] * len(gaps)
    for row, value in zip(rows.tolist(), values, strict=True):
        labels[row] = value
    table.labels[position] = labels
    return kind


# Complaints


def _check_size(rows: int, columns: int, origin: Origin) -> None:
    if rows == 0 or columns == 0:
        raise InputError(
            f"{origin.sample} is empty: it has {count(rows, 'row')} and {count(columns, 'column')}."
        )


def _check_values(
    values: NDArray[Any], origin: Origin, where: Callable[[list[int]], str], rules: Columns | None
) -> None:
    """Refuse infinite values, and missing ones if the user wants that.

    `where` turns the indices of a value into its place in the row. Without `rules` missing values
    are always refused: images.
    """
    if values.dtype.kind != "f":
        return
    tolerated = rules is not None and rules.policy != "error"
    bad = np.isinf(values) if tolerated else ~np.isfinite(values)
    if not bad.any():
        return
    first = [int(index) for index in np.unravel_index(int(bad.argmax()), bad.shape)]
    infinite = bool(np.isinf(values[bad]).any())
    problem = count(int(bad.sum()), "non-finite value" if infinite else "missing value")
    remedy = "drop or impute them before testing"
    if not infinite and rules is not None:
        drop = origin.asks("missing", "drop")
        indicator = origin.asks("missing", "indicator")
        remedy = f"{remedy}, or use {drop} or {indicator}"
    raise InputError(
        f"{origin.sample} contains {problem} (first at {origin.at(first[0])}, {where(first)}); "
        f"{remedy}."
    )
