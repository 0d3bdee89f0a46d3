"""Locations of a learned kernel: selected, trained, joint; calibrated; as rows of a table and as
images."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import binom

import twosample
from twosample import ConvNet, IncompatibleParts, InputError, Noncentrality, locations

# The second cluster is far away, and a warning says so.
pytestmark = pytest.mark.filterwarnings("ignore:More than 20 interquartile:twosample.InputWarning")


def two_clusters(n, seed=0, share=0.3):
    """X is normal; a share of Y sits somewhere else."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, 2)), rng.normal(size=(n, 2))
    moved = rng.random(n) < share
    y[moved] = rng.normal([50.0, 300.0], [1.0, 10.0], (int(moved.sum()), 2))
    return pd.DataFrame(x, columns=["a", "b"]), pd.DataFrame(y, columns=["a", "b"])


def digits(n, seed=0, bright=0):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 120, (n, 12, 12)).astype(np.uint8)
    images[:, 4:8, 4:8] += np.uint8(bright)
    return images


@pytest.mark.parametrize("how", ["selected", "trained"])
def test_the_location_is_where_the_samples_differ(how):
    X, Y = two_clusters(300)
    result = twosample.mmd_d(steps=20).run(X, Y, rng=0)
    found = locations(result, X, Y, how=how, rng=0, restarts=3 if how == "trained" else 1)
    (place,) = found.values
    assert set(place) == {"a", "b"}
    assert found.result.pvalue <= 0.01 and found.how == how
    if how == "selected":
        (origin,) = found.rows
        table = {"X": X, "Y": Y}[origin[0]]
        # Values that are drawn in have fewer digits in single precision.
        assert place == pytest.approx(table.iloc[origin[1]].to_dict(), rel=1e-4)
        there = abs(place["a"] - 50) < 5 and abs(place["b"] - 300) < 50  # only Y is there
        assert there or (abs(place["a"]) < 3 and abs(place["b"]) < 3)  # less of Y is here
    else:
        assert found.rows == ()
    assert f"1 {how} location" in str(found) and "a = " in str(found)


def test_the_kernel_stays_as_it_was_and_so_does_the_result():
    X, Y = two_clusters(120)
    result = twosample.mmd_d(steps=5).run(X, Y, rng=0)
    before = {
        name: tensor.clone() for name, tensor in result.fitted.representation.state_dict().items()
    }
    pvalue = result.pvalue
    found = locations(result, X, Y, count=2, how="trained", steps=5, rng=0)
    inside = found.fitted.representation.kernel.state_dict()
    for name, tensor in before.items():
        assert torch.equal(tensor, result.fitted.representation.state_dict()[name]) and torch.equal(
            tensor, inside[name]
        )
    assert result.pvalue == pvalue and found.fitted.representation.locations.shape == (2, 2)


def test_training_moves_the_location_up():
    X, Y = two_clusters(200)
    fitted = twosample.mmd_o().fit(X, Y, rng=0)
    values = []
    for steps in (0, 200):
        found = locations(fitted, X, Y, how="trained", steps=steps, rng=0).fitted
        samples = found.scaling.apply(twosample.as_samples(X, Y))
        values.append(float(Noncentrality()(found.representation, samples.x, samples.y)))
    assert values[1] > values[0]


def test_joint_training_moves_the_kernel_too():
    X, Y = two_clusters(200)
    fitted = twosample.mmd_d(steps=5).fit(X, Y, rng=0)
    found = locations(fitted, X, Y, how="joint", steps=30, rng=0)
    assert found.how == "joint" and found.result is None and len(found.values) == 1
    start = locations(fitted, X, Y, how="joint", steps=0, rng=0)
    one, other = (dict(f.fitted.representation.kernel.named_parameters()) for f in (found, start))
    assert any(not torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("how", ["selected", "trained", "joint"])
def test_locations_of_images_are_images(how):
    X, Y = digits(60), digits(50, seed=1, bright=120)
    result = twosample.mmd_d(ConvNet(channels=(4, 8)), steps=10).run(X, Y, rng=0)
    found = locations(result, X, Y, how=how, steps=10, rng=0)
    (image,) = found.values
    assert image.dtype == np.uint8 and image.shape == (12, 12)
    assert found.result is not None and 0 < found.result.pvalue <= 1
    if how == "selected":
        sample, row = found.rows[0]
        np.testing.assert_array_equal(image, {"X": X, "Y": Y}[sample][row])
    assert "an image of 12 x 12 pixels" in str(found)


def test_images_of_floats_come_back_in_0_to_255_too():
    X, Y = (
        digits(60) / np.float32(127.5) - 1,
        digits(50, seed=1, bright=120) / np.float32(127.5) - 1,
    )
    fitted = twosample.mmd_o(steps=2).fit(X.astype(np.float32), Y.astype(np.float32), rng=0)
    found = locations(fitted, X.astype(np.float32), Y.astype(np.float32), rng=0)
    sample, row = found.rows[0]
    original = {"X": X, "Y": Y}[sample][row]
    low, high = min(X.min(), Y.min()), max(X.max(), Y.max())
    expected = (original - low) / (high - low) * 255
    assert found.values[0].dtype == np.uint8 and np.abs(found.values[0] - expected).max() <= 1


def test_batch_normalisation_is_frozen():
    """A point's features must not depend on the company it is in, or a shuffle would change
    them."""
    X, Y = digits(60), digits(50, seed=1, bright=60)
    fitted = twosample.mmd_d(ConvNet(channels=(4, 8)), steps=5).fit(X, Y, rng=0)
    features = locations(fitted, X, Y, how="trained", steps=5, rng=0).fitted.representation
    features.train()
    images = torch.randn(20, 1, 12, 12)
    with torch.no_grad():
        torch.testing.assert_close(features(images)[:5], features(images[:5]), rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings(
    "ignore:the features of the points to test are nearly dependent"
)  # p is 1 then
@pytest.mark.parametrize("how", ["selected", "trained"])
def test_the_level_of_a_test_by_locations(how):
    """Locations are chosen on training rows, so the p-value on the others is exact."""
    runs, rejections = 100, 0
    for run in range(runs):
        rng = np.random.default_rng([7, run])
        X, Y = rng.normal(size=(40, 2)), rng.normal(size=(30, 2))
        result = twosample.mmd_o(steps=2, permutations=19).run(X, Y, rng=run)
        found = locations(result, X, Y, how=how, steps=5, permutations=99, rng=run)
        rejections += found.result.reject()
    assert rejections <= binom.isf(1e-6, runs, 0.05)


def test_errors_say_what_to_do():
    X, Y = two_clusters(60)
    result = twosample.mmd_o(steps=2).run(X, Y, rng=0)
    with pytest.raises(
        InputError, match="how is 'guessed'; it must be one of selected, trained, joint"
    ):
        locations(result, X, Y, how="guessed")
    with pytest.raises(
        InputError, match="X and Y have 30 and 60 rows, but the result is of 60 and 60"
    ):
        locations(result, X[:30], Y)
    with pytest.raises(InputError, match="needs a fitted test or its result, not a str"):
        locations("mmd-d", X, Y)
    with pytest.raises(InputError, match="pass the fitted test and the points"):
        locations(twosample.mmd_median().run(X, Y, rng=0), X, Y)
    with pytest.raises(IncompatibleParts, match="Use mmd_d"):
        locations(twosample.me(2, steps=2, restarts=1).fit(X, Y, rng=0), X, Y)
