"""Which columns of a table differ: an exact test of each, and its importance in the joint test.

The p-value of a column is that of a test in its own right. It is exact for the equality of that
column's distribution. The importance is exploratory: it looks at the held-out points after the
fact.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._calibration import Permutation, evaluated, pvalue
from .._data.embedding import embed_samples
from .._data.samples import Samples
from .._data.schema import Column
from .._featurizers import MeanEmbedding
from .._kernels import DeepKernel, Kernel, Linear, median_bandwidth
from .._products import Embedded
from .._resources import Resources
from .._result import TwoSampleResult
from .._shuffles import Shuffles
from .._statistics import MMD, Bins
from .._two_sample import FittedTest
from ..errors import InputWarning
from .held_out import embedded, places

_LEAST = 1e-9  # kernel values below it are raised to it: arithmetic with denormal numbers is slow


@dataclass(frozen=True)
class ColumnDifference:
    """One column of a table: an exact test of its own, and its importance in the joint statistic.

    Attributes
    ----------
    name, kind
        As in the user's table.
    statistic, pvalue
        Unbiased MMD^2 of this column alone on the held-out points, and its p-value over the
        shuffles of the joint test. It is exact for the equality of this column's distribution in X
        and Y, whatever the other columns do. For a test that looks at single columns itself the
        statistic is log 1/p by the tail of the column's own values.
    adjusted
        The p-value after the correction for the number of columns.
    importance
        Exploratory, without a p-value: by how much the joint statistic falls when this column is
        shuffled among the pooled points. The shuffle keeps the column's distribution, and breaks
        its ties to the labels and to other columns. An innocent column that is correlated with a
        guilty one has some importance. None where it was not asked for, and for a test that looks
        at single columns itself.
    importance_share
        The importance divided by the joint statistic. The shares of all columns need not sum to 1.
        None where the joint statistic is not positive.
    widths
        Exploratory: encoded column -> the width that a kernel with one width for each column has
        learned, in the user's units. The kernel looks closely at columns with a small width. None
        for other kernels.
    """

    name: str
    kind: str
    statistic: float
    pvalue: float
    adjusted: float
    importance: float | None = None
    importance_share: float | None = None
    widths: Mapping[str, float] | None = None

    def reject(self, alpha: float) -> bool:
        """Whether equality of this column is rejected: adjusted p-value at most `alpha`."""
        return self.adjusted <= alpha

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        plain = {}
        for field in dataclasses.fields(self):
            plain[field.name] = getattr(self, field.name)
        if self.widths is not None:
            plain["widths"] = dict(self.widths)  # JSON knows no other mapping
        return plain


# The test of each column.


class ColumnTest(NamedTuple):
    """The outcome of the test of one column."""

    statistic: float
    pvalue: float


class LabelShuffles(NamedTuple):
    """The labellings over which columns are tested."""

    bins: Bins
    shuffles: Shuffles  # B + 1 of them, the observed order first
    name: str


def label_shuffles(
    result: TwoSampleResult, samples: Samples, generator: torch.Generator
) -> LabelShuffles:
    """The shuffles of the joint test, or new ones where it had none, as a test by a law has."""
    calibrated = result.calibrated
    if calibrated is not None and len(calibrated.shuffles) > 1:
        return LabelShuffles(
            bins=calibrated.prepared.bins,
            shuffles=calibrated.shuffles,
            name=f"the joint test's {result._against}",
        )
    permutation = Permutation()
    n, m = samples.sizes
    bins = permutation.plan(n, m, generator)
    shuffles = permutation.shuffles(bins, generator)
    name = f"{len(shuffles) - 1} permutations, the same for all columns"
    return LabelShuffles(bins, shuffles, name)


def column_tests(
    samples: Samples,
    labels: LabelShuffles,
    generator: torch.Generator,
    resources: Resources,
) -> list[ColumnTest]:
    """For each column of the table its statistic and its p-value over the shuffles."""
    statistic = MMD("unbiased")
    n, _ = samples.sizes
    pooled = samples.pooled()  # (N, encoded columns)
    tests = []
    # All columns have the same shuffles, those of the joint test: their p-values fit together.
    for column, place in places(samples.schema):
        encoded = pooled[:, place]
        values = _comparable(column, encoded)
        is_constant = bool((values == values[:1]).all())
        if is_constant:
            tests.append(ColumnTest(0.0, 1.0))  # every labelling has the same value
            continue
        kernel = _kernel_of(column, encoded)
        alone = Samples(values[:n], values[n:], samples.schema)
        points = embed_samples(alone, kernel.embed, generator, resources)
        prepared = statistic.prepare(kernel, points, labels.bins, generator)
        over_shuffles = evaluated(statistic, prepared, labels.shuffles, resources.memory)
        observed = float(over_shuffles[0])
        p = pvalue(over_shuffles, prepared.resolution)
        tests.append(ColumnTest(observed, p))
    return tests


def _comparable(column: Column, encoded: Tensor) -> Tensor:
    """One column as it is compared; missing numbers become one value, far from all others."""
    if column.kind == "category":
        # Each level by the root of its pooled share: MMD^2 is then that of a chi-squared test,
        # which sees a rare level that is new. Left alone, frequent levels would drown it.
        shares = encoded.double().mean(0).clamp_min(1 / len(encoded))
        return (encoded / shares.sqrt()).to(encoded.dtype)
    if column.kind != "numeric" or not column.missing:
        return encoded
    numbers = encoded[:, :1]  # where one is missing, the value that fills in for it
    is_missing = encoded[:, 1:] > 0.5
    # No bandwidth reaches so far: between a number and a missing one the kernel is as good as 0.
    distance = 1e3 * max(1.0, float(numbers.std()))
    far_away = numbers.abs().max() + distance
    return torch.where(is_missing, far_away, numbers)


def _kernel_of(column: Column, encoded: Tensor) -> Kernel:
    """A kernel on one column, chosen without looking at labels."""
    if column.kind != "numeric":
        # Between true and false, every kernel of distances is a + b [same value]. MMD^2 does not
        # depend on a, and b is only a factor. Levels of a category come with weights.
        return Linear()
    numbers = encoded[:, :1]
    if column.missing:
        is_present = encoded[:, -1] < 0.5
        present = numbers[is_present]
        if len(present) > 1:  # else there is no distance to take a median of
            numbers = present
    # The median is taken over values that are evenly spaced among the *sorted* ones: they are the
    # same in every shuffle, and no chance is involved.
    in_order = numbers.sort(dim=0).values
    return _OneColumn(median_bandwidth(in_order))


class _OneColumn(Kernel):
    """The mean of Gaussians at 1/4, 1/2 and 1 times a bandwidth, on one column of numbers.

    Distances are differences, not a matrix product: a column may hold values of very different
    size.
    """

    def __init__(self, bandwidth: float) -> None:
        super().__init__()
        self.factor = -0.5 / bandwidth**2

    def tile(self, a: Embedded, b: Embedded) -> Tensor:
        differences = a[0] - b[0].T  # (rows of a, rows of b)
        return self._value(differences)

    def pairs(self, a: Embedded, b: Embedded) -> Tensor:
        differences = a[0] - b[0]  # (N, 1)
        return self._value(differences)[:, 0]

    def _value(self, differences: Tensor) -> Tensor:
        """The kernel from differences, whose memory it takes for its values."""
        exponents = differences.square_().mul_(self.factor)
        # A bandwidth half as large is the fourth power of the Gaussian: one exponential serves all.
        wide = exponents.exp_().clamp_min_(_LEAST)
        middle = wide.square().square_().clamp_min_(_LEAST)
        narrow = middle.square().square_()
        total = wide.add_(middle).add_(narrow)
        return total.div_(3)

    def __repr__(self) -> str:
        return f"_OneColumn(factor={self.factor:.6g})"


# Exploratory: importances and widths.


def importances(
    fitted: FittedTest, samples: Samples, shuffles: int, max_points: int, generator: torch.Generator
) -> tuple[float, list[float]]:
    """The joint statistic on some points of each sample, and how much each column takes from it."""
    # Each importance takes some evaluations of the joint statistic, hence on some points only.
    few = _some_points(samples, max_points, generator)
    pooled = few.pooled()
    n, m = few.sizes
    joint = _statistic(fitted, few, generator)
    falls = []
    for _, place in places(samples.schema):
        without = 0.0  # the mean of the statistic over shuffles of this column
        for _ in range(shuffles):
            order = torch.randperm(n + m, generator=generator).to(pooled.device)
            mixed = pooled.clone()
            # All that encodes a column moves together: levels and the mark of a missing value.
            mixed[:, place] = pooled[order, place]
            shuffled = Samples(mixed[:n], mixed[n:], samples.schema)
            without += _statistic(fitted, shuffled, generator) / shuffles
        falls.append(joint - without)
    return joint, falls


def _some_points(samples: Samples, most: int, generator: torch.Generator) -> Samples:
    """At most so many points of each sample, drawn at random."""
    n, m = samples.sizes
    order_x = torch.randperm(n, generator=generator)
    # With one size, pairs (X_i, Y_i) stay together, for statistics that look at them.
    order_y = order_x if n == m else torch.randperm(m, generator=generator)
    device = samples.x.device
    chosen_x = order_x[:most].to(device)
    chosen_y = order_y[:most].to(device)
    return Samples(samples.x[chosen_x], samples.y[chosen_y], samples.schema)


def _statistic(fitted: FittedTest, samples: Samples, generator: torch.Generator) -> float:
    """The test's statistic on other points."""
    n, m = samples.sizes
    # Nothing is shuffled, so no bin moves: each sample is one bin that stays in place.
    bin_of_x = torch.zeros(n, dtype=torch.long)
    bin_of_y = torch.ones(m, dtype=torch.long)
    bins = Bins(bin_of_x, bin_of_y, 0, 0, 1)
    statistic = fitted.spec.statistic.quieter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)  # given once, when the test ran
        points = embedded(fitted, samples, generator)
        prepared = statistic.prepare(fitted.representation, points, bins, generator)
    (value,) = evaluated(statistic, prepared, Shuffles.none(0), points.resources.memory)
    return float(value)


