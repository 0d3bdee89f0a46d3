"""Kernels: what pairs of points are compared with, as `nn.Module`s that compose.

A kernel splits its work in two, so that a network runs once for N points and not once for each of
their pairs: `embed(points)` gives what the pairs need, `tile(a, b)` compares embedded points.
Kernels with a closed-form gradient override `tile_and_pullback`; every other kernel, a user's
included, gets it from autograd.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor, nn

from ._products import (
    Embedded,
    GradientList,
    Gradients,
    Parameters,
    Pullback,
    Sides,
    TileAndPullback,
)
from .errors import IncompatibleParts, InputError

# Points enough for a median or for a start: both change little with more of them.
_START_POINTS = 1000
# The rows of tiles of which only the diagonals are kept: small, since the rest is thrown away.
_DIAGONAL_ROWS = 32


class Embedding(nn.Module, ABC):
    """What a statistic compares points by: one kernel, or several.

    Called with (n, ...) and (m, ...) points, it gives a value for each pair of them.
    """

    @abstractmethod
    def embed(self, points: Tensor) -> Embedded:
        """(N, ...) points -> tensors with one row a point. Differentiable."""


class Kernel(Embedding):
    """A symmetric positive semidefinite function of two points.

    To add one, write `tile`; override `embed` if points pass through something first, `pairs` where
    the diagonal of a tile is cheap on its own, `tile_and_pullback` where the gradient has a closed
    form, and `sides` with `cross` where a tile repeats work that concerns one of its sides alone.
    """

    def embed(self, points: Tensor) -> Embedded:
        """(N, ...) points -> `parts` tensors with one row a point. Differentiable."""
        return (points.flatten(1),)

    @property
    def parts(self) -> int:
        """How many tensors `embed` returns."""
        return 1

    @property
    def sees_points(self) -> bool:
        """Whether `embed` gives the points as they are, one row each, and nothing else."""
        return type(self).embed in (Kernel.embed, Radial.embed)

    def centred(self, z: Embedded) -> Embedded:
        """Embedded points moved to where `tile` is most precise.

        For a kernel of distances that is around the origin.
        """
        return z

    @abstractmethod
    def tile(self, a: Embedded, b: Embedded) -> Tensor:
        """(len(a), len(b)) kernel values between embedded points."""

    def sides(self, z: Embedded) -> Sides:
        """Embedded points as the left and as the right side of tiles.

        Each side has `parts` tensors with one row a point.
        """
        return z, z

    def cross(self, left: Embedded, right: Embedded) -> Tensor:
        """`tile(a, b)` from the left side of `a` and the right side of `b`; without gradient."""
        return self.tile(left, right)

    def features(self, z: Embedded) -> Tensor | None:
        """(N, p) vectors whose inner products are the kernel, where p is small.

        Then no sum needs the pairs. None where there are no such vectors.
        """
        return None

    @property
    def is_inner_product(self) -> bool:
        """Whether `features` gives vectors, whose inner products the kernel then is."""
        return type(self).features is not Kernel.features

    @property
    def decides(self) -> bool:
        """Whether it sees only the sign of a score, so that the MMD is an accuracy."""
        return False

    def pairs(self, a: Embedded, b: Embedded) -> Tensor:
        """(N,) kernel values k(a_i, b_i) between embedded points. Differentiable."""
        pieces = []
        for start in range(0, len(a[0]), _DIAGONAL_ROWS):
            a_part = _cut(a, start, _DIAGONAL_ROWS)
            b_part = _cut(b, start, _DIAGONAL_ROWS)
            tile = self.tile(a_part, b_part)
            pieces.append(tile.diagonal())
        return torch.cat(pieces)

    def tile_parameters(self) -> Parameters:
        """The parameters that `tile` depends on (those of `embed` may be among them)."""
        return tuple(self.parameters())

    def tile_and_pullback(self, a: Embedded, b: Embedded) -> TileAndPullback:
        """`tile(a, b)`, and the function that pulls a gradient of it back.

        It pulls it back to a, b and `tile_parameters()`. Here that is autograd, for any kernel.
        """
        with torch.enable_grad():
            # Leaves of a graph of this tile alone: the caller's graph never grows by tiles.
            a = tuple(part.detach().requires_grad_() for part in a)
            b = tuple(part.detach().requires_grad_() for part in b)
            tile = self.tile(a, b)

        def pullback(grad: Tensor, needs: Sequence[bool]) -> Gradients:
            points = list(itertools.compress(a + b, [*needs, *needs]))
            parameters = self.tile_parameters()
            learns = [parameter.requires_grad for parameter in parameters]
            learned = list(itertools.compress(parameters, learns))
            gradients: Sequence[Tensor | None] = ()
            if points or learned:
                gradients = torch.autograd.grad(
                    tile,
                    points + learned,
                    grad,
                    retain_graph=True,  # so that a tile can be pulled back more than once
                    allow_unused=True,
                )
            # A tile need not depend on all that it is given. Points that were asked for get zeros
            # all the same, parameters None.
            into_points = []
            for part, gradient in zip(points, gradients, strict=False):
                into_points.append(torch.zeros_like(part) if gradient is None else gradient)
            into_learned = gradients[len(points) :]
            half = len(points) // 2
            into_a = _spread(into_points[:half], needs)
            into_b = _spread(into_points[half:], needs)
            return into_a, into_b, _spread(into_learned, learns)

        return tile, pullback

    def start(self, points: Tensor, generator: torch.Generator) -> None:
        """Fill in what was left open, such as a bandwidth, from pooled points, blind to labels."""

    def open_bandwidth(self) -> OpenBandwidth | None:
        """The kernel whose bandwidth is open, and which part of `embed` it sees, or None.

        Training starts that bandwidth by a grid on J.
        """
        return None

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The (len(x), len(y)) kernel matrix. Differentiable; for matrices that fit in memory."""
        # Embedded together, so that no batch normalisation can see which points are whose.
        z = self.embed(torch.cat([x, y]))
        # Centred together too: points of x and of y must move by the same vector.
        z = self.centred(z)
        n = len(x)
        x_part = _cut(z, 0, n)
        y_part = _cut(z, n, len(y))
        return self.tile(x_part, y_part)


