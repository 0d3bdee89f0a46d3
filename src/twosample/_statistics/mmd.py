"""One number for one labelling of the pooled points, for many labellings at once.

A statistic works in two steps: `prepare` looks at the data and the representation once, `evaluate`
then gives its value for any number of shuffles without looking at them again. What is shuffled are
bins of points (`Bins`); bins of one point are the ordinary permutation test.
"""

from __future__ import annotations

import itertools
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, Protocol, get_args

import scipy  # which imports its parts, such as scipy.stats, when they are used
import torch
from torch import Tensor, nn

from .._data.samples import EmbeddedSamples, Samples
from .._estimators import (
    REGULARISER,
    area_under_curve,
    asymptotic_power,
    balanced_accuracy,
    mmd2_biased,
    mmd2_paired,
    mmd2_unbiased,
    power_criterion,
    t2_from_whitened,
    two_binomials,
    variance_unpaired,
)
from .._kernels import Kernel, OnFeatures, Sign
from .._products import Embedded, block_and_row_sums, block_sums
from .._resources import DEFAULT_MEMORY, HERE, Workers
from .._result import Effect
from ..errors import IncompatibleParts, InputError, InputWarning

Estimator = Literal["unbiased", "biased", "paired", "block", "compressed"]
Alternative = Literal["two-sided", "greater"]

_BINS_A_BLOCK = 16  # bins that a block is cut into, so that swaps have signs to change within it
# Eigenvalues of landmarks below this part of the largest are rounding, which their roots would
# magnify.
_RANK = 1e-5
_ORDINARY = 2000  # points that tell the spread of all, for the bias of a squared distance of means
_EMBEDDINGS = (
    64  # at most so many pieces of work are all the batches of points that go through a network
)
_SINGULAR, _RIDGE = (
    1e-10,
    1e-8,
)  # eigenvalues of a scatter, relative to the largest; float32 features carry 1e-12


@dataclass(frozen=True, eq=False)
class Bins:
    """Which points of two samples move together, and which stay.

    Bins 0 ... moving_x - 1 hold points of X, the next `moving_y` points of Y, `size` points each;
    the last two bins hold the points of X and of Y that stay in place (either may be empty).
    """

    of_x: Tensor  # (n,)
    of_y: Tensor  # (m,)
    moving_x: int
    moving_y: int
    size: int

    @property
    def moving(self) -> int:
        return self.moving_x + self.moving_y

    @property
    def count(self) -> int:
        return self.moving + 2

    def in_x(self, shuffles: Tensor) -> Tensor:
        """(B, count) ones and zeros: the bins that each shuffle, a permutation of the moving bins, puts into X."""
        labels = torch.zeros(len(shuffles), self.count, dtype=torch.float64)
        labels.scatter_(1, shuffles[:, : self.moving_x], 1.0)
        labels[:, self.moving] = 1.0
        return labels

    def signs(self, shuffles: Tensor) -> Tensor:
        """(B, moving_x) ones, and minus ones where a shuffle swaps bin k of X with bin k of Y."""
        return torch.where(shuffles[:, : self.moving_x] < self.moving_x, 1.0, -1.0).double()

    def members(self, first: int, count: int) -> Tensor:
        """(count, size) places in the pooled points of the moving bins from `first` on."""
        order = torch.argsort(torch.cat([self.of_x, self.of_y]), stable=True)
        return order[first * self.size : (first + count) * self.size].view(count, self.size)


@dataclass(frozen=True)
class Law:
    """What a statistic's distribution tends to when P = Q, without unknown parameters."""

    survival: Callable[[float], float]  # value -> chance of one at least as large
    threshold: Callable[[float], float]  # alpha -> the value that is exceeded so often
    name: str


class Prepared(Protocol):
    """What every statistic keeps of the data."""

    @property
    def bins(self) -> Bins: ...
    @property
    def resolution(self) -> float:
        """Rounding error that a value may carry."""


