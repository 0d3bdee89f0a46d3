"""Figures like the paper's, drawn by matplotlib.

Our numbers have error bars, the published ones are hollow marks. Figures of experiments are drawn
from stored trials. Those of points, kernels and images are drawn from the data sets; where they
show something learned, a test is fitted for them.
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


class LineStyle(NamedTuple):
    """How a method is drawn, the same everywhere.

    No two share a mark, so that colour is not all that tells them apart.
    """

    colour: str
    marker: str

    def options(self) -> dict[str, Any]:
        """Return it as arguments of matplotlib."""
        return {"color": self.colour, "marker": self.marker}


_STYLES = {
    "me": LineStyle("#E69F00", "v"),
    "scf": LineStyle("#56B4E9", "^"),
    "c2st-s": LineStyle("#009E73", "s"),
    "c2st-l": LineStyle("#CC79A7", "D"),
    "mmd-o": LineStyle("#0072B2", "o"),
    "mmd-d": LineStyle("#D55E00", "*"),
}


def _styles(names: Sequence[str]) -> dict[str, LineStyle]:
    """Return the styles of methods; other names have the same styles, in their order."""
    # Rows and columns of the ablation have no styles of their own.
    others = itertools.cycle(_STYLES.values())
    return {name: _STYLES[name] if name in _STYLES else next(others) for name in names}


def draw(name: str, records: Iterable[Record], recipe: str = "default") -> Figure:
    """Draw the figure of a name: one of `FIGURES`, or that of an experiment."""
    kept = list(records)
    needed(name)  # raises an error for a name that does not exist
    if name in FIGURES:
        return FIGURES[name].draw(kept, recipe)
    return _panel(name, kept, recipe)


def needed(name: str) -> list[str]:
    """Return the experiments whose records a figure is drawn from."""
    if name in FIGURES:
        shown = FIGURES[name].experiments
    elif name in EXPERIMENTS:
        shown = (name,)
    else:
        known = ", ".join([*FIGURES, *EXPERIMENTS])
        raise InputError(f"there is no figure {name!r}; use one of {known}.")
    # Some cells of an experiment may be kept with another one.
    kept_with: dict[str, None] = {}
    for each in shown:
        kept_with |= dict.fromkeys(homes(experiment(each)))
    return list(kept_with)


def new_axes(
    columns: int, *, width: float = 3.6, height: float = 3.4, rows: int = 1
) -> tuple[Figure, list[Axes]]:
    """Return an empty figure, and its axes row by row."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependency(
            "figures take matplotlib; pip install 'twosample[plots]'."
        ) from None
    # Not from pyplot, which would keep it, and might want a display.
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes: Any = figure.subplots(rows, columns, squeeze=False)
    return figure, list(axes.flat)


def save(drawn: Figure, path: str | Path) -> None:
    """Write a figure to a file; the name says in which format."""
    try:
        drawn.savefig(path, dpi=130)
    except ValueError as error:
        raise InputError(
            f"{path} cannot be written: {error}. Use a name that ends in .png, .pdf or .svg."
        ) from error
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror or error}); choose another place with -o."
        ) from error


# Experiments


def _panel(name: str, records: Sequence[Record], recipe: str) -> Figure:
    shown = experiment(name)
    figure, (ax,) = new_axes(1, width=6.0, height=4.2)
    _rates(ax, shown, entries(shown, records, recipe))
    # Some titles are longer than a figure is wide.
    ax.set_title(textwrap.fill(shown.title, 70), fontsize=9)
    _legend(figure, ax)
    return figure


def _rates(ax: Axes, shown: Experiment, cells: Sequence[Entry]) -> None:
    """Draw our and the published rates, one line for each method.

    Where nothing grows from row to row, there is a line for each row instead.
    """
    by_place = {(entry.row, entry.method): entry for entry in cells}
    for name, style, positions in _lines(shown):
        ours = {at: by_place[place] for place, at in positions.items() if place in by_place}
        ax.errorbar(
            list(ours),
            [entry.rate for entry in ours.values()],
            [entry.error for entry in ours.values()],
            label=name,
            linestyle="-" if shown.axis else "",
            linewidth=1.2,
            markersize=5,
            capsize=2,
            **style.options(),
        )
        # Without a label, since the legend shall name each method once.
        theirs = {}
        for (row, method), at in positions.items():
            number = shown.expected(row, method)
            if number is not None:
                theirs[at] = number
        ax.errorbar(
            list(theirs),
            [number.rate for number in theirs.values()],
            [number.error or 0.0 for number in theirs.values()],
            linestyle="",
            markersize=8,
            markerfacecolor="none",
            elinewidth=0.8,
            **style.options(),
        )
    if shown.kind == "level":
        ax.axhline(ALPHA, color="black", linewidth=1)
        tops = [entry.rate + entry.error for entry in cells]
        ax.set_ylim(0, max([0.15, *tops]))  # the same in most figures, so that they compare
        ax.set_ylabel("type I error")
    else:
        ax.set_ylim(-0.02, 1.04)  # marks at 0 and 1 stay whole
        ax.set_ylabel("power")
    ax.set_xlabel(shown.axis)
    if not shown.axis:
        ax.set_xticks(range(len(shown.methods)), shown.methods)


