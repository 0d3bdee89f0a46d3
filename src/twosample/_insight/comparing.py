"""One reference against many samples, with p-values that are corrected for their number.

Each sample gets the test that `two_sample_test` would give it, and a seed of its own that only its
name decides: what comes out for one sample does not depend on the others. Only the correction does.
"""

from __future__ import annotations

import functools
import html
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import scipy  # which imports its parts, such as scipy.stats, when they are used
import torch

from .._api import resolve, two_sample_test
from .._calibration import PairSwap, Permutation
from .._data.columns import Columns
from .._data.samples import as_samples, split_rows
from .._data.streams import Stream, known_rows
from .._methods import choose
from .._progress import bar
from .._random import Generators, RNGLike
from .._result import ALPHA, TwoSampleResult, format_pvalue
from .._two_sample import TwoSampleTest, _check_sizes
from ..errors import InputError, InputWarning, TwoSampleError
from .explain import aligned, benjamini_hochberg, holm, html_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CorrectionForMany: TypeAlias = Literal["holm", "bh", "by", "none"]


def benjamini_yekutieli(pvalues: Sequence[float]) -> list[float]:
    """Benjamini and Yekutieli's adjusted p-values: the expected share of false findings, under any dependence."""
    return (
        [float(p) for p in scipy.stats.false_discovery_control(pvalues, method="by")]
        if len(pvalues)
        else []
    )


CORRECTIONS: dict[CorrectionForMany, tuple[str, Callable[[Sequence[float]], list[float]]]] = {
    "holm": ("adjusted by Holm", holm),
    "bh": ("adjusted by Benjamini-Hochberg", benjamini_hochberg),
    "by": ("adjusted by Benjamini-Yekutieli", benjamini_yekutieli),
    "none": ("not adjusted", list),
}
"""What each is called, and the adjusted p-values."""

_SPARE = (
    2  # times as many shuffles as it takes for one sample to be found at all: chance decides less
)
_MOST = 20_000  # shuffles that nobody asked for: they take memory


