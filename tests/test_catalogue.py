"""The catalogue: scikit-learn in the network's place, the ten columns of the ablation, identities
between methods."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import energy_distance
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import twosample
import twosample.bench.datasets
from bank import as_table, naive_matrix, network, points, seeded
from twosample import (
    METHODS,
    MMD,
    Classifier,
    CrossEntropy,
    DeepKernel,
    Gaussian,
    Kernel,
    Learning,
    MeanDiscrepancy,
    OnFeatures,
    Permutation,
    PowerCriterion,
    SklearnClassifier,
    TwoSampleTest,
    WeightedSum,
)
from twosample._featurizers import Bounded, Frozen
from twosample._methods import ABLATIONS

CLASSIFIERS = {
    "logistic": LogisticRegression(),
    "boosting": HistGradientBoostingClassifier(max_iter=20),
    "forest": RandomForestClassifier(20),
    "bayes": GaussianNB(),
    "ridge": RidgeClassifier(),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
    "margins": make_pipeline(StandardScaler(), SVC()),
}


def normals(n=80, m=60, shift=0.0, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)), rng.normal(size=(m, 3)) + np.array([shift, 0, 0])


# Scikit-learn


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("method", [twosample.c2st_s, twosample.c2st_l])
def test_any_classifier_can_take_the_place_of_the_network(name, method):
    result = method(classifier=CLASSIFIERS[name], permutations=99).run(*normals(shift=2.5), rng=0)
    assert result.pvalue == 0.01 and result.effect.accuracy > 0.7 and result.effect.auc > 0.8
    assert not hasattr(CLASSIFIERS[name], "classes_")  # a clone was fitted


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_scores_are_those_of_the_classifier_and_positive_for_x(name):
    x, y = (torch.tensor(z).float() for z in normals(shift=2.0))
    wrapped = SklearnClassifier(CLASSIFIERS[name])
    wrapped.learn(x, y, seeded())
    scores = wrapped(x)[:, 0].double().numpy()
    assert scores.mean() > 0 > float(wrapped(y).mean())
    fitted = wrapped.fitted
    if hasattr(fitted, "decision_function"):
        np.testing.assert_allclose(scores, fitted.decision_function(x.numpy()), atol=1e-5)
    else:
        p = np.clip(fitted.predict_proba(x.numpy())[:, 1], 1e-6, 1 - 1e-6)
        np.testing.assert_allclose(scores, np.log(p / (1 - p)) - np.log(80 / 60), atol=1e-5)


@pytest.mark.parametrize("name", ["logistic", "forest", "bayes", "boosting", "pipeline"])
def test_a_small_sample_does_not_make_the_classifier_call_everything_the_other(name):
    """Both samples weigh the same, so that the threshold 0 means what it says."""
    x, y = (torch.tensor(z).float() for z in normals(400, 40, shift=1.0))
    wrapped = SklearnClassifier(CLASSIFIERS[name])
    wrapped.learn(x, y, seeded())
    new_x, new_y = (torch.tensor(z).float() for z in normals(400, 400, shift=1.0, seed=1))
    assert float((wrapped(new_y) <= 0).double().mean()) > 0.4
    assert float((wrapped(new_x) > 0).double().mean()) > 0.4


def test_one_seed_one_answer_with_a_random_classifier():
    test = twosample.c2st_l(classifier=RandomForestClassifier(10), permutations=99)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second, other = (test.run(*normals(shift=0.4), rng=seed).statistic for seed in (0, 0, 1))
    assert first == second != other
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002


def test_trees_by_name_are_boosted_ones_of_scikit_learn():
    test = twosample.c2st_trees(permutations=99, train_fraction=0.4)
    spelled = twosample.c2st_l(
        classifier=HistGradientBoostingClassifier(), permutations=99, train_fraction=0.4
    )
    by_name = test.run(*normals(shift=1.0), rng=0)
    assert by_name.statistic == spelled.run(*normals(shift=1.0), rng=0).statistic
    assert by_name.method == "c2st-trees"
    one_sided = twosample.c2st_trees(alternative="greater", permutations=99)
    assert one_sided.run(*normals(shift=2.0), rng=0).pvalue == 0.01


def test_trees_without_scikit_learn_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(twosample.MissingDependency, match=r"pip install 'twosample\[sklearn\]'"):
        twosample.two_sample_test(*normals(), "c2st-trees")


def test_a_table_of_mixed_columns():
    rng = np.random.default_rng(0)

    def table(n, share):
        return pd.DataFrame(
            {
                "age": rng.normal(40, 10, n),
                "plan": rng.choice(
                    ["free", "paid", "team"], n, p=[1 - share, share / 2, share / 2]
                ),
                "active": rng.random(n) < 0.5,
            }
        )

    test = twosample.c2st_trees()
    assert test.run(table(300, 0.3), table(250, 0.6), rng=0).pvalue <= 0.01
    assert test.run(table(300, 0.3), table(250, 0.3), rng=0).pvalue > 0.01


def test_permutations_of_scores_need_no_pairs(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("pairs of scores were compared")

    monkeypatch.setattr(twosample._statistics.mmd, "block_and_row_sums", refuse)
    for method in (twosample.c2st_s, twosample.c2st_l):
        result = method(classifier=GaussianNB(), permutations=99).run(*normals(shift=1.0), rng=0)
        totals = result.calibrated.prepared.sums.totals
        assert totals.shape == (72, 1)  # 40 + 30 points and two empty bins


# The ablation


@pytest.mark.parametrize("column", ABLATIONS)
def test_every_column_of_the_ablation_is_one_line(column):
    test = twosample.ablation(column, permutations=99, steps=40)
    assert test.name == column
    result = test.run(*normals(shift=2.5), rng=0)
    assert 0 < result.pvalue <= 1
    if column not in ("L+M", "L+J"):  # whose networks need longer than this
        assert result.pvalue <= 0.05


def test_what_the_columns_are_made_of():
    parts = {c: twosample.ablation(c) for c in ABLATIONS}
    assert repr(parts["S+C"].representation) == "OnFeatures(Classifier(), Sign())"
    assert repr(parts["L+J"].representation) == "OnFeatures(Classifier(), Linear())"
    assert repr(parts["L+M"].representation) == "OnFeatures(Bounded(Classifier()), Linear())"
    assert repr(parts["G+M"].representation).startswith("OnFeatures(AutoFeaturizer(), Gaussian(")
    assert repr(parts["D+C"].representation).startswith("DeepKernel(AutoFeaturizer(residual=False)")
    objectives = {c: type(t.learning.objective) for c, t in parts.items()}
    for column, objective in objectives.items():
        first = parts[column].learning.pretraining
        if column in ("G+C", "D+C"):  # two stages: features by cross-entropy, then scales by J
            assert objective is PowerCriterion and isinstance(first.objective, CrossEntropy)
        else:
            assert first is None
            assert (
                objective
                is {"C": CrossEntropy, "M": MeanDiscrepancy, "J": PowerCriterion}[column[-1]]
            )


def test_d_plus_j_is_mmd_d_and_the_c_columns_are_c2st():
    X, Y = normals(shift=1.0)
    for column, method in (
        ("D+J", twosample.mmd_d),
        ("S+C", twosample.c2st_s),
        ("L+C", twosample.c2st_l),
    ):
        options = {"steps": 20, "permutations": 99}
        ours, named = (
            twosample.ablation(column, **options).run(X, Y, rng=3),
            method(**options).run(X, Y, rng=3),
        )
        assert ours.statistic == named.statistic and ours.pvalue == named.pvalue


def test_two_stages_freeze_the_features_and_train_the_scales():
    fitted = twosample.ablation("D+C", network(), steps=30, permutations=19).fit(
        *normals(shift=1.0), rng=0
    )
    kernel = fitted.representation
    assert isinstance(kernel.featurizer, Frozen)
    start = network().state_dict()
    trained = kernel.featurizer.network.state_dict()
    assert any(not torch.allclose(start[name], trained[name]) for name in start)
    again = Frozen(network())
    again.train()
    assert not again.training and not again.network.training
    assert not any(p.requires_grad for p in again.parameters())


def test_bounded_scores_are_tanh_over_the_norm_of_the_data():
    scores = Bounded(Classifier(network()))
    z = points(20, dtype=torch.float32)
    scores.start(z, seeded())
    expected = torch.tanh(scores.featurizer(z) / torch.linalg.norm(z))
    torch.testing.assert_close(scores(z), expected)


# Identities


def test_g_is_d_with_eps_zero_and_a_constant_q():
    class Constant(Kernel):
        def tile(self, a, b):
            return torch.ones(len(a[0]), len(b[0]), dtype=a[0].dtype)

    g = OnFeatures(network(), Gaussian(0.4)).double()
    d = DeepKernel(network(), Gaussian(0.4), Constant(), eps=1e-12).double()
    z = points(12)
    torch.testing.assert_close(d(z, z), g(z, z), rtol=0, atol=1e-10)
    samples = as_table(points(15, seed=1), points(11, seed=2) + 1)
    one, other = (Permutation(99)(MMD(), k, samples, seeded()) for k in (g, d))
    assert one.pvalue == other.pvalue


def test_mkl_with_one_kernel_is_that_kernel():
    X, Y = normals(shift=0.7)
    sum_of_one = twosample.mmd_mkl([Gaussian(1.3)], permutations=99).run(X, Y, rng=0)
    alone = TwoSampleTest(
        Gaussian(1.3), Learning(PowerCriterion(), steps=0), MMD(), Permutation(99), "alone"
    ).run(X, Y, rng=0)
    assert sum_of_one.pvalue == alone.pvalue
    assert sum_of_one.statistic == pytest.approx(alone.statistic, rel=1e-5)


def test_a_deep_kernel_is_the_sum_and_product_it_abbreviates():
    kernel = DeepKernel(network(), Gaussian(0.3), Gaussian(1.1), eps=0.25).double()
    z = points(9)
    kappa = naive_matrix(OnFeatures(network(), Gaussian(0.3)).double(), z)
    q = naive_matrix(Gaussian(1.1).double(), z)
    torch.testing.assert_close(
        naive_matrix(kernel, z), (0.75 * kappa + 0.25) * q, rtol=0, atol=1e-7
    )


def test_mmd_of_minus_distance_is_scipys_energy_distance():
    class MinusDistance(Kernel):
        def tile(self, a, b):
            return -(a[0] - b[0].T).abs()

    x, y = points(30, columns=1, seed=1), points(20, columns=1, seed=2) + 0.5
    found = Permutation(1)(MMD("biased"), MinusDistance(), as_table(x, y), seeded())
    assert float(found.values[0]) == pytest.approx(
        energy_distance(x[:, 0], y[:, 0]) ** 2, rel=1e-10
    )


def test_mkl_learns_the_scale_that_matters():
    X, Y = twosample.bench.datasets.blob(900, rng=0)
    result = twosample.mmd_mkl(permutations=199).run(X, Y, rng=0)
    assert result.pvalue <= 0.01
    kernel = result.fitted.representation
    assert isinstance(kernel, WeightedSum) and float(kernel.weights.sum()) == pytest.approx(1)
    narrow = sum(
        w for w, k in zip(kernel.weights.tolist(), kernel.kernels, strict=True) if k.bandwidth < 0.3
    )
    assert narrow > 0.5


@pytest.mark.parametrize("kernel", ["Laplace", "InverseMultiquadric", "ARDGaussian"])
def test_other_kernels_learn_in_the_same_machinery(kernel):
    X, Y = twosample.bench.datasets.blob(900, rng=0)
    result = twosample.mmd_o(getattr(twosample, kernel)(), permutations=199).run(X, Y, rng=0)
    assert result.pvalue <= 0.05 and result.training.steps == 50


def test_lambda_of_the_theorems_is_an_option():
    x, y = points(27, seed=1), points(27, seed=2)
    theory, same = PowerCriterion("n^(-1/3)"), PowerCriterion(1 / 3)
    assert theory(Gaussian(1.0), x, y).item() == pytest.approx(
        same(Gaussian(1.0), x, y).item(), rel=1e-12
    )


def test_the_catalogue_has_the_six_tests_of_the_paper():
    assert {"mmd-d", "mmd-o", "me", "scf", "c2st-s", "c2st-l"} <= set(METHODS)
