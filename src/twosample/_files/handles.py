"""What all readers of files share: opening one, and a sentence that names it for whatever goes wrong inside."""

from __future__ import annotations

import gzip
import io
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from ..errors import InputError, MissingDependency, TwoSampleError


@contextmanager
def opened(file: Path) -> Iterator[io.BufferedReader]:
    """The bytes of a file; of one that ends in .gz, those that were compressed."""
    try:
        stream = file.open("rb")
    except FileNotFoundError:
        raise InputError(
            f"{file} does not exist; check the path (seen from {Path.cwd()})."
        ) from None
    except PermissionError:
        raise InputError(f"{file} may not be read by this user; change its permissions.") from None
    except (
        OSError,
        ValueError,
    ) as error:  # a name that is too long, a NUL in it, a device that fails
        raise InputError(f"{file} cannot be opened: {sentence(error)}") from error
    with stream:
        # A GzipFile is all that a BufferedReader asks of a raw file, though its type does not say
        # so.
        yield (
            io.BufferedReader(cast("io.RawIOBase", gzip.GzipFile(fileobj=stream)))
            if is_zipped(file)
            else stream
        )


@contextmanager
def told_about(file: Path) -> Iterator[None]:
    """Turn whatever a parser raises into a sentence that names the file: there, any failure is the file's."""
    try:
        yield
    except TwoSampleError:
        raise
    except MemoryError as error:
        raise InputError(f"{file} does not fit into memory, or its header is damaged.") from error
    except Exception as error:
        if "allow_pickle" in str(error):
            raise InputError(
                f"{file} holds Python objects, which are never unpickled; save numbers."
            ) from error
        what = f"{file} cannot be read as {file.suffix[1:].lower()}: {sentence(error)}"
        raise InputError(f"{what} Is it damaged, cut short or misnamed?") from error
    except BaseException as error:
        if (
            type(error).__name__ != "PanicException"
        ):  # how polars fails where it should not; not an Exception
            raise
        raise _damaged(file) from error


def _damaged(file: Path) -> InputError:
    return InputError(f"{file} cannot be read as {file.suffix[1:].lower()}: it is damaged.")


def empty(file: Path) -> InputError:
    """What to say of a file without a byte."""
    return InputError(f"{file} is empty (0 bytes); was it written completely?")


def sentence(error: BaseException) -> str:
    """The first line of a foreign message, ending in a full stop."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    line = next(iter(text.strip().splitlines()), "") or type(error).__name__
    line = re.sub(r"<[\w.]+ object at 0x[0-9a-f]+>", "something else", line)
    return line[:200].rstrip(" .:") + "."


def is_zipped(file: Path) -> bool:
    """Whether it is a compressed file."""
    return file.suffix.lower() == ".gz"


def polars_for(file: Path) -> Any:
    """The module polars, which it takes to read the file."""
    try:
        import polars
    except ImportError as error:
        raise MissingDependency(
            f"{file} takes polars to read; pip install 'twosample[tables]'."
        ) from error
    return polars


_CHECKED = 2**26  # bytes of a file that may be read twice
_READ = "import polars, sys; getattr(polars, sys.argv[1])(sys.argv[2])"


def check_survival(file: Path, reader: str) -> None:
    """Refuse a file over which polars would end this process, by letting a child process read it first.

    If lengths in it are damaged, polars asks for as much memory as they say, and where there is
    none, it aborts: no `except` sees that. Larger files are not checked, because all of them would
    be read twice.

    Parameters
    ----------
    file
        A Parquet or Arrow file.
    reader
        The function of polars that reads it.
    """
    if not sys.executable or not file.is_file() or file.stat().st_size > _CHECKED:
        return
    # -P: a file called polars.py in the user's folder is not ours to run.
    child = subprocess.run(
        [sys.executable, "-P", "-c", _READ, reader, str(file.absolute())], stderr=subprocess.DEVNULL
    )
    if child.returncode not in (
        0,
        1,
        -9,
    ):  # it is read, it is refused as this process will say, memory was short
        raise _damaged(file)


class _Unheard:
    """Sends standard error to nowhere while polars reads binary files: it tells of a panic there before it raises.

    The descriptor is that of the whole process, so the last of several threads to leave brings it
    back.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._kept = threading.Lock(), 0, -1

    def __enter__(self) -> None:
        with self._lock, suppress(OSError):  # a process may have closed it
            if not self._inside:
                if sys.stderr is not None:
                    sys.stderr.flush()
                self._kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, 2)
                os.close(nowhere)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside = max(0, self._inside - 1)
            if not self._inside and self._kept >= 0:
                os.dup2(self._kept, 2)
                os.close(self._kept)
                self._kept = -1


unheard = _Unheard()
