"""Images side by side, and pictures that a page holds in itself."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .page import missing

Bytes = NDArray[np.uint8]
"""An image as (H, W) or (H, W, C), from 0 to 255."""

Images: TypeAlias = Sequence[NDArray[Any]]
"""Images of one size, of bytes or of floats."""

_TILE = 40  # pixels of the longer side of an image on the map
_TILES_ACROSS = 30


def mosaic(images: Sequence[Bytes], columns: int, gap: int = 1) -> Bytes:
    """Images of one size side by side, in rows of `columns`, on white."""
    height, width, *channels = images[0].shape
    lines = math.ceil(len(images) / columns)
    # From one image to the next. There is no gap after the last line and the last column.
    down = height + gap
    across = width + gap
    sheet_height = lines * down - gap
    sheet_width = columns * across - gap
    shape = (sheet_height, sheet_width, *channels)
    sheet = np.full(shape, 255, dtype=np.uint8)  # white where images are missing
    for place, image in enumerate(images):
        line, column = divmod(place, columns)
        top = line * down
        left = column * across
        bottom = top + height
        right = left + width
        sheet[top:bottom, left:right] = image
    return sheet


def shades(images: Images) -> list[Bytes]:
    """Images as 0..255: bytes as they are, floats on one scale for all of them."""
    if not images or images[0].dtype == np.uint8:
        return [image.astype(np.uint8) for image in images]
    low = min(float(image.min()) for image in images)
    high = max(float(image.max()) for image in images)
    tiny = np.finfo(np.float64).tiny  # images may all be one grey
    factor = 255 / max(high - low, tiny)
    shaded = []
    for image in images:
        above = image.astype(np.float64) - low
        scaled = above * factor
        shaded.append(scaled.round().astype(np.uint8))
    return shaded


def thumbnails(images: Images, longest: int) -> list[str]:
    """Images with at most `longest` pixels on a side, each as an address that holds all of it."""
    pictures = [_smaller(image, longest) for image in shades(images)]
    # PNG, which loses nothing: of small images every pixel counts.
    return [_address(picture, "PNG") for picture in pictures]


def sprite(images: Images) -> dict[str, Any]:
    """All images of a map in one small picture, and what a script needs to find one in it."""
    tiles = []
    for image in shades(images):
        tile = np.asarray(_smaller(image, _TILE))
        if tile.ndim == 3:
            tile = tile[..., :3]  # JPEG has no transparency
        tiles.append(tile)
    height, width, *_ = tiles[0].shape
    sheet = mosaic(tiles, _TILES_ACROSS, gap=0)
    return {
        "sprite": _address(_pillow().fromarray(sheet), "JPEG"),
        "tile": [width, height],
        "across": _TILES_ACROSS,
    }


def _smaller(image: Bytes, longest: int) -> Any:
    picture = _pillow().fromarray(image)
    picture.thumbnail((longest, longest))
    return picture


def _address(picture: Any, kind: str) -> str:
    file = io.BytesIO()
    picture.save(file, kind, optimize=True, quality=80)
    # As text in the address itself: a page must not need other files.
    content = base64.b64encode(file.getvalue()).decode()
    return f"data:image/{kind.lower()};base64,{content}"


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise missing("Pillow") from error
    return Image
