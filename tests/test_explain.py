"""Explanations: what is exact is held to exactness, what is exploratory to its definition."""

import dataclasses
import doctest
import json
import random
import warnings
from pathlib import Path

import level  # benchmarks/ is on the path of the tests
import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

import bank
import twosample
from twosample import (
    MMD,
    Asymptotic,
    DeepKernel,
    Gaussian,
    HotellingT2,
    IncompatibleParts,
    InputError,
    Linear,
    MeanEmbedding,
    PairSwap,
    Permutation,
    SpectralLimit,
    TwoSampleTest,
)
from twosample._calibration import pvalue
from twosample._data.samples import EmbeddedSamples
from twosample._insight.corrections import benjamini_hochberg, holm
from twosample._insight.explain import explain, witness
from twosample._kernels import ARDGaussian, WeightedSum
from twosample._statistics import BlockMMD, Statistic

ROOT = Path(__file__).parents[1]


def table(rng, size, *, guilty=False):
    """Orders: of numbers, a category and a boolean; guilty ones are dearer and come from
    elsewhere."""
    weight = rng.gamma(2.0, 500.0, size)
    return pd.DataFrame(
        {
            "price": np.round(np.exp(rng.normal(3 + 0.8 * guilty, 0.5, size)), 2),
            "weight": weight,
            "parcels": np.ceil(weight / 700).astype(int),
            "country": rng.choice(
                ["DE", "FR", "other"], size, p=[0.2, 0.3, 0.5] if guilty else [0.6, 0.2, 0.2]
            ),
            "returning": rng.random(size) < 0.4,
            "constant": 7.0,
        }
    )


@pytest.fixture(scope="module")
def orders():
    rng = np.random.default_rng(5)
    X, Y = table(rng, 150), table(rng, 110, guilty=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", twosample.InputWarning)  # of the constant column
        return (
            X,
            Y,
            twosample.mmd_o(permutations=199, steps=3).run(
                X, Y, rng=1, device="cpu", progress=False
            ),
        )


def plain(estimator="unbiased", **options):
    """A test without training, so that every row is tested."""
    return TwoSampleTest(
        Gaussian(), statistic=MMD(estimator), calibration=Permutation(99, **options)
    )


def run(test, X, Y, rng=0):
    return test.run(X, Y, rng=rng, device="cpu", progress=False)


def matrix(result):
    """The kernel matrix of the held-out points, X first, one pair at a time."""
    return bank.naive_matrix(result.fitted.representation, result.samples.pooled()).tolist()


# The witness


@pytest.mark.parametrize("kernel", ["gaussian", "deep", "rational quadratic", "linear on features"])
def test_witness_is_the_mean_over_x_less_the_mean_over_y(kernel):
    rng = np.random.default_rng(0)
    X, Y, new = rng.normal(size=(9, 3)), rng.normal(1, 2, size=(7, 3)), rng.normal(size=(5, 3))
    result = run(TwoSampleTest(bank.KERNELS[kernel](), calibration=Permutation(19)), X, Y)
    k, scaling = result.fitted.representation, result.fitted.scaling
    x, y = result.samples.x, result.samples.y
    expected = []
    for row in new:
        z = ((torch.from_numpy(row) - scaling.shift) / scaling.scale).float()[None]
        at_x, at_y = ([float(k(z, point[None])) for point in points] for points in (x, y))
        expected.append(sum(at_x) / len(at_x) - sum(at_y) / len(at_y))
    # In float32 the network rounds one row by itself otherwise than many, as the processor likes.
    assert witness(result, new) == pytest.approx(expected, abs=1e-5)
    assert explain(result, rng=0).witness(new).tolist() == witness(result, new).tolist()


def test_witness_comes_in_tiles_whatever_their_size():
    rng = np.random.default_rng(1)
    X, Y, new = (
        rng.normal(size=(700, 2)),
        rng.normal(1, 1, size=(600, 2)),
        rng.normal(size=(1100, 2)),
    )
    test = TwoSampleTest(
        Gaussian(), calibration=Permutation(9, bins=50), memory=2**20
    )  # tiles of 147 rows
    result = run(test, X, Y)
    scaling, points = result.fitted.scaling, result.samples.pooled().double()
    z = torch.cat([points, (torch.from_numpy(new) - scaling.shift) / scaling.scale])
    K = bank.dense(result.fitted.representation.double(), z).detach()[1300:]
    result.fitted.representation.float()
    assert witness(result, new) == pytest.approx(
        (K[:, :700].mean(1) - K[:, 700:1300].mean(1)).numpy(), abs=1e-6
    )
    assert witness(result, X) == pytest.approx(
        result.calibrated.prepared.witness[0].numpy(), abs=1e-6
    )


def test_witness_says_which_sample_a_point_looks_like(orders):
    X, Y, result = orders
    assert witness(result, X).mean() > 0 > witness(result, Y).mean()
    assert witness(result, X.iloc[::-1][list(X.columns[::-1])]) == pytest.approx(
        witness(result, X)[::-1], abs=1e-6
    )


# Rows


@bank.every_estimator
@pytest.mark.parametrize("sizes", [(12, 12), (14, 9)], ids=str)
def test_contributions_sum_to_the_statistic(estimator, sizes):
    if estimator == "paired" and sizes[0] != sizes[1]:
        pytest.skip("pairs need equal sizes")
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(sizes[0], 2)), rng.normal(1, 1, size=(sizes[1], 2))
    result = run(plain(estimator), X, Y)
    found = explain(result, rows=100, rng=0)
    x, y = found.contributions
    assert x.sum() + y.sum() == pytest.approx(result.statistic, abs=1e-10)
    assert sum(row.share for row in found.rows_x + found.rows_y) == pytest.approx(1, abs=1e-10)

    K, n, m = np.array(matrix(result)), *sizes
    for i in range(n):
        own, other = (
            [j for j in range(n) if j != i],
            [j for j in range(m) if (estimator, j) != ("paired", i)],
        )
        own = own if estimator != "biased" else list(range(n))
        expected = (K[i, own].mean() - K[i, [n + j for j in other]].mean()) / n
        assert x[i] == pytest.approx(expected, abs=1e-7)
    for i in range(m):
        own, other = (
            [j for j in range(m) if j != i],
            [j for j in range(n) if (estimator, j) != ("paired", i)],
        )
        own = own if estimator != "biased" else list(range(m))
        expected = (K[n + i, [n + j for j in own]].mean() - K[n + i, other].mean()) / m
        assert y[i] == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("method", [twosample.c2st_s, twosample.c2st_l])
