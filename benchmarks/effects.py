"""Do the effects keep their promises? Coverage of intervals, errors at margins, smallest differences.

    python benchmarks/effects.py run [RUNS] [CASE ...]   draw samples until every case has RUNS draws
    python benchmarks/effects.py table                   write the tables of docs/effects.md

Each draw is a line of benchmarks/results/effects.jsonl, so a run that was stopped goes on where it
was. A draw is decided by its case and its number alone.
"""

from __future__ import annotations

import json
import math
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import torch

import twosample
from twosample._data.schema import Column
from twosample._insight.changes import describe
from twosample._insight.effects import mmd2_estimate, mmd2_interval
from twosample._insight.intervals import delong
from twosample._insight.summaries import ColumnData
from twosample._statistics import spectral as views

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "effects.jsonl"
PAGE = HERE.parent / "docs" / "effects.md"
PERMUTATIONS = 99
FRESH = 20_000  # rows of each sample that stand for the distributions


# What is drawn: X is always normal in five columns.


def shifted(size, rng, by=0.0, columns=5):
    """Normal rows whose first column is shifted."""
    rows = rng.normal(size=(size, columns))
    rows[:, 0] += by
    return rows


def wider(size, rng, by=1.0, columns=5):
    """Normal rows whose first column is spread more."""
    rows = rng.normal(size=(size, columns))
    rows[:, 0] *= by
    return rows


def correlated(size, rng, by=0.0, columns=5):
    """Normal rows whose first two columns go together."""
    rows = rng.normal(size=(size, columns))
    rows[:, 1] = by * rows[:, 0] + np.sqrt(1 - by**2) * rows[:, 1]
    return rows


CHANGES = {"shift": shifted, "spread": wider, "correlation": correlated}
NOTHING = {"shift": 0.0, "spread": 1.0, "correlation": 0.0}


def drawn(change, by, sizes, rng):
    """X without the change, and Y with it."""
    make = CHANGES[change]
    return make(sizes[0], rng, NOTHING[change]), make(sizes[1], rng, by)


# Coverage of the interval for the AUC: the truth is that of the witnesses that were learned.


def auc_case(change, by, n, rng):
    X, Y = drawn(change, by, (n, n), rng)
    result = twosample.two_sample_test(X, Y, "spectral", permutations=PERMUTATIONS, rng=0)
    low, high = result.effect.auc_interval
    truth = _true_auc(result, *drawn(change, by, (FRESH, FRESH), rng))
    return {
        "covered": low <= truth <= high,
        "below": low <= truth,
        "width": high - low,
        "value": result.effect.auc,
        "truth": truth,
        "changed": result.effect.changed,
    }


def _true_auc(result, X, Y):
    fitted = result.fitted
    prepared = result.calibrated.prepared
    folds = views._folds_of_bins(prepared.bins)
    count = int(folds.max()) + 1
    witnesses = [views._without(prepared, folds == fold) for fold in range(count)]
    rows = fitted.scaling.apply_to(torch.from_numpy(np.concatenate([X, Y])))
    scores = views._scores_of(fitted.representation, prepared, rows, witnesses).numpy()
    areas = [delong(scores[: len(X), k], scores[len(X) :, k]).auc for k in range(count)]
    return float(np.mean(areas))


# Coverage of the interval for MMD^2: the truth is that of the same kernel on many rows.


def mmd_case(change, by, n, method, rng):
    X, Y = drawn(change, by, (n, n), rng)
    fitted = None
    if method == "spectral":
        test = twosample.spectral(permutations=PERMUTATIONS)
    else:
        test = twosample.TwoSampleTest(
            twosample.Gaussian(2.0), calibration=twosample.Permutation(PERMUTATIONS)
        )
        fitted = test.fit(X[:50], Y[:50], rng=0)  # one scaling for all sizes
    result = test.run(X, Y, rng=0) if fitted is None else fitted.test(X, Y, rng=0)
    low, high = mmd2_interval(result)
    fresh = drawn(change, by, (FRESH, FRESH), rng)
    if method != "spectral":
        fresh = tuple(part[:4000] for part in fresh)
    many = result.fitted.test(*fresh, rng=0)
    truth = max(0.0, mmd2_estimate(many).value)
    if by == NOTHING[change]:
        truth = 0.0
    return {"covered": low <= truth <= high, "width": high - low, "truth": truth}


# Columns: their intervals need no test, so there are many draws.

_NUMERIC = Column("x", "numeric")
_CATEGORY = Column("x", "category", ("a", "b", "c"))


def _column_of(x, y):
    """One column of numbers, as a result would describe it."""
    nothing = np.empty(0)
    return ColumnData(_NUMERIC, (x, y), (nothing, nothing), (0, 0), (len(x), len(y)))


