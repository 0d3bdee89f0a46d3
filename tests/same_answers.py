"""The bank of same answers: named calls of public functions, and what they gave before a change.

`CALLS` has the calls, `same_answers.json` what each of them gave, `saved/same-*` the tests of
`FITS` in files of format 1. `test_same_answers.py` holds the present code against both. After a
change that is meant to change answers, record them anew and look at the difference in version
control:

    TWOSAMPLE_DATA=/path/to/data OMP_NUM_THREADS=1 python tests/same_answers.py --record

With names behind it only these calls are recorded, and no file of `saved/` is written. Recording
takes the real data sets and Dask, since a call that cannot be made would be lost.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import inspect
import json
import math
import os
import platform
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy
import torch
from safetensors import safe_open

import twosample
from twosample import MLP, MMD, HotellingT2, Learning, PairSwap, Permutation, SpectralLimit, Stream
from twosample._insight.power import corollary_split

HERE = Path(__file__).parent
ANSWERS = HERE / "same_answers.json"
SAVED = HERE / "saved"
DEMO = HERE.parent / "demo"

CALLS: dict[str, Callable[..., Any]] = {}
"""Name -> a call; its parameters, out of folder, data and client, are what it has to be given."""


def recorded(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Put a call into the bank."""

    def put(call: Callable[..., Any]) -> Callable[..., Any]:
        if name in CALLS:
            raise ValueError(f"there are two calls {name!r}.")
        CALLS[name] = call
        return call

    return put


# Samples


def points(
    rows: int,
    seed: int,
    *,
    columns: int = 3,
    shift: float = 0.0,
    spread: float = 1.0,
) -> np.ndarray:
    return np.random.default_rng(seed).normal(shift, spread, (rows, columns))


def two(
    rows_x: int, rows_y: int, seed: int = 0, spread: float = 1.4
) -> tuple[np.ndarray, np.ndarray]:
    """Two samples of points that differ in their spread."""
    return points(rows_x, 2 * seed), points(rows_y, 2 * seed + 1, spread=spread)


def orders(rows: int, seed: int, *, drift: float = 0.0) -> dict[str, list[Any]]:
    """A table of a number, a whole number, a truth and a category."""
    rng = np.random.default_rng(seed)
    return {
        "amount": [float(value) for value in rng.normal(5 + drift, 2, rows)],
        "items": [int(value) for value in rng.integers(1, 6, rows)],
        "new": [bool(value) for value in rng.random(rows) < 0.4 + drift / 5],
        "colour": [str(value) for value in rng.choice(["red", "grün", "blue"], rows)],
    }


def gappy(rows: int, seed: int, *, drift: float = 0.0) -> dict[str, list[Any]]:
    """The same with values that are missing, of a number and of a category."""
    table = orders(rows, seed, drift=drift)
    rng = np.random.default_rng(seed + 1000)
    for name in ("amount", "colour"):
        table[name] = [None if rng.random() < 0.15 else value for value in table[name]]
    return table


def images(
    rows: int, seed: int, *, brighter: int = 0, shape: tuple[int, ...] = (8, 9)
) -> np.ndarray:
    return np.random.default_rng(seed).integers(
        brighter, 200 + brighter, (rows, *shape), dtype=np.uint8
    )


@functools.cache
def arrays(file: Path) -> Mapping[str, np.ndarray]:
    """All arrays of a real data set, read once."""
    with np.load(file, allow_pickle=False) as opened:
        return {name: opened[name] for name in opened.files}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def small_network() -> MLP:
    return MLP(3, width=5, layers=2, generator=seeded())


def small_pictures_network(**options: Any) -> twosample.ConvNet:
    return twosample.ConvNet((1, 8, 9), width=5, channels=(2, 3), generator=seeded(), **options)


def untrained(representation: Any, **options: Any) -> twosample.TwoSampleTest:
    return twosample.TwoSampleTest(representation, **{"calibration": Permutation(199), **options})


def trained(representation: Any, *, steps: int = 6, **options: Any) -> twosample.TwoSampleTest:
    return untrained(representation, **{"learning": Learning(steps=steps), **options})


def mean_embedding(**options: Any) -> twosample.TwoSampleTest:
    learning = Learning(twosample.Noncentrality(), steps=6, batch_size=5000)
    return untrained(twosample.MeanEmbedding(3), learning=learning, **options)


def short(column: str) -> twosample.TwoSampleTest:
    """One of the ablation table, in its second stage too."""
    test = twosample.ablation(column, permutations=199, steps=8)
    learning = dataclasses.replace(test.learning, steps=8)
    return dataclasses.replace(test, learning=learning)


def with_fewer_rows(test: twosample.TwoSampleTest) -> twosample.TwoSampleTest:
    """The test, whose second one is run from 500 rows on."""
    then = dataclasses.replace(test.then, least_rows=500)
    return dataclasses.replace(test, then=then)


# Tests of points in memory: each of them on samples of two sizes, or of one where it takes pairs.

EQUAL = (70, 70)
UNEQUAL = (80, 60)

