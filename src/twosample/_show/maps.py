"""Charts of held-out points in two dimensions: the map of the witness, the contours of the kernel.

Like those in `charts`, they are described here once and drawn by `plots` and `svg_charts`. Where
not all held-out points are shown, those that are were chosen at random, without looking at their
values.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2
from scipy.spatial.distance import cdist
from torch import Tensor, nn

from .._data.embedding import embed_samples
from .._data.samples import Samples
from .._data.schema import Schema
from .._data.survey import as_samples
from .._data.tables import cut_in_the_middle
from .._featurizers import SklearnClassifier
from .._insight.explain import Explanation, witness
from .._insight.held_out import held_out
from .._kernels import DeepKernel, Embedding, Kernel, Mapped, embedding_of
from .._random import Generators, RNGLike
from .._resources import Resources
from .._result import TwoSampleResult
from .._two_sample import FittedTest
from .._views import Views
from ..errors import IncompatibleParts, InputError
from .charts import Ends

Array = NDArray[np.float64]
Limits = tuple[Ends, Ends]
"""The ends of the horizontal and of the vertical axis."""

WITNESS_CLASSES = 9
"""Into how many colours the witness is cut, from as in Y to as in X."""

KERNEL_LEVELS = (0.7, 0.8, 0.9)
"""The levels of the contours in the paper's figure 1."""

_GRID = 81  # points along each axis of a field
_CENTRES = 9
_MOST_CLUSTERED = 2000  # points among which typical ones are looked for
_STARTS = 8


@dataclass(frozen=True, eq=False)
class Field:
    """Numbers on a grid: `values` is (len(y), len(x))."""

    x: Array
    y: Array
    values: Array

    def crossed(self, levels: Sequence[float]) -> list[float]:
        """The levels that the values cross; there is no contour at any other."""
        low = self.values.min()
        high = self.values.max()
        return [level for level in levels if low < level < high]


