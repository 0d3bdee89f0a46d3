"""CSV, TSV and other text files to tables.

In them an empty field, `NA`, `N/A`, `n/a` and `null` are missing values, `true` and `false` are
booleans, and a date stays a date: what becomes of such a column is decided elsewhere. How fields,
decimals and characters are written is found by `layout`.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._data.columns import Columns
from .._data.row_keys import few_kinds
from .._data.tables import repeated
from .._progress import Tick
from ..errors import InputError, Obstacles
from .handles import empty, is_zipped, opened, polars_for, sentence, told_about
from .layout import (
    AS_IT_SHOWS,
    MISSING,
    Dialect,
    Layout,
    find_dialect,
    likely_separator,
    text_of,
)
from .limits import LONGEST_FIELD, Glance, LengthCheck, all_of, count_of, glance_at, inside_quotes

if TYPE_CHECKING:
    import polars

PIECE = 2**25
"""Bytes of a text file that are read at a time where it is read in parts."""

FIRST = 1000
"""Rows that are looked at first to find out what a column holds; then ten times as many."""

_QUOTE = b'"'
_LARGE = 2**22  # bytes from which a file is read while its bytes are looked through


def read_text(
    file: Path, rules: Columns, layout: Layout = AS_IT_SHOWS
) -> tuple[polars.DataFrame, Dialect]:
    """The table in a text file, and how it is written.

    A column that is to be a category stays as written ("02139").
    """
    likely = likely_separator(file, layout)
    glance, ahead = _glance_and_read(file, Dialect(likely))
    dialect = _dialect(file, layout, is_ascii=glance.is_ascii)
    if dialect.as_in_file and dialect.separator != likely:
        glance = _glance(file, dialect.separator)
    with text_of(file, dialect) as stream:
        text = None
        if dialect.as_in_file and glance.separators is not None:
            text = _plain_text(stream, file, glance.separators)
            stream.seek(0)
        if text is None:
            raw = _with_newlines(all_of(stream, file, dialect.separator))
            text = _Text.of(raw, dialect.separator)
    if dialect != Dialect(likely) or not isinstance(text.source, Path):
        ahead = None
    table = _parsed(text, file, rules, dialect, before=dialect.lines_before, ahead=ahead)
    return table, dialect


@dataclass(frozen=True)
class _Text:
    """Some text with a header.

    Attributes
    ----------
    source
        All of it, or the file that it is all of.
    start
        As much of it as has the header, at least.
    separators
        How many there are.
    is_ambiguous
        Whether readers may differ about a quotation mark in a field, or a lone carriage return.
    """

    source: bytes | Path
    start: bytes
    separators: int
    is_ambiguous: bool

    @classmethod
    def of(cls, raw: bytes, separator: str) -> _Text:
        """Text that is in memory."""
        lone = b"\r" in raw and raw.count(b"\r") != raw.count(b"\r\n")
        return cls(raw, raw, count_of(raw, separator), lone or _QUOTE in raw)

    @property
    def raw(self) -> bytes:
        """All of it."""
        return self.source if isinstance(self.source, bytes) else self.source.read_bytes()


def _glance_and_read(file: Path, dialect: Dialect) -> tuple[Glance, polars.DataFrame | None]:
    """What the bytes of a file show; and what polars reads of it meanwhile, if it is large.

    Most large files are as plain as this takes them to be. Else nothing is read ahead, or what has
    been read is of no use.
    """
    is_large = not is_zipped(file) and file.stat().st_size >= _LARGE
    if not is_large:
        return _glance(file, dialect.separator), None
    pl = polars_for(file)
    with ThreadPoolExecutor(1) as pool:  # since polars lets go of the interpreter's lock
        glancing = pool.submit(_glance, file, dialect.separator)
        ahead = None
        with opened(file) as stream:
            start = stream.read(LONGEST_FIELD)
        if start.isascii() and _QUOTE not in start and b"\r" not in start:
            with suppress(pl.exceptions.PolarsError):
                ahead = _read(pl, file.absolute(), dialect, FIRST, ())
        return glancing.result(), ahead


def _glance(file: Path, separator: str) -> Glance:
    if is_zipped(file):
        return Glance(False, None)
    with opened(file) as stream:
        return glance_at(stream, separator)


def _plain_text(stream: io.BufferedReader, file: Path, separators: int) -> _Text | None:
    """The text of a file that is plain, which polars can read itself; None if it begins blank."""
    start = stream.read(LONGEST_FIELD)
    start = start[: start.rfind(b"\n") + 1]
    if start.removeprefix(codecs.BOM_UTF8).strip() == b"":
        return None
    return _Text(file.absolute(), start, separators, False)


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


def _dialect(file: Path, layout: Layout, *, is_ascii: bool = False) -> Dialect:
    with opened(file) as stream, told_about(file):
        if not stream.peek(1):
            raise empty(file)
    with told_about(file):
        return find_dialect(file, layout, is_ascii=is_ascii)


def _common(pl: Any, types: set[Any]) -> Any:
    """The type of a column whose parts seem to be of these types; text, if not all are numbers."""
    if len(types) == 1:
        return next(iter(types))
    return pl.Float64 if all(kind.is_numeric() for kind in types) else pl.String


def _pieces(
    file: Path, rules: Columns, dialect: Dialect, types: Mapping[str, Any]
) -> Iterator[polars.DataFrame]:
    """A text file in parts, each parsed by itself but for the `types` of columns that are known."""
    separator = dialect.separator
    returns = _has_only_returns(file, dialect)
    with text_of(file, dialect) as stream, told_about(file):
        header = b""
        lines = dialect.lines_before
        for raw in _cut(stream, returns, LengthCheck(file, separator)):
            if not header:
                raw = raw.removeprefix(codecs.BOM_UTF8)
                if not raw.strip(b"\r\n"):
                    lines += raw.count(b"\n")  # blank lines before the header
                    continue
                header = raw[: _end_of_header(raw)]
                yield _parsed(_Text.of(raw, separator), file, rules, dialect, types, lines)
            else:
                # Each piece is parsed with the header, whose lines do not count twice.
                before = lines - header.count(b"\n")
                text = _Text.of(header + raw, separator)
                yield _parsed(text, file, rules, dialect, types, before)
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
    start = len(raw) - len(raw.lstrip(b"\r\n"))  # a name may well be a blank
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
    text: _Text,
    file: Path,
    rules: Columns,
    dialect: Dialect,
    types: Mapping[str, Any] | None = None,
    before: int = 0,
    ahead: polars.DataFrame | None = None,
) -> polars.DataFrame:
    """The table in some text.

    Parameters
    ----------
    text
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
    ahead
        What polars has read of it already, by its first rows; None for nothing.
    """
    pl = polars_for(file)
    known = types or {}
    separator = dialect.separator
    fields = _first(text.start, file, separator)  # with the blanks around names, as polars has them
    header = _header(fields, file)
    as_written = {name for name in header if rules.kind_of(name) == "category"}
    overrides: dict[str, Any] = {}
    for place, (field, name) in enumerate(zip(fields, header, strict=True)):
        if name in as_written or known.get(name) == pl.String:
            before_it = fields[:place].count(field)  # only of columns without a name
            field = f"{field}_duplicated_{before_it - 1}" if before_it else field
            overrides |= {field: pl.String, _doubled(field): pl.String}
    try:
        table, levels = _inferred(pl, text.source, dialect, overrides, ahead)
    except pl.exceptions.PolarsError as error:
        # If a line has too many fields, this raises an error that says which.
        _scan(text.raw, file, separator, len(header), before)
        if text.is_ambiguous:
            raise _ambiguous(file) from error
        raise
    table = _named_as_in_header(table, fields, header)
    blank: list[int] = []
    if _needs_scan(table, text, len(header)):
        rows, blank, gaps = _scan(text.raw, file, separator, len(header), before)
        # polars fills up a row of which it has joined two fields.
        is_filled_up = table.width > 0 and table[:, -1].null_count() > gaps
        if table.columns != header or rows != table.height or is_filled_up:
            raise _ambiguous(file)
    columns = []
    obstacles = Obstacles()
    for place, column in enumerate(table):
        name = column.name.strip()
        of_text = levels.get(place)
        if of_text is None:
            typed = column if name not in known else column.cast(known[name])
        else:
            if dialect.decimal == "," and name not in as_written:
                with obstacles.noted():
                    _check_points(of_text, file, name)
            typed_levels = _typed(pl, of_text, name in as_written, known.get(name), dialect.decimal)
            typed = _mapped(column, of_text, typed_levels)
        columns.append(typed.alias(name))
    obstacles.raise_any()
    table = table.select(columns)
    if blank and table.width > 1:
        table = table.with_row_index("").filter(~pl.col("").is_in(blank)).drop("")
    return table


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


def _needs_scan(table: polars.DataFrame, text: _Text, width: int) -> bool:
    """Whether the text must be read again line by line, since polars accepts rows of any length.

    It fills a row that is too short, or blank, with missing values, and ignores an empty field too
    many.
    """
    if text.separators != (width - 1) * (table.height + 1):
        return True
    if table.width and table[:, -1].null_count():
        return True
    return text.is_ambiguous


def _read(
    pl: Any,
    source: bytes | Path,
    dialect: Dialect,
    rows: int | None,
    missing: Sequence[str] = MISSING,
    known: Mapping[str, Any] | None = None,
) -> polars.DataFrame:
    """What polars reads of some text, by what columns are in its first rows."""
    table: polars.DataFrame = pl.read_csv(
        source,
        glob=False,
        separator=dialect.separator,
        decimal_comma=dialect.decimal == ",",
        infer_schema_length=rows,
        null_values=[*missing],
        schema_overrides=known,
    )
    return table


def _inferred(
    pl: Any,
    source: bytes | Path,
    dialect: Dialect,
    known: Mapping[str, Any],
    ahead: polars.DataFrame | None,
) -> tuple[polars.DataFrame, dict[int, polars.Series]]:
    """The table in some text, and the different values of each column of text, by its place.

    A column is what all of its values are. First it is read as what the first values are. Only
    where that does not do are more of them looked at, and then all, which takes much longer. So do
    words for missing values and dates: polars looks for them in every field, if it is asked to.
    """

    def read(rows: int | None, missing: Sequence[str] = MISSING) -> polars.DataFrame:
        if ahead is not None and (rows, missing) == (FIRST, ()) and not known:
            return ahead
        return _read(pl, source, dialect, rows, missing, known)

    def levels_of(table: polars.DataFrame) -> dict[int, polars.Series]:
        texts = {place: column for place, column in enumerate(table) if column.dtype == pl.String}
        return {place: _levels(column) for place, column in texts.items()}

    def read_by(rows: int) -> tuple[polars.DataFrame, dict[int, polars.Series]] | None:
        """The table by what the first rows are; None if some of it is something else."""
        try:
            table = read(rows, ())
            levels = levels_of(table)
            if any(column.is_in(MISSING[1:]).any() for column in levels.values()):
                table = read(rows)
                levels = levels_of(table)
        except pl.exceptions.PolarsError:
            return None
        settled = all(
            column.name in known or column.head(rows).null_count() < rows for column in table
        )
        # Else the first rows of a column are all missing.
        return (table, levels) if settled or table.height <= rows else None

    found = read_by(FIRST) or read_by(10 * FIRST)
    if found is None:
        try:
            table = read(None)
        except pl.exceptions.PolarsError:
            # polars may take for a number what it cannot read as one, such as digits of other
            # scripts. Then all columns are text.
            table = read(0)
        found = (table, levels_of(table))
    table, levels = found
    for place, column in list(levels.items()):
        dates = None if table.columns[place] in known else _dates(pl, column)
        if dates is not None:
            table.replace_column(place, _mapped(table[:, place], column, dates))
            del levels[place]
    return table, levels


def _levels(column: polars.Series) -> polars.Series:
    """The different values of a column, in their order; by their hashes, which is quicker."""
    hashes = column.hash(0)
    few = few_kinds(hashes.to_numpy())
    return column.gather(hashes.arg_unique() if few is None else few.first)


def _dates(pl: Any, levels: polars.Series) -> polars.Series | None:
    """Text as dates or times, as polars finds them; None if not all of it is."""

    def read(column: polars.Series, rows: int | None) -> polars.Series | None:
        text = column.to_frame("").write_csv()
        try:
            found = pl.read_csv(text.encode(), try_parse_dates=True, infer_schema_length=rows)
        except pl.exceptions.PolarsError:
            return None
        dates: polars.Series = found.to_series()
        is_right = dates.dtype.is_temporal() and len(dates) == len(column)
        return dates if is_right and not dates.null_count() else None

    present = levels.drop_nulls()
    some = present.head(100)
    # All that polars takes for a date begins with a digit.
    if not len(some) or not some[0].lstrip()[:1].isdigit() or read(some, None) is None:
        return None
    dates = read(present, FIRST)
    # What begins with times and then has days alone is text. polars would give these a time.
    has_time = dates is not None and isinstance(dates.dtype, pl.Datetime)
    if dates is None or (has_time and (present.str.len_bytes() <= len("2024-01-31")).any()):
        dates = read(present, None)
    if dates is None or len(present) == len(levels):
        return dates
    return _mapped(levels, present, dates)


def _mapped(column: polars.Series, levels: polars.Series, values: polars.Series) -> polars.Series:
    """A column with other values for each of its different ones."""
    if len(column) == len(levels):
        return values.alias(column.name)  # no value comes twice, and they are in order
    if values.dtype == levels.dtype and levels.equals(values, null_equal=True):
        return column
    present = levels.is_not_null()
    return column.replace_strict(
        levels.filter(present), values.filter(present), default=None, return_dtype=values.dtype
    )


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


def _scan(
    raw: bytes, file: Path, separator: str, width: int, before: int
) -> tuple[int, list[int], int]:
    """How many rows there are, which are blank lines, and how many lack the last value.

    Rows are counted from 0. Refuses a row with more or fewer fields than the `width` of the header.
    There are `before` lines of the file before the text.
    """
    rows = _rows(raw, separator)
    blank: list[int] = []
    count = -1  # so that the header, which is no row, brings it to 0
    gaps = 0
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
            gaps += not row or row[-1].strip() in MISSING
            if row or count >= 0:  # blank lines before the header do not count
                count += 1
    except csv.Error as error:
        raise InputError(
            f"{file}, line {before + rows.line_num}: {sentence(error)} Is a quotation mark left "
            "open?"
        ) from error
    except UnicodeDecodeError as error:
        raise _not_utf8(file, f" (after line {before + rows.line_num})") from error
    return max(count, 0), blank, gaps


def _typed(
    pl: Any, column: polars.Series, as_written: bool, known: Any, decimal: str
) -> polars.Series:
    """Text in its type: the `known` one, or what its values say.

    polars takes numbers with blanks around them, and nan, for text; so numbers and booleans are
    looked for there. A column that is to be a category stays `as_written`, except that 1.0 is the
    level 1, as in other tables.
    """
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
