"""What the columns of two samples are, learned once, so that later data are encoded alike.

A table becomes float64 columns, an array of images becomes (N, C, H, W) pixels. Every complaint
about samples that do not fit together is raised here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError, InputNote, Obstacles, warn
from .cells import Cells, check_cells, is_text
from .columns import Columns
from .extremes import Spread
from .moments import Moments
from .reading import read
from .tables import (
    AS_FOUND,
    LAYOUTS,
    ColumnKind,
    Images,
    Kind,
    Origin,
    Table,
    called,
    count,
    listed,
)

MAX_LEVELS = 50
"""So many levels of a category are told apart, the most frequent ones; the others are one."""

MAX_LEVELS_ASKED = 1000
"""So many where the user says that the column is a category."""

MOST_LEVELS = 10_000
"""With more levels in one sample, a column is text, not a category."""

KIND_WORDS = {
    "numeric": "numbers",
    "boolean": "true and false",
    "category": "strings or categories",
    "date": "dates",
    "time": "times of a day or durations",
    "unknown": "nothing but missing values",
}
"""What messages call what a column holds."""

_FITTED = "the fitted test"  # what messages call a schema that was learned from other data
_UNITS: dict[ColumnKind, Literal["days", "seconds"]] = {"date": "days", "time": "seconds"}
_PIXEL_WORDS = {"uint8": "uint8 pixels in 0..255", "float32": "floats"}


@dataclass(frozen=True)
class Column:
    """One column of a table as the user knows it.

    Attributes
    ----------
    name : str
        The name in the table, or the position for an unnamed column.
    kind : {"numeric", "boolean", "category"}
        How it is encoded: as itself, as 0 and 1, or as one indicator for each level and one for any
        other.
    levels : tuple of str
        The sorted levels that are told apart, the most frequent of the pooled samples; empty unless
        `kind` is "category".
    missing : bool
        Whether an indicator of its own says where values are missing.
    fill : float
        What stands in their place then: the pooled mean of the others, or the median where some
        of them are extreme. In a category every other indicator is 0 instead.
    unit : {"", "days", "seconds"}
        What its numbers count, if they were dates (days since 1970-01-01), or times and durations.
    pooled : int
        How many rarer levels there were, which are taken as any other.
    """

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()
    missing: bool = False
    fill: float = 0.0
    unit: Literal["", "days", "seconds"] = ""
    pooled: int = 0

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the encoded columns that this column becomes."""
        gap = (f"{self.name} is missing",) if self.missing else ()
        if self.kind != "category":
            return (self.name, *gap)
        other = "other" if "other" not in self.levels else "(any other)"
        indicators = [f"{self.name}={level}" for level in (*self.levels, other)]
        return (*indicators, *gap)


