"""What the arena has shown: the leaderboard, the powers, the levels, and the page of them all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..._saving.saving import replace, writable
from ...errors import InputError
from .. import figures
from ..experiments import EXPERIMENTS
from ..tables import binomial_limits
from . import picture
from .contestants import contestants
from .from_paper import PUBLISHED
from .scenario import Scenario
from .scenarios import SCENARIOS
from .standing import (
    ALPHA,
    CLOSE,
    DEFAULT,
    Lag,
    Lags,
    Score,
    Scores,
    compare,
    gaps_of,
    lags,
    scores,
)
from .store import Cell, Results

PAPER = "mmd-d"
"""The test that the paper proposes."""

FAR = 0.15
"""Farther behind the best is a weakness."""

_COSTS = (0.1, 0.3, 0.5, 1.0, 3.0)  # CPU seconds of a test


# Tables


def leaderboard(table: Scores, found: Lags) -> list[str]:
    """A line for each contestant: how far it is behind, its level, its time."""
    lines = [
        "| test | scenarios | mean power | mean behind the best | most behind | within 0.05 | "
        "clearly behind | level | exact 95 % limits | null tests | CPU s |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for contestant, of_one in found.items():
        own = {name: row[contestant] for name, row in table.items() if contestant in row}
        powers = [own[name].rate for name in of_one]
        gaps = gaps_of(of_one)
        close = sum(gap <= CLOSE + 1e-9 for gap in gaps)
        worst = max(of_one.values(), key=lambda lag: lag.gap)
        seconds = np.median([score.cpu_seconds for score in own.values()])
        cells = [
            contestant,
            str(len(gaps)),
            f"{np.mean(powers):.2f}",
            f"{np.mean(gaps):.2f}",
            f"{max(gaps):.2f} ({worst.scenario})",
            f"{100 * close / len(gaps):.0f} %",
            str(sum(lag.is_beaten for lag in of_one.values())),
            *_level([score for name, score in own.items() if not SCENARIOS[name].different]),
            f"{seconds:.2f}",
        ]
        lines.append(_line(cells))
    return lines


def numbers_of_tests(table: Scores) -> list[str]:
    """A line for each of some costs: how many tests the cells have in which a test costs less."""
    lines = [_line(["a test takes", "cells", "fewest tests", "median"]), _line(["---"] * 4)]
    cells = [score for row in table.values() for score in row.values()]
    below = -1.0
    for limit in (*_COSTS, np.inf):
        counts = [score.tests for score in cells if below < score.cpu_seconds <= limit]
        if counts:
            cost = f"up to {limit:g} CPU s" if limit < np.inf else "more"
            lines.append(
                _line([cost, str(len(counts)), str(min(counts)), f"{np.median(counts):g}"])
            )
        below = limit
    return lines


def weaknesses(found: Lags) -> list[Lag]:
    """Where the default is more than 0.05 behind the best of the others, the farthest first."""
    behind = [lag for lag in found.get(DEFAULT, {}).values() if lag.gap > CLOSE + 1e-9]
    return sorted(behind, key=lambda lag: -lag.gap)


def weakness_table(behind: Sequence[Lag]) -> list[str]:
    """A line for each scenario in which the default is behind, with the reason if it is known."""
    lines = [
        _line(
            ["scenario", DEFAULT, "best", "its power", "behind", "tests", "p of the gap", "reason"]
        ),
        _line(["---"] * 8),
    ]
    for lag in behind:
        cells = [
            lag.scenario,
            f"{lag.own / lag.tests:.2f}",
            lag.rival,
            f"{lag.others / lag.tests:.2f}",
            f"{lag.gap:.2f}",
            str(lag.tests),
            f"{lag.pvalue:.2g}",
            REASONS.get(lag.scenario, "") if lag.is_clear else "may be chance",
        ]
        lines.append(_line(cells))
    return lines


def published_table(table: Scores) -> list[str]:
    """A line for each setting whose power the paper prints: the best of its tests, and ours."""
    lines = [
        _line(["scenario", "rows", "best of the paper", "its power there", DEFAULT, "tests"]),
        _line(["---"] * 6),
    ]
    for scenario, (experiment, row) in PUBLISHED.items():
        own = table.get(scenario, {}).get(DEFAULT)
        if own is None:
            continue
        printed = EXPERIMENTS[experiment].published[row]
        best = max(printed, key=lambda method: printed[method].rate)
        n, m = SCENARIOS[scenario].sizes
        power = f"{printed[best].rate:.3f}"
        lines.append(
            _line([scenario, f"{n} + {m}", best, power, f"{own.rate:.2f}", str(own.tests)])
        )
    return lines


def learned_table(tests: Mapping[Cell, Results]) -> list[str]:
    """A line for each group: the mean power of the default and of the paper's test, on equal rows.

    A scenario counts with the tests that both were given.
    """
    lines = [_line(["scenarios", "how many", DEFAULT, PAPER, "times"]), _line(["---"] * 5)]
    by_group: dict[str, list[Lag]] = {}
    for scenario in SCENARIOS.values():
        own = tests.get(Cell(scenario.name, DEFAULT))
        theirs = tests.get(Cell(scenario.name, PAPER))
        if own is None or theirs is None or not scenario.different:
            continue
        lag = compare(scenario.name, own, PAPER, theirs)
        if lag is not None:
            in_group = by_group.setdefault(scenario.group, [])
            in_group.append(lag)
    for group, in_group in by_group.items():
        ours = np.mean([lag.own / lag.tests for lag in in_group])
        papers = np.mean([lag.others / lag.tests for lag in in_group])
        times = f"{ours / papers:.1f}" if papers else ""
        count = str(len(in_group))
        lines.append(_line([group, count, f"{ours:.2f}", f"{papers:.2f}", times]))
    return lines


def _level(nulls: Sequence[Score]) -> list[str]:
    """The level over all scenarios without a difference, its limits, and the number of tests."""
    tests = sum(score.tests for score in nulls)
    if not tests:
        return ["", "", "0"]
    rejections = sum(score.rejections for score in nulls)
    low, high = binomial_limits(rejections, tests, 0.95)
    return [f"{rejections / tests:.3f}", f"{low:.3f} to {high:.3f}", str(tests)]


def group_table(table: Scores, rows: Sequence[Scenario]) -> list[str]:
    """Powers of all contestants in some scenarios, with the numbers of tests; the best is bold."""
    names = [name for name in contestants() if any(name in table[row.name] for row in rows)]
    lines = [_line(["scenario", "rows", "what differs", *names]), _line(["---"] * (len(names) + 3))]
    for scenario in rows:
        row = table[scenario.name]
        best = _best(row)
        cells = [_cell(row.get(name), best if scenario.different else None) for name in names]
        n, m = scenario.sizes
        lines.append(_line([scenario.name, f"{n} + {m}", scenario.about, *cells]))
    return lines


def _best(row: Mapping[str, Score]) -> float:
    """The largest power of those with enough tests to be called the best."""
    default = row.get(DEFAULT)
    enough = 0.0 if default is None else default.tests / 2
    return max(score.rate for score in row.values() if score.tests >= enough)


def _cell(score: Score | None, best: float | None) -> str:
    if score is None:
        return ""
    rate = f"{score.rate:.2f}"
    if best is not None and score.rate == best > 0:
        rate = f"**{rate}**"
    return f"{rate} ({score.tests})"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def page(tests: Mapping[Cell, Results], image: str | None = None) -> str:
    """The page, as markdown; `image` is where the picture is, seen from the page."""
    table = scores(tests)
    if not table:
        raise InputError("the arena has no results yet; run 'twosample bench arena' first.")
    found = lags(tests)
    board = leaderboard(table, found)
    lines = ["# The arena", "", _INTRODUCTION, "", *numbers_of_tests(table)]
    lines += ["", "## The leaderboard", "", _BOARD, "", *board]
    if image is not None:
        alternative = "For every test a row of dots: how far its power is below the best"
        lines += ["", f"![{alternative}]({image})", "", _PICTURE]
    behind = weaknesses(found)
    if behind:
        lines += ["", "## Where the default is behind", "", _BEHIND, "", *weakness_table(behind)]
    beside = published_table(table)
    if len(beside) > 2:
        lines += ["", "## Beside the paper", "", _BESIDE, "", *beside]
    learned = learned_table(tests)
    if len(learned) > 2:
        lines += ["", "## Beside a kernel that is trained", "", _LEARNED, "", *learned]
    lines += ["", "## Power in every scenario", "", _CELLS]
    shown = [SCENARIOS[name] for name in table]
    for group in dict.fromkeys(scenario.group for scenario in shown):
        rows = [each for each in shown if each.group == group and each.different]
        if rows:
            lines += ["", f"### {group[0].upper()}{group[1:]}", "", *group_table(table, rows)]
    nulls = [scenario for scenario in shown if not scenario.different]
    if nulls:
        lines += ["", "## Rejections without a difference", "", _NULLS, ""]
        lines += group_table(table, nulls)
    return "\n".join(lines) + "\n"


_INTRODUCTION = """\
Every test gets the same rows. One that trains has to split them; the others use all of them. The
numbers are shares of tests with p at most 0.05, on samples that are drawn anew for every test and
are the same for all contestants. `twosample bench arena` runs what is missing, and
`twosample bench arena --write docs` writes this page.

