"""Figures of a result, by matplotlib: each draws on an `Axes`, its own or yours, and returns it.

Blue is X and orange is Y throughout, which people with any of the usual kinds of colour blindness
tell apart; lines differ in their dashes and points in their shapes as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._insight.comparing import Comparison
from ._insight.explain import Explanation
from ._insight.prediction import PowerPlan
from ._random import RNGLike, takes_rng
from ._result import ALPHA, TwoSampleResult, format_pvalue
from ._show.charts import distances_of, null_of, power_over_sizes, training_of
from ._show.maps import Scatter, held_out_plane, kernel_contours_of, point_map
from ._show.pictures import mosaic, shades
from .errors import InputError, MissingDependency

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

X_COLOUR = "#0072B2"
"""Blue of Okabe and Ito's palette."""

Y_COLOUR = "#D55E00"
"""Vermilion of Okabe and Ito's palette."""

NEUTRAL = "#8a8f98"
"""A grey."""


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
    null = null_of(result)
    ax = _axes(ax)
    left_edges = null.edges[:-1]
    widths = np.diff(null.edges)
    ax.bar(left_edges, null.shares, widths, align="edge", color=NEUTRAL, label=null.source)
    threshold = null.threshold(alpha)
    if threshold is not None:
        ax.axvline(threshold.value, color="black", linestyle="--", label=threshold.legend)
    observed = null.observed
    ax.axvline(observed.value, color=Y_COLOUR, linewidth=2, label=observed.legend)
    ax.set(xlabel=null.symbol, ylabel=null.y_label, title=null.title)
    ax.set_ylim(0, 1.4 * null.shares.max())  # room for the legend
    ax.legend(frameon=False)
    return ax


def power_curve(
    predicted: PowerPlan, ax: Axes | None = None, *, power: float = 0.9, alpha: float = ALPHA
) -> Axes:
    """Predicted power over the number of points tested, and how many the wanted power takes."""
    curve = power_over_sizes(predicted, power=power, alpha=alpha)
    ax = _axes(ax)
    ax.fill_between(
        curve.sizes,
        curve.low,
        curve.high,
        color=X_COLOUR,
        alpha=0.2,
        linewidth=0,
        label=curve.band_name,
    )
    ax.plot(curve.sizes, curve.power, color=X_COLOUR, linewidth=2, label=curve.name)
    here = curve.here
    ax.axvline(here.value, color=NEUTRAL, linestyle=":", label=here.legend)
    needed = curve.needed
    if needed is not None:
        ax.plot(needed.value, curve.wanted, "D", color=Y_COLOUR, label=needed.legend)
    ax.set(xlabel=curve.x_label, ylabel=curve.y_label, title=curve.title)
    ax.set(xscale="log", ylim=(0, 1.02))  # a line at a power of 1 stays whole
    ax.legend(frameon=False)
    return ax


def comparison_effects(comparison: Comparison, ax: Axes | None = None) -> Axes:
    """How far each sample is from the reference, with intervals of about 90 %.

    Dots are filled where the sample differs. Each sample is seen by a test of its own, which may
    have learned another kernel than the others.
    """
    distances = distances_of(comparison)
    ax = _axes(ax)
    for place, distance in enumerate(distances.samples):
        fill = X_COLOUR if distance.differs(distances.alpha) else "white"
        if distance.ends is not None:
            ax.plot(distance.ends, [place, place], color=X_COLOUR, linewidth=1.5, zorder=1)
        ax.plot(distance.value, place, "o", color=X_COLOUR, markerfacecolor=fill)
    ticks = [distance.tick for distance in distances.samples]
    ax.set_yticks(range(len(ticks)), ticks)
    ax.invert_yaxis()  # the first sample on top, as in a table
    ax.axvline(0, color=NEUTRAL, linestyle=":")
    ax.set(xlabel=distances.x_label, title=distances.title)
    return ax


def training_curve(result: TwoSampleResult, ax: Axes | None = None) -> Axes:
    """The objective on the batches of training, and on the validation points if there are any."""
    curve = training_of(result)
    ax = _axes(ax)
    batches = curve.batches
    ax.plot(batches.x, batches.y, color=X_COLOUR, linewidth=1, label=batches.name)
    validation = curve.validation
    if validation is not None:
        ax.plot(validation.x, validation.y, color=Y_COLOUR, linestyle="--", label=validation.name)
    kept = curve.kept
    if kept is not None:
        ax.axvline(kept.value, color=NEUTRAL, linestyle=":", label=kept.legend)
    ax.set(xlabel=curve.x_label, ylabel=curve.y_label, title=curve.title)
    ax.legend(frameon=False)
    return ax


