"""How the authors of [Liu2020] set their tests up, in the parts of this library.

Numbers are those of their code, which made the published results; `STATED` has those of the paper's text where the two
differ. Their kernels are exp(-D / s) with D the squared distance of points in their own units: raw columns, and pixels
in [-1, 1] of images that were enlarged. So a part of a test here first undoes the scaling of this library.

Not theirs are the permutation test, which is exact here (theirs rejects a little more often: up to 5.9 % under the
null hypothesis), and random starts, which are the same in most of their trials and fresh in each of ours.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn
from torch.nn.utils import parametrize

from ..calibration import Asymptotic, Permutation
from ..errors import InputError
from ..featurizers import MLP, Bounded, Classifier, ConvNet, FeatureMap, MeanEmbedding, SmoothCharacteristic
from ..kernels import (
    DeepKernel,
    Gaussian,
    Kernel,
    Linear,
    OnFeatures,
    Probability,
    Sign,
    median_bandwidth,
    start_featurizer,
)
from ..learning import Learning
from ..objectives import CrossEntropy, MeanDiscrepancy, Noncentrality, PowerCriterion
from ..samples import Scaling, as_samples
from ..statistics import MMD, HotellingT2
from ..two_sample import TwoSampleTest
from .experiments import ALPHA, Setting

_FULL = 10**9  # points of a batch that is all of them


@dataclass(frozen=True)
class Numbers:
    """The settings of a data set; s is 2 sigma^2.

    Attributes
    ----------
    epochs
        Of every training but those of tabular classifiers, which `classifier_epochs` are for.
    rate, eps, s_phi, s_q, trains_s_phi
        Of MMD-D: the learning rate, where its kernel starts, and whether s_phi is trained.
    gaussian_rate, gaussian_s
        Of MMD-O; a number, or the multiple of the median of D between the samples.
    classifier_rate
        Of C2ST.
    locations
        Of ME, and frequencies of SCF.
    linear_rate, features_rate, features_s, network_rate, scales_rate
        Of the ablation: L+J, G+J and its s_phi, the classifier whose features G+C and D+C take, and their scales.
    """

    epochs: int
    rate: float
    eps: float
    s_phi: float
    s_q: float
    gaussian_rate: float
    gaussian_s: float
    gaussian_s_of_median: bool
    classifier_rate: float
    linear_rate: float
    features_rate: float
    features_s: float
    network_rate: float
    scales_rate: float
    trains_s_phi: bool = True
    locations: int = 5


def numbers(setting: Setting, *, stated: bool = False) -> Numbers:
    """Those of the code, or `stated` in the paper, for a setting."""
    found = _NUMBERS[_kind(setting)]
    if setting.data == "hdgm":  # scales in proportion to the dimensions
        d = setting.dimension or 10
        found = dataclasses.replace(found, s_q=2.0 * d, gaussian_s=2 * d * _HDGM_DRAW)
    return dataclasses.replace(found, **STATED.get(_kind(setting), {})) if stated else found


def _kind(setting: Setting) -> str:
    """The data set, or the one that it stands in for."""
    return setting.data.partition("-")[0]


_HDGM_DRAW = 0.1285  # the uniform number that their fixed seed gives, times 2 d
_NUMBERS = {
    # Their s_q and s_phi of Blob are uniform draws, from 0 to twice these.
    "blob": Numbers(1000, 5e-4, 0.5, 0.001, 0.15, 5e-4, 2**-2.1, True, 5e-4, 5e-3, 5e-3, 0.002, 5e-4, 5e-4),
    "hdgm": Numbers(1000, 5e-5, 1e-10, 0.1, 20.0, 1e-3, 2.57, False, 1e-3, 1e-4, 5e-5, 0.02, 1e-3, 5e-5),
    "higgs": Numbers(
        1000, 5e-5, 1e-10, 0.005, 8.0, 1e-3, 1.028, False, 1e-3, 5e-4, 5e-5, 0.005, 1.5e-3, 1e-3, False, 10
    ),
    "mnist": Numbers(2000, 1e-3, 1e-10, 0.005, 2048.0, 5e-4, 1.0, True, 2e-4, 2e-4, 2e-4, 0.005, 2e-4, 1e-3),
    "cifar": Numbers(1000, 2e-4, 1e-10, 0.005, 2048.0, 5e-4, 1.0, True, 2e-4, 2e-4, 2e-4, 0.005, 2e-4, 1e-3),
}
STATED: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "blob": {"classifier_rate": 1e-3},
        "hdgm": {"rate": 1e-5},
        "higgs": {"rate": 5e-4, "trains_s_phi": True},
    }
)
"""What the paper says otherwise than the code does."""

_IMAGES = {"mnist": (32, 100), "cifar": (64, 300)}  # pixels across, features
_IMAGE_BATCH = 100  # of each sample


def build(method: str, setting: Setting, numbers: Numbers, X: Any, Y: Any, *, permutations: int) -> TwoSampleTest:
    """The test of a method as the authors set it up for the training samples X and Y."""
    authors = _Authors(setting, numbers, X, Y)
    if method in ("me", "scf", "me-1"):
        return TwoSampleTest(*authors.features(method), HotellingT2(paired=True), Asymptotic(), name=method)
    if method in ("c2st-s", "c2st-l"):
        parts = authors.classifier("S+C" if method == "c2st-s" else "L+C")
        return TwoSampleTest(*parts, MMD("biased"), Permutation(permutations), name=method)
    parts = authors.gaussian() if method == "mmd-o" else authors.kernel("D+J" if method == "mmd-d" else method)
    return TwoSampleTest(*parts, MMD("unbiased"), Permutation(permutations), name=method)


class _Authors:
    """Chooses parts for one setting and one training set."""

    def __init__(self, setting: Setting, numbers: Numbers, X: Any, Y: Any) -> None:
        self.setting, self.numbers = setting, numbers
        self.samples = as_samples(X, Y)
        self.scaling = Scaling.of(self.samples)
        self.images = _IMAGES.get(_kind(setting))

    def units(self) -> TheirUnits:
        """Points as they see them."""
        if self.images is None:
            return TheirUnits(self.scaling.shift, self.scaling.scale)
        return TheirUnits(self.scaling.shift / 127.5 - 1, self.scaling.scale / 127.5, self.images[0])

    def network(self) -> nn.Module:
        """Their phi."""
        if self.images is not None:
            return ConvNet(width=self.images[1], normalisation="batch")
        widths = {"blob": 50, "hdgm": 3 * (self.setting.dimension or 10), "higgs": 20}
        return MLP(width=widths[self.setting.data])

    def schedule(self, objective: Any, rate: float, **options: Any) -> Learning:
        """Adam at a constant rate; all points in every step, or for images as many steps as their epochs have."""
        whole = {"steps": self.numbers.epochs, "batch_size": _FULL}
        parts = {
            "steps": self.numbers.epochs * max(1, self.setting.n // _IMAGE_BATCH),
            "batch_size": _IMAGE_BATCH,
        }
        chosen = whole if self.images is None else parts
        return Learning(objective, learning_rate=rate, scale_rate=rate, schedule="constant", **{**chosen, **options})

    def gaussian(self) -> tuple[Kernel, Learning]:
        """MMD-O: s itself is trained, on all points."""
        s = self.numbers.gaussian_s * (self.median() if self.numbers.gaussian_s_of_median else 1)
        learning = self.schedule(
            PowerCriterion(), self.numbers.gaussian_rate, steps=self.numbers.epochs, batch_size=_FULL
        )
        return OnFeatures(self.units(), scaled(s, trained="s")), learning

    def median(self) -> float:
        """The median squared distance between a point of X and one of Y."""
        seen = self.scaling.apply(self.samples)
        x, y = (self.units()(points).flatten(1)[:2000] for points in (seen.x, seen.y))
        return float(torch.cdist(x, y).square().median())

    def kernel(self, column: str) -> tuple[Kernel, Learning]:
        """A kernel of the ablation on a network's features; D+J is MMD-D."""
        kind, objective = column.split("+")
        if objective == "C":
            return self.two_stages(kind)
        goal = PowerCriterion() if objective == "J" else MeanDiscrepancy()
        n = self.numbers
        if kind == "D":
            deep = DeepKernel(self.network(), scaled(n.s_phi, trained="root"), scaled(n.s_q, trained="root"), eps=n.eps)
            deep.kappa.requires_grad_(n.trains_s_phi)
            return OnFeatures(self.units(), deep), self.schedule(goal, n.rate)
        if kind == "G":
            on_features = scaled(n.features_s, trained="root").requires_grad_(self.images is not None)
            return OnFeatures(self.seen(self.network()), on_features), self.schedule(goal, n.features_rate)
        # L: with J their code takes all features, with M the paper bounds one score.
        features = Bounded(Classifier(self.seen(self.network()))) if objective == "M" else self.seen(self.network())
        return OnFeatures(features, Linear()), self.schedule(goal, n.linear_rate)

    def two_stages(self, kind: str) -> tuple[Kernel, Learning]:
        """G+C and D+C: a classifier's network, frozen, and scales trained for J.

        Theirs start at multiples of the median that suit nothing in particular; these start at the best Gaussian.
        """
        network = self.seen(self.network())
        first = self.classifier_schedule(self.numbers.network_rate)
        learning = self.schedule(PowerCriterion(), self.numbers.scales_rate, pretraining=first)
        return (OnFeatures(network, Gaussian()) if kind == "G" else DeepKernel(network)), learning

    def classifier(self, column: str) -> tuple[Kernel, Learning]:
        """C2ST: the decisions of a classifier, or the probabilities that its code takes for scores."""
        network = self.seen(self.network())
        scores = TwoLogits(network, image=self.images is not None)
        kernel: Kernel = Sign() if column == "S+C" else Linear() if self.images is not None else Probability()
        return OnFeatures(scores, kernel), self.classifier_schedule(self.numbers.classifier_rate)

    def classifier_schedule(self, rate: float) -> Learning:
        """Their epochs, in steps of batches that hold both samples."""
        if self.images is not None:
            return self.schedule(CrossEntropy(), rate)
        points = 2 * self.setting.n
        blob = self.setting.data == "blob"
        batch = min(2 * self.setting.n // 9, 128) if blob else 128
        epochs = 1000 * self.setting.n // batch if blob else self.numbers.epochs  # 9000 n_b / batch
        return self.schedule(CrossEntropy(), rate, steps=epochs * -(-points // batch), batch_size=batch // 2)

    def features(self, method: str) -> tuple[nn.Module, Learning]:
        """ME and SCF, trained in one go."""
        kind, count = ("me", 1) if method == "me-1" else (method, self.numbers.locations)
        return AsPublished(self.units(), kind, count), Learning(Noncentrality(), steps=0)

    def seen(self, network: nn.Module) -> nn.Module:
        """A network that sees points in their units."""
        return Seen(self.units(), network)


def scaled(s: float, *, trained: str) -> Gaussian:
    """exp(-D / s) whose s, or the root of it, is what training moves, instead of a logarithm."""
    kernel = Gaussian(math.sqrt(s / 2))
    parametrize.register_parametrization(kernel, "log_bandwidth", _LogOf(0.5 if trained == "s" else 1.0))
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
        return nn.functional.interpolate(raw, size=(self.across, self.across), mode="bilinear", align_corners=False)

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


class TwoLogits(nn.Module):
    """Their classifiers: two outputs, of which the difference is the score.

    For tables both are linear in the features and start as normal numbers. For images there is a ReLU between, and
    the loss takes the softmax of a softmax: the score then is a difference of probabilities, tanh(difference / 2).
    """

    def __init__(self, featurizer: nn.Module, *, image: bool) -> None:
        super().__init__()
        self.featurizer, self.image = featurizer, image
        self.weights = nn.Parameter(torch.empty(0))  # (features + 1, 2), the last row is the constant

    def start(self, points: Tensor, generator: torch.Generator) -> None:
        """Start the network and draw the outputs."""
        start_featurizer(self.featurizer, points, generator)
        with torch.no_grad():
            width = self.featurizer(points[:2]).shape[1]
        if self.image:
            drawn = (2 * torch.rand(width + 1, 2, generator=generator) - 1) / math.sqrt(width)
        else:
            drawn = torch.randn(width + 1, 2, generator=generator)
        self.weights = nn.Parameter(drawn.to(points))

    def forward(self, points: Tensor) -> Tensor:
        """(N, ...) -> (N, 1), positive where a point looks like one of X."""
        features = self.featurizer(points)
        logits = (torch.relu(features) if self.image else features) @ self.weights[:-1] + self.weights[-1]
        score = logits[:, :1] - logits[:, 1:]
        return torch.tanh(score / 2) if self.image else score

    def __repr__(self) -> str:
        return f"TwoLogits({self.featurizer!r}, image={self.image})"


class AsPublished(nn.Module):
    """ME and SCF as the package of [Jitkrittum2016] trains them when the authors call it.

    The width is the one of a grid for which the limiting law gives the most power. Then the locations of ME ascend the
    statistic in steps of one length that shrinks with the square root of their number; the frequencies of SCF stay
    where they were drawn, since a fault in that package ends their ascent before it begins.
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
    _choose_width(features, [median * 2.0 ** (octave / 2) for octave in np.linspace(-3, 4, 30)], x, y)
    _ascend(features, kernel, x, y)
    return features.float()


def _smooth_characteristic(count: int, x: Tensor, y: Tensor, generator: torch.Generator) -> FeatureMap:
    drawn = SmoothCharacteristic(count)
    drawn.start(torch.cat([x, y]), generator)
    features = SmoothCharacteristic(drawn.frequencies.detach(), drawn.usual_width()).double()
    _choose_width(features, drawn.candidate_widths(), x, y)
    return features.float()


def _noncentrality(features: nn.Module, x: Tensor, y: Tensor, ridge: float, degrees: int = 0) -> Tensor:
    """Paired: n zbar' (S + ridge I)^-1 zbar with z the differences of features and S divided by n - degrees."""
    f = features(torch.cat([x, y]))
    z = f[: len(x)] - f[len(x) :]
    mean, centred = z.mean(0), z - z.mean(0)
    S = centred.T @ centred / (len(z) - degrees)
    value: Tensor = len(z) * mean @ torch.linalg.solve(S + ridge * torch.eye(len(S), dtype=S.dtype), mean)
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
        by_location, by_log = torch.autograd.grad(objective, [features.locations, kernel.log_bandwidth])
        value, by_width = objective.item(), by_log.item() / width
        with torch.no_grad():
            features.locations.add_(by_location / (by_location.norm() * math.sqrt(step)))
        width += 0.1 * math.copysign(min(abs(by_width), 1.0), by_width) / math.sqrt(step)
        if not (math.isfinite(value) and bool(torch.isfinite(features.locations).all()) and width > 0):
            with torch.no_grad():
                features.locations.copy_(start)
            features.set_width(first)
            return
        features.set_width(width)
        if step > 2 and abs(value - before) <= 1e-4:
            return
        before = value