@dataclass(frozen=True)
class Schema:
    """How data become tensors; learned from pooled data, without labels.

    Attributes
    ----------
    kind : {"table", "image"}
    shape : tuple of int
        Shape of one encoded point: (d,) for a table, (C, H, W) for an image.
    columns : tuple of Column
        The columns of a table, in the order in which they are encoded.
    named : bool
        Whether the columns have names of their own, by which they are matched.
    pixels : {"", "uint8", "float32"}
        What image pixels are; a uint8 image and one of floats in [0, 1] are not on the same scale.
    rules : Columns
        What the user said about columns and missing values; it holds for later data too.
    """

    kind: Literal["table", "image"]
    shape: tuple[int, ...]
    columns: tuple[Column, ...] = ()
    named: bool = False
    pixels: Literal["", "uint8", "float32"] = ""
    rules: Columns = AS_FOUND

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the encoded columns, such as "height" and "colour=red"; empty for images."""
        return tuple(feature for column in self.columns for feature in column.features)

    @property
    def widths(self) -> list[int]:
        """How many encoded columns each column becomes."""
        return [len(column.features) for column in self.columns]

    @property
    def standardised(self) -> tuple[bool, ...]:
        """For each encoded column whether it is standardised; indicators are left as they are."""
        # A rare level divided by its tiny standard deviation would dominate every distance. Left
        # alone, two different levels are at squared distance 2, which is the mean squared distance
        # of a standardised column.
        return tuple(
            column.kind == "numeric" and feature == column.name
            for column in self.columns
            for feature in column.features
        )

    def encode(self, data: object, sample: str) -> Tensor:
        """Validate and encode one sample.

        Parameters
        ----------
        data : array, table or images
            Anything that `as_samples` takes.
        sample : str
            What messages call it: "X" or "Y".

        Returns
        -------
        Tensor
            Of shape (N, d) and float64 for tables, (N, C, H, W) and uint8 or float32 for images.
        """
        rules = self.rules
        if rules.policy == "drop":
            # Whoever asks for points wants one for each row.
            rules = replace(rules, missing="error")
        table = read(data, Origin.of(data, sample), rules)
        self.check(table, sample)
        if isinstance(table, Table):
            self.check_gaps(table.gaps()[self.places(table, sample)], sample)
        return self.tensor(table, sample)

    def check(
        self,
        data: Table | Images,
        sample: str,
        *,
        warns: bool = True,
        cells: Mapping[int, Cells] = MappingProxyType({}),
        obstacles: Obstacles | None = None,
    ) -> None:
        """Refuse data of another form or kind; warn of levels that the schema does not know.

        `cells` says what the cells look like in columns of text, by their places. What is wrong
        with single columns is gathered in `obstacles`; without any it is raised.
        """
        if isinstance(data, np.ndarray) != (self.kind == "image"):
            form = "images" if isinstance(data, np.ndarray) else "a table"
            raise InputError(
                f"The fitted test takes {self.kind}s but {sample} holds {form}; images are "
                f"{LAYOUTS}."
            )
        if isinstance(data, np.ndarray):
            check_images(self, data, sample, "The fitted test takes")
            return
        gathered = Obstacles() if obstacles is None else obstacles
        for column, place in zip(self.columns, self.places(data, sample), strict=True):
            with gathered.noted():
                _check_kind(column, data, place, sample, cells.get(place))
            if column.kind == "category" and warns:
                _warn_if_unseen(column, data, place, sample)
        if obstacles is None:
            gathered.raise_any()

    def check_gaps(self, gaps: Sequence[int] | NDArray[np.int64], sample: str) -> None:
        """Refuse missing values, so many in each column, where there is no indicator for them."""
        obstacles = Obstacles()
        for column, missing in zip(self.columns, gaps, strict=True):
            if missing and not column.missing:
                with obstacles.noted():
                    raise InputError(
                        f"{sample} has {count(int(missing), 'missing value')} in "
                        f"{called(column.name, self.named)}, but none were missing there when the "
                        "test was fitted; impute them, or fit a test on data where some are."
                    )
        obstacles.raise_any()

    def places(self, table: Table, sample: str) -> list[int]:
        """Where the columns of the schema stand in a table."""
        names = [column.name for column in self.columns]
        return matching(table, names, self.named, sample, _FITTED, ignored=self.rules.drop)

    def tensor(self, data: Table | Images, sample: str) -> Tensor:
        """Encode what has been checked. The points share the memory of `data` where they can."""
        if isinstance(data, np.ndarray):
            return torch.from_numpy(data)
        places = self.places(data, sample)
        widths = self.widths
        sources = np.repeat(places, widths)  # (d,): the column each encoded column begins as
        encoded = data.numbers
        if not np.array_equal(sources, np.arange(len(data.names))):
            encoded = np.take(data.numbers, sources, axis=1)  # (N, d)
        start = 0
        for column, place, width in zip(self.columns, places, widths, strict=True):
            end = start + width
            if column.kind == "category":
                encoded[:, start:end] = _indicators(column, data, place)
            elif column.missing:
                gaps = np.isnan(encoded[:, start])
                encoded[gaps, start] = column.fill
                encoded[:, end - 1] = gaps
            if column.kind == "boolean" and data.kinds[place] == "numeric":
                _check_truth(data, place, sample)
            start = end
        return torch.from_numpy(encoded)


@dataclass(frozen=True)
class Seen:
    """A sample without its rows: all that a schema depends on.

    Attributes
    ----------
    form
        Its columns; or its images, without any.
    origin
        What messages call it.
    counts
        How often each level of a category comes, by the place of its column. They are not complete
        where there are more than `MOST_LEVELS`.
    cells
        What the cells look like in columns of text, by their places.
    """

    form: Table | Images
    origin: Origin
    counts: Mapping[int, Counter[str | None]]
    cells: Mapping[int, Cells]

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.origin.sample


def learn(x: Seen, y: Seen, rules: Columns, obstacles: Obstacles) -> Schema:
    """The schema of two samples; everything that is in its way goes into `obstacles` and is raised.

    Free text is left out, and the rules of the schema say so. `with_gaps` adds what it takes to
    tell where values are missing.
    """
    form_x = x.form
    form_y = y.form
    if isinstance(form_x, np.ndarray) and isinstance(form_y, np.ndarray):
        schema = image_schema(form_x)
        check_images(schema, form_y, y.name, f"{x.name} holds")
        return schema
    if isinstance(form_x, np.ndarray) or isinstance(form_y, np.ndarray):
        images, table = (x, y) if isinstance(form_x, np.ndarray) else (y, x)
        raise InputError(
            f"{images.name} holds images but {table.name} is a table; pass two samples of the same "
            "form."
        )
    everywhere = [*form_x.names, *sorted(form_x.left_out), *form_y.names, *sorted(form_y.left_out)]
    with obstacles.noted():
        rules.check_names(list(dict.fromkeys(everywhere)))
    places = _common(form_x, form_y)
    with obstacles.noted():
        places = list(enumerate(matching(form_y, form_x.names, form_x.named, y.name, x.name)))
    learned = _Learned([], [], [])
    for here, there in places:
        with obstacles.noted():
            _learn_column(form_x, here, form_y, there, (x, y), rules, learned)
    with obstacles.noted():
        learned.check_any_left(x.origin, form_x.named)
    obstacles.raise_any()
    learned.say(x.origin, form_x.named)
    return _table_schema(learned.columns, form_x.named, _without(rules, learned.text))


@dataclass
class _Learned:
    """What is known of the columns, and what to say about them.

    Attributes
    ----------
    columns
        Those that are tested.
    text
        Those that are left out, each with the reason.
    pooled
        Those whose rare levels are one, each with their number and share.
    """

    columns: list[Column]
    text: list[tuple[str, str]]
    pooled: list[tuple[str, str]]

    def check_any_left(self, origin: Origin, named: bool) -> None:
        """Refuse to test nothing."""
        if self.text and not self.columns:
            shown = "; ".join(f"{called(name, named)} ({why})" for name, why in self.text[:3])
            one = self.text[0][0]
            raise InputError(
                "no column is left to test, since free text and identifiers tell nothing as "
                f"categories: {shown}{_and_more(self.text)}. Turn text into numbers (numbers or "
                f"dates as text with {origin.asks('kinds', 'number', one)}), or take it as it is "
                f"with {origin.asks('kinds', 'category', one)}."
            )

    def say(self, origin: Origin, named: bool) -> None:
        """Say what was decided; `origin` is that of one of the samples."""
        if self.text:
            shown = "; ".join(f"{called(name, named)} ({why})" for name, why in self.text[:3])
            one = self.text[0][0]
            warn(
                f"{_columns_are(len(self.text))} left out, since free text and identifiers tell "
                f"nothing as categories: {shown}{_and_more(self.text)}. To test one, turn it into "
                f"numbers, or use {origin.asks('kinds', 'category', one)}."
            )
        if self.pooled:
            shown = "; ".join(f"{called(name, named)} ({what})" for name, what in self.pooled[:3])
            one = self.pooled[0][0]
            warn(
                f"Of a category the {MAX_LEVELS} most frequent levels are told apart; all others "
                f"are one, 'other': {shown}{_and_more(self.pooled)}. "
                f"{origin.asks('kinds', 'category', one)} tells {MAX_LEVELS_ASKED} apart.",
                InputNote,
            )
        dates = [column.name for column in self.columns if column.unit]
        if dates:
            shown = " and ".join(called(name, named) for name in dates[:3])
            warn(
                f"Dates are tested as days since 1970-01-01, times as seconds: {shown}"
                f"{_and_more(dates)}. So the day of the week or the hour is not seen, and samples "
                "of different periods differ by their dates alone; leave them out with "
                f"{origin.asks('drop', dates[0])}.",
                InputNote,
            )


def _columns_are(number: int) -> str:
    return "1 column is" if number == 1 else f"{number} columns are"


def _and_more(items: Sequence[object]) -> str:
    return "" if len(items) <= 3 else f"; and {count(len(items) - 3, 'more column')}"


def _without(rules: Columns, left_out: Sequence[tuple[str, str]]) -> Columns:
    """The rules by which later data, too, are read without these columns."""
    return replace(rules, drop=(*rules.drop, *(name for name, _ in left_out)))


def _common(x: Table, y: Table) -> list[tuple[int, int]]:
    """The places in X and Y of the columns that both have."""
    places = {name: place for place, name in enumerate(y.names)}
    return [(here, places[name]) for here, name in enumerate(x.names) if name in places]


def image_schema(images: Images) -> Schema:
    """The schema of images like these."""
    pixels: Literal["uint8", "float32"] = "uint8" if images.dtype == np.uint8 else "float32"
    return Schema("image", images.shape[1:], pixels=pixels)


def _table_schema(columns: Sequence[Column], named: bool, rules: Columns) -> Schema:
    width = sum(len(column.features) for column in columns)
    return Schema("table", (width,), tuple(columns), named, rules=rules)


def _learn_column(
    x: Table,
    here: int,
    y: Table,
    there: int,
    samples: tuple[Seen, Seen],
    rules: Columns,
    learned: _Learned,
) -> None:
    """Add what two columns are together to what is `learned`."""
    name = x.names[here]
    where = x.where(here)
    kind_x = x.kinds[here]
    kind_y = y.kinds[there]
    kinds: set[ColumnKind] = {kind_x, kind_y} - {"unknown"}
    of_x, of_y = samples
    cells = (of_x.cells.get(here), of_y.cells.get(there))
    if kinds == {"category"}:
        counts = (of_x.counts.get(here, Counter()), of_y.counts.get(there, Counter()))
        looked_at = [each for each in cells if each is not None]
        check_cells(looked_at, name, where)
        _learn_category(name, where, counts, looked_at, rules, samples, learned)
        return
    if len({family(kind) for kind in kinds}) > 1:
        raise InputError(
            f"{of_x.name} has {KIND_WORDS[kind_x]} in {where} but {of_y.name} has "
            f"{KIND_WORDS[kind_y]}; convert both the same way{_odd_ones(cells[0], kinds)}"
            f"{_odd_ones(cells[1], kinds)}."
        )
    kind: Kind = "boolean" if kinds == {"boolean"} else "numeric"
    unit = _UNITS[kind_x if kind_x in _UNITS else kind_y] if kinds & set(_UNITS) else ""
    learned.columns.append(Column(name, kind, unit=unit))


def family(kind: ColumnKind) -> str:
    """What a column can be compared with: numbers with true and false, all else with its like."""
    return "number" if kind in ("numeric", "boolean") else kind


def _learn_category(
    name: str,
    where: str,
    counts: tuple[Counter[str | None], Counter[str | None]],
    cells: Sequence[Cells],
    rules: Columns,
    samples: tuple[Seen, Seen],
    learned: _Learned,
) -> None:
    together = counts[0] + counts[1]
    del together[None]
    asked = rules.kind_of(name) == "category"
    crowded = max(map(len, counts)) > MOST_LEVELS
    if crowded and asked:
        names = " and ".join(each.name for each in samples)
        raise InputError(
            f"{names} have more than {MOST_LEVELS} different values in {where}, too many for a "
            "category; group them, or turn them into numbers."
        )
    if crowded or (is_text(cells, len(together)) and not asked):
        number = f"more than {MOST_LEVELS}" if crowded else str(len(together))
        total = count(sum(each.total for each in cells), "cell")
        example = str(min(together, key=str))
        reason = f"{number} different values in {total}, such as {example[:40]!r}"
        if name in (rules.keep or ()):
            origin = samples[0].origin
            raise InputError(
                f"{where} has {reason}, so as a category it would tell nothing; leave it out, turn "
                f"it into numbers, or take it as it is with "
                f"{origin.asks('kinds', 'category', name)}."
            )
        learned.text.append((name, reason))
        return
    most = MAX_LEVELS_ASKED if asked else MAX_LEVELS
    # By their names where they are as frequent: never by the sample that has them first.
    by_frequency = sorted(together, key=lambda level: (-together[level], str(level)))
    kept = sorted(str(level) for level in by_frequency[:most])
    rare = by_frequency[most:]
    learned.columns.append(Column(name, "category", tuple(kept), pooled=len(rare)))
    if rare:
        share = sum(together[level] for level in rare) / together.total()
        learned.pooled.append(
            (name, f"{len(rare)} of {count(len(together), 'level')}, in {100 * share:.2g} % of it")
        )


def with_gaps(schema: Schema, moments: Moments, rows: int, spread: Spread) -> Schema:
    """The schema with an indicator for each column in which one of `rows` values is missing.

    What is put in their place is the mean of the pooled values, which no shuffle of the labels
    changes. Where values are extreme it is the median, since the mean might be extreme, too.
    """
    if schema.kind == "image" or schema.rules.policy != "indicator":
        return schema
    means, _ = moments.filled(rows, np.zeros(len(schema.columns))).shift_and_scale()
    means = np.where(spread.extreme, spread.median, means)
    columns = []
    for column, present, mean in zip(schema.columns, moments.count, means, strict=True):
        if present < rows:
            column = replace(column, missing=True, fill=float(mean))
        columns.append(column)
    return _table_schema(columns, schema.named, schema.rules)


def matching(
    table: Table,
    names: list[str],
    named: bool,
    sample: str,
    other: str,
    *,
    ignored: Collection[str] = (),
) -> list[int]:
    """Positions in `table`, which is called `sample`, of the columns `names` of `other`.

    The table may have columns besides that are `ignored`.
    """
    unknown = set(table.names) - set(names)
    if unknown <= set(ignored) and unknown | set(names) == set(table.names):
        positions = {name: position for position, name in enumerate(table.names)}
        return [positions[name] for name in names]
    if len(table.names) == len(names) == 1 and not (table.named and named):
        return [0]  # two vectors can be compared whatever they are called
    if table.named != named:
        with_names, without = (sample, other) if table.named else (other, sample)
        complaint = (
            f"{with_names} has named columns but {without} has none; pass both as tables or both "
            "as arrays."
        )
    elif named:
        absences = [(sample, set(names) - set(table.names)), (other, unknown - set(ignored))]
        parts = [
            f"missing in {owner}: {listed(sorted(absent))}" for owner, absent in absences if absent
        ]
        complaint = f"{other} and {sample} have different columns; {'; '.join(parts)}."
    else:
        both = "both" if other == _FITTED else "both samples"
        complaint = (
            f"{other} has {count(len(names), 'column')} but {sample} has {len(table.names)}; "
            f"{both} must have the same features."
        )
    # A sentence begins with a capital letter, but a file keeps its name.
    if complaint.startswith("the "):
        complaint = f"T{complaint[1:]}"
    raise InputError(complaint)


def check_images(schema: Schema, images: Images, sample: str, takes: str) -> None:
    """Refuse images unlike those of `schema`; `takes` begins the sentence."""
    shape = images.shape[1:]
    if shape != schema.shape:
        raise InputError(
            f"{takes} images of {_times(schema.shape)} (channels x height x width) but {sample} "
            f"holds images of {_times(shape)}; bring all to the same form."
        )
    if images.dtype != schema.pixels:
        expected = _PIXEL_WORDS[schema.pixels]
        actual = _PIXEL_WORDS[str(images.dtype)]
        raise InputError(
            f"{takes} {expected} but {sample} holds {actual}; convert both the same way."
        )


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _check_kind(column: Column, table: Table, place: int, sample: str, cells: Cells | None) -> None:
    kind = table.kinds[place]
    if kind == "unknown":
        return
    takes: ColumnKind = column.kind
    if column.unit:
        takes = "date" if column.unit == "days" else "time"
    if family(kind) != family(takes):
        raise InputError(
            f"{sample} has {KIND_WORDS[kind]} in {table.where(place)}, but the fitted test takes "
            f"{KIND_WORDS[takes]}{_odd_ones(cells, {takes})}."
        )


def _odd_ones(cells: Cells | None, kinds: Collection[ColumnKind]) -> str:
    """The cells that make text of a column which should be something else, after a semicolon."""
    if cells is None or not cells.odd:
        return ""
    what = "dates" if "date" in kinds else "numbers"
    return f"; the cells that are no {what}: {cells.named()}"


def _check_truth(table: Table, place: int, sample: str) -> None:
    """Refuse numbers other than 0 and 1 where the schema has true and false."""
    values = table.numbers[:, place]
    truth = (values == 0) | (values == 1) | np.isnan(values)
    if not truth.all():
        raise InputError(
            f"{sample} has other numbers than 0 and 1 in {table.where(place)}; the fitted test "
            "takes true and false."
        )


def _warn_if_unseen(column: Column, table: Table, place: int, sample: str) -> None:
    labels = {label for label in table.labels.get(place, ()) if label is not None}
    unseen = sorted(labels - set(column.levels))
    # Where rare levels were taken as any other, it is not known which they were.
    if unseen and not column.pooled:
        warn(
            f"{sample} has {count(len(unseen), 'level')} in {table.where(place)} that the test was "
            f"not fitted on, taken as 'other': {listed(unseen)}."
        )


def _indicators(column: Column, table: Table, place: int) -> NDArray[np.float64]:
    """A category as zeros and ones: its levels, any other level, and missing values."""
    width = len(column.features)
    positions: dict[str | None, int] = {level: at for at, level in enumerate(column.levels)}
    other = len(positions)
    positions[None] = width - 1
    labels = table.labels.get(place, [None] * len(table))
    codes = [positions.get(label, other) for label in labels]
    return np.eye(width)[codes]
