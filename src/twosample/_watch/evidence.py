"""How loudly views speak for a difference, for every labelling of a batch: in closed form.

A batch s has n_s rows of X and m_s of Y. Through a view, along the eigenvectors of the pooled
covariance, with eigenvalues s_i, let

    u_i = sum over batches of sum over X of (f_i - mean of f_i in the batch),
    N   = sum over batches of n_s m_s / (n_s + m_s).

If there is no difference, u_i has the variance N s_i, nearly. If the means of X and Y are mu_i
standard deviations apart, u_i / sqrt(s_i) is nearly normal with mean N mu_i and variance N. With
mu_i drawn from a normal law of variance v_i, the likelihood ratio is

    log M = 1/2 sum_i [ v_i / (1 + N v_i) u_i^2 / s_i - log(1 + N v_i) ] + C,
    C     = 1/4 [ sum_i N v_i / (1 + N v_i) ]^2 / R.

C is there because labels are drawn without replacement from R rows: where axes are many, the sum of
all u_i^2 / s_i varies less than that of independent normal variables, and without C the mean of M
over labellings would be below 1. Views of many axes would then have less than their share.

The variances are v_i = delta^2 rho_i with sum rho_i = 1. The rho_i are proportional to
s_i / (s_i + lambda s_1): large axes count most, as in `Spectral`. delta^2 is the size of the
difference, in squared standard deviations. M is averaged over views and deltas; each kind of view
has its share.

A level of a category that only one sample has is rare, and counts of few rows are not normal. If
the odds that such a row is of X are theta times what they are for all rows, q of which are X, then

    log M = log(theta) u + T [ q log(theta) - log(1 - q + q theta) ],

where T is the number of its rows, and u the number of those in X less what is expected. This is
averaged over theta and 1 / theta.

That M is a likelihood ratio in large samples only is of no consequence: `betting` divides by the
mean over labellings, and needs no more of M than that it is positive. For the observed labelling
and for every shuffle alike, u is the sum of the past and of this batch as labelled. So every
labelling learns from all rows, and the first batch can raise an alarm already.

There is one M for each of three memories of the past: all of it, a few batches, and nothing. Each
gives an e-value, and `betting` shares the wealth among them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from .._statistics.base import Bins
from .._statistics.stacks import PreparedStack, along_axes
from .._statistics.sums import Sums
from .._views import View

FEW_SIZES = (1 / 16,)
"""delta^2 for views of few axes, where one that is far off costs less than a choice of several."""

MANY_SIZES = (1 / 2, 1 / 32)
"""delta^2 for views of many axes, each of which has to pay for itself."""

MEMORIES = (1.0, 0.8, 0.0)
"""The share of the past that is remembered one batch later: all, some batches, nothing.

