"""What tells X from Y: the columns and pairs that differ, the witness, the most telling rows.

Nothing here changes the p-value of the test that it explains. Some things are tests in their own
right: the p-value of each column, exact for the equality of that column's distribution, and that of
each pair of columns where the test looks at pairs. Everything else looks at the held-out points
after the fact; it is exploratory and says so.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from .._checks import check_alpha, check_whole
from .._data.samples import Samples
from .._random import Generators, RNGLike, takes_rng
from .._resources import Resources
from .._result import ALPHA, TwoSampleResult, format_pvalue
from .._threads import few_threads
from .._two_sample import FittedTest
from ..errors import IncompatibleParts, warn
from .column_tests import (
    ColumnDifference,
    ColumnTest,
    column_differences,
    column_tests,
    importances,
    label_shuffles,
    learned_widths,
)
from .corrections import CORRECTIONS, check_correction
from .held_out import Value, as_array, embedded, held_out, row_pixels, row_values
from .text_tables import aligned, as_text, html_list, html_table, percent
from .where import Local, PairDifference, local_tests, pair_differences

Array: TypeAlias = NDArray[np.float64]
ColumnCorrection: TypeAlias = Literal["step-down", "holm", "bh", "none"]

_COLUMNS_SHOWN = 20
_ROWS_SHOWN = 5
_VALUES_SHOWN = 4
_PAIRS_SHOWN = 10
_ROWS_TITLE = "Rows with the largest share of the statistic (exploratory)"


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
    pairs
        For tables and a test that looks at pairs of columns, each pair that it looked at: an exact
        p-value for the equality of their joint distribution.
    symbol
        What the statistic of a column is.
    correction
        How their p-values were adjusted, those of columns and those of pairs for themselves:
        "step-down" (the chance that any equal column is called different is at most alpha, if the
        equal columns have the same *joint* distribution in X and Y), "holm" (the same, however the
        columns depend on each other), "bh" (the expected share of equal columns among those called
        different, if they depend positively), or "none".
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
    alpha
        The level of the text and of the notes, and of what is asked for without another one.
    """

    method: str
    statistic: float
    pvalue: float
    sizes: tuple[int, int]
    columns: tuple[ColumnDifference, ...]
    pairs: tuple[PairDifference, ...]
    symbol: str
    correction: ColumnCorrection
    calibration: str
    rows_x: tuple[TellingRow, ...]
    rows_y: tuple[TellingRow, ...]
    contributions: tuple[Array, Array] = field(repr=False)
    importance_from: float | None
    notes: tuple[str, ...]
    result: TwoSampleResult = field(repr=False)
    alpha: float = ALPHA

    def witness(self, points: Any) -> NDArray[np.float64]:
        """The witness at new points, given like X and Y; see `twosample.witness`. Exploratory."""
        return witness(self.result, points)

    def reject(self, alpha: float | None = None) -> list[str]:
        """Names of the columns for which equality is rejected: adjusted p-value at most `alpha`.

        The column with the smallest p-value comes first. None means the level of the explanation.
        """
        level = self._level(alpha)
        return [column.name for column in self.ranked() if column.reject(level)]

    def reject_pairs(self, alpha: float | None = None) -> list[PairDifference]:
        """The pairs whose joint distribution differs: adjusted p-value at most `alpha`.

        Those of two columns neither of which differs by itself come first: they go together
        otherwise.
        """
        level = self._level(alpha)
        rejected = [pair for pair in self.ranked_pairs() if pair.reject(level)]
        return sorted(rejected, key=lambda pair: len(pair.follows_from(level)))

    def _level(self, alpha: float | None) -> float:
        """The level that is asked for, checked."""
        level = self.alpha if alpha is None else alpha
        check_alpha(level)
        return level

    def ranked_pairs(self) -> list[PairDifference]:
        """The pairs, those that differ most first."""
        return sorted(self.pairs, key=lambda pair: (pair.adjusted, -pair.statistic))

    def differing(self, alpha: float | None = None) -> list[str]:
        """Do as `reject` does. This older name goes away in the next version."""
        warn("Explanation.differing is now Explanation.reject; use that.", DeprecationWarning)
        return self.reject(alpha)

    def ranked(self) -> list[ColumnDifference]:
        """The columns, those that differ most first."""

        def rank(column: ColumnDifference) -> tuple[float, ...]:
            importance = column.importance or 0.0
            # Adjusted p-values are often equal, at 1 above all; then the importance decides.
            return column.adjusted, -importance, column.pvalue, -column.statistic

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
            "alpha": self.alpha,
            "correction": self.correction,
            "calibration": self.calibration,
            "symbol": self.symbol,
            "columns": [column.to_dict() for column in self.columns],
            "pairs": [pair.to_dict(self.alpha) for pair in self.pairs],
            "rows_x": [row.to_dict() for row in self.rows_x],
            "rows_y": [row.to_dict() for row in self.rows_y],
            "importance_from": self.importance_from,
            "exploratory": ["importance", "importance_share", "widths", "rows_x", "rows_y"],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        parts = [self._headline()]
        if self.columns:
            table = aligned(self._column_cells()[: _COLUMNS_SHOWN + 1])
            lines = [f"{self._columns_title()}:", *table]
            more = len(self.columns) - _COLUMNS_SHOWN
            if more > 0:
                lines.append(f"  ... {more} more")
            parts.append("\n".join(lines))
        if self.pairs:
            lines = [f"{self._pairs_title()}:"]
            lines += [f"  {sentence}" for sentence in self.pair_sentences()]
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
            parts.append(html_table(self._column_cells()))
        if self.pairs:
            parts.append(f"<p>{html.escape(self._pairs_title())}</p>")
            parts.append(html_list(self.pair_sentences()))
        if self.rows_x or self.rows_y:
            parts.append(f"<p>{html.escape(_ROWS_TITLE)}</p>")
            header = ["sample", "row", "share", "values"]
            parts.append(html_table([header, *self._row_cells()]))
        parts.append(html_list(self.notes))
        return f"<div>{''.join(parts)}</div>"

    def telling_columns(self, alpha: float | None = None) -> list[str]:
        """The names of all columns: those that differ, those that go together otherwise, others."""
        level = self._level(alpha)
        names = dict.fromkeys(self.reject(level))
        for pair in self.reject_pairs(level):
            if not pair.follows_from(level):
                names.update(dict.fromkeys(pair.columns))
        names.update(dict.fromkeys(column.name for column in self.ranked()))
        return list(names)

    def pair_sentences(self, alpha: float | None = None) -> list[str]:
        """What there is to say about pairs of columns at a level, in a few sentences."""
        level = self._level(alpha)
        rejected = self.reject_pairs(level)
        if not rejected:
            count = len(self.pairs)
            pairs = "the pair" if count == 1 else f"any of {count:,} pairs"
            return [f"No difference found in {pairs}"]
        by_themselves = [pair for pair in rejected if not pair.follows_from(level)]
        sentences = [pair.sentence(level) for pair in by_themselves[:_PAIRS_SHOWN]]
        more = len(by_themselves) - _PAIRS_SHOWN
        if more > 0:
            sentences.append(f"{more} more pairs go together otherwise")
        following = len(rejected) - len(by_themselves)
        if following:
            differ = "1 pair differs" if following == 1 else f"{following} pairs differ"
            sentences.append(f"{differ} because of a column that differs by itself")
        return sentences

    def _column_cells(self) -> list[list[str]]:
        """The table of columns, those that differ most first, with its head."""
        ranked = self.ranked()
        head = ["column", self.symbol, "p", "adjusted"]
        cells = [_test_cells(column) for column in ranked]
        if self.importance_from is None:
            return [head, *cells]
        for line, column in zip(cells, ranked, strict=True):
            line.append(_importance_text(column))
        return [[*head, "importance (exploratory)"], *cells]

    def _headline(self) -> str:
        n, m = self.sizes
        p = format_pvalue(self.pvalue)
        x, y = self.result.names
        return f"What tells {x} from {y} ({self.method}, p = {p} on {n} + {m} points)"

    def _columns_title(self) -> str:
        return (
            "Columns, each with a test of its own that is exact for its distribution "
            f"({self.calibration}; {correction_name(self.correction)})"
        )

    def _pairs_title(self) -> str:
        return (
            "Pairs of columns, each with a test of its own that is exact for their joint "
            f"distribution (at {self.alpha:g}; {correction_name(self.correction)})"
        )

    def _row_cells(self) -> list[list[str]]:
        # The columns that differ most say most about a row; there is no room for all of them.
        names = self.telling_columns()[:_VALUES_SHOWN]
        lines = []
        for sample, rows in zip(self.result.names, (self.rows_x, self.rows_y), strict=True):
            for row in rows[:_ROWS_SHOWN]:
                share = "" if row.share is None else percent(row.share)
                known = [name for name in names if name in row.values]  # images have none
                values = [f"{name} = {as_text(row.values[name])}" for name in known]
                lines.append([sample, f"row {row.row}", share, ", ".join(values)])
        return lines