def _lines(shown: Experiment) -> list[tuple[str, LineStyle, dict[tuple[str, str], float]]]:
    """Return the name of each line, its style, and where on it each (row, method) stands."""
    lines = []
    if shown.axis:
        places = _places(shown)
        styles = _styles(shown.methods)
        for method in shown.methods:
            positions = {(row, method): at for row, at in places.items()}
            lines.append((method, styles[method], positions))
        return lines
    rows = list(dict.fromkeys(setting.row for setting in shown.settings))
    styles = _styles(rows)
    middle = (len(rows) - 1) / 2
    for number, row in enumerate(rows):
        aside = (number - middle) * 0.15  # so that the marks of a method stand beside each other
        positions = {(row, method): k + aside for k, method in enumerate(shown.methods)}
        lines.append((row, styles[row], positions))
    return lines


def _places(shown: Experiment) -> dict[str, float]:
    """Return where the rows stand on the axis."""
    return {setting.row: setting.position for setting in shown.settings}


def _legend(figure: Figure, ax: Axes) -> None:
    marks, names = ax.get_legend_handles_labels()
    # Outside of the panels, where it hides no point.
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
    power = experiment("blob-power")
    level = experiment("blob-level")
    figure, axes = new_axes(4, width=3.3)
    cells = entries(power, records, recipe)
    _rates(axes[0], power, cells)
    _spreads(axes[1], power, cells)
    _criteria(axes[2], power, records, recipe)
    _rates(axes[3], level, entries(level, records, recipe))
    for letter, ax in zip("abcd", axes, strict=True):
        ax.set_title(f"({letter})", fontsize=10)
    _legend(figure, axes[0])
    return figure


def _spreads(ax: Axes, shown: Experiment, cells: Sequence[Entry]) -> None:
    """Draw the standard deviation of the rates over trials."""
    places = _places(shown)
    for method in shown.methods:
        several = [entry for entry in cells if entry.method == method and len(entry.rates) > 1]
        at = [places[entry.row] for entry in several]
        spread = [float(np.std(entry.rates, ddof=1)) for entry in several]
        ax.plot(at, spread, markersize=5, **_STYLES[method].options())
    ax.set(xlabel=shown.axis, ylabel="standard deviation of power")


def _criteria(ax: Axes, shown: Experiment, records: Sequence[Record], recipe: str) -> None:
    """Draw J of the trained kernels on their training points."""
    places = _places(shown)
    for method in ("mmd-o", "mmd-d"):
        wanted = (shown.name, method, recipe)
        values: dict[str, list[float]] = {}
        for record in records:
            place = (record.experiment, record.method, record.recipe)
            if place == wanted and record.criterion is not None:
                values.setdefault(record.setting, []).append(record.criterion)
        rows = [row for row in places if row in values]
        at = [places[row] for row in rows]
        means = [float(np.mean(values[row])) for row in rows]
        errors = [float(np.std(values[row])) / len(values[row]) ** 0.5 for row in rows]
        ax.errorbar(at, means, errors, markersize=5, capsize=2, **_STYLES[method].options())
    ax.set(xlabel=shown.axis, ylabel="J on the training points")


def _figure_3(records: Sequence[Record], recipe: str) -> Figure:
    """HDGM: power and type I error against N and against d."""
    names = ("hdgm-power", "hdgm-level", "hdgm-dimensions-power", "hdgm-dimensions-level")
    figure, axes = new_axes(4, width=3.3)
    for letter, ax, name in zip("abcd", axes, names, strict=True):
        shown = experiment(name)
        _rates(ax, shown, entries(shown, records, recipe))
        ax.set_title(f"({letter})", fontsize=10)
    _legend(figure, axes[0])
    return figure


# Points and kernels

_CENTRES = np.array([(i, j) for i in range(3) for j in range(3)], dtype=np.float64)
_WINDOW = ((-0.75, 2.75), (-0.5, 2.5))
_GRID_X = np.linspace(*_WINDOW[0], 141)
_GRID_Y = np.linspace(*_WINDOW[1], 121)
_LEVELS = (0.7, 0.8, 0.9)


