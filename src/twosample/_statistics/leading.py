"""The columns in which two samples differ most, in closed form: where a training starts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from .._data.samples import EmbeddedSamples, Samples
from .._fusing import gamma_surprise
from .._random import draw_rows
from .._views import Cells, Levels, Products, Shapes, Values, Views
from .base import Bins
from .spectral import Spectral

_MOST_ROWS = 5000  # of each sample; more would say the same
_ORDERS = (1, 2, 3)  # columns alone, in pairs, in threes
_CHANCE = 0.001  # a column that leads by chance hides the others
_PLAINLY = 3.0  # by which the -log p of more columns must exceed that of fewer


def leading_columns(samples: Samples) -> list[int]:
    """The encoded columns of the column, the pair or the three in which the samples differ most.

    Each column, each pair and each product of three has its best witness, and a p-value by the law
    that theory predicts for it, as in `Spectral`. The p-values are corrected for the number of
    views with as many columns, and for the three such numbers. More columns lead in place of fewer
    only if their p-value is 20 times smaller. If no p-value is at most 0.001, no column leads.
    Columns of images are pixels, and none of these leads.

    Labels decide here: give points to train on, never those to be tested.
    """
    if samples.schema.kind == "image":
        return []
    generator = torch.Generator().manual_seed(0)  # any rows do, but always the same
    x = draw_rows(samples.x, _MOST_ROWS, generator)
    y = draw_rows(samples.y, _MOST_ROWS, generator)
    pooled = torch.cat([x, y]).double().cpu()
    views = Views(Values("columns"), Values("levels"), Shapes(), Levels(), Cells(), Products(3))
    views.look_at(samples.schema)
    views.start(pooled, generator)
    # Nothing is permuted, so each sample is one bin.
    of_x = torch.zeros(len(x), dtype=torch.int64)
    of_y = torch.ones(len(y), dtype=torch.int64)
    bins = Bins(of_x, of_y, moving_x=1, moving_y=1, size=1, staying=(0, 0))
    points = EmbeddedSamples((pooled,), (len(x), len(y)), samples.schema)
    statistic = Spectral()
    prepared = statistic.prepare(views, points, bins, generator)
    as_observed = torch.tensor([[0, 1]])
    values = statistic.evaluate(prepared, as_observed)
    # There are no shuffles to take moments over.
    surprises = gamma_surprise(values, *prepared.in_large_samples())[:, 0]
    columns = [row.columns for row in prepared.rows()]
    loudest = _loudest(surprises, columns)
    return _encoded(loudest, samples.schema.widths)


def _loudest(surprises: Tensor, columns: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The columns of the loudest row, each corrected for the number of rows of its order."""
    orders = torch.tensor([len(of_row) for of_row in columns])
    loudest: tuple[int, ...] = ()
    least = -math.log(_CHANCE / len(_ORDERS))
    for order in _ORDERS:
        rows = torch.nonzero(orders == order)[:, 0]
        if not len(rows):
            continue
        first = rows[surprises[rows].argmax()]
        corrected = float(surprises[first]) - math.log(len(rows))
        if corrected > least:
            least = corrected + _PLAINLY
            loudest = columns[int(first)]
    return loudest


def _encoded(columns: tuple[int, ...], widths: Sequence[int]) -> list[int]:
    """The encoded columns of some columns of the table, whose numbers are `widths`."""
    ends = list(accumulate(widths))
    encoded: list[int] = []
    for column in columns:
        end = ends[column]
        encoded += range(end - widths[column], end)
    return encoded
