"""The door: two samples in any common form become two tensors, and every complaint about data is raised here.

A table becomes float64 columns, an image array becomes (N, C, H, W) pixels. What was learned on the way (column
names, kinds, levels) is a `Schema`, so that data that arrive later are encoded alike.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, TypeAlias, cast

import narwhals as nw
import numpy as np
import torch
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray
from torch import Tensor

from .errors import InputError, InputWarning

Kind: TypeAlias = Literal["numeric", "boolean", "category"]

MAX_LEVELS = 50
"""A column of strings with more pooled levels than this is text, not a category."""

_MOST_LEVELS = 10_000  # of one column of a stream, for an answer before memory is full of them
_CHANNELS = (1, 3, 4)
_LAYOUTS = (
    "(N, height, width) or (N, height, width, channels) of uint8, (N, height, width) or (N, channels, height, width) "
    "of floats, with 1, 3 or 4 channels"
)
_KINDS = {"numeric": "numbers", "boolean": "true and false", "category": "strings or categories"}
_PIXELS = {"uint8": "uint8 pixels in 0..255", "float32": "floats"}
_CHUNK = 2**22  # numbers in float64 at a time: 32 MiB
_FARTHEST = 1e15  # standard deviations: squared distances stay finite in float32


@dataclass(frozen=True)
class Column:
    """One column of a table as the user knows it.

    Attributes
    ----------
    name : str
        The name in the table, or the position for an unnamed column.
    kind : {"numeric", "boolean", "category"}
        How it is encoded: as itself, as 0 and 1, or as one indicator for each level and one for any other.
    levels : tuple of str
        The sorted levels of the pooled samples; empty unless `kind` is "category".
    """

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the encoded columns that this column becomes."""
        if self.kind != "category":
            return (self.name,)
        other = "other" if "other" not in self.levels else "(any other)"
        return tuple(f"{self.name}={level}" for level in (*self.levels, other))