class Statistic(ABC):
    """One number for one labelling of the pooled points; large values speak against P = Q."""

    @property
    def shuffled_by(self) -> tuple[str, ...]:
        """The ways of shuffling that it has values for: "permutations", "swaps"."""
        return ("permutations",)

    @property
    def depends_on_order(self) -> bool:
        """Whether the value depends on more than which points are in X."""
        return False

    def least_bins(self, n: int, m: int) -> int:
        """How many bins must move at least, for samples of n and m points."""
        return 1

    @abstractmethod
    def check(self, representation: nn.Module) -> None:
        """Raise `IncompatibleParts` if it cannot see the samples through this representation."""

    def check_law(self, representation: nn.Module) -> None:
        """Raise `IncompatibleParts` unless `law` has an answer."""
        raise IncompatibleParts(
            f"the limiting law of {self!r} depends on unknown parameters of the data, so "
            "Asymptotic() cannot use it. "
            "Use Permutation(), or MMD('block'), which has a law."
        )

    def law(self, prepared: Any) -> Law:
        """Its limiting law, where `check_law` finds nothing to say."""
        raise NotImplementedError

    @abstractmethod
    def prepare(
        self,
        representation: Any,
        samples: Samples | EmbeddedSamples,
        bins: Bins,
        generator: torch.Generator,
        *,
        memory: int = DEFAULT_MEMORY,
        progress: bool | None = False,
        workers: Workers | None = None,
    ) -> Any:
        """Everything about the data that `evaluate` needs, in one pass over them; `workers` help, where it is long."""

    @abstractmethod
    def evaluate(self, prepared: Any, shuffles: Tensor) -> Tensor:
        """(B,) values, one for each of the (B, moving) shuffles of bins."""

    @abstractmethod
    def effect(self, prepared: Any, observed: float, threshold: float) -> Effect:
        """How different the samples are; `threshold` is what the value must reach at level 0.05."""


@dataclass(frozen=True, eq=False)
class PreparedMMD:
    """All that an MMD needs of the data: sums over bins, or where the kernel has few features, sums of those."""

    bins: Bins
    sizes: tuple[int, int]
    sums: Tensor  # (S, S) block sums without the terms k(z_i, z_i); empty where there are features
    totals: Tensor  # (S, p) sums of features over bins; empty where there are none
    own: Tensor  # (S,) sums of the terms k(z_i, z_i)
    # (moving, moving) sums over t of k(t-th point of one bin, t-th point of another); "paired"
    # only, else empty
    pairs: Tensor
    fixed_pairs: float
    witness: tuple[Tensor, Tensor]  # w at the points of X and of Y, in the observed labelling
    resolution: float  # rounding error that a value may carry
    scores: (
        tuple[Tensor, Tensor] | None
    )  # of a classifier, where the kernel sees points through one
    excess: float = (
        0.0  # what |mean of X - mean of Y|^2 is on average when P = Q; "compressed" only
    )


@dataclass(frozen=True, eq=False)
class PreparedBlocks:
    """All that an average over blocks needs of the data."""

    bins: Bins
    sizes: tuple[int, int]
    values: Tensor  # (blocks,) MMD^2 of each block, in the observed labelling
    # (blocks, c, c) sums of H_ij, i != j, over pairs of bins of a block; empty where points are not
    # paired
    sums: Tensor
    pairs: int  # how many H_ij each block has
    resolution: float