def column_case(change, by, n, rng, repeats=200):
    """The share of intervals that hold the difference of means, and the effect."""
    # Of normal laws: a shift moves all values by it, a spread those of one deviation by as much.
    moved = by if change == "shift" else (by - 1) * math.sqrt(2 / math.pi)
    variance = 1 + by**2 / 4 if change == "shift" else (1 + by**2) / 2
    effect = moved / math.sqrt(variance)
    difference = by if change == "shift" else 0.0
    covered = []
    of_effect = []
    for _ in range(repeats):
        x, y = drawn(change, by, (n, n), rng)
        found = describe(_column_of(x[:, 0], y[:, 0]))
        covered.append(found.interval[0] <= difference <= found.interval[1])
        of_effect.append(found.effect_interval[0] <= effect <= found.effect_interval[1])
    return {"covered": np.mean(covered), "effect covered": np.mean(of_effect), "runs": repeats}


def level_case(before, after, n, rng, repeats=200):
    """The share of intervals that hold a level's change, and the total variation."""
    truth = float(np.abs(np.subtract(before, after)).sum() / 2)
    covered = []
    of_effect = []
    nothing = np.empty(0)
    for _ in range(repeats):
        counts = [rng.multinomial(n, shares).astype(float) for shares in (before, after)]
        padded = tuple(np.append(part, 0.0) for part in counts)  # any other level
        data = ColumnData(_CATEGORY, (nothing, nothing), padded, (0, 0), (n, n))
        found = describe(data)
        last = [level for level in found.levels if level.level == "c"]
        change = after[2] - before[2]
        covered.append(not last or last[0].interval[0] <= change <= last[0].interval[1])
        of_effect.append(found.effect_interval[0] <= truth <= found.effect_interval[1])
    return {"covered": np.mean(covered), "effect covered": np.mean(of_effect), "runs": repeats}


# Tolerance: how often each verdict is given where the difference is the margin, half of it, twice.


def tolerance_case(unit, margin, by, n, rng):
    X, Y = drawn("shift", by, (n, n), rng)
    method = "mmd-median" if unit == "mmd" else "spectral"
    result = twosample.two_sample_test(
        X, Y, method, permutations=19, rng=0, tolerance={unit: margin}
    )
    verdict = result.verdict
    return {
        "differ": verdict == "differ",
        "equivalent": verdict == "equivalent",
        "undecided": verdict == "undecided",
    }


def margin_case(margin, n, rng, repeats=200):
    """The two errors of one column at the margin, without a test around them: many draws."""
    by = margin / math.sqrt(1 - margin**2 / 4)
    differ = []
    equivalent = []
    for _ in range(repeats):
        x, y = drawn("shift", by, (n, n), rng)
        low, high = describe(_column_of(x[:, 0], y[:, 0]), 0.9).effect_interval
        differ.append(low > margin)
        equivalent.append(high < margin)
    undecided = 1 - np.mean(differ) - np.mean(equivalent)
    return {
        "differ": np.mean(differ),
        "equivalent": np.mean(equivalent),
        "undecided": undecided,
        "runs": repeats,
    }


# The smallest difference: said of samples without any, then looked for in new ones.


def smallest_case(method, n, factor, rng):
    null = twosample.two_sample_test(
        *drawn("shift", 0.0, (n, n), rng), method, permutations=199, rng=0
    )
    said = null.smallest_difference
    shift = said.shift
    if shift is None:
        shift = _shift_with_mmd(said.mmd)
    X, Y = drawn("shift", factor * shift, (n, n), rng)
    found = twosample.two_sample_test(X, Y, method, permutations=199, rng=0)
    return {"found": found.reject(), "shift": shift}


