"""The average of MMD^2 over blocks of points: less time than all pairs take, and less power."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import scipy  # which imports its parts, such as scipy.stats, when they are used
import torch
from torch import Tensor, nn

from .._checks import check_whole
from .._data.samples import EmbeddedSamples
from .._estimators import asymptotic_power, mmd2_unbiased
from .._kernels import Kernel
from .._products import Embedded
from .._result import Effect
from ..errors import InputError
from .base import Bins, Law, Statistic
from .mmd import check_kernel, kernel_witness

_BINS_A_BLOCK = 16  # bins that a block is cut into, so that swaps have signs to change within it


@dataclass(frozen=True, eq=False)
class PreparedBlocks:
    """All that an average over blocks needs of the data."""

    bins: Bins
    sizes: tuple[int, int]
    values: Tensor  # (blocks,) MMD^2 of each block, in the observed labelling
    # (blocks, c, c) sums of H_ij, i != j, over pairs of bins of a block; None where points are not
    # paired, and no shuffle has a value of its own.
    sums: Tensor | None
    terms: int  # how many H_ij each block has
    resolution: float


class _Block(NamedTuple):
    """The points of one block, and their kernel values."""

    of_x: Tensor  # (b,) places in the pooled points
    of_y: Tensor  # (c,)
    xx: Tensor  # (b, b), zero on the diagonal
    yy: Tensor  # (c, c), the same
    xy: Tensor  # (b, c)


@dataclass(frozen=True)
class BlockMMD(Statistic):
    """The average of MMD^2 over blocks of points [Zaremba2013]: quick, and much weaker.

    Its time grows more slowly than the square of the points. It has values for swaps of pairs, and
    a normal law.

    Parameters
    ----------
    block_size
        Points of each sample in a block; None means the square root of the smaller sample's size.
    """

    block_size: int | None = None

    symbol = "MMD²"

    def __post_init__(self) -> None:
        if self.block_size is not None:
            check_whole("block_size", self.block_size, 2)

    def __repr__(self) -> str:
        return f"BlockMMD({'' if self.block_size is None else self.block_size})"

    @property
    def shuffled_by(self) -> tuple[str, ...]:
        return ("swaps",)

    def least_bins(self, n: int, m: int) -> int:
        return min(n, m) // max(1, self._points_a_block(n, m) // _BINS_A_BLOCK)

    def check(self, representation: nn.Module) -> None:
        check_kernel(self, representation)

    def check_law(self, representation: nn.Module) -> None:
        """It has one, whatever the kernel is."""

    def law(self, prepared: PreparedBlocks) -> Law:
        """The normal law of a mean of independent blocks."""
        count = len(prepared.values)
        deviation = float(prepared.values.std() / math.sqrt(count))
        normal = scipy.stats.norm(scale=max(deviation, torch.finfo(torch.float64).tiny))
        return Law(
            lambda value: float(normal.sf(value)),
            lambda alpha: float(normal.isf(alpha)),
            f"normal law of the mean of {count} blocks",
        )

    def prepare(
        self,
        representation: Kernel,
        points: EmbeddedSamples,
        bins: Bins,
        generator: torch.Generator,
    ) -> PreparedBlocks:
        n, m = points.sizes
        count = min(n, m) // self._points_a_block(n, m)
        in_x = bins.moving_x // max(1, count)
        in_y = bins.moving_y // max(1, count)
        if count < 2 or min(in_x, in_y) * bins.size < 2:
            raise InputError(
                f"{n} and {m} points make {count} block of {self._points_a_block(n, m)}; {self!r} "
                "needs at least 2 blocks of 2 points. Use MMD('unbiased'), or a smaller block_size."
            )
        values = []
        sums = []
        b = in_x * bins.size
        c = in_y * bins.size
        with torch.no_grad():
            for block in _blocks(representation, points.parts, bins, count):
                if _are_paired(bins):
                    # A swap of a pair changes the signs of its H_ij and nothing else.
                    H = (block.xx + block.yy - block.xy - block.xy.T).fill_diagonal_(0)
                    sums.append(H.view(in_x, bins.size, in_x, bins.size).sum((1, 3)))
                    values.append(H.sum() / (b * (b - 1)))
                else:
                    xx = block.xx.sum()
                    yy = block.yy.sum()
                    xy = block.xy.sum()
                    values.append(mmd2_unbiased(xx, yy, xy, b, c))
            z = representation.centred(points.parts)
            size = float(representation.pairs(z, z).double().abs().mean())
        rounding = 64 * torch.finfo(z[0].dtype).eps * size
        return PreparedBlocks(
            bins=bins,
            sizes=(n, m),
            values=torch.stack(values),
            sums=torch.stack(sums) if sums else None,
            terms=b * (b - 1),
            resolution=rounding / (b * math.sqrt(count)),
        )

    def evaluate(self, prepared: PreparedBlocks, shuffles: Tensor) -> Tensor:
        if prepared.sums is None:
            return prepared.values.mean().expand(len(shuffles))
        count, in_block, _ = prepared.sums.shape
        signs = prepared.bins.signs(shuffles)[:, : count * in_block].view(-1, count, in_block)
        forms = torch.einsum("Bkc,kcd,Bkd->B", signs, prepared.sums, signs)
        return forms / (prepared.terms * count)

    def effect(self, prepared: PreparedBlocks, observed: float, threshold: float) -> Effect:
        """MMD, and the power by the spread of the blocks."""
        deviation = float(prepared.values.std()) / math.sqrt(len(prepared.values))
        power = asymptotic_power(observed, deviation, threshold)
        return Effect(mmd=max(0.0, observed) ** 0.5, power=power)

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
        """As for an `MMD`, within blocks; points that were left over have no part in it."""
        n, m = points.sizes
        bins = prepared.bins
        count = len(prepared.values)
        at = torch.zeros(n + m, dtype=torch.float64)
        with torch.no_grad():
            for block in _blocks(representation, points.parts, bins, count):
                b = len(block.of_x)
                c = len(block.of_y)
                with_x = block.xy.sum(0) / b
                with_y = block.xy.sum(1) / c
                if _are_paired(bins):  # the terms k(X_i, Y_i) do not count
                    pairs = block.xy.diagonal()
                    with_x = (block.xy.sum(0) - pairs) / (b - 1)
                    with_y = (block.xy.sum(1) - pairs) / (c - 1)
                own_x = block.xx.sum(1) / (b - 1)
                own_y = block.yy.sum(1) / (c - 1)
                # Of n points only b * count are in a block, and the mean is over all n.
                at[block.of_x] = (own_x - with_y) * n / (b * count)
                at[block.of_y] = (own_y - with_x) * m / (c * count)
        return at[:n], at[n:]

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

    def _points_a_block(self, n: int, m: int) -> int:
        smaller = min(n, m)
        return max(2, min(self.block_size or math.isqrt(smaller), smaller))


def _are_paired(bins: Bins) -> bool:
    """Whether every bin of X that moves has a partner in Y."""
    return bins.moving_x == bins.moving_y


def _blocks(
    kernel: Kernel,
    z: Embedded,
    bins: Bins,
    count: int,
) -> Iterator[_Block]:
    """`count` blocks with as many bins of X and of Y each; bins that are left over are left out."""
    z = kernel.centred(z)
    in_x = bins.moving_x // count
    in_y = bins.moving_y // count
    places_x = bins.members(0, count * in_x).view(count, in_x * bins.size)
    places_y = bins.members(bins.moving_x, count * in_y).view(count, in_y * bins.size)
    b = places_x.shape[1]
    for of_x, of_y in zip(places_x, places_y, strict=True):
        index = torch.cat([of_x, of_y]).to(z[0].device)
        points = tuple(part[index] for part in z)
        K = kernel.tile(points, points).double().cpu().fill_diagonal_(0)
        yield _Block(of_x, of_y, K[:b, :b], K[b:, b:], K[:b, b:])
