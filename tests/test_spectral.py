"""The statistic `Spectral` against the textbook: features, covariance and discriminant in numpy, one
labelling after the other."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn

import twosample
from bank import naive_mmd2_biased, prepared_by, relabelled, seeded
from twosample import (
    Features,
    Gaussian,
    IncompatibleParts,
    InputError,
    Permutation,
    Spectral,
    TwoSampleTest,
    Views,
)
from twosample._data.samples import EmbeddedSamples, Samples
from twosample._data.schema import Column, Schema
from twosample._fusing import fuse_kinds, surprise
from twosample._statistics import sums as module
from twosample._views import Landmarks, Scatter, Together, View


def schema_of(columns: int) -> Schema:
    names = tuple(Column(str(number), "numeric") for number in range(columns))
    return Schema("table", (columns,), names)


def samples(n: int = 12, m: int = 9, columns: int = 3, seed: int = 0) -> Samples:
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.normal(size=(n, columns)))
    y = torch.from_numpy(rng.normal(0.5, 1.3, size=(m, columns)))
    return Samples(x, y, schema_of(columns))


def fitted(views: Views, pooled: Samples) -> Views:
    views.look_at(pooled.schema)
    views.start(pooled.pooled(), seeded())
    return views


def textbook(features: np.ndarray, in_x: np.ndarray, lambdas: tuple[float, ...]) -> list[float]:
    """d' (C + lambda s_1)^-1 d for one view, C the covariance of all points."""
    if not features.any():
        return [0.0] * len(lambdas)
    covariance = np.cov(features.T, bias=True).reshape(features.shape[1], -1)
    largest = np.linalg.eigvalsh(covariance)[-1]
    difference = features[in_x].mean(0) - features[~in_x].mean(0)
    values = []
    for regularisation in lambdas:
        if math.isinf(regularisation):
            values.append(float(difference @ difference))
        else:
            ridge = regularisation * largest * np.eye(len(covariance))
            values.append(float(difference @ np.linalg.solve(covariance + ridge, difference)))
    return values


def feature_matrices(stack: View, views: Views, points: torch.Tensor) -> list[np.ndarray]:
    """The features of each view, as the metric measures them."""
    features = stack.features(views.see(points))
    metric = stack.metric()
    matrices = []
    for view in range(features.shape[1]):
        of_view = features[:, view].numpy()
        if is_blind(stack, of_view):
            return matrices  # narrower kernels are blind, too, and blind ones have no values
        if metric is not None:
            of_view = np.linalg.solve(metric[view].numpy(), of_view.T).T
        matrices.append(of_view)
    return matrices


def is_blind(stack: View, values: np.ndarray) -> bool:
    """Whether a kernel is so narrow that a landmark has no neighbour besides itself."""
    is_kernel = isinstance(stack, Landmarks) and not isinstance(stack, Scatter)
    return is_kernel and values.sum(0).mean() < 2


def in_x_of(bins, shuffle: torch.Tensor, count: int) -> np.ndarray:
    into_x, _ = relabelled(bins, shuffle.tolist())
    chosen = np.zeros(count, dtype=bool)
    chosen[into_x] = True
    return chosen


@pytest.mark.parametrize("bins", [500, 4], ids=["points", "bins"])
def test_every_value_is_that_of_the_textbook(bins):
    pooled = samples()
    views = fitted(Views(), pooled)
    plan = Permutation(bins=bins)
    cut = plan.plan(12, 9, seeded(1))
    statistic = Spectral()
    prepared = prepared_by(statistic, views, pooled, cut, seeded(2))
    shuffles = plan.shuffles(cut, seeded(3)).all()[:7]
    made = statistic.evaluate(prepared, shuffles)
    expected = []
    for stack in views:
        lambdas = stack.regularisation or statistic.regularisation
        for features in feature_matrices(stack, views, pooled.pooled()):
            by_labelling = []
            for shuffle in shuffles:
                in_x = in_x_of(cut, shuffle, 21)
                by_labelling.append(textbook(features, in_x, lambdas))
            expected.extend(zip(*by_labelling, strict=True))
    assert made.shape == (len(expected), 7)
    assert np.allclose(made, expected, rtol=1e-5, atol=1e-10)
    assert len(list(prepared.rows())) == len(expected)