def column_ranking(
    explanation: Explanation, ax: Axes | None = None, *, alpha: float = ALPHA, most: int = 20
) -> Axes:
    """The columns, most different first: importance as bars, adjusted p-values as text.

    Bars are filled where the column differs. A test that looks at single columns itself has no
    importances; bars then are log 1/p.
    """
    columns = explanation.ranked()[:most]
    if not columns:
        raise InputError("images have no columns to rank; see `image_grid`.")
    ax = _axes(ax)
    names = [column.name for column in columns]
    if explanation.importance_from is None:
        lengths = [column.statistic for column in columns]
        label = f"{explanation.symbol}, each column by itself"
    else:
        lengths = [column.importance_share or 0.0 for column in columns]
        label = "importance: share of the statistic that goes without it"
    bars = ax.barh(names, lengths, color=X_COLOUR, edgecolor=X_COLOUR)
    for bar, column in zip(bars, columns, strict=True):
        bar.set_fill(column.reject(alpha))  # the outline stays
    texts = [f"p = {format_pvalue(column.adjusted)}" for column in columns]
    ax.bar_label(bars, texts, padding=4)
    ax.invert_yaxis()  # the first column on top
    ax.margins(x=0.25)  # room for the p-values
    ax.set_xlabel(label)
    ax.set_title(f"Filled: p at most {alpha:g}")
    return ax


@takes_rng
def witness_map(
    explanation: Explanation,
    ax: Axes | None = None,
    *,
    most: int = 1500,
    rng: RNGLike | None = None,
) -> Axes:
    """At most `most` held-out points, coloured by the witness.

    Two columns of numbers are drawn as they are, anything else along the main axes of its features.
    """
    points = point_map(explanation, most=most, rng=rng)
    ax = _axes(ax)
    colours = _witness_colours()
    # The field is faint, so that points of the same colour are seen on it.
    if points.field is not None:
        field = points.field
        ax.contourf(
            field.x,
            field.y,
            field.values,
            points.levels,
            cmap=colours,
            alpha=0.4,
            extend="both",  # the first and the last colour hold what is far out as well
        )
    of_y = points.of_y
    for name, marker, chosen in (("X", "o", ~of_y), ("Y", "D", of_y)):
        x, y = points.positions[chosen].T
        ax.scatter(
            x,
            y,
            s=14,
            c=points.colours[chosen],
            cmap=colours,
            vmin=-1,
            vmax=1,
            marker=marker,
            edgecolors="black",
            linewidths=0.3,
            label=name,
        )
    _label_plane(ax, points)
    ax.set_title(points.title)
    ax.legend(frameon=False)
    return ax


@takes_rng
def kernel_contours(
    result: TwoSampleResult, ax: Axes | None = None, *, rng: RNGLike | None = None
) -> Axes:
    """Contours of the kernel around nine typical points, as in the paper's figure 1.

    They are drawn at 0.7, 0.8 and 0.9 of the value at the point, for data of two columns of
    numbers.
    """
    contours = kernel_contours_of(result, held_out_plane(result), rng=rng)
    ax = _axes(ax)
    points = contours.points
    of_y = points.of_y
    samples = (("X", "o", X_COLOUR, ~of_y), ("Y", "D", Y_COLOUR, of_y))
    for name, marker, colour, chosen in samples:
        x, y = points.positions[chosen].T
        ax.plot(x, y, marker, color=colour, markersize=2, alpha=0.35, label=name)
    for field in contours.fields:
        levels = field.crossed(contours.levels)
        if levels:
            ax.contour(field.x, field.y, field.values, levels, colors="black", linewidths=1)
    # The points that the contours are around.
    ax.plot(*contours.centres.T, "+", color="black")
    _label_plane(ax, points)
    ax.set_title(contours.title)
    ax.legend(frameon=False)
    return ax


def image_grid(explanation: Explanation, ax: Axes | None = None) -> Axes:
    """The most telling images: those of X above, those of Y below."""
    of_x = [row.pixels for row in explanation.rows_x if row.pixels is not None]
    of_y = [row.pixels for row in explanation.rows_y if row.pixels is not None]
    if not of_x or not of_y:
        raise InputError(
            "there are no images among the most telling rows; see `column_ranking` for tables."
        )
    ax = _axes(ax)
    shaded = shades([*of_x, *of_y])  # together, so that both have one scale
    count_x = len(of_x)
    columns = max(count_x, len(of_y))
    above = mosaic(shaded[:count_x], columns)
    below = mosaic(shaded[count_x:], columns)
    height = len(shaded[0])
    gap = np.full_like(above[: max(1, height // 6)], 255)  # white
    sheet = np.concatenate([above, gap, below])
    ax.imshow(sheet, cmap="gray", vmin=0, vmax=255)
    middle_x = height / 2
    middle_y = len(above) + len(gap) + height / 2
    ax.set_yticks([middle_x, middle_y], ["X", "Y"])
    # Pixels have no units.
    ax.set_xticks([])
    ax.spines[:].set_visible(False)
    ax.set_title("The most telling images, the most telling first")
    return ax


def _label_plane(ax: Axes, points: Scatter) -> None:
    # matplotlib's own limits would hold the far-out points, too.
    across, up = points.limits
    ax.set(xlim=across, ylim=up)
    x_label, y_label = points.axes
    ax.set(xlabel=x_label, ylabel=y_label)


def _witness_colours() -> Colormap:
    from matplotlib.colors import LinearSegmentedColormap

    # Grey between the two: there the witness is near 0 and says nothing.
    colours = [Y_COLOUR, "#eeeeee", X_COLOUR]
    return LinearSegmentedColormap.from_list("witness", colours)


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
    new: Any = plt.subplots(layout="constrained")[1]  # its type depends on how many were asked for
    return new  # type: ignore[no-any-return]
