"""Checks of single settings, so that every part of the library refuses them in the same words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral

from .errors import InputError


def check_whole(name: str, value: object, least: int) -> None:
    """Refuse a `value` that is not a whole number of at least `least`."""
    # NumPy's integers are Integral, too; a float such as 3.0 is not, even if it is whole.
    if not isinstance(value, Integral) or value < least:
        raise InputError(f"{name} is {value!r}; it must be a whole number of at least {least}.")


def check_share(name: str, value: float) -> None:
    """Refuse a `value` that does not lie strictly between 0 and 1. NaN does not."""
    if not 0 < value < 1:
        raise InputError(f"{name} is {value}; it must lie strictly between 0 and 1.")


def check_alpha(alpha: float) -> None:
    """Refuse a level `alpha` at which a test rejects always or never."""
    check_share("alpha", alpha)


def check_tolerance(tolerance: object) -> dict[str, float]:
    """The margins of a tolerance, checked as far as no data are needed."""
    if not isinstance(tolerance, Mapping) or not tolerance:
        raise InputError(
            f"tolerance is {tolerance!r}; give margins by their units, such as "
            "{'auc': 0.55}, {'spread': 0.1}, {'mmd': 0.05} or {'price': 0.2}."
        )
    margins = {}
    for unit, margin in tolerance.items():
        if isinstance(margin, bool) or not isinstance(margin, int | float):
            raise InputError(f"the tolerance of {unit!r} is {margin!r}; it must be a number.")
        if unit == "auc" and not 0.5 < margin < 1:
            raise InputError(
                f"the tolerance of 'auc' is {margin:g}; it must lie between 0.5, which is chance, "
                "and 1, such as 0.55."
            )
        if not 0 < margin < math.inf:
            raise InputError(
                f"the tolerance of {unit!r} is {margin:g}; it must be above 0, such as 0.1."
            )
        margins[str(unit)] = float(margin)
    return margins