TESTS: dict[str, tuple[Callable[[], twosample.TwoSampleTest], tuple[int, int]]] = {
    "method spectral": (lambda: twosample.spectral(permutations=199), UNEQUAL),
    "method auto": (lambda: with_fewer_rows(twosample.auto(permutations=199, steps=8)), (520, 505)),
    "method mmd-d": (lambda: twosample.mmd_d(permutations=199, steps=12), UNEQUAL),
    "method mmd-o": (lambda: twosample.mmd_o(permutations=199, steps=12), UNEQUAL),
    "method mmd-mkl": (lambda: twosample.mmd_mkl(permutations=199), UNEQUAL),
    "method mmd-median": (lambda: twosample.mmd_median(permutations=199), UNEQUAL),
    "method mmd-fuse": (lambda: twosample.mmd_fuse(permutations=199), UNEQUAL),
    "method mmd-agg": (lambda: twosample.mmd_agg(permutations=199), UNEQUAL),
    "method mmd-block": (lambda: twosample.mmd_block(permutations=199, steps=8), UNEQUAL),
    "method mmd-compressed": (lambda: twosample.mmd_compressed(permutations=199, steps=8), UNEQUAL),
    "method me": (lambda: twosample.me(3, permutations=199, steps=8), UNEQUAL),
    "method scf": (lambda: twosample.scf(3, permutations=199, steps=8), UNEQUAL),
    "method c2st-s": (lambda: twosample.c2st_s(permutations=199, steps=60), UNEQUAL),
    "method c2st-l": (lambda: twosample.c2st_l(permutations=199, steps=20), UNEQUAL),
    "method c2st-trees": (lambda: twosample.c2st_trees(permutations=199), UNEQUAL),
    "mmd-d of a network of its own": (
        lambda: twosample.mmd_d(small_network(), permutations=199, steps=10),
        EQUAL,
    ),
    "mmd-o of a Laplace kernel": (
        lambda: twosample.mmd_o(twosample.Laplace(), permutations=199, steps=8),
        UNEQUAL,
    ),
    "mmd-o of an inverse multiquadric": (
        lambda: twosample.mmd_o(twosample.InverseMultiquadric(), permutations=199, steps=8),
        UNEQUAL,
    ),
    "mmd-o with a width for every column": (
        lambda: twosample.mmd_o(twosample.ARDGaussian(), permutations=199, steps=8),
        EQUAL,
    ),
    "mmd-mkl of other kernels, by the ridge": (
        lambda: trained(
            twosample.WeightedSum(
                [twosample.Gaussian(0.5), twosample.Laplace(), twosample.Linear()]
            ),
            learning=Learning(twosample.PowerCriterion(penalty="ridge"), steps=0),
        ),
        UNEQUAL,
    ),
    "mmd-block with a size of blocks": (
        lambda: trained(
            twosample.DeepKernel(small_network()),
            statistic=MMD("block", block_size=8),
            calibration=PairSwap(199),
        ),
        EQUAL,
    ),
    "mmd-block by its normal law": (lambda: twosample.mmd_block(asymptotic=True, steps=8), EQUAL),
    "mmd-compressed with few landmarks": (
        lambda: trained(
            twosample.DeepKernel(small_network()),
            statistic=MMD("compressed", landmarks=6),
        ),
        UNEQUAL,
    ),
    "me without training": (lambda: twosample.me(2, optimise=False, permutations=199), UNEQUAL),
    "me by its law": (lambda: twosample.me(2, asymptotic=True, steps=8, restarts=2), EQUAL),
    "scf without training": (lambda: twosample.scf(2, optimise=False, permutations=199), UNEQUAL),
    "scf by its law": (lambda: twosample.scf(2, asymptotic=True, steps=8, restarts=2), EQUAL),
    "locations that are given": (
        lambda: untrained(
            twosample.MeanEmbedding(torch.eye(3)[:2], twosample.Gaussian(1.5)),
            statistic=HotellingT2(),
        ),
        UNEQUAL,
    ),
    "T2 of pairs by swaps": (
        lambda: mean_embedding(statistic=HotellingT2(paired=True), calibration=PairSwap(199)),
        EQUAL,
    ),
    "c2st-s by its binomial law": (lambda: twosample.c2st_s(asymptotic=True, steps=20), UNEQUAL),
    "c2st-s, greater": (
        lambda: twosample.c2st_s(alternative="greater", permutations=199, steps=20),
        UNEQUAL,
    ),
    "c2st-s, greater, by its law": (
        lambda: twosample.c2st_s(alternative="greater", asymptotic=True, steps=20),
        UNEQUAL,
    ),
    "c2st-l, greater": (
        lambda: twosample.c2st_l(alternative="greater", permutations=199, steps=20),
        UNEQUAL,
    ),
    "c2st-l by probabilities": (
        lambda: twosample.c2st_l(probability=True, permutations=199, steps=20),
        EQUAL,
    ),
    "ablation S+C": (lambda: short("S+C"), UNEQUAL),
    "ablation G+C": (lambda: short("G+C"), UNEQUAL),
    "ablation D+C": (lambda: short("D+C"), EQUAL),
    "ablation L+M": (lambda: short("L+M"), UNEQUAL),
    "ablation D+M": (lambda: short("D+M"), UNEQUAL),
    "ablation L+J": (lambda: short("L+J"), EQUAL),
    "ablation G+J": (lambda: short("G+J"), UNEQUAL),
    "biased": (lambda: untrained(twosample.Gaussian(), statistic=MMD("biased")), UNEQUAL),
    "paired by permutations": (
        lambda: untrained(twosample.Gaussian(), statistic=MMD("paired")),
        EQUAL,
    ),
    "paired by swaps": (
        lambda: untrained(
            twosample.Laplace(),
            statistic=MMD("paired"),
            calibration=PairSwap(199),
        ),
        EQUAL,
    ),
    "biased by swaps": (
        lambda: untrained(
            twosample.Gaussian(0.8),
            statistic=MMD("biased"),
            calibration=PairSwap(199),
        ),
        UNEQUAL,
    ),
    "unbiased by its spectrum": (
        lambda: untrained(twosample.Gaussian(), calibration=SpectralLimit(299)),
        UNEQUAL,
    ),
    "biased by its spectrum": (
        lambda: untrained(
            twosample.Gaussian(),
            statistic=MMD("biased"),
            calibration=SpectralLimit(299, points=50),
        ),
        UNEQUAL,
    ),
    "paired by its spectrum": (
        lambda: untrained(
            twosample.Gaussian(),
            statistic=MMD("paired"),
            calibration=SpectralLimit(299),
        ),
        EQUAL,
    ),
    "features without training": (
        lambda: untrained(twosample.OnFeatures(small_network(), twosample.Linear())),
        UNEQUAL,
    ),
    "bins of few points, some of which stay": (
        lambda: untrained(
            twosample.Gaussian(),
            calibration=Permutation(199, bins=12, max_bins=15),
        ),
        (83, 130),
    ),
    "bins of pairs": (
        lambda: untrained(
            twosample.Gaussian(),
            statistic=MMD("paired"),
            calibration=PairSwap(199, bins=11),
        ),
        EQUAL,
    ),
    "many points in bins": (lambda: twosample.mmd_median(permutations=199), (1300, 1150)),
    "many points in bins, compressed": (
        lambda: trained(
            twosample.DeepKernel(small_network()),
            statistic=MMD("compressed"),
        ),
        (1300, 1150),
    ),
    "many points in bins, in blocks": (
        lambda: untrained(
            twosample.Gaussian(),
            statistic=MMD("block"),
            calibration=PairSwap(199),
        ),
        (1300, 1150),
    ),
    "many points in bins, by features": (
        lambda: mean_embedding(statistic=HotellingT2()),
        (1300, 1150),
    ),
    "little memory": (
        lambda: untrained(twosample.DeepKernel(small_network()), memory=2**20),
        (600, 500),
    ),
    "all labellings": (lambda: twosample.mmd_median(), (5, 4)),
    "all labellings, so few that it warns": (lambda: twosample.mmd_median(), (3, 3)),
    "all swaps": (
        lambda: untrained(
            twosample.Gaussian(),
            statistic=MMD("paired"),
            calibration=PairSwap(),
        ),
        (7, 7),
    ),
    "validation": (
        lambda: trained(
            twosample.DeepKernel(small_network()),
            learning=Learning(steps=60, validation_fraction=0.3, patience=20, learning_rate=5e-3),
        ),
        UNEQUAL,
    ),
    "restarts": (
        lambda: trained(
            twosample.DeepKernel(twosample.ResidualMLP(width=4, layers=2)),
            learning=Learning(steps=10, restarts=3),
        ),
        UNEQUAL,
    ),
    "batches, a constant schedule, lambda of the theorems": (
        lambda: trained(
            twosample.DeepKernel(small_network()),
            learning=Learning(
                twosample.PowerCriterion("n^(-1/3)", paired=False),
                train_fraction=0.3,
                steps=12,
                batch_size=10,
                learning_rate=1e-3,
                scale_rate=2e-2,
                schedule="constant",
            ),
        ),
        EQUAL,
    ),
    "validation and restarts of locations": (
        lambda: twosample.me(2, permutations=199, steps=40, restarts=2, validation_fraction=0.25),
        UNEQUAL,
    ),
}


