"""Views that a user brings: through a network, a transformer of scikit-learn, or any kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .._checks import check_whole
from .._kernels import Kernel
from ..errors import IncompatibleParts
from .base import ColumnSets, Layout, Pooled, Seen, View

_LANDMARKS = 256
_LEAST_DIAGONAL = 1e-30  # of a kernel that is 0 at all landmarks
_RIDGE = 1e-5  # of the mean diagonal, added to the kernel matrix of the landmarks


class Features(View):
    """The features of a network, an embedding, or a transformer of scikit-learn: whatever you have.

    It must not have seen which points are of X and which of Y.

    Parameters
    ----------
    featurizer
        A module from scaled points to vectors, or a transformer of scikit-learn, which is fitted
        on the pooled points without labels unless it is fitted already.
    """

    regularisation = None

    def __init__(self, featurizer: Any) -> None:
        super().__init__()
        self.featurizer = featurizer

    def fit(self, pooled: Pooled, layout: Layout) -> None:
        if isinstance(self.featurizer, nn.Module):
            self.featurizer.eval().requires_grad_(False)
            return
        if not hasattr(self.featurizer, "transform"):
            raise IncompatibleParts(
                f"{self.featurizer!r} is neither a torch module nor a transformer of scikit-learn."
            )
        if not _is_fitted(self.featurizer):
            rows = pooled.rows.flatten(1)
            self.featurizer.fit(rows.numpy())

    def features(self, seen: Seen) -> Tensor:
        if isinstance(self.featurizer, nn.Module):
            features = self._of_network(seen)
        else:
            features = self._of_transformer(seen)
        numbers: Tensor = features.flatten(1).double()
        return numbers[:, None]  # one view

    def columns(self) -> ColumnSets:
        return [()]

    def _of_network(self, seen: Seen) -> Tensor:
        rows = seen.rows.float()  # as networks are trained
        with torch.no_grad():
            features: Tensor = self.featurizer(rows)
        return features

    def _of_transformer(self, seen: Seen) -> Tensor:
        rows = seen.rows.flatten(1)
        features = self.featurizer.transform(rows.numpy())
        if hasattr(features, "toarray"):  # a sparse matrix
            features = features.toarray()
        return torch.from_numpy(np.asarray(features, dtype=np.float64))


class LandmarksOf(View):
    """Values of a kernel with some of the pooled points: what any kernel sees of all columns.

    With the kernel matrix of the landmarks as their metric these are the features of Nystroem: the
    kernel, projected onto what the landmarks span. `Spectral` learns the best witness among them
    anew for every labelling, which the MMD of the kernel does not.

    Parameters
    ----------
    kernel
        Any `Kernel`: one whose bandwidth is open takes it from the pooled points. It is not trained
        here, and must not have been trained on these points.
    count
        How many landmarks there are at most.

    Examples
    --------
    >>> import numpy as np
    >>> from twosample import InverseMultiquadric, LandmarksOf, spectral
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(90, 2)), rng.normal(scale=1.6, size=(80, 2))
    >>> spectral(LandmarksOf(InverseMultiquadric()), permutations=199).run(X, Y, rng=0).pvalue
    0.005
    """

    regularisation = None
    kernel_view = 0
    places: Tensor  # (L, ...) landmarks, as points are

    def __init__(self, kernel: Kernel, count: int = _LANDMARKS) -> None:
        super().__init__()
        if not isinstance(kernel, Kernel):
            raise IncompatibleParts(
                f"LandmarksOf takes a kernel, not {kernel!r}. Use Features(...) for a network or a "
                "transformer."
            )
        check_whole("count", count, 2)
        self.kernel = kernel
        self.count = count
        self.register_buffer("places", torch.empty(0, 0))

    def __repr__(self) -> str:
        return f"LandmarksOf({self.kernel!r}, count={self.count})"

    def fit(self, pooled: Pooled, layout: Layout) -> None:
        self.kernel.eval().requires_grad_(False)
        fixed = torch.Generator().manual_seed(0)  # no seed has a say in what is seen
        self.kernel.start(pooled.different.float(), fixed)
        self.places = pooled.different[: self.count].clone()

    def features(self, seen: Seen) -> Tensor:
        values = self._values(seen.rows)
        return values[:, None]  # one view

    def columns(self) -> ColumnSets:
        return [()]

    def metric(self) -> Tensor | None:
        K = self._values(self.places)
        symmetric = (K + K.T) / 2
        diagonal = symmetric.diagonal().mean().clamp_min(_LEAST_DIAGONAL)
        ridge = _RIDGE * diagonal * torch.eye(len(K), dtype=K.dtype)
        factor: Tensor = torch.linalg.cholesky(symmetric + ridge)
        return factor[None]

    def size(self) -> int:
        return len(self.places)

    def _values(self, points: Tensor) -> Tensor:
        """(N, L) kernel values of points with the landmarks."""
        # Values must not depend on the company of a point, nor by rounding. A kernel that was read
        # from a file is in float32, and loses nothing here.
        kernel = self.kernel.double()
        with torch.no_grad():
            values: Tensor = kernel(points, self.places)
        return values


def _is_fitted(transformer: Any) -> bool:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(transformer)
    except NotFittedError:
        return False
    return True
