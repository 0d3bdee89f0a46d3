"""Points as a test sees them: all of them through the network, in batches that are blind to labels."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import torch
from torch import Tensor

from .._resources import Resources
from .samples import EmbeddedSamples, Samples

Embed: TypeAlias = Callable[[Tensor], tuple[Tensor, ...]]
"""What a kernel compares, or the features, of some points."""

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
    pooled = samples.pooled()
    order = order.to(pooled.device)
    batches = torch.tensor_split(order, batches_for(count, pooled, resources.memory))
    team = resources.workers
    shared = team.share(embed)
    # A piece of work is one batch, or several where they are small.
    each = -(-len(batches) // _PIECES)
    work = (
        (shared, [pooled[batch] for batch in batches[first : first + each]])
        for first in range(0, len(batches), each)
    )
    with torch.no_grad():
        done = itertools.chain.from_iterable(team.map(_embedded, work))
        back = torch.argsort(order)
        parts = tuple(torch.cat(part)[back] for part in zip(*done, strict=True))
    return EmbeddedSamples(parts, samples.sizes, samples.schema, samples.dropped, resources)


def batches_for(count: int, points: Tensor, memory: int) -> int:
    """In how many batches `count` points like these go through a network of a usual size."""
    activations = 64 * points.element_size() * max(256, points[0].numel())  # bytes a point
    # Of two points at least, or none could be normalised.
    return max(1, min(count // 2, -(-count * activations // memory)))


def _embedded(embed: Embed, batches: Sequence[Tensor]) -> list[tuple[Tensor, ...]]:
    with torch.no_grad():
        return [embed(points) for points in batches]
