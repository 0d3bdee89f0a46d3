"""The catalogue: each method is a function that chooses parts, nothing more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple, Unpack

from torch import nn

from ._calibration import Asymptotic, Calibration, PairSwap, Permutation
from ._checks import check_whole
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
    ManhattanLaplace,
    OnFeatures,
    Probability,
    Sign,
    WeightedSum,
)
from ._learning import Learning, LearningOptions
from ._objectives import CrossEntropy, MeanDiscrepancy, Noncentrality, PowerCriterion
from ._several import Bandwidths, Several
from ._statistics import (
    MMD,
    Alternative,
    BlockMMD,
    CompressedMMD,
    Fused,
    Fusing,
    HotellingT2,
    SmallestRank,
    SoftMaximum,
    Spectral,
)
from ._two_sample import FollowUp, TwoSampleTest
from ._views import View, Views
from .errors import IncompatibleParts, InputError, MissingDependency, warn

# One score is learned from all points at once, in few and small steps: small batches and long
# training fit their noise.
_SCORES: LearningOptions = {"steps": 1000, "batch_size": 5000, "learning_rate": 1e-3}


def auto(*, permutations: int = 999, **learning: Unpack[LearningOptions]) -> TwoSampleTest:
    """The default: `spectral` on all rows and, where that does not decide, a trained deep kernel.

    Where each sample has 1000 rows or more and the table three columns or more, `spectral` has nine
    tenths of the level. If it does not reject at 0.05, the kernel of `mmd_d` is trained on one half
    and tested on the other with the last tenth: it finds what takes many columns at once. Otherwise
    `spectral` is the whole test. Options are those of `Learning`.
    """
    # The kernel of mmd-d in a time that grows with the points: there may be millions.
    trained = replace(mmd_compressed(permutations=permutations, **learning), name="mmd-d")
    then = FollowUp(trained, least_columns=3)
    return replace(spectral(permutations=permutations), then=then)


def spectral(*views: View | None, permutations: int = 999) -> TwoSampleTest:
    """All rows, every view, no split: for any two samples, small or large, tables or images.

    Each view of the points has its best witness in closed form, learned anew for every permutation:
    all columns together, each column, each pair, and products of three. The p-value is exact, and
    `result.explain()` says which columns and pairs differ. `views` are further views, such as
    `Features(embedding)`; without None among them they stand in the place of the usual ones.
    """
    return TwoSampleTest(
        Views(*views),
        statistic=Spectral(),
        calibration=Permutation(permutations),
        name="spectral",
    )


def mmd_d(
    featurizer: nn.Module | None = None,
    *,
    permutations: int = 999,
    **learning: Unpack[LearningOptions],
) -> TwoSampleTest:
    """MMD with a deep kernel trained for test power: for differences of any shape.

    [Liu2020], the paper's own test, for tables and images. `featurizer` is any network from points
    to vectors (a `ResidualMLP` for tables and a `ConvNet` for images if None); further options are
    those of `Learning`.
    """
    return TwoSampleTest(
        DeepKernel(AutoFeaturizer() if featurizer is None else featurizer),
        learning=Learning(PowerCriterion(), **learning),
        statistic=MMD("unbiased"),
        calibration=Permutation(permutations),
        name="mmd-d",
    )


def mmd_o(
    kernel: Kernel | None = None,
    *,
    permutations: int = 999,
    **learning: Unpack[LearningOptions],
) -> TwoSampleTest:
    """MMD with a Gaussian whose bandwidth is trained for test power: quick, where one scale fits.

    [Sutherland2017]; `kernel` may be another with scales to learn, such as `Laplace()` or
    `ARDGaussian()`; further options are those of `Learning`.
    """
    # The grid on J finds the bandwidth, so few steps are enough to refine it.
    options: LearningOptions = {"steps": 50, **learning}
    return TwoSampleTest(
        Gaussian() if kernel is None else kernel,
        learning=Learning(PowerCriterion(), **options),
        statistic=MMD("unbiased"),
        calibration=Permutation(permutations),
        name="mmd-o",
    )


def mmd_mkl(
    kernels: Sequence[Kernel] | None = None,
    *,
    permutations: int = 999,
    **learning: Unpack[LearningOptions],
) -> TwoSampleTest:
    """MMD with a sum of kernels whose weights maximise the power criterion: for several scales.

    [Liu2020], proposition on multiple kernel learning; [Gretton2012b]. `kernels` are Gaussians from
    1/64 of the median distance to twice it if None. The weights are exact, without any descent:
    `batch_size` points of each sample enter a quadratic program.
    """
    if kernels is None:
        kernels = [Gaussian(factor=2.0**octave) for octave in range(-6, 2)]
    options: LearningOptions = {"steps": 0, "batch_size": 2000, **learning}
    return TwoSampleTest(
        WeightedSum(kernels),
        learning=Learning(PowerCriterion(), **options),
        statistic=MMD("unbiased"),
        calibration=Permutation(permutations),
        name="mmd-mkl",
    )


def mmd_median(*, permutations: int = 999) -> TwoSampleTest:
    """MMD with a Gaussian at the median distance: no training, for differences as wide as the data.

    [Gretton2012]. Without training there is no split, so all points are tested.
    """
    return TwoSampleTest(
        Gaussian(),
        statistic=MMD("unbiased"),
        calibration=Permutation(permutations),
        name="mmd-median",
    )


def mmd_fuse(
    kernels: Sequence[Kernel] | None = None,
    *,
    bandwidths: int = 10,
    permutations: int = 999,
) -> TwoSampleTest:
    """MMDs of many kernels, fused by a soft maximum: several scales at once, all points tested.

    [Biggs2023]. `kernels` are Laplace and Gaussian ones if None, each with so many `bandwidths`
    between quantiles of the pooled distances. Nothing is trained, so there is no split.
    """
    return _fused_test("mmd-fuse", kernels, bandwidths, "fuse", SoftMaximum(), permutations)


def mmd_agg(
    kernels: Sequence[Kernel] | None = None,
    *,
    bandwidths: int = 10,
    permutations: int = 999,
) -> TwoSampleTest:
    """MMDs of many kernels, aggregated by the smallest p-value: several scales, all points tested.

    [Schrab2023], with uniform weights. `kernels` are Laplace and Gaussian ones if None, each with
    so many `bandwidths` between a quantile of the pooled distances and the largest. Nothing is
    trained, so there is no split.
    """
    return _fused_test("mmd-agg", kernels, bandwidths, "agg", SmallestRank(), permutations)


def _fused_test(
    name: str,
    kernels: Sequence[Kernel] | None,
    bandwidths: int,
    rule: Bandwidths,
    by: Fusing,
    permutations: int,
) -> TwoSampleTest:
    check_whole("bandwidths", bandwidths, 1)
    if kernels is None:
        peaked = [ManhattanLaplace() for _ in range(bandwidths)]
        smooth = [Gaussian() for _ in range(bandwidths)]
        several = Several([*peaked, *smooth], rule)
    else:
        several = Several(kernels)
    return TwoSampleTest(
        several,
        statistic=Fused(MMD("unbiased"), by),
        calibration=Permutation(permutations),
        name=name,
    )


def mmd_block(
    featurizer: nn.Module | None = None,
    *,
    block_size: int | None = None,
    asymptotic: bool = False,
    permutations: int = 999,
    **learning: Unpack[LearningOptions],
) -> TwoSampleTest:
    """MMD with a deep kernel, averaged over blocks: the published way to millions of points.

    [Zaremba2013]. It costs much power. Exact by swaps of pairs, which leave out points without a
    partner; with `asymptotic`, the normal law of the mean of the blocks.
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
    **learning: Unpack[LearningOptions],
) -> TwoSampleTest:
    """MMD with a deep kernel, projected onto a few landmarks: for samples of millions.

    [Chatalic2025]. It costs some power. Exact by permutations of samples of any sizes, in a time
    that grows with the points; options as in `mmd_d`.
    """
    return TwoSampleTest(
        DeepKernel(AutoFeaturizer() if featurizer is None else featurizer),
        learning=Learning(PowerCriterion(), **learning),
        statistic=CompressedMMD(landmarks),
        calibration=Permutation(permutations),
        name="mmd-compressed",
    )


