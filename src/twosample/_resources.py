"""What a computation may use: memory, a terminal for its progress, and others who help."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import starmap
from typing import Any, Protocol

DEFAULT_MEMORY = 2**30
"""Bytes that a computation may take beside the data and what is linear in them."""


class Workers(Protocol):
    """Who does pieces of work that do not depend on each other: this process, or others."""

    def share(self, value: Any) -> Any:
        """What stands for `value` among the arguments of `map`; it travels once at most."""

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What stands for `function(*arguments)` among the arguments of `map`.

        The outcome stays with whoever computes it.
        """

    def map(
        self, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]
    ) -> Iterator[Any]:
        """`function(*each)` for each of `arguments`, in their order."""


class _Here:
    """The process itself, one piece after the other."""

    def share(self, value: Any) -> Any:
        return value

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    def map(
        self, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]
    ) -> Iterator[Any]:
        return starmap(function, arguments)


HERE: Workers = _Here()


@dataclass(frozen=True)
class Resources:
    """What a computation may use.

    Parameters
    ----------
    memory
        Bytes beside the data and what is linear in them.
    progress
        Whether long work shows a bar; None means on a terminal only.
    workers
        Who does the pieces of work that do not depend on each other.
    """

    memory: int = DEFAULT_MEMORY
    progress: bool | None = False
    workers: Workers = HERE

    def quiet(self) -> Resources:
        """The same without a bar, for short work within longer work."""
        return replace(self, progress=False)
