"""One `spectral` test of a draw of the arena, with its rows of values kept: they can be fused in
other ways than the test does, all on the same labellings.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace

import numpy as np
import torch
from _measure import read, run_missing

import twosample
from twosample._fusing import combine_kinds, surprise
from twosample._random import Generators
from twosample.bench.arena.running import seed
from twosample.bench.arena.scenarios import SCENARIOS

ALPHA = 0.05


@dataclass(frozen=True)
class Row:
    """What one row of values stands for."""

    stack: str  # the views that it is of
    kind: str
    regularisation: float


@dataclass(frozen=True)
class Rows:
    """The values of all views for all labellings, the observed one first."""

    values: torch.Tensor  # (R, B + 1)
    surprises: torch.Tensor  # (R, B + 1) by the moments over all shuffles, where they are known
    about: list[Row]
    shares: dict[str, float]  # kind -> weight

    def only(self, wanted):
        """The rows of which `wanted` is true."""
        kept = [number for number, row in enumerate(self.about) if wanted(row)]
        about = [self.about[number] for number in kept]
        kinds = {row.kind for row in about}
        shares = {kind: weight for kind, weight in self.shares.items() if kind in kinds}
        return Rows(self.values[kept], self.surprises[kept], about, shares)

    def renamed(self, kind_of):
        """The same rows, each of the kind that `kind_of` gives it, all kinds with equal shares."""
        about = [replace(row, kind=kind_of(row)) for row in self.about]
        shares = dict.fromkeys((row.kind for row in about), 1.0)
        return replace(self, about=about, shares=shares)

    def of_labellings(self, chosen):
        """The rows of some of the labellings, the observed one first."""
        return replace(self, values=self.values[:, chosen], surprises=self.surprises[:, chosen])

    def by_own_moments(self):
        """The same rows with surprises by the moments of their values, as if no others were known."""
        return replace(self, surprises=surprise(self.values))

    def fused(self):
        """(B + 1,) the number that the test gives each labelling."""
        return combined(self.maxima(), self.shares)

    def maxima(self):
        """Kind -> (B + 1,) the largest surprise of its rows."""
        numbers = defaultdict(list)
        for number, row in enumerate(self.about):
            numbers[row.kind].append(number)
        return {kind: self.surprises[numbers[kind]].amax(0) for kind in self.shares}


class _Kept(twosample.Spectral):
    """`Spectral`, which keeps what it fuses."""

    kept = None  # what the last test has kept

    def prepare(self, representation, points, bins, generator):
        prepared = super().prepare(representation, points, bins, generator)
        stacks = list(representation)
        about = []
        for view in prepared.rows():
            stack = stacks[view.stack]
            name = getattr(stack, "called", repr(stack))
            about.append(Row(name, representation.kind_of(stack).name, view.regularisation))
        kinds = dict.fromkeys(row.kind for row in about)  # the test numbers them as they come
        shares = dict(zip(kinds, prepared.shares.tolist(), strict=True))
        type(self).kept = about, shares
        return prepared

    def fuse(self, prepared, values):
        about, shares = type(self).kept
        surprises = surprise(values, prepared.moments())
        type(self).kept = Rows(values, surprises, about, shares)
        return super().fuse(prepared, values)


def rows_of(name, number, permutations, *views):
    """The rows of a draw of the arena, with views of your own beside the usual ones."""
    scenario = SCENARIOS[name]
    generators = Generators(seed(name, number))
    pair = scenario.draw(generators.numpy("samples"))
    columns = twosample.Columns(missing="indicator") if scenario.kind == "table" else None
    return rows_of_pair(pair, permutations, generators.numpy("test"), columns, *views)


def rows_of_pair(pair, permutations, rng, columns=None, *views):
    """The rows of two samples, with views of your own beside the usual ones."""
    test = twosample.TwoSampleTest(
        twosample.Views(None, *views),
        statistic=_Kept(),
        calibration=twosample.Permutation(permutations),
    )
    test.run(*pair, rng=rng, columns=columns, progress=False)
    rows = _Kept.kept
    _Kept.kept = None  # it is large
    return rows


def combined(maxima, shares):
    """(B + 1,) maxima by kind, combined as the test combines them."""
    largest = torch.stack([maxima[kind] for kind in shares])
    weights = torch.tensor(list(shares.values()), dtype=torch.float64)
    return combine_kinds(largest, largest, weights)


def rank(fused):
    """The share of labellings whose number reaches that of the observed one."""
    count = int((fused >= fused[0] - 1e-9).sum())
    return round(count / len(fused), 6)


def run(store, scenarios, draws, minutes, pvalues):
    """Append a line for each draw that is not in the store; `pvalues` gets its name and number."""
    # Breadth first: a run that is stopped has draws of every scenario.
    jobs = (
        ((name, number), lambda name=name, number=number: {"pvalues": pvalues(name, number)})
        for number in range(draws)
        for name in scenarios
    )
    run_missing(store, ("scenario", "number"), jobs, minutes)


def powers(store, titles):
    """Title -> scenario -> power; what changes nothing is not stored, and is as the first title."""
    first = titles[0]
    rejected = {title: defaultdict(list) for title in titles}
    for line in read(store):
        known = line["pvalues"]
        for title in titles:
            pvalue = known.get(title, known[first])
            rejected[title][line["scenario"]].append(pvalue <= ALPHA)
    return {
        title: {name: float(np.mean(tests)) for name, tests in by_scenario.items()}
        for title, by_scenario in rejected.items()
    }


def fewest_draws(store, scenarios):
    """How many draws every one of these scenarios has at least."""
    counts = Counter(line["scenario"] for line in read(store))
    return min(counts[name] for name in scenarios)


def gains(power, before):
    """Two cells: where the power is most above what it was before, and most below."""
    in_order = sorted(before, key=lambda name: before[name] - power[name])
    cells = []
    for name, sign in ((in_order[0], 1), (in_order[-1], -1)):
        gain = power[name] - before[name]
        cells.append(f"{name} {gain:+.2f}" if sign * gain > 0 else "")
    return cells