# Kernels of the distance.


class Radial(Kernel):
    """A kernel of the distance in units of a bandwidth sigma, learned in log space.

    Parameters
    ----------
    bandwidth
        sigma; None takes `factor` times the `median_bandwidth` of the first points it sees.
    factor
        That multiple. Kernels of several factors can stand in one sum.
    """

    norm: ClassVar[float] = 2.0
    """Which distance: 2 for the Euclidean one, 1 for the sum of absolute differences."""

    def __init__(self, bandwidth: float | None = None, *, factor: float = 1.0) -> None:
        super().__init__()
        if bandwidth is not None and not 0 < bandwidth < math.inf:
            raise InputError(
                f"bandwidth is {bandwidth}; it must be a positive number, or None for the median "
                "heuristic."
            )
        if not 0 < factor < math.inf:
            raise InputError(
                f"factor is {factor}; it must be a positive number: the bandwidth over the median."
            )
        self.factor = factor
        # NaN stands for a bandwidth that is open, so that it survives a `state_dict`.
        logarithm = math.nan if bandwidth is None else math.log(bandwidth)
        self.log_bandwidth = nn.Parameter(torch.tensor(logarithm))
        self._settled = bandwidth is not None

    @property
    def bandwidth(self) -> float | None:
        """sigma, or None while it is open."""
        value = float(self.log_bandwidth.detach().exp())
        return None if math.isnan(value) else value

    def start(self, points: Tensor, generator: torch.Generator) -> None:
        if self.bandwidth is None:
            median = median_bandwidth(points, generator, norm=self.norm)
            self.set_bandwidth(self.factor * median)

    def open_bandwidth(self) -> OpenBandwidth | None:
        return (self, 0) if self.bandwidth is None else None

    def set_bandwidth(self, bandwidth: float) -> None:
        """Put sigma at a value, keeping it learnable."""
        with torch.no_grad():
            self.log_bandwidth.fill_(math.log(bandwidth))

    def embed(self, points: Tensor) -> Embedded:
        # Asked once: at every step of a training, a device would have to be waited for.
        self._settled = self._settled or self.bandwidth is not None
        if not self._settled:
            median = median_bandwidth(points.detach(), norm=self.norm)
            self.set_bandwidth(self.factor * median)
        return (points.flatten(1),)

    def centred(self, z: Embedded) -> Embedded:
        # Distances by a matrix product lose their digits far from the origin. They do not change
        # when all points move, so no gradient goes through the mean; and with one centre for all
        # tiles, duplicates compare alike in each.
        (points,) = z
        centre = points.detach().mean(0)
        return (points - centre,)

    def tile_parameters(self) -> Parameters:
        return (self.log_bandwidth,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_bandwidth(self)})"


OpenBandwidth: TypeAlias = tuple[Radial, int]


class SmoothRadial(Radial):
    """A function of t = -|x - y|^2 / (2 sigma^2) that is smooth at t = 0.

    A tile takes one matrix product. Such a product gives |x - y|^2 with an absolute error, and only
    a kernel with a bounded slope dk/dt forgives that where points almost coincide. Subclasses give
    the value and the slope; the gradients follow from them:

        dk/dx = -(x - y) / sigma^2 dk/dt    and    dk/d log sigma = -2 t dk/dt.
    """

    least: ClassVar[float] = -math.inf
    """t is never taken to be less."""

    @abstractmethod
    def value(self, t: Tensor, *, overwrite: bool = False) -> Tensor:
        """The kernel as a function of t, elementwise; it may be written over t if `overwrite`."""

    @abstractmethod
    def slope(self, tile: Tensor) -> Tensor:
        """dk/dt where k is `tile`, elementwise."""

    def tile(self, a: Embedded, b: Embedded) -> Tensor:
        (u,) = a
        (v,) = b
        t = self._exponent(u, v)
        return self.value(t, overwrite=True)

    def sides(self, z: Embedded) -> Sides:
        (points,) = z
        left = self._left(points)
        right = self._right(points)
        return (left,), (right,)

    def cross(self, left: Embedded, right: Embedded) -> Tensor:
        t = left[0] @ right[0].T
        t.clamp_(self.least, 0)
        return self.value(t, overwrite=True)

    def pairs(self, a: Embedded, b: Embedded) -> Tensor:
        (u,) = a
        (v,) = b
        # Differences, not a matrix product: there are only N of them, and they are exact near 0.
        distances = (u - v).square().sum(1)
        return self.value(distances * self._rate(), overwrite=True)

    def tile_and_pullback(self, a: Embedded, b: Embedded) -> TileAndPullback:
        (u,) = a
        (v,) = b
        t = self._exponent(u, v)
        tile = self.value(t)  # not over t, which the gradient of log sigma needs

        def pullback(grad: Tensor, needs: Sequence[bool]) -> Gradients:
            by_t = grad * self.slope(tile)  # (r, c) dJ/dt
            into_u = None
            into_v = None
            if needs[0]:
                rate = 2 * self._rate()
                into_u = rate * _pulled(by_t, u, v)
                into_v = rate * _pulled(by_t.T, v, u)
            into_log_bandwidth = -2 * _dot(by_t, t)
            return [into_u], [into_v], [into_log_bandwidth]

        return tile, pullback

    def _rate(self) -> Tensor:
        """What |x - y|^2 is multiplied by: -1 / (2 sigma^2)."""
        return -0.5 * torch.exp(-2 * self.log_bandwidth)

    def _exponent(self, u: Tensor, v: Tensor) -> Tensor:
        """-|u_i - v_j|^2 / (2 sigma^2) as one matrix product: (u, |u|^2, 1) (-2 v, 1, |v|^2)'."""
        exponent = self._left(u) @ self._right(v).T
        return exponent.clamp_(self.least, 0)  # rounding can make a squared distance negative

    def _left(self, u: Tensor) -> Tensor:
        squares = u.square().sum(1, keepdim=True)
        ones = u.new_ones(len(u), 1)
        # The rate stands on this side alone, so a tile needs no multiplication after the product.
        return torch.cat([u, squares, ones], 1) * self._rate()

    def _right(self, v: Tensor) -> Tensor:
        squares = v.square().sum(1, keepdim=True)
        ones = v.new_ones(len(v), 1)
        return torch.cat([-2 * v, ones, squares], 1)


