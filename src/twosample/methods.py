"""The catalogue: each method is a function that chooses parts, nothing more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from torch import nn

from .calibration import Permutation
from .featurizers import AutoFeaturizer, Classifier
from .kernels import DeepKernel, Gaussian, Kernel, Linear, OnFeatures, Probability, Sign
from .learning import Learning
from .objectives import CrossEntropy, PowerCriterion
from .statistics import MMD
from .two_sample import TwoSampleTest


def mmd_d(featurizer: nn.Module | None = None, *, permutations: int = 999, **learning: Any) -> TwoSampleTest:
    """MMD with a deep kernel trained for test power: finds differences of any shape, in tables and images.

    [Liu2020], the paper's own test. `featurizer` is any network from points to vectors (a `ResidualMLP` for tables
    and a `ConvNet` for images if None); further options are those of `Learning`.
    """
    return TwoSampleTest(
        DeepKernel(AutoFeaturizer() if featurizer is None else featurizer),
        learning=Learning(PowerCriterion(), **learning),
        statistic=MMD("unbiased"),
        calibration=Permutation(permutations),
        name="mmd-d",
    )


def mmd_o(*, permutations: int = 999, **learning: Any) -> TwoSampleTest:
    """MMD with a Gaussian kernel whose bandwidth is trained for test power: quick, strong where one scale fits all.

    [Sutherland2017]; further options are those of `Learning`. The grid on J finds the bandwidth, a few steps refine it.
    """
    return TwoSampleTest(
        Gaussian(),
        learning=Learning(PowerCriterion(), **{"steps": 50, **learning}),
        statistic=MMD("unbiased"),
        calibration=Permutation(permutations),
        name="mmd-o",
    )


def mmd_median(*, permutations: int = 999) -> TwoSampleTest:
    """MMD with a Gaussian kernel at the median distance: no training and no split, for differences as wide as the data.

    [Gretton2012].
    """
    return TwoSampleTest(
        Gaussian(), statistic=MMD("unbiased"), calibration=Permutation(permutations), name="mmd-median"
    )


def c2st_s(network: nn.Module | None = None, *, permutations: int = 999, **learning: Any) -> TwoSampleTest:
    """Classifier two-sample test by accuracy: easy to explain, weaker than its scores.

    [LopezPaz2017]: the accuracy of a classifier on points it has not seen. `network` is its featurizer.
    """
    return _classifier_test("c2st-s", Sign(), network, permutations, learning)


def c2st_l(
    network: nn.Module | None = None, *, probability: bool = False, permutations: int = 999, **learning: Any
) -> TwoSampleTest:
    """Classifier two-sample test by mean score: uses how sure the classifier is, not only whether it is right.

    [ChengCloninger2019]: the difference of a classifier's mean logits or, with `probability`, of its mean
    probabilities, as in the code of [Liu2020].
    """
    return _classifier_test("c2st-l", Probability() if probability else Linear(), network, permutations, learning)


def _classifier_test(
    name: str, kernel: Kernel, network: nn.Module | None, permutations: int, learning: dict[str, Any]
) -> TwoSampleTest:
    settings = {"steps": 3000, "batch_size": 128, "learning_rate": 1e-2, **learning}
    return TwoSampleTest(
        OnFeatures(Classifier(network), kernel),
        learning=Learning(CrossEntropy(), **settings),
        statistic=MMD("biased"),
        calibration=Permutation(permutations),
        name=name,
    )


METHODS: Mapping[str, Callable[..., TwoSampleTest]] = MappingProxyType(
    {"mmd-d": mmd_d, "mmd-o": mmd_o, "mmd-median": mmd_median, "c2st-s": c2st_s, "c2st-l": c2st_l}
)
"""Every method by the name that `two_sample_test` and the command line take."""
