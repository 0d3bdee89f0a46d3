"""Designs: which rows may change places with which, in the words of the data.

Each design turns columns, or arrays, into `Units`. What a design needs to know of a row is a key:
the name of a column, or a pair of arrays with a value for every row of X and of Y.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from .._checks import check_whole
from ..errors import IncompatibleParts, InputError, warn
from .lengths import gap_for, length_for
from .units import SIDE, Codes, Units, counted, plural

Key: TypeAlias = str | tuple[Any, ...]
"""A column of both tables, or (values for the rows of X, values for the rows of Y).

() where it has yet to be given: in a test that was fitted with arrays, which other rows do not
share.
"""

OPEN: tuple[Any, ...] = ()
"""A key that has yet to be given."""


class Design(ABC):
    """What changes places under the null hypothesis: every split and every permutation asks it.

    A design of your own has the fields that say what it needs, `keys`, which names them, and
    `units`. `twosample.testing.check_design` checks it.
    """

    @property
    @abstractmethod
    def keys(self) -> tuple[Key, ...]:
        """What it needs to know of every row, in the order in which `units` gets it."""

    @abstractmethod
    def units(self, sizes: tuple[int, int], codes: Sequence[Codes]) -> Units | None:
        """The units of samples of n and m rows; None where every row moves by itself.

        Parameters
        ----------
        sizes
            How many rows X and Y have, in the order in which they came.
        codes
            For each key a whole number for every row of X and of Y; equal values have equal
            numbers, in both samples, and smaller values smaller ones.
        """

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it takes its keys from; they are not tested."""
        return tuple(key for key in self.keys if isinstance(key, str))

    def taken(self, rows_x: Any, rows_y: Any) -> Design:
        """The same for some of the rows: of arrays the values of these."""
        changes: dict[str, Any] = {}
        for field in fields(self):  # type: ignore[arg-type]  # designs are dataclasses
            value = getattr(self, field.name)
            if isinstance(value, tuple) and len(value) == 2:
                changes[field.name] = (np.asarray(value[0])[rows_x], np.asarray(value[1])[rows_y])
        return replace(self, **changes) if changes else self  # type: ignore[type-var]

    def without_arrays(self) -> Design:
        """The same for other rows: arrays that belong to these are left open."""
        changes: dict[str, Any] = {}
        for field in fields(self):  # type: ignore[arg-type]  # designs are dataclasses
            if isinstance(getattr(self, field.name), tuple):
                changes[field.name] = OPEN
        return replace(self, **changes) if changes else self  # type: ignore[type-var]

    @property
    def wants_memory(self) -> bool:
        """Whether the memory of a series has to be found in the data first, as blocks may ask."""
        return False

    def series(self, sizes: tuple[int, int], codes: Sequence[Codes]) -> list[Tensor]:
        """The rows of each series, X and then Y counted on, in the order of time."""
        return []

    def resolved(self, memory: int, smaller: int) -> Design:
        """The same for a memory of so many rows, where the smaller sample has so many rows."""
        return self


@dataclass(frozen=True)
class Rows(Design):
    """Each row by itself: rows are independent of each other. The default.

    H0: P = Q, and all n + m rows are exchangeable.
    """

    @property
    def keys(self) -> tuple[Key, ...]:
        return ()

    def units(self, sizes: tuple[int, int], codes: Sequence[Codes]) -> None:
        return None


@dataclass(frozen=True)
class Groups(Design):
    """Rows of one subject, session or user move together, and stay on one side of a split.

    H0: the groups of X and those of Y, with all their rows, come from one distribution. Rows within
    a group may depend on each other in any way; groups are independent. Their sizes may differ, as
    long as they differ in the same way in both samples.

    Parameters
    ----------
    of
        Which group each row belongs to: a column, or a pair of arrays.
    strata
        Groups change places only within a stratum, such as a site. Every group is in one.

    Examples
    --------
    >>> import numpy as np, twosample
    >>> rng = np.random.default_rng(0)
    >>> subjects = np.repeat(np.arange(30), 10)
    >>> X, Y = (rng.normal(size=(30, 2)).repeat(10, 0) + rng.normal(size=(300, 2)) for _ in "XY")
    >>> groups = (subjects, subjects + 30)
    >>> twosample.two_sample_test(X, Y, "mmd-median", groups=groups, rng=0).reject()
    False
    """

    of: Key
    strata: Key | None = None

    @property
    def keys(self) -> tuple[Key, ...]:
        return _given(self.of, self.strata)

    def units(self, sizes: tuple[int, int], codes: Sequence[Codes]) -> Units:
        groups = codes[0]
        shared = torch.isin(groups[0], groups[1])
        if bool(shared.any()):
            number = len(torch.unique(groups[0][shared]))
            raise InputError(
                f"{counted(number, 'group')}{_in(self.of)} of X "
                f"{'is' if number == 1 else 'are'} in Y, too. If X and Y were measured on the same "
                "groups, use pairs; if they only share names, give each its own."
            )
        strata = codes[1] if len(codes) > 1 else None
        if strata is None:
            return Units.of(groups, unit="group")
        for sample, of_rows, of_stratum in zip("XY", groups, strata, strict=True):
            _check_nested(sample, of_rows, of_stratum, "group", "stratum")
        return Units.of(groups, strata, unit="group", cell="stratum")


