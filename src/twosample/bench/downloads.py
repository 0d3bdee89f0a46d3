"""Files of fixed content from their canonical places: fetched once, checked, and continued where they stopped.

pooch keeps a file in the cache only after its SHA-256 has been checked. What it lacks is here: a
download that breaks off leaves a `.part` file, never one that looks complete, and goes on from
there the next time.
"""

from __future__ import annotations

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

_BLOCK = (
    2**16
)  # bytes written at a time: one tick of the progress bar, and the most that a broken connection loses
_PATIENCE = 30.0  # seconds in which a server has to answer, or to send more


@dataclass(frozen=True)
class RemoteFile:
    """A file whose content is known: its name, who serves it (the first is asked first), its SHA-256 and its bytes."""

    name: str
    urls: tuple[str, ...]
    sha256: str
    size: int


def cache_folder() -> Path:
    """Where downloads are kept: the environment variable TWOSAMPLE_CACHE, else the user's folder for caches."""
    return Path(os.environ.get("TWOSAMPLE_CACHE") or _pooch().os_cache("twosample")).expanduser()


def cached(file: RemoteFile) -> Path | None:
    """Where the file is in the cache, if it is; a file gets there only with the right checksum."""
    path = cache_folder() / file.name
    return path if path.is_file() and path.stat().st_size == file.size else None


def fetch(file: RemoteFile, *, progress: bool | None = None) -> Path:
    """The file, from the cache or else from the first of its places that gives it.

    `progress` shows a bar: True, False, or None for only on a terminal.

    Raises
    ------
    InputError
        If no place gives the file, or another than the one that is known; or if the cache cannot be
        written.
    MissingDependency
        If pooch is not installed.
    """
    pooch, folder = _pooch(), cache_folder()
    pooch.get_logger().setLevel(
        "WARNING"
    )  # it announces every file on standard error, also where nobody looks
    failures = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with alone(folder / file.name):
            for url in file.urls:
                downloader = _Continued(folder / f"{file.name}.part", file, progress)
                try:
                    found = pooch.retrieve(
                        url, f"sha256:{file.sha256}", file.name, folder, downloader=downloader
                    )
                except _failures() as error:
                    failures.append(f"{url} ({_reason(error)})")
                else:
                    return Path(found)
    except OSError as error:
        raise InputError(
            f"{file.name} cannot be kept in {folder}: {error.strerror or error}; "
            "set the environment variable TWOSAMPLE_CACHE to a folder with room for it."
        ) from error
    raise InputError(f"{file.name} cannot be downloaded from {' or from '.join(failures)}.")


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keep other processes from making the file at `path` meanwhile; they wait, and then find it there."""
    try:
        import fcntl
    except ImportError:  # where there is none, two processes at worst do the same work: what they make is moved whole
        yield
        return
    with (path.parent / f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class _Continued:
    """What pooch calls to download a file: one that first looks at how much of it is there already."""

    def __init__(self, partial: Path, file: RemoteFile, progress: bool | None) -> None:
        self.partial, self.file, self.progress = partial, file, progress

    def __call__(
        self, url: str, output_file: Any, pooch: Any, *, check_only: bool | None = None
    ) -> None:
        import requests

        while (before := self._received()) != self.file.size:
            try:
                self._receive(url, before)
                break
            except (
                requests.ConnectionError,
                requests.Timeout,
                requests.exceptions.ChunkedEncodingError,
            ):
                if (
                    self._received() <= before
                ):  # as long as each attempt brings something, it is worth another
                    raise
        os.replace(self.partial, output_file)  # pooch checks it there, and keeps or removes it

    def _received(self) -> int:
        return self.partial.stat().st_size if self.partial.exists() else 0

    def _receive(self, url: str, start: int) -> None:
        """Append to what is there from byte `start` on, or begin again with a server that cannot continue."""
        import requests

        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
        with requests.get(url, headers=headers, stream=True, timeout=_PATIENCE) as response:
            if (
                start and response.status_code == 416
            ):  # "range not satisfiable": too long to be a part of this file
                return self._receive(url, 0)
            response.raise_for_status()
            start = start if _continues(response, start) else 0
            blocks = -(-(self.file.size - start) // _BLOCK)
            with (
                self.partial.open("ab" if start else "wb") as output,
                bar(self.file.name, blocks, self.progress) as tick,
            ):
                for block in response.iter_content(_BLOCK):
                    output.write(block)
                    tick("")


def _continues(response: requests.Response, start: int) -> bool:
    return response.status_code == 206 and response.headers.get("Content-Range", "").startswith(
        f"bytes {start}-"
    )


def _pooch() -> Any:
    try:
        import pooch
    except ImportError as error:
        raise MissingDependency("downloads take pooch; pip install 'twosample[bench]'.") from error
    return pooch


def _failures() -> tuple[type[Exception], ...]:
    """What it looks like when a place does not give the file: no answer, a refusal, or (in pooch) a wrong checksum."""
    import requests

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
