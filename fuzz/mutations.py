"""Small changes to what is right: of bytes, of text with fields and lines, of JSON."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
Rng = np.random.Generator

NUMBERS = [
    0, -1, 1, 2, 127, 128, 255, 256, 2**15, 2**16, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 2**70,
    -(2**31), -(2**63), 10**30, 0.5, -0.0, 1e308, -1e308, 5e-324,
]  # fmt: skip
"""Where types end."""

FIELDS = [
    "", " ", "NA", "N/A", "null", "NULL", "nan", "NaN", "-nan", "inf", "-inf", "+Infinity", "1e999", "-1e999",
    "1e-999", "1_000", "1,5", "0x1F", "0b1", "1.5.2", "--1", "+-1", "1e", "e5", ".", "-", "+", "٣", "１２", "½",
    "1 2", "  7  ", "\t8", "true", "TRUE", "False", "yes", "t", "None", "#N/A", "#DIV/0!", "=1+1", "2020-01-01",
    "2020-13-45", "01/02/2020", "2020-01-01T00:00:00Z", "2020-01-01 25:00:00", "12:30", "99999999999999999999",
    "-9223372036854775809", "18446744073709551616", "0.1", "1e5", "007", "1.", "a" * 300, "9" * 400, "0." + "3" * 400,
    "\ud7ff", "\ufeff", "\u200b", "\u0000", "\x1b[31m", "<script>", "é", "e\u0301", "日本", "🙂", "\u202e", '"', '""',
    '"a', 'a"', 'a"b', '"a"b', "'a'", "a,b", "a;b", "a\tb", "a\\", "\\n", "\r", "%s", "{}", "$(x)", "::", "../x",
    "nul\0l",
]  # fmt: skip
"""Values that readers of text disagree about."""


def pick(rng: Rng, choices: Sequence[T]) -> T:
    """One of them, whatever they are: `rng.choice` would make an array of them."""
    return choices[int(rng.integers(len(choices)))]


def place(rng: Rng, length: int) -> int:
    """A position, more often near an end, where headers and footers are."""
    if length <= 1:
        return 0
    how = int(rng.integers(4))
    near = min(length, 64)
    if how == 0:
        return int(rng.integers(near))
    if how == 1:
        return length - 1 - int(rng.integers(near))
    return int(rng.integers(length))


# Bytes


def _flip(content: bytes, rng: Rng) -> bytes:
    altered = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        altered[place(rng, len(altered))] ^= 1 << int(rng.integers(8))
    return bytes(altered)


def _overwrite(content: bytes, rng: Rng) -> bytes:
    altered = bytearray(content)
    start = place(rng, len(content))
    width = int(pick(rng, [1, 2, 4, 8]))
    number = int(pick(rng, NUMBERS)) % 256**width
    altered[start : start + width] = number.to_bytes(width, str(pick(rng, ["little", "big"])))  # type: ignore[arg-type]
    return bytes(altered)


def _truncate(content: bytes, rng: Rng) -> bytes:
    return content[: place(rng, len(content))]


def _behead(content: bytes, rng: Rng) -> bytes:
    return content[place(rng, len(content)) :]


def _extend(content: bytes, rng: Rng) -> bytes:
    return content + pick(rng, [b"\0", b"\n", content, bytes(300), rng.bytes(20), b"PAR1", b'"'])


def _splice(content: bytes, rng: Rng) -> bytes:
    a, b, c = sorted(place(rng, len(content)) for _ in range(3))
    return pick(
        rng,
        [
            content[:a] + content[b:],
            content[:b] + content[a:],
            content[:a] + content[b:c] + content[a:],
        ],
    )


def _blank(content: bytes, rng: Rng) -> bytes:
    a, b = sorted((place(rng, len(content)), place(rng, len(content))))
    return (
        content[:a] + pick(rng, [bytes(b - a), b"\xff" * (b - a), rng.bytes(b - a)]) + content[b:]
    )


def _insert(content: bytes, rng: Rng) -> bytes:
    where = place(rng, len(content))
    return (
        content[:where]
        + pick(rng, [b"\0", b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\r", b'"', rng.bytes(3)])
        + content[where:]
    )


_OF_BYTES: list[Callable[[bytes, Rng], bytes]] = [
    _flip, _flip, _overwrite, _overwrite, _truncate, _behead, _extend, _splice, _blank, _insert,
]  # fmt: skip


def altered_bytes(content: bytes, rng: Rng) -> bytes:
    """One to three changes that know nothing of the format."""
    for _ in range(int(rng.integers(1, 4))):
        if content:
            content = pick(rng, _OF_BYTES)(content, rng)
    return content


# Text


def _field(rows: list[list[str]], rng: Rng, separator: str) -> None:
    row = pick(rng, rows)
    if row:
        row[int(rng.integers(len(row)))] = pick(rng, FIELDS)


def _column(rows: list[list[str]], rng: Rng, separator: str) -> None:
    """A whole column of odd values, below its name."""
    column = int(rng.integers(max(1, len(rows[0]))))
    kinds = [pick(rng, FIELDS) for _ in range(int(rng.integers(1, 4)))]
    for row in rows[1:]:
        if column < len(row):
            row[column] = pick(rng, kinds)


def _more_or_fewer(rows: list[list[str]], rng: Rng, separator: str) -> None:
    row = pick(rng, rows)
    pick(rng, [lambda: row.append(pick(rng, FIELDS)), lambda: row and row.pop(), row.clear])()


def _line(rows: list[list[str]], rng: Rng, separator: str) -> None:
    where = int(rng.integers(len(rows) + 1))
    new = pick(
        rng,
        [
            [],
            [" "],
            ["#a comment"],
            ["sep="],
            [""] * len(rows[0]),
            list(rows[0]),
            ["---"] * len(rows[0]),
        ],
    )
    rows.insert(where, list(new))


def _names(rows: list[list[str]], rng: Rng, separator: str) -> None:
    header = rows[0]
    if header:
        header[int(rng.integers(len(header)))] = pick(
            rng, [*FIELDS, header[0], f" {header[0]}", header[0].upper()]
        )


def _wide(rows: list[list[str]], rng: Rng, separator: str) -> None:
    count = int(rng.integers(2, 300))
    for number, row in enumerate(rows):
        row.extend(f"c{each}" if number == 0 else str(each) for each in range(count))


def _few(rows: list[list[str]], rng: Rng, separator: str) -> None:
    del rows[int(rng.integers(1, 4)) :]


_OF_TABLES = [_field, _field, _field, _column, _column, _more_or_fewer, _line, _names, _wide, _few]
_ENCODINGS = [
    "utf-8",
    "utf-8-sig",
    "utf-16",
    "utf-16-le",
    "utf-32",
    "latin-1",
    "cp1252",
    "cp037",
    "utf-7",
    "shift_jis",
]
_ENDS = ["\n", "\n", "\n", "\r\n", "\r", "\n\n", "\n\r", "\u2028", "\x0b", "\x0c", "\x1e", "\x85"]


def altered_table(text: str, separator: str, rng: Rng) -> bytes:
    """A table in text with changes that know of fields, lines and encodings."""
    rows = [line.split(separator) for line in text.splitlines()]
    for _ in range(int(rng.integers(1, 4))):
        pick(rng, _OF_TABLES)(rows, rng, separator)
    if rng.random() < 0.2:
        rows = [[f'"{each}"' if rng.random() < 0.5 else each for each in row] for row in rows]
    end = pick(rng, _ENDS) if rng.random() < 0.25 else "\n"
    joined = end.join(separator.join(row) for row in rows) + pick(rng, [end, "", "\x1a", end * 3])
    encoding = pick(rng, _ENCODINGS) if rng.random() < 0.15 else "utf-8"
    content = codecs.encode(joined, encoding, "replace")
    return altered_bytes(content, rng) if rng.random() < 0.1 else content


# JSON

ODD: list[Any] = [
    None, True, False, *NUMBERS, "", "x", "nan", "-inf", "\ud7ff", "\0", [], {}, [[]], [0], [None], {"": 0},
    {"a": {"b": []}}, "a" * 1000,
]  # fmt: skip


def altered_tree(value: Any, rng: Rng, odd: Sequence[Any] = ODD) -> Any:
    """A JSON tree with one change somewhere."""
    if isinstance(value, dict) and value and rng.random() < 0.93:
        key = pick(rng, list(value))
        how = int(rng.integers(20))
        if how == 0:
            return {name: each for name, each in value.items() if name != key}
        if how == 1:
            return value | {f"{key}x": value[key]}
        if how == 2:
            return value | {key: value[pick(rng, list(value))]}
        return value | {key: altered_tree(value[key], rng, odd)}
    if isinstance(value, list) and value and rng.random() < 0.85:
        where = int(rng.integers(len(value)))
        how = int(rng.integers(12))
        if how == 0:
            return value[:where] + value[where + 1 :]
        if how == 1:
            return [*value, value[where]]
        return [*value[:where], altered_tree(value[where], rng, odd), *value[where + 1 :]]
    if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.4:
        return value + int(rng.integers(-2, 3))
    return pick(rng, odd)


def deep_json(depth: int, rng: Rng) -> str:
    """Brackets within brackets."""
    opening, closing = pick(rng, [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
    return opening * depth + "1" + (closing * depth if rng.random() < 0.7 else "")


def json_text(tree: Any, rng: Rng) -> str:
    """A tree as JSON, now and then as what only looks like it."""
    text = json.dumps(tree, ensure_ascii=bool(rng.integers(2)))
    how = int(rng.integers(12))
    if how == 0:
        return text.replace(":", ': NaN, "x":', 1)
    if how == 1:
        return text.replace('"', "'")
    if how == 2:
        return text + pick(rng, [",", "}", "\0", text])
    if how == 3:
        return text.replace("{", '{"x": 1, "x": 2, ', 1)
    return text
