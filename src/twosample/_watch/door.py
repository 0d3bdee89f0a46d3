"""The door of a watch: columns and scales are fixed once, and every later batch is encoded alike.

What they are fixed by must treat X and Y alike, or labels could be told from them. So it is the
first batch, pooled; with a reference, rows of it that are set aside and never tested. (Learned from
the whole reference, every level of it would be known, and rare levels of new batches alone would
be "other".) Every column has a place for missing values from the start, because a later batch may
have some.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .._data.columns import Columns
from .._data.samples import Samples, Scaling
from .._data.schema import Schema
from .._data.streams import Pair, Stream, held
from .._data.survey import every_row, survey
from .._data.tables import Source
from .._design import Design, Rows
from ..errors import InputWarning

EACH_ROW = Rows()
"""The design of rows that are independent of each other."""

WITH_GAPS = Columns(missing="indicator")
"""What holds for columns of which the user says nothing."""


@dataclass(frozen=True, eq=False)
class Door:
    """How batches become points."""

    schema: Schema
    scaling: Scaling

    @classmethod
    def learned(
        cls, X: object, Y: object, columns: Columns | None, design: Design = EACH_ROW
    ) -> Door:
        """The door that these rows fix; what is odd about them is said when they go through it."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            rules = columns or _usual_rules(X)
            surveyed = survey(_pair(X, Y), every_row, columns=rules, design=design)
        return cls(*_with_all_gaps(surveyed.schema, surveyed.scaling))

    def encode(
        self, X: object, Y: object, design: Design = EACH_ROW
    ) -> tuple[Samples, tuple[str, ...]]:
        """Two samples, scaled, in float64; and what is to be said about them."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            surveyed = survey(
                _pair(X, Y), every_row, schema=self.schema, scaling=self.scaling, design=design
            )
        notes = [str(each.message) for each in caught if issubclass(each.category, InputWarning)]
        samples = self.scaling.apply(surveyed.picked, dtype=torch.float64)
        return samples, tuple(dict.fromkeys(notes))

    def effects(self, x: Tensor, y: Tensor) -> Tensor:
        """(columns,) how far Y is from X in each column of a table; empty for images.

        Of a number it is the difference of means in standard deviations of the pooled rows. Of a
        category it is the total variation distance: the share of rows that had to change.
        """
        if self.schema.kind == "image":
            return torch.zeros(0, dtype=torch.float64)
        difference = y.mean(0) - x.mean(0)
        spread = torch.cat([x, y]).std(0, correction=0)
        standardised = difference / spread
        standardised = torch.where(spread > 0, standardised, 0.0)
        effects = []
        first = 0
        for column, width in zip(self.schema.columns, self.schema.widths, strict=True):
            if column.kind == "category":
                effects.append(difference[first : first + width].abs().sum() / 2)
            else:
                effects.append(standardised[first])
            first += width
        return torch.stack(effects)


def _usual_rules(data: object) -> Columns | None:
    """A place for missing values, but images have no columns."""
    rows = data.data if isinstance(data, Source) else data
    is_image = getattr(rows, "ndim", 2) > 2
    return None if is_image else WITH_GAPS


def _pair(X: object, Y: object) -> Pair:
    return _stream(X), _stream(Y)


def _stream(data: object) -> Stream:
    return data if isinstance(data, Stream) else held(data)


def _with_all_gaps(schema: Schema, scaling: Scaling) -> tuple[Schema, Scaling]:
    """The same, with a place for missing values in every column, unless they are refused."""
    if schema.kind == "image" or schema.rules.missing != "indicator":
        return schema, scaling
    columns = []
    shifts = []
    scales = []
    first = 0
    for column, width in zip(schema.columns, schema.widths, strict=True):
        shift = scaling.shift[first : first + width]
        scale = scaling.scale[first : first + width]
        first += width
        if not column.missing:
            # As `with_gaps` fills them: by the mean, or the median where values are extreme.
            column = replace(column, missing=True, fill=float(shift[0]))
            shift = torch.cat([shift, torch.zeros(1, dtype=torch.float64)])
            scale = torch.cat([scale, torch.ones(1, dtype=torch.float64)])
        columns.append(column)
        shifts.append(shift)
        scales.append(scale)
    shape = (sum(len(column.features) for column in columns),)
    return (
        replace(schema, columns=tuple(columns), shape=shape),
        Scaling(torch.cat(shifts), torch.cat(scales)),
    )
