import os

import numpy as np
import pytest

from twosample import InputError
from twosample.bench import datasets

needs_data = pytest.mark.skipif("TWOSAMPLE_DATA" not in os.environ, reason="TWOSAMPLE_DATA is not set")


def test_blob_has_the_papers_means_and_covariances():
    x, y = datasets.blob(200_000, rng=0)
    for sample, covariances in ((x, np.zeros(9)), (y, [-0.020, -0.022, -0.024, -0.026, 0, 0.020, 0.022, 0.024, 0.026])):
        nearest = np.abs(sample[:, None] - np.indices((3, 3)).reshape(2, 9).T).sum(2).argmin(1)
        assert np.bincount(nearest) / len(sample) == pytest.approx(np.full(9, 1 / 9), abs=0.005)
        for mode, covariance in enumerate(covariances):
            points = sample[nearest == mode]
            # A few points lie nearer to another centre, so tails are clipped by a little.
            assert np.cov(points.T) == pytest.approx(np.array([[0.03, covariance], [covariance, 0.03]]), abs=0.004)


def test_blob_s_is_the_null():
    x, y = datasets.blob(100_000, 50_000, different=False, rng=0)
    assert len(x) == 100_000 and len(y) == 50_000
    assert np.cov(x.T) == pytest.approx(np.cov(y.T), abs=0.02)


def test_hdgm_has_the_papers_mixture():
    x, y = datasets.hdgm(400_000, dimension=4, rng=0)
    for sample in (x, y):
        assert sample.mean(0) == pytest.approx(np.full(4, 0.25), abs=0.01)
    # Within modes: E[x1 x2] = 0.5 * (c + 0) + 0.5 * (-c + 0.25), so overall covariances agree; fourth moments do not.
    assert np.cov(x.T) == pytest.approx(np.cov(y.T), abs=0.02)
    second = y[:, 2:].mean(1) > 0.25
    assert np.cov(y[~second, :2].T)[0, 1] > 0.1 > -0.05 > np.cov(y[second, :2].T)[0, 1]
    assert abs(np.cov(x[~second, :2].T)[0, 1]) < 0.1
    with pytest.raises(InputError, match="at least 2 dimensions, not 1"):
        datasets.hdgm(10, dimension=1)


def test_draws_are_those_of_the_seed():
    for draw in (datasets.blob, datasets.hdgm):
        a, b, c = draw(50, rng=1), draw(50, rng=1), draw(50, rng=2)
        assert np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1]) and not np.array_equal(a[0], c[0])


def test_a_missing_folder_or_file_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.delenv("TWOSAMPLE_DATA", raising=False)
    with pytest.raises(InputError, match="set the environment variable TWOSAMPLE_DATA"):
        datasets.higgs()
    with pytest.raises(InputError, match="does not exist"):
        datasets.higgs(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"higgs\.npz does not exist; put higgs/higgs\.npz into the data folder"):
        datasets.higgs(tmp_path)
    (tmp_path / "mnist").mkdir()
    np.savez(tmp_path / "mnist" / "mnist.npz", pictures=np.zeros(3))
    with pytest.raises(InputError, match="lacks the array 'images'; it holds pictures"):
        datasets.mnist(tmp_path)


@needs_data
def test_real_data_are_what_they_should_be():
    background, signal = datasets.higgs()
    assert background.shape == (25576, 4) and signal.shape == (28846, 4) and np.abs(background).max() < 1.75
    assert datasets.higgs(columns="all")[0].shape == (25576, 28)
    with pytest.raises(InputError, match="columns is 'some'"):
        datasets.higgs(columns="some")
    assert datasets.mnist().shape == (70000, 28, 28) and datasets.fake_mnist().shape == (10000, 28, 28)


@needs_data
def test_raw_digits_of_a_generator_are_told_from_real_ones():
    import twosample

    rng = np.random.default_rng(0)
    real = datasets.mnist()[rng.permutation(60000)[:200]]
    fake = datasets.fake_mnist()[rng.permutation(10000)[:200]]
    assert twosample.mmd_d(steps=60, permutations=99).run(real, fake, rng=0).pvalue == 0.01
