"""What there is to see in a result, as numbers: what `plots` draws and the report shows. Nothing here draws.

All of it looks at held-out points after the fact. Where not all of them are shown, those that are
were drawn at random without a look at their values.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from torch import Tensor, nn

from .._data.samples import Column, Samples, Schema, as_samples
from .._featurizers import SklearnClassifier
from .._insight.comparing import Comparison, effects
from .._insight.explain import Explanation, held_out, places, witness
from .._insight.power import PredictedPower, predict_power
from .._kernels import DeepKernel, Kernel, Mapped
from .._random import Generators, RNGLike
from .._result import ALPHA, TwoSampleResult
from .._statistics.mmd import HotellingT2, Law, embed_pooled, embedding
from .._two_sample import FittedTest
from ..errors import IncompatibleParts, InputError

Array = NDArray[np.float64]
Limits = tuple[tuple[float, float], tuple[float, float]]
"""The ends of the two axes of a map."""

KERNEL_LEVELS = (0.7, 0.8, 0.9)
"""Those of the contours in the paper's figure 1."""

_MOST_BINS = 60
_GRID = 81  # points along each axis of a field
_CENTRES = 9
_CURVE = 48  # points of a curve
_MOST_COUNTS = 10  # whole numbers that are shown one by one


# The null distribution.


@dataclass(frozen=True, eq=False)
class Null:
    """What the statistic looks like when P = Q, and the observed value.

    Attributes
    ----------
    edges, shares
        Of bins, and how much of the null distribution falls into each: of shuffles, or of a
        limiting law.
    observed
        The statistic of the test.
    symbol
        What the statistic is called: "MMD²" or "T²".
    threshold
        alpha -> the value that the statistic must exceed; None if no value is rejected at so small
        an alpha.
    """

    edges: Array
    shares: Array
    observed: float
    symbol: str
    threshold: Callable[[float], float | None]


def null_of(result: TwoSampleResult) -> Null:
    """The null distribution of a test."""
    values = np.asarray(result.null_distribution, dtype=np.float64)
    threshold: Callable[[float], float | None]
    if len(values):
        edges = np.histogram_bin_edges(values, "auto")
        if not 10 <= len(edges) - 1 <= _MOST_BINS:
            edges = np.histogram_bin_edges(values, min(max(len(edges) - 1, 10), _MOST_BINS))
        shares, threshold = np.histogram(values, edges)[0] / len(values), _exceeded(values)
    else:
        law = _law(result)
        edges = np.linspace(min(law.threshold(0.999), 0.0), law.threshold(0.001), 41)
        shares, threshold = -np.diff([law.survival(float(edge)) for edge in edges]), law.threshold
    squared = result.fitted is not None and isinstance(result.fitted.spec.statistic, HotellingT2)
    return Null(edges, shares, result.statistic, "T²" if squared else "MMD²", threshold)


def _exceeded(values: Array) -> Callable[[float], float | None]:
    ordered = np.sort(values)

    def threshold(alpha: float) -> float | None:
        # p <= alpha means that fewer than this many shuffles reach the observed value.
        rank = math.floor(alpha * (len(ordered) + 1) + 1e-9)
        return None if rank < 1 else float(ordered[-min(rank, len(ordered))])

    return threshold


def _law(result: TwoSampleResult) -> Law:
    if result.fitted is None or result.calibrated is None:
        raise InputError(
            "this result holds neither shuffles nor what its law is that of; take it as a test "
            "returns it."
        )
    return result.fitted.spec.statistic.law(result.calibrated.prepared)


# Power.


@dataclass(frozen=True, eq=False)
class PowerCurve:
    """Power over the points of X that are tested, with so many times as many of Y.

    Attributes
    ----------
    sizes, power, low, high
        (K,) numbers of points of X, the predicted power, and the interval that holds it with
        confidence 0.9.
    here
        The points of X in the test at hand.
    needed
        Those that give the wanted power; None if no number is known to.
    """

    sizes: NDArray[np.int64]
    power: Array
    low: Array
    high: Array
    here: int
    needed: int | None


