"""How much a file may hold: lengths of fields and lines, and what it may inflate to.

A megabyte of a compressed file can stand for a gigabyte of one field, and a parser needs several
times that. So lengths are looked at block by block, before a parser sees them.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError

LONGEST_FIELD = 2**20
"""Bytes of a field of text, or characters of a string."""

LONGEST_LINE = 2**26
"""Bytes of a line with all its fields: a table of a million columns has less."""

MOST_INFLATION = 100
"""How many times its size a file may inflate to, if it would fill the memory."""

HARMLESS = 2**20
"""Bytes that are no danger to any memory, whatever the file was that held them."""

_BLOCK = 2**20
_CACHED = 2**18  # bytes that caches hold
_MARK = b'"'
_QUOTE = ord(_MARK)


class LengthCheck:
    """Looks at the blocks of a text file, one after the other, and refuses what is too long.

    Parameters
    ----------
    file
        What messages call it.
    separator
        What stands between fields.
    """

    def __init__(self, file: Path, separator: str) -> None:
        self._file = file
        self._separator = separator.encode()
        self._lines = 0  # newlines before this block
        self._field = 0  # bytes since the last separator or end of a line
        self._line = 0  # bytes since the last end of a line
        self._in_quotes = False

    def see(self, block: bytes) -> None:
        """Look at the next block."""
        # A field that begins and ends within a part of this size is not too long.
        for start in range(0, len(block), LONGEST_FIELD):
            self._see_part(block[start : start + LONGEST_FIELD])

    def _see_part(self, part: bytes) -> None:
        if self._in_quotes or _QUOTE in part:
            marks, ends = self._outside_quotes(part)
        else:
            ends = _first_and_last(part, (b"\n", b"\r"))
            marks = _first_and_last(part, (b"\n", b"\r", self._separator))
        self._field = self._continued(self._field, part, marks, LONGEST_FIELD, "field")
        self._line = self._continued(self._line, part, ends, LONGEST_LINE, "line")
        self._lines += count_of(part, "\n")

    def _outside_quotes(self, part: bytes) -> tuple[tuple[int, int], tuple[int, int]]:
        """Where the first and last separators or ends of lines stand, and the ends alone."""
        text = np.frombuffer(part, dtype=np.uint8)
        in_quotes = inside_quotes(part) ^ self._in_quotes
        self._in_quotes = bool(in_quotes[-1])
        is_end = (text == ord("\n")) | (text == ord("\r"))
        is_mark = is_end | (text == self._separator[0])
        return _ends_of(is_mark & ~in_quotes), _ends_of(is_end & ~in_quotes)

    def _continued(
        self, length: int, part: bytes, marks: tuple[int, int], most: int, unit: str
    ) -> int:
        """The bytes behind the last of the marks, if those before the first are not too many."""
        first, last = marks
        has_marks = first >= 0
        length += first if has_marks else len(part)
        if length > most:
            raise InputError(
                f"{self._file}, line {self._lines + 1}: a {unit} has more than {most} bytes, and "
                f"is not read; is a quotation mark left open, or the file damaged?"
            )
        return len(part) - last - 1 if has_marks else length


def inside_quotes(text: bytes) -> NDArray[np.bool_]:
    """For each byte whether an odd number of quotation marks stands before or at it."""
    is_quote = np.frombuffer(text, dtype=np.uint8) == _QUOTE
    return np.logical_xor.accumulate(is_quote)


def count_of(text: bytes | bytearray, mark: str) -> int:
    """How often a character of ASCII comes; several times as quick as `bytes.count`."""
    letters = np.frombuffer(text, dtype=np.uint8)
    starts = range(0, len(letters), _CACHED)
    parts = (letters[start : start + _CACHED] for start in starts)
    return sum(int(np.count_nonzero(part == ord(mark))) for part in parts)


@dataclass(frozen=True)
class Glance:
    """What the bytes of a text file show.

    Attributes
    ----------
    is_ascii
        Whether all characters are those of ASCII.
    separators
        How many separators it has, if it is as plain as most are; else None. Plain is what all
        parsers read alike: without quotation marks, with lines that end in newlines alone, and with
        no line that is long.
    """

    is_ascii: bool
    separators: int | None


def glance_at(stream: io.BufferedReader, separator: str) -> Glance:
    """What one pass over the bytes of a file shows; the pass ends when nothing is left to see."""
    count: int | None = 0
    is_ascii = True
    mark = separator.encode()
    block = bytearray(LONGEST_FIELD // 2)
    while (is_ascii or count is not None) and (size := stream.readinto(block)):
        if size < len(block):
            del block[size:]  # the last one
        is_ascii = is_ascii and block.isascii()
        if count is None:
            continue
        # What is in every block is nowhere further apart than two of them are long.
        if b"\n" not in block or mark not in block or b"\r" in block or _MARK in block:
            count = None
        else:
            count += count_of(block, separator)
    return Glance(is_ascii, count)


def _first_and_last(part: bytes, marks: tuple[bytes, ...]) -> tuple[int, int]:
    """Where the first and the last of some marks stand; -1 if there is none."""
    first = -1
    last = -1
    for mark in marks:
        # Only before the first and behind the last that are known, which is next to nothing.
        found = part.find(mark, 0, first if first >= 0 else len(part))
        first = found if found >= 0 else first
        last = max(last, part.rfind(mark, last + 1))
    return first, last


def _ends_of(is_mark: NDArray[np.bool_]) -> tuple[int, int]:
    places = np.flatnonzero(is_mark)
    if not len(places):
        return -1, -1
    return int(places[0]), int(places[-1])


def all_of(stream: io.BufferedReader, file: Path, separator: str) -> bytes:
    """The text of a file, whose lengths are looked at while it comes."""
    lengths = LengthCheck(file, separator)
    if isinstance(stream.raw, io.FileIO):  # it is as large as the file, which is known to fit
        text = stream.read()
        lengths.see(text)
        return text
    blocks = []
    while block := stream.read(_BLOCK):
        lengths.see(block)
        blocks.append(block)
    return b"".join(blocks)


def lines_of(stream: io.BufferedReader, file: Path) -> Iterator[bytes]:
    """The lines of a file, none of which may be too long."""
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise InputError(
                f"{file}, line {number}: it has more than {LONGEST_LINE} bytes, and is not read; "
                "is the file damaged?"
            )
        yield line


def inflated_size(file: Path, enough: int) -> tuple[int, int]:
    """Bytes that a compressed file inflates to, and those of the file that were read for it.

    It stops beyond `enough` bytes. What the file itself says of its size may be wrong.
    """
    inflated = 0
    with file.open("rb") as packed:
        try:
            with gzip.GzipFile(fileobj=packed) as stream:
                while inflated <= enough:
                    block = stream.read(_BLOCK)
                    if not block:
                        break
                    inflated += len(block)
        except (OSError, EOFError, zlib.error):  # whoever reads the file says what is wrong
            pass
        return inflated, packed.tell()


def check_inflation(file: Path, packed: int, unpacked: int, needed: int, room: int) -> None:
    """Refuse a file that inflates too much for the room that there is.

    Parameters
    ----------
    file
        What messages call it.
    packed, unpacked
        Bytes of it as it is, and those it inflates to.
    needed
        Bytes that it takes in memory.
    room
        Bytes of memory that it may take; a larger file is read in parts, unless it inflates so much
        that this alone would take forever.
    """
    if needed <= max(room, HARMLESS) or unpacked <= MOST_INFLATION * packed:
        return
    raise InputError(
        f"{file} inflates from {packed} bytes to {unpacked} or more, over {MOST_INFLATION} times "
        f"its size, and would take more than the {room} bytes of memory that a sample may; if that "
        "is right, use --no-limit."
    )


def available_memory() -> int:
    """Bytes of memory that are free; where the system does not say, more than any file has."""
    return min(_free_in_machine(), _free_in_group(), _free_in_process())


def _free_in_machine() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (OSError, ValueError, AttributeError):
        return sys.maxsize


def _free_in_group() -> int:
    """What the control group leaves, as containers have one."""
    group = Path("/sys/fs/cgroup")
    try:
        most = int((group / "memory.max").read_text())
        taken = int((group / "memory.current").read_text())
    except (OSError, ValueError):  # there is none, or its limit is "max"
        return sys.maxsize
    return max(0, most - taken)


def _free_in_process() -> int:
    """What the limit of this process leaves, see ulimit -v."""
    try:
        import resource

        most, _ = resource.getrlimit(resource.RLIMIT_AS)
        if most == resource.RLIM_INFINITY:
            return sys.maxsize
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return max(0, most - pages * resource.getpagesize())
    except (ImportError, OSError, ValueError):
        return sys.maxsize
