"""What the columns of two samples tell: names, types, gaps, ranges, codes, units, identifiers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..._data.columns import Columns
from ..._data.extremes import CODES
from ..._findings import Finding, Severity
from .chance import all_in_one, equal_shares
from .levels import level_findings, likeness
from .looks import ColumnLook, Look
from .words import count, date_or_number, number, quoted, share

CHANCE = 0.005
"""The chance that a table of samples that do not differ gets a finding of some kind."""

LEFT_OUT = ("identifier", "date", "order")
"""Kinds of findings about columns that a test leaves out."""

_INDEX = ("Unnamed: 0", "index")  # what pandas calls a column that was the index of a table
_HOMES = 10  # columns that are looked at as the home of strange values, of those that come into it
# Not 1024: samples of usual size cannot tell it from 1000.
_FACTORS = {
    **{10.0**power: f"a factor of {10**power:,}".replace(",", " ") for power in (1, 2, 3, 4, 6, 9)},
    60.0: "a factor of 60 (minutes and hours?)",
    3600.0: "a factor of 3600 (seconds and hours?)",
    86_400.0: "a factor of 86400 (seconds and days?)",
    2.54: "a factor of 2.54 (inches and centimetres?)",
    25.4: "a factor of 25.4 (inches and millimetres?)",
    1.609344: "a factor of 1.609 (miles and kilometres?)",
    1 / 0.45359237: "a factor of 2.205 (kilograms and pounds?)",
    1 / 0.3048: "a factor of 3.281 (metres and feet?)",
}
_NEAR = 0.1  # the largest difference of two distribution functions that are one in other units
_STILL_NEAR = 0.2  # that of small samples
_FAR = 0.3  # and the smallest of what they are before


def column_findings(
    x: Look, y: Look, rules: Columns, left_out: frozenset[str]
) -> Iterator[Finding]:
    """All that the columns tell; those that are `left_out` have been spoken of already."""
    yield from _one_sample_only(x, y)
    common = [name for name in x.columns if name in y.columns and name not in left_out]
    chance = CHANCE / max(1, len(common))
    homes = {x.name: _Homes(x, y), y.name: _Homes(y, x)}
    for name in common:
        of_x = x.columns[name]
        of_y = y.columns[name]
        types = _types(name, x, y)
        if types is not None:
            yield types
            continue
        missing = _missing(name, x, y, chance)
        if missing is not None:
            yield missing
        if of_x.textual and of_y.textual:
            if rules.kind_of(name) != "number":
                yield from _text(name, x, y, chance)
        elif of_x.numeric and of_y.numeric and rules.kind_of(name) != "category":
            yield from _numbers(name, x, y, chance, homes)


# Names and types


def _one_sample_only(x: Look, y: Look) -> Iterator[Finding]:
    only_x = [name for name in x.columns if name not in y.columns]
    only_y = [name for name in y.columns if name not in x.columns]
    if not x.named and not y.named and (only_x or only_y):
        widths = f"{count(len(x.columns), 'column')} and {y.name} {len(y.columns)}"
        message = f"{x.name} has {widths}; give both the same."
        yield Finding(message, "severe", None, "columns")
        return
    for name in only_x:
        guess = max(only_y, key=lambda other: likeness(name, other), default=None)
        if guess is not None and likeness(name, guess) >= 0.6:
            only_y.remove(guess)
            yield Finding(
                f"Column {quoted(name)} is only in {x.name}, {quoted(guess)} only in {y.name}: "
                "renamed? Give both one name, or leave both out.",
                "severe",
                name,
                "column in one sample",
            )
        else:
            yield _missing_column(name, x, y)
    for name in only_y:
        yield _missing_column(name, y, x)


def _missing_column(name: str, here: Look, there: Look) -> Finding:
    if name in _INDEX and here.numbers_rows(name):
        return Finding(
            f"Column {quoted(name)} is only in {here.name}, and numbers its rows, as the index of "
            "a table does that pandas has written; a test leaves it out, and "
            f"{leave_out(here, name)} says so.",
            "note",
            name,
            "column in one sample",
        )
    return Finding(
        f"Column {quoted(name)} is only in {here.name}, not in {there.name}; add it there, or "
        f"leave it out with {leave_out(here, name)}.",
        "severe",
        name,
        "column in one sample",
    )


def leave_out(look: Look, name: str) -> str:
    """How the user leaves out a column."""
    if look.source is None:
        return f"Columns(drop=[{name!r}])"
    return f"--drop {name}" if name.isidentifier() else f"--drop '{name}'"


def _types(name: str, x: Look, y: Look) -> Finding | None:
    of_x = x.columns[name]
    of_y = y.columns[name]
    if of_x.holds == of_y.holds or not of_x.holds or not of_y.holds:
        return None
    harmless = of_x.holds | of_y.holds <= {"numbers", "true and false"}
    done = "they are compared as numbers" if harmless else "convert one of them"
    severity: Severity = "note" if harmless else "severe"
    return Finding(
        f"{name} holds {_kinds(of_x)} in {x.name}, such as {_example(name, x)}, but {_kinds(of_y)} "
        f"in {y.name}, such as {_example(name, y)}; {done}.",
        severity,
        name,
        "type",
    )


def _kinds(column: ColumnLook) -> str:
    return " and ".join(sorted(column.holds)) or "nothing"


def _example(name: str, look: Look) -> str:
    column = look.columns[name]
    if column.levels:
        # Of text that should be numbers, what is none is the better example.
        words = [label for label, _ in column.levels.most_common(1000) if not _is_number(label)]
        return quoted(words[0] if words else column.levels.most_common(1)[0][0])
    some_values = look.some(name)
    value = some_values[0] if len(some_values) else column.low
    return date_or_number(float(value), is_date="dates" in column.holds)


def _is_number(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True


# Gaps


def _missing(name: str, x: Look, y: Look, chance: float) -> Finding | None:
    of_x = x.columns[name]
    of_y = y.columns[name]
    first = (of_x.missing, of_x.rows)
    second = (of_y.missing, of_y.rows)
    if equal_shares(first, second) >= chance:
        return None
    more, less = (x, y) if of_x.missing * of_y.rows > of_y.missing * of_x.rows else (y, x)
    shares = [share(look.columns[name].missing, look.rows) for look in (more, less)]
    return Finding(
        f"{name} is missing more often in {more.name}: {shares[0]}, against {shares[1]} in "
        f"{less.name}. Find out why; a test that keeps these rows counts it as a difference.",
        "warning",
        name,
        "missing values",
    )


# Text


def _text(name: str, x: Look, y: Look, chance: float) -> Iterator[Finding]:
    of_x = x.columns[name]
    of_y = y.columns[name]
    if min(of_x.present, of_y.present) >= 20 and of_x.all_different and of_y.all_different:
        example = quoted(next(iter(of_x.levels)))
        yield Finding(
            f"{name} is another text in every row, such as {example}: an identifier, or free text. "
            f"It can tell nothing; leave it out with {leave_out(x, name)}.",
            "warning",
            name,
            "identifier",
        )
        return
    constant = _constant(name, x, y, chance)
    if constant is not None:
        yield constant
        return
    yield from level_findings(name, x, y, chance)


def _constant(name: str, x: Look, y: Look, chance: float) -> Finding | None:
    """A column with one value in one sample and others in the other."""
    for here, there in ((x, y), (y, x)):
        column = here.columns[name]
        other = there.columns[name]
        if not column.present or not other.present:
            continue
        if column.textual:
            if len(column.levels) != 1:
                continue
            value = next(iter(column.levels))
            differ = other.present - other.levels.get(value, 0)
            shown = quoted(value)
        else:
            if column.low != column.high:
                continue
            values = there.some(name)
            # Of very many rows some were kept, and they are as good as all to tell it.
            differ = int((values != column.low).sum())
            shown = date_or_number(column.low, is_date="dates" in column.holds)
        size = other.present if column.textual else len(there.some(name))
        if differ and all_in_one(differ, size, column.present) < chance:
            return Finding(
                f"{name} is {shown} in every row of {here.name}, but other values make up "
                f"{share(differ, size)} in {there.name}; was it filled in, or cut out?",
                "warning",
                name,
                "constant in one sample",
            )
    return None


# Numbers


def _numbers(
    name: str, x: Look, y: Look, chance: float, homes: Mapping[str, _Homes]
) -> Iterator[Finding]:
    if not x.columns[name].present or not y.columns[name].present:
        return
    constant = _constant(name, x, y, chance)
    if constant is not None:
        yield constant
        return
    codes = _codes(name, x, y, chance)
    yield from (finding for finding, _ in codes)
    known = {code for _, code in codes}
    of_x = _without(x.some(name), known)
    of_y = _without(y.some(name), known)
    unit = _unit(name, x, y, of_x, of_y)
    if unit is not None:
        yield unit
        return
    outside = _outside(name, x, y, (of_x, of_y), chance, homes)
    if outside is not None:
        yield outside


def _without(values: NDArray[np.float64], codes: set[float]) -> NDArray[np.float64]:
    return values[~np.isin(values, list(codes))] if codes else values


def _codes(name: str, x: Look, y: Look, chance: float) -> list[tuple[Finding, float]]:
    """Values such as 9999 and -1 that stand for something else, far from all others."""
    found = []
    pooled = np.concatenate([x.some(name), y.some(name)])
    low = min(x.columns[name].low, y.columns[name].low)
    high = max(x.columns[name].high, y.columns[name].high)
    for code in (low, high):
        times = [_times_at(look.columns[name], code) for look in (x, y)]
        if code not in CODES or sum(times) < 3 or not _stands_apart(code, pooled):
            continue
        shares = [
            f"{share(at, look.columns[name].present)} rows of {look.name}"
            for at, look in zip(times, (x, y), strict=True)
        ]
        sizes = (x.columns[name].present, y.columns[name].present)
        differs = equal_shares((times[0], sizes[0]), (times[1], sizes[1])) < chance
        others = pooled[pooled != code]
        message = (
            f"{name} is {number(code)} in {shares[0]} and {shares[1]}, while all else lies from "
            f"{number(others.min())} to {number(others.max())}: a code for a missing value? Make "
            "it one before testing, or it counts as a number."
        )
        severity: Severity = "warning" if differs else "note"
        found.append((Finding(message, severity, name, "sentinel"), code))
    return found


def _times_at(column: ColumnLook, value: float) -> int:
    if value == column.low:
        return column.at_low
    return column.at_high if value == column.high else 0


def _stands_apart(code: float, pooled: NDArray[np.float64]) -> bool:
    """Whether there is a gap between a value at the end and all others."""
    others = pooled[pooled != code]
    if len(np.unique(others[:2000])) < 5:
        return False
    low = float(others.min())
    high = float(others.max())
    if code == -1:
        return low >= 0 and bool((others == np.floor(others)).all())
    gap = code - high if code > high else low - code
    return gap >= 0.5 * (high - low)


def _unit(
    name: str, x: Look, y: Look, of_x: NDArray[np.float64], of_y: NDArray[np.float64]
) -> Finding | None:
    """The same distribution in other units."""
    if min(len(of_x), len(of_y)) < 20 or len(np.unique(of_x[:2000])) < 5:
        return None
    if _distance(of_x, of_y) < _FAR:
        return None
    # So far apart are two small samples of one distribution by chance.
    chance = 1.2 * math.sqrt(1 / len(of_x) + 1 / len(of_y))
    near = min(_STILL_NEAR, max(_NEAR, chance))
    best: tuple[float, str, Look, Look] | None = None
    for factor, words in _FACTORS.items():
        for smaller, larger, values, others in ((x, y, of_x, of_y), (y, x, of_y, of_x)):
            with np.errstate(over="ignore"):  # 1e300 in other units is infinite, and as far away
                distance = _distance(factor * values, others)
            if distance < (best[0] if best else near):
                best = (distance, words, smaller, larger)
    warmer = ((x, y, of_x, of_y), (y, x, of_y, of_x))
    for smaller, larger, values, others in warmer:
        distance = _distance(1.8 * values + 32, others)
        if distance < (best[0] if best else near):
            best = (distance, "Celsius and Fahrenheit?", smaller, larger)
    if best is None:
        return None
    _, words, smaller, larger = best
    medians = [number(float(np.median(look.some(name)))) for look in (smaller, larger)]
    return Finding(
        f"{name} has a median of {medians[0]} in {smaller.name} and of {medians[1]} in "
        f"{larger.name}, and all of it differs by {words}: other units? Convert one of them.",
        "warning",
        name,
        "unit",
    )


def _distance(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The largest difference of two distribution functions, of some thousand values each."""
    first = np.sort(first[:5000])
    second = np.sort(second[:5000])
    pooled = np.concatenate([first, second])
    below_first = np.searchsorted(first, pooled, side="right") / len(first)
    below_second = np.searchsorted(second, pooled, side="right") / len(second)
    return float(np.abs(below_first - below_second).max())


