"""Watching: false alarms, rows until an alarm, kills, and the time of a batch.

    python benchmarks/watching.py null [--seconds 600]      null streams of 100 looks, some of each setting in turn
    python benchmarks/watching.py detect [--seconds 600]    streams with a difference, and what a fixed-n test needs
    python benchmarks/watching.py kill [--kills 200]        kill -9 at random moments, then compare to the bit
    python benchmarks/watching.py time [--rows 10000] [--batches 100]    batches of 10 columns
    python benchmarks/watching.py table [--write]           from the stored results; --write puts them into the docs

Every stream has a seed of its own, and is one line in results/watching.jsonl. A run goes on where
the last one ended, so results grow with the time one has. Baselines: `betting` is the kernel test by
betting of Shekhar and Ramdas (2023), pair by pair with online Newton steps; `classifier` is an
e-process of a classifier in the manner of Pandeva et al. (2024), fitted again after every batch.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from _measure import append, read, stamp, write_between
from scipy.stats import beta, binom, norm

import twosample
from twosample import Schedule, Watch
from twosample._watch.evidence import FEW_SIZES
from twosample._watch.state import as_bytes
from twosample.bench.datasets import blob, higgs

STORE = Path(__file__).parent / "results" / "watching.jsonl"
DOCS = Path(__file__).parents[1] / "docs"
LOOKS = 100
ALPHA = 0.05
SHIFTS = (0.0, 0.1, 0.3)


# Null streams


def gaussian(rng, rows):
    return rng.normal(size=(rows, 3))


def heavy(rng, rows):
    return rng.standard_t(2, size=(rows, 3))


def discrete(rng, rows):
    return rng.binomial(3, 0.3, size=(rows, 3)).astype(float)


def mixed(rng, rows):
    return pd.DataFrame(
        {
            "size": rng.normal(size=rows),
            "kind": rng.choice(list("abcdef"), size=rows, p=[0.5, 0.3, 0.1, 0.05, 0.03, 0.02]),
            "new": rng.random(rows) < 0.3,
            "age": np.where(rng.random(rows) < 0.05, np.nan, rng.exponential(size=rows)),
        }
    )


DATA = {"Gaussian": gaussian, "t, 2 df": heavy, "discrete": discrete, "mixed table": mixed}
WITNESSES = ("columns", "spectral", "classifier", "mmd-o")


def streams_at_once(witness, data):
    """Streams of a setting before the next one has its turn: more where they are cheap."""
    if witness != "columns":
        return 1
    return 3 if data == "mixed table" else 8


def witness_of(name):
    if name == "classifier":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression()
    return name


def null_stream(witness, data, with_reference, seed):
    """The batch that raised a false alarm; None if none did."""
    rng = np.random.default_rng([seed, 1])
    draw = DATA[data]
    options = {"witness": witness_of(witness), "permutations": 39, "rng": seed}
    if with_reference:
        options["reference"] = draw(rng, 1600)
    watch = Watch(**options)
    for look in range(LOOKS):
        n, m = rng.integers(5, 16, size=2)
        batch = [draw(rng, m)] if with_reference else [draw(rng, n), draw(rng, m)]
        if watch.update(*batch).alarm:
            return look + 1
    return None


def run_null(seconds, witnesses, first):
    settings = [
        (witness, data, with_reference)
        for witness in witnesses
        for data in DATA
        for with_reference in (False, True)
    ]
    done = defaultdict(int)
    for record in read(STORE):
        if record["what"] == "null":
            done[(record["witness"], record["data"], record["reference"])] += 1
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for setting in settings:
            witness, data, with_reference = setting
            for _ in range(streams_at_once(witness, data)):
                seed = first + done[setting]
                done[setting] += 1
                alarm = null_stream(witness, data, with_reference, seed)
                line = {"what": "null", "witness": witness, "data": data}
                append(STORE, {**line, "reference": with_reference, "seed": seed, "alarm": alarm})
            if time.monotonic() > until:
                return


# Streams with a difference


def one_column(rng, rows):
    X = rng.normal(size=(rows, 10))
    Y = rng.normal(size=(rows, 10))
    Y[:, 3] += 0.3
    return X, Y


def one_pair(rng, rows):
    X = rng.normal(size=(rows, 10))
    Y = rng.normal(size=(rows, 10))
    Y[:, 1] = 0.4 * Y[:, 0] + math.sqrt(1 - 0.4**2) * Y[:, 1]
    return X, Y


def new_level(rng, rows):
    X = pd.DataFrame({"size": rng.normal(size=rows), "kind": rng.choice(list("abcde"), size=rows)})
    Y = pd.DataFrame({"size": rng.normal(size=rows), "kind": rng.choice(list("abcde"), size=rows)})
    Y.loc[rng.random(rows) < 0.05, "kind"] = "z"
    return X, Y


def blobs(rng, rows):
    return blob(rows, rng=rng)


@functools.cache
def higgs_rows():
    return higgs()


def source_of(change, rng):
    """Rows -> new rows of X and of Y; no row of a data set comes twice."""
    draw = CHANGES[change][0]
    if draw is not None:
        return lambda rows: draw(rng, rows)
    orders = [iter(rng.permutation(sample)) for sample in higgs_rows()]
    return lambda rows: tuple(np.stack([next(order) for _ in range(rows)]) for order in orders)


# Name -> draw, rows of each sample in a batch, and the sizes at which the fixed-n test is run.
CHANGES = {
    "Blob": (blobs, 20, (90, 135, 180, 225, 300)),
    "Higgs": (None, 250, (1000, 2000, 3000, 4000)),
    "one column": (one_column, 20, (150, 200, 250, 300, 400)),
    "one pair": (one_pair, 20, (100, 150, 200, 250, 300)),
    "new level": (new_level, 20, (60, 90, 120, 160, 220)),
}


def most_rows(change):
    """Rows of each sample that a stream has at most."""
    return 10_000 if change == "Higgs" else 1000


def as_array(sample):
    if isinstance(sample, pd.DataFrame):
        kinds = sample["kind"].map({level: place for place, level in enumerate("abcdez")})
        return np.column_stack([sample["size"], *(kinds == place for place in range(6))])
    return np.asarray(sample, dtype=float)


class OurWatch:
    """What this library offers."""

    def __init__(self, seed, witness="spectral"):
        self.watch = Watch(witness=witness, rng=seed)

    def update(self, X, Y):
        return self.watch.update(X, Y).alarm


class Betting:
    """The kernel test by betting of Shekhar and Ramdas (2023), one pair after the other.

    The payoff is f(x) - f(y) over the root of 2, with f the witness function of the MMD of all pairs
    before, of norm 1. The kernel is at most 1, so the payoff lies in [-1, 1], and swapping x and y
    changes its sign. Fractions of the wealth are bet by online Newton steps.
    """

    def __init__(self, seed):
        self.x = None
        self.log_wealth = 0.0
        self.bet = 0.0
        self.squares = 1.0

    def kernel(self, a, b):
        distances = ((a[:, None] - b[None]) ** 2).sum(2)
        return np.exp(-distances / (2 * self.width**2))

    def update(self, X, Y):
        X, Y = as_array(X), as_array(Y)
        if self.x is None:
            pooled = np.concatenate([X, Y])
            distances = np.sqrt(((pooled[:, None] - pooled[None]) ** 2).sum(2))
            self.width = np.median(distances[distances > 0])
            self.x, self.y = X[:0], Y[:0]
            self.norm2 = 0.0
        before = len(self.x)
        self.x = np.concatenate([self.x, X])
        self.y = np.concatenate([self.y, Y])
        at_x = self.kernel(X, self.x) - self.kernel(X, self.y)  # (n, all)
        at_y = self.kernel(Y, self.x) - self.kernel(Y, self.y)
        for row in range(len(X)):
            known = before + row
            difference = at_x[row, :known].sum() - at_y[row, :known].sum()
            if known and self.norm2 > 1e-12:
                payoff = difference / math.sqrt(2 * self.norm2)
                self.log_wealth += math.log1p(self.bet * payoff)
                self.step(payoff)
                if self.log_wealth >= math.log(1 / ALPHA):
                    return True
            own = at_x[row, known] - at_y[row, known]
            self.norm2 += 2 * difference + own
        return False

    def step(self, payoff):
        slope = -payoff / (1 + self.bet * payoff)
        self.squares += slope**2
        rate = 2 / (2 - math.log(3))
        self.bet = float(np.clip(self.bet - rate * slope / self.squares, -0.5, 0.5))


class Classifier:
    """An e-process of a classifier in the manner of Pandeva et al. (2024), on pairs.

    Given a pair, either row is as likely to be the one of X. The classifier, fitted on all pairs
    before, gives the odds of the order observed; e-values of pairs are multiplied.
    """

    def __init__(self, seed):
        from sklearn.ensemble import HistGradientBoostingClassifier

        self.make = lambda: HistGradientBoostingClassifier(
            max_iter=30, min_samples_leaf=10, random_state=seed
        )
        self.x, self.y = [], []
        self.log_wealth = 0.0

    def update(self, X, Y):
        X, Y = as_array(X), as_array(Y)
        if self.x:
            x, y = np.concatenate(self.x), np.concatenate(self.y)
            labels = np.repeat([1, 0], [len(x), len(y)])
            fitted = self.make().fit(np.concatenate([x, y]), labels)
            at_x = np.clip(fitted.predict_proba(X)[:, 1], 0.01, 0.99)
            at_y = np.clip(fitted.predict_proba(Y)[:, 1], 0.01, 0.99)
            right, wrong = at_x * (1 - at_y), at_y * (1 - at_x)
            steps = np.log(2 * right / (right + wrong))
            running = self.log_wealth + np.cumsum(steps)
            self.log_wealth = running[-1]
            if running.max() >= math.log(1 / ALPHA):
                return True
        self.x.append(X)
        self.y.append(Y)
        return False


WATCHERS = {"Watch": OurWatch, "betting": Betting, "classifier": Classifier}


def detect_stream(change, watcher, seed):
    """Rows of each sample until the alarm, None if there was none; and CPU seconds."""
    rows = CHANGES[change][1]
    draw = source_of(change, np.random.default_rng([seed, 2]))
    watch = WATCHERS[watcher](seed)
    began = time.process_time()
    for number in range(1, most_rows(change) // rows + 1):
        if watch.update(*draw(rows)):
            return number * rows, time.process_time() - began
    return None, time.process_time() - began


def fixed_test(change, rows, seed):
    X, Y = source_of(change, np.random.default_rng([seed, 3]))(rows)
    test = twosample.spectral(permutations=99)
    return test.run(X, Y, rng=seed, progress=False).pvalue <= ALPHA


def run_detect(seconds, changes):
    done = defaultdict(int)
    for record in read(STORE):
        if record["what"] in ("detect", "fixed"):
            key = record.get("watcher") or record["rows"]
            done[(record["change"], key)] += 1
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for change in changes:
            streams = done[(change, "Watch")]
            for watcher in WATCHERS:
                # Baselines take most of the time.
                if watcher != "Watch" and 4 * done[(change, watcher)] > streams:
                    continue
                seed = done[(change, watcher)]
                done[(change, watcher)] += 1
                rows, cpu = detect_stream(change, watcher, seed)
                line = {"what": "detect", "change": change, "watcher": watcher, "seed": seed}
                append(STORE, {**line, "rows_until": rows, "cpu": round(cpu, 3)})
            for rows in CHANGES[change][2]:
                if done[(change, rows)] > streams:
                    continue
                seed = done[(change, rows)]
                done[(change, rows)] += 1
                found = fixed_test(change, rows, seed)
                line = {"what": "fixed", "change": change, "rows": rows, "seed": seed}
                append(STORE, {**line, "found": bool(found)})
            if time.monotonic() > until:
                return


# Looks that are planned, looks that are not


def alarm_shares(shift, streams=20_000, looks=30, rows=50):
    """Way -> the share of streams with an alarm by each look.

    One column of known variance, so that all can be computed at once: Y is shifted from the first
    look on. The watch is the mixture of `evidence` for one axis, with boosted bets; the tests are
    z-tests of all rows so far.
    """
    rng = np.random.default_rng(0)
    weights = rows / 2 * np.arange(1, looks + 1)  # N
    steps = rng.normal(shift * rows / 2, math.sqrt(rows / 2), size=(streams, looks))
    sums = np.cumsum(steps, axis=1)
    pvalues = 2 * norm.sf(np.abs(sums) / np.sqrt(weights))
    alarms = {
        "Watch": boosted_alarms(sums, weights),
        "Schedule": pvalues <= np.array(Schedule(looks, ALPHA).levels),
        "Schedule, shape=3": pvalues <= np.array(Schedule(looks, ALPHA, shape=3).levels),
        "0.05 every day": pvalues <= ALPHA,
    }
    return {
        way: np.maximum.accumulate(raised, axis=1).mean(0).tolist()
        for way, raised in alarms.items()
    }


def boosted_alarms(sums, weights, points=200):
    """(streams, looks) where the wealth reaches 1 / alpha, if bets are boosted as `Watch` does.

    In place of labellings, a bet is fair over the quantiles of a step without a difference.
    """
    (size,) = FEW_SIZES

    def ratio(u, N):
        return np.exp(size / (1 + N * size) * u**2 / 2) / math.sqrt(1 + N * size)

    streams, looks = sums.shape
    wealth = np.ones(streams)
    alarms = np.zeros((streams, looks), dtype=bool)
    N = weights[0]  # of a look
    quantiles = math.sqrt(N) * norm.ppf((np.arange(points) + 0.5) / points)
    before = np.zeros(streams)
    for look in range(looks):
        scores = ratio(before[:, None] + quantiles, weights[look])
        mean = scores.mean(1)
        largest_first = -np.sort(-scores / mean[:, None], axis=1)
        lacking = 1 / ALPHA / wealth
        # If the k largest are capped, all others have to make up what is left of the sum.
        left = points - lacking[:, None] * np.arange(points)
        factors = left / np.cumsum(largest_first[:, ::-1], axis=1)[:, ::-1]
        none_is_above = factors * largest_first <= lacking[:, None]
        fewest = none_is_above.argmax(1)
        factor = factors[np.arange(streams), fewest]
        evalue = ratio(sums[:, look], weights[look]) / mean
        wealth = wealth * np.minimum(factor * evalue, lacking)
        alarms[:, look] = wealth >= (1 - 1e-9) / ALPHA
        wealth = np.minimum(wealth, (1 - 1e-9) / ALPHA)  # what comes later changes no alarm
        before = sums[:, look]
    return alarms


# Kills


def records_and_log(state):
    """All that a stream has left behind."""
    log = state.with_suffix(".jsonl")
    return repr(Watch.load(state).history), log.read_text()


def run_kill(kills):
    """Kill `twosample watch` at random moments, and compare with a run that nobody killed."""
    rng = np.random.default_rng(int(time.time()))
    command = [sys.executable, "-m", "twosample", "watch"]
    options = ["days", "--reference", "year.csv", "--witness", "columns", "--seed", "1"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "days").mkdir()
        rows = pd.DataFrame(gaussian(rng, 3000), columns=list("abc"))
        rows.to_csv(folder / "year.csv", index=False)
        for day in range(100):
            rows = pd.DataFrame(gaussian(rng, 20), columns=list("abc"))
            rows.to_csv(folder / "days" / f"day-{day:03}.csv", index=False)
        began = time.monotonic()
        subprocess.run([*command, "whole", *options], cwd=folder, capture_output=True)
        usual = time.monotonic() - began
        killed = 0
        rounds = 0
        while killed < kills:
            rounds += 1
            for old in folder.glob("part*"):
                old.unlink()
            while True:
                run = subprocess.Popen(
                    [*command, "part", *options], cwd=folder, stdout=-3, stderr=-3
                )
                try:
                    run.wait(usual * rng.uniform(0.2, 1.2))
                    break
                except subprocess.TimeoutExpired:
                    run.send_signal(signal.SIGKILL)
                    run.wait()
                    killed += 1
            same = records_and_log(folder / "whole") == records_and_log(folder / "part")
            append(STORE, {"what": "kill", "killed": killed, "round": rounds, "same": same})
            print(f"{killed} kills, {rounds} streams of 100 batches brought to an end: {same}")


# Time


def run_time(batches=100, rows=10_000, columns=10):
    rng = np.random.default_rng(0)
    watch = Watch(rng=0)
    seconds = []
    sizes = []
    for _ in range(batches):
        X = rng.normal(size=(rows, columns))
        Y = rng.normal(size=(rows, columns))
        began = time.process_time()
        watch.update(X, Y)
        seconds.append(round(time.process_time() - began, 3))
        sizes.append(len(as_bytes(watch)))
        if len(seconds) % 10 == 0:  # so that little is lost when it is stopped
            line = {"what": "time", "rows": rows, "columns": columns, "seconds": seconds}
            append(STORE, {**line, "state_bytes": sizes, **stamp()})


# Tables


def upper(alarms, streams):
    """The upper end of the exact 95 % interval of a share."""
    return float(beta.ppf(0.975, alarms + 1, streams - alarms)) if alarms < streams else 1.0


def null_table(records):
    counts = defaultdict(lambda: [0, 0])
    for record in records:
        if record["what"] == "null":
            kind = "fixed reference" if record["reference"] else "two streams"
            count = counts[(record["witness"], kind, record["data"])]
            count[0] += record["alarm"] is not None
            count[1] += 1
    lines = [
        "| witness | data | streams of 100 looks | with a false alarm | share, at most (95 %) | allowed |",
        "|---|---|---|---|---|---|",
    ]
    for witness in WITNESSES:
        of_witness = {key: count for key, count in counts.items() if key[0] == witness}
        for (_, kind, data), (alarms, streams) in sorted(of_witness.items()):
            lines.append(null_line(witness, f"{data}, {kind}", alarms, streams))
        if of_witness:
            alarms, streams = np.sum(list(of_witness.values()), axis=0).tolist()
            lines.append(null_line(f"**{witness}**", "**all**", alarms, streams))
    return "\n".join(lines)


def null_line(witness, data, alarms, streams):
    # As many as chance gives at 0.05 in all but one of a thousand cases.
    allowed = int(binom.isf(1e-3, streams, ALPHA))
    return (
        f"| {witness} | {data} | {streams} | {alarms} | {alarms / streams:.3f}, "
        f"{upper(alarms, streams):.3f} | {allowed} |"
    )


def detect_table(records):
    until = defaultdict(list)
    cpu = defaultdict(list)
    found = defaultdict(list)
    for record in records:
        if record["what"] == "detect":
            rows = math.inf if record["rows_until"] is None else record["rows_until"]
            until[(record["change"], record["watcher"])].append(rows)
            cpu[(record["change"], record["watcher"])].append(record["cpu"])
        elif record["what"] == "fixed":
            found[(record["change"], record["rows"])].append(record["found"])
    lines = [
        "| change | one exact test, power 0.5 | `Watch`, median | ratio | betting, median | classifier, median | CPU s a stream: Watch, betting, classifier |",
        "|---|---|---|---|---|---|---|",
    ]
    for change in CHANGES:
        fixed = rows_for_half({n: found[(change, n)] for n in CHANGES[change][2]})
        cells = [change, shown_rows(fixed), "", "", "", "", ""]
        medians = {}
        for place, watcher in ((2, "Watch"), (4, "betting"), (5, "classifier")):
            values = until[(change, watcher)]
            if values:
                medians[watcher] = statistics.median(values)
                cells[place] = f"{shown_rows(medians[watcher], change)} ({len(values)})"
        if "Watch" in medians and fixed and math.isfinite(medians["Watch"]):
            cells[3] = f"{medians['Watch'] / fixed:.2f}"
        times = [cpu[(change, watcher)] for watcher in WATCHERS]
        cells[6] = ", ".join(f"{statistics.mean(each):.1f}" if each else "-" for each in times)
        lines.append(f"| {' | '.join(cells)} |")
    tests = [len(each) for each in found.values()]
    lines += ["", f"In brackets the number of streams; {min(tests, default=0)} tests at each size."]
    return "\n".join(lines)


def rows_for_half(found):
    """Where the power crosses one half, between the sizes that were run; None if it does not."""
    shares = [(rows, statistics.mean(each)) for rows, each in sorted(found.items()) if each]
    for (low, below), (high, above) in itertools.pairwise(shares):
        if below < 0.5 <= above:
            return low + (0.5 - below) / (above - below) * (high - low)
    if shares and shares[0][1] >= 0.5:
        return shares[0][0]  # or fewer
    return None


def shown_rows(rows, change=None):
    if rows is None:
        return "more than was run"
    if math.isinf(rows):
        return f"more than {most_rows(change):,}"
    return f"{rows:,.0f}"


def schedule_table():
    lines = [
        "| shift of a column, in standard deviations | way | alarm by look 3 | 10 | 30 |",
        "|---|---|---|---|---|",
    ]
    for shift in SHIFTS:
        for way, shares in alarm_shares(shift).items():
            cells = " | ".join(f"{shares[look - 1]:.3f}" for look in (3, 10, 30))
            lines.append(f"| {shift:g} | {way} | {cells} |")
    lines += [
        "",
        "One column of known variance, 50 + 50 rows a look, 20,000 streams; `python "
        "benchmarks/watching.py table`.",
    ]
    return "\n".join(lines)


def pyplot():
    """matplotlib's, without a screen, and with files that are the same every time."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "twosample"
    import matplotlib.pyplot as plt

    return plt


