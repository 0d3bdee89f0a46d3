"""The command line: `twosample test A B` and `twosample methods`.

Exit status: 0 with a verdict, whatever it is (1 for "they differ" with --fail-on-reject), 2 without one, 130 when
interrupted. Results go to standard output; warnings, errors and progress to standard error. What takes long to import
is imported by the command that needs it.
"""

from __future__ import annotations

import errno
import json
import math
import re
import secrets
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from ._version import __version__
from .errors import InputError, TwoSampleError

try:
    import typer
except ImportError:  # main() says what to install; annotations are not evaluated before that
    typer = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from .result import TwoSampleResult


def main() -> None:
    """Run the command line; this is the `twosample` script."""
    if typer is None:
        sys.stderr.write("error: the command line takes typer; pip install 'twosample[cli]'.\n")
        sys.exit(2)
    build()(prog_name="twosample")


def build() -> typer.Typer:
    """The application: two commands and --version."""
    # No rich markup: help and errors stay plain sentences, in a pipe, in a log and on a narrow screen.
    app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.callback()(options)
    app.command("test")(run)
    app.command("methods")(methods)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"twosample {__version__}")
        raise typer.Exit


def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Do two samples come from the same distribution?

    Learns on one part of the data what tells the samples apart, then gives an exact p-value on the rest.

    \b
    Example:
      twosample test reference.csv today.csv
    """


def run(
    a: Annotated[str, typer.Argument(metavar="A", help="The file with one sample; each row is a point.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The file with the other; it may have more or fewer rows.")],
    method: Annotated[
        str, typer.Option(metavar="NAME", help="How to test; 'twosample methods' lists the choices.")
    ] = "mmd-d",
    alpha: Annotated[
        float, typer.Option(metavar="LEVEL", help="How often samples that do not differ may be said to.")
    ] = 0.05,
    permutations: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", help="Shuffles to compare with; by default as many as the method asks."),
    ] = None,
    train_fraction: Annotated[
        float | None,
        typer.Option(metavar="PART", help="The part of each sample to learn from; by default the method's."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Repeat a run exactly; by default a new seed, which is shown.")
    ] = None,
    device: Annotated[str, typer.Option(metavar="NAME", help="Where to compute: auto, cpu, cuda, mps, ...")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object, for programs to read.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Write the verdict and nothing more.")] = False,
    fail_on_reject: Annotated[
        bool, typer.Option("--fail-on-reject", help="Exit with status 1 if the samples differ.")
    ] = False,
) -> None:
    """Test whether two samples differ.

    The files are tables (CSV, TSV, Parquet, Arrow or Feather), whose columns are matched by name, or arrays
    (NPY or NPZ; data.npz::images picks one array of several).

    The exit status is 0 when there is a verdict, whatever it is, and 2 when there is none.

    \b
    Examples:
      twosample test reference.csv today.csv
      twosample test real.npy generated.npy --seed 0 --json
      twosample test yesterday.parquet today.parquet --quiet --fail-on-reject
    """
    with _sentences(a, b):
        if not 0 < alpha < 1:
            raise InputError(f"--alpha is {alpha:g}; it must lie between 0 and 1, such as 0.05.")
        if seed is not None and seed < 0:
            raise InputError(f"--seed is {seed}; it must not be negative.")
        seed = secrets.randbelow(2**32) if seed is None else seed
        from .api import two_sample_test
        from .files import read_pair

        X, Y = read_pair(a, b)
        result = two_sample_test(
            X,
            Y,
            method,
            permutations=permutations,
            train_fraction=train_fraction,
            rng=seed,
            device=device,
            progress=sys.stderr.isatty() and not quiet,
        )
        reject = result.reject(alpha)
        if 1 / (len(result.null_distribution) + 1) > alpha:
            warnings.warn(_too_few(result, alpha), UserWarning, stacklevel=1)
        facts = {"files": [a, b], "rows": [len(X), len(Y)], "method": method, "alpha": alpha, "seed": seed}
        if as_json:
            record = facts | {"reject": reject, "pvalue": result.pvalue, "statistic": result.statistic}
            typer.echo(json.dumps(_finite(record | result.to_dict() | record), allow_nan=False))
        else:
            typer.echo(_verdict(result, alpha))
            if not quiet:
                typer.echo(_details(result, facts))
    if reject and fail_on_reject:
        raise typer.Exit(1)


def methods() -> None:
    """List the methods that --method takes.

    \b
    Example:
      twosample methods
    """
    with _sentences():
        from .methods import METHODS

        width = max(map(len, METHODS))
        for name, method in METHODS.items():
            first = next(iter((method.__doc__ or "").strip().splitlines()), "")
            typer.echo(f"{name:{width}}  {first}".rstrip())


def _verdict(result: TwoSampleResult, alpha: float) -> str:
    from .result import format_pvalue

    what, side = ("The samples differ", "at most") if result.reject(alpha) else ("No difference found", "above")
    return f"{what}: p = {format_pvalue(result.pvalue)}, {side} alpha = {alpha:g}."


def _details(result: TwoSampleResult, facts: Mapping[str, Any]) -> str:
    (a, b), (n, m) = facts["files"], facts["rows"]
    learned = "" if result.train_sizes is None else "learned on {} + {} rows, ".format(*result.train_sizes)
    lines = {
        "X": f"{a}, {n} rows",
        "Y": f"{b}, {m} rows",
        "method": f"{facts['method']}, {learned}tested on {result.sizes[0]} + {result.sizes[1]}",
        "statistic": f"{result.statistic:.4g}, against {result.calibration}",
        "seed": facts["seed"],
    }
    return "\n".join(f"  {name:<10} {value}" for name, value in lines.items())


def _too_few(result: TwoSampleResult, alpha: float) -> str:
    count = len(result.null_distribution)
    return (
        f"with {count} shuffles p is at least {1 / (count + 1):.2g}, so nothing can be found at alpha = {alpha:g}; "
        f"use --permutations {math.ceil(1 / alpha) - 1} or more, or larger samples."
    )


def _finite(value: Any) -> Any:
    """`value` in types that JSON has; a number that is not finite becomes null."""
    if hasattr(value, "tolist"):  # NumPy and torch
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def _sentences(a: str = "", b: str = "") -> Iterator[None]:
    """Errors and warnings as sentences on standard error, with the names of the files where they speak of X and Y."""
    explained = False

    def say(kind: str, message: object) -> None:
        nonlocal explained
        typer.echo(f"{kind}: {message}", err=True)
        if a and not explained and re.search(r"\b[XY]\b", str(message)):
            typer.echo(f"(X is {a}, Y is {b}.)", err=True)
            explained = True

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in (UserWarning, RuntimeWarning):
            warnings.simplefilter("always", kind)
        warnings.showwarning = lambda message, *_, **__: say("warning", message)
        try:
            yield
        except TwoSampleError as error:
            say("error", error)
            raise typer.Exit(2) from error
        except KeyboardInterrupt as error:
            say("interrupted", "there is no verdict.")
            raise typer.Exit(130) from error
        except MemoryError as error:
            say("error", "there is not enough memory for samples of this size.")
            raise typer.Exit(2) from error
        except OSError as error:
            if error.errno == errno.EPIPE:  # whoever read the output has gone; typer ends quietly
                raise
            say("error", f"{error.strerror or error}.")
            raise typer.Exit(2) from error
