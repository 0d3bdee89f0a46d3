"""Values of many rows, fused over labellings, against plain loops and exact laws."""

import math

import numpy as np
import pytest
import scipy
import torch

from twosample import InputError
from twosample._fusing import (
    fuse_kinds,
    moments_of,
    smallest_rank,
    snapped,
    soft_maximum,
    step_down,
    surprise,
)


def rows(count: int = 5, labellings: int = 40, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, labellings, generator=generator, dtype=torch.float64).square()


def test_the_smallest_rank_is_that_of_a_plain_loop():
    values = rows()
    values[2, 3] = values[2, 7]  # a tie, which counts against both
    weights = torch.tensor([1.0, 2.0, 0.5, 1.0, 1.0], dtype=torch.float64)
    expected = []
    for labelling in range(40):
        shares = []
        for row, weight in zip(values, weights, strict=True):
            reaching = sum(float(other) >= float(row[labelling]) for other in row)
            shares.append(reaching / 40 / float(weight))
        expected.append(-math.log(min(shares)))
    assert smallest_rank(values, weights).tolist() == pytest.approx(expected, abs=1e-14)


def test_the_soft_maximum_is_that_of_a_plain_loop():
    values = rows()
    expected = []
    for labelling in range(40):
        terms = [math.exp(3.0 * float(value)) for value in values[:, labelling]]
        expected.append(math.log(sum(terms) / len(terms)) / 3.0)
    assert soft_maximum(values, 3.0).tolist() == pytest.approx(expected, rel=1e-12)
    large = soft_maximum(1e4 * values, 1e3)  # whose exponentials no float holds
    assert torch.allclose(large, 1e4 * values.amax(0), rtol=1e-5)


def test_values_that_differ_by_rounding_become_equal_and_others_stay():
    values = torch.tensor([[1.0, 3.0, 1.0 + 1e-9, 2.0, 3.0 - 1e-9], [1.0, 1.1, 1.2, 1.3, 1.4]])
    made = snapped(values.double(), torch.tensor([1e-8, 1e-8]))
    assert made[0, 0] == made[0, 2]
    assert made[0, 1] == made[0, 4]
    assert torch.allclose(made, values.double(), atol=1e-8)
    assert made[1].unique().numel() == 5


@pytest.mark.parametrize("shape", [0.5, 1.0, 2.0, 10.0, 100.0, 200.0])
def test_surprises_are_those_of_the_gamma_law(shape):
    # Quantiles of the law at evenly spaced levels have nearly its mean and variance. The far tail
    # is compared at the law that the row has.
    levels = (np.arange(100_000) + 0.5) / 100_000
    values = scipy.special.gammaincinv(shape, levels)
    far = scipy.special.gammainccinv(shape, np.exp(-np.linspace(5, 50, 10)))
    row = np.concatenate([values, far])
    mean, variance = row.mean(), row.var()
    own_shape = mean**2 / variance
    expected = -np.log(scipy.special.gammaincc(own_shape, row * own_shape / mean))
    made = surprise(torch.from_numpy(row)[None])[0].numpy()
    near = expected < 1
    assert np.abs(made - expected)[near].max() < 0.015
    assert np.abs(made / expected - 1)[~near].max() < 0.015
    assert expected.max() > 30
    assert (np.diff(made[np.argsort(row)]) >= 0).all()


def test_a_constant_row_surprises_nobody_and_a_row_of_zeros_but_one_is_in_order():
    values = torch.zeros(3, 50, dtype=torch.float64)
    values[0] = 0.7
    values[2, 4] = 1.0  # as skewed as rows can be
    made = surprise(values)
    assert not made[:2].any()
    assert torch.isfinite(made).all()
    assert made[2].argmax() == 4
    with pytest.raises(InputError, match="no negative values, and -1"):
        surprise(values - 1)


def test_surprises_take_the_moments_that_are_known():
    values = rows(3, 50)
    mean, variance = moments_of(values)
    assert torch.equal(mean[:, 0], values.mean(1))
    assert torch.equal(variance[:, 0], values.var(1, correction=0))
    assert torch.equal(surprise(values, (mean, variance)), surprise(values))
    known = (2 * mean, 3 * variance)
    for row in range(3):
        shape = float(known[0][row] ** 2 / known[1][row])
        law = scipy.stats.gamma(shape, scale=float(known[0][row]) / shape)
        expected = -law.logsf(values[row].numpy())
        assert np.allclose(surprise(values, known)[row], expected, rtol=0.02, atol=0.02)


