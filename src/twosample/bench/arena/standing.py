"""Who is ahead of whom in the arena, and of which cells that is not known yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy import stats

from .contestants import contestants
from .scenarios import SCENARIOS
from .store import Cell, Results

ALPHA = 0.05
"""The level of all tests."""

CLOSE = 0.05
"""So far behind the best is as good as the best."""

DEFAULT = "auto"
"""The contestant whose weaknesses the arena is to show."""

_NEVER_BEHIND = 1 - CLOSE  # with such a power nobody can be farther ahead than CLOSE
_DOUBT = 0.2  # p-value above which a lead may be chance; in one direction that is one in ten
_ROUNDING = 1e-6  # p-values are kept with six digits


class Score(NamedTuple):
    """How often a contestant rejected in a scenario, and what a test took."""

    rejections: int
    tests: int
    cpu_seconds: float

    @property
    def rate(self) -> float:
        """The share of tests that rejected: the power, or without a difference the level."""
        return self.rejections / self.tests


Scores = dict[str, dict[str, Score]]
"""Scenario -> contestant -> score."""


def scores(tests: Mapping[Cell, Results]) -> Scores:
    """Count the rejections of every cell, scenarios and contestants in their order."""
    table: Scores = {}
    for scenario in SCENARIOS:
        row = {}
        for contestant in contestants():
            known = tests.get(Cell(scenario, contestant))
            if known is not None:
                rejections = len(_rejected(known))
                row[contestant] = Score(rejections, len(known.pvalues), known.cpu_seconds)
        if row:
            table[scenario] = row
    return table


def _rejected(known: Results) -> set[int]:
    """The numbers of the tests that rejected."""
    return {number for number, pvalue in known.pvalues.items() if pvalue <= ALPHA + _ROUNDING}


class Lag(NamedTuple):
    """A contestant beside another one in a scenario, on the rows that both were given."""

    scenario: str
    rival: str
    tests: int
    own: int  # rejections of the contestant
    others: int  # rejections of the rival
    pvalue: float  # of a gap like this one between tests of equal power
    is_beaten: bool = False  # whether this rival, or any other, is clearly ahead

    @property
    def gap(self) -> float:
        """By how much the power of the contestant is lower; below 0 where it is higher."""
        return (self.others - self.own) / self.tests

    @property
    def is_clear(self) -> bool:
        """Whether it is more than 0.05 behind, and not by chance."""
        return self.gap > CLOSE + 1e-9 and self.pvalue <= ALPHA

    @property
    def is_clear_lead(self) -> bool:
        """Whether the contestant is ahead of the rival, and hardly by chance."""
        return self.gap < 0 and self.pvalue <= _DOUBT


Lags = dict[str, dict[str, Lag]]
"""Contestant -> scenario -> the rival that is farthest ahead of it."""


def lags(tests: Mapping[Cell, Results]) -> Lags:
    """Compare every contestant with every other; the one that is least behind comes first."""
    found: Lags = {}
    for scenario in SCENARIOS.values():
        if not scenario.different:
            continue
        row = _contestants_in(scenario.name, tests)
        for contestant, own in row.items():
            compared = [
                compare(scenario.name, own, rival, theirs)
                for rival, theirs in row.items()
                if rival != contestant
            ]
            others = [lag for lag in compared if lag is not None]
            if others:
                worst = max(others, key=lambda lag: lag.gap)
                # With few tests the largest gap may be chance where a smaller one is none.
                worst = worst._replace(is_beaten=any(lag.is_clear for lag in others))
                found.setdefault(contestant, {})[scenario.name] = worst
    means = {name: float(np.mean(gaps_of(of_one))) for name, of_one in found.items()}
    return {name: found[name] for name in sorted(found, key=lambda name: means[name])}


def _contestants_in(scenario: str, tests: Mapping[Cell, Results]) -> dict[str, Results]:
    """The results of a scenario by contestant, in the order of these."""
    cells = {contestant: Cell(scenario, contestant) for contestant in contestants()}
    return {contestant: tests[cell] for contestant, cell in cells.items() if cell in tests}


def gaps_of(of_one: Mapping[str, Lag]) -> list[float]:
    """How far behind the best a contestant is in each scenario: 0 where it is the best."""
    return [max(0.0, lag.gap) for lag in of_one.values()]


def compare(scenario: str, own: Results, rival: str, theirs: Results) -> Lag | None:
    """Put a contestant beside a rival on the rows that both were given; None if there are none."""
    common = own.pvalues.keys() & theirs.pvalues.keys()
    if not common:
        return None
    rejected = _rejected(own) & common
    by_rival = _rejected(theirs) & common
    only_own = len(rejected - by_rival)
    only_rival = len(by_rival - rejected)
    different = only_own + only_rival
    # Between tests of equal power each of the two is as likely to be the one that rejects.
    pvalue = stats.binomtest(only_rival, different).pvalue if different else 1.0
    return Lag(scenario, rival, len(common), len(rejected), len(by_rival), float(pvalue))


def undecided(tests: Mapping[Cell, Results]) -> list[Cell]:
    """The cells of contestants that may be as good as the default, and those of the default there.

    A contestant is behind where the default nearly always rejects, and where the default rejects
    more often on the rows that both were given and chance does not explain it. The cells in which
    the default is farthest behind, or least ahead, come first.
    """
    gaps: dict[Cell, float] = {}
    for scenario in SCENARIOS.values():
        row = _contestants_in(scenario.name, tests)
        own = row.pop(DEFAULT, None)
        if not scenario.different or own is None:
            continue
        if len(_rejected(own)) >= _NEVER_BEHIND * len(own.pvalues):
            continue
        for name, theirs in row.items():
            lag = compare(scenario.name, own, name, theirs)
            if lag is not None and not lag.is_clear_lead:
                gaps[Cell(scenario.name, name)] = lag.gap
                beside = Cell(scenario.name, DEFAULT)
                gaps[beside] = max(lag.gap, gaps.get(beside, -1.0))
    return sorted(gaps, key=lambda cell: -gaps[cell])
