"""Queries of databases, opened for reading only; and which queries may run."""

from __future__ import annotations

import importlib
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from fedcsa.core.batches import BATCH_ROWS
from fedcsa.data.columns import require_columns, sentence_start
from fedcsa.data.tables import check_file
from fedcsa.errors import FedCSAError, MissingExtraError, ParameterError, TableError, unknown

if TYPE_CHECKING:
    import pyarrow as pa

_SQLITE = "adbc_driver_sqlite"
#: Modules that may be imported because a study file says so; nothing else is.
ADBC_DRIVERS = (
    _SQLITE,
    "adbc_driver_postgresql",
    "adbc_driver_snowflake",
    "adbc_driver_flightsql",
)
#: A study file may come from elsewhere: its query must not reach other files, nor variables of
#: this program, nor load code, nor change these settings, nor fill the memory when it sorts. What
#: does not fit is put beside the database and removed in the end.
_DUCKDB_CONFIG: Mapping[str, str] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "lock_configuration": "true",
    "python_enable_replacements": "false",
    "memory_limit": "1GB",
}
_NOT_CODE = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/", re.S)
_READS = re.compile(r"(select|with|from)\b", re.I)
_WRITES = re.compile(r"\b(insert|update|delete|merge|into|create|drop|alter|truncate)\b", re.I)
#: Functions that do more than read the database.
_ACTS = re.compile(
    r"\b((enable|disable)_(logging|profiling)|truncate_duckdb_logs|write_log|(force_)?checkpoint"
    r"|\w+_external_resource\w*|load_extension|nextval|setval|set_config|dblink\w*"
    r"|lo_(import|export|create|put|unlink)|pg_(terminate|cancel)_backend|pg_read_\w+)\s*\(",
    re.I,
)
_ORDERED = re.compile(r"\border\s+by\b", re.I)
#: user:password@, with or without a scheme before it. A colon that begins :// is none of these, nor
#: is that of a port before a query that holds an @.
_USER_AND_PASSWORD = re.compile(
    r"(?!file:)[^?]*:(?!//|\d{1,5}(,[^@?]*)?(/[^@?]*)?\?\w+=).*@", re.I | re.S
)
_SECRET_KEY = re.compile(
    r"(pass(word|wd|phrase|code)|pwd|token|secret([_-]?access)?([_-]?key)?|(private|api)[_-]?key"
    r"|pkcs8_value|authorization)\s*=|authorization\s*:",
    re.I,
)


@dataclass(frozen=True)
class DuckDBFile:
    """A DuckDB database on disk."""

    path: Path

    @contextmanager
    def reading(self, query: str) -> Iterator[pa.RecordBatchReader]:
        """The answer to `query`, piece by piece."""
        try:
            import duckdb
        except ImportError:
            raise MissingExtraError("duckdb", "sql", "Reading a DuckDB database") from None
        check_file(self.path, "database")
        # The reader is closed before the connection: as long as one is open, however it came to be
        # left behind, the next connection would wait for its end.
        with (
            duckdb.connect(str(self.path), read_only=True, config={**_DUCKDB_CONFIG}) as connection,
            connection.sql(query).to_arrow_reader(BATCH_ROWS) as reader,
        ):
            yield reader


