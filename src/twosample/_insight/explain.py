"""What tells X from Y: the witness, the most telling rows, the columns that differ.

Nothing here changes the p-value of the test that it explains. One thing is a test in its own right:
the p-value of each column, exact for the equality of that column's distribution. Everything else
looks at the held-out points after the fact; it is exploratory and says so.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from .._checks import check_alpha, check_whole
from .._data.samples import Samples
from .._random import Generators, RNGLike
from .._resources import Resources
from .._result import ALPHA, TwoSampleResult, format_pvalue
from .._threads import few_threads
from .._two_sample import FittedTest
from ..errors import warn
from .column_tests import (
    ColumnDifference,
    column_differences,
    column_tests,
    importances,
    label_shuffles,
    learned_widths,
)
from .corrections import CORRECTIONS, check_correction
from .held_out import Value, as_array, embedded, held_out, row_pixels, row_values
from .text_tables import aligned, as_text, html_list, html_table, percent

Array: TypeAlias = NDArray[np.float64]
ColumnCorrection: TypeAlias = Literal["holm", "bh", "none"]

_COLUMNS_SHOWN = 20
_ROWS_SHOWN = 5
_VALUES_SHOWN = 4
_ROWS_TITLE = "Rows with the largest share of the statistic (exploratory)"
_COLUMN_HEADER = ["column", "MMD^2", "p", "adjusted", "importance (exploratory)"]


@dataclass(frozen=True, eq=False)
class TellingRow:
    """A held-out row and its part in the statistic.

    Exploratory: the row was picked because its part is large.

    Attributes
    ----------
    row
        Its position in the X or Y that was tested, from 0.
    contribution
        Its part of the statistic. Those of all held-out rows of X and Y sum to the statistic. For
        MMD^2 it is the witness at the row without the row itself, over the size of the sample (for
        a classifier's score the witness is taken from midway between the samples). It is negative
        where a row looks like one of the other sample.
    share
        contribution / statistic; None where the statistic is not positive, since shares would then
        mean nothing.
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


@dataclass(frozen=True, eq=False)
class Explanation:
    """What tells X from Y, after a test.

    Attributes
    ----------
    method, statistic, pvalue, sizes
        Those of the test, unchanged.
    columns
        For tables, each column in the user's order: an exact p-value, and an importance that is
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
    correction: ColumnCorrection
    calibration: str
    rows_x: tuple[TellingRow, ...]
    rows_y: tuple[TellingRow, ...]
    contributions: tuple[Array, Array] = field(repr=False)
    importance_from: float | None
    notes: tuple[str, ...]
    result: TwoSampleResult = field(repr=False)

    def witness(self, points: Any) -> NDArray[np.float64]:
        """The witness at new points, given like X and Y; see `twosample.witness`. Exploratory."""
        return witness(self.result, points)

    def reject(self, alpha: float = ALPHA) -> list[str]:
        """Names of the columns for which equality is rejected: adjusted p-value at most `alpha`.

        The column with the smallest p-value comes first.
        """
        check_alpha(alpha)
        return [column.name for column in self.ranked() if column.reject(alpha)]

    def differing(self, alpha: float = ALPHA) -> list[str]:
        """Do as `reject` does. This older name goes away in the next version."""
        warn("Explanation.differing is now Explanation.reject; use that.", DeprecationWarning)
        return self.reject(alpha)

    def ranked(self) -> list[ColumnDifference]:
        """The columns, those that differ most first."""

        def rank(column: ColumnDifference) -> tuple[float, float, float]:
            importance = column.importance or 0.0
            # Adjusted p-values are often equal, at 1 above all; then the importance decides.
            return column.adjusted, -importance, column.pvalue

        return sorted(self.columns, key=rank)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists, ready for JSON.

        Pixels, the contributions of all rows, and the result are left out.
        """
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
            first = self.ranked()[:_COLUMNS_SHOWN]
            cells = [_column_cells(column) for column in first]
            table = aligned([_COLUMN_HEADER, *cells])
            lines = [f"{self._columns_title()}:", *table]
            more = len(self.columns) - _COLUMNS_SHOWN
            if more > 0:
                lines.append(f"  ... {more} more")
            parts.append("\n".join(lines))
        if self.rows_x or self.rows_y:
            lines = [f"{_ROWS_TITLE}:", *aligned(self._row_cells())]
            parts.append("\n".join(lines))
        if self.notes:
            notes = [f"- {note}" for note in self.notes]
            parts.append("\n".join(notes))
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        parts = [f"<p><strong>{html.escape(self._headline())}</strong></p>"]
        if self.columns:
            parts.append(f"<p>{html.escape(self._columns_title())}</p>")
            cells = [_column_cells(column) for column in self.ranked()]
            parts.append(html_table([_COLUMN_HEADER, *cells]))
        if self.rows_x or self.rows_y:
            parts.append(f"<p>{html.escape(_ROWS_TITLE)}</p>")
            header = ["sample", "row", "share", "values"]
            parts.append(html_table([header, *self._row_cells()]))
        parts.append(html_list(self.notes))
        return f"<div>{''.join(parts)}</div>"

    def _headline(self) -> str:
        n, m = self.sizes
        p = format_pvalue(self.pvalue)
        return f"What tells X from Y ({self.method}, p = {p} on {n} + {m} points)"

    def _columns_title(self) -> str:
        return (
            "Columns, each with a test of its own that is exact for its distribution "
            f"({self.calibration}; {CORRECTIONS[self.correction].name})"
        )

    def _row_cells(self) -> list[list[str]]:
        # The columns that differ most say most about a row; there is no room for all of them.
        first = self.ranked()[:_VALUES_SHOWN]
        names = [column.name for column in first]
        lines = []
        for sample, rows in (("X", self.rows_x), ("Y", self.rows_y)):
            for row in rows[:_ROWS_SHOWN]:
                share = "" if row.share is None else percent(row.share)
                known = [name for name in names if name in row.values]  # images have none
                values = [f"{name} = {as_text(row.values[name])}" for name in known]
                lines.append([sample, f"row {row.row}", share, ", ".join(values)])
        return lines


@few_threads
def explain(
    result: TwoSampleResult,
    *,
    correction: ColumnCorrection = "holm",
    rows: int = 10,
    shuffles: int = 3,
    max_points: int = 2000,
    rng: RNGLike | None = None,
    progress: bool | None = None,
) -> Explanation:
    """Say what tells X from Y: which columns, which rows.

    For tables, each column gets a two-sample test of its own on the held-out points. It has a
    kernel on that column alone, and the same shuffles of labels as the joint test. Its p-value is
    exact for the equality of that column's distribution, even where other columns, correlated with
    it, differ. Some differences no column shows by itself, because only the way in which the
    columns go together has changed. They have no such p-value; look at the importances.

    Parameters
    ----------
    result
        What `two_sample_test`, `TwoSampleTest.run` or `FittedTest.test` gave. It is not changed.
    correction
        For the number of columns: "holm" holds whatever the dependence between columns. "bh"
        (Benjamini-Hochberg) finds more columns, an expected share of them wrongly, and needs
        positive dependence. "none" leaves the p-values alone.
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
    The p-values of columns and of the joint test rest on the same held-out points. It is no
    contradiction if the joint test rejects and no column does. A column that is shuffled among the
    pooled points and changes the statistic is *not* thereby shown to differ: used as a test at
    level 0.05, that rejected an innocent column beside a correlated guilty one at rates up to 0.36.
    Hence importance has no p-value.

    Examples
    --------
    >>> import numpy as np, twosample
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(200, 3)), rng.normal(size=(200, 3))
    >>> Y[:, 1] += 1
    >>> result = twosample.two_sample_test(X, Y, "mmd-median", rng=0)
    >>> twosample.explain(result, rng=0).reject(alpha=0.05)
    ['1']
    """
    check_correction(correction, get_args(ColumnCorrection))
    check_whole("rows", rows, 0)
    check_whole("shuffles", shuffles, 0)
    check_whole("max_points", max_points, 2)
    fitted, samples = held_out(result)
    # Each use has a generator of its own: what one draws never changes the others.
    generators = Generators(rng)
    contributions = _contributions(result, fitted, samples, generators.torch("contributions"))
    columns: tuple[ColumnDifference, ...] = ()
    calibration = ""
    labellings = 0
    joint = None
    if samples.schema.columns:
        labels = label_shuffles(result, samples, generators.torch("shuffles"))
        calibration = labels.name
        labellings = len(labels.shuffles)
        resources = Resources(fitted.spec.memory, progress)
        tests = column_tests(samples, labels, generators.torch("columns"), resources)
        falls: Sequence[float | None] = [None] * len(tests)
        if shuffles:
            joint, falls = importances(
                fitted, samples, shuffles, max_points, generators.torch("importance")
            )
        pvalues = [test.pvalue for test in tests]
        adjusted = CORRECTIONS[correction].adjust(pvalues)
        widths = learned_widths(fitted)
        columns = column_differences(samples, tests, adjusted, falls, joint, widths)
    of_x, of_y = contributions
    return Explanation(
        method=result.method,
        statistic=result.statistic,
        pvalue=result.pvalue,
        sizes=result.sizes,
        columns=columns,
        correction=correction,
        calibration=calibration,
        rows_x=_telling_rows(result, 0, of_x, rows),
        rows_y=_telling_rows(result, 1, of_y, rows),
        contributions=contributions,
        importance_from=joint,
        notes=_notes(result, columns, correction, labellings, rows),
        result=result,
    )


@few_threads
def witness(result: TwoSampleResult, points: Any) -> NDArray[np.float64]:
    """The witness w(z) at any points z: positive where z looks like X, negative where like Y.

    w(z) = mean_j k(z, X_j) - mean_j k(z, Y_j), where X and Y are the held-out points of the result
    and k is its kernel. For a test of features f it is the linear discriminant
    d' S^-1 (f(z) - midpoint), with d the difference of the means of X and Y and S the covariance
    that T^2 uses. Exploratory: it shows where the samples differ as the test sees them, with no
    claim about any single point.

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
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(0, 1, (99, 1)), rng.normal(4, 1, (99, 1))
    >>> result = twosample.two_sample_test(X, Y, "mmd-median", rng=0)
    >>> twosample.witness(result, [[0.0], [4.0]]) > 0
    array([ True, False])
    """
    fitted, samples = held_out(result)
    reference = samples.pooled()
    n, m = samples.sizes
    encoded = samples.schema.encode(points, "points")
    unscaled = Samples(encoded, encoded[:0], samples.schema)
    new = fitted.scaling.apply(unscaled, device=reference.device).x
    # All points together: tiles are centred alike, and a network that normalises by batches has
    # company.
    company = Samples(reference, new, samples.schema)
    z = embedded(fitted, company, torch.Generator().manual_seed(0)).parts
    values = fitted.spec.statistic.witness(
        fitted.representation, z, n, m, result.statistic, fitted.spec.memory
    )
    return as_array(values)


# Rows.


def _contributions(
    result: TwoSampleResult, fitted: FittedTest, samples: Samples, generator: torch.Generator
) -> tuple[Array, Array]:
    """What each held-out point adds to the statistic."""
    n, m = samples.sizes
    points = embedded(fitted, samples, generator)
    prepared = None if result.calibrated is None else result.calibrated.prepared
    with torch.no_grad():
        at_x, at_y = fitted.spec.statistic.contributions(
            fitted.representation, points, prepared, result.statistic
        )
    of_x = at_x / n
    of_y = at_y / m
    # Kernel values in single precision were added up in another order than in the test. What
    # rounding has left of the sum is shared by all alike.
    total = float(of_x.sum() + of_y.sum())
    rest = (result.statistic - total) / (n + m)
    return as_array(of_x + rest), as_array(of_y + rest)


def _telling_rows(
    result: TwoSampleResult, sample: int, contributions: Array, rows: int
) -> tuple[TellingRow, ...]:
    """The `rows` points that contribute most, of X (sample 0) or of Y (sample 1)."""
    fitted, samples = held_out(result)
    order = np.argsort(-contributions, kind="stable")[:rows]
    chosen = torch.from_numpy(order)
    pool = samples.y if sample else samples.x
    points = pool[chosen.to(pool.device)]
    points = points.to("cpu", torch.float64)  # so that undoing the scaling adds no rounding
    # Without a split, points stand where they stood in the user's sample.
    numbers = chosen
    if samples.rows is not None:
        numbers = samples.rows[sample].cpu()[chosen]
    is_table = samples.schema.kind == "table"
    telling = []
    for position, point, number in zip(order.tolist(), points, numbers.tolist(), strict=True):
        contribution = float(contributions[position])
        share = contribution / result.statistic if result.statistic > 0 else None
        values: Mapping[str, Value] = {}
        pixels = None
        if is_table:
            values = row_values(samples.schema, fitted.scaling, point)
        else:
            pixels = row_pixels(samples.schema, fitted.scaling, point)
        row = TellingRow(
            row=int(number),
            contribution=contribution,
            share=share,
            values=values,
            pixels=pixels,
        )
        telling.append(row)
    return tuple(telling)


# Words.


def _notes(
    result: TwoSampleResult,
    columns: Sequence[ColumnDifference],
    correction: ColumnCorrection,
    labellings: int,
    rows: int,
) -> tuple[str, ...]:
    """What a reader should know, in sentences."""
    notes = []
    if not result.reject():
        notes.append(
            f"The test itself finds no difference (p = {format_pvalue(result.pvalue)}): what is "
            "exploratory here may well be chance."
        )
    if columns:
        notes += _column_notes(result, columns, correction, labellings)
    if rows and result.statistic <= 0:
        notes.append("The statistic is not positive, so rows have no share of it.")
    return tuple(notes)


def _column_notes(
    result: TwoSampleResult,
    columns: Sequence[ColumnDifference],
    correction: ColumnCorrection,
    labellings: int,
) -> list[str]:
    notes = []
    if correction == "bh":
        notes.append(
            "Benjamini-Hochberg needs columns that depend positively on each other; Holm needs "
            "nothing."
        )
    # The smallest p-value is one in all labellings, and a correction multiplies it by the columns.
    smallest = len(columns) / labellings
    if correction != "none" and smallest > ALPHA:
        notes.append(
            f"With {len(columns)} columns and {labellings} labellings a single column cannot "
            f"reach an adjusted p-value below {min(1.0, smallest):.2g}; test with more "
            "permutations."
        )
    if result.reject() and not any(column.reject(ALPHA) for column in columns):
        notes.append(
            f"No column differs by itself at {ALPHA}: the difference may lie in how the "
            "columns go together."
        )
    if any(column.importance is not None for column in columns):
        notes.append(
            "Importance: how much of the joint statistic goes when a column is shuffled. It "
            "has no p-value, and innocent columns that are correlated with guilty ones have some."
        )
    return notes


def _column_cells(column: ColumnDifference) -> list[str]:
    if column.importance_share is not None:
        importance = percent(column.importance_share)
    elif column.importance is not None:
        importance = f"{column.importance:.2g}"
    else:
        importance = ""
    return [
        column.name,
        f"{column.statistic:.3g}",
        format_pvalue(column.pvalue),
        format_pvalue(column.adjusted),
        importance,
    ]
