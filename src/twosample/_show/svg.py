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
    written = []
    for key, value in attributes.items():
        if value is None:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        text = number(value) if isinstance(value, float) else str(value)
        written.append(f' {attribute}="{html.escape(text)}"')
    inside = [child if isinstance(child, Drawn) else html.escape(child) for child in children]
    return Drawn(f"<{name}{''.join(written)}>{''.join(inside)}</{name}>")


def together(parts: Iterable[str]) -> Drawn:
    """Finished pieces, one after another."""
    return Drawn("".join(parts))


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
        step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough)
        # An end that is a round number itself gets its tick in spite of rounding.
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [multiple * step for multiple in range(first, last + 1)]

    def _log_ticks(self) -> list[float]:
        lowest = math.floor(math.log10(self.low))
        highest = math.ceil(math.log10(self.high))
        # Powers of ten are enough where there are several of them.
        factors = (1, 2, 5) if self.high < 500 * self.low else (1,)
        ticks = [
            factor * 10.0**exponent for exponent in range(lowest, highest + 1) for factor in factors
        ]
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
    def middle(self) -> float:
        """Halfway between left and right."""
        return (self.x.start + self.x.end) / 2

    def path(self, xs: ArrayLike, ys: ArrayLike, *, close: bool = False) -> str:
        """The line through points, as the attribute d has it."""
        corners = [
            f"{number(x)} {number(y)}"
            for x, y in zip(self.x(xs).tolist(), self.y(ys).tolist(), strict=True)
        ]
        end = "Z" if close else ""
        return f"M{'L'.join(corners)}{end}"

    def x_axis(self, label: str, *, ticks: Sequence[float] | None = None) -> Drawn:
        """A line with ticks at the bottom of the panel, and what it shows."""
        below = self.y.start
        shown = self.x.ticks() if ticks is None else ticks
        parts = [element("line", x1=self.x.start, x2=self.x.end, y1=below, y2=below, class_="axis")]
        for value in shown:
            x = self.x.place(value)
            parts.append(element("line", x1=x, x2=x, y1=below, y2=below + 4, class_="axis"))
            parts.append(_text(tick_label(value), x, below + 18, "tick", anchor="middle"))
        parts.append(_text(label, self.middle, self.height - 8, "label", anchor="middle"))
        return together(parts)

    def y_axis(self, *, ticks: Sequence[float] | None = None) -> Drawn:
        """Lines across the panel, with their values at the left."""
        left = self.x.start
        shown = self.y.ticks(4) if ticks is None else ticks
        parts = []
        for value in shown:
            y = self.y.place(value)
            parts.append(element("line", x1=left, x2=self.x.end, y1=y, y2=y, class_="grid"))
            parts.append(_text(tick_label(value), left - 6, y + 4, "tick", anchor="end"))
        return together(parts)

    def flag(self, mark: Mark, row: int, class_: str) -> Drawn:
        """A line from the bottom up to a text in one of the rows above the panel."""
        x = self.x.place(mark.value)
        height = (row + 1) * TEXT_ROW - 6
        line = element("line", x1=x, x2=x, y1=height - 9, y2=self.y.start)
        # The text is on the side where there is more room.
        if x > self.middle:
            text = element("text", mark.flag, x=x - 6, y=height, text_anchor="end")
        else:
            text = element("text", mark.flag, x=x + 6, y=height, text_anchor="start")
        return element("g", line, text, class_=class_)

    def picture(self, alt: str, *parts: str, **attributes: object) -> Drawn:
        """The parts as one picture, which `alt` describes to those who do not see it."""
        box = f"0 0 {number(self.width)} {number(self.height)}"
        return element("svg", *parts, viewBox=box, role="img", aria_label=alt, **attributes)


def _text(text: str, x: float, y: float, class_: str, *, anchor: str) -> Drawn:
    return element("text", text, x=x, y=y, text_anchor=anchor, class_=class_)


def tick_label(value: float) -> str:
    """A round number in few characters.

    Examples
    --------
    >>> [tick_label(value) for value in (0.30000000000000004, -1.0, 25_000, 2e6, 4e-7)]
    ['0.3', '−1', '25k', '2M', '4e−7']
    """
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if max(factor, 1e4) <= abs(value) < 1e12:
            return f"{value / factor:.6g}{unit}".replace("-", "−")
    text = "0" if abs(value) < 1e-300 else f"{value:.6g}"
    return text.replace("e-0", "e-").replace("-", "−")


def shortened(text: str, most: int) -> str:
    """The text in at most `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def number(value: float) -> str:
    """A coordinate to a hundredth of a unit, which nobody can see."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def _apart(low: float, high: float) -> tuple[float, float]:
    """Two ends that are not the same: a scale between equal ends would divide by 0."""
    return (low, high) if high > low else (low - 0.5, low + 0.5)
