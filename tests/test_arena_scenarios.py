"""The scenarios of the arena draw what they say."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from twosample import InputError
from twosample.bench import datasets
from twosample.bench.arena import from_paper
from twosample.bench.arena.scenarios import SCENARIOS, select

pytest.importorskip("polars")
pytest.importorskip("sklearn")


@pytest.fixture(autouse=True)
def files(monkeypatch):
    """Noise in the shape of the data sets that are read, since no test may need their files."""
    rng = np.random.default_rng(0)
    angles = rng.normal(size=(20_100, 4)).astype(np.float32)
    digits = rng.integers(0, 256, (1000, 28, 28), dtype=np.uint8)
    photographs = rng.integers(0, 256, (2100, 32, 32, 3), dtype=np.uint8)
    monkeypatch.setattr(datasets, "higgs", lambda: (angles, angles + 5))
    monkeypatch.setattr(datasets, "mnist", lambda: digits)
    monkeypatch.setattr(datasets, "fake_mnist", lambda: digits // 2)
    monkeypatch.setattr(datasets, "cifar10", lambda: photographs)
    readers = (
        from_paper._higgs_pools,
        from_paper._digit_pools,
        from_paper._clean_digit_pools,
        from_paper._photographs,
    )
    for reader in readers:
        reader.cache_clear()
    yield
    for reader in readers:
        reader.cache_clear()


def same(first, second) -> bool:
    if hasattr(first, "equals"):
        return first.equals(second)
    return np.array_equal(first, second)


def test_there_are_enough_of_them():
    different = [scenario for scenario in SCENARIOS.values() if scenario.different]
    nulls = [scenario for scenario in SCENARIOS.values() if not scenario.different]
    assert len(different) >= 60
    assert len(nulls) >= 20
    assert {scenario.group for scenario in nulls} >= {"paper", "real tables", "mixed tables"}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_seed_decides_the_rows_and_their_numbers_are_as_said(name):
    scenario = SCENARIOS[name]
    x, y = scenario.draw(np.random.default_rng(1))
    assert (len(x), len(y)) == scenario.sizes
    x_again, y_again = scenario.draw(np.random.default_rng(1))
    assert same(x, x_again) and same(y, y_again)
    _, y_otherwise = scenario.draw(np.random.default_rng(2))
    assert not same(y, y_otherwise)
    if scenario.kind == "images":
        assert x.dtype == y.dtype == np.uint8
    elif scenario.kind == "numbers":
        assert np.isfinite(x).all() and np.isfinite(y).all()
        assert x.shape[1] == y.shape[1]
    else:
        assert x.columns == y.columns
        assert x.dtypes == y.dtypes


def _only_y(name: str) -> bool:
    # Where classes are mixed otherwise, whoever comes into Y cannot come into X.
    return SCENARIOS[name].different and not name.endswith("-classes")


@pytest.mark.parametrize("name", [name for name in SCENARIOS if _only_y(name)])
def test_a_change_touches_only_y(name):
    scenario = SCENARIOS[name]
    x, y = scenario.draw(np.random.default_rng(1))
    x_of_null, y_of_null = scenario.null().draw(np.random.default_rng(1))
    assert same(x, x_of_null)
    assert not same(y, y_of_null)


@pytest.mark.parametrize(
    "name", [name for name, scenario in SCENARIOS.items() if not scenario.different]
)
def test_without_a_difference_the_means_agree(name):
    # Over many draws, each column's mean is as often higher in X as in Y.
    scenario = SCENARIOS[name]
    draws = 12 if max(scenario.sizes) > 900 or scenario.kind == "images" else 30
    higher = 0
    for seed in range(draws):
        x, y = scenario.draw(np.random.default_rng(seed))
        if scenario.kind == "table":
            x = x.select("age").to_numpy()
            y = y.select("age").to_numpy()
        centre = np.median(np.concatenate([x, y]))
        higher += int(np.mean(x > centre) > np.mean(y > centre))
    low, high = scipy.stats.binom.ppf([1e-6, 1 - 1e-6], draws, 0.5)
    assert low <= higher <= high


def test_patterns_choose_by_name_and_group():
    names = [scenario.name for scenario in select(["blob-*", "mixed tables"])]
    assert "blob-20" in names and "blob-10-null" in names and "census-share" in names
    assert "higgs-1000" not in names
    assert len(select([])) == len(SCENARIOS)
    with pytest.raises(InputError, match="no scenario matches 'nothing'"):
        select(["nothing"])


def test_parities_show_only_in_the_product():
    _, y = SCENARIOS["parity-3-of-5"].draw(np.random.default_rng(0))
    positive = (y[:, :3].prod(axis=1) > 0).sum()
    low, high = scipy.stats.binom.ppf([1e-6, 1 - 1e-6], len(y), 0.9)
    assert low <= positive <= high
    pairs = np.abs(np.corrcoef(y.T) - np.eye(5)).max()
    assert pairs < 5 / np.sqrt(len(y))


@pytest.mark.parametrize(
    ("name", "column", "level", "before", "after"),
    [
        ("census-share", "region", "north", 0.4, 0.2),
        ("census-new-level", "occupation", "delivery", 0.0, 0.02 * 0.95),
        ("census-rare-level", "occupation", "army", 0.01 * 0.95, 0.0397 * 0.95),
        ("census-missing", "hours", None, 0.04, 0.07),
    ],
)
def test_shares_of_mixed_tables_are_as_said(name, column, level, before, after):
    counts = np.zeros(2)
    rows = np.zeros(2)
    for seed in range(20):
        for place, table in enumerate(SCENARIOS[name].draw(np.random.default_rng(seed))):
            cells = table[column].to_list()
            counts[place] += cells.count(level)
            rows[place] += len(cells)
    for place, share in enumerate((before, after)):
        low, high = scipy.stats.binom.ppf([1e-6, 1 - 1e-6], rows[place], share)
        assert low <= counts[place] <= high


def test_perturbed_uniforms_have_the_density_of_the_paper():
    # One bump in one direction: the wave moves mass between the halves of the interval.
    from twosample.bench.arena.drawn import _bump, perturbed

    _, y = perturbed(1, 1, 4000).draw(np.random.default_rng(0))
    middle = np.linspace(0, 1, 4001)[:, None]
    wave = _bump(middle - 1)
    assert abs(wave.mean()) < 1e-6
    moved = 0.99 * np.e * wave[middle < 0.5].sum() / len(middle)
    low, high = scipy.stats.binom.ppf([1e-6, 1 - 1e-6], len(y), 0.5 + abs(moved))
    larger = max((y < 0.5).sum(), (y >= 0.5).sum())
    assert low <= larger <= high
