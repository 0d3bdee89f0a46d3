from __future__ import annotations

import bisect
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from bank import (
    KERNELS,
    dense,
    every_dtype,
    every_kernel,
    make,
    naive_matrix,
    points,
    seeded,
    textbook_J,
)
from twosample import _products as products
from twosample._kernels import DeepKernel, Gaussian, Kernel, Linear, OnFeatures, median_bandwidth
from twosample._objectives import PowerCriterion
from twosample._products import (
    DEFAULT_MEMORY,
    Embedded,
    Pullback,
    block_and_row_sums,
    block_sums,
    row_sums,
    tile_rows,
)
from twosample._resources import Resources

COUNT = 24
ROWS = [
    1,
    6,
    7,
    23,
    512,
]  # 6 divides the number of points, 7 does not, 23 leaves one over, 512 is more than there are

every_tiling = pytest.mark.parametrize("rows", ROWS)
every_path = pytest.mark.parametrize("path", ["kept", "recomputed"])


def memory_for(rows: int, itemsize: int) -> int:
    """The smallest budget whose tiles have that many rows."""
    return bisect.bisect_left(range(2**30), rows, key=lambda memory: tile_rows(memory, itemsize))


@functools.cache
def gram(name: str) -> Tensor:
    return naive_matrix(make(name), points(COUNT))


@pytest.fixture
def tiling(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, str], None]:
    """Set the size of tiles, and whether the backward pass finds them kept or computes them
    again."""

    def choose(rows: int, path: str) -> None:
        monkeypatch.setattr(products, "_CACHE_ROWS", rows)
        monkeypatch.setattr(products, "_KEPT_VALUES", 2**20 if path == "kept" else 0)

    return choose


