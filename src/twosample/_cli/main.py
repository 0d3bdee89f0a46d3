"""The command line: `twosample test A B`, `fit` and `apply` to do the same in two steps, `plan` and `methods`.

Exit status: 0 with a verdict, whatever it is (1 for "they differ" with --fail-on-reject), 2 without
one, 130 when interrupted. Results go to standard output; warnings, errors and progress to standard
error. What takes long to import is imported by the command that needs it.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from .._version import __version__
from ..errors import InputError
from .console import sentences as _sentences

try:
    import typer
except ImportError:  # main() says what to install; annotations are not evaluated before that
    typer = None  # type: ignore[assignment]
else:  # what several commands take
    from .files import By, Drop, Keep, Missing, Resize, Types, columns_from, reading_from
    from .shared import (
        Alpha,
        AsJson,
        Device,
        Explain,
        FailOnReject,
        InParts,
        Method,
        Permutations,
        Quiet,
        Report,
        Scheduler,
        Seed,
        TrainFraction,
        command_line,
        fact_lines,
        finite,
        read_in_parts,
        seed_or_new,
        shows_progress,
    )

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

if TYPE_CHECKING:
    from .._files.opening import Reading
    from .._result import TwoSampleResult


def main() -> None:
    """Run the command line; this is the `twosample` script."""
    if typer is None:
        sys.stderr.write("error: the command line takes typer; pip install 'twosample[cli]'.\n")
        sys.exit(2)
    try:
        build()(prog_name="twosample")
    except OSError as error:  # of what typer writes by itself: help, on a disk that is full
        sys.stderr.write(f"error: {error.strerror or error}.\n")
        sys.exit(2)


def build() -> typer.Typer:
    """The application: its commands and --version."""
    # No rich markup: help and errors stay plain sentences, in a pipe, in a log and on a narrow
    # screen.
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(options)
    from . import bench  # here, since it takes typer
    from .compare import run as compare  # the same

    app.command("test")(run)
    app.command("compare")(compare)
    app.command("plan")(plan)
    app.command("fit")(fit)
    app.command("apply")(apply)
    app.command("methods")(methods)
    app.add_typer(bench.build(), name="bench")
    return app


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"twosample {__version__}")
        raise typer.Exit


def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Do two samples come from the same distribution?

    Learns on one part of the data what tells the samples apart, then gives an exact p-value on the
    rest.

    \b
    Example:
      twosample test reference.csv today.csv
    """


def run(
    context: typer.Context,
    a: A,
    b: B = None,
    method: Method = "mmd-d",
    alpha: Alpha = 0.05,
    permutations: Permutations = None,
    train_fraction: TrainFraction = None,
    seed: Seed = None,
    device: Device = "auto",
    scheduler: Scheduler = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    explain: Explain = False,
    report: Report = None,
    by: By = None,
    keep: Keep = None,
    drop: Drop = None,
    types: Types = None,
    missing: Missing = "error",
    resize: Resize = None,
    stream: InParts = False,
    fail_on_reject: FailOnReject = False,
) -> None:
    """Test whether two samples differ.

    The files are tables (CSV, TSV, JSON lines, each also with .gz; Parquet, Arrow or Feather),
    whose columns are matched by name; arrays (NPY or NPZ; data.npz::images picks one array of
    several); folders of PNG or JPEG files of one size; or what a SQLite database gives for a table
    or a query (shop.db::orders, shop.db::SELECT ...).

    Nothing is guessed about missing values, dates, and text of many values: without --missing,
    --type or --drop they are errors that name file, line and column.

    The exit status is 0 when there is a verdict, whatever it is, and 2 when there is none.

    \b
    Examples:
      twosample test reference.csv today.csv
      twosample test real.npy generated.npy --seed 0 --json
      twosample test yesterday.parquet today.parquet --quiet --fail-on-reject
      twosample test yesterday.parquet today.parquet --explain
      twosample test reference.csv today.csv --report drift.html
      twosample test all.csv --by group=control,treated --missing drop
      twosample test reference.csv today.csv --drop id --type zip=category
      twosample test photos/ generated/ --resize 64x64
    """
    with _sentences(a, b or a):
        columns = columns_from(keep, drop, types, missing)
        reading = reading_from(
            columns,
            by,
            resize,
            read_in_parts(stream, explain, report),
            progress=shows_progress(quiet),
        )
        result, facts = _tested(
            a,
            b,
            method,
            alpha,
            permutations,
            train_fraction,
            seed,
            device,
            quiet,
            reading,
            scheduler,
        )
        _show(result, facts, as_json, quiet, explain, context)
    if fail_on_reject and result.reject(alpha):
        raise typer.Exit(1)


