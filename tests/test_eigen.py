"""Eigenvectors of symmetric matrices: those of torch, and NumPy's where torch gives up."""

from __future__ import annotations

import pytest
import torch

from twosample._eigen import eigh


def covariances(rank: int) -> torch.Tensor:
    rows = torch.randn(3, rank, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return rows.mT @ rows


@pytest.mark.parametrize("gives_up", [False, True])
@pytest.mark.parametrize("rank", [1, 5, 40])
def test_eigenvectors_make_the_matrix_again(monkeypatch, gives_up, rank):
    matrices = covariances(rank)

    def no_convergence(matrices):
        raise torch.linalg.LinAlgError("the algorithm failed to converge")

    if gives_up:
        monkeypatch.setattr(torch.linalg, "eigh", no_convergence)
    values, vectors = eigh(matrices)
    assert values.dtype == vectors.dtype == torch.float64
    assert bool((values.diff(dim=1) >= 0).all())
    again = (vectors * values[:, None]) @ vectors.mT
    torch.testing.assert_close(again, matrices)
    identity = torch.eye(20, dtype=torch.float64).expand(3, -1, -1)
    torch.testing.assert_close(vectors.mT @ vectors, identity)