@dataclass(frozen=True, eq=False)
class Scatter:
    """Points in two dimensions.

    Attributes
    ----------
    positions
        (N, 2) places.
    of_y
        (N,) whether a point is of Y.
    axes
        What the horizontal and the vertical axis show.
    """

    positions: Array
    of_y: NDArray[np.bool_]
    axes: tuple[str, str]

    @property
    def limits(self) -> Limits:
        """Ends of the axes that hold the bulk of the points, with a margin."""
        # A few far-out points would otherwise press all others into a corner.
        low, high = np.quantile(self.positions, [0.005, 0.995], axis=0)  # (2,) each
        extent = high - low
        margin = np.where(high > low, 0.08 * extent, 0.5)
        left, bottom = (low - margin).tolist()
        right, top = (high + margin).tolist()
        return (left, right), (bottom, top)

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Which points lie within the limits."""
        low, high = np.array(self.limits).T
        above = self.positions >= low  # (N, 2)
        below = self.positions <= high
        within: NDArray[np.bool_] = (above & below).all(1)
        return within


@dataclass(frozen=True, eq=False)
class PointMap(Scatter):
    """Held-out points in two dimensions, coloured by the witness.

    Attributes
    ----------
    witness
        (N,) values of the witness at each point, computed without the point itself.
    points
        (N,) places of these points among the pooled held-out ones, X first.
    rows
        (N,) their rows in the X or Y that was tested.
    total
        The number of held-out points that these were drawn from.
    space
        What the axes are taken from, in a few words.
    share
        The share of the variance that the two axes have; None where they are all there is.
    field
        The witness all over the plane, where the data are two columns of numbers.
    by_witness
        Whether the horizontal axis is the witness itself.
    samples
        What X and Y are called.
    """

    witness: Array
    points: NDArray[np.int64]
    rows: NDArray[np.int64]
    total: int
    space: str
    share: float | None
    field: Field | None
    by_witness: bool = False
    samples: tuple[str, str] = ("X", "Y")

    title = "The witness: blue as in X, orange as in Y"

    @property
    def in_plane(self) -> bool:
        """Whether the axes are the two columns of the data."""
        return self.field is not None

    @property
    def largest(self) -> float:
        """The size of the witness at which colours end; few points have more."""
        sizes = np.abs(self.witness)
        return float(np.quantile(sizes, 0.98)) or 1.0  # the witness may be 0 everywhere

    @property
    def colours(self) -> Array:
        """The witness between -1 (as in Y) and 1 (as in X); what is far out counts as the ends."""
        return np.clip(self.witness / self.largest, -1.0, 1.0)

    @property
    def classes(self) -> list[int]:
        """The colour of each point as a number from 0 (as in Y) to WITNESS_CLASSES - 1."""
        shares = (self.colours + 1) / 2  # from 0 to 1
        classes = np.floor(shares * WITNESS_CLASSES)
        # The very end of the scale belongs to the last colour.
        known = classes.clip(0, WITNESS_CLASSES - 1)
        return [int(shade) for shade in known]

    @property
    def levels(self) -> Array:
        """The values of the witness between which one colour holds."""
        shares: Array = np.linspace(-1, 1, WITNESS_CLASSES + 1)
        return shares * self.largest

    @property
    def alt(self) -> str:
        """The chart in words, for those who do not see it."""
        across, up = self.axes
        count = int(self.inside.sum())
        return (
            f"Map of {count} held-out points: across {across}, up {up}; "
            f"coloured by whether they look like {self.samples[0]} or like {self.samples[1]}."
        )


@dataclass(frozen=True, eq=False)
class KernelContours:
    """Contours of the kernel around typical points.

    Attributes
    ----------
    points
        The points of both samples that are drawn with the contours.
    centres
        (K, 2) typical points.
    fields
        For each centre c the kernel k(z, c) / k(c, c) all over the plane.
    """

    points: Scatter
    centres: Array
    fields: tuple[Field, ...]

    title = "Contours of the kernel"
    levels = KERNEL_LEVELS

    @property
    def alt(self) -> str:
        """The chart in words, for those who do not see it."""
        return (
            f"Contours of the kernel around {len(self.centres)} typical points, at 0.7, 0.8 and "
            "0.9 of its value there."
        )


# The map.


def point_map(
    explanation: Explanation,
    *,
    most: int = 1500,
    rng: RNGLike | None = None,
    names: tuple[str, str] = ("X", "Y"),
) -> PointMap:
    """A map of at most `most` held-out points.

    Two columns of numbers are shown as they are, anything else along the main axes of what the
    kernel compares. `names` are what X and Y are called.

    Examples
    --------
    >>> from twosample import explain, two_sample_test
    >>> from twosample.bench.datasets import blob
    >>> result = two_sample_test(*blob(90, rng=0), "mmd-o", rng=0)
    >>> drawn = point_map(explain(result, shuffles=0, rng=0), rng=0)
    >>> drawn.positions.shape, drawn.axes, drawn.share
    ((90, 2), ('0', '1'), None)
    """
    fitted, samples = held_out(explanation.result)
    generators = Generators(rng)
    n, m = samples.sizes
    draws = generators.torch("map")
    shuffled = torch.randperm(n + m, generator=draws)
    chosen = shuffled[:most].sort().values
    of_y = (chosen >= n).numpy()
    points = samples.pooled()[chosen.to(samples.x.device)]

    layout = _layout(fitted, samples, points, generators)
    field = None
    if is_plane(samples.schema):
        limits = Scatter(layout.positions, of_y, layout.axes).limits
        field = _witness_field(explanation.result, limits)

    # The contribution of a point is the witness there over the size of its sample; for points of Y
    # with the other sign.
    contributions_x, contributions_y = explanation.contributions
    witness_x = n * contributions_x
    witness_y = -m * contributions_y
    pooled_witness = np.concatenate([witness_x, witness_y])
    rows_x, rows_y = row_numbers(samples)
    pooled_rows = torch.cat([rows_x, rows_y])
    at_points = pooled_witness[chosen.numpy()]
    # Main axes need not tell the samples apart. The witness does, so it is one of the axes.
    by_witness = layout.features is not None and float(at_points.std()) > 0
    if by_witness and layout.features is not None:
        layout = _along_witness(layout, layout.features, at_points, names)
    return PointMap(
        layout.positions,
        of_y,
        layout.axes,
        witness=at_points,
        points=chosen.numpy(),
        rows=pooled_rows[chosen].numpy(),
        total=n + m,
        space=layout.space,
        share=layout.share,
        field=field,
        by_witness=by_witness,
        samples=names,
    )


@dataclass(frozen=True, eq=False)
class _Layout:
    """Where points are on a map; see `PointMap` for the rest."""

    positions: Array
    axes: tuple[str, str]
    space: str
    share: float | None = None
    features: Array | None = None  # of a table that is drawn along main axes


def _along_witness(
    layout: _Layout, features: Array, witness: Array, names: tuple[str, str]
) -> _Layout:
    """The witness across; up, the main axis of what is left of the features without it."""
    across = (witness - witness.mean()) / witness.std()
    centred = features - features.mean(0)
    rest = centred - np.outer(across, across @ centred) / len(across)
    positions, _ = _main_axes(rest)
    x, y = (cut_in_the_middle(name, 20) for name in names)
    axes = (f"like {y} on the left, like {x} on the right", f"main axis of {layout.space}")
    return _Layout(np.column_stack([across, positions[:, 0]]), axes, layout.space)


def _layout(
    fitted: FittedTest, samples: Samples, points: Tensor, generators: Generators
) -> _Layout:
    if is_plane(samples.schema):
        first, second = samples.schema.columns
        positions = fitted.scaling.undo(points).numpy()
        return _Layout(positions, (first.name, second.name), "the data")
    space = _space(fitted, samples.schema)
    pooled = Samples(points[:0], points, samples.schema)  # labels have no say in what is seen
    features = _features(fitted, pooled, generators.torch("embedding"))
    if features.shape[1] == 1:
        positions = _spread_out(features, generators.torch("height"))
        return _Layout(positions, (space, "nothing: spread at random"), space)
    positions, share = _main_axes(features)
    axes = (f"first main axis of {space}", "second main axis")
    kept = features if samples.schema.kind == "table" else None
    return _Layout(positions, axes, space, share, kept)


def row_numbers(samples: Samples) -> tuple[Tensor, Tensor]:
    """The rows of X and of Y in the data that were given; those of the points if nobody knows."""
    if samples.rows is None:
        n, m = samples.sizes
        return torch.arange(n), torch.arange(m)
    rows_x, rows_y = samples.rows
    return rows_x.cpu(), rows_y.cpu()


def is_plane(schema: Schema) -> bool:
    """Whether the data are two columns of numbers, to be drawn as they are."""
    kinds = [column.kind for column in schema.columns]
    # A column of numbers with gaps has a second encoded column, and then there are more than two.
    return kinds == ["numeric", "numeric"] and schema.shape == (2,)


def _features(fitted: FittedTest, samples: Samples, generator: torch.Generator) -> Array:
    """(N, d): what the kernel compares points by, or the features that the statistic takes."""
    embed = embedding_of(fitted.representation)
    resources = Resources(fitted.spec.memory)
    embedded = embed_samples(samples, embed, generator, resources)
    # After its features a deep kernel keeps the raw columns, too.
    first = embedded.parts[0].flatten(1)
    features: Array = first.double().cpu().numpy()
    return features


def _space(fitted: FittedTest, schema: Schema) -> str:
    """What the test compares points by, in a few words."""
    representation = fitted.representation
    learned = isinstance(representation, DeepKernel | Mapped)
    # Views make features of the points inside the statistic; what they see are the points.
    sees_points = isinstance(representation, Embedding | Views)
    if sees_points and not learned:
        return "the pixels" if schema.kind == "image" else "the standardised columns"
    for part in representation.modules():
        if isinstance(part, SklearnClassifier):
            return "the score"
    return "the learned features"


def _spread_out(features: Array, generator: torch.Generator) -> Array:
    """One feature across, and random heights so that points do not lie upon each other."""
    heights = torch.rand(len(features), generator=generator, dtype=torch.float64)
    return np.column_stack([features[:, 0], heights.numpy()])


def _main_axes(features: Array) -> tuple[Array, float]:
    """The two directions with the largest variance, and their share of all of it."""
    centred = features - features.mean(0)
    _, lengths, directions = np.linalg.svd(centred, full_matrices=False)
    first_two = directions[:2]  # (2, d)
    variance = lengths**2
    tiny = np.finfo(np.float64).tiny  # features may all be the same
    total = max(variance.sum(), tiny)
    share = variance[:2].sum() / total
    return centred @ first_two.T, float(share)


def _witness_field(result: TwoSampleResult, limits: Limits) -> Field:
    """The witness all over a plane, between limits in the user's units."""
    fitted, samples = held_out(result)
    x, y, grid = _grid(limits)
    # `witness` asks for the names of columns, which points of a grid do not have.
    unnamed = as_samples([[0.0, 0.0]], [[1.0, 1.0]]).schema
    renamed = dataclasses.replace(samples, schema=unnamed)
    result = dataclasses.replace(result, samples=renamed)
    points = fitted.scaling.undo(samples.pooled()).numpy()
    values = witness(result, np.concatenate([grid, points]))
    field = values[: len(grid)]
    if _is_inner_product(fitted.representation, samples):
        # The origin of features is arbitrary. Counted from midway between the samples, the field
        # agrees with the contributions of the points.
        at_points = values[len(grid) :]
        n, _ = samples.sizes
        mean_x = at_points[:n].mean()
        mean_y = at_points[n:].mean()
        field = field - (mean_x + mean_y) / 2
    return Field(x, y, field.reshape(_GRID, _GRID))