class Gaussian(SmoothRadial):
    """exp(-|x - y|^2 / (2 sigma^2)) with the bandwidth sigma learned in log space.

    Parameters
    ----------
    bandwidth
        sigma; None takes `factor` times the `median_bandwidth` of the first points it sees.
    factor
        That multiple. Kernels of several factors can stand in one sum.

    Examples
    --------
    >>> import torch, twosample
    >>> kernel = twosample.Gaussian(bandwidth=1.0)
    >>> kernel(torch.zeros(1, 2), torch.ones(1, 2)).item()  # exp(-1)
    0.3678794503211975
    """

    # Below e^-40 a value counts for nothing, but the denormals there slow CPUs down.
    least = -40.0

    def value(self, t: Tensor, *, overwrite: bool = False) -> Tensor:
        return t.exp_() if overwrite else t.exp()

    def slope(self, tile: Tensor) -> Tensor:
        return tile


class InverseMultiquadric(SmoothRadial):
    """(1 + |x - y|^2 / (2 sigma^2))^(-1/2): its tails are heavy, so distant points still pull.

    Parameters
    ----------
    bandwidth, factor
        sigma, as in `Gaussian`.

    Examples
    --------
    >>> import torch
    >>> from twosample._kernels import InverseMultiquadric
    >>> kernel = InverseMultiquadric(bandwidth=1.0)
    >>> kernel(torch.zeros(1, 2), torch.full((1, 2), 3 ** 0.5)).item()  # (1 + 3)^(-1/2)
    0.5
    """

    def value(self, t: Tensor, *, overwrite: bool = False) -> Tensor:
        return torch.rsqrt(1 - t)

    def slope(self, tile: Tensor) -> Tensor:
        return tile**3 / 2  # of k = (1 - t)^(-1/2)


class Laplace(Radial):
    """exp(-|x - y| / sigma): a sharp peak, which sees differences at every scale.

    Near a coincidence of points its slope does not vanish (at one, the gradient is taken to be
    zero), so distances are sums of squared differences and not matrix products: much slower where
    points have many columns.

    Parameters
    ----------
    bandwidth, factor
        sigma, as in `Gaussian`.

    Examples
    --------
    >>> import torch
    >>> from twosample._kernels import Laplace
    >>> Laplace(bandwidth=5.0)(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]])).item()  # exp(-1)
    0.3678794503211975
    """

    def tile(self, a: Embedded, b: Embedded) -> Tensor:
        (u,) = a
        (v,) = b
        distances = torch.cdist(u, v, p=self.norm, compute_mode="donot_use_mm_for_euclid_dist")
        return self._value(distances)

    def pairs(self, a: Embedded, b: Embedded) -> Tensor:
        (u,) = a
        (v,) = b
        distances = torch.linalg.vector_norm(u - v, ord=self.norm, dim=1)
        return self._value(distances)

    def _value(self, distances: Tensor) -> Tensor:
        rate = -torch.exp(-self.log_bandwidth)
        exponent = distances * rate
        exponent.clamp_(min=Gaussian.least)  # no denormals, as in a Gaussian
        return exponent.exp_()


class ManhattanLaplace(Laplace):
    """exp(-sum_c |x_c - y_c| / sigma): a product of one Laplace kernel for each column.

    Parameters
    ----------
    bandwidth, factor
        sigma, as in `Gaussian`; the median is that of these distances.

    Examples
    --------
    >>> import torch, twosample
    >>> kernel = twosample.ManhattanLaplace(bandwidth=7.0)
    >>> kernel(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]])).item()  # exp(-1)
    0.3678794503211975
    """

    norm = 1.0


# Inner products.


