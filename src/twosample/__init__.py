"""Do two samples come from the same distribution, and if not, how do they differ?

>>> import numpy as np, twosample
>>> rng = np.random.default_rng(0)
>>> twosample.two_sample_test(rng.normal(size=(100, 3)), rng.normal(size=(80, 3)), rng=0).reject()
False
"""

from ._version import __version__ as __version__
from .api import two_sample_test
from .calibration import Permutation
from .errors import (
    IncompatibleParts,
    InputError,
    InputWarning,
    MissingDependency,
    TrainingError,
    TrainingWarning,
    TwoSampleError,
)
from .featurizers import MLP, AutoFeaturizer, Classifier, ConvNet, ResidualMLP
from .kernels import DeepKernel, Gaussian, Kernel, Linear, OnFeatures, Probability, Sign, median_bandwidth
from .learning import Learning
from .methods import METHODS, c2st_l, c2st_s, mmd_d, mmd_median, mmd_o
from .objectives import CrossEntropy, MeanDiscrepancy, PowerCriterion
from .products import block_sums, row_sums
from .result import Effect, TrainingLog, TwoSampleResult
from .samples import Samples, as_samples
from .statistics import MMD
from .two_sample import FittedTest, TwoSampleTest

__all__ = [
    "METHODS",
    "MLP",
    "MMD",
    "AutoFeaturizer",
    "Classifier",
    "ConvNet",
    "CrossEntropy",
    "DeepKernel",
    "Effect",
    "FittedTest",
    "Gaussian",
    "IncompatibleParts",
    "InputError",
    "InputWarning",
    "Kernel",
    "Learning",
    "Linear",
    "MeanDiscrepancy",
    "MissingDependency",
    "OnFeatures",
    "Permutation",
    "PowerCriterion",
    "Probability",
    "ResidualMLP",
    "Samples",
    "Sign",
    "TrainingError",
    "TrainingLog",
    "TrainingWarning",
    "TwoSampleError",
    "TwoSampleResult",
    "TwoSampleTest",
    "as_samples",
    "block_sums",
    "c2st_l",
    "c2st_s",
    "median_bandwidth",
    "mmd_d",
    "mmd_median",
    "mmd_o",
    "row_sums",
    "two_sample_test",
]
