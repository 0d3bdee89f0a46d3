"""Labels of one sample only, and whether they are the other's under another name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..._findings import Finding
from .chance import all_in_one, equal_shares
from .looks import Look
from .words import count, quoted, share_inside, some

_ALIKE = 0.6  # of their letters: such labels may be one
_SAME_SHARE = 1e-4  # the chance below which two labels do not come equally often


@dataclass(frozen=True)
class _Only:
    """A label that one sample has, so often that this is no chance."""

    label: str
    times: int


def level_findings(name: str, x: Look, y: Look, chance: float) -> Iterator[Finding]:
    """What the labels of a column tell; `chance` is that of a false finding."""
    of_x = x.columns[name].levels
    of_y = y.columns[name].levels
    spelling = _spelled_alike(name, x, y)
    if spelling is not None:
        yield spelling
    tests = max(1, len(of_x.keys() ^ of_y.keys()))
    sizes = (x.columns[name].present, y.columns[name].present)
    only_x = _only(of_x, of_y, sizes, chance / tests)
    only_y = _only(of_y, of_x, sizes[::-1], chance / tests)
    said = _twice(of_x, of_y)
    only_x = [one for one in only_x if _plain(one.label) not in said]
    only_y = [one for one in only_y if _plain(one.label) not in said]
    pairs = list(_renamed(only_x, only_y, sizes))
    for first, second in pairs:
        yield Finding(
            f"{name}: {quoted(first.label)} is only in {x.name} "
            f"({share_inside(first.times, sizes[0])}), {quoted(second.label)} only in {y.name} "
            f"({share_inside(second.times, sizes[1])}): renamed? Give both one name, or they count "
            "as a difference.",
            "warning",
            name,
            "renamed level",
        )
    for look, only, size in ((x, only_x, sizes[0]), (y, only_y, sizes[1])):
        paired = {one for pair in pairs for one in pair}
        left = [one for one in only if one not in paired]
        if left:
            other = y if look is x else x
            texts = [
                f"{quoted(one.label)} ({share_inside(one.times, size)}"
                f"{_home(one.label, name, other)})"
                for one in left
            ]
            yield Finding(
                f"{name}: {count(len(left), 'level')} only in {look.name}, not in {other.name}: "
                f"{some(texts)}. It counts as a difference; if it should not, merge it with "
                "another level or leave out its rows.",
                "warning",
                name,
                "level in one sample",
            )


def _only(
    here: Mapping[str, int], there: Mapping[str, int], sizes: tuple[int, int], chance: float
) -> list[_Only]:
    """The labels of one sample only, the most frequent first; its size stands first in `sizes`."""
    found = []
    for label, times in here.items():
        if label not in there and all_in_one(times, *sizes) < chance:
            found.append(_Only(label, times))
    return sorted(found, key=lambda one: (-one.times, one.label))


def _renamed(
    only_x: list[_Only], only_y: list[_Only], sizes: tuple[int, int]
) -> Iterator[tuple[_Only, _Only]]:
    """Pairs of labels that come about equally often and look alike, or are the only ones left."""
    left_x = list(only_x)
    left_y = list(only_y)
    candidates = [(first, second) for first in only_x for second in only_y]
    candidates.sort(key=lambda pair: -likeness(pair[0].label, pair[1].label))
    for first, second in candidates[:1000]:
        if first not in left_x or second not in left_y:
            continue
        as_often = equal_shares((first.times, sizes[0]), (second.times, sizes[1])) > _SAME_SHARE
        alone = len(only_x) == len(only_y) == 1
        if as_often and (alone or likeness(first.label, second.label) >= _ALIKE):
            left_x.remove(first)
            left_y.remove(second)
            yield first, second


def _home(label: str, name: str, other: Look) -> str:
    """The column of the other sample to which a label belongs that does not belong here."""
    for column, look in other.columns.items():
        if column != name and label in look.levels:
            return f", a level of {quoted(column)}: swapped?"
    return ""


def likeness(first: str, second: str) -> float:
    """How alike two names are, from 0 to 1; a name that the other begins or ends with is."""
    a = _plain(first)
    b = _plain(second)
    if a and b and (a.startswith(b) or b.startswith(a) or a.endswith(b) or b.endswith(a)):
        return max(0.8, min(len(a), len(b)) / max(len(a), len(b)))
    return difflib.SequenceMatcher(None, a[:100], b[:100]).ratio()


def _plain(label: str) -> str:
    """A label without case, spaces and signs."""
    return re.sub(r"[\W_]+", "", label.casefold()) or label.strip()


def _spelled_alike(name: str, x: Look, y: Look) -> Finding | None:
    """Labels that differ by case, spaces or signs only."""
    of_x = x.columns[name].levels
    of_y = y.columns[name].levels
    twice = _twice(of_x, of_y)
    if not twice:
        return None
    texts = []
    for plain in sorted(twice):
        spellings = sorted(label for label in of_x.keys() | of_y.keys() if _plain(label) == plain)
        where = [
            f"{quoted(label)} ({of_x.get(label, 0)} in {x.name}, {of_y.get(label, 0)} in {y.name})"
            for label in spellings
        ]
        texts.append(" and ".join(where[:3]))
    return Finding(
        f"{name}: labels that differ by case, spaces or signs only: {some(texts, 2)}. They count "
        "as different levels; write each in one way.",
        "warning",
        name,
        "spelling",
    )


def _twice(of_x: Mapping[str, int], of_y: Mapping[str, int]) -> set[str]:
    seen: dict[str, str] = {}
    twice = set()
    labels = of_x.keys() | of_y.keys()
    if len(labels) > 2000:  # text, not categories
        return set()
    for label in labels:
        plain = _plain(label)
        if not any(letter.isalpha() for letter in plain):
            continue  # "-1" and "1" are two numbers
        if seen.setdefault(plain, label) != label:
            twice.add(plain)
    return twice
