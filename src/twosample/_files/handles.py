"""What all readers of files share: opening one, and errors as sentences that name it."""

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

_PASSWORD = re.compile(r"(?P<before>[a-z][a-z0-9+]*://[^/@\s:]*):[^/\s]*@", re.IGNORECASE)


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
    # A name may be too long or contain a NUL, and a device may fail.
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be opened: {sentence(error)}") from error
    with stream:
        if is_zipped(file):
            # A GzipFile has all that a BufferedReader asks for, though its type does not say so.
            unzipped = cast("io.RawIOBase", gzip.GzipFile(fileobj=stream))
            yield io.BufferedReader(unzipped)
        else:
            yield stream


@contextmanager
def told_about(file: Path) -> Iterator[None]:
    """Turn whatever a parser raises into a sentence that names the file, which must be at fault."""
    try:
        yield
    except (TwoSampleError, Warning):  # a warning is raised where the user wants that
        raise
    except MemoryError as error:
        raise InputError(f"{file} does not fit into memory, or its header is damaged.") from error
    except Exception as error:
        if "allow_pickle" in str(error):
            raise InputError(
                f"{file} holds Python objects, which are never unpickled; save numbers."
            ) from error
        raise InputError(
            f"{_unreadable(file)}: {sentence(error)} Is it damaged, cut short or misnamed?"
        ) from error
    except BaseException as error:
        # When polars panics it raises a class of its own, which is not an Exception.
        if type(error).__name__ != "PanicException":
            raise
        raise InputError(f"{_unreadable(file)}: it is damaged.") from error


def _unreadable(file: Path) -> str:
    return f"{file} cannot be read as {file.suffix[1:].lower()}"


def empty(file: Path) -> InputError:
    """What to say of a file without a byte."""
    return InputError(f"{file} is empty (0 bytes); was it written completely?")


def sentence(error: BaseException) -> str:
    """The first line of a foreign message, ending in a full stop."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror
    lines = text.strip().splitlines()
    first = lines[0] if lines else type(error).__name__
    # An address in memory tells a user nothing.
    first = re.sub(r"<[\w.]+ object at 0x[0-9a-f]+>", "something else", first)
    return first[:200].rstrip(" .:") + "."


def is_zipped(file: Path) -> bool:
    """Whether it is a compressed file."""
    return file.suffix.lower() == ".gz"


def ending_of(file: Path) -> str:
    """What says the kind of a file, such as .csv or .csv.gz."""
    if is_zipped(file):
        return file.with_suffix("").suffix.lower() + ".gz"
    return file.suffix.lower()


def without_password(name: str) -> str:
    """An address as it may be shown: nobody else should read the password."""
    return _PASSWORD.sub(r"\g<before>:***@", name)


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
# What a child process does. A table of more than `room` bytes is read in parts, so not here.
_READ = """
import sys
import polars
reader, file, room, memory = sys.argv[1:]
try:
    import resource
    resource.setrlimit(resource.RLIMIT_DATA, (int(memory), int(memory)))
except (ImportError, ValueError, OSError, OverflowError):
    pass
if reader == "read_ipc_stream":
    polars.read_ipc_stream(file)
    sys.exit()
if reader == "read_excel":
    tables = polars.read_excel(file, sheet_id=0, raise_if_empty=False)
    print(sum(8 * table.height * table.width for table in tables.values()))
    sys.exit()
if reader == "read_parquet":
    table = polars.scan_parquet(file, glob=False, hive_partitioning=False)
else:
    table = polars.scan_ipc(file, glob=False, hive_partitioning=False)
size = 8 * table.select(polars.len()).collect().item() * len(table.collect_schema())
print(size)
if size <= int(room):
    table.collect()
"""


def check_survival(file: Path, reader: str, room: int, memory: int) -> int:
    """Refuse a file over which polars would end this process: a child process reads it first.

    If lengths in the file are damaged, polars asks for as much memory as they say. Where there is
    not so much, it aborts, which no `except` sees. Large files are not checked, because that would
    take as long as reading them.

    Parameters
    ----------
    file
        A Parquet, Arrow or Excel file.
    reader
        The function of polars that reads it.
    room
        Bytes in memory beyond which a table is read in parts.
    memory
        Bytes that the child process may take.

    Returns
    -------
    int
        Bytes that the table takes in memory, by the rows and columns it says it has; 0 if it does
        not say.
    """
    if not sys.executable or not file.is_file() or file.stat().st_size > _CHECKED:
        return 0
    # -P: a file called polars.py in the user's folder is not ours to run.
    command = [sys.executable, "-P", "-c", _READ, reader, str(file.absolute())]
    # A gibibyte more, for Python and polars themselves.
    command += [str(room), str(memory + 2**30)]
    child = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    # 0: it was read. 1: it was refused, and this process will say why. -9: memory was short.
    if child.returncode not in (0, 1, -9):
        raise InputError(f"{_unreadable(file)}: it is damaged, or takes more memory than is free.")
    size = child.stdout.strip()
    return int(size) if size.isdigit() else 0


class _Unheard:
    """Sends standard error to nowhere while polars reads binary files.

    When polars panics, it writes a backtrace there before it raises. The descriptor belongs to the
    whole process, so the last of several threads to leave brings it back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0  # threads
        self._kept = -1  # a copy of the descriptor of standard error, while it is diverted

    def __enter__(self) -> None:
        with self._lock, suppress(OSError):  # a process may have closed it
            if not self._inside:
                if sys.stderr is not None:
                    sys.stderr.flush()
                self._kept = os.dup(2)
                nowhere = os.open(os.devnull, os.O_WRONLY)
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
