"""The charts of a page, drawn as inline SVG; what they show is described in `charts` and `maps`.

What depends on the level alpha is drawn once for each level, in a group with `data-level`, and all
but one of these groups are hidden.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .charts import Distance, Distances, NullDistribution, PowerCurve, TrainingCurve, sizes_in_view
from .maps import Field, KernelContours, PointMap, Scatter
from .marginals import Densities, Shares
from .svg import (
    TEXT_ROW,
    Drawn,
    Panel,
    at_levels,
    element,
    horizontal,
    number,
    path,
    shortened,
    text,
    together,
    vertical,
)

_FLAGS = 2.4 * TEXT_ROW  # room above a chart for two lines of text
_MOST_CORNERS = 600  # of a training curve: more cannot be told apart on a screen
_DISTANCE_ROW = 34.0
_SHARE_ROW = 20.0


def null_chart(null: NullDistribution, levels: Sequence[float], alpha: float) -> Drawn:
    """The null distribution, the observed value and the threshold at each level."""
    thresholds = {level: null.threshold(level) for level in levels}
    # In view at every level, so that nothing but the threshold moves when a reader chooses one.
    across = null.x_limits(thresholds.values())
    highest = float(null.shares.max())
    panel = Panel.of(across, (0, highest), top=_FLAGS)
    flags = {}
    for level, mark in thresholds.items():
        flags[level] = "" if mark is None else panel.flag(mark, 1, "flag threshold")
    bars = element("g", _histogram(panel, null), class_="bars")
    return panel.picture(
        null.alt,
        bars,
        panel.x_axis(null.symbol),
        at_levels(flags, alpha),
        panel.flag(null.observed, 0, "flag observed"),
    )


def _histogram(panel: Panel, null: NullDistribution) -> Drawn:
    edges = panel.x(null.edges).tolist()
    tops = panel.y(null.shares).tolist()
    bars = []
    for left, right, top in zip(edges[:-1], edges[1:], tops, strict=True):
        height = panel.bottom - top
        if height <= 0:
            continue
        # Narrow bars would vanish behind a gap of one unit.
        gap = min(0.15 * (right - left), 1)
        width = right - left - gap
        bars.append(element("rect", x=left, y=top, width=width, height=height))
    return together(bars)


def power_chart(curves: Mapping[float, PowerCurve], alpha: float, unit: str) -> Drawn:
    """Predicted power over the rows or images tested, at each level."""
    sizes = sizes_in_view(curves.values())
    panel = Panel.of(sizes, (0.0, 1.0), left=40, top=_FLAGS, log=True)
    drawn = {level: _power_curve(panel, curve) for level, curve in curves.items()}
    shown = curves[alpha]
    return panel.picture(
        shown.alt(unit),
        panel.y_axis(ticks=[0, 0.25, 0.5, 0.75, 1]),
        panel.x_axis(shown.x_label_of(unit)),
        at_levels(drawn, alpha),
        panel.flag(shown.here, 0, "flag here"),
    )


def _power_curve(panel: Panel, curve: PowerCurve) -> Drawn:
    # Around the band: along its upper edge, and back along the lower one.
    around = np.concatenate([curve.sizes, curve.sizes[::-1]])
    edges = np.concatenate([curve.high, curve.low[::-1]])
    parts = [
        panel.area(around, edges, "band"),
        panel.curve(curve.sizes, curve.power, "line"),
    ]
    needed = curve.needed
    if needed is not None and needed.value <= panel.x.high:
        parts.append(panel.flag(needed, 1, "flag needed"))
    return together(parts)


def distance_chart(distances: Distances) -> Drawn:
    """How far each sample is from the reference: its name, a dot and its interval."""
    height = _DISTANCE_ROW * len(distances.samples) + 58
    panel = Panel.of(distances.x_limits, (0, 1), height=height, top=0)
    zero = panel.x.place(0)
    parts = [vertical(zero, 0.0, panel.bottom, "axis")]
    for place, distance in enumerate(distances.samples):
        middle = _DISTANCE_ROW * place + 25
        inside = _one_distance(panel, distance, middle)
        class_ = "distance"
        if distance.differs(distances.alpha):
            class_ = "distance differs"
        # The page's script fills and empties dots by their adjusted p-values.
        adjusted = repr(distance.adjusted)
        parts.append(element("g", inside, class_=class_, data_adjusted=adjusted))
    return panel.picture(distances.alt, *parts, panel.x_axis(distances.x_label))


def _one_distance(panel: Panel, distance: Distance, middle: float) -> Drawn:
    name = shortened(distance.name, 50)
    parts = [
        element("title", distance.in_words),
        text(name, panel.left + 4, middle - 11, "label"),
        horizontal(panel.left, panel.right, middle, "grid"),
    ]
    if distance.ends is not None:
        low, high = panel.x(distance.ends).tolist()
        parts.append(horizontal(low, high, middle, "whisker"))
    x = panel.x.place(distance.value)
    parts.append(element("circle", cx=x, cy=middle, r=5))
    return together(parts)


def training_chart(curve: TrainingCurve) -> Drawn:
    """The objective on batches, on validation points, and as a line on the held-out points."""
    panel = Panel.of((0, curve.steps), curve.y_limits, left=52)
    batches = curve.batches
    every = -(-curve.steps // _MOST_CORNERS)
    parts = [
        panel.y_axis(),
        panel.x_axis(curve.x_label),
        panel.curve(batches.x[::every], batches.y[::every], "line thin"),
    ]
    validation = curve.validation
    if validation is not None:
        parts.append(panel.curve(validation.x, validation.y, "line other"))
    if curve.held_out is not None:
        # It has no steps: the held-out points were looked at once, at the end.
        all_steps = [0, curve.steps]
        parts.append(panel.curve(all_steps, [curve.held_out] * 2, "line held-out"))
    return panel.picture(curve.alt, *parts)


# Columns.


def marginal_chart(marginal: Densities | Shares) -> Drawn:
    """One column in X and in Y: two densities, or two bars for each level."""
    if isinstance(marginal, Shares):
        return _share_chart(marginal.shown)
    return _density_chart(marginal)


def _density_chart(densities: Densities) -> Drawn:
    at = densities.at
    first = float(at[0])
    last = float(at[-1])
    up = (0, densities.highest)
    panel = Panel.of((first, last), up, width=300, height=150, bottom=26)
    parts = []
    for sample, density in (("x", densities.x), ("y", densities.y)):
        # Down to the axis at both ends, where a density need not be 0.
        parts.append(panel.area([first, *at, last], [0, *density, 0], f"area {sample}"))
        parts.append(panel.curve(at, density, f"line {sample}"))
    axis = panel.x_axis("", ticks=panel.x.ticks(4))
    return panel.picture(densities.alt, *parts, axis)


def _share_chart(shares: Shares) -> Drawn:
    across = (0, shares.highest)
    height = max(8 + _SHARE_ROW * len(shares.levels), 60)
    panel = Panel.of(across, (0, 1), width=300, height=height, left=92, right=64, bottom=4)
    parts = []
    rows = zip(shares.levels, shares.x.tolist(), shares.y.tolist(), strict=True)
    for place, (level, in_x, in_y) in enumerate(rows):
        top = 6.0 + _SHARE_ROW * place
        baseline = top + 12
        end = panel.x.place(max(in_x, in_y))
        both = f"{100 * in_x:.0f} / {100 * in_y:.0f} %"
        parts += [
            text(shortened(level, 12), 86.0, baseline, "tick", anchor="end"),
            _share_bar(panel, in_x, top, "bar x"),
            _share_bar(panel, in_y, top + 8, "bar y"),
            text(both, end + 5, baseline, "tick"),
        ]
    return panel.picture(shares.alt, *parts)


def _share_bar(panel: Panel, share: float, top: float, class_: str) -> Drawn:
    # A share of 0 is a thin line, not nothing.
    width = max(panel.x.place(share) - panel.left, 0.5)
    return element("rect", x=panel.left, y=top, width=width, height=7.0, class_=class_)


# Maps.


def map_chart(points: PointMap, **attributes: object) -> Drawn:
    """Points coloured by the witness, circles for X and diamonds for Y, on its field if any."""
    panel = _map_panel(points, in_plane=points.in_plane)
    parts = []
    if points.field is not None:
        parts.append(_witness_bands(panel, points, points.field))
    shown = zip(_places(panel, points), points.of_y, points.classes, points.inside, strict=True)
    for (x, y), of_y, shade, inside in shown:
        if not inside:
            continue
        # Shapes differ as well as colours, for those who cannot tell the colours apart.
        shape = _diamond(x, y) if of_y else _circle(x, y, 3)
        parts.append(path(shape, f"w{shade}"))
    axes = _plane_axes(panel, points) if points.in_plane else _feature_frame(panel, points)
    dots = element("g", *parts, class_="points")
    return panel.picture(points.alt, axes, dots, **attributes)


def map_places(points: PointMap) -> list[tuple[float, float]]:
    """Where `map_chart` puts the points, in its units."""
    panel = _map_panel(points, in_plane=points.in_plane)
    return [(round(x, 1), round(y, 1)) for x, y in _places(panel, points)]


def contour_chart(contours: KernelContours) -> Drawn:
    """Contours of the kernel around its centres, with the points of both samples."""
    points = contours.points
    panel = _map_panel(points, in_plane=True)
    parts = []
    shown = zip(_places(panel, points), points.of_y, points.inside, strict=True)
    for (x, y), of_y, inside in shown:
        if inside:
            parts.append(path(_circle(x, y, 2), "dot y" if of_y else "dot x"))
    for field in contours.fields:
        levels = field.crossed(contours.levels)
        lines = _contour_lines(panel, field, levels)
        parts += [path(line, "contour") for line in lines]
    across, up = contours.centres.T
    for x, y in zip(panel.x(across).tolist(), panel.y(up).tolist(), strict=True):
        parts.append(path(_cross(x, y), "contour"))
    return panel.picture(contours.alt, _plane_axes(panel, points), *parts)


def _map_panel(points: Scatter, *, in_plane: bool) -> Panel:
    across, up = points.limits
    if in_plane:
        return Panel.of(across, up, height=450, left=46, top=26, bottom=48)
    return Panel.of(across, up, height=420, left=1, right=1, top=1, bottom=30)


def _plane_axes(panel: Panel, points: Scatter) -> Drawn:
    across, up = points.axes
    label = f"↑ {shortened(up, 50)}"
    # Above the axis: turned by 90 degrees beside it, a long name would be hard to read.
    up_label = text(label, panel.left - 6, 14.0, "label")
    return together([panel.x_axis(shortened(across, 50)), panel.y_axis(), up_label])


def _feature_frame(panel: Panel, points: PointMap) -> Drawn:
    """A frame without ticks: the units of features mean nothing."""
    top = panel.y.end
    frame = element(
        "rect",
        x=panel.left,
        y=top,
        width=panel.right - panel.left,
        height=panel.bottom - top,
        rx=6,
        class_="frame",
    )
    across = f"{points.axes[0]} →"
    return together([frame, text(across, panel.right, panel.height - 8, "label", anchor="end")])


def _places(panel: Panel, points: Scatter) -> list[tuple[float, float]]:
    across, up = points.positions.T
    return list(zip(panel.x(across).tolist(), panel.y(up).tolist(), strict=True))


def _circle(x: float, y: float, radius: int) -> str:
    """A circle as a path, which a style sheet treats like a diamond."""
    left = number(x - radius)
    half = f"a{radius} {radius} 0 1 0"
    return f"M{left} {number(y)}{half} {2 * radius} 0{half}-{2 * radius} 0"


def _diamond(x: float, y: float) -> str:
    top = number(y - 4)
    return f"M{number(x)} {top}l4 4-4 4-4-4z"


def _cross(x: float, y: float) -> str:
    left = number(x - 4)
    top = number(y - 4)
    return f"M{left} {number(y)}h8M{number(x)} {top}v8"


def _witness_bands(panel: Panel, points: PointMap, field: Field) -> Drawn:
    """The field as filled contours, in the classes of the points."""
    edges = points.levels
    # The first and the last class have no end: they hold what is far out as well.
    edges[0] = min(edges[0], field.values.min()) - 1e-12
    edges[-1] = max(edges[-1], field.values.max()) + 1e-12
    regions = _filled_regions(panel, field, edges.tolist())
    bands = [path(region, f"field w{shade}") for shade, region in enumerate(regions) if region]
    return together(bands)


# matplotlib finds the contours; drawing them is a matter of the page.


def _filled_regions(panel: Panel, field: Field, edges: Sequence[float]) -> list[str]:
    """For each gap between edges the region where the field lies in it, as an outline."""
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    contours = axes.contourf(field.x, field.y, field.values, edges)
    return [_outline(panel, region, close=True) for region in contours.get_paths()]


def _contour_lines(panel: Panel, field: Field, levels: Sequence[float]) -> list[str]:
    """For each level the contour of the field, as an outline."""
    if not levels:
        return []
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    contours = axes.contour(field.x, field.y, field.values, levels)
    return [_outline(panel, line, close=False) for line in contours.get_paths()]


def _outline(panel: Panel, drawn_path: Any, *, close: bool) -> str:
    """One of matplotlib's paths, which may have several rings."""
    outline = ""
    for ring in drawn_path.to_polygons(closed_only=False):
        if len(ring) > 1:
            x, y = np.asarray(ring).T
            outline += panel.outline(x, y, close=close)
    return outline
