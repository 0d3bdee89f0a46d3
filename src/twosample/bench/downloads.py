"""Downloads of files whose content is known: fetched once, checked, and continued after a stop.

pooch keeps a file in the cache only after its SHA-256 has been checked. This module adds what pooch
lacks: a download that breaks off leaves a `.part` file, never one that looks complete, and the next
download goes on from there.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._progress import bar
from ..errors import InputError, MissingDependency

if TYPE_CHECKING:
    import requests

# Bytes written at a time: one tick of the progress bar, and all that a broken connection can lose.
_BLOCK = 2**16
_PATIENCE = 30.0  # seconds in which a server has to answer, or to send more


@dataclass(frozen=True)
class RemoteFile:
    """A file whose content is known: its SHA-256 and its size in bytes.

    Of the places that serve it, the first is asked first.
    """

    name: str
    urls: tuple[str, ...]
    sha256: str
    size: int


def cache_folder() -> Path:
    """Return where downloads are kept.

    The environment variable TWOSAMPLE_CACHE says so, else it is the user's folder for caches.
    """
    folder = os.environ.get("TWOSAMPLE_CACHE") or _pooch().os_cache("twosample")
    return Path(folder).expanduser()


def cached(file: RemoteFile) -> Path | None:
    """Return where the file is in the cache, or None."""
    path = cache_folder() / file.name
    # Its size is enough to look at: a file gets there only with the right checksum.
    return path if path.is_file() and path.stat().st_size == file.size else None


def fetch(file: RemoteFile, *, progress: bool | None = None) -> Path:
    """Return the file, from the cache or else from the first of its places that gives it.

    `progress` shows a bar: True, False, or None for only on a terminal.

    Raises
    ------
    InputError
        If no place gives the file with the known content, or if the cache cannot be written.
    MissingDependency
        If pooch is not installed.
    """
    pooch = _pooch()
    folder = cache_folder()
    pooch.get_logger().setLevel("WARNING")  # else it announces every file on standard error
    downloader = _Continued(folder / f"{file.name}.part", file, progress)
    checksum = f"sha256:{file.sha256}"
    failures = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with alone(folder / file.name):
            for url in file.urls:
                try:
                    path = pooch.retrieve(url, checksum, file.name, folder, downloader=downloader)
                except _failures() as error:
                    failures.append(f"{url} ({_reason(error)})")
                else:
                    return Path(path)
    except OSError as error:
        raise InputError(
            f"{file.name} cannot be kept in {folder}: {error.strerror or error}; "
            "set the environment variable TWOSAMPLE_CACHE to a folder with room for it."
        ) from error
    raise InputError(f"{file.name} cannot be downloaded from {' or from '.join(failures)}.")


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keep other processes from making the file at `path`; they wait, and then find it there."""
    try:
        import fcntl
    except ImportError:
        # Without locks two processes at worst do the same work. Each moves its file there whole.
        yield
        return
    with (path.parent / f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class _Continued:
    """Downloads a file for pooch, and goes on with what is there of it already."""

    def __init__(self, partial: Path, file: RemoteFile, progress: bool | None) -> None:
        self.partial = partial
        self.file = file
        self.progress = progress

    def __call__(
        self, url: str, output_file: Any, pooch: Any, *, check_only: bool | None = None
    ) -> None:
        import requests

        broken_off = (
            requests.ConnectionError,
            requests.Timeout,
            requests.exceptions.ChunkedEncodingError,
        )
        while (before := self._received()) != self.file.size:
            try:
                self._receive(url, before)
                break
            except broken_off:
                # As long as each attempt brings something, another one is worth it.
                if self._received() <= before:
                    raise
        os.replace(self.partial, output_file)  # pooch checks it there, and keeps or removes it

    def _received(self) -> int:
        return self.partial.stat().st_size if self.partial.exists() else 0

    def _receive(self, url: str, start: int) -> None:
        """Append from byte `start` on, or begin again with a server that cannot continue."""
        import requests

        headers = {"Accept-Encoding": "identity"}  # else bytes would count a compressed stream
        if start:
            headers["Range"] = f"bytes={start}-"
        with requests.get(url, headers=headers, stream=True, timeout=_PATIENCE) as response:
            # "Range not satisfiable": what is there is too long to be a part of this file.
            if start and response.status_code == 416:
                return self._receive(url, 0)
            response.raise_for_status()
            if not _continues(response, start):
                start = 0
            blocks = math.ceil((self.file.size - start) / _BLOCK)
            with (
                self.partial.open("ab" if start else "wb") as output,
                bar(self.file.name, blocks, self.progress) as tick,
            ):
                for block in response.iter_content(_BLOCK):
                    output.write(block)
                    tick("")


def _continues(response: requests.Response, start: int) -> bool:
    """Return whether a response is the rest of the file from byte `start` on."""
    content_range = response.headers.get("Content-Range", "")
    return response.status_code == 206 and content_range.startswith(f"bytes {start}-")


def _pooch() -> Any:
    try:
        import pooch
    except ImportError as error:
        raise MissingDependency("downloads take pooch; pip install 'twosample[bench]'.") from error
    return pooch


def _failures() -> tuple[type[Exception], ...]:
    """Return the errors that mean that a place does not give the file."""
    import requests

    # No answer or a refusal; and what pooch raises for a wrong checksum.
    return requests.RequestException, ValueError


def _reason(error: Exception) -> str:
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"it answered {error.response.status_code} {error.response.reason}".rstrip()
    if isinstance(error, requests.Timeout):
        return "it did not answer in time"
    if isinstance(error, requests.RequestException):
        return "no connection"
    return "what it gave has another SHA-256, and was thrown away"
