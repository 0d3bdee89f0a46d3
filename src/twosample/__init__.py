"""Do two samples come from the same distribution, and if not, how do they differ?

>>> import numpy as np, twosample
>>> rng = np.random.default_rng(0)
>>> twosample.two_sample_test(rng.normal(size=(100, 3)), rng.normal(size=(80, 3)), rng=0).reject()
False
"""

from ._version import __version__ as __version__
from .api import two_sample_test
from .calibration import Asymptotic, PairSwap, Permutation, Spectral
from .columns import Columns
from .comparing import Comparison, ComparisonInterrupted, compare
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
from .explain import ColumnDifference, Explanation, TellingRow, explain, witness
from .featurizers import (
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
from .kernels import (
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
from .learning import Learning
from .locations import Locations, locations
from .methods import (
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
from .objectives import CrossEntropy, MeanDiscrepancy, Noncentrality, PowerCriterion
from .power import (
    DetectableEffect,
    PredictedPower,
    SplitChoice,
    SplitRow,
    choose_split,
    corollary_split,
    predict_power,
)
from .products import block_sums, row_sums
from .result import Effect, TrainingLog, TwoSampleResult
from .samples import Samples, as_samples
from .saving import load
from .statistics import MMD, HotellingT2
from .streams import Stream
from .two_sample import FittedTest, TwoSampleTest

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
