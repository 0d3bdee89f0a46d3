"""MMD of a kernel projected onto landmarks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bank import (
    as_table,
    every_dtype,
    make,
    naive_matrix,
    naive_mmd2_biased,
    points,
    prepared_by,
    relabelled,
    seeded,
)
from twosample import (
    MMD,
    Gaussian,
    IncompatibleParts,
    InputError,
    Linear,
    Permutation,
    SpectralLimit,
    TwoSampleTest,
    explain,
    predict_power,
)
from twosample._statistics import CompressedMMD


def two_samples(n, m, shift=0.5, dtype=torch.float64):
    return as_table(points(n, seed=1, dtype=dtype), points(m, seed=2, dtype=dtype) + shift)


def prepared(kernel, samples, statistic, plan, seed=3):
    bins = plan.plan(*samples.sizes, seeded(1))
    return bins, prepared_by(statistic, kernel, samples, bins, seeded(seed))


@pytest.mark.parametrize(
    "name", ["gaussian", "laplace", "deep", "sum of many", "rational quadratic"]
)
@pytest.mark.parametrize(("n", "m", "bins"), [(9, 7, 500), (13, 9, 4)])
def test_it_is_the_mmd_of_the_projected_kernel_whatever_the_labels(name, n, m, bins):
    samples, statistic, plan, kernel = (
        two_samples(n, m),
        MMD("compressed", landmarks=6),
        Permutation(20, bins),
        make(name),
    )
    cut, found = prepared(kernel, samples, statistic, plan)
    shuffles = plan.shuffles(cut, seeded(2)).all()
    values = statistic.evaluate(found, shuffles)

    drawn = seeded(3)
    torch.randperm(n + m, generator=drawn)  # the order in which points go through a network
    landmarks = torch.randperm(n + m, generator=drawn)[:6]
    K = naive_matrix(kernel, samples.pooled()).detach()
    projected = (
        K[:, landmarks] @ torch.linalg.pinv(K[landmarks][:, landmarks]) @ K[landmarks]
    ).tolist()
    naive = [
        naive_mmd2_biased(projected, *relabelled(cut, shuffle)) for shuffle in shuffles.tolist()
    ]
    assert values.tolist() == pytest.approx(
        [value - found.excess for value in naive], rel=1e-6, abs=1e-9
    )


@every_dtype
def test_with_every_point_a_landmark_it_is_the_mmd_itself(dtype):
    samples, kernel = two_samples(12, 9, dtype=dtype), make("gaussian", dtype)
    plan = Permutation(50)
    cut, found = prepared(
        kernel, samples, MMD("compressed"), plan
    )  # 1000 landmarks if there were as many points
    shuffles = plan.shuffles(cut, seeded(2)).all()
    biased = MMD("biased")
    expected = (
        biased.evaluate(prepared_by(biased, kernel, samples, cut, seeded(3)), shuffles)
        - found.excess
    )
    assert torch.allclose(MMD("compressed").evaluate(found, shuffles), expected, atol=2e-5)


@pytest.mark.parametrize(("n", "m"), [(4, 4), (5, 3)])
def test_its_mean_over_all_labellings_is_zero(n, m):
    """Unbiased when P = Q: nobody has to know that a squared distance of means is never
    negative."""
    samples, plan = two_samples(n, m), Permutation(10**4)
    cut, found = prepared(make("gaussian"), samples, MMD("compressed", landmarks=4), plan)
    values = MMD("compressed").evaluate(found, plan.shuffles(cut, seeded()).all())
    assert float(values.mean()) == pytest.approx(0, abs=1e-12) and float(values.abs().max()) > 1e-3


def test_the_witness_gives_the_value_and_the_pieces_do_not_matter():
    samples, plan = two_samples(700, 600, dtype=torch.float32), Permutation(20)
    statistic = MMD("compressed", landmarks=40)
    cut, found = prepared(make("deep", torch.float32), samples, statistic, plan)
    in_x, in_y = found.witness
    value = float(statistic.evaluate(found, torch.arange(cut.moving)[None])[0])
    assert float(in_x.mean() - in_y.mean()) - found.excess == pytest.approx(value, abs=1e-9)
    lean = prepared_by(
        statistic, make("deep", torch.float32), samples, cut, seeded(3), memory=2**16
    )
    shuffles = plan.shuffles(cut, seeded()).all()
    assert torch.allclose(
        statistic.evaluate(lean, shuffles), statistic.evaluate(found, shuffles), atol=1e-7
    )


def test_duplicates_that_trade_places_are_ties():
    """Ten copies of each point: every labelling that keeps the counts has the same value, so p is
    far from 0."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(30, 3)), 10, axis=0)
    test = TwoSampleTest(Gaussian(1.0), None, MMD("compressed", landmarks=60), Permutation(99))
    assert test.run(X, X, rng=0).pvalue == 1.0


def test_it_is_nearly_as_strong_as_all_pairs_and_far_stronger_than_blocks():
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(4000, 4)), rng.normal(size=(3000, 4)) * 1.1
    found = {
        estimator: TwoSampleTest(Gaussian(), None, MMD(estimator)).run(X, Y, rng=0)
        for estimator in ("unbiased", "compressed")
    }
    assert found["compressed"].pvalue == found["unbiased"].pvalue == 0.001
    assert found["compressed"].statistic == pytest.approx(found["unbiased"].statistic, rel=0.1)
    assert found["compressed"].effect.mmd == pytest.approx(found["unbiased"].effect.mmd, rel=0.1)


def test_it_is_explained_and_rows_sum_to_the_statistic():
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(80, 3)), rng.normal((1, 0, 0), size=(60, 3))
    test = TwoSampleTest(Gaussian(), None, MMD("compressed", landmarks=30), Permutation(99))
    result = test.run(X, Y, rng=0)
    explanation = explain(result, rng=0)
    assert sum(part.sum() for part in explanation.contributions) == pytest.approx(result.statistic)
    assert min(explanation.columns, key=lambda column: column.pvalue) is explanation.columns[0]


def test_parts_that_do_not_fit_say_what_to_use():
    with pytest.raises(IncompatibleParts, match=r"Use CompressedMMD\(landmarks"):
        MMD("unbiased", landmarks=10)
    with pytest.raises(InputError, match="landmarks is 1; it must be a whole number of at least 2"):
        MMD("compressed", landmarks=1)
    with pytest.raises(IncompatibleParts, match=r"need no landmarks.*Use MMD\('biased'\)"):
        TwoSampleTest(Linear(), None, MMD("compressed"))
    with pytest.raises(IncompatibleParts, match="SpectralLimit"):
        TwoSampleTest(Gaussian(), None, MMD("compressed"), SpectralLimit())
    assert MMD("compressed", landmarks=7) == CompressedMMD(7)
    assert repr(CompressedMMD(7)) == "CompressedMMD(7)"
    assert repr(CompressedMMD()) == "CompressedMMD()"


def test_its_power_is_predicted_as_that_of_the_whole_kernel():
    X, Y = points(60).numpy(), points(60, seed=1).numpy() + 0.5
    plans = [
        predict_power(
            TwoSampleTest(Gaussian(1.0), None, statistic, Permutation(199)).run(X, Y, rng=0)
        )
        for statistic in (MMD("compressed"), MMD("unbiased"))
    ]
    assert plans[0].mmd2 == pytest.approx(plans[1].mmd2)
    assert plans[0].power(40) == pytest.approx(plans[1].power(40), abs=0.1)
