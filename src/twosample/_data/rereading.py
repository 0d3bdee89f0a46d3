"""What is tested: rows that are in memory, scaled, or the second pass over the streams.

The second pass sends the rows that are to be tested through the network and keeps only what the
kernel compares: features, and the columns that it sees as they are. It never holds more than a few
parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from .._progress import bar
from .._resources import HERE, Resources, Workers
from ..errors import InputError
from .embedding import Embed, Piece, batches_for, embed_distinct, gathered
from .reading import read
from .samples import EmbeddedSamples, Samples, Scaling
from .schema import Schema
from .streams import Pair, Partition, Stream
from .survey import SampleRows, Survey, check_count, marked
from .tables import Origin

_OTHER_ROWS = (
    "{} gave other rows when it was read again, or in another order, so that rows would be tested "
    "that were trained on; a stream must give the same rows each time."
)


def points_to_test(
    pair: Pair,
    survey: Survey,
    scaling: Scaling,
    embed: Embed,
    generator: torch.Generator,
    *,
    device: torch.device,
    resources: Resources = Resources(),
) -> Samples | EmbeddedSamples:
    """The rows that are to be tested: scaled where they are in memory, else read and embedded."""
    if survey.held_out is not None:
        return scaling.apply(survey.held_out, device=device)
    return _embed_streams(pair, survey, scaling, embed, generator, device, resources)


def _embed_streams(
    pair: Pair,
    survey: Survey,
    scaling: Scaling,
    embed: Embed,
    generator: torch.Generator,
    device: torch.device,
    resources: Resources,
) -> EmbeddedSamples:
    """Go once through both streams; keep what `embed` makes of the rows that are to be tested.

    The streams are merged at random: of all ways to deal the points of X and of Y out to the
    batches, each is as likely. So what a network does with a batch (the rounding of a matrix
    product, a normalisation) may depend on the company of a point but never on its label: if P = Q,
    the merged rows are independent of their labels.

    Workers read the parts themselves and embed the same batches, where parts can be read elsewhere:
    those of files, which must be found at the same place on all machines, not batches that a
    function gives.
    """
    n, m = survey.tested
    is_x = torch.zeros(n + m, dtype=torch.bool)
    is_x[torch.randperm(n + m, generator=generator)[:n]] = True
    width = int(np.prod(survey.schema.shape))
    batches = batches_for(n + m, width, 4, resources.memory)  # of float32
    deals = _dealt(is_x, batches, generator)
    workers = resources.workers
    if workers is not HERE and pair[0].can_travel() and pair[1].can_travel():
        pieces = _embedded_there(pair, survey, scaling, embed, deals, workers)
    else:
        pieces = _embedded_here(pair, survey, scaling, embed, deals, device)
    with bar("reading rows", batches, resources.progress) as tick:

        def ticking() -> Iterator[Piece]:
            for piece in pieces:
                yield piece
                tick("")

        parts = gathered(ticking(), n + m, resources.memory)
    points = EmbeddedSamples(
        parts, (n, m), survey.schema, survey.dropped, units=survey.tested_units
    )
    return points.to(device=device)


class Deal(NamedTuple):
    """What a batch takes: so many of the next rows of X and of Y, in this order."""

    of_x: int
    of_y: int
    order: Tensor  # random, since a file may be sorted


Deals: TypeAlias = Iterable[Deal]


def _dealt(is_x: Tensor, batches: int, generator: torch.Generator) -> Iterator[Deal]:
    for labels in torch.tensor_split(is_x, batches):
        of_x = int(labels.sum())
        order = torch.randperm(len(labels), generator=generator)
        yield Deal(of_x, len(labels) - of_x, order)


# In this process


def _embedded_here(
    pair: Pair,
    survey: Survey,
    scaling: Scaling,
    embed: Embed,
    deals: Deals,
    device: torch.device,
) -> Iterator[Piece]:
    x = _Reader(pair[0], "X", survey.sizes[0], survey.rows[0], survey.schema, scaling, device)
    y = _Reader(pair[1], "Y", survey.sizes[1], survey.rows[1], survey.schema, scaling, device)
    for deal in deals:
        points_x, places_x = x.take(deal.of_x)
        points_y, places_y = y.take(deal.of_y)
        points = torch.cat([points_x, points_y])
        places = torch.cat([places_x, places_y + survey.tested[0]])
        shuffled = points[deal.order.to(device)]
        yield embed_distinct(embed, shuffled), places[deal.order]
    x.finish(survey.marks[0])
    y.finish(survey.marks[1])


class _Reader:
    """The rows of a stream that are to be tested, scaled, as many at a time as are asked for."""

    def __init__(
        self,
        stream: Stream,
        sample: str,
        size: int,
        rows: SampleRows,
        schema: Schema,
        scaling: Scaling,
        device: torch.device,
    ) -> None:
        self._sample = sample
        self._size = size
        self._schema = schema
        self._scaling = scaling
        self._device = device
        self._places = _places(rows.tested, size)
        self._picked = _places(rows.picked, size) >= 0
        self._rows = 0  # that have been read
        self._left_out = False  # whether some of them were trained on
        self._mark = 0  # the checksum of those
        # What has been read but not taken, and what comes after it.
        self._points = torch.empty((0, *schema.shape), device=device)
        self._at = torch.empty(0, dtype=torch.int64)
        self._rest = self._read(stream)

    def take(self, count: int) -> tuple[Tensor, Tensor]:
        """The next `count` rows, and their places among all of the sample that are tested."""
        pieces = [self._points]
        places = [self._at]
        ready = len(self._at)
        while ready < count:
            batch = next(self._rest, None)
            if batch is None:
                check_count(self._sample, self._size, self._rows)
                break
            points, at = batch
            pieces.append(points)
            places.append(at)
            ready += len(at)
        points = _joined(pieces)
        at = _joined(places)
        self._points = points[count:]
        self._at = at[count:]
        return points[:count], at[:count]

    def finish(self, mark: int) -> None:
        """Read what is left, and see that the rows left out are those that were trained on."""
        for _ in self._rest:
            pass
        check_count(self._sample, self._size, self._rows)
        if self._left_out and self._mark != mark:
            raise InputError(_OTHER_ROWS.format(self._sample))

    def _read(self, stream: Stream) -> Iterator[tuple[Tensor, Tensor]]:
        rules = self._schema.rules
        for batch in stream.filled():
            data = read(batch, Origin(self._sample, self._rows), rules)
            self._schema.check(data, self._sample, warns=False)
            points = self._schema.tensor(data, self._sample)
            end = self._rows + len(points)
            if end > self._size:
                check_count(self._sample, self._size, end)
            at = self._places[self._rows : end]
            tested = at >= 0
            trained_on = self._picked[self._rows : end] & ~tested
            self._rows = end
            if trained_on.any():
                self._left_out = True
                self._mark = marked(points[trained_on], self._mark)
            if not tested.all():
                points = points[tested]
                at = at[tested]
            yield self._scaling.apply_to(points, device=self._device), at


def _joined(pieces: list[Tensor]) -> Tensor:
    return torch.cat(pieces) if len(pieces) > 1 else pieces[0]


def _places(tested: Tensor, size: int) -> Tensor:
    """Of each row of a stream its place among those that are tested; -1 for none."""
    places = torch.full((size,), -1)
    places[tested] = torch.arange(len(tested))
    return places


# On workers


class _Part(NamedTuple):
    """What stands for the rows of a part that are tested, and which of the sample's these are."""

    points: Any
    first: int
    end: int


