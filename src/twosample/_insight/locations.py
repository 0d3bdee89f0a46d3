"""Where a learned kernel sees the difference: a few points that tell the samples apart, and a test by them.

The appendix of [Liu2020] on interpretability: mean embeddings at L locations, with the kernel that
a test has learned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._calibration import Permutation
from .._data.samples import Samples, Scaling, as_samples
from .._featurizers import MeanEmbedding
from .._kernels import Kernel
from .._learning import Learning
from .._objectives import Noncentrality
from .._random import Generators, RNGLike
from .._resources import Resources
from .._result import TwoSampleResult
from .._statistics import HotellingT2
from .._two_sample import FittedTest, TwoSampleTest
from ..errors import IncompatibleParts, InputError
from .explain import Value, row_values

How = Literal["selected", "trained", "joint"]


@dataclass(frozen=True, eq=False)
class Locations:
    """Points at which the mean embeddings of the samples differ most, and the test by them.

    Attributes
    ----------
    values
        One for each location: column -> value in the user's units for tables, an image of whole
        numbers in 0..255 for images, (H, W) or (H, W, C). A location that was trained need not look
        like any point of the data.
    rows
        For those that were selected, where they stand: ("X", row) or ("Y", row) of the points
        given; else empty.
    how
        "selected", "trained" or "joint".
    fitted
        The test by these locations, for points that were used neither for the kernel nor for the
        locations.
    result
        Its result on the held-out points, where `locations` was given the result of a test; else
        None.
    """

    values: tuple[dict[str, Value] | NDArray[np.uint8], ...]
    rows: tuple[tuple[str, int], ...]
    how: How
    fitted: FittedTest = field(repr=False)
    result: TwoSampleResult | None = None

    def __str__(self) -> str:
        shown = [
            ", ".join(f"{name} = {_shown(value)}" for name, value in place.items())
            if isinstance(place, dict)
            else f"an image of {place.shape[0]} x {place.shape[1]} pixels"
            for place in self.values
        ]
        origin = [f" (row {row} of {sample})" for sample, row in self.rows] or [""] * len(shown)
        lines = [f"{len(shown)} {self.how} location{'s' if len(shown) > 1 else ''}:"]
        lines += [f"  {place}{where}" for place, where in zip(shown, origin, strict=True)]
        return "\n".join([*lines, *([] if self.result is None else [str(self.result)])])


def locations(
    learned: FittedTest | TwoSampleResult,
    X: Any,
    Y: Any,
    count: int = 1,
    *,
    how: How = "selected",
    permutations: int = 999,
    rng: RNGLike | None = None,
    progress: bool | None = None,
    **learning: Any,
) -> Locations:
    """Find `count` points at which the mean embeddings of X and Y differ most, as a learned kernel sees them.

    Parameters
    ----------
    learned
        A fitted test, whose kernel is used as it is; or the result of `two_sample_test(X, Y)` or
        `TwoSampleTest.run`.
    X, Y
        Points to choose the locations on. With a fitted test, the points that it was fitted on, or
        others that will not be tested. With a result, the very X and Y that were tested: the
        locations are chosen on the rows that the kernel was trained on, and tested on those held
        out.
    how
        "selected": from the points themselves, one after another, the best beside those before.
        "trained": moved from there by gradient ascent, the kernel fixed and its batch
        normalisations frozen ([Liu2020] started from noise, which a narrow kernel cannot see).
        "joint": a new kernel of the same kind and the locations trained together, which [Liu2020]
        found to fail.
    permutations, rng, progress
        As in `two_sample_test`.
    **learning
        Options of `Learning`, such as `steps`.

    Returns
    -------
    Locations

    Examples
    --------
    >>> import numpy as np, twosample
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(200, 1)), np.concatenate([rng.normal(size=(150, 1)), rng.normal(6, 0.5, (50, 1))])
    >>> result = twosample.two_sample_test(X, Y, "mmd-o", rng=0)
    >>> found = twosample.locations(result, X, Y, rng=0)
    >>> abs(found.values[0]["0"] - 6) < 1, found.result.pvalue
    (True, 0.001)
    """
    if how not in get_args(How):
        raise InputError(f"how is {how!r}; it must be one of {', '.join(get_args(How))}.")
    fitted = learned.fitted if isinstance(learned, TwoSampleResult) else learned
    if not isinstance(fitted, FittedTest):
        raise InputError(
            f"locations needs a fitted test or its result, not a {type(learned).__name__}."
        )
    if not isinstance(fitted.representation, Kernel):
        raise IncompatibleParts(
            f"{fitted.spec.name} compares features, not points by a kernel; its representation has "
            "what it learned. "
            "Use mmd_d() or mmd_o() to learn a kernel."
        )
    given = as_samples(X, Y, schema=fitted.schema)
    train, places = given, [np.arange(size) for size in given.sizes]
    if isinstance(learned, TwoSampleResult):
        train, places = _rows_of_training(learned, given)
    fresh, settings = (
        fitted.spec.representation,
        {"steps": 300, "restarts": 1, "learning_rate": 2e-2, **learning},
    )
    if how == "selected":
        settings["steps"] = 0
    features = (
        MeanEmbedding(count, fresh if isinstance(fresh, Kernel) else None)
        if how == "joint"
        else MeanEmbedding(count, fitted.representation, fixed=True, select=how == "selected")
    )
    test = TwoSampleTest(
        features,
        Learning(Noncentrality(), **settings),
        HotellingT2(),
        Permutation(permutations),
        name=f"me by {how} locations",
        memory=fitted.spec.memory,
    )
    generators = Generators(rng)
    device = next((str(p.device) for p in fitted.representation.parameters()), "cpu")
    # The scaling is that under which the kernel was learned.
    resources = Resources(fitted.spec.memory, progress)
    by_places = test._fit(train, fitted.scaling, generators, device, resources)
    found = cast(MeanEmbedding, by_places.representation)
    result = None
    if isinstance(learned, TwoSampleResult) and learned.samples is not None:
        result = by_places._test_scaled(learned.samples, generators, resources)
    return Locations(
        values=tuple(
            _as_given(place, given, fitted.scaling) for place in found.locations.detach().cpu()
        ),
        rows=_origins(found, places) if how == "selected" else (),
        how=how,
        fitted=by_places,
        result=result,
    )


def _rows_of_training(
    result: TwoSampleResult, given: Samples
) -> tuple[Samples, list[NDArray[np.int64]]]:
    """Those rows of the samples given that the result did not hold out."""
    rows = None if result.samples is None else result.samples.rows
    if rows is None or result.train_sizes is None:
        raise InputError(
            "the rows that this kernel was trained on are not known; pass the fitted test and the "
            "points to choose "
            "the locations on, which must not be tested."
        )
    places = [
        np.setdiff1d(np.arange(size), held.numpy())
        for size, held in zip(given.sizes, rows, strict=True)
    ]
    if tuple(map(len, places)) != result.train_sizes:
        raise InputError(
            f"X and Y have {given.sizes[0]} and {given.sizes[1]} rows, but the result is of "
            f"{result.sizes[0] + result.train_sizes[0]} and "
            f"{result.sizes[1] + result.train_sizes[1]}; pass those."
        )
    x, y = (
        points[torch.from_numpy(place)]
        for points, place in zip((given.x, given.y), places, strict=True)
    )
    return Samples(x, y, given.schema), places


def _origins(found: MeanEmbedding, places: list[NDArray[np.int64]]) -> tuple[tuple[str, int], ...]:
    n = len(places[0])
    return tuple(
        ("X", int(places[0][index])) if index < n else ("Y", int(places[1][index - n]))
        for index in found.chosen
    )


def _as_given(
    location: Tensor, given: Samples, scaling: Scaling
) -> dict[str, Value] | NDArray[np.uint8]:
    """A location as the user's data are: a row of a table, or an image in 0..255."""
    if given.schema.kind == "table":
        return row_values(given.schema, scaling, location)
    image = scaling.undo(location).permute(1, 2, 0).numpy()
    image = image[:, :, 0] if image.shape[2] == 1 else image
    if (
        given.schema.pixels != "uint8"
    ):  # floats on a scale of their own: that of the points becomes 0..255
        low, high = (
            float(f(torch.stack([f(given.x), f(given.y)]))) for f in (torch.min, torch.max)
        )
        image = (image - low) / max(high - low, np.finfo(np.float64).tiny) * 255
    return image.round().clip(0, 255).astype(np.uint8)


def _shown(value: Value) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