A difference that was always there is found with all of the past. One that began today drowns in it.
"""

_SHARES = {
    "landmarks": 0.42,
    "together": 0.17,
    "values": 0.45,
    "shapes": 0.12,
    "marks": 0.09,
    "products": 0.14,
    "products of three": 0.03,
    "cells": 0.1,
}
"""The shares of kinds of views, which are others than in a test: single columns change most often,
and kernels and products have many bets to pay for."""

_KINDS = {"levels": "shapes"}
"""Kinds that count as another here: levels have the bets on counts besides."""

_FEW = 8  # axes
_LAMBDA = 0.05  # for views of several features: averaging over more of them costs more
_LAMBDA_OF_LANDMARKS = 0.003
_RARE = 0.1  # share of all rows up to which a level may be one that only one sample has
_ODDS = 50.0  # theta: nearly all of its rows are in one sample
_AT_ONCE = 2**22  # numbers in float64 at a time: 32 MiB
_LEAST = 1e-300  # that is divided by


class Past(NamedTuple):
    """What a stack has seen, in sums: no rows, and no more for more batches."""

    between: Tensor  # (memories, views, features) the u of all batches, in features
    some: Tensor  # (views, features) sums of features, for the covariance
    products: Tensor  # (views, features, features) of features with each other
    counted: int  # rows in the last two

    def plus(self, other: Past) -> Past:
        """The sums over the batches of both."""
        return Past(
            self.between + other.between,
            self.some + other.some,
            self.products + other.products,
            self.counted + other.counted,
        )

    def faded(self) -> Past:
        """What is left of it one batch later, in each memory."""
        return self._replace(between=_kept()[:, None, None] * self.between)


class _Now(NamedTuple):
    """The batch that is looked at."""

    weights: Tensor  # (memories,) N, this batch included
    rows: Tensor  # (memories,) R, this batch included
    share: float  # q, of X among the rows
    bins: Bins
    labellings: Tensor  # (B + 1, S) ones where bins are in X

    @classmethod
    def of(cls, weights: Tensor, bins: Bins, labellings: Tensor) -> _Now:
        n, m = bins.fixed_sizes
        share = n / (n + m)
        # Of R rows, q R are in X, so N = q (1 - q) R.
        rows = weights / (share * (1 - share))
        return cls(weights, rows, share, bins, labellings)


class _Rows(NamedTuple):
    """What some views say."""

    values: Tensor  # (memories, rows, B + 1) log M
    columns: list[tuple[int, ...]]  # that each row looks at


class Scores(NamedTuple):
    """The log M of all labellings, and which columns speak for a difference, in each memory."""

    log_scores: Tensor  # (memories, B + 1)
    columns: list[tuple[int, ...]]  # that each row looked at; none for all columns
    shares: Tensor  # (memories, rows) of the evidence in the observed labelling


def _kept() -> Tensor:
    return torch.tensor(MEMORIES, dtype=torch.float64)


def past_of(sums: Sums, sizes: Sequence[tuple[int, int]]) -> Past:
    """The sums of batches, whose X and Y are the bins 0 and 1, 2 and 3, ... of `sums`.

    The last batch is the latest.
    """
    counts = torch.tensor(sizes, dtype=torch.float64)  # (batches, 2)
    views, features = sums.some.shape
    totals = sums.totals.view(len(sizes), 2, views, features)
    share = counts[:, 0] / counts.sum(1)
    of_batches = totals.sum(1)
    expected = share[:, None, None] * of_batches
    by_batch = totals[:, 0] - expected
    between = torch.einsum("mb,bvf->mvf", _remembered(len(sizes)), by_batch)
    return Past(between, sums.some, sums.products, sums.counted)


def past_of_batch(sums: Sums, bins: Bins, in_x: Tensor) -> Past:
    """The sums of a batch over its bins, with (S,) ones for those in X."""
    between = torch.einsum("s,svf->vf", in_x, _about_cells(sums.totals, bins))
    in_all = between.expand(len(MEMORIES), *between.shape)
    return Past(in_all, sums.some, sums.products, sums.counted)


def _about_cells(totals: Tensor, bins: Bins) -> Tensor:
    """(S, views, features) sums over bins of features less the means of their cells.

    Without strata the batch is one cell. With them, a stratum of which X has more makes no
    difference.
    """
    cells = torch.zeros(bins.count, dtype=torch.int64) if bins.cells is None else bins.cells
    count = int(cells.max()) + 1
    rows = torch.zeros(count, dtype=torch.float64).index_add_(0, cells, bins.sizes)
    sums = torch.zeros(count, *totals.shape[1:], dtype=torch.float64).index_add_(0, cells, totals)
    means = sums / rows.clamp_min(1)[:, None, None]
    return totals - bins.sizes[:, None, None] * means[cells]


def weights_of(sizes: Sequence[tuple[int, int]]) -> Tensor:
    """(memories,) N: how many rows of each sample batches of these sizes are worth."""
    rows = torch.tensor([n * m / (n + m) for n, m in sizes], dtype=torch.float64)
    return _remembered(len(sizes)) @ rows


def weights_after(weights: Tensor, sizes: tuple[int, int]) -> Tensor:
    """(memories,) N after another batch."""
    return _kept() * weights + weights_of([sizes])


def _remembered(batches: int) -> Tensor:
    """(memories, batches) the share of each batch that is remembered after the last of them."""
    ages = torch.arange(batches - 1, -1, -1, dtype=torch.float64)
    return _kept()[:, None] ** ages


def scores(
    stacks: Sequence[View],
    batch: Sequence[Sums],
    past: Sequence[Past] | None,
    weights: Tensor,
    bins: Bins,
    labellings: Tensor,
) -> Scores:
    """The log M of the (B + 1, S) labellings of a batch, given the sums of the past.

    Parameters
    ----------
    stacks, batch, past
        The views, their sums over the bins of this batch, and those of all batches before it.
    weights
        (memories,) N, this batch included.
    bins, labellings
        How the batch is cut into bins, and ones where bins are in X.
    """
    now = _Now.of(weights, bins, labellings)
    found = []
    kinds: list[str] = []
    shares: dict[str, float] = {}
    for number, (stack, sums) in enumerate(zip(stacks, batch, strict=True)):
        if not sums.totals.numel():  # no column is of the kind that it looks at
            continue
        known = None if past is None else past[number]
        if stack.are_counts:
            rows = _rows_of_counts(stack, sums, known, now)
        else:
            prepared = _prepared(stack, number, sums, known, bins)
            rows = _rows_of_means(prepared, known, now)
        if rows.columns:
            found.append(rows)
            kind = _KINDS.get(stack.kind, stack.kind)
            kinds += [kind] * len(rows.columns)
            shares[kind] = _SHARES.get(kind, stack.weight)
    if not found:  # all rows are equal, so all labellings are
        even = torch.zeros(len(MEMORIES), len(labellings), dtype=torch.float64)
        return Scores(even, [], torch.zeros(len(MEMORIES), 0, dtype=torch.float64))
    log_shares = _log_shares(kinds, shares)
    values = torch.cat([rows.values for rows in found], 1)
    columns = [looked_at for rows in found for looked_at in rows.columns]
    weighted = values + log_shares[:, None]  # (memories, rows, B + 1)
    log_scores = torch.logsumexp(weighted, 1)
    of_rows = torch.softmax(weighted[:, :, 0], 1)
    return Scores(log_scores, columns, of_rows)


def _prepared(stack: View, number: int, sums: Sums, past: Past | None, bins: Bins) -> PreparedStack:
    """The sums over bins along the axes of the covariance of the past and of this batch."""
    totals = sums.totals.clone()  # `along_axes` centres in place
    with_past = Sums(totals, sums.some, sums.products, sums.counted)
    if past is not None:
        with_past = Sums(
            totals,
            sums.some + past.some,
            sums.products + past.products,
            sums.counted + past.counted,
        )
    prepared = along_axes(stack, number, with_past, bins, (_LAMBDA_OF_LANDMARKS,))
    if bins.cells is None:
        return prepared
    return replace(prepared, totals=_about_cells(prepared.totals, bins))


def _rows_of_means(prepared: PreparedStack, past: Past | None, now: _Now) -> _Rows:
    """The log M of each view and each size of a difference."""
    variances = _variances(prepared)  # (views, K, axes)
    views, candidates, axes = variances.shape
    is_axis = prepared.weights.gt(0).any(1)
    spectrum = prepared.spectrum.clamp_min(_LEAST)
    precision = torch.where(is_axis, 1 / spectrum, 0.0)
    before = torch.zeros(len(MEMORIES), views, axes, dtype=torch.float64)
    if past is not None:
        before = torch.einsum("mvf,vfa->mva", past.between, prepared.axes)
    weighted = now.weights[:, None, None, None] * variances  # (memories, views, K, axes)
    gain = variances / (1 + weighted) * precision[:, None] / 2
    cost = torch.log1p(weighted).sum(3) / 2
    freedom = (weighted / (1 + weighted)).sum(3)
    constant = freedom.square() / now.rows[:, None, None] / 4 - cost
    totals = prepared.totals.flatten(1)
    at_once = max(1, _AT_ONCE // before.numel())
    parts = []
    for some in torch.split(now.labellings, at_once):
        along = (some @ totals).view(-1, views, axes)
        squares = (along + before[:, None]).square()  # (memories, b, views, axes)
        parts.append(torch.einsum("mbva,mvka->mvkb", squares, gain))
    values = torch.cat(parts, 3) + constant[:, :, :, None]
    # A view that is constant, of missing values where none are, has nothing to say. It would only
    # take from the share of the others.
    varies = is_axis.any(1)
    columns = []
    for looked_at, is_varying in zip(prepared.columns, varies.tolist(), strict=True):
        if is_varying:
            columns += [looked_at] * candidates
    return _Rows(values[:, varies].flatten(1, 2), columns)


def _rows_of_counts(stack: View, sums: Sums, past: Past | None, now: _Now) -> _Rows:
    """The log M of each level that is rare: are all of its rows in one sample?"""
    some = sums.some[:, 0]
    counted = sums.counted
    if past is not None:
        some = some + past.some[:, 0]
        counted += past.counted
    shares = some / max(1, counted)
    is_rare = (shares > 0) & (shares <= _RARE)
    totals = _about_cells(sums.totals, now.bins)[:, is_rare, 0]
    surplus = (now.labellings @ totals).T  # (rows, B + 1) u
    if past is not None:
        surplus = surplus + past.between[:, is_rare]  # in each memory
    surplus = surplus.expand(len(MEMORIES), -1, -1)
    counts = now.rows[:, None] * shares[is_rare]  # (memories, rows) T
    log_odds = math.log(_ODDS)
    both = []
    for sign in (1, -1):
        tilt = sign * log_odds
        constant = now.share * tilt - math.log1p(now.share * math.expm1(tilt))
        both.append(tilt * surplus + constant * counts[:, :, None])
    values = torch.logaddexp(*both) - math.log(2)
    columns = stack.columns()
    return _Rows(values, [columns[place] for place in is_rare.nonzero().flatten().tolist()])


def _variances(prepared: PreparedStack) -> Tensor:
    """(views, K, axes) the v_i of every delta^2."""
    spectrum = prepared.spectrum
    is_axis = prepared.weights.gt(0).any(1)
    first = spectrum[:, :1]
    axes = spectrum.shape[1]
    sizes = MANY_SIZES if axes > _FEW else FEW_SIZES
    # Views that have no lambdas of their own, landmarks above all, have been given this one.
    is_given = prepared.regularisation == (_LAMBDA_OF_LANDMARKS,)
    ridge = _LAMBDA_OF_LANDMARKS if is_given else _LAMBDA
    shrunk = spectrum / (spectrum + ridge * first).clamp_min(_LEAST)
    shares = torch.where(is_axis, shrunk, 0.0)
    shares = shares / shares.sum(1, keepdim=True).clamp_min(_LEAST)
    return torch.stack([size * shares for size in sizes], 1)


def _log_shares(kinds: Sequence[str], shares: dict[str, float]) -> Tensor:
    """(rows,) the logarithms of what each row counts: kinds have shares, and rows divide them."""
    total = sum(shares.values())
    rows = {kind: kinds.count(kind) for kind in shares}
    of_kind = {kind: math.log(shares[kind] / total / rows[kind]) for kind in shares}
    return torch.tensor([of_kind[kind] for kind in kinds], dtype=torch.float64)
