"""What the commands share: their options, the seed, progress bars, and how answers are written."""

from __future__ import annotations

import json
import math
import secrets
import shlex
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Annotated, Any

import typer

from .._files.handles import without_password
from .._progress import one_bar, wanted
from .._version import __version__
from ..errors import InputError

A = Annotated[
    str, typer.Argument(metavar="A", help="The file with one sample; each row is a point.")
]
B = Annotated[
    str | None,
    typer.Argument(
        metavar="B",
        help="The file with the other; none if --by finds both in A.",
        show_default=False,
    ),
]
Method = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="How to test: 'auto', or a name that 'twosample methods' lists."
    ),
]
Alpha = Annotated[
    float,
    typer.Option(metavar="LEVEL", help="How often samples that do not differ may be said to."),
]
Permutations = Annotated[
    int | None,
    typer.Option(
        metavar="NUMBER", help="Shuffles to compare with; by default as many as the method asks."
    ),
]
TrainFraction = Annotated[
    float | None,
    typer.Option(
        metavar="PART", help="The part of each sample to learn from; by default the method's."
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        metavar="NUMBER", help="Repeat a run exactly; by default a new seed, which is shown."
    ),
]
Device = Annotated[
    str, typer.Option(metavar="NAME", help="Where to compute: auto, cpu, cuda, mps, ...")
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Compare rows on the Dask cluster whose scheduler is at tcp://HOST:PORT.",
    ),
]
InParts = Annotated[
    bool,
    typer.Option(
        "--stream", help="Read all files in parts; by default only those too large for memory."
    ),
]
Explain = Annotated[
    bool, typer.Option("--explain", help="Say which columns differ and which rows show it.")
]
Report = Annotated[
    str | None,
    typer.Option(
        "--report", metavar="FILE", help="Write an HTML page that shows all of this, and more."
    ),
]
FailOnReject = Annotated[
    bool, typer.Option("--fail-on-reject", help="Exit with status 1 if the samples differ.")
]
Repeated = Annotated[
    str,
    typer.Option(
        "--repeats",
        metavar="POLICY",
        help="What to do about copies of rows: once (test each row once); refuse; allow (test each "
        "as a row of its own).",
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Exit with status 2 if something severe is found.")
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Write one JSON object, for programs to read.")
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Write the answer in one line, nothing more.")
]


Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Say also what was shuffled and how to repeat it."),
]
Junit = Annotated[
    str | None,
    typer.Option("--junit", metavar="FILE", help="Write a JUnit file, for servers that test."),
]
JSON_VERSION = 1
"""Of what --json writes: within a version keys may be added, but none is changed or removed."""


def _show_version(asked_for: bool) -> None:
    if asked_for:
        typer.echo(f"twosample {__version__}")
        raise typer.Exit


def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Do two samples come from the same distribution?

    Learns on one part of the data what tells the samples apart, then gives an exact p-value on the
    rest.

    \b
    Exit status:
      0    there is a verdict, whatever it is
      1    samples differ (with --fail-on-reject or --exit-by-verdict only), or
           'watch' has an alarm
      2    there is none, or a file that was asked for could not be written
      3    it is undecided (with --exit-by-verdict only)
      130  interrupted (Ctrl-C)
      143  terminated

    \b
    Example:
      twosample test reference.csv today.csv
    """


def check_between(option: str, value: float, example: float) -> None:
    """Refuse a value of an option that does not lie strictly between 0 and 1."""
    if not 0 < value < 1:
        raise InputError(
            f"{option} is {value:g}; it must lie between 0 and 1, such as {example:g}."
        )


def checked_repeats(repeats: str) -> Any:
    """What becomes of copies of rows, if it is something that can become of them."""
    if repeats not in ("once", "refuse", "allow"):
        raise InputError(f"--repeats is {repeats!r}; use once, refuse or allow.")
    return repeats


def seed_or_new(seed: int | None) -> int:
    """The seed that was asked for, or a new one."""
    if seed is None:
        return secrets.randbelow(2**32)  # as `_random.drawn_seed`, which would import torch
    if seed < 0:
        raise InputError(f"--seed is {seed}; it must not be negative.")
    return seed


def shows_progress(quiet: bool) -> bool:
    """Whether to draw progress bars: on a terminal, unless the user wants it quiet."""
    return wanted(None) and not quiet


def bar_for(quiet: bool, explain: bool, report: str | None) -> AbstractContextManager[None]:
    """One bar for a command that tests: its stages, and how long they take beside each other."""
    stages = {"reading": 1.0, "testing": 6.0}
    if explain:
        stages["explaining"] = 2.0
    if report is not None:
        stages["writing the report"] = 2.0
    return one_bar(stages, shows_progress(quiet))


def read_in_parts(stream: bool, explain: bool, report: str | None) -> bool | None:
    """Whether files are read in parts; None leaves it to their size.

    A report that cannot be written is an error already here, before anything is computed.
    """
    if report is not None:
        from .._show.page import ready

        ready(report)
    if stream and explain:
        raise InputError(
            "--explain needs the rows, which --stream does not keep; leave out one of them."
        )
    if explain:
        return False
    return True if stream else None


def check_words(quiet: bool, verbose: bool) -> None:
    """Refuse to be told to say less and more."""
    if quiet and verbose:
        raise InputError("--quiet and --verbose say opposite things; leave out one of them.")


def json_text(command: str, record: Mapping[str, Any]) -> str:
    """The object that --json writes, with the name of its schema first."""
    named = {"schema": f"urn:twosample:{command}:{JSON_VERSION}", **record}
    return json.dumps(finite(named), allow_nan=False)


def command_line(context: typer.Context, seed: int) -> str:
    """The line for the shell that gives the same answer: what was asked for, and the seed."""
    words = ["twosample", str(context.info_name)]
    for parameter in context.command.params:
        value = context.params[str(parameter.name)]
        if parameter.name == "seed":
            value = seed  # also if the user gave none
        if parameter.param_type_name == "argument":
            if isinstance(value, list):
                words += [str(each) for each in value]
            elif value is not None:
                words.append(str(value))
        elif isinstance(value, list | tuple):
            for each in value:
                words += [parameter.opts[0], str(each)]
        elif value is True:
            words.append(parameter.opts[0])
        elif value is None or value is False:
            continue
        # The seed always: 0 is one, though it equals False.
        elif parameter.name == "seed" or value != parameter.default:
            words += [parameter.opts[0], str(value)]
    return shlex.join(map(without_password, words))


def fact_lines(facts: Mapping[str, Any]) -> str:
    """One line for each fact, to stand below a verdict."""
    return "\n".join(f"  {name:<10} {value}" for name, value in facts.items())


def finite(value: Any) -> Any:
    """`value` in types that JSON has; a number that is not finite becomes null."""
    if hasattr(value, "tolist"):  # NumPy and torch
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
