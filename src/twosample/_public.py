"""What `import twosample` offers: every public name and where it lives."""

from collections.abc import Mapping
from types import MappingProxyType

from ._api import two_sample_test
from ._calibration import Asymptotic, Calibration, PairSwap, Permutation, SpectralLimit
from ._data.columns import Columns
from ._data.samples import Samples
from ._data.streams import Stream
from ._data.survey import as_samples
from ._design import Blocks, Design, Groups, Pairs, Rows, Strata, Units
from ._featurizers import (
    MLP,
    AutoFeaturizer,
    Classifier,
    ConvNet,
    MeanEmbedding,
    ResidualMLP,
    SklearnClassifier,
    SmoothCharacteristic,
)
from ._findings import Finding, Findings
from ._insight.changes import ColumnChange, LevelChange, PairChange
from ._insight.checks.checking import check
from ._insight.column_tests import ColumnDifference
from ._insight.comparing import Comparison, ComparisonInterrupted, compare
from ._insight.explain import Explanation, TellingRow, explain, witness
from ._insight.locations import Locations, locations
from ._insight.power import (
    PredictedPower,
    SplitChoice,
    choose_split,
    predict_power,
)
from ._insight.prediction import PlantedPower, PowerPlan
from ._insight.smallest import SmallestDifference
from ._insight.summaries import ColumnSummary
from ._insight.tolerance import Decision, Margin
from ._insight.where import PairDifference
from ._kernels import (
    ARDGaussian,
    DeepKernel,
    Gaussian,
    InverseMultiquadric,
    Kernel,
    Laplace,
    Linear,
    ManhattanLaplace,
    OnFeatures,
    Probability,
    Sign,
    WeightedSum,
    median_bandwidth,
)
from ._learning import Learning, TrainingInterrupted
from ._methods import (
    METHODS,
    ablation,
    auto,
    c2st_l,
    c2st_s,
    c2st_trees,
    me,
    mmd_agg,
    mmd_block,
    mmd_compressed,
    mmd_d,
    mmd_fuse,
    mmd_median,
    mmd_mkl,
    mmd_o,
    scf,
    spectral,
)
from ._objectives import CrossEntropy, MeanDiscrepancy, Noncentrality, Objective, PowerCriterion
from ._products import block_sums, row_sums
from ._result import Effect, TrainingLog, TwoSampleResult
from ._saving.saving import load
from ._several import Several
from ._statistics import (
    MMD,
    BlockMMD,
    CompressedMMD,
    Fused,
    Fusing,
    HotellingT2,
    SmallestRank,
    SoftMaximum,
    Spectral,
    Statistic,
    Surprise,
)
from ._two_sample import FittedTest, FollowUp, TwoSampleTest
from ._views import Features, LandmarksOf, View, Views
from ._watch.schedule import Schedule
from ._watch.watch import Watch, WatchRecord
from .errors import (
    ClusterError,
    DependenceWarning,
    IncompatibleParts,
    InputError,
    InputNote,
    InputWarning,
    MissingDependency,
    TrainingError,
    TrainingWarning,
    TwoSampleError,
    UnknownOption,
)

DEMOTED: Mapping[str, str] = MappingProxyType(
    {
        "ABLATIONS": "_methods",
        "Bounded": "_featurizers",
        "DetectableEffect": "_insight.power",
        "Frozen": "_featurizers",
        "SplitRow": "_insight.power",
        "corollary_split": "_insight.power",
    }
)
"""Names that were public in version 0.1, and the private modules where they live."""

__all__ = [
    "METHODS",
    "MLP",
    "MMD",
    "ARDGaussian",
    "Asymptotic",
    "AutoFeaturizer",
    "BlockMMD",
    "Blocks",
    "Calibration",
    "Classifier",
    "ClusterError",
    "ColumnChange",
    "ColumnDifference",
    "ColumnSummary",
    "Columns",
    "Comparison",
    "ComparisonInterrupted",
    "CompressedMMD",
    "ConvNet",
    "CrossEntropy",
    "Decision",
    "DeepKernel",
    "DependenceWarning",
    "Design",
    "Effect",
    "Explanation",
    "Features",
    "Finding",
    "Findings",
    "FittedTest",
    "FollowUp",
    "Fused",
    "Fusing",
    "Gaussian",
    "Groups",
    "HotellingT2",
    "IncompatibleParts",
    "InputError",
    "InputNote",
    "InputWarning",
    "InverseMultiquadric",
    "Kernel",
    "LandmarksOf",
    "Laplace",
    "Learning",
    "LevelChange",
    "Linear",
    "Locations",
    "ManhattanLaplace",
    "Margin",
    "MeanDiscrepancy",
    "MeanEmbedding",
    "MissingDependency",
    "Noncentrality",
    "Objective",
    "OnFeatures",
    "PairChange",
    "PairDifference",
    "PairSwap",
    "Pairs",
    "Permutation",
    "PlantedPower",
    "PowerCriterion",
    "PowerPlan",
    "PredictedPower",
    "Probability",
    "ResidualMLP",
    "Rows",
    "Samples",
    "Schedule",
    "Several",
    "Sign",
    "SklearnClassifier",
    "SmallestDifference",
    "SmallestRank",
    "SmoothCharacteristic",
    "SoftMaximum",
    "Spectral",
    "SpectralLimit",
    "SplitChoice",
    "Statistic",
    "Strata",
    "Stream",
    "Surprise",
    "TellingRow",
    "TrainingError",
    "TrainingInterrupted",
    "TrainingLog",
    "TrainingWarning",
    "TwoSampleError",
    "TwoSampleResult",
    "TwoSampleTest",
    "Units",
    "UnknownOption",
    "View",
    "Views",
    "Watch",
    "WatchRecord",
    "WeightedSum",
    "ablation",
    "as_samples",
    "auto",
    "block_sums",
    "c2st_l",
    "c2st_s",
    "c2st_trees",
    "check",
    "choose_split",
    "compare",
    "explain",
    "load",
    "locations",
    "me",
    "median_bandwidth",
    "mmd_agg",
    "mmd_block",
    "mmd_compressed",
    "mmd_d",
    "mmd_fuse",
    "mmd_median",
    "mmd_mkl",
    "mmd_o",
    "predict_power",
    "row_sums",
    "scf",
    "spectral",
    "two_sample_test",
    "witness",
]
