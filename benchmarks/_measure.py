"""Process CPU time and peak memory of a piece of work, each in a fresh process with one thread."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import time
from importlib import metadata


def peak_bytes():
    """The largest resident memory this process has had."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def forget_peak():
    """Let the peak start from what is resident now."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def measure(work, repeats):
    """CPU seconds of one call, and peak memory above what there was before; a first call warms up
    and is not timed.
    """
    forget_peak()
    before = peak_bytes()
    work()
    began = time.process_time()
    for _ in range(repeats):
        work()
    seconds = (time.process_time() - began) / repeats
    return {"seconds": seconds, "mebibytes": (peak_bytes() - before) / 2**20}


def in_fresh_process(script, *arguments):
    """Run `script arguments...` with one thread and read the JSON line it prints last."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, script, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def stamp(*packages):
    """What a result depends on beside the code: versions, processor, and how busy the machine
    was.
    """
    with open("/proc/cpuinfo") as file:
        models = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    model = models[0] if models else platform.machine()  # ARM names none
    # Without the local part of a version, which names a build and not a release.
    versions = {
        name: metadata.version(name).partition("+")[0]
        for name in ("twosample", "torch", "numpy", *packages)
    }
    return {
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        **versions,
        "processor": model,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }


def append(store, record):
    """Write one JSON line at the end of `store`."""
    with store.open("a") as file:
        file.write(json.dumps(record) + "\n")


def read(store):
    """All JSON lines of `store`; none if it does not exist."""
    if not store.exists():
        return []
    return [json.loads(line) for line in store.read_text().splitlines()]


def run_missing(store, names, jobs, minutes):
    """Append a line for each job that has none; a job is what these names are for it, and the work.

    The work gives the rest of its line. A run can be stopped at any moment, and goes on when it is
    started again.
    """
    known = {tuple(line[name] for name in names) for line in read(store)}
    until = time.monotonic() + 60 * minutes
    for values, work in jobs:
        if values in known:
            continue
        if time.monotonic() > until:
            print("Stopped; run the same command again to go on.")
            return
        append(store, {**dict(zip(names, values, strict=True)), **work()})


def command_line(about, count, default, run, tables, page):
    """The command line of a benchmark that runs what is missing, and writes tables into a page.

    `count` names the option for how much to run, which `run` gets with the minutes it may take;
    `tables` gives the name of each table and its text.
    """
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument(f"--{count}", dest="count", type=int, default=default)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.what == "run":
        run(options.count, options.minutes)
        return
    show(tables(), page, write=options.write)


def exponent(sizes, values):
    """The slope of log(value) against log(size), by least squares; NaN from fewer than two
    sizes.
    """
    if len(set(sizes)) < 2:
        return math.nan
    x = [math.log(size) for size in sizes]
    y = [math.log(max(value, 1e-12)) for value in values]
    x0 = sum(x) / len(x)
    y0 = sum(y) / len(y)
    covariance = sum((a - x0) * (b - y0) for a, b in zip(x, y, strict=True))
    variance = sum((a - x0) ** 2 for a in x)
    return covariance / variance


def write_between(page, name, text):
    """Put `text` into the page between the two comments that name the script; the rest stays."""
    begin = f"<!-- {name}: begin -->"
    end = f"<!-- {name}: end -->"
    head, rest = page.read_text().split(begin)
    tail = rest.split(end)[1]
    page.write_text(f"{head}{begin}\n\n{text.strip()}\n\n{end}{tail}")


def show(tables, page, *, write):
    """Print tables, given with their names, and put them into the page if asked to."""
    for name, text in tables.items():
        print(text, end="\n\n")
        if write:
            write_between(page, name, text)