@few_threads
@takes_rng
def explain(
    result: TwoSampleResult,
    *,
    alpha: float = ALPHA,
    correction: ColumnCorrection | None = None,
    rows: int = 10,
    shuffles: int = 3,
    max_points: int = 2000,
    rng: RNGLike | None = None,
    progress: bool | None = None,
) -> Explanation:
    """Say what tells X from Y: which columns, which pairs of columns, which rows.

    For tables, each column gets a two-sample test of its own on the held-out points, with the same
    shuffles of labels as the joint test. Its p-value is exact for the equality of that column's
    distribution, even where other columns, correlated with it, differ.

    A test that looks at single columns and pairs, `spectral`, gives these p-values from its own
    values, and others for pairs of columns: exact for the equality of their joint distribution.
    Two columns neither of which differs, but which differ together, go together otherwise. For
    other tests the columns get a kernel each. Differences that no column shows by itself then have
    no such p-value; look at the importances.

    Parameters
    ----------
    result
        What `two_sample_test`, `TwoSampleTest.run` or `FittedTest.test` gave. It is not changed.
    alpha
        The level of what is said to differ; no p-value depends on it.
    correction
        For the number of columns, and for that of pairs: "step-down" compares with the largest
        value over columns in each shuffle. It needs a test that looks at single columns, and is
        the default there; it holds if the columns that do not differ have the same joint
        distribution in X and Y, and nearly so for samples of one size. "holm", the default of
        other tests, holds whatever the dependence between columns. "bh" (Benjamini-Hochberg) finds
        more columns, an expected share of them wrongly, and needs positive dependence. "none"
        leaves the p-values alone.
    rows
        How many rows of each sample to name.
    shuffles
        How often each column is shuffled for its importance; 0 leaves importance out. A test that
        looks at single columns has none.
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
    check_alpha(alpha)
    if correction is not None:
        check_correction(correction, get_args(ColumnCorrection))
    check_whole("rows", rows, 0)
    check_whole("shuffles", shuffles, 0)
    check_whole("max_points", max_points, 2)
    fitted, samples = held_out(result)
    # Each use has a generator of its own: what one draws never changes the others.
    generators = Generators(rng)
    contributions = _contributions(result, fitted, samples, generators.torch("contributions"))
    tables = _Tables(correction=correction or "holm")
    if samples.schema.columns:
        local = local_tests(result, fitted)
        if local is not None:
            tables = _by_views(result, samples, *local, correction or "step-down")
        else:
            if correction == "step-down":
                raise IncompatibleParts(
                    f"{result.method} looks at no single column, so it has no values for "
                    'correction="step-down"; use "holm", or the method spectral.'
                )
            resources = Resources(fitted.spec.memory, progress)
            tables = _by_kernels(
                result, samples, correction or "holm", shuffles, max_points, generators, resources
            )
    of_x, of_y = contributions
    return Explanation(
        method=result.method,
        statistic=result.statistic,
        pvalue=result.pvalue,
        sizes=result.sizes,
        columns=tables.columns,
        pairs=tables.pairs,
        symbol=tables.symbol,
        correction=tables.correction,
        calibration=tables.calibration,
        rows_x=_telling_rows(result, 0, of_x, rows),
        rows_y=_telling_rows(result, 1, of_y, rows),
        contributions=contributions,
        importance_from=tables.joint,
        notes=_notes(result, tables, rows, alpha),
        result=result,
        alpha=alpha,
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


# Columns and pairs.


class _Tables(NamedTuple):
    """What an explanation says about columns and pairs."""

    correction: ColumnCorrection
    columns: tuple[ColumnDifference, ...] = ()
    pairs: tuple[PairDifference, ...] = ()
    symbol: str = ""
    calibration: str = ""
    joint: float | None = None  # the statistic that importances are parts of
    labellings: int = 0
    notes: tuple[str, ...] = ()


def _by_views(
    result: TwoSampleResult,
    samples: Samples,
    columns: Local,
    pairs: Local,
    correction: ColumnCorrection,
) -> _Tables:
    """From the values that the test itself has of columns and pairs."""
    fitted, _ = held_out(result)
    names = [column.name for column in samples.schema.columns]
    # A user's own views need not look at every column.
    tests = [ColumnTest(0.0, 1.0)] * len(names)
    adjusted = [1.0] * len(names)
    for number, p in enumerate(_closed(result, _adjusted(columns, correction), correction)):
        (column,) = columns.keys[number]
        tests[column] = ColumnTest(columns.statistics[number], columns.pvalues[number])
        adjusted[column] = p
    nothing = [None] * len(names)
    of_pairs = _closed(result, _adjusted(pairs, correction), correction)
    return _Tables(
        columns=column_differences(samples, tests, adjusted, nothing, None, None),
        pairs=pair_differences(pairs, of_pairs, names, adjusted),
        symbol=fitted.spec.statistic.symbol,
        correction=correction,
        calibration=f"the joint test's {result._against}",
        joint=None,
        labellings=0 if result.calibrated is None else len(result.calibrated.shuffles),
        notes=_budget_notes(columns, pairs, names),
    )


def _adjusted(local: Local, correction: ColumnCorrection) -> list[float]:
    if correction == "step-down":
        return local.stepped
    return CORRECTIONS[correction].adjust(local.pvalues)


def _closed(
    result: TwoSampleResult, adjusted: Sequence[float], correction: ColumnCorrection
) -> list[float]:
    """The adjusted p-values, none of them below that of the test itself.

    Where the test finds no difference, no column and no pair is said to differ: a closed test asks
    about all of them together first.
    """
    if correction == "none":
        return list(adjusted)
    return [max(p, result.pvalue) for p in adjusted]


def _budget_notes(columns: Local, pairs: Local, names: Sequence[str]) -> tuple[str, ...]:
    """What was not looked at."""
    notes = []
    if len(columns.keys) < len(names):
        notes.append(f"{len(columns.keys)} of {len(names)} columns were looked at by themselves.")
    every = math.comb(len(names), 2)
    if pairs.keys and len(pairs.keys) < every:
        notes.append(
            f"{len(pairs.keys):,} of {every:,} pairs were looked at: those that depend most on "
            "each other in the pooled rows, and others drawn at random. Labels had no say."
        )
    return tuple(notes)


def _by_kernels(
    result: TwoSampleResult,
    samples: Samples,
    correction: Literal["holm", "bh", "none"],
    shuffles: int,
    max_points: int,
    generators: Generators,
    resources: Resources,
) -> _Tables:
    """From a kernel on each column, and importances."""
    fitted, _ = held_out(result)
    labels = label_shuffles(result, samples, generators.torch("shuffles"))
    tests = column_tests(samples, labels, generators.torch("columns"), resources)
    joint = None
    falls: Sequence[float | None] = [None] * len(tests)
    if shuffles:
        joint, falls = importances(
            fitted, samples, shuffles, max_points, generators.torch("importance")
        )
    pvalues = [test.pvalue for test in tests]
    adjusted = _closed(result, CORRECTIONS[correction].adjust(pvalues), correction)
    widths = learned_widths(fitted)
    return _Tables(
        columns=column_differences(samples, tests, adjusted, falls, joint, widths),
        pairs=(),
        symbol="MMD^2",
        correction=correction,
        calibration=labels.name,
        joint=joint,
        labellings=len(labels.shuffles),
        notes=(),
    )


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


def correction_name(correction: ColumnCorrection) -> str:
    """How p-values were adjusted, in words."""
    if correction == "step-down":
        return "adjusted by step-down maximum"
    return CORRECTIONS[correction].name


def _notes(result: TwoSampleResult, tables: _Tables, rows: int, alpha: float) -> tuple[str, ...]:
    """What a reader should know, in sentences."""
    notes = []
    if not result.reject(alpha):
        notes.append(
            f"The test itself finds no difference (p = {format_pvalue(result.pvalue)}): what is "
            "exploratory here may well be chance."
        )
    if tables.columns:
        notes += tables.notes
        notes += _column_notes(result, tables, alpha)
    if rows and result.statistic <= 0:
        notes.append("The statistic is not positive, so rows have no share of it.")
    return tuple(notes)


def _column_notes(result: TwoSampleResult, tables: _Tables, alpha: float) -> list[str]:
    notes = []
    columns = tables.columns
    if tables.correction == "bh":
        notes.append(
            "Benjamini-Hochberg needs columns that depend positively on each other; Holm needs "
            "nothing."
        )
    if tables.correction in ("holm", "bh"):
        notes += _too_few_labellings(len(columns), "column", tables.labellings, alpha)
        notes += _too_few_labellings(len(tables.pairs), "pair", tables.labellings, alpha)
    if result.reject(alpha) and not any(column.reject(alpha) for column in columns):
        if not tables.pairs:
            notes.append(
                f"No column differs by itself at {alpha:g}: the difference may lie in how the "
                "columns go together."
            )
        elif not any(pair.reject(alpha) for pair in tables.pairs):
            notes.append(
                f"No column and no pair differs by itself at {alpha:g}: the difference may lie in "
                "how more than two columns go together, or be spread over many."
            )
    if tables.joint is not None:
        notes.append(
            "Importance: how much of the joint statistic goes when a column is shuffled. It "
            "has no p-value, and innocent columns that are correlated with guilty ones have some."
        )
    return notes


def _too_few_labellings(count: int, kind: str, labellings: int, alpha: float) -> list[str]:
    # The smallest p-value is one in all labellings, and a correction multiplies it by their number.
    smallest = count / labellings
    if smallest <= alpha:
        return []
    return [
        f"With {count} {kind}s and {labellings} labellings a single {kind} cannot reach an "
        f"adjusted p-value below {min(1.0, smallest):.2g}; test with more permutations."
    ]


def _test_cells(column: ColumnDifference) -> list[str]:
    return [
        column.name,
        f"{column.statistic:.3g}",
        format_pvalue(column.pvalue),
        format_pvalue(column.adjusted),
    ]


def _importance_text(column: ColumnDifference) -> str:
    if column.importance_share is not None:
        return percent(column.importance_share)
    return "" if column.importance is None else f"{column.importance:.2g}"
