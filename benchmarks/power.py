"""The power of default tests on Blob-D, HDGM-D, Higgs and DCGAN digits: trials of one training and
many test sets.

    python benchmarks/power.py run blob hdgm higgs mnist --trials 10 --tests 100
    python benchmarks/power.py table [--variants]

The first appends to benchmarks/results/power.jsonl, or for a variant of mmd-d to variants.jsonl;
the second prints. `twosample bench` runs all experiments of the paper, with fewer permutations;
this is for finding defaults. A trial draws a training set, fits every method once on it, and tests
the fitted kernel on fresh test sets of the same size, each with 999 permutations. One JSON line is
written for each finished trial, so a run can be stopped and continued; several processes may run
side by side on different data sets or trials. Run them with OMP_NUM_THREADS=1.
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
}
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
NEW_TRIALS = 100
"""Trials from this number on were drawn after the defaults were settled, which the first ones had a
part in."""
TESTS = {**twosample.METHODS, **VARIANTS}
SIZES = {"blob": 360, "hdgm": 2000, "higgs": 1500, "mnist": 200}
SCALES = {
    "blob*1e-4": (1e-4, 0.0),
    "blob*1e4": (1e4, 0.0),
    "blob+1e-4": (1.0, 1e-4),
    "blob+1e4": (1.0, 1e4),
}


def pools(name, rng):
    """Two functions `n -> (X, Y)`, for the training set and for test sets; real data never share a
    row between them.
    """
    if name in SCALES:  # Blob-D with its second column multiplied or shifted
        factor, shift = SCALES[name]
        train, test = pools("blob", rng)
        column = np.array([1.0, factor]), np.array([0.0, shift])
        return [
            lambda n, draw=draw: tuple(z * column[0] + column[1] for z in draw(n))
            for draw in (train, test)
        ]
    if name == "blob":
        return (lambda n: datasets.blob(n, rng=rng),) * 2
    if name == "hdgm":
        return (lambda n: datasets.hdgm(n, dimension=10, rng=rng),) * 2
    both = (
        datasets.higgs() if name == "higgs" else (datasets.mnist()[:60000], datasets.fake_mnist())
    )
    n = SIZES[name]
    order = [rng.permutation(len(pool)) for pool in both]
    train = [pool[index[:n]] for pool, index in zip(both, order, strict=True)]
    rest = [index[n:] for index in order]

    def test(n):
        return tuple(
            pool[rng.choice(index, n, replace=False)]
            for pool, index in zip(both, rest, strict=True)
        )

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
    return RESULTS / ("variants.jsonl" if method in VARIANTS else "power.jsonl")


def stored(path):
    if not path.exists():
        return []
    lines = path.read_text().splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


def run(names, methods, trials, tests):
    RESULTS.mkdir(exist_ok=True)
    done = {
        (r["data"], r["method"], r["trial"], r["tests"]) for m in methods for r in stored(store(m))
    }
    for trial in trials:
        for name in names:
            for method in methods:
                if (name, method, trial, tests) in done:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter(
                        "ignore", twosample.InputWarning
                    )  # of nearly dependent features
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
        records += [
            {**r, "method": "(default)"} for r in defaults if (r["data"], r["trial"]) in trials
        ]
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
        lines.append(
            f"| {name} | {method} | {count} | {np.mean(values):.3f} | {error:.3f} | {paper} | "
            f"{cpu:.1f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command")
    runner = commands.add_parser("run")
    runner.add_argument("data", nargs="+", choices=[*SIZES, *SCALES])
    runner.add_argument("--methods", nargs="+", default=["mmd-d", "mmd-o"], choices=list(TESTS))
    runner.add_argument("--trials", type=int, default=10)
    runner.add_argument("--first-trial", type=int, default=0)
    runner.add_argument("--tests", type=int, default=100)
    commands.add_parser("table").add_argument("--variants", action="store_true")
    options = parser.parse_args()
    if options.command == "run":
        trials = range(options.first_trial, options.first_trial + options.trials)
        run(options.data, options.methods, trials, options.tests)
    else:
        variants = getattr(options, "variants", False)
        print(table(RESULTS / ("variants.jsonl" if variants else "power.jsonl")))