def _run(make: Callable[[], twosample.TwoSampleTest], sizes: tuple[int, int]) -> Any:
    # A small difference: a p-value at the end of its range would not notice much.
    return make().run(*two(*sizes, spread=1.25 if max(sizes) < 500 else 1.03), rng=7)


for _name, (_make, _sizes) in TESTS.items():
    recorded(_name)(functools.partial(_run, _make, _sizes))


# The one verb


@recorded("by name, with options")
def by_name() -> Any:
    return twosample.two_sample_test(
        *two(60, 50, 1),
        "mmd-o",
        permutations=99,
        train_fraction=0.4,
        rng=3,
    )


@recorded("auto, few points")
def auto_few() -> Any:
    return twosample.two_sample_test(*two(50, 60, 2), "auto", permutations=99, rng=3)


@recorded("auto, enough points")
def auto_enough() -> Any:
    return twosample.two_sample_test(*two(110, 100, 3, 1.2), "auto", permutations=99, rng=3)


@recorded("auto, an iterator")
def auto_iterator() -> Any:
    sample_x, sample_y = two(110, 100, 4)
    return twosample.two_sample_test(
        iter(np.array_split(sample_x, 3)),
        sample_y,
        "auto",
        permutations=99,
        rng=3,
    )


@recorded("a generator is advanced")
def generator_advanced() -> Any:
    rng = np.random.default_rng(11)
    samples = two(30, 40, 5)
    return [twosample.two_sample_test(*samples, "mmd-median", rng=rng) for _ in range(2)]


@recorded("a seed sequence, tensors and lists")
def seed_sequence() -> Any:
    sample_x, sample_y = two(30, 40, 6)
    return twosample.two_sample_test(
        torch.tensor(sample_x),
        sample_y.tolist(),
        "mmd-median",
        rng=np.random.SeedSequence(5),
    )


@recorded("ties")
def ties() -> Any:
    sample_x, sample_y = (np.round(sample) for sample in two(40, 50, 7))
    return twosample.two_sample_test(sample_x, sample_y, "mmd-median", permutations=199, rng=1)


@recorded("a classifier of scikit-learn")
def classifier_of_sklearn() -> Any:
    from sklearn.linear_model import LogisticRegression

    test = twosample.c2st_l(classifier=LogisticRegression(), permutations=199)
    sample_x = points(60, 0)
    return test.run(sample_x, points(50, 1, shift=0.3), rng=2)


# Tables


@recorded("a pandas table")
def pandas_table() -> Any:
    sample_x = pd.DataFrame(orders(70, 0))
    sample_y = pd.DataFrame(orders(60, 1, drift=0.5))
    return twosample.mmd_o(permutations=199, steps=8).run(sample_x, sample_y, rng=0)


@recorded("a polars table")
def polars_table() -> Any:
    sample_x = pl.DataFrame(orders(70, 0))
    sample_y = pl.DataFrame(orders(60, 1, drift=0.5))
    return twosample.mmd_d(permutations=199, steps=8).run(sample_x, sample_y, rng=0)


@recorded("a pyarrow table, categories of pandas")
def arrow_table() -> Any:
    sample_x = pa.table(orders(70, 2))
    sample_y = pd.DataFrame(orders(60, 3, drift=0.5)).astype({"colour": "category"})
    return twosample.mmd_median(permutations=199).run(sample_x, sample_y, rng=0)


@recorded("missing values, an indicator, pandas")
def missing_indicator() -> Any:
    return twosample.mmd_o(permutations=199, steps=8).run(
        pd.DataFrame(gappy(80, 0)),
        pd.DataFrame(gappy(60, 1, drift=0.5)),
        rng=0,
        columns=twosample.Columns(missing="indicator"),
    )


@recorded("missing values, rows dropped, polars")
def missing_dropped() -> Any:
    return twosample.two_sample_test(
        pl.DataFrame(gappy(80, 2)),
        pl.DataFrame(gappy(60, 3, drift=0.5)),
        "mmd-median",
        permutations=199,
        rng=0,
        columns=twosample.Columns(missing="drop"),
    )


@recorded("columns kept, dropped and of other kinds")
def columns_chosen() -> Any:
    sample_x = pd.DataFrame(orders(70, 4))
    sample_y = pd.DataFrame(orders(60, 5, drift=0.5))
    rules = (
        twosample.Columns(drop=["colour"], kinds={"items": "category"}),
        twosample.Columns(keep=["new", "amount"]),
    )
    test = twosample.mmd_median(permutations=199)
    return [test.run(sample_x, sample_y, rng=0, columns=columns) for columns in rules]


