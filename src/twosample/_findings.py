"""What is odd about two samples: a record for each thing that was found, and several together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from .errors import InputWarning

Severity: TypeAlias = Literal["note", "warning", "severe"]
"""How bad it is: worth knowing; likely a mistake; a p-value would not mean what it says."""


class FindingWarning(InputWarning):
    """A severe finding, which changes what is tested."""


_WORST_FIRST: tuple[Severity, ...] = ("severe", "warning", "note")


@dataclass(frozen=True)
class Finding:
    """One thing that a reader of the two samples would stumble over.

    Attributes
    ----------
    message
        What was found, with numbers and an example, and what to do.
    severity
        "note", "warning" or "severe". Of a severe one a test would give a misleading answer, or
        none: it is refused, or the test leaves out what is at fault and says so.
    column
        The column that it is about; None where it is about rows.
    kind
        What it is, in a word or two, such as "repeated rows"; docs/checks.md lists them.
    """

    message: str
    severity: Severity
    column: str | None
    kind: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.message}"


class Findings(tuple[Finding, ...]):
    """What was found in two samples, the worst first: a tuple of `Finding` that prints well.

    Examples
    --------
    >>> found = Findings([Finding("X is Y.", "severe", None, "identical")])
    >>> print(found)
    severe: X is Y.
    >>> len(found.severe), found.to_dict()[0]["kind"]
    (1, 'identical')
    """

    __slots__ = ()

    def __new__(cls, found: Iterable[Finding] = ()) -> Findings:
        """Findings in the order of their severity; those of one severity as they come."""
        return super().__new__(cls, sorted(found, key=lambda one: _WORST_FIRST.index(one.severity)))

    @property
    def severe(self) -> Findings:
        """Those that a test cannot live with."""
        return Findings(one for one in self if one.severity == "severe")

    def to_dict(self) -> list[dict[str, Any]]:
        """Plain strings, ready for JSON."""
        return [asdict(one) for one in self]

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "Nothing odd was found."
