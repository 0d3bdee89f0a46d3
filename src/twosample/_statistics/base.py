"""What every statistic has: one number for one labelling of the pooled points.

A statistic works in two steps. `prepare` looks at the points once; `evaluate` then gives the value
for any number of shuffles without looking at them again. What a shuffle moves are bins of points
(`Bins`); bins of one point are the ordinary permutation test.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor, nn

from .._data.samples import EmbeddedSamples
from .._products import Embedded, rows_of
from .._result import Effect
from ..errors import IncompatibleParts
from .folds import CrossFitted, distance, folds_of, noise_share
from .planting import Planted

PairEstimator: TypeAlias = Literal["unbiased", "biased", "paired"]
"""The estimates of MMD^2 that sum over all pairs of points."""


@dataclass(frozen=True, eq=False)
class Bins:
    """Which points of two samples move together, and which stay.

    Bins 0 ... moving_x - 1 hold points of X, the next `moving_y` points of Y, `size` points or
    units each. The last bins hold the points of X and then those of Y that stay in place; they may
    be empty. Where units have different numbers of points, bins have, too, and the sizes of X and Y
    are those of a labelling.
    """

    of_x: Tensor  # (n,) the bin of each point of X
    of_y: Tensor  # (m,) the bin of each point of Y
    moving_x: int
    moving_y: int
    size: int
    staying: tuple[int, int] = (1, 1)  # how many bins of X and of Y stay
    cells: Tensor | None = None  # (count,) bins that may change places; None if all of them may
    # The sizes of X and Y for what must be the same in every labelling; None for those observed.
    usual_sizes: tuple[int, int] | None = None

    @property
    def moving(self) -> int:
        """How many bins move."""
        return self.moving_x + self.moving_y

    @property
    def count(self) -> int:
        """How many bins there are, those that stay included."""
        return self.moving + sum(self.staying)

    @property
    def fixed_sizes(self) -> tuple[int, int]:
        """The sizes of X and Y that no shuffle changes."""
        return self.usual_sizes or (len(self.of_x), len(self.of_y))

    @cached_property
    def sizes(self) -> Tensor:
        """(count,) how many points each bin has."""
        return torch.bincount(self.of_all, minlength=self.count).double()

    @property
    def of_all(self) -> Tensor:
        """(n + m,) the bin of each pooled point, X first."""
        return torch.cat([self.of_x, self.of_y])

    def in_x(self, shuffles: Tensor) -> Tensor:
        """(B, count) ones for the bins that each shuffle of the moving bins puts into X."""
        labels = torch.zeros(len(shuffles), self.count, dtype=torch.float64)
        into_x = shuffles[:, : self.moving_x]
        labels.scatter_(1, into_x, 1.0)
        staying_x, _ = self.staying
        labels[:, self.moving : self.moving + staying_x] = 1.0
        return labels

    def sizes_in(self, in_x: Tensor) -> tuple[Tensor, Tensor]:
        """(B,) how many points X and Y have, for (B, count) ones where bins are in X."""
        of_x = in_x @ self.sizes
        return of_x, self.sizes.sum() - of_x

    def contrast(self, in_x: Tensor) -> Tensor:
        """(B, count) what each point of a bin weighs in the difference of X and Y.

        The points of X weigh 1 in all, those of Y -1. Within one cell all points of a sample weigh
        the same, 1/n or -1/m. With several cells each has the weight n_c m_c / (n_c + m_c), in X as
        in Y, so that cells of which X has more than Y make no difference, and those of one sample
        do not count.
        """
        if self.cells is None:
            n, m = self.sizes_in(in_x)
            return in_x / n[:, None] - (1 - in_x) / m[:, None]
        count = int(self.cells.max()) + 1
        in_cells = self.sizes.new_zeros(count).index_add_(0, self.cells, self.sizes)
        of_x = in_x * self.sizes
        x_in_cells = of_x.new_zeros(len(in_x), count).index_add_(1, self.cells, of_x)
        shares = x_in_cells / in_cells.clamp_min(1)  # n_c / (n_c + m_c)
        weights = in_x - shares[:, self.cells]
        total = (weights * of_x).sum(1, keepdim=True)  # of X: sum_c n_c m_c / (n_c + m_c)
        return weights / total

    @property
    def inner_share(self) -> float:
        """The share of a squared difference of means that the covariance within cells contains.

        sum_c n_c m_c / (n_c + m_c) over n + m: with one cell n m / (n + m)^2.
        """
        unmoved = torch.arange(self.moving)[None]
        squares = self.contrast(self.in_x(unmoved))[0].square()
        # Weights make the sum over cells one over the sum of their squares.
        return float(1 / (squares @ self.sizes) / self.sizes.sum())

    def about_cells(self, values: Tensor) -> Tensor:
        """(n + m, ...) values of all points, less the mean of their cells."""
        if self.cells is None:
            return values - values.mean(0)
        _, of_point = torch.unique(self.cells[self.of_all], return_inverse=True)
        counts = torch.bincount(of_point).to(values)
        sums = values.new_zeros(len(counts), *values.shape[1:]).index_add_(0, of_point, values)
        shape = (-1, *[1] * (values.ndim - 1))
        return values - (sums / counts.view(shape))[of_point]

    @property
    def cell_count(self) -> int:
        """How many cells have points."""
        return 1 if self.cells is None else len(torch.unique(self.cells[self.of_all]))

    def signs(self, shuffles: Tensor) -> Tensor:
        """(B, moving_x) ones, and minus ones where a shuffle swaps bin k of X with bin k of Y."""
        into_x = shuffles[:, : self.moving_x]
        from_x = into_x < self.moving_x  # bins of X have the lower numbers
        return torch.where(from_x, 1.0, -1.0).double()

    def members(self, first: int, count: int) -> Tensor:
        """(count, size) places in the pooled points of the moving bins from `first` on."""
        # Stable, so that the t-th points of two bins are partners where samples are paired.
        order = torch.argsort(self.of_all, stable=True)
        start = first * self.size
        end = start + count * self.size
        return order[start:end].view(count, self.size)


def sums_over(bins: Bins, values: Tensor) -> Tensor:
    """(count, ...) sums of the (n + m, ...) values of all points over each bin, in float64."""
    sums = torch.zeros(bins.count, *values.shape[1:], dtype=torch.float64)
    return sums.index_add_(0, bins.of_all, values)


class Found(NamedTuple):
    """A difference that a test finds."""

    separation: float  # of the means, in spreads of what is looked at
    what: str  # "columns" of numbers, "levels" of categories, or "all" columns or pixels together
    place: int | None  # of the encoded column that is looked at


class SquaredMMD(NamedTuple):
    """An estimate of MMD^2, and what is known of its error."""

    value: float  # without bias, so it may be negative
    error: float  # the standard error
    largest: float  # eigenvalue of the kernel's covariance at most
    squares: float  # of all eigenvalues, added up

    def error_at(self, mmd2: float, n: int, m: int) -> float:
        """The largest standard error that samples with this MMD^2 can have.

        The variance of the witness is at most MMD^2 times the largest eigenvalue.
        """
        scale = 1 / n + 1 / m
        first = 4 * mmd2 * self.largest * scale
        return math.sqrt(first + 2 * scale**2 * self.squares)


@dataclass(frozen=True)
class Law:
    """What a statistic's distribution tends to when P = Q, without unknown parameters."""

    survival: Callable[[float], float]  # value -> chance of one at least as large
    threshold: Callable[[float], float]  # alpha -> the value that is exceeded so often
    name: str


