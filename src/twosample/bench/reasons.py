"""Why a number is not the published one: what experiments showed, where tables mark a difference."""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN = "?"
"""What tables say while no reason has been found."""


class Reason(NamedTuple):
    """A finding, and the cells that it explains; None stands for all rows.

    In the text, {paper} stands for what that recipe gave in the same place, {paper N=400} for what it gave there.
    """

    experiment: str
    row: str | None
    methods: tuple[str, ...]
    recipe: str
    text: str


_TABLES = ("blob-power", "hdgm-power", "hdgm-dimensions-power", "higgs-power", "ablation")
_RECIPE = "trained in another way; as the authors train it: {paper}"
_NO_CODE = (
    "the paper gives no settings and the released code does not have it; with those of L+J, fewer or more steps, a "
    "smaller rate or all features, the bounded scores follow noise (probes)"
)
_DIGITS = "digits of another generator; the authors' recipe on these: {paper N=400} at N=400"

REASONS: tuple[Reason, ...] = (
    Reason("ablation", None, ("L+M",), "default", _NO_CODE),
    Reason("ablation", None, ("L+M",), "paper", _NO_CODE),
)
"""The first that fits a cell is shown."""


def reason(experiment: str, row: str, method: str, recipe: str) -> str:
    """The finding that explains a cell, or a question mark."""
    for each in REASONS:
        same = (each.experiment, each.recipe) == (experiment, recipe)
        if same and each.row in (None, row) and method in each.methods:
            return each.text
    return UNKNOWN
