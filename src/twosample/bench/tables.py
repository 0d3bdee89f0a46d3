"""Tables of stored trials beside the published numbers, in Markdown, LaTeX and CSV.

A power is the mean of the rates of its trials, with their standard error. That is never taken to be
less than half of the exact 68 % binomial interval of all tests together: trials that happen to
agree do not make a rate certain. The published rates have the error that is printed beside them or,
where there is none or 0.000, that of ten trials which vary as ours do, again no less than the
binomial one. Differences are in standard errors, ours and theirs combined; beyond two they are
marked and need a reason. One trial does not tell how trials vary, so it has no difference.

A level comes with the exact 95 % binomial limits of its rejections, and is marked where 0.05 is not
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

_ONE_SIGMA = 0.6827
_PUBLISHED_TRIALS, _PUBLISHED_TESTS = 10, 1000


@dataclass(frozen=True)
class Entry:
    """What a cell of a table holds.

    Attributes
    ----------
    row, method, recipe
        Its place.
    rates
        Of its trials.
    tests, rejections
        Of all trials together.
    rate, error
        Their mean and its standard error.
    limits
        The exact 95 % binomial interval of all tests.
    published, published_error, difference
        The number of the paper, its error, and how many standard errors ours lies above it; None
        without one, and with one trial.
    shared
        Whether test sets had to share rows with each other.
    cpu_seconds
        The median of a trial's training, and all of it together.
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
        """Trials x tests of each."""
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
    """The cells of an experiment that have trials, row by row."""
    by_cell: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        if record.recipe == recipe:
            by_cell.setdefault((record.experiment, record.setting, record.method), []).append(
                record
            )
    found = []
    for row in dict.fromkeys(setting.row for setting in shown.settings):
        for method in shown.methods:
            cells = [
                shown.cell(setting, method) for setting in shown.settings if setting.row == row
            ]
            trials = [record for cell in cells for record in by_cell.get(_place(cell), [])]
            if trials:
                found.append(_entry(row, method, recipe, trials, shown.expected(row, method)))
    return found


def homes(shown: Experiment) -> list[str]:
    """The experiments whose records fill a table."""
    return list(dict.fromkeys(cell.experiment for cell in shown.cells()))


def _place(cell: Cell) -> tuple[str, str, str]:
    return cell.experiment, cell.setting.name, cell.method


def _entry(
    row: str, method: str, recipe: str, trials: Sequence[Record], published: Published | None
) -> Entry:
    rates = tuple(record.rate for record in trials)
    tests, rejections = (
        sum(record.tests for record in trials),
        sum(record.rejections for record in trials),
    )
    rate, error = float(np.mean(rates)), standard_error(rates, rejections, tests)
    published_error = difference = None
    if published is not None:
        published_error = published.error or _error_of_ten(published.rate, rates)
        if len(rates) > 1:
            difference = (rate - published.rate) / math.hypot(error, published_error)
    fits = [record.fit_cpu_seconds for record in trials]
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
        shared=any(record.sizes.get("distinct", record.tests) < record.tests for record in trials),
        cpu_seconds=(float(np.median(fits)), sum(record.cpu_seconds for record in trials)),
    )


def binomial_limits(count: int, total: int, confidence: float) -> tuple[float, float]:
    """The exact interval of Clopper and Pearson for the chance that `count` of `total` came from.

    >>> [round(limit, 4) for limit in binomial_limits(0, 100, 0.95)]
    [0.0, 0.0362]
    """
    tail = (1 - confidence) / 2
    low = float(stats.beta.ppf(tail, count, total - count + 1)) if count else 0.0
    high = float(stats.beta.isf(tail, count + 1, total - count)) if count < total else 1.0
    return low, high


def binomial_error(count: int, total: int) -> float:
    """Half of the exact 68 % interval, or all of it where it lies on one side."""
    low, high = binomial_limits(count, total, _ONE_SIGMA)
    return (high - low) / (1 if count in (0, total) else 2)


def standard_error(rates: Sequence[float], rejections: int, tests: int) -> float:
    """That of the mean of the rates, at least the binomial one of all tests."""
    return max(_spread(rates) / math.sqrt(len(rates)), binomial_error(rejections, tests))


