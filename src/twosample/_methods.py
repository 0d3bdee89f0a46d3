"""The catalogue: each method is a function that chooses parts, nothing more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from torch import nn

from ._calibration import Asymptotic, Calibration, PairSwap, Permutation
from ._featurizers import (
    AutoFeaturizer,
    Bounded,
    Classifier,
    MeanEmbedding,
    SklearnClassifier,
    SmoothCharacteristic,
)
from ._kernels import (
    DeepKernel,
    Gaussian,
    Kernel,
    Linear,
    OnFeatures,
    Probability,
    Sign,
    WeightedSum,
)
from ._learning import Learning
from ._objectives import CrossEntropy, MeanDiscrepancy, Noncentrality, PowerCriterion
from ._statistics import MMD, Alternative, BlockMMD, CompressedMMD, HotellingT2
from ._two_sample import TwoSampleTest
from .errors import IncompatibleParts, InputError

# One score is learned from all points at once, in few and small steps: small batches and long
# training fit their noise.
_SCORES: Mapping[str, Any] = MappingProxyType(
    {"steps": 1000, "batch_size": 5000, "learning_rate": 1e-3}
)


def mmd_d(
    featurizer: nn.Module | None = None, *, permutations: int = 999, **learning: Any
) -> TwoSampleTest:
    """MMD with a deep kernel trained for test power: finds differences of any shape, in tables and images.

    [Liu2020], the paper's own test. `featurizer` is any network from points to vectors (a
    `ResidualMLP` for tables and a `ConvNet` for images if None); further options are those of
    `Learning`.
    """
    return TwoSampleTest(
        DeepKernel(AutoFeaturizer() if featurizer is None else featurizer),
        learning=Learning(PowerCriterion(), **learning),
        statistic=MMD("unbiased"),
        calibration=Permutation(permutations),
        name="mmd-d",
    )


def mmd_o(
    kernel: Kernel | None = None, *, permutations: int = 999, **learning: Any
) -> TwoSampleTest:
    """MMD with a Gaussian kernel whose bandwidth is trained for test power: quick, strong where one scale fits all.

    [Sutherland2017]; `kernel` may be another with scales to learn, such as `Laplace()` or
    `ARDGaussian()`; further options are those of `Learning`. The grid on J finds the bandwidth, a
    few steps refine it.
    """
    return TwoSampleTest(
        Gaussian() if kernel is None else kernel,
        learning=Learning(PowerCriterion(), **{"steps": 50, **learning}),
        statistic=MMD("unbiased"),
        calibration=Permutation(permutations),
        name="mmd-o",
    )


def mmd_mkl(
    kernels: Sequence[Kernel] | None = None, *, permutations: int = 999, **learning: Any
) -> TwoSampleTest:
    """MMD with a sum of kernels whose weights maximise the power criterion exactly: several scales, no descent.

    [Liu2020], proposition on multiple kernel learning; [Gretton2012b]. `kernels` are Gaussians from
    1/64 of the median distance to twice it if None; `batch_size` points of each sample enter the
    quadratic program.
    """
    members = (
        [Gaussian(factor=2.0**octave) for octave in range(-6, 2)] if kernels is None else kernels
    )
    return TwoSampleTest(
        WeightedSum(members),
        learning=Learning(PowerCriterion(), **{"steps": 0, "batch_size": 2000, **learning}),
        statistic=MMD("unbiased"),
        calibration=Permutation(permutations),
        name="mmd-mkl",
    )


def mmd_median(*, permutations: int = 999) -> TwoSampleTest:
    """MMD with a Gaussian kernel at the median distance: no training and no split, for differences as wide as the data.

    [Gretton2012].
    """
    return TwoSampleTest(
        Gaussian(),
        statistic=MMD("unbiased"),
        calibration=Permutation(permutations),
        name="mmd-median",
    )


def mmd_block(
    featurizer: nn.Module | None = None,
    *,
    block_size: int | None = None,
    asymptotic: bool = False,
    permutations: int = 999,
    **learning: Any,
) -> TwoSampleTest:
    """MMD with a deep kernel, averaged over blocks of points: the published way to millions, at much loss of power.

    [Zaremba2013]. Exact by swaps of pairs, which leave out points without a partner; with
    `asymptotic`, the normal law of the mean of the blocks.
    """
    return TwoSampleTest(
        DeepKernel(AutoFeaturizer() if featurizer is None else featurizer),
        learning=Learning(PowerCriterion(), **learning),
        statistic=BlockMMD(block_size),
        calibration=Asymptotic() if asymptotic else PairSwap(permutations),
        name="mmd-block",
    )


def mmd_compressed(
    featurizer: nn.Module | None = None,
    *,
    landmarks: int | None = None,
    permutations: int = 999,
    **learning: Any,
) -> TwoSampleTest:
    """MMD with a deep kernel, projected onto a few landmarks: for samples of millions, at some loss of power.

    [Chatalic2025]. Exact by permutations of samples of any sizes, in a time that grows with the
    points; options as in `mmd_d`.
    """
    return TwoSampleTest(
        DeepKernel(AutoFeaturizer() if featurizer is None else featurizer),
        learning=Learning(PowerCriterion(), **learning),
        statistic=CompressedMMD(landmarks),
        calibration=Permutation(permutations),
        name="mmd-compressed",
    )


def c2st_s(
    network: nn.Module | None = None,
    *,
    classifier: Any = None,
    alternative: Alternative = "two-sided",
    asymptotic: bool = False,
    permutations: int = 999,
    **learning: Any,
) -> TwoSampleTest:
    """Classifier two-sample test by accuracy: easy to explain, weaker than its scores.

    [LopezPaz2017]: the accuracy of a classifier on points it has not seen. `network` is its
    featurizer, or `classifier` any classifier or pipeline of scikit-learn in its place.
    `alternative="greater"` is the one-sided test; with `asymptotic`, the binomial law of the
    accuracy takes the place of permutations.
    """
    calibration = Asymptotic() if asymptotic else Permutation(permutations)
    return _classifier_test(
        "c2st-s", Sign(), network, classifier, alternative, calibration, learning
    )


def c2st_l(
    network: nn.Module | None = None,
    *,
    classifier: Any = None,
    probability: bool = False,
    alternative: Alternative = "two-sided",
    permutations: int = 999,
    **learning: Any,
) -> TwoSampleTest:
    """Classifier two-sample test by mean score: uses how sure the classifier is, not only whether it is right.

    [ChengCloninger2019]: the difference of a classifier's mean logits or, with `probability`, of
    its mean probabilities, as in the code of [Liu2020]. `network`, `classifier` and `alternative`
    as in `c2st_s`.
    """
    kernel = Probability() if probability else Linear()
    return _classifier_test(
        "c2st-l", kernel, network, classifier, alternative, Permutation(permutations), learning
    )


def _classifier_test(
    name: str,
    kernel: Kernel,
    network: nn.Module | None,
    classifier: Any,
    alternative: Alternative,
    calibration: Calibration,
    learning: dict[str, Any],
) -> TwoSampleTest:
    settings: dict[str, Any] = {**_SCORES, **learning}
    scores: nn.Module = Classifier(network)
    if classifier is not None:
        useless = [option for option in learning if option != "train_fraction"]
        if network is not None or useless:
            option = "network" if network is not None else useless[0]
            raise IncompatibleParts(
                f"a classifier of scikit-learn trains itself, so it has no use for `{option}`. "
                "Leave one of them out."
            )
        scores, settings = SklearnClassifier(classifier), {"steps": 0, **learning}
    return TwoSampleTest(
        OnFeatures(scores, kernel),
        learning=Learning(CrossEntropy(), **settings),
        statistic=MMD("biased", alternative=alternative),
        calibration=calibration,
        name=name,
    )


def me(
    locations: int = 5,
    *,
    optimise: bool = True,
    asymptotic: bool = False,
    permutations: int = 999,
    **learning: Any,
) -> TwoSampleTest:
    """Mean embeddings compared at a few trained locations: fast at any size, and shows where the samples differ.

    [Jitkrittum2016]. With `asymptotic`, the chi-squared law of the paired T^2 as published, which
    is above its level in small samples; samples of one size only. Without `optimise` the locations
    stay where they were drawn.
    """
    return _features_test(
        "me", MeanEmbedding(locations), optimise, asymptotic, permutations, learning
    )


def scf(
    frequencies: int = 5,
    *,
    optimise: bool = True,
    asymptotic: bool = False,
    permutations: int = 999,
    **learning: Any,
) -> TwoSampleTest:
    """Smoothed characteristic functions compared at a few trained frequencies: fast at any size, for fine structure.

    [Jitkrittum2016]. Without `optimise`, random frequencies and a width chosen on the training
    points, as published; `asymptotic` as in `me`.
    """
    return _features_test(
        "scf", SmoothCharacteristic(frequencies), optimise, asymptotic, permutations, learning
    )


def _features_test(
    name: str,
    features: nn.Module,
    optimise: bool,
    asymptotic: bool,
    permutations: int,
    learning: dict[str, Any],
) -> TwoSampleTest:
    # Where the locations start decides much, and a training is short: the best of five is kept.
    settings: dict[str, Any] = {
        "steps": 300,
        "batch_size": 5000,
        "learning_rate": 2e-2,
        "scale_rate": 2e-2,
    }
    settings |= {"restarts": 5} if optimise else {"steps": 0}
    return TwoSampleTest(
        features,
        learning=Learning(Noncentrality(), **{**settings, **learning}),
        statistic=HotellingT2(paired=asymptotic),
        calibration=Asymptotic() if asymptotic else Permutation(permutations),
        name=name,
    )


def ablation(
    column: str, featurizer: nn.Module | None = None, *, permutations: int = 999, **learning: Any
) -> TwoSampleTest:
    """One column of the ablation table of [Liu2020]: a kernel and what it is trained for, such as "G+J".

    S and L are the decisions and the scores of a classifier, G a Gaussian on the features of a
    network, D the deep kernel; C is cross-entropy, M the MMD, J the power criterion. L+M bounds its
    scores by a tanh; G+C and D+C train the network as a classifier's, freeze it, and train the
    kernel's scales for J. Options are those of `Learning`.
    """
    if column not in ABLATIONS:
        raise InputError(
            f"the ablation {column!r} does not exist; use one of {', '.join(ABLATIONS)}."
        )
    kernel, objective = column.split("+")
    network = AutoFeaturizer(residual=objective != "C") if featurizer is None else featurizer
    scores = Classifier(featurizer)
    kernels: dict[str, Callable[[], Kernel]] = {
        "S": lambda: OnFeatures(scores, Sign()),
        "L": lambda: OnFeatures(Bounded(scores) if objective == "M" else scores, Linear()),
        "G": lambda: OnFeatures(network, Gaussian()),
        "D": lambda: DeepKernel(network),
    }
    scores_only: Mapping[str, Any] = _SCORES if kernel == "L" else {}
    train: dict[str, Callable[[], Learning]] = {
        "C": lambda: Learning(CrossEntropy(), **{**_SCORES, **learning}),
        "M": lambda: Learning(MeanDiscrepancy(), **{**scores_only, **learning}),
        "J": lambda: Learning(PowerCriterion(), **{**scores_only, **learning}),
    }
    if objective == "C" and kernel in "GD":
        first = Learning(CrossEntropy(), **{**_SCORES, **learning})
        train["C"] = lambda: Learning(
            PowerCriterion(), pretraining=first, train_fraction=first.train_fraction
        )
    return TwoSampleTest(
        kernels[kernel](),
        learning=train[objective](),
        statistic=MMD("biased" if kernel in "SL" else "unbiased"),
        calibration=Permutation(permutations),
        name=column,
    )


ABLATIONS = ("S+C", "L+C", "G+C", "D+C", "L+M", "G+M", "D+M", "L+J", "G+J", "D+J")
"""The columns of the paper's ablation table; S+J does not exist, since decisions have no gradient."""


