"""The bank: every kernel at a small size, points to try them on, and oracles that take one pair of
points at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import pytest
import torch
from torch import Tensor, nn

from twosample._data.embedding import embed_samples
from twosample._data.samples import Samples
from twosample._data.schema import Schema
from twosample._featurizers import MLP
from twosample._kernels import (
    ARDGaussian,
    DeepKernel,
    Gaussian,
    InverseMultiquadric,
    Kernel,
    Laplace,
    Linear,
    ManhattanLaplace,
    OnFeatures,
    Radial,
    WeightedSum,
    embedding_of,
)
from twosample._products import Embedded
from twosample._resources import DEFAULT_MEMORY, Resources
from twosample._statistics import Bins, Statistic

COLUMNS = 3
Matrix: TypeAlias = Sequence[Sequence[float]]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def points(
    count: int, *, columns: int = COLUMNS, seed: int = 0, dtype: torch.dtype = torch.float64
) -> Tensor:
    return torch.randn(count, columns, generator=seeded(seed), dtype=torch.float64).to(dtype)


def as_table(x: Tensor, y: Tensor) -> Samples:
    """Samples of tensors as they are, without the checks at the door."""
    return Samples(x, y, Schema("table", tuple(x.shape[1:])))


def prepared_by(
    statistic: Statistic,
    representation: nn.Module,
    samples: Samples,
    bins: Bins,
    generator: torch.Generator,
    *,
    memory: int = DEFAULT_MEMORY,
) -> Any:
    """What a statistic keeps of samples, embedded first as a calibration does it."""
    embed = embedding_of(representation)
    points = embed_samples(samples, embed, generator, Resources(memory))
    return statistic.prepare(representation, points, bins, generator)


# Kernels


class RationalQuadratic(Kernel):
    """1 / (1 + |x - y|^2 / s): a user's kernel, with a parameter of its own and nothing in closed
    form."""

    def __init__(self, scale: float = 1.5) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(math.log(scale)))

    def tile(self, a: Embedded, b: Embedded) -> Tensor:
        squares = (a[0][:, None] - b[0][None]).square().sum(2)
        return 1 / (1 + squares / self.log_scale.exp())

    def __repr__(self) -> str:
        return f"RationalQuadratic({float(self.log_scale.detach().exp()):.6g})"


def network(seed: int = 0) -> MLP:
    return MLP(COLUMNS, width=4, layers=2, generator=seeded(seed))


def sum_of_many() -> WeightedSum:
    """Members of several kinds: with networks, with two parts, without parameters, without a closed
    form."""
    deep = DeepKernel(network(), Gaussian(0.3), Gaussian(1.4), eps=0.3)
    scaled = ARDGaussian(widths=[0.6, 1.2, 2.4])
    return WeightedSum(
        [Gaussian(0.7), deep, Linear(), scaled, RationalQuadratic()], [0.5, 1.5, 0.2, 0.4, 0.3]
    )


def deep_by_default() -> DeepKernel:
    kernel = DeepKernel(MLP(COLUMNS, width=4))
    kernel.start(points(30, seed=11, dtype=torch.float32), seeded(12))
    return kernel


KERNELS: dict[str, Callable[[], Kernel]] = {
    "gaussian": lambda: Gaussian(1.3),
    "inverse multiquadric": lambda: InverseMultiquadric(0.9),
    "laplace": lambda: Laplace(1.6),
    "manhattan laplace": lambda: ManhattanLaplace(2.6),
    "ard": lambda: ARDGaussian(widths=[0.5, 1.5, 3.0]),
    "linear": Linear,
    "gaussian on features": lambda: OnFeatures(network(), Gaussian(0.4)),
    "linear on features": lambda: OnFeatures(network(), Linear()),
    "deep": deep_by_default,
    "deep, linear kappa": lambda: DeepKernel(network(), Linear(), Gaussian(1.1), eps=0.3),
    "deep, q on features": lambda: DeepKernel(
        network(), Gaussian(0.3), OnFeatures(network(1), Gaussian(0.5)), eps=0.2
    ),
    "deep, heavy tails": lambda: DeepKernel(
        network(), InverseMultiquadric(0.3), Laplace(1.5), eps=0.2
    ),
    "deep, ard q": lambda: DeepKernel(
        network(), Laplace(0.4), ARDGaussian(widths=[0.9, 1.1, 2.0]), eps=0.2
    ),
    "sum": lambda: WeightedSum([Gaussian(0.5), Gaussian(2.0), Laplace(1.0)]),
    "sum of many": sum_of_many,
    "deep, sum for q": lambda: DeepKernel(
        network(), Gaussian(0.4), WeightedSum([Gaussian(1.0), Laplace(2.0)])
    ),
    "rational quadratic": RationalQuadratic,
    "deep, rational quadratic kappa": lambda: DeepKernel(
        network(), RationalQuadratic(0.2), Gaussian(1.1), eps=0.4
    ),
}
every_kernel = pytest.mark.parametrize("name", KERNELS)
every_dtype = pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64], ids=["float32", "float64"]
)


def make(name: str, dtype: torch.dtype = torch.float64) -> Kernel:
    return KERNELS[name]().to(dtype)


def disturbed(kernel: Kernel) -> Kernel:
    """The kernel itself with every parameter moved."""
    with torch.no_grad():
        for number, parameter in enumerate(kernel.parameters()):
            parameter += 0.1 + 0.1 * number
    return kernel


# Oracles on matrices


def dense(kernel: Kernel, z: Tensor) -> Tensor:
    """The kernel matrix by the textbook, differentiable by autograd: every distance from a
    difference."""
    if isinstance(kernel, Radial):
        flat = z.flatten(1)
        if isinstance(kernel, ManhattanLaplace):
            distances = (flat[:, None] - flat[None]).abs().sum(2)
            return torch.exp(-distances / torch.exp(kernel.log_bandwidth))
        squares = (flat[:, None] - flat[None]).square().sum(2) / torch.exp(
            kernel.log_bandwidth
        ) ** 2
        if isinstance(kernel, Laplace):
            apart = squares > 0  # the root has no gradient at 0
            return torch.exp(-torch.where(apart, torch.where(apart, squares, 1.0).sqrt(), 0.0))
        return (
            torch.exp(-squares / 2)
            if isinstance(kernel, Gaussian)
            else 1 / torch.sqrt(1 + squares / 2)
        )
    if isinstance(kernel, ARDGaussian):
        return dense(kernel.kernel, z.flatten(1) / torch.exp(kernel.log_widths))
    if isinstance(kernel, WeightedSum):
        weights = torch.exp(kernel.log_weights)
        return sum(
            weight * dense(member, z)
            for weight, member in zip(weights, kernel.kernels, strict=True)
        )
    if isinstance(kernel, Linear):
        return z.flatten(1) @ z.flatten(1).T
    if isinstance(kernel, OnFeatures):
        return dense(kernel.kernel, kernel.featurizer(z))
    if isinstance(kernel, DeepKernel):
        eps = torch.sigmoid(kernel.logit_eps)
        return ((1 - eps) * dense(kernel.kappa, kernel.featurizer(z)) + eps) * dense(kernel.q, z)
    return kernel.tile((z.flatten(1),), (z.flatten(1),))


def naive_matrix(kernel: Kernel, z: Tensor) -> Tensor:
    """The kernel matrix, one pair of points at a time."""
    rows = [
        [float(kernel(z[i : i + 1], z[j : j + 1]).detach()) for j in range(len(z))]
        for i in range(len(z))
    ]
    return torch.tensor(rows, dtype=torch.float64)


def textbook_J(kernel: Kernel, x: Tensor, y: Tensor, regulariser: float = 1e-8) -> Tensor:  # noqa: N802
    """J from the dense matrix, differentiable by plain autograd; equations (2), (4) and (5),
    uncentred."""
    n, m = len(x), len(y)
    K = dense(kernel, torch.cat([x, y]))
    xx, yy, xy = K[:n, :n], K[n:, n:], K[:n, n:]
    if n == m:
        H = xx + yy - xy - xy.T
        mmd2 = (H.sum() - H.diagonal().sum()) / (n * (n - 1))
        variance = 4 / n**3 * H.sum(1).square().sum() - 4 / n**4 * H.sum().square()
    else:
        within = (xx.sum() - xx.trace()) / (n * (n - 1)) + (yy.sum() - yy.trace()) / (m * (m - 1))
        mmd2 = within - 2 * xy.mean()
        at_x, at_y = xx.mean(1) - xy.mean(1), xy.mean(0) - yy.mean(1)
        spread_x, spread_y = (w.square().mean() - w.mean().square() for w in (at_x, at_y))
        variance = 2 * n * m / (n + m) * (4 * spread_x / n + 4 * spread_y / m)
    return mmd2 / torch.sqrt(variance + regulariser)


# Oracles in double loops. K is the matrix of all points, `x` and `y` are the rows of it that each
# sample holds.


def mean_of(values: Iterator[float], count: int) -> float:
    return math.fsum(values) / count


def naive_mmd2_unbiased(K: Matrix, x: Sequence[int], y: Sequence[int]) -> float:
    n, m = len(x), len(y)
    xx = mean_of((K[x[i]][x[j]] for i in range(n) for j in range(n) if i != j), n * (n - 1))
    yy = mean_of((K[y[i]][y[j]] for i in range(m) for j in range(m) if i != j), m * (m - 1))
    return xx + yy - 2 * mean_of((K[i][j] for i in x for j in y), n * m)


def naive_mmd2_biased(K: Matrix, x: Sequence[int], y: Sequence[int]) -> float:
    xx = mean_of((K[i][j] for i in x for j in x), len(x) ** 2)
    yy = mean_of((K[i][j] for i in y for j in y), len(y) ** 2)
    return xx + yy - 2 * mean_of((K[i][j] for i in x for j in y), len(x) * len(y))


def naive_h(K: Matrix, x: Sequence[int], y: Sequence[int]) -> list[list[float]]:
    """H_ij of equation (2): x and y are paired in their order."""
    n = len(x)
    return [
        [K[x[i]][x[j]] + K[y[i]][y[j]] - K[x[i]][y[j]] - K[x[j]][y[i]] for j in range(n)]
        for i in range(n)
    ]


def naive_mmd2_paired(K: Matrix, x: Sequence[int], y: Sequence[int]) -> float:
    n, H = len(x), naive_h(K, x, y)
    return mean_of((H[i][j] for i in range(n) for j in range(n) if i != j), n * (n - 1))


def naive_variance(K: Matrix, x: Sequence[int], y: Sequence[int]) -> float:
    """Equation (5) as it is printed, without lambda."""
    n, H = len(x), naive_h(K, x, y)
    total = math.fsum(math.fsum(row) for row in H)
    return 4 / n**3 * math.fsum(math.fsum(row) ** 2 for row in H) - 4 / n**4 * total**2


def naive_witness(K: Matrix, x: Sequence[int], y: Sequence[int]) -> list[float]:
    """w at the points of x, then at those of y."""
    return [
        mean_of((K[i][j] for j in x), len(x)) - mean_of((K[i][j] for j in y), len(y))
        for i in [*x, *y]
    ]


NAIVE = {"unbiased": naive_mmd2_unbiased, "biased": naive_mmd2_biased, "paired": naive_mmd2_paired}
every_estimator = pytest.mark.parametrize("estimator", NAIVE)


def members(bins: Bins) -> list[list[int]]:
    """The points of each bin, as positions in the pooled samples."""
    ids = [*bins.of_x.tolist(), *bins.of_y.tolist()]
    return [[point for point, of in enumerate(ids) if of == bin_] for bin_ in range(bins.count)]


def relabelled(bins: Bins, shuffle: Sequence[int]) -> tuple[list[int], list[int]]:
    """The points that a shuffle of the moving bins puts into X and into Y, partners at equal
    places."""
    held = members(bins)
    x = [point for bin_ in shuffle[: bins.moving_x] for point in held[bin_]]
    y = [point for bin_ in shuffle[bins.moving_x :] for point in held[bin_]]
    return x + held[bins.moving], y + held[bins.moving + 1]