def power_over_sizes(
    predicted: PredictedPower,
    *,
    power: float = 0.9,
    alpha: float = ALPHA,
    sizes: tuple[int, int] | None = None,
) -> PowerCurve:
    """The predicted power from a few points to more than it takes.

    `sizes` are those of the test at hand, where the prediction comes from a part of its points.
    """
    n, m = predicted.sizes if sizes is None else sizes
    ratio = m / n
    needed = predicted.samples_needed(power, alpha, ratio=ratio)
    most = 2 * max(n, min(needed or 8 * n, 64 * n))
    at = np.unique(np.geomspace(4, most, _CURVE).round().astype(np.int64))
    both = [(int(size), max(2, round(size * ratio))) for size in at]
    ends = np.array([predicted.power_interval(*pair, alpha) for pair in both])
    return PowerCurve(
        at,
        np.array([predicted.power(*pair, alpha) for pair in both]),
        ends[:, 0],
        ends[:, 1],
        n,
        needed,
    )


# How far many samples are from one reference.


@dataclass(frozen=True)
class Distance:
    """How far one sample is from the reference of a comparison.

    Attributes
    ----------
    name, adjusted
        Of the sample, and its p-value after the correction.
    value
        The MMD, or for tests without one their statistic.
    ends
        What holds the value with confidence of about 0.9, given how well it is known; None where
        there is no formula.
    """

    name: str
    adjusted: float
    value: float
    ends: tuple[float, float] | None


def distances(
    comparison: Comparison, seen: Mapping[str, TwoSampleResult] | None = None
) -> list[Distance]:
    """How far each sample is from the reference.

    `seen` holds results of the same fitted tests on a part of the points, where all of them would
    take long.
    """
    _, values = effects(comparison)
    return [
        Distance(
            name,
            comparison.adjusted[name],
            value,
            _around(comparison[name], (seen or comparison).get(name)),
        )
        for name, value in values.items()
    ]


def _around(result: TwoSampleResult, seen: TwoSampleResult | None) -> tuple[float, float] | None:
    """The ends of the interval that holds the MMD with confidence of about 0.9: that of a normal law for its square."""
    if seen is None or result.effect.mmd is None:
        return None
    try:
        width = NormalDist().inv_cdf(0.95) * predict_power(seen).deviation(*result.sizes)
    except (InputError, IncompatibleParts):
        return None
    # An estimate below 0 is one of 0: its interval does not shrink to nothing.
    mmd2 = max(0.0, result.statistic)
    return math.sqrt(max(0.0, mmd2 - width)), math.sqrt(mmd2 + width)


# Columns.


@dataclass(frozen=True, eq=False)
class Marginal:
    """One column in X and in Y.

    Attributes
    ----------
    name, kind
        As in the user's table.
    at
        Where densities are given, in the user's units; the levels of a category or of a boolean, or
        whole numbers, if there are few, as texts.
    x, y
        Densities at these points, or shares of these levels.
    """

    name: str
    kind: str
    at: Array | tuple[str, ...]
    x: Array
    y: Array


