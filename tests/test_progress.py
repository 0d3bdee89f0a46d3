"""Bars: one for a whole command, with named stages, that never goes back."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest

import twosample
from test_cli import QUICK, call
from test_cli import folder as folder  # a fixture
from twosample import _progress
from twosample._progress import bar, one_bar, stage


class Display:
    """What a terminal would show: (title, how much of the bar is full)."""

    def __init__(self) -> None:
        self.tasks = 0
        self.shown: list[tuple[str, float]] = []

    def add_task(self, description, total, note):
        self.tasks += 1
        self.total = total
        return self.tasks

    def update(self, task, description="", completed=0.0, note="", advance=0):
        self.shown.append((description, completed))

    @property
    def titles(self) -> list[str]:
        return list(dict.fromkeys(title for title, _ in self.shown))


@pytest.fixture
def displays(monkeypatch):
    """The displays that are made, in their order."""
    made = []

    @contextmanager
    def display():
        made.append(Display())
        yield made[-1]

    monkeypatch.setattr(_progress, "_display", display)
    return made


def test_a_bar_by_itself_is_one(displays):
    with bar("training", 3, True) as tick:
        for _ in range(3):
            tick("")
    assert len(displays) == 1 and displays[0].total == 3 and len(displays[0].shown) == 3


def test_nothing_is_drawn_where_nobody_looks(displays):
    with one_bar({"testing": 1}, False):
        stage("testing")
        with bar("training", 3, False) as tick:
            tick("")
    with bar("training", 3, None) as tick:  # no terminal here
        tick("")
    assert displays == []


def test_stages_share_one_bar_that_never_goes_back(displays):
    rng = np.random.default_rng(0)
    with one_bar({"reading": 1, "testing": 6, "explaining": 2}, True):
        for name in ("reading", "testing", "explaining"):
            stage(name)
            for number in range(int(rng.integers(0, 9))):
                total = None if number % 3 == 2 else int(rng.integers(0, 5))
                with bar(f"work {number}", total, True) as tick:
                    for _ in range(7):  # more than was announced
                        tick("")
                    with bar("work within", 2, True) as inner:
                        inner("")
    (display,) = displays
    assert display.tasks == 1
    places = [place for _, place in display.shown]
    assert places == sorted(places) and places[0] >= 0 and places[-1] <= 1
    assert {"reading", "testing", "explaining"} <= {title.split(":")[0] for title in display.titles}
    (start,) = [place for title, place in display.shown if title == "explaining"]
    assert start == pytest.approx(7 / 9)


def test_one_bar_within_another_is_the_same(displays):
    with one_bar({"testing": 1}, True):
        stage("testing")
        with one_bar({"": 1}, True), bar("training", 1, True) as tick:
            tick("")
    (display,) = displays
    assert display.titles == ["testing", "testing: training"]


def test_an_error_ends_the_bar(displays):
    with pytest.raises(ValueError, match="no"), one_bar({"testing": 1}, True):
        raise ValueError("no")
    assert _progress._whole.get() is None


def test_a_test_has_one_bar(displays):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 2)), rng.normal(size=(50, 2))
    twosample.mmd_d(steps=5, permutations=19).run(X, Y, rng=0, progress=True)
    (display,) = displays
    assert display.tasks == 1 and "training" in display.titles


def test_a_command_has_one_bar_with_its_stages(folder, displays, monkeypatch):
    monkeypatch.setattr("twosample._cli.shared.wanted", lambda progress: True)
    monkeypatch.setattr(_progress, "wanted", lambda progress: progress is not False)
    words = ["test", "same.csv", "other.csv", *QUICK, "--explain", "--report", "page.html"]
    done = call(*words)
    assert done.stdout.startswith("The samples differ")
    (display,) = displays
    stages = dict.fromkeys(title.split(":")[0] for title in display.titles)
    assert list(stages) == ["reading", "testing", "explaining", "writing the report"]
    call(*words, "--quiet")
    assert len(displays) == 1
