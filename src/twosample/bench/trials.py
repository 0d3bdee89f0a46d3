"""One trial: draw a training set, fit once, test many fresh sets of the same size.

All randomness of a trial comes from its seed by name: which training set, which start, which test
set k, which permutations of it. So any trial can be run alone, anywhere, and more tests begin with
the same ones.
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
from .._data.samples import as_samples
from .._kernels import Kernel
from .._objectives import PowerCriterion
from .._random import Generators
from .._statistics import MMD
from .._two_sample import FittedTest
from ..errors import InputError, InputWarning, TrainingWarning
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
        return Key(
            self.cell.experiment, self.cell.setting.name, self.cell.method, self.recipe, self.number
        )

    def __str__(self) -> str:
        return f"{self.cell.experiment} {self.cell.setting.name} {self.cell.method} {self.recipe} #{self.number}"


def seeded(cell: Cell, trial: int) -> Generators:
    """The randomness of a trial, by name."""
    return Generators(cell.seed(trial))


def run(trial: Trial) -> Record:
    """Run a trial, in one thread."""
    torch.set_num_threads(1)
    _forget_peak()
    setting, generators = trial.cell.setting, seeded(trial.cell, trial.number)
    train, draw_test, distinct = draws(setting, generators.numpy("training set"))
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", InputWarning
        )  # of constant pixels, or of features that nearly depend
        warnings.simplefilter(
            "error", TrainingWarning
        )  # a training that was interrupted is not a result
        fitted = fit(trial.cell.method, trial.recipe, setting, *train, generators)
        fit_seconds = time.process_time() - began
        criterion = _criterion(fitted, *train)
        began = time.process_time()
        rejections = 0
        for k in range(trial.tests):
            X, Y = draw_test(generators.numpy(f"test set {k}"))
            result = fitted.test(X, Y, rng=generators.numpy(f"permutations {k}"), progress=False)
            rejections += result.reject(ALPHA)
    calibration = fitted.spec.calibration
    return Record(
        **trial.key._asdict(),
        seed=trial.cell.seed(trial.number),
        data=setting.data,
        sizes={
            "train": setting.n,
            "test": setting.tested,
            "dimension": _dimension(train[0]),
            **distinct,
        },
        tests=trial.tests,
        rejections=rejections,
        permutations=calibration.permutations if isinstance(calibration, Permutation) else None,
        criterion=criterion,
        fit_cpu_seconds=round(fit_seconds, 3),
        test_cpu_seconds=round(time.process_time() - began, 3),
        peak_mebibytes=_peak_mebibytes(),
        versions=_versions(),
        date=time.strftime("%Y-%m-%d"),
    )


def refit(cell: Cell, recipe: str, number: int) -> FittedTest:
    """The test that a trial fitted, once more."""
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
    """A training set; what draws test sets that share no row with it; how many of them share none with each other.

    The last is {"distinct": number} for real data, of which there are only so many rows, else {}.
    """
    if setting.data in _DRAWN:
        draw = _DRAWN[setting.data]
        return draw(setting, setting.n, rng), lambda fresh: draw(setting, setting.tested, fresh), {}
    if setting.data not in _POOLS:
        raise InputError(
            f"there is no data set {setting.data!r}; use one of {', '.join([*_DRAWN, *_POOLS])}."
        )
    pools = _POOLS[setting.data]()
    x, y = (pools["PQ".index(setting.null)], None) if setting.null else pools
    dealt = datasets.disjoint(x, y, setting.n, rng)
    return (
        dealt.train,
        lambda fresh: dealt.test(setting.tested),
        {"distinct": dealt.repeats(setting.tested)},
    )


def _blob(setting: Setting, n: int, rng: np.random.Generator) -> Pair:
    return datasets.blob(n, different=not setting.null, authors=setting.authors, rng=rng)


def _hdgm(setting: Setting, n: int, rng: np.random.Generator) -> Pair:
    dimension = 10 if setting.dimension is None else setting.dimension
    return datasets.hdgm(
        n, dimension=dimension, different=not setting.null, authors=setting.authors, rng=rng
    )


@cache
def _higgs() -> Pair:
    return datasets.higgs()


@cache
def _mnist() -> Pair:
    return datasets.mnist()[
        :60000
    ], datasets.fake_mnist()  # the generator saw the training images only


@cache
def _cifar() -> Pair:
    return datasets.cifar10(), datasets.cifar101()


@cache
def _cifar_jpeg() -> Pair:
    return datasets.cifar10()[
        ::2
    ], datasets.cifar10_jpeg()  # which are the others, so no picture is on both sides


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
    """J on the training points, for kernels that an MMD with the unbiased estimate is tested with."""
    if not isinstance(fitted.representation, Kernel) or fitted.spec.statistic != MMD("unbiased"):
        return None
    seen = fitted.scaling.apply(as_samples(X, Y, schema=fitted.schema))
    with torch.no_grad():
        return round(float(PowerCriterion()(fitted.representation, seen.x, seen.y)), 6)


def _dimension(points: Any) -> int:
    return int(np.prod(points.shape[1:]))


def _forget_peak() -> None:
    """Let the peak of memory start from what is resident now, where the system can (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_mebibytes() -> float | None:
    """The most resident memory since; elsewhere than on Linux, since the process began."""
    with contextlib.suppress(OSError, StopIteration):
        status = Path("/proc/self/status").read_text()
        return round(
            next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
            / 1024,
            1,
        )
    if sys.platform == "win32":
        return None
    import resource

    unit = 2**20 if sys.platform == "darwin" else 2**10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)


@cache
def _versions() -> dict[str, str]:
    """Without the local part of a version, which names a build and not a release."""
    packages = {
        name: metadata.version(name).partition("+")[0] for name in ("twosample", "torch", "numpy")
    }
    return packages | {"python": platform.python_version()}
