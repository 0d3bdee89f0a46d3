"""Work on a Dask cluster: a scheduler and workers that are processes of their own, one of which
gets killed."""

from __future__ import annotations

import functools
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import twosample
from twosample import _cluster as cluster
from twosample._cli import main as cli
from twosample._cluster import DaskWorkers, connected
from twosample._data.streams import Stream
from twosample._files.parts import NpyRows
from twosample._kernels import DeepKernel, Gaussian, Linear, OnFeatures
from twosample._products import block_and_row_sums
from twosample._resources import HERE, Resources
from twosample._statistics import HotellingT2
from twosample.errors import ClusterError, InputError, MissingDependency

distributed = pytest.importorskip("distributed")

# What distributed does itself: it closes sockets of processes that were killed whenever the
# collector finds them.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

WAIT = 120  # seconds, on a machine that has other things to do


class Processes:
    """A scheduler and workers on loopback, each a process with one thread; they end with it."""

    def __init__(self, workers: int = 0) -> None:
        self.workers: list[subprocess.Popen[bytes]] = []
        options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show"]
        self.scheduler = self._start("dask_scheduler", *options, stderr=subprocess.PIPE)
        for line in self.scheduler.stderr:
            if b"Scheduler at:" in line:
                self.address = line.split()[-1].decode()
                break
        # Nobody else reads what it says, and a full pipe would stop it.
        threading.Thread(target=self.scheduler.stderr.read, daemon=True).start()
        for _ in range(workers):
            self.add_worker()

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *error: object) -> None:
        for process in [*self.workers, self.scheduler]:
            process.kill()
            process.wait(WAIT)
        self.scheduler.stderr.close()

    def _start(self, program: str, *words: str, **options: object) -> subprocess.Popen[bytes]:
        environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            "PYTHONWARNINGS": "ignore",
            # How long a worker tries to fetch what it needs from one that has been killed.
            "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s",
        }
        command = [sys.executable, "-m", f"distributed.cli.{program}", *words]
        return subprocess.Popen(
            command, env=environment, **{"stderr": subprocess.DEVNULL, **options}
        )

    def add_worker(self) -> None:
        options = "--no-nanny --nthreads 1 --no-dashboard --memory-limit 0 --host 127.0.0.1"
        self.workers.append(self._start("dask_worker", self.address, *options.split()))

    def kill_worker(self) -> None:
        worker = self.workers.pop(0)
        worker.send_signal(signal.SIGKILL)
        worker.wait(WAIT)


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with Processes(workers=2) as processes:
        yield processes


@pytest.fixture
def client(processes: Processes) -> Iterator[object]:
    """A client of two workers."""
    with distributed.Client(processes.address, timeout=WAIT, set_as_default=False) as client:
        while len(processes.workers) < 2:
            processes.add_worker()
        client.wait_for_workers(2, timeout=WAIT)
        yield client


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    # As workers have: a matrix product is rounded according to how threads share it.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def two_samples(n: int = 1500, m: int = 1100) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    return rng.normal(size=(n, 4)), rng.normal(0, 1.05, size=(m, 4))


def deep_test(**options: object) -> twosample.TwoSampleTest:
    """An untrained deep kernel, and little memory: 18 strips of points, 9 groups of strips, 45
    pieces of work."""
    network = twosample.MLP(4, width=12, generator=torch.Generator().manual_seed(0))
    return twosample.TwoSampleTest(DeepKernel(network), memory=2**20, **options)


def same(one: twosample.TwoSampleResult, other: twosample.TwoSampleResult) -> None:
    assert one.pvalue == other.pvalue
    assert one.statistic == other.statistic
    assert np.array_equal(one.null_distribution, other.null_distribution)
    assert one.effect == other.effect


class Counting:
    """Workers that note how many pieces of work they were given."""

    def __init__(self, workers: object = HERE) -> None:
        self.workers = workers
        self.pieces = []

    def share(self, value: object) -> object:
        return self.workers.share(value)

    def call(self, function, *arguments):
        return self.workers.call(function, *arguments)

    def map(self, function, arguments):
        arguments = list(arguments)
        self.pieces.append(len(arguments))
        return self.workers.map(function, arguments)


# The same answer


def test_the_answer_is_that_of_one_machine(client):
    X, Y = two_samples()
    same(deep_test().run(X, Y, rng=0, client=client), deep_test().run(X, Y, rng=0))


def test_training_stays_here_and_testing_goes_there(client):
    X, Y = two_samples(300, 200)
    results = [
        twosample.two_sample_test(X, Y, "mmd-o", rng=1, permutations=99, client=c)
        for c in (None, client)
    ]
    same(*results)


