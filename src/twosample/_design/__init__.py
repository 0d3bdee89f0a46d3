"""Who may change places with whom: the part of a test that every split and permutation asks."""

from __future__ import annotations

from .dependence import Look, Sign, places_to_look_at, signs_of_dependence
from .designs import Blocks, Design, Groups, Key, Pairs, Rows, Strata, design_from
from .lengths import memory_of
from .units import SIDE, Codes, Units, counted, plural

__all__ = [
    "SIDE",
    "Blocks",
    "Codes",
    "Design",
    "Groups",
    "Key",
    "Look",
    "Pairs",
    "Rows",
    "Sign",
    "Strata",
    "Units",
    "counted",
    "design_from",
    "memory_of",
    "places_to_look_at",
    "plural",
    "signs_of_dependence",
]
