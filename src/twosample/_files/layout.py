"""How a table is laid out in a text file: what the user says, and what the file shows.

The beginning of a file decides, so that it is read alike as a whole and in parts; whether it is
UTF-8 is seen from all of it. What is found to be otherwise than the name of the file lets expect is
said in a note.
"""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from ..errors import InputError, InputNote, warn
from .handles import ending_of, opened
from .limits import lines_of

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": ","}
"""What stands between fields, by the ending of a file, unless the file shows otherwise."""

MISSING = ("", "NA", "N/A", "n/a", "null", "NULL")
"""What stands for a missing value in text."""

_MARKS = (",", ";", "\t", "|")  # that may separate fields
_MARK_WORDS = {",": "commas", ";": "semicolons", "\t": "tabulators", "|": "bars", " ": "blanks"}
_GUESS = "cp1252"  # what text that is not UTF-8 most often is, as spreadsheets on Windows write it
_HEAD = 2**18  # bytes from which a layout is found
_START = 2**14  # bytes for a first look
_BLOCK = 2**20
_ROWS = 200  # of the beginning that are looked at
_BLANKS = re.compile(rb'("[^"]*")|[ \t]+')
_COMMA_NUMBER = re.compile(r"[-+]?(\d*),(\d+)(?:[eE][-+]?\d+)?")
_WHOLE_NUMBER = re.compile(r"[-+]?\d+")
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",  # before that of UTF-16, with which it begins
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


@dataclass(frozen=True)
class Layout:
    """What the user says of how tables are written; None for what the file shows.

    Attributes
    ----------
    separator
        What stands between fields of text; a blank stands for any number of them.
    decimal
        What stands before decimals in text: a point or a comma.
    encoding
        How the characters of text are encoded, by a name that Python knows.
    header
        Whether the first line has the names of the columns.
    sheet
        Which sheet of a workbook to read.
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    header: bool = True
    sheet: str | None = None

    def __post_init__(self) -> None:
        named = {"tab": "\t", "\\t": "\t", "space": " "}
        separator = self.separator
        object.__setattr__(self, "separator", named.get(str(separator), separator))
        if self.separator is not None:
            right = len(self.separator) == 1 and self.separator.isascii()
            if not right or self.separator in '"\r\n' or self.separator.isalnum():
                raise InputError(
                    f"--sep is {separator!r}; give one character, such as ';', or 'tab'."
                )
        if self.decimal not in (None, ".", ","):
            raise InputError(f"--decimal is {self.decimal!r}; give a point or a comma.")
        if self.encoding is not None and not _is_text_encoding(self.encoding):
            raise InputError(
                f"--encoding is {self.encoding!r}, which Python does not know; give one such as "
                "utf-8, cp1252, latin-1 or utf-16."
            )


AS_IT_SHOWS = Layout()
"""The layout of a user who says nothing."""


def _is_text_encoding(name: str) -> bool:
    try:
        "a".encode(name)
        return True
    except (LookupError, ValueError):  # unknown, or one of bytes such as base64
        return False


@dataclass(frozen=True)
class Dialect:
    """How the table in a text file is written.

    Attributes
    ----------
    separator, decimal, encoding
        As in `Layout`.
    before
        What is put before the text, so that its first line has the names of all columns.
    header
        Whether the file itself has a line of names.
    """

    separator: str
    decimal: str = "."
    encoding: str = "utf-8"
    before: str = ""
    header: bool = True

    @property
    def as_in_file(self) -> bool:
        """Whether the text is in the file as a parser needs it."""
        return self.encoding == "utf-8" and not self.before and self.separator != " "

    @property
    def lines_before(self) -> int:
        """What to add to the number of a line of the text for that of the file."""
        return 0 if self.header else -1


@contextmanager
def text_of(file: Path, dialect: Dialect) -> Iterator[io.BufferedReader]:
    """The bytes of a text file in UTF-8, with a line of names."""
    with opened(file) as stream:
        if dialect.as_in_file:
            yield stream
            return
        pieces = _pieces(stream, file, dialect)
        yield io.BufferedReader(_Joined(pieces))


class _Joined(io.RawIOBase):
    """Pieces of bytes as one stream."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = piece
        taken = self._rest[: len(buffer)]
        self._rest = self._rest[len(taken) :]
        buffer[: len(taken)] = taken
        return len(taken)


def _pieces(stream: io.BufferedReader, file: Path, dialect: Dialect) -> Iterator[bytes]:
    yield dialect.before.encode()
    decoded = _decoded(stream, file, dialect.encoding)
    if dialect.separator != " ":
        yield from decoded
        return
    # Any number of blanks are one, and those around a line are none.
    for line in lines_of(io.BufferedReader(_Joined(decoded)), file):
        inside = line.strip(b" \t\r\n")
        end = line[len(line.rstrip(b"\r\n")) :]
        yield _BLANKS.sub(_one_blank, inside) + end