@pytest.mark.parametrize(
    "test",
    [
        twosample.TwoSampleTest(twosample.MeanEmbedding(3), statistic=HotellingT2()),
        twosample.TwoSampleTest(OnFeatures(torch.nn.Linear(4, 2), Linear())),
        twosample.TwoSampleTest(Gaussian(), statistic=twosample.MMD("paired")),
        twosample.TwoSampleTest(
            Gaussian(), statistic=twosample.MMD("block"), calibration=twosample.PairSwap(99)
        ),
        twosample.TwoSampleTest(Gaussian(), calibration=twosample.SpectralLimit(99)),
    ],
    ids=["features", "linear kernel", "paired", "block", "spectral"],
)
def test_every_kind_of_test(test, client):
    X, Y = two_samples(300, 300)
    same(test.run(X, Y, rng=0, client=client), test.run(X, Y, rng=0))


@pytest.mark.parametrize(
    "options",
    [
        {"groups": (np.arange(300) // 6, 100 + np.arange(240) // 6)},
        {"strata": (np.arange(300) % 3, np.arange(240) % 3)},
        {"pairs": (np.arange(300), np.arange(240))},
        {"blocks": "12+3"},
    ],
    ids=["groups", "strata", "pairs", "blocks"],
)
@pytest.mark.parametrize("training", [False, True], ids=["untrained", "trained"])
def test_every_design(options, training, client, tmp_path):
    """Parts of files, which workers read: what is left out there is left out here."""
    X, Y = two_samples(300, 240)
    streams = [
        in_parts(tmp_path / name, sample, 3) for name, sample in (("x.npy", X), ("y.npy", Y))
    ]
    test = twosample.mmd_o(steps=1) if training else twosample.mmd_median()
    run = functools.partial(twosample.two_sample_test, permutations=19, rng=0, **options)
    here = run(*streams, test)
    there = run(*streams, test, client=client)
    assert there.design == here.design and there.sizes == here.sizes
    same(there, here)


def test_a_fitted_test_takes_a_client(client):
    X, Y = two_samples(400, 400)
    fitted = deep_test().fit(X[:200], Y[:200], rng=0)
    same(fitted.test(X[200:], Y[200:], rng=1, client=client), fitted.test(X[200:], Y[200:], rng=1))


@pytest.mark.parametrize("diagonal", [True, False])
def test_sums_are_the_same_to_the_bit(client, diagonal):
    generator = torch.Generator().manual_seed(3)
    z = torch.randn(700, 5, generator=generator)
    weights = torch.randn(700, 2, generator=generator)
    bins = torch.randint(40, (700,), generator=generator)  # of many sizes
    here, there = (
        block_and_row_sums(
            Gaussian(1.0),
            z,
            bins,
            weights,
            diagonal=diagonal,
            resources=Resources(2**17, workers=workers),
        )
        for workers in (HERE, DaskWorkers(client))
    )
    for one, other in zip(here, there, strict=True):
        assert torch.equal(one, other)


def test_pieces_do_not_depend_on_workers(client):
    z = torch.randn(700, 5)
    bins = torch.arange(700) // 7
    counts = []
    for workers in (HERE, DaskWorkers(client)):
        counting = Counting(workers)
        resources = Resources(2**17, workers=counting)
        block_and_row_sums(Gaussian(1.0), z, bins, torch.ones(700, 1), resources=resources)
        counts.append(counting.pieces)
    assert counts[0] == counts[1]
    assert counts[0][0] > 10


def test_few_pieces_are_under_way_at_a_time(client):
    taken = 0

    def work():
        nonlocal taken
        for number in range(200):
            taken += 1
            yield number, 1

    ahead = []
    for number, result in enumerate(DaskWorkers(client).map(int.__add__, work())):
        assert result == number + 1
        ahead.append(taken - number)
    assert number == 199
    # The two workers of this test have sixteen pieces between them.
    assert max(ahead) == 16


def test_large_results_travel_alone():
    assert cluster._fetched_together(torch.zeros(10**7, dtype=torch.float64)) == 1
    assert cluster._fetched_together(torch.zeros(2 * 10**6, dtype=torch.float64)) == 4
    assert cluster._fetched_together(1) == cluster._MOST_AT_ONCE


@pytest.mark.parametrize("pick", [slice(7, 9), (slice(None), 3), slice(None, None, 500)])
def test_some_rows_travel_without_the_others(pick):
    rows = torch.randn(5000, 40)
    packed = cluster._packed({"some": [rows[pick]]})
    (back,) = cluster._unpacked(packed)["some"]
    assert torch.equal(back, rows[pick])
    assert len(packed.content) < 2 * rows[pick].nbytes + 1000


def test_all_else_travels_as_it_is():
    weight = torch.nn.Parameter(torch.ones(3))
    sparse = torch.eye(3).to_sparse()
    double = functools.partial(torch.mul, torch.ones(2).expand(4, 2))
    back_weight, back_sparse, back_double = cluster._unpacked(
        cluster._packed((weight, sparse, double))
    )
    assert isinstance(back_weight, torch.nn.Parameter) and back_weight.requires_grad
    assert torch.equal(back_sparse.to_dense(), torch.eye(3))
    assert torch.equal(back_double(2), torch.full((4, 2), 2.0))


# What can go wrong


def test_a_closed_client_has_a_sentence(processes):
    client = distributed.Client(processes.address, timeout=WAIT, set_as_default=False)
    client.close()
    X, Y = two_samples(20, 20)
    with pytest.raises(ClusterError, match="the client is closed"):
        twosample.two_sample_test(X, Y, "mmd-median", rng=0, client=client)


def test_a_scheduler_killed_on_the_way_has_a_sentence():
    words = r"the scheduler at tcp://.* (is gone|has not answered)"
    with (
        Processes() as processes,
        distributed.Client(processes.address, timeout=WAIT, set_as_default=False) as client,
    ):
        threading.Timer(0.5, processes.scheduler.kill).start()
        with pytest.raises(ClusterError, match=words):
            list(DaskWorkers(client, patience=WAIT).map(torch.add, [(1, 2)]))


def refuse(value: int) -> int:
    raise ValueError(f"{value} is refused")


def test_an_error_of_the_work_is_raised_here(client):
    refuse.__module__ = "__main__"  # so that it travels by value: workers do not have this file
    with pytest.raises(ValueError, match="7 is refused"):
        list(DaskWorkers(client).map(refuse, [(7,)]))


@pytest.mark.parametrize("client", [3, "tcp://127.0.0.1:8786"])
def test_what_is_not_a_client(client):
    X, Y = two_samples(20, 20)
    with pytest.raises(InputError, match=r"client is a (int|str); it must be a distributed.Client"):
        twosample.two_sample_test(X, Y, rng=0, client=client)


def test_without_dask_there_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingDependency, match=r"pip install 'twosample\[dask\]'"):
        DaskWorkers(object())


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "127.0.0.1:1", "nonsense://x", "nowhere"])
def test_nobody_at_the_address(address, monkeypatch):
    monkeypatch.setattr(cluster, "_ANSWER", 1.0)
    began = time.monotonic()
    with pytest.raises(InputError, match="no Dask scheduler answers at"), connected(address):
        pass
    assert time.monotonic() - began < 30


