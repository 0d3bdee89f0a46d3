"""The report of a watch: the wealth over time, the columns over time, and what changed."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path

from .._watch.betting import shown
from .._watch.watch import Watch, WatchRecord
from ..errors import InputError
from .page import InlineReport, fill, ready, write
from .report import circumstances
from .svg import Canvas, Drawn

_COLUMNS_SHOWN = 12
_LEAST = 1e-3  # a wealth below this is drawn here: how little is left does not matter
_ROWS_SHOWN = 60  # of the latest batches


def write_watch_report(watch: Watch, path: str | os.PathLike[str]) -> Path:
    """Write what `render_watch` gives to a file, and return its path."""
    ready(Path(path))
    return write(render_watch(watch), Path(path))


def inline_watch_report(watch: Watch) -> InlineReport:
    """What `render_watch` gives, for a notebook to show."""
    return InlineReport(render_watch(watch))


def render_watch(watch: Watch) -> str:
    """The report of a watch as HTML: one file that needs nothing else."""
    records = watch.history
    if not records:
        raise InputError("this watch has seen no batch yet, so there is nothing to report.")
    columns = _columns(records)
    at_alarm = [record for record in records if record.number == watch.alarmed_at]
    telling = at_alarm[0] if at_alarm else records[-1]
    return fill(
        "watch.html.jinja",
        {"levels": [watch.alpha], "alpha": watch.alpha},
        watch=watch,
        records=records[::-1][:_ROWS_SHOWN],
        hidden=max(0, watch.batches - _ROWS_SHOWN),
        last=records[-1],
        telling=telling,
        alpha=watch.alpha,
        sentence=_sentence(watch),
        wealth=wealth_chart(records),
        columns=[
            {"name": name, "chart": effect_chart(name, records), "mean": mean}
            for name, mean in columns
        ],
        shown=shown,
        repeat=circumstances(),
    )


def _sentence(watch: Watch) -> str:
    if watch.alarmed_at is not None:
        what = "X and Y differ"
        if watch.reference_left is not None:
            what = "what comes differs from the reference"
        return f"Alarm since batch {watch.alarmed_at}: {what}."
    return f"No alarm in {watch.batches} batches."


def _columns(records: Sequence[WatchRecord]) -> list[tuple[str, float]]:
    """The columns with the largest effects, on average over batches weighted by their rows."""
    totals: dict[str, float] = {}
    weight = 0.0
    for record in records:
        n, m = record.sizes
        rows = n * m / (n + m)
        weight += rows
        for name, effect in record.effects.items():
            totals[name] = totals.get(name, 0.0) + rows * effect
    means = [(name, total / weight) for name, total in totals.items()]
    means.sort(key=lambda each: -abs(each[1]))
    return means[:_COLUMNS_SHOWN]


def wealth_chart(records: Sequence[WatchRecord]) -> Drawn:
    """The wealth after each batch, in powers of ten, and where the alarm is."""
    numbers = [record.number for record in records]
    logs = [_log10(record.wealth) for record in records]
    alarm = math.log10(records[-1].threshold)
    low = min(*logs, 0.0)
    high = max(*logs, alarm)
    canvas = Canvas((numbers[0], numbers[-1]), (low, high + 0.3), left=52)
    canvas.y_axis()
    canvas.x_axis("batch")
    canvas.curve(numbers, logs, "line")
    canvas.curve([numbers[0], numbers[-1]], [alarm, alarm], "line held-out")
    last = records[-1]
    return canvas.picture(
        f"Log10 of the wealth after each of {len(records)} batches; it is {shown(last.wealth)} "
        f"after the last, and there is an alarm at {last.threshold:g}."
    )


def effect_chart(name: str, records: Sequence[WatchRecord]) -> Drawn:
    """How far Y is from X in one column, batch by batch."""
    numbers = [record.number for record in records]
    effects = [record.effects.get(name, 0.0) for record in records]
    canvas = Canvas(
        (numbers[0], numbers[-1]), (min(*effects, 0.0), max(*effects, 0.0)), height=180, left=52
    )
    canvas.y_axis()
    canvas.x_axis("batch")
    canvas.curve(numbers, effects, "line")
    return canvas.picture(f"The effect in column {name}, batch by batch.")


def _log10(wealth: float) -> float:
    return math.log10(min(max(wealth, _LEAST), 1e300))
