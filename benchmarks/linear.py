"""All pairs, landmarks or blocks: the power and the time of three estimates of one MMD with one
learned kernel.

    python benchmarks/linear.py power [--trials 5] [--tests 100]
    python benchmarks/linear.py time [--sizes 10000 100000 1000000]
    python benchmarks/linear.py table [--write]        --write puts it into docs/performance.md

Power: `mmd_d()` is trained on HDGM-D (2000 + 2000 points, 10 columns) and on Blob-D (360 + 360),
and the same kernel tests fresh samples of those sizes by all three estimates. Time: CPU seconds of
one test with 999 permutations on n + n points of HDGM-D, in a fresh single-thread process; all
pairs are in docs/performance.md from benchmarks/scale.py. Every trial and every size is a line in
results/linear.jsonl, so a run can be stopped and continued.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from pathlib import Path

import numpy as np
import torch
from _measure import (
    append,
    exponent,
    forget_peak,
    in_fresh_process,
    peak_bytes,
    read,
    stamp,
    write_between,
)
from time_to_power import shown

import twosample
from twosample import MMD, PairSwap, Permutation
from twosample.bench import datasets

STORE = Path(__file__).parent / "results" / "linear.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
ESTIMATES = {
    "all pairs": (MMD("unbiased"), Permutation()),
    "landmarks": (MMD("compressed"), Permutation()),
    "blocks": (MMD("block"), PairSwap()),
}
DATA = {
    "Blob, 360 + 360": lambda rng: datasets.blob(360, rng=rng),
    "HDGM, 2000 + 2000": lambda rng: datasets.hdgm(2000, rng=rng),
}


def by(fitted, estimate):
    """The same kernel with another statistic."""
    statistic, calibration = ESTIMATES[estimate]
    spec = dataclasses.replace(fitted.spec, statistic=statistic, calibration=calibration)
    return dataclasses.replace(fitted, spec=spec)


def power(trials, tests):
    done = {(r["data"], r["trial"]) for r in read(STORE) if "trial" in r}
    for trial in range(trials):
        for data, draw in DATA.items():
            if (data, trial) in done:
                continue
            rng = np.random.default_rng([trial, len(data)])
            fitted = twosample.mmd_d().fit(*draw(rng), rng=trial, progress=False)
            rejections = dict.fromkeys(ESTIMATES, 0)
            for number in range(tests):
                X, Y = draw(rng)
                for estimate in ESTIMATES:
                    result = by(fitted, estimate).test(X, Y, rng=number, progress=False)
                    rejections[estimate] += result.reject()
            record = {"data": data, "trial": trial, "tests": tests, "rejections": rejections}
            append(STORE, record | stamp())


def one(estimate, n):
    """CPU seconds and memory of one test of n + n points, in this process."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    train = datasets.hdgm(2000, rng=rng)
    fitted = by(twosample.mmd_d(steps=20).fit(*train, rng=0, progress=False), estimate)
    X, Y = datasets.hdgm(n, rng=rng)
    X = X.astype(np.float32)
    Y = Y.astype(np.float32)
    fitted.test(X[:2000], Y[:2000], rng=0)  # warm
    forget_peak()
    before = peak_bytes()
    began = time.process_time()
    result = fitted.test(X, Y, rng=1, progress=False)
    seconds = time.process_time() - began
    return {
        "estimate": estimate,
        "n": n,
        "cpu_seconds": round(seconds, 2),
        "mebibytes": round((peak_bytes() - before) / 2**20),
        "pvalue": result.pvalue,
    }


def table(records):
    """Power by estimate, then seconds and memory by size."""
    lines = [
        "| data | trials x tests | " + " | ".join(ESTIMATES) + " |",
        "|---|---|" + "---|" * len(ESTIMATES),
    ]
    for data in DATA:
        own = [r for r in records if r.get("data") == data]
        if own:
            cells = [
                shown([{"rejections": r["rejections"][estimate], "tests": r["tests"]} for r in own])
                for estimate in ESTIMATES
            ]
            lines.append(f"| {data} | {len(own)} x {own[0]['tests']} | {' | '.join(cells)} |")
    timed = {(r["estimate"], r["n"]): r for r in records if "estimate" in r}
    sizes = sorted({n for _, n in timed})
    if sizes:
        lines += ["", "| estimate | " + " | ".join(f"n = {n:,}" for n in sizes) + " | power of n |"]
        lines += ["|---|" + "---|" * (len(sizes) + 1)]
        for estimate in ESTIMATES:
            own = [timed[estimate, n] for n in sizes if (estimate, n) in timed]
            if own:
                cells = [f"{r['cpu_seconds']:.1f} s, {r['mebibytes']} MiB" for r in own]
                cells += [""] * (len(sizes) - len(own))
                slope = exponent([r["n"] for r in own], [r["cpu_seconds"] for r in own])
                lines.append(f"| {estimate} | {' | '.join(cells)} | {slope:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["power", "time", "table", "one"])
    parser.add_argument("arguments", nargs="*", help="of the command `one`, which `time` starts")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--tests", type=int, default=100)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument(
        "--write", action="store_true", help="put the table into docs/performance.md"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.command == "one":
        print(json.dumps(one(options.arguments[0], int(options.arguments[1]))))
    elif options.command == "power":
        power(options.trials, options.tests)
    elif options.command == "time":
        for n in options.sizes:
            for estimate in ("landmarks", "blocks"):
                append(STORE, in_fresh_process(__file__, "one", estimate, n) | stamp())
    else:
        text = table(read(STORE))
        print(text)
        if options.write:
            write_between(PAGE, "linear", text)