# Parts that workers read


def in_parts(path, sample: np.ndarray, parts: int) -> Stream:
    np.save(path, sample)
    edges = np.linspace(0, len(sample), parts + 1).astype(int)
    return Stream(NpyRows(path, int(a), int(b - a)) for a, b in itertools.pairwise(edges))


class Reading(DaskWorkers):
    """Notes what it is asked to call."""

    called: ClassVar[list[str]] = []

    def call(self, function, *arguments):
        self.called.append(function.__name__)
        return super().call(function, *arguments)


@pytest.mark.parametrize(
    "learning", [None, twosample.Learning(twosample.PowerCriterion(), steps=2)]
)
def test_workers_read_their_parts(client, tmp_path, monkeypatch, learning):
    monkeypatch.setattr(twosample._two_sample, "DaskWorkers", Reading)
    monkeypatch.setattr(Reading, "called", [])
    monkeypatch.chdir(tmp_path)  # names without folders: workers stand elsewhere
    X, Y = two_samples(600, 500)
    x = in_parts(Path("x.npy"), X, 4)
    y = in_parts(Path("y.npy"), Y, 3)
    same(*(deep_test(learning=learning).run(x, y, rng=0, client=c) for c in (None, client)))
    assert Reading.called.count("_read_part") == 7


def test_what_cannot_be_read_elsewhere_is_read_here(client, monkeypatch):
    monkeypatch.setattr(twosample._two_sample, "DaskWorkers", Reading)
    monkeypatch.setattr(Reading, "called", [])
    X, Y = two_samples(300, 200)
    results = [
        deep_test().run(iter(np.split(X, 3)), iter([Y]), rng=0, client=c) for c in (None, client)
    ]
    same(*results)
    assert "_read_part" not in Reading.called


