"""How much faster than the usual ways, in a few ratios, and whether they have become worse since
the last time.

    python benchmarks/summary.py [--quick]             `make bench` runs it; --quick takes a couple of minutes

    tiled step          textbook autograd / our tiled step of J (training_step.py)
    gather, product     a gather a permutation, one product with the Gram matrix / our bins (permutation_test.py)
    share               the arithmetic of the tiles / all of a test with a learned kernel (scale.py)

In all of them more is better. Both sides of a ratio are measured one after the other in fresh
single-thread processes, three times (once if quick), and the median ratio counts. The ratios are
compared with the last ones in results/bench.jsonl that a processor of the same name measured, and
added to them. Where one has lost more than a quarter, it says LOSS and ends with exit code 1; on a
busy machine, run it again before you believe it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

import permutation_test
import scale
import training_step
from _measure import append, in_fresh_process, read, stamp

STORE = Path(__file__).parent / "results" / "bench.jsonl"
ALLOWED = 0.75  # of the ratio before


def ratios(quick):
    """Name and function of every ratio, each function one measurement of it."""

    def step(setting):
        textbook = in_fresh_process(training_step.__file__, "textbook", *setting)
        tiled = in_fresh_process(training_step.__file__, "tiled", *setting)
        return textbook["seconds"] / tiled["seconds"]

    def permutations(kind, n):
        other = in_fresh_process(permutation_test.__file__, kind, n)
        ours = in_fresh_process(permutation_test.__file__, "bins", n)
        return other["seconds"] / ours["seconds"]

    for setting in training_step.SETTINGS[: 1 if quick else None]:
        yield f"tiled step, n = {setting[0]}", lambda setting=setting: step(setting)
    for kind in ("gather", "product"):
        yield f"{kind}, n = 2000", lambda kind=kind: permutations(kind, 2000)
    for n in (5_000,) if quick else (5_000, 10_000):
        yield f"share, n = {n}", lambda n=n: in_fresh_process(scale.__file__, "one", n)["share"]


def before(records, processor):
    """The last known value of every ratio on such a processor."""
    return {
        name: value
        for r in records
        if r["processor"] == processor
        for name, value in r["ratios"].items()
    }


def compare(now, then):
    """Markdown lines, and the names of what has become worse."""
    lines = ["| ratio (more is better) | now | before | now / before |", "|---|---|---|---|"]
    lost = []
    for name, value in now.items():
        old = then.get(name)
        if old is None:
            lines.append(f"| {name} | {value:.2f} | | |")
            continue
        worse = value < ALLOWED * old
        lost += [name] * worse
        lines.append(
            f"| {name} | {value:.2f} | {old:.2f} | {value / old:.2f}{' LOSS' if worse else ''} |"
        )
    return lines, lost


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the small settings, once")
    options = parser.parse_args()
    now = {}
    for name, measured in ratios(options.quick):
        now[name] = round(
            statistics.median(measured() for _ in range(1 if options.quick else 3)), 3
        )
        print(f"{name}: {now[name]:.2f}", file=sys.stderr, flush=True)
    stamped = stamp()
    lines, lost = compare(now, before(read(STORE), stamped["processor"]))
    append(STORE, {"quick": options.quick, "ratios": now, **stamped})
    print("\n".join(lines))
    if lost:
        sys.exit(f"LOSS: {', '.join(lost)} fell by more than a quarter.")