@dataclass(frozen=True)
class Schema:
    """How data become tensors; learned from pooled data, without labels.

    Attributes
    ----------
    kind : {"table", "image"}
    shape : tuple of int
        Shape of one encoded point: (d,) for a table, (C, H, W) for an image.
    columns : tuple of Column
        The columns of a table, in the order in which they are encoded.
    named : bool
        Whether the columns have names of their own, by which they are matched.
    pixels : {"", "uint8", "float32"}
        What image pixels are; a uint8 image and one of floats in [0, 1] are not on the same scale.
    """

    kind: Literal["table", "image"]
    shape: tuple[int, ...]
    columns: tuple[Column, ...] = ()
    named: bool = False
    pixels: Literal["", "uint8", "float32"] = ""

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the encoded columns, such as "height", "colour=red", "colour=other"; empty for images."""
        return tuple(feature for column in self.columns for feature in column.features)

    @property
    def standardised(self) -> tuple[bool, ...]:
        """For each encoded column whether it is standardised; indicators are left as they are."""
        # A rare level divided by its tiny standard deviation would dominate every distance. Left alone, two different
        # levels are at squared distance 2, which is the mean squared distance of a standardised column.
        return tuple(column.kind == "numeric" for column in self.columns for _ in column.features)

    def encode(self, data: object, sample: str) -> Tensor:
        """Validate and encode one sample.

        Parameters
        ----------
        data : array, table or images
            Anything that `as_samples` takes.
        sample : str
            What messages call it: "X" or "Y".

        Returns
        -------
        Tensor
            Of shape (N, d) and float64 for tables, (N, C, H, W) and uint8 or float32 for images.
        """
        data_read = _read(data, sample)
        self._check(data_read, sample)
        return self._tensor(data_read, sample)

    def _check(self, data: _Table | _Images, sample: str, *, warn: bool = True) -> None:
        """Refuse what is unlike the schema; warn of levels that it does not know."""
        if isinstance(data, np.ndarray) != (self.kind == "image"):
            found = "images" if isinstance(data, np.ndarray) else "a table"
            raise InputError(f"The fitted test takes {self.kind}s but {sample} holds {found}; images are {_LAYOUTS}.")
        if isinstance(data, np.ndarray):
            _check_images(self, data, sample, "The fitted test takes")
            return
        for column, position in zip(self.columns, self._places(data, sample), strict=True):
            _check_kind(column, data, position, sample)
            if column.kind == "category" and warn:
                _warn_if_unseen(column, data, position, sample)

    def _places(self, data: _Table, sample: str) -> list[int]:
        return _matching(data, [column.name for column in self.columns], self.named, sample, "the fitted test")

    def _tensor(self, data: _Table | _Images, sample: str) -> Tensor:
        """What has been checked, encoded."""
        if isinstance(data, np.ndarray):
            return torch.from_numpy(data)
        order = self._places(data, sample)
        widths = [len(column.features) for column in self.columns]
        places = np.repeat(order, widths)
        in_order = np.array_equal(places, np.arange(len(data.names)))
        encoded = data.numbers if in_order else np.take(data.numbers, places, axis=1)  # (N, d)
        for column, position, end, width in zip(self.columns, order, np.cumsum(widths), widths, strict=True):
            if column.kind == "category":
                encoded[:, end - width : end] = _indicators(column, data.labels[position])
        return torch.from_numpy(encoded)


@dataclass(frozen=True, eq=False)
class Samples:
    """Two encoded samples and how they were encoded.

    Attributes
    ----------
    x, y : Tensor
        Of shape (n, d) and (m, d) for tables, (n, C, H, W) and (m, C, H, W) for images.
    schema : Schema
    rows : pair of Tensor, optional
        Where these points stood in X and in Y as they came in; None where they are all there, in order.
    """

    x: Tensor
    y: Tensor
    schema: Schema
    rows: tuple[Tensor, Tensor] | None = None

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of points in x and in y."""
        return len(self.x), len(self.y)

    def pooled(self) -> Tensor:
        """The points of x, then those of y."""
        return torch.cat([self.x, self.y])

    def to(self, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Samples:
        """The same samples on another device or in another dtype."""
        x, y = (points.to(device=device, dtype=dtype) for points in (self.x, self.y))
        return Samples(x, y, self.schema, self.rows)


@dataclass(frozen=True, eq=False)
class Scaling:
    """Shift and scale of standardisation, learned from pooled points in float64.

    Attributes
    ----------
    shift, scale : Tensor
        Of shape (d,) for tables and () for images, which have one scale for all pixels.
    """

    shift: Tensor
    scale: Tensor

    @classmethod
    def of(cls, samples: Samples) -> Scaling:
        """Mean and population standard deviation of the pooled points.

        Indicators get shift 0 and scale 1, a column or image that is constant scale 1. Columns of any
        magnitude that float64 can hold are fine: the sums are those of the column divided by a power of two.
        """
        if samples.schema.kind == "image":
            shift, scale = _pixel_moments(samples)
            return cls(torch.tensor(shift, dtype=torch.float64), torch.tensor(scale, dtype=torch.float64))
        numeric = torch.tensor(samples.schema.standardised)
        moments = Moments.of(samples.pooled().to("cpu", torch.float64).numpy())
        shifts, scales = (torch.from_numpy(moment) for moment in moments.shift_and_scale())
        return cls(torch.where(numeric, shifts, 0.0), torch.where(numeric, scales, 1.0))

    def apply(
        self, samples: Samples, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
    ) -> Samples:
        """Give (v - shift) / scale for every value v, computed in float64 and only then cast."""
        x, y = (self._apply(points, dtype, device) for points in (samples.x, samples.y))
        return Samples(x, y, samples.schema, samples.rows)

    def _apply(self, points: Tensor, dtype: torch.dtype, device: torch.device | str) -> Tensor:
        # Halves of large numbers, because the difference of two of them may exceed float64. Small ones are not
        # halved: they might lose a digit. In data that `of` has not seen a value may be too far away for `dtype`.
        half = torch.where(self.scale > 1, 0.5, 1.0).to(torch.float64)
        shift, scale = self.shift * half, self.scale * half
        farthest = min(torch.finfo(dtype).max, _FARTHEST)
        scaled = torch.empty(points.shape, dtype=dtype, device=device)
        start = 0
        for chunk in _chunks(points):
            values = ((chunk * half - shift) / scale).clamp(-farthest, farthest)
            scaled[start : start + len(chunk)] = values.to(dtype)
            start += len(chunk)
        return scaled


def as_samples(X: object, Y: object, *, schema: Schema | None = None) -> Samples:
    """Validate two samples and encode them as tensors.

    Parameters
    ----------
    X, Y : array, table or images
        NumPy arrays, torch tensors or nested lists of numbers, one row a point (one dimension is one column); pandas,
        polars or pyarrow tables with numeric, boolean, string or categorical columns, matched by name; or images:
        (N, H, W) or (N, H, W, C) of uint8, (N, H, W) or (N, C, H, W) of floats.
    schema : Schema, optional
        How earlier data were encoded. Without it the schema is learned from X and Y pooled.

    Returns
    -------
    Samples

    Raises
    ------
    InputError
        If the data cannot be tested as they are: the message names sample, row and column, and what to do.

    Warns
    -----
    InputWarning
        If columns are constant, or levels of a category are not those of the `schema`.

    Examples
    --------
    >>> samples = as_samples([[1.0, 2.0], [3.0, 5.0]], [[0.0, 2.0]])
    >>> samples.sizes, samples.schema.features
    ((2, 1), ('0', '1'))
    """
    x, y = _read(X, "X"), _read(Y, "Y")
    if schema is None:
        schema = _learn(x, y)
    schema._check(x, "X")
    schema._check(y, "Y")
    samples = Samples(schema._tensor(x, "X"), schema._tensor(y, "Y"), schema)
    low, high = torch.minimum(samples.x.amin(0), samples.y.amin(0)), torch.maximum(samples.x.amax(0), samples.y.amax(0))
    _warn_if_constant(schema, low, high)
    return samples


def split(samples: Samples, train_fraction: float, generator: torch.Generator) -> tuple[Samples, Samples]:
    """Split each sample at random, on its own.

    Parameters
    ----------
    samples : Samples
    train_fraction : float
        Share of each sample, between 0 and 1, that goes to the first part. Either part gets at least two rows.
    generator : torch.Generator
        On the CPU, so that every device gives the same split.

    Returns
    -------
    train, held_out : Samples
    """
    known = samples.rows or (torch.arange(len(samples.x)), torch.arange(len(samples.y)))
    first: list[tuple[Tensor, Tensor]] = []
    second: list[tuple[Tensor, Tensor]] = []
    drawn = split_rows(samples.sizes, train_fraction, generator)
    for points, rows, indices in zip((samples.x, samples.y), known, drawn, strict=True):
        for part, index in zip((first, second), indices, strict=True):
            part.append((points[index.to(points.device)], rows[index]))
    train, held_out = (Samples(x, y, samples.schema, (rows_x, rows_y)) for (x, rows_x), (y, rows_y) in (first, second))
    return train, held_out


def split_rows(
    sizes: tuple[int, int], train_fraction: float, generator: torch.Generator, *, most: int | None = None
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """For each sample the rows to train on, at most `most` of them, and all others, both in random order."""
    if not 0 < train_fraction < 1:
        raise InputError(f"train_fraction={train_fraction} must lie between 0 and 1, without the ends; try 0.5.")
    least = 2  # rows in each part: an unbiased MMD has no value with fewer
    for name, size in zip("XY", sizes, strict=True):
        if size < 2 * least:
            raise InputError(
                f"{name} has {_count(size, 'row')}; with train_fraction={train_fraction} "
                f"the test needs at least {2 * least} in each sample."
            )

    def cut(size: int) -> tuple[Tensor, Tensor]:
        order = torch.randperm(size, generator=generator)
        wanted = round(size * train_fraction) if most is None else min(round(size * train_fraction), most)
        count = min(max(wanted, least), size - least)
        return order[:count], order[count:]

    return cut(sizes[0]), cut(sizes[1])


# A sample that comes in batches: one pass tells what `as_samples` finds out about data that are all there.


class Profile:
    """What one pass over the batches of a sample tells: rows, columns, levels, moments; with every complaint.

    Rows are counted over all batches, and no more than one batch is held.

    Parameters
    ----------
    sample : str
        What messages call it: "X" or "Y".
    """

    def __init__(self, sample: str) -> None:
        self.sample, self.rows, self.batches = sample, 0, 0
        self._form: _Table | _Images | None = None  # the sample without rows; its labels are the levels seen so far
        self._levels: dict[int, set[str]] = {}
        self._moments: Moments | None = None

    def read(self, batch: object) -> _Table | _Images:
        """The next batch, validated, its columns in the order of the first."""
        try:
            return self._like_the_first(_read(batch, self.sample, self.rows))
        except InputError as error:
            if not self.batches:
                raise
            where = f"this is batch {self.batches + 1} of {self.sample}, which begins at row {self.rows}"
            raise InputError(f"{error} ({where})") from error

    def include(self, data: _Table | _Images) -> None:
        """Count what `read` gave; this destroys its numbers."""
        self.rows, self.batches = self.rows + len(data), self.batches + 1
        if isinstance(data, np.ndarray):
            flat = data.reshape(-1, 1)  # images have one scale for all pixels
            pieces: Iterator[NDArray[np.float64]] = (
                flat[start : start + _CHUNK].astype(np.float64) for start in range(0, len(flat), _CHUNK)
            )
        else:
            pieces = iter([data.numbers])
            for position, labels in data.labels.items():
                levels = self._levels.setdefault(position, set())
                levels.update(labels)
                if len(levels) > _MOST_LEVELS:
                    raise InputError(
                        f"{self.sample} has more than {_MOST_LEVELS} different values in {data.where(position)}, and "
                        f"a category has at most {MAX_LEVELS}: it looks like text; drop it, group its values or turn "
                        "it into numbers."
                    )
        for piece in pieces:
            moments = Moments.of(piece)
            self._moments = moments if self._moments is None else self._moments.merged(moments)

    @property
    def numbers(self) -> int:
        """How many numbers a row has."""
        form = self._form
        return 0 if form is None else int(np.prod(form.shape[1:] if isinstance(form, np.ndarray) else len(form.names)))

    def _like_the_first(self, data: _Table | _Images) -> _Table | _Images:
        first, name = f"the first batch of {self.sample}", f"batch {self.batches + 1} of {self.sample}"
        if self._form is None:
            if isinstance(data, np.ndarray):
                self._form = data[:0].copy()
            else:
                self._form = _Table(data.names, data.named, list(data.kinds), data.numbers[:0].copy(), {})
        if isinstance(self._form, np.ndarray) and isinstance(data, np.ndarray):
            pixels: Literal["uint8", "float32"] = "uint8" if self._form.dtype == np.uint8 else "float32"
            _check_images(Schema("image", self._form.shape[1:], pixels=pixels), data, name, f"T{first[1:]} holds")
            return data
        if isinstance(self._form, np.ndarray) or isinstance(data, np.ndarray):
            images, table = (first, name) if isinstance(self._form, np.ndarray) else (name, first)
            raise InputError(f"{images} holds images but {table} is a table; pass batches of the same form.")
        order = _matching(data, self._form.names, self._form.named, name, first)
        data = data if order == list(range(len(order))) else data.columns(order)
        for position, (before, now) in enumerate(zip(self._form.kinds, data.kinds, strict=True)):
            if (before == "category") != (now == "category"):
                where, was, found = data.where(position), _KINDS[before], _KINDS[now]
                raise InputError(f"{name} has {found} in {where}, but {was} came before; convert all the same way.")
            self._form.kinds[position] = before if before == now else "numeric"
        return data

    def summary(self) -> _Table | _Images:
        """The sample without rows: all that a schema depends on."""
        if self._form is None:
            raise InputError(f"{self.sample} is empty: it has 0 rows.")
        if isinstance(self._form, np.ndarray):
            return self._form
        labels = {position: sorted(levels) for position, levels in self._levels.items()}
        return _Table(self._form.names, self._form.named, self._form.kinds, self._form.numbers, labels)

    def moments(self, schema: Schema) -> Moments:
        """Those of each column of the schema before it is encoded, or of all pixels."""
        form = self.summary()
        if self._moments is None:
            raise InputError(f"{self.sample} is empty: it has 0 rows.")
        if isinstance(form, np.ndarray):
            return self._moments
        return self._moments.columns(schema._places(form, self.sample))

    def levels(self, schema: Schema) -> list[set[str]]:
        """Those of each column of a table."""
        form = self.summary()
        places = [] if isinstance(form, np.ndarray) else schema._places(form, self.sample)
        return [self._levels.get(place, set()) for place in places]


def schema_and_scaling(x: Profile, y: Profile, schema: Schema | None = None) -> tuple[Schema, Scaling]:
    """What `as_samples` and `Scaling.of` give for two samples of which one pass has been made, with their warnings.

    Parameters
    ----------
    x, y : Profile
        Of all of X and of Y.
    schema : Schema, optional
        How earlier data were encoded; it is returned then.
    """
    if schema is None:
        schema = _learn(x.summary(), y.summary())
    for profile in (x, y):
        schema._check(profile.summary(), profile.sample)
    moments = x.moments(schema).merged(y.moments(schema))
    shift, scale = (torch.from_numpy(values) for values in moments.shift_and_scale())
    low, high = torch.from_numpy(moments.low), torch.from_numpy(moments.high)
    if schema.kind == "image":
        _warn_if_constant(schema, low, high)
        return schema, Scaling(shift[0], scale[0])
    widths = torch.tensor([len(column.features) for column in schema.columns])
    shift, scale, low, high = (values.repeat_interleave(widths) for values in (shift, scale, low, high))
    numeric = torch.tensor(schema.standardised)
    seen = [of_x | of_y for of_x, of_y in zip(x.levels(schema), y.levels(schema), strict=True)]
    for column, levels, end in zip(schema.columns, seen, widths.cumsum(0).tolist(), strict=True):
        if column.kind == "category":  # of its indicators, some vary where there are two levels, any other being one
            known = levels & set(column.levels)
            high[end - len(column.features) : end] = float(len(known) + bool(levels - known) > 1)
    _warn_if_constant(schema, low, high)
    return schema, Scaling(torch.where(numeric, shift, 0.0), torch.where(numeric, scale, 1.0))


# Reading: whatever came in becomes a _Table or an array of images, with nothing missing and nothing infinite.


@dataclass(frozen=True)
class _Table:
    """A table without gaps: its own copy of the numbers (N, d), with zeros for a category, whose labels are apart."""

    names: list[str]
    named: bool
    kinds: list[Kind]
    numbers: NDArray[np.float64]
    labels: dict[int, list[str]]

    def __len__(self) -> int:
        return len(self.numbers)

    def where(self, position: int) -> str:
        """What messages call a column."""
        return f"column '{self.names[position]}'" if self.named else f"column {self.names[position]}"

    def take(self, rows: NDArray[np.int64]) -> _Table:
        """Some of the rows."""
        labels = {position: [labels[row] for row in rows] for position, labels in self.labels.items()}
        return _Table(self.names, self.named, self.kinds, self.numbers[rows], labels)

    def columns(self, order: list[int]) -> _Table:
        """The columns in another order."""
        labels = {place: self.labels[position] for place, position in enumerate(order) if position in self.labels}
        names, kinds = [self.names[position] for position in order], [self.kinds[position] for position in order]
        return _Table(names, self.named, kinds, np.take(self.numbers, order, axis=1), labels)


_Images: TypeAlias = NDArray[Any]  # (N, C, H, W), uint8 or float32


def _read(data: object, sample: str, first: int = 0) -> _Table | _Images:
    """Validate `data`, whose first row messages call row `first`."""
    if isinstance(data, _Table):
        return data
    if isinstance(data, torch.Tensor):
        array = _from_torch(data, sample)
    else:
        native: Any = data if isinstance(data, (np.ndarray, list, tuple)) else _as_narwhals(data, sample)
        if isinstance(native, nw.DataFrame):
            names = [str(name) for name in native.columns]
            # Names that only count the columns, such as those of pd.DataFrame(array), are no names.
            named = names != [str(position) for position in range(len(names))]
            return _read_table(list(native.iter_columns()), names, named, len(native), sample, first)
        if isinstance(native, nw.Series):
            return _read_table([native], [str(native.name or 0)], False, len(native), sample, first)
        array = _from_numpy(native, sample)
    if array.ndim == 0:
        found = type(data).__name__
        raise InputError(f"{sample} is a single {found}, not rows; pass a 2-D array or a table, one row a point.")
    _check_size(len(array), int(np.prod(array.shape[1:])), sample)
    return _read_array(array.reshape(-1, 1) if array.ndim == 1 else array, sample, first)


def _from_torch(data: Tensor, sample: str) -> NDArray[Any]:
    if data.layout != torch.strided:
        raise InputError(f"{sample} is a sparse or nested tensor ({data.layout}); pass a dense one, see to_dense().")
    if data.is_floating_point() and data.dtype != torch.float64:
        data = data.float()  # NumPy has no bfloat16
    array: NDArray[Any] = data.numpy(force=True)
    return array


def _from_numpy(data: Any, sample: str) -> NDArray[Any]:
    if isinstance(data, np.ma.MaskedArray) and data.dtype.kind in "biuf" and np.ma.is_masked(data):
        data = np.ma.filled(data.astype(np.float64), np.nan)  # np.asarray would show what the mask hides
    try:
        return np.asarray(data)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(f"{sample} is no array of numbers ({error}); pass rows of the same length.") from error


def _as_narwhals(data: object, sample: str) -> object:
    """A narwhals table or series, or `data` itself if it is neither."""
    try:
        native: object = nw.from_native(cast("Any", data), allow_series=True, pass_through=True)
    except DuplicateError as error:
        raise InputError(f"{sample} has several columns of the same name; rename them. {error}") from error
    if isinstance(native, nw.LazyFrame):
        raise InputError(f"{sample} is a lazy table; collect it before testing.")
    if native is data and hasattr(data, "__dataframe__"):
        raise InputError(f"{sample} is a {type(data).__name__}; convert it to a pandas, polars or pyarrow table.")
    if native is data and hasattr(data, "toarray"):
        raise InputError(f"{sample} is a sparse matrix; pass {sample}.toarray().")
    return native


def _read_array(array: NDArray[Any], sample: str, first: int) -> _Table | _Images:
    kind, found = array.dtype.kind, f"(dtype={array.dtype})"
    if kind in "biuf":
        return _read_images(array, sample, first) if array.ndim > 2 else _read_matrix(array, sample, first)
    if kind == "O":
        gaps = np.array([np.nan if value is None else 0.0 for value in array.flat])
        _check_finite(gaps.reshape(len(array), -1), sample, lambda place: f"column {place[1]}", first)
        complaint = f"is an object array {found}; convert it to numbers, or pass a table with named columns"
    elif kind in "US":
        complaint = f"is an array of strings {found}; pass a table with named columns, where strings are categories"
    elif kind in "mM":
        complaint = f"holds dates or durations {found}; turn them into numbers, such as days since a fixed date"
    elif kind == "c":
        complaint = f"is complex {found}; pass the real and the imaginary parts as columns of their own"
    else:
        complaint = f"does not hold numbers {found}; pass a table with named columns"
    raise InputError(f"{sample} {complaint}.")


def _read_matrix(array: NDArray[Any], sample: str, first: int) -> _Table:
    with np.errstate(over="ignore"):  # a long double may become infinite: found below
        numbers = array.astype(np.float64, order="C")  # (N, d)
    _check_finite(numbers, sample, lambda place: f"column {place[1]}", first)
    width = array.shape[1]
    kinds: list[Kind] = ["boolean" if array.dtype.kind == "b" else "numeric"] * width
    return _Table([str(position) for position in range(width)], False, kinds, numbers, {})


def _read_images(array: NDArray[Any], sample: str, first: int) -> _Images:
    whole, shape = array.dtype == np.uint8, array.shape
    known = whole or array.dtype.kind == "f"
    if array.ndim == 3 and known:
        array = array[:, None]
    elif array.ndim == 4 and known and (shape[1] in _CHANNELS or shape[3] in _CHANNELS):
        # Where both axes could be the channels, bytes have them last, as files do, and floats first, as torch does.
        last = shape[3] in _CHANNELS and (whole or shape[1] not in _CHANNELS)
        array = array.transpose(0, 3, 1, 2) if last else array
    else:
        found = f"shape {shape} and dtype {array.dtype}"
        raise InputError(f"{sample} has {found}; a table is 2-D, and images are {_LAYOUTS}.")
    with np.errstate(over="ignore"):  # a double may become infinite: found below
        images = array.astype(np.uint8 if whole else np.float32, order="C")  # (N, C, H, W), always a copy
    _check_finite(images, sample, lambda place: f"channel {place[1]}, pixel ({place[2]}, {place[3]})", first)
    return images


def _read_table(
    series: list[nw.Series[Any]], names: list[str], named: bool, rows: int, sample: str, first: int
) -> _Table:
    _check_size(rows, len(names), sample)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"{sample} has several columns of the name {_listed(twice)}; rename them.")
    table = _Table(names, named, [], np.zeros((rows, len(names))), {})
    for position, column in enumerate(series):
        missing = np.asarray(column.is_null().to_numpy(), dtype=bool)
        if missing.any():
            table.numbers[missing, position] = np.nan
            continue
        kind, values = _read_column(column, table.where(position), sample)
        table.kinds.append(kind)
        if isinstance(values, list):
            table.labels[position] = values
        else:
            table.numbers[:, position] = values
    _check_finite(table.numbers, sample, lambda place: table.where(place[1]), first)
    return table


def _read_column(column: nw.Series[Any], where: str, sample: str) -> tuple[Kind, NDArray[np.float64] | list[str]]:
    dtype = column.dtype
    if dtype.is_numeric():
        return "numeric", np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64)
    if dtype == nw.Boolean:
        return "boolean", np.asarray(column.to_numpy(), dtype=np.float64)
    if dtype in (nw.Categorical, nw.Enum):
        # The levels 1.0 and 1 are one: pandas makes floats of integers where something was missing once.
        plain = (int(v) if isinstance(v, float) and v.is_integer() else v for v in column.to_list())
        return "category", [str(value) for value in plain]
    if dtype in (nw.String, nw.Object):
        values = column.to_list()
        if all(isinstance(value, str) for value in values):
            return "category", values
        if all(isinstance(value, Decimal) for value in values):
            return "numeric", np.array(values, dtype=np.float64)
        remedy = "turn all its values into numbers, or all into strings"
    elif dtype.is_temporal():
        remedy = "turn it into a number, such as days since a fixed date"
    elif dtype.is_nested():
        remedy = "spread it over columns of numbers"
    else:
        remedy = "turn it into numbers or strings, or drop it"
    raise InputError(f"{sample} has values of type {dtype} in {where}, which cannot be tested; {remedy}.")


