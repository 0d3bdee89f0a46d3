"""CPU seconds until the deep kernel has the power it should have: the textbook on the paper's
schedule, and ours.

    python benchmarks/time_to_power.py run [SETTING ...] [--recipe default paper c2st-l] [--trials N]
    python benchmarks/time_to_power.py steps           measure the textbook's steps
    python benchmarks/time_to_power.py table [--write] --write puts it into docs/performance.md

The textbook is plain autograd on dense matrices, 1000 full-batch epochs (images: 2000 epochs in
batches of 100 + 100) with the starting values and learning rates of the authors' code. Its CPU time
is that of at least 20 measured steps times their number; its power is that of our tiled step on the
same schedule, whose gradients are the same (tests/test_time_to_power.py). "default" is `mmd_d()` as
it comes, "c2st-l" our classifier test. A trial draws a training set, fits once and tests 100 fresh
sets of its size, with 999 permutations. Every finished trial is a line in
results/time_to_power.jsonl, so a run can be stopped and continued. One thread for each process:
OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from _measure import write_between
from training_step import textbook_criterion

import twosample
from twosample import MLP, ConvNet, DeepKernel, Gaussian, Learning, PowerCriterion, TwoSampleTest
from twosample._data.samples import Scaling
from twosample.bench import datasets

STORE = Path(__file__).parent / "results" / "time_to_power.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
OURS = {"default": twosample.mmd_d, "c2st-l": twosample.c2st_l}


@dataclass(frozen=True)
class Setting:
    """A data set at a size, and how the authors train on it; bandwidths in the units of their
    data.
    """

    data: str
    n: int  # points of each sample, to train and again to test
    width: int
    rate: float
    eps: float
    sigma_phi: float
    sigma_q: float
    trials: int = 5
    dimension: int = 0
    larger: bool = False
    steps: int = 1000
    batch: int = 10**9


def tabular(data, n, width, rate, eps, s_phi, s_q, **more):
    """The authors write exp(-D / s), that is s = 2 sigma^2."""
    return Setting(data, n, width, rate, eps, math.sqrt(s_phi / 2), math.sqrt(s_q / 2), **more)


SETTINGS = {
    "blob 20": tabular("blob", 180, 50, 5e-4, 0.5, 0.001, 0.15),
    "blob 40": tabular("blob", 360, 50, 5e-4, 0.5, 0.001, 0.15),
    "blob 100": tabular("blob", 900, 50, 5e-4, 0.5, 0.001, 0.15),
    "hdgm 4000, d 10": tabular("hdgm", 2000, 30, 5e-5, 1e-10, 0.1, 20, dimension=10, larger=True),
    "hdgm 4000, d 30": tabular("hdgm", 2000, 90, 5e-5, 1e-10, 0.1, 60, dimension=30, larger=True),
    "higgs 3000": tabular("higgs", 1500, 20, 5e-5, 1e-10, 0.005, 8, larger=True),
    "higgs 10000": tabular("higgs", 5000, 20, 5e-5, 1e-10, 0.005, 8, trials=2, larger=True),
    "mnist 400": tabular("mnist", 200, 100, 1e-3, 1e-10, 0.005, 2 * 28 * 28, steps=4000, batch=100),
}


def pools(setting, rng):
    """Functions that draw a training set and test sets; real data never share a row between
    them.
    """
    if setting.data == "blob":
        return (lambda: datasets.blob(setting.n, rng=rng),) * 2
    if setting.data == "hdgm":
        return (lambda: datasets.hdgm(setting.n, dimension=setting.dimension, rng=rng),) * 2
    if setting.data == "higgs":
        both = datasets.higgs()
    else:  # the generator saw the training images only
        both = (datasets.mnist()[:60000], datasets.fake_mnist())
    order = [rng.permutation(len(pool)) for pool in both]
    train = tuple(pool[index[: setting.n]] for pool, index in zip(both, order, strict=True))
    rest = [index[setting.n :] for index in order]

    def test():
        return tuple(
            pool[rng.choice(index, setting.n, replace=False)]
            for pool, index in zip(both, rest, strict=True)
        )

    return (lambda: train), test


def paper_kernel(setting, scale):
    """The authors' kernel at their start; `scale` is the standard deviation that our scaling
    divides by.
    """
    if setting.data == "mnist":
        network = ConvNet(width=setting.width, normalisation="batch")
    else:
        network = MLP(width=setting.width)
    kappa = Gaussian(setting.sigma_phi)
    q = Gaussian(setting.sigma_q / scale)
    return DeepKernel(network, kappa, q, eps=setting.eps)


def unit(setting, X, Y):
    """What our scaling divides by, in the authors' units: theirs are the raw columns, and pixels in
    [-1, 1].
    """
    scale = float(Scaling.of(twosample.as_samples(X, Y)).scale.mean())
    return scale / 127.5 if setting.data == "mnist" else scale


def make(recipe, setting, X, Y):
    if recipe in OURS:
        return OURS[recipe]()
    learning = Learning(
        PowerCriterion(),
        steps=setting.steps,
        batch_size=setting.batch,
        learning_rate=setting.rate,
        scale_rate=setting.rate,
        schedule="constant",
    )
    return TwoSampleTest(
        paper_kernel(setting, unit(setting, X, Y)), learning, name="mmd-d, the paper's schedule"
    )


def run_trial(name, recipe, trial, tests):
    setting = SETTINGS[name]
    seed = [trial, *name.encode()]
    rng = np.random.default_rng(seed)
    draw_train, draw_test = pools(setting, rng)
    X, Y = draw_train()
    began = time.process_time()
    fitted = make(recipe, setting, X, Y).fit(X, Y, rng=np.random.SeedSequence(seed), progress=False)
    seconds = time.process_time() - began
    rejections = sum(fitted.test(*draw_test(), rng=k).reject() for k in range(tests))
    return {
        "setting": name,
        "recipe": recipe,
        "trial": trial,
        "tests": tests,
        "rejections": rejections,
        "fit_cpu_seconds": round(seconds, 2),
        "version": twosample.__version__,
    }


def textbook_step_seconds(name, steps):
    """CPU seconds of one step of plain autograd, of at least 20 measured after a warm one."""
    setting = SETTINGS[name]
    X, Y = pools(setting, np.random.default_rng(0))[0]()
    samples = twosample.as_samples(X, Y)
    scaled = Scaling.of(samples).apply(samples)
    generator = torch.Generator().manual_seed(0)
    kernel = paper_kernel(setting, unit(setting, X, Y))
    kernel.start(scaled.pooled(), generator)
    optimiser = torch.optim.Adam(kernel.parameters(), lr=setting.rate)
    x = scaled.x[: setting.batch]
    y = scaled.y[: setting.batch]

    def step():
        optimiser.zero_grad()
        (-textbook_criterion(kernel, x, y)).backward()
        optimiser.step()

    step()
    began = time.process_time()
    for _ in range(steps):
        step()
    return (time.process_time() - began) / steps


def stored():
    lines = STORE.read_text().splitlines() if STORE.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def keep(record):
    STORE.parent.mkdir(exist_ok=True)
    line = json.dumps(record)
    with STORE.open("a") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())
    print(line, flush=True)


def run(names, recipes, trials, tests):
    done = {(r["setting"], r["recipe"], r["trial"]) for r in stored() if "trial" in r}
    for name in names:
        for trial in range(SETTINGS[name].trials if trials is None else trials):
            for recipe in recipes:
                if (name, recipe, trial) not in done:
                    keep(run_trial(name, recipe, trial, tests))


def table(records):
    """Setting, power and CPU seconds of both, ratio; then the classifier tests."""
    lines = [
        "| setting | trials x tests | power, textbook | power, ours | difference, in standard "
        "errors | "
        "textbook, CPU s | ours, CPU s | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    ratios = []
    for name, setting in SETTINGS.items():
        theirs = of(records, name, "paper")
        own = of(records, name, "default")
        steps = [
            r["step_cpu_seconds"]
            for r in records
            if r["setting"] == name and "step_cpu_seconds" in r
        ]
        if not (theirs and own and steps):
            continue
        ours = seconds(own)
        textbook = steps[-1] * setting.steps  # by the last measurement of a step
        ratio = textbook / ours
        ratios.append((ratio, setting.larger))
        counts = [f"{len(trials)} x {trials[0]['tests']}" for trials in (theirs, own)]
        cells = [
            name,
            ", ".join(dict.fromkeys(counts)),  # once, where both are the same
            shown(theirs),
            shown(own),
            f"{difference(theirs, own):+.1f}",
            f"{textbook:.0f}",
            f"{ours:.1f}",
            f"{ratio:.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    larger = [ratio for ratio, is_larger in ratios if is_larger]
    if larger:
        middle = np.median([ratio for ratio, _ in ratios])
        lines += [
            "",
            f"Ratio at the median {middle:.0f}; of the larger settings (N from 3000) at least "
            f"{min(larger):.0f}.",
        ]
    lines += [
        "",
        "| setting | mmd-d, CPU s | c2st-l, CPU s | power, mmd-d | power, c2st-l |",
        "|---|---|---|---|---|",
    ]
    for name in SETTINGS:
        ours = of(records, name, "default")
        classifier = of(records, name, "c2st-l")
        if ours and classifier:
            lines.append(
                f"| {name} | {seconds(ours):.1f} | {seconds(classifier):.1f} | {shown(ours)} | "
                f"{shown(classifier)} |"
            )
    return "\n".join(lines)


def of(records, name, recipe):
    return [r for r in records if r["setting"] == name and r.get("recipe") == recipe]


def seconds(records):
    return float(np.median([r["fit_cpu_seconds"] for r in records]))


def shown(records):
    return "{:.3f} ± {:.3f}".format(*power(records))


def power(records):
    """The mean over trials and its standard error: that over trials, but no less than the binomial
    one of all tests.

    Few trials that happen to agree would have none, so the binomial one is of a share that is never
    0 or 1.
    """
    rates = [r["rejections"] / r["tests"] for r in records]
    rejections = sum(r["rejections"] for r in records)
    tests = sum(r["tests"] for r in records)
    share = (rejections + 1) / (tests + 2)
    over_trials = np.std(rates, ddof=1) / len(rates) ** 0.5 if len(rates) > 1 else 0.0
    return float(np.mean(rates)), float(max(over_trials, math.sqrt(share * (1 - share) / tests)))


def difference(textbook, ours):
    """Of the powers, in standard errors of the difference."""
    (a, error_a) = power(textbook)
    (b, error_b) = power(ours)
    return (b - a) / math.hypot(error_a, error_b)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command")
    runner = commands.add_parser("run")
    runner.add_argument("settings", nargs="*", default=list(SETTINGS))
    runner.add_argument(
        "--recipe", nargs="+", default=["default", "paper"], choices=[*OURS, "paper"]
    )
    runner.add_argument("--trials", type=int)
    runner.add_argument("--tests", type=int, default=100)
    stepper = commands.add_parser("steps")
    stepper.add_argument("settings", nargs="*", default=list(SETTINGS))
    stepper.add_argument("--steps", type=int, default=20)
    commands.add_parser("table").add_argument("--write", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.command == "run":
        run(options.settings, options.recipe, options.trials, options.tests)
    elif options.command == "steps":
        for name in options.settings:
            seconds = textbook_step_seconds(name, options.steps)
            keep({"setting": name, "steps": options.steps, "step_cpu_seconds": round(seconds, 5)})
    else:
        text = table(stored())
        print(text)
        if options.write:
            write_between(PAGE, "time to power", text)
