"""C2ST in the MMD machine: the identities of the design, and what training needs."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import mannwhitneyu

import twosample
from twosample import (
    MLP,
    MMD,
    Classifier,
    CrossEntropy,
    Gaussian,
    IncompatibleParts,
    Kernel,
    Learning,
    Linear,
    MeanDiscrepancy,
    OnFeatures,
    Permutation,
    PowerCriterion,
    Probability,
    Sign,
    TwoSampleTest,
)
from twosample._api import resolve
from twosample._data.embedding import embed_distinct, embed_samples
from twosample._data.survey import as_samples
from twosample._estimators import area_under_curve, balanced_accuracy
from twosample._products import block_sums, row_sums


def scores(n, seed=0, ties=False):
    drawn = torch.randn(n, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return drawn.round() if ties else drawn


def biased_mmd(kernel, x, y):
    samples = as_samples(x, y)
    generator = torch.Generator().manual_seed(0)
    outcome = Permutation(1)(MMD("biased"), kernel, samples, generator)
    return max(0.0, float(outcome.values[0])) ** 0.5


@pytest.mark.parametrize(("n", "m"), [(7, 7), (12, 5), (3, 20)])
@pytest.mark.parametrize("ties", [False, True])
def test_accuracy_is_an_mmd(n, m, ties):
    x, y = scores(n, 1, ties) + 0.5, scores(m, 2, ties)
    assert biased_mmd(Sign(), x, y) == pytest.approx(
        abs(2 * balanced_accuracy(x[:, 0], y[:, 0]) - 1), abs=1e-12
    )


@pytest.mark.parametrize(("n", "m"), [(7, 7), (12, 5), (3, 20)])
def test_the_difference_of_mean_scores_is_an_mmd(n, m):
    x, y = scores(n, 1) + 0.5, scores(m, 2)
    assert biased_mmd(Linear(), x, y) == pytest.approx(float((x.mean() - y.mean()).abs()), abs=1e-9)
    p, q = torch.sigmoid(x), torch.sigmoid(y)
    assert biased_mmd(Probability(), x, y) == pytest.approx(
        float((p.mean() - q.mean()).abs()), abs=1e-9
    )


def test_auc_is_that_of_mann_whitney():
    x, y = scores(30, 1, ties=True)[:, 0], scores(20, 2, ties=True)[:, 0]
    expected = mannwhitneyu(x.numpy(), y.numpy()).statistic / (30 * 20)
    assert area_under_curve(x, y) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("kernel", [Linear(), Sign(), Probability()])
def test_sums_by_features_are_sums_by_tiles(kernel):
    class ByTiles(Kernel):
        def tile(self, a, b):
            return kernel.tile(a, b)

    z, weights, bins = scores(23).repeat(1, 3), scores(23, 5).repeat(1, 2), torch.arange(23) % 5
    torch.testing.assert_close(
        row_sums(kernel, z, weights), row_sums(ByTiles(), z, weights), rtol=0, atol=1e-10
    )
    for diagonal in (True, False):
        found, expected = (block_sums(k, z, bins, diagonal=diagonal) for k in (kernel, ByTiles()))
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


def test_a_million_scores_need_no_pairs():
    x, y = torch.randn(2, 500_000, 1, generator=torch.Generator().manual_seed(0))
    test = TwoSampleTest(
        OnFeatures(torch.nn.Identity(), Sign()),
        statistic=MMD("biased"),
        calibration=Permutation(99),
    )
    assert test.run(x + 0.02, y, rng=0).pvalue == 0.01


def test_cross_entropy_is_that_of_torch():
    net = torch.nn.Linear(2, 1).double()
    x, y = scores(6).repeat(1, 2), scores(6, 1).repeat(1, 2)
    labels = torch.cat([torch.ones(6), torch.zeros(6)]).double()
    expected = torch.nn.functional.binary_cross_entropy_with_logits(
        net(torch.cat([x, y]))[:, 0], labels
    )
    assert CrossEntropy()(OnFeatures(net, Linear()), x, y).item() == pytest.approx(
        -expected.item(), abs=1e-12
    )


def test_mean_discrepancy_is_the_unbiased_mmd():
    x, y = scores(6), scores(9, 1)
    K = Gaussian(0.7).double()(torch.cat([x, y]), torch.cat([x, y])).detach()
    off = K - torch.diag(K.diagonal())
    expected = off[:6, :6].sum() / 30 + off[6:, 6:].sum() / 72 - 2 * K[:6, 6:].mean()
    assert MeanDiscrepancy()(Gaussian(0.7).double(), x, y).item() == pytest.approx(
        expected.item(), abs=1e-12
    )


@pytest.mark.parametrize("method", ["c2st-s", "c2st-l"])
def test_accuracy_and_auc_are_in_the_result(method):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(120, 2)), rng.normal(size=(90, 2)) + 2
    result = twosample.METHODS[method](steps=200, permutations=99).run(X, Y, rng=0)
    assert result.pvalue == 0.01
    assert result.effect.accuracy > 0.8 and result.effect.auc > 0.9
    # A test without a classifier has the numbers of its witness.
    assert twosample.mmd_median().run(X, Y, rng=0).effect.accuracy > 0.8


def test_parts_that_do_not_fit_say_what_to_use():
    with pytest.raises(
        IncompatibleParts,
        match=r"Sign\(\) has no gradient, so PowerCriterion\(.*\) cannot train it",
    ):
        TwoSampleTest(OnFeatures(Classifier(), Sign()), learning=Learning(PowerCriterion()))
    test = TwoSampleTest(
        OnFeatures(MLP(2, width=7), Linear()), learning=Learning(CrossEntropy(), steps=1)
    )
    with pytest.raises(
        IncompatibleParts, match=r"CrossEntropy\(\) trains one score, but .* sees 7 features"
    ):
        test.fit(scores(9).repeat(1, 2), scores(8).repeat(1, 2))


def test_the_probability_of_the_authors_code_is_an_option():
    assert "Probability()" in repr(twosample.c2st_l(probability=True))
    assert "Linear()" in repr(twosample.c2st_l())


@pytest.mark.parametrize("method", [twosample.c2st_s, twosample.c2st_l])
def test_the_old_name_of_the_featurizer_still_works_and_warns(method):
    network = torch.nn.Identity()
    with pytest.warns(DeprecationWarning, match="`network` is called `featurizer` now") as seen:
        old = method(network=network)
    assert seen[0].filename == __file__
    assert repr(old) == repr(method(featurizer=network))
    with pytest.raises(twosample.InputError, match="two names of one option"):
        method(network, network=network)


# Points that are equal


@pytest.mark.filterwarnings("ignore::twosample.errors.InputWarning")
@pytest.mark.parametrize("method", ["c2st-l", "c2st-s"])
def test_identical_rows_tie(method):
    """A network may round one row in two ways within a batch. Where its score is nearly 0, that is
    all there is to see."""
    row = np.random.default_rng(0).normal(size=4)
    rows = np.tile(row, (400, 1))
    fitted = resolve(method, permutations=39).fit(rows[:50], rows[:50], rng=0)
    for seed in range(60):
        n = 20 + seed % 100
        assert fitted.test(rows[:n], rows[: n + seed % 3], rng=seed).pvalue == 1


@pytest.mark.filterwarnings("ignore::twosample.errors.InputWarning")
@pytest.mark.parametrize("method", ["c2st-l", "c2st-s", "me", "scf", "mmd-o", "mmd-mkl"])
def test_duplicates_that_trade_places_tie(method):
    rng = np.random.default_rng(1)
    test = resolve(method, permutations=39)
    if test.learning is not None:
        test = replace(test, learning=replace(test.learning, steps=20))
    fitted = test.fit(rng.normal(size=(50, 3)), rng.normal(size=(50, 3)) + 0.3, rng=0)
    for seed in range(20):
        kinds = rng.normal(size=(5, 3))
        X = kinds[rng.integers(0, 5, 60)]
        assert fitted.test(X, rng.permutation(X), rng=seed).pvalue == 1


@pytest.mark.parametrize("columns", [1, 3, 200])
def test_equal_points_are_embedded_once(columns):
    seen = []

    def embed(points):
        seen.append(points)
        return (torch.arange(len(points))[:, None],)

    rng = torch.Generator().manual_seed(0)
    kinds = torch.randn(30, columns, generator=rng)
    kinds[0] = 0.0
    which = torch.randint(30, (80,), generator=rng)
    points = kinds[which] * torch.tensor([1.0, -1.0])[(which == 0).long()][:, None]  # -0.0
    samples = as_samples(points[:40].numpy(), points[40:].numpy())
    samples = replace(samples, x=points[:40], y=points[40:])
    (embedded,) = embed_samples(samples, embed, rng).parts
    assert sum(map(len, seen)) == len(which.unique())
    for one in range(30):
        assert len(embedded[which == one].unique()) <= 1
    assert torch.equal(torch.cat(seen)[embedded[:, 0]], points)
    (alone,) = embed_distinct(embed, torch.ones(5, 2))  # two, or none could be normalised
    assert len(seen[-1]) == 2 and alone.tolist() == [[0]] * 5


def pictures(count: int, strength: float, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=(count, 12, 12))
    return noise + strength * np.sin(np.arange(12))


def test_training_stops_when_every_training_point_is_told_apart():
    X, Y = pictures(60, 0.0, 0), pictures(50, 1.0, 1)
    result = twosample.c2st_l(permutations=99).run(X, Y, rng=0)
    assert result.training.steps < 200  # of a thousand
    assert "nothing left to learn" in result.training.stopped
    assert min(result.training.objective[-20:]) < -1e-9 and result.pvalue == 0.01


def test_with_a_constant_schedule_it_takes_all_its_steps():
    X, Y = pictures(30, 0.0, 0), pictures(30, 3.0, 1)
    learning = {"steps": 60, "learning_rate": 1e-2}
    stopped = twosample.c2st_l(permutations=19, **learning).run(X, Y, rng=0)
    published = twosample.c2st_l(permutations=19, schedule="constant", **learning)
    assert stopped.training.steps < 60
    assert published.run(X, Y, rng=0).training.steps == 60


def test_a_classifier_that_cannot_tell_points_apart_goes_on():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(300, 1)), rng.normal(size=(300, 1))
    result = twosample.c2st_l(permutations=19, steps=100).run(X, Y, rng=0)
    assert result.training.steps == 100
