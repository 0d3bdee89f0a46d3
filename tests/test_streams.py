"""Samples larger than memory: the same answers as in memory, every complaint with its row, and
nothing left behind."""

from __future__ import annotations

import doctest
import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from scipy.stats import binom
from torch import nn
from typer.testing import CliRunner

import twosample
from twosample import (
    MLP,
    DeepKernel,
    Gaussian,
    HotellingT2,
    Learning,
    Linear,
    MeanEmbedding,
    OnFeatures,
    Permutation,
    SpectralLimit,
    TwoSampleTest,
)
from twosample._cli import main as cli
from twosample._data import embedding
from twosample._data import streams as module
from twosample._data import survey as survey_module
from twosample._data.columns import Columns
from twosample._data.moments import Moments
from twosample._data.profile import Profile, schema_and_scaling
from twosample._data.rereading import points_to_test
from twosample._data.samples import Scaling
from twosample._data.streams import Stream
from twosample._data.survey import as_samples, survey, training_rows
from twosample._data.tables import Origin
from twosample._files import parts as files
from twosample._resources import Resources
from twosample.errors import InputError, InputWarning

ROOT = Path(__file__).parents[1]
FIXED = TwoSampleTest(Gaussian(1.0), calibration=Permutation(99))


def normal(rows: int, columns: int = 3, seed: int = 0, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(shift, 1, (rows, columns))


def cut(data, *edges: int):
    """Batches of unequal sizes."""
    return [data[first:end] for first, end in zip((0, *edges), (*edges, len(data)), strict=True)]


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder where temporary files go, which each test must leave empty."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    gc.collect()
    assert list(folder.glob("twosample-*")) == []


# The same answer as in memory


def trained(network=None):
    return TwoSampleTest(
        DeepKernel(network or MLP(3, width=4)), Learning(steps=3), calibration=Permutation(99)
    )


TESTS = {
    "fixed": FIXED,
    "median": twosample.mmd_median(permutations=99),
    "deep": trained(),
    "classifier": twosample.c2st_l(permutations=99, steps=3),
    "locations": twosample.me(permutations=99, steps=3, restarts=1),
    "blocks": twosample.mmd_block(steps=3),
    "compressed": twosample.mmd_compressed(landmarks=20, steps=3),
    "spectral": TwoSampleTest(Gaussian(1.0), calibration=SpectralLimit(draws=99)),
    "features": TwoSampleTest(MeanEmbedding(torch.eye(3), Gaussian(1.0)), None, HotellingT2()),
}


@pytest.mark.parametrize("name", TESTS)
def test_streams_give_the_answer_of_arrays(name, temporary):
    X, Y = normal(90), normal(81, seed=1, shift=0.3)
    expected = TESTS[name].run(X, Y, rng=5)
    found = TESTS[name].run(Stream.batches(cut(X, 1, 2, 40)), iter(cut(Y, 50)), rng=5)
    assert found.statistic == pytest.approx(expected.statistic, rel=1e-5, abs=1e-7)
    assert found.pvalue == pytest.approx(expected.pvalue, abs=1e-6)
    assert (found.sizes, found.train_sizes) == (expected.sizes, expected.train_sizes)
    assert found.effect.mmd == (
        None if expected.effect.mmd is None else pytest.approx(expected.effect.mmd, abs=1e-5)
    )


def test_one_seed_is_one_answer_and_batches_do_not_matter():
    X, Y = normal(120), normal(100, seed=1)
    results = [
        trained().run(Stream.batches(cut(X, *edges)), Y, rng=3) for edges in ((), (60,), (7, 8, 90))
    ]
    assert len({result.pvalue for result in results}) == 1
    assert results[0].statistic == pytest.approx(results[2].statistic, abs=1e-6)
    assert trained().run(Stream.batches(cut(X, 60)), Y, rng=4).statistic != results[0].statistic


def test_files_are_read_in_parts(tmp_path, monkeypatch, temporary):
    monkeypatch.setattr(files, "_PART", 30)
    X, Y = normal(35).astype(np.float32), normal(30, seed=1).astype(np.float32)
    for name, data in (("x", X), ("y", Y)):
        np.save(tmp_path / f"{name}.npy", data)
        np.save(tmp_path / f"{name}f.npy", np.asfortranarray(data))
        pl.DataFrame(data, schema=["a", "b", "c"]).write_parquet(
            tmp_path / f"{name}.parquet", row_group_size=8
        )
    np.save(tmp_path / "z.npy", normal(35, seed=2).astype(np.float32))
    expected = FIXED.run(X, Y, rng=0)
    pairs = [
        [Stream.npy(tmp_path / f"{name}.npy") for name in "xy"],
        [Stream.npy([tmp_path / f"{name}f.npy"]) for name in "xy"],
        [Stream.parquet(tmp_path / f"{name}.parquet") for name in "xy"],
        [Stream.npy([tmp_path / "x.npy", tmp_path / "z.npy"]), Y],
    ]
    assert [len(part) for part in pairs[0]] == [35, 30]
    assert [part.rows for part in pairs[2][0].partitions] == [35] and [
        len(part) for part in pairs[2][0]
    ] == [
        10,
        10,
        10,
        5,
    ]
    for pair in pairs[:3]:
        result = FIXED.run(*pair, rng=0)
        assert (result.statistic, result.pvalue) == (
            pytest.approx(expected.statistic, abs=1e-6),
            expected.pvalue,
        )
    assert FIXED.run(*pairs[3], rng=0).sizes == (70, 30)
    chosen = Stream.parquet([tmp_path / "x.parquet"] * 2, columns=["c", "a"])
    other = pl.DataFrame({"a": Y[:, 0], "c": Y[:, 2]})
    assert FIXED.run(chosen, other, rng=0, repeats="allow").sizes == (70, 30)


def test_partitions_can_be_read_in_another_process(tmp_path, temporary):
    np.save(tmp_path / "x.npy", normal(10))
    pl.DataFrame({"a": [1.0, 2.0]}).write_parquet(tmp_path / "x.parquet")
    once = Stream.batches(iter([normal(4), normal(3)]))
    for stream in (Stream.npy(tmp_path / "x.npy"), Stream.parquet(tmp_path / "x.parquet"), once):
        again = [pickle.loads(pickle.dumps(part)) for part in stream.partitions]
        assert (
            sum(len(part.read()) for part in again)
            == len(stream)
            == sum(part.rows for part in stream.partitions)
        )
    function = Stream.batches(lambda: iter(cut(normal(9), 2, 5)))
    assert [len(part.read()) for part in function.partitions] == [2, 3, 4]


def test_large_memory_maps_are_streams(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", normal(40_000, 2).astype(np.float32))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    seen = []
    original = Profile.read
    monkeypatch.setattr(
        Profile, "read", lambda self, batch: seen.append(len(batch)) or original(self, batch)
    )
    test = TwoSampleTest(
        OnFeatures(nn.Identity(), Linear()), calibration=Permutation(19), memory=2**20
    )
    small = test.run(mapped[:1000], normal(1000, 2), rng=0)
    assert seen == [1000, 1000] and small.samples is not None
    seen.clear()
    large = test.run(mapped, normal(50, 2), rng=0)
    assert large.sizes == (40_000, 50) and large.samples is None
    assert sum(seen) == 40_050


def test_a_fitted_test_takes_streams(temporary):
    X, Y = normal(80), normal(70, seed=1, shift=1.0)
    fitted = trained().fit(Stream.batches(cut(X, 30)), iter(cut(Y, 5)), rng=0)
    same = trained().fit(X, Y, rng=0)
    assert fitted.train_sizes == (80, 70)
    for mine, other in zip(
        fitted.representation.parameters(), same.representation.parameters(), strict=True
    ):
        assert torch.allclose(mine, other, atol=1e-6)
    new, other = normal(50, seed=2), normal(40, seed=3, shift=1.0)
    results = [
        fitted.test(*pair, rng=1)
        for pair in ((new, other), (iter(cut(new, 9)), Stream.batches(cut(other, 9))))
    ]
    assert results[0].pvalue == results[1].pvalue
    assert results[0].statistic == pytest.approx(results[1].statistic, abs=1e-6)


# Tables and images


def frames(rows: int, seed: int):
    rng = np.random.default_rng(seed)
    table = {
        "size": rng.normal(50, 9, rows),
        "kind": rng.choice(["a", "b"], rows),
        "on": rng.random(rows) < 0.5,
    }
    table["kind"][-2:] = ["late", "last"]  # levels that only the last batch has
    return pd.DataFrame(table)


@pytest.mark.parametrize(
    "form", [lambda t: t, pl.from_pandas, pa.Table.from_pandas], ids=["pandas", "polars", "arrow"]
)
@pytest.mark.parametrize("once", [True, False])
def test_levels_may_come_late(form, once, temporary):
    X, Y = frames(60, 0), frames(50, 1)
    batches = [form(part.reset_index(drop=True)) for part in cut(X, 20, 55)]
    mixed = [
        batches[0],
        form(X[20:55].reset_index(drop=True)[["on", "size", "kind"]]),
        batches[2],
    ]  # another order
    expected = FIXED.run(X, Y, rng=0)
    found = FIXED.run(iter(mixed) if once else Stream.batches(mixed), form(Y), rng=0)
    assert found.fitted.schema == expected.fitted.schema
    assert torch.allclose(found.fitted.scaling.shift, expected.fitted.scaling.shift, rtol=1e-12)
    assert torch.allclose(found.fitted.scaling.scale, expected.fitted.scaling.scale, rtol=1e-12)
    assert (found.statistic, found.pvalue) == (
        pytest.approx(expected.statistic, abs=1e-7),
        expected.pvalue,
    )


def test_a_column_of_booleans_and_then_of_numbers_is_numeric():
    x = [pd.DataFrame({"a": [True, False, True]}), pd.DataFrame({"a": [0.5, 2.0, 7.0]})]
    result = FIXED.run(Stream.batches(x), pd.DataFrame({"a": [1.0, 3.0]}), rng=0)
    assert result.fitted.schema.columns[0].kind == "numeric"


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_images(dtype, temporary):
    rng = np.random.default_rng(0)
    X, Y = ((rng.random((40, 6, 5, 3)) * 200).astype(np.uint8) for _ in "XY")
    if dtype == np.float32:
        X, Y = (images.transpose(0, 3, 1, 2).astype(np.float32) for images in (X, Y))
    expected = FIXED.run(X, Y, rng=0)
    found = FIXED.run(iter(cut(X, 7)), Stream.batches(cut(Y, 20)), rng=0)
    assert found.fitted.schema == expected.fitted.schema
    assert (
        found.statistic == pytest.approx(expected.statistic, abs=1e-6)
        and found.pvalue == expected.pvalue
    )
    assert torch.allclose(found.fitted.scaling.scale, expected.fitted.scaling.scale, rtol=1e-12)


@pytest.mark.parametrize("size", [1e-310, 1e-160, 1.0, 1e12, 1e300])
def test_moments_of_parts_merge(size):
    points = normal(1000, 4) * [1.0, 1e-9, 0.0, 1.0] + [0.0, 1.0, 3.0, 1e5]
    points[:500, 0] = 0.0
    points = points * (size / np.abs(points).max())
    whole = Moments.of(points.copy()).shift_and_scale()
    parts = [Moments.of(part.copy()) for part in cut(points, 1, 500, 777)]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merged(part)
    for mine, other in zip(merged.shift_and_scale(), whole, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6 if size > 1e-300 else 0.1)


def test_profiles_learn_what_samples_are():
    X, Y = frames(30, 0), frames(40, 1)[["kind", "on", "size"]]
    profiles = Profile(Origin("X")), Profile(Origin("Y"))
    for profile, data in zip(profiles, (X, Y), strict=True):
        for batch in cut(data, 11):
            profile.include(profile.read(batch))
    schema, scaling = schema_and_scaling(*profiles)
    samples = as_samples(X, Y)
    assert schema == samples.schema
    assert torch.allclose(scaling.shift, Scaling.of(samples).shift, rtol=1e-12)
    assert torch.allclose(scaling.scale, Scaling.of(samples).scale, rtol=1e-12)


# The p-value is exact


class Spy(nn.Module):
    """Keeps the rows that it sees; apart in training and in the test."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.seen = {True: [], False: []}

    def forward(self, points):
        self.seen[self.training].append(points.detach().clone())
        return points * self.weight


@pytest.mark.parametrize("most", [100_000, 13])
def test_rows_that_were_trained_on_are_not_tested(most, monkeypatch, temporary):
    monkeypatch.setattr(survey_module, "MAX_TRAINING_ROWS", most)
    X, Y = np.arange(101.0)[:, None], np.arange(1000.0, 1080.0)[:, None]
    test = TwoSampleTest(
        OnFeatures(Spy(), Gaussian(1.0)), Learning(steps=2), calibration=Permutation(19)
    )
    result = test.run(iter(cut(X, 10, 30)), Stream.batches(cut(Y, 17)), rng=0)
    trained_on = 13 if most == 13 else 50
    assert result.train_sizes == (trained_on, min(40, trained_on))
    assert result.sizes == (101 - trained_on, 80 - min(40, trained_on))
    # Plant: the embedded points, brought back to what came in, are the rows that were not picked.
    spied = result.fitted
    pair = tuple(Stream.batches(cut(data, 9)) for data in (X, Y))
    found = survey(pair, _again(test))
    picked = {*found.picked.x[:, 0].tolist(), *found.picked.y[:, 0].tolist()}
    parts = points_to_test(
        pair,
        found,
        spied.scaling,
        lambda points: (points,),
        torch.Generator().manual_seed(0),
        device=torch.device("cpu"),
        resources=Resources(2**20),
    ).parts
    back = (parts[0].double() * spied.scaling.scale + spied.scaling.shift).round()[:, 0].tolist()
    assert sorted([*back, *picked]) == [*X[:, 0], *Y[:, 0]]
    assert len(picked) == sum(result.train_sizes)
    assert back[: result.sizes[0]] == [X[row, 0] for row in found.rows[0].tested]


def _again(test):
    from twosample._random import Generators

    return training_rows(test.learning.train_fraction, Generators(0).torch("split"), test.memory)


def test_batches_mix_the_samples():
    """A network that sees its batch must see both samples in it, in shares that are left to
    chance."""
    seen = []

    class Looking(nn.Module):
        def forward(self, points):
            seen.append((points[:, 0] > 0).float().mean().item())
            return points

    test = TwoSampleTest(
        OnFeatures(Looking(), Gaussian(1.0)), calibration=Permutation(19), memory=2**22
    )
    X, Y = np.sort(np.random.default_rng(0).uniform(-2, -1, (700, 1)), 0), np.full((700, 1), 2.0)
    test.run(Stream.batches([X]), Y + X, rng=0)
    shares = seen[-(1400 // 64) :]
    assert len(shares) > 10 and min(shares) > 0.1 and max(shares) < 0.9 and len(set(shares)) > 3


@pytest.mark.parametrize("runs", [40, pytest.param(150, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["deep", "median", "batch"])
def test_level_is_within_exact_binomial_limits(name, runs):
    alpha = 0.05

    class ByBatch(nn.Module):
        """What it gives depends on the company: the test stays exact because the company is blind
        to labels."""

        def forward(self, points):
            return (points - points.mean(0)) / (points.std(0, unbiased=False) + 1e-3)

    test = {
        "deep": TwoSampleTest(
            DeepKernel(MLP(2, width=4)), Learning(steps=3), calibration=Permutation(19)
        ),
        "median": twosample.mmd_median(permutations=19),
        "batch": TwoSampleTest(
            OnFeatures(ByBatch(), Gaussian(0.5)), calibration=Permutation(19), memory=2**20
        ),
    }[name]
    rejected = 0
    for seed in range(runs):
        rng = np.random.default_rng(1000 + seed)
        X, Y = rng.normal(size=(34, 2)), rng.normal(size=(22, 2))
        result = test.run(
            Stream.batches(cut(X, 3, 20)), Stream.batches(cut(Y, 11)), rng=seed, progress=False
        )
        rejected += result.reject(alpha)
    low, high = binom.ppf([5e-7, 1 - 5e-7], runs, alpha)
    assert low <= rejected <= high


# Bad input gets a sentence


def holey(rows: int, row: int):
    data = normal(rows)
    data[row, 2] = np.nan
    return data


BAD = {
    "missing": (
        lambda: cut(holey(50, 33), 10, 20),
        r"X contains 1 missing value \(first at row 33, column 2\); drop",
    ),
    "batch": (lambda: cut(holey(50, 33), 10, 20), r"this is batch 3 of X, which begins at row 20"),
    "infinite": (
        lambda: cut(normal(30) / (np.arange(30) != 25)[:, None], 20),
        r"3 non-finite values \(first at row 25",
    ),
    "images": (
        lambda: [np.zeros((3, 8, 8)), np.full((3, 8, 9), 1.0)],
        r"The first batch of X holds images of 1 x 8 x 8",
    ),
    "forms": (
        lambda: [normal(5), np.zeros((3, 8, 8))],
        r"batch 2 of X holds images but the first batch of X is a table",
    ),
    "width": (
        lambda: [normal(5), normal(5, 2)],
        r"The first batch of X has 3 columns but batch 2 of X has 2",
    ),
    "text": (
        lambda: [pd.DataFrame({"a": [str(i) for i in range(60)]})] * 2,
        r"X .*60 different values in column|numbers",
    ),
    "empty": (list, r"X is empty: its stream gave no rows"),
    "rows": (lambda: [normal(5)[:0]], r"X is empty: its stream gave no rows"),
    "words": (lambda: ["abc"], r"X is a single str, not rows"),
    "numbers": (lambda: [1, 2], r"X is a single int, not rows"),
    "objects": (
        lambda: [np.array([[None]])],
        r"X contains 1 missing value \(first at row 0, column 0\)",
    ),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("once", [True, False])
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_bad_batches_are_located(name, once, temporary):
    make, message = BAD[name]
    with np.errstate(all="ignore"):
        batches = make()
    other = pd.DataFrame({"a": ["b", "c"]}) if name == "text" else normal(9)
    strict = Columns(missing="error") if name in ("missing", "batch", "objects") else None
    stream = iter(batches) if once else Stream.batches(batches)
    with pytest.raises(InputError, match=message):
        FIXED.run(stream, other, rng=0, columns=strict)


def test_columns_must_be_the_same_in_all_batches():
    first = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]})
    with pytest.raises(
        InputError,
        match="The first batch of X and batch 2 of X have different columns; missing in batch 2",
    ):
        FIXED.run(Stream.batches([first, first.rename(columns={"b": "c"})]), first)
    with pytest.raises(
        InputError,
        match="batch 2 of X has numbers in column 'b', but strings or categories came before",
    ):
        FIXED.run(Stream.batches([first, first.assign(b=1.0)]), first)
    with pytest.raises(
        InputError, match="X has strings or categories in column 'b' but Y has numbers"
    ):
        FIXED.run(Stream.batches([first]), first.assign(b=1.0))
    with pytest.raises(InputError, match="X and Y have different columns; missing in Y: 'b'"):
        FIXED.run(Stream.batches([first]), first[["a"]])


def test_text_is_found_before_it_fills_the_memory(monkeypatch):
    words = pd.DataFrame({"a": [f"word {number}" for number in range(10_001)]})
    with pytest.raises(InputError, match=r"column 'a' \(more than 10000 different values in 40004"):
        FIXED.run(Stream.batches([words] * 3), words)


def test_warnings_are_those_of_samples_and_come_once():
    constant = np.column_stack([normal(20, 1), np.full(20, 3.0)])
    other = np.column_stack([normal(20, 1, seed=5), np.full(20, 3.0)])
    with pytest.warns(
        InputWarning, match=r"1 column is constant over X and Y together \(1\)"
    ) as caught:
        FIXED.run(Stream.batches(cut(constant, 5)), other, rng=0)
    assert len(caught) == 1
    table = pd.DataFrame({"a": [1.0, 2.0, 3.0, 5.0], "b": ["x", "y"] * 2})
    fitted = FIXED.fit(table, table)
    new = table.assign(b=["new", "x", "newer", "x"])
    with pytest.warns(
        InputWarning, match="X has 2 levels in column 'b' that the test was not fitted on"
    ) as caught:
        fitted.test(Stream.batches(cut(new, 2)), table, rng=0)
    assert len(caught) == 1


@pytest.mark.parametrize(("fraction", "rows"), [(0.5, 3), (None, 1)])
def test_too_few_rows(fraction, rows):
    test = trained() if fraction else FIXED
    with pytest.raises(InputError, match=f"X has {rows} row"):
        test.run(Stream.batches([normal(rows)]), normal(9), rng=0)


def test_what_cannot_be_a_stream():
    with pytest.raises(
        InputError, match="the batches are a int; pass an iterable of arrays or tables"
    ):
        Stream.batches(3)
    with pytest.raises(InputError, match="does not exist"):
        Stream.npy("nowhere.npy")
    with pytest.raises(InputError, match="does not exist"):
        Stream.parquet(["nowhere.parquet"])


def test_damaged_files(tmp_path):
    (tmp_path / "bad.npy").write_bytes(b"no numbers")
    (tmp_path / "bad.parquet").write_bytes(b"no table")
    pl.DataFrame({"a": [1.0]}).write_parquet(tmp_path / "good.parquet")
    np.savez(tmp_path / "array.npz", a=normal(3))
    np.save(tmp_path / "number.npy", 3.0)
    for make, name in ((Stream.npy, "bad.npy"), (Stream.parquet, "bad.parquet")):
        with pytest.raises(
            InputError, match=f"{name} cannot be read as|{name} holds Python objects"
        ):
            make(tmp_path / name)
    with pytest.raises(InputError, match=r"no column 'b'; it has a\."):
        Stream.parquet(tmp_path / "good.parquet", columns=["b"])
    with pytest.raises(InputError, match=r"is not an \.npy file"):
        Stream.npy(tmp_path / "array.npz")
    with pytest.raises(InputError, match="holds a single number"):
        Stream.npy(tmp_path / "number.npy")


def test_a_function_must_give_the_same_rows_each_time():
    once = iter(cut(normal(20), 5))
    with pytest.raises(
        InputError, match="X gave 20 rows when it was read first and 0 the next time"
    ):
        FIXED.run(Stream.batches(lambda: once), normal(9))
    calls = iter(range(9))
    with pytest.raises(InputError, match="X gave other rows when it was read again"):
        trained().run(Stream.batches(lambda: [normal(60, seed=next(calls))]), normal(30), rng=0)
    lengths = iter([30, 30, 20])
    with pytest.raises(InputError, match="X gave 30 rows when it was read first and 20 the next"):
        FIXED.run(Stream.batches(lambda: [normal(next(lengths))]), normal(9), rng=0)
    lengths = iter([30, 30, 40])
    with pytest.raises(InputError, match="X gave 30 rows when it was read first and 40 the next"):
        FIXED.run(Stream.batches(lambda: [normal(next(lengths))]), normal(9), rng=0)


def test_a_result_of_streams_says_that_its_rows_are_gone():
    result = FIXED.run(Stream.batches([normal(30)]), normal(30, seed=1), rng=0)
    assert result.samples is None and result.fitted is not None
    for question in (twosample.explain, twosample.predict_power):
        with pytest.raises(InputError, match="a test of streams keeps no rows"):
            question(result)


# Nothing is left behind


def test_a_stream_of_an_iterator_is_removed_with_it(temporary):
    stream = Stream.batches(iter(cut(normal(20), 5)))
    assert list(temporary.glob("twosample-*")) == []
    assert len(stream) == 20 and len(list(temporary.glob("twosample-*"))) == 1
    assert sum(map(len, stream)) == sum(map(len, stream)) == 20
    stream.close()
    assert list(temporary.glob("twosample-*")) == []
    with pytest.raises(InputError, match="this stream is closed"):
        len(stream)
    forgotten = Stream.batches(iter([normal(3)]))
    assert len(forgotten) == 3
    del forgotten
    gc.collect()


@pytest.mark.parametrize("where", ["iterator", "pass"])
def test_an_interruption_leaves_no_files(where, temporary, monkeypatch):
    def batches():
        yield normal(20)
        if where == "iterator":
            assert len(list(temporary.glob("twosample-*"))) == 1
            raise KeyboardInterrupt
        yield normal(20)

    def interrupted(self, data, for_quantiles):
        assert len(list(temporary.glob("twosample-*"))) == 1
        raise KeyboardInterrupt

    if where == "pass":
        monkeypatch.setattr(Profile, "include", interrupted)
    with pytest.raises(KeyboardInterrupt):
        FIXED.run(batches(), normal(9), rng=0)
    assert list(temporary.glob("twosample-*")) == []


def test_ctrl_c_in_a_program_leaves_no_files(tmp_path):
    program = (
        "import numpy as np, time, twosample\n"
        "def batches():\n"
        "    for step in range(10**6):\n"
        "        yield np.random.default_rng(step).normal(size=(100, 2))\n"
        "        print(step, flush=True); time.sleep(0.01)\n"
        "twosample.two_sample_test(batches(), batches(), 'mmd-median')\n"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(3):
        process.stdout.readline()
    assert list(tmp_path.glob("twosample-*"))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    assert not list(tmp_path.glob("twosample-*"))


def test_embedded_points_beyond_the_budget_are_in_a_file(temporary, monkeypatch):
    X, Y = normal(30_000, 5), normal(30_000, 5, seed=1)
    made = []
    original = embedding._mapped
    monkeypatch.setattr(embedding, "_mapped", lambda *shape: made.append(shape) or original(*shape))
    tests = [
        TwoSampleTest(
            OnFeatures(nn.Identity(), Linear()), calibration=Permutation(19), memory=memory
        )
        for memory in (2**20, 2**30)
    ]
    results = [test.run(Stream.batches(cut(X, 20_000)), Y, rng=0) for test in tests]
    assert [shape for shape, _ in made] == [(60_000, 5)]
    assert results[0].pvalue == results[1].pvalue
    assert results[0].statistic == pytest.approx(results[1].statistic, abs=1e-9)


def test_a_full_disk_is_a_sentence(temporary, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(
        InputError,
        match=r"batches of X cannot be written to .* \(No space left on device\); set TMPDIR",
    ):
        FIXED.run(iter([normal(20)]), normal(9))
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(InputError, match="the embedded points cannot be written"):
        embedding._mapped((3, 2), torch.float32)


# Memory


PEAK = """
import json, sys
def peak():
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
import numpy as np, torch, polars
from torch import nn
import twosample
from twosample import Gaussian, Learning, OnFeatures, Permutation, TwoSampleTest
from twosample._data.streams import Stream
from twosample._resources import Resources
torch.set_num_threads(1)
twosample.two_sample_test(torch.eye(40).numpy(), 2 * torch.eye(40).numpy(), "mmd-median")
torch.manual_seed(0)
network = nn.Linear(int(sys.argv[4]), 4)
learning = Learning(steps=2) if sys.argv[3] == "trained" else None
# As many points as are cheap to compare: a linear kernel needs no pairs.
test = TwoSampleTest(OnFeatures(network, twosample.Linear()), learning, calibration=Permutation(19), memory=2**26)
before = peak()
make = Stream.npy if sys.argv[1].endswith("npy") else Stream.parquet
result = test.run(make(sys.argv[1]), make(sys.argv[2]), rng=0, progress=False)
print(json.dumps([peak() - before, *result.sizes, *(result.train_sizes or ())]))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
@pytest.mark.parametrize(
    ("ending", "how", "rows"),
    [
        ("npy", "trained", 200_000),
        pytest.param("npy", "fixed", 200_000, marks=pytest.mark.slow),
        # In some runs polars keeps 40 MiB more than in others. A larger file leaves room for that.
        pytest.param("parquet", "fixed", 400_000, marks=pytest.mark.slow),
    ],
)
def test_peak_memory_does_not_grow_with_the_width_of_the_rows(ending, how, rows, tmp_path):
    columns = 200
    x, y = tmp_path / f"x.{ending}", tmp_path / f"y.{ending}"
    wide = np.random.default_rng(0).standard_normal((rows // 10, columns), dtype=np.float32)
    if ending == "npy":
        array = np.lib.format.open_memmap(x, mode="w+", dtype=np.float32, shape=(rows, columns))
        for start in range(0, rows, len(wide)):
            array[start : start + len(wide)] = wide
        del array
        np.save(y, wide[::-1])
    else:
        names = [f"c{place}" for place in range(columns)]
        pl.concat([pl.DataFrame(wide, schema=names)] * 10).write_parquet(x, row_group_size=20_000)
        pl.DataFrame(wide[::-1], schema=names).write_parquet(y)
    done = subprocess.run(
        [sys.executable, "-c", PEAK, x, y, how, str(columns)],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    peak, *sizes = json.loads(done.stdout)
    assert sum(sizes) == rows + rows // 10
    assert peak < 0.6 * rows * columns * 8, f"{peak / 2**20:.0f} MiB"


# The command line


def call(*words: str, code: int = 0):
    done = CliRunner().invoke(cli.build(), list(words))
    assert done.exit_code == code, (done.output, done.stderr, done.exception)
    return done


@pytest.mark.parametrize("ending", ["npy", "parquet"])
def test_the_command_line_streams_files(ending, tmp_path, monkeypatch):
    for name, seed, shift in (("x", 0, 0.0), ("y", 1, 1.0)):
        data = normal(60, 2, seed, shift)
        np.save(tmp_path / f"{name}.npy", data)
        pl.DataFrame(data, schema=["a", "b"]).write_parquet(tmp_path / f"{name}.parquet")
    words = [str(tmp_path / f"{name}.{ending}") for name in "xy"]
    quick = [
        "test",
        *words,
        "--method",
        "mmd-median",
        "--permutations",
        "99",
        "--seed",
        "0",
        "--json",
    ]

    def answered(*more: str) -> dict:
        answer = json.loads(call(*quick, *more).stdout)
        del answer["command"]
        # What takes another look at the rows is not there for a stream, which keeps none.
        for name in ("auc", "accuracy", "auc_interval", "changed", "mmd2_interval"):
            del answer["effect"][name]
        return answer

    plain = answered()
    streamed = answered("--stream")
    assert streamed == plain and streamed["rows"] == [60, 60]
    made = []
    original = module.Stream.__init__

    def counting(self, parts):
        original(self, parts)
        if not self.in_memory:
            made.append(self)

    monkeypatch.setattr(module.Stream, "__init__", counting)
    assert answered() == plain and not made
    monkeypatch.setattr("twosample._files.opening.available_memory", lambda: 1000)
    assert answered() == plain and made
    made.clear()
    assert (
        "explanation" in json.loads(call(*quick, "--explain").stdout) and not made
    )  # it needs the rows


def test_the_command_line_says_what_cannot_be_streamed(tmp_path):
    np.save(tmp_path / "x.npy", normal(30))
    npy = str(tmp_path / "x.npy")
    assert (
        "--explain needs the rows" in call("test", npy, npy, "--stream", "--explain", code=2).stderr
    )


def test_the_page_gives_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "streams.md"
    results = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert results.attempted > 5 and results.failed == 0
