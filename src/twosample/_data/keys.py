"""What a design needs to know of each row: values of a column, or of arrays, as whole numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._design import Codes, Design, Key
from ..errors import InputError
from .reading import as_narwhals
from .tables import Source, Table
from .values import label


class Described(NamedTuple):
    """A sample, as far as a design asks for it."""

    name: str  # what messages call it
    batches: Callable[[], Iterable[object]]  # its rows as they came, in parts
    size: int  # how many they are
    usable: Tensor | None  # which of them are used; None for all


def codes_for(design: Design, x: Described, y: Described) -> list[Codes]:
    """For each key of the design a whole number for every row that is used."""
    return [_codes(key, x, y) for key in design.keys]


def row_values(key: Key, place: int, sample: Described) -> NDArray[Any]:
    """The values of a key for the rows of one sample, X (`place` 0) or Y, that are used."""
    if isinstance(key, str):
        return _used(_column(key, sample), sample, f"column '{key}'")
    if len(key) == 2:
        return _used(_array(key[place], sample), sample, "the array that was given")
    raise InputError(
        "this test was fitted with arrays that say which rows belong together, and other rows "
        "need their own; give (values for the rows of X, values for the rows of Y) again."
    )


def _codes(key: Key, x: Described, y: Described) -> Codes:
    of_x = row_values(key, 0, x)
    of_y = row_values(key, 1, y)
    numbers = _numbered(np.concatenate(_comparable(of_x, of_y)))
    return numbers[: len(of_x)], numbers[len(of_x) :]


def _numbered(values: NDArray[Any]) -> Tensor:
    _, numbers = np.unique(values, return_inverse=True)
    return torch.from_numpy(np.ascontiguousarray(numbers.reshape(-1), dtype=np.int64))


def _comparable(of_x: NDArray[Any], of_y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The same, as labels unless both are numbers or both are dates."""
    numbers = of_x.dtype.kind in "biuf" and of_y.dtype.kind in "biuf"
    dates = of_x.dtype.kind == of_y.dtype.kind == "M"
    if numbers or dates:
        return of_x, of_y
    as_text = [np.array([label(value) for value in each.tolist()]) for each in (of_x, of_y)]
    return as_text[0], as_text[1]


def _used(values: NDArray[Any], sample: Described, name: str) -> NDArray[Any]:
    """The values of rows that are used; a missing one is an error."""
    if sample.usable is not None:
        values = values[sample.usable.numpy()]
    if values.dtype.kind == "f":
        missing = np.isnan(values)
    elif values.dtype.kind == "M":
        missing = np.isnat(values)
    elif values.dtype.kind == "O":
        missing = np.array([value is None or value != value for value in values], dtype=bool)
    else:
        missing = np.zeros(len(values), dtype=bool)
    if missing.any():
        raise InputError(
            f"{name} has {int(missing.sum())} missing values in {sample.name} (first at row "
            f"{int(missing.argmax())}), so nobody knows where these rows belong; fill them in, or "
            "leave out the rows."
        )
    return values


def _array(values: Any, sample: Described) -> NDArray[Any]:
    native = as_narwhals(values, sample.name) if not isinstance(values, list | tuple) else values
    array = native.to_numpy() if isinstance(native, nw.Series) else np.asarray(values)
    if array.ndim != 1 or len(array) != sample.size:
        raise InputError(
            f"the values for {sample.name} have the shape {array.shape}, but it has {sample.size} "
            "rows; give one value for each row, in their order."
        )
    return array


def _column(name: str, sample: Described) -> NDArray[Any]:
    parts = [_column_of(name, batch, sample.name) for batch in sample.batches()]
    kinds = {part.dtype.kind for part in parts}
    if len(kinds) > 1 and not kinds <= set("biuf"):
        parts = [part.astype(object) for part in parts]
    return np.concatenate(parts)


def _column_of(name: str, batch: object, sample: str) -> NDArray[Any]:
    if isinstance(batch, Source):
        batch = batch.data
    if isinstance(batch, Table):
        raise InputError(
            f"{sample} is an iterator that can be read only once, and column '{name}' is needed "
            "beside what is tested; pass Stream.batches(function), which can be read again."
        )
    native: Any = batch
    if not isinstance(batch, np.ndarray | Tensor | list | tuple):
        native = as_narwhals(batch, sample)
    if isinstance(native, nw.DataFrame):
        # Names may be numbers, as in pd.DataFrame(array).
        known = {str(column): column for column in native.columns}
        if name not in known:
            raise _no_column(name, sample, list(known))
        column = native[known[name]]
        if column.dtype in (nw.Categorical, nw.Enum, nw.String, nw.Boolean):
            return np.array(column.to_list(), dtype=object)
        return np.asarray(column.to_numpy())
    array = np.asarray(native)
    if array.ndim != 2:
        raise InputError(
            f"{sample} has no column '{name}': it has the shape {array.shape}; give a pair of "
            "arrays, (values for the rows of X, values for the rows of Y)."
        )
    known_places = [str(place) for place in range(array.shape[1])]
    if name not in known_places:
        raise _no_column(name, sample, known_places)
    return np.asarray(array[:, int(name)])


def _no_column(name: str, sample: str, names: list[str]) -> InputError:
    some = ", ".join(names[:10])
    return InputError(f"{sample} has no column '{name}'; it has {some}.")