def fit(
    a: A,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where to keep it, such as kernel.safetensors."
        ),
    ],
    b: B = None,
    method: Method = "mmd-d",
    permutations: Permutations = None,
    seed: Seed = None,
    device: Device = "auto",
    as_json: AsJson = False,
    quiet: Quiet = False,
    by: By = None,
    keep: Keep = None,
    drop: Drop = None,
    types: Types = None,
    missing: Missing = "error",
    resize: Resize = None,
    stream: InParts = False,
) -> None:
    """Learn a test from two samples and keep it in a file.

    Learns from all rows what tells the samples apart. 'twosample apply' then tests other rows with
    it, as often as you like, without learning again. Rows that were learned from must not be
    tested: they would seem to differ more than others do.

    What --columns, --drop, --type and --missing say is kept in the file, and 'twosample apply'
    treats other rows alike. The file is in the safetensors format, which runs no code when it is
    read.

    \b
    Examples:
      twosample fit last_year.csv this_year.csv -o kernel.safetensors
      twosample fit real.npy generated.npy -o kernel.safetensors --seed 0
    """
    with _sentences(a, b or a, interrupted=f"{output} was not written."):
        seed = seed_or_new(seed)
        from .._api import resolve
        from .._data.streams import known_rows
        from .._files.opening import name_of, open_pair
        from .._methods import choose
        from .._saving.saving import writable

        writable(output)  # or all that is learned would be for nothing
        columns = columns_from(keep, drop, types, missing)
        X, Y = open_pair(
            a, b, reading_from(columns, by, resize, stream or None, progress=shows_progress(quiet))
        )
        name = choose(known_rows(X), known_rows(Y))[0] if method == "auto" else method
        test = resolve(name, permutations=permutations)
        fitted = test.fit(
            X, Y, rng=seed, device=device, progress=shows_progress(quiet), columns=columns
        )
        facts = {
            "files": [name_of(X), name_of(Y)],
            "rows": [len(X), len(Y)],
            "method": name,
            "seed": seed,
        }
        fitted.save(output, notes=facts)
        facts |= {"dropped": list(fitted.dropped)}
        log = fitted.training
        if as_json:
            training = None if log is None else dataclasses.asdict(log) | {"steps": log.steps}
            record = facts | {
                "output": output,
                "train_sizes": fitted.train_sizes,
                "training": training,
            }
            typer.echo(json.dumps(finite(record), allow_nan=False))
            return
        rows = [len(X), len(Y)] if fitted.train_sizes is None else list(fitted.train_sizes)
        typer.echo(f"{output} holds {name}, fitted on {_both(rows)} rows.")
        if not quiet:
            trained = (
                {} if log is None else {"training": f"{log.stopped}, in {log.seconds:.1f} seconds"}
            )
            typer.echo(fact_lines(_sources(facts) | trained | {"seed": seed}))


