"""Rows that depend on each other: which of them move together, and that p-values stay exact."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from typer.testing import CliRunner

import twosample
from twosample import (
    Blocks,
    Gaussian,
    Groups,
    HotellingT2,
    MeanEmbedding,
    Pairs,
    Permutation,
    Strata,
    TwoSampleTest,
    Units,
    testing,
)
from twosample._calibration import _cut_units
from twosample._cli.main import build
from twosample._design import Look, memory_of, signs_of_dependence
from twosample.errors import IncompatibleParts, InputError, InputWarning

RNG = np.random.default_rng(7)


def gaussian_matrix(z: np.ndarray) -> np.ndarray:
    squares = ((z[:, None] - z[None]) ** 2).sum(2)
    return np.exp(-squares / 2)


def naive_mmd(K: np.ndarray, in_x: np.ndarray) -> float:
    """The unbiased MMD^2, by the definition."""
    x = np.flatnonzero(in_x)
    y = np.flatnonzero(~in_x)
    xx = np.mean([K[i, j] for i in x for j in x if i != j])
    yy = np.mean([K[i, j] for i in y for j in y if i != j])
    return xx + yy - 2 * K[np.ix_(x, y)].mean()


def scaled(result) -> np.ndarray:
    return result.samples.pooled().double().numpy()


# Exact, by going through all labellings


def test_groups_of_unequal_sizes_give_the_pvalue_of_all_labellings():
    of_x = np.array([5, 5, 5, 9, 2, 2, 2, 2])
    of_y = np.array([1, 1, 7, 7, 7, 8])
    X = RNG.normal(size=(8, 2))
    Y = RNG.normal(0.7, 1, size=(6, 2))
    test = TwoSampleTest(Gaussian(1.0), design=Groups((of_x, of_y)))
    with pytest.warns(InputWarning, match=r"6 groups: the smallest possible p is 0\.05"):
        result = test.run(X, Y, rng=0)
    codes = np.concatenate([of_x, of_y])
    K = gaussian_matrix(scaled(result))
    names = [5, 9, 2, 1, 7, 8]  # those of X first
    values = [naive_mmd(K, np.isin(codes, chosen)) for chosen in itertools.combinations(names, 3)]
    assert len(values) == 20
    assert result.statistic == pytest.approx(values[0], abs=1e-6)
    assert sorted([result.statistic, *result.null_distribution]) == pytest.approx(
        sorted(values), abs=1e-6
    )
    assert result.pvalue == np.mean(np.array(values) >= values[0] - 1e-9)
    assert result.calibration.startswith("all 20 labellings of 3 + 3 groups")


def contrast(in_x: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Weights of rows: within each cell X against Y, with the weight n_c m_c / (n_c + m_c)."""
    weights = np.zeros(len(in_x))
    for cell in np.unique(cells):
        here = cells == cell
        n, m = (here & in_x).sum(), (here & ~in_x).sum()
        if n and m:
            total = n * m / (n + m)
            weights[here & in_x] = total / n
            weights[here & ~in_x] = -total / m
    return weights / weights[in_x].sum()


