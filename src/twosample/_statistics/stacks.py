"""One stack of views, prepared: sums over bins along the axes of the pooled covariance.

The equation is in `spectral`. A stack gives one row of values for each of its views and each
lambda, in this order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from .._eigen import eigh
from .._fusing import Moments, gamma_surprise, moments_of
from .._views import View
from .base import Bins
from .planting import PlantedStack, shrinkage
from .shuffled import moments_over_shuffles
from .sums import Sums

_RANK = 1e-8  # eigenvalues below this share of the first are rounding
_ROUNDING = 1e-13  # a variance below this share of the mean square is, too
_LEAST_EIGENVALUE = 1e-300  # that is divided by, where all of a view's features are constant
_FAINT = 1e-3  # axes below this share of the first eigenvalue tell nothing but details
_PLANTED = 50  # rows of a stack that a difference is planted into; the others are not as loud
_MOST_AXES = 0.25  # of the points, for a difference to be planted into an MMD
_MOST_EXPLAINED = 0.9  # of labels at random, for a difference to be planted into a discriminant
_VALUES_AT_ONCE = 2**19  # of totals along axes, which a core's cache holds
_LABELLINGS = 256  # at a time: their differences of means take memory


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
        views, lambdas, _ = self.weights.shape
        return views * lambdas

    def looks_at_few(self) -> bool:
        """Whether any of its views looks at one or two columns only."""
        return any(len(columns) in (1, 2) for columns in self.columns)

    def views_of_rows(self) -> Iterator[ViewOfRow]:
        """What each of its rows stands for."""
        for view, columns in enumerate(self.columns):
            for regularisation in self.regularisation:
                yield ViewOfRow(self.stack, view, regularisation, columns)

    def evaluate(self, in_x: Tensor, scales: Tensor) -> Tensor:
        """(rows, B) values of T, for (B, S) ones where bins are in X and (B,) scales of their sums.

        Other weights than ones make weighted sums.
        """
        # The totals of all bins sum to 0, so those of Y are those of X with the other sign.
        return self.evaluate_weights(scales[:, None] * in_x)

    def evaluate_weights(self, weights: Tensor) -> Tensor:
        """(rows, B) values of T, for (B, S) weights that make differences of means from totals."""
        views, _, axes = self.weights.shape
        differences = weights @ self.totals.flatten(1)
        squares = differences.square_().view(-1, views, axes)
        values = torch.einsum("bva,vla->vlb", squares, self.weights)
        return values.flatten(0, 1)

    def over_shuffles(self, bins: Bins, scale: float) -> Moments:
        """(rows, 1) the mean and the variance of T over all shuffles of bins."""
        stay = float(bins.sizes[bins.moving :].sum()) > 0
        staying_x, _ = bins.staying
        in_x = self.totals[bins.moving : bins.moving + staying_x]
        mean, variance = moments_over_shuffles(
            self.totals[: bins.moving],
            self.weights,
            bins.moving_x,
            in_x.sum(0) if stay else None,
        )
        return scale**2 * mean, scale**4 * variance

    def in_large_samples(self, scale: float) -> Moments:
        """(rows, 1) the mean and the variance that T tends to, by the covariance alone."""
        # Along each axis the difference of means is nearly normal, with this variance.
        parts = scale * self.weights * self.spectrum[:, None]
        mean = parts.sum(2).flatten()
        variance = 2 * parts.square().sum(2).flatten()
        return mean[:, None], variance[:, None]

    def without_ridge(self) -> PreparedStack:
        """The same views with lambda = 0, along the axes that are not faint."""
        first = self.spectrum[:, :1]
        is_axis = (self.spectrum > _FAINT * first) & self.weights.gt(0).any(1)
        inverses = 1 / self.spectrum.clamp_min(_LEAST_EIGENVALUE)
        weights = torch.where(is_axis, inverses, 0.0)
        return replace(self, weights=weights[:, None], regularisation=(0.0,))

    def discriminant(self, row: int, weights: Tensor) -> tuple[int, Tensor]:
        """The view of a row, and the (features,) direction that tells X from Y best in it.

        `weights` are those of the (S,) bins in the difference of means.
        """
        view, place = divmod(row, len(self.regularisation))
        along = weights @ self.totals[:, view]  # (axes,)
        weighted = self.weights[view, place] * along
        return view, self.axes[view] @ weighted

    def planted(
        self,
        kind: int,
        weights: Tensor,
        observed: Tensor,
        inner_share: float,
        points: int,
        moments: Moments | None,
    ) -> PlantedStack:
        """Its rows over labellings, with what the observed one shows planted into each.

        Of many rows those that speak loudest are planted. The others stay as they are without a
        difference.

        Parameters
        ----------
        kind
            Which kind of view it is.
        weights, observed
            (B, S) weights of bins in the difference of means, and (S,) those observed.
        inner_share
            The share of a squared difference of means that is in the covariance.
        points
            How many points move, or units where these do.
        moments
            (rows, 1) of T over all labellings; None for those of the values.
        """
        parts = [self.evaluate_weights(part) for part in torch.split(weights, _LABELLINGS)]
        noise = torch.cat(parts, 1)  # (rows, B)
        mean, variance = moments_of(noise) if moments is None else moments
        surprises = gamma_surprise(noise, mean, variance)
        values = self.evaluate_weights(observed[None])  # (rows, 1)
        of_observed = gamma_surprise(values, mean, variance)[:, 0]

        is_finite = self._rows_with_finite_lambda()
        explained = inner_share * mean[:, 0]  # the share of random labels, for finite lambdas
        few_explained = explained < _MOST_EXPLAINED
        few_axes = self._rows_with_few_axes(points)
        can_be = torch.where(is_finite, few_explained, few_axes)
        loud, quiet = _by_loudness(of_observed, can_be)
        others = torch.zeros(len(weights), dtype=torch.float64)
        if len(quiet):
            others = surprises[quiet].amax(0)

        inner = torch.where(is_finite[loud], inner_share, 0.0)[:, None]
        kept = shrinkage(values[loud], noise[loud], inner)
        by_bin = self._witnesses(loud, observed)  # (S, K)
        along_witness = (weights @ by_bin).T
        return PlantedStack(
            kind=kind,
            gain=kept * values[loud],
            cross=kept.sqrt() * along_witness,
            noise=noise[loud],
            inner=inner,
            mean=mean[loud],
            variance=variance[loud],
            others=others,
            largest=surprises.amax(0),
            observed=float(of_observed.max()),
        )

    def _rows_with_finite_lambda(self) -> Tensor:
        """(rows,) whether a row's weights hold the inverse of the covariance."""
        views = len(self.weights)
        is_finite = [math.isfinite(value) for value in self.regularisation]
        return torch.tensor(is_finite).repeat(views)

    def _rows_with_few_axes(self, points: int) -> Tensor:
        """(rows,) whether there are far fewer axes than points.

        With nearly as many, each point has an axis of its own, and T hardly varies: what is added
        to it there is no draw of what chance does.
        """
        axes = self.weights.gt(0).sum(2)  # (views, lambdas)
        return axes.flatten() < _MOST_AXES * points

    def _witnesses(self, rows: Tensor, observed: Tensor) -> Tensor:
        """(S, K) sums over bins of the witnesses that some rows have in the observed labelling."""
        views, lambdas, axes = self.weights.shape
        of_view = rows // lambdas
        totals = self.totals.flatten(1)
        differences = observed @ totals
        along = differences.view(views, axes)
        weights = self.weights.flatten(0, 1)
        directions = weights[rows] * along[of_view]  # (K, axes)
        of_rows = self.totals[:, of_view]  # (S, K, axes)
        return torch.einsum("ska,ka->sk", of_rows, directions)


