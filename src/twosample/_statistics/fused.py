"""One statistic of several kernels: evaluated for each of them, and fused over all labellings."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from .._data.samples import EmbeddedSamples
from .._estimators import mmd2_unbiased
from .._fusing import smallest_rank, snapped, soft_maximum, surprise
from .._kernels import Kernel
from .._products import Embedded, Sides, block_and_row_sums, block_sums, rows_of
from .._result import Effect
from .._several import Several
from ..errors import IncompatibleParts, InputError
from .base import Bins, Statistic

_LAST_DIGITS = 1e-12  # of a logarithm


class Fusing(ABC):
    """How the values of several kernels become one, over all labellings at once."""

    def check(self, statistic: Statistic, rows: int) -> None:  # noqa: B027, most fuse anything
        """Raise `IncompatibleParts` unless it can fuse so many rows of this statistic."""

    def scale(self, kernel: Kernel, points: EmbeddedSamples) -> float:
        """What the values of a kernel are multiplied by; no shuffle may change it."""
        return 1.0

    @abstractmethod
    def fused(self, values: Tensor, n: int, m: int) -> Tensor:
        """(B + 1,) values from (R, B + 1), all labellings treated alike; n and m are the sizes."""


@dataclass(frozen=True)
class SmallestRank(Fusing):
    """The smallest p-value of the rows, each among the labellings: aggregated tests, MMDAgg.

    [Schrab2023]: row r rejects at the level u w_r, and u is chosen so that together they keep the
    level. The same permutations serve for the quantiles of rows and for u, which makes the p-value
    exact at every number of them.

    Parameters
    ----------
    weights
        One positive number for each row; None weighs all alike.
    """

    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.weights is not None and not all(0 < weight < math.inf for weight in self.weights):
            raise InputError(f"the weights are {self.weights}; they must be positive numbers.")

    def check(self, statistic: Statistic, rows: int) -> None:
        if self.weights is not None and len(self.weights) != rows:
            raise IncompatibleParts(
                f"{self!r} has {len(self.weights)} weights for {rows} kernels. Give one for each."
            )

    def fused(self, values: Tensor, n: int, m: int) -> Tensor:
        weights = torch.ones(len(values), dtype=torch.float64)
        if self.weights is not None:
            weights = torch.tensor(self.weights, dtype=torch.float64)
        return smallest_rank(values, weights)


@dataclass(frozen=True)
class SoftMaximum(Fusing):
    """The soft maximum of normalised values: MMD-FUSE.

    [Biggs2023], for kernels k of equal weights and n the smaller of the two sizes:

        (1/lambda) log mean_k exp(lambda MMD^2_k / sqrt(N_k)),
        N_k = 1/(n (n - 1)) sum_{i != j} k(Z_i, Z_j)^2 over the pooled points,

    with lambda = `multiplier` sqrt(n (n - 1)).

    Parameters
    ----------
    multiplier
        1 is the paper's; a large one gives the maximum.
    """

    multiplier: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.multiplier < math.inf:
            raise InputError(f"multiplier is {self.multiplier}; it must be a positive number.")

    def scale(self, kernel: Kernel, points: EmbeddedSamples) -> float:
        n = min(points.sizes)
        squares = _sum_of_squares(kernel, points) / (n * (n - 1))
        # A kernel that is 0 between all points has an MMD of its diagonal only, in every shuffle.
        return 1 / math.sqrt(squares) if squares > 0 else 0.0

    def fused(self, values: Tensor, n: int, m: int) -> Tensor:
        smaller = min(n, m)
        sharpness = self.multiplier * math.sqrt(smaller * (smaller - 1))
        fused = soft_maximum(values, sharpness)
        # Vector instructions may give equal columns other last digits, by where these stand.
        error = torch.tensor([_LAST_DIGITS / sharpness], dtype=torch.float64)
        return snapped(fused[None], error)[0]


@dataclass(frozen=True)
class Surprise(Fusing):
    """The largest -log p of the rows, each by a gamma law with its own mean and variance.

    For statistics that are never negative, such as MMD('biased'). Far in the tail it tells
    labellings apart that have the same rank in their rows.
    """

    def check(self, statistic: Statistic, rows: int) -> None:
        if not statistic.is_nonnegative:
            raise IncompatibleParts(
                f"{statistic!r} may be negative, which a gamma law is not. Use MMD('biased'), or "
                "fuse by SmallestRank() or SoftMaximum()."
            )

    def fused(self, values: Tensor, n: int, m: int) -> Tensor:
        # Rounding may put a value of 0 below it.
        return surprise(values.clamp_min(0)).amax(0)


@dataclass(frozen=True, eq=False)
class PreparedFused:
    """What a statistic has prepared for each kernel."""

    bins: Bins
    sizes: tuple[int, int]
    members: tuple[Any, ...]  # one for each kernel
    scales: Tensor  # (R,) what its values are multiplied by
    # Ties within rows are made exact before they are fused, so none are left to rounding.
    resolution: float = 0.0


@dataclass(frozen=True)
class Fused(Statistic):
    """One statistic through several kernels, fused over all labellings: exact without a split.

    Each kernel gives a row of values over the labellings, the observed one first. The rows are
    fused by ranks, a soft maximum or -log p. All labellings are treated alike, so the p-value stays
    exact, however many kernels there are.

    Parameters
    ----------
    statistic
        What is evaluated for each kernel of `Several`.
    by
        How rows are fused: `SmallestRank()`, `SoftMaximum()` or `Surprise()`.

    Examples
    --------
    >>> import numpy as np
    >>> from twosample import Fused, Gaussian, MMD, Several, SmallestRank, TwoSampleTest
    >>> kernels = Several([Gaussian(factor=0.25), Gaussian(), Gaussian(factor=4)])
    >>> test = TwoSampleTest(kernels, statistic=Fused(MMD("unbiased"), by=SmallestRank()))
    >>> rng = np.random.default_rng(0)
    >>> test.run(rng.normal(size=(80, 2)), rng.normal(1, 1, size=(60, 2)), rng=0).pvalue
    0.001
    """

    statistic: Statistic
    by: Fusing = SmallestRank()

    @property
    def symbol(self) -> str:  # type: ignore[override]
        return f"fused {self.statistic.symbol}"

    @property
    def paired_form(self) -> str:  # type: ignore[override]
        return f"Fused({self.statistic.paired_form})"

    @property
    def shuffled_by(self) -> tuple[str, ...]:
        return self.statistic.shuffled_by

    @property
    def takes_units(self) -> bool:  # type: ignore[override]
        return self.statistic.takes_units

    @property
    def depends_on_order(self) -> bool:
        return self.statistic.depends_on_order

    def least_bins(self, n: int, m: int) -> int:
        return self.statistic.least_bins(n, m)

    def check(self, representation: nn.Module) -> None:
        if not isinstance(representation, Several):
            raise IncompatibleParts(
                f"{self!r} sees samples through several kernels, but the representation is a "
                f"{type(representation).__name__}. Use Several([...])."
            )
        for kernel in representation.kernels:
            self.statistic.check(kernel)
        self.by.check(self.statistic, len(representation.kernels))

    def prepare(
        self,
        representation: Several,
        points: EmbeddedSamples,
        bins: Bins,
        generator: torch.Generator,
    ) -> PreparedFused:
        members = []
        scales = []
        seen_by_kernels = representation.split(points.parts)
        for kernel, parts in zip(representation.kernels, seen_by_kernels, strict=True):
            seen = replace(points, parts=parts)
            members.append(self.statistic.prepare(kernel, seen, bins, generator))
            # A scale must not depend on the labels, so neither on sizes that a shuffle changes.
            alike = replace(seen, sizes=bins.fixed_sizes)
            scales.append(self.by.scale(kernel, alike))
        return PreparedFused(
            bins=bins,
            sizes=points.sizes,
            members=tuple(members),
            scales=torch.tensor(scales, dtype=torch.float64),
        )

    def evaluate(self, prepared: PreparedFused, shuffles: Tensor) -> Tensor:
        rows = [self.statistic.evaluate(member, shuffles) for member in prepared.members]
        return torch.stack(rows) * prepared.scales[:, None]  # (R, B)

    def fuse(self, prepared: PreparedFused, values: Tensor) -> Tensor:
        errors = [member.resolution for member in prepared.members]
        resolution = prepared.scales * torch.tensor(errors, dtype=torch.float64)
        return self.by.fused(snapped(values, resolution), *prepared.bins.fixed_sizes)

    def effect(self, prepared: PreparedFused, observed: float, threshold: float) -> Effect:
        # The fused value is on no scale but its own, and the kernel that stands out most has been
        # chosen by the data.
        return Effect()

    def contributions(
        self,
        representation: Several,
        points: EmbeddedSamples,
        prepared: PreparedFused,
        value: float,
    ) -> tuple[Tensor, Tensor]:
        """Those of the kernel that sees the largest difference, as shares of the fused value."""
        n, m = points.sizes
        parts = points.parts
        number = _most_telling(representation, parts, n, m, points.resources.memory)
        kernel = representation.kernels[number]
        seen = replace(points, parts=representation.split(parts)[number])
        member = prepared.members[number]
        in_place = torch.arange(prepared.bins.moving)[None]
        own_value = float(self.statistic.evaluate(member, in_place))
        if own_value <= 0:  # no kernel sees a difference, so no point stands out
            half = value / 2
            return torch.full((n,), half).double(), torch.full((m,), half).double()
        at_x, at_y = self.statistic.contributions(kernel, seen, member, own_value)
        share = value / own_value
        return share * at_x, share * at_y

    def witness(
        self,
        representation: Several,
        z: Embedded,
        n: int,
        m: int,
        value: float,
        memory: int,
    ) -> Tensor:
        number = _most_telling(representation, rows_of(z, slice(0, n + m)), n, m, memory)
        kernel = representation.kernels[number]
        seen = representation.split(z)[number]
        return self.statistic.witness(kernel, seen, n, m, value, memory)

    def quieter(self) -> Statistic:
        # Without other labellings, neither a rank nor a gamma law exists. This one needs none.
        return replace(self, statistic=self.statistic.quieter(), by=SoftMaximum())


def _most_telling(representation: Several, z: Embedded, n: int, m: int, memory: int) -> int:
    """Which kernel has the largest MMD^2 in units of its own size, as in `SoftMaximum`."""
    is_y = (torch.arange(n + m) >= n).long()
    values = []
    for kernel, seen in zip(representation.kernels, representation.split(z), strict=True):
        sums = block_sums(kernel, seen, is_y, diagonal=False, memory=memory)
        squares = block_sums(_Squared(kernel), seen, is_y, diagonal=False, memory=memory)
        mmd2 = mmd2_unbiased(sums[0, 0], sums[1, 1], sums[0, 1], n, m)
        size = max(float(squares.sum()), torch.finfo(torch.float64).tiny)
        values.append(float(mmd2) / math.sqrt(size))
    return values.index(max(values))


def _sum_of_squares(kernel: Kernel, points: EmbeddedSamples) -> float:
    """The sum of k(Z_i, Z_j)^2 over the pooled points i != j."""
    # One bin for all points, and no weights.
    bins = torch.zeros(sum(points.sizes), dtype=torch.long)
    sums, _ = block_and_row_sums(
        _Squared(kernel),
        points.parts,
        bins,
        torch.zeros(len(bins), 0),
        diagonal=False,
        resources=points.resources.quiet(),
    )
    return float(sums)


class _Squared(Kernel):
    """The square of a kernel, for sums over pairs of embedded points."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel

    def centred(self, z: Embedded) -> Embedded:
        return self.kernel.centred(z)

    def tile(self, a: Embedded, b: Embedded) -> Tensor:
        return self.kernel.tile(a, b).square()

    def sides(self, z: Embedded) -> Sides:
        return self.kernel.sides(z)

    def cross(self, left: Embedded, right: Embedded) -> Tensor:
        return self.kernel.cross(left, right).square()
