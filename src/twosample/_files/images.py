"""Folders of PNG and JPEG files of one size and one mode to arrays, in the order of their names."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, MissingDependency

ENDINGS = (".png", ".jpg", ".jpeg")
_OTHERS = (".avif", ".bmp", ".gif", ".tif", ".tiff", ".webp")
_CHANNELS = {"L": 1, "RGB": 3, "RGBA": 4}
# Mode of Pillow -> the mode that it is converted to. What becomes of "P" depends on the picture.
_MODES = {"1": "L", "L": "L", "RGB": "RGB", "RGBA": "RGBA"}
_PART = 2**22  # bytes of pixels in a part of a folder


def parse_size(text: str) -> tuple[int, int]:
    """Width and height from 64x48."""
    match = re.fullmatch(r"([1-9]\d{0,4})[xX×]([1-9]\d{0,4})", text.strip())
    if match is None:
        raise InputError(f"--resize is {text!r}; give width and height in pixels, such as 64x64.")
    return int(match[1]), int(match[2])


@dataclass(frozen=True)
class PictureFormat:
    """What all pictures of a folder have in common.

    Attributes
    ----------
    size
        Width and height.
    mode
        "L" (grey), "RGB" or "RGBA".
    first
        The first picture, which decides it.
    """

    size: tuple[int, int]
    mode: str
    first: Path

    @property
    def bytes(self) -> int:
        """What one picture takes."""
        return self.size[0] * self.size[1] * _CHANNELS[self.mode]


@dataclass(frozen=True)
class PictureRows:
    """Some of the pictures of a folder."""

    files: tuple[Path, ...]
    format: PictureFormat
    resized: bool

    @property
    def rows(self) -> int:
        """How many pictures there are."""
        return len(self.files)

    def read(self, tick: Callable[[str], None] | None = None) -> NDArray[np.uint8]:
        """The pixels: (N, height, width), or (N, height, width, channels) of pictures in colour."""
        width, height = self.format.size
        channels = _CHANNELS[self.format.mode]
        pixels = np.empty((len(self.files), height, width, channels), dtype=np.uint8)
        for place, file in zip(pixels, self.files, strict=True):
            picture = _open(file)
            if self.resized:
                picture = picture.resize(self.format.size)
            _check(picture, file, self.format)
            place[:] = np.asarray(picture).reshape(place.shape)
            if tick is not None:
                tick(file.name)
        return pixels[..., 0] if channels == 1 else pixels


def picture_parts(folder: Path, resize: tuple[int, int] | None = None) -> list[PictureRows]:
    """The pictures of a folder in parts of some megabytes; all must be like the first."""
    files = _pictures(folder)
    first = _open(files[0])
    shared = PictureFormat(resize or first.size, first.mode, files[0])
    step = max(1, _PART // shared.bytes)
    parts = []
    for start in range(0, len(files), step):
        some = tuple(files[start : start + step])
        parts.append(PictureRows(some, shared, resized=resize is not None))
    return parts


def read_pictures(parts: Sequence[PictureRows], tick: Callable[[str], None]) -> NDArray[np.uint8]:
    """All pictures of the parts; `tick` is called after each."""
    return np.concatenate([part.read(tick) for part in parts])


def _pictures(folder: Path) -> list[Path]:
    """The files of the pictures in a folder, in the order of their names."""
    try:
        visible = [file for file in folder.iterdir() if not file.name.startswith(".")]
    except OSError as error:
        raise InputError(f"{folder} cannot be listed: {error.strerror or error}.") from error
    visible.sort(key=lambda file: file.name)
    for file in visible:
        if file.suffix.lower() in _OTHERS:
            raise InputError(f"{file} is neither PNG nor JPEG; convert it, or move it elsewhere.")
    files = [file for file in visible if file.suffix.lower() in ENDINGS]
    if not files:
        folders = [file for file in visible if file.is_dir()]
        hint = f", but folders: give one of them, such as {folders[0]}" if folders else ""
        raise InputError(
            f"{folder} is a folder without PNG or JPEG files{hint}; give a file, or a folder of "
            "pictures."
        )
    return files


def _open(file: Path) -> Any:
    """A picture as viewers show it, in one of our modes."""
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise MissingDependency(
            f"{file} takes Pillow to read; pip install 'twosample[images]'."
        ) from error
    try:
        with warnings.catch_warnings():
            # A small file that says it has a billion pixels would fill the memory.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            # Pillow would decode a dozen other formats, whatever the ending says.
            with Image.open(file, formats=("PNG", "JPEG")) as picture:
                mode = picture.mode
                if mode == "P":  # a palette is a way to write colours
                    mode = "RGBA" if "transparency" in picture.info else "RGB"
                mode = _MODES.get(mode, "")
                if mode:
                    # Cameras write which way is up beside the pixels, and viewers turn pictures.
                    return ImageOps.exif_transpose(picture).convert(mode)
                unknown = picture.mode
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise InputError(
            f"{file} is too large a picture ({str(error).split(',')[0]}); shrink it."
        ) from error
    except Exception as error:  # whatever a decoder raises, it is the file's fault
        # Pillow's messages quote the name of the file, which stands before them here.
        reason = getattr(error, "strerror", None) or str(error).partition(" '")[0]
        reason = reason.rstrip(".") or type(error).__name__
        raise InputError(
            f"{file} cannot be read as a picture: {reason}. Is it damaged or misnamed?"
        ) from error
    raise InputError(f"{file} is of the mode {unknown}; convert it to 8 bits of grey, RGB or RGBA.")


def _check(picture: Any, file: Path, shared: PictureFormat) -> None:
    first = shared.first.name
    if picture.size != shared.size:
        width, height = shared.size
        other_width, other_height = picture.size
        raise InputError(
            f"{file} has {other_width} x {other_height} pixels but {first} has {width} x {height}; "
            f"bring them to one size with --resize {width}x{height}."
        )
    if picture.mode != shared.mode:
        raise InputError(
            f"{file} is of the mode {picture.mode} but {first} of the mode {shared.mode}; convert "
            "all pictures to grey, or all to colour."
        )
