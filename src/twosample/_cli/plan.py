"""The command `twosample plan A B`: how many rows a test needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ..errors import InputError
from .console import sentences
from .files import (
    Blocks,
    By,
    Decimal,
    Drop,
    Encoding,
    Groups,
    Keep,
    Missing,
    NoHeader,
    NoLimit,
    Pairs,
    Resize,
    Separator,
    Sheet,
    Strata,
    Types,
    Weights,
    columns_from,
    design_options,
    layout_from,
    read_options_from,
)
from .shared import (
    A,
    Alpha,
    AsJson,
    B,
    Device,
    Method,
    Permutations,
    Quiet,
    Seed,
    TrainFraction,
    Verbose,
    bar_for,
    check_between,
    check_words,
    json_text,
    shows_progress,
)
from .test import both, details, run_test, too_few_shuffles

if TYPE_CHECKING:
    from .._result import TwoSampleResult


def run(
    a: A,
    b: B = None,
    power: Annotated[
        float,
        typer.Option(
            metavar="CHANCE", help="How often a test should find the difference that is there."
        ),
    ] = 0.9,
    method: Method = "auto",
    alpha: Alpha = 0.05,
    permutations: Permutations = None,
    train_fraction: TrainFraction = None,
    seed: Seed = None,
    device: Device = "auto",
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    by: By = None,
    keep: Keep = None,
    drop: Drop = None,
    types: Types = None,
    missing: Missing = None,
    groups: Groups = None,
    blocks: Blocks = None,
    strata: Strata = None,
    pairs: Pairs = None,
    weights: Weights = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    no_header: NoHeader = False,
    sheet: Sheet = None,
    resize: Resize = None,
    no_limit: NoLimit = False,
) -> None:
    """Say how many rows a test needs.

    Tests the two samples as 'twosample test' does. From the rows that were tested it then predicts
    how often a test of other samples like these would find their difference, and how many rows it
    takes to find it as often as --power says.

    Rows and power come with the interval that holds them with confidence 0.9. From few rows it is
    wide.

    The exit status is 0 when there is an answer, whatever it is, and 2 when there is none.

    \b
    Examples:
      twosample plan reference.csv today.csv
      twosample plan reference.csv today.csv --power 0.8 --method mmd-d
    """
    with sentences(a, b or a):
        check_words(quiet, verbose)
        check_between("--power", power, 0.9)
        read_options = read_options_from(
            columns_from(keep, drop, types, missing),
            layout_from(separator, decimal, encoding, no_header, sheet),
            resize=resize,
            unlimited=no_limit,
            stream=False,  # the power is predicted from the rows themselves
            progress=shows_progress(quiet),
        )
        with bar_for(quiet, False, None):
            result, facts = run_test(
                a,
                b,
                by,
                read_options,
                method=method,
                alpha=alpha,
                permutations=permutations,
                train_fraction=train_fraction,
                seed=seed,
                device=device,
                **design_options(groups, blocks, strata, pairs),
                weights=weights,
            )
        problem = too_few_shuffles(result, alpha)
        if problem is not None:
            raise InputError(problem)
        numbers, words = _predicted(result, power, alpha)
        record = facts | numbers
        if as_json:
            typer.echo(json_text("plan", record))
            return
        typer.echo(_needs(record, words))
        if not quiet:
            typer.echo(_prospects(record, words))
            typer.echo(words.smallest)
            typer.echo(details(result, facts, verbose=verbose))


class _Words(NamedTuple):
    """What a prediction says of the difference itself, and how its units are counted."""

    no_difference: str | None
    smallest: str
    counts_pairs: bool

    def counted(self, sizes: list[int]) -> str:
        """Numbers of X and Y; one number where they are the sides of pairs."""
        return f"{sizes[0]:,}" if self.counts_pairs else both(sizes)


def _predicted(
    result: TwoSampleResult, power: float, alpha: float
) -> tuple[dict[str, Any], _Words]:
    """Power at the present sizes and rows that it takes for another, as JSON has them."""
    from .._insight.power import predict_power
    from .._insight.prediction import rows_or

    predicted = predict_power(result)
    n, m = predicted.sizes
    ratio = m / n
    # A test that trains needs more rows than it tests, in the same proportion as here.
    share = 1.0
    if result.train_sizes is not None:
        share += sum(result.train_sizes) / sum(result.sizes)
    numbers = predicted.to_dict(power, alpha)
    needed = numbers.pop("needed")
    ends = numbers.pop("needed_interval")
    words = _Words(
        predicted.no_difference,
        predicted.smallest_sentence(n, m, power, alpha),
        predicted.counts_pairs,
    )
    record = {
        "unit": rows_or(predicted.unit),
        "tested": numbers.pop("sizes"),
        "learned": None if result.train_sizes is None else list(result.train_sizes),
        **numbers,
        "needed_tested": _rows(needed, ratio),
        "needed_tested_interval": [_rows(count, ratio) for count in ends],
        "needed_rows": _rows(needed, ratio, share),
        "needed_rows_interval": [_rows(count, ratio, share) for count in ends],
    }
    rows = record["needed_rows"]
    if rows is not None and predicted.cells and not predicted.counts_pairs:
        record["needed_in_strata"] = [list(each) for each in predicted.in_strata(*rows)]
    return record, words


def _rows(count: int | None, ratio: float, share: float = 1.0) -> list[int] | None:
    """Rows of X and of Y if `count` rows of X are tested.

    `ratio` is the number of rows of Y for one of X, and `share` the number of rows in all for one
    that is tested.
    """
    if count is None:
        return None
    other = max(2, round(count * ratio))
    return [math.ceil(count * share), math.ceil(other * share)]


def _needs(record: Mapping[str, Any], words: _Words) -> str:
    """How many rows it takes, in a sentence."""
    wanted = record["wanted_power"]
    tested = record["needed_tested"]
    low, high = record["needed_tested_interval"]
    if tested is None:
        least = "" if low is None else f"; it takes at least {words.counted(low)} to test"
        return (
            f"No number of {record['unit']} is known to give power {wanted:g}{least}: "
            f"{words.no_difference}, "
            "so there may be nothing to find."
        )
    if high is None:
        between = f"at least {words.counted(low)} to test; there may be nothing to find"
    else:
        between = f"{words.counted(low)} to {words.counted(high)} to test"
    learned = ""
    if record["learned"] is not None:
        learned = f", {words.counted(record['needed_rows'])} with those to learn from"
    in_strata = ""
    if "needed_in_strata" in record:
        each = ", ".join(both(sizes) for sizes in record["needed_in_strata"])
        in_strata = f" With strata in the shares that they have here: {each}."
    number = f"{words.counted(tested)} {record['unit']}"
    return f"Power {wanted:g} takes {number} to test{learned} ({between}).{in_strata}"


def _prospects(record: Mapping[str, Any], words: _Words) -> str:
    """Power at the present sizes, in a sentence."""
    low, high = record["power_interval"]
    return (
        f"Testing {words.counted(record['tested'])} {record['unit']}, as here, has power "
        f"{record['power']:.2f} ({low:.2f} to {high:.2f}) at alpha = {record['alpha']:g}."
    )
