"""What a SQLite database, opened for reading only, answers to a query, as records."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from urllib.parse import quote

from .._data.columns import Columns
from .._data.tables import repeated
from .._progress import Tick
from ..errors import InputError
from .limits import LONGEST_LINE
from .records import Chunk, RecordParts, Records, TypeFinder, all_records, record_parts

_PLACE = "row {} of the query"

_STEPS = 100_000  # of SQLite's machine between two moments when Ctrl-C is heard: some milliseconds

_ALLOWED = (
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
)


def read_query(file: Path, query: str | None, rules: Columns) -> Records:
    """The answer to a query, or a whole table by its name."""
    (chunk,) = _chunks(file, query, None)
    return all_records(chunk, TypeFinder(file, rules, _PLACE))


def query_parts(file: Path, query: str | None, rules: Columns, tick: Tick) -> RecordParts:
    """The answer in parts; together they are what `read_query` gives."""
    chunks = partial(_chunks, file, query)
    return record_parts(chunks, TypeFinder(file, rules, _PLACE), tick)


def _chunks(file: Path, query: str | None, size: int | None) -> Iterator[Chunk]:
    """The rows of the answer, `size` of them at a time or all at once; at least one chunk."""
    # As a URI, because only that has a mode for reading only.
    address = f"file:{quote(str(file.absolute()))}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True)) as database:
            statement = _statement(database, file, query)
            database.set_authorizer(_authorize)
            # A query, or a view, can make a text of a gigabyte out of nothing.
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_LINE)
            # A query that runs long comes by here, where Python hears of Ctrl-C.
            database.set_progress_handler(_go_on, _STEPS)
            cursor = database.execute(statement)
            names = _column_names(cursor, file, query)
            start = 0  # rows that have been given
            while True:
                rows = cursor.fetchall() if size is None else cursor.fetchmany(size)
                # An answer without rows has columns nevertheless, which one chunk must tell.
                if not rows and start > 0:
                    return
                columns = {}
                for position, name in enumerate(names):
                    columns[name] = [row[position] for row in rows]
                yield Chunk(columns, range(start, start + len(rows)))
                if not rows or size is None:
                    return
                start += len(rows)
    except InputError:
        raise
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
            # What was raised in the midst of a query is known to sqlite3 only as its end.
            raise KeyboardInterrupt from error
        failure = "be read" if query is None else f"answer {query!r}"
        raise InputError(f"{file} cannot {failure}: {str(error).rstrip('.')}.") from error


def _go_on() -> int:
    return 0


def _statement(database: sqlite3.Connection, file: Path, query: str | None) -> str:
    """The query in SQL, which the user may have given as the name of a table."""
    schema = database.execute("SELECT name FROM sqlite_schema WHERE type <> 'index'")
    tables = [name for (name,) in schema]
    if query is None or not query.strip():
        first = tables[0] if tables else "orders"
        raise InputError(
            f"{file} is a database with the tables {', '.join(tables) or '(none)'}; say what to "
            f"test, as in '{file}::{first}' or '{file}::SELECT * FROM {first}'."
        )
    if query.strip() not in tables:
        return query
    quoted = query.strip().replace('"', '""')
    return f'SELECT * FROM "{quoted}"'


def _column_names(cursor: sqlite3.Cursor, file: Path, query: str | None) -> list[str]:
    names = [column[0] for column in cursor.description or ()]
    if not names:
        raise InputError(f"{file} has no rows to give for {query!r}; ask with SELECT.")
    for name, times in repeated(names).items():
        raise InputError(f"{file} gives {times} columns called '{name}'; rename them with AS.")
    return names


def _authorize(action: int, *_: object) -> int:
    """Allow what only reads.

    Also in a database that was opened for reading only, ATTACH and VACUUM INTO would make files.
    """
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY
