"""The store of the arena: a file for each contestant, a line for each few finished tests.

Without its file a contestant starts anew: delete it when the method has changed.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..store import append_line, check_folder, read_lines

# How every line begins, by which a whole line is recognised after a broken one.
_BEGIN = '{"scenario": '


class Cell(NamedTuple):
    """A contestant in a scenario, both by name."""

    scenario: str
    contestant: str


@dataclass(frozen=True)
class Chunk:
    """A few finished tests of a cell.

    Attributes
    ----------
    scenario, contestant
        Which cell.
    first
        The number of the first test; the others follow. A scenario's test of the same number has
        the same rows for every contestant.
    pvalues
        One for each test, of six digits.
    cpu_seconds
        What the tests took together, without drawing the samples.
    """

    scenario: str
    contestant: str
    first: int
    pvalues: tuple[float, ...]
    cpu_seconds: float

    @property
    def cell(self) -> Cell:
        """Which cell it belongs to."""
        return Cell(self.scenario, self.contestant)

    def line(self) -> str:
        """Return it as JSON."""
        return json.dumps(dataclasses.asdict(self), allow_nan=False)

    @classmethod
    def of_line(cls, line: str) -> Chunk:
        """Return the chunk of a line; raise a ValueError if it is none."""
        values = json.loads(line)
        names = [field.name for field in dataclasses.fields(cls)]
        if not isinstance(values, dict) or not set(names) <= set(values):
            raise ValueError("fields are missing")
        pvalues = values["pvalues"]
        # A limiting law may give a p-value that is 0 in floats; permutations never do.
        if not isinstance(pvalues, list) or not all(0 <= pvalue <= 1 for pvalue in pvalues):
            raise ValueError("p-values are missing or wrong")
        given = {name: values[name] for name in names}
        return cls(**{**given, "pvalues": tuple(pvalues)})


class Results(NamedTuple):
    """The tests of a cell: p-values by the number of the test, and CPU seconds of one."""

    pvalues: dict[int, float]
    cpu_seconds: float


class ArenaStore:
    """The chunks in a folder, which need not exist before the first is kept."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def check(self) -> None:
        """Raise an error if nothing can be kept here."""
        check_folder(self.folder)

    def append(self, chunk: Chunk, /) -> None:
        """Keep a chunk; when this returns, it is on the disk."""
        append_line(self.folder / f"{chunk.contestant}.jsonl", chunk.line())

    def chunks(self) -> list[Chunk]:
        """Return all that is kept."""
        files = sorted(self.folder.glob("*.jsonl"))
        return [chunk for file in files for chunk in read_lines(file, Chunk.of_line, _BEGIN)]


def by_cell(chunks: Iterable[Chunk]) -> dict[Cell, Results]:
    """Put the chunks of each cell together; a test that is there twice counts once."""
    pvalues: dict[Cell, dict[int, float]] = {}
    seconds: dict[Cell, list[float]] = {}
    for chunk in chunks:
        numbered = enumerate(chunk.pvalues, chunk.first)
        pvalues.setdefault(chunk.cell, {}).update(numbered)
        each = [chunk.cpu_seconds / len(chunk.pvalues)] * len(chunk.pvalues)
        seconds.setdefault(chunk.cell, []).extend(each)
    return {
        cell: Results(known, sum(seconds[cell]) / len(seconds[cell]))
        for cell, known in pvalues.items()
    }
