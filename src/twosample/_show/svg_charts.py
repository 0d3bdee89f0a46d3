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
from .svg import TEXT_ROW, Drawn, Panel, at_levels, element, number, shortened, together

_MOST_CORNERS = 600  # of a training curve: more cannot be told apart on a screen
_DISTANCE_ROW = 34.0
_SHARE_ROW = 20.0


def null_chart(null: NullDistribution, levels: Sequence[float], alpha: float) -> Drawn:
    """The null distribution, the observed value and the threshold at each level."""
    thresholds = {level: null.threshold(level) for level in levels}
    highest = float(null.shares.max())
    panel = Panel.of(null.x_limits(thresholds.values()), (0, highest), top=2.4 * TEXT_ROW)
    flags = {}
    for level, mark in thresholds.items():
        flags[level] = "" if mark is None else panel.flag(mark, 1, "flag threshold")
    return panel.picture(
        null.alt,
        element("g", _histogram(panel, null), class_="bars"),
        panel.x_axis(null.symbol),
        at_levels(flags, alpha),
        panel.flag(null.observed, 0, "flag observed"),
    )


def _histogram(panel: Panel, null: NullDistribution) -> Drawn:
    edges = panel.x(null.edges).tolist()
    tops = panel.y(null.shares).tolist()
    bottom = panel.y.start
    bars = []
    for left, right, top in zip(edges[:-1], edges[1:], tops, strict=True):
        if bottom - top <= 0:
            continue
        gap = min(0.15 * (right - left), 1)  # narrow bars would vanish behind a gap of one unit
        width = right - left - gap
        bars.append(element("rect", x=left, y=top, width=width, height=bottom - top))
    return together(bars)


def power_chart(curves: Mapping[float, PowerCurve], alpha: float, unit: str) -> Drawn:
    """Predicted power over the rows or images tested, at each level."""
    panel = Panel.of(
        sizes_in_view(curves.values()), (0.0, 1.0), left=40, top=2.4 * TEXT_ROW, log=True
    )
    shown = curves[alpha]
    return panel.picture(
        shown.alt(unit),
        panel.y_axis(ticks=[0, 0.25, 0.5, 0.75, 1]),
        panel.x_axis(shown.x_label_of(unit)),
        at_levels({level: _power_curve(panel, curve) for level, curve in curves.items()}, alpha),
        panel.flag(shown.here, 0, "flag here"),
    )


def _power_curve(panel: Panel, curve: PowerCurve) -> Drawn:
    # Around the band: along its upper edge, and back along the lower one.
    around = np.concatenate([curve.sizes, curve.sizes[::-1]])
    band = np.concatenate([curve.high, curve.low[::-1]])
    parts = [
        element("path", d=panel.path(around, band, close=True), class_="band"),
        element("path", d=panel.path(curve.sizes, curve.power), class_="line"),
    ]
    if curve.needed is not None and curve.needed.value <= panel.x.high:
        parts.append(panel.flag(curve.needed, 1, "flag needed"))
    return together(parts)


def distance_chart(distances: Distances) -> Drawn:
    """How far each sample is from the reference: its name, a dot and its interval."""
    height = _DISTANCE_ROW * len(distances.samples) + 58
    panel = Panel.of(distances.x_limits, (0, 1), height=height, top=0)
    zero = panel.x.place(0)
    parts = [element("line", x1=zero, x2=zero, y1=0.0, y2=panel.y.start, class_="axis")]
    for place, distance in enumerate(distances.samples):
        middle = _DISTANCE_ROW * place + 25
        class_ = "distance differs" if distance.differs(distances.alpha) else "distance"
        # The page's script fills and empties dots by their adjusted p-values.
        adjusted = repr(distance.adjusted)
        inside = _one_distance(panel, distance, middle)
        parts.append(element("g", inside, class_=class_, data_adjusted=adjusted))
    return panel.picture(distances.alt, *parts, panel.x_axis(distances.x_label))


