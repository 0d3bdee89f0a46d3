"""Folders of pictures: pixels as they were drawn, in the order of their names, and a sentence for
what is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from twosample import InputError, two_sample_test
from twosample._data.streams import Stream
from twosample._files.formats import read_source
from twosample._files.images import parse_size, picture_parts


def read(path):
    """The contents of a file, without where its rows stand."""
    return read_source(path).data


def draw(
    folder: Path, name: str, shape: tuple[int, ...] = (4, 6, 3), seed: int = 0, **options: object
) -> np.ndarray:
    folder.mkdir(exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)
    Image.fromarray(pixels).save(folder / name, **options)
    return pixels


@pytest.mark.parametrize("shape", [(4, 6), (4, 6, 3), (4, 6, 4)])
def test_pixels_are_those_that_were_drawn_in_the_order_of_names(tmp_path, shape):
    expected = {
        name: draw(tmp_path, name, shape, seed)
        for seed, name in enumerate(["b.png", "a.PNG", "c.png"])
    }
    (tmp_path / "notes.txt").write_text("not a picture")
    (tmp_path / ".hidden.png").write_text("not one either")
    found = read(tmp_path)
    assert found.shape == (3, *shape) and found.dtype == np.uint8
    np.testing.assert_array_equal(found, [expected[name] for name in ("a.PNG", "b.png", "c.png")])
    assert read_source(tmp_path).place(1).endswith("b.png")


def test_jpegs_and_palettes_are_colours(tmp_path):
    flat = np.full((8, 8, 3), (200, 30, 60), dtype=np.uint8)
    Image.fromarray(flat).save(tmp_path / "a.jpg", quality=95)
    Image.fromarray(flat).quantize(4).save(tmp_path / "b.png")
    found = read(tmp_path)
    assert found.shape == (2, 8, 8, 3)
    assert (
        np.abs(found[0].astype(int) - flat).max() < 8
        and np.abs(found[1].astype(int) - flat).max() < 8
    )


def test_a_picture_taken_sideways_is_as_viewers_show_it(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # turn it by 90 degrees
    pixels = draw(tmp_path, "a.png", (4, 6, 3), exif=exif)
    np.testing.assert_array_equal(read(tmp_path)[0], np.rot90(pixels, -1))


def test_resizing_is_what_pillow_does(tmp_path):
    draw(tmp_path, "a.png", (4, 6, 3)), draw(tmp_path, "b.png", (9, 5, 3))
    found = read_source(tmp_path, resize=(3, 2)).data
    assert found.shape == (2, 2, 3, 3)
    with Image.open(tmp_path / "b.png") as picture:
        np.testing.assert_array_equal(found[1], np.asarray(picture.resize((3, 2))))


@pytest.mark.parametrize(
    ("draw_second", "message"),
    [
        (lambda folder: draw(folder, "b.png", (4, 7, 3)), r"b\.png has 7 x 4 pixels but a\.png has 6 x 4; .*--resize"),
        (lambda folder: draw(folder, "b.png", (4, 6)), r"b\.png is of the mode L but a\.png of the mode RGB"),
        (lambda folder: (folder / "b.png").write_bytes(b"PNG"), r"b\.png cannot be read as a picture: cannot identify"),
        (lambda folder: (folder / "b.png").mkdir(), r"b\.png cannot be read as a picture: Is a directory"),
        (lambda folder: draw(folder, "b.bmp"), r"b\.bmp is neither PNG nor JPEG"),
        (
            lambda folder: Image.fromarray(np.zeros((4, 6), dtype=np.uint16)).save(folder / "b.png"),
            r"b\.png is of the mode I;16; convert it to 8 bits",
        ),
        (lambda folder: Image.new("CMYK", (6, 4)).save(folder / "b.jpg"), r"b\.jpg is of the mode CMYK"),
    ],
)  # fmt: skip
def test_pictures_that_do_not_fit_are_named(tmp_path, draw_second, message):
    draw(tmp_path, "a.png")
    draw_second(tmp_path)
    with pytest.raises(InputError, match=message):
        read(tmp_path)


def test_a_picture_that_was_cut_short_or_would_fill_the_memory(tmp_path, monkeypatch):
    draw(tmp_path, "a.png", (64, 64, 3))
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"a\.png cannot be read as a picture"):
        read(tmp_path)
    (tmp_path / "a.png").write_bytes(whole)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(InputError, match=r"a\.png is too large a picture"):
        read(tmp_path)


def test_folders_without_pictures(tmp_path):
    (tmp_path / "train").mkdir()
    with pytest.raises(
        InputError,
        match=r"without PNG or JPEG files, but folders: give one of them, such as .*train",
    ):
        read(tmp_path)
    (tmp_path / "table.csv").write_text("a\n1\n")
    with pytest.raises(InputError, match="there is nothing to resize"):
        read_source(tmp_path / "table.csv", resize=(2, 2))


@pytest.mark.parametrize("text", ["64", "64x", "0x4", "-1x2", "64x64x3", "1e3x5", ""])
def test_sizes_that_are_none(text):
    with pytest.raises(InputError, match="give width and height in pixels, such as 64x64"):
        parse_size(text)
    assert parse_size(" 64x48") == (64, 48)


def test_parts_of_a_folder_are_the_folder(tmp_path, monkeypatch):
    for number in range(30):
        for name, brighter in (("p", 0), ("q", 60)):
            folder = tmp_path / name
            folder.mkdir(exist_ok=True)
            pixels = np.random.default_rng([number, brighter]).integers(
                brighter, 190, (5, 5), dtype=np.uint8
            )
            Image.fromarray(pixels).save(folder / f"{number:02}.png")
    monkeypatch.setattr("twosample._files.images._PART", 5 * 5 * 7)
    parts = picture_parts(tmp_path / "p")
    assert [part.rows for part in parts] == [7, 7, 7, 7, 2]
    np.testing.assert_array_equal(
        np.concatenate([part.read() for part in parts]), read(tmp_path / "p")
    )
    in_memory = two_sample_test(read(tmp_path / "p"), read(tmp_path / "q"), "mmd-median", rng=0)
    streams = (Stream(picture_parts(tmp_path / name)) for name in "pq")
    streamed = two_sample_test(*streams, "mmd-median", rng=0)
    assert streamed.pvalue == in_memory.pvalue == 0.001
    assert streamed.statistic == pytest.approx(in_memory.statistic, abs=1e-6)


def test_without_pillow(tmp_path):
    draw(tmp_path, "a.png")
    program = (
        "import sys; sys.modules['PIL'] = None\n"
        "from twosample.errors import MissingDependency\n"
        "from twosample._files.formats import read_source\n"
        "try: read_source('.')\n"
        "except MissingDependency as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "a.png takes Pillow to read; pip install 'twosample[images]'.\n"
