"""A learned deep kernel with 999 permutations up to 100,000 + 100,000 points, against the
arithmetic of its tiles.

    python benchmarks/scale.py run [--sizes 5000 10000 20000 50000 100000]
    python benchmarks/scale.py table [--write]         from the stored results; --write puts it into docs/performance.md

Every size is a fresh single-thread process: fit `mmd_d()` on n + n points of HDGM-D (d = 10), test
it on n + n others. The roofline is measured in that process, before and after the test: a loop that
does nothing but the two matrix products, the two exponentials and the multiplication of a tile, in
place, on tiles of the size and widths that the test uses, times the tiles on and above the
diagonal. `share` is roofline / test: 1 would be a test whose sums, bins, bounds, permutations and
Python cost nothing. Other work on the machine slows both, so shares and exponents are to be read,
not seconds. Each size is one line in results/scale.jsonl; the table takes the last line of each.
"""

from __future__ import annotations

import argparse
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

import twosample
from twosample._products import DEFAULT_MEMORY, tile_rows
from twosample.bench import datasets

STORE = Path(__file__).parent / "results" / "scale.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
SIZES = (5_000, 10_000, 20_000, 50_000, 100_000)
DIMENSION = 10


def roofline(rows, widths, *, seconds=2.0):
    """CPU seconds for each value of a deep kernel's tile, and the throughput of its two kinds of
    work.

    `widths` are the columns of the features and of the points; the products have two more, for the
    squared norms.
    """
    generator = torch.Generator().manual_seed(0)
    sides = [
        [(torch.randn(rows, width + 2, generator=generator) / width) for width in widths]
        for _ in range(8)
    ]  # a few different strips, so that they are read from where a test reads them
    out = [torch.empty(rows, rows) for _ in widths]

    def products(a, b):
        for left, right, tile in zip(a, b, out, strict=True):
            torch.mm(left, right.T, out=tile)

    def exponentials(a, b):
        for tile in out:
            tile.exp_()

    def multiply(a, b):
        for tile in out[1:]:
            out[0].mul_(tile)

    def timed(*works):
        """CPU seconds of one tile; a first round warms up."""
        count = 0
        spent = 0.0
        while spent < seconds / 3:
            began = time.process_time()
            for a in sides:
                for b in sides:
                    for work in works:
                        work(a, b)
            spent += time.process_time() - began if count or spent else 1e-9
            count += len(sides) ** 2
        return spent / (count - len(sides) ** 2)

    # Products first in every round: what is exponentiated is always fresh.
    product = timed(products)
    both = timed(products, exponentials)
    whole = timed(products, exponentials, multiply)
    flops = sum(2 * rows**2 * (width + 2) for width in widths)
    return {
        "value": whole / rows**2,
        "gigaflops": flops / product / 1e9,
        "exponentials": len(widths) * rows**2 / max(both - product, 1e-9) / 1e9,
    }


def values_needed(points, rows):
    """Kernel values in the tiles on and above the diagonal."""
    strips = [min(rows, points - start) for start in range(0, points, rows)]
    return (points**2 + sum(side**2 for side in strips)) // 2


def one(n):
    """Fit and test at n = m in this process."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(n)
    train = datasets.hdgm(n, dimension=DIMENSION, rng=rng)
    held_out = datasets.hdgm(n, dimension=DIMENSION, rng=rng)
    began = time.process_time()
    fitted = twosample.mmd_d().fit(*train, rng=0)
    training = time.process_time() - began

    rows = tile_rows(DEFAULT_MEMORY, 4)
    with torch.no_grad():
        widths = [part.shape[1] for part in fitted.representation.embed(torch.zeros(2, DIMENSION))]
    before = roofline(rows, widths)
    forget_peak()
    resident = peak_bytes()
    cpu = time.process_time()
    wall = time.perf_counter()
    result = fitted.test(*held_out, rng=1, progress=False)
    cpu = time.process_time() - cpu
    wall = time.perf_counter() - wall
    peak = peak_bytes()
    after = roofline(rows, widths)
    arithmetic = (before["value"] + after["value"]) / 2 * values_needed(2 * n, rows)
    return {
        "n": n,
        "rows": rows,
        "widths": widths,
        "training_seconds": round(training, 2),
        "cpu_seconds": round(cpu, 3),
        "wall_seconds": round(wall, 3),
        "roofline_seconds": round(arithmetic, 3),
        "share": round(arithmetic / cpu, 3),
        "gigaflops": round((before["gigaflops"] + after["gigaflops"]) / 2, 1),
        "gigaexponentials": round((before["exponentials"] + after["exponentials"]) / 2, 3),
        "peak_mebibytes": round(peak / 2**20),
        "test_mebibytes": round((peak - resident) / 2**20, 1),
        "pvalue": result.pvalue,
        "calibration": result.calibration,
    }


def run(sizes):
    print(HEAD, flush=True)
    for n in sizes:
        record = in_fresh_process(__file__, "one", n) | stamp()
        append(STORE, record)
        print(line(record), flush=True)


HEAD = (
    "| n = m | training, CPU s | test, CPU s | roofline, CPU s | share | peak, MiB | of it the "
    "test, MiB | p-value |\n"
    "|---|---|---|---|---|---|---|---|"
)


def line(r):
    return (
        f"| {r['n']:,} | {r['training_seconds']:.1f} | {r['cpu_seconds']:.1f} | "
        f"{r['roofline_seconds']:.1f} | "
        f"{r['share']:.2f} | {r['peak_mebibytes']} | {r['test_mebibytes']:.0f} | {r['pvalue']:.3f} "
        "|"
    )


def table(records):
    """The last line of every size, as Markdown, and what follows from them."""
    last = [record for _, record in sorted({r["n"]: r for r in records}.items())]
    n = [r["n"] for r in last]
    slopes = {
        key: exponent(n, [r[key] for r in last])
        for key in ("cpu_seconds", "roofline_seconds", "training_seconds", "peak_mebibytes")
    }
    first = last[0]
    final = last[-1]
    return "\n".join(
        [
            HEAD,
            *map(line, last),
            "",
            f"Growth from n = {first['n']:,} to {final['n']:,}, as powers of n: test "
            f"{slopes['cpu_seconds']:.2f}, "
            f"roofline {slopes['roofline_seconds']:.2f}, training "
            f"{slopes['training_seconds']:.2f}, peak memory "
            f"{slopes['peak_mebibytes']:.2f}.",
            f"Measured beside the test at n = {final['n']:,}: {final['gigaflops']:.0f} Gflop/s in "
            "the matrix products "
            f"of a tile ({final['rows']} x {final['rows']}, "
            f"{' and '.join(map(str, final['widths']))} columns), "
            f"{final['gigaexponentials']:.2f} billion exponentials a second.",
            f"{final['processor']}, one thread; twosample {final['twosample']}, torch "
            f"{final['torch']}, "
            f"Python {final['python']}, {final['date']}, load {final['load']}.",
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["run", "table", "one"], nargs="?", default="run")
    parser.add_argument(
        "n", type=int, nargs="?", help="of the command `one`, which `run` starts for each size"
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument(
        "--write", action="store_true", help="put the table into docs/performance.md"
    )
    options = parser.parse_args()
    if options.command == "one":
        print(json.dumps(one(options.n)))
    else:
        if options.command == "run":
            run(options.sizes)
            print()
        text = table(read(STORE))
        print(text)
        if options.write:
            write_between(PAGE, "scale", text)