def close(actual: Tensor, expected: Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def gradients(value: Tensor, *wanted: Tensor) -> list[Tensor]:
    found = torch.autograd.grad(value, wanted, allow_unused=True)
    return [torch.zeros_like(t) if g is None else g for t, g in zip(wanted, found, strict=True)]


@dataclass(eq=False)
class Recorder:
    """What a kernel was asked for: the points of every tile, by the number in their first
    column."""

    tiles: list[tuple[list[int], list[int]]] = field(default_factory=list)
    pullbacks: list[tuple[list[int], list[int]]] = field(default_factory=list)


class Recording(Kernel):
    """A Gaussian on all columns but the first, which numbers the points."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.seen = Gaussian(1.3), Recorder()

    def tile(self, a: Embedded, b: Embedded) -> Tensor:
        self.seen.tiles.append((a[0][:, 0].int().tolist(), b[0][:, 0].int().tolist()))
        return self.inner.tile((a[0][:, 1:],), (b[0][:, 1:],))

    def tile_and_pullback(self, a: Embedded, b: Embedded) -> tuple[Tensor, Pullback]:
        self.seen.pullbacks.append((a[0][:, 0].int().tolist(), b[0][:, 0].int().tolist()))
        tiles = len(self.seen.tiles)
        made = super().tile_and_pullback(a, b)
        del self.seen.tiles[tiles:]
        return made


def numbered(count: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.cat([torch.arange(count, dtype=dtype)[:, None], points(count, dtype=dtype)], 1)


def check_cover(tiles: Sequence[tuple[list[int], list[int]]], count: int, rows: int) -> None:
    """Every pair of points once, the mirror image of a tile never."""
    times = torch.zeros(count, count, dtype=torch.int)
    for a, b in tiles:
        assert len(a) <= rows
        assert len(b) <= rows
        assert a == b or not set(a) & set(b)
        times[torch.tensor(a)[:, None], torch.tensor(b)[None]] += 1
    within = torch.zeros_like(times)
    for a, b in tiles:
        if a == b:
            within[torch.tensor(a)[:, None], torch.tensor(b)[None]] = 1
    assert torch.equal(times + times.T, 1 + within)


# Row sums


@every_tiling
@every_kernel
def test_row_sums_are_those_of_the_double_loop(name: str, rows: int):
    kernel, z, weights = make(name), points(COUNT), points(COUNT, columns=2, seed=1)
    memory = memory_for(rows, 8)
    K = gram(name)
    close(row_sums(kernel, z, weights, memory=memory).detach(), K @ weights)
    close(row_sums(kernel, z, weights[:, 0], memory=memory).detach(), K @ weights[:, 0])


@every_path
@pytest.mark.parametrize("shape", [(COUNT,), (COUNT, 3)], ids=["(N,)", "(N, c)"])
@every_kernel
def test_gradients_are_those_of_plain_autograd(
    name: str, shape: tuple[int, ...], path: str, tiling: Callable
):
    kernel, z = make(name), points(COUNT).requires_grad_()
    weights = torch.randn(shape, generator=seeded(1), dtype=torch.float64).requires_grad_()
    wanted = [z, weights, *kernel.parameters()]
    plain = dense(kernel, z) @ weights
    expected = gradients(plain.square().sum(), *wanted)
    for rows in (6, 7, 512):
        tiling(rows, path)
        sums = row_sums(kernel, z, weights)
        close(sums, plain)
        for found, correct in zip(gradients(sums.square().sum(), *wanted), expected, strict=True):
            close(found, correct)


@every_path
@pytest.mark.parametrize("sizes", [(12, 12), (14, 9)], ids=["n = m", "n > m"])
@every_kernel
def test_power_criterion_is_that_of_the_textbook(
    name: str, sizes: tuple[int, int], path: str, tiling: Callable
):
    kernel, x, y = (
        make(name),
        points(sizes[0]).requires_grad_(),
        (1.5 * points(sizes[1], seed=1)).requires_grad_(),
    )
    wanted = [x, y, *kernel.parameters()]
    plain = textbook_J(kernel, x, y)
    expected = gradients(plain, *wanted)
    for rows in (5, 512):
        tiling(rows, path)
        criterion = PowerCriterion()(kernel, x, y)
        close(criterion, plain)
        for found, correct in zip(gradients(criterion, *wanted), expected, strict=True):
            close(found, correct)


@pytest.mark.parametrize("regulariser", [1e-8, 0.1])
def test_power_criterion_adds_its_regulariser_to_the_variance(regulariser: float):
    kernel, x, y = make("gaussian"), points(9), points(9, seed=1)
    close(PowerCriterion(regulariser)(kernel, x, y), textbook_J(kernel, x, y, regulariser))


@every_path
@pytest.mark.parametrize(
    ("points_too", "weights_too", "parameters_too"),
    [(True, False, False), (False, True, False), (False, False, True), (True, True, False)],
)
@pytest.mark.parametrize("name", ["deep", "rational quadratic"])
def test_gradients_of_some_inputs_only(
    name: str,
    points_too: bool,
    weights_too: bool,
    parameters_too: bool,
    path: str,
    tiling: Callable,
):
    tiling(7, path)
    kernel = make(name).requires_grad_(parameters_too)
    z, weights = (
        points(COUNT).requires_grad_(points_too),
        points(COUNT, columns=2, seed=1).requires_grad_(weights_too),
    )
    wanted = [tensor for tensor in (z, weights, *kernel.parameters()) if tensor.requires_grad]
    expected = gradients((dense(kernel, z) @ weights).square().sum(), *wanted)
    found = gradients(row_sums(kernel, z, weights).square().sum(), *wanted)
    for one, other in zip(found, expected, strict=True):
        close(one, other)


@pytest.mark.parametrize("learned", ["features", "points"])
def test_gradients_of_one_part_of_the_embedded_points(learned: str):
    """A frozen network leaves only the raw columns, and raw columns that are data leave only the
    features."""
    kernel, z = make("deep"), points(COUNT)
    embedded = tuple(part.detach() for part in kernel.embed(z))
    part = embedded[0 if learned == "features" else 1].requires_grad_()
    weights = points(COUNT, columns=1, seed=1)[:, 0]
    (found,) = gradients(row_sums(kernel, embedded, weights).square().sum(), part)
    (expected,) = gradients((kernel.tile(embedded, embedded) @ weights).square().sum(), part)
    close(found, expected)


@pytest.mark.parametrize(
    ("name", "path"),
    [("deep", "kept"), ("deep", "recomputed"), ("rational quadratic", "recomputed")],
)
def test_gradcheck(name: str, path: str, tiling: Callable):
    tiling(3, path)
    kernel, z = make(name), points(5).requires_grad_()
    weights = points(5, columns=2, seed=1).requires_grad_()
    parameters = list(kernel.tile_parameters())
    assert torch.autograd.gradcheck(
        lambda z, w, *_: row_sums(kernel, z, w), (z, weights, *parameters)
    )


@every_path
@every_kernel
def test_a_graph_that_is_retained_serves_twice(name: str, path: str, tiling: Callable):
    tiling(7, path)
    kernel, z = make(name), points(COUNT).requires_grad_()
    value = row_sums(kernel, z, points(COUNT, columns=1, seed=1)[:, 0]).square().sum()
    (first,) = torch.autograd.grad(value, z, retain_graph=True)
    (second,) = torch.autograd.grad(value, z)
    assert torch.equal(first, second)


def test_points_that_are_embedded_already():
    kernel, z, weights = make("deep"), points(COUNT), points(COUNT, columns=2, seed=1)
    assert torch.equal(row_sums(kernel, kernel.embed(z), weights), row_sums(kernel, z, weights))
    bins = torch.arange(COUNT) % 5
    assert torch.equal(block_sums(kernel, kernel.embed(z), bins), block_sums(kernel, z, bins))


@every_kernel
def test_float32_sums_come_in_float64_and_gradients_in_float32(name: str):
    kernel, z = make(name, torch.float32), points(COUNT, dtype=torch.float32).requires_grad_()
    weights = points(COUNT, columns=2, seed=1, dtype=torch.float32).requires_grad_()
    wanted = [z, weights, *kernel.parameters()]
    sums = row_sums(kernel, z, weights)
    found = gradients(sums.square().sum(), *wanted)
    assert sums.dtype == torch.float64
    assert {gradient.dtype for gradient in found} == {torch.float32}
    exact = make(name).double()
    z, weights = z.detach().double().requires_grad_(), weights.detach().double().requires_grad_()
    plain = dense(exact, z) @ weights
    close(sums, plain, 1e-4)
    expected = gradients(plain.square().sum(), z, weights, *exact.parameters())
    assert (
        relative_error(
            *(torch.cat([part.flatten() for part in all_]) for all_ in (found, expected))
        )
        < 1e-5
    )


def test_sums_over_tiles_are_kept_in_float64(monkeypatch: pytest.MonkeyPatch):
    """In float32, 2**24 + 1 is 2**24: one large value would swallow all the others."""
    monkeypatch.setattr(products, "_CACHE_ROWS", 1)
    z = torch.ones(COUNT, 1)
    z[0] = 2.0**24
    sums = row_sums(Linear(), z, torch.ones(COUNT))
    blocks = block_sums(Linear(), z, torch.tensor([0] + [1] * (COUNT - 1)))
    assert sums[1].item() == 2.0**24 + COUNT - 1
    assert blocks[1, 1].item() == (COUNT - 1) ** 2
    one_bin = block_sums(Linear(), z, torch.zeros(COUNT, dtype=torch.long))
    assert one_bin.item() == (2.0**24 + COUNT - 1) ** 2


def test_gradients_too_small_for_float32_are_not_lost():
    """The gradient of the sums is 1e-50 and that of the kernel 1e-30: tiles are in float32, their
    scale is not."""
    found = []
    for weight, factor in ((1.0, 1.0), (1e20, 1e-50)):
        kernel, weights = Gaussian(1.0), torch.full((COUNT,), weight)
        (row_sums(kernel, points(COUNT, dtype=torch.float32), weights).sum() * factor).backward()
        found.append(kernel.log_bandwidth.grad.item())
    assert found[1] == pytest.approx(1e-30 * found[0], rel=1e-5, abs=0)


# Float32 where it hurts


class Columns(nn.Module):
    """Some columns of precomputed points: a featurizer whose features we choose."""

    def __init__(self, start: int, stop: int) -> None:
        super().__init__()
        self.columns = slice(start, stop)

    def forward(self, z: Tensor) -> Tensor:
        return z[:, self.columns]


def collapsed(count: int, *, offset: float) -> Tensor:
    """Features that are equal up to 1e-3, around `offset`, and two raw columns; those of Y are
    moved a little."""
    features = offset + 1e-3 * torch.randn(count, 5, generator=seeded(3))
    features[count // 2 :] += 3e-4
    return torch.cat([features, torch.randn(count, 2, generator=seeded(4))], 1)


def behind(kind: str, bandwidth: float) -> Kernel:
    features = Gaussian(bandwidth)
    if kind == "on features":
        return OnFeatures(Columns(0, 5), features)
    return DeepKernel(Columns(0, 5), features, OnFeatures(Columns(5, 7), Gaussian(1.0)))


def slopes(kernel: Kernel, z: Tensor, dtype: torch.dtype) -> list[Tensor]:
    """Gradient of J with respect to the points and to each parameter."""
    kernel, z = kernel.to(dtype), z.to(dtype).clone().requires_grad_()
    half = len(z) // 2
    return gradients(PowerCriterion()(kernel, z[:half], z[half:]), z, *kernel.parameters())


def relative_error(found: Tensor, expected: Tensor) -> float:
    return float((found.double() - expected).norm() / expected.norm())


@pytest.mark.parametrize("rows", [32, 512])
@pytest.mark.parametrize("offset", [0.0, 5.0, 100.0])
@pytest.mark.parametrize("bandwidth", ["median", 1.0])
@pytest.mark.parametrize("kind", ["on features", "deep"])
def test_float32_gradient_on_collapsed_features(
    kind: str, bandwidth: str | float, offset: float, rows: int, tiling: Callable
):
    tiling(rows, "recomputed")
    z = collapsed(160, offset=offset)
    sigma = median_bandwidth(z[:, :5], seeded()) if bandwidth == "median" else bandwidth
    found, expected = (
        slopes(behind(kind, sigma), z, dtype) for dtype in (torch.float32, torch.float64)
    )
    assert relative_error(found[0], expected[0]) < 1e-3
    assert relative_error(found[0][:, :5], expected[0][:, :5]) < 1e-3
    assert relative_error(torch.stack(found[1:]), torch.stack(expected[1:])) < 1e-3


def test_float32_gradient_of_eps_on_collapsed_features():
    """1 - kappa is about 1e-4 here: summed before it is subtracted, its digits are gone."""
    for offset in (0.0, 5.0, 100.0):
        z, kernel = collapsed(160, offset=offset), behind("deep", 0.2)
        place = 1 + [name for name, _ in kernel.named_parameters()].index("logit_eps")
        found, expected = (
            slopes(kernel, z, dtype)[place] for dtype in (torch.float32, torch.float64)
        )
        assert relative_error(found, expected) < 1e-3


@pytest.mark.parametrize("name", ["gaussian", "deep"])
def test_float32_gradient_on_data_far_from_the_origin(name: str):
    z = points(80, dtype=torch.float32) + 1e3
    z[40:] *= 1.0005
    kernel = (
        Gaussian(2.0)
        if name == "gaussian"
        else DeepKernel(nn.Identity(), Gaussian(1.0), Gaussian(2.0))
    )
    found, expected = (slopes(kernel, z, dtype) for dtype in (torch.float32, torch.float64))
    for one, other in zip(found, expected, strict=True):
        assert relative_error(one, other) < 1e-3


# What is computed, and how often


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.map, self.calls = nn.Linear(3, 2, dtype=torch.float64), []

    def forward(self, z: Tensor) -> Tensor:
        self.calls.append(len(z))
        return self.map(z)


@every_path
@pytest.mark.parametrize("kind", ["deep", "on features"])
def test_the_network_runs_once_a_step(kind: str, path: str, tiling: Callable):
    tiling(4, path)
    network = Counting()
    kernel = (
        DeepKernel(network, Gaussian(1.0), Gaussian(1.0))
        if kind == "deep"
        else OnFeatures(network, Gaussian(1.0))
    )
    PowerCriterion()(kernel, points(10), points(10, seed=1)).backward()
    assert network.calls == [20]
    block_and_row_sums(kernel, points(10), torch.arange(10) % 3, torch.ones(10, 1))
    assert network.calls == [20, 10]


@every_tiling
def test_row_sums_take_tiles_above_the_diagonal_only(rows: int):
    kernel, z = Recording().requires_grad_(False), numbered(COUNT)
    row_sums(kernel, z, torch.ones(COUNT), memory=memory_for(rows, 8))
    check_cover(kernel.seen.tiles, COUNT, rows)
    assert kernel.seen.pullbacks == []  # no gradient was asked for


@every_tiling
def test_backward_computes_each_tile_once_more(rows: int, tiling: Callable):
    tiling(512, "recomputed")
    kernel, z = Recording(), numbered(COUNT)
    sums = row_sums(kernel, z, torch.ones(COUNT), memory=memory_for(rows, 8)).sum()
    check_cover(kernel.seen.tiles, COUNT, rows)
    assert kernel.seen.pullbacks == []
    kernel.seen.tiles.clear()
    sums.backward()
    assert kernel.seen.tiles == []
    check_cover(kernel.seen.pullbacks, COUNT, rows)


def test_small_batches_keep_their_tiles(tiling: Callable):
    tiling(7, "kept")
    kernel, z = Recording(), numbered(COUNT)
    sums = row_sums(kernel, z, torch.ones(COUNT)).sum()
    check_cover(kernel.seen.pullbacks, COUNT, 7)
    sums.backward()
    check_cover(kernel.seen.pullbacks, COUNT, 7)
    assert kernel.seen.tiles == []


def test_without_gradient_no_tile_is_kept():
    kernel = Recording()
    with torch.no_grad():
        row_sums(kernel, numbered(COUNT), torch.ones(COUNT))
    assert kernel.seen.pullbacks == []


@every_dtype
@pytest.mark.parametrize("memory", [1, 2000, 50_000, DEFAULT_MEMORY])
def test_no_tile_exceeds_the_budget(memory: int, dtype: torch.dtype):
    count = 40
    kernel, z, itemsize = (
        Recording().to(dtype),
        numbered(count, dtype),
        torch.finfo(dtype).bits // 8,
    )
    sums = row_sums(kernel, z, torch.ones(count), memory=memory)
    sums.sum().backward()
    block_sums(kernel, z, torch.arange(count) // 15, memory=memory)
    block_sums(kernel, z, torch.arange(count), memory=memory)
    for a, b in kernel.seen.tiles + kernel.seen.pullbacks:
        assert len(a) * len(b) * itemsize <= max(memory, itemsize)


def test_kept_tiles_stay_within_the_budget():
    """What is kept for the backward pass counts: `memory` is what the tiles may take, not one of
    them."""
    memory, count = 2**17, 300
    kernel, z = Recording().double(), numbered(count)
    row_sums(kernel, z, torch.ones(count), memory=memory)
    kept = sum(len(a) * len(b) for a, b in kernel.seen.pullbacks)
    assert 8 * kept <= memory


def test_tile_rows_grow_with_the_budget_up_to_a_cache():
    sides = [tile_rows(memory, 4) for memory in (0, 1, 10**3, 10**5, 10**6, 2**30, 2**40)]
    assert sides[0] == 1
    assert sides == sorted(sides)
    assert sides[-1] == sides[-2] == products._CACHE_ROWS
    assert tile_rows(10**6, 4) > tile_rows(10**6, 8)


@pytest.mark.parametrize("name", ["gaussian", "deep", "rational quadratic"])
def test_results_do_not_depend_on_the_budget(name: str):
    kernel, z, weights = make(name), points(30).requires_grad_(), points(30, columns=2, seed=1)
    wanted, bins = [z, *kernel.parameters()], torch.arange(30) % 7
    results = []
    for memory in (1, 5000, 20_000, DEFAULT_MEMORY):
        sums = row_sums(kernel, z, weights, memory=memory)
        blocks, product = block_and_row_sums(kernel, z, bins, weights, resources=Resources(memory))
        results.append([sums, blocks, product, *gradients(sums.square().mean(), *wanted)])
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            close(one, two, 1e-12)


# Block sums


def bins_of(sizes: Sequence[int]) -> Tensor:
    """Bins of these sizes, their points scattered."""
    ids = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    return ids[torch.randperm(len(ids), generator=seeded(5))]


BINS = {
    "of one point": [1] * 24,
    "of equal sizes": [4] * 6,
    "of unequal sizes": [1, 5, 2, 5, 3, 1, 7],
    "some empty": [0, 4, 0, 0, 9, 4, 0, 7],
    "larger than a tile": [20, 2, 2],
    "one": [24],
    "moving and staying": [3, 3, 3, 3, 3, 3, 4, 2],
}


def naive_block_sums(K: Tensor, bins: Tensor, *, diagonal: bool) -> Tensor:
    """(S, S), one pair of points at a time."""
    count = int(bins.max()) + 1
    sums = [[0.0] * count for _ in range(count)]
    for i, a in enumerate(bins.tolist()):
        for j, b in enumerate(bins.tolist()):
            if diagonal or i != j:
                sums[a][b] += float(K[i, j])
    return torch.tensor(sums, dtype=torch.float64)


@every_tiling
@pytest.mark.parametrize("diagonal", [True, False], ids=["with diagonal", "without"])
@pytest.mark.parametrize("sizes", BINS.values(), ids=BINS)
def test_block_sums_are_those_of_the_double_loop(sizes: list[int], diagonal: bool, rows: int):
    kernel, z, bins = make("deep"), points(COUNT), bins_of(sizes)
    K, weights = gram("deep"), points(COUNT, columns=3, seed=1)
    sums, product = block_and_row_sums(
        kernel, z, bins, weights, diagonal=diagonal, resources=Resources(memory_for(rows, 8))
    )
    close(sums, naive_block_sums(K, bins, diagonal=diagonal))
    close(product, (K if diagonal else K - K.diagonal().diag()) @ weights)


@pytest.mark.parametrize("name", KERNELS)
@every_dtype
def test_block_sums_of_every_kernel(name: str, dtype: torch.dtype):
    kernel, z, bins = make(name, dtype), points(COUNT, dtype=dtype), bins_of([1, 5, 2, 5, 3, 1, 7])
    expected = naive_block_sums(gram(name), bins, diagonal=True)
    sums = block_sums(kernel, z, bins, memory=memory_for(7, z.element_size()))
    assert sums.dtype == torch.float64
    assert not sums.requires_grad
    close(sums, expected, 1e-10 if dtype == torch.float64 else 1e-4)


def test_bins_of_one_point_give_the_gram_matrix():
    kernel, z = make("deep"), points(24)
    order = torch.randperm(24, generator=seeded())
    close(block_sums(kernel, z, order)[order][:, order], kernel(z, z).detach(), 1e-12)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=30), st.booleans(), st.integers(1, 40))
def test_block_sums_of_any_bins(ids: list[int], diagonal: bool, rows: int):
    kernel, z, bins = Linear(), points(len(ids)), torch.tensor(ids)
    weights = torch.ones(len(ids), 1)
    sums, product = block_and_row_sums(
        kernel,
        z,
        bins,
        weights,
        diagonal=diagonal,
        resources=Resources(memory_for(min(rows, 31), 8)),
    )
    expected = naive_block_sums(z @ z.T, bins, diagonal=diagonal)
    close(sums, expected)
    close(product.sum(), expected.sum())


@every_tiling
@pytest.mark.parametrize("sizes", BINS.values(), ids=BINS)
def test_block_sums_take_tiles_above_the_diagonal_only(sizes: list[int], rows: int):
    kernel = Recording()
    block_sums(kernel, numbered(24), bins_of(sizes), memory=memory_for(rows, 8))
    check_cover(kernel.seen.tiles, 24, rows)
    assert kernel.seen.pullbacks == []


def test_block_sums_need_few_tiles():
    """Bins of one size share a tile: 3 strips of 8 points make 6 tiles, whatever the bins."""
    for sizes in ([1] * 24, [2] * 12, [4] * 6, [8] * 3, [24]):
        kernel = Recording()
        block_sums(kernel, numbered(24), bins_of(sizes), memory=memory_for(8, 8))
        assert len(kernel.seen.tiles) == 6
