"""A query of a database that is asked anew for every pass, batch by batch, and never held."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from fedcsa.data.cells import arrow
from fedcsa.data.columns import require_columns, sentence_start
from fedcsa.data.databases import AdbcDatabase, DuckDBFile, query_problem
from fedcsa.data.encoding import Coding
from fedcsa.data.prefetch import prefetched
from fedcsa.data.streams import Batch, RowCount, RowEncoder
from fedcsa.data.tables import mark_all_missing
from fedcsa.errors import FedCSAError, ParameterError, TableError

if TYPE_CHECKING:
    import pyarrow as pa


class QueryStream:
    """The rows that a query gives, in batches: a `fedcsa.core.batches.Batches`.

    Parameters
    ----------
    database : DuckDBFile or AdbcDatabase
        Opened for every pass, for reading only.
    query : str
        One SELECT. Every pass must give the same rows in the same order, so it must end with an
        ORDER BY on a key, in which no two rows are equal. A pass that gives others
        ends with an error.
    coding, missing_values, where
        As for `fedcsa.data.streams.TableStream`.
    """

    def __init__(
        self,
        database: DuckDBFile | AdbcDatabase,
        query: str,
        coding: Coding,
        *,
        missing_values: Collection[str] = (),
        where: str,
    ) -> None:
        problem = query_problem(query)
        if problem is not None:
            raise ParameterError(f"{sentence_start(where)}: {problem}")
        arrow("Reading a table")
        self._database = database
        self._query = query
        self._coding = coding
        self._missing_values = missing_values
        self._where = where
        self._encoder = RowEncoder(coding, missing_values, where)
        self._count = RowCount(f"What the query of {where} gives", contents=True)

    def __repr__(self) -> str:
        return f"QueryStream({self._database!r}, {len(self.columns)} columns)"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the features in the order of the matrix, and of the group behind them."""
        return self._encoder.columns

    def __iter__(self) -> Iterator[Batch]:
        """Start a pass."""
        return prefetched(self._pass)

    def read_table(self) -> pa.Table:
        """All rows at once, as `fedcsa.data.tables.read_table` gives those of a file."""
        import pyarrow as pa

        pieces = list(self._pieces())
        empty = pa.table({name: pa.array([], pa.float64()) for name in self._encoder.needed})
        table = pa.Table.from_batches(pieces) if pieces else empty
        return mark_all_missing(table, self._missing_values, self._coding.level_texts)

    def _pass(self) -> Generator[Batch]:
        # Left to itself, the database would stay open for as long as somebody keeps an error.
        with closing(self._pieces()) as pieces:
            yield from self._count.checked(self._encoder.batches(pieces))

    def _pieces(self) -> Generator[Any]:
        needed = list(self._encoder.needed)
        try:
            with self._database.reading(self._query) as reader:
                require_columns(reader.schema.names, needed, f"the query of {self._where}")
                for piece in reader:
                    piece = piece.select(needed)
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
