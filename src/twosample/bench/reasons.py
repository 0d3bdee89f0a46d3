"""Why a number is not the published one: what experiments showed, where tables mark a difference."""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN = "?"
"""What tables say while no reason has been found."""


class Reason(NamedTuple):
    """A finding, and the cells that it explains; None stands for all."""

    experiment: str
    row: str | None
    methods: tuple[str, ...]
    recipe: str
    text: str


REASONS: tuple[Reason, ...] = ()


def reason(experiment: str, row: str, method: str, recipe: str) -> str:
    """The finding that explains a cell, or a question mark."""
    for each in REASONS:
        same = (each.experiment, each.recipe) == (experiment, recipe)
        if same and each.row in (None, row) and method in each.methods:
            return each.text
    return UNKNOWN
