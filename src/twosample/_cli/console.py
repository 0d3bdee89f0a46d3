"""Errors, warnings and interrupts of commands: sentences on standard error, an exit status."""

from __future__ import annotations

import errno
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from .._files.handles import without_password
from .._findings import Findings, FindingWarning
from ..errors import InputError, InputNote, TwoSampleError, printable
from .interrupts import NO_VERDICT, begin_work, end_work, ending

_MOST = 20  # problems of an error that are listed

FAILED = 2
"""The exit status after an error."""


class Saying:
    """What a command has said on standard error, so that nothing is said twice.

    Attributes
    ----------
    messages
        The warnings that were shown.
    """

    def __init__(self) -> None:
        self.messages: list[str] = []

    def findings(self, findings: Findings) -> None:
        """Say what is odd about the samples, but for notes, and what a warning has said."""
        for one in findings:
            if one.severity == "note":
                continue
            # Values that are drawn in have been named with their column.
            named = one.kind in ("range", "sentinel") and any(
                f"in column '{one.column}'" in message for message in self.messages
            )
            if one.message not in self.messages and not named:
                typer.echo(printable(str(one)), err=True)


@contextmanager
def sentences(a: str = "", b: str = "", *, interrupted: str = NO_VERDICT) -> Iterator[Saying]:
    """Show errors and warnings as sentences, and exit with a status that says what happened.

    Parameters
    ----------
    a, b
        The files, to be named below the first message that speaks of X or Y.
    interrupted
        What an interrupt means for the user: a sentence.
    """
    begin_work(interrupted)
    explained = False
    saying = Saying()

    def say(kind: str, message: object) -> None:
        nonlocal explained
        if kind not in ("note", "warning", "severe"):
            end_work()  # an impatient second Ctrl-C must not cut the sentence short
        typer.echo(f"{kind}: {_listed(message)}", err=True)
        # Messages name files by their names. Where one speaks of X and Y all the same, and not of
        # columns with these names in a file, it is said which those are.
        speaks_of_samples = re.search(r"\b[XY]\b", str(message)) is not None
        names_a_file = a in str(message) or b in str(message)
        if a and speaks_of_samples and not names_a_file and not explained:
            names = without_password(f"(X is {a}, Y is {b}.)")
            typer.echo(printable(names), err=True)
            explained = True

    with warnings.catch_warnings():
        # Warnings of other kinds, such as DeprecationWarning, are for programmers.
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("always", RuntimeWarning)

        def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
            saying.messages.append(str(message))
            kind = "note" if issubclass(category, InputNote) else "warning"
            say("severe" if issubclass(category, FindingWarning) else kind, message)

        warnings.showwarning = show
        try:
            yield saying
        except TwoSampleError as error:
            say("error", error)
            raise typer.Exit(FAILED) from error
        except KeyboardInterrupt as error:
            word, status = ending()
            say(word, interrupted)
            raise typer.Exit(status) from error
        except (MemoryError, RuntimeError) as error:
            # torch has no error of its own for lack of memory, but its message says "allocate".
            if not isinstance(error, MemoryError) and "allocate" not in str(error):
                raise
            say("error", "there is not enough memory for samples of this size.")
            raise typer.Exit(FAILED) from error
        except OSError as error:
            if error.errno == errno.EPIPE:  # nobody reads the output any more; typer ends quietly
                raise
            where = f"{error.filename}: " if error.filename else ""
            say("error", f"{where}{error.strerror or error}.")
            raise typer.Exit(FAILED) from error
        finally:
            end_work()


def _listed(message: object) -> str:
    """A message as it is shown: of several problems each on a line of its own."""
    problems = message.problems if isinstance(message, InputError) else ()
    if len(problems) < 2:
        return printable(str(message))
    lines = [f"  {number}. {printable(text)}" for number, text in enumerate(problems[:_MOST], 1)]
    if len(problems) > _MOST:
        lines.append(f"  And {len(problems) - _MOST} more.")
    return "\n".join([f"{len(problems)} things stand in the way:", *lines])
