"""Figures of a result, by matplotlib: each takes an `Axes` or makes one, draws on it and returns it.

Blue is X and orange is Y throughout, which people with any of the usual kinds of colour blindness
tell apart; lines differ in their dashes and points in their shapes as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._insight.comparing import Comparison, effects
from ._insight.explain import Explanation, held_out
from ._insight.power import PredictedPower
from ._random import RNGLike
from ._result import ALPHA, TwoSampleResult, format_pvalue
from ._show.charts import (
    KERNEL_LEVELS,
    bulk,
    distances,
    in_units,
    kernel_fields,
    mosaic,
    null_of,
    point_map,
    power_over_sizes,
    shades,
    witness_field,
)
from .errors import InputError, MissingDependency

if TYPE_CHECKING:
    from matplotlib.axes import Axes

X_COLOUR, Y_COLOUR, NEUTRAL = "#0072B2", "#D55E00", "#8a8f98"
"""Blue and vermilion of Okabe and Ito's palette, and a grey."""


def null_distribution(
    result: TwoSampleResult, ax: Axes | None = None, *, alpha: float = ALPHA
) -> Axes:
    """The statistic over shuffles, the observed value, and the threshold at level `alpha`.

    Examples
    --------
    >>> import twosample
    >>> from twosample.bench.datasets import blob
    >>> from matplotlib.figure import Figure
    >>> result = twosample.two_sample_test(*blob(90, rng=0), "mmd-o", rng=0)
    >>> ax = null_distribution(result, Figure().add_subplot())
    >>> ax.get_xlabel()
    'MMD²'
    """
    ax, null = _axes(ax), null_of(result)
    ax.bar(
        null.edges[:-1],
        null.shares,
        np.diff(null.edges),
        align="edge",
        color=NEUTRAL,
        label=result.calibration,
    )
    if (threshold := null.threshold(alpha)) is not None:
        ax.axvline(
            threshold, color="black", linestyle="--", label=f"threshold at alpha = {alpha:g}"
        )
    shown = f"observed, p = {format_pvalue(result.pvalue)}"
    ax.axvline(null.observed, color=Y_COLOUR, linewidth=2, label=shown)
    ax.set(
        xlabel=null.symbol,
        ylabel="share",
        title="Against chance",
        ylim=(0, 1.4 * null.shares.max()),
    )
    ax.legend(frameon=False)
    return ax


def power_curve(
    predicted: PredictedPower, ax: Axes | None = None, *, power: float = 0.9, alpha: float = ALPHA
) -> Axes:
    """Predicted power over the number of points tested, and how many the wanted power takes."""
    ax, curve = _axes(ax), power_over_sizes(predicted, power=power, alpha=alpha)
    ax.fill_between(
        curve.sizes,
        curve.low,
        curve.high,
        color=X_COLOUR,
        alpha=0.2,
        linewidth=0,
        label="90 % interval",
    )
    ax.plot(
        curve.sizes, curve.power, color=X_COLOUR, linewidth=2, label=f"power at alpha = {alpha:g}"
    )
    ax.axvline(curve.here, color=NEUTRAL, linestyle=":", label=f"{curve.here} points, as here")
    if curve.needed is not None:
        ax.plot(
            curve.needed, power, "D", color=Y_COLOUR, label=f"{curve.needed} points for {power:g}"
        )
    ax.set(xscale="log", ylim=(0, 1.02), xlabel="points of X tested", ylabel="power", title="Power")
    ax.legend(frameon=False)
    return ax


def comparison_effects(comparison: Comparison, ax: Axes | None = None) -> Axes:
    """How far each sample is from the reference, with intervals of about 90 %; filled where it differs.

    Each sample is seen by a test of its own, which may have learned another kernel than the others.
    """
    found = distances(comparison)
    if not found:
        raise InputError("no sample has been compared, so there is nothing to draw.")
    ax, (title, _) = _axes(ax), effects(comparison)
    for place, distance in enumerate(found):
        fill = X_COLOUR if distance.adjusted <= comparison.alpha else "white"
        if distance.ends is not None:
            ax.plot(distance.ends, [place] * 2, color=X_COLOUR, linewidth=1.5, zorder=1)
        ax.plot(distance.value, place, "o", color=X_COLOUR, markerfacecolor=fill)
    ax.set_yticks(range(len(found)), [f"{d.name} (p = {format_pvalue(d.adjusted)})" for d in found])
    ax.invert_yaxis()
    ax.axvline(0, color=NEUTRAL, linestyle=":")
    ax.set(
        xlabel=f"{title} from the reference",
        title=f"Filled: adjusted p at most {comparison.alpha:g}",
    )
    return ax


def training_curve(result: TwoSampleResult, ax: Axes | None = None) -> Axes:
    """The objective on the batches of training and on the validation points, where there are any."""
    log = result.training
    if log is None or not log.objective:
        raise InputError(f"{result.method} took no training steps, so there is no curve to draw.")
    ax = _axes(ax)
    ax.plot(
        np.arange(1, log.steps + 1),
        log.objective,
        color=X_COLOUR,
        linewidth=1,
        label="training batches",
    )
    if log.validation:
        ax.plot(
            *zip(*log.validation, strict=True), color=Y_COLOUR, linestyle="--", label="validation"
        )
        ax.axvline(log.best_step, color=NEUTRAL, linestyle=":", label=f"kept: step {log.best_step}")
    ax.set(xlabel="step", ylabel="objective", title="Training")
    ax.legend(frameon=False)
    return ax


