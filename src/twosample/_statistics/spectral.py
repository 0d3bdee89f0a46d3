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

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from .._data.samples import EmbeddedSamples
from .._data.schema import Schema
from .._fusing import by_own_tail, fuse_kinds, gamma_surprise, surprise
from .._products import Embedded
from .._progress import bar
from .._result import Effect
from .._views import Seen, View, Views
from ..errors import IncompatibleParts, InputError
from .base import Bins, Statistic
from .planting import Planted, PlantedStack, rest

_REGULARISATION = (math.inf, 0.1, 0.01, 1e-3, 1e-4)
_LEAST_PIECE = 2**16  # points whose sums are made by one piece of work
_PIECES = 64  # at most so many of them: each returns the sums of all features
_AT_ONCE = 2**23  # bytes of features at a time
_ROWS_FOR_COVARIANCE = 20_000  # points; more would improve it by little
_ROWS_FOR_LARGE = 4000  # of many features, where it would cost more than all the rest
_COPIES = 3  # of sums over bins that are in memory at a time
_FEWEST_BINS = 128  # fewer would cost power
_RANK = 1e-8  # eigenvalues below this share of the first are rounding
_ROUNDING = 1e-13  # a variance below this share of the mean square is, too
_PLANTED = 50  # rows of a stack that a difference is planted into; the others are not as loud
_HIDDEN = 0.1  # spreads of T: what may hide in a row whose value is no larger than by chance
_MOST_AXES = 0.25  # of the points, for a difference to be planted into an MMD
_MOST_EXPLAINED = 0.9  # of labels at random, for a difference to be planted into a discriminant
_LABELLINGS = 256  # at a time: their differences of means take memory
_TIE = 1e-6  # values of the statistic that differ by less are equal but for rounding