def test_strata_give_the_pvalue_of_all_labellings_within_them():
    of_x = np.array(["a", "a", "a", "b", "c"])
    of_y = np.array(["a", "b", "b", "b", "d"])
    X = RNG.normal(size=(5, 2))
    Y = RNG.normal(size=(5, 2))
    test = TwoSampleTest(Gaussian(1.0), design=Strata((of_x, of_y)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = test.run(X, Y, rng=0)
    cells = np.concatenate([of_x, of_y])
    K = gaussian_matrix(scaled(result))
    in_a, in_b = np.flatnonzero(cells == "a"), np.flatnonzero(cells == "b")
    values = []
    for a, b in itertools.product(itertools.combinations(in_a, 3), itertools.combinations(in_b, 1)):
        in_x = np.isin(np.arange(10), [*a, *b, 4])
        weights = contrast(in_x, cells)
        values.append(weights @ K @ weights)
    assert len(values) == 16
    # The values differ by a constant from those of the unbiased estimate, which is centred.
    values = np.array(values) - np.mean(values)
    assert sorted([result.statistic, *result.null_distribution]) == pytest.approx(
        sorted(values), abs=1e-6
    )
    assert result.pvalue == np.mean(values >= values[0] - 1e-9)
    assert "2 rows staying" in result.calibration


def test_pairs_give_the_pvalue_of_all_swaps():
    base = RNG.normal(size=(6, 2))
    X = base + 0.1 * RNG.normal(size=(6, 2))
    Y = base + 0.1 * RNG.normal(size=(6, 2)) + 0.1
    order = RNG.permutation(6)
    test = TwoSampleTest(Gaussian(1.0), design=Pairs((np.arange(6), order)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = test.run(X, Y[order], rng=0)
    K = gaussian_matrix(scaled(result))
    partner = 6 + np.argsort(order)
    values = []
    for swaps in itertools.product([False, True], repeat=6):
        into_x = [partner[i] if swapped else i for i, swapped in enumerate(swaps)]
        weights = np.where(np.isin(np.arange(12), into_x), 1 / 6, -1 / 6)
        values.append(weights @ K @ weights)
    values = np.array(values) - np.mean(values)
    assert result.statistic == pytest.approx(values[0], abs=1e-6)
    assert result.pvalue == np.mean(values >= values[0] - 1e-9)
    assert "6 pairs: the smallest possible p is 0.016" in result.calibration


def test_hotelling_of_pairs_is_the_paired_t2():
    X = RNG.normal(size=(30, 3))
    Y = X + RNG.normal(0.2, 0.3, size=(30, 3))
    pairs = (np.arange(30), np.arange(30))
    test = TwoSampleTest(MeanEmbedding(torch.eye(3)), statistic=HotellingT2(), design=Pairs(pairs))
    result = test.run(X, Y, rng=0)
    features = result.fitted.representation(result.samples.pooled()).double()
    z = features[:30] - features[30:]
    covariance = torch.from_numpy(np.cov(z.numpy().T))
    t2 = 30 * z.mean(0) @ torch.linalg.solve(covariance, z.mean(0))
    assert result.statistic == pytest.approx(float(t2), rel=1e-6)


def test_eight_subjects_have_a_smallest_pvalue():
    groups = (np.repeat(np.arange(4), 5), np.repeat(np.arange(4, 8), 5))
    X, Y = RNG.normal(size=(20, 2)), RNG.normal(5, 1, size=(20, 2))
    with pytest.warns(InputWarning, match=r"8 groups: the smallest possible p is 0\.014"):
        result = twosample.two_sample_test(X, Y, "mmd-median", groups=groups, rng=0)
    assert result.pvalue == 1 / 70 * 2 or result.pvalue == 1 / 70


METHODS = ["spectral", "mmd-median", "mmd-fuse", "mmd-agg"]
TRAINED = ["mmd-d", "mmd-o", "mmd-mkl", "mmd-compressed", "c2st-s", "c2st-l", "me", "scf"]


def table(subjects: int, rows: int, seed: int, first: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(subjects), rows)
    means = rng.normal(size=(subjects, 2))[who]
    values = means + rng.normal(size=(len(who), 2))
    return pd.DataFrame(
        {"who": [f"s{each + first}" for each in who], "a": values[:, 0], "b": values[:, 1]}
    ).assign(site=["north" if each % 2 else "south" for each in who])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"groups": "who"}, "12 + 10 groups"),
        ({"groups": "who", "strata": "site"}, "12 + 10 groups within 2 strata"),
        ({"pairs": "who"}, "10 pairs"),
        ({"strata": "site"}, "48 + 40 rows within 2 strata"),
        ({"blocks": "6+0"}, "8 + 6 blocks"),
        (
            {"blocks": "5+1", "strata": "site"},
            "8 + 6 blocks within 2 strata, 1 row left out after each",
        ),
    ],
)
def test_every_design_with_methods_that_test_all_rows(method, options, words):
    first = 100 if "groups" in options else 0
    X, Y = table(12, 4, 0), table(10, 4, 1, first)
    drop = [name for name in ("who", "site") if name not in options.values()]
    columns = twosample.Columns(drop=drop)
    result = twosample.two_sample_test(X, Y, method, columns=columns, rng=0, **options)
    assert 0 < result.pvalue <= 1
    assert result.design == words
    assert words in result.calibration
    assert [column.name for column in result.fitted.schema.columns] == ["a", "b"]
    assert result.effect.power is None


@pytest.mark.parametrize("method", TRAINED)
def test_methods_that_train_keep_groups_whole(method):
    X, Y = table(20, 5, 0).drop(columns="site"), table(16, 5, 1, 100).drop(columns="site")
    make = getattr(twosample, method.replace("-", "_"))
    test = make(permutations=19) if method == "mmd-mkl" else make(permutations=19, steps=2)
    result = twosample.two_sample_test(X, Y, test, groups="who", rng=0)
    assert result.units == (10, 8)
    tested_x, tested_y = result.samples.rows
    for sample, tested in ((X, tested_x), (Y, tested_y)):
        names = sample["who"].to_numpy()
        held = set(names[tested.numpy()])
        others = np.delete(names, tested.numpy())
        assert not held & set(others)
        assert result.sizes[0] == 50


def test_bins_of_many_units_are_whole_and_within_cells():
    generator = torch.Generator().manual_seed(0)
    of_x = torch.arange(900) // 3
    of_y = torch.arange(1200) // 2
    units = Units.of((of_x, of_y), (of_x % 7, of_y % 7), unit="group", cell="stratum")
    bins = _cut_units(units, 100, generator)
    assert bins.moving <= 100 and bins.cells is not None
    cell_of_row = torch.cat([units.cells[units.of_x], units.cells[units.of_y]])
    for number in range(bins.count):
        members = bins.of_all == number
        assert len(torch.unique(cell_of_row[members])) == 1
        assert len({bool(row >= 900) for row in torch.nonzero(members)[:, 0]}) == 1
    of_units = torch.cat([units.of_x, units.of_y])
    for unit in range(len(units.cells)):
        assert len(torch.unique(bins.of_all[of_units == unit])) == 1


def test_many_pairs_are_tied_together():
    pairs = torch.arange(5000)
    units = Units.of((pairs, pairs), (pairs, pairs), unit="side", cell="pair")
    bins = _cut_units(units, 200, torch.Generator().manual_seed(0))
    assert bins.moving <= 200 and bins.moving_x == bins.moving_y
    shuffles = Permutation(5).shuffles(bins, torch.Generator().manual_seed(1)).all()
    in_x = bins.in_x(shuffles)[:, bins.of_all] > 0
    # Of every pair one side is in X, whatever has moved.
    assert bool((in_x[:, :5000] ^ in_x[:, 5000:]).all())
    assert not bool((in_x[1:, :5000] == in_x[:1, :5000]).all())


