"""Makes docs/images/report-*.png: four reports on a desktop and on a phone, in light and in dark.

Run it from the root of the checkout as `python demo/report_pictures.py`, or with the names of some
reports (table, blob, digits, compare). It takes chromium, and for the digits TWOSAMPLE_DATA, a
folder with real and generated ones. Look at what it makes.
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


def table(page: Path, a: str = "orders_last_month.csv", b: str = "orders_this_month.csv") -> None:
    """Write the report of two tables."""
    X, Y = (pl.read_csv(ROOT / "demo" / file) for file in (a, b))
    twosample.two_sample_test(X, Y, rng=0).report(page, names=(a, b), rng=0)


def blob(page: Path) -> None:
    """Write that of two columns of numbers."""
    table(page, "blob_p.csv", "blob_q.csv")


def digits(page: Path) -> None:
    """Write that of images."""
    rng = np.random.default_rng(0)
    X, Y = (
        images[rng.permutation(len(images))[:400]]
        for images in (datasets.mnist(), datasets.fake_mnist())
    )
    result = twosample.two_sample_test(X, Y, twosample.mmd_d(steps=60), rng=0)
    result.report(page, names=("real digits", "generated digits"), rng=0)


def compare(page: Path) -> None:
    """Write that of a comparison."""
    last, this = (
        pl.read_csv(ROOT / "demo" / f"orders_{month}_month.csv") for month in ("last", "this")
    )
    weeks = {f"this month, week {k + 1}": this[150 * k : 150 * (k + 1)] for k in range(4)}
    found = twosample.compare(last[:400], {"last month, week 4": last[400:], **weeks}, rng=0)
    found.report(page, reference="last month, weeks 1 to 3", rng=0)


PAGES = {
    "table": (table, "verdict"),
    "blob": (blob, "place"),
    "digits": (digits, "rows"),
    "compare": (compare, "verdict"),
}
"""What writes each report, and the part of it that its pictures show."""


def main(names: list[str]) -> None:
    """Write the reports and take their pictures."""
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(Path(folder) / "profile")
        for name in names or PAGES:
            write, part = PAGES[name]
            write(file := Path(folder) / f"{name}.html")
            for place, size in (("desktop", DESKTOP), ("phone", PHONE)):
                for theme in ("light", "dark"):
                    page = browser.open(file, size, dark=theme == "dark")
                    if part != "verdict":
                        page.evaluate(f"document.getElementById('{part}').scrollIntoView()")
                    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
                    page.close()
                    target = ROOT / "docs" / "images" / f"report-{name}-{place}-{theme}.png"
                    picture.quantize(256, kmeans=2, dither=Image.Dither.NONE).save(
                        target, optimize=True
                    )
                    print(target.relative_to(ROOT), f"{target.stat().st_size / 1000:.0f} kB")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
