"""Parts of the authors' tests that this library has no use for: their units, classifiers, ME and SCF as published."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn
from torch.nn.utils import parametrize

from .._featurizers import FeatureMap, MeanEmbedding, SmoothCharacteristic
from .._kernels import Gaussian, OnFeatures, median_bandwidth, start_featurizer
from ..errors import InputError
from .experiments import ALPHA


def scaled(s: float, *, trained: Literal["s", "root"]) -> Gaussian:
    """exp(-D / s) whose s, or the root of it, is what training moves, instead of a logarithm."""
    kernel = Gaussian(math.sqrt(s / 2))
    parametrize.register_parametrization(
        kernel, "log_bandwidth", _LogOf(0.5 if trained == "s" else 1.0)
    )
    return kernel


class _LogOf(nn.Module):
    """log sigma of s (power 1/2) or of the root of s (power 1), where s = 2 sigma^2."""

    def __init__(self, power: float) -> None:
        super().__init__()
        self.power = power

    def forward(self, value: Tensor) -> Tensor:
        """What the kernel sees of the trained number."""
        return self.power * torch.log(value.abs()) - 0.5 * math.log(2)

    def right_inverse(self, log_bandwidth: Tensor) -> Tensor:
        """The trained number that gives a bandwidth."""
        return torch.exp((log_bandwidth + 0.5 * math.log(2)) / self.power)


class TheirUnits(nn.Module):
    """Points in the authors' units from those of this library: the scaling undone, images enlarged."""

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
        return nn.functional.interpolate(
            raw, size=(self.across, self.across), mode="bilinear", align_corners=False
        )

    def __repr__(self) -> str:
        return "TheirUnits()"


class Seen(nn.Module):
    """A network behind `TheirUnits`."""

    def __init__(self, units: TheirUnits, network: nn.Module) -> None:
        super().__init__()
        self.units, self.network = units, network

    def start(self, points: Tensor, generator: torch.Generator) -> None:
        """Start the network on points in their units."""
        start_featurizer(self.network, self.units(points), generator)

    def forward(self, points: Tensor) -> Tensor:
        """(N, ...) -> (N, width)."""
        features: Tensor = self.network(self.units(points))
        return features

    def __repr__(self) -> str:
        return f"Seen({self.units!r}, {self.network!r})"


@dataclass(frozen=True)
class Epochs:
    """So many passes of Adam over both samples together, in batches of which the last of a pass is smaller."""

    count: int
    batch: int
    rate: float


class TwoLogits(nn.Module):
    """Their classifiers: two outputs, of which the difference is the score.

    For tables both are linear in the features and start as normal numbers. For images there is a
    ReLU between, and the loss takes the softmax of a softmax: the score then is a difference of
    probabilities, tanh(difference / 2).

    With `epochs` it is trained as they do it, where a batch has as many points of each sample as
    come; it overfits sooner than with equal parts of both. Otherwise it is left to `Learning`.
    """

    def __init__(self, featurizer: nn.Module, *, image: bool, epochs: Epochs | None = None) -> None:
        super().__init__()
        self.featurizer, self.image, self.epochs = featurizer, image, epochs
        self.learned = False
        self.weights = nn.Parameter(
            torch.empty(0)
        )  # (features + 1, 2), the last row is the constant

    def start(self, points: Tensor, generator: torch.Generator) -> None:
        """Start the network and draw the outputs."""
        if self.learned:
            return
        start_featurizer(self.featurizer, points, generator)
        with torch.no_grad():
            width = self.featurizer(points[:2]).shape[1]
        if self.image:
            drawn = (2 * torch.rand(width + 1, 2, generator=generator) - 1) / math.sqrt(width)
        else:
            drawn = torch.randn(width + 1, 2, generator=generator)
        self.weights = nn.Parameter(drawn.to(points))

    def learn(self, x: Tensor, y: Tensor, generator: torch.Generator) -> None:
        """Train on the pooled points, if it is for this class to do."""
        if self.epochs is None or self.learned:
            return
        points, sign = torch.cat([x, y]), torch.cat([torch.ones(len(x)), -torch.ones(len(y))]).to(x)
        self.start(points, generator)
        optimiser = torch.optim.Adam(self.parameters(), lr=self.epochs.rate)
        for _ in range(self.epochs.count):
            order = torch.randperm(len(points), generator=generator).to(points.device)
            for batch in torch.split(order, self.epochs.batch):
                optimiser.zero_grad(set_to_none=True)
                loss = nn.functional.softplus(
                    -sign[batch] * self(points[batch])[:, 0]
                ).mean()  # the cross-entropy
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
        self.learned = True
        self.requires_grad_(False)

    def forward(self, points: Tensor) -> Tensor:
        """(N, ...) -> (N, 1), positive where a point looks like one of X."""
        features = self.featurizer(points)
        logits = (torch.relu(features) if self.image else features) @ self.weights[
            :-1
        ] + self.weights[-1]
        score = logits[:, :1] - logits[:, 1:]
        return torch.tanh(score / 2) if self.image else score

    def __repr__(self) -> str:
        return f"TwoLogits({self.featurizer!r}, image={self.image})"


