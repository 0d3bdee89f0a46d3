"""Running trials: which are wanted, which are missing, and who does them.

Trials are done by the processes of a Dask cluster: by default one on this machine, with a process
of one thread for each core, or any that runs already. This process alone writes the results, each
when it is there. So an interrupt loses the trials under way and no other, a worker that dies costs
its trial another try, and running again goes on.
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
from typing import Any

from .._cluster import connected
from ..errors import ClusterError, InputError, MissingDependency
from . import trials
from .experiments import Cell
from .store import Record, Store
from .trials import Trial

_LOOK = 0.1  # seconds between two looks at what is done
_PATIENCE = 60.0  # seconds without a worker before giving up
_HOPELESS = 10  # trials that failed one after the other, before the rest is not tried
_NICENESS = 10  # of the processes on this machine: whoever works at it comes first
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_HERE: dict[str, Any] = {
    # Without Dask's own MALLOC_TRIM_THRESHOLD_, for which the memory of every tile is fetched anew:
    # twice the time.
    "distributed.nanny.pre-spawn-environ": dict.fromkeys(_THREADS, "1"),
    # Processes that make way may have to wait long for a turn: they are slow then, not dead.
    "distributed.comm.timeouts.connect": "10 minutes",
    "distributed.comm.timeouts.tcp": "10 minutes",
    "distributed.scheduler.worker-ttl": None,
    "distributed.deploy.lost-worker-timeout": "10 minutes",
}
_KEPT = "what was finished is kept. Run the same command again to go on."


def wanted(cells: Iterable[Cell], recipe: str, count: int, tests: int) -> list[Trial]:
    """The first `count` trials of every cell: the first of each before the second of any, so that no cell is empty."""
    distinct = list(dict.fromkeys(cells))
    return [Trial(cell, recipe, number, tests) for number in range(count) for cell in distinct]


def missing(wanted: Iterable[Trial], records: Iterable[Record]) -> list[Trial]:
    """Those that have not been done, or with fewer tests."""
    done = {record.key: record.tests for record in records}
    return [trial for trial in wanted if done.get(trial.key, 0) < trial.tests]


def experiments_of(wanted: Iterable[Trial]) -> list[str]:
    """The experiments that the trials are kept with."""
    return list(dict.fromkeys(trial.cell.experiment for trial in wanted))


@dataclass(frozen=True)
class Failure:
    """A trial that gave no result, and why."""

    trial: Trial
    reason: str


def run(
    todo: Sequence[Trial],
    store: Store,
    client: Any,
    *,
    local: bool = True,
    done: Callable[[Trial, Record | Failure], None] = lambda trial, outcome: None,
) -> list[Failure]:
    """Run trials on the workers of a Dask client and keep what they give; the failures are returned.

    `done` is told of each trial that has ended. Workers on this machine (`local`) make way for
    whatever else it does.
    """
    store.check()
    failures: list[Failure] = []
    in_a_row = 0
    for trial, outcome in _outcomes(todo, _Crew(client, niceness=_NICENESS if local else None)):
        if isinstance(outcome, Record):
            store.append(outcome)
            in_a_row = 0
        else:
            failures.append(outcome)
            in_a_row += 1
        done(trial, outcome)
        if in_a_row == _HOPELESS:
            raise ClusterError(
                f"{in_a_row} trials failed one after the other; the others are not tried."
            )
    return failures


def _outcomes(todo: Sequence[Trial], crew: _Crew) -> Iterator[tuple[Trial, Record | Failure]]:
    """Each trial with what became of it, as they end; no more than the workers can soon do are under way."""
    waiting, under_way = deque(todo), dict[Any, Trial]()
    try:
        while waiting or under_way:
            while waiting and len(under_way) < 2 * crew.threads():
                trial = waiting.popleft()
                under_way[crew.start(trial)] = trial
            ended = [future for future in under_way if future.done()]
            for future in ended:
                trial = under_way.pop(future)
                yield trial, crew.outcome(trial, future)
            if not ended:
                crew.threads()  # there may be nobody left to wait for
                time.sleep(_LOOK)
    finally:
        crew.dismiss(list(under_way))


class _Crew:
    """The workers that a client of a Dask scheduler knows, who come and go."""

    def __init__(self, client: Any, niceness: int | None) -> None:
        self.client, self.niceness = client, niceness
        self._threads, self._counted = 0, -math.inf
        self._alone_since: float | None = None

    def threads(self) -> int:
        """How many trials they can do at a time; an error if there has been nobody for long."""
        now = time.monotonic()
        if now - self._counted < 1:
            return self._threads
        self._check()
        try:
            cores = self.client.sync(self.client.scheduler.ncores, callback_timeout=_PATIENCE)
        except (OSError, TimeoutError) as error:
            raise ClusterError(
                f"the scheduler has not answered for {_PATIENCE:g} s ({error!r}); {_KEPT}"
            ) from error
        self._threads, self._counted = sum(cores.values()), now
        if self._threads:
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now
        elif now - self._alone_since > _PATIENCE:
            raise ClusterError(f"the scheduler has had no worker for {_PATIENCE:g} s; {_KEPT}")
        return self._threads

    def start(self, trial: Trial) -> Any:
        """The future of a record."""
        self._check()
        return self.client.submit(_on_worker, trial, self.niceness, pure=False)

    def outcome(self, trial: Trial, future: Any) -> Record | Failure:
        """What a trial that has ended gave; an `InputError` is raised, since it would come again and again."""
        import distributed

        if future.status == "cancelled":
            raise ClusterError(f"the scheduler is gone; {_KEPT}")
        try:
            record: Record = future.result(timeout=_PATIENCE)
            return record
        except InputError:
            raise
        except distributed.KilledWorker as error:
            died = f"{error.allowed_failures + 1} workers died of it one after the other"
            return Failure(trial, f"{died}, most likely for want of memory")
        except Exception as error:  # whatever else went wrong in a trial is its own affair
            return Failure(trial, f"{type(error).__name__}: {error}")

    def dismiss(self, futures: list[Any]) -> None:
        """Let go of trials whose results nobody waits for."""
        if futures and self.client.status == "running":
            self.client.cancel(futures)

    def _check(self) -> None:
        if self.client.status != "running":
            raise ClusterError(f"the scheduler is gone; {_KEPT}")


def _on_worker(trial: Trial, niceness: int | None) -> Record:
    if niceness is not None and hasattr(os, "setpriority"):
        os.setpriority(os.PRIO_PROCESS, 0, max(niceness, os.getpriority(os.PRIO_PROCESS, 0)))
    return trials.run(trial)


@contextmanager
def local_client(workers: int | None = None) -> Iterator[Any]:
    """A client of as many processes on this machine as asked for, or one for each core; they end with it."""
    try:
        import dask
        import distributed
    except ImportError:
        raise MissingDependency(
            "experiments are run with Dask; pip install 'twosample[dask]'."
        ) from None

    start: Any = distributed.LocalCluster
    connect: Any = distributed.Client
    with dask.config.set(_HERE), _deaf_loop() as loop:
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
    """An event loop in a thread that does not hear Ctrl-C, nor do the processes that it starts.

    A terminal sends it to all of them. This process alone is to act on it: to let go of them, so
    that they end.
    """
    from distributed.utils import LoopRunner

    runner: Any = LoopRunner()
    before = None
    if hasattr(
        signal, "pthread_sigmask"
    ):  # which threads and processes have from those that start them
        from multiprocessing import resource_tracker

        resource_tracker.ensure_running()  # when the first process starts, it would unblock signals
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
    """A client of the scheduler at an address, or else of processes on this machine."""
    with local_client(workers) if scheduler is None else connected(scheduler) as client:
        yield client


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Time


def seconds_left(todo: Iterable[Trial], records: Iterable[Record]) -> tuple[float, int]:
    """CPU seconds that trials will take by what others of their cells took, and of how many nothing is known yet.

    Where a cell has no trial yet, the time of its method in the nearest size is taken, in
    proportion to the points.
    """
    measured: dict[tuple[str, str, str], dict[int, list[Record]]] = {}
    for record in records:
        sizes = measured.setdefault((record.data, record.method, record.recipe), {})
        sizes.setdefault(record.sizes["train"], []).append(record)
    total, unknown = 0.0, 0
    for trial in todo:
        sizes = measured.get((trial.cell.setting.data, trial.cell.method, trial.recipe), {})
        if not sizes:
            unknown += 1
            continue
        n = trial.cell.setting.n
        _, nearest = min((abs(size - n), size) for size in sizes)
        like = sizes[nearest]
        seconds = sum(
            r.fit_cpu_seconds + r.test_cpu_seconds / r.tests * trial.tests for r in like
        ) / len(like)
        total += seconds * n / nearest
    return total, unknown


def duration(seconds: float) -> str:
    """In words: 40 s, 12 min, 3 h 20 min."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
