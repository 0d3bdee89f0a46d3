"""The door: two samples in any common form become two tensors, and every complaint about data is raised here.

A table becomes float64 columns, an image array becomes (N, C, H, W) pixels. What was learned on the
way (column names, kinds, levels) is a `Schema`, so that data that arrive later are encoded alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._resources import Resources
from ..errors import InputError, warn
from .columns import Columns
from .tables import (
    AS_FOUND,
    LAYOUTS,
    Found,
    Images,
    Kind,
    Origin,
    Source,
    Table,
    count,
    listed,
    read,
)

MAX_LEVELS = 50
"""A column of strings with more pooled levels than this is text, not a category."""

_MOST_LEVELS = 10_000  # of one column of a stream, for an answer before memory is full of them
_KINDS = {
    "numeric": "numbers",
    "boolean": "true and false",
    "category": "strings or categories",
    "unknown": "nothing but missing values",
}
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
        How it is encoded: as itself, as 0 and 1, or as one indicator for each level and one for any
        other.
    levels : tuple of str
        The sorted levels of the pooled samples; empty unless `kind` is "category".
    missing : bool
        Whether an indicator of its own says where values are missing.
    fill : float
        What is in their place then: the pooled mean of the others; in a category every other
        indicator is 0.
    """

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()
    missing: bool = False
    fill: float = 0.0

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the encoded columns that this column becomes."""
        gap = (f"{self.name} is missing",) if self.missing else ()
        if self.kind != "category":
            return (self.name, *gap)
        other = "other" if "other" not in self.levels else "(any other)"
        return (*(f"{self.name}={level}" for level in (*self.levels, other)), *gap)


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
    rules : Columns
        What the user said of columns and missing values; it holds for later data too.
    """

    kind: Literal["table", "image"]
    shape: tuple[int, ...]
    columns: tuple[Column, ...] = ()
    named: bool = False
    pixels: Literal["", "uint8", "float32"] = ""
    rules: Columns = AS_FOUND

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the encoded columns, such as "height", "colour=red", "colour=other"; empty for images."""
        return tuple(feature for column in self.columns for feature in column.features)

    @property
    def standardised(self) -> tuple[bool, ...]:
        """For each encoded column whether it is standardised; indicators are left as they are."""
        # A rare level divided by its tiny standard deviation would dominate every distance. Left
        # alone, two different levels are at squared distance 2, which is the mean squared distance
        # of a standardised column.
        return tuple(
            column.kind == "numeric" and feature == column.name
            for column in self.columns
            for feature in column.features
        )

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
        # Whoever asks for points wants one for each row.
        rules = replace(self.rules, missing="error") if self.rules.missing == "drop" else self.rules
        data_read = read(data, Origin.of(data, sample), rules)
        self._check(data_read, sample)
        self._check_gaps(self._gaps(data_read, sample), sample)
        return self._tensor(data_read, sample)

    def _check(self, data: Table | Images, sample: str, *, warn: bool = True) -> None:
        """Refuse what is unlike the schema; warn of levels that it does not know."""
        if isinstance(data, np.ndarray) != (self.kind == "image"):
            found = "images" if isinstance(data, np.ndarray) else "a table"
            raise InputError(
                f"The fitted test takes {self.kind}s but {sample} holds {found}; images are "
                f"{LAYOUTS}."
            )
        if isinstance(data, np.ndarray):
            _check_images(self, data, sample, "The fitted test takes")
            return
        for column, position in zip(self.columns, self._places(data, sample), strict=True):
            _check_kind(column, data, position, sample)
            if column.kind == "category" and warn:
                _warn_if_unseen(column, data, position, sample)

    def _check_gaps(self, gaps: Sequence[int] | NDArray[np.int64], sample: str) -> None:
        """Refuse missing values, so many in each column, where there is no indicator for them."""
        for column, found in zip(self.columns, gaps, strict=True):
            if found and not column.missing:
                where = f"column '{column.name}'" if self.named else f"column {column.name}"
                raise InputError(
                    f"{sample} has {count(int(found), 'missing value')} in {where}, but none were "
                    "missing there when "
                    "the test was fitted; impute them, or fit a test on data where some are."
                )

    def _gaps(self, data: Table | Images, sample: str) -> NDArray[np.int64]:
        """How many values are missing in each column, where they stay."""
        if isinstance(data, Table) and self.rules.missing == "indicator":
            return data.gaps()[self._places(data, sample)]
        return np.zeros(len(self.columns), dtype=np.int64)

    def _places(self, data: Table, sample: str) -> list[int]:
        return _matching(
            data, [column.name for column in self.columns], self.named, sample, "the fitted test"
        )

    def _tensor(self, data: Table | Images, sample: str) -> Tensor:
        """What has been checked, encoded."""
        if isinstance(data, np.ndarray):
            return torch.from_numpy(data)
        order = self._places(data, sample)
        widths = [len(column.features) for column in self.columns]
        places = np.repeat(order, widths)
        in_order = np.array_equal(places, np.arange(len(data.names)))
        encoded = data.numbers if in_order else np.take(data.numbers, places, axis=1)  # (N, d)
        for column, position, end, width in zip(
            self.columns, order, np.cumsum(widths), widths, strict=True
        ):
            if column.kind == "category":
                encoded[:, end - width : end] = _indicators(column, data, position)
            elif column.missing:
                gaps = np.isnan(encoded[:, end - 1])
                encoded[gaps, end - width], encoded[:, end - 1] = column.fill, gaps
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
        Where these points stood in X and in Y as they came in; None where they are all there, in
        order.
    dropped : pair of int
        How many rows of X and of Y were left out because something in them was missing.
    """

    x: Tensor
    y: Tensor
    schema: Schema
    rows: tuple[Tensor, Tensor] | None = None
    dropped: tuple[int, int] = (0, 0)

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of points in x and in y."""
        return len(self.x), len(self.y)

    def pooled(self) -> Tensor:
        """The points of x, then those of y."""
        return torch.cat([self.x, self.y])

    def to(
        self, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Samples:
        """The same samples on another device or in another dtype."""
        x, y = (points.to(device=device, dtype=dtype) for points in (self.x, self.y))
        return replace(self, x=x, y=y)


@dataclass(frozen=True, eq=False)
class EmbeddedSamples:
    """Two samples of which only what the statistic needs is left: points as a kernel compares them, or features.

    Attributes
    ----------
    parts
        The embedded points of X, then of Y, as `Kernel.embed` gives them: tensors with one row a
        point.
    sizes
        Number of points of X and of Y.
    schema
        How the rows were encoded.
    dropped
        How many rows of X and of Y were left out because something in them was missing.
    resources
        What may be used to compare the points.
    """

    parts: tuple[Tensor, ...]
    sizes: tuple[int, int]
    schema: Schema
    dropped: tuple[int, int] = (0, 0)
    resources: Resources = Resources()

    def to(self, *, device: torch.device | str) -> EmbeddedSamples:
        """The same points on another device."""
        return replace(self, parts=tuple(part.to(device) for part in self.parts))


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

        Indicators get shift 0 and scale 1, a column or image that is constant scale 1. Columns of
        any magnitude that float64 can hold are fine: the sums are those of the column divided by a
        power of two.
        """
        if samples.schema.kind == "image":
            shift, scale = _pixel_moments(samples)
            return cls(
                torch.tensor(shift, dtype=torch.float64), torch.tensor(scale, dtype=torch.float64)
            )
        numeric = torch.tensor(samples.schema.standardised)
        moments = Moments.of(samples.pooled().to("cpu", torch.float64).numpy())
        shifts, scales = (torch.from_numpy(moment) for moment in moments.shift_and_scale())
        return cls(torch.where(numeric, shifts, 0.0), torch.where(numeric, scales, 1.0))

    def apply(
        self,
        samples: Samples,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> Samples:
        """Give (v - shift) / scale for every value v, computed in float64 and only then cast."""
        x, y = (self._apply(points, dtype, device) for points in (samples.x, samples.y))
        return replace(samples, x=x, y=y)

    def undo(self, points: Tensor) -> Tensor:
        """Give scaled points, or one of them, in the user's units again: in float64, on the CPU."""
        return points.detach().to("cpu", torch.float64) * self.scale + self.shift

    def _apply(self, points: Tensor, dtype: torch.dtype, device: torch.device | str) -> Tensor:
        # Halves of large numbers, because the difference of two of them may exceed float64. Small
        # ones are not halved: they might lose a digit. In data that `of` has not seen a value may
        # be too far away for `dtype`.
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


def as_samples(
    X: object, Y: object, *, schema: Schema | None = None, columns: Columns | None = None
) -> Samples:
    """Validate two samples and encode them as tensors.

    Parameters
    ----------
    X, Y : array, table or images
        NumPy arrays, torch tensors or nested lists of numbers, one row a point (one dimension is
        one column); pandas, polars or pyarrow tables with numeric, boolean, string or categorical
        columns, matched by name; or images: (N, H, W) or (N, H, W, C) of uint8, (N, H, W) or (N, C,
        H, W) of floats.
    schema : Schema, optional
        How earlier data were encoded. Without it the schema is learned from X and Y pooled.
    columns : Columns, optional
        Which columns to take, as what, and what becomes of missing values. A schema has its own.

    Returns
    -------
    Samples

    Raises
    ------
    InputError
        If the data cannot be tested as they are: the message names sample, row and column, and what
        to do.

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
    rules = rules_of(schema, columns)
    origins = Origin.of(X, "X"), Origin.of(Y, "Y")
    names = origins[0].sample, origins[1].sample
    x, y = (read(data, origin, rules) for data, origin in zip((X, Y), origins, strict=True))
    whole, rows = (len(x), len(y)), None
    if rules.missing == "drop" or any(_rows_of(data) is not None for data in (X, Y)):
        (x, of_x), (y, of_y) = (
            _usable(x, _rows_of(X), rules, names[0]),
            _usable(y, _rows_of(Y), rules, names[1]),
        )
        rows = of_x, of_y
    if schema is None:
        schema = _learn(x, y, names, rules)
        if rules.missing == "indicator" and isinstance(x, Table) and isinstance(y, Table):
            pooled = np.concatenate(
                [part.numbers[:, schema._places(part, name)] for part, name in ((x, "X"), (y, "Y"))]
            )
            schema = _with_gaps(schema, Moments.of(pooled), len(pooled))
    for data, name in zip((x, y), names, strict=True):
        schema._check(data, name)
        schema._check_gaps(schema._gaps(data, name), name)
    dropped = whole[0] - len(x), whole[1] - len(y)
    samples = Samples(
        schema._tensor(x, names[0]), schema._tensor(y, names[1]), schema, rows, dropped
    )
    low, high = (
        torch.minimum(samples.x.amin(0), samples.y.amin(0)),
        torch.maximum(samples.x.amax(0), samples.y.amax(0)),
    )
    _warn_if_constant(schema, low, high, names)
    return samples


def rules_of(schema: Schema | None, columns: Columns | None) -> Columns:
    """What was said of the columns: by whoever fitted the test if there is one, else now."""
    if columns is not None and not isinstance(columns, Columns):
        raise InputError(
            f"columns is a {type(columns).__name__}; give a twosample.Columns, as in "
            "Columns(keep=['age'])."
        )
    if schema is None:
        return AS_FOUND if columns is None else columns
    if columns is not None:
        raise InputError(
            "a fitted test knows its columns; leave out `columns`, or fit another test."
        )
    return schema.rules


def _rows_of(data: object) -> NDArray[np.int64] | None:
    return data.rows if isinstance(data, Source) else None


def _usable(
    data: Table | Images, rows: NDArray[np.int64] | None, rules: Columns, sample: str
) -> tuple[Table | Images, Tensor]:
    """What can be tested, and where it stood, if the rows of `data` stood at `rows`."""
    where = np.arange(len(data)) if rows is None else rows
    if rules.missing == "drop" and isinstance(data, Table):
        complete = np.flatnonzero(data.complete())
        check_left(len(complete), sample)
        data, where = data.take(complete) if len(complete) < len(data) else data, where[complete]
    return data, torch.from_numpy(np.ascontiguousarray(where, dtype=np.int64))


def check_left(rows: int, sample: str) -> None:
    """Refuse a sample of which nothing is left."""
    if not rows:
        raise InputError(
            f"every row of {sample} has a missing value, so none is left; leave out the columns "
            "that do."
        )


def split(
    samples: Samples, train_fraction: float, generator: torch.Generator
) -> tuple[Samples, Samples]:
    """Split each sample at random, on its own.

    Parameters
    ----------
    samples : Samples
    train_fraction : float
        Share of each sample, between 0 and 1, that goes to the first part. Either part gets at
        least two rows.
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
    train, held_out = (
        replace(samples, x=x, y=y, rows=(rows_x, rows_y))
        for (x, rows_x), (y, rows_y) in (first, second)
    )
    return train, held_out


def split_rows(
    sizes: tuple[int, int],
    train_fraction: float,
    generator: torch.Generator,
    *,
    most: int | None = None,
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """For each sample the rows to train on, at most `most` of them, and all others, both in random order."""
    if not 0 < train_fraction < 1:
        raise InputError(
            f"train_fraction={train_fraction} must lie between 0 and 1, without the ends; try 0.5."
        )
    least = 2  # rows in each part: an unbiased MMD has no value with fewer
    for name, size in zip("XY", sizes, strict=True):
        if size < 2 * least:
            raise InputError(
                f"{name} has {count(size, 'row')}; with train_fraction={train_fraction} "
                f"the test needs at least {2 * least} in each sample."
            )

    def cut(size: int) -> tuple[Tensor, Tensor]:
        order = torch.randperm(size, generator=generator)
        wanted = (
            round(size * train_fraction)
            if most is None
            else min(round(size * train_fraction), most)
        )
        count = min(max(wanted, least), size - least)
        return order[:count], order[count:]

    return cut(sizes[0]), cut(sizes[1])


# A sample that comes in batches: one pass tells what `as_samples` finds out about data that are all
# there.


class Profile:
    """What one pass over the batches of a sample tells: rows, columns, levels, moments; with every complaint.

    Rows are counted over all batches, and no more than one batch is held.

    Parameters
    ----------
    origin : Origin
        What messages call it.
    rules : Columns
        What the user said of its columns.
    """

    def __init__(self, origin: Origin, rules: Columns = AS_FOUND) -> None:
        self.origin, self.sample, self.rules = origin, origin.sample, rules
        self.rows, self.kept, self.batches = 0, 0, 0
        self._form: Table | Images | None = (
            None  # the sample without rows; its labels are the levels seen so far
        )
        self._levels: dict[int, set[str | None]] = {}
        self._moments: Moments | None = None

    def read(self, batch: object) -> Table | Images:
        """The next batch, validated, its columns in the order of the first."""
        try:
            return self._like_the_first(
                read(batch, replace(self.origin, first=self.rows), self.rules)
            )
        except InputError as error:
            if not self.batches:
                raise
            where = f"this is batch {self.batches + 1} of {self.sample}, which begins at row {self.rows}"
            raise InputError(f"{error} ({where})") from error

    def include(self, data: Table | Images) -> None:
        """Count what `read` gave; this destroys its numbers."""
        self.rows, self.batches = self.rows + len(data), self.batches + 1
        if self.rules.missing == "drop" and isinstance(data, Table):
            data = data.take(np.flatnonzero(data.complete()))
        self.kept += len(data)
        if not len(data):
            return
        if isinstance(data, np.ndarray):
            flat = data.reshape(-1, 1)  # images have one scale for all pixels
            pieces: Iterator[NDArray[np.float64]] = (
                flat[start : start + _CHUNK].astype(np.float64)
                for start in range(0, len(flat), _CHUNK)
            )
        else:
            pieces = iter([data.numbers])
            for position, labels in data.labels.items():
                levels = self._levels.setdefault(position, set())
                levels.update(labels)
                if len(levels) > _MOST_LEVELS:
                    raise InputError(
                        f"{self.sample} has more than {_MOST_LEVELS} different values in "
                        f"{data.where(position)}, and "
                        f"a category has at most {MAX_LEVELS}: it looks like text; drop it, group "
                        "its values or turn "
                        "it into numbers."
                    )
        for piece in pieces:
            moments = Moments.of(piece)
            self._moments = moments if self._moments is None else self._moments.merged(moments)

    @property
    def numbers(self) -> int:
        """How many numbers a row has."""
        form = self._form
        return (
            0
            if form is None
            else int(np.prod(form.shape[1:] if isinstance(form, np.ndarray) else len(form.names)))
        )

    def _like_the_first(self, data: Table | Images) -> Table | Images:
        first, name = (
            f"the first batch of {self.sample}",
            f"batch {self.batches + 1} of {self.sample}",
        )
        if self._form is None:
            if isinstance(data, np.ndarray):
                self._form = data[:0].copy()
            else:
                self._form = replace(
                    data, kinds=list(data.kinds), numbers=data.numbers[:0].copy(), labels={}
                )
        if isinstance(self._form, np.ndarray) and isinstance(data, np.ndarray):
            pixels: Literal["uint8", "float32"] = (
                "uint8" if self._form.dtype == np.uint8 else "float32"
            )
            _check_images(
                Schema("image", self._form.shape[1:], pixels=pixels),
                data,
                name,
                f"T{first[1:]} holds",
            )
            return data
        if isinstance(self._form, np.ndarray) or isinstance(data, np.ndarray):
            images, table = (first, name) if isinstance(self._form, np.ndarray) else (name, first)
            raise InputError(
                f"{images} holds images but {table} is a table; pass batches of the same form."
            )
        order = _matching(data, self._form.names, self._form.named, name, first)
        data = data if order == list(range(len(order))) else data.columns(order)
        for position, (before, now) in enumerate(zip(self._form.kinds, data.kinds, strict=True)):
            if "unknown" in (before, now):
                self._form.kinds[position] = now if before == "unknown" else before
                continue
            if (before == "category") != (now == "category"):
                where, was, found = data.where(position), _KINDS[before], _KINDS[now]
                raise InputError(
                    f"{name} has {found} in {where}, but {was} came before; convert all the same "
                    "way."
                )
            self._form.kinds[position] = before if before == now else "numeric"
        return data

    def summary(self) -> Table | Images:
        """The sample without rows: all that a schema depends on."""
        if self._form is None:
            raise InputError(f"{self.sample} is empty: it has 0 rows.")
        if isinstance(self._form, np.ndarray):
            return self._form
        labels: dict[int, list[str | None]] = {
            place: list(levels) for place, levels in self._levels.items()
        }
        return replace(self._form, labels=labels)

    def moments(self, schema: Schema) -> Moments:
        """Those of each column of the schema before it is encoded, or of all pixels."""
        form = self.summary()
        if self._moments is None:
            raise InputError(f"{self.sample} is empty: it has 0 rows.")
        if isinstance(form, np.ndarray):
            return self._moments
        return self._moments.columns(schema._places(form, self.sample))

    def levels(self, schema: Schema) -> list[set[str | None]]:
        """Those of each column of a table."""
        form = self.summary()
        places = [] if isinstance(form, np.ndarray) else schema._places(form, self.sample)
        return [self._levels.get(place, set()) for place in places]


def schema_and_scaling(
    x: Profile, y: Profile, schema: Schema | None = None
) -> tuple[Schema, Scaling]:
    """What `as_samples` and `Scaling.of` give for two samples of which one pass has been made, with their warnings.

    Parameters
    ----------
    x, y : Profile
        Of all of X and of Y.
    schema : Schema, optional
        How earlier data were encoded; it is returned then.
    """
    names = x.sample, y.sample
    if schema is None:
        schema = _learn(x.summary(), y.summary(), names, x.rules)
        schema = _with_gaps(schema, x.moments(schema).merged(y.moments(schema)), x.kept + y.kept)
    for profile in (x, y):
        schema._check(profile.summary(), profile.sample)
        schema._check_gaps(
            profile.kept - profile.moments(schema).count[: len(schema.columns)], profile.sample
        )
    moments = x.moments(schema).merged(y.moments(schema))
    if schema.kind == "image":
        shift, scale = (torch.from_numpy(values) for values in moments.shift_and_scale())
        low, high = torch.from_numpy(moments.low), torch.from_numpy(moments.high)
        _warn_if_constant(schema, low, high, names)
        return schema, Scaling(shift[0], scale[0])
    rows = x.kept + y.kept
    missing = rows - moments.count
    moments = moments.filled(rows, np.array([column.fill for column in schema.columns]))
    shift, scale = (torch.from_numpy(values) for values in moments.shift_and_scale())
    low, high = torch.from_numpy(moments.low), torch.from_numpy(moments.high)
    widths = torch.tensor([len(column.features) for column in schema.columns])
    shift, scale, low, high = (
        values.repeat_interleave(widths) for values in (shift, scale, low, high)
    )
    numeric = torch.tensor(schema.standardised)
    seen = [of_x | of_y for of_x, of_y in zip(x.levels(schema), y.levels(schema), strict=True)]
    ends = widths.cumsum(0).tolist()
    for column, levels, gaps_here, end in zip(
        schema.columns, seen, missing.tolist(), ends, strict=True
    ):
        if (
            column.kind == "category"
        ):  # of its indicators, some vary where there are two levels, any other being one
            known = levels & {*column.levels, None}
            high[end - len(column.features) : end] = float(len(known) + bool(levels - known) > 1)
        elif column.missing:
            low[end - 1], high[end - 1] = float(gaps_here == rows), float(gaps_here > 0)
    _warn_if_constant(schema, low, high, names)
    return schema, Scaling(torch.where(numeric, shift, 0.0), torch.where(numeric, scale, 1.0))


# Learning a schema, and holding data against one.


def _learn(x: Table | Images, y: Table | Images, names: tuple[str, str], rules: Columns) -> Schema:
    """The schema of two samples; `_with_gaps` adds what it takes to tell where values are missing."""
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        schema = Schema("image", x.shape[1:], pixels="uint8" if x.dtype == np.uint8 else "float32")
        _check_images(schema, y, names[1], f"{names[0]} holds")
        return schema
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        images, table = names if isinstance(x, np.ndarray) else names[::-1]
        raise InputError(
            f"{images} holds images but {table} is a table; pass two samples of the same form."
        )
    rules.check_names([*x.names, *sorted(x.left_out), *y.names, *sorted(y.left_out)])
    order = _matching(y, x.names, x.named, names[1], names[0])
    columns = tuple(_learn_column(x, here, y, there, names) for here, there in enumerate(order))
    return Schema(
        "table", (sum(len(column.features) for column in columns),), columns, x.named, rules=rules
    )


def _learn_column(x: Table, here: int, y: Table, there: int, names: tuple[str, str]) -> Column:
    name, where = x.names[here], x.where(here)
    kinds: set[Found] = {x.kinds[here], y.kinds[there]} - {"unknown"}
    if kinds == {"category"}:
        levels = sorted({*x.labels.get(here, ()), *y.labels.get(there, ())} - {None})
        if len(levels) > MAX_LEVELS:
            raise InputError(
                f"{' and '.join(names)} together have {len(levels)} different values in {where}, "
                "and a category has at "
                f"most {MAX_LEVELS}: it looks like text; drop it, group its values or turn it into "
                "numbers."
            )
        return Column(name, "category", tuple(levels))
    if "category" in kinds:
        found = [_KINDS[kind] for kind in (x.kinds[here], y.kinds[there])]
        raise InputError(
            f"{names[0]} has {found[0]} in {where} but {names[1]} has {found[1]}; convert both the "
            "same way."
        )
    return Column(name, "boolean" if kinds == {"boolean"} else "numeric")


def _with_gaps(schema: Schema, moments: Moments, rows: int) -> Schema:
    """The schema with an indicator for each column in which something is missing, and what to put there.

    That is the mean of the pooled values, which no shuffle of the labels changes.
    """
    if schema.rules.missing != "indicator":
        return schema
    means = moments.filled(rows, np.zeros(len(schema.columns))).shift_and_scale()[0]
    columns = tuple(
        replace(column, missing=there < rows, fill=float(mean) if there < rows else 0.0)
        for column, there, mean in zip(schema.columns, moments.count.tolist(), means, strict=True)
    )
    return replace(
        schema, columns=columns, shape=(sum(len(column.features) for column in columns),)
    )


def _matching(table: Table, names: list[str], named: bool, sample: str, other: str) -> list[int]:
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
        parts = [
            f"missing in {owner}: {listed(sorted(absent))}" for owner, absent in missing if absent
        ]
        complaint = f"{other} and {sample} have different columns; {'; '.join(parts)}."
    else:
        both = "both" if other == "the fitted test" else "both samples"
        wanted = count(len(names), "column")
        complaint = f"{other} has {wanted} but {sample} has {len(table.names)}; {both} must have the same features."
    raise InputError(
        f"T{complaint[1:]}" if complaint.startswith("the ") else complaint
    )  # a file keeps its name


def _check_kind(column: Column, table: Table, position: int, sample: str) -> None:
    kind, where = table.kinds[position], table.where(position)
    if kind == "unknown":
        return
    if (kind == "category") != (column.kind == "category"):
        raise InputError(
            f"{sample} has {_KINDS[kind]} in {where}, but the fitted test takes "
            f"{_KINDS[column.kind]}."
        )
    if (kind, column.kind) == ("numeric", "boolean") and _other_than_truth(
        table.numbers[:, position]
    ):
        raise InputError(
            f"{sample} has other numbers than 0 and 1 in {where}; the fitted test takes true and "
            "false."
        )


def _other_than_truth(values: NDArray[np.float64]) -> bool:
    return bool(((values != 0) & (values != 1) & ~np.isnan(values)).any())


def _warn_if_unseen(column: Column, table: Table, position: int, sample: str) -> None:
    found = {label for label in table.labels.get(position, ()) if label is not None}
    if unseen := sorted(found - set(column.levels)):
        levels, where = count(len(unseen), "level"), table.where(position)
        warn(
            f"{sample} has {levels} in {where} that the test was not fitted on, taken as 'other': "
            f"{listed(unseen)}."
        )


def _indicators(column: Column, table: Table, position: int) -> NDArray[np.float64]:
    """A category as zeros and ones: the levels, any level that the schema does not know, and missing values."""
    index: dict[str | None, int] = {level: place for place, level in enumerate(column.levels)}
    other = len(index)
    index[None] = len(column.features) - 1
    labels = table.labels.get(position, [None] * len(table))
    return np.eye(len(column.features))[[index.get(label, other) for label in labels]]


def _check_images(schema: Schema, images: Images, sample: str, takes: str) -> None:
    """Refuse images unlike those of `schema`; `takes` begins the sentence."""
    if images.shape[1:] != schema.shape:
        expected, found = (
            " x ".join(map(str, shape)) for shape in (schema.shape, images.shape[1:])
        )
        raise InputError(
            f"{takes} images of {expected} (channels x height x width) but {sample} holds images "
            f"of {found}; "
            "bring all to the same form."
        )
    if images.dtype != schema.pixels:
        expected, found = _PIXELS[schema.pixels], _PIXELS[str(images.dtype)]
        raise InputError(
            f"{takes} {expected} but {sample} holds {found}; convert both the same way."
        )


def _warn_if_constant(schema: Schema, low: Tensor, high: Tensor, names: tuple[str, str]) -> None:
    """Warn of columns whose encoded values, from `low` to `high` over both samples, are all the same."""
    if schema.kind == "image":
        # Single pixels are often constant, as in the corners of digits.
        if low.min() == high.max():
            value = low.min().item()
            warn(
                f"Every pixel of {' and '.join(names)} has the value {value}; such images carry no "
                "information."
            )
        return
    varies = iter((low != high).tolist())  # one for each encoded column
    own = {column.name: [next(varies) for _ in column.features] for column in schema.columns}
    constant = [name for name, moves in own.items() if not any(moves)]
    if constant:
        which, are = count(len(constant), "column"), "is" if len(constant) == 1 else "are"
        shown, both = listed(constant, "'" if schema.named else ""), " and ".join(names)
        warn(
            f"{which} {are} constant over {both} together ({shown}); constant columns carry no "
            "information."
        )


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
    square = (
        sum(float((chunk - mean).square().sum()) for part in points for chunk in _chunks(part))
        / count
    )
    return mean, square**0.5


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and sum of squared deviations of columns; those of two parts of the data merge into those of both.

    Columns of any magnitude that float64 can hold are fine: their own power of two, 2^`exponent`,
    is their unit. Values that are NaN do not count.
    """

    count: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    exponent: NDArray[np.int64]
    mean: NDArray[np.float64]
    square: NDArray[np.float64]

    @classmethod
    def of(cls, points: NDArray[np.float64]) -> Moments:
        """Those of (N, d) `points`, which are destroyed."""
        count = np.full(points.shape[1], len(points))
        low, high = points.min(axis=0), points.max(axis=0)
        gaps = np.isnan(points) if np.isnan(low).any() else None
        if gaps is not None:
            count = count - gaps.sum(axis=0)
            low = np.where(gaps, np.inf, points).min(axis=0)
            high = np.where(gaps, -np.inf, points).max(axis=0)
        size = np.where(count > 0, np.maximum(np.abs(low), np.abs(high)), 0.0)
        exponent = np.where(
            size > 0, np.frexp(size)[1], -1100
        )  # zeros must not make other parts' values too small
        np.ldexp(
            points, -exponent, out=points
        )  # exact, and now |value| <= largest < 1: no square overflows
        mean, rest = np.zeros_like(size), np.zeros_like(size)
        for shift in (
            mean,
            rest,
        ):  # the second is what rounding left of the first, when it is large beside the deviation
            if gaps is not None:
                points[gaps] = 0.0
            shift += points.sum(axis=0) / np.maximum(count, 1)
            points -= shift
        if gaps is not None:
            points[gaps] = 0.0
        return cls(count, low, high, exponent, mean + rest, np.einsum("ij,ij->j", points, points))

    def merged(self, other: Moments) -> Moments:
        """Those of both parts together."""
        exponent = np.maximum(self.exponent, other.exponent)
        mean, apart = (np.ldexp(part.mean, part.exponent - exponent) for part in (self, other))
        square, further = (
            np.ldexp(part.square, 2 * (part.exponent - exponent)) for part in (self, other)
        )
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        apart = np.where(self.count > 0, apart - mean, apart)
        return Moments(
            count,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            exponent,
            np.where(self.count > 0, mean, 0.0) + apart * share,
            square + further + apart**2 * (self.count * share),
        )

    def filled(self, rows: int, values: NDArray[np.float64]) -> Moments:
        """Those of `rows` values in each column, if the mean is put where some are missing; where all are, `values`."""
        empty = self.count == 0
        low, high = (np.where(empty, values, end) for end in (self.low, self.high))
        return replace(self, count=np.full_like(self.count, rows), low=low, high=high)

    def columns(self, order: Sequence[int]) -> Moments:
        """Those of the columns at these places."""
        of = np.asarray(order, dtype=np.int64)
        parts = (self.count, self.low, self.high, self.exponent, self.mean, self.square)
        return Moments(*(part[of] for part in parts))  # type: ignore[arg-type]

    def shift_and_scale(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard deviation of each column; of one that is constant, its value and 1."""
        largest = 1 - 2.0**-53
        shift = np.ldexp(np.clip(self.mean, -largest, largest), self.exponent)
        scale = np.ldexp(np.minimum(np.sqrt(self.square / self.count), largest), self.exponent)
        constant = self.low == self.high
        tiny = np.finfo(np.float64).tiny
        return np.where(constant, self.low, shift), np.where(constant, 1.0, np.maximum(scale, tiny))
