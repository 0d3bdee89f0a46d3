"""`Watch`: batch after batch, one question, and a verdict that holds however often one looks."""

from __future__ import annotations

import hashlib
import math
import os
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor

from .._checks import check_whole
from .._data.columns import Columns
from .._data.streams import Stream
from .._design import Design, Key, design_from
from .._random import Generators, RNGLike, takes_rng
from .._threads import threads_for
from ..errors import InputError
from .betting import Ledger, exponential, shown
from .door import EACH_ROW, Door
from .rows import Batch, Reference, checked_sizes, set_aside
from .witnesses import as_witness

if TYPE_CHECKING:
    from .._show.page import InlineReport

HISTORY = 365
"""Records that a watch keeps. The log of the command line has all of them."""

NAMES = 2**17
"""Names of batches that a watch remembers, so that none is counted twice: 15 years of hours."""

_FEWEST_AT_FIRST = 6  # rows that fix columns and scales
_EFFECTS = 50  # columns whose effects a record has
_SIDES = 256  # samples whose fingerprints are remembered
_LEAST_KNOWN = 50  # rows of a sample that is known again: few rows may be equal by chance


@dataclass(frozen=True)
class WatchRecord:
    """What a batch said.

    Attributes
    ----------
    number, name
        Which batch it is, from 1 on, and what it is called.
    sizes
        How many rows of X, or of the reference, and of Y were compared.
    evalue
        The e-value of this batch alone: what a bet of 1 on a difference has become. Given all
        batches before, its expectation is 1 if there is no difference. Up to the first alarm it is
        at most what the alarm needs, so that alarms come sooner.
    wealth
        The product of all e-values so far; with `run_length` the detector.
    threshold
        What the wealth must reach for an alarm.
    alarm
        Whether there is an alarm. It stays until `Watch.restart`; with `run_length` it is of
        this batch only.
    pvalue
        A p-value that holds at any time: 1 over the largest wealth so far. NaN with `run_length`.
    effects
        Column -> how far Y is from X in this batch: the difference of means in standard
        deviations, or for a category the share of rows that had to change level. Of more than 50
        columns the largest.
    leading
        Columns -> their share of the evidence so far, the loudest first. Several columns stand
        with " & " between them, and "all columns" for all together.
    reference_left
        How many rows of the reference have not been spent; None without a reference.
    fingerprint
        A checksum of the rows.
    notes
        What is odd about the rows, such as levels that were not there before.
    """

    number: int
    name: str
    sizes: tuple[int, int]
    evalue: float
    wealth: float
    threshold: float
    alarm: bool
    pvalue: float
    effects: Mapping[str, float] = field(default_factory=dict)
    leading: Mapping[str, float] = field(default_factory=dict)
    reference_left: int | None = None
    fingerprint: str = ""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        verdict = "ALARM" if self.alarm else "no alarm"
        return (
            f"{verdict} after batch {self.number} ({self.name}): wealth {shown(self.wealth)}, "
            f"alarm at {self.threshold:g}; this batch {shown(self.evalue)}{self._evidence()}"
        )

    def _evidence(self) -> str:
        loud = [f"{name} {share:.0%}" for name, share in self.leading.items() if share >= 0.1]
        return f"; the evidence: {', '.join(loud)}" if self.alarm and loud else ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `json.dumps` takes them; numbers that are not finite are None."""
        return {
            "number": self.number,
            "name": self.name,
            "sizes": list(self.sizes),
            "evalue": _finite(self.evalue),
            "wealth": _finite(self.wealth),
            "threshold": self.threshold,
            "alarm": self.alarm,
            "pvalue": _finite(self.pvalue),
            "effects": {name: round(value, 6) for name, value in self.effects.items()},
            "leading": {name: round(value, 6) for name, value in self.leading.items()},
            "reference_left": self.reference_left,
            "fingerprint": self.fingerprint,
            "notes": list(self.notes),
        }


class Watch:
    """Do X and Y differ? Asked of batch after batch, with a verdict that holds at any time.

    Each batch is a fair bet against "there is no difference": what it pays, its e-value, has the
    expectation 1 if that is true, given everything before. The wealth is the product. If there is
    never a difference, the chance that it ever reaches 1 / alpha is at most alpha, however many
    batches come, of whatever sizes, and whenever one stops. If there is a difference, it grows
    exponentially.

    *Two streams*, `update(X, Y)`: assumed is that the rows of one batch are independent draws,
    given the batches before. Both streams may drift together. No row may come twice.

    *One stream against a reference*, `Watch(reference=R)` and `update(Y)`: assumed is that all
    rows, those of R and of all batches, are independent draws of one distribution. Every row of R
    is compared once, with one batch, and then it is spent: the same rows every day would make the
    days depend on each other, and raise false alarms. `refill` adds rows.

    Parameters
    ----------
    reference
        The reference; None for two streams. A fifth of it, at most 1000 rows, fixes columns and
        scales and is not compared.
    alpha
        The chance of a false alarm, ever.
    run_length
        In place of `alpha`: look for a change, at any time. The detector bets anew from every
        batch on, and starts again after an alarm. Without a change, a false alarm takes at least
        so many batches on average.
    witness
        What looks for a difference: "spectral", all views of columns, pairs and rows; "columns", a
        cheap one, of single columns and their linear combinations; "mmd-d", or another test with a
        learned kernel; a classifier of scikit-learn; `Views` of your own.
    permutations
        Labellings that each batch is compared with. An e-value is at most one more than this.
    columns
        Which columns to watch, as what; missing values have an indicator of their own by default.
    spend
        Reference rows that a batch is compared with at most; None for as many as it has itself.
    rng
        A seed, or a generator: one seed, one answer.

    Attributes
    ----------
    notes
        Whatever you want to keep with it, such as where the reference came from: strings and
        numbers.

    Examples
    --------
    >>> import numpy as np, twosample
    >>> rng = np.random.default_rng(0)
    >>> watch = twosample.Watch(alpha=0.05, rng=0)
    >>> for day in range(10):
    ...     record = watch.update(rng.normal(size=(80, 2)), rng.normal(0.4, size=(60, 2)))
    >>> record.alarm
    True
    """

    @takes_rng
    def __init__(
        self,
        *,
        reference: object = None,
        alpha: float = 0.05,
        run_length: float | None = None,
        witness: Any = "spectral",
        permutations: int = 399,
        columns: Columns | None = None,
        spend: int | None = None,
        rng: RNGLike | None = None,
    ) -> None:
        check_whole("permutations", permutations, 1)
        if spend is not None:
            check_whole("spend", spend, 1)
        self._ledger = Ledger.opened(alpha, run_length)
        self._witness = as_witness(witness)
        self._columns = columns
        self._permutations = permutations
        self._spend = spend
        self._generators = Generators(rng)
        self._door: Door | None = None
        self._reference: Reference | None = None
        self._batches = 0
        self._alarmed_at: int | None = None
        self._history: deque[WatchRecord] = deque(maxlen=HISTORY)
        self._names: deque[int] = deque(maxlen=NAMES)
        self._sides: deque[tuple[str, str]] = deque(maxlen=_SIDES)
        self._saved_as: str | None = None  # the checksum of its file
        self.notes: dict[str, Any] = {}
        if reference is not None:
            self._set_reference(reference)

    def __repr__(self) -> str:
        how = f"alpha={self.alpha:g}"
        if self.run_length is not None:
            how = f"run_length={self.run_length:g}"
        return (
            f"<Watch {how}, witness={self._witness.name!r}: {self._batches} batches, wealth "
            f"{shown(self.wealth)}{', alarm' if self.alarm else ''}>"
        )

    # What there is to know

    @property
    def alpha(self) -> float:
        """The chance of a false alarm, ever."""
        return self._ledger.alpha

    @property
    def run_length(self) -> float | None:
        """The batches that a false alarm takes at least, on average; None without a detector."""
        return self._ledger.run_length

    @property
    def threshold(self) -> float:
        """What the wealth must reach for an alarm."""
        return self._ledger.threshold

    @property
    def batches(self) -> int:
        """How many batches have been counted."""
        return self._batches

    @property
    def wealth(self) -> float:
        """The product of all e-values so far; with `run_length` the detector."""
        return self._ledger.wealth

    @property
    def alarm(self) -> bool:
        """Whether there is an alarm."""
        return self._alarmed_at is not None

    @property
    def alarmed_at(self) -> int | None:
        """The number of the batch that raised the alarm."""
        return self._alarmed_at

    @property
    def history(self) -> tuple[WatchRecord, ...]:
        """The latest 365 records."""
        return tuple(self._history)

    @property
    def reference_left(self) -> int | None:
        """How many rows of the reference have not been spent; None without a reference."""
        return None if self._reference is None else len(self._reference)

    def has_counted(self, name: str) -> bool:
        """Whether a batch of this name has been counted: one of the latest 131,072."""
        return _name_key(name) in self._names

    # What happens

    def update(
        self,
        X: object,
        Y: object = None,
        *,
        name: str | None = None,
        groups: Key | None = None,
        strata: Key | None = None,
    ) -> WatchRecord:
        """Count another batch, and say what it did.

        With an error nothing has changed, and no row is spent.

        Parameters
        ----------
        X, Y
            The rows of both streams. With a reference, the new rows alone.
        name
            What the batch is called, such as a date; None for its number. No name counts twice.
        groups, strata
            As in `two_sample_test`, for two streams: rows of one group move together, and rows of
            different strata never change places. A group belongs to one batch, and to X or to Y.
            With a reference they are refused: its rows are spent one by one.
        """
        design = design_from(groups=groups, strata=strata)
        if design is not None and self._reference is not None:
            raise InputError(
                "the rows of a reference are spent one by one, so there can be no groups and no "
                "strata; watch two streams, or give one row for each group, such as its means."
            )
        number = self._batches + 1
        name = self._checked_name(name, number)
        door, batch, left, notes = self._read(X, Y, design or EACH_ROW)
        sides = self._checked_sides(batch)
        generators = self._generators.child(f"batch {number}")
        with threads_for(door.schema):
            bet, witness = self._witness.observe(batch, door, generators, self._permutations)
        log_evalue = self._ledger.paid(bet.log_evalues)
        ledger = self._ledger.after(log_evalue)
        raised = ledger.is_reached
        is_detector = self.run_length is not None
        # From here on nothing can fail.
        self._door = door
        self._reference = left
        self._witness = witness
        self._ledger = ledger
        self._batches = number
        self._names.append(_name_key(name))
        self._sides.append(sides)
        if is_detector:
            self._alarmed_at = number if raised else None
        elif raised and self._alarmed_at is None:
            self._alarmed_at = number
        record = WatchRecord(
            number=number,
            name=name,
            sizes=batch.sizes,
            evalue=exponential(log_evalue),
            wealth=ledger.wealth,
            threshold=ledger.threshold,
            alarm=self.alarm,
            pvalue=ledger.pvalue,
            effects=self._named_effects(door, batch),
            leading=_named(bet.leading, door),
            reference_left=self.reference_left,
            fingerprint=_digest(batch.x, batch.y),
            notes=notes,
        )
        self._history.append(record)
        if is_detector and raised:
            self._ledger = Ledger.opened(self.alpha, self.run_length)
        return record

    def restart(self) -> None:
        """Start with a wealth of 1 again, after an alarm that was seen to.

        What was learned is kept. It is a new test, with a level of its own.
        """
        self._ledger = Ledger.opened(self.alpha, self.run_length)
        self._alarmed_at = None

    def refill(self, reference: object) -> None:
        """Add rows to the reference: new draws of it, none that were there before."""
        if self._reference is None or self._door is None:
            raise InputError("this watch has two streams and no reference; call update(X, Y).")
        samples, _ = self._door.encode(reference, reference)
        generators = self._generators.child(f"refill after {self._batches}")
        added = _shuffled(samples.x, generators)
        rows = torch.cat([self._reference.rows, added])
        self._reference = Reference(rows, self._reference.spent)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to one file, which `Watch.load` reads; its size does not grow with batches.

        A file of that name is replaced at once and as a whole. One that somebody else has updated
        since this watch was loaded is not.
        """
        from .state import save

        save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, witness: Any = None) -> Watch:
        """Read a watch that `save` has written; it goes on to the bit as it would have.

        A witness that was given as an object, such as a classifier, has to be given again.
        """
        from .state import load

        return load(path, witness=witness)

    @overload
    def report(self, path: str | os.PathLike[str]) -> Path: ...

    @overload
    def report(self, path: None = None) -> InlineReport: ...

    def report(self, path: str | os.PathLike[str] | None = None) -> Path | InlineReport:
        """Write an HTML page, and return its path: wealth and columns over time, what changed.

        Without a path, a notebook shows the page where it is called.
        """
        from .._show.watching import inline_watch_report, write_watch_report

        if path is None:
            return inline_watch_report(self)
        return write_watch_report(self, path)

    # How

    def _set_reference(self, reference: object) -> None:
        door = Door.learned(reference, reference, self._columns)
        samples, _ = door.encode(reference, reference)
        count = len(samples.x)
        aside = set_aside(count)
        if aside >= count:
            raise InputError(
                f"the reference has {count} rows, of which {aside} are set aside to fix columns "
                "and scales; give more."
            )
        order = _order(count, self._generators)
        # Columns and scales must not know the rows that are yet to be compared; see `door`.
        first = _rows_of(reference, order[:aside], samples.rows)
        self._door = Door.learned(first, first, self._columns)
        encoded, _ = self._door.encode(reference, reference)
        self._reference = Reference(encoded.x[order[aside:]])

    def _read(
        self, X: object, Y: object, design: Design
    ) -> tuple[Door, Batch, Reference | None, tuple[str, ...]]:
        """The door, the batch as it goes through it, what is left of the reference, and notes."""
        if self._reference is not None and self._door is not None:
            if Y is not None:
                raise InputError(
                    "this watch has a reference, so update takes the new rows alone: update(Y)."
                )
            samples, notes = self._door.encode(X, X)
            new = samples.y
            wanted = len(new) if self._spend is None else min(len(new), self._spend)
            rows, left = self._reference.take(wanted)
            return self._door, Batch(rows, new), left, notes
        if Y is None:
            raise InputError(
                "this watch has no reference, so update takes both samples: update(X, Y); or give "
                "Watch(reference=...)."
            )
        door = self._door
        if door is None:
            door = Door.learned(X, Y, self._columns, design)
        samples, notes = door.encode(X, Y, design)
        checked_sizes(samples.sizes)
        if self._door is None and sum(samples.sizes) < _FEWEST_AT_FIRST:
            raise InputError(
                f"the first batch has {sum(samples.sizes)} rows in all; it fixes columns and "
                f"scales, so give at least {_FEWEST_AT_FIRST}."
            )
        return door, Batch(samples.x, samples.y, samples.units), None, notes

    def _checked_name(self, name: str | None, number: int) -> str:
        name = str(number) if name is None else str(name)
        if self.has_counted(name):
            raise InputError(f"batch {name!r} was counted already; no batch counts twice.")
        return name

    def _checked_sides(self, batch: Batch) -> tuple[str, str]:
        """Fingerprints of both samples, which must not be those of an earlier one."""
        marks = (_mark(batch.x), _mark(batch.y))
        for sample, mark in zip("XY", marks, strict=True):
            first = self._batches - len(self._sides) + 1
            for number, known in enumerate(self._sides, first):
                if mark and mark in known:
                    earlier = "XY"[known.index(mark)]
                    raise InputError(
                        f"{sample} holds the same rows as {earlier} of batch {number}. A row may "
                        "be compared once, so yesterday's batch cannot be today's reference; "
                        "give rows that are new."
                    )
        return marks

    def _named_effects(self, door: Door, batch: Batch) -> dict[str, float]:
        effects = door.effects(batch.x, batch.y)
        # Of thousands of columns some hundred records would fill a file.
        largest = effects.abs().argsort(descending=True, stable=True)[:_EFFECTS]
        places = largest.sort().values.tolist()
        names = [column.name for column in door.schema.columns]
        return {names[place]: float(effects[place]) for place in places}


