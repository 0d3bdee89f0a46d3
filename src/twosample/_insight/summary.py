"""A result in a few lines, to be pasted into a message or a pull request."""

from __future__ import annotations

from .._result import ALPHA, TwoSampleResult, format_pvalue
from ..errors import IncompatibleParts, InputError
from .changes import ColumnChange, PairChange
from .regions import Region

_COLUMNS = 5
_PAIRS = 3


def headline(result: TwoSampleResult, names: tuple[str, str], alpha: float = ALPHA) -> str:
    """The verdict in a sentence."""
    n, m = result.sizes
    x, y = names
    p = f"p = {format_pvalue(result.pvalue)}, {result.method} on {n:,} + {m:,} rows"
    if result.tolerance is not None:
        return f"{x} and {y}: {result.decide(alpha).sentence()[:-1]}; {p}."
    if result.reject(alpha):
        return f"{x} and {y} differ ({p})."
    return f"No difference found between {x} and {y} ({p})."


def effect_sentence(result: TwoSampleResult) -> str:
    """How large the difference is, in a sentence; "" where that is not known."""
    effect = result.effect
    if effect.auc is None or effect.auc_interval is None:
        return ""
    low, high = effect.auc_interval
    text = (
        f"A row of X can be told from one of Y with an AUC of {effect.auc:.2f} ({low:.2f} to "
        f"{high:.2f}); 0.5 is chance"
    )
    if effect.changed:
        text += f". At least {100 * effect.changed:.0f} % of the rows would have to change"
    return f"{text}."


def summary(
    result: TwoSampleResult,
    names: tuple[str, str] = ("X", "Y"),
    *,
    alpha: float = ALPHA,
    markdown: bool = False,
) -> str:
    """The verdict, the effect, and the columns, pairs and regions that changed most."""
    bold = "**" if markdown else ""
    lines = [f"{bold}{headline(result, names, alpha)}{bold}"]
    effect = effect_sentence(result)
    if effect:
        lines.append(effect)
    if not result.reject(alpha):
        smallest = result.smallest_difference
        if smallest is not None:
            lines.append(smallest.sentence())
        return "\n\n".join(lines) + "\n" if markdown else "\n".join(lines)
    columns, pairs = _changed(result, alpha)
    if markdown:
        lines += _tables(columns, pairs, result)
        return "\n\n".join(lines) + "\n"
    lines += [f"- {column.sentence()}" for column in columns]
    lines += [f"- {pair.sentence()}" for pair in pairs]
    lines += [f"- {region.sentence()}" for region in _regions(result)]
    return "\n".join(lines)


def _changed(result: TwoSampleResult, alpha: float) -> tuple[list[ColumnChange], list[PairChange]]:
    """The columns and pairs that are found to differ, the largest effects first."""
    try:
        columns = [column for column in result.columns if column.reject(alpha)]
        pairs = [pair for pair in result.pairs if pair.reject(alpha) and not pair.follows_from]
    except (InputError, IncompatibleParts):  # a stream keeps no rows
        return [], []
    columns.sort(key=lambda column: -column.effect)
    pairs.sort(key=lambda pair: -pair.effect)
    return columns[:_COLUMNS], pairs[:_PAIRS]


def _regions(result: TwoSampleResult) -> list[Region]:
    try:
        return list(result.regions)
    except (InputError, IncompatibleParts):
        return []


def _tables(
    columns: list[ColumnChange], pairs: list[PairChange], result: TwoSampleResult
) -> list[str]:
    """Markdown tables of what changed."""
    parts = []
    if columns:
        lines = ["| column | what changed | effect | adjusted p |", "|---|---|---|---|"]
        for column in columns:
            _, _, change = column.sentence().partition(": ")
            p = "" if column.adjusted is None else format_pvalue(column.adjusted)
            cells = [column.name, change, f"{column.effect:.2g}", p]
            lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
        parts.append("\n".join(lines))
    told = [pair.sentence() for pair in pairs]
    told += [region.sentence() for region in _regions(result)]
    if told:
        parts.append("\n".join(f"- {_cell(line)}" for line in told))
    return parts


def _cell(text: str) -> str:
    """Text that cannot end a cell of a table, or begin markup."""
    escaped = text.replace("\\", "\\\\")
    for sign in "|<*_`[":
        escaped = escaped.replace(sign, f"\\{sign}")
    return escaped.replace("\n", " ")