def _check_size(rows: int, columns: int, sample: str) -> None:
    if rows == 0 or columns == 0:
        raise InputError(f"{sample} is empty: it has {_count(rows, 'row')} and {_count(columns, 'column')}.")


def _check_finite(values: NDArray[Any], sample: str, where: Callable[[list[int]], str], start: int) -> None:
    """Refuse missing and infinite values; `where` turns the indices of a value into its place in the row.

    Rows are counted from `start`.
    """
    if values.dtype.kind != "f" or (gaps := ~np.isfinite(values)).sum() == 0:
        return
    first = [int(index) for index in np.unravel_index(int(gaps.argmax()), gaps.shape)]
    what = _count(int(gaps.sum()), "non-finite value" if np.isinf(values[gaps]).any() else "missing value")
    place = f"first at row {start + first[0]}, {where(first)}"
    raise InputError(f"{sample} contains {what} ({place}); drop or impute them before testing.")


# Learning a schema, and holding data against one.


def _learn(x: _Table | _Images, y: _Table | _Images) -> Schema:
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        schema = Schema("image", x.shape[1:], pixels="uint8" if x.dtype == np.uint8 else "float32")
        _check_images(schema, y, "Y", "X holds")
        return schema
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        images, table = ("X", "Y") if isinstance(x, np.ndarray) else ("Y", "X")
        raise InputError(f"{images} holds images but {table} is a table; pass two samples of the same form.")
    order = _matching(y, x.names, x.named, "Y", "X")
    columns = tuple(_learn_column(x, here, y, there) for here, there in enumerate(order))
    return Schema("table", (sum(len(column.features) for column in columns),), columns, x.named)


