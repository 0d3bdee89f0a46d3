"""The default: exact by enumeration, at its level, and followed by a trained kernel where that is
said."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import binom

import twosample
from twosample import FollowUp, InputError, Stream, TwoSampleTest
from twosample._api import resolve

CHANCE = 1e-6  # of a false alarm


def normal(rng: np.random.Generator, rows: int) -> np.ndarray:
    return rng.normal(size=(rows, 3))


def discrete(rng: np.random.Generator, rows: int) -> np.ndarray:
    return rng.integers(0, 3, (rows, 2)).astype(float)


def mixed(rng: np.random.Generator, rows: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "x": rng.normal(size=rows).round(1),
            "new": rng.random(rows) < 0.3,
            "kind": rng.choice(["a", "b", "c"], rows),
        }
    )


def heavy(rng: np.random.Generator, rows: int) -> np.ndarray:
    return np.c_[rng.standard_t(3, rows), np.ones(rows)]


def wide(rng: np.random.Generator, rows: int) -> np.ndarray:
    return rng.normal(size=(rows, 12))


def images(rng: np.random.Generator, rows: int) -> np.ndarray:
    return rng.integers(0, 256, (rows, 5, 5), dtype=np.uint8)


DESIGNS = {
    "numbers": (normal, 12, 9),
    "ties": (discrete, 10, 10),
    "mixed": (mixed, 14, 8),
    "heavy tails and a constant": (heavy, 9, 9),
    "wide": (wide, 8, 7),
    "images": (images, 7, 8),
}


def rejections(design: str, runs: int, permutations: int = 19) -> int:
    draw, n, m = DESIGNS[design]
    test = twosample.spectral(permutations=permutations)
    count = 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, n])
        result = test.run(draw(rng, n), draw(rng, m), rng=seed)
        count += result.pvalue <= 0.05
    return count


@pytest.mark.filterwarnings("ignore::twosample.InputWarning")
@pytest.mark.parametrize("design", DESIGNS)
def test_the_level_is_kept(design):
    assert rejections(design, 40) <= binom.ppf(1 - CHANCE, 40, 0.05)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::twosample.InputWarning")
@pytest.mark.parametrize("design", DESIGNS)
def test_the_level_is_kept_over_many_runs(design):
    runs = 300
    count = rejections(design, runs)
    assert count <= binom.ppf(1 - CHANCE, runs, 0.05)
    if design not in ("ties", "mixed"):  # without ties it is not below it, either
        assert count >= binom.ppf(CHANCE, runs, 0.05)


@pytest.mark.filterwarnings("ignore::twosample.InputWarning")
@pytest.mark.parametrize("draw", [normal, discrete, mixed], ids=["numbers", "ties", "mixed"])
def test_over_all_labellings_the_p_value_is_exact(draw):
    """Of all ways to label the pooled rows, a share of at most alpha has p <= alpha."""
    pooled = draw(np.random.default_rng(0), 6)
    test = twosample.spectral()
    pvalues = []
    for into_x in itertools.combinations(range(6), 3):
        chosen = np.isin(np.arange(6), into_x)
        pvalues.append(test.run(pooled[chosen], pooled[~chosen], rng=0).pvalue)
    ordered = np.sort(pvalues)
    grid = np.arange(1, 21) / 20
    assert (ordered >= grid - 1e-12).all()
    if draw is normal:
        # X and Y may change names, so that every value is there twice.
        assert np.allclose(ordered, np.repeat(grid[1::2], 2))


@pytest.mark.parametrize("rows", [30, 1500], ids=["points", "bins"])
def test_a_sample_does_not_differ_from_itself(rows):
    X = normal(np.random.default_rng(0), rows)
    assert twosample.spectral(permutations=99).run(X, X, rng=0).pvalue == 1
    doubled = np.repeat(X[:20], 2, 0)
    test = twosample.spectral(permutations=99)
    assert test.run(doubled, X[:20], rng=0, repeats="allow").pvalue == 1


def test_another_seed_changes_the_draw_and_nothing_else():
    rng = np.random.default_rng(0)
    X, Y = normal(rng, 80), normal(rng, 60) + 0.3
    results = [twosample.spectral(permutations=499).run(X, Y, rng=seed) for seed in range(5)]
    spread = np.std([result.pvalue for result in results])
    assert spread < 0.03
    buffers = [dict(result.fitted.representation.named_buffers()) for result in results]
    for other in buffers[1:]:
        assert all(torch.equal(buffers[0][name], other[name]) for name in other)


# What follows


def followed(
    monkeypatch, p_first: float, p_second: float, rows: int = 20, alpha: float | None = None
):
    """The result of two tests with these p-values, and how often the second was run."""
    rng = np.random.default_rng(0)
    X, Y = normal(rng, rows), normal(rng, rows)
    plain = twosample.mmd_median(permutations=19).run(X, Y, rng=0)
    runs = []

    def run(test, *_):
        runs.append(test.name)
        pvalue = p_first if test.name == "first" else p_second
        return dataclasses.replace(plain, pvalue=pvalue, method=test.name, sizes=(rows, rows))

    monkeypatch.setattr(TwoSampleTest, "_run", run)
    second = dataclasses.replace(twosample.mmd_median(), name="second")
    first = dataclasses.replace(
        twosample.mmd_median(), name="first", then=FollowUp(second, share=0.1, least_rows=20)
    )
    return resolve(first, alpha=alpha).run(X, Y, rng=0), runs


@pytest.mark.parametrize(
    ("p_first", "p_second", "expected", "method"),
    [
        (0.2, 0.001, 0.01, "second"),
        (0.2, 0.5, 0.2 / 0.9, "first"),
        (0.05, 0.005, 0.05, "second"),
        (0.95, 0.95, 1.0, "first"),
    ],
)
def test_the_p_value_of_two_tests(p_first, p_second, expected, method, monkeypatch):
    result, runs = followed(monkeypatch, p_first, p_second)
    assert runs == ["first", "second"]
    assert result.pvalue == pytest.approx(expected)
    assert result.method == method
    assert "first: p = " in result.chosen and "counted as p / 0.9" in result.chosen


def test_the_second_test_is_not_run_where_the_first_decides(monkeypatch):
    result, runs = followed(monkeypatch, 0.045, 0.001)
    assert runs == ["first"]
    assert result.pvalue == pytest.approx(0.05)
    assert result.pvalue <= 0.05
    assert "which decides at 0.05, so second was not trained" in result.chosen


@pytest.mark.parametrize(("alpha", "ran"), [(0.01, ["first", "second"]), (0.05, ["first"])])
def test_the_first_test_decides_at_the_level_that_is_asked_for(monkeypatch, alpha, ran):
    result, runs = followed(monkeypatch, 0.02, 0.0004, alpha=alpha)
    assert runs == ran
    assert result.reject(alpha)


def test_the_level_reaches_the_second_test():
    assert resolve("auto").then.alpha == 0.05
    assert resolve("auto", alpha=0.001).then.alpha == 0.001
    assert resolve("mmd-d", alpha=0.001).then is None


def test_the_second_test_is_not_run_on_few_rows(monkeypatch):
    result, runs = followed(monkeypatch, 0.3, 0.001, rows=19)
    assert runs == ["first"]
    assert result.pvalue == 0.3
    assert result.chosen is None or "second" not in result.chosen


@pytest.mark.parametrize(
    ("options", "message"),
    [({"share": 0.0}, "share"), ({"share": 1.5}, "share"), ({"least_rows": 0}, "least_rows")],
)
def test_a_share_or_a_size_that_makes_no_sense_is_a_sentence(options, message):
    with pytest.raises(InputError, match=message):
        FollowUp(twosample.mmd_median(), **options)


def test_batches_that_can_be_read_only_once_are_enough_for_both_tests():
    rng = np.random.default_rng(0)
    X, Y = normal(rng, 1040), normal(rng, 1000)
    test = twosample.auto(permutations=19, steps=2)

    def batches(rows: np.ndarray):
        yield from np.array_split(rows, 4)

    result = test.run(batches(X), batches(Y), rng=0)
    assert "spectral: p = " in result.chosen and "mmd-d: p = " in result.chosen
    assert result.sizes in ((1040, 1000), (520, 500))


# Streams


def test_a_stream_gives_the_p_value_of_its_rows_in_memory():
    rng = np.random.default_rng(0)
    X, Y = normal(rng, 300), normal(rng, 280) + 0.15
    test = twosample.spectral(permutations=99)
    in_memory = test.run(X, Y, rng=0)
    streams = [Stream.batches(lambda rows=rows: np.array_split(rows, 7)) for rows in (X, Y)]
    streamed = test.run(*streams, rng=0)
    # Scaling by merged moments is rounded in another way.
    assert streamed.pvalue == in_memory.pvalue
    assert streamed.statistic == pytest.approx(in_memory.statistic, rel=1e-5)


def test_a_fitted_test_takes_streams():
    rng = np.random.default_rng(0)
    fitted = twosample.spectral(permutations=99).fit(normal(rng, 90), normal(rng, 90), rng=0)
    X, Y = normal(rng, 120), normal(rng, 110)
    streams = [Stream.batches(lambda rows=rows: np.array_split(rows, 3)) for rows in (X, Y)]
    assert fitted.test(*streams, rng=1).pvalue == fitted.test(X, Y, rng=1).pvalue


# Memory


def test_fewer_bins_move_where_sums_of_features_would_not_fit_into_memory():
    rng = np.random.default_rng(0)
    X, Y = wide(rng, 1200), wide(rng, 1100)
    small = dataclasses.replace(twosample.spectral(permutations=19), memory=2**25)
    usual = twosample.spectral(permutations=19)
    assert "600 + 550 bins of 2 points" in usual.run(X, Y, rng=0).calibration
    result = small.run(X, Y, rng=0)
    statistic = small.statistic
    most = statistic.most_bins(result.fitted.representation, 2**25)
    bins = result.calibrated.prepared.bins
    assert 128 <= most < 1150
    assert most / 3 < bins.moving <= most
    assert statistic.most_bins(result.fitted.representation, 2**20) == 128