# The laws


@st.composite
def drawn_units(draw):
    n, m = draw(st.integers(4, 14)), draw(st.integers(4, 14))
    cells = draw(st.integers(1, 3))
    groups = draw(st.lists(st.integers(0, 5), min_size=n + m, max_size=n + m))
    codes = torch.tensor(groups)
    # A group lies in one cell.
    return Units.of((codes[:n], codes[n:]), (codes[:n] % cells, codes[n:] % cells))


@settings(max_examples=60, deadline=None)
@given(drawn_units(), st.integers(0, 2**31))
def test_moves_are_a_group_and_labellings_are_counted(units, seed):
    of_x, of_y = units.in_cells()
    if not bool(((of_x > 0) & (of_y > 0)).any()):
        with pytest.raises(InputError, match="nothing can change places"):
            units.check()
        return
    generator = torch.Generator().manual_seed(seed)
    bins = _cut_units(units, 1000, generator)
    listed = Permutation(100_000).shuffles(bins, generator).all()
    labellings = {tuple(row) for row in bins.in_x(listed).tolist()}
    assert len(labellings) == len(listed) == units.labellings()
    # Every labelling is again one of them after any move, so they are an orbit of a group.
    drawn = Permutation(10).shuffles(bins, generator, order_matters=True).all()
    for move in drawn:
        moved = bins.in_x(listed)
        moved[:, : bins.moving] = moved[:, : bins.moving][:, move.argsort()]
        assert {tuple(row) for row in moved.tolist()} == labellings


@settings(max_examples=60, deadline=None)
@given(drawn_units(), st.floats(0.2, 0.8), st.integers(0, 2**31))
def test_a_split_is_between_units(units, fraction, seed):
    try:
        of_x, of_y = units.split(fraction, torch.Generator().manual_seed(seed), None)
    except InputError:
        return
    for of_rows, (trained, tested) in ((units.of_x, of_x), (units.of_y, of_y)):
        assert not set(of_rows[trained].tolist()) & set(of_rows[tested].tolist())
        assert sorted([*trained.tolist(), *tested.tolist()]) == list(range(len(of_rows)))
    assert units.take(of_x[1], of_y[1]).labellings() > 1


def test_a_split_balances_strata():
    strata = torch.arange(400) % 4
    units = Units.of((torch.arange(400), torch.arange(400)), (strata, strata))
    of_x, _ = units.split(0.25, torch.Generator().manual_seed(0), None)
    counts = torch.bincount(strata[of_x[0]])
    assert counts.tolist() == [25, 25, 25, 25]


@dataclasses.dataclass(frozen=True)
class ByInitial(twosample.Design):
    """Somebody's own: who has the same initial moves together."""

    column: str

    @property
    def keys(self):
        return (self.column,)

    def units(self, sizes, codes):
        return Units.of(codes[0], unit="initial")


def test_a_design_of_somebodys_own_works_as_ours_do():
    X, Y = table(6, 4, 0), table(7, 4, 1, 10)
    testing.check_design(ByInitial("who"), X, Y)
    test = dataclasses.replace(twosample.mmd_median(), design=ByInitial("who"))
    result = test.run(X, Y, rng=0, columns=twosample.Columns(drop=["site"]))
    assert result.design == "6 + 7 initials"


def test_blocks_are_no_exact_design():
    X, Y = table(6, 4, 0)[["a"]], table(7, 4, 1)[["a"]]
    with pytest.raises(testing.BrokenContract, match="the units and cells are the same"):
        testing.check_design(Blocks(5), X, Y)


# What is refused


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"groups": "who"}, InputError, r"10 groups \(column 'who'\) of X are in Y, too"),
        ({"groups": "nobody"}, InputError, "X has no column 'nobody'"),
        ({"groups": ([1, 2], [3])}, InputError, r"the values for X have the shape \(2,\)"),
        ({"groups": 7}, InputError, "give the name of a column of both tables"),
        ({"pairs": "who", "strata": "site"}, IncompatibleParts, "do not go together"),
        ({"blocks": 5, "groups": "who"}, IncompatibleParts, "do not go together"),
        ({"blocks": "long"}, InputError, "blocks is 'long'"),
        ({"blocks": 0}, InputError, "length of blocks"),
        ({"strata": "name"}, InputError, "no stratum has rows of both X and Y"),
    ],
)
def test_what_cannot_be_is_refused(options, error, words):
    X = table(10, 4, 0).assign(name="x")
    Y = table(12, 4, 1).assign(name="y")
    with pytest.raises(error, match=words):
        twosample.two_sample_test(X, Y, "mmd-median", rng=0, **options)


def test_a_group_lies_in_one_stratum():
    X, Y = table(6, 4, 0), table(6, 4, 1, 10)
    X.loc[0, "site"] = "north"
    with pytest.raises(InputError, match="1 group of X has rows in several"):
        twosample.two_sample_test(X, Y, "mmd-median", groups="who", strata="site")


def test_missing_groups_are_refused():
    X, Y = table(6, 4, 0), table(6, 4, 1, 10)
    X.loc[3, "who"] = None
    with pytest.raises(InputError, match=r"column 'who' has 1 missing values in X"):
        twosample.two_sample_test(X, Y, "mmd-median", groups="who")