def test_classifier_tests_are_explained_too(method):
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(80, 2)), rng.normal([1.5, 0], 1, size=(60, 2))
    result = run(method(permutations=99, steps=30), X, Y)
    found = explain(result, rng=0)
    assert found.reject() == ["0"]
    assert [part.sum() for part in found.contributions] == pytest.approx(
        [result.statistic / 2] * 2, rel=1e-6
    )
    assert found.witness(X).mean() > found.witness(Y).mean()


@pytest.mark.parametrize("calibration", [PairSwap(99), Asymptotic()], ids=repr)
def test_contributions_to_an_average_over_blocks(calibration):
    rng = np.random.default_rng(20)
    sizes = (38, 38) if isinstance(calibration, PairSwap) else (38, 30)
    X, Y = (rng.normal(shift, 1, size=(size, 2)) for shift, size in zip((0, 1), sizes, strict=True))
    result = run(
        TwoSampleTest(Gaussian(1.0), statistic=MMD("block", block_size=6), calibration=calibration),
        X,
        Y,
    )
    found = explain(result, rng=0)
    x, y = found.contributions
    assert x.sum() + y.sum() == pytest.approx(result.statistic, abs=1e-10)
    # Within a block they are those of its own estimate, over the number of blocks; two points of X
    # are left over.
    prepared = result.calibrated.prepared
    K = bank.dense(Gaussian(1.0), result.samples.pooled().double()).tolist()
    bins, count = prepared.bins, len(prepared.values)
    per = bins.moving_x // count, bins.moving_y // count
    for block in range(count):
        of_x = bins.members(block * per[0], per[0]).flatten().tolist()
        of_y = bins.members(bins.moving_x + block * per[1], per[1]).flatten().tolist()
        naive = bank.naive_mmd2_paired if sizes[0] == sizes[1] else bank.naive_mmd2_unbiased
        total = x[of_x].sum() + y[[place - sizes[0] for place in of_y]].sum()
        assert total * count == pytest.approx(naive(K, of_x, of_y), abs=1e-6)


