"""The same tests by other packages: same data, same machine, one after another; CPU time and peak
memory against n.

    python benchmarks/peers.py install                 an environment for each package, outside this repository
    python benchmarks/peers.py run [PEER ...] [--sizes 250 500 ...] [--limit 120] [--memory 4] [--again]
    python benchmarks/peers.py run --peak              then the peak of memory, of what has ended in time
    python benchmarks/peers.py table [--write]         tables and plots; --write puts them into docs/

Two normal samples with 10 columns, n points each, that do not differ, columns scaled to mean 0 and
variance 1; 199 permutations; the Gaussian kernel at the median distance, given to every package
(ours finds it by itself). Each measurement is a fresh process with one thread: imports and a
warm-up on 50 points (compilation) come first and do not count. A run that needs more than `--limit`
CPU seconds or `--memory` GiB is stopped, and larger ones are not tried; nor is one that would need
twice the limit if it grew with the square from the size before. Environments are made with `python
-m venv` and pip in the user's cache folder (TWOSAMPLE_PEERS names another one). Every outcome is
one line in results/peers.jsonl, so a run can be stopped and continued. Memory is measured in runs
of their own, in which the C library gives all freed matrices back: what it keeps otherwise is its
own choice (torchdrift at n = 1000: 1434 MiB instead of 61), but giving it back takes time.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path

import numpy as np
from _measure import append, exponent, forget_peak, peak_bytes, read, stamp, write_between

STORE = Path(__file__).parent / "results" / "peers.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
PICTURES = PAGE.parent / "images"
SIZES = (250, 500, 1000, 2000, 5000, 10_000, 20_000)
DIMENSION = 10
PERMUTATIONS = 199
STEPS = 300
BATCH = 256


def data(n):
    """Two samples and the median of the distances between (at most 1000 of) their points."""
    rng = np.random.default_rng(n)
    pooled = rng.standard_normal((2 * n, DIMENSION))
    pooled = (pooled - pooled.mean(0)) / pooled.std(0)
    few = pooled[:: max(1, 2 * n // 1000)]
    distances = np.sqrt(((few[:, None] - few[None]) ** 2).sum(-1))[np.triu_indices(len(few), 1)]
    return pooled[:n], pooled[n:], float(np.median(distances))


# ------------------------------------------------------------ the contestants
# Each function imports what it needs and returns one that tests x against y: (x, y, sigma) ->
# statistic, p-value.


def ours_median():
    import twosample

    test = twosample.mmd_median(permutations=PERMUTATIONS)
    return lambda x, y, sigma: _ours(test, x, y)


def ours_energy():
    import torch

    from twosample import MMD, Permutation, TwoSampleTest
    from twosample._kernels import Kernel

    class MinusDistance(Kernel):
        """-|x - y|, whose MMD^2 is the energy distance."""

        def tile(self, a, b):
            return torch.cdist(a[0], b[0]).neg_()

        def pairs(self, a, b):
            return -torch.linalg.vector_norm(a[0] - b[0], dim=1)

    test = TwoSampleTest(
        MinusDistance(), statistic=MMD("biased"), calibration=Permutation(PERMUTATIONS)
    )
    return lambda x, y, sigma: _ours(test, x, y)


def ours_classifier():
    from sklearn.linear_model import LogisticRegression

    import twosample

    test = twosample.c2st_s(
        classifier=LogisticRegression(), permutations=PERMUTATIONS, alternative="greater"
    )
    return lambda x, y, sigma: _ours(test, x, y)


def ours_learned():
    import twosample

    test = twosample.mmd_d(permutations=PERMUTATIONS)
    return lambda x, y, sigma: _ours(test, x, y)


def _ours(test, x, y):
    result = test.run(x, y, rng=0, progress=False)
    return result.statistic, result.pvalue


def textbook_learned():
    """The deep kernel as it is usually written: full batches, autograd on dense matrices, a gather
    a permutation.
    """
    import torch
    from training_step import textbook_criterion

    from twosample import DeepKernel
    from twosample._featurizers import ResidualMLP

    def run(x, y, sigma):
        generator = torch.Generator().manual_seed(0)
        x = torch.as_tensor(x, dtype=torch.float32)
        y = torch.as_tensor(y, dtype=torch.float32)
        half = len(x) // 2
        kernel = DeepKernel(ResidualMLP())
        kernel.start(torch.cat([x[:half], y[:half]]), generator)
        optimiser = torch.optim.Adam(kernel.parameters(), lr=5e-4)
        for _ in range(STEPS):
            optimiser.zero_grad()
            (-textbook_criterion(kernel, x[:half], y[:half])).backward()
            optimiser.step()
        held_out = torch.cat([x[half:], y[half:]])
        n = len(x) - half
        with torch.no_grad():
            gram = kernel(held_out, held_out).fill_diagonal_(0)

            def mmd2(order):
                a = order[:n]
                b = order[n:]
                within = (gram[a][:, a].sum() + gram[b][:, b].sum()) / (n * (n - 1))
                return float(within - 2 * gram[a][:, b].mean())

            observed = mmd2(torch.arange(2 * n))
            null = [mmd2(torch.randperm(2 * n, generator=generator)) for _ in range(PERMUTATIONS)]
        return observed, _pvalue(observed, null)

    return run


def hyppo_mmd():
    from hyppo.ksample import MMD

    return lambda x, y, sigma: tuple(
        MMD(gamma=0.5 / sigma**2).test(x, y, reps=PERMUTATIONS, auto=False)
    )[:2]


def hyppo_energy():
    from hyppo.ksample import Energy

    return lambda x, y, sigma: tuple(Energy().test(x, y, reps=PERMUTATIONS, auto=False))[:2]


def dcor_energy():
    import dcor

    def run(x, y, sigma):
        result = dcor.homogeneity.energy_test(x, y, num_resamples=PERMUTATIONS, random_state=0)
        return result.statistic, result.pvalue

    return run


def alibi_mmd():
    from alibi_detect.cd import MMDDrift

    def run(x, y, sigma):
        x = x.astype(np.float32)
        y = y.astype(np.float32)
        test = MMDDrift(
            x,
            backend="pytorch",
            sigma=np.array([sigma], dtype=np.float32),
            n_permutations=PERMUTATIONS,
            device="cpu",
        )
        result = test.predict(y)["data"]
        return result["distance"], result["p_val"]

    return run


def alibi_learned():
    from alibi_detect.cd import LearnedKernelDrift
    from alibi_detect.utils.pytorch.kernels import DeepKernel
    from torch import nn

    def run(x, y, sigma):
        width = 3 * DIMENSION
        batch = min(BATCH, len(x) // 2)
        layers = [part for _ in range(3) for part in (nn.Linear(width, width), nn.Softplus())][:-1]
        kernel = DeepKernel(
            nn.Sequential(nn.Linear(DIMENSION, width), nn.Softplus(), *layers), eps=0.1
        )
        test = LearnedKernelDrift(
            x.astype(np.float32),
            kernel,
            backend="pytorch",
            n_permutations=PERMUTATIONS,
            train_size=0.5,
            batch_size=batch,
            epochs=max(1, round(STEPS / (len(x) // 2 // batch))),
            batch_size_predict=512,  # its default of 32 is slower
            device="cpu",
        )
        result = test.predict(y.astype(np.float32))["data"]
        return result["distance"], result["p_val"]

    return run


def frouros_mmd():
    from frouros.callbacks import PermutationTestDistanceBased
    from frouros.detectors.data_drift import MMD
    from frouros.utils.kernels import rbf_kernel

    def run(x, y, sigma):
        callback = PermutationTestDistanceBased(
            num_permutations=PERMUTATIONS, random_state=0, num_jobs=1, name="test"
        )
        detector = MMD(kernel=partial(rbf_kernel, sigma=sigma), callbacks=[callback])
        detector.fit(x)
        distance, logs = detector.compare(y)
        return distance.distance, logs["test"]["p_value"]

    return run


def torchdrift_mmd():
    import torch
    from torchdrift.detectors.mmd import GaussianKernel, kernel_mmd

    def run(x, y, sigma):
        x = torch.as_tensor(x, dtype=torch.float32)
        y = torch.as_tensor(y, dtype=torch.float32)
        kernel = GaussianKernel(sigma)
        statistic, pvalue = kernel_mmd(x, y, n_perm=PERMUTATIONS, kernel=kernel)
        return float(statistic), float(pvalue)

    return run


def goodpoints_mmd():
    from goodpoints.ctt import ctt

    def run(x, y, sigma):
        result = ctt(
            x, y, g=4, B=PERMUTATIONS, lam=math.sqrt(2) * sigma, null_seed=0, statistic_seed=1
        )
        # The values come back in another order; the observed one is among them.
        as_large = result.estimator_values >= result.statistic_values
        return result.statistic_values, float(as_large.mean())

    return run


def sklearn_classifier():
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    def run(x, y, sigma):
        rng = np.random.default_rng(0)
        points = np.concatenate([x, y])
        labels = np.repeat([1, 0], [len(x), len(y)])
        train = np.concatenate(
            [
                rng.permutation(len(x))[: len(x) // 2],
                len(x) + rng.permutation(len(y))[: len(y) // 2],
            ]
        )
        test = np.setdiff1d(np.arange(len(points)), train)
        scaler = StandardScaler().fit(points)
        model = LogisticRegression().fit(scaler.transform(points[train]), labels[train])
        guesses = model.predict(scaler.transform(points[test]))
        truth = labels[test]
        observed = (guesses == truth).mean()
        null = [(guesses == rng.permutation(truth)).mean() for _ in range(PERMUTATIONS)]
        return observed, _pvalue(observed, null)

    return run


def _pvalue(observed, null):
    return (1 + sum(value >= observed for value in null)) / (1 + len(null))


@dataclass(frozen=True)
class Peer:
    """A test of one package; the first of a group is ours, and what the others are compared
    with.
    """

    group: str
    label: str  # in plots and tables
    package: str | None  # None runs in this environment
    load: Callable[[], Callable]
    same: str  # how far its statistic is that of ours
    in_our_units: Callable[[float, int], float] | None = (
        None  # (statistic, n) -> the same on our scale
    )


PEERS = {
    "ours-median": Peer("MMD", "twosample mmd-median", None, ours_median, ""),
    "hyppo-mmd": Peer(
        "MMD", "hyppo MMD", "hyppo", hyppo_mmd, "a correlation with the labels: the same p-value"
    ),
    "alibi-mmd": Peer(
        "MMD",
        "alibi-detect MMDDrift",
        "alibi-detect",
        alibi_mmd,
        "the same; p without the + 1",
        lambda t, n: t,
    ),
    "frouros-mmd": Peer(
        "MMD",
        "frouros MMD",
        "frouros",
        frouros_mmd,
        "the same; a new matrix each permutation",
        lambda t, n: t,
    ),
    "torchdrift-mmd": Peer(
        "MMD",
        "torchdrift MMD",
        "torchdrift",
        torchdrift_mmd,
        "the same plus a constant; p without the + 1",
        lambda t, n: t - 2 / (n - 1),
    ),
    "goodpoints-mmd": Peer(
        "MMD",
        "goodpoints CTT",
        "goodpoints",
        goodpoints_mmd,
        "an approximation: the MMD of compressed samples",
    ),
    "ours-energy": Peer("energy", "twosample energy", None, ours_energy, ""),
    "dcor-energy": Peer(
        "energy",
        "dcor energy_test",
        "dcor",
        dcor_energy,
        "the same times n m / (n + m)",
        lambda t, n: t * 2 / n,
    ),
    "hyppo-energy": Peer(
        "energy", "hyppo Energy", "hyppo", hyppo_energy, "the unbiased one, from U-centred matrices"
    ),
    "ours-learned": Peer("learned kernel", "twosample mmd-d", None, ours_learned, ""),
    "textbook-learned": Peer(
        "learned kernel",
        "textbook autograd",
        None,
        textbook_learned,
        "the same kernel and steps, full batches",
    ),
    "alibi-learned": Peer(
        "learned kernel",
        "alibi-detect LearnedKernel",
        "alibi-detect",
        alibi_learned,
        "as many steps of as many points",
    ),
    "ours-c2st": Peer("classifier", "twosample c2st-s", None, ours_classifier, ""),
    "sklearn-c2st": Peer(
        "classifier",
        "scikit-learn by hand",
        None,
        sklearn_classifier,
        "the same accuracy, less checks",
    ),
}

# What each package is installed as; torch at our version, so that one build serves all.
REQUIREMENTS = {
    "hyppo": ["hyppo"],
    "dcor": ["dcor"],
    "frouros": ["frouros"],
    "goodpoints": ["goodpoints"],
    "alibi-detect": ["alibi-detect[torch]", "torch=="],
    "torchdrift": ["torchdrift", "torch==", "numpy", "tqdm", "scikit-learn", "matplotlib"],
    "POT": ["POT"],
    "pymmd": ["pymmd"],
    "mmdfuse": ["mmdfuse"],
    "mmdagg": ["mmdagg"],
    "agginc": ["agginc"],
    "falkon": ["falkon"],
    "autotst": ["autotst"],
    "freqopttest": ["freqopttest"],
    "torch-two-sample": ["torch-two-sample"],
}
NO_TEST = {
    "POT": "optimal transport distances; has no test, and none of its distances is an MMD",
    "pymmd": "is a wrapper of MultiMarkdown",
}


# ------------------------------------------------------------ environments


def home():
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("TWOSAMPLE_PEERS") or cache / "twosample-peers")


def python_of(package):
    return Path(sys.executable) if package is None else home() / package / "bin" / "python"


def install(packages):
    """One environment a package, so that none stands in another's way; what fails is written down
    with pip's reason.
    """
    torch = metadata.version("torch").split("+")[0]
    for package in packages:
        python = python_of(package)
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
        wanted = [r + torch if r.endswith("==") else r for r in REQUIREMENTS[package]]
        done = subprocess.run(
            [python, "-m", "pip", "install", "-q", *wanted], capture_output=True, text=True
        )
        record = {"install": package, "ok": done.returncode == 0, "date": time.strftime("%Y-%m-%d")}
        if done.returncode == 0:
            show = f"from importlib import metadata; print(metadata.version({package!r}))"
            record["version"] = subprocess.run(
                [python, "-c", show], capture_output=True, text=True
            ).stdout.strip()
        else:
            record["reason"] = reason(done.stderr)
        append(STORE, record)
        print(f"{package}: {record.get('version') or record['reason']}", flush=True)


def reason(stderr):
    """The one line of pip that says why, without addresses and folders."""
    if versions := re.search(
        r"require a different python version: .*(Requires-Python [^;\n]*)", stderr
    ):
        return versions[1].strip()
    lines = [
        line.strip()
        for line in stderr.splitlines()
        if re.search(r"\w*error\b", line, re.IGNORECASE)
    ]
    said = next(
        (line for line in reversed(lines) if "No matching" in line),
        lines[-1] if lines else "pip failed",
    )
    said = re.sub(r"^(ERROR|error): *", "", said)
    return re.sub(r"\S*(://|/)\S*", "...", said)[:160]


# ------------------------------------------------------------ measurements


def one(key, n, once):
    """Measure one test at one size, in this process; where it is quick, the mean of several, unless
    `once`.
    """
    try:
        import torch

        torch.set_num_threads(1)
    except ImportError:
        pass
    test = PEERS[key].load()
    test(*data(50))
    points = data(n)
    forget_peak()
    resident = peak_bytes()
    repeats = 0
    began = cpu_seconds()
    while repeats == 0 or (not once and cpu_seconds() - began < 0.5 and repeats < 10):
        statistic, pvalue = test(*points)
        repeats += 1
    seconds = (cpu_seconds() - began) / repeats
    peak = peak_bytes() + resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return {
        "cpu_seconds": round(seconds, 4),
        "test_mebibytes": round((peak - resident) / 2**20, 1),
        "peak_mebibytes": round(peak / 2**20),
        "repeats": repeats,
        "statistic": float(statistic),
        "pvalue": float(pvalue),
    }


def cpu_seconds():
    """CPU time of this process and of those it started and saw end."""
    spent = os.times()
    return time.process_time() + spent.children_user + spent.children_system


def watched(key, n, limit, gibibytes, peak=False):
    """`one` in a fresh process of the package's own environment, stopped where it takes more than
    its share.
    """
    environment = {
        **os.environ,
        **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMBA")},
    }
    environment |= {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [python_of(PEERS[key].package), "-W", "ignore", __file__, "one", key, "--n", str(n)]
    if peak:
        environment["MALLOC_MMAP_THRESHOLD_"] = str(
            2**20
        )  # larger blocks are mapped, and unmapped when they are freed
        command.append("--peak")
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A group of its own, so that whatever it starts counts and stops with it.
        start_new_session=True,
    )
    stopped = None
    while process.poll() is None:
        try:
            process.wait(0.2)
        except subprocess.TimeoutExpired:
            stopped = too_much(process.pid, limit, gibibytes)
            if stopped:
                os.killpg(process.pid, signal.SIGKILL)
                break
    out, err = process.communicate()
    if stopped:
        return {"stopped": stopped}
    if process.returncode:
        lines = [line for line in err.strip().splitlines() if line] or [
            f"exit code {process.returncode}"
        ]
        return {"stopped": "error", "reason": reason(lines[-1])}
    return json.loads(out.splitlines()[-1])


def too_much(group, limit, gibibytes):
    """Say "time" or "memory" if a group of processes has had more than its share; imports count, a
    few seconds.
    """
    seconds = memory = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:  # it has ended
            continue
        if int(fields[2]) == group:
            seconds += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
            memory += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    return "time" if seconds > limit else "memory" if memory > gibibytes * 2**30 else None


def expected(key, n, done, limit):
    """What a test would need if it grew with the square from the last size on, where that is twice
    the limit.
    """
    before = [
        (size, r["cpu_seconds"])
        for (k, size), r in done.items()
        if k == key and size < n and "cpu_seconds" in r
    ]
    if not before:
        return None
    size, seconds = max(before)
    guess = seconds * (n / size) ** 2
    return {"stopped": "expected", "expected_seconds": round(guess)} if guess > 2 * limit else None


def run_peaks(keys, sizes, gibibytes, again):
    """The peak of memory of every test and size that has ended in time."""
    records = read(STORE)
    known = set() if again else {(r["peer"], r["n"]) for r in records if r.get("only_peak")}
    for (key, n), timed in sorted(measured(records).items(), key=lambda item: item[0][1]):
        if key in keys and n in sizes and "cpu_seconds" in timed and (key, n) not in known:
            outcome = watched(key, n, 10 * timed["cpu_seconds"] + 60, gibibytes, peak=True)
            names = ("test_mebibytes", "peak_mebibytes", "stopped")
            record = {
                "peer": key,
                "n": n,
                "only_peak": True,
                **{k: outcome[k] for k in names if k in outcome},
            }
            append(STORE, {**record, "date": time.strftime("%Y-%m-%d")})
            print(
                f"n = {n:6} {PEERS[key].label:28} {outcome.get('test_mebibytes', 'stopped')} MiB",
                flush=True,
            )


def run(keys, sizes, limit, gibibytes, again):
    """Size by size, all tests of a size one after another."""
    stamped = stamp("scikit-learn")
    stamped.pop("load")
    done = {} if again else measured(read(STORE))
    over = {key for key, n in done if "stopped" in done[key, n]}
    for n in sizes:
        for key in keys:
            if (key, n) in done or key in over:
                continue
            if not python_of(PEERS[key].package).exists():
                print(f"{key}: no environment; `peers.py install` makes it.")
                over.add(key)
                continue
            outcome = expected(key, n, done, limit) or watched(key, n, limit, gibibytes)
            done[key, n] = outcome
            if "stopped" in outcome:
                over.add(key)
            record = {
                "peer": key,
                "n": n,
                **outcome,
                "limit": limit,
                "gibibytes": gibibytes,
                **stamped,
            }
            append(STORE, {**record, "load": round(os.getloadavg()[0], 1)})
            print(f"n = {n:6} {PEERS[key].label:28} {cell(record, None)}", flush=True)


# ------------------------------------------------------------ tables and plots


def measured(records):
    """The last record of every test and size, with the memory of the last run that measured only
    that.
    """
    known = [r for r in records if r.get("peer") in PEERS]
    last = {(r["peer"], r["n"]): r for r in known if "only_peak" not in r}
    peaks = {(r["peer"], r["n"]): r for r in known if "only_peak" in r and "stopped" not in r}
    names = ("test_mebibytes", "peak_mebibytes")
    return {
        at: r | {name: peaks[at][name] for name in names if at in peaks} for at, r in last.items()
    }


def cell(record, ours):
    if record is None:
        return ""
    if "stopped" in record:
        if record["stopped"] == "expected":
            return f"not run: about {record['expected_seconds']} s expected"
        limits = {
            "time": f"> {record['limit']:g} s",
            "memory": f"> {record['gibibytes']:g} GiB",
            "error": "failed",
        }
        return limits[record["stopped"]]
    seconds = record["cpu_seconds"]
    text = f"{seconds:.{3 if seconds < 0.1 else 2 if seconds < 10 else 0}f} s"
    if ours is not None and "cpu_seconds" in ours and ours is not record:
        ratio = seconds / ours["cpu_seconds"]
        text += f" ({ratio:.{2 if ratio < 1 else 1 if ratio < 10 else 0}f}x)"
    return f"{text}, {record['test_mebibytes']:.0f} MiB"


def table(records):
    """One table for each statistic, as Markdown, then what was installed and what was not."""
    latest = measured(records)
    lines = []
    for group in dict.fromkeys(peer.group for peer in PEERS.values()):
        keys = [
            key
            for key, peer in PEERS.items()
            if peer.group == group and any(k == key for k, _ in latest)
        ]
        if not keys:
            continue
        sizes = sorted({n for key, n in latest if key in keys})
        lines += [f"**{group}**", ""]
        lines += [
            "| test | " + " | ".join(f"n = {n:,}" for n in sizes) + " | power of n | statistic |"
        ]
        lines += ["|---|" + "---|" * (len(sizes) + 2)]
        for key in keys:
            own = [
                latest[key, n]
                for n in sizes
                if n >= 1000 and "cpu_seconds" in latest.get((key, n), {})
            ]
            slope = exponent([r["n"] for r in own], [r["cpu_seconds"] for r in own])
            cells = [cell(latest.get((key, n)), latest.get((keys[0], n))) for n in sizes]
            last = "" if math.isnan(slope) else f"{slope:.1f}"
            lines.append(
                f"| {PEERS[key].label} | {' | '.join(cells)} | {last} | {PEERS[key].same} |"
            )
        lines.append("")
    lines += [
        "CPU seconds of one test, in brackets how many times ours, and the peak of resident memory "
        "beyond imports, "
        f"data and warm-up, {where_peaks_are(records)}. The power of n is fitted to the times from "
        "n = 1000 on. "
        "frouros permutes in a second process, whose interpreter counts.",
        "",
    ]
    lines += [*agreement(latest), ""]
    installs = {r["install"]: r for r in records if "install" in r}
    good = [
        f"{name} {r['version']}" for name, r in installs.items() if r["ok"] and name not in NO_TEST
    ]
    newest = max(latest.values(), key=lambda r: r["date"])
    lines.append(
        f"{newest['processor']}, one thread, {newest['date']}; twosample {newest['twosample']}, "
        "torch "
        f"{newest['torch']}, scikit-learn {newest['scikit-learn']}, Python {newest['python']}; "
        f"{', '.join(good)}."
    )
    missing = [f"- {name}: {r['reason']}" for name, r in installs.items() if not r["ok"]]
    missing += [
        f"- {name} {r['version']}: {NO_TEST[name]}"
        for name, r in installs.items()
        if r["ok"] and name in NO_TEST
    ]
    failed = {
        PEERS[key].label: r["reason"]
        for (key, _), r in sorted(latest.items())
        if r.get("stopped") == "error"
    }
    missing += [f"- {label} installs but does not run: {why}" for label, why in failed.items()]
    if missing:
        lines += ["", "Not measured:", "", *missing]
    return "\n".join(lines)


def where_peaks_are(records):
    """Up to which size memory was measured in runs of its own."""
    timed = {at for at, r in measured(records).items() if "cpu_seconds" in r}
    apart = {(r["peer"], r["n"]) for r in records if "only_peak" in r and "stopped" not in r}
    first = min((n for _, n in timed - apart), default=None)
    if first is None:
        return "measured in a run of its own"
    before = max((n for _, n in timed if n < first), default=None)
    if before is None:
        return "measured beside the time"
    return f"measured beside the time, up to n = {before:,} in a run of its own"


def agreement(latest):
    """How the statistics and p-values of one pair of samples compare, at the smallest size: the
    same data for all.
    """
    n = min(size for _, size in latest)
    lines = [
        f"The same pair of samples, n = {n}:",
        "",
        "| test | statistic | in our units | p-value |",
        "|---|---|---|---|",
    ]
    for key, peer in PEERS.items():
        record = latest.get((key, n), {})
        if peer.group in ("MMD", "energy") and "statistic" in record:
            value = record["statistic"]
            if peer.in_our_units:
                ours = f"{peer.in_our_units(value, n):.3e}"
            elif key.startswith("ours"):
                ours = f"{value:.3e}"
            else:
                ours = ""
            lines.append(f"| {peer.label} | {value:.3e} | {ours} | {record['pvalue']:.2f} |")
    return lines


# The colours of Okabe and Ito, which everybody can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = "osD^vP"


def plots(records):
    """Time and memory against n, one column for each statistic, lines named where they end."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    latest = measured(records)
    groups = list(dict.fromkeys(PEERS[key].group for key, _ in latest))
    for name, field, unit in (
        ("time", "cpu_seconds", "CPU seconds"),
        ("memory", "test_mebibytes", "peak MiB"),
    ):
        figure, axes = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
        for axis, group in zip(axes.flat, groups, strict=False):
            ends = []
            for number, key in enumerate(key for key, peer in PEERS.items() if peer.group == group):
                own = sorted(
                    (n, max(r[field], 0.5 if name == "memory" else 0))
                    for (k, n), r in latest.items()
                    if k == key and field in r
                )
                if not own:
                    continue
                n, value = zip(*own, strict=True)
                axis.plot(
                    n,
                    value,
                    color=COLOURS[number],
                    marker=MARKERS[number],
                    markersize=5,
                    linewidth=3 if not number else 1.6,
                )
                if any(k == key and "stopped" in r for (k, _), r in latest.items()):
                    axis.plot(
                        n[-1], value[-1], "x", color="black", markersize=11, markeredgewidth=1.5
                    )
                ends.append((n[-1], value[-1], PEERS[key].label, COLOURS[number]))
            axis.set(xscale="log", yscale="log", title=group, xlabel="n = m", ylabel=unit)
            axis.grid(which="major", color="0.9")
            axis.spines[["top", "right"]].set_visible(False)
            axis.set_xlim(min(SIZES) * 0.8, max(SIZES) * 9)
            drawn = [value for line in axis.lines for value in line.get_ydata()]
            axis.set_ylim(
                10 ** math.floor(math.log10(min(drawn)) - 0.1),
                10 ** math.ceil(math.log10(max(drawn)) + 0.1),
            )
            axis.minorticks_off()
            label_ends(axis, ends)
        for axis in axes.flat[len(groups) :]:
            axis.set_visible(False)
        figure.savefig(PICTURES / f"performance-{name}.png", dpi=110)
        plt.close(figure)


