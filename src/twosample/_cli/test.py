"""The command `twosample test A B`, and what other commands take from it."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from .console import FAILED, sentences
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
from .junit import Case, junit_file, outcome_of
from .shared import (
    A,
    Alpha,
    AsJson,
    B,
    Device,
    Explain,
    FailOnReject,
    InParts,
    Junit,
    Method,
    Permutations,
    Quiet,
    Repeated,
    Report,
    Scheduler,
    Seed,
    Strict,
    TrainFraction,
    Verbose,
    bar_for,
    check_between,
    check_words,
    checked_repeats,
    command_line,
    fact_lines,
    json_text,
    read_in_parts,
    seed_or_new,
    shows_progress,
)
from .tolerance import ExitByVerdict, Tolerance, effect_lines, status_of, tolerance_from

if TYPE_CHECKING:
    from .._files.opening import ReadOptions
    from .._insight.explain import Explanation
    from .._result import TwoSampleResult


def run(
    context: typer.Context,
    a: A,
    b: B = None,
    method: Method = "auto",
    alpha: Alpha = 0.05,
    permutations: Permutations = None,
    train_fraction: TrainFraction = None,
    seed: Seed = None,
    device: Device = "auto",
    scheduler: Scheduler = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    explain: Explain = False,
    report: Report = None,
    junit: Junit = None,
    by: By = None,
    keep: Keep = None,
    drop: Drop = None,
    types: Types = None,
    missing: Missing = None,
    groups: Groups = None,
    blocks: Blocks = None,
    strata: Strata = None,
    pairs: Pairs = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    no_header: NoHeader = False,
    sheet: Sheet = None,
    weights: Weights = None,
    resize: Resize = None,
    no_limit: NoLimit = False,
    stream: InParts = False,
    fail_on_reject: FailOnReject = False,
    repeats: Repeated = "once",
    strict: Strict = False,
    tolerance: Tolerance = None,
    exit_by_verdict: ExitByVerdict = False,
) -> None:
    """Test whether two samples differ.

    The files are tables (CSV, TSV and other text, JSON, each also with .gz; Excel, Parquet, Arrow
    or Feather), whose columns are matched by name; arrays (NPY or NPZ; data.npz::images picks one
    array of several); folders of PNG or JPEG files of one size; or what a database gives for a
    table or a query (shop.db::orders, shop.duckdb::SELECT ..., postgresql://host/shop::orders).

    What is decided about missing values, dates, and text of many values is said in a note, with
    the option (--missing, --type, --drop) that decides it otherwise. What cannot be tested is an
    error that names file, line and column.

    First, it looks at both samples, as 'twosample check' does, and says what is odd. Columns that
    number the rows are left out, and copies of rows are tested once.

    The exit status is 0 when there is a verdict, whatever it is, and 2 when there is none, or when
    the explanation or the report could not be made; with --strict also if something severe is odd.

    \b
    Examples:
      twosample test reference.csv today.csv
      twosample test real.npy generated.npy --seed 0 --json
      twosample test yesterday.parquet today.parquet --quiet --fail-on-reject
      twosample test yesterday.parquet today.parquet --explain
      twosample test reference.csv today.csv --report drift.html
      twosample test all.csv --by group=control,treated --missing drop
      twosample test reference.csv today.csv --drop id --type zip=category
      twosample test before.csv after.csv --pairs patient
      twosample test control.csv treated.csv --groups subject --strata clinic
      twosample test photos/ generated/ --resize 64x64
      twosample test old.csv new.csv --tolerance auc=0.55 --exit-by-verdict
    """
    with (
        sentences(a, b or a) as saying,
        junit_file(junit, "test", f"{b or a} against {a}") as cases,
    ):
        check_words(quiet, verbose)
        bar = bar_for(quiet, explain, report)
        read_options = read_options_from(
            columns_from(keep, drop, types, missing),
            layout_from(separator, decimal, encoding, no_header, sheet),
            resize=resize,
            unlimited=no_limit,
            stream=read_in_parts(stream, explain, report),
            progress=shows_progress(quiet),
        )
        with bar:
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
                scheduler=scheduler,
                repeats=repeats,
                **design_options(groups, blocks, strata, pairs),
                weights=weights,
                tolerance=tolerance_from(tolerance),
            )
            if junit is not None:
                cases.append(case_of(result, facts))
            extras = extras_of(result, facts, context)
        if not quiet:
            saying.findings(result.checks)
        show(result, facts, extras, context)
        status = 0
        if fail_on_reject or exit_by_verdict:
            status = status_of(result.decide(alpha).verdict, undecided=exit_by_verdict)
        if strict and result.checks.severe:
            status = FAILED
    if status:
        raise typer.Exit(status)


# Running


def run_test(
    a: str,
    b: str | None,
    by: str | None,
    read_options: ReadOptions,
    *,
    method: str,
    alpha: float,
    permutations: int | None,
    train_fraction: float | None,
    seed: int | None,
    device: str,
    scheduler: str | None = None,
    repeats: str = "once",
    tolerance: Mapping[str, float] | None = None,
    **design: Any,
) -> tuple[TwoSampleResult, dict[str, Any]]:
    """The result of a test of two files, and the facts of the run."""
    check_between("--alpha", alpha, 0.05)

    from .._api import resolve, two_sample_test

    test = functools.partial(
        two_sample_test,
        method=resolve(method, alpha=alpha),
        permutations=permutations,
        train_fraction=train_fraction,
        device=device,
        progress=read_options.progress,
        columns=read_options.rules,
        repeats=checked_repeats(repeats),
        tolerance=tolerance,
        **design,
    )
    return run_on_files(a, b, by, read_options, test, alpha=alpha, seed=seed, scheduler=scheduler)


def run_on_files(
    a: str,
    b: str | None,
    by: str | None,
    read_options: ReadOptions,
    test: Callable[..., TwoSampleResult],
    *,
    alpha: float,
    seed: int | None,
    scheduler: str | None,
) -> tuple[TwoSampleResult, dict[str, Any]]:
    """What `test` gives for two files, and the facts of the run."""
    seed = seed_or_new(seed)

    from .._cluster import connected
    from .._files.inputs import open_pair
    from .._files.opening import name_of
    from .._progress import stage

    with nullcontext() if scheduler is None else connected(scheduler) as client:
        stage("reading")
        X, Y = open_pair(a, b, by, read_options)
        stage("testing")
        result = test(X, Y, rng=seed, client=client)
    facts = {
        "files": [name_of(X), name_of(Y)],
        "rows": [len(X), len(Y)],
        "dropped": list(result.dropped),
        "method": result.method,
        "alpha": alpha,
        "seed": seed,
    }
    return result, facts


# Showing


class Extras(NamedTuple):
    """What the options ask for beside the verdict, and what went wrong with it."""

    explanation: Explanation | None
    page: str | None
    failure: BaseException | None
    lost: str


def extras_of(result: TwoSampleResult, facts: Mapping[str, Any], context: typer.Context) -> Extras:
    """Explain the result and write the page, as far as the options in `context` ask for it."""
    from .._progress import stage

    explanation = None
    page = None
    failure: BaseException | None = None
    lost = "the explanation was not finished."
    try:
        if context.params["explain"]:
            from .._insight.explain import explain

            stage("explaining")
            progress = shows_progress(context.params["quiet"])
            explanation = explain(
                result, alpha=facts["alpha"], rng=facts["seed"], progress=progress
            )
        if context.params["report"] is not None:
            stage("writing the report")
            lost = f"{context.params['report']} was not written."
            _write_page(result, facts, context, explanation)
            page = context.params["report"]
    # The verdict stands, whatever becomes of the rest. It is shown first, then what went wrong.
    except (Exception, KeyboardInterrupt) as error:
        failure = error
    return Extras(explanation, page, failure, lost)


def show(
    result: TwoSampleResult, facts: Mapping[str, Any], extras: Extras, context: typer.Context
) -> None:
    """Write the verdict, and what else there is."""
    problem = too_few_shuffles(result, facts["alpha"])
    if problem is not None:
        warnings.warn(problem, UserWarning, stacklevel=1)
    if context.params["as_json"]:
        typer.echo(_as_json(result, facts, extras.explanation, extras.page, context))
    else:
        typer.echo(_as_text(result, facts, extras.explanation, extras.page, context))
    if extras.failure is not None:
        with sentences(*facts["files"], interrupted=extras.lost):
            raise extras.failure


def _write_page(
    result: TwoSampleResult,
    facts: Mapping[str, Any],
    context: typer.Context,
    explanation: Explanation | None,
) -> None:
    from .._show.report import write_report

    write_report(
        result,
        context.params["report"],
        alpha=facts["alpha"],
        explanation=explanation,
        facts={"Command": command_line(context, facts["seed"]), "Seed": facts["seed"]},
        rng=facts["seed"],
        progress=shows_progress(context.params["quiet"]),
    )


def _as_text(
    result: TwoSampleResult,
    facts: Mapping[str, Any],
    explanation: Explanation | None,
    page: str | None,
    context: typer.Context,
) -> str:
    lines = [_verdict(result, facts["alpha"])]
    verbose = context.params["verbose"]
    if not context.params["quiet"]:
        lines.append(details(result, facts, effect_lines(result, facts["alpha"]), verbose=verbose))
        if verbose:
            lines.append(fact_lines({"repeat": command_line(context, facts["seed"])}))
        if page is not None:
            lines.append(fact_lines({"report": page}))
    if explanation is not None:
        lines += ["", str(explanation)]
    return "\n".join(lines)


def _as_json(
    result: TwoSampleResult,
    facts: Mapping[str, Any],
    explanation: Explanation | None,
    page: str | None,
    context: typer.Context,
) -> str:
    verdict = {
        **facts,
        "reject": result.reject(facts["alpha"]),
        "pvalue": result.pvalue,
        "statistic": result.statistic,
    }
    # Twice: the verdict stands first, and what the result says of the same names does not count.
    record = verdict | result.to_dict(facts["alpha"]) | verdict
    if explanation is not None:
        record["explanation"] = explanation.to_dict()
    if page is not None:
        record["report"] = page
    record["command"] = command_line(context, facts["seed"])
    return json_text(str(context.info_name), record)


def case_of(result: TwoSampleResult, facts: Mapping[str, Any]) -> Case:
    """The verdict for a JUnit file."""
    first, second = result.names
    alpha = facts["alpha"]
    outcome = outcome_of(result.decide(alpha).verdict)
    name = f"{second} against {first}"
    return Case(name, outcome, _verdict(result, alpha), details(result, facts))


def _verdict(result: TwoSampleResult, alpha: float) -> str:
    from .._result import format_pvalue

    pvalue = format_pvalue(result.pvalue, alpha)
    if result.tolerance is not None:
        return f"{result.decide(alpha).sentence()} p = {pvalue}."
    if result.reject(alpha):
        return f"The samples differ: p = {pvalue}, at most alpha = {alpha:g}."
    return f"No difference found: p = {pvalue}, above alpha = {alpha:g}."


def details(
    result: TwoSampleResult,
    facts: Mapping[str, Any],
    more: Mapping[str, str] | None = None,
    *,
    verbose: bool = False,
) -> str:
    """Where the samples come from and how they were tested, a line each."""
    learned = ""
    if result.train_sizes is not None:
        learned = f"learned on {both(result.train_sizes)} rows, "
    lines = sources(facts)
    lines["method"] = f"{facts['method']}, {learned}tested on {both(result.sizes)}"
    if result.chosen is not None:
        lines["chosen"] = result.chosen
    if result.design is not None:
        lines["design"] = result.design
    against = result.calibration if verbose else result._against
    lines["statistic"] = f"{result.statistic:.4g}, against {against}"
    lines |= more or {}
    lines["seed"] = facts["seed"]
    return fact_lines(lines)


def sources(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Where the samples come from, and the test if it comes from a file."""
    lines: dict[str, Any] = {}
    if "kernel" in facts:
        lines["kernel"] = f"{facts['kernel']}, saved {facts['provenance'].get('saved')}"
    samples = zip(facts["files"], facts["rows"], facts["dropped"], strict=True)
    for name, (file, rows, dropped) in zip(("samples", ""), samples, strict=True):
        lines[name] = f"{file}, {rows} rows"
        if dropped:
            lines[name] += f", {dropped} of them left out for missing values"
    return lines


def both(sizes: tuple[int, int] | list[int]) -> str:
    """Two counts as text."""
    return f"{sizes[0]} + {sizes[1]}"


def too_few_shuffles(result: TwoSampleResult, alpha: float) -> str | None:
    """What to do if there are so few shuffles that no p-value can reach `alpha`."""
    count = len(result.null_distribution)
    # Of two parts that share the level, the one with more of it reaches the smallest p-value.
    share = max(result.share, 1 - result.share)
    smallest = 1 / ((count + 1) * share)
    if count == 0 or smallest <= alpha:  # there are none where a law takes their place
        return None
    problem = (
        f"with {count} shuffles p is at least {smallest:.2g}, so nothing can be found at "
        f"alpha = {alpha:g}"
    )
    if alpha < 1e-7:
        return f"{problem}; choose a larger one."
    needed = math.ceil(1 / (alpha * share)) - 1
    return f"{problem}; use --permutations {needed} or more, or larger samples."
