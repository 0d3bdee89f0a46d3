"""Eigenvalues and eigenvectors of symmetric matrices, also of those on which torch gives up."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def eigh(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """(..., D) eigenvalues, the smallest first, and (..., D, D) eigenvectors in columns.

    Without gradients. The LAPACK of torch fails to converge on a few matrices of low rank, such as
    covariances of images that repeat. That of NumPy is another one.
    """
    try:
        values, vectors = torch.linalg.eigh(matrices)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]  # a name torch re-exports
        by_numpy = np.linalg.eigh(matrices.cpu().numpy())
        values, vectors = (torch.from_numpy(part).to(matrices) for part in by_numpy)
    return values, vectors
