"""The same answers as before: the calls of the bank and the saved tests, against the record.

P-values are compared as counts of shuffles, exactly, and so are sizes, names, chosen rows and
texts. Floats have a tolerance. Points, kernel values and training are in float32; what is summed
from them is in float64. On the machine that recorded them, with one thread, all of it comes out to
the last bit, and 1e-9 leaves room for nothing but another order of the sums in float64: whoever
changes a value of a float32 has to say so by recording anew. On another processor, or with other
versions of torch, numpy or scipy, matrix products of float32 are rounded otherwise and training
carries that on, so floats have the larger tolerance there. A p-value from a limiting law is a float
like others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import same_answers
import twosample
from same_answers import CALLS, FITS

# What distributed does itself: it closes what it opened whenever the collector finds it.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

RECORDED = json.loads(same_answers.ANSWERS.read_text(encoding="utf-8"))
SAME_MACHINE = RECORDED["machine"] == same_answers.machine()
# Measured with the vector instructions of other processors (ATEN_CPU_CAPABILITY=default and avx2)
# and with two threads: below 1e-3, the largest in networks of images, and every p-value the same.
TOLERANCE = 1e-9 if SAME_MACHINE else 1e-2


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    # As in the recording: a matrix product is rounded according to how threads share it.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    pytest.importorskip("distributed")
    with same_answers.cluster() as client:
        yield client


def given(name: str, request: pytest.FixtureRequest) -> dict[str, Any]:
    """What a call needs; the test is skipped where there are no real data."""
    needs = same_answers.needs(name)
    found: dict[str, Any] = {}
    if "data" in needs:
        if "TWOSAMPLE_DATA" not in os.environ:
            pytest.skip("TWOSAMPLE_DATA does not say where the real data sets are")
        found["data"] = Path(os.environ["TWOSAMPLE_DATA"])
    if "folder" in needs:
        found["folder"] = request.getfixturevalue("tmp_path")
    if "client" in needs:
        found["client"] = request.getfixturevalue("client")
    return found


@pytest.mark.parametrize("name", CALLS)
def test_the_answer_is_the_same(name, request):
    now = same_answers.answered(name, **given(name, request))
    # By way of JSON, as what was recorded has gone.
    now = json.loads(json.dumps(now))
    assert same_answers.differences(RECORDED["answers"][name], now, TOLERANCE) == []


def test_every_call_is_recorded_and_no_other():
    assert list(RECORDED["answers"]) == list(CALLS)


def test_every_method_is_called():
    assert {f"method {name}" for name in twosample.METHODS} <= set(CALLS)


# Files


def tensors_differ(
    was: dict[str, torch.Tensor],
    now: dict[str, torch.Tensor],
    tolerance: float,
) -> list[str]:
    """Names of tensors that are not the same up to a tolerance, 1e-12 for those of the scaling."""
    assert was.keys() == now.keys()
    found = []
    for name, before in was.items():
        after = now[name]
        assert (before.dtype, before.shape) == (after.dtype, after.shape), name
        if name.startswith("scaling."):
            room = 1e-12
            largest = 0.0
        else:
            room = tolerance
            # The gradient of a bias before a normalisation is nothing but rounding, of which Adam
            # makes steps of the usual size: small parameters have room to differ elsewhere.
            largest = 1.0
        if not torch.allclose(
            before.double(),
            after.double(),
            rtol=room,
            atol=room * largest,
            equal_nan=True,  # a scale that is left open
        ):
            found.append(name)
    return found


@pytest.mark.parametrize("name", FITS)
def test_the_same_fit_makes_the_same_file(name, tmp_path):
    again = tmp_path / "again.safetensors"
    FITS[name].fit().save(again)
    tree, tensors = same_answers.content(again)
    tree_before, tensors_before = same_answers.content(same_answers.file_of(name))
    tree_before = same_answers.with_present_defaults(tree_before)
    assert same_answers.differences(tree_before, tree, TOLERANCE) == []
    assert tensors_differ(tensors_before, tensors, TOLERANCE) == []


@pytest.mark.parametrize("name", FITS)
def test_a_file_that_is_loaded_and_saved_is_the_same(name, tmp_path):
    """Nothing is computed here, so that it holds to the bit on every machine."""
    again = tmp_path / "again.safetensors"
    twosample.load(same_answers.file_of(name)).save(again)
    tree, tensors = same_answers.content(again)
    tree_before, tensors_before = same_answers.content(same_answers.file_of(name))
    assert tree == tree_before
    assert tensors_differ(tensors_before, tensors, 0.0) == []