def _shift_with_mmd(mmd, columns=5):
    """The shift of one of five normal columns whose MMD this is, by a Gaussian at the median."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4000, columns))
    distances = np.linalg.norm(rows[:2000] - rows[2000:], axis=1)
    width = np.median(distances) ** 2  # sigma^2
    # Of normal laws with covariance 1 and a Gaussian kernel there is a closed form.
    constant = (width / (width + 2)) ** (columns / 2)
    inside = 1 - mmd**2 / (2 * constant)
    return math.sqrt(max(0.0, -2 * (width + 2) * math.log(max(1e-9, inside))))


CASES = {}
for _n in (500, 2000):
    for _change, _by in (("shift", 0.0), ("shift", 0.2), ("shift", 0.5), ("spread", 1.5)):
        CASES[f"auc {_change} {_by:g} n={_n}"] = (auc_case, _change, _by, _n)
CASES["auc correlation 0.5 n=500"] = (auc_case, "correlation", 0.5, 500)
for _method in ("spectral", "mmd"):
    for _change, _by in (("shift", 0.0), ("shift", 0.3), ("shift", 0.7), ("spread", 1.5)):
        CASES[f"mmd2 {_method} {_change} {_by:g} n=500"] = (mmd_case, _change, _by, 500, _method)
for _n in (100, 500, 5000):
    for _change, _by in (("shift", 0.0), ("shift", 0.1), ("shift", 0.5), ("spread", 1.5)):
        CASES[f"column {_change} {_by:g} n={_n}"] = (column_case, _change, _by, _n)
    CASES[f"level new 2 % n={_n}"] = (level_case, (0.5, 0.5, 0.0), (0.49, 0.49, 0.02), _n)
    CASES[f"level 20 to 30 % n={_n}"] = (level_case, (0.5, 0.3, 0.2), (0.4, 0.3, 0.3), _n)
# A shift of s has an AUC of Phi(s / sqrt(2)): 0.358 has 0.6. Its Wasserstein distance is s over the
# pooled spread.
_SHIFT_OF_AUC = 0.3583
for _share, _where in ((0.0, "no difference"), (1.0, "the margin"), (2.0, "twice the margin")):
    CASES[f"tolerance auc=0.6 at {_where} n=2000"] = (
        tolerance_case,
        "auc",
        0.6,
        _share * _SHIFT_OF_AUC,
        2000,
    )
    CASES[f"tolerance spread=0.2 at {_where} n=1000"] = (
        tolerance_case,
        "spread",
        0.2,
        _share * 0.2 / math.sqrt(1 - 0.2**2 / 4),
        1000,
    )
for _n in (200, 1000):
    CASES[f"tolerance one column, spread=0.2 at the margin n={_n}"] = (margin_case, 0.2, _n)
for _method, _n in (("spectral", 200), ("spectral", 800), ("mmd-median", 200), ("mmd-median", 800)):
    for _factor in (0.5, 1.0):
        CASES[f"smallest {_method} n={_n} times {_factor:g}"] = (
            smallest_case,
            _method,
            _n,
            _factor,
        )


def lines():
    """All draws so far."""
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text().splitlines()]


def run(runs, names):
    done = {}
    for line in lines():
        done[line["case"]] = max(done.get(line["case"], 0), line["draw"] + 1)
    RESULTS.parent.mkdir(exist_ok=True)
    for name, (case, *options) in CASES.items():
        if names and not any(name.startswith(wanted) for wanted in names):
            continue
        for draw in range(done.get(name, 0), runs):
            rng = np.random.default_rng([zlib.crc32(name.encode()), draw])
            began = time.process_time()
            found = case(*options, rng)
            seconds = round(time.process_time() - began, 3)
            line = {"case": name, "draw": draw, "seconds": seconds, **found}
            with RESULTS.open("a") as file:
                file.write(json.dumps(line, default=float) + "\n")


def summary():
    """Case -> the share of each yes or no, and the mean of each number."""
    by_case = {}
    for line in lines():
        by_case.setdefault(line["case"], []).append(line)
    table = {}
    for case, found in by_case.items():
        keys = [key for key in found[0] if key not in ("case", "draw", "seconds")]
        means = {}
        for key in keys:
            values = [line[key] for line in found if line[key] is not None]
            means[key] = float(np.mean(values)) if values else None
        table[case] = {"draws": len(found), **means}
    return table


KINDS = {
    "auc": "Interval of the AUC: the truth is the AUC of the witnesses that were learned",
    "mmd2": "Interval of MMD²",
    "column": "Intervals of a column of numbers: of the difference of means, and of the effect",
    "level": "Intervals of a category: of the share of a level, and of the effect",
    "tolerance": "Verdicts with a tolerance",
    "smallest": "The smallest difference that is found with power 0.8, and half of it",
}


def tables():
    """The tables of the page, as Markdown."""
    found = summary()
    parts = []
    for kind, title in KINDS.items():
        rows = {case: row for case, row in found.items() if case.split()[0] == kind}
        if not rows:
            continue
        keys = [key for key in next(iter(rows.values())) if key not in ("draws", "runs", "below")]
        parts.append(f"**{title}.**\n")
        parts.append(f"| case | draws | {' | '.join(keys)} |")
        parts.append("|---" * (2 + len(keys)) + "|")
        for case, row in rows.items():
            draws = round(row["draws"] * row.get("runs", 1))
            cells = [f"{row[key]:.3g}" for key in keys]
            name = case.removeprefix(kind).strip()
            parts.append(f"| {name} | {draws:,} | {' | '.join(cells)} |")
        parts.append("")
    return "\n".join(parts)


def write_page():
    begin = "<!-- tables: python benchmarks/effects.py table -->\n"
    end = "<!-- end of tables -->"
    text = PAGE.read_text()
    before, rest = text.split(begin)
    _, after = rest.split(end)
    PAGE.write_text(f"{before}{begin}\n{tables()}\n{end}{after}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        run(int(sys.argv[2]), sys.argv[3:])
    elif sys.argv[1:2] == ["table"]:
        write_page()
    else:
        sys.exit(__doc__)
