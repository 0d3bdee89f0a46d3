"""Batches that can be read only once, kept in temporary files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import InputError
from .columns import Columns
from .reading import read
from .tables import Origin, Table


@dataclass(frozen=True)
class Spilled:
    """A batch in a temporary file, as it was read by these rules."""

    path: Path
    rows: int
    rules: Columns

    def read(self) -> object:
        """The batch: an array as it came, or a `Table`."""
        if self.path.suffix == ".npy":
            return np.load(self.path, allow_pickle=False)
        with np.load(self.path, allow_pickle=False) as saved:
            form = json.loads(saved["form"].tobytes())
            labels: dict[int, list[str | None]] = {}
            for place, levels in form["levels"].items():
                # The code of a missing value is -1, which is where None stands.
                known = [*levels, None]
                labels[int(place)] = [known[code] for code in saved[f"codes{place}"]]
            return Table(
                form["names"],
                form["named"],
                form["kinds"],
                saved["numbers"],
                labels,
                frozenset(form["left_out"]),
                self.rules,
                frozenset(form["declared"]),
            )


def spill(batch: object, file: Path, origin: Origin, rules: Columns) -> Spilled:
    """Write a batch to a file whose name gets an ending.

    An array is written as it is, since its float64 copy may be twice as large; anything else as it
    was read.
    """
    plain = (
        isinstance(batch, np.ndarray)
        and batch.dtype.kind in "biuf"
        and not isinstance(batch, np.ma.MaskedArray)
    )
    data = batch if plain else read(batch, origin, rules)
    try:
        if isinstance(data, Table):
            path = file.with_suffix(".npz")
            _write_table(data, path)
            return Spilled(path, len(data), rules)
        array = np.asarray(data)
        path = file.with_suffix(".npy")
        np.save(path, array, allow_pickle=False)
        return Spilled(path, len(array), rules)
    except OSError as error:
        raise InputError(
            f"batches of {origin.sample} cannot be written to {file.parent} "
            f"({error.strerror or error}); set TMPDIR to a folder with more room, or pass "
            "Stream.batches(function), which can be read again."
        ) from error


def _write_table(table: Table, path: Path) -> None:
    levels = {}
    codes = {}
    for place, labels in table.labels.items():
        known = sorted(label for label in set(labels) if label is not None)
        code: dict[str | None, int] = {level: number for number, level in enumerate(known)}
        code[None] = -1
        levels[place] = known
        codes[f"codes{place}"] = np.array([code[label] for label in labels], dtype=np.int64)
    form = {
        "names": table.names,
        "named": table.named,
        "kinds": table.kinds,
        "levels": levels,
        "left_out": sorted(table.left_out),
        "declared": sorted(table.declared),
    }
    form_bytes = np.frombuffer(json.dumps(form).encode(), dtype=np.uint8)
    np.savez(path, allow_pickle=False, numbers=table.numbers, form=form_bytes, **codes)
