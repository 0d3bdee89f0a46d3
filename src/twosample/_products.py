"""The products everything rests on: `row_sums` and `block_sums` of a kernel matrix that nobody holds, and `moments`.

All walk over tiles of the pooled kernel matrix, use its symmetry (a tile above the diagonal serves
the one below it), and keep only sums, in float64. Memory grows with the number of points, never
with its square. A kernel takes part through

    kernel.embed(points)           the network, once                     -> a tuple of tensors, one row a point
    kernel.centred(z)              all of them moved to where it is precise
    kernel.features(z)             vectors whose inner products it is, or None: where they are few, tiles are not needed
    kernel.tile(a, b)              the kernel between embedded points    -> (len(a), len(b))
    kernel.sides(z)                embedded points as the left and as the right side of many tiles
    kernel.cross(left, right)      the tile between two sides
    kernel.tile_and_pullback(a, b) the same, and a function that turns the gradient of the tile into gradients
                                   of `a`, of `b` and of `kernel.tile_parameters()`

A kernel object comes in as an argument: this module imports none.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor

from ._progress import bar
from ._resources import DEFAULT_MEMORY, HERE, Resources

Embedded: TypeAlias = tuple[Tensor, ...]
"""Points as `Kernel.tile` sees them: tensors of equal length, for a deep kernel the features and the raw columns."""

Pullback: TypeAlias = Callable[
    [Tensor, Sequence[bool]], tuple[list[Tensor | None], list[Tensor | None], list[Tensor | None]]
]
"""(gradient of the tile, which embedded tensors need one) -> gradients of a, of b, of the tile parameters."""

_CACHE_ROWS = (
    512  # a float32 tile of 512 x 512 is 1 MiB: the handful alive at once stays in a core's cache
)
# At most so many tile-sized buffers exist at any moment, in the backward pass of a deep kernel.
_TILES_ALIVE = 12
_NOTICEABLE_POINTS = 10_000  # comparing fewer takes about a second
_KEPT_VALUES = (
    2**21
)  # so many kernel values, or fewer, are kept for the backward pass instead of computed again
_GROUPS = (
    32  # block sums are made of pairs of so many groups of strips, of more where a group would have
)
_GROUP_STRIPS = (
    32  # more strips than this: about a second of work for a pair of them, on 2 x 16384 points
)


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
    """The side of the square tiles that a budget of `memory` bytes allows, at most what a cache holds."""
    rows = math.isqrt(memory // (_TILES_ALIVE * itemsize)) if memory > 0 else 0
    return max(1, min(_CACHE_ROWS, rows))


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
    rows = tile_rows(memory, z[0].element_size())
    values = len(weights) ** 2 / 2
    keep = (
        torch.is_grad_enabled()
        and any(t.requires_grad for t in (*z, *parameters))
        and values <= min(_KEPT_VALUES, memory / (_TILES_ALIVE * z[0].element_size()))
    )
    columns = weights if weights.ndim == 2 else weights[:, None]
    apply = _RowSums.apply
    sums: Tensor = apply(kernel, rows, keep, len(z), columns, *z, *parameters)  # type: ignore[no-untyped-call]
    return sums if weights.ndim == 2 else sums[:, 0]


class _RowSums(torch.autograd.Function):
    """K @ weights. Gradients are the kernel's own closed form, where it has one, else autograd's."""

    @staticmethod
    def forward(
        ctx: Any,
        kernel: TiledKernel,
        rows: int,
        keep: bool,
        parts: int,
        weights: Tensor,
        *tensors: Tensor,
    ) -> Tensor:
        z = tensors[:parts]
        ctx.kernel, ctx.rows, ctx.parts = kernel, rows, parts
        ctx.save_for_backward(weights, *tensors)
        ctx.tiles = list(_tiles_and_pullbacks(kernel, z, rows)) if keep else None
        if ctx.tiles is None:
            return _multiply(_tiles(kernel, z, rows), weights, z[0].dtype)
        return _multiply(((i, j, tile) for i, j, tile, _ in ctx.tiles), weights, z[0].dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        kernel, rows, parts = ctx.kernel, ctx.rows, ctx.parts
        weights, *tensors = ctx.saved_tensors
        z, parameters = tuple(tensors[:parts]), tensors[parts:]
        wanted = ctx.needs_input_grad[5 : 5 + parts]
        grad_weights = None
        if ctx.needs_input_grad[4]:
            grad_weights = _multiply(_tiles(kernel, z, rows), grad, z[0].dtype).to(weights.dtype)
        if not any(ctx.needs_input_grad[5:]):
            return None, None, None, None, grad_weights, *([None] * len(tensors))

        dtype, total = z[0].dtype, accumulator(z[0].device)
        # Gradients of J can be very small numbers: they are scaled up before the cast, so that
        # float32 tiles do not lose them.
        size = grad.abs().amax().clamp_min(torch.finfo(total).tiny)
        g, w = (grad / size).to(dtype), weights.to(dtype)
        grad_z = [
            torch.zeros(part.shape, dtype=total, device=part.device) if need else None
            for part, need in zip(z, wanted, strict=True)
        ]
        grad_parameters = [torch.zeros(p.shape, dtype=total, device=p.device) for p in parameters]
        for i, j, _, pullback in ctx.tiles or _tiles_and_pullbacks(kernel, z, rows):
            # dJ/dK = g w^T; a tile above the diagonal also stands for its mirror image.
            outer = (
                g[i] @ w[j].T
                if i == j
                else torch.cat([g[i], w[i]], 1) @ torch.cat([w[j], g[j]], 1).T
            )
            into_i, into_j, into_parameters = pullback(outer, wanted)
            for sums, at_i, at_j in zip(grad_z, into_i, into_j, strict=True):
                if sums is not None and at_i is not None and at_j is not None:
                    sums[i] += at_i
                    sums[j] += at_j
            for sums, part in zip(grad_parameters, into_parameters, strict=True):
                if part is not None:
                    sums += part
        gradients = [None if s is None else (s * size).to(dtype) for s in grad_z]
        gradients += [
            (s * size).to(p.dtype) for s, p in zip(grad_parameters, parameters, strict=True)
        ]
        return None, None, None, None, grad_weights, *gradients


def _multiply(
    tiles: Iterable[tuple[slice, slice, Tensor]], weights: Tensor, dtype: torch.dtype
) -> Tensor:
    """K @ weights from the tiles on and above the diagonal of K."""
    # Transposed, since BLAS is several times faster at (few rows) x tile than at tile x (few
    # columns).
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
    """Points of `len(bins)` bins, `size` of each, interleaved: point t of bin u stands at t * len(bins) + u.

    So the sum within bins is a sum of `size` contiguous pieces, which is quick, whatever the size
    of the bins.
    """

    points: Tensor  # (size * len(bins),) indices
    bins: Tensor  # (s,)
    size: int


@dataclass(frozen=True)
class _Group:
    """Embedded points of several strips, strip after strip: what somebody needs who compares them."""

    z: Embedded
    weights: Tensor  # (c, points)
    strips: list[
        tuple[slice, Tensor, int]
    ]  # where it stands, its bins as numbered within the group, their size
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
        device, total = z[0].device, accumulator(z[0].device)
        count = int(bins.max()) + 1 if len(bins) else 0
        vectors = kernel.features(z)
        if vectors is not None:
            return _sums_of_features(
                vectors.to(total), bins.to(device), count, weights.to(device, total), diagonal
            )
        blocks = torch.zeros((count, count), dtype=total, device=device)
        w = weights.T.to(device=device, dtype=z[0].dtype).contiguous()  # (c, N)
        rows = torch.zeros(w.shape, dtype=total, device=device)
        strips = _strips(bins.to(device), count, tile_rows(resources.memory, z[0].element_size()))
        # Who does the work has no say in how it is cut, nor in the order in which the pieces are
        # added up below: so it does not change a bit of the result.
        each = min(_GROUP_STRIPS, max(2, -(-len(strips) // _GROUPS)))
        members = [strips[k : k + each] for k in range(0, len(strips), each)]
        points_of = [torch.cat([strip.points for strip in group]) for group in members]
        bins_of = [torch.unique(torch.cat([strip.bins for strip in group])) for group in members]
        team = resources.workers
        seen = team.share(kernel)

        # In this process, keep no more groups than are compared at a time.
        @functools.lru_cache(maxsize=2 if team is HERE else None)
        def group(k: int) -> Any:
            return team.share(
                _group(members[k], _rows(z, points_of[k]), w[:, points_of[k]], bins_of[k])
            )

        pairs = list(itertools.combinations_with_replacement(range(len(members)), 2))
        found = team.map(
            _compare, ((seen, group(a), None if a == b else group(b), diagonal) for a, b in pairs)
        )
        with bar("comparing", len(pairs), progress) as tick:
            for (a, b), (block, of_a, of_b) in zip(pairs, found, strict=True):
                blocks.index_put_(
                    (bins_of[a][:, None], bins_of[b][None, :]), block.to(device), accumulate=True
                )
                rows[:, points_of[a]] += of_a.to(device)
                if a != b:
                    blocks.index_put_(
                        (bins_of[b][:, None], bins_of[a][None, :]),
                        block.T.to(device),
                        accumulate=True,
                    )
                    rows[:, points_of[b]] += of_b.to(device)
                tick("")
        return blocks, rows.T


def _group(strips: Sequence[_Strip], z: Embedded, weights: Tensor, bins: Tensor) -> _Group:
    """The strips as they stand in `z`, with their bins numbered by their places in `bins`, which are sorted."""
    ends = list(itertools.accumulate(len(strip.points) for strip in strips))
    places = [slice(end - len(strip.points), end) for strip, end in zip(strips, ends, strict=True)]
    own = [torch.searchsorted(bins, strip.bins) for strip in strips]
    return _Group(
        z, weights, list(zip(places, own, (strip.size for strip in strips), strict=True)), len(bins)
    )


def _compare(
    kernel: TiledKernel, a: _Group, b: _Group | None, diagonal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Block sums between the bins of two groups, and what each adds to the row sums of the other; None is `a` itself.

    Within one group, and only there, both sides of the diagonal are in the block sums, and all row
    sums in the first.
    """
    _keep_freed_memory()
    other = a if b is None else b
    device, total = a.weights.device, accumulator(a.weights.device)
    blocks = torch.zeros((a.bins, other.bins), dtype=total, device=device)
    of_a = torch.zeros(a.weights.shape, dtype=total, device=device)
    of_b = of_a if b is None else torch.zeros(other.weights.shape, dtype=total, device=device)
    with torch.no_grad():
        left, right = kernel.sides(a.z)
        if b is not None:
            right = kernel.sides(b.z)[1]
        for k, (i, bins_i, size_i) in enumerate(a.strips):
            for j, bins_j, size_j in a.strips[k:] if b is None else b.strips:
                tile = kernel.cross(_rows(left, i), _rows(right, j))
                itself = b is None and i == j
                if itself and not diagonal:
                    tile.fill_diagonal_(0)
                block = (
                    tile.reshape(size_i, len(bins_i), size_j, len(bins_j))
                    .sum(0)
                    .sum(1, dtype=total)
                )
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
    totals = torch.zeros(count, v.shape[1], dtype=v.dtype, device=v.device).index_add_(0, bins, v)
    blocks, rows = totals @ totals.T, v @ (v.T @ weights)
    if not diagonal:
        own = v.square().sum(1)
        blocks.diagonal().index_add_(0, bins, own, alpha=-1)
        rows = rows - own[:, None] * weights
    return blocks, rows


