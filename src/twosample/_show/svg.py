"""Charts as inline SVG for the report: shapes and classes, no colours. Those are the style sheet's, light and dark.

What depends on the level alpha is drawn once for each level, in a group with `data-level`, all but
one of them hidden.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._result import TrainingLog
from .charts import KERNEL_LEVELS, Distance, Field, Marginal, Null, PointMap, PowerCurve

WITNESS_CLASSES = 9
"""Classes w0 (as in Y) to w8 (as in X) of the colours of the witness."""

_TEXT_ROW = 20.0  # units between two lines of text above a chart


class Drawn(str):
    """Finished markup: a template puts it in as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


def element(name: str, *children: str, **attributes: object) -> Drawn:
    """<name attributes>children</name>; attributes and children that are not `Drawn` are escaped.

    Attributes that are None are left out. A trailing underscore is dropped and others are hyphens:
    class_, data_level.

    Examples
    --------
    >>> element("text", "a < b", x=1.50, class_="label")
    '<text x="1.5" class="label">a &lt; b</text>'
    """
    named = {
        key.rstrip("_").replace("_", "-"): value
        for key, value in attributes.items()
        if value is not None
    }
    texts = {
        key: _number(value) if isinstance(value, float) else str(value)
        for key, value in named.items()
    }
    listed = "".join(f' {key}="{html.escape(text)}"' for key, text in texts.items())
    inside = "".join(
        child if isinstance(child, Drawn) else html.escape(child) for child in children
    )
    return Drawn(f"<{name}{listed}>{inside}</{name}>")


def together(parts: Iterable[str]) -> Drawn:
    """Finished pieces, one after another."""
    return Drawn("".join(parts))


# Scales and axes.


