"""Make docs/images/report-*.png: four reports on a desktop and on a phone, in light and in dark.

Run it from the root of the checkout as `python demo/report_pictures.py`, or with the names of some
reports (table, blob, digits, compare). It needs chromium, and for the digits TWOSAMPLE_DATA, a
folder with real and generated digits. Look at what it makes.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image

import twosample
from twosample.bench import datasets

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from browser import DESKTOP, PHONE, Browser  # noqa: E402


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
    """Write the report of images."""
    rng = np.random.default_rng(0)
    real = datasets.mnist()
    generated = datasets.fake_mnist()
    X = real[rng.permutation(len(real))[:400]]
    Y = generated[rng.permutation(len(generated))[:400]]
    test = twosample.mmd_d(steps=60)
    result = twosample.two_sample_test(X, Y, test, rng=0)
    result.report(page, names=("real digits", "generated digits"), rng=0)


def compare(page: Path) -> None:
    """Write the report of a comparison: weeks against the first weeks of last month."""
    last = pl.read_csv(ROOT / "demo" / "orders_last_month.csv")
    this = pl.read_csv(ROOT / "demo" / "orders_this_month.csv")
    samples = {"last month, week 4": last[400:]}
    for week in range(4):
        samples[f"this month, week {week + 1}"] = this[150 * week : 150 * (week + 1)]
    comparison = twosample.compare(last[:400], samples, rng=0)
    comparison.report(page, reference="last month, weeks 1 to 3", rng=0)


PAGES = {
    "table": (table, "verdict"),
    "blob": (blob, "place"),
    "digits": (digits, "rows"),
    "compare": (compare, "verdict"),
}
"""What writes each report, and the part of it that its pictures show."""


def take(browser: Browser, file: Path, part: str, target: Path) -> None:
    """Take the pictures of one report on a desktop and on a phone, in light and in dark."""
    for device, size in (("desktop", DESKTOP), ("phone", PHONE)):
        for theme in ("light", "dark"):
            page = browser.open(file, size, dark=theme == "dark")
            # The verdict is at the top of the page, below a header that belongs to the picture.
            if part != "verdict":
                page.evaluate(f"document.getElementById('{part}').scrollIntoView()")
            screenshot = io.BytesIO(page.screenshot())
            page.close()
            picture = Image.open(screenshot).convert("RGB")
            # 256 colours are enough for a page, and take fewer bytes.
            picture = picture.quantize(256, kmeans=2, dither=Image.Dither.NONE)
            path = target.with_name(f"{target.name}-{device}-{theme}.png")
            picture.save(path, optimize=True)
            print(path.relative_to(ROOT), f"{path.stat().st_size / 1000:.0f} kB")


def main(names: list[str]) -> None:
    """Write the reports and take their pictures."""
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(Path(folder) / "profile")
        for name in names or PAGES:
            write, part = PAGES[name]
            file = Path(folder) / f"{name}.html"
            write(file)
            take(browser, file, part, ROOT / "docs" / "images" / f"report-{name}")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
