"""Figures like the paper's, by matplotlib: ours with error bars, the published numbers as hollow marks.

Those of experiments are drawn from stored trials. Those of points, kernels and images are drawn
from the data sets, and where they show something learned, from trials that are run for them.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, MissingDependency
from .experiments import ALPHA, EXPERIMENTS, Experiment, experiment
from .store import Record
from .tables import Entry, entries, homes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .._two_sample import FittedTest


class Look(NamedTuple):
    """How a method is drawn, the same everywhere; no two share a mark, so colour is not all that tells them apart."""

    colour: str
    marker: str


_LOOKS = {
    "me": Look("#E69F00", "v"),
    "scf": Look("#56B4E9", "^"),
    "c2st-s": Look("#009E73", "s"),
    "c2st-l": Look("#CC79A7", "D"),
    "mmd-o": Look("#0072B2", "o"),
    "mmd-d": Look("#D55E00", "*"),
}


def _looks(names: Sequence[str]) -> dict[str, Look]:
    """Those of the methods, or for other names the same ones in their order."""
    others = itertools.cycle(_LOOKS.values())
    return {name: _LOOKS[name] if name in _LOOKS else next(others) for name in names}


def draw(name: str, records: Iterable[Record], recipe: str = "default") -> Figure:
    """The figure of a name: one of `FIGURES`, or of an experiment."""
    kept = list(records)
    needed(name)  # which knows the names
    return FIGURES[name].draw(kept, recipe) if name in FIGURES else _panel(name, kept, recipe)


def needed(name: str) -> list[str]:
    """The experiments whose records a figure is drawn from."""
    if name in FIGURES:
        shown = FIGURES[name].experiments
    elif name in EXPERIMENTS:
        shown = (name,)
    else:
        raise InputError(
            f"there is no figure {name!r}; use one of {', '.join([*FIGURES, *EXPERIMENTS])}."
        )
    return list(dict.fromkeys(home for each in shown for home in homes(experiment(each))))


def _new(
    columns: int, *, width: float = 3.6, height: float = 3.4, rows: int = 1
) -> tuple[Figure, list[Axes]]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependency(
            "figures take matplotlib; pip install 'twosample[plots]'."
        ) from None
    made = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes: Any = made.subplots(rows, columns, squeeze=False)
    return made, list(axes.flat)


def save(drawn: Figure, path: str | Path) -> None:
    """Write a figure to a file of the kind that its name says."""
    try:
        drawn.savefig(path, dpi=130)
    except ValueError as error:
        raise InputError(
            f"{path} cannot be written: {error}. Use a name that ends in .png, .pdf or .svg."
        ) from error


# Experiments


def _panel(name: str, records: Sequence[Record], recipe: str) -> Figure:
    shown = experiment(name)
    figure, (ax,) = _new(1, width=6.0, height=4.2)
    _rates(ax, shown, entries(shown, records, recipe))
    ax.set_title(textwrap.fill(shown.title, 70), fontsize=9)
    _legend(figure, ax)
    return figure


def _rates(ax: Axes, shown: Experiment, cells: Sequence[Entry]) -> None:
    """Ours and the published rates: a line for each method or, where rows do not grow in anything, for each row."""
    found = {(entry.row, entry.method): entry for entry in cells}
    for name, look, places in _lines(shown):
        ours = {place: found[where] for where, place in places.items() if where in found}
        style: dict[str, Any] = {"color": look.colour, "marker": look.marker}
        rates, errors = (
            [getattr(entry, part) for entry in ours.values()] for part in ("rate", "error")
        )
        line = "-" if shown.axis else ""
        drawn: dict[str, Any] = {"linestyle": line, "linewidth": 1.2, "markersize": 5, "capsize": 2}
        ax.errorbar(list(ours), rates, errors, label=name, **style, **drawn)
        known = {
            at: number
            for where, at in places.items()
            if (number := shown.expected(*where)) is not None
        }
        rates, errors = [n.rate for n in known.values()], [n.error or 0.0 for n in known.values()]
        hollow: dict[str, Any] = {
            "linestyle": "",
            "markersize": 8,
            "markerfacecolor": "none",
            "elinewidth": 0.8,
        }
        ax.errorbar(list(known), rates, errors, **style, **hollow)
    if shown.kind == "level":
        ax.axhline(ALPHA, color="black", linewidth=1)
        ax.set_ylim(0, max([0.15, *(entry.rate + entry.error for entry in cells)]))
    else:
        ax.set_ylim(-0.02, 1.04)
    ax.set(xlabel=shown.axis, ylabel="type I error" if shown.kind == "level" else "power")
    if not shown.axis:
        ax.set_xticks(range(len(shown.methods)), shown.methods)


def _lines(shown: Experiment) -> list[tuple[str, Look, dict[tuple[str, str], float]]]:
    """The name of each line, its look, and where on it each (row, method) stands."""
    rows = _places(shown)
    if shown.axis:
        looks = _looks(shown.methods)
        return [(m, looks[m], {(row, m): at for row, at in rows.items()}) for m in shown.methods]
    looks, middle = _looks(list(rows)), (len(rows) - 1) / 2
    return [
        (
            row,
            looks[row],
            {(row, m): k + (number - middle) * 0.15 for k, m in enumerate(shown.methods)},
        )
        for number, row in enumerate(rows)
    ]


def _places(shown: Experiment) -> dict[str, float]:
    """Where rows stand on the axis."""
    return {setting.row: setting.position if shown.axis else 0.0 for setting in shown.settings}


def _legend(figure: Figure, ax: Axes) -> None:
    marks, names = ax.get_legend_handles_labels()
    figure.legend(
        marks,
        names,
        loc="outside upper center",
        ncols=len(names),
        frameon=False,
        title="hollow: published",
    )


def _figure_2(records: Sequence[Record], recipe: str) -> Figure:
    """Blob: power, its standard deviation over trials, J on the training points, type I error."""
    power, level = experiment("blob-power"), experiment("blob-level")
    figure, axes = _new(4, width=3.3)
    found = entries(power, records, recipe)
    _rates(axes[0], power, found)
    places = _places(power)
    for method in power.methods:
        look = _LOOKS[method]
        several = [entry for entry in found if entry.method == method and len(entry.rates) > 1]
        spread = [float(np.std(entry.rates, ddof=1)) for entry in several]
        axes[1].plot(
            [places[e.row] for e in several],
            spread,
            color=look.colour,
            marker=look.marker,
            markersize=5,
        )
    axes[1].set(xlabel=power.axis, ylabel="standard deviation of power")
    _criteria(axes[2], power, records, recipe)
    _rates(axes[3], level, entries(level, records, recipe))
    for letter, ax in zip("abcd", axes, strict=True):
        ax.set_title(f"({letter})", fontsize=10)
    _legend(figure, axes[0])
    return figure


def _criteria(ax: Axes, shown: Experiment, records: Sequence[Record], recipe: str) -> None:
    """J of the trained kernels on their training points."""
    places = _places(shown)
    for method in ("mmd-o", "mmd-d"):
        values: dict[str, list[float]] = {}
        for r in records:
            if (r.experiment, r.method, r.recipe) == (
                shown.name,
                method,
                recipe,
            ) and r.criterion is not None:
                values.setdefault(r.setting, []).append(r.criterion)
        rows = [row for row in places if row in values]
        means = [float(np.mean(values[row])) for row in rows]
        errors = [float(np.std(values[row])) / len(values[row]) ** 0.5 for row in rows]
        look = _LOOKS[method]
        at = [places[row] for row in rows]
        ax.errorbar(
            at, means, errors, color=look.colour, marker=look.marker, markersize=5, capsize=2
        )
    ax.set(xlabel=shown.axis, ylabel="J on the training points")


def _figure_3(records: Sequence[Record], recipe: str) -> Figure:
    """HDGM: power and type I error against N and against d."""
    names = ("hdgm-power", "hdgm-level", "hdgm-dimensions-power", "hdgm-dimensions-level")
    figure, axes = _new(4, width=3.3)
    for letter, ax, name in zip("abcd", axes, names, strict=True):
        shown = experiment(name)
        _rates(ax, shown, entries(shown, records, recipe))
        ax.set_title(f"({letter})", fontsize=10)
    _legend(figure, axes[0])
    return figure


# Points and kernels

_CENTRES = np.array([(i, j) for i in range(3) for j in range(3)], dtype=np.float64)
_WINDOW = ((-0.75, 2.75), (-0.5, 2.5))
_LEVELS = (0.7, 0.8, 0.9)


def _figure_1(records: Sequence[Record], recipe: str) -> Figure:
    """Blob-D: both samples, and where a Gaussian and a deep kernel see points as close to the middle of a blob."""
    from . import datasets, recipes
    from .experiments import Cell
    from .trials import seeded

    setting = next(s for s in experiment("blob-power").settings if s.name == "n_b=100")
    figure, axes = _new(4, width=3.1, height=3.0)
    X, Y = datasets.blob(
        setting.n, rng=seeded(Cell("figure-1", setting, "points"), 0).numpy("points")
    )
    for ax, points, title in ((axes[0], X, "(a) X"), (axes[1], Y, "(b) Y")):
        ax.plot(*points.T, ".", color="#0072B2", markersize=2)
        ax.set(title=title)
    for ax, method, title in (
        (axes[2], "mmd-o", "(c) Gaussian kernel"),
        (axes[3], "mmd-d", "(d) deep kernel"),
    ):
        streams = seeded(Cell("figure-1", setting, method), 0)
        fitted = recipes.fit(method, recipe, setting, X, Y, streams)
        for values in _kernel_values(fitted):
            grid = np.linspace(*_WINDOW[0], 141), np.linspace(*_WINDOW[1], 121)
            levels = [level for level in _LEVELS if values.min() < level < values.max()]
            if levels:
                ax.contour(*grid, values, levels, colors="black", linewidths=0.8)
        ax.plot(*_CENTRES.T, "+", color="#D55E00")
        ax.set(title=title)
    for ax in axes:
        ax.set(xlim=_WINDOW[0], ylim=_WINDOW[1], aspect="equal")
    return figure


def _kernel_values(fitted: FittedTest) -> NDArray[np.float64]:
    """(9, 121, 141): k(., centre) on the grid of the window, for each centre."""
    import torch

    from .._data.samples import as_samples

    x, y = np.meshgrid(np.linspace(*_WINDOW[0], 141), np.linspace(*_WINDOW[1], 121))
    grid = np.column_stack([x.ravel(), y.ravel()])
    seen = fitted.scaling.apply(as_samples(grid, _CENTRES, schema=fitted.schema))
    with torch.no_grad():
        values = fitted.representation(seen.x, seen.y).double().numpy()
    reshaped: NDArray[np.float64] = values.T.reshape(9, *x.shape)
    return reshaped


# Images

_STAND_IN = "stand-in: CIFAR-10 after JPEG,\nCIFAR-10.1 is not at hand"


def _gallery(ax: Axes, images: Iterable[NDArray[np.uint8]], title: str, columns: int = 10) -> None:
    from .._show.pictures import mosaic

    ax.imshow(mosaic(list(images), columns), cmap="gray", vmin=0, vmax=255)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_title(title, fontsize=10)


def _digits(records: Sequence[Record], recipe: str) -> Figure:
    """Real digits and those of a generator."""
    from . import datasets

    figure, axes = _new(2)
    _gallery(axes[0], datasets.mnist()[:60], "MNIST")
    _gallery(axes[1], datasets.fake_mnist()[:60], "made by a DCGAN")
    return figure


def _cifar(records: Sequence[Record], recipe: str) -> Figure:
    """Images of CIFAR-10 and of CIFAR-10.1, or of the stand-in where that is not at hand."""
    from . import datasets

    try:
        others, title = datasets.cifar101(), "CIFAR-10.1"
    except InputError:
        others, title = datasets.cifar10_jpeg(), _STAND_IN
    figure, axes = _new(2)
    _gallery(axes[0], datasets.cifar10()[:60:2], "CIFAR-10", 6)
    _gallery(axes[1], others[:30], title, 6)
    return figure


def _locations(records: Sequence[Record], recipe: str) -> Figure:
    """Where ME and the deep kernel see the samples differ: locations learned, trained and selected, of three trials."""
    from .trials import refit

    name = _at_hand("cifar-locations")
    shown = experiment(name)
    figure, axes = _new(len(shown.methods), width=2.6, height=2.0)
    for ax, method in zip(axes, shown.methods, strict=True):
        cell = shown.cell(shown.settings[0], method)
        _gallery(ax, [_location(refit(cell, recipe, trial)) for trial in range(3)], method, 3)
    if name != "cifar-locations":
        figure.suptitle(_STAND_IN, fontsize=8)
    return figure


def _location(fitted: FittedTest) -> NDArray[np.uint8]:
    """The location that a test for images compares at, as an image."""
    from .._featurizers import MeanEmbedding
    from .author_parts import AsPublished

    features = next(
        part for part in fitted.representation.modules() if isinstance(part, MeanEmbedding)
    )
    place = features.locations[0].detach().double()
    if isinstance(fitted.representation, AsPublished):  # in the authors' units, -1 to 1
        pixels = (place + 1) * 127.5
    else:
        pixels = place * fitted.scaling.scale + fitted.scaling.shift
    image: NDArray[np.uint8] = pixels.permute(1, 2, 0).numpy().round().clip(0, 255).astype(np.uint8)
    return image


def _at_hand(name: str) -> str:
    """The experiment, or its stand-in where CIFAR-10.1 is not at hand."""
    from . import datasets

    try:
        datasets.cifar101()
    except InputError:
        return f"{name}-stand-in"
    return name


class Drawing(NamedTuple):
    """A figure: what it shows, the experiments that it takes records of, and what draws it."""

    title: str
    experiments: tuple[str, ...]
    draw: Callable[[Sequence[Record], str], Figure]


FIGURES: Mapping[str, Drawing] = MappingProxyType(
    {
        "figure-1": Drawing("Blob-D, contours of a Gaussian and of a deep kernel", (), _figure_1),
        "figure-2": Drawing(
            "Blob: power, its spread, J, type I error", ("blob-power", "blob-level"), _figure_2
        ),
        "figure-3": Drawing(
            "HDGM: power and type I error against N and d",
            ("hdgm-power", "hdgm-level", "hdgm-dimensions-power", "hdgm-dimensions-level"),
            _figure_3,
        ),
        "digits": Drawing("real digits and a DCGAN's", (), _digits),
        "cifar": Drawing("CIFAR-10 and CIFAR-10.1", (), _cifar),
        "locations": Drawing(
            "locations learned by ME, trained and selected with the deep kernel", (), _locations
        ),
    }
)
"""The figures of the paper that are more than one experiment."""