def apply(
    context: typer.Context,
    kernel: Annotated[
        str, typer.Argument(metavar="KERNEL", help="The file that 'twosample fit' has written.")
    ],
    a: A,
    b: B = None,
    alpha: Alpha = 0.05,
    permutations: Permutations = None,
    seed: Seed = None,
    device: Device = "auto",
    scheduler: Scheduler = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    explain: Explain = False,
    report: Report = None,
    by: By = None,
    resize: Resize = None,
    stream: InParts = False,
    fail_on_reject: FailOnReject = False,
) -> None:
    """Test whether two samples differ, with a test from a file.

    The test is one that 'twosample fit' has learned from other rows: all rows of A and B are
    tested, and none is learned from. The columns must be those that it was fitted on, and what was
    said of them then holds here: there are no options for columns and missing values.

    The exit status is 0 when there is a verdict, whatever it is, and 2 when there is none.

    \b
    Examples:
      twosample apply kernel.safetensors monday.csv tuesday.csv
      twosample apply kernel.safetensors real.npy generated.npy --seed 0 --json
    """
    with _sentences(a, b or a):
        in_parts = read_in_parts(stream, explain, report)
        from .._api import resolve
        from .._saving.saving import read

        fitted, provenance = read(kernel, device=device)
        spec = resolve(fitted.spec, permutations=permutations)
        test = functools.partial(
            dataclasses.replace(fitted, spec=spec).test, progress=shows_progress(quiet)
        )
        reading = reading_from(
            fitted.schema.rules, by, resize, in_parts, progress=shows_progress(quiet)
        )
        result, facts = _on_files(a, b, test, alpha, seed, scheduler, reading)
        _show(
            result,
            {"kernel": kernel, "provenance": provenance} | facts,
            as_json,
            quiet,
            explain,
            context,
        )
    if fail_on_reject and result.reject(alpha):
        raise typer.Exit(1)


def plan(
    a: A,
    b: B = None,
    power: Annotated[
        float,
        typer.Option(
            metavar="CHANCE", help="How often a test should find the difference that is there."
        ),
    ] = 0.9,
    method: Method = "mmd-d",
    alpha: Alpha = 0.05,
    permutations: Permutations = None,
    train_fraction: TrainFraction = None,
    seed: Seed = None,
    device: Device = "auto",
    as_json: AsJson = False,
    quiet: Quiet = False,
    by: By = None,
    keep: Keep = None,
    drop: Drop = None,
    types: Types = None,
    missing: Missing = "error",
    resize: Resize = None,
) -> None:
    """Say how many rows a test needs.

    Tests the two samples as 'twosample test' does, then predicts from the rows that were not
    learned from how often a test of other samples like these would find their difference, and how
    many rows it takes to find it as often as --power says.

    Rows and power come with the interval that holds them with confidence 0.9. From few rows it is
    wide.

    The exit status is 0 when there is an answer, whatever it is, and 2 when there is none.

    \b
    Examples:
      twosample plan reference.csv today.csv
      twosample plan reference.csv today.csv --power 0.8 --method mmd-o
    """
    with _sentences(a, b or a):
        if not 0 < power < 1:
            raise InputError(f"--power is {power:g}; it must lie between 0 and 1, such as 0.9.")
        columns = columns_from(keep, drop, types, missing)
        reading = reading_from(columns, by, resize, False, progress=shows_progress(quiet))
        result, facts = _tested(
            a, b, method, alpha, permutations, train_fraction, seed, device, quiet, reading
        )
        if (problem := _too_few(result, alpha)) is not None:
            raise InputError(problem)
        from .._insight.power import predict_power

        predicted = predict_power(result)
        n, m = result.sizes
        ratio = m / n
        # A test that trains needs more rows than it tests, in the same proportion as here.
        share = 1.0 if result.train_sizes is None else 1 + sum(result.train_sizes) / (n + m)
        needed = predicted.samples_needed(power, alpha, ratio=ratio)
        ends = predicted.samples_interval(power, alpha, ratio=ratio)
        effect = predicted.smallest_effect(n, m, power=power, alpha=alpha)
        record = facts | {
            "tested": [n, m],
            "learned": None if result.train_sizes is None else list(result.train_sizes),
            "mmd2": predicted.mmd2,
            "standard_error": predicted.standard_error,
            "power": predicted.power(n, m, alpha),
            "power_interval": predicted.power_interval(n, m, alpha),
            "wanted_power": power,
            "needed_tested": _times(needed, ratio),
            "needed_tested_interval": [_times(count, ratio) for count in ends],
            "needed_rows": _times(needed, ratio, share),
            "needed_rows_interval": [_times(count, ratio, share) for count in ends],
            "smallest_mmd": effect.mmd,
            "smallest_mmd2": effect.mmd2,
        }
        if as_json:
            typer.echo(json.dumps(finite(record), allow_nan=False))
        else:
            typer.echo(_needs(record))
            if not quiet:
                typer.echo(_prospects(record))
                typer.echo(_details(result, facts))


