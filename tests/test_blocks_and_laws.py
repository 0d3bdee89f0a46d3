"""MMD by blocks, swaps of pairs, limiting laws: what they compute, and that parts which do not fit
say so."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats
import torch
from torch import nn

import twosample
from bank import (
    as_table,
    make,
    naive_h,
    naive_matrix,
    naive_mmd2_biased,
    naive_mmd2_paired,
    points,
    prepared_by,
    relabelled,
    seeded,
)
from twosample import (
    MMD,
    Asymptotic,
    Classifier,
    CrossEntropy,
    DeepKernel,
    Gaussian,
    HotellingT2,
    IncompatibleParts,
    InputError,
    Learning,
    Linear,
    MeanDiscrepancy,
    MeanEmbedding,
    Noncentrality,
    OnFeatures,
    PairSwap,
    Permutation,
    PowerCriterion,
    Sign,
    SklearnClassifier,
    SpectralLimit,
    TwoSampleTest,
    WeightedSum,
)
from twosample._data.samples import EmbeddedSamples
from twosample._data.schema import Schema
from twosample._estimators import balanced_accuracy, two_binomials


def two_samples(n, m, shift=0.5):
    return as_table(points(n, seed=1), points(m, seed=2) + shift)


# Swaps of pairs


def test_swaps_are_permutations_that_swap_pairs_and_the_first_swaps_none():
    plan = PairSwap(50)
    bins = plan.plan(30, 30, seeded())
    shuffles = plan.shuffles(bins, seeded(1)).all()
    assert shuffles.shape == (51, 60) and shuffles[0].tolist() == list(range(60))
    for shuffle in shuffles.tolist():
        assert all({shuffle[k], shuffle[k + 30]} == {k, k + 30} for k in range(30))
    swapped = int((shuffles[1:, :30] >= 30).sum())
    assert scipy.stats.binomtest(swapped, 1500).pvalue > 1e-6


def test_few_pairs_are_enumerated():
    plan = PairSwap(99)
    shuffles = plan.shuffles(plan.plan(4, 4, seeded()), seeded()).all()
    assert len({tuple(s) for s in shuffles.tolist()}) == 16 and shuffles[0].tolist() == list(
        range(8)
    )


@pytest.mark.parametrize("estimator", ["paired", "biased"])
@pytest.mark.parametrize(("n", "bins"), [(9, 500), (23, 5)])
def test_the_wild_bootstrap_is_a_swap_of_pairs(estimator, n, bins):
    """Rademacher signs e: sum_ij e_i e_j H_ij, with the diagonal for the biased estimator [design,
    collapse 3]."""
    samples, plan, kernel = two_samples(n, n), PairSwap(20, bins=bins), make("gaussian")
    cut = plan.plan(n, n, seeded(1))
    shuffles = plan.shuffles(cut, seeded(2)).all()
    found = MMD(estimator).evaluate(
        prepared_by(MMD(estimator), kernel, samples, cut, seeded(3)), shuffles
    )
    K = naive_matrix(kernel, samples.pooled()).tolist()
    H = torch.tensor(naive_h(K, range(n), range(n, 2 * n)), dtype=torch.float64)
    for value, shuffle in zip(found.tolist(), shuffles.tolist(), strict=True):
        into_x, _ = relabelled(cut, shuffle)
        signs = torch.tensor([1.0 if i in into_x else -1.0 for i in range(n)], dtype=torch.float64)
        form = torch.outer(signs, signs) * H
        if estimator == "paired":
            expected = float(form.sum() - form.trace()) / (n * (n - 1))
        else:
            expected = float(form.sum()) / n**2
        assert value == pytest.approx(expected, abs=1e-10)


def test_p_value_of_all_swaps_is_that_of_scipy():
    n, kernel = 5, make("gaussian")
    samples = two_samples(n, n, shift=1.0)
    found = PairSwap(999)(MMD("biased"), kernel, samples, seeded())
    K = naive_matrix(kernel, samples.pooled()).tolist()

    def statistic(x, y):
        return naive_mmd2_biased(K, x.astype(int).tolist(), y.astype(int).tolist())

    expected = scipy.stats.permutation_test(
        (np.arange(n), np.arange(n, 2 * n)),
        statistic,
        permutation_type="samples",
        vectorized=False,
        n_resamples=math.inf,
        alternative="greater",
    )
    assert len(found.values) == 32 and found.pvalue == pytest.approx(expected.pvalue, abs=1e-12)


def test_points_without_a_partner_stay():
    plan = PairSwap(10)
    bins = plan.plan(12, 9, seeded())
    assert bins.moving_x == bins.moving_y == 9 and int((bins.of_x == bins.moving).sum()) == 3
    assert PairSwap(10)(MMD("biased"), make("gaussian"), two_samples(12, 9), seeded()).pvalue > 0


# Blocks


@pytest.mark.parametrize(
    ("n", "size", "bins"), [(24, None, 500), (40, 10, 500), (60, 20, 500), (500, 100, 500)]
)
def test_block_is_the_average_of_paired_statistics(n, size, bins):
    samples, kernel, statistic = two_samples(n, n), make("gaussian"), MMD("block", block_size=size)
    plan = PairSwap(8, bins=1)
    cut = plan.plan(n, n, seeded(1), statistic.least_bins(n, n))
    shuffles = plan.shuffles(cut, seeded(2)).all()
    prepared = prepared_by(statistic, kernel, samples, cut, seeded(3))
    found = statistic.evaluate(prepared, shuffles)
    K = kernel(samples.pooled(), samples.pooled()).detach().double().tolist()
    blocks = n // (size or math.isqrt(n))
    in_block = cut.moving_x // blocks
    assert len(prepared.values) == blocks
    for value, shuffle in zip(found.tolist(), shuffles.tolist(), strict=True):
        x, y = relabelled(cut, shuffle)
        width = in_block * cut.size
        pieces = [
            naive_mmd2_paired(K, x[b * width : (b + 1) * width], y[b * width : (b + 1) * width])
            for b in range(blocks)
        ]
        assert value == pytest.approx(np.mean(pieces), abs=1e-10)
    assert float(found[0]) == pytest.approx(float(prepared.values.mean()), abs=1e-12)


def test_blocks_of_unequal_samples_are_unbiased_and_have_a_normal_law():
    samples, kernel = two_samples(60, 45), make("gaussian")
    found = Asymptotic()(MMD("block", block_size=9), kernel, samples, seeded())
    values = found.prepared.values
    assert (
        len(values) == 5 and "normal law of the mean of 5 blocks (asymptotic)" in found.description
    )
    z = float(values.mean() / (values.std() / math.sqrt(5)))
    assert found.pvalue == pytest.approx(scipy.stats.norm.sf(z), rel=1e-9)
    deviation = float(values.std() / math.sqrt(5))
    assert found.threshold == pytest.approx(scipy.stats.norm.isf(0.05) * deviation, rel=1e-9)


def test_blocks_cost_less_than_the_square():
    class Counting(Gaussian):
        values = 0

        def tile(self, a, b):
            Counting.values += len(a[0]) * len(b[0])
            return super().tile(a, b)

    PairSwap(9)(MMD("block"), Counting(1.0).double(), two_samples(900, 900), seeded())
    assert Counting.values == 30 * 60**2  # 30 blocks of 30 + 30, not 1800^2


def test_too_few_points_for_blocks_is_a_sentence():
    with pytest.raises(
        InputError, match=r"make 1 block of 40; BlockMMD\(40\) needs at least 2 blocks"
    ):
        PairSwap(9)(MMD("block", block_size=40), make("gaussian"), two_samples(50, 50), seeded())


# Laws


@pytest.mark.parametrize("n", [5, 12, 40])
def test_at_equal_sizes_the_law_of_the_accuracy_is_binomial(n):
    for two_sided in (True, False):
        survival, threshold = two_binomials(n, n, two_sided=two_sided)
        for right in range(2 * n + 1):
            difference = right / n - 1  # 2 accuracy - 1
            exact = scipy.stats.binom.sf(right - 1, 2 * n, 0.5)
            if two_sided:
                exact = (
                    min(1.0, 2 * scipy.stats.binom.sf(n + abs(right - n) - 1, 2 * n, 0.5))
                    if right != n
                    else 1.0
                )
            assert survival(difference) == pytest.approx(exact, rel=1e-9)
        assert survival(threshold(0.05)) <= 0.05 < survival(threshold(0.05) - 1.0001 / n)


def test_at_unequal_sizes_it_is_that_of_two_coins():
    n, m = 4, 7
    survival, _ = two_binomials(n, m, two_sided=True)
    for d in (0.25, 0.5, 1.0):
        exact = sum(
            scipy.stats.binom.pmf(i, n, 0.5) * scipy.stats.binom.pmf(j, m, 0.5)
            for i, j in itertools.product(range(n + 1), range(m + 1))
            if abs(i / n - j / m) >= d - 1e-12
        )
        assert survival(d) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("alternative", ["two-sided", "greater"])
def test_asymptotic_of_c2st_s_is_the_binomial_test_of_scipy(alternative):
    x, y = points(50, columns=1, seed=1) + 0.6, points(50, columns=1, seed=2)
    kernel, statistic = OnFeatures(nn.Identity(), Sign()), MMD("biased", alternative=alternative)
    found = Asymptotic()(statistic, kernel, as_table(x, y), seeded())
    right = round(100 * balanced_accuracy(x[:, 0], y[:, 0]))
    assert found.pvalue == pytest.approx(
        scipy.stats.binomtest(right, 100, 0.5, alternative).pvalue, rel=1e-9
    )


def test_greater_keeps_the_sign():
    x, y = points(40, columns=1, seed=1) + 0.8, points(30, columns=1, seed=2)
    for kernel in (Linear(), Sign(), twosample.Probability()):
        right, wrong = (
            Permutation(199)(MMD("biased", alternative="greater"), kernel, as_table(a, b), seeded())
            for a, b in ((x, y), (y, x))
        )
        assert right.pvalue <= 0.01 and wrong.pvalue > 0.9 and right.values[0] > 0 > wrong.values[0]
        both = Permutation(199)(MMD("biased"), kernel, as_table(x, y), seeded())
        assert float(both.values[0]) == pytest.approx(float(right.values[0]), rel=1e-9)


def test_eigenvalues_are_those_of_a_known_covariance():
    """A linear kernel on independent normal columns has the variances of the columns for
    eigenvalues."""
    z = points(3000, seed=4) * torch.tensor([3.0, 1.0, 0.5], dtype=torch.float64)
    embedded = EmbeddedSamples((z,), (1500, 1500), Schema("table", (3,)))
    kernel = OnFeatures(nn.Identity(), Linear())
    found = SpectralLimit(points=2000).eigenvalues(kernel, embedded, seeded())
    np.testing.assert_allclose(found.numpy(), [9.0, 1.0, 0.25], rtol=0.1)


@pytest.mark.parametrize("estimator", ["unbiased", "biased", "paired"])
def test_the_spectral_null_is_near_the_permutation_null(estimator):
    samples, kernel = two_samples(300, 300, shift=0.0), make("gaussian")
    limit = SpectralLimit(4999)(MMD(estimator), kernel, samples, seeded(1))
    exact = Permutation(999)(MMD(estimator), kernel, samples, seeded(2))
    assert float(limit.values[1:].mean()) == pytest.approx(
        float(exact.values[1:].mean()), abs=float(exact.values.std()) / 5
    )
    assert float(limit.values[1:].std()) == pytest.approx(float(exact.values[1:].std()), rel=0.15)
    assert (
        limit.pvalue == pytest.approx(exact.pvalue, abs=0.08)
        and "(asymptotic)" in limit.description
    )


# Parts that do not fit, found when the test is put together


class Oracle:
    """Not a classifier."""


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            lambda: TwoSampleTest(Gaussian(), calibration=Asymptotic()),
            r"Use Permutation\(\), or BlockMMD\(\)",
        ),
        (
            lambda: TwoSampleTest(Gaussian(), statistic=MMD("biased"), calibration=Asymptotic()),
            "unknown parameters",
        ),
        (
            lambda: TwoSampleTest(Gaussian(), statistic=MMD("block")),
            r"Use PairSwap\(\) or Asymptotic\(\)",
        ),
        (
            lambda: TwoSampleTest(Gaussian(), calibration=PairSwap()),
            r"Use MMD\('paired'\) or MMD\('biased'\)",
        ),
        (
            lambda: TwoSampleTest(Gaussian(), statistic=MMD("block"), calibration=SpectralLimit()),
            "not that of BlockMMD",
        ),
        (
            lambda: TwoSampleTest(Gaussian(), statistic=HotellingT2()),
            r"Use MeanEmbedding\(kernel=Gaussian",
        ),
        (lambda: TwoSampleTest(MeanEmbedding()), r"HotellingT2\(\) for a feature map"),
        (
            lambda: TwoSampleTest(MeanEmbedding(), statistic=HotellingT2(), calibration=PairSwap()),
            r"Use HotellingT2\(paired=True\)",
        ),
        (
            lambda: TwoSampleTest(MeanEmbedding(), statistic=HotellingT2(paired=True)),
            r"Use PairSwap\(\) or Asymptotic\(\)",
        ),
        (
            lambda: TwoSampleTest(MeanEmbedding(), Learning(PowerCriterion()), HotellingT2()),
            r"trains a kernel, not a feature map. Use Noncentrality\(\)",
        ),
        (lambda: TwoSampleTest(Gaussian(), Learning(Noncentrality())), r"Use PowerCriterion\(\)"),
        (
            lambda: TwoSampleTest(DeepKernel(nn.Identity()), Learning(CrossEntropy())),
            "trains one score, which",
        ),
        (
            lambda: TwoSampleTest(OnFeatures(Classifier(), Sign()), Learning(MeanDiscrepancy())),
            "no gradient",
        ),
        (
            lambda: MMD("unbiased", alternative="greater"),
            r"Use MMD\('biased', alternative='greater'\)",
        ),
        (lambda: MMD("biased", alternative="less"), "must be 'two-sided' or 'greater'"),
        (lambda: MMD("biased", block_size=5), r"Use BlockMMD\(block_size\)"),
        (
            lambda: TwoSampleTest(Gaussian(), statistic=MMD("biased", alternative="greater")),
            "takes the one score of a classifier",
        ),
        (lambda: SklearnClassifier(Oracle()), "the classifier is a Oracle; it must have `fit`"),
        (lambda: twosample.c2st_l(nn.Identity(), classifier=Forest()), "no use for `featurizer`"),
        (lambda: twosample.c2st_l(classifier=Forest(), steps=5), "no use for `steps`"),
        (
            lambda: TwoSampleTest(OnFeatures(SklearnClassifier(Forest()), Linear())),
            "learns from labels",
        ),
        (
            lambda: TwoSampleTest(
                OnFeatures(SklearnClassifier(Forest()), Linear()), Learning(CrossEntropy(), steps=9)
            ),
            "fitted in one go",
        ),
        (
            lambda: TwoSampleTest(
                Gaussian(), Learning(PowerCriterion(), pretraining=Learning(CrossEntropy()))
            ),
            "pretraining trains the network of a kernel",
        ),
        (
            lambda: TwoSampleTest(
                DeepKernel(nn.Identity()), Learning(pretraining=Learning(PowerCriterion()))
            ),
            "pretraining is that of a classifier",
        ),
        (lambda: MeanEmbedding(2, fixed=True), "there is none. Give `kernel`"),
        (
            lambda: twosample.two_sample_test(
                [1.0], [1.0], twosample.me(asymptotic=True), permutations=9
            ),
            "has no use for permutations=9",
        ),
    ],
)
def test_parts_that_do_not_fit_say_what_to_use(parts, message):
    with pytest.raises(IncompatibleParts, match=message):
        parts()


class Forest:
    """Looks like a classifier."""

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)


def test_settings_that_cannot_be_are_sentences():
    for call, message in [
        (lambda: MMD("block", block_size=1), "block_size is 1"),
        (lambda: PairSwap(0), "permutations is 0"),
        (lambda: SpectralLimit(draws=0), "draws is 0"),
        (lambda: MeanEmbedding(0), "locations is 0"),
        (lambda: twosample.SmoothCharacteristic(0), "frequencies is 0"),
        (lambda: twosample.SmoothCharacteristic(2, width=-1.0), "width is -1.0"),
        (lambda: PowerCriterion(regulariser="n"), "regulariser is 'n'"),
        (lambda: PowerCriterion(penalty="lasso"), "penalty is 'lasso'"),
        (
            lambda: twosample.ablation("S+J"),
            "the ablation 'S\\+J' does not exist; use one of S\\+C",
        ),
        (lambda: WeightedSum([]), "a WeightedSum of no kernels"),
    ]:
        with pytest.raises(InputError, match=message):
            call()
