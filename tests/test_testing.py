"""The contracts: all of our parts keep them, and for every clause there is a part that breaks it
and is caught."""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

import twosample
from bank import KERNELS, RationalQuadratic, network, points
from twosample import (
    MLP,
    MMD,
    AutoFeaturizer,
    Classifier,
    ConvNet,
    CrossEntropy,
    DeepKernel,
    Features,
    Fused,
    Gaussian,
    HotellingT2,
    InverseMultiquadric,
    Kernel,
    LandmarksOf,
    Linear,
    ManhattanLaplace,
    MeanDiscrepancy,
    MeanEmbedding,
    Noncentrality,
    OnFeatures,
    PairSwap,
    Permutation,
    PowerCriterion,
    Probability,
    ResidualMLP,
    Several,
    Sign,
    SklearnClassifier,
    SmallestRank,
    SmoothCharacteristic,
    SoftMaximum,
    Spectral,
    Surprise,
    TwoSampleTest,
    View,
    Views,
    testing,
)
from twosample import _featurizers as featurizers
from twosample import _views as views
from twosample._featurizers import Bounded, Frozen
from twosample._statistics import Statistic
from twosample.testing import BrokenContract

POINTS = points(13, dtype=torch.float32)
IMAGES = torch.rand(10, 1, 8, 8, generator=torch.Generator().manual_seed(0))
X, Y = points(24, seed=1), points(24, seed=2) * 1.5 + 2.0


def public(kind: type) -> set[type]:
    found = [getattr(twosample, name) for name in twosample.__all__]
    return {
        thing
        for thing in found
        if inspect.isclass(thing) and issubclass(thing, kind) and thing is not kind
    }


# Ours


OWN_KERNELS: dict[str, Callable[[], Kernel]] = {
    **KERNELS,
    "sign": lambda: OnFeatures(network(), Sign()),
    "probability": lambda: OnFeatures(network(), Probability()),
    "open bandwidth": Gaussian,
    "deep, everything open": lambda: DeepKernel(AutoFeaturizer()),
}


@pytest.mark.parametrize("name", OWN_KERNELS)
def test_our_kernels_keep_their_contract(name: str):
    testing.check_kernel(OWN_KERNELS[name](), POINTS, differentiable=name != "sign")


def test_a_kernel_of_images_keeps_its_contract():
    testing.check_kernel(DeepKernel(ConvNet(ranks=True, channels=(4, 4))), IMAGES)


def test_a_kernel_that_is_not_semidefinite_may_say_so():
    class Distance(Kernel):
        """Minus a distance: its MMD is the energy distance."""

        def tile(self, a, b):
            return -torch.cdist(a[0], b[0], compute_mode="donot_use_mm_for_euclid_dist")

    testing.check_kernel(Distance(), POINTS, semidefinite=False)
    with pytest.raises(BrokenContract, match="no negative eigenvalue"):
        testing.check_kernel(Distance(), POINTS)


def fitted_classifier() -> SklearnClassifier:
    classifier = SklearnClassifier(LogisticRegression())
    classifier.learn(X, Y, torch.Generator().manual_seed(0))
    return classifier


FEATURIZERS: dict[str, tuple[Callable[[], nn.Module], Tensor]] = {
    "MLP": (lambda: MLP(width=5), POINTS),
    "MLP of a size": (network, POINTS),
    "ResidualMLP": (lambda: ResidualMLP(width=5), POINTS),
    "ConvNet": (lambda: ConvNet(width=6, channels=(4, 4)), IMAGES),
    "ConvNet with ranks": (lambda: ConvNet(width=6, channels=(4, 4), ranks=True), IMAGES),
    "ConvNet by batches": (
        lambda: ConvNet(width=6, channels=(4, 4), normalisation="batch"),
        IMAGES,
    ),
    "Classifier": (Classifier, POINTS),
    "AutoFeaturizer": (AutoFeaturizer, POINTS),
    "AutoFeaturizer of images": (AutoFeaturizer, IMAGES),
    "Frozen": (lambda: Frozen(network()), POINTS),
    "Bounded": (lambda: Bounded(Classifier(MLP(width=5))), POINTS),
    "SklearnClassifier": (fitted_classifier, POINTS),
    "MeanEmbedding": (lambda: MeanEmbedding(3), POINTS),
    "MeanEmbedding by a deep kernel": (lambda: MeanEmbedding(2, DeepKernel(network())), POINTS),
    "SmoothCharacteristic": (lambda: SmoothCharacteristic(3), POINTS),
    "a network of torch": (
        lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.BatchNorm1d(4)),
        POINTS,
    ),
}


@pytest.mark.parametrize("name", FEATURIZERS)
def test_our_featurizers_keep_their_contract(name: str):
    make, seen = FEATURIZERS[name]
    testing.check_featurizer(make(), seen, saved=name != "SklearnClassifier")


DESIGNS = {
    twosample.Rows: lambda: twosample.Rows(),
    twosample.Groups: lambda: twosample.Groups("who", strata="site"),
    twosample.Strata: lambda: twosample.Strata("site"),
    twosample.Pairs: lambda: twosample.Pairs("pair"),
    twosample.Blocks: lambda: twosample.Blocks(3),
}


