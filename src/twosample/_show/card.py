"""The answer as one small picture, to be pasted into a message."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._data.tables import cut_in_the_middle, told_apart
from .._insight.summary import Told, effect_sentence, told_of, units_of
from .._result import ALPHA, TwoSampleResult, format_pvalue
from .._saving.saving import replace, writable
from .charts import null_of
from .marginals import Densities, Shares, marginal_of
from .page import missing, typeset

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0b62a8", "#b04f06")
"""Of X and of Y, as on a page in light."""

_GREY = "#59616b"
_CHANGES = 4
_WIDTH = 62  # characters of a line
_ROWS = 4000  # of each sample that a distribution is drawn from


def summary_card(
    result: TwoSampleResult,
    told: Told,
    *,
    names: tuple[str, str],
    alpha: float = ALPHA,
) -> bytes:
    """The verdict, how large the difference is and what changed, beside a chart, as PNG."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing("matplotlib") from error
    figure = Figure(figsize=(9, 3.6), dpi=110, facecolor="white")
    FigureCanvasAgg(figure)
    columns, _ = told.found(alpha) if result.reject(alpha) else ([], [])
    changes = told.sentences(alpha)[:_CHANGES] if result.reject(alpha) else []
    _write(figure, _words(result, names, alpha, changes))
    axes = figure.add_axes((0.64, 0.17, 0.34, 0.62))
    if columns:
        marginal = marginal_of(result, columns[0].name, _ROWS, names)
        _draw_marginal(axes, marginal)
    else:
        _draw_null(axes, result, alpha)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8, colors=_GREY)
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()


def write_card(
    result: TwoSampleResult, path: str | Path, *, names: tuple[str, str], alpha: float = ALPHA
) -> Path:
    """Write the picture to a file, all of it or nothing, and return its path."""
    picture = summary_card(result, told_of(result), names=told_apart(*names), alpha=alpha)
    replace(writable(path), picture)
    return Path(path)


Line = tuple[str, dict[str, Any]]


def _words(
    result: TwoSampleResult, names: tuple[str, str], alpha: float, changes: Sequence[str]
) -> list[Line]:
    """All lines of text, from the top, and how they look."""
    x, y = names
    n, m = result.sizes
    _, many = units_of(result)
    title = "The samples differ" if result.reject(alpha) else "No difference found"
    if result.tolerance is not None:
        title = result.decide(alpha).sentence().partition(" (")[0]
    lines: list[Line] = [(title, {"size": 16, "weight": "bold"})]
    plain = {"size": 9.5}
    quiet = {"size": 9, "color": _GREY}
    about = f"{x} ({n:,} {many}) and {y} ({m:,} {many}): p = {format_pvalue(result.pvalue)}"
    lines += [(line, quiet) for line in textwrap.wrap(about, _WIDTH)]
    sentences = [effect_sentence(result, names)]
    if not result.reject(alpha) and result.smallest_difference is not None:
        sentences.append(result.smallest_difference.sentence())
    for sentence in filter(None, sentences):
        lines.append(("", quiet))
        lines += [(line, plain) for line in textwrap.wrap(sentence, _WIDTH)]
    if changes:
        lines.append(("", quiet))
    for change in changes:
        first, *rest = textwrap.wrap(typeset(change), _WIDTH - 2)
        lines.append((f"• {first}", plain))
        lines += [(f"   {line}", plain) for line in rest]
    return lines


def _write(figure: Any, lines: Sequence[Line]) -> None:
    top = 0.93
    for text, looks in lines:
        # A dollar sign would begin a formula of matplotlib's.
        figure.text(0.03, top, text.replace("$", r"\$"), va="top", **looks)
        top -= looks["size"] * (0.0075 if text else 0.0035)


def _draw_marginal(axes: Axes, marginal: Densities | Shares) -> None:
    x, y = marginal.samples
    both = ((x, COLOURS[0]), (y, COLOURS[1]))
    if isinstance(marginal, Densities):
        for (name, colour), density in zip(both, (marginal.x, marginal.y), strict=True):
            axes.fill_between(marginal.at, density, color=colour, alpha=0.15, linewidth=0)
            axes.plot(marginal.at, density, color=colour, linewidth=1.8, label=name)
        axes.set_yticks([])
    else:
        shown = marginal.shown
        places = np.arange(len(shown.levels))
        for shift, (name, colour), share in zip((-0.2, 0.2), both, (shown.x, shown.y), strict=True):
            axes.barh(places + shift, 100 * share, 0.38, color=colour, label=name)
        axes.set_yticks(places, [_plain(level, 18) for level in shown.levels])
        axes.invert_yaxis()
        axes.set_xlabel("% of the rows", fontsize=8, color=_GREY)
    axes.set_title(_plain(marginal.name, 40), fontsize=10, loc="left", weight="bold")
    axes.legend(fontsize=8, frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)


def _draw_null(axes: Axes, result: TwoSampleResult, alpha: float) -> None:
    null = null_of(result)
    axes.bar(null.edges[:-1], null.shares, np.diff(null.edges), align="edge", color="#a7b0bb")
    axes.axvline(null.observed.value, color=COLOURS[1], linewidth=2, label="observed")
    threshold = null.threshold(alpha)
    if threshold is not None:
        axes.axvline(threshold.value, color="black", linestyle="--", label=threshold.flag)
    axes.set_yticks([])
    axes.set_xlabel(null.x_label, fontsize=8, color=_GREY)
    axes.set_title("Against chance", fontsize=10, loc="left", weight="bold")
    axes.legend(fontsize=8, frameon=False)


def _plain(text: str, most: int) -> str:
    """A name of the user's in few characters, without formulas of matplotlib's."""
    return cut_in_the_middle(text, most).replace("$", r"\$")
