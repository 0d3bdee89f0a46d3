from __future__ import annotations

import datetime
import decimal
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from twosample import two_sample_test
from twosample._data import moments as moments_module
from twosample._data import profile as profile_module
from twosample._data import samples as samples_module
from twosample._data.columns import Columns
from twosample._data.samples import Samples, Scaling, split
from twosample._data.schema import MAX_LEVELS, Column, Schema
from twosample._data.streams import Stream, held
from twosample._data.survey import as_samples, every_row, survey
from twosample.errors import InputError, InputNote, InputWarning

X = np.array([[1.0, 2.0], [3.0, 5.0], [4.0, -1.0]])
Y = np.array([[0.0, 2.5], [7.0, 5.5]])
REFUSED = Columns(missing="error")


def normal(rows: int, columns: int = 2, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, columns))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def standardised(x: Any, y: Any) -> torch.Tensor:
    encoded = as_samples(x, y)
    return Scaling.of(encoded).apply(encoded, dtype=torch.float64).pooled()


PEOPLE = {
    "height": [1.7, 1.8, 1.6, 1.9],
    "smokes": [True, False, False, True],
    "children": [0, 3, 1, 2],
    "colour": ["red", "blue", "red", "green"],
}
OTHERS = {
    "height": [1.5, 2.0],
    "smokes": [False, False],
    "children": [1, 0],
    "colour": ["blue", "black"],
}
TABLES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
}
tables = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)


class TestArrays:
    @pytest.mark.parametrize(
        "convert",
        [
            np.asarray,
            torch.tensor,
            np.ndarray.tolist,
            lambda a: tuple(map(tuple, a.tolist())),
            lambda a: list(a),
            lambda a: torch.tensor(a, requires_grad=True),
            pd.DataFrame,
            lambda a: a.astype(">f8"),
            np.asfortranarray,
            lambda a: np.repeat(a, 2, axis=0)[::2],
            lambda a: a[::-1].copy()[::-1],
            lambda a: a[:, ::-1].copy()[:, ::-1],
            np.ma.masked_array,
            np.asmatrix,
        ],
    )
    @pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
    def test_every_form_gives_the_same_tensors(self, convert: Callable[[np.ndarray], Any]) -> None:
        for encoded in (
            as_samples(convert(X), convert(Y)),
            as_samples(convert(X), Y),
            as_samples(X, convert(Y)),
        ):
            assert encoded.x.dtype == encoded.y.dtype == torch.float64
            assert encoded.x.is_contiguous()
            assert not encoded.x.requires_grad
            np.testing.assert_array_equal(encoded.x.numpy(), X)
            np.testing.assert_array_equal(encoded.y.numpy(), Y)
            assert encoded.schema == Schema(
                "table", (2,), (Column("0", "numeric"), Column("1", "numeric"))
            )

    @pytest.mark.parametrize(
        "dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "g", ">i4"]
    )
    def test_numbers_become_float64(self, dtype: str) -> None:
        data = np.array([[1, 2], [3, 4]], dtype=dtype)
        assert as_samples(data, data).x.tolist() == [[1.0, 2.0], [3.0, 4.0]]

    @pytest.mark.parametrize(
        "dtype", [torch.bfloat16, torch.float16, torch.float32, torch.int64, torch.uint8]
    )
    def test_torch_dtypes(self, dtype: torch.dtype) -> None:
        data = torch.tensor([[1, 2], [3, 4]]).to(dtype)
        encoded = as_samples(data, data)
        assert encoded.x.dtype == torch.float64
        assert encoded.x.tolist() == [[1.0, 2.0], [3.0, 4.0]]

    def test_large_integers(self) -> None:
        assert as_samples([2**62, 0], [2**63]).y.tolist() == [[2.0**63]]

    @pytest.mark.parametrize(
        "vector",
        [
            [1.0, 2.0],
            np.array([1.0, 2.0]),
            torch.tensor([1.0, 2.0]),
            pd.Series([1.0, 2.0]),
            pl.Series([1.0, 2.0]),
        ],
    )
    def test_a_vector_is_one_column(self, vector: Any) -> None:
        encoded = as_samples(vector, [[3.0]])
        assert encoded.x.tolist() == [[1.0], [2.0]]
        assert encoded.schema.features == ("0",)

    def test_booleans(self) -> None:
        flags = np.array([[True, False], [False, True]])
        schema = as_samples(flags, flags).schema
        assert [column.kind for column in schema.columns] == ["boolean", "boolean"]
        assert schema.standardised == (False, False)

    @pytest.mark.parametrize("swap", [False, True])
    def test_booleans_beside_numbers_are_numbers(self, swap: bool) -> None:
        pair = [np.array([True, False]), np.array([0, 2])]
        encoded = as_samples(*(pair[::-1] if swap else pair))
        assert encoded.schema.columns == (Column("0", "numeric"),)
        assert sorted(encoded.pooled().flatten().tolist()) == [0.0, 0.0, 1.0, 2.0]

    def test_input_is_not_shared_and_not_modified(self) -> None:
        for data in (
            normal(4),
            torch.from_numpy(normal(4)),
            np.zeros((3, 2, 2), dtype=np.uint8),
            np.ones((3, 2, 2)),
        ):
            before = data.copy() if isinstance(data, np.ndarray) else data.clone()
            other = data + 1
            encoded = as_samples(data, other)
            Scaling.of(encoded).apply(encoded)
            split(as_samples(np.tile(X, (2, 1)), np.tile(Y, (2, 1))), 0.5, generator())
            encoded.x.zero_()
            assert (data == before).all()

    def test_read_only_arrays(self) -> None:
        for data in (
            normal(4),
            normal(4).astype("f4"),
            np.arange(16, dtype=np.uint8).reshape(4, 2, 2),
        ):
            data.flags.writeable = False
            encoded = as_samples(data, data)
            encoded.x.add_(1)  # the tensors are ours


