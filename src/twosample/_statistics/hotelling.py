"""Hotelling's T^2 of the features of two samples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import scipy  # which imports its parts, such as scipy.stats, when they are used
import torch
from torch import Tensor, nn

from .._data.samples import EmbeddedSamples
from .._eigen import eigh
from .._estimators import t2_from_whitened
from .._kernels import Embedding, Kernel
from .._products import Embedded
from .._result import Effect
from ..errors import IncompatibleParts, InputError, warn
from .base import Bins, Law, Statistic, sums_over

# Eigenvalues of a scatter, relative to the largest; features in float32 carry errors of 1e-12.
_SINGULAR = 1e-10
_RIDGE = 1e-8


@dataclass(frozen=True, eq=False)
class PreparedT2:
    """All that T^2 needs: sums over bins of features that a total scatter has made white."""

    bins: Bins
    sizes: tuple[int, int]
    totals: Tensor  # (S, p), or for pairs (moving_x + 1, p), the last for the pairs that stay
    features: tuple[Tensor, Tensor]  # of X and of Y, as the map gives them
    resolution: float


@dataclass(frozen=True)
class HotellingT2(Statistic):
    """Hotelling's T^2: the squared distance of two means in units of its own spread.

    With n and m points of features f, d = mean f(X) - mean f(Y) and S the pooled covariance,

        T^2 = n m / (n + m) d' S^-1 d.

    A shuffle changes S, but not the total scatter of the pooled features, of which T^2 is a
    function together with d: one factorisation serves all shuffles. Its law tends to chi-squared
    with one degree of freedom a feature.

    Parameters
    ----------
    paired
        n zbar' S^-1 zbar of the differences z_i = f(X_i) - f(Y_i), as published [Jitkrittum2016]:
        equal sizes only.
    """

    paired: bool = False

    symbol = "T²"
    paired_form = "HotellingT2(paired=True)"

    @property
    def takes_units(self) -> bool:  # type: ignore[override]
        return not self.paired

    @property
    def shuffled_by(self) -> tuple[str, ...]:
        return ("swaps",) if self.paired else ("permutations",)

    def check(self, representation: nn.Module) -> None:
        if isinstance(representation, Kernel):
            raise IncompatibleParts(
                f"{self!r} takes a map from points to features, but the representation is a "
                f"kernel. Use MeanEmbedding(kernel={type(representation).__name__}(...)), or MMD()."
            )
        if isinstance(representation, Embedding):
            raise IncompatibleParts(
                f"{self!r} takes a map from points to features, but the representation is a "
                f"{type(representation).__name__}, which has none. Use Fused(MMD())."
            )

    def check_law(self, representation: nn.Module) -> None:
        """It is chi-squared, whatever the features are."""

    def law(self, prepared: PreparedT2) -> Law:
        """Chi-squared with one degree of freedom a feature."""
        degrees = prepared.totals.shape[1]
        law = scipy.stats.chi2(degrees)
        return Law(
            lambda value: float(law.sf(value)),
            lambda alpha: float(law.isf(alpha)),
            f"chi-squared law with {degrees} degrees of freedom",
        )

    def prepare(
        self,
        representation: nn.Module,
        points: EmbeddedSamples,
        bins: Bins,
        generator: torch.Generator,
    ) -> PreparedT2:
        n, m = points.sizes
        if self.paired and n != m:
            raise InputError(
                f"the paired T^2 needs samples of one size, not {n} and {m}; use HotellingT2()."
            )
        (features,) = points.parts
        eps = torch.finfo(features.dtype).eps
        f = features.double().cpu()  # (n + m, p)
        f_x = f[:n]
        f_y = f[n:]
        p = f.shape[1]
        # A covariance of p features is singular with fewer degrees of freedom than p.
        degrees = n - 1 if self.paired else n + m - 1 - bins.cell_count
        if degrees < p:
            raise InputError(
                f"{n} and {m} points are too few for {p} features; use more points or "
                "fewer features."
            )
        if self.paired:
            white, smallest = _whitened(f_x - f_y)
            totals = _sums_over_pairs(bins, white)
        else:
            # With several cells, what is about their means is all that a shuffle changes.
            white, smallest = _whitened(bins.about_cells(f))
            totals = sums_over(bins, white)
        # Duplicates that trade places may differ by the rounding of their features, which the
        # whitening magnifies.
        tiny = torch.finfo(torch.float64).tiny
        of_a_feature = 8 * eps * float(f.abs().max())
        magnified = of_a_feature / max(smallest, tiny) ** 0.5
        return PreparedT2(
            bins=bins,
            sizes=(n, m),
            totals=totals,
            features=(f_x, f_y),
            resolution=magnified * math.sqrt(p),
        )

    def evaluate(self, prepared: PreparedT2, shuffles: Tensor) -> Tensor:
        n, m = prepared.sizes
        bins = prepared.bins
        totals = prepared.totals
        in_x = bins.in_x(shuffles)
        if bins.cells is not None:
            weights = bins.contrast(in_x)
            squares = weights.square() @ bins.sizes
            share = (weights @ totals).square().sum(1) / squares
            return t2_from_whitened(share, n + m - 1 - bins.cell_count)
        if self.paired:
            moved = bins.signs(shuffles) @ totals[:-1]
            of_pairs = moved + totals[-1]  # (B, p)
            share = of_pairs.square().sum(1) / n
            return t2_from_whitened(share, n - 1)
        # The totals of all bins sum to 0, so those of Y are those of X with the other sign.
        of_x = in_x @ totals  # (B, p)
        n_each, m_each = bins.sizes_in(in_x)
        share = of_x.square().sum(1) * (1 / n_each + 1 / m_each)
        return t2_from_whitened(share, n + m - 2)

    def effect(self, prepared: PreparedT2, observed: float, threshold: float) -> Effect:
        """The estimated power, by the noncentral chi-squared law."""
        degrees = prepared.totals.shape[1]
        # Not by `scipy.stats.ncx2`, which takes a second to import.
        noncentrality = max(0.0, observed - degrees)  # the mean of T^2 is about their sum
        below = scipy.special.chndtr(threshold, degrees, noncentrality)
        return Effect(power=float(1 - below))

    def contributions(
        self,
        representation: nn.Module,
        points: EmbeddedSamples,
        prepared: Any,
        value: float,
    ) -> tuple[Tensor, Tensor]:
        """The discriminant of each point, times what makes its means add up to T^2."""
        n, m = points.sizes
        (features,) = points.parts
        f = features.double().cpu()
        scores = self._discriminant(f, n, m, value)
        factor = self._factor(n, m)
        at_x = factor * scores[:n]
        at_y = -factor * scores[n:]
        return at_x, at_y

    def witness(
        self,
        representation: nn.Module,
        z: Embedded,
        n: int,
        m: int,
        value: float,
        memory: int,
    ) -> Tensor:
        f = z[0].double().cpu()
        scores = self._discriminant(f, n, m, value)
        return scores[n + m :]

    def _factor(self, n: int, m: int) -> float:
        """T^2 over d' S^-1 d."""
        return n if self.paired else n * m / (n + m)

    def _discriminant(
        self,
        f: Tensor,
        n: int,
        m: int,
        value: float,
    ) -> Tensor:
        """The scores d' S^-1 (f - midpoint) for features of X, then Y, then any others.

        `value` is T^2 of X and Y.
        """
        of_x = f[:n]
        of_y = f[n : n + m]
        mean_x = of_x.mean(0)
        mean_y = of_y.mean(0)
        d = mean_x - mean_y
        midpoint = (mean_x + mean_y) / 2
        if self.paired:
            rows = of_x - of_y
        else:
            both = f[: n + m]
            rows = both - both.mean(0)
        # The total scatter in the place of S: they differ by a multiple of d d', which leaves the
        # direction as it is.
        values, vectors = eigh(rows.T @ rows)
        floor = max(float(values[-1]) * _RIDGE, 1e-300)
        inverses = 1 / values.clamp_min(floor)
        along = vectors.T @ d
        direction = vectors @ (inverses * along)
        # Its length is what makes d' S^-1 d the T^2 that was observed.
        wanted = value / self._factor(n, m)
        length = wanted / max(float(d @ direction), 1e-300)
        scores: Tensor = (f - midpoint) @ direction * length
        return scores


