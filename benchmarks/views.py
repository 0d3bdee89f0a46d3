"""CPU time and memory of `spectral` and `auto`, the default, from 300 to a million rows a sample.

    python benchmarks/views.py run [--settings 300x4 3000x4 30000x10 300000x10 1000000x10]
    python benchmarks/views.py run --stream --settings 1000000x10      rows from .npy files, in parts
    python benchmarks/views.py run --method auto --settings 1000000x10     with the deep kernel, which has to be trained here
    python benchmarks/views.py table [--write]      from the stored results; --write puts it into docs/performance.md

Every setting is a fresh single-thread process. Both samples are normal, so that nothing ends early:
of `auto`, which is the default, this is the longer way.
The import of the library is not in the seconds. Up to 1000 rows a sample, the textbook takes the
same T of the same landmarks in the same process: for each of 999 permutations it makes the means of
the features and solves with their covariance, as the formula stands. It sees one view of the many.
Each run is one line in results/views.jsonl; the table takes the last line of each.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from _measure import append, forget_peak, in_fresh_process, peak_bytes, read, stamp, write_between

import twosample
from twosample import Stream

STORE = Path(__file__).parent / "results" / "views.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
SETTINGS = ("300x4", "3000x4", "30000x10", "300000x10", "1000000x10")
PERMUTATIONS = 999
MOST_BY_TEXTBOOK = 1000  # rows a sample
REGULARISATION = 0.01


def textbook(features, n, rng):
    """The p-value of one view and one lambda, one permutation after the other."""
    covariance = np.cov(features.T, bias=True)
    largest = np.linalg.eigvalsh(covariance)[-1]
    ridge = covariance + REGULARISATION * largest * np.eye(len(covariance))
    values = []
    order = np.arange(len(features))
    for _ in range(PERMUTATIONS + 1):
        difference = features[order[:n]].mean(0) - features[order[n:]].mean(0)
        values.append(difference @ np.linalg.solve(ridge, difference))
        order = rng.permutation(len(features))
    return np.mean(np.array(values) >= values[0])


def seconds_by_textbook(result, n):
    """CPU seconds of the textbook for one view of landmarks."""
    views = result.fitted.representation
    points = result.samples.pooled()
    began = time.process_time()
    features = views.stacks[0].features(views.see(points))[:, 1].numpy()
    textbook(features, n, np.random.default_rng(0))
    return time.process_time() - began


def as_streams(X, Y, folder):
    """Both samples from .npy files, in parts."""
    streams = []
    for name, sample in (("x", X), ("y", Y)):
        path = Path(folder) / f"{name}.npy"
        np.save(path, sample)
        streams.append(Stream.npy(path))
    return streams


def one(setting, streamed, method):
    """Run the test at this setting in this process."""
    torch.set_num_threads(1)
    rows, columns = map(int, setting.split("x"))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns))
    Y = rng.normal(size=(rows, columns))
    test = twosample.METHODS[method](permutations=PERMUTATIONS)
    # What torch loads on its first call. These rows are enough for the kernel to be trained.
    few = 50 if method == "spectral" else 1000
    test.run(X[:few], Y[:few], rng=0, progress=False)
    with tempfile.TemporaryDirectory() as folder:
        if streamed:
            X, Y = as_streams(X, Y, folder)
        forget_peak()
        before = peak_bytes()
        wall = time.perf_counter()
        cpu = time.process_time()
        result = test.run(X, Y, rng=0, progress=False)
        cpu = time.process_time() - cpu
        wall = time.perf_counter() - wall
        peak = peak_bytes()
    by_textbook = None
    if rows <= MOST_BY_TEXTBOOK and not streamed:
        by_textbook = round(seconds_by_textbook(result, rows), 3)
    return {
        "rows": rows,
        "columns": columns,
        "streamed": streamed,
        "method": method,
        "views": result.fitted.representation.count(),
        "cpu_seconds": round(cpu, 3),
        "wall_seconds": round(wall, 3),
        "textbook_seconds": by_textbook,
        "peak_mebibytes": round(peak / 2**20),
        "test_mebibytes": round((peak - before) / 2**20),
        "pvalue": result.pvalue,
        "calibration": result.calibration,
    }


def run(settings, streamed, method):
    print(HEAD, flush=True)
    for setting in settings:
        how = "stream" if streamed else "memory"
        record = in_fresh_process(__file__, "one", setting, how, "--method", method) | stamp()
        append(STORE, record)
        print(line(record), flush=True)


HEAD = (
    "| rows a sample | columns | views | CPU s | textbook, one view, CPU s | peak, MiB | of it the "
    "test, MiB |\n"
    "|---|---|---|---|---|---|---|"
)


def method_of(record):
    """The first lines of the store are of `spectral`, and do not say so."""
    return record.get("method", "spectral")


def line(r):
    notes = []
    if r["streamed"]:
        notes.append("stream")
    if method_of(r) == "auto":
        notes.append("with a kernel")
    rows = f"{r['rows']:,}" + (f" ({', '.join(notes)})" if notes else "")
    textbook = "" if r["textbook_seconds"] is None else f"{r['textbook_seconds']:.1f}"
    return (
        f"| {rows} | {r['columns']} | {r['views']} | {r['cpu_seconds']:.2f} | {textbook} | "
        f"{r['peak_mebibytes']} | {r['test_mebibytes']} |"
    )


def table(records):
    """The last line of every setting, as Markdown, and what follows from them."""
    latest = {(r["rows"], r["columns"], method_of(r) == "auto", r["streamed"]): r for r in records}
    last = [record for _, record in sorted(latest.items())]
    final = [r for r in last if r["streamed"] and method_of(r) == "spectral"][-1]
    processors = " or ".join(dict.fromkeys(record["processor"] for record in last))
    per_million = final["cpu_seconds"] / (2 * final["rows"]) * 1e6
    return "\n".join(
        [
            HEAD,
            *map(line, last),
            "",
            f"At {final['rows']:,} rows a sample of {final['columns']} columns, a million rows take "
            f"{per_million:.0f} CPU seconds by the views, from files, and the time grows with the "
            "rows. *With a kernel*: the default where the views do not decide. "
            "[Clusters](clusters.md#what-it-takes) has the same with four workers, and what ten "
            "million rows would take.",
            f"{processors}, one thread; twosample {final['twosample']}, torch "
            f"{final['torch']}, Python {final['python']}, {final['date']}, load {final['load']}.",
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["run", "table", "one"], nargs="?", default="run")
    parser.add_argument("setting", nargs="?", help="of the command `one`, which `run` starts")
    parser.add_argument("how", nargs="?", choices=["memory", "stream"], default="memory")
    parser.add_argument("--settings", nargs="+", default=SETTINGS)
    parser.add_argument("--stream", action="store_true", help="read the rows from files, in parts")
    parser.add_argument("--method", choices=["spectral", "auto"], default="spectral")
    parser.add_argument(
        "--write", action="store_true", help="put the table into docs/performance.md"
    )
    options = parser.parse_args()
    if options.command == "one":
        print(json.dumps(one(options.setting, options.how == "stream", options.method)))
    else:
        if options.command == "run":
            run(options.settings, options.stream, options.method)
            print()
        text = table(read(STORE))
        print(text)
        if options.write:
            write_between(PAGE, "views", text)