def grouped(seed: int, first: int) -> pd.DataFrame:
    """Twelve subjects of three rows at two sites; a pair is a subject of X and one of Y."""
    who = np.repeat(np.arange(12), 3)
    values = np.random.default_rng(seed).normal(size=36)
    return pd.DataFrame({"who": who + first, "site": who % 2, "pair": who, "value": values})


def test_all_designs_are_listed():
    assert set(DESIGNS) == public(twosample.Design)


@pytest.mark.parametrize("kind", DESIGNS, ids=lambda kind: kind.__name__)
def test_our_designs_keep_their_contract(kind: type):
    exact = kind is not twosample.Blocks
    testing.check_design(DESIGNS[kind](), grouped(0, 0), grouped(1, 100), exact=exact)


def locations() -> nn.Module:
    return MeanEmbedding(2)


def three_kernels() -> nn.Module:
    return Several([Gaussian(), OnFeatures(SumOfColumns(), Gaussian()), ManhattanLaplace()])


class Cosines(View):
    """A view of somebody's own: waves along each column, as long as the column is wide."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("lengths", torch.empty(0))

    def fit(self, pooled, layout):
        self.lengths = pooled.rows.std(0)

    def features(self, seen):
        angles = seen.rows / self.lengths
        return torch.stack([angles.cos(), angles.sin()], 2)

    def columns(self):
        return [(column,) for column in range(len(self.lengths))]


def table(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "size": rng.normal(size=30),
            "count": rng.integers(0, 5, 30),
            "new": rng.random(30) < 0.3,
            "colour": rng.choice(["red", "green", "blue"], 30),
        }
    )


def clusters(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = rng.integers(0, 2, (40, 2))
    return 10.0 * centres + rng.normal(size=(40, 2))


TABLES = (table(1), table(2))
PICTURES = (IMAGES[:5].numpy(), IMAGES[5:].numpy())
VIEWS: dict[str, tuple[Callable[[], View], tuple[Any, Any]]] = {
    "Gaussian landmarks": (lambda: views.Landmarks("gaussian"), TABLES),
    "Laplace landmarks": (lambda: views.Landmarks("laplace", count=9), TABLES),
    "landmarks of images": (lambda: views.Landmarks("laplace"), PICTURES),
    "Scatter": (views.Scatter, TABLES),
    "scatter of images": (lambda: views.Scatter(count=7, axes=3), PICTURES),
    "scores together": (lambda: views.Together("scores"), TABLES),
    "ranks together": (lambda: views.Together("ranks"), TABLES),
    "squares together": (lambda: views.Together("squares"), TABLES),
    "Clusters": (lambda: views.Clusters(most=5), (clusters(1), clusters(2))),
    "means": (views.Means, TABLES),
    "scores overall": (lambda: views.Overall("scores"), TABLES),
    "squares overall": (lambda: views.Overall("squares"), TABLES),
    "Positions": (views.Positions, TABLES),
    "Values of spreads": (lambda: views.Values("spreads"), TABLES),
    "Values of columns": (lambda: views.Values("columns"), TABLES),
    "Values of levels": (lambda: views.Values("levels"), TABLES),
    "Values of indicators": (lambda: views.Values("indicators"), TABLES),
    "Shapes": (views.Shapes, TABLES),
    "Levels": (views.Levels, TABLES),
    "Marks": (views.Marks, TABLES),
    "Dependence": (lambda: views.Dependence(), TABLES),
    "Waves": (views.Waves, TABLES),
    "Products": (lambda: views.Products(2), TABLES),
    "Products of three": (lambda: views.Products(3), TABLES),
    "Cells": (views.Cells, TABLES),
    "Pixels": (views.Pixels, PICTURES),
    "Patches": (lambda: views.Patches(count=8), PICTURES),
    "Textures": (lambda: views.Textures(side=2), PICTURES),
    "Tones": (views.Tones, PICTURES),
    "Features": (lambda: Features(nn.Sequential(nn.Linear(3, 4), nn.Tanh())), (X, Y)),
    "landmarks of a kernel": (lambda: LandmarksOf(InverseMultiquadric(), count=9), TABLES),
    "landmarks of inner products": (lambda: LandmarksOf(Linear()), TABLES),
    "landmarks of a deep kernel": (lambda: LandmarksOf(DeepKernel(MLP(width=3))), (X, Y)),
    "landmarks of a network for images": (
        lambda: LandmarksOf(OnFeatures(ConvNet(width=4), Gaussian())),
        PICTURES,
    ),
    "somebody's own": (Cosines, (X, Y)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_our_views_keep_their_contract(name: str):
    make, samples = VIEWS[name]
    testing.check_view(make(), *samples)


def test_a_view_of_a_transformer_keeps_its_contract():
    testing.check_view(Features(PCA(2)), X, Y, saved=False)


STATISTICS: list[tuple[Statistic, Callable[[], nn.Module]]] = [
    (MMD("unbiased"), Gaussian),
    (MMD("biased"), Gaussian),
    (MMD("biased"), Linear),
    (MMD("biased"), lambda: OnFeatures(SumOfColumns(), Sign())),
    (MMD("biased", alternative="greater"), lambda: OnFeatures(SumOfColumns(), Linear())),
    (MMD("paired"), Gaussian),
    (MMD("block", block_size=6), Gaussian),
    (MMD("compressed", landmarks=len(X) + len(Y)), Gaussian),
    (Fused(MMD("unbiased"), SmallestRank((1.0, 2.0, 1.0))), three_kernels),
    (Fused(MMD("unbiased"), SoftMaximum()), three_kernels),
    (Fused(MMD("biased"), Surprise()), three_kernels),
    (Fused(MMD("block", block_size=6)), three_kernels),
    (HotellingT2(), locations),
    (HotellingT2(paired=True), locations),
    # Without the smallest lambda, which carries on the rounding of a sum in another order.
    (Spectral((math.inf, 0.1, 0.01)), Views),
    (Spectral((math.inf, 0.01)), lambda: Views(Cosines())),
]


class SumOfColumns(nn.Module):
    """One score, larger where points are like those of X."""

    def forward(self, seen: Tensor) -> Tensor:
        return 3.0 - seen.sum(1, keepdim=True)


@pytest.mark.parametrize(
    ("statistic", "representation"), STATISTICS, ids=[repr(part) for part, _ in STATISTICS]
)
def test_our_statistics_keep_their_contract(
    statistic: Statistic, representation: Callable[[], nn.Module]
):
    testing.check_statistic(statistic, representation(), X, Y)


@pytest.mark.parametrize("statistic", [MMD("unbiased"), MMD("biased"), HotellingT2()], ids=repr)
def test_our_statistics_keep_their_contract_at_unequal_sizes(statistic: Statistic):
    testing.check_statistic(
        statistic, locations() if isinstance(statistic, HotellingT2) else Gaussian(), X, Y[:10]
    )


OBJECTIVES: list[tuple[Any, Callable[[], nn.Module]]] = [
    (PowerCriterion(), lambda: DeepKernel(network())),
    (PowerCriterion("n^(-1/3)", paired=False), Gaussian),
    (MeanDiscrepancy(), lambda: DeepKernel(network())),
    (CrossEntropy(), lambda: OnFeatures(Classifier(), Linear())),
    (Noncentrality(), locations),
]


@pytest.mark.parametrize(
    ("objective", "representation"), OBJECTIVES, ids=[repr(part) for part, _ in OBJECTIVES]
)
def test_our_objectives_keep_their_contract(
    objective: Any, representation: Callable[[], nn.Module]
):
    testing.check_objective(objective, representation(), X, Y)


def test_all_public_parts_are_checked():
    made = [make() for make in OWN_KERNELS.values()]
    assert public(Kernel) <= {type(part) for kernel in made for part in kernel.modules()}
    networks = {kind for kind in public(nn.Module) if kind.__module__ == featurizers.__name__}
    assert networks <= {type(make()) for make, _ in FEATURIZERS.values()}
    assert public(Statistic) == {type(statistic) for statistic, _ in STATISTICS}
    ours = [thing for _, thing in inspect.getmembers(views, inspect.isclass)]
    stacks = {kind for kind in ours if issubclass(kind, View)} - {View}
    assert stacks <= {type(make()) for make, _ in VIEWS.values()}
    objectives = {kind for kind in public(object) if kind.__module__ == "twosample._objectives"}
    objectives.remove(twosample.Objective)  # which says what they have in common
    assert objectives == {type(objective) for objective, _ in OBJECTIVES}


@pytest.mark.parametrize(
    "test",
    [
        twosample.mmd_median(permutations=19),
        twosample.mmd_o(permutations=19, steps=2),
        twosample.me(2, permutations=19, steps=2, restarts=1),
        TwoSampleTest(Gaussian(1.0), statistic=MMD("paired"), calibration=PairSwap(19)),
    ],
    ids=lambda test: test.name,
)
def test_our_tests_keep_their_contract(test: TwoSampleTest):
    paired = isinstance(test.calibration, PairSwap)
    testing.check_test(test, sizes=(30, 30) if paired else (30, 24), runs=20, rng=0)


def test_a_test_on_ties_keeps_its_contract():
    def draw(rng: np.random.Generator, size: int) -> np.ndarray:
        return rng.integers(0, 3, size=(size, 2)).astype(float)

    testing.check_test(twosample.mmd_median(permutations=19), draw, sizes=(20, 15), runs=40, rng=1)


# Broken ones. Each breaks one clause; what it leaves is right.


class Broken(Kernel):
    """A right kernel, for others to break."""

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(0.3))

    def tile(self, a, b):
        return 1 / (1 + (a[0][:, None] - b[0][None]).square().sum(2) * self.log_scale.exp())

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class StartsAnyhow(Broken):
    def start(self, points, generator):
        with torch.no_grad():
            self.log_scale.copy_(torch.randn(()))


class Forgets(Broken):
    calls = 0

    def tile(self, a, b):
        self.calls += 1
        return super().tile(a, b) * (1 + 0.01 * self.calls)


class LosesRows(Broken):
    def embed(self, points):
        return (points[1:],)


class MiscountsParts(Broken):
    def embed(self, points):
        return points, points


class SeesTheOrder(Broken):
    def embed(self, points):
        return (points.cumsum(0),)


class CallsSomethingElse(Broken):
    def forward(self, x, y):
        return super().forward(x, y) ** 2


class Lopsided(Broken):
    def tile(self, a, b):
        return super().tile(a, b) * a[0][:, :1].exp()


class Indefinite(Broken):
    def tile(self, a, b):
        return -super().tile(a, b)


class WrongPairs(Broken):
    def pairs(self, a, b):
        return super().pairs(a, b) * 1.001


class CentresEachPart(Broken):
    def centred(self, z):
        return (z[0] * 0.9,)


class WrongCross(Broken):
    def sides(self, z):
        return z, (z[0] + 0.01,)


class WrongFeatures(Broken):
    def features(self, z):
        return z[0]


class KnowsItsTile(Broken):
    def tile(self, a, b):
        return super().tile(a, b) * (1 if len(a[0]) > 3 else 1.01)


class WrongPullback(Broken):
    def tile_and_pullback(self, a, b):
        tile, pull = super().tile_and_pullback(a, b)

        def halved(grad, needs):
            into_a, into_b, into_parameters = pull(grad, needs)
            return [g / 2 for g in into_a], into_b, into_parameters

        return tile, halved


class Detaches(Broken):
    def tile(self, a, b):
        return super().tile(a, b) * torch.sigmoid(self.log_scale.detach())


class ForgetsParameters(Broken):
    def tile_parameters(self):
        return ()


class ComputesInDouble(Broken):
    def tile(self, a, b):
        return super().tile(a, b).double()


class HidesTensors(Broken):
    def __init__(self) -> None:
        super().__init__()
        self.factor = torch.tensor(2.0, dtype=torch.float64)

    def tile(self, a, b):
        return super().tile(a, b) * float(self.factor)


class IsItsCopy(Broken):
    def __deepcopy__(self, memo):
        return self


class StartsInSecret(Broken):
    width = 1.0

    def start(self, points, generator):
        self.width = 2.0  # neither a parameter nor a buffer: no file has it

    def tile(self, a, b):
        return super().tile(a, b) * self.width


KERNEL_FAULTS = {
    StartsAnyhow: "`start` draws from the generator",
    Forgets: "the same values every time",
    LosesRows: "one row for each point",
    MiscountsParts: "one row for each point",
    SeesTheOrder: "does not depend on the order",
    CallsSomethingElse: "Calling the kernel is",
    Lopsided: "symmetric",
    Indefinite: "no negative eigenvalue",
    WrongPairs: "`pairs`",
    CentresEachPart: "`centred`",
    WrongCross: "`cross`",
    WrongFeatures: "`features`",
    KnowsItsTile: "do not depend on the tiles",
    WrongPullback: "`tile_and_pullback`",
    Detaches: "gradient of every parameter is",
    ForgetsParameters: "through sums over tiles",
    ComputesInDouble: "float32",
    HidesTensors: "parameters and buffers",
    IsItsCopy: "A copy is independent",
    StartsInSecret: "saved and comes back",
}


def test_the_kernel_that_the_others_break_is_right():
    testing.check_kernel(Broken(), POINTS)
    testing.check_kernel(RationalQuadratic(), POINTS)


@pytest.mark.parametrize("kind", KERNEL_FAULTS, ids=lambda kind: kind.__name__)
def test_a_broken_kernel_is_caught(kind: type[Broken]):
    with pytest.raises(BrokenContract, match=KERNEL_FAULTS[kind]) as caught:
        testing.check_kernel(kind(), POINTS)
    assert str(caught.value).startswith(f"{kind.__name__}() breaks its contract as a kernel: ")


class Net(nn.Module):
    """A right featurizer, for others to break."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.utils.skip_init(nn.Linear, 3, 4)
        with torch.no_grad():
            for parameter in self.linear.parameters():
                parameter.copy_(torch.linspace(-1, 1, parameter.numel()).view(parameter.shape))

    def forward(self, seen):
        return torch.tanh(self.linear(seen))