def draw_schedule():
    """The picture: how many streams have an alarm, look by look."""
    plt = pyplot()
    figure, axes = plt.subplots(1, len(SHIFTS), figsize=(9, 2.8), sharey=True)
    for axis, shift in zip(axes, SHIFTS, strict=True):
        for way, shares in alarm_shares(shift).items():
            axis.plot(range(1, len(shares) + 1), shares, label=way)
        axis.axhline(ALPHA, color="grey", linewidth=0.6, linestyle="--")
        axis.set_title("no difference" if shift == 0 else f"shift {shift:g}", fontsize=10)
        axis.set_xlabel("look")
    axes[0].set_ylabel("share with an alarm")
    axes[0].legend(fontsize=7, frameon=False)
    figure.tight_layout()
    figure.savefig(DOCS / "images" / "watching.svg", metadata={"Date": None})
    plt.close(figure)


def draw_time(records):
    """The picture: what a batch costs, however many came before it."""
    timed = latest_times(records)
    if not timed:
        return
    plt = pyplot()
    figure, (above, below) = plt.subplots(2, 1, figsize=(7, 3.6), sharex=True)
    for record in timed:
        numbers = range(1, len(record["seconds"]) + 1)
        label = f"{record['rows']:,} + {record['rows']:,} rows, {record['columns']} columns"
        above.plot(numbers, record["seconds"], marker=".", linewidth=0.8, label=label)
        below.plot(numbers, [size / 1e6 for size in record["state_bytes"]], linewidth=1.2)
    above.set_ylabel("CPU s of a batch")
    below.set_ylabel("state, MB")
    below.set_xlabel("batch")
    for axis in (above, below):
        axis.set_ylim(0, 1.25 * axis.get_ylim()[1])
    above.legend(fontsize=8, frameon=False)
    figure.tight_layout()
    figure.savefig(DOCS / "images" / "watching-time.svg", metadata={"Date": None})
    plt.close(figure)


