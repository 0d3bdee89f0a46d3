"""How the site is built: `make docs`, offline and with warnings as errors."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path
from typing import Any

import twosample

project = "twosample"
author = "The twosample authors"
copyright = "the twosample authors; BSD-3-Clause"
version = release = twosample.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
]
source_suffix = {".md": "markdown"}
highlight_language = "none"  # blocks without a language are shell lines, formulas and tables
default_role = (
    "py:obj"  # `name` in a docstring: a link where there is something of that name, else code
)

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autosummary_generate = False  # docs/api has the pages
autodoc_class_signature = "mixed"
autodoc_inherit_docstrings = False  # what overrides a method of `Kernel` is described there
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the parameters have words
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = "twosample"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["../src/twosample/_cli/output.v1.json"]  # at an address that stays
html_copy_source = False
html_show_sourcelink = False
html_sidebars: dict[str, list[str]] = {
    page: [] for page in ("quickstart", "gallery", "extending", "changelog")
}  # they stand alone
html_context = {"default_mode": "auto"}
html_theme_options = {
    "header_links_before_dropdown": 8,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

mathjax_path = "mathjax/tex-chtml.js"
MATHJAX_FILES = ("tex-chtml.js", "output/chtml/fonts")


def copy_mathjax(app: Any, error: Exception | None) -> None:
    """Take from the package that carries MathJax what the pages ask for, a twentieth of it."""
    found = importlib.util.find_spec("sphinx-mathjax-offline")
    if error is not None or found is None or found.origin is None:
        return
    source = Path(found.origin).parent / "static" / "mathjax"
    for name in MATHJAX_FILES:
        target = Path(app.outdir) / "_static" / "mathjax" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (source / name).is_dir():
            shutil.copytree(source / name, target, dirs_exist_ok=True)
        else:
            shutil.copy(source / name, target)


def as_markup(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are written for people: |x - y| is a distance there, not a substitution."""
    lines[:] = [
        re.sub(r"(?<!`)\|(?!`)", r"\\|", line) if ">>>" not in line else line for line in lines
    ]


def without_last_line(app: Any, page: str, source: list[str]) -> None:
    """Examples end with an empty line, where doctest looks for the end of what is printed; readers
    need none.
    """
    source[0] = re.sub(r"\n\n```$", "\n```", source[0], flags=re.MULTILINE)


def setup(app: Any) -> None:
    """Connect the functions above."""
    app.connect("source-read", without_last_line)
    app.connect("build-finished", copy_mathjax)
    app.connect("autodoc-process-docstring", as_markup, priority=600)