class DrawsAnyhow(Net):
    def start(self, points, generator):
        nn.init.normal_(self.linear.weight)


class DropsOut(Net):
    def forward(self, seen):
        return nn.functional.dropout(super().forward(seen), 0.5)


class Pools(Net):
    def forward(self, seen):
        return super().forward(seen).mean(0, keepdim=True)


class NotFinite(Net):
    def forward(self, seen):
        return super().forward(seen).log()


class Recurrent(Net):
    def forward(self, seen):
        return super().forward(seen).cumsum(0)


class Saturates(Net):
    def forward(self, seen):
        return super().forward(seen).detach() + 0 * super().forward(seen)


class ToDouble(Net):
    def forward(self, seen):
        return super().forward(seen).double()


class OutOfSight(Net):
    def __init__(self) -> None:
        super().__init__()
        self.shift = torch.ones(4, dtype=torch.float64)

    def forward(self, seen):
        return super().forward(seen) + self.shift.to(seen)


class NoCopy(Net):
    def __deepcopy__(self, memo):
        return self


class StartsUnseen(Net):
    scale = 1.0

    def start(self, points, generator):
        self.scale = 3.0

    def forward(self, seen):
        return super().forward(seen) * self.scale


NET_FAULTS = {
    DrawsAnyhow: "`start` draws from the generator",
    DropsOut: "the same values every time",
    Pools: "one row for each point",
    NotFinite: "the same values every time|finite",
    Recurrent: "does not depend on the order",
    Saturates: "gradient of every parameter",
    ToDouble: "float32",
    OutOfSight: "parameters and buffers",
    NoCopy: "A copy is independent",
    StartsUnseen: "saved and comes back",
}


