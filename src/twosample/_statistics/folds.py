"""Scores of points by a witness that has not seen their labels: learned on the other folds."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

FOLDS = 5
"""In how many parts points are cut; each is scored by a witness of the others."""


class CrossFitted(NamedTuple):
    """What witnesses of the other folds say of every point."""

    scores: Tensor  # (n + m,) above 0 where a point looks like one of X
    folds: Tensor  # (n + m,) scores are comparable within a fold only; -1 has none
    noise: float
    """Which share of the squared witness is chance: 1 without a difference, 0 with a large one."""


def folds_of(n: int, m: int) -> Tensor:
    """(n + m,) the fold of each point: as many of X, and as many of Y, in each."""
    # Each has two of either sample at least, or they would have no spread.
    count = max(2, min(FOLDS, n // 2, m // 2))
    # Drawn, because rows of a table may be in an order; fixed, so that an effect is one number.
    generator = torch.Generator().manual_seed(0)
    of_x = torch.randperm(n, generator=generator) % count
    of_y = torch.randperm(m, generator=generator) % count
    return torch.cat([of_x, of_y])


def noise_share(seen: float, unseen: float) -> float:
    """From the distance of mean scores on points that a witness was learned on, and on others.

    On its own points a witness has the square of what is there and of what chance added. On others
    it has the first alone.
    """
    if not seen > 0:
        return 1.0
    return min(1.0, max(0.0, 1 - unseen / seen))


def distance(scores: Tensor, is_x: Tensor) -> float:
    """The mean score of X less that of Y."""
    return float(scores[is_x].mean() - scores[~is_x].mean())


def best_cut(scores: Tensor, is_x: Tensor) -> float:
    """Where to cut scores so that most of X lie above and most of Y below, both weighing the same.

    The cut is the middle of the two scores on either side of the best place.
    """
    order = torch.argsort(scores)
    ordered = scores[order]
    n = int(is_x.sum())
    m = len(scores) - n
    steps = torch.where(is_x[order], -1 / n, 1 / m)  # what lies below counts for Y
    gained = steps.double().cumsum(0)[:-1]
    # Between equal scores there is no place for a cut.
    apart = ordered[1:] > ordered[:-1]
    gained = torch.where(apart, gained, -math.inf)
    if not bool(apart.any()):
        return float(ordered[0])
    place = int(gained.argmax())
    return float(ordered[place] + ordered[place + 1]) / 2
