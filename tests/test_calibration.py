from __future__ import annotations

import copy
import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from bank import (
    KERNELS,
    NAIVE,
    as_table,
    every_dtype,
    every_estimator,
    make,
    members,
    naive_matrix,
    points,
    prepared_by,
    relabelled,
    seeded,
)
from twosample import _products as products
from twosample._calibration import Calibrated, PairSwap, Permutation, pvalue
from twosample._kernels import DeepKernel, Gaussian, Kernel, Linear
from twosample._products import Embedded
from twosample._statistics import MMD, Bins
from twosample._statistics.mmd import PreparedMMD
from twosample.errors import InputError, InputWarning, TwoSampleError


def run(
    x: Tensor,
    y: Tensor,
    plan: Permutation | None = None,
    *,
    estimator: str = "unbiased",
    kernel: Kernel | None = None,
    seed: int = 0,
) -> Calibrated:
    kernel = make("rational quadratic", x.dtype) if kernel is None else kernel
    return (plan or Permutation())(MMD(estimator), kernel, as_table(x, y), seeded(seed))


# Plans


@settings(max_examples=100, deadline=None)
@given(
    n=st.integers(2, 60),
    m=st.integers(2, 60),
    bins=st.integers(1, 30),
    max_bins=st.integers(1, 30),
    seed=st.integers(0, 2**32),
)
def test_every_plan(n: int, m: int, bins: int, max_bins: int, seed: int):
    calibration = Permutation(9, bins=bins, max_bins=max_bins)
    plan = calibration.plan(n, m, seeded(seed))
    held = members(plan)
    assert plan.size == max(1, min(n, m) // bins)
    assert (len(plan.of_x), len(plan.of_y)) == (n, m)
    assert plan.moving_x == min(n // plan.size, max_bins)
    assert plan.moving_y == min(m // plan.size, max_bins)
    assert {len(bin_) for bin_ in held[: plan.moving]} == {plan.size}
    assert all(point < n for bin_ in held[: plan.moving_x] for point in bin_)
    assert all(point >= n for bin_ in held[plan.moving_x : plan.moving] for point in bin_)
    assert all(point < n for point in held[-2])
    assert all(point >= n for point in held[-1])
    assert sorted(itertools.chain(*held)) == list(range(n + m))
    sizes = torch.tensor([float(len(bin_)) for bin_ in held], dtype=torch.float64)
    shuffles = calibration.shuffles(plan, seeded(seed)).all()
    assert (plan.in_x(shuffles) @ sizes).unique().tolist() == [n]
    assert shuffles[0].tolist() == list(range(plan.moving))
    assert (shuffles.sort(1).values == torch.arange(plan.moving)).all()


def test_plan_cuts_in_a_random_order():
    """Which points share a bin is drawn anew: the order of the data, a time perhaps, must not
    matter."""
    plan = Permutation(bins=4)
    first, same, other = (plan.plan(40, 40, seeded(seed)) for seed in (0, 0, 1))
    assert torch.equal(first.of_x, same.of_x)
    assert not torch.equal(first.of_x, other.of_x)
    together = sum(
        int(p.of_x[0] == p.of_x[1])
        for p in (plan.plan(40, 40, seeded(seed)) for seed in range(400))
    )
    low, high = scipy.stats.binom(400, 9 / 39).ppf([1e-6, 1 - 1e-6])
    assert low <= together <= high


def test_bins_of_one_point_below_twice_the_number_of_bins():
    plan = Permutation(bins=10)
    assert plan.plan(19, 500, seeded()).size == 1
    assert plan.plan(20, 500, seeded()).size == 2


# Shuffles


def bins_of(moving_x: int, moving_y: int) -> Bins:
    return Permutation().plan(moving_x, moving_y, seeded())


@pytest.mark.parametrize(("n", "m"), [(3, 3), (2, 5), (5, 4), (1, 4)])
def test_few_labellings_are_enumerated(n: int, m: int):
    shuffles = Permutation(999).shuffles(bins_of(n, m), seeded()).all()
    labellings = {frozenset(row[:n]) for row in shuffles.tolist()}
    assert len(shuffles) == len(labellings) == math.comb(n + m, n)


@pytest.mark.parametrize(("permutations", "rows"), [(18, 19), (19, 20), (20, 20), (999, 20)])
def test_enumeration_begins_where_it_costs_no_more(permutations: int, rows: int):
    shuffles = Permutation(permutations).shuffles(bins_of(3, 3), seeded()).all()
    assert len(shuffles) == rows
    assert shuffles[0].tolist() == [0, 1, 2, 3, 4, 5]


def test_where_order_matters_nothing_is_enumerated():
    shuffles = Permutation(30).shuffles(bins_of(2, 2), seeded(), order_matters=True).all()
    assert shuffles.shape == (31, 4)
    assert shuffles[0].tolist() == [0, 1, 2, 3]


def test_random_shuffles_are_uniform_over_all_permutations():
    shuffles = Permutation(6000).shuffles(bins_of(2, 2), seeded(), order_matters=True).all()[1:]
    counts = torch.unique(shuffles, dim=0, return_counts=True)[1]
    low, high = scipy.stats.binom(6000, 1 / 24).ppf([1e-6, 1 - 1e-6])
    assert len(counts) == 24
    assert low <= int(counts.min())
    assert int(counts.max()) <= high


def test_shuffles_are_a_function_of_the_generator():
    first, same, other = (
        Permutation(99).shuffles(bins_of(20, 20), seeded(seed)).all() for seed in (0, 0, 1)
    )
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


# P-values against scipy


def exact_pvalue(kernel: Kernel, x: Tensor, y: Tensor, estimator: str) -> float:
    """By scipy, which permutes the numbers of the points."""
    K = naive_matrix(kernel, torch.cat([x, y])).tolist()
    result = scipy.stats.permutation_test(
        (np.arange(len(x)), len(x) + np.arange(len(y))),
        lambda a, b: NAIVE[estimator](K, a.tolist(), b.tolist()),
        permutation_type="independent",
        vectorized=False,
        n_resamples=np.inf,
        alternative="greater",
    )
    return float(result.pvalue)


@pytest.mark.parametrize("estimator", ["unbiased", "biased"])
@pytest.mark.parametrize(("n", "m", "shift"), [(4, 4, 0.0), (5, 3, 0.8), (4, 5, 2.0)])
def test_enumerated_pvalue_is_that_of_scipy(n: int, m: int, shift: float, estimator: str):
    x, y = points(n, columns=2), points(m, columns=2, seed=1) + shift
    outcome = run(x, y, estimator=estimator)
    assert len(outcome.values) == math.comb(n + m, n)
    assert outcome.pvalue == pytest.approx(
        exact_pvalue(make("rational quadratic"), x, y, estimator), abs=1e-12
    )


@pytest.mark.parametrize("shift", [0.0, 0.8])
def test_random_pvalue_is_that_of_scipy_up_to_chance(shift: float):
    x, y = points(5, columns=2), points(5, columns=2, seed=4) + shift
    exact = exact_pvalue(make("rational quadratic"), x, y, "unbiased")
    B = 240  # fewer than the 252 labellings
    outcomes = [run(x, y, Permutation(B), seed=seed) for seed in range(10)]
    assert {len(outcome.values) for outcome in outcomes} == {B + 1}
    above = sum(round((B + 1) * outcome.pvalue) - 1 for outcome in outcomes)
    low, high = scipy.stats.binom(10 * B, exact).ppf([1e-6, 1 - 1e-6])
    assert low <= above <= high
    assert 0.02 < exact < 0.98


# P-values and ties


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(2, 20),
    m=st.integers(2, 20),
    permutations=st.integers(19, 60),
    seed=st.integers(0, 10**6),
    levels=st.sampled_from([1, 2, 10**6]),
)
@pytest.mark.filterwarnings("ignore:with .* points to test:twosample.errors.InputWarning")
def test_pvalue_is_a_share_of_the_values(n: int, m: int, permutations: int, seed: int, levels: int):
    x, y = (
        torch.randint(levels, (count, 1), generator=seeded(seed + count)).double()
        for count in (n, m)
    )
    outcome = run(x, y, Permutation(permutations), kernel=Gaussian(levels / 3).double(), seed=seed)
    rows = min(math.comb(n + m, n), permutations + 1)
    assert len(outcome.values) == rows
    assert 0 < outcome.pvalue <= 1
    assert rows * outcome.pvalue == pytest.approx(round(rows * outcome.pvalue), abs=1e-9)
    assert outcome.pvalue >= 1 / rows - 1e-12


@every_dtype
@pytest.mark.parametrize("bins", [500, 3])
@pytest.mark.parametrize("value", [0.0, 0.1, 12345.678])
@pytest.mark.parametrize("name", KERNELS)
def test_constant_data_have_pvalue_one(name: str, value: float, bins: int, dtype: torch.dtype):
    x, y = torch.full((9, 3), value, dtype=dtype), torch.full((7, 3), value, dtype=dtype)
    for estimator in ("unbiased", "biased"):
        assert (
            run(
                x, y, Permutation(99, bins=bins), kernel=make(name, dtype), estimator=estimator
            ).pvalue
            == 1.0
        )


def count_ties(
    kernel: Kernel, levels: Tensor, n: int, m: int, *, estimator: str = "unbiased", seed: int = 0
) -> tuple[float, float]:
    """The p-value on data with few different points, and what it is when labellings with the same
    counts tie."""
    drawn = torch.randint(len(levels), (n + m,), generator=seeded(seed))
    z, plan = levels[drawn], Permutation(199)
    bins, statistic = plan.plan(n, m, seeded(seed)), MMD(estimator)
    shuffles = plan.shuffles(bins, seeded(seed + 1)).all()
    prepared = prepared_by(statistic, kernel, as_table(z[:n], z[n:]), bins, seeded(seed + 2))
    found = statistic.evaluate(prepared, shuffles)
    # For each shuffle the points of each level in X and in Y: all that a value depends on.
    K = naive_matrix(copy.deepcopy(kernel).double(), levels.double()).tolist()
    values: dict[tuple[int, ...], float] = {}
    exact = []
    for shuffle in shuffles.tolist():
        x, y = (
            drawn[torch.tensor(part)].sort().values.tolist() for part in relabelled(bins, shuffle)
        )
        key = (*x, *y)
        if key not in values:
            values[key] = NAIVE[estimator](K, x, y)
        exact.append(values[key])
    assert found.tolist() == pytest.approx(exact, abs=1e-4)
    assert (
        5 < sum(value == exact[0] for value in exact) < 150
    )  # the observed one has ties, and not only ties
    return pvalue(found, prepared.resolution), sum(value >= exact[0] for value in exact) / len(
        exact
    )


@every_dtype
@pytest.mark.parametrize("rows", [16, 512])
@pytest.mark.parametrize("kernel", [Gaussian(1.0), Linear()], ids=repr)
@pytest.mark.parametrize("estimator", ["unbiased", "biased"])
def test_duplicates_that_change_places_are_ties(
    estimator: str, kernel: Kernel, rows: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(products, "_CACHE_ROWS", rows)  # several tiles, as large samples have
    levels, kernel = (
        torch.tensor([[0.1, -0.7], [1.3, 0.4]], dtype=dtype),
        copy.deepcopy(kernel).to(dtype),
    )
    both = [count_ties(kernel, levels, 30, 25, estimator=estimator, seed=seed) for seed in range(3)]
    assert [found for found, _ in both] == [expected for _, expected in both]


def test_duplicates_are_ties_where_the_bandwidth_is_small(monkeypatch: pytest.MonkeyPatch):
    """Distances by a matrix product err by eps |u|^2 / (2 sigma^2), not by one rounding of the
    kernel value."""
    monkeypatch.setattr(products, "_CACHE_ROWS", 16)
    levels = torch.tensor([[0.1, -0.7], [1.3, 0.4]])
    both = [count_ties(Gaussian(0.1), levels, 30, 25, seed=seed) for seed in range(8)]
    assert [found for found, _ in both] == [expected for _, expected in both]


def test_duplicates_are_ties_where_kernel_values_are_large():
    """Values are differences of sums in float64, whose rounding grows with the sums and does not
    average out."""
    levels = 100 + torch.tensor([[0.1, -0.7], [1.3, 0.4]], dtype=torch.float64)
    both = [count_ties(Linear(), levels, 30, 25, seed=seed) for seed in range(8)]
    assert [found for found, _ in both] == [expected for _, expected in both]


def test_pvalue_counts_itself_and_ties():
    assert pvalue(torch.tensor([2.0, 1.0, 3.0, 2.0, 0.0], dtype=torch.float64), 0.0) == 3 / 5
    assert pvalue(torch.tensor([2.0, 1.0, 1.0, 1.0], dtype=torch.float64), 0.0) == 1 / 4
    assert pvalue(torch.tensor([2.0, 2.0 - 1e-6, 1.9], dtype=torch.float64), 1e-5) == 2 / 3
    assert pvalue(torch.tensor([2.0, 2.0 - 1e-4, 1.9], dtype=torch.float64), 1e-5) == 1 / 3


class NotANumber(Kernel):
    """What a network that overflows makes of a kernel."""

    def tile(self, a: Embedded, b: Embedded) -> Tensor:
        return a[0] @ b[0].T * math.nan


def test_a_statistic_that_is_not_a_number_never_rejects():
    """A sentence or a p-value of one, but not a p-value of zero."""
    try:
        p = run(points(8), points(8, seed=1), kernel=NotANumber()).pvalue
    except TwoSampleError:
        return
    assert p == 1.0


# Invariance


class Scaled(Kernel):
    def __init__(self, kernel: Kernel, factor: float) -> None:
        super().__init__()
        self.kernel, self.factor = kernel, factor

    def embed(self, z: Tensor) -> Embedded:
        return self.kernel.embed(z)

    def tile(self, a: Embedded, b: Embedded) -> Tensor:
        return self.factor * self.kernel.tile(a, b)


@every_dtype
@every_estimator
@pytest.mark.parametrize("factor", [1e-9, 0.1, 7.0, 1e9])
def test_a_scaled_kernel_has_the_same_pvalue(factor: float, estimator: str, dtype: torch.dtype):
    kernel, plan = make("deep", dtype), Permutation(99, bins=5)
    x, y = points(15, dtype=dtype), points(15, seed=1, dtype=dtype) + 0.2
    plain, scaled = (
        run(x, y, plan, kernel=k, estimator=estimator) for k in (kernel, Scaled(kernel, factor))
    )
    assert scaled.pvalue == plain.pvalue
    assert 0.02 < plain.pvalue < 1
    torch.testing.assert_close(scaled.values, factor * plain.values, rtol=1e-4, atol=1e-5 * factor)


def test_one_seed_one_answer():
    x, y = points(30), points(30, seed=1)
    first, same, other = (run(x, y, Permutation(99), seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first.values, same.values)
    assert not torch.equal(first.values, other.values)
    assert first.values[0].item() == pytest.approx(other.values[0].item(), rel=1e-12)


def test_the_global_generator_is_left_alone():
    before = torch.get_rng_state()
    run(points(30), points(30, seed=1), Permutation(99, bins=5))
    assert torch.equal(torch.get_rng_state(), before)


# Exactness, by complete enumeration


@pytest.mark.parametrize("data", ["continuous", "with ties"])
@pytest.mark.parametrize(("n", "m"), [(3, 3), (3, 4)])
def test_pvalues_over_all_labellings(n: int, m: int, data: str):
    """Under P = Q every labelling of the pooled points is as likely as any other."""
    pooled = points(n + m, columns=2)
    if data == "with ties":
        pooled = pooled.sign()
    pvalues = []
    for chosen in itertools.combinations(range(n + m), n):
        rest = sorted(set(range(n + m)) - set(chosen))
        pvalues.append(run(pooled[list(chosen)], pooled[rest]).pvalue)
    count = len(pvalues)
    assert count == math.comb(n + m, n)
    for a in np.arange(0, 1.001, 0.5 / count):
        assert sum(p <= a + 1e-12 for p in pvalues) <= count * a + 1e-9
    if data == "continuous":
        # Exactly uniform; at n = m the two ways to name the samples tie.
        step = 2 if n == m else 1
        expected = sorted(step * (1 + k // step) / count for k in range(count))
        assert sorted(pvalues) == pytest.approx(expected)
    else:
        assert max(pvalues) == 1


@pytest.mark.parametrize(
    ("n", "m", "bins"),
    [(8, 8, 4), (8, 6, 3), (9, 7, 3), (13, 9, 4)],
    ids=["8 + 8", "8 + 6", "9 + 7", "13 + 9"],
)
@pytest.mark.parametrize("estimator", ["unbiased", "biased"])
def test_pvalues_over_the_orbit_of_a_plan(n: int, m: int, bins: int, estimator: str):
    """The moves of bins are a group: over the orbit of a data set the p-values are uniform,
    leftovers or not."""
    calibration, pooled, kernel = (
        Permutation(999, bins=bins),
        points(n + m, columns=2),
        make("rational quadratic"),
    )
    plan = calibration.plan(n, m, seeded(5))
    held = members(plan)
    assert plan.size == 2
    pvalues = []
    for shuffle in calibration.shuffles(plan, seeded()).all().tolist():
        moved = pooled.clone()
        for place, bin_ in enumerate(shuffle):
            moved[held[place]] = pooled[held[bin_]]
        pvalues.append(
            run(
                moved[:n], moved[n:], calibration, kernel=kernel, estimator=estimator, seed=5
            ).pvalue
        )
    count = math.comb(plan.moving, plan.moving_x)
    assert len(pvalues) == count
    step = 2 if n == m else 1
    expected = sorted(step * (1 + k // step) / count for k in range(count))
    assert sorted(pvalues) == pytest.approx(expected)


def test_random_pvalues_are_valid_on_average_over_the_orbit():
    """Fewer permutations than labellings: over labellings and seeds, Pr(p <= a) is at most a."""
    pooled, count, seeds = points(7, columns=2), math.comb(7, 3), 20
    plan, pvalues = Permutation(19), []
    for chosen in itertools.combinations(range(7), 3):
        rest = sorted(set(range(7)) - set(chosen))
        pvalues += [
            run(pooled[list(chosen)], pooled[rest], plan, seed=seed).pvalue for seed in range(seeds)
        ]
    for a in (0.05, 0.1, 0.25, 0.5):
        below = sum(p <= a + 1e-12 for p in pvalues)
        assert below <= scipy.stats.binom(count * seeds, a).ppf(1 - 1e-6)


# What it says and does


class Spy(MMD):
    """Counts how often the data are looked at, and the rows that each evaluation gets."""

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "prepared", 0)
        object.__setattr__(self, "rows", [])

    def prepare(self, *args: object, **options: object) -> PreparedMMD:
        object.__setattr__(self, "prepared", self.prepared + 1)
        return super().prepare(*args, **options)

    def evaluate(self, prepared: PreparedMMD, shuffles: Tensor) -> Tensor:
        self.rows.append(len(shuffles))
        return super().evaluate(prepared, shuffles)


def test_data_are_looked_at_once_and_shuffles_come_in_batches():
    spy, calls = Spy(), []

    class Counting(nn.Module):
        def forward(self, z: Tensor) -> Tensor:
            calls.append(len(z))
            return z

    kernel = DeepKernel(Counting(), Gaussian(1.0), Gaussian(1.0))
    Permutation(999)(spy, kernel, as_table(points(20), points(15, seed=1)), seeded())
    assert spy.prepared == 1
    assert calls == [35]
    assert sum(spy.rows) == 1000
    assert 1 < len(spy.rows) <= 10


@pytest.mark.parametrize(
    ("sizes", "plan", "words"),
    [
        ((20, 15), Permutation(99), "99 permutations of 20 + 15 points"),
        ((4, 4), Permutation(99), "all 70 labellings of 4 + 4 points"),
        ((3, 3), Permutation(19), "all 20 labellings of 3 + 3 points"),
        (
            (41, 22),
            Permutation(99, bins=7),
            "99 permutations of 13 + 7 bins of 3 points, 3 points staying",
        ),
        (
            (30, 20),
            Permutation(99, max_bins=20),
            "99 permutations of 20 + 20 points, 10 points staying",
        ),
    ],
)
def test_description(sizes: tuple[int, int], plan: Permutation, words: str):
    assert run(points(sizes[0]), points(sizes[1], seed=1), plan).description == words


def test_few_labellings_are_worth_a_warning():
    with pytest.warns(
        InputWarning,
        match=r"with 2 and 4 points to test there are only 15 labellings.* below 0\.0667",
    ):
        run(points(2), points(4, seed=1))


@pytest.mark.parametrize("name", ["permutations", "bins", "max_bins"])
@pytest.mark.parametrize("value", [0, -3, 2.5, "9"])
def test_settings_must_be_whole_numbers(name: str, value: object):
    with pytest.raises(
        InputError, match=rf"{name} is {value!r}; it must be a whole number of at least 1"
    ):
        Permutation(**{name: value})


# Shuffles in parts


@pytest.mark.parametrize("rows", [2, 7, 64, 1000])
@pytest.mark.parametrize("calibration", [Permutation(99), PairSwap(99)])
def test_shuffles_are_the_same_in_parts_of_any_size_and_every_time(calibration, rows):
    generator = seeded(4)
    shuffles = calibration.shuffles(calibration.plan(30, 30, seeded()), generator)
    whole = shuffles.all()
    assert torch.equal(whole[0], torch.arange(60))
    assert len(whole) == len(shuffles) == 100
    parts = list(shuffles.parts(rows))
    assert max(map(len, parts)) <= rows
    assert torch.equal(torch.cat(parts), whole)
    assert torch.equal(generator.get_state(), seeded(4).get_state())


@pytest.mark.parametrize("memory", [2**12, 2**20, 2**30])
def test_a_part_of_the_shuffles_fits_the_budget(memory):
    moving = 500
    shuffles = Permutation(2000).shuffles(bins_of(250, 250), seeded())
    largest = max(len(part) for part in shuffles.within(memory))
    assert largest <= max(2, memory // (16 * 8 * moving)) and largest <= 256


@pytest.mark.slow
def test_memory_does_not_grow_with_the_permutations():
    """Ten times as many permutations used to take ten times the memory: 2.3 GiB for 100,000."""
    program = (
        "import sys, numpy as np, twosample\n"
        "rng = np.random.default_rng(0)\n"
        "test = twosample.TwoSampleTest(twosample.Gaussian(),\n"
        "    calibration=twosample.Permutation(int(sys.argv[1])), memory=2**24)\n"
        "test.run(rng.normal(size=(1000, 2)), rng.normal(size=(1000, 2)), rng=0)\n"
        "lines = open('/proc/self/status').read().splitlines()\n"
        "print(next(line.split()[1] for line in lines if line.startswith('VmHWM')))\n"
    )

    def peak(permutations: int) -> float:
        command = [sys.executable, "-c", program, str(permutations)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
        return int(done.stdout) / 1024  # MiB

    # 5000 permutations of 2000 points are 80 MB as whole numbers alone, and their keys as much.
    assert peak(5000) - peak(19) < 60