@pytest.mark.parametrize(
    ("change", "words"), [("rows", "X gave other rows"), ("gone", "a worker cannot read X")]
)
def test_parts_that_change_between_the_passes_have_a_sentence(
    client, tmp_path, monkeypatch, change, words
):
    X, Y = two_samples(60, 50)
    x = in_parts(tmp_path / "x.npy", X, 2)
    y = in_parts(tmp_path / "y.npy", Y, 1)
    fit = twosample.TwoSampleTest._fit

    def changing(*arguments):
        if change == "rows":
            np.save(tmp_path / "x.npy", X[::-1])
        else:
            (tmp_path / "x.npy").unlink()
        return fit(*arguments)

    monkeypatch.setattr(twosample.TwoSampleTest, "_fit", changing)
    with pytest.raises(InputError, match=words):
        deep_test(learning=twosample.Learning(twosample.PowerCriterion(), steps=2)).run(
            x, y, rng=0, client=client
        )


# The command line


@pytest.fixture
def files(tmp_path, monkeypatch):
    for name, sample in zip(("a.npy", "b.npy"), two_samples(400, 300), strict=True):
        np.save(tmp_path / name, sample)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("how", [[], ["--stream"]])
def test_the_command_line_takes_a_scheduler(files, processes, client, how):
    words = ["test", "a.npy", "b.npy", "--method", "mmd-median", "--seed", "0", "--json", *how]
    answers = []
    for more in ([], ["--scheduler", processes.address]):
        done = CliRunner().invoke(cli.build(), [*words, *more])
        assert done.exit_code == 0, done.stderr
        answer = json.loads(done.stdout)
        del answer["command"]  # which names the scheduler
        answers.append(answer)
    assert answers[0] == answers[1]


def test_the_command_line_says_that_nobody_answers(files, monkeypatch):
    monkeypatch.setattr(cluster, "_ANSWER", 1.0)
    done = CliRunner().invoke(
        cli.build(), ["test", "a.npy", "b.npy", "--scheduler", "tcp://127.0.0.1:1"]
    )
    assert done.exit_code == 2
    assert done.stderr.startswith("error: no Dask scheduler answers at 'tcp://127.0.0.1:1'")
    assert done.stdout == ""


# Workers that die: last, so that no others have to be started for the tests above


@pytest.mark.slow
def test_a_worker_killed_on_the_way_changes_nothing_nor_does_their_number(
    processes, client, monkeypatch
):
    X, Y = two_samples(3000, 2500)
    expected = deep_test().run(X, Y, rng=0)
    seen = {"results": 0, "killed": 0}

    class Killing(DaskWorkers):
        """Kills a worker when the first pair of groups is compared and most of the work is yet to
        be done."""

        def map(self, function, arguments):
            for result in super().map(function, arguments):
                if function.__name__ == "_compare":
                    seen["results"] += 1
                    if seen["results"] == 1:
                        processes.kill_worker()
                        seen["killed"] += 1
                yield result

    with monkeypatch.context() as patched:
        patched.setattr("twosample._two_sample.DaskWorkers", Killing)
        result = deep_test().run(X, Y, rng=0, client=client)
    assert seen["killed"] == 1
    assert seen["results"] > 100
    same(result, expected)
    # One worker is left, and gives the same answer alone.
    same(deep_test().run(X, Y, rng=0, client=client), expected)


def test_without_workers_there_is_a_sentence(processes):
    while processes.workers:
        processes.kill_worker()
    began = time.monotonic()
    with (
        distributed.Client(processes.address, timeout=WAIT, set_as_default=False) as client,
        pytest.raises(
            ClusterError, match="has had no worker for 1 s; start one with 'dask worker tcp://"
        ),
    ):
        list(DaskWorkers(client, patience=1.0).map(torch.add, [(1, 2)]))
    assert time.monotonic() - began < 60


def test_views_are_summed_on_workers_to_the_same_bits(client, monkeypatch):
    from twosample._statistics import sums

    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(900, 3)), rng.normal(size=(700, 3)) + 0.1
    test = twosample.spectral(permutations=99)
    monkeypatch.setattr(sums, "_LEAST_PIECE", 250)  # several pieces
    here = test.run(X, Y, rng=0)
    there = test.run(X, Y, rng=0, client=client)
    assert there.pvalue == here.pvalue
    assert there.null_distribution.tobytes() == here.null_distribution.tobytes()