def latest_times(records):
    """The last record of each number of rows."""
    timed = {record["rows"]: record for record in records if record["what"] == "time"}
    return list(timed.values())


def time_table(records):
    timed = latest_times(records)
    if not timed:
        return ""
    lines = [
        "![CPU time of a batch and size of the state, batch after batch](images/watching-time.svg)",
        "",
        "| rows of each sample | columns | batches | CPU s a batch: the first tenth | the second | the last | state after the second tenth | at the end |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for record in timed:
        seconds = record["seconds"]
        tenth = max(1, len(seconds) // 10)
        parts = [seconds[:tenth], seconds[tenth : 2 * tenth], seconds[-tenth:]]
        cells = " | ".join(f"{statistics.mean(each):.2f}" for each in parts)
        sizes = record["state_bytes"]
        states = f"{sizes[2 * tenth - 1] / 1e6:.2f} MB | {sizes[-1] / 1e6:.2f} MB"
        lines.append(
            f"| {record['rows']:,} | {record['columns']} | {len(seconds)} | {cells} | {states} |"
        )
    last = timed[-1]
    lines += ["", f"{last['processor']}, one thread; load {last['load']} at the end."]
    return "\n".join(lines)


def kill_sentence(records):
    kills = [record for record in records if record["what"] == "kill"]
    if not kills:
        return ""
    same = "to the bit" if all(record["same"] for record in kills) else "NOT THE SAME"
    # Each run of the script counts its kills and its streams from the start.
    ends = [a for a, b in itertools.pairwise([*kills, {"round": 0}]) if b["round"] <= a["round"]]
    total = sum(record["killed"] for record in ends)
    return (
        f"`kill -9` at {total} random moments, in {len(kills)} streams of 100 batches that were then "
        f"brought to an end: records and log were those of an undisturbed run, {same}."
    )


def show(write):
    records = read(STORE)
    texts = {
        "watching": "\n\n".join(
            [
                '*False alarms* without a difference, alpha = 0.05. "Allowed" is what chance '
                "exceeds once in a thousand.",
                null_table(records),
                "*Rows* of each sample until an alarm, the difference being there from the start; the "
                "power is that of `spectral` at a fixed size, interpolated.",
                detect_table(records),
                kill_sentence(records),
            ]
        ),
        "watching-schedule": "\n\n".join(
            [
                "![Share of streams with an alarm, look by look, for three sizes of a difference]"
                "(images/watching.svg)",
                schedule_table(),
            ]
        ),
    }
    times = time_table(records)
    print("\n\n".join([*texts.values(), times]))
    if write:
        for name, text in texts.items():
            write_between(DOCS / "watching.md", name, text)
        write_between(DOCS / "performance.md", "watching", times)
        draw_schedule()
        draw_time(records)


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("null", "detect", "kill", "time", "table"))
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument(
        "--first", type=int, default=0, help="seeds from here on, one range a process"
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--only", nargs="*", help="witnesses, or changes")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if arguments.what == "null":
        run_null(arguments.seconds, arguments.only or WITNESSES, arguments.first)
    elif arguments.what == "detect":
        run_detect(arguments.seconds, arguments.only or CHANGES)
    elif arguments.what == "kill":
        run_kill(arguments.kills)
    elif arguments.what == "time":
        run_time(arguments.batches, arguments.rows)
    else:
        show(arguments.write)
