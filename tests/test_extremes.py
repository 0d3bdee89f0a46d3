"""Extreme values: one of them does not hide the rest, nothing is lost, and other columns stay."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import binom

import twosample
from twosample import Columns, InputWarning, Stream
from twosample._data.extremes import FENCE, drawn_in, let_out, rows_for_quantiles
from twosample._data.samples import Samples, Scaling
from twosample._data.streams import held, open_samples
from twosample._data.survey import Survey, every_row, survey
from twosample._insight.held_out import row_values
from twosample.bench import datasets

FAR = 9_999_999.0


def surveyed(X: Any, Y: Any, **options: Any) -> Survey:
    return survey((held(X), held(Y)), every_row, **options)


def two(far: float | None = None, shift: float = 3.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(0, 1, (200, 2))
    Y = rng.normal(shift, 1, (200, 2))
    if far is not None:
        X[0] = far
        Y[0] = far
    return X, Y


@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        yield


# The power is there


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("method", twosample.METHODS)
def test_one_value_in_each_sample_does_not_hide_the_rest(method):
    result = twosample.two_sample_test(*two(FAR), method, permutations=199, rng=0)
    assert result.pvalue <= 0.01


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("far", [1000.0, -1e300])
def test_however_far_away_it_is(far):
    result = twosample.two_sample_test(*two(far), "c2st-l", permutations=199, rng=0)
    assert result.pvalue <= 0.01


@pytest.mark.usefixtures("quiet")
def test_a_code_for_missing_values_does_not_hide_the_rest():
    X, Y = two(shift=1.0)
    X[:20] = Y[:20] = FAR  # a tenth of the rows
    for method in ("c2st-l", "mmd-median"):
        assert twosample.two_sample_test(X, Y, method, rng=0).pvalue <= 0.01


@pytest.mark.usefixtures("quiet")
def test_a_float_pixel_does_not_hide_the_rest():
    rng = np.random.default_rng(0)
    X = rng.normal(0, 1, (60, 6, 6)).astype(np.float32)
    Y = rng.normal(0.5, 1, (60, 6, 6)).astype(np.float32)
    X[0, 0, 0] = Y[0, 0, 0] = FAR
    assert surveyed(X, Y).scaling.scale < 2
    assert twosample.two_sample_test(X, Y, "mmd-median", rng=0).pvalue <= 0.01


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("classifier", ["c2st-l", "c2st-s"])
def test_a_fitted_test_draws_in_extremes_that_it_has_never_seen(classifier):
    fitted = twosample.METHODS[classifier]().fit(*two(), rng=0)
    X, Y = two(FAR)
    assert fitted.test(X, Y, rng=1).pvalue <= 0.01


# Scaling


@pytest.mark.parametrize("name", ["normal", "exponential", "poisson", "geometric"])
def test_columns_without_extreme_values_are_standardised_as_ever(name):
    rng = np.random.default_rng(1)
    draw = {
        "normal": lambda: rng.normal(7, 3, (9000, 2)),
        "exponential": lambda: rng.exponential(2, (9000, 2)),
        "poisson": lambda: rng.poisson(3, (9000, 2)),
        "geometric": lambda: rng.geometric(0.1, (9000, 2)),
    }[name]
    seen = surveyed(draw(), draw())
    usual = Scaling.of(seen.picked)
    assert torch.equal(seen.scaling.shift, usual.shift)
    assert torch.equal(seen.scaling.scale, usual.scale)
    scaled = seen.scaling.apply_to(seen.picked.x, dtype=torch.float64)
    assert torch.equal(scaled, (seen.picked.x - usual.shift) / usual.scale)


def test_only_the_column_with_extreme_values_is_scaled_by_quantiles():
    X, Y = two()
    X[3, 1] = FAR
    with pytest.warns(InputWarning):
        seen = surveyed(X, Y)
    usual = Scaling.of(seen.picked)
    assert seen.scaling.scale[0] == usual.scale[0]
    pooled = np.concatenate([X, Y])[:, 1]
    low, median, high = np.quantile(pooled, [0.25, 0.5, 0.75])
    assert seen.scaling.shift[1] == pytest.approx(median, abs=1e-12)
    assert seen.scaling.scale[1] == pytest.approx((high - low) / 1.349, rel=0.02)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("filled", [0.2, 0.06])
def test_sparse_columns_go_by_a_wider_range(filled):
    rng = np.random.default_rng(2)
    column = np.where(rng.random(1000) < filled, rng.exponential(1, 1000), 0.0)
    column[5] = FAR
    seen = surveyed(column[:500], column[500:])
    assert seen.scaling.shift == 0
    assert 0.01 < seen.scaling.scale < 2


def test_a_column_that_is_nearly_constant_is_as_it_was():
    column = np.zeros(1000)
    column[:4] = (1.0, 1.0, FAR, 1.0)
    seen = surveyed(column[::2], column[1::2])
    assert torch.equal(seen.scaling.scale, Scaling.of(seen.picked).scale)


def test_rounding_is_no_spread():
    column = np.where(np.arange(400) % 2, 0.3, 0.1 + 0.2)
    column[:40] = np.linspace(-1, 1, 40)
    seen = surveyed(column[::2], column[1::2])
    assert seen.scaling.scale > 0.01


def test_drawing_in_keeps_the_order_and_can_be_undone():
    near = torch.linspace(-100, 100, 2001).double()
    values = torch.cat([near, 10.0 ** torch.arange(2, 300).double()]).sort().values
    near = drawn_in(values)
    assert (near.diff()[values.diff() > 0] > 0).all()
    assert torch.equal(near[values.abs() <= FENCE], values[values.abs() <= FENCE])
    assert near.abs().max() < FENCE + 710
    torch.testing.assert_close(let_out(near), values, rtol=1e-10, atol=0)


@pytest.mark.usefixtures("quiet")
def test_undo_gives_the_units_of_the_user():
    X, Y = two(FAR)
    seen = surveyed(X, Y)
    exactly = seen.scaling.apply_to(seen.picked.x, dtype=torch.float64)
    np.testing.assert_allclose(seen.scaling.undo(exactly), X, rtol=1e-9, atol=1e-12)
    single = seen.scaling.apply_to(seen.picked.x)
    np.testing.assert_allclose(seen.scaling.undo(single), X, rtol=2e-5, atol=1e-6)


@pytest.mark.usefixtures("quiet")
def test_explanations_show_the_values_of_the_user():
    X, Y = (pd.DataFrame(points, columns=["a", "b"]) for points in two(FAR))
    result = twosample.two_sample_test(X, Y, "mmd-median", rng=0)
    row = row_values(result.samples.schema, result.fitted.scaling, result.samples.x[0])
    assert row["a"] == pytest.approx(FAR, rel=1e-4)
    row = row_values(result.samples.schema, result.fitted.scaling, result.samples.x[7])
    assert row["a"] == pytest.approx(X["a"][7], abs=1e-5)
    explained = twosample.explain(result, rng=0)
    assert all(column.pvalue <= 0.01 for column in explained.columns)


@pytest.mark.usefixtures("quiet")
def test_gaps_are_filled_with_a_value_that_is_not_extreme():
    X, Y = (pd.DataFrame(points, columns=["a", "b"]) for points in two(FAR))
    X.loc[4, "a"] = np.nan
    seen = surveyed(X, Y, columns=Columns(missing="indicator"))
    assert seen.schema.columns[0].fill == pytest.approx(np.nanmedian([X["a"], Y["a"]]))


# Streams, files


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("missing", ["error", "drop", "indicator"])
def test_a_stream_is_scaled_as_in_memory(missing):
    X, Y = (pd.DataFrame(points, columns=["b", "a"]) for points in two(FAR))
    if missing != "error":
        X.loc[[4, 90], "a"] = np.nan
    columns = Columns(missing=missing)
    in_memory = surveyed(X, Y, columns=columns).scaling
    stream = Stream.batches([X[at : at + 37] for at in range(0, 200, 37)])
    with open_samples(stream, Y, 2**30) as pair:
        streamed = survey(pair, every_row, columns=columns).scaling
    assert torch.equal(in_memory.shift[0], streamed.shift[0])
    assert torch.equal(in_memory.scale[0], streamed.scale[0])


@pytest.mark.usefixtures("quiet")
def test_large_samples_take_quantiles_from_rows_drawn_blind_to_labels():
    of_x, of_y = rows_for_quantiles((30_000, 10_000), 3, torch.Generator().manual_seed(1))
    assert len(of_x) + len(of_y) == 20_000
    assert abs(len(of_x) - 15_000) < 300
    assert len(of_x.unique()) == len(of_x) and int(of_y.max()) < 10_000
    assert sum(map(len, rows_for_quantiles((12_000, 8_000), 3, torch.Generator()))) == 20_000
    assert sum(map(len, rows_for_quantiles((9_000, 9_000), 20_000, torch.Generator()))) == 104
    rng = np.random.default_rng(0)
    X = rng.normal(size=30_000)
    X[17] = FAR
    seen = surveyed(X, rng.normal(size=10_000))
    assert float(seen.scaling.scale) == pytest.approx(1, abs=0.05)


@pytest.mark.usefixtures("quiet")
def test_a_saved_test_draws_in_alike(tmp_path):
    fitted = twosample.mmd_o(permutations=99, steps=20).fit(*two(FAR), rng=0)
    fitted.save(tmp_path / "kernel")
    again = twosample.load(tmp_path / "kernel")
    X, Y = two(1e5)
    assert fitted.test(X, Y, rng=1).statistic == again.test(X, Y, rng=1).statistic


# Warnings


def test_the_warning_says_where_how_many_and_how_far():
    X, Y = (pd.DataFrame(points, columns=["a", "b"]) for points in two())
    X.loc[3, "b"] = FAR
    Y.loc[4, "b"] = -50_000
    message = (
        r"^More than 20 interquartile ranges away from the median: 2 of 400 values in column 'b' "
        r"\(the farthest 9999999, a code for a missing value\?\)\. They are drawn in logarithmically so that they do not hide "
        r"the rest\.$"
    )
    with pytest.warns(InputWarning, match=message) as caught:
        twosample.two_sample_test(X, Y, "mmd-median", permutations=19, rng=0)
    assert len(caught) == 1 and caught[0].filename == __file__


def test_heavy_tails_are_called_so():
    rng = np.random.default_rng(0)
    with pytest.warns(InputWarning, match=r"of 2000 values in column 0 .*, a heavy tail or a"):
        surveyed(rng.standard_cauchy(1000), rng.standard_cauchy(1000))


def test_many_columns_are_counted():
    X, Y = np.repeat(two(FAR), 3, axis=2)
    with pytest.warns(InputWarning, match=r"column 2 \(the farthest 9999999, .*\); and 3 more col"):
        surveyed(X, Y)


def test_a_fitted_test_warns_of_values_far_from_what_it_knows():
    fitted = twosample.mmd_median(permutations=19).fit(*two(), rng=0)
    X, Y = two()
    Y[3, 1] = -FAR
    with pytest.warns(InputWarning, match=r"was fitted on: -1e\+07 in column 1\. They are drawn"):
        fitted.test(X, Y, rng=0)


# The settings of the paper, and the level


def samples_of_the_paper():
    yield "Blob", datasets.blob(100, rng=0)
    yield "HDGM", datasets.hdgm(4000, 10, rng=0)
    if "TWOSAMPLE_DATA" in os.environ:
        yield "Higgs", datasets.higgs()


def test_no_column_of_the_paper_is_touched():
    for name, (X, Y) in samples_of_the_paper():
        seen = surveyed(X, Y)  # a warning would be an error
        usual = Scaling.of(seen.picked)
        assert torch.equal(seen.scaling.shift, usual.shift), name
        assert torch.equal(seen.scaling.scale, usual.scale), name
        assert seen.scaling.apply(seen.picked).pooled().abs().max() < FENCE, name


def rejections(runs: int) -> int:
    test = twosample.mmd_median(permutations=19)
    rejected = 0
    for run in range(runs):
        rng = np.random.default_rng(run)
        X = rng.standard_cauchy((30, 2))
        Y = rng.standard_cauchy((20, 2))
        rejected += test.run(X, Y, rng=run).pvalue <= 0.05
    return rejected


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("runs", [60, pytest.param(300, marks=pytest.mark.slow)])
def test_the_level_holds_where_all_columns_have_extreme_values(runs):
    low, high = binom.ppf([0.0005, 0.9995], runs, 0.05)
    assert low <= rejections(runs) <= high


def test_samples_can_be_empty():
    points = torch.empty(0, 2, dtype=torch.float64)
    scaling = Scaling(torch.zeros(2).double(), torch.ones(2).double())
    schema = surveyed(*two()).schema
    assert len(scaling.apply(Samples(points, points, schema)).x) == 0
