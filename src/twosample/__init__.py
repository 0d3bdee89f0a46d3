"""Do two samples come from the same distribution, and if not, how do they differ?

>>> import numpy as np, twosample
>>> rng = np.random.default_rng(0)
>>> twosample.two_sample_test(rng.normal(size=(100, 3)), rng.normal(size=(80, 3)), rng=0).reject()
False
"""

from ._api import two_sample_test
from ._calibration import Asymptotic, PairSwap, Permutation, Spectral
from ._data.columns import Columns
from ._data.samples import Samples, as_samples
from ._data.streams import Stream
from ._featurizers import (
    MLP,
    AutoFeaturizer,
    Bounded,
    Classifier,
    ConvNet,
    Frozen,
    MeanEmbedding,
    ResidualMLP,
    SklearnClassifier,
    SmoothCharacteristic,
)
from ._insight.comparing import Comparison, ComparisonInterrupted, compare
from ._insight.explain import ColumnDifference, Explanation, TellingRow, explain, witness
from ._insight.locations import Locations, locations
from ._insight.power import (
    DetectableEffect,
    PredictedPower,
    SplitChoice,
    SplitRow,
    choose_split,
    corollary_split,
    predict_power,
)
from ._kernels import (
    ARDGaussian,
    DeepKernel,
    Gaussian,
    InverseMultiquadric,
    Kernel,
    Laplace,
    Linear,
    OnFeatures,
    Probability,
    Sign,
    WeightedSum,
    median_bandwidth,
)
from ._learning import Learning
from ._methods import (
    ABLATIONS,
    METHODS,
    ablation,
    c2st_l,
    c2st_s,
    me,
    mmd_block,
    mmd_compressed,
    mmd_d,
    mmd_median,
    mmd_mkl,
    mmd_o,
    scf,
)
from ._objectives import CrossEntropy, MeanDiscrepancy, Noncentrality, PowerCriterion
from ._products import block_sums, row_sums
from ._result import Effect, TrainingLog, TwoSampleResult
from ._saving.saving import load
from ._statistics.mmd import MMD, HotellingT2
from ._two_sample import FittedTest, TwoSampleTest
from ._version import __version__ as __version__
from .errors import (
    ClusterError,
    IncompatibleParts,
    InputError,
    InputWarning,
    MissingDependency,
    TrainingError,
    TrainingWarning,
    TwoSampleError,
)

__all__ = [
    "ABLATIONS",
    "METHODS",
    "MLP",
    "MMD",
    "ARDGaussian",
    "Asymptotic",
    "AutoFeaturizer",
    "Bounded",
    "Classifier",
    "ClusterError",
    "ColumnDifference",
    "Columns",
    "Comparison",
    "ComparisonInterrupted",
    "ConvNet",
    "CrossEntropy",
    "DeepKernel",
    "DetectableEffect",
    "Effect",
    "Explanation",
    "FittedTest",
    "Frozen",
    "Gaussian",
    "HotellingT2",
    "IncompatibleParts",
    "InputError",
    "InputWarning",
    "InverseMultiquadric",
    "Kernel",
    "Laplace",
    "Learning",
    "Linear",
    "Locations",
    "MeanDiscrepancy",
    "MeanEmbedding",
    "MissingDependency",
    "Noncentrality",
    "OnFeatures",
    "PairSwap",
    "Permutation",
    "PowerCriterion",
    "PredictedPower",
    "Probability",
    "ResidualMLP",
    "Samples",
    "Sign",
    "SklearnClassifier",
    "SmoothCharacteristic",
    "Spectral",
    "SplitChoice",
    "SplitRow",
    "Stream",
    "TellingRow",
    "TrainingError",
    "TrainingLog",
    "TrainingWarning",
    "TwoSampleError",
    "TwoSampleResult",
    "TwoSampleTest",
    "WeightedSum",
    "ablation",
    "as_samples",
    "block_sums",
    "c2st_l",
    "c2st_s",
    "choose_split",
    "compare",
    "corollary_split",
    "explain",
    "load",
    "locations",
    "me",
    "median_bandwidth",
    "mmd_block",
    "mmd_compressed",
    "mmd_d",
    "mmd_median",
    "mmd_mkl",
    "mmd_o",
    "predict_power",
    "row_sums",
    "scf",
    "two_sample_test",
    "witness",
]
