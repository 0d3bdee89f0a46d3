"""Corrections of p-values for their number: of columns in `explain`, of samples in `compare`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import scipy  # which imports its parts, such as scipy.stats, when they are used

from ..errors import InputError

Correction: TypeAlias = Literal["holm", "bh", "by", "none"]


def holm(pvalues: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, which bound the chance of any false finding.

    The bound holds however the tests depend on each other. SciPy has no such function.
    """
    p = np.asarray(pvalues, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    # The smallest of k is multiplied by k, the next one by k - 1.
    factors = np.arange(len(p), 0, -1)
    multiplied = p[order] * factors
    # None may fall below one that stands before it.
    stepped = np.maximum.accumulate(multiplied)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return [float(value) for value in adjusted]


def benjamini_hochberg(pvalues: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's adjusted p-values, which bound the expected share of false findings.

    The bound holds for tests that depend positively on each other.
    """
    return _by_scipy(pvalues, "bh")


def benjamini_yekutieli(pvalues: Sequence[float]) -> list[float]:
    """Benjamini and Yekutieli's adjusted p-values: the same bound, under any dependence."""
    return _by_scipy(pvalues, "by")


def _by_scipy(pvalues: Sequence[float], method: Literal["bh", "by"]) -> list[float]:
    if not len(pvalues):
        return []  # which SciPy refuses
    adjusted = scipy.stats.false_discovery_control(pvalues, method=method)
    return [float(p) for p in adjusted]


class Adjustment(NamedTuple):
    """A correction: what it is called, and how it adjusts p-values."""

    name: str
    adjust: Callable[[Sequence[float]], list[float]]


CORRECTIONS: Mapping[Correction, Adjustment] = MappingProxyType(
    {
        "holm": Adjustment("adjusted by Holm", holm),
        "bh": Adjustment("adjusted by Benjamini-Hochberg", benjamini_hochberg),
        "by": Adjustment("adjusted by Benjamini-Yekutieli", benjamini_yekutieli),
        "none": Adjustment("not adjusted", list),
    }
)


def check_correction(correction: object, allowed: Sequence[str]) -> None:
    """Refuse a correction that is not one of those `allowed`."""
    if correction not in allowed:
        raise InputError(f"correction is {correction!r}; use one of {', '.join(allowed)}.")


def growth(correction: Correction, count: int) -> float:
    """The factor by which the p-value grows of the only one of `count` samples that differs."""
    small = 1e-9  # small enough not to be cut off at 1
    others = [1.0] * (count - 1)
    adjusted = CORRECTIONS[correction].adjust([small, *others])
    return adjusted[0] / small