def test_the_featurizer_that_the_others_break_is_right():
    testing.check_featurizer(Net(), POINTS)


@pytest.mark.parametrize("kind", NET_FAULTS, ids=lambda kind: kind.__name__)
def test_a_broken_featurizer_is_caught(kind: type[Net]):
    with pytest.raises(BrokenContract, match=NET_FAULTS[kind]):
        testing.check_featurizer(kind(), POINTS)


class FitsAnyhow(Cosines):
    def fit(self, pooled, layout):
        self.lengths = torch.rand(pooled.rows.shape[1], dtype=torch.float64)


class CountsItsFits(Cosines):
    fits = 0

    def fit(self, pooled, layout):
        type(self).fits += 1
        self.lengths = pooled.rows.std(0) + self.fits


class DrawsItsPhase(Cosines):
    def features(self, seen):
        return super().features(seen) + torch.rand(())


class SeesOneView(Cosines):
    def features(self, seen):
        return super().features(seen).flatten(1)


class InSinglePrecision(Cosines):
    def features(self, seen):
        return super().features(seen).float()


class HasNoLogarithm(Cosines):
    def features(self, seen):
        return super().features(seen).log()


class CentresThePart(Cosines):
    def features(self, seen):
        features = super().features(seen)
        return features - features.mean(0)


