"""Tables of many columns: the time grows with the columns, not with their square."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import numpy as np
import polars as pl
import pytest

from twosample import Columns, as_samples
from twosample._data.reading import read
from twosample._data.tables import Origin
from twosample._files.formats import read_source

FEW, MANY = 2_000, 16_000


def _names(columns: int) -> list[str]:
    return [f"column {number}" for number in range(columns)]


def _csv(folder, columns):
    file = folder / f"{columns}.csv"
    cells = ",".join(["1"] * columns)
    file.write_text(",".join(_names(columns)) + f"\n{cells}\n{cells}\n")
    return lambda: read_source(file)


def _jsonl(folder, columns):
    file = folder / f"{columns}.jsonl"
    line = json.dumps(dict.fromkeys(_names(columns), 1))
    file.write_text(f"{line}\n{line}\n")
    return lambda: read_source(file)


def _jsonl_of_which_few_are_tested(folder, columns):
    _jsonl(folder, columns)
    rules = Columns(drop=tuple(_names(columns)[1:]))
    return lambda: read_source(folder / f"{columns}.jsonl", rules)


def _table(folder, columns):
    table = pl.DataFrame({name: [1.0, 2.0] for name in _names(columns)})
    return lambda: read(table, Origin("X"))


def _table_whose_columns_are_told(folder, columns):
    names = _names(columns)
    table = pl.DataFrame({name: [1.0, 2.0] for name in names})
    rules = Columns(keep=tuple(names), kinds=dict.fromkeys(names, "number"))
    return lambda: as_samples(table, table, columns=rules)


def _least_seconds(call) -> float:
    """CPU seconds, which other processes of a busy machine do not lengthen much."""
    seconds = []
    for _ in range(3):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return min(seconds)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::twosample.errors.InputWarning")
@pytest.mark.parametrize(
    "reader",
    [_csv, _jsonl, _jsonl_of_which_few_are_tested, _table, _table_whose_columns_are_told],
)
def test_the_time_grows_with_the_columns_not_with_their_square(tmp_path, reader):
    few = reader(tmp_path, FEW)
    many = reader(tmp_path, MANY)
    few()  # what is imported on the way does not count
    # Eight times as many columns: about 8 where the time is linear, 64 where it is quadratic.
    assert _least_seconds(many) < 30 * _least_seconds(few)


def test_columns_that_a_database_gives_twice_are_found_among_many(tmp_path):
    file = tmp_path / "wide.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE t (a)")
        database.commit()
    wide = ", ".join(f"a AS c{number}" for number in range(1_500))
    with pytest.raises(Exception, match="gives 2 columns called 'c7'; rename them with AS"):
        read_source(f"{file}::SELECT {wide}, a AS c7 FROM t")


_MEASURED = """
import sys
from twosample._cli.main import main
try:
    main()
except SystemExit as end:
    status = end.code
# Not ru_maxrss, which begins with what the parent had.
with open("/proc/self/status") as lines:
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
print(status, peak // 1024, file=sys.stderr)
"""


@pytest.mark.slow
def test_twenty_thousand_columns_from_end_to_end(tmp_path):
    rng = np.random.default_rng(0)
    columns, rows = 20_000, 50
    files = []
    for name, shift in (("x", 0.0), ("y", 1.0)):
        file = tmp_path / f"{name}.csv"
        table = pl.DataFrame(rng.normal(shift, 1, (rows, columns)).round(3), _names(columns))
        table.write_csv(file)
        files.append(str(file))
    options = ["--method", "mmd-median", "--permutations", "99", "--seed", "0"]
    command = [sys.executable, "-c", _MEASURED, "test", *files, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.stdout.startswith("The samples differ: p = 0.01"), done.stderr
    status, megabytes = map(int, done.stderr.split()[-2:])
    assert status == 0
    # The libraries take 300 MB, both samples in float64 take 16 MB, and copies of them some more.
    assert megabytes < 900, megabytes
