"""`twosample bench`: run the experiments of the paper, see how far they are, show them as tables and figures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from .._console import sentences
from .experiments import EXPERIMENTS, experiment

if TYPE_CHECKING:
    from .running import Failure
    from .store import Record
    from .trials import Trial

_GO_ON = "what was finished is kept; run the same command again to go on."

Name = Annotated[str, typer.Argument(metavar="NAME", help="An experiment that 'twosample bench list' lists.")]
Trials = Annotated[int, typer.Option(metavar="NUMBER", min=1, help="Training sets of each cell; the paper has 10.")]
Tests = Annotated[int, typer.Option(metavar="NUMBER", min=1, help="Test sets of each trial; the paper has 100.")]
Methods = Annotated[str, typer.Option(metavar="A,B", help="Only these methods; by default all of the experiment.")]
Settings = Annotated[str, typer.Option(metavar="A,B", help="Only these settings, such as n_b=40,n_b=100.")]
Recipe = Annotated[str, typer.Option(metavar="NAME", help="How methods are set up: default or paper.")]
Results = Annotated[str, typer.Option(metavar="FOLDER", help="Where results are kept.")]


def build() -> typer.Typer:
    """The commands, to be added to the application."""
    app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=__doc__)
    app.command("list")(show)
    app.command("run")(run)
    app.command("status")(status)
    return app


def show() -> None:
    """List the experiments: where the paper shows them, their settings and their methods.

    \b
    Example:
      twosample bench list
    """
    with sentences():
        for each in EXPERIMENTS.values():
            typer.echo(f"{each.name}: {each.title}" + (f" [{each.source}]" if each.source else ""))
            typer.echo(f"  settings  {', '.join(dict.fromkeys(setting.row for setting in each.settings))}")
            typer.echo(f"  methods   {', '.join(each.methods)}")


def run(
    name: Name,
    trials: Trials = 10,
    tests: Tests = 100,
    methods: Methods = "",
    settings: Settings = "",
    recipe: Recipe = "default",
    workers: Annotated[
        int | None, typer.Option(metavar="NUMBER", min=1, help="Processes; by default one for each core.")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Send trials to the Dask cluster whose scheduler is at tcp://HOST:PORT."),
    ] = None,
    results: Results = "results",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing of single trials.")] = False,
) -> None:
    """Run what is missing of an experiment.

    Every finished trial is one line in FOLDER/NAME.jsonl. It can be stopped at any moment (Ctrl-C) and goes on where it
    was when it is run again, here or elsewhere.

    \b
    Examples:
      twosample bench run blob-power
      twosample bench run higgs-power --trials 5 --settings N=1000,N=2000 --methods mmd-d,mmd-o
      twosample bench run hdgm-power --recipe paper --scheduler tcp://192.168.0.1:8786
    """
    from . import running
    from .recipes import check
    from .store import Store

    with sentences(interrupted=_GO_ON):
        check(recipe)
        chosen = experiment(name).cells(_words(methods), _words(settings))
        wanted = running.wanted(chosen, recipe, trials, tests)
        store = Store(results)
        known = store.records(*running.experiments_of(wanted))
        todo = running.missing(wanted, known)
        typer.echo(f"{name}, {recipe}: {len(wanted) - len(todo)} of {len(wanted)} trials are there.", err=True)
        if not todo:
            return
        left = list(todo)

        def done(trial: Trial, outcome: Record | Failure) -> None:
            left.remove(trial)
            if isinstance(outcome, running.Failure):
                typer.echo(f"failed: {trial}: {outcome.reason}.", err=True)
                return
            known.append(outcome)
            if not quiet:
                typer.echo(
                    _line(outcome, len(wanted) - len(left), len(wanted), _time_left(left, known, at_once)), err=True
                )

        with running.a_client(workers, scheduler) as client:
            at_once = max(1, sum(client.ncores().values()))
            failures = running.run(todo, store, client, local=scheduler is None, done=done)
    if failures:
        typer.echo(f"{len(failures)} of {len(todo)} trials failed; run the same command again to try them.", err=True)
        raise typer.Exit(2)


def status(
    trials: Trials = 10,
    tests: Tests = 100,
    recipe: Recipe = "default",
    results: Results = "results",
) -> None:
    """How many trials of every experiment are there, and how long the others take by what was measured.

    \b
    Example:
      twosample bench status --trials 5
    """
    from . import running
    from .recipes import check
    from .store import Store

    with sentences():
        check(recipe)
        store = Store(results)
        known = store.records(*EXPERIMENTS)
        for each in EXPERIMENTS.values():
            wanted = running.wanted(each.cells(), recipe, trials, tests)
            todo = running.missing(wanted, known)
            left = f", {_time_left(todo, known, 1)} of CPU time left" if todo else ""
            typer.echo(f"{each.name:<24} {len(wanted) - len(todo):>5} of {len(wanted)} trials{left}")


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _line(record: Record, number: int, total: int, left: str) -> str:
    rate = f"{record.rejections}/{record.tests} rejected"
    where = f"{record.setting} {record.method} {record.recipe} #{record.trial}"
    return f"[{number}/{total}] {where}: {rate} in {record.cpu_seconds:.1f} s; {left} left"


def _time_left(todo: Iterable[Trial], known: Iterable[Record], at_once: int) -> str:
    from .running import duration, seconds_left

    seconds, unknown = seconds_left(todo, known)
    return ("at least " if unknown else "") + duration(seconds / at_once)