def c2st_s(
    featurizer: nn.Module | None = None,
    *,
    classifier: Any = None,
    alternative: Alternative = "two-sided",
    asymptotic: bool = False,
    permutations: int = 999,
    network: nn.Module | None = None,
    **learning: Unpack[LearningOptions],
) -> TwoSampleTest:
    """Classifier two-sample test by accuracy: easy to explain, weaker than its scores.

    [LopezPaz2017]: the accuracy of a classifier on points it has not seen. `featurizer` is the
    network below its score, or `classifier` any classifier or pipeline of scikit-learn in its
    place. `alternative="greater"` is the one-sided test; with `asymptotic`, the binomial law of the
    accuracy takes the place of permutations. `network` is the old name of `featurizer`.
    """
    return _classifier_test(
        "c2st-s",
        Sign(),
        _one_featurizer(featurizer, network),
        classifier,
        alternative,
        Asymptotic() if asymptotic else Permutation(permutations),
        learning,
    )


def c2st_l(
    featurizer: nn.Module | None = None,
    *,
    classifier: Any = None,
    probability: bool = False,
    alternative: Alternative = "two-sided",
    permutations: int = 999,
    network: nn.Module | None = None,
    **learning: Unpack[LearningOptions],
) -> TwoSampleTest:
    """Classifier two-sample test by mean score: uses how sure it is, not only whether it is right.

    [ChengCloninger2019]: the difference of a classifier's mean logits or, with `probability`, of
    its mean probabilities, as in the code of [Liu2020]. `featurizer`, `classifier` and
    `alternative` as in `c2st_s`.
    """
    return _classifier_test(
        "c2st-l",
        Probability() if probability else Linear(),
        _one_featurizer(featurizer, network),
        classifier,
        alternative,
        Permutation(permutations),
        learning,
    )


