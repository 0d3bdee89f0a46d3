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
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from .._data.samples import EmbeddedSamples
from .._data.schema import Schema
from .._estimators import noncentrality_at_most
from .._fusing import (
    Moments,
    by_own_tail,
    by_tail,
    fuse_kinds,
    gamma_surprise,
    moments_of,
    surprise,
)
from .._products import Embedded
from .._result import Effect
from .._views import View, Views
from .._views.columns import Positions, Values
from ..errors import IncompatibleParts, InputError
from .base import Bins, Found, SquaredMMD, Statistic
from .folds import FOLDS, CrossFitted, best_cut, distance, noise_share
from .planting import Planted
from .shuffled import FEWEST_BINS
from .stacks import PreparedStack, ViewOfRow, along_axes
from .sums import add_up, features_in_parts, seen_in_parts, shapes_of

_REGULARISATION = (math.inf, 0.1, 0.01, 1e-3, 1e-4)
_COPIES = 3  # of sums over bins that are in memory at a time
_FEWEST_BINS = 128  # fewer would cost power
_ENOUGH_BINS = 512  # more of them gain little
_MOST_SUMS = 2**23  # features times bins, where there are more bins than enough
_POINTS_AN_AXIS = 5  # fewer leave too little to tell how far apart samples are in a view
_FAR_BEYOND = 2.0  # times the mean of T in theory
_TARGETS = 5  # views into which a difference is planted
_FARTHEST = 1e3  # spreads: no test misses that
_HALVINGS = 12
_LABELLINGS = 100  # that tell what chance does to single rows
_TIE = 1e-6  # values of the statistic that differ by less are equal but for rounding


