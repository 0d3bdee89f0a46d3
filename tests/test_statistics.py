from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from torch import Tensor, nn

from bank import (
    NAIVE,
    as_table,
    every_dtype,
    every_estimator,
    make,
    members,
    naive_matrix,
    naive_witness,
    points,
    prepared_by,
    relabelled,
    seeded,
)
from twosample._calibration import Permutation
from twosample._data.embedding import embed_samples
from twosample._data.samples import Samples
from twosample._kernels import Gaussian, OnFeatures
from twosample._resources import DEFAULT_MEMORY, Resources
from twosample._statistics import MMD, Bins
from twosample._statistics.mmd import PreparedMMD
from twosample.errors import IncompatibleParts, InputError

PLANS = {
    "points": (7, 7, Permutation()),
    "points, unequal": (9, 5, Permutation()),
    "bins": (12, 12, Permutation(bins=4)),
    "bins and leftovers": (14, 14, Permutation(bins=4)),
    "bins and leftovers, unequal": (13, 9, Permutation(bins=4)),
    "few of the larger sample move": (20, 6, Permutation(bins=3, max_bins=4)),
    "few move": (11, 11, Permutation(max_bins=4)),
    "one bin of each": (6, 9, Permutation(bins=1)),
}
EQUAL = [name for name, (n, m, _) in PLANS.items() if n == m]


def two_samples(n: int, m: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Samples:
    return as_table(
        points(n, seed=seed, dtype=dtype), 0.3 + 1.5 * points(m, seed=seed + 1, dtype=dtype)
    )


def prepared(
    estimator: str, samples: Samples, plan: Permutation, *, kernel: str = "deep", **options: int
) -> tuple[PreparedMMD, Tensor]:
    """What the statistic keeps, and thirty shuffles, the observed order first."""
    bins = plan.plan(*samples.sizes, seeded(2))
    shuffles = torch.stack(
        [torch.randperm(bins.moving, generator=seeded(seed)) for seed in range(30)]
    )
    shuffles[0] = torch.arange(bins.moving)
    dtype = samples.x.dtype
    seen = make(kernel, dtype)
    return prepared_by(MMD(estimator), seen, samples, bins, seeded(3), **options), shuffles


def observed(estimator: str, x: Tensor, y: Tensor, kernel: str = "rational quadratic") -> float:
    kept, shuffles = prepared(estimator, as_table(x, y), Permutation(), kernel=kernel)
    return MMD(estimator).evaluate(kept, shuffles[:1]).item()


# Against the naive estimator, recomputed on the shuffled points


@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        (estimator, name)
        for estimator in NAIVE
        for name in (EQUAL if estimator == "paired" else PLANS)
    ],
)
@pytest.mark.parametrize("kernel", ["deep, linear kappa", "rational quadratic"])
def test_every_shuffle_is_the_naive_estimate_of_the_shuffled_points(
    estimator: str, name: str, kernel: str
):
    n, m, plan = PLANS[name]
    samples = two_samples(n, m)
    kept, shuffles = prepared(estimator, samples, plan, kernel=kernel)
    K = naive_matrix(make(kernel), samples.pooled()).tolist()
    expected = [
        NAIVE[estimator](K, *relabelled(kept.bins, shuffle)) for shuffle in shuffles.tolist()
    ]
    values = MMD(estimator).evaluate(kept, shuffles)
    assert values.dtype == torch.float64
    assert values.tolist() == pytest.approx(expected, rel=1e-10, abs=1e-12)
    assert len({round(value, 9) for value in expected}) > 1


@every_dtype
@every_estimator
def test_the_first_row_is_the_estimate_of_the_samples(estimator: str, dtype: torch.dtype):
    samples = two_samples(12, 12, dtype)
    kept, shuffles = prepared(estimator, samples, Permutation(bins=4))
    K = naive_matrix(make("deep"), samples.pooled().double()).tolist()
    x, y = relabelled(kept.bins, range(kept.bins.moving))
    assert (sorted(x), sorted(y)) == (list(range(12)), list(range(12, 24)))
    value = MMD(estimator).evaluate(kept, shuffles)[0].item()
    assert value == pytest.approx(
        NAIVE[estimator](K, x, y), abs=1e-12 if dtype == torch.float64 else 1e-6
    )