def marginal_of(result: TwoSampleResult, name: str) -> Marginal:
    """How one column of a table is distributed in each of the held-out samples."""
    fitted, samples = held_out(result)
    found = {column.name: (column, place) for column, place in places(samples.schema)}
    if name not in found:
        raise InputError(
            f"there is no column {name!r}; there are "
            f"{', '.join(found) or 'none, as these are images'}."
        )
    column, place = found[name]
    shift, scale = fitted.scaling.shift[place], fitted.scaling.scale[place]
    x, y = (
        (points[:, place].cpu().double() * scale + shift).numpy()
        for points in (samples.x, samples.y)
    )
    if column.kind == "numeric":
        x, y = (_present(column, part)[:, 0] for part in (x, y))
        pooled = np.concatenate([x, y])
        if (counts := _few_whole_numbers(pooled)) is not None:
            shares = [(np.rint(part)[:, None] == counts).mean(0) for part in (x, y)]
            return Marginal(name, column.kind, tuple(f"{count:g}" for count in counts), *shares)
        at = _spread(pooled)
        width = _bandwidth(pooled, at)
        return Marginal(name, column.kind, at, _density(x, at, width), _density(y, at, width))
    if column.kind == "boolean":
        gaps = [part[:, -1:] if column.missing else np.zeros((len(part), 0)) for part in (x, y)]
        values = [
            part[:, :1] * (1 - gap.sum(1, keepdims=True))
            for part, gap in zip((x, y), gaps, strict=True)
        ]
        x, y = (
            np.column_stack([1 - value - gap.sum(1, keepdims=True), value, gap])
            for value, gap in zip(values, gaps, strict=True)
        )
    levels = tuple(feature.removeprefix(f"{name}=") for feature in column.features)
    levels = (
        ("false", "true") if column.kind == "boolean" else levels[: len(levels) - column.missing]
    )
    return Marginal(
        name, column.kind, (*levels, "missing") if column.missing else levels, x.mean(0), y.mean(0)
    )


def _present(column: Column, values: Array) -> Array:
    """The rows of a column of numbers where it is not missing; all of them where it always is."""
    there = values[:, -1] < 0.5 if column.missing else np.ones(len(values), dtype=bool)
    return values[there] if there.any() else values


def _few_whole_numbers(values: Array) -> Array | None:
    """The values of a column that has few and only whole ones, which a density would smear; None for others."""
    whole = np.rint(values) + 0.0  # never -0
    found: Array = np.unique(whole)
    rounded = min(0.01, 1e-5 * float(np.ptp(values))) + 1e-12 * float(
        np.abs(values).max()
    )  # to single precision
    return found if len(found) <= _MOST_COUNTS and np.abs(values - whole).max() <= rounded else None


def _spread(values: Array) -> Array:
    """Points along the bulk of the values."""
    low, high = (float(end) for end in np.quantile(values, [0.005, 0.995]))
    margin = 0.08 * (high - low) or max(1.0, abs(low)) * 0.5
    return np.linspace(low - margin, high + margin, 2 * _CURVE)


def _bandwidth(pooled: Array, at: Array) -> float:
    """Silverman's rule for the pooled values, so that labels have no say; never narrower than the grid."""
    quarter, three_quarters = np.quantile(pooled, [0.25, 0.75])
    deviation = float(pooled.std())
    spread = min(deviation, float(three_quarters - quarter) / 1.349) or deviation
    return max(0.9 * spread * math.pow(len(pooled), -0.2), float(at[1] - at[0]))


def _density(values: Array, at: Array, width: float) -> Array:
    total = sum(
        np.exp(-0.5 * ((at[:, None] - part) / width) ** 2).sum(1)
        for part in np.array_split(values, 8)
    )
    density: Array = np.asarray(total) / (len(values) * width * math.sqrt(2 * math.pi))
    return density


# Maps.


