"""How much the power of a trained deep kernel depends on luck: many trainings of one setting.

    python benchmarks/training_luck.py run [SETTING ...] [--ways mended ...] [--trainings K]
    python benchmarks/training_luck.py table [--write] --write puts the table into docs/performance.md

A training draws a fresh training set (the seed of the k-th is the same for all ways to train), fits
`mmd_d()` once and tests 20 fresh pairs of samples of the same size, with 199 permutations. "mended"
is `mmd_d()` as it comes. "no lead" switches off `ResidualMLP.lead`: all widths start alike. "plain"
switches off `ResidualMLP.rate_factors`, too: every network and every width learns at the same
rates. A training fails if its power is more than 0.3 below the median of its setting. Every finished
training is a line in results/training_luck.jsonl, so a run can be stopped and continued. One thread:
OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from pathlib import Path

import numpy as np
import torch
from _measure import write_between

import twosample
from twosample import ResidualMLP
from twosample.bench import datasets

STORE = Path(__file__).parent / "results" / "training_luck.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
TESTS = 20

# Points of each sample, to train and again to test, and columns.
SETTINGS = {
    "blob 40": ("blob", 360, 2),
    "hdgm 4000, d 5": ("hdgm", 2000, 5),
    "hdgm 4000, d 10": ("hdgm", 2000, 10),
    "hdgm 4000, d 30": ("hdgm", 2000, 30),
    "parity of 3 in 20": ("parity", 1000, 20),
}


class NoLead(ResidualMLP):
    """A `ResidualMLP` whose widths all start alike."""

    def lead(self, columns, inputs):
        pass


class Plain(NoLead):
    """One that learns at the rates of `Learning`, too, whatever its size."""

    def rate_factors(self):
        return {}


FEATURIZERS = {"mended": ResidualMLP, "no lead": NoLead, "plain": Plain}


def draw(name, rng):
    data, n, columns = SETTINGS[name]
    if data == "blob":
        return datasets.blob(n, rng=rng)
    if data == "hdgm":
        return datasets.hdgm(n, dimension=columns, rng=rng)
    return rng.normal(size=(n, columns)), odd_signs(n, columns, rng)


def odd_signs(n, columns, rng):
    """Normal columns, where the product of the first three is positive in 90 % of the rows."""
    points = rng.normal(size=(n, columns))
    sign = np.sign(points[:, :3].prod(1))
    wanted = np.where(rng.random(n) < 0.9, 1, -1)
    points[:, 0] *= sign * wanted
    return points


def train(name, way, number):
    seed = [number, *name.encode()]
    rng = np.random.default_rng(seed)
    X, Y = draw(name, rng)
    test = twosample.mmd_d(FEATURIZERS[way](), permutations=199)
    began = time.process_time()
    fitted = test.fit(X, Y, rng=np.random.SeedSequence(seed), progress=False)
    seconds = time.process_time() - began
    rejections = sum(fitted.test(*draw(name, rng), rng=k).reject() for k in range(TESTS))
    return {
        "setting": name,
        "way": way,
        "training": number,
        "tests": TESTS,
        "rejections": rejections,
        "fit_cpu_seconds": round(seconds, 2),
        "version": twosample.__version__,
    }


def stored():
    lines = STORE.read_text().splitlines() if STORE.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def keep(record):
    line = json.dumps(record)
    with STORE.open("a") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())
    print(line, flush=True)


def run(names, ways, trainings):
    done = {(r["setting"], r["way"], r["training"]) for r in stored()}
    for name in names:
        for number in range(trainings):
            for way in ways:
                if (name, way, number) not in done:
                    keep(train(name, way, number))


def has_failed(records):
    """Those of some records of one setting whose power is far below the median."""
    rejections = [r["rejections"] for r in records]
    limit = np.median(rejections) - 0.3 * TESTS - 1e-9
    return [r for r in records if r["rejections"] < limit]


def table(records):
    lines = [
        "| setting | training | trainings x tests | median power | worst | mean | failed | "
        "at most (95 %) | CPU s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in SETTINGS:
        for way in ("plain", "no lead", "mended"):
            own = [r for r in records if r["setting"] == name and r["way"] == way]
            if not own:
                continue
            powers = np.array([r["rejections"] / r["tests"] for r in own])
            median = float(np.median(powers))
            failed = len(has_failed(own))
            cells = [
                name,
                way,
                f"{len(own)} x {own[0]['tests']}",
                f"{median:.2f}",
                f"{powers.min():.2f}",
                f"{powers.mean():.2f}",
                f"{failed} of {len(own)}",
                f"{upper_limit(failed, len(own)):.2f}",
                f"{np.median([r['fit_cpu_seconds'] for r in own]):.1f}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def upper_limit(failed, trainings):
    """The largest share of failures that would show so few of them in 5 % of all runs."""
    from scipy.stats import beta

    if failed == trainings:
        return 1.0
    limit = float(beta.ppf(0.95, failed + 1, trainings - failed))
    return math.ceil(limit * 100) / 100


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    runner = commands.add_parser("run")
    runner.add_argument("settings", nargs="*", default=list(SETTINGS))
    runner.add_argument("--ways", nargs="+", default=list(FEATURIZERS), choices=FEATURIZERS)
    runner.add_argument("--trainings", type=int, default=24)
    commands.add_parser("table").add_argument("--write", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.command == "run":
        run(options.settings, options.ways, options.trainings)
    else:
        text = table(stored())
        print(text)
        if options.write:
            write_between(PAGE, "training luck", text)
