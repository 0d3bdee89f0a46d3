"""The one verb: `two_sample_test`, and what its options stand for."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

from ._calibration import PairSwap, Permutation
from ._checks import check_tolerance
from ._data.columns import Columns
from ._data.copies import Repeats
from ._data.weights import weighed
from ._design import Blocks, Design, Key, Rows, design_from
from ._methods import METHODS
from ._random import RNGLike, takes_rng
from ._result import TwoSampleResult
from ._two_sample import TwoSampleTest
from .errors import IncompatibleParts, InputError


@takes_rng
def two_sample_test(
    X: Any,
    Y: Any,
    method: str | TwoSampleTest = "auto",
    *,
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
    repeats: Repeats = "once",
    tolerance: Mapping[str, float] | None = None,
) -> TwoSampleResult:
    """Test whether two samples come from the same distribution.

    Parameters
    ----------
    X, Y
        The samples, one row a point: NumPy arrays, torch tensors, lists, or pandas, polars or
        pyarrow tables, which may mix numeric, boolean and categorical columns; or images (N, H, W),
        (N, H, W, C) or (N, C, H, W). Sizes may differ. Samples larger than memory: a `Stream`, a
        large np.memmap, or an iterator over batches of any of these.
    method
        A name of `METHODS`, or a `TwoSampleTest`. The default looks at all rows through many views
        at once; where these do not decide, in large samples, it trains a deep kernel, too, and says
        so in `result.chosen`. The test of the paper is "mmd-d".
    permutations, train_fraction
        None means the method's own (999, and half of the data where a kernel is trained).
    rng
        A seed or a generator. The same seed gives the same answer.
    device
        "auto", "cpu", "cuda", ...
    progress
        Show a bar while training; None means on a terminal only.
    client
        A `distributed.Client`: what is left after training, seeing all points through the kernel
        and comparing them, is then done by the workers of its cluster, on their CPUs. The answer is
        that of this machine, to the bit where processors are alike and torch has one thread here as
        it has there, else to the rounding of kernel values.
    columns
        Which columns of tables to test, as what, and what becomes of missing values. By default
        they are counted and tested as such, and an `InputNote` says how many there are.
    groups, strata, pairs
        Which rows depend on each other: the name of a column of both tables, which is then not
        tested, or (values for the rows of X, values for the rows of Y). Rows of one group (a
        subject, a session) move together; rows of different strata (sites, prompts) never change
        places; the two sides of a pair (the same subject before and after) change places only with
        each other. See docs/designs.md for when to use which.
    blocks
        For series, in the order of time: contiguous blocks of so many rows move together, and rows
        between them are left out, so that blocks know little of each other; "50+10" says how many,
        "auto" finds both numbers in the data.
    weights
        For rows that are to count more or less, as in a survey, or where a shift is known and
        should not count: a column, or a pair of arrays. Each row is kept with a chance proportional
        to its weight, so that what is tested are draws from the weighted distributions. Weights up
        to 1 are chances, and the test is exact; others are divided by the largest in their sample,
        which is exact in the limit only.
    repeats
        What becomes of copies of rows, which are no independent evidence: "once" tests each row
        once, and leaves out those that are in both samples; "refuse" raises; "allow" tests them
        as rows of their own, as is right where equal rows are independent of each other. Rows that
        repeat as independent ones do (coins, small categories) are no copies (docs/checks.md).
    tolerance
        The difference that does not matter, by its unit: {"auc": 0.55}, an AUC with which rows of X
        and Y may be told apart; {"spread": 0.1}, how far the values of any column may move, in its
        spreads (of a category, the share of rows that may change); {"price": 0.1}, that of one
        column; {"mmd": 0.05}. Then `result.verdict` is "differ" (by more), "equivalent" (within it)
        or "undecided". The p-value stays as it is.

    Returns
    -------
    TwoSampleResult
        With `statistic`, `pvalue`, `null_distribution`, `reject(alpha)`, ...

    Notes
    -----
    The null hypothesis is P = Q for samples of independent points, unless `groups`, `blocks`,
    `strata` or `pairs` say otherwise. Then Pr(pvalue <= alpha) <=
    alpha for every sample size: what is fitted without labels no shuffle changes, and what is
    trained with labels is tested on other points.

    Examples
    --------
    >>> import numpy as np, twosample
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(0, 1, (200, 2)), rng.normal(0, 2, (150, 2))
    >>> result = twosample.two_sample_test(X, Y, rng=0)
    >>> result.reject(alpha=0.05)
    True
    """
    design = design_from(groups, blocks, strata, pairs)
    test = resolve(method, permutations=permutations, train_fraction=train_fraction, design=design)
    kept = None
    if weights is not None:
        kept = weighed(X, Y, weights, test.design, rng)
        X, Y, rng = kept.x, kept.y, kept.rng
        test = _redesigned(test, kept.design)
    margins = None if tolerance is None else check_tolerance(tolerance)  # before anybody waits
    result = test.run(
        X,
        Y,
        rng=rng,
        device=device,
        progress=progress,
        client=client,
        columns=columns,
        repeats=repeats,
    )
    if kept is not None:
        result = dataclasses.replace(result, design=kept.described(result.design))
    return result if margins is None else dataclasses.replace(result, tolerance=margins)


def resolve(
    method: str | TwoSampleTest,
    *,
    permutations: int | None = None,
    train_fraction: float | None = None,
    design: Design | None = None,
    alpha: float | None = None,
) -> TwoSampleTest:
    """The test that a name and options stand for.

    An option that the test has no use for is an error, never ignored. But `alpha`, the level at
    which the first of two tests decides, can be given for every test.
    """
    if isinstance(method, str):
        if method not in METHODS:
            raise InputError(f"method {method!r} does not exist; use one of {', '.join(METHODS)}.")
        test = METHODS[method]()
    elif isinstance(method, TwoSampleTest):
        test = method
    elif inspect.isfunction(method):
        # A usual slip: method=twosample.mmd_d without the parentheses.
        raise InputError(
            f"method is the function {method.__name__}; call it: method={method.__name__}()."
        )
    else:
        raise InputError(
            f"method is a {type(method).__name__}; it must be a name or a TwoSampleTest."
        )
    if permutations is not None:
        test = _with_permutations(test, permutations)
    if train_fraction is not None:
        test = _with_train_fraction(test, train_fraction)
    if design is not None:
        test = _with_design(test, design)
    if alpha is not None and test.then is not None:
        then = dataclasses.replace(test.then, alpha=alpha)
        test = dataclasses.replace(test, then=then)
    return test


def _with_design(test: TwoSampleTest, design: Design) -> TwoSampleTest:
    if not isinstance(test.design, Rows):
        raise IncompatibleParts(
            f"{test.name} has the design {test.design!r} already; leave out {design!r}."
        )
    return _redesigned(test, design)


def _redesigned(test: TwoSampleTest, design: Design) -> TwoSampleTest:
    then = test.then
    if then is not None:
        then = dataclasses.replace(then, test=_redesigned(then.test, design))
    return dataclasses.replace(test, design=design, then=then)


def _with_permutations(test: TwoSampleTest, permutations: int) -> TwoSampleTest:
    if not isinstance(test.calibration, Permutation | PairSwap):
        raise IncompatibleParts(
            f"{test.name} is calibrated by {test.calibration!r}, which has no use for "
            f"permutations={permutations}. Leave it out."
        )
    calibration = dataclasses.replace(test.calibration, permutations=permutations)
    then = test.then
    if then is not None:
        then = dataclasses.replace(then, test=_with_permutations(then.test, permutations))
    return dataclasses.replace(test, calibration=calibration, then=then)


def _with_train_fraction(test: TwoSampleTest, train_fraction: float) -> TwoSampleTest:
    if test.learning is not None:
        learning = dataclasses.replace(test.learning, train_fraction=train_fraction)
        return dataclasses.replace(test, learning=learning)
    if test.then is not None:
        followed = _with_train_fraction(test.then.test, train_fraction)
        return dataclasses.replace(test, then=dataclasses.replace(test.then, test=followed))
    raise IncompatibleParts(
        f"{test.name} does not train, so it has no use for train_fraction={train_fraction}. Leave "
        "it out."
    )
