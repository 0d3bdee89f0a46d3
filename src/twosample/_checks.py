"""Checks of single settings, so that every part of the library refuses them in the same words."""

from __future__ import annotations

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
