"""Views of features that somebody else computes: a network, or a transformer of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import IncompatibleParts
from .base import ColumnSets, Layout, Pooled, Seen, View


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


def _is_fitted(transformer: Any) -> bool:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(transformer)
    except NotFittedError:
        return False
    return True
