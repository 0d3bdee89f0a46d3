"""Makes docs/images/report-*.png: four reports on a desktop and on a phone, in light and in dark.

Run it from the root of the checkout as `python demo/report_pictures.py`, with chromium installed and TWOSAMPLE_DATA set
to a folder with real and generated digits. Look at what it makes.
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

WHERE = {"table": "verdict", "blob": "place", "digits": "rows", "compare": "verdict"}
"""The part of each report that its pictures show."""


def reports(folder: Path) -> dict[str, Path]:
    """Write the four reports."""
    written = {}
    for name, (a, b) in {
        "table": ("orders_last_month.csv", "orders_this_month.csv"),
        "blob": ("blob_p.csv", "blob_q.csv"),
    }.items():
        X, Y = (pl.read_csv(ROOT / "demo" / file) for file in (a, b))
        result = twosample.two_sample_test(X, Y, rng=0)
        written[name] = result.report(folder / f"{name}.html", names=(a, b), rng=0)
    last, this = (pl.read_csv(ROOT / "demo" / f"orders_{month}_month.csv") for month in ("last", "this"))
    weeks = {f"this month, week {k + 1}": this[150 * k : 150 * (k + 1)] for k in range(4)}
    found = twosample.compare(last[:400], {"last month, week 4": last[400:], **weeks}, rng=0)
    written["compare"] = found.report(folder / "compare.html", reference="last month, weeks 1 to 3", rng=0)
    rng = np.random.default_rng(0)
    real, fake = datasets.mnist(), datasets.fake_mnist()
    X, Y = (images[rng.permutation(len(images))[:400]] for images in (real, fake))
    result = twosample.two_sample_test(X, Y, twosample.mmd_d(steps=60), rng=0)
    written["digits"] = result.report(folder / "digits.html", names=("real digits", "generated digits"), rng=0)
    return written


def main() -> None:
    """Write the reports and take their pictures."""
    with tempfile.TemporaryDirectory() as folder:
        written = reports(Path(folder))
        browser = Browser(Path(folder) / "profile")
        for name, file in written.items():
            for place, size in (("desktop", DESKTOP), ("phone", PHONE)):
                for theme in ("light", "dark"):
                    page = browser.open(file, size, dark=theme == "dark")
                    if WHERE[name] != "verdict":
                        page.evaluate(f"document.getElementById('{WHERE[name]}').scrollIntoView()")
                    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
                    page.close()
                    target = ROOT / "docs" / "images" / f"report-{name}-{place}-{theme}.png"
                    picture.quantize(256, kmeans=2, dither=Image.Dither.NONE).save(target, optimize=True)
                    print(target.relative_to(ROOT), f"{target.stat().st_size / 1000:.0f} kB")
        browser.close()


if __name__ == "__main__":
    main()