def test_one_sided_contributions_keep_the_sign():
    rng = np.random.default_rng(21)
    X, Y = rng.normal(size=(20, 1)), rng.normal(1, 1, size=(25, 1))
    for signed, (first, second) in (("greater", (Y, X)), ("less", (X, Y))):
        test = TwoSampleTest(
            Linear(), statistic=MMD("biased", alternative="greater"), calibration=Permutation(99)
        )
        result = run(test, first, second)
        found = explain(result, rng=0)
        assert (result.statistic > 0) == (signed == "greater")
        assert sum(part.sum() for part in found.contributions) == pytest.approx(
            result.statistic, abs=1e-10
        )
        assert (found.rows_x[0].share is None) == (signed == "less")


@pytest.mark.parametrize("paired", [False, True])
def test_features_are_explained_by_their_discriminant(paired):
    rng = np.random.default_rng(22)
    X, Y, new = (
        rng.normal(size=(40, 2)),
        rng.normal([1.5, 0], 1, size=(40 if paired else 30, 2)),
        rng.normal(size=(4, 2)),
    )
    calibration = PairSwap(99) if paired else Permutation(99)
    locations = torch.tensor([[0.0, 0.0], [1.0, 0.0], [-1.0, 1.0]])
    test = TwoSampleTest(
        MeanEmbedding(locations, Gaussian(1.0)), None, HotellingT2(paired=paired), calibration
    )
    result = run(test, X, Y)
    found = explain(result, rows=3, rng=0)
    assert sum(part.sum() for part in found.contributions) == pytest.approx(
        result.statistic, rel=1e-10
    )
    assert found.reject() == ["0"] and found.importance_from == pytest.approx(
        result.statistic, rel=1e-4
    )

    scaled = (torch.from_numpy(new) - result.fitted.scaling.shift) / result.fitted.scaling.scale
    f_x, f_y, f = (
        result.fitted.representation(z.float()).double().numpy()
        for z in (result.samples.x, result.samples.y, scaled)
    )
    n, m = len(f_x), len(f_y)
    S = (
        np.cov((f_x - f_y).T)
        if paired
        else ((n - 1) * np.cov(f_x.T) + (m - 1) * np.cov(f_y.T)) / (n + m - 2)
    )
    score = np.linalg.solve(S, f_x.mean(0) - f_y.mean(0))
    middle = (f_x.mean(0) + f_y.mean(0)) / 2
    assert found.witness(new) == pytest.approx((f - middle) @ score, rel=1e-4, abs=1e-4)
    factor = n if paired else n * m / (n + m)
    assert found.contributions[0] == pytest.approx(
        factor * ((f_x - middle) @ score) / n, rel=1e-4, abs=1e-4
    )


@pytest.mark.parametrize("method", ["me", "scf"])
def test_trained_features_are_explained(method, orders):
    X, Y, _ = orders
    X, Y = X.drop(columns="constant"), Y.drop(columns="constant")
    result = run(twosample.METHODS[method](permutations=99, steps=20), X, Y)
    found = explain(result, rng=0)
    assert "price" in found.reject()
    assert found.witness(X).mean() > 0 > found.witness(Y).mean()


def test_a_statistic_of_somebody_elses_cannot_be_taken_apart(orders):
    class Other(MMD):
        pass

    class Plain(MMD):
        contributions = Statistic.contributions

    def explained(statistic):
        spec = dataclasses.replace(result.fitted.spec, statistic=statistic)
        fitted = dataclasses.replace(result.fitted, spec=spec)
        return explain(dataclasses.replace(result, fitted=fitted), rng=0)

    _, _, result = orders
    explained(Other())  # an MMD still
    with pytest.raises(IncompatibleParts, match="cannot be taken apart by points"):
        explained(Plain())


@pytest.mark.parametrize(("n", "m"), [(300, 300), (300, 200), (200, 300)])
def test_blocks_are_taken_apart_as_the_test_made_them(n, m):
    """Rounding is all that may be missing between the contributions of points and the statistic."""
    rng = np.random.default_rng(3)
    test = TwoSampleTest(Gaussian(), statistic=BlockMMD(), calibration=PairSwap(19))
    result = run(test, rng.normal(size=(n, 2)), rng.normal(0.7, 1.3, size=(m, 2)))
    kernel = result.fitted.representation
    samples = result.samples
    points = EmbeddedSamples(kernel.embed(samples.pooled()), samples.sizes, samples.schema)
    prepared = result.calibrated.prepared
    of_x, of_y = BlockMMD().contributions(kernel, points, prepared, result.statistic)
    assert float(of_x.mean() + of_y.mean()) == pytest.approx(result.statistic, rel=1e-5)