def test_lambda_infinite_is_the_mmd_of_the_kernel_where_every_point_is_a_landmark():
    pooled = samples()
    views = fitted(Views(Landmarks("gaussian")), pooled)
    cut = Permutation().plan(12, 9, seeded())
    prepared = prepared_by(Spectral((math.inf,)), views, pooled, cut, seeded())
    made = Spectral().evaluate(prepared, torch.arange(21)[None])[:, 0]
    widest = float(views.stacks[0].width)
    for place, value in enumerate(made.tolist()):
        kernel = Gaussian(widest / 2**place).double()
        K = kernel(pooled.pooled(), pooled.pooled()).detach()
        expected = 0.0
        if not is_blind(views.stacks[0], K.numpy()):
            expected = naive_mmd2_biased(K.tolist(), range(12), range(12, 21))
        assert value == pytest.approx(expected, rel=1e-3)


def test_kernels_in_which_points_have_no_neighbours_are_left_out():
    # Of many columns, points are all as far from each other; of one column they are not.
    seen = []
    for columns in (1, 40):
        pooled = samples(100, 90, columns)
        views = fitted(Views(Landmarks("gaussian")), pooled)
        cut = Permutation().plan(100, 90, seeded())
        prepared = prepared_by(Spectral((math.inf,)), views, pooled, cut, seeded())
        made = Spectral().evaluate(prepared, torch.arange(190)[None])[:, 0]
        seen.append((made > 0).tolist())
    assert seen == [[True] * 6, [True] * 3]


def test_lambda_infinite_is_the_mmd_of_the_projected_kernel():
    pooled = samples()
    views = fitted(Views(Landmarks("laplace", count=5)), pooled)
    cut = Permutation().plan(12, 9, seeded())
    prepared = prepared_by(Spectral((math.inf,)), views, pooled, cut, seeded())
    made = Spectral().evaluate(prepared, torch.arange(21)[None])[:, 0]
    stack = views.stacks[0]
    for view, value in enumerate(made.tolist()):
        at_points = stack.features(views.see(pooled.pooled()))[:, view].numpy()
        if is_blind(stack, at_points):
            assert value == 0
            continue
        at_landmarks = stack._values(stack.places)[:, view].numpy()
        ridge = 1e-5 * np.eye(5)
        K = at_points @ np.linalg.solve(at_landmarks + ridge, at_points.T)
        expected = naive_mmd2_biased(K.tolist(), range(12), range(12, 21))
        assert value == pytest.approx(expected, rel=1e-9)


def test_a_small_lambda_is_hotellings_statistic():
    pooled = samples(40, 30)
    views = fitted(Views(Together()), pooled)
    views.stacks[0].regularisation = (1e-9,)
    cut = Permutation().plan(40, 30, seeded())
    prepared = prepared_by(Spectral(), views, pooled, cut, seeded())
    made = float(Spectral().evaluate(prepared, torch.arange(70)[None]))
    scores = views.see(pooled.pooled()).scores.numpy()
    difference = scores[:40].mean(0) - scores[40:].mean(0)
    within = (40 * np.cov(scores[:40].T, bias=True) + 30 * np.cov(scores[40:].T, bias=True)) / 70
    squared = difference @ np.linalg.solve(within, difference)
    # About the pooled mean, the covariance has the difference of means in it.
    expected = squared / (1 + 40 * 30 / 70**2 * squared)
    assert made == pytest.approx(expected, rel=1e-6)


def test_the_covariance_of_some_points_is_about_their_own_mean(monkeypatch):
    monkeypatch.setattr(module, "_ROWS_FOR_COVARIANCE", 50)
    pooled = samples(60, 40)
    views = fitted(Views(Together()), pooled)
    bins = Permutation().plan(60, 40, seeded())
    prepared = prepared_by(Spectral(), views, pooled, bins, seeded(8))
    generator = seeded(8)
    torch.randperm(100, generator=generator)  # of the embedding
    some = torch.randperm(100, generator=generator) < 50
    scores = views.see(pooled.pooled()).scores[some].numpy()
    expected = np.linalg.eigvalsh(np.cov(scores.T, bias=True))[::-1]
    assert np.allclose(prepared.stacks[0].spectrum[0], expected, rtol=1e-12)


def test_pieces_of_work_and_parts_of_rows_add_up(monkeypatch):
    pooled = samples(70, 50)
    views = fitted(Views(), pooled)
    bins = Permutation(bins=10).plan(70, 50, seeded())
    whole = prepared_by(Spectral(), views, pooled, bins, seeded())
    monkeypatch.setattr(module, "_LEAST_PIECE", 16)
    monkeypatch.setattr(module, "_AT_ONCE", 1)
    pieces = prepared_by(Spectral(), views, pooled, bins, seeded())
    for one, other in zip(whole.stacks, pieces.stacks, strict=True):
        assert torch.allclose(one.means, other.means, rtol=1e-12)
        assert torch.allclose(one.spectrum, other.spectrum, rtol=1e-9, atol=1e-9)
    order = torch.arange(bins.moving)[None]
    straight = Spectral().evaluate(whole, order)
    again = Spectral().evaluate(pieces, order)
    assert torch.allclose(straight, again, rtol=1e-5)


