"""Landmarks: a kernel at several widths, over all columns or all pixels together."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from .._checks import check_whole
from .._eigen import eigh
from .base import ColumnSets, Family, Layout, Pooled, Seen, View

_LANDMARKS = 256
_FACTORS = (2.0, 1.0, 0.5, 0.25, 0.125, 0.0625)  # of the median distance; each half the one before
_LEAST_NEIGHBOURS = 1.0  # of a point, all kernel values with others added up
_RIDGE = 1e-5  # added to the kernel matrix of the landmarks, whose diagonal is 1
_MEDIAN_ROWS = 1000  # rows from whose distances a median is taken
_SCATTER_LANDMARKS = 128  # the leading axes need fewer
_SCATTER_ROWS = 4000  # rows that tell which axes lead
_AXES = 12
_RANK = 1e-8  # eigenvalues below this share of the first are rounding


class Landmarks(View):
    """Kernel values with some of the pooled points, at several widths: all columns together.

    With the kernel matrix of the landmarks as their metric these are the features of Nystroem: the
    kernel, projected onto what the landmarks span.

    Parameters
    ----------
    kernel
        "gaussian", exp(-|x - y|^2 / (2 sigma^2)), or "laplace", exp(-|x - y| / sigma), with the sum
        of absolute differences for tables.
    count
        How many landmarks there are at most.
    """

    kind = "landmarks"
    weight = 0.27
    regularisation: tuple[float, ...] | None = None
    kernel_view: int | None = _FACTORS.index(1.0)
    factors: tuple[float, ...] = _FACTORS
    places: Tensor  # (L, d)
    width: Tensor  # () the widest of the bandwidths

    def __init__(
        self,
        kernel: Literal["gaussian", "laplace"] = "gaussian",
        count: int = _LANDMARKS,
    ) -> None:
        super().__init__()
        check_whole("count", count, 2)
        self.kernel = kernel
        self.count = count
        self.family: Family = "joint"
        self.register_buffer("places", torch.empty(0, 0))
        self.register_buffer("width", torch.tensor(1.0))

    def extra_repr(self) -> str:
        return f"{self.kernel!r}, count={self.count}"

    def fit(self, pooled: Pooled, layout: Layout) -> None:
        self.family = "pixels" if layout.is_image else "joint"
        rows = pooled.different.flatten(1)
        self.places = rows[: self.count].clone()
        some = rows[:_MEDIAN_ROWS]
        distances = self._distances(some, some)
        positive = distances[distances > 0]
        median = 1.0  # of points that are all equal: any width does
        if len(positive):
            median = float(positive.median())
        widest = self.factors[0] * median
        self.width = torch.tensor(widest, dtype=torch.float64)

    def features(self, seen: Seen) -> Tensor:
        rows = seen.rows.flatten(1)
        return self._values(rows)

    def columns(self) -> ColumnSets:
        return [()] * len(self.factors)

    def metric(self) -> Tensor | None:
        return self._of_landmarks()

    def are_blind(self, means: Tensor, points: int) -> Tensor:
        # In a kernel so narrow that points have no neighbours, each is like itself only.
        near = points * means.mean(1)  # a landmark is one of the points, and near to itself
        return near < 1 + _LEAST_NEIGHBOURS

    def _of_landmarks(self) -> Tensor:
        """(widths, L, L) lower factors of the kernel matrices of the landmarks."""
        K = self._values(self.places).transpose(0, 1)  # (widths, L, L)
        symmetric = (K + K.mT) / 2
        ridge = _RIDGE * torch.eye(K.shape[1], dtype=K.dtype)
        factors: Tensor = torch.linalg.cholesky(symmetric + ridge)
        return factors

    def _distances(self, a: Tensor, b: Tensor) -> Tensor:
        # Sums of absolute differences have no matrix product: over many pixels they are slow, and
        # the Euclidean distance serves as well.
        by_columns = self.kernel == "laplace" and self.family != "pixels"
        power = 1.0 if by_columns else 2.0
        return torch.cdist(a, b, p=power)

    def _values(self, rows: Tensor) -> Tensor:
        """(N, widths, L) kernel values."""
        scaled = self._distances(rows, self.places) / self.width
        if self.kernel == "gaussian":
            widest = torch.exp(-0.5 * scaled.square())
            squarings = 2  # half the width is four times the exponent
        else:
            widest = torch.exp(-scaled)
            squarings = 1
        values = [widest]
        for _ in self.factors[1:]:
            # A narrower kernel is a power of the one before, which is cheaper than an exponential.
            narrower = values[-1]
            for _ in range(squarings):
                narrower = narrower.square()
            values.append(narrower)
        return torch.stack(values, 1)


class Scatter(Landmarks):
    """How points scatter along the leading axes of a kernel: rare groups of points.

    The axes are those of the second moment of the kernel's features, each scaled to a mean square
    of 1. All products of two of them are compared, as [Santoro2025] compares second moments. A
    small group far from the others hardly moves a mean. Along its own axis nearly all of the second
    moment is its own.

    Parameters
    ----------
    count
        How many landmarks there are at most.
    axes
        How many axes there are at most.
    """

    regularisation = (math.inf,)
    kernel_view = None
    factors = _FACTORS[:3]
    directions: Tensor  # (widths, L, axes) from kernel values to places on the axes

    def __init__(self, count: int = _SCATTER_LANDMARKS, axes: int = _AXES) -> None:
        super().__init__("gaussian", count)
        check_whole("axes", axes, 1)
        self.axes = axes
        self.register_buffer("directions", torch.empty(0, 0, 0))

    def extra_repr(self) -> str:
        return f"count={self.count}, axes={self.axes}"

    def fit(self, pooled: Pooled, layout: Layout) -> None:
        super().fit(pooled, layout)
        rows = pooled.rows[:_SCATTER_ROWS].flatten(1)
        values = self._values(rows).permute(1, 2, 0)  # (widths, L, N)
        of_landmarks = self._of_landmarks()
        features = torch.linalg.solve_triangular(of_landmarks, values, upper=False)
        second = features @ features.mT / len(rows)
        spectrum, vectors = eigh(second)
        leading = vectors[:, :, -self.axes :]
        least = _RANK * spectrum[:, -1:]
        lengths = spectrum[:, -self.axes :].clamp_min(least).sqrt()
        scaled = leading / lengths[:, None]
        directions = torch.linalg.solve_triangular(of_landmarks.mT, scaled, upper=True)
        self.directions = directions.contiguous()  # as a file gives them back

    def features(self, seen: Seen) -> Tensor:
        values = super().features(seen)
        along = torch.einsum("nwl,wla->nwa", values, self.directions)
        axes = along.shape[2]
        one, other = torch.triu_indices(axes, axes)
        return along[:, :, one] * along[:, :, other]

    def metric(self) -> Tensor | None:
        return None

    def are_blind(self, means: Tensor, points: int) -> Tensor:
        return torch.zeros(len(means), dtype=torch.bool)  # its kernels are wide

    def size(self) -> int:
        widths, _, axes = self.directions.shape
        return widths * axes * (axes + 1) // 2