def test_no_shares_of_a_statistic_that_is_not_positive():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(20, 2))
    result = run(plain(), X, X + 1e-3)
    assert result.statistic < 0
    found = explain(result, rng=0)
    assert all(row.share is None for row in found.rows_x + found.rows_y)
    assert all(column.importance_share is None for column in found.columns)
    assert "not positive" in str(found) and "finds no difference" in str(found)


def test_rows_are_those_of_the_user(orders):
    X, Y, result = orders
    found = explain(result, rows=200, rng=0)
    for sample, rows, held_out in (
        (X, found.rows_x, result.samples.rows[0]),
        (Y, found.rows_y, result.samples.rows[1]),
    ):
        assert sorted(row.row for row in rows) == sorted(held_out.tolist())
        assert [row.contribution for row in rows] == sorted(
            (row.contribution for row in rows), reverse=True
        )
        for row in rows:
            shown, own = dict(row.values), sample.iloc[row.row].to_dict()
            numbers = [name for name in own if name not in ("country", "returning")]
            assert [shown[name] for name in numbers] == pytest.approx(
                [own[name] for name in numbers], abs=1e-3
            )
            assert (shown["country"], shown["returning"]) == (own["country"], own["returning"])
            assert (
                shown["price"] == own["price"]
            )  # two decimals survive single precision, and no others are shown


@pytest.mark.filterwarnings("ignore:neighbouring rows")  # the lump stands at the beginning
@pytest.mark.parametrize("train", [False, True])
def test_a_planted_row_is_found(train):
    rng = np.random.default_rng(4)
    X, Y = rng.normal(size=(60, 2)), rng.normal(size=(50, 2))
    Y[:30] = [3.0, -3.0]  # a lump that X has nothing of
    Y[7] = [3.0, -2.9]
    test = twosample.mmd_o(permutations=99, steps=3) if train else plain()
    found = explain(run(test, X, Y, rng=2), rng=0)
    assert all(row.row < 30 for row in found.rows_y[:5])
    assert found.rows_y[0].values == pytest.approx({"0": 3.0, "1": -3.0}, abs=0.11)


# Columns


def test_columns_are_tested_with_the_shuffles_of_the_joint_test():
    rng = np.random.default_rng(6)
    frame = {
        "number": rng.normal(size=40),
        "flag": rng.random(40) < 0.5,
        "level": rng.choice(list("abc"), 40),
    }
    pooled = pd.DataFrame(frame)
    X, Y = pooled[:24], pooled[24:].assign(number=pooled["number"][24:] + 0.5)
    result = run(plain(), X, Y)
    found = explain(result, shuffles=0, rng=0)
    both = pd.concat([X, Y])
    distances = np.abs(both["number"].to_numpy()[:, None] - both["number"].to_numpy())
    median = np.median(distances[np.triu_indices(40, 1)])
    levels = both["level"].to_numpy()
    matrices = {
        "number": np.mean(
            [np.exp(-(distances**2) / (2 * (f * median) ** 2)) for f in (0.25, 0.5, 1)], axis=0
        ),
        "flag": np.equal.outer(both["flag"].to_numpy(), both["flag"].to_numpy()).astype(float),
        # Over the pooled share of the level, as in a chi-squared test.
        "level": np.equal.outer(levels, levels) / (levels[:, None] == levels).mean(0),
    }
    bins = result.calibrated.prepared.bins
    for column in found.columns:
        K = matrices[column.name].tolist()
        labellings = [
            bank.relabelled(bins, shuffle) for shuffle in result.calibrated.shuffles.all().tolist()
        ]
        values = torch.tensor(
            [bank.naive_mmd2_unbiased(K, x, y) for x, y in labellings], dtype=torch.float64
        )
        assert column.pvalue == pvalue(values, 1e-9)
        if column.kind == "numeric":  # among indicators the kernel is what it is up to a factor
            assert column.statistic == pytest.approx(float(values[0]), abs=2e-4)


