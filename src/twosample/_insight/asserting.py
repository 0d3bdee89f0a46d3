"""An assertion for test suites: two samples come from the same distribution."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

from .._api import resolve
from .._calibration import PairSwap, Permutation
from .._checks import check_alpha
from .._data.columns import Columns
from .._random import RNGLike, takes_rng
from .._result import ALPHA, TwoSampleResult, format_pvalue
from .._two_sample import TwoSampleTest
from ..errors import InputError, InputWarning
from .explain import Explanation, explain

_SEED = 0  # of a run to which nobody gives one: a test suite wants the same answer every time
# Most assertions hold, and a thousand shuffles show it. Only below this p-value are all of them
# worth their time: a p-value as small as the usual alpha is not above it by the luck of a thousand.
_WORTH_MORE = 0.05
_FIRST = 999
_MOST_NAMED = 5  # columns and pairs in a message


@takes_rng
def assert_same_distribution(
    X: Any,
    Y: Any,
    alpha: float = 1e-4,
    *,
    method: str | TwoSampleTest = "spectral",
    permutations: int | None = None,
    rng: RNGLike | None = None,
    device: str = "auto",
    columns: Columns | None = None,
    names: tuple[str, str] = ("X", "Y"),
) -> None:
    """Raise an AssertionError if two samples are found to come from different distributions.

    Parameters
    ----------
    X, Y, device, columns
        As in `two_sample_test`.
    alpha
        How often the assertion fails although nothing is wrong, for samples that are drawn anew.
        One in ten thousand is little enough for a suite that runs every day.
    method
        A name of `METHODS`, or a `TwoSampleTest`. The default trains no network and gives no part
        of its level away, unlike "auto".
    permutations
        None means as many as `alpha` takes: 1 / alpha - 1, or those of the method if they are more.
        All of them are made only where the first 999 give reason to.
    rng
        A seed or a generator. None means always the same seed, unlike elsewhere, so that the same
        samples have the same outcome every time.
    names
        What the message calls the samples.

    Raises
    ------
    AssertionError
        If they differ. The message has the verdict, the p-value, and the columns that differ.
    InputError
        If the samples cannot be tested, or are so small that no difference could ever be found at
        this `alpha`: an assertion that cannot fail says nothing.

    Notes
    -----
    Samples that are the same in every run, from a file or from a seed, pass always or never: such a
    test is not flaky. Samples that are drawn anew in each run fail with a probability of at most
    `alpha` if their distributions are equal, and pass now and then if the difference is small.

    Examples
    --------
    >>> import numpy as np
    >>> from twosample.testing import assert_same_distribution
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(0, 1, (200, 2)), rng.normal(0, 1, (200, 2))
    >>> assert_same_distribution(X, Y)
    >>> assert_same_distribution(X, Y + 1)
    Traceback (most recent call last):
    ...
    AssertionError: X and Y differ: p = 0.0001, at most alpha = 0.0001 (spectral, 200 + 200 rows).
    Columns that differ by themselves: 0, 1.
    """
    __tracebackhide__ = True  # pytest shows the line that asserts, not ours
    check_alpha(alpha)
    if rng is None:
        rng = _SEED
    test = resolve(method, alpha=alpha)
    share = 1.0 if test.then is None else 1 - test.then.share
    needed = permutations
    if needed is None:
        needed = _permutations(test, alpha * share)
    every = test if needed is None else resolve(test, permutations=needed)
    can_be_read_again = not isinstance(X, Iterator) and not isinstance(Y, Iterator)
    is_long = needed is not None and needed > _FIRST and can_be_read_again
    first = resolve(test, permutations=_FIRST) if is_long else every
    result = first.run(X, Y, rng=rng, device=device, columns=columns)
    if needed is not None:
        _check_reach(result, needed, alpha, alpha * share)
    # Passing early is safe: whatever fails has a p-value over all shuffles of at most alpha.
    if is_long and result.pvalue <= max(_WORTH_MORE, alpha):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)  # the first run has said it all
            result = every.run(X, Y, rng=rng, device=device, columns=columns)
    if result.reject(alpha):
        raise AssertionError(_message(result, alpha, names, rng))


def _permutations(test: TwoSampleTest, level: float) -> int | None:
    """So many that a p-value can be as small as `level`; None where the test makes none."""
    calibration = test.calibration
    if not isinstance(calibration, Permutation | PairSwap):
        return None
    # Divisions round: 1 / (1 / level) may be above the level by its last digit.
    labellings = math.ceil(1 / level - 1e-9)
    if 1 / labellings > level:
        labellings += 1
    return max(calibration.permutations, labellings - 1)


def _check_reach(result: TwoSampleResult, permutations: int, alpha: float, level: float) -> None:
    """Refuse samples and permutations for which no p-value of a test is as small as `level`."""
    labellings = permutations + 1
    n, m = result.sizes
    if result.calibrated is not None and result.fitted is not None:
        bins = result.calibrated.prepared.bins
        calibration = result.fitted.spec.calibration
        if isinstance(calibration, Permutation):
            labellings = min(labellings, calibration._labellings(bins))
        else:
            labellings = min(labellings, 2**bins.moving_x)
    if 1 / labellings > level:
        raise InputError(
            f"with {n} + {m} rows and {permutations} permutations no p-value is below "
            f"{1 / labellings:.2g}, so nothing could be found at alpha = {alpha:g}, and the "
            "assertion could not fail; give more rows, or a larger alpha."
        )


def _message(
    result: TwoSampleResult, alpha: float, names: tuple[str, str], rng: RNGLike | None
) -> str:
    """The verdict as the report has it, and what differs."""
    n, m = result.sizes
    lines = [
        f"{names[0]} and {names[1]} differ: p = {format_pvalue(result.pvalue)}, at most alpha = "
        f"{alpha:g} ({result.method}, {n} + {m} rows)."
    ]
    if result.samples is not None:  # the rows of a stream are not kept
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            explanation = explain(result, rows=0, rng=rng, progress=False)
        # At the level of the assertion, at which hardly anything is named by chance; where nothing
        # reaches it, at the usual one.
        lines += _found(explanation, alpha) or _found(explanation, max(alpha, ALPHA))
    return "\n".join(lines)


def _found(explanation: Explanation, level: float) -> list[str]:
    """Which columns differ, and which pairs go together otherwise, in sentences."""
    sentences = []
    differing = explanation.reject(level)
    if differing:
        sentences.append(f"Columns that differ by themselves: {_few(differing)}.")
    pairs = [pair for pair in explanation.reject_pairs(level) if not pair.follows_from(level)]
    return sentences + [f"{pair.sentence(level)}." for pair in pairs[:_MOST_NAMED]]


def _few(names: list[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMED])
    if len(names) > _MOST_NAMED:
        shown += f", ... {len(names)} in all"
    return shown