@dataclass(frozen=True, eq=False)
class Comparison(Mapping[str, TwoSampleResult]):
    """One reference against many samples: a mapping from the name of a sample to its result.

    Attributes
    ----------
    results
        Name -> what the test of the reference (X) against this sample (Y) gave, in the order of the
        samples.
    correction
        How p-values are adjusted for the number of samples: "holm" (the chance that any equal
        sample is said to differ is at most alpha, however the tests depend on each other), "bh"
        (the expected share of equal samples among those said to differ, if the tests depend
        positively), "by" (the same share, under any dependence), or "none".
    alpha
        The level of the verdicts.
    seeds
        Name -> the `rng` with which `two_sample_test` gives the same result.
    names
        Of all samples that were to be compared.
    failures
        Name -> why there is no result, in a sentence, for samples whose test failed.
    """

    results: Mapping[str, TwoSampleResult] = field(repr=False)
    correction: CorrectionForMany
    alpha: float
    seeds: Mapping[str, int] = field(repr=False)
    names: tuple[str, ...]
    failures: Mapping[str, str] = field(repr=False, default_factory=dict)

    def __getitem__(self, name: str) -> TwoSampleResult:
        return self.results[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Names of the samples that were not reached before an interrupt."""
        return tuple(
            name for name in self.names if name not in self.results and name not in self.failures
        )

    @property
    def pvalues(self) -> dict[str, float]:
        """Name -> the p-value of its test."""
        return {name: result.pvalue for name, result in self.results.items()}

    @functools.cached_property
    def adjusted(self) -> dict[str, float]:
        """Name -> the p-value after the correction.

        The number of samples is that of all that were to be compared: one without a result counts
        as p = 1, so that a comparison cut short promises no more than a whole one.
        """
        _, adjust = CORRECTIONS[self.correction]
        missing = [1.0] * (len(self.names) - len(self.results))
        return dict(zip(self.results, adjust([*self.pvalues.values(), *missing]), strict=False))

    def rejected(self, alpha: float | None = None) -> list[str]:
        """Names of the samples that differ from the reference: adjusted p at most `alpha`, by default that of here."""
        level = _check_level(self.alpha if alpha is None else alpha)
        return [name for name, p in self.adjusted.items() if p <= level]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know, in sentences."""
        notes = [f"{name} has no result: {why}" for name, why in self.failures.items()]
        if self.unfinished:
            notes.append(
                f"Interrupted before {', '.join(self.unfinished)}; those count as p = 1 in the "
                "correction."
            )
        for name, result in self.results.items():
            if any(result.dropped):
                notes.append(
                    "{}: left out for missing values: {} + {} rows.".format(name, *result.dropped)
                )
        out_of_reach = [name for name, result in self.results.items() if not self._in_reach(result)]
        if out_of_reach:
            which = (
                "No sample"
                if len(out_of_reach) == len(self.results)
                else f"None of {', '.join(out_of_reach)}"
            )
            notes.append(
                f"{which} can be found to differ by itself at alpha = {self.alpha:g}: there are "
                "too few shuffles for "
                f"{len(self.names)} samples. Use more permutations or larger samples."
            )
        return tuple(notes)

    def _in_reach(self, result: TwoSampleResult) -> bool:
        """Whether the smallest p-value that this test can give is small enough after the correction."""
        shuffles = len(result.null_distribution)  # none where a law takes their place
        return (
            not shuffles
            or growth(self.correction, len(self.names)) / (shuffles + 1) <= self.alpha + 1e-12
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists, ready for JSON; without null distributions, fitted tests and data."""
        rejected = set(self.rejected())
        return {
            "correction": self.correction,
            "alpha": self.alpha,
            "rejected": [name for name in self.results if name in rejected],
            "samples": [
                {
                    "name": name,
                    "adjusted": self.adjusted[name],
                    "reject": name in rejected,
                    "seed": self.seeds[name],
                    **result.to_dict(),
                }
                for name, result in self.results.items()
            ],
            "failures": dict(self.failures),
            "unfinished": list(self.unfinished),
            "notes": list(self.notes),
        }

    def report(
        self,
        path: str | Path,
        *,
        reference: str = "the reference",
        facts: Mapping[str, object] | None = None,
        rng: RNGLike | None = None,
    ) -> Path:
        """Write all that there is to see into one HTML file, and return its path; `reference` is what X is called."""
        from .._show.comparison import write_comparison_report

        return write_comparison_report(self, path, reference=reference, facts=facts, rng=rng)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw how far each sample is from the reference; see `twosample.plots` for figures of one of them."""
        from ..plots import comparison_effects

        return comparison_effects(self, ax)

    @property
    def verdict(self) -> str:
        """Which samples differ, in a sentence."""
        return verdict(len(self.rejected()), len(self.results)) + "."

    def cells(self) -> list[list[str]]:
        """A table of all samples as texts, its head first."""
        title, values = effects(self)
        rejected = set(self.rejected())
        head = ["sample", "rows", "p", "adjusted", "verdict", title]
        return [head] + [
            [
                name,
                f"{result.sizes[1] + (0 if result.train_sizes is None else result.train_sizes[1])}",
                format_pvalue(result.pvalue),
                format_pvalue(self.adjusted[name]),
                "differs" if name in rejected else "no difference found",
                f"{values[name]:.3g}",
            ]
            for name, result in self.results.items()
        ]

    def __str__(self) -> str:
        notes = [f"- {note}" for note in self.notes]
        return "\n".join([f"{self.verdict} {self._how}", *aligned(self.cells()), *notes])

    def _repr_html_(self) -> str:
        title = f"<strong>{html.escape(self.verdict)}</strong> {html.escape(self._how)}"
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        return f"<div><p>{title}</p>{html_table(self.cells())}{f'<ul>{notes}</ul>' if notes else ''}</div>"

    @property
    def _how(self) -> str:
        methods = dict.fromkeys(result.method for result in self.results.values())
        return f"({', '.join(methods)}; p-values {CORRECTIONS[self.correction][0]}; alpha = {self.alpha:g})"


class ComparisonInterrupted(KeyboardInterrupt):
    """An interrupt during `compare`; `comparison` holds the samples that were done by then."""

    def __init__(self, comparison: Comparison) -> None:
        done, count = len(comparison), len(comparison.names)
        super().__init__(
            f"interrupted after {done} of {count} samples; `.comparison` of this exception holds "
            "them."
        )
        self.comparison = comparison


def compare(
    reference: Any,
    samples: Mapping[str, Any],
    method: str | TwoSampleTest = "mmd-d",
    *,
    correction: CorrectionForMany = "holm",
    alpha: float = ALPHA,
    permutations: int | None = None,
    train_fraction: float | None = None,
    rng: RNGLike | None = None,
    device: str = "auto",
    progress: bool | None = None,
    client: Any = None,
    columns: Columns | None = None,
) -> Comparison:
    """Test which of many samples come from another distribution than one reference.

    Parameters
    ----------
    reference
        As X of `two_sample_test`; not an iterator, since it is read once for each sample.
    samples
        Name -> sample, each as Y of `two_sample_test`. Sizes may differ, and each pair learns its
        own categories. Each is asked for twice, to be checked and to be tested, so a mapping may
        read samples that do not fit in memory together.
    method, train_fraction, device, client, columns
        As in `two_sample_test`, for each sample.
    correction
        For the number of samples: "holm" (any false finding, whatever the dependence), "bh"
        (Benjamini-Hochberg: the expected share of false findings, under positive dependence), "by"
        (Benjamini-Yekutieli: the same, whatever the dependence), "none".
    alpha
        The level of the verdicts.
    permutations
        None means the method's own (999), or more where that many samples take more: a p-value of B
        permutations is at least 1 / (B + 1), and the correction multiplies the smallest of k by k.
    rng
        A seed or a generator (SPEC 7). Each sample has a seed of its own, decided by this one and
        its name.
    progress
        Show a bar over the samples; None means on a terminal only.

    Returns
    -------
    Comparison

    Raises
    ------
    InputError
        Before anything is trained, if a sample cannot be tested (streams are seen only as they are
        tested).
    ComparisonInterrupted
        On Ctrl-C, with the samples that were done.

    Warns
    -----
    InputWarning
        If the test of a sample fails: the others are done, and `failures` has the reason. Also if
        `permutations` are so few that no sample by itself can be found to differ.

    Notes
    -----
    The tests share the reference, so they depend on each other; Holm's correction holds all the
    same.

    Examples
    --------
    >>> import numpy as np, twosample
    >>> rng = np.random.default_rng(0)
    >>> reference, *days = (rng.normal(shift, 1, (200, 2)) for shift in (0, 0, 1))
    >>> found = twosample.compare(reference, {"monday": days[0], "tuesday": days[1]}, "mmd-median", rng=0)
    >>> found.rejected()
    ['tuesday']
    """
    _check_asked(reference, samples, correction, alpha)
    planned = functools.partial(
        _test_for, method, reference, permutations=permutations, train_fraction=train_fraction
    )
    for name in samples:
        _check_sample(name, reference, sample := samples[name], planned(sample), columns)
    enough = _permutations(
        planned(sample), permutations is not None, correction, len(samples), alpha
    )
    seeds = _seeds(samples, rng)
    test = functools.partial(
        two_sample_test,
        reference,
        method=method,
        permutations=enough,
        train_fraction=train_fraction,
        device=device,
        progress=False,  # the bar is that of the samples
        client=client,
        columns=columns,
    )
    results: dict[str, TwoSampleResult] = {}
    failures: dict[str, str] = {}
    comparison = functools.partial(
        Comparison, results, correction, alpha, seeds, tuple(samples), failures
    )
    with bar("comparing", len(samples), progress) as tick:
        for name in samples:
            try:
                with _named_warnings(name):
                    results[name] = test(samples[name], rng=seeds[name])
            except KeyboardInterrupt:
                raise ComparisonInterrupted(comparison()) from None
            except TwoSampleError as error:
                failures[name] = str(error)
                if len(failures) == len(samples):
                    raise
                warnings.warn(
                    f"{_about(name, error)} It has no result.", InputWarning, stacklevel=2
                )
            tick(name)
    return comparison()


def verdict(found: int, count: int, reference: str = "the reference") -> str:
    """In a sentence without its full stop: `found` of `count` samples differ."""
    if not count:
        return "No sample has been compared"
    if count == 1:
        return (
            f"The sample differs from {reference}"
            if found
            else f"The sample is not found to differ from {reference}"
        )
    if not found:
        return f"None of {count} samples is found to differ from {reference}"
    return f"{found} of {count} samples {'differs' if found == 1 else 'differ'} from {reference}"


def effects(comparison: Comparison) -> tuple[str, dict[str, float]]:
    """Name -> how far each sample is from the reference, and what that number is: the MMD where all tests have one."""
    found = {name: result.effect.mmd for name, result in comparison.items()}
    if any(value is None for value in found.values()):
        return "statistic", {name: result.statistic for name, result in comparison.items()}
    return "MMD", {name: value for name, value in found.items() if value is not None}


def growth(correction: CorrectionForMany, count: int) -> float:
    """What a correction multiplies the p-value by of the only sample of `count` that differs."""
    _, adjust = CORRECTIONS[correction]
    small = 1e-9
    return adjust([small, *[1.0] * (count - 1)])[0] / small


# What is checked before anything is trained.


def _check_asked(reference: Any, samples: object, correction: object, alpha: float) -> None:
    if not isinstance(samples, Mapping):
        raise InputError(
            f"samples is a {type(samples).__name__}; give a mapping of names to samples, "
            f"{{'a': A, ...}}."
        )
    if not samples:
        raise InputError("there are no samples to compare with the reference; give at least one.")
    if not all(isinstance(name, str) for name in samples):
        name = next(name for name in samples if not isinstance(name, str))
        raise InputError(
            f"the name {name!r} of a sample is a {type(name).__name__}; names are strings."
        )
    if isinstance(reference, Iterator):
        raise InputError(
            "the reference is an iterator, which can be read only once, but it is read for each "
            "sample; "
            "give Stream.batches(function) with a function that makes a new iterator."
        )
    if correction not in get_args(CorrectionForMany):
        raise InputError(
            f"correction is {correction!r}; use one of {', '.join(get_args(CorrectionForMany))}."
        )
    _check_level(alpha)


def _check_level(alpha: float) -> float:
    if not 0 < alpha < 1:
        raise InputError(f"alpha is {alpha}; it must lie strictly between 0 and 1.")
    return alpha


def _test_for(
    method: str | TwoSampleTest,
    reference: Any,
    sample: Any,
    *,
    permutations: int | None,
    train_fraction: float | None,
) -> TwoSampleTest:
    """The test that a sample will get."""
    if method == "auto":
        method, _ = choose(
            known_rows(reference), known_rows(sample), trained=train_fraction is not None
        )
    return resolve(method, permutations=permutations, train_fraction=train_fraction)


def _check_sample(
    name: str, reference: Any, sample: Any, test: TwoSampleTest, columns: Columns | None
) -> None:
    """Raise `InputError` if this sample cannot be tested against the reference; streams are not looked at."""
    if any(isinstance(data, Stream | Iterator | np.memmap) for data in (reference, sample)):
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they come with the test
            sizes = as_samples(reference, sample, columns=columns).sizes
        if test.learning is not None:
            split_rows(sizes, test.learning.train_fraction, torch.Generator())
        else:
            _check_sizes(*sizes)
    except InputError as error:
        raise InputError(_about(name, error)) from error


def _permutations(
    test: TwoSampleTest, asked: bool, correction: CorrectionForMany, count: int, alpha: float
) -> int | None:
    """Those of the test, or more if so many samples take more and nobody asked; None where it has no use for them."""
    if not isinstance(test.calibration, Permutation | PairSwap):
        return None
    needed = min(
        growth(correction, count) / alpha, 2.0 * _MOST
    )  # an alpha of 5e-324 would need infinitely many
    own, least = test.calibration.permutations, math.ceil(needed - 1e-6) - 1
    if own >= least:
        return own
    if not asked and least <= _MOST:
        return min(_SPARE * (least + 1) - 1, _MOST)
    smallest = min(1.0, growth(correction, count) / (own + 1))
    more = f"use {least} permutations or more" if least <= _MOST else "choose a larger one"
    warnings.warn(
        f"with {own} permutations no p-value is below {1 / (own + 1):.2g}, and after the "
        "correction for "
        f"{count} samples that of a single one is not below {smallest:.2g}, but alpha is "
        f"{alpha:g}; {more}.",
        InputWarning,
        stacklevel=3,
    )
    return own


def _seeds(names: Mapping[str, Any], rng: RNGLike | None) -> dict[str, int]:
    generators = Generators(rng)
    return {name: int(generators.numpy(f"sample {name}").integers(2**32)) for name in names}


# Words.


def _about(name: str, message: object) -> str:
    """A message that says which sample it is about, and what X and Y are if it speaks of them."""
    text = str(message)
    if re.search(r"\b[XY]\b", text):
        return f"{name}: {text} (X is the reference, Y is {name}.)"
    # Of samples from files it may name the file itself; a name that is a word may stand in any
    # sentence.
    return text if name in text and not name.isalnum() else f"{name}: {text}"


@contextmanager
def _named_warnings(name: str) -> Iterator[None]:
    """Warnings on the way say which sample they are about."""
    with warnings.catch_warnings(record=True) as caught:
        yield
    for warning in caught:
        warnings.warn(_about(name, warning.message), warning.category, stacklevel=4)