class Labellings(NamedTuple):
    """The observed labelling, then others by chance."""

    weights: Tensor  # (B + 1, S) of each bin in the difference of means
    scale: float  # 1/n + 1/m

    @property
    def observed(self) -> Tensor:
        """(S,) the weights of the observed one."""
        return self.weights[0]


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

    def moments_of(self, stack: PreparedStack) -> Moments | None:
        """(rows, 1) the mean and the variance of each row of a stack, over all shuffles.

        None where rows depend on each other, where sizes depend on the labelling, or where there
        are so few bins that all shuffles are looked at anyway.
        """
        moves_units = self.bins.cells is not None or self.bins.usual_sizes is not None
        if moves_units or self.bins.moving < FEWEST_BINS:
            return None
        return stack.over_shuffles(self.bins, self.scale)

    def moments(self) -> Moments | None:
        """(rows, 1) those of all rows."""
        means = []
        variances = []
        for stack in self.stacks:
            moments = self.moments_of(stack)
            if moments is None:
                return None
            means.append(moments[0])
            variances.append(moments[1])
        return torch.cat(means), torch.cat(variances)

    def in_large_samples(self) -> Moments:
        """(rows, 1) the moments that all rows tend to, where there are no shuffles."""
        of_stacks = [stack.in_large_samples(self.scale) for stack in self.stacks]
        means = torch.cat([mean for mean, _ in of_stacks])
        variances = torch.cat([variance for _, variance in of_stacks])
        return means, variances

    def among(self, kept: Tensor) -> Labellings:
        """The observed labelling of some bins, (S,) True for each, and others by chance.

        Of a design, whose units change places in ways of their own, the observed one alone.
        """
        if self.bins.cells is not None or self.bins.usual_sizes is not None:
            return Labellings(self.observed()[None], self.scale)
        sizes = torch.bincount(self.bins.of_all, minlength=self.bins.count).double()
        sizes = torch.where(kept, sizes, 0.0)
        observed = self.in_x()
        n = float(sizes @ observed)
        m = float(sizes.sum()) - n
        generator = torch.Generator().manual_seed(0)
        moving = torch.nonzero(kept[: self.bins.moving])[:, 0]
        keys = torch.rand(_LABELLINGS, len(moving), generator=generator, dtype=torch.float64)
        in_x = observed.repeat(_LABELLINGS + 1, 1)
        in_x[1:, moving] = observed[moving[keys.argsort(1)]]
        weights = in_x / n - (1 - in_x) / m
        return Labellings(torch.where(kept, weights, 0.0), 1 / n + 1 / m)

    def observed(self) -> Tensor:
        """(S,) the weights of bins that make the observed difference of means."""
        weights, scales = self.weighed(self.in_x()[None])
        return scales[0] * weights[0]

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
    """How surprising the best witnesses of all views are, each found anew for every labelling.

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
        with torch.no_grad():
            shapes = shapes_of(representation, point)
        features = 1 + sum(views * width for views, width in shapes)
        # Sums of features over bins, and what is made of them, in float64.
        needed = 8 * _COPIES * features
        by_memory = memory // needed
        # Every labelling multiplies with all sums. Of many features fewer bins do, and take less.
        by_time = max(_ENOUGH_BINS, _MOST_SUMS // features)
        return max(_FEWEST_BINS, min(by_memory, by_time))

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
        shares: dict[str, float] = {}
        for number, stack in enumerate(representation):
            sums = of_stacks.pop(0)  # so that its memory is free when it is used
            if not sums.totals.numel():  # no column is of the kind that it looks at
                continue
            name, weight = representation.kind_of(stack)
            shares[name] = max(weight, shares.get(name, 0.0))
            means = sums.totals.sum(0) / count
            blind = stack.are_blind(means, count)
            prepared = along_axes(stack, number, sums, bins, self.regularisation, blind)
            stacks.append(prepared)
            kind = numbers.setdefault(name, len(numbers))
            of_row.append(torch.full((prepared.rows,), kind))
        if not stacks:
            raise InputError(f"{representation!r} sees nothing in these points. Use Views().")
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
        surprises = surprise(values, prepared.moments())
        return fuse_kinds(surprises, prepared.kinds, prepared.shares)

    def effect(self, prepared: PreparedSpectral, observed: float, threshold: float) -> Effect:
        """The power, roughly. `predict_power` has a better estimate."""
        # sqrt(2 log 1/p) is about a normal deviate, which reaches its observed value again with a
        # chance of a half.
        deviate = math.sqrt(2 * observed)
        needed = math.sqrt(2 * threshold)
        power = NormalDist().cdf(deviate - needed)
        return Effect(power=power)

    def quieter(self) -> Statistic:
        # Without other labellings there are no tails to measure kinds of views by.
        return _Loudest(self.regularisation)

    def planted(self, prepared: PreparedSpectral, shuffles: Tensor) -> Planted:
        bins = prepared.bins
        weights, scales = prepared.weighed(bins.in_x(shuffles))
        weights = scales[:, None] * weights
        observed, (scale,) = prepared.weighed(prepared.in_x()[None])
        observed = scale * observed[0]
        # Where units move, it is their number that counts.
        by_rows = bins.usual_sizes is None
        points = sum(prepared.sizes) if by_rows else bins.moving
        stacks = []
        for stack, kind in prepared.stacks_and_kinds():
            moments = prepared.moments_of(stack)
            planted = stack.planted(kind, weights, observed, bins.inner_share, points, moments)
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
        surprises = surprise(values, few.moments())
        rows_of: dict[tuple[int, ...], list[int]] = {}
        for row, view in enumerate(few.rows()):
            if len(view.columns) in (1, 2):
                rows = rows_of.setdefault(view.columns, [])
                rows.append(row)
        by_columns = {}
        for columns in sorted(rows_of):
            rows = rows_of[columns]
            largest = surprises[rows].amax(0)
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
        view, direction = chosen.discriminant(row, prepared.observed())
        return _scores_of(views, prepared, rows, [_Witness(number, view, direction)])[:, 0]

    def best(self, prepared: PreparedSpectral) -> tuple[int, int]:
        """The stack, among those prepared, and the row in it that speak loudest against P = Q."""
        everything = torch.ones(prepared.bins.count, dtype=torch.bool)
        return _loudest(prepared, prepared.among(everything))

    def cross_fitted(
        self, representation: Views, points: EmbeddedSamples, prepared: PreparedSpectral
    ) -> CrossFitted:
        """All folds from the sums of the test itself: bins make the folds.

        The covariance is that of all points. It knows no labels, so a witness has seen none of its
        own fold. Points that stay in place in every shuffle serve for learning only.
        """
        (rows,) = points.parts
        n, m = points.sizes
        bins = prepared.bins
        fold_of_bin = _folds_of_bins(bins)
        folds = fold_of_bin[bins.of_all]
        count = int(folds.max()) + 1
        witnesses = [_without(prepared, fold_of_bin == fold) for fold in range(count)]
        scores = _scores_of(representation, prepared, rows, witnesses)  # (N, folds)
        is_x = torch.arange(n + m) < n
        own = torch.zeros(n + m, dtype=torch.float64)
        seen = 0.0
        unseen = 0.0
        for fold in range(count):
            here = folds == fold
            # In units of the distance that the witness has on its own points, so that all folds
            # count alike.
            apart = distance(scores[~here, fold], is_x[~here])
            of_fold = scores[:, fold] / (apart if apart > 0 else 1.0)
            cut = best_cut(of_fold[~here], is_x[~here])
            own[here] = of_fold[here] - cut
            seen += distance(of_fold[~here], is_x[~here])
            unseen += distance(of_fold[here], is_x[here])
        return CrossFitted(own, folds, noise_share(seen, unseen))

    def separation_at_most(self, prepared: PreparedSpectral, alpha: float) -> float:
        """An upper bound, with confidence 1 - alpha, on every witness's squared separation.

        The separation is the difference of mean scores in spreads. In a view with D axes,
        T(0) / (1/n + 1/m) has a noncentral chi-squared law with D degrees of freedom, whose
        noncentrality is the squared separation of the best witness over 1/n + 1/m. Each view is
        bounded by itself: the largest bound fails only if that of the best view does. Infinity
        where some view has too many axes for so few points.
        """
        points = sum(prepared.sizes)
        everything = torch.ones(prepared.bins.count, dtype=torch.bool)
        labellings = prepared.among(everything)
        largest = 0.0
        for stack in prepared.stacks:
            bare = stack.without_ridge()
            axes = bare.weights.gt(0).sum(2)[:, 0]  # (views,)
            if int(axes.max()) * _POINTS_AN_AXIS > points:
                return math.inf
            values = bare.evaluate_weights(labellings.weights)
            moments = prepared.moments_of(bare)
            if moments is None:
                moments = _believable(values[:, 1:], bare.in_large_samples(labellings.scale))
            mean, variance = moments
            has_axes = (axes > 0) & (variance[:, 0] > 0)
            degrees = 2 * mean[:, 0].square() / variance[:, 0]
            ratio = degrees * values[:, 0] / mean[:, 0]
            bounds = noncentrality_at_most(ratio[has_axes], degrees[has_axes], alpha)
            largest = max(largest, float(bounds.max()) if len(bounds) else 0.0)
        # The pooled covariance contains the difference itself, which makes T smaller.
        n, m = prepared.sizes
        total = largest * labellings.scale
        rest = 1 - n * m / points**2 * total
        return total / rest if rest > 0 else math.inf

    def separation_found(
        self,
        representation: Views,
        prepared: PreparedSpectral,
        shuffles: Tensor,
        null: Tensor,
        threshold: float,
        power: float,
    ) -> Found | None:
        """The separation that is found with this power, in a view that was chosen in advance.

        `null` has the (B,) values over the shuffles. The difference is planted into each, into one
        view alone. Other views would see something of it, too, so the answer is on the safe side.
        """
        targets = _targets(representation, prepared)
        if targets is None:
            return None
        number, rows, what = targets
        planting = _Planting(prepared, prepared.bins.in_x(shuffles), null, number)
        wanted = sorted((planting.needed(row, threshold, power), row) for row in rows)
        separation, row = wanted[len(wanted) // 2]
        stack = representation.stacks[prepared.stacks[number].stack]
        place = int(stack.atoms[row]) if isinstance(stack, Positions | Values) else None
        return Found(separation, what, place)

    def squared_mmd(
        self, representation: Views, prepared: PreparedSpectral, rows: Tensor
    ) -> SquaredMMD | None:
        """Of the view that is a kernel at its usual width, whatever the data say.

        With s the eigenvalues of the covariance, T(infinity) is too large by
        (1/n + 1/m) sum_i s_i, and the noise of the witness makes its variance too large by
        (1/n + 1/m) sum_i s_i^2.
        """
        found = _usual_view(representation, prepared)
        if found is None:
            return None
        number, row = found
        chosen = prepared.stacks[number]
        n, m = prepared.sizes
        scale = prepared.scale
        weights = prepared.observed()
        value = float(chosen.evaluate_weights(weights[None])[row, 0])
        view, direction = chosen.discriminant(row, weights)
        witness = _Witness(number, view, direction)
        scores = _scores_of(representation, prepared, rows, [witness])[:, 0]
        spectrum = chosen.spectrum[view]
        squares = float(spectrum.square().sum())
        of_x = float(scores[:n].var()) - scale * squares
        of_y = float(scores[n:].var()) - scale * squares
        first = 4 * max(0.0, of_x) / n + 4 * max(0.0, of_y) / m
        second = 2 * scale**2 * squares
        without_bias = value - scale * float(spectrum.sum())
        error = math.sqrt(first + second)
        return SquaredMMD(without_bias, error, float(spectrum.max()), squares)

    def _observed(self, views: Views, rows: Tensor, sizes: tuple[int, int]) -> PreparedSpectral:
        """What the witness of one labelling needs: bins that show what chance does."""
        schema = cast(Schema, views.schema)
        points = EmbeddedSamples((rows,), sizes, schema)
        generator = torch.Generator().manual_seed(0)  # the same witness every time
        return self.prepare(views, points, _some_bins(*sizes, generator), generator)


def _some_bins(n: int, m: int, generator: torch.Generator) -> Bins:
    """Bins of one size, of points in random orders; those that are left over stay."""
    size = max(1, min(n, m) // _FEWEST_BINS)
    # What stays in place is no chance, so nearly all points move.
    most = 4 * _FEWEST_BINS
    moving_x = min(n // size, most)
    moving_y = min(m // size, most)
    moving = moving_x + moving_y
    of_x = torch.randperm(n, generator=generator) // size
    of_y = torch.randperm(m, generator=generator) // size
    of_x = torch.where(of_x < moving_x, of_x, moving)
    of_y = torch.where(of_y < moving_y, of_y + moving_x, moving + 1)
    return Bins(of_x, of_y, moving_x, moving_y, size)


class _Witness(NamedTuple):
    """A direction in the features of one view."""

    stack: int  # its place among those prepared
    view: int
    direction: Tensor  # (features,)


def _usual_view(views: Views, prepared: PreparedSpectral) -> tuple[int, int] | None:
    """The stack, among those prepared, and the row of the MMD of a kernel at its usual width."""
    for number, chosen in enumerate(prepared.stacks):
        stack = cast(View, views.stacks[chosen.stack])
        if stack.kernel_view is not None and math.inf in chosen.regularisation:
            place = chosen.regularisation.index(math.inf)
            return number, stack.kernel_view * len(chosen.regularisation) + place
    return None


def _targets(views: Views, prepared: PreparedSpectral) -> tuple[int, list[int], str] | None:
    """The stack, some of its rows, and what their views look at: numbers, levels or images."""
    for wanted in ("columns", "levels"):
        for number, chosen in enumerate(prepared.stacks):
            stack = views.stacks[chosen.stack]
            if not isinstance(stack, Positions | Values) or stack.of != wanted:
                continue
            # The first views are the values themselves; numbers have more than two.
            numbers = set(stack.numbers.tolist())
            rows = list(range(len(stack.atoms)))
            if wanted == "columns":
                rows = [row for row in rows if int(stack.atoms[row]) in numbers]
            if rows:
                step = -(-len(rows) // _TARGETS)
                return number, rows[::step], wanted
    found = _usual_view(views, prepared)
    return None if found is None else (found[0], [found[1]], "all")


class _Planting:
    """A difference of any size in one view, planted into labellings."""

    def __init__(self, prepared: PreparedSpectral, in_x: Tensor, null: Tensor, number: int) -> None:
        of_stacks = list(prepared.stacks_and_kinds())
        self.stack, kind = of_stacks[number]
        scale = prepared.scale
        self.differences = scale * (in_x @ self.stack.totals.flatten(1))  # (B, views * axes)
        largest = []
        for stack, other in of_stacks:
            if other == kind:
                values = stack.evaluate_weights(scale * in_x)
                moments = prepared.moments_of(stack) or moments_of(values)
                largest.append(gamma_surprise(values, *moments).amax(0))
                if stack is self.stack:
                    self.values = values
                    self.moments = moments
        self.largest = torch.stack(largest).amax(0)  # (B,) of this kind of views
        relative = prepared.shares / prepared.shares.sum()
        self.log_share = float(relative[kind].log())
        own = torch.exp(self.log_share + by_tail(self.largest, self.largest))
        # The fused value is log(1 + sum of share / p over kinds).
        self.others = (torch.expm1(null) - own).clamp_min(1e-9)

    def needed(self, row: int, threshold: float, power: float) -> float:
        """The separation at which so many labellings exceed the threshold."""
        low = 0.0
        high = 1e-3
        while self._power(row, high, threshold) < power:
            low = high
            high *= 2
            if high > _FARTHEST:
                return math.inf
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if self._power(row, middle, threshold) < power:
                low = middle
            else:
                high = middle
        return high

    def _power(self, row: int, separation: float, threshold: float) -> float:
        views, lambdas, axes = self.stack.weights.shape
        view, place = divmod(row, lambdas)
        # Along the first axis of the view, of which most views of single values have no other.
        by_chance = self.differences.view(-1, views, axes)[:, view, 0]
        shift = separation * math.sqrt(float(self.stack.spectrum[view, 0]))
        weight = float(self.stack.weights[view, place, 0])
        grown = (by_chance + shift).square() - by_chance.square()
        values = (self.values[row] + weight * grown).clamp_min(0)
        mean, variance = (each[row : row + 1] for each in self.moments)
        surprises = gamma_surprise(values[None], mean, variance)[0]
        largest = torch.maximum(self.largest, surprises)
        own = torch.exp(self.log_share + by_tail(largest, self.largest))
        return float((torch.log1p(self.others + own) > threshold).double().mean())


def _loudest(prepared: PreparedSpectral, labellings: Labellings) -> tuple[int, int]:
    """The stack and the row in it that speak loudest against P = Q."""
    rows_of_kinds = torch.bincount(prepared.kinds)
    loudest = -math.inf
    place = (0, 0)
    for number, (stack, kind) in enumerate(prepared.stacks_and_kinds()):
        values = stack.evaluate_weights(labellings.weights)
        moments = _believable(values[:, 1:], stack.in_large_samples(labellings.scale))
        surprises = gamma_surprise(values[:, :1], *moments)[:, 0]
        # The largest of many is large by chance.
        many = math.log(int(rows_of_kinds[kind]))
        surprises = surprises - many + prepared.shares[kind].log()
        row = int(surprises.argmax())
        largest = float(surprises[row])
        if largest > loudest:
            loudest = largest
            place = (number, row)
    return place


def _believable(values: Tensor, expected: Moments) -> Moments:
    """(rows, 1) means and variances: those of theory, unless chance is far beyond them.

    Of many points only some make the covariance, which then has nearly no variance along a feature
    that few points have.
    """
    mean, variance = expected
    if values.shape[1] < 2:
        return mean, variance
    seen = values.mean(1, keepdim=True)
    is_far = seen > _FAR_BEYOND * mean
    spread = values.var(1, keepdim=True)
    return torch.where(is_far, seen, mean), torch.where(is_far, spread, variance)


def _without(prepared: PreparedSpectral, left_out: Tensor) -> _Witness:
    """The best witness of all bins but some."""
    labellings = prepared.among(~left_out)
    number, row = _loudest(prepared, labellings)
    view, direction = prepared.stacks[number].discriminant(row, labellings.observed)
    return _Witness(number, view, direction)


def _folds_of_bins(bins: Bins) -> Tensor:
    """(count,) the fold of each bin; -1 for the two that stay in place."""
    # As many bins of either sample in each fold; none has fewer than one of each.
    count = min(FOLDS, bins.moving_x, bins.moving_y)
    of_x = torch.arange(bins.moving_x) % count
    of_y = torch.arange(bins.moving_y) % count
    return torch.cat([of_x, of_y, torch.tensor([-1, -1])])


def _scores_of(
    views: Views,
    prepared: PreparedSpectral,
    rows: Tensor,
    witnesses: list[_Witness],
) -> Tensor:
    """(N, W) what witnesses say of points; witnesses in one stack share its features."""
    scores = torch.zeros(len(rows), len(witnesses), dtype=torch.float64)
    for number in {witness.stack for witness in witnesses}:
        chosen = prepared.stacks[number]
        stack = cast(View, views.stacks[chosen.stack])
        width = chosen.means.numel()
        first = 0
        with torch.no_grad():
            for seen in seen_in_parts(views, rows):
                for features in features_in_parts(stack, seen, width):
                    here = slice(first, first + len(features))
                    first += len(features)
                    for place, witness in enumerate(witnesses):
                        if witness.stack == number:
                            centred = features[:, witness.view] - chosen.means[witness.view]
                            scores[here, place] = centred @ witness.direction
    return scores


class _Loudest(Spectral):
    """The largest surprise of all rows, by the laws they tend to: for one labelling by itself."""

    def fuse(self, prepared: PreparedSpectral, values: Tensor) -> Tensor:
        surprises = surprise(values, prepared.in_large_samples())
        return surprises.amax(0)


def _as_code(value: float) -> str:
    # The name inf alone would not be known.
    return "math.inf" if math.isinf(value) else repr(value)


def _middle(scores: Tensor, n: int) -> Tensor:
    """Half way between the mean scores of X, which are the first n, and of Y."""
    of_x = scores[:n].mean()
    of_y = scores[n:].mean()
    return (of_x + of_y) / 2