def _named(leading: tuple[tuple[tuple[int, ...], float], ...], door: Door) -> dict[str, float]:
    names = [column.name for column in door.schema.columns]
    named = {}
    for columns, share in leading:
        label = " & ".join(names[column] for column in columns) if columns else "all columns"
        named[label] = share
    return named


def _order(count: int, generators: Generators) -> Tensor:
    return torch.randperm(count, generator=generators.torch("reference"))


def _shuffled(rows: Tensor, generators: Generators) -> Tensor:
    return rows[_order(len(rows), generators)]


def _rows_of(data: Any, rows: Tensor, places: tuple[Tensor, Tensor] | None) -> Any:
    """Some rows of whatever came in; `places` says where those that are used stand in it."""
    import narwhals as nw
    import numpy as np

    from .._data.tables import Source

    if isinstance(data, Stream):
        raise InputError("the reference is a Stream; give rows that fit into memory.")
    chosen = rows if places is None else places[0][rows]
    native = data.data if isinstance(data, Source) else data
    if isinstance(native, torch.Tensor):
        return native[chosen]
    if isinstance(native, np.ndarray | list | tuple):
        return np.asarray(native)[chosen.numpy()]
    frame: Any = nw.from_native(native, allow_series=True)
    return nw.to_native(frame[chosen.numpy()])


def _name_key(name: str) -> int:
    """64 bits in place of a name, so that many can be remembered."""
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:8], "little", signed=True)


def _digest(*tensors: Tensor) -> str:
    total = hashlib.sha256()
    for tensor in tensors:
        total.update(tensor.contiguous().numpy().tobytes())
    return total.hexdigest()[:32]


def _mark(rows: Tensor) -> str:
    """A fingerprint; "" where rows may be equal by chance: few of them, or all alike."""
    if len(rows) < _LEAST_KNOWN or bool((rows == rows[:1]).all()):
        return ""
    return _digest(rows)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
