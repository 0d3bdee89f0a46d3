"""Where a training starts: in the columns in which the training points plainly differ."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch
from scipy.stats import binom

from bank import seeded
from twosample import DeepKernel, Learning, ResidualMLP
from twosample._data.survey import as_samples
from twosample._featurizers import AutoFeaturizer
from twosample._learning import start
from twosample._statistics.leading import leading_columns


def normal(rows: int, columns: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, columns))


def alone(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Column 3 of five has another mean."""
    x = normal(rows, 5, 0)
    y = normal(rows, 5, 1)
    y[:, 3] += 0.6
    return x, y


def pair(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns 1 and 4 of five are correlated."""
    x = normal(rows, 5, 2)
    y = normal(rows, 5, 3)
    y[:, 4] = 0.6 * y[:, 1] + 0.8 * y[:, 4]
    return x, y


def three(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The product of columns 0, 2 and 5 of six is positive."""
    x = normal(rows, 6, 4)
    y = normal(rows, 6, 5)
    y[:, 0] *= np.sign(y[:, [0, 2, 5]].prod(1))
    return x, y


@pytest.mark.parametrize(
    ("draw", "columns"),
    [(alone, [3]), (pair, [1, 4]), (three, [0, 2, 5])],
)
def test_columns_lead_in_which_the_samples_differ(draw, columns):
    assert leading_columns(as_samples(*draw(300))) == columns


def test_all_levels_of_a_category_lead_with_it():
    rng = np.random.default_rng(0)
    tables = []
    for shares in ([0.6, 0.3, 0.1], [0.3, 0.3, 0.4]):
        number = rng.normal(size=200)
        city = rng.choice(["Rome", "Oslo", "Bern"], size=200, p=shares)
        other = rng.normal(size=200)
        tables.append(pl.DataFrame({"number": number, "city": city, "other": other}))
    samples = as_samples(*tables)
    names = [samples.schema.features[place] for place in leading_columns(samples)]
    assert names
    assert all(name.startswith("city") for name in names)


def test_no_column_leads_more_often_by_chance_than_promised():
    leads = 0
    draws = 200
    for number in range(draws):
        x = normal(80, 4, 2 * number)
        y = normal(60, 4, 2 * number + 1)
        leads += bool(leading_columns(as_samples(x, y)))
    assert leads <= binom.isf(1e-6, draws, 0.001)


def test_images_and_single_columns_have_no_leader_that_counts():
    rng = np.random.default_rng(0)
    images = rng.random((20, 1, 8, 8), dtype=np.float32)
    assert leading_columns(as_samples(images, images + 0.5)) == []
    network = started(as_samples(normal(100, 1, 0), normal(100, 1, 1) + 2))
    assert network.log_widths.tolist() == [0.0]


def started(samples, network=None):
    """A network of a deep kernel as its training starts."""
    kernel = DeepKernel(ResidualMLP() if network is None else network)
    start(kernel, samples.to(dtype=torch.float32), Learning(), seeded())
    return kernel.featurizer


@pytest.mark.parametrize("network", [ResidualMLP, AutoFeaturizer])
def test_leading_columns_start_with_larger_widths(network):
    featurizer = started(as_samples(*pair(300)), network())
    residual = getattr(featurizer, "network", featurizer)
    widths = residual.log_widths.detach()
    leading = widths[[1, 4]]
    others = widths[[0, 2, 3]]
    assert float(leading.min() - others.max()) == pytest.approx(1.5)
    assert float(widths.sum()) == pytest.approx(0, abs=1e-6)


def test_widths_start_alike_where_nothing_differs():
    widths = started(as_samples(normal(100, 4, 0), normal(100, 4, 1))).log_widths
    assert widths.tolist() == [0.0] * 4


def test_widths_that_were_loaded_stay():
    x, y = pair(100)
    samples = as_samples(x, y)
    trained = started(samples)
    with torch.no_grad():
        trained.log_widths.copy_(torch.arange(5.0))
    again = ResidualMLP(5, generator=seeded())
    again.load_state_dict(trained.state_dict())
    assert started(samples, again).log_widths.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_network_that_was_trained_before_stays():
    samples = as_samples(*pair(100))
    trained = started(samples, AutoFeaturizer())
    network = trained.network
    trained.lead([1, 4], 5)
    assert trained.network is network
