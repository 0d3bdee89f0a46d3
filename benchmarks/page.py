"""How large a report is, and how long it takes to open: 200 columns and 100,000 rows of each sample.

    python benchmarks/page.py run [ROWS COLUMNS]   test, write the page, open it in chromium
    python benchmarks/page.py table                write the table of docs/report.md

Opening is from the request for the file to the end of its `load` event, scripts included, in a
browser that runs already; the median of five times. Each run is a line of
benchmarks/results/page.jsonl.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from _measure import append, read, stamp, write_between

import twosample

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "page.jsonl"
PAGE = HERE.parent / "docs" / "report.md"
sys.path.insert(0, str(HERE.parent / "tests"))
from browser import DESKTOP, PHONE, Browser  # noqa: E402

OPENED = 5
TIMES = "(({ loadEventEnd, startTime }) => loadEventEnd - startTime)(performance.getEntries()[0])"


def tables(rows, columns):
    """Numbers, every tenth column a category; three columns differ."""
    rng = np.random.default_rng(0)
    samples = []
    for shift in (0.0, 0.1):
        values = rng.normal(size=(rows, columns)).round(3)
        values[:, :3] += shift
        frame = pd.DataFrame(values, columns=[f"column {k}" for k in range(columns)])
        for k in range(9, columns, 10):
            frame[f"column {k}"] = rng.choice(["red", "green", "blue", "grey"], rows)
        samples.append(frame)
    return samples


def run(rows, columns):
    X, Y = tables(rows, columns)
    test = twosample.spectral(permutations=199)
    began = time.process_time()
    result = twosample.two_sample_test(X, Y, test, rng=0)
    tested = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        result.report(file, rng=0)
        written = time.process_time()
        browser = Browser(Path(folder) / "profile")
        seconds = {}
        for device, size in (("desktop", DESKTOP), ("phone", PHONE)):
            times = []
            for _ in range(OPENED):
                page = browser.open(file, size)
                times.append(page.evaluate(TIMES) / 1000)
                page.close()
            seconds[device] = round(statistics.median(times), 3)
        browser.close()
        megabytes = round(file.stat().st_size / 1e6, 2)
    record = {
        "rows": rows,
        "columns": columns,
        "megabytes": megabytes,
        "test": round(tested - began, 1),
        "write": round(written - tested, 1),
        **seconds,
        **stamp(),
    }
    append(RESULTS, record)
    print(record)


def table():
    """The last run of each size, as Markdown."""
    latest = {(line["rows"], line["columns"]): line for line in read(RESULTS)}
    lines = [
        "| rows of each sample | columns | size | opens on a desktop | on a phone's screen | test | page |",
        "|---|---|---|---|---|---|---|",
    ]
    for (rows, columns), line in sorted(latest.items()):
        lines.append(
            f"| {rows:,} | {columns} | {line['megabytes']:.1f} MB | {line['desktop']:.2f} s | "
            f"{line['phone']:.2f} s | {line['test']:.0f} CPU s | {line['write']:.0f} CPU s |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["run"]:
            run(100_000, 200)
        case ["run", rows, columns]:
            run(int(rows), int(columns))
        case ["table"]:
            write_between(PAGE, "page.py", table())
        case _:
            sys.exit(__doc__)
