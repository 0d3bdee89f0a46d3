"""What training pushes up: an objective holds settings, is given the representation, and keeps nothing."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .errors import IncompatibleParts
from .estimators import REGULARISER, mmd2_paired, mmd2_unbiased, power_criterion, variance_paired, variance_unpaired
from .kernels import Kernel
from .products import DEFAULT_MEMORY, Embedded, row_sums


@dataclass(frozen=True)
class PowerCriterion:
    """J of equation (4): MMD^2 over its standard deviation under the alternative, what test power grows with.

    For equal sizes, the paper's paired estimators; otherwise the unbiased MMD^2 and the variance of the
    witness. Tiled: no N x N graph.

    Parameters
    ----------
    regulariser
        lambda, added to the variance.
    paired
        Whether samples of one size are taken as pairs, as in the paper. False gives a value that does not depend on
        the order of the points.

    Examples
    --------
    >>> import torch, twosample
    >>> x, y = torch.zeros(5, 2), torch.ones(5, 2)
    >>> round(twosample.PowerCriterion()(twosample.Gaussian(1.0), x, y).item())  # no spread at all: only lambda is left
    12642
    """

    regulariser: float = REGULARISER
    paired: bool = True

    def __call__(self, kernel: Kernel, x: Tensor, y: Tensor, *, memory: int = DEFAULT_MEMORY) -> Tensor:
        """J of a batch: a differentiable scalar, to be maximised. `memory` is the budget of the tiles, in bytes."""
        n, m = len(x), len(y)
        z, sums, (xx, yy, xy) = _sums(kernel, x, y, memory)
        if self.paired and n == m:
            crossed = kernel.pairs(tuple(part[:n] for part in z), tuple(part[n:] for part in z)).to(sums.dtype).sum()
            h = (sums[:n, 0] - sums[:n, 1] - sums[n:, 0] + sums[n:, 1]) / n
            return power_criterion(mmd2_paired(xx, yy, xy, crossed, n), variance_paired(h), self.regulariser)
        witness = sums[:, 0] / n - sums[:, 1] / m
        variance = variance_unpaired(witness[:n], witness[n:])
        return power_criterion(mmd2_unbiased(xx, yy, xy, n, m), variance, self.regulariser)


@dataclass(frozen=True)
class MeanDiscrepancy:
    """MMD^2 itself, without the standard deviation it is measured in: the objective M of the paper's ablation."""

    def __call__(self, kernel: Kernel, x: Tensor, y: Tensor, *, memory: int = DEFAULT_MEMORY) -> Tensor:
        """The unbiased MMD^2 of a batch: a differentiable scalar, to be maximised."""
        _, _, (xx, yy, xy) = _sums(kernel, x, y, memory)
        return mmd2_unbiased(xx, yy, xy, len(x), len(y))


@dataclass(frozen=True)
class CrossEntropy:
    """How well one score tells X from Y: minus the mean cross-entropy of a classifier, C of the paper's ablation.

    The representation must see points through one score, positive for X, as `OnFeatures(Classifier(), ...)` does.
    """

    def __call__(self, kernel: Kernel, x: Tensor, y: Tensor, *, memory: int = DEFAULT_MEMORY) -> Tensor:
        """Minus the cross-entropy of a batch, both samples weighted alike; to be maximised."""
        (scores,) = kernel.embed(torch.cat([x, y]))
        if scores.shape[1] != 1:
            raise IncompatibleParts(
                f"CrossEntropy() trains one score, but {kernel!r} sees {scores.shape[1]} features. "
                "Use OnFeatures(Classifier(network), Linear())."
            )
        of_x, of_y = scores[: len(x), 0].double(), scores[len(x) :, 0].double()
        return -(nn.functional.softplus(-of_x).mean() + nn.functional.softplus(of_y).mean()) / 2


def _sums(kernel: Kernel, x: Tensor, y: Tensor, memory: int) -> tuple[Embedded, Tensor, tuple[Tensor, Tensor, Tensor]]:
    """The embedded pooled batch, (N, 2) row sums over X and over Y, and the sums over XX, YY (i != j) and XY."""
    n, m = len(x), len(y)
    z = kernel.embed(torch.cat([x, y]))
    labels = torch.zeros(n + m, 2, dtype=z[0].dtype, device=z[0].device)
    labels[:n, 0] = 1
    labels[n:, 1] = 1
    sums = row_sums(kernel, z, labels, memory=memory)
    own = kernel.pairs(z, z).to(sums.dtype)  # k(z_i, z_i)
    return z, sums, (sums[:n, 0].sum() - own[:n].sum(), sums[n:, 1].sum() - own[n:].sum(), sums[:n, 1].sum())
