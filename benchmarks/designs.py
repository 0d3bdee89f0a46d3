"""Tests whose rows depend on each other: their level and power, with the design and by rows.

    python benchmarks/designs.py level [SECONDS] [WORD ...]   level, on from what is kept; of
                                                              scenarios that begin with a word
    python benchmarks/designs.py table                        write the tables into docs/designs.md

Each run of a scenario draws two samples without a difference, and tests them at level 0.05 with the
design that fits; the first 100 runs also as if rows were independent. With 99 permutations the
level of a permutation test is exactly 0.05, as with 999. Networks are trained for 2 steps only:
how well they are trained makes no difference to the level. Results are kept in
benchmarks/results/designs.jsonl, a line for every 100 runs, so the work can be stopped and taken up
at any time.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from scipy.signal import lfilter

import twosample

ALPHA = 0.05
RUNS = 2000
CHUNK = 100  # runs of a line
BY_ROWS = 100  # runs that are also tested by rows
RESULTS = Path(__file__).parent / "results" / "designs.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "designs.md"
MARKS = "<!-- {}: python benchmarks/designs.py table -->", "<!-- end of {} -->"

METHODS = {
    "auto": lambda: twosample.auto(permutations=99),
    "mmd-d": lambda: twosample.mmd_d(permutations=99, steps=2),
    "c2st-l": lambda: twosample.c2st_l(permutations=99, steps=2),
    "mmd-median": lambda: twosample.mmd_median(permutations=99),
}


def of_subjects(correlation, unequal=False):
    """10 + 10 subjects of 3 rows, or of 1 to 5, whose own part of the variance is given."""

    def draw(rng):
        samples = []
        for first in (0, 10):
            sizes = rng.integers(1, 6, size=10) if unequal else np.full(10, 3)
            who = np.repeat(np.arange(10), sizes)
            own = np.sqrt(correlation) * rng.normal(size=(10, 2))[who]
            noise = np.sqrt(1 - correlation) * rng.normal(size=(len(who), 2))
            samples.append((own + noise, who + first))
        (X, of_x), (Y, of_y) = samples
        return X, Y, {"groups": (of_x, of_y)}

    return draw


def of_strata(rng):
    """Three strata 2 apart, in which X and Y have different shares of their 30 rows."""
    of_x = rng.choice(3, size=30, p=[0.6, 0.3, 0.1])
    of_y = rng.choice(3, size=30, p=[0.1, 0.3, 0.6])
    X = rng.normal(size=(30, 2)) + 2 * of_x[:, None]
    Y = rng.normal(size=(30, 2)) + 2 * of_y[:, None]
    return X, Y, {"strata": (of_x, of_y)}


def of_pairs(rng):
    """25 pairs, of which nine tenths of the variance are common to both sides."""
    common = 3 * rng.normal(size=(25, 2))
    pairs = np.arange(25)
    X, Y = common + rng.normal(size=(2, 25, 2))
    return X, Y, {"pairs": (pairs, pairs)}


def autoregression(phi, rows, rng, columns=2):
    """A stationary first-order autoregression."""
    noise = rng.normal(size=(rows + 100, columns))
    return lfilter([1.0], [1.0, -phi], noise, axis=0)[100:]


def of_series(phi, rows=300):
    """A first-order autoregression, cut in the middle; blocks of the default length."""

    def draw(rng):
        series = autoregression(phi, 2 * rows, rng)
        return series[:rows], series[rows:], {"blocks": "auto"}

    return draw


SCENARIOS = {
    "subjects, ICC 0.2": of_subjects(0.2),
    "subjects, ICC 0.5": of_subjects(0.5),
    "subjects of 1 to 5 rows, ICC 0.5": of_subjects(0.5, unequal=True),
    "strata in different proportions": of_strata,
    "pairs": of_pairs,
    "series, phi = 0.5, 300 + 300": of_series(0.5),
    "series, phi = 0.8, 300 + 300": of_series(0.8),
}


def rejects(scenario, method, run):
    """Whether the test with the design rejects, and the one by rows, if it is done."""
    X, Y, design = SCENARIOS[scenario](np.random.default_rng([run, *scenario.encode()]))
    test = METHODS[method]()
    designed = twosample.two_sample_test(X, Y, test, rng=run, **design).reject(ALPHA)
    if run >= BY_ROWS:
        return designed, False
    return designed, twosample.two_sample_test(X, Y, test, rng=run).reject(ALPHA)


def chunk(scenario, method, first):
    """The line of some runs."""
    found = [rejects(scenario, method, run) for run in range(first, first + CHUNK)]
    designed, by_rows = map(sum, zip(*found, strict=True))
    line = {"scenario": scenario, "method": method, "first": first, "runs": CHUNK}
    line["rejected"] = int(designed)
    if first < BY_ROWS:
        line["by_rows"] = int(by_rows)
    return line


def kept():
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text().splitlines()]


def level(seconds, words):
    """Do runs, the next of every scenario and method in turn, until the time is over."""
    done = {(row["scenario"], row["method"], row["first"]) for row in kept()}
    chosen = [name for name in SCENARIOS if not words or name.startswith(tuple(words))]
    began = time.monotonic()
    work = list(itertools.product(range(0, RUNS, CHUNK), chosen, METHODS))
    # What takes longest comes last: views of some hundred rows.
    work.sort(key=lambda one: one[1].startswith("series") and one[2] == "auto")
    with RESULTS.open("a") as file:
        for first, scenario, method in work:
            if (scenario, method, first) in done:
                continue
            if time.monotonic() - began > seconds:
                return
            file.write(json.dumps(chunk(scenario, method, first)) + "\n")
            file.flush()


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", twosample.errors.InputWarning)
    what, *words = sys.argv[1:]
    if what == "level":
        level(float(words[0]) if words else 600.0, words[1:])
