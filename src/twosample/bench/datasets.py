"""The data sets of the paper: Blob and HDGM drawn from their definitions, the real ones read from a local folder."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .._random import RNGLike
from ..errors import InputError

Array = NDArray[np.float64]

_BLOB_COVARIANCES = np.array([-0.020, -0.022, -0.024, -0.026, 0.0, 0.020, 0.022, 0.024, 0.026])
"""Off-diagonal entries of Q's nine components [Liu2020, table of synthetic data sets]."""


def blob(n: int, m: int | None = None, *, different: bool = True, rng: RNGLike | None = None) -> tuple[Array, Array]:
    """Blob-D (or Blob-S with `different=False`): n points of P and m of Q, in the plane.

    Nine Gaussians of equal weight on a 3 x 3 grid of unit spacing. P's have covariance 0.03 I; Q's in Blob-D have the
    same variances and a covariance of their own each. The paper's n_b is n / 9.
    """
    generator = np.random.default_rng(rng)
    centres = np.array([(i, j) for i in range(3) for j in range(3)], dtype=np.float64)

    def draw(count: int, covariances: Array) -> Array:
        component = generator.integers(0, 9, size=count)
        noise = generator.standard_normal((count, 2))
        c = covariances[component]
        # Rows of the Cholesky factor of [[0.03, c], [c, 0.03]].
        first = np.sqrt(0.03) * noise[:, 0]
        second = c / np.sqrt(0.03) * noise[:, 0] + np.sqrt(0.03 - c**2 / 0.03) * noise[:, 1]
        drawn: Array = centres[component] + np.column_stack([first, second])
        return drawn

    x = draw(n, np.zeros(9))
    return x, draw(n if m is None else m, _BLOB_COVARIANCES if different else np.zeros(9))


def hdgm(
    n: int, m: int | None = None, *, dimension: int = 10, different: bool = True, rng: RNGLike | None = None
) -> tuple[Array, Array]:
    """HDGM-D (or HDGM-S): n points of P and m of Q in `dimension` dimensions. The paper's N is 2 n.

    Two Gaussians of equal weight at 0 and at 0.5 in every coordinate. P's have covariance I; in HDGM-D the first two
    coordinates of Q's have covariance +0.5 in the first and -0.5 in the second.
    """
    if dimension < 2:
        raise InputError(f"HDGM needs at least 2 dimensions, not {dimension}.")
    generator = np.random.default_rng(rng)

    def draw(count: int, covariance: float) -> Array:
        second = generator.integers(0, 2, size=count).astype(bool)
        points: Array = generator.standard_normal((count, dimension))
        c = np.where(second, -covariance, covariance)
        points[:, 1] = c * points[:, 0] + np.sqrt(1 - c**2) * points[:, 1]
        points[second] += 0.5
        return points

    x = draw(n, 0.0)
    return x, draw(n if m is None else m, 0.5 if different else 0.0)


def data_folder(folder: str | Path | None = None) -> Path:
    """The folder of the real data sets: `folder`, or the environment variable TWOSAMPLE_DATA."""
    chosen = folder or os.environ.get("TWOSAMPLE_DATA")
    if not chosen:
        raise InputError(
            "no data folder: give `folder`, or set the environment variable TWOSAMPLE_DATA to the folder that holds "
            "higgs/higgs.npz, mnist/mnist.npz and fake_mnist/fake_mnist.npz."
        )
    path = Path(chosen)
    if not path.is_dir():
        raise InputError(f"the data folder {path} does not exist; set TWOSAMPLE_DATA to the folder of the data sets.")
    return path


def _arrays(file: str, names: tuple[str, ...], folder: str | Path | None) -> list[NDArray[np.generic]]:
    path = data_folder(folder) / file
    if not path.is_file():
        raise InputError(f"{path} does not exist; put {file} into the data folder, or point TWOSAMPLE_DATA elsewhere.")
    with np.load(path, allow_pickle=False) as archive:
        missing = [name for name in names if name not in archive]
        if missing:
            raise InputError(f"{path} lacks the array {missing[0]!r}; it holds {', '.join(archive.files)}.")
        return [archive[name] for name in names]


def higgs(
    folder: str | Path | None = None, *, columns: str = "jet_phi"
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """HIGGS: (background, signal) rows on hand, in the four jet phi columns of the paper or, with "all", in all 28."""
    features, label, names = _arrays("higgs/higgs.npz", ("features", "label", "columns"), folder)
    if columns == "jet_phi":
        wanted = [list(names).index(f"jet_{jet}_phi") for jet in (1, 2, 3, 4)]
    elif columns == "all":
        wanted = list(range(features.shape[1]))
    else:
        raise InputError(f"columns is {columns!r}; it must be 'jet_phi' or 'all'.")
    rows: NDArray[np.float32] = features[:, wanted].astype(np.float32)
    return rows[label == 0], rows[label == 1]


def mnist(folder: str | Path | None = None) -> NDArray[np.uint8]:
    """All 70,000 MNIST digits, (70000, 28, 28) in 0..255."""
    (images,) = _arrays("mnist/mnist.npz", ("images",), folder)
    return images.astype(np.uint8)


def fake_mnist(folder: str | Path | None = None) -> NDArray[np.uint8]:
    """10,000 digits made by a DCGAN, (10000, 28, 28) in 0..255; another generator than the authors'."""
    (images,) = _arrays("fake_mnist/fake_mnist.npz", ("images",), folder)
    return images.astype(np.uint8)