@pytest.mark.parametrize(
    "test",
    [
        twosample.mmd_block(),
        TwoSampleTest(Gaussian(), calibration=twosample.SpectralLimit()),
        TwoSampleTest(Gaussian(), statistic=twosample.MMD("paired")),
        twosample.c2st_s(asymptotic=True),
    ],
    ids=["swaps", "limit", "paired", "binomial"],
)
def test_laws_of_independent_rows_are_refused(test):
    with pytest.raises(IncompatibleParts, match=r"Use (Permutation|MMD)\("):
        twosample.two_sample_test(np.zeros((9, 1)), np.zeros((9, 1)), test, groups="0")


def test_too_few_groups_to_split():
    X, Y = table(1, 9, 0), table(5, 9, 1, 10)
    with pytest.raises(InputError, match="X has 1 group, too few to train on some"):
        twosample.two_sample_test(X, Y, "mmd-d", groups="who")


# Series


def autoregression(rows: int, phi: float, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=rows + 100)
    series = np.zeros(rows + 100)
    for t in range(1, len(series)):
        series[t] = phi * series[t - 1] + noise[t]
    return series[100:, None]


def test_longer_memory_asks_for_longer_gaps_and_blocks():
    found = []
    for phi in (0.0, 0.5, 0.8):
        each = [memory_of([autoregression(4000, phi, seed)]) for seed in range(5)]
        found.append(float(np.median(each)))
    # Where phi^lag goes below 2 sqrt(log10(n) / n), which is 0.06.
    assert found[0] == 0
    assert found[1] == pytest.approx(4, abs=1)
    assert found[2] == pytest.approx(12.6, abs=4)
    assert Blocks().resolved(4, 4000) == Blocks(72, gap=8)
    with pytest.warns(InputWarning, match="rows 20 apart still resemble each other"):
        assert Blocks().resolved(20, 300) == Blocks(15, gap=15)
    # Few rows: ten blocks for each sample, and gaps that are no longer than they.
    assert Blocks().resolved(12, 300) == Blocks(15, gap=15)
    assert Blocks(40).resolved(12, 300) == Blocks(40, gap=24)
    assert Blocks(gap=3).resolved(2, 300) == Blocks(27, gap=3)
    assert Blocks().resolved(0, 15) == Blocks(1, gap=0)


def test_blocks_are_contiguous_and_alike_with_gaps_between_them():
    design = Blocks(10, gap=3)
    units = design.units((95, 43), ())
    assert units.counts == (7, 3) and units.describe() == "7 + 3 blocks, 3 rows left out after each"
    assert set(units.rows.tolist()) == {10}
    rows = units.used[0]
    assert bool((units.of_x.diff() >= 0).all())
    first, last = rows.view(7, 10)[:, 0], rows.view(7, 10)[:, -1]
    assert bool((last - first == 9).all())
    assert bool((first[1:] - last[:-1] > 3).all()) and int(95 - last[-1]) > 3


def test_a_series_that_is_shorter_than_its_gap_is_refused():
    with pytest.raises(InputError, match="X has 5 rows"):
        Blocks(10, gap=5).units((5, 43), ())


def test_rows_in_gaps_are_neither_trained_on_nor_tested():
    series = autoregression(400, 0.5, 0)
    X, Y = series[:200], series[200:]
    everywhere = np.zeros(200, dtype=bool)
    everywhere[[*range(10, 15), *range(25, 30)]] = True  # between blocks of 10 + 5
    changed = X.copy()
    changed[everywhere] = changed[everywhere][::-1]
    for method in ("mmd-median", twosample.mmd_o(steps=2)):
        one, other = (
            twosample.two_sample_test(each, Y, method, blocks="10+5", permutations=49, rng=0)
            for each in (X, changed)
        )
        assert one.pvalue == other.pvalue and one.statistic == other.statistic
        assert not set(np.flatnonzero(everywhere)) & set(one.samples.rows[0].tolist())


