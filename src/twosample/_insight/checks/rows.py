"""Rows that come more than once, in one sample or in both, and what a test does about them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..._data.copies import Counted, Repeats, Verdict, judge, rows_to_use
from ..._data.fingerprint import point_keys
from ..._data.row_keys import are_for_polars, in_order
from ..._data.samples import Samples
from ..._findings import Finding, Severity
from ..._two_sample import FittedTest
from ...errors import InputError
from .looks import Look
from .parts import Numbers, part_of
from .words import asked, count

_MANY_PIXELS = 64  # images of so many that are equal are copies
_ENOUGH_DIFFERENT = 50  # rows: values of fewer may be all different by chance
_TELLING = 3  # columns by which most rows differ, if they differ at all
_SOME = 3  # rows that come again; one or two may be chance
_PART = 0.01  # of all rows
_MANY_DIFFERENT = 0.5  # of the rows: samples with fewer different ones may be equal by chance


@dataclass(frozen=True, eq=False)
class RowsToUse:
    """Which rows a test may use, and whether it has anything to tell apart.

    Attributes
    ----------
    keep
        For each row of X and of Y whether it is tested; None for all.
    identical
        Whether X and Y hold the same rows.
    finding
        What to say about it; None where there is nothing to say.
    """

    keep: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None
    identical: bool = False
    finding: Finding | None = None


ALL_ROWS = RowsToUse()


def judge_rows(x: Look, y: Look, data: tuple[object, object] | None, repeats: Repeats) -> RowsToUse:
    """What the rows that come more than once are, and which rows to test then.

    `data` are the samples, where they are in memory.
    """
    if x.key_columns != y.key_columns or not _may_repeat(x, y):
        return ALL_ROWS
    if x.keys is None or y.keys is None:
        return ALL_ROWS
    counted = x.keys.counted(y.keys)
    if x.keys.same(y.keys):
        return RowsToUse(identical=True, finding=_same_rows(x, y, counted, (1, 1)))
    if not len(counted.repeated):
        return ALL_ROWS
    verdict = judge(counted, lambda: data is not None and _tell_tale(x, data, counted))
    if verdict.why == "independent":
        return ALL_ROWS
    if verdict.why == "identical":
        return RowsToUse(identical=True, finding=_same_rows(x, y, counted, verdict.times))
    complete = x.keys.complete and y.keys.complete and data is not None
    keep = None
    if complete and verdict.why != "unclear":
        keep_x = rows_to_use(x.keys.all(), counted.repeated, verdict.use_x)
        keep_y = rows_to_use(y.keys.all(), counted.repeated, verdict.use_y)
        keep = (keep_x, keep_y)
    return RowsToUse(keep, finding=_copied(x, y, counted, verdict, keep, repeats))


def _may_repeat(x: Look, y: Look) -> bool:
    """Whether rows may come more than once: not if a few of their columns are never all equal.

    So most samples in memory need no keys of all columns.
    """
    names = x.telling_columns(_TELLING)
    by_polars = are_for_polars(x.rows + y.rows)
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(y.keys_by, names, by_polars=by_polars)
        of_x = x.keys_by(names, by_polars=by_polars)
        of_y = work.result()
    if of_x is None or of_y is None:
        return True
    pooled = in_order(np.concatenate([of_x, of_y]))
    return bool((pooled[1:] == pooled[:-1]).any())


def _tell_tale(x: Look, data: tuple[object, object], counted: Counted) -> bool:
    """Whether a column has equal values nearly only in rows that are equal as a whole."""
    if x.shape is not None:
        return int(np.prod(x.shape)) >= _MANY_PIXELS
    parts = [part_of(each, "") for each in data]
    columns_x, columns_y = (part.columns or {} for part in parts)
    names = x.key_columns or ()
    if len(names) < 2:
        return False  # a column that is all there is has no rows to be compared with
    rows = parts[0].rows + parts[1].rows
    different = sum(counted.singles) + len(counted.repeated)
    if different < _ENOUGH_DIFFERENT:
        return False
    again = rows - different
    for name in names:
        of_x = columns_x[name]
        of_y = columns_y[name]
        if isinstance(of_x, Numbers) and isinstance(of_y, Numbers):
            pooled = np.concatenate([of_x.values, of_y.values])
            present = pooled[~np.isnan(pooled)]  # gaps are equal to each other by no copying
            values = len(np.unique(present))
            ties = len(present) - values
            # Nearly every row has a value of its own, which no others but its copies share.
            if values >= 0.9 * different and 0.8 * again <= ties <= 1.25 * again:
                return True
    return False


def _same_rows(x: Look, y: Look, counted: Counted, times: tuple[int, int]) -> Finding:
    different = counted.different[0]
    rows = max(x.rows, y.rows)
    what = "the same rows" if x.shape is None else "the same images"
    if times != (1, 1) or x.rows != y.rows:
        what += ", but not as often"
    # Small samples of few different rows may well be equal.
    severity: Severity = "note" if different < _MANY_DIFFERENT * rows else "severe"
    example = f"{count(x.rows, 'row')} and {count(y.rows, 'row')}, {different} of them different"
    return Finding(
        f"{x.name} and {y.name} hold {what} ({example}), so there is nothing to tell apart, and a "
        "test gives p = 1; was the same file given twice?",
        severity,
        None,
        "identical samples",
    )


def _copied(
    x: Look,
    y: Look,
    counted: Counted,
    verdict: Verdict,
    keep: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None,
    repeats: Repeats,
) -> Finding:
    found = _what_is_repeated(x, y, counted, verdict)
    advice = asks(x, "once"), asks(x, "allow")
    if repeats == "allow":
        done = f"A test counts each as a row of its own, as {advice[1]} asks, so p may be too small"
    elif keep is None:
        done = (
            "A test of copies would find differences that are not there. Remove them, or, if equal "
            f"rows are independent of each other, say {advice[1]}"
        )
    else:
        left = f"{int(keep[0].sum())} + {int(keep[1].sum())} rows"
        use = {
            "multiples": f"A test takes each row as often as it would be without them: {left}",
            "copies": f"A test takes each row once, and those of both samples not at all: {left}",
            "few": f"A test leaves all of them out: {left}",
        }.get(verdict.why, left)
        done = f"{use}. If equal rows are independent of each other, say {advice[1]}"
    severity: Severity = "warning" if verdict.why == "few" else "severe"
    kind = "shared rows" if counted.shared else "repeated rows"
    return Finding(f"{found}. {done}.", severity, None, kind)


def _what_is_repeated(x: Look, y: Look, counted: Counted, verdict: Verdict) -> str:
    texts = []
    for look, times in ((x, verdict.times[0]), (y, verdict.times[1])):
        if times > 1:
            texts.append(f"every row of {look.name} comes {times} times, or a multiple of that")
    sizes = ((x, counted.in_x), (y, counted.in_y))
    for (look, often), times in zip(sizes, verdict.times, strict=True):
        again = often[often > 1]
        if times == 1 and len(again):
            texts.append(
                f"{count(len(again), 'row')} of {look.name} {_come(len(again))} more than once, "
                f"up to {int(again.max())} times"
            )
    if counted.shared:
        texts.append(
            f"{count(counted.shared, 'different row')} "
            f"{'is' if counted.shared == 1 else 'are'} in both {x.name} and {y.name}"
        )
    joined = "; ".join(texts)
    part = "" if x.keys is not None and x.keys.complete else " (among those that were looked at)"
    return f"{joined[0].upper()}{joined[1:]}{part}, and independent rows do not repeat like that"


def _come(number: int) -> str:
    return "comes" if number == 1 else "come"


def asks(look: Look, value: Repeats) -> str:
    """How the user says what becomes of copies."""
    return asked("repeats", value, look.source is not None)


def seen_in_fit(fitted: FittedTest, rows: Samples) -> Finding | None:
    """What to say if these are rows that a test was fitted on."""
    fingerprint = fitted.fingerprint
    if fingerprint is None or fingerprint.repetitive:
        return None
    keys = np.concatenate([point_keys(rows.x), point_keys(rows.y)])
    known, comparable = fingerprint.known(keys)
    if known < _SOME or known < _PART * comparable:
        return None
    if fitted.train_sizes is None:
        message = "That does no harm here, since this test has learned nothing from labels."
        severity: Severity = "note"
    else:
        message = (
            "What it has learned from them makes p too small: test other rows, or let "
            "two_sample_test ('twosample test') split them."
        )
        severity = "severe"
    about = "" if len(fingerprint.keys) == fingerprint.different else "About "
    percent = f"{100 * known / comparable:.3g}"
    return Finding(
        f"{about}{percent} % of these rows are among those that the test was fitted on. {message}",
        severity,
        None,
        "rows of the fit",
    )


def refuse_if_asked(rows: RowsToUse, repeats: Repeats) -> None:
    """Raise where copies may not be tested, or the rows without them cannot be found."""
    if rows.finding is None or rows.identical or repeats == "allow":
        return
    if repeats == "refuse" or rows.keep is None:
        raise InputError(rows.finding.message)
    if min(int(keep.sum()) for keep in rows.keep) < 2:
        raise InputError(
            f"{rows.finding.message} That is too few; compare samples that have rows of their own."
        )
