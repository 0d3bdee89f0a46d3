"""What is read by its address: databases on servers, DuckDB, and Parquet files in object stores.

The work is done by polars and the drivers that it knows; whoever needs one installs an extra.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .._data.streams import Stream
from .._data.tables import Source
from ..errors import InputError, MissingDependency
from .handles import polars_for, sentence, unheard, without_password

if TYPE_CHECKING:
    import polars

_ADDRESS = re.compile(r"(?!sqlite:///)(?P<scheme>[a-z][a-z0-9+]+)://", re.IGNORECASE)
_DUCKDB = re.compile(r"(?P<file>(?:(?!::).)+\.(?:duckdb|ddb))(?:::(?P<query>.*))?", re.DOTALL)

_POSTGRES = ("postgresql", "postgres")
_STORES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "azure", "http", "https", "hf")
_COLUMNAR = (".parquet", ".pq")

# A query is there to read: what would change a database is refused by the server.
_READ_ONLY = "-c default_transaction_read_only=on"


def is_address(name: str) -> bool:
    """Whether it is an address rather than the path of a file, or a DuckDB database."""
    return _ADDRESS.match(name) is not None or _DUCKDB.fullmatch(name) is not None


def read_address(name: str) -> Source:
    """What an address gives: the answer to a query, or a file in an object store."""
    duckdb = _DUCKDB.fullmatch(name)
    scheme = _ADDRESS.match(name)
    if scheme is None and duckdb is not None:
        table = _from_duckdb(Path(duckdb["file"]), duckdb["query"])
    elif scheme is not None and scheme["scheme"].lower() in _POSTGRES:
        table = _from_postgres(name)
    else:
        table = _scanned(name).collect()
    return Source(table, without_password(name))


def address_stream(name: str, columns: tuple[str, ...] | None) -> Callable[[], Stream] | None:
    """What makes a stream of a file in an object store; None for what is read as a whole."""
    scheme = _ADDRESS.match(name)
    if scheme is None or scheme["scheme"].lower() in _POSTGRES:
        return None
    return lambda: Stream.batches(lambda: _batches(name, columns))


# Databases


def _from_postgres(name: str) -> polars.DataFrame:
    """The answer of a PostgreSQL server, by the driver of Apache Arrow."""
    address, separator, query = name.partition("::")
    shown = without_password(address)
    if not separator or not query.strip():
        raise InputError(
            f"{shown} is a database; say what to test, as in '{shown}::SELECT * FROM orders'."
        )
    pl = polars_for(Path(shown))
    _driver("adbc_driver_postgresql", shown, "postgres")
    mark = "&" if "?" in address else "?"
    read_only = f"{address}{mark}options={quote(_READ_ONLY)}"
    try:
        table: polars.DataFrame = pl.read_database_uri(_as_select(query), read_only, engine="adbc")
    except Exception as error:  # of the driver, whose classes are not known here
        raise _unanswered(shown, query, error) from error
    return table.with_columns(_as_floats(pl, column) for column in table)


def _as_floats(pl: Any, column: Any) -> Any:
    """A column; if it is of type numeric, which the driver gives as text, its numbers."""
    storage = getattr(column.ext, "storage", None)
    if storage is None or not isinstance(column.dtype, pl.BaseExtension):
        return column
    text = storage()
    numbers = text.cast(pl.Float64, strict=False)
    return numbers if numbers.null_count() == text.null_count() else text


def _as_select(query: str) -> str:
    """The query in SQL, which the user may have given as the name of a table."""
    name = query.strip().rstrip(";")
    if re.fullmatch(r"\w+(?:\.\w+)?", name):
        quoted = '"."'.join(name.split("."))
        return f'SELECT * FROM "{quoted}"'
    return query


def _from_duckdb(file: Path, query: str | None) -> polars.DataFrame:
    """The answer of a DuckDB file, which is opened for reading only."""
    if not file.exists():
        raise InputError(f"{file} does not exist; check the path (seen from {Path.cwd()}).")
    polars_for(file)
    duckdb = _driver("duckdb", str(file), "duckdb")
    # Without access to files, a query cannot write any, nor read others.
    settings = {"enable_external_access": "false"}
    try:
        with duckdb.connect(str(file), read_only=True, config=settings) as database:
            if query is None or not query.strip():
                tables = [row[0] for row in database.sql("SHOW TABLES").fetchall()]
                raise _no_query(file, tables)
            answer = database.sql(_as_select(query))
            if answer is None:
                raise InputError(f"{file} has no rows to give for {query!r}; ask with SELECT.")
            table: polars.DataFrame = answer.pl()
    except InputError:
        raise
    except Exception as error:  # duckdb.Error, and those of a damaged file
        raise _unanswered(str(file), query or "", error) from error
    return table


def _no_query(file: Path, tables: list[str]) -> InputError:
    first = tables[0] if tables else "orders"
    return InputError(
        f"{file} is a database with the tables {', '.join(tables) or '(none)'}; say what to test, "
        f"as in '{file}::{first}' or '{file}::SELECT * FROM {first}'."
    )


def _unanswered(name: str, query: str, error: Exception) -> InputError:
    reason = without_password(sentence(error))
    return InputError(f"{name} cannot answer {query.strip()[:100]!r}: {reason}")


def _driver(module: str, name: str, extra: str) -> Any:
    try:
        return __import__(module)
    except ImportError as error:
        raise MissingDependency(
            f"{name} takes {module} to read; pip install 'twosample[{extra}]'."
        ) from error


# Object stores


def _scanned(name: str) -> Any:
    """A Parquet file in an object store as a lazy table of polars."""
    scheme = _ADDRESS.match(name)
    shown = without_password(name)
    if scheme is None or scheme["scheme"].lower() not in _STORES:
        kind = name if scheme is None else scheme["scheme"]
        raise InputError(
            f"{shown}: addresses of {kind} are not read here, but those of postgresql and of "
            f"Parquet files at {', '.join(_STORES)}; write what you need to a Parquet or CSV file."
        )
    if not name.lower().partition("?")[0].endswith(_COLUMNAR):
        raise InputError(
            f"{shown}: of files at an address only Parquet is read; get a copy of it, and give its "
            "path."
        )
    pl = polars_for(Path(shown))
    try:
        with unheard:
            table = pl.scan_parquet(name)
            table.collect_schema()
    except Exception as error:  # of polars or of the network
        raise InputError(f"{shown} cannot be read: {without_password(sentence(error))}") from error
    return table


def _batches(name: str, columns: tuple[str, ...] | None) -> Any:
    table = _scanned(name)
    if columns is not None:
        table = table.select(columns)
    return table.collect_batches()
