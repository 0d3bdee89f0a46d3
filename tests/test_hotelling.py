"""ME and SCF: the features, Hotelling's T^2 against plain NumPy and another library, shuffles,
laws, starts."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
import torch
from statsmodels.stats.multivariate import test_mvmean_2indep as hotelling_of_statsmodels
from torch import nn

import twosample
from bank import as_table, points, prepared_by, relabelled, seeded
from twosample import (
    Asymptotic,
    Gaussian,
    HotellingT2,
    InputError,
    InputWarning,
    Learning,
    MeanEmbedding,
    Noncentrality,
    PairSwap,
    Permutation,
    SmoothCharacteristic,
    TwoSampleTest,
)
from twosample._featurizers import _gaussian_draws
from twosample._learning import fit
from twosample._random import Generators
from twosample.bench.datasets import blob


def textbook_T2(f, g):  # noqa: N802
    """Two samples of features, by the definition."""
    n, m = len(f), len(g)
    difference = f.mean(0) - g.mean(0)
    S = ((n - 1) * np.cov(f.T) + (m - 1) * np.cov(g.T)) / (n + m - 2)
    return n * m / (n + m) * difference @ np.linalg.solve(np.atleast_2d(S), difference)


def textbook_paired_T2(f, g):  # noqa: N802
    z = f - g
    return len(z) * z.mean(0) @ np.linalg.solve(np.atleast_2d(np.cov(z.T)), z.mean(0))


def embedding(count=3, bandwidth=1.2):
    return MeanEmbedding(points(count, seed=7), Gaussian(bandwidth)).double()


def characteristic(count=2, width=1.7):
    return SmoothCharacteristic(points(count, seed=8), width).double()


MAPS = {"me": embedding, "scf": characteristic}
every_map = pytest.mark.parametrize("name", MAPS)


def two_samples(n, m, shift=0.4):
    return as_table(points(n, seed=1), points(m, seed=2) + shift)


def blobs():
    return blob(300, rng=1)


# The features


def test_mean_embedding_is_its_formula():
    x, v = points(6).numpy(), points(3, seed=7).numpy()
    expected = np.exp(-((x[:, None] - v[None]) ** 2).sum(2) / (2 * 1.2**2))
    np.testing.assert_allclose(embedding()(points(6)).detach().numpy(), expected, atol=1e-12)


def test_smooth_characteristic_is_its_formula():
    u, t = points(6).numpy() / 1.7, points(2, seed=8).numpy()
    damping = np.exp(-(u**2).sum(1, keepdims=True) / 2)
    expected = np.concatenate([np.sin(u @ t.T) * damping, np.cos(u @ t.T) * damping], 1)
    np.testing.assert_allclose(characteristic()(points(6)).detach().numpy(), expected, atol=1e-12)


# The statistic


@every_map
@pytest.mark.parametrize(("n", "m", "bins"), [(20, 20, 500), (30, 17, 500), (40, 26, 6)])
def test_pooled_T2_is_the_textbook_one_under_every_shuffle(name, n, m, bins):  # noqa: N802
    features, samples = MAPS[name](), two_samples(n, m)
    plan = Permutation(12, bins=bins)
    cut = plan.plan(n, m, seeded(3))
    shuffles = plan.shuffles(cut, seeded(4)).all()
    prepared = prepared_by(HotellingT2(), features, samples, cut, seeded(5))
    found = HotellingT2().evaluate(prepared, shuffles)
    f = features(samples.pooled()).detach().numpy()
    for value, shuffle in zip(found.tolist(), shuffles.tolist(), strict=True):
        x, y = relabelled(cut, shuffle)
        assert value == pytest.approx(textbook_T2(f[x], f[y]), rel=1e-10)


@every_map
@pytest.mark.parametrize("bins", [500, 7])
def test_paired_T2_is_the_textbook_one_under_every_swap(name, bins):  # noqa: N802
    n, features, samples = 25, MAPS[name](), two_samples(25, 25)
    plan = PairSwap(12, bins=bins)
    cut = plan.plan(n, n, seeded(3))
    shuffles = plan.shuffles(cut, seeded(4)).all()
    statistic = HotellingT2(paired=True)
    found = statistic.evaluate(prepared_by(statistic, features, samples, cut, seeded(5)), shuffles)
    f = features(samples.pooled()).detach().numpy()
    for value, shuffle in zip(found.tolist(), shuffles.tolist(), strict=True):
        x, y = relabelled(cut, shuffle)
        assert value == pytest.approx(textbook_paired_T2(f[x], f[y]), rel=1e-10)


def test_T2_is_that_of_statsmodels():  # noqa: N802
    samples, features = two_samples(20, 15), embedding()
    result = Permutation(1)(HotellingT2(), features, samples, seeded())
    f = features(samples.pooled()).detach().numpy()
    assert float(result.values[0]) == pytest.approx(
        hotelling_of_statsmodels(f[:20], f[20:]).t2, rel=1e-10
    )


def test_p_value_is_that_of_scipy():
    samples, features = two_samples(5, 4, shift=1.0), embedding(1)
    found = Permutation(999)(HotellingT2(), features, samples, seeded())
    f = features(samples.pooled()).detach().numpy()

    def statistic(a, b):
        return textbook_T2(f[a.astype(int)], f[b.astype(int)])

    expected = scipy.stats.permutation_test(
        (np.arange(5), np.arange(5, 9)),
        statistic,
        vectorized=False,
        n_resamples=math.inf,
        alternative="greater",
    )
    assert len(found.values) == len(expected.null_distribution) == 126
    assert found.pvalue == pytest.approx(expected.pvalue, abs=1e-12)


@every_map
def test_asymptotic_is_chi_squared(name):
    samples, features = two_samples(60, 60), MAPS[name]()
    f = features(samples.pooled()).detach().numpy()
    for statistic, textbook in (
        (HotellingT2(), textbook_T2),
        (HotellingT2(paired=True), textbook_paired_T2),
    ):
        found = Asymptotic()(statistic, features, samples, seeded())
        assert found.pvalue == pytest.approx(
            scipy.stats.chi2.sf(textbook(f[:60], f[60:]), f.shape[1]), rel=1e-8
        )
        assert scipy.stats.chi2.sf(found.threshold, f.shape[1]) == pytest.approx(0.05)
        assert "asymptotic" in found.description and "chi-squared" in found.description


def test_noncentrality_is_T2_for_each_point():  # noqa: N802
    f, g = points(40, seed=1), points(40, seed=2) + 0.3
    found = float(Noncentrality(0.0)(torch.nn.Identity(), f, g))
    S = np.cov(f.T.numpy(), bias=True) + np.cov(g.T.numpy(), bias=True)
    d = (f.mean(0) - g.mean(0)).numpy()
    assert found == pytest.approx(d @ np.linalg.solve(S, d), rel=1e-12)
    pooled = textbook_T2(f.numpy(), g.numpy())
    assert 40 * found == pytest.approx(
        pooled * 80 / 78, rel=1e-12
    )  # whose covariance is 1 / (n - 1)


def test_dependent_features_get_a_ridge_and_a_warning():
    twice = MeanEmbedding(points(2, seed=7)[[0, 1, 1]], Gaussian(1.2)).double()
    samples = two_samples(30, 25)
    with pytest.warns(InputWarning, match="nearly dependent .* a ridge of 1e-08"):
        found = Permutation(99)(HotellingT2(), twice, samples, seeded())
    once = MeanEmbedding(points(2, seed=7)[:2], Gaussian(1.2)).double()
    expected = Permutation(99)(HotellingT2(), once, samples, seeded())
    torch.testing.assert_close(
        found.values, expected.values, rtol=1e-5, atol=0
    )  # a copy of a feature adds nothing
    assert found.pvalue == expected.pvalue


def test_features_without_any_spread_give_p_one():
    far = MeanEmbedding(points(2, seed=7) + 1e4, Gaussian(1.0)).double()
    with pytest.warns(InputWarning, match="nearly dependent"):
        assert Permutation(99)(HotellingT2(), far, two_samples(30, 25), seeded()).pvalue == 1.0


def test_duplicates_that_trade_places_are_ties():
    x = points(6, seed=1, dtype=torch.float32).repeat(5, 1)
    found = Permutation(199)(HotellingT2(), embedding(2).float(), as_table(x, x.clone()), seeded())
    assert found.pvalue == 1.0


def test_too_few_points_for_the_features_is_a_sentence():
    with pytest.raises(InputError, match="3 and 3 points are too few for 5 features"):
        Permutation(9)(HotellingT2(), embedding(5), two_samples(3, 3), seeded())


# Starting points


def test_me_and_scf_are_two_feature_maps_and_one_statistic():
    me, scf = twosample.me(), twosample.scf()
    assert me.statistic == scf.statistic == HotellingT2() and me.learning == scf.learning
    assert (
        type(me.representation) is MeanEmbedding
        and type(scf.representation) is SmoothCharacteristic
    )


@pytest.mark.parametrize(("n", "d"), [(40, 3), (5, 9)])
def test_draws_follow_the_shrunk_covariance(n, d):
    data = points(n, columns=d, seed=3) * torch.linspace(0.2, 2, d, dtype=torch.float64)
    drawn = _gaussian_draws(data, 200_000, seeded(1)).numpy()
    values, vectors = np.linalg.eigh(np.cov(data.T.numpy()) + 1e-3 * np.eye(d))
    expected = vectors @ np.diag(values**0.9) @ vectors.T + 1e-3 * np.eye(d)
    np.testing.assert_allclose(drawn.mean(0), data.mean(0).numpy(), atol=0.03)
    np.testing.assert_allclose(np.cov(drawn.T), expected, atol=0.03)


@pytest.mark.parametrize("count", [1, 4, 5])
def test_locations_start_where_the_samples_are(count):
    x, y = points(50, seed=1) - 20, points(50, seed=2) + 20
    features = MeanEmbedding(count)
    features.learn(x, y, seeded())
    first = features.locations[:, 0].detach()
    if count > 1:
        assert (first < -10).sum() == count // 2 and (first > 10).sum() == count - count // 2


def test_images_of_12288_pixels_work():
    rng = np.random.default_rng(0)
    X, Y = (rng.integers(0, 255, (60, 64, 64, 3)).astype(np.uint8) for _ in range(2))
    Y[:, 20:40] //= 3
    result = twosample.me(2, steps=20, restarts=1, permutations=99).run(X, Y, rng=0)
    assert result.fitted.representation.locations.shape == (2, 3, 64, 64)
    assert 0 < result.pvalue <= 1
    assert 0 < twosample.scf(2, steps=20, restarts=1, permutations=99).run(X, Y, rng=0).pvalue <= 1


# Learning


@pytest.mark.parametrize(
    "start", [lambda: MeanEmbedding(3), lambda: SmoothCharacteristic(3)], ids=["me", "scf"]
)
def test_training_moves_everything_up(start):
    samples = as_table(*(torch.tensor(z) for z in blobs()))
    before, _ = fit(start(), samples, Learning(Noncentrality(), steps=0), Generators(0))
    learning = Learning(Noncentrality(), steps=150, batch_size=1000, learning_rate=2e-2)
    after, log = fit(start(), samples, learning, Generators(0))
    values = [Noncentrality()(m, samples.x, samples.y).item() for m in (before, after)]
    assert values[1] > 1.2 * values[0] and log.steps == 150
    for (name, old), new in zip(before.named_parameters(), after.parameters(), strict=True):
        assert not torch.allclose(old, new), name


@pytest.mark.parametrize("method", [twosample.me, twosample.scf])
def test_unoptimised_is_the_start(method):
    X, Y = blobs()
    test = method(optimise=False, permutations=19)
    assert test.learning.steps == 0
    assert test.run(X, Y, rng=0).training.steps == 0


def test_the_published_test_is_one_option_away():
    for test in (twosample.me(asymptotic=True), twosample.scf(optimise=False, asymptotic=True)):
        assert test.statistic == HotellingT2(paired=True) and test.calibration == Asymptotic()
        with pytest.raises(InputError, match=r"the paired T\^2 needs samples of one size"):
            test.fit(*blobs(), rng=0).test(points(30, columns=2), points(20, columns=2, seed=9))


def test_selected_locations_are_training_points_and_the_best_of_them():
    x, y = points(40, seed=1), points(40, seed=2) + torch.tensor([1.0, 0, 0])
    features = MeanEmbedding(1, Gaussian(1.0), select=True).double()
    features.learn(x, y, seeded())
    pooled = torch.cat([x, y])
    values = [
        Noncentrality()(MeanEmbedding(v[None], Gaussian(1.0)).double(), x, y).item() for v in pooled
    ]
    torch.testing.assert_close(features.locations[0], pooled[int(np.argmax(values))])


def test_a_fixed_kernel_is_left_alone():
    kernel = twosample.mmd_d(steps=3).fit(*blobs(), rng=0).representation
    features = MeanEmbedding(1, kernel, fixed=True)
    state = {name: value.clone() for name, value in features.kernel.state_dict().items()}
    test = TwoSampleTest(
        features, Learning(Noncentrality(), steps=5), HotellingT2(), Permutation(19)
    )
    fitted = test.fit(*blobs(), rng=0)
    for name, value in fitted.representation.kernel.state_dict().items():
        assert torch.equal(value, state[name]), name


def test_features_that_are_no_numbers_are_said_to_be_so():
    class Endless(nn.Module):
        def forward(self, points):
            return points / 0

    with pytest.raises(InputError, match="not finite numbers; look for extreme values"):
        TwoSampleTest(Endless(), None, HotellingT2()).run(
            points(20).numpy(), points(20, seed=1).numpy(), rng=0
        )
