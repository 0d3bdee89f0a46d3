"""Whatever came in becomes a `Table` or an array of images: each column is what the user says, else what it is.

Missing values stay where they are if the user has a policy for them, and are an error otherwise;
infinite values always are. What no schema knows yet, levels and means of both samples, is for
`samples`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal, TypeAlias, cast

import narwhals as nw
import numpy as np
import torch
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError
from .columns import AsKind, Columns

Kind: TypeAlias = Literal["numeric", "boolean", "category"]
ColumnKind: TypeAlias = Literal["numeric", "boolean", "category", "unknown"]
"""What a column holds; unknown where all of its values are missing."""

LAYOUTS = (
    "(N, height, width) or (N, height, width, channels) of uint8, (N, height, width) or (N, "
    "channels, height, width) "
    "of floats, with 1, 3 or 4 channels"
)
AS_FOUND = Columns()
_CHANNELS = (1, 3, 4)
_DAY = 86_400.0  # seconds
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, eq=False)
class Source:
    """A sample that comes from a file: its rows, what messages call it, and where the rows stand in the file.

    Attributes
    ----------
    data
        An array, a table or images.
    name
        What messages call it.
    rows
        Which rows of the file these are; None for all of them, in order.
    place
        Row of the file -> what messages call it, such as "line 18"; None for "row 16".
    """

    data: Any
    name: str
    rows: NDArray[np.int64] | None = None
    place: Callable[[int], str] | None = None

    def __len__(self) -> int:
        return len(self.data)


@dataclass(frozen=True)
class Origin:
    """What messages say of where a value comes from.

    Attributes
    ----------
    sample
        What they call the sample: "X", or a file.
    first
        The row of the sample at which these data begin.
    source
        The file, on the command line; there, messages speak of its options.
    """

    sample: str
    first: int = 0
    source: Source | None = None

    @classmethod
    def of(cls, data: object, sample: str, first: int = 0) -> Origin:
        """That of a sample that the library calls `sample`."""
        return cls(data.name, first, data) if isinstance(data, Source) else cls(sample, first)

    def at(self, row: int) -> str:
        """What messages call a row of the data."""
        row += self.first
        if self.source is not None and self.source.rows is not None:
            row = int(self.source.rows[row])
        named = None if self.source is None else self.source.place
        return f"row {row}" if named is None else named(row)

    def asks(self, field: str, value: str, column: str = "") -> str:
        """How the user asks for something that `Columns` offers."""
        if self.source is None:
            inside = {"kinds": f"{{'{column}': '{value}'}}", "drop": f"['{value}']"}.get(
                field, f"'{value}'"
            )
            return f"Columns({field}={inside})"
        return f"--type {column}={value}" if field == "kinds" else f"--{field} {value}"


@dataclass(frozen=True)
class Table:
    """A table: its own copy of the numbers (N, d), with zeros for a category, whose labels are apart.

    Missing values are NaN among the numbers, of a category too, and None among the labels.

    Attributes
    ----------
    left_out
        The columns that were there, but are not to be tested.
    rules
        What the user has said, by which it was read.
    """

    names: list[str]
    named: bool
    kinds: list[ColumnKind]
    numbers: NDArray[np.float64]
    labels: dict[int, list[str | None]]
    left_out: frozenset[str] = frozenset()
    rules: Columns = AS_FOUND

    def __len__(self) -> int:
        return len(self.numbers)

    def where(self, position: int) -> str:
        """What messages call a column."""
        return (
            f"column '{self.names[position]}'" if self.named else f"column {self.names[position]}"
        )

    def gaps(self) -> NDArray[np.int64]:
        """How many values are missing in each column."""
        return np.asarray(np.isnan(self.numbers).sum(axis=0), dtype=np.int64)

    def complete(self) -> NDArray[np.bool_]:
        """For each row whether nothing in it is missing."""
        return np.asarray(~np.isnan(self.numbers).any(axis=1))

    def complete_rows(self) -> Table:
        """The rows in which nothing is missing."""
        complete = self.complete()
        return self if complete.all() else self.take(np.flatnonzero(complete))

    def take(self, rows: NDArray[np.int64]) -> Table:
        """Some of the rows."""
        labels = {
            position: [labels[row] for row in rows] for position, labels in self.labels.items()
        }
        return Table(
            self.names,
            self.named,
            self.kinds,
            self.numbers[rows],
            labels,
            self.left_out,
            self.rules,
        )

    def columns(self, order: list[int]) -> Table:
        """The columns in another order."""
        labels = {
            place: self.labels[position]
            for place, position in enumerate(order)
            if position in self.labels
        }
        names, kinds = (
            [self.names[position] for position in order],
            [self.kinds[position] for position in order],
        )
        numbers = np.take(self.numbers, order, axis=1)
        return Table(names, self.named, kinds, numbers, labels, self.left_out, self.rules)


Images: TypeAlias = NDArray[Any]  # (N, C, H, W), uint8 or float32


def read(data: object, origin: Origin, rules: Columns = AS_FOUND) -> Table | Images:
    """Validate `data`."""
    if isinstance(data, Source):
        data = data.data
    if isinstance(data, Table):
        if data.rules != rules:
            raise InputError(
                f"the batches of {origin.sample} were kept as they were read first, with "
                f"{data.rules!r}, so they "
                f"cannot be read with {rules!r}; pass Stream.batches(function), which can be read "
                "again."
            )
        return data
    if isinstance(data, torch.Tensor):
        array = _from_torch(data, origin)
    else:
        native: Any = (
            data
            if isinstance(data, (np.ndarray, list, tuple))
            else as_narwhals(data, origin.sample)
        )
        if isinstance(native, nw.DataFrame):
            names = [str(name) for name in native.columns]
            # Names that only count the columns, such as those of pd.DataFrame(array), are no names.
            named = names != [str(position) for position in range(len(names))]
            return _read_table(
                list(native.iter_columns()), names, named, len(native), origin, rules
            )
        if isinstance(native, nw.Series):
            return _read_table([native], [str(native.name or 0)], False, len(native), origin, rules)
        array = _from_numpy(native, origin)
    if array.ndim == 0:
        found = type(data).__name__
        raise InputError(
            f"{origin.sample} is a single {found}, not rows; pass a 2-D array or a table, one row "
            "a point."
        )
    _check_size(len(array), int(np.prod(array.shape[1:])), origin)
    return _read_array(array.reshape(-1, 1) if array.ndim == 1 else array, origin, rules)


def _from_torch(data: Tensor, origin: Origin) -> NDArray[Any]:
    if data.layout != torch.strided or data.is_nested:
        raise InputError(
            f"{origin.sample} is a sparse or nested tensor ({data.layout}); pass a dense one, see "
            "to_dense()."
        )
    if data.is_quantized or data.is_meta:
        what, remedy = (
            ("quantized", "see dequantize()")
            if data.is_quantized
            else ("on the meta device", "with values")
        )
        raise InputError(
            f"{origin.sample} is a tensor that is {what}; pass one of plain numbers, {remedy}."
        )
    if data.is_floating_point() and data.dtype != torch.float64:
        data = data.float()  # NumPy has no bfloat16
    array: NDArray[Any] = data.numpy(force=True)
    return array


def _from_numpy(data: Any, origin: Origin) -> NDArray[Any]:
    if isinstance(data, np.ma.MaskedArray) and data.dtype.kind in "biuf" and np.ma.is_masked(data):
        data = np.ma.filled(
            data.astype(np.float64), np.nan
        )  # np.asarray would show what the mask hides
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
        found = ", ".join(line.removeprefix("- ") for line in str(error).splitlines()[1:])
        raise InputError(
            f"{sample} has several columns of the same name ({found}); rename them."
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
    kind, found = array.dtype.kind, f"(dtype={array.dtype})"
    if kind in "biuf":
        return (
            _read_images(array, origin, rules)
            if array.ndim > 2
            else _read_matrix(array, origin, rules)
        )
    if kind == "O":
        gaps = np.array([np.nan if value is None else 0.0 for value in array.flat])
        _check_values(
            gaps.reshape(len(array), -1), origin, lambda place: f"column {place[1]}", AS_FOUND
        )
        complaint = (
            f"is an object array {found}; convert it to numbers, or pass a table with named columns"
        )
    elif kind in "US":
        complaint = f"is an array of strings {found}; pass a table with named columns, where strings are categories"
    elif kind in "mM":
        complaint = f"holds dates or durations {found}; turn them into numbers, such as days since a fixed date"
    elif kind == "c":
        complaint = (
            f"is complex {found}; pass the real and the imaginary parts as columns of their own"
        )
    else:
        complaint = f"does not hold numbers {found}; pass a table with named columns"
    raise InputError(f"{origin.sample} {complaint}.")


def _read_matrix(array: NDArray[Any], origin: Origin, rules: Columns) -> Table:
    every = [str(position) for position in range(array.shape[1])]
    places = rules.places(every, origin.sample)
    names = [every[place] for place in places]
    with np.errstate(over="ignore"):  # a long double may become infinite: found below
        numbers = (array if len(names) == len(every) else array[:, places]).astype(
            np.float64, order="C"
        )  # (N, d)
    _check_values(numbers, origin, lambda place: f"column {names[place[1]]}", rules)
    plain: Kind = "boolean" if array.dtype.kind == "b" else "numeric"
    table = Table(
        names, False, [plain] * len(names), numbers, {}, frozenset(every) - {*names}, rules
    )
    for position, name in enumerate(names):
        asked = rules.kind_of(name)
        if asked == "category":
            table.labels[position] = [
                None if value != value else label(value) for value in numbers[:, position]
            ]
            numbers[~np.isnan(numbers[:, position]), position] = 0.0
        table.kinds[position] = {"number": "numeric", "category": "category", None: plain}[asked]
    return table


def _read_images(array: NDArray[Any], origin: Origin, rules: Columns) -> Images:
    if rules != AS_FOUND:
        raise InputError(
            f"{origin.sample} holds images, which have no columns to choose; leave out {rules!r}."
        )
    whole, shape = array.dtype == np.uint8, array.shape
    known = whole or array.dtype.kind == "f"
    if array.ndim == 3 and known:
        array = array[:, None]
    elif array.ndim == 4 and known and (shape[1] in _CHANNELS or shape[3] in _CHANNELS):
        # Where both axes could be the channels, bytes have them last, as files do, and floats
        # first, as torch does.
        last = shape[3] in _CHANNELS and (whole or shape[1] not in _CHANNELS)
        array = array.transpose(0, 3, 1, 2) if last else array
    else:
        found = f"shape {shape} and dtype {array.dtype}"
        raise InputError(f"{origin.sample} has {found}; a table is 2-D, and images are {LAYOUTS}.")
    with np.errstate(over="ignore"):  # a double may become infinite: found below
        images = array.astype(
            np.uint8 if whole else np.float32, order="C"
        )  # (N, C, H, W), always a copy
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
) -> Table:
    _check_size(rows, len(every), origin)
    if twice := sorted({name for name in every if every.count(name) > 1}):
        raise InputError(
            f"{origin.sample} has several columns of the name {listed(twice)}; rename them."
        )
    places = rules.places(every, origin.sample)
    names = [every[place] for place in places]
    left_out = frozenset(every) - {*names}
    table = Table(names, named, [], np.zeros((rows, len(names))), {}, left_out, rules)
    for position, place in enumerate(places):
        gaps = np.asarray(series[place].is_null().to_numpy(), dtype=bool)
        if gaps.any():
            table.numbers[gaps, position] = np.nan
        if gaps.all() or (gaps.any() and rules.missing == "error"):
            table.kinds.append("unknown")
            continue
        _fill_in(table, position, series[place], gaps, origin)
    _check_values(table.numbers, origin, lambda place: table.where(place[1]), rules)
    return table


def _fill_in(
    table: Table, position: int, column: nw.Series[Any], gaps: NDArray[np.bool_], origin: Origin
) -> None:
    """Put what is there of a column into the table."""
    there = np.flatnonzero(~gaps)
    present = column if len(there) == len(gaps) else column.filter((~gaps).tolist())
    asked = table.rules.kind_of(table.names[position])
    if asked == "number":
        table.numbers[there, position] = _as_numbers(present, table, position, there, origin)
        table.kinds.append("numeric")
        return
    kind, values = _read_column(present, asked, table, position, origin)
    table.kinds.append(kind)
    if not isinstance(values, list):
        table.numbers[there, position] = values
        return
    labels: list[str | None] = [None] * len(gaps)
    for row, value in zip(there.tolist(), values, strict=True):
        labels[row] = value
    table.labels[position] = labels


def _read_column(
    column: nw.Series[Any], asked: AsKind | None, table: Table, position: int, origin: Origin
) -> tuple[Kind, NDArray[np.float64] | list[str]]:
    """What a column without gaps is, and its values."""
    dtype = column.dtype
    if asked == "category" or dtype in (nw.Categorical, nw.Enum):
        if not dtype.is_nested():
            return "category", [label(value) for value in column.to_list()]
    elif dtype.is_numeric():
        return "numeric", _floats(column)
    elif dtype == nw.Boolean:
        return "boolean", np.asarray(column.to_numpy(), dtype=np.float64)
    elif dtype in (nw.String, nw.Object):
        values = column.to_list()
        if all(isinstance(value, str) for value in values):
            return "category", values
        if all(isinstance(value, Decimal) for value in values):
            return "numeric", np.array(values, dtype=np.float64)
    raise InputError(
        f"{origin.sample} has values of type {dtype} in {table.where(position)}, which cannot be "
        "tested; "
        f"{_remedy(column, table.names[position], origin)}."
    )


def _floats(column: nw.Series[Any]) -> NDArray[np.float64]:
    """A column of numbers without gaps."""
    # pyarrow casts no whole numbers that must be rounded, and NumPy knows none of 128 bits.
    known = column.dtype.is_integer() and column.dtype not in (nw.Int128, nw.UInt128)
    return np.asarray((column if known else column.cast(nw.Float64)).to_numpy(), dtype=np.float64)


def _remedy(column: nw.Series[Any], name: str, origin: Origin) -> str:
    """What to do about a column that is neither numbers nor categories."""
    dtype = column.dtype
    as_number, as_category, drop = (
        origin.asks("kinds", "number", name),
        origin.asks("kinds", "category", name),
        origin.asks("drop", name),
    )
    if dtype.is_nested():
        return f"spread it over columns of numbers, or leave it out with {drop}"
    if dtype.is_temporal() or (
        dtype == nw.Object and all(isinstance(each, _TEMPORAL) for each in column.to_list())
    ):
        return (
            f"turn it into a number, such as days since a fixed date, with {as_number}, into a "
            "category with "
            f"{as_category}, or leave it out with {drop}"
        )
    if dtype in (nw.String, nw.Object):
        return f"turn all its values into numbers, or all into strings with {as_category}, or leave it out with {drop}"
    return f"turn it into numbers or strings, or drop it with {drop}"


_TEMPORAL = (date, time, timedelta)


def label(value: Any) -> str:
    """The level of a category that a value stands for."""
    if isinstance(value, bool | np.bool_):
        return str(value).lower()  # as text files have it
    if isinstance(value, float) and value.is_integer():
        return str(
            int(value)
        )  # 1.0 and 1 are one: pandas makes floats of integers where something was missing once
    if isinstance(value, datetime) and value.tzinfo is None and value.time() == time():
        value = value.date()  # CSV files have no other way to write a midnight
    return value.isoformat() if isinstance(value, date | time) else str(value)


def _as_numbers(
    column: nw.Series[Any], table: Table, position: int, rows: NDArray[np.int64], origin: Origin
) -> NDArray[np.float64]:
    """The values of a column without gaps, which stand in these rows, as numbers."""
    dtype = column.dtype
    if dtype.is_numeric():
        return _floats(column)
    if dtype == nw.Boolean:
        return np.asarray(column.to_numpy(), dtype=np.float64)
    if dtype in (nw.Date, nw.Datetime):
        return np.asarray(column.dt.timestamp("us").to_numpy(), dtype=np.float64) / (1e6 * _DAY)
    if dtype == nw.Duration:
        return np.asarray(column.dt.total_microseconds().to_numpy(), dtype=np.float64) / 1e6
    values = column.to_list()
    numbers = [_number(value) for value in values]
    if None not in numbers:
        return np.array(numbers, dtype=np.float64)
    instants = [_instant(value) for value in values]
    if None not in instants:
        return np.array(instants, dtype=np.float64)
    bad = numbers.index(None)
    raise InputError(
        f"{origin.sample} has {str(values[bad])[:60]!r} at {origin.at(int(rows[bad]))} in "
        f"{table.where(position)}, "
        "which is to be a number; mend it, or use "
        f"{origin.asks('kinds', 'category', table.names[position])}."
    )


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _instant(value: Any) -> float | None:
    """Days since 1970 of a date, seconds of a time or duration; None for anything else."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if isinstance(value, datetime):
        return (
            (value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH
        ).total_seconds() / _DAY
    if isinstance(value, time):
        value = timedelta(
            hours=value.hour,
            minutes=value.minute,
            seconds=value.second,
            microseconds=value.microsecond,
        )
    return value.total_seconds() if isinstance(value, timedelta) else None


# Complaints


def _check_size(rows: int, columns: int, origin: Origin) -> None:
    if rows == 0 or columns == 0:
        raise InputError(
            f"{origin.sample} is empty: it has {count(rows, 'row')} and {count(columns, 'column')}."
        )


def _check_values(
    values: NDArray[Any], origin: Origin, where: Callable[[list[int]], str], rules: Columns | None
) -> None:
    """Refuse infinite values, and missing ones unless there is a policy for them.

    `where` turns the indices of a value into its place in the row. Without `rules` there can be no
    policy: images.
    """
    if values.dtype.kind != "f":
        return
    tolerated = rules is not None and rules.missing != "error"
    bad = np.isinf(values) if tolerated else ~np.isfinite(values)
    if not bad.any():
        return
    first = [int(index) for index in np.unravel_index(int(bad.argmax()), bad.shape)]
    infinite = bool(np.isinf(values[bad]).any())
    what = count(int(bad.sum()), "non-finite value" if infinite else "missing value")
    remedy = "drop or impute them before testing"
    if not infinite and rules is not None:
        remedy += (
            f", or use {origin.asks('missing', 'drop')} or {origin.asks('missing', 'indicator')}"
        )
    raise InputError(
        f"{origin.sample} contains {what} (first at {origin.at(first[0])}, {where(first)}); "
        f"{remedy}."
    )


def count(number: int, noun: str) -> str:
    """A number and what it counts."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(names: Sequence[str], quote: str = "'") -> str:
    """The first few names."""
    shown = ", ".join(f"{quote}{name}{quote}" for name in names[:5])
    return shown if len(names) <= 5 else f"{shown}, ... {len(names)} in all"
