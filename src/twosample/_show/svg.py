"""What charts on a page are made of: SVG elements, scales and axes.

There are shapes and classes here but no colours: those are in the style sheet, light and dark.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .charts import Mark

TEXT_ROW = 20.0
"""Units between two lines of text above a chart."""


class Drawn(str):
    """Finished markup, which a template puts in as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


def element(name: str, *children: str, **attributes: object) -> Drawn:
    """<name attributes>children</name>, where everything that is not `Drawn` is escaped.

    Attributes that are None are left out. A trailing underscore is dropped and others become
    hyphens: class_, data_level.

    Examples
    --------
    >>> element("text", "a < b", x=1.50, class_="label")
    '<text x="1.5" class="label">a &lt; b</text>'
    """
    opening = name
    for key, value in attributes.items():
        if value is None:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        written = number(value) if isinstance(value, float) else str(value)
        opening += f' {attribute}="{html.escape(written)}"'
    inside = ""
    for child in children:
        # Names and values come from the data: whatever is not markup of ours is text.
        inside += child if isinstance(child, Drawn) else html.escape(child)
    return Drawn(f"<{opening}>{inside}</{name}>")


def together(parts: Iterable[str]) -> Drawn:
    """Finished pieces, one after another."""
    return Drawn("".join(parts))


def path(outline: str, class_: str) -> Drawn:
    """A shape by its outline, as the attribute d has it."""
    return element("path", d=outline, class_=class_)


def horizontal(left: float, right: float, y: float, class_: str) -> Drawn:
    """A line across."""
    return element("line", x1=left, x2=right, y1=y, y2=y, class_=class_)


def vertical(x: float, top: float, bottom: float, class_: str | None = None) -> Drawn:
    """A line down."""
    return element("line", x1=x, x2=x, y1=top, y2=bottom, class_=class_)


def text(
    content: str, x: float, y: float, class_: str | None = None, *, anchor: str | None = None
) -> Drawn:
    """A text that starts at x, or has its "middle" or "end" there."""
    return element("text", content, x=x, y=y, text_anchor=anchor, class_=class_)


def at_levels(parts: Mapping[float, str], shown: float) -> Drawn:
    """A group for each level alpha, all but one of them hidden; the page's script shows another."""
    groups = []
    for level, part in parts.items():
        hidden = None if level == shown else ""
        groups.append(element("g", part, data_level=repr(level), hidden=hidden))
    return together(groups)


