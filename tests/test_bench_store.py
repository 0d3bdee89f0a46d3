"""The store of results: what is kept stays readable, whatever happens to the file or to who writes
it."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from twosample.bench.store import Record, Store
from twosample.errors import InputError, InputWarning


def record(trial: int = 0, **changes: object) -> Record:
    made = Record(
        experiment="quick",
        setting="n_b=10",
        method="mmd-o",
        recipe="default",
        trial=trial,
        seed=5,
        data="blob",
        sizes={"train": 90, "test": 90, "dimension": 2},
        tests=10,
        rejections=3,
        permutations=199,
        criterion=0.125,
        fit_cpu_seconds=0.5,
        test_cpu_seconds=1.5,
        peak_mebibytes=400.0,
        versions={"twosample": "0.1.0"},
        date="2026-01-01",
    )
    return dataclasses.replace(made, **changes)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "results")
    store.check()
    return store


def test_what_is_kept_comes_back(store):
    kept = [
        record(0),
        record(1, criterion=None, permutations=None, peak_mebibytes=None),
        record(2, rejections=0),
    ]
    for each in kept:
        store.append(each)
    assert store.records("quick") == kept
    assert store.path("quick").read_text().count("\n") == 3
    assert store.records("blob-power") == []


def test_lines_are_plain_json(store):
    store.append(record())
    values = json.loads(store.path("quick").read_text())
    assert list(values)[:6] == ["experiment", "setting", "method", "recipe", "trial", "seed"]
    assert (values["tests"], values["rejections"], values["sizes"]["train"]) == (10, 3, 90)


@pytest.mark.parametrize("length", [1, 20, 200, -2])
def test_a_line_cut_short_at_the_end_costs_itself_only(store, length):
    store.append(record(0))
    with store.path("quick").open("a") as file:
        file.write(record(1).line()[:length])
    assert store.records("quick") == [record(0)]
    store.append(record(2))  # whoever goes on after the crash
    with pytest.warns(InputWarning, match=r"quick.jsonl: line 2 is not a whole record"):
        assert store.records("quick") == [record(0), record(2)]


def test_a_whole_last_line_counts_without_its_end(store):
    with store.path("quick").open("a") as file:
        file.write(record(0).line())
    assert store.records("quick") == [record(0)]


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[1, 2]",
        '{"experiment": "quick"}',
        record(0, tests=0, rejections=0).line(),
        record(0, rejections=11).line(),
        json.dumps(dataclasses.asdict(record(0)) | {"trial": "0"}),
    ],
)
def test_what_is_no_record_is_said_to_be_none(store, line):
    store.path("quick").write_text(f"{line}\n{record(1).line()}\n")
    with pytest.warns(InputWarning, match="line 1 is not a whole record"):
        assert store.records("quick") == [record(1)]


def test_files_are_merged_by_concatenation(tmp_path, store):
    other = Store(tmp_path / "other")
    other.check()
    for trial in (0, 1):
        store.append(record(trial))
    with store.path("quick").open("a") as file:
        file.write(record(2).line()[:50])  # broke off without ending its line
    for trial in (1, 3):
        other.append(record(trial, rejections=9))
    joined = store.path("quick").read_bytes() + other.path("quick").read_bytes()
    store.path("quick").write_bytes(joined)
    with pytest.warns(InputWarning, match="line 3 is not a whole record"):
        found = store.records("quick")
    # The first of two wins, and the record behind the broken one is found.
    assert [(r.trial, r.rejections) for r in found] == [(0, 3), (1, 3), (3, 9)]


def test_more_tests_of_a_trial_take_the_place_of_fewer(store):
    for tests in (10, 100, 50):
        store.append(record(tests=tests))
    assert [r.tests for r in store.records("quick")] == [100]


def test_recipes_and_settings_are_apart(store):
    for changes in (
        {},
        {"recipe": "paper"},
        {"setting": "n_b=20"},
        {"method": "mmd-median"},
        {"trial": 1},
    ):
        store.append(record(**changes))
    assert len(store.records("quick")) == 5


def test_a_folder_that_cannot_be_has_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(
            InputError,
            match=r"results cannot be written to .* choose another folder with --results",
        ):
            Store(folder).check()


WRITER = """
import sys
sys.path[:0] = sys.argv[2:]
from test_bench_store import record
from twosample.bench.store import Store
store = Store(sys.argv[1])
for trial in range(10**6):
    store.append(record(trial))
"""


def test_a_writer_killed_at_work_leaves_whole_lines(store):
    command = [sys.executable, "-c", WRITER, str(store.folder), str(Path(__file__).parent)]
    process = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"})
    try:
        deadline = time.monotonic() + 300
        while not store.path("quick").exists() or store.path("quick").stat().st_size < 20_000:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(120)
    trials = [record.trial for record in store.records("quick")]
    assert trials == list(range(len(trials))) and len(trials) > 20
    store.append(record(10**7))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)  # if it died in the middle of a line
        assert [record.trial for record in store.records("quick")] == [*trials, 10**7]


def test_a_full_disk_is_named_with_what_to_do(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        InputError,
        match=r"quick\.jsonl cannot be written \(No space left on device\); make room, and run",
    ):
        Store(tmp_path).append(record())
