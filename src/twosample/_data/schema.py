"""What the columns of two samples are, learned once, so that later data are encoded alike.

A table becomes float64 columns, an array of images becomes (N, C, H, W) pixels. Every complaint
about samples that do not fit together is raised here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError, warn
from .cells import Cells, check_cells, check_levels
from .columns import Columns
from .extremes import Spread
from .moments import Moments
from .reading import read
from .tables import (
    AS_FOUND,
    LAYOUTS,
    ColumnKind,
    Images,
    Kind,
    Origin,
    Table,
    count,
    listed,
)

MAX_LEVELS = 50
"""A column of strings with more pooled levels than this is text, not a category."""

KIND_WORDS = {
    "numeric": "numbers",
    "boolean": "true and false",
    "category": "strings or categories",
    "unknown": "nothing but missing values",
}
"""What messages call what a column holds."""

_FITTED = "the fitted test"  # what messages call a schema that was learned from other data
_PIXEL_WORDS = {"uint8": "uint8 pixels in 0..255", "float32": "floats"}


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
        What stands in their place then: the pooled mean of the others, or the median where some
        of them are extreme. In a category every other indicator is 0 instead.
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
        indicators = [f"{self.name}={level}" for level in (*self.levels, other)]
        return (*indicators, *gap)


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
        What the user said about columns and missing values; it holds for later data too.
    """

    kind: Literal["table", "image"]
    shape: tuple[int, ...]
    columns: tuple[Column, ...] = ()
    named: bool = False
    pixels: Literal["", "uint8", "float32"] = ""
    rules: Columns = AS_FOUND

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the encoded columns, such as "height" and "colour=red"; empty for images."""
        return tuple(feature for column in self.columns for feature in column.features)

    @property
    def widths(self) -> list[int]:
        """How many encoded columns each column becomes."""
        return [len(column.features) for column in self.columns]

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
        rules = self.rules
        if rules.missing == "drop":
            # Whoever asks for points wants one for each row.
            rules = replace(rules, missing="error")
        table = read(data, Origin.of(data, sample), rules)
        self.check(table, sample)
        if isinstance(table, Table):
            self.check_gaps(table.gaps()[self.places(table, sample)], sample)
        return self.tensor(table, sample)

    def check(
        self,
        data: Table | Images,
        sample: str,
        *,
        warns: bool = True,
        cells: Mapping[int, Cells] = MappingProxyType({}),
    ) -> None:
        """Refuse data of another form or kind; warn of levels that the schema does not know.

        `cells` says what the cells look like in columns of text, by their places.
        """
        if isinstance(data, np.ndarray) != (self.kind == "image"):
            form = "images" if isinstance(data, np.ndarray) else "a table"
            raise InputError(
                f"The fitted test takes {self.kind}s but {sample} holds {form}; images are "
                f"{LAYOUTS}."
            )
        if isinstance(data, np.ndarray):
            check_images(self, data, sample, "The fitted test takes")
            return
        for column, place in zip(self.columns, self.places(data, sample), strict=True):
            _check_kind(column, data, place, sample, cells.get(place))
            if column.kind == "category" and warns:
                _warn_if_unseen(column, data, place, sample)

    def check_gaps(self, gaps: Sequence[int] | NDArray[np.int64], sample: str) -> None:
        """Refuse missing values, so many in each column, where there is no indicator for them."""
        for column, missing in zip(self.columns, gaps, strict=True):
            if missing and not column.missing:
                where = f"column '{column.name}'" if self.named else f"column {column.name}"
                raise InputError(
                    f"{sample} has {count(int(missing), 'missing value')} in {where}, but none "
                    "were missing there when the test was fitted; impute them, or fit a test on "
                    "data where some are."
                )

    def places(self, table: Table, sample: str) -> list[int]:
        """Where the columns of the schema stand in a table."""
        names = [column.name for column in self.columns]
        return matching(table, names, self.named, sample, _FITTED)

    def tensor(self, data: Table | Images, sample: str) -> Tensor:
        """Encode what has been checked. The points share the memory of `data` where they can."""
        if isinstance(data, np.ndarray):
            return torch.from_numpy(data)
        places = self.places(data, sample)
        widths = self.widths
        sources = np.repeat(places, widths)  # (d,): the column each encoded column begins as
        encoded = data.numbers
        if not np.array_equal(sources, np.arange(len(data.names))):
            encoded = np.take(data.numbers, sources, axis=1)  # (N, d)
        start = 0
        for column, place, width in zip(self.columns, places, widths, strict=True):
            end = start + width
            if column.kind == "category":
                encoded[:, start:end] = _indicators(column, data, place)
            elif column.missing:
                gaps = np.isnan(encoded[:, start])
                encoded[gaps, start] = column.fill
                encoded[:, end - 1] = gaps
            if column.kind == "boolean" and data.kinds[place] == "numeric":
                _check_truth(data, place, sample)
            start = end
        return torch.from_numpy(encoded)


def learn(
    x: Table | Images,
    y: Table | Images,
    names: tuple[str, str],
    rules: Columns,
    *,
    cells: tuple[Mapping[int, Cells], Mapping[int, Cells]],
) -> Schema:
    """The schema of two samples, which messages call `names`.

    `cells` says what the cells of X and of Y look like in columns of text, by their places.
    `with_gaps` adds what it takes to tell where values are missing.
    """
    name_x, name_y = names
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        schema = image_schema(x)
        check_images(schema, y, name_y, f"{name_x} holds")
        return schema
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        images, table = names if isinstance(x, np.ndarray) else names[::-1]
        raise InputError(
            f"{images} holds images but {table} is a table; pass two samples of the same form."
        )
    everywhere = [*x.names, *sorted(x.left_out), *y.names, *sorted(y.left_out)]
    rules.check_names(list(dict.fromkeys(everywhere)))
    order = matching(y, x.names, x.named, name_y, name_x)
    columns = []
    for here, there in enumerate(order):
        of_both = (cells[0].get(here), cells[1].get(there))
        columns.append(_learn_column(x, here, y, there, names, of_both))
    return _table_schema(columns, x.named, rules)


def image_schema(images: Images) -> Schema:
    """The schema of images like these."""
    pixels: Literal["uint8", "float32"] = "uint8" if images.dtype == np.uint8 else "float32"
    return Schema("image", images.shape[1:], pixels=pixels)


def _table_schema(columns: Sequence[Column], named: bool, rules: Columns) -> Schema:
    width = sum(len(column.features) for column in columns)
    return Schema("table", (width,), tuple(columns), named, rules=rules)


def _learn_column(
    x: Table,
    here: int,
    y: Table,
    there: int,
    names: tuple[str, str],
    cells: tuple[Cells | None, Cells | None],
) -> Column:
    name = x.names[here]
    where = x.where(here)
    kind_x = x.kinds[here]
    kind_y = y.kinds[there]
    kinds: set[ColumnKind] = {kind_x, kind_y} - {"unknown"}
    if kinds == {"category"}:
        labels = {*x.labels.get(here, ()), *y.labels.get(there, ())}
        levels = sorted(label for label in labels if label is not None)
        looked_at = [each for each in cells if each is not None]
        check_cells(looked_at, name, where)
        if len(levels) > MAX_LEVELS:
            raise InputError(
                f"{' and '.join(names)} together have {len(levels)} different values in {where}, "
                f"and a category has at most {MAX_LEVELS}: it looks like text; drop it, group its "
                "values or turn it into numbers."
            )
        check_levels(looked_at, levels, name, where)
        return Column(name, "category", tuple(levels))
    if "category" in kinds:
        raise InputError(
            f"{names[0]} has {KIND_WORDS[kind_x]} in {where} but {names[1]} has "
            f"{KIND_WORDS[kind_y]}; convert both the same way{_no_numbers(cells[0])}"
            f"{_no_numbers(cells[1])}."
        )
    return Column(name, "boolean" if kinds == {"boolean"} else "numeric")


def with_gaps(schema: Schema, moments: Moments, rows: int, spread: Spread) -> Schema:
    """The schema with an indicator for each column in which one of `rows` values is missing.

    What is put in their place is the mean of the pooled values, which no shuffle of the labels
    changes. Where values are extreme it is the median, since the mean might be extreme, too.
    """
    if schema.rules.missing != "indicator":
        return schema
    means, _ = moments.filled(rows, np.zeros(len(schema.columns))).shift_and_scale()
    means = np.where(spread.extreme, spread.median, means)
    columns = []
    for column, present, mean in zip(schema.columns, moments.count, means, strict=True):
        if present < rows:
            column = replace(column, missing=True, fill=float(mean))
        columns.append(column)
    return _table_schema(columns, schema.named, schema.rules)


def matching(table: Table, names: list[str], named: bool, sample: str, other: str) -> list[int]:
    """Positions in `table`, which is called `sample`, of the columns `names` of `other`."""
    if set(table.names) == set(names):
        positions = {name: position for position, name in enumerate(table.names)}
        return [positions[name] for name in names]
    if len(table.names) == len(names) == 1 and not (table.named and named):
        return [0]  # two vectors can be compared whatever they are called
    if table.named != named:
        with_names, without = (sample, other) if table.named else (other, sample)
        complaint = (
            f"{with_names} has named columns but {without} has none; pass both as tables or both "
            "as arrays."
        )
    elif named:
        absences = [(sample, set(names) - set(table.names)), (other, set(table.names) - set(names))]
        parts = [
            f"missing in {owner}: {listed(sorted(absent))}" for owner, absent in absences if absent
        ]
        complaint = f"{other} and {sample} have different columns; {'; '.join(parts)}."
    else:
        both = "both" if other == _FITTED else "both samples"
        complaint = (
            f"{other} has {count(len(names), 'column')} but {sample} has {len(table.names)}; "
            f"{both} must have the same features."
        )
    # A sentence begins with a capital letter, but a file keeps its name.
    if complaint.startswith("the "):
        complaint = f"T{complaint[1:]}"
    raise InputError(complaint)


def check_images(schema: Schema, images: Images, sample: str, takes: str) -> None:
    """Refuse images unlike those of `schema`; `takes` begins the sentence."""
    shape = images.shape[1:]
    if shape != schema.shape:
        raise InputError(
            f"{takes} images of {_times(schema.shape)} (channels x height x width) but {sample} "
            f"holds images of {_times(shape)}; bring all to the same form."
        )
    if images.dtype != schema.pixels:
        expected = _PIXEL_WORDS[schema.pixels]
        actual = _PIXEL_WORDS[str(images.dtype)]
        raise InputError(
            f"{takes} {expected} but {sample} holds {actual}; convert both the same way."
        )


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _check_kind(column: Column, table: Table, place: int, sample: str, cells: Cells | None) -> None:
    kind = table.kinds[place]
    if kind == "unknown":
        return
    if (kind == "category") != (column.kind == "category"):
        raise InputError(
            f"{sample} has {KIND_WORDS[kind]} in {table.where(place)}, but the fitted test takes "
            f"{KIND_WORDS[column.kind]}{_no_numbers(cells)}."
        )


def _no_numbers(cells: Cells | None) -> str:
    """The cells that make text of a column which should be numbers, behind a semicolon."""
    return (
        f"; the cells that are no numbers: {cells.named()}"
        if cells is not None and cells.odd
        else ""
    )


def _check_truth(table: Table, place: int, sample: str) -> None:
    """Refuse numbers other than 0 and 1 where the schema has true and false."""
    values = table.numbers[:, place]
    truth = (values == 0) | (values == 1) | np.isnan(values)
    if not truth.all():
        raise InputError(
            f"{sample} has other numbers than 0 and 1 in {table.where(place)}; the fitted test "
            "takes true and false."
        )


def _warn_if_unseen(column: Column, table: Table, place: int, sample: str) -> None:
    labels = {label for label in table.labels.get(place, ()) if label is not None}
    unseen = sorted(labels - set(column.levels))
    if unseen:
        warn(
            f"{sample} has {count(len(unseen), 'level')} in {table.where(place)} that the test was "
            f"not fitted on, taken as 'other': {listed(unseen)}."
        )


def _indicators(column: Column, table: Table, place: int) -> NDArray[np.float64]:
    """A category as zeros and ones: its levels, any other level, and missing values."""
    width = len(column.features)
    positions: dict[str | None, int] = {level: at for at, level in enumerate(column.levels)}
    other = len(positions)
    positions[None] = width - 1
    labels = table.labels.get(place, [None] * len(table))
    codes = [positions.get(label, other) for label in labels]
    return np.eye(width)[codes]
