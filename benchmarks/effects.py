"""Do the effects keep their promises? Coverage of intervals, errors at margins, smallest differences.

    python benchmarks/effects.py run [CASE ...]   draw until every case, or those that begin so, is done
    python benchmarks/effects.py table            write the tables of docs/effects.md

Draws come in parts. Each part is a line of benchmarks/results/effects.jsonl, so a run that was
stopped goes on where it was. A draw is decided by its case and its number alone.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
import time
import zlib
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd
import torch
from _measure import append, read, write_between
from scipy.special import ndtri
from scipy.stats import qmc

import twosample
from twosample._data.schema import Column
from twosample._insight.changes import _interval_of_correlations, describe
from twosample._insight.intervals import delong
from twosample._insight.summaries import ColumnData
from twosample._statistics import spectral as views
from twosample._views.columns import Values
from twosample._views.landmarks import Landmarks

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "effects.jsonl"
PAGE = HERE.parent / "docs" / "effects.md"
PERMUTATIONS = 19  # no interval takes more of them
COLUMNS = 2
FRESH = 20_000  # rows of each sample that stand for the distributions
POINTS = 2**12  # of each law that stand for it, where they lie evenly
MANY = 20  # times as many draws where none takes a test


# What is drawn: X is normal in every column, and of Y the first one is changed.


def shifted(size, rng, by=0.0, columns=COLUMNS):
    """Normal rows whose first column is shifted."""
    rows = rng.normal(size=(size, columns))
    rows[:, 0] += by
    return rows


def wider(size, rng, by=1.0, columns=COLUMNS):
    """Normal rows whose first column is spread more."""
    rows = rng.normal(size=(size, columns))
    rows[:, 0] *= by
    return rows


def correlated(size, rng, by=0.0, columns=COLUMNS):
    """Normal rows whose first two columns go together."""
    rows = rng.normal(size=(size, columns))
    rows[:, 1] = by * rows[:, 0] + np.sqrt(1 - by**2) * rows[:, 1]
    return rows


CHANGES = {"shift": shifted, "spread": wider, "correlation": correlated}
NOTHING = {"shift": 0.0, "spread": 1.0, "correlation": 0.0}


def drawn(change, by, sizes, rng, columns=COLUMNS):
    """X without the change, and Y with it."""
    make = CHANGES[change]
    x = make(sizes[0], rng, NOTHING[change], columns)
    return x, make(sizes[1], rng, by, columns)


def total_variation(change, by):
    """Of a normal law and the same one after a change."""
    normal = NormalDist()
    if change == "shift":
        return 2 * normal.cdf(by / 2) - 1
    # The densities of N(0, 1) and N(0, by^2) cross at +-c.
    if by == 1:
        return 0.0
    crossing = by * math.sqrt(2 * math.log(by) / (by**2 - 1))
    return 2 * (normal.cdf(crossing) - normal.cdf(crossing / by))


# Of tests of views: AUC, the share of rows that changed, and MMD^2, all from one draw.


def few_views(permutations=PERMUTATIONS):
    """The test of views with few of them, so that a draw is cheap: values, and 50 landmarks."""
    return twosample.spectral(Values("columns"), Landmarks(count=50), permutations=permutations)


def views_case(change, by, n, rng):
    X, Y = drawn(change, by, (n, n), rng)
    result = twosample.two_sample_test(X, Y, few_views(), rng=0)
    effect = result.effect
    rows = result.fitted.scaling.apply_to(torch.from_numpy(spread_out(change, by)))
    auc = _true_auc(result, rows)
    mmd2 = _true_mmd2(result, change, by)
    return {
        "AUC covered": _holds(effect.auc_interval, auc),
        "AUC": auc,
        "width": effect.auc_interval[1] - effect.auc_interval[0],
        "changed below truth": effect.changed <= total_variation(change, by),
        "MMD² covered": _holds(effect.mmd2_interval, mmd2),
        "MMD²": mmd2,
    }


@functools.cache
def spread_out(change, by):
    """(2 POINTS, columns) points that lie as evenly as the two laws: X, then Y (a net of Sobol)."""
    samples = []
    for seed, law in enumerate(_normal_laws(change, by)):
        even = qmc.Sobol(COLUMNS, seed=seed).random(POINTS)
        middle, variance = law
        samples.append(middle + np.sqrt(variance) * ndtri(even))
    return np.concatenate(samples)


def _holds(interval, truth):
    low, high = interval
    return low <= truth <= high


def _true_auc(result, rows):
    """The AUC of the witnesses that were learned, on points of both laws."""
    prepared = result.calibrated.prepared
    folds = views._folds_of_bins(prepared.bins)
    count = int(folds.max()) + 1
    witnesses = [views._without(prepared, folds == fold) for fold in range(count)]
    representation = result.fitted.representation
    scores = views._scores_of(representation, prepared, rows, witnesses).numpy()
    areas = [delong(scores[:POINTS, k], scores[POINTS:, k]).auc for k in range(count)]
    return float(np.mean(areas))


def _true_mmd2(result, change, by):
    """The squared distance of the mean features: Gaussian kernels around landmarks, standardised.

    The mean of a Gaussian kernel over a normal law has a closed form.
    """
    prepared = result.calibrated.prepared
    representation = result.fitted.representation
    number, row = views._usual_view(representation, prepared)
    chosen = prepared.stacks[number]
    view, place = divmod(row, len(chosen.regularisation))
    stack = representation.stacks[chosen.stack]
    width = float(stack.width) / 2**view  # each view is half as wide as the one before
    scaling = result.fitted.scaling
    means = []
    for middle, variance in _normal_laws(change, by):
        centre = (middle - scaling.shift.numpy()) / scaling.scale.numpy()
        total = width**2 + variance / scaling.scale.numpy() ** 2
        apart = stack.places.double().numpy() - centre  # (landmarks, columns)
        kernel = np.prod(np.sqrt(width**2 / total) * np.exp(-(apart**2) / (2 * total)), axis=1)
        means.append(torch.from_numpy(kernel))
    along = (means[0] - means[1]) @ chosen.axes[view]
    return float(along.square() @ chosen.weights[view, place])


def _normal_laws(change, by):
    """The means and variances of the columns of X and of Y, which do not go together."""
    middle = np.zeros(COLUMNS)
    variance = np.ones(COLUMNS)
    middle[0] = by if change == "shift" else 0.0
    variance[0] = by**2 if change == "spread" else 1.0
    return (np.zeros(COLUMNS), np.ones(COLUMNS)), (middle, variance)


# MMD^2 by all pairs. Of normal laws and a Gaussian kernel there is a closed form; a learned kernel
# is learned once, and its truth is that of many rows.


def pairs_case(change, by, n, rng):
    X, Y = drawn(change, by, (n, n), rng)
    result = twosample.two_sample_test(X, Y, "mmd-median", permutations=PERMUTATIONS, rng=0)
    truth = normal_mmd2(result, change, by)
    interval = result.effect.mmd2_interval
    return {"MMD² covered": _holds(interval, truth), "MMD²": truth}


def normal_mmd2(result, change, by):
    """MMD^2 of the two normal laws by the Gaussian kernel of a result."""
    scale = result.fitted.scaling.scale.numpy()
    width = float(result.fitted.representation.bandwidth) ** 2

    def mean_kernel(a, b):
        (of_a, spread_a), (of_b, spread_b) = a, b
        apart = (of_a - of_b) / scale
        total = width + (spread_a + spread_b) / scale**2
        return np.prod(np.sqrt(width / total) * np.exp(-(apart**2) / (2 * total)))

    x, y = _normal_laws(change, by)
    return float(max(0.0, mean_kernel(x, x) + mean_kernel(y, y) - 2 * mean_kernel(x, y)))


def deep_case(change, by, n, rng):
    fitted, truth = _deep_kernel(change, by)
    result = fitted.test(*drawn(change, by, (n, n), rng), rng=0)
    return {"MMD² covered": _holds(result.effect.mmd2_interval, truth), "MMD²": truth}


@functools.cache
def _deep_kernel(change, by):
    rng = np.random.default_rng(0)
    test = twosample.mmd_d(permutations=PERMUTATIONS, steps=200)
    fitted = test.fit(*drawn(change, by, (500, 500), rng), rng=0)
    many = fitted.test(*drawn(change, by, (FRESH, FRESH), rng), rng=0)
    return fitted, max(0.0, many.statistic)


# Columns, pairs and regions.

_NUMERIC = Column("x", "numeric")
_CATEGORY = Column("x", "category", ("a", "b", "c"))
_NOTHING = np.empty(0)


def _numbers(x, y):
    """One column of numbers, as a result would describe it."""
    return ColumnData(_NUMERIC, (x, y), (_NOTHING, _NOTHING), (0, 0), (len(x), len(y)))


def _levels(before, after, n, rng):
    """One category with these shares."""
    counts = [rng.multinomial(n, shares).astype(float) for shares in (before, after)]
    x, y = (np.append(part, 0.0) for part in counts)  # no other level
    return ColumnData(_CATEGORY, (_NOTHING, _NOTHING), (x, y), (0, 0), (n, n))


def column_case(change, by, n, rng):
    # Of normal laws: a shift moves all values by it, a spread those of one deviation by as much.
    moved = by if change == "shift" else (by - 1) * math.sqrt(2 / math.pi)
    variance = 1 + by**2 / 4 if change == "shift" else (1 + by**2) / 2
    effect = moved / math.sqrt(variance)
    difference = by if change == "shift" else 0.0
    x, y = drawn(change, by, (n, n), rng, columns=1)
    found = describe(_numbers(x[:, 0], y[:, 0]))
    return {
        "difference covered": _holds(found.interval, difference),
        "effect covered": _holds(found.effect_interval, effect),
    }


def level_case(before, after, n, rng):
    found = describe(_levels(before, after, n, rng))
    last = [level.interval for level in found.levels if level.level == "c"]
    effect = float(np.abs(np.subtract(before, after)).sum() / 2)
    return {
        "difference covered": not last or _holds(last[0], after[2] - before[2]),
        "effect covered": _holds(found.effect_interval, effect),
    }


def correlation_case(by, n, rng):
    pair = drawn("correlation", by, (n, n), rng, columns=2)
    before, after = (float(np.corrcoef(part.T)[0, 1]) for part in pair)
    return {"difference covered": _holds(_interval_of_correlations(before, after, (n, n)), by)}


def region_case(by, n, rng):
    """The first region that a result names, against its shares in many rows."""
    names = [f"x{number}" for number in range(COLUMNS)]
    X, Y = (pd.DataFrame(part, columns=names) for part in drawn("shift", by, (n, n), rng))
    result = twosample.two_sample_test(X, Y, "mmd-median", permutations=PERMUTATIONS, rng=0)
    if not result.regions:
        return {"difference covered": None}
    region = result.regions[0]
    fresh = (pd.DataFrame(part, columns=names) for part in drawn("shift", by, (FRESH,) * 2, rng))
    before, after = (float(part.eval(region.rule).mean()) for part in fresh)
    return {"difference covered": _holds(region.interval, after - before)}


# Tolerance: how often each verdict is given at the margin, and where there is less or more.


def auc_margin_case(margin, share, n, rng, all_views=False):
    """A shift of s has an AUC of Phi(s / sqrt(2))."""
    by = share * math.sqrt(2) * NormalDist().inv_cdf(margin)
    test = twosample.spectral(permutations=PERMUTATIONS) if all_views else few_views()
    return _verdict(test, drawn("shift", by, (n, n), rng), {"auc": margin})


def spread_margin_case(unit, margin, share, n, rng):
    """A shift of s is so many pooled spreads. One column of several is shifted."""
    by = _shift_of(share * margin)
    test = twosample.mmd_median(permutations=PERMUTATIONS)
    return _verdict(test, drawn("shift", by, (n, n), rng), {unit: margin})


def mmd_margin_case(by, share, n, rng):
    """The margin is the MMD of the shift `by`, and the difference a share of that shift."""
    samples = drawn("shift", share * by, (n, n), rng)
    result = twosample.two_sample_test(*samples, "mmd-median", permutations=PERMUTATIONS, rng=0)
    margin = math.sqrt(normal_mmd2(result, "shift", by))
    return _told(dataclasses.replace(result, tolerance={"mmd": margin}))


def column_margin_case(margin, share, n, rng):
    """The bounds of one column, without a test around them."""
    x, y = drawn("shift", _shift_of(share * margin), (n, n), rng, columns=1)
    low, high = describe(_numbers(x[:, 0], y[:, 0]), 0.9).effect_interval
    return _by_bounds(low, high, margin)


def level_margin_case(margin, share, n, rng):
    """The bounds of one category, without a test around them."""
    moved = share * margin
    data = _levels((0.5, 0.3, 0.2), (0.5 - moved, 0.3, 0.2 + moved), n, rng)
    low, high = describe(data, 0.9).effect_interval
    return _by_bounds(low, high, margin)


def _shift_of(spreads):
    """The shift of a normal law that is so many spreads of both together."""
    return spreads / math.sqrt(1 - spreads**2 / 4)


def _by_bounds(low, high, margin):
    differ = low > margin
    equivalent = high < margin
    return {"differ": differ, "equivalent": equivalent, "undecided": not differ and not equivalent}


def _verdict(test, samples, tolerance):
    return _told(twosample.two_sample_test(*samples, test, rng=0, tolerance=tolerance))


def _told(result):
    verdict = result.verdict
    return {name: verdict == name for name in ("differ", "equivalent", "undecided")}


# The smallest difference: said of samples without any, then looked for in new ones.


def smallest_case(method, n, rng):
    test = few_views(199) if method == "spectral" else twosample.mmd_median(permutations=199)
    null = drawn("shift", 0.0, (n, n), rng)
    said = twosample.two_sample_test(*null, test, rng=0)
    smallest = said.smallest_difference
    shift = smallest.shift
    if shift is None:
        shift = _shift_with_mmd(said, smallest.mmd)
    found = twosample.two_sample_test(*drawn("shift", shift, (n, n), rng), test, rng=0)
    return {"found": found.reject(), "shift": shift}


def _shift_with_mmd(result, mmd):
    """The shift whose MMD this is by the kernel of a result, by bisection."""
    low, high = 0.0, 10.0
    for _ in range(50):
        middle = (low + high) / 2
        if normal_mmd2(result, "shift", middle) < mmd**2:
            low = middle
        else:
            high = middle
    return low


def category_case(n, rng):
    """A category alone: the smallest change of a level's share, which all others make room for."""
    names = np.array(["a", "b", "c"])

    def table(shares):
        return pd.DataFrame({"kind": rng.choice(names, n, p=shares)})

    null = table((0.5, 0.3, 0.2)), table((0.5, 0.3, 0.2))
    said = twosample.two_sample_test(*null, "spectral", permutations=199, rng=0)
    share = said.smallest_difference.share
    rest = (0.7 - share) / 0.7
    moved = (0.5 * rest, 0.3 + share, 0.2 * rest)
    found = twosample.two_sample_test(
        table((0.5, 0.3, 0.2)), table(moved), "spectral", permutations=199, rng=0
    )
    return {"found": found.reject(), "share": share}