def _decoded(stream: io.BufferedReader, file: Path, encoding: str) -> Iterator[bytes]:
    """The text in UTF-8 without a byte order mark, some at a time."""
    decoder = codecs.getincrementaldecoder(encoding)()
    is_first = True
    try:
        while block := stream.read(_BLOCK):
            text = decoder.decode(block)
            if is_first and text:
                text = text.removeprefix("\ufeff")
                is_first = False
            yield text.encode()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeError as error:
        raise _not_text(file, encoding) from error


def _not_text(file: Path, encoding: str) -> InputError:
    return InputError(f"{file} is not text in {encoding}; say what it is with --encoding.")


def likely_separator(file: Path, layout: Layout) -> str:
    """What seems to stand between fields: what the user says, or what is most frequent."""
    if layout.separator is not None:
        return layout.separator
    with opened(file) as stream:
        start = stream.read(_START)
    return max(_MARKS, key=lambda mark: start.count(mark.encode()))


def find_dialect(file: Path, layout: Layout, *, is_ascii: bool = False) -> Dialect:
    """How the table in a text file is written, by what the user says and the file shows.

    If it is known that all characters are those of ASCII, this saves a pass over the file.
    """
    own = SEPARATORS[ending_of(file).removesuffix(".gz")]
    encoding = "utf-8" if is_ascii and layout.encoding is None else _encoding(file, layout)
    head = _head(file, encoding)
    separator = layout.separator
    if separator is None:
        separator = _separator(head, own, file)
    rows = _rows(head, separator)
    decimal = layout.decimal
    if decimal is None:
        decimal = "," if _has_decimal_commas(rows) else "."
        if decimal == ",":
            warn(
                f"{file} has decimal commas, and is read so; --decimal . decides otherwise.",
                InputNote,
            )
    before = ""
    if layout.header:
        _check_header(rows, file)
        _note_columns_without_names(rows, file)
        if _has_row_names(rows, separator) and not head[:1].isspace():
            before = f'""{separator}'
    elif rows:
        names = separator.join(str(place) for place in range(len(rows[0])))
        # The newline of old Macs, if the file has it: in a text all must be alike.
        before = names + ("\r" if "\r" in head and "\n" not in head else "\n")
    return Dialect(separator, decimal, encoding, before, layout.header)


# Characters


def _encoding(file: Path, layout: Layout) -> str:
    """What the user says, else UTF-8 if it is that, else a guess, which is said."""
    if layout.encoding is not None:
        return codecs.lookup(layout.encoding).name
    with opened(file) as stream:
        start = stream.peek(4)[:4]
        for mark, encoding in _BYTE_ORDER_MARKS.items():
            if start.startswith(mark):
                return encoding
        line = _first_line_not_utf8(stream, file)
    if line is None:
        return "utf-8"
    number, text = line
    try:
        shown = text.decode(_GUESS).strip()
    except UnicodeDecodeError:
        shown = "\0"
    if not shown.replace("\t", "").isprintable():
        raise InputError(
            f"{file} is not UTF-8 text (line {number}); is it of another kind? If it is text, say "
            "how it is encoded, as in --encoding latin-1."
        )
    warn(
        f"{file} is not UTF-8 text, and is read as {_GUESS}, the usual text of Windows (line "
        f"{number}: {shown[:60]!r}); if that looks wrong, say how it is encoded with --encoding.",
        InputNote,
    )
    return _GUESS


