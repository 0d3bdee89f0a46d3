"""The command `twosample check A B`: what is odd about two samples, before any test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from .console import FAILED, sentences
from .files import (
    By,
    Decimal,
    Drop,
    Encoding,
    Keep,
    Missing,
    NoHeader,
    NoLimit,
    Resize,
    Separator,
    Sheet,
    Types,
    columns_from,
    layout_from,
    read_options_from,
)
from .shared import A, AsJson, B, InParts, Quiet, Strict, json_text, shows_progress

if TYPE_CHECKING:
    from .._findings import Findings


def run(
    a: A,
    b: B = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    strict: Strict = False,
    by: By = None,
    keep: Keep = None,
    drop: Drop = None,
    types: Types = None,
    missing: Missing = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    no_header: NoHeader = False,
    sheet: Sheet = None,
    resize: Resize = None,
    no_limit: NoLimit = False,
    stream: InParts = False,
) -> None:
    """Look at two samples before testing them.

    Says what a reader of both files would stumble over: the same rows in both, rows that repeat,
    columns or levels of one sample only, types that differ, values that are missing more often in
    one, codes such as 9999, other units, identifiers, dates that order the rows. 'twosample test'
    says the same at its top.

    The exit status is 0, whatever is found, and 2 if the files cannot be read; with --strict also
    if something severe is found.

    \b
    Examples:
      twosample check reference.csv today.csv
      twosample check reference.csv today.csv --strict --json
    """
    with sentences(a, b or a):
        from .._files.inputs import open_pair
        from .._files.opening import name_of
        from .._insight.checks.checking import check

        columns = columns_from(keep, drop, types, missing)
        read_options = read_options_from(
            columns,
            layout_from(separator, decimal, encoding, no_header, sheet),
            resize=resize,
            stream=True if stream else None,
            progress=shows_progress(quiet),
            unlimited=no_limit,
        )
        X, Y = open_pair(a, b, by, read_options)
        findings = check(X, Y, columns=columns)
        facts = {"files": [name_of(X), name_of(Y)], "rows": [len(X), len(Y)]}
        typer.echo(_as_json(findings, facts) if as_json else _as_text(findings, facts, quiet))
    if strict and findings.severe:
        raise typer.Exit(FAILED)


def _as_json(findings: Findings, facts: Mapping[str, Any]) -> str:
    return json_text("check", {**facts, "checks": findings.to_dict()})


def _as_text(findings: Findings, facts: Mapping[str, Any], quiet: bool) -> str:
    if quiet:
        return summary(findings)
    samples = zip(facts["files"], facts["rows"], strict=True)
    looked_at = " and ".join(f"{file} ({rows} rows)" for file, rows in samples)
    return "\n".join([f"{summary(findings)} Looked at {looked_at}.", *map(str, findings)])


def summary(findings: Findings) -> str:
    """How many findings there are, in a sentence."""
    if not findings:
        return "Nothing odd was found."
    counts = []
    for severity, plural in (("severe", "severe"), ("warning", "warnings"), ("note", "notes")):
        number = sum(one.severity == severity for one in findings)
        if number:
            counts.append(f"{number} {severity if number == 1 else plural}")
    return f"Found: {', '.join(counts)}."
