"""The answer as one small picture, to be pasted into a message."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._data.tables import cut_in_the_middle, told_apart
from .._insight.held_out import held_out, row_pixels
from .._insight.smallest import could_find
from .._insight.summary import Told, effect_sentence, title, told_of, units_of
from .._result import ALPHA, TwoSampleResult, format_pvalue
from .._saving.saving import replace, writable
from .charts import null_of
from .maps import Scatter
from .marginals import Densities, Shares, marginal_of
from .page import missing, typeset
from .pairs import pair_of
from .pictures import mosaic, shades

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0b62a8", "#b04f06")
"""Of X and of Y, as on a page in light."""

_GREY = "#59616b"
_CHANGES = 4
_IMAGES_ACROSS = 8
_WIDTH = 66  # characters of a line
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
        from PIL import Image
    except ImportError as error:
        raise missing(error.name or "matplotlib") from error
    figure = Figure(figsize=(9, 3.6), dpi=110, facecolor="white")
    FigureCanvasAgg(figure)
    found = told if result.reject(alpha) else Told((), (), ())
    _write(figure, _words(result, names, alpha, found.sentences(alpha)[:_CHANGES]))
    axes = figure.add_axes((0.64, 0.17, 0.34, 0.6))
    _draw_most_telling(axes, result, found, names, alpha)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8, colors=_GREY)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    picture = io.BytesIO()
    # A few colours are enough, and take a fifth of the bytes.
    Image.open(drawn).convert("RGB").quantize(64).save(picture, "PNG", optimize=True)
    return picture.getvalue()


def _draw_most_telling(
    axes: Axes, result: TwoSampleResult, told: Told, names: tuple[str, str], alpha: float
) -> None:
    """The column or the pair that changed most; without any, the test against chance."""
    columns, pairs = told.found(alpha)
    if pairs and (not columns or pairs[0].effect > columns[0].size):
        shown = pair_of(result, pairs[0])
        if isinstance(shown, Scatter):
            _draw_cloud(axes, shown, names)
            return
    is_image = result.samples is not None and result.samples.schema.kind == "image"
    if columns:
        _draw_marginal(axes, marginal_of(result, columns[0].name, _ROWS, names))
    elif is_image and result.reject(alpha):
        _draw_images(axes, result, names)
    else:
        _draw_null(axes, result, alpha)


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
    lines: list[Line] = [(title(result, alpha), {"size": 16, "weight": "bold"})]
    plain = {"size": 9.5}
    quiet = {"size": 9, "color": _GREY}
    about = f"{x} ({n:,} {many}) and {y} ({m:,} {many}): p = {format_pvalue(result.pvalue)}"
    if result.design is not None:
        about += f", {result.design}"
    lines += [(line, quiet) for line in _wrapped(about)]
    sentences = [effect_sentence(result, names, alpha)]
    if not result.reject(alpha):
        tries = f"{100 * result.pvalue:.0f} % of all tries"
        sentences.append(f"Dealt out at random, they differ as much in {tries}.")
        sentences.append(could_find(result, alpha))
    for sentence in filter(None, sentences):
        lines.append(("", quiet))
        lines += [(line, plain) for line in _wrapped(sentence)]
    if changes:
        lines.append(("", quiet))
    for change in changes:
        first, *rest = _wrapped(change)
        lines.append((f"• {first}", plain))
        lines += [(f"   {line}", plain) for line in rest]
    return lines


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(typeset(text), _WIDTH)


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
    _name(axes, marginal.name)


def _draw_cloud(axes: Axes, pair: Scatter, names: tuple[str, str]) -> None:
    for name, colour, chosen in zip(names, COLOURS, (~pair.of_y, pair.of_y), strict=True):
        x, y = pair.positions[chosen & pair.inside].T
        axes.plot(x, y, "o", color=colour, markersize=2.5, alpha=0.5, label=name)
    first, second = (_plain(name, 20) for name in pair.axes)
    axes.set_xlabel(first, fontsize=8, color=_GREY)
    axes.set_ylabel(second, fontsize=8, color=_GREY)
    _name(axes, f"{first} and {second}")


def _draw_images(axes: Axes, result: TwoSampleResult, names: tuple[str, str]) -> None:
    """Some images of X above, some of Y below."""
    fitted, samples = held_out(result)
    lines = []
    for points in (samples.x, samples.y):
        some = points[: 2 * _IMAGES_ACROSS].cpu().double()
        images = [row_pixels(samples.schema, fitted.scaling, point) for point in some]
        lines.append(images)
    shaded = shades([*lines[0], *lines[1]])  # together, so that both have one scale
    count = len(lines[0])
    sheets = [mosaic(part, _IMAGES_ACROSS) for part in (shaded[:count], shaded[count:])]
    gap = np.full_like(sheets[0][: max(1, len(shaded[0]) // 2)], 255)  # white
    axes.imshow(np.concatenate([sheets[0], gap, sheets[1]]), cmap="gray", vmin=0, vmax=255)
    axes.axis("off")
    axes.set_title(f"{names[0]} above, {names[1]} below", fontsize=10, loc="left", weight="bold")


def _name(axes: Axes, name: str) -> None:
    """What is drawn, above the legend."""
    axes.set_title(_plain(name, 44), fontsize=10, loc="left", weight="bold", pad=20)
    axes.legend(
        fontsize=8, frameon=False, loc="lower left", bbox_to_anchor=(-0.03, 0.97), ncols=2
    )  # fmt: skip


def _draw_null(axes: Axes, result: TwoSampleResult, alpha: float) -> None:
    null = null_of(result)
    threshold = null.threshold(alpha)
    axes.bar(null.edges[:-1], null.shares, np.diff(null.edges), align="edge", color="#a7b0bb")
    _, right = null.x_limits([threshold], broken=True)
    far = f" (far out, at {null.observed.value:.3g})" if null.is_far else ""
    observed = min(null.observed.value, right)
    axes.axvline(observed, color=COLOURS[1], linewidth=2, label=f"observed{far}")
    if threshold is not None:
        axes.axvline(threshold.value, color="black", linestyle="--", label=threshold.flag)
    axes.set_yticks([])
    axes.set_xlabel(null.x_label, fontsize=8, color=_GREY)
    axes.set_title("Against chance", fontsize=10, loc="left", weight="bold")
    axes.legend(fontsize=8, frameon=False)


def _plain(text: str, most: int) -> str:
    """A name of the user's in few characters, without formulas of matplotlib's."""
    return cut_in_the_middle(text, most).replace("$", r"\$")
