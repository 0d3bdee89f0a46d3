"""The level of every test: rejections at 0.05 over many null draws, against exact binomial limits.

    python benchmarks/level.py [RUNS] [CASE ...]       500 runs of every case by default

Each run draws two samples of one distribution, trains where the method trains (briefly: the level
does not depend on it), and tests with 99 permutations. The limits allow a false alarm once in a
million; where p-values can tie (discrete data), only the upper one is a law. Limiting laws are not
exact at any size: their level is reported.
"""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

import twosample
from twosample import (
    MMD,
    Asymptotic,
    ConvNet,
    Gaussian,
    HotellingT2,
    MeanEmbedding,
    PairSwap,
    Permutation,
    SpectralLimit,
    TwoSampleTest,
)
from twosample._methods import ABLATIONS

ALPHA = 0.05


@dataclass(frozen=True)
class Case:
    """A test, what it is given under the null, whether its p-values can tie, and whether it is
    exact.
    """

    test: TwoSampleTest
    data: str
    sizes: tuple[int, int]
    ties: bool = False
    exact: bool = True


def draw(data, sizes, rng):
    """Two samples of one distribution."""
    pooled = sum(sizes)
    if data == "gaussian":
        points = rng.normal(size=(pooled, 2)) * [1.0, 100.0]
    elif data == "discrete":  # few distinct points, so that many shuffles tie
        points = rng.integers(0, 3, size=(pooled, 2)).astype(float)
    elif data == "heavy":
        points = rng.standard_t(1, size=(pooled, 3))
    else:  # small images with a pattern of their own each
        points = (
            rng.normal(size=(pooled, 1, 1)) * 40 + rng.normal(size=(pooled, 8, 8)) * 40 + 128
        ).clip(0, 255)
        points = points.astype(np.uint8)
    return points[: sizes[0]], points[sizes[0] :]


def quick(test_of, **options):
    """Few steps, in the second stage of a training too."""
    test = test_of(permutations=99, steps=4, **options)
    return dataclasses.replace(test, learning=dataclasses.replace(test.learning, steps=4))


def fixed(calibration=None, estimator="unbiased", **options):
    return TwoSampleTest(
        Gaussian(0.5),
        statistic=MMD(estimator, **options),
        calibration=calibration or Permutation(99),
    )


def features(test_of, count=5):
    return test_of(count, permutations=99, steps=4, restarts=1)


def law(test_of):
    return test_of(asymptotic=True, steps=4, restarts=1)


def given_locations(statistic=None, calibration=None):
    locations = torch.tensor([[0.0, 0.0], [1.0, -1.0]])
    return TwoSampleTest(
        MeanEmbedding(locations, Gaussian(1.0)),
        statistic=statistic or HotellingT2(),
        calibration=calibration or Permutation(99),
    )