class TestArrayComplaints:
    def test_different_widths(self) -> None:
        message = r"^X has 10 columns but Y has 12; both samples must have the same features\.$"
        with pytest.raises(InputError, match=message):
            as_samples(normal(3, 10), normal(3, 12))
        with pytest.raises(InputError, match=r"^X has 1 column but Y has 2;"):
            as_samples([1.0, 2.0], X)

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (np.zeros((0, 3)), r"X is empty: it has 0 rows and 3 columns"),
            (np.zeros((3, 0)), r"X is empty: it has 3 rows and 0 columns"),
            (np.zeros((0, 28, 28), dtype=np.uint8), r"X is empty: it has 0 rows"),
            ([], r"X is empty: it has 0 rows"),
            ([[]], r"X is empty: it has 1 row and 0 columns"),
            (pd.DataFrame(), r"X is empty: it has 0 rows and 0 columns"),
            (pd.DataFrame({"a": []}), r"X is empty: it has 0 rows and 1 column\."),
            (pl.DataFrame({"a": []}), r"X is empty: it has 0 rows and 1 column\."),
            (pd.Series([], dtype=float), r"X is empty: it has 0 rows"),
            (3.0, r"X is a single float, not rows; pass a 2-D array or a table"),
            (np.array(3.0), r"X is a single ndarray, not rows"),
            (torch.tensor(3.0), r"X is a single Tensor, not rows"),
            (None, r"X is a single NoneType, not rows"),
            ("data.csv", r"X is a single str, not rows"),
            ({"a": [1, 2]}, r"X is a single dict, not rows"),
            ((i for i in range(3)), r"X is a single generator, not rows"),
        ],
    )
    def test_nothing_to_test(self, data: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            as_samples(data, X)

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (
                np.array([[1, "a"]], dtype=object),
                r"X is an object array \(dtype=object\); convert it to numbers, or pass a",
            ),
            (np.array([["a", "b"]]), r"X is an array of strings \(dtype=<U1\); pass a table"),
            (["a", "b"], r"X is an array of strings"),
            (np.array([[b"a"]]), r"X is an array of strings \(dtype=\|S1\)"),
            (
                np.array([["2020-01-01"]], dtype="M8[D]"),
                r"X holds dates or durations .*days since a fixed date",
            ),
            (np.array([[3]], dtype="m8[s]"), r"X holds dates or durations"),
            (
                np.array([[1j, 2]]),
                r"X is complex \(dtype=complex128\); pass the real and the imaginary parts",
            ),
            (torch.tensor([[1j]]), r"X is complex"),
            (
                np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f4")]),
                r"X does not hold numbers .*pass a table",
            ),
            (
                [[1.0, 2.0], [3.0]],
                r"X is no array of numbers \(.*inhomogeneous.*\); pass rows of the same length",
            ),
            (scipy.sparse.csr_array(np.eye(2)), r"X is a sparse matrix; pass X\.toarray\(\)"),
            (
                torch.eye(2).to_sparse(),
                r"X is a sparse or nested tensor \(torch\.sparse_coo\); pass a dense one",
            ),
            (pl.LazyFrame({"a": [1]}), r"X is a lazy table; collect it"),
            (pa.record_batch({"a": [1, 2]}), r"X is a RecordBatch; convert it"),
        ],
    )
    def test_not_numbers(self, data: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            as_samples(data, X)

    @pytest.mark.parametrize("convert", [np.asarray, torch.tensor, np.ndarray.tolist, pd.DataFrame])
    def test_missing_and_infinite_values(self, convert: Callable[[np.ndarray], Any]) -> None:
        data = normal(30, 4)
        data[17, 2] = data[17, 3] = data[20, 0] = np.nan
        message = r"^Y contains 3 missing values \(first at row 17, column 2\); drop or impute them before testing, or"
        with pytest.raises(InputError, match=message):
            as_samples(normal(3, 4), convert(data), columns=REFUSED)
        noted = r"column 0: 0 of 3 in X, 1 of 30 in Y; column 2: .*Columns\(missing='drop'\) leaves"
        with pytest.warns(InputNote, match=noted):
            samples = as_samples(normal(3, 4), convert(data))
        assert samples.schema.features == (
            *("0", "0 is missing", "1", "2", "2 is missing", "3", "3 is missing"),
        )
        assert samples.y[17].tolist()[4:] == [1.0, samples.schema.columns[3].fill, 1.0]
        data[3, 1] = -np.inf
        with pytest.raises(
            InputError, match=r"^X contains 1 non-finite value \(first at row 3, column 1\)"
        ):
            as_samples(convert(data), normal(3, 4))
        with pytest.raises(InputError, match=r"^X contains 4 non-finite values \(first at row 3"):
            as_samples(convert(data), normal(3, 4), columns=REFUSED)

    def test_none_in_a_list(self) -> None:
        with pytest.raises(
            InputError, match=r"Y contains 1 missing value \(first at row 1, column 0\)"
        ):
            as_samples(X, [[1.0, 2.0], [None, 3.0]], columns=REFUSED)
        with pytest.raises(
            InputError, match=r"Y contains 1 missing value \(first at row 2, column 0\)"
        ):
            as_samples([1.0], [1.0, 2.0, None], columns=REFUSED)
        with pytest.warns(InputNote, match="column 0: 0 of 2 in X, 1 of 3 in Y"):
            assert as_samples([1.0, 3.0], [1.0, 3.0, None]).y[:, 1].tolist() == [0, 0, 1]

    @pytest.mark.parametrize("dtype", [np.float64, np.int64])
    def test_masked_values_are_missing(self, dtype: type) -> None:
        data = np.ma.masked_array(
            np.arange(6, dtype=dtype).reshape(3, 2), mask=[[0, 0], [0, 1], [0, 0]]
        )
        with pytest.raises(
            InputError, match=r"X contains 1 missing value \(first at row 1, column 1\)"
        ):
            as_samples(data, Y, columns=REFUSED)

    @pytest.mark.skipif(
        np.finfo(np.longdouble).max == np.finfo(np.float64).max,
        reason="long double is a double here",
    )
    def test_beyond_float64(self) -> None:
        with pytest.raises(
            InputError, match=r"X contains 1 non-finite value \(first at row 0, column 0\)"
        ):
            as_samples([np.longdouble("1e400")], [1.0])

    def test_input_error_is_a_value_error(self) -> None:
        with pytest.raises(ValueError, match="empty"):
            as_samples([], [])


class TestTables:
    @pytest.mark.parametrize("first", TABLES)
    @pytest.mark.parametrize("second", TABLES)
    def test_every_library_gives_the_same_tensors(self, first: str, second: str) -> None:
        encoded = as_samples(TABLES[first](PEOPLE), TABLES[second](OTHERS))
        # children, colour = black, blue, green, red, other, height, smokes
        assert encoded.x.tolist() == [
            [0, 0, 0, 0, 1, 0, 1.7, 1],
            [3, 0, 1, 0, 0, 0, 1.8, 0],
            [1, 0, 0, 0, 1, 0, 1.6, 0],
            [2, 0, 0, 1, 0, 0, 1.9, 1],
        ]
        assert encoded.y.tolist() == [[1, 0, 1, 0, 0, 0, 1.5, 0], [0, 1, 0, 0, 0, 0, 2.0, 0]]
        assert encoded.x.dtype == torch.float64
        assert encoded.schema == Schema(
            kind="table",
            shape=(8,),
            columns=(
                Column("children", "numeric"),
                Column("colour", "category", ("black", "blue", "green", "red")),
                Column("height", "numeric"),
                Column("smokes", "boolean"),
            ),
            named=True,
        )

    def test_features(self) -> None:
        schema = as_samples(pd.DataFrame(PEOPLE), pd.DataFrame(OTHERS)).schema
        colours = tuple(f"colour={level}" for level in ("black", "blue", "green", "red", "other"))
        assert schema.features == ("children", *colours, "height", "smokes")
        assert schema.standardised == (True, False, False, False, False, False, True, False)

    def test_a_level_called_other_keeps_its_name(self) -> None:
        schema = as_samples(pd.DataFrame({"a": ["other"]}), pd.DataFrame({"a": ["some"]})).schema
        assert schema.features == ("a=other", "a=some", "a=(any other)")

    @tables
    def test_columns_match_by_name_and_are_sorted_by_it(
        self, table: Callable[[dict[str, Any]], Any]
    ) -> None:
        backwards = table(dict(reversed(list(OTHERS.items()))))
        encoded = as_samples(table(PEOPLE), backwards)
        assert [column.name for column in encoded.schema.columns] == sorted(PEOPLE)
        assert torch.equal(encoded.y, as_samples(table(PEOPLE), table(OTHERS)).y)
        assert as_samples(backwards, table(PEOPLE)).schema == encoded.schema

    def test_numbers_in_names_are_sorted_by_their_size(self) -> None:
        names = ["x10", "x9", "x", "x09", "10", "9", "x9y2", "x9y10"]
        frame = pd.DataFrame(normal(3, len(names)), columns=names)
        schema = as_samples(frame, frame + 1).schema
        assert schema.features == ("9", "10", "x", "x09", "x9", "x9y2", "x9y10", "x10")

    @tables
    def test_different_columns(self, table: Callable[[dict[str, Any]], Any]) -> None:
        message = r"^X and Y have different columns; missing in Y: 'b', 'd'; missing in X: 'c'\.$"
        with pytest.raises(InputError, match=message):
            as_samples(table({"a": [1], "b": [1], "d": [2]}), table({"a": [1], "c": [1]}))
        with pytest.raises(
            InputError, match=r"^X and Y have different columns; missing in X: 'c'\.$"
        ):
            as_samples(table({"a": [1]}), table({"a": [1], "c": [1]}))
        many = {f"c{number:02}": [1] for number in range(9)}
        with pytest.raises(
            InputError, match=r"missing in Y: 'c00', 'c01', 'c02', 'c03', 'c04', \.\.\. 9 in all;"
        ):
            as_samples(table(many), table({"a": [1]}))

    def test_a_named_table_and_an_array_do_not_match(self) -> None:
        message = "X has named columns but Y has none; pass both as tables or both as arrays"
        with pytest.raises(InputError, match=message):
            as_samples(pd.DataFrame({"a": [1], "b": [2]}), [[1, 2]])
        with pytest.raises(InputError, match="Y has named columns but X has none"):
            as_samples([[1, 2]], pl.DataFrame({"a": [1], "b": [2]}))

    def test_counted_columns_are_unnamed_and_still_match_by_name(self) -> None:
        frame = pd.DataFrame(Y)
        assert not as_samples(frame, X).schema.named
        assert torch.equal(as_samples(X, frame[[1, 0]]).y, as_samples(X, Y).y)

    @pytest.mark.parametrize(
        ("vector", "other"),
        [
            (pd.Series([1.0, 2.0], name="a"), pd.Series([3.0], name="b")),
            (pl.Series("a", [1.0, 2.0]), [3.0]),
            (pd.Series([1.0, 2.0], name="a"), pd.DataFrame({"b": [3.0]})),
            (pd.DataFrame({"a": [1.0, 2.0]}), np.array([3.0])),
            (pa.chunked_array([[1.0, 2.0]]), pa.array([3.0])),
        ],
    )
    def test_vectors_match_whatever_they_are_called(self, vector: Any, other: Any) -> None:
        for pair in ((vector, other), (other, vector)):
            assert sorted(as_samples(*pair).pooled().flatten().tolist()) == [1.0, 2.0, 3.0]

    def test_the_name_of_a_series_is_kept(self) -> None:
        encoded = as_samples(pd.Series(["u", "v"], name="side"), pd.Series(["u"], name="side"))
        assert encoded.schema.features == ("side=u", "side=v", "side=other")
        gap = pd.Series([np.nan], name="side")
        with pytest.raises(
            InputError, match=r"Y contains 1 missing value \(first at row 0, column side\)"
        ):
            as_samples(pd.Series([1.0], name="side"), gap, columns=REFUSED)

    @pytest.mark.parametrize(
        "frame",
        [
            pd.DataFrame({"a": pd.array([1, 2], dtype="Int64")}),
            pd.DataFrame({"a": pd.array([1.0, 2.0], dtype="Float32")}),
            pd.DataFrame({"a": pd.array([1, 2], dtype="int64[pyarrow]")}),
            pd.DataFrame({"a": [decimal.Decimal(1), decimal.Decimal("2.0")]}),
            pd.DataFrame({"a": np.array([1, 2], dtype="f2")}),
            pl.DataFrame({"a": [decimal.Decimal("1.0"), decimal.Decimal("2.0")]}),
            pl.DataFrame({"a": pl.Series([1, 2], dtype=pl.UInt8)}),
            pa.table({"a": pa.array([decimal.Decimal("1.0"), decimal.Decimal("2.0")])}),
            pa.table({"a": pa.chunked_array([[1], [2]])}),
            pa.table({"a": pa.array(np.array([1, 2], dtype="f2"))}),
        ],
    )
    def test_numeric_columns(self, frame: Any) -> None:
        encoded = as_samples(frame, frame)
        assert encoded.x.tolist() == [[1.0], [2.0]]
        assert encoded.schema.columns == (Column("a", "numeric"),)

    @pytest.mark.parametrize(
        "frame",
        [
            pd.DataFrame({"a": pd.array([True, False], dtype="boolean")}),
            pd.DataFrame({"a": pd.array([True, False], dtype="bool[pyarrow]")}),
            pl.DataFrame({"a": [True, False]}),
            pa.table({"a": [True, False]}),
        ],
    )
    def test_boolean_columns(self, frame: Any) -> None:
        encoded = as_samples(frame, frame)
        assert encoded.x.tolist() == [[1.0], [0.0]]
        assert encoded.schema.columns == (Column("a", "boolean"),)

    @pytest.mark.parametrize(
        "frame",
        [
            pd.DataFrame({"a": pd.Series(["u", "v"], dtype=object)}),
            pd.DataFrame({"a": pd.Series(["u", "v"], dtype="string")}),
            pd.DataFrame({"a": pd.Series(["u", "v"], dtype="category")}),
            pd.DataFrame({"a": pd.Categorical(["u", "v"], categories=["w", "v", "u"])}),
            pl.DataFrame({"a": pl.Series(["u", "v"], dtype=pl.Categorical)}),
            pl.DataFrame({"a": pl.Series(["u", "v"], dtype=pl.Enum(["w", "v", "u"]))}),
            pa.table({"a": pa.array(["u", "v"]).dictionary_encode()}),
            pa.table({"a": pa.array(["u", "v"], pa.large_string())}),
        ],
    )
    def test_category_columns(self, frame: Any) -> None:
        encoded = as_samples(frame, pl.DataFrame({"a": ["v"]}))
        assert encoded.x.tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
        assert encoded.schema.columns == (Column("a", "category", ("u", "v")),)

    def test_levels_that_are_numbers(self) -> None:
        whole, real = (
            pd.DataFrame({"a": pd.Categorical([1, 2])}),
            pd.DataFrame({"a": pd.Categorical([1.0, 2.5])}),
        )
        assert as_samples(whole, real).schema.columns[0].levels == ("1", "2", "2.5")

    def test_different_levels_are_as_far_apart_as_standardised_numbers(self) -> None:
        x = as_samples(pd.DataFrame({"a": ["u", "v"]}), pd.DataFrame({"a": ["v"]})).x
        assert torch.pdist(x).item() ** 2 == pytest.approx(2)
        z = standardised(normal(50, 1), normal(70, 1)).flatten()
        assert (z[:, None] - z).square().mean().item() == pytest.approx(2)

    def test_many_columns_in_another_order(self) -> None:
        x = pd.DataFrame(normal(5, 40), columns=[f"c{number}" for number in range(40)])
        assert torch.equal(as_samples(x, x[x.columns[::-1]]).y, as_samples(x, x).x)


class TestTableComplaints:
    @tables
    @pytest.mark.parametrize(
        "values", [[1.5, None, 2.0, None], ["u", None, "v", None], [True, None, False, None]]
    )
    def test_missing_values(
        self, table: Callable[[dict[str, Any]], Any], values: list[Any]
    ) -> None:
        message = r"^Y contains 2 missing values \(first at row 1, column 'b'\); drop or impute .* use Columns\(missing"
        good = [values[0]] * 3
        x, y = table({"a": [1, 2, 3], "b": good}), table({"a": [1, 2, 3, 4], "b": values})
        with pytest.raises(InputError, match=message):
            as_samples(x, y, columns=REFUSED)
        with pytest.warns(InputNote, match="column 'b': 0 of 3 in X, 2 of 4 in Y"):
            samples = as_samples(x, y)
        assert samples.schema.features[-1] == "b is missing"
        assert samples.y[:, -1].tolist() == [0.0, 1.0, 0.0, 1.0]

    @pytest.mark.parametrize(
        "frame",
        [
            pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}),
            pd.DataFrame({"a": pd.Categorical(["u", None])}),
            pd.DataFrame({"a": pd.to_datetime(["2020-01-01", None])}),
            pd.DataFrame({"a": [1.0, np.nan]}),
            pl.DataFrame({"a": [1.0, float("nan")]}),
            pl.DataFrame({"a": pl.Series(["u", None], dtype=pl.Categorical)}),
            pl.DataFrame({"a": [decimal.Decimal(1), None]}),
            pa.table({"a": [1.0, float("nan")]}),
            pa.table({"a": pa.array(["u", None]).dictionary_encode()}),
        ],
    )
    def test_missing_values_of_every_type(self, frame: Any) -> None:
        with pytest.raises(
            InputError, match=r"X contains 1 missing value \(first at row 1, column 'a'\)"
        ):
            as_samples(frame, frame, columns=REFUSED)

    def test_nothing_but_missing_values(self) -> None:
        with pytest.raises(
            InputError, match=r"X contains 2 missing values \(first at row 0, column 'a'\)"
        ):
            as_samples(
                pl.DataFrame({"a": [None, None]}), pl.DataFrame({"a": [1, 2]}), columns=REFUSED
            )

    def test_missing_values_are_counted_over_columns(self) -> None:
        frame = pl.DataFrame(
            {"a": [1, 2, None], "b": ["u", None, None], "c": [1.0, 2.0, float("inf")]}
        )
        with pytest.raises(
            InputError, match=r"X contains 4 non-finite values \(first at row 1, column 'b'\)"
        ):
            as_samples(frame, frame, columns=REFUSED)

    @tables
    def test_infinite_values(self, table: Callable[[dict[str, Any]], Any]) -> None:
        bad = table({"a": [1.0, float("inf")]})
        with pytest.raises(
            InputError, match=r"Y contains 1 non-finite value \(first at row 1, column 'a'\)"
        ):
            as_samples(table({"a": [1.0]}), bad)

    @tables
    def test_text(self, table: Callable[[dict[str, Any]], Any]) -> None:
        words = [f"word {number}" for number in range(MAX_LEVELS + 1)]
        x, y = (
            table({"note": words[:30], "a": [1] * 30}),
            table({"note": words[20:], "a": [2] * 31}),
        )
        message = (
            r"1 column is left out, since free .*'note' \(51 different values in 61 cells, such"
        )
        with pytest.warns(InputWarning, match=message):
            schema = as_samples(x, y).schema
        assert schema.features == ("a",) and schema.rules.drop == ("note",)
        assert as_samples(y, x, schema=schema).x.tolist() == [[2.0]] * 31  # and so it is later
        with pytest.raises(InputError, match="no column is left to test, since free text and"):
            as_samples(x, y, columns=Columns(drop=["a"]))
        with pytest.raises(InputError, match=r"column 'note' has 51 .* it would tell nothing"):
            as_samples(x, y, columns=Columns(keep=["note"]))
        asked = as_samples(x, y, columns=Columns(keep=["note"], kinds={"note": "category"}))
        assert asked.schema.shape == (52,)
        # Several rows of each are a category.
        x = table({"note": words[:30] * 2})
        y = table({"note": words[20:50] * 2})
        assert as_samples(x, y).schema.shape == (51,)

    @tables
    def test_rare_levels_are_one(self, table: Callable[[dict[str, Any]], Any]) -> None:
        words = [f"word {number:02}" for number in range(60)]
        x, y = table({"note": words * 3}), table({"note": words[5:] * 2})
        message = r"50 most frequent .* column 'note' \(10 of 60 levels, in 14 % of it\).*category"
        with pytest.warns(InputNote, match=message):
            samples = as_samples(x, y)
        (column,) = samples.schema.columns
        assert column.levels == tuple(words[5:55]) and column.pooled == 10
        rare = [at for at in range(180) if at % 60 not in range(5, 55)]
        assert samples.x[:, -1].nonzero()[:, 0].tolist() == rare
        # Later data have such levels too: no reason to warn.
        assert as_samples(x, y, schema=samples.schema).x.equal(samples.x)
        every = as_samples(x, y, columns=Columns(kinds={"note": "category"})).schema
        assert every.columns[0].levels == tuple(words)

    def test_which_levels_are_rare_does_not_depend_on_labels(self) -> None:
        words = [f"word {number:02}" for number in range(60)]
        x, y = pl.DataFrame({"note": words[:40] * 3}), pl.DataFrame({"note": words[20:] * 3})
        with pytest.warns(InputNote):
            assert as_samples(x, y).schema == as_samples(y, x).schema

    @pytest.mark.filterwarnings("ignore:X and Y hold the same rows")
    def test_more_levels_than_can_be_counted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in ("schema", "profile"):
            monkeypatch.setattr(f"twosample._data.{module}.MOST_LEVELS", 20)
        values = np.random.default_rng(0).normal(size=210)
        frame = pl.DataFrame({"note": [f"word {at % 21}" for at in range(210)], "a": values})
        with pytest.warns(InputWarning, match="'note' .more than 20 different values"):
            whole = as_samples(frame, frame).schema
        parts = Stream.batches([frame[:100], frame[100:]])
        with pytest.warns(InputWarning, match="'note' .more than 20 different values"):
            result = two_sample_test(parts, parts, "mmd-median", permutations=19, rng=0)
        assert result.fitted.schema == whole and whole.features == ("a",)
        with pytest.raises(InputError, match="X and Y have more than 20 different values"):
            as_samples(frame, frame, columns=Columns(kinds={"note": "category"}))

    def test_categorical_with_many_levels(self) -> None:
        frame = pd.DataFrame({"code": pd.Categorical(range(60))})
        with pytest.warns(InputNote, match=r"column 'code' \(10 of 60 levels, in 17 % of it\)"):
            assert len(as_samples(frame, frame).schema.columns[0].levels) == MAX_LEVELS

    @pytest.mark.parametrize(
        ("frame", "values"),
        [
            (pd.DataFrame({"when": pd.to_datetime(["1970-01-03 12:00"])}), 2.5),
            (pl.DataFrame({"when": [datetime.date(1970, 1, 3)]}), 2.0),
            (pl.DataFrame({"when": [datetime.timedelta(1)]}), 86400.0),
            (pl.DataFrame({"when": [datetime.time(1)]}), 3600.0),
            (pa.table({"when": [datetime.datetime(1970, 1, 3)]}), 2.0),
        ],
    )
    def test_dates_are_numbers_and_that_is_said(self, frame: Any, values: float) -> None:
        message = r"Dates are tested as days .*: column 'when'\. .*Columns\(drop=\['when'\]\)"
        with pytest.warns(InputWarning) as caught:
            samples = as_samples(frame, frame)
        assert re.match(message, str(caught[0].message)) and caught[0].category is InputNote
        assert samples.x.tolist() == [[values]]
        other = pl.DataFrame({"when": [1.5]})
        with pytest.raises(
            InputError, match=r"X has numbers in column 'when' but Y has (dates|times)"
        ):
            as_samples(other, frame)
        with pytest.raises(
            InputError, match=r"X has numbers in .* the fitted test takes (dates|ti)"
        ):
            as_samples(other, frame, schema=samples.schema)

    def test_dates_as_text(self) -> None:
        days = [f"2024-01-{day:02}" for day in range(1, 21)]
        as_text = {"day": days * 3, "size": [*range(60)]}
        for frame in (pl.DataFrame(as_text), pd.DataFrame(as_text), pa.table(as_text)):
            with pytest.warns(InputNote, match="Dates are tested as days .*: column 'day'"):
                samples = as_samples(frame, frame)
            place = samples.schema.features.index("day")
            assert samples.x[:20, place].tolist() == list(range(19723, 19743))
        few = pl.DataFrame({"day": days[:9] * 3})
        assert as_samples(few, few).schema.columns[0].kind == "category"
        odd = pl.DataFrame({"day": [*days, "soon"]})
        with pytest.raises(InputError, match="holds dates, but not in all cells: X has 'soon'"):
            as_samples(odd, odd)

    def test_an_index_is_left_out_and_that_is_said(self) -> None:
        frame = pd.DataFrame({"Unnamed: 0": range(5), "a": [1.0, 2.0, 3.0, 4.0, 5.0]})
        with pytest.warns(InputNote, match="Column 'Unnamed: 0' of X and Y only names the rows"):
            assert as_samples(frame, frame).schema.features == ("a",)
        assert as_samples(frame, frame, columns=Columns(drop=["Unnamed: 0"])).x.shape == (5, 1)
        kinds = Columns(kinds={"Unnamed: 0": "number"})
        assert as_samples(frame, frame, columns=kinds).x.shape == (5, 2)
        alone = frame[["Unnamed: 0"]]
        assert as_samples(alone, alone).x.shape == (5, 1)

    def test_all_that_is_in_the_way_is_said_at_once(self) -> None:
        x = pl.DataFrame(
            {"a": [[1], [2]], "b": [b"u", b"v"], "c": [1.0, 2.0], "d": [1, 2], "e": [np.inf, 1.0]}
        )
        y = pl.DataFrame({"a": [1, 2], "b": [1, 2], "c": ["u", "v"], "f": [1, 2], "e": [1, 2]})
        with pytest.raises(InputError) as caught:
            as_samples(x, y, columns=Columns(drop=["nosuch"]))
        parts = [
            "X has values of type List(Int64) in column 'a'",
            "X has values of type Binary in column 'b'",
            "X contains 1 non-finite value",
            "there is no column 'nosuch'",
            "missing in Y: 'd'; missing in X: 'f'",
            "X has numbers in column 'c' but Y has strings",
        ]
        assert len(caught.value.problems) == len(parts)
        for problem, part in zip(caught.value.problems, parts, strict=True):
            assert part in problem
        assert str(caught.value).startswith("6 things stand in the way: (1) X has values")

    @pytest.mark.parametrize(
        ("frame", "message"),
        [
            (
                pl.DataFrame({"when": [[1, 2]]}),
                r"List\(Int64\) in column 'when'.*spread it over columns",
            ),
            (
                pl.DataFrame({"when": [{"a": 1}]}),
                r"Struct.* in column 'when'.*spread it over columns",
            ),
            (
                pa.table({"when": [b"raw"]}),
                r"Binary in column 'when'.*turn it into numbers or strings",
            ),
            (pd.DataFrame({"when": [1j]}), r"in column 'when'.*turn it into numbers or strings"),
            (
                pd.DataFrame({"when": ["u", 1]}),
                r"Object in column 'when'.*all its values into numbers, or all into str",
            ),
            (
                pd.DataFrame({"when": pd.Series(["u"] * 200 + [1], dtype=object)}),
                "in column 'when'.*all into strings",
            ),
            (pd.Series([object()], name="when"), r"in column when, which cannot be tested"),
        ],
    )
    def test_types_that_cannot_be_tested(self, frame: Any, message: str) -> None:
        with pytest.raises(InputError, match=f"X has values of type .*{message}"):
            as_samples(frame, frame)

    @tables
    def test_kinds_that_conflict(self, table: Callable[[dict[str, Any]], Any]) -> None:
        with pytest.raises(
            InputError,
            match="X has numbers in column 'a' but Y has strings or categories; convert both",
        ):
            as_samples(table({"a": [1, 2]}), table({"a": ["1", "2"]}))
        with pytest.raises(
            InputError, match="X has strings or categories in column 'a' but Y has true and false"
        ):
            as_samples(table({"a": ["1", "2"]}), table({"a": [True, False]}))

    @pytest.mark.parametrize(
        "frame",
        [
            pd.DataFrame(np.zeros((2, 2)), columns=["a", "a"]),
            pd.DataFrame(np.zeros((2, 2)), columns=[1, "1"]),
            pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]),
        ],
    )
    def test_columns_of_the_same_name(self, frame: Any) -> None:
        with pytest.raises(InputError, match=r"X has several columns of the .*name.*; rename them"):
            as_samples(frame, frame)


