"""The commands `twosample fit` and `twosample apply`: a test in two steps, with a file between."""

from __future__ import annotations

import dataclasses
import functools
from typing import Annotated

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
from .junit import junit_file
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
    Verbose,
    bar_for,
    check_between,
    check_words,
    checked_repeats,
    fact_lines,
    json_text,
    read_in_parts,
    seed_or_new,
    shows_progress,
)
from .test import both, case_of, extras_of, run_on_files, show, sources


def fit(
    a: A,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where to keep it, such as kernel.safetensors."
        ),
    ],
    b: B = None,
    method: Method = "auto",
    permutations: Permutations = None,
    seed: Seed = None,
    device: Device = "auto",
    as_json: AsJson = False,
    quiet: Quiet = False,
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
    stream: InParts = False,
) -> None:
    """Learn a test from two samples and keep it in a file.

    Learns from all rows what tells the samples apart. 'twosample apply' then tests other rows with
    it, as often as you like, without learning again. Rows that were learned from must not be
    tested: they would seem to differ more than others do.

    Of the default method the file holds the views: which columns, pairs and landmarks it looks at.
    They are learned without labels; the network that may follow in 'twosample test' is not kept.

    What --columns, --drop, --type and --missing say is kept in the file, and 'twosample apply'
    treats other rows alike. The file is in the safetensors format, which runs no code when it is
    read.

    \b
    Examples:
      twosample fit last_year.csv this_year.csv -o kernel.safetensors
      twosample fit real.npy generated.npy -o kernel.safetensors --seed 0
    """
    with sentences(a, b or a, interrupted=f"{output} was not written."):
        seed = seed_or_new(seed)
        progress = shows_progress(quiet)

        from .._api import resolve
        from .._design import design_from
        from .._files.inputs import open_pair
        from .._files.opening import name_of
        from .._progress import one_bar, stage
        from .._saving.saving import writable

        writable(output)  # an error later would lose all that was learned
        columns = columns_from(keep, drop, types, missing)
        read_options = read_options_from(
            columns,
            layout_from(separator, decimal, encoding, no_header, sheet),
            resize=resize,
            stream=True if stream else None,
            progress=progress,
            unlimited=no_limit,
        )
        design = design_from(**design_options(groups, blocks, strata, pairs))
        test = resolve(method, permutations=permutations, design=design)
        with one_bar({"reading": 1.0, "learning": 6.0}, progress):
            stage("reading")
            X, Y = open_pair(a, b, by, read_options)
            stage("learning")
            fitted = test.fit(
                X,
                Y,
                rng=seed,
                device=device,
                progress=progress,
                columns=columns,
                weights=weights,
            )
        facts = {
            "files": [name_of(X), name_of(Y)],
            "rows": [len(X), len(Y)],
            "method": test.name,
            "seed": seed,
        }
        fitted.save(output, notes=facts)
        facts["dropped"] = list(fitted.dropped)

        log = fitted.training
        if as_json:
            record = facts | {
                "output": output,
                "train_sizes": fitted.train_sizes,
                "training": None if log is None else dataclasses.asdict(log) | {"steps": log.steps},
            }
            typer.echo(json_text("fit", record))
            return
        rows = fitted.train_sizes or (len(X), len(Y))
        typer.echo(f"{output} holds {test.name}, fitted on {both(rows)} rows.")
        if not quiet:
            lines = sources(facts)
            if log is not None:
                lines["training"] = f"{log.stopped}, in {log.seconds:.1f} seconds"
            lines["seed"] = seed
            typer.echo(fact_lines(lines))


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
    verbose: Verbose = False,
    explain: Explain = False,
    report: Report = None,
    junit: Junit = None,
    by: By = None,
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
    stream: InParts = False,
    fail_on_reject: FailOnReject = False,
    repeats: Repeated = "once",
    strict: Strict = False,
) -> None:
    """Test whether two samples differ, with a test from a file.

    The test is one that 'twosample fit' has learned from other rows: all rows of A and B are
    tested, and none is learned from. The columns must be those that it was fitted on, and what was
    said of them then holds here: there are no options for columns and missing values. Without
    --groups, --blocks, --strata and --pairs those of the fit hold, too; --weights are those of the
    rows at hand.

    The exit status is 0 when there is a verdict, whatever it is, and 2 when there is none, or when
    the explanation or the report could not be made.

    \b
    Examples:
      twosample apply kernel.safetensors monday.csv tuesday.csv
      twosample apply kernel.safetensors real.npy generated.npy --seed 0 --json
    """
    with (
        sentences(a, b or a) as saying,
        junit_file(junit, "apply", f"{b or a} against {a}") as cases,
    ):
        check_words(quiet, verbose)
        check_between("--alpha", alpha, 0.05)
        in_parts = read_in_parts(stream, explain, report)
        progress = shows_progress(quiet)

        from .._api import resolve
        from .._saving.saving import read

        fitted, provenance = read(kernel, device=device)
        fitted = dataclasses.replace(fitted, spec=resolve(fitted.spec, permutations=permutations))
        read_options = read_options_from(
            fitted.schema.rules,
            layout_from(separator, decimal, encoding, no_header, sheet),
            resize=resize,
            stream=in_parts,
            progress=progress,
            unlimited=no_limit,
        )
        with bar_for(quiet, explain, report):
            result, facts = run_on_files(
                a,
                b,
                by,
                read_options,
                functools.partial(
                    fitted.test,
                    progress=progress,
                    repeats=checked_repeats(repeats),
                    **design_options(groups, blocks, strata, pairs),
                    weights=weights,
                ),
                alpha=alpha,
                seed=seed,
                scheduler=scheduler,
            )
            facts = {"kernel": kernel, "provenance": provenance} | facts
            if junit is not None:
                cases.append(case_of(result, facts))
            extras = extras_of(result, facts, context)
        if not quiet:
            saying.findings(result.checks)
        show(result, facts, extras, context)
    if strict and result.checks.severe:
        raise typer.Exit(FAILED)
    if fail_on_reject and result.reject(alpha):
        raise typer.Exit(1)
