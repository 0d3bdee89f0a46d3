"""What the commands share: their options, the seed, the bar, the line that repeats them, JSON."""

from __future__ import annotations

import math
import secrets
import shlex
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from .._progress import wanted
from ..errors import InputError

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
    typer.Option("--stream", help="Read files in parts; by default those that fill the memory."),
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
AsJson = Annotated[
    bool, typer.Option("--json", help="Write one JSON object, for programs to read.")
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Write the answer in one line, nothing more.")
]


def seed_or_new(seed: int | None) -> int:
    """The seed that was asked for, or a new one."""
    if seed is not None and seed < 0:
        raise InputError(f"--seed is {seed}; it must not be negative.")
    return secrets.randbelow(2**32) if seed is None else seed


def shows_progress(quiet: bool) -> bool:
    """Whether to draw bars: on a terminal, unless the user wants it quiet."""
    return wanted(None) and not quiet


def read_in_parts(stream: bool, explain: bool, report: str | None) -> bool | None:
    """Whether files are read in parts; None leaves it to their size. A page that cannot be written is an error now."""
    if report is not None:
        from .._show.page import ready

        ready(report)
    if stream and explain:
        raise InputError(
            "--explain needs the rows, which --stream does not keep; leave out one of them."
        )
    return False if explain else stream or None


def command_line(context: typer.Context, seed: int) -> str:
    """The line for the shell that gives the same answer: what was asked for, and the seed."""
    words = ["twosample", str(context.info_name)]
    for parameter in context.command.params:
        value = seed if parameter.name == "seed" else context.params[str(parameter.name)]
        if parameter.param_type_name == "argument":
            words += (
                map(str, value)
                if isinstance(value, list)
                else []
                if value is None
                else [str(value)]
            )
        elif isinstance(value, list | tuple):
            words += [word for each in value for word in (parameter.opts[0], str(each))]
        elif value is True:
            words.append(parameter.opts[0])
        elif value not in (None, False, parameter.default):
            words += [parameter.opts[0], str(value)]
    return shlex.join(words)


def fact_lines(facts: Mapping[str, Any]) -> str:
    """A line for each fact, below a verdict."""
    return "\n".join(f"  {name:<10} {value}" for name, value in facts.items())


def finite(value: Any) -> Any:
    """`value` in types that JSON has; a number that is not finite becomes null."""
    if hasattr(value, "tolist"):  # NumPy and torch
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
