import dataclasses
import json
import random

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy.stats import binom, permutation_test
from sklearn.ensemble import HistGradientBoostingClassifier

import twosample
from twosample import (
    METHODS,
    MLP,
    MMD,
    DeepKernel,
    Gaussian,
    IncompatibleParts,
    InputError,
    InputWarning,
    Learning,
    Linear,
    OnFeatures,
    Permutation,
    PowerCriterion,
    TwoSampleTest,
)
from twosample._data.samples import split
from twosample._data.survey import as_samples
from twosample._random import Generators
from twosample.bench.datasets import blob

QUICK = {
    "auto": {"steps": 10},
    "spectral": {},
    "mmd-d": {"steps": 10},
    "mmd-o": {"steps": 10},
    "mmd-median": {},
    "mmd-mkl": {},
    "mmd-fuse": {"bandwidths": 3},
    "mmd-agg": {"bandwidths": 3},
    "mmd-block": {"steps": 10},
    "mmd-compressed": {"steps": 10},
    "me": {"locations": 2, "steps": 20, "restarts": 1},
    "scf": {"frequencies": 2, "steps": 20, "restarts": 1},
    "c2st-s": {"steps": 60},
    "c2st-l": {"steps": 60},
    "c2st-trees": {},
}


def normals(n=60, m=50, shift=0.0, seed=0, d=2):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=(m, d)) + shift


def quick(method):
    return METHODS[method](permutations=99, **QUICK[method])


# ------------------------------------------------------------ verdicts


@pytest.mark.parametrize("method", METHODS)
def test_a_plain_difference_is_found_and_equality_is_not(method):
    assert twosample.two_sample_test(*normals(shift=3.0), quick(method), rng=0).pvalue == 0.01
    nulls = [
        twosample.two_sample_test(*normals(seed=s), quick(method), rng=s).reject()
        for s in range(1, 21)
    ]
    assert sum(nulls) <= binom.isf(1e-6, 20, 0.05)


# These see Blob in part, or in most trainings: those of c2st-l failed in 2 of 16 at this size.
UNSURE_OF_BLOB = ["mmd-block", "me", "scf", "c2st-s", "c2st-l"]
SLOW_ON_BLOB = ["mmd-d", "mmd-compressed", "mmd-fuse", "mmd-agg"]


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(method, marks=pytest.mark.slow if method in SLOW_ON_BLOB else [])
        for method in METHODS
        if method not in UNSURE_OF_BLOB
    ],
)
def test_blob_at_the_papers_size_is_found_by_what_learns_and_not_by_the_median(method):
    pvalue = twosample.two_sample_test(*blob(720, rng=5), method, rng=0).pvalue
    if method == "mmd-median":
        assert pvalue > 0.05
    else:
        assert pvalue <= 0.01


def test_result_is_that_of_the_textbook_on_the_held_out_points():
    """The statistic and the p-value again, from the fitted kernel's matrix and scipy's own
    permutation test."""
    X, Y = normals(n=24, m=20, shift=0.4)
    result = quick("mmd-o").run(X, Y, rng=0)
    x, y = result.samples.x.double(), result.samples.y.double()
    kernel = result.fitted.representation.double()

    pooled = torch.cat([x, y])

    def mmd2(i, j):
        a, b = pooled[np.asarray(i)], pooled[np.asarray(j)]
        n, m = len(a), len(b)
        k_aa, k_bb = kernel(a, a), kernel(b, b)
        return float(
            (k_aa.sum() - k_aa.trace()) / (n * (n - 1))
            + (k_bb.sum() - k_bb.trace()) / (m * (m - 1))
            - 2 * kernel(a, b).mean()
        )

    rows = np.arange(len(x)), np.arange(len(x), len(pooled))
    assert result.statistic == pytest.approx(mmd2(*rows), abs=1e-6)
    reference = permutation_test(
        rows,
        mmd2,
        n_resamples=999,
        alternative="greater",
        vectorized=False,
        rng=np.random.default_rng(0),
    )
    wide = 5 * (0.25 / 99 + 0.25 / 999) ** 0.5
    assert result.pvalue == pytest.approx(reference.pvalue, abs=wide)


def test_effect_sizes():
    result = twosample.two_sample_test(*normals(n=200, m=200, shift=1.5), quick("mmd-o"), rng=0)
    assert (
        result.effect.mmd == pytest.approx(result.statistic**0.5)
        and result.effect.power > 0.99
        and result.effect.criterion > 0
    )
    null = twosample.two_sample_test(*normals(n=200, m=200), quick("mmd-median"), rng=0)
    assert null.effect.power < 0.5 and null.effect.mmd >= 0


