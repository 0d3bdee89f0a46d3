"""Verdicts as a JUnit file, which servers for continuous integration read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree

from ..errors import TwoSampleError, printable

Outcome = Literal["passed", "failure", "error", "skipped"]


@dataclass(frozen=True)
class Case:
    """One verdict.

    Attributes
    ----------
    name
        What was compared with what.
    outcome
        "failure" if the samples differ, "error" if there is no verdict or it is undecided,
        "skipped" if nobody got to it, else "passed".
    message
        The verdict, or why there is none, in a sentence.
    details
        More lines about it.
    """

    name: str
    outcome: Outcome
    message: str
    details: str = ""


def outcome_of(verdict: str) -> Outcome:
    """What a verdict is in a JUnit file."""
    outcomes: dict[str, Outcome] = {"differ": "failure", "undecided": "error"}
    return outcomes.get(verdict, "passed")


@contextmanager
def junit_file(path: str | None, command: str, name: str) -> Iterator[list[Case]]:
    """A list of cases that is written to a file at the end; nothing is if `path` is None.

    Where the work ends in an error before there is a case, the error is the case, called `name`.
    """
    cases: list[Case] = []
    if path is None:
        yield cases
        return
    from .._saving.saving import writable

    writable(path)  # a verdict that nobody can keep is found out now, not after an hour
    began = time.monotonic()
    try:
        yield cases
    except (TwoSampleError, OSError, MemoryError, KeyboardInterrupt) as error:
        if not cases:
            message = str(error) or "there is no verdict."
            cases.append(Case(name, "error", message))
        raise
    finally:
        if cases:
            _write(path, command, cases, time.monotonic() - began)


def _write(path: str, command: str, cases: list[Case], seconds: float) -> None:
    def number(outcome: Outcome) -> str:
        return str(sum(case.outcome == outcome for case in cases))

    counts = {
        "name": f"twosample {command}",
        "tests": str(len(cases)),
        "failures": number("failure"),
        "errors": number("error"),
        "skipped": number("skipped"),
        "time": f"{seconds:.3f}",
    }
    suites = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(suites, "testsuite", counts)
    # Nobody measures single cases; their times add up to that of all.
    share = f"{seconds / len(cases):.3f}"
    for case in cases:
        described = {
            "classname": f"twosample.{command}",
            "name": _in_xml(case.name),
            "time": share,
        }
        element = ElementTree.SubElement(suite, "testcase", described)
        text = _in_xml(f"{case.message}\n{case.details}".rstrip())
        if case.outcome == "passed":
            ElementTree.SubElement(element, "system-out").text = text
        else:
            message = {"message": _in_xml(case.message)}
            ElementTree.SubElement(element, case.outcome, message).text = text
    ElementTree.indent(suites)
    ElementTree.ElementTree(suites).write(path, encoding="utf-8", xml_declaration=True)


def _in_xml(text: str) -> str:
    """A text without the characters that XML has no way to write; line breaks stay."""
    lines = [printable(line) for line in text.split("\n")]
    return "\n".join(lines)
