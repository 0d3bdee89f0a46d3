"""Means and variances over all shuffles, against every shuffle in turn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from bank import seeded
from twosample import Permutation, Spectral, TwoSampleTest, Views
from twosample._statistics.shuffled import moments_over_shuffles


def over_every_choice(totals, weights, in_x, staying):
    """(views, lambdas) the mean and the variance of T, by listing all choices of bins for X."""
    bins = len(totals)
    values = []
    for chosen in itertools.combinations(range(bins), in_x):
        sums = totals[list(chosen)].sum(0) + staying  # (views, axes)
        values.append((weights * sums[:, None].square()).sum(2))
    every = torch.stack(values)
    return every.mean(0), every.var(0, correction=0)


@pytest.mark.parametrize(("bins", "in_x"), [(4, 1), (4, 2), (7, 3), (9, 2), (8, 6)])
@pytest.mark.parametrize("stays", [False, True])
def test_moments_are_those_of_all_choices(bins, in_x, stays):
    generator = seeded()
    # Far from normal, and of different sizes along the axes.
    totals = torch.randn(bins, 3, 4, generator=generator, dtype=torch.float64).exp()
    totals *= torch.tensor([10.0, 3.0, 1.0, 0.1], dtype=torch.float64)
    staying = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    if not stays:
        totals -= totals.mean(0)
        staying = torch.zeros_like(staying)
    weights = torch.rand(3, 2, 4, generator=generator, dtype=torch.float64)
    weights[1, 1] = 0.0  # a row that is left out
    mean, variance = moments_over_shuffles(totals, weights, in_x, staying if stays else None)
    expected_mean, expected_variance = over_every_choice(totals, weights, in_x, staying)
    assert torch.allclose(mean[:, 0], expected_mean.flatten(), rtol=1e-10)
    assert torch.allclose(variance[:, 0], expected_variance.flatten(), rtol=1e-8, atol=1e-12)


def test_many_views_are_done_some_at_a_time(monkeypatch):
    totals = torch.randn(6, 5, 2, generator=seeded(), dtype=torch.float64)
    weights = torch.rand(5, 1, 2, generator=seeded(), dtype=torch.float64)
    staying = torch.ones(5, 2, dtype=torch.float64)
    at_once = moments_over_shuffles(totals, weights, 2, staying)
    monkeypatch.setattr("twosample._statistics.shuffled._VALUES_AT_ONCE", 24)
    by_twos = moments_over_shuffles(totals, weights, 2, staying)
    for one, other in zip(at_once, by_twos, strict=True):
        assert torch.allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize(("n", "m", "max_bins"), [(60, 45, 1000), (60, 40, 25), (90, 90, 12)])
def test_moments_of_a_test_are_those_of_its_shuffles(n, m, max_bins):
    """Points in bins, some of which stay: against twenty thousand shuffles."""
    rng = np.random.default_rng(0)
    X = rng.lognormal(size=(n, 3))
    Y = rng.lognormal(size=(m, 3))
    calibration = Permutation(20_000, bins=30, max_bins=max_bins)
    result = TwoSampleTest(Views(), statistic=Spectral(), calibration=calibration).run(X, Y, rng=0)
    prepared = result.calibrated.prepared
    shuffles = result.calibrated.shuffles.within()
    values = torch.cat([Spectral().evaluate(prepared, part) for part in shuffles], 1)
    mean, variance = prepared.moments()
    seen = values.mean(1)
    error = values.std(1) / values.shape[1] ** 0.5
    assert float(((seen - mean[:, 0]).abs() / error.clamp_min(1e-12)).max()) < 6
    has_noise = variance[:, 0] > 1e-9 * mean[:, 0].square()
    ratio = values.var(1)[has_noise] / variance[has_noise, 0]
    assert has_noise.sum() > 30
    assert float(ratio.min()) > 0.85 and float(ratio.max()) < 1.2
