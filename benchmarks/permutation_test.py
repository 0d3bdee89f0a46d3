"""999 permutations with a deep kernel: bins of points against the two usual ways, and 50,000 points
a sample in 1 GiB.

    python benchmarks/permutation_test.py

(a) gathers the submatrices of the Gram matrix once a permutation (30 are timed and scaled to 999);
(b) multiplies the full Gram matrix by all labellings at once. Each in a fresh single-thread process
of the same run, so only ratios are to be read. All three compute the Gram matrix or its block sums
themselves.
"""

from __future__ import annotations

import json
import sys
import time

import torch
from _measure import forget_peak, in_fresh_process, peak_bytes

import twosample
from twosample._data.survey import as_samples

PERMUTATIONS = 999


def gather(gram, n, count, generator):
    for _ in range(count):
        order = torch.randperm(len(gram), generator=generator)
        x = order[:n]
        y = order[n:]
        k_xx = gram[x][:, x]
        k_yy = gram[y][:, y]
        k_xy = gram[x][:, y]
        within_x = (k_xx.sum() - k_xx.trace()) / (n * (n - 1))
        within_y = (k_yy.sum() - k_yy.trace()) / (n * (n - 1))
        (within_x + within_y - 2 * k_xy.mean()).item()


def one_product(gram, n, generator):
    gram = gram.clone().fill_diagonal_(0)
    labels = torch.zeros(PERMUTATIONS + 1, len(gram))
    order = torch.rand(PERMUTATIONS + 1, len(gram), generator=generator).argsort(1)
    labels.scatter_(1, order[:, :n], 1.0)
    product = labels @ gram
    xx = (product * labels).sum(1)
    xy = product.sum(1) - xx
    yy = gram.sum() - xx - 2 * xy
    (xx / (n * (n - 1)) + yy / (n * (n - 1)) - 2 * xy / n**2).tolist()


def one(kind, n):
    generator = torch.Generator().manual_seed(0)
    torch.set_num_threads(1)
    samples = as_samples(*(torch.randn(n, 10, generator=generator) for _ in range(2))).to(
        dtype=torch.float32
    )
    kernel = twosample.DeepKernel(
        twosample.MLP(10, width=30, generator=generator),
        twosample.Gaussian(0.2),
        twosample.Gaussian(3.0),
    )
    kernel.eval().requires_grad_(False)
    pooled = samples.pooled()
    forget_peak()
    before = peak_bytes()
    began = time.process_time()
    if kind == "bins":
        twosample.Permutation(PERMUTATIONS)(
            twosample.MMD(), kernel, samples, generator, memory=2**30
        )
    else:
        gram = kernel(pooled, pooled)
        made = time.process_time()
        if kind == "gather":
            gather(gram, n, 30, generator)
            began -= (time.process_time() - made) * (PERMUTATIONS / 30 - 1)
        else:
            one_product(gram, n, generator)
    return {"seconds": time.process_time() - began, "mebibytes": (peak_bytes() - before) / 2**20}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(one(sys.argv[1], int(sys.argv[2]))))
        sys.exit()
    n = 2000
    measured = {kind: in_fresh_process(__file__, kind, n) for kind in ("bins", "gather", "product")}
    print(f"{PERMUTATIONS} permutations at n = m = {n}:\n")
    print("| way | CPU s | ratio to ours | peak MiB |")
    print("|---|---|---|---|")
    names = {
        "bins": "ours: bins, tiled",
        "gather": "(a) a gather per permutation",
        "product": "(b) one product with the Gram matrix",
    }
    for kind, name in names.items():
        r = measured[kind]
        print(
            f"| {name} | {r['seconds']:.2f} | {r['seconds'] / measured['bins']['seconds']:.1f} | "
            f"{r['mebibytes']:.0f} |"
        )
    large = in_fresh_process(__file__, "bins", 50_000)
    print(
        f"\nn = m = 50000: {large['seconds']:.0f} CPU s, {large['mebibytes']:.0f} MiB at the peak "
        "(budget 1024)"
    )