@dataclass(frozen=True, eq=False)
class PointMap:
    """Held-out points in two dimensions.

    Attributes
    ----------
    positions, witness, of_y
        (N, 2) places, (N,) values of the witness at each point without the point itself, and
        whether it is of Y.
    points
        (N,) places of these points among the pooled held-out ones, X first.
    rows
        (N,) their rows in the X or Y that was tested.
    axes
        What the axes are.
    space
        What is seen along them, in a few words.
    in_plane
        Whether the axes are the two columns of the data.
    share
        Of the variance, how much the two axes have; None where they are all there is.
    total
        The number of held-out points that these were drawn from.
    """

    positions: Array
    witness: Array
    of_y: NDArray[np.bool_]
    points: NDArray[np.int64]
    rows: NDArray[np.int64]
    axes: tuple[str, str]
    space: str
    in_plane: bool
    share: float | None
    total: int

    @property
    def limits(self) -> Limits:
        """Ends of the axes that hold the bulk of the points."""
        return bulk(self.positions)

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Which points lie within the limits."""
        low, high = np.array(self.limits).T
        within: NDArray[np.bool_] = ((self.positions >= low) & (self.positions <= high)).all(1)
        return within

    @property
    def colours(self) -> Array:
        """The witness between -1 (as in Y) and 1 (as in X); what is far out counts as the ends."""
        return np.clip(self.witness / self.largest, -1.0, 1.0)

    @property
    def largest(self) -> float:
        """The size of the witness at which colours end: few points have more."""
        return float(np.quantile(np.abs(self.witness), 0.98)) or 1.0


def bulk(positions: Array) -> Limits:
    """Ends of the two axes between which most of the (N, 2) positions lie, with a margin."""
    low, high = np.quantile(positions, [0.005, 0.995], axis=0)
    margin = np.where(high > low, 0.08 * (high - low), 0.5)
    (left, bottom), (right, top) = (low - margin).tolist(), (high + margin).tolist()
    return (left, right), (bottom, top)


def point_map(
    explanation: Explanation, *, most: int = 1500, rng: RNGLike | None = None
) -> PointMap:
    """At most `most` held-out points: two columns as they are, anything else along the main axes of its features.

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
    generators, (n, m) = Generators(rng), samples.sizes
    chosen = torch.randperm(n + m, generator=generators.torch("map"))[:most].sort().values
    of_x, of_y = explanation.contributions
    at_points = np.concatenate(
        [n * of_x, -m * of_y]
    )  # a contribution is the witness over the size of the sample
    rows = samples.rows or (torch.arange(n), torch.arange(m))
    shared = {
        "witness": at_points[chosen.numpy()],
        "of_y": (chosen >= n).numpy(),
        "points": chosen.numpy(),
        "rows": torch.cat([part.cpu() for part in rows])[chosen].numpy(),
        "total": n + m,
    }
    pooled = samples.pooled()[chosen.to(samples.x.device)]
    if is_plane(samples.schema):
        first, second = samples.schema.columns
        positions = in_units(fitted, pooled)
        return PointMap(
            positions,
            axes=(first.name, second.name),
            space="the data",
            in_plane=True,
            share=None,
            **shared,
        )
    features = _features(
        fitted, Samples(pooled[:0], pooled, samples.schema), generators.torch("embedding")
    )
    space = _space(fitted, samples.schema)
    if features.shape[1] == 1:
        height = torch.rand(
            len(chosen), generator=generators.torch("height"), dtype=torch.float64
        ).numpy()
        positions = np.column_stack([features[:, 0], height])
        axes = space, "nothing: spread at random"
        return PointMap(positions, axes=axes, space=space, in_plane=False, share=None, **shared)
    positions, share = _main_axes(features)
    axes = f"first main axis of {space}", "second main axis"
    return PointMap(positions, axes=axes, space=space, in_plane=False, share=share, **shared)


def is_plane(schema: Schema) -> bool:
    """Whether the data are two columns of numbers, to be drawn as they are."""
    return [column.kind for column in schema.columns] == [
        "numeric",
        "numeric",
    ] and schema.shape == (2,)


def _features(fitted: FittedTest, samples: Samples, generator: torch.Generator) -> Array:
    """(N, d): what the kernel compares points by, or the features that the statistic takes."""
    with torch.no_grad():
        seen = embed_pooled(
            embedding(fitted.representation), samples, generator, memory=fitted.spec.memory
        )
    features: Array = seen[0].flatten(1).double().cpu().numpy()
    return features