def test_estimated_power_is_near_the_observed_one():
    """Predicted from one pair of samples at a time: noisy, so the mean of 60 predictions is what is
    compared."""
    test = TwoSampleTest(Gaussian(1.0), calibration=Permutation(99))
    results = [test.run(*normals(n=60, m=60, shift=0.45, seed=s), rng=s) for s in range(60)]
    observed = np.mean([r.reject() for r in results])
    assert 0.3 < observed < 0.95
    assert np.mean([r.effect.power for r in results]) == pytest.approx(observed, abs=0.15)


# ------------------------------------------------------------ no leaks


@pytest.mark.parametrize("method", ["mmd-d", "mmd-o", "c2st-l"])
def test_labels_of_held_out_points_never_reach_training(method):
    """X and Y trade their held-out rows: the pooled data, the training rows and so the trained
    kernel stay the same."""
    X, Y = normals(n=40, m=40)
    index = np.arange(40.0)[:, None]
    _, held_out = split(as_samples(index, index), 0.5, Generators(7).torch("split"))
    rows_x, rows_y = held_out.x[:, 0].long().numpy(), held_out.y[:, 0].long().numpy()
    X2, Y2 = X.copy(), Y.copy()
    X2[rows_x], Y2[rows_y] = Y[rows_y], X[rows_x]
    first, second = (quick(method).run(a, b, rng=7) for a, b in ((X, Y), (X2, Y2)))
    weights = [r.fitted.representation.state_dict() for r in (first, second)]
    assert all(torch.allclose(weights[0][name], weights[1][name], atol=1e-6) for name in weights[0])
    assert torch.allclose(first.samples.x, second.samples.y, atol=1e-6)


def test_tested_points_are_the_rows_that_were_not_trained_on():
    X, Y = normals(n=30, m=21)
    result = quick("mmd-o").run(X, Y, rng=0)
    assert result.sizes == (15, 21 - result.train_sizes[1]) and result.train_sizes[0] == 15
    back = result.samples.x.double() * result.fitted.scaling.scale + result.fitted.scaling.shift
    assert all(np.isclose(X, row.numpy(), atol=1e-5).all(1).any() for row in back)


def test_without_training_all_points_are_tested():
    result = quick("mmd-median").run(*normals(n=30, m=21), rng=0)
    assert result.sizes == (30, 21) and result.train_sizes is None and result.training is None


# ------------------------------------------------------------ one seed, one answer


@pytest.mark.parametrize("method", METHODS)
def test_one_seed_one_answer_whatever_else_the_program_draws(method):
    X, Y = normals(shift=0.3)
    first = quick(method).run(X, Y, rng=3)
    torch.manual_seed(99)
    np.random.seed(99)  # noqa: NPY002
    second = quick(method).run(X, Y, rng=3)
    assert first.pvalue == second.pvalue and np.array_equal(
        first.null_distribution, second.null_distribution
    )
    assert not np.array_equal(
        first.null_distribution, quick(method).run(X, Y, rng=4).null_distribution
    )


@pytest.mark.parametrize("method", METHODS)
def test_global_generators_are_neither_read_nor_written(method):
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    quick(method).run(*normals(), rng=0)
    after = torch.get_rng_state(), np.random.get_state()[1], random.getstate()  # noqa: NPY002
    assert (
        torch.equal(states[0], after[0])
        and np.array_equal(states[1], after[1])
        and states[2] == after[2]
    )


def test_training_longer_does_not_change_the_permutations():
    generators = [Generators(5).torch("calibration") for _ in range(2)]
    assert torch.equal(*[torch.rand(5, generator=g) for g in generators])
    X, Y = normals(n=80, m=80)
    results = [twosample.mmd_o(permutations=19, steps=s).run(X, Y, rng=1) for s in (1, 50)]
    assert torch.equal(*[r.samples.x for r in results])  # nor the split


@pytest.mark.parametrize(
    "rng", [0, np.random.SeedSequence(0), np.random.PCG64(0), np.random.default_rng(0), None]
)
def test_rng_takes_what_spec_7_says(rng):
    assert 0 < quick("mmd-median").run(*normals(), rng=rng).pvalue <= 1