A cell is one contestant in one scenario. The first tests are for all cells. More are given where a
test is quick, to the default, and where a few tests leave open whether the default is ahead
(`--undecided`). So cells have different numbers of tests, which stand in brackets. A cell with five
tests or fewer shows who is far behind, and little else."""
_BOARD = f"""\
A contestant is compared with each of the others on the rows that both were given. *Behind the best*
is by how much its power is below that of the rival that is farthest ahead. The best of many is
partly lucky: with 100 tests the standard error of a power of one half is 0.05, with ten it is 0.16.
So *clearly behind* counts the scenarios in which a gap to some rival is above {CLOSE} and has a
p-value of at most {ALPHA}, by the tests in which only one of the two rejected. `spectral` is the
first part of `{DEFAULT}`, and all of it where samples have fewer than 1,000 rows or two columns.
Where contestants have different numbers of scenarios, their means cannot be compared."""
_PICTURE = f"""\
A dot is a scenario: by how much the power of the test is below that of the best in it. The lines
are at {CLOSE} and {FAR}. The bar is the mean."""
_BEHIND = f"""\
Scenarios in which `{DEFAULT}` is more than {CLOSE} behind the best of the others, on the rows that
both were given. The p-value is that of a gap like this between two tests of equal power; but the
best of many is chosen after the fact, so that some are small by chance."""
_BESIDE = f"""\
Settings for which the paper prints a power. Its tests had the same rows, one half to train on and
the other to test. `{DEFAULT}` gets them whole. CIFAR-10.1 is missing: its images are not
at hand."""
_LEARNED = f"""\
The mean power of `{DEFAULT}` and of the paper's test, `{PAPER}`, on the rows that both were
given."""
_CELLS = """\
In brackets: how many tests there were. Bold: the best of those with at least half as many tests as
the default."""
_NULLS = "Both samples come from the same distribution, so that 5 % are to be rejected at most."


_SHARED = "one distance is all that such a shift takes; here it has a share of the level"
_CLASSES = (
    "shares of classes move all columns a little; one distance sees that best, with the whole level"
)
_COLUMNS = "tests of single columns share the level among these only, not with pairs and kernels"
_KERNELS = "one kernel is all that this takes; here many kernels and views share the level"
_FAR_AWAY = "a few values far away are most of a distance; here they are one kind of view of many"

REASONS = {
    "perturbed-1d-2": _KERNELS,
    "perturbed-1d-3": _KERNELS,
    "perturbed-1d-4": _KERNELS,
    "perturbed-2d-2": _KERNELS,
    "mean-1-of-5": _SHARED,
    "rounded": _SHARED,
    "unequal-mean": _SHARED,
    "poisson-rate": _SHARED,
    "small-mean": _SHARED,
    "wine-classes": _CLASSES,
    "cancer-classes": _CLASSES,
    "census-boolean": _COLUMNS,
    "census-missing": _COLUMNS,
    "census-sentinel": _FAR_AWAY,
}
"""Why the default is behind in a scenario, where that is known (decision 9)."""


def write(folder: Path, tests: Mapping[Cell, Results]) -> list[Path]:
    """Write the page and its picture into a folder such as docs."""
    text = page(tests, "images/arena.png")
    image = folder / "images" / "arena.png"
    image.parent.mkdir(parents=True, exist_ok=True)
    gaps = {
        name: dict(zip(of_one, gaps_of(of_one), strict=True))
        for name, of_one in lags(tests).items()
    }
    figures.save(picture.draw(gaps, (CLOSE, FAR)), image)
    target = folder / "arena.md"
    replace(writable(target), text.encode())
    return [target, image]