class TestConstantColumns:
    def test_named(self) -> None:
        x = pd.DataFrame({"a": [1.0, 1.0], "b": [1.0, 2.0], "c": ["u", "u"], "d": [True, True]})
        message = r"^3 columns are constant over X and Y together \('a', 'c', 'd'\); constant columns carry no information"
        with pytest.warns(InputWarning, match=message):
            as_samples(x, x)

    def test_unnamed_and_many(self) -> None:
        with pytest.warns(
            InputWarning, match=r"^1 column is constant over X and Y together \(1\);"
        ):
            as_samples([[1, 2], [2, 2]], [[3, 2]])
        with pytest.warns(
            InputWarning, match=r"^9 columns are constant .*\(0, 1, 2, 3, 4, \.\.\. 9 in all\)"
        ):
            as_samples(np.ones((2, 9)), np.ones((2, 9)))

    def test_exact(self) -> None:
        as_samples([1.0, 1.0], [1.0, np.nextafter(1.0, 2.0)])
        as_samples([1.0, 1.0], [2.0, 2.0])
        as_samples(pd.DataFrame({"a": ["u"]}), pd.DataFrame({"a": ["v"]}))

    def test_the_warning_points_at_the_caller(self) -> None:
        with pytest.warns(InputWarning) as caught:
            as_samples([1.0], [1.0])
        assert caught[0].filename == __file__

    def test_images(self) -> None:
        blank = np.full((3, 2, 2), 7, dtype=np.uint8)
        with pytest.warns(
            InputWarning,
            match="Every pixel of X and Y has the value 7; such images carry no information",
        ):
            as_samples(blank, blank)
        spotted = blank.copy()
        spotted[0, 0, 0] = 8  # all other pixels are constant, which is usual
        as_samples(blank, spotted)


