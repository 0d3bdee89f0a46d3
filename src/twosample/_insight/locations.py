"""Where a learned kernel sees the difference: a few points that tell the samples apart.

This is the appendix of [Liu2020] on interpretability: mean embeddings at L locations, with the
kernel that a test has learned, and a test by these embeddings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._calibration import Permutation
from .._data.samples import Samples, Scaling
from .._data.survey import as_samples
from .._featurizers import MeanEmbedding
from .._kernels import Kernel
from .._learning import Learning
from .._objectives import Noncentrality
from .._random import Generators, RNGLike, takes_rng
from .._resources import Resources
from .._result import TwoSampleResult
from .._statistics import HotellingT2
from .._threads import few_threads
from .._two_sample import FittedTest, TwoSampleTest
from ..errors import IncompatibleParts, InputError
from .held_out import Value, as_uint8, row_image, row_values
from .text_tables import as_text

How = Literal["selected", "trained", "joint"]
Location: TypeAlias = dict[str, Value] | NDArray[np.uint8]
Origin: TypeAlias = tuple[str, int]
RowNumbers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Locations:
    """Points at which the mean embeddings of the samples differ most, and the test by them.

    Attributes
    ----------
    values
        One for each location. For tables it is column -> value in the user's units; for images it
        is an image of whole numbers in 0..255, (H, W) or (H, W, C). A location that was trained
        need not look like any point of the data.
    rows
        Where the selected locations stand: ("X", row) or ("Y", row) of the points given. Empty if
        they were trained.
    how
        "selected", "trained" or "joint".
    fitted
        The test by these locations, for points that were used neither for the kernel nor for the
        locations.
    result
        Its result on the held-out points, if `locations` was given the result of a test; else None.
    """

    values: tuple[Location, ...]
    rows: tuple[Origin, ...]
    how: How
    fitted: FittedTest = field(repr=False)
    result: TwoSampleResult | None = None

    def __str__(self) -> str:
        count = len(self.values)
        noun = "locations" if count > 1 else "location"
        lines = [f"{count} {self.how} {noun}:"]
        for number, value in enumerate(self.values):
            line = f"  {_in_words(value)}"
            if self.rows:
                sample, row = self.rows[number]
                line += f" (row {row} of {sample})"
            lines.append(line)
        if self.result is not None:
            lines.append(str(self.result))
        return "\n".join(lines)


@few_threads
@takes_rng
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
    """Find the points at which the mean embeddings of X and Y differ most, by a learned kernel.

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
    count
        How many locations to find.
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
    >>> X, Y = rng.normal(size=(200, 1)), rng.normal(size=(150, 1))
    >>> Y = np.concatenate([Y, rng.normal(6, 0.5, (50, 1))])
    >>> result = twosample.two_sample_test(X, Y, "mmd-o", rng=0)
    >>> places = twosample.locations(result, X, Y, rng=0)
    >>> abs(places.values[0]["0"] - 6) < 1, places.result.pvalue
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
            "what it learned. Use mmd_d() or mmd_o() to learn a kernel."
        )
    given = as_samples(X, Y, schema=fitted.schema)
    chosen_on = given
    rows = [np.arange(size) for size in given.sizes]
    if isinstance(learned, TwoSampleResult):
        # The held-out rows will test the locations, so they have no part in the choice.
        chosen_on, rows = _rows_of_training(learned, given)
    settings = _settings(how, learning)
    memory = fitted.spec.memory
    test = TwoSampleTest(
        _embedding_by(fitted, count, how),
        Learning(Noncentrality(), **settings),
        HotellingT2(),
        Permutation(permutations),
        name=f"me by {how} locations",
        memory=memory,
    )
    generators = Generators(rng)
    resources = Resources(memory, progress)
    devices = [str(parameter.device) for parameter in fitted.representation.parameters()]
    device = devices[0] if devices else "cpu"
    # The scaling is that under which the kernel was learned.
    by_locations = test._fit(chosen_on, fitted.scaling, generators, device, resources)
    embedding = cast(MeanEmbedding, by_locations.representation)
    result = None
    if isinstance(learned, TwoSampleResult) and learned.samples is not None:
        result = by_locations._test_scaled(learned.samples, generators, resources)
    points = embedding.locations.detach().cpu()
    return Locations(
        values=tuple(_as_given(point, given, fitted.scaling) for point in points),
        rows=_origins(embedding, rows) if how == "selected" else (),
        how=how,
        fitted=by_locations,
        result=result,
    )