def _outside(
    name: str,
    x: Look,
    y: Look,
    values: tuple[NDArray[np.float64], NDArray[np.float64]],
    chance: float,
    homes: Mapping[str, _Homes],
) -> Finding | None:
    """Many values of a sample beyond all of the other's; one or two always are."""
    of_x, of_y = values
    if not len(of_x) or not len(of_y):
        return None
    for here, there, own, other in ((x, y, of_x, of_y), (y, x, of_y, of_x)):
        low = float(other.min())
        high = float(other.max())
        below = int((own < low).sum())
        above = int((own > high).sum())
        chances = [all_in_one(times, len(own), len(other)) for times in (below, above)]
        if min(chances) >= chance / 4:  # two ends of two samples
            continue
        is_date = "dates" in here.columns[name].holds
        farthest = own.max() if above >= below else own.min()
        ends = [date_or_number(end, is_date=is_date) for end in (low, high)]
        about = "" if len(own) == here.columns[name].present else "about "
        strangers = own[(own < low) | (own > high)]
        # Where the whole sample has moved, that is the difference which a test is to find.
        gap = float(np.median(np.maximum(low - strangers, strangers - high)))
        severity: Severity = "note"
        if gap > 0.5 * (high - low) and 5 * len(strangers) <= len(own):
            severity = "warning"
        home = homes[here.name].of(name, strangers)
        swapped = f" They look like values of {quoted(home)}: swapped?" if home else ""
        return Finding(
            f"{name}: {about}{share(below + above, len(own))} values of {here.name} lie outside "
            f"the range of {there.name} ({ends[0]} to {ends[1]}), such as "
            f"{date_or_number(float(farthest), is_date=is_date)}.{swapped} Look whether they are "
            "mistakes, or another unit.",
            severity,
            name,
            "range",
        )
    return None


