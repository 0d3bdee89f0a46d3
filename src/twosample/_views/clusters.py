"""Clusters of points: how they scatter around the centres that the pooled points have."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .base import ColumnSets, Layout, Pooled, Seen, View
from .groups import combinations
from .places import as_places, no_places
from .scores import correlations

_MOST_CLUSTERS = 12
_FIT_ROWS = 2000  # rows that are clustered: more would give the same centres
_LEAST_ROWS = 10  # of a cluster: fewer are outliers, or chance
_CANDIDATES = 8  # for the start of each further centre
_STEPS = 10  # of Lloyd's algorithm; a few rows may still move after them
_TRIMMED = 0.01  # of the values on either side, whose distance does not count
_LEAST_SPREAD = 1e-6  # of a cluster along a column, in spreads of the column
_MOST_FEATURES = 512


class Clusters(View):
    """How points scatter within clusters: squares and products of columns about the centres.

    Where the pooled points form no clusters, this is no view at all. Whether they do is asked of
    the Bayesian information criterion for spherical clusters [Pelleg2000]: points that spread
    evenly, or like one normal law, have one.

    Parameters
    ----------
    most
        At most so many clusters.
    """

    family = "joint"
    kind = "clusters"
    weight = 0.07
    numbers: Tensor  # (columns,) encoded columns that are clustered
    centres: Tensor  # (clusters, columns)
    spreads: Tensor  # (clusters, columns) of the points of a cluster
    factors: Tensor  # (pairs, 2) which two of `numbers` are multiplied

    def __init__(self, most: int = _MOST_CLUSTERS) -> None:
        super().__init__()
        self.most = most
        self.register_buffer("numbers", no_places(0))
        self.register_buffer("centres", torch.empty(0, 0))
        self.register_buffer("spreads", torch.empty(0, 0))
        self.register_buffer("factors", no_places(0, 2))

    def extra_repr(self) -> str:
        return f"most={self.most}"

    def fit(self, pooled: Pooled, layout: Layout) -> None:
        self.numbers = as_places(layout.numbers())
        rows = pooled.rows[:_FIT_ROWS][:, self.numbers]
        centres = best_centres(_trimmed(rows), self.most) if len(self.numbers) else rows[:1]
        if len(centres) < 2:
            self.centres = torch.empty(0, len(self.numbers), dtype=torch.float64)
            return
        nearest = _nearest(rows, centres)
        self.centres = torch.stack(
            [rows[nearest == place].mean(0) for place in range(len(centres))]
        )
        residuals = rows - self.centres[nearest]
        inside = torch.nn.functional.one_hot(nearest, len(centres)).double()
        counts = inside.sum(0)[:, None].clamp_min(1)
        variances = inside.T @ residuals.square() / counts
        self.spreads = variances.sqrt().clamp_min(_LEAST_SPREAD)
        columns = len(self.numbers)
        squares = torch.arange(columns)[:, None].expand(columns, 2)
        most = max(0, _MOST_FEATURES // len(centres) - columns)
        strength = correlations(rows)
        products = combinations(columns, 2, most, strength)
        self.factors = torch.cat([squares, products])

    def features(self, seen: Seen) -> Tensor:
        if not len(self.centres):
            return torch.zeros(len(seen), 0, 1, dtype=torch.float64)
        rows = seen.rows[:, self.numbers]
        nearest = _nearest(rows, self.centres)
        residuals = (rows - self.centres[nearest]) / self.spreads[nearest]
        one, other = self.factors.T
        products = residuals[:, one] * residuals[:, other]
        inside = torch.nn.functional.one_hot(nearest, len(self.centres)).double()
        features = inside[:, :, None] * products[:, None]
        return features.flatten(1)[:, None]

    def columns(self) -> ColumnSets:
        return [()] if len(self.centres) else []

    def size(self) -> int:
        return len(self.centres) * len(self.factors)


def best_centres(rows: Tensor, most: int) -> Tensor:
    """(k, columns) the centres of the clusters of (N, columns) rows, k by the best criterion.

    For clusters that are spherical normal laws of one variance, with n_j rows each and W the sum of
    squared distances from the centres,

        BIC = sum_j n_j log(n_j / N) - N d / 2 log(W / (N d)) - k (d + 1) / 2 log N.
    """
    count, columns = rows.shape
    centres = rows.mean(0, keepdim=True)
    squares = _squares(rows, centres)[:, 0]
    total = float(squares.sum())
    if total <= 0:
        return centres
    best = centres
    highest = -(columns + 1) / 2 * math.log(count)
    for clusters in range(2, most + 1):
        centres = torch.cat([centres, _further(rows, squares)])
        for _ in range(_STEPS):
            nearest = _nearest(rows, centres)
            inside = torch.nn.functional.one_hot(nearest, clusters).double()
            sizes = inside.sum(0)
            centres = torch.where(
                sizes[:, None] > 0, inside.T @ rows / sizes[:, None].clamp_min(1), centres
            )
        every = _squares(rows, centres)
        squares, nearest = every.min(1)
        sizes = torch.bincount(nearest, minlength=clusters).double()
        within = float(squares.sum())
        if within <= 0:  # there are no more different rows
            break
        fit = -count * columns / 2 * math.log(within / total)
        entropy = float(torch.special.xlogy(sizes, sizes / count).sum())
        criterion = entropy + fit - clusters * (columns + 1) / 2 * math.log(count)
        if criterion > highest and float(sizes.min()) >= _LEAST_ROWS:
            highest = criterion
            best = centres
    return best


def _further(rows: Tensor, squares: Tensor) -> Tensor:
    """(1, columns) a row to start one more centre from: of some far ones that which helps most."""
    order = squares.argsort()
    cumulative = squares[order].cumsum(0)
    shares = torch.linspace(0.05, 0.95, _CANDIDATES, dtype=squares.dtype)
    places = torch.searchsorted(cumulative, shares * cumulative[-1])
    candidates = rows[order[places.clamp_max(len(rows) - 1)]]
    nearer = torch.minimum(squares[:, None], _squares(rows, candidates))
    chosen = nearer.sum(0).argmin()
    return candidates[chosen : chosen + 1]


def _trimmed(rows: Tensor) -> Tensor:
    ends = torch.tensor([_TRIMMED, 1 - _TRIMMED], dtype=rows.dtype)
    low, high = rows.quantile(ends, dim=0)
    return rows.clamp(low, high)


def _squares(rows: Tensor, centres: Tensor) -> Tensor:
    """(N, k) squared distances."""
    return torch.cdist(rows, centres).square()


def _nearest(rows: Tensor, centres: Tensor) -> Tensor:
    """(N,) the number of the nearest centre."""
    return _squares(rows, centres).argmin(1)