@dataclass(frozen=True)
class Scale:
    """From values between `low` and `high` to places between `start` and `end`.

    The places of values are even, or with `log` those of their logarithms.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, values: ArrayLike) -> NDArray[np.float64]:
        """The places of values."""
        at = np.asarray(values, dtype=np.float64)
        low = self.low
        high = self.high
        if self.log:
            at = np.log(at)
            low = math.log(low)
            high = math.log(high)
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    def place(self, value: float) -> float:
        """The place of one value."""
        return float(self(value))

    def ticks(self, count: int = 5) -> list[float]:
        """At most about `count` round values between the ends."""
        if self.log:
            return self._log_ticks()
        rough = (self.high - self.low) / count
        power = 10.0 ** math.floor(math.log10(rough))
        round_steps = [factor * power for factor in (1, 2, 2.5, 5, 10)]
        step = next(step for step in round_steps if step >= rough)
        # An end that is a round number itself gets its tick in spite of rounding.
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [multiple * step for multiple in range(first, last + 1)]

    def _log_ticks(self) -> list[float]:
        lowest = math.floor(math.log10(self.low))
        highest = math.ceil(math.log10(self.high))
        # Powers of ten are enough where there are several of them.
        factors = (1, 2, 5) if self.high < 500 * self.low else (1,)
        ticks = []
        for exponent in range(lowest, highest + 1):
            ticks += [factor * 10.0**exponent for factor in factors]
        return [tick for tick in ticks if self.low <= tick <= self.high]


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
        """A panel with these values along its axes, and margins in units."""
        x = Scale(*_apart(*across), left, width - right, log)
        y = Scale(*_apart(*up), height - bottom, top)  # SVG counts from the top
        return cls(x, y, width, height)

    @property
    def left(self) -> float:
        """Where the horizontal axis starts."""
        return self.x.start

    @property
    def right(self) -> float:
        """Where the horizontal axis ends."""
        return self.x.end

    @property
    def bottom(self) -> float:
        """Where the vertical axis starts."""
        return self.y.start

    def outline(self, xs: ArrayLike, ys: ArrayLike, *, close: bool = False) -> str:
        """The line through points, as the attribute d of a path has it."""
        places = zip(self.x(xs).tolist(), self.y(ys).tolist(), strict=True)
        corners = [f"{number(x)} {number(y)}" for x, y in places]
        end = "Z" if close else ""
        return f"M{'L'.join(corners)}{end}"

    def curve(self, xs: ArrayLike, ys: ArrayLike, class_: str) -> Drawn:
        """A line through points."""
        return path(self.outline(xs, ys), class_)

    def area(self, xs: ArrayLike, ys: ArrayLike, class_: str) -> Drawn:
        """What a line through points encloses."""
        return path(self.outline(xs, ys, close=True), class_)

    def x_axis(self, label: str, *, ticks: Sequence[float] | None = None) -> Drawn:
        """A line with ticks at the bottom of the panel, and what it shows."""
        shown = self.x.ticks() if ticks is None else ticks
        parts = [horizontal(self.left, self.right, self.bottom, "axis")]
        for value in shown:
            x = self.x.place(value)
            label_below = self.bottom + 18
            parts.append(vertical(x, self.bottom, self.bottom + 4, "axis"))
            parts.append(text(tick_label(value), x, label_below, "tick", anchor="middle"))
        middle = (self.left + self.right) / 2
        parts.append(text(label, middle, self.height - 8, "label", anchor="middle"))
        return together(parts)

    def y_axis(self, *, ticks: Sequence[float] | None = None) -> Drawn:
        """Lines across the panel, with their values at the left."""
        shown = self.y.ticks(4) if ticks is None else ticks
        parts = []
        for value in shown:
            y = self.y.place(value)
            baseline = y + 4  # so that the line runs through the middle of the digits
            parts.append(horizontal(self.left, self.right, y, "grid"))
            parts.append(text(tick_label(value), self.left - 6, baseline, "tick", anchor="end"))
        return together(parts)

    def flag(self, mark: Mark, row: int, class_: str) -> Drawn:
        """A line from the bottom up to a text in one of the rows above the panel."""
        x = self.x.place(mark.value)
        y = (row + 1) * TEXT_ROW - 6
        line = vertical(x, y - 9, self.bottom)
        middle = (self.left + self.right) / 2
        # The text is on the side where there is more room.
        if x > middle:
            label = text(mark.flag, x - 6, y, anchor="end")
        else:
            label = text(mark.flag, x + 6, y, anchor="start")
        return element("g", line, label, class_=class_)

    def picture(self, alt: str, *parts: str, **attributes: object) -> Drawn:
        """The parts as one picture, which `alt` describes to those who do not see it."""
        box = f"0 0 {number(self.width)} {number(self.height)}"
        return element("svg", *parts, viewBox=box, role="img", aria_label=alt, **attributes)


def tick_label(value: float) -> str:
    """A round number in few characters.

    Examples
    --------
    >>> [tick_label(value) for value in (0.30000000000000004, -1.0, 25_000, 2e6, 4e-7)]
    ['0.3', '−1', '25k', '2M', '4e−7']
    """
    size = abs(value)
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        # Four digits fit as they are; beyond all units an exponent is shorter.
        if max(factor, 1e4) <= size < 1e12:
            return f"{value / factor:.6g}{unit}".replace("-", "−")
    digits = f"{value:.6g}"
    if size < 1e-300:
        digits = "0"  # a tick at 0 that was not quite computed as 0
    return digits.replace("e-0", "e-").replace("-", "−")


def shortened(words: str, most: int) -> str:
    """A text in at most `most` characters."""
    if len(words) <= most:
        return words
    return f"{words[: most - 1]}…"


def number(value: float) -> str:
    """A coordinate to a hundredth of a unit, which nobody can see."""
    digits = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if digits in ("-0", "") else digits


def _apart(low: float, high: float) -> tuple[float, float]:
    """Two ends that are not the same: a scale between equal ends would divide by 0."""
    return (low, high) if high > low else (low - 0.5, low + 0.5)
