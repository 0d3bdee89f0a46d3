"""A learned deep kernel with 999 permutations on a Dask cluster of processes on loopback, one
killed on the way.

    python benchmarks/cluster.py [--n 100000] [--workers 3] [--no-kill]

A kernel is trained for a few steps here; then the same points are tested with the same seed by this
process alone and by the cluster, one thread each. One worker gets SIGKILL when a third of the
pieces are back. The two results are compared bit for bit. Workers share the cores of one machine,
so this shows that the work moves, what moving costs (CPU seconds of the cluster against those of
one machine) and what memory it takes, not how much sooner it ends. One line in
results/cluster.jsonl for each run.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from _measure import append, forget_peak, peak_bytes, stamp
from distributed import Client

import twosample
from twosample import _two_sample as two_sample
from twosample._cluster import DaskWorkers
from twosample.bench import datasets

STORE = Path(__file__).parent / "results" / "cluster.jsonl"
DIMENSION = 10
STEPS = 100


def start(program, *words, **options):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, "-m", f"distributed.cli.{program}", *words]
    return subprocess.Popen(command, env=environment, **{"stderr": subprocess.DEVNULL, **options})


def start_scheduler():
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show"]
    scheduler = start("dask_scheduler", *options, stderr=subprocess.PIPE)
    address = next(
        line.split()[-1].decode() for line in scheduler.stderr if b"Scheduler at:" in line
    )
    # Nobody else reads what it says, and a full pipe would stop it.
    threading.Thread(target=scheduler.stderr.read, daemon=True).start()
    return scheduler, address


def start_worker(address):
    options = "--no-nanny --nthreads 1 --no-dashboard --memory-limit 0 --host 127.0.0.1"
    return start("dask_worker", address, *options.split())


def spent(pid):
    """CPU seconds and peak MiB of a process that is alive."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    peak = next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
    return {
        "cpu_seconds": sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"),
        "peak_mebibytes": round(peak),
    }


@contextmanager
def started(count):
    """A scheduler and so many workers: gives a client and the processes, the scheduler first."""
    processes = []
    try:
        scheduler, address = start_scheduler()
        processes.append(scheduler)
        processes += [start_worker(address) for _ in range(count)]
        with Client(address, timeout=120, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=120)
            client.run(__import__, "twosample")  # importing torch is no part of the test
            client.run_on_scheduler(__import__, "twosample")
            yield client, processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def timed(work):
    forget_peak()
    cpu = time.process_time()
    wall = time.perf_counter()
    result = work()
    cpu = time.process_time() - cpu
    wall = time.perf_counter() - wall
    measured = {"wall_seconds": round(wall, 2), "cpu_seconds": round(cpu, 2)}
    return result, measured | {"peak_mebibytes": round(peak_bytes() / 2**20)}


def killing(worker, seen):
    """`DaskWorkers` that end `worker` for good when a third of the pieces of the comparison are
    back.
    """

    class Killing(DaskWorkers):
        def map(self, function, arguments):
            arguments = list(arguments)
            for at, result in enumerate(super().map(function, arguments)):
                if function.__name__ == "_compare":
                    seen["pieces"] = len(arguments)
                    if worker is not None and "killed" not in seen and at >= len(arguments) // 3:
                        seen["killed"] = {"after_pieces": at + 1, **spent(worker.pid)}
                        worker.send_signal(signal.SIGKILL)
                        seen["killed"]["exit_status"] = worker.wait(60)
                yield result

    return Killing


def run(n, count, kill):
    torch.set_num_threads(1)
    rng = np.random.default_rng(n)
    train = datasets.hdgm(2000, dimension=DIMENSION, rng=rng)
    held_out = datasets.hdgm(n, dimension=DIMENSION, rng=rng)
    generator = torch.Generator().manual_seed(0)
    kernel = twosample.DeepKernel(twosample.MLP(DIMENSION, width=30, generator=generator))
    learning = twosample.Learning(twosample.PowerCriterion(), steps=STEPS)
    fitted = twosample.TwoSampleTest(kernel, learning).fit(*train, rng=0, progress=False)
    alone, here = timed(lambda: fitted.test(*held_out, rng=1, progress=False))
    print(f"one machine: p = {alone.pvalue}, MMD^2 = {alone.statistic:.6g}, {here}", flush=True)

    seen = {}
    with started(count) as (client, processes):
        scheduler, doomed, *_ = processes
        before = {process.pid: spent(process.pid)["cpu_seconds"] for process in processes}
        two_sample.DaskWorkers = killing(doomed if kill else None, seen)
        together, there = timed(
            lambda: fitted.test(*held_out, rng=1, progress=False, client=client)
        )
        alive = {p.pid: spent(p.pid) for p in processes if p.poll() is None}
    if kill:
        seen["killed"]["cpu_seconds"] = round(seen["killed"]["cpu_seconds"] - before[doomed.pid], 2)
    for pid, usage in alive.items():
        usage["cpu_seconds"] = round(usage["cpu_seconds"] - before[pid], 2)
    null_here = alone.null_distribution
    null_there = together.null_distribution
    record = {
        "n": n,
        "workers": count,
        "permutations": len(null_here),
        "pieces": seen["pieces"],
        "killed": seen.get("killed"),
        "pvalue": [alone.pvalue, together.pvalue],
        "statistic": [alone.statistic, together.statistic],
        "same_bits": alone.statistic == together.statistic
        and bool(np.array_equal(null_here, null_there)),
        "largest_difference": float(np.abs(null_here - null_there).max()),
        "one_machine": here,
        "client": there,
        "scheduler": alive.pop(scheduler.pid),
        "workers_left": list(alive.values()),
    }
    return record | stamp("dask", "distributed")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=100_000, help="points of each sample")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--no-kill", action="store_true", help="let all workers live")
    options = parser.parse_args()
    record = run(options.n, options.workers, not options.no_kill)
    append(STORE, record)
    print(json.dumps(record))