# The contours of the kernel.


def held_out_plane(result: TwoSampleResult) -> Scatter:
    """All held-out points, for data of two columns of numbers."""
    fitted, samples = held_out(result)
    if not is_plane(samples.schema):
        raise InputError(
            "contours of the kernel take data of two columns of numbers; `witness_map` draws "
            "others along their main axes."
        )
    positions = fitted.scaling.undo(samples.pooled()).numpy()
    n, _ = samples.sizes
    of_y = np.arange(len(positions)) >= n
    first, second = samples.schema.columns
    return Scatter(positions, of_y, (first.name, second.name))


def kernel_contours_of(
    result: TwoSampleResult, points: Scatter, *, rng: RNGLike | None = None
) -> KernelContours:
    """The kernel around nine typical points, in the plane of `points`.

    The typical points are the centres of clusters of all held-out points together, so labels have
    no say in them.
    """
    fitted, samples = held_out(result)
    kernel = fitted.representation
    if not isinstance(kernel, Kernel) or _is_inner_product(kernel, samples):
        raise IncompatibleParts(
            f"the test {fitted.spec.name} compares features, not points by a kernel that falls "
            "with their distance, so it has no contours around a point. Use mmd-d or mmd-o."
        )
    pooled = samples.pooled().double().cpu().numpy()
    generator = Generators(rng).numpy("centres")
    order = generator.permutation(len(pooled))
    clustered = pooled[order[:_MOST_CLUSTERED]]
    centres = torch.from_numpy(_cluster_centres(clustered, _CENTRES, generator))

    x, y, grid = _grid(points.limits)
    scaling = fitted.scaling
    scaled_grid = scaling.apply_to(torch.from_numpy(grid), dtype=torch.float64)
    with torch.no_grad():
        # On the device of the samples and in their precision, as in the test.
        a = scaled_grid.to(samples.x)
        b = centres.to(samples.x)
        around = kernel(a, b)  # (G, centres)
        at_centres = kernel(b, b).diagonal()
    values = (around / at_centres).double().cpu().numpy()
    fields = []
    for column in values.T:  # one for each centre
        on_grid = column.reshape(_GRID, _GRID)
        fields.append(Field(x, y, on_grid))
    return KernelContours(
        points=points,
        centres=scaling.undo(centres).numpy(),
        fields=tuple(fields),
    )


