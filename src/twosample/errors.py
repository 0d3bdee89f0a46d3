"""What can go wrong, by kind; every message says what was wrong, where, and what to do."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

_SHOWN = 5  # problems of one error; `problems` has them all


def printable(text: str) -> str:
    """The text with control characters as escapes: names in it come from files of anybody."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


class TwoSampleError(Exception):
    """Anything this library raises on purpose; its message is one line that can be shown."""

    def __str__(self) -> str:
        return printable(super().__str__())


class InputError(TwoSampleError, ValueError):
    """The samples cannot be tested as they are; it may say several reasons at once."""

    @property
    def problems(self) -> tuple[str, ...]:
        """What stands in the way, a sentence each."""
        return tuple(str(problem) for problem in self.args)

    def __str__(self) -> str:
        if len(self.args) < 2:
            return super().__str__()
        numbered = [f"({at}) {text}" for at, text in enumerate(self.problems[:_SHOWN], 1)]
        more = len(self.args) - len(numbered)
        if more:
            numbered.append(f"And {more} more.")
        return printable(f"{len(self.args)} things stand in the way: {' '.join(numbered)}")


class UnknownOption(InputError, TypeError):
    """An option that a function does not have, under a name that others give to one it has."""


class IncompatibleParts(TwoSampleError, ValueError):
    """Parts of a test, or an option and a method, that do not fit together."""


class TrainingError(TwoSampleError, RuntimeError):
    """Training produced a value that cannot be used, such as a non-finite objective."""


class ClusterError(TwoSampleError, RuntimeError):
    """A scheduler or all of its workers have gone, and the work with them."""


class MissingDependency(TwoSampleError, ImportError):
    """A package of an extra is needed and not installed."""


class InputWarning(UserWarning):
    """The samples can be tested, but something about them deserves a look."""


class InputNote(InputWarning):
    """Something about the samples was decided by a rule; it may be decided otherwise."""


class DependenceWarning(InputWarning):
    """Rows seem to depend on each other, and nothing was said of it."""


class TrainingWarning(UserWarning):
    """Training ended early or in an unusual way."""


class Obstacles:
    """What stands in the way of a test, gathered, so that all of it can be said at once."""

    def __init__(self) -> None:
        self._found: dict[Hashable, tuple[str, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    @contextmanager
    def noted(self, about: Hashable = None) -> Iterator[None]:
        """Go on after an `InputError`; of several `about` the same thing, the first is kept."""
        try:
            yield
        except InputError as error:
            key = error.problems if about is None else about
            self._found.setdefault(key, error.problems)

    def include(self, other: Obstacles) -> None:
        """Take over what another has gathered."""
        for about, problems in other._found.items():
            self._found.setdefault(about, problems)

    def raise_any(self) -> None:
        """Raise one error that says everything, if there is anything to say."""
        problems = [problem for found in self._found.values() for problem in found]
        if problems:
            raise InputError(*dict.fromkeys(problems))


def warn(message: str, kind: type[Warning] = InputWarning) -> None:
    """Warn at the line of the caller's own code, however deep in the library this is."""
    level = 1
    frame = sys._getframe()
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level += 1
        frame = frame.f_back
    warnings.warn(message, kind, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module.split(".")[0] == "twosample"
