"""The store of results: one JSON line for each finished trial, a file for each experiment.

A line is written in one go and forced to the disk when its trial is done. Files can be joined by
`cat`, since a trial that is there twice counts once. A line that a crash cut short is left out, and
costs no other line.
"""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ..errors import InputError, InputWarning

# How every line begins. By it a whole line is recognised that follows a broken one without a break.
_BEGIN = '{"experiment": '

_Kept = TypeVar("_Kept")


class Key(NamedTuple):
    """What tells a trial from all others: a line of results is known by it."""

    experiment: str
    setting: str
    method: str
    recipe: str
    trial: int


@dataclass(frozen=True)
class Record:
    """A finished trial: one training, many tests.

    Attributes
    ----------
    experiment, setting, method, recipe, trial
        Which trial it is; the names are those of `experiments`.
    seed
        Where all of its randomness comes from.
    data, sizes
        The data set, and what was drawn from it: points of each sample to "train" on and to "test",
        the "dimension" and, where rows are limited, how many "distinct" test sets there were before
        rows came again.
    tests, rejections
        How many test sets there were, and how many of them were rejected at level 0.05.
    permutations
        How many each test had; None where a limiting law took their place.
    criterion
        J of the trained kernel on the training points; None for tests without such a kernel.
    fit_cpu_seconds, test_cpu_seconds
        CPU time of the training, and of all tests together.
    peak_mebibytes
        The most memory that the process had during the trial, including the libraries; None if
        unknown.
    versions, date
        The versions that it ran on, and the day when it ended.
    """

    experiment: str
    setting: str
    method: str
    recipe: str
    trial: int
    seed: int
    data: str
    sizes: Mapping[str, int]
    tests: int
    rejections: int
    permutations: int | None
    criterion: float | None
    fit_cpu_seconds: float
    test_cpu_seconds: float
    peak_mebibytes: float | None
    versions: Mapping[str, str]
    date: str

    @property
    def key(self) -> Key:
        """What tells it from all other trials."""
        return Key(self.experiment, self.setting, self.method, self.recipe, self.trial)

    @property
    def rate(self) -> float:
        """The share of test sets that were rejected."""
        return self.rejections / self.tests

    @property
    def cpu_seconds(self) -> float:
        """CPU time of the training and the tests together."""
        return self.fit_cpu_seconds + self.test_cpu_seconds

    def line(self) -> str:
        """Return it as JSON."""
        # NaN is not JSON: other programs could not read the line.
        return json.dumps(dataclasses.asdict(self), allow_nan=False)

    @classmethod
    def of_line(cls, line: str) -> Record:
        """Return the record of a line; raise a ValueError if it is none."""
        values = json.loads(line)
        names = [field.name for field in dataclasses.fields(cls)]
        if not isinstance(values, dict) or not set(names) <= set(values):
            raise ValueError("fields are missing")
        # Fields that a later version may add are passed over.
        record = cls(**{name: values[name] for name in names})
        counts: tuple[Any, ...] = (record.trial, record.seed, record.tests, record.rejections)
        if not all(isinstance(count, int) for count in counts):
            raise ValueError("counts are not whole numbers")
        if record.tests == 0 or not 0 <= record.rejections <= record.tests:
            raise ValueError("counts are wrong")
        return record


class Store:
    """The results in a folder, which need not exist before the first result is kept."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def path(self, experiment: str) -> Path:
        """Return the file that keeps the trials of an experiment."""
        return self.folder / f"{experiment}.jsonl"

    def check(self) -> None:
        """Raise an error if nothing can be kept here, before anything is computed."""
        check_folder(self.folder)

    def append(self, record: Record) -> None:
        """Keep a record; when this returns, it is on the disk."""
        append_line(self.path(record.experiment), record.line())

    def records(self, *experiments: str) -> list[Record]:
        """Return the trials of some experiments, each once.

        If a trial was run several times, the run with the most tests counts.
        """
        by_key: dict[Key, Record] = {}
        for experiment in experiments:
            for record in read_lines(self.path(experiment), Record.of_line, _BEGIN):
                known = by_key.get(record.key)
                if known is None or record.tests > known.tests:
                    by_key[record.key] = record
        return list(by_key.values())


def check_folder(folder: Path) -> None:
    """Raise an error if nothing can be kept in a folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # By trying it: permissions do not tell of a full disk, or of one that is read-only.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"results cannot be written to {folder} ({error.strerror}); choose another "
            "folder with --results."
        ) from error


def read_lines(path: Path, of_line: Callable[[str], _Kept], begin: str) -> list[_Kept]:
    """Return what the lines of a file say; none if there is no file.

    `of_line` raises a ValueError for a line that is not whole. Every whole line starts as `begin`
    does.
    """
    if not path.exists():
        return []
    lines = path.read_text("utf-8", errors="replace").split("\n")
    records: list[_Kept] = []
    broken: list[int] = []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            records.append(of_line(line))
        except ValueError:
            if number < len(lines):  # another process may still be writing the last one
                broken.append(number)
            records += _glued(line, of_line, begin)
    if broken:
        numbers = ", ".join(map(str, broken))
        warnings.warn(
            f"{path}: line {numbers} is not a whole record and is left out.",
            InputWarning,
            stacklevel=3,
        )
    return records


def append_line(path: Path, line: str) -> None:
    """Write a line to the end of a file; when this returns, it is on the disk."""
    try:
        _append(path, line.encode())
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror or error}); make room, and run the "
            "same command again: what was finished before is kept."
        ) from error


def _append(path: Path, line: bytes) -> None:
    # Appending goes to the end of the file, wherever other processes have moved it.
    with path.open("ab+") as file:
        broken = False
        if file.tell():
            # Of the last byte: does the last line end?
            file.seek(-1, os.SEEK_END)
            broken = file.read(1) != b"\n"
        # A line that broke off is ended first. All in one write, so that the lines of several
        # processes do not mix.
        ending = b"\n" if broken else b""
        file.write(ending + line + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _glued(line: str, of_line: Callable[[str], _Kept], begin: str) -> list[_Kept]:
    """Return the record that follows a broken one on the same line, if there is one."""
    start = line.rfind(begin)
    if start > 0:
        try:
            return [of_line(line[start:])]
        except ValueError:
            pass
    return []
