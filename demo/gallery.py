"""Execute docs/gallery.md, and put the pictures that it writes into docs/images.

Run it from the root of the checkout as `python demo/gallery.py`. Look at what it makes.
"""

from __future__ import annotations

import doctest
import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "gallery.md"


def execute(folder: Path) -> list[Path]:
    """Run the examples in a folder, where they write their pictures; an error if one is wrong."""
    (folder / "demo").symlink_to(ROOT / "demo")
    before = Path.cwd()
    os.chdir(folder)
    try:
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        done = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    finally:
        os.chdir(before)
    if done.failed:
        sys.exit(f"{done.failed} of {done.attempted} examples of {PAGE.name} are wrong")
    return sorted(folder.glob("gallery-*.png"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        for picture in execute(Path(name)):
            shutil.copy(picture, ROOT / "docs" / "images")
            print(picture.name, f"{picture.stat().st_size / 1000:.0f} kB")
