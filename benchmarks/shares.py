"""What other shares of the level would give: one test a draw, fused with many sets of shares.

    python benchmarks/shares.py run [--draws 60] [--minutes M]
    python benchmarks/shares.py table [--write]      --write puts the table into docs/decisions/0009-...

The scenarios are those of the arena in which `spectral` finds the difference in some of the draws
and misses it in others. The draws are not those of the arena: choosing shares by its own draws
would flatter them. Every draw is a line in results/shares.jsonl, so a run can be stopped and
continued. One thread for each process: OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import torch
from _kept import combined, fewest_draws, gains, powers, rank, rows_of
from _kept import run as run_draws
from _measure import command_line

STORE = Path(__file__).parent / "results" / "shares.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "decisions" / "0009-all-rows-every-view.md"
FIRST = 10_000  # draws of smaller numbers are the arena's
PERMUTATIONS = 499
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


def pvalues(name, number):
    """The p-value of one draw with every set of shares."""
    rows = rows_of(name, FIRST + number, PERMUTATIONS)
    by_set = {}
    for title, change in SETS.items():
        shares = change(rows.shares)
        if title != "as they are" and shares == rows.shares:
            continue  # there is no such kind in this table
        maxima = rows.maxima()
        if "flags" in maxima and "flags" not in shares:
            maxima["values"] = torch.maximum(maxima["values"], maxima["flags"])
        by_set[title] = rank(combined(maxima, shares))
    return by_set


def table():
    """The stored draws as Markdown."""
    found = powers(STORE, list(SETS))
    now = found["as they are"]
    rows = [
        f"| shares ({fewest_draws(STORE, now)} draws or more of each scenario) | {len(NUMBERS)} tables of numbers "
        f"| {len(MIXED)} with categories | gains most | loses most |",
        "|---|---|---|---|---|",
    ]
    for title, power in found.items():
        means = [np.mean([power[name] for name in names]) for names in (NUMBERS, MIXED)]
        most, least = gains(power, now)
        rows.append(f"| {title} | {means[0]:.3f} | {means[1]:.3f} | {most} | {least} |")
    return "\n".join(rows)


def run(draws, minutes):
    warnings.simplefilter("ignore")
    run_draws(STORE, (*NUMBERS, *MIXED), draws, minutes, pvalues)


if __name__ == "__main__":
    command_line(__doc__, "draws", 60, run, lambda: {"shares": table()}, PAGE)
