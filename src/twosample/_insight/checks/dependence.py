"""Rows that seem to depend on each other, though nobody has said so."""

from __future__ import annotations

from collections.abc import Set
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..._design import Look as InOrder
from ..._design import signs_of_dependence
from ..._findings import Finding
from .looks import Look
from .words import asked, quoted

KIND = "dependence"
"""What such a finding is called."""

Keep: TypeAlias = tuple[NDArray[np.bool_], NDArray[np.bool_]]
"""For each row of X and of Y whether it is tested."""


def dependence(x: Look, y: Look, without: Set[str], keep: Keep | None) -> Finding | None:
    """What to say if rows seem to depend on each other.

    Columns `without` which the samples are tested are not looked at, nor rows that are left out.
    """
    signs = signs_of_dependence(
        [_in_order(x, without, keep and keep[0]), _in_order(y, without, keep and keep[1])]
    )
    if signs is None:
        return None
    on_command_line = x.source is not None
    if signs.groups is not None:
        groups = asked("groups", signs.column, on_command_line)
        message = (
            f"Rows of one {quoted(signs.column)} follow each other in {signs.sample}, and which of "
            f"its {signs.groups} values a row has explains {signs.strength:.0%} of another column. "
            f"If rows of one {quoted(signs.column)} belong together, say so with {groups}, or p is "
            "too small."
        )
    else:
        blocks = asked("blocks", "auto", on_command_line)
        groups = asked("groups", ..., on_command_line)
        message = (
            f"Neighbouring rows resemble each other (a rank correlation of {signs.strength:.2f} in "
            f"column {quoted(signs.column)} of {signs.sample}), as in a series or where several "
            f"rows belong to one subject; independent rows do not. Say which with {blocks} or "
            f"{groups}, or p is too small; if the rows were only sorted, shuffle them."
        )
    column = None if signs.groups is None else signs.column
    return Finding(message, "warning", column, KIND)


def _in_order(look: Look, without: Set[str], keep: NDArray[np.bool_] | None) -> InOrder:
    places, columns = look.in_order()
    names = [name for name in columns if name not in without]
    values = np.column_stack([np.empty((len(places), 0)), *(columns[name] for name in names)])
    return InOrder(look.name, values if keep is None else values[keep[places]], names)
