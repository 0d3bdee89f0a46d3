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
    """
    count = sum(samples.sizes)
    order = torch.randperm(count, generator=generator)
    if isinstance(samples, EmbeddedSamples):
        # After the draw, so that what is shuffled later does not depend on who embeds.
        return replace(samples, resources=resources)
    pieces = _from_memory(samples.pooled(), order, embed, resources)
    parts = gathered(pieces, count)
    return EmbeddedSamples(parts, samples.sizes, samples.schema, samples.dropped, resources)


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
