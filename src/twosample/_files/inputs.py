"""What a command is asked to test: two files, or groups of rows of one file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._data.columns import Columns
from .._data.streams import Stream
from .._data.tables import Source, count, listed
from .._data.values import label
from ..errors import InputError, Obstacles
from .opening import ReadOptions, Sample, open_file

_MOST_GROUPS = 1000  # for an answer before memory is full of them

Label: TypeAlias = str | None
"""The value that says to which group a row belongs; None if it is missing."""


@dataclass(frozen=True)
class Groups:
    """Which rows of one file are X and which Y.

    Attributes
    ----------
    column
        The column that says it.
    values
        Its value in the rows of X and in those of Y. None if it has just two values; then X has the
        first by the alphabet.
    """

    column: str
    values: tuple[str, str] | None = None

    @classmethod
    def parse(cls, text: str) -> Groups:
        """From `group`, or from `group=a,b`."""
        column, equals, after = text.partition("=")
        values = [value.strip() for value in after.split(",")]
        if column and not equals:
            return cls(column)
        if not column or len(values) != 2 or not all(values) or values[0] == values[1]:
            raise InputError(
                f"--by is {text!r}; give a column, or a column and two of its values: --by "
                "group=a,b."
            )
        return cls(column, (values[0], values[1]))


def open_pair(a: str, b: str | None, by: str | None, options: ReadOptions) -> tuple[Sample, Sample]:
    """The two samples that a command is about: files A and B, or two groups of rows of A.

    `by` is COLUMN or COLUMN=a,b: the column that tells groups apart, and its values in both.
    """
    if by is not None:
        groups = Groups.parse(by)
        if b is not None:
            raise InputError(
                f"--by {groups.column} takes both samples from one file; leave out {b}, or --by."
            )
        group, sizes = _grouped(a, groups.column, options)
        first, second = _two_values(a, groups, sizes)
        return group(first), group(second)
    if b is None:
        raise InputError(
            f"{a} is one sample; give a second file, or say which column tells two apart: --by "
            "COLUMN."
        )
    opened = []
    obstacles = Obstacles()
    for path in (a, b):
        with obstacles.noted():
            opened.append(open_file(path, options))
    obstacles.raise_any()
    return opened[0], opened[1]


def open_groups(path: str, by: str, options: ReadOptions) -> tuple[Sample, dict[str, Sample]]:
    """The rows of the reference, and those of each other group by its value.

    `by` is COLUMN=VALUE: the column that tells groups apart, and its value in the reference.
    """
    before, equals, after = by.partition("=")
    column = before.strip()
    reference = after.strip()
    if not column or (equals and not reference):
        raise InputError(
            f"--by is {by!r}; give a column and the value of the reference: --by week=1."
        )
    group, sizes = _grouped(path, column, options)
    values = _values(sizes)
    if reference not in values:
        has = f"no {reference!r}" if equals else count(len(values), "value")
        example = values[0] if values else "VALUE"
        raise InputError(
            f"{path} has {has} in column '{column}' ({listed(values)}); say which is the "
            f"reference: --by {column}={example}."
        )
    if None in sizes:
        raise InputError(
            f"{path} has {count(sizes[None], 'missing value')} in column '{column}', so these rows "
            "are of no group; name or remove them."
        )
    if len(values) < 2:
        raise InputError(
            f"{path} has one value in column '{column}'; there is nothing to compare it with."
        )
    others = {value: group(value) for value in values if value != reference}
    return group(reference), others


def _values(sizes: Mapping[Label, int]) -> list[str]:
    return sorted(value for value in sizes if value is not None)


def _two_values(path: str, by: Groups, sizes: Mapping[Label, int]) -> tuple[str, str]:
    """The values of the two groups, which must be there."""
    values = _values(sizes)
    if by.values is not None:
        for value in by.values:
            if value not in sizes:
                raise InputError(
                    f"{path} has no '{value}' in column '{by.column}'; it has {listed(values)}."
                )
        return by.values
    if len(values) == 2 and None not in sizes:
        return values[0], values[1]
    has = f"{count(len(values), 'value')} ({listed(values)})" if values else "no value"
    if None in sizes:
        has += f" and {count(sizes[None], 'missing one')}"
    example = ",".join(values[:2]) if len(values) > 1 else "a,b"
    raise InputError(
        f"{path} has {has} in column '{by.column}', and a test takes two groups; choose them as in "
        f"--by {by.column}={example}."
    )


def _grouped(
    path: str, column: str, options: ReadOptions
) -> tuple[Callable[[str], Sample], dict[Label, int]]:
    """What gives the rows of a group by its value, and how many rows each group has."""
    rules = options.rules
    if column in rules.drop or column in (rules.keep or ()):
        raise InputError(
            f"column '{column}' says which row is whose, so it is not tested; do not name it "
            "elsewhere."
        )
    # All columns are read, for the one that tells groups apart is among them. What the user says of
    # the others holds when the groups are tested.
    as_category = Columns(kinds=dict(rules.kinds) | {column: "category"})
    whole = open_file(path, dataclasses.replace(options, rules=as_category))

    def name(value: str) -> str:
        return f"{path} where {column} is {value}"

    if isinstance(whole, Stream):
        # Labels are not kept between passes: they may take more memory than there is.
        sizes = _sizes(path, column, (_labels(batch, path, column) for batch in whole))
        return lambda value: _group_stream(whole, path, column, value, name(value)), sizes
    labels = _labels(whole.data, path, column)

    def group(value: str) -> Source:
        rows = _rows_of(labels, value)
        return Source(whole.data.drop(column)[rows], name(value), rows, whole.place)

    return group, _sizes(path, column, [labels])


def _group_stream(whole: Stream, path: str, column: str, value: str, name: str) -> Stream:
    def batches() -> Iterator[Any]:
        for batch in whole:
            rows = _rows_of(_labels(batch, path, column), value)
            yield batch.drop(column)[rows]  # type: ignore[attr-defined]

    stream = Stream.batches(batches)
    # Where a row stands in the file is not known, for the rows of other groups are not counted.
    stream.source = Source((), name, place=lambda row: f"row {row} of that group")
    return stream


def _sizes(path: str, column: str, parts: Iterable[list[Label]]) -> dict[Label, int]:
    """How many rows each group has."""
    sizes: dict[Label, int] = {}
    for labels in parts:
        for value in labels:
            sizes[value] = sizes.get(value, 0) + 1
        if len(sizes) > _MOST_GROUPS:
            raise InputError(
                f"{path} has more than {_MOST_GROUPS} values in column '{column}'; --by takes "
                "groups."
            )
    return sizes


def _labels(table: Any, path: str, column: str) -> list[Label]:
    """The group to which each row of a table belongs."""
    columns = [] if isinstance(table, np.ndarray) else table.columns
    if column not in columns:
        has = f"it has {listed(columns)}" if columns else "its columns have no names"
        raise InputError(f"{path} has no column '{column}' for --by; {has}.")
    labels: list[Label] = []
    for value in table[column].to_list():
        is_missing = value is None or value != value  # NaN does not equal itself
        labels.append(None if is_missing else label(value))
    return labels


def _rows_of(labels: list[Label], value: str) -> NDArray[np.intp]:
    is_member = np.array([each == value for each in labels])
    return np.flatnonzero(is_member)