def _sums_over_pairs(bins: Bins, differences: Tensor) -> Tensor:
    """(moving_x + 1, p) sums over bins of pairs, the last for the pairs that stay in place."""
    places = bins.members(0, bins.moving_x)  # (moving_x, size)
    moving = differences[places].sum(1)
    staying = differences.sum(0) - moving.sum(0)
    return torch.cat([moving, staying[None]])


def _whitened(rows: Tensor) -> tuple[Tensor, float]:
    """Rows whose sum of squares and products is the identity, and its smallest eigenvalue before.

    A scatter that is nearly singular gets a ridge, which no shuffle changes either, and a warning.
    """
    scatter = rows.T @ rows
    # `eigh` would answer with an error of its own, or with NaN.
    if not bool(torch.isfinite(scatter).all()):
        raise InputError(
            "the features of the points to test are not finite numbers; look for extreme values in "
            "the data, or use wider locations or frequencies."
        )
    values, vectors = eigh(scatter)
    smallest = float(values[0])
    largest = float(values[-1])
    if smallest <= _SINGULAR * largest:
        warn(
            "the features of the points to test are nearly dependent (eigenvalues from "
            f"{smallest:.2g} to {largest:.2g}), so a ridge of {_RIDGE:g} of the largest "
            "is added; use fewer locations or frequencies."
        )
        ridge = max(_RIDGE * largest, torch.finfo(torch.float64).tiny)
        values = values.clamp_min(0) + ridge
    white = rows @ vectors / values.sqrt()
    return white, float(values[0])
