"""One `rng` in, independent named generators out; the global generators are never read or written."""

from __future__ import annotations

import hashlib
from typing import TypeAlias

import numpy as np
import torch

RNGLike: TypeAlias = (
    int | np.integer | np.random.Generator | np.random.BitGenerator | np.random.SeedSequence
)
"""What `rng=` accepts besides None (SPEC 7)."""


class Generators:
    """Independent generators derived by name from one `rng`.

    A name, not an order of calls, decides which numbers a stream gives: training longer never
    changes the permutations. An integer or SeedSequence gives the same generators every time; a
    Generator is advanced once, so two calls with the same Generator differ, as elsewhere in
    scientific Python.
    """

    def __init__(self, rng: RNGLike | None = None) -> None:
        root = np.random.default_rng(rng)
        self._entropy: list[int] = [int(word) for word in root.integers(0, 2**32, size=4)]

    def child(self, name: str) -> Generators:
        """Generators of their own under a name."""
        generators = object.__new__(Generators)
        generators._entropy = [int(word) for word in self._sequence(name).generate_state(4)]
        return generators

    def _sequence(self, name: str) -> np.random.SeedSequence:
        digest = hashlib.sha256(name.encode()).digest()
        words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4)]
        return np.random.SeedSequence(self._entropy + words)

    def numpy(self, name: str) -> np.random.Generator:
        """The NumPy generator called `name`."""
        return np.random.default_rng(self._sequence(name))

    def torch(self, name: str) -> torch.Generator:
        """The torch generator called `name`, on the CPU, so that every device sees the same numbers."""
        seed = int(self._sequence(name).generate_state(1, np.uint64)[0] >> np.uint64(1))
        return torch.Generator().manual_seed(seed)