def test_columns_find_the_guilty_on_a_mixed_table(orders):
    _, _, result = orders
    found = explain(result, rng=0)
    assert [column.name for column in found.columns] == [
        "constant",
        "country",
        "parcels",
        "price",
        "returning",
        "weight",
    ]
    assert set(found.reject(alpha=0.05)) == {"price", "country"}
    by_name = {column.name: column for column in found.columns}
    assert by_name["constant"].pvalue == 1 and by_name["constant"].importance == pytest.approx(
        0, abs=1e-7
    )
    assert by_name["price"].importance > max(
        by_name[name].importance for name in ("weight", "returning")
    )
    assert found.importance_from == pytest.approx(
        result.statistic, abs=1e-7
    )  # all points are few enough
    assert all(column.widths is None for column in found.columns)


def innocents(rng, *, guilty=True):
    """The last column may differ; the others are correlated with it and do not."""
    n, m = 22, 18
    common = rng.normal(size=n + m)
    columns = [0.9 * common + 0.4 * rng.normal(size=n + m) for _ in range(3)]
    columns[1] = columns[1] * 1000 + 5
    columns[2][n:] += 2 * guilty
    pooled = np.stack(columns, 1)
    return pooled[:n], pooled[n:]


@pytest.mark.parametrize("guilty", [False, True])
def test_innocent_columns_are_rejected_at_the_level(guilty):
    runs, test = 200, twosample.mmd_median(permutations=99)
    low, high = level.limits(level.Case(test, "", (22, 18)), runs)
    alone, family, found = np.zeros(2), 0, 0
    for number in range(runs):
        rng = np.random.default_rng([7, number])
        result = run(test, *innocents(rng, guilty=guilty), rng=rng)
        columns = explain(result, rows=0, shuffles=0, rng=rng).columns
        alone += [column.pvalue <= 0.05 for column in columns[:2]]
        family += any(column.adjusted <= 0.05 for column in columns[: 3 - guilty])
        found += columns[2].adjusted <= 0.05
    assert low <= alone.min() and alone.max() <= high
    assert family <= high
    assert found > 0.8 * runs if guilty else found <= high


@pytest.mark.parametrize("bins", [500, 6])
def test_columns_move_in_the_bins_of_the_joint_test(bins):
    rng = np.random.default_rng(8)
    X, Y = rng.normal(size=(70, 2)), rng.normal([0, 2], 1, size=(45, 2))
    result = run(plain(bins=bins), X, Y)
    found = explain(result, rng=0)
    assert found.reject() == ["1"] and found.calibration == "the joint test's 99 permutations"


@pytest.mark.parametrize("bins", [500, 10])
def test_columns_are_swapped_where_pairs_were(bins):
    """Pairs that depend on each other: swaps within pairs keep the level of innocent columns."""
    runs = 120
    test = TwoSampleTest(Gaussian(), statistic=MMD("paired"), calibration=PairSwap(99, bins=bins))
    low, high = level.limits(level.Case(test, "", (20, 20)), runs)
    count = 0
    for number in range(runs):
        rng = np.random.default_rng([23, number])
        X = rng.normal(size=(20, 2))
        Y = 0.8 * X + 0.6 * rng.normal([3, 0], 1, size=(20, 2))
        found = explain(run(test, X, Y, rng=rng), rows=0, shuffles=0, rng=rng)
        assert "swaps" in found.calibration
        count += found.columns[1].pvalue <= 0.05
    assert low <= count <= high


@pytest.mark.parametrize(
    "test",
    [
        TwoSampleTest(Gaussian(), calibration=SpectralLimit()),
        twosample.me(asymptotic=True, steps=5, train_fraction=0.4),
    ],
    ids=["spectral", "asymptotic"],
)
def test_columns_get_shuffles_of_their_own_where_the_joint_test_has_none(test):
    rng = np.random.default_rng(24)
    X, Y = rng.normal(size=(60, 2)), rng.normal([2, 0], 1, size=(60, 2))
    result = run(test, X, Y)
    found, again = explain(result, rng=0), explain(result, rng=0)
    assert "999 permutations, the same for all columns" in found.calibration
    assert found.columns[0].pvalue == 0.001 and found.reject() == ["0"]
    assert found.to_dict() == again.to_dict()