def label_ends(axis, ends):
    """Write the name of each line right of its end, moved apart where names would overlap."""
    from matplotlib.patheffects import withStroke

    low, high = np.log10(axis.get_ylim())
    gap = (high - low) / 17
    taken = []
    for n, value, label, colour in sorted(ends, key=lambda end: -end[1]):
        y = min(math.log10(value), high - gap / 2)
        for x0, y0 in taken:
            if abs(math.log10(n) - x0) < 0.9 and y0 - y < gap:
                y = y0 - gap
        taken.append((math.log10(n), y))
        halo = [withStroke(linewidth=3, foreground="white")]
        axis.text(
            n * 1.2,
            10**y,
            label,
            color=colour,
            va="center",
            fontsize=9,
            path_effects=halo,
            zorder=5,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["install", "run", "table", "one"])
    parser.add_argument(
        "names",
        nargs="*",
        help="packages to install, or tests to run; all of them if none is given",
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--limit", type=float, default=120, help="CPU seconds")
    parser.add_argument("--memory", type=float, default=4, help="GiB")
    parser.add_argument("--again", action="store_true", help="measure anew what is stored")
    parser.add_argument("--peak", action="store_true", help="measure the peak of memory, not time")
    parser.add_argument("--write", action="store_true", help="put tables and plots into docs/")
    parser.add_argument(
        "--n", type=int, help="of the command `one`, which `run` starts for each measurement"
    )
    options = parser.parse_args()
    if options.command == "one":
        print(json.dumps(one(options.names[0], options.n, options.peak)))
    elif options.command == "install":
        install(options.names or REQUIREMENTS)
    elif options.command == "run" and options.peak:
        run_peaks(options.names or list(PEERS), options.sizes, options.memory, options.again)
    elif options.command == "run":
        run(
            options.names or list(PEERS),
            options.sizes,
            options.limit,
            options.memory,
            options.again,
        )
    else:
        text = table(read(STORE))
        print(text)
        if options.write:
            write_between(PAGE, "peers", text)
            plots(read(STORE))
