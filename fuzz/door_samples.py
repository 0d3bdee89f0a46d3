"""Samples in memory: arrays, tensors, lists and tables of every library with something odd about
them.

A sample is built from values that Python can show, so the oracle is the list of them: what is
accepted must have these numbers, and what is refused must be refused in a sentence. Input must not
be modified.
"""

from __future__ import annotations

import array
import copy
import datetime
import decimal
import fractions
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import torch
from cases import ACCEPTED, REFUSED, Case, check, check_sentence, only_our_warnings
from mutations import FIELDS, NUMBERS, Rng, pick

import twosample
from twosample._data.survey import as_samples

ROWS = 6
Column = list[Any]


# Columns of values


def numbers(rng: Rng) -> Column:
    """Numbers that any library can hold, some of them at the ends of types."""
    kind = int(rng.integers(6))
    if kind == 0:
        return [int(each) for each in rng.integers(-100, 100, ROWS)]
    if kind == 1:
        return [float(pick(rng, NUMBERS)) for _ in range(ROWS)]
    if kind == 2:
        return [2**53 + int(each) for each in rng.integers(0, 9, ROWS)]
    if kind == 3:
        return [
            float(pick(rng, [1e308, -1e308, 5e-324, 1e-310, 0.0, -0.0, 1.7976931348623157e308]))
            for _ in range(ROWS)
        ]
    if kind == 4:
        return [bool(each) for each in rng.integers(0, 2, ROWS)]
    return rng.normal(size=ROWS).tolist()


def with_gaps(rng: Rng) -> Column:
    """Numbers of which some are missing or infinite."""
    column = numbers(rng)
    for _ in range(int(rng.integers(1, 3))):
        column[int(rng.integers(ROWS))] = pick(rng, [None, math.nan, math.inf, -math.inf])
    return column


def words(rng: Rng) -> Column:
    """Strings."""
    levels = [pick(rng, FIELDS) for _ in range(int(rng.integers(1, 4)))]
    return [pick(rng, levels) for _ in range(ROWS)]


def others(rng: Rng) -> Column:
    """Things that are neither, or not all the same."""
    day = datetime.date(2020, 1, 2)
    made: list[Callable[[], Any]] = [
        lambda: day,
        lambda: datetime.datetime(2020, 1, 2, 3, tzinfo=pick(rng, [None, datetime.UTC])),
        lambda: datetime.timedelta(days=3),
        lambda: datetime.time(3),
        lambda: decimal.Decimal(pick(rng, ["1.5", "NaN", "1e400", "Infinity", "0"])),
        lambda: fractions.Fraction(1, 3),
        lambda: complex(1, 2),
        lambda: b"bytes",
        lambda: [1, 2],
        lambda: {"a": 1},
        lambda: (1, 2),
        lambda: {1, 2},
        lambda: None,
        lambda: object,
        lambda: 2**200,
        lambda: np.float32(1.5),
        lambda: np.datetime64("2020-01-01"),
        lambda: pd.NA,
        lambda: pd.NaT,
        lambda: pd.Interval(0, 1),
        lambda: pd.Period("2020-01"),
        lambda: torch.tensor(1.0),
        lambda: torch.zeros(2),
        lambda: "\ud800",
        lambda: float,
        lambda: ...,
    ]
    one = pick(rng, made)
    other = pick(rng, [*made, lambda: 1.5, lambda: "a"])
    return [one() if rng.random() < 0.7 else other() for _ in range(ROWS)]


COLUMNS = [numbers, numbers, numbers, with_gaps, words, others]
NAMES: list[Any] = [
    "a",
    "b",
    "c",
    "",
    " ",
    "0",
    "1",
    "a b",
    "é",
    "<script>",
    "\x1b[31m",
    "a\nb",
    "日本",
    "x" * 200,
    "{0}",
    "%s",
    "\ud800",
]
ODD_NAMES: list[Any] = [
    0,
    1,
    -1,
    1.5,
    None,
    math.nan,
    ("a", "b"),
    True,
    b"a",
    datetime.date(2020, 1, 1),
    frozenset(),
]


# Containers: values by column -> a sample


