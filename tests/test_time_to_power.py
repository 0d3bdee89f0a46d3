"""What benchmarks/time_to_power.py rests on: our step on the paper's schedule climbs where the
textbook's climbs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import time_to_power  # benchmarks/ is on the path of the tests
import torch
from training_step import textbook_criterion

import twosample
from bank import seeded
from twosample import PowerCriterion
from twosample._data.samples import Scaling
from twosample._data.survey import as_samples

SMALL = {
    "blob": (120, 2, ()),
    "hdgm": (150, 10, ()),
    "higgs": (150, 4, ()),
    "mnist": (60, 0, (28, 28)),
}


def drawn(name):
    """Points of the shape of a setting's data, and the kernel as the authors start it on them."""
    setting = time_to_power.SETTINGS[name]
    n, columns, image = SMALL[setting.data]
    rng = np.random.default_rng(1)
    shape = (n, *image) if image else (n, setting.dimension or columns)
    X = rng.normal(size=shape)
    Y = rng.normal(0.3, 1.1, size=shape)
    if image:
        X, Y = (np.clip(127 + 60 * images, 0, 255).astype(np.uint8) for images in (X, Y))
    samples = as_samples(X, Y)
    scaled = Scaling.of(samples).apply(samples)
    kernel = time_to_power.paper_kernel(setting, time_to_power.unit(setting, X, Y))
    kernel.start(scaled.pooled(), seeded(2))
    with (
        torch.no_grad()
    ):  # where values are neither 0 nor 1, or a gradient of 0 would agree with any other
        kernel.kappa.set_bandwidth(
            twosample._kernels.median_bandwidth(kernel.featurizer(scaled.pooled()))
        )
    return kernel, scaled


def gradients(criterion, kernel, x, y):
    kernel.zero_grad()
    kernel.train()
    value = criterion(kernel, x, y)
    value.backward()
    return float(value.detach()), {
        name: p.grad.clone() for name, p in kernel.named_parameters() if p.grad is not None
    }


@pytest.mark.parametrize("name", time_to_power.SETTINGS)
def test_the_tiled_step_has_the_gradients_of_the_textbook(name):
    kernel, scaled = drawn(name)
    kernel = kernel.double()
    x = scaled.x.double()
    y = scaled.y.double()
    expected, by_textbook = gradients(textbook_criterion, kernel, x, y)
    found, by_tiles = gradients(PowerCriterion(), kernel, x, y)
    assert found == pytest.approx(expected, rel=1e-8) and by_tiles.keys() == by_textbook.keys()
    largest = max(float(grad.abs().max()) for grad in by_textbook.values())
    assert largest > 1e-6
    for key, grad in by_textbook.items():
        torch.testing.assert_close(by_tiles[key], grad, rtol=1e-6, atol=1e-9 * largest)


@pytest.mark.parametrize("name", time_to_power.SETTINGS)
def test_the_schedule_is_the_papers(name):
    """reference.md A3 and C2: 1000 full batches of a table; 2000 epochs of images in batches of 100
    + 100."""
    setting = time_to_power.SETTINGS[name]
    if setting.data == "mnist":
        assert (setting.steps, setting.batch, setting.rate) == (2000 * 200 // 100, 100, 1e-3)
    else:
        assert setting.steps == 1000 and setting.batch > setting.n
    assert setting.rate == {"blob": 5e-4, "hdgm": 5e-5, "higgs": 5e-5, "mnist": 1e-3}[setting.data]
    X, Y = (np.random.default_rng(k).normal(size=(20, 3)) for k in range(2))
    learning = (
        time_to_power.make("paper", setting, X, Y).learning if setting.data != "mnist" else None
    )
    if learning is not None:
        assert (learning.schedule, learning.validation_fraction, learning.restarts) == (
            "constant",
            0,
            1,
        )
        assert learning.learning_rate == learning.scale_rate == setting.rate


def test_what_is_in_the_table():
    records = [
        {
            "setting": "blob 20",
            "recipe": recipe,
            "trial": k,
            "tests": 100,
            "rejections": rate,
            "fit_cpu_seconds": 2.0,
        }
        for recipe, rates in (("paper", (40, 60)), ("default", (80, 60)))
        for k, rate in enumerate(rates)
    ]
    records.append({"setting": "blob 20", "steps": 20, "step_cpu_seconds": 0.05})
    line = next(
        line for line in time_to_power.table(records).splitlines() if line.startswith("| blob 20")
    )
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == [
        "blob 20",
        "2 x 100",
        "0.500 ± 0.100",
        "0.700 ± 0.100",
        "+1.4",
        "50",
        "2.0",
        "25",
    ]


def test_trials_that_agree_are_not_certain():
    agreed = [{"tests": 100, "rejections": 100}] * 2
    mean, error = time_to_power.power(agreed)
    assert mean == 1 and error == pytest.approx(math.sqrt(201 / 202 / 202 / 200))
