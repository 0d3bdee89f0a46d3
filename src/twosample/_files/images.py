"""Folders of pictures to arrays: PNG and JPEG files of one size and one mode, in the order of their names."""

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
_MODES = {
    "1": "L",
    "L": "L",
    "RGB": "RGB",
    "RGBA": "RGBA",
}  # what is done with each mode of Pillow; P depends
_PART = 2**22  # bytes of pixels in a part of a folder


def parse_size(text: str) -> tuple[int, int]:
    """Width and height from 64x48."""
    found = re.fullmatch(r"([1-9]\d{0,4})[xX×]([1-9]\d{0,4})", text.strip())
    if found is None:
        raise InputError(f"--resize is {text!r}; give width and height in pixels, such as 64x64.")
    return int(found[1]), int(found[2])


@dataclass(frozen=True)
class Form:
    """What all pictures of a folder have in common.

    Attributes
    ----------
    size
        Width and height.
    mode
        "L" (grey), "RGB" or "RGBA".
    first
        The picture that it was seen in.
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
    form: Form
    resized: bool

    @property
    def rows(self) -> int:
        """How many pictures there are."""
        return len(self.files)

    def read(self, tick: Callable[[str], None] | None = None) -> NDArray[np.uint8]:
        """The pixels: (N, height, width), or (N, height, width, channels) of pictures in colour."""
        width, height = self.form.size
        channels = _CHANNELS[self.form.mode]
        pixels = np.empty((len(self.files), height, width, channels), dtype=np.uint8)
        for place, file in zip(pixels, self.files, strict=True):
            picture = _open(file)
            if self.resized:
                picture = picture.resize(self.form.size)
            _check(picture, file, self.form)
            place[:] = np.asarray(picture).reshape(place.shape)
            if tick is not None:
                tick(file.name)
        return pixels[..., 0] if channels == 1 else pixels


def picture_parts(folder: Path, resize: tuple[int, int] | None = None) -> list[PictureRows]:
    """The pictures of a folder in parts of some megabytes; what they have in common is that of the first."""
    files = _pictures(folder)
    first = _open(files[0])
    form = Form(resize or first.size, first.mode, files[0])
    step = max(1, _PART // form.bytes)
    return [
        PictureRows(tuple(files[start : start + step]), form, resize is not None)
        for start in range(0, len(files), step)
    ]


def read_pictures(parts: Sequence[PictureRows], tick: Callable[[str], None]) -> NDArray[np.uint8]:
    """All pictures of the parts; `tick` is called after each."""
    return np.concatenate([part.read(tick) for part in parts])


def _pictures(folder: Path) -> list[Path]:
    try:
        found = sorted(
            (file for file in folder.iterdir() if not file.name.startswith(".")),
            key=lambda file: file.name,
        )
    except OSError as error:
        raise InputError(f"{folder} cannot be listed: {error.strerror or error}.") from error
    if other := next((file for file in found if file.suffix.lower() in _OTHERS), None):
        raise InputError(f"{other} is neither PNG nor JPEG; convert it, or move it elsewhere.")
    files = [file for file in found if file.suffix.lower() in ENDINGS]
    if not files:
        inside = next((file for file in found if file.is_dir()), None)
        hint = "" if inside is None else f", but folders: give one of them, such as {inside}"
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
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=("PNG", "JPEG")) as picture:
                mode = picture.mode
                if mode == "P":  # a palette is a way to write colours
                    mode = "RGBA" if "transparency" in picture.info else "RGB"
                mode = _MODES.get(mode, "")
                if mode:
                    return ImageOps.exif_transpose(picture).convert(mode)
                found = picture.mode
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise InputError(
            f"{file} is too large a picture ({str(error).split(',')[0]}); shrink it."
        ) from error
    except Exception as error:  # whatever a decoder raises, it is the file's fault
        why = (
            getattr(error, "strerror", None)
            or str(error).partition(" '")[0]
            or type(error).__name__
        )
        raise InputError(
            f"{file} cannot be read as a picture: {why.rstrip('.')}. Is it damaged or misnamed?"
        ) from error
    raise InputError(f"{file} is of the mode {found}; convert it to 8 bits of grey, RGB or RGBA.")


def _check(picture: Any, file: Path, form: Form) -> None:
    if picture.size != form.size:
        (width, height), (w, h) = form.size, picture.size
        raise InputError(
            f"{file} has {w} x {h} pixels but {form.first.name} has {width} x {height}; bring them "
            "to one size with "
            f"--resize {width}x{height}."
        )
    if picture.mode != form.mode:
        raise InputError(
            f"{file} is of the mode {picture.mode} but {form.first.name} of the mode {form.mode}; "
            "convert all pictures "
            "to grey, or all to colour."
        )
