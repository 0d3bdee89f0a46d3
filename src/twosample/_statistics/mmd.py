"""The squared maximum mean discrepancy over all pairs of points."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, get_args

import torch
from torch import Tensor, nn

from .._data.samples import EmbeddedSamples
from .._estimators import (
    REGULARISER,
    area_under_curve,
    asymptotic_power,
    balanced_accuracy,
    mmd2_biased,
    mmd2_paired,
    mmd2_unbiased,
    power_criterion,
    two_binomials,
    variance_unpaired,
)
from .._kernels import Kernel
from .._products import (
    Embedded,
    accumulator,
    block_and_row_sums,
    block_sums,
    cross_sums,
    rows_of,
)
from .._result import Effect
from ..errors import IncompatibleParts, InputError
from .base import Bins, Law, PairEstimator, Statistic, sums_over
from .planting import Planted

Alternative = Literal["two-sided", "greater"]


class SumsOverBins(Protocol):
    """Sums of kernel values from which an MMD takes what it needs."""

    def of_pairs(self, in_x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B,) sums over XX and YY (i != j) and XY, for (B, count) ones where bins are in X."""


@dataclass(frozen=True, eq=False)
class PairSums:
    """Sums over pairs of bins, for a kernel that has values for pairs of points only."""

    sums: Tensor  # (S, S) without the terms k(z_i, z_i)

    def of_pairs(self, in_x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with_x = in_x @ self.sums  # (B, S) sums of each bin with X
        xx = (with_x * in_x).sum(1)
        xy = with_x.sum(1) - xx
        # The matrix is symmetric, so XY stands in it twice, and what is left is YY.
        yy = self.sums.sum() - xx - 2 * xy
        return xx, yy, xy

    def quadratic(self, weights: Tensor) -> Tensor:
        """(B,) sums of a_i a_j k(z_i, z_j), i != j, with these (B, S) weights a."""
        return ((weights @ self.sums) * weights).sum(1)

    def squares(self) -> Tensor:
        """(S,) the same for each bin by itself."""
        return self.sums.diagonal()


@dataclass(frozen=True, eq=False)
class FeatureSums:
    """Sums of features over bins, for a kernel that is the inner product of few features."""

    totals: Tensor  # (S, p)
    own: Tensor  # (S,) sums of the terms k(z_i, z_i)

    def of_pairs(self, in_x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        of_x = in_x @ self.totals  # (B, p)
        of_y = self.totals.sum(0) - of_x
        own_x = in_x @ self.own
        own_y = self.own.sum() - own_x
        # The square of a sum of features has the terms i = j in it, which do not count here.
        xx = of_x.square().sum(1) - own_x
        yy = of_y.square().sum(1) - own_y
        xy = (of_x * of_y).sum(1)
        return xx, yy, xy

    def difference_of_means(self, in_x: Tensor, n: Tensor, m: Tensor) -> Tensor:
        """(B, p) mean features of X less those of Y, for (B,) sizes."""
        of_x = in_x @ self.totals
        of_y = self.totals.sum(0) - of_x
        return of_x / n[:, None] - of_y / m[:, None]

    def quadratic(self, weights: Tensor) -> Tensor:
        """(B,) squares of the sums of features with these (B, S) weights."""
        return (weights @ self.totals).square().sum(1)

    def squares(self) -> Tensor:
        """(S,) the same for each bin by itself."""
        return self.totals.square().sum(1)


@dataclass(frozen=True, eq=False)
class PairedDiagonal:
    """Sums of the terms k(X_i, Y_i), which the paired estimator leaves out."""

    sums: Tensor  # (moving, moving) over t of k(t-th point of one bin, t-th point of another)
    fixed: float  # over the pairs that stay in place

    def of(self, shuffles: Tensor) -> Tensor:
        """(B,) sums, for (B, moving) shuffles of bins."""
        half = shuffles.shape[1] // 2
        into_x = shuffles[:, :half]
        into_y = shuffles[:, half:]
        return self.sums[into_x, into_y].sum(1) + self.fixed


@dataclass(frozen=True, eq=False)
class PreparedMMD:
    """All that an MMD needs of the data."""

    bins: Bins
    sizes: tuple[int, int]
    sums: PairSums | FeatureSums
    own: Tensor  # (S,) sums of the terms k(z_i, z_i)
    diagonal: PairedDiagonal | None  # for the paired estimator only
    witness: tuple[Tensor, Tensor]  # w at the points of X and of Y, in the observed labelling
    scores: tuple[Tensor, Tensor] | None  # of a classifier, where the kernel sees points so
    resolution: float

    def within_cells(self, in_x: Tensor) -> Tensor:
        """(B,) the squared difference of X and Y within cells, for (B, S) ones where bins are in X.

        a' K a, with the weights a of `Bins.contrast`.
        """
        weights = self.bins.contrast(in_x)
        value = self.sums.quadratic(weights)
        if isinstance(self.sums, PairSums):
            value = value + weights.square() @ self.own
        return value

    def between(self, in_x: Tensor, observed: Tensor) -> Tensor:
        """(B,) inner products of differences within cells, a' K b, with b of (S,) observed bins."""
        weights = self.bins.contrast(in_x)
        other = self.bins.contrast(observed[None])[0]
        if isinstance(self.sums, FeatureSums):
            return (weights @ self.sums.totals) @ (other @ self.sums.totals)
        return weights @ (self.sums.sums @ other + self.own * other)

    @cached_property
    def excess(self) -> float:
        """What `within_cells` is on average over the moves, if all bins of a cell are alike.

        Of a cell with k moving bins, of which a share p is in X, whose sums of features are t_u, it
        is p (1 - p) k / (k - 1) sum_u |t_u - mean t|^2, over the square of the sum of the weights
        p (1 - p) n_c of all cells. No shuffle changes it.
        """
        bins = self.bins
        if bins.cells is None:
            return 0.0
        moving = torch.arange(bins.moving)
        cells = bins.cells[moving]
        count = int(bins.cells.max()) + 1
        k = torch.bincount(cells, minlength=count).double()
        in_x = torch.bincount(cells[: bins.moving_x], minlength=count).double()
        share = in_x / k.clamp_min(1)
        spread = share * (1 - share) * k / (k - 1).clamp_min(1)
        points = torch.zeros(count, dtype=torch.float64).index_add_(0, bins.cells, bins.sizes)
        total = (share * (1 - share) * points).sum()
        # sum_u |t_u|^2 - |sum_u t_u|^2 / k of each cell, in inner products of bins.
        member = torch.zeros(count, bins.count, dtype=torch.float64)
        member[cells, moving] = 1.0
        sums = self.sums.quadratic(member)
        each = self.sums.squares()
        if isinstance(self.sums, PairSums):
            sums = sums + member @ self.own
            each = each + self.own
        scatter = member @ each - sums / k.clamp_min(1)
        return float((spread * scatter).sum() / total.square())


@dataclass(frozen=True, init=False)
class MMD(Statistic):
    """The squared maximum mean discrepancy, over all pairs of points.

    Parameters
    ----------
    estimator
        "unbiased": any sizes, may be negative. "biased": that of the empirical distributions.
        "paired": the U-statistic of [Liu2020], equal sizes only, which leaves out the terms
        k(X_i, Y_i). The older spellings "block" and "compressed" give a `BlockMMD` and a
        `CompressedMMD`.
    alternative
        "greater", for the one score of a classifier: the sign of mean score of X - mean score of Y
        is kept, so that only a classifier that is right more often than not speaks against P = Q.
    """

    estimator: PairEstimator = "unbiased"
    alternative: Alternative = "two-sided"

    symbol = "MMD²"

    def __new__(
        cls,
        estimator: str = "unbiased",
        alternative: str = "two-sided",
        *,
        block_size: int | None = None,
        landmarks: int | None = None,
    ) -> Any:
        """An `MMD`, or for the older spellings the statistic that has taken their place."""
        from .block import BlockMMD
        from .compressed import CompressedMMD

        if block_size is not None and estimator != "block":
            raise IncompatibleParts(f"MMD({estimator!r}) has no blocks. Use BlockMMD(block_size).")
        if landmarks is not None and estimator != "compressed":
            raise IncompatibleParts(
                f"MMD({estimator!r}) has no landmarks. Use CompressedMMD(landmarks)."
            )
        if estimator in ("block", "compressed") and alternative != "two-sided":
            _check_alternative(estimator, alternative)
        if estimator == "block":
            return BlockMMD(block_size)
        if estimator == "compressed":
            return CompressedMMD(landmarks)
        return super().__new__(cls)

    def __init__(
        self,
        estimator: str = "unbiased",
        alternative: str = "two-sided",
        *,
        block_size: int | None = None,
        landmarks: int | None = None,
    ) -> None:
        # `block_size` and `landmarks` belong to older spellings, which `__new__` has answered.
        object.__setattr__(self, "estimator", estimator)
        object.__setattr__(self, "alternative", alternative)
        if self.estimator not in get_args(PairEstimator):
            raise IncompatibleParts(
                f"MMD({self.estimator!r}) does not exist; use one of "
                f"{', '.join(get_args(PairEstimator))}, or BlockMMD() or CompressedMMD()."
            )
        _check_alternative(self.estimator, self.alternative)

    def __repr__(self) -> str:
        if self.alternative == "two-sided":
            return f"MMD({self.estimator!r})"
        return f"MMD({self.estimator!r}, alternative={self.alternative!r})"

    @property
    def shuffled_by(self) -> tuple[str, ...]:
        # A swap of pairs leaves out k(X_i, Y_i) in one sample and counts it in the other, so the
        # unbiased estimator is no sum over pairs.
        return ("permutations",) if self.estimator == "unbiased" else ("permutations", "swaps")

    @property
    def takes_units(self) -> bool:  # type: ignore[override]
        return self.estimator != "paired"

    @property
    def depends_on_order(self) -> bool:
        return self.estimator == "paired"

    @property
    def pair_estimator(self) -> PairEstimator | None:
        return self.estimator if self.alternative == "two-sided" else None

    @property
    def is_nonnegative(self) -> bool:
        return self.estimator == "biased" and self.alternative == "two-sided"

    @property
    def limit_shift(self) -> float | None:  # type: ignore[override]
        if self.alternative == "greater":
            return None
        # The biased estimator keeps the terms k(z, z), whose mean the others are free of.
        return 0.0 if self.estimator == "biased" else 1.0

    def check(self, representation: nn.Module) -> None:
        kernel = check_kernel(self, representation)
        if self.alternative == "greater" and not kernel.is_inner_product:
            raise IncompatibleParts(
                "alternative='greater' takes the one score of a classifier, which "
                f"{representation!r} does not have. Use OnFeatures(Classifier(), Linear()), or "
                "leave alternative out."
            )

    def check_law(self, representation: nn.Module) -> None:
        decides = isinstance(representation, Kernel) and representation.decides
        if not (self.estimator == "biased" and decides):
            super().check_law(representation)

    def law(self, prepared: PreparedMMD) -> Law:
        """The binomial law of an accuracy."""
        if prepared.scores is None:
            raise InputError(
                "the binomial law is that of one score, and this kernel sees points through "
                "several."
            )
        survival, threshold = two_binomials(
            *prepared.sizes, two_sided=self.alternative == "two-sided"
        )

        # The statistic is the square of the difference of the shares of positive scores, with its
        # sign if the alternative is "greater".
        def survival_of_square(value: float) -> float:
            return survival(math.copysign(math.sqrt(abs(value)), value))

        def threshold_of_square(alpha: float) -> float:
            difference = threshold(alpha)
            return difference * abs(difference)

        return Law(survival_of_square, threshold_of_square, "binomial law of the accuracy")

    def prepare(
        self,
        representation: Kernel,
        points: EmbeddedSamples,
        bins: Bins,
        generator: torch.Generator,
    ) -> PreparedMMD:
        n, m = points.sizes
        if self.estimator == "paired" and n != m:
            raise InputError(
                f"MMD('paired') needs samples of one size, not {n} and {m}; use MMD('unbiased')."
            )
        with torch.no_grad():
            z = points.parts
            dtype = z[0].dtype
            columns = z[0].shape[1]
            smaller = min(n, m)
            own = representation.pairs(z, z).double().cpu()  # (n + m,) k(z_i, z_i)
            features = representation.features(z)
            scores = None
            sums: PairSums | FeatureSums
            if features is None:
                sums, witness = _pair_sums(representation, points, bins, own, generator)
                resolution = _resolution_of_pairs(sums, own, dtype, smaller)
            else:
                features = features.double().cpu()
                sums = FeatureSums(sums_over(bins, features), sums_over(bins, own))
                difference = features[:n].mean(0) - features[n:].mean(0)
                witness = features @ difference
                resolution = _resolution_of_features(features, own, dtype, smaller)
                if columns == 1:
                    scores = z[0][:, 0].double().cpu()
            if self.alternative == "greater" and scores is None:
                raise IncompatibleParts(
                    f"alternative='greater' takes one score, but {representation!r} sees "
                    f"{columns} features. Use OnFeatures(Classifier(network), Linear())."
                )
            diagonal = None
            if self.estimator == "paired":
                diagonal = _paired_diagonal(representation, points, bins)
        return PreparedMMD(
            bins=bins,
            sizes=(n, m),
            sums=sums,
            own=sums_over(bins, own),
            diagonal=diagonal,
            witness=(witness[:n], witness[n:]),
            scores=None if scores is None else (scores[:n], scores[n:]),
            resolution=resolution,
        )

    def evaluate(self, prepared: PreparedMMD, shuffles: Tensor) -> Tensor:
        bins = prepared.bins
        in_x = bins.in_x(shuffles)
        n, m = bins.sizes_in(in_x)
        if self.alternative == "greater" and isinstance(prepared.sums, FeatureSums):
            # The one feature grows with the score, so the difference of its means has the right
            # sign.
            if bins.cells is None:
                difference = prepared.sums.difference_of_means(in_x, n, m)[:, 0]
            else:
                difference = (bins.contrast(in_x) @ prepared.sums.totals)[:, 0]
            return difference * difference.abs()
        if bins.cells is not None:
            value = prepared.within_cells(in_x)
            return value if self.estimator == "biased" else value - prepared.excess
        xx, yy, xy = prepared.sums.of_pairs(in_x)
        if prepared.diagonal is not None:
            return mmd2_paired(xx, yy, xy, prepared.diagonal.of(shuffles), len(bins.of_x))
        if self.estimator == "unbiased":
            return mmd2_unbiased(xx, yy, xy, n, m)
        own_x = in_x @ prepared.own
        own_y = prepared.own.sum() - own_x
        return mmd2_biased(xx + own_x, yy + own_y, xy, n, m)

    def planted(self, prepared: PreparedMMD, shuffles: Tensor) -> Planted | None:
        bins = prepared.bins
        if bins.cells is None or self.alternative != "two-sided":
            return None  # all points or units may change places, for which there is a formula
        in_x = bins.in_x(shuffles)
        observed = bins.in_x(torch.arange(bins.moving)[None])
        noise = prepared.within_cells(in_x)[None]
        value = prepared.within_cells(observed)[None]
        cross = prepared.between(in_x, observed[0])[None]
        return Planted.of_one(value, cross, noise)

    def effect(self, prepared: PreparedMMD, observed: float, threshold: float) -> Effect:
        """MMD, J and estimated power; accuracy and AUC for the scores of a classifier."""
        accuracy = None
        auc = None
        if prepared.scores is not None:
            accuracy = balanced_accuracy(*prepared.scores)
            auc = area_under_curve(*prepared.scores)
        return effect_from_witness(
            prepared.witness, observed, threshold, accuracy=accuracy, auc=auc
        )

    def contributions(
        self,
        representation: Kernel,
        points: EmbeddedSamples,
        prepared: Any,
        value: float,
    ) -> tuple[Tensor, Tensor]:
        """Of each point its mean kernel value with its own sample less that with the other."""
        n, m = points.sizes
        z = points.parts
        is_y = torch.arange(n + m) >= n
        weights = torch.stack([~is_y, is_y], 1).float()
        # (N, 2): for each point its sums with the other points of X and of Y
        _, rows = block_and_row_sums(
            representation,
            z,
            is_y.long(),
            weights,
            diagonal=False,
            resources=points.resources.quiet(),
        )
        rows = rows.double().cpu()
        x_with_x, x_with_y = rows[:n].T
        y_with_x, y_with_y = rows[n:].T
        if self.estimator == "biased":
            own = representation.pairs(z, z).double().cpu()
            at_x = (x_with_x + own[:n]) / n - x_with_y / m
            at_y = (y_with_y + own[n:]) / m - y_with_x / n
        elif self.estimator == "unbiased":
            at_x = x_with_x / (n - 1) - x_with_y / m
            at_y = y_with_y / (m - 1) - y_with_x / n
        else:
            of_x = rows_of(z, slice(0, n))
            of_y = rows_of(z, slice(n, None))
            pairs = representation.pairs(of_x, of_y).double().cpu()  # they do not count
            at_x = (x_with_x - (x_with_y - pairs)) / (n - 1)
            at_y = (y_with_y - (y_with_x - pairs)) / (n - 1)
        if representation.features(z) is not None:
            at_x, at_y = about_the_middle(at_x, at_y)
        if self.alternative == "greater" and value < 0:
            return -at_x, -at_y
        return at_x, at_y

    def witness(
        self,
        representation: Kernel,
        z: Embedded,
        n: int,
        m: int,
        value: float,
        memory: int,
    ) -> Tensor:
        return kernel_witness(representation, z, n, m, memory)


def _check_alternative(estimator: str, alternative: str) -> None:
    if alternative not in get_args(Alternative):
        raise IncompatibleParts(
            f"alternative is {alternative!r}; it must be 'two-sided' or 'greater'."
        )
    if alternative == "greater" and estimator != "biased":
        raise IncompatibleParts(
            "alternative='greater' keeps the sign of a difference of means, which "
            f"MMD({estimator!r}) is not the square of. Use MMD('biased', alternative='greater')."
        )


# What the MMDs share.


def check_kernel(statistic: Statistic, representation: nn.Module) -> Kernel:
    """The representation, which has to be a kernel."""
    if not isinstance(representation, Kernel):
        raise IncompatibleParts(
            f"{statistic!r} compares points by a kernel, but the representation is a "
            f"{type(representation).__name__}. Use OnFeatures(network, Linear()), or "
            "HotellingT2() for a feature map."
        )
    return representation


def effect_from_witness(
    witness: tuple[Tensor, Tensor],
    observed: float,
    threshold: float,
    *,
    accuracy: float | None = None,
    auc: float | None = None,
) -> Effect:
    """MMD, J and estimated power of an observed MMD^2, from the witness at X and at Y."""
    n = len(witness[0])
    m = len(witness[1])
    variance = variance_unpaired(*witness)  # sigma^2; that of MMD^2 is sigma^2 (n + m) / (2 n m)
    of_mmd2 = float(variance) * (n + m) / (2 * n * m)
    mmd2 = torch.tensor(observed, dtype=torch.float64)
    return Effect(
        mmd=max(0.0, observed) ** 0.5,
        criterion=float(power_criterion(mmd2, variance, REGULARISER)),
        power=asymptotic_power(observed, of_mmd2**0.5, threshold),
        accuracy=accuracy,
        auc=auc,
    )


def kernel_witness(
    kernel: Kernel,
    z: Embedded,
    n: int,
    m: int,
    memory: int,
) -> Tensor:
    """w(z) = mean_j k(z, X_j) - mean_j k(z, Y_j) at the points of `z` that follow X and Y."""
    with torch.no_grad():
        z = kernel.centred(z)
        total = accumulator(z[0].device)
        of_x = torch.full((n,), 1 / n)
        of_y = torch.full((m,), -1 / m)
        weights = torch.cat([of_x, of_y]).to(z[0].device, total)
        features = kernel.features(z)
        if features is not None:
            f = features.to(total)
            difference = f[: n + m].T @ weights  # of the mean features
            return f[n + m :] @ difference
        old = rows_of(z, slice(0, n + m))
        new = rows_of(z, slice(n + m, None))
        return cross_sums(kernel, new, old, weights, memory=memory)


def about_the_middle(at_x: Tensor, at_y: Tensor) -> tuple[Tensor, Tensor]:
    """The same contributions, half of their sum from either sample.

    The origin of a few features, such as the one score of a classifier, is arbitrary, so how much
    of the sum comes from X says nothing.
    """
    middle = (at_x.mean() - at_y.mean()) / 2
    return at_x - middle, at_y + middle


# What only the MMD over all pairs needs.


def _pair_sums(
    kernel: Kernel,
    points: EmbeddedSamples,
    bins: Bins,
    own: Tensor,
    generator: torch.Generator,
) -> tuple[PairSums, Tensor]:
    """Sums over pairs of bins, and the witness at every point."""
    n, m = points.sizes
    shares = torch.tensor([1 / n, -1 / m], dtype=torch.float64)
    share = shares.repeat_interleave(torch.tensor([n, m]))  # (n + m,) of each point
    # Which bins share a tile is left to chance, so that rounding is as blind to labels as all the
    # rest.
    place = torch.randperm(bins.count, generator=generator)
    sums, rows = block_and_row_sums(
        kernel,
        points.parts,
        place[bins.of_all],
        share[:, None],
        diagonal=False,
        resources=points.resources,
    )
    absent = bins.count - len(sums)  # bins without points that have the highest numbers
    sums = nn.functional.pad(sums.double().cpu(), (0, absent, 0, absent))
    sums = sums[place][:, place]
    witness = rows[:, 0].double().cpu() + own * share
    return PairSums(sums), witness


def _paired_diagonal(kernel: Kernel, points: EmbeddedSamples, bins: Bins) -> PairedDiagonal:
    """The terms k(X_i, Y_i) over bins that move, and over the pairs that stay in place."""
    z = points.parts
    device = z[0].device
    by_bin = bins.members(0, bins.moving)  # (moving, size)
    one_each = torch.arange(bins.moving)
    sums = torch.zeros(bins.moving, bins.moving, dtype=torch.float64)
    memory = points.resources.memory
    for t in range(bins.size):
        index = by_bin[:, t].to(device)
        of_bins = rows_of(z, index)
        between = block_sums(kernel, of_bins, one_each, memory=memory)
        sums += between.double().cpu()
    stays = bins.of_x == bins.moving  # pairs stay together, so this holds for their partners too
    fixed_x = torch.nonzero(stays)[:, 0].to(device)
    if not len(fixed_x):
        return PairedDiagonal(sums, 0.0)
    fixed_y = fixed_x + len(bins.of_x)
    staying_x = rows_of(z, fixed_x)
    staying_y = rows_of(z, fixed_y)
    fixed = kernel.pairs(staying_x, staying_y).double().sum()
    return PairedDiagonal(sums, float(fixed))


# Rounding. Where exact arithmetic has a tie, as when duplicates trade places, two values may differ
# by so much. Sums are in float64; kernel values and features have the precision of the points.

_ROOM = 64  # in units of the last place: a narrow kernel magnifies the rounding of distances


def _resolution_of_pairs(
    sums: PairSums,
    own: Tensor,
    dtype: torch.dtype,
    smaller: int,
) -> float:
    """Errors of kernel values average out over a row of the matrix."""
    points = len(own)
    of_pairs = float(sums.sums.abs().sum()) / points**2
    of_points = float(own.abs().mean()) / smaller
    size = of_pairs + of_points
    in_sums = _ROOM * torch.finfo(torch.float64).eps * size
    in_values = _ROOM * torch.finfo(dtype).eps / math.sqrt(points) * size
    return in_sums + in_values


def _resolution_of_features(
    features: Tensor,
    own: Tensor,
    dtype: torch.dtype,
    smaller: int,
) -> float:
    """MMD^2 is the square of a difference of means, whose error is that of a feature."""
    points = len(own)
    size = float(own.abs().mean())
    in_sums = _ROOM * torch.finfo(torch.float64).eps * size
    error = 8 * torch.finfo(dtype).eps * math.sqrt(size)
    centred = features - features.mean(0)
    spread = math.sqrt(float(centred.square().sum(1).mean()))
    in_means = error * spread / math.sqrt(smaller * points)
    return in_sums + error**2 + in_means
