"""Statistics of several kernels, fused over all labellings."""

import itertools
import math

import numpy as np
import pytest
import scipy
import torch

import twosample
from bank import points, seeded
from twosample import (
    MMD,
    Asymptotic,
    Fused,
    Gaussian,
    HotellingT2,
    IncompatibleParts,
    InputError,
    Linear,
    ManhattanLaplace,
    OnFeatures,
    PairSwap,
    Permutation,
    Several,
    SmallestRank,
    SoftMaximum,
    SpectralLimit,
    Surprise,
    TwoSampleTest,
)

KERNELS = [Gaussian(0.3), Gaussian(1.0), ManhattanLaplace(2.0)]
WAYS = [SmallestRank(), SmallestRank((1.0, 0.5, 2.0)), SoftMaximum(), Surprise()]


def fused_by(way, calibration=None):
    calibration = Permutation(199) if calibration is None else calibration
    statistic = MMD("biased" if isinstance(way, Surprise) else "unbiased")
    return TwoSampleTest(Several(KERNELS), statistic=Fused(statistic, way), calibration=calibration)


def normals(n: int, m: int, seed: int, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)), rng.normal(size=(m, 2)) + shift


def pooled_points(result) -> torch.Tensor:
    """The points as the test saw them."""
    return result.samples.pooled().double()


def naive_mmd2(K: torch.Tensor, n: int, m: int) -> float:
    xx = sum(float(K[i, j]) for i, j in itertools.permutations(range(n), 2))
    yy = sum(float(K[i, j]) for i, j in itertools.permutations(range(n, n + m), 2))
    xy = sum(float(K[i, j]) for i, j in itertools.product(range(n), range(n, n + m)))
    return xx / (n * (n - 1)) + yy / (m * (m - 1)) - 2 * xy / (n * m)


@pytest.mark.parametrize(("n", "m"), [(9, 9), (8, 12)])
def test_the_value_of_fuse_is_that_of_double_loops(n, m):
    X, Y = normals(n, m, 0, 1.0)
    result = fused_by(SoftMaximum()).run(X, Y, rng=0)
    z = pooled_points(result)
    small = min(n, m)
    exponents = []
    sharpness = math.sqrt(small * (small - 1))
    for kernel in KERNELS:
        K = kernel(z, z).detach()
        squares = sum(float(K[i, j]) ** 2 for i, j in itertools.permutations(range(n + m), 2))
        size = squares / (small * (small - 1))
        exponents.append(sharpness * naive_mmd2(K, n, m) / math.sqrt(size))
    expected = math.log(sum(map(math.exp, exponents)) / len(exponents)) / sharpness
    assert result.statistic == pytest.approx(expected, rel=1e-5)


def test_aggregation_is_the_smallest_p_value_counted_by_hand():
    X, Y = normals(4, 3, 3, 0.5)
    result = fused_by(SmallestRank()).run(X, Y, rng=0)
    z = pooled_points(result)
    matrices = [kernel(z, z).detach() for kernel in KERNELS]
    labellings = list(itertools.combinations(range(7), 4))
    values = []
    for matrix in matrices:
        row = []
        for of_x in labellings:
            of_y = sorted(set(range(7)).difference(of_x))
            order = torch.tensor([*of_x, *of_y])
            row.append(round(naive_mmd2(matrix[order][:, order], 4, 3), 9))
        values.append(row)
    smallest = []
    for labelling in range(len(labellings)):
        ranks = [sum(other >= row[labelling] for other in row) for row in values]
        smallest.append(min(ranks))
    p = sum(rank <= smallest[0] for rank in smallest) / len(labellings)
    assert result.calibrated.description == "all 35 labellings of 4 + 3 points"
    assert result.pvalue == pytest.approx(p, abs=1e-12)


@pytest.mark.parametrize("way", WAYS, ids=repr)
def test_the_level_is_exact_over_all_labellings(way):
    """Each labelling in turn is taken for the observed one: p <= a for at most a share a of them.

    Kernels have no open bandwidth, and pooled points are scaled alike, so that is the very law of p
    when P = Q, given the pooled points.
    """
    pooled = np.concatenate(normals(4, 4, 5))
    pooled[6] = pooled[7]  # a tie
    pvalues = []
    for of_x in itertools.combinations(range(8), 4):
        is_x = np.isin(np.arange(8), of_x)
        pvalues.append(fused_by(way).run(pooled[is_x], pooled[~is_x], rng=0).pvalue)
    for count in range(1, 71):
        reached = sum(p <= count / 70 + 1e-9 for p in pvalues)
        assert reached <= count
    assert len(set(pvalues)) > 5


@pytest.mark.parametrize("way", WAYS[1:], ids=repr)
def test_the_level_holds_over_many_draws(way):
    runs = 200
    rejections = 0
    for seed in range(runs):
        X, Y = normals(12, 9, seed)
        test = fused_by(way, Permutation(39))
        rejections += test.run(X.round(1), Y.round(1), rng=seed).reject()  # with some ties
    assert rejections <= scipy.stats.binom.isf(1e-6, runs, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["mmd-fuse", "mmd-agg"])
def test_published_methods_keep_their_level(method):
    runs = 300
    test = twosample.METHODS[method](permutations=99)
    rejections = 0
    for seed in range(runs):
        X, Y = normals(30, 18, seed)
        rejections += test.run(X, Y, rng=seed).reject()
    lower, upper = scipy.stats.binom.ppf([1e-6, 1 - 1e-6], runs, 0.05)
    assert lower <= rejections <= upper


