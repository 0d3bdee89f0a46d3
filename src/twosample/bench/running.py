"""Run trials: which are wanted, which are missing, and who does them.

The processes of a Dask cluster run the trials. By default the cluster is on this machine and has a
process of one thread for each core; any cluster that runs already will do. This process alone
writes the results, each as it arrives. So an interrupt loses the trials under way and no other, a
worker that dies costs its trial another try, and running the same command again goes on.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from .._cluster import connected
from ..errors import ClusterError, InputError, MissingDependency
from . import trials
from .experiments import Cell
from .store import Record, Store
from .trials import Trial

PATIENCE = 60.0
"""Seconds without a worker, or without an answer of the scheduler, before a run gives up."""

_POLL = 0.1  # seconds between two checks of which trials have ended
_RECOUNT = 1.0  # seconds between two counts of the workers, since each is a round trip
_HOPELESS = 10  # after so many failures in a row the remaining trials are not tried
_NICENESS = 10  # of the processes on this machine, so that whoever works at it comes first
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_LOCAL_SETTINGS: dict[str, Any] = {
    # This leaves out Dask's own MALLOC_TRIM_THRESHOLD_. With it, every tile of a matrix is
    # allocated from the system anew, which takes twice the time.
    "distributed.nanny.pre-spawn-environ": dict.fromkeys(_THREADS, "1"),
    # A process of low priority may wait long for its turn. It is slow then, not dead.
    "distributed.comm.timeouts.connect": "10 minutes",
    "distributed.comm.timeouts.tcp": "10 minutes",
    "distributed.scheduler.worker-ttl": None,
    "distributed.deploy.lost-worker-timeout": "10 minutes",
}

_Job = TypeVar("_Job")
_Outcome = TypeVar("_Outcome")
_Kept = TypeVar("_Kept", contravariant=True)

_KEPT = "what was finished is kept. Run the same command again to go on."


def wanted(cells: Iterable[Cell], recipe: str, count: int, tests: int) -> list[Trial]:
    """Return the first `count` trials of every cell.

    The first trial of each cell comes before the second of any, so that no cell stays empty long.
    """
    distinct = list(dict.fromkeys(cells))
    return [Trial(cell, recipe, number, tests) for number in range(count) for cell in distinct]


def missing(wanted: Iterable[Trial], records: Iterable[Record]) -> list[Trial]:
    """Return the trials that have no record, or one with fewer tests than wanted."""
    done = {record.key: record.tests for record in records}
    return [trial for trial in wanted if done.get(trial.key, 0) < trial.tests]


def experiments_of(wanted: Iterable[Trial]) -> list[str]:
    """Return the experiments in whose files the trials are kept."""
    return list(dict.fromkeys(trial.cell.experiment for trial in wanted))


@dataclass(frozen=True)
class Failure:
    """A trial that gave no result, and why."""

    trial: Any
    reason: str


class Keeper(Protocol[_Kept]):
    """Where results are kept."""

    def check(self) -> None:
        """Raise an error if nothing can be kept."""

    def append(self, record: _Kept, /) -> None:
        """Keep a result."""


def run(
    todo: Sequence[Trial],
    store: Store,
    client: Any,
    *,
    local: bool = True,
    patience: float = PATIENCE,
    done: Callable[[Trial, Record | Failure], None] = lambda trial, outcome: None,
) -> list[Failure]:
    """Run trials on the workers of a Dask client, keep their records, and return the failures.

    Parameters
    ----------
    todo
        The trials to run.
    store
        Where each record is kept as soon as it arrives.
    client
        A `distributed.Client`.
    local
        Whether the workers are on this machine; they then run at a low priority.
    patience
        Seconds without a worker, or without an answer of the scheduler, before a `ClusterError`.
    done
        Called with each trial that has ended and its outcome.
    """
    return run_jobs(todo, trials.run, store, client, local=local, patience=patience, done=done)


def run_jobs(
    todo: Sequence[_Job],
    work: Callable[[_Job], _Outcome],
    store: Keeper[_Outcome],
    client: Any,
    *,
    local: bool = True,
    patience: float = PATIENCE,
    hopeless: int = _HOPELESS,
    seconds: float = math.inf,
    done: Callable[[_Job, _Outcome | Failure], None] = lambda job, outcome: None,
) -> list[Failure]:
    """Do any work on the workers of a Dask client, keep what it gives, and return the failures.

    The parameters are those of `run`, and `work` does a job. After `hopeless` failures in a row the
    other jobs are not tried. When the `seconds` are over, no other job is waited for.
    """
    store.check()  # before anything is computed that could not be kept
    crew = _Crew(client, work, niceness=_NICENESS if local else None, patience=patience)
    deadline = time.monotonic() + seconds
    failures: list[Failure] = []
    in_a_row = 0
    for job, outcome in _outcomes(todo, crew, deadline):
        if isinstance(outcome, Failure):
            failures.append(outcome)
            in_a_row += 1
        else:
            store.append(outcome)
            in_a_row = 0
        done(job, outcome)
        if in_a_row == hopeless:
            raise ClusterError(
                f"{in_a_row} trials failed one after the other; the others are not tried."
            )
    return failures


def _outcomes(todo: Sequence[Any], crew: _Crew, deadline: float) -> Iterator[tuple[Any, Any]]:
    """Yield each job with its outcome, in the order in which they end."""
    waiting = deque(todo)
    under_way: dict[Any, Any] = {}
    try:
        while (waiting or under_way) and time.monotonic() < deadline:
            # Twice as many as there are threads, so that no worker waits for its next trial. Not
            # all of them, since workers come and go.
            while waiting and len(under_way) < 2 * crew.threads():
                job = waiting.popleft()
                under_way[crew.start(job)] = job
            ended = [future for future in under_way if future.done()]
            for future in ended:
                job = under_way.pop(future)
                yield job, crew.outcome(job, future)
            if not ended:
                crew.threads()  # raises an error if nobody has been there for long
                time.sleep(_POLL)
    finally:
        crew.dismiss(list(under_way))


class _Crew:
    """The workers that a client of a Dask scheduler knows; they come and go."""

    def __init__(
        self, client: Any, work: Callable[[Any], Any], *, niceness: int | None, patience: float
    ) -> None:
        self.client = client
        self.work = work
        self.niceness = niceness
        self.patience = patience
        self._threads = 0
        self._counted = -math.inf
        self._alone_since: float | None = None

    def threads(self) -> int:
        """Return how many trials they can run at a time; an error if nobody is there for long."""
        now = time.monotonic()
        if now - self._counted < _RECOUNT:
            return self._threads
        self._check()
        try:
            cores = self.client.sync(self.client.scheduler.ncores, callback_timeout=self.patience)
        except (OSError, TimeoutError) as error:
            raise ClusterError(
                f"the scheduler has not answered for {self.patience:g} s ({error!r}); {_KEPT}"
            ) from error
        self._threads = sum(cores.values())
        self._counted = now
        if self._threads:
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now
        elif now - self._alone_since > self.patience:
            raise ClusterError(f"the scheduler has had no worker for {self.patience:g} s; {_KEPT}")
        return self._threads

    def start(self, trial: Any) -> Any:
        """Submit a trial and return the future of its record."""
        self._check()
        return self.client.submit(_on_worker, self.work, trial, self.niceness, pure=False)

    def outcome(self, trial: Any, future: Any) -> Any:
        """Return what a trial that has ended gave; raise an `InputError`, as every trial would."""
        import distributed

        if future.status == "cancelled":
            raise ClusterError(f"the scheduler is gone; {_KEPT}")
        try:
            return future.result(timeout=self.patience)
        except InputError:
            raise
        except distributed.KilledWorker as error:
            died = f"{error.allowed_failures + 1} workers died of it one after the other"
            return Failure(trial, f"{died}, most likely for want of memory")
        except Exception as error:  # any other failure of a trial must not end the others
            return Failure(trial, f"{type(error).__name__}: {error}")

    def dismiss(self, futures: list[Any]) -> None:
        """Cancel trials whose results nobody waits for any more."""
        if futures and self.client.status == "running":
            self.client.cancel(futures)

    def _check(self) -> None:
        if self.client.status != "running":
            raise ClusterError(f"the scheduler is gone; {_KEPT}")


def _on_worker(work: Callable[[Any], Any], trial: Any, niceness: int | None) -> Any:
    if niceness is not None and hasattr(os, "setpriority"):
        # Never lower than it is: only root may do that.
        current = os.getpriority(os.PRIO_PROCESS, 0)
        os.setpriority(os.PRIO_PROCESS, 0, max(niceness, current))
    return work(trial)


@contextmanager
def local_client(workers: int | None = None) -> Iterator[Any]:
    """Start `workers` processes on this machine, or one for each core; they end with the client."""
    try:
        import dask
        import distributed
    except ImportError:
        raise MissingDependency(
            "experiments are run with Dask; pip install 'twosample[dask]'."
        ) from None

    start: Any = distributed.LocalCluster
    connect: Any = distributed.Client
    with dask.config.set(_LOCAL_SETTINGS), _deaf_loop() as loop:
        cluster = start(
            loop=loop,
            n_workers=workers or _cores(),
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            memory_limit=None,
            silence_logs=logging.CRITICAL,
        )
        with cluster, connect(cluster, set_as_default=False) as client:
            yield client


@contextmanager
def _deaf_loop() -> Iterator[Any]:
    """Run an event loop in a thread that ignores Ctrl-C, as do the processes that it starts.

    A terminal sends Ctrl-C to all of them. This process alone shall act on it: it closes the
    cluster, and so the others end.
    """
    from distributed.utils import LoopRunner

    runner: Any = LoopRunner()
    before = None
    # Threads and processes inherit the mask of blocked signals from whoever starts them.
    if hasattr(signal, "pthread_sigmask"):
        from multiprocessing import resource_tracker

        # The tracker unblocks signals when it starts, so it has to start before they are blocked.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        runner.start()
    finally:
        if before is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        yield runner.loop
    finally:
        runner.stop()


@contextmanager
def client_of(workers: int | None = None, scheduler: str | None = None) -> Iterator[Any]:
    """Connect to the scheduler at an address, or else to processes on this machine."""
    connection = local_client(workers) if scheduler is None else connected(scheduler)
    with connection as client:
        yield client


def _cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# Time


def seconds_left(todo: Iterable[Trial], records: Iterable[Record]) -> tuple[float, int]:
    """Return the CPU seconds that trials will take, and for how many of them nothing is known yet.

    The estimate is what trials of the same data, method and recipe took: at the nearest size for
    which there are any, in proportion to the points.
    """
    measured: dict[tuple[str, str, str], dict[int, list[Record]]] = {}
    for record in records:
        sizes = measured.setdefault((record.data, record.method, record.recipe), {})
        sizes.setdefault(record.sizes["train"], []).append(record)
    total = 0.0
    unknown = 0
    for trial in todo:
        setting = trial.cell.setting
        sizes = measured.get((setting.data, trial.cell.method, trial.recipe), {})
        if not sizes:
            unknown += 1
            continue
        distances = [(abs(size - setting.n), size) for size in sizes]
        _, nearest = min(distances)
        taken = [_seconds_with(record, trial.tests) for record in sizes[nearest]]
        total += sum(taken) / len(taken) * setting.n / nearest
    return total, unknown


def _seconds_with(record: Record, tests: int) -> float:
    """Return the CPU seconds that a trial would have taken with another number of tests."""
    return record.fit_cpu_seconds + record.test_cpu_seconds / record.tests * tests


def duration(seconds: float) -> str:
    """Write a time in words: 40 s, 12 min, 3 h 20 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