class ViewOfRow(NamedTuple):
    """What one row of values stands for."""

    stack: int
    view: int
    regularisation: float
    columns: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class PreparedStack:
    """The views of one stack: sums of features over bins, along the axes of their covariance."""

    stack: int  # its number among those of the representation
    totals: Tensor  # (S, views, axes) of centred features
    spectrum: Tensor  # (views, axes) eigenvalues of the covariance
    weights: Tensor  # (views, lambdas, axes) what the square along each axis counts
    axes: Tensor  # (views, features, axes)
    means: Tensor  # (views, features)
    regularisation: tuple[float, ...]
    columns: list[tuple[int, ...]]

    @property
    def rows(self) -> int:
        """How many rows of values it gives."""
        return self.weights.shape[0] * self.weights.shape[1]

    def looks_at_few(self) -> bool:
        """Whether any of its views looks at one or two columns only."""
        return any(len(columns) in (1, 2) for columns in self.columns)

    def views_of_rows(self) -> Iterator[ViewOfRow]:
        """What each of its rows stands for."""
        for view, columns in enumerate(self.columns):
            for regularisation in self.regularisation:
                yield ViewOfRow(self.stack, view, regularisation, columns)

    def evaluate(self, in_x: Tensor, scale: float) -> Tensor:
        """(rows, B) values of T, for (B, S) ones where bins are in X."""
        views, _, axes = self.weights.shape
        # The totals of all bins sum to 0, so those of Y are those of X with the other sign.
        of_x = scale * (in_x @ self.totals.flatten(1))
        squares = of_x.square().view(-1, views, axes)
        values = torch.einsum("bva,vla->vlb", squares, self.weights)
        return values.flatten(0, 1)

    def expected(self, scale: float) -> tuple[Tensor, Tensor]:
        """(rows,) mean and variance of T when P = Q, in large samples."""
        # Along each axis the difference of means is nearly normal, with this variance.
        parts = scale * self.weights * self.spectrum[:, None]
        mean = parts.sum(2)
        variance = 2 * parts.square().sum(2)
        return mean.flatten(), variance.flatten()

    def planted(
        self,
        kind: int,
        labellings: Tensor,
        observed: Tensor,
        sizes: tuple[int, int],
    ) -> PlantedStack:
        """Its rows over (B, S) labellings, with what (S,) the observed one shows planted into each.

        Of many rows those that speak loudest are planted. The others stay as they are without a
        difference.
        """
        n, m = sizes
        points = n + m
        scale = 1 / n + 1 / m
        inner_share = n * m / points**2  # of a squared difference of means, in the covariance
        some = torch.split(labellings, _LABELLINGS)
        noise = torch.cat([self.evaluate(part, scale) for part in some], 1)  # (rows, B)
        values = self.evaluate(observed[None], scale)
        mean = noise.mean(1, keepdim=True)
        variance = noise.var(1, keepdim=True, correction=0)
        surprises = gamma_surprise(noise, mean, variance)
        of_observed = gamma_surprise(values, mean, variance)[:, 0]
        views, lambdas, axes = self.weights.shape
        finite = torch.tensor([math.isfinite(value) for value in self.regularisation]).repeat(views)
        # With nearly as many axes as points each point has its own, and T hardly varies: what is
        # added to it there is no draw of what chance does.
        few_axes = self.weights.gt(0).sum(2).flatten() < _MOST_AXES * points
        explained = inner_share * mean[:, 0]  # the share of random labels, for finite lambdas
        can_be = torch.where(finite, explained < _MOST_EXPLAINED, few_axes)
        ranks = torch.where(can_be, of_observed, -1.0)
        order = ranks.argsort(descending=True, stable=True)
        count = min(_PLANTED, int(can_be.sum()))
        loud = order[:count]
        quiet = order[count:]
        others = torch.zeros(len(labellings), dtype=torch.float64)
        if len(quiet):
            others = surprises[quiet].amax(0)
        of_view = loud // lambdas
        along = scale * (observed @ self.totals.flatten(1)).view(views, axes)  # the c_i
        directions = self.weights.flatten(0, 1)[loud] * along[of_view]  # (K, axes)
        by_bin = torch.einsum("ska,ka->sk", self.totals[:, of_view], directions)
        inner = torch.where(finite[loud], inner_share, 0.0)[:, None]
        seen = values[loud]
        by_chance = noise[loud] / rest(noise[loud], inner)
        # T is too large by its mean without a difference. Less than that is no difference, but
        # may hide a small one.
        excess = seen / rest(seen, inner) - by_chance.mean(1, keepdim=True)
        gain = torch.maximum(excess, _HIDDEN * by_chance.std(1, keepdim=True))
        shrinking = torch.where(seen > 0, gain / seen, 0.0)
        return PlantedStack(
            kind=kind,
            gain=shrinking * seen,
            cross=shrinking.sqrt() * scale * (labellings @ by_bin).T,
            noise=noise[loud],
            inner=inner,
            mean=mean[loud],
            variance=variance[loud],
            others=others,
            largest=surprises.amax(0),
            observed=float(of_observed.max()),
        )

    def discriminant(self, row: int, in_x: Tensor, scale: float) -> tuple[int, Tensor]:
        """The view of a row, and the (features,) direction that tells X from Y best in it."""
        view, place = divmod(row, len(self.regularisation))
        along = scale * (in_x @ self.totals[:, view])  # (axes,)
        return view, self.axes[view] @ (self.weights[view, place] * along)


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
        """From sums of centred features over X to a difference of means."""
        n, m = self.sizes
        return 1 / n + 1 / m

    def in_x(self) -> Tensor:
        """(S,) ones for the bins of X, as observed."""
        identity = torch.arange(self.bins.moving)[None]
        return self.bins.in_x(identity)[0]

    def rows(self) -> Iterator[ViewOfRow]:
        """What each row of values stands for."""
        for stack in self.stacks:
            yield from stack.views_of_rows()


