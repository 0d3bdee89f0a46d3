"""One `rng` in, independent named generators out; nothing reads or writes a global generator."""

from __future__ import annotations

import functools
import hashlib
import secrets
from collections.abc import Callable
from typing import ParamSpec, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from .errors import UnknownOption

RNGLike: TypeAlias = (
    int | np.integer | np.random.Generator | np.random.BitGenerator | np.random.SeedSequence
)
"""What `rng=` accepts besides None (SPEC 7)."""

_OTHER_NAMES = ("seed", "random_state")
"""What other libraries call `rng`."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


def takes_rng(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function with an option `rng` that answers to other names of it with the right one."""

    @functools.wraps(function)
    def answering(*arguments: _P.args, **options: _P.kwargs) -> _R:
        for name in _OTHER_NAMES:
            if name in options:
                raise UnknownOption(
                    f"{function.__name__} has no option `{name}`; use rng={options[name]!r}."
                )
        return function(*arguments, **options)

    return answering


def drawn_seed() -> int:
    """A seed for a run to which nobody gave one, so that it can be repeated."""
    return secrets.randbelow(2**32)


class Generators:
    """Independent generators derived by name from one `rng`.

    A name, not an order of calls, decides which numbers a generator gives: training longer never
    changes the permutations. An integer or SeedSequence gives the same generators every time; a
    Generator is advanced once, so two calls with the same Generator differ, as elsewhere in
    scientific Python.

    Attributes
    ----------
    seed
        The integer that gives the same generators again: the one that was given, or the one that
        was drawn in its place. None where they come from a Generator or a SeedSequence.
    """

    def __init__(self, rng: RNGLike | None = None) -> None:
        if rng is None:
            rng = drawn_seed()
        self.seed = int(rng) if isinstance(rng, int | np.integer) else None
        root = np.random.default_rng(rng)
        words = root.integers(0, 2**32, size=4)
        self._entropy: list[int] = words.tolist()

    def child(self, name: str) -> Generators:
        """Generators of their own under a name."""
        # Not by the constructor, which would draw entropy from the system for nothing.
        generators = object.__new__(Generators)
        generators.seed = None
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
