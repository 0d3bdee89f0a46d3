"""What else was tried for the default: other ways to fuse, other kernels, fewer and more views.

    python benchmarks/tried.py run [--draws 30] [--minutes M]
    python benchmarks/tried.py table [--write]       --write puts the tables into docs/decisions/0009-...

Every draw is one test whose rows of values are kept, so that all variants see the same rows and the
same labellings. The draws are not those of the arena: choosing by these would flatter the default.
Every draw is a line in results/tried.jsonl, so a run can be stopped and continued. The last table,
about a second test beside `spectral`, is made of the tests of the arena. One thread for each
process: OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from _kept import ALPHA, Rows, combined, fewest_draws, gains, powers, rank, rows_of
from _kept import run as run_draws
from _measure import command_line, read
from torch import nn

import twosample
from twosample._fusing import by_own_tail, smallest_rank
from twosample._views import Landmarks
from twosample.bench.arena import page, standing
from twosample.bench.arena.scenarios import SCENARIOS
from twosample.bench.arena.store import ArenaStore, Cell, by_cell

STORE = Path(__file__).parent / "results" / "tried.jsonl"
ARENA = Path(__file__).parents[1] / "results" / "arena"
PAGE = Path(__file__).parents[1] / "docs" / "decisions" / "0009-all-rows-every-view.md"
FIRST = 20_000  # draws of smaller numbers are the arena's, and those of shares.py
PERMUTATIONS = 299
TABLES = (
    "blob-10",
    "hdgm-10-1000",
    "higgs-1000",
    "higgs-2000",
    "perturbed-2d-1",
    "mean-1-of-5",
    "mean-1-of-50",
    "mean-all-10",
    "spread-1-of-5",
    "spread-all-10",
    "tail-1-of-5",
    "two-modes",
    "correlation-1-of-45",
    "correlation-all-45",
    "circle-5",
    "parity-3-of-5-small",
    "contamination-2",
    "contamination-5",
    "poisson-spread",
    "rounded",
    "cauchy-place",
    "heavy-pair",
    "small-spread",
    "wine-shift",
    "wine-shuffle",
    "cancer-classes",
    "census-share",
    "census-new-level",
    "census-boolean",
    "census-sentinel",
)
IMAGES = ("digits-clean-200", "cifar-jpeg-200", "cifar-contrast-500")


# Views that are not among the usual ones. Each is a kind of its own, with the share of kernels.


def beside(view, called):
    view.called = called
    view.kind = called
    view.weight = Landmarks.weight
    return view


class DrawnLandmarks(Landmarks):
    """Landmarks that a seed draws, in place of those that the contents of rows choose."""

    def __init__(self, number):
        super().__init__("gaussian")
        self.number = number

    def fit(self, pooled, layout):
        drawn = torch.Generator().manual_seed(self.number)
        order = torch.randperm(len(pooled.different), generator=drawn)
        super().fit(replace(pooled, different=pooled.different[order]), layout)


class Deep(twosample.View):
    """What a network of two layers makes of a row; its weights are random, or an autoencoder's."""

    regularisation = None
    width = 128
    steps = 300
    batch = 256

    def __init__(self, *, trained):
        super().__init__()
        self.trained = trained

    def fit(self, pooled, layout):
        rows = pooled.rows.flatten(1).float()
        columns = rows.shape[1]
        fixed = torch.Generator().manual_seed(0)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            encoder = [nn.Linear(columns, self.width), nn.ReLU(), nn.Linear(self.width, self.width)]
            self.network = nn.Sequential(*encoder, nn.ReLU())
            narrow = nn.Linear(self.width, max(1, columns // 2))
            decoder = nn.Sequential(
                narrow,
                nn.Linear(narrow.out_features, self.width),
                nn.ReLU(),
                nn.Linear(self.width, columns),
            )
        if self.trained:
            whole = nn.Sequential(self.network, decoder)
            optimiser = torch.optim.Adam(whole.parameters(), lr=1e-3)
            for _ in range(self.steps):
                some = rows[torch.randint(len(rows), (self.batch,), generator=fixed)]
                loss = (whole(some) - some).square().mean()
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
        self.network.requires_grad_(False)

    def features(self, seen):
        features = self.network(seen.rows.flatten(1).float())
        return features.double()[:, None]

    def columns(self):
        return [()]


LANDMARKS = {64: "64 landmarks", 512: "512 landmarks"}
DRAWN = "drawn landmarks"
RANDOM_NETWORK = "random network"
AUTOENCODER = "autoencoder"


def other_views(number):
    views = [beside(Landmarks("gaussian", count), called) for count, called in LANDMARKS.items()]
    views.append(beside(DrawnLandmarks(number), DRAWN))
    views.append(beside(Deep(trained=False), RANDOM_NETWORK))
    views.append(beside(Deep(trained=True), AUTOENCODER))
    return views


OTHERS = {view.called for view in other_views(0)}


# From rows to one number. Each of these treats all labellings alike.


def equal_kinds(rows):
    return combined(rows.maxima(), dict.fromkeys(rows.shares, 1.0))


FAMILIES = {
    "values": "one column",
    "flags": "one column",
    "levels": "one column",
    "spreads": "one column",
    "shapes": "one column",
    "marks": "one column",
    "products": "groups of columns",
    "products of three": "groups of columns",
    "cells": "groups of columns",
}


def family(row):
    return FAMILIES.get(row.kind, "all columns")


def three_families(rows):
    return rows.renamed(family).fused()


def standardised(rows):
    mean = rows.values.mean(1, keepdim=True)
    spread = rows.values.std(1, keepdim=True).clamp_min(1e-12 * mean.abs() + 1e-300)
    return replace(rows, surprises=(rows.values - mean) / spread)


def prototype(rows):
    """Standardised values, the largest of each family, and the smallest rank of the three."""
    maxima = standardised(rows.renamed(family)).maxima()
    largest = torch.stack(list(maxima.values()))
    return smallest_rank(largest, torch.ones(len(largest), dtype=torch.float64))


def loudest_kind(rows):
    total = sum(rows.shares.values())
    maxima = rows.maxima()
    terms = [
        by_own_tail(maxima[kind]) + math.log(share / total) for kind, share in rows.shares.items()
    ]
    return torch.stack(terms).amax(0)


def without_tails(rows):
    total = sum(rows.shares.values())
    maxima = rows.maxima()
    terms = [maxima[kind] + math.log(share / total) for kind, share in rows.shares.items()]
    return torch.logsumexp(torch.stack(terms), 0)


def smallest_of_all(rows):
    return smallest_rank(rows.values, torch.ones(len(rows.values), dtype=torch.float64))


FUSED = {
    "as it is": Rows.fused,
    "all kinds with equal shares": equal_kinds,
    "three families with equal shares: all columns, one, groups of them": three_families,
    "the prototype: standardised values, the largest of each family, the smallest rank of three": prototype,
    "the loudest kind in place of the mean of 1/p": loudest_kind,
    "kinds not measured by their own tails": without_tails,
    "the smallest rank of all single rows": smallest_of_all,
}


# Which rows take part


def gaussian(row):
    return row.stack.startswith("Landmarks('gaussian'")


def usual_kernel(row):
    return row.stack.startswith("Landmarks(")


def at(regularisation):
    return lambda row: usual_kernel(row) and row.regularisation == regularisation


def called(name):
    return lambda row: row.stack == name


ALONE = {
    "kernels of all columns alone": usual_kernel,
    "the same, lambda = infinity (MMD)": at(math.inf),
    "the same, lambda = 0.1": at(0.1),
    "the same, lambda = 0.01": at(0.01),
    "the same, lambda = 0.001": at(1e-3),
    "the same, lambda = 0.0001": at(1e-4),
    "Gaussian kernels alone, 256 landmarks": gaussian,
    "the same, 64 landmarks": called(LANDMARKS[64]),
    "the same, 512 landmarks": called(LANDMARKS[512]),
    "the same, 256 landmarks that a seed draws": called(DRAWN),
    "a random network alone, 128 features": called(RANDOM_NETWORK),
    "an autoencoder alone, 128 features": called(AUTOENCODER),
    "single numbers alone, by twenty bumps": lambda row: row.stack.startswith("Shapes("),
    "the same, by value, score and rank": lambda row: row.stack.startswith("Positions("),
    "the same, by value, score, rank, square and bumps": lambda row: row.stack.startswith(
        ("Shapes(", "Positions(", "Values('spreads')")
    ),
}
"""Kinds of views with the whole level."""

ADDED = {
    "a random network in addition": RANDOM_NETWORK,
    "an autoencoder in addition": AUTOENCODER,
}


def left_out(stack):
    """What a row of a table of views without this one is called."""
    return f"without {stack}"


def pvalues(name, number):
    """The p-value of one draw with every variant that is one."""
    is_image = name in IMAGES
    others = [] if is_image else other_views(number)
    rows = rows_of(name, FIRST + number, PERMUTATIONS, *others)
    usual = rows.only(lambda row: row.stack not in OTHERS)
    found = {title: rank(fuse(usual)) for title, fuse in FUSED.items()}
    for stack in dict.fromkeys(row.stack for row in usual.about):
        kept = usual.only(lambda row, stack=stack: row.stack != stack)
        found[left_out(stack)] = rank(kept.fused())
    if is_image:
        return _changed(found)
    for title, wanted in ALONE.items():
        kept = rows.only(wanted).renamed(lambda row: "one")
        if kept.about:
            found[title] = rank(kept.fused())
        else:
            found[title] = 1.0  # nothing to see
    for title, stack in ADDED.items():
        kept = rows.only(lambda row, stack=stack: row.stack not in OTHERS - {stack})
        found[title] = rank(kept.fused())
    return _changed(found)


def _changed(found):
    """Without those that give the same p-value as the test itself."""
    now = found["as it is"]
    return {title: p for title, p in found.items() if title == "as it is" or p != now}


# Tables


def _rows(found, titles, scenarios):
    now = {name: found["as it is"][name] for name in scenarios}
    rows = []
    for title in titles:
        power = {name: found[title][name] for name in scenarios}
        mean = np.mean(list(power.values()))
        most, least = gains(power, now)
        rows.append(f"| {title.replace('lambda', chr(955))} | {mean:.3f} | {most} | {least} |")
    return rows


def _heading(first, count, draws):
    return [
        f"| {first} ({draws} draws or more of each of {count} scenarios) | mean power "
        "| gains most | loses most |",
        "|---|---|---|---|",
    ]


def _stacks(scenarios):
    """The views that any test of these scenarios has, in their order."""
    lines = [line["pvalues"] for line in read(STORE) if line["scenario"] in scenarios]
    return list(dict.fromkeys(t for line in lines for t in line if t.startswith("without ")))


WAYS = {
    "spectral": lambda p, q: p,
    "mmd-d": lambda p, q: q,
    "min(p / 0.9, q / 0.1)": lambda p, q: min(p / 0.9, q / 0.1),
    "min(p / 0.5, q / 0.5)": lambda p, q: min(p / 0.5, q / 0.5),
}
"""The p-value of `spectral` and that of `mmd-d` -> one of both."""


def second_table(tests):
    """The second test of `auto`, by the arena's tests of its two parts on the same rows."""
    rows = [f"| scenario | tests | {' | '.join(WAYS)} |", "|---|---|" + "---|" * len(WAYS)]
    means = {"1,000 rows or more": [], "fewer rows": []}
    for scenario in SCENARIOS.values():
        cells = [tests.get(Cell(scenario.name, part)) for part in ("spectral", "mmd-d")]
        if None in cells or not scenario.different:
            continue
        first, second = (cell.pvalues for cell in cells)
        common = sorted(first.keys() & second.keys())
        power = [
            np.mean([way(first[k], second[k]) <= ALPHA + 1e-9 for k in common])
            for way in WAYS.values()
        ]
        is_large = min(scenario.sizes) >= 1000
        means["1,000 rows or more" if is_large else "fewer rows"].append(power)
        combinations = [power[0], *power[2:]]
        if is_large and max(combinations) > min(combinations):
            cells_of_row = " | ".join(f"{value:.2f}" for value in power)
            rows.append(f"| {scenario.name} | {len(common)} | {cells_of_row} |")
    for sizes, found in means.items():
        cells_of_row = " | ".join(f"{value:.3f}" for value in np.mean(found, 0))
        rows.append(f"| all {len(found)} of {sizes} | | {cells_of_row} |")
    return "\n".join(rows)


def arena_tables(tests):
    """The leaderboard without what only the page of the arena needs, and the exceptions."""
    found = standing.lags(tests)
    board = page.leaderboard(standing.scores(tests), found)
    wanted = ("test", "scenarios", "mean power", "mean behind the best", "within 0.05")
    wanted += ("clearly behind",)
    cells = [[cell.strip() for cell in line.strip("| ").split("|")] for line in board]
    places = [cells[0].index(name) for name in wanted]
    lines = [f"| {' | '.join(line[place] for place in places)} |" for line in cells]
    behind = page.weakness_table(page.weaknesses(found))
    return "\n".join(lines) + "\n\n" + "\n".join(behind)


def tables():
    stacks = _stacks(TABLES)
    of_images = _stacks(IMAGES)
    titles = [*FUSED, *ALONE, *ADDED, *stacks, *of_images]
    found = powers(STORE, list(dict.fromkeys(titles)))
    of_tables = [name for name in TABLES if name in found["as it is"]]
    draws = fewest_draws(STORE, of_tables)
    texts = {
        "tried fusing": _heading("how rows become one number", len(of_tables), draws)
        + _rows(found, FUSED, of_tables),
        "tried alone": _heading("views with the whole level", len(of_tables), draws)
        + _rows(found, ["as it is", *ALONE], of_tables),
        "tried views": _heading("views", len(of_tables), draws)
        + _rows(found, ["as it is", *ADDED, *stacks], of_tables),
    }
    images = [name for name in IMAGES if name in found["as it is"]]
    if images:
        draws = fewest_draws(STORE, images)
        texts["tried images"] = _heading("views of images", len(images), draws) + _rows(
            found, ["as it is", *of_images], images
        )
    joined = {name: "\n".join(rows) for name, rows in texts.items()}
    tests = by_cell(ArenaStore(ARENA).chunks())
    return {
        "tried arena": arena_tables(tests),
        **joined,
        "tried second": second_table(tests),
    }


def run(draws, minutes):
    warnings.simplefilter("ignore")
    run_draws(STORE, TABLES, draws, minutes, pvalues)
    run_draws(STORE, IMAGES, draws, minutes, pvalues)


if __name__ == "__main__":
    command_line(__doc__, "draws", 30, run, tables, PAGE)
