"""Torch's threads: one for tables, torch's own number for images, and always put back."""

from __future__ import annotations

import threading
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

import twosample
from twosample import Gaussian, OnFeatures, Permutation, TwoSampleTest


class Watching(nn.Module):
    """Remembers how many threads torch has whenever points go through it."""

    seen: ClassVar[list[int]] = []  # shared by the copies that a test makes

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        self.seen.append(torch.get_num_threads())
        return points.flatten(1)


@pytest.fixture
def threads():
    """A number of threads that is not one, for as long as the test runs."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    Watching.seen.clear()
    yield 3
    torch.set_num_threads(before)


def watched() -> TwoSampleTest:
    return TwoSampleTest(OnFeatures(Watching(), Gaussian()), calibration=Permutation(19))


def table(seed: int, rows: int = 20) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, 2))


def test_tables_take_one_thread_and_give_the_others_back(threads):
    result = watched().run(table(0), table(1), rng=0)
    fitted = watched().fit(table(0), table(1), rng=0)
    fitted.test(table(2), table(3), rng=0)
    result.explain(rng=0)
    assert set(Watching.seen) == {1}
    assert torch.get_num_threads() == threads


def test_images_keep_them(threads):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, size=(2, 20, 6, 6), dtype=np.uint8)
    watched().run(images[0], images[1], rng=0)
    assert set(Watching.seen) == {threads}


def test_an_error_gives_them_back(threads):
    class Broken(nn.Module):
        def forward(self, points):
            raise RuntimeError("broken")

    test = TwoSampleTest(OnFeatures(Broken(), Gaussian(1.0)), calibration=Permutation(19))
    with pytest.raises(RuntimeError, match="broken"):
        test.run(table(0), table(1), rng=0)
    assert torch.get_num_threads() == threads


def test_tests_that_overlap_in_time_give_them_back(threads):
    """The second to begin must not take the number that the first has set for the program's own."""

    class Meeting(nn.Module):
        def forward(self, points):
            barrier.wait(timeout=60)
            return points

    barrier = threading.Barrier(2)
    test = TwoSampleTest(OnFeatures(Meeting(), Gaussian(1.0)), calibration=Permutation(19))

    def run() -> None:
        test.run(table(0), table(1), rng=0)
        left.append(torch.get_num_threads())

    left: list[int] = []
    runs = [threading.Thread(target=run) for _ in range(2)]
    for each in runs:
        each.start()
    for each in runs:
        each.join()
    assert left == [threads, threads]
    assert torch.get_num_threads() == threads


def test_the_answer_does_not_depend_on_them(threads):
    few = twosample.two_sample_test(table(0), table(1), "mmd-o", permutations=19, rng=0)
    torch.set_num_threads(1)
    one = twosample.two_sample_test(table(0), table(1), "mmd-o", permutations=19, rng=0)
    assert few.statistic == one.statistic
    assert few.pvalue == one.pvalue
