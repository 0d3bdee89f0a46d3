"""The level over many null draws, with the cases of benchmarks/level.py."""

import importlib.util
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("level", Path(__file__).parents[1] / "benchmarks" / "level.py")
level = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(level)


@pytest.mark.parametrize("name", level.CASES)
def test_level_is_within_exact_binomial_limits(name):
    case, runs = level.CASES[name], 200
    low, high = level.limits(case, runs)
    assert low <= level.rejections(case, runs, seed=12345) <= high


def test_the_limits_are_those_of_the_binomial_law():
    case = level.CASES["mmd-median gaussian 20+20"]
    assert [level.limits(case, runs) for runs in (200, 500, 1000)] == [(0, 28), (5, 52), (20, 87)]


def test_a_test_that_peeks_would_be_caught():
    """Trained and tested on the same points: the error that this file exists to find."""
    case = level.CASES["mmd-d gaussian 40+40"]

    class Peeking:
        def run(self, X, Y, *, rng, device, progress):
            return (
                level.twosample.mmd_d(permutations=99, steps=30).fit(X, Y, rng=rng, progress=False).test(X, Y, rng=rng)
            )

    peeking = level.Case(Peeking(), case.data, case.sizes)
    _, high = level.limits(peeking, 100)
    assert level.rejections(peeking, 100, seed=1) > high