def _error_of_ten(rate: float, rates: Sequence[float]) -> float:
    """The standard error of a published rate that comes without one, if its ten trials vary as `rates` do."""
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
    """The reason for a difference, in which {paper} is what that recipe gave in its place, {paper ROW} elsewhere."""

    def found(match: re.Match[str]) -> str:
        other = others.get((match[2] or entry.row, entry.method, match[1]))
        return (
            "not run" if other is None else f"{other.rate:.3f} ± {other.error:.3f} ({other.count})"
        )

    text = reason(shown.name, entry.row, entry.method, entry.recipe) if entry.far else ""
    return re.sub(rf"{{({'|'.join(RECIPES)})(?: ([^}}]+))?}}", found, text)


def _columns(shown: Experiment, cells: Sequence[Entry]) -> _Columns:
    others = {(entry.row, entry.method, entry.recipe): entry for entry in cells}
    first = {
        "setting": lambda e: e.row,
        "test": lambda e: e.method,
        "trials x tests": lambda e: e.count,
    }
    last = {"CPU s to fit": lambda e: f"{e.cpu_seconds[0]:.1f}"}
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
    published = any(shown.published.values())
    hidden = () if published else ("published", "difference", "far", "why")
    return {name: show for name, show in {**first, **middle, **last}.items() if name not in hidden}


# Formats


def markdown(shown: Experiment, records: Sequence[Record], recipes: Sequence[str] = RECIPES) -> str:
    """A page: what it is, and a table for each recipe that has trials."""
    found = {recipe: entries(shown, records, recipe) for recipe in recipes}
    columns = _columns(
        shown, [entry for recipe in RECIPES for entry in entries(shown, records, recipe)]
    )
    parts = [
        f"# {shown.name}",
        f"{shown.title}." + (f" In the paper: {shown.source}." if shown.source else ""),
    ]
    parts += [note for note in (shown.note, _explained(shown), _shared(found)) if note]
    for recipe, cells in found.items():
        if cells:
            parts += [f"## Recipe {recipe}", _markdown_table(columns, cells)]
    if len(parts) == 2 + bool(shown.note) + 1:
        parts.append("No trials yet.")
    return "\n\n".join(parts) + "\n"


def _explained(shown: Experiment) -> str:
    if shown.kind == "level":
        return (
            "Rejections among all tests at level 0.05 where nothing is to be found, with exact "
            "binomial limits; "
            '"!" where 0.05 is outside, which happens to one cell in twenty.'
        )
    if not any(shown.published.values()):
        return "The paper has no numbers to compare with."
    return (
        "Power at level 0.05: the mean over trials, its standard error (never below the exact "
        "binomial one of all "
        "tests), the published number, the difference in standard errors of both (a published "
        "number without one, or "
        "with 0.000, is given that of ten trials that vary as ours do, at least the binomial one "
        "of 1000 tests), "
        '"!" beyond two. One trial alone is not compared.'
    )


def _shared(found: Mapping[str, Sequence[Entry]]) -> str:
    if not any(entry.shared for cells in found.values() for entry in cells):
        return ""
    return "The rows on hand are too few for test sets without a row in common: some share rows with each other."


def _markdown_table(columns: _Columns, cells: Sequence[Entry]) -> str:
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    lines += [f"| {' | '.join(show(entry) for show in columns.values())} |" for entry in cells]
    return "\n".join(lines)


def comma_separated(
    shown: Experiment, records: Sequence[Record], recipes: Sequence[str] = RECIPES
) -> str:
    """All numbers of all recipes, in full precision."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = "setting method recipe trials tests rejections rate error low high published published_error difference"
    writer.writerow(names.split())
    for recipe in recipes:
        for e in entries(shown, records, recipe):
            theirs = (e.published.rate, e.published.error) if e.published else (None, None)
            numbers = (
                len(e.rates),
                e.tests,
                e.rejections,
                e.rate,
                e.error,
                *e.limits,
                *theirs,
                e.difference,
            )
            writer.writerow([e.row, e.method, e.recipe, *numbers])
    return text.getvalue()


def latex(shown: Experiment, records: Sequence[Record], recipes: Sequence[str] = RECIPES) -> str:
    """A table like the paper's for each recipe: a row for each setting, ours above the published number."""
    parts = []
    for recipe in recipes:
        cells = {(e.row, e.method): e for e in entries(shown, records, recipe)}
        if not cells:
            continue
        methods = [method for method in shown.methods if any(m == method for _, m in cells)]
        lines = [
            f"% {shown.name}, recipe {recipe}; a star is beyond two standard errors of the "
            "published number below it",
            rf"\begin{{tabular}}{{l{'c' * len(methods)}}}",
            r"\hline",
            " & ".join(["", *(name.upper() for name in methods)]) + r" \\",
            r"\hline",
        ]
        for row in dict.fromkeys(row for row, _ in cells):
            found = [cells.get((row, method)) for method in methods]
            lines.append(" & ".join([_latex_name(row), *(_latex_ours(e) for e in found)]) + r" \\")
            if any(e is not None and e.published for e in found):
                lines.append(
                    " & ".join(["published", *(_latex_published(e) for e in found)]) + r" \\"
                )
        parts.append("\n".join([*lines, r"\hline", r"\end{tabular}"]))
    return "\n\n".join(parts) + "\n"


