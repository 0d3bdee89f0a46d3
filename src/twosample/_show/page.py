"""What all pages share: each is one HTML file that needs nothing else, with scripts or without."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from .._checks import check_alpha
from .._data.tables import cut_in_the_middle
from .._insight import text_tables
from .._result import format_pvalue
from .._saving.saving import replace, writable
from ..errors import IncompatibleParts, InputError, MissingDependency
from .svg import Drawn

LEVELS = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
"""The levels alpha to choose from on a page, beside the one it is written for."""

_NAME = 34  # characters of a name that fit into a table
_BRIEF = 20  # and that fit above a number

Part = TypeVar("Part")


def levels_with(alpha: float) -> tuple[float, ...]:
    """The levels to choose from on a page that is written for `alpha`."""
    check_alpha(alpha)
    return tuple(sorted({*LEVELS, alpha}))


def fill(template: str, script_data: Mapping[str, object], **values: object) -> str:
    """A page from a template; `script_data` is what its script reads."""
    script = _file("report.js")
    digest = hashlib.sha256(script.encode()).digest()
    page: str = (
        _environment()
        .get_template(template)
        .render(
            style=Drawn(_file("report.css")),
            script=Drawn(script),
            # Only this script runs, whatever the data hold, and nothing is fetched.
            script_hash=base64.b64encode(digest).decode(),
            data=_json(script_data),
            **values,
        )
    )
    return page


def ready(path: str | Path) -> Path:
    """The file that a page will be written to; an error if it cannot be.

    Ask before a test, which may take long, not after it.
    """
    _environment()
    return writable(path)


@dataclass(frozen=True)
class InlineReport:
    """A page that a notebook shows where it stands; `html` is all of it."""

    html: str = field(repr=False)

    def _repr_html_(self) -> str:
        # A frame of its own: the styles and the script of a page are for that page only.
        page = html.escape(self.html, quote=True)
        style = "width:100%;height:80vh;min-height:600px;border:0"
        return f'<iframe srcdoc="{page}" style="{style}" title="Report of a test"></iframe>'


def write(page: str, path: str | Path) -> Path:
    """Write a page to a file, all of it or nothing, and return its path."""
    replace(writable(path), page.encode())
    return Path(path)


def or_why(make: Callable[[], Part]) -> tuple[Part | None, str]:
    """A part of the page and "", or None and a sentence that says why there is none."""
    # Other errors are defects of ours, and no part of a page hides them.
    try:
        return make(), ""
    except (InputError, IncompatibleParts) as error:
        return None, sentence(error)


def sentence(error: Exception) -> str:
    """What an error says, with a capital."""
    text = str(error)
    return text[:1].upper() + text[1:]


def as_text(value: float | bool | str) -> str:
    """A value of the data in few characters."""
    if isinstance(value, bool):
        return "true" if value else "false"  # readers of a page need not know Python
    return text_tables.as_text(value)


def typeset(text: str) -> str:
    """A sentence of the library with the signs that a page has and a terminal may lack."""
    signs = text.replace("->", "→").replace(">=", "≥").replace(" -", " −")
    return signs.replace(" %", "\u00a0%")  # no line begins with a percent sign


def times(value: float) -> str:
    """How many times as much, in few digits."""
    return f"× {value:,.0f}" if abs(value) >= 10 else f"× {value:.2g}"


def missing(package: str) -> MissingDependency:
    """The error for a package that is not installed."""
    return MissingDependency(f"the report takes {package}; pip install 'twosample[report]'.")


def _environment() -> Any:
    try:
        import jinja2
        import matplotlib  # noqa: F401  # the contours need it; better refused now than halfway
    except ImportError as error:
        raise missing(error.name or "jinja2") from error
    # Names and values come from the data, so everything is escaped unless it is `Drawn`; a name
    # that a template misspells is an error, not an empty place.
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_file),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "p": format_pvalue,
        "shown": as_text,
        "percent": text_tables.percent,
        "typeset": typeset,
        "times": times,
        "short": partial(cut_in_the_middle, most=_NAME),
        "brief": partial(cut_in_the_middle, most=_BRIEF),
    }
    return environment


def _file(name: str) -> str:
    return resources.files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


def _json(value: object) -> Drawn:
    """JSON that can stand in a script element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    # A `<` could end the element early or open a comment, and the two separators end a line in
    # older scripts.
    for character in ("<", "\u2028", "\u2029"):
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Drawn(text)