def _by_loudness(surprises: Tensor, can_be: Tensor) -> tuple[Tensor, Tensor]:
    """The rows to plant a difference into, the loudest of those that can be; and all others."""
    loudness = torch.where(can_be, surprises, -1.0)  # surprises are not negative
    order = loudness.argsort(descending=True, stable=True)
    count = min(_PLANTED, int(can_be.sum()))
    return order[:count], order[count:]


def along_axes(
    stack: View,
    number: int,
    sums: Sums,
    bins: Bins,
    regularisation: tuple[float, ...],
    blind: Tensor | None = None,
) -> PreparedStack:
    """The sums along the eigenvectors of the pooled covariance, and the weights of each lambda.

    Parameters
    ----------
    stack, number
        The stack, and its place among those of the representation.
    sums
        Its sums over all points, which become those along the axes.
    bins
        Which bins there are.
    regularisation
        The lambdas, where the stack has none of its own.
    blind
        (views,) those that are left out. Their values are 0, and at the end there are none at all.
    """
    if blind is None:
        blind = torch.zeros(len(sums.some), dtype=torch.bool)
    seeing = _without_last(blind)
    sums = sums.of_first(seeing)
    sizes = bins.sizes
    means = sums.totals.sum(0) / sizes.sum()  # (views, features)
    # In place, here and along the axes: there may be no memory for a second set of totals.
    centred = sums.totals.addcmul_(sizes[:, None, None], means, value=-1)
    metric = stack.metric()
    if metric is not None:
        metric = metric[:seeing]
    covariance, mean_square = _moments(sums, metric)
    if bins.cells is not None:
        covariance = _within_cells(centred, bins, bins.cells, metric)
    values, vectors = eigh(covariance)
    spectrum = values.flip(1).clamp_min(0)  # the largest first
    vectors = vectors.flip(2)
    first = spectrum[:, :1]
    has_rank = spectrum > _RANK * first
    # A feature that is constant has a variance of rounding only.
    varies = spectrum > _ROUNDING * mean_square
    is_axis = has_rank & varies & ~blind[:seeing, None]
    # As many as the view with the most axes has; in other views the rest weigh nothing.
    in_any_view = is_axis.any(0)
    kept = max(1, int(in_any_view.sum()))
    spectrum = spectrum[:, :kept]
    is_axis = is_axis[:, :kept]
    axes = vectors[:, :, :kept]
    if metric is not None:
        axes = torch.linalg.solve_triangular(metric.mT, axes, upper=True)
    lambdas = stack.regularisation or regularisation
    return PreparedStack(
        stack=number,
        totals=_projected(centred, axes),
        spectrum=spectrum,
        weights=_weights(spectrum, is_axis, lambdas),
        axes=axes,
        means=means,
        regularisation=lambdas,
        columns=stack.columns()[:seeing],
    )


