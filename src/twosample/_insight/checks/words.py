"""Numbers and names as messages have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._data.tables import count, cut_in_the_middle

_LONGEST = 40


def number(value: float) -> str:
    """A number as short as it can be."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else f"{value:.6g}"


def date_or_number(value: float, *, is_date: bool) -> str:
    """A number, or the day that so many days after 1970 is."""
    if not is_date or not -700_000 < value < 2_900_000:
        return number(value)
    return str(np.datetime64(0, "D") + np.timedelta64(int(np.floor(value)), "D"))


def quoted(text: str) -> str:
    """A label in quotes; a long one is cut in the middle, so that two that begin alike differ."""
    return repr(cut_in_the_middle(text, _LONGEST))


def share(part: int, whole: int) -> str:
    """How many of how many, and in percent."""
    percent = 100 * part / max(1, whole)
    return f"{part} of {whole} ({percent:.3g} %)"


def share_inside(part: int, whole: int) -> str:
    """The same, to stand in parentheses."""
    return f"{part} of {whole}, {100 * part / max(1, whole):.3g} %"


def some(texts: Sequence[str], most: int = 3) -> str:
    """The first few of some texts, and how many more there are."""
    shown = ", ".join(texts[:most])
    left = len(texts) - most
    return shown if left <= 0 else f"{shown} and {left} more"


def asked(option: str, value: Any, on_command_line: bool) -> str:
    """How the user says something: `--groups who`, or groups='who'; `...` for what is unknown."""
    if on_command_line:
        name = "COLUMN" if value is ... else str(value)
        return f"--{option} {name}" if name.isidentifier() else f"--{option} '{name}'"
    return f"{option}=..." if value is ... else f"{option}={value!r}"


__all__ = ["asked", "count", "date_or_number", "number", "quoted", "share", "share_inside", "some"]