@dataclass(frozen=True)
class Strata(Design):
    """Rows change places only within a stratum: differences between strata do not count.

    H0: P = Q within every stratum (a prompt, a site, a day of the week). How many rows each stratum
    has in X and in Y may differ in any way. The samples are compared within strata, each weighted
    by n_s m_s / (n_s + m_s).

    Parameters
    ----------
    of
        The stratum of each row: a column, or a pair of arrays.
    """

    of: Key

    @property
    def keys(self) -> tuple[Key, ...]:
        return (self.of,)

    def units(self, sizes: tuple[int, int], codes: Sequence[Codes]) -> Units:
        return Units.of(_each_row(sizes), codes[0], unit="row", cell="stratum")


@dataclass(frozen=True)
class Pairs(Design):
    """X and Y were measured on the same units: only the two sides of a pair change places.

    H0: exchanging the two measurements of a unit changes nothing, (X_i, Y_i) ~ (Y_i, X_i). Pairs
    are independent of each other. A side may have several rows, which move together: pairs of
    groups. Rows without a partner stay in place and have no part in the comparison.

    Parameters
    ----------
    of
        What pairs rows of X with rows of Y: a column, or a pair of arrays.
    groups
        Rows that belong together within a side. Each group must lie within one side of one pair.
    """

    of: Key
    groups: Key | None = None

    @property
    def keys(self) -> tuple[Key, ...]:
        return _given(self.of, self.groups)

    def units(self, sizes: tuple[int, int], codes: Sequence[Codes]) -> Units:
        pairs = codes[0]
        if len(codes) > 1:
            for sample, of_pair, of_group in zip("XY", pairs, codes[1], strict=True):
                _check_nested(sample, of_group, of_pair, "group", "pair")
        return Units.of(pairs, pairs, unit=SIDE, cell="pair")