class _Homes:
    """The columns of a sample to which values seem to belong that are strange in another one.

    Such a column has lost some of its own: it has values outside the range of the other sample,
    and the strange ones lie where those of the other sample do.
    """

    def __init__(self, here: Look, there: Look) -> None:
        self._here = here
        self._there = there

    @cached_property
    def _columns(self) -> tuple[list[str], NDArray[np.float64]]:
        """Names, and for each the range of most values there, and how many lie outside of it."""
        names = []
        facts = []
        for name, column in self._there.columns.items():
            if not column.numeric or not column.present or name not in self._here.columns:
                continue
            back = self._here.some(name)
            outside = int(((back < column.low) | (back > column.high)).sum())
            if outside:
                low, high = np.quantile(self._there.some(name), [0.01, 0.99])
                names.append(name)
                facts.append((low, high, outside))
        return names, np.array(facts).reshape(-1, 3)

    def of(self, name: str, strangers: NDArray[np.float64]) -> str | None:
        """The column to which strangers in the column `name` seem to belong."""
        names, facts = self._columns
        low, high, outside = facts.T
        middle = np.median(strangers)
        fitting = (low <= middle) & (middle <= high) & (outside >= 0.2 * len(strangers))
        candidates = [place for place in np.flatnonzero(fitting) if names[place] != name]
        for place in candidates[:_HOMES]:
            inside = (strangers >= low[place]) & (strangers <= high[place])
            if inside.mean() > 0.9:
                return names[place]
        return None