@recorded("tables of the demonstration")
def demonstration() -> Any:
    last = pd.read_csv(DEMO / "orders_last_month.csv")
    this = pd.read_csv(DEMO / "orders_this_month.csv")
    return twosample.mmd_o(permutations=199, steps=10).run(last, this, rng=0)


# Images


@recorded("images of bytes, the network by default")
def images_of_bytes() -> Any:
    test = twosample.mmd_d(permutations=199, steps=4)
    return test.run(images(40, 0), images(36, 1, brighter=5), rng=0)


@recorded("images of bytes in colour")
def images_in_colour() -> Any:
    test = twosample.mmd_o(permutations=199, steps=6)
    shape = (6, 5, 3)
    return test.run(images(40, 2, shape=shape), images(36, 3, shape=shape, brighter=5), rng=0)


@recorded("images of floats, ranks, normalised by the batch")
def images_of_floats() -> Any:
    network = small_pictures_network(ranks=True, normalisation="batch")
    sample_x = images(40, 4)[:, None] / 255.0
    sample_y = images(36, 5, brighter=9)[:, None] / 255.0
    return twosample.mmd_d(network, permutations=199, steps=5).run(sample_x, sample_y, rng=0)


@recorded("classified images")
def images_classified() -> Any:
    network = small_pictures_network()
    test = twosample.c2st_l(network, permutations=199, steps=8)
    return test.run(images(40, 6), images(40, 7, brighter=9), rng=0)


# Streams


@recorded("a stream of batches by a function")
def stream_of_batches() -> Any:
    sample_x, sample_y = two(90, 80, 8)
    return twosample.mmd_o(permutations=199, steps=8).run(
        Stream.batches(lambda: iter(np.array_split(sample_x, 4))),
        Stream.batches(np.array_split(sample_y, 3)),
        rng=0,
    )


@recorded("a stream of batches of tables, an indicator")
def stream_of_tables() -> Any:
    table_x = pl.DataFrame(gappy(90, 4))
    table_y = pl.DataFrame(gappy(70, 5, drift=0.5))
    return twosample.mmd_median(permutations=199).run(
        Stream.batches([table_x[:40], table_x[40:]]),
        table_y,
        rng=0,
        columns=twosample.Columns(missing="indicator"),
    )


@recorded("a stream of tables that come once, rows dropped")
def stream_of_tables_once() -> Any:
    table_x = pd.DataFrame(gappy(90, 4))
    table_y = pd.DataFrame(gappy(70, 5, drift=0.5))
    return twosample.mmd_o(permutations=199, steps=8).run(
        iter([table_x[:40], table_x[40:]]),
        iter([table_y]),
        rng=0,
        columns=twosample.Columns(missing="drop"),
    )


@recorded("a stream of NPY files")
def stream_of_npy(folder: Path) -> Any:
    sample_x, sample_y = two(120, 90, 9)
    np.save(folder / "first.npy", sample_x[:50])
    np.save(folder / "second.npy", sample_x[50:])
    np.save(folder / "other.npy", sample_y.astype(np.float32))
    return twosample.mmd_compressed(small_network(), landmarks=8, permutations=199, steps=6).run(
        Stream.npy([folder / "first.npy", folder / "second.npy"]),
        Stream.npy(folder / "other.npy"),
        rng=0,
    )


@recorded("a stream of Parquet files")
def stream_of_parquet(folder: Path) -> Any:
    pl.DataFrame(orders(90, 6)).write_parquet(folder / "first.parquet", row_group_size=32)
    pl.DataFrame(orders(70, 7, drift=0.5)).write_parquet(folder / "other.parquet")
    return twosample.me(2, permutations=199, steps=6, restarts=2).run(
        Stream.parquet(folder / "first.parquet"),
        Stream.parquet([folder / "other.parquet"]),
        rng=0,
    )


@recorded("a memory map that is read as a stream")
def memory_map(folder: Path) -> Any:
    np.save(folder / "large.npy", points(9500, 0, columns=4))
    large = np.load(folder / "large.npy", mmap_mode="r")
    test = untrained(twosample.Gaussian(), memory=2**20)
    return test.run(large, points(150, 1, columns=4, spread=1.1), rng=0)


@recorded("a memory map that is small")
def small_memory_map(folder: Path) -> Any:
    sample_x, sample_y = two(60, 50, 10)
    np.save(folder / "small.npy", sample_x)
    small = np.load(folder / "small.npy", mmap_mode="r")
    return twosample.mmd_median(permutations=199).run(small, sample_y, rng=0)


@recorded("a stream of images")
def stream_of_images(folder: Path) -> Any:
    np.save(folder / "images.npy", images(40, 8))
    test = twosample.mmd_d(small_pictures_network(), permutations=199, steps=4)
    return test.run(Stream.npy(folder / "images.npy"), images(36, 9, brighter=9), rng=0)


@recorded("fitted on a stream, tested on a stream and in memory")
def fitted_on_a_stream() -> Any:
    sample_x, sample_y = two(160, 140, 11)
    fitted = twosample.mmd_o(permutations=199, steps=8).fit(
        Stream.batches(np.array_split(sample_x[:80], 3)),
        sample_y[:70],
        rng=0,
    )
    streamed = fitted.test(Stream.batches([sample_x[80:]]), iter([sample_y[70:]]), rng=1)
    return [streamed, fitted.test(sample_x[80:], sample_y[70:], rng=1)]


# Fitted tests


@recorded("fitted once, tested twice")
def fitted_once() -> Any:
    fitted = twosample.mmd_d(small_network(), permutations=199, steps=8).fit(*two(60, 50), rng=0)
    return [fitted.test(*two(40, 45, seed), rng=1) for seed in (1, 2)]


@recorded("saved and loaded")
def saved_and_loaded(folder: Path) -> Any:
    result = twosample.scf(2, permutations=199, steps=6, restarts=2).run(*two(60, 50), rng=0)
    result.fitted.save(folder / "test.safetensors", notes={"seed": 0})
    return twosample.load(folder / "test.safetensors").test(*two(40, 45, 1), rng=1)