class _Known(NamedTuple):
    """Rows of a part that were trained on, and a checksum of them."""

    rows: Tensor
    mark: int


def _embedded_there(
    pair: Pair,
    survey: Survey,
    scaling: Scaling,
    embed: Embed,
    deals: Deals,
    workers: Workers,
) -> Iterator[Piece]:
    """As `_embedded_here`. One worker reads a part, for all whose batches take of its rows."""
    dealt: list[Deal] = []  # what has gone out, in order
    n, _ = survey.tested
    # The places of the rows that are tested, in the order of the stream.
    at_x = _in_order(_places(survey.rows[0].tested, survey.sizes[0]))
    at_y = _in_order(_places(survey.rows[1].tested, survey.sizes[1])) + n

    def arguments() -> Iterator[tuple[Any, ...]]:
        shared = workers.share(embed)
        how = workers.share((survey.schema, scaling))
        of_x = _PartsInTurn(_parts_there(pair[0], "X", survey, 0, how, workers))
        of_y = _PartsInTurn(_parts_there(pair[1], "Y", survey, 1, how, workers))
        done_x = 0
        done_y = 0
        for deal in deals:
            dealt.append(deal)
            taken = [
                *of_x.rows(done_x, done_x + deal.of_x),
                *of_y.rows(done_y, done_y + deal.of_y),
            ]
            done_x += deal.of_x
            done_y += deal.of_y
            spans = [span for _, span in taken]
            yield (shared, deal.order, spans, *(points for points, _ in taken))

    done_x = 0
    done_y = 0
    for number, embedded in enumerate(workers.map(_embedded_rows, arguments())):
        deal = dealt[number]
        end_x = done_x + deal.of_x
        end_y = done_y + deal.of_y
        yield embedded, torch.cat([at_x[done_x:end_x], at_y[done_y:end_y]])
        done_x = end_x
        done_y = end_y


