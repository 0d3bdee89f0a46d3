"""Clusters of the pooled points, and how points scatter about their centres."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .._checks import check_whole
from .base import ColumnSets, Layout, Pooled, Seen, View
from .groups import combinations
from .places import as_places, no_places
from .scores import correlations

_MOST_CLUSTERS = 12
_MOST_FEATURES = 512
_FIT_ROWS = 2000  # rows that are clustered: more would give the same centres
_LEAST_ROWS = 10  # of a cluster: fewer are outliers, or chance
_TRIMMED = 0.01  # of the values on either side, which are drawn in: outliers are no clusters
_STARTS = 8  # rows that are tried as the start of one more centre
_STEPS = 10  # of Lloyd's algorithm; a few rows may still move after them
_LEAST_SPREAD = 1e-6  # that is divided by, in spreads of a column


class Clusters(View):
    """How points scatter within clusters: squares and products of columns about the centres.

    Where the pooled points form no clusters, this is no view at all. `cluster_centres` says whether
    they do.

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
    factors: Tensor  # (products, 2) which two of `numbers` are multiplied

    def __init__(self, most: int = _MOST_CLUSTERS) -> None:
        super().__init__()
        check_whole("most", most, 2)
        self.most = most
        self.register_buffer("numbers", no_places(0))
        self.register_buffer("centres", torch.empty(0, 0))
        self.register_buffer("spreads", torch.empty(0, 0))
        self.register_buffer("factors", no_places(0, 2))

    def extra_repr(self) -> str:
        return f"most={self.most}"

    def fit(self, pooled: Pooled, layout: Layout) -> None:
        self.numbers = as_places(layout.numbers())
        self.centres = torch.empty(0, 0, dtype=torch.float64)
        if not len(self.numbers):
            return
        rows = pooled.rows[:_FIT_ROWS, self.numbers]
        centres = cluster_centres(_drawn_in(rows), self.most)
        if len(centres) == 1:
            return
        inside = _inside(rows, centres)
        self.centres = _means(inside, rows, centres)
        residuals = rows - inside @ self.centres
        variances = _means(inside, residuals.square(), torch.ones_like(centres))
        self.spreads = variances.sqrt().clamp_min(_LEAST_SPREAD)
        columns = len(self.numbers)
        squares = torch.arange(columns)[:, None].expand(columns, 2)
        most = max(0, _MOST_FEATURES // len(centres) - columns)
        products = combinations(columns, 2, most, correlations(rows))
        self.factors = torch.cat([squares, products])

    def features(self, seen: Seen) -> Tensor:
        if not len(self.centres):
            return torch.zeros(len(seen), 0, 1, dtype=torch.float64)
        rows = seen.rows[:, self.numbers]
        inside = _inside(rows, self.centres)
        residuals = (rows - inside @ self.centres) / (inside @ self.spreads)
        one, other = self.factors.T
        products = residuals[:, one] * residuals[:, other]
        by_cluster = inside[:, :, None] * products[:, None]
        return by_cluster.flatten(1)[:, None]  # one view

    def columns(self) -> ColumnSets:
        return [()] if len(self.centres) else []

    def size(self) -> int:
        return len(self.centres) * len(self.factors)


def cluster_centres(rows: Tensor, most: int) -> Tensor:
    """(k, columns) the centres of the clusters of (N, columns) rows; one if there are none.

    k is that of the largest Bayesian information criterion for spherical normal clusters of one
    variance [Pelleg2000]. With n_j rows in cluster j, and W the sum of the squared distances from
    the centres, that is

        sum_j n_j log(n_j / N) - N d / 2 log W - k (d + 1) / 2 log N,

    up to what is the same for every k. Rows of one normal law have one centre: what a second one
    takes from W is less than what it costs in the first sum. Rows that spread evenly are on the
    edge: a grid of centres gains what it costs, but for the last term.
    """
    count, columns = rows.shape
    centres = rows.mean(0, keepdim=True)
    best = centres
    highest = -math.inf
    for clusters in range(1, most + 1):
        if clusters > 1:
            centres = _with_one_more(rows, centres)
        squares, nearest = _squares(rows, centres).min(1)
        within = float(squares.sum())
        if within <= 0:  # there are no more different rows
            break
        sizes = torch.bincount(nearest, minlength=clusters).double()
        if clusters > 1 and float(sizes.min()) < _LEAST_ROWS:
            continue
        shared_out = float(torch.special.xlogy(sizes, sizes / count).sum())
        fit = -count * columns / 2 * math.log(within)
        cost = clusters * (columns + 1) / 2 * math.log(count)
        criterion = shared_out + fit - cost
        if criterion > highest:
            highest = criterion
            best = centres
    return best


def _with_one_more(rows: Tensor, centres: Tensor) -> Tensor:
    """The centres and one more, moved by Lloyd's algorithm. Nothing is drawn."""
    squares = _squares(rows, centres).amin(1)
    order = squares.argsort()
    reached = squares[order].cumsum(0)
    shares = torch.linspace(0.05, 0.95, _STARTS, dtype=rows.dtype)
    places = torch.searchsorted(reached, shares * reached[-1])
    starts = rows[order[places.clamp_max(len(rows) - 1)]]
    left = torch.minimum(squares[:, None], _squares(rows, starts))
    start = starts[left.sum(0).argmin()]
    centres = torch.cat([centres, start[None]])
    for _ in range(_STEPS):
        moved = _means(_inside(rows, centres), rows, centres)
        if torch.equal(moved, centres):
            break
        centres = moved
    return centres


def _drawn_in(rows: Tensor) -> Tensor:
    """Rows whose outermost values are no farther away than the others."""
    ends = torch.tensor([_TRIMMED, 1 - _TRIMMED], dtype=rows.dtype)
    low, high = rows.quantile(ends, dim=0)
    return rows.clamp(low, high)


def _inside(rows: Tensor, centres: Tensor) -> Tensor:
    """(N, k) a one for the nearest centre of each row."""
    nearest = _squares(rows, centres).argmin(1)
    return torch.nn.functional.one_hot(nearest, len(centres)).double()


def _means(inside: Tensor, rows: Tensor, otherwise: Tensor) -> Tensor:
    """(k, columns) the mean of the rows of each cluster; of one without any, something else."""
    counts = inside.sum(0)[:, None]
    means = inside.T @ rows / counts.clamp_min(1)
    return torch.where(counts > 0, means, otherwise)


def _squares(rows: Tensor, centres: Tensor) -> Tensor:
    """(N, k) squared distances."""
    return torch.cdist(rows, centres).square()
