"""Run the arena: which tests are missing, in which order they are done, and how one is done.

The rows of a test depend on its scenario and its number only, so all contestants see the same.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..._random import Generators
from ..running import Failure, run_jobs
from .contestants import Contestant, contestants
from .scenario import Scenario
from .scenarios import SCENARIOS
from .store import ArenaStore, Cell, Chunk, Results

CHUNK = 5
"""How many tests are done in one go, and kept in one line."""

_LONG_CHUNK = 10  # of cells with many tests, which then take fewer lines

_HOPELESS = 100  # failures in a row; a contestant that cannot do a scenario must not end the others


@dataclass(frozen=True)
class Job:
    """A few tests of a cell: small and plain, so that it can be sent anywhere."""

    scenario: str
    contestant: str
    first: int
    count: int

    def __str__(self) -> str:
        last = self.first + self.count - 1
        return f"{self.scenario} {self.contestant} #{self.first} to #{last}"


def missing(
    scenarios: Iterable[Scenario],
    chosen: Iterable[Contestant],
    tests: Mapping[Cell, Results],
    trials: int | None = None,
    longest: float = math.inf,
    only: Sequence[Cell] | None = None,
) -> list[Job]:
    """Return what is to be done, in order.

    The first tests of every cell come before the second of any, so that a run that is stopped
    early has looked everywhere. Among them the contestants come in their order.

    Parameters
    ----------
    scenarios, chosen
        The cells: each of these contestants in each of the scenarios that it takes.
    tests
        What is there already.
    trials
        How many tests a cell is to have; None for as many as the contestant's cost allows.
    longest
        Only cells in which a test takes at most so many CPU seconds, if that is not infinite. Cells
        without any test are left out then: nobody knows what they take.
    only
        Only these cells, if not None, the first of them first.
    """
    every = list(scenarios)
    place = None if only is None else {cell: number for number, cell in enumerate(only)}
    jobs: list[tuple[int, int, Job]] = []
    for contestant in chosen:
        for scenario in every:
            cell = Cell(scenario.name, contestant.name)
            if scenario.kind not in contestant.kinds or (place is not None and cell not in place):
                continue
            wanted = contestant.trials(scenario) if trials is None else trials
            known = tests.get(cell)
            seconds = math.inf if known is None else known.cpu_seconds
            if seconds > longest:
                continue
            there = set(known.pvalues) if known is not None else set()
            chunk = _LONG_CHUNK if wanted > 10 * CHUNK else CHUNK
            for turn, start in enumerate(range(0, wanted, chunk)):
                numbers = [k for k in range(start, min(start + chunk, wanted)) if k not in there]
                if numbers:
                    count = numbers[-1] + 1 - numbers[0]
                    job = Job(scenario.name, contestant.name, numbers[0], count)
                    jobs.append((turn, place[cell] if place else 0, job))
    # Sorting is stable: within a turn contestants and scenarios keep their order.
    jobs.sort(key=lambda entry: entry[:2])
    return [job for _, _, job in jobs]


def seed(scenario: str, number: int) -> int:
    """Return the seed of a test, the same for every contestant."""
    digest = hashlib.sha256(f"arena/{scenario}/{number}".encode()).digest()
    return int.from_bytes(digest[:6], "little")


def play(job: Job) -> Chunk:
    """Do a few tests, in one thread."""
    torch.set_num_threads(1)  # each core has a job of its own
    scenario = SCENARIOS[job.scenario]
    contestant = contestants()[job.contestant]
    pvalues = []
    seconds = 0.0
    for number in range(job.first, job.first + job.count):
        generators = Generators(seed(job.scenario, number))
        pair = scenario.draw(generators.numpy("samples"))
        began = time.process_time()
        pvalue = contestant.pvalue(scenario, pair, generators.numpy("test"))
        seconds += time.process_time() - began
        pvalues.append(float(f"{pvalue:.6g}"))  # of six digits, however small it is
    return Chunk(job.scenario, job.contestant, job.first, tuple(pvalues), round(seconds, 2))


def play_all(
    todo: Sequence[Job],
    store: ArenaStore,
    client: Any,
    *,
    seconds: float = math.inf,
    done: Callable[[Job, Chunk | Failure], None] = lambda job, outcome: None,
) -> list[Failure]:
    """Do all jobs on the workers of a Dask client on this machine; return those that failed."""
    return run_jobs(todo, _reported, store, client, hopeless=_HOPELESS, seconds=seconds, done=done)


def _reported(job: Job) -> Chunk:
    """Do a job, and let an error be a failure of this job only, whatever it is."""
    try:
        return play(job)
    except Exception as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from error
