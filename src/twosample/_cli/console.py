"""What commands share: errors and warnings become sentences on standard error, with an exit status."""

from __future__ import annotations

import errno
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import TwoSampleError, printable


@contextmanager
def sentences(
    a: str = "", b: str = "", *, interrupted: str = "there is no verdict."
) -> Iterator[None]:
    """Errors and warnings as sentences, with the names of the files where they speak of X and Y.

    The exit status is 2 after an error and 130 after an interrupt, of which `interrupted` says what
    it means.
    """
    import typer

    explained = False

    def say(kind: str, message: object) -> None:
        nonlocal explained
        typer.echo(f"{kind}: {printable(str(message))}", err=True)
        if a and not explained and re.search(r"\b[XY]\b", str(message)):
            typer.echo(printable(f"(X is {a}, Y is {b}.)"), err=True)
            explained = True

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in (UserWarning, RuntimeWarning):
            warnings.simplefilter("always", kind)
        warnings.showwarning = lambda message, *_, **__: say("warning", message)
        try:
            yield
        except TwoSampleError as error:
            say("error", error)
            raise typer.Exit(2) from error
        except KeyboardInterrupt as error:
            say("interrupted", interrupted)
            raise typer.Exit(130) from error
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError) and "allocate" not in str(
                error
            ):  # how torch says it
                raise
            say("error", "there is not enough memory for samples of this size.")
            raise typer.Exit(2) from error
        except OSError as error:
            if error.errno == errno.EPIPE:  # whoever read the output has gone; typer ends quietly
                raise
            say("error", f"{error.strerror or error}.")
            raise typer.Exit(2) from error