def _figure_1(records: Sequence[Record], recipe: str) -> Figure:
    """Blob-D: both samples, and the contours of two kernels around the middle of each blob."""
    from . import datasets, recipes
    from .experiments import Cell
    from .trials import seeded

    setting = next(s for s in experiment("blob-power").settings if s.name == "n_b=100")
    figure, axes = new_axes(4, width=3.1, height=3.0)
    points = seeded(Cell("figure-1", setting, "points"), 0).numpy("points")
    X, Y = datasets.blob(setting.n, rng=points)
    for ax, sample, title in ((axes[0], X, "(a) X"), (axes[1], Y, "(b) Y")):
        ax.plot(*sample.T, ".", color="#0072B2", markersize=2)
        ax.set(title=title)
    kernels = ((axes[2], "mmd-o", "(c) Gaussian kernel"), (axes[3], "mmd-d", "(d) deep kernel"))
    for ax, method, title in kernels:
        generators = seeded(Cell("figure-1", setting, method), 0)
        fitted = recipes.fit(method, recipe, setting, X, Y, generators)
        for values in _kernel_values(fitted):
            # matplotlib warns of levels that no point reaches.
            levels = [level for level in _LEVELS if values.min() < level < values.max()]
            if levels:
                ax.contour(_GRID_X, _GRID_Y, values, levels, colors="black", linewidths=0.8)
        ax.plot(*_CENTRES.T, "+", color="#D55E00")
        ax.set(title=title)
    for ax in axes:
        ax.set(xlim=_WINDOW[0], ylim=_WINDOW[1], aspect="equal")
    return figure


def _kernel_values(fitted: FittedTest) -> NDArray[np.float64]:
    """Return k(., centre) on the grid of the window, for each centre: (9, 121, 141)."""
    import torch

    from .._data.survey import as_samples

    x, y = np.meshgrid(_GRID_X, _GRID_Y)
    grid = np.column_stack([x.ravel(), y.ravel()])
    samples = fitted.scaling.apply(as_samples(grid, _CENTRES, schema=fitted.schema))
    with torch.no_grad():
        values = fitted.representation(samples.x, samples.y).double().numpy()  # (121 * 141, 9)
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

    figure, axes = new_axes(2)
    _gallery(axes[0], datasets.mnist()[:60], "MNIST")
    _gallery(axes[1], datasets.fake_mnist()[:60], "made by a DCGAN")
    return figure


def _cifar(records: Sequence[Record], recipe: str) -> Figure:
    """Images of CIFAR-10 and of CIFAR-10.1, or of the stand-in where that is not at hand."""
    from . import datasets

    try:
        others = datasets.cifar101()
        title = "CIFAR-10.1"
    except InputError:
        others = datasets.cifar10_jpeg()
        title = _STAND_IN
    figure, axes = new_axes(2)
    _gallery(axes[0], datasets.cifar10()[:60:2], "CIFAR-10", 6)
    _gallery(axes[1], others[:30], title, 6)
    return figure


def _locations(records: Sequence[Record], recipe: str) -> Figure:
    """Locations at which the samples differ: learned, trained and selected, of three trials."""
    from .trials import refit

    name = _at_hand("cifar-locations")
    shown = experiment(name)
    figure, axes = new_axes(len(shown.methods), width=2.6, height=2.0)
    for ax, method in zip(axes, shown.methods, strict=True):
        cell = shown.cell(shown.settings[0], method)
        # Three, because a location depends on the start of its training.
        images = [_location(refit(cell, recipe, trial)) for trial in range(3)]
        _gallery(ax, images, method, 3)
    if name != "cifar-locations":
        figure.suptitle(_STAND_IN, fontsize=8)
    return figure


def _location(fitted: FittedTest) -> NDArray[np.uint8]:
    """Return the location at which a test compares images, as an image."""
    from .._featurizers import MeanEmbedding
    from .author_parts import AsPublished

    parts = fitted.representation.modules()
    features = next(part for part in parts if isinstance(part, MeanEmbedding))
    location = features.locations[0].detach().double()  # (C, H, W)
    if isinstance(fitted.representation, AsPublished):  # in the authors' units, -1 to 1
        pixels = (location + 1) * 127.5
    else:
        pixels = location * fitted.scaling.scale + fitted.scaling.shift
    values = pixels.permute(1, 2, 0).numpy().round()
    image: NDArray[np.uint8] = values.clip(0, 255).astype(np.uint8)
    return image


def _at_hand(name: str) -> str:
    """Return the experiment, or its stand-in where CIFAR-10.1 is not at hand."""
    from . import datasets

    try:
        datasets.cifar101()
    except InputError:
        return f"{name}-stand-in"
    return name


class Drawing(NamedTuple):
    """A figure: what it shows, the experiments whose records it needs, and what draws it."""

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
"""The figures of the paper that show more than one experiment."""
