"""Look first: how long it takes, whether p-values hold, and whether planted oddities are named.

    python benchmarks/checks.py time      # `check` of files beside what polars takes to read them
    python benchmarks/checks.py level     # null runs with copies of rows and with running numbers
    python benchmarks/checks.py census    # a table like a census, with one oddity planted at a time
    python benchmarks/checks.py table     # what was stored, as docs/checks.md shows it

Each adds lines to results/checks.jsonl, with how busy the machine was.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path

import _measure
import numpy as np
import polars as pl

import twosample

STORE = Path(__file__).parent / "results" / "checks.jsonl"
COLOURS = np.array(["red", "green", "blue", "yellow", "black"])
RACES = ["White", "Black", "Asian-Pac-Islander", "Other"]


# Time


def wide_table(rows, seed):
    """Twenty columns: ten of floats, five of whole numbers, four of text, one of true and false."""
    rng = np.random.default_rng(seed)
    table = {f"float {at}": rng.normal(size=rows).round(6) for at in range(10)}
    table |= {f"whole {at}": rng.integers(0, 1000, rows) for at in range(5)}
    table |= {f"text {at}": COLOURS[rng.integers(0, 5, rows)] for at in range(4)}
    return pl.DataFrame(table | {"truth": rng.random(rows) < 0.5})


def timed(work):
    """Wall-clock and CPU seconds of a call, the better of two."""
    found = []
    for _ in range(2):
        wall = time.perf_counter()
        cpu = time.process_time()
        work()
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    return tuple(map(min, zip(*found, strict=True)))


def times(rows):
    """Seconds to read two files with polars, to read them as the commands do, and to check them."""
    from twosample._files.opening import open_file

    with tempfile.TemporaryDirectory() as folder:
        for kind in ("csv", "parquet"):
            files = [f"{folder}/{name}.{kind}" for name in "ab"]
            for seed, file in enumerate(files):
                table = wide_table(rows, seed)
                table.write_csv(file) if kind == "csv" else table.write_parquet(file)
            read = pl.read_csv if kind == "csv" else pl.read_parquet
            polars = timed(lambda: [read(file) for file in files])  # noqa: B023
            tables = [read(file) for file in files]
            look = timed(lambda: twosample.check(*tables))  # noqa: B023
            command = timed(lambda: twosample.check(*map(open_file, files)))  # noqa: B023
            yield {
                "what": "time",
                "kind": kind,
                "rows": rows,
                "read": polars,
                "look": look,
                "command": command,
            }


# Level


def tripled(x, y):
    return np.repeat(x, 3, axis=0), y


def shared(x, y):
    return x, np.concatenate([y[:30], x[:30]])


def numbered(x, y):
    rows = len(x)
    return np.column_stack([np.arange(rows), x]), np.column_stack([np.arange(rows, 2 * rows), y])


def same(x, y):
    return x, x


CASES = {"each row three times": tripled, "half of the rows shared": shared}
CASES |= {"running numbers": numbered, "the same file twice": same}


def split_test():
    learning = twosample.Learning(twosample.PowerCriterion(), steps=10)
    return twosample.TwoSampleTest(
        twosample.Gaussian(1.0), learning, calibration=twosample.Permutation(99), name="a split"
    )


TESTS = {
    "mmd-median": lambda: twosample.mmd_median(permutations=99),
    "a trained kernel": split_test,
}


def levels(runs):
    """How often tests reject at level 0.05 where there is no difference."""
    warnings.simplefilter("ignore", twosample.InputWarning)
    for case, change in CASES.items():
        for name, make in TESTS.items():
            for repeats in ("once", "allow"):
                rejections = 0
                for seed in range(runs):
                    rng = np.random.default_rng(seed)
                    X, Y = change(rng.normal(size=(60, 2)), rng.normal(size=(60, 2)))
                    result = make().run(X, Y, rng=seed, repeats=repeats)
                    rejections += result.reject()
                yield {
                    "what": "level",
                    "case": case,
                    "test": name,
                    "repeats": repeats,
                    "runs": runs,
                    "rejections": rejections,
                }


# Oddities


def people(rows, seed):
    rng = np.random.default_rng(seed)
    income = rng.lognormal(10, 1, rows).round(2)
    income[rng.random(rows) < 0.05] = np.nan
    return pl.DataFrame(
        {
            "age": rng.integers(17, 90, rows).astype(float),
            "hours": rng.integers(1, 60, rows),
            "weight": rng.integers(10_000, 500_000, rows).astype(float),
            "income": income,
            "race": rng.choice(RACES, rows, p=[0.7, 0.2, 0.07, 0.03]),
            "sex": rng.choice(["Female", "Male"], rows),
        }
    ).with_columns(pl.col("income").fill_nan(None))


def some(table, share, seed):
    """A column of true and false, true in a share of the rows."""
    return pl.Series(np.random.default_rng(seed).random(len(table)) < share)


def swapped(table, first, second, chosen):
    return table.with_columns(
        pl.when(chosen).then(pl.col(second)).otherwise(pl.col(first)).alias(first),
        pl.when(chosen).then(pl.col(first)).otherwise(pl.col(second)).alias(second),
    )


def put(table, column, value, chosen):
    return table.with_columns(
        pl.when(chosen).then(pl.lit(value)).otherwise(pl.col(column)).alias(column)
    )


ODDITIES = {
    "a renamed level": (
        "race",
        lambda t, s: t.with_columns(pl.col("race").replace({"Asian-Pac-Islander": "Asian"})),
    ),
    "2 % a new level": ("race", lambda t, s: put(t, "race", "Martian", some(t, 0.02, s))),
    "2 % a code, 9999": ("age", lambda t, s: put(t, "age", 9999.0, some(t, 0.02, s))),
    "2 % numbers swapped": ("age", lambda t, s: swapped(t, "age", "weight", some(t, 0.02, s))),
    "2 % labels swapped": ("race", lambda t, s: swapped(t, "race", "sex", some(t, 0.02, s))),
    "3 points more missing": ("income", lambda t, s: put(t, "income", None, some(t, 0.032, s))),
    "nothing": (None, lambda t, s: t),
}


def oddities(draws):
    """How often `check` names the column of an oddity, in 4000 + 4000 rows."""
    for name, (column, change) in ODDITIES.items():
        named = 0
        others = 0
        for seed in range(draws):
            Y = change(people(4000, 1000 + seed), seed)
            findings = twosample.check(people(4000, seed), Y)
            named += any(one.column == column for one in findings)
            others += len({one.column for one in findings} - {column, "weight", "sex"}) > 0
        yield {"what": "census", "oddity": name, "draws": draws, "named": named, "others": others}


# What was found


def table(records):
    """The newest records as tables of Markdown."""
    last = {
        tuple(r.get(k) for k in ("what", "kind", "case", "test", "repeats", "oddity")): r
        for r in records
    }
    lines = [
        "| files of a million rows, 20 columns | polars reads both | `check` of both tables | reading and `check` |"
    ]
    lines += ["|---|---|---|---|"]
    for r in (r for r in last.values() if r["what"] == "time"):
        look = f"{r['look'][0]:.2f} s, {r['look'][0] / r['read'][0]:.2f} x"
        command = f"{r['command'][0]:.2f} s, {r['command'][0] / r['read'][0]:.2f} x"
        lines.append(f"| {r['kind']} | {r['read'][0]:.2f} s | {look} | {command} |")
    lines += [
        "",
        '| no difference, 60 + 60 rows | test | rejected, `repeats="once"` | rejected, `"allow"` |',
        "|---|---|---|---|",
    ]
    level = {(r["case"], r["test"], r["repeats"]): r for r in last.values() if r["what"] == "level"}
    for case, test in dict.fromkeys((case, test) for case, test, _ in level):
        cells = [level.get((case, test, repeats)) for repeats in ("once", "allow")]
        shown = " | ".join(f"{r['rejections']} of {r['runs']}" if r else "-" for r in cells)
        lines.append(f"| {case} | {test} | {shown} |")
    lines += ["", "| planted, 4000 + 4000 rows | named by `check` |", "|---|---|"]
    for r in (r for r in last.values() if r["what"] == "census" and r["oddity"] != "nothing"):
        lines.append(f"| {r['oddity']} | {r['named']} of {r['draws']} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["time", "level", "census", "table"])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--draws", type=int, default=10)
    options = parser.parse_args()
    if options.what == "table":
        print(table(_measure.read(STORE)))
        return
    found = {
        "time": lambda: times(options.rows),
        "level": lambda: levels(options.runs),
        "census": lambda: oddities(options.draws),
    }[options.what]()
    for record in found:
        _measure.append(STORE, record | _measure.stamp("polars"))
        print(record, file=sys.stderr)


if __name__ == "__main__":
    main()
