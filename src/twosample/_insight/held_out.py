"""The held-out points of a result: as the test saw them, and as the user wrote them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._data.embedding import embed_samples
from .._data.samples import EmbeddedSamples, Samples, Scaling
from .._data.schema import Column, Schema
from .._kernels import embedding_of
from .._resources import Resources
from .._result import TwoSampleResult
from .._two_sample import FittedTest
from ..errors import InputError

Value: TypeAlias = float | bool | str

_YES = 0.5  # indicators are 0 or 1, up to the rounding of single precision
_PRECISION = 2.0**-23  # of float32, in which points are kept


def held_out(result: object) -> tuple[FittedTest, Samples]:
    """The fitted test and the held-out points of a result."""
    if isinstance(result, FittedTest):
        raise InputError("a FittedTest has no samples to explain; pass what its test(X, Y) gives.")
    if not isinstance(result, TwoSampleResult):
        raise InputError(
            f"what is to be explained is a {type(result).__name__}; pass the result of a test."
        )
    if result.fitted is None or result.samples is None:
        raise InputError(
            "this result does not hold its fitted test and samples: a test of streams keeps no "
            "rows. Test a part of them that fits in memory."
        )
    return result.fitted, result.samples


def embedded(fitted: FittedTest, samples: Samples, generator: torch.Generator) -> EmbeddedSamples:
    """The points as the test's kernel compares them, or their features."""
    embed = embedding_of(fitted.representation)
    resources = Resources(fitted.spec.memory)
    return embed_samples(samples, embed, generator, resources)


def as_array(values: Tensor) -> NDArray[np.float64]:
    """The values of a tensor in float64."""
    array: NDArray[np.float64] = values.double().cpu().numpy()
    return array


def places(schema: Schema) -> list[tuple[Column, slice]]:
    """Each column, and where its encoded columns stand."""
    columns = []
    start = 0
    for column in schema.columns:
        end = start + len(column.features)
        columns.append((column, slice(start, end)))
        start = end
    return columns


class ColumnRows(NamedTuple):
    """One column of the held-out rows, in the user's units."""

    column: Column
    rows: tuple[NDArray[np.float64], NDArray[np.float64]]  # (n, encoded columns) and (m, ...)


def column_rows(result: TwoSampleResult, name: str) -> ColumnRows:
    """One column of a result's rows, alone: a table may have hundreds."""
    fitted, samples = held_out(result)
    columns = places(samples.schema)
    names = [column.name for column, _ in columns]
    if name not in names:
        listed = ", ".join(names) or "none, as these are images"
        raise InputError(f"there is no column {name!r}; there are {listed}.")
    column, place = columns[names.index(name)]  # place: a slice of encoded columns
    alone = Scaling(fitted.scaling.shift[place], fitted.scaling.scale[place])
    x, y = (as_array(alone.undo(part[:, place])) for part in (samples.x, samples.y))
    return ColumnRows(column, (x, y))


def row_values(schema: Schema, scaling: Scaling, point: Tensor) -> dict[str, Value]:
    """A scaled row of a table as the user wrote it: column -> value."""
    values: dict[str, Value] = {}
    in_units = scaling.undo(point)
    steps = scaling.units(point)
    for column, place in places(schema):
        name = column.name
        encoded = point[place]
        # The mark of a missing value stands last, whatever the kind of the column.
        if column.missing and encoded[-1] > _YES:
            values[name] = "missing"
        elif column.kind == "category":
            level = column.features[int(encoded.argmax())]
            values[name] = level.removeprefix(f"{name}=")
        elif column.kind == "boolean":
            values[name] = bool(encoded[0] > _YES)
        else:
            # Single precision has kept so many digits of the distance from the mean. Others would
            # be made up, so they are not shown.
            distance = abs(float(encoded[0])) * float(steps[place][0])
            value = float(in_units[place][0])
            values[name] = _rounded(value, distance * _PRECISION)
    return values


def _rounded(value: float, error: float) -> float:
    """A value without the digits that are smaller than its error."""
    if error != 0:
        value = round(value, -math.ceil(math.log10(error)))
    return value + 0.0  # nobody writes -0


def row_image(scaling: Scaling, point: Tensor) -> NDArray[np.float64]:
    """A scaled image in the user's units, as (H, W) or (H, W, C)."""
    channels_last = scaling.undo(point).permute(1, 2, 0)
    image: NDArray[np.float64] = channels_last.numpy()
    if image.shape[2] == 1:
        return image[:, :, 0]
    return image


def row_pixels(schema: Schema, scaling: Scaling, point: Tensor) -> NDArray[Any]:
    """A scaled image as the user gave it: of uint8 where the user's were, of float32 elsewhere."""
    image = row_image(scaling, point)
    if schema.pixels == "uint8":
        return as_uint8(image)
    return image.astype(np.float32)


def as_uint8(image: NDArray[np.float64]) -> NDArray[np.uint8]:
    """An image whose values belong in 0..255, in whole numbers."""
    return image.round().clip(0, 255).astype(np.uint8)
