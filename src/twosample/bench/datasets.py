"""The data sets of the paper.

Blob and HDGM are drawn from their definitions, the real ones are read from their files. A real data
set is looked for in the data folder (`folder`, or the environment variable TWOSAMPLE_DATA), then in
the cache of downloads (TWOSAMPLE_CACHE), then where it is published: see `sources`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from .._random import RNGLike, takes_rng
from ..errors import InputError
from . import formats, sources
from .downloads import alone

Array = NDArray[np.float64]

_BLOB_COVARIANCES = np.array([-0.020, -0.022, -0.024, -0.026, 0.0, 0.020, 0.022, 0.024, 0.026])
"""The covariances in Q's nine components [Liu2020, table of synthetic data sets]."""

_CIFAR10_FILES = {
    "test": r"test_batch\.bin",
    "train": r"data_batch_[1-5]\.bin",
    "all": r"(data_batch_[1-5]|test_batch)\.bin",
}
"""The names of the files in the archive that hold each part, as regular expressions."""


@takes_rng
def blob(
    n: int,
    m: int | None = None,
    *,
    different: bool = True,
    authors: bool = False,
    rng: RNGLike | None = None,
) -> tuple[Array, Array]:
    """Draw Blob-D (or Blob-S with `different=False`): n points of P and m of Q, in the plane.

    Nine Gaussians of equal weight stand on a 3 x 3 grid of unit spacing. Those of P have covariance
    0.03 I. Those of Q in Blob-D have the same variances, and each its own covariance of the two
    coordinates. The paper's n_b is n / 9.

    `authors=True` draws what the authors' code draws instead. In Blob-D it multiplies by the
    Cholesky factor L from the wrong side, so that Q's covariance matrices are L^T L, whose
    variances differ from P's. In Blob-S the covariance matrices are the identity.
    """
    generator = np.random.default_rng(rng)
    centres = np.array([(i, j) for i in range(3) for j in range(3)], dtype=np.float64)
    variance = 1.0 if authors and not different else 0.03

    def draw(count: int, covariances: Array) -> Array:
        component = generator.integers(0, 9, size=count)
        noise = generator.standard_normal((count, 2))
        c = covariances[component]
        # The Cholesky factor of [[variance, c], [c, variance]] is [[deviation, 0], [lean, rest]].
        deviation = np.sqrt(variance)
        lean = c / deviation
        rest = np.sqrt(variance - c**2 / variance)
        if authors:
            first = deviation * noise[:, 0] + lean * noise[:, 1]
            second = rest * noise[:, 1]
        else:
            first = deviation * noise[:, 0]
            second = lean * noise[:, 0] + rest * noise[:, 1]
        drawn: Array = centres[component] + np.column_stack([first, second])
        return drawn

    # X first: the order of draws decides what a seed gives.
    x = draw(n, np.zeros(9))
    y = draw(n if m is None else m, _BLOB_COVARIANCES if different else np.zeros(9))
    return x, y


@takes_rng
def hdgm(
    n: int,
    m: int | None = None,
    *,
    dimension: int = 10,
    different: bool = True,
    authors: bool = False,
    rng: RNGLike | None = None,
) -> tuple[Array, Array]:
    """Draw HDGM-D (or HDGM-S with `different=False`): n points of P and m of Q.

    Two Gaussians of equal weight have their means at 0 and at 0.5 in every coordinate. Those of P
    have covariance I. In HDGM-D the first two coordinates of Q have covariance +0.5 in the first
    Gaussian and -0.5 in the second. The paper's N is 2 n.

    `authors=True` draws what the authors' code draws instead: as many points of the first Gaussian
    as of the second, in this order, so that the points of a sample are not independent.
    """
    if dimension < 2:
        raise InputError(f"HDGM needs at least 2 dimensions, not {dimension}.")
    odd = [size for size in (n, m) if size is not None and size % 2]
    if authors and odd:
        raise InputError(
            f"with authors=True half of the points are of each Gaussian, which {odd[0]} points "
            "cannot be."
        )
    generator = np.random.default_rng(rng)

    def draw(count: int, covariance: float) -> Array:
        if authors:
            second = np.arange(count) >= count / 2
        else:
            second = generator.integers(0, 2, size=count).astype(bool)
        points: Array = generator.standard_normal((count, dimension))
        c = np.where(second, -covariance, covariance)
        # Unit variances and the covariance c: the second row of a Cholesky factor.
        points[:, 1] = c * points[:, 0] + np.sqrt(1 - c**2) * points[:, 1]
        points[second] += 0.5
        return points

    # X first, as in `blob`.
    x = draw(n, 0.0)
    y = draw(n if m is None else m, 0.5 if different else 0.0)
    return x, y