def _embedding_by(fitted: FittedTest, count: int, how: How) -> MeanEmbedding:
    """Mean embeddings by the learned kernel, or by a new one of its kind if both are trained."""
    if how == "joint":
        fresh = fitted.spec.representation
        return MeanEmbedding(count, fresh if isinstance(fresh, Kernel) else None)
    kernel = cast(Kernel, fitted.representation)
    return MeanEmbedding(count, kernel, fixed=True, select=how == "selected")


def _settings(how: How, learning: dict[str, Any]) -> dict[str, Any]:
    """The options of `Learning`: those given, and ours for the others."""
    settings = {"steps": 300, "restarts": 1, "learning_rate": 2e-2, **learning}
    if how == "selected":
        settings["steps"] = 0  # they stay where they are found
    return settings


def _rows_of_training(result: TwoSampleResult, given: Samples) -> tuple[Samples, list[RowNumbers]]:
    """Those rows of the samples given that the result did not hold out."""
    rows = None if result.samples is None else result.samples.rows
    if rows is None or result.train_sizes is None:
        raise InputError(
            "the rows that this kernel was trained on are not known; pass the fitted test and the "
            "points to choose the locations on, which must not be tested."
        )
    n, m = given.sizes
    tested_rows_x, tested_rows_y = rows
    trained_x = np.setdiff1d(np.arange(n), tested_rows_x.numpy())
    trained_y = np.setdiff1d(np.arange(m), tested_rows_y.numpy())
    # With other samples than those tested, the held-out rows would not be the ones left out here.
    if (len(trained_x), len(trained_y)) != result.train_sizes:
        tested_x, tested_y = result.sizes
        used_x, used_y = result.train_sizes
        raise InputError(
            f"X and Y have {n} and {m} rows, but the result is of {tested_x + used_x} and "
            f"{tested_y + used_y}; pass those."
        )
    x = given.x[torch.from_numpy(trained_x)]
    y = given.y[torch.from_numpy(trained_y)]
    return Samples(x, y, given.schema), [trained_x, trained_y]


def _origins(embedding: MeanEmbedding, rows: list[RowNumbers]) -> tuple[Origin, ...]:
    """The sample and the row of each location that was selected among the pooled points."""
    of_x, of_y = rows
    n = len(of_x)
    origins = []
    # `chosen` counts through the pooled points: those of X, then those of Y.
    for place in embedding.chosen:
        if place < n:
            origin = ("X", int(of_x[place]))
        else:
            origin = ("Y", int(of_y[place - n]))
        origins.append(origin)
    return tuple(origins)


def _as_given(location: Tensor, given: Samples, scaling: Scaling) -> Location:
    """A location as the user's data are: a row of a table, or an image in 0..255."""
    if given.schema.kind == "table":
        return row_values(given.schema, scaling, location)
    image = row_image(scaling, location)
    if given.schema.pixels != "uint8":
        # Floats have a scale of their own; that of the points becomes 0..255.
        pooled = given.pooled()
        low = float(pooled.min())
        high = float(pooled.max())
        tiny = np.finfo(np.float64).tiny  # pixels may all be the same
        spread = max(high - low, tiny)
        image = (image - low) / spread * 255
    return as_uint8(image)


def _in_words(location: Location) -> str:
    if isinstance(location, dict):
        # Four digits: a location is where to look, not a row to be found again.
        texts = [f"{name} = {as_text(value, digits=4)}" for name, value in location.items()]
        return ", ".join(texts)
    height, width = location.shape[:2]
    return f"an image of {height} x {width} pixels"