@dataclasses.dataclass(frozen=True)
class Case:
    """One row of a table: what a draw does, how many there are, and how many make a part."""

    draw: object
    options: tuple
    draws: int
    part: int = 20


def _cases():
    """Kind -> the cases of one table, by name."""
    few = 400
    many = few * MANY
    found = {kind: {} for kind in KINDS}
    for change, by, n in (
        ("shift", 0.3, 500),
        ("shift", 0.7, 500),
        ("spread", 1.5, 500),
        ("shift", 0.3, 2000),
        ("shift", 0.0, 500),
    ):
        draws = 2 * few if n == 500 else few // 4
        found["views"][f"{change} {by:g}, n = {n}"] = Case(views_case, (change, by, n), draws)
    for change, by in (("shift", 0.3), ("shift", 0.7), ("spread", 1.5), ("shift", 0.0)):
        name = f"mmd-median, {change} {by:g}, n = 500"
        found["mmd2"][name] = Case(pairs_case, (change, by, 500), 2 * few)
    for change, by in (("shift", 0.7), ("correlation", 0.7)):
        name = f"mmd-d, {change} {by:g}, n = 500"
        found["mmd2"][name] = Case(deep_case, (change, by, 500), 2 * few)
    for n in (100, 500, 5000):
        for change, by in (("shift", 0.0), ("shift", 0.1), ("shift", 0.5), ("spread", 1.5)):
            name = f"numbers, {change} {by:g}, n = {n}"
            found["columns"][name] = Case(column_case, (change, by, n), many, 1000)
    for n in (100, 500, 5000):
        for name, before, after in (
            ("new level 2 %", (0.5, 0.5, 0.0), (0.49, 0.49, 0.02)),
            ("level 20 to 30 %", (0.5, 0.3, 0.2), (0.4, 0.3, 0.3)),
        ):
            case = Case(level_case, (before, after, n), many, 1000)
            found["columns"][f"{name}, n = {n}"] = case
    for n in (100, 500):
        name = f"correlation 0 to 0.5, n = {n}"
        found["columns"][name] = Case(correlation_case, (0.5, n), many, 1000)
    found["columns"]["region, shift 0.5, n = 500"] = Case(region_case, (0.5, 500), 2 * few)
    for share, where in ((1.0, "at the margin"), (0.0, "no difference"), (2.0, "twice the margin")):
        at_margin = share == 1
        for n in (1000,) if share else (1000, 4000):
            name = f"auc=0.6, {where}, n = {n}"
            draws = few // 2 if at_margin else few // 4
            found["tolerance"][name] = Case(auc_margin_case, (0.6, share, n), draws)
        draws = 2 * few if at_margin else few // 4
        for unit, of in (("spread", "spread"), ("0", "a column")):
            name = f"{of}=0.2, {where}, n = 1000"
            found["tolerance"][name] = Case(spread_margin_case, (unit, 0.2, share, 1000), draws)
        name = f"mmd of a shift of 0.5, {where}, n = 500"
        found["tolerance"][name] = Case(mmd_margin_case, (0.5, share, 500), draws)
        name = f"the bounds of a column, spread=0.2, {where}, n = 1000"
        found["tolerance"][name] = Case(column_margin_case, (0.2, share, 1000), many, 1000)
        name = f"the bounds of a category, spread=0.1, {where}, n = 1000"
        found["tolerance"][name] = Case(level_margin_case, (0.1, share, 1000), many, 1000)
    for n in (1000, 2000):
        name = f"auc=0.6 by all views of `spectral`, no difference, n = {n}"
        case = Case(functools.partial(auc_margin_case, all_views=True), (0.6, 0.0, n), few // 10)
        found["tolerance"][name] = case
    for method, n in (
        ("spectral", 200),
        ("spectral", 800),
        ("mmd-median", 200),
        ("mmd-median", 800),
    ):
        found["smallest"][f"{method}, n = {n}"] = Case(smallest_case, (method, n), few // 2)
    found["smallest"]["spectral, a category, n = 400"] = Case(category_case, (400,), few // 2)
    return found


KINDS = {
    "views": "Tests of views, here of values and 50 landmarks, which make a draw cheap: the AUC of "
    "the witnesses that were learned, the bound `changed`, and MMD² by their kernel. The last row "
    "has no difference: there the law of MMD² does not hold",
    "mmd2": "MMD² by all pairs. The last row of `mmd-median` has no difference",
    "columns": "Columns, pairs and regions: the difference (of means, shares, correlations), and "
    "the effect, whose interval is on the safe side",
    "tolerance": "Verdicts with a tolerance: the two errors at the margin, of which neither may be "
    "above 0.05, and the power elsewhere. Of the AUC by the same views",
    "smallest": "The smallest difference that is found with power 0.8: how often it was",
}


def run(names):
    done = {}
    for line in read(RESULTS):
        done[line["case"]] = done.get(line["case"], 0) + line["draws"]
    for kind, cases in _cases().items():
        for short, case in cases.items():
            name = f"{kind}: {short}"
            if names and not any(name.startswith(wanted) for wanted in names):
                continue
            for first in range(done.get(name, 0), case.draws, case.part):
                append(RESULTS, _part(name, case, first))


def _part(name, case, first):
    """The mean of everything that some draws found; what a draw did not find does not count."""
    began = time.process_time()
    found = []
    for number in range(first, first + case.part):
        rng = np.random.default_rng([zlib.crc32(name.encode()), number])
        found.append(case.draw(*case.options, rng))
    means = {}
    for key in found[0]:
        values = [float(draw[key]) for draw in found if draw[key] is not None]
        means[key] = round(float(np.mean(values)), 6)
    seconds = round(time.process_time() - began, 2)
    return {"case": name, "draws": len(found), "seconds": seconds, **means}


_NUMBERS = ("AUC", "width", "MMD²", "shift", "share")  # all other means are shares of draws


def tables():
    """The tables of the page, as Markdown."""
    by_case = {}
    for line in read(RESULTS):
        by_case.setdefault(line["case"], []).append(line)
    written = []
    for kind, cases in _cases().items():
        rows = {}
        for short in cases:
            parts = by_case.get(f"{kind}: {short}")
            if parts:
                rows[short] = parts
        if not rows:
            continue
        keys = list(dict.fromkeys(key for parts in rows.values() for key in parts[0]))[3:]
        written += [f"**{KINDS[kind]}.**\n", f"| case | draws | {' | '.join(keys)} |"]
        written.append("|---" * (2 + len(keys)) + "|")
        for short, parts in rows.items():
            draws = sum(part["draws"] for part in parts)
            cells = [_cell(key, parts, draws) for key in keys]
            written.append(f"| {short} | {draws:,} | {' | '.join(cells)} |")
        written.append("")
    return "\n".join(written)


def _cell(key, parts, draws):
    if key not in parts[0]:
        return ""
    mean = sum(part[key] * part["draws"] for part in parts) / draws
    if key in _NUMBERS:
        return f"{mean:.3g}"
    error = math.sqrt(mean * (1 - mean) / draws)
    return f"{mean:.3f} ± {error:.3f}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        run(sys.argv[2:])
    elif sys.argv[1:2] == ["table"]:
        write_between(PAGE, "effects.py", tables())
    else:
        sys.exit(__doc__)
