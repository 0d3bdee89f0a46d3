"""Scenarios of the arena on the data sets of the paper.

The paper trains on one set and tests on another of the same size. In the arena a test gets the
rows of both: 18 n_b a sample for Blob, and N a sample where the paper has N rows in two samples.
"""

from __future__ import annotations

import io
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import MissingDependency
from .. import datasets
from .scenario import Draw, Pair, Scenario

_GROUP = "paper"
_FAINT = 16  # grey levels below this are left where a generator's background is not quite black
_CONTRAST = 0.94  # of Y's photographs, where those of X have 1
_JPEG_QUALITY = 90  # a mild compression
# Those of the paper's tables.
_HIGGS_ROWS = (1000, 2000, 3000, 5000, 8000, 10000)
_DIGIT_ROWS = (200, 400, 600, 800, 1000)


def blob(modes: int) -> Scenario:
    """Blob with n_b = `modes` rows a mode to train on, and as many to test."""
    rows = 18 * modes

    def pair(rng: np.random.Generator, different: bool) -> Pair:
        return datasets.blob(rows, different=different, rng=rng)

    about = "nine Gaussians in the plane, each leaning otherwise"
    return Scenario(f"blob-{modes}", _GROUP, about, (rows, rows), "numbers", pair)


def hdgm(dimension: int, rows: int) -> Scenario:
    """HDGM: two Gaussians, in each of which two of the columns are correlated otherwise."""

    def pair(rng: np.random.Generator, different: bool) -> Pair:
        return datasets.hdgm(rows, dimension=dimension, different=different, rng=rng)

    about = f"two Gaussians in {dimension} columns, two of them correlated otherwise"
    name = f"hdgm-{dimension}-{rows}"
    return Scenario(name, _GROUP, about, (rows, rows), "numbers", pair)


def higgs(rows: int) -> Scenario:
    """Background and signal of HIGGS in four angles of jets; the null is background twice."""
    about = "background and signal, four angles of jets"
    pair = _from_pools(_higgs_pools, rows)
    return Scenario(f"higgs-{rows}", _GROUP, about, (rows, rows), "numbers", pair)


def digits(rows: int, *, faint: bool) -> Scenario:
    """Real digits and those of a DCGAN, with or without the faint pixels that give these away."""
    pools = _digit_pools if faint else _clean_digit_pools
    how = "with" if faint else "without"
    about = f"real digits and those of a DCGAN, {how} faint pixels"
    name = f"digits-{rows}" if faint else f"digits-clean-{rows}"
    return Scenario(name, _GROUP, about, (rows, rows), "images", _from_pools(pools, rows))


def cifar_jpeg(rows: int, share: float) -> Scenario:
    """Photographs, and others of which a share was compressed as JPEG; in the null version none.

    A test that sees patches finds 200 photographs that were all compressed, even at a quality of
    95, in 10 of 10 draws. So there are larger samples with a smaller share, too.
    """

    def pair(rng: np.random.Generator, different: bool) -> Pair:
        x, y = _two_sets(rng, rows)
        if different:
            traced = rng.random(rows) < share
            y[traced] = _compressed(y[traced])
        return x, y

    about = f"traces of JPEG in {share:.0%} of the photographs".replace("%", " %")
    return Scenario(f"cifar-jpeg-{rows}", _GROUP, about, (rows, rows), "images", pair)


def cifar_contrast(rows: int) -> Scenario:
    """Photographs without any trace of JPEG, of which Y's have less contrast."""

    def pair(rng: np.random.Generator, different: bool) -> Pair:
        x, y = _two_sets(rng, rows)
        if different:
            grey = y.mean(axis=(1, 2, 3), keepdims=True)
            y = np.round(grey + _CONTRAST * (y - grey)).astype(np.uint8)
        return x, y

    about = "photographs of less contrast, without traces of JPEG"
    return Scenario(f"cifar-contrast-{rows}", _GROUP, about, (rows, rows), "images", pair)


def _two_sets(rng: np.random.Generator, rows: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Draw photographs, none of them twice."""
    photographs = _photographs()
    chosen = rng.permutation(len(photographs))[: 2 * rows]
    return photographs[chosen[:rows]], photographs[chosen[rows:]]


def _from_pools(pools: Any, rows: int) -> Draw:
    """Draw rows from two pools, none twice; under the null hypothesis all from the first."""

    def pair(rng: np.random.Generator, different: bool) -> Pair:
        of_x, of_y = pools()
        if not different:
            chosen = rng.permutation(len(of_x))[: 2 * rows]
            return of_x[chosen[:rows]], of_x[chosen[rows:]]
        x = of_x[rng.permutation(len(of_x))[:rows]]
        y = of_y[rng.permutation(len(of_y))[:rows]]
        return x, y

    return pair


# A process reads a data set once, for all of its trials.


@cache
def _higgs_pools() -> tuple[NDArray[Any], NDArray[Any]]:
    return datasets.higgs()


@cache
def _digit_pools() -> tuple[NDArray[Any], NDArray[Any]]:
    # The training images are all that the generator saw.
    return datasets.mnist()[:60000], datasets.fake_mnist()


@cache
def _clean_digit_pools() -> tuple[NDArray[Any], NDArray[Any]]:
    real, made = _digit_pools()
    black = np.uint8(0)
    return np.where(real < _FAINT, black, real), np.where(made < _FAINT, black, made)


@cache
def _photographs() -> NDArray[np.uint8]:
    return datasets.cifar10()


def _compressed(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Write images as JPEG and read them again."""
    try:
        from PIL import Image
    except ImportError:
        raise MissingDependency(
            "JPEG is written with Pillow; pip install 'twosample[images]'."
        ) from None
    again = []
    for image in images:
        file = io.BytesIO()
        Image.fromarray(image).save(file, "JPEG", quality=_JPEG_QUALITY)
        again.append(np.asarray(Image.open(file)))
    return np.stack(again)


SCENARIOS = (
    *(blob(modes) for modes in (10, 15, 20, 30, 40, 50, 100)),
    *(hdgm(dimension, 4000) for dimension in (5, 10, 15, 20, 30)),
    *(hdgm(dimension, 1000) for dimension in (5, 10)),
    *(hdgm(dimension, 1500) for dimension in (20, 30)),
    *(higgs(rows) for rows in _HIGGS_ROWS),
    *(digits(rows, faint=True) for rows in _DIGIT_ROWS),
    *(digits(rows, faint=False) for rows in (200, 400)),
    cifar_jpeg(200, 1.0),
    cifar_jpeg(500, 0.25),
    cifar_jpeg(1000, 0.22),
    cifar_contrast(500),
)

NULLS = (
    "blob-10",
    "blob-50",
    "hdgm-10-1000",
    "higgs-1000",
    "digits-200",
    "digits-clean-200",
    "cifar-jpeg-200",
)
"""The scenarios that are run without a difference, too."""

PUBLISHED = {
    "blob-40": ("blob-power", "n_b=40"),
    "hdgm-10-4000": ("hdgm-power", "N=4000"),
    **{f"higgs-{rows}": ("higgs-power", f"N={rows}") for rows in _HIGGS_ROWS},
    **{f"digits-{rows}": ("mnist-power", f"N={rows}") for rows in _DIGIT_ROWS},
}
"""Scenario -> experiment and row of it for which the paper prints numbers."""