def _first_line_not_utf8(stream: io.BufferedReader, file: Path) -> tuple[int, bytes] | None:
    """The number and the bytes of the first line that is not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    before = 0  # bytes before this block
    kept = b""  # bytes of a character that the last block has cut
    while True:
        block = stream.read(_BLOCK)
        if block.isascii() and block and not kept:
            before += len(block)  # nearly all blocks, and it takes no time to see
            continue
        try:
            decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            lines = _lines_in(stream, before)
            if not block:
                raise InputError(
                    f"{file} ends within a character of UTF-8 (line {lines + 1}); was it written "
                    "completely? If it is not UTF-8 text, say what it is with --encoding."
                ) from error
            joined = kept + block
            start = joined.rfind(b"\n", 0, error.start) + 1
            end = joined.find(b"\n", error.start)
            line = joined[start : end if end >= 0 else None]
            return lines + joined.count(b"\n", 0, error.start) + 1, line[:_HEAD]
        if not block:
            return None
        before += len(block)
        kept = decoder.getstate()[0]


def _lines_in(stream: io.BufferedReader, size: int) -> int:
    """How many lines end within the first bytes of a stream."""
    stream.seek(0)
    lines = 0
    while size > 0:
        block = stream.read(min(size, _BLOCK))
        lines += block.count(b"\n")
        size -= len(block)
    return lines


def _head(file: Path, encoding: str) -> str:
    """The beginning of the text; the last line of it is complete, if there is more than one."""
    with opened(file) as stream:
        raw = stream.read(_HEAD)
        is_all = len(raw) < _HEAD
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    try:
        text = decoder.decode(raw, final=is_all).removeprefix("\ufeff")
    except UnicodeError as error:  # UTF-16 without a mark of its order
        raise _not_text(file, encoding) from error
    if is_all or "\n" not in text:
        return text
    return text[: text.rfind("\n") + 1]


# Fields


def _rows(head: str, separator: str) -> list[list[str]]:
    """The fields of the first lines with text; those before one that cannot be read."""
    if separator == " ":
        lines = [_BLANKS.sub(_one_blank, line.strip().encode()) for line in head.splitlines()]
        head = b"\n".join(lines).decode()
    rows: list[list[str]] = []
    reader = csv.reader(io.StringIO(head, newline=""), delimiter=separator)
    with suppress(csv.Error):
        rows.extend([field.strip() for field in row] for row in islice(reader, _ROWS) if row)
    return rows


def _one_blank(match: re.Match[bytes]) -> bytes:
    return match[1] or b" "


def _separator(head: str, own: str, file: Path) -> str:
    """What stands between fields: the own mark of the file, unless another one fits better."""
    is_plain = file.name.lower().removesuffix(".gz").endswith(".txt")
    marks = list(dict.fromkeys((own, *_MARKS, *((" ",) if is_plain else ()))))
    there = [mark for mark in marks if mark in head or mark == " "]
    widths = {mark: [len(row) for row in _rows(head, mark)] for mark in there}
    fitting = [mark for mark, sizes in widths.items() if _is_rectangle(sizes, mark)]
    if not fitting:
        # Some line is at fault, about which a reader will say more. The first line decides.
        fitting = [mark for mark, sizes in widths.items() if sizes and sizes[0] > 1]
    found = fitting[0] if fitting else own
    if found != own and not is_plain:
        warn(
            f"{file} is separated by {_MARK_WORDS[found]}, and is read so; --sep decides "
            "otherwise.",
            InputNote,
        )
    return found


def _is_rectangle(widths: Sequence[int], mark: str) -> bool:
    """Whether all lines have as many fields, more than one; the first may lack that of names."""
    if not widths or widths[0] < 2:
        return False
    rest = set(widths[1:])
    return rest <= {widths[0]} or (mark in " \t" and rest == {widths[0] + 1})


def _has_row_names(rows: Sequence[Sequence[str]], separator: str) -> bool:
    """Whether there are names of rows, which the first line has no name for, as R writes them."""
    if separator not in " \t" or len(rows) < 2 or len(rows[0]) < 2:
        return False
    names = [row[0] for row in rows[1:]]
    return {len(row) for row in rows[1:]} == {len(rows[0]) + 1} and len({*names}) == len(names)


def _has_decimal_commas(rows: Sequence[Sequence[str]]) -> bool:
    """Whether a column can only be numbers with commas before their decimals.

    In 1,234 the comma may separate thousands, but not in 0,234 or 1,23.
    """
    found = False
    width = len(rows[0]) if rows else 0
    body = [row for row in rows[1:] if len(row) == width]
    for place in range(width):
        cells = [row[place] for row in body if row[place] not in MISSING]
        commas = [match for cell in cells if (match := _COMMA_NUMBER.fullmatch(cell)) is not None]
        points = [cell for cell in cells if "." in cell and _is_number(cell)]
        if points:
            return False
        others = [cell for cell in cells if not _WHOLE_NUMBER.fullmatch(cell)]
        # One 1,5 among many whole numbers is a slip rather than the way of the file.
        if len(commas) == len(others) and 2 * len(commas) >= len(cells):
            found = found or any(_must_be_decimal(*match.groups()) for match in commas)
    return found


def _must_be_decimal(before: str, after: str) -> bool:
    return len(after) != 3 or not before or before.startswith("0") or len(before) > 3


def _check_header(rows: Sequence[Sequence[str]], file: Path) -> None:
    """Refuse a first line that is data: then there are no names."""
    names = rows[0] if rows else []
    body = [row for row in rows[1:] if len(row) == len(names)]
    if names and _is_data(names, body):
        shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        raise InputError(
            f"{file} begins with data ({shown}) where the names of columns should be; if it has no "
            "line of names, use --no-header."
        )


def _note_columns_without_names(rows: Sequence[Sequence[str]], file: Path) -> None:
    """Say what a column without a name is called, unless it is the first: that is an index."""
    places = [place for place, name in enumerate(rows[0] if rows else ()) if place and not name]
    if places:
        shown = ", ".join(f"'Unnamed: {place}'" for place in places[:5])
        warn(
            f"{file} has no name for {len(places)} of {len(rows[0])} columns, called {shown} here; "
            f"--drop 'Unnamed: {places[0]}' leaves one out.",
            InputNote,
        )


def _is_data(names: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Whether the first line is like the others: numbers among numbers, words among the same."""
    numeric = [_is_number(name) for name in names]
    if all(numeric):
        # Whole numbers that go up may be names: those that pandas gives, or years.
        whole = [int(name) if name.isdigit() else -1 for name in names]
        goes_up = all(one < other for one, other in pairwise(whole))
        return not (goes_up and whole[0] >= 0)
    if not any(numeric) or not body:
        return False
    for place, name in enumerate(names):
        cells = [row[place] for row in body if row[place] not in MISSING]
        if numeric[place]:
            if not all(map(_is_number, cells)):
                return False
        elif name not in cells:
            return False
    return True


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))  # "nan" and "infinity" are words
    except ValueError:
        return False