def higgs(
    folder: str | Path | None = None, *, columns: Literal["jet_phi", "all"] = "jet_phi"
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Read HIGGS: the rows of background and of signal that are on hand.

    They have the four jet phi columns that the paper uses or, with "all", all 28 columns.
    """
    if columns not in ("jet_phi", "all"):
        raise InputError(f"columns is {columns!r}; it must be 'jet_phi' or 'all'.")
    path = sources.on_hand(sources.HIGGS.compact, folder) or _compacted_higgs(folder)
    # The columns that are not wanted are never held: all of them take 1.2 GB.
    label, names = formats.read_arrays(path, ("label", "columns"))
    angles = {f"jet_{jet}_phi" for jet in (1, 2, 3, 4)}
    chosen = [number for number, name in enumerate(names) if columns == "all" or name in angles]
    rows = formats.read_columns(path, "features", chosen)
    return rows[label == 0], rows[label == 1]


def _compacted_higgs(folder: str | Path | None) -> Path:
    """Return the published file in compact form, which is made and kept in the cache if need be."""
    (published,) = sources.HIGGS.files
    own = sources.on_hand(f"higgs/{published.name}", folder)
    target = sources.compact_path(sources.HIGGS)
    if own is not None:
        # A file of the user's own may be any part of HIGGS, so each has a compact form of its own.
        status = own.stat()
        identity = f"{own.resolve()} {status.st_size} {status.st_mtime_ns}"
        digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
        target = target.with_name(f"higgs-{digest}.npz")
    if not target.is_file():
        csv = own or sources.obtain(sources.HIGGS, published)
        target.parent.mkdir(parents=True, exist_ok=True)
        with alone(target):
            if not target.is_file():  # another process may have made it meanwhile
                formats.compact_higgs(csv, target)
    return target


def mnist(folder: str | Path | None = None) -> NDArray[np.uint8]:
    """Read all 70,000 MNIST digits, (70000, 28, 28) in 0..255, first the 60,000 training images."""
    compact = sources.on_hand(sources.MNIST.compact, folder)
    if compact is not None:
        return _images(compact)
    paths = [sources.obtain(sources.MNIST, file, folder) for file in sources.MNIST.files]
    return np.concatenate([formats.read_idx(path) for path in paths])


def fake_mnist(folder: str | Path | None = None) -> NDArray[np.uint8]:
    """Read digits made by a DCGAN, not the authors': (N, 28, 28) or (N, 32, 32) in 0..255."""
    return _images(sources.needed(sources.FAKE_MNIST, folder))


def cifar10(
    folder: str | Path | None = None, part: Literal["test", "train", "all"] = "test"
) -> NDArray[np.uint8]:
    """Read CIFAR-10, (N, 32, 32, 3) in 0..255.

    These are its 10,000 test images, its 50,000 training images, or all, those to train first.
    """
    if part not in _CIFAR10_FILES:
        raise InputError(f"part is {part!r}; it must be 'test', 'train' or 'all'.")
    compact = sources.on_hand(sources.CIFAR10.compact, folder)
    # The compact file holds the test images only.
    if part == "test" and compact is not None:
        return _images(compact)
    (archive,) = sources.CIFAR10.files
    path = sources.obtain(sources.CIFAR10, archive, folder)
    return formats.read_cifar10(path, _CIFAR10_FILES[part])


def cifar10_jpeg(folder: str | Path | None = None) -> NDArray[np.uint8]:
    """Read every second test image of CIFAR-10 after a JPEG compression, a stand-in for CIFAR-10.1.

    They are the images of odd index, so that `cifar10()[::2]` shares no picture with them.
    """
    return _images(sources.needed(sources.CIFAR10_JPEG, folder))


def cifar101(folder: str | Path | None = None) -> NDArray[np.uint8]:
    """Read CIFAR-10.1, version 4, (2021, 32, 32, 3) in 0..255; the paper's 2,031 is a slip."""
    (file,) = sources.CIFAR101.files
    return formats.read_npy_images(sources.obtain(sources.CIFAR101, file, folder))


def _images(path: Path) -> NDArray[np.uint8]:
    (images,) = formats.read_arrays(path, ("images",))
    return images.astype(np.uint8)


def images_for_paper(images: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Resize images (N, height, width[, 3]) to size x size by bilinear interpolation.

    The paper has 32 for MNIST and 64 for CIFAR. The authors resize with Pillow; this gives the same
    bytes. They then map 0..255 to [-1, 1], which is not done here: a test scales what it is given.
    """
    grey = images.ndim == 3
    pixels = torch.from_numpy(np.ascontiguousarray(images))
    pixels = pixels[:, None] if grey else pixels.permute(0, 3, 1, 2)  # (N, C, H, W)
    # Pillow smooths where it shrinks an image, as `antialias` does.
    resized = torch.nn.functional.interpolate(
        pixels, size=(size, size), mode="bilinear", antialias=True
    )
    resized = resized[:, 0] if grey else resized.permute(0, 2, 3, 1)
    return resized.contiguous().numpy()


# Training and test sets from a pool of rows


class Pools:
    """A training set, and test sets dealt from the rows that it left over; made by `disjoint`.

    Attributes
    ----------
    train
        The two samples to train on.
    """

    def __init__(self, decks: tuple[_Deck, ...], train: tuple[int, int]) -> None:
        self._decks = decks
        self.train = self.test(*train)
        for deck in decks:
            # So that no row of the training set comes into a test set.
            deck.discard()

    def test(self, n: int, m: int | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the next test set, of n and m rows (or n and n), none of which was trained on.

        No two test sets share a row until the pool is used up; then it is shuffled and dealt anew.
        """
        m = n if m is None else m
        if len(self._decks) == 1:  # the null hypothesis: both samples come from one deck
            x, y = self._decks[0].deal(n, m)
        else:
            (x,) = self._decks[0].deal(n)
            (y,) = self._decks[1].deal(m)
        return x, y

    def repeats(self, n: int, m: int | None = None) -> int:
        """Return how many test sets of n and m rows there are before rows come again.

        A table of more test sets has to say so.
        """
        m = n if m is None else m
        if len(self._decks) == 1:
            return len(self._decks[0]) // (n + m)
        x, y = self._decks
        return min(len(x) // n, len(y) // m)


class _Deck:
    """Rows in random order, dealt like cards: none twice before all were dealt."""

    def __init__(self, rows: NDArray[Any], generator: np.random.Generator) -> None:
        self.rows = rows
        self.generator = generator
        self.order = generator.permutation(len(rows))
        self.dealt = 0

    def __len__(self) -> int:
        return len(self.order)

    def deal(self, *sizes: int) -> list[NDArray[Any]]:
        """Return the next rows, as many as `sizes` say, none of them twice."""
        total = sum(sizes)
        if total > len(self.order):
            raise InputError(
                f"{total} rows are wanted of a pool that has {len(self.order)}; take smaller "
                "samples."
            )
        if self.dealt + total > len(self.order):
            # All rows are shuffled, also those that are left: a set from two shuffles might hold
            # a row twice.
            self.generator.shuffle(self.order)
            self.dealt = 0
        hands = []
        for size in sizes:
            hands.append(self.rows[self.order[self.dealt : self.dealt + size]])
            self.dealt += size
        return hands

    def discard(self) -> None:
        """Never deal again what was dealt so far."""
        self.order = self.order[self.dealt :]
        self.dealt = 0


@takes_rng
def disjoint(
    x: NDArray[Any],
    y: NDArray[Any] | None,
    train: int | tuple[int, int],
    rng: RNGLike | None = None,
) -> Pools:
    """Draw a training set, and keep the other rows for test sets.

    Parameters
    ----------
    x, y
        The rows on hand of P and of Q. None for y is the null hypothesis: both samples come from x,
        and share no row.
    train
        How many rows to train on: of each sample, or (of x, of y).
    rng
        Decides every draw, in the order in which they are made.

    Examples
    --------
    >>> pools = disjoint(np.arange(100), np.arange(60), train=20, rng=0)
    >>> [len(sample) for sample in pools.train], [len(sample) for sample in pools.test(20)]
    ([20, 20], [20, 20])
    >>> pools.repeats(20)  # of 80 and 40 rows that are left
    2
    """
    generator = np.random.default_rng(rng)
    # One generator for both, so that one seed decides everything.
    decks = tuple(_Deck(rows, generator) for rows in (x, y) if rows is not None)
    return Pools(decks, (train, train) if isinstance(train, int) else train)