def moving_average(rng, rows=330):
    """Rows that are more than 5 apart are independent."""
    noise = rng.normal(size=(rows + 5, 2))
    series = sum(noise[lag : lag + rows] for lag in range(6))
    return series[: rows // 2], series[rows // 2 :], {"blocks": "10+5"}


def test_a_gap_as_long_as_the_memory_makes_blocks_exact():
    runs = 40
    assert rejections(runs, moving_average) <= binom(runs, 0.05).isf(1e-4)


def test_samples_that_take_turns_quickly_swap_within_blocks():
    time_x, time_y = np.arange(0, 200, 2), np.arange(1, 200, 2)
    codes = (torch.from_numpy(time_x), torch.from_numpy(time_y))
    design = Blocks(10, time=(time_x, time_y), gap=0)
    units = design.units((100, 100), [codes])
    assert units.describe() == "10 blocks"
    # And where they take turns slowly, stretches of either sample change places.
    time_x = np.concatenate([np.arange(0, 50), np.arange(100, 150)])
    time_y = np.concatenate([np.arange(50, 100), np.arange(150, 200)])
    codes = (torch.from_numpy(time_x), torch.from_numpy(time_y))
    assert design.units((100, 100), [codes]).describe() == "10 + 10 blocks"


def test_the_length_is_found_in_the_data():
    series = autoregression(600, 0.8, 0)
    result = twosample.two_sample_test(
        series[:300], series[300:], "mmd-median", blocks="auto", rng=0
    )
    assert result.design == "10 + 10 blocks, 10 rows left out after each"
    assert result.sizes == (200, 200)


# Levels, by exact binomial limits


def rejections(runs: int, draw, **options) -> int:
    count = 0
    for seed in range(runs):
        X, Y, keys = draw(np.random.default_rng(seed))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            result = twosample.two_sample_test(
                X, Y, "mmd-median", permutations=99, rng=seed, **keys, **options
            )
        count += result.reject(0.05)
    return count


def subjects(rng):
    """Subjects with 1 to 12 rows, half of whose variance is theirs."""

    def draw(first):
        who = np.repeat(np.arange(12) + first, rng.integers(1, 13, size=12))
        own = dict(zip(np.unique(who), rng.normal(size=(12, 2)), strict=True))
        return np.array([own[each] for each in who]) + rng.normal(size=(len(who), 2)), who

    (X, of_x), (Y, of_y) = draw(0), draw(100)
    return X, Y, {"groups": (of_x, of_y)}


def strata(rng):
    """Two strata far apart, three quarters of X in one and of Y in the other."""
    of_x, of_y = rng.random(60) < 0.75, rng.random(50) < 0.25
    X = rng.normal(size=(60, 2)) + 3 * of_x[:, None]
    Y = rng.normal(size=(50, 2)) + 3 * of_y[:, None]
    return X, Y, {"strata": (of_x, of_y)}


def before_and_after(rng):
    base = 3 * rng.normal(size=(30, 2))
    pairs = (np.arange(30), np.arange(30))
    return (
        base + rng.normal(size=(30, 2)),
        base + rng.normal(size=(30, 2)),
        {"pairs": pairs},
    )


@pytest.mark.parametrize("draw", [subjects, strata, before_and_after])
def test_the_level_is_kept(draw):
    runs = 40
    assert rejections(runs, draw) <= binom(runs, 0.05).isf(1e-4)


def test_without_the_design_the_level_is_lost():
    def rows_only(draw):
        return lambda rng: (*draw(rng)[:2], {})

    assert rejections(30, rows_only(subjects)) >= 9
    assert rejections(10, rows_only(strata)) == 10


def test_a_pair_finds_what_samples_do_not():
    def shifted(rng):
        X, Y, keys = before_and_after(rng)
        return X, Y + 1.0, keys

    runs = 20
    paired = rejections(runs, shifted)
    unpaired = rejections(runs, lambda rng: (*shifted(rng)[:2], {}))
    assert paired >= 16 and unpaired <= 8


# Everything around a test


def test_a_fitted_test_remembers_columns_and_asks_for_arrays(tmp_path):
    X, Y = table(8, 4, 0), table(8, 4, 1, 50)
    test = twosample.mmd_o(permutations=19, steps=2)
    with_column = dataclasses.replace(test, design=Groups("who", strata="site"))
    fitted = with_column.fit(X, Y, rng=0)
    fitted.save(tmp_path / "test.safetensors")
    loaded = twosample.load(tmp_path / "test.safetensors")
    assert loaded.spec.design == Groups("who", strata="site")
    new = table(9, 4, 2, 100), table(9, 4, 3, 200)
    assert loaded.test(*new, rng=1).design == "9 + 9 groups within 2 strata"
    assert loaded.test(*new, rng=1).pvalue == fitted.test(*new, rng=1).pvalue

    codes = (X.pop("who"), Y.pop("who"))
    columns = twosample.Columns(drop=["site"])
    with_arrays = dataclasses.replace(test, design=Groups(codes))
    fitted = with_arrays.fit(X, Y, rng=0, columns=columns)
    fitted.save(tmp_path / "other.safetensors")
    loaded = twosample.load(tmp_path / "other.safetensors")
    codes = (new[0].pop("who"), new[1].pop("who"))
    with pytest.raises(InputError, match="other rows need their own"):
        loaded.test(*new, rng=1)
    assert loaded.test(*new, rng=1, groups=codes).design == "9 + 9 groups"


def test_a_stream_has_designs():
    X, Y = table(12, 4, 0).drop(columns="site"), table(10, 4, 1, 50).drop(columns="site")
    pieces = [
        twosample.Stream.batches([sample[:13], sample[13:30], sample[30:]]) for sample in (X, Y)
    ]
    test = twosample.mmd_o(permutations=49, steps=2)
    there = twosample.two_sample_test(*pieces, test, groups="who", rng=0)
    here = twosample.two_sample_test(X, Y, test, groups="who", rng=0)
    assert there.units == here.units == (6, 5)
    assert there.pvalue == here.pvalue
    for blocks in ("auto", 5):
        with pytest.raises(InputError, match="which a stream does not keep"):
            twosample.two_sample_test(*pieces, test, blocks=blocks, rng=0)


@pytest.mark.parametrize("test", [twosample.mmd_median(), twosample.mmd_o(steps=2)])
def test_a_stream_leaves_out_the_rows_between_blocks(test):
    X, Y = autoregression(90, 0.5, 0), autoregression(80, 0.5, 1)
    pieces = [twosample.Stream.batches([each[:13], each[13:60], each[60:]]) for each in (X, Y)]
    there = twosample.two_sample_test(*pieces, test, blocks="5+3", permutations=49, rng=0)
    here = twosample.two_sample_test(X, Y, test, blocks="5+3", permutations=49, rng=0)
    assert there.sizes == here.sizes and there.units == here.units
    assert there.pvalue == here.pvalue


def test_a_stream_of_groups_may_have_more_rows_to_train_on_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr("twosample._data.survey.MAX_TRAINING_ROWS", 10)
    X, Y = table(12, 4, 0).drop(columns="site"), table(10, 4, 1, 50).drop(columns="site")
    pieces = [twosample.Stream.batches([each[:13], each[13:]]) for each in (X, Y)]
    test = twosample.mmd_o(permutations=19, steps=1)
    result = twosample.two_sample_test(*pieces, test, groups="who", rng=0)
    # What is left of groups that were trained on is not tested.
    assert result.train_sizes == (10, 10) and result.units == (6, 5) and result.sizes == (24, 20)


def test_an_iterator_has_no_columns_beside_what_is_tested():
    X, Y = table(6, 4, 0), table(6, 4, 1, 50)
    with pytest.raises(InputError, match="can be read only once"):
        twosample.two_sample_test(iter([X]), iter([Y]), "mmd-median", groups="who")


def test_rows_that_are_left_out_leave_their_groups():
    X, Y = table(6, 4, 0), table(6, 4, 1, 50)
    X.loc[:3, "a"] = np.nan
    columns = twosample.Columns(drop=["site"], missing="drop")
    result = twosample.two_sample_test(X, Y, "mmd-median", columns=columns, groups="who", rng=0)
    assert result.units == (5, 6) and result.sizes == (20, 24)


def test_compare_takes_a_column_or_arrays():
    reference = table(8, 4, 0)
    samples = {"a": table(8, 4, 1, 50), "b": table(8, 4, 2, 100)}
    by_column = twosample.compare(reference, samples, "mmd-median", groups="who", rng=0)
    codes = (reference["who"], {name: each["who"] for name, each in samples.items()})
    columns = twosample.Columns(drop=["who"])
    by_array = twosample.compare(
        reference, samples, "mmd-median", groups=codes, columns=columns, rng=0
    )
    for name in samples:
        assert by_column[name].units == (8, 8)
        assert by_column[name].pvalue == by_array[name].pvalue


def test_explaining_shuffles_what_the_test_shuffled():
    X, Y = table(12, 6, 0).drop(columns="site"), table(12, 6, 1, 50).drop(columns="site")
    Y["a"] += 3
    for method in ("spectral", "mmd-median"):
        result = twosample.two_sample_test(X, Y, method, groups="who", rng=0)
        explanation = result.explain(rng=0)
        assert "12 + 12 groups" in explanation.calibration
        first = explanation.columns[0]
        assert first.name == "a" and first.adjusted <= 0.05


def test_the_default_trains_only_where_there_are_enough_units():
    X, Y = table(10, 60, 0).drop(columns="site"), table(10, 60, 1, 50).drop(columns="site")
    result = twosample.two_sample_test(X, Y, groups="who", rng=0)
    assert result.chosen is None and result.method == "spectral"


def test_one_labelling_is_not_many():
    assert Units.of((torch.arange(3), torch.arange(4))).labellings() == math.comb(7, 3)


# Power in units


def grown(subjects: int, seed: int) -> tuple[np.ndarray, np.ndarray, tuple]:
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(subjects), 8)
    X, Y = (rng.normal(size=(subjects, 2))[who] + rng.normal(size=(len(who), 2)) for _ in "XY")
    return X, Y + 0.9, (who, who + 1000)


