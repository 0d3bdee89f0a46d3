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
from ._resources import DEFAULT_MEMORY, HERE, Resources

Embedded: TypeAlias = tuple[Tensor, ...]
"""Points as `Kernel.tile` sees them: tensors of equal length, one row a point.

For a deep kernel they are the features and the raw columns.
"""

Gradients: TypeAlias = tuple[list[Tensor | None], list[Tensor | None], list[Tensor | None]]
"""Gradients of a, of b and of the tile parameters; None where nobody needs one."""

Pullback: TypeAlias = Callable[[Tensor, Sequence[bool]], Gradients]
"""From the gradient of a tile, and which embedded tensors need one, to all gradients."""

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
    def sides(self, z: Embedded) -> tuple[Embedded, Embedded]: ...
    def cross(self, left: Embedded, right: Embedded) -> Tensor: ...
    def tile_and_pullback(self, a: Embedded, b: Embedded) -> tuple[Tensor, Pullback]: ...
    def tile_parameters(self) -> tuple[Tensor, ...]: ...


def accumulator(device: torch.device) -> torch.dtype:
    """The dtype in which sums are kept: float64 wherever the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


def tile_rows(memory: int, itemsize: int) -> int:
    """The side of square tiles within `memory` bytes, and no larger than a cache holds."""
    values = max(0, memory) // (_TILES_ALIVE * itemsize)
    return max(1, min(_CACHE_ROWS, math.isqrt(values)))


@functools.cache
def _keep_freed_memory() -> None:
    """Let the C library keep the memory of freed tiles for the next ones, once in a process.

    glibc hands a freed block of this size back to the system until it has seen a larger one freed,
    and fetching its pages again costs several times the arithmetic of a tile. Elsewhere this is an
    allocation and nothing more.
    """
    torch.empty(31 * 2**20, dtype=torch.uint8)


def embedded(kernel: TiledKernel, points: Tensor | Embedded) -> Embedded:
    """`points` as `kernel.tile` sees them; a tuple is taken as embedded already."""
    return points if isinstance(points, tuple) else kernel.embed(points)


# Row sums.


def row_sums(
    kernel: TiledKernel, points: Tensor | Embedded, weights: Tensor, *, memory: int = DEFAULT_MEMORY
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
        return v @ (v.T @ weights.to(v))
    parameters = kernel.tile_parameters()
    itemsize = z[0].element_size()
    trained = torch.is_grad_enabled() and any(t.requires_grad for t in (*z, *parameters))
    values = len(weights) ** 2 / 2  # the tiles on and above the diagonal
    keep = trained and values <= min(_KEPT_VALUES, memory / (_TILES_ALIVE * itemsize))
    plan = _Plan(kernel, tile_rows(memory, itemsize), keep, len(z))
    columns = weights if weights.ndim == 2 else weights[:, None]
    sums: Tensor = _RowSums.apply(plan, columns, *z, *parameters)  # type: ignore[no-untyped-call]
    return sums if weights.ndim == 2 else sums[:, 0]


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
        ctx.plan = plan
        ctx.tiles = None
        ctx.save_for_backward(weights, *tensors)
        if not plan.keep:
            return _multiply(_tiles(plan.kernel, z, plan.rows), weights, z[0].dtype)
        ctx.tiles = list(_tiles_and_pullbacks(plan.kernel, z, plan.rows))
        return _multiply(((i, j, tile) for i, j, tile, _ in ctx.tiles), weights, z[0].dtype)

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
        if not any(needs):
            return None, grad_weights, *([None] * len(tensors))
        tiles_and_pullbacks = ctx.tiles or _tiles_and_pullbacks(plan.kernel, z, plan.rows)
        gradients = _pull_back(tiles_and_pullbacks, grad, weights, tensors, needs[: plan.parts])
        return None, grad_weights, *gradients


def _pull_back(
    tiles: Iterable[tuple[slice, slice, Tensor, Pullback]],
    grad: Tensor,
    weights: Tensor,
    tensors: Sequence[Tensor],
    needs: Sequence[bool],
) -> list[Tensor | None]:
    """The gradients of embedded points, of which `needs` says which are needed, and parameters."""
    parts = len(needs)
    dtype = tensors[0].dtype
    total = accumulator(grad.device)
    # Gradients of J can be very small numbers: they are scaled up before the cast, so that float32
    # tiles do not lose them.
    size = grad.abs().amax().clamp_min(torch.finfo(total).tiny)
    g = (grad / size).to(dtype)
    w = weights.to(dtype)
    wanted = [*needs, *[True] * (len(tensors) - parts)]
    sums = [
        torch.zeros(tensor.shape, dtype=total, device=tensor.device) if want else None
        for tensor, want in zip(tensors, wanted, strict=True)
    ]
    for i, j, _, pullback in tiles:
        # dJ/dK = g w^T; a tile above the diagonal also stands for its mirror image.
        if i == j:
            outer = g[i] @ w[j].T
        else:
            outer = torch.cat([g[i], w[i]], 1) @ torch.cat([w[j], g[j]], 1).T
        into_i, into_j, into_parameters = pullback(outer, needs)
        for of_points, at_i, at_j in zip(sums[:parts], into_i, into_j, strict=True):
            if of_points is not None and at_i is not None and at_j is not None:
                of_points[i] += at_i
                of_points[j] += at_j
        for of_parameter, part in zip(sums[parts:], into_parameters, strict=True):
            if of_parameter is not None and part is not None:
                of_parameter += part
    return [
        None if tensor_sum is None else (tensor_sum * size).to(tensor.dtype)
        for tensor_sum, tensor in zip(sums, tensors, strict=True)
    ]


def _multiply(
    tiles: Iterable[tuple[slice, slice, Tensor]], weights: Tensor, dtype: torch.dtype
) -> Tensor:
    """K @ weights from the tiles on and above the diagonal of K."""
    # Transposed: BLAS is several times faster at (few rows) x tile than at tile x (few columns).
    w = weights.T.to(dtype).contiguous()  # (c, N)
    sums = torch.zeros(w.shape, dtype=accumulator(w.device), device=w.device)
    for i, j, tile in tiles:
        sums[:, i] += w[:, j] @ tile.T
        if i != j:
            sums[:, j] += w[:, i] @ tile
    return sums.T


def _tiles(kernel: TiledKernel, z: Embedded, rows: int) -> Iterator[tuple[slice, slice, Tensor]]:
    left, right = kernel.sides(z)
    for i, j in _upper_tiles(len(z[0]), rows):
        yield i, j, kernel.cross(_rows(left, i), _rows(right, j))


def _tiles_and_pullbacks(
    kernel: TiledKernel, z: Embedded, rows: int
) -> Iterator[tuple[slice, slice, Tensor, Pullback]]:
    for i, j in _upper_tiles(len(z[0]), rows):
        yield i, j, *kernel.tile_and_pullback(_rows(z, i), _rows(z, j))


def _upper_tiles(count: int, rows: int) -> Iterator[tuple[slice, slice]]:
    """Slices of the tiles on and above the diagonal of a `count` x `count` matrix."""
    edges = [slice(start, min(start + rows, count)) for start in range(0, count, rows)]
    for k, i in enumerate(edges):
        for j in edges[k:]:
            yield i, j


def _rows(z: Embedded, index: slice | Tensor) -> Embedded:
    return tuple(part[index] for part in z)


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


class _Place(NamedTuple):
    """Where a strip stands in its group."""

    rows: slice
    bins: Tensor  # (s,) as numbered within the group
    size: int  # of each bin


@dataclass(frozen=True)
class _Group:
    """Embedded points of several strips, strip after strip: all that comparing them needs."""

    z: Embedded
    weights: Tensor  # (c, points)
    strips: list[_Place]
    bins: int  # how many


def block_sums(
    kernel: TiledKernel,
    points: Tensor | Embedded,
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
    points: Tensor | Embedded,
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
        total = accumulator(device)
        bins = bins.to(device)
        count = int(bins.max()) + 1 if len(bins) else 0
        vectors = kernel.features(z)
        if vectors is not None:
            weights = weights.to(device, total)
            return _sums_of_features(vectors.to(total), bins, count, weights, diagonal)
        strips = _strips(bins, count, tile_rows(resources.memory, z[0].element_size()))
        # Who does the work has no say in how it is cut, nor in the order in which the pieces are
        # added up below: so it does not change a bit of the result.
        each = min(_GROUP_STRIPS, max(2, -(-len(strips) // _GROUPS)))
        members = [strips[k : k + each] for k in range(0, len(strips), each)]
        points_of = [torch.cat([strip.points for strip in group]) for group in members]
        bins_of = [torch.unique(torch.cat([strip.bins for strip in group])) for group in members]
        w = weights.T.to(device=device, dtype=z[0].dtype).contiguous()  # (c, N)
        team = resources.workers
        shared_kernel = team.share(kernel)

        # In this process, keep no more groups than are compared at a time.
        @functools.lru_cache(maxsize=2 if team is HERE else None)
        def group(k: int) -> Any:
            chosen = points_of[k]
            return team.share(_group(members[k], _rows(z, chosen), w[:, chosen], bins_of[k]))

        def work(a: int, b: int) -> tuple[Any, ...]:
            return shared_kernel, group(a), None if a == b else group(b), diagonal

        pairs = list(itertools.combinations_with_replacement(range(len(members)), 2))
        compared = team.map(_compare, (work(a, b) for a, b in pairs))
        blocks = torch.zeros((count, count), dtype=total, device=device)
        rows = torch.zeros(w.shape, dtype=total, device=device)
        with bar("comparing", len(pairs), progress) as tick:
            for (a, b), (block, of_a, of_b) in zip(pairs, compared, strict=True):
                block = block.to(device)
                place = (bins_of[a][:, None], bins_of[b][None, :])
                blocks.index_put_(place, block, accumulate=True)
                rows[:, points_of[a]] += of_a.to(device)
                if a != b:
                    mirrored = (bins_of[b][:, None], bins_of[a][None, :])
                    blocks.index_put_(mirrored, block.T, accumulate=True)
                    rows[:, points_of[b]] += of_b.to(device)
                tick("")
        return blocks, rows.T


def _group(strips: Sequence[_Strip], z: Embedded, weights: Tensor, bins: Tensor) -> _Group:
    """The strips as they stand in `z`; their bins get the numbers of their places in `bins`."""
    places = []
    start = 0
    for strip in strips:
        end = start + len(strip.points)
        numbers = torch.searchsorted(bins, strip.bins)  # `bins` are sorted
        places.append(_Place(slice(start, end), numbers, strip.size))
        start = end
    return _Group(z, weights, places, len(bins))


def _compare(
    kernel: TiledKernel, a: _Group, b: _Group | None, diagonal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Block sums between the bins of two groups, and what each adds to the row sums of the other.

    None for `b` is `a` itself. Within one group, and only there, both sides of the diagonal are in
    the block sums, and all row sums in the first.
    """
    _keep_freed_memory()
    other = a if b is None else b
    device = a.weights.device
    total = accumulator(device)
    blocks = torch.zeros((a.bins, other.bins), dtype=total, device=device)
    of_a = torch.zeros(a.weights.shape, dtype=total, device=device)
    of_b = of_a if b is None else torch.zeros(other.weights.shape, dtype=total, device=device)
    with torch.no_grad():
        left, right = kernel.sides(a.z)
        if b is not None:
            _, right = kernel.sides(b.z)
        for k, (i, bins_i, size_i) in enumerate(a.strips):
            # Within one group, the strips before this one have met it already.
            partners = a.strips[k:] if b is None else b.strips
            for j, bins_j, size_j in partners:
                tile = kernel.cross(_rows(left, i), _rows(right, j))
                itself = b is None and i == j
                if itself and not diagonal:
                    tile.fill_diagonal_(0)
                interleaved = tile.reshape(size_i, len(bins_i), size_j, len(bins_j))
                block = interleaved.sum(0).sum(1, dtype=total)
                blocks[bins_i[:, None], bins_j] += block  # no bin is in a strip twice
                of_a[:, i] += other.weights[:, j] @ tile.T
                if not itself:
                    of_b[:, j] += a.weights[:, i] @ tile
                    if b is None:
                        blocks[bins_j[:, None], bins_i] += block.T
    return blocks, of_a, of_b


