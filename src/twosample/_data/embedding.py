"""Points as a test sees them: all of them through the network, in batches blind to labels."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from .._resources import Resources
from ..errors import InputError
from .samples import EmbeddedSamples, Samples

Embed: TypeAlias = Callable[[Tensor], tuple[Tensor, ...]]
"""What a kernel compares, or the features, of some points."""

Piece: TypeAlias = tuple[tuple[Tensor, ...], Tensor]
"""A batch of embedded points, and their places among all points of X, then of Y."""

_NUMBERS = 2**20  # in the rows that are looked at together for equal ones
_SOME = 64  # numbers of a row that are looked at first for that
_PIECES = 64  # at most so many pieces of work are all the batches of points


def embed_samples(
    samples: Samples | EmbeddedSamples,
    embed: Embed,
    generator: torch.Generator,
    resources: Resources = Resources(),
) -> EmbeddedSamples:
    """All points of X, then of Y, through `embed` in batches that are blind to labels.

    The points are shuffled first. What a network does with a batch (batch normalisation, the
    rounding of a matrix product) may depend on the company a point is in, and must not depend on
    its label.

    Equal points go through once: their rounding in a batch may differ, which would break their tie.
    """
    count = sum(samples.sizes)
    order = torch.randperm(count, generator=generator)
    if isinstance(samples, EmbeddedSamples):
        # After the draw, so that what is shuffled later does not depend on who embeds.
        return replace(samples, resources=resources)
    points = samples.pooled()
    first, group = distinct(points)
    if len(first) < count:
        points = points[first]
        order = _places_among(first, order)
    pieces = _from_memory(points, order, embed, resources)
    parts = gathered(pieces, len(first))
    if len(first) < count:
        parts = tuple(part[group.to(part.device)] for part in parts)
    return EmbeddedSamples(
        parts, samples.sizes, samples.schema, samples.dropped, resources, samples.units
    )


def embed_distinct(embed: Embed, points: Tensor) -> tuple[Tensor, ...]:
    """Some points through `embed`, those that are equal only once."""
    first, group = distinct(points)
    if len(first) == len(points):
        return embed(points)
    return tuple(part[group.to(part.device)] for part in embed(points[first]))


def distinct(points: Tensor) -> tuple[Tensor, Tensor]:
    """One of each kind of equal points, and of which kind, by its place there, each point is."""
    numbers = torch.arange(len(points), device=points.device)
    rows = points.flatten(1)
    # Rows of many numbers, such as images, mostly differ in a few of them already.
    for step in (-(-rows.shape[1] // _SOME), 1):
        kinds, kind = torch.unique(row_keys(rows[:, ::step]), return_inverse=True)
        if len(kinds) == len(points):
            return numbers, numbers
    earliest = torch.full_like(kinds, len(points)).scatter_reduce(0, kind, numbers, "amin")
    leader = earliest[kind]  # (N,) the number of an equal point, or its own
    for part in torch.split(numbers, _at_a_time(rows)):
        # Points of one key are equal but for an accident; then they stay by themselves.
        equal = (rows[part] == rows[leader[part]]).all(1)
        leader[part] = torch.where(equal, leader[part], part)
    leads = leader == numbers
    if len(points) > 1 and leads.sum() == 1:
        leads[1] = True  # every batch has two points, or none could be normalised
    kind = torch.cumsum(leads, 0) - 1
    return numbers[leads], kind[leader]


def row_keys(rows: Tensor) -> Tensor:
    """A number for each row, the same for equal rows; of integers, which nothing rounds."""
    fixed = torch.Generator().manual_seed(0)  # any factors do, because points are compared, too
    factors = torch.randint(-(2**62), 2**62, (rows.shape[1],), generator=fixed).to(rows.device)
    keys = []
    for part in torch.split(rows, _at_a_time(rows)):
        values = part.double() if part.element_size() == 8 else part.float()
        values = values + 0.0  # -0.0 equals 0.0, and now in its bits, too
        bits = values.view(torch.int64 if part.element_size() == 8 else torch.int32).long()
        # Low bits are 0 in most numbers, and bits of a product depend on lower ones only.
        bits = bits ^ (bits >> 23) ^ (bits >> 41)
        keys.append((bits * factors).sum(1))
    return torch.cat(keys)


def _at_a_time(rows: Tensor) -> int:
    """How many rows are looked at together for equal ones."""
    return max(1, _NUMBERS // max(1, rows.shape[1]))


def _places_among(first: Tensor, order: Tensor) -> Tensor:
    """The order of the points `first`, counted among themselves, in an order of all points."""
    place = torch.full((len(order),), -1)
    place[first.cpu()] = torch.arange(len(first))
    places = place[order]
    return places[places >= 0]


def _from_memory(
    points: Tensor, order: Tensor, embed: Embed, resources: Resources
) -> Iterator[Piece]:
    """The points in this order, a batch at a time, through `embed`, on the workers."""
    order = order.to(points.device)
    width = points[0].numel()
    size = points.element_size()
    places = torch.tensor_split(order, batches_for(len(points), width, size, resources.memory))
    workers = resources.workers
    shared = workers.share(embed)
    # A piece of work is one batch, or several where they are small.
    each = -(-len(places) // _PIECES)
    work = (
        (shared, [points[batch] for batch in places[first : first + each]])
        for first in range(0, len(places), each)
    )
    done = itertools.chain.from_iterable(workers.map(_embedded, work))
    return zip(done, places, strict=True)


def _embedded(embed: Embed, batches: Sequence[Tensor]) -> list[tuple[Tensor, ...]]:
    with torch.no_grad():
        return [embed(points) for points in batches]


def batches_for(count: int, width: int, size: int, memory: int) -> int:
    """In how many batches `count` points go through a network of a usual size.

    A point has `width` numbers of `size` bytes.
    """
    activations = 64 * size * max(256, width)  # bytes a point
    # Of two points at least, or none could be normalised.
    return max(1, min(count // 2, -(-count * activations // memory)))


def gathered(pieces: Iterable[Piece], count: int, memory: int | None = None) -> tuple[Tensor, ...]:
    """All pieces of `count` points at their places.

    They stay on their device. With `memory` they are on the CPU, and in a temporary file without a
    name if they take more bytes than that; it vanishes with them.
    """
    parts: tuple[Tensor, ...] = ()
    with torch.no_grad():
        for embedded, places in pieces:
            # The first piece shows how large and of which dtype they are.
            parts = parts or _room(embedded, count, memory)
            for part, new in zip(parts, embedded, strict=True):
                part.index_copy_(0, places.to(part.device), new.to(part.device))
    return parts


def _room(like: tuple[Tensor, ...], count: int, memory: int | None) -> tuple[Tensor, ...]:
    """Tensors for `count` points like some."""
    if memory is None:
        return tuple(part.new_empty((count, *part.shape[1:])) for part in like)
    needed = count * sum(part[:1].numel() * part.element_size() for part in like)
    if needed <= memory:
        return tuple(part.new_empty((count, *part.shape[1:]), device="cpu") for part in like)
    return tuple(_mapped((count, *part.shape[1:]), part.dtype) for part in like)


def _mapped(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """A tensor in a temporary file."""
    numbers = torch.empty(0, dtype=dtype).numpy().dtype
    try:
        with tempfile.TemporaryFile(prefix="twosample-") as file:
            # Without room set apart, a full disk would end the process when a page is written.
            if hasattr(os, "posix_fallocate"):
                size = int(np.prod(shape)) * numbers.itemsize
                os.posix_fallocate(file.fileno(), 0, max(1, size))
            return torch.from_numpy(np.memmap(file, dtype=numbers, mode="w+", shape=shape))
    except OSError as error:
        raise InputError(
            f"the embedded points cannot be written to {tempfile.gettempdir()} "
            f"({error.strerror or error}); set TMPDIR to a folder with more room, or give the test "
            "more memory."
        ) from error