class ForgetsAColumn(Cosines):
    def columns(self):
        return super().columns()[1:]


class NamesNoColumn(Cosines):
    def columns(self):
        return [(column + 1,) for (column,) in super().columns()]


class HasUpperFactors(Cosines):
    def metric(self):
        return torch.ones(3, 2, 2, dtype=torch.float64).triu()


class MeasuresNothing(Cosines):
    def metric(self):
        return torch.zeros(3, 2, 2, dtype=torch.float64)


class HasTheWrongMetric(Cosines):
    def metric(self):
        return torch.eye(3, dtype=torch.float64)


class IsBlindToAll(Cosines):
    def are_blind(self, means, points):
        return torch.tensor(True)


class IsHalfBlind(Cosines):
    def are_blind(self, means, points):
        return 0.5 * torch.ones(len(means))


class WeighsNothing(Cosines):
    weight = 0.0


class DividesByNothing(Cosines):
    regularisation = (0.1, 0.0)


class HasNoName(Cosines):
    def __repr__(self) -> str:
        return "a view"


class HidesItsLengths(Cosines):
    def fit(self, pooled, layout):
        super().fit(pooled, layout)
        self.hidden = self.lengths.clone()


class SharesItsLengths(Cosines):
    def __deepcopy__(self, memo):
        other = type(self)()
        other.lengths = self.lengths
        return other


class FitsUnseen(Cosines):
    def fit(self, pooled, layout):
        super().fit(pooled, layout)
        self.factor = 2.0

    def features(self, seen):
        return super().features(seen)[:, :, : int(getattr(self, "factor", 1))]


VIEW_FAULTS = {
    FitsAnyhow: "nor on chance",
    CountsItsFits: "the order of the points",
    DrawsItsPhase: "the same values every time",
    SeesOneView: "`features` gives",
    InSinglePrecision: "`features` gives",
    HasNoLogarithm: "`features` gives",
    CentresThePart: "do not depend on the other points",
    ForgetsAColumn: "`columns`",
    NamesNoColumn: "`columns`",
    HasUpperFactors: "`metric`",
    MeasuresNothing: "`metric`",
    HasTheWrongMetric: "`metric`",
    IsBlindToAll: "`are_blind`",
    IsHalfBlind: "`are_blind`",
    WeighsNothing: "`weight`",
    DividesByNothing: "`regularisation`",
    HasNoName: "can be printed",
    SharesItsLengths: "A copy is independent",
    HidesItsLengths: "parameters and buffers",
    FitsUnseen: "saved and comes back",
}


@pytest.mark.parametrize("kind", VIEW_FAULTS, ids=lambda kind: kind.__name__)
def test_a_broken_view_is_caught(kind: type[Cosines]):
    with pytest.raises(BrokenContract, match=VIEW_FAULTS[kind]):
        testing.check_view(kind(), X, Y)


@dataclasses.dataclass(frozen=True)
class Mean(Statistic):
    """A right statistic, for others to break: |mean f(X) - mean f(Y)| of one score f."""

    def check(self, representation):
        pass

    def prepare(self, representation, points, bins, generator):
        f = points.parts[0].double()[:, 0]
        totals = torch.zeros(bins.count, dtype=torch.float64).index_add_(
            0, torch.cat([bins.of_x, bins.of_y]), f
        )
        return PreparedMean(bins, points.sizes, totals)

    def evaluate(self, prepared, shuffles):
        of_x = prepared.bins.in_x(shuffles) @ prepared.totals
        n, m = prepared.sizes
        return (of_x / n - (prepared.totals.sum() - of_x) / m).abs()

    def effect(self, prepared, observed, threshold):
        return twosample.Effect()