@every_estimator
def test_shuffles_can_come_in_pieces(estimator: str):
    kept, shuffles = prepared(estimator, two_samples(12, 12), Permutation(bins=4))
    together = MMD(estimator).evaluate(kept, shuffles)
    pieces = torch.cat([MMD(estimator).evaluate(kept, piece) for piece in shuffles.split(7)])
    torch.testing.assert_close(pieces, together, rtol=1e-12, atol=1e-12)


@every_estimator
def test_the_budget_does_not_change_a_value(estimator: str):
    samples, values = two_samples(14, 14), []
    for memory in (2**18, 2**20, DEFAULT_MEMORY):
        kept, shuffles = prepared(estimator, samples, Permutation(bins=4), memory=memory)
        values.append(MMD(estimator).evaluate(kept, shuffles))
    torch.testing.assert_close(values[0], values[2], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(values[1], values[2], rtol=1e-12, atol=1e-12)


def test_witness_and_effect_are_those_of_the_samples():
    samples = two_samples(9, 6)
    kept, shuffles = prepared("unbiased", samples, Permutation(bins=3), kernel="deep, linear kappa")
    K = naive_matrix(make("deep, linear kappa"), samples.pooled()).tolist()
    w = torch.tensor(naive_witness(K, range(9), range(9, 15)), dtype=torch.float64)
    torch.testing.assert_close(torch.cat(kept.witness), w, rtol=1e-10, atol=1e-12)
    spread = [float((part - part.mean()).square().mean()) for part in (w[:9], w[9:])]
    deviation = (4 * spread[0] / 9 + 4 * spread[1] / 6) ** 0.5
    values = MMD().evaluate(kept, shuffles)
    threshold = float(torch.quantile(values, 0.95, interpolation="higher"))
    effect = MMD().effect(kept, float(values[0]), threshold)
    observed, threshold = (
        float(values[0]),
        float(values.sort().values[math.ceil(0.95 * (len(values) - 1))]),
    )
    assert effect.mmd == pytest.approx(max(0.0, observed) ** 0.5, rel=1e-10)
    assert effect.criterion == pytest.approx(
        observed / (deviation**2 * 2 * 9 * 6 / 15 + 1e-8) ** 0.5, rel=1e-8
    )
    assert effect.power == pytest.approx(norm.sf((threshold - observed) / deviation), rel=1e-6)


def test_prepare_keeps_no_graph():
    kept, shuffles = prepared("paired", two_samples(8, 8), Permutation(bins=4))
    for tensor in (
        kept.sums.sums,
        kept.own,
        kept.diagonal.sums,
        *kept.witness,
        MMD("paired").evaluate(kept, shuffles),
    ):
        assert not tensor.requires_grad


# Properties


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(2, 9),
    st.integers(2, 9),
    st.sampled_from(["unbiased", "biased"]),
)
def test_the_order_of_rows_does_not_matter(seed: int, n: int, m: int, estimator: str):
    x, y = points(n, seed=seed), points(m, seed=seed + 1)
    shuffled = [part[torch.randperm(len(part), generator=seeded(seed))] for part in (x, y)]
    assert observed(estimator, *shuffled) == pytest.approx(
        observed(estimator, x, y), rel=1e-9, abs=1e-12
    )


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(2, 9),
    st.integers(2, 9),
    st.sampled_from(["unbiased", "biased"]),
)
def test_swapping_the_samples_does_not_matter(seed: int, n: int, m: int, estimator: str):
    x, y = points(n, seed=seed), points(m, seed=seed + 1)
    assert observed(estimator, y, x) == pytest.approx(
        observed(estimator, x, y), rel=1e-9, abs=1e-12
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 9), st.integers(2, 9))
def test_biased_is_never_negative(seed: int, n: int, m: int):
    assert observed("biased", points(n, seed=seed), points(m, seed=seed + 1)) >= -1e-14