def as_list(columns: dict[Any, Column], rng: Rng) -> Any:
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    return pick(
        rng,
        [
            rows,
            [tuple(row) for row in rows],
            tuple(rows),
            [np.array(row, dtype=object) for row in rows],
        ],
    )


def as_array(columns: dict[Any, Column], rng: Rng) -> Any:
    values = np.array(list(zip(*columns.values(), strict=True)), dtype=object)
    dtype = pick(
        rng,
        [
            "float64",
            "float32",
            "float16",
            "longdouble",
            "int64",
            "uint8",
            "bool",
            ">f8",
            "object",
            "str",
            "complex128",
            "S3",
            "datetime64[D]",
            "m8[s]",
        ],
    )
    with np.errstate(all="ignore"):
        made = values.astype(dtype)
    return pick(
        rng,
        [
            made,
            np.asfortranarray(made),
            made[::-1],
            np.ma.array(made, mask=rng.random(made.shape) < 0.1),
            np.asmatrix(made) if made.ndim == 2 else made,
        ],
    )


def as_tensor(columns: dict[Any, Column], rng: Rng) -> Any:
    plain = torch.tensor(
        [[float(value) for value in row] for row in zip(*columns.values(), strict=True)],
        dtype=torch.float64,
    )
    dtype = pick(
        rng,
        [
            torch.float64,
            torch.float32,
            torch.float16,
            torch.bfloat16,
            torch.int64,
            torch.uint8,
            torch.bool,
            torch.complex64,
            torch.float8_e5m2,
            torch.int16,
            torch.uint16,
        ],
    )
    made = plain.to(dtype)
    forms: list[Callable[[], Any]] = [
        lambda: made,
        lambda: made.T.T,
        lambda: made.to_sparse(),
        lambda: made.to("meta"),
        lambda: made.conj(),
        lambda: made.imag,
        lambda: made.requires_grad_(),
        lambda: torch.nn.Parameter(made),
        lambda: made.flip(0),
        lambda: made[:, :0],
        lambda: made[:0],
        lambda: made.expand(2, *made.shape),
        lambda: torch.quantize_per_tensor(plain.float(), 0.1, 0, torch.quint8),
        lambda: torch.nested.nested_tensor([plain[0], plain[1]]),
        lambda: made[0, 0],
        lambda: list(made),
        lambda: made.resolve_neg(),
    ]
    return pick(rng, forms)()


def as_pandas(columns: dict[Any, Column], rng: Rng) -> Any:
    table = pd.DataFrame(dict(enumerate(columns.values())))
    table.columns = pd.Index(list(columns), dtype=object)
    if len(columns) and rng.random() < 0.5:
        where = int(rng.integers(len(columns)))
        dtype = pick(
            rng,
            [
                "category",
                "string",
                "Int64",
                "Float64",
                "boolean",
                "object",
                "float32",
                "Sparse[float64]",
                "datetime64[ns]",
                "double[pyarrow]",
                "string[pyarrow]",
                "int8",
                "complex128",
                "timedelta64[ns]",
                "period[M]",
                "UInt8",
            ],
        )
        parts = [
            table.iloc[:, place].astype(dtype) if place == where else table.iloc[:, place]
            for place in range(len(columns))
        ]
        table = pd.concat(parts, axis=1)
    forms: list[Callable[[], Any]] = [
        lambda: table,
        lambda: table,
        lambda: table,
        lambda: table.set_index(table.columns[0]),
        lambda: table.iloc[:, 0],
        lambda: table.iloc[::-1],
        lambda: table.T,
        lambda: pd.concat([table, table], axis=1),
        lambda: table.iloc[:, 0].rename(pick(rng, ODD_NAMES)),
        lambda: table.index,
        lambda: table.iloc[:0],
        lambda: table.iloc[:, :0],
        lambda: table.groupby(lambda row: row % 2),
        lambda: table.style,
        lambda: table.set_axis(pd.MultiIndex.from_product([["x"], range(table.shape[1])]), axis=1),
        lambda: table.values,
    ]
    return pick(rng, forms)()


