"""Files: every reader against another one, Python's own modules for text and databases, NumPy,
pyarrow and Pillow.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import formats
import oracles
from cases import ACCEPTED, REFUSED, Case, check, check_sentence, only_our_warnings
from mutations import Rng, pick

from twosample._files.formats import read_source, typed_size
from twosample.errors import InputError

ORACLES: dict[str, Callable[[Any, Path], None]] = {
    ".csv": oracles.agrees_with_csv,
    ".tsv": oracles.agrees_with_csv,
    ".csv.gz": oracles.agrees_with_csv,
    ".jsonl": oracles.agrees_with_json,
    ".jsonl.gz": oracles.agrees_with_json,
    ".parquet": oracles.agrees_with_pyarrow,
    ".arrow": oracles.agrees_with_pyarrow,
    ".npy": oracles.agrees_with_numpy,
    ".npz": oracles.agrees_with_numpy,
}
QUERIES = [
    *(
        "t",
        "t",
        "t",
        "SELECT size, count FROM t",
        "SELECT * FROM t WHERE size > 1",
        "SELECT 1 AS a, 1 AS a",
        "",
        " ",
    ),
    *(
        "DROP TABLE t",
        "DELETE FROM t",
        "INSERT INTO t VALUES (1, 2, 3, 4, 5)",
        "SELECT",
        "SELECT * FROM absent",
        ";",
    ),
    *(
        "SELECT x'00' AS a",
        "SELECT 1; SELECT 2",
        "PRAGMA table_info(t)",
        "SELECT 1e999 AS a",
        "SELECT NULL AS a",
    ),
    *(
        "SELECT 9223372036854775807 AS a",
        "ATTACH DATABASE 'made.db' AS made",
        "VACUUM INTO 'made.db'",
        "t\0",
        "\ud7ff",
    ),
]


def parted(name: str) -> bool:
    """Whether it is read in parts by way of temporary files; the oracles of other kinds look at
    their parts.
    """
    return name.removesuffix(".gz").endswith((".csv", ".tsv", ".jsonl", ".npz", ".db"))


class Door:
    """Files with the endings that `twosample._files.formats.read_source` knows."""

    def __init__(self) -> None:
        self.seeds = formats.seeds()

    def case(self, rng: Rng) -> Case:
        """A file with an ending, from one that was right; its `data` is what to read."""
        ending = pick(rng, [*self.seeds, ".csv", ".csv"])
        seed = pick(rng, self.seeds[ending])
        how, content = formats.altered(ending, seed, rng)
        if ending == ".db":
            if rng.random() < 0.5:
                how = "query"
                content = seed
            return Case(f"db: {how}", {"case.db": content}, f"case.db::{pick(rng, QUERIES)}")
        if ending == ".png":
            names = [f"case/{number}.png" for number in range(3)]
            others = [
                seed if rng.random() < 0.9 else pick(rng, self.seeds[ending]) for _ in names[1:]
            ]
            return Case(f"folder: {how}", dict(zip(names, [content, *others], strict=True)), "case")
        if rng.random() < 0.02:
            how = "misnamed"
            ending = pick(rng, list(ORACLES))
        return Case(f"{ending[1:]}: {how}", {f"case{ending}": content}, f"case{ending}")

    def judge(self, case: Case) -> str:
        """Read it, and compare with what another reader finds."""
        name, _, query = case.data.partition("::")
        path = Path(name)
        before = {file: Path(file).read_bytes() for file in case.files}
        try:
            with only_our_warnings():
                # By a child process, as the command line does.
                typed_size(Path(case.data), 2**28, 2**30)
                sample = read_source(case.data).data
        except InputError as error:
            check_sentence(str(error), name)
            if parted(name):
                check(oracles.in_parts(case.data) is None, "refused as a whole, but not in parts")
            return REFUSED
        finally:
            check(
                all(Path(file).read_bytes() == content for file, content in before.items()),
                "reading has written",
            )
            made = [file.unlink() for file in Path().glob("made*")]
            check(not made, "reading has made a file")
        if path.is_dir():
            oracles.agrees_with_pillow(sample, path)
        elif path.suffix == ".db":
            oracles.agrees_with_sqlite(sample, path, query)
        else:
            ORACLES[name.removeprefix("case")](sample, path)
        if parted(name):
            oracles.agrees_in_parts(sample, case.data)
        oracles.check_samples(sample)
        return ACCEPTED