def learned_widths(fitted: FittedTest) -> dict[str, float] | None:
    """The learned width of each encoded column in the user's units, if the kernel has widths."""
    kernel: object = fitted.representation
    while isinstance(kernel, DeepKernel | MeanEmbedding):
        # Of a deep kernel only q sees columns; kappa sees features.
        kernel = kernel.q if isinstance(kernel, DeepKernel) else kernel.kernel
    widths = getattr(kernel, "widths", None)
    features = fitted.schema.features
    if widths is None or len(widths) != len(features):
        return None
    scales = fitted.scaling.scale.tolist()
    in_units = {}
    for feature, width, scale in zip(features, widths, scales, strict=True):
        in_units[feature] = float(width) * scale
    return in_units


def column_differences(
    samples: Samples,
    tests: Sequence[ColumnTest],
    adjusted: Sequence[float],
    falls: Sequence[float | None],
    joint: float | None,
    widths: Mapping[str, float] | None,
) -> tuple[ColumnDifference, ...]:
    """All that is known of each column, in one record a column."""
    columns = []
    for number, column in enumerate(samples.schema.columns):
        test = tests[number]
        fall = falls[number]
        share = None
        if fall is not None and joint is not None and joint > 0:
            share = fall / joint
        own_widths = None
        if widths is not None:
            own_widths = {name: widths[name] for name in column.features}
        difference = ColumnDifference(
            name=column.name,
            kind=column.kind,
            statistic=test.statistic,
            pvalue=test.pvalue,
            adjusted=adjusted[number],
            importance=fall,
            importance_share=share,
            widths=own_widths,
        )
        columns.append(difference)
    return tuple(columns)
