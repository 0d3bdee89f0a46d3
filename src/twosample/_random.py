"""One `rng` in, independent named generators out; nothing reads or writes a global generator."""

from __future__ import annotations

import hashlib
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

RNGLike: TypeAlias = (
    int | np.integer | np.random.Generator | np.random.BitGenerator | np.random.SeedSequence
)
"""What `rng=` accepts besides None (SPEC 7)."""


class Generators:
    """Independent generators derived by name from one `rng`.

    A name, not an order of calls, decides which numbers a generator gives: training longer never
    changes the permutations. An integer or SeedSequence gives the same generators every time; a
    Generator is advanced once, so two calls with the same Generator differ, as elsewhere in
    scientific Python.
    """

    def __init__(self, rng: RNGLike | None = None) -> None:
        root = np.random.default_rng(rng)
        words = root.integers(0, 2**32, size=4)
        self._entropy: list[int] = words.tolist()

    def child(self, name: str) -> Generators:
        """Generators of their own under a name."""
        # Not by the constructor, which would draw entropy from the system for nothing.
        generators = object.__new__(Generators)
        words = self._sequence(name).generate_state(4)
        generators._entropy = words.tolist()
        return generators

    def numpy(self, name: str) -> np.random.Generator:
        """The NumPy generator called `name`."""
        return np.random.default_rng(self._sequence(name))

    def torch(self, name: str) -> torch.Generator:
        """The torch generator called `name`, on the CPU, so all devices see the same numbers."""
        sequence = self._sequence(name)
        (word,) = sequence.generate_state(1, np.uint64)
        seed = word >> np.uint64(1)  # torch takes seeds below 2^63
        return torch.Generator().manual_seed(int(seed))

    def _sequence(self, name: str) -> np.random.SeedSequence:
        # A hash of the bytes, since Python's own hash of a string differs from process to process.
        digest = hashlib.sha256(name.encode()).digest()
        # Little-endian words, so that every machine reads the same numbers.
        words = np.frombuffer(digest[:16], dtype="<u4")
        return np.random.SeedSequence(self._entropy + words.tolist())


def draw_rows(points: Tensor, most: int, generator: torch.Generator) -> Tensor:
    """At most so many of the points, drawn at random without repetition."""
    order = torch.randperm(len(points), generator=generator)
    chosen = order[:most].to(points.device)
    return points[chosen]
