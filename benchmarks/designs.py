"""The level of tests whose rows depend on each other: with the design, and with rows permuted.

    python benchmarks/designs.py run [SECONDS] [METHOD ...]    go on from what is kept, for so long
                                                               (of large samples 100 runs)
    python benchmarks/designs.py table                         write the table into docs/designs.md

Each run draws two samples without a difference, and tests them twice at level 0.05 with 199
permutations: with the design that fits, and as if rows were independent. Runs are kept in
benchmarks/results/designs.jsonl, one line each; a run is known by its scenario, method and seed, so
the work can be stopped and taken up at any time. Networks are trained for 60 steps: the level does
not depend on how well they are trained.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy.stats import binom

import twosample

ALPHA = 0.05
FEWEST = 50  # runs, for a share to be shown
RESULTS = Path(__file__).parent / "results" / "designs.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "designs.md"
BEGIN = "<!-- levels: python benchmarks/designs.py table -->"
END = "<!-- end of levels -->"

METHODS = {
    "auto": lambda: twosample.auto(permutations=199, steps=60),
    "mmd-median": lambda: twosample.mmd_median(permutations=199),
    "mmd-d": lambda: twosample.mmd_d(permutations=199, steps=60),
    "c2st-l": lambda: twosample.c2st_l(permutations=199, steps=60),
}


def of_subjects(correlation, unequal=False):
    """20 + 20 subjects of 10 rows, or of 1 to 19, whose own part of the variance is given."""

    def draw(rng):
        samples = []
        for first in (0, 20):
            sizes = rng.integers(1, 20, size=20) if unequal else np.full(20, 10)
            who = np.repeat(np.arange(20), sizes)
            own = np.sqrt(correlation) * rng.normal(size=(20, 2))[who]
            noise = np.sqrt(1 - correlation) * rng.normal(size=(len(who), 2))
            samples.append((own + noise, who + first))
        (X, of_x), (Y, of_y) = samples
        return X, Y, {"groups": (of_x, of_y)}

    return draw


def of_strata(rng):
    """Four strata 2 apart, in which X and Y have different shares of their 200 rows."""
    of_x = rng.choice(4, size=200, p=[0.4, 0.3, 0.2, 0.1])
    of_y = rng.choice(4, size=200, p=[0.1, 0.2, 0.3, 0.4])
    X = rng.normal(size=(200, 2)) + 2 * of_x[:, None]
    Y = rng.normal(size=(200, 2)) + 2 * of_y[:, None]
    return X, Y, {"strata": (of_x, of_y)}


def of_pairs(rng):
    """100 pairs, of which nine tenths of the variance are common to both sides."""
    common = 3 * rng.normal(size=(100, 2))
    pairs = np.arange(100)
    X, Y = common + rng.normal(size=(2, 100, 2))
    return X, Y, {"pairs": (pairs, pairs)}


def of_series(phi, rows=300):
    """A first-order autoregression, cut in the middle; blocks of the default length."""

    def draw(rng):
        noise = rng.normal(size=(2 * rows + 100, 2))
        series = np.zeros_like(noise)
        for t in range(1, len(noise)):
            series[t] = phi * series[t - 1] + noise[t]
        return series[100 : 100 + rows], series[100 + rows :], {"blocks": "auto"}

    return draw


SCENARIOS = {
    "subjects, ICC 0.2": of_subjects(0.2),
    "subjects, ICC 0.5": of_subjects(0.5),
    "subjects, ICC 0.5, 1 to 19 rows": of_subjects(0.5, unequal=True),
    "strata in different proportions": of_strata,
    "pairs": of_pairs,
    "series, phi = 0.5, 300 + 300": of_series(0.5),
    "series, phi = 0.8, 300 + 300": of_series(0.8),
    "series, phi = 0.8, 2000 + 2000": of_series(0.8, 2000),
}

LARGE = ("series, phi = 0.8, 2000 + 2000",)
TRAINED = ("auto", "mmd-d", "c2st-l")  # for which large samples take too long


def once(scenario, method, seed):
    """The two p-values of one pair of samples."""
    rng = np.random.default_rng([seed, *scenario.encode()])
    X, Y, design = SCENARIOS[scenario](rng)
    test = METHODS[method]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        designed = twosample.two_sample_test(X, Y, test, rng=seed, **design)
        plain = twosample.two_sample_test(X, Y, test, rng=seed)
    return {
        "scenario": scenario,
        "method": method,
        "seed": seed,
        "designed": designed.pvalue,
        "rows": plain.pvalue,
    }


def kept():
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text().splitlines()]


def run(seconds, methods):
    """Do runs, the next seed of every scenario and method in turn, until the time is over."""
    done = {(row["scenario"], row["method"], row["seed"]) for row in kept()}
    began = time.monotonic()
    with RESULTS.open("a") as file:
        for seed, scenario, method in itertools.product(range(2000), SCENARIOS, methods):
            too_long = scenario in LARGE and (method in TRAINED or seed >= 100)
            if too_long or (scenario, method, seed) in done:
                continue
            if time.monotonic() - began > seconds:
                return
            file.write(json.dumps(once(scenario, method, seed)) + "\n")
            file.flush()


def cell(pvalues):
    """The share of rejections, with the exact limits of its error."""
    count = len(pvalues)
    rejected = sum(p <= ALPHA for p in pvalues)
    return f"{rejected / count:.3f}"


def table(rows):
    """The table in markdown."""
    values = defaultdict(list)
    for row in rows:
        values[row["scenario"], row["method"]].append(row)
    lines = [
        "| without a difference | " + " | ".join(f"`{method}`" for method in METHODS) + " |",
        "|---" * (len(METHODS) + 1) + "|",
    ]
    for scenario in SCENARIOS:
        cells = []
        for method in METHODS:
            found = values[scenario, method]
            if len(found) < FEWEST:
                cells.append("")
                continue
            designed = cell([row["designed"] for row in found])
            plain = cell([row["rows"] for row in found])
            cells.append(f"{designed} (rows: {plain}; {len(found):,} runs)")
        lines.append(f"| {scenario} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def beyond(rows):
    """What is above 0.05 by more than chance, once in a thousand: which scenario, which method."""
    values = defaultdict(list)
    for row in rows:
        values[row["scenario"], row["method"]].append(row["designed"])
    found = []
    for (scenario, method), pvalues in values.items():
        rejected = sum(p <= ALPHA for p in pvalues)
        if binom(len(pvalues), ALPHA).sf(rejected - 1) < 1e-3:
            found.append(f"{scenario}, {method}: {rejected} of {len(pvalues)}")
    return found


def write():
    rows = kept()
    page = PAGE.read_text()
    head, rest = page.split(BEGIN)
    _, tail = rest.split(END)
    PAGE.write_text(f"{head}{BEGIN}\n\n{table(rows)}\n\n{END}{tail}")
    for line in beyond(rows):
        print("above 0.05:", line)


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["table"]:
        write()
    else:
        seconds = float(words[1]) if len(words) > 1 else 600.0
        run(seconds, words[2:] or list(METHODS))
