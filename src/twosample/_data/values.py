"""The values of one column without gaps, as numbers or as labels, or a sentence why not."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any, Literal

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .cells import MANY
from .columns import AsKind
from .tables import Kind, Origin

_DAY = 86_400.0  # seconds
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATE = re.compile(r"\s*\d{4}-\d\d-\d\d")
_HEAD = 100  # rows in which a first value is looked for


def temporal_kind(column: nw.Series[Any]) -> Literal["date", "time"] | None:
    """Whether a column holds dates, or times of a day and durations; None for anything else."""
    dtype = column.dtype
    if dtype in (nw.Date, nw.Datetime):
        return "date"
    if dtype in (nw.Time, nw.Duration):
        return "time"
    if dtype == nw.Object:
        values = column.to_list()
        if all(isinstance(value, date) for value in values):
            return "date"
        if all(isinstance(value, time | timedelta) for value in values):
            return "time"
    return None if days_of_text(column) is None else "date"


def days_of_text(column: nw.Series[Any]) -> NDArray[np.float64] | None:
    """Days since 1970, NaN where there are gaps, if a column is text that is dates and no more.

    None for anything else. pandas has dates as text unless it is asked to read them as dates.
    """
    if column.dtype not in (nw.String, nw.Object):
        return None
    first = column.head(_HEAD).drop_nulls().head(1).to_list()
    if not first or not isinstance(first[0], str) or _DATE.match(first[0]) is None:
        return None
    days: dict[str, float] = {}
    filled = np.full(len(column), np.nan)
    gaps = column.is_null().to_list()
    for row, (value, is_gap) in enumerate(zip(column.to_list(), gaps, strict=True)):
        if is_gap:
            continue
        if not isinstance(value, str):
            return None
        if value not in days:
            instant = _instant(value)
            if instant is None:
                return None
            days[value] = instant
        filled[row] = days[value]
    return filled if len(days) >= MANY else None


def column_values(
    column: nw.Series[Any], asked: AsKind | None, name: str, where: str, origin: Origin
) -> tuple[Kind, NDArray[np.float64] | list[str]]:
    """What a column is that holds no dates, and its values; `where` is what messages call it."""
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
        # pandas has objects where a gap is among values of another type.
        if all(isinstance(value, bool | np.bool_) for value in values):
            return "boolean", np.array(values, dtype=np.float64)
        if all(isinstance(value, Real | Decimal) for value in values):
            return "numeric", np.array(values, dtype=np.float64)
    raise InputError(
        f"{origin.sample} has values of type {dtype} in {where}, which cannot be tested; "
        f"{_remedy(column, name, origin)}."
    )


def _floats(column: nw.Series[Any]) -> NDArray[np.float64]:
    # pyarrow casts no whole numbers that must be rounded, and NumPy knows none of 128 bits.
    known = column.dtype.is_integer() and column.dtype not in (nw.Int128, nw.UInt128)
    if not known:
        column = column.cast(nw.Float64)
    return np.asarray(column.to_numpy(), dtype=np.float64)


def _remedy(column: nw.Series[Any], name: str, origin: Origin) -> str:
    """What to do about a column that is neither numbers nor categories."""
    dtype = column.dtype
    as_category = origin.asks("kinds", "category", name)
    drop = origin.asks("drop", name)
    if dtype.is_nested():
        return f"spread it over columns of numbers, or leave it out with {drop}"
    if dtype in (nw.String, nw.Object):
        return (
            f"turn all its values into numbers, or all into strings with {as_category}, or leave "
            f"it out with {drop}"
        )
    return f"turn it into numbers or strings, or drop it with {drop}"


def label(value: Any) -> str:
    """The level of a category that a value stands for."""
    if isinstance(value, bool | np.bool_):
        return str(value).lower()  # as text files have it
    if isinstance(value, float) and value.is_integer():
        # 1.0 and 1 are one: pandas makes floats of integers where something was missing once.
        return str(int(value))
    if isinstance(value, datetime) and value.tzinfo is None and value.time() == time():
        value = value.date()  # CSV files have no other way to write a midnight
    return value.isoformat() if isinstance(value, date | time) else str(value)


def as_numbers(
    column: nw.Series[Any], name: str, where: str, rows: NDArray[np.int64], origin: Origin
) -> NDArray[np.float64]:
    """The values of a column that the user wants as numbers; they stand in these rows."""
    dtype = column.dtype
    if dtype.is_numeric():
        return _floats(column)
    if dtype == nw.Boolean:
        return np.asarray(column.to_numpy(), dtype=np.float64)
    if dtype in (nw.Date, nw.Datetime):
        return np.asarray(column.dt.timestamp("us").to_numpy(), dtype=np.float64) / (1e6 * _DAY)
    if dtype == nw.Duration:
        return np.asarray(column.dt.total_microseconds().to_numpy(), dtype=np.float64) / 1e6
    # Text: all of it numbers, or all of it dates and times.
    values = column.to_list()
    numbers = [_number(value) for value in values]
    if None not in numbers:
        return np.array(numbers, dtype=np.float64)
    instants = [_instant(value) for value in values]
    if None not in instants:
        return np.array(instants, dtype=np.float64)
    bad = numbers.index(None)
    raise InputError(
        f"{origin.sample} has {str(values[bad])[:60]!r} at {origin.at(int(rows[bad]))} in {where}, "
        f"which is to be a number; mend it, or use {origin.asks('kinds', 'category', name)}."
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
        # Without a time zone it is taken to be in UTC.
        instant = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (instant - _EPOCH).total_seconds() / _DAY
    if isinstance(value, time):
        value = timedelta(
            hours=value.hour,
            minutes=value.minute,
            seconds=value.second,
            microseconds=value.microsecond,
        )
    return value.total_seconds() if isinstance(value, timedelta) else None