def test_a_column_of_one_is_the_test_itself():
    """Where the kernel is that of the column, so are all values."""
    rng = np.random.default_rng(9)
    X, Y = rng.random(30) < 0.5, rng.random(25) < 0.7
    X, Y = (pd.DataFrame({"flag": part}) for part in (X, Y))
    result = run(TwoSampleTest(twosample.Linear(), calibration=Permutation(199)), X, Y)
    (column,) = explain(result, rng=0).columns
    assert (column.statistic, column.pvalue, column.adjusted) == (
        result.statistic,
        result.pvalue,
        result.pvalue,
    )


@pytest.mark.parametrize("seed", range(3))
def test_corrections_are_the_textbook_ones(seed):
    rng = np.random.default_rng(seed)
    p = np.round(rng.random(12) ** 3, 2) + 0.001  # with ties
    k = len(p)
    in_order = sorted(p)
    expected = [
        min(1.0, max((k - j) * in_order[j] for j in range(in_order.index(value) + 1)))
        for value in p
    ]
    assert holm(p) == pytest.approx(expected)
    assert benjamini_hochberg(p) == pytest.approx(stats.false_discovery_control(p))
    assert all(a <= b for a, b in zip(benjamini_hochberg(p), holm(p), strict=True))
    assert holm([]) == benjamini_hochberg([]) == []


def test_corrections_by_name(orders):
    _, _, result = orders
    found = {
        name: explain(result, correction=name, shuffles=0, rows=0, rng=0)
        for name in ("holm", "bh", "none")
    }
    p = [column.pvalue for column in found["none"].columns]
    assert [column.adjusted for column in found["none"].columns] == p
    assert [column.adjusted for column in found["holm"].columns] == holm(p)
    assert [column.adjusted for column in found["bh"].columns] == benjamini_hochberg(p)
    assert "depend positively" in str(found["bh"]) and "depend positively" not in str(found["holm"])


def test_more_columns_than_permutations_can_tell_apart():
    rng = np.random.default_rng(10)
    result = run(plain(), rng.normal(size=(20, 8)), rng.normal(3, 1, size=(20, 8)))
    assert "cannot reach an adjusted p-value below 0.08" in str(explain(result, shuffles=0, rng=0))


def test_importance_of_columns_that_differ_only_together():
    rng = np.random.default_rng(12)
    X = rng.multivariate_normal([0, 0, 0], [[1, 0.9, 0], [0.9, 1, 0], [0, 0, 1]], size=150)
    Y = rng.multivariate_normal([0, 0, 0], [[1, -0.9, 0], [-0.9, 1, 0], [0, 0, 1]], size=150)
    found = explain(run(plain(), X, Y), rng=0)
    assert found.reject() == [] and "how the columns go together" in str(found)
    assert found.columns[0].importance_share > 0.9 < found.columns[1].importance_share
    assert abs(found.columns[2].importance_share) < 0.3


def test_importance_on_few_of_many_points():
    rng = np.random.default_rng(13)
    X, Y = rng.normal(size=(300, 2)), rng.normal([1, 0], 1, size=(260, 2))
    result = run(plain(), X, Y)
    found = explain(result, max_points=50, rng=0)
    assert (
        found.importance_from != result.statistic
        and found.columns[0].importance > found.columns[1].importance
    )


def test_importance_keeps_pairs_together():
    rng = np.random.default_rng(14)
    X = rng.normal(size=(60, 2))
    Y = X + rng.normal([1, 0], 0.1, size=(60, 2))
    result = run(plain("paired"), X, Y)
    assert explain(result, rng=0).importance_from == pytest.approx(result.statistic, abs=1e-7)


@pytest.mark.parametrize(
    "representation",
    [
        ARDGaussian(widths=[1.0, 1.0, 4.0, 2.0, 0.5]),
        DeepKernel(
            bank.MLP(5, width=3), Gaussian(1.0), ARDGaussian(widths=[1.0, 1.0, 4.0, 2.0, 0.5])
        ),
        WeightedSum([Gaussian(1.0), ARDGaussian(widths=[1.0] * 5)]),
    ],
    ids=["ard", "deep", "sum"],
)
def test_widths_in_the_units_of_the_user(representation):
    rng = np.random.default_rng(25)
    X, Y = (
        pd.DataFrame(
            {
                "wide": rng.normal(5, 1000, 30),
                "narrow": rng.normal(0, 0.01, 30),
                "level": rng.choice(["a", "b"], 30),
            }
        )
        for _ in range(2)
    )
    result = run(TwoSampleTest(representation, calibration=Permutation(19)), X, Y)
    widths = [column.widths for column in explain(result, rng=0).columns]
    if isinstance(representation, WeightedSum):  # a sum has no one width
        assert widths == [None] * 3
        return
    pooled = pd.concat([X, Y])
    assert widths[2] == pytest.approx({"wide": 0.5 * pooled["wide"].std(ddof=0)}, rel=1e-5)
    assert widths[1] == pytest.approx({"narrow": 2 * pooled["narrow"].std(ddof=0)}, rel=1e-5)
    assert widths[0] == pytest.approx({"level=a": 1.0, "level=b": 1.0, "level=other": 4.0})