def _one_distance(panel: Panel, distance: Distance, middle: float) -> Drawn:
    left = panel.x.start
    name = shortened(distance.name, 50)
    parts = [
        element("title", distance.in_words),
        element("text", name, x=left + 4, y=middle - 11, class_="label"),
        element("line", x1=left, x2=panel.x.end, y1=middle, y2=middle, class_="grid"),
    ]
    if distance.ends is not None:
        low, high = panel.x(distance.ends).tolist()
        parts.append(element("line", x1=low, x2=high, y1=middle, y2=middle, class_="whisker"))
    parts.append(element("circle", cx=panel.x.place(distance.value), cy=middle, r=5))
    return together(parts)


def training_chart(curve: TrainingCurve) -> Drawn:
    """The objective on batches, on validation points, and as a line on the held-out points."""
    panel = Panel.of((0, curve.steps), curve.y_limits, left=52)
    every = -(-curve.steps // _MOST_CORNERS)
    batches = panel.path(curve.batches.x[::every], curve.batches.y[::every])
    parts = [
        panel.y_axis(),
        panel.x_axis(curve.x_label),
        element("path", d=batches, class_="line thin"),
    ]
    if curve.validation is not None:
        validation = panel.path(curve.validation.x, curve.validation.y)
        parts.append(element("path", d=validation, class_="line other"))
    if curve.held_out is not None:
        across = panel.path([0, curve.steps], [curve.held_out, curve.held_out])
        parts.append(element("path", d=across, class_="line held-out"))
    return panel.picture(curve.alt, *parts)


# Columns.


def marginal_chart(marginal: Densities | Shares) -> Drawn:
    """One column in X and in Y: two densities, or two bars for each level."""
    if isinstance(marginal, Shares):
        return _share_chart(marginal.shown)
    at = marginal.at
    panel = Panel.of(
        (float(at[0]), float(at[-1])), (0, marginal.highest), width=300, height=150, bottom=26
    )
    parts = []
    for sample, density in (("x", marginal.x), ("y", marginal.y)):
        area = panel.path([at[0], *at, at[-1]], [0, *density, 0], close=True)
        parts.append(element("path", d=area, class_=f"area {sample}"))
        parts.append(element("path", d=panel.path(at, density), class_=f"line {sample}"))
    return panel.picture(marginal.alt, *parts, panel.x_axis("", ticks=panel.x.ticks(4)))


def _share_chart(shares: Shares) -> Drawn:
    height = max(8 + _SHARE_ROW * len(shares.levels), 60)
    panel = Panel.of(
        (0, shares.highest), (0, 1), width=300, height=height, left=92, right=64, bottom=4
    )
    parts = []
    rows = zip(shares.levels, shares.x.tolist(), shares.y.tolist(), strict=True)
    for place, (level, in_x, in_y) in enumerate(rows):
        top = 6.0 + _SHARE_ROW * place
        name = shortened(level, 12)
        both = f"{100 * in_x:.0f} / {100 * in_y:.0f} %"
        end = panel.x.place(max(in_x, in_y))
        parts += [
            element("text", name, x=86.0, y=top + 12, text_anchor="end", class_="tick"),
            _share_bar(panel, in_x, top, "bar x"),
            _share_bar(panel, in_y, top + 8, "bar y"),
            element("text", both, x=end + 5, y=top + 12, class_="tick"),
        ]
    return panel.picture(shares.alt, *parts)


def _share_bar(panel: Panel, share: float, top: float, class_: str) -> Drawn:
    left = panel.x.start
    width = max(panel.x.place(share) - left, 0.5)  # a share of 0 is a thin line, not nothing
    return element("rect", x=left, y=top, width=width, height=7.0, class_=class_)


# Maps.


def map_chart(points: PointMap, **attributes: object) -> Drawn:
    """Points coloured by the witness, circles for X and diamonds for Y, on its field if any."""
    panel = _map_panel(points, in_plane=points.in_plane)
    parts = [] if points.field is None else [_witness_bands(panel, points, points.field)]
    shown = zip(_places(panel, points), points.of_y, points.classes, points.inside, strict=True)
    for (x, y), of_y, shade, inside in shown:
        if inside:
            shape = _diamond(x, y) if of_y else _circle(x, y, 3)
            parts.append(element("path", d=shape, class_=f"w{shade}"))
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
    for (x, y), of_y, inside in zip(
        _places(panel, points), points.of_y, points.inside, strict=True
    ):
        if inside:
            class_ = "dot y" if of_y else "dot x"
            parts.append(element("path", d=_circle(x, y, 2), class_=class_))
    for field in contours.fields:
        lines = _contour_lines(panel, field, field.crossed(contours.levels))
        parts += [element("path", d=line, class_="contour") for line in lines]
    across, up = contours.centres.T
    for x, y in zip(panel.x(across).tolist(), panel.y(up).tolist(), strict=True):
        parts.append(element("path", d=_cross(x, y), class_="contour"))
    return panel.picture(contours.alt, _plane_axes(panel, points), *parts)


def _map_panel(points: Scatter, *, in_plane: bool) -> Panel:
    across, up = points.limits
    if in_plane:
        return Panel.of(across, up, height=450, left=46, top=26, bottom=48)
    return Panel.of(across, up, height=420, left=1, right=1, top=1, bottom=30)


def _plane_axes(panel: Panel, points: Scatter) -> Drawn:
    across, up = points.axes
    label = f"↑ {shortened(up, 50)}"
    up_label = element("text", label, x=panel.x.start - 6, y=14.0, class_="label")
    return together([panel.x_axis(shortened(across, 50)), panel.y_axis(), up_label])


def _feature_frame(panel: Panel, points: PointMap) -> Drawn:
    """A frame without ticks: the units of features mean nothing."""
    left = panel.x.start
    right = panel.x.end
    top = panel.y.end
    size = {"width": right - left, "height": panel.y.start - top}
    frame = element("rect", x=left, y=top, **size, rx=6, class_="frame")
    text = f"{points.axes[0]} →"
    label = element("text", text, x=right, y=panel.height - 8, text_anchor="end", class_="label")
    return together([frame, label])


def _places(panel: Panel, points: Scatter) -> list[tuple[float, float]]:
    across, up = points.positions.T
    return list(zip(panel.x(across).tolist(), panel.y(up).tolist(), strict=True))


def _circle(x: float, y: float, radius: int) -> str:
    """A circle as a path, which takes fewer characters beside thousands of others."""
    half = f"a{radius} {radius} 0 1 0"
    return f"M{number(x - radius)} {number(y)}{half} {2 * radius} 0{half}-{2 * radius} 0"


def _diamond(x: float, y: float) -> str:
    return f"M{number(x)} {number(y - 4)}l4 4-4 4-4-4z"


def _cross(x: float, y: float) -> str:
    return f"M{number(x - 4)} {number(y)}h8M{number(x)} {number(y - 4)}v8"


def _witness_bands(panel: Panel, points: PointMap, field: Field) -> Drawn:
    """The field as filled contours, in the classes of the points."""
    edges = points.levels
    # The first and the last class have no end: they hold what is far out as well.
    edges[0] = min(edges[0], field.values.min()) - 1e-12
    edges[-1] = max(edges[-1], field.values.max()) + 1e-12
    bands = []
    for shade, region in enumerate(_filled_regions(panel, field, edges.tolist())):
        if region:
            bands.append(element("path", d=region, class_=f"field w{shade}"))
    return together(bands)


def _filled_regions(panel: Panel, field: Field, edges: Sequence[float]) -> list[str]:
    """For each gap between edges the region where the field lies in it, as a path."""
    from matplotlib.figure import Figure

    contours = Figure().add_subplot().contourf(field.x, field.y, field.values, edges)
    return [_rings(panel, path, close=True) for path in contours.get_paths()]


def _contour_lines(panel: Panel, field: Field, levels: Sequence[float]) -> list[str]:
    """For each level the contour of the field, as a path."""
    if not levels:
        return []
    from matplotlib.figure import Figure

    contours = Figure().add_subplot().contour(field.x, field.y, field.values, levels)
    return [_rings(panel, path, close=False) for path in contours.get_paths()]


def _rings(panel: Panel, path: Any, *, close: bool) -> str:
    """One of matplotlib's paths, which may have several parts."""
    rings = [np.asarray(ring) for ring in path.to_polygons(closed_only=False)]
    return "".join(panel.path(*ring.T, close=close) for ring in rings if len(ring) > 1)
