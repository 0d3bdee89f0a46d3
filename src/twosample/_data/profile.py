"""What one pass over a sample tells, batch by batch: columns, levels, moments, and every complaint.

Two profiles, one of X and one of Y, are all that a `Schema` and a `Scaling` depend on.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, InputNote, Obstacles, warn
from .cells import Cells
from .columns import Columns
from .extremes import CODES, FARTHEST, FENCE, Spread
from .moments import Moments
from .reading import is_index, read
from .samples import Scaling
from .schema import (
    KIND_WORDS,
    MOST_LEVELS,
    Schema,
    Seen,
    check_images,
    family,
    image_schema,
    learn,
    matching,
    with_gaps,
)
from .tables import AS_FOUND, Images, Origin, Table, by_name, called, count, listed

_HEAVY = 0.01  # of the values: if more are extreme, that is how the column is


class Profile:
    """What is known of a sample after some of its batches; none of them is kept.

    Parameters
    ----------
    origin : Origin
        What messages call the sample.
    rules : Columns
        What the user said about its columns.

    Attributes
    ----------
    rows, kept
        How many rows came, and how many of them are not left out for missing values.
    batches
        How many batches came.
    obstacles
        What is wrong with single columns.
    """

    def __init__(self, origin: Origin, rules: Columns = AS_FOUND) -> None:
        self.origin = origin
        self.sample = origin.sample
        self.rules = rules
        self.rows = 0
        self.kept = 0
        self.batches = 0
        self.obstacles = Obstacles()
        self._form: Table | Images | None = None  # the first batch without its rows
        self._levels: dict[int, Counter[str | None]] = {}  # of each column that is a category
        self._cells: dict[int, Cells] = {}  # of each category that the user has not asked for
        self._moments: Moments | None = None
        self._for_quantiles: list[NDArray[np.float64]] = []

    @property
    def numbers(self) -> int:
        """How many numbers a row has."""
        if self._form is None:
            return 0
        if isinstance(self._form, np.ndarray):
            return int(np.prod(self._form.shape[1:]))
        return len(self._form.names)

    def read(self, batch: object) -> Table | Images:
        """Validate the next batch, and bring its columns into the order of the first."""
        origin = replace(self.origin, first=self.rows)
        try:
            data = self._like_the_first(read(batch, origin, self.rules, self.obstacles))
        except InputError as error:
            if not self.batches:
                raise
            raise InputError(
                f"{error} (this is batch {self.batches + 1} of {self.sample}, which begins at row "
                f"{self.rows})"
            ) from error
        if isinstance(data, Table):
            self._look_at_cells(data, origin)
        return data

    def _look_at_cells(self, data: Table, origin: Origin) -> None:
        # Here rather than in `include`, which rows with missing values do not reach: a cell in them
        # may be what makes text of a column.
        for place, labels in data.labels.items():
            name = data.names[place]
            if self.rules.kind_of(name) is None:
                declared = name in data.declared
                cells = self._cells.setdefault(place, Cells(self.origin, declared))
                cells.include(labels, origin)

    def include(self, data: Table | Images, for_quantiles: NDArray[np.int64] | None = None) -> None:
        """Count what `read` gave; take quantiles from these of its rows, else from all it keeps."""
        self.rows += len(data)
        self.batches += 1
        if isinstance(data, np.ndarray):
            self.kept += len(data)
            self._add(data.reshape(-1, 1))  # images have one scale for all pixels
            if data.dtype != np.uint8:  # of which no value is extreme
                rows = data if for_quantiles is None else data[for_quantiles]
                self._for_quantiles.append(rows.reshape(-1, 1))
            return
        if for_quantiles is not None:
            self._for_quantiles.append(data.numbers[for_quantiles])
        if self.rules.policy == "drop":
            data = data.complete_rows()
        self.kept += len(data)
        for place, labels in data.labels.items():
            levels = self._levels.setdefault(place, Counter())
            # Text is not counted to its end, before batch after batch of it fills the memory.
            if len(levels) <= MOST_LEVELS:
                levels.update(labels)
        if len(data):
            self._add(data.numbers)
        if for_quantiles is None:
            self._for_quantiles.append(data.numbers)

    def _add(self, points: NDArray[np.float64]) -> None:
        moments = Moments.of(points)
        self._moments = moments if self._moments is None else self._moments.merged(moments)

    def _like_the_first(self, data: Table | Images) -> Table | Images:
        first = f"the first batch of {self.sample}"
        name = f"batch {self.batches + 1} of {self.sample}"
        if self._form is None:
            self._form = _without_rows(_in_order(data))
        form = self._form
        if isinstance(form, np.ndarray) and isinstance(data, np.ndarray):
            check_images(image_schema(form), data, name, f"T{first[1:]} holds")
            return data
        if isinstance(form, np.ndarray) or isinstance(data, np.ndarray):
            images, table = (first, name) if isinstance(form, np.ndarray) else (name, first)
            raise InputError(
                f"{images} holds images but {table} is a table; pass batches of the same form."
            )
        order = matching(data, form.names, form.named, name, first)
        if order != list(range(len(order))):
            data = data.columns(order)
        for place, before in enumerate(form.kinds):
            kind = data.kinds[place]
            if "unknown" in (before, kind):
                form.kinds[place] = kind if before == "unknown" else before
            elif family(before) != family(kind):
                raise InputError(
                    f"{name} has {KIND_WORDS[kind]} in {data.where(place)}, but "
                    f"{KIND_WORDS[before]} came before; convert all the same way."
                )
            elif before != kind:
                # Some batches hold true and false, others numbers: then all are numbers.
                form.kinds[place] = "numeric"
        return data

    def summary(self) -> Table | Images:
        """The sample without rows, its labels the levels: all that a schema depends on."""
        if self._form is None:
            raise InputError(f"{self.sample} is empty: it has 0 rows.")
        if isinstance(self._form, np.ndarray):
            return self._form
        labels = {place: list(levels) for place, levels in self._levels.items()}
        return replace(self._form, labels=labels)

    @property
    def cells(self) -> dict[int, Cells]:
        """What the cells look like of each category that the user has not asked for."""
        return self._cells

    def seen(self) -> Seen:
        """The sample without rows, and all that is known of its categories."""
        return Seen(self.summary(), self.origin, self._levels, self._cells)

    def index(self) -> list[str]:
        """The columns that were left out because they only name the rows."""
        form = self.summary()
        if isinstance(form, np.ndarray) or self.rules.keep is not None:
            return []
        left_out = form.left_out - {*self.rules.drop}
        return sorted(name for name in left_out if is_index([name], 0))

    def moments(self, schema: Schema) -> Moments:
        """The moments of each column of the schema before it is encoded, or of all pixels."""
        form = self.summary()
        if self._moments is None:
            raise InputError(f"{self.sample} is empty: it has 0 rows.")
        if isinstance(form, np.ndarray):
            return self._moments
        return self._moments.columns(schema.places(form, self.sample))

    def for_quantiles(self, schema: Schema) -> NDArray[np.float64]:
        """Some rows, or all, with the columns of the schema before they are encoded."""
        form = self.summary()
        if isinstance(form, np.ndarray):
            return np.concatenate([np.empty((0, 1)), *self._for_quantiles])
        rows = np.concatenate([form.numbers, *self._for_quantiles])
        places = schema.places(form, self.sample)
        return rows if places == list(range(rows.shape[1])) else rows[:, places]

    def levels(self, schema: Schema) -> list[set[str | None]]:
        """The levels of each column of the schema."""
        form = self.summary()
        if isinstance(form, np.ndarray):
            return []
        places = schema.places(form, self.sample)
        return [set(self._levels.get(place, ())) for place in places]


def _in_order(data: Table | Images) -> Table | Images:
    """The columns of a table sorted by name, where they have names.

    A network starts from other weights for the first column than for the second, so the order of
    the user's columns must not say which is which.
    """
    if isinstance(data, np.ndarray) or not data.named:
        return data
    return data.columns(sorted(range(len(data.names)), key=lambda at: by_name(data.names[at])))


def _without_rows(data: Table | Images) -> Table | Images:
    # Copies, so that they do not keep all of the data in memory.
    if isinstance(data, np.ndarray):
        return data[:0].copy()
    return replace(data, kinds=list(data.kinds), numbers=data.numbers[:0].copy(), labels={})


def schema_and_scaling(
    x: Profile, y: Profile, schema: Schema | None = None, scaling: Scaling | None = None
) -> tuple[Schema, Scaling]:
    """How two samples are encoded and scaled, once all of their rows have been seen.

    Raises and warns of all that does not fit together, or into `schema` and `scaling`: those of
    earlier data, which are returned then.
    """
    rows = x.kept + y.kept
    names = (x.sample, y.sample)
    known = schema
    obstacles = Obstacles()
    obstacles.include(x.obstacles)
    obstacles.include(y.obstacles)
    if schema is None:
        schema = learn(x.seen(), y.seen(), x.rules, obstacles)
        _note_index(x, y)
    else:
        for profile in (x, y):
            with obstacles.noted():
                schema.check(
                    profile.summary(), profile.sample, cells=profile.cells, obstacles=obstacles
                )
        obstacles.raise_any()
    spread = _spread(x, y, schema)
    if known is None:
        moments = x.moments(schema).merged(y.moments(schema))
        schema = with_gaps(schema, moments, rows, spread)
        _note_gaps(x, y, schema)
    elif schema.kind == "table":
        for profile in (x, y):
            with obstacles.noted():
                gaps = profile.kept - profile.moments(schema).count
                schema.check_gaps(gaps, profile.sample)
        obstacles.raise_any()
    moments = x.moments(schema).merged(y.moments(schema))
    if scaling is None:
        _warn_if_extreme(schema, moments, spread)
    else:
        _warn_if_far(schema, moments, scaling)
    if schema.kind == "image":
        _warn_if_blank(schema, moments, names)
        return schema, scaling or Scaling.from_moments(moments, schema, spread)
    gaps = rows - moments.count
    moments = moments.filled(rows, np.array([column.fill for column in schema.columns]))
    levels_x = x.levels(schema)
    levels_y = y.levels(schema)
    levels = [of_x | of_y for of_x, of_y in zip(levels_x, levels_y, strict=True)]
    _warn_if_constant(schema, moments, levels, gaps, rows, names)
    encoded = np.repeat(np.arange(len(schema.columns)), schema.widths)
    learned = Scaling.from_moments(moments.columns(encoded), schema, spread.columns(encoded))
    return schema, scaling or learned


def _note_index(x: Profile, y: Profile) -> None:
    """Say which columns were left out because they only name the rows."""
    names = sorted({*x.index(), *y.index()})
    if names:
        owners = " and ".join(profile.sample for profile in (x, y) if profile.index())
        asks = x.origin.asks("kinds", "number", names[0])
        warn(
            f"Column {listed(names)} of {owners} only names the rows, as an index does, and is "
            f"left out; {asks} tests it.",
            InputNote,
        )


def _note_gaps(x: Profile, y: Profile, schema: Schema) -> None:
    """Say what becomes of missing values, if the user has not."""
    if schema.kind == "image" or schema.rules.missing is not None:
        return
    gaps_x = x.kept - x.moments(schema).count
    gaps_y = y.kept - y.moments(schema).count
    texts = []
    for column, of_x, of_y in zip(schema.columns, gaps_x, gaps_y, strict=True):
        if column.missing:
            where = called(column.name, schema.named)
            texts.append(
                f"{where}: {of_x} of {x.kept} in {x.sample}, {of_y} of {y.kept} in {y.sample}"
            )
    if texts:
        drop = x.origin.asks("missing", "drop")
        error = x.origin.asks("missing", "error")
        warn(
            f"Missing values are counted and tested as such ({_some(texts)}): a change in what is "
            f"missing is a difference. {drop} leaves out their rows, {error} refuses them.",
            InputNote,
        )


def _spread(x: Profile, y: Profile, schema: Schema) -> Spread:
    """Which columns of the schema, or pixels, have extreme values."""
    moments = x.moments(schema).merged(y.moments(schema))
    if schema.kind == "image":
        numeric = np.array([schema.pixels == "float32"])
    else:
        numeric = np.array([column.kind == "numeric" for column in schema.columns])
    pooled = np.concatenate([x.for_quantiles(schema), y.for_quantiles(schema)])
    return Spread.of(pooled, moments, numeric)


def _warn_if_extreme(schema: Schema, moments: Moments, spread: Spread) -> None:
    """Warn of columns whose extreme values are drawn in."""
    texts = []
    for at in np.flatnonzero(spread.extreme):
        beyond = int(spread.beyond[at])
        values = int(spread.values[at])
        if values == moments.count[at]:
            how_many = f"{beyond} of {values} values"
        elif beyond:
            how_many = f"about {100 * beyond / values:.2g} % of the values"
        else:
            how_many = "a few values"
        farthest = _farthest(moments, int(at), float(spread.median[at]))
        is_code = farthest in CODES
        shown = f"{farthest:.0f}, a code for a missing value?" if is_code else f"{farthest:.6g}"
        text = f"{how_many} in {_place(schema, int(at))} (the farthest {shown})"
        # So many are no slips of somebody's pen.
        if beyond > _HEAVY * values and not is_code:
            text += ", a heavy tail or a group of rows far away"
        texts.append(text)
    if texts:
        warn(
            f"More than {FARTHEST} interquartile ranges away from the median: {_some(texts)}. They "
            "are drawn in logarithmically so that they do not hide the rest."
        )


def _warn_if_far(schema: Schema, moments: Moments, scaling: Scaling) -> None:
    """Warn of columns with values far away from all that a test was fitted on."""
    firsts = np.cumsum([0, *schema.widths[:-1]])  # where the numbers of each column are encoded
    shift = np.atleast_1d(scaling.shift.numpy())[firsts]
    scale = np.atleast_1d(scaling.scale.numpy())[firsts]
    reach = np.maximum(np.abs(moments.low / 2 - shift / 2), np.abs(moments.high / 2 - shift / 2))
    with np.errstate(over="ignore"):
        far = (reach > scale / 2 * FENCE) & (moments.count > 0)
    texts = []
    for at in np.flatnonzero(far):
        farthest = _farthest(moments, int(at), float(shift[at]))
        texts.append(f"{farthest:.6g} in {_place(schema, int(at))}")
    if texts:
        warn(
            "Some values are far away from the bulk of what the test was fitted on: "
            f"{_some(texts)}. "
            "They are drawn in logarithmically so that they do not hide the rest."
        )


def _farthest(moments: Moments, at: int, centre: float) -> float:
    low = float(moments.low[at])
    high = float(moments.high[at])
    return low if centre / 2 - low / 2 > high / 2 - centre / 2 else high


def _place(schema: Schema, at: int) -> str:
    if schema.kind == "image":
        return "the pixels"
    name = schema.columns[at].name
    return f"column '{name}'" if schema.named else f"column {name}"


def _some(texts: list[str]) -> str:
    shown = "; ".join(texts[:3])
    return shown if len(texts) <= 3 else f"{shown}; and {count(len(texts) - 3, 'more column')}"


def _warn_if_blank(schema: Schema, moments: Moments, names: tuple[str, str]) -> None:
    # Single pixels are often constant, as in the corners of digits: no reason to warn.
    low = float(moments.low[0])
    if low == moments.high[0]:
        value = int(low) if schema.pixels == "uint8" else low
        warn(
            f"Every pixel of {' and '.join(names)} has the value {value}; such images carry no "
            "information."
        )


def _warn_if_constant(
    schema: Schema,
    moments: Moments,
    levels: list[set[str | None]],
    gaps: NDArray[np.int64],
    rows: int,
    names: tuple[str, str],
) -> None:
    """Warn of columns that are encoded as the same value in all rows of both samples."""
    constant = []
    for at, column in enumerate(schema.columns):
        if column.kind == "category":
            # All levels that the schema does not know are one: "other". A column without any value
            # has no levels, but gaps.
            seen = levels[at] | {None} if gaps[at] else levels[at]
            known = seen & {*column.levels, None}
            varies = len(known) + bool(seen - known) > 1
        else:
            varies = bool(moments.low[at] != moments.high[at])
            if column.missing:
                varies = varies or 0 < gaps[at] < rows
        if not varies:
            constant.append(column.name)
    if constant:
        are = "is" if len(constant) == 1 else "are"
        shown = listed(constant, "'" if schema.named else "")
        warn(
            f"{count(len(constant), 'column')} {are} constant over {' and '.join(names)} together "
            f"({shown}); constant columns carry no information."
        )
