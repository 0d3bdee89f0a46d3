"""Files whose rows can be read in parts: NPY, Parquet and Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from .formats import is_arrow_file, mapped
from .handles import ending_of, opened, polars_for, told_about, unheard

if TYPE_CHECKING:
    import numpy.typing as npt
    import polars

_PART = 2**19  # numbers in a part of a file: 4 MiB in float64


@dataclass(frozen=True)
class NpyRows:
    """Rows `start` ... `start + rows - 1` of an NPY file."""

    path: Path
    start: int
    rows: int

    def read(self) -> npt.NDArray[Any]:
        """The rows, as an array in memory."""
        with told_about(self.path):
            # A copy, so that the map, and with it the pages in memory, goes when this returns.
            return np.array(mapped(self.path)[self.start : self.start + self.rows])

    def elsewhere(self) -> NpyRows:
        """The same rows, as a process that stands in another folder finds them."""
        return replace(self, path=self.path.absolute())


@dataclass(frozen=True)
class ParquetRows:
    """Rows `start` ... `start + rows - 1` of a Parquet or Arrow file."""

    path: Path
    start: int
    rows: int
    columns: tuple[str, ...] | None = None

    def read(self) -> polars.DataFrame:
        """The rows, as a table in memory."""
        with told_about(self.path), unheard:
            rows = _scanned(self.path, self.columns).slice(self.start, self.rows)
            part: polars.DataFrame = rows.collect()
        return part

    def pieces(self) -> Iterator[polars.DataFrame]:
        """The rows, fewer at a time."""
        part = self.read()
        # In float64 and with a column for each level, a table takes several times its memory.
        rows = _PART // max(1, part.width)
        return part.iter_slices(max(1, rows))

    def elsewhere(self) -> ParquetRows:
        """The same rows, as a process that stands in another folder finds them."""
        return replace(self, path=self.path.absolute())


def npy_parts(path: str | Path) -> list[NpyRows]:
    """An NPY file in parts of some million numbers at most."""
    file = Path(path)
    with opened(file), told_about(file):
        array = mapped(file)
    if array.ndim == 0:
        raise InputError(
            f"{file} holds a single number, not rows; save a 2-D array, one row a point."
        )
    width = int(np.prod(array.shape[1:], dtype=np.int64))
    cuts = _cuts(len(array), width, _PART)
    return [NpyRows(file, start, rows) for start, rows in cuts]


def parquet_parts(path: str | Path, columns: Sequence[str] | None = None) -> list[ParquetRows]:
    """A Parquet or Arrow file, or only some `columns` of it, in parts of some million numbers."""
    file = Path(path)
    chosen = None if columns is None else tuple(columns)
    with opened(file), told_about(file), unheard:
        table = _scanned(file, None)
        names = table.collect_schema().names()
        known = set(names)
        for name in chosen or ():
            if name not in known:
                raise InputError(f"{file} has no column {name!r}; it has {', '.join(names[:10])}.")
        counted = table.select(polars_for(file).len()).collect()
    # Parts are larger than those of other files, because polars finds a row of a row group by going
    # through the rows before it.
    cuts = _cuts(int(counted.item()), len(chosen or names), 4 * _PART)
    return [ParquetRows(file, start, rows, chosen) for start, rows in cuts]


def _cuts(rows: int, width: int, numbers: int) -> Iterator[tuple[int, int]]:
    """Where parts of at most so many numbers start, and how many rows each has."""
    step = max(1, numbers // max(1, width))
    for start in range(0, rows, step):
        yield start, min(step, rows - start)


def _scanned(file: Path, columns: tuple[str, ...] | None) -> Any:
    """The file as a lazy table of polars, of which nothing has been read yet."""
    pl = polars_for(file)
    if ending_of(file) in (".parquet", ".pq"):
        # Without these, a star or an equals sign in the name of a file means something to polars.
        lazy = pl.scan_parquet(file, glob=False, hive_partitioning=False)
    else:
        with opened(file) as stream:
            if not is_arrow_file(stream):
                raise InputError(
                    f"{file} is a stream of Arrow, which has no parts to find; write it as Parquet."
                )
        lazy = pl.scan_ipc(file, glob=False, hive_partitioning=False)
    if columns is None:
        return lazy
    return lazy.select(columns)
