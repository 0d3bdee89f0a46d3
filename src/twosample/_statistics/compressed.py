"""The MMD of a kernel projected onto a few landmarks: a time that grows with the points."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .._checks import check_whole
from .._data.samples import EmbeddedSamples
from .._eigen import eigh
from .._kernels import Kernel
from .._products import Embedded, rows_of
from .._result import Effect
from ..errors import IncompatibleParts
from .base import Bins, PairEstimator, Statistic
from .mmd import about_the_middle, check_kernel, effect_from_witness, kernel_witness

_RANK = 1e-5  # smaller eigenvalues, relative to the largest, are rounding that roots would magnify
_ORDINARY = 2000  # points that tell the spread of all, for the bias of a squared distance of means


@dataclass(frozen=True, eq=False)
class PreparedCompressed:
    """Sums of the features f(z) = K^(-1/2) (k(l_1, z), ..., k(l_c, z)) of landmarks l."""

    bins: Bins
    sizes: tuple[int, int]
    totals: Tensor  # (S, p) sums of features over bins
    spread: float  # the trace of the covariance of the features
    witness: tuple[Tensor, Tensor]  # w at the points of X and of Y, in the observed labelling
    resolution: float

    @property
    def excess(self) -> float:
        """What |mean of X - mean of Y|^2 is on average when P = Q, for the observed sizes."""
        n, m = self.sizes
        return (1 / n + 1 / m) * self.spread


@dataclass(frozen=True)
class CompressedMMD(Statistic):
    """MMD^2 of the kernel projected onto a few of the pooled points, the landmarks [Chatalic2025].

    Landmarks are drawn blind to labels, so shuffles do not change the features. Any sizes; the time
    grows with the points, and some power is lost.

    Parameters
    ----------
    landmarks
        How many; None means 1000, or the square root of the number of points if that is more.
    """

    landmarks: int | None = None

    symbol = "MMD²"
    takes_units = True

    def __post_init__(self) -> None:
        if self.landmarks is not None:
            check_whole("landmarks", self.landmarks, 2)

    def __repr__(self) -> str:
        return f"CompressedMMD({'' if self.landmarks is None else self.landmarks})"

    @property
    def shuffled_by(self) -> tuple[str, ...]:
        return ("permutations", "swaps")

    @property
    def pair_estimator(self) -> PairEstimator | None:
        # Landmarks lose little of the kernel, and what is lost makes the threshold smaller, too.
        return "unbiased"

    def check(self, representation: nn.Module) -> None:
        kernel = check_kernel(self, representation)
        if kernel.is_inner_product:
            raise IncompatibleParts(
                f"{representation!r} is an inner product of features, which need no landmarks: "
                "its tests take linear time as they are. Use MMD('biased')."
            )

    def prepare(
        self,
        representation: Kernel,
        points: EmbeddedSamples,
        bins: Bins,
        generator: torch.Generator,
    ) -> PreparedCompressed:
        n, m = points.sizes
        with torch.no_grad():
            landmarks = self._count(n + m)
            nystroem = _Landmarks(representation, points, landmarks, generator)
            root = nystroem.root  # (c, p)
            totals = torch.zeros(bins.count, landmarks, dtype=torch.float64)
            of_x = torch.zeros(landmarks, dtype=torch.float64)
            ids = bins.of_all
            for piece, values in nystroem.pieces():
                totals.index_add_(0, ids[piece], values)
                in_x = values[: max(0, n - piece.start)]  # the points of X come first
                of_x += in_x.sum(0)
            of_y = totals.sum(0) - of_x
            difference = root.T @ (of_x / n - of_y / m)
            direction = root @ difference
            # The values are made again: all of them at once would take N c numbers.
            witness = torch.cat([values @ direction for _, values in nystroem.pieces()])
            # A new draw: landmarks, whose features are longer, are as frequent in it as among all
            # points.
            some = torch.randperm(n + m, generator=generator)[:_ORDINARY]
            features = nystroem.values(some.to(nystroem.device)) @ root
            spread = float(features.var(0).sum())
        error = nystroem.error
        of_means = math.sqrt(spread / (min(n, m) * (n + m)))
        return PreparedCompressed(
            bins=bins,
            sizes=(n, m),
            totals=totals @ root,
            spread=spread,
            witness=(witness[:n], witness[n:]),
            resolution=error**2 + error * of_means,
        )

    def evaluate(self, prepared: PreparedCompressed, shuffles: Tensor) -> Tensor:
        bins = prepared.bins
        totals = prepared.totals
        in_x = bins.in_x(shuffles)
        if bins.cells is not None:
            weights = bins.contrast(in_x)
            excess = weights.square() @ bins.sizes * prepared.spread
            return (weights @ totals).square().sum(1) - excess
        n, m = bins.sizes_in(in_x)
        of_x = in_x @ totals  # (B, p)
        of_y = totals.sum(0) - of_x
        difference = of_x / n[:, None] - of_y / m[:, None]
        # Without the excess, the square of a distance between means is above 0 even if P = Q.
        excess = (1 / n + 1 / m) * prepared.spread
        return difference.square().sum(1) - excess

    def effect(self, prepared: PreparedCompressed, observed: float, threshold: float) -> Effect:
        return effect_from_witness(prepared.witness, observed, threshold)

    def quieter(self) -> Statistic:
        from .mmd import MMD

        return MMD("unbiased")

    def contributions(
        self,
        representation: Kernel,
        points: EmbeddedSamples,
        prepared: Any,
        value: float,
    ) -> tuple[Tensor, Tensor]:
        """The witness at each point, which is what its features add to the distance of means."""
        of_x, of_y = prepared.witness
        return about_the_middle(of_x, -of_y)

    def witness(
        self,
        representation: Kernel,
        z: Embedded,
        n: int,
        m: int,
        value: float,
        memory: int,
    ) -> Tensor:
        return kernel_witness(representation, z, n, m, memory)

    def _count(self, points: int) -> int:
        wanted = self.landmarks or max(1000, math.isqrt(points))
        return min(wanted, points)


class _Landmarks:
    """Kernel values between all points and a few of them, some rows at a time."""

    def __init__(
        self,
        kernel: Kernel,
        points: EmbeddedSamples,
        count: int,
        generator: torch.Generator,
    ) -> None:
        z = kernel.centred(points.parts)
        left, right = kernel.sides(z)
        self.kernel = kernel
        self.left = left
        self.points = sum(points.sizes)
        self.count = count
        self.device = z[0].device
        order = torch.randperm(self.points, generator=generator).to(self.device)
        chosen = order[:count]
        self.landmarks = rows_of(right, chosen)
        room = points.resources.memory // (64 * count)
        self.rows = max(1, min(512, room))
        K = self.values(chosen)
        # Rounding leaves it not quite symmetric, and `eigh` reads only one half.
        eigenvalues, vectors = eigh((K + K.T) / 2)
        enough = eigenvalues > _RANK * eigenvalues[-1]
        kept = eigenvalues[enough]
        self.root = vectors[:, enough] / kept.sqrt()  # (c, p)
        # The rounding of a feature: that of a kernel value, magnified by the root.
        magnified = math.sqrt(count / float(kept[0]))
        self.error = 8 * torch.finfo(z[0].dtype).eps * magnified

    def values(self, points: slice | Tensor) -> Tensor:
        """(N, c) kernel values of these points with the landmarks, in float64."""
        left = rows_of(self.left, points)
        values = self.kernel.cross(left, self.landmarks)
        return values.double().cpu()

    def pieces(self) -> Iterator[tuple[slice, Tensor]]:
        """All points, some rows at a time."""
        for start in range(0, self.points, self.rows):
            piece = slice(start, start + self.rows)
            yield piece, self.values(piece)
