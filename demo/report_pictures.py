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


def days(page: Path) -> None:
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