def _latex_name(row: str) -> str:
    name, _, value = row.partition("=")
    return f"${name} = {value}$" if value else name


def _latex_ours(entry: Entry | None) -> str:
    return (
        ""
        if entry is None
        else rf"${entry.rate:.3f} \pm {entry.error:.3f}{'^*' if entry.far else ''}$"
    )


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
_T_PUBLISHED = {"Blob": "yes yes yes no no", "HDGM": "yes yes yes yes yes"} | {
    "Higgs": "yes yes yes no no",
    "MNIST": "yes yes yes yes yes",
}


def t_test_rows(records: Iterable[Record], recipe: str = "default") -> list[list[str]]:
    """For each data set and method: pairs, the mean difference, p, whether MMD-D is better, and what the paper says.

    A pair is a trial of MMD-D and that of the same number in the same setting of the other method.
    What was paired in the paper it does not say; all settings and trials together is the one way
    that can give its row for MNIST.
    """
    rates = {record.key: record.rate for record in records}
    rows = []
    for data, name in _T_DATA.items():
        others = METHODS[:-1]
        for method, published in zip(others, _T_PUBLISHED[data].split(), strict=True):
            ours = [
                key
                for key in rates
                if key[0] == name and key.method == "mmd-d" and key.recipe == recipe
            ]
            pairs = [
                (rates[key], rates[other])
                for key in ours
                if (other := key._replace(method=method)) in rates
            ]
            if len(pairs) > 1:
                better, worse = zip(*pairs, strict=True)
                rows.append(
                    [
                        data,
                        method,
                        str(len(pairs)),
                        *_t_test(np.array(better) - np.array(worse)),
                        published,
                    ]
                )
    return rows


def _t_test(differences: NDArray[np.float64]) -> list[str]:
    """The mean difference, the p-value of its not being positive, and whether that is at most 0.05."""
    mean, spread = float(differences.mean()), float(differences.std(ddof=1))
    if spread == 0:  # all pairs differ alike, mostly not at all
        p = 0.0 if mean > 0 else 1.0
    else:
        p = float(stats.t.sf(mean / spread * math.sqrt(len(differences)), len(differences) - 1))
    return [f"{mean:+.3f}", f"{p:.3f}", "yes" if p <= ALPHA else "no"]


def _t_tests(records: Iterable[Record], format: str) -> str:
    head = ["data", "against", "pairs", "mean difference", "p", "MMD-D better", "published"]
    rows = t_test_rows(records)
    if format == "csv":
        return "\n".join(",".join(row) for row in [head, *rows]) + "\n"
    if format == "latex":
        body = " \\\\\n".join(" & ".join(row) for row in [head, *rows])
        return f"\\begin{{tabular}}{{{'l' * len(head)}}}\n{body} \\\\\n\\end{{tabular}}\n"
    lines = [f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(["# t-tests", "", _T_EXPLAINED, "", *lines]) + "\n"


_T_EXPLAINED = (
    "Is the power of MMD-D higher? Paired t-tests at level 0.05 over all settings and trials of a "
    "data set, default "
    "recipe, one-sided. In the paper: Table 5. It does not say what was paired."
)


def needed(name: str) -> list[str]:
    """The experiments whose records a table is made of."""
    return list(_T_DATA.values()) if name == T_TESTS else homes(experiment(name))


def table(
    name: str, records: Sequence[Record], format: str = "markdown", recipes: Sequence[str] = RECIPES
) -> str:
    """A table of the stored records."""
    if format not in FORMATS:
        raise InputError(f"there is no format {format!r}; use one of {', '.join(FORMATS)}.")
    return (
        _t_tests(records, format)
        if name == T_TESTS
        else FORMATS[format](experiment(name), records, recipes)
    )