def _space(fitted: FittedTest, schema: Schema) -> str:
    seen = fitted.representation
    if isinstance(seen, Kernel) and not isinstance(seen, DeepKernel | Mapped):
        return "the pixels" if schema.kind == "image" else "the standardised columns"
    scored = any(isinstance(part, SklearnClassifier) for part in seen.modules())
    return "the score" if scored else "the learned features"


def _main_axes(features: Array) -> tuple[Array, float]:
    """Principal components: the two directions with the largest variance, and their share of all of it."""
    centred = features - features.mean(0)
    _, lengths, directions = np.linalg.svd(centred, full_matrices=False)
    variance = lengths**2
    return centred @ directions[:2].T, float(
        variance[:2].sum() / max(variance.sum(), np.finfo(np.float64).tiny)
    )


@dataclass(frozen=True, eq=False)
class Field:
    """Numbers on a grid: `values` is (len(y), len(x))."""

    x: Array
    y: Array
    values: Array


def witness_field(result: TwoSampleResult, limits: Limits) -> Field:
    """The witness all over a plane, for data of two columns of numbers, between limits in the user's units."""
    fitted, samples = held_out(result)
    x, y, points = _grid(result, limits)
    unnamed = dataclasses.replace(samples, schema=as_samples([[0.0, 0.0]], [[1.0, 1.0]]).schema)
    seen = in_units(fitted, samples.pooled())
    values = witness(dataclasses.replace(result, samples=unnamed), np.concatenate([points, seen]))
    field, at_x, at_y = np.split(values, [len(points), len(points) + samples.sizes[0]])
    if _has_few_features(fitted.representation, samples):
        field = (
            field - (at_x.mean() + at_y.mean()) / 2
        )  # as the contributions of points: from midway
    return Field(x, y, field.reshape(len(y), len(x)))


def kernel_fields(
    result: TwoSampleResult, limits: Limits, *, rng: RNGLike | None = None
) -> tuple[Array, tuple[Field, ...]]:
    """Nine typical points and the kernel k(z, c) / k(c, c) around each of them, all over a plane.

    The points are the centres of clusters of all held-out points together; labels have no say.
    """
    fitted, samples = held_out(result)
    kernel, (x, y, points) = fitted.representation, _grid(result, limits)
    if not isinstance(kernel, Kernel) or _has_few_features(kernel, samples):
        raise IncompatibleParts(
            f"the test {fitted.spec.name} compares features, not points by a kernel that falls "
            "with their distance, so "
            "it has no contours around a point. Use mmd-d or mmd-o."
        )
    pooled = samples.pooled().double().cpu().numpy()
    drawn = Generators(rng).numpy("centres")
    centres = _cluster_centres(pooled[drawn.permutation(len(pooled))[:2000]], _CENTRES, drawn)
    scaling = fitted.scaling

    def seen(points: Array) -> Tensor:
        return torch.from_numpy(points).to(samples.x)

    with torch.no_grad():
        around = kernel(
            seen((points - scaling.shift.numpy()) / scaling.scale.numpy()), seen(centres)
        )
        around = (around / kernel(seen(centres), seen(centres)).diagonal()).double().cpu().numpy()
    shown = centres * scaling.scale.numpy() + scaling.shift.numpy()
    return shown, tuple(Field(x, y, values.reshape(len(y), len(x))) for values in around.T)


def _has_few_features(seen: nn.Module, samples: Samples) -> bool:
    """Whether the kernel is an inner product of features, whose origin is arbitrary."""
    with torch.no_grad():
        return (
            isinstance(seen, Kernel) and seen.features(seen.embed(samples.pooled()[:2])) is not None
        )


def in_units(fitted: FittedTest, points: Tensor) -> Array:
    """Scaled points of a table in the user's units."""
    values: Array = (points.cpu().double() * fitted.scaling.scale + fitted.scaling.shift).numpy()
    return values