@dataclasses.dataclass(frozen=True)
class PreparedMean:
    bins: Any
    sizes: tuple[int, int]
    totals: Tensor
    resolution: float = 1e-12


class Refuses(Mean):
    def check(self, representation):
        raise twosample.IncompatibleParts("not this one.")


class ShuffledByChance(Mean):
    shuffled_by = ("chance",)


class SeesOtherShuffles(Mean):
    def evaluate(self, prepared, shuffles):
        values = super().evaluate(prepared, shuffles)
        return values - values.mean()


class InSingle(Mean):
    def evaluate(self, prepared, shuffles):
        return super().evaluate(prepared, shuffles).float()


class FavoursTheObserved(Mean):
    """The error that makes every test reject: the observed order is not treated as the others
    are."""

    def evaluate(self, prepared, shuffles):
        observed = (shuffles == torch.arange(shuffles.shape[1])).all(1)
        return super().evaluate(prepared, shuffles) + 100 * observed


class LooksAtRows(Mean):
    """Its totals weigh points by their place, wherever these go."""

    def prepare(self, representation, points, bins, generator):
        found = super().prepare(representation, points, bins, generator)
        weights = 1 + torch.arange(bins.count, dtype=torch.float64)
        return dataclasses.replace(found, totals=found.totals * weights)


class CountsTheFirstMore(Mean):
    """It weighs the points of X by their place among them, and says that it does not look at the
    order."""

    def evaluate(self, prepared, shuffles):
        bins, n = prepared.bins, prepared.bins.moving_x
        weights = torch.linspace(2, 1, n, dtype=torch.float64)
        of_x = (prepared.totals[shuffles[:, :n]] * weights).sum(1) / (bins.size * weights.sum())
        return (of_x - prepared.totals[shuffles[:, n:]].mean(1) / bins.size).abs()


class TakesUnitsForPoints(Mean):
    """Its sizes are those of the observed labelling, which units of different sizes change."""

    takes_units = True


class RaisesTheFirst(Mean):
    """Whatever labelling comes first, the observed one, gets a larger value."""

    def fuse(self, prepared, values):
        return values + 100 * (torch.arange(values.shape[-1]) == 0)


class FusesToOneNumber(Mean):
    def fuse(self, prepared, values):
        return values.max()


class Shrinks(Mean):
    def evaluate(self, prepared, shuffles):
        return -super().evaluate(prepared, shuffles)


class TakesShortcuts(Mean):
    def prepare(self, representation, points, bins, generator):
        found = super().prepare(representation, points, bins, generator)
        factor = 1.1 if points.resources.memory < 10_000 else 1
        return dataclasses.replace(found, totals=found.totals * factor)


class DrawsForItself(Mean):
    def prepare(self, representation, points, bins, generator):
        found = super().prepare(representation, points, bins, generator)
        torch.rand(1)
        return found


class WrongLaw(Mean):
    def check_law(self, representation):
        pass

    def law(self, prepared):
        from twosample._statistics import Law

        return Law(lambda value: 0.9, lambda alpha: 1.0, "law of nobody")


class NoResolution(Mean):
    def prepare(self, representation, points, bins, generator):
        return dataclasses.replace(
            super().prepare(representation, points, bins, generator), resolution=math.nan
        )


class NoEffect(Mean):
    def effect(self, prepared, observed, threshold):
        return None


class KeepsData(Mean):
    def prepare(self, representation, points, bins, generator):
        object.__setattr__(self, "seen", getattr(self, "seen", 0) + 1)
        return super().prepare(representation, points, bins, generator)


STATISTIC_FAULTS = {
    Refuses: "takes the representation",
    ShuffledByChance: "ways to shuffle",
    SeesOtherShuffles: "whatever others come with it",
    InSingle: "float64",
    RaisesTheFirst: "in whatever order they come",
    FusesToOneNumber: "one float64 for each labelling",
    FavoursTheObserved: "once their points have moved",
    LooksAtRows: "once their points have moved",
    TakesUnitsForPoints: "the value of the moved samples",
    CountsTheFirstMore: "The order of points within a sample",
    Shrinks: "larger in the observed order",
    TakesShortcuts: "`memory`",
    DrawsForItself: "generator it is given",
    WrongLaw: "its law",
    NoResolution: "rounding error",
    NoEffect: "rounding error",
    KeepsData: "never data",
}


def test_the_statistic_that_the_others_break_is_right():
    testing.check_statistic(Mean(), SumOfColumns(), X, Y)


@pytest.mark.parametrize("kind", STATISTIC_FAULTS, ids=lambda kind: kind.__name__)
def test_a_broken_statistic_is_caught(kind: type[Mean]):
    with pytest.raises(BrokenContract, match=STATISTIC_FAULTS[kind]):
        testing.check_statistic(kind(), SumOfColumns(), X, Y)


