"""What training pushes up: an objective holds settings, is given the representation, and keeps nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Literal

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
from ._kernels import Kernel, WeightedSum
from ._products import Embedded, accumulator, row_sums
from ._resources import DEFAULT_MEMORY
from .errors import IncompatibleParts, InputError


@dataclass(frozen=True)
class PowerCriterion:
    """J of equation (4): MMD^2 over its standard deviation under the alternative, what test power grows with.

    For equal sizes, the paper's paired estimators; otherwise the unbiased MMD^2 and the variance of
    the witness. Tiled: no N x N graph.

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
    >>> round(twosample.PowerCriterion()(twosample.Gaussian(1.0), x, y).item())  # no spread at all: only lambda is left
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

    def _lambda(self, n: int, m: int) -> float:
        return min(n, m) ** (-1 / 3) if isinstance(self.regulariser, str) else self.regulariser

    def __call__(
        self, kernel: Kernel, x: Tensor, y: Tensor, *, memory: int = DEFAULT_MEMORY
    ) -> Tensor:
        """J of a batch: a differentiable scalar, to be maximised. `memory` is the budget of the tiles, in bytes."""
        n, m = len(x), len(y)
        mmd2, means = self._mmd2_and_means(kernel, kernel.embed(torch.cat([x, y])), n, m, memory)
        variance = (
            variance_paired(means)
            if self.paired and n == m
            else variance_unpaired(means[:n], means[n:])
        )
        return power_criterion(mmd2, variance, self._lambda(n, m))

    def best_weights(
        self,
        kernel: WeightedSum,
        x: Tensor,
        y: Tensor,
        *,
        memory: int = DEFAULT_MEMORY,
    ) -> Tensor:
        """The (L,) weights of the sum that maximise J on these points exactly, whatever its weights are now.

        A quadratic program in L variables, `estimators.mkl_weights`; the weights keep the sum they
        have.
        """
        n, m = len(x), len(y)
        with torch.no_grad():
            z = kernel.embed(torch.cat([x, y]))
            members = zip(kernel.kernels, kernel.split(z), strict=True)
            found = [self._mmd2_and_means(member, seen, n, m, memory) for member, seen in members]
            b, means = (
                torch.stack([mmd2 for mmd2, _ in found]),
                torch.stack([each for _, each in found], 1),
            )
            paired = self.paired and n == m
            A = covariance_paired(means) if paired else covariance_unpaired(means[:n], means[n:])
        return mkl_weights(
            b, A, self._lambda(n, m), total=float(kernel.weights.sum()), penalty=self.penalty
        )

    def _mmd2_and_means(
        self, kernel: Kernel, z: Embedded, n: int, m: int, memory: int
    ) -> tuple[Tensor, Tensor]:
        """MMD^2, and what has its variance: the (n,) mean_j H_ij of pairs, else the (n + m,) values of the witness."""
        sums, (xx, yy, xy) = _sums(kernel, z, n, memory)
        if self.paired and n == m:
            crossed = (
                kernel.pairs(tuple(part[:n] for part in z), tuple(part[n:] for part in z))
                .to(sums.dtype)
                .sum()
            )
            return mmd2_paired(xx, yy, xy, crossed, n), (
                sums[:n, 0] - sums[:n, 1] - sums[n:, 0] + sums[n:, 1]
            ) / n
        return mmd2_unbiased(xx, yy, xy, n, m), sums[:, 0] / n - sums[:, 1] / m


@dataclass(frozen=True)
class MeanDiscrepancy:
    """MMD^2 itself, without the standard deviation it is measured in: the objective M of the paper's ablation."""

    def __call__(
        self, kernel: Kernel, x: Tensor, y: Tensor, *, memory: int = DEFAULT_MEMORY
    ) -> Tensor:
        """The unbiased MMD^2 of a batch: a differentiable scalar, to be maximised."""
        _, (xx, yy, xy) = _sums(kernel, kernel.embed(torch.cat([x, y])), len(x), memory)
        return mmd2_unbiased(xx, yy, xy, len(x), len(y))


@dataclass(frozen=True)
class CrossEntropy:
    """How well one score tells X from Y: minus the mean cross-entropy of a classifier, C of the paper's ablation.

    The representation must see points through one score, positive for X, as
    `OnFeatures(Classifier(), ...)` does.
    """

    def __call__(
        self, kernel: Kernel, x: Tensor, y: Tensor, *, memory: int = DEFAULT_MEMORY
    ) -> Tensor:
        """Minus the cross-entropy of a batch, both samples weighted alike; to be maximised."""
        (scores,) = kernel.embed(torch.cat([x, y]))
        if scores.shape[1] != 1:
            raise IncompatibleParts(
                f"CrossEntropy() trains one score, but {kernel!r} sees {scores.shape[1]} features. "
                "Use OnFeatures(Classifier(network), Linear())."
            )
        of_x, of_y = scores[: len(x), 0].double(), scores[len(x) :, 0].double()
        return -(nn.functional.softplus(-of_x).mean() + nn.functional.softplus(of_y).mean()) / 2


@dataclass(frozen=True)
class Noncentrality:
    """What Hotelling's T^2 of the features of two samples grows with for each point: the objective of ME and SCF.

    d' (S + lambda I)^-1 d with d the difference of the mean features and S its covariance times the
    number of points; times the points of a sample, it is the noncentrality of the limiting
    chi-squared law [Jitkrittum2016].

    Parameters
    ----------
    regulariser
        lambda, added to the variances.
    """

    regulariser: float = 1e-5

    def __call__(
        self, features: nn.Module, x: Tensor, y: Tensor, *, memory: int = DEFAULT_MEMORY
    ) -> Tensor:
        """The objective of a batch: a differentiable scalar, to be maximised."""
        f: Tensor = features(torch.cat([x, y]))
        f = f.to(accumulator(f.device))
        return noncentrality(f[: len(x)], f[len(x) :], self.regulariser)


def _sums(
    kernel: Kernel, z: Embedded, n: int, memory: int
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Of a pooled batch, X first: (N, 2) row sums over X and over Y, and the sums over XX, YY (i != j) and XY."""
    labels = torch.zeros(len(z[0]), 2, dtype=z[0].dtype, device=z[0].device)
    labels[:n, 0] = 1
    labels[n:, 1] = 1
    sums = row_sums(kernel, z, labels, memory=memory)
    own = kernel.pairs(z, z).to(sums.dtype)  # k(z_i, z_i)
    return sums, (
        sums[:n, 0].sum() - own[:n].sum(),
        sums[n:, 1].sum() - own[n:].sum(),
        sums[:n, 1].sum(),
    )