def _learn_column(x: _Table, here: int, y: _Table, there: int) -> Column:
    name, kinds, where = x.names[here], (x.kinds[here], y.kinds[there]), x.where(here)
    if kinds == ("category", "category"):
        levels = sorted({*x.labels[here], *y.labels[there]})
        if len(levels) > MAX_LEVELS:
            raise InputError(
                f"X and Y together have {len(levels)} different values in {where}, and a category has at most "
                f"{MAX_LEVELS}: it looks like text; drop it, group its values or turn it into numbers."
            )
        return Column(name, "category", tuple(levels))
    if "category" in kinds:
        found = [_KINDS[kind] for kind in kinds]
        raise InputError(f"X has {found[0]} in {where} but Y has {found[1]}; convert both the same way.")
    return Column(name, "boolean" if kinds == ("boolean", "boolean") else "numeric")


def _matching(table: _Table, names: list[str], named: bool, sample: str, other: str) -> list[int]:
    """Positions in `table`, which is called `sample`, of the columns `names` of `other`."""
    if set(table.names) == set(names):
        positions = {name: position for position, name in enumerate(table.names)}
        return [positions[name] for name in names]
    if len(table.names) == len(names) == 1 and not (table.named and named):
        return [0]  # two vectors can be compared whatever they are called
    if table.named != named:
        with_names, without = (sample, other) if table.named else (other, sample)
        complaint = f"{with_names} has named columns but {without} has none; pass both as tables or both as arrays."
    elif named:
        missing = [(sample, set(names) - set(table.names)), (other, set(table.names) - set(names))]
        parts = [f"missing in {owner}: {_listed(sorted(absent))}" for owner, absent in missing if absent]
        complaint = f"{other} and {sample} have different columns; {'; '.join(parts)}."
    else:
        both = "both samples" if other == "X" else "both"
        count = _count(len(names), "column")
        complaint = f"{other} has {count} but {sample} has {len(table.names)}; {both} must have the same features."
    raise InputError(complaint[0].upper() + complaint[1:])


