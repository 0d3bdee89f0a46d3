"""What the statistic looks like when P = Q, hence the p-value."""

from __future__ import annotations

import itertools
import math
import warnings
from dataclasses import dataclass
from numbers import Integral

import torch
from torch import Tensor

from .errors import InputError, InputWarning, TrainingError
from .kernels import Kernel
from .products import DEFAULT_MEMORY
from .samples import Samples
from .statistics import MMD, Bins, PreparedMMD


@dataclass(frozen=True, eq=False)
class Calibrated:
    """The values of a statistic over shuffles, the observed order first, and what was shuffled."""

    values: Tensor  # (B + 1,)
    pvalue: float
    description: str
    prepared: PreparedMMD
    shuffles: Tensor  # (B + 1, moving bins), the identity first


@dataclass(frozen=True)
class Permutation:
    """The exact permutation test: under P = Q, every shuffle of the pooled points is as likely as the observed order.

    p = (1 + number of shuffles whose value is at least the observed one) / (1 + permutations), ties included, never
    0. The level is at most alpha at every sample size. When fewer distinct labellings exist than permutations are
    asked for, all of them are enumerated instead.

    Large samples are shuffled in bins: both are cut into bins of one size b = max(1, min(n, m) // bins), and whole bins
    change places; points that are left over stay. These moves are a group, so the level stays exact; a thousand of
    them cost a product with a matrix of bins instead of points.

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
        for name in ("permutations", "bins", "max_bins"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < 1:
                raise InputError(f"{name} is {value!r}; it must be a whole number of at least 1.")

    def plan(self, n: int, m: int, generator: torch.Generator) -> Bins:
        """Cut samples of n and m points into bins, each sample in a random order."""
        size = max(1, min(n, m) // self.bins)
        moving_x, moving_y = min(n // size, self.max_bins), min(m // size, self.max_bins)
        moving = moving_x + moving_y

        order_x = torch.randperm(n, generator=generator)
        order_y = order_x if n == m else torch.randperm(m, generator=generator)  # pairs (X_i, Y_i) stay together

        def cut(order: Tensor, bins: int, first: int, fixed: int) -> Tensor:
            ids = torch.full((len(order),), fixed)
            ids[order[: bins * size]] = first + torch.arange(bins * size) // size
            return ids

        return Bins(
            cut(order_x, moving_x, 0, moving), cut(order_y, moving_y, moving_x, moving + 1), moving_x, moving_y, size
        )

    def shuffles(self, bins: Bins, generator: torch.Generator, *, order_matters: bool = False) -> Tensor:
        """(B + 1, moving) permutations of the moving bins, the identity first; all labellings if they are few."""
        if not order_matters and math.comb(bins.moving, bins.moving_x) <= self.permutations + 1:
            everything = set(range(bins.moving))
            chosen = itertools.combinations(range(bins.moving), bins.moving_x)
            return torch.tensor([[*into_x, *sorted(everything - set(into_x))] for into_x in chosen])
        identity = torch.arange(bins.moving)
        random = torch.rand(self.permutations, bins.moving, generator=generator, dtype=torch.float64).argsort(1)
        return torch.cat([identity[None], random])

    def __call__(
        self,
        statistic: MMD,
        representation: Kernel,
        samples: Samples,
        generator: torch.Generator,
        *,
        memory: int = DEFAULT_MEMORY,
        progress: bool | None = False,
    ) -> Calibrated:
        """Prepare the statistic once, evaluate it on every shuffle, count."""
        n, m = samples.sizes
        bins = self.plan(n, m, generator)
        prepared = statistic.prepare(representation, samples, bins, generator, memory=memory, progress=progress)
        shuffles = self.shuffles(bins, generator, order_matters=statistic.depends_on_order)
        values = torch.cat([statistic.evaluate(prepared, piece) for piece in torch.split(shuffles, 256)])
        if not bool(torch.isfinite(values).all()):
            raise TrainingError(
                f"the statistic is {float(values[0])} on the points to test, because the kernel gives values that are "
                "not finite; look for extreme values in the data, or train with a smaller learning_rate."
            )
        enumerated = len(shuffles) != self.permutations + 1 or (
            not statistic.depends_on_order and math.comb(bins.moving, bins.moving_x) == len(shuffles)
        )
        if enumerated and len(shuffles) < 20:
            warnings.warn(
                f"with {n} and {m} points to test there are only {len(shuffles)} labellings, so no p-value "
                f"below {1 / len(shuffles):.3g} is possible; use more points, or a smaller train_fraction.",
                InputWarning,
                stacklevel=2,
            )
        what = "points" if bins.size == 1 else f"bins of {bins.size} points"
        stay = n + m - bins.moving * bins.size
        moved = f"{bins.moving_x} + {bins.moving_y} {what}" + (f", {stay} points staying" if stay else "")
        how = f"all {len(shuffles)} labellings" if enumerated else f"{self.permutations} permutations"
        return Calibrated(values, pvalue(values, prepared.resolution), f"{how} of {moved}", prepared, shuffles)


def pvalue(values: Tensor, resolution: float) -> float:
    """The share of `values` that are at least the first, which counts itself; equal up to rounding is equal."""
    tolerance = max(resolution, 1e-12 * float(values.abs().max()))
    return float((values >= values[0] - tolerance).double().mean())