@dataclass(frozen=True)
class Scale:
    """From values between `low` and `high` to places between `start` and `end`, evenly or by logarithm."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, values: ArrayLike) -> NDArray[np.float64]:
        """The places of values."""
        low, high, at = self.low, self.high, np.asarray(values, dtype=np.float64)
        if self.log:
            low, high, at = math.log(low), math.log(high), np.log(at)
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        """At most about `count` round values between the ends."""
        if self.log:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            steps = (1, 2, 5) if self.high < 500 * self.low else (1,)
            return [
                s * 10.0**d for d in decades for s in steps if self.low <= s * 10.0**d <= self.high
            ]
        rough = (self.high - self.low) / count
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]


@dataclass(frozen=True)
class Panel:
    """Two scales, and the size of the picture around them."""

    x: Scale
    y: Scale
    width: float
    height: float

    @classmethod
    def of(
        cls,
        across: tuple[float, float],
        up: tuple[float, float],
        *,
        width: float = 480,
        height: float = 270,
        left: float = 16,
        right: float = 16,
        top: float = 12,
        bottom: float = 52,
        log: bool = False,
    ) -> Panel:
        """A panel with these values along its axes and margins in units."""
        return cls(
            Scale(*_apart(*across), left, width - right, log),
            Scale(*_apart(*up), height - bottom, top),
            width,
            height,
        )

    def path(self, xs: ArrayLike, ys: ArrayLike, *, close: bool = False) -> str:
        """The outline through points, as the attribute d has it."""
        pairs = zip(self.x(xs).tolist(), self.y(ys).tolist(), strict=True)
        return (
            "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in pairs) + ("Z" if close else "")
        )

    def x_axis(self, label: str, *, ticks: Sequence[float] | None = None) -> Drawn:
        """A line with ticks at the bottom of the panel, and what it shows."""
        below = self.y.start
        shown = self.x.ticks() if ticks is None else ticks
        parts = [element("line", x1=self.x.start, x2=self.x.end, y1=below, y2=below, class_="axis")]
        for place, text in zip(self.x(shown).tolist(), map(tick_label, shown), strict=True):
            parts.append(element("line", x1=place, x2=place, y1=below, y2=below + 4, class_="axis"))
            parts.append(
                element("text", text, x=place, y=below + 18, text_anchor="middle", class_="tick")
            )
        middle = (self.x.start + self.x.end) / 2
        parts.append(
            element(
                "text", label, x=middle, y=self.height - 8, text_anchor="middle", class_="label"
            )
        )
        return together(parts)

    def y_axis(self, *, ticks: Sequence[float] | None = None) -> Drawn:
        """Lines across the panel, with their values at the left."""
        shown = self.y.ticks(4) if ticks is None else ticks
        parts = []
        for place, text in zip(self.y(shown).tolist(), map(tick_label, shown), strict=True):
            parts.append(
                element("line", x1=self.x.start, x2=self.x.end, y1=place, y2=place, class_="grid")
            )
            parts.append(
                element(
                    "text", text, x=self.x.start - 6, y=place + 4, text_anchor="end", class_="tick"
                )
            )
        return together(parts)

    def flag(self, value: float, text: str, row: int, class_: str) -> Drawn:
        """A line at `value` from the bottom up to a text in one of the rows above the panel."""
        place, height = float(self.x(value)), (row + 1) * _TEXT_ROW - 6
        before = place > (self.x.start + self.x.end) / 2
        return element(
            "g",
            element("line", x1=place, x2=place, y1=height - 9, y2=self.y.start),
            element(
                "text",
                text,
                x=place + (-6 if before else 6),
                y=height,
                text_anchor="end" if before else "start",
            ),
            class_=class_,
        )

    def picture(self, alt: str, *parts: str, **attributes: object) -> Drawn:
        """The parts as one picture, which `alt` describes to those who do not see it."""
        box = f"0 0 {_number(self.width)} {_number(self.height)}"
        return element("svg", *parts, viewBox=box, role="img", aria_label=alt, **attributes)


def tick_label(value: float) -> str:
    """A round number in few characters.

    Examples
    --------
    >>> [tick_label(value) for value in (0.30000000000000004, -1.0, 25_000, 2e6, 4e-7)]
    ['0.3', '−1', '25k', '2M', '4e−7']
    """
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= max(factor, 1e4) and abs(value) < 1e12:
            return f"{value / factor:.6g}{unit}".replace("-", "−")
    text = "0" if abs(value) < 1e-300 else f"{value:.6g}"
    return text.replace("e-0", "e-").replace("-", "−")


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _number(value: float) -> str:
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def _apart(low: float, high: float) -> tuple[float, float]:
    """Two ends that are not the same."""
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _at_levels(parts: Mapping[float, str], shown: float) -> Drawn:
    """A group for each level, all but one of them hidden."""
    return together(
        element("g", part, data_level=repr(level), hidden=None if level == shown else "")
        for level, part in parts.items()
    )


# Charts.


def null_chart(null: Null, levels: Sequence[float], alpha: float) -> Drawn:
    """The null distribution, the observed value and the threshold at each level."""
    thresholds = {level: null.threshold(level) for level in levels}
    places = [float(null.edges[0]), float(null.edges[-1]), null.observed]
    places += [threshold for threshold in thresholds.values() if threshold is not None]
    margin = 0.03 * (max(places) - min(places))
    panel = Panel.of(
        (min(places) - margin, max(places) + margin),
        (0, float(null.shares.max())),
        top=2.4 * _TEXT_ROW,
    )
    lefts, tops, bottom = panel.x(null.edges).tolist(), panel.y(null.shares).tolist(), panel.y.start
    bars = together(
        element(
            "rect",
            x=left,
            y=top,
            width=max(0.85 * (right - left), right - left - 1),
            height=bottom - top,
        )
        for left, right, top in zip(lefts, lefts[1:], tops, strict=False)
        if bottom - top > 0
    )
    flags = {
        level: ""
        if value is None
        else panel.flag(value, f"threshold at α = {level:g}", 1, "flag threshold")
        for level, value in thresholds.items()
    }
    alt = (
        f"Histogram of {null.symbol} when both samples come from one distribution, between "
        f"{null.edges[0]:.3g} and "
        f"{null.edges[-1]:.3g}; the observed value is {null.observed:.3g}."
    )
    return panel.picture(
        alt,
        element("g", bars, class_="bars"),
        panel.x_axis(null.symbol),
        _at_levels(flags, alpha),
        panel.flag(null.observed, f"observed: {null.observed:.3g}", 0, "flag observed"),
    )


def power_chart(
    curves: Mapping[float, PowerCurve], alpha: float, wanted: float, ratio: float, unit: str
) -> Drawn:
    """Predicted power over the rows or images tested, at each level."""
    most = max(float(curve.sizes[-1]) for curve in curves.values())
    least = min(float(curve.sizes[0]) for curve in curves.values())
    panel = Panel.of((least, most), (0.0, 1.0), left=40, top=2.4 * _TEXT_ROW, log=True)
    here = next(iter(curves.values())).here

    def drawn(curve: PowerCurve) -> Drawn:
        band = panel.path(
            [*curve.sizes, *curve.sizes[::-1]], [*curve.high, *curve.low[::-1]], close=True
        )
        parts = [
            element("path", d=band, class_="band"),
            element("path", d=panel.path(curve.sizes, curve.power), class_="line"),
        ]
        if curve.needed is not None and curve.needed <= most:
            parts.append(
                panel.flag(curve.needed, f"{curve.needed:,} for power {wanted:g}", 1, "flag needed")
            )
        return together(parts)

    now = curves[alpha]
    alt = (
        f"Predicted power at alpha = {alpha:g}: {now.power[0]:.2f} with {now.sizes[0]} {unit} of X"
    )
    alt += "." if now.needed is None else f", {wanted:g} with {now.needed}."
    beside = "of each sample" if abs(ratio - 1) < 1e-9 else f"of X, {ratio:.3g} times as many of Y"
    return panel.picture(
        alt,
        panel.y_axis(ticks=[0, 0.25, 0.5, 0.75, 1]),
        panel.x_axis(f"{unit} tested {beside}"),
        _at_levels({level: drawn(curve) for level, curve in curves.items()}, alpha),
        panel.flag(here, f"here: {here:,}", 0, "flag here"),
    )


def distance_chart(distances: Sequence[Distance], title: str, alpha: float) -> Drawn:
    """How far each sample is from the reference: its name, a dot and its interval, filled where the sample differs."""
    ends = [value for d in distances for value in (d.value, *(d.ends or ()))]
    high, line = max(0.0, *ends), 34.0
    panel = Panel.of(
        (min(0.0, *ends), 1.02 * high), (0, 1), height=line * len(distances) + 58, top=0
    )
    zero = float(panel.x(0))
    parts = [element("line", x1=zero, x2=zero, y1=0.0, y2=panel.y.start, class_="axis")]
    for place, distance in enumerate(distances):
        middle = line * place + 25
        inside = [
            element("title", _about(distance)),
            element(
                "text",
                _short(distance.name, 50),
                x=panel.x.start + 4,
                y=middle - 11,
                class_="label",
            ),
            element("line", x1=panel.x.start, x2=panel.x.end, y1=middle, y2=middle, class_="grid"),
        ]
        if distance.ends is not None:
            low, top = panel.x(distance.ends).tolist()
            inside.append(element("line", x1=low, x2=top, y1=middle, y2=middle, class_="whisker"))
        inside.append(element("circle", cx=float(panel.x(distance.value)), cy=middle, r=5))
        class_ = "distance differs" if distance.adjusted <= alpha else "distance"
        parts.append(element("g", *inside, class_=class_, data_adjusted=repr(distance.adjusted)))
    alt = f"{title} of each sample from the reference: " + "; ".join(map(_about, distances)) + "."
    return panel.picture(alt, *parts, panel.x_axis(f"{title} from the reference"))


def _about(distance: Distance) -> str:
    around = "" if distance.ends is None else " ({:.3g} to {:.3g})".format(*distance.ends)
    return f"{distance.name} {distance.value:.3g}{around}"


def training_chart(log: TrainingLog, held_out: float | None) -> Drawn:
    """The objective on batches, on validation points, and as a line on the held-out points."""
    steps = np.arange(1, log.steps + 1)
    every = -(-log.steps // 600)
    values = np.asarray(log.objective)
    others = [value for _, value in log.validation] + ([] if held_out is None else [held_out])
    low, high = (float(f(np.concatenate([values, others]))) for f in (np.min, np.max))
    panel = Panel.of((0, log.steps), (low, high + 0.04 * (high - low)), left=52)
    parts = [panel.y_axis(), panel.x_axis("step")]
    parts.append(element("path", d=panel.path(steps[::every], values[::every]), class_="line thin"))
    if log.validation:
        parts.append(
            element("path", d=panel.path(*zip(*log.validation, strict=True)), class_="line other")
        )
    if held_out is not None:
        parts.append(
            element("path", d=panel.path([0, log.steps], [held_out] * 2), class_="line held-out")
        )
    alt = (
        f"The objective over {log.steps} training steps, from {values[0]:.3g} to {values[-1]:.3g}."
    )
    return panel.picture(alt, *parts)


def marginal_chart(marginal: Marginal) -> Drawn:
    """One column in X and in Y: two densities, or two bars for each level."""
    if isinstance(marginal.at, tuple):
        return _share_chart(marginal)
    at = marginal.at
    highest = float(max(marginal.x.max(), marginal.y.max()))
    panel = Panel.of((float(at[0]), float(at[-1])), (0, highest), width=300, height=150, bottom=26)
    parts = []
    for sample, density in (("x", marginal.x), ("y", marginal.y)):
        ends = [at[0], *at, at[-1]], [0, *density, 0]
        parts.append(element("path", d=panel.path(*ends, close=True), class_=f"area {sample}"))
        parts.append(element("path", d=panel.path(at, density), class_=f"line {sample}"))
    alt = (
        f"Densities of {marginal.name}; the highest is at {at[marginal.x.argmax()]:.3g} in X and "
        "at "
        f"{at[marginal.y.argmax()]:.3g} in Y."
    )
    return panel.picture(alt, *parts, panel.x_axis("", ticks=panel.x.ticks(4)))


def _share_chart(marginal: Marginal, most: int = 7) -> Drawn:
    """Two bars for each level; the `most` common ones of a category, all numbers in their order."""
    common = np.argsort(-(marginal.x + marginal.y), kind="stable")[:most]
    common = np.arange(len(marginal.x)) if marginal.kind == "numeric" else common
    common = common[(marginal.x + marginal.y)[common] > 0]
    names, x, y = [str(marginal.at[k]) for k in common], marginal.x[common], marginal.y[common]
    height = 8 + 20 * len(names)
    panel = Panel.of(
        (0, float(max(x.max(), y.max()))),
        (0, 1),
        width=300,
        height=max(height, 60),
        left=92,
        right=64,
        bottom=4,
    )
    parts = []
    for place, (name, in_x, in_y) in enumerate(zip(names, x.tolist(), y.tolist(), strict=True)):
        top = 6.0 + 20 * place
        parts.append(
            element("text", _short(name, 12), x=86.0, y=top + 12, text_anchor="end", class_="tick")
        )
        for sample, share, offset in (("x", in_x, 0), ("y", in_y, 8)):
            width = max(float(panel.x(share)) - panel.x.start, 0.5)
            parts.append(
                element(
                    "rect",
                    x=panel.x.start,
                    y=top + offset,
                    width=width,
                    height=7.0,
                    class_=f"bar {sample}",
                )
            )
        end, both = float(panel.x(max(in_x, in_y))), f"{100 * in_x:.0f} / {100 * in_y:.0f} %"
        parts.append(element("text", both, x=end + 5, y=top + 12, class_="tick"))
    shares = ", ".join(
        f"{n} {100 * a:.0f} % and {100 * b:.0f} %" for n, a, b in zip(names, x, y, strict=True)
    )
    return panel.picture(
        f"Shares of the levels of {marginal.name} in X and in Y: {shares}.", *parts
    )


def map_chart(drawn: PointMap, field: Field | None, **attributes: object) -> Drawn:
    """Points coloured by the witness, circles for X and diamonds for Y, on its field where there is one."""
    panel = _map_panel(drawn)
    parts = [] if field is None else [_bands(panel, field, drawn.largest)]
    classes = witness_classes(drawn.colours)
    for (x, y), of_y, shade, inside in zip(
        _places(panel, drawn), drawn.of_y, classes, drawn.inside, strict=True
    ):
        if inside:
            shape = f"M{_number(x)} {_number(y - 4)}l4 4-4 4-4-4z" if of_y else _circle(x, y, 3)
            parts.append(element("path", d=shape, class_=f"w{shade}"))
    alt = (
        f"Map of {int(drawn.inside.sum())} held-out points: across {drawn.axes[0]}, up "
        f"{drawn.axes[1]}; "
        "coloured by whether they look like X or like Y."
    )
    return panel.picture(
        alt, _map_axes(panel, drawn), element("g", *parts, class_="points"), **attributes
    )


def contour_chart(drawn: PointMap, centres: NDArray[np.float64], fields: Sequence[Field]) -> Drawn:
    """Contours of the kernel around its centres, with the points of both samples."""
    panel = _map_panel(drawn)
    parts = [
        element("path", d=_circle(x, y, 2), class_=f"dot {'y' if of_y else 'x'}")
        for (x, y), of_y, inside in zip(
            _places(panel, drawn), drawn.of_y, drawn.inside, strict=True
        )
        if inside
    ]
    for field in fields:
        outlines = _outlines(panel, field, KERNEL_LEVELS, filled=False)
        parts += [element("path", d=outline, class_="contour") for outline in outlines]
    for x, y in zip(panel.x(centres[:, 0]).tolist(), panel.y(centres[:, 1]).tolist(), strict=True):
        cross = f"M{_number(x - 4)} {_number(y)}h8M{_number(x)} {_number(y - 4)}v8"
        parts.append(element("path", d=cross, class_="contour"))
    alt = f"Contours of the kernel around {len(centres)} typical points, at 0.7, 0.8 and 0.9 of its value there."
    return panel.picture(alt, _map_axes(panel, drawn), *parts)


def map_places(drawn: PointMap) -> list[tuple[float, float]]:
    """Where `map_chart` puts the points, in its units."""
    return [(round(x, 1), round(y, 1)) for x, y in _places(_map_panel(drawn), drawn)]


def witness_classes(colours: NDArray[np.float64]) -> list[int]:
    """For colours between -1 and 1 the number of their class."""
    classes = np.floor((colours + 1) / 2 * WITNESS_CLASSES).clip(0, WITNESS_CLASSES - 1).astype(int)
    return [int(shade) for shade in classes]


def _map_panel(drawn: PointMap) -> Panel:
    if drawn.in_plane:
        return Panel.of(*drawn.limits, height=450, left=46, top=26, bottom=48)
    return Panel.of(*drawn.limits, height=420, left=1, right=1, top=1, bottom=30)


def _map_axes(panel: Panel, drawn: PointMap) -> Drawn:
    if drawn.in_plane:
        up = element(
            "text", f"↑ {_short(drawn.axes[1], 50)}", x=panel.x.start - 6, y=14.0, class_="label"
        )
        return together([panel.x_axis(_short(drawn.axes[0], 50)), panel.y_axis(), up])
    # The units of features mean nothing: no ticks.
    left, right, top, bottom = panel.x.start, panel.x.end, panel.y.end, panel.y.start
    label = element(
        "text", f"{drawn.axes[0]} →", x=right, y=panel.height - 8, text_anchor="end", class_="label"
    )
    frame = element(
        "rect", x=left, y=top, width=right - left, height=bottom - top, rx=6, class_="frame"
    )
    return together([frame, label])


def _places(panel: Panel, drawn: PointMap) -> list[tuple[float, float]]:
    x, y = drawn.positions.T
    return list(zip(panel.x(x).tolist(), panel.y(y).tolist(), strict=True))


def _circle(x: float, y: float, radius: int) -> str:
    half = f"a{radius} {radius} 0 1 0"
    return f"M{_number(x - radius)} {_number(y)}{half} {2 * radius} 0{half}-{2 * radius} 0"


def _bands(panel: Panel, field: Field, largest: float) -> Drawn:
    """The field as filled contours, in the classes of the points."""
    edges = np.linspace(-1, 1, WITNESS_CLASSES + 1) * largest
    edges[0], edges[-1] = (
        min(edges[0], field.values.min()) - 1e-12,
        max(edges[-1], field.values.max()) + 1e-12,
    )
    outlines = _outlines(panel, field, edges.tolist(), filled=True)
    shades = (element("path", d=d, class_=f"field w{k}") for k, d in enumerate(outlines) if d)
    return together(shades)


def _outlines(panel: Panel, field: Field, levels: Sequence[float], *, filled: bool) -> list[str]:
    """For each level the contour as a path; for each gap between levels the region, if `filled`."""
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    if filled:
        found = axes.contourf(field.x, field.y, field.values, levels)
    else:
        levels = [level for level in levels if field.values.min() < level < field.values.max()]
        if not levels:
            return []
        found = axes.contour(field.x, field.y, field.values, levels)
    rings = [
        [np.asarray(ring) for ring in path.to_polygons(closed_only=False)]
        for path in found.get_paths()
    ]
    return [
        "".join(panel.path(*ring.T, close=filled) for ring in region if len(ring) > 1)
        for region in rings
    ]
