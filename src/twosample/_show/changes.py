"""The parts of a page that say what changed: every column with its numbers, rows that differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._insight.changes import ColumnChange
from .._insight.explain import TellingRow
from .._result import format_pvalue
from ..errors import InputError
from .findings import Findings
from .marginals import marginal_of
from .page import typeset
from .pairs import Grid, pair_of
from .svg_charts import marginal_chart, pair_charts

_CHARTS = 200  # columns that are drawn: more would make a page slow to open
_PAIRS = 6  # pairs that are drawn
_LEVELS = 10  # of a category whose shares are told
_DRAWN_ROWS = 4000  # of each sample that a distribution is drawn from


def change_cards(findings: Findings) -> list[dict[str, Any]]:
    """Every column: those that differ first, then by their effects."""
    changes = sorted(findings.columns, key=lambda change: not change.reject(findings.alpha))
    largest = max((change.size for change in changes), default=0.0) or 1.0
    cards = []
    for place, change in enumerate(changes):
        chart = None
        if place < _CHARTS:
            marginal = marginal_of(findings.result, change.name, _DRAWN_ROWS, findings.names)
            chart = marginal_chart(marginal)
        _, _, what = change.sentence().partition(": ")
        card = {
            "name": change.name,
            "what": typeset(what),
            "effect": change.size,
            "bar": round(change.size / largest, 3),
            "unit": "spreads" if change.kind == "numeric" else "of the rows",
            "adjusted": change.adjusted,
            "p": format_pvalue(change.adjusted or 1.0),
            "numbers": _numbers(change),
            "chart": chart,
        }
        cards.append(card)
    return cards


def pair_cards(findings: Findings) -> list[dict[str, Any]]:
    """The pairs that go together otherwise: those first of which neither column differs.

    Where a column differs, its pairs do, too. They are shown if their correlation changed.
    """
    if not findings.result.reject(findings.alpha):
        return []
    found = [pair for pair in findings.pairs if pair.reject(findings.alpha)]
    otherwise = [pair for pair in found if not pair.follows_from or _is_moved(pair.interval)]
    cards = []
    for pair in otherwise[:_PAIRS]:
        shown = pair_of(findings.result, pair)
        card = {
            "names": pair.columns,
            "what": typeset(f"{pair.measure} {pair.before:.2f} -> {pair.after:.2f}"),
            "moved": None
            if pair.interval is None
            else _moved(pair.after - pair.before, pair.interval),
            "since": pair.follows_from,
            "adjusted": pair.adjusted,
            "p": format_pvalue(pair.adjusted),
            "charts": pair_charts(shown, findings.names),
            "is_grid": isinstance(shown, Grid),
        }
        cards.append(card)
    return cards


def _is_moved(interval: tuple[float, float] | None) -> bool:
    return interval is not None and not interval[0] <= 0 <= interval[1]


def _numbers(change: ColumnChange) -> list[tuple[str, str, str, str]]:
    """Lines of before, after, and the difference with its interval."""
    before = change.before
    after = change.after
    lines = []
    if change.kind == "category":
        for level in change.levels[:_LEVELS]:
            moved = _moved(100 * (level.after - level.before), level.interval, 100)
            lines.append((level.level, _percent(level.before), _percent(level.after), moved))
    elif before.mean is None or after.mean is None:
        pass  # all values are missing
    elif change.kind == "boolean":
        moved = _moved(100 * (after.mean - before.mean), change.interval, 100)
        lines.append(("true", _percent(before.mean), _percent(after.mean), moved))
    else:
        moved = _moved(after.mean - before.mean, change.interval)
        lines.append(("mean", f"{before.mean:.5g}", f"{after.mean:.5g}", moved))
        if before.spread is not None and after.spread is not None:
            lines.append(("spread", f"{before.spread:.4g}", f"{after.spread:.4g}", ""))
        for share, value in before.quantiles.items():
            name = "median" if share == 0.5 else f"{100 * share:.0f} % are below"
            lines.append((name, f"{value:.5g}", f"{after.quantiles[share]:.5g}", ""))
    if change.missing_interval is not None:
        moved = _moved(100 * (after.missing - before.missing), change.missing_interval, 100)
        lines.append(("missing", _percent(before.missing), _percent(after.missing), moved))
    effect = f"{change.effect:.2f}"
    if change.effect_interval is not None:
        low, high = change.effect_interval
        effect += f" ({low:.2f} to {high:.2f})"
    unit = "spreads moved" if change.kind == "numeric" else "share of rows moved"
    lines.append((unit, "", "", effect))
    return lines


def _moved(difference: float, interval: tuple[float, float] | None, unit: float = 1) -> str:
    """A difference, and its interval if there is one; of shares, in percentage points."""
    text = f"{difference:+.3g}"
    if unit == 100:
        text += " points"
    if interval is not None:
        low, high = interval
        text += f" ({unit * low:+.3g} to {unit * high:+.3g})"
    return text.replace("-", "−")


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def diverse(rows: Sequence[TellingRow], most: int) -> list[TellingRow]:
    """Rows that tell much and are not alike: each is far from those before it."""
    if len(rows) <= most:
        return list(rows)
    places = _places(rows)
    weights = np.array([max(0.0, row.contribution) for row in rows])
    chosen = [0]
    nearest = np.linalg.norm(places - places[0], axis=1)
    while len(chosen) < most:
        wanted = nearest * np.sqrt(weights)
        wanted[chosen] = -1.0
        best = int(wanted.argmax())
        chosen.append(best)
        nearest = np.minimum(nearest, np.linalg.norm(places - places[best], axis=1))
    return [rows[place] for place in sorted(chosen)]


def _places(rows: Sequence[TellingRow]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(N, d) where rows are: numbers in their spreads, 1 for each level, or pixels."""
    if rows[0].pixels is not None:
        pixels = [np.asarray(row.pixels, dtype=np.float64).ravel() for row in rows]
        return np.stack(pixels) if len({len(each) for each in pixels}) == 1 else np.zeros((1, 1))
    columns = []
    for name in rows[0].values:
        values = [row.values[name] for row in rows]
        if all(isinstance(value, float | int) for value in values):
            numbers = np.array(values, dtype=np.float64)
            columns.append((numbers - numbers.mean()) / (numbers.std() or 1.0))
        else:
            texts = [str(value) for value in values]
            levels = sorted(set(texts))
            columns += [np.array([float(text == level) for text in texts]) for level in levels]
    if not columns:
        raise InputError("rows without values cannot be compared.")
    return np.stack(columns, 1)