@dataclass(frozen=True)
class MMD(Statistic):
    """The squared maximum mean discrepancy.

    Parameters
    ----------
    estimator
        "unbiased": any sizes, may be negative. "biased": that of the empirical distributions.
        "paired": the U-statistic of [Liu2020], equal sizes only, which leaves out the terms k(X_i,
        Y_i). "block": the average over blocks of points [Zaremba2013], in a time that grows more
        slowly than the square of the points; weaker. "compressed": that of the kernel projected
        onto a few of the pooled points, the landmarks, drawn blind to labels [Chatalic2025]: a time
        that grows with the points, any sizes, some power lost.
    alternative
        "greater", for the one score of a classifier: the sign of mean score of X - mean score of Y
        is kept, so that only a classifier that is right more often than not speaks against P = Q.
    block_size
        Points of each sample in a block; None means the square root of the smaller sample's size.
    landmarks
        How many, for "compressed"; None means 1000, or the square root of the number of points if
        that is more.
    """

    estimator: Estimator = "unbiased"
    alternative: Alternative = "two-sided"
    block_size: int | None = None
    landmarks: int | None = None

    def __post_init__(self) -> None:
        if self.estimator not in get_args(Estimator):
            raise IncompatibleParts(
                f"MMD({self.estimator!r}) does not exist; use one of "
                f"{', '.join(get_args(Estimator))}."
            )
        if self.alternative not in get_args(Alternative):
            raise IncompatibleParts(
                f"alternative is {self.alternative!r}; it must be 'two-sided' or 'greater'."
            )
        if self.alternative == "greater" and self.estimator != "biased":
            raise IncompatibleParts(
                "alternative='greater' keeps the sign of a difference of means, which "
                f"MMD({self.estimator!r}) is "
                "not the square of. Use MMD('biased', alternative='greater')."
            )
        if self.block_size is not None:
            if self.estimator != "block":
                raise IncompatibleParts(
                    f"MMD({self.estimator!r}) has no blocks. Use MMD('block', block_size=...)."
                )
            if not isinstance(self.block_size, Integral) or self.block_size < 2:
                raise InputError(
                    f"block_size is {self.block_size!r}; it must be a whole number of at least 2."
                )
        if self.landmarks is not None:
            if self.estimator != "compressed":
                raise IncompatibleParts(
                    f"MMD({self.estimator!r}) has no landmarks. Use MMD('compressed', "
                    "landmarks=...)."
                )
            if not isinstance(self.landmarks, Integral) or self.landmarks < 2:
                raise InputError(
                    f"landmarks is {self.landmarks!r}; it must be a whole number of at least 2."
                )

    def __repr__(self) -> str:
        options = "" if self.alternative == "two-sided" else f", alternative={self.alternative!r}"
        options += "" if self.block_size is None else f", block_size={self.block_size}"
        options += "" if self.landmarks is None else f", landmarks={self.landmarks}"
        return f"MMD({self.estimator!r}{options})"

    @property
    def shuffled_by(self) -> tuple[str, ...]:
        return {"unbiased": ("permutations",), "block": ("swaps",)}.get(
            self.estimator, ("permutations", "swaps")
        )

    @property
    def depends_on_order(self) -> bool:
        return self.estimator == "paired"

    def least_bins(self, n: int, m: int) -> int:
        if self.estimator != "block":
            return 1
        return min(n, m) // max(1, self._block(n, m) // _BINS_A_BLOCK)

    def check(self, representation: nn.Module) -> None:
        if not isinstance(representation, Kernel):
            raise IncompatibleParts(
                f"{self!r} compares points by a kernel, but the representation is a "
                f"{type(representation).__name__}. "
                "Use OnFeatures(network, Linear()), or HotellingT2() for a feature map."
            )
        if self.estimator == "compressed" and _may_have_few_features(representation):
            raise IncompatibleParts(
                f"{representation!r} is an inner product of features, which need no landmarks: its "
                "tests take linear "
                "time as they are. Use MMD('biased')."
            )
        if self.alternative == "greater" and not _may_have_few_features(representation):
            raise IncompatibleParts(
                "alternative='greater' takes the one score of a classifier, which "
                f"{representation!r} does not have. "
                "Use OnFeatures(Classifier(), Linear()), or leave alternative out."
            )

    def check_law(self, representation: nn.Module) -> None:
        if self.estimator == "block":
            return
        if self.estimator == "biased" and isinstance(_innermost(representation), Sign):
            return
        super().check_law(representation)

    def law(self, prepared: PreparedMMD | PreparedBlocks) -> Law:
        """The normal law of an average over blocks; the binomial law of an accuracy."""
        if isinstance(prepared, PreparedBlocks):
            count = len(prepared.values)
            deviation = float(prepared.values.std() / math.sqrt(count))
            normal = scipy.stats.norm(scale=max(deviation, torch.finfo(torch.float64).tiny))
            return Law(
                lambda value: float(normal.sf(value)),
                lambda alpha: float(normal.isf(alpha)),
                f"normal law of the mean of {count} blocks",
            )
        if prepared.scores is None:
            raise InputError(
                "the binomial law is that of one score, and this kernel sees points through "
                "several."
            )
        survival, threshold = two_binomials(
            *prepared.sizes, two_sided=self.alternative == "two-sided"
        )
        # The statistic is the square of the difference of the shares of positive scores, with its
        # sign if "greater".
        return Law(
            lambda value: survival(math.copysign(math.sqrt(abs(value)), value)),
            lambda alpha: threshold(alpha) * abs(threshold(alpha)),
            "binomial law of the accuracy",
        )

    def prepare(
        self,
        representation: Kernel,
        samples: Samples | EmbeddedSamples,
        bins: Bins,
        generator: torch.Generator,
        *,
        memory: int = DEFAULT_MEMORY,
        progress: bool | None = False,
        workers: Workers | None = None,
    ) -> PreparedMMD | PreparedBlocks:
        n, m = samples.sizes
        if self.estimator == "paired" and n != m:
            raise InputError(
                f"MMD('paired') needs samples of one size, not {n} and {m}; use MMD('unbiased')."
            )
        with torch.no_grad():
            z = embed_pooled(
                representation.embed, samples, generator, memory=memory, workers=workers
            )
            if self.estimator == "block":
                return self._prepare_blocks(representation, z, bins, n, m)
            if self.estimator == "compressed":
                return self._prepare_compressed(representation, z, bins, n, m, generator, memory)
            ids = torch.cat([bins.of_x, bins.of_y])
            own = representation.pairs(z, z).double().cpu()
            vectors = representation.features(z)
            sums = totals = torch.empty(0, dtype=torch.float64)
            if vectors is None:
                share = torch.tensor([1 / n, -1 / m], dtype=torch.float64).repeat_interleave(
                    torch.tensor([n, m])
                )
                # Which bins share a tile is left to chance, so that rounding is as blind to labels
                # as all the rest.
                place = torch.randperm(bins.count, generator=generator)
                sums, rows = block_and_row_sums(
                    representation,
                    z,
                    place[ids],
                    share[:, None],
                    diagonal=False,
                    memory=memory,
                    progress=progress,
                    workers=workers,
                )
                sums = torch.nn.functional.pad(
                    sums.double().cpu(), (0, bins.count - len(sums)) * 2
                )  # empty bins
                sums = sums[place][:, place]
                witness = rows[:, 0].double().cpu() + torch.cat([own[:n] / n, -own[n:] / m])
                scores = None
            else:
                vectors = vectors.double().cpu()
                totals = torch.zeros(bins.count, vectors.shape[1], dtype=torch.float64).index_add_(
                    0, ids, vectors
                )
                witness = vectors @ (vectors[:n].mean(0) - vectors[n:].mean(0))
                scores = z[0][:, 0].double().cpu() if z[0].shape[1] == 1 else None
            if self.alternative == "greater" and scores is None:
                raise IncompatibleParts(
                    f"alternative='greater' takes one score, but {representation!r} sees "
                    f"{z[0].shape[1]} features. "
                    "Use OnFeatures(Classifier(network), Linear())."
                )
            pairs, fixed = (
                self._pairs(representation, z, bins, n, memory)
                if self.depends_on_order
                else (torch.empty(0), 0.0)
            )
        return PreparedMMD(
            bins=bins,
            sizes=(n, m),
            sums=sums,
            totals=totals,
            own=torch.zeros(bins.count, dtype=torch.float64).index_add_(0, ids, own),
            pairs=pairs,
            fixed_pairs=fixed,
            witness=(witness[:n], witness[n:]),
            resolution=_resolution(vectors, sums, own, torch.finfo(z[0].dtype).eps, min(n, m)),
            scores=None if scores is None else (scores[:n], scores[n:]),
        )

    def evaluate(self, prepared: PreparedMMD | PreparedBlocks, shuffles: Tensor) -> Tensor:
        if isinstance(prepared, PreparedBlocks):
            return self._evaluate_blocks(prepared, shuffles)
        n, m = prepared.sizes
        in_x = prepared.bins.in_x(shuffles)
        own = in_x @ prepared.own
        if len(prepared.totals):
            of_x = in_x @ prepared.totals  # (B, p)
            of_y = prepared.totals.sum(0) - of_x
            if self.alternative == "greater":
                # The kernel's one feature grows with the score, so the difference of its means has
                # the right sign.
                difference = (of_x / n - of_y / m)[:, 0]
                return difference * difference.abs()
            if self.estimator == "compressed":
                return (of_x / n - of_y / m).square().sum(1) - prepared.excess
            xx, xy = of_x.square().sum(1) - own, (of_x * of_y).sum(1)
            yy = of_y.square().sum(1) - (prepared.own.sum() - own)
        else:
            product = in_x @ prepared.sums  # (B, S)
            xx = (product * in_x).sum(1)
            xy = product.sum(1) - xx
            yy = prepared.sums.sum() - xx - 2 * xy
        if self.estimator == "unbiased":
            return mmd2_unbiased(xx, yy, xy, n, m)
        if self.estimator == "biased":
            return mmd2_biased(xx + own, yy + prepared.own.sum() - own, xy, n, m)
        half = prepared.bins.moving_x
        crossed = (
            prepared.pairs[shuffles[:, :half], shuffles[:, half:]].sum(1) + prepared.fixed_pairs
        )
        return mmd2_paired(xx, yy, xy, crossed, n)

    def _pairs(
        self, kernel: Kernel, z: Embedded, bins: Bins, n: int, memory: int
    ) -> tuple[Tensor, float]:
        """Block sums of the paired diagonal, and the sum over the pairs that stay in place."""
        by_bin = bins.members(0, bins.moving)
        one_each = torch.arange(bins.moving)
        total = torch.zeros(bins.moving, bins.moving, dtype=torch.float64)
        for t in range(bins.size):
            index = by_bin[:, t].to(z[0].device)
            total += (
                block_sums(kernel, tuple(part[index] for part in z), one_each, memory=memory)
                .double()
                .cpu()
            )
        fixed_x = torch.nonzero(bins.of_x == bins.moving)[:, 0].to(z[0].device)
        fixed_y = torch.nonzero(bins.of_y == bins.moving + 1)[:, 0].to(z[0].device) + n
        a, b = tuple(part[fixed_x] for part in z), tuple(part[fixed_y] for part in z)
        return total, float(kernel.pairs(a, b).double().sum()) if len(fixed_x) else 0.0

    def _prepare_compressed(
        self,
        kernel: Kernel,
        z: Embedded,
        bins: Bins,
        n: int,
        m: int,
        generator: torch.Generator,
        memory: int,
    ) -> PreparedMMD:
        """Sums of features f(z) = K^(-1/2) (k(l_1, z), ..., k(l_c, z)), with the kernel matrix K of landmarks l.

        Landmarks are drawn from the pooled points without a look at labels, so no shuffle of labels
        changes f.
        """
        z = kernel.centred(z)
        order = torch.randperm(n + m, generator=generator).to(z[0].device)
        count = min(self.landmarks or max(1000, math.isqrt(n + m)), n + m)
        left, right = kernel.sides(z)
        landmarks = tuple(part[order[:count]] for part in right)

        def compared(points: slice | Tensor) -> Tensor:
            """(N, c) kernel values with the landmarks."""
            return kernel.cross(tuple(part[points] for part in left), landmarks).double().cpu()

        K = compared(order[:count])
        eigenvalues, vectors = torch.linalg.eigh((K + K.T) / 2)
        counts = eigenvalues > _RANK * eigenvalues[-1]
        root = vectors[:, counts] / eigenvalues[counts].sqrt()  # (c, p)

        rows = max(1, min(512, memory // (64 * count)))
        pieces = [slice(start, start + rows) for start in range(0, n + m, rows)]
        ids = torch.cat([bins.of_x, bins.of_y])
        totals = torch.zeros(bins.count, count, dtype=torch.float64)
        of_x = torch.zeros(count, dtype=torch.float64)
        for piece in pieces:
            values = compared(piece)
            totals.index_add_(0, ids[piece], values)
            of_x += values[: max(0, n - piece.start)].sum(0)
        difference = root.T @ (of_x / n - (totals.sum(0) - of_x) / m)
        witness = torch.cat([compared(piece) @ (root @ difference) for piece in pieces])
        # A new draw: landmarks, whose features are longer, are as frequent in it as among all
        # points.
        some = torch.randperm(n + m, generator=generator)[:_ORDINARY].to(order.device)
        spread = float((compared(some) @ root).var(0).sum())
        error = (
            8 * torch.finfo(z[0].dtype).eps * math.sqrt(count / float(eigenvalues[counts][0]))
        )  # of a feature
        return PreparedMMD(
            bins=bins,
            sizes=(n, m),
            sums=torch.empty(0, dtype=torch.float64),
            totals=totals @ root,
            own=torch.zeros(bins.count, dtype=torch.float64),
            pairs=torch.empty(0),
            fixed_pairs=0.0,
            witness=(witness[:n], witness[n:]),
            resolution=error**2 + error * math.sqrt(spread / (min(n, m) * (n + m))),
            scores=None,
            excess=(1 / n + 1 / m) * spread,
        )

    def _block(self, n: int, m: int) -> int:
        return max(2, min(self.block_size or math.isqrt(min(n, m)), min(n, m)))

    def _prepare_blocks(
        self, kernel: Kernel, z: Embedded, bins: Bins, n: int, m: int
    ) -> PreparedBlocks:
        """Block j holds as many bins of X and as many of Y as every other; bins that are left over are left out."""
        count = min(n, m) // self._block(n, m)
        in_x, in_y = bins.moving_x // max(1, count), bins.moving_y // max(1, count)
        if count < 2 or min(in_x, in_y) * bins.size < 2:
            raise InputError(
                f"{n} and {m} points make {count} block of {self._block(n, m)}; MMD('block') needs "
                "at least 2 blocks "
                "of 2 points. Use MMD('unbiased'), or a smaller block_size."
            )
        z = kernel.centred(z)
        places_x = bins.members(0, count * in_x).view(count, in_x * bins.size)
        places_y = bins.members(bins.moving_x, count * in_y).view(count, in_y * bins.size)
        b, c = places_x.shape[1], places_y.shape[1]
        paired = bins.moving_x == bins.moving_y
        values, sums = [], []
        for of_x, of_y in zip(places_x, places_y, strict=True):
            index = torch.cat([of_x, of_y]).to(z[0].device)
            points = tuple(part[index] for part in z)
            K = kernel.tile(points, points).double().cpu().fill_diagonal_(0)
            xx, yy, xy = K[:b, :b], K[b:, b:], K[:b, b:]
            if paired:  # so that a swap of a pair changes the signs of its H_ij and nothing else
                H = (xx + yy - xy - xy.T).fill_diagonal_(0)
                sums.append(H.view(in_x, bins.size, in_x, bins.size).sum((1, 3)))
                values.append(H.sum() / (b * (b - 1)))
            else:
                values.append(mmd2_unbiased(xx.sum(), yy.sum(), xy.sum(), b, c))
        own = kernel.pairs(z, z).double()
        return PreparedBlocks(
            bins=bins,
            sizes=(n, m),
            values=torch.stack(values),
            sums=torch.stack(sums) if sums else torch.empty(0),
            pairs=b * (b - 1),
            resolution=64
            * torch.finfo(z[0].dtype).eps
            * float(own.abs().mean())
            / (b * math.sqrt(count)),
        )

    def _evaluate_blocks(self, prepared: PreparedBlocks, shuffles: Tensor) -> Tensor:
        if not len(prepared.sums):
            return prepared.values.mean().expand(len(shuffles))
        count, in_block, _ = prepared.sums.shape
        signs = prepared.bins.signs(shuffles)[:, : count * in_block].view(-1, count, in_block)
        forms = torch.einsum("Bkc,kcd,Bkd->B", signs, prepared.sums, signs)
        return forms / (prepared.pairs * count)

    def effect(
        self, prepared: PreparedMMD | PreparedBlocks, observed: float, threshold: float
    ) -> Effect:
        """MMD, J and estimated power, from the witness; accuracy and AUC for the scores of a classifier."""
        n, m = prepared.sizes
        if isinstance(prepared, PreparedBlocks):
            deviation = float(prepared.values.std()) / math.sqrt(len(prepared.values))
            return Effect(
                mmd=max(0.0, observed) ** 0.5,
                power=asymptotic_power(observed, deviation, threshold),
            )
        variance = variance_unpaired(
            *prepared.witness
        )  # sigma^2; that of MMD^2 is sigma^2 (n + m) / (2 n m)
        scores = prepared.scores
        return Effect(
            accuracy=None if scores is None else balanced_accuracy(*scores),
            auc=None if scores is None else area_under_curve(*scores),
            mmd=max(0.0, observed) ** 0.5,
            criterion=float(
                power_criterion(torch.tensor(observed, dtype=torch.float64), variance, REGULARISER)
            ),
            power=asymptotic_power(
                observed, float(variance * (n + m) / (2 * n * m)) ** 0.5, threshold
            ),
        )


@dataclass(frozen=True, eq=False)
class PreparedT2:
    """All that T^2 needs of the data: sums over bins of features that a total scatter has made white."""

    bins: Bins
    sizes: tuple[int, int]
    totals: Tensor  # (S, p), or for pairs (moving_x + 1, p), the last for the pairs that stay
    features: tuple[Tensor, Tensor]  # of X and of Y, as the map gives them
    resolution: float


@dataclass(frozen=True)
class HotellingT2(Statistic):
    """Hotelling's T^2 of the features of two samples: the squared distance of their means in units of its own spread.

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

    @property
    def shuffled_by(self) -> tuple[str, ...]:
        return ("swaps",) if self.paired else ("permutations",)

    def check(self, representation: nn.Module) -> None:
        if isinstance(representation, Kernel):
            raise IncompatibleParts(
                f"{self!r} takes a map from points to features, but the representation is a "
                "kernel. "
                f"Use MeanEmbedding(kernel={type(representation).__name__}(...)), or MMD()."
            )

    def check_law(self, representation: nn.Module) -> None:
        return None  # chi-squared, whatever the features are

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
        samples: Samples | EmbeddedSamples,
        bins: Bins,
        generator: torch.Generator,
        *,
        memory: int = DEFAULT_MEMORY,
        progress: bool | None = False,
        workers: Workers | None = None,
    ) -> PreparedT2:
        n, m = samples.sizes
        if self.paired and n != m:
            raise InputError(
                f"the paired T^2 needs samples of one size, not {n} and {m}; use HotellingT2()."
            )
        with torch.no_grad():
            (f,) = embed_pooled(
                lambda points: (representation(points).flatten(1),),
                samples,
                generator,
                memory=memory,
                workers=workers,
            )
        eps = torch.finfo(f.dtype).eps
        f = f.double().cpu()
        if n + m - 2 < f.shape[1] or (self.paired and n - 1 < f.shape[1]):
            raise InputError(
                f"{n} and {m} points are too few for {f.shape[1]} features; use more points or "
                "fewer features."
            )
        rows = f[:n] - f[n:] if self.paired else f - f.mean(0)
        white, smallest = _whitened(rows)
        if self.paired:
            places = bins.members(0, bins.moving_x)
            totals = torch.zeros(bins.moving_x + 1, f.shape[1], dtype=torch.float64)
            totals[:-1] = white[places].sum(1)
            totals[-1] = white.sum(0) - totals[:-1].sum(0)
        else:
            ids = torch.cat([bins.of_x, bins.of_y])
            totals = torch.zeros(bins.count, f.shape[1], dtype=torch.float64).index_add_(
                0, ids, white
            )
        # Duplicates that trade places may differ by the rounding of their features, magnified by
        # the whitening.
        rounding = (
            8 * eps * float(f.abs().max()) / max(smallest, torch.finfo(torch.float64).tiny) ** 0.5
        )
        return PreparedT2(
            bins, (n, m), totals, (f[:n], f[n:]), resolution=rounding * math.sqrt(f.shape[1])
        )

    def evaluate(self, prepared: PreparedT2, shuffles: Tensor) -> Tensor:
        n, m = prepared.sizes
        if self.paired:
            of_pairs = prepared.bins.signs(shuffles) @ prepared.totals[:-1] + prepared.totals[-1]
            return t2_from_whitened(of_pairs.square().sum(1) / n, n - 1)
        of_x = prepared.bins.in_x(shuffles) @ prepared.totals  # the totals of all bins sum to 0
        return t2_from_whitened(of_x.square().sum(1) * (1 / n + 1 / m), n + m - 2)

    def effect(self, prepared: PreparedT2, observed: float, threshold: float) -> Effect:
        """The estimated power, by the noncentral chi-squared law."""
        degrees = prepared.totals.shape[1]
        noncentrality = max(
            0.0, observed - degrees
        )  # the mean of T^2 is about degrees + noncentrality
        return Effect(power=float(scipy.stats.ncx2.sf(threshold, degrees, noncentrality)))


def _whitened(rows: Tensor) -> tuple[Tensor, float]:
    """Rows whose scatter (sum of squares and products) is the identity, and the smallest eigenvalue before.

    A scatter that is nearly singular gets a ridge, which no shuffle changes either, and a warning.
    """
    scatter = rows.T @ rows
    if not bool(torch.isfinite(scatter).all()):
        raise InputError(
            "the features of the points to test are not finite numbers; look for extreme values in "
            "the data, or use "
            "wider locations or frequencies."
        )
    values, vectors = torch.linalg.eigh(scatter)
    largest = float(values[-1])
    if float(values[0]) <= _SINGULAR * largest:
        warnings.warn(
            "the features of the points to test are nearly dependent (eigenvalues from "
            f"{float(values[0]):.2g} to "
            f"{largest:.2g}), so a ridge of {_RIDGE:g} of the largest is added; use fewer "
            "locations or frequencies.",
            InputWarning,
            stacklevel=2,
        )
        values = values.clamp_min(0) + max(_RIDGE * largest, torch.finfo(torch.float64).tiny)
    return rows @ vectors / values.sqrt(), float(values[0])


def _innermost(kernel: nn.Module) -> nn.Module:
    while isinstance(kernel, OnFeatures):
        kernel = kernel.kernel
    return kernel


def _may_have_few_features(kernel: Kernel) -> bool:
    """Whether the kernel is an inner product of features, of which there may turn out to be as few as one."""
    return getattr(type(_innermost(kernel)), "features", None) is not Kernel.features


def embedding(representation: nn.Module) -> Callable[[Tensor], Embedded]:
    """What a statistic sees points through: a kernel's `embed`, or features."""
    if isinstance(representation, Kernel):
        return representation.embed
    return lambda points: (representation(points).flatten(1),)


def embed_pooled(
    embed: Callable[[Tensor], Embedded],
    samples: Samples | EmbeddedSamples,
    generator: torch.Generator,
    *,
    memory: int,
    workers: Workers | None = None,
) -> Embedded:
    """All points of X, then of Y, through `embed` in batches that are blind to labels.

    The points are shuffled first: what a network does with a batch (batch normalisation, the
    rounding of a matrix product) may depend on the company a point is in, and must not depend on
    its label.
    """
    count = sum(samples.sizes)
    order = torch.randperm(count, generator=generator)
    if isinstance(
        samples, EmbeddedSamples
    ):  # after the draw: what is shuffled later does not depend on who embeds
        return samples.parts
    pooled = samples.pooled()
    order = order.to(pooled.device)
    point = (
        64 * pooled.element_size() * max(256, pooled[0].numel())
    )  # bytes, with the activations of a usual network
    batches = max(
        1, min(count // 2, -(-count * point // memory))
    )  # of two points at least, or none can be normalised
    team = workers or HERE
    shared = team.share(embed)
    # A piece of work is one batch, or several where they are small.
    each, indices = -(-batches // _EMBEDDINGS), torch.tensor_split(order, batches)
    found = team.map(
        _embedded,
        ((shared, [pooled[i] for i in indices[k : k + each]]) for k in range(0, batches, each)),
    )
    pieces = itertools.chain.from_iterable(found)
    back = torch.argsort(order)
    return tuple(torch.cat(part)[back] for part in zip(*pieces, strict=True))


def _embedded(embed: Callable[[Tensor], Embedded], batches: Sequence[Tensor]) -> list[Embedded]:
    return [embed(points) for points in batches]


def _resolution(
    vectors: Tensor | None, sums: Tensor, own: Tensor, eps: float, smaller: int
) -> float:
    """How much two values may differ by rounding where exact arithmetic has a tie, as when duplicates trade places.

    Sums are in float64; kernel values have the precision `eps` of the embedded points, and their
    errors average out over a row of the matrix. The factors leave room for a narrow kernel, which
    magnifies the rounding of distances. With features MMD^2 is the square of a difference of means,
    whose error is that of a feature.
    """
    points = len(own)
    size = float(sums.abs().sum()) / points**2 + float(own.abs().mean()) / smaller
    if vectors is None:
        return 64 * torch.finfo(torch.float64).eps * size + 64 * eps / math.sqrt(points) * size
    in_sums = 64 * torch.finfo(torch.float64).eps * float(own.abs().mean())
    error = 8 * eps * math.sqrt(float(own.abs().mean()))
    spread = math.sqrt(float((vectors - vectors.mean(0)).double().square().sum(1).mean()))
    return in_sums + error**2 + error * spread / math.sqrt(smaller * points)
