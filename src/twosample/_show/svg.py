"""What charts on a page are made of: SVG elements, scales and axes.

There are shapes and classes here but no colours: those are in the style sheet, light and dark.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .charts import Ends, Mark

Point: TypeAlias = tuple[float, float]
"""How far across, and how far down."""

TEXT_ROW = 20.0
"""Units between two lines of text above a chart."""

_UNITS: Mapping[str, float] = MappingProxyType({"G": 1e9, "M": 1e6, "k": 1e3})  # largest first


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
        text = number(value) if isinstance(value, float) else str(value)
        opening += f' {attribute}="{html.escape(text)}"'
    inside = ""
    for child in children:
        # Names and values come from the data: whatever is not markup of ours is text.
        markup = child if isinstance(child, Drawn) else html.escape(child)
        inside += markup
    return Drawn(f"<{opening}>{inside}</{name}>")


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
        share = (at - low) / (high - low)
        length = self.end - self.start
        return self.start + share * length

    def place(self, value: float) -> float:
        """The place of one value."""
        return float(self(value))

    def ticks(self, count: int = 5) -> list[float]:
        """At most about `count` round values between the ends."""
        if self.log:
            return self._log_ticks()
        rough = (self.high - self.low) / count
        power = 10.0 ** math.floor(math.log10(rough))
        steps = [factor * power for factor in (1, 2, 2.5, 5, 10)]
        # 10 times the power of ten is always enough, so there is one.
        step = next(step for step in steps if step >= rough)
        # An end that is a round number itself gets its tick in spite of rounding.
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [multiple * step for multiple in range(first, last + 1)]

    def _log_ticks(self) -> list[float]:
        lowest = math.floor(math.log10(self.low))
        highest = math.ceil(math.log10(self.high))
        # Powers of ten are enough where there are several of them.
        has_several = self.high >= 500 * self.low
        factors = (1,) if has_several else (1, 2, 5)
        ticks = []
        for exponent in range(lowest, highest + 1):
            for factor in factors:
                tick = factor * 10.0**exponent
                if self.low <= tick <= self.high:
                    ticks.append(tick)
        return ticks


class Canvas:
    """A picture in the making: two scales, and what has been drawn so far.

    `across` and `up` are the values at the ends of the two axes; all else is in units of the
    picture, the margins `left`, `right`, `top` and `bottom` included.
    """

    def __init__(
        self,
        across: Ends,
        up: Ends,
        *,
        width: float = 480,
        height: float = 270,
        left: float = 16,
        right: float = 16,
        top: float = 12,
        bottom: float = 52,
        log: bool = False,
    ) -> None:
        self.width = width
        self.height = height
        self.left = left
        self.right = width - right
        self.top = top
        self.bottom = height - bottom
        low, high = _apart(*across)
        self.x = Scale(
            low,
            high,
            start=self.left,
            end=self.right,
            log=log,
        )
        low, high = _apart(*up)
        self.y = Scale(
            low,
            high,
            start=self.bottom,  # SVG counts from the top
            end=self.top,
        )
        self._parts: list[Drawn] = []

    def add(self, name: str, *children: str, **attributes: object) -> None:
        """Draw an `element`."""
        self._parts.append(element(name, *children, **attributes))

    @contextmanager
    def group(self, **attributes: object) -> Iterator[None]:
        """Put what is drawn meanwhile into one group."""
        outside = self._parts  # groups may stand in groups
        self._parts = []
        yield
        inside = Drawn("".join(self._parts))
        self._parts = outside
        self.add("g", inside, **attributes)

    def level(self, level: float, shown: float) -> AbstractContextManager[None]:
        """Put what is drawn meanwhile into a group that only the level `shown` does not hide.

        The script of the page shows that of another level when a reader chooses one.
        """
        hidden = None if level == shown else ""  # an attribute without a value, or none at all
        return self.group(data_level=repr(level), hidden=hidden)

    def picture(self, alt: str, **attributes: object) -> Drawn:
        """All that was drawn, as one picture; `alt` describes it to those who do not see it."""
        width = number(self.width)
        height = number(self.height)
        return element(
            "svg",
            *self._parts,
            viewBox=f"0 0 {width} {height}",
            role="img",
            aria_label=alt,
            **attributes,
        )

    # Shapes, in units of the picture.

    def path(self, outline: str, class_: str) -> None:
        """A shape by its outline, as the attribute d has it."""
        self.add("path", d=outline, class_=class_)

    def horizontal(self, left: float, right: float, y: float, class_: str) -> None:
        """A line across."""
        self.add(
            "line",
            x1=left,
            x2=right,
            y1=y,
            y2=y,
            class_=class_,
        )

    def vertical(self, x: float, top: float, bottom: float, class_: str | None = None) -> None:
        """A line down."""
        self.add(
            "line",
            x1=x,
            x2=x,
            y1=top,
            y2=bottom,
            class_=class_,
        )

    def text(
        self,
        words: str,
        x: float,
        y: float,
        class_: str | None = None,
        *,
        anchor: str | None = None,
    ) -> None:
        """A text that starts at x, or has its "middle" or "end" there."""
        self.add(
            "text",
            words,
            x=x,
            y=y,
            text_anchor=anchor,
            class_=class_,
        )

    # Shapes by the values that they show.

    def outline(self, xs: ArrayLike, ys: ArrayLike, *, close: bool = False) -> str:
        """The line through points, as the attribute d of a path has it."""
        corners = []
        for x, y in self.places(xs, ys):
            corners.append(f"{number(x)} {number(y)}")
        end = "Z" if close else ""
        return f"M{'L'.join(corners)}{end}"

    def places(self, xs: ArrayLike, ys: ArrayLike) -> list[Point]:
        """Where points are."""
        across = self.x(xs).tolist()
        up = self.y(ys).tolist()
        return list(zip(across, up, strict=True))

    def curve(self, xs: ArrayLike, ys: ArrayLike, class_: str) -> None:
        """A line through points."""
        outline = self.outline(xs, ys)
        self.path(outline, class_)

    def area(self, xs: ArrayLike, ys: ArrayLike, class_: str) -> None:
        """What a line through points encloses."""
        outline = self.outline(xs, ys, close=True)
        self.path(outline, class_)

    def x_axis(self, label: str, *, ticks: Sequence[float] | None = None) -> None:
        """A line with ticks at the bottom, and what it shows."""
        if ticks is None:
            ticks = self.x.ticks()
        bottom = self.bottom
        self.horizontal(self.left, self.right, bottom, "axis")
        for value in ticks:
            x = self.x.place(value)
            self.vertical(x, bottom, bottom + 4, "axis")
            label_of_tick = tick_label(value)
            self.text(label_of_tick, x, bottom + 18, "tick", anchor="middle")
        middle = (self.left + self.right) / 2
        self.text(label, middle, self.height - 8, "label", anchor="middle")

    def y_axis(self, *, ticks: Sequence[float] | None = None) -> None:
        """Lines across, with their values at the left."""
        if ticks is None:
            ticks = self.y.ticks(4)
        for value in ticks:
            y = self.y.place(value)
            self.horizontal(self.left, self.right, y, "grid")
            label = tick_label(value)
            # 4 units lower, so that the line runs through the middle of the digits.
            self.text(label, self.left - 6, y + 4, "tick", anchor="end")

    def flag(self, mark: Mark, row: int, class_: str) -> None:
        """A line from the bottom up to a text in one of the rows above the chart."""
        x = self.x.place(mark.value)
        y = (row + 1) * TEXT_ROW - 6
        middle = (self.left + self.right) / 2
        with self.group(class_=class_):
            self.vertical(x, y - 9, self.bottom)
            # The text is on the side where there is more room.
            if x > middle:
                self.text(mark.flag, x - 6, y, anchor="end")
            else:
                self.text(mark.flag, x + 6, y, anchor="start")


def tick_label(value: float) -> str:
    """A round number in few characters.

    Examples
    --------
    >>> [tick_label(value) for value in (0.30000000000000004, -1.0, 25_000, 2e6, 4e-7)]
    ['0.3', '−1', '25k', '2M', '4e−7']
    """
    size = abs(value)
    for unit, factor in _UNITS.items():
        # Four digits fit as they are; beyond all units an exponent is shorter.
        if max(factor, 1e4) <= size < 1e12:
            in_units = value / factor
            return f"{in_units:.6g}{unit}".replace("-", "−")
    digits = f"{value:.6g}"
    if size < 1e-300:
        digits = "0"  # a tick at 0 that was not quite computed as 0
    return digits.replace("e-0", "e-").replace("-", "−")


def number(value: float) -> str:
    """A coordinate to a hundredth of a unit, which nobody can see."""
    digits = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if digits in ("-0", "") else digits


def _apart(low: float, high: float) -> Ends:
    """Two ends that are not the same: a scale between equal ends would divide by 0."""
    if high > low:
        return low, high
    return low - 0.5, low + 0.5
