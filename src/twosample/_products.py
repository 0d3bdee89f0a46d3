"""The products everything rests on: `row_sums`, `block_sums` and `moments` of a kernel matrix.

Nobody holds that matrix. All of them walk over its tiles, use its symmetry (a tile above the
diagonal serves the one below it), and keep only sums, in float64. Memory grows with the number of
points, never with its square. A kernel takes part through

    kernel.embed(points)           the network, once: a tuple of tensors, one row a point
    kernel.centred(z)              all of them moved to where it is precise
    kernel.features(z)             vectors whose inner products it is, or None;
                                   where they are few, tiles are not needed
    kernel.tile(a, b)              the kernel between embedded points: (len(a), len(b))
    kernel.sides(z)                embedded points as the left and the right side of many tiles
    kernel.cross(left, right)      the tile between two sides
    kernel.tile_and_pullback(a, b) the tile, and a function that turns its gradient into gradients
                                   of `a`, of `b` and of `kernel.tile_parameters()`

A kernel object comes in as an argument: this module imports none.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from ._progress import bar
from ._resources import DEFAULT_MEMORY, HERE, Resources, Workers

Embedded: TypeAlias = tuple[Tensor, ...]
"""Points as `Kernel.tile` sees them: tensors of equal length, one row a point.

For a deep kernel they are the features and the raw columns.
"""

Points: TypeAlias = Tensor | Embedded
"""Points as they come, or as `Kernel.embed` made them: a tuple is embedded."""

Sides: TypeAlias = tuple[Embedded, Embedded]
"""Embedded points as the left and as the right side of many tiles."""

Parameters: TypeAlias = tuple[Tensor, ...]
"""What a tile depends on besides its points."""

GradientList: TypeAlias = list[Tensor | None]
"""One gradient for each of several tensors; None where nobody needs one."""

Gradients: TypeAlias = tuple[GradientList, GradientList, GradientList]
"""Gradients of a, of b and of the tile parameters."""

Pullback: TypeAlias = Callable[[Tensor, Sequence[bool]], Gradients]
"""From the gradient of a tile, and which embedded tensors need one, to all gradients."""

TileAndPullback: TypeAlias = tuple[Tensor, Pullback]

_Sums: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""Block sums of two groups, the row sums of the one and those of the other."""

_Place: TypeAlias = tuple[slice, slice]
"""Rows and columns of a tile in the kernel matrix."""

_PlacedTile: TypeAlias = tuple[slice, slice, Tensor]
_PlacedPullback: TypeAlias = tuple[slice, slice, Tensor, Pullback]

# A float32 tile of 512 x 512 is 1 MiB: the handful alive at once stays in a core's cache.
_CACHE_ROWS = 512
# At most so many tile-sized buffers exist at any moment, in the backward pass of a deep kernel.
_TILES_ALIVE = 12
# Comparing fewer points takes about a second: too short for a bar.
_NOTICEABLE_POINTS = 10_000
# So many kernel values, or fewer, are kept for the backward pass instead of computed again.
_KEPT_VALUES = 2**21
# Block sums are made of pairs of so many groups of strips, or of more groups where one would have
# more strips than this: about a second of work for a pair of groups, on 2 x 16384 points.
_GROUPS = 32
_GROUP_STRIPS = 32


class TiledKernel(Protocol):
    """What the products ask of a kernel."""

    def embed(self, points: Tensor) -> Embedded: ...
    def centred(self, z: Embedded) -> Embedded: ...
    def features(self, z: Embedded) -> Tensor | None: ...
    def tile(self, a: Embedded, b: Embedded) -> Tensor: ...
    def sides(self, z: Embedded) -> Sides: ...
    def cross(self, left: Embedded, right: Embedded) -> Tensor: ...
    def tile_and_pullback(self, a: Embedded, b: Embedded) -> TileAndPullback: ...
    def tile_parameters(self) -> Parameters: ...


