"""What the doors share: a case, how it may end, and what a refusal has to look like."""

from __future__ import annotations

import re
import warnings
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from twosample.errors import InputWarning, TrainingWarning, TwoSampleError

ACCEPTED = "accepted"
REFUSED = "refused"
"""The two ways in which a case may end: with the right answer, or with a sentence."""


@dataclass(frozen=True)
class Case:
    """Something malformed, or nearly so: how it was made, the files that it needs, and what else it
    takes.
    """

    kind: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    data: Any = None


class Door(Protocol):
    """A way into the library: it makes cases of its own kind and judges how the library takes
    them.
    """

    def case(self, rng: np.random.Generator) -> Case:
        """A new case."""

    def judge(self, case: Case) -> str:
        """How it ended; anything raised is a fault of the library. The files of the case are where
        it runs.
        """


class Fault(Exception):
    """The library did what it never may; the first word of the message is the kind."""


def generator(door: str, seed: int, number: int) -> np.random.Generator:
    """That of one case, so that each can be made again without those before it."""
    return np.random.default_rng([zlib.crc32(door.encode()), seed, number])


def check(right: object, message: str) -> None:
    """Raise a `Fault` unless the answer is right."""
    if not right:
        raise Fault(f"wrong: {message}")


def check_sentence(message: str, *names: str) -> None:
    """Refusals are sentences: one line, with an end, without the insides of a program, that names
    what it is about.
    """
    most = 5 if "things stand in the way" in message else 1  # sentences
    for what, bad in (
        ("is empty", not message.strip()),
        ("has several lines", "\n" in message.strip()),
        ("has no end", message.strip()[-1:] not in (".", "?", ")")),
        ("is endless", len(message) > most * 1500),
        (
            "shows the insides",
            re.search(r"Traceback|at 0x[0-9a-f]+|\.(py|rs)\b:?\d*|panicked|[a-z]Error\(", message),
        ),
        ("shows control characters", re.search(r"[\x00-\x08\x0b-\x1f\x7f]", message)),
    ):
        if bad:
            raise Fault(f"sentence {what}: {message!r}")
    if names and not any(name in message for name in names):
        raise Fault(f"sentence names none of {names}: {message!r}")


@contextmanager
def only_our_warnings() -> Iterator[None]:
    """Warnings of the library are part of an answer; those of others are for programmers, and a
    fault.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in (InputWarning, TrainingWarning):
            warnings.simplefilter("ignore", kind)
        yield


def outcome(door: Door, case: Case) -> str:
    """How a case ends: `accepted`, `refused`, or a fault with its kind as the first word."""
    for name, content in case.files.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes(content)
    try:
        return door.judge(case)
    except Fault:
        raise
    except TwoSampleError as error:
        raise Fault(f"unexpected: a refusal where none may be: {error}") from error
    finally:
        for name in case.files:
            Path(name).unlink(missing_ok=True)