def _strips(bins: Tensor, count: int, rows: int) -> list[_Strip]:
    """Cut the points into strips of at most `rows` points, each of bins of one size; larger bins are cut."""
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
    """Sums of the kernel matrix K and of its squared entries, without K, its diagonal and a gradient.

    All that unbiased estimates of the variance of an MMD need: a sum of products over *distinct*
    points is a sum of products of row sums, less the squared entries that it counts twice.

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
        device, total = z[0].device, accumulator(z[0].device)
        member = torch.nn.functional.one_hot(bins.to(device)).to(total)  # (N, S)
        vectors = kernel.features(z)
        if vectors is not None and vectors.shape[1] <= _CACHE_ROWS:
            return _moments_of_features(vectors.to(total), member)
        sums, squares = torch.zeros_like(member), member.new_zeros(member.shape[1], member.shape[1])
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
    """`moments` of v v^T for (N, p) features v, in a time linear in N: its squares are those of the p x p scatter."""
    own = v.square().sum(1)
    sums = v @ (v.T @ member) - own[:, None] * member
    scatter = torch.stack([(v * column[:, None]).T @ v for column in member.T]).flatten(
        1
    )  # (S, p p)
    return sums, scatter @ scatter.T - torch.diag(member.T @ own.square())


def paired_moments(
    kernel: TiledKernel, x: Tensor | Embedded, y: Tensor | Embedded, *, memory: int = DEFAULT_MEMORY
) -> tuple[Tensor, Tensor]:
    """(n,) row sums and the sum of squares of H_ij = k(X_i, X_j) + k(Y_i, Y_j) - k(X_i, Y_j) - k(X_j, Y_i), i != j.

    H is itself a kernel, on the pairs (X_i, Y_i): its tiles are made of four of `kernel`. For
    samples of one size.
    """
    with torch.no_grad():
        a, b = embedded(kernel, x), embedded(kernel, y)
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
        u, v = (self.kernel.features(half) for half in _halves(z))
        return None if u is None or v is None else u - v

    def tile(self, a: Embedded, b: Embedded) -> Tensor:
        (x, y), (u, v) = _halves(a), _halves(b)
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
    return z[: len(z) // 2], z[len(z) // 2 :]
