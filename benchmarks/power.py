"""The power of default tests on Blob-D, HDGM-D, Higgs and DCGAN digits: trials of one training and many test sets.

    python benchmarks/power.py run blob hdgm higgs mnist --trials 10 --tests 100
    python benchmarks/power.py table [--variants]
    python benchmarks/power.py catalogue [--trials 5]

The first appends to benchmarks/results/power.jsonl, or for a variant of mmd-d to variants.jsonl and for a column of the
paper's ablation to ablation.jsonl; the second prints. The third runs what is missing of all six tests of the paper and
all ten columns of its ablation, on Blob and HDGM, and prints them beside the published numbers.
A trial draws a training set, fits every method once on it, and tests the fitted kernel on fresh test sets of the same
size, each with 999 permutations. One JSON line is written for each finished trial, so a run can be stopped and
continued; several processes may run side by side on different data sets or trials. Run them with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np

import twosample
from twosample.bench import datasets

RESULTS = Path(__file__).parent / "results"
PAPER = {
    "mmd-d": {"blob": 0.985, "hdgm": 0.659, "higgs": 0.403},
    "mmd-o": {"higgs": 0.376},
    "c2st-s": {"blob": 0.835, "hdgm": 0.472, "higgs": 0.257},
    "c2st-l": {"blob": 0.942, "hdgm": 0.585, "higgs": 0.399},
    "G+C": {"blob": 0.901, "hdgm": 0.287},
    "D+C": {"blob": 0.900, "hdgm": 0.302},
    "L+M": {"blob": 0.851, "hdgm": 0.494},
    "G+M": {"blob": 0.960, "hdgm": 0.223},
    "D+M": {"blob": 0.906, "hdgm": 0.539},
    "L+J": {"blob": 0.952, "hdgm": 0.635},
    "G+J": {"blob": 0.966, "hdgm": 0.604},
}
_LONG = "all points in small steps, and a first layer that sees fine structure; with 3000 batches of 128 it is"
_WIDTHS = "starts at the best Gaussian and learns a width for every column"
_TRAIN = "the published number tests the training features again (Blob script of the authors), ours does not"
_FULL = "the scores saturate on a split that noise chose: after 1000 steps 99 % of |tanh| are above 0.9"
REASONS = {
    ("blob", "c2st-l"): f"{_LONG} 0.948 (variants)",
    ("hdgm", "c2st-s"): f"{_LONG} 0.431 (variants)",
    ("hdgm", "c2st-l"): f"{_LONG} 0.455 (variants)",
    ("blob", "G+C"): _TRAIN,
    ("blob", "D+C"): _TRAIN,
    ("hdgm", "G+C"): "the classifier is trained as that of C2ST-L, which is above the paper too",
    ("hdgm", "D+C"): "the classifier is trained as that of C2ST-L, which is above the paper too",
    ("blob", "L+M"): f"{_FULL}; so for every rate tried from 1e-3 to 1e-2, and the paper gives no settings",
    ("hdgm", "L+M"): f"{_FULL}; the paper gives no settings",
    ("blob", "D+M"): f"{_WIDTHS}; the start alone has 0.935 (variants of mmd-d)",
    ("hdgm", "G+M"): f"{_WIDTHS}; with a plain MLP mmd-d has 0.415 (variants)",
    ("hdgm", "D+M"): f"{_WIDTHS}; with a plain MLP mmd-d has 0.415 (variants)",
    ("hdgm", "G+J"): f"{_WIDTHS}; with a plain MLP mmd-d has 0.415 (variants)",
    ("hdgm", "mmd-d"): f"{_WIDTHS}; with a plain MLP it has 0.415 (variants)",
}
"""(data, method) -> why it is above or below the paper by more than two standard errors, found by experiment."""
VARIANTS = {  # what was tried beside the defaults, of mmd-d where nothing else is said
    "no training": lambda: twosample.mmd_d(steps=0),
    "plain MLP": lambda: twosample.mmd_d(twosample.MLP()),
    "scales at 3e-2": lambda: twosample.mmd_d(scale_rate=3e-2),
    "batches of 128": lambda: twosample.mmd_d(batch_size=128),
    "batches of 256": lambda: twosample.mmd_d(batch_size=256),
    "batches of 512": lambda: twosample.mmd_d(batch_size=512),
    "a fifth for early stopping": lambda: twosample.mmd_d(validation_fraction=0.2),
    "pixels without ranks": lambda: twosample.mmd_d(twosample.ConvNet()),
    **{  # the first defaults of c2st
        f"{name}, 3000 batches of 128": lambda name=name: twosample.METHODS[name](
            twosample.MLP(), steps=3000, batch_size=128, learning_rate=1e-2
        )
        for name in ("c2st-s", "c2st-l")
    },
}
CATALOGUE = {  # column of the paper: method here
    "ME": "me",
    "SCF": "scf",
    "SCF, not optimised": "scf, not optimised",
    "MMD-O": "mmd-o",
    "S+C = C2ST-S": "c2st-s",
    "L+C = C2ST-L": "c2st-l",
    **{column: column for column in twosample.ABLATIONS if column not in ("S+C", "L+C", "D+J")},
    "D+J = MMD-D": "mmd-d",
}
NEW_TRIALS = 100
"""Trials from this number on were drawn after the defaults were settled, which the first ones had a part in."""
ABLATION = {c: (lambda c=c: twosample.ablation(c)) for c in twosample.ABLATIONS if c in CATALOGUE}
ABLATION["scf, not optimised"] = lambda: twosample.scf(optimise=False)  # as published, though not meant
TESTS = {**twosample.METHODS, **VARIANTS, **ABLATION}
SIZES = {"blob": 360, "hdgm": 2000, "higgs": 1500, "mnist": 200}
SCALES = {"blob*1e-4": (1e-4, 0.0), "blob*1e4": (1e4, 0.0), "blob+1e-4": (1.0, 1e-4), "blob+1e4": (1.0, 1e4)}


def pools(name, rng):
    """Two functions `n -> (X, Y)`, for the training set and for test sets; real data never share a row between them."""
    if name in SCALES:  # Blob-D with its second column multiplied or shifted
        factor, shift = SCALES[name]
        train, test = pools("blob", rng)
        column = np.array([1.0, factor]), np.array([0.0, shift])
        return [lambda n, draw=draw: tuple(z * column[0] + column[1] for z in draw(n)) for draw in (train, test)]
    if name == "blob":
        return (lambda n: datasets.blob(n, rng=rng),) * 2
    if name == "hdgm":
        return (lambda n: datasets.hdgm(n, dimension=10, rng=rng),) * 2
    both = datasets.higgs() if name == "higgs" else (datasets.mnist()[:60000], datasets.fake_mnist())
    n = SIZES[name]
    order = [rng.permutation(len(pool)) for pool in both]
    train = [pool[index[:n]] for pool, index in zip(both, order, strict=True)]
    rest = [index[n:] for index in order]

    def test(n):
        return tuple(pool[rng.choice(index, n, replace=False)] for pool, index in zip(both, rest, strict=True))

    return (lambda n: train), test


def run_trial(name, method, trial, tests):
    # A scaled Blob has the draws and seeds of Blob itself: only the units differ.
    seed = [trial, *(name.split("*")[0].split("+")[0]).encode()]
    rng = np.random.default_rng(seed)
    n = SIZES[name.split("*")[0].split("+")[0]]
    draw_train, draw_test = pools(name, rng)
    began = time.process_time()
    train = draw_train(n)
    fitted = TESTS[method]().fit(*train, rng=np.random.SeedSequence(seed), progress=False)
    fitting = time.process_time() - began
    pvalues = [fitted.test(*draw_test(n), rng=k).pvalue for k in range(tests)]
    return {
        "data": name,
        "method": method,
        "trial": trial,
        "tests": tests,
        "rejections": sum(p <= 0.05 for p in pvalues),
        "fit_cpu_seconds": round(fitting, 2),
        "test_cpu_seconds": round((time.process_time() - began - fitting) / tests, 4),
        "version": twosample.__version__,
    }


def store(method):
    """Where the runs of a method are kept; variants apart from the defaults."""
    kept = "variants.jsonl" if method in VARIANTS else "ablation.jsonl" if method in ABLATION else "power.jsonl"
    return RESULTS / kept


def stored(path):
    if not path.exists():
        return []
    lines = path.read_text().splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


def run(names, methods, trials, tests):
    RESULTS.mkdir(exist_ok=True)
    done = {(r["data"], r["method"], r["trial"], r["tests"]) for m in methods for r in stored(store(m))}
    for trial in trials:
        for name in names:
            for method in methods:
                if (name, method, trial, tests) in done:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", twosample.InputWarning)  # of nearly dependent features
                    line = json.dumps(run_trial(name, method, trial, tests))
                with store(method).open("a") as file:
                    file.write(line + "\n")
                    file.flush()
                    os.fsync(file.fileno())
                print(line, flush=True)


def table(path):
    """The stored runs as Markdown."""
    rates = defaultdict(list)
    seconds = defaultdict(list)
    tests = {}
    records = stored(path)
    if path.name == "variants.jsonl":  # beside the variants, the defaults on the same trials
        trials = {(r["data"], r["trial"]) for r in records}
        defaults = [r for r in stored(RESULTS / "power.jsonl") if r["method"] == "mmd-d"]
        records += [{**r, "method": "(default)"} for r in defaults if (r["data"], r["trial"]) in trials]
    for r in records:
        if r["trial"] >= NEW_TRIALS:
            r["method"] += ", new trials"
        rates[r["data"], r["method"]].append(r["rejections"] / r["tests"])
        seconds[r["data"], r["method"]].append(r["fit_cpu_seconds"])
        tests[r["data"], r["method"]] = r["tests"]
    lines = [
        "| data | method | trials x tests | power | standard error | paper | CPU seconds to fit |",
        "|---|---|---|---|---|---|---|",
    ]
    for (name, method), values in sorted(rates.items()):
        error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
        paper = PAPER.get(method.split(",")[0], {}).get(name, "")
        cpu = np.median(seconds[name, method])
        count = f"{len(values)} x {tests[name, method]}"
        lines.append(f"| {name} | {method} | {count} | {np.mean(values):.3f} | {error:.3f} | {paper} | {cpu:.1f} |")
    return "\n".join(lines)


def catalogue(trials):
    """Six tests and ten columns on Blob and HDGM beside the paper's numbers, with a reason where they differ."""
    lines = [
        "| data | test | trials x tests | power | standard error | paper | difference in standard errors | why |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in ("blob", "hdgm"):
        for column, method in CATALOGUE.items():
            records = [r for r in stored(store(method)) if r["data"] == name and r["method"] == method]
            rates = [r["rejections"] / r["tests"] for r in records if r["trial"] < trials]
            if not rates:
                continue
            error = np.std(rates, ddof=1) / len(rates) ** 0.5 if len(rates) > 1 else float("nan")
            paper, far, why = PAPER.get(method, {}).get(name), "", ""
            if paper is not None:
                # The paper gives no error of its own here; with 1000 tests in all it cannot be less than binomial.
                both = (error**2 + paper * (1 - paper) / 1000) ** 0.5
                distance = (np.mean(rates) - paper) / both
                far = f"{distance:+.1f}"
                why = REASONS.get((name, method), "?") if abs(distance) > 2 else ""
            count = f"{len(rates)} x {records[0]['tests']}"
            shown = "" if paper is None else paper
            lines.append(
                f"| {name} | {column} | {count} | {np.mean(rates):.3f} | {error:.3f} | {shown} | {far} | {why} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command")
    runner = commands.add_parser("run")
    runner.add_argument("data", nargs="+", choices=[*SIZES, *SCALES])
    runner.add_argument("--methods", nargs="+", default=["mmd-d", "mmd-o"], choices=list(TESTS))
    runner.add_argument("--trials", type=int, default=10)
    runner.add_argument("--first-trial", type=int, default=0)
    runner.add_argument("--tests", type=int, default=100)
    commands.add_parser("table").add_argument("--variants", action="store_true")
    everything = commands.add_parser("catalogue")
    everything.add_argument("--trials", type=int, default=5)
    everything.add_argument("--no-run", action="store_true", help="print what is there")
    options = parser.parse_args()
    if options.command == "run":
        trials = range(options.first_trial, options.first_trial + options.trials)
        run(options.data, options.methods, trials, options.tests)
    elif options.command == "catalogue":
        if not options.no_run:
            run(["blob", "hdgm"], list(CATALOGUE.values()), range(options.trials), 100)
        print(catalogue(options.trials))
    else:
        variants = getattr(options, "variants", False)
        print(table(RESULTS / ("variants.jsonl" if variants else "power.jsonl")))