def _check_kind(column: Column, table: _Table, position: int, sample: str) -> None:
    kind, where = table.kinds[position], table.where(position)
    if (kind == "category") != (column.kind == "category"):
        raise InputError(f"{sample} has {_KINDS[kind]} in {where}, but the fitted test takes {_KINDS[column.kind]}.")
    if (kind, column.kind) == ("numeric", "boolean") and not np.isin(table.numbers[:, position], (0.0, 1.0)).all():
        raise InputError(f"{sample} has other numbers than 0 and 1 in {where}; the fitted test takes true and false.")


def _warn_if_unseen(column: Column, table: _Table, position: int, sample: str) -> None:
    if unseen := sorted(set(table.labels[position]) - set(column.levels)):
        count, where = _count(len(unseen), "level"), table.where(position)
        _warn(f"{sample} has {count} in {where} that the test was not fitted on, taken as 'other': {_listed(unseen)}.")


def _indicators(column: Column, labels: Sequence[str]) -> NDArray[np.float64]:
    """A category as (N, levels + 1) zeros and ones; the last is for levels that the schema does not know."""
    index = {level: place for place, level in enumerate(column.levels)}
    return np.eye(len(index) + 1)[[index.get(label, len(index)) for label in labels]]


def _check_images(schema: Schema, images: _Images, sample: str, takes: str) -> None:
    """Refuse images unlike those of `schema`; `takes` begins the sentence."""
    if images.shape[1:] != schema.shape:
        expected, found = (" x ".join(map(str, shape)) for shape in (schema.shape, images.shape[1:]))
        raise InputError(
            f"{takes} images of {expected} (channels x height x width) but {sample} holds images of {found}; "
            "bring all to the same form."
        )
    if images.dtype != schema.pixels:
        expected, found = _PIXELS[schema.pixels], _PIXELS[str(images.dtype)]
        raise InputError(f"{takes} {expected} but {sample} holds {found}; convert both the same way.")


