"""Process CPU time and peak memory of a piece of work, each in a fresh process with one thread."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time


def peak_bytes():
    """The largest resident memory this process has had."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def forget_peak():
    """Let the peak start from what is resident now."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def measure(work, repeats):
    """CPU seconds of one call, and peak memory above what there was before; a first call warms up and is not timed."""
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
        [sys.executable, script, *map(str, arguments)], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])
