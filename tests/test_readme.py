"""README is executed: its Python as doctests, its shell lines for real."""

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("page", ["README.md", "docs/methods.md"])
def test_python_in_the_pages_gives_what_it_shows(page):
    results = doctest.testfile(
        str(ROOT / page), module_relative=False, optionflags=doctest.ELLIPSIS
    )
    assert results.attempted > 5 and results.failed == 0


@pytest.mark.parametrize("line", re.findall(r"^\$ twosample (.+)$", README, re.MULTILINE))
def test_shell_lines_in_readme_run(line):
    done = subprocess.run(
        [sys.executable, "-m", "twosample", *shlex.split(line)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = README[README.index(line) + len(line) :].split("```")[0].strip()
    assert done.stdout.strip() == shown


@pytest.mark.parametrize(
    ("page", "option"),
    [("README.md", []), ("docs/decisions/0002-start-at-the-best-gaussian.md", ["--variants"])],
)
def test_power_tables_are_what_the_stored_runs_give(page, option):
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "power.py", "table", *option],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() in (ROOT / page).read_text()


def test_probes_are_what_the_stored_runs_give():
    script = [sys.executable, ROOT / "benchmarks" / "reasons.py", "table"]
    done = subprocess.run(script, capture_output=True, text=True, check=True)
    assert done.stdout.strip() in (ROOT / "docs" / "reproduction" / "probes.md").read_text()


def test_first_screen_has_the_two_commands():
    screen = README[:2000]
    assert (
        "make demo" in screen
        and "make test" in screen
        and "```python" in screen
        and "$ twosample" in screen
    )