class Linear(Kernel):
    """x . y, for points that are features already."""

    def tile(self, a: Embedded, b: Embedded) -> Tensor:
        return a[0] @ b[0].T

    def pairs(self, a: Embedded, b: Embedded) -> Tensor:
        return (a[0] * b[0]).sum(1)

    def tile_and_pullback(self, a: Embedded, b: Embedded) -> TileAndPullback:
        (u,) = a
        (v,) = b

        def pullback(grad: Tensor, needs: Sequence[bool]) -> Gradients:
            if not needs[0]:
                return [None], [None], []
            into_u = grad @ v
            into_v = grad.T @ u
            return [into_u], [into_v], []

        return u @ v.T, pullback

    def features(self, z: Embedded) -> Tensor | None:
        return z[0]

    def __repr__(self) -> str:
        return "Linear()"


class Sign(Kernel):
    """1(x > 0) . 1(y > 0), for points that are scores: the kernel of C2ST-S, up to a factor.

    With it sqrt(biased MMD^2) = |2 balanced accuracy - 1| at any sample sizes [Liu2020, section 4].
    It has no gradient.
    """

    def tile(self, a: Embedded, b: Embedded) -> Tensor:
        return self.features(a) @ self.features(b).T

    def pairs(self, a: Embedded, b: Embedded) -> Tensor:
        products = self.features(a) * self.features(b)
        return products.sum(1)

    def features(self, z: Embedded) -> Tensor:
        (scores,) = z
        return (scores > 0).to(scores.dtype)

    @property
    def decides(self) -> bool:
        return True

    def check_objective(self, objective: object, steps: int) -> None:
        """Refuse an objective that would need a gradient through the signs."""
        if objective is not None and not getattr(objective, "trains_score", False):
            raise IncompatibleParts(
                f"Sign() has no gradient, so {objective!r} cannot train it. Use CrossEntropy()."
            )

    def __repr__(self) -> str:
        return "Sign()"


class Probability(Kernel):
    """sigmoid(x) . sigmoid(y), for points that are scores: C2ST-L as the authors' code has it."""

    def tile(self, a: Embedded, b: Embedded) -> Tensor:
        return self.features(a) @ self.features(b).T

    def pairs(self, a: Embedded, b: Embedded) -> Tensor:
        products = self.features(a) * self.features(b)
        return products.sum(1)

    def features(self, z: Embedded) -> Tensor:
        (scores,) = z
        return torch.sigmoid(scores)

    def __repr__(self) -> str:
        return "Probability()"


# Kernels made of others.


