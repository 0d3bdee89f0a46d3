"""The command `twosample schema`: what the objects are that --json writes."""

from __future__ import annotations

from importlib.resources import files

import typer

from .console import sentences
from .shared import JSON_VERSION


def run() -> None:
    """Print the JSON Schema of what --json writes.

    It has one object for each command, whose key "schema" says which it is and in which version.
    Within a version keys may be added, but none is changed or removed.

    \b
    Example:
      twosample schema > twosample.schema.json
    """
    with sentences():
        text = files(__package__).joinpath(f"output.v{JSON_VERSION}.json").read_text("utf-8")
        typer.echo(text, nl=False)