# Comparing, explaining, planning


def samples_of_days() -> dict[str, np.ndarray]:
    return {
        "monday": points(50, 21),
        "tuesday": points(60, 22, shift=0.6),
        "wednesday": points(55, 23, spread=1.2),
    }


@recorded("compare, Holm")
def compare_by_holm() -> Any:
    return twosample.compare(points(60, 20), samples_of_days(), "mmd-median", rng=0)


@recorded("compare, Benjamini-Hochberg, trained")
def compare_trained() -> Any:
    test = twosample.mmd_o(permutations=99, steps=6)
    return twosample.compare(points(60, 20), samples_of_days(), test, correction="bh", rng=0)


@recorded("compare, Benjamini-Yekutieli, tables")
def compare_tables() -> Any:
    return twosample.compare(
        pd.DataFrame(gappy(60, 0)),
        {str(drift): pd.DataFrame(gappy(50, 1, drift=drift)) for drift in (0.0, 0.4, 1.5)},
        twosample.mmd_median(permutations=199),
        correction="by",
        alpha=0.1,
        rng=np.random.default_rng(3),
        columns=twosample.Columns(missing="drop"),
    )


@recorded("compare, not adjusted, by features")
def compare_not_adjusted() -> Any:
    test = twosample.me(2, permutations=99, steps=6, restarts=1)
    return twosample.compare(points(60, 20), samples_of_days(), test, correction="none", rng=0)


@recorded("explain a table")
def explain_table() -> Any:
    result = twosample.mmd_o(permutations=199, steps=8).run(
        pd.DataFrame(gappy(80, 8)),
        pd.DataFrame(gappy(70, 9, drift=1.0)),
        rng=0,
        columns=twosample.Columns(missing="indicator"),
    )
    explanation = twosample.explain(result, rows=4, rng=1)
    return [result, explanation, explanation.witness(pd.DataFrame(gappy(5, 10)))]


@recorded("explain a deep kernel, Benjamini-Hochberg")
def explain_deep() -> Any:
    result = twosample.mmd_d(small_network(), permutations=199, steps=8).run(*two(80, 70), rng=0)
    return twosample.explain(result, rows=3, correction="bh", shuffles=2, max_points=20, rng=1)


@recorded("explain widths of columns")
def explain_widths() -> Any:
    test = twosample.mmd_o(twosample.ARDGaussian(), permutations=199, steps=8)
    result = test.run(*two(60, 60), rng=0)
    return twosample.explain(result, rows=2, correction="none", rng=1)


@recorded("explain features")
def explain_features() -> Any:
    result = twosample.me(2, permutations=199, steps=6, restarts=1).run(*two(80, 70), rng=0)
    return [twosample.explain(result, rows=3, rng=1), twosample.witness(result, points(4, 99))]


@recorded("explain a classifier")
def explain_classifier() -> Any:
    result = twosample.c2st_l(permutations=199, steps=10).run(*two(80, 70), rng=0)
    return [twosample.explain(result, rows=3, rng=1), twosample.witness(result, points(4, 99))]


@recorded("explain blocks")
def explain_blocks() -> Any:
    test = trained(twosample.Gaussian(), statistic=MMD("block"), calibration=PairSwap(199))
    return twosample.explain(test.run(*two(80, 80), rng=0), rows=3, rng=1)


@recorded("explain compressed samples")
def explain_compressed() -> Any:
    test = trained(twosample.Gaussian(), statistic=MMD("compressed", landmarks=9))
    return twosample.explain(test.run(*two(80, 70), rng=0), rows=3, rng=1)


@recorded("explain a law, which has no shuffles")
def explain_law() -> Any:
    result = twosample.c2st_s(asymptotic=True, steps=10).run(*two(60, 60), rng=0)
    return twosample.explain(result, rows=2, shuffles=0, rng=1)


@recorded("explain images")
def explain_images() -> Any:
    test = twosample.mmd_d(small_pictures_network(), permutations=199, steps=4)
    result = test.run(images(40, 10), images(36, 11, brighter=9), rng=0)
    return twosample.explain(result, rows=2, rng=1)


@recorded("power, unbiased")
def power_unbiased() -> Any:
    result = twosample.mmd_o(permutations=199, steps=8).run(*two(90, 70), rng=0)
    return twosample.predict_power(result)


@recorded("power, biased and paired")
def power_biased() -> Any:
    tests = [untrained(twosample.Gaussian(), statistic=MMD(kind)) for kind in ("biased", "paired")]
    return [twosample.predict_power(test.run(*two(40, 40), rng=0)) for test in tests]


@recorded("how to split")
def how_to_split() -> Any:
    test = twosample.mmd_o(permutations=99, steps=3)
    choice = twosample.choose_split(test, *two(60, 50), total=500, repeats=1, rng=0)
    return [dataclasses.asdict(choice), corollary_split(5000)]


@recorded("locations, selected of a result")
def locations_selected() -> Any:
    samples = two(60, 50)
    result = twosample.mmd_o(permutations=99, steps=6).run(*samples, rng=0)
    return twosample.locations(result, *samples, 2, permutations=199, rng=1)


@recorded("locations, trained and joint")
def locations_trained() -> Any:
    samples = two(60, 50)
    fitted = twosample.mmd_d(small_network(), permutations=99, steps=6).fit(*samples, rng=0)
    found = [
        twosample.locations(fitted, *samples, 2, how=how, permutations=99, rng=1, steps=5)
        for how in ("trained", "joint")
    ]
    return [found, [places.fitted.test(*two(40, 45, 1), rng=2) for places in found]]


@recorded("locations of images")
def locations_of_images() -> Any:
    samples = (images(40, 10), images(36, 11, brighter=9))
    test = twosample.mmd_d(small_pictures_network(), permutations=99, steps=4)
    result = test.run(*samples, rng=0)
    return twosample.locations(result, *samples, 1, permutations=99, rng=1)


# Parts by themselves