@pytest.mark.parametrize("method", ["mmd-median", pytest.param("spectral", marks=pytest.mark.slow)])
def test_power_is_predicted_in_units(method):
    def tested(subjects, seed):
        X, Y, groups = grown(subjects, seed)
        return twosample.two_sample_test(X, Y, method, groups=groups, permutations=99, rng=seed)

    plans = [tested(20, seed).predict_power() for seed in range(12)]
    assert plans[0].sizes == (20, 20) and plans[0].unit == "groups"
    assert "20 + 20 groups" in str(plans[0])
    found = np.mean([tested(12, 100 + seed).reject(0.05) for seed in range(25)])
    # Each prediction is as uncertain as one test, so they are compared on average.
    assert np.mean([plan.power(12) for plan in plans]) == pytest.approx(found, abs=0.3)


def sites(rng, rows: int) -> tuple[np.ndarray, np.ndarray, dict]:
    X, Y, keys = strata(rng)
    return X, Y + 0.6, keys


def treated(rng, pairs: int) -> tuple[np.ndarray, np.ndarray, dict]:
    base = 3 * rng.normal(size=(pairs, 2))
    number = np.arange(pairs)
    X, Y = base + rng.normal(size=(2, pairs, 2))
    return X, Y + 0.6, {"pairs": (number, number)}


def planned(draw, size: int, seed: int, method: str = "mmd-median"):
    X, Y, keys = draw(np.random.default_rng([seed, size]), size)
    test = twosample.two_sample_test(X, Y, method, permutations=99, rng=seed, **keys)
    return test, test.predict_power()


def test_power_is_predicted_in_pairs():
    found = [planned(treated, 30, seed) for seed in range(15)]
    _, plan = found[0]
    assert plan.sizes == (30, 30) and plan.unit == "pairs"
    assert " on 30 pairs at " in str(plan)
    assert plan.power(15) < plan.power(30) < plan.power(60)
    with pytest.raises(InputError, match="X has as many as Y, not 20 and 30"):
        plan.power(20, 30)
    # Each prediction is as uncertain as one test, so they are compared on average.
    share = np.mean([test.reject(0.05) for test, _ in found])
    assert np.mean([plan.power(30) for _, plan in found]) == pytest.approx(share, abs=0.25)


