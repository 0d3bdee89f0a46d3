"""The readers and `load` under atheris, which keeps the inputs that reach new lines of our code and
changes those.

    python fuzz/guided.py reader|load FOLDER -runs=20000          adds a record to fuzz/runs.jsonl

FOLDER holds what it starts from and gets what it finds; without files in it, it is filled with
small right ones. A file that ends in anything but an answer or a sentence stops it, and is written
to the working directory as crash-... atheris is not among our requirements: install it beside them
(it is built for a few versions of Python only).
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["twosample"]):
    import twosample
    from twosample import errors
    from twosample._files import database, json_lines, records  # noqa: F401
    from twosample._files import formats as files
    from twosample._files import text as textfiles  # noqa: F401
    from twosample._saving import (
        forms,  # noqa: F401
        saving,  # noqa: F401
    )

from cases import ACCEPTED, REFUSED, check, check_sentence, only_our_warnings
from door_load import _seeds as saved_seeds
from formats import seeds
from run import add_record

ENDINGS = [".csv", ".tsv", ".csv.gz", ".jsonl", ".parquet", ".arrow", ".npy", ".npz"]
HERE = Path(tempfile.mkdtemp())


def reader(content: bytes) -> str:
    """The first byte picks the ending, the rest is the file."""
    if not content:
        return REFUSED
    path = HERE / f"case{ENDINGS[content[0] % len(ENDINGS)]}"
    path.write_bytes(content[1:])
    try:
        with only_our_warnings():
            files.read_source(path)
    except errors.InputError as error:
        check_sentence(str(error), path.name)
        return REFUSED
    return ACCEPTED


def load(content: bytes) -> str:
    """What loads is what was saved: nobody guesses a checksum."""
    path = HERE / "case.safetensors"
    path.write_bytes(content)
    try:
        twosample.load(path)
    except errors.InputError as error:
        check_sentence(str(error), path.name)
        return REFUSED
    check(content in GOOD, "damage was not noticed")
    return ACCEPTED


GOOD: set[bytes] = set()
DOORS = {"reader": reader, "load": load}


def fill(door: str, folder: Path) -> None:
    """Put small right files into a folder that has none."""
    folder.mkdir(exist_ok=True)
    if door == "load":
        GOOD.update(each.content for each in saved_seeds())
    if any(folder.iterdir()):
        return
    right = [
        bytes([ENDINGS.index(ending)]) + file
        for ending, held in seeds().items()
        if ending in ENDINGS
        for file in held
    ]
    for number, content in enumerate(right if door == "reader" else sorted(GOOD)):
        (folder / f"seed{number}").write_bytes(content)


def main() -> None:
    """Fuzz in a child, since libFuzzer ends the process that it runs in, and keep the record."""
    door, folder, *options = sys.argv[1:]
    ours, theirs = os.pipe()
    if not (child := os.fork()):
        fill(door, Path(folder))
        atheris.Setup(
            [sys.argv[0], folder, *options],
            lambda content: os.write(theirs, DOORS[door](content)[:1].encode()),
        )
        atheris.Fuzz()
    os.close(theirs)
    told = b"".join(iter(lambda: os.read(ours, 4096), b""))
    _, status, used = os.wait4(child, 0)
    ends = {end: told.count(end[:1].encode()) for end in (ACCEPTED, REFUSED)} | (
        {"crash": 1} if status else {}
    )
    add_record(f"{door}, guided", 0, sum(ends.values()), ends, {}, used.ru_utime + used.ru_stime)


if __name__ == "__main__":
    main()
