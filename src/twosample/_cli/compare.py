"""The command `twosample compare REF A B C ...`: one reference, many samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._files.handles import without_password
from ..errors import InputError
from .console import FAILED, sentences
from .files import (
    Blocks,
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
from .interrupts import ending
from .junit import Case, Outcome, junit_file, outcome_of
from .shared import (
    Alpha,
    AsJson,
    Device,
    FailOnReject,
    InParts,
    Junit,
    Method,
    Permutations,
    Quiet,
    Report,
    Scheduler,
    Seed,
    TrainFraction,
    bar_for,
    command_line,
    fact_lines,
    json_text,
    read_in_parts,
    seed_or_new,
    shows_progress,
)
from .tolerance import ExitByVerdict, Tolerance, status_of, tolerance_from

if TYPE_CHECKING:
    from .._files.opening import ReadOptions
    from .._insight.comparing import Comparison

Reference = Annotated[
    str, typer.Argument(metavar="REF", help="The file with the reference; each row is a point.")
]
Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="A B C ...",
        help="The files with the samples to compare with it; none if --by finds them in REF.",
        show_default=False,
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN=VALUE",
        help="Take all samples from REF: the column that says which row is whose, and its value in "
        "the reference.",
    ),
]
Correction = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="How p-values are corrected for the number of samples: holm (any false finding), bh "
        "or by (the share of false findings; by whatever the dependence), none.",
    ),
]


def run(
    context: typer.Context,
    reference: Reference,
    files: Files = None,
    method: Method = "auto",
    correction: Correction = "holm",
    alpha: Alpha = 0.05,
    permutations: Permutations = None,
    train_fraction: TrainFraction = None,
    seed: Seed = None,
    device: Device = "auto",
    scheduler: Scheduler = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    report: Report = None,
    junit: Junit = None,
    by: Group = None,
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
    fail_on_reject: FailOnReject = False,
    tolerance: Tolerance = None,
    exit_by_verdict: ExitByVerdict = False,
) -> None:
    """Test which of many samples differ from a reference.

    Each file is tested against REF as 'twosample test' would, with a seed of its own that only
    --seed and the name of the file decide; then p-values are corrected for the number of files. The
    files are of the kinds that 'twosample test' reads, and they are read one at a time.

    The exit status is 0 when there is a verdict on every file, whatever it is, and 2 when there is
    not. An interrupt (Ctrl-C) shows the files that are done, and ends with 130.

    \b
    Examples:
      twosample compare reference.csv monday.csv tuesday.csv wednesday.csv
      twosample compare reference.csv days/*.csv --correction bh --quiet
      twosample compare reference.csv days/*.csv --report week.html --drop id
      twosample compare year.parquet --by month=january --missing drop
    """
    with sentences(), junit_file(junit, "compare", reference) as cases:
        seed = seed_or_new(seed)
        progress = shows_progress(quiet)
        read_options = read_options_from(
            columns_from(keep, drop, types, missing),
            layout_from(separator, decimal, encoding, no_header, sheet),
            resize=resize,
            unlimited=no_limit,
            stream=read_in_parts(stream, False, report),
            progress=progress,
        )
        with bar_for(quiet, False, None):
            comparison, reference = _compared(
                reference,
                files or [],
                by,
                read_options,
                scheduler,
                method=method,
                correction=correction,
                alpha=alpha,
                permutations=permutations,
                train_fraction=train_fraction,
                rng=seed,
                device=device,
                progress=progress,
                **design_options(groups, blocks, strata, pairs),
                weights=weights,
                tolerance=tolerance_from(tolerance),
            )
        facts: dict[str, Any] = {"reference": reference, "seed": seed}
        if report is not None:
            facts["report"] = report
        cases += _cases(comparison, reference)
        if as_json:
            record = {**facts, **comparison.to_dict(), "command": command_line(context, seed)}
            typer.echo(json_text("compare", record))
        else:
            typer.echo(_as_text(comparison, facts, quiet))
    # The verdicts are there by now, whatever becomes of the page.
    if report is not None:
        with sentences(interrupted=f"{report} was not written."):
            from .._show.comparison import write_comparison_report

            write_comparison_report(
                comparison,
                report,
                reference=reference,
                facts={"Command": command_line(context, seed), "Seed": seed},
                rng=seed,
                progress=progress,
            )
    if comparison.unfinished:
        finished = len(comparison)
        count = len(comparison.names)
        word, status = ending()
        typer.echo(f"{word}: {finished} of {count} samples have been compared.", err=True)
        raise typer.Exit(status)
    if comparison.failures:
        raise typer.Exit(FAILED)
    if fail_on_reject or exit_by_verdict:
        status = status_of(*comparison.verdicts.values(), undecided=exit_by_verdict)
        if status:
            raise typer.Exit(status)


def _compared(
    reference: str,
    files: list[str],
    by: str | None,
    read_options: ReadOptions,
    scheduler: str | None,
    **options: Any,
) -> tuple[Comparison, str]:
    """What `compare` gives, and the name of the reference.

    After an interrupt the comparison is that of the samples that were finished, if there are any.
    """
    from .._cluster import connected
    from .._files.opening import name_of
    from .._insight.comparing import ComparisonInterrupted, compare
    from .._progress import stage

    with nullcontext() if scheduler is None else connected(scheduler) as client:
        stage("reading")
        X, samples = _opened(reference, files, by, read_options)
        stage("testing")
        try:
            comparison = compare(X, samples, client=client, columns=read_options.rules, **options)
        except ComparisonInterrupted as interrupted:
            if not interrupted.comparison:
                raise
            comparison = interrupted.comparison
        return comparison, name_of(X)


def _opened(
    reference: str, files: list[str], by: str | None, read_options: ReadOptions
) -> tuple[Any, Mapping[str, Any]]:
    """The reference, and the samples by their names."""
    from .._files.inputs import open_groups
    from .._files.opening import open_file

    if by is not None:
        if files:
            raise InputError(
                f"--by {by} takes all samples from {reference}; leave out {files[0]}, or --by."
            )
        return open_groups(reference, by, read_options)
    if not files:
        raise InputError(
            f"there is nothing to compare {reference} with; give more files, or say which column "
            "tells samples apart: --by COLUMN=VALUE."
        )
    return open_file(reference, read_options), _Files(files, read_options)


class _Files(Mapping[str, Any]):
    """The samples by the names of their files; each is read when it is asked for."""

    def __init__(self, files: list[str], read_options: ReadOptions) -> None:
        for file in files:
            if files.count(file) > 1:
                raise InputError(f"{file} is given more than once; leave out one of them.")
        self._files = {without_password(file): file for file in files}
        self._read_options = read_options

    def __getitem__(self, file: str) -> Any:
        from .._files.opening import open_file

        return open_file(self._files[file], self._read_options)

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def _cases(comparison: Comparison, reference: str) -> list[Case]:
    """The verdicts for a JUnit file, one for each sample that was to be compared."""
    from .._result import format_pvalue

    verdicts = comparison.verdicts
    cases = []
    for name in comparison.names:
        outcome: Outcome = "skipped"
        sentence = "It was not reached before an interrupt."
        if name in comparison:
            p = format_pvalue(comparison.adjusted[name])
            outcome = outcome_of(verdicts[name])
            word = verdicts[name].capitalize()
            sentence = f"{word}: p = {p} after the correction, against {reference}."
        elif name in comparison.failures:
            outcome = "error"
            sentence = comparison.failures[name]
        cases.append(Case(name, outcome, sentence))
    return cases


def _as_text(comparison: Comparison, facts: Mapping[str, Any], quiet: bool) -> str:
    from .._insight.corrections import CORRECTIONS
    from .._insight.text_tables import aligned

    sentence = comparison.sentence(reference=facts["reference"])
    if comparison.differing:
        sentence += f": {', '.join(comparison.differing)}"
    sentence += "."
    if quiet:
        return sentence
    count = len(comparison.names)
    samples = "1 sample" if count == 1 else f"{count} samples"
    methods = dict.fromkeys(result.method for result in comparison.values())
    lines = {
        "reference": facts["reference"],
        "p-values": f"{CORRECTIONS[comparison.correction].name} for {samples}",
        "alpha": f"{comparison.alpha:g}",
        "method": ", ".join(methods),
        "seed": facts["seed"],
    }
    if "report" in facts:
        lines["report"] = facts["report"]
    notes = [f"- {note}" for note in comparison.notes]
    return "\n".join([sentence, "", *aligned(comparison.cells()), "", fact_lines(lines), *notes])
