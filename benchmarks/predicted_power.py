"""Predicted against observed power: of kernels on Blob-D and HDGM-D, of views on four others.

    python benchmarks/predicted_power.py run
    python benchmarks/predicted_power.py table
    python benchmarks/predicted_power.py plot

Each method is fitted once on the paper's training size. A hundred held-out sets of that size give
one prediction each: the first is what a user would have, all of them show its spread, and their
moments averaged show what is left when the moments are known well: the error of the formula.
Observed is the share of 200 fresh test sets of n + n points with p <= 0.05. One JSON line is
appended to benchmarks/results/predicted_power.jsonl for each finished part, so a run can be stopped
and continued. Run it with OMP_NUM_THREADS=1.

Tests of views, method `spectral`, have nothing to fit: each of 30 pairs of samples is a pilot, and
its test of all rows predicts the power at half, once and twice their size. `run views` does these
alone, and `run views pair` one of them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import time
from pathlib import Path

import numpy as np
import polars as pl
from scipy import stats

import twosample
from twosample._insight.power import predict_power
from twosample.bench import datasets

ROOT = Path(__file__).parents[1]
STORE = ROOT / "benchmarks" / "results" / "predicted_power.jsonl"
PICTURE = ROOT / "docs" / "images" / "predicted-power.png"
METHODS = ("mmd-d", "mmd-o")
TRAIN = {"blob": 360, "hdgm": 2000}
GRID = {"blob": (50, 100, 200, 300, 500), "hdgm": (250, 500, 1000, 2000, 3000)}
CURVE = {"blob": range(20, 521, 20), "hdgm": range(100, 3101, 100)}
HELD_OUT = 100
TESTS = 200
VIEWS = {"shift": 150, "pair": 150, "blob of views": 160, "category": 150}  # rows of a pilot
PILOTS = 30
VIEWS_TESTS = 100
PERMUTATIONS = 199
NAMES = {"blob": "Blob-D", "hdgm": "HDGM-D, 10 dimensions"}


def draw(name, n, rng):
    return datasets.blob(n, rng=rng) if name == "blob" else datasets.hdgm(n, dimension=10, rng=rng)


def draw_views(name, n, rng):
    """Two samples that differ in one column of five, in one of ten pairs, or in a category."""
    if name == "blob of views":
        return datasets.blob(n, rng=rng)
    if name == "category":
        shares = ([0.4, 0.2, 0.2, 0.2], [0.25, 0.25, 0.25, 0.25])
        return tuple(
            pl.DataFrame(
                {
                    "size": rng.normal(size=n),
                    "weight": rng.normal(size=n),
                    "colour": rng.choice(["red", "green", "blue", "black"], n, p=p),
                }
            )
            for p in shares
        )
    X = rng.normal(size=(n, 5))
    Y = rng.normal(size=(n, 5))
    if name == "shift":
        Y[:, 0] += 0.3
    else:
        correlation = 0.35
        Y[:, 1] = correlation * Y[:, 0] + np.sqrt(1 - correlation**2) * Y[:, 1]
    return X, Y


def predictions_of_views(name):
    """Powers at half, once and twice the size, by each pilot."""
    rng = np.random.default_rng([1, *name.encode()])
    test = twosample.spectral(permutations=PERMUTATIONS)
    grid = grid_of_views(name)
    sets = []
    intervals = []
    for k in range(PILOTS):
        plan = predict_power(test.run(*draw_views(name, VIEWS[name], rng), rng=k))
        sets.append([round(plan.power(n), 4) for n in grid])
        intervals.append([[round(end, 4) for end in plan.power_interval(n)] for n in grid])
    return {"sets": sets, "intervals": intervals}


def grid_of_views(name):
    return (VIEWS[name] // 2, VIEWS[name], 2 * VIEWS[name])


def observe_views(name, n):
    rng = np.random.default_rng([2, n, *name.encode()])
    test = twosample.spectral(permutations=PERMUTATIONS)
    rejections = 0
    for k in range(VIEWS_TESTS):
        rejections += test.run(*draw_views(name, n, rng), rng=k).reject()
    return {"rejections": rejections, "tests": VIEWS_TESTS}


def run_views(names):
    for name in names:
        for n in (0, *grid_of_views(name)):
            if (name, "spectral", n) not in stored():
                began = time.process_time()
                keep(
                    name,
                    "spectral",
                    n,
                    began,
                    observe_views(name, n) if n else predictions_of_views(name),
                )


def views_table():
    """The stored runs of views as Markdown."""
    records = stored()
    lines = [
        "| difference | rows of each sample | observed | predicted by each pilot: mean, median (10 "
        "to 90 %) | error: mean | observed in the 90 % interval |",
        "|---|---|---|---|---|---|",
    ]
    inside = []
    errors = []
    for name, pilot in VIEWS.items():
        predicted = records[name, "spectral", 0]
        sets = np.array(predicted["sets"])
        ends = np.array(predicted["intervals"])  # (pilots, n, 2)
        for k, n in enumerate(grid_of_views(name)):
            record = records[name, "spectral", n]
            rate = record["rejections"] / record["tests"]
            low, middle, high = np.quantile(sets[:, k], (0.1, 0.5, 0.9))
            held = (ends[:, k, 0] <= rate) & (rate <= ends[:, k, 1])
            off = np.abs(sets[:, k] - rate)
            inside.append(held.mean())
            errors.append(off.mean())
            mark = " (pilot)" if n == pilot else ""
            lines.append(
                f"| {name.removesuffix(' of views')} | {n}{mark} | {rate:.3f} "
                f"| {sets[:, k].mean():.2f}, {middle:.2f} ({low:.2f} to {high:.2f}) "
                f"| {off.mean():.2f} | {held.mean():.0%} |"
            )
    lines.append(f"| all | | | | {np.mean(errors):.2f} | {np.mean(inside):.0%} |")
    return "\n".join(lines)


def fit(name, method):
    rng = np.random.default_rng([0, *name.encode()])
    return twosample.METHODS[method]().fit(*draw(name, TRAIN[name], rng), rng=0, progress=False)


def averaged(plans):
    """One prediction from the moments and the thresholds of several, all taken at the same
    sizes.
    """

    def mean(values):
        return tuple(float(v) for v in np.mean(values, axis=0))

    return dataclasses.replace(
        plans[0],
        mmd2=float(np.mean([p.mmd2 for p in plans])),
        first_order=mean([p.first_order for p in plans]),
        second_order=mean([p.second_order for p in plans]),
        null_distribution=np.mean([np.sort(p.null_distribution) for p in plans], axis=0),
    )


def predictions(name, method, fitted):
    """Powers on the grid and on the curve, by each held-out set and by all of them together."""
    rng = np.random.default_rng([1, *name.encode()])
    plans = [
        predict_power(fitted.test(*draw(name, TRAIN[name], rng), rng=k)) for k in range(HELD_OUT)
    ]
    together = averaged(plans)
    return {
        "sets": [[round(p.power(n), 4) for n in GRID[name]] for p in plans],
        "intervals": [
            [[round(end, 4) for end in p.power_interval(n)] for n in GRID[name]] for p in plans
        ],
        "together": [round(together.power(n), 4) for n in GRID[name]],
        "first curve": [
            [round(v, 4) for v in (plans[0].power(n), *plans[0].power_interval(n))]
            for n in CURVE[name]
        ],
        "together curve": [round(together.power(n), 4) for n in CURVE[name]],
        "needed": [p.samples_needed(0.9) for p in plans],
        "needed together": together.samples_needed(0.9),
    }


def observe(name, n, fitted):
    rng = np.random.default_rng([2, n, *name.encode()])
    return {
        "rejections": sum(fitted.test(*draw(name, n, rng), rng=k).reject() for k in range(TESTS)),
        "tests": TESTS,
    }


def stored():
    lines = STORE.read_text().splitlines() if STORE.exists() else []
    records = [json.loads(line) for line in lines if line.endswith("}")]
    return {(r["data"], r["method"], r["n"]): r for r in records}


def run():
    STORE.parent.mkdir(exist_ok=True)
    for name in TRAIN:
        for method in METHODS:
            # A size of 0 stands for the predictions.
            missing = [n for n in (0, *GRID[name]) if (name, method, n) not in stored()]
            fitted = fit(name, method) if missing else None
            for n in missing:
                began = time.process_time()
                outcome = observe(name, n, fitted) if n else predictions(name, method, fitted)
                keep(name, method, n, began, outcome)


def keep(name, method, n, began, outcome):
    """Append what was measured to the store."""
    seconds = round(time.process_time() - began, 1)
    record = {"data": name, "method": method, "n": n, "cpu_seconds": seconds, **outcome}
    with STORE.open("a") as file:
        file.write(json.dumps(record) + "\n")
        file.flush()
        os.fsync(file.fileno())
    print(name, method, n, f"{seconds} s", flush=True)


def table():
    """The stored runs as Markdown: power at each n, then the errors."""
    records = stored()
    lines = [
        "| data | method | n tested | observed | predicted, all held-out sets "
        "| predicted, each set: median (10 to 90 %) |",
        "|---|---|---|---|---|---|",
    ]
    errors = [
        "| data | method | error with all held-out sets: mean, largest | error with one set: mean, "
        "largest "
        "| observed in the 90 % interval |",
        "|---|---|---|---|---|",
    ]
    everything = {"together": [], "sets": [], "inside": []}

    def row(label, deviations):
        together = np.concatenate(deviations["together"])
        sets = np.concatenate(deviations["sets"])
        inside = np.concatenate(deviations["inside"])
        errors.append(
            f"| {label} | {together.mean():.3f}, {together.max():.3f} | {sets.mean():.3f}, "
            f"{sets.max():.3f} "
            f"| {inside.mean():.0%} |"
        )

    for name, grid in GRID.items():
        for method in METHODS:
            predicted = records[name, method, 0]
            rates = np.array([records[name, method, n]["rejections"] / TESTS for n in grid])
            sets = np.array(predicted["sets"])
            together = np.array(predicted["together"])
            ends = np.array(predicted["intervals"])  # (sets, n, 2)
            for k, n in enumerate(grid):
                low, middle, high = np.quantile(sets[:, k], (0.1, 0.5, 0.9))
                lines.append(
                    f"| {name} | {method} | {n} | {rates[k]:.3f} | {together[k]:.3f} "
                    f"| {middle:.2f} ({low:.2f} to {high:.2f}) |"
                )
            deviations = {
                "together": [np.abs(together - rates)],
                "sets": [np.abs(sets - rates).ravel()],
                "inside": [((ends[..., 0] <= rates) & (rates <= ends[..., 1])).ravel()],
            }
            row(f"{name} | {method}", deviations)
            for key, values in deviations.items():
                everything[key] += values
    row("all | both", everything)
    return "\n".join([*lines, "", *errors])


def plot():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    # The first two are of Okabe and Ito, told apart by everybody.
    blue = "#0072B2"
    orange = "#D55E00"
    grey = "#555555"
    records = stored()
    figure, axes = plt.subplots(2, 2, figsize=(9, 6.4), sharey=True, constrained_layout=True)
    for row, name in zip(axes, GRID, strict=True):
        for axis, method in zip(row, METHODS, strict=True):
            predicted = records[name, method, 0]
            grid = list(CURVE[name])
            middle, low, high = np.array(predicted["first curve"]).T
            axis.fill_between(
                grid,
                low,
                high,
                color=blue,
                alpha=0.18,
                lw=0,
                label="90 % interval from that one set",
            )
            axis.plot(grid, middle, color=blue, lw=2, label="predicted from one held-out set")
            together = f"predicted from {HELD_OUT} held-out sets together"
            axis.plot(
                grid, predicted["together curve"], color=grey, lw=1.8, ls="--", label=together
            )
            counts = np.array([records[name, method, n]["rejections"] for n in GRID[name]])
            ends = np.array([stats.binomtest(int(c), TESTS).proportion_ci(0.95) for c in counts]).T
            rates = counts / TESTS
            axis.errorbar(
                GRID[name],
                rates,
                yerr=np.maximum(0, [rates - ends[0], ends[1] - rates]),
                fmt="o",
                color=orange,
                ms=5,
                capsize=3,
                label=f"observed in {TESTS} test sets, 95 % bars",
            )
            axis.set_title(f"{NAMES[name]}: {method}", fontsize=11)
            axis.set_xlim(0, max(grid))
            axis.set_ylim(-0.03, 1.03)
            axis.axvline(
                TRAIN[name], color="#bbbbbb", lw=1, zorder=0, label="size of a held-out set"
            )
            axis.grid(axis="y", color="#e6e6e6")
            axis.set_axisbelow(True)
            axis.spines[["top", "right"]].set_visible(False)
        row[0].set_ylabel("power at level 0.05")
    for axis in axes[1]:
        axis.set_xlabel("points tested in each sample, n = m")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    order = [
        next(k for k, text in enumerate(labels) if text.startswith(t))
        for t in ("obs", "predicted from one")
    ]
    order += [k for k in range(len(labels)) if k not in order]
    figure.legend(
        [handles[k] for k in order],
        [labels[k] for k in order],
        loc="outside upper center",
        ncols=3,
        frameon=False,
        fontsize=9,
    )
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=130)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["run", "table", "plot"])
    parser.add_argument("part", nargs="?", choices=["views"])
    parser.add_argument("names", nargs="*", help="of " + ", ".join(VIEWS))
    options = parser.parse_args()
    if options.command == "run":
        if options.part is None:
            run()
        run_views(options.names or list(VIEWS))
    elif options.command == "plot":
        plot()
    else:
        print(table())
        print(views_table())
