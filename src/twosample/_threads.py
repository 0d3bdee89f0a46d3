"""How many threads torch takes: one for tables, whose matrices are small.

Torch cuts every product among its threads and waits for the last of them. For a batch of 512 rows
the waiting costs more than it saves, on a busy machine twenty times as much. Convolutions over
images are large enough to share.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

import torch

from ._data.schema import Schema

P = ParamSpec("P")
T = TypeVar("T")

_lock = threading.Lock()
_inside = 0  # how many calls of `threads_for` are under way, in all threads of the program
_outside = 1  # the number of threads that the program had before the first of them


@contextmanager
def threads_for(schema: Schema | None) -> Iterator[None]:
    """Give torch the threads that points of this kind are worth, and put them back afterwards."""
    if schema is not None and schema.kind == "image":
        yield
        return
    _enter()
    try:
        yield
    finally:
        _leave()


def few_threads(function: Callable[P, T]) -> Callable[P, T]:
    """The same function of the result of a test, with the threads that its points are worth."""

    @functools.wraps(function)
    def with_few(*arguments: P.args, **options: P.kwargs) -> T:
        first = next(iter((*arguments, *options.values())), None)  # a result or a fitted test
        fitted = getattr(first, "fitted", first)
        with threads_for(getattr(fitted, "schema", None)):
            return function(*arguments, **options)

    return with_few


def _enter() -> None:
    global _inside, _outside
    with _lock:
        # A program may run tests in several threads. Only the first of them sees the number that
        # has to be put back: the others see what the first has set.
        if _inside == 0:
            _outside = torch.get_num_threads()
        _inside += 1
        torch.set_num_threads(1)


def _leave() -> None:
    global _inside
    with _lock:
        _inside -= 1
        # In every thread, since OpenMP keeps a number for each of them.
        torch.set_num_threads(_outside)
