"""Queries of DuckDB, SQLite and PostgreSQL, for reading only; and which queries may run."""

from __future__ import annotations

import importlib
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import numpy as np

from fedcsa.core.batches import BATCH_ROWS
from fedcsa.data.columns import require_columns, sentence_start
from fedcsa.data.table_file import AnyTable, check_file
from fedcsa.errors import (
    DataError,
    FedCSAError,
    MissingExtraError,
    ParameterError,
    TableError,
    unknown,
)

if TYPE_CHECKING:
    import sqlite3

    import pyarrow as pa


#: How the address of a server begins; everything else is the path of a file.
SERVER_SCHEMES = ("postgresql", "postgres")
#: A study file may come from elsewhere: its query must not reach other files, nor variables of
#: this program, nor load code, nor change these settings, nor fill the memory when it sorts. What
#: does not fit is put beside the database and removed in the end.
_DUCKDB_CONFIG: Mapping[str, str] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "lock_configuration": "true",
    "python_enable_replacements": "false",
    "memory_limit": "300MB",
}
#: Of a server's answer at a time: some batches of rows.
_SERVER_BYTES = 1 << 22
#: Where a file begins, and where a DuckDB file has its mark.
_SQLITE_START, _DUCKDB_MARK = b"SQLite format 3\0", slice(8, 12)
#: Texts, quoted names and comments. A text after an E has escapes, and one between dollars holds
#: quotation marks: read as plain texts, either would hide the code behind it.
_NOT_CODE = re.compile(
    r"(?<!\w)e'(?:[^'\\]|''|\\.)*'|\$(\w*)\$.*?\$\1\$"
    r"|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/",
    re.S | re.I,
)
_READS = re.compile(r"(select|with|from)\b", re.I)
_WRITES = re.compile(r"\b(insert|update|delete|merge|into|create|drop|alter|truncate)\b", re.I)
#: Functions that do more than read the database.
_ACTS = re.compile(
    r"\b((enable|disable)_(logging|profiling)|truncate_duckdb_logs|write_log|(force_)?checkpoint"
    r"|\w+_external_resource\w*|load_extension|nextval|setval|set_config|dblink\w*"
    r"|lo_\w+|pg_(terminate|cancel)_backend|pg_(read|ls|stat_file|sleep|advisory|notify|reload"
    r"|rotate|switch)\w*|(query|cursor|table|schema|database)_to_xml\w*)\s*\(",
    re.I,
)
_ORDERED = re.compile(r"\border\s+by\b", re.I)
#: user:password@, with or without a scheme before it. A colon that begins :// is none of these, nor
#: is that of a port before a query that holds an @.
_USER_AND_PASSWORD = re.compile(r"[^?]*:(?!//|\d{1,5}(,[^@?]*)?(/[^@?]*)?\?\w+=).*@", re.I | re.S)
_SECRET_KEY = re.compile(
    r"(pass(word|wd|phrase|code)|pwd|token|secret([_-]?access)?([_-]?key)?|(private|api)[_-]?key"
    r"|pkcs8_value|authorization)\s*=|authorization\s*:",
    re.I,
)
_DRIVE = re.compile(r"^[A-Za-z]:[/\\]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
#: Where a UUID's text has its hyphens.
_HYPHENS = (8, 13, 18, 23)
#: What SQLite calls the types of cells that are not NULL.
_TYPES = ("integer", "real", "text", "blob")
#: The semicolon behind a query, and comments behind it.
_END = re.compile(r";(\s|--[^\n]*|/\*.*?\*/)*$", re.S)


@dataclass(frozen=True)
class DatabaseFile:
    """A DuckDB or SQLite database on disk; its first bytes tell which."""

    path: Path
    folder: Path = Path()  # of the file that names it

    @contextmanager
    def reading(self, query: str) -> Iterator[pa.RecordBatchReader]:
        """The answer to `query`, piece by piece."""
        check_file(self.path, "database", self.folder)
        with self.path.open("rb") as file:
            start = file.read(16)
        is_sqlite = start == _SQLITE_START
        if not is_sqlite and start[_DUCKDB_MARK] != b"DUCK":
            raise TableError(
                f"The database {str(self.path)!r} is neither a DuckDB nor a SQLite file, or it "
                "is damaged. Check the path."
            )
        with self._sqlite(query) if is_sqlite else self._duckdb(query) as reader:
            yield reader

    @contextmanager
    def _duckdb(self, query: str) -> Iterator[pa.RecordBatchReader]:
        try:
            import duckdb
        except ImportError:
            raise MissingExtraError("duckdb", "sql", "Reading a DuckDB database") from None
        # The reader is closed before the connection: as long as one is open, however it came to be
        # left behind, the next connection would wait for its end.
        with (
            duckdb.connect(str(self.path), read_only=True, config={**_DUCKDB_CONFIG}) as connection,
            connection.sql(query).to_arrow_reader(BATCH_ROWS) as reader,
        ):
            yield reader

    @contextmanager
    def _sqlite(self, query: str) -> Iterator[pa.RecordBatchReader]:
        import sqlite3

        uri = f"file:{quote(self.path.absolute().as_posix())}?mode=ro"
        # One thread at a time uses it, but another one may close it.
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
        with closing(connection), sqlite_reader(connection, query) as reader:
            yield reader


@dataclass(frozen=True)
class Server:
    """A PostgreSQL server.

    Parameters
    ----------
    address : str
        ``postgresql://user@host/database``, without a password: a study is copied into the
        result folder. The driver finds it in ``~/.pgpass`` or in PGPASSWORD.
    """

    address: str = field(repr=False)

    @contextmanager
    def reading(self, query: str) -> Iterator[pa.RecordBatchReader]:
        """The answer to `query` in a transaction that may only read, piece by piece."""
        try:
            driver: Any = importlib.import_module("adbc_driver_postgresql.dbapi")
        except ImportError:
            purpose = "Reading from a PostgreSQL server"
            raise MissingExtraError("adbc-driver-postgresql", "sql", purpose) from None
        with driver.connect(self.address) as connection, connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
            size = {"adbc.postgresql.batch_size_hint_bytes": str(_SERVER_BYTES)}
            cursor.adbc_statement.set_options(**size)
            cursor.execute(query)
            with cursor.fetch_record_batch() as reader:
                yield reader


def open_database(database: str, folder: Path = Path()) -> DatabaseFile | Server:
    """The database that a study names.

    Parameters
    ----------
    database : str
        Path of a DuckDB or SQLite file, or the address of a PostgreSQL server.
    folder : Path
        What the path is relative to.
    """
    problem = database_problem(database)
    if problem is not None:
        raise ParameterError(problem)
    is_server = _SCHEME.match(database)
    return Server(database) if is_server else DatabaseFile(folder / database, folder)


class Query(AnyTable):
    """The rows that a query gives: asked anew for every pass, and never held.

    Parameters
    ----------
    database : DatabaseFile or Server
        Opened for every pass, for reading only.
    query : str
        One SELECT. Every pass must give the same rows in the same order, so it must end with an
        ORDER BY on a key, in which no two rows are equal. A stream that gets others ends with an
        error.
    whose : str
        Whose query it is, for the sentences: ``"source 'a'"``.
    """

    def __init__(self, database: DatabaseFile | Server, query: str, whose: str) -> None:
        problem = query_problem(query)
        if problem is not None:
            raise ParameterError(f"{sentence_start(whose)}: {problem}")
        self._database = database
        self._query = query
        self._whose = whose
        self.words = f"What the query of {whose} gives"

    def __repr__(self) -> str:
        return f"Query({self._database!r})"

    def state(self) -> None:
        """A database has no time of its own: a stream compares its rows from pass to pass."""

    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in their order."""
        with self._reading() as reader:
            return tuple(reader.schema.names)

    def pieces(
        self,
        columns: Sequence[str] | None = None,
        few: Sequence[str] = (),  # noqa: ARG002
    ) -> Generator[pa.RecordBatch]:
        """The rows in their order, a piece at a time; all columns are of plain types."""
        import pyarrow as pa

        with self._reading() as reader:
            names = list(reader.schema.names if columns is None else columns)
            require_columns(reader.schema.names, names, f"the query of {self._whose}")
            for piece in reader:
                piece = piece.select(names)
                fields = zip(piece.schema, piece.columns, strict=True)
                plain = [_plain(field, column, self.words) for field, column in fields]
                piece = pa.RecordBatch.from_arrays(plain, names=names)
                piece.validate(full=True)  # texts that are not UTF-8
                yield piece

    @contextmanager
    def _reading(self) -> Iterator[pa.RecordBatchReader]:
        try:
            with self._database.reading(self._query) as reader:
                yield reader
        except FedCSAError:
            raise
        except Exception as error:  # a database's own text quotes cells, and the address
            raise TableError(
                f"{sentence_start(self._whose)} must have a query that its database can answer; "
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
        return "'query' must be one statement that begins with SELECT, WITH or FROM."
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


def database_problem(database: str) -> str | None:
    """What the path or the address of a database must be and is not; None if it may be used.

    >>> database_problem("stays.duckdb"), database_problem("postgresql://reader@host/stays")
    (None, None)
    """
    scheme = _SCHEME.match(database)
    address = _DRIVE.sub("", database)  # C:/stays.db holds no password
    texts = (address, unquote(address))
    if any(_USER_AND_PASSWORD.match(text) or _SECRET_KEY.search(text) for text in texts):
        return (
            "'database' must hold no password, since a result folder keeps the study; it holds "
            "one. Put it into the driver's password file, ~/.pgpass."
        )
    if scheme is not None and scheme[1].lower() not in SERVER_SCHEMES:
        known = unknown("kind of database", scheme[1].lower(), SERVER_SCHEMES)
        return f"'database' must be a file or an address of PostgreSQL. {known}"
    return None


def place_problems(database: str | None, query: str | None) -> list[str]:
    """What is wrong with where a file says that rows are.

    Parameters
    ----------
    database, query : str or None
        As far as they are given.
    """
    found = [
        None if database is None else database_problem(database),
        None if query is None else query_problem(query),
    ]
    return [problem for problem in found if problem is not None]


# Columns whose types only the database knows -------------------------------------------------


def _plain(field: pa.Field, column: pa.Array, words: str) -> pa.Array:
    """A column that only a database has, brought to a plain type.

    A ``numeric`` becomes its text, which is read as a number to the bit; a ``uuid`` its text; a
    ``char(n)`` loses the blanks that the database added. Other types stay: whoever reads the
    column refuses them by name.

    Parameters
    ----------
    field : pyarrow.Field
    column : pyarrow.Array
    words : str
        What the table is, for a sentence.
    """
    import pyarrow.compute as pc

    kind = (field.metadata or {}).get(b"POSTGRESQL:type", b"").decode("ascii", "replace")
    if kind == "money":  # it arrives in cents, and its sign depends on the server
        raise DataError(
            f"{words} must have no column of the type money; {field.name!r} is one. Cast it to "
            "numeric in the query."
        )
    if kind == "numeric":
        return getattr(column, "storage", column)
    if kind == "bpchar":
        return pc.utf8_rtrim(column, characters=" ")
    return _uuid_texts(column) if str(field.type) == "extension<arrow.uuid>" else column


def _uuid_texts(column: pa.ExtensionArray) -> pa.StringArray:
    import pyarrow as pa

    missing = column.is_null()
    storage = column.storage.fill_null(bytes(16))
    digits = np.frombuffer(b"".join(storage.to_pylist()).hex().encode(), np.uint8).reshape(-1, 32)
    texts = np.full((len(column), 36), ord("-"), np.uint8)
    texts[:, [place for place in range(36) if place not in _HYPHENS]] = digits
    ends = pa.array(np.arange(0, 36 * (len(column) + 1), 36), pa.int32())
    found = pa.StringArray.from_buffers(
        len(column), ends.buffers()[1], pa.py_buffer(texts.tobytes())
    )
    return pa.compute.if_else(missing, pa.scalar(None, pa.string()), found)


# Answers of SQLite as columns -----------------------------------------------------------------


def sqlite_reader(connection: sqlite3.Connection, query: str) -> pa.RecordBatchReader:
    """The answer to a query, a batch of rows at a time.

    In SQLite every cell has a type of its own. So the database is asked first which types each
    column holds in all rows: whole numbers, numbers, or texts, if one cell is a text. In a column
    of texts a number is its shortest text that is read as the same number.

    Parameters
    ----------
    connection : sqlite3.Connection
        Open for reading only, without transactions of its own.
    query : str
        One SELECT.
    """
    import pyarrow as pa

    connection.execute("BEGIN")  # both questions see the same rows
    cursor = connection.execute(query)
    names = [column[0] for column in cursor.description]
    types = zip(names, _types(connection, query, len(names)), strict=True)
    schema = pa.schema([(name, _arrow_type(found, name)) for name, found in types])
    return pa.RecordBatchReader.from_batches(schema, _batches(cursor, schema))


def _types(connection: sqlite3.Connection, query: str, n_columns: int) -> list[set[str]]:
    """The types of cells in every column, over all rows."""
    columns = ", ".join(f"c{k}" for k in range(n_columns))
    asked = ", ".join(f"max(typeof(c{k}) = '{kind}')" for k in range(n_columns) for kind in _TYPES)
    inner = _END.sub("", query)
    # Only `query` was not written here, and it runs by itself, too. The line ends its comment.
    rows = connection.execute(
        f"WITH asked ({columns}) AS ({inner}\n) SELECT {asked} FROM asked"  # noqa: S608
    )
    answer = list(rows.fetchone())
    width = len(_TYPES)
    parts = [answer[k * width : (k + 1) * width] for k in range(n_columns)]
    return [{kind for kind, there in zip(_TYPES, part, strict=True) if there} for part in parts]


def _arrow_type(found: set[str], name: str) -> pa.DataType:
    import pyarrow as pa

    if "blob" in found and len(found) > 1:
        raise DataError(
            f"A column of a query must hold numbers or texts; {name!r} mixes them with bytes. "
            "Cast it in the query."
        )
    types = {"text": pa.large_string(), "real": pa.float64(), "integer": pa.int64()}
    of_all = next((kind for name, kind in types.items() if name in found), pa.binary())
    return of_all if found else pa.null()


def _batches(cursor: sqlite3.Cursor, schema: pa.Schema) -> Generator[pa.RecordBatch]:
    import pyarrow as pa

    while rows := cursor.fetchmany(BATCH_ROWS):
        columns = []
        for cells, kind in zip(zip(*rows, strict=True), schema.types, strict=True):
            own: Sequence[Any] = cells
            if pa.types.is_large_string(kind):
                own = [x if x is None or isinstance(x, str) else repr(x) for x in cells]
            # A whole number that no float64 holds is refused among others.
            columns.append(pa.array(own, kind))
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
