"""One number for one labelling of the pooled points, for many labellings at once.

A statistic works in two steps: `prepare` looks at the data and the kernel once, `evaluate` then gives its value for
any number of shuffles without looking at them again. What is shuffled are bins of points (`Bins`); bins of one point
are the ordinary permutation test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from .errors import IncompatibleParts, InputError
from .estimators import (
    REGULARISER,
    area_under_curve,
    asymptotic_power,
    balanced_accuracy,
    mmd2_biased,
    mmd2_paired,
    mmd2_unbiased,
    power_criterion,
    variance_unpaired,
)
from .kernels import Kernel
from .products import DEFAULT_MEMORY, Embedded, block_and_row_sums, block_sums
from .result import ALPHA, Effect
from .samples import Samples

Estimator = Literal["unbiased", "biased", "paired"]


@dataclass(frozen=True, eq=False)
class Bins:
    """Which points of two samples move together, and which stay.

    Bins 0 ... moving_x - 1 hold points of X, the next `moving_y` points of Y, `size` points each; the last two bins
    hold the points of X and of Y that stay in place (either may be empty).
    """

    of_x: Tensor  # (n,)
    of_y: Tensor  # (m,)
    moving_x: int
    moving_y: int
    size: int

    @property
    def moving(self) -> int:
        return self.moving_x + self.moving_y

    @property
    def count(self) -> int:
        return self.moving + 2

    def in_x(self, shuffles: Tensor) -> Tensor:
        """(B, count) ones and zeros: the bins that each shuffle, a permutation of the moving bins, puts into X."""
        labels = torch.zeros(len(shuffles), self.count, dtype=torch.float64)
        labels.scatter_(1, shuffles[:, : self.moving_x], 1.0)
        labels[:, self.moving] = 1.0
        return labels


@dataclass(frozen=True, eq=False)
class PreparedMMD:
    """All that an MMD needs of the data: sums over bins."""

    bins: Bins
    sizes: tuple[int, int]
    sums: Tensor  # (S, S) block sums without the terms k(z_i, z_i)
    own: Tensor  # (S,) sums of those
    # (moving, moving) sums over t of k(t-th point of one bin, t-th point of another); "paired" only, else empty
    pairs: Tensor
    fixed_pairs: float
    witness: tuple[Tensor, Tensor]  # w at the points of X and of Y, in the observed labelling
    resolution: float  # rounding error that a value may carry
    scores: tuple[Tensor, Tensor] | None  # of a classifier, where the kernel sees points through one


@dataclass(frozen=True)
class MMD:
    """The squared maximum mean discrepancy.

    Parameters
    ----------
    estimator
        "unbiased": any sizes, may be negative. "biased": that of the empirical distributions. "paired": the
        U-statistic of [Liu2020], equal sizes only, which leaves out the terms k(X_i, Y_i).
    """

    estimator: Estimator = "unbiased"

    def __post_init__(self) -> None:
        if self.estimator not in get_args(Estimator):
            raise IncompatibleParts(
                f"MMD({self.estimator!r}) does not exist; use one of {', '.join(get_args(Estimator))}."
            )

    def __repr__(self) -> str:
        return f"MMD({self.estimator!r})"

    @property
    def depends_on_order(self) -> bool:
        """Whether the value depends on more than which points are in X: "paired" also on who is paired with whom."""
        return self.estimator == "paired"

    def prepare(
        self,
        representation: Kernel,
        samples: Samples,
        bins: Bins,
        generator: torch.Generator,
        *,
        memory: int = DEFAULT_MEMORY,
        progress: bool | None = False,
    ) -> PreparedMMD:
        """Everything about the kernel matrix that `evaluate` needs, in one pass over its tiles."""
        n, m = samples.sizes
        if self.estimator == "paired" and n != m:
            raise InputError(f"MMD('paired') needs samples of one size, not {n} and {m}; use MMD('unbiased').")
        with torch.no_grad():
            z = embed_pooled(representation, samples, generator, memory=memory)
            ids = torch.cat([bins.of_x, bins.of_y])
            is_x = torch.zeros(n + m, 2)
            is_x[:n, 0] = 1
            is_x[n:, 1] = 1
            # Which bins share a tile is left to chance, so that rounding is as blind to labels as everything else.
            place = torch.randperm(bins.count, generator=generator)
            sums, rows = block_and_row_sums(
                representation, z, place[ids], is_x, diagonal=False, memory=memory, progress=progress
            )
            sums = torch.nn.functional.pad(sums.double().cpu(), (0, bins.count - len(sums)) * 2)  # empty bins
            sums = sums[place][:, place]
            own = representation.pairs(z, z).double().cpu()
            rows = rows.double().cpu()
            rows[:n, 0] += own[:n]
            rows[n:, 1] += own[n:]
            witness = rows[:, 0] / n - rows[:, 1] / m
            vectors = representation.features(z)
            scores = z[0][:, 0].double().cpu() if vectors is not None and z[0].shape[1] == 1 else None
            pairs, fixed = (
                self._pairs(representation, z, bins, n, memory) if self.depends_on_order else (torch.empty(0), 0.0)
            )
        return PreparedMMD(
            bins=bins,
            sizes=(n, m),
            sums=sums,
            own=torch.zeros(bins.count, dtype=torch.float64).index_add_(0, ids, own),
            pairs=pairs,
            fixed_pairs=fixed,
            witness=(witness[:n], witness[n:]),
            resolution=_resolution(vectors, sums, own, torch.finfo(z[0].dtype).eps, min(n, m)),
            scores=None if scores is None else (scores[:n], scores[n:]),
        )

    def evaluate(self, prepared: PreparedMMD, shuffles: Tensor) -> Tensor:
        """(B,) values, one for each of the (B, moving) shuffles of bins."""
        n, m = prepared.sizes
        in_x = prepared.bins.in_x(shuffles)
        product = in_x @ prepared.sums  # (B, S)
        xx = (product * in_x).sum(1)
        xy = product.sum(1) - xx
        yy = prepared.sums.sum() - xx - 2 * xy
        if self.estimator == "unbiased":
            return mmd2_unbiased(xx, yy, xy, n, m)
        if self.estimator == "biased":
            own = in_x @ prepared.own
            return mmd2_biased(xx + own, yy + prepared.own.sum() - own, xy, n, m)
        half = prepared.bins.moving_x
        crossed = prepared.pairs[shuffles[:, :half], shuffles[:, half:]].sum(1) + prepared.fixed_pairs
        return mmd2_paired(xx, yy, xy, crossed, n)

    def _pairs(self, kernel: Kernel, z: Embedded, bins: Bins, n: int, memory: int) -> tuple[Tensor, float]:
        """Block sums of the paired diagonal, and the sum over the pairs that stay in place."""
        ids = torch.cat([bins.of_x, bins.of_y])
        order = torch.argsort(ids, stable=True)
        by_bin = order[: bins.moving * bins.size].view(bins.moving, bins.size)
        one_each = torch.arange(bins.moving)
        total = torch.zeros(bins.moving, bins.moving, dtype=torch.float64)
        for t in range(bins.size):
            index = by_bin[:, t].to(z[0].device)
            total += block_sums(kernel, tuple(part[index] for part in z), one_each, memory=memory).double().cpu()
        fixed_x = torch.nonzero(bins.of_x == bins.moving)[:, 0].to(z[0].device)
        fixed_y = torch.nonzero(bins.of_y == bins.moving + 1)[:, 0].to(z[0].device) + n
        a, b = tuple(part[fixed_x] for part in z), tuple(part[fixed_y] for part in z)
        return total, float(kernel.pairs(a, b).double().sum()) if len(fixed_x) else 0.0

    def effect(self, prepared: PreparedMMD, values: Tensor) -> Effect:
        """MMD, J and estimated power, from the witness and the (B + 1,) values over shuffles, the observed first."""
        n, m = prepared.sizes
        observed = float(values[0])
        variance = variance_unpaired(*prepared.witness)  # sigma^2; that of MMD^2 is sigma^2 (n + m) / (2 n m)
        threshold = float(torch.quantile(values, 1 - ALPHA, interpolation="higher"))
        scores = prepared.scores
        return Effect(
            accuracy=None if scores is None else balanced_accuracy(*scores),
            auc=None if scores is None else area_under_curve(*scores),
            mmd=max(0.0, observed) ** 0.5,
            criterion=float(power_criterion(values[0], variance, REGULARISER)),
            power=asymptotic_power(observed, float(variance * (n + m) / (2 * n * m)) ** 0.5, threshold),
        )


def embed_pooled(kernel: Kernel, samples: Samples, generator: torch.Generator, *, memory: int) -> Embedded:
    """All points of X, then of Y, through `kernel.embed` in batches that are blind to labels.

    The points are shuffled first: what a network does with a batch (batch normalisation, the rounding of a matrix
    product) may depend on the company a point is in, and must not depend on its label.
    """
    pooled = samples.pooled()
    count = len(pooled)
    order = torch.randperm(count, generator=generator).to(pooled.device)
    point = 64 * pooled.element_size() * max(256, pooled[0].numel())  # bytes, with the activations of a usual network
    batches = max(1, min(count // 2, -(-count * point // memory)))  # of two points at least, or none can be normalised
    pieces = [kernel.embed(pooled[index]) for index in torch.tensor_split(order, batches)]
    back = torch.argsort(order)
    return tuple(torch.cat(part)[back] for part in zip(*pieces, strict=True))


def _resolution(vectors: Tensor | None, sums: Tensor, own: Tensor, eps: float, smaller: int) -> float:
    """How much two values may differ by rounding where exact arithmetic has a tie, as when duplicates trade places.

    Sums are in float64; kernel values have the precision `eps` of the embedded points, and their errors average out
    over a row of the matrix. The factors leave room for a narrow kernel, which magnifies the rounding of distances.
    With features MMD^2 is the square of a difference of means, whose error is that of a feature.
    """
    points = len(own)
    size = float(sums.abs().sum()) / points**2 + float(own.abs().mean()) / smaller
    in_sums = 64 * torch.finfo(torch.float64).eps * size
    if vectors is None:
        return in_sums + 64 * eps / math.sqrt(points) * size
    error = 8 * eps * math.sqrt(float(own.abs().mean()))
    spread = math.sqrt(float((vectors - vectors.mean(0)).double().square().sum(1).mean()))
    return in_sums + error**2 + error * spread / math.sqrt(smaller * points)
