"""How often `explain` names a column, or a pair, that does not differ: the family-wise error.

    python benchmarks/where.py run [--tests 1500] [--minutes M]
    python benchmarks/where.py table [--write]       --write puts the table into docs/explaining.md

Every test is one of `spectral`, whose permutations give the p-values of columns and pairs. A column
is innocent if its distribution is the same in X and in Y, a pair if the joint one is. Finished
tests are lines in results/where.jsonl, so a run can be stopped and continued. One thread for each
process: OMP_NUM_THREADS=1.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _measure import command_line, read, run_missing
from scipy.stats import binom

import twosample
from twosample._insight.corrections import CORRECTIONS
from twosample._insight.where import local_tests

STORE = Path(__file__).parent / "results" / "where.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "explaining.md"
CHUNK = 50  # tests in a line of the store
FEW = 0.27  # tests of the wide tables, which take longer, for one of the others


def correlated(rng, rows):
    shared = rng.normal(size=(rows, 1))
    return 0.6 * shared + 0.8 * rng.normal(size=(rows, 4))


def nothing(rng):
    return correlated(rng, 40), correlated(rng, 25)


def one_column(rng):
    X, Y = nothing(rng)
    Y[:, 0] += 1.5
    return X, Y


def two_columns(rng):
    X, Y = nothing(rng)
    X, Y = X.round(), Y.round()
    Y[:, 0] += 1
    Y[:, 2] *= 2
    return X, Y


def one_pair(rng):
    X = rng.normal(size=(40, 4))
    Y = rng.normal(size=(40, 4))
    Y[:, 1] = 0.8 * Y[:, 0] + 0.6 * Y[:, 1]
    return X, Y


def all_pairs(rng, n, m):
    """Ten columns: independent of each other in X, all the same in Y."""
    return rng.normal(size=(n, 10)), np.repeat(rng.normal(size=(m, 1)), 10, axis=1)


def far_apart(rng):
    return all_pairs(rng, 50, 1000)


def of_one_size(rng):
    return all_pairs(rng, 200, 200)


@dataclass(frozen=True)
class Design:
    """Two samples, and which columns and pairs of them are innocent."""

    about: str
    draw: Any
    alpha: float
    permutations: int
    guilty: frozenset[int] = frozenset()
    guilty_pairs: frozenset[tuple[int, int]] = frozenset()
    few: bool = False  # whether it takes long


EVERY_PAIR = frozenset((a, b) for a in range(10) for b in range(a + 1, 10))
DESIGNS = {
    "nothing": Design("nothing, 40 + 25 rows of 4 columns", nothing, 0.1, 99),
    "one": Design("one column, 40 + 25 rows of 4", one_column, 0.1, 99, frozenset({0})),
    "two": Design(
        "two columns, rounded, 40 + 25 rows of 4", two_columns, 0.1, 99, frozenset({0, 2})
    ),
    "pair": Design(
        "one pair, 40 + 40 rows of 4", one_pair, 0.1, 99, guilty_pairs=frozenset({(0, 1)})
    ),
    "size": Design(
        "all pairs, 200 + 200 rows of 10", of_one_size, 0.05, 399, frozenset(), EVERY_PAIR, True
    ),
    "sizes": Design(
        "all pairs, 50 + 1000 rows of 10", far_apart, 0.05, 399, frozenset(), EVERY_PAIR, True
    ),
}


def chunk(name, number):
    """In how many tests some innocent column or pair is found, by each correction."""
    design = DESIGNS[name]
    test = twosample.spectral(permutations=design.permutations)
    found = Counter({"column": 0, "column by Holm": 0, "pair": 0})
    for seed in range(CHUNK * number, CHUNK * (number + 1)):
        X, Y = design.draw(np.random.default_rng([seed, list(DESIGNS).index(name)]))
        result = test.run(X, Y, rng=seed, progress=False)
        columns, pairs = local_tests(result, result.fitted)
        innocent = [key[0] not in design.guilty for key in columns.keys]
        by_holm = CORRECTIONS["holm"].adjust(columns.pvalues)
        innocent_pairs = [
            not design.guilty & set(key) and key not in design.guilty_pairs for key in pairs.keys
        ]
        found["column"] += any_found(columns.stepped, innocent, design.alpha)
        found["column by Holm"] += any_found(by_holm, innocent, design.alpha)
        found["pair"] += any_found(pairs.stepped, innocent_pairs, design.alpha)
    return {"tests": CHUNK, "found": dict(found)}


def any_found(adjusted, innocent, alpha):
    return any(
        is_innocent and p <= alpha + 1e-9 for p, is_innocent in zip(adjusted, innocent, strict=True)
    )


def run(tests, minutes):
    # Breadth first: a run that is stopped has tests of every design.
    jobs = (
        ((name, number), lambda name=name, number=number: chunk(name, number))
        for number in range(-(-tests // CHUNK))
        for name, design in DESIGNS.items()
        if not design.few or CHUNK * number < FEW * tests
    )
    run_missing(STORE, ("design", "number"), jobs, minutes)


def table():
    """The stored tests as Markdown."""
    rows = [
        "| what differs | alpha | tests | chance allows | a wrong column | by Holm | a wrong pair |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, design in DESIGNS.items():
        lines = [line for line in read(STORE) if line["design"] == name]
        tests = sum(line["tests"] for line in lines)
        if not tests:
            continue
        found = Counter()
        for line in lines:
            found.update(line["found"])
        low, high = binom.interval(0.998, tests, design.alpha)
        shares = {what: f"{100 * count / tests:.1f} %" for what, count in found.items()}
        if design.guilty_pairs >= EVERY_PAIR:
            shares["pair"] = ""  # there is no innocent pair
        rows.append(
            f"| {design.about} | {design.alpha} | {tests} | {100 * low / tests:.1f} to "
            f"{100 * high / tests:.1f} % | {shares['column']} | {shares['column by Holm']} "
            f"| {shares['pair']} |"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    command_line(__doc__, "tests", 1500, run, lambda: {"where": table()}, PAGE)
