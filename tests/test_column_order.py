"""The order of named columns changes nothing: not the statistic, not the p-value, not a bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import same_answers
import twosample
from twosample import Columns, Stream

ORDER = ["when", "a", "size", "10", "flag", "9", "colour"]
INDICATOR = Columns(missing="indicator")


def table(rows: int, seed: int, drift: float = 0.0) -> pd.DataFrame:
    """Numbers, truths, a category, and gaps in each of them."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(drift, 1, (rows, 5)), columns=["a", "9", "10", "size", "when"])
    frame["when"] = np.exp(3 * frame["when"])  # has extreme values
    frame["flag"] = pd.array(rng.random(rows) < 0.4, dtype="boolean")
    frame["colour"] = pd.Series(rng.choice(["red", "blue", "green"], rows), dtype="string")
    for name in ("a", "flag", "colour"):
        frame.loc[rng.random(rows) < 0.1, name] = None if name == "a" else pd.NA
    return frame


X = table(70, 0)
Y = table(60, 1, drift=0.3)
PAIRS = [(X[ORDER], Y[ORDER]), (X[ORDER], Y)]

pytestmark = pytest.mark.filterwarnings("ignore::twosample.InputWarning")


def quick(method: str) -> twosample.TwoSampleTest:
    test = twosample.METHODS[method](permutations=19)
    if test.learning is None or method == "c2st-trees":  # which takes no steps
        return test
    return replace(test, learning=replace(test.learning, steps=5))


@pytest.mark.parametrize("method", twosample.METHODS)
def test_shuffled_columns_give_the_same_answer(method):
    test = quick(method)
    first = test.run(X, Y, rng=0, columns=INDICATOR)
    for x, y in PAIRS:
        other = test.run(x, y, rng=0, columns=INDICATOR)
        assert other.statistic == first.statistic
        assert other.pvalue == first.pvalue
        assert np.array_equal(other.null_distribution, first.null_distribution)


@pytest.mark.parametrize("method", ["c2st-l", "mmd-median"])
def test_shuffled_columns_of_a_stream_give_the_same_answer(method):
    def stream(frame: pd.DataFrame) -> Stream:
        parts = [frame[:25], frame[25:][frame.columns[::-1]]]  # batches in orders of their own
        return Stream.batches(parts)

    test = quick(method)
    first = test.run(stream(X), stream(Y), rng=0, columns=INDICATOR)
    for x, y in PAIRS:
        other = test.run(stream(x), stream(y), rng=0, columns=INDICATOR)
        assert (other.statistic, other.pvalue) == (first.statistic, first.pvalue)


def test_a_fitted_test_and_what_explains_it_do_not_depend_on_the_order(tmp_path):
    fits = [quick("c2st-l").fit(x, y, rng=0, columns=INDICATOR) for x, y in ((X, Y), *PAIRS)]
    results = [fitted.test(X, Y[ORDER], rng=1) for fitted in fits]
    assert len({result.statistic for result in results}) == 1
    explained = [twosample.explain(result, shuffles=1, rng=0) for result in results[:2]]
    assert explained[0].columns == explained[1].columns
    names = [column.name for column in explained[0].columns]
    assert names == ["9", "10", "a", "colour", "flag", "size", "when"]


def test_numbers_as_names_are_columns_of_an_array():
    points = np.random.default_rng(0).normal(size=(40, 12))
    frame = pd.DataFrame(points)
    backwards = frame[frame.columns[::-1]]
    plain = twosample.as_samples(points[:20], points[20:])
    for x, y in ((frame[:20], backwards[20:]), (backwards[:20], backwards[20:])):
        assert torch.equal(twosample.as_samples(x, y).pooled(), plain.pooled())


def test_arrays_keep_their_order():
    points = np.random.default_rng(0).normal(size=(40, 12))
    samples = twosample.as_samples(points[:20], points[20:])
    assert np.array_equal(samples.pooled().numpy(), points)


def test_a_saved_test_keeps_the_order_it_was_fitted_with():
    fit = same_answers.FITS["table"]
    fitted = twosample.load(same_answers.SAVED / "unsorted-table.safetensors")
    assert [column.name for column in fitted.schema.columns] == ["amount", "new", "colour"]
    x, y = fit.fresh()
    for sample in (x, x[list(x.columns[::-1])]):
        result = fitted.test(sample, y, rng=5)
        # As it was recorded before columns were sorted.
        assert result.statistic == pytest.approx(0.0021797709095057252, rel=1e-2)
        assert result.pvalue == 0.33
