"""The level over many null draws, with the cases of benchmarks/level.py."""

import level  # benchmarks/ is on the path of the tests
import pytest


@pytest.mark.parametrize("name", [name for name, case in level.CASES.items() if case.exact])
def test_level_is_within_exact_binomial_limits(name):
    case, runs = level.CASES[name], 200
    low, high = level.limits(case, runs)
    assert low <= level.rejections(case, runs, seed=12345) <= high


def test_the_limits_are_those_of_the_binomial_law():
    case = level.CASES["mmd-median gaussian 20+20"]
    assert [level.limits(case, runs) for runs in (200, 500, 1000)] == [(0, 28), (5, 52), (20, 87)]


def test_a_test_that_peeks_would_be_caught():
    """Trained and tested on the same points: the error that this file exists to find."""

    class Peeking:
        def run(self, X, Y, *, rng, device, progress):
            test = level.twosample.mmd_d(
                permutations=99, steps=60, learning_rate=1e-2, scale_rate=1e-1
            )
            return test.fit(X, Y, rng=rng, progress=False).test(X, Y, rng=rng)

    peeking = level.Case(Peeking(), "gaussian", (40, 40))
    _, high = level.limits(peeking, 50)
    assert level.rejections(peeking, 50, seed=1) > high