def as_polars(columns: dict[Any, Column], rng: Rng) -> Any:
    table = pl.DataFrame(
        {str(name): pl.Series(values, strict=False) for name, values in columns.items()}
    )
    if table.width and rng.random() < 0.5:
        name = pick(rng, table.columns)
        dtype = pick(
            rng,
            [
                pl.Categorical,
                pl.Enum(["a", "b"]),
                pl.Decimal(20, 3),
                pl.Float32,
                pl.UInt8,
                pl.Int128,
                pl.Date,
                pl.Datetime,
                pl.Duration,
                pl.Time,
                pl.Binary,
                pl.List(pl.Float64),
                pl.Array(pl.Float64, 1),
                pl.Null,
                pl.Object,
                pl.Boolean,
                pl.String,
            ],
        )
        table = table.with_columns(table[name].cast(dtype, strict=False))
    forms: list[Callable[[], Any]] = [
        lambda: table,
        lambda: table,
        lambda: table,
        lambda: table.lazy(),
        lambda: table.to_series(0),
        lambda: table.reverse(),
        lambda: table.head(0),
        lambda: table.select([]),
        lambda: table.select(pl.struct(pl.all())),
        lambda: table.with_columns(pl.lit(None).alias("gap")),
        lambda: table.rows(),
        lambda: table.to_dicts(),
        lambda: table.select(pl.concat_list(pl.all())),
        lambda: pl.concat([table, table]),
        lambda: table.to_numpy(),
    ]
    return pick(rng, forms)()


def as_arrow(columns: dict[Any, Column], rng: Rng) -> Any:
    table = pa.table({str(name): pa.array(values) for name, values in columns.items()})
    if table.num_columns and rng.random() < 0.5:
        where = int(rng.integers(table.num_columns))
        dtype = pick(
            rng,
            [
                pa.dictionary(pa.int8(), pa.string()),
                pa.decimal128(20, 3),
                pa.decimal256(50, 3),
                pa.float16(),
                pa.float32(),
                pa.int8(),
                pa.large_string(),
                pa.string_view(),
                pa.null(),
                pa.bool_(),
                pa.date32(),
                pa.timestamp("ns"),
                pa.duration("s"),
                pa.list_(pa.float64()),
                pa.binary(),
                pa.uint64(),
            ],
        )
        table = table.set_column(where, table.column_names[where], table.column(where).cast(dtype))
    forms: list[Callable[[], Any]] = [
        lambda: table,
        lambda: table,
        lambda: table,
        lambda: table.column(0),
        lambda: table.slice(0, 0),
        lambda: table.to_batches()[0],
        lambda: pa.concat_tables([table, table]),
        lambda: table.to_reader(),
        lambda: table.append_column(table.column_names[0], table.column(0)),
        lambda: table.to_struct_array(),
        lambda: table.to_pydict(),
        lambda: table.schema,
    ]
    return pick(rng, forms)()


def as_anything(columns: dict[Any, Column], rng: Rng) -> Any:
    first = next(iter(columns.values()), [])
    forms: list[Callable[[], Any]] = [
        lambda: None,
        lambda: 3,
        lambda: "text.csv",
        lambda: b"bytes",
        lambda: columns,
        lambda: set(),
        lambda: range(6),
        lambda: iter([]),
        lambda: object(),
        lambda: array.array("d", [1.0, 2.0]),
        lambda: memoryview(b"abc"),
        lambda: first,
        lambda: [first, first[:2]],
        lambda: [[first]],
        lambda: [[[[[first]]]]],
        lambda: np.zeros(
            (3, 2, 2), dtype=pick(rng, ["int64", "bool", "uint8", "float64", "complex64"])
        ),
        lambda: np.zeros((3, 2, 2, 2, 2)),
        lambda: np.zeros((2, 5, 5, pick(rng, [1, 2, 3, 4])), dtype=pick(rng, ["uint8", "float32"])),
        lambda: np.float64(3),
        lambda: np.array(None),
        lambda: np.zeros(3, dtype=[("a", "f8"), ("b", "i4")]),
        lambda: np.recarray(3, dtype=[("a", "f8")]),
        lambda: np.full((4, 3, 3), np.nan),
        lambda: __import__("scipy.sparse", fromlist=["sparse"]).csr_matrix(np.eye(3)),
        lambda: int,
        lambda: lambda: 0,
        lambda: np.zeros((0, 0)),
        lambda: (
            np.broadcast_to(1.0, (10**6, 10**6))
            if rng.random() < 0.02
            else np.broadcast_to(1.0, (5, 3))
        ),
        lambda: np.full((4, 3, 3), 1e300),
        lambda: [],
        lambda: [[]],
        lambda: [[], []],
        lambda: {},
        lambda: "",
        lambda: True,
        lambda: slice(3),
        lambda: np.random.default_rng(0),
        lambda: _cycle(),
    ]
    return pick(rng, forms)()