def methods() -> None:
    """List the methods that --method takes.

    What each is good at, what it costs for n points, and how it is calibrated.

    \b
    Example:
      twosample methods
    """
    with _sentences():
        from .._methods import methods_table

        typer.echo(methods_table())


def _tested(
    a: str,
    b: str | None,
    method: str,
    alpha: float,
    permutations: int | None,
    train_fraction: float | None,
    seed: int | None,
    device: str,
    quiet: bool,
    reading: Reading,
    scheduler: str | None = None,
) -> tuple[TwoSampleResult, dict[str, Any]]:
    """The result of a test of two files, and what it was asked."""
    from .._api import two_sample_test

    test = functools.partial(
        two_sample_test,
        method=method,
        permutations=permutations,
        train_fraction=train_fraction,
        device=device,
        progress=shows_progress(quiet),
        columns=reading.rules,
    )
    return _on_files(a, b, test, alpha, seed, scheduler, reading)


def _on_files(
    a: str,
    b: str | None,
    test: Callable[..., TwoSampleResult],
    alpha: float,
    seed: int | None,
    scheduler: str | None,
    reading: Reading,
) -> tuple[TwoSampleResult, dict[str, Any]]:
    """What `test` gives for two files, and what it was asked."""
    if not 0 < alpha < 1:
        raise InputError(f"--alpha is {alpha:g}; it must lie between 0 and 1, such as 0.05.")
    seed = seed_or_new(seed)
    from .._cluster import connected
    from .._files.opening import name_of, open_pair

    with nullcontext() if scheduler is None else connected(scheduler) as client:
        X, Y = open_pair(a, b, reading)
        result = test(X, Y, rng=seed, client=client)
    facts = {
        "files": [name_of(X), name_of(Y)],
        "rows": [len(X), len(Y)],
        "dropped": list(result.dropped),
    }
    return result, facts | {"method": result.method, "alpha": alpha, "seed": seed}


def _show(
    result: TwoSampleResult,
    facts: Mapping[str, Any],
    as_json: bool,
    quiet: bool,
    explain: bool,
    context: typer.Context,
) -> None:
    """Write the verdict, and what else was asked for."""
    alpha = facts["alpha"]
    reject = result.reject(alpha)
    if (problem := _too_few(result, alpha)) is not None:
        warnings.warn(problem, UserWarning, stacklevel=1)
    explanation = None
    if explain:
        from .._insight.explain import explain as explained

        explanation = explained(result, rng=facts["seed"], progress=shows_progress(quiet))
    page = context.params["report"]
    if page is not None:
        from .._show.report import write_report

        a, b = (Path(file).name for file in facts["files"])
        again = {"Command": command_line(context, facts["seed"]), "Seed": facts["seed"]}
        options: dict[str, Any] = {
            "alpha": alpha,
            "names": (a, b),
            "facts": again,
            "rng": facts["seed"],
        }
        write_report(
            result, page, explanation=explanation, progress=shows_progress(quiet), **options
        )
    if as_json:
        record = {**facts, "reject": reject, "pvalue": result.pvalue, "statistic": result.statistic}
        more = {} if explanation is None else {"explanation": explanation.to_dict()}
        more |= {} if page is None else {"report": page}
        typer.echo(json.dumps(finite(record | result.to_dict() | record | more), allow_nan=False))
        return
    typer.echo(_verdict(result, alpha))
    if not quiet:
        typer.echo(
            _details(result, facts) + ("" if page is None else "\n" + fact_lines({"report": page}))
        )
    if explanation is not None:
        typer.echo(f"\n{explanation}")


