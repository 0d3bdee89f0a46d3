"""One trial: draw a training set, fit once, test many fresh sets of the same size.

All randomness of a trial comes from its seed, by name: the training set, the start, test set k, its
permutations. So any trial can be run alone, anywhere, and a trial of more tests begins with the
tests of a trial of fewer.
"""

from __future__ import annotations

import contextlib
import platform
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from .._calibration import Permutation
from .._data.survey import as_samples
from .._kernels import Kernel
from .._objectives import PowerCriterion
from .._random import Generators
from .._statistics import MMD
from .._two_sample import FittedTest
from ..errors import InputError, InputWarning
from . import datasets
from .experiments import ALPHA, Cell, Setting
from .recipes import fit
from .store import Key, Record

Pair: TypeAlias = tuple[Any, Any]
"""Two samples."""


@dataclass(frozen=True)
class Trial:
    """A trial to run: small and plain, so that it can be sent anywhere."""

    cell: Cell
    recipe: str
    number: int
    tests: int

    @property
    def key(self) -> Key:
        """What its record will be known by."""
        experiment, setting, method = self.cell
        return Key(experiment, setting.name, method, self.recipe, self.number)

    def __str__(self) -> str:
        experiment, setting, method, recipe, number = self.key
        return f"{experiment} {setting} {method} {recipe} #{number}"


def seeded(cell: Cell, trial: int) -> Generators:
    """Return the random generators of a trial, which are drawn by name."""
    return Generators(cell.seed(trial))


def run(trial: Trial) -> Record:
    """Run a trial, in one thread."""
    torch.set_num_threads(1)  # each core has a trial of its own
    # A worker runs many trials, and each reports its own peak.
    _forget_peak()
    setting = trial.cell.setting
    generators = seeded(trial.cell, trial.number)
    train, draw_test, distinct = draws(setting, generators.numpy("training set"))
    with warnings.catch_warnings():
        # They are about constant pixels, or features that nearly depend on each other.
        warnings.simplefilter("ignore", InputWarning)
        began = time.process_time()
        fitted = fit(trial.cell.method, trial.recipe, setting, *train, generators)
        fit_seconds = time.process_time() - began
        criterion = _criterion(fitted, *train)
        began = time.process_time()
        rejections = 0
        for k in range(trial.tests):
            X, Y = draw_test(generators.numpy(f"test set {k}"))
            result = fitted.test(X, Y, rng=generators.numpy(f"permutations {k}"), progress=False)
            rejections += result.reject(ALPHA)
        test_seconds = time.process_time() - began
    calibration = fitted.spec.calibration
    permutations = calibration.permutations if isinstance(calibration, Permutation) else None
    dimension = _dimension(train[0])
    sizes = {"train": setting.n, "test": setting.tested, "dimension": dimension, **distinct}
    return Record(
        **trial.key._asdict(),
        seed=trial.cell.seed(trial.number),
        data=setting.data,
        sizes=sizes,
        tests=trial.tests,
        rejections=rejections,
        permutations=permutations,
        criterion=criterion,
        fit_cpu_seconds=round(fit_seconds, 3),
        test_cpu_seconds=round(test_seconds, 3),
        peak_mebibytes=_peak_mebibytes(),
        versions=_versions(),
        date=time.strftime("%Y-%m-%d"),
    )


def refit(cell: Cell, recipe: str, number: int) -> FittedTest:
    """Fit the test of a trial once more."""
    torch.set_num_threads(1)
    generators = seeded(cell, number)
    train, _, _ = draws(cell.setting, generators.numpy("training set"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        return fit(cell.method, recipe, cell.setting, *train, generators)


# What is drawn


def draws(
    setting: Setting, rng: np.random.Generator
) -> tuple[Pair, Callable[[np.random.Generator], Pair], dict[str, int]]:
    """Return a training set, a function that draws test sets, and how many of those are distinct.

    No test set shares a row with the training set. The last is {"distinct": number} for real data,
    of which there are only so many rows before test sets share some with each other; else it is {}.
    """
    if setting.data in _DRAWN:
        draw = _DRAWN[setting.data]
        train = draw(setting, setting.n, rng)
        return train, lambda fresh: draw(setting, setting.tested, fresh), {}
    if setting.data not in _POOLS:
        known = ", ".join([*_DRAWN, *_POOLS])
        raise InputError(f"there is no data set {setting.data!r}; use one of {known}.")
    x, y = _POOLS[setting.data]()
    if setting.null == "P":
        y = None
    elif setting.null == "Q":
        x = y
        y = None
    pools = datasets.disjoint(x, y, setting.n, rng)
    # Test sets are dealt, so the generator that each would have for itself is not needed.
    distinct = {"distinct": pools.repeats(setting.tested)}
    return pools.train, lambda _: pools.test(setting.tested), distinct


def _blob(setting: Setting, n: int, rng: np.random.Generator) -> Pair:
    return datasets.blob(n, different=not setting.null, authors=setting.authors, rng=rng)


def _hdgm(setting: Setting, n: int, rng: np.random.Generator) -> Pair:
    dimension = 10 if setting.dimension is None else setting.dimension
    different = not setting.null
    return datasets.hdgm(
        n, dimension=dimension, different=different, authors=setting.authors, rng=rng
    )


# A worker reads a real data set once, for all of its trials.


@cache
def _higgs() -> Pair:
    return datasets.higgs()


@cache
def _mnist() -> Pair:
    real = datasets.mnist()[:60000]  # the training images, which are all that the generator saw
    return real, datasets.fake_mnist()


@cache
def _cifar() -> Pair:
    return datasets.cifar10(), datasets.cifar101()


@cache
def _cifar_jpeg() -> Pair:
    untouched = datasets.cifar10()[::2]  # the other half, so that no picture is on both sides
    return untouched, datasets.cifar10_jpeg()


_DRAWN: dict[str, Callable[[Setting, int, np.random.Generator], Pair]] = {
    "blob": _blob,
    "hdgm": _hdgm,
}
_POOLS: dict[str, Callable[[], Pair]] = {
    "higgs": _higgs,
    "mnist": _mnist,
    "cifar": _cifar,
    "cifar-jpeg": _cifar_jpeg,
}


# What is noted


def _criterion(fitted: FittedTest, X: Any, Y: Any) -> float | None:
    """Return J on the training points, for a kernel that is tested by the unbiased MMD."""
    kernel = fitted.representation
    if not isinstance(kernel, Kernel) or fitted.spec.statistic != MMD("unbiased"):
        return None
    samples = fitted.scaling.apply(as_samples(X, Y, schema=fitted.schema))
    with torch.no_grad():
        criterion = PowerCriterion()(kernel, samples.x, samples.y)
    return round(float(criterion), 6)


def _dimension(points: Any) -> int:
    return int(np.prod(points.shape[1:]))


def _forget_peak() -> None:
    """Let the peak of memory start from what is resident now, where the system can (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # 5 resets VmHWM, see proc(5)


def _peak_mebibytes() -> float | None:
    """Return the most resident memory since then or, if not on Linux, since the process began."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                kibibytes = int(line.split()[1])
                return round(kibibytes / 1024, 1)
    if sys.platform == "win32":
        return None
    import resource

    unit = 2**20 if sys.platform == "darwin" else 2**10  # macOS counts bytes, others kibibytes
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)


@cache
def _versions() -> dict[str, str]:
    versions = {}
    for name in ("twosample", "torch", "numpy"):
        # Without the part after "+", which names a build and not a release.
        versions[name] = metadata.version(name).partition("+")[0]
    return versions | {"python": platform.python_version()}