def _cycle() -> list[Any]:
    cycle: list[Any] = [1.0]
    cycle.append(cycle)
    return cycle


CONTAINERS: dict[str, Callable[[dict[Any, Column], Rng], Any]] = {
    "list": as_list,
    "array": as_array,
    "tensor": as_tensor,
    "pandas": as_pandas,
    "polars": as_polars,
    "pyarrow": as_arrow,
    "anything": as_anything,
}


class Door:
    """Pairs of objects for `as_samples`."""

    def case(self, rng: Rng) -> Case:
        """Two samples from one set of columns, one of which may be another thing."""
        while True:
            kind = pick(rng, list(CONTAINERS))
            try:
                one = self._sample(kind, rng)
                same = rng.random() < 0.7
                other = copy.copy(one) if same else self._sample(pick(rng, list(CONTAINERS)), rng)
                repr((one, other))  # polars panics over dates that it has itself made
            except (
                Exception,
                pl.exceptions.PanicException,
            ):  # what another library does not build is no case
                continue
            how = "twice" if same else "and another"
            if rng.random() < 0.3:
                return Case(f"{kind}: {how}, with rules", data=(one, other, _rules(rng)))
            return Case(f"{kind}: {how}", data=(one, other, {}))

    @staticmethod
    def _sample(kind: str, rng: Rng) -> Any:
        named = [
            pick(rng, NAMES) if rng.random() < 0.9 else pick(rng, ODD_NAMES)
            for _ in range(int(rng.integers(1, 4)))
        ]
        return CONTAINERS[kind]({name: pick(rng, COLUMNS)(rng) for name in named}, rng)

    def judge(self, case: Case) -> str:
        """Encode both, compare with what the values are, and test them."""
        X, Y, asked = case.data
        before = repr(X)
        try:
            with only_our_warnings():
                rules = twosample.Columns(**asked)
                samples = as_samples(X, Y, columns=rules)
        except MemoryError:  # which says how much it would take
            return REFUSED
        except twosample.InputError as error:
            check_sentence(str(error), "X", "Y", *(["column", "missing"] if asked else []))
            return REFUSED
        check(repr(X) == before or "object at" in before, "the input was modified")
        for points in (samples.x, samples.y):
            check(
                tuple(points.shape[1:]) == samples.schema.shape,
                f"points of shape {tuple(points.shape)}",
            )
            check(bool(points.isfinite().all()), "values that are not finite")
        if not asked:
            self._compare(X, samples)
        elif asked == {"missing": "drop"}:
            self._count(X, samples)
        try:
            with only_our_warnings():
                result = twosample.two_sample_test(
                    X, Y, "mmd-median", permutations=9, rng=0, columns=rules
                )
        except twosample.TwoSampleError as error:
            check_sentence(str(error))
            return REFUSED
        shuffles = result.pvalue * (len(result.null_distribution) + 1)
        check(
            0 < result.pvalue <= 1 and math.isclose(shuffles, round(shuffles)),
            f"p = {result.pvalue}",
        )
        check(math.isfinite(result.statistic), f"statistic = {result.statistic}")
        return ACCEPTED

    @staticmethod
    def _count(X: Any, samples: Any) -> None:
        """The rows that are left are those in which nothing is missing."""
        values = python_columns(X)
        if samples.schema.kind == "table" and values is not None:
            whole = sum(not any(is_gap(each) for each in row) for row in zip(*values, strict=True))
            check(len(samples.x) == whole, f"{len(samples.x)} rows of {whole} without a gap")

    @staticmethod
    def _compare(X: Any, samples: Any) -> None:
        """The numbers of tables are those that the table gives as Python values, column by
        column.
        """
        if samples.schema.kind != "table":
            return
        values = python_columns(X)
        if values is None:
            return
        if samples.schema.named:  # then they are sorted by name, and text may be left out
            names = X.column_names if isinstance(X, pa.Table) else X.columns
            by_name = {str(name): column for name, column in zip(names, values, strict=True)}
            values = [by_name[column.name] for column in samples.schema.columns]
        check(
            len(values) == len(samples.schema.columns),
            f"{len(samples.schema.columns)} columns of {len(values)}",
        )
        encoded = samples.x.T.tolist()
        start = 0
        for column, held in zip(samples.schema.columns, values, strict=True):
            gaps = [is_gap(each) for each in held]
            check(column.missing or not any(gaps), f"column {column.name}: gaps are not told")
            if column.missing:
                told = [bool(each) for each in encoded[start + len(column.features) - 1]]
                check(told == gaps, f"column {column.name}: gaps at {told}, not {gaps}")
            if column.kind != "category":
                right = all(
                    other == column.fill if gap else is_number(one, other)
                    for one, other, gap in zip(held, encoded[start], gaps, strict=True)
                )
                check(right, f"column {column.name}: {encoded[start]}, not {held}")
            else:
                width = len(column.features)
                places = [
                    width - 1 if gap else column.levels.index(level_of(each))
                    for each, gap in zip(held, gaps, strict=True)
                ]
                marked = [
                    [encoded[start + level][row] for level in range(width)].index(1.0)
                    for row in range(len(held))
                ]
                check(places == marked, f"column {column.name}: levels {marked}, not {places}")
            start += len(column.features)


