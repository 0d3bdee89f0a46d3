"""What the cells of a column of text look like, so that no column of numbers becomes a category.

One "?" makes text of a column of numbers, and a category has no order: the test would answer
another question without a word. So a column counts as numbers, and its other cells as mistakes,
if at least half of its cells are numbers and two of them differ. The same holds for dates, and
for numbers written as nobody reads them here ("1,5", "$5", "5 %", "5 kg"), if three of those
differ. Text of which every cell is a number, or a date, is a category, as codes are, unless ten of
them differ and no number begins with a zero. (Where ten dates differ in one part, they have been
read as dates before they come here.)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Literal, TypeAlias

from ..errors import InputError
from .tables import Origin

Look: TypeAlias = Literal["number", "date", "written", "written date", "word"]
"""What a cell looks like: a number or a date, one that is written in another way, or neither."""

MANY = 10
"""Different values from which text is numbers, or dates: fewer may be codes, or a few levels."""

_SHOWN = 3  # cells that a message names
_ODD: tuple[Look, ...] = ("written", "written date", "word")

_CURRENCY = r"(?:[$€£¥₹]|CHF|EUR|GBP|JPY|USD)"
_WRITTEN = re.compile(
    rf"{_CURRENCY}?\s*[-+−]?\s*{_CURRENCY}?\s*"
    # Thousands in groups of three, decimals behind a comma or a point.
    r"(?:\d{1,3}(?:[,.'’\s]\d{3})+(?:[.,]\d+)?|\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][-+]?\d+)?"
    rf"\s*(?:[%‰]|{_CURRENCY}|(?P<unit>[°µ]?[^\W\d_]{{1,10}}(?:/[^\W\d_]{{1,4}})?[²³]?))?"
)


_CODE = re.compile(r"\s*0\d")
_WRITTEN_DATE = re.compile(r"\d{1,2}([/.-])\d{1,2}\1(?:\d{4}|\d\d)|\d{4}([/.])\d{1,2}\2\d{1,2}")


@dataclass
class Cells:
    """What the cells of one column of one sample look like.

    Attributes
    ----------
    origin
        What messages call the sample.
    declared
        Whether the data say that the column is a category, as those of pandas and polars can.
    total
        How many cells are not missing.
    looks
        How many cells look like what.
    values
        The first few different values that look like a number, by their look.
    units
        The first few different units behind numbers.
    zeros
        Whether a number begins with a zero, as only codes do.
    odd
        Where the first few cells stand that are neither numbers nor dates, and what is in them.
    """

    origin: Origin
    declared: bool = False
    total: int = 0
    looks: Counter[Look] = field(default_factory=Counter)
    values: dict[Look, set[str]] = field(default_factory=dict)
    units: set[str] = field(default_factory=set)
    zeros: bool = False
    odd: list[tuple[Origin, int, str]] = field(default_factory=list)

    def include(self, labels: Sequence[str | None], origin: Origin) -> None:
        """Look at some more cells, which come from `origin`; None is a missing value."""
        times = Counter(labels)
        self.total += len(labels) - times.pop(None, 0)
        odd: set[str | None] = set()
        for label, cells in times.items():
            if label is None:
                continue
            look, unit = _look(label)
            self.looks[look] += cells
            if unit and len(self.units) < 2:
                self.units.add(unit)
            values = self.values.setdefault(look, set())
            if len(values) < MANY:
                values.add(label)
            self.zeros = self.zeros or _CODE.match(label) is not None
            if look in _ODD:
                odd.add(label)
        if not odd or len(self.odd) >= _SHOWN:
            return
        for row, label in enumerate(labels):
            if label is not None and label in odd:
                self.odd.append((origin, row, label))
                if len(self.odd) == _SHOWN:
                    return

    def mistaken_for(self) -> Look | None:
        """What a column of text holds in truth, apart from some cells; None for words."""
        if self.declared:
            return None
        if self.looks["number"] == self.total:
            is_code = self.zeros or len(self.values.get("number", ())) < MANY
            return None if is_code else "number"
        if self.looks["date"] == self.total:
            return "date" if len(self.values.get("date", ())) >= MANY else None
        looks: tuple[Look, ...] = ("number", "date")
        for look in looks:
            if 2 * self.looks[look] >= self.total and len(self.values.get(look, ())) >= 2:
                return look
        dates = self.values.get("written date", ())
        if 2 * self.looks["written date"] >= self.total and len(dates) >= 3:
            return "written date"
        # Behind measurements stands one unit; "1st", "2nd" and "3rd" are words.
        if len(self.units) > 1:
            return None
        numbers = self.looks["number"] + self.looks["written"]
        values = self.values.get("number", set()) | self.values.get("written", set())
        return "written" if 2 * numbers >= self.total and len(values) >= 3 else None

    def named(self) -> str:
        """The first few cells that are not numbers (or dates), and how many there are."""
        odd = sum(self.looks[look] for look in _ODD)
        shown = ", ".join(f"{label[:40]!r} at {origin.at(row)}" for origin, row, label in self.odd)
        more = f", ... {odd} in all" if odd > len(self.odd) else ""
        return f"{shown}{more}"


def _look(cell: str) -> tuple[Look, str]:
    """What a cell looks like, and the unit behind a number."""
    text = cell.strip()
    try:
        float(text)
    except ValueError:
        pass
    else:
        return "number", ""
    try:
        date.fromisoformat(text[:10])
    except ValueError:
        pass
    else:
        return "date", ""
    if _WRITTEN_DATE.fullmatch(text):
        return "written date", ""
    match = _WRITTEN.fullmatch(text.replace("\0", ""))
    if match is None:
        return "word", ""
    return "written", (match["unit"] or "").lower()


def check_cells(samples: Sequence[Cells], column: str, where: str) -> None:
    """Refuse a category that holds numbers, or dates, but for some of its cells.

    Parameters
    ----------
    samples
        The cells of the column in X, in Y, or in both.
    column
        Its name.
    where
        What messages call it.
    """
    looks = [cells.mistaken_for() for cells in samples]
    # One sample is enough: where the other holds words, they are named as its odd cells.
    look = next((look for look in looks if look is not None), None)
    if look is None:
        return
    odd = [cells for cells in samples if cells.odd]
    places = "; ".join(f"{cells.origin.sample} has {cells.named()}" for cells in odd)
    origin = samples[0].origin
    if not odd:
        raise InputError(
            f"{' and '.join(cells.origin.sample for cells in samples)} have {look}s as text in "
            f"{where}; read them as numbers with {origin.asks('kinds', 'number', column)}, or take "
            f"each as a level of a category with {origin.asks('kinds', 'category', column)}."
        )
    if look == "written":
        complaint = (
            f"{where} holds numbers, but not as they are read here: {places}; write them like "
            f"1234.5, without signs of currency, %, units or separators of thousands{_commas(odd)}"
        )
    elif look == "written date":
        complaint = (
            f"{where} holds dates, but not as they are read here: {places}; write them like "
            "2024-12-31"
        )
    else:
        complaint = (
            f"{where} holds {look}s, but not in all cells: {places}; mend them (a missing value is "
            "an empty cell or NA)"
        )
    raise InputError(
        f"{complaint}, take each value as a level of a category with "
        f"{origin.asks('kinds', 'category', column)}, or leave the column out with "
        f"{origin.asks('drop', column)}."
    )


def _commas(samples: Sequence[Cells]) -> str:
    """What to say of decimal commas on the command line, where there is an option for them."""
    has_commas = any("," in label for cells in samples for _, _, label in cells.odd)
    if samples[0].origin.source is None or not has_commas:
        return ""
    return ", say with --decimal , that commas stand before decimals"


def is_text(samples: Sequence[Cells], levels: int) -> bool:
    """Whether so many levels are nearly all different, so that a category could tell nothing."""
    cells = sum(each.total for each in samples)
    return levels >= MANY and 2 * levels > cells and bool(samples)