METHODS: Mapping[str, Callable[..., TwoSampleTest]] = MappingProxyType(
    {
        "mmd-d": mmd_d,
        "mmd-o": mmd_o,
        "mmd-mkl": mmd_mkl,
        "mmd-median": mmd_median,
        "mmd-block": mmd_block,
        "mmd-compressed": mmd_compressed,
        "me": me,
        "scf": scf,
        "c2st-s": c2st_s,
        "c2st-l": c2st_l,
    }
)
"""Every method by the name that `two_sample_test` and the command line take."""


class About(NamedTuple):
    """What to know of a method when choosing one."""

    good_at: str
    cost: str  # in n points a sample, to train and to test
    calibration: str
    reference: str


ABOUT: Mapping[str, About] = MappingProxyType(
    {
        "mmd-d": About(
            "differences of any shape, tables and images", "batches; n^2", "permutations", "Liu2020"
        ),
        "mmd-o": About(
            "differences of one scale, quickly", "batches; n^2", "permutations", "Sutherland2017"
        ),
        "mmd-mkl": About(
            "differences of several scales, no descent", "b^2; n^2", "permutations", "Liu2020"
        ),
        "mmd-median": About(
            "differences as wide as the data, all points tested",
            "none; n^2",
            "permutations",
            "Gretton2012",
        ),
        "mmd-block": About(
            "millions of points as published, at much loss",
            "batches; n^1.5",
            "swaps, or normal law",
            "Zaremba2013",
        ),
        "mmd-compressed": About(
            "millions of points, at some loss", "batches; n", "permutations", "Chatalic2025"
        ),
        "me": About(
            "where samples differ, any size",
            "n; n",
            "permutations, or chi-squared",
            "Jitkrittum2016",
        ),
        "scf": About(
            "fine periodic structure, any size",
            "n; n",
            "permutations, or chi-squared",
            "Jitkrittum2016",
        ),
        "c2st-s": About(
            "an accuracy, easy to explain",
            "batches; n",
            "permutations, or binomial law",
            "LopezPaz2017",
        ),
        "c2st-l": About(
            "mean scores, any scikit-learn model",
            "batches; n",
            "permutations",
            "ChengCloninger2019",
        ),
    }
)
"""What `twosample methods` prints."""


_FEW, _MANY = 100, 100_000


def choose(n: int | None, m: int | None, *, trained: bool = False) -> tuple[str, str]:
    """The method that `method="auto"` means for samples of n and m points, and why.

    It looks at sizes alone, which are the same in every shuffle, so the p-value stays exact. None
    stands for a size that is not known before the rows have passed; `trained` rules out methods
    without training.
    """
    if n is None or m is None:
        return "mmd-compressed", "rows that come in a stream may be too many to compare in pairs"
    if min(n, m) < _FEW and not trained:
        return (
            "mmd-median",
            f"{min(n, m)} points are too few to set half of them aside for training",
        )
    if n + m > _MANY:
        return (
            "mmd-compressed",
            f"{n:,} + {m:,} points are too many to compare in pairs, which takes minutes",
        )
    return (
        "mmd-d",
        f"{n:,} + {m:,} points are enough to train a deep kernel on, and few enough to compare in "
        "pairs",
    )


def methods_table() -> str:
    """The catalogue as a Markdown table: method, what it is good at, cost in n, calibration, reference."""
    head = ("method", "good at", "cost to train; to test", "calibration", "reference")
    rows = [head, *((name, *about) for name, about in ABOUT.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = [
        "| " + " | ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])