def _in_order(places: Tensor) -> Tensor:
    return places[places >= 0]


class _PartsInTurn:
    """Parts on workers: each is asked for when its rows are wanted, and forgotten after them."""

    def __init__(self, parts: Iterator[_Part]) -> None:
        self._to_come = parts
        self._held: list[_Part] = []

    def rows(self, first: int, end: int) -> list[tuple[Any, slice]]:
        """The parts that hold rows from `first` to `end`, and where in them these stand."""
        while not self._held or self._held[-1].end < end:
            part = next(self._to_come, None)
            if part is None:
                break
            self._held.append(part)
        # Without a name here, a part is forgotten by its worker when all who take of it are done.
        self._held = [part for part in self._held if part.end > first]
        found = []
        for part in self._held:
            if part.first < end:
                start = max(first, part.first) - part.first
                stop = min(end, part.end) - part.first
                found.append((part.points, slice(start, stop)))
        return found


def _parts_there(
    stream: Stream, name: str, survey: Survey, at: int, how: Any, workers: Workers
) -> Iterator[_Part]:
    """Have each part that holds rows to test, or to know again, read by a worker."""
    rows = survey.rows[at]
    picked_points = survey.picked.x if at == 0 else survey.picked.y
    places = _places(rows.tested, survey.sizes[at])
    picked, order = torch.sort(rows.picked)
    row = 0
    done = 0
    for part in stream.partitions:
        end = row + (part.rows or 0)
        tested = places[row:end] >= 0
        first, last = torch.searchsorted(picked, torch.tensor([row, end])).tolist()
        known = None
        # A kernel that is not trained starts from rows that are tested too: then there is nothing
        # to tell apart.
        here = picked[first:last] - row
        if not tested[here].all():
            known = _Known(here, marked(picked_points[order[first:last]], 0))
        if tested.any() or known is not None:
            elsewhere = getattr(part, "elsewhere", None)  # workers may stand in another folder
            there = part if elsewhere is None else elsewhere()
            own = int(tested.sum())
            points = workers.call(_read_part, how, there, name, row, tested, known)
            yield _Part(points, done, done + own)
            done += own
        row = end


def _read_part(
    how: tuple[Schema, Scaling],
    part: Partition,
    sample: str,
    first: int,
    tested: Tensor,
    known: _Known | None,
) -> Tensor:
    """The rows of a part that are tested, scaled; those that were picked must be the same."""
    schema, scaling = how
    try:
        batch = part.read()
    except (InputError, OSError) as error:
        raise InputError(
            f"a worker cannot read {sample} from row {first} on ({error}); files must be found at "
            "the same place on all machines."
        ) from error
    data = read(batch, Origin(sample, first), schema.rules)
    schema.check(data, sample, warns=False)
    points = schema.tensor(data, sample)
    check_count(sample, first + len(tested), first + len(points))
    if known is not None and marked(points[known.rows], 0) != known.mark:
        raise InputError(_OTHER_ROWS.format(sample))
    return scaling.apply_to(points[tested])


def _embedded_rows(
    embed: Embed, order: Tensor, spans: Sequence[slice], *parts: Tensor
) -> tuple[Tensor, ...]:
    """The rows of a batch through `embed` in a random order, and back in that of the parts."""
    points = torch.cat([part[span] for part, span in zip(parts, spans, strict=True)])
    back = torch.argsort(order)
    return tuple(part[back] for part in embed_distinct(embed, points[order]))
