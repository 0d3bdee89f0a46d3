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
from .._products import Embedded, rows_of
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
        in_block = self._points_a_block(n, m)
        size = max(1, in_block // _BINS_A_BLOCK)  # points of a bin
        return min(n, m) // size

    def check(self, representation: nn.Module) -> None:
        check_kernel(self, representation)

    def check_law(self, representation: nn.Module) -> None:
        """It has one, whatever the kernel is."""

    def law(self, prepared: PreparedBlocks) -> Law:
        """The normal law of a mean of independent blocks."""
        values = prepared.values
        count = len(values)
        deviation = float(values.std() / math.sqrt(count))
        tiny = torch.finfo(torch.float64).tiny  # blocks may all have the same value
        normal = scipy.stats.norm(scale=max(deviation, tiny))
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
        size = bins.size
        in_block = self._points_a_block(n, m)
        count = min(n, m) // in_block
        in_x = bins.moving_x // max(1, count)  # bins of X in a block
        in_y = bins.moving_y // max(1, count)
        if count < 2 or min(in_x, in_y) * size < 2:
            raise InputError(
                f"{n} and {m} points make {count} block of {in_block}; {self!r} "
                "needs at least 2 blocks of 2 points. Use MMD('unbiased'), or a smaller block_size."
            )
        values = []
        sums = []
        b = in_x * size
        c = in_y * size
        terms = b * (b - 1)
        with torch.no_grad():
            for block in _blocks(representation, points.parts, bins, count):
                xx = block.xx
                yy = block.yy
                xy = block.xy
                if _are_paired(bins):
                    # A swap of a pair changes the signs of its H_ij and nothing else.
                    H = xx + yy - xy - xy.T
                    H.fill_diagonal_(0)
                    by_bins = H.view(in_x, size, in_x, size)
                    sums.append(by_bins.sum((1, 3)))
                    values.append(H.sum() / terms)
                else:
                    mmd2 = mmd2_unbiased(xx.sum(), yy.sum(), xy.sum(), b, c)
                    values.append(mmd2)
            z = representation.centred(points.parts)
            own = representation.pairs(z, z).double()
            typical = float(own.abs().mean())  # what a kernel value is like
        rounding = 64 * torch.finfo(z[0].dtype).eps * typical
        return PreparedBlocks(
            bins=bins,
            sizes=(n, m),
            values=torch.stack(values),
            sums=torch.stack(sums) if sums else None,
            terms=terms,
            resolution=rounding / (b * math.sqrt(count)),
        )

    def evaluate(self, prepared: PreparedBlocks, shuffles: Tensor) -> Tensor:
        sums = prepared.sums
        if sums is None:
            return prepared.values.mean().expand(len(shuffles))
        count, in_block, _ = sums.shape
        signs = prepared.bins.signs(shuffles)  # (B, moving_x)
        in_blocks = signs[:, : count * in_block]  # bins that are left over come last
        s = in_blocks.view(-1, count, in_block)
        # sum_k s_k' H_k s_k: a term H_ij changes its sign when one of its two pairs is swapped.
        forms = torch.einsum("Bkc,kcd,Bkd->B", s, sums, s)
        return forms / (prepared.terms * count)

    def effect(self, prepared: PreparedBlocks, observed: float, threshold: float) -> Effect:
        """MMD, and the power by the spread of the blocks."""
        values = prepared.values
        deviation = float(values.std()) / math.sqrt(len(values))
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
                xy = block.xy
                sums_with_x = xy.sum(0)  # (c,) of each point of Y
                sums_with_y = xy.sum(1)  # (b,) of each point of X
                if _are_paired(bins):  # the terms k(X_i, Y_i) do not count
                    pairs = xy.diagonal()
                    with_x = (sums_with_x - pairs) / (b - 1)
                    with_y = (sums_with_y - pairs) / (c - 1)
                else:
                    with_x = sums_with_x / b
                    with_y = sums_with_y / c
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
        wanted = self.block_size or math.isqrt(smaller)
        return max(2, min(wanted, smaller))


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
    device = z[0].device
    in_x = bins.moving_x // count
    in_y = bins.moving_y // count
    members_x = bins.members(0, count * in_x)
    members_y = bins.members(bins.moving_x, count * in_y)
    b = in_x * bins.size
    c = in_y * bins.size
    places_x = members_x.view(count, b)
    places_y = members_y.view(count, c)
    for of_x, of_y in zip(places_x, places_y, strict=True):
        index = torch.cat([of_x, of_y]).to(device)
        points = rows_of(z, index)
        K = kernel.tile(points, points).double().cpu()  # (b + c, b + c)
        K.fill_diagonal_(0)
        yield _Block(
            of_x,
            of_y,
            xx=K[:b, :b],
            yy=K[b:, b:],
            xy=K[:b, b:],
        )