def _without_last(blind: Tensor) -> int:
    """How many views are left without the blind ones at the end; one at least."""
    seeing = torch.nonzero(~blind)[:, 0]
    return int(seeing[-1]) + 1 if len(seeing) else 1


def _projected(totals: Tensor, axes: Tensor) -> Tensor:
    """(S, views, axes) of (S, views, features) totals along (views, features, axes), in place."""
    bins, views, features = totals.shape
    kept = axes.shape[2]
    step = max(1, _VALUES_AT_ONCE // (bins * features))
    for first in range(0, views, step):
        some = slice(first, first + step)
        along = totals[:, some].transpose(0, 1) @ axes[some]  # (views, S, axes)
        totals[:, some, :kept] = along.transpose(0, 1)
    # Every batch of labellings multiplies with all of them at once.
    return totals[:, :, :kept].contiguous()


def _within_cells(totals: Tensor, bins: Bins, cells: Tensor, metric: Tensor | None) -> Tensor:
    """(views, features, features) covariances of what is about the means of cells.

    That is what shuffles within cells make of a difference: of pairs, the covariance of their
    differences.
    """
    count = int(cells.max()) + 1
    points = torch.zeros(count, dtype=torch.float64).index_add_(0, cells, bins.sizes)
    sums = totals.new_zeros(count, *totals.shape[1:]).index_add_(0, cells, totals)
    means = sums / points.clamp_min(1)[:, None, None]
    about = totals - bins.sizes[:, None, None] * means[cells]
    by_view = about.transpose(0, 1)  # (views, S, features)
    covariance = by_view.mT @ by_view / bins.sizes.sum()
    if metric is not None:
        half = _solved(metric, covariance)
        covariance = _solved(metric, half.mT)
    return (covariance + covariance.mT) / 2


def _moments(sums: Sums, metric: Tensor | None) -> tuple[Tensor, Tensor]:
    """(views, features, features) covariances, and (views, 1) mean squares of all features."""
    # About the mean of the same points: about that of all, the smallest eigenvalues would drown.
    mean = sums.some / sums.counted
    second = sums.products / sums.counted
    if metric is not None:
        half = _solved(metric, second)
        second = _solved(metric, half.mT)
        column = mean[:, :, None]
        mean = _solved(metric, column)[:, :, 0]
    squared_mean = mean[:, :, None] * mean[:, None, :]
    covariance = second - squared_mean
    covariance = (covariance + covariance.mT) / 2  # but for rounding it is symmetric already
    squares = second.diagonal(dim1=1, dim2=2)
    return covariance, squares.sum(1, keepdim=True)


def _solved(metric: Tensor, values: Tensor) -> Tensor:
    """L^-1 values, for the lower factors L of a metric."""
    solved: Tensor = torch.linalg.solve_triangular(metric, values, upper=False)
    return solved


def _weights(spectrum: Tensor, is_axis: Tensor, lambdas: tuple[float, ...]) -> Tensor:
    """(views, lambdas, axes) the 1 / (s_i + lambda s_1); all alike where lambda is infinite."""
    first = spectrum[:, :1]
    nothing = torch.zeros_like(spectrum)
    weights = []
    for value in lambdas:
        if math.isinf(value):
            weight = torch.ones_like(spectrum)
        else:
            regularised = spectrum + value * first
            weight = 1 / regularised.clamp_min(_LEAST_EIGENVALUE)
        weights.append(torch.where(is_axis, weight, nothing))
    return torch.stack(weights, 1)