class Prepared(Protocol):
    """What every statistic keeps of the data."""

    @property
    def bins(self) -> Bins: ...
    @property
    def resolution(self) -> float:
        """The rounding error that a value may carry. Values that differ by less are ties."""


class Statistic(ABC):
    """One number for one labelling of the pooled points; large values speak against P = Q."""

    symbol = "T"
    """What figures call the value."""

    paired_form = "MMD('paired') or MMD('biased')"
    """Which statistics take its place where pairs are swapped."""

    compares_all_pairs = True
    """Whether taking it apart takes a time that grows with the square of the points."""

    takes_units = False
    """Whether it has values where units of several points move, of which `Bins` tells the sizes."""

    limit_shift: float | None = None
    """c, if the value tends to (1/n + 1/m) sum_l lambda_l (Z_l^2 - c) when P = Q; None if not."""

    @property
    def shuffled_by(self) -> tuple[str, ...]:
        """The ways of shuffling that it has values for: "permutations", "swaps"."""
        return ("permutations",)

    @property
    def depends_on_order(self) -> bool:
        """Whether the value depends on more than which points are in X."""
        return False

    @property
    def pair_estimator(self) -> PairEstimator | None:
        """Which MMD over all pairs of points it is, if it is one: their power has a formula."""
        return None

    @property
    def is_nonnegative(self) -> bool:
        """Whether no value is below 0, but for rounding."""
        return False

    def least_bins(self, n: int, m: int) -> int:
        """How many bins must move at least, for samples of n and m points."""
        return 1

    def most_bins(self, representation: Any, memory: int) -> int | None:
        """How many bins may move at most, so that `memory` bytes suffice; None for any number.

        Labels must have no say in it.
        """
        return None

    @abstractmethod
    def check(self, representation: nn.Module) -> None:
        """Raise `IncompatibleParts` if it cannot see the samples through this representation."""

    def check_law(self, representation: nn.Module) -> None:
        """Raise `IncompatibleParts` unless `law` has an answer."""
        raise IncompatibleParts(
            f"the limiting law of {self!r} depends on unknown parameters of the data, so "
            "Asymptotic() cannot use it. Use Permutation(), or BlockMMD(), which has a law."
        )

    def law(self, prepared: Any) -> Law:
        """Its limiting law, where `check_law` does not object."""
        raise NotImplementedError

    @abstractmethod
    def prepare(
        self,
        representation: Any,
        points: EmbeddedSamples,
        bins: Bins,
        generator: torch.Generator,
    ) -> Any:
        """Everything about the points that `evaluate` needs.

        Parameters
        ----------
        representation
            The kernel or feature map of the test.
        points
            The samples as the representation sees them: `points.parts` holds what `Kernel.embed`
            gave, or the features, of X and then of Y. `points.resources` says what long work may
            use.
        bins
            Which points move together.
        generator
            For whatever has to be drawn. A draw must not look at labels.
        """

    @abstractmethod
    def evaluate(self, prepared: Any, shuffles: Tensor) -> Tensor:
        """(B,) values, one for each of the (B, moving) shuffles of bins.

        A statistic that is fused of several gives (rows, B) of them, for `fuse` to combine.
        """

    def fuse(self, prepared: Any, values: Tensor) -> Tensor:
        """(B + 1,) values from what `evaluate` gave for all labellings, the observed one first.

        A value may depend on those of the other labellings, by its rank among them for instance.
        The p-value is exact if every step treats all B + 1 labellings alike: whatever the order in
        which they come, each gets the same value. The observed one counts like any other. A mean
        over labellings has it in, and nothing may be decided by its values alone.

        Parameters
        ----------
        prepared
            What `prepare` gave. It may be used as far as no shuffle changes it.
        values
            (B + 1,) or (rows, B + 1).
        """
        return values

    @abstractmethod
    def effect(self, prepared: Any, observed: float, threshold: float) -> Effect:
        """How different the samples are; `threshold` is what the value must reach at level 0.05."""

    def describe(self, prepared: Any) -> str:
        """What it looked at, in a few words that stand beside what was shuffled; "" for nothing."""
        return ""

    def by_columns(
        self, prepared: Any, shuffles: Iterable[Tensor]
    ) -> dict[tuple[int, ...], Tensor]:
        """(B + 1,) values for each column, and for each pair of columns, that it looked at alone.

        Keys are the columns' numbers. Values of different keys are on one scale. Empty for a
        statistic that looks at all columns together only.
        """
        return {}

    def planted(self, prepared: Any, shuffles: Tensor) -> Planted | None:
        """Its values over shuffles with the observed difference planted into each, if it can.

        From them its power is predicted. None where it cannot.
        """
        return None

    def quieter(self) -> Statistic:
        """A statistic of the same expectation with less noise, for what is only shown."""
        return self

    def contributions(
        self,
        representation: Any,
        points: EmbeddedSamples,
        prepared: Any,
        value: float,
    ) -> tuple[Tensor, Tensor]:
        """(n,) and (m,) numbers whose means over X and over Y add up to the observed `value`."""
        raise self._cannot_be_taken_apart()

    def witness(
        self,
        representation: Any,
        z: Embedded,
        n: int,
        m: int,
        value: float,
        memory: int,
    ) -> Tensor:
        """Where new points lie between X and Y: positive near X, negative near Y.

        `z` holds the embedded points of X, of Y and then the new ones, for which values come back.
        """
        raise self._cannot_be_taken_apart()

    def cross_fitted(
        self, representation: Any, points: EmbeddedSamples, prepared: Any
    ) -> CrossFitted:
        """Scores of all points, each by the witness of points in other folds."""
        n, m = points.sizes
        folds = folds_of(n, m)
        is_x = torch.arange(n + m) < n
        count = int(folds.max()) + 1
        scores = torch.zeros(n + m, dtype=torch.float64)
        seen = 0.0
        unseen = 0.0
        for fold in range(count):
            here = folds == fold
            # The first witness is asked about its own points, too: that tells how much of it is
            # chance.
            asked = torch.ones_like(here) if fold == 0 else here
            found = torch.zeros_like(scores)
            found[asked] = self._witness_of(representation, points, is_x, ~here, asked)
            scores[here] = found[here]
            unseen += distance(found[here], is_x[here]) / count
            if fold == 0:
                seen = distance(found[~here], is_x[~here])
        return CrossFitted(scores, folds, noise_share(seen, unseen))

    def _witness_of(
        self,
        representation: Any,
        points: EmbeddedSamples,
        is_x: Tensor,
        learned: Tensor,
        asked: Tensor,
    ) -> Tensor:
        """The witness of the points that are `learned` from, at those that are `asked` about."""
        of_x = torch.nonzero(learned & is_x)[:, 0]
        of_y = torch.nonzero(learned & ~is_x)[:, 0]
        new = torch.nonzero(asked)[:, 0]
        places = torch.cat([of_x, of_y, new])
        z = rows_of(points.parts, places.to(points.parts[0].device))
        memory = points.resources.memory
        values = self.witness(representation, z, len(of_x), len(of_y), 1.0, memory)
        return values.double().cpu()

    def squared_mmd(self, representation: Any, prepared: Any, rows: Tensor) -> SquaredMMD | None:
        """An MMD^2 that it looks at without having chosen it by the data.

        For statistics that are no MMD over all pairs themselves; None for those without any.
        """
        return None

    def separation_found(
        self,
        representation: Any,
        prepared: Any,
        shuffles: Tensor,
        null: Tensor,
        threshold: float,
        power: float,
    ) -> Found | None:
        """The smallest separation of a witness, chosen in advance, that is found with this power.

        None for a statistic that cannot say.
        """
        return None

    def separation_at_most(self, prepared: Any, alpha: float) -> float | None:
        """What the squared separation of no witness exceeds, with error alpha.

        Infinity where there are too few points to say, and None for a statistic whose witness is
        not the best of a known class.
        """
        return None

    def _cannot_be_taken_apart(self) -> IncompatibleParts:
        return IncompatibleParts(
            f"{self!r} cannot be taken apart by points. Use MMD(...) or HotellingT2(...)."
        )