def c2st_trees(
    *,
    alternative: Alternative = "two-sided",
    permutations: int = 999,
    train_fraction: float = 0.5,
) -> TwoSampleTest:
    """Classifier two-sample test by boosted trees: a quick second opinion on a table.

    `c2st_l` with scikit-learn's `HistGradientBoostingClassifier` as it comes: mixed columns, any
    scales, thousands of rows within a second. `c2st_l(classifier=...)` takes one with other
    settings. A fitted test cannot be saved, since the trees are objects of scikit-learn.
    """
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
    except ImportError as error:
        raise MissingDependency(
            "c2st-trees takes scikit-learn; pip install 'twosample[sklearn]'."
        ) from error

    return _classifier_test(
        "c2st-trees",
        Linear(),
        None,
        HistGradientBoostingClassifier(),
        alternative,
        Permutation(permutations),
        {"train_fraction": train_fraction},
    )


def _one_featurizer(featurizer: nn.Module | None, network: nn.Module | None) -> nn.Module | None:
    if network is None:
        return featurizer
    if featurizer is not None:
        raise InputError("featurizer and network are two names of one option; give `featurizer`.")
    warn("`network` is called `featurizer` now; the old name will be removed.", DeprecationWarning)
    return network


def _classifier_test(
    name: str,
    kernel: Kernel,
    featurizer: nn.Module | None,
    classifier: Any,
    alternative: Alternative,
    calibration: Calibration,
    learning: LearningOptions,
) -> TwoSampleTest:
    scores: nn.Module
    options: LearningOptions
    if classifier is None:
        scores = Classifier(featurizer)
        options = {**_SCORES, **learning}
    else:
        useless = [option for option in learning if option != "train_fraction"]
        if featurizer is not None:
            useless.insert(0, "featurizer")
        if useless:
            raise IncompatibleParts(
                f"a classifier of scikit-learn trains itself, so it has no use for `{useless[0]}`. "
                "Leave one of them out."
            )
        scores = SklearnClassifier(classifier)
        options = {"steps": 0, **learning}
    return TwoSampleTest(
        OnFeatures(scores, kernel),
        learning=Learning(CrossEntropy(), **options),
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
    **learning: Unpack[LearningOptions],
) -> TwoSampleTest:
    """Mean embeddings compared at a few trained locations: fast, and shows where samples differ.

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
    **learning: Unpack[LearningOptions],
) -> TwoSampleTest:
    """Smoothed characteristic functions at a few trained frequencies: fast, for fine structure.

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
    learning: LearningOptions,
) -> TwoSampleTest:
    options: LearningOptions = {
        "steps": 300 if optimise else 0,
        "batch_size": 5000,
        "learning_rate": 2e-2,
        "scale_rate": 2e-2,
        # Where the locations start decides much, and a training is short: the best of five is kept.
        "restarts": 5 if optimise else 1,
        **learning,
    }
    return TwoSampleTest(
        features,
        learning=Learning(Noncentrality(), **options),
        statistic=HotellingT2(paired=asymptotic),
        calibration=Asymptotic() if asymptotic else Permutation(permutations),
        name=name,
    )