@pytest.mark.parametrize("method", ["mmd-median", "spectral"])
def test_power_is_predicted_within_strata(method):
    _, plan = planned(sites, 60, 0, method)
    of_x, _ = sites(np.random.default_rng([0, 60]), 60)[2]["strata"]
    assert plan.sizes == (60, 50) and plan.unit == "rows"
    assert [x for x, _ in plan.cells] == [60 - of_x.sum(), of_x.sum()]
    assert plan.in_strata(60, 50) == list(plan.cells)
    assert plan.power(30, 25) < plan.power(60, 50) < plan.power(120, 100)
    assert "with strata as they are here" in str(plan)


def test_a_difference_that_is_planted_is_added_to_what_chance_does():
    test, _ = planned(treated, 12, 0)
    statistic = test.fitted.spec.statistic
    prepared = test.calibrated.prepared
    shuffles = test.calibrated.shuffles.all()
    planted = statistic.planted(prepared, shuffles)
    # Without any, the values are those of the test, on another scale.
    values = statistic.evaluate(prepared, shuffles)
    order = values.argsort()
    assert bool((planted.values(0.0)[order].diff() >= -1e-9).all())
    # With the whole difference it is the square of the sum of both.
    in_x = prepared.bins.in_x(shuffles)
    both = prepared.bins.contrast(in_x) + prepared.bins.contrast(in_x[:1])
    K = prepared.sums.sums + torch.diag(prepared.own)
    square = ((both @ K) * both).sum(1)
    value = prepared.within_cells(in_x)
    cross = prepared.between(in_x, in_x[0])
    torch.testing.assert_close(square, value + 2 * cross + value[0])


# Weights


def shifted_ages(rng, rows: int) -> tuple[np.ndarray, np.ndarray, tuple]:
    """Y has more of the old, by a ratio that is known; at each age nothing differs."""
    age_x, age_y = rng.random(rows), np.sqrt(rng.random(rows))  # densities 1 and 2 a
    X, Y = (np.column_stack([age, age + rng.normal(size=rows)]) for age in (age_x, age_y))
    return X, Y, (age_x, np.ones(rows))  # 2 a over its largest value: a chance


def test_a_known_shift_does_not_count():
    runs = 30
    plain = weighted = 0
    for seed in range(runs):
        X, Y, weights = shifted_ages(np.random.default_rng(seed), 120)
        test = twosample.mmd_median(permutations=99)
        plain += twosample.two_sample_test(X, Y, test, rng=seed).reject(0.05)
        weighted += twosample.two_sample_test(X, Y, test, weights=weights, rng=seed).reject(0.05)
    assert plain > runs / 2
    assert weighted <= binom(runs, 0.05).isf(1e-4)


def test_weights_keep_rows_by_chance_with_all_that_is_known_of_them():
    X, Y = table(30, 10, 0).drop(columns="site"), table(30, 10, 1, 50).drop(columns="site")
    groups = (X.pop("who"), Y.pop("who"))
    X["w"], Y["w"] = 0.5, 2.0
    result = twosample.two_sample_test(X, Y, "mmd-median", weights="w", groups=groups, rng=0)
    assert result.sizes[1] == 300 and 110 <= result.sizes[0] <= 190
    assert result.design.startswith("30 + 30 groups; weights kept ")
    assert [column.name for column in result.fitted.schema.columns] == ["a", "b"]
    again = twosample.two_sample_test(X, Y, "mmd-median", weights="w", groups=groups, rng=0)
    assert result.pvalue == again.pvalue
    rows = result.samples.rows[0]
    assert len(rows) == result.sizes[0] and int(rows.max()) > len(rows)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (([1.0, -1.0] * 10, [1.0] * 20), "the weights of X are not all numbers from 0 on"),
        (([0.0] * 20, [1.0] * 20), "all weights of X are 0"),
        (([1.0] * 3, [1.0] * 20), "has 20 rows"),
    ],
)
def test_wrong_weights_are_refused(weights, words):
    with pytest.raises(InputError, match=words):
        twosample.two_sample_test(np.ones((20, 2)), np.ones((20, 2)), weights=weights)


def weighty(subjects: int, seed: int, first: int = 0) -> pd.DataFrame:
    sample = table(subjects, 4, seed, first).drop(columns="site")
    return sample.assign(w=np.random.default_rng(seed).random(len(sample)))


@pytest.mark.parametrize("by_column", [True, False])
def test_a_stream_keeps_the_rows_that_are_kept_in_memory(by_column):
    X, Y = weighty(12, 0), weighty(10, 1, 50)
    weights = "w" if by_column else (X.pop("w"), Y.pop("w"))
    test = twosample.mmd_o(permutations=19, steps=1)
    options = {"weights": weights, "groups": "who", "rng": 0}
    here = twosample.two_sample_test(X, Y, test, **options)
    pieces = [twosample.Stream.batches([each[:13], each[13:30], each[30:]]) for each in (X, Y)]
    there = twosample.two_sample_test(*pieces, test, **options)
    assert there.design == here.design and there.sizes == here.sizes
    assert there.pvalue == here.pvalue
    with pytest.raises(InputError, match="X is an iterator that can be read only once"):
        twosample.two_sample_test(iter([X]), Y, test, **options)


