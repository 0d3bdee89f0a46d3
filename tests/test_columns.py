"""`Columns`: each policy against the obvious way to do the same by hand with pandas."""

from __future__ import annotations

import datetime
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

import twosample
from twosample import Columns, InputError, Stream, as_samples, explain, load, two_sample_test
from twosample._data.rereading import points_to_test
from twosample._data.samples import Scaling
from twosample._data.survey import starting_rows, survey, training_rows
from twosample._resources import HERE, Resources
from twosample.errors import InputWarning

NONE = Columns()
TABLES = pytest.mark.parametrize(
    "table",
    [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas],
    ids=["pandas", "polars", "pyarrow"],
)


def holey(rows: int, seed: int, share: float = 0.1) -> pd.DataFrame:
    """Numbers, truths and categories of which some are missing."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "size": rng.normal(5, 2, rows),
            "whole": rng.normal(0, 1, rows),
            "new": pd.array(rng.random(rows) < 0.3, dtype="boolean"),
            "colour": pd.Series(rng.choice(["red", "blue"], rows), dtype="string"),
        }
    )
    for name in ("size", "new", "colour"):
        frame.loc[rng.random(rows) < share, name] = pd.NA if name != "size" else np.nan
    return frame


X, Y = holey(80, 1), holey(60, 2, 0.3)


def quick(
    x: object, y: object, columns: Columns | None, **options: object
) -> twosample.TwoSampleResult:
    return two_sample_test(x, y, "mmd-o", permutations=99, rng=0, columns=columns, **options)


# The record


def test_a_record_that_can_be_compared_hashed_copied_and_typed_in_again():
    record = Columns(keep=["a", "b"], kinds={"a": "category"}, missing="drop")
    assert record == Columns(("a", "b"), (), (("a", "category"),), "drop") == eval(repr(record))
    assert hash(record) == hash(pickle.loads(pickle.dumps(record)))
    assert (record.kind_of("a"), record.kind_of("b")) == ("category", None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep": "age"}, "keep is 'age'; give a list"),
        ({"keep": []}, "no column is to be kept"),
        ({"drop": [3]}, "give a list of names"),
        ({"missing": "ignore"}, "missing is 'ignore'; use one of error, drop, indicator"),
        ({"kinds": {"a": "date"}}, "column 'a' is to be a 'date'; use one of number, category"),
        ({"keep": ["a"], "drop": ["a"]}, "column 'a' is to be left out, and used"),
        ({"kinds": {"a": "number"}, "drop": ["a"]}, "column 'a' is to be left out, and used"),
        (
            {"keep": ["a"], "kinds": {"b": "number"}},
            "column 'b' has a kind, but is not among those to keep",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        Columns(**options)


# Which columns


@TABLES
def test_keep_and_drop_are_what_selecting_by_hand_gives(table):
    by_hand = as_samples(table(X[["whole"]]), table(Y[["whole"]]))
    for columns in (Columns(keep=["whole"]), Columns(drop=["size", "new", "colour"])):
        found = as_samples(table(X), table(Y), columns=columns)
        assert torch.equal(found.x, by_hand.x) and torch.equal(found.y, by_hand.y)
        assert found.schema.features == ("whole",)


def test_columns_of_arrays_are_called_by_their_places():
    x, y = np.arange(12.0).reshape(4, 3), np.arange(12.0)[::-1].reshape(4, 3)
    found = as_samples(x, y, columns=Columns(drop=["1"]))
    assert found.x.tolist() == x[:, [0, 2]].tolist() and found.schema.features == ("0", "2")
    assert as_samples(x, y, columns=Columns(kinds={"0": "category"})).schema.columns[0].levels == (
        "0",
        "11",
        "2",
        "3",
        "5",
        "6",
        "8",
        "9",
    )


def test_a_column_that_only_one_sample_has_can_be_left_out():
    assert as_samples(
        X.drop(columns="size")[["whole"]], Y[["whole", "size"]], columns=Columns(drop=["size"])
    ).sizes == (80, 60)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (Columns(keep=["height"]), "X has no column 'height'; it has size, whole, new, colour"),
        (
            Columns(drop=["height"], missing="drop"),
            r"there is no column 'height'; there are colour, new, size, whole\.",
        ),
        (Columns(kinds={"height": "number"}, missing="drop"), "there is no column 'height'"),
        (Columns(drop=["size", "whole", "new", "colour"]), "no column of X is left"),
    ],
)
def test_names_that_are_not_there_are_named(columns, message):
    with pytest.raises(InputError, match=message):
        as_samples(X, Y, columns=columns)


def test_images_have_no_columns():
    images = np.zeros((4, 5, 5), dtype=np.uint8)
    with pytest.raises(InputError, match="X holds images, which have no columns to choose"):
        as_samples(images, images, columns=Columns(missing="drop"))


def test_anything_else_for_columns_is_a_sentence():
    with pytest.raises(InputError, match=r"columns is a list; give a twosample\.Columns"):
        as_samples(X, Y, columns=["size"])


# As what


@TABLES
def test_dates_as_numbers_are_days(table):
    days = ["1970-01-02", "2024-02-29 12:00"]
    frame = table(pd.DataFrame({"when": pd.to_datetime(days, format="mixed")}))
    found = as_samples(frame, frame, columns=Columns(kinds={"when": "number"}))
    assert found.x[:, 0].tolist() == [1.0, 19782.5]


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        ([datetime.date(1970, 1, 11)], [10.0]),
        ([datetime.time(0, 1, 30, 500_000)], [90.5]),
        ([datetime.timedelta(days=1, microseconds=5)], [86400.000005]),
        (
            [datetime.datetime(1970, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=6)))],
            [0.75],
        ),
        (["1970-01-02", " 1970-01-03T12:00 "], [1.0, 2.5]),
        ([" 1.5 ", "-2e3"], [1.5, -2000.0]),
        ([True, False], [1.0, 0.0]),
    ],
)
def test_what_a_number_may_be(values, numbers):
    frame = pl.DataFrame({"v": values})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some are constant
        found = as_samples(frame, frame, columns=Columns(kinds={"v": "number"}))
    assert found.x[:, 0].tolist() == pytest.approx(numbers, abs=1e-9)
    assert found.schema.columns[0].kind == "numeric"


@TABLES
@pytest.mark.parametrize(
    ("values", "levels"),
    [
        ([1, 10, 1], ("1", "10")),
        ([1.0, 2.5, 1.0], ("1", "2.5")),
        ([True, False, True], ("false", "true")),
        (pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-01"]), ("2024-01-01", "2024-01-02")),
    ],
)
def test_what_a_category_may_be(table, values, levels):
    frame = table(pd.DataFrame({"v": values}))
    found = as_samples(frame, frame, columns=Columns(kinds={"v": "category"}))
    assert found.schema.columns[0].levels == levels
    assert (
        found.x.tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0]]
        if levels[0] != "false"
        else [[0, 1, 0], [1, 0, 0], [0, 1, 0]]
    )


def test_text_that_is_no_number_is_named():
    frame = pd.DataFrame({"v": ["1", None, "2", "three"]})
    with pytest.raises(
        InputError,
        match=r"X has 'three' at row 3 in column 'v', which is to be a number; .*kinds={'v': 'category'}",
    ):
        as_samples(frame, frame, columns=Columns(kinds={"v": "number"}, missing="drop"))


@pytest.mark.parametrize(
    "values", [[datetime.date(2024, 1, 1)], [datetime.timedelta(1)], [datetime.time(1)]]
)
def test_dates_are_never_silently_numbers(values):
    for frame in (
        pl.DataFrame({"when": values}),
        pd.DataFrame({"when": pd.Series(values, dtype=object)}),
    ):
        with pytest.warns(InputWarning) as caught:
            as_samples(frame, frame)
        assert "Dates are tested as days since 1970-01-01, times as" in str(caught[0].message)
        assert "Columns(drop=['when'])" in str(caught[0].message)


# Missing values: left out


@TABLES
def test_drop_is_dropna(table):
    rows = [np.flatnonzero(frame.notna().all(axis=1)) for frame in (X, Y)]
    by_hand = as_samples(
        table(X.dropna().reset_index(drop=True)), table(Y.dropna().reset_index(drop=True))
    )
    found = as_samples(table(X), table(Y), columns=Columns(missing="drop"))
    assert torch.equal(found.x, by_hand.x) and torch.equal(found.y, by_hand.y)
    assert found.dropped == (80 - len(rows[0]), 60 - len(rows[1]))
    assert found.rows is not None and [part.tolist() for part in found.rows] == [
        part.tolist() for part in rows
    ]


def test_the_result_of_dropping_is_that_of_dropna_and_says_so():
    result = quick(X, Y, Columns(missing="drop"))
    by_hand = quick(X.dropna(), Y.dropna(), None)
    assert (result.statistic, result.pvalue) == (by_hand.statistic, by_hand.pvalue)
    lost = 80 - len(X.dropna()), 60 - len(Y.dropna())
    assert result.dropped == lost and result.to_dict()["dropped"] == list(lost)
    assert f"; left out for missing values: {lost[0]} + {lost[1]} rows)." in str(result)
    assert by_hand.dropped == (0, 0) and "left out" not in str(by_hand)


def test_rows_of_an_explanation_are_those_of_the_table():
    explanation = explain(quick(X, Y, Columns(missing="drop")), rng=0, shuffles=0)
    assert {row.row for row in explanation.rows_x} & set(
        np.flatnonzero(X.isna().any(axis=1))
    ) == set()
    for row in (*explanation.rows_x, *explanation.rows_y):
        frame = X if row in explanation.rows_x else Y
        assert row.values["size"] == pytest.approx(frame["size"][row.row], rel=1e-5)


def test_nan_is_missing_and_infinity_is_not():
    x = np.array([[1.0, np.nan], [2.0, 3.0], [4.0, 5.0]])
    assert as_samples(x, x, columns=Columns(missing="drop")).x.tolist() == [[2.0, 3.0], [4.0, 5.0]]
    x[1, 1] = np.inf
    for missing in ("drop", "indicator"):
        with pytest.raises(
            InputError,
            match=r"X contains 1 non-finite value \(first at row 1, column 1\); drop or impute them before testing\.",
        ):
            as_samples(x, x, columns=Columns(missing=missing))


def test_nothing_left_is_a_sentence():
    with pytest.raises(InputError, match="every row of Y has a missing value"):
        as_samples(X, X.assign(size=np.nan), columns=Columns(missing="drop"))


# Missing values: told


@TABLES
def test_indicators_are_what_pandas_gives_by_hand(table):
    pooled = pd.concat([X, Y])
    by_hand = pd.DataFrame(
        {
            "colour=blue": (pooled["colour"] == "blue").fillna(False),
            "colour=red": (pooled["colour"] == "red").fillna(False),
            "colour=other": False,
            "colour is missing": pooled["colour"].isna(),
            "new": pooled["new"].astype(float).fillna(pooled["new"].astype(float).mean()),
            "new is missing": pooled["new"].isna(),
            "size": pooled["size"].fillna(pooled["size"].mean()),
            "size is missing": pooled["size"].isna(),
            "whole": pooled["whole"],
        }
    ).astype(float)
    found = as_samples(table(X), table(Y), columns=Columns(missing="indicator"))
    assert found.schema.features == tuple(by_hand.columns)
    np.testing.assert_allclose(found.pooled().numpy(), by_hand.to_numpy(), rtol=1e-12)
    assert found.rows is None and found.dropped == (0, 0)
    standardised = [name in ("size", "whole") for name in by_hand]
    assert found.schema.standardised == tuple(standardised)
    scaling = Scaling.of(found)
    np.testing.assert_allclose(scaling.scale[6], by_hand["size"].std(ddof=0), rtol=1e-12)


def test_columns_without_gaps_have_no_indicator():
    full = X.dropna()
    with_policy, without = (
        as_samples(full, full, columns=Columns(missing=m)) for m in ("indicator", "error")
    )
    assert with_policy.schema.columns == without.schema.columns
    assert torch.equal(with_policy.x, without.x)


def test_a_sample_in_which_all_of_a_column_is_missing():
    gone = X.assign(size=np.nan, colour=pd.Series([pd.NA] * len(X), dtype="string"))
    found = as_samples(gone, Y, columns=Columns(missing="indicator"))
    points = dict(zip(found.schema.features, found.x.T.tolist(), strict=True))
    assert points["size"] == pytest.approx([Y["size"].mean()] * 80)
    assert points["size is missing"] == [1.0] * 80
    assert points["colour is missing"] == [1.0] * 80
    with pytest.warns(
        twosample.InputWarning, match=r"1 column is constant over X and Y together \('size'\)"
    ):
        assert (
            as_samples(
                gone[["size", "whole"]],
                gone[["size", "whole"]],
                columns=Columns(missing="indicator"),
            )
            .x[:, 0]
            .tolist()
            == [0.0] * 80
        )


def test_what_is_missing_more_often_in_one_sample_is_found():
    rng = np.random.default_rng(0)
    x, y = (pd.DataFrame({"v": rng.normal(size=120)}) for _ in range(2))
    y.loc[rng.random(120) < 0.4, "v"] = np.nan
    result = two_sample_test(x, y, "mmd-median", rng=0, columns=Columns(missing="indicator"))
    assert result.pvalue == 0.001
    column = explain(result, rng=0).columns[0]
    assert column.pvalue == 0.001 and column.name == "v"
    assert two_sample_test(x, y, "mmd-median", rng=0, columns=Columns(missing="drop")).pvalue > 0.05


def test_missing_values_are_shown_as_missing():
    explanation = explain(quick(X, Y, Columns(missing="indicator")), rows=40, rng=0, shuffles=0)
    for sample, rows in ((X, explanation.rows_x), (Y, explanation.rows_y)):
        assert rows
        for row in rows:
            for name in ("size", "new", "colour"):
                assert (row.values[name] == "missing") == bool(pd.isna(sample[name][row.row]))


@pytest.mark.parametrize("missing", ["drop", "indicator"])
def test_the_p_value_is_uniform_where_there_is_no_difference(missing):
    # 60 runs at level 0.25: by the binomial law outside 1 ... 33 once in a million, if p is exact.
    rejected = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        pooled = rng.normal(size=(40, 2))
        pooled[np.abs(pooled[:, 0]) > 1, 1] = np.nan  # what is missing depends on what is not
        result = two_sample_test(
            pooled[:20],
            pooled[20:],
            "mmd-median",
            permutations=19,
            rng=seed,
            columns=Columns(missing=missing),
        )
        rejected += result.reject(0.25)
    assert 1 <= rejected <= 33


# Later data, files


@pytest.mark.parametrize("missing", ["drop", "indicator"])
def test_a_fitted_test_treats_later_data_alike_also_from_a_file(missing, tmp_path):
    x, y = (
        frame.assign(id=range(len(frame)), code=frame["whole"].gt(0).astype(int))
        for frame in (X, Y)
    )
    columns = Columns(drop=["id"], kinds={"code": "category"}, missing=missing)
    fitted = twosample.mmd_o(permutations=99).fit(x, y, rng=0, columns=columns)
    assert fitted.schema.rules == columns and sum(fitted.dropped) == (
        0 if missing == "indicator" else 65
    )
    fitted.save(tmp_path / "kernel")
    again = load(tmp_path / "kernel")
    assert again.schema == fitted.schema and again.dropped == fitted.dropped
    later = [holey(50, seed).assign(id=7, code=[0, 1] * 25) for seed in (8, 9)]
    first, second = (test.test(*later, rng=1) for test in (fitted, again))
    assert (first.statistic, first.pvalue, first.dropped) == (
        second.statistic,
        second.pvalue,
        second.dropped,
    )
    assert (
        again.test(*(frame.drop(columns="id") for frame in later), rng=1).statistic
        == first.statistic
    )
    encoded = as_samples(*later, schema=fitted.schema)
    if missing == "indicator":  # the mean is that of the data it was fitted on
        mean = pd.concat([x, y])["size"].mean()
        gaps = torch.tensor(later[0]["size"].isna().tolist())
        place = fitted.schema.features.index("size")
        assert encoded.x[gaps][:, place].tolist() == pytest.approx([mean] * int(gaps.sum()))


def test_a_fitted_test_says_what_it_was_not_fitted_for():
    fitted = twosample.mmd_o().fit(
        X.dropna(), Y.dropna(), rng=0, columns=Columns(missing="indicator")
    )
    with pytest.raises(
        InputError,
        match=r"X has .* missing values in column 'colour', but none were missing there when",
    ):
        fitted.test(X, Y)
    with pytest.raises(InputError, match="a fitted test knows its columns"):
        as_samples(X, Y, schema=fitted.schema, columns=NONE)
    strict = twosample.mmd_o().fit(X.dropna(), Y.dropna(), rng=0, columns=Columns(missing="error"))
    with pytest.raises(InputError, match=r"X contains \d+ missing values"):
        strict.test(X, Y)


def test_the_witness_wants_a_value_for_each_row():
    result = quick(X, Y, Columns(missing="drop"))
    with pytest.raises(InputError, match=r"points contains .* missing value"):
        twosample.witness(result, X)
    assert len(twosample.witness(quick(X, Y, Columns(missing="indicator")), X)) == 80


# Streams


def batches(frame: pd.DataFrame, size: int) -> list[pd.DataFrame]:
    return [frame[start : start + size] for start in range(0, len(frame), size)]


@pytest.mark.parametrize("missing", ["drop", "indicator"])
@pytest.mark.parametrize("method", ["mmd-o", "mmd-median"])
@pytest.mark.parametrize("once", [True, False], ids=["iterator", "collection"])
def test_streams_give_what_memory_gives(missing, method, once):
    columns = Columns(drop=["whole"], missing=missing)
    expected = two_sample_test(X, Y, method, permutations=99, rng=0, columns=columns)
    x, y = (
        Stream.batches(iter(parts) if once else parts) for parts in (batches(X, 7), batches(Y, 13))
    )
    found = two_sample_test(x, y, method, permutations=99, rng=0, columns=columns)
    assert found.statistic == pytest.approx(expected.statistic, abs=1e-6)
    assert (found.pvalue, found.sizes, found.dropped) == (
        expected.pvalue,
        expected.sizes,
        expected.dropped,
    )


def test_a_batch_in_which_all_is_missing():
    frame = X.assign(colour=pd.Series([pd.NA] * 7 + ["red", "blue"] * 36 + ["red"], dtype="string"))
    frame.loc[:6, "size"] = np.nan
    columns = Columns(missing="indicator")
    expected, found = quick(frame, Y, columns), quick(Stream.batches(batches(frame, 7)), Y, columns)
    assert found.statistic == pytest.approx(expected.statistic, abs=1e-6)


def test_an_iterator_that_was_kept_is_not_read_by_other_rules():
    stream = Stream.batches(iter(batches(X, 20)))
    quick(stream, Y, Columns(missing="drop"))
    with pytest.raises(
        InputError, match=r"kept as they were read first, with Columns\(.*missing='drop'\)"
    ):
        quick(stream, Y, Columns(missing="indicator"))


@pytest.mark.parametrize("missing", ["drop", "indicator"])
@pytest.mark.parametrize("trains", [True, False])
def test_workers_see_the_same_rows(tmp_path, monkeypatch, missing, trains):
    for name, frame in (("x", X), ("y", Y)):
        pl.from_pandas(frame).write_parquet(tmp_path / f"{name}.parquet")
    monkeypatch.setattr("twosample._files.parts._PART", 16)  # parts of some rows
    pair = tuple(Stream.parquet(tmp_path / f"{name}.parquet") for name in "xy")
    assert len(pair[0].partitions) > 3
    generator = torch.Generator().manual_seed(0)
    pick = training_rows(0.5, generator, 2**30) if trains else starting_rows(generator, 2**30)
    found = survey(pair, pick, columns=Columns(missing=missing))
    here, there = (
        points_to_test(
            pair,
            found,
            found.scaling,
            lambda points: (points,),
            torch.Generator().manual_seed(1),
            device=torch.device("cpu"),
            resources=Resources(2**14, workers=workers),
        )
        for workers in (HERE, type(HERE)())  # the second stands for others
    )
    assert here.sizes == there.sizes == found.tested and here.dropped == found.dropped
    assert torch.equal(here.parts[0], there.parts[0])
    whole = as_samples(X, Y, columns=Columns(missing=missing))
    expected = found.scaling.apply(whole)
    if not trains:
        torch.testing.assert_close(here.parts[0], expected.pooled(), atol=1e-6, rtol=0)
