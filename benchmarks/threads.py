"""What torch's threads cost and save: tests of tables with one thread, and with torch's own number.

    python benchmarks/threads.py

Every measurement has a process of its own. The library takes one thread for tables (decision 7);
here that is switched off, so that both numbers of threads are measured with the same code.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import nullcontext

SIZES = (200, 2000, 20_000)
METHODS = ("mmd-median", "mmd-d", "c2st-l")


def measured(method, n, threads):
    """CPU and wall seconds of one test of n + n rows, in a fresh process with so many threads."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    command = [sys.executable, __file__, method, str(n)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def one(method, n):
    """Measure one test in this process."""
    import numpy as np

    import twosample
    from twosample import _two_sample

    _two_sample.threads_for = lambda schema: nullcontext()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 10))
    Y = rng.normal(size=(n, 10))
    twosample.two_sample_test(X[:50], Y[:50], "mmd-median", permutations=9, rng=0)  # warm up
    began = time.perf_counter()
    cpu_began = time.process_time()
    twosample.two_sample_test(X, Y, method, permutations=199, rng=0)
    print(json.dumps([time.process_time() - cpu_began, time.perf_counter() - began]))


def main():
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    print(f"{cores} cores, load {load:.1f} when it began")
    print(
        f"| method | n = m | 1 thread, CPU s (wall) | {cores} threads, CPU s (wall) | CPU ratio |"
    )
    print("|---|---|---|---|---|")
    for method in METHODS:
        for n in SIZES:
            cpu, wall = measured(method, n, 1)
            more_cpu, more_wall = measured(method, n, cores)
            few = f"{cpu:.2f} ({wall:.2f})"
            many = f"{more_cpu:.2f} ({more_wall:.2f})"
            print(f"| {method} | {n:,} | {few} | {many} | {more_cpu / cpu:.1f} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        one(sys.argv[1], int(sys.argv[2]))
    else:
        main()