def test_a_generator_moves_on():
    rng = np.random.default_rng(0)
    X, Y = normals()
    first, second = (quick("mmd-median").run(X, Y, rng=rng).null_distribution for _ in range(2))
    assert not np.array_equal(first, second)


# ------------------------------------------------------------ fit, then test


def test_fit_once_test_often():
    test = quick("mmd-d")
    fitted = test.fit(*blob(200, rng=0), rng=0)
    assert fitted.train_sizes == (200, 200) and fitted.training.steps == 10
    results = [fitted.test(*blob(100, 80, rng=s), rng=0) for s in (1, 1, 2)]
    assert results[0].pvalue == results[1].pvalue and results[0].statistic != results[2].statistic
    assert results[0].sizes == (100, 80) and results[0].fitted is fitted


def test_fitted_test_applies_the_scaling_of_the_training_data():
    X, Y = normals(shift=0.5)
    units = np.array([1e4, 1e-4])
    a = quick("mmd-d").fit(X, Y, rng=0).test(*normals(seed=1), rng=0)
    b = (
        quick("mmd-d")
        .fit(X * units + 5, Y * units + 5, rng=0)
        .test(*(z * units + 5 for z in normals(seed=1)), rng=0)
    )
    assert a.pvalue == b.pvalue and a.statistic == pytest.approx(b.statistic, abs=1e-5)


def test_nothing_is_stored_on_the_test():
    test = twosample.mmd_d(featurizer=MLP(2, width=4), steps=5, permutations=19)
    before = repr(test), {k: v.clone() for k, v in test.representation.state_dict().items()}
    test.run(*normals(), rng=0)
    assert repr(test) == before[0]
    after = test.representation.state_dict()
    assert all(torch.equal(v, after[k]) or v.isnan().all() for k, v in before[1].items())


@pytest.mark.filterwarnings("ignore:100 . of these rows are among those")
def test_images_go_through_a_convnet_and_tables_through_an_mlp():
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, size=(20, 12, 12), dtype=np.uint8) for _ in range(2)]
    fitted = quick("mmd-d").fit(*images, rng=0)
    assert "ConvNet" in repr(fitted.representation)
    assert "ResidualMLP" in repr(quick("mmd-d").fit(*normals(), rng=0).representation)
    result = fitted.test(*images, rng=0)
    assert 0 < result.pvalue <= 1


def test_a_network_of_ones_own():
    network = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3))
    assert 0 < twosample.mmd_d(network, steps=5, permutations=19).run(*normals(), rng=0).pvalue <= 1


def test_tables_of_any_kind_give_one_answer():
    def table(n, seed):
        rng = np.random.default_rng(seed)
        return {
            "height": rng.normal(170, 10, n),
            "member": rng.random(n) < 0.5,
            "colour": rng.choice(["r", "g"], n),
        }

    x, y = table(40, 1), table(30, 2)
    results = [
        quick("mmd-d").run(make(x), make(dict(reversed(y.items()))), rng=0).statistic
        for make in (pd.DataFrame, pl.DataFrame)
    ]
    assert results[0] == results[1]


# ------------------------------------------------------------ results


