"""The default: `spectral` on all rows and, where that does not decide, a second test."""

from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import twosample
from twosample import FollowUp, IncompatibleParts, InputError, Stream
from twosample._api import resolve
from twosample._result import format_pvalue
from twosample.bench.datasets import blob


def equal_samples(rows, seed=0, columns=3):
    return np.random.default_rng(seed).normal(size=(2, rows, columns))


def two_steps(share=0.5, least_rows=100):
    """A first test that is blind to blobs, and a second that sees them."""
    second = twosample.mmd_o(permutations=99)
    return replace(twosample.mmd_median(permutations=99), then=FollowUp(second, share, least_rows))


def test_it_is_the_default():
    for function in (twosample.two_sample_test, twosample.compare):
        assert inspect.signature(function).parameters["method"].default == "auto"


def test_few_rows_have_the_first_test_only():
    X, Y = equal_samples(60)
    result = twosample.two_sample_test(X, Y, permutations=99, rng=0)
    same = twosample.two_sample_test(X, Y, "spectral", permutations=99, rng=0)
    assert result.method == "spectral"
    assert (result.pvalue, result.statistic) == (same.pvalue, same.statistic)
    assert result.sizes == (60, 60) and result.train_sizes is None
    assert result.chosen is None and result.to_dict()["chosen"] is None


def test_a_first_test_that_decides_is_all_there_is():
    X, Y = equal_samples(1000)
    result = twosample.two_sample_test(X, Y + 1, permutations=99, rng=0)
    assert result.pvalue == pytest.approx(0.01 / 0.9, rel=1e-12)
    assert result.chosen == "spectral: p = 0.010, which decides at 0.05, so mmd-d was not trained"
    assert result.to_dict()["chosen"] == result.chosen
    assert "mmd-d was not trained" in result._repr_html_()
    assert result.training is None


def test_where_it_does_not_decide_both_count_with_their_shares():
    X, Y = equal_samples(1000, seed=1)
    test = twosample.auto(permutations=99, steps=3)
    result = test.run(X, Y, rng=0)
    first = twosample.spectral(permutations=99).run(X, Y, rng=0)
    second = test.then.test.run(X, Y, rng=0)
    assert result.pvalue == min(1.0, first.pvalue / 0.9, second.pvalue / 0.1) > 0.05
    assert result.chosen == (
        f"spectral: p = {format_pvalue(first.pvalue)}, counted as p / 0.9; "
        f"mmd-d: p = {format_pvalue(second.pvalue)}, counted as p / 0.1"
    )


@pytest.mark.parametrize("columns", [1, 2])
def test_of_one_or_two_columns_views_see_all_there_is(columns):
    X, Y = equal_samples(1000, columns=columns)
    result = twosample.two_sample_test(X, Y, permutations=99, rng=0)
    assert result.method == "spectral" and result.chosen is None
    same = twosample.two_sample_test(X, Y, "spectral", permutations=99, rng=0)
    assert result.pvalue == same.pvalue
    assert result.follow_up is None


def test_the_prediction_counts_the_share_of_the_second_test():
    X, Y = equal_samples(300)
    result = twosample.two_sample_test(X, Y, rng=0)
    plan = twosample.predict_power(result)
    alone = twosample.predict_power(twosample.two_sample_test(X, Y, "spectral", rng=0))
    assert plan.threshold(300) == alone.threshold(300)
    assert plan.threshold(1000) == alone.threshold(1000, alpha=0.045)


def test_the_second_test_may_find_what_the_first_does_not():
    X, Y = blob(360, rng=1)
    result = two_steps().run(X, Y, rng=0)
    assert result.method == "mmd-o" and result.train_sizes == (180, 180)
    assert result.pvalue == 0.01 / 0.5
    assert result.reject(0.05)
    without = two_steps(least_rows=361).run(X, Y, rng=0)
    assert without.method == "mmd-median" and not without.reject(0.05)
    assert without.chosen is None


@pytest.mark.slow
def test_two_tests_keep_the_level():
    rejected = sum(
        two_steps(share=0.3, least_rows=10).run(*equal_samples(30, seed), rng=seed).reject(0.05)
        for seed in range(250)
    )
    # Of 250 runs, with a false alarm in a million; shares only make it reject less.
    assert rejected <= stats.binom.isf(1e-6, 250, 0.05)


def test_options_reach_the_test_that_has_a_use_for_them():
    test = resolve("auto", permutations=49, train_fraction=0.4)
    assert test.calibration.permutations == test.then.test.calibration.permutations == 49
    assert test.learning is None and test.then.test.learning.train_fraction == 0.4
    assert twosample.auto(steps=7).then.test.learning.steps == 7
    with pytest.raises(IncompatibleParts, match="spectral does not train"):
        resolve("spectral", train_fraction=0.4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"share": 0.0}, "share is 0"),
        ({"share": 1.0}, "share is 1"),
        ({"least_rows": 0}, "least_rows is 0"),
        ({"least_columns": 0}, "least_columns is 0"),
    ],
)
def test_shares_that_cannot_be_say_so(options, message):
    with pytest.raises(InputError, match=message):
        FollowUp(twosample.mmd_d(), **options)


def test_streams_have_the_answer_of_the_same_rows_in_memory():
    X, Y = equal_samples(120)
    batches = np.array_split(X, 4)
    here = twosample.two_sample_test(X, Y, permutations=99, rng=0)
    again = twosample.two_sample_test(Stream.batches(batches), Y, permutations=99, rng=0)
    passing = twosample.two_sample_test(iter(batches), Y, permutations=99, rng=0)
    assert here.pvalue == again.pvalue == passing.pvalue
    assert again.method == passing.method == "spectral"


def test_what_is_odd_about_the_rows_is_said_once():
    X = np.random.default_rng(0).normal(size=(1000, 3))
    Y = np.random.default_rng(1).normal(size=(1000, 3))
    X[:, 0] = Y[:, 0] = 3.0
    with pytest.warns(twosample.InputWarning, match="constant") as caught:
        result = twosample.two_sample_test(X, Y, twosample.auto(permutations=99, steps=2), rng=0)
    assert "mmd-d: p" in result.chosen
    assert len(caught) == 1
