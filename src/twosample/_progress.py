"""A progress bar on a terminal, and silence elsewhere.

Work has a bar of its own (`bar`), or it is a part of something longer that has one bar for all
(`one_bar`): then its title is the name of a stage, and the bar never goes back.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from rich.progress import Progress

Tick: TypeAlias = Callable[[str], None]
"""Called once for each unit of work done, with a few words to show beside the bar."""

_HALF_WAY = 10  # units after which work of unknown length counts as half done


def wanted(progress: bool | None) -> bool:
    """Whether to draw: as asked, or if nobody asked, where standard error is a terminal."""
    if progress is not None:
        return progress
    # A process may have closed its standard error.
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def bar(title: str, total: int | None, progress: bool | None) -> Iterator[Tick]:
    """A bar on standard error that disappears when the work is done, or a piece of the one for all.

    It has `total` units, or an unknown number if that is None.
    """
    if not wanted(progress):
        yield lambda note: None
        return
    whole = _whole.get()
    if whole is not None:
        with whole.piece(title, total) as tick:
            yield tick
        return
    with _display() as display:
        task = display.add_task(title, total=total, note="")
        yield lambda note: display.update(task, advance=1, note=note)


@contextmanager
def one_bar(stages: Mapping[str, float], progress: bool | None) -> Iterator[None]:
    """One bar for all that is done within, whose stages `stage` announces.

    Parameters
    ----------
    stages
        Name -> how long it takes, in proportion to the others.
    progress
        As in `bar`.
    """
    if not wanted(progress) or _whole.get() is not None:
        yield
        return
    with _display() as display:
        token = _whole.set(_Whole(display, stages))
        try:
            yield
        finally:
            _whole.reset(token)


def stage(name: str) -> None:
    """From now on the work is another stage of what has one bar for all."""
    whole = _whole.get()
    if whole is not None:
        whole.enter(name)


class _Whole:
    """One bar for several stages, each of which may show several pieces of work."""

    def __init__(self, display: Progress, stages: Mapping[str, float]) -> None:
        self._display = display
        self._stages = stages
        self._total = sum(stages.values())
        self._task = display.add_task("", total=1.0, note="")
        self._at = 0.0  # how much of the bar is full
        self._end = 1.0  # how much is full when this stage is over
        self._name = ""

    def enter(self, name: str) -> None:
        before = 0.0
        for each, weight in self._stages.items():
            if each == name:
                break
            before += weight
        self._name = name
        self._at = max(self._at, before / self._total)
        self._end = (before + self._stages[name]) / self._total
        self._show(name, self._at, "")

    @contextmanager
    def piece(self, title: str, total: int | None) -> Iterator[Tick]:
        """A piece of work in this stage.

        Nobody knows how many will follow, so each takes half of what is left of the stage.
        """
        begin = self._at
        room = (self._end - begin) / 2
        description = f"{self._name}: {title}" if self._name else title
        done = 0

        def tick(note: str) -> None:
            nonlocal done
            done += 1
            share = done / (done + _HALF_WAY) if total is None else min(1.0, done / max(1, total))
            self._at = max(self._at, begin + room * share)
            self._show(description, self._at, note)

        self._show(description, self._at, "")
        yield tick
        self._at = max(self._at, begin + room)

    def _show(self, description: str, at: float, note: str) -> None:
        self._display.update(self._task, description=description, completed=at, note=note)


_whole: ContextVar[_Whole | None] = ContextVar("whole", default=None)


def _display() -> Progress:
    from rich.console import Console  # here, so that importing the library stays light
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
