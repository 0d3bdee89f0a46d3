"""One training step of J, forward and backward: the tiled products against textbook autograd on
dense matrices.

    python benchmarks/training_step.py

Each line is measured in fresh single-thread processes of the same run, so only the ratio is to be
read.
"""

from __future__ import annotations

import json
import sys

import torch
from _measure import in_fresh_process, measure

import twosample

SETTINGS = [(900, 2, 50), (2000, 10, 30), (4000, 10, 30)]


def textbook_criterion(kernel, x, y):
    """J as it is usually written: whole matrices, distances by |a|^2 + |b|^2 - 2 ab, autograd for
    the rest.
    """

    def gaussian(a, b, log_bandwidth):
        norms = (a**2).sum(1)[:, None] + (b**2).sum(1)[None]
        distances = (norms - 2 * a @ b.T).clamp(min=0)  # rounding may go below 0
        return torch.exp(-distances / (2 * torch.exp(2 * log_bandwidth)))

    def gram(a, b, phi_a, phi_b):
        q = gaussian(a, b, kernel.q.log_bandwidth)
        kappa = gaussian(phi_a, phi_b, kernel.kappa.log_bandwidth)
        eps = torch.sigmoid(kernel.logit_eps)
        return ((1 - eps) * kappa + eps) * q

    n = len(x)
    phi = kernel.featurizer(torch.cat([x, y]))
    x = x.flatten(1)
    y = y.flatten(1)
    k_xx = gram(x, x, phi[:n], phi[:n])
    k_yy = gram(y, y, phi[n:], phi[n:])
    k_xy = gram(x, y, phi[:n], phi[n:])
    h = k_xx + k_yy - k_xy - k_xy.T
    mmd2 = (h.sum() - h.trace()) / (n * (n - 1))
    variance = 4 / n**3 * (h.sum(1) ** 2).sum() - 4 / n**4 * h.sum() ** 2
    return mmd2 / torch.sqrt(variance + 1e-8)


def one(kind, n, dimension, width):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, dimension, generator=generator)
    y = torch.randn(n, dimension, generator=generator)
    kernel = twosample.DeepKernel(
        twosample.MLP(dimension, width=width, generator=generator),
        twosample.Gaussian(0.2),
        twosample.Gaussian(3.0),
    )
    criterion = textbook_criterion if kind == "textbook" else twosample.PowerCriterion()

    def step():
        kernel.zero_grad()
        criterion(kernel, x, y).backward()

    torch.set_num_threads(1)
    return measure(step, repeats=5 if n < 8000 else 1)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(one(sys.argv[1], *map(int, sys.argv[2:]))))
        sys.exit()
    print(
        "| n = m | columns | width | textbook, CPU s | tiled, CPU s | ratio | textbook, MiB | "
        "tiled, MiB |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for setting in SETTINGS:
        textbook = in_fresh_process(__file__, "textbook", *setting)
        tiled = in_fresh_process(__file__, "tiled", *setting)
        n, dimension, width = setting
        ratio = textbook["seconds"] / tiled["seconds"]
        print(
            f"| {n} | {dimension} | {width} | {textbook['seconds']:.3f} | {tiled['seconds']:.3f} | "
            f"{ratio:.1f} | "
            f"{textbook['mebibytes']:.0f} | {tiled['mebibytes']:.0f} |",
            flush=True,
        )
    print("\nMemory of the tiled step alone (columns 10, width 30):")
    for n in (4000, 8000, 16000):
        print(
            f"n = m = {n}: {in_fresh_process(__file__, 'tiled', n, 10, 30)['mebibytes']:.0f} MiB",
            flush=True,
        )
