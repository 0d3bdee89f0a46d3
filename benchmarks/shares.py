"""What other shares of the level would give: one test a draw, fused with many sets of shares.

    python benchmarks/shares.py run [--draws 60] [--minutes M]
    python benchmarks/shares.py table [--write]      --write puts the table into docs/decisions/0009-...

The scenarios are those of the arena in which `spectral` finds the difference in some of the draws
and misses it in others. The draws are not those of the arena: choosing shares by its own draws
would flatter them. Every draw is a line in results/shares.jsonl, so a run can be stopped and
continued. One thread for each process: OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
from _measure import append, read, write_between

import twosample
from twosample._fusing import combine_kinds, surprise
from twosample._random import Generators
from twosample.bench.arena.running import seed
from twosample.bench.arena.scenarios import SCENARIOS

STORE = Path(__file__).parent / "results" / "shares.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "decisions" / "0009-all-rows-every-view.md"
FIRST = 10_000  # draws of smaller numbers are the arena's
PERMUTATIONS = 499
ALPHA = 0.05
NOTHING = 1e-9  # a share that is as good as none
NUMBERS = (
    "cancer-classes",
    "wine-classes",
    "wine-shift",
    "wine-shuffle",
    "diabetes-shift",
    "mean-1-of-5",
    "mean-all-10",
    "small-mean",
    "rounded",
    "cauchy-place",
    "tail-1-of-5",
    "two-modes",
    "correlation-1-of-45",
    "circle-5",
)
MIXED = (
    "census-share",
    "census-new-level",
    "census-rare-level",
    "census-missing",
    "census-mean",
    "census-boolean",
    "census-sentinel",
)
AT_FIRST = {"values": 1.0, "levels": 0.5, "marks": 0.14, "spreads": 0.14, "landmarks": 0.27}
"""Weights of tables with categories, when flags were values."""
BEFORE_FLAGS = {"values": 1.2, "levels": 1.0, "marks": 0.28, "spreads": 0.07, "landmarks": 0.1}
"""The last ones before flags were a kind of their own."""


def _times(kind, factor):
    """A change of weights: one kind has more or less."""
    return lambda weights: {**weights, kind: factor * weights[kind]} if kind in weights else weights


def _as_before(weights):
    if "means" in weights:
        return {**weights, "means": min(0.4, weights["means"])}
    return _without_flags(weights, AT_FIRST)


def _without_flags(weights, others):
    """Weights of tables with categories, where flags are values."""
    if "flags" not in weights:
        return weights
    kept = {kind: weight for kind, weight in weights.items() if kind != "flags"}
    return {**kept, **others}


SETS = {
    "as they are": lambda weights: weights,
    "as they were before": _as_before,
    "flags are values": lambda weights: _without_flags(weights, BEFORE_FLAGS),
}
for _kind in (
    "means",
    "values",
    "flags",
    "levels",
    "marks",
    "landmarks",
    "spreads",
    "shapes",
    "cells",
):
    SETS[f"{_kind} twice"] = _times(_kind, 2.0)
    SETS[f"{_kind} half"] = _times(_kind, 0.5)
SETS["no means"] = _times("means", NOTHING)


KEPT = {}
"""What the last test has kept."""


class Kept(twosample.Spectral):
    """`Spectral`, which keeps the names, maxima and shares of its kinds of views."""

    def prepare(self, representation, points, bins, generator):
        prepared = super().prepare(representation, points, bins, generator)
        stacks = [representation.stacks[stack.stack] for stack in prepared.stacks]
        # Kinds are numbered in the order in which they come.
        KEPT["kinds"] = list(dict.fromkeys(representation.kind_of(s).name for s in stacks))
        return prepared

    def fuse(self, prepared, values):
        surprises = surprise(values, prepared.moments())
        kinds = range(len(prepared.shares))
        maxima = torch.stack([surprises[prepared.kinds == kind].amax(0) for kind in kinds])
        KEPT["maxima"] = maxima
        KEPT["shares"] = prepared.shares
        return combine_kinds(maxima, maxima, prepared.shares)


def pvalues(name, number):
    """The p-value of one draw with every set of shares."""
    scenario = SCENARIOS[name]
    generators = Generators(seed(name, FIRST + number))
    X, Y = scenario.draw(generators.numpy("samples"))
    columns = twosample.Columns(missing="indicator") if scenario.kind == "table" else None
    test = twosample.TwoSampleTest(
        twosample.Views(),
        statistic=Kept(),
        calibration=twosample.Permutation(PERMUTATIONS),
    )
    test.run(X, Y, rng=generators.numpy("test"), columns=columns, progress=False)
    weights = dict(zip(KEPT["kinds"], KEPT["shares"].tolist(), strict=True))
    by_set = {}
    for title, change in SETS.items():
        changed = change(weights)
        if title != "as they are" and changed == weights:
            continue  # there is no such kind in this table
        maxima = dict(zip(KEPT["kinds"], KEPT["maxima"], strict=True))
        if "flags" in maxima and "flags" not in changed:
            maxima["values"] = torch.maximum(maxima["values"], maxima.pop("flags"))
        largest = torch.stack(list(maxima.values()))
        shares = torch.tensor([changed[kind] for kind in maxima], dtype=torch.float64)
        fused = combine_kinds(largest, largest, shares)
        count = int((fused >= fused[0] - 1e-9).sum())
        by_set[title] = count / len(fused)
    return by_set


def run(draws, minutes):
    known = {(line["scenario"], line["number"]) for line in read(STORE)}
    until = time.monotonic() + 60 * minutes
    warnings.simplefilter("ignore")
    # Breadth first: a run that is stopped has draws of every scenario.
    for number in range(draws):
        for name in (*NUMBERS, *MIXED):
            if (name, number) in known:
                continue
            if time.monotonic() > until:
                print("Stopped; run the same command again to go on.")
                return
            append(STORE, {"scenario": name, "number": number, "pvalues": pvalues(name, number)})


def powers():
    """Set of shares -> scenario -> power; where a set changes nothing, that of shares as they are."""
    rejected = defaultdict(lambda: defaultdict(list))
    for line in read(STORE):
        for title in SETS:
            pvalue = line["pvalues"].get(title, line["pvalues"]["as they are"])
            rejected[title][line["scenario"]].append(pvalue <= ALPHA)
    return {
        title: {name: float(np.mean(tests)) for name, tests in by_scenario.items()}
        for title, by_scenario in rejected.items()
    }


def table():
    """The stored draws as Markdown."""
    found = powers()
    now = found["as they are"]
    draws = min(sum(line["scenario"] == name for line in read(STORE)) for name in now)
    rows = [
        f"| shares ({draws} draws or more of each scenario) | {len(NUMBERS)} tables of numbers "
        f"| {len(MIXED)} with categories | gains most | loses most |",
        "|---|---|---|---|---|",
    ]
    for title, power in found.items():
        means = [np.mean([power[name] for name in names]) for names in (NUMBERS, MIXED)]
        by_gain = sorted(now, key=lambda name: now[name] - power[name])
        cells = []
        for name, sign in ((by_gain[0], 1), (by_gain[-1], -1)):
            gain = power[name] - now[name]
            cells.append(f"{name} {gain:+.2f}" if sign * gain > 0 else "")
        rows.append(f"| {title} | {means[0]:.3f} | {means[1]:.3f} | {cells[0]} | {cells[1]} |")
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("--draws", type=int, default=60)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.what == "run":
        run(options.draws, options.minutes)
        return
    print(table())
    if options.write:
        write_between(PAGE, "shares", table())


if __name__ == "__main__":
    main()
