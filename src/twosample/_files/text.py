"""CSV and TSV files to tables.

They need a header line. In them an empty field, `NA`, `N/A` and `null` are missing values, `true`
and `false` are booleans, and a date stays a date: whether such a column can be tested is for
`samples` to say.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._data.columns import Columns
from .._progress import Tick
from ..errors import InputError
from .handles import empty, opened, polars_for, sentence, told_about

if TYPE_CHECKING:
    import polars

PIECE = 2**25
"""Bytes of a text file that are read at a time where it is read in parts."""

FIRST = 10_000
"""Rows that are looked at first to find out what a column holds."""

SEPARATORS = {".csv": ",", ".tsv": "\t"}
"""What stands between fields, by the ending of a file."""

_MISSING = ["", "NA", "N/A", "null", "NULL"]


def read_text(
    stream: io.BufferedReader, file: Path, rules: Columns, *, separator: str
) -> polars.DataFrame:
    """The table in a text file; columns that are to be categories are what is written there, "02139" too."""
    return _parsed(_with_newlines(stream.read()), file, rules, separator)


def text_parts(
    file: Path, rules: Columns, *, separator: str, tick: Tick
) -> Iterator[polars.DataFrame]:
    """The table in a text file, some rows at a time; together they are what `read_text` gives.

    The type of a column is that of all its values, so the first part comes after a pass over the
    whole file.
    """
    seen: dict[str, set[Any]] = {}
    for part in _pieces(file, rules, separator, {}):
        tick("types of columns")
        for column in part:
            if column.null_count() < len(column):  # else it may be anything
                seen.setdefault(column.name, set()).add(column.dtype)
    pl = polars_for(file)
    types = {name: _common(pl, found) for name, found in seen.items()}
    for part in _pieces(file, rules, separator, types):
        tick("rows")
        yield part


def _common(pl: Any, types: set[Any]) -> Any:
    """The type of a column whose parts seem to be of these types: what is not all numbers is text."""
    if len(types) == 1:
        return next(iter(types))
    return pl.Float64 if all(kind.is_numeric() for kind in types) else pl.String


def _pieces(
    file: Path, rules: Columns, separator: str, types: Mapping[str, Any]
) -> Iterator[polars.DataFrame]:
    """A text file in parts, each parsed by itself but for the `types` of columns that are known."""
    returns = _has_only_returns(file)
    with opened(file) as stream, told_about(file):
        if not stream.peek(1):
            raise empty(file)
        head, lines = b"", 0
        for raw in _cut(stream, returns):
            if not head:
                head = raw[: _end_of_header(raw)]
                yield _parsed(raw, file, rules, separator, types)
            else:
                yield _parsed(head + raw, file, rules, separator, types, lines - head.count(b"\n"))
            lines += raw.count(b"\n")


def _has_only_returns(file: Path) -> bool:
    """Whether no line of the file ends in a newline, as on old Macs."""
    with opened(file) as stream, told_about(file):
        return not any(b"\n" in block for block in iter(lambda: stream.read(PIECE), b""))


def _cut(stream: io.BufferedReader, returns: bool) -> Iterator[bytes]:
    """The text, cut where a line ends that is no part of a quotation; lines may end in carriage `returns` alone."""
    rest = b""
    while block := stream.read(PIECE):
        rest += block.replace(b"\r", b"\n") if returns else block
        end = rest.rfind(b"\n") + 1
        while end and rest.count(b'"', 0, end) % 2:
            end = rest.rfind(b"\n", 0, end - 1) + 1
        if end:
            yield rest[:end]
            rest = rest[end:]
    if rest:
        yield rest


def _end_of_header(raw: bytes) -> int:
    """Where the first line with text ends, a quotation in it being a part of it."""
    end = 0
    while True:
        end = raw.find(b"\n", end) + 1
        if not end:
            return len(raw)
        if raw[:end].strip() and raw.count(b'"', 0, end) % 2 == 0:
            return end


def _parsed(
    raw: bytes,
    file: Path,
    rules: Columns,
    separator: str,
    types: Mapping[str, Any] | None = None,
    before: int = 0,
) -> polars.DataFrame:
    """The table in some text; of `types`, those that are known, and so many lines of the file stand `before` it."""
    pl = polars_for(file)
    known = {} if types is None else types
    header = _header(raw, file, separator)
    fields = _first(raw, separator)
    written = [name for name in fields if rules.kind_of(name.strip()) == "category"]
    text = [name for name in fields if known.get(name.strip()) == pl.String]
    try:
        table = _inferred(pl, raw, separator, dict.fromkeys([*written, *text], pl.String))
    except pl.exceptions.PolarsError as error:
        _scan(
            raw, file, separator, len(header), before
        )  # says which line, if it is a matter of lines
        if _has_two_readings(raw):
            raise _in_two_ways(file) from error
        raise
    whole = raw.count(separator.encode()) == (len(header) - 1) * (table.height + 1)
    if not whole or (table.width and table[:, -1].null_count()) or _has_two_readings(raw):
        # A row that is too short, or blank, reads as missing values at its end; one whose last
        # field is empty does too. One with an empty field too many reads as if it had not.
        rows, blank = _scan(raw, file, separator, len(header), before)
        if [name.strip() for name in table.columns] != header or rows != table.height:
            raise _in_two_ways(file)
        if blank and len(header) > 1:
            table = table.with_row_index("").filter(~pl.col("").is_in(blank)).drop("")
    typed = [
        _typed(pl, column, column.name in written, known.get(column.name.strip())).alias(
            column.name.strip()
        )
        for column in table
    ]
    return table.select(typed)


def _inferred(pl: Any, raw: bytes, separator: str, known: Mapping[str, Any]) -> polars.DataFrame:
    """The table in some text, where a column is what all of its values are, not what the first ones seem.

    If all values can be read as what the first are, that is what they are. To look at each takes
    much longer.
    """

    def read(rows: int | None) -> polars.DataFrame:
        table: polars.DataFrame = pl.read_csv(
            raw,
            separator=separator,
            infer_schema_length=rows,
            null_values=_MISSING,
            try_parse_dates=True,
            schema_overrides=known,
        )
        return table

    try:
        table = read(FIRST)
    except pl.exceptions.PolarsError:
        try:
            return read(None)
        except (
            pl.exceptions.PolarsError
        ):  # what it takes for numbers, such as digits of other scripts, may be none
            return read(0)
    settled = table.height <= FIRST or all(
        column.name in known or _tells(column) for column in table
    )
    return table if settled else read(None)


def _tells(column: polars.Series) -> bool:
    """Whether its first rows tell what it holds: dates are read in more ways than one, and there may be nothing yet."""
    return not column.dtype.is_temporal() and column.head(FIRST).null_count() < FIRST


def _has_two_readings(raw: bytes) -> bool:
    """Whether readers may differ: in what a quotation mark within a field means, or a carriage return alone."""
    return b'"' in raw or raw.count(b"\r") != raw.count(b"\r\n")


def _in_two_ways(file: Path) -> InputError:
    return InputError(
        f"{file} can be read in two ways, because a quotation mark stands within a field, or lines "
        "end in different "
        "ways; mend that."
    )


def line_of(file: Path, row: int, *, separator: str) -> str:
    """Where a row of the table begins in its file, for a message."""
    with opened(file) as stream:
        records = _rows(_with_newlines(stream.read()), separator)
        before = width = 0
        for record in records:
            if not width:
                width = len(record)  # blank lines before the header, then the header
            elif record or width == 1:
                row -= 1
            if row < 0:
                return f"line {before + 1}"
            before = records.line_num
    return f"row {row}"


def _with_newlines(raw: bytes) -> bytes:
    """Lines that end in carriage returns alone, as on old Macs, with the newlines that polars takes."""
    return raw if b"\n" in raw else raw.replace(b"\r", b"\n")


def _rows(raw: bytes, separator: str) -> Any:
    text = io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8-sig", newline="")
    return csv.reader(text, delimiter=separator, strict=True)


def _first(raw: bytes, separator: str) -> list[str]:
    """The fields of the first line with text."""
    return next((row for row in _rows(raw, separator) if row), [])


def _header(raw: bytes, file: Path, separator: str) -> list[str]:
    """The column names, which must be there, differ from each other, and be names."""
    try:
        fields = _first(raw, separator)
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 text; save it as CSV in UTF-8.") from error
    names = [field.strip() for field in fields]
    if not names:
        raise InputError(f"{file} has no line with text in it; was it written completely?")
    if all(map(_is_number, names)) and not all(name.isdigit() for name in names):
        raise InputError(
            f"{file} begins with numbers ({', '.join(names[:3])}, ...) where column names should "
            "be; add a header line."
        )
    if "" in names:
        raise InputError(
            f"{file} has no name for column {names.index('') + 1} of {len(names)}; name it, "
            "or leave it out if it only counts the rows."
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"{file} has {names.count(twice)} columns called '{twice}'; give each a name of its "
            "own."
        )
    other = next((mark for mark in ",;\t|" if mark != separator and mark in names[0]), None)
    if len(names) == 1 and other is not None:
        raise InputError(
            f"{file} has one column, {names[0]!r}, and seems to be separated by {other!r}; "
            "separate it by commas (.csv) or tabulators (.tsv)."
        )
    if not "".join("".join(names).split()).isprintable():
        raise InputError(
            f"{file} does not begin with the names of columns as text does; is it of another kind?"
        )
    return names


def _scan(raw: bytes, file: Path, separator: str, width: int, before: int) -> tuple[int, list[int]]:
    """How many data rows there are, and which, counted from 0, are blank lines.

    A row with more or fewer fields than the header is refused; so many lines of the file stand
    `before` the text.
    """
    rows = _rows(raw, separator)
    blank: list[int] = []
    count = -1  # the header
    try:
        for row in rows:
            if row and len(row) != width:
                fields = "1 field" if len(row) == 1 else f"{len(row)} fields"
                raise InputError(
                    f"{file}, line {before + rows.line_num}: {fields} where the header has "
                    f"{width}; "
                    "mend that line (a value that contains the separator needs quotes around it)."
                )
            if not row:
                blank.append(count)
            if row or count >= 0:
                count += 1
    except csv.Error as error:
        line = before + rows.line_num
        raise InputError(
            f"{file}, line {line}: {sentence(error)} Is a quotation mark left open?"
        ) from error
    except UnicodeDecodeError as error:
        line = before + rows.line_num
        raise InputError(
            f"{file} is not UTF-8 text (after line {line}); save it as CSV in UTF-8."
        ) from error
    return max(count, 0), blank


def _typed(pl: Any, column: polars.Series, as_written: bool, known: Any) -> polars.Series:
    """A text column whose values are numbers or booleans but for blanks around them, or nan, as what it means.

    One that is to be a category stays what is written, but that 1.0 is the level 1, as in tables.
    If the type is `known` it is that one.
    """
    if column.dtype != pl.String:
        return column if known is None else column.cast(known)
    text = column.str.strip_chars()
    text = text.set(text.is_in(_MISSING), None)
    if text.null_count() == len(text):
        return text if known is None else text.cast(known)
    whole = text.str.replace(r"^(-?(?:0|[1-9]\d*))\.0+$", "$1") if as_written else text
    if known == pl.String:
        return whole
    number = text.cast(pl.Float64, strict=False)
    if not as_written and number.null_count() == text.null_count():
        return number
    truth = text.str.to_lowercase()
    if truth.drop_nulls().is_in(["true", "false"]).all():
        return truth == "true"
    return whole


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
