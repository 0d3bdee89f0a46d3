"""A result in a few lines, to be pasted into a message or a pull request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .._result import ALPHA, TwoSampleResult, format_pvalue
from ..errors import IncompatibleParts, InputError
from .changes import ColumnChange, PairChange
from .regions import Region
from .smallest import could_find

LEAST_TOLD = 0.005
"""Of all rows: a smaller share would be told as 0 %."""

_COLUMNS = 5
_PAIRS = 3
_GUESSING = 0.5  # an AUC


_TITLES = {
    "differ": "The samples differ by more than the tolerance",
    "equivalent": "Equivalent within the tolerance",
    "undecided": "Not enough rows to say",
}


def title(result: TwoSampleResult, alpha: float = ALPHA) -> str:
    """The verdict in a few words."""
    if result.tolerance is not None:
        return _TITLES[result.decide(alpha).verdict]
    return "The samples differ" if result.reject(alpha) else "No difference found"


def headline(result: TwoSampleResult, names: tuple[str, str], alpha: float = ALPHA) -> str:
    """The verdict in a sentence."""
    n, m = result.sizes
    x, y = names
    _, many = units_of(result)
    p = f"p = {format_pvalue(result.pvalue)}, {result.method} on {n:,} + {m:,} {many}"
    if result.tolerance is not None:
        return f"{x} and {y}: {result.decide(alpha).sentence()[:-1]}; {p}."
    if result.reject(alpha):
        return f"{x} and {y} differ ({p})."
    return f"No difference found between {x} and {y} ({p})."


def effect_sentence(
    result: TwoSampleResult, names: tuple[str, str] = ("X", "Y"), alpha: float = ALPHA
) -> str:
    """How large the difference is, in a sentence; "" where that is not known."""
    effect = result.effect
    if effect.auc is None or effect.auc_interval is None:
        return ""
    # A name of several words would run into the sentence.
    x, y = (f"“{name}”" if " " in name else name for name in names)
    one, many = units_of(result)
    low, high = effect.auc_interval
    text = (
        f"Shown one {one} of {x} and one of {y}, the test tells which is which "
        f"{100 * effect.auc:.0f} % of the time ({100 * low:.0f} to {100 * high:.0f} %); 50 % is "
        "guessing."
    )
    if result.reject(alpha) and low <= _GUESSING:
        # Or a reader would see a contradiction.
        text += f" One {one} hardly tells: the difference is small, or in few {many}."
    if effect.changed and effect.changed >= LEAST_TOLD:
        share = f"{100 * effect.changed:.0f} %"
        text += f" At least {share} of the {many} would have to change to make them alike."
    return text


def units_of(result: TwoSampleResult) -> tuple[str, str]:
    """What a point is called, and what several are: a row of a table, or an image."""
    is_image = result.fitted is not None and result.fitted.schema.kind == "image"
    return ("image", "images") if is_image else ("row", "rows")


def summary(
    result: TwoSampleResult,
    names: tuple[str, str] = ("X", "Y"),
    *,
    alpha: float = ALPHA,
    markdown: bool = False,
    told: Told | None = None,
) -> str:
    """The verdict, the effect, and the columns, pairs and regions that changed most.

    `told` is what changed, where that is known already.
    """
    bold = "**" if markdown else ""
    lines = [f"{bold}{headline(result, names, alpha)}{bold}"]
    effect = effect_sentence(result, names, alpha)
    if effect:
        lines.append(effect)
    if not result.reject(alpha):
        missed = could_find(result, alpha)
        if missed:
            lines.append(missed)
        return "\n\n".join(lines) + "\n" if markdown else "\n".join(lines)
    told = told or told_of(result)
    if markdown:
        lines += _tables(told, alpha)
        return "\n\n".join(lines) + "\n"
    lines += [f"- {sentence}" for sentence in told.sentences(alpha)]
    return "\n".join(lines)


class Told(NamedTuple):
    """What changed: every column, every pair that was tested, and regions."""

    columns: Sequence[ColumnChange]
    pairs: Sequence[PairChange]
    regions: Sequence[Region]

    def found(self, alpha: float) -> tuple[list[ColumnChange], list[PairChange]]:
        """The columns and pairs that are found to differ, the largest effects first.

        Pairs that differ with one of their columns say nothing new.
        """
        columns = [column for column in self.columns if column.reject(alpha)]
        pairs = [pair for pair in self.pairs if pair.reject(alpha) and not pair.follows_from]
        columns.sort(key=lambda column: -column.size)
        pairs.sort(key=lambda pair: -pair.effect)
        return columns[:_COLUMNS], pairs[:_PAIRS]

    def sentences(self, alpha: float) -> list[str]:
        """What changed most, in words: columns and pairs by their effects, then regions."""
        columns, pairs = self.found(alpha)
        sized = [(column.size, column.sentence()) for column in columns]
        sized += [(pair.effect, pair.sentence()) for pair in pairs]
        sized.sort(key=lambda each: -each[0])
        return [sentence for _, sentence in sized] + self.beside_columns(())

    def beside_columns(self, pairs: Sequence[PairChange]) -> list[str]:
        """These pairs and all regions, in words."""
        of_pairs = [pair.sentence() for pair in pairs]
        return of_pairs + [f"rows with {region.sentence()}" for region in self.regions]


def told_of(result: TwoSampleResult) -> Told:
    """What changed; nothing of a stream, which keeps no rows."""
    try:
        return Told(result.columns, result.pairs, result.regions)
    except (InputError, IncompatibleParts):
        return Told((), (), ())


def _tables(told: Told, alpha: float) -> list[str]:
    """Markdown tables of what changed."""
    columns, pairs = told.found(alpha)
    parts = []
    if columns:
        lines = ["| column | what changed | effect | adjusted p |", "|---|---|---|---|"]
        for column in columns:
            _, _, change = column.sentence().partition(": ")
            p = "" if column.adjusted is None else format_pvalue(column.adjusted)
            cells = [column.name, change, f"{column.effect:.2g}", p]
            lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
        parts.append("\n".join(lines))
    others = told.beside_columns(pairs)
    if others:
        parts.append("\n".join(f"- {_cell(line)}" for line in others))
    return parts


def _cell(text: str) -> str:
    """Text that cannot end a cell of a table, or begin markup."""
    escaped = text.replace("\\", "\\\\")
    for sign in "|<*_`[":
        escaped = escaped.replace(sign, f"\\{sign}")
    return escaped.replace("\n", " ")