def test_kinds_are_fused_as_in_a_plain_loop():
    values = rows(5, 41)
    values[:, 7] = values[:, 3]  # a tie
    kinds = torch.tensor([0, 1, 0, 2, 1])
    shares = torch.tensor([0.5, 0.3, 0.4], dtype=torch.float64)
    means = np.zeros(41)
    for kind, members in enumerate(([0, 2], [1, 4], [3])):
        largest = np.array([max(float(values[row, b]) for row in members) for b in range(41)])
        quantile = np.quantile(largest, 0.8)
        beyond = [value - quantile for value in largest if value > quantile + 1e-9]
        excess = (sum(beyond) + 500) / (len(beyond) + 500)  # five hundred of 1 to start from
        inverse = 5 * np.exp((largest - quantile) / excess)  # 1 / p
        means += float(shares[kind]) / 1.2 * inverse
    expected = np.log(1 + means)
    assert np.allclose(fuse_kinds(values, kinds, shares), expected, rtol=1e-12)


def test_kinds_that_are_constant_or_tied_but_for_rounding_are_in_order():
    kinds = torch.tensor([0, 1])
    shares = torch.ones(2, dtype=torch.float64)
    constant = torch.zeros(2, 30, dtype=torch.float64)
    assert len(fuse_kinds(constant, kinds, shares).unique()) == 1
    tied = constant.clone()
    tied[0, ::3] = 2.0
    tied[1, 5] = 4.0
    noise = 1e-14 * torch.randn(2, 30, generator=torch.Generator().manual_seed(0)).double()
    straight = fuse_kinds(tied, kinds, shares)
    assert torch.allclose(fuse_kinds(tied + noise, kinds, shares), straight, atol=1e-11)


@pytest.mark.parametrize("labellings", [20, 100])
def test_the_order_of_labellings_does_not_matter(labellings):
    values = rows(8, labellings)
    order = torch.randperm(labellings, generator=torch.Generator().manual_seed(1))
    kinds = torch.tensor([0, 0, 1, 1, 1, 2, 2, 2])
    shares = torch.tensor([1.0, 2.0, 1.0], dtype=torch.float64)

    def fused(values: torch.Tensor) -> list[torch.Tensor]:
        ones = torch.ones(len(values), dtype=torch.float64)
        near = snapped(values, 1e-9 * ones)
        by_kind = fuse_kinds(surprise(near), kinds, shares)
        return [near, smallest_rank(values, ones), soft_maximum(values, 2.0), by_kind]

    for straight, moved in zip(fused(values), fused(values[:, order]), strict=True):
        assert torch.allclose(moved, straight[..., order], rtol=1e-12)


def step_down_by_loops(values):
    """Westfall and Young's algorithm as their book has it, with counts."""
    labellings = len(values[0])
    left = sorted(range(len(values)), key=lambda hypothesis: -values[hypothesis][0])
    adjusted = {}
    most = 0
    while left:
        first = left[0]
        count = 0
        for labelling in range(labellings):
            largest = max(values[hypothesis][labelling] for hypothesis in left)
            count += largest >= values[first][0]
        most = max(most, count)
        adjusted[first] = most / labellings
        left = left[1:]
    return [adjusted[hypothesis] for hypothesis in range(len(values))]


@pytest.mark.parametrize("seed", range(20))
def test_the_step_down_is_that_of_plain_loops(seed):
    values = rows(1 + seed % 6, 20, seed)
    if seed % 2:
        values = values.round(decimals=1)  # with many ties
    assert step_down(values).tolist() == step_down_by_loops(values.tolist())


def test_the_step_down_counts_ties_and_the_observed_labelling():
    values = torch.zeros(3, 10, dtype=torch.float64)
    assert step_down(values).tolist() == [1.0, 1.0, 1.0]
    values[1, 0] = 5.0
    assert step_down(values).tolist() == [1.0, 0.1, 1.0]
    values[2, 4] = 5.0 - 1e-12
    assert step_down(values).tolist() == [1.0, 0.1, 1.0]
    assert step_down(values, 1e-9).tolist() == [1.0, 0.2, 1.0]


def test_the_step_down_leaves_out_what_was_found():
    # Row 0 is far above all. Its other values are large too, and stand in nobody's way.
    values = torch.tensor([[100.0, 9.0, 9.0, 9.0], [2.0, 1.0, 1.0, 1.0]])
    assert step_down(values.double()).tolist() == [0.25, 0.25]