@recorded("kernels in float64")
def kernels_in_double() -> Any:
    """Values, sums and medians, with no network that was trained."""
    sample = torch.tensor(points(30, 0))
    bins = torch.arange(30) // 6
    kernels = {
        "gaussian": twosample.Gaussian(1.3),
        "laplace": twosample.Laplace(0.7),
        "inverse multiquadric": twosample.InverseMultiquadric(0.9),
        "widths": twosample.ARDGaussian(widths=[0.5, 1.0, 2.0]),
        "linear": twosample.Linear(),
        "deep": twosample.DeepKernel(
            small_network(), twosample.Gaussian(0.4), twosample.Gaussian(1.1)
        ),
        "sum": twosample.WeightedSum([twosample.Gaussian(0.5), twosample.Laplace(2.0)], [0.3, 0.7]),
    }
    found: dict[str, Any] = {"median": twosample.median_bandwidth(sample, seeded())}
    for name, kernel in kernels.items():
        double = kernel.double().requires_grad_(False)
        found[name] = {
            "values": double(sample[:2], sample[2:5]).numpy(),
            "row sums": twosample.row_sums(
                double, sample, torch.ones(30, dtype=torch.float64)
            ).numpy(),
            "block sums": twosample.block_sums(double, sample, bins).numpy(),
        }
    return found


@recorded("objectives in float64, with gradients")
def objectives_in_double() -> Any:
    sample_x = torch.tensor(points(24, 0))
    found = {}
    for rows in (24, 18):
        sample_y = torch.tensor(points(rows, 1, spread=1.3))
        for objective in (twosample.PowerCriterion(), twosample.MeanDiscrepancy()):
            kernel = twosample.DeepKernel(
                small_network(),
                twosample.Gaussian(0.4),
                twosample.Gaussian(1.1),
            ).double()
            value = objective(kernel, sample_x, sample_y)
            value.backward()
            gradient = torch.cat([part.grad.flatten() for part in kernel.parameters()])
            found[f"{type(objective).__name__}, {rows} rows"] = [value.item(), gradient.numpy()]
    return found


# Real data


@recorded("HIGGS, jet angles")
def higgs(data: Path) -> Any:
    held = arrays(data / "higgs" / "higgs.npz")
    angles = held["features"][:, [7, 11, 15, 19]]
    sample_x = angles[held["label"] == 1][:150]
    sample_y = angles[held["label"] == 0][:130]
    return twosample.mmd_d(permutations=199, steps=10).run(sample_x, sample_y, rng=0)


@recorded("HIGGS, all columns, a classifier")
def higgs_classified(data: Path) -> Any:
    held = arrays(data / "higgs" / "higgs.npz")
    names = [str(name) for name in held["columns"]]
    tables = [
        pd.DataFrame(held["features"][held["label"] == label][:200], columns=names)
        for label in (1, 0)
    ]
    result = twosample.c2st_l(permutations=199, steps=30).run(*tables, rng=0)
    return [result, twosample.explain(result, rows=2, shuffles=1, rng=1)]


@recorded("digits of a generator, twice")
def digits(data: Path) -> Any:
    made = arrays(data / "fake_mnist" / "fake_mnist.npz")["images"]
    network = twosample.ConvNet(width=6, channels=(2, 3, 4), ranks=True)
    return twosample.mmd_d(network, permutations=199, steps=4).run(made[:60], made[60:110], rng=0)


@recorded("pictures in colour")
def pictures_in_colour(data: Path) -> Any:
    pictures = arrays(data / "cifar10" / "cifar10_test_jpeg.npz")["images"]
    test = twosample.me(2, permutations=199, steps=4, restarts=1)
    return test.run(pictures[:60], pictures[60:110], rng=0)


# A cluster


@recorded("a cluster, a deep kernel in little memory")
def cluster_deep(client: Any) -> Any:
    test = untrained(twosample.DeepKernel(small_network()), memory=2**20)
    return test.run(*two(600, 500, spread=1.05), rng=0, client=client)


@recorded("a cluster, a stream")
def cluster_stream(client: Any, folder: Path) -> Any:
    sample_x, sample_y = two(160, 140, 12)
    np.save(folder / "first.npy", sample_x)
    test = twosample.mmd_compressed(small_network(), landmarks=8, permutations=199, steps=4)
    return test.run(Stream.npy(folder / "first.npy"), sample_y, rng=0, client=client)


# Tests in files


class Fit(NamedTuple):
    """How a file of `saved/` was made, and samples to test it on."""

    fit: Callable[[], twosample.FittedTest]
    fresh: Callable[[], tuple[Any, Any]]


def fitted_on_points(test: twosample.TwoSampleTest, rows: int = 30) -> twosample.FittedTest:
    return test.fit(*two(30, rows), rng=0)


def fresh_points() -> tuple[np.ndarray, np.ndarray]:
    return two(40, 40, 31, spread=1.3)


def fresh_tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    return pd.DataFrame(gappy(40, 32)), pd.DataFrame(gappy(36, 33, drift=0.5))


def fresh_images() -> tuple[np.ndarray, np.ndarray]:
    return images(30, 34), images(28, 35, brighter=9)


def fit_of_tables(test: twosample.TwoSampleTest) -> twosample.FittedTest:
    return test.fit(
        pd.DataFrame(gappy(50, 0)),
        pd.DataFrame(gappy(40, 1, drift=0.5)),
        rng=0,
        columns=twosample.Columns(drop=["items"], missing="indicator"),
    )


FITS: dict[str, Fit] = {
    "block": Fit(
        lambda: fitted_on_points(twosample.mmd_block(small_network(), permutations=99, steps=4)),
        fresh_points,
    ),
    "compressed": Fit(
        lambda: fitted_on_points(
            twosample.mmd_compressed(small_network(), landmarks=6, permutations=99, steps=4),
            rows=26,
        ),
        fresh_points,
    ),
    "locations": Fit(
        lambda: fitted_on_points(twosample.me(2, permutations=99, steps=4, restarts=2)),
        fresh_points,
    ),
    "frequencies-by-law": Fit(
        lambda: fitted_on_points(twosample.scf(2, asymptotic=True, steps=4, restarts=1)),
        fresh_points,
    ),
    "classifier": Fit(
        lambda: fitted_on_points(
            twosample.c2st_l(small_network(), alternative="greater", permutations=99, steps=4)
        ),
        fresh_points,
    ),
    "decisions": Fit(
        lambda: fitted_on_points(twosample.c2st_s(small_network(), asymptotic=True, steps=4)),
        fresh_points,
    ),
    "sum-of-kernels": Fit(
        lambda: fitted_on_points(twosample.mmd_mkl(permutations=99)),
        fresh_points,
    ),
    "two-stages": Fit(
        lambda: fitted_on_points(
            untrained(
                twosample.DeepKernel(small_network()),
                learning=Learning(
                    steps=4,
                    validation_fraction=0.3,
                    pretraining=Learning(twosample.CrossEntropy(), steps=4),
                ),
                statistic=MMD("paired"),
                calibration=PairSwap(99),
            )
        ),
        fresh_points,
    ),
    "table": Fit(
        lambda: fit_of_tables(twosample.mmd_o(twosample.ARDGaussian(), permutations=99, steps=4)),
        fresh_tables,
    ),
    "images": Fit(
        lambda: twosample.mmd_d(small_pictures_network(), permutations=99, steps=4).fit(
            images(24, 0),
            images(20, 1, brighter=9),
            rng=0,
        ),
        fresh_images,
    ),
}


