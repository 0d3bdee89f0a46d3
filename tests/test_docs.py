"""The site: it builds without a warning, links lead somewhere, examples run, a browser has nothing
to say. Building it takes long, so only the examples and the links between pages are quick tests."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from typer.testing import CliRunner

import twosample
from browser import DESKTOP, PHONE, Browser
from twosample import testing
from twosample._cli import main as cli

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# Those of one subject are executed beside its tests.
LONG = {"gallery", "pvalues", "migrating"}  # they train and simulate; a slow test executes them
PAGES = [
    "quickstart",
    "pvalues",
    "designs",
    "data",
    "checks",
    "clusters",
    "extending",
    "gallery",
    "migrating",
    "the-model",
]
LOADS = {
    ("link", "href"),
    ("script", "src"),
    ("img", "src"),
    ("source", "srcset"),
    ("iframe", "src"),
}


class Links(HTMLParser):
    """What a page names, and where it leads."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.names: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag, attributes):
        for key, value in attributes:
            if key == "id":
                self.names.append(value)
            if key in ("href", "src", "srcset"):
                self.links.append(value)
            if (tag, key) in LOADS:
                self.loaded.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = re.search(
        r"-m (sphinx .*) build/docs$", (ROOT / "Makefile").read_text(), re.MULTILINE
    )[1]
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(command), folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "--fail-on-warning" in command
    return folder


@pytest.fixture(scope="module")
def pages(site) -> dict[Path, Links]:
    return {
        page.resolve(): Links(page) for page in site.rglob("*.html") if "_static" not in page.parts
    }


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_links_between_pages_lead_to_files(page):
    links = re.findall(r"\]\(([^()\s]+)\)", page.read_text())
    inside = [link.partition("#")[0] for link in links if not urlsplit(link).scheme]
    assert [link for link in inside if link and not (page.parent / link).exists()] == []


@pytest.mark.slow
def test_links_inside_the_site_lead_somewhere(site, pages):
    lost = []
    for page, found in pages.items():
        for link in found.links:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                continue
            target = (page.parent / unquote(address.path)).resolve() if address.path else page
            known = pages[target].names if target in pages else []
            if not target.is_file() or (
                address.fragment and target in pages and unquote(address.fragment) not in known
            ):
                lost.append(f"{page.relative_to(site)}: {link}")
    assert len(pages) > 30 and not lost


@pytest.mark.slow
def test_pages_load_nothing_from_elsewhere(site, pages):
    assert [
        link for found in pages.values() for link in found.loaded if urlsplit(link).netloc
    ] == []
    assert (site / "_static" / "mathjax" / "tex-chtml.js").stat().st_size > 100_000


def test_every_public_name_is_on_a_page_of_the_reference():
    reference = "".join(page.read_text() for page in (DOCS / "api").glob("*.md"))
    assert [name for name in twosample.__all__ if not re.search(rf"\b{name}\b", reference)] == []


@pytest.mark.slow
def test_every_public_name_is_described_once(pages):
    described = [name for found in pages.values() for name in found.names]
    public = [f"twosample.{name}" for name in twosample.__all__]
    public += [f"twosample.testing.{name}" for name in testing.__all__]
    assert [name for name in public if described.count(name) != 1] == []


@pytest.mark.slow
def test_every_page_is_in_the_contents(site):
    assert [
        page.stem for page in DOCS.glob("*.md") if not (site / f"{page.stem}.html").exists()
    ] == []


# Examples


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] * (page in LONG)) for page in PAGES]
)
def test_examples_give_what_they_show(page, tmp_path, monkeypatch):
    (tmp_path / "demo").symlink_to(ROOT / "demo")
    monkeypatch.chdir(tmp_path)
    results = doctest.testfile(
        str(DOCS / f"{page}.md"), module_relative=False, optionflags=doctest.ELLIPSIS
    )
    assert results.attempted > 1 and results.failed == 0


def test_examples_of_every_page_are_executed_by_some_test():
    tests = "".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))
    with_examples = [page for page in DOCS.rglob("*.md") if ">>> " in page.read_text()]
    assert len(with_examples) > 10
    assert [
        page.name
        for page in with_examples
        if page.stem not in PAGES and f'{page.name}"' not in tests
    ] == []


def shell_lines() -> list[tuple[str, str]]:
    """Commands that pages show with what they print; those of README are run beside its other
    tests."""
    pages = "".join((DOCS / f"{page}.md").read_text() for page in PAGES)
    blocks = re.findall(r"```console\n\$ (.*?)\n(.*?)```", pages, re.DOTALL)
    return [
        (command, shown.strip())
        for command, shown in blocks
        if command not in (ROOT / "README.md").read_text()
    ]


@pytest.mark.parametrize(("command", "shown"), shell_lines())
def test_shell_lines_print_what_they_show(command, shown, monkeypatch):
    program, *arguments = shlex.split(command)
    assert program == "twosample"
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(cli.build(), arguments)
    assert done.exit_code == 0, done.output
    assert done.stdout.strip() == shown


# In a browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_browser_has_nothing_to_say(site, browser, size, dark):
    for name in ("index", "the-model", "pvalues", "api/statistics"):
        page = browser.open(site / f"{name}.html", size, dark=dark)
        assert page.complaints() == []
        assert [address for address in page.requests() if not address.startswith("file:")] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        assert page.evaluate("document.documentElement.dataset.theme") == (
            "dark" if dark else "light"
        )
        page.close()


@pytest.mark.slow
def test_formulas_are_set(site, browser):
    page = browser.open(site / "the-model.html")
    page.evaluate("MathJax.startup.promise.then(() => 0)")
    assert page.evaluate("document.querySelectorAll('mjx-container').length") >= 2
    assert page.complaints() == []
    page.close()