def _is_inner_product(representation: nn.Module, samples: Samples) -> bool:
    """Whether the kernel is an inner product of a few features, which have no natural origin."""
    if not isinstance(representation, Kernel):
        return False
    with torch.no_grad():
        embedded = representation.embed(samples.pooled()[:2])
        return representation.features(embedded) is not None


def _cluster_centres(points: Array, count: int, generator: np.random.Generator) -> Array:
    """The centres of the tightest clusters that k-means finds from a few starts."""
    distinct = np.unique(points, axis=0)
    count = min(count, len(distinct))
    spread = np.inf
    tightest = points[:count]
    for _ in range(_STARTS):
        with warnings.catch_warnings():
            # A cluster that becomes empty keeps its centre, which is as typical as before.
            warnings.simplefilter("ignore")
            centres, _ = kmeans2(points, count, iter=25, minit="++", seed=generator)
        to_centres = cdist(points, centres, "sqeuclidean")  # (N, count)
        total = to_centres.min(1).sum()
        if total < spread:
            spread = total
            tightest = centres
    return tightest


# Common to both.


def _grid(limits: Limits) -> tuple[Array, Array, Array]:
    """The two axes of a field, and all (G, 2) points of its grid."""
    across, up = limits
    x = np.linspace(*across, _GRID)
    y = np.linspace(*up, _GRID)
    grid = np.stack(np.meshgrid(x, y), axis=-1)  # (len(y), len(x), 2)
    return x, y, grid.reshape(-1, 2)