def ablation(
    column: str,
    featurizer: nn.Module | None = None,
    *,
    permutations: int = 999,
    **learning: Unpack[LearningOptions],
) -> TwoSampleTest:
    """One column of the ablation table of [Liu2020]: a kernel and its objective, such as "G+J".

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
    return TwoSampleTest(
        _ablated_kernel(kernel, objective, featurizer),
        learning=_ablated_learning(kernel, objective, learning),
        statistic=MMD("biased" if kernel in "SL" else "unbiased"),
        calibration=Permutation(permutations),
        name=column,
    )


def _ablated_kernel(kernel: str, objective: str, featurizer: nn.Module | None) -> Kernel:
    scores = Classifier(featurizer)
    if kernel == "S":
        return OnFeatures(scores, Sign())
    if kernel == "L":
        return OnFeatures(Bounded(scores) if objective == "M" else scores, Linear())
    if featurizer is None:
        featurizer = AutoFeaturizer(residual=objective != "C")
    if kernel == "G":
        return OnFeatures(featurizer, Gaussian())
    return DeepKernel(featurizer)


def _ablated_learning(kernel: str, objective: str, learning: LearningOptions) -> Learning:
    of_scores: LearningOptions = {**_SCORES, **learning}
    if objective == "C":
        by_entropy = Learning(CrossEntropy(), **of_scores)
        if kernel in "SL":
            return by_entropy
        return Learning(
            PowerCriterion(), pretraining=by_entropy, train_fraction=by_entropy.train_fraction
        )
    pushed_up = MeanDiscrepancy() if objective == "M" else PowerCriterion()
    return Learning(pushed_up, **(of_scores if kernel == "L" else learning))


ABLATIONS = ("S+C", "L+C", "G+C", "D+C", "L+M", "G+M", "D+M", "L+J", "G+J", "D+J")
"""The columns of the paper's ablation table; S+J does not exist: decisions have no gradient."""


METHODS: Mapping[str, Callable[..., TwoSampleTest]] = MappingProxyType(
    {
        "auto": auto,
        "spectral": spectral,
        "mmd-d": mmd_d,
        "mmd-o": mmd_o,
        "mmd-mkl": mmd_mkl,
        "mmd-median": mmd_median,
        "mmd-fuse": mmd_fuse,
        "mmd-agg": mmd_agg,
        "mmd-block": mmd_block,
        "mmd-compressed": mmd_compressed,
        "me": me,
        "scf": scf,
        "c2st-s": c2st_s,
        "c2st-l": c2st_l,
        "c2st-trees": c2st_trees,
    }
)
"""Every method by the name that `two_sample_test` and the command line take."""


class About(NamedTuple):
    """What to know about a method when choosing one."""

    good_at: str
    cost: str  # in n points a sample, to train and to test
    calibration: str
    reference: str


ABOUT: Mapping[str, About] = MappingProxyType(
    {
        "auto": About(
            "the default: any difference, small samples or large",
            "none, or batches; n",
            "permutations",
            "spectral, Liu2020",
        ),
        "spectral": About(
            "any difference, all points tested, says where",
            "none; n",
            "permutations",
            "this library",
        ),
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
        "mmd-fuse": About(
            "differences of several scales, all points tested",
            "none; n^2",
            "permutations",
            "Biggs2023",
        ),
        "mmd-agg": About(
            "the same, by the smallest p-value",
            "none; n^2",
            "permutations",
            "Schrab2023",
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
        "c2st-trees": About(
            "mean scores of boosted trees, quick on tables",
            "n; n",
            "permutations",
            "ChengCloninger2019",
        ),
    }
)
"""What `twosample methods` prints."""


def methods_table() -> str:
    """The catalogue as a Markdown table, one row for each method."""
    head = ("method", "good at", "cost to train; to test", "calibration", "reference")
    rows = [head, *((name, *about) for name, about in ABOUT.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = []
    for row in rows:
        cells = [f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)]
        lines.append(f"| {' | '.join(cells)} |")
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])
