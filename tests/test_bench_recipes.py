"""The authors' setup in our parts: their units, their networks, what they train, their
schedules."""

from __future__ import annotations

import copy
import dataclasses
import math

import numpy as np
import pytest
import torch
from torch import nn

import twosample
from twosample._data.samples import Scaling
from twosample._data.survey import as_samples
from twosample._methods import ABLATIONS
from twosample._objectives import CrossEntropy, PowerCriterion
from twosample._random import Generators
from twosample.bench import author_parts, authors, datasets, recipes
from twosample.bench.author_parts import AsPublished, Epochs, TheirUnits, TwoLogits, scaled
from twosample.bench.experiments import EXPERIMENTS, METHODS, SAME_TEST, Setting
from twosample.errors import InputError

RNG = np.random.default_rng(0)
BLOB = Setting("n_b=40", "blob", 360, 2)
HDGM = Setting("N=4000", "hdgm", 2000, 10)
HIGGS = Setting("N=3000", "higgs", 1500, 4)
MNIST = Setting("N=400", "mnist", 200)


def digits(n: int) -> np.ndarray:
    return RNG.integers(0, 256, (n, 28, 28), dtype=np.uint8)


def data(setting: Setting, n: int) -> tuple[np.ndarray, np.ndarray]:
    if setting.data == "mnist":
        return digits(n), digits(n)
    if setting.data == "hdgm":
        return datasets.hdgm(n, rng=RNG)
    return (
        datasets.blob(n, rng=RNG)
        if setting.data == "blob"
        else (RNG.normal(size=(n, 4)), RNG.normal(size=(n, 4)))
    )


def built(method: str, setting: Setting, n: int = 40, epochs: int = 2) -> twosample.TwoSampleTest:
    small = dataclasses.replace(setting, n=n)
    numbers = dataclasses.replace(authors.numbers(setting), epochs=epochs)
    return authors.build(method, small, numbers, *data(setting, n), permutations=19)


@pytest.mark.parametrize("setting", [HDGM, MNIST], ids=["table", "images"])
@pytest.mark.parametrize("method", [*METHODS, *(c for c in ABLATIONS if c not in SAME_TEST)])
def test_every_method_can_be_fitted_and_tested(method, setting):
    test = built(method, setting)
    fitted = test.fit(*data(setting, 40), rng=0, progress=False)
    assert 0 < fitted.test(*data(setting, 40), rng=0, progress=False).pvalue <= 1


@pytest.mark.parametrize(
    ("method", "setting", "weights"),
    [  # counted in their code, and the three scales; a head of two outputs for C2ST
        ("mmd-d", BLOB, 7800 + 3),
        ("mmd-d", HDGM, 3120 + 3),
        ("mmd-d", MNIST, 148_900 + 3),
        ("c2st-l", HDGM, 3120 + 2 * 31),
        ("mmd-o", HIGGS, 1),
    ],
)
def test_networks_are_as_large_as_theirs(method, setting, weights):
    fitted = built(method, setting, epochs=1).fit(*data(setting, 40), rng=0, progress=False)
    assert sum(p.numel() for p in fitted.representation.parameters()) == weights


@pytest.mark.parametrize(
    ("method", "setting", "steps"),
    [
        ("mmd-d", BLOB, 1000),
        ("mmd-d", MNIST, 4000),  # 2000 epochs of two batches
        ("mmd-o", MNIST, 2000),
        ("c2st-s", MNIST, 4000),
    ],
)
def test_schedules_have_their_numbers_of_steps(method, setting, steps):
    test = authors.build(
        method, setting, authors.numbers(setting), *data(setting, 30), permutations=19
    )
    assert test.learning.steps == steps
    assert test.learning.schedule == "constant"


