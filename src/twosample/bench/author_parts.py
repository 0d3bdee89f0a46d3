"""Parts of the authors' tests that this library itself does not use.

These are points in their units, their classifiers, and ME and SCF as published.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from .._featurizers import FeatureMap, MeanEmbedding, SmoothCharacteristic
from .._kernels import Gaussian, OnFeatures, median_bandwidth, start_featurizer
from ..errors import InputError
from .experiments import ALPHA


def scaled(s: float, *, trained: Literal["s", "root"]) -> Gaussian:
    """Return exp(-D / s), of which training moves s or its root instead of a logarithm."""
    kernel = Gaussian(math.sqrt(s / 2))  # s = 2 sigma^2
    power = 0.5 if trained == "s" else 1.0
    parametrize.register_parametrization(kernel, "log_bandwidth", _LogOf(power))
    return kernel


class _LogOf(nn.Module):
    """Compute log sigma from s (power 1/2) or from its root (power 1), where s = 2 sigma^2."""

    def __init__(self, power: float) -> None:
        super().__init__()
        self.power = power

    def forward(self, value: Tensor) -> Tensor:
        """Return the log bandwidth of the trained number."""
        return self.power * torch.log(value.abs()) - 0.5 * math.log(2)

    def right_inverse(self, log_bandwidth: Tensor) -> Tensor:
        """Return the trained number that gives a log bandwidth."""
        return torch.exp((log_bandwidth + 0.5 * math.log(2)) / self.power)


class TheirUnits(nn.Module):
    """Convert points to the authors' units: undo this library's scaling and enlarge images.

    Images are enlarged to `across` x `across` pixels; None leaves points as they are.
    """

    def __init__(self, shift: Tensor, scale: Tensor, across: int | None = None) -> None:
        super().__init__()
        self.register_buffer("shift", shift.float())
        self.register_buffer("scale", scale.float())
        self.shift: Tensor
        self.scale: Tensor
        self.across = across

    def forward(self, points: Tensor) -> Tensor:
        """(N, ...) -> (N, ...)."""
        raw = points * self.scale + self.shift
        if self.across is None:
            return raw
        size = (self.across, self.across)
        return nn.functional.interpolate(raw, size=size, mode="bilinear", align_corners=False)

    def __repr__(self) -> str:
        return "TheirUnits()"


class Seen(nn.Module):
    """A network that sees points in `TheirUnits`."""

    def __init__(self, units: TheirUnits, network: nn.Module) -> None:
        super().__init__()
        self.units = units
        self.network = network

    def start(self, points: Tensor, generator: torch.Generator) -> None:
        """Start the network on points converted to their units."""
        start_featurizer(self.network, self.units(points), generator)

    def forward(self, points: Tensor) -> Tensor:
        """(N, ...) -> (N, width)."""
        features: Tensor = self.network(self.units(points))
        return features

    def __repr__(self) -> str:
        return f"Seen({self.units!r}, {self.network!r})"


@dataclass(frozen=True)
class Epochs:
    """A schedule of Adam: `count` passes over both samples together, in batches of `batch` points.

    The last batch of a pass may be smaller.
    """

    count: int
    batch: int
    rate: float


class TwoLogits(nn.Module):
    """Their classifiers: two outputs, whose difference is the score.

    For tables both outputs are linear in the features and their weights start as normal numbers.
    For images a ReLU comes before them, and the authors' loss takes the softmax of a softmax: the
    score is a difference of probabilities, tanh(difference / 2).

    With `epochs` it trains itself as theirs do. A batch then has as many points of each sample as
    happen to come, and training overfits sooner than with equal parts of both. Without `epochs`,
    `Learning` trains it.
    """

    def __init__(self, featurizer: nn.Module, *, image: bool, epochs: Epochs | None = None) -> None:
        super().__init__()
        self.featurizer = featurizer
        self.image = image
        self.epochs = epochs
        self.learned = False
        # (features + 1, 2), the last row being the constant; `start` draws it, knowing the width.
        self.weights = nn.Parameter(torch.empty(0))

    def start(self, points: Tensor, generator: torch.Generator) -> None:
        """Start the network and draw the weights of the outputs."""
        if self.learned:
            return
        start_featurizer(self.featurizer, points, generator)
        with torch.no_grad():
            width = self.featurizer(points[:2]).shape[1]  # a normalisation needs two
        if self.image:
            # As torch starts a linear map: uniform within 1 / sqrt(width) of zero.
            uniform = 2 * torch.rand(width + 1, 2, generator=generator) - 1
            weights = uniform / math.sqrt(width)
        else:
            weights = torch.randn(width + 1, 2, generator=generator)
        self.weights = nn.Parameter(weights.to(points))

    def learn(self, x: Tensor, y: Tensor, generator: torch.Generator) -> None:
        """Train on the pooled points, unless `Learning` does or this has been done."""
        if self.epochs is None or self.learned:
            return
        points = torch.cat([x, y])
        sign = torch.cat([torch.ones(len(x)), -torch.ones(len(y))]).to(x)
        self.start(points, generator)
        optimiser = torch.optim.Adam(self.parameters(), lr=self.epochs.rate)
        for _ in range(self.epochs.count):
            order = torch.randperm(len(points), generator=generator).to(points.device)
            for batch in torch.split(order, self.epochs.batch):
                optimiser.zero_grad(set_to_none=True)
                scores = self(points[batch])[:, 0]
                # softplus(-sign * score) is the cross-entropy of two outputs.
                loss = nn.functional.softplus(-sign[batch] * scores).mean()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
        self.learned = True
        self.requires_grad_(False)  # nothing that comes after may train it further

    def forward(self, points: Tensor) -> Tensor:
        """(N, ...) -> (N, 1), positive where a point looks like one of X."""
        features = self.featurizer(points)  # (N, width)
        if self.image:
            features = torch.relu(features)
        logits = features @ self.weights[:-1] + self.weights[-1]  # (N, 2)
        score = logits[:, :1] - logits[:, 1:]
        return torch.tanh(score / 2) if self.image else score

    def __repr__(self) -> str:
        return f"TwoLogits({self.featurizer!r}, image={self.image})"


class ClassifierFeatures(nn.Module):
    """The features of a classifier that trains itself; nothing trains them further."""

    def __init__(self, classifier: TwoLogits) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, points: Tensor) -> Tensor:
        """(N, ...) -> (N, width)."""
        features: Tensor = self.classifier.featurizer(points)
        return features

    def __repr__(self) -> str:
        return f"ClassifierFeatures({self.classifier!r})"


class OfClassifier(OnFeatures):
    """A Gaussian on a classifier's features.

    Its s starts at a sixteenth of the median squared distance between the two samples.
    """

    featurizer: ClassifierFeatures

    def __init__(self, classifier: TwoLogits) -> None:
        super().__init__(ClassifierFeatures(classifier), scaled(1.0, trained="s"))

    def learn(self, x: Tensor, y: Tensor, generator: torch.Generator) -> None:
        """Train the classifier, then choose the scale by its features."""
        self.featurizer.classifier.learn(x, y, generator)
        with torch.no_grad():
            distances = torch.cdist(self.featurizer(x), self.featurizer(y))  # (n, m)
        median = float(distances.square().median())
        self.kernel = scaled(median / 16, trained="s").to(x)

    def __repr__(self) -> str:
        return f"OfClassifier({self.featurizer.classifier!r})"


class AsPublished(nn.Module):
    """ME and SCF as the package of [Jitkrittum2016] trains them when the authors call it.

    The width is the one of a grid for which the limiting law gives the most power. Then the
    locations of ME ascend the statistic; the length of a step shrinks with the square root of its
    number. The frequencies of SCF stay where they were drawn, because a fault in that package ends
    their ascent before it begins.
    """

    def __init__(self, units: TheirUnits, kind: str, count: int) -> None:
        super().__init__()
        self.units = units
        self.kind = kind
        self.count = count
        self.features: FeatureMap | None = None

    def learn(self, x: Tensor, y: Tensor, generator: torch.Generator) -> None:
        """Draw locations or frequencies, choose the width, and let locations ascend."""
        # In float64, as in their package, where NumPy computes it.
        x = self.units(x).double()
        y = self.units(y).double()
        if self.kind == "me":
            self.features = _mean_embedding(self.count, x, y, generator)
        else:
            self.features = _smooth_characteristic(self.count, x, y, generator)

    def forward(self, points: Tensor) -> Tensor:
        """(N, ...) -> (N, features)."""
        if self.features is None:
            raise InputError("these features have seen no points yet; fit the test first.")
        features: Tensor = self.features(self.units(points))
        return features

    def __repr__(self) -> str:
        return f"AsPublished({self.units!r}, {self.kind!r}, {self.count})"


def _mean_embedding(count: int, x: Tensor, y: Tensor, generator: torch.Generator) -> FeatureMap:
    drawn = MeanEmbedding(count)
    drawn.learn(x, y, generator)
    median = median_bandwidth(torch.cat([x, y]), generator)
    kernel = Gaussian(median)
    features = MeanEmbedding(drawn.locations.detach(), kernel).double()
    # Their grid is one of squared widths, so octaves are halved here.
    widths = [median * 2.0 ** (octave / 2) for octave in np.linspace(-3, 4, 30)]
    _choose_width(features, widths, x, y)
    _ascend(features, kernel, x, y)
    return features.float()


def _smooth_characteristic(
    count: int, x: Tensor, y: Tensor, generator: torch.Generator
) -> FeatureMap:
    drawn = SmoothCharacteristic(count)
    drawn.start(torch.cat([x, y]), generator)
    features = SmoothCharacteristic(drawn.frequencies.detach(), drawn.usual_width()).double()
    _choose_width(features, drawn.candidate_widths(), x, y)
    return features.float()


def _noncentrality(
    features: nn.Module, x: Tensor, y: Tensor, ridge: float, degrees: int = 0
) -> Tensor:
    """Return the paired statistic n zbar' (S + ridge I)^-1 zbar.

    z are the differences of features, and their covariance S is a sum over n - degrees.
    """
    f = features(torch.cat([x, y]))  # (n + n, features)
    z = f[: len(x)] - f[len(x) :]
    mean = z.mean(0)
    centred = z - mean
    S = centred.T @ centred / (len(z) - degrees)
    regular = S + ridge * torch.eye(len(S), dtype=S.dtype)
    value: Tensor = len(z) * mean @ torch.linalg.solve(regular, mean)
    return value


def _choose_width(features: FeatureMap, widths: Sequence[float], x: Tensor, y: Tensor) -> None:
    """Set the first width of most power by the limiting law, to three decimals.

    If no width has a finite statistic, the middle one is set.
    """
    from scipy import stats  # here, since its import takes a second that other tests need not spend

    best = -math.inf
    chosen = widths[len(widths) // 2]
    for width in widths:
        features.set_width(width)
        try:
            with torch.no_grad():
                value = float(_noncentrality(features, x, y, 0.0, degrees=1))
                degrees = features(x[:1]).shape[1]
        except RuntimeError:  # a singular matrix
            continue
        if not 0 < value < math.inf:
            continue
        threshold = stats.chi2.isf(ALPHA, degrees)
        power = round(float(stats.ncx2.sf(threshold, degrees, value)), 3)
        if power > best:
            best = power
            chosen = width
    features.set_width(chosen)


def _ascend(features: MeanEmbedding, kernel: Gaussian, x: Tensor, y: Tensor) -> None:
    """Move locations and width up the statistic, in at most 300 steps.

    If that leads to a value that is not finite, everything is put back to its start.
    """
    start = features.locations.detach().clone()
    first_width = kernel.bandwidth or 1.0
    width = first_width
    before = -math.inf
    for step in range(1, 301):
        objective = _noncentrality(features, x, y, 1e-5)
        by_location, by_log = torch.autograd.grad(
            objective, [features.locations, kernel.log_bandwidth]
        )
        value = objective.item()
        by_width = by_log.item() / width  # d/dw = (d/d log w) / w
        with torch.no_grad():
            features.locations.add_(by_location / (by_location.norm() * math.sqrt(step)))
        clipped = math.copysign(min(abs(by_width), 1.0), by_width)
        width += 0.1 * clipped / math.sqrt(step)
        placed = bool(torch.isfinite(features.locations).all())
        if not (math.isfinite(value) and placed and width > 0):
            with torch.no_grad():
                features.locations.copy_(start)
            features.set_width(first_width)
            return
        features.set_width(width)
        # Their rule for stopping.
        if step > 2 and abs(value - before) <= 1e-4:
            return
        before = value