CASES = {
    "mmd-d gaussian 40+40": Case(quick(twosample.mmd_d), "gaussian", (40, 40)),
    "mmd-d gaussian 60+24": Case(quick(twosample.mmd_d), "gaussian", (60, 24)),
    "mmd-d discrete 40+30": Case(quick(twosample.mmd_d), "discrete", (40, 30), ties=True),
    "mmd-d heavy tails 30+50": Case(quick(twosample.mmd_d), "heavy", (30, 50)),
    "mmd-d images, frozen 24+32": Case(quick(twosample.mmd_d), "images", (24, 32)),
    "mmd-d images, batch 24+32": Case(
        quick(twosample.mmd_d, featurizer=ConvNet(normalisation="batch")), "images", (24, 32)
    ),
    "mmd-o gaussian 40+40": Case(quick(twosample.mmd_o), "gaussian", (40, 40)),
    "mmd-o gaussian 60+24": Case(quick(twosample.mmd_o), "gaussian", (60, 24)),
    "mmd-o discrete 40+30": Case(quick(twosample.mmd_o), "discrete", (40, 30), ties=True),
    "mmd-median gaussian 20+20": Case(twosample.mmd_median(permutations=99), "gaussian", (20, 20)),
    "mmd-median gaussian 50+12": Case(twosample.mmd_median(permutations=99), "gaussian", (50, 12)),
    "mmd-median discrete 20+15": Case(
        twosample.mmd_median(permutations=99), "discrete", (20, 15), ties=True
    ),
    "c2st-s gaussian 40+40": Case(quick(twosample.c2st_s), "gaussian", (40, 40), ties=True),
    "c2st-s gaussian 60+24": Case(quick(twosample.c2st_s), "gaussian", (60, 24), ties=True),
    "c2st-l gaussian 40+40": Case(quick(twosample.c2st_l), "gaussian", (40, 40)),
    "c2st-l gaussian 60+24": Case(quick(twosample.c2st_l), "gaussian", (60, 24)),
    "c2st-l discrete 40+30": Case(quick(twosample.c2st_l), "discrete", (40, 30), ties=True),
    "bins of 5, 200+40": Case(fixed(Permutation(99, bins=8)), "gaussian", (200, 40)),
    "bins of 5, leftovers, 203+44": Case(fixed(Permutation(99, bins=8)), "gaussian", (203, 44)),
    "bins of 5, at most 12 move, 200+40": Case(
        fixed(Permutation(99, bins=8, max_bins=12)), "gaussian", (200, 40)
    ),
    "bins of 8, discrete, 70+45": Case(
        fixed(Permutation(99, bins=5)), "discrete", (70, 45), ties=True
    ),
    "biased 20+30": Case(fixed(estimator="biased"), "gaussian", (20, 30)),
    "paired 25+25": Case(fixed(estimator="paired"), "gaussian", (25, 25)),
    "paired, bins of 3, 35+35": Case(
        fixed(Permutation(99, bins=10), estimator="paired"), "gaussian", (35, 35)
    ),
    "mmd-d gaussian 200+200": Case(quick(twosample.mmd_d), "gaussian", (200, 200)),
    "mmd-o gaussian 200+120": Case(quick(twosample.mmd_o), "gaussian", (200, 120)),
    "mmd-mkl gaussian 40+40": Case(twosample.mmd_mkl(permutations=99), "gaussian", (40, 40)),
    "mmd-mkl gaussian 60+24": Case(twosample.mmd_mkl(permutations=99), "gaussian", (60, 24)),
    "mmd-block gaussian 60+60": Case(quick(twosample.mmd_block), "gaussian", (60, 60)),
    "mmd-block gaussian 200+90": Case(quick(twosample.mmd_block), "gaussian", (200, 90)),
    "mmd-block, normal law 200+200": Case(
        twosample.mmd_block(steps=4, asymptotic=True), "gaussian", (200, 200), exact=False
    ),
    "mmd-compressed gaussian 60+60": Case(quick(twosample.mmd_compressed), "gaussian", (60, 60)),
    "compressed, 20 landmarks, bins of 5, 203+44": Case(
        fixed(Permutation(99, bins=8), estimator="compressed", landmarks=20), "gaussian", (203, 44)
    ),
    "compressed, 9 landmarks, discrete, 70+45": Case(
        fixed(estimator="compressed", landmarks=9), "discrete", (70, 45), ties=True
    ),
    "me gaussian 60+60": Case(features(twosample.me, 2), "gaussian", (60, 60)),
    "me gaussian 200+200, 100 to test": Case(features(twosample.me), "gaussian", (200, 200)),
    "me gaussian 90+50": Case(features(twosample.me, 3), "gaussian", (90, 50)),
    "me discrete 60+40": Case(given_locations(), "discrete", (60, 40), ties=True),
    "me, chi-squared 200+200, 100 to test": Case(
        law(twosample.me), "gaussian", (200, 200), exact=False
    ),
    "scf gaussian 60+60": Case(features(twosample.scf, 2), "gaussian", (60, 60)),
    "scf gaussian 200+200, 100 to test": Case(features(twosample.scf), "gaussian", (200, 200)),
    "scf gaussian 90+50": Case(features(twosample.scf, 2), "gaussian", (90, 50)),
    "scf, chi-squared 200+200, 100 to test": Case(
        law(twosample.scf), "gaussian", (200, 200), exact=False
    ),
    "T-squared of pairs by swaps 40+40": Case(
        given_locations(HotellingT2(paired=True), PairSwap(99)), "gaussian", (40, 40)
    ),
    "T-squared, chi-squared, unequal 90+50": Case(
        given_locations(HotellingT2(), Asymptotic()), "gaussian", (90, 50), exact=False
    ),
    "c2st-s, binomial law 60+60": Case(
        twosample.c2st_s(steps=4, asymptotic=True), "gaussian", (60, 60), ties=True, exact=False
    ),
    "c2st-s, binomial law 80+40": Case(
        twosample.c2st_s(steps=4, asymptotic=True), "gaussian", (80, 40), ties=True, exact=False
    ),
    "c2st-s, greater 60+24": Case(
        quick(twosample.c2st_s, alternative="greater"), "gaussian", (60, 24), ties=True
    ),
    "c2st-l, greater 60+24": Case(
        quick(twosample.c2st_l, alternative="greater"), "gaussian", (60, 24)
    ),
    "c2st-l, probability 40+30": Case(
        quick(twosample.c2st_l, probability=True), "gaussian", (40, 30)
    ),
    "c2st-l, scikit-learn 60+24": Case(
        twosample.c2st_l(classifier=LogisticRegression(), permutations=99), "gaussian", (60, 24)
    ),
    "c2st-trees gaussian 60+40": Case(twosample.c2st_trees(permutations=99), "gaussian", (60, 40)),
    "c2st-s, scikit-learn 60+24": Case(
        twosample.c2st_s(classifier=LogisticRegression(), permutations=99),
        "gaussian",
        (60, 24),
        ties=True,
    ),
    "swaps, paired 25+25": Case(fixed(PairSwap(99), "paired"), "gaussian", (25, 25)),
    "swaps, biased 30+20": Case(fixed(PairSwap(99), "biased"), "gaussian", (30, 20)),
    "swaps, bins of 3, discrete 35+35": Case(
        fixed(PairSwap(99, bins=10), "paired"), "discrete", (35, 35), ties=True
    ),
    "spectral 40+40": Case(fixed(SpectralLimit(499)), "gaussian", (40, 40), exact=False),
    "spectral 200+120": Case(fixed(SpectralLimit(499)), "gaussian", (200, 120), exact=False),
    **{
        f"{column} gaussian 40+40": Case(
            quick(twosample.ablation, column=column), "gaussian", (40, 40)
        )
        for column in ABLATIONS
        if column not in ("S+C", "L+C", "D+J")  # c2st-s, c2st-l and mmd-d
    },
}


def rejections(case: Case, runs: int, seed: int) -> int:
    """How often the case's test rejects a true null hypothesis."""
    count = 0
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        count += case.test.run(
            *draw(case.data, case.sizes, rng), rng=rng, device="cpu", progress=False
        ).reject(ALPHA)
    return count


def limits(case: Case, runs: int) -> tuple[int, int]:
    """The numbers of rejections that an exact test stays within but for once in a million."""
    if not case.exact:
        return 0, runs
    low = binom.ppf(5e-7, runs, ALPHA)
    high = binom.isf(5e-7, runs, ALPHA)
    return (0 if case.ties else int(low)), int(high)


if __name__ == "__main__":
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    names = sys.argv[2:] or list(CASES)
    print("| case | runs | rejections | share | allowed |")
    print("|---|---|---|---|---|")
    failed = False
    for number, name in enumerate(names):
        low, high = limits(CASES[name], runs)
        count = rejections(CASES[name], runs, seed=number)
        failed |= not low <= count <= high
        allowed = f"{low} to {high}" if CASES[name].exact else "reported: asymptotic"
        print(f"| {name} | {runs} | {count} | {count / runs:.3f} | {allowed} |", flush=True)
    sys.exit(failed)
