"""The default on a Dask cluster of processes on loopback: CPU seconds and memory of each process.

    python benchmarks/default_on_cluster.py run [--rows 500000 1000000] [--columns 10] [--workers 4] [--alone]
    python benchmarks/default_on_cluster.py table [--write]     from the stored results; --write puts it into docs/clusters.md

Both samples have so many rows of the same normal law, in .npy files. So the views do not decide,
and the deep kernel is trained and tested, too: the default takes no longer than this. With --alone
one process does the same test without the cluster, and both results are compared. The workers share
the cores of one machine. So the table shows how evenly the work is spread and what it takes, not
how much sooner it ends. One line in results/default_on_cluster.jsonl for each run; the table takes
the last line of each number of rows.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import torch
from _measure import append, read, stamp, write_between
from cluster import spent, started, timed

import twosample
from twosample import Stream

STORE = Path(__file__).parent / "results" / "default_on_cluster.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "clusters.md"
ROWS = (500_000, 1_000_000)
EXTRAPOLATED = 5_000_000  # rows of each sample
PART = 500_000  # rows drawn and written at a time


def normal_file(path, rows, columns, rng):
    """A file of normal rows."""
    points = np.lib.format.open_memmap(path, "w+", np.float64, (rows, columns))
    for first in range(0, rows, PART):
        part = points[first : first + PART]
        part[:] = rng.normal(size=part.shape)
    points.flush()
    return path


def since(processes, before):
    """What each process has spent, less the CPU seconds it had spent `before`."""
    now = [spent(process.pid) for process in processes]
    return [
        {**each, "cpu_seconds": round(each["cpu_seconds"] - earlier, 2)}
        for each, earlier in zip(now, before, strict=True)
    ]


def run(rows, columns, workers, alone):
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        files = [normal_file(Path(folder) / f"{name}.npy", rows, columns, rng) for name in "xy"]

        def test(client=None):
            x, y = (Stream.npy(file) for file in files)
            return twosample.two_sample_test(x, y, rng=0, progress=False, client=client)

        twosample.two_sample_test(rng.normal(size=(50, 3)), rng.normal(size=(50, 3)), rng=0)
        with started(workers) as (client, processes):
            before = [spent(process.pid)["cpu_seconds"] for process in processes]
            together, here = timed(lambda: test(client))
            scheduler, *of_workers = since(processes, before)
        print(f"{together}\n{together.chosen}", flush=True)
        by_one = None
        if alone:
            single, by_one = timed(test)
            by_one["same"] = bool(
                single.pvalue == together.pvalue and single.statistic == together.statistic
            )
    return {
        "rows": rows,
        "columns": columns,
        "pvalue": together.pvalue,
        "chosen": together.chosen,
        "client": here,
        "scheduler": scheduler,
        "workers": of_workers,
        "one_process": by_one,
    } | stamp("dask", "distributed")


def extrapolated(fewer, more):
    """What more rows would take, along the line through two runs."""

    def at_last(value):
        slope = (value(more) - value(fewer)) / (more["rows"] - fewer["rows"])
        return value(more) + slope * (EXTRAPOLATED - more["rows"])

    worker = at_last(lambda r: np.mean([each["cpu_seconds"] for each in r["workers"]]))
    client = at_last(lambda r: r["client"]["cpu_seconds"])
    memory = at_last(lambda r: r["client"]["peak_mebibytes"])
    return (
        f"Extrapolated along a line, not measured: {2 * EXTRAPOLATED:,} rows, half of them in each "
        f"sample, take {worker:.0f} CPU seconds of each worker, {client:.0f} of the client and "
        f"{memory / 1024:.1f} GiB of its memory."
    )


def table(records):
    """The last line of every number of rows, as Markdown."""
    latest = {(r["rows"], r["columns"], len(r["workers"])): r for r in records}
    lines = [
        "| rows a sample | columns | workers | CPU s of a worker | of the client | of the scheduler "
        "| peak of a worker, MiB | of the client | one process alone, CPU s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (rows, columns, count), r in sorted(latest.items()):
        seconds = [worker["cpu_seconds"] for worker in r["workers"]]
        most = max(worker["peak_mebibytes"] for worker in r["workers"])
        alone = f"{r['one_process']['cpu_seconds']:.0f}" if r["one_process"] else ""
        lines.append(
            f"| {rows:,} | {columns} | {count} | {min(seconds):.0f} to {max(seconds):.0f} "
            f"| {r['client']['cpu_seconds']:.0f} | {r['scheduler']['cpu_seconds']:.0f} | {most} "
            f"| {r['client']['peak_mebibytes']} | {alone} |"
        )
    last = records[-1]
    alike = [
        record
        for (_, columns, workers), record in sorted(latest.items())
        if columns == last["columns"] and workers == len(last["workers"])
    ]
    lines += [
        "",
        extrapolated(*alike[-2:]),
        "",
        f"Rows in .npy files; {last['processor']}, {last['cores']} cores, one thread a process; "
        f"torch {last['torch']}, dask {last['dask']}, {last['date']}.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS, help="rows of each sample")
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--alone", action="store_true", help="by one process, too")
    parser.add_argument("--write", action="store_true", help="put the table into docs/clusters.md")
    options = parser.parse_args()
    if options.command == "run":
        for rows in options.rows:
            record = run(rows, options.columns, options.workers, options.alone)
            append(STORE, record)
            print(json.dumps(record), flush=True)
    else:
        text = table(read(STORE))
        print(text)
        if options.write:
            write_between(PAGE, "default on a cluster", text)