def column_ranking(
    explanation: Explanation, ax: Axes | None = None, *, alpha: float = ALPHA, most: int = 20
) -> Axes:
    """The columns, most different first: importance as bars, adjusted p-values as text, filled where they differ."""
    columns = explanation.ranked()[:most]
    if not columns:
        raise InputError("images have no columns to rank; see `image_grid`.")
    ax = _axes(ax)
    shares = [column.importance_share or 0.0 for column in columns]
    bars = ax.barh([column.name for column in columns], shares, color=X_COLOUR, edgecolor=X_COLOUR)
    for bar, column in zip(bars, columns, strict=True):
        bar.set_fill(column.adjusted <= alpha)
    ax.bar_label(bars, [f"p = {format_pvalue(column.adjusted)}" for column in columns], padding=4)
    ax.invert_yaxis()
    ax.margins(x=0.25)
    ax.set(
        xlabel="importance: share of the statistic that goes without it",
        title=f"Filled: p at most {alpha:g}",
    )
    return ax


def witness_map(
    explanation: Explanation,
    ax: Axes | None = None,
    *,
    most: int = 1500,
    rng: RNGLike | None = None,
) -> Axes:
    """Held-out points in the plane or along the main axes of their features, coloured by the witness."""
    ax, drawn = _axes(ax), point_map(explanation, most=most, rng=rng)
    colours = _witness_colours()
    if drawn.in_plane:
        field = witness_field(explanation.result, drawn.limits)
        levels = np.linspace(-1, 1, 10) * drawn.largest
        ax.contourf(field.x, field.y, field.values, levels, cmap=colours, alpha=0.4, extend="both")
    for name, marker, chosen in (("X", "o", ~drawn.of_y), ("Y", "D", drawn.of_y)):
        x, y = drawn.positions[chosen].T
        shown: dict[str, Any] = {
            "marker": marker,
            "cmap": colours,
            "vmin": -1,
            "vmax": 1,
            "label": name,
        }
        ax.scatter(x, y, 14, drawn.colours[chosen], edgecolors="black", linewidths=0.3, **shown)
    ax.set(xlim=drawn.limits[0], ylim=drawn.limits[1], xlabel=drawn.axes[0], ylabel=drawn.axes[1])
    ax.set_title("The witness: blue as in X, orange as in Y")
    ax.legend(frameon=False)
    return ax


def kernel_contours(
    result: TwoSampleResult, ax: Axes | None = None, *, rng: RNGLike | None = None
) -> Axes:
    """Contours of the kernel around nine typical points at 0.7, 0.8 and 0.9, as in the paper's figure 1.

    For data of two columns of numbers.
    """
    fitted, samples = held_out(result)
    points = in_units(fitted, samples.pooled())
    limits = bulk(points)
    centres, fields = kernel_fields(result, limits, rng=rng)
    ax, n = _axes(ax), samples.sizes[0]
    for name, colour, marker, part in (
        ("X", X_COLOUR, "o", points[:n]),
        ("Y", Y_COLOUR, "D", points[n:]),
    ):
        ax.plot(*part.T, marker, color=colour, markersize=2, alpha=0.35, label=name)
    for field in fields:
        levels = [
            level for level in KERNEL_LEVELS if field.values.min() < level < field.values.max()
        ]
        if levels:
            ax.contour(field.x, field.y, field.values, levels, colors="black", linewidths=1)
    ax.plot(*centres.T, "+", color="black")
    first, second = samples.schema.columns
    ax.set(
        xlim=limits[0],
        ylim=limits[1],
        xlabel=first.name,
        ylabel=second.name,
        title="Contours of the kernel",
    )
    ax.legend(frameon=False)
    return ax


def image_grid(explanation: Explanation, ax: Axes | None = None) -> Axes:
    """The most telling images: those of X above, those of Y below."""
    pictures = [
        [row.pixels for row in rows if row.pixels is not None]
        for rows in (explanation.rows_x, explanation.rows_y)
    ]
    if not pictures[0] or not pictures[1]:
        raise InputError(
            "there are no images among the most telling rows; see `column_ranking` for tables."
        )
    count = max(map(len, pictures))
    shaded = shades([*pictures[0], *pictures[1]])
    of_x, of_y = shaded[: len(pictures[0])], shaded[len(pictures[0]) :]
    ax = _axes(ax)
    both = [mosaic(images, count) for images in (of_x, of_y)]
    gap = np.full((max(1, of_x[0].shape[0] // 6), *both[0].shape[1:]), 255, dtype=np.uint8)
    ax.imshow(np.concatenate([both[0], gap, both[1]]), cmap="gray", vmin=0, vmax=255)
    ax.set_yticks(
        [of_x[0].shape[0] / 2, both[0].shape[0] + len(gap) + of_y[0].shape[0] / 2], ["X", "Y"]
    )
    ax.set_xticks([])
    ax.spines[:].set_visible(False)
    ax.set_title("The most telling images, the most telling first")
    return ax


def _witness_colours() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("witness", [Y_COLOUR, "#eeeeee", X_COLOUR])


def _axes(ax: Axes | None) -> Axes:
    """`ax`, or those of a new figure."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingDependency(
            "figures take matplotlib; pip install 'twosample[plots]'."
        ) from error
    new: Any = plt.subplots(layout="constrained")[1]
    return new  # type: ignore[no-any-return]
