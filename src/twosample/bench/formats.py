"""The formats in which the real data sets are published, and the compact one (NPZ) used here.

Nothing is unpickled: of CIFAR-10 the binary version is read, not the Python one.
"""

from __future__ import annotations

import gzip
import os
import re
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._files.handles import told_about as _told_about
from .._progress import bar
from ..errors import InputError

HIGGS_COLUMNS = (
    *("lepton_pT", "lepton_eta", "lepton_phi", "missing_energy_magnitude", "missing_energy_phi"),
    *(f"jet_{jet}_{quantity}" for jet in range(1, 5) for quantity in ("pt", "eta", "phi", "b_tag")),
    *("m_jj", "m_jjj", "m_lv", "m_jlv", "m_bb", "m_wbb", "m_wwbb"),
)
"""The columns of UCI's file after the label, in its order."""

_ROWS = 2**16  # rows of a table at a time: some 40 MB as text, 8 as float32
_CIFAR_RECORD = 1 + 3 * 32 * 32  # a label, then the planes red, green and blue


# Images


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read the images (N, height, width) of a gzipped IDX file, the format of MNIST."""
    with _told_about(path), gzip.open(path) as stream:
        kind, *shape = np.frombuffer(stream.read(16), dtype=">u4").tolist()
        if kind != 0x0803:  # unsigned bytes in three dimensions
            raise InputError(f"{path} does not begin as a file of images in IDX format does.")
        return np.frombuffer(stream.read(), dtype=np.uint8).reshape(shape)


def read_cifar10(path: Path, members: str) -> NDArray[np.uint8]:
    """Read images (N, 32, 32, 3) from the files of CIFAR-10's binary archive whose names match."""
    batches = {}
    with _told_about(path), tarfile.open(path, "r|gz") as archive:
        for member in archive:
            name = Path(member.name).name
            if not re.fullmatch(members, name):
                continue
            content = archive.extractfile(member)
            if content is None:  # a folder of that name
                continue
            records = np.frombuffer(content.read(), dtype=np.uint8).reshape(-1, _CIFAR_RECORD)
            planes = records[:, 1:].reshape(-1, 3, 32, 32)
            batches[name] = planes.transpose(0, 2, 3, 1)
    if not batches:
        raise InputError(
            f"{path} holds no file like {members}; it should be the binary version of CIFAR-10."
        )
    # By name, since the order of an archive means nothing: "data" comes before "test".
    return np.concatenate([batches[name] for name in sorted(batches)])


def read_npy_images(path: Path) -> NDArray[np.uint8]:
    """Read images (N, 32, 32, 3) from an NPY file, the format of CIFAR-10.1."""
    with _told_about(path):
        images: NDArray[np.uint8] = np.load(path, allow_pickle=False)
    if images.dtype != np.uint8 or images.shape[1:] != (32, 32, 3):
        raise InputError(
            f"{path} holds {images.dtype} {images.shape}; CIFAR-10.1 is uint8 (N, 32, 32, 3)."
        )
    return images


# The compact format


def read_arrays(path: Path, names: Sequence[str]) -> list[NDArray[Any]]:
    """Read arrays of an NPZ file by their names."""
    with _told_about(path), np.load(path, allow_pickle=False) as archive:
        missing = [name for name in names if name not in archive]
        if missing:
            raise InputError(
                f"{path} lacks the array {missing[0]!r}; it holds {', '.join(archive.files)}."
            )
        return [archive[name] for name in names]


def read_columns(path: Path, name: str, wanted: Sequence[int]) -> NDArray[np.float32]:
    """Read some columns of a matrix in an NPZ file, a part at a time: all of HIGGS takes 1.2 GB."""
    with _told_about(path), zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as stream:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise InputError(
                f"{path} holds {name} in a later version of the NPY format than is read here."
            )
        (rows, width), by_column, kind = np.lib.format.read_array_header_1_0(stream)
        if by_column or kind != np.float32:
            raise InputError(f"{path} holds {name} as {kind}; it must be float32, row by row.")
        columns = np.empty((rows, len(wanted)), dtype=np.float32)
        for start in range(0, rows, _ROWS):
            part = columns[start : start + _ROWS]
            content = stream.read(len(part) * width * kind.itemsize)
            table = np.frombuffer(content, dtype=kind).reshape(-1, width)
            part[:] = table[:, wanted]
        return columns


def write_arrays(path: Path, **arrays: NDArray[Any]) -> None:
    """Write an NPZ file that is there complete or not at all."""
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as output:
            # mypy takes an array for `allow_pickle`, which older versions of NumPy do not have.
            np.savez(output, **arrays)  # type: ignore[arg-type]
            output.flush()
            os.fsync(output.fileno())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(
        f"{path} cannot be written ({error.strerror or error}); make room, or choose another place."
    )


def compact_higgs(source: Path, target: Path, *, progress: bool | None = None) -> None:
    """Convert UCI's HIGGS.csv.gz to an NPZ file: features, label (1 is signal), columns.

    Features are float32 (N, 28), labels uint8 (N,). The text, 8 GB when unpacked, goes through
    memory some 65,000 rows at a time.
    """
    rows = target.with_name(f"{target.name}.rows")
    labels = []
    try:
        with rows.open("wb") as output:
            for table in _tables(source, progress):
                labels.append(table[:, 0].astype(np.uint8))
                output.write(np.ascontiguousarray(table[:, 1:]).tobytes())
        features = np.memmap(rows, dtype=np.float32, mode="r").reshape(-1, len(HIGGS_COLUMNS))
        write_arrays(
            target, features=features, label=np.concatenate(labels), columns=np.array(HIGGS_COLUMNS)
        )
    except OSError as error:
        raise _unwritable(rows, error) from error
    finally:
        rows.unlink(missing_ok=True)


def _tables(source: Path, progress: bool | None) -> Iterator[NDArray[np.float32]]:
    """Yield the rows of a gzipped CSV file without header, label first, a table at a time."""
    done = 0
    with (
        _told_about(source),
        source.open("rb") as packed,
        gzip.open(packed, "rt", encoding="ascii") as lines,
        bar(f"reading {source.name}", 1000, progress) as tick,
    ):
        size = source.stat().st_size
        shown = 0
        while text := list(islice(lines, _ROWS)):
            table = _parsed(text, source, done)
            yield table
            done += len(table)
            # Progress counts bytes: how many rows there are is known only at the end.
            while shown < 1000 * packed.tell() // size:
                tick(f"{done:,} rows")
                shown += 1
    if not done:
        raise InputError(f"{source} holds no rows.")


def _parsed(text: Sequence[str], source: Path, done: int) -> NDArray[np.float32]:
    """Parse lines of HIGGS into a table; an error names the lines."""
    try:
        table: NDArray[np.float32] = np.loadtxt(
            text, delimiter=",", dtype=np.float32, ndmin=2, comments=None
        )
    except ValueError as error:
        raise InputError(f"{source}, in the lines after {done:,}: {error}.") from error
    labelled = np.isin(table[:, 0], (0, 1)).all()
    if table.shape[1] != 1 + len(HIGGS_COLUMNS) or not labelled:
        raise InputError(
            f"{source}, in the lines after {done:,}: not the columns of HIGGS, a label (0 or 1) "
            "and 28 numbers."
        )
    return table