def _grid(result: TwoSampleResult, limits: Limits) -> tuple[Array, Array, Array]:
    _, samples = held_out(result)
    if not is_plane(samples.schema):
        raise InputError(
            "contours take data of two columns of numbers; see `point_map` for others."
        )
    x, y = (np.linspace(*ends, _GRID) for ends in limits)
    return x, y, np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)


def _cluster_centres(
    points: Array, count: int, drawn: np.random.Generator, starts: int = 8
) -> Array:
    """Means of clusters by Lloyd's iteration, from starts far apart (k-means++); the tightest of a few."""
    count = min(count, len(np.unique(points, axis=0)))
    found: list[tuple[float, Array]] = []
    for _ in range(starts):
        centres = points[drawn.integers(len(points), size=1)]
        while len(centres) < count:
            distance = cdist(points, centres, "sqeuclidean").min(1)
            centres = np.vstack(
                [centres, points[drawn.choice(len(points), p=distance / distance.sum())]]
            )
        for _ in range(25):
            nearest = cdist(points, centres).argmin(1)
            for k in set(nearest.tolist()):
                centres[k] = points[nearest == k].mean(0)
        found.append((float(cdist(points, centres, "sqeuclidean").min(1).sum()), centres))
    return min(found, key=lambda pair: pair[0])[1]


# Images.


def mosaic(images: Sequence[NDArray[np.uint8]], columns: int, gap: int = 1) -> NDArray[np.uint8]:
    """Images of one size side by side, in rows of `columns`, on white."""
    height, width, *channels = images[0].shape
    lines = -(-len(images) // columns)
    sheet = np.full(
        (lines * (height + gap) - gap, columns * (width + gap) - gap, *channels),
        255,
        dtype=np.uint8,
    )
    for place, image in enumerate(images):
        top, left = (place // columns) * (height + gap), (place % columns) * (width + gap)
        sheet[top : top + height, left : left + width] = image
    return sheet


def shades(images: Sequence[NDArray[np.generic]]) -> list[NDArray[np.uint8]]:
    """Images as 0..255: bytes as they are, floats with one scale for all of them."""
    if not images or images[0].dtype == np.uint8:
        return [image.astype(np.uint8) for image in images]
    low, high = (
        min(float(image.min()) for image in images),
        max(float(image.max()) for image in images),
    )
    factor = 255 / max(high - low, np.finfo(np.float64).tiny)
    return [
        ((image.astype(np.float64) - low) * factor).round().astype(np.uint8) for image in images
    ]


# Common to all.


def on_fewer_points(
    result: TwoSampleResult, most: int, rng: RNGLike | None = None
) -> TwoSampleResult:
    """The same fitted test on at most `most` held-out points of each sample, drawn at random.

    A part of a sample of independent points is one too, so what is exact for all points is exact
    for these.
    """
    fitted, samples = held_out(result)
    if max(samples.sizes) <= most:
        return result
    generators, (n, m) = Generators(rng), samples.sizes
    order = torch.randperm(n, generator=generators.torch("fewer"))
    orders = (
        order,
        order if n == m else torch.randperm(m, generator=generators.torch("fewer of Y")),
    )  # pairs stay together
    known = samples.rows or (torch.arange(n), torch.arange(m))
    chosen = [part[:most].sort().values for part in orders]
    x, y = (
        points[index.to(points.device)]
        for points, index in zip((samples.x, samples.y), chosen, strict=True)
    )
    rows_x, rows_y = (rows.cpu()[index] for rows, index in zip(known, chosen, strict=True))
    return fitted._test_scaled(Samples(x, y, samples.schema, (rows_x, rows_y)), generators, False)


def fingerprint(points: Tensor) -> str:
    """SHA-256 of encoded points: their shape, type and bytes."""
    array = points.cpu().contiguous().numpy()
    digest = hashlib.sha256(f"{array.shape} {array.dtype.newbyteorder('<').str}".encode())
    digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False).data)
    return digest.hexdigest()