@dataclass(frozen=True)
class Blocks(Design):
    """Contiguous stretches of a series move together, and the rows between them are left out.

    H0: X and Y are stretches of one stationary series. If rows that are more than `gap` apart are
    independent of each other, so are the blocks, and the test is exact. Otherwise it is not: its
    level comes near to alpha as the gap grows beyond the memory of the series.

    Parameters
    ----------
    length
        Rows of a block; "auto" finds it in the data (see docs/designs.md).
    strata
        Which of several series each row belongs to, such as a sensor: blocks are cut within a
        series, and change places within it.
    time
        When each row was taken; without it, rows are in the order of time. Where X and Y take turns
        so quickly that a block has rows of both, the two sides of a block change places.
    gap
        Rows that are left out after each block; "auto" finds it in the data.
    """

    length: int | Literal["auto"] = "auto"
    strata: Key | None = None
    time: Key | None = None
    gap: int | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        if self.length != "auto":
            check_whole("the length of blocks", self.length, 1)
        if self.gap != "auto":
            check_whole("the gap between blocks", self.gap, 0)

    @property
    def keys(self) -> tuple[Key, ...]:
        return _given(self.strata, self.time)

    @property
    def wants_memory(self) -> bool:
        return "auto" in (self.length, self.gap)

    def series(self, sizes: tuple[int, int], codes: Sequence[Codes]) -> list[Tensor]:
        strata, time = self._strata_and_time(sizes, codes)
        rows = torch.arange(sum(sizes))
        of_row = torch.cat(strata)
        if time is None:
            # Nobody knows when Y was taken: it is a series of its own.
            of_row = 2 * of_row + (rows >= sizes[0])
        order = _by_stratum_and_time(of_row, None if time is None else torch.cat(time))
        counts = torch.unique(of_row, return_counts=True)[1]
        return list(torch.split(order, counts.tolist()))

    def resolved(self, memory: int, smaller: int) -> Design:
        length = None if self.length == "auto" else self.length
        gap = gap_for(memory, length, smaller) if self.gap == "auto" else self.gap
        if self.gap == "auto" and gap < memory:
            warn(
                f"rows {memory} apart still resemble each other, and there is room for gaps of "
                f"{counted(gap, 'row')} only between blocks, so p-values may be too small; more "
                f"rows would help, or a gap of {2 * memory} and fewer blocks."
            )
        return replace(self, length=length or length_for(gap, smaller), gap=gap)

    def units(self, sizes: tuple[int, int], codes: Sequence[Codes]) -> Units:
        if self.length == "auto" or self.gap == "auto":
            raise InputError(f"{self!r} has not seen the series yet; give numbers of rows.")
        strata, time = self._strata_and_time(sizes, codes)
        unit, cell = "block", ""
        if time is not None and _takes_turns(strata, time, self.length):
            blocks = _windows(strata, time, self.length, self.gap)
            cells: Codes | None = blocks
            unit, cell = SIDE, "block"
        else:
            blocks = _stretches(strata, time, self.length, self.gap)
            cells = None
            if self.strata is not None:
                cells, cell = strata, "stratum"
        for sample, of_rows in zip("XY", blocks, strict=True):
            if not bool((of_rows >= 0).any()):
                raise InputError(
                    f"{sample} has {counted(len(of_rows), 'row')}, none of which is left with a "
                    f"gap of {counted(self.gap, 'row')} after each block; give a smaller gap."
                )
        note = f"{counted(self.gap, 'row')} left out after each" if self.gap else ""
        return Units.of(blocks, cells, unit=unit, cell=cell, note=note)

    def _strata_and_time(
        self, sizes: tuple[int, int], codes: Sequence[Codes]
    ) -> tuple[Codes, Codes | None]:
        given = list(codes)
        strata = given.pop(0) if self.strata is not None else _all_alike(sizes)
        time = given.pop(0) if self.time is not None else None
        return strata, time


def design_from(
    groups: Key | None = None,
    blocks: int | str | Blocks | None = None,
    strata: Key | None = None,
    pairs: Key | None = None,
) -> Design | None:
    """The design that these options stand for; None where none is given.

    Groups go with strata and with pairs, blocks with strata.
    """
    if pairs is not None:
        _refuse("pairs", {"blocks": blocks, "strata": strata}, "which pairs already take care of")
        return Pairs(_key("pairs", pairs), _key("groups", groups))
    if blocks is not None:
        _refuse("blocks", {"groups": groups}, "since a block is a group of its own")
        if isinstance(blocks, Blocks):
            if strata is not None:
                raise IncompatibleParts("strata go into Blocks(strata=...), where that is given.")
            return blocks
        return _blocks(blocks, _key("strata", strata))
    if groups is not None:
        return Groups(_key("groups", groups), _key("strata", strata))
    return None if strata is None else Strata(_key("strata", strata))


# Options.


def _refuse(option: str, others: dict[str, Any], why: str) -> None:
    for other, value in others.items():
        if value is not None:
            raise IncompatibleParts(f"{option} and {other} do not go together, {why}; give one.")


def _key(option: str, given: Any) -> Any:
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, tuple | list) and len(given) == 2:
        return given[0], given[1]
    raise InputError(
        f"{option} is a {type(given).__name__}; give the name of a column of both tables, or "
        "(values for the rows of X, values for the rows of Y)."
    )


def _blocks(given: Any, strata: Any) -> Blocks:
    """Blocks of a length, or of "LENGTH+GAP"."""
    if not isinstance(given, str):
        return Blocks(given, strata)
    length, _, gap = given.partition("+")
    numbers = [_rows(each, given) for each in (length, gap or "auto")]
    return Blocks(numbers[0], strata, gap=numbers[1])


def _rows(text: str, given: str) -> Any:
    if text == "auto":
        return text
    if not text.isdecimal():
        raise InputError(
            f"blocks is {given!r}; give a number of rows such as 50, with the rows to leave out "
            "after each block 50+10, or auto."
        )
    return int(text)


