"""Tables of stored trials beside the published numbers, in Markdown, LaTeX and CSV.

A power is the mean of the rates of its trials, with their standard error. That is never taken to be
less than half of the exact 68 % binomial interval of all tests together: trials that happen to
agree do not make a rate certain. A published rate has the error that is printed beside it. If there
is none, or 0.000, it has that of ten trials which vary as ours do, again no less than the binomial
one. Differences are in standard errors, ours and theirs combined; those beyond two are marked and
need a reason. One trial does not tell how trials vary, so it has no difference.

A level comes with the exact 95 % binomial limits of its rejections. It is marked where 0.05 is not
within them.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ..errors import InputError
from .experiments import ALPHA, METHODS, Cell, Experiment, Published, experiment
from .reasons import reason
from .recipes import RECIPES
from .store import Record

_ONE_SIGMA = 0.6827  # how often a normal number is within one standard deviation
# The paper's numbers come from ten trials of 100 tests each.
_PUBLISHED_TRIALS = 10
_PUBLISHED_TESTS = 1000


@dataclass(frozen=True)
class Entry:
    """What a cell of a table holds.

    Attributes
    ----------
    row, method, recipe
        Its place.
    rates
        The rate of each trial.
    tests, rejections
        Those of all trials together.
    rate, error
        The mean of the rates, and its standard error.
    limits
        The exact 95 % binomial interval of all tests.
    published, published_error, difference
        The number of the paper, its error, and how many standard errors ours lies above it. The
        difference is None without a published number, and with one trial.
    shared
        Whether test sets had to share rows with each other.
    cpu_seconds
        The median CPU time of a training, and the CPU time of all trials together.
    """

    row: str
    method: str
    recipe: str
    rates: tuple[float, ...]
    tests: int
    rejections: int
    rate: float
    error: float
    limits: tuple[float, float]
    published: Published | None
    published_error: float | None
    difference: float | None
    shared: bool
    cpu_seconds: tuple[float, float]

    @property
    def count(self) -> str:
        """How many trials there are, times the tests of each."""
        return f"{len(self.rates)} x {self.tests / len(self.rates):.0f}"

    @property
    def far(self) -> bool:
        """Whether it is beyond two standard errors of the published number."""
        return self.difference is not None and abs(self.difference) > 2

    @property
    def off_level(self) -> bool:
        """Whether its limits leave out the level."""
        return not self.limits[0] <= ALPHA <= self.limits[1]


def entries(shown: Experiment, records: Iterable[Record], recipe: str) -> list[Entry]:
    """Return the cells of an experiment that have trials, row by row."""
    by_cell: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        if record.recipe == recipe:
            place = (record.experiment, record.setting, record.method)
            by_cell.setdefault(place, []).append(record)
    filled = []
    for row in dict.fromkeys(setting.row for setting in shown.settings):
        # A row may show several settings as one, such as both null hypotheses of Higgs.
        settings = [setting for setting in shown.settings if setting.row == row]
        for method in shown.methods:
            trials: list[Record] = []
            for setting in settings:
                trials += by_cell.get(_place(shown.cell(setting, method)), [])
            if trials:
                filled.append(_entry(row, method, recipe, trials, shown.expected(row, method)))
    return filled


def homes(shown: Experiment) -> list[str]:
    """Return the experiments whose records fill a table."""
    return list(dict.fromkeys(cell.experiment for cell in shown.cells()))


def _place(cell: Cell) -> tuple[str, str, str]:
    return cell.experiment, cell.setting.name, cell.method


def _entry(
    row: str, method: str, recipe: str, trials: Sequence[Record], published: Published | None
) -> Entry:
    rates = tuple(record.rate for record in trials)
    tests = sum(record.tests for record in trials)
    rejections = sum(record.rejections for record in trials)
    rate = float(np.mean(rates))
    error = standard_error(rates, rejections, tests)
    published_error = None
    difference = None
    if published is not None:
        # An error of 0.000 was rounded away, so it counts as none.
        published_error = published.error or _error_of_ten(published.rate, rates)
        if len(rates) > 1:
            difference = (rate - published.rate) / math.hypot(error, published_error)
    # Drawn data have no limit, and so no such entry.
    shared = any(record.sizes.get("distinct", record.tests) < record.tests for record in trials)
    fit_seconds = float(np.median([record.fit_cpu_seconds for record in trials]))
    all_seconds = sum(record.cpu_seconds for record in trials)
    return Entry(
        row=row,
        method=method,
        recipe=recipe,
        rates=rates,
        tests=tests,
        rejections=rejections,
        rate=rate,
        error=error,
        limits=binomial_limits(rejections, tests, 0.95),
        published=published,
        published_error=published_error,
        difference=difference,
        shared=shared,
        cpu_seconds=(fit_seconds, all_seconds),
    )


def binomial_limits(count: int, total: int, confidence: float) -> tuple[float, float]:
    """Return the exact interval of Clopper and Pearson for the chance behind `count` of `total`.

    >>> [round(limit, 4) for limit in binomial_limits(0, 100, 0.95)]
    [0.0, 0.0362]
    """
    tail = (1 - confidence) / 2
    # At 0 and at `total` the law degenerates, and the limit is the end of [0, 1].
    low = float(stats.beta.ppf(tail, count, total - count + 1)) if count else 0.0
    high = float(stats.beta.isf(tail, count + 1, total - count)) if count < total else 1.0
    return low, high


def binomial_error(count: int, total: int) -> float:
    """Return half of the exact 68 % interval, or all of it where it lies on one side."""
    low, high = binomial_limits(count, total, _ONE_SIGMA)
    one_sided = count in (0, total)
    return high - low if one_sided else (high - low) / 2


def standard_error(rates: Sequence[float], rejections: int, tests: int) -> float:
    """Return the standard error of the mean rate, which is at least the binomial one."""
    return max(_spread(rates) / math.sqrt(len(rates)), binomial_error(rejections, tests))


def _error_of_ten(rate: float, rates: Sequence[float]) -> float:
    """Return the error of a published rate without one, if its ten trials vary as `rates` do."""
    least = binomial_error(round(rate * _PUBLISHED_TESTS), _PUBLISHED_TESTS)
    return max(_spread(rates) / math.sqrt(_PUBLISHED_TRIALS), least)


def _spread(rates: Sequence[float]) -> float:
    return float(np.std(rates, ddof=1)) if len(rates) > 1 else 0.0


# Columns

_Columns = Mapping[str, Callable[[Entry], str]]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _published(entry: Entry) -> str:
    if entry.published is None:
        return ""
    rate, error = entry.published
    return _number(rate) if error is None else f"{rate:.3f} ± {error:.3f}"


def _difference(entry: Entry) -> str:
    return "" if entry.difference is None else f"{entry.difference:+.1f}"


def _why(entry: Entry, shown: Experiment, others: Mapping[tuple[str, str, str], Entry]) -> str:
    """Return the reason for a difference, with the numbers that it refers to filled in.

    In its text {paper} is what that recipe gave in the same place, {paper ROW} what it gave in
    another row.
    """
    if not entry.far:
        return ""

    def number(match: re.Match[str]) -> str:
        other = others.get((match[2] or entry.row, entry.method, match[1]))
        if other is None:
            return "not run"
        return f"{other.rate:.3f} ± {other.error:.3f} ({other.count})"

    text = reason(shown.name, entry.row, entry.method, entry.recipe)
    # Matches {paper} as well as {paper N=400}.
    return re.sub(rf"{{({'|'.join(RECIPES)})(?: ([^}}]+))?}}", number, text)


def _columns(shown: Experiment, cells: Sequence[Entry]) -> _Columns:
    """Return what writes each column of an experiment, by its heading."""
    others = {(entry.row, entry.method, entry.recipe): entry for entry in cells}
    first: _Columns = {
        "setting": lambda e: e.row,
        "test": lambda e: e.method,
        "trials x tests": lambda e: e.count,
    }
    last: _Columns = {"CPU s to fit": lambda e: f"{e.cpu_seconds[0]:.1f}"}
    middle: _Columns
    if shown.kind == "level":
        middle = {
            "level": lambda e: _number(e.rate),
            "exact 95 % limits": lambda e: f"{e.limits[0]:.3f} to {e.limits[1]:.3f}",
            "off": lambda e: "!" if e.off_level else "",
            "published": _published,
        }
    else:
        middle = {
            "power": lambda e: _number(e.rate),
            "standard error": lambda e: _number(e.error),
            "published": _published,
            "difference": _difference,
            "far": lambda e: "!" if e.far else "",
            "why": lambda e: _why(e, shown, others),
        }
    columns = {**first, **middle, **last}
    if not any(shown.published.values()):  # nothing to compare with
        for name in ("published", "difference", "far", "why"):
            columns.pop(name, None)
    return columns


# Formats


def markdown(shown: Experiment, records: Sequence[Record], recipes: Sequence[str] = RECIPES) -> str:
    """Write a page: what the experiment is, and a table for each recipe that has trials."""
    by_recipe = {recipe: entries(shown, records, recipe) for recipe in recipes}
    # Reasons may quote a recipe that is not shown, so the columns know the cells of all.
    known: list[Entry] = []
    for recipe in RECIPES:
        known += entries(shown, records, recipe)
    columns = _columns(shown, known)
    source = f" In the paper: {shown.source}." if shown.source else ""
    parts = [f"# {shown.name}", f"{shown.title}.{source}"]
    notes = (shown.note, _explained(shown), _shared(by_recipe))
    parts += [note for note in notes if note]
    for recipe, cells in by_recipe.items():
        if cells:
            parts += [f"## Recipe {recipe}", _markdown_table(columns, cells)]
    if not any(by_recipe.values()):
        parts.append("No trials yet.")
    return "\n\n".join(parts) + "\n"


def _explained(shown: Experiment) -> str:
    """Return the sentences that say how to read the table."""
    if shown.kind == "level":
        return (
            "Rejections among all tests at level 0.05 where nothing is to be found, with exact "
            'binomial limits; "!" where 0.05 is outside, which happens to one cell in twenty.'
        )
    if not any(shown.published.values()):
        return "The paper has no numbers to compare with."
    return (
        "Power at level 0.05: the mean over trials, its standard error (never below the exact "
        "binomial one of all tests), the published number, the difference in standard errors of "
        "both (a published number without one, or with 0.000, is given that of ten trials that "
        "vary as ours do, at least the binomial one of 1000 tests), "
        '"!" beyond two. One trial alone is not compared.'
    )


def _shared(by_recipe: Mapping[str, Sequence[Entry]]) -> str:
    shared = [entry for cells in by_recipe.values() for entry in cells if entry.shared]
    if not shared:
        return ""
    return (
        "The rows on hand are too few for test sets without a row in common: some share rows with "
        "each other."
    )


def _markdown_table(columns: _Columns, cells: Sequence[Entry]) -> str:
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    lines += [f"| {' | '.join(show(entry) for show in columns.values())} |" for entry in cells]
    return "\n".join(lines)


def comma_separated(
    shown: Experiment, records: Sequence[Record], recipes: Sequence[str] = RECIPES
) -> str:
    """Write all numbers of all recipes, in full precision."""
    text = io.StringIO()
    # Without this, lines would end as on Windows.
    writer = csv.writer(text, lineterminator="\n")
    names = (
        "setting method recipe trials tests rejections rate error low high "
        "published published_error difference"
    )
    writer.writerow(names.split())
    for recipe in recipes:
        for entry in entries(shown, records, recipe):
            place = (entry.row, entry.method, entry.recipe)
            counts = (len(entry.rates), entry.tests, entry.rejections)
            ours = (entry.rate, entry.error, *entry.limits)
            theirs = entry.published or (None, None)
            writer.writerow([*place, *counts, *ours, *theirs, entry.difference])
    return text.getvalue()


def latex(shown: Experiment, records: Sequence[Record], recipes: Sequence[str] = RECIPES) -> str:
    """Write a table like the paper's for each recipe that has trials.

    Each setting has a row of our numbers and, below it, one of the published numbers.
    """
    parts = []
    for recipe in recipes:
        cells = entries(shown, records, recipe)
        if cells:
            parts.append(_latex_table(shown, recipe, cells))
    return "\n\n".join(parts) + "\n"


def _latex_table(shown: Experiment, recipe: str, cells: Sequence[Entry]) -> str:
    by_place = {(entry.row, entry.method): entry for entry in cells}
    tested = {entry.method for entry in cells}
    methods = [method for method in shown.methods if method in tested]
    lines = [
        f"% {shown.name}, recipe {recipe}; a star is beyond two standard errors of the "
        "published number below it",
        rf"\begin{{tabular}}{{l{'c' * len(methods)}}}",
        r"\hline",
        _latex_row(["", *(name.upper() for name in methods)]),
        r"\hline",
    ]
    for row in dict.fromkeys(entry.row for entry in cells):
        in_row = [by_place.get((row, method)) for method in methods]
        lines.append(_latex_row([_latex_name(row), *map(_latex_ours, in_row)]))
        published = [_latex_published(entry) for entry in in_row]
        if any(published):
            lines.append(_latex_row(["published", *published]))
    return "\n".join([*lines, r"\hline", r"\end{tabular}"])


def _latex_row(texts: Sequence[str]) -> str:
    return " & ".join(texts) + r" \\"


def _latex_name(row: str) -> str:
    # "N=3000" becomes mathematics; a name without a number stays as it is.
    name, _, value = row.partition("=")
    return f"${name} = {value}$" if value else name


def _latex_ours(entry: Entry | None) -> str:
    if entry is None:
        return ""
    star = "^*" if entry.far else ""
    return rf"${entry.rate:.3f} \pm {entry.error:.3f}{star}$"


def _latex_published(entry: Entry | None) -> str:
    if entry is None or entry.published is None:
        return ""
    rate, error = entry.published
    return f"${rate:.3f}$" if error is None else rf"${rate:.3f} \pm {error:.3f}$"


FORMATS: Mapping[str, Callable[[Experiment, Sequence[Record], Sequence[str]], str]] = (
    MappingProxyType({"markdown": markdown, "latex": latex, "csv": comma_separated})
)
"""What writes a table, by the name of its format."""


# Is MMD-D better than the others?

T_TESTS = "t-tests"
"""The name of the table of paired t-tests."""

_T_DATA = {
    "Blob": "blob-power",
    "HDGM": "hdgm-power",
    "Higgs": "higgs-power",
    "MNIST": "mnist-power",
}
# Whether MMD-D is better than each other method, in the order of `METHODS`.
_T_PUBLISHED = {
    "Blob": "yes yes yes no no",
    "HDGM": "yes yes yes yes yes",
    "Higgs": "yes yes yes no no",
    "MNIST": "yes yes yes yes yes",
}


def t_test_rows(records: Iterable[Record], recipe: str = "default") -> list[list[str]]:
    """Return the rows of the table: one for each data set and method.

    A row has the number of pairs, the mean difference, p, whether MMD-D is better, and what the
    paper says. A pair is a trial of MMD-D and the trial of the same number and setting of the other
    method. The paper does not say what was paired; all settings and trials together is the one way
    that can give its row for MNIST.
    """
    rates = {record.key: record.rate for record in records}
    *others, own = METHODS
    rows = []
    for data, experiment_name in _T_DATA.items():
        place = (experiment_name, own, recipe)
        ours = [key for key in rates if (key.experiment, key.method, key.recipe) == place]
        for method, published in zip(others, _T_PUBLISHED[data].split(), strict=True):
            differences = []
            for key in ours:
                other = key._replace(method=method)
                if other in rates:
                    differences.append(rates[key] - rates[other])
            if len(differences) > 1:
                test = _t_test(np.array(differences))
                rows.append([data, method, str(len(differences)), *test, published])
    return rows


def _t_test(differences: NDArray[np.float64]) -> list[str]:
    """Return the mean difference, the one-sided p-value, and whether that is at most 0.05."""
    count = len(differences)
    mean = float(differences.mean())
    spread = float(differences.std(ddof=1))
    if spread == 0:  # all pairs differ alike, mostly not at all
        p = 0.0 if mean > 0 else 1.0
    else:
        p = float(stats.t.sf(mean / spread * math.sqrt(count), count - 1))
    return [f"{mean:+.3f}", f"{p:.3f}", "yes" if p <= ALPHA else "no"]


def _t_tests(records: Iterable[Record], format: str) -> str:
    head = ["data", "against", "pairs", "mean difference", "p", "MMD-D better", "published"]
    rows = t_test_rows(records)
    if format == "csv":
        lines = [",".join(row) for row in [head, *rows]]
    elif format == "latex":
        body = [_latex_row(row) for row in [head, *rows]]
        begin = rf"\begin{{tabular}}{{{'l' * len(head)}}}"
        lines = [begin, *body, r"\end{tabular}"]
    else:
        body = [f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows]]
        lines = ["# t-tests", "", _T_EXPLAINED, "", *body]
    return "\n".join(lines) + "\n"


_T_EXPLAINED = (
    "Is the power of MMD-D higher? Paired t-tests at level 0.05 over all settings and trials of a "
    "data set, default recipe, one-sided. In the paper: Table 5. It does not say what was paired."
)


def needed(name: str) -> list[str]:
    """Return the experiments whose records a table is made of."""
    return list(_T_DATA.values()) if name == T_TESTS else homes(experiment(name))


def table(
    name: str, records: Sequence[Record], format: str = "markdown", recipes: Sequence[str] = RECIPES
) -> str:
    """Write the table of a name, from stored records."""
    if format not in FORMATS:
        raise InputError(f"there is no format {format!r}; use one of {', '.join(FORMATS)}.")
    if name == T_TESTS:
        return _t_tests(records, format)
    return FORMATS[format](experiment(name), records, recipes)