@dataclasses.dataclass(frozen=True)
class Apart:
    """A right objective, for others to break: how far the mean features are from each other."""

    def __call__(self, representation, x, y, *, memory=0):
        (f,) = representation.embed(torch.cat([x, y]))
        return (f[: len(x)].mean(0) - f[len(x) :].mean(0)).square().sum()


class ManyNumbers(Apart):
    def __call__(self, representation, x, y, *, memory=0):
        return super().__call__(representation, x, y)[None]


class Infinite(Apart):
    def __call__(self, representation, x, y, *, memory=0):
        return super().__call__(representation, x, y) / 0


class NoGradient(Apart):
    def __call__(self, representation, x, y, *, memory=0):
        return super().__call__(representation, x, y).detach()


class WrongGradient(Apart):
    def __call__(self, representation, x, y, *, memory=0):
        value = super().__call__(representation, x, y)
        return value * value.detach()


class CountsBytes(Apart):
    def __call__(self, representation, x, y, *, memory=0):
        return super().__call__(representation, x, y) + (memory < 10_000)


class Trains(Apart):
    def __call__(self, representation, x, y, *, memory=0):
        value = super().__call__(representation, x, y)
        with torch.no_grad():
            representation.featurizer.linear.bias.add_(1e-3)
        return value


class Backward(Apart):
    def __call__(self, representation, x, y, *, memory=0):
        super().__call__(representation, x, y).backward()
        return super().__call__(representation, x, y)


class Remembers(Apart):
    def __call__(self, representation, x, y, *, memory=0):
        object.__setattr__(self, "last", x)
        return super().__call__(representation, x, y)


class Flat(Apart):
    def __call__(self, representation, x, y, *, memory=0):
        return 0 * super().__call__(representation, x, y)


OBJECTIVE_FAULTS = {
    ManyNumbers: "one finite number",
    Infinite: "one finite number",
    NoGradient: "with a gradient",
    WrongGradient: "Its gradient in every parameter",
    CountsBytes: "`memory`",
    Trains: "changes nothing in the representation",
    Backward: "changes nothing in the representation",
    Remembers: "never data",
    Flat: "moves parameters",
}


def test_the_objective_that_the_others_break_is_right():
    testing.check_objective(Apart(), OnFeatures(Net(), Linear()), X, Y)


@pytest.mark.parametrize("kind", OBJECTIVE_FAULTS, ids=lambda kind: kind.__name__)
def test_a_broken_objective_is_caught(kind: type[Apart]):
    with pytest.raises(BrokenContract, match=OBJECTIVE_FAULTS[kind]):
        testing.check_objective(kind(), OnFeatures(Net(), Linear()), X, Y)


@dataclasses.dataclass(frozen=True)
class ByWho(twosample.Design):
    """A right design, for others to break."""

    calls: list = dataclasses.field(default_factory=list)

    @property
    def keys(self):
        return ("who",)

    def units(self, sizes, codes):
        return twosample.Units.of(codes[0])


class OneForBoth(ByWho):
    def units(self, sizes, codes):
        units = super().units(sizes, codes)
        return dataclasses.replace(units, of_y=units.of_y - 1)


