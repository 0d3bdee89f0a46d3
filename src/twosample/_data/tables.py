"""What a sample is once it has been read, a `Table` or images; and what it came from."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .columns import Columns

Kind: TypeAlias = Literal["numeric", "boolean", "category"]
"""How a column is encoded."""

ColumnKind: TypeAlias = Literal["numeric", "boolean", "category", "date", "time", "unknown"]
"""What a column holds; unknown where all of its values are missing.

A date, with or without a time, is a number of days, a time of a day or a duration one of seconds.
"""

Images: TypeAlias = NDArray[Any]
"""(N, C, H, W), uint8 or float32."""

LAYOUTS = (
    "(N, height, width) or (N, height, width, channels) of uint8, (N, height, width) or (N, "
    "channels, height, width) of floats, with 1, 3 or 4 channels"
)
"""What messages say of the shapes that images may have."""

_IN_A_SENTENCE = 100  # characters of a name or a value

AS_FOUND = Columns()
"""The rules of a user who says nothing: each column is what it is."""


@dataclass(frozen=True, eq=False)
class Source:
    """A sample that comes from a file: its rows, its name, and where the rows stand in the file.

    Attributes
    ----------
    data
        An array, a table or images.
    name
        What messages call it.
    rows
        Which rows of the file these are; None for all of them, in order.
    place
        Row of the file -> what messages call it, such as "line 18"; None for "row 16".
    command_line
        Whether messages speak of the options of the command line.
    """

    data: Any
    name: str
    rows: NDArray[np.int64] | None = None
    place: Callable[[int], str] | None = None
    command_line: bool = True

    def __len__(self) -> int:
        return len(self.data)


@dataclass(frozen=True)
class Origin:
    """What messages say about where a value comes from.

    Attributes
    ----------
    sample
        What they call the sample: "X", or a file.
    first
        The row of the sample at which these data begin.
    source
        The file, on the command line; there, messages speak of its options.
    """

    sample: str
    first: int = 0
    source: Source | None = None

    @classmethod
    def of(cls, data: object, sample: str, first: int = 0) -> Origin:
        """The origin of a sample that the library calls `sample`, and a file by its own name."""
        return cls(data.name, first, data) if isinstance(data, Source) else cls(sample, first)

    def at(self, row: int) -> str:
        """What messages call a row of the data."""
        row += self.first
        if self.source is None:
            return f"row {row}"
        if self.source.rows is not None:
            row = int(self.source.rows[row])
        return f"row {row}" if self.source.place is None else self.source.place(row)

    def asks(self, field: str, value: str, column: str = "") -> str:
        """How the user asks for something that `Columns` offers."""
        value = cut_in_the_middle(value, _IN_A_SENTENCE)
        column = cut_in_the_middle(column, _IN_A_SENTENCE)
        if self.source is not None and self.source.command_line:
            # In quotes where a shell needs them, for a name may be anything.
            if field == "kinds":
                return f"--type {shlex.quote(f'{column}={value}')}"
            return f"--{field} {shlex.quote(value)}"
        if field == "kinds":
            return f"Columns(kinds={{'{column}': '{value}'}})"
        if field == "drop":
            return f"Columns(drop=['{value}'])"
        return f"Columns({field}='{value}')"


@dataclass(frozen=True)
class Table:
    """A table: its own copy of the numbers, with zeros for a category, whose labels are apart.

    Missing values are NaN among the numbers, those of a category too, and None among the labels.

    Attributes
    ----------
    names, kinds
        What the columns are called and what they hold.
    named
        Whether the names are the user's, not just positions.
    numbers
        Of shape (N, d).
    labels
        Position of a column that is a category -> the label of each row.
    left_out
        The columns that were there, but are not tested: the user said so, or they are an index.
    rules
        What the user has said, by which it was read.
    declared
        The categories of which the data, not the user, say that they are categories.
    """

    names: list[str]
    named: bool
    kinds: list[ColumnKind]
    numbers: NDArray[np.float64]
    labels: dict[int, list[str | None]]
    left_out: frozenset[str] = frozenset()
    rules: Columns = AS_FOUND
    declared: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.numbers)

    def where(self, position: int) -> str:
        """What messages call a column."""
        return called(self.names[position], self.named)

    def gaps(self) -> NDArray[np.int64]:
        """How many values are missing in each column."""
        return np.asarray(np.isnan(self.numbers).sum(axis=0), dtype=np.int64)

    def complete(self) -> NDArray[np.bool_]:
        """For each row whether nothing in it is missing."""
        return np.asarray(~np.isnan(self.numbers).any(axis=1))

    def complete_rows(self) -> Table:
        """The rows in which nothing is missing."""
        complete = self.complete()
        return self if complete.all() else self.take(np.flatnonzero(complete))

    def take(self, rows: NDArray[np.int64]) -> Table:
        """Some of the rows."""
        labels = {place: [known[row] for row in rows] for place, known in self.labels.items()}
        return replace(self, numbers=self.numbers[rows], labels=labels)

    def as_numbers(self) -> NDArray[np.float64]:
        """(N, d) all columns as numbers: levels counted in their order, gaps at the mean."""
        numbers = self.numbers.copy()
        for place, labels in self.labels.items():
            known = [label is not None for label in labels]
            _, codes = np.unique([str(label) for label in labels], return_inverse=True)
            numbers[known, place] = codes[known]
        gaps = np.isnan(numbers)
        if gaps.any():
            # A column without any value has the mean 0.
            known = np.maximum((~gaps).sum(0), 1)
            with np.errstate(over="ignore", invalid="ignore"):  # numbers near 1e308 have no sum
                means = np.nan_to_num(np.nansum(numbers, axis=0) / known)
            numbers = np.where(gaps, means, numbers)
        return numbers

    def without(self, names: Collection[str]) -> Table:
        """The other columns."""
        left = [place for place, name in enumerate(self.names) if name not in names]
        gone = frozenset(self.names).intersection(names)
        return replace(self.columns(left), left_out=self.left_out | gone)

    def columns(self, order: list[int]) -> Table:
        """Some columns, or all, in another order."""
        labels = {}
        for place, position in enumerate(order):
            if position in self.labels:
                labels[place] = self.labels[position]
        return replace(
            self,
            names=[self.names[position] for position in order],
            kinds=[self.kinds[position] for position in order],
            numbers=np.take(self.numbers, order, axis=1),
            labels=labels,
        )


def called(name: str, named: bool) -> str:
    """What messages call a column, which may have only its place for a name."""
    return f"column '{cut_in_the_middle(name, _IN_A_SENTENCE)}'" if named else f"column {name}"


def repeated(names: Sequence[str]) -> dict[str, int]:
    """The names that come more than once, in their order, and how often each does."""
    # Not list.count, which for each of 20,000 columns would look at all of them.
    return {name: times for name, times in Counter(names).items() if times > 1}


def by_name(name: str) -> tuple[list[str | tuple[int, str]], str]:
    """What names are sorted by: letters, and numbers in them by their size ("x2" before "x10")."""
    parts: list[str | tuple[int, str]] = []
    for at, part in enumerate(re.split("([0-9]+)", name)):
        digits = part.lstrip("0")
        # Texts and numbers take turns, so that like is compared with like. The longer of two
        # numbers is the larger; their names may have any length, so they are not converted.
        parts.append((len(digits), digits) if at % 2 else part)
    return parts, name


def count(number: int, noun: str) -> str:
    """A number and what it counts."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def told_apart(first: str, second: str, most: int = 40) -> tuple[str, str]:
    """Two names without the folders that they share, each cut in the middle if it is long.

    What begins or ends alike stays apart: where two names would become one, they are cut less.
    """
    shared = 0
    for folder, other in zip(first.split("/")[:-1], second.split("/")[:-1], strict=False):
        if folder != other:
            break
        shared += len(folder) + 1
    if shared > 1:  # more than the root of all folders
        first = first[shared:]
        second = second[shared:]
    if first == second:
        return cut_in_the_middle(first, most), cut_in_the_middle(second, most)
    while True:
        short = (cut_in_the_middle(first, most), cut_in_the_middle(second, most))
        if short[0] != short[1]:
            return short
        most += 10


def cut_in_the_middle(name: str, most: int) -> str:
    """A name of at most so many characters, of which the beginning and the end are kept."""
    if len(name) <= most:
        return name
    # More of the end, where names of one series differ: "report-2026-…-monday.csv".
    head = (most - 1) // 3
    tail = most - 1 - head
    return f"{name[:head]}…{name[-tail:]}"


def listed(names: Sequence[str], quote: str = "'") -> str:
    """The first few names."""
    shown = ", ".join(f"{quote}{name}{quote}" for name in names[:5])
    return shown if len(names) <= 5 else f"{shown}, ... {len(names)} in all"
