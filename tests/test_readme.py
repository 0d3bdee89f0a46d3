"""README is executed: its Python as doctests, its shell lines by the command line's own parser."""

import doctest
import re
import shlex
from pathlib import Path

import power  # benchmarks/ is on the path of the tests
import pytest
import reasons
from typer.testing import CliRunner

from twosample._cli import main as cli

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    "page", ["README.md", pytest.param("docs/methods.md", marks=pytest.mark.slow)]
)
def test_python_in_the_pages_gives_what_it_shows(page):
    results = doctest.testfile(
        str(ROOT / page), module_relative=False, optionflags=doctest.ELLIPSIS
    )
    assert results.attempted > 5 and results.failed == 0


@pytest.mark.parametrize("line", re.findall(r"^\$ twosample (.+)$", README, re.MULTILINE))
def test_shell_lines_in_readme_run(line, monkeypatch):
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(cli.build(), shlex.split(line))
    assert done.exit_code == 0, done.output
    shown = README[README.index(line) + len(line) :].split("```")[0].strip()
    assert done.stdout.strip() == shown


@pytest.mark.parametrize(
    ("page", "store"),
    [
        ("docs/methods.md", "power.jsonl"),
        ("docs/decisions/0002-start-at-the-best-gaussian.md", "variants.jsonl"),
    ],
)
def test_power_tables_are_what_the_stored_runs_give(page, store):
    assert power.table(power.RESULTS / store) in (ROOT / page).read_text()


def test_probes_are_what_the_stored_runs_give():
    assert reasons.table() in (ROOT / "docs" / "reproduction" / "probes.md").read_text()


def test_first_screen_has_the_two_commands():
    screen = README[:2000]
    assert (
        "make demo" in screen
        and "make test" in screen
        and "```python" in screen
        and "$ twosample" in screen
    )