def _warn_if_constant(schema: Schema, low: Tensor, high: Tensor) -> None:
    """Warn of columns whose encoded values, from `low` to `high` over both samples, are all the same."""
    if schema.kind == "image":
        # Single pixels are often constant, as in the corners of digits.
        if low.min() == high.max():
            _warn(f"Every pixel of X and Y has the value {low.min().item()}; such images carry no information.")
        return
    varies = iter((low != high).tolist())  # one for each encoded column
    own = {column.name: [next(varies) for _ in column.features] for column in schema.columns}
    constant = [name for name, moves in own.items() if not any(moves)]
    if constant:
        count, are = _count(len(constant), "column"), "is" if len(constant) == 1 else "are"
        listed = _listed(constant, "'" if schema.named else "")
        _warn(f"{count} {are} constant over X and Y together ({listed}); constant columns carry no information.")


# Standardisation.


def _chunks(points: Tensor) -> Iterator[Tensor]:
    """Some rows at a time, in float64 on the CPU: not every device has float64."""
    rows = max(1, _CHUNK // max(1, points[:1].numel()))
    for start in range(0, len(points), rows):
        yield points[start : start + rows].to("cpu", torch.float64)


def _pixel_moments(samples: Samples) -> tuple[float, float]:
    points = (samples.x, samples.y)
    low, high = min(float(part.min()) for part in points), max(float(part.max()) for part in points)
    if low == high:
        return low, 1.0
    count = samples.x.numel() + samples.y.numel()
    mean = sum(float(chunk.sum()) for part in points for chunk in _chunks(part)) / count
    square = sum(float((chunk - mean).square().sum()) for part in points for chunk in _chunks(part)) / count
    return mean, square**0.5


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and sum of squared deviations of columns; those of two parts of the data merge into those of both.

    Columns of any magnitude that float64 can hold are fine: their own power of two, 2^`exponent`, is their unit.
    """

    count: int
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    exponent: NDArray[np.int64]
    mean: NDArray[np.float64]
    square: NDArray[np.float64]

    @classmethod
    def of(cls, points: NDArray[np.float64]) -> Moments:
        """Those of (N, d) `points`, which are destroyed."""
        low, high = points.min(axis=0), points.max(axis=0)
        size = np.maximum(np.abs(low), np.abs(high))
        exponent = np.where(size > 0, np.frexp(size)[1], -1100)  # zeros must not make other parts' values too small
        np.ldexp(points, -exponent, out=points)  # exact, and now |value| <= largest < 1: no square overflows
        mean = points.mean(axis=0)
        points -= mean
        rest = points.mean(axis=0)  # what rounding left of the mean, when it is large beside the deviation
        points -= rest
        return cls(len(points), low, high, exponent, mean + rest, np.einsum("ij,ij->j", points, points))

    def merged(self, other: Moments) -> Moments:
        """Those of both parts together."""
        exponent = np.maximum(self.exponent, other.exponent)
        mean, apart = (np.ldexp(part.mean, part.exponent - exponent) for part in (self, other))
        square, further = (np.ldexp(part.square, 2 * (part.exponent - exponent)) for part in (self, other))
        count = self.count + other.count
        apart -= mean
        return Moments(
            count,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            exponent,
            mean + apart * (other.count / count),
            square + further + apart**2 * (self.count * (other.count / count)),
        )

    def columns(self, order: Sequence[int]) -> Moments:
        """Those of the columns at these places."""
        of = np.asarray(order, dtype=np.int64)
        return Moments(self.count, self.low[of], self.high[of], self.exponent[of], self.mean[of], self.square[of])

    def shift_and_scale(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard deviation of each column; of one that is constant, its value and 1."""
        largest = 1 - 2.0**-53
        shift = np.ldexp(np.clip(self.mean, -largest, largest), self.exponent)
        scale = np.ldexp(np.minimum(np.sqrt(self.square / self.count), largest), self.exponent)
        constant = self.low == self.high
        tiny = np.finfo(np.float64).tiny
        return np.where(constant, self.low, shift), np.where(constant, 1.0, np.maximum(scale, tiny))


# Words.


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _listed(names: Sequence[str], quote: str = "'") -> str:
    listed = ", ".join(f"{quote}{name}{quote}" for name in names[:5])
    return listed if len(names) <= 5 else f"{listed}, ... {len(names)} in all"


def _warn(message: str) -> None:
    """Warn at the line of the caller's own code, however deep in the library this is."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "twosample":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, InputWarning, stacklevel=level)
