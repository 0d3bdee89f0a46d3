"""`check`: look at two samples before any test."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, get_args

from ..._data.columns import Columns
from ..._data.copies import Repeats
from ..._data.samples import Samples
from ..._data.streams import Pair, Stream, open_samples
from ..._data.survey import rules_of
from ..._findings import Finding, Findings, FindingWarning
from ..._resources import DEFAULT_MEMORY
from ..._two_sample import FittedTest
from ...errors import DependenceWarning, InputError, InputNote, warn
from .columns import LEFT_OUT, column_findings, identifier_findings, test_leaves_out
from .dependence import KIND, dependence
from .looks import Look, look_at
from .rows import ALL_ROWS, RowsToUse, judge_rows, refuse_if_asked, seen_in_fit

_MOST_LEVELS = 50  # of a category; a column with more may be text, which is not tested


def check(X: Any, Y: Any, *, columns: Columns | None = None) -> Findings:
    """Look at two samples before any test, as a reader of the two tables would.

    Parameters
    ----------
    X, Y
        The samples: anything that `two_sample_test` takes. What it would refuse, such as columns of
        one sample only, is found here rather than raised. Streams are gone through once, in bounded
        memory.
    columns
        Which columns to look at, and as what. Those that are left out are not looked at.

    Returns
    -------
    Findings
        A tuple of `Finding`, the worst first, which prints well; empty where nothing is odd.
        On samples that do not differ a false one is rare: each kind that rests on a test has a
        chance of 0.005 for the whole table, however many columns that has.

    Examples
    --------
    >>> import pandas as pd, twosample
    >>> X = pd.DataFrame({"id": range(100), "age": [30, 40, 50, 60, 70] * 20})
    >>> Y = pd.DataFrame({"id": range(100, 200), "age": [30, 40, 50, 9999, 70] * 20})
    >>> for finding in twosample.check(X, Y):
    ...     print(finding.severity, finding.kind, finding.column)
    severe identifier id
    warning sentinel age
    """
    rules = rules_of(None, columns)
    with open_samples(X, Y, DEFAULT_MEMORY) as pair:
        x, y = _looks(pair, rules)
        findings, _, _ = _found(x, y, pair, rules, "once")
        return findings


@dataclass(frozen=True, eq=False)
class FirstLook:
    """What is odd about two samples, and what a test does about it.

    Attributes
    ----------
    findings
        What is odd.
    columns
        The rules of the user, and the columns that number, date or order the rows left out.
    rows
        Which rows a test may use, and whether X and Y hold the same ones.
    repeats
        What becomes of copies of rows.
    acted_on
        The findings that change what is tested.
    """

    findings: Findings
    columns: Columns
    rows: RowsToUse
    repeats: Repeats
    acted_on: Findings

    @property
    def identical(self) -> bool:
        """Whether X and Y hold the same rows, so that there is nothing to tell apart."""
        return self.rows.identical

    def known_from_fit(self, fitted: FittedTest, rows: Samples) -> FirstLook:
        """The same, with what is to be said if the rows are those that the test was fitted on."""
        finding = seen_in_fit(fitted, rows)
        if finding is None:
            return self
        if finding.severity == "severe":
            warn(finding.message, FindingWarning)
        return replace(self, findings=Findings([*self.findings, finding]))

    def settle(self) -> None:
        """Refuse copies of rows that may not be tested or cannot be left out; warn of the rest."""
        refuse_if_asked(self.rows, self.repeats)
        for finding in self.acted_on:
            warn(finding.message, FindingWarning if finding.severity == "severe" else InputNote)
        for finding in self.findings:
            if finding.kind == KIND:
                warn(finding.message, DependenceWarning)


def look_first(
    pair: Pair,
    rules: Columns,
    repeats: Repeats = "once",
    *,
    by_rows: bool = True,
    fitted: bool = False,
) -> FirstLook:
    """Look at both samples before a test.

    Copies of rows are left out of `pair`, if rows change places one by one (`by_rows`). A test that
    is `fitted` knows its columns.
    """
    if repeats not in get_args(Repeats):
        raise InputError(
            f"repeats is {repeats!r}; use one of {', '.join(map(repr, get_args(Repeats)))}."
        )
    x, y = _looks(pair, rules)
    findings, left_out, rows = _found(x, y, pair, rules, repeats)
    if not by_rows:
        about_rows = {KIND} if rows.identical or rows.finding is None else {KIND, rows.finding.kind}
        findings = Findings(one for one in findings if one.kind not in about_rows)
        rows = rows if rows.identical else ALL_ROWS
    if repeats != "allow" and rows.keep is not None:
        pair[0].keep, pair[1].keep = rows.keep
    if fitted:
        left_out = frozenset()
    if left_out:
        rules = replace(rules, drop=(*rules.drop, *sorted(left_out)))
    # What cannot be tested at all has an error of its own.
    acted_on = [one for one in findings if one.column in left_out and one.kind in LEFT_OUT]
    if rows.finding in findings.severe and (rows.identical or repeats != "allow"):
        acted_on += [one for one in findings.severe if one is rows.finding]
    return FirstLook(findings, rules, rows, repeats, Findings(acted_on))


def _looks(pair: Pair, rules: Columns) -> tuple[Look, Look]:
    if not pair[0].in_memory:
        x = look_at(pair[0], "X", rules)
        return x, look_at(pair[1], "Y", rules, key_columns=x.key_columns)
    # Most of the time is spent in NumPy and polars, which let other threads run.
    with ThreadPoolExecutor(1) as pool:
        of_y = pool.submit(look_at, pair[1], "Y", rules)
        x = look_at(pair[0], "X", rules)
        y = of_y.result()
    y.key_columns = x.key_columns
    return x, y


def _found(
    x: Look, y: Look, pair: Pair, rules: Columns, repeats: Repeats
) -> tuple[Findings, frozenset[str], RowsToUse]:
    """All findings, the columns that a test leaves out, and the rows that it uses."""
    identifiers = list(identifier_findings(x, y))
    left_out = test_leaves_out(identifiers, rules)
    left = [column for name, column in x.columns.items() if name not in left_out]
    if not any(column.different <= _MOST_LEVELS for column in left):
        left_out = frozenset()  # a test of nothing, or of free text, is none
    spoken_of = frozenset(one.column for one in identifiers if one.column is not None)
    # Polars sorts keys of rows for most of this time. Both only read: columns by what was counted,
    # rows by their keys.
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(lambda: list(column_findings(x, y, rules, spoken_of)))
        rows = judge_rows(x, y, _in_memory(pair), repeats)
        of_columns = work.result()
    found = [*_of_rows(rows), *identifiers, *_of_images(x, y)]
    if rows.finding is None or rows.keep is not None:  # else copies are why rows are alike
        found += filter(None, [dependence(x, y, left_out, rows.keep)])
    return Findings([*found, *of_columns]), left_out, rows


def _in_memory(pair: Pair) -> tuple[object, object] | None:
    def held_by(stream: Stream) -> object:
        return next(iter(stream))

    if pair[0].in_memory and pair[1].in_memory:
        return held_by(pair[0]), held_by(pair[1])
    return None


def _of_rows(rows: RowsToUse) -> Iterator[Finding]:
    if rows.finding is not None:
        yield rows.finding


def _of_images(x: Look, y: Look) -> Iterator[Finding]:
    if (x.shape is None) != (y.shape is None):
        images, table = (x, y) if y.shape is None else (y, x)
        yield Finding(
            f"{images.name} holds images but {table.name} is a table; give two samples of the same "
            "form.",
            "severe",
            None,
            "type",
        )
    elif x.shape != y.shape:
        yield Finding(
            f"The images of {x.name} are {x.shape}, those of {y.name} are {y.shape}; bring all to "
            "one size.",
            "severe",
            None,
            "type",
        )
