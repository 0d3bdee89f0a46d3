"""The catalogue: each method is a function that chooses parts, nothing more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from torch import nn

from .calibration import Permutation
from .featurizers import AutoFeaturizer
from .kernels import DeepKernel, Gaussian
from .learning import Learning
from .objectives import PowerCriterion
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


METHODS: Mapping[str, Callable[..., TwoSampleTest]] = MappingProxyType(
    {"mmd-d": mmd_d, "mmd-o": mmd_o, "mmd-median": mmd_median}
)
"""Every method by the name that `two_sample_test` and the command line take."""
