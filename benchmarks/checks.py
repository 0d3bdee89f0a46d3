"""Look first: how long it takes, whether p-values hold, and whether planted oddities are named.

    python benchmarks/checks.py time      # `check` of files beside what polars takes to read them
    python benchmarks/checks.py level     # null runs with copies, running numbers, subjects
    python benchmarks/checks.py dependence    # how often dependent and independent rows are said to depend
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
from statistics import median

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
    """Wall-clock and CPU seconds of a call."""
    wall = time.perf_counter()
    cpu = time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def times(rows, rounds):
    """Seconds to read two files with polars, to read and check them as the command does, and to
    check what polars has read: in turns, so that a busy machine is as busy for all.
    """
    from twosample._files.opening import open_file

    with tempfile.TemporaryDirectory() as folder:
        for kind in ("csv", "parquet"):
            files = [f"{folder}/{name}.{kind}" for name in "ab"]
            for seed, file in enumerate(files):
                table = wide_table(rows, seed)
                table.write_csv(file) if kind == "csv" else table.write_parquet(file)
            read = pl.read_csv if kind == "csv" else pl.read_parquet
            found = {"read": [], "command": [], "look": []}
            for _ in range(rounds + 1):
                found["read"].append(timed(lambda: [read(file) for file in files]))  # noqa: B023
                command = timed(lambda: twosample.check(*map(open_file, files)))  # noqa: B023
                found["command"].append(command)
                tables = [read(file) for file in files]
                found["look"].append(timed(lambda: twosample.check(*tables)))  # noqa: B023
            record = {"what": "time", "kind": kind, "rows": rows, "rounds": rounds}
            for name, seconds in found.items():
                # The first round imports what is used, and warms up.
                wall, cpu = zip(*seconds[1:], strict=True)
                record[name] = {
                    "best": [min(wall), min(cpu)],
                    "median": [*map(median, (wall, cpu))],
                }
            yield record


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


def in_subjects(x, y):
    """Five rows of each subject, who make up half of the variance."""

    def of(z):
        rng = np.random.default_rng(z.view(np.uint64)[0])
        people = np.repeat(rng.normal(size=(len(z) // 5, z.shape[1])), 5, axis=0)
        return (people + z) / np.sqrt(2)

    return of(x), of(y)


def unchanged(x, y):
    return x, y


CASES = {"no copies": unchanged, "each row three times": tripled, "half of the rows shared": shared}
CASES |= {"running numbers": numbered, "subjects of five rows": in_subjects}
CASES |= {"the same file twice": same}


def split_test():
    learning = twosample.Learning(twosample.PowerCriterion(), steps=10)
    return twosample.TwoSampleTest(
        twosample.Gaussian(1.0), learning, calibration=twosample.Permutation(99), name="a split"
    )


TESTS = {
    "auto": lambda: twosample.auto(permutations=99),
    "mmd-median": lambda: twosample.mmd_median(permutations=99),
    "a trained kernel": split_test,
}


def levels(runs):
    """How often tests reject at level 0.05 where there is no difference, and without a warning."""
    for case, change in CASES.items():
        for name, make in TESTS.items():
            for repeats in ("once", "allow"):
                if case in ("no copies", "subjects of five rows") and repeats == "allow":
                    continue  # there is nothing to allow
                rejections = 0
                silent = 0
                for seed in range(runs):
                    rng = np.random.default_rng(seed)
                    X, Y = change(rng.normal(size=(60, 2)), rng.normal(size=(60, 2)))
                    with warnings.catch_warnings(record=True) as said:
                        warnings.simplefilter("always")
                        result = make().run(X, Y, rng=seed, repeats=repeats)
                    rejections += result.reject()
                    silent += result.reject() and not said
                yield {
                    "what": "level",
                    "case": case,
                    "test": name,
                    "repeats": repeats,
                    "runs": runs,
                    "rejections": int(rejections),
                    "silent": int(silent),
                }


# Dependence


def series(rng, rows, memory):
    """An autoregression of order 1, in two columns."""
    values = rng.normal(size=(rows, 2))
    for row in range(1, rows):
        values[row] = memory * values[row - 1] + np.sqrt(1 - memory**2) * values[row]
    return values


def subjects(rng, number, rows, share):
    """Some rows of each subject; `share` is the intraclass correlation."""
    people = np.repeat(rng.normal(size=(number, 2)), rows, axis=0)
    return np.sqrt(share) * people + np.sqrt(1 - share) * rng.normal(size=people.shape)


def mixed(rng, rows):
    """Independent rows of heavy tails, counts, rare events and labels."""
    columns = [rng.standard_t(2, rows), rng.integers(0, 12, rows), rng.random(rows) < 0.1]
    return np.column_stack([*columns, rng.integers(0, 4, rows)]).astype(float)


DRAWS = {
    "series, phi = 0.5, 300 rows": lambda rng: series(rng, 300, 0.5),
    "series, phi = 0.8, 300 rows": lambda rng: series(rng, 300, 0.8),
    "60 subjects of 5 rows, ICC 0.5": lambda rng: subjects(rng, 60, 5, 0.5),
    "30 subjects of 10 rows, ICC 0.2": lambda rng: subjects(rng, 30, 10, 0.2),
    "12 subjects of 5 rows, ICC 0.5": lambda rng: subjects(rng, 12, 5, 0.5),
    "independent, normal, 60 rows": lambda rng: rng.normal(size=(60, 5)),
    "independent, normal, 300 rows": lambda rng: rng.normal(size=(300, 20)),
    "independent, mixed, 300 rows": lambda rng: mixed(rng, 300),
    "independent, mixed, 5000 rows": lambda rng: mixed(rng, 5000),
}


def dependences(draws):
    """How often `check` says that rows depend on each other."""
    for case, draw in DRAWS.items():
        found = 0
        for seed in range(draws):
            rng = np.random.default_rng(seed)
            findings = twosample.check(draw(rng), draw(rng))
            found += any(one.kind == "dependence" for one in findings)
        yield {"what": "dependence", "case": case, "draws": draws, "found": found}


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
        "| two files of a million rows, 20 columns | polars reads both | reading and `check` | `check` of tables in memory | load |"
    ]
    lines += ["|---|---|---|---|---|"]
    for r in (r for r in last.values() if r["what"] == "time"):
        for unit, which, at in (
            ("seconds, best", "best", 0),
            ("seconds, median", "median", 0),
            ("CPU seconds, median", "median", 1),
        ):
            of_polars = r["read"][which][at]
            command, look = (r[name][which][at] for name in ("command", "look"))
            shares = [f"{each:.2f}, {each / of_polars:.2f} x" for each in (command, look)]
            cells = [f"{r['kind']}, {unit} of {r['rounds']}", f"{of_polars:.2f}", *shares]
            lines.append(f"| {' | '.join(cells)} | {r['load']:.1f} |")
    lines += [
        "",
        '| no difference, 60 + 60 rows | test | rejected, `repeats="once"` | of these without a warning | rejected, `"allow"` |',
        "|---|---|---|---|---|",
    ]
    level = {(r["case"], r["test"], r["repeats"]): r for r in last.values() if r["what"] == "level"}
    for case, test in dict.fromkeys((case, test) for case, test, _ in level):
        cells = [level.get((case, test, repeats)) for repeats in ("once", "allow")]
        once, allow = (f"{r['rejections']} of {r['runs']}" if r else "-" for r in cells)
        lines.append(f"| {case} | {test} | {once} | {cells[0]['silent']} | {allow} |")
    lines += ["", "| rows | said to depend on each other |", "|---|---|"]
    for r in (r for r in last.values() if r["what"] == "dependence"):
        lines.append(f"| {r['case']} | {r['found']} of {r['draws']} |")
    lines += ["", "| planted, 4000 + 4000 rows | named by `check` |", "|---|---|"]
    for r in (r for r in last.values() if r["what"] == "census" and r["oddity"] != "nothing"):
        lines.append(f"| {r['oddity']} | {r['named']} of {r['draws']} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["time", "level", "dependence", "census", "table"])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--draws", type=int)
    options = parser.parse_args()
    if options.what == "table":
        print(table(_measure.read(STORE)))
        return
    found = {
        "time": lambda: times(options.rows, options.rounds),
        "level": lambda: levels(options.runs),
        "dependence": lambda: dependences(options.draws or 1000),
        "census": lambda: oddities(options.draws or 10),
    }[options.what]()
    for record in found:
        _measure.append(STORE, record | _measure.stamp("polars"))
        print(record, file=sys.stderr)


if __name__ == "__main__":
    main()
