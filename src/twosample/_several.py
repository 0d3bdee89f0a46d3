"""Several kernels, through which a fused statistic sees the same points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from ._kernels import Embedding, Gaussian, Kernel, ManhattanLaplace, Radial, pairwise_distances
from ._products import Embedded
from .errors import InputError

Bandwidths: TypeAlias = Literal["median", "fuse", "agg"]
"""How bandwidths that are open start."""

_HALF = math.sqrt(0.5)
# Both papers write b for the bandwidth. Here sigma stands in exp(-|x - y|^2 / (2 sigma^2)) and in
# exp(-|x - y| / sigma); theirs are
#   fuse: exp(-|x - y|^2 / (2 b^2)) and exp(-sqrt(2) |x - y| / b)
#   agg:  exp(-|x - y|^2 / b^2)     and exp(-|x - y| / b)
_SIGMA_OVER_B: Mapping[str, Mapping[type[Radial], float]] = MappingProxyType(
    {"fuse": {ManhattanLaplace: _HALF}, "agg": {Gaussian: _HALF}}
)


class Several(Embedding):
    """Several kernels, for a statistic that is `Fused` of their values.

    Parameters
    ----------
    kernels
        The kernels, in the order of the rows that are fused.
    bandwidths
        How those that are open start, from pooled points and hence blind to labels. "median": each
        from the median distance, by its own `factor`. "fuse" and "agg": those of one class share
        the grid of [Biggs2023] or of [Schrab2023], in the order in which they come. The first is
        even, from half the 5 % quantile of the distances to twice their 95 % quantile. The second
        is geometric, from half the 5 % quantile to twice the largest. Distances of 0 are left out.

    Examples
    --------
    >>> import torch, twosample
    >>> kernels = twosample.Several([twosample.Gaussian(0.5), twosample.Gaussian(2.0)])
    >>> len(kernels.split(kernels.embed(torch.zeros(5, 3))))
    2
    """

    def __init__(self, kernels: Sequence[Kernel], bandwidths: Bandwidths = "median") -> None:
        super().__init__()
        if not len(kernels):
            raise InputError(
                "Several of no kernels; give it some, such as [Gaussian(factor=0.5), Gaussian()]."
            )
        for kernel in kernels:
            if not isinstance(kernel, Kernel):
                raise InputError(
                    f"Several takes kernels, not a {type(kernel).__name__}; see OnFeatures()."
                )
        if bandwidths not in get_args(Bandwidths):
            rules = ", ".join(get_args(Bandwidths))
            raise InputError(f"bandwidths is {bandwidths!r}; it must be one of {rules}.")
        self.kernels: Sequence[Kernel] = nn.ModuleList(kernels)  # type: ignore[assignment]
        self.bandwidths = bandwidths

    def embed(self, points: Tensor) -> Embedded:
        # Kernels that compare points as they are share one copy of them, which comes first.
        own: Embedded = ()
        shared: Embedded = ()
        for kernel in self.kernels:
            seen = kernel.embed(points)
            if kernel.sees_points:
                shared = seen
            else:
                own += seen
        return shared + own

    def split(self, z: Embedded) -> list[Embedded]:
        """What each kernel sees of embedded points."""
        seen = []
        start = 1 if any(kernel.sees_points for kernel in self.kernels) else 0
        for kernel in self.kernels:
            if kernel.sees_points:
                seen.append(z[:1])
                continue
            end = start + kernel.parts
            seen.append(z[start:end])
            start = end
        return seen

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The (kernels, len(x), len(y)) kernel matrices, where they fit in memory."""
        return torch.stack([kernel(x, y) for kernel in self.kernels])

    def start(self, points: Tensor, generator: torch.Generator) -> None:
        """Fill in what was left open from pooled points, blind to labels."""
        if self.bandwidths != "median":
            self._start_grids(points, generator)
        for kernel in self.kernels:
            kernel.start(points, generator)

    def _start_grids(self, points: Tensor, generator: torch.Generator) -> None:
        open_ones: dict[type[Radial], list[Radial]] = {}
        for kernel in self.kernels:
            if isinstance(kernel, Radial) and kernel.bandwidth is None:
                open_ones.setdefault(type(kernel), []).append(kernel)
        for kind, kernels in open_ones.items():
            distances = pairwise_distances(points, generator, norm=kind.norm)
            unit = _SIGMA_OVER_B[self.bandwidths].get(kind, 1.0)
            grid = _grid(self.bandwidths, distances, len(kernels))
            for kernel, bandwidth in zip(kernels, grid, strict=True):
                kernel.set_bandwidth(unit * bandwidth)

    def __repr__(self) -> str:
        kernels = ", ".join(map(repr, self.kernels))
        if self.bandwidths == "median":
            return f"Several([{kernels}])"
        return f"Several([{kernels}], bandwidths={self.bandwidths!r})"


def _grid(rule: str, distances: Tensor, count: int) -> list[float]:
    """`count` bandwidths, from the smallest to the largest."""
    positive = distances[distances > 0].sort().values
    if not len(positive):  # all points are equal, and so are all values of every kernel
        return [1.0] * count
    small = float(positive[int(0.05 * len(positive))]) / 2
    if rule == "fuse":
        large = 2 * float(positive[int(0.95 * len(positive))])
        return torch.linspace(small, large, count, dtype=torch.float64).tolist()
    large = 2 * float(positive[-1])
    steps = torch.linspace(math.log(small), math.log(large), count, dtype=torch.float64)
    return steps.exp().tolist()