def test_weights_of_a_fit_and_of_what_it_is_applied_to():
    X, Y, new_x, new_y = (weighty(12, seed, 50 * seed) for seed in range(4))
    test = dataclasses.replace(twosample.mmd_o(permutations=19, steps=1), design=Groups("who"))
    fitted = test.fit(X, Y, weights="w", rng=0)
    assert [column.name for column in fitted.schema.columns] == ["a", "b"]
    assert all(size < 48 for size in fitted.train_sizes)
    result = fitted.test(new_x, new_y, weights="w", rng=0)
    assert result.design.startswith("12 + 12 groups; weights kept ")
    assert all(size < 48 for size in result.sizes)


def test_compare_takes_weights():
    reference = weighty(10, 0)
    samples = {"a": weighty(10, 1, 50), "b": weighty(10, 2, 100)}
    options = {"method": "mmd-median", "groups": "who", "rng": 0}
    by_column = twosample.compare(reference, samples, weights="w", **options)
    weights = (reference.pop("w"), {name: each.pop("w") for name, each in samples.items()})
    by_array = twosample.compare(reference, samples, weights=weights, **options)
    for name in samples:
        assert "weights kept" in by_column[name].design
        assert by_column[name].pvalue == by_array[name].pvalue


# Signs of dependence


def warned(X, Y) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        twosample.two_sample_test(X, Y, "mmd-median", permutations=19, rng=0)
    return " ".join(str(each.message) for each in caught)


def test_a_series_is_noticed_and_a_design_ends_the_matter():
    X, Y = autoregression(300, 0.5, 0), autoregression(300, 0.5, 1)
    assert "Neighbouring rows resemble each other" in warned(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        twosample.two_sample_test(X, Y, "mmd-median", blocks=20, permutations=19, rng=0)


def test_a_column_of_subjects_is_noticed():
    said = warned(table(30, 10, 0).drop(columns="site"), table(30, 10, 1).drop(columns="site"))
    assert "say so with groups='who'" in said


def looked_at(draw, runs: int) -> int:
    found = 0
    for seed in range(runs):
        x, y = draw(np.random.default_rng(seed))
        names = [str(place) for place in range(x.shape[1])]
        found += signs_of_dependence([Look("X", x, names), Look("Y", y, names)]) is not None
    return found


def test_dependence_is_found_and_independence_left_alone():
    def series(rng):
        return autoregression(300, 0.5, rng.integers(2**31)), rng.normal(size=(300, 1))

    def independent(rng):
        counts = rng.integers(0, 12, size=(300, 3)).astype(float)
        return np.hstack([rng.standard_t(2, size=(300, 3)), counts]), rng.normal(size=(80, 6))

    assert looked_at(series, 50) >= 45
    assert looked_at(independent, 100) == 0


def test_rows_that_somebody_sorted_say_nothing():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 40, size=(300, 1)).astype(float)
    z = np.hstack([z, z + rng.normal(size=(300, 1))])
    z = z[z[:, 0].argsort()]
    assert signs_of_dependence([Look("X", z[:, :1], ["a"])]) is None


# The command line


@pytest.fixture
def files(tmp_path):
    for name, first, seed in (("a", 0, 0), ("b", 50, 1), ("c", 100, 2)):
        rows = table(10, 5, seed, first)
        rows["w"] = np.random.default_rng(seed).random(len(rows))
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def command(*words) -> str:
    outcome = CliRunner().invoke(build(), [str(word) for word in words])
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def test_the_command_line_has_designs(files):
    a, b, c = files / "a.csv", files / "b.csv", files / "c.csv"
    quick = ["--method", "mmd-median", "--seed", "0"]
    said = json.loads(
        command("test", a, b, "--groups", "who", "--strata", "site", "--json", *quick)
    )
    assert said["design"] == "10 + 10 groups within 2 strata" and said["units"] == [10, 10]
    X, Y = pd.read_csv(a), pd.read_csv(b)
    here = twosample.two_sample_test(X, Y, "mmd-median", groups="who", strata="site", rng=0)
    assert said["pvalue"] == here.pvalue
    text = command("test", a, a, "--pairs", "who", "--drop", "site", *quick)
    assert "10 pairs" in text
    assert "blocks" in command("test", a, b, "--blocks", "auto", "--drop", "who,site", *quick)
    several = command("compare", a, b, c, "--groups", "who", "--drop", "site", *quick)
    assert "b.csv" in several
    kernel = files / "kernel.safetensors"
    command("fit", a, b, "-o", kernel, "--groups", "who", "--drop", "site", *quick)
    assert "10 + 10 groups" in command("apply", kernel, b, c, "--seed", "0")
    weighed = [a, b, "--weights", "w", "--drop", "site,who", *quick]
    assert "weights kept" in command("test", *weighed)
    assert "weights kept" in command("plan", *weighed)
    assert "weights kept" in command("compare", *weighed, "--json")
    command("fit", a, b, "-o", kernel, "--weights", "w", "--drop", "site,who", *quick)
    weighed = json.loads(command("apply", kernel, b, c, "--weights", "w", "--seed", "0", "--json"))
    assert weighed["design"].startswith("weights kept ")
    wrong = CliRunner().invoke(build(), ["test", str(a), str(b), "--blocks", "x"])
    assert wrong.exit_code == 2 and "give a number of rows such as 50" in wrong.output