def _rules(rng: Rng) -> dict[str, Any]:
    """What a user may say of columns, often of ones that are not there."""
    if rng.random() < 0.4:
        return {"missing": pick(rng, ["drop", "drop", "indicator"])}
    names = [*NAMES[:6], "x", *ODD_NAMES]
    made: dict[str, Callable[[], Any]] = {
        "keep": lambda: [pick(rng, names) for _ in range(int(rng.integers(3)))],
        "drop": lambda: pick(rng, [[pick(rng, names)], "a", ()]),
        "kinds": lambda: {
            pick(rng, NAMES[:6]): pick(rng, ["number", "category", "category", "text", None])
        },
        "missing": lambda: pick(rng, ["error", "drop", "indicator", "mean", None]),
    }
    return {name: make() for name, make in made.items() if rng.random() < 0.5}


def is_gap(value: Any) -> bool:
    """Whether a value is missing."""
    return value is None or value is pd.NA or value != value


def is_number(value: Any, encoded: float) -> bool:
    """Whether a value became this number; pyarrow rounds decimals a little wrong."""
    if isinstance(value, datetime.date):
        instant = pd.Timestamp(value)
        instant = instant.tz_localize("UTC") if instant.tzinfo is None else instant
        days = (instant - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
        return math.isclose(days, encoded, abs_tol=1e-9)
    if isinstance(value, datetime.timedelta):
        return math.isclose(value.total_seconds(), encoded, abs_tol=1e-6)
    if isinstance(value, datetime.time):
        return math.isclose(pd.Timedelta(str(value)).total_seconds(), encoded, abs_tol=1e-6)
    return float(value) == encoded or (
        isinstance(value, decimal.Decimal) and math.isclose(float(value), encoded)
    )


def level_of(value: Any) -> str:
    """What a level is called: 1.0 and 1 are one, and true is as in text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def python_columns(data: Any) -> list[Column] | None:
    """The columns of a sample as Python values, by the library that it comes from; None where there
    is no such way.
    """
    if isinstance(data, pd.DataFrame):
        return [data.iloc[:, place].tolist() for place in range(data.shape[1])]
    if isinstance(data, pl.DataFrame):
        return [column.to_list() for column in data.iter_columns()]
    if isinstance(data, pa.Table):
        try:
            return [column.to_pylist() for column in data.itercolumns()]
        except OverflowError:  # durations beyond those of Python
            return None
    if isinstance(data, np.ndarray) and data.ndim == 2:
        return (
            [data[:, place].tolist() for place in range(data.shape[1])]
            if type(data) is np.ndarray
            else None
        )
    if isinstance(data, torch.Tensor) and data.ndim == 2:
        return [data[:, place].tolist() for place in range(data.shape[1])]
    return None
