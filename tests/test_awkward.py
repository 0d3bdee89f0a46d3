"""The bank of awkward tables: the command line says what a careful analyst would, at once."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from awkward import CASES
from twosample._cli import main as cli

# Few shuffles, and few rows in the bank, so that all of it takes seconds.
OPTIONS = ["--permutations", "59", "--seed", "0", "--quiet"]
VERDICTS = {"differ": "The samples differ", "same": "No difference found", "refused": ""}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_the_answer_of_a_careful_analyst(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    case.make()
    done = CliRunner().invoke(cli.build(), ["test", *case.words, *OPTIONS])
    assert done.exit_code == (2 if case.verdict == "refused" else 0), (done.output, done.exception)
    assert done.stdout.startswith(VERDICTS[case.verdict]), done.output
    assert case.verdict != "refused" or (done.stdout == "" and "error: " in done.stderr)
    for pattern in case.says:
        assert re.search(pattern, done.stderr), (pattern, done.stderr)
    if case.silent:
        assert done.stderr == ""


def test_the_bank_is_large_and_of_all_kinds():
    assert len(CASES) >= 60
    assert {case.verdict for case in CASES} == VERDICTS.keys()