class TestSchemaReuse:
    @pytest.fixture
    def schema(self) -> Schema:
        return as_samples(pd.DataFrame(PEOPLE), pd.DataFrame(OTHERS)).schema

    @tables
    def test_unseen_levels_go_to_other(
        self, schema: Schema, table: Callable[[dict[str, Any]], Any]
    ) -> None:
        new = table({**PEOPLE, "colour": ["red", "teal", "pink", "teal"]})
        message = r"^Y has 2 levels in column 'colour' that the test was not fitted on, taken as 'other': 'pink', 'teal'\.$"
        with pytest.warns(InputWarning, match=message) as caught:
            encoded = as_samples(pd.DataFrame(PEOPLE), new, schema=schema)
        assert caught[0].filename == __file__
        assert encoded.schema == schema
        assert encoded.y[:, 1:6].tolist() == [
            [0, 0, 0, 1, 0],
            [0, 0, 0, 0, 1],
            [0, 0, 0, 0, 1],
            [0, 0, 0, 0, 1],
        ]
        assert encoded.x[:, 5].tolist() == [0, 0, 0, 0]

    @tables
    def test_encode_one_sample(
        self, schema: Schema, table: Callable[[dict[str, Any]], Any]
    ) -> None:
        expected = as_samples(pd.DataFrame(PEOPLE), pd.DataFrame(OTHERS)).y
        assert torch.equal(schema.encode(table(OTHERS), "Y"), expected)
        assert torch.equal(schema.encode(table(dict(reversed(OTHERS.items()))), "Y"), expected)

    def test_other_columns(self, schema: Schema) -> None:
        frame = pd.DataFrame(PEOPLE)
        message = r"^The fitted test and X have different columns; missing in X: 'smokes'; missing in the fitted test: 'age'"
        with pytest.raises(InputError, match=message):
            schema.encode(frame.drop(columns="smokes").assign(age=1), "X")
        with pytest.raises(InputError, match="The fitted test has named columns but X has none"):
            schema.encode(normal(3, 4), "X")
        unnamed = as_samples(X, Y).schema
        with pytest.raises(
            InputError,
            match=r"^The fitted test has 2 columns but Y has 3; both must have the same feat",
        ):
            as_samples(X, normal(3, 3), schema=unnamed)

    def test_other_kinds(self, schema: Schema) -> None:
        frame = pd.DataFrame(PEOPLE)
        with pytest.raises(
            InputError,
            match="X has numbers in column 'colour', but the fitted test takes strings or cat",
        ):
            schema.encode(frame.assign(colour=1), "X")
        with pytest.raises(
            InputError,
            match="X has strings or categories in column 'height', but the fitted test takes n",
        ):
            schema.encode(frame.assign(height="tall"), "X")
        with pytest.raises(
            InputError,
            match="Y has other numbers than 0 and 1 in column 'smokes'; the fitted test takes t",
        ):
            schema.encode(frame.assign(smokes=2), "Y")
        assert torch.equal(
            schema.encode(frame.assign(smokes=[1.0, 0.0, 0.0, 1.0]), "Y"), schema.encode(frame, "Y")
        )
        assert schema.encode(frame.assign(children=True), "X")[:, 0].tolist() == [1, 1, 1, 1]

    def test_gaps_are_refused(self, schema: Schema) -> None:
        frame = pd.DataFrame(PEOPLE).assign(height=np.nan)
        with pytest.raises(
            InputError, match="Y has 4 missing values in column 'height', but none were missing"
        ):
            schema.encode(frame, "Y")

    def test_images_and_tables(self, schema: Schema) -> None:
        images = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
        of_images = as_samples(images, images).schema
        assert of_images.encode(images, "X").shape == (2, 1, 3, 4)
        with pytest.raises(InputError, match="The fitted test takes tables but X holds images"):
            schema.encode(images, "X")
        with pytest.raises(
            InputError, match="The fitted test takes images but X holds a table; images are"
        ):
            of_images.encode(X, "X")
        with pytest.raises(
            InputError,
            match=r"^The fitted test takes images of 1 x 3 x 4 .* but Y holds images of 1 x 4 x 3",
        ):
            of_images.encode(images.transpose(0, 2, 1), "Y")
        with pytest.raises(
            InputError,
            match=r"^The fitted test takes uint8 pixels in 0\.\.255 but X holds floats; convert",
        ):
            of_images.encode(images / 255, "X")


