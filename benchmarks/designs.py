"""Tests whose rows depend on each other: their level and power, with the design and by rows.

    python benchmarks/designs.py level [SECONDS] [WORD ...]   level, on from what is kept; of
                                                              scenarios that begin with a word
    python benchmarks/designs.py power                        what designs find, and leave alone
    python benchmarks/designs.py plans                        predicted power against observed
    python benchmarks/designs.py lengths                      level by the length of blocks
    python benchmarks/designs.py table                        write the tables into docs/designs.md

Each run of a scenario draws two samples without a difference, and tests them at level 0.05 with the
design that fits; the first 100 runs also as if rows were independent. With 99 permutations the
level of a permutation test is exactly 0.05, as with 999. Networks are trained for 2 steps only:
how well they are trained makes no difference to the level. `lengths` tests series with a small
statistic of its own, so that many lengths can be tried. Results are kept in
benchmarks/results/designs.jsonl, of levels a line for every 100 runs, so the work can be stopped
and taken up at any time.
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
import torch
from scipy.signal import lfilter
from scipy.stats import beta

import twosample
from twosample._design import memory_of

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


def of_turns(phi, run, rows=300):
    """The same, of which X and Y get so many rows in turn."""

    def draw(rng):
        series = autoregression(phi, 2 * rows, rng)
        time = np.arange(2 * rows)
        in_x = time // run % 2 == 0
        blocks = twosample.Blocks(time=(time[in_x], time[~in_x]))
        return series[in_x], series[~in_x], {"blocks": blocks}

    return draw


SCENARIOS = {
    "subjects, ICC 0.2": of_subjects(0.2),
    "subjects, ICC 0.5": of_subjects(0.5),
    "subjects of 1 to 5 rows, ICC 0.5": of_subjects(0.5, unequal=True),
    "strata in different proportions": of_strata,
    "pairs": of_pairs,
    "series, phi = 0.5, 300 + 300": of_series(0.5),
    "series, phi = 0.8, 300 + 300": of_series(0.8),
    "series in turns of 10 rows, phi = 0.5": of_turns(0.5, 10),
    "series in turns of 100 rows, phi = 0.8": of_turns(0.8, 100),
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


def keep(line):
    with RESULTS.open("a") as file:
        file.write(json.dumps(line) + "\n")


def level(seconds, words):
    """Do runs, the next of every scenario and method in turn, until the time is over."""
    done = {(row["scenario"], row["method"], row["first"]) for row in kept() if "first" in row}
    chosen = [name for name in SCENARIOS if not words or name.startswith(tuple(words))]
    began = time.monotonic()
    work = list(itertools.product(range(0, RUNS, CHUNK), chosen, METHODS))
    # What takes longest comes last: views of some hundred rows.
    work.sort(key=lambda one: one[1].startswith("series") and one[2] == "auto")
    for first, scenario, method in work:
        if (scenario, method, first) in done:
            continue
        if time.monotonic() - began > seconds:
            return
        keep(chunk(scenario, method, first))


def mixtures(shift, rows=80):
    """Two sites far apart, three quarters of X at one and of Y at the other."""

    def draw(rng):
        of_x, of_y = rng.random(rows) < 0.75, rng.random(rows) < 0.25
        X = rng.normal(size=(rows, 2)) + 3 * of_x[:, None]
        Y = rng.normal(shift, 1, size=(rows, 2)) + 3 * of_y[:, None]
        return X, Y, {"strata": (of_x, of_y)}

    return draw


def treated(shift, pairs=30):
    """Subjects, 3 apart, before and after a treatment that shifts each; noise of 1."""

    def draw(rng):
        base = 3 * rng.normal(size=(pairs, 2))
        X, Y = base + rng.normal(size=(2, pairs, 2))
        number = np.arange(pairs)
        return X, Y + shift, {"pairs": (number, number)}

    return draw


POWER = {
    "30 pairs, a shift of 0.5": treated(0.5),
    "30 pairs, a shift of 1": treated(1.0),
    "sites in other shares, no other difference": mixtures(0.0),
    "sites in other shares, a shift of 0.6 within each": mixtures(0.6),
}
POWER_RUNS = 100


def power():
    """How often differences are found, with the design and by rows."""
    done = {(row["scenario"], row["method"]) for row in kept() if "found" in row}
    for scenario, method in itertools.product(POWER, ("auto", "mmd-median")):
        if (scenario, method) in done:
            continue
        found = np.zeros(2, dtype=int)
        for run in range(POWER_RUNS):
            X, Y, design = POWER[scenario](np.random.default_rng([run, *scenario.encode()]))
            for place, options in enumerate((design, {})):
                test = METHODS[method]()
                result = twosample.two_sample_test(X, Y, test, rng=run, **options)
                found[place] += result.reject(ALPHA)
        line = {"scenario": scenario, "method": method, "runs": POWER_RUNS}
        keep(line | {"found": int(found[0]), "by_rows": int(found[1])})


PLANS = {
    "pairs, a shift of 0.55": (lambda pairs: treated(0.55, pairs), 30),
    "two strata, a shift of 0.35": (lambda rows: mixtures(0.35, rows), 80),
}
PLAN_RUNS = 40


def plans():
    """Power predicted from each of some draws, and observed in others."""
    done = {(row["scenario"], row["method"]) for row in kept() if "observed" in row}
    for scenario, method in itertools.product(PLANS, ("auto", "mmd-median")):
        if (scenario, method) in done:
            continue
        draw_of, size = PLANS[scenario]

        def tested(size, run, method=method, draw_of=draw_of):
            X, Y, design = draw_of(size)(np.random.default_rng([run, size]))
            return twosample.two_sample_test(X, Y, METHODS[method](), rng=run, **design)

        sizes = (size // 2, size, 2 * size)
        first = [tested(size, run).predict_power() for run in range(PLAN_RUNS)]
        predicted = np.array([[plan.power(each) for each in sizes] for plan in first])
        fresh = range(PLAN_RUNS, 2 * PLAN_RUNS)
        observed = [sum(bool(tested(each, run).reject(ALPHA)) for run in fresh) for each in sizes]
        line = {"scenario": scenario, "method": method, "runs": PLAN_RUNS, "sizes": sizes}
        line["observed"] = observed
        line["mean"] = predicted.mean(0).round(3).tolist()
        line["median"] = np.median(predicted, 0).round(3).tolist()
        keep(line)


SERIES = [(0.0, 300), (0.3, 300), (0.5, 300), (0.8, 300), (0.9, 300), (0.8, 1000)]
LENGTH_RUNS = 2000


def rules(memory, rows):
    """Ways to cut a series whose memory was estimated."""
    default = twosample.Blocks().resolved(memory, rows)
    return {
        "10 rows": twosample.Blocks(10, gap=0),
        "30 rows": twosample.Blocks(30, gap=0),
        "default without gaps": twosample.Blocks(default.length + default.gap, gap=0),
        "default, half of the gap": twosample.Blocks(
            default.length + default.gap - default.gap // 2, gap=default.gap // 2
        ),
        "default": default,
    }


def small_test(features, rows, design, rng):
    """Whether blocks of features, (2 rows, p), are found to differ in their means."""
    units = design.units((rows, rows), ())
    used_x, used_y = units.used or (torch.arange(rows), torch.arange(rows))
    used = torch.cat([used_x, used_y + rows]).numpy()
    of_rows = torch.cat([units.of_x, units.of_y]).numpy()
    count = len(units.cells)
    member = np.zeros((count, len(used)))
    member[of_rows, np.arange(len(used))] = 1 / units.rows.numpy()[of_rows]
    means = member @ features[used]
    of_x, of_y = units.counts
    orders = rng.random((100, count)).argsort(1)
    orders[0] = np.arange(count)
    weights = np.where(orders.argsort(1) < of_x, 1 / of_x, -1 / of_y)
    values = ((weights @ means) ** 2).sum(1)
    return (values >= values[0] * (1 - 1e-12)).mean() <= ALPHA


def lengths():
    """The level of the small test on first-order autoregressions, by how they are cut."""
    done = {(row["phi"], row["rows"]) for row in kept() if "phi" in row}
    for phi, rows in SERIES:
        if (phi, rows) in done:
            continue
        rejected = defaultdict(int)
        found = defaultdict(list)
        for run in range(LENGTH_RUNS):
            rng = np.random.default_rng([run, rows, int(10 * phi)])
            z = autoregression(phi, 2 * rows, rng)
            z = (z - z.mean(0)) / z.std(0)
            frequencies = rng.normal(size=(2, 40)) / 1.5
            features = np.hstack([np.cos(z @ frequencies), np.sin(z @ frequencies)])
            halves = [half - half.mean(0) for half in (z[:rows], z[rows:])]
            for rule, design in rules(memory_of(halves), rows).items():
                rejected[rule] += bool(small_test(features, rows, design, rng))
                found[rule].append((design.length, design.gap))
        for rule in rejected:
            length, gap = np.median(found[rule], 0).round().astype(int).tolist()
            line = {"phi": phi, "rows": rows, "rule": rule, "length": length, "gap": gap}
            keep(line | {"runs": LENGTH_RUNS, "rejected": rejected[rule]})


# Tables


def limits(count, runs):
    """The exact interval that holds a share with confidence 0.95."""
    low = beta.ppf(0.025, count, runs - count + 1) if count else 0.0
    high = beta.ppf(0.975, count + 1, runs - count) if count < runs else 1.0
    return low, high


def cell(count, runs):
    low, high = limits(count, runs)
    return f"{count / runs:.3f} ({low:.3f} to {high:.3f})"


def level_table(rows):
    values = defaultdict(list)
    for row in rows:
        if row["scenario"] in SCENARIOS:
            values[row["scenario"], row["method"]].append(row)
    lines = [
        "| without a difference | method | runs | with the design | by rows |",
        "|---|---|---|---|---|",
    ]
    for scenario, method in itertools.product(SCENARIOS, METHODS):
        found = values[scenario, method]
        if not found:
            continue
        runs = sum(row["runs"] for row in found)
        by_rows = [row for row in found if "by_rows" in row]
        rejected = sum(row["rejected"] for row in found)
        share = sum(row["by_rows"] for row in by_rows) / sum(row["runs"] for row in by_rows)
        words = f"`{method}` | {runs:,} | {cell(rejected, runs)} | {share:.2f}"
        lines.append(f"| {scenario} | {words} |")
    exact = [row for (name, _), some in values.items() if "series" not in name for row in some]
    runs = sum(row["runs"] for row in exact)
    rejected = sum(row["rejected"] for row in exact)
    lines.append(f"| all but the series | all | {runs:,} | {cell(rejected, runs)} | |")
    return lines


def power_table(rows):
    lines = [
        "| difference | method | with the design | by rows |",
        "|---|---|---|---|",
    ]
    found = [row for row in rows if row["scenario"] in POWER]
    for row in sorted(found, key=lambda row: (list(POWER).index(row["scenario"]), row["method"])):
        runs = row["runs"]
        shares = f"{row['found'] / runs:.2f} | {row['by_rows'] / runs:.2f}"
        lines.append(f"| {row['scenario']} | `{row['method']}` | {shares} |")
    return lines


def plan_table(rows):
    lines = [
        "| difference | method | pairs, or rows of each sample | observed | predicted: mean, median |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        if row["scenario"] in PLANS:
            for at, size in enumerate(row["sizes"]):
                observed = row["observed"][at] / row["runs"]
                predicted = f"{row['mean'][at]:.2f}, {row['median'][at]:.2f}"
                words = f"`{row['method']}` | {size} | {observed:.2f} | {predicted}"
                lines.append(f"| {row['scenario']} | {words} |")
    return lines


def length_table(rows):
    names = list(rules(1, 300))
    lines = [
        "| series | " + " | ".join(names) + " | length + gap of the default |",
        "|---" * (len(names) + 2) + "|",
    ]
    for phi, size in SERIES:
        found = {row["rule"]: row for row in rows if (row["phi"], row["rows"]) == (phi, size)}
        if found:
            shares = [f"{found[name]['rejected'] / found[name]['runs']:.3f}" for name in names]
            default = f"{found['default']['length']} + {found['default']['gap']}"
            lines.append(
                f"| phi = {phi}, {size} + {size} rows | {' | '.join(shares)} | {default} |"
            )
    return lines


def write():
    rows = kept()
    of_tests = [row for row in rows if "scenario" in row]
    of_lengths = [row for row in rows if "phi" in row]
    page = PAGE.read_text()
    tables = {
        "levels": level_table(of_tests),
        "power": power_table(of_tests),
        "plans": plan_table(of_tests),
        "lengths": length_table(of_lengths),
    }
    for name, lines in tables.items():
        begin, end = (mark.format(name) for mark in MARKS)
        head, rest = page.split(begin)
        _, tail = rest.split(end)
        body = "\n".join(lines)
        page = f"{head}{begin}\n\n{body}\n\n{end}{tail}"
    PAGE.write_text(page)


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", twosample.errors.InputWarning)
    what, *words = sys.argv[1:]
    if what == "level":
        level(float(words[0]) if words else 600.0, words[1:])
    else:
        {"power": power, "plans": plans, "lengths": lengths, "table": write}[what]()