def test_paired_depends_on_who_is_paired_with_whom():
    """Which is why shuffles within a sample count for it, and why it is never enumerated by labels
    alone."""
    kept, _ = prepared("paired", two_samples(6, 6), Permutation())
    within = torch.tensor(
        [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], [1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]]
    )
    first, second = MMD("paired").evaluate(kept, within).tolist()
    assert abs(first - second) > 1e-6
    assert [MMD(name).depends_on_order for name in NAIVE] == [False, False, True]
    for estimator in ("unbiased", "biased"):
        kept, _ = prepared(estimator, two_samples(6, 6), Permutation())
        first, second = MMD(estimator).evaluate(kept, within).tolist()
        assert first == pytest.approx(second, abs=1e-14)


# Bins


def test_labels_of_a_shuffle():
    bins = Bins(
        torch.tensor([0, 1, 0, 1, 4]), torch.tensor([2, 3, 3, 2]), moving_x=2, moving_y=2, size=2
    )
    assert (bins.moving, bins.count) == (4, 6)
    labels = bins.in_x(torch.tensor([[0, 1, 2, 3], [3, 0, 1, 2]]))
    assert labels.tolist() == [[1, 1, 0, 0, 1, 0], [1, 0, 0, 1, 1, 0]]
    assert members(bins) == [[0, 2], [1, 3], [5, 8], [6, 7], [4], []]


# Pooled embedding


class Recorder(nn.Module):
    """Features are the points; the first column, which numbers them, is recorded batch by batch."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[int]] = []

    def forward(self, z: Tensor) -> Tensor:
        self.batches.append(z.flatten(1)[:, 0].int().tolist())
        return z


@pytest.mark.parametrize("memory", [2**18, 2**20, DEFAULT_MEMORY])
def test_pooled_points_are_embedded_once_each_and_come_back_in_order(memory: int):
    recorder = Recorder()
    x, y = torch.arange(9.0)[:, None], torch.arange(9.0, 15.0)[:, None]
    embed = OnFeatures(recorder, Gaussian(1.0)).embed
    (z,) = embed_samples(as_table(x, y), embed, seeded(), Resources(memory)).parts
    assert z[:, 0].tolist() == list(range(15))
    order = list(itertools.chain(*recorder.batches))
    assert sorted(order) == list(range(15))
    assert order != sorted(order)  # a random order
    if memory == DEFAULT_MEMORY:
        assert len(recorder.batches) == 1
    if memory == 2**18:
        assert len(recorder.batches) > 1
        sizes = [len(batch) for batch in recorder.batches]
        assert max(sizes) - min(sizes) <= 1


def test_a_budget_below_one_point_still_makes_no_empty_batch():
    recorder, z = Recorder(), torch.arange(15.0)[:, None]
    embed = OnFeatures(recorder, Gaussian(1.0)).embed
    embed_samples(as_table(z[:9], z[9:]), embed, seeded(), Resources(2**12))
    assert all(recorder.batches)


def test_pooled_embedding_of_a_deep_kernel_has_all_parts():
    kernel, samples = make("deep, q on features"), two_samples(9, 6)
    found = embed_samples(samples, kernel.embed, seeded(), Resources(2**18)).parts
    for part, expected in zip(found, kernel.embed(samples.pooled()), strict=True):
        torch.testing.assert_close(part, expected, rtol=1e-12, atol=1e-12)


# Errors


def test_an_unknown_estimator_is_named():
    with pytest.raises(
        IncompatibleParts,
        match=r"MMD\('median'\) does not exist; use one of unbiased, biased, paired",
    ):
        MMD("median")


def test_paired_needs_equal_sizes():
    with pytest.raises(
        InputError, match=r"samples of one size, not 6 and 4; use MMD\('unbiased'\)"
    ):
        prepared("paired", two_samples(6, 4), Permutation())


@every_estimator
def test_repr_is_code(estimator: str):
    assert eval(repr(MMD(estimator))) == MMD(estimator)