class ChangesItsMind(ByWho):
    """Three rows of a subject at first, and some of the next one later."""

    def units(self, sizes, codes):
        type(self).asked = getattr(type(self), "asked", 0) + 1
        later = type(self).asked > 3
        groups = torch.arange(sizes[0]) + later, torch.arange(sizes[1]) + later
        return twosample.Units.of((groups[0] // 3, groups[1] // 3))


class InTheOrderOfRows(ByWho):
    def units(self, sizes, codes):
        return twosample.Units.of((torch.arange(sizes[0]) // 5, torch.arange(sizes[1]) // 4))


class TooLargeToSplit(ByWho):
    def units(self, sizes, codes):
        return twosample.Units.of((codes[0][0] // 12, codes[0][1] // 12))


class Counts(ByWho):
    def units(self, sizes, codes):
        self.calls.append(sizes)
        return super().units(sizes, codes)


DESIGN_FAULTS = {
    OneForBoth: "no unit has rows of both",
    ChangesItsMind: "Its moves are a group",
    InTheOrderOfRows: "the units and cells are the same",
    TooLargeToSplit: "A split leaves every unit on one side",
    Counts: "never data",
}


class OnlySomeOf(ByWho):
    """A right one that leaves rows out: the first and the last subject of all."""

    def units(self, sizes, codes):
        last = int(torch.cat(codes[0]).max())
        of_x, of_y = (torch.where((of > 0) & (of < last), of, -1) for of in codes[0])
        return twosample.Units.of((of_x, of_y), unit="subject")


def test_a_design_may_leave_rows_out():
    testing.check_design(OnlySomeOf(), grouped(0, 0), grouped(1, 100))
    units = testing._Design(OnlySomeOf(), grouped(0, 0), grouped(1, 100)).value()
    assert units.describe() == "11 + 11 subjects"


def test_the_design_that_the_others_break_is_right():
    testing.check_design(ByWho(), grouped(0, 0), grouped(1, 100))


@pytest.mark.parametrize("kind", DESIGN_FAULTS, ids=lambda kind: kind.__name__)
def test_a_broken_design_is_caught(kind: type[ByWho]):
    with pytest.raises(BrokenContract, match=DESIGN_FAULTS[kind]):
        testing.check_design(kind(), grouped(0, 0), grouped(1, 100))


@dataclasses.dataclass(frozen=True)
class Wrapped:
    """A right test, for others to break."""

    test: TwoSampleTest = dataclasses.field(
        default_factory=lambda: TwoSampleTest(Gaussian(1.0), calibration=Permutation(19))
    )

    @property
    def representation(self) -> nn.Module:
        return self.test.representation

    def run(self, X, Y, **options):
        return self.test.run(X, Y, **options)


class Rolls(Wrapped):
    def run(self, X, Y, **options):
        return self.test.run(X, Y + np.random.normal(size=Y.shape), **options)  # noqa: NPY002


class IgnoresItsSeed(Wrapped):
    def run(self, X, Y, *, rng, **options):
        return self.test.run(X, Y, rng=None, **options)


class CanBeZero(Wrapped):
    def run(self, X, Y, **options):
        result = self.test.run(X, Y, **options)
        return dataclasses.replace(result, pvalue=result.pvalue - 0.05)


class TrainsInPlace(Wrapped):
    def run(self, X, Y, **options):
        with torch.no_grad():
            self.test.representation.log_bandwidth += 0.01
        result = self.test.run(X, Y, **options)
        return dataclasses.replace(
            result, statistic=0.0, pvalue=1.0, null_distribution=np.zeros(19)
        )


class Cleans(Wrapped):
    """Leaves out the points that look wrong for their sample, and tests the others."""

    def run(self, X, Y, **options):
        X, Y = (sample[np.argsort(sample[:, 0])] for sample in (X, Y))
        return self.test.run(X[len(X) // 4 :], Y[: -len(Y) // 4], **options)


TEST_FAULTS = {
    Rolls: "One seed gives one answer",
    IgnoresItsSeed: "One seed gives one answer",
    CanBeZero: "P-values are larger than 0",
    TrainsInPlace: "trains nothing in place",
    Cleans: "no more often than alpha",
}


def test_the_test_that_the_others_break_is_right():
    testing.check_test(Wrapped(), runs=40, rng=0)


@pytest.mark.parametrize("kind", TEST_FAULTS, ids=lambda kind: kind.__name__)
def test_a_broken_test_is_caught(kind: type[Wrapped]):
    with pytest.raises(BrokenContract, match=TEST_FAULTS[kind]):
        testing.check_test(kind(), runs=30, rng=0)


def test_a_statistic_that_favours_the_observed_order_makes_a_test_that_is_caught():
    test = TwoSampleTest(
        SumOfColumns(), statistic=FavoursTheObserved(), calibration=Permutation(19)
    )
    with pytest.raises(
        BrokenContract, match=r"it rejected 30 of 30 at 0\.05; an exact test stays within"
    ):
        testing.check_test(test, runs=30, rng=0)


@pytest.mark.parametrize(
    ("kind", "faults"),
    [
        ("kernel", KERNEL_FAULTS),
        ("featurizer", NET_FAULTS),
        ("view", VIEW_FAULTS),
        ("statistic", STATISTIC_FAULTS),
        ("objective", OBJECTIVE_FAULTS),
        ("design", DESIGN_FAULTS),
        ("test", TEST_FAULTS),
    ],
)
def test_there_is_a_broken_part_for_every_clause(kind: str, faults: dict[type, str]):
    unbroken = [
        clause
        for clause in testing.clauses(kind)
        if not any(re.search(f, clause) for f in faults.values())
    ]
    assert not set(unbroken) - {"On an accelerator, where there is one, it gives the same values."}


# How it complains


def test_parts_are_left_as_they_were():
    kernel = DeepKernel(network())
    before = {name: tensor.clone() for name, tensor in kernel.state_dict().items()}
    testing.check_kernel(kernel, POINTS)
    assert all(
        torch.equal(t.nan_to_num(), before[n].nan_to_num()) for n, t in kernel.state_dict().items()
    )


@pytest.mark.parametrize("few", [torch.zeros(7, 2), torch.zeros(20)], ids=["rows", "dimensions"])
def test_too_few_points_are_refused(few: Tensor):
    with pytest.raises(twosample.InputError, match=r"give at least 8 rows"):
        testing.check_kernel(Gaussian(), few)


def test_a_part_that_raises_breaks_the_clause_it_raises_in():
    class Raises(Broken):
        def pairs(self, a, b):
            raise ZeroDivisionError("oops")

    with pytest.raises(
        BrokenContract, match=r"`pairs` .* it raised ZeroDivisionError: oops"
    ) as caught:
        testing.check_kernel(Raises(), POINTS)
    assert isinstance(caught.value, AssertionError) and isinstance(
        caught.value.__cause__, ZeroDivisionError
    )


def test_the_message_has_numbers():
    with pytest.raises(BrokenContract) as caught:
        testing.check_kernel(Lopsided(), POINTS)
    assert "the transposed matrix is " in str(caught.value) and " at (" in str(caught.value)
