"""The charts of a page, drawn as inline SVG; what they show is described in `charts` and `maps`.

What depends on the level alpha is drawn once for each level, in a group with `data-level`, and all
but one of these groups are hidden.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._data.tables import cut_in_the_middle
from .charts import Distance, Distances, NullDistribution, PowerCurve, TrainingCurve, sizes_in_view
from .maps import Field, KernelContours, PointMap, Scatter
from .marginals import Densities, Shares
from .pairs import Grid
from .svg import TEXT_ROW, Canvas, Drawn, Point, number
from .timeline import Timeline

# Lengths are in units of the picture, which is as wide as the page allows.
_FLAGS = 2.4 * TEXT_ROW  # room above a chart for two lines of text
_MOST_CORNERS = 600  # of a training curve: more cannot be told apart on a screen
_DISTANCE_ROW = 34.0
_MOST_NAMED = 12  # samples that are named one below the other
_SHARE_ROW = 20.0
_GRID_ROW = 26.0
_GRID_TOP = 44.0  # room for the names of columns and levels


def null_chart(null: NullDistribution, levels: Sequence[float], alpha: float) -> Drawn:
    """The null distribution, the observed value and the threshold at each level."""
    thresholds = {level: null.threshold(level) for level in levels}
    # All of them are in view, so that only the threshold moves when a reader chooses a level.
    across = null.x_limits(thresholds.values(), broken=True)
    highest = float(null.shares.max())
    canvas = Canvas(across, (0, highest), top=_FLAGS)
    with canvas.group(class_="bars"):
        _draw_histogram(canvas, null)
    observed = null.observed
    if null.is_far:
        # The observed value stands at the end of an axis that is broken before it.
        width = across[1] - across[0]
        observed = replace(observed, value=across[1] - 0.04 * width)
        ticks = [tick for tick in canvas.x.ticks() if tick <= across[1] - 0.3 * width]
        canvas.x_axis(null.x_label, ticks=ticks)
        gap = canvas.x.place(across[1] - 0.14 * width)
        canvas.text("//", gap, canvas.bottom + 5, "break", anchor="middle")
        value = f"{null.observed.value:.3g}"
        place = canvas.x.place(observed.value)
        canvas.text(value, place, canvas.bottom + 18, "tick", anchor="middle")
    else:
        canvas.x_axis(null.x_label)
    for level, mark in thresholds.items():
        with canvas.level(level, shown=alpha):
            if mark is not None:
                canvas.flag(mark, 1, "flag threshold")
    canvas.flag(observed, 0, "flag observed")
    return canvas.picture(null.alt)


def _draw_histogram(canvas: Canvas, null: NullDistribution) -> None:
    edges = canvas.x(null.edges)
    lefts = edges[:-1].tolist()
    rights = edges[1:].tolist()
    tops = canvas.y(null.shares).tolist()
    for left, right, top in zip(lefts, rights, tops, strict=True):
        height = canvas.bottom - top
        if height <= 0:
            continue
        # Narrow bars would vanish behind a gap of one unit.
        width = right - left
        gap = min(0.15 * width, 1)
        canvas.add(
            "rect",
            x=left,
            y=top,
            width=width - gap,
            height=height,
        )


def power_chart(
    curves: Mapping[float, PowerCurve], alpha: float, unit: str, names: tuple[str, str]
) -> Drawn:
    """Predicted power over the rows or images tested, at each level."""
    sizes = sizes_in_view(curves.values())
    shown = curves[alpha]
    canvas = Canvas(sizes, (0.0, 1.0), left=40, top=_FLAGS, log=True)
    canvas.y_axis(ticks=[0, 0.25, 0.5, 0.75, 1])
    x, y = (cut_in_the_middle(name, 16) for name in names)
    canvas.x_axis(shown.x_label_of(unit, (x, y)))
    for level, curve in curves.items():
        with canvas.level(level, shown=alpha):
            _draw_power(canvas, curve)
    canvas.flag(shown.here, 0, "flag here")
    return canvas.picture(shown.alt(unit, names[0]))


def _draw_power(canvas: Canvas, curve: PowerCurve) -> None:
    # Around the band: along its upper edge, and back along the lower one.
    sizes = curve.sizes
    there_and_back = [*sizes, *sizes[::-1]]
    edges = [*curve.high, *curve.low[::-1]]
    canvas.area(there_and_back, edges, "band")
    canvas.curve(sizes, curve.power, "line")
    needed = curve.needed
    # It may lie far beyond the sizes that are in view.
    if needed is not None and needed.value <= canvas.x.high:
        canvas.flag(needed, 1, "flag needed")


def distance_chart(distances: Distances) -> Drawn:
    """How far each sample is from the reference: its name, a dot and its interval."""
    if len(distances.samples) > _MOST_NAMED:
        return _distances_in_order(distances)
    height = _DISTANCE_ROW * len(distances.samples) + 58
    canvas = Canvas(distances.x_limits, (0, 1), height=height, top=0)
    # From the reference itself, which is at a distance of 0.
    canvas.vertical(canvas.x.place(distances.origin), 0.0, canvas.bottom, "axis")
    for place, distance in enumerate(distances.samples):
        middle = _DISTANCE_ROW * place + 25
        class_ = "distance"
        if distance.differs(distances.alpha):
            class_ = "distance differs"
        # The script of the page fills and empties dots by their adjusted p-values.
        with canvas.group(class_=class_, data_adjusted=repr(distance.adjusted)):
            _draw_distance(canvas, distance, middle)
    canvas.x_axis(distances.x_label)
    return canvas.picture(distances.alt)


def _distances_in_order(distances: Distances) -> Drawn:
    """The same for many samples: one after another across, with the names of a few of them."""
    samples = distances.samples
    canvas = Canvas((-0.5, len(samples) - 0.5), distances.x_limits, left=44, top=22)
    canvas.y_axis()
    canvas.horizontal(canvas.left, canvas.right, canvas.y.place(distances.origin), "axis")
    for place, distance in enumerate(samples):
        class_ = "distance differs" if distance.differs(distances.alpha) else "distance"
        with canvas.group(class_=class_, data_adjusted=repr(distance.adjusted)):
            canvas.add("title", distance.in_words)
            x = canvas.x.place(place)
            if distance.ends is not None:
                low, high = canvas.y(distance.ends).tolist()
                canvas.vertical(x, high, low, "whisker")
            canvas.add("circle", cx=x, cy=canvas.y.place(distance.value), r=4)
    _name_some(canvas, [distance.name for distance in samples])
    canvas.text(f"↑ {distances.x_label}", canvas.left - 6, 12.0, "label")
    return canvas.picture(distances.alt)


def timeline_chart(timeline: Timeline, alpha: float, highest: float) -> Drawn:
    """The effects of one column over all samples; dots are filled where it differs.

    `highest` is where the axis ends: the same for all columns, so that noise looks small.
    """
    moments = timeline.moments
    canvas = Canvas(
        (-0.5, len(moments) - 0.5),
        (0, highest),
        width=300,
        height=150,
        left=34,
        right=8,
        bottom=26,
    )
    canvas.y_axis(ticks=canvas.y.ticks(3))
    known = [place for place, each in enumerate(moments) if math.isfinite(each.effect)]
    if known:
        canvas.curve(known, [moments[place].effect for place in known], "line thin")
    for place in known:
        moment = moments[place]
        class_ = "distance differs" if moment.adjusted <= alpha else "distance"
        with canvas.group(class_=class_, data_adjusted=repr(moment.adjusted)):
            canvas.add("title", f"{moment.sample}: {moment.sentence}")
            canvas.add("circle", cx=canvas.x.place(place), cy=canvas.y.place(moment.effect), r=3.5)
    _name_some(canvas, [moment.sample for moment in moments], count=2)
    return canvas.picture(timeline.alt(alpha))


def _name_some(canvas: Canvas, names: Sequence[str], count: int = 3) -> None:
    """The names of the first sample, the last one, and those between them for which there is room.

    `count` is how many there are in all.
    """
    canvas.horizontal(canvas.left, canvas.right, canvas.bottom, "axis")
    places = np.linspace(0, len(names) - 1, min(count, len(names))).round().astype(int)
    last = len(names) - 1
    for place in places.tolist():
        x = canvas.x.place(place)
        canvas.vertical(x, canvas.bottom, canvas.bottom + 4, "axis")
        anchor = "start" if place == 0 else "end" if place == last else "middle"
        name = cut_in_the_middle(names[place], 18)
        canvas.text(name, x, canvas.bottom + 18, "tick", anchor=anchor)


def _draw_distance(canvas: Canvas, distance: Distance, middle: float) -> None:
    canvas.add("title", distance.in_words)
    name = cut_in_the_middle(distance.name, 50)
    canvas.text(name, canvas.left + 4, middle - 11, "label")
    canvas.horizontal(canvas.left, canvas.right, middle, "grid")
    if distance.ends is not None:
        low, high = canvas.x(distance.ends).tolist()
        canvas.horizontal(low, high, middle, "whisker")
    x = canvas.x.place(distance.value)
    canvas.add("circle", cx=x, cy=middle, r=5)


def training_chart(curve: TrainingCurve) -> Drawn:
    """The objective on batches, on validation points, and as a line on the held-out points."""
    canvas = Canvas((0, curve.steps), curve.y_limits, left=52)
    canvas.y_axis()
    canvas.x_axis(curve.x_label)
    batches = curve.batches
    every = math.ceil(curve.steps / _MOST_CORNERS)
    steps = batches.x[::every]
    values = batches.y[::every]
    canvas.curve(steps, values, "line thin")
    validation = curve.validation
    if validation is not None:
        canvas.curve(validation.x, validation.y, "line other")
    if curve.held_out is not None:
        # Across all steps: the held-out points were looked at once, after the last of them.
        value = curve.held_out
        canvas.curve([0, curve.steps], [value, value], "line held-out")
    return canvas.picture(curve.alt)


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
    canvas = Canvas(
        (first, last),
        (0, densities.highest),
        width=300,
        height=150,
        bottom=26,
    )
    for sample, density in (("x", densities.x), ("y", densities.y)):
        # Down to the axis at both ends, where a density need not be 0.
        closed_at = [first, *at, last]
        closed = [0, *density, 0]
        canvas.area(closed_at, closed, f"area {sample}")
        canvas.curve(at, density, f"line {sample}")
    canvas.x_axis("", ticks=canvas.x.ticks(4))
    return canvas.picture(densities.alt)


def _share_chart(shares: Shares) -> Drawn:
    height = max(8 + _SHARE_ROW * len(shares.levels), 60)
    canvas = Canvas(
        (0, shares.highest),
        (0, 1),
        width=300,
        height=height,
        left=92,  # room for the levels
        right=64,  # room for the numbers
        bottom=4,
    )
    for place, level in enumerate(shares.levels):
        in_x = float(shares.x[place])
        in_y = float(shares.y[place])
        top = 6.0 + _SHARE_ROW * place
        baseline = top + 12
        canvas.text(cut_in_the_middle(level, 12), 86.0, baseline, "tick", anchor="end")
        _draw_share(canvas, in_x, top, "bar x")
        _draw_share(canvas, in_y, top + 8, "bar y")
        both = f"{100 * in_x:.0f} / {100 * in_y:.0f} %"
        end = canvas.x.place(max(in_x, in_y))
        canvas.text(both, end + 5, baseline, "tick")
    return canvas.picture(shares.alt)


def _draw_share(canvas: Canvas, share: float, top: float, class_: str) -> None:
    length = canvas.x.place(share) - canvas.left
    width = max(length, 0.5)  # a share of 0 is a thin line, not nothing
    canvas.add(
        "rect",
        x=canvas.left,
        y=top,
        width=width,
        height=7.0,
        class_=class_,
    )


# Pairs of columns.


def pair_charts(pair: Scatter | Grid, names: tuple[str, str]) -> list[tuple[str, Drawn]]:
    """The two columns in X and in Y, each with the name of the sample."""
    charts = []
    for sample, name in enumerate(names):
        if isinstance(pair, Grid):
            charts.append((name, _grid_chart(pair, sample, name)))
        else:
            charts.append((name, _cloud_chart(pair, sample, name)))
    return charts


def _cloud_chart(pair: Scatter, sample: int, name: str) -> Drawn:
    """The points of one sample. Both have the same axes, so that they can be compared."""
    across, up = pair.limits
    canvas = Canvas(across, up, width=300, height=240, left=40, right=8, top=22, bottom=40)
    canvas.x_axis(cut_in_the_middle(pair.axes[0], 34), ticks=canvas.x.ticks(4))
    canvas.y_axis()
    canvas.text(f"↑ {cut_in_the_middle(pair.axes[1], 34)}", canvas.left - 6, 12.0, "label")
    shown = (pair.of_y == bool(sample)) & pair.inside
    dots = [_circle(x, y, 2) for x, y in canvas.places(*pair.positions[shown].T)]
    canvas.path("".join(dots), f"dot {'xy'[sample]}")
    first, second = pair.axes
    return canvas.picture(f"{first} across and {second} up, in {name}: {int(shown.sum())} points.")


def _grid_chart(grid: Grid, sample: int, name: str) -> Drawn:
    """A table of shares, the darker the larger; each line adds up to all of its rows."""
    shares = (grid.x, grid.y)[sample]
    lines, cells = shares.shape
    height = _GRID_TOP + _GRID_ROW * lines
    canvas = Canvas((0, cells), (0, 1), width=300, height=height, left=78, right=4, bottom=0)
    first, second = (cut_in_the_middle(text, 22) for text in grid.names)
    canvas.text(f"{first} ↓", 0.0, _GRID_TOP - 8, "label")
    canvas.text(f"{second} →", canvas.left, 12.0, "label")
    for cell, text in enumerate(grid.cells):
        middle = canvas.x.place(cell + 0.5)
        short = cut_in_the_middle(text, max(7, 36 // cells))
        canvas.text(short, middle, _GRID_TOP - 8, "tick small", anchor="middle")
    told = []
    for line, text in enumerate(grid.lines):
        top = _GRID_TOP + _GRID_ROW * line
        baseline = top + 17
        canvas.text(cut_in_the_middle(text, 11), canvas.left - 6, baseline, "tick", anchor="end")
        in_line = [f"{100 * share:.0f} %" for share in shares[line].tolist()]
        for cell, percent in enumerate(in_line):
            left = canvas.x.place(cell)
            canvas.add(
                "rect",
                x=left + 1,
                y=top + 1,
                width=canvas.x.place(cell + 1) - left - 2,
                height=_GRID_ROW - 2,
                class_=f"cell {'xy'[sample]}",
                style=f"--share:{shares[line, cell]:.3f}",
            )
            middle = canvas.x.place(cell + 0.5)
            canvas.text(percent, middle, baseline, "tick", anchor="middle")
        told.append(f"{text}: {', '.join(in_line)}")
    listed = "; ".join(told)
    return canvas.picture(f"Shares of {grid.names[1]} within {grid.names[0]}, {name}: {listed}.")


# Maps.


def map_chart(points: PointMap, **attributes: object) -> Drawn:
    """Points coloured by the witness, circles for X and diamonds for Y, on its field if any."""
    canvas = _map_canvas(points)
    if points.in_plane:
        _draw_plane_axes(canvas, points)
    else:
        _draw_frame(canvas, points)
    with canvas.group(class_="points"):
        if points.field is not None:
            _draw_witness(canvas, points, points.field)
        places = map_places(points)
        classes = points.classes
        for point in np.flatnonzero(points.inside):
            x, y = places[point]
            # Shapes differ as well as colours, for those who cannot tell the colours apart.
            shape = _diamond(x, y) if points.of_y[point] else _circle(x, y, 3)
            canvas.path(shape, f"w{classes[point]}")
    return canvas.picture(points.alt, **attributes)


def map_places(points: PointMap) -> list[Point]:
    """Where `map_chart` puts the points, in its units."""
    across, up = points.positions.T
    return _map_canvas(points).places(across, up)


def contour_chart(contours: KernelContours) -> Drawn:
    """Contours of the kernel around its centres, with the points of both samples."""
    points = contours.points
    canvas = _plane_canvas(points)
    _draw_plane_axes(canvas, points)
    inside = points.inside
    for sample, chosen in (("x", ~points.of_y), ("y", points.of_y)):
        across, up = points.positions[chosen & inside].T
        for x, y in canvas.places(across, up):
            canvas.path(_circle(x, y, 2), f"dot {sample}")
    for field in contours.fields:
        levels = field.crossed(contours.levels)
        for line in _contour_lines(canvas, field, levels):
            canvas.path(line, "contour")
    across, up = contours.centres.T
    for x, y in canvas.places(across, up):
        canvas.path(_cross(x, y), "contour")
    return canvas.picture(contours.alt)


def _map_canvas(points: PointMap) -> Canvas:
    if points.in_plane:
        return _plane_canvas(points)
    across, up = points.limits
    return Canvas(
        across,
        up,
        height=420,
        left=1,
        right=1,
        top=1,
        bottom=30,
    )


def _plane_canvas(points: Scatter) -> Canvas:
    across, up = points.limits
    return Canvas(across, up, height=450, left=46, top=26, bottom=48)


def _draw_plane_axes(canvas: Canvas, points: Scatter) -> None:
    across, up = points.axes
    canvas.x_axis(cut_in_the_middle(across, 50))
    canvas.y_axis()
    # Above the axis: turned by 90 degrees beside it, a long name would be hard to read.
    name = cut_in_the_middle(up, 50)
    canvas.text(f"↑ {name}", canvas.left - 6, 14.0, "label")


def _draw_frame(canvas: Canvas, points: PointMap) -> None:
    """A frame without ticks: the units of features mean nothing."""
    canvas.add(
        "rect",
        x=canvas.left,
        y=canvas.top,
        width=canvas.right - canvas.left,
        height=canvas.bottom - canvas.top,
        rx=6,
        class_="frame",
    )
    across, _ = points.axes
    canvas.text(f"{across} →", canvas.right, canvas.height - 8, "label", anchor="end")


def _circle(x: float, y: float, radius: int) -> str:
    """A circle as a path, as diamonds are, so that one rule of the style sheet holds for both."""
    left = number(x - radius)
    middle = number(y)
    # Two half circles: an arc whose ends are the same point would not be drawn.
    half = f"a{radius} {radius} 0 1 0"
    width = 2 * radius
    return f"M{left} {middle}{half} {width} 0{half}-{width} 0"


def _diamond(x: float, y: float) -> str:
    middle = number(x)
    top = number(y - 4)
    return f"M{middle} {top}l4 4-4 4-4-4z"


def _cross(x: float, y: float) -> str:
    left = number(x - 4)
    top = number(y - 4)
    across = f"M{left} {number(y)}h8"
    down = f"M{number(x)} {top}v8"
    return across + down


def _draw_witness(canvas: Canvas, points: PointMap, field: Field) -> None:
    """The field as filled contours, in the colours of the points."""
    edges = points.levels
    # The first and the last colour have no end: they hold what is far out as well.
    lowest = float(field.values.min())
    highest = float(field.values.max())
    edges[0] = min(edges[0], lowest) - 1e-12
    edges[-1] = max(edges[-1], highest) + 1e-12
    regions = _filled_regions(canvas, field, edges.tolist())
    for shade, region in enumerate(regions):
        if region:  # the field need not have every colour
            canvas.path(region, f"field w{shade}")


# matplotlib finds the contours; drawing them is a matter of the page.


def _filled_regions(canvas: Canvas, field: Field, edges: Sequence[float]) -> list[str]:
    """For each gap between edges the region where the field lies in it, as an outline."""
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    contours = axes.contourf(field.x, field.y, field.values, edges)
    return [_outline(canvas, region, close=True) for region in contours.get_paths()]


def _contour_lines(canvas: Canvas, field: Field, levels: Sequence[float]) -> list[str]:
    """For each level the contour of the field, as an outline."""
    if not levels:
        return []
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    contours = axes.contour(field.x, field.y, field.values, levels)
    return [_outline(canvas, line, close=False) for line in contours.get_paths()]


def _outline(canvas: Canvas, drawn_path: Any, *, close: bool) -> str:
    """One of matplotlib's paths, which may have several rings."""
    outline = ""
    for ring in drawn_path.to_polygons(closed_only=False):
        if len(ring) > 1:
            x, y = np.asarray(ring).T
            outline += canvas.outline(x, y, close=close)
    return outline