# Identifiers and order


def identifier_findings(x: Look, y: Look) -> Iterator[Finding]:
    """Columns that number, date or order the rows: they tell the samples apart, and say nothing."""
    for name in x.columns:
        if name in y.columns:
            finding = _identifier(name, x, y)
            if finding is not None:
                yield finding


def _identifier(name: str, x: Look, y: Look) -> Finding | None:
    of_x = x.columns[name]
    of_y = y.columns[name]
    if not (of_x.numeric and of_y.numeric) or of_x.holds != of_y.holds:
        return None
    is_date = of_x.holds == {"dates"}
    ends = [
        date_or_number(end, is_date=is_date) for end in (of_x.low, of_x.high, of_y.low, of_y.high)
    ]
    ranges = f"{ends[0]} to {ends[1]} in {x.name}, {ends[2]} to {ends[3]} in {y.name}"
    without = leave_out(x, name)
    apart = of_x.high < of_y.low or of_y.high < of_x.low
    if x.chance_of_numbers(name) * y.chance_of_numbers(name) < 1e-6:
        if name in _INDEX:
            return Finding(
                f"{name} numbers the rows ({ranges}), as the index of a table does that pandas has "
                f"written; a test leaves it out, and {without} says so.",
                "note",
                name,
                "identifier",
            )
        runs = " and runs on from one to the other" if apart else ""
        return Finding(
            f"{name} numbers the rows{runs} ({ranges}), so it would be a difference by itself. A "
            f"test leaves it out, unless you name it; {without} says so.",
            "severe",
            name,
            "identifier",
        )
    ordered = _orders(x, name) and _orders(y, name)
    if apart and (is_date or ordered) and min(of_x.present, of_y.present) >= 10:
        return Finding(
            f"{name} is apart in both samples ({ranges}), so it would be a difference by itself. A "
            f"test leaves it out, unless you name it; {without} says so.",
            "severe",
            name,
            "date" if is_date else "order",
        )
    if is_date and ordered:
        return Finding(
            f"{name} orders the rows ({ranges}). A test leaves it out, unless you name it. Rows "
            "that follow each other may depend on each other; p would be too small then.",
            "severe",
            name,
            "order",
        )
    if ordered:
        return Finding(
            f"The rows of both samples are sorted by {name} ({ranges}). If that is a time, leave "
            f"it out with {without}; rows that follow each other may then depend on each other, "
            "and p would be too small.",
            "note",
            name,
            "order",
        )
    return None


def _orders(look: Look, name: str) -> bool:
    """Whether a column is sorted, and has so many values that this is no chance."""
    if look.columns[name].order not in (1, -1) or look.columns[name].present < 10:
        return False
    return len(np.unique(look.some(name))) >= 8


def test_leaves_out(findings: list[Finding], rules: Columns) -> frozenset[str]:
    """The columns that number, date or order the rows, but for those that the user names."""
    named = {*(rules.keep or ()), *dict(rules.kinds)}
    # A column by which somebody has sorted the rows is a note, and tested.
    found = {one.column for one in findings if one.severity == "severe" or one.kind != "order"}
    return frozenset(name for name in found if name is not None and name not in named)