def test_the_p_value_is_the_share_of_labellings_by_hand():
    given = samples(4, 4, 2)
    result = TwoSampleTest(Views(), statistic=Spectral()).run(
        given.x.numpy(), given.y.numpy(), rng=0
    )
    views = result.fitted.representation
    points = result.samples.pooled()
    prepared = result.calibrated.prepared
    values = []
    for into_x in itertools.combinations(range(8), 4):
        in_x = np.isin(np.arange(8), into_x)
        of_labelling = []
        for stack in views:
            lambdas = stack.regularisation or Spectral().regularisation
            for features in feature_matrices(stack, views, points):
                of_labelling.extend(textbook(features, in_x, lambdas))
        values.append(of_labelling)
    rows = torch.tensor(values, dtype=torch.float64).T.clamp_min(0)
    fused = fuse_kinds(surprise(rows, prepared.moments()), prepared.kinds, prepared.shares)
    reaching = fused >= fused[0] - 1e-4
    assert result.pvalue == pytest.approx(float(reaching.double().mean()))
    assert result.statistic == pytest.approx(float(fused[0]), rel=1e-4)


def test_the_witness_is_the_discriminant_of_the_best_view():
    pooled = samples(40, 40)
    shifted = Samples(pooled.x, pooled.y + 3.0, pooled.schema)
    views = fitted(Views(Together()), shifted)
    cut = Permutation().plan(40, 40, seeded())
    statistic = Spectral()
    prepared = prepared_by(statistic, views, shifted, cut, seeded())
    number, row = statistic.best(prepared)
    scores = statistic.scores(views, prepared, shifted.pooled())
    features = views.see(shifted.pooled()).scores.numpy()
    regularisation = prepared.stacks[number].regularisation[row]
    covariance = np.cov(features.T, bias=True)
    ridge = 0.0 if math.isinf(regularisation) else regularisation
    largest = np.linalg.eigvalsh(covariance)[-1]
    matrix = covariance + ridge * largest * np.eye(3)
    if math.isinf(regularisation):
        matrix = np.eye(3)
    direction = np.linalg.solve(matrix, features[:40].mean(0) - features[40:].mean(0))
    expected = (features - features.mean(0)) @ direction
    assert np.allclose(scores, expected, rtol=1e-8, atol=1e-8)
    assert float(scores[:40].mean()) > float(scores[40:].mean())


def test_contributions_add_up_to_the_statistic():
    pooled = samples(30, 20)
    views = fitted(Views(), pooled)
    points = EmbeddedSamples((pooled.pooled(),), (30, 20), pooled.schema)
    cut = Permutation().plan(30, 20, seeded())
    prepared = Spectral().prepare(views, points, cut, seeded())
    of_x, of_y = Spectral().contributions(views, points, prepared, 2.5)
    assert float(of_x.mean() + of_y.mean()) == pytest.approx(2.5)


@pytest.mark.parametrize("regularisation", [(), (0.1, 0.0), (-1.0,), (math.nan,)])
def test_a_regularisation_that_makes_no_sense_is_a_sentence(regularisation):
    with pytest.raises(InputError, match=r"regularisation is .*give numbers above 0"):
        Spectral(regularisation)


def test_parts_that_do_not_fit_are_sentences():
    with pytest.raises(IncompatibleParts, match=r"sees points through views.*Use Views\(\)"):
        TwoSampleTest(Gaussian(), statistic=Spectral())
    with pytest.raises(IncompatibleParts, match="neither a torch module nor a transformer"):
        twosample.spectral(Features("words")).run(np.zeros((5, 2)), np.ones((5, 2)), rng=0)


def test_features_of_a_network_are_those_of_the_textbook():
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    pooled = samples()
    views = fitted(Views(Features(network)), pooled)
    cut = Permutation().plan(12, 9, seeded())
    prepared = prepared_by(Spectral((0.1,)), views, pooled, cut, seeded())
    made = float(Spectral().evaluate(prepared, torch.arange(21)[None]))
    features = network(pooled.pooled().float()).double().detach().numpy()
    in_x = np.arange(21) < 12
    assert made == pytest.approx(textbook(features, in_x, (0.1,))[0], rel=1e-9)
