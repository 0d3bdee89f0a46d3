"""The checks of single settings."""

from __future__ import annotations

import math

import numpy as np
import pytest

from twosample._checks import check_alpha, check_share, check_whole
from twosample.errors import InputError


@pytest.mark.parametrize("value", [2, 10, np.int64(3), np.uint8(2)])
def test_whole_numbers_pass(value):
    check_whole("steps", value, 2)


@pytest.mark.parametrize("value", [1, -3, 2.0, 2.5, "9", None, math.nan])
def test_anything_else_is_refused_by_name_and_value(value):
    with pytest.raises(InputError) as caught:
        check_whole("steps", value, 2)
    assert str(caught.value) == f"steps is {value!r}; it must be a whole number of at least 2."


@pytest.mark.parametrize("value", [1e-300, 0.5, 1 - 1e-16])
def test_shares_pass(value):
    check_share("eps", value)
    check_alpha(value)


@pytest.mark.parametrize("value", [0, 1, 0.0, 1.5, -0.1, math.nan, math.inf])
def test_the_ends_and_what_lies_beyond_are_refused(value):
    with pytest.raises(InputError, match=f"^eps is {value}; it must lie strictly between 0 and 1"):
        check_share("eps", value)
    with pytest.raises(InputError, match=f"^alpha is {value}; it must lie strictly"):
        check_alpha(value)
