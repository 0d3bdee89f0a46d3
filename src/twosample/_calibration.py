"""What the statistic looks like when P = Q, hence the p-value.

`Permutation` and `PairSwap` are exact at every sample size. `Asymptotic` and `SpectralLimit` are
limits, which large samples come near to.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ._checks import check_whole
from ._data.embedding import embed_samples
from ._data.samples import EmbeddedSamples, Samples
from ._design import SIDE, Design, Rows, Units, counted, plural
from ._kernels import Kernel, embedding_of
from ._products import block_sums, rows_of
from ._resources import DEFAULT_MEMORY, Resources
from ._result import ALPHA
from ._shuffles import Draw, Shuffles
from ._statistics import Bins, Prepared, Statistic
from .errors import IncompatibleParts, InputError, TrainingError, warn

_MOST_PERMUTATIONS = 10_000_000  # more would take hours, or memory that nobody has
_FEW_LABELLINGS = 20  # with fewer, no p-value can be below 0.05
_FEW_UNITS = 100  # labellings of units: with fewer, the smallest p-value is worth a sentence


@dataclass(frozen=True, eq=False)
class Calibrated:
    """The values of a statistic over shuffles, the observed order first, and what was shuffled."""

    values: Tensor  # (B + 1,); the observed value alone where a law takes the place of shuffles
    pvalue: float
    threshold: float  # the value that must be reached at level 0.05
    description: str
    prepared: Prepared
    shuffles: Shuffles  # the identity alone where nothing was shuffled
    how: str = ""  # the description without what moved: "999 permutations"
    units: Units | None = None  # what moved, where rows did not by themselves

    @property
    def in_short(self) -> str:
        """What a reader needs of the description: how often was shuffled, or which law."""
        return self.how or self.description


class Calibration(ABC):
    """From a statistic to a p-value."""

    @abstractmethod
    def check(self, statistic: Statistic, representation: nn.Module) -> None:
        """Raise `IncompatibleParts` if it cannot calibrate this statistic, and say what can."""

    def check_design(self, design: Design, statistic: Statistic) -> None:
        """Raise `IncompatibleParts` if it takes rows for independent that need not be."""
        if not isinstance(design, Rows):
            raise IncompatibleParts(
                f"{self!r} takes rows for independent of each other, which {design!r} says they "
                "are not. Use Permutation()."
            )

    @abstractmethod
    def plan(
        self,
        n: int,
        m: int,
        generator: torch.Generator,
        least: int = 1,
        most: int | None = None,
    ) -> Bins:
        """Cut samples of n and m points into bins: `least` or more if possible, `most` at most."""

    def plan_units(self, units: Units, generator: torch.Generator, most: int | None = None) -> Bins:
        """Put units into bins, `most` at most, where `check_design` does not object."""
        raise NotImplementedError

    @abstractmethod
    def calibrate(
        self,
        statistic: Statistic,
        representation: nn.Module,
        points: EmbeddedSamples,
        prepared: Prepared,
        generator: torch.Generator,
    ) -> Calibrated:
        """The p-value of what a statistic has prepared."""

    def __call__(
        self,
        statistic: Statistic,
        representation: nn.Module,
        samples: Samples | EmbeddedSamples,
        generator: torch.Generator,
        resources: Resources = Resources(),
    ) -> Calibrated:
        """The p-value of two samples: embed the points, prepare the statistic once, calibrate."""
        n, m = samples.sizes
        # The plan sees sizes only, and the network sees points without labels. Whatever is decided
        # before the statistic is evaluated is therefore the same for every labelling.
        least = statistic.least_bins(n, m)
        most = statistic.most_bins(representation, resources.memory)
        if samples.units is None:
            bins = self.plan(n, m, generator, least, most)
        else:
            bins = self.plan_units(samples.units, generator, most)
        points = embed_samples(samples, embedding_of(representation), generator, resources)
        prepared = statistic.prepare(representation, points, bins, generator)
        return self.calibrate(statistic, representation, points, prepared, generator)


@dataclass(frozen=True)
class Permutation(Calibration):
    """The exact permutation test: if P = Q, every shuffle is as likely as the observed order.

    p = (1 + number of shuffles whose value is at least the observed one) / (1 + permutations), ties
    included, never 0. The level is at most alpha at every sample size. When fewer distinct
    labellings exist than permutations are asked for, all of them are enumerated instead.

    Large samples are shuffled in bins: both are cut into bins of one size
    b = max(1, min(n, m) // bins), and whole bins change places; points that are left over stay.
    These moves are a group, so the level stays exact; a thousand of them cost a product with a
    matrix of bins instead of points.

    Parameters
    ----------
    permutations
        Number of random shuffles.
    bins
        Samples smaller than twice this many points are shuffled point by point.
    max_bins
        At most so many bins of the larger sample move.
    """

    permutations: int = 999
    bins: int = 500
    max_bins: int = 1000

    def __post_init__(self) -> None:
        _check_permutations(self.permutations)
        check_whole("bins", self.bins, 1)
        check_whole("max_bins", self.max_bins, 1)

    def check(self, statistic: Statistic, representation: nn.Module) -> None:
        if "permutations" not in statistic.shuffled_by:
            raise IncompatibleParts(
                f"{statistic!r} has values for swaps of pairs only, not for all permutations. Use "
                "PairSwap() or Asymptotic(), or the unpaired statistic."
            )

    def check_design(self, design: Design, statistic: Statistic) -> None:
        if not isinstance(design, Rows) and not statistic.takes_units:
            raise IncompatibleParts(
                f"{statistic!r} has no values where units of several rows move, as {design!r} "
                "asks. Use MMD('unbiased'), MMD('biased'), HotellingT2() or Spectral()."
            )

    def plan(
        self,
        n: int,
        m: int,
        generator: torch.Generator,
        least: int = 1,
        most: int | None = None,
    ) -> Bins:
        """Cut samples of n and m points into bins, each sample in a random order."""
        # One size for both samples: bins of different sizes could not change places.
        size = max(1, min(n, m) // self.bins)
        if most is None:
            return _cut(n, m, size, self.max_bins, generator)
        of_each = max(1, most // 2)
        size = max(size, -(-min(n, m) // of_each))
        return _cut(n, m, size, min(self.max_bins, of_each), generator)

    def plan_units(self, units: Units, generator: torch.Generator, most: int | None = None) -> Bins:
        """Put whole units into bins, of units that may change places."""
        room = 2 * self.max_bins
        return _cut_units(units, room if most is None else min(room, most), generator)

    def shuffles(
        self,
        bins: Bins,
        generator: torch.Generator,
        *,
        order_matters: bool = False,
    ) -> Shuffles:
        """Random permutations of the moving bins; where there are few labellings, all of them.

        With several cells, those that keep every bin within its cell.
        """
        labellings = self._labellings(bins)
        # Asking for more permutations than there are labellings would only count some twice.
        if not order_matters and labellings <= self.permutations + 1:
            listed = _labellings if bins.cells is None else _labellings_within_cells
            return Shuffles.listed(labellings, bins.moving, partial(listed, bins))
        draw: Draw = partial(_random_orders, bins.moving)
        if bins.cells is not None:
            draw = partial(_random_orders_within_cells, bins.cells[: bins.moving])
        return Shuffles.random(self.permutations, bins.moving, draw, generator)

    def calibrate(
        self,
        statistic: Statistic,
        representation: nn.Module,
        points: EmbeddedSamples,
        prepared: Prepared,
        generator: torch.Generator,
    ) -> Calibrated:
        """Evaluate the statistic on every shuffle, and count."""
        bins = prepared.bins
        # Shuffles with the same points in X are one labelling, unless the statistic tells them
        # apart.
        order_matters = statistic.depends_on_order
        shuffles = self.shuffles(bins, generator, order_matters=order_matters)
        enumerated = not order_matters and self._labellings(bins) == len(shuffles)
        if enumerated:
            how = f"all {len(shuffles)} labellings"
        else:
            how = f"{self.permutations} permutations"
        if points.units is None:
            moved = _moved(bins, sum(points.sizes))
        else:
            moved = _moved_units(bins, points.units)
        return _counted(statistic, prepared, shuffles, points, enumerated, how, moved)

    def _labellings(self, bins: Bins) -> int:
        ways = 1
        for of_x, of_y in _moving_in_cells(bins):
            ways *= math.comb(len(of_x) + len(of_y), len(of_x))
        return ways


@dataclass(frozen=True)
class PairSwap(Calibration):
    """Exact, by swapping at random the partners of pairs (X_i, Y_i): the Rademacher wild bootstrap.

    The permutations that swap pairs are a group of their own, so the level is at most alpha at
    every sample size. A swap changes the signs of the H_ij of its pair and nothing else, so
    statistics that are sums of few H_ij, such as `BlockMMD`, need no others. Points of the larger
    sample that have no partner stay. Large samples are swapped in bins of pairs.

    Parameters
    ----------
    permutations
        Number of random swaps; all of them are enumerated instead where they are fewer.
    bins
        Samples smaller than twice this many pairs are swapped pair by pair.
    """

    permutations: int = 999
    bins: int = 500

    def __post_init__(self) -> None:
        _check_permutations(self.permutations)
        check_whole("bins", self.bins, 1)

    def check(self, statistic: Statistic, representation: nn.Module) -> None:
        if "swaps" not in statistic.shuffled_by:
            raise IncompatibleParts(
                f"PairSwap() swaps the partners of pairs, and {statistic!r} is no sum over pairs. "
                f"Use {statistic.paired_form}, or Permutation()."
            )

    def plan(
        self,
        n: int,
        m: int,
        generator: torch.Generator,
        least: int = 1,
        most: int | None = None,
    ) -> Bins:
        """Cut min(n, m) random pairs into bins; points without a partner stay."""
        pairs = min(n, m)
        # A statistic may need more bins than the plan would give it: blocks are made of whole ones.
        size = max(1, pairs // max(self.bins, least))
        return _cut(n, m, size, pairs // size, generator)

    def shuffles(self, bins: Bins, generator: torch.Generator) -> Shuffles:
        """Random permutations that swap bins of pairs; where there are few, all of them."""
        pairs = bins.moving_x
        if self._are_few(pairs):
            return Shuffles.listed(2**pairs, 2 * pairs, partial(_all_swaps, pairs))
        draw = partial(_random_swaps, pairs)
        return Shuffles.random(self.permutations, 2 * pairs, draw, generator)

    def calibrate(
        self,
        statistic: Statistic,
        representation: nn.Module,
        points: EmbeddedSamples,
        prepared: Prepared,
        generator: torch.Generator,
    ) -> Calibrated:
        """Evaluate the statistic on every swap, and count."""
        bins = prepared.bins
        shuffles = self.shuffles(bins, generator)
        enumerated = self._are_few(bins.moving_x)
        unit = "pairs" if bins.size == 1 else f"bins of {bins.size} pairs"
        if enumerated:
            how = f"all {len(shuffles)} swaps"
        else:
            how = f"{self.permutations} random swaps"
        moved = f"{bins.moving_x} {unit}"
        return _counted(statistic, prepared, shuffles, points, enumerated, how, moved)

    def _are_few(self, pairs: int) -> bool:
        """Whether there are no more ways to swap than permutations were asked for."""
        # 2^63 is no number of torch's; nobody asks for so many.
        return pairs < 63 and 2**pairs <= self.permutations + 1


@dataclass(frozen=True)
class Asymptotic(Calibration):
    """The limiting law of the statistic, where it has one without unknown parameters. Not exact.

    Chi-squared for Hotelling's T^2, normal for `BlockMMD`, binomial for the accuracy of a
    classifier.
    """

    def check(self, statistic: Statistic, representation: nn.Module) -> None:
        statistic.check_law(representation)

    def plan(
        self,
        n: int,
        m: int,
        generator: torch.Generator,
        least: int = 1,
        most: int | None = None,
    ) -> Bins:
        """Cut both samples into bins, all of which might move."""
        # Nothing is shuffled; some hundred bins are enough for a statistic that is made of them.
        size = max(1, min(n, m) // max(500, least))
        return _cut(n, m, size, max(n, m), generator)

    def calibrate(
        self,
        statistic: Statistic,
        representation: nn.Module,
        points: EmbeddedSamples,
        prepared: Prepared,
        generator: torch.Generator,
    ) -> Calibrated:
        """The chance, by the law, of a value at least as large as the observed one."""
        observed = _observed(statistic, prepared)
        law = statistic.law(prepared)
        return Calibrated(
            values=observed,
            pvalue=law.survival(float(observed[0])),
            threshold=law.threshold(ALPHA),
            description=f"{law.name} (asymptotic)",
            prepared=prepared,
            shuffles=Shuffles.none(prepared.bins.moving),
        )


@dataclass(frozen=True)
class SpectralLimit(Calibration):
    """Draws from the limit of MMD^2 under P = Q, by estimated eigenvalues. Not exact.

    Proposition 1 of [Liu2020], for any sizes: MMD^2 tends to
    (1/n + 1/m) sum_l lambda_l (Z_l^2 - 1) with Z_l standard normal and lambda_l the eigenvalues of
    the centred kernel (without the -1 for the biased estimator). They are estimated from the Gram
    matrix of pooled points [Gretton2009].

    Parameters
    ----------
    draws
        Number of draws.
    points
        At most so many pooled points, drawn blind to labels, make the Gram matrix.
    """

    draws: int = 9999
    points: int = 1000

    def __post_init__(self) -> None:
        check_whole("draws", self.draws, 1)
        check_whole("points", self.points, 1)

    def check(self, statistic: Statistic, representation: nn.Module) -> None:
        if statistic.limit_shift is None:
            raise IncompatibleParts(
                "SpectralLimit() has the limit of MMD('unbiased'), MMD('biased') and "
                f"MMD('paired'), not that of {statistic!r}. Use Asymptotic(), or Permutation()."
            )

    def plan(
        self,
        n: int,
        m: int,
        generator: torch.Generator,
        least: int = 1,
        most: int | None = None,
    ) -> Bins:
        """Cut both samples into some hundred bins: fewer sums, and nothing moves."""
        size = max(1, min(n, m) // 500)
        return _cut(n, m, size, 1000, generator)

    def calibrate(
        self,
        statistic: Statistic,
        representation: nn.Module,
        points: EmbeddedSamples,
        prepared: Prepared,
        generator: torch.Generator,
    ) -> Calibrated:
        """The share of draws, the observed value among them, that are at least the observed one."""
        n, m = points.sizes
        observed = _observed(statistic, prepared)
        eigenvalues = self.eigenvalues(representation, points, generator)
        shape = (self.draws, len(eigenvalues))
        normal = torch.randn(shape, generator=generator, dtype=torch.float64)
        shift = statistic.limit_shift or 0.0
        sums = (normal.square() - shift) @ eigenvalues  # (draws,)
        draws = (1 / n + 1 / m) * sums
        # The observed value counts among the draws, so that p is never 0.
        values = torch.cat([observed, draws])
        limit = f"the limit with {len(eigenvalues)} eigenvalues (asymptotic)"
        return Calibrated(
            values=values,
            pvalue=pvalue(values, prepared.resolution),
            threshold=threshold(values),
            description=f"{self.draws} draws from {limit}",
            prepared=prepared,
            shuffles=Shuffles.none(prepared.bins.moving),
        )

    def eigenvalues(
        self, representation: nn.Module, points: EmbeddedSamples, generator: torch.Generator
    ) -> Tensor:
        """Those of the centred kernel that count, from at most `points` pooled points."""
        # Blind to labels: P = Q is taken for granted here, so pooled points are one sample.
        order = torch.randperm(sum(points.sizes), generator=generator)
        chosen = order[: self.points]
        z = points.parts
        some = rows_of(z, chosen.to(z[0].device))
        kernel = cast(Kernel, representation)
        one_each = torch.arange(len(chosen))  # bins of one point give the Gram matrix
        sums = block_sums(kernel, some, one_each, memory=points.resources.memory)
        K = sums.double().cpu()  # (points, points)
        centred = K - K.mean(0) - K.mean(1, keepdim=True) + K.mean()
        eigenvalues = torch.linalg.eigvalsh(centred).clamp_min(0)  # rounding goes below 0
        values: Tensor = eigenvalues / (len(chosen) - 1)
        # Smaller ones add less to a draw than its own noise, and there are many of them.
        noticeable = values > 1e-6 * values.sum()
        return values[noticeable].flip(0)


def pvalue(values: Tensor, resolution: float) -> float:
    """The share of `values` that are at least the first, which counts itself.

    Values that differ by no more than rounding are equal.
    """
    largest = float(values.abs().max())
    tolerance = max(resolution, 1e-12 * largest)
    reached = values >= values[0] - tolerance  # the first reaches itself: p is never 0
    return float(reached.double().mean())


def threshold(values: Tensor) -> float:
    """What the first of `values` must reach to be rejected at level 0.05."""
    # "higher", a value that occurs: between two of them no observed value lies.
    return float(torch.quantile(values, 1 - ALPHA, interpolation="higher"))


def null_threshold(null: NDArray[np.float64], alpha: float) -> float | None:
    """What an observed value must exceed to be rejected at level `alpha`.

    `null` has the values over shuffles without the observed one, which may be any. None if they are
    so few that no value is rejected.
    """
    # p <= alpha means that fewer than `rank` shuffles reach the observed value. An alpha such as
    # 0.29 times 100 is a little below 29 in floats, hence the small addend.
    rank = math.floor(alpha * (len(null) + 1) + 1e-9)
    if rank < 1:
        return None
    place = len(null) - min(rank, len(null))
    return float(np.partition(null, place)[place])


def evaluated(
    statistic: Statistic,
    prepared: Prepared,
    shuffles: Shuffles,
    memory: int = DEFAULT_MEMORY,
) -> Tensor:
    """(B + 1,) values of a statistic over shuffles, some of them at a time."""
    parts = shuffles.within(memory)
    values = [statistic.evaluate(prepared, part) for part in parts]
    # Only all labellings together can be fused: a rank, or a mean over them, needs every one.
    return statistic.fuse(prepared, torch.cat(values, -1))


def _counted(
    statistic: Statistic,
    prepared: Prepared,
    shuffles: Shuffles,
    points: EmbeddedSamples,
    enumerated: bool,
    how: str,
    moved: str,
) -> Calibrated:
    values = evaluated(statistic, prepared, shuffles, points.resources.memory)
    _check_finite(values)  # comparisons with NaN are all False, and p would be too small
    description = f"{how} of {moved}"
    looked_at = statistic.describe(prepared)
    if looked_at:
        description += f", {looked_at}"
    if points.units is not None:
        description += _few_units(points.units, len(shuffles) if enumerated else None)
    elif enumerated and len(shuffles) < _FEW_LABELLINGS:
        n, m = points.sizes
        warn(
            f"with {n} and {m} points to test there are only {len(shuffles)} labellings, so no "
            f"p-value below {1 / len(shuffles):.3g} is possible; use more points, or a smaller "
            "train_fraction."
        )
    return Calibrated(
        values=values,
        pvalue=pvalue(values, prepared.resolution),
        threshold=threshold(values),
        description=description,
        prepared=prepared,
        shuffles=shuffles,
        how=how,
        units=points.units,
    )


def _observed(statistic: Statistic, prepared: Prepared) -> Tensor:
    """(1,) the observed value."""
    value = evaluated(statistic, prepared, Shuffles.none(prepared.bins.moving))
    _check_finite(value)
    return value


def _random_orders(moving: int, count: int, generator: torch.Generator) -> Tensor:
    # In float64, where two keys of a row are hardly ever equal.
    keys = torch.rand(count, moving, generator=generator, dtype=torch.float64)
    return keys.argsort(1)


def _labellings(bins: Bins) -> Iterator[list[int]]:
    """One permutation for each way to choose the bins of X."""
    everything = set(range(bins.moving))
    # In the order of `combinations` the identity comes first, as it has to.
    for into_x in itertools.combinations(range(bins.moving), bins.moving_x):
        into_y = sorted(everything.difference(into_x))
        yield [*into_x, *into_y]


def _moving_in_cells(bins: Bins) -> list[tuple[list[int], list[int]]]:
    """The moving bins of X and of Y in each cell."""
    cells = [0] * bins.moving if bins.cells is None else bins.cells[: bins.moving].tolist()
    members: dict[int, tuple[list[int], list[int]]] = {}
    for number, cell in enumerate(cells):
        of_x, of_y = members.setdefault(cell, ([], []))
        (of_x if number < bins.moving_x else of_y).append(number)
    return list(members.values())


def _random_orders_within_cells(cells: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """(B, moving) permutations that move every bin within its cell."""
    keys = torch.rand(count, len(cells), generator=generator, dtype=torch.float64)
    # Keys are below 1, so bins of one cell come after each other, and in a random order.
    drawn = (cells + keys).argsort(1)
    places = cells.argsort(stable=True)
    orders = torch.empty_like(drawn)
    orders[:, places] = drawn
    return orders


def _labellings_within_cells(bins: Bins) -> Iterator[list[int]]:
    """One permutation for each way to choose the bins of X in every cell."""
    ways = []
    for of_x, of_y in _moving_in_cells(bins):
        places = of_x + of_y
        # The first is the identity, since combinations come in their order.
        ways.append(
            [
                (places, [*chosen, *(each for each in places if each not in chosen)])
                for chosen in itertools.combinations(places, len(of_x))
            ]
        )
    for choice in itertools.product(*ways):
        order = [0] * bins.moving
        for places, drawn in choice:
            for place, number in zip(places, drawn, strict=True):
                order[place] = number
        yield order


def _random_swaps(pairs: int, count: int, generator: torch.Generator) -> Tensor:
    return _swapping(torch.rand(count, pairs, generator=generator) < 0.5)


def _all_swaps(pairs: int) -> Iterator[list[int]]:
    # Without any swap first: row 0 is the observed order.
    for swapped in itertools.product([False, True], repeat=pairs):
        (permutation,) = _swapping(torch.tensor([swapped], dtype=torch.bool))
        yield permutation.tolist()


def _swapping(swapped: Tensor) -> Tensor:
    """(B, 2 pairs) permutations that swap the pairs where (B, pairs) `swapped` says so."""
    pairs = swapped.shape[1]
    place = torch.arange(pairs)
    into_x = torch.where(swapped, place + pairs, place)
    into_y = torch.where(swapped, place, place + pairs)
    return torch.cat([into_x, into_y], 1)


def _cut(
    n: int,
    m: int,
    size: int,
    most: int,
    generator: torch.Generator,
) -> Bins:
    """Bins of `size` points, of samples in random orders; at most `most` of each move."""
    moving_x = min(n // size, most)
    moving_y = min(m // size, most)
    moving = moving_x + moving_y
    order_x = torch.randperm(n, generator=generator)
    # One order for samples of one size, so that the pairs (X_i, Y_i) stay together.
    order_y = order_x if n == m else torch.randperm(m, generator=generator)

    def bin_of_each(order: Tensor, bins: int, first: int, fixed: int) -> Tensor:
        moved = order[: bins * size]
        ids = torch.full((len(order),), fixed)  # points that are left over stay
        ids[moved] = first + torch.arange(len(moved)) // size
        return ids

    of_x = bin_of_each(order_x, moving_x, 0, moving)
    of_y = bin_of_each(order_y, moving_y, moving_x, moving + 1)
    return Bins(of_x, of_y, moving_x, moving_y, size)


def _cut_units(units: Units, room: int, generator: torch.Generator) -> Bins:
    """Bins of whole units, of which at most `room` move.

    Where there is room, each unit is a bin. Otherwise bins get more units, all of one cell and as
    many in each; then cells of the same numbers of bins are tied together, so that they move alike.
    Either leaves a subgroup of the moves, which is exact as well. What does not fill a bin stays.
    """
    members = _members(units, generator)
    size = 1
    cells = _cells_of(members, size)
    # Only where there are too many cells are they tied: a bin of several mixes them.
    ties = _bins_in(_cells_of(members, len(units.cells))) > room
    while _bins_in(cells) > room and size < len(units.cells):
        size *= 2
        cells = _cells_of(members, size)
        if ties:
            cells = _tied(cells, size)
    cells = _within(cells, room)
    several = len(units.in_cells()[0]) > 1
    bin_of = torch.full((len(units.cells),), -1)
    cell_of_bin: list[int] = []
    for sample in (0, 1):
        for number, cell in enumerate(cells):
            for together in cell[sample]:
                bin_of[together] = len(cell_of_bin)
                cell_of_bin.append(number)
    moving = len(cell_of_bin)
    moving_x = sum(len(x) for x, _ in cells)
    staying_x = _stay(units, bin_of, cell_of_bin, cells, 0)
    staying_y = _stay(units, bin_of, cell_of_bin, cells, 1)
    return Bins(
        of_x=bin_of[units.of_x],
        of_y=bin_of[units.of_y],
        moving_x=moving_x,
        moving_y=moving - moving_x,
        size=size,
        staying=(staying_x, staying_y),
        cells=torch.tensor(cell_of_bin) if several else None,
        usual_sizes=units.usual_sizes,
    )


def _bins_in(cells: list[_Cell]) -> int:
    return sum(len(of_x) + len(of_y) for of_x, of_y in cells)


def _within(cells: list[_Cell], room: int) -> list[_Cell]:
    """The first of the cells, as many as there is room for; the units of others stay."""
    kept: list[_Cell] = []
    left = room
    for of_x, of_y in cells:
        if not kept or len(of_x) + len(of_y) <= left:
            kept.append((of_x[: room - 1], of_y[: max(1, room - len(of_x))]))
            left -= len(of_x) + len(of_y)
    return kept


_Bin: TypeAlias = list[int]
"""The units of a bin."""

_Cell: TypeAlias = tuple[list[_Bin], list[_Bin]]
"""The bins of X and of Y that move in a cell."""


def _members(units: Units, generator: torch.Generator) -> list[tuple[list[int], list[int]]]:
    """The units of X and of Y in every cell that has both, in a random order."""
    units_x, _ = units.counts
    order = torch.randperm(len(units.cells), generator=generator)
    of_x: list[list[int]] = [[] for _ in range(int(units.cells.max()) + 1)]
    of_y: list[list[int]] = [[] for _ in of_x]
    for unit, cell in zip(order.tolist(), units.cells[order].tolist(), strict=True):
        (of_x if unit < units_x else of_y)[cell].append(unit)
    return [(x, y) for x, y in zip(of_x, of_y, strict=True) if x and y]


def _cells_of(members: list[tuple[list[int], list[int]]], size: int) -> list[_Cell]:
    """The bins of `size` units of every cell, or of fewer where it has no more."""
    cells = []
    for of_x, of_y in members:
        each = min(size, len(of_x), len(of_y))
        cells.append((_full(of_x, each), _full(of_y, each)))
    return cells


def _full(members: list[int], size: int) -> list[_Bin]:
    return [members[first : first + size] for first in range(0, len(members) - size + 1, size)]


def _tied(cells: list[_Cell], size: int) -> list[_Cell]:
    """Up to `size` cells with the same numbers of bins, of as many units, as one."""
    alike: dict[tuple[int, int, int], list[_Cell]] = {}
    for cell in cells:
        kind = (len(cell[0]), len(cell[1]), len(cell[0][0]))
        alike.setdefault(kind, []).append(cell)
    tied = []
    for same in alike.values():
        for first in range(0, len(same), size):
            together = same[first : first + size]
            of_x = _joined([x for x, _ in together])
            of_y = _joined([y for _, y in together])
            tied.append((of_x, of_y))
    return tied


def _joined(bins_of_cells: list[list[_Bin]]) -> list[_Bin]:
    """The first bins of all cells as one, and so on."""
    return [list(itertools.chain(*bins)) for bins in zip(*bins_of_cells, strict=True)]


def _stay(
    units: Units, bin_of: Tensor, cell_of_bin: list[int], cells: list[_Cell], sample: int
) -> int:
    """Give the units of a sample that do not move bins, one for each cell; return how many."""
    units_x, _ = units.counts
    is_y = torch.arange(len(bin_of)) >= units_x
    left = torch.nonzero((bin_of < 0) & (is_y == bool(sample)))[:, 0]
    # Cells of which nothing moves share a bin for each sample, and weigh nothing.
    number_of = torch.full((int(units.cells.max()) + 1,), len(cells) + sample)
    for number, (of_x, of_y) in enumerate(cells):
        for members in (*of_x, *of_y):
            number_of[units.cells[members]] = number
    numbers, places = torch.unique(number_of[units.cells[left]], return_inverse=True)
    bin_of[left] = len(cell_of_bin) + places
    cell_of_bin.extend(numbers.tolist())
    return len(numbers)


def _moved_units(bins: Bins, units: Units) -> str:
    """What moves and what stays, in words."""
    words = units.describe()
    if bins.size > 1:
        words += f" in bins of {bins.size}"
    staying = int((bins.of_all >= bins.moving).sum())
    return f"{words}, {counted(staying, 'row')} staying" if staying else words


def _few_units(units: Units, labellings: int | None) -> str:
    """What to say of the smallest p-value, where it is not small; warn where it is large."""
    if labellings is None or labellings >= _FEW_UNITS:
        return ""
    number = f"{len(units.cells)} {plural(units.unit)}"
    if units.unit == SIDE:
        number = units.describe()
    sentence = f"{number}: the smallest possible p is {1 / labellings:.2g}"
    warn(f"{sentence}, since there are only {labellings} labellings; more of them would help.")
    return f" ({sentence})"


def _moved(bins: Bins, points: int) -> str:
    """What moves and what stays, in words."""
    unit = "points" if bins.size == 1 else f"bins of {bins.size} points"
    staying = points - bins.moving * bins.size
    rest = f", {staying} points staying" if staying else ""
    return f"{bins.moving_x} + {bins.moving_y} {unit}{rest}"


def _check_permutations(permutations: int) -> None:
    check_whole("permutations", permutations, 1)
    if permutations > _MOST_PERMUTATIONS:
        raise InputError(
            f"permutations is {permutations:,}; at most {_MOST_PERMUTATIONS:,} are made, and 999 "
            "are usual."
        )


def _check_finite(values: Tensor) -> None:
    if not bool(torch.isfinite(values).all()):
        raise TrainingError(
            f"the statistic is {float(values[0])} on the points to test, because the kernel gives "
            "values that are not finite; look for extreme values in the data, or train with a "
            "smaller learning_rate."
        )