def accumulator(device: torch.device) -> torch.dtype:
    """The dtype in which sums are kept: float64 wherever the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


def _zeros(shape: Sequence[int], device: torch.device) -> Tensor:
    """Where sums are added up."""
    return torch.zeros(shape, dtype=accumulator(device), device=device)


def tile_rows(memory: int, itemsize: int) -> int:
    """The side of square tiles within `memory` bytes, and no larger than a cache holds."""
    values = max(0, memory) // (_TILES_ALIVE * itemsize)
    side = min(_CACHE_ROWS, math.isqrt(values))
    return max(1, side)


@functools.cache
def _keep_freed_memory() -> None:
    """Let the C library keep the memory of freed tiles for the next ones, once in a process.

    glibc hands a freed block of this size back to the system until it has seen a larger one freed,
    and fetching its pages again costs several times the arithmetic of a tile. Elsewhere this is an
    allocation and nothing more.
    """
    torch.empty(31 * 2**20, dtype=torch.uint8)


def embedded(kernel: TiledKernel, points: Points) -> Embedded:
    """`points` as `kernel.tile` sees them; a tuple is taken as embedded already."""
    return points if isinstance(points, tuple) else kernel.embed(points)


def rows_of(z: Embedded, index: slice | Tensor) -> Embedded:
    """Some of the embedded points."""
    return tuple(part[index] for part in z)


# Row sums.


def row_sums(
    kernel: TiledKernel,
    points: Points,
    weights: Tensor,
    *,
    memory: int = DEFAULT_MEMORY,
) -> Tensor:
    """K @ weights for the kernel matrix K of all pairs of `points`, differentiable, without K.

    Parameters
    ----------
    kernel
        The kernel; K is taken to be symmetric.
    points
        (N, ...) points, or what `kernel.embed` made of them (so that one run of the network serves
        several products).
    weights
        (N,) or (N, c).
    memory
        Bytes that the tiles may take.

    Returns
    -------
    Tensor
        (N,) or (N, c), in float64. Gradients reach the embedded points, the kernel's parameters and
        the weights; the backward pass computes the tiles again instead of keeping them.
    """
    _keep_freed_memory()
    z = kernel.centred(embedded(kernel, points))
    vectors = kernel.features(z)
    if vectors is not None:
        v = vectors.to(accumulator(vectors.device))
        # K = v v': from the right, no product has more than N p values.
        return v @ (v.T @ weights.to(v))
    inputs = (*z, *kernel.tile_parameters())
    itemsize = z[0].element_size()
    trained = torch.is_grad_enabled() and any(t.requires_grad for t in inputs)
    values = len(weights) ** 2 / 2  # the tiles on and above the diagonal
    room = min(_KEPT_VALUES, memory / (_TILES_ALIVE * itemsize))
    plan = _Plan(
        kernel,
        rows=tile_rows(memory, itemsize),
        keep=trained and values <= room,
        parts=len(z),
    )
    one_column = weights.ndim == 1
    columns = weights[:, None] if one_column else weights  # (N, c)
    sums: Tensor = _RowSums.apply(plan, columns, *inputs)  # type: ignore[no-untyped-call]
    return sums[:, 0] if one_column else sums


class _Plan(NamedTuple):
    """How row sums are made."""

    kernel: TiledKernel
    rows: int  # the side of a tile
    keep: bool  # whether tiles wait for the backward pass, or are computed again
    parts: int  # how many of the tensors that follow are embedded points


class _RowSums(torch.autograd.Function):
    """K @ weights; the backward pass pulls the gradient back tile by tile."""

    @staticmethod
    def forward(ctx: Any, plan: _Plan, weights: Tensor, *tensors: Tensor) -> Tensor:
        z = tensors[: plan.parts]
        dtype = z[0].dtype
        ctx.plan = plan
        ctx.tiles = None
        ctx.save_for_backward(weights, *tensors)
        if not plan.keep:
            return _multiply(_tiles(plan.kernel, z, plan.rows), weights, dtype)
        kept = list(_tiles_and_pullbacks(plan.kernel, z, plan.rows))
        ctx.tiles = kept
        tiles = [(i, j, tile) for i, j, tile, _ in kept]
        return _multiply(tiles, weights, dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        plan: _Plan = ctx.plan
        weights, *tensors = ctx.saved_tensors
        z = tuple(tensors[: plan.parts])
        _, needs_weights, *needs = ctx.needs_input_grad
        grad_weights = None
        if needs_weights:
            tiles = _tiles(plan.kernel, z, plan.rows)
            grad_weights = _multiply(tiles, grad, z[0].dtype).to(weights.dtype)
        gradients: GradientList = [None] * len(tensors)
        if any(needs):
            tiles_and_pullbacks = ctx.tiles or _tiles_and_pullbacks(plan.kernel, z, plan.rows)
            needs_of_points = needs[: plan.parts]
            gradients = _pull_back(tiles_and_pullbacks, grad, weights, tensors, needs_of_points)
        # One answer for each argument of `forward`; the plan has no gradient.
        return None, grad_weights, *gradients


def _pull_back(
    tiles: Iterable[_PlacedPullback],
    grad: Tensor,
    weights: Tensor,
    tensors: Sequence[Tensor],
    needs: Sequence[bool],
) -> GradientList:
    """The gradients of embedded points, of which `needs` says which are needed, and parameters."""
    parts = len(needs)
    dtype = tensors[0].dtype
    # Gradients of J can be very small numbers: they are scaled up before the cast, so that float32
    # tiles do not lose them.
    tiny = torch.finfo(accumulator(grad.device)).tiny
    size = grad.abs().amax().clamp_min(tiny)
    g = (grad / size).to(dtype)  # (N, c)
    w = weights.to(dtype)  # (N, c)
    sums: GradientList = []
    for number, tensor in enumerate(tensors):
        # Parameters always get a sum: they are few, and so are their gradients.
        wanted = number >= parts or needs[number]
        sums.append(_zeros(tensor.shape, tensor.device) if wanted else None)
    sums_of_points = sums[:parts]
    sums_of_parameters = sums[parts:]
    for i, j, _, pullback in tiles:
        # dJ/dK = g w^T; a tile above the diagonal also stands for its mirror image.
        left = g[i]
        right = w[j]
        if i != j:
            left = torch.cat([left, w[i]], 1)
            right = torch.cat([right, g[j]], 1)
        grad_of_tile = left @ right.T
        into_i, into_j, into_parameters = pullback(grad_of_tile, needs)
        for of_points, at_i, at_j in zip(sums_of_points, into_i, into_j, strict=True):
            if of_points is not None and at_i is not None and at_j is not None:
                of_points[i] += at_i
                of_points[j] += at_j
        for of_parameter, at_tile in zip(sums_of_parameters, into_parameters, strict=True):
            if of_parameter is not None and at_tile is not None:
                of_parameter += at_tile
    gradients: GradientList = []
    for tensor, scaled in zip(tensors, sums, strict=True):
        gradients.append(None if scaled is None else (scaled * size).to(tensor.dtype))
    return gradients


def _multiply(
    tiles: Iterable[_PlacedTile],
    weights: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    """K @ weights from the tiles on and above the diagonal of K."""
    # Transposed: BLAS is several times faster at (few rows) x tile than at tile x (few columns).
    w = weights.T.to(dtype).contiguous()  # (c, N)
    sums = _zeros(w.shape, w.device)
    for i, j, tile in tiles:
        sums[:, i] += w[:, j] @ tile.T
        if i != j:
            sums[:, j] += w[:, i] @ tile
    return sums.T


def _tiles(
    kernel: TiledKernel,
    z: Embedded,
    rows: int,
) -> Iterator[_PlacedTile]:
    left, right = kernel.sides(z)
    for i, j in _upper_tiles(len(z[0]), rows):
        left_i = rows_of(left, i)
        right_j = rows_of(right, j)
        yield i, j, kernel.cross(left_i, right_j)


def _tiles_and_pullbacks(
    kernel: TiledKernel,
    z: Embedded,
    rows: int,
) -> Iterator[_PlacedPullback]:
    for i, j in _upper_tiles(len(z[0]), rows):
        z_i = rows_of(z, i)
        z_j = rows_of(z, j)
        tile, pullback = kernel.tile_and_pullback(z_i, z_j)
        yield i, j, tile, pullback


def _upper_tiles(count: int, rows: int) -> Iterator[_Place]:
    """Slices of the tiles on and above the diagonal of a `count` x `count` matrix."""
    edges = []
    for start in range(0, count, rows):
        end = min(start + rows, count)
        edges.append(slice(start, end))
    for k, i in enumerate(edges):
        for j in edges[k:]:
            yield i, j


# Block sums.


@dataclass(frozen=True)
class _Strip:
    """Points of `len(bins)` bins, `size` of each, interleaved.

    Point t of bin u stands at t * len(bins) + u. So the sum within bins is a sum of `size`
    contiguous pieces, which is quick, whatever the size of the bins.
    """

    points: Tensor  # (size * len(bins),) indices
    bins: Tensor  # (s,)
    size: int


class _Members(NamedTuple):
    """The strips of one group, and the points and bins that they have together."""

    strips: Sequence[_Strip]
    points: Tensor  # (points,) indices, strip after strip
    bins: Tensor  # (S',) sorted


class _StripInGroup(NamedTuple):
    """Where a strip stands in its group."""

    rows: slice
    bins: Tensor  # (s,) as numbered within the group
    size: int  # of each bin


@dataclass(frozen=True)
class _Group:
    """Embedded points of several strips, strip after strip: all that comparing them needs."""

    z: Embedded
    weights: Tensor  # (c, points)
    strips: list[_StripInGroup]
    bins: int  # how many


def block_sums(
    kernel: TiledKernel,
    points: Points,
    bins: Tensor,
    *,
    diagonal: bool = True,
    memory: int = DEFAULT_MEMORY,
) -> Tensor:
    """Sums of the kernel matrix K over all pairs of bins of points, without K and without gradient.

    Parameters
    ----------
    kernel, points, memory
        As in `row_sums`.
    bins
        (N,) whole numbers 0 ... S - 1: the bin of each point. Bins of one point give the Gram
        matrix itself.
    diagonal
        Whether the terms k(z_i, z_i) count.

    Returns
    -------
    Tensor
        (S, S), in float64.
    """
    nothing = torch.zeros(len(bins), 0)
    resources = Resources(memory=memory)
    blocks, _ = block_and_row_sums(
        kernel, points, bins, nothing, diagonal=diagonal, resources=resources
    )
    return blocks


def block_and_row_sums(
    kernel: TiledKernel,
    points: Points,
    bins: Tensor,
    weights: Tensor,
    *,
    diagonal: bool = True,
    resources: Resources = Resources(),
) -> tuple[Tensor, Tensor]:
    """`block_sums`, and on the way K @ weights: (S, S) and (N, c), in float64, without gradient.

    The workers of `resources` compare the points. The result is the same to the bit wherever the
    tiles are: on processors of one kind, with one thread (a matrix product rounds as its threads
    share it). The bar is left out where the work is short, unless the caller insists on it.
    """
    _keep_freed_memory()
    progress = resources.progress
    if progress is None and len(bins) < _NOTICEABLE_POINTS:
        progress = False
    with torch.no_grad():
        z = kernel.centred(embedded(kernel, points))
        device = z[0].device
        bins = bins.to(device)
        count = int(bins.max()) + 1 if len(bins) else 0
        vectors = kernel.features(z)
        if vectors is not None:
            total = accumulator(device)
            weights = weights.to(device, total)
            return _sums_of_features(vectors.to(total), bins, count, weights, diagonal)
        rows = tile_rows(resources.memory, z[0].element_size())
        groups = _in_groups(_strips(bins, count, rows))
        w = weights.T.to(device=device, dtype=z[0].dtype).contiguous()  # (c, N)
        compared = _compared(kernel, z, w, groups, diagonal, resources.workers)
        block_total = _zeros((count, count), device)
        row_total = _zeros(w.shape, device)
        pairs = list(itertools.combinations_with_replacement(groups, 2))
        with bar("comparing rows", len(pairs), progress) as tick:
            for (a, b), (blocks, rows_a, rows_b) in zip(pairs, compared, strict=True):
                blocks = blocks.to(device)
                place = (a.bins[:, None], b.bins[None, :])
                block_total.index_put_(place, blocks, accumulate=True)
                row_total[:, a.points] += rows_a.to(device)
                if a is not b:
                    mirrored = (b.bins[:, None], a.bins[None, :])
                    block_total.index_put_(mirrored, blocks.T, accumulate=True)
                    row_total[:, b.points] += rows_b.to(device)
                tick("")
        return block_total, row_total.T


def _in_groups(strips: Sequence[_Strip]) -> list[_Members]:
    """Groups of neighbouring strips.

    Who does the work has no say in how it is cut, nor in the order in which the pieces are added
    up: so it does not change a bit of the result.
    """
    share = math.ceil(len(strips) / _GROUPS)
    each = min(_GROUP_STRIPS, max(2, share))
    groups = []
    for start in range(0, len(strips), each):
        chosen = strips[start : start + each]
        points = torch.cat([strip.points for strip in chosen])
        bins = torch.cat([strip.bins for strip in chosen])
        # A bin that was cut stands in several strips.
        groups.append(_Members(chosen, points, torch.unique(bins)))
    return groups


def _compared(
    kernel: TiledKernel,
    z: Embedded,
    weights: Tensor,
    groups: Sequence[_Members],
    diagonal: bool,
    team: Workers,
) -> Iterator[_Sums]:
    """What `_compare` finds for each group with itself and with those after it, in this order."""
    shared_kernel = team.share(kernel)

    # In this process, keep no more groups than are compared at a time.
    @functools.lru_cache(maxsize=2 if team is HERE else None)
    def group(k: int) -> Any:
        members = groups[k]
        z_of_group = rows_of(z, members.points)
        weights_of_group = weights[:, members.points]
        return team.share(_group(members, z_of_group, weights_of_group))

    def work() -> Iterator[tuple[Any, ...]]:
        numbers = range(len(groups))
        for a, b in itertools.combinations_with_replacement(numbers, 2):
            one = group(a)
            other = None if a == b else group(b)
            yield shared_kernel, one, other, diagonal

    return team.map(_compare, work())


def _group(members: _Members, z: Embedded, weights: Tensor) -> _Group:
    """The strips as they stand in `z`, the embedded points of this group."""
    strips = []
    start = 0
    for strip in members.strips:
        end = start + len(strip.points)
        rows = slice(start, end)
        numbers = torch.searchsorted(members.bins, strip.bins)  # the group's bins are sorted
        strips.append(_StripInGroup(rows, numbers, strip.size))
        start = end
    return _Group(z, weights, strips, len(members.bins))


def _compare(
    kernel: TiledKernel,
    a: _Group,
    b: _Group | None,
    diagonal: bool,
) -> _Sums:
    """Block sums between the bins of two groups, and what each adds to the row sums of the other.

    None for `b` is `a` itself. Within one group, and only there, both sides of the diagonal are in
    the block sums, and all row sums in the first.
    """
    _keep_freed_memory()
    other = a if b is None else b
    weights_a = a.weights
    weights_b = other.weights
    device = weights_a.device
    total = accumulator(device)
    blocks = _zeros((a.bins, other.bins), device)
    rows_a = _zeros(weights_a.shape, device)
    rows_b = rows_a if b is None else _zeros(weights_b.shape, device)
    with torch.no_grad():
        left, right = kernel.sides(a.z)
        if b is not None:
            _, right = kernel.sides(b.z)
        for k, (i, bins_i, size_i) in enumerate(a.strips):
            left_i = rows_of(left, i)
            # Within one group, the strips before this one have met it already.
            partners = a.strips[k:] if b is None else b.strips
            for j, bins_j, size_j in partners:
                right_j = rows_of(right, j)
                tile = kernel.cross(left_i, right_j)
                itself = b is None and i == j
                if itself and not diagonal:
                    tile.fill_diagonal_(0)
                interleaved = tile.reshape(size_i, len(bins_i), size_j, len(bins_j))
                block = interleaved.sum(0).sum(1, dtype=total)
                blocks[bins_i[:, None], bins_j] += block  # no bin is in a strip twice
                rows_a[:, i] += weights_b[:, j] @ tile.T
                if not itself:
                    rows_b[:, j] += weights_a[:, i] @ tile
                    if b is None:
                        blocks[bins_j[:, None], bins_i] += block.T
    return blocks, rows_a, rows_b


def _sums_of_features(
    v: Tensor,
    bins: Tensor,
    count: int,
    weights: Tensor,
    diagonal: bool,
) -> tuple[Tensor, Tensor]:
    """Block sums and row sums of v v^T for (N, p) features v, in a time linear in N."""
    bin_sums = v.new_zeros(count, v.shape[1])
    bin_sums.index_add_(0, bins, v)
    blocks = bin_sums @ bin_sums.T
    rows = v @ (v.T @ weights)
    if not diagonal:
        own = v.square().sum(1)  # (N,) k(z_i, z_i)
        blocks.diagonal().index_add_(0, bins, own, alpha=-1)
        rows = rows - own[:, None] * weights
    return blocks, rows


def _strips(bins: Tensor, count: int, rows: int) -> list[_Strip]:
    """Cut the points into strips of at most `rows` points, each of bins of one size.

    A bin of more points than that is cut into several strips.
    """
    sizes = torch.bincount(bins, minlength=count)
    order = torch.argsort(bins, stable=True)
    starts = torch.cumsum(sizes, 0) - sizes
    strips: list[_Strip] = []
    sizes_in_use = set(sizes.tolist()) - {0}
    for size in sorted(sizes_in_use):
        bins_of_size = torch.nonzero(sizes == size)[:, 0]
        per_strip = max(1, rows // size)
        for chosen in torch.split(bins_of_size, per_strip):
            first = starts[chosen]  # (s,)
            for offset in range(0, size, rows):
                end = min(offset + rows, size)
                piece = torch.arange(offset, end, device=bins.device)
                points = order[first[None, :] + piece[:, None]]  # (piece, s)
                strips.append(_Strip(points.reshape(-1), chosen, len(piece)))
    return strips


def cross_sums(
    kernel: TiledKernel,
    a: Embedded,
    b: Embedded,
    weights: Tensor,
    *,
    memory: int = DEFAULT_MEMORY,
) -> Tensor:
    """K(a, b) @ weights, tile by tile, for embedded points that were centred together."""
    count = len(a[0])
    rows = tile_rows(memory, a[0].element_size())
    sums = weights.new_zeros(count)
    for i in range(0, count, rows):
        here = slice(i, i + rows)
        a_here = rows_of(a, here)
        for j in range(0, len(weights), rows):
            there = slice(j, j + rows)
            b_there = rows_of(b, there)
            tile = kernel.tile(a_here, b_there)
            sums[here] += tile.to(weights.dtype) @ weights[there]
    return sums


# Moments.


def moments(
    kernel: TiledKernel,
    points: Points,
    bins: Tensor,
    *,
    memory: int = DEFAULT_MEMORY,
) -> tuple[Tensor, Tensor]:
    """Sums of the kernel matrix K and of its squared entries, off its diagonal and without K.

    There is no gradient. This is all that unbiased estimates of the variance of an MMD need: a sum
    of products over *distinct* points is a sum of products of row sums, less the squared entries
    that it counts twice.

    Parameters
    ----------
    kernel, points, memory
        As in `row_sums`.
    bins
        (N,) whole numbers 0 ... S - 1: the bin of each point; few of them.

    Returns
    -------
    tuple
        (N, S): for each point the sum of its kernel values with the *other* points of each bin; and
        (S, S): the sum of the squared values over pairs of different points. In float64.
    """
    _keep_freed_memory()
    with torch.no_grad():
        z = kernel.centred(embedded(kernel, points))
        device = z[0].device
        total = accumulator(device)
        member = torch.nn.functional.one_hot(bins.to(device)).to(total)  # (N, S)
        vectors = kernel.features(z)
        if vectors is not None and vectors.shape[1] <= _CACHE_ROWS:
            return _moments_of_features(vectors.to(total), member)
        sums = torch.zeros_like(member)  # (N, S)
        count = member.shape[1]
        squares = member.new_zeros(count, count)
        # A tile is taken to float64 before anything is added up: the variance is what is left of
        # large sums when others are subtracted. So it counts as three.
        rows = tile_rows(memory, 3 * z[0].element_size())
        for i, j, tile in _tiles(kernel, z, rows):
            on_diagonal = i == j
            member_i = member[i]
            member_j = member[j]
            values = tile.to(total)
            if on_diagonal:
                values.fill_diagonal_(0)
            sums[i] += values @ member_j
            if not on_diagonal:
                sums[j] += values.T @ member_i
            square = member_i.T @ values.square_() @ member_j
            squares += square if on_diagonal else square + square.T
        return sums, squares


def _moments_of_features(v: Tensor, member: Tensor) -> tuple[Tensor, Tensor]:
    """`moments` of v v^T for (N, p) features v, in a time linear in N.

    The sum of the squared entries between two bins is the inner product of their p x p scatters.
    """
    own = v.square().sum(1)  # (N,) k(z_i, z_i), which moments leave out
    with_own = v @ (v.T @ member)
    sums = with_own - own[:, None] * member
    scatters = []
    for column in member.T:
        of_bin = v * column[:, None]
        scatters.append(of_bin.T @ v)
    scatter = torch.stack(scatters).flatten(1)  # (S, p p)
    own_squares = member.T @ own.square()  # (S,)
    squares = scatter @ scatter.T - torch.diag(own_squares)
    return sums, squares


def paired_moments(
    kernel: TiledKernel,
    x: Points,
    y: Points,
    *,
    memory: int = DEFAULT_MEMORY,
) -> tuple[Tensor, Tensor]:
    """(n,) row sums and the sum of squares of H_ij, i != j.

    H_ij = k(X_i, X_j) + k(Y_i, Y_j) - k(X_i, Y_j) - k(X_j, Y_i) is itself a kernel, on the pairs
    (X_i, Y_i): its tiles are made of four of `kernel`. For samples of one size.
    """
    with torch.no_grad():
        a = embedded(kernel, x)
        b = embedded(kernel, y)
        n = len(a[0])
        pooled = tuple(torch.cat(parts) for parts in zip(a, b, strict=True))
        centred = kernel.centred(pooled)
        x_part = rows_of(centred, slice(0, n))
        y_part = rows_of(centred, slice(n, 2 * n))
        one_bin = torch.zeros(n, dtype=torch.int64)
        # Five tiles live at once where a kernel alone has one.
        share = max(1, memory // 5)
        sums, squares = moments(_OnPairs(kernel), x_part + y_part, one_bin, memory=share)
        return sums[:, 0], squares[0, 0]


class _OnPairs:
    """H as a kernel on pairs; `z` holds the embedded points of X, then those of Y, both centred."""

    def __init__(self, kernel: TiledKernel) -> None:
        self.kernel = kernel

    def embed(self, points: Tensor) -> Embedded:
        raise NotImplementedError("pairs come embedded")

    def centred(self, z: Embedded) -> Embedded:
        return z

    def features(self, z: Embedded) -> Tensor | None:
        x, y = _halves(z)
        u = self.kernel.features(x)
        v = self.kernel.features(y)
        return None if u is None or v is None else u - v

    def tile(self, a: Embedded, b: Embedded) -> Tensor:
        k = self.kernel.tile
        x, y = _halves(a)
        u, v = _halves(b)
        tile = k(x, u) + k(y, v)
        tile.sub_(k(x, v))
        return tile.sub_(k(y, u))

    def sides(self, z: Embedded) -> Sides:
        return z, z

    def cross(self, left: Embedded, right: Embedded) -> Tensor:
        return self.tile(left, right)

    def tile_and_pullback(self, a: Embedded, b: Embedded) -> TileAndPullback:
        raise NotImplementedError("moments have no gradient")

    def tile_parameters(self) -> Parameters:
        return self.kernel.tile_parameters()


def _halves(z: Embedded) -> tuple[Embedded, Embedded]:
    half = len(z) // 2
    return z[:half], z[half:]