@dataclass(frozen=True)
class AdbcDatabase:
    """A database behind a driver of ADBC.

    Parameters
    ----------
    driver : str
        One of `ADBC_DRIVERS`.
    uri : str
        As the driver wants it, without a password: a study is copied into the result folder.
        For SQLite, ``file:`` and a path.
    folder : Path
        What the path of an SQLite file is relative to.
    """

    driver: str
    uri: str = field(repr=False)
    folder: Path = Path()

    def __post_init__(self) -> None:
        problem = adbc_problem(self.driver, self.uri)
        if problem is not None:
            raise ParameterError(f"An ADBC database: {problem}")

    @contextmanager
    def reading(self, query: str) -> Iterator[pa.RecordBatchReader]:
        """The answer to `query`, piece by piece."""
        dbapi = self._dbapi()
        with dbapi.connect(self._read_only_uri()) as connection, connection.cursor() as cursor:
            if self.driver == _SQLITE:  # it tells the type of a column from the first batch
                rows = {"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)}
                cursor.adbc_statement.set_options(**rows)
            cursor.execute(query)
            with cursor.fetch_record_batch() as reader:
                yield reader

    def _dbapi(self) -> Any:
        try:
            return importlib.import_module(f"{self.driver}.dbapi")
        except ImportError:
            if self.driver == _SQLITE:
                package = "adbc-driver-sqlite"
                raise MissingExtraError(package, "sql", "Reading an SQLite database") from None
            package = self.driver.replace("_", "-")
            raise TableError(
                f"The driver {self.driver!r} must be installed; it is not. Install the package "
                f"{package!r}."
            ) from None

    def _read_only_uri(self) -> str:
        if self.driver != _SQLITE:
            return self.uri
        path = (self.folder / self.uri.removeprefix("file:")).absolute()
        check_file(path, "database")
        return f"file:{quote(path.as_posix())}?mode=ro"


class Query:
    """The rows that a query gives: asked anew for every pass, and never held.

    Parameters
    ----------
    database : DuckDBFile or AdbcDatabase
        Opened for every pass, for reading only.
    query : str
        One SELECT. Every pass must give the same rows in the same order, so it must end with an
        ORDER BY on a key, in which no two rows are equal. A stream that gets others ends with an
        error.
    where : str
        Whose query it is, for the sentences: ``"source 'a'"``.
    """

    def __init__(self, database: DuckDBFile | AdbcDatabase, query: str, where: str) -> None:
        problem = query_problem(query)
        if problem is not None:
            raise ParameterError(f"{sentence_start(where)}: {problem}")
        self._database = database
        self._query = query
        self._where = where
        self.words = f"What the query of {where} gives"

    def __repr__(self) -> str:
        return f"Query({self._database!r})"

    def state(self) -> None:
        """A database has no time of its own: a stream compares its rows from pass to pass."""

    def read(self, columns: Sequence[str]) -> pa.Table:
        """All rows at once."""
        import pyarrow as pa

        pieces = list(self.pieces(columns))
        empty = pa.table({name: pa.array([], pa.float64()) for name in columns})
        return pa.Table.from_batches(pieces) if pieces else empty

    def pieces(self, columns: Sequence[str]) -> Generator[pa.RecordBatch]:
        """The rows in their order, a piece at a time."""
        try:
            with self._database.reading(self._query) as reader:
                require_columns(reader.schema.names, columns, f"the query of {self._where}")
                for piece in reader:
                    piece = piece.select(list(columns))
                    piece.validate(full=True)  # texts that are not UTF-8
                    yield piece
        except FedCSAError:
            raise
        except Exception as error:  # a database's own text quotes cells
            raise TableError(
                f"{sentence_start(self._where)} must have a query that its database can answer; "
                f"it fails ({type(error).__name__}). Try it in the database by itself, and cast a "
                "column that holds cells of several types."
            ) from None


def query_problem(query: str) -> str | None:
    """What a query must be and is not, or None if it may run.

    It keeps mistakes out. Against ill will, let the database's own rights say who may write.

    >>> query_problem("SELECT age, days FROM stays ORDER BY id")
    >>> query_problem("SELECT age, days FROM stays")
    "'query' must have an ORDER BY on a key, so that every pass sees the same order; ..."
    """
    code = _NOT_CODE.sub(" ", query).strip().removesuffix(";")
    if not _READS.match(code) or ";" in code:
        return "'query' must be one statement that begins with SELECT, WITH or FROM; it is not."
    if _WRITES.search(code) or _ACTS.search(_NOT_CODE.sub(_name_or_space, query)):
        return (
            "'query' must only read; it holds a word or calls a function that does more, such as "
            "INSERT or nextval. If it is a name, put it in quotation marks."
        )
    if not _ORDERED.search(code):
        return (
            "'query' must have an ORDER BY on a key, so that every pass sees the same order; "
            "it has none."
        )
    return None


def _name_or_space(match: re.Match[str]) -> str:
    """A function's name may be quoted, too."""
    name = match[0][1:-1]
    return name if match[0].startswith('"') and name.isidentifier() else " "


def adbc_problem(driver: str, uri: str) -> str | None:
    """What the driver or the address must be and is not, or None if both may be used."""
    if driver not in ADBC_DRIVERS:
        return f"'adbc': {unknown('driver', driver, ADBC_DRIVERS)}"
    if any(_USER_AND_PASSWORD.match(t) or _SECRET_KEY.search(t) for t in (uri, unquote(uri))):
        return (
            "'uri' must hold no password, since a result folder keeps the study; it holds one. "
            "Put it where the driver looks for it, such as a password file."
        )
    if driver == _SQLITE and (not uri.startswith("file:") or "?" in uri):
        return "'uri' must be file: and a path, such as file:north.db; it is something else."
    return None
