"""Temporary folders of streams: removed with the stream, at the end, or by a signal."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path

_folders: set[Path] = set()


def make_folder() -> Path:
    """A new temporary folder, which somebody has to remove."""
    folder = Path(tempfile.mkdtemp(prefix="twosample-"))
    _folders.add(folder)
    return folder


def removed_with(owner: object, folder: Path) -> weakref.finalize:  # type: ignore[type-arg]
    """Remove a folder when its owner is forgotten, or when the program ends."""
    # Not a TemporaryDirectory, which warns of that.
    return weakref.finalize(owner, remove_folder, folder)


def remove_folder(folder: Path) -> None:
    """Remove a temporary folder and what is in it."""
    shutil.rmtree(folder, ignore_errors=True)
    _folders.discard(folder)


def remove_folders() -> None:
    """Remove all temporary folders of this process, which is about to end without cleaning up."""
    for folder in list(_folders):
        remove_folder(folder)