@pytest.mark.parametrize(
    ("setting", "steps"),
    [
        (Setting("n_b=40", "blob", 360), 40_500),
        (Setting("n_b=100", "blob", 900), 105_465),
        (HDGM, 32_000),
        (Setting("N=10000", "higgs", 5000), 79_000),
    ],
)
def test_classifiers_take_their_numbers_of_steps(setting, steps):
    test = authors.build(
        "c2st-l", setting, authors.numbers(setting), *data(setting, 30), permutations=19
    )
    epochs = test.representation.featurizer.epochs
    assert epochs.count * -(-2 * setting.n // epochs.batch) == steps and test.learning.steps == 0


def test_a_classifier_is_trained_in_pooled_batches():
    x = torch.randn(20, 3)
    y = torch.randn(16, 3) + 1
    network = TwoLogits(nn.Linear(3, 4), image=False, epochs=Epochs(3, 8, 0.01))
    plain = copy.deepcopy(network)
    network.learn(x, y, torch.Generator().manual_seed(0))
    # The same with two logits, cross-entropy and Adam as in any textbook; batches of 8, 8, 8, 8 and
    # 4.
    generator = torch.Generator().manual_seed(0)
    plain.start(torch.cat([x, y]), generator)
    optimiser = torch.optim.Adam(plain.parameters(), 0.01)
    points = torch.cat([x, y])
    labels = torch.tensor([0] * 20 + [1] * 16)
    for _ in range(3):
        order = torch.randperm(36, generator=generator)
        for first in range(0, 36, 8):
            batch = order[first : first + 8]
            logits = plain.featurizer(points[batch]) @ plain.weights[:-1] + plain.weights[-1]
            optimiser.zero_grad()
            nn.functional.cross_entropy(logits, labels[batch]).backward()
            optimiser.step()
    for ours, theirs in zip(network.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)
    before = network.weights.clone()
    network.start(points, generator)  # does not draw again what has been learned
    assert torch.equal(network.weights, before)


def s_of(kernel: twosample.Gaussian) -> float:
    return 2 * kernel.bandwidth**2


@pytest.mark.parametrize("setting", [HDGM, HIGGS], ids=["hdgm", "higgs"])
def test_scales_on_the_features_of_a_classifier_start_where_theirs_do(setting):
    x, y = data(setting, 40)
    small = dataclasses.replace(setting, n=40)
    numbers = dataclasses.replace(
        authors.numbers(setting), epochs=1, scale_rate=2e-5, both_rate=0.02
    )
    g, d = (
        authors.build(column, small, numbers, x, y, permutations=19).fit(
            x, y, rng=0, progress=False
        )
        for column in ("G+C", "D+C")
    )
    seen = g.scaling.apply(as_samples(x, y))
    features = g.representation.featurizer
    between = torch.cdist(features(seen.x), features(seen.y)).square()
    # The first step of Adam is as long as its rate, whatever the gradient; this one is far shorter
    # than s.
    assert between.median() / 16 > 1e-4
    assert abs(s_of(g.representation.kernel) - between.median() / 16) == pytest.approx(
        2e-5, rel=0.02
    )
    kappa = d.representation.kappa
    q = d.representation.q.kernel
    assert abs(math.sqrt(s_of(kappa)) - math.sqrt(numbers.both_s_phi)) == pytest.approx(
        0.02, rel=0.01
    )
    assert abs(math.sqrt(s_of(q)) - math.sqrt(numbers.both_s_q)) == pytest.approx(0.02, rel=0.01)
    assert (
        d.representation.eps < 1e-9
        and not built("D+C", BLOB).representation.logit_eps.requires_grad
    )
    # The features are those of the classifier alone, which is trained once.
    classifier = features.classifier
    assert classifier.learned
    before = [weights.clone() for weights in classifier.parameters()]
    classifier.learn(seen.x, seen.y, torch.Generator())
    assert all(torch.equal(*pair) for pair in zip(before, classifier.parameters(), strict=True))


def test_scales_grow_with_the_dimensions_of_hdgm():
    found = authors.numbers(Setting("d=30", "hdgm", 2000, 30))
    assert (found.s_q, round(found.gaussian_s, 2), found.both_s_q) == (60.0, 7.71, 180.0)


def test_what_the_paper_states_otherwise():
    code, text = (authors.numbers(HDGM, stated=stated) for stated in (False, True))
    assert (code.rate, text.rate) == (5e-5, 1e-5)
    assert (
        not authors.numbers(HIGGS).trains_s_phi and authors.numbers(HIGGS, stated=True).trains_s_phi
    )


def test_points_are_seen_in_their_units():
    X = 3 + 5 * RNG.normal(size=(50, 2))
    Y = RNG.normal(size=(60, 2))
    samples = as_samples(X, Y)
    scaling = Scaling.of(samples)
    units = TheirUnits(scaling.shift, scaling.scale)
    assert torch.allclose(units(scaling.apply(samples).x), torch.tensor(X).float(), atol=1e-5)


def test_images_are_seen_at_their_size_from_minus_one_to_one():
    X = digits(5)
    Y = digits(6)
    X[0] = 255
    test = authors._Authors(MNIST, authors.numbers(MNIST), X, Y)
    seen = test.units()(test.scaling.apply(test.samples).x)
    assert seen.shape == (5, 1, 32, 32)
    assert torch.allclose(seen[0], torch.ones(1, 32, 32), atol=1e-5)
    by_pillow = datasets.images_for_paper(X, 32) / 127.5 - 1  # which rounds to whole grey levels
    assert np.abs(seen[:, 0].numpy() - by_pillow).max() < 1.01 / 127.5


@pytest.mark.parametrize(("trained", "value"), [("s", 3.0), ("root", math.sqrt(3))])
def test_scales_are_trained_as_theirs_are(trained, value):
    kernel = scaled(3.0, trained=trained)
    x = torch.randn(30, 2)
    y = torch.randn(30, 2) + 0.3
    (parameter,) = kernel.parameters()
    assert parameter.item() == pytest.approx(value, rel=1e-6)
    assert kernel(x[:1], y[:1]).item() == pytest.approx(
        math.exp(-float((x[0] - y[0]).square().sum()) / 3), rel=1e-5
    )
    # The gradient is that with respect to s, or to its root: compare with differences of J.
    PowerCriterion()(kernel, x, y).backward()
    values = []
    for step in (-0.02, 0.02):
        moved = (value + step) if trained == "s" else (value + step) ** 2
        values.append(PowerCriterion()(scaled(moved, trained=trained), x, y).item())
    assert parameter.grad.item() == pytest.approx((values[1] - values[0]) / 0.04, rel=0.02)


def test_s_phi_of_higgs_stays():
    test = built("mmd-d", HIGGS, epochs=3)
    fitted = test.fit(*data(HIGGS, 40), rng=0, progress=False)
    deep = fitted.representation.kernel
    assert deep.kappa.bandwidth == pytest.approx(math.sqrt(0.005 / 2), rel=1e-6)
    assert deep.q.bandwidth != pytest.approx(2.0, rel=1e-7)


class Identity(nn.Module):
    def forward(self, points):
        return points


@pytest.mark.parametrize("image", [False, True])
def test_two_logits_have_their_loss(image):
    network = TwoLogits(Identity(), image=image)
    x = torch.randn(20, 3)
    y = torch.randn(20, 3)
    network.start(x, torch.Generator().manual_seed(0))
    kernel = twosample.OnFeatures(network, twosample.Linear())
    pooled = torch.cat([x, y])
    labels = torch.tensor([0] * 20 + [1] * 20)
    features = torch.relu(pooled) if image else pooled
    logits = features @ network.weights[:-1] + network.weights[-1]
    theirs = nn.functional.cross_entropy(torch.softmax(logits, 1) if image else logits, labels)
    assert -CrossEntropy()(kernel, x, y).item() == pytest.approx(theirs.item(), rel=1e-5)
    # And the statistic of C2ST-L is the difference of mean probabilities of the first class.
    first = torch.softmax(logits, 1)[:, 0]
    scores = network(pooled)[:, 0]
    probability = (1 + scores) / 2 if image else torch.sigmoid(scores)
    assert torch.allclose(probability, first, atol=1e-6)


def test_me_ascends_and_scf_stays():
    generator = torch.Generator().manual_seed(1)
    x = 20 * torch.randn(300, 2, generator=generator)
    y = 30 * torch.randn(300, 2, generator=generator)
    units = TheirUnits(torch.zeros(2), torch.ones(2))
    drawn = twosample.MeanEmbedding(5)
    drawn.learn(x.double(), y.double(), torch.Generator().manual_seed(0))
    me, scf = (AsPublished(units, kind, 5) for kind in ("me", "scf"))
    for features in (me, scf):
        features.learn(x, y, torch.Generator().manual_seed(0))
    moved = (me.features.locations.double() - drawn.locations).detach().norm()
    assert 0.5 < float(moved) < sum(1 / math.sqrt(t) for t in range(1, 301))

    def statistic(features):
        with torch.no_grad():
            return float(author_parts._noncentrality(features, x.double(), y.double(), 1e-5))

    started = twosample.MeanEmbedding(drawn.locations.detach(), twosample.Gaussian(1.0)).double()
    median = twosample.median_bandwidth(torch.cat([x, y]))
    author_parts._choose_width(
        started, [median * 2 ** (k / 8) for k in range(-12, 17)], x.double(), y.double()
    )
    assert statistic(me.features.double()) > statistic(started) + 1
    fresh = torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(scf.features.frequencies, fresh)
    assert me(x).shape == (300, 5) and scf(x).shape == (300, 10)


def test_features_that_learned_nothing_say_so():
    with pytest.raises(InputError, match="fit the test first"):
        AsPublished(TheirUnits(torch.zeros(2), torch.ones(2)), "me", 5)(torch.zeros(3, 2))


# Recipes


def test_default_is_the_library_as_it_comes():
    for method in METHODS:
        test = recipes.build(method, "default", BLOB, None, None)
        assert repr(test) == repr(twosample.METHODS[method](permutations=199))


def test_recipes_have_names():
    with pytest.raises(
        InputError, match="there is no recipe 'ours'; use one of default, paper, stated"
    ):
        recipes.build("mmd-d", "ours", BLOB, None, None)


def test_every_cell_of_the_catalogue_can_be_built():
    X = {}
    Y = {}
    for name in ("blob", "hdgm", "higgs", "mnist"):
        setting = next(s for s in (BLOB, HDGM, HIGGS, MNIST) if s.data == name)
        X[name], Y[name] = data(setting, 30)
    X["cifar"], Y["cifar"] = (
        RNG.integers(0, 256, (20, 32, 32, 3), dtype=np.uint8) for _ in range(2)
    )
    X["cifar-jpeg"] = X["cifar"]
    Y["cifar-jpeg"] = Y["cifar"]
    for shown in EXPERIMENTS.values():
        cells = {(c.method, c.setting.data): c for c in shown.cells()}  # one size of each is enough
        for (method, kind), cell in cells.items():
            if method in recipes.LOCATIONS or shown.name == "quick":
                continue
            for recipe in recipes.RECIPES:
                test = recipes.build(method, recipe, cell.setting, X[kind], Y[kind])
                assert test.learning is not None


@pytest.mark.parametrize("method", list(recipes.LOCATIONS))
def test_locations_are_found_with_the_kernel_of_mmd_d(method):
    X, Y = datasets.blob(24, rng=0)
    fitted = recipes.fit(method, "default", BLOB, X, Y, Generators(0))
    assert fitted.representation.locations.shape == (1, 2)
    if method == "deep-me-selected":
        given = fitted.scaling.apply(as_samples(X, Y)).pooled()
        assert (given == fitted.representation.locations).all(1).any()