# Codes.


def _given(*keys: Key | None) -> tuple[Key, ...]:
    """Those of the keys that are used."""
    return tuple(key for key in keys if key is not None)


def _each_row(sizes: tuple[int, int]) -> Codes:
    return torch.arange(sizes[0]), torch.arange(sizes[1])


def _all_alike(sizes: tuple[int, int]) -> Codes:
    return torch.zeros(sizes[0], dtype=torch.int64), torch.zeros(sizes[1], dtype=torch.int64)


def _in(key: Key) -> str:
    return f" (column '{key}')" if isinstance(key, str) else ""


def _check_nested(sample: str, inner: Tensor, outer: Tensor, unit: str, cell: str) -> None:
    """Refuse a unit with rows in several cells."""
    both = torch.unique(torch.stack([inner, outer]), dim=1)
    _, counts = torch.unique(both[0], return_counts=True)
    broken = int((counts > 1).sum())
    if broken:
        raise InputError(
            f"{counted(broken, unit)} of {sample} {'has' if broken == 1 else 'have'} rows in "
            f"several {plural(cell)} of {len(torch.unique(outer))}; a {unit} can only move as a "
            f"whole, so it must lie within one {cell}."
        )


# Blocks.


def _stretches(strata: Codes, time: Codes | None, length: int, gap: int) -> Codes:
    """The block of each row, each sample of each stratum by itself; -1 between blocks."""
    blocks = []
    for sample in (0, 1):
        when = None if time is None else time[sample]
        blocks.append(_cut_series(_runs(strata, time, sample), when, length, gap))
    return blocks[0], blocks[1]


def _runs(strata: Codes, time: Codes | None, sample: int) -> Tensor:
    """The series of each row of a sample: its stratum and, where samples take turns, its run."""
    if time is None:
        return strata[sample]
    n = len(strata[0])
    stratum = torch.cat(strata)
    is_y = torch.arange(len(stratum)) >= n
    order = _by_stratum_and_time(stratum, torch.cat(time))
    changed = (stratum[order].diff() != 0) | (is_y[order].long().diff() != 0)
    run = torch.zeros(len(stratum), dtype=torch.int64)
    run[order[1:]] = changed.cumsum(0)
    return run[~is_y] if sample == 0 else run[is_y]


def _cut_series(series: Tensor, time: Tensor | None, length: int, gap: int) -> Tensor:
    """The block of each row, in the order of time within its series; -1 between blocks.

    A series has as many pieces of a block and a gap as there is room for, as even as can be. Of
    each its first rows are a block: all blocks have as many, or else they would differ.
    """
    order = _by_stratum_and_time(series, time)
    _, numbers, counts = torch.unique(series[order], return_inverse=True, return_counts=True)
    count = counts[numbers]
    rank = torch.arange(len(order)) - (counts.cumsum(0) - counts)[numbers]
    pieces = (counts // (length + gap)).clamp_min(1)
    piece = ((rank + 1) * pieces[numbers] - 1) // count
    start = piece * count // pieces[numbers]
    # A series that is shorter than that is one block, and the gap after it is left out, too.
    rows = (count - gap).clamp_max(length)
    before = pieces.cumsum(0) - pieces
    blocks = torch.empty(len(order), dtype=torch.int64)
    blocks[order] = torch.where(rank - start < rows, before[numbers] + piece, -1)
    return blocks


def _by_stratum_and_time(stratum: Tensor, time: Tensor | None) -> Tensor:
    """The rows of one stratum after the other, each in the order of time."""
    if time is None:
        return stratum.argsort(stable=True)
    order = time.argsort(stable=True)
    return order[stratum[order].argsort(stable=True)]


def _takes_turns(strata: Codes, time: Codes, length: int) -> bool:
    """Whether most rows are in runs of one sample that are shorter than a block."""
    runs = torch.cat([_runs(strata, time, 0), _runs(strata, time, 1)])
    _, numbers, counts = torch.unique(runs, return_inverse=True, return_counts=True)
    return bool((counts[numbers] < length).double().mean() > 0.5)


def _windows(strata: Codes, time: Codes, length: int, gap: int) -> Codes:
    """Both samples of each stratum together in stretches of time of 2 `length` rows."""
    n = len(strata[0])
    blocks = _cut_series(torch.cat(strata), torch.cat(time), 2 * length, gap)
    return blocks[:n], blocks[n:]
