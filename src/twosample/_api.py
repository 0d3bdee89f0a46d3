"""The one verb: `two_sample_test`, and what its options stand for."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from ._calibration import PairSwap, Permutation
from ._data.columns import Columns
from ._data.streams import known_rows
from ._methods import METHODS, choose
from ._random import RNGLike
from ._result import TwoSampleResult
from ._two_sample import TwoSampleTest
from .errors import IncompatibleParts, InputError


def two_sample_test(
    X: Any,
    Y: Any,
    method: str | TwoSampleTest = "mmd-d",
    *,
    permutations: int | None = None,
    train_fraction: float | None = None,
    rng: RNGLike | None = None,
    device: str = "auto",
    progress: bool | None = None,
    client: Any = None,
    columns: Columns | None = None,
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
        A name of `METHODS`, or a `TwoSampleTest`; or "auto", which chooses by the sizes of the
        samples and says in `result.chosen` what it chose and why.
    permutations, train_fraction
        None means the method's own (999, and half of the data to train).
    rng
        A seed or a generator (SPEC 7). The same seed gives the same answer.
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
        Which columns of tables to test, as what, and what becomes of missing values, which are an
        error by default.

    Returns
    -------
    TwoSampleResult
        With `statistic`, `pvalue`, `null_distribution`, `reject(alpha)`, ...

    Notes
    -----
    The null hypothesis is P = Q for samples of independent points. Then Pr(pvalue <= alpha) <=
    alpha for every sample size: training sees only the training points, and the p-value comes from
    shuffling the others.

    Examples
    --------
    >>> import numpy as np, twosample
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(0, 1, (200, 2)), rng.normal(0, 2, (150, 2))
    >>> result = twosample.two_sample_test(X, Y, rng=0)
    >>> result.reject(alpha=0.05)
    True
    """
    chosen = None
    if method == "auto":
        method, why = choose(known_rows(X), known_rows(Y), trained=train_fraction is not None)
        chosen = f"{method}: {why}"
    test = resolve(method, permutations=permutations, train_fraction=train_fraction)
    result = test.run(
        X, Y, rng=rng, device=device, progress=progress, client=client, columns=columns
    )
    return result if chosen is None else dataclasses.replace(result, chosen=chosen)


def resolve(
    method: str | TwoSampleTest,
    *,
    permutations: int | None = None,
    train_fraction: float | None = None,
) -> TwoSampleTest:
    """The test that a name and options stand for.

    An option that the test has no use for is an error, never ignored.
    """
    if isinstance(method, str):
        if method not in METHODS:
            raise InputError(
                f"method {method!r} does not exist; use one of auto, {', '.join(METHODS)}."
            )
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
        if not isinstance(test.calibration, Permutation | PairSwap):
            raise IncompatibleParts(
                f"{test.name} is calibrated by {test.calibration!r}, which has no use for "
                f"permutations={permutations}. Leave it out."
            )
        calibration = dataclasses.replace(test.calibration, permutations=permutations)
        test = dataclasses.replace(test, calibration=calibration)
    if train_fraction is not None:
        if test.learning is None:
            raise IncompatibleParts(
                f"{test.name} does not train, so it has no use for "
                f"train_fraction={train_fraction}. Leave it out."
            )
        learning = dataclasses.replace(test.learning, train_fraction=train_fraction)
        test = dataclasses.replace(test, learning=learning)
    return test
