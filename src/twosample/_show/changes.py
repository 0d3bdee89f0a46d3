"""The parts of a page that say what changed: every column with its numbers, rows that differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._insight.changes import ColumnChange, column_changes
from .._insight.explain import TellingRow
from .._result import format_pvalue
from ..errors import InputError
from .findings import Findings
from .marginals import marginal_of
from .svg_charts import marginal_chart

_CHARTS = 200  # columns that are drawn: more would make a page slow to open
_LEVELS = 10  # of a category whose shares are told
_DRAWN_ROWS = 4000  # of each sample that a distribution is drawn from


def change_cards(findings: Findings) -> list[dict[str, Any]]:
    """Every column: those that differ first, then by their effects."""
    explanation = findings.explanation
    if explanation is None:
        return []
    result = findings.result
    changes = list(column_changes(result, explanation))
    changes.sort(key=lambda change: (not _differs(findings, change), -_size(change)))
    largest = max((_size(change) for change in changes), default=0.0) or 1.0
    cards = []
    for place, change in enumerate(changes):
        chart = None
        if place < _CHARTS:
            chart = marginal_chart(marginal_of(result, change.name, _DRAWN_ROWS))
        adjusted = _adjusted(findings, change)
        _, _, what = change.sentence().partition(": ")
        card = {
            "name": change.name,
            "what": what.replace("->", "→"),
            "effect": _size(change),
            "bar": round(_size(change) / largest, 3),
            "unit": "spreads" if change.kind == "numeric" else "of the rows",
            "adjusted": adjusted,
            "p": format_pvalue(adjusted),
            "numbers": _numbers(change),
            "chart": chart,
        }
        cards.append(card)
    return cards


def _size(change: ColumnChange) -> float:
    """The effect, or the change of the share missing if that is larger."""
    missing = abs(change.after.missing - change.before.missing)
    effect = change.effect if np.isfinite(change.effect) else 0.0
    return max(effect, missing)


def _adjusted(findings: Findings, change: ColumnChange) -> float:
    # The explanation may be of some of the rows only; the verdict is that of all.
    adjusted = 1.0 if change.adjusted is None else change.adjusted
    return max(adjusted, findings.result.pvalue)


def _differs(findings: Findings, change: ColumnChange) -> bool:
    return _adjusted(findings, change) <= findings.alpha


def _numbers(change: ColumnChange) -> list[tuple[str, str, str, str]]:
    """Lines of before, after, and the difference with its interval."""
    before = change.before
    after = change.after
    lines = []
    if change.kind == "category":
        for level in change.levels[:_LEVELS]:
            moved = _moved(100 * (level.after - level.before), level.interval, 100)
            lines.append((level.level, _percent(level.before), _percent(level.after), moved))
    elif before.mean is not None and after.mean is not None:
        name = "mean" if change.kind == "numeric" else "share of true"
        moved = _moved(after.mean - before.mean, change.interval)
        lines.append((name, f"{before.mean:.5g}", f"{after.mean:.5g}", moved))
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
    """A difference, and its interval in this unit if there is one."""
    text = f"{difference:+.3g}"
    if interval is None:
        return text
    low, high = interval
    return f"{text} ({unit * low:+.3g} to {unit * high:+.3g})"


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
