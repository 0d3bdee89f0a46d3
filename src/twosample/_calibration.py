"""What the statistic looks like when P = Q, hence the p-value.

`Permutation` and `PairSwap` are exact at every sample size; `Asymptotic` and `Spectral` are limits,
which large samples come near to.
"""

from __future__ import annotations

import itertools
import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Integral
from typing import cast

import torch
from torch import Tensor, nn

from ._data.samples import EmbeddedSamples, Samples
from ._kernels import Kernel
from ._products import Embedded, block_sums
from ._resources import DEFAULT_MEMORY, Workers
from ._result import ALPHA
from ._statistics.mmd import MMD, Bins, Prepared, Statistic
from .errors import IncompatibleParts, InputError, InputWarning, TrainingError

_MOST_PERMUTATIONS = 10_000_000  # more would take hours, or memory that nobody has


@dataclass(frozen=True, eq=False)
class Calibrated:
    """The values of a statistic over shuffles, the observed order first, and what was shuffled."""

    values: Tensor  # (B + 1,); the observed value alone where a law takes the place of shuffles
    pvalue: float
    threshold: float  # the value that must be reached at level 0.05
    description: str
    prepared: Prepared
    # (B + 1, moving bins), the identity first; (1, moving bins) where nothing was shuffled.
    shuffles: Tensor


class Calibration(ABC):
    """From a statistic to a p-value."""

    @abstractmethod
    def check(self, statistic: Statistic, representation: nn.Module) -> None:
        """Raise `IncompatibleParts` if it cannot calibrate this statistic, and say what can."""

    @abstractmethod
    def __call__(
        self,
        statistic: Statistic,
        representation: nn.Module,
        samples: Samples | EmbeddedSamples,
        generator: torch.Generator,
        *,
        memory: int = DEFAULT_MEMORY,
        progress: bool | None = False,
        workers: Workers | None = None,
    ) -> Calibrated:
        """The p-value of two samples; `workers` other than this process may prepare the statistic."""


