"""Landmarks: a kernel at several widths, over all columns or all pixels together."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from .._checks import check_whole
from .base import ColumnSets, Family, Layout, Pooled, Seen, View

_LANDMARKS = 256
_FACTORS = (2.0, 1.0, 0.5, 0.25, 0.125, 0.0625)  # of the median distance; each half the one before
_RIDGE = 1e-5  # added to the kernel matrix of the landmarks, whose diagonal is 1
_MEDIAN_ROWS = 1000  # rows from whose distances a median is taken


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
    regularisation = None
    kernel_view = _FACTORS.index(1.0)
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
        widest = _FACTORS[0] * median
        self.width = torch.tensor(widest, dtype=torch.float64)

    def features(self, seen: Seen) -> Tensor:
        rows = seen.rows.flatten(1)
        return self._values(rows)

    def columns(self) -> ColumnSets:
        return [()] * len(_FACTORS)

    def metric(self) -> Tensor | None:
        K = self._values(self.places).transpose(0, 1)  # (views, L, L)
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
        for _ in _FACTORS[1:]:
            # A narrower kernel is a power of the one before, which is cheaper than an exponential.
            narrower = values[-1]
            for _ in range(squarings):
                narrower = narrower.square()
            values.append(narrower)
        return torch.stack(values, 1)
