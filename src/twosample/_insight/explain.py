"""What tells X from Y: the witness, the most telling rows, the columns that differ.

Nothing here changes the p-value of the test that it explains. One thing is a test in its own right:
the p-value of each column, exact for the equality of that column's distribution. Everything else
looks at the held-out points after the fact; it is exploratory and says so.
"""

from __future__ import annotations

import dataclasses
import html
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._calibration import Permutation, evaluated, pvalue
from .._data.embedding import embed_samples
from .._data.samples import Column, EmbeddedSamples, Samples, Scaling, Schema
from .._featurizers import MeanEmbedding
from .._kernels import DeepKernel, Kernel, Linear, embedding_of, median_bandwidth
from .._products import Embedded
from .._random import Generators, RNGLike
from .._resources import Resources
from .._result import ALPHA, TwoSampleResult, format_pvalue
from .._shuffles import Shuffles
from .._statistics import MMD, Bins
from .._two_sample import FittedTest
from ..errors import InputError, InputWarning

Correction: TypeAlias = Literal["holm", "bh", "none"]
Value: TypeAlias = float | bool | str

_COLUMNS_SHOWN, _ROWS_SHOWN, _VALUES_SHOWN = 20, 5, 4


@dataclass(frozen=True, eq=False)
class TellingRow:
    """A held-out row and its part in the statistic. Exploratory: the row was picked because its part is large.

    Attributes
    ----------
    row
        Its position in the X or Y that was tested, from 0.
    contribution
        Its part of the statistic; those of all held-out rows of X and Y sum to the statistic. For
        MMD^2 it is the witness at the row without the row itself, over the size of the sample (for
        a classifier's score the witness is taken from midway between the samples); negative where a
        row looks like one of the other sample.
    share
        contribution / statistic; None where the statistic is not positive, and shares would mean
        nothing.
    values
        Column -> value in the user's units, to the single precision in which the kernel saw it;
        empty for images.
    pixels
        The image as (H, W) or (H, W, C), uint8 where the user's was; None for tables.
    """

    row: int
    contribution: float
    share: float | None
    values: Mapping[str, Value] = field(default_factory=dict)
    pixels: NDArray[Any] | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; without pixels."""
        return {
            "row": self.row,
            "contribution": self.contribution,
            "share": self.share,
            "values": dict(self.values),
        }


@dataclass(frozen=True)
class ColumnDifference:
    """One column of a table: an exact test of its own, and its importance in the joint statistic.

    Attributes
    ----------
    name, kind
        As in the user's table.
    statistic, pvalue
        Unbiased MMD^2 of this column alone on the held-out points, and its p-value over the
        shuffles of the joint test. Exact for the equality of this column's distribution in X and Y,
        whatever the other columns do.
    adjusted
        The p-value after the correction for the number of columns.
    importance
        Exploratory, without a p-value: by how much the joint statistic falls when this column is
        shuffled among the pooled points, which keeps its distribution and breaks its ties to labels
        and other columns. An innocent column that is correlated with a guilty one has some. None
        where it was not asked for.
    importance_share
        The same over the joint statistic (the shares of all columns need not sum to 1); None where
        that is not positive.
    widths
        Exploratory: encoded column -> the width that a kernel with one for each column has learned,
        in the user's units; the narrow ones are looked at closely. None for other kernels.
    """

    name: str
    kind: str
    statistic: float
    pvalue: float
    adjusted: float
    importance: float | None = None
    importance_share: float | None = None
    widths: Mapping[str, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**plain, "widths": None if self.widths is None else dict(self.widths)}


@dataclass(frozen=True, eq=False)
class Explanation:
    """What tells X from Y, after a test.

    Attributes
    ----------
    method, statistic, pvalue, sizes
        Those of the test, unchanged.
    columns
        For tables, each column in the user's order: exact p-values, and an importance that is
        exploratory.
    correction
        How their p-values were adjusted: "holm" (the chance that any equal column is called
        different is at most alpha, however the columns depend on each other), "bh" (the expected
        share of equal columns among those called different, if they depend positively), or "none".
    calibration
        What was shuffled for the columns.
    rows_x, rows_y
        Exploratory: the rows of X and of Y with the largest contributions, the largest first.
    contributions
        Exploratory: those of all held-out points of X and of Y, in the order of `result.samples`.
        They sum to the statistic.
    importance_from
        The joint statistic on the points on which importance was measured; None without importance.
    notes
        What a reader should know, in sentences.
    result
        The result that is explained.
    """

    method: str
    statistic: float
    pvalue: float
    sizes: tuple[int, int]
    columns: tuple[ColumnDifference, ...]
    correction: Correction
    calibration: str
    rows_x: tuple[TellingRow, ...]
    rows_y: tuple[TellingRow, ...]
    contributions: tuple[NDArray[np.float64], NDArray[np.float64]] = field(repr=False)
    importance_from: float | None
    notes: tuple[str, ...]
    result: TwoSampleResult = field(repr=False)

    def witness(self, points: Any) -> NDArray[np.float64]:
        """The witness at new points, given like X and Y; see `twosample.witness`. Exploratory."""
        return witness(self.result, points)

    def differing(self, alpha: float = ALPHA) -> list[str]:
        """Names of the columns whose adjusted p-value is at most `alpha`, the smallest first."""
        if not 0 < alpha < 1:
            raise InputError(f"alpha is {alpha}; it must lie strictly between 0 and 1.")
        return [column.name for column in self.ranked() if column.adjusted <= alpha]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists, ready for JSON; without pixels, all contributions, and the result."""
        return {
            "method": self.method,
            "statistic": self.statistic,
            "pvalue": self.pvalue,
            "sizes": list(self.sizes),
            "correction": self.correction,
            "calibration": self.calibration,
            "columns": [column.to_dict() for column in self.columns],
            "rows_x": [row.to_dict() for row in self.rows_x],
            "rows_y": [row.to_dict() for row in self.rows_y],
            "importance_from": self.importance_from,
            "exploratory": ["importance", "importance_share", "widths", "rows_x", "rows_y"],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        parts = [self._headline()]
        if self.columns:
            lines = aligned([_COLUMN_HEADER, *map(_column_cells, self.ranked()[:_COLUMNS_SHOWN])])
            more = len(self.columns) - _COLUMNS_SHOWN
            parts.append(
                "\n".join(
                    [
                        f"{self._columns_title()}:",
                        *lines,
                        *([f"  ... {more} more"] if more > 0 else []),
                    ]
                )
            )
        if self.rows_x or self.rows_y:
            lines = aligned(self._row_cells())
            parts.append("\n".join([f"{_ROWS_TITLE}:", *lines]))
        parts += ["\n".join(f"- {note}" for note in self.notes)] if self.notes else []
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        parts = [f"<p><strong>{html.escape(self._headline())}</strong></p>"]
        if self.columns:
            cells = [_column_cells(column) for column in self.ranked()]
            parts.append(
                f"<p>{html.escape(self._columns_title())}</p>{html_table([_COLUMN_HEADER, *cells])}"
            )
        if self.rows_x or self.rows_y:
            cells = [["sample", "row", "share", "values"], *self._row_cells()]
            parts.append(f"<p>{html.escape(_ROWS_TITLE)}</p>{html_table(cells)}")
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        return f"<div>{''.join(parts)}{f'<ul>{notes}</ul>' if notes else ''}</div>"

    def _headline(self) -> str:
        n, m = self.sizes
        return f"What tells X from Y ({self.method}, p = {format_pvalue(self.pvalue)} on {n} + {m} points)"

    def _columns_title(self) -> str:
        adjusted = {
            "holm": "adjusted by Holm",
            "bh": "adjusted by Benjamini-Hochberg",
            "none": "not adjusted",
        }
        return (
            "Columns, each with a test of its own that is exact for its distribution "
            f"({self.calibration}; "
            f"{adjusted[self.correction]})"
        )

    def ranked(self) -> list[ColumnDifference]:
        """The columns, those that differ most first."""
        return sorted(self.columns, key=lambda c: (c.adjusted, -(c.importance or 0.0), c.pvalue))

    def _row_cells(self) -> list[list[str]]:
        first = [column.name for column in self.ranked()[:_VALUES_SHOWN]]
        return [
            [
                sample,
                f"row {row.row}",
                "" if row.share is None else _percent(row.share),
                ", ".join(
                    f"{name} = {_shown(row.values[name])}" for name in first if name in row.values
                ),
            ]
            for sample, rows in (("X", self.rows_x), ("Y", self.rows_y))
            for row in rows[:_ROWS_SHOWN]
        ]


def explain(
    result: TwoSampleResult,
    *,
    correction: Correction = "holm",
    rows: int = 10,
    shuffles: int = 3,
    max_points: int = 2000,
    rng: RNGLike | None = None,
    progress: bool | None = None,
) -> Explanation:
    """Say what tells X from Y: which columns, which rows.

    For tables each column gets a two-sample test of its own on the held-out points: a kernel on
    that column alone, the same shuffles of labels as in the joint test. Its p-value is exact for
    the equality of that column's distribution, even where other columns, correlated with it,
    differ. A difference that no column shows by itself (the columns go together in another way) has
    no such p-value; look at the importances.

    Parameters
    ----------
    result
        What `two_sample_test`, `TwoSampleTest.run` or `FittedTest.test` gave. It is not changed.
    correction
        For the number of columns: "holm" holds whatever the dependence between columns, "bh"
        (Benjamini-Hochberg, more columns found, an expected share of them wrongly) needs positive
        dependence, "none" leaves the p-values alone.
    rows
        How many rows of each sample to name.
    shuffles
        How often each column is shuffled for its importance; 0 leaves importance out.
    max_points
        At most so many held-out points of each sample, drawn at random, serve for the importances.
    rng
        A seed or a generator, for importance, and for the shuffles of columns where the joint test
        had none.
    progress
        Show a bar for each column; None means on a terminal, and only with many points.

    Returns
    -------
    Explanation

    Notes
    -----
    The p-values of columns and of the joint test rest on the same held-out points: if the joint
    test rejects and no column does, nothing contradicts. A column that is shuffled among the pooled
    points and changes the statistic is *not* thereby shown to differ (as a test at level 0.05 that
    rejected an innocent column beside a correlated guilty one at rates up to 0.36), hence
    importance without a p-value.

    Examples
    --------
    >>> import numpy as np, twosample
    >>> from twosample._insight.explain import explain
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(200, 3)), rng.normal(size=(200, 3))
    >>> Y[:, 1] += 1
    >>> explain(twosample.two_sample_test(X, Y, "mmd-median", rng=0), rng=0).differing(alpha=0.05)
    ['1']
    """
    if correction not in get_args(Correction):
        raise InputError(
            f"correction is {correction!r}; use one of {', '.join(get_args(Correction))}."
        )
    for name, value, least in (
        ("rows", rows, 0),
        ("shuffles", shuffles, 0),
        ("max_points", max_points, 2),
    ):
        if not isinstance(value, Integral) or value < least:
            raise InputError(f"{name} is {value!r}; it must be a whole number of at least {least}.")
    fitted, samples = held_out(result)
    generators = Generators(rng)
    contributions = _contributions(result, fitted, samples, generators.torch("contributions"))
    columns: tuple[ColumnDifference, ...] = ()
    calibration, joint, labellings = "", None, 0
    if samples.schema.columns:
        bins, plan, calibration = _label_shuffles(result, samples, generators.torch("shuffles"))
        labellings = len(plan)
        resources = Resources(fitted.spec.memory, progress)
        tests = _column_tests(samples, bins, plan, generators.torch("columns"), resources)
        importances: Sequence[float | None] = [None] * len(tests)
        if shuffles:
            joint, importances = _importances(
                fitted, samples, shuffles, max_points, generators.torch("importance")
            )
        adjusted = _ADJUSTMENTS[correction]([p for _, p in tests])
        widths = _widths(fitted)
        columns = tuple(
            ColumnDifference(
                name=column.name,
                kind=column.kind,
                statistic=statistic,
                pvalue=p,
                adjusted=p_adjusted,
                importance=importance,
                importance_share=importance / joint
                if importance is not None and joint and joint > 0
                else None,
                widths=None if widths is None else {name: widths[name] for name in column.features},
            )
            for column, (statistic, p), p_adjusted, importance in zip(
                samples.schema.columns, tests, adjusted, importances, strict=True
            )
        )
    telling = [
        _telling(result, samples, fitted.scaling, of, part, rows)
        for of, part in enumerate(contributions)
    ]
    return Explanation(
        method=result.method,
        statistic=result.statistic,
        pvalue=result.pvalue,
        sizes=result.sizes,
        columns=columns,
        correction=correction,
        calibration=calibration,
        rows_x=telling[0],
        rows_y=telling[1],
        contributions=contributions,
        importance_from=joint,
        notes=_notes(result, columns, correction, labellings, rows),
        result=result,
    )


def witness(result: TwoSampleResult, points: Any) -> NDArray[np.float64]:
    """w(z) = mean_j k(z, X_j) - mean_j k(z, Y_j) at any points z: positive where z looks like X, negative like Y.

    X and Y are the held-out points of the result, k its kernel. For a test of features f it is the
    linear discriminant d' S^-1 (f(z) - midpoint), with d the difference of the means of X and Y and
    S the covariance that T^2 uses. Exploratory: it shows where the samples differ as the test sees
    them, with no claim about any single point.

    Parameters
    ----------
    result
        The result of a test.
    points
        Given like X and Y: an array, a table with the same columns, images of the same form.

    Returns
    -------
    ndarray
        (N,) values. Memory grows with the number of points, not with its square.

    Notes
    -----
    A classifier's score enters through features whose origin is arbitrary. Then the witness is one
    number times the feature: higher for points that look like X, but not always of another sign for
    those that look like Y.

    Examples
    --------
    >>> import numpy as np, twosample
    >>> from twosample._insight.explain import witness
    >>> rng = np.random.default_rng(0)
    >>> result = twosample.two_sample_test(rng.normal(0, 1, (99, 1)), rng.normal(4, 1, (99, 1)), "mmd-median", rng=0)
    >>> witness(result, [[0.0], [4.0]]) > 0
    array([ True, False])
    """
    fitted, samples = held_out(result)
    reference, (n, m) = samples.pooled(), samples.sizes
    encoded = samples.schema.encode(points, "points")
    new = fitted.scaling.apply(
        Samples(encoded, encoded[:0], samples.schema), device=reference.device
    ).x
    # All points together: tiles are centred alike, and a network that normalises by batches has
    # company.
    company = Samples(reference, new, samples.schema)
    z = _embed(fitted, company, torch.Generator().manual_seed(0)).parts
    values = fitted.spec.statistic.witness(
        fitted.representation, z, n, m, result.statistic, fitted.spec.memory
    )
    return _array(values)


# Correction for the number of columns.


def holm(pvalues: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: the chance of any false finding stays below alpha under any dependence."""
    p = np.asarray(pvalues, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return [float(value) for value in adjusted]


def benjamini_hochberg(pvalues: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's adjusted p-values: the expected share of false findings, under positive dependence."""
    p = np.asarray(pvalues, dtype=np.float64)
    order = np.argsort(p, kind="stable")[::-1]  # the largest first
    stepped = np.minimum.accumulate(p[order] * len(p) / np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return [float(value) for value in adjusted]


_ADJUSTMENTS: dict[Correction, Callable[[Sequence[float]], list[float]]] = {
    "holm": holm,
    "bh": benjamini_hochberg,
    "none": list,
}


# Columns.


class _OneColumn(Kernel):
    """The mean of Gaussians at 1/4, 1/2 and 1 times a bandwidth, on one column of numbers.

    Distances are differences, not a matrix product: a column may hold values of very different
    size.
    """

    def __init__(self, bandwidth: float) -> None:
        super().__init__()
        self.factor = -0.5 / bandwidth**2

    def tile(self, a: Embedded, b: Embedded) -> Tensor:
        return self._value(a[0] - b[0].T)

    def pairs(self, a: Embedded, b: Embedded) -> Tensor:
        return self._value(a[0] - b[0])[:, 0]

    def _value(self, differences: Tensor) -> Tensor:
        wide = (
            differences.square_().mul_(self.factor).exp_().clamp_min_(1e-9)
        )  # no denormals: they are slow
        middle = wide.square().square_().clamp_min_(1e-9)
        narrow = middle.square().square_()
        return wide.add_(middle).add_(narrow).div_(3)

    def __repr__(self) -> str:
        return f"_OneColumn(factor={self.factor:.6g})"


def _label_shuffles(
    result: TwoSampleResult, samples: Samples, generator: torch.Generator
) -> tuple[Bins, Shuffles, str]:
    """The bins and shuffles of the joint test, in words too; new ones where it had none."""
    shuffles = getattr(result.calibrated, "shuffles", None)
    bins = getattr(getattr(result.calibrated, "prepared", None), "bins", None)
    if isinstance(bins, Bins) and isinstance(shuffles, Shuffles) and len(shuffles) > 1:
        return bins, shuffles, f"the joint test's {result.calibration}"
    permutation = Permutation()
    bins = permutation.plan(*samples.sizes, generator)
    shuffles = permutation.shuffles(bins, generator)
    return bins, shuffles, f"{len(shuffles) - 1} permutations, the same for all columns"


def _column_tests(
    samples: Samples,
    bins: Bins,
    shuffles: Shuffles,
    generator: torch.Generator,
    resources: Resources,
) -> list[tuple[float, float]]:
    """For each column of the table its statistic and its p-value over the shuffles."""
    statistic, found = MMD("unbiased"), []
    for column, place in places(samples.schema):
        encoded = samples.pooled()[:, place]
        pooled = _alone(column, encoded)
        alone = Samples(pooled[: samples.sizes[0]], pooled[samples.sizes[0] :], samples.schema)
        if bool((pooled == pooled[:1]).all()):
            found.append((0.0, 1.0))  # all labellings are one
            continue
        kernel = _kernel_of(column, encoded)
        points = embed_samples(alone, kernel.embed, generator, resources)
        prepared = statistic.prepare(kernel, points, bins, generator)
        values = evaluated(statistic, prepared, shuffles, resources.memory)
        found.append((float(values[0]), pvalue(values, prepared.resolution)))
    return found


def _alone(column: Column, pooled: Tensor) -> Tensor:
    """One column as it is compared: of numbers, those that are missing are far from all others and near each other."""
    if column.kind != "numeric" or not column.missing:
        return pooled
    values, gaps = pooled[:, :1], pooled[:, 1:] > 0.5
    apart = values.abs().max() + 1e3 * max(1.0, float(values.std()))
    return torch.where(gaps, apart, values)


def _kernel_of(column: Column, pooled: Tensor) -> Kernel:
    """A kernel on one column, chosen without looking at labels."""
    if column.kind != "numeric":
        # Between indicators every kernel of distances is a + b [same level], and MMD^2 knows of b
        # only.
        return Linear()
    # Evenly spaced among the *sorted* values: what it depends on is the same in every shuffle, and
    # takes no chance.
    present = pooled[pooled[:, -1] < 0.5, :1] if column.missing else pooled
    values = present if len(present) > 1 else pooled[:, :1]
    return _OneColumn(median_bandwidth(values.sort(dim=0).values))


def _importances(
    fitted: FittedTest, samples: Samples, shuffles: int, max_points: int, generator: torch.Generator
) -> tuple[float, list[float]]:
    """The joint statistic on at most `max_points` of each sample, and how much each column takes away from it."""
    n, m = samples.sizes
    order_x = torch.randperm(n, generator=generator)
    order_y = (
        order_x if n == m else torch.randperm(m, generator=generator)
    )  # pairs (X_i, Y_i) stay together
    chosen = [order[:max_points].to(samples.x.device) for order in (order_x, order_y)]
    few = Samples(samples.x[chosen[0]], samples.y[chosen[1]], samples.schema)
    pooled, (n, m) = few.pooled(), few.sizes
    joint, drops = _statistic(fitted, few, generator), []
    for _, place in places(samples.schema):
        without = 0.0
        for _ in range(shuffles):
            order = torch.randperm(n + m, generator=generator).to(pooled.device)
            mixed = pooled.clone()
            mixed[:, place] = pooled[order, place]
            without += (
                _statistic(fitted, Samples(mixed[:n], mixed[n:], samples.schema), generator)
                / shuffles
            )
        drops.append(joint - without)
    return joint, drops


def _statistic(fitted: FittedTest, samples: Samples, generator: torch.Generator) -> float:
    """The test's statistic on other points: as if all of them stayed in place."""
    n, m = samples.sizes
    bins = Bins(torch.zeros(n, dtype=torch.long), torch.ones(m, dtype=torch.long), 0, 0, 1)
    statistic = fitted.spec.statistic.quieter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)  # said once, when the test ran
        points = _embed(fitted, samples, generator)
        prepared = statistic.prepare(fitted.representation, points, bins, generator)
    return float(statistic.evaluate(prepared, torch.zeros(1, 0, dtype=torch.long))[0])


def _widths(fitted: FittedTest) -> dict[str, float] | None:
    """The learned width of each encoded column in the user's units, where the kernel has one for each."""
    kernel: object = fitted.representation
    while isinstance(kernel, DeepKernel | MeanEmbedding):
        kernel = (
            kernel.q if isinstance(kernel, DeepKernel) else kernel.kernel
        )  # kappa sees features, not columns
    widths = getattr(kernel, "widths", None)
    features = fitted.schema.features
    if widths is None or len(widths) != len(features):
        return None
    scales = fitted.scaling.scale.tolist()
    return {
        name: float(width) * scale
        for name, width, scale in zip(features, widths, scales, strict=True)
    }


def places(schema: Schema) -> list[tuple[Column, slice]]:
    """Each column, and where its encoded columns stand."""
    ends = np.cumsum([len(column.features) for column in schema.columns]).tolist()
    return [
        (column, slice(end - len(column.features), end))
        for column, end in zip(schema.columns, ends, strict=True)
    ]


# Rows.


def _contributions(
    result: TwoSampleResult, fitted: FittedTest, samples: Samples, generator: torch.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What each held-out point adds to the statistic."""
    n, m = samples.sizes
    points = _embed(fitted, samples, generator)
    prepared = None if result.calibrated is None else result.calibrated.prepared
    with torch.no_grad():
        at_x, at_y = fitted.spec.statistic.contributions(
            fitted.representation, points, prepared, result.statistic
        )
    # Kernel values in single precision were added up in another order than in the test. What
    # rounding has left of the sum is shared by all alike.
    at_x, at_y = at_x / n, at_y / m
    rest = (result.statistic - float(at_x.sum() + at_y.sum())) / (n + m)
    return _array(at_x + rest), _array(at_y + rest)


def _telling(
    result: TwoSampleResult,
    samples: Samples,
    scaling: Scaling,
    of: int,
    contributions: NDArray[np.float64],
    rows: int,
) -> tuple[TellingRow, ...]:
    """The `rows` points of sample number `of` that contribute most."""
    order = np.argsort(-contributions, kind="stable")[:rows]
    where = torch.from_numpy(order)
    points = (samples.x, samples.y)[of][where.to(samples.x.device)].to("cpu", torch.float64)
    numbers = where if samples.rows is None else samples.rows[of].cpu()[where]
    found = []
    for position, point, number in zip(order.tolist(), points, numbers.tolist(), strict=True):
        contribution = float(contributions[position])
        table = samples.schema.kind == "table"
        found.append(
            TellingRow(
                row=int(number),
                contribution=contribution,
                share=contribution / result.statistic if result.statistic > 0 else None,
                values=row_values(samples.schema, scaling, point) if table else {},
                pixels=None if table else row_pixels(samples.schema, scaling, point),
            )
        )
    return tuple(found)


def row_values(schema: Schema, scaling: Scaling, point: Tensor) -> dict[str, Value]:
    """A scaled row of a table as the user wrote it."""
    values: dict[str, Value] = {}
    undone = scaling.undo(point)
    for column, place in places(schema):
        encoded = point[place]
        if column.missing and encoded[-1] > 0.5:
            values[column.name] = "missing"
        elif column.kind == "category":
            level = int(encoded.argmax())
            values[column.name] = column.features[level].removeprefix(f"{column.name}=")
        elif column.kind == "boolean":
            values[column.name] = bool(encoded[0] > 0.5)
        else:
            value = float(undone[place][0])
            # Single precision kept so many digits of the distance from the mean: no others are
            # shown.
            error = abs(float(encoded[0])) * float(scaling.scale[place][0]) * 2.0**-23
            values[column.name] = (
                round(value, -math.ceil(math.log10(error))) if error > 0 else value
            )
    return values


def row_pixels(schema: Schema, scaling: Scaling, point: Tensor) -> NDArray[Any]:
    """A scaled image as (H, W) or (H, W, C)."""
    image = scaling.undo(point).permute(1, 2, 0).numpy()
    image = image[:, :, 0] if image.shape[2] == 1 else image
    return (
        image.round().clip(0, 255).astype(np.uint8)
        if schema.pixels == "uint8"
        else image.astype(np.float32)
    )


# Common to all.


def held_out(result: object) -> tuple[FittedTest, Samples]:
    """The fitted test and the held-out points of a result."""
    if isinstance(result, FittedTest):
        raise InputError("a FittedTest has no samples to explain; pass what its test(X, Y) gives.")
    if not isinstance(result, TwoSampleResult):
        raise InputError(
            f"what is to be explained is a {type(result).__name__}; pass the result of a test."
        )
    if result.fitted is None or result.samples is None:
        raise InputError(
            "this result does not hold its fitted test and samples: a test of streams keeps no "
            "rows. "
            "Test a part of them that fits in memory."
        )
    return result.fitted, result.samples


def _embed(fitted: FittedTest, samples: Samples, generator: torch.Generator) -> EmbeddedSamples:
    """The points as the test's kernel compares them, or their features."""
    embed = embedding_of(fitted.representation)
    return embed_samples(samples, embed, generator, Resources(fitted.spec.memory))


def _array(values: Tensor) -> NDArray[np.float64]:
    array: NDArray[np.float64] = values.double().cpu().numpy()
    return array


# Words.

_ROWS_TITLE = "Rows with the largest share of the statistic (exploratory)"
_COLUMN_HEADER = ["column", "MMD^2", "p", "adjusted", "importance (exploratory)"]


def _notes(
    result: TwoSampleResult,
    columns: Sequence[ColumnDifference],
    correction: Correction,
    labellings: int,
    rows: int,
) -> tuple[str, ...]:
    notes = []
    if not result.reject():
        notes.append(
            f"The test itself finds no difference (p = {format_pvalue(result.pvalue)}): what is "
            "exploratory here may "
            "well be chance."
        )
    if columns:
        if correction == "bh":
            notes.append(
                "Benjamini-Hochberg needs columns that depend positively on each other; Holm needs "
                "nothing."
            )
        if correction != "none" and (least := len(columns) / labellings) > ALPHA:
            notes.append(
                f"With {len(columns)} columns and {labellings} labellings a single column cannot "
                "reach an adjusted "
                f"p-value below {min(1.0, least):.2g}; test with more permutations."
            )
        if result.reject() and all(column.adjusted > ALPHA for column in columns):
            notes.append(
                f"No column differs by itself at {ALPHA}: the difference may lie in how the "
                "columns go together."
            )
        if any(column.importance is not None for column in columns):
            notes.append(
                "Importance: how much of the joint statistic goes when a column is shuffled. It "
                "has no p-value, and "
                "innocent columns that are correlated with guilty ones have some."
            )
    if rows and result.statistic <= 0:
        notes.append("The statistic is not positive, so rows have no share of it.")
    return tuple(notes)


def _column_cells(column: ColumnDifference) -> list[str]:
    share, importance = column.importance_share, column.importance
    shown = (
        _percent(share) if share is not None else "" if importance is None else f"{importance:.2g}"
    )
    return [
        column.name,
        f"{column.statistic:.3g}",
        format_pvalue(column.pvalue),
        format_pvalue(column.adjusted),
        shown,
    ]


def _percent(share: float) -> str:
    return f"{round(100 * share, 1) + 0.0:.1f} %"  # never -0.0


def _shown(value: Value) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table for a terminal."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]


def html_table(cells: Sequence[Sequence[str]]) -> str:
    """A table for a notebook, its head first."""
    head, *body = cells
    lines = ["".join(f"<th style='text-align:left'>{html.escape(cell)}</th>" for cell in head)]
    lines += ["".join(f"<td>{html.escape(cell)}</td>" for cell in line) for line in body]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