def _times(count: int | None, ratio: float, share: float = 1.0) -> list[int] | None:
    """Rows of X and of Y where `count` rows of X are tested, and `share` times as many used in all."""
    return (
        None
        if count is None
        else [math.ceil(count * share), math.ceil(max(2, round(count * ratio)) * share)]
    )


def _needs(record: Mapping[str, Any]) -> str:
    """How many rows it takes, in a sentence."""
    wanted, tested, (low, high) = (
        record["wanted_power"],
        record["needed_tested"],
        record["needed_tested_interval"],
    )
    if tested is None:
        least = "" if low is None else f"; it takes at least {_both(low)} to test"
        return (
            f"No number of rows is known to give power {wanted:g}{least}: the estimated MMD^2 is "
            f"{record['mmd2']:.2g}, not above 0, so there may be nothing to find."
        )
    if high is not None:
        between = f"{_both(low)} to {_both(high)}"
    else:
        between = f"at least {_both(low)}; there may be nothing to find"
    learned = (
        ""
        if record["learned"] is None
        else f", {_both(record['needed_rows'])} with those to learn from"
    )
    return f"Power {wanted:g} takes {_both(tested)} rows to test{learned} ({between} to test)."


def _prospects(record: Mapping[str, Any]) -> str:
    """Power at the present sizes and the smallest effect, in two sentences."""
    (low, high), wanted, tested = (
        record["power_interval"],
        record["wanted_power"],
        _both(record["tested"]),
    )
    mmd = math.sqrt(max(0.0, record["mmd2"]))
    return (
        f"Testing {tested} rows, as here, has power {record['power']:.2f} ({low:.2f} to "
        f"{high:.2f}) "
        f"at alpha = {record['alpha']:g}.\n"
        f"The smallest MMD found with power {wanted:g} on {tested} rows is "
        f"{record['smallest_mmd']:.3g}; "
        f"here it is {mmd:.3g}."
    )


def _both(sizes: list[int]) -> str:
    return f"{sizes[0]} + {sizes[1]}"


def _verdict(result: TwoSampleResult, alpha: float) -> str:
    from .._result import format_pvalue

    what, side = (
        ("The samples differ", "at most")
        if result.reject(alpha)
        else ("No difference found", "above")
    )
    return f"{what}: p = {format_pvalue(result.pvalue)}, {side} alpha = {alpha:g}."


def _details(result: TwoSampleResult, facts: Mapping[str, Any]) -> str:
    learned = (
        ""
        if result.train_sizes is None
        else "learned on {} + {} rows, ".format(*result.train_sizes)
    )
    lines = _sources(facts) | {
        "method": f"{facts['method']}, {learned}tested on {result.sizes[0]} + {result.sizes[1]}",
        **({} if result.chosen is None else {"chosen": result.chosen}),
        "statistic": f"{result.statistic:.4g}, against {result.calibration}",
        "seed": facts["seed"],
    }
    return fact_lines(lines)


def _sources(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Where the samples come from, and the test if it comes from a file."""
    files = {
        name: f"{file}, {rows} rows"
        + (f", {dropped} of them left out for missing values" if dropped else "")
        for name, file, rows, dropped in zip(
            "XY", facts["files"], facts["rows"], facts["dropped"], strict=True
        )
    }
    if "kernel" not in facts:
        return files
    return {"kernel": f"{facts['kernel']}, saved {facts['provenance'].get('saved')}"} | files


def _too_few(result: TwoSampleResult, alpha: float) -> str | None:
    """What to do if there are so few shuffles that no p-value can reach `alpha`."""
    count = len(result.null_distribution)
    if count == 0 or 1 / (count + 1) <= alpha:  # none where a law takes their place
        return None
    few = f"with {count} shuffles p is at least {1 / (count + 1):.2g}, so nothing can be found at alpha = {alpha:g}"
    if alpha < 1e-7:
        return f"{few}; choose a larger one."
    return f"{few}; use --permutations {math.ceil(1 / alpha) - 1} or more, or larger samples."
