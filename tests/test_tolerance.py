"""Verdicts with a tolerance, and the smallest difference that would have been found."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import polars as pl
import pytest
import torch
from scipy import stats
from typer.testing import CliRunner

import twosample
from twosample import InputError
from twosample._cli.main import build
from twosample._cli.tolerance import status_of, tolerance_from
from twosample._estimators import noncentrality_at_most
from twosample._insight.smallest import smallest_difference
from twosample._insight.tolerance import Margin, auc_of_separation
from twosample._statistics.base import SquaredMMD


def drawn(size, by=0.0, columns=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(size, columns))
    Y = rng.normal(size=(size, columns))
    Y[:, 0] += by
    return X, Y


@pytest.fixture(scope="module")
def alike():
    return twosample.two_sample_test(*drawn(4000), "spectral", permutations=99, rng=0)


@pytest.fixture(scope="module")
def apart():
    return twosample.two_sample_test(*drawn(700, 1.0), "spectral", permutations=99, rng=0)


def verdict(result, **tolerance):
    return dataclasses.replace(result, tolerance=tolerance).verdict


def test_verdicts_without_a_tolerance(alike, apart):
    assert apart.verdict == "differ" and alike.verdict == "no difference found"
    assert apart.decide().sentence() == "The samples differ."


@pytest.mark.parametrize(
    ("unit", "small", "large"), [("auc", 0.501, 0.7), ("spread", 0.001, 0.3), ("mmd", 0.002, 0.3)]
)
def test_three_verdicts(alike, apart, unit, small, large):
    assert verdict(alike, **{unit: large}) == "equivalent"
    assert verdict(alike, **{unit: small}) == "undecided"
    assert verdict(apart, **{unit: small}) == "differ"


def test_a_large_difference_may_be_tolerated(apart):
    """The p-value is small, and the difference does not matter: no contradiction."""
    assert apart.pvalue == 0.01
    assert verdict(apart, spread=1.3) == "equivalent"
    assert verdict(apart, auc=0.95) == "equivalent"


def test_columns_have_margins_of_their_own(apart):
    assert verdict(apart, **{"0": 0.5}) == "differ"
    assert verdict(apart, **{"1": 0.5}) == "equivalent"
    decision = dataclasses.replace(apart, tolerance={"0": 0.5, "1": 0.5}).decide()
    assert decision.verdict == "differ"
    assert [margin.verdict for margin in decision.margins] == ["differ", "equivalent"]
    assert "change of 0 in spreads" in decision.sentence()
    plain = json.loads(json.dumps(decision.to_dict()))
    assert plain["margins"][0]["margin"] == 0.5


def test_no_verdict_of_a_difference_without_a_small_p(apart):
    unsure = dataclasses.replace(apart, pvalue=0.2)
    assert verdict(unsure, auc=0.51) == "undecided"


def test_the_share_missing_counts():
    X = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0] * 100})
    Y = pl.DataFrame({"x": [1.0, 2.0, 3.0, None] * 50 + [1.0, 2.0, 3.0, 4.0] * 50})
    result = twosample.two_sample_test(
        X,
        Y,
        "spectral",
        permutations=99,
        rng=0,
        columns=twosample.Columns(missing="indicator"),
        tolerance={"x": 0.05},
    )
    (margin,) = result.decide().margins
    assert margin.low > 0.05 and result.verdict == "differ"


@pytest.mark.parametrize(
    ("tolerance", "problem"),
    [
        ({}, "give margins by their units"),
        (0.55, "give margins by their units"),
        ({"auc": 0.4}, "between 0.5, which is chance, and 1"),
        ({"spread": -1}, "must be above 0"),
        ({"mmd": "wide"}, "must be a number"),
    ],
)
def test_bad_tolerances_are_refused_before_the_test(tolerance, problem):
    with pytest.raises(InputError, match=problem):
        twosample.two_sample_test(*drawn(20), tolerance=tolerance)


def test_unknown_columns_are_refused(alike):
    with pytest.raises(InputError, match="neither 'auc', 'mmd' or 'spread' nor a column"):
        verdict(alike, price=0.1)


def test_results_and_json_carry_the_verdict(apart):
    result = dataclasses.replace(apart, tolerance={"auc": 0.55})
    record = json.loads(json.dumps(result.to_dict()))
    assert record["verdict"] == "differ" and record["tolerance"][0]["unit"] == "auc"
    assert record["effect"]["auc"] == result.effect.auc and record["smallest_difference"] is None
    assert "differ by more than the tolerance" in str(result)


def test_bounds_decide():
    assert Margin("auc", 0.55, 0.6, 0.56, 0.7, "AUC").verdict == "differ"
    assert Margin("auc", 0.55, 0.6, 0.54, 0.56, "AUC").verdict == "undecided"
    assert Margin("auc", 0.55, 0.5, 0.49, 0.54, "AUC").verdict == "equivalent"


def test_noncentralities_are_those_of_scipy():
    values = torch.tensor([30.0, 3.0])
    degrees = torch.tensor([20.0, 30.0])
    first, second = noncentrality_at_most(values.double(), degrees.double(), 0.05).tolist()
    assert stats.ncx2.cdf(30.0, 20.0, first) == pytest.approx(0.05)
    assert second == 0.0  # rare even without any


def test_a_separation_has_an_auc():
    assert auc_of_separation(0.0) == 0.5
    rng = np.random.default_rng(0)
    x, y = rng.normal(1, 1, 4000), rng.normal(0, 1, 4000)
    share = stats.mannwhitneyu(x, y).statistic / 4000**2
    assert auc_of_separation(1.0) == pytest.approx(share, abs=0.02)


def test_no_witness_is_better_than_the_bound(alike, apart):
    for result, truth in ((alike, 0.0), (apart, 1.0)):
        bound = result.fitted.spec.statistic.separation_at_most(result.calibrated.prepared, 0.05)
        assert truth < bound < truth + 2.0
    few = twosample.two_sample_test(*drawn(40), "spectral", permutations=19, rng=0)
    assert few.fitted.spec.statistic.separation_at_most(few.calibrated.prepared, 0.05) == math.inf
    assert verdict(few, auc=0.99) == "undecided"


def test_the_error_at_a_margin_bounds_that_of_the_kernel():
    """A linear kernel on one column: MMD^2 = shift^2, with variance 4 shift^2 (1/n + 1/m) + ..."""
    found = SquaredMMD(0.0, 0.0, largest=1.0, squares=1.0)
    n = m = 200
    rng = np.random.default_rng(0)
    x = rng.normal(0.3, 1, (2000, n)).mean(1) - rng.normal(size=(2000, m)).mean(1)
    assert found.error_at(0.09, n, m) == pytest.approx((x**2).std(), rel=0.06)


# The smallest difference.


@pytest.mark.slow
def test_it_is_found_as_often_as_it_says():
    """Planted into new samples, it is found in most of them; half of it, in few."""
    null = twosample.two_sample_test(*drawn(150), "spectral", permutations=99, rng=0)
    shift = null.smallest_difference.shift
    assert 0.3 < shift < 0.8
    found = [0, 0]
    for place, by in enumerate((shift, shift / 2)):
        for seed in range(1, 13):
            result = twosample.two_sample_test(
                *drawn(150, by, seed=seed), "spectral", permutations=99, rng=0
            )
            found[place] += result.reject()
    # With power 0.8, fewer than 6 of 12 have a chance of 0.4 %.
    assert found[0] >= 6 and found[1] < found[0]


def test_it_shrinks_with_the_rows_and_grows_with_the_power():
    results = [
        twosample.two_sample_test(*drawn(size), "mmd-median", permutations=99, rng=0)
        for size in (100, 400)
    ]
    first, second = (result.smallest_difference.mmd for result in results)
    assert second == pytest.approx(first / 2, rel=0.3)  # as the root of the rows
    assert smallest_difference(results[0], 0.95).mmd > first
    assert smallest_difference(results[0], alpha=0.001) is None  # 99 shuffles are too few
    assert "An MMD of" in results[0].smallest_difference.sentence()


def test_other_tests_have_units_of_their_own():
    X, Y = drawn(100)
    by_features = twosample.me(permutations=99, steps=5, restarts=1).run(X, Y, rng=0)
    assert 0.5 < by_features.smallest_difference.auc < 0.9
    images = np.random.default_rng(0).integers(0, 255, (60, 5, 5), dtype=np.uint8)
    seen = twosample.two_sample_test(images[:30], images[30:], "spectral", permutations=99, rng=0)
    assert 0.5 < seen.smallest_difference.auc < 1 and seen.smallest_difference.shift is None
    letters = np.random.default_rng(0).choice(list("abc"), 400)
    frames = [pl.DataFrame({"kind": part}) for part in (letters[:200], letters[200:])]
    levels = twosample.two_sample_test(*frames, "spectral", permutations=99, rng=0)
    assert 0.08 < levels.smallest_difference.share < 0.3
    assert "percentage points" in str(levels)


def test_it_is_said_where_nothing_was_found():
    result = twosample.two_sample_test(*drawn(80), "spectral", permutations=99, rng=0)
    assert str(result).endswith("would have been found with power 0.8.")
    assert result.to_dict()["smallest_difference"]["power"] == 0.8


def test_it_is_said_at_the_level_of_the_caller():
    """No p-value of 99 permutations is below 0.001, so nothing would have been found there."""
    result = twosample.two_sample_test(*drawn(80, 2.0), "spectral", permutations=99, rng=0)
    assert result.pvalue == 0.01
    assert result.to_dict(0.001)["smallest_difference"] is None
    assert result.to_dict(0.001)["verdict"] == "no difference found"
    assert "would have been found" not in result.summary(alpha=0.001)
    assert "would have been found" not in result.report(alpha=0.001)._repr_html_()
    alike = twosample.two_sample_test(*drawn(80), "spectral", permutations=99, rng=0)
    at_other = smallest_difference(alike, alpha=0.2)
    assert at_other.shift < alike.smallest_difference.shift
    assert alike.to_dict(0.2)["smallest_difference"] == at_other.to_dict()
    assert at_other.sentence() in alike.summary(alpha=0.2)


# Many samples, and the command line.


def test_compare_takes_a_tolerance():
    X, Y = drawn(500, 1.0)
    samples = {"same": drawn(500, seed=3)[0], "other": Y}
    compared = twosample.compare(
        X, samples, "spectral", permutations=99, rng=0, tolerance={"spread": 0.3}
    )
    assert compared.verdicts == {"same": "equivalent", "other": "differ"}
    assert "equivalent" in str(compared)
    assert [each["verdict"] for each in compared.to_dict()["samples"]] == ["equivalent", "differ"]


def test_tolerances_on_the_command_line():
    assert tolerance_from(["auc=0.55", "a=b=2"]) == {"auc": 0.55, "a=b": 2.0}
    assert tolerance_from(None) is None
    for bad in ("auc", "auc=", "=3", "auc=x"):
        with pytest.raises(InputError, match="is no UNIT=NUMBER"):
            tolerance_from([bad])
    assert status_of("equivalent") == 0 and status_of("undecided", "differ") == 1
    assert status_of("undecided") == 3 and status_of("undecided", undecided=False) == 0


def test_the_exit_status_is_the_verdict(tmp_path):
    X, Y = drawn(300, 1.0)
    for name, rows in (("x", X), ("y", Y), ("z", drawn(300, seed=1)[0])):
        np.save(tmp_path / f"{name}.npy", rows)

    def call(other, *options):
        paths = [str(tmp_path / f"{name}.npy") for name in ("x", other)]
        command = ["test", *paths, "--seed", "0", "--method", "spectral", "--permutations", "99"]
        return CliRunner().invoke(build(), [*command, *options])

    assert call("y", "--tolerance", "0=0.2", "--exit-by-verdict").exit_code == 1
    assert call("z", "--tolerance", "0=0.05", "--exit-by-verdict").exit_code == 3
    tolerated = call("z", "--tolerance", "spread=0.5", "--fail-on-reject", "--json")
    assert tolerated.exit_code == 0
    assert json.loads(tolerated.stdout)["verdict"] == "equivalent"
    nothing = call("z")
    assert "could find" in nothing.stdout and "AUC" in nothing.stdout


def test_rows_that_depend_on_each_other_have_no_intervals():
    """A design says so; bounds that take rows as independent would be too narrow."""
    X, Y = drawn(40, 1.0)
    subjects = np.repeat(np.arange(10), 4)
    design = {"groups": (subjects, subjects + 10)}
    result = twosample.two_sample_test(X, Y, "spectral", permutations=99, rng=0, **design)
    assert result.effect.auc_interval is None and result.effect.mmd2_interval is None
    assert all(column.interval is None for column in result.columns)
    assert all(column.effect_interval is None for column in result.columns)
    assert result.smallest_difference is None
    with pytest.raises(twosample.IncompatibleParts, match="takes independent rows"):
        verdict(result, auc=0.6)
    assert "<section" in result.report().html
