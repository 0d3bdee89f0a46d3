"""The level over many null draws, with the cases of benchmarks/level.py."""

import level  # benchmarks/ is on the path of the tests
import pytest

EXACT = [name for name, case in level.CASES.items() if case.exact]

# One of each way to learn, to permute and to compare: a broken level is seen in seconds.
SENTINELS = [
    "mmd-d gaussian 60+24",
    "mmd-d images, batch 24+32",
    "mmd-o discrete 40+30",
    "mmd-median gaussian 50+12",
    "mmd-mkl gaussian 60+24",
    "mmd-block gaussian 60+60",
    "mmd-compressed gaussian 60+60",
    "compressed, 9 landmarks, discrete, 70+45",
    "me gaussian 60+60",
    "scf gaussian 60+60",
    "c2st-s gaussian 40+40",
    "c2st-l gaussian 60+24",
    "c2st-l, scikit-learn 60+24",
    "bins of 5, leftovers, 203+44",
    "bins of 5, at most 12 move, 200+40",
    "biased 20+30",
    "paired, bins of 3, 35+35",
    "swaps, biased 30+20",
    "swaps, paired 25+25",
    "T-squared of pairs by swaps 40+40",
]


def assert_level(name, runs):
    case = level.CASES[name]
    low, high = level.limits(case, runs)
    assert low <= level.rejections(case, runs, seed=12345) <= high


@pytest.mark.parametrize("name", SENTINELS)
def test_level_of_a_few_runs_is_within_exact_binomial_limits(name):
    trained = level.CASES[name].test.learning is not None
    assert_level(name, runs=25 if trained else 100)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:More than 20 interquartile ranges")  # of heavy tails
@pytest.mark.parametrize("name", EXACT)
def test_level_is_within_exact_binomial_limits(name):
    assert_level(name, runs=200)


def test_the_limits_are_those_of_the_binomial_law():
    case = level.CASES["mmd-median gaussian 20+20"]
    assert [level.limits(case, runs) for runs in (200, 500, 1000)] == [(0, 28), (5, 52), (20, 87)]


@pytest.mark.parametrize("runs", [10, pytest.param(50, marks=pytest.mark.slow)])
def test_a_test_that_peeks_would_be_caught(runs):
    """Trained and tested on the same points: the error that this file exists to find."""

    class Peeking:
        def run(self, X, Y, *, rng, device, progress):
            test = level.twosample.mmd_d(
                permutations=99, steps=60, learning_rate=1e-2, scale_rate=1e-1
            )
            return test.fit(X, Y, rng=rng, progress=False).test(X, Y, rng=rng)

    peeking = level.Case(Peeking(), "gaussian", (40, 40))
    _, high = level.limits(peeking, runs)
    assert level.rejections(peeking, runs, seed=1) > high
