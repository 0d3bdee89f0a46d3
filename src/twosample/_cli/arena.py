"""Compare tests on the same rows: the arena."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError
from .console import FAILED, sentences

if TYPE_CHECKING:
    from ..bench.arena.running import Job
    from ..bench.arena.store import ArenaStore, Chunk
    from ..bench.running import Failure

_GO_ON = "what was finished is kept; run the same command again to go on."


def arena(
    scenario: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Only scenarios or groups like this: 'blob-*'."),
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only these contestants.")
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            min=1,
            help="Tests of each cell; by default 100, 30 or 10, by what a test costs.",
        ),
    ] = None,
    longest: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0, help="Only cells in which a test is known to be as quick."
        ),
    ] = None,
    undecided: Annotated[
        bool,
        typer.Option(
            "--undecided", help="Only cells whose tests leave open whether 'auto' is ahead."
        ),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", min=1, help="Processes; by default one for each core."),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option("--time", metavar="MINUTES", min=0, help="Stop after so many minutes."),
    ] = None,
    results: Annotated[
        str, typer.Option(metavar="FOLDER", help="Where results are kept.")
    ] = "results/arena",
    listed: Annotated[
        bool, typer.Option("--list", help="List scenarios and contestants, and run nothing.")
    ] = False,
    show: Annotated[
        bool, typer.Option("--show", help="Print what the results show, and run nothing.")
    ] = False,
    write: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Write arena.md and its picture, and run nothing."),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing of single jobs.")
    ] = False,
) -> None:
    """Compare tests on the same rows.

    Runs what is missing: every test gets the same samples, many times over. One that learns splits
    the rows that all others get whole. A run can be stopped at any moment; run again, it goes on.

    \b
    Examples:
      twosample bench arena --list
      twosample bench arena --scenario 'blob-*' --method mmd-d --trials 20
      twosample bench arena --time 60
      twosample bench arena --trials 100 --longest 0.3
      twosample bench arena --trials 20 --undecided
      twosample bench arena --write docs
    """
    with sentences(interrupted=_GO_ON):
        from ..bench.arena import contestants, running, scenarios, standing
        from ..bench.arena.store import ArenaStore, by_cell

        if sum((listed, show, write is not None)) > 1:
            raise InputError("--list, --show and --write each do one thing; give one of them.")
        if listed:
            _list(scenario or [], method or [])
        elif show:
            _show(results)
        elif write is not None:
            _write(results, write)
        else:
            time_limit = math.inf if minutes is None else 60 * minutes
            store = ArenaStore(results)
            store.check()  # an error later would lose what was computed
            tests = by_cell(store.chunks())
            todo = running.missing(
                scenarios.select(scenario or []),
                contestants.select(method or []),
                tests,
                trials,
                math.inf if longest is None else longest,
                standing.undecided(tests) if undecided else None,
            )
            _run(todo, store, workers, time_limit, quiet)


def _list(patterns: list[str], names: list[str]) -> None:
    from ..bench.arena import contestants, scenarios

    chosen = scenarios.select(patterns)
    for group in dict.fromkeys(scenario.group for scenario in chosen):
        typer.echo(f"{group}:")
        for scenario in chosen:
            if scenario.group == group:
                n, m = scenario.sizes
                about = scenario.about if scenario.different else f"no difference; {scenario.about}"
                typer.echo(f"  {scenario.name:<24} {f'{n} + {m}':>13}  {about}")
    typer.echo("contestants:")
    for contestant in contestants.select(names):
        costs: str = contestant.cost
        if contestant.cost_on_images != costs:
            costs = f"{costs}, on images {contestant.cost_on_images}"
        typer.echo(f"  {contestant.name:<16} {contestant.about} ({costs})")


def _show(results: str) -> None:
    from ..bench.arena import page
    from ..bench.arena.store import ArenaStore, by_cell

    tests = by_cell(ArenaStore(results).chunks())
    typer.echo(page.page(tests), nl=False)


def _write(results: str, folder: str) -> None:
    from ..bench.arena import page
    from ..bench.arena.store import ArenaStore, by_cell

    tests = by_cell(ArenaStore(results).chunks())
    for path in page.write(Path(folder), tests):
        typer.echo(f"{path} is written.", err=True)


def _run(
    todo: list[Job],
    store: ArenaStore,
    workers: int | None,
    seconds: float,
    quiet: bool,
) -> None:
    from ..bench import running as trials_running
    from ..bench.arena import running

    tests_left = sum(job.count for job in todo)
    typer.echo(f"{tests_left} tests are missing, in {len(todo)} jobs.", err=True)
    if not todo:
        return
    left = len(todo)

    def done(job: Job, outcome: Chunk | Failure) -> None:
        nonlocal left
        left -= 1
        if isinstance(outcome, trials_running.Failure):
            typer.echo(f"failed: {job}: {outcome.reason}.", err=True)
        elif not quiet:
            pvalues = " ".join(f"{pvalue:.3f}" for pvalue in outcome.pvalues)
            took = f"{outcome.cpu_seconds:.1f} s of CPU time"
            typer.echo(f"[{left} left] {job}: {pvalues} in {took}", err=True)

    with trials_running.local_client(workers) as client:
        failures = running.play_all(todo, store, client, seconds=seconds, done=done)
    if failures:
        typer.echo(
            f"{len(failures)} jobs failed; run the same command to try them again.", err=True
        )
        raise typer.Exit(FAILED)