# Images


def test_images_give_rows_and_pixels():
    rng = np.random.default_rng(15)
    X = rng.integers(0, 200, (30, 8, 8, 3), dtype=np.uint8)
    Y = rng.integers(0, 200, (24, 8, 8, 3), dtype=np.uint8)
    Y[:, 2:6, 2:6] = 255
    result = run(twosample.mmd_d(permutations=99, steps=3), X, Y)
    found = explain(result, rows=3, rng=0)
    assert found.columns == () and found.importance_from is None
    for row in found.rows_y:
        assert (
            row.pixels.dtype == np.uint8
            and np.array_equal(row.pixels, Y[row.row])
            and row.values == {}
        )
    assert found.witness(X).mean() > found.witness(Y).mean()
    json.dumps(found.to_dict())
    assert f"row {found.rows_x[0].row}" in str(found)


def test_images_of_floats_keep_their_scale():
    rng = np.random.default_rng(16)
    X, Y = rng.random((20, 6, 6)).astype(np.float32), rng.random((20, 6, 6)).astype(np.float32) ** 2
    found = explain(run(plain(), X, Y), rows=2, rng=0)
    for row in found.rows_x:
        assert row.pixels == pytest.approx(X[row.row], abs=1e-6)


def test_witness_behind_batch_normalisation_takes_one_image():
    rng = np.random.default_rng(17)
    X, Y = (rng.integers(0, 255, (24, 8, 8), dtype=np.uint8) for _ in range(2))
    network = twosample.ConvNet(normalisation="batch")
    result = run(twosample.mmd_d(network, permutations=19, steps=2), X, Y)
    assert np.isfinite(witness(result, X[:1])).all()


# The record


def test_the_result_is_left_alone_and_a_seed_gives_one_answer(orders):
    _, _, result = orders
    before = (
        result.statistic,
        result.pvalue,
        result.null_distribution.copy(),
        result.samples.pooled(),
    )
    first, second, other = (explain(result, rng=seed) for seed in (3, 3, 4))
    assert (result.statistic, result.pvalue) == before[:2]
    assert np.array_equal(result.null_distribution, before[2]) and torch.equal(
        result.samples.pooled(), before[3]
    )
    assert (first.statistic, first.pvalue) == (result.statistic, result.pvalue)
    assert first.to_dict() == second.to_dict() and str(first) == str(second)
    assert [c.pvalue for c in first.columns] == [
        c.pvalue for c in other.columns
    ]  # they take no chance of their own
    assert [c.importance for c in first.columns] != [c.importance for c in other.columns]


def test_explain_leaves_the_global_generators_alone(orders):
    _, _, result = orders
    state, torch_state = random.getstate(), torch.get_rng_state()
    explain(result)
    assert random.getstate() == state and torch.equal(torch.get_rng_state(), torch_state)


def test_the_record_is_ready_for_json_and_says_what_is_exploratory(orders):
    _, _, result = orders
    found = explain(result, rows=2, rng=0)
    plain_dict = json.loads(json.dumps(found.to_dict()))
    assert plain_dict["columns"][0]["name"] == "constant" and len(plain_dict["rows_x"]) == 2
    assert "importance" in plain_dict["exploratory"] and "pvalue" not in plain_dict["exploratory"]
    text = str(found)
    assert text.count("(exploratory)") == 2 and "exact for its distribution" in text
    assert all(len(line) <= 220 for line in text.splitlines())