class ClassifierFeatures(nn.Module):
    """What a classifier that trains itself weighs for its outputs; nothing trains it further."""

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
    """A Gaussian on the features of a classifier, whose s starts at a 16th of the median between the samples."""

    featurizer: ClassifierFeatures

    def __init__(self, classifier: TwoLogits) -> None:
        super().__init__(ClassifierFeatures(classifier), scaled(1.0, trained="s"))

    def learn(self, x: Tensor, y: Tensor, generator: torch.Generator) -> None:
        """Train the classifier, then look at its features."""
        self.featurizer.classifier.learn(x, y, generator)
        with torch.no_grad():
            median = torch.cdist(self.featurizer(x), self.featurizer(y)).square().median()
        self.kernel = scaled(float(median) / 16, trained="s").to(x)

    def __repr__(self) -> str:
        return f"OfClassifier({self.featurizer.classifier!r})"


class AsPublished(nn.Module):
    """ME and SCF as the package of [Jitkrittum2016] trains them when the authors call it.

    The width is the one of a grid for which the limiting law gives the most power. Then the
    locations of ME ascend the statistic in steps of one length that shrinks with the square root of
    their number; the frequencies of SCF stay where they were drawn, since a fault in that package
    ends their ascent before it begins.
    """

    def __init__(self, units: TheirUnits, kind: str, count: int) -> None:
        super().__init__()
        self.units, self.kind, self.count = units, kind, count
        self.features: FeatureMap | None = None

    def learn(self, x: Tensor, y: Tensor, generator: torch.Generator) -> None:
        """Draw places, choose the width, ascend."""
        x, y = (self.units(points).double() for points in (x, y))
        if self.kind == "me":
            self.features = _mean_embedding(self.count, x, y, generator)
        else:
            self.features = _smooth_characteristic(self.count, x, y, generator)

    def forward(self, points: Tensor) -> Tensor:
        """(N, ...) -> (N, features)."""
        if self.features is None:
            raise InputError("these features have seen no points yet; fit the test first.")
        seen: Tensor = self.features(self.units(points))
        return seen

    def __repr__(self) -> str:
        return f"AsPublished({self.units!r}, {self.kind!r}, {self.count})"


def _mean_embedding(count: int, x: Tensor, y: Tensor, generator: torch.Generator) -> FeatureMap:
    drawn = MeanEmbedding(count)
    drawn.learn(x, y, generator)
    median = median_bandwidth(torch.cat([x, y]), generator)
    kernel = Gaussian(median)
    features = MeanEmbedding(drawn.locations.detach(), kernel).double()
    _choose_width(
        features, [median * 2.0 ** (octave / 2) for octave in np.linspace(-3, 4, 30)], x, y
    )
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
    """Paired: n zbar' (S + ridge I)^-1 zbar with z the differences of features and S divided by n - degrees."""
    f = features(torch.cat([x, y]))
    z = f[: len(x)] - f[len(x) :]
    mean, centred = z.mean(0), z - z.mean(0)
    S = centred.T @ centred / (len(z) - degrees)
    value: Tensor = (
        len(z) * mean @ torch.linalg.solve(S + ridge * torch.eye(len(S), dtype=S.dtype), mean)
    )
    return value


def _choose_width(features: FeatureMap, widths: Sequence[float], x: Tensor, y: Tensor) -> None:
    """The first width of most power by the limiting law, to three decimals."""
    best, chosen = -math.inf, widths[len(widths) // 2]
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
        power = round(float(stats.ncx2.sf(stats.chi2.isf(ALPHA, degrees), degrees, value)), 3)
        if power > best:
            best, chosen = power, width
    features.set_width(chosen)


def _ascend(features: MeanEmbedding, kernel: Gaussian, x: Tensor, y: Tensor) -> None:
    """Locations and width up the statistic, in at most 300 steps; nowhere if that leads out of the numbers."""
    start, width = features.locations.detach().clone(), kernel.bandwidth or 1.0
    first, before = width, -math.inf
    for step in range(1, 301):
        objective = _noncentrality(features, x, y, 1e-5)
        by_location, by_log = torch.autograd.grad(
            objective, [features.locations, kernel.log_bandwidth]
        )
        value, by_width = objective.item(), by_log.item() / width
        with torch.no_grad():
            features.locations.add_(by_location / (by_location.norm() * math.sqrt(step)))
        width += 0.1 * math.copysign(min(abs(by_width), 1.0), by_width) / math.sqrt(step)
        if not (
            math.isfinite(value) and bool(torch.isfinite(features.locations).all()) and width > 0
        ):
            with torch.no_grad():
                features.locations.copy_(start)
            features.set_width(first)
            return
        features.set_width(width)
        if step > 2 and abs(value - before) <= 1e-4:
            return
        before = value
