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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch

from .._api import resolve, two_sample_test
from .._calibration import PairSwap, Permutation
from .._checks import check_alpha
from .._data.columns import Columns
from .._data.samples import split_rows
from .._data.streams import Stream, held
from .._data.survey import every_row, rules_of, survey, without_columns
from .._design import Blocks, Key, design_from
from .._progress import bar
from .._random import Generators, RNGLike, takes_rng
from .._result import ALPHA, TwoSampleResult, format_pvalue
from .._two_sample import TwoSampleTest, _check_sizes
from ..errors import InputError, TwoSampleError, warn
from .corrections import CORRECTIONS, Correction, check_correction, growth
from .text_tables import aligned, html_list, html_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Twice as many shuffles as it takes for one sample to be found at all, so that chance decides less.
_SPARE = 2
_MOST = 20_000  # shuffles that nobody asked for: they take memory


@dataclass(frozen=True, eq=False)
class Comparison(Mapping[str, TwoSampleResult]):
    """One reference against many samples: a mapping from the name of a sample to its result.

    Attributes
    ----------
    results
        Name -> the result of testing the reference (X) against this sample (Y), in the order of the
        samples.
    correction
        How p-values are adjusted for the number of samples. "holm" bounds the chance that any equal
        sample is said to differ by alpha, however the tests depend on each other. "bh" bounds the
        expected share of equal samples among those said to differ, if the tests depend positively;
        "by" bounds the same share under any dependence. "none" leaves p-values as they are.
    alpha
        The level of the verdicts.
    seeds
        Name -> the `rng` with which `two_sample_test` gives the same result.
    names
        The names of all samples that were to be compared.
    failures
        Name -> why there is no result, in a sentence, for each sample whose test failed.
    seed
        The `rng` with which `compare` gives the same again: the one that was given, or the one that
        was drawn for a run without any. None where the caller passed a generator.
    """

    results: Mapping[str, TwoSampleResult] = field(repr=False)
    correction: Correction
    alpha: float
    seeds: Mapping[str, int] = field(repr=False)
    names: tuple[str, ...]
    failures: Mapping[str, str] = field(repr=False, default_factory=dict)
    seed: int | None = None

    def __getitem__(self, name: str) -> TwoSampleResult:
        return self.results[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Names of the samples that were not reached before an interrupt."""
        reached = {*self.results, *self.failures}
        return tuple(name for name in self.names if name not in reached)

    @property
    def pvalues(self) -> dict[str, float]:
        """Name -> the p-value of its test."""
        return {name: result.pvalue for name, result in self.results.items()}

    @functools.cached_property
    def adjusted(self) -> dict[str, float]:
        """Name -> the p-value after the correction.

        The correction counts all samples that were to be compared. A sample without a result counts
        as p = 1, so that a comparison cut short promises no more than a whole one.
        """
        without_result = len(self.names) - len(self.results)
        missing = [1.0] * without_result
        pvalues = [*self.pvalues.values(), *missing]
        adjusted = CORRECTIONS[self.correction].adjust(pvalues)
        # Those of the missing ones stand at the end, and `zip` leaves them out.
        return dict(zip(self.results, adjusted, strict=False))

    def reject(self, alpha: float | None = None) -> list[str]:
        """Names of the samples for which equality is rejected: adjusted p-value at most `alpha`.

        None means the level of this comparison.
        """
        level = self.alpha if alpha is None else alpha
        check_alpha(level)
        return [name for name, p in self.adjusted.items() if p <= level]

    @functools.cached_property
    def verdicts(self) -> dict[str, str]:
        """Name -> "differ" or "no difference found"; with a tolerance also the other verdicts.

        "differ" takes an adjusted p-value of at most alpha, and with a tolerance a difference that
        is larger. "equivalent" is said of each sample with an error of at most alpha.
        """
        rejected = self.reject()
        verdicts = {}
        for name, result in self.results.items():
            if result.tolerance is None:
                verdicts[name] = "differ" if name in rejected else "no difference found"
                continue
            verdicts[name] = result.decide(self.alpha).verdict
            if verdicts[name] == "differ" and name not in rejected:
                verdicts[name] = "undecided"
        return verdicts

    def rejected(self, alpha: float | None = None) -> list[str]:
        """Do as `reject` does. This older name goes away in the next version."""
        warn("Comparison.rejected is now Comparison.reject; use that.", DeprecationWarning)
        return self.reject(alpha)

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
                of_x, of_y = result.dropped
                notes.append(f"{name}: left out for missing values: {of_x} + {of_y} rows.")
        out_of_reach = []
        for name, result in self.results.items():
            if not self._in_reach(result):
                out_of_reach.append(name)
        if out_of_reach:
            which = f"None of {', '.join(out_of_reach)}"
            if len(out_of_reach) == len(self.results):
                which = "No sample"
            notes.append(
                f"{which} can be found to differ by itself at alpha = {self.alpha:g}: there are "
                f"too few shuffles for {len(self.names)} samples. Use more permutations or larger "
                "samples."
            )
        return tuple(notes)

    def _in_reach(self, result: TwoSampleResult) -> bool:
        """Whether this test can give a p-value that is small enough after the correction."""
        shuffles = len(result.null_distribution)
        if not shuffles:
            return True  # a law takes their place, and its p-values have no least one
        factor = growth(self.correction, len(self.names))
        smallest = factor / (shuffles + 1)
        return smallest <= self.alpha + 1e-12

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists, ready for JSON.

        Null distributions, fitted tests and data are left out.
        """
        rejected = self.reject()
        samples = []
        for name, result in self.results.items():
            sample = {
                "name": name,
                "adjusted": self.adjusted[name],
                "reject": name in rejected,
                "verdict": self.verdicts[name],
                "seed": self.seeds[name],
            }
            # Twice: what is about the comparison stands first, and counts.
            samples.append(sample | result.to_dict() | sample)
        return {
            "correction": self.correction,
            "alpha": self.alpha,
            "seed": self.seed,
            "rejected": rejected,
            "samples": samples,
            "failures": dict(self.failures),
            "unfinished": list(self.unfinished),
            "notes": list(self.notes),
        }

    @takes_rng
    def report(
        self,
        path: str | Path,
        *,
        reference: str = "the reference",
        facts: Mapping[str, object] | None = None,
        rng: RNGLike | None = None,
    ) -> Path:
        """Write all that there is to see into one HTML file, and return its path.

        `reference` is what the page calls X.
        """
        from .._show.comparison import write_comparison_report

        return write_comparison_report(self, path, reference=reference, facts=facts, rng=rng)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw how far each sample is from the reference.

        `twosample.plots` has figures of a single result.
        """
        from ..plots import comparison_effects

        return comparison_effects(self, ax)

    @property
    def verdict(self) -> str:
        """How many samples differ, in a sentence."""
        return self.sentence() + "."

    @property
    def differing(self) -> list[str]:
        """Names of the samples that differ; with a tolerance, by more than it."""
        return [name for name, verdict in self.verdicts.items() if verdict == "differ"]

    def sentence(self, alpha: float | None = None, reference: str = "the reference") -> str:
        """How many samples differ at a level, without a full stop.

        A tolerance was asked about at the level of the comparison, whatever the level is here.
        """
        if not self.has_tolerance:
            return verdict(len(self.reject(alpha)), len(self.results), reference)
        told = verdict(len(self.differing), len(self.results), reference)
        verdicts = list(self.verdicts.values())
        counts = [(verdicts.count(word), word) for word in ("equivalent", "undecided")]
        others = ", ".join(f"{count} {word}" for count, word in counts if count)
        return f"{told} by more than the tolerance" + (f" ({others})" if others else "")

    @property
    def has_tolerance(self) -> bool:
        """Whether the samples were tested with a tolerance."""
        return any(result.tolerance is not None for result in self.results.values())

    def cells(self) -> list[list[str]]:
        """A table of all samples as texts, its head first."""
        title, values = effects(self)
        verdicts = self.verdicts
        lines = [["sample", "rows", "p", "adjusted", "verdict", title]]
        for name, result in self.results.items():
            rows = result.sizes[1]
            if result.train_sizes is not None:
                rows += result.train_sizes[1]
            line = [
                name,
                str(rows),
                format_pvalue(result.pvalue),
                format_pvalue(self.adjusted[name]),
                "differs" if verdicts[name] == "differ" else verdicts[name],
                f"{values[name]:.3g}",
            ]
            lines.append(line)
        return lines

    def __str__(self) -> str:
        title = f"{self.verdict} {self._how}"
        table = aligned(self.cells())
        notes = [f"- {note}" for note in self.notes]
        return "\n".join([title, *table, *notes])

    def _repr_html_(self) -> str:
        bold = html.escape(self.verdict)
        how = html.escape(self._how)
        table = html_table(self.cells())
        notes = html_list(self.notes)
        return f"<div><p><strong>{bold}</strong> {how}</p>{table}{notes}</div>"

    @property
    def _how(self) -> str:
        """By which methods, with which correction and at which level the verdict was reached."""
        methods = dict.fromkeys(result.method for result in self.results.values())
        adjusted = CORRECTIONS[self.correction].name
        return f"({', '.join(methods)}; p-values {adjusted}; alpha = {self.alpha:g})"


class ComparisonInterrupted(KeyboardInterrupt):
    """An interrupt during `compare`; `comparison` holds the samples that were done by then."""

    def __init__(self, comparison: Comparison) -> None:
        super().__init__(
            f"interrupted after {len(comparison)} of {len(comparison.names)} samples; "
            "`.comparison` of this exception holds them."
        )
        self.comparison = comparison


@takes_rng
def compare(
    reference: Any,
    samples: Mapping[str, Any],
    method: str | TwoSampleTest = "auto",
    *,
    correction: Correction = "holm",
    alpha: float = ALPHA,
    permutations: int | None = None,
    train_fraction: float | None = None,
    rng: RNGLike | None = None,
    device: str = "auto",
    progress: bool | None = None,
    client: Any = None,
    columns: Columns | None = None,
    groups: Key | None = None,
    blocks: int | str | Blocks | None = None,
    strata: Key | None = None,
    pairs: Key | None = None,
    weights: Key | None = None,
    tolerance: Mapping[str, float] | None = None,
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
    method, train_fraction, device, client, columns, tolerance
        As in `two_sample_test`, for each sample. With a tolerance a sample differs if it does by
        more than that, and by its adjusted p-value.
    groups, blocks, strata, pairs, weights
        As in `two_sample_test`; instead of a column, (values for the rows of the reference, name ->
        values for the rows of that sample).
    correction
        For the number of samples. "holm" bounds the chance of any false finding, whatever the
        dependence. "bh" (Benjamini-Hochberg) bounds the expected share of false findings, under
        positive dependence; "by" (Benjamini-Yekutieli) the same, whatever the dependence. "none"
        leaves p-values alone.
    alpha
        The level of the verdicts.
    permutations
        None means the method's own (999), or more where so many samples take more. A p-value of B
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
        If the test of a sample fails. The others are done, and `failures` has the reason. Also if
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
    >>> samples = {"monday": days[0], "tuesday": days[1]}
    >>> twosample.compare(reference, samples, "mmd-median", rng=0).reject()
    ['tuesday']
    """
    _check_asked(reference, samples, correction, alpha)
    # A first part decides about a sample where no correction can take its p-value above alpha.
    decides = max(alpha / growth(correction, len(samples)), math.ulp(0.0))
    test = resolve(method, permutations=permutations, train_fraction=train_fraction, alpha=decides)

    def options(name: str) -> dict[str, Any]:
        keys = {"groups": groups, "strata": strata, "pairs": pairs}
        own = {option: _own_values(option, key, name) for option, key in keys.items()}
        return {"blocks": blocks, **own}

    # All samples are checked before the first is tested: better now than after an hour.
    rules = rules_of(None, columns)
    if isinstance(weights, str):
        rules = without_columns(rules, (weights,))
    for name in samples:
        designed = resolve(test, design=design_from(**options(name)))
        _check_sample(name, reference, samples[name], designed, rules)
    test = _with_enough(test, permutations is not None, correction, len(samples), alpha)
    generators = Generators(rng)
    seeds = _seeds(samples, generators)
    run = functools.partial(
        two_sample_test,
        reference,
        method=test,
        device=device,
        progress=False,  # the bar is that of the samples
        client=client,
        columns=columns,
        tolerance=tolerance,
    )
    results: dict[str, TwoSampleResult] = {}
    failures: dict[str, str] = {}
    # It sees the results as they come, so that an interrupt can hand over what is there.
    comparison = Comparison(
        results=results,
        correction=correction,
        alpha=alpha,
        seeds=seeds,
        names=tuple(samples),
        failures=failures,
        seed=generators.seed,
    )
    with bar("testing samples", len(samples), progress) as tick:
        for name in samples:
            try:
                with _named_warnings(name):
                    of_rows = _own_values("weights", weights, name)
                    own = {"weights": of_rows, **options(name)}
                    results[name] = run(samples[name], rng=seeds[name], **own)
            except KeyboardInterrupt:
                raise ComparisonInterrupted(comparison) from None
            except TwoSampleError as error:
                failures[name] = str(error)
                # If all of them fail, the cause is common, and there is nothing to return.
                if len(failures) == len(samples):
                    raise
                warn(f"{_about(name, error)} It has no result.")
            tick(name)
    return comparison


def verdict(rejected: int, count: int, reference: str = "the reference") -> str:
    """How many of `count` samples differ, in a sentence without its full stop."""
    if not count:
        return "No sample has been compared"
    if count == 1:
        if rejected:
            return f"The sample differs from {reference}"
        return f"The sample is not found to differ from {reference}"
    if not rejected:
        return f"None of {count} samples is found to differ from {reference}"
    verb = "differs" if rejected == 1 else "differ"
    return f"{rejected} of {count} samples {verb} from {reference}"


def effects(comparison: Comparison) -> tuple[str, dict[str, float]]:
    """What says how far a sample is from the reference, and name -> that number.

    It is the MMD where all tests have one, and the statistic elsewhere.
    """
    distances = {}
    for name, result in comparison.items():
        if result.effect.mmd is None:
            return "statistic", {each: comparison[each].statistic for each in comparison}
        distances[name] = result.effect.mmd
    return "MMD", distances


# What is checked before anything is trained.


def _check_asked(reference: Any, samples: object, correction: object, alpha: float) -> None:
    if not isinstance(samples, Mapping):
        raise InputError(
            f"samples is a {type(samples).__name__}; give a mapping of names to samples, "
            "{'a': A, ...}."
        )
    if not samples:
        raise InputError("there are no samples to compare with the reference; give at least one.")
    for name in samples:
        if not isinstance(name, str):
            raise InputError(
                f"the name {name!r} of a sample is a {type(name).__name__}; names are strings."
            )
    if isinstance(reference, Iterator):
        raise InputError(
            "the reference is an iterator, which can be read only once, but it is read for each "
            "sample; give Stream.batches(function) with a function that makes a new iterator."
        )
    check_correction(correction, get_args(Correction))
    check_alpha(alpha)


def _own_values(option: str, key: Key | None, name: str) -> Key | None:
    """A column, or the values of the reference and of one sample."""
    if not isinstance(key, tuple | list):
        return key
    if len(key) == 2 and isinstance(key[1], Mapping) and name in key[1]:
        return key[0], key[1][name]
    raise InputError(
        f"{option} has no values for {name!r}; give a column, or (values for the rows of the "
        "reference, {name: values for the rows of that sample, ...})."
    )


def _check_sample(
    name: str, reference: Any, sample: Any, test: TwoSampleTest, columns: Columns | None
) -> None:
    """Raise `InputError` if this sample cannot be tested against the reference."""
    for rows in (reference, sample):
        if isinstance(rows, Stream | Iterator | np.memmap):
            return  # looking at all of a stream may take as long as the test
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they come with the test
            pair = (held(reference), held(sample))
            seen = survey(pair, every_row, columns=columns, design=test.design).picked
        if test.learning is not None:
            fraction = test.learning.train_fraction
            split_rows(seen.sizes, fraction, torch.Generator(), units=seen.units)
        else:
            _check_sizes(seen.sizes)
    except InputError as error:
        raise InputError(_about(name, error)) from error


def _with_enough(
    test: TwoSampleTest, asked: bool, correction: Correction, count: int, alpha: float
) -> TwoSampleTest:
    """The test with so many permutations that one of so many samples can be found to differ."""
    enough = _permutations(test, asked, correction, count, alpha)
    if enough is None:
        return test
    test = resolve(test, permutations=enough)
    if test.then is None or asked:
        return test
    # The second test has a share of the level only, so it takes more of them.
    second = test.then.test
    own_level = test.then.share * alpha
    shuffles = _permutations(second, asked, correction, count, own_level)
    then = replace(test.then, test=resolve(second, permutations=shuffles))
    return replace(test, then=then)


def _permutations(
    test: TwoSampleTest, asked: bool, correction: Correction, count: int, alpha: float
) -> int | None:
    """How many permutations each test makes; None where it has no use for them.

    They are those of the test, or more if so many samples take more and nobody asked for a number.
    """
    if not isinstance(test.calibration, Permutation | PairSwap):
        return None
    factor = growth(correction, count)
    # An alpha of 5e-324 would need infinitely many.
    labellings = min(factor / alpha, 2.0 * _MOST)
    if test.then is not None and not asked:
        # A second test may take its share of the level, and p-values of the first one grow then.
        labellings /= 1 - test.then.share
    least = math.ceil(labellings - 1e-6) - 1
    own = test.calibration.permutations
    if own >= least:
        return own
    if not asked and least <= _MOST:
        return min(_SPARE * (least + 1) - 1, _MOST)
    smallest = min(1.0, factor / (own + 1))
    more = f"use {least} permutations or more" if least <= _MOST else "choose a larger one"
    warn(
        f"with {own} permutations no p-value is below {1 / (own + 1):.2g}, and after the "
        f"correction for {count} samples that of a single one is not below {smallest:.2g}, but "
        f"alpha is {alpha:g}; {more}."
    )
    return own


def _seeds(names: Mapping[str, Any], generators: Generators) -> dict[str, int]:
    """A seed for each sample, which depends on its name and on no other sample."""
    seeds = {}
    for name in names:
        generator = generators.numpy(f"sample {name}")
        seeds[name] = int(generator.integers(2**32))
    return seeds


# Words.


def _about(name: str, message: object) -> str:
    """A message that says which sample it is about, and what X and Y are if it speaks of them."""
    text = str(message)
    if re.search(r"\b[XY]\b", text):
        return f"{name}: {text} (X is the reference, Y is {name}.)"
    # A message about a file names the file already. A name that is a mere word may stand in any
    # sentence by chance.
    is_named = name in text and not name.isalnum()
    return text if is_named else f"{name}: {text}"


@contextmanager
def _named_warnings(name: str) -> Iterator[None]:
    """Warnings on the way say which sample they are about."""
    with warnings.catch_warnings(record=True) as caught:
        yield
    for warning in caught:
        # Five levels up is the caller of `compare`; `contextlib` is one of them, where
        # `errors.warn` would stop.
        warnings.warn(_about(name, warning.message), warning.category, stacklevel=5)
