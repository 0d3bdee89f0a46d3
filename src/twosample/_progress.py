"""A progress bar on a terminal, and silence elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

Tick: TypeAlias = Callable[[str], None]
"""Called once for each unit of work done, with a few words to show beside the bar."""


def wanted(progress: bool | None) -> bool:
    """Whether to draw: as asked, or if nobody asked, where standard error is a terminal."""
    if progress is not None:
        return progress
    # A process may have closed its standard error.
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def bar(title: str, total: int | None, progress: bool | None) -> Iterator[Tick]:
    """A bar on standard error that disappears when the work is done.

    It has `total` units, or an unknown number if that is None.
    """
    if not wanted(progress):
        yield lambda note: None
        return
    from rich.console import Console  # here, so that importing the library stays light
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task(title, total=total, note="")
        yield lambda note: display.update(task, advance=1, note=note)