class Mapped(Kernel):
    """k(phi(x), phi(y)): a kernel behind a map of the points."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel

    @abstractmethod
    def _map(self, points: Tensor) -> Tensor:
        """phi: what the kernel sees. Differentiable."""

    @abstractmethod
    def _start_map(self, points: Tensor, generator: torch.Generator) -> None:
        """Fill in whatever phi leaves open."""

    @property
    def parts(self) -> int:
        return self.kernel.parts

    def embed(self, points: Tensor) -> Embedded:
        return self.kernel.embed(self._map(points))

    def centred(self, z: Embedded) -> Embedded:
        return self.kernel.centred(z)

    def tile(self, a: Embedded, b: Embedded) -> Tensor:
        return self.kernel.tile(a, b)

    def sides(self, z: Embedded) -> Sides:
        return self.kernel.sides(z)

    def cross(self, left: Embedded, right: Embedded) -> Tensor:
        return self.kernel.cross(left, right)

    def pairs(self, a: Embedded, b: Embedded) -> Tensor:
        return self.kernel.pairs(a, b)

    def features(self, z: Embedded) -> Tensor | None:
        return self.kernel.features(z)

    @property
    def is_inner_product(self) -> bool:
        return self.kernel.is_inner_product

    @property
    def decides(self) -> bool:
        return self.kernel.decides

    def tile_parameters(self) -> Parameters:
        return self.kernel.tile_parameters()

    def tile_and_pullback(self, a: Embedded, b: Embedded) -> TileAndPullback:
        return self.kernel.tile_and_pullback(a, b)

    def start(self, points: Tensor, generator: torch.Generator) -> None:
        # The map first: the bandwidth is the median of what it gives.
        self._start_map(points, generator)
        features = _features(self._map, points, generator)
        self.kernel.start(features, generator)

    def open_bandwidth(self) -> OpenBandwidth | None:
        return self.kernel.open_bandwidth()


class OnFeatures(Mapped):
    """k(phi(x), phi(y)): a kernel behind a network."""

    def __init__(self, featurizer: nn.Module, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.featurizer = featurizer

    def _map(self, points: Tensor) -> Tensor:
        features: Tensor = self.featurizer(points)
        return features

    def _start_map(self, points: Tensor, generator: torch.Generator) -> None:
        start_featurizer(self.featurizer, points, generator)

    def __repr__(self) -> str:
        return f"OnFeatures({self.featurizer!r}, {self.kernel!r})"


class ARDGaussian(Mapped):
    """exp(-sum_c (x_c - y_c)^2 / (2 sigma_c^2)): a Gaussian that learns a width for every column.

    What a column counts for is 1 / sigma_c, so the learned `widths` say which columns tell the
    samples apart. It is a Gaussian of one bandwidth, learned too, behind a map that scales the
    columns.

    Parameters
    ----------
    bandwidth, factor
        Where all the sigma_c start, as in `Gaussian`.
    widths
        One sigma_c for each column, instead of a bandwidth.

    Examples
    --------
    >>> import torch
    >>> from twosample._kernels import ARDGaussian
    >>> kernel = ARDGaussian(widths=[1.0, 1e6])  # the second column hardly counts
    >>> kernel(torch.zeros(1, 2), torch.tensor([[2.0, 99.0]])).item()  # exp(-2)
    0.13533528
    """

    kernel: Gaussian

    def __init__(
        self,
        bandwidth: float | None = None,
        *,
        widths: Sequence[float] | None = None,
        factor: float = 1.0,
    ) -> None:
        if bandwidth is not None and widths is not None:
            raise InputError(
                f"bandwidth={bandwidth} and {len(widths)} widths were given; give one or the other."
            )
        logarithms: list[float] = []
        if widths is not None:
            if not len(widths) or not all(0 < width < math.inf for width in widths):
                raise InputError(
                    f"widths are {list(widths)}; they must be positive numbers, one for each "
                    "column."
                )
            bandwidth = 1.0  # sigma_c is a width times the bandwidth
            logarithms = [math.log(width) for width in widths]
        super().__init__(Gaussian(bandwidth, factor=factor))
        # Without widths it is empty until the first points tell how many columns there are.
        self.log_widths = nn.Parameter(torch.tensor(logarithms))

    @property
    def widths(self) -> Tensor | None:
        """(columns,) sigma_c in the units of the points it sees, or None while they are open."""
        if self.kernel.bandwidth is None or not len(self.log_widths):
            return None
        logarithms = self.log_widths.detach() + self.kernel.log_bandwidth.detach()
        return torch.exp(logarithms)

    def _map(self, points: Tensor) -> Tensor:
        flat = points.flatten(1)
        self._size(flat.shape[1])
        return flat * torch.exp(-self.log_widths)

    def _start_map(self, points: Tensor, generator: torch.Generator) -> None:
        self._size(points.flatten(1).shape[1])

    def _size(self, columns: int) -> None:
        """One width for each of so many columns, all alike at first."""
        if not len(self.log_widths):
            # The kernel may have moved to a device, or been frozen, while it was empty.
            equal = torch.zeros(columns).to(self.kernel.log_bandwidth)
            self.log_widths = nn.Parameter(equal, requires_grad=self.log_widths.requires_grad)
        widths = len(self.log_widths)
        if widths != columns:
            raise InputError(
                f"the ARDGaussian has {widths} widths but the points have {columns} columns."
            )

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, *args: Any, **options: Any
    ) -> None:
        saved_widths = state_dict.get(f"{prefix}log_widths", ())
        # torch refuses a saved tensor of another shape, so the widths take theirs first.
        if len(saved_widths):
            self._size(len(saved_widths))
        super()._load_from_state_dict(state_dict, prefix, *args, **options)

    def __repr__(self) -> str:
        widths = self.widths
        if widths is None:
            return f"ARDGaussian({_bandwidth(self.kernel)})"
        if len(widths) > 10:
            least = _number(float(widths.min()))
            most = _number(float(widths.max()))
            return f"ARDGaussian(widths=<{len(widths)} from {least} to {most}>)"
        return f"ARDGaussian(widths={_numbers(widths)})"


class DeepKernel(Kernel):
    """[(1 - eps) kappa(phi(x), phi(y)) + eps] q(x, y): equation (1) of [Liu2020].

    Characteristic for eps > 0 if q is, whatever the network does. eps is learned through a sigmoid.

    Parameters
    ----------
    featurizer
        phi, any `nn.Module` from points to vectors.
    kappa, q
        Kernels on the features and on the points; Gaussians by default, with bandwidths from the
        data.
    eps
        The starting value of eps, in (0, 1).

    Examples
    --------
    >>> import torch, twosample
    >>> network = twosample.MLP(3, width=5)
    >>> kernel = twosample.DeepKernel(network, twosample.Gaussian(1.0), twosample.Gaussian(2.0))
    >>> kernel(torch.zeros(4, 3), torch.zeros(2, 3)).shape
    torch.Size([4, 2])
    """

    def __init__(
        self,
        featurizer: nn.Module,
        kappa: Kernel | None = None,
        q: Kernel | None = None,
        *,
        eps: float = 0.1,
    ) -> None:
        super().__init__()
        if not 0 < eps < 1:
            raise InputError(f"eps is {eps}; it must lie strictly between 0 and 1.")
        self.featurizer = featurizer
        self.kappa = Gaussian() if kappa is None else kappa
        self.q = Gaussian() if q is None else q
        # In float64 until the end: near 1, 1 - eps loses its digits in float32.
        logit = torch.logit(torch.tensor(eps, dtype=torch.float64))
        self.logit_eps = nn.Parameter(logit.float())

    @property
    def eps(self) -> float:
        """The weight of q alone."""
        return float(torch.sigmoid(self.logit_eps.detach()))

    @property
    def parts(self) -> int:
        return self.kappa.parts + self.q.parts

    def embed(self, points: Tensor) -> Embedded:
        features = self.featurizer(points)
        return self.kappa.embed(features) + self.q.embed(points)

    def _cut(self, z: Embedded) -> tuple[Embedded, Embedded]:
        """What kappa and what q see of embedded points."""
        parts = self.kappa.parts
        return z[:parts], z[parts:]

    def centred(self, z: Embedded) -> Embedded:
        features, points = self._cut(z)
        return self.kappa.centred(features) + self.q.centred(points)

    def tile(self, a: Embedded, b: Embedded) -> Tensor:
        features_a, points_a = self._cut(a)
        features_b, points_b = self._cut(b)
        mixed = self._mixed(self.kappa.tile(features_a, features_b))
        return mixed.mul_(self.q.tile(points_a, points_b))

    def _mixed(self, kappa: Tensor) -> Tensor:
        """(1 - eps) kappa + eps, in one new tensor."""
        eps = torch.sigmoid(self.logit_eps)
        return (kappa * (1 - eps)).add_(eps)

    def sides(self, z: Embedded) -> Sides:
        features, points = self._cut(z)
        left, right = self.kappa.sides(features)
        q_left, q_right = self.q.sides(points)
        if self._gaussians:
            # ((1 - eps) kappa + eps) q is e^(s + t) + e^t with the exponents s of kappa and t of q,
            # once log((1 - eps) / eps) is in s and log eps in t: one term more in their matrix
            # products.
            one = torch.ones_like(left[0][:, :1])  # (N, 1)
            log_odds = -self.logit_eps * one
            log_eps = nn.functional.logsigmoid(self.logit_eps) * one
            left = _with_column(left, one)
            q_left = _with_column(q_left, one)
            right = _with_column(right, log_odds)
            q_right = _with_column(q_right, log_eps)
        return left + q_left, right + q_right

    def cross(self, left: Embedded, right: Embedded) -> Tensor:
        if self._gaussians:
            s = left[0] @ right[0].T  # the exponent of kappa
            t = left[1] @ right[1].T  # the exponent of q
            t.clamp_(Gaussian.least, 0)
            both = s.add_(t).clamp_(2 * Gaussian.least, 0)
            return both.exp_().add_(t.exp_())
        features_left, points_left = self._cut(left)
        features_right, points_right = self._cut(right)
        mixed = self._mixed(self.kappa.cross(features_left, features_right))
        return mixed.mul_(self.q.cross(points_left, points_right))

    @property
    def _gaussians(self) -> bool:
        # Not their subclasses, which may have other values.
        return type(self.kappa) is Gaussian and type(self.q) is Gaussian

    def pairs(self, a: Embedded, b: Embedded) -> Tensor:
        features_a, points_a = self._cut(a)
        features_b, points_b = self._cut(b)
        eps = torch.sigmoid(self.logit_eps)
        kappa = self.kappa.pairs(features_a, features_b)
        q = self.q.pairs(points_a, points_b)
        return ((1 - eps) * kappa + eps) * q

    def tile_parameters(self) -> Parameters:
        of_kappa = self.kappa.tile_parameters()
        of_q = self.q.tile_parameters()
        return (*of_kappa, *of_q, self.logit_eps)

    def tile_and_pullback(self, a: Embedded, b: Embedded) -> TileAndPullback:
        features_a, points_a = self._cut(a)
        features_b, points_b = self._cut(b)
        kappa, pull_kappa = self.kappa.tile_and_pullback(features_a, features_b)
        q, pull_q = self.q.tile_and_pullback(points_a, points_b)
        eps = torch.sigmoid(self.logit_eps)
        mixed = (kappa * (1 - eps)).add_(eps)
        cut = self.kappa.parts

        def pullback(grad: Tensor, needs: Sequence[bool]) -> Gradients:
            into_mixed = grad * q
            # d mixed / d logit = eps (1 - eps) (1 - kappa)
            into_logit = eps * (1 - eps) * _dot(into_mixed, 1 - kappa)
            into_kappa = into_mixed.mul_(1 - eps)
            kappa_a, kappa_b, kappa_parameters = pull_kappa(into_kappa, needs[:cut])
            into_q = grad * mixed
            q_a, q_b, q_parameters = pull_q(into_q, needs[cut:])
            into_parameters = [*kappa_parameters, *q_parameters, into_logit]
            return kappa_a + q_a, kappa_b + q_b, into_parameters

        return mixed * q, pullback

    def start(self, points: Tensor, generator: torch.Generator) -> None:
        both_open = self.kappa.open_bandwidth() and self.q.open_bandwidth()
        start_featurizer(self.featurizer, points, generator)
        features = _features(self.featurizer, points, generator)
        self.kappa.start(features, generator)
        self.q.start(points, generator)
        if both_open:  # kappa does the work at first, and q only fades far away
            radial, _ = both_open
            radial.set_bandwidth(2 * (radial.bandwidth or 1.0))

    def open_bandwidth(self) -> OpenBandwidth | None:
        of_kappa = self.kappa.open_bandwidth()
        if of_kappa is not None:
            return of_kappa
        of_q = self.q.open_bandwidth()
        if of_q is not None:
            radial, part = of_q
            return radial, part + self.kappa.parts  # those of kappa come first
        return None

    def __repr__(self) -> str:
        eps = _number(self.eps)
        return f"DeepKernel({self.featurizer!r}, {self.kappa!r}, {self.q!r}, eps={eps})"


class WeightedSum(Kernel):
    """sum_l w_l k_l(x, y) with weights w_l >= 0, learned in log space: one kernel of many.

    `PowerCriterion.best_weights` finds the weights that maximise J exactly; a kernel of weight 0
    costs no time.

    Parameters
    ----------
    kernels
        The k_l. A bandwidth that is open takes its multiple of the median.
    weights
        The w_l; None gives all the same, adding up to 1.

    Examples
    --------
    >>> import torch
    >>> from twosample._kernels import Gaussian, Linear, WeightedSum
    >>> kernel = WeightedSum([Linear(), Gaussian(1.0)], weights=[0.1, 0.9])
    >>> kernel(torch.full((1, 2), 1.0), torch.full((1, 2), 1.0)).item()  # 0.1 * 2 + 0.9
    1.1
    """

    def __init__(
        self, kernels: Sequence[Kernel], weights: Sequence[float] | Tensor | None = None
    ) -> None:
        super().__init__()
        if not len(kernels):
            raise InputError(
                "a WeightedSum of no kernels; give it some, such as [Gaussian(factor=0.5), "
                "Gaussian()]."
            )
        for kernel in kernels:
            if not isinstance(kernel, Kernel):
                raise InputError(
                    f"a WeightedSum adds kernels, not a {type(kernel).__name__}; see OnFeatures()."
                )
        self.kernels: Sequence[Kernel] = nn.ModuleList(kernels)  # type: ignore[assignment]
        self.log_weights = nn.Parameter(torch.zeros(len(kernels)))
        if weights is None:
            weights = [1 / len(kernels)] * len(kernels)
        self.set_weights(weights)

    @property
    def weights(self) -> Tensor:
        """(L,) the w_l."""
        return torch.exp(self.log_weights.detach())

    def set_weights(self, weights: Sequence[float] | Tensor) -> None:
        """Put the w_l at other values, keeping them learnable; one that is 0 stays there."""
        given = torch.as_tensor(weights, dtype=torch.float64).detach()
        if given.shape != self.log_weights.shape:
            raise InputError(
                f"the weights have shape {tuple(given.shape)}; give one number for each of the "
                f"{len(self.kernels)} kernels."
            )
        possible = torch.isfinite(given) & (given >= 0)
        if not possible.all() or not (given > 0).any():
            raise InputError(
                f"the weights are {_numbers(given)}; they must be finite and at least 0, and one "
                "of them larger."
            )
        with torch.no_grad():
            self.log_weights.copy_(torch.log(given))  # -inf for a weight of 0

    @property
    def parts(self) -> int:
        return sum(kernel.parts for kernel in self.kernels)

    def split(self, z: Embedded) -> list[Embedded]:
        """What each kernel sees of embedded points."""
        seen = []
        start = 0
        for kernel in self.kernels:
            end = start + kernel.parts
            seen.append(z[start:end])
            start = end
        return seen

    def embed(self, points: Tensor) -> Embedded:
        z: Embedded = ()
        for kernel in self.kernels:
            z += kernel.embed(points)
        return z

    def centred(self, z: Embedded) -> Embedded:
        moved: Embedded = ()
        for kernel, own in zip(self.kernels, self.split(z), strict=True):
            moved += kernel.centred(own)
        return moved

    def tile(self, a: Embedded, b: Embedded) -> Tensor:
        total = _zero_tile(a, b)
        for _, kernel, weight, u, v in self._members(a, b):
            total.add_(kernel.tile(u, v) * weight)
        return total

    def sides(self, z: Embedded) -> Sides:
        left: Embedded = ()
        right: Embedded = ()
        for kernel, own in zip(self.kernels, self.split(z), strict=True):
            own_left, own_right = kernel.sides(own)
            left += own_left
            right += own_right
        return left, right

    def cross(self, left: Embedded, right: Embedded) -> Tensor:
        total = _zero_tile(left, right)
        for _, kernel, weight, u, v in self._members(left, right):
            total.add_(kernel.cross(u, v) * weight)
        return total

    def pairs(self, a: Embedded, b: Embedded) -> Tensor:
        total = a[0].new_zeros(len(a[0]))
        for _, kernel, weight, u, v in self._members(a, b):
            total.add_(kernel.pairs(u, v) * weight)
        return total

    def tile_parameters(self) -> Parameters:
        parameters: Parameters = ()
        for kernel in self.kernels:
            parameters += kernel.tile_parameters()
        return (*parameters, self.log_weights)

    def tile_and_pullback(self, a: Embedded, b: Embedded) -> TileAndPullback:
        total = _zero_tile(a, b)
        made: dict[int, tuple[Tensor, Tensor, Pullback]] = {}  # of the kernels that count
        for number, kernel, weight, u, v in self._members(a, b):
            tile, pull = kernel.tile_and_pullback(u, v)
            total.add_(tile * weight)
            made[number] = weight, tile, pull
        seen = self._seen(a, b)

        def pullback(grad: Tensor, needs: Sequence[bool]) -> Gradients:
            into_a: GradientList = []
            into_b: GradientList = []
            into_parameters: GradientList = []
            into_weights = []
            for number, (kernel, u, v) in enumerate(seen):
                start = len(into_a)
                wanted = needs[start : start + kernel.parts]
                if number in made:
                    weight, tile, pull = made[number]
                    at_a, at_b, at_parameters = pull(grad * weight, wanted)
                    # d w / d log w = w
                    into_weights.append(weight * _dot(grad, tile))
                else:
                    # A weight of 0 stays there: neither it nor its kernel has a gradient.
                    at_a = _zeros_where(wanted, u)
                    at_b = _zeros_where(wanted, v)
                    at_parameters = [None] * len(kernel.tile_parameters())
                    into_weights.append(grad.new_zeros(()))
                into_a += at_a
                into_b += at_b
                into_parameters += at_parameters
            into_parameters.append(torch.stack(into_weights))
            return into_a, into_b, into_parameters

        return total, pullback

    def _seen(self, a: Embedded, b: Embedded) -> list[tuple[Kernel, Embedded, Embedded]]:
        """Each kernel, and what it sees of a and of b."""
        return list(zip(self.kernels, self.split(a), self.split(b), strict=True))

    def _members(self, a: Embedded, b: Embedded) -> Iterator[_Member]:
        """The kernels that count: number, kernel, weight and what the kernel sees of a and of b."""
        weights = torch.exp(self.log_weights)
        counts = (self.log_weights.detach() > -math.inf).tolist()
        for number, (kernel, u, v) in enumerate(self._seen(a, b)):
            if counts[number]:
                yield number, kernel, weights[number], u, v

    def start(self, points: Tensor, generator: torch.Generator) -> None:
        for kernel in self.kernels:
            kernel.start(points, generator)

    def __repr__(self) -> str:
        weights = self.weights.double()
        kernels = ", ".join(map(repr, self.kernels))
        equal = torch.full_like(weights, 1 / len(weights))
        if torch.allclose(weights, equal, rtol=1e-6):  # they are kept as float32
            return f"WeightedSum([{kernels}])"
        return f"WeightedSum([{kernels}], weights={_numbers(weights)})"


_Member: TypeAlias = tuple[int, Kernel, Tensor, Embedded, Embedded]


# Where kernels and featurizers start.


def median_bandwidth(
    points: Tensor,
    generator: torch.Generator | None = None,
    *,
    max_points: int = _START_POINTS,
    norm: float = 2.0,
) -> float:
    """The median distance between pairs of at most `max_points` points.

    They are drawn by the generator, or else evenly. Where more than half of the distances are zero,
    the median of the others; where all are, 1. With `norm` 1, distances are sums of absolute
    differences.
    """
    distances = pairwise_distances(points, generator, max_points=max_points, norm=norm)
    median = float(distances.median()) if len(distances) else 0.0
    if median == 0:
        # Most pairs are equal, as in columns of few values. A bandwidth of 0 would see only that.
        distances = distances[distances > 0]
        median = float(distances.median()) if len(distances) else 1.0
    return median


def pairwise_distances(
    points: Tensor,
    generator: torch.Generator | None = None,
    *,
    max_points: int = _START_POINTS,
    norm: float = 2.0,
) -> Tensor:
    """(pairs,) the distances between at most `max_points` points, drawn as in `median_bandwidth`.

    In float64.
    """
    subset = _subset(points, generator, max_points).flatten(1).cpu().double()
    return torch.pdist(subset, norm)


def embedding_of(representation: nn.Module) -> Callable[[Tensor], Embedded]:
    """What a test sees points through: the `embed` of one kernel or of several, or features."""
    if isinstance(representation, Embedding):
        return representation.embed
    return _FeaturesOf(representation)


class _FeaturesOf:
    """The features of points, as a tuple like that of `Kernel.embed`; it can travel to workers."""

    def __init__(self, featurizer: nn.Module) -> None:
        self.featurizer = featurizer

    def __call__(self, points: Tensor) -> Embedded:
        return (self.featurizer(points).flatten(1),)


def start_featurizer(featurizer: nn.Module, points: Tensor, generator: torch.Generator) -> None:
    """Let a featurizer that can start from data do so; any other module keeps its weights."""
    start = getattr(featurizer, "start", None)
    if callable(start):
        start(points, generator)


def _features(
    featurizer: Callable[[Tensor], Tensor],
    points: Tensor,
    generator: torch.Generator,
) -> Tensor:
    with torch.no_grad():
        subset = _subset(points, generator, _START_POINTS)
        return featurizer(subset)


def _subset(points: Tensor, generator: torch.Generator | None, count: int) -> Tensor:
    total = len(points)
    if total <= count:
        return points
    if generator is None:
        # Evenly, so that both samples are among them where these are pooled points.
        index = torch.linspace(0, total - 1, count).long()
    else:
        index = torch.randperm(total, generator=generator)[:count]
    return points[index.to(points.device)]


# Rows, columns and gradients.


def _cut(z: Embedded, start: int, rows: int) -> Embedded:
    return tuple(part[start : start + rows] for part in z)


def _zero_tile(a: Embedded, b: Embedded) -> Tensor:
    rows = len(a[0])
    columns = len(b[0])
    return a[0].new_zeros(rows, columns)


def _spread(gradients: Sequence[Tensor | None], wanted: Sequence[bool]) -> GradientList:
    """The gradients at the places that want one, None at the others."""
    following = iter(gradients)
    return [next(following) if want else None for want in wanted]


def _zeros_where(wanted: Sequence[bool], z: Embedded) -> GradientList:
    zeros: GradientList = []
    for part, want in zip(z, wanted, strict=True):
        zeros.append(torch.zeros_like(part) if want else None)
    return zeros


def _pulled(weights: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """sum_j w_ij (u_i - v_j) for (r, c) weights w: (r, columns)."""
    ones = v.new_ones(len(v), 1)
    sums = weights @ torch.cat([v, ones], 1)
    total = sums[:, -1:]  # sum_j w_ij, from the column of ones
    return total * u - sums[:, :-1]


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """The sum of the products of two matrices, element by element, without a third matrix."""
    return torch.dot(a.reshape(-1), b.reshape(-1))


def _with_column(side: Embedded, column: Tensor) -> Embedded:
    return (torch.cat([side[0], column], 1),)


# Arguments as code.


def _bandwidth(kernel: Radial) -> str:
    """The arguments of a radial kernel, as code."""
    arguments = f"bandwidth={_number(kernel.bandwidth)}"
    # The factor matters only while the bandwidth is open.
    if kernel.bandwidth is None and kernel.factor != 1:
        arguments += f", factor={_number(kernel.factor)}"
    return arguments


def _numbers(values: Tensor) -> str:
    return f"[{', '.join(map(_number, values.tolist()))}]"


def _number(value: float | None) -> str:
    return "None" if value is None else f"{value:.6g}"
