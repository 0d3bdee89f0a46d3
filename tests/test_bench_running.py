"""Running experiments with real processes: workers killed, drivers interrupted and killed, and
going on afterwards."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from test_bench_store import record
from test_cluster import WAIT, Processes
from twosample._cli import main as cli
from twosample.bench import running, trials
from twosample.bench.experiments import EXPERIMENTS, Cell, Setting
from twosample.bench.running import Failure
from twosample.bench.store import Record, Store
from twosample.bench.trials import Trial
from twosample.errors import ClusterError, InputError, MissingDependency

distributed = pytest.importorskip("distributed")

# What distributed does itself: it closes sockets of processes that were killed whenever the
# collector finds them.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

SLOW = Cell("quick", Setting("n_b=20", "blob", 180, 2), "c2st-l")  # a second or two
QUICK = Cell("quick", Setting("n_b=10", "blob", 90, 2), "mmd-median")


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with Processes(workers=2) as processes:
        yield processes


@pytest.fixture
def client(processes: Processes) -> Iterator[object]:
    """A client of the workers that are left: one of two dies in the course of these tests."""
    with distributed.Client(processes.address, timeout=WAIT, set_as_default=False) as client:
        client.wait_for_workers(len(processes.workers), timeout=WAIT)
        yield client


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()  # a trial that is run here leaves one
    yield
    torch.set_num_threads(before)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results")


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 3 * WAIT
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)


def without_time(records: list[Record]) -> list[Record]:
    """What a trial gives wherever it is run, in the order of the trials."""
    plain = {"fit_cpu_seconds": 0.0, "test_cpu_seconds": 0.0, "peak_mebibytes": None, "date": ""}
    return sorted((dataclasses.replace(r, **plain) for r in records), key=lambda r: r.key)


# Which trials


def test_the_first_trial_of_every_cell_comes_before_the_second_of_any():
    cells = list(EXPERIMENTS["quick"].cells())
    wanted = running.wanted([*cells, *cells], "default", 3, 10)  # each once
    assert [trial.number for trial in wanted] == [0] * 4 + [1] * 4 + [2] * 4
    assert [trial.cell for trial in wanted[:4]] == cells


def test_what_is_there_with_enough_tests_is_not_missing():
    wanted = running.wanted(EXPERIMENTS["quick"].cells(("mmd-o",), ("n_b=10",)), "default", 3, 10)
    there = [record(0, tests=10), record(1, tests=9), record(2, recipe="paper")]
    assert [trial.number for trial in running.missing(wanted, there)] == [1, 2]
    assert running.experiments_of(wanted) == ["quick"]


def test_time_left_is_that_of_trials_like_these():
    wanted = running.wanted(EXPERIMENTS["quick"].cells(), "default", 1, 20)
    # 0.5 s to fit and 0.15 s for each of 10 tests at n = 90; twice as many points take twice as
    # long.
    seconds, unknown = running.seconds_left(wanted, [record(0)])
    assert seconds == pytest.approx(3.5 + 7.0)
    assert unknown == 2  # mmd-median has not been run
    assert running.seconds_left([], []) == (0.0, 0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (89, "89 s"), (600, "10 min"), (7200, "2 h 0 min"), (12345, "3 h 26 min")],
)
def test_durations_in_words(seconds, text):
    assert running.duration(seconds) == text


# Workers


def test_workers_give_what_this_process_gives(client, store):
    todo = [Trial(QUICK, "default", number, 5) for number in range(3)]
    told: list[Trial] = []
    failures = running.run(
        todo, store, client, local=False, done=lambda trial, outcome: told.append(trial)
    )
    assert failures == [] and sorted(t.number for t in told) == [0, 1, 2]
    assert without_time(store.records("quick")) == without_time(
        [trials.run(trial) for trial in todo]
    )


def test_a_worker_killed_in_the_middle_of_a_trial_costs_it_another_try(client, processes, store):
    todo = [Trial(SLOW, "default", number, 5) for number in range(2)]
    victim = processes.workers[0]
    address = next(
        w
        for w, info in client.scheduler_info(n_workers=-1)["workers"].items()
        if _pid(client, w) == victim.pid
    )
    at_the_time: list[int] = []

    def kill() -> None:
        wait_for(lambda: client.processing()[address], "a trial on the worker")
        time.sleep(0.3)  # it trains now
        at_the_time.append(len(store.records("quick")))
        processes.kill_worker()

    killer = threading.Thread(target=kill)
    killer.start()
    failures = running.run(todo, store, client, local=False)
    killer.join(WAIT)
    assert victim.returncode == -signal.SIGKILL and at_the_time[0] < len(todo)
    assert failures == []
    assert [r.trial for r in without_time(store.records("quick"))] == [0, 1]
    assert len(store.path("quick").read_text().splitlines()) == 2
    # What was tried again is what it would have been.
    again = trials.run(todo[0])
    assert without_time([again]) == without_time(store.records("quick"))[:1]


def _pid(client: object, address: str) -> int:
    (pid,) = client.run(os.getpid, workers=[address]).values()
    return pid


def test_a_trial_that_fails_is_named_and_the_others_go_on(client, store):
    bad = Trial(
        Cell("quick", Setting("n_b=1", "blob", 1, 2), "mmd-median"), "default", 0, 5
    )  # one point a sample
    told = {}
    # Not bad input of the user's, which would end the run: a method that does not exist.
    unknown = Trial(QUICK._replace(method="mmd-z"), "default", 0, 5)
    good = Trial(QUICK, "default", 7, 5)
    failures = running.run(
        [unknown, good],
        store,
        client,
        local=False,
        done=lambda t, outcome: told.setdefault(t, outcome),
    )
    assert [failure.trial for failure in failures] == [unknown] and "KeyError: 'mmd-z'" in failures[
        0
    ].reason
    assert isinstance(told[unknown], Failure) and told[good].trial == 7
    with pytest.raises(InputError, match="1 row"):
        running.run([bad], store, client, local=False)


def test_a_run_in_which_nothing_works_ends(client, store):
    todo = [Trial(QUICK._replace(method="mmd-z"), "default", number, 5) for number in range(30)]
    with pytest.raises(ClusterError, match="10 trials failed one after the other"):
        running.run(todo, store, client, local=False)


@pytest.mark.slow
def test_nobody_there(store):
    todo = [Trial(QUICK, "default", 0, 5)]
    with (
        Processes() as processes,
        distributed.Client(processes.address, timeout=WAIT, set_as_default=False) as client,
    ):
        with pytest.raises(ClusterError, match=r"no worker for 1.5 s; what was finished is kept"):
            running.run(todo, store, client, local=False, patience=1.5)
        processes.scheduler.send_signal(signal.SIGSTOP)
        with pytest.raises(ClusterError, match=r"has not answered for 1.5 s .*finished is kept"):
            running.run(todo, store, client, local=False, patience=1.5)
        processes.scheduler.send_signal(signal.SIGCONT)
        threading.Timer(0.5, processes.scheduler.kill).start()
        # Whether it is gone or does not answer depends on what the client was doing just then.
        with pytest.raises(ClusterError, match=r"the scheduler (is gone|has not answered)"):
            running.run(todo, store, client, local=False, patience=5.0)


def test_without_dask_there_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(MissingDependency, match=r"pip install 'twosample\[dask\]'"),
        running.local_client(1),
    ):
        pass


# The command line: one machine, interrupted, killed, and going on elsewhere


class Driver:
    """`twosample bench run quick` as a process in a group of its own, as a shell would start it."""

    def __init__(self, folder: Path, *words: str, trials: int = 5) -> None:
        command = [
            sys.executable,
            "-m",
            "twosample",
            "bench",
            "run",
            "quick",
            "--methods",
            "mmd-median",
            "--tests",
            "30",
        ]
        environment = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"} | {
            "OMP_NUM_THREADS": "1"
        }
        self.store = Store(folder)
        self.process = subprocess.Popen(
            [*command, "--trials", str(trials), "--results", str(folder), *words],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def after_another_record(self, signal_sent: int) -> None:
        """Send a signal to the whole group, as Ctrl-C does, once a trial has been finished."""
        before = self.count()
        wait_for(
            lambda: self.count() > before or self.process.poll() is not None, "a finished trial"
        )
        os.killpg(self.process.pid, signal_sent)

    def count(self) -> int:
        return len(self.store.records("quick"))

    def end(self) -> tuple[int, str]:
        _, said = self.process.communicate(timeout=3 * WAIT)
        return self.process.returncode, said


@pytest.mark.slow
def test_interrupted_then_killed_then_finished_on_a_cluster(tmp_path, processes):
    folder = tmp_path / "results"
    driver = Driver(folder, "--workers", "1")
    driver.after_another_record(signal.SIGINT)
    status, said = driver.end()
    assert status == 130
    assert "interrupted: what was finished is kept; run the same command again to go on." in said
    assert "Traceback" not in said
    first = driver.count()
    assert 1 <= first < 10

    driver = Driver(folder, "--workers", "1")
    before = driver.count()
    wait_for(lambda: driver.count() > before, "a finished trial")
    environments = [
        Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        for pid in _members(driver.process.pid)
    ]
    assert len(environments) > 1 and all(b"OMP_NUM_THREADS=1" in each for each in environments)
    assert not any(
        part.startswith(b"MALLOC_TRIM_THRESHOLD_") for each in environments for part in each
    )
    driver.process.kill()  # the driver alone; its workers are not told
    driver.end()
    second = driver.count()
    assert second > first
    wait_for(lambda: not _members(driver.process.pid), "the end of its workers")

    words = [
        "--trials",
        "5",
        "--tests",
        "30",
        "--results",
        str(folder),
        "--scheduler",
        processes.address,
    ]
    done = CliRunner().invoke(
        cli.build(), ["bench", "run", "quick", "--methods", "mmd-median", *words]
    )
    assert done.exit_code == 0, done.stderr
    assert f"quick, default: {second} of 10 trials are there." in done.stderr
    assert "[10/10]" in done.stderr and done.stderr.rstrip().endswith("0 s left")
    found = driver.store.records("quick")
    assert len(found) == 10
    assert without_time(found)[:1] == without_time([trials.run(Trial(QUICK, "default", 0, 30))])

    again = CliRunner().invoke(
        cli.build(), ["bench", "run", "quick", "--methods", "mmd-median", *words]
    )
    assert (again.exit_code, again.stderr) == (0, "quick, default: 10 of 10 trials are there.\n")


def _members(group: int) -> list[int]:
    """The processes of a group that still run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found