class TestImages:
    @pytest.mark.parametrize(
        ("shape", "dtype", "expected"),
        [
            ((5, 6, 7), "uint8", (1, 6, 7)),
            ((5, 6, 7, 1), "uint8", (1, 6, 7)),
            ((5, 6, 7, 3), "uint8", (3, 6, 7)),
            ((5, 6, 7, 4), "uint8", (4, 6, 7)),
            ((5, 3, 6, 7), "uint8", (3, 6, 7)),
            ((5, 3, 6, 3), "uint8", (3, 3, 6)),
            ((5, 6, 7), "f4", (1, 6, 7)),
            ((5, 3, 6, 7), "f4", (3, 6, 7)),
            ((5, 3, 6, 7), "f8", (3, 6, 7)),
            ((5, 3, 6, 7), ">f4", (3, 6, 7)),
            ((5, 3, 6, 3), "f2", (3, 6, 3)),
            ((5, 6, 7, 3), "f4", (3, 6, 7)),
        ],
    )
    @pytest.mark.parametrize(
        "convert", [np.asarray, lambda a: torch.from_numpy(a.astype(a.dtype.newbyteorder("=")))]
    )
    def test_layouts(
        self,
        shape: tuple[int, ...],
        dtype: str,
        expected: tuple[int, ...],
        convert: Callable[[np.ndarray], Any],
    ) -> None:
        data = np.random.default_rng(0).integers(0, 256, size=shape).astype(dtype)
        encoded = as_samples(convert(data), data)
        pixels = "uint8" if dtype == "uint8" else "float32"
        assert encoded.schema == Schema("image", expected, pixels=pixels)  # type: ignore[arg-type]
        assert encoded.schema.features == encoded.schema.standardised == ()
        assert encoded.x.shape == (5, *expected)
        assert encoded.x.dtype == getattr(torch, pixels)
        assert encoded.x.is_contiguous()
        last = len(shape) == 4 and expected[0] == shape[3] and expected != shape[1:]
        np.testing.assert_array_equal(
            encoded.x.numpy(), (np.moveaxis(data, 3, 1) if last else data).reshape(5, *expected)
        )

    @pytest.mark.parametrize(
        ("shape", "dtype"),
        [((5, 6, 7), "i8"), ((5, 6, 7), "?"), ((5, 6, 7, 2), "f4"), ((5, 2, 3, 4, 5), "f4")],
    )
    def test_other_layouts(self, shape: tuple[int, ...], dtype: str) -> None:
        with pytest.raises(
            InputError,
            match=r"X has shape \(5, .* and dtype .*; a table is 2-D, and images are \(N, height",
        ):
            as_samples(np.zeros(shape, dtype=dtype), X)

    def test_samples_that_differ(self) -> None:
        digits, photos = (
            np.zeros((2, 28, 28), dtype=np.uint8),
            np.zeros((2, 32, 32, 3), dtype=np.uint8),
        )
        with pytest.raises(
            InputError,
            match=r"^X holds images of 1 x 28 x 28 \(.*\) but Y holds images of 3 x 32 x 32;",
        ):
            as_samples(digits, photos)
        with pytest.raises(
            InputError,
            match=r"^X holds uint8 pixels in 0\.\.255 but Y holds floats; convert both the same",
        ):
            as_samples(digits, digits / 255)
        with pytest.raises(
            InputError, match=r"^X holds floats but Y holds uint8 pixels in 0\.\.255;"
        ):
            as_samples(digits / 255, digits)
        with pytest.raises(
            InputError, match=r"^Y holds images but X is a table; pass two samples of the same form"
        ):
            as_samples(digits.reshape(2, -1), digits)
        with pytest.raises(InputError, match=r"^X holds images but Y is a table"):
            as_samples(digits, pd.DataFrame({"a": [1]}))

    def test_gaps(self) -> None:
        images = np.random.default_rng(0).random((20, 3, 8, 8))
        bad = images.copy()
        bad[17, 2, 5, 3] = np.nan
        with pytest.raises(
            InputError,
            match=r"Y contains 1 missing value \(first at row 17, channel 2, pixel \(5, 3\)\)",
        ):
            as_samples(images, bad)
        bad[4] = 1e39  # infinite in float32
        with pytest.raises(
            InputError,
            match=r"Y contains 193 non-finite values \(first at row 4, channel 0, pixel \(0, 0\)",
        ):
            as_samples(images, bad)

    @pytest.mark.parametrize("dtype", [np.uint8, np.float32])
    def test_one_scale_for_all_pixels(self, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
        x, y = (
            np.random.default_rng(seed).integers(0, 256, (7, 5, 4)).astype(dtype) for seed in (0, 1)
        )
        pooled = np.concatenate([x, y]).astype(np.float64)
        # Two images at a time, then the odd one.
        monkeypatch.setattr(samples_module, "_CHUNK", 50)
        monkeypatch.setattr(moments_module, "_CHUNK", 50)
        encoded = as_samples(x, y)
        scaling = Scaling.of(encoded)
        assert scaling.shift.shape == scaling.scale.shape == ()
        assert scaling.shift.item() == pytest.approx(pooled.mean(), rel=1e-12)
        assert scaling.scale.item() == pytest.approx(pooled.std(), rel=1e-12)
        scaled = scaling.apply(encoded)
        assert scaled.x.dtype == torch.float32
        assert scaled.schema == encoded.schema
        expected = ((pooled - pooled.mean()) / pooled.std()).astype(np.float32)
        np.testing.assert_allclose(scaled.pooled()[:, 0].numpy(), expected, atol=1e-6)

    def test_constant_images_stay_finite(self) -> None:
        blank = torch.full((2, 1, 3, 3), 7.0)
        encoded = Samples(blank, blank, Schema("image", (1, 3, 3), pixels="float32"))
        assert Scaling.of(encoded).apply(encoded).pooled().abs().max() == 0


class TestScaling:
    def test_pooled_mean_and_deviation(self) -> None:
        x, y = normal(40, 3) * [1, 10, 100] + 5, normal(60, 3, seed=1)
        pooled = np.concatenate([x, y])
        encoded = as_samples(x, y)
        scaling = Scaling.of(encoded)
        assert scaling.shift.dtype == scaling.scale.dtype == torch.float64
        np.testing.assert_allclose(scaling.shift.numpy(), pooled.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(scaling.scale.numpy(), pooled.std(axis=0), rtol=1e-12)
        scaled = scaling.apply(encoded)
        assert scaled.x.dtype == torch.float32
        assert scaled.sizes == (40, 60)
        z = scaling.apply(encoded, dtype=torch.float64).pooled()
        np.testing.assert_allclose(z.mean(dim=0).numpy(), 0, atol=1e-12)
        np.testing.assert_allclose(z.std(dim=0, correction=0).numpy(), 1, rtol=1e-12)

    def test_indicators_are_left_alone(self) -> None:
        encoded = as_samples(pd.DataFrame(PEOPLE), pd.DataFrame(OTHERS))
        scaling = Scaling.of(encoded)
        indicator = ~torch.tensor(encoded.schema.standardised)
        assert (scaling.shift[indicator] == 0).all()
        assert (scaling.scale[indicator] == 1).all()
        assert torch.equal(
            scaling.apply(encoded, dtype=torch.float64).x[:, indicator], encoded.x[:, indicator]
        )

    def test_constant_columns_become_zero(self) -> None:
        with pytest.warns(InputWarning, match="1 column is constant"):
            encoded = as_samples([[0.1, 1.0]] * 3, [[0.1, 2.0]] * 7)
        scaling = Scaling.of(encoded)
        assert scaling.scale[0] == 1
        assert (scaling.apply(encoded).pooled()[:, 0] == 0).all()

    def test_chunks_agree(self, monkeypatch: pytest.MonkeyPatch) -> None:
        encoded = as_samples(normal(17), normal(11, seed=1))
        scaling = Scaling.of(encoded)
        whole = scaling.apply(encoded).pooled()
        monkeypatch.setattr(samples_module, "_CHUNK", 6)
        assert torch.equal(scaling.apply(encoded).pooled(), whole)

    @pytest.mark.parametrize("factor", [1e-300, 1e-200, 1e-4, 1.0, 1e4, 1e200, 1e300])
    @pytest.mark.parametrize("shift", [0.0, 1e4, -1e4])
    def test_units_do_not_matter(self, factor: float, shift: float) -> None:
        x, y = normal(50, 1), 2 * normal(30, 1, seed=1)
        expected = standardised(x, y)
        np.testing.assert_allclose(
            standardised((x + shift) * factor, (y + shift) * factor).numpy(), expected, atol=1e-9
        )

    @pytest.mark.parametrize(
        ("x", "y"),
        [
            ([1.7e308, -1.7e308], [1.7e308]),
            ([np.finfo(np.float64).max] * 3, [-np.finfo(np.float64).max] * 3),
            ([1e308, 1e308], [1.1e308, 0.0]),
            ([5e-324, 0.0], [0.0, 0.0]),
            ([1e-310, 2e-310], [3e-310]),
            ([1e308, 1e-308], [1.0]),
            ([1.0, 1.0], [1.0, np.nextafter(1.0, 2.0)]),
        ],
    )
    def test_extreme_numbers_stay_finite(self, x: list[float], y: list[float]) -> None:
        encoded = as_samples(x, y)
        scaling = Scaling.of(encoded)
        z = scaling.apply(encoded, dtype=torch.float64).pooled()
        assert torch.isfinite(scaling.shift).all()
        assert torch.isfinite(scaling.scale).all()
        assert (scaling.scale > 0).all()
        assert torch.isfinite(z).all()
        assert z.abs().max() > 0
        assert z.abs().max() < 3

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
    def test_new_points_far_away_stay_finite(self, dtype: torch.dtype) -> None:
        scaling = Scaling.of(as_samples([1e-5, 2e-5], [3e-5]))
        far = scaling.apply(as_samples([1.7e308], [-1.7e308]), dtype=dtype)
        assert torch.isfinite(far.pooled()).all()
        assert far.x.dtype == dtype

    def test_default_dtype_does_not_matter(self) -> None:
        expected = standardised(X, Y)
        torch.set_default_dtype(torch.float64)
        try:
            assert torch.equal(standardised(X, Y), expected)
        finally:
            torch.set_default_dtype(torch.float32)


def test_what_is_in_memory_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    original = profile_module.read
    monkeypatch.setattr(
        profile_module, "read", lambda *given: reads.append(given[1].sample) or original(*given)
    )
    frame = pd.DataFrame({"a": [1.0, None, 3.0, 4.0, 5.0], "b": list("uvuvu")})
    surveyed = survey((held(frame), held(frame)), every_row, columns=Columns(missing="drop"))
    assert reads == ["X", "Y"]
    assert surveyed.tested == surveyed.held_out.sizes == (4, 4)
    assert surveyed.held_out.rows[0].tolist() == [0, 2, 3, 4]
    assert surveyed.picked.sizes == (4, 4) and surveyed.dropped == (1, 1)


def test_rows_that_are_picked_and_tested_are_shared() -> None:
    surveyed = survey((held(X), held(Y)), every_row)
    assert surveyed.picked.x.data_ptr() == surveyed.held_out.x.data_ptr()
    assert surveyed.picked.rows is None and surveyed.held_out.rows is None
    assert torch.equal(surveyed.scaling.scale, Scaling.of(surveyed.picked).scale)


def test_a_category_that_one_sample_lacks_is_not_constant() -> None:
    x = pd.DataFrame({"a": [1.0, 2.0], "b": [None, None]})
    y = pd.DataFrame({"a": [1.0, 2.0], "b": ["u", "u"]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoded = as_samples(x, y, columns=Columns(missing="indicator"))
    assert encoded.schema.features == ("a", "b=u", "b=other", "b is missing")


class TestProperties:
    finite = st.floats(-1e6, 1e6, allow_subnormal=False)

    @given(
        data=hnp.arrays(
            np.float64, st.tuples(st.integers(2, 8), st.integers(1, 5)), elements=finite
        ),
        shuffled=st.data(),
    )
    @settings(deadline=None, max_examples=40)
    def test_the_order_of_columns_does_not_matter(
        self, data: np.ndarray, shuffled: st.DataObject
    ) -> None:
        names = [f"c{number}" for number in range(data.shape[1])]
        order = shuffled.draw(st.permutations(names))
        frame = pd.DataFrame(data, columns=names).assign(
            kind=["u", "v"] * (len(data) // 2) + ["w"] * (len(data) % 2)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            straight = as_samples(frame, frame)
            mixed = as_samples(frame[["kind", *order]], frame[[*reversed(order), "kind"]])
        columns = [mixed.schema.features.index(name) for name in straight.schema.features]
        assert torch.equal(straight.x, mixed.x[:, columns])
        assert torch.equal(mixed.x, mixed.y)
        scaled, scaled_mixed = (Scaling.of(both).apply(both).x for both in (straight, mixed))
        torch.testing.assert_close(scaled, scaled_mixed[:, columns])

    @given(
        seed=st.integers(0, 2**32 - 1),
        exponent=st.floats(-300, 300),
        sign=st.sampled_from([-1.0, 1.0]),
        shift=st.floats(-1e4, 1e4),
        sizes=st.tuples(st.integers(2, 40), st.integers(2, 40)),
    )
    @settings(deadline=None, max_examples=80)
    def test_units_do_not_matter(
        self, seed: int, exponent: float, sign: float, shift: float, sizes: tuple[int, int]
    ) -> None:
        x, y = normal(sizes[0], 1, seed), normal(sizes[1], 1, seed + 1)
        spread = np.concatenate([x, y]).std()
        factor = sign * 10.0**exponent
        expected = sign * standardised(x, y).numpy()
        moved = standardised((x + shift * spread) * factor, (y + shift * spread) * factor).numpy()
        np.testing.assert_allclose(moved, expected, atol=1e-9)

    @given(
        data=hnp.arrays(
            st.sampled_from(["f4", "f8", "i4", "u1", "?"]),
            st.tuples(st.integers(1, 6), st.integers(1, 4)),
        )
    )
    @settings(deadline=None, max_examples=60)
    def test_every_form_gives_the_same_tensors(self, data: np.ndarray) -> None:
        if data.dtype.kind == "f" and not np.isfinite(data).all():
            with pytest.raises(InputError, match=r"X contains \d+ (missing|non-finite) value"):
                as_samples(data, data, columns=REFUSED)
            return
        names = [f"c{number}" for number in range(data.shape[1])]
        columns = dict(zip(names, np.ascontiguousarray(data.T), strict=True))
        unnamed = [data, data.tolist(), torch.from_numpy(data.copy()), pd.DataFrame(data)]
        named = [pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            everything = [[as_samples(form, form) for form in forms] for forms in (unnamed, named)]
        for encoded in (encoded for forms in everything for encoded in forms):
            np.testing.assert_array_equal(encoded.x.numpy(), data.astype(np.float64))
            assert {column.kind for column in encoded.schema.columns} == {
                "boolean" if data.dtype == bool else "numeric"
            }
        for forms in everything:
            assert len({encoded.schema for encoded in forms}) == 1

    @given(
        n=st.integers(4, 60),
        m=st.integers(4, 60),
        fraction=st.floats(0.001, 0.999),
        seed=st.integers(0, 2**31),
    )
    @settings(deadline=None, max_examples=60)
    def test_splits_are_disjoint_and_complete(
        self, n: int, m: int, fraction: float, seed: int
    ) -> None:
        both = as_samples(np.arange(n), np.arange(m) + 100)
        train, held_out = split(both, fraction, generator(seed))
        for size, whole, first, second in (
            (n, both.x, train.x, held_out.x),
            (m, both.y, train.y, held_out.y),
        ):
            assert sorted(torch.cat([first, second]).flatten().tolist()) == whole.flatten().tolist()
            assert len(first) == min(max(round(size * fraction), 2), size - 2)
            assert len(second) >= 2
        again = split(both, fraction, generator(seed))
        assert torch.equal(again[0].x, train.x)
        assert torch.equal(again[1].y, held_out.y)


class TestSplit:
    def test_sizes(self) -> None:
        train, held_out = split(as_samples(normal(10), normal(21)), 0.5, generator())
        assert train.sizes == (5, 10)
        assert held_out.sizes == (5, 11)

    def test_seeds_differ_and_samples_are_split_on_their_own(self) -> None:
        both = as_samples(np.arange(50), np.arange(50))
        first, second = (split(both, 0.5, generator(seed))[0] for seed in (0, 1))
        assert not torch.equal(first.x, second.x)
        assert not torch.equal(first.x, first.y)

    def test_every_row_is_as_likely_to_train(self) -> None:
        both, one = as_samples(np.arange(8), np.arange(8)), generator()
        counts = torch.zeros(8)
        for _ in range(400):
            counts[split(both, 0.25, one)[0].x.flatten().long()] += 1
        assert counts.sum() == 800
        assert ((counts > 50) & (counts < 160)).all()  # 100 +- 9 expected

    def test_global_generators_are_untouched(self) -> None:
        before, state = torch.random.get_rng_state(), np.random.get_state()  # noqa: NPY002
        split(as_samples(normal(10), normal(10)), 0.5, generator())
        assert torch.equal(before, torch.random.get_rng_state())
        assert all(np.array_equal(a, b) for a, b in zip(state, np.random.get_state(), strict=True))  # noqa: NPY002

    def test_too_few_rows(self) -> None:
        message = (
            r"^X has 3 rows; with train_fraction=0\.5 the test needs at least 4 in each sample\.$"
        )
        with pytest.raises(InputError, match=message):
            split(as_samples(normal(3), normal(9)), 0.5, generator())
        with pytest.raises(
            InputError, match=r"^Y has 1 row; with train_fraction=0\.9 the test needs at least 4"
        ):
            split(as_samples(normal(9), normal(1)), 0.9, generator())

    @pytest.mark.parametrize("fraction", [0.0, 1.0, -0.5, 1.5, float("nan")])
    def test_fraction(self, fraction: float) -> None:
        with pytest.raises(
            InputError, match=rf"train_fraction={fraction} must lie between 0 and 1"
        ):
            split(as_samples(normal(9), normal(9)), fraction, generator())

    def test_images(self) -> None:
        images = np.arange(8 * 4, dtype=np.uint8).reshape(8, 2, 2)
        train, held_out = split(as_samples(images, images), 0.25, generator())
        assert train.x.shape == (2, 1, 2, 2)
        assert held_out.x.dtype == torch.uint8


def test_samples() -> None:
    both = as_samples(X, Y)
    assert both.sizes == (3, 2)
    assert torch.equal(both.pooled(), torch.from_numpy(np.concatenate([X, Y])))
    assert both.to(dtype=torch.float32).x.dtype == torch.float32
    assert both.to(device="cpu").y.dtype == torch.float64
    assert both.to(device="cpu").schema is both.schema
    assert both != as_samples(X, Y)  # identity, not a tensor of truth values


def test_schemas_are_values() -> None:
    first, second = (
        as_samples(pd.DataFrame(PEOPLE), pd.DataFrame(OTHERS)).schema for _ in range(2)
    )
    assert first == second
    assert hash(first) == hash(second)