def file_of(name: str) -> Path:
    """Where a test of `FITS` is kept."""
    return SAVED / f"same-{name}.safetensors"


def _test_of_file(name: str) -> Any:
    return twosample.load(file_of(name)).test(*FITS[name].fresh(), rng=5)


for _name in FITS:
    recorded(f"file {_name}")(functools.partial(_test_of_file, _name))


LATER: dict[str, dict[str, Any]] = {"Column": {"unit": "", "pooled": 0}}
"""Fields that older files do not have, and what they stand for there."""


def with_present_defaults(tree: Any) -> Any:
    """The tree of an older file as a fit with the defaults of today makes it."""
    if isinstance(tree, dict):
        parts = {name: with_present_defaults(part) for name, part in tree.items()}
        if parts.get("class") == "Columns" and parts["missing"] == "error":
            parts["missing"] = None  # the default then, and now
        return parts
    return [with_present_defaults(part) for part in tree] if isinstance(tree, list) else tree


def content(file: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Format and tree of a saved test, without what differs at every saving, and its tensors."""
    with safe_open(file, "pt") as opened:
        header = json.loads(opened.metadata()["twosample"])
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    return {"format": header["format"], "test": _without_seconds(header["test"])}, tensors


def _without_seconds(tree: Any) -> Any:
    if isinstance(tree, dict):
        # Seconds differ at every saving, and a fingerprint is what older files do not have.
        kept = {name: part for name, part in tree.items() if name not in ("seconds", "fingerprint")}
        parts = {name: _without_seconds(part) for name, part in kept.items()}
        return LATER.get(str(tree.get("class")), {}) | parts
    if isinstance(tree, list):
        return [_without_seconds(part) for part in tree]
    return tree


# What is kept of an answer: texts, whole numbers, and floats that may differ by a tolerance


def described(answer: Any) -> Any:
    """What is compared of an answer, as JSON has it."""
    if isinstance(answer, twosample.TwoSampleResult):
        return _of_result(answer)
    if isinstance(answer, twosample.Explanation):
        return _of_explanation(answer)
    if isinstance(answer, twosample.Comparison):
        return _of_comparison(answer)
    if isinstance(answer, twosample.PredictedPower):
        return _of_power(answer)
    if isinstance(answer, twosample.Locations):
        return _of_locations(answer)
    if isinstance(answer, np.ndarray):
        return _of_array(answer)
    if isinstance(answer, Mapping):
        return {str(name): described(part) for name, part in answer.items()}
    if isinstance(answer, list | tuple):
        return [described(part) for part in answer]
    if isinstance(answer, np.generic):
        return answer.item()
    return answer


def _of_array(values: np.ndarray) -> dict[str, Any]:
    """Its shape, what does not depend on its order, and what does."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    weights = np.cos(np.arange(len(flat)))
    return {
        "shape": list(values.shape),
        "scale": float(np.abs(flat).max()),
        "mean": float(flat.mean()),
        "deviation": float(flat.std()),
        "least": float(flat.min()),
        "median": float(np.median(flat)),
        "largest": float(flat.max()),
        "first": float(flat[0]),
        "last": float(flat[-1]),
        "in this order": float(weights @ flat / len(flat)),
    }


def _counted(pvalue: float, shuffles: int) -> Any:
    """A p-value as how many of how many shuffles; itself where it comes from a law."""
    total = shuffles + 1
    count = round(pvalue * total)
    if shuffles and math.isclose(pvalue, count / total, rel_tol=1e-12):
        return [count, total]
    return pvalue


def _of_result(result: twosample.TwoSampleResult) -> dict[str, Any]:
    null = result.null_distribution
    training = None
    if result.training is not None:
        training = {
            "steps": result.training.steps,
            "best step": result.training.best_step,
            "stopped": result.training.stopped,
            "objective": [*result.training.objective[:1], *result.training.objective[-1:]],
            "validation": [list(pair) for pair in result.training.validation[-2:]],
        }
    return {
        "method": result.method,
        "chosen": result.chosen,
        "calibration": result.calibration,
        "sizes": list(result.sizes),
        "train sizes": described(result.train_sizes),
        "dropped": list(result.dropped),
        "pvalue": _counted(result.pvalue, len(null)),
        # An unbiased statistic may be near 0: its errors are measured by the values it may have.
        "scale": float(np.abs([result.statistic, *null]).max()),
        "statistic": result.statistic,
        "null": _of_array(null) if len(null) else None,
        "effect": _of_effect(result.effect),
        "training": training,
    }


def _of_effect(effect: twosample.Effect) -> dict[str, float | None]:
    """What the statistic itself says; what is computed when it is asked for is left out."""
    names = ("mmd", "criterion", "power", "accuracy", "auc")
    return {name: effect.__dict__[name] for name in names}


def _of_explanation(explanation: twosample.Explanation) -> dict[str, Any]:
    shuffles = len(explanation.result.null_distribution)
    contributions = [_of_array(part) for part in explanation.contributions]
    columns = []
    for column in explanation.columns:
        found = column.to_dict()
        found["pvalue"] = _counted(column.pvalue, shuffles)
        columns.append(found)
    rows = {
        sample: [_of_row(row) for row in telling]
        for sample, telling in (("X", explanation.rows_x), ("Y", explanation.rows_y))
    }
    return {
        "method": explanation.method,
        "pvalue": _counted(explanation.pvalue, shuffles),
        "scale": max(part["scale"] for part in contributions),
        "statistic": explanation.statistic,
        "correction": explanation.correction,
        "calibration": explanation.calibration,
        "columns": columns,
        "differing": explanation.reject(0.2),
        "rows": rows,
        "contributions": contributions,
        "importance from": explanation.importance_from,
        "notes": list(explanation.notes),
    }


def _of_row(row: twosample.TellingRow) -> dict[str, Any]:
    pixels = row.pixels
    return {**row.to_dict(), "pixels": None if pixels is None else _of_array(np.asarray(pixels))}


def _of_comparison(comparison: twosample.Comparison) -> dict[str, Any]:
    return {
        "names": list(comparison.names),
        "correction": comparison.correction,
        "alpha": comparison.alpha,
        "adjusted": comparison.adjusted,
        "rejected": comparison.reject(),
        "seeds": dict(comparison.seeds),
        "failures": dict(comparison.failures),
        "notes": list(comparison.notes),
        "results": {name: _of_result(result) for name, result in comparison.items()},
    }


def _of_power(plan: twosample.PredictedPower) -> dict[str, Any]:
    return {
        "estimator": plan.estimator,
        "sizes": list(plan.sizes),
        "mmd2": plan.mmd2,
        "standard error": plan.standard_error,
        "criterion": plan.criterion,
        "first order": list(plan.first_order),
        "second order": list(plan.second_order),
        "bias": list(plan.bias),
        "threshold": plan.threshold(100),
        "power": [plan.power(size) for size in (20, 50, 200)],
        "interval": list(plan.power_interval(50)),
        "samples needed": plan.samples_needed(),
        "smallest effect": list(plan.smallest_effect(100)),
    }


def _of_locations(found: twosample.Locations) -> dict[str, Any]:
    return {
        "how": found.how,
        "rows": described(found.rows),
        "values": described(found.values),
        "result": None if found.result is None else _of_result(found.result),
    }


def answered(name: str, **given: Any) -> Any:
    """Make a call with what it needs out of `given`; its answer, and of which kinds it warned."""
    call = CALLS[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", twosample.InputWarning)
        warnings.simplefilter("always", twosample.TrainingWarning)
        answer = described(call(**{need: given[need] for need in needs(name)}))
    ours = [
        warning.category.__name__
        for warning in caught
        if issubclass(warning.category, twosample.InputWarning | twosample.TrainingWarning)
    ]
    return {"answer": answer, "warnings": ours}


def needs(name: str) -> list[str]:
    """What a call has to be given: any of folder, data, client."""
    return list(inspect.signature(CALLS[name]).parameters)


@contextmanager
def cluster() -> Iterator[Any]:
    """A client of two workers of one thread each, in this process: no other one has to start."""
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            dashboard_address="127.0.0.1:0",  # a port that nobody has: others may run one too
        ) as workers,
        distributed.Client(workers, set_as_default=False) as client,
    ):
        yield client


