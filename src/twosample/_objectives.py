"""What training pushes up: an objective is given the representation, and keeps only settings."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal, Protocol

import torch
from torch import Tensor, nn

from ._estimators import (
    REGULARISER,
    covariance_paired,
    covariance_unpaired,
    mkl_weights,
    mmd2_paired,
    mmd2_unbiased,
    noncentrality,
    power_criterion,
    variance_paired,
    variance_unpaired,
)
from ._featurizers import FeatureMap
from ._kernels import Embedding, Gaussian, Kernel, OnFeatures, Radial, WeightedSum
from ._products import Embedded, accumulator, row_sums, rows_of
from ._random import draw_rows
from ._resources import DEFAULT_MEMORY
from .errors import IncompatibleParts, InputError

_GRID_POINTS = 2000  # of each sample, for the grid of bandwidths: enough for a start
_WIDTH_POINTS = 5000  # of each sample, for the grid of widths, which is linear in the points


class Objective(Protocol):
    """A number that training pushes up, from a representation and a batch of each sample.

    Any callable of this signature is an objective. It may say four more things about itself:

    `check(representation)`
        raises `IncompatibleParts` if it cannot train that representation, and says what can.
    `start(representation, x, y, generator, *, batch_size, memory)`
        fills in what the representation leaves open, before the first step, from the training
        points. Without it, a kernel's bandwidth comes from a grid on J, and the width of a feature
        map from a grid on the objective itself.
    `trains_score = True`
        says that it trains the score of a classifier, before any kernel sees that score.
    `enough`
        a value beyond which nothing is left to learn: training stops when the mean of the latest
        values is above it, unless its schedule is "constant".
    """

    @abstractmethod
    def __call__(
        self,
        representation: Any,
        x: Tensor,
        y: Tensor,
        /,
        *,
        memory: int = ...,
    ) -> Tensor: ...


class _OfKernels(ABC):
    """An objective that trains kernels."""

    @abstractmethod
    def __call__(
        self,
        kernel: Kernel,
        x: Tensor,
        y: Tensor,
        *,
        memory: int = DEFAULT_MEMORY,
    ) -> Tensor: ...

    def check(self, representation: nn.Module) -> None:
        """Refuse a representation that is not a kernel."""
        if not isinstance(representation, Kernel):
            raise IncompatibleParts(
                f"{self!r} trains a kernel, not a feature map. Use Noncentrality()."
            )


@dataclass(frozen=True)
class PowerCriterion(_OfKernels):
    """J of equation (4): MMD^2 over its standard deviation, which test power grows with.

    The deviation is that under the alternative. For equal sizes these are the paper's paired
    estimators; otherwise the unbiased MMD^2 and the variance of the witness. The sums come from
    tiles, so there is no N x N graph.

    Parameters
    ----------
    regulariser
        lambda, added to the variance; "n^(-1/3)" is that of the paper's theorems, with n the points
        of a sample.
    paired
        Whether samples of one size are taken as pairs, as in the paper. False gives a value that
        does not depend on the order of the points.
    penalty
        How lambda enters the weights of a `WeightedSum`: "exact" maximises J itself, "ridge" is the
        paper's proposition, which differs where lambda is not small.

    Examples
    --------
    >>> import torch, twosample
    >>> x, y = torch.zeros(5, 2), torch.ones(5, 2)
    >>> J = twosample.PowerCriterion()(twosample.Gaussian(1.0), x, y)
    >>> round(J.item())  # no spread at all: only lambda is left
    12642
    """

    regulariser: float | Literal["n^(-1/3)"] = REGULARISER
    paired: bool = True
    penalty: Literal["exact", "ridge"] = "exact"

    def __post_init__(self) -> None:
        fixed = self.regulariser
        if fixed != "n^(-1/3)" and not (isinstance(fixed, Real) and 0 <= fixed < math.inf):
            raise InputError(
                f"regulariser is {fixed!r}; it must be a number of at least 0, or 'n^(-1/3)'."
            )
        if self.penalty not in ("exact", "ridge"):
            raise InputError(f"penalty is {self.penalty!r}; it must be 'exact' or 'ridge'.")

    def __call__(
        self,
        kernel: Kernel,
        x: Tensor,
        y: Tensor,
        *,
        memory: int = DEFAULT_MEMORY,
    ) -> Tensor:
        """J of a batch: a differentiable scalar. `memory` is the budget of the tiles, in bytes."""
        n = len(x)
        m = len(y)
        # Together, so that a batch normalisation cannot tell the samples apart.
        z = kernel.embed(torch.cat([x, y]))
        mmd2, means = self._mmd2_and_means(kernel, z, n, m, memory)
        if self._in_pairs(n, m):
            variance = variance_paired(means)  # equation (5)
        else:
            variance = variance_unpaired(means[:n], means[n:])
        return power_criterion(mmd2, variance, self._lambda(n, m))

    def start(
        self,
        representation: nn.Module,
        x: Tensor,
        y: Tensor,
        generator: torch.Generator,
        *,
        batch_size: int,
        memory: int = DEFAULT_MEMORY,
    ) -> None:
        """Fill in what the representation leaves open; a sum of kernels gets its best weights."""
        start_representation(self, representation, x, y, generator, memory=memory)
        if isinstance(representation, WeightedSum):
            # As many points as a step has, so that this costs no more than a step.
            some_x = draw_rows(x, batch_size, generator)
            some_y = draw_rows(y, batch_size, generator)
            weights = self.best_weights(representation, some_x, some_y, memory=memory)
            representation.set_weights(weights)

    def best_weights(
        self,
        kernel: WeightedSum,
        x: Tensor,
        y: Tensor,
        *,
        memory: int = DEFAULT_MEMORY,
    ) -> Tensor:
        """The (L,) weights of the sum that maximise J on these points exactly.

        They solve a quadratic program in L variables, `mkl_weights`. They do not depend on the
        weights that the sum has now, except that they add up to the same total.
        """
        n = len(x)
        m = len(y)
        values = []
        means = []
        with torch.no_grad():
            z = kernel.embed(torch.cat([x, y]))
            # MMD^2 is linear in the weights and sigma^2 quadratic, so each kernel is asked once.
            for member, seen in zip(kernel.kernels, kernel.split(z), strict=True):
                mmd2, mean = self._mmd2_and_means(member, seen, n, m, memory)
                values.append(mmd2)
                means.append(mean)
            b = torch.stack(values)  # (L,)
            columns = torch.stack(means, 1)  # (n, L) of pairs, else (n + m, L)
            if self._in_pairs(n, m):
                A = covariance_paired(columns)
            else:
                A = covariance_unpaired(columns[:n], columns[n:])
        total = float(kernel.weights.sum())
        return mkl_weights(
            b,
            A,
            self._lambda(n, m),
            total=total,
            penalty=self.penalty,
        )

    def _lambda(self, n: int, m: int) -> float:
        if isinstance(self.regulariser, str):
            return float(min(n, m) ** (-1 / 3))  # n^(-1/3), the only word it can be
        return self.regulariser

    def _in_pairs(self, n: int, m: int) -> bool:
        return self.paired and n == m

    def _mmd2_and_means(
        self,
        kernel: Kernel,
        z: Embedded,
        n: int,
        m: int,
        memory: int,
    ) -> tuple[Tensor, Tensor]:
        """MMD^2, and the means whose variance is that of MMD^2.

        They are the (n,) means mean_j H_ij of pairs, or else the (n + m,) values of the witness.
        """
        sums, (xx, yy, xy) = _sums(kernel, z, n, memory)
        with_x, with_y = sums.T  # (N,) each
        if not self._in_pairs(n, m):
            witness = with_x / n - with_y / m
            return mmd2_unbiased(xx, yy, xy, n, m), witness
        x_part = rows_of(z, slice(0, n))
        y_part = rows_of(z, slice(n, None))
        pairs = kernel.pairs(x_part, y_part).to(sums.dtype).sum()  # sum_i k(X_i, Y_i)
        # sum_j H_ij: X_i with X, less X_i with Y, less Y_i with X, plus Y_i with Y.
        sums_of_h = with_x[:n] - with_y[:n] - with_x[n:] + with_y[n:]
        return mmd2_paired(xx, yy, xy, pairs, n), sums_of_h / n


@dataclass(frozen=True)
class MeanDiscrepancy(_OfKernels):
    """MMD^2 itself, not in units of its standard deviation: the objective M of the ablation."""

    def __call__(
        self,
        kernel: Kernel,
        x: Tensor,
        y: Tensor,
        *,
        memory: int = DEFAULT_MEMORY,
    ) -> Tensor:
        """The unbiased MMD^2 of a batch: a differentiable scalar, to be maximised."""
        n = len(x)
        z = kernel.embed(torch.cat([x, y]))
        _, (xx, yy, xy) = _sums(kernel, z, n, memory)
        return mmd2_unbiased(xx, yy, xy, n, len(y))


@dataclass(frozen=True)
class CrossEntropy(_OfKernels):
    """How well one score tells X from Y: minus the mean cross-entropy, C of the paper's ablation.

    The representation must see points through one score, positive for X, as
    `OnFeatures(Classifier(), ...)` does.
    """

    trains_score: ClassVar[bool] = True
    # By then every training point has a probability near 1 of being where it is. More steps only
    # make the scores larger. Networks on images are there after some sixty of a thousand steps.
    enough: ClassVar[float] = -1e-3

    def check(self, representation: nn.Module) -> None:
        """Refuse a representation that has no score of its own."""
        super().check(representation)
        if not isinstance(representation, OnFeatures):
            raise IncompatibleParts(
                f"{self!r} trains one score, which {representation!r} does not have. Use "
                "OnFeatures(Classifier(network), Linear()), or for its network alone "
                "Learning(PowerCriterion(), pretraining=Learning(CrossEntropy()))."
            )

    def __call__(
        self,
        kernel: Kernel,
        x: Tensor,
        y: Tensor,
        *,
        memory: int = DEFAULT_MEMORY,
    ) -> Tensor:
        """Minus the cross-entropy of a batch, both samples weighted alike; to be maximised."""
        n = len(x)
        (scores,) = kernel.embed(torch.cat([x, y]))
        if scores.shape[1] != 1:
            raise IncompatibleParts(
                f"CrossEntropy() trains one score, but {kernel!r} sees {scores.shape[1]} features. "
                "Use OnFeatures(Classifier(network), Linear())."
            )
        of_x = scores[:n, 0].double()
        of_y = scores[n:, 0].double()
        # -log sigmoid(s) is softplus(-s). A mean for each sample, so that sizes do not matter.
        loss_x = nn.functional.softplus(-of_x).mean()
        loss_y = nn.functional.softplus(of_y).mean()
        return -(loss_x + loss_y) / 2


@dataclass(frozen=True)
class Noncentrality:
    """What Hotelling's T^2 grows with for each point: the objective of ME and SCF.

    d' (S + lambda I)^-1 d with d the difference of the mean features and S its covariance times the
    number of points; times the points of a sample, it is the noncentrality of the limiting
    chi-squared law [Jitkrittum2016].

    Parameters
    ----------
    regulariser
        lambda, added to the variances.
    """

    regulariser: float = 1e-5

    def check(self, representation: nn.Module) -> None:
        """Refuse a kernel."""
        if isinstance(representation, Embedding):
            raise IncompatibleParts(
                f"{self!r} trains a feature map, not a kernel. Use PowerCriterion()."
            )

    def __call__(
        self,
        features: nn.Module,
        x: Tensor,
        y: Tensor,
        *,
        memory: int = DEFAULT_MEMORY,
    ) -> Tensor:
        """The objective of a batch: a differentiable scalar, to be maximised."""
        n = len(x)
        f: Tensor = features(torch.cat([x, y]))  # (n + m, features)
        # In float64: the covariance of features that are nearly dependent is solved for.
        f = f.to(accumulator(f.device))
        return noncentrality(f[:n], f[n:], self.regulariser)


def start_representation(
    objective: Objective,
    representation: nn.Module,
    x: Tensor,
    y: Tensor,
    generator: torch.Generator,
    *,
    memory: int = DEFAULT_MEMORY,
) -> None:
    """Fill in what a kernel or a feature map leaves open, for any objective."""
    if isinstance(representation, Kernel):
        _start_kernel(representation, x, y, generator, memory)
    elif isinstance(representation, FeatureMap):
        some_x = draw_rows(x, _WIDTH_POINTS, generator)
        some_y = draw_rows(y, _WIDTH_POINTS, generator)
        n = len(some_x)
        m = len(some_y)
        harmonic = 2 * n * m / (n + m)

        def value() -> float:
            # Times the points of a sample, so that it has the noise of a T^2.
            return harmonic * float(objective(representation, some_x, some_y, memory=memory))

        with torch.no_grad():
            representation.choose_width(value)


def _start_kernel(
    kernel: Kernel,
    x: Tensor,
    y: Tensor,
    generator: torch.Generator,
    memory: int,
) -> None:
    # Asked first: `start` closes an open bandwidth, with the median that the grid then goes around.
    left_open = kernel.open_bandwidth()
    kernel.start(torch.cat([x, y]), generator)
    if left_open is None:
        return
    radial, part = left_open
    some_x = draw_rows(x, _GRID_POINTS, generator)
    some_y = draw_rows(y, _GRID_POINTS, generator)
    # As many of each: the larger sample would only sharpen one of the two means.
    n = min(len(some_x), len(some_y))
    with torch.no_grad():
        pooled = torch.cat([some_x[:n], some_y[:n]])
        seen = kernel.embed(pooled)[part]
    median = radial.bandwidth or 1.0
    x_part = seen[:n]
    y_part = seen[n:]
    chosen = best_bandwidth(x_part, y_part, median, kernel=radial, memory=memory)
    radial.set_bandwidth(chosen)


def best_bandwidth(
    x: Tensor,
    y: Tensor,
    median: float,
    *,
    kernel: Radial | None = None,
    memory: int = DEFAULT_MEMORY,
) -> float:
    """The bandwidth with the largest J on a grid around the median distance, protected from noise.

    It is that of a Gaussian unless another `kernel` is given, whose own bandwidth does not matter.

    The grid goes from 1/64 of the median to twice it in steps of half an octave. sqrt(n) J is a
    z-score: it carries noise of standard deviation one at every bandwidth, and a curve with 15
    chances of a lucky value. So the curve is smoothed over neighbours, and a bandwidth pays 0.4 for
    every octave that it lies away from a quarter of the median, which a real signal outweighs.
    """
    octaves = torch.arange(-6.0, 1.25, 0.5, dtype=torch.float64)
    # Unpaired, so that the choice does not depend on the order of the points.
    criterion = PowerCriterion(paired=False)
    pattern = Gaussian() if kernel is None else kernel
    candidate = copy.deepcopy(pattern).to(x)  # a copy, since its bandwidth is moved about
    values = []
    with torch.no_grad():
        for octave in octaves.tolist():
            candidate.set_bandwidth(median * 2.0**octave)
            values.append(criterion(candidate, x, y, memory=memory))
    scores = torch.stack(values).cpu() * len(x) ** 0.5
    padded = nn.functional.pad(scores[None], (1, 1), mode="replicate")[0]
    left = padded[:-2]
    right = padded[2:]
    smooth = left / 4 + padded[1:-1] / 2 + right / 4
    away = (octaves + 2).abs()  # octave -2 is a quarter of the median
    chosen = int((smooth - 0.4 * away).argmax())
    return median * math.exp2(float(octaves[chosen]))


def _sums(
    kernel: Kernel,
    z: Embedded,
    n: int,
    memory: int,
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Sums over a pooled batch of embedded points, the n of X first.

    They are the (N, 2) row sums over X and over Y, and the sums over XX, YY (i != j) and XY.
    """
    labels = z[0].new_zeros(len(z[0]), 2)
    labels[:n, 0] = 1
    labels[n:, 1] = 1
    # One product for both columns: each tile is made once.
    sums = row_sums(kernel, z, labels, memory=memory)
    own = kernel.pairs(z, z).to(sums.dtype)  # (N,) k(z_i, z_i)
    xx = sums[:n, 0].sum() - own[:n].sum()
    yy = sums[n:, 1].sum() - own[n:].sum()
    xy = sums[:n, 1].sum()  # no k(z_i, z_i) is among these
    return sums, (xx, yy, xy)