def test_the_level_is_that_of_the_caller():
    rng = np.random.default_rng(21)
    X = rng.normal(size=(300, 3))
    Y = rng.normal(size=(300, 3))
    Y[:, 1] += 0.25
    result = twosample.two_sample_test(X, Y, "spectral", permutations=199, rng=0)
    strict = explain(result, alpha=0.001, rng=0)
    usual = explain(result, rng=0)
    assert usual.reject() == usual.reject(0.05) == strict.reject(0.05) == ["1"]
    assert strict.reject() == []
    assert "(at 0.05;" in str(usual) and "(at 0.001;" in str(strict)
    assert not any("finds no difference" in note for note in usual.notes)
    assert any("finds no difference" in note for note in strict.notes)
    assert "(at 0.001;" in str(result.explain(alpha=0.001, rng=0))
    for explanation in (usual, strict):
        said = [pair["sentence"] for pair in explanation.to_dict()["pairs"]]
        assert said == [pair.sentence(explanation.alpha) for pair in explanation.pairs]
    assert said != [pair.sentence(0.05) for pair in strict.pairs]
    with pytest.raises(InputError, match="alpha"):
        explain(result, alpha=2)


def test_few_labellings_are_told_at_the_level_of_the_caller(orders):
    _, _, result = orders
    columns = len(result.columns)
    labellings = len(result.null_distribution) + 1
    told = [
        any("test with more permutations" in note for note in explain(result, alpha=alpha).notes)
        for alpha in (0.9 * columns / labellings, columns / labellings)
    ]
    assert told == [True, False]


def test_a_fitted_test_on_new_data_is_explained_in_its_own_rows():
    rng = np.random.default_rng(18)
    fitted = twosample.mmd_o(permutations=99, steps=3).fit(
        rng.normal(size=(40, 2)), rng.normal(1, 1, (40, 2)), rng=0
    )
    X, Y = rng.normal(size=(30, 2)), rng.normal(1, 1, (20, 2))
    found = explain(fitted.test(X, Y, rng=1), rows=100, rng=0)
    assert sorted(row.row for row in found.rows_y) == list(range(20))
    assert found.rows_x[0].values["1"] == pytest.approx(X[found.rows_x[0].row, 1], rel=1e-5)


def test_names_are_escaped():
    rng = np.random.default_rng(19)
    name, sign = "<script>alert(1)</script>", "<b>&"
    X, Y = (
        pd.DataFrame({name: rng.normal(size=20), "level": rng.choice([sign, "c"], 20)})
        for _ in range(2)
    )
    shown = explain(run(plain(), X, Y), rng=0)._repr_html_()
    assert "<script" not in shown and "<b>" not in shown
    assert "&lt;script&gt;" in shown and "&lt;b&gt;&amp;" in shown


def test_errors_are_sentences(orders):
    X, _, result = orders
    for options, words in [
        (
            {"correction": "bonferroni"},
            "correction is 'bonferroni'; use one of step-down, holm, bh, none.",
        ),
        ({"rows": -1}, "rows is -1; it must be a whole number of at least 0."),
        ({"shuffles": 2.5}, "shuffles is 2.5; it must be a whole number"),
        ({"max_points": 1}, "max_points is 1; it must be a whole number of at least 2."),
    ]:
        with pytest.raises(InputError, match=words):
            explain(result, **options)
    with pytest.raises(InputError, match=r"pass what its test\(X, Y\) gives"):
        explain(result.fitted)
    with pytest.raises(InputError, match="is a float; pass the result of a test"):
        explain(0.03)
    with pytest.raises(
        InputError, match="The fitted test and points have different columns; missing in points"
    ):
        witness(result, X.drop(columns="price"))
    with pytest.raises(InputError, match="points is empty"):
        witness(result, X[:0])
    with pytest.raises(InputError, match=r"alpha is 1\.5"):
        explain(result, rows=0, shuffles=0).reject(alpha=1.5)


def test_the_page_gives_what_it_shows():
    page = ROOT / "docs" / "explaining.md"
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    results = doctest.testfile(str(page), module_relative=False, optionflags=flags)
    assert results.attempted > 5 and results.failed == 0


def test_explain_is_a_method_of_the_result_too(orders):
    *_, result = orders
    by_method = result.explain(correction="bh", rows=2, shuffles=1, rng=0)
    assert str(by_method) == str(explain(result, correction="bh", rows=2, shuffles=1, rng=0))


def test_the_older_name_of_reject_warns_and_works(orders):
    *_, result = orders
    explanation = explain(result, rows=0, shuffles=0)
    with pytest.warns(DeprecationWarning, match="is now Explanation.reject") as caught:
        assert explanation.differing(0.2) == explanation.reject(0.2)
    assert caught[0].filename == __file__