@dataclass(frozen=True)
class Permutation(Calibration):
    """The exact permutation test: under P = Q, every shuffle of the pooled points is as likely as the observed order.

    p = (1 + number of shuffles whose value is at least the observed one) / (1 + permutations), ties
    included, never 0. The level is at most alpha at every sample size. When fewer distinct
    labellings exist than permutations are asked for, all of them are enumerated instead.

    Large samples are shuffled in bins: both are cut into bins of one size b = max(1, min(n, m) //
    bins), and whole bins change places; points that are left over stay. These moves are a group, so
    the level stays exact; a thousand of them cost a product with a matrix of bins instead of
    points.

    Parameters
    ----------
    permutations
        Number of random shuffles.
    bins
        Samples smaller than twice this many points are shuffled point by point.
    max_bins
        At most so many bins of the larger sample move.
    """

    permutations: int = 999
    bins: int = 500
    max_bins: int = 1000

    def __post_init__(self) -> None:
        _check_counts(self, "permutations", "bins", "max_bins")

    def check(self, statistic: Statistic, representation: nn.Module) -> None:
        if "permutations" not in statistic.shuffled_by:
            raise IncompatibleParts(
                f"{statistic!r} has values for swaps of pairs only, not for all permutations. Use "
                "PairSwap() or "
                "Asymptotic(), or the unpaired statistic."
            )

    def plan(self, n: int, m: int, generator: torch.Generator) -> Bins:
        """Cut samples of n and m points into bins, each sample in a random order."""
        return _cut(n, m, max(1, min(n, m) // self.bins), self.max_bins, generator)

    def shuffles(
        self, bins: Bins, generator: torch.Generator, *, order_matters: bool = False
    ) -> Tensor:
        """(B + 1, moving) permutations of the moving bins, the identity first; all labellings if they are few."""
        if not order_matters and math.comb(bins.moving, bins.moving_x) <= self.permutations + 1:
            everything = set(range(bins.moving))
            chosen = itertools.combinations(range(bins.moving), bins.moving_x)
            return torch.tensor([[*into_x, *sorted(everything - set(into_x))] for into_x in chosen])
        identity = torch.arange(bins.moving)
        random = torch.rand(
            self.permutations, bins.moving, generator=generator, dtype=torch.float64
        ).argsort(1)
        return torch.cat([identity[None], random])

    def __call__(
        self,
        statistic: Statistic,
        representation: nn.Module,
        samples: Samples | EmbeddedSamples,
        generator: torch.Generator,
        *,
        memory: int = DEFAULT_MEMORY,
        progress: bool | None = False,
        workers: Workers | None = None,
    ) -> Calibrated:
        """Prepare the statistic once, evaluate it on every shuffle, count."""
        n, m = samples.sizes
        bins = self.plan(n, m, generator)
        prepared = statistic.prepare(
            representation,
            samples,
            bins,
            generator,
            memory=memory,
            progress=progress,
            workers=workers,
        )
        shuffles = self.shuffles(bins, generator, order_matters=statistic.depends_on_order)
        enumerated = len(shuffles) != self.permutations + 1 or (
            not statistic.depends_on_order
            and math.comb(bins.moving, bins.moving_x) == len(shuffles)
        )
        what = "points" if bins.size == 1 else f"bins of {bins.size} points"
        stay = n + m - bins.moving * bins.size
        moved = f"{bins.moving_x} + {bins.moving_y} {what}" + (
            f", {stay} points staying" if stay else ""
        )
        how = (
            f"all {len(shuffles)} labellings" if enumerated else f"{self.permutations} permutations"
        )
        return _counted(statistic, prepared, shuffles, samples, enumerated, f"{how} of {moved}")


@dataclass(frozen=True)
class PairSwap(Calibration):
    """Exact, by swapping at random the partners of pairs (X_i, Y_i): the Rademacher wild bootstrap is this.

    The permutations that swap pairs are a group of their own, so the level is at most alpha at
    every sample size. A swap changes the signs of the H_ij of its pair and nothing else, so
    statistics that are sums of few H_ij, such as MMD("block"), need no others. Points of the larger
    sample that have no partner stay. Large samples are swapped in bins of pairs.

    Parameters
    ----------
    permutations
        Number of random swaps; all of them are enumerated instead where they are fewer.
    bins
        Samples smaller than twice this many pairs are swapped pair by pair.
    """

    permutations: int = 999
    bins: int = 500

    def __post_init__(self) -> None:
        _check_counts(self, "permutations", "bins")

    def check(self, statistic: Statistic, representation: nn.Module) -> None:
        if "swaps" not in statistic.shuffled_by:
            instead = (
                "HotellingT2(paired=True)"
                if not isinstance(statistic, MMD)
                else "MMD('paired') or MMD('biased')"
            )
            raise IncompatibleParts(
                f"PairSwap() swaps the partners of pairs, and {statistic!r} is no sum over pairs. "
                f"Use {instead}, or Permutation()."
            )

    def plan(self, n: int, m: int, generator: torch.Generator, least: int = 1) -> Bins:
        """Cut min(n, m) random pairs into bins, `least` of them or more; points without a partner stay."""
        size = max(1, min(n, m) // max(self.bins, least))
        return _cut(n, m, size, min(n, m) // size, generator)

    def shuffles(self, bins: Bins, generator: torch.Generator) -> Tensor:
        """(B + 1, moving) permutations that swap bins of pairs, the identity first; all of them if they are few."""
        pairs = bins.moving_x
        if pairs < 63 and 2**pairs <= self.permutations + 1:
            swapped = torch.tensor(list(itertools.product([False, True], repeat=pairs))).reshape(
                -1, pairs
            )
        else:
            random = torch.rand(self.permutations, pairs, generator=generator) < 0.5
            swapped = torch.cat([torch.zeros(1, pairs, dtype=torch.bool), random])
        place = torch.arange(pairs)
        return torch.cat(
            [
                torch.where(swapped, place + pairs, place),
                torch.where(swapped, place, place + pairs),
            ],
            1,
        )

    def __call__(
        self,
        statistic: Statistic,
        representation: nn.Module,
        samples: Samples | EmbeddedSamples,
        generator: torch.Generator,
        *,
        memory: int = DEFAULT_MEMORY,
        progress: bool | None = False,
        workers: Workers | None = None,
    ) -> Calibrated:
        """Prepare the statistic once, evaluate it on every swap, count."""
        n, m = samples.sizes
        bins = self.plan(n, m, generator, statistic.least_bins(n, m))
        prepared = statistic.prepare(
            representation,
            samples,
            bins,
            generator,
            memory=memory,
            progress=progress,
            workers=workers,
        )
        shuffles = self.shuffles(bins, generator)
        enumerated = bins.moving_x < 63 and len(shuffles) == 2**bins.moving_x
        what = "pairs" if bins.size == 1 else f"bins of {bins.size} pairs"
        how = f"all {len(shuffles)} swaps" if enumerated else f"{self.permutations} random swaps"
        return _counted(
            statistic, prepared, shuffles, samples, enumerated, f"{how} of {bins.moving_x} {what}"
        )


@dataclass(frozen=True)
class Asymptotic(Calibration):
    """The limiting law of the statistic, where it has one without unknown parameters. Not exact at any sample size.

    Chi-squared for Hotelling's T^2, normal for MMD("block"), binomial for the accuracy of a
    classifier.
    """

    def check(self, statistic: Statistic, representation: nn.Module) -> None:
        statistic.check_law(representation)

    def __call__(
        self,
        statistic: Statistic,
        representation: nn.Module,
        samples: Samples | EmbeddedSamples,
        generator: torch.Generator,
        *,
        memory: int = DEFAULT_MEMORY,
        progress: bool | None = False,
        workers: Workers | None = None,
    ) -> Calibrated:
        """The chance, by the law, of a value at least as large as the observed one."""
        n, m = samples.sizes
        bins = _cut(
            n, m, max(1, min(n, m) // max(500, statistic.least_bins(n, m))), max(n, m), generator
        )
        prepared = statistic.prepare(
            representation,
            samples,
            bins,
            generator,
            memory=memory,
            progress=progress,
            workers=workers,
        )
        identity = torch.arange(bins.moving)[None]
        value = statistic.evaluate(prepared, identity)
        _check_finite(value)
        law = statistic.law(prepared)
        pvalue = law.survival(float(value[0]))
        return Calibrated(
            value, pvalue, law.threshold(ALPHA), f"{law.name} (asymptotic)", prepared, identity
        )


@dataclass(frozen=True)
class Spectral(Calibration):
    """Draws from the limit of MMD^2 under P = Q, from estimated eigenvalues of the kernel. Not exact.

    Proposition 1 of [Liu2020], for any sizes: MMD^2 tends to (1/n + 1/m) sum_l lambda_l (Z_l^2 - 1)
    with Z_l standard normal and lambda_l the eigenvalues of the centred kernel (without the -1 for
    the biased estimator). They are estimated from the Gram matrix of pooled points [Gretton2009].

    Parameters
    ----------
    draws
        Number of draws.
    points
        At most so many pooled points, drawn blind to labels, make the Gram matrix.
    """

    draws: int = 9999
    points: int = 1000

    def __post_init__(self) -> None:
        _check_counts(self, "draws", "points")

    def check(self, statistic: Statistic, representation: nn.Module) -> None:
        estimators = ("unbiased", "biased", "paired")
        if (
            not isinstance(statistic, MMD)
            or statistic.estimator not in estimators
            or statistic.alternative == "greater"
        ):
            raise IncompatibleParts(
                "Spectral() has the limit of MMD('unbiased'), MMD('biased') and MMD('paired'), "
                "not that of "
                f"{statistic!r}. Use Asymptotic(), or Permutation()."
            )

    def __call__(
        self,
        statistic: Statistic,
        representation: nn.Module,
        samples: Samples | EmbeddedSamples,
        generator: torch.Generator,
        *,
        memory: int = DEFAULT_MEMORY,
        progress: bool | None = False,
        workers: Workers | None = None,
    ) -> Calibrated:
        """The share of draws, the observed value among them, that are at least the observed value."""
        n, m = samples.sizes
        bins = _cut(n, m, max(1, min(n, m) // 500), 1000, generator)
        prepared = statistic.prepare(
            representation,
            samples,
            bins,
            generator,
            memory=memory,
            progress=progress,
            workers=workers,
        )
        identity = torch.arange(bins.moving)[None]
        observed = statistic.evaluate(prepared, identity)
        _check_finite(observed)
        eigenvalues = self.eigenvalues(representation, samples, generator, memory=memory)
        shift = 0.0 if isinstance(statistic, MMD) and statistic.estimator == "biased" else 1.0
        normal = torch.randn(self.draws, len(eigenvalues), generator=generator, dtype=torch.float64)
        draws = (1 / n + 1 / m) * ((normal.square() - shift) @ eigenvalues)
        values = torch.cat([observed, draws])
        name = f"{self.draws} draws from the limit with {len(eigenvalues)} eigenvalues (asymptotic)"
        return Calibrated(
            values, pvalue(values, prepared.resolution), _quantile(values), name, prepared, identity
        )

    def eigenvalues(
        self,
        representation: nn.Module,
        samples: Samples | EmbeddedSamples,
        generator: torch.Generator,
        *,
        memory: int = DEFAULT_MEMORY,
    ) -> Tensor:
        """Those of the centred kernel that count, from at most `points` pooled points."""
        chosen = torch.randperm(sum(samples.sizes), generator=generator)[: self.points]
        some: Tensor | Embedded
        if isinstance(samples, EmbeddedSamples):
            some = tuple(part[chosen.to(part.device)] for part in samples.parts)
        else:
            some = samples.pooled()[chosen.to(samples.x.device)]
        kernel = cast(Kernel, representation)
        K = block_sums(kernel, some, torch.arange(len(chosen)), memory=memory).double().cpu()
        centred = K - K.mean(0) - K.mean(1, keepdim=True) + K.mean()
        values: Tensor = torch.linalg.eigvalsh(centred).clamp_min(0) / (len(chosen) - 1)
        return values[values > 1e-6 * values.sum()].flip(0)


def pvalue(values: Tensor, resolution: float) -> float:
    """The share of `values` that are at least the first, which counts itself; equal up to rounding is equal."""
    tolerance = max(resolution, 1e-12 * float(values.abs().max()))
    return float((values >= values[0] - tolerance).double().mean())


def _counted(
    statistic: Statistic,
    prepared: Prepared,
    shuffles: Tensor,
    samples: Samples | EmbeddedSamples,
    enumerated: bool,
    description: str,
) -> Calibrated:
    values = torch.cat(
        [statistic.evaluate(prepared, piece) for piece in torch.split(shuffles, 256)]
    )
    _check_finite(values)
    if enumerated and len(shuffles) < 20:
        n, m = samples.sizes
        warnings.warn(
            f"with {n} and {m} points to test there are only {len(shuffles)} labellings, so no "
            "p-value "
            f"below {1 / len(shuffles):.3g} is possible; use more points, or a smaller "
            "train_fraction.",
            InputWarning,
            stacklevel=3,
        )
    share = pvalue(values, prepared.resolution)
    return Calibrated(values, share, _quantile(values), description, prepared, shuffles)


def _cut(n: int, m: int, size: int, most: int, generator: torch.Generator) -> Bins:
    """Bins of `size` points, at most `most` of each sample that move, of samples in random orders."""
    moving_x, moving_y = min(n // size, most), min(m // size, most)
    moving = moving_x + moving_y
    order_x = torch.randperm(n, generator=generator)
    order_y = (
        order_x if n == m else torch.randperm(m, generator=generator)
    )  # pairs (X_i, Y_i) stay together

    def ids(order: Tensor, bins: int, first: int, fixed: int) -> Tensor:
        found = torch.full((len(order),), fixed)
        found[order[: bins * size]] = first + torch.arange(bins * size) // size
        return found

    return Bins(
        ids(order_x, moving_x, 0, moving),
        ids(order_y, moving_y, moving_x, moving + 1),
        moving_x,
        moving_y,
        size,
    )


def _quantile(values: Tensor) -> float:
    return float(torch.quantile(values, 1 - ALPHA, interpolation="higher"))


def _check_counts(part: object, *names: str) -> None:
    for name in names:
        value = getattr(part, name)
        if not isinstance(value, Integral) or value < 1:
            raise InputError(f"{name} is {value!r}; it must be a whole number of at least 1.")
        if name == "permutations" and int(value) > _MOST_PERMUTATIONS:
            raise InputError(
                f"permutations is {int(value):,}; at most {_MOST_PERMUTATIONS:,} are made, and 999 "
                "are usual."
            )


def _check_finite(values: Tensor) -> None:
    if not bool(torch.isfinite(values).all()):
        raise TrainingError(
            f"the statistic is {float(values[0])} on the points to test, because the kernel gives "
            "values that are "
            "not finite; look for extreme values in the data, or train with a smaller "
            "learning_rate."
        )