def test_result_speaks():
    result = twosample.two_sample_test(*normals(shift=3.0), "mmd-median", permutations=999, rng=0)
    assert str(result) == "The samples differ: p = 0.001 (mmd-median on 60 + 50 points)."
    assert "p = 0.001" in result._repr_html_() and len(result.null_distribution) == 999
    as_json = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert (
        as_json["pvalue"] == 0.001 and as_json["sizes"] == [60, 50] and as_json["training"] is None
    )
    assert result.reject(0.001) and not result.reject(0.0009)
    with pytest.raises(twosample.InputError, match=r"alpha is 1\.5"):
        result.reject(1.5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.pvalue = 0.0


def test_trained_result_to_dict_has_the_log():
    result = quick("mmd-o").run(*normals(), rng=0)
    log = result.to_dict()["training"]
    assert (
        log["steps"] == 10
        and log["best_step"] == 10
        and "kernel learned on 30 + 25 others" in str(result)
    )


def test_repr_of_a_test_is_code():
    names = {**vars(twosample), "HistGradientBoostingClassifier": HistGradientBoostingClassifier}
    for method in METHODS:
        test = METHODS[method]()
        assert repr(eval(repr(test), names)) == repr(test)


# ------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda X, Y: twosample.two_sample_test(X, Y, "mmd"),
            InputError,
            "method 'mmd' does not exist; use one of auto, spectral, mmd-d",
        ),
        (
            lambda X, Y: twosample.two_sample_test(X, Y, twosample.mmd_d),
            InputError,
            r"call it: method=mmd_d\(\)",
        ),
        (lambda X, Y: twosample.two_sample_test(X, Y, 3), InputError, "method is a int"),
        (
            lambda X, Y: twosample.two_sample_test(X, Y, "mmd-median", train_fraction=0.3),
            IncompatibleParts,
            "mmd-median does not train, so it has no use for train_fraction=0.3",
        ),
        (
            lambda X, Y: twosample.two_sample_test(X, Y, permutations=0),
            InputError,
            "permutations is 0",
        ),
        (
            lambda X, Y: twosample.two_sample_test(X, Y, train_fraction=1.5),
            InputError,
            "train_fraction is 1.5",
        ),
        (
            lambda X, Y: twosample.two_sample_test(X, Y, device="abacus"),
            InputError,
            "device 'abacus' cannot be used",
        ),
        (lambda X, Y: twosample.two_sample_test(X[:3], Y, "mmd-d"), InputError, "X has 3 rows"),
        (lambda X, Y: twosample.two_sample_test(X[:1], Y), InputError, "X has 1 row"),
        (
            lambda X, Y: twosample.two_sample_test(X, Y[:, :1]),
            InputError,
            "X has 2 columns but Y has 1",
        ),
        (
            lambda X, Y: quick("mmd-o").fit(X, Y, rng=0).test(X[:1] + 1, Y + 1),
            InputError,
            "X has 1 row to test",
        ),
        (
            lambda X, Y: MMD("cubic"),
            IncompatibleParts,
            r"MMD\('cubic'\) does not exist; use one of unbiased, biased",
        ),
        (
            lambda X, Y: TwoSampleTest(MLP(2)),
            IncompatibleParts,
            "compares points by a kernel, but the representation is a MLP",
        ),
        (
            lambda X, Y: TwoSampleTest(
                OnFeatures(torch.nn.Identity(), Linear()), learning=Learning(PowerCriterion())
            ),
            IncompatibleParts,
            "has nothing to learn",
        ),
        (lambda X, Y: TwoSampleTest(Gaussian(1.0), memory=5), InputError, "memory is 5 bytes"),
        (
            lambda X, Y: TwoSampleTest(Gaussian(1.0), statistic=MMD("paired")).run(X, Y),
            InputError,
            r"MMD\('paired'\) needs samples of one size, not 60 and 50",
        ),
    ],
)
def test_errors_say_what_to_do(call, error, message):
    with pytest.raises(error, match=message):
        call(*normals())


def test_so_few_points_that_no_p_value_can_be_small_is_a_warning():
    with pytest.warns(InputWarning, match=r"only 6 labellings, so no p-value below 0\.167"):
        quick("mmd-median").run(*normals(n=2, m=2), rng=0)


def test_constant_data_give_p_one():
    with pytest.warns(InputWarning):
        assert quick("mmd-d").run(np.ones((40, 2)), np.ones((40, 2)), rng=0).pvalue == 1.0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "device", [d for d in ("cpu", "cuda", "mps") if d == "cpu" or getattr(torch, d).is_available()]
)
def test_every_device_here(device, method):
    X, Y = normals(shift=3.0)
    result = quick(method).run(X, Y, rng=0, device=device)
    assert result.pvalue == 0.01 and result.fitted._device().type in (device, "cpu")
    assert twosample.explain(result, rng=0).columns[0].pvalue <= 0.05
    streamed = quick(method).run(iter([X[:30], X[30:]]), Y, rng=0, device=device)
    assert streamed.pvalue == 0.01


def test_paired_and_biased_statistics_run_end_to_end():
    X, Y = normals(n=40, m=40, shift=1.5)
    for estimator in ("paired", "biased"):
        test = TwoSampleTest(
            DeepKernel(MLP(2, width=5)), Learning(steps=3), MMD(estimator), Permutation(99)
        )
        assert test.run(X, Y, rng=0).pvalue <= 0.05


def test_memory_budget_changes_nothing_but_rounding():
    X, Y = normals(n=300, m=200, shift=0.2)
    small, large = (
        dataclasses.replace(quick("mmd-median"), memory=memory).run(X, Y, rng=0)
        for memory in (2**20, 2**30)
    )
    assert small.statistic == pytest.approx(large.statistic, abs=1e-7)
    assert small.null_distribution == pytest.approx(large.null_distribution, abs=1e-6)
