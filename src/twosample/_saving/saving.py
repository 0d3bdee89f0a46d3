"""Fitted tests in files: safetensors with a JSON header, never pickle.

`packing` takes a test to pieces for the header and the tensors of a file, and `unpacking` puts it
together. Here is what makes a file reliable. It is replaced as a whole or not at all. A reader
checks the version and every byte before it believes any of it. The checksum finds damage; whoever
alters a file on purpose can compute a new one, and then meets the checks of `unpacking`.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

import numpy as np
import torch
from safetensors.torch import load as tensors_of
from safetensors.torch import save as as_bytes
from torch import Tensor

from .._two_sample import FittedTest, choose_device
from .._version import __version__
from ..errors import InputError, TwoSampleError
from .packing import pack
from .unpacking import unpack, words

FORMAT = 1
"""The version of the files that are written; later ones are refused."""

PathLike: TypeAlias = str | os.PathLike[str]
Names: TypeAlias = Mapping[str, Any]
"""Name -> note, or name of a class -> part."""

_MOST_HEADER = 2**24  # bytes; ten thousand columns take about one million
_UNSIGNED = "0" * 64  # in the place of the checksum while it is computed


class Saved(NamedTuple):
    """What a file holds: the fitted test, and when, by what and of what it was made."""

    fitted: FittedTest
    provenance: dict[str, Any]


def save(fitted: FittedTest, path: PathLike, *, notes: Names | None = None) -> None:
    """Write a fitted test to a file: `FittedTest.save`.

    It is written beside its place, and moved there once all of it is on the disk. Whatever fails,
    and whenever the program is killed, a reader finds the file from before or the new one.
    """
    file = writable(path)
    content, own = _content(fitted, notes)
    # Better an error now than a file that cannot be read.
    with _blaming("the test cannot be saved, since it could not be read again"):
        _opened(content, own)
    replace(file, content)


def load(
    path: PathLike, *, parts: Mapping[str, Any] | None = None, device: str = "auto"
) -> FittedTest:
    """Read a fitted test that `FittedTest.save` has written.

    It gives the results that it gave then, to the bit.

    Nothing in a file is run, and nothing is imported because a file says so.

    Parameters
    ----------
    path
        The file.
    parts
        The parts of your own classes, by the names of the classes: `{"MyNet": MyNet(2, 30)}`, or
        `{"MyNet": MyNet}` if it takes no arguments. A file has the parameters of your networks, not
        their code. Several parts of one class must be alike.
    device
        Where to test: "auto", "cpu", "cuda", ...

    Raises
    ------
    InputError
        If the file is damaged, is something else, was made by a later version, or needs a part that
        was not given.

    Examples
    --------
    >>> import numpy as np, tempfile, twosample
    >>> rng = np.random.default_rng(0)
    >>> fitted = twosample.mmd_o().fit(rng.normal(size=(100, 2)), rng.normal(size=(80, 2)), rng=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fitted.save(f"{folder}/kernel.safetensors")
    ...     again = twosample.load(f"{folder}/kernel.safetensors")
    >>> X, Y = rng.normal(size=(50, 2)), rng.normal(size=(50, 2))
    >>> again.test(X, Y, rng=0).statistic == fitted.test(X, Y, rng=0).statistic
    True
    """
    return read(path, parts=parts, device=device).fitted


def read(path: PathLike, *, parts: Names | None = None, device: str = "auto") -> Saved:
    """As `load`, with the provenance of the test."""
    chosen = choose_device(device)  # which may refuse, before a large file is read
    content = content_of(Path(path))
    with _blaming(f"{path} cannot be used"):
        saved = _opened(content, parts or {})
    saved.fitted.representation.to(chosen)
    return saved


# A test to bytes and back.


def _content(fitted: FittedTest, notes: Names | None) -> tuple[bytes, Names]:
    """What to write, and the parts of which it has only the names."""
    packed = pack(fitted)
    header = {
        "format": FORMAT,
        "provenance": _provenance(fitted, notes),
        "test": packed.tree,
    }
    try:
        text = json.dumps(header, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the notes cannot be kept ({error}); give strings, numbers and lists of them."
        ) from error
    return signed(text, packed.tensors), packed.own


def signed(header: str, tensors: dict[str, Tensor]) -> bytes:
    """A safetensors file with this header, in JSON, and a checksum of all of it."""
    # The checksum is part of what it is a checksum of, so zeros stand in its place at first.
    unsigned = as_bytes(tensors, {"twosample": header, "sha256": _UNSIGNED})
    return _resigned(unsigned, _UNSIGNED, _digest(unsigned))


def _provenance(fitted: FittedTest, notes: Names | None) -> dict[str, Any]:
    """When, by what and of what a file was made."""
    parameters = fitted.representation.parameters()
    devices = [parameter.device.type for parameter in parameters]
    return {
        "saved": datetime.now(UTC).isoformat(timespec="seconds"),
        "twosample": __version__,
        "torch": torch.__version__.partition("+")[0],
        "numpy": np.__version__,
        "python": platform.python_version(),
        "device": devices[0] if devices else "cpu",
        "train_sizes": None if fitted.train_sizes is None else list(fitted.train_sizes),
        "notes": {} if notes is None else dict(notes),
    }


def _opened(content: bytes, own: Names) -> Saved:
    header, tensors = verified(content)
    provenance = header.get("provenance")
    keys_are_right = set(header) == {"format", "provenance", "test"}
    if not keys_are_right or type(provenance) is not dict:
        raise InputError("its header is not that of a fitted test.")
    fitted = unpack(header["test"], tensors, own)
    return Saved(fitted, provenance)


def verified(
    content: bytes, newest: int = FORMAT, what: str = "a fitted test"
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors, if the version is at most `newest` and the checksum right."""
    # A safetensors file: the length of its header in 8 bytes, the header as JSON, the tensors.
    length = int.from_bytes(content[:8], "little")
    if length > _MOST_HEADER:
        raise InputError(
            f"its header takes {length:,} bytes, and at most {_MOST_HEADER:,} are read."
        )
    end = 8 + length
    metadata = _object(content[8:end]).get("__metadata__")
    if type(metadata) is not dict or type(metadata.get("twosample")) is not str:
        raise InputError(f"it is a safetensors file, but does not hold {what}.")
    header = _object(metadata["twosample"])
    # The version comes first: of a later format nobody here knows how it is signed.
    version = header.get("format")
    if type(version) is not int or version < 1:
        raise InputError("it does not say which version of the format it has.")
    if version > newest:
        raise InputError(
            f"it was made by a later version of twosample: its format is {version}, and twosample "
            f"{__version__} reads up to {newest}. Upgrade twosample."
        )
    signature = metadata.get("sha256")
    is_right = False
    if type(signature) is str:
        unsigned = _resigned(content, signature, _UNSIGNED)
        is_right = _digest(unsigned) == signature
    if not is_right:
        raise InputError("its checksum is not that of its content: it was altered, or cut short.")
    return header, tensors_of(content)


def _object(text: str | bytes) -> dict[str, Any]:
    """A JSON object; NaN and Infinity are not JSON."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    header = json.loads(text, parse_constant=refuse)
    if type(header) is not dict:
        raise ValueError("the header is no object")
    return header


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _resigned(content: bytes, old: str, new: str) -> bytes:
    """The content with another checksum in it."""
    # Within JSON strings quotes are escaped, so no other place looks like this one.
    before = f'"sha256":"{old}"'.encode()
    after = f'"sha256":"{new}"'.encode()
    return content.replace(before, after, 1)


@contextmanager
def _blaming(problem: str) -> Iterator[None]:
    """Put whatever goes wrong into one sentence: here any failure is that of the content."""
    try:
        yield
    except TwoSampleError as error:
        raise InputError(f"{problem}: {error}") from error
    except Exception as error:
        raise InputError(f"{problem}: it is damaged ({words(error)}).") from error


# Bytes to a disk and back.

_A_DAY = 24 * 3600.0  # seconds; nothing takes that long to write
_SECONDS_TO_LOCK = 10.0  # for a process to lock a file that it has made


def writable(path: PathLike) -> Path:
    """The file that a path leads to, if it can be written.

    Better asked before training than after it.
    """
    try:
        file = Path(os.path.realpath(path))  # a link stays a link
        folder = file.parent
        there = file.exists()
        # The folder as well as the file: a new file is moved to its place.
        touched = [folder, file] if there else [folder]
        if file.is_dir():
            problem = "is a folder; give the name of a file in it"
        elif there and not file.is_file():
            problem = "is no ordinary file; give the name of one"
        elif not folder.is_dir():
            problem = f"cannot be written, because there is no folder {folder}; make it first"
        elif not all(os.access(place, os.W_OK) for place in touched):
            problem = "may not be written by this user; choose another place"
        else:
            return file
    except (OSError, ValueError) as error:  # a name that is too long, a NUL in it
        problem = f"cannot be written ({words(error)}); choose another name"
    raise InputError(f"{path} {problem}.")


def replace(file: Path, content: bytes) -> None:
    """Write a file beside its place and move it there once all of it is on the disk."""
    # In the same folder: a move to another disk would be a copy, which may stop halfway.
    beside = file.with_name(f".twosample-{secrets.token_hex(8)}.part")
    with suppress(OSError):  # a folder that cannot be listed may still be written to
        _remove_abandoned(file.parent)
    try:
        with beside.open("xb") as stream:
            lock(stream)  # so that nobody takes it for one that was left behind
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if file.exists():
            shutil.copymode(file, beside)
        os.replace(beside, file)
    except OSError as error:
        raise InputError(
            f"{file} cannot be written ({words(error)}); what was there before still is."
        ) from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
    with suppress(OSError):  # some systems do not open folders
        _synchronise(file.parent)


def _remove_abandoned(folder: Path) -> None:
    """Remove what killed processes have left of files that they were writing here."""
    for beside in folder.glob(".twosample-*.part"):
        # Others may remove it at the same time, or it may be that of another user.
        with suppress(OSError):
            age = time.time() - beside.stat().st_mtime
            with beside.open("r+b") as stream:
                locked = lock(stream)
            # Where nothing can be locked, age alone has to tell.
            enough = _A_DAY if locked is None else _SECONDS_TO_LOCK
            if locked is not False and age > enough:
                beside.unlink()


def lock(stream: IO[bytes]) -> bool | None:
    """Lock a file until it is closed; False if another process has done so, None if nobody can.

    The lock of a process goes with it, however it ends, and holds on other machines, too.
    """
    try:
        import fcntl

        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):  # on Windows; on some disks of other machines
        return None
    return True


def _synchronise(folder: Path) -> None:
    """Put the names of a folder on the disk, too, against a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def content_of(file: Path) -> bytes:
    """The content of a file, which is read to its end only if it begins as it should."""
    try:
        if not file.exists():
            problem = f"does not exist; check the path (seen from {Path.cwd()})"
        elif file.is_dir():
            problem = "is a folder; give a file"
        elif not file.is_file():  # a pipe might never end
            problem = "is no ordinary file; give one"
        else:
            with file.open("rb") as stream:
                size = os.fstat(stream.fileno()).st_size
                start = stream.read(9)
                length = int.from_bytes(start[:8], "little")
                has_header = start[8:] == b"{"
                if has_header and length + 8 <= size:
                    return start + stream.read()
            problem = (
                "is not a safetensors file, or has been cut short; give one that `save` has written"
            )
    except (OSError, ValueError) as error:
        problem = f"cannot be read ({words(error)})"
    raise InputError(f"{file} {problem}.")
