"""`testing.assert_same_distribution`: when it fails, what it says, and what it refuses."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import twosample
from twosample import InputError, Stream
from twosample._insight import asserting
from twosample.testing import assert_same_distribution


def normals(n=80, m=70, shift=0.0, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)), rng.normal(size=(m, 2)) + np.array([shift, 0.0])


@pytest.fixture
def runs(monkeypatch):
    """The numbers of permutations of the tests that are run."""
    made = []
    run = twosample.TwoSampleTest.run

    def noted(self, *samples, **options):
        made.append(getattr(self.calibration, "permutations", None))
        return run(self, *samples, **options)

    monkeypatch.setattr(twosample.TwoSampleTest, "run", noted)
    return made


def test_samples_that_do_not_differ_pass_after_a_thousand_shuffles(runs):
    assert assert_same_distribution(*normals()) is None
    assert runs == [999]


def test_samples_that_differ_fail_after_as_many_as_alpha_takes(runs):
    with pytest.raises(AssertionError) as told:
        assert_same_distribution(*normals(shift=2.0), names=("real", "generated"))
    assert runs == [999, 9999]
    first, second = str(told.value).splitlines()
    assert first == (
        "real and generated differ: p = 0.0001, at most alpha = 0.0001 (spectral, 80 + 70 rows)."
    )
    assert second == "Columns that differ by themselves: 0."


def test_pairs_that_go_together_otherwise_are_named():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=["price", "weight", "age"])
    Y = pd.DataFrame(rng.normal(size=(300, 3)), columns=["price", "weight", "age"])
    Y["weight"] = Y["price"] * 0.8 + Y["weight"] * 0.6
    with pytest.raises(AssertionError, match="price and weight go together otherwise"):
        assert_same_distribution(X, Y, alpha=1e-3)


def test_the_same_samples_have_the_same_outcome_every_time(monkeypatch):
    seen = []
    run = twosample.TwoSampleTest.run

    def noted(self, *samples, **options):
        seen.append(run(self, *samples, **options).pvalue)
        return run(self, *samples, **options)

    monkeypatch.setattr(twosample.TwoSampleTest, "run", noted)
    for rng in (None, None, 5):
        assert_same_distribution(*normals(), alpha=0.01, rng=rng)
    assert seen[0] == seen[1] != seen[2]


@pytest.mark.parametrize("alpha", [0.05, 0.02, 1e-3, 3e-4, 1e-4, 7e-5, 1e-5, 1 / 3000])
def test_there_are_just_as_many_permutations_as_alpha_takes(alpha):
    count = asserting._permutations(twosample.mmd_median(permutations=1), alpha)
    assert 1 / (count + 1) <= alpha < 1 / count


def test_the_default_has_room_for_the_second_test_of_auto(runs):
    with pytest.raises(AssertionError):
        assert_same_distribution(*normals(shift=2.0), alpha=1e-3, method="auto")
    assert runs == [999, 1111]  # nine tenths of the level are left


def test_an_assertion_that_cannot_fail_is_refused():
    with pytest.raises(InputError, match=r"5 \+ 4 rows .* below 0\.0079.*could not fail"):
        assert_same_distribution(*normals(5, 4))
    with pytest.raises(InputError, match=r"99 permutations no p-value is below 0\.01,"):
        assert_same_distribution(*normals(), permutations=99)


def test_a_level_that_is_none_is_refused():
    with pytest.raises(InputError, match="alpha is 0"):
        assert_same_distribution(*normals(), alpha=0)


def test_a_law_needs_no_permutations(runs):
    test = twosample.me(2, asymptotic=True, steps=5, restarts=1)
    with pytest.raises(AssertionError, match="p = "):
        assert_same_distribution(*normals(80, 80, shift=3.0), method=test)
    assert runs == [None]


def test_an_iterator_is_read_once(runs):
    X, Y = normals(shift=2.0)
    with pytest.raises(AssertionError, match=r"differ: p = 0\.0001"):
        assert_same_distribution(iter([X[:40], X[40:]]), Stream.batches([Y]))
    assert runs == [9999]


def test_how_often_it_fails_when_nothing_is_wrong():
    """At most alpha of the time; with these numbers more than 14 of 60 have a chance of 2e-7."""
    failed = 0
    for seed in range(60):
        try:
            assert_same_distribution(
                *normals(20, 16, seed=seed), alpha=0.05, method="mmd-median", rng=seed
            )
        except AssertionError:
            failed += 1
    assert failed <= 14
