"""All scenarios of the arena by name, in the order in which they are shown.

>>> import numpy as np
>>> X, Y = SCENARIOS["mean-1-of-5"].draw(np.random.default_rng(0))
>>> X.shape, Y.shape
((250, 5), (250, 5))
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable

from ...errors import InputError
from . import census, drawn, from_paper, real_tables
from .scenario import Scenario

_DIFFERENT = (
    *from_paper.SCENARIOS,
    *drawn.SCENARIOS,
    *real_tables.SCENARIOS,
    *census.SCENARIOS,
)
_NULLS = frozenset([*from_paper.NULLS, *drawn.NULLS, *real_tables.NULLS, *census.NULLS])

SCENARIOS: dict[str, Scenario] = {scenario.name: scenario for scenario in _DIFFERENT}
"""The scenarios with a difference, then the null versions of some of them."""

SCENARIOS.update(
    {scenario.null().name: scenario.null() for scenario in _DIFFERENT if scenario.name in _NULLS}
)


def select(patterns: Iterable[str]) -> list[Scenario]:
    """The scenarios whose names or groups match a pattern such as "blob-*"; all if there is none.

    Raises
    ------
    InputError
        If a pattern matches no scenario.
    """
    wanted = list(patterns)
    chosen: dict[str, Scenario] = {} if wanted else dict(SCENARIOS)
    for pattern in wanted:
        matching = {
            name: scenario
            for name, scenario in SCENARIOS.items()
            if fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(scenario.group, pattern)
        }
        if not matching:
            raise InputError(
                f"no scenario matches {pattern!r}; 'twosample bench arena --list' shows them all."
            )
        chosen.update(matching)
    return list(chosen.values())