# Comparing with what was recorded


def machine() -> dict[str, str]:
    """What rounding depends on; where it is the same, answers are so to the last bits."""
    return {
        "processor": _processor(),
        "vector instructions": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__.partition("+")[0],  # without the name of the build
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }


def _processor() -> str:
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    names = ("vendor_id", "cpu family", "model", "model name")
    found = [line.split(":")[1].strip() for line in lines if line.split("\t")[0] in names]
    return " ".join(found[: len(names)]) or platform.processor() or platform.machine()


def differences(
    was: Any, now: Any, tolerance: float, *, at: str = "", scale: float = 0.0
) -> list[str]:
    """Where two answers differ, in sentences.

    Texts, whole numbers and truths must be equal, floats so up to `tolerance` of the larger one, or
    of the "scale" that the nearest part above them has.
    """
    if isinstance(was, dict) and isinstance(now, dict):
        if was.keys() != now.keys():
            return [f"{at}: the parts were {sorted(was)} and are {sorted(now)}"]
        own = float(was.get("scale") or scale) if "scale" in was else scale
        parts = [(name, was[name], now[name]) for name in was]
    elif isinstance(was, list) and isinstance(now, list):
        if len(was) != len(now):
            return [f"{at}: there were {len(was)} and are {len(now)}"]
        own = scale
        parts = [(str(place), *pair) for place, pair in enumerate(zip(was, now, strict=True))]
    elif type(was) is float and type(now) is float:
        # Infinities are equal to themselves only, and a NaN is never expected.
        room = tolerance * max(abs(was), abs(now), scale)
        same = was == now or (math.isfinite(was) and math.isfinite(now) and abs(was - now) <= room)
        return [] if same else [f"{at}: {was!r} became {now!r}"]
    else:
        return [] if type(was) is type(now) and was == now else [f"{at}: {was!r} became {now!r}"]
    return [
        sentence
        for name, before, after in parts
        for sentence in differences(before, after, tolerance, at=f"{at}/{name}", scale=own)
    ]


# Recording


def record(names: Sequence[str]) -> None:
    """Make the calls of these names, or all, and write down what they give."""
    data = os.environ.get("TWOSAMPLE_DATA")
    if data is None:
        raise SystemExit("set TWOSAMPLE_DATA to the folder of the real data sets.")
    torch.set_num_threads(1)
    if not names:
        for name, saved in FITS.items():
            saved.fit().save(file_of(name))
    kept = json.loads(ANSWERS.read_text())["answers"] if names else {}
    with tempfile.TemporaryDirectory() as folder, cluster() as client:
        for number, name in enumerate(names or CALLS):
            place = Path(folder, str(number))
            place.mkdir()
            began = time.process_time()
            kept[name] = answered(name, folder=place, data=Path(data), client=client)
            sys.stdout.write(f"{time.process_time() - began:6.2f} s  {name}\n")
    ordered = {name: kept[name] for name in CALLS}
    text = json.dumps({"machine": machine(), "answers": ordered}, indent=1, ensure_ascii=False)
    ANSWERS.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--record", action="store_true", required=True, help="write answers and files anew"
    )
    parser.add_argument(
        "names", nargs="*", help="calls to record; all of them, and the files, without names"
    )
    record(parser.parse_args().names)
