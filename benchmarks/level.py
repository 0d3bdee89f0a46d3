"""The level of every test: rejections at 0.05 over many null draws, against exact binomial limits.

    python benchmarks/level.py [RUNS] [CASE ...]       500 runs of every case by default

Each run draws two samples of one distribution, trains where the method trains (briefly: the level does not depend on
it), and tests with 99 permutations. The limits allow a false alarm once in a million; where p-values can
tie (discrete data), only the upper one is a law.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

import twosample
from twosample import MMD, ConvNet, Gaussian, Permutation, TwoSampleTest

ALPHA = 0.05


@dataclass(frozen=True)
class Case:
    """A test, what it is given under the null, and whether its p-values can tie."""

    test: TwoSampleTest
    data: str
    sizes: tuple[int, int]
    ties: bool = False


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
        points = (rng.normal(size=(pooled, 1, 1)) * 40 + rng.normal(size=(pooled, 8, 8)) * 40 + 128).clip(0, 255)
        points = points.astype(np.uint8)
    return points[: sizes[0]], points[sizes[0] :]


def quick(test_of, **options):
    return test_of(permutations=99, steps=4, **options)


def fixed(calibration=None, estimator="unbiased"):
    return TwoSampleTest(Gaussian(0.5), statistic=MMD(estimator), calibration=calibration or Permutation(99))


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
    "mmd-median discrete 20+15": Case(twosample.mmd_median(permutations=99), "discrete", (20, 15), ties=True),
    "c2st-s gaussian 40+40": Case(quick(twosample.c2st_s), "gaussian", (40, 40), ties=True),
    "c2st-s gaussian 60+24": Case(quick(twosample.c2st_s), "gaussian", (60, 24), ties=True),
    "c2st-l gaussian 40+40": Case(quick(twosample.c2st_l), "gaussian", (40, 40)),
    "c2st-l gaussian 60+24": Case(quick(twosample.c2st_l), "gaussian", (60, 24)),
    "c2st-l discrete 40+30": Case(quick(twosample.c2st_l), "discrete", (40, 30), ties=True),
    "bins of 5, 200+40": Case(fixed(Permutation(99, bins=8)), "gaussian", (200, 40)),
    "bins of 5, leftovers, 203+44": Case(fixed(Permutation(99, bins=8)), "gaussian", (203, 44)),
    "bins of 5, at most 12 move, 200+40": Case(fixed(Permutation(99, bins=8, max_bins=12)), "gaussian", (200, 40)),
    "bins of 8, discrete, 70+45": Case(fixed(Permutation(99, bins=5)), "discrete", (70, 45), ties=True),
    "biased 20+30": Case(fixed(estimator="biased"), "gaussian", (20, 30)),
    "paired 25+25": Case(fixed(estimator="paired"), "gaussian", (25, 25)),
    "paired, bins of 3, 35+35": Case(fixed(Permutation(99, bins=10), estimator="paired"), "gaussian", (35, 35)),
}


def rejections(case: Case, runs: int, seed: int) -> int:
    """How often the case's test rejects a true null hypothesis."""
    count = 0
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        count += case.test.run(*draw(case.data, case.sizes, rng), rng=rng, device="cpu", progress=False).reject(ALPHA)
    return count


def limits(case: Case, runs: int) -> tuple[int, int]:
    """The numbers of rejections that an exact test stays within but for once in a million."""
    low, high = binom.ppf(5e-7, runs, ALPHA), binom.isf(5e-7, runs, ALPHA)
    return (0 if case.ties else int(low)), int(high)


if __name__ == "__main__":
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    names = sys.argv[2:] or list(CASES)
    print("| case | runs | rejections | share | allowed |")
    print("|---|---|---|---|---|")
    failed = False
    for number, name in enumerate(names):
        low, high = limits(CASES[name], runs)
        found = rejections(CASES[name], runs, seed=number)
        failed |= not low <= found <= high
        print(f"| {name} | {runs} | {found} | {found / runs:.3f} | {low} to {high} |", flush=True)
    sys.exit(failed)
