"""The best witness of every view, found anew for every labelling: learning in closed form.

With features f of a view, their pooled covariance C = U diag(s) U', and d the difference of the
mean features of X and of Y,

    T(lambda) = sum_i (U' d)_i^2 / (s_i + lambda s_1)

is d' w for the regularised Fisher discriminant w = (C + lambda s_1)^-1 d: the direction that tells
X from Y best in this view. No shuffle changes C, so one eigendecomposition and one product of
matrices serve all lambdas and all labellings. lambda = infinity is the MMD of the view, and
lambda -> 0 is Hotelling's T^2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import cast

import torch
from torch import Tensor, nn

from .._data.samples import EmbeddedSamples
from .._data.schema import Schema
from .._fusing import Moments, by_own_tail, fuse_kinds, gamma_surprise, surprise
from .._products import Embedded
from .._result import Effect
from .._views import View, Views
from ..errors import IncompatibleParts, InputError
from .base import Bins, Statistic
from .planting import Planted
from .stacks import PreparedStack, ViewOfRow, along_axes
from .sums import add_up, features_in_parts, seen_in_parts, shape_of

_REGULARISATION = (math.inf, 0.1, 0.01, 1e-3, 1e-4)
_COPIES = 3  # of sums over bins that are in memory at a time
_FEWEST_BINS = 128  # fewer would cost power
_TIE = 1e-6  # values of the statistic that differ by less are equal but for rounding


@dataclass(frozen=True, eq=False)
class PreparedSpectral:
    """All that T needs of the data."""

    bins: Bins
    sizes: tuple[int, int]
    stacks: list[PreparedStack]
    kinds: Tensor  # (rows,) which kind of views a row belongs to
    shares: Tensor  # (kinds,) of the level
    resolution: float = _TIE

    @property
    def scale(self) -> float:
        """From sums of centred features over X to a difference of means, as observed."""
        n, m = self.sizes
        return 1 / n + 1 / m

    def weighed(self, in_x: Tensor) -> tuple[Tensor, Tensor]:
        """(B, S) weights of bins and (B,) scales: their product makes differences of sums."""
        if self.bins.cells is not None:
            return self.bins.contrast(in_x), torch.ones(len(in_x), dtype=torch.float64)
        n, m = self.bins.sizes_in(in_x)
        return in_x, 1 / n + 1 / m

    def expected(self) -> Moments | None:
        """(rows,) means and variances of all rows when P = Q, in large samples.

        None where rows depend on each other, or sizes on the labelling.
        """
        if self.bins.usual_sizes is not None:
            return None
        moments = [stack.expected(self.scale) for stack in self.stacks]
        means = torch.cat([mean for mean, _ in moments])
        variances = torch.cat([variance for _, variance in moments])
        return means, variances

    def in_x(self) -> Tensor:
        """(S,) ones for the bins of X, as observed."""
        identity = torch.arange(self.bins.moving)[None]
        return self.bins.in_x(identity)[0]

    def rows(self) -> Iterator[ViewOfRow]:
        """What each row of values stands for."""
        for stack in self.stacks:
            yield from stack.views_of_rows()

    def stacks_and_kinds(self) -> Iterator[tuple[PreparedStack, int]]:
        """Every stack, and the number of its kind."""
        first = 0
        for stack in self.stacks:
            kind = int(self.kinds[first])  # all rows of a stack are of one kind
            yield stack, kind
            first += stack.rows


@dataclass(frozen=True)
class Spectral(Statistic):
    """The most surprising witness over all views, each found anew for every labelling.

    Every view and every lambda gives a row of values T(lambda), one for each labelling. A row is
    turned into surprises, -log p by a gamma law that has the row's mean and variance. Views of
    one kind give the largest of theirs, and kinds are combined by a weighted mean of 1/p. Every
    step treats all labellings alike, so the p-value is exact.

    Parameters
    ----------
    regularisation
        The lambdas for views of many features, relative to the first eigenvalue. Infinity is the
        MMD of the view's kernel.
    """

    regularisation: tuple[float, ...] = _REGULARISATION

    symbol = "log 1/p"
    compares_all_pairs = False
    takes_units = True

    def __post_init__(self) -> None:
        if not self.regularisation or any(not value > 0 for value in self.regularisation):
            raise InputError(
                f"regularisation is {self.regularisation}; give numbers above 0, such as (0.1, "
                "0.001), or math.inf for the MMD."
            )

    def __repr__(self) -> str:
        if self.regularisation == _REGULARISATION:
            return "Spectral()"
        numbers = [_as_code(value) for value in self.regularisation]
        listed = ", ".join(numbers)
        return f"Spectral(({listed},))"

    def check(self, representation: nn.Module) -> None:
        if not isinstance(representation, Views):
            kind = type(representation).__name__
            raise IncompatibleParts(
                f"{self!r} sees points through views, but the representation is {kind}. Use "
                "Views(), or Views(Features(network))."
            )

    def most_bins(self, representation: Views, memory: int) -> int:
        schema = cast(Schema, representation.schema)
        point = torch.zeros(1, *schema.shape)
        features = 1
        with torch.no_grad():
            for stack in representation:
                views, width = shape_of(stack, representation, point)
                features += views * width
        # Sums of features over bins, and what is made of them, in float64.
        needed = 8 * _COPIES * features
        return max(_FEWEST_BINS, memory // needed)

    def prepare(
        self,
        representation: Views,
        points: EmbeddedSamples,
        bins: Bins,
        generator: torch.Generator,
    ) -> PreparedSpectral:
        count = sum(points.sizes)
        # Of many points some make the covariances. They are drawn, so that labels have no say.
        rank = torch.randperm(count, generator=generator)
        of_stacks = add_up(representation, points, bins, rank)
        stacks = []
        of_row = []
        numbers: dict[str, int] = {}  # of the kinds, in the order in which they come
        shares = {}
        for number, stack in enumerate(representation):
            sums = of_stacks.pop(0)  # so that its memory is free when it is used
            shares[stack.kind] = stack.weight
            if not sums.totals.numel():  # no column is of the kind that it looks at
                continue
            prepared = along_axes(stack, number, sums, bins, self.regularisation)
            stacks.append(prepared)
            kind = numbers.setdefault(stack.kind, len(numbers))
            of_row.append(torch.full((prepared.rows,), kind))
        of_kinds = [shares[kind] for kind in numbers]
        return PreparedSpectral(
            bins=bins,
            sizes=points.sizes,
            stacks=stacks,
            kinds=torch.cat(of_row),
            shares=torch.tensor(of_kinds, dtype=torch.float64),
        )

    def evaluate(self, prepared: PreparedSpectral, shuffles: Tensor) -> Tensor:
        in_x = prepared.bins.in_x(shuffles)
        weights, scales = prepared.weighed(in_x)
        rows = [stack.evaluate(weights, scales) for stack in prepared.stacks]
        return torch.cat(rows)

    def fuse(self, prepared: PreparedSpectral, values: Tensor) -> Tensor:
        surprises = surprise(values, prepared.expected())
        return fuse_kinds(surprises, prepared.kinds, prepared.shares)

    def effect(self, prepared: PreparedSpectral, observed: float, threshold: float) -> Effect:
        """The power, roughly. `predict_power` has a better estimate."""
        # sqrt(2 log 1/p) is about a normal deviate, which reaches its observed value again with a
        # chance of a half.
        deviate = math.sqrt(2 * observed)
        needed = math.sqrt(2 * threshold)
        power = NormalDist().cdf(deviate - needed)
        return Effect(power=power)

    def planted(self, prepared: PreparedSpectral, shuffles: Tensor) -> Planted | None:
        if prepared.bins.usual_sizes is not None:
            return None  # a difference is planted into rows that are independent
        in_x = prepared.bins.in_x(shuffles)
        observed = prepared.in_x()
        stacks = []
        for stack, kind in prepared.stacks_and_kinds():
            planted = stack.planted(kind, in_x, observed, prepared.sizes)
            stacks.append(planted)
        return Planted(stacks, prepared.shares)

    def describe(self, prepared: PreparedSpectral) -> str:
        views = sum(len(stack.columns) for stack in prepared.stacks)
        return f"{views:,} views" if views > 1 else "1 view"

    def by_columns(
        self, prepared: PreparedSpectral, shuffles: Iterable[Tensor]
    ) -> dict[tuple[int, ...], Tensor]:
        """The largest surprise over all rows that look at these columns and at no others.

        Each is measured by its own law over the labellings, so that columns with many rows have no
        advantage. It depends on nothing but these columns.
        """
        stacks = [stack for stack in prepared.stacks if stack.looks_at_few()]
        if not stacks:
            return {}
        few = replace(prepared, stacks=stacks)  # others have no say, and would take time
        parts = [self.evaluate(few, part) for part in shuffles]
        values = torch.cat(parts, 1)  # (rows, B + 1)
        rows_of: dict[tuple[int, ...], list[int]] = {}
        for row, view in enumerate(few.rows()):
            if len(view.columns) in (1, 2):
                rows = rows_of.setdefault(view.columns, [])
                rows.append(row)
        by_columns = {}
        for columns in sorted(rows_of):
            rows = rows_of[columns]
            surprises = surprise(values[rows])
            largest = surprises.amax(0)
            by_columns[columns] = by_own_tail(largest)
        return by_columns

    def contributions(
        self,
        representation: Views,
        points: EmbeddedSamples,
        prepared: PreparedSpectral,
        value: float,
    ) -> tuple[Tensor, Tensor]:
        """The scores of the best witness about its middle, times what makes them add up."""
        n, _ = points.sizes
        (rows,) = points.parts
        scores = self.scores(representation, prepared, rows)
        centred = scores - _middle(scores, n)
        x = centred[:n]
        y = centred[n:]
        # Scaled so that the means of the two parts sum to the value.
        distance = float(x.mean() - y.mean())
        factor = value / distance if distance > 0 else 0.0
        return x * factor, -y * factor

    def witness(
        self,
        representation: Views,
        z: Embedded,
        n: int,
        m: int,
        value: float,
        memory: int,
    ) -> Tensor:
        (rows,) = z
        samples = rows[: n + m]
        places = rows[n + m :]
        prepared = self._observed(representation, samples, (n, m))
        of_samples = self.scores(representation, prepared, samples)
        of_places = self.scores(representation, prepared, places)
        return of_places - _middle(of_samples, n)

    def scores(self, views: Views, prepared: PreparedSpectral, rows: Tensor) -> Tensor:
        """(N,) the best witness of the observed labelling at these points: higher nearer to X."""
        number, row = self.best(prepared)
        chosen = prepared.stacks[number]
        weights, scales = prepared.weighed(prepared.in_x()[None])
        view, direction = chosen.discriminant(row, weights[0], scales[0])
        stack = cast(View, views.stacks[chosen.stack])
        mean = chosen.means[view]
        width = chosen.means.numel()
        scores = []
        with torch.no_grad():
            for seen in seen_in_parts(views, rows):
                for features in features_in_parts(stack, seen, width):
                    centred = features[:, view] - mean
                    scores.append(centred @ direction)
        return torch.cat(scores)

    def best(self, prepared: PreparedSpectral) -> tuple[int, int]:
        """The stack, among those prepared, and the row in it that speak loudest against P = Q."""
        weights, scales = prepared.weighed(prepared.in_x()[None])
        rows_of_kinds = torch.bincount(prepared.kinds)
        loudest = -math.inf
        place = (0, 0)
        for number, (stack, kind) in enumerate(prepared.stacks_and_kinds()):
            values = stack.evaluate(weights, scales)[:, 0]
            mean, variance = stack.expected(prepared.scale)
            surprises = gamma_surprise(values, mean, variance)
            # The largest of many is large by chance.
            many = math.log(int(rows_of_kinds[kind]))
            surprises = surprises - many + prepared.shares[kind].log()
            row = int(surprises.argmax())
            largest = float(surprises[row])
            if largest > loudest:
                loudest = largest
                place = (number, row)
        return place

    def _observed(self, views: Views, rows: Tensor, sizes: tuple[int, int]) -> PreparedSpectral:
        """What one labelling needs: two bins, which stay where they are."""
        n, m = sizes
        bins = Bins(
            of_x=torch.zeros(n, dtype=torch.int64),
            of_y=torch.ones(m, dtype=torch.int64),
            moving_x=0,
            moving_y=0,
            size=1,
        )
        schema = cast(Schema, views.schema)
        points = EmbeddedSamples((rows,), sizes, schema)
        generator = torch.Generator().manual_seed(0)  # the same witness every time
        return self.prepare(views, points, bins, generator)


def _as_code(value: float) -> str:
    # The name inf alone would not be known.
    return "math.inf" if math.isinf(value) else repr(value)


def _middle(scores: Tensor, n: int) -> Tensor:
    """Half way between the mean scores of X, which are the first n, and of Y."""
    of_x = scores[:n].mean()
    of_y = scores[n:].mean()
    return (of_x + of_y) / 2
