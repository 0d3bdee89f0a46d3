"""Reproduce the paper.

Runs its experiments, says how far they are, and shows them as tables and figures beside the
published numbers.

\b
Examples:
  twosample bench run blob-power --trials 5
  twosample bench table blob-power
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..bench.experiments import EXPERIMENTS, experiment
from ..errors import InputError
from .console import FAILED, sentences

if TYPE_CHECKING:
    from ..bench.running import Failure
    from ..bench.store import Record
    from ..bench.trials import Trial

_GO_ON = "what was finished is kept; run the same command again to go on."

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="An experiment that 'twosample bench list' lists.")
]
Trials = Annotated[
    int, typer.Option(metavar="NUMBER", min=1, help="Training sets of each cell; the paper has 10.")
]
Tests = Annotated[
    int, typer.Option(metavar="NUMBER", min=1, help="Test sets of each trial; the paper has 100.")
]
Recipe = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="How methods are set up: default, paper (the authors' code) or stated (its text).",
    ),
]
Results = Annotated[str, typer.Option(metavar="FOLDER", help="Where results are kept.")]


def build() -> typer.Typer:
    """The commands, to be added to the application."""
    from . import arena, data

    app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=__doc__)
    app.command("list")(show)
    app.command("run")(run)
    app.command("status")(status)
    app.command("table")(table)
    app.command("figure")(figure)
    app.command("pages")(pages)
    app.command("arena")(arena.arena)
    app.add_typer(data.build(), name="data")
    return app


def show() -> None:
    """List the experiments.

    Says where the paper shows each, its settings and its methods.

    \b
    Example:
      twosample bench list
    """
    with sentences():
        for each in EXPERIMENTS.values():
            source = f" [{each.source}]" if each.source else ""
            # Several settings may share a row of the table.
            rows = dict.fromkeys(setting.row for setting in each.settings)
            typer.echo(f"{each.name}: {each.title}{source}")
            typer.echo(f"  settings  {', '.join(rows)}")
            typer.echo(f"  methods   {', '.join(each.methods)}")


def run(
    name: Name,
    trials: Trials = 10,
    tests: Tests = 100,
    methods: Annotated[
        str,
        typer.Option(metavar="A,B", help="Only these methods; by default all of the experiment."),
    ] = "",
    settings: Annotated[
        str, typer.Option(metavar="A,B", help="Only these settings, such as n_b=40,n_b=100.")
    ] = "",
    recipe: Recipe = "default",
    workers: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", min=1, help="Processes; by default one for each core."),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Send trials to the Dask cluster whose scheduler is at tcp://HOST:PORT.",
        ),
    ] = None,
    results: Results = "results",
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing of single trials.")
    ] = False,
) -> None:
    """Run what is missing of an experiment.

    Every finished trial is one line in FOLDER/NAME.jsonl. The run can be stopped at any moment
    (Ctrl-C). Run again, here or elsewhere, it goes on where it was.

    \b
    Examples:
      twosample bench run blob-power
      twosample bench run higgs-power --trials 5 --settings N=1000 --methods mmd-d
      twosample bench run hdgm-power --recipe paper --scheduler tcp://node1:8786
    """
    with sentences(interrupted=_GO_ON):
        from ..bench import running
        from ..bench.recipes import check
        from ..bench.store import Store

        check(recipe)
        if workers is not None and scheduler is not None:
            raise InputError(
                "--workers starts processes here, --scheduler has workers elsewhere; leave out one "
                "of them."
            )
        cells = experiment(name).cells(_words(methods), _words(settings))
        wanted = running.wanted(cells, recipe, trials, tests)
        store = Store(results)
        store.check()  # an error later would lose what was computed
        known = store.records(*running.experiments_of(wanted))
        todo = running.missing(wanted, known)
        typer.echo(
            f"{name}, {recipe}: {len(wanted) - len(todo)} of {len(wanted)} trials are there.",
            err=True,
        )
        failures = []
        if todo:
            with running.client_of(workers, scheduler) as client:
                cores = sum(client.ncores().values())
                progress = _Progress(todo, known, len(wanted), cores, quiet)
                failures = running.run(
                    todo, store, client, local=scheduler is None, done=progress.done
                )
    if failures:
        typer.echo(
            f"{len(failures)} of {len(todo)} trials failed; run the same command again to try "
            "them.",
            err=True,
        )
        raise typer.Exit(FAILED)


class _Progress:
    """Says how each trial ended, how many there are, and how long the others will take."""

    def __init__(
        self,
        todo: Sequence[Trial],
        known: Sequence[Record],
        total: int,
        at_once: int,
        quiet: bool = False,
    ) -> None:
        self.left = list(todo)
        self.known = list(known)
        self.total = total
        self.at_once = max(1, at_once)
        self.quiet = quiet

    def done(self, trial: Trial, outcome: Record | Failure) -> None:
        """Take note of a trial that has ended."""
        from ..bench.store import Record

        self.left.remove(trial)
        if not isinstance(outcome, Record):
            typer.echo(f"failed: {trial}: {outcome.reason}.", err=True)
            return
        self.known.append(outcome)
        if self.quiet:
            return
        number = self.total - len(self.left)
        rejected = f"{outcome.rejections}/{outcome.tests} rejected"
        took = f"{outcome.cpu_seconds:.1f} s of CPU time"
        left = time_left(self.left, self.known, self.at_once)
        typer.echo(f"[{number}/{self.total}] {trial}: {rejected} in {took}; {left} left", err=True)


def status(
    trials: Trials = 10,
    tests: Tests = 100,
    recipe: Recipe = "default",
    results: Results = "results",
) -> None:
    """Show how far every experiment is.

    Says how many of its trials are there, and how long the others should take.

    \b
    Example:
      twosample bench status --trials 5
    """
    with sentences():
        from ..bench import running
        from ..bench.recipes import check
        from ..bench.store import Store

        check(recipe)
        known = Store(results).records(*EXPERIMENTS)
        for each in EXPERIMENTS.values():
            wanted = running.wanted(each.cells(), recipe, trials, tests)
            todo = running.missing(wanted, known)
            finished = len(wanted) - len(todo)
            left = f", {time_left(todo, known, 1)} of CPU time left" if todo else ""
            typer.echo(f"{each.name:<24} {finished:>5} of {len(wanted)} trials{left}")


def time_left(todo: Sequence[Trial], known: Sequence[Record], at_once: int) -> str:
    """How long the trials `todo` will take, in words, if `at_once` of them run at a time."""
    from ..bench.running import duration, seconds_left

    seconds, unknown = seconds_left(todo, known)
    if unknown == len(todo) > 0:
        return "an unknown time"
    time = duration(seconds / at_once)
    return f"at least {time}" if unknown else time


def table(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An experiment, or t-tests.")],
    recipe: Annotated[
        str, typer.Option(metavar="A,B", help="Only these recipes; by default all that were run.")
    ] = "",
    format: Annotated[
        str, typer.Option(metavar="NAME", help="markdown, latex or csv.")
    ] = "markdown",
    write: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write it there instead of showing it.")
    ] = None,
    results: Results = "results",
) -> None:
    """Show our numbers beside the published ones.

    With their standard errors, and the difference in these.

    \b
    Examples:
      twosample bench table higgs-power
      twosample bench table ablation --format latex --write ablation.tex
    """
    with sentences():
        from ..bench.recipes import RECIPES, check
        from ..bench.store import Store
        from ..bench.tables import needed
        from ..bench.tables import table as tabled

        recipes = _words(recipe)
        for each in recipes:
            check(each)
        records = Store(results).records(*needed(name))
        text = tabled(name, records, format, recipes or RECIPES)
        if write is None:
            typer.echo(text, nl=False)
        else:
            from .._saving.saving import replace, writable

            replace(writable(write), text.encode())


def figure(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="An experiment, or figure-1, figure-2, figure-3, digits, cifar or locations.",
        ),
    ],
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="PNG, PDF or SVG; by default NAME.png."
        ),
    ] = None,
    recipe: Recipe = "default",
    results: Results = "results",
) -> None:
    """Draw an experiment as the paper does.

    The published numbers are hollow marks.

    \b
    Examples:
      twosample bench figure figure-2 -o blob.pdf
      twosample bench figure higgs-power
    """
    with sentences():
        import torch

        from ..bench import figures
        from ..bench.recipes import check
        from ..bench.store import Store

        check(recipe)
        # As in trials, so that a kernel that is learned for a figure is the one that they learn.
        torch.set_num_threads(1)
        records = Store(results).records(*figures.needed(name))
        target = output or f"{name}.png"
        figures.save(figures.draw(name, records, recipe), target)
        typer.echo(f"{target} is written.", err=True)


def pages(
    folder: Annotated[
        str,
        typer.Argument(metavar="FOLDER", help="Where the pages are, such as docs/reproduction."),
    ],
    results: Results = "results",
    draw: Annotated[
        bool, typer.Option("--figures", help="Draw the figures of experiments, too.")
    ] = False,
) -> None:
    """Write a page for each experiment with results.

    The summary of the README in that folder is filled in, too.

    \b
    Example:
      twosample bench pages docs/reproduction --figures
    """
    with sentences():
        from ..bench.pages import write_figures, write_pages
        from ..bench.store import Store

        store = Store(results)
        written = write_pages(Path(folder), store)
        if draw:
            written += write_figures(Path(folder), store)
        typer.echo(f"{len(written)} files are written to {folder}.", err=True)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