@dataclass(frozen=True)
class Spectral(Statistic):
    """The most surprising witness over all views, each found anew for every labelling.

    Every view and every lambda gives a row of values T(lambda), one for each labelling. A row is
    turned into surprises, -log p by a gamma law that has the row's own mean and variance. Views of
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

    def __post_init__(self) -> None:
        if not self.regularisation or any(not value > 0 for value in self.regularisation):
            raise InputError(
                f"regularisation is {self.regularisation}; give numbers above 0, such as (0.1, "
                "0.001), or math.inf for the MMD."
            )

    def __repr__(self) -> str:
        if self.regularisation == _REGULARISATION:
            return "Spectral()"
        # As code: the name inf would not be known.
        numbers = ["math.inf" if math.isinf(each) else repr(each) for each in self.regularisation]
        return f"Spectral(({', '.join(numbers)},))"

    def check(self, representation: nn.Module) -> None:
        if not isinstance(representation, Views):
            raise IncompatibleParts(
                f"{self!r} sees points through views, but the representation is "
                f"{type(representation).__name__}. Use Views(), or Views(Features(network))."
            )

    def most_bins(self, representation: Views, memory: int) -> int:
        schema = cast(Schema, representation.schema)
        point = torch.zeros(1, *schema.shape)
        features = 1
        with torch.no_grad():
            for stack in representation:
                features += math.prod(_shape_of(stack, representation, point))
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
        of_stacks = _add_up(representation, points, bins, rank)
        stacks = []
        for number, stack in enumerate(representation):
            sums = of_stacks.pop(0)  # so that its memory is free when it is used
            if sums.totals.numel():
                stacks.append(_along_axes(stack, number, sums, bins, self.regularisation))
        names = [cast(View, representation.stacks[each.stack]).kind for each in stacks]
        shares = {stack.kind: stack.weight for stack in representation}
        kinds = list(dict.fromkeys(names))
        of_row = []
        for name, prepared in zip(names, stacks, strict=True):
            of_row.append(torch.full((prepared.rows,), kinds.index(name)))
        return PreparedSpectral(
            bins=bins,
            sizes=points.sizes,
            stacks=stacks,
            kinds=torch.cat(of_row),
            shares=torch.tensor([shares[name] for name in kinds], dtype=torch.float64),
        )

    def evaluate(self, prepared: PreparedSpectral, shuffles: Tensor) -> Tensor:
        in_x = prepared.bins.in_x(shuffles)
        return torch.cat([stack.evaluate(in_x, prepared.scale) for stack in prepared.stacks])

    def fuse(self, prepared: PreparedSpectral, values: Tensor) -> Tensor:
        return fuse_kinds(surprise(values), prepared.kinds, prepared.shares)

    def effect(self, prepared: PreparedSpectral, observed: float, threshold: float) -> Effect:
        """The power, by the normal law that squared surprises have the roots of."""
        # The observed value has a chance of a half to be reached again, and sqrt(2 log 1/p) is
        # about a normal deviate. `predict_power` has a better estimate.
        distance = math.sqrt(2 * observed) - math.sqrt(2 * threshold)
        return Effect(power=NormalDist().cdf(distance))

    def planted(self, prepared: PreparedSpectral, shuffles: Tensor) -> Planted:
        in_x = prepared.bins.in_x(shuffles)
        observed = prepared.in_x()
        stacks = []
        first = 0
        for stack in prepared.stacks:
            kind = int(prepared.kinds[first])
            stacks.append(stack.planted(kind, in_x, observed, prepared.sizes))
            first += stack.rows
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
        parts = []
        for part in shuffles:
            in_x = prepared.bins.in_x(part)
            parts.append(torch.cat([stack.evaluate(in_x, prepared.scale) for stack in stacks]))
        values = torch.cat(parts, 1)  # (rows, B + 1)
        members: dict[tuple[int, ...], list[int]] = {}
        views = itertools.chain.from_iterable(stack.views_of_rows() for stack in stacks)
        for row, view in enumerate(views):
            if len(view.columns) in (1, 2):
                members.setdefault(view.columns, []).append(row)
        by_columns = {}
        for columns in sorted(members):
            surprises = surprise(values[members[columns]])
            by_columns[columns] = by_own_tail(surprises.amax(0))
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
        middle = (scores[:n].mean() + scores[n:].mean()) / 2
        centred = scores - middle
        distance = float(centred[:n].mean() - centred[n:].mean())
        factor = value / distance if distance > 0 else 0.0
        return centred[:n] * factor, -centred[n:] * factor

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
        prepared = self._observed(representation, rows, n, m)
        of_both = self.scores(representation, prepared, rows[: n + m])
        middle = (of_both[:n].mean() + of_both[n:].mean()) / 2
        return self.scores(representation, prepared, rows[n + m :]) - middle

    def scores(self, views: Views, prepared: PreparedSpectral, rows: Tensor) -> Tensor:
        """(N,) the best witness of the observed labelling at these points: higher nearer to X."""
        number, row = self.best(prepared)
        chosen = prepared.stacks[number]
        view, direction = chosen.discriminant(row, prepared.in_x(), prepared.scale)
        stack = cast(View, views.stacks[chosen.stack])
        width = chosen.means.numel()
        scores = []
        with torch.no_grad():
            for seen in _seen(views, rows):
                for features in _features_of(stack, seen, width):
                    centred = features[:, view] - chosen.means[view]
                    scores.append(centred @ direction)
        return torch.cat(scores)

    def best(self, prepared: PreparedSpectral) -> tuple[int, int]:
        """The stack, among those prepared, and the row in it that speak loudest against P = Q."""
        in_x = prepared.in_x()[None]
        loudest = -math.inf
        place = (0, 0)
        sizes = torch.bincount(prepared.kinds)
        first = 0
        for number, stack in enumerate(prepared.stacks):
            values = stack.evaluate(in_x, prepared.scale)[:, 0]
            surprises = gamma_surprise(values, *stack.expected(prepared.scale))
            # The largest of many is large by chance.
            kind = prepared.kinds[first]
            surprises = surprises - math.log(int(sizes[kind])) + prepared.shares[kind].log()
            row = int(surprises.argmax())
            if float(surprises[row]) > loudest:
                loudest = float(surprises[row])
                place = (number, row)
            first += stack.rows
        return place

    def _observed(self, views: Views, rows: Tensor, n: int, m: int) -> PreparedSpectral:
        """What one labelling needs: two bins, which stay where they are."""
        bins = Bins(torch.zeros(n, dtype=torch.int64), torch.ones(m, dtype=torch.int64), 0, 0, 1)
        points = EmbeddedSamples((rows[: n + m],), (n, m), cast(Schema, views.schema))
        return self.prepare(views, points, bins, torch.Generator().manual_seed(0))


class Sums(NamedTuple):
    """What a stack sums over points."""

    totals: Tensor  # (S, views, features) of features over bins
    some: Tensor  # (views, features) of features over the points that are in the products
    products: Tensor  # (views, features, features) of features with each other
    counted: int  # how many points are in the products

    def plus(self, other: Sums) -> Sums:
        """The sums over the points of both."""
        self.totals.add_(other.totals)
        self.some.add_(other.some)
        self.products.add_(other.products)
        return Sums(self.totals, self.some, self.products, self.counted + other.counted)


def _add_up(
    views: Views,
    points: EmbeddedSamples,
    bins: Bins,
    rank: Tensor,
) -> list[Sums]:
    """The sums of all stacks over all points; workers do pieces of them."""
    (rows,) = points.parts
    resources = points.resources
    shared = resources.workers.share(views)
    of_all = bins.of_all
    # The same pieces whoever does them, or sums would be rounded in other ways.
    size = max(_LEAST_PIECE, -(-len(rows) // _PIECES))
    pieces = range(0, len(rows), size)

    def work() -> Iterator[tuple[Any, ...]]:
        for first in pieces:
            part = slice(first, first + size)
            yield shared, rows[part], of_all[part], bins.count, rank[part]

    totals: list[Sums] = []
    # Of one piece there is no progress to show.
    shown = resources.progress if len(pieces) > 1 else False
    with bar("looking", len(pieces), shown) as tick:
        for sums in resources.workers.map(_sums_of_piece, work()):
            if totals:
                totals = [one.plus(other) for one, other in zip(totals, sums, strict=True)]
            else:
                totals = sums
            tick("")
    return totals


def _sums_of_piece(
    views: Views,
    rows: Tensor,
    of_bin: Tensor,
    count: int,
    rank: Tensor,
) -> list[Sums]:
    """The sums over some points; `rank` is the place of each in a random order of all points."""
    adding = [_Adding(stack, views, rows, count) for stack in views]
    first = 0
    with torch.no_grad():
        for seen in _seen(views, rows):
            here = slice(first, first + len(seen))
            first += len(seen)
            for stack in adding:
                stack.add(seen, of_bin[here], rank[here])
    return [stack.sums() for stack in adding]


class _Adding:
    """The sums of one stack over the points seen so far."""

    def __init__(self, stack: View, views: Views, rows: Tensor, count: int) -> None:
        views_of_it, width = _shape_of(stack, views, rows)
        self.stack = stack
        self.totals = torch.zeros(count, views_of_it, width, dtype=torch.float64)
        self.some = torch.zeros(views_of_it, width, dtype=torch.float64)
        self.products = torch.zeros(views_of_it, width, width, dtype=torch.float64)
        self.most = _ROWS_FOR_LARGE if width > 100 else _ROWS_FOR_COVARIANCE
        self.counted = 0

    def add(self, seen: Seen, of_bin: Tensor, rank: Tensor) -> None:
        """Add points to their bins; those of a low rank count for the covariance, too."""
        first = 0
        for features in _features_of(self.stack, seen, self.some.numel()):
            here = slice(first, first + len(features))
            first += len(features)
            self.totals.index_add_(0, of_bin[here], features)
            chosen = rank[here] < self.most
            if not bool(chosen.all()):
                features = features[chosen]
            self._add_products(features)

    def _add_products(self, features: Tensor) -> None:
        self.counted += len(features)
        self.some += features.sum(0)
        if features.shape[2] == 1:
            self.products[:, 0, 0] += features[:, :, 0].square().sum(0)
        else:
            by_view = features.transpose(0, 1)
            self.products += by_view.mT @ by_view

    def sums(self) -> Sums:
        return Sums(self.totals, self.some, self.products, self.counted)


def _shape_of(stack: View, views: Views, rows: Tensor) -> tuple[int, int]:
    """How many views a stack has, and how many features each."""
    _, number, width = stack.features(views.see(rows[:1])).shape
    return number, width


def _seen(views: Views, rows: Tensor) -> Iterator[Seen]:
    """What views share of some rows at a time."""
    size = max(16, _AT_ONCE // (8 * max(1, rows[0].numel())))
    for part in torch.split(rows, size):
        yield views.see(part)


def _features_of(stack: View, seen: Seen, width: int) -> Iterator[Tensor]:
    """(N, views, features) of some points at a time; `width` is how many a point has in all."""
    if width:
        for part in seen.parts(max(16, _AT_ONCE // (8 * width))):
            yield stack.features(part)


def _along_axes(
    stack: View,
    number: int,
    sums: Sums,
    bins: Bins,
    regularisation: tuple[float, ...],
) -> PreparedStack:
    """The sums along the eigenvectors of the pooled covariance, and the weights of each lambda."""
    sizes = torch.bincount(bins.of_all, minlength=bins.count).double()  # points in each bin
    means = sums.totals.sum(0) / sizes.sum()  # (views, features)
    centred = sums.totals.sub_(sizes[:, None, None] * means)
    metric = stack.metric()
    # About the mean of the same points: about that of all, the smallest eigenvalues would drown.
    middle = sums.some / sums.counted
    second = sums.products / sums.counted
    if metric is not None:
        second = _solved(metric, _solved(metric, second).mT)
        middle = _solved(metric, middle[:, :, None])[:, :, 0]
    covariance = second - middle[:, :, None] * middle[:, None, :]
    covariance = (covariance + covariance.mT) / 2  # but for rounding it is symmetric already
    values, vectors = torch.linalg.eigh(covariance)
    spectrum = values.flip(1).clamp_min(0)  # the largest first
    # A feature that is constant has a variance of rounding only.
    rounding = _ROUNDING * second.diagonal(dim1=1, dim2=2).sum(1, keepdim=True)
    is_axis = (spectrum > _RANK * spectrum[:, :1]) & (spectrum > rounding)
    kept = max(1, int(is_axis.any(0).sum()))
    axes = vectors.flip(2)[:, :, :kept]
    if metric is not None:
        axes = torch.linalg.solve_triangular(metric.mT, axes, upper=True)
    lambdas = stack.regularisation or regularisation
    weights = _weights(spectrum[:, :kept], is_axis[:, :kept], lambdas)
    totals = torch.einsum("svf,vfa->sva", centred, axes)
    return PreparedStack(
        stack=number,
        totals=totals,
        spectrum=spectrum[:, :kept],
        weights=weights,
        axes=axes,
        means=means,
        regularisation=lambdas,
        columns=stack.columns(),
    )


def _solved(metric: Tensor, values: Tensor) -> Tensor:
    """L^-1 values, for the lower factors L of a metric."""
    solved: Tensor = torch.linalg.solve_triangular(metric, values, upper=False)
    return solved


def _weights(spectrum: Tensor, is_axis: Tensor, lambdas: tuple[float, ...]) -> Tensor:
    """(views, lambdas, axes) the 1 / (s_i + lambda s_1); all alike where lambda is infinite."""
    first = spectrum[:, :1]
    weights = []
    for value in lambdas:
        if math.isinf(value):
            weight = torch.ones_like(spectrum)
        else:
            weight = 1 / (spectrum + value * first).clamp_min(1e-300)
        weights.append(torch.where(is_axis, weight, torch.zeros_like(weight)))
    return torch.stack(weights, 1)
