"""The picture of the arena: how far every contestant is behind the best of each scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .. import figures
from .scenarios import SCENARIOS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW = 0.45  # inches of a contestant's row
_BAND = 0.7  # of a row is for dots; the rest keeps rows apart


def draw(gaps: Mapping[str, Mapping[str, float]], limits: Sequence[float]) -> Figure:
    """Draw a row for each contestant, a dot in it for each scenario, and lines at the limits.

    `gaps` has, for each contestant, by how much its power is below the best of each scenario.
    """
    names = list(gaps)
    figure, (axes,) = figures.new_axes(1, width=9, height=_ROW * len(names) + 1.2)
    for limit in limits:
        axes.axvline(limit, color="0.75", linewidth=1, zorder=0)
    for place, name in enumerate(names):
        if place % 2:
            axes.axhspan(place - 0.5, place + 0.5, color="0.96", zorder=-1)
        _dots(axes, place, gaps[name])
        mean = float(np.mean(list(gaps[name].values())))
        axes.plot([mean, mean], [place - 0.4, place + 0.4], color="black", linewidth=1.8)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("power of the best in the scenario, minus own power")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8, markerscale=1.8)
    return figure


def _dots(axes: Axes, place: int, gaps: Mapping[str, float]) -> None:
    """Draw the scenarios of a contestant, those of each group in a colour and at a height."""
    groups = list(dict.fromkeys(scenario.group for scenario in SCENARIOS.values()))
    for number, group in enumerate(groups):
        values = [gap for name, gap in gaps.items() if SCENARIOS[name].group == group]
        # One above the other within the row, so that dots hide each other less.
        height = place + _BAND * ((number + 0.5) / len(groups) - 0.5)
        axes.scatter(
            values,
            np.full(len(values), height),
            s=13,
            color=f"C{number}",
            alpha=0.75,
            linewidths=0,
            label=group if place == 0 else None,
        )