def test_one_kernel_alone_has_the_p_value_of_its_mmd():
    X, Y = normals(30, 20, 1, 0.4)
    alone = TwoSampleTest(Gaussian(1.0), statistic=MMD("unbiased")).run(X, Y, rng=0)
    for way in (SmallestRank(), SoftMaximum()):
        test = TwoSampleTest(Several([Gaussian(1.0)]), statistic=Fused(MMD("unbiased"), way))
        assert test.run(X, Y, rng=0).pvalue == alone.pvalue


def test_pairs_are_swapped_where_the_statistic_allows():
    X, Y = normals(40, 40, 2, 2.0)
    for statistic in (MMD("paired"), MMD("biased"), MMD("block")):
        test = TwoSampleTest(
            Several(KERNELS), statistic=Fused(statistic), calibration=PairSwap(199)
        )
        assert test.run(X, Y, rng=0).pvalue <= 0.05


def test_grids_of_bandwidths_are_those_of_the_papers():
    X, Y = normals(25, 15, 0)
    for method, test in (("fuse", twosample.mmd_fuse()), ("agg", twosample.mmd_agg())):
        result = test.run(X, Y, rng=0)
        sigmas = [kernel.bandwidth for kernel in result.fitted.representation.kernels]
        seen = pooled_points(result)
        for norm, found in ((1.0, sigmas[:10]), (2.0, sigmas[10:])):
            distances = np.sort(torch.pdist(seen, norm).numpy())
            small = distances[int(0.05 * len(distances))] / 2
            if method == "fuse":
                grid = np.linspace(small, 2 * distances[int(0.95 * len(distances))], 10)
            else:
                grid = np.geomspace(small, 2 * distances[-1], 10)
            # exp(-sqrt(2) d / b) there, exp(-d^2 / b^2) here
            if (method, norm) in (("fuse", 1.0), ("agg", 2.0)):
                grid = grid / math.sqrt(2)
            assert np.allclose(found, grid, rtol=1e-5)


def test_a_grid_of_equal_points_is_ones():
    several = Several([Gaussian(), Gaussian()], "fuse")
    several.start(torch.ones(5, 2), seeded())
    assert [kernel.bandwidth for kernel in several.kernels] == [1.0, 1.0]


def test_each_kernel_sees_its_own_part_of_the_points():
    network = torch.nn.Linear(3, 2)
    several = Several([OnFeatures(network, Gaussian(1.0)), Gaussian(2.0), Linear()])
    z = points(6, dtype=torch.float32)
    embedded = several.embed(z)
    assert len(embedded) == 2  # the points once, and the features
    of_network, of_gaussian, of_linear = several.split(embedded)
    assert torch.equal(of_network[0], network(z))
    assert of_gaussian[0] is of_linear[0]
    assert torch.equal(of_gaussian[0], z)


def test_a_fused_test_is_explained_by_the_kernel_that_sees_most():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    Y = rng.normal(size=(50, 2))
    Y[:, 0] += 1.5
    for method in ("mmd-fuse", "mmd-agg"):
        result = twosample.two_sample_test(X, Y, method, permutations=99, rng=0)
        explanation = twosample.explain(result)
        assert explanation.reject() == [explanation.columns[0].name]
        total = sum(part.sum() for part in explanation.contributions)
        assert total == pytest.approx(result.statistic)
        near_x, near_y = explanation.witness([[-2.0, 0.0], [3.5, 0.0]])
        assert near_x > 0 > near_y


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TwoSampleTest(Gaussian(), statistic=Fused(MMD())), r"Use Several\(\[\.\.\.\]\)"),
        (lambda: fused_by(SmallestRank((1.0, 2.0))), "2 weights for 3 kernels"),
        (
            lambda: TwoSampleTest(Several(KERNELS), statistic=Fused(MMD(), Surprise())),
            "may be negative",
        ),
        (lambda: TwoSampleTest(Several(KERNELS), statistic=Fused(HotellingT2())), "HotellingT2"),
        (lambda: TwoSampleTest(Several(KERNELS), statistic=MMD()), "by a kernel"),
        (lambda: TwoSampleTest(Several(KERNELS), statistic=HotellingT2()), r"Use Fused\(MMD"),
        (lambda: fused_by(SoftMaximum(), Asymptotic()), "limiting law"),
        (lambda: fused_by(SoftMaximum(), SpectralLimit()), "has the limit"),
        (lambda: fused_by(SoftMaximum(), PairSwap()), r"Fused\(MMD\('paired'\)"),
    ],
)
def test_parts_that_do_not_fit_say_so(make, message):
    with pytest.raises(IncompatibleParts, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Several([]), "Several of no kernels"),
        (lambda: Several([torch.nn.Identity()]), "takes kernels, not a Identity"),
        (lambda: Several(KERNELS, "mean"), "bandwidths is 'mean'"),
        (lambda: SmallestRank((1.0, 0.0)), "must be positive"),
        (lambda: SoftMaximum(0.0), "multiplier is 0"),
        (lambda: twosample.mmd_fuse(bandwidths=0), "bandwidths is 0"),
    ],
)
def test_settings_that_cannot_be_are_sentences(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_equal_columns_are_ties_of_a_soft_maximum():
    x = np.zeros((50, 1))
    y = x.copy()
    y[25, 0] = 0.3  # one row differs, so all labellings are alike but for its side
    for permutations in (99, 107, 999):
        result = twosample.two_sample_test(x, y, "mmd-fuse", rng=0, permutations=permutations)
        assert result.pvalue == 1.0