def _sums_of_features(
    v: Tensor, bins: Tensor, count: int, weights: Tensor, diagonal: bool
) -> tuple[Tensor, Tensor]:
    """Block sums and row sums of v v^T for (N, p) features v, in a time linear in N."""
    totals = torch.zeros(count, v.shape[1], dtype=v.dtype, device=v.device)
    totals.index_add_(0, bins, v)
    blocks = totals @ totals.T
    rows = v @ (v.T @ weights)
    if not diagonal:
        own = v.square().sum(1)
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
    for size in sorted(set(sizes.tolist()) - {0}):
        members = torch.nonzero(sizes == size)[:, 0]
        per_strip = max(1, rows // size)
        for group in torch.split(members, per_strip):
            for offset in range(0, size, rows):
                piece = torch.arange(offset, min(offset + rows, size), device=bins.device)
                points = order[starts[group][None, :] + piece[:, None]]  # (piece, bins)
                strips.append(_Strip(points.reshape(-1), group, len(piece)))
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
    rows = tile_rows(memory, a[0].element_size())
    sums = torch.zeros(len(a[0]), dtype=weights.dtype, device=weights.device)
    for i in range(0, len(a[0]), rows):
        here = slice(i, i + rows)
        for j in range(0, len(weights), rows):
            there = slice(j, j + rows)
            tile = kernel.tile(_rows(a, here), _rows(b, there)).to(weights.dtype)
            sums[here] += tile @ weights[there]
    return sums


# Moments.


def moments(
    kernel: TiledKernel,
    points: Tensor | Embedded,
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
        sums = torch.zeros_like(member)
        squares = member.new_zeros(member.shape[1], member.shape[1])
        # A tile is taken to float64 before anything is added up: the variance is what is left of
        # large sums when others are subtracted. So it counts as three.
        rows = tile_rows(memory, 3 * z[0].element_size())
        for i, j, tile in _tiles(kernel, z, rows):
            values = tile.to(total)
            if i == j:
                values.fill_diagonal_(0)
            sums[i] += values @ member[j]
            if i != j:
                sums[j] += values.T @ member[i]
            square = member[i].T @ values.square_() @ member[j]
            squares += square if i == j else square + square.T
        return sums, squares


def _moments_of_features(v: Tensor, member: Tensor) -> tuple[Tensor, Tensor]:
    """`moments` of v v^T for (N, p) features v, in a time linear in N.

    The sum of the squared entries between two bins is the inner product of their p x p scatters.
    """
    own = v.square().sum(1)
    sums = v @ (v.T @ member) - own[:, None] * member
    scatters = [(v * column[:, None]).T @ v for column in member.T]
    scatter = torch.stack(scatters).flatten(1)  # (S, p p)
    return sums, scatter @ scatter.T - torch.diag(member.T @ own.square())


def paired_moments(
    kernel: TiledKernel, x: Tensor | Embedded, y: Tensor | Embedded, *, memory: int = DEFAULT_MEMORY
) -> tuple[Tensor, Tensor]:
    """(n,) row sums and the sum of squares of H_ij, i != j.

    H_ij = k(X_i, X_j) + k(Y_i, Y_j) - k(X_i, Y_j) - k(X_j, Y_i) is itself a kernel, on the pairs
    (X_i, Y_i): its tiles are made of four of `kernel`. For samples of one size.
    """
    with torch.no_grad():
        a = embedded(kernel, x)
        b = embedded(kernel, y)
        n = len(a[0])
        both = kernel.centred(tuple(torch.cat(parts) for parts in zip(a, b, strict=True)))
        pairs = (*_rows(both, slice(0, n)), *_rows(both, slice(n, 2 * n)))
        one = torch.zeros(n, dtype=torch.int64)
        # Five tiles live at once where a kernel alone has one.
        sums, squares = moments(_OnPairs(kernel), pairs, one, memory=max(1, memory // 5))
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
        x, y = _halves(a)
        u, v = _halves(b)
        tile = self.kernel.tile(x, u) + self.kernel.tile(y, v)
        return tile.sub_(self.kernel.tile(x, v)).sub_(self.kernel.tile(y, u))

    def sides(self, z: Embedded) -> tuple[Embedded, Embedded]:
        return z, z

    def cross(self, left: Embedded, right: Embedded) -> Tensor:
        return self.tile(left, right)

    def tile_and_pullback(self, a: Embedded, b: Embedded) -> tuple[Tensor, Pullback]:
        raise NotImplementedError("moments have no gradient")

    def tile_parameters(self) -> tuple[Tensor, ...]:
        return self.kernel.tile_parameters()


def _halves(z: Embedded) -> tuple[Embedded, Embedded]:
    half = len(z) // 2
    return z[:half], z[half:]
