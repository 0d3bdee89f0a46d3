"""CSV, TSV and other text files to tables.

In them an empty field, `NA`, `N/A` and `null` are missing values, `true` and `false` are booleans,
and a date stays a date: what becomes of such a column is decided elsewhere. How fields, decimals
and characters are written is found by `layout`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._data.columns import Columns
from .._data.tables import repeated
from .._progress import Tick
from ..errors import InputError, Obstacles
from .handles import empty, opened, polars_for, sentence, told_about
from .layout import AS_IT_SHOWS, MISSING, Dialect, Layout, find_dialect, text_of
from .limits import LengthCheck, all_of, inside_quotes

if TYPE_CHECKING:
    import polars

PIECE = 2**25
"""Bytes of a text file that are read at a time where it is read in parts."""

FIRST = 10_000
"""Rows that are looked at first to find out what a column holds."""

_QUOTE = b'"'


def read_text(
    file: Path, rules: Columns, layout: Layout = AS_IT_SHOWS
) -> tuple[polars.DataFrame, Dialect]:
    """The table in a text file, and how it is written.

    A column that is to be a category stays as written ("02139").
    """
    dialect = _dialect(file, layout)
    with text_of(file, dialect) as stream:
        raw = _with_newlines(all_of(stream, file, dialect.separator))
    return _parsed(raw, file, rules, dialect, before=dialect.lines_before), dialect


def text_parts(
    file: Path, rules: Columns, layout: Layout, *, tick: Tick
) -> Iterator[polars.DataFrame]:
    """The table in a text file, some rows at a time; together they are what `read_text` gives.

    The type of a column is that of all its values, so the first part comes after a pass over the
    whole file.
    """
    dialect = _dialect(file, layout)
    seen: dict[str, set[Any]] = {}
    for part in _pieces(file, rules, dialect, {}):
        tick("types of columns")
        for column in part:
            if column.null_count() < len(column):  # else it may be anything
                seen.setdefault(column.name, set()).add(column.dtype)
    pl = polars_for(file)
    types = {name: _common(pl, kinds) for name, kinds in seen.items()}
    for part in _pieces(file, rules, dialect, types):
        tick("rows")
        yield part


def _dialect(file: Path, layout: Layout) -> Dialect:
    with opened(file) as stream, told_about(file):
        if not stream.peek(1):
            raise empty(file)
    with told_about(file):
        return find_dialect(file, layout)


def _common(pl: Any, types: set[Any]) -> Any:
    """The type of a column whose parts seem to be of these types; text, if not all are numbers."""
    if len(types) == 1:
        return next(iter(types))
    return pl.Float64 if all(kind.is_numeric() for kind in types) else pl.String


def _pieces(
    file: Path, rules: Columns, dialect: Dialect, types: Mapping[str, Any]
) -> Iterator[polars.DataFrame]:
    """A text file in parts, each parsed by itself but for the `types` of columns that are known."""
    returns = _has_only_returns(file, dialect)
    with text_of(file, dialect) as stream, told_about(file):
        header = b""
        lines = dialect.lines_before
        for raw in _cut(stream, returns, LengthCheck(file, dialect.separator)):
            if not header:
                header = raw[: _end_of_header(raw)]
                yield _parsed(raw, file, rules, dialect, types, lines)
            else:
                # Each piece is parsed with the header, whose lines do not count twice.
                before = lines - header.count(b"\n")
                yield _parsed(header + raw, file, rules, dialect, types, before)
            lines += raw.count(b"\n")
        if not header:
            raise _no_text(file)


def _no_text(file: Path) -> InputError:
    return InputError(f"{file} has no line with text in it; was it written completely?")


def _has_only_returns(file: Path, dialect: Dialect) -> bool:
    """Whether no line of the file ends in a newline, as on old Macs."""
    with text_of(file, dialect) as stream, told_about(file):
        while block := stream.read(PIECE):
            if b"\n" in block:
                return False
    return True


def _cut(stream: io.BufferedReader, returns: bool, lengths: LengthCheck) -> Iterator[bytes]:
    """The text, cut where a line ends, but not within quotation marks.

    Where lines end in carriage `returns` alone, these become newlines.
    """
    rest = b""
    while block := stream.read(PIECE):
        lengths.see(block)  # so that `rest` holds no more than a line that may be so long
        rest += block.replace(b"\r", b"\n") if returns else block
        end = _last_end(rest)
        if end:
            yield rest[:end]
            rest = rest[end:]
    if rest:
        yield rest


def _last_end(raw: bytes) -> int:
    """Where the last line ends that does so outside of quotation marks; 0 if none does."""
    if _QUOTE not in raw:
        return raw.rfind(b"\n") + 1
    is_newline = np.frombuffer(raw, dtype=np.uint8) == ord("\n")
    ends = np.flatnonzero(is_newline & ~inside_quotes(raw))
    return int(ends[-1]) + 1 if len(ends) else 0


def _end_of_header(raw: bytes) -> int:
    """Where the first line with text ends; a newline within quotation marks does not end it."""
    start = len(raw) - len(raw.lstrip())
    quotes = 0
    while True:
        end = raw.find(b"\n", start) + 1
        if not end:
            return len(raw)
        quotes += raw.count(_QUOTE, start, end)
        if quotes % 2 == 0:
            return end
        start = end


def _parsed(
    raw: bytes,
    file: Path,
    rules: Columns,
    dialect: Dialect,
    types: Mapping[str, Any] | None = None,
    before: int = 0,
) -> polars.DataFrame:
    """The table in some text.

    Parameters
    ----------
    raw
        The text, with a header.
    file
        What messages call it.
    rules
        What the user says of columns.
    dialect
        How the table is written.
    types
        Column -> its type, where it is known.
    before
        Lines of the file before the text, for messages that name a line.
    """
    pl = polars_for(file)
    known = types or {}
    separator = dialect.separator
    fields = _first(raw, file, separator)  # with the blanks around names, as polars has them
    header = _header(fields, file)
    as_written = {name for name in header if rules.kind_of(name) == "category"}
    overrides: dict[str, Any] = {}
    for field, name in zip(fields, header, strict=True):
        if name in as_written or known.get(name) == pl.String:
            overrides |= {field: pl.String, _doubled(field): pl.String}
    try:
        table = _inferred(pl, raw, dialect, overrides)
    except pl.exceptions.PolarsError as error:
        # If a line has too many fields, this raises an error that says which.
        _scan(raw, file, separator, len(header), before)
        if _is_ambiguous(raw):
            raise _ambiguous(file) from error
        raise
    table = _named_as_in_header(table, fields, header)
    if _needs_scan(table, raw, separator, len(header)):
        rows, blank = _scan(raw, file, separator, len(header), before)
        if table.columns != header or rows != table.height:
            raise _ambiguous(file)
        if blank and len(header) > 1:
            table = table.with_row_index("").filter(~pl.col("").is_in(blank)).drop("")
    columns = []
    obstacles = Obstacles()
    for column in table:
        name = column.name.strip()
        if dialect.decimal == "," and column.dtype == pl.String and name not in as_written:
            with obstacles.noted():
                _check_points(column, file, name)
        typed = _typed(pl, column, name in as_written, known.get(name), dialect.decimal)
        columns.append(typed.alias(name))
    obstacles.raise_any()
    return table.select(columns)


def _doubled(name: str) -> str:
    """A name as polars has it: within a quoted name of a header it leaves marks doubled."""
    return name.replace('"', '""')


def _named_as_in_header(
    table: polars.DataFrame, fields: list[str], header: list[str]
) -> polars.DataFrame:
    """The table with the names of the header, if polars has found the same.

    It leaves quotation marks in them doubled, and has names of its own where there are none.
    """
    pairs = zip(table.columns, fields, strict=False)  # other lengths are refused later
    same = (not field.strip() or name in (field, _doubled(field)) for name, field in pairs)
    if table.width == len(header) and all(same):
        table.columns = header
    return table


def _needs_scan(table: polars.DataFrame, raw: bytes, separator: str, width: int) -> bool:
    """Whether the text must be read again line by line, since polars accepts rows of any length.

    It fills a row that is too short, or blank, with missing values, and ignores an empty field too
    many.
    """
    if raw.count(separator.encode()) != (width - 1) * (table.height + 1):
        return True
    if table.width and table[:, -1].null_count():
        return True
    return _is_ambiguous(raw)


def _inferred(pl: Any, raw: bytes, dialect: Dialect, known: Mapping[str, Any]) -> polars.DataFrame:
    """The table in some text; a column is what all of its values are.

    First it is read as what the first values are. Only where that does not do are all values looked
    at, which takes much longer.
    """

    def read(rows: int | None) -> polars.DataFrame:
        table: polars.DataFrame = pl.read_csv(
            raw,
            separator=dialect.separator,
            decimal_comma=dialect.decimal == ",",
            infer_schema_length=rows,
            null_values=[*MISSING],
            try_parse_dates=True,
            schema_overrides=known,
        )
        return table

    try:
        table = read(FIRST)
    except pl.exceptions.PolarsError:
        try:
            return read(None)
        except pl.exceptions.PolarsError:
            # polars may take for a number what it cannot read as one, such as digits of other
            # scripts. Then all columns are text.
            return read(0)
    if table.height <= FIRST:
        return table
    if all(column.name in known or _is_settled(column) for column in table):
        return table
    return read(None)


def _is_settled(column: polars.Series) -> bool:
    """Whether the first rows tell the type of a column.

    They do not if they are all missing, nor if they are dates, which are read in several ways.
    """
    return not column.dtype.is_temporal() and column.head(FIRST).null_count() < FIRST


def _is_ambiguous(raw: bytes) -> bool:
    """Whether readers may differ about a quotation mark in a field, or a lone carriage return."""
    return _QUOTE in raw or raw.count(b"\r") != raw.count(b"\r\n")


def _ambiguous(file: Path) -> InputError:
    return InputError(
        f"{file} can be read in two ways, because a quotation mark stands within a field, or lines "
        "end in different ways; mend that."
    )


def line_of(file: Path, row: int, *, dialect: Dialect) -> str:
    """Where a row of the table begins in its file, for a message."""
    with text_of(file, dialect) as stream:
        records = _rows(_with_newlines(stream.read()), dialect.separator)
        before = 0
        width = 0
        for record in records:
            if not width:
                width = len(record)  # 0 for blank lines before the header
            elif record or width == 1:  # in a file of one column, a blank line is a missing value
                row -= 1
            if row < 0:
                return f"line {before + 1 + dialect.lines_before}"
            before = records.line_num
    return f"row {row}"


def _with_newlines(raw: bytes) -> bytes:
    """The text with newlines, if its lines end in carriage returns alone, as on old Macs."""
    return raw if b"\n" in raw else raw.replace(b"\r", b"\n")


def _rows(raw: bytes, separator: str) -> Any:
    """The fields of each line, by the module csv, which is slower than polars but stricter."""
    # utf-8-sig skips the byte order mark that spreadsheets write; newlines are for csv to find.
    text = io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8-sig", newline="")
    return csv.reader(text, delimiter=separator, strict=True)


def _first(raw: bytes, file: Path, separator: str) -> list[str]:
    """The fields of the first line with text."""
    try:
        return next((row for row in _rows(raw, separator) if row), [])
    except UnicodeDecodeError as error:
        raise _not_utf8(file) from error


def _not_utf8(file: Path, where: str = "") -> InputError:
    return InputError(f"{file} is not UTF-8 text{where}; say what it is with --encoding.")


def _header(fields: list[str], file: Path) -> list[str]:
    """The column names, which must be there, differ from each other, and be names.

    A column without any gets that which pandas would give it.
    """
    names = [field.strip() or f"Unnamed: {place}" for place, field in enumerate(fields)]
    if not names:
        raise _no_text(file)
    twice = [f"{times} columns called '{name}'" for name, times in repeated(names).items()]
    if twice:
        more = f" and {len(twice) - 3} names more" if len(twice) > 3 else ""
        raise InputError(
            f"{file} has {' and '.join(twice[:3])}{more}; give each a name of its own."
        )
    if not "".join("".join(names).split()).isprintable():
        raise InputError(
            f"{file} does not begin with the names of columns as text does; is it of another kind?"
        )
    return names


def _scan(raw: bytes, file: Path, separator: str, width: int, before: int) -> tuple[int, list[int]]:
    """How many rows there are, and which of them, counted from 0, are blank lines.

    Refuses a row with more or fewer fields than the `width` of the header. There are `before` lines
    of the file before the text.
    """
    rows = _rows(raw, separator)
    blank: list[int] = []
    count = -1  # so that the header, which is no row, brings it to 0
    try:
        for row in rows:
            if row and len(row) != width:
                fields = "1 field" if len(row) == 1 else f"{len(row)} fields"
                raise InputError(
                    f"{file}, line {before + rows.line_num}: {fields} where the header has "
                    f"{width}; mend that line (a value that contains the separator needs quotes "
                    "around it)."
                )
            if not row:
                blank.append(count)
            if row or count >= 0:  # blank lines before the header do not count
                count += 1
    except csv.Error as error:
        raise InputError(
            f"{file}, line {before + rows.line_num}: {sentence(error)} Is a quotation mark left "
            "open?"
        ) from error
    except UnicodeDecodeError as error:
        raise _not_utf8(file, f" (after line {before + rows.line_num})") from error
    return max(count, 0), blank


def _typed(
    pl: Any, column: polars.Series, as_written: bool, known: Any, decimal: str
) -> polars.Series:
    """A column in its type: the `known` one, or what its values say.

    polars takes numbers with blanks around them, and nan, for text; so numbers and booleans are
    looked for there. A column that is to be a category stays `as_written`, except that 1.0 is the
    level 1, as in other tables.
    """
    if column.dtype != pl.String:
        return column if known is None else column.cast(known)
    text = column.str.strip_chars()
    text = text.set(text.is_in(MISSING), None)
    if text.null_count() == len(text):
        return text if known is None else text.cast(known)
    if decimal == "," and not as_written:
        text = _with_points(text)
    levels = text
    if as_written:
        levels = text.str.replace(r"^(-?(?:0|[1-9]\d*))\.0+$", "$1")
    if known == pl.String:
        return levels
    numbers = text.cast(pl.Float64, strict=False)
    if not as_written and numbers.null_count() == text.null_count():
        return numbers
    lower = text.str.to_lowercase()
    if lower.drop_nulls().is_in(["true", "false"]).all():
        return lower == "true"
    return levels


def _with_points(text: polars.Series) -> polars.Series:
    """Numbers with points for their decimal commas."""
    return text.str.replace(r"^([-+]?\d*),(\d+(?:[eE][-+]?\d+)?)$", "$1.$2")


def _check_points(column: polars.Series, file: Path, name: str) -> None:
    """Refuse numbers with points where decimals have commas: they may separate thousands."""
    text = column.drop_nulls().str.strip_chars()
    pointed = text.filter(text.str.contains(r"^[-+]?\d+(?:\.\d{3})*(?:\.\d+|,\d+)$"))
    pointed = pointed.filter(pointed.str.contains(".", literal=True))
    if len(pointed):
        raise InputError(
            f"{file} has {pointed[0]!r} in column '{name}' where decimals have commas, so that the "
            "point may separate thousands; write the number without it, or say with --decimal . "
            f"that points stand before decimals, or use --type {name}=category."
        )
