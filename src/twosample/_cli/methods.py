"""The command `twosample methods`."""

from __future__ import annotations

import typer

from .console import sentences


def run() -> None:
    """List the methods that --method takes.

    What each is good at, what it costs for n points, and how it is calibrated.

    \b
    Example:
      twosample methods
    """
    with sentences():
        from .._methods import methods_table

        typer.echo(methods_table())
