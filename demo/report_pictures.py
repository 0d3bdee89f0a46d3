"""Make docs/images/report-*.png: reports on a desktop and on a phone, in light and in dark.

Run it from the root of the checkout as `python demo/report_pictures.py`, or with the names of some
reports (table, blob, pair, digits, compare). `--look FOLDER` takes whole pages of all cases, or of
those named, into a folder, to be looked at. It needs chromium, and for the digits TWOSAMPLE_DATA, a
folder with real and generated digits.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image

import twosample
from twosample.bench import datasets

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from browser import DESKTOP, PHONE, Browser, Page  # noqa: E402


def table(page: Path, x: str = "orders_last_month.csv", y: str = "orders_this_month.csv") -> None:
    """Write the report of two tables."""
    X = pl.read_csv(ROOT / "demo" / x)
    Y = pl.read_csv(ROOT / "demo" / y)
    result = twosample.two_sample_test(X, Y, rng=0)
    result.report(page, names=(x, y), rng=0)


def blob(page: Path) -> None:
    """Write the report of two columns of numbers."""
    table(page, "blob_p.csv", "blob_q.csv")


def digits(page: Path) -> None:
    """Write the report of two folders of images."""
    rng = np.random.default_rng(0)
    both = {"real": datasets.mnist(), "generated": datasets.fake_mnist()}
    with tempfile.TemporaryDirectory() as name:
        folders = []
        for kind, images in both.items():
            folder = Path(name) / kind
            folder.mkdir()
            for number in rng.permutation(len(images))[:300]:
                pixels = np.asarray(images[number]).squeeze()
                Image.fromarray(as_bytes(pixels)).save(folder / f"{kind}-{number:05}.png")
            folders.append(str(folder))
        command = ["test", *folders, "--method", "spectral", "--seed", "0", "--quiet"]
        run = [sys.executable, "-m", "twosample", *command, "--report", str(page)]
        subprocess.run(run, check=True, stdout=subprocess.DEVNULL)


def as_bytes(pixels: np.ndarray) -> np.ndarray:
    """Pixels between 0 and 255, from those between 0 and 1 or -1 and 1."""
    if pixels.dtype == np.uint8:
        return pixels
    low = min(0.0, float(pixels.min()))
    return (255 * (pixels - low) / (1 - low)).clip(0, 255).astype(np.uint8)


def orders(rows: int, rng: np.random.Generator, age: float = 41) -> dict[str, np.ndarray]:
    """Columns of a table of orders: numbers, a pair that goes together, a category, a boolean."""
    basket = rng.gamma(3, 20, rows)
    return {
        "basket": basket.round(2),
        "shipping": (0.04 * basket + rng.gamma(2, 1, rows)).round(2),
        "age": rng.normal(age, 12, rows).clip(18, 90).round(),
        "minutes": rng.gamma(2, 4, rows).round(1),
        "device": rng.choice(["phone", "laptop", "tablet"], rows, p=[0.55, 0.35, 0.1]),
        "returning": rng.random(rows) < 0.4,
    }


def large(page: Path) -> None:
    """Write the report of a difference that anybody sees."""
    rng = np.random.default_rng(0)
    X = pl.DataFrame(orders(600, rng))
    Y = pl.DataFrame(orders(500, rng, age=62)).with_columns(pl.col("basket") * 1.9)
    report(page, X, Y, ("last year", "this year"))


def tiny(page: Path) -> None:
    """Write the report of a difference that does not matter, in so many rows that it is found."""
    rng = np.random.default_rng(0)
    X = pl.DataFrame(orders(100_000, rng))
    Y = pl.DataFrame(orders(100_000, rng, age=41.3))
    report(page, X, Y, ("June", "July"), {"spread": 0.1})


def null(page: Path) -> None:
    """Write the report of two samples that do not differ."""
    rng = np.random.default_rng(0)
    X, Y = (pl.DataFrame(orders(rows, rng)) for rows in (400, 350))
    report(page, X, Y, ("server A", "server B"))


def pair(page: Path) -> None:
    """Write the report of two columns that go together otherwise."""
    rng = np.random.default_rng(0)
    X, Y = (orders(700, rng) for _ in range(2))
    Y["shipping"] = rng.permutation(Y["shipping"])
    report(page, pl.DataFrame(X), pl.DataFrame(Y), ("before the release", "after it"))


def level(page: Path) -> None:
    """Write the report of a level that is new."""
    rng = np.random.default_rng(0)
    X, Y = (orders(900, rng) for _ in range(2))
    Y["device"] = np.where(rng.random(900) < 0.02, "robot", Y["device"])
    report(page, pl.DataFrame(X), pl.DataFrame(Y), ("monday.csv", "tuesday.csv"))


def compare(page: Path) -> None:
    """Write the report of thirty days against a reference: baskets drift, and one day is odd."""
    rng = np.random.default_rng(0)
    samples = {}
    for day in range(1, 31):
        table = orders(250, rng)
        table["basket"] = (table["basket"] * (1 + 0.05 * max(0, day - 18))).round(2)
        if day == 9:
            table["device"] = rng.choice(["phone", "laptop", "tablet"], 250, p=[0.2, 0.3, 0.5])
        samples[f"day-{day:02}.csv"] = pl.DataFrame(table)
    comparison = twosample.compare(pl.DataFrame(orders(1000, rng)), samples, "spectral", rng=0)
    comparison.report(page, reference="reference.csv", rng=0)


def report(
    page: Path,
    X: pl.DataFrame,
    Y: pl.DataFrame,
    names: tuple[str, str],
    tolerance: dict[str, float] | None = None,
) -> None:
    """Write the report of two tables."""
    result = twosample.two_sample_test(X, Y, rng=0, tolerance=tolerance)
    result.report(page, names=names, rng=0)


PAGES = {
    "table": (table, "verdict"),
    "blob": (blob, "place"),
    "pair": (pair, "columns"),
    "digits": (digits, "rows"),
    "compare": (compare, "verdict"),
}
"""What writes each report of the docs, and the part of it that its pictures show."""

CASES = (large, tiny, null, pair, level, digits, compare)
"""What writes each report that is there to be looked at."""


def views(browser: Browser, file: Path) -> Iterator[tuple[str, Page]]:
    """Open a page on a desktop and on a phone, in light and in dark."""
    for device, size in (("desktop", DESKTOP), ("phone", PHONE)):
        for theme in ("light", "dark"):
            page = browser.open(file, size, dark=theme == "dark")
            yield f"{device}-{theme}", page
            page.close()


def save(screenshot: bytes, path: Path) -> None:
    """Write a picture in 256 colours, which are enough for a page and take fewer bytes."""
    picture = Image.open(io.BytesIO(screenshot)).convert("RGB")
    picture = picture.quantize(256, kmeans=2, dither=Image.Dither.NONE)
    picture.save(path, optimize=True)
    print(path, f"{path.stat().st_size / 1000:.0f} kB", flush=True)


def take(browser: Browser, file: Path, part: str, target: Path) -> None:
    """Take the pictures of one part of a report."""
    for name, page in views(browser, file):
        # The verdict is at the top of the page, below a header that belongs to the picture.
        if part != "verdict":
            page.evaluate(f"document.getElementById('{part}').scrollIntoView()")
        save(page.screenshot(), target.with_name(f"{target.name}-{name}.png"))


def look(browser: Browser, names: list[str], folder: Path) -> None:
    """Write the cases into a folder, with pictures of the whole pages."""
    folder.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        if names and case.__name__ not in names:
            continue
        file = folder / f"{case.__name__}.html"
        case(file)
        for name, page in views(browser, file):
            save(page.screenshot(whole=True), folder / f"{file.stem}-{name}.png")


def main(arguments: list[str]) -> None:
    """Write the reports and take their pictures."""
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(Path(folder) / "profile")
        if arguments[:1] == ["--look"]:
            look(browser, arguments[2:], Path(arguments[1]))
        else:
            for name in arguments or PAGES:
                write, part = PAGES[name]
                file = Path(folder) / f"{name}.html"
                write(file)
                take(browser, file, part, ROOT / "docs" / "images" / f"report-{name}")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
