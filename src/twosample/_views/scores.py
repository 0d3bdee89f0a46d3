"""Normal scores, the scale on which views see numbers, and what views make of them."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

_KNOTS = 512  # of a quantile function: more would not be seen
_REACH = 2.2  # bumps lie between minus and plus this normal score
_AT_ONCE = 2**19  # values whose scores are looked up at a time
_TAIL = 0.05  # of the values, on either side
_LEAST_SPREAD = 1e-12  # that is divided by: a constant column has none


class NormalScores(nn.Module):
    """Columns as normal scores: the quantile of a value, read from the normal law.

    Equal values get one score, that of their middle rank. Between the values of the fit the score
    is interpolated. Scores are standardised.
    """

    knots: Tensor  # (columns, K) values, increasing
    heights: Tensor  # (columns, K) their scores

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("knots", torch.empty(0, 0))
        self.register_buffer("heights", torch.empty(0, 0))

    def fit(self, rows: Tensor) -> None:
        """Learn the quantiles of the columns of (N, columns) rows."""
        columns = rows.shape[1]
        self.knots = torch.zeros(columns, _KNOTS, dtype=torch.float64)
        self.heights = torch.zeros(columns, _KNOTS, dtype=torch.float64)
        for column in range(columns):
            values, scores = _scores_of_ranks(rows[:, column])
            last = len(values) - 1
            count = min(_KNOTS, len(values))
            kept = torch.linspace(0, last, count)
            kept = kept.round().long()
            # The last value is repeated where there are fewer values than knots.
            self.knots[column] = values[last]
            self.heights[column] = scores[last]
            self.knots[column, :count] = values[kept]
            self.heights[column, :count] = scores[kept]

    def forward(self, rows: Tensor) -> Tensor:
        """(N, columns) scores."""
        # Some rows at a time: what is made on the way takes a multiple of their memory.
        columns = max(1, rows.shape[1])
        size = max(1, _AT_ONCE // columns)
        parts = [self._interpolate(part) for part in torch.split(rows, size)]
        return torch.cat(parts)

    def _interpolate(self, rows: Tensor) -> Tensor:
        values = rows.T.contiguous()  # (columns, N)
        above = torch.searchsorted(self.knots, values)
        above = above.clamp(1, _KNOTS - 1)
        below = above - 1
        low = self.knots.gather(1, below)
        high = self.knots.gather(1, above)
        low_score = self.heights.gather(1, below)
        high_score = self.heights.gather(1, above)
        # Knots that repeat the last value give 0 / 0; values beyond the ends get the scores there.
        share = (values - low) / (high - low)
        share = share.nan_to_num(1.0).clamp(0.0, 1.0)
        step = high_score - low_score
        scores = low_score + share * step
        return scores.T


def _scores_of_ranks(column: Tensor) -> tuple[Tensor, Tensor]:
    """The different values of a column, in order, and their standardised normal scores."""
    rows = len(column)
    values, counts = torch.unique(column, return_counts=True)
    last = torch.cumsum(counts, 0)
    middle = last - counts / 2  # ranks, from 0 to N
    shares = middle.double() / rows
    scores = torch.special.ndtri(shares)
    # Over rows, not over values: a value counts as often as it occurs.
    mean = (scores * counts).sum() / rows
    centred = scores - mean
    variance = (centred.square() * counts).sum() / rows
    spread = variance.sqrt().clamp_min(_LEAST_SPREAD)
    return values, centred / spread


def ranks(scores: Tensor) -> Tensor:
    """Ranks that normal scores stand for, from -1/2 to 1/2."""
    shares: Tensor = torch.special.ndtr(scores)
    return shares - 0.5


def waves(scores: Tensor) -> Tensor:
    """Sines of ranks, once round from the least value to the largest: 0 at both ends.

    Of values with tails as heavy as Cauchy's these tell best where they lie.
    """
    return torch.sin(2 * math.pi * ranks(scores))


def tail_weights(rows: Tensor) -> Tensor:
    """(columns,) how heavy tails are [Hogg1974].

    The mean of the highest 5 % of the values less that of the lowest 5 %, in terms of the same
    difference for the upper and the lower half.
    """
    in_order = rows.sort(dim=0).values
    count = len(rows)
    few = max(1, round(_TAIL * count))
    half = max(1, count // 2)
    between_tails = in_order[-few:].mean(0) - in_order[:few].mean(0)
    between_halves = in_order[-half:].mean(0) - in_order[:half].mean(0)
    return between_tails / between_halves.clamp_min(_LEAST_SPREAD)


def bumps(scores: Tensor, count: int, width: float) -> Tensor:
    """(N, columns, count) Gaussian bumps at places spread over the scores of each column."""
    places = torch.linspace(-_REACH, _REACH, count, dtype=scores.dtype)
    distances = (scores[:, :, None] - places) / width
    return torch.exp(-0.5 * distances.square())


def correlations(scores: Tensor) -> Tensor:
    """(columns, columns) absolute correlations of columns."""
    centred = scores - scores.mean(0)
    lengths = centred.norm(dim=0).clamp_min(_LEAST_SPREAD)
    unit = centred / lengths
    correlation: Tensor = unit.T @ unit
    return correlation.abs()
