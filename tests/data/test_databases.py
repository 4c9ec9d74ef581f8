"""Databases: the same rows as from a file, asked for reading only, and never quoted."""

import sqlite3
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fedcsa.core.batches import BATCH_ROWS
from fedcsa.data.coding import Columns
from fedcsa.data.columns import Feature, Outcome
from fedcsa.data.databases import (
    DatabaseFile,
    Query,
    Server,
    database_problem,
    open_database,
    query_problem,
)
from fedcsa.data.streams import TableStream
from fedcsa.data.tables import write_table
from fedcsa.errors import DataError, MissingExtraError, ParameterError, TableError

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("adbc_driver_postgresql")

SECRET, WHERE = "SECRET-4711", "source 'a'"
N = 2 * BATCH_ROWS + 55
QUERY = "SELECT * FROM stays ORDER BY id"
CODING = Columns(
    (
        Feature("age"),
        Feature("sex", "levels", ("F", "M")),
        Feature("sbp", missing="indicator", fill=140),
    ),
    Outcome("y"),
)


def columns(n=N):
    rng = np.random.default_rng(3)
    return {
        "id": rng.permutation(n).tolist(),
        "y": rng.normal(size=n).tolist(),
        "sbp": [None if k % 9 == 4 else float(k) for k in range(n)],
        "sex": ["F" if k % 3 else "M" for k in range(n)],
        "age": rng.normal(50, 10, n).tolist(),
    }


def in_order(cells):
    order = np.argsort(cells["id"])
    return {name: [values[k] for k in order] for name, values in cells.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One table as a file, in DuckDB and in SQLite; the rows of the databases are shuffled."""
    folder = tmp_path_factory.mktemp("databases")
    cells = columns()
    write_table(folder / "stays.parquet", in_order(cells))
    stays = pa.table(cells)
    with duckdb.connect(str(folder / "north.duckdb")) as connection:
        connection.register("cells", stays)
        connection.execute("CREATE TABLE stays AS SELECT * FROM cells")
        connection.execute(
            "CREATE TABLE typed AS SELECT id, y::DECIMAL(18, 9) AS y, sbp, age > 50 AS age, "
            "sex::ENUM ('F', 'M') AS sex FROM cells"
        )
        connection.execute(
            "CREATE TABLE texts AS SELECT id, y, sbp, sex, ? AS age FROM cells", [SECRET]
        )
    with sqlite3.connect(folder / "north.db") as connection:
        connection.execute(
            "CREATE TABLE stays (id INTEGER PRIMARY KEY, y, sbp REAL, sex TEXT, age REAL)"
        )
        rows = zip(*cells.values(), strict=True)
        connection.executemany("INSERT INTO stays VALUES (?, ?, ?, ?, ?)", rows)
        connection.execute(
            "CREATE TABLE mixed (id INTEGER PRIMARY KEY, y, sbp REAL, sex TEXT, age)"
        )
        connection.execute("INSERT INTO mixed SELECT * FROM stays")
        connection.execute("UPDATE mixed SET age = ? WHERE id = ?", [SECRET, N - 1])
    connection.close()
    return folder


@pytest.fixture(params=["duckdb", "sqlite"])
def database(request, folder):
    return open_database("north.duckdb" if request.param == "duckdb" else "north.db", folder)


def stream(database, query=QUERY, coding=CODING):
    return TableStream(Query(database, query, WHERE), coding, where=WHERE)


def refusal(action, error=DataError):
    with pytest.raises(error, match=r"must |does not exist|cannot be read|is neither") as caught:
        action()
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return str(caught.value)


# What is read ---------------------------------------------------------------------------------


def test_a_query_gives_the_bits_of_the_file_at_every_pass(database, folder):
    rows = stream(database)
    assert rows.columns == CODING.columns
    file = list(TableStream(folder / "stays.parquet", CODING, where=WHERE))
    for _ in range(2):
        for (X, y), (X_file, y_file) in zip(rows, file, strict=True):
            assert X.tobytes() == X_file.tobytes()
            assert y.tobytes() == y_file.tobytes()


@pytest.mark.parametrize("group", [(), (Feature("id", "group"),)], ids=["", "grouped"])
def test_all_rows_at_once_are_the_rows_of_all_batches(database, group):
    coding = Columns((*group, *CODING.features), CODING.outcome)
    needed = coding.needed(with_outcome=True, with_group=True)
    table = Query(database, QUERY, WHERE).read(needed)
    X, y = coding.encode(table, WHERE, with_outcome=True, with_group=True)
    assert X.shape[1] == len(CODING.columns) + len(group)
    batches = list(stream(database, coding=coding))
    assert X.tobytes() == np.concatenate([part for part, _ in batches]).tobytes()
    assert y.tobytes() == np.concatenate([part for _, part in batches]).tobytes()


def test_the_types_of_a_database_are_read(folder):
    rows = stream(DatabaseFile(folder / "north.duckdb"), "FROM typed ORDER BY id")
    cells = in_order(columns())
    X = np.concatenate([part for part, _ in rows])
    np.testing.assert_array_equal(X[:, 0], np.array(cells["age"]) > 50)
    np.testing.assert_array_equal(X[:, 1], np.array(cells["sex"]) == "M")
    y = np.concatenate([part for _, part in rows])
    np.testing.assert_allclose(y, cells["y"], atol=1e-9)


def test_a_query_may_choose_rename_and_compute(database):
    query = """
        WITH old AS (SELECT id, y, sbp, 'M' AS sex, 2 * age AS age FROM stays WHERE age > 60)
        SELECT age, sex, sbp, y AS y FROM old ORDER BY id -- ; DELETE
    """
    X = np.concatenate([part for part, _ in stream(database, query)])
    assert 0 < len(X) < N
    assert (X[:, 0] > 120).all()
    assert (X[:, 1] == 1).all()


def test_an_abandoned_pass_ends_its_thread(database):
    rows = iter(stream(database))
    next(rows)
    rows.close()
    assert "fedcsa-prefetch" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc/self/fd")
@pytest.mark.parametrize("name", ["north.duckdb", "north.db"])
def test_an_error_that_is_kept_keeps_no_database_open(folder, name):
    database = DatabaseFile(folder / name)
    query = "SELECT id, y, sbp, age, 'X' AS sex FROM stays ORDER BY id"
    with pytest.raises(DataError, match="agreed level") as kept:
        list(stream(database, query))
    links = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert folder / name not in links
    del kept


# What is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("DELETE FROM stays", "begins with SELECT, WITH or FROM"),
        ("COPY stays TO 'x.csv'", "begins with SELECT, WITH or FROM"),
        ("", "begins with SELECT, WITH or FROM"),
        ("-- SELECT\nDROP TABLE stays", "begins with SELECT, WITH or FROM"),
        ("SELECTED", "begins with SELECT, WITH or FROM"),
        ("SELECT 1 ORDER BY 1; DROP TABLE stays", "must be one statement"),
        ("SELECT 1; SELECT 2 ORDER BY 1;", "must be one statement"),
        ("WITH a AS (DELETE FROM stays RETURNING *) SELECT * FROM a ORDER BY 1", "only read"),
        ("select * into other from stays order by id", "only read"),
        ("FROM enable_logging(storage = 'file') ORDER BY 1", "calls a function that does more"),
        ('FROM "enable_logging" /**/ () ORDER BY 1', "calls a function that does more"),
        ("SELECT Write_Log(sex) FROM stays ORDER BY id", "calls a function that does more"),
        ("SELECT nextval('ids') ORDER BY 1", "calls a function that does more"),
        # A text with escapes, or between dollars, ends where a plain text would not.
        (r"SELECT E'\' || ', nextval('ids') ORDER BY 1", "calls a function that does more"),
        (r"SELECT e'\' || '; DROP TABLE stays; SELECT 1 ORDER BY 1 --'", "one statement"),
        ("SELECT $a$ ' $a$, nextval($$ids$$), $b$ ' $b$ ORDER BY 1", "calls a function"),
        ("SELECT query_to_xml('DELETE FROM x', true, true, '') ORDER BY 1", "calls a function"),
        ("SELECT pg_ls_dir('/') ORDER BY 1", "calls a function that does more"),
        ("SELECT * FROM stays", "must have an ORDER BY on a key"),
        ("SELECT * FROM stays -- ORDER BY id", "must have an ORDER BY on a key"),
        ("SELECT 'ORDER BY' FROM stays /* ORDER\nBY */", "must have an ORDER BY on a key"),
    ],
)
def test_queries_that_may_not_run(database, query, words):
    assert words in query_problem(query)
    with pytest.raises(ParameterError, match=f"^Source 'a': 'query' .*{words}"):
        stream(database, query)


@pytest.mark.parametrize(
    "query",
    [
        "select * from stays order  by id;",
        "\n  /* the stays */ FROM stays ORDER\nBY id",
        "SELECT 'a;b', \"update\" FROM stays ORDER BY created_at, id ; ",
        "WITH a AS (SELECT ';''') SELECT * FROM a ORDER BY 1",
        r"SELECT E'it\'s nextval(1)', $$; drop$$, type'x' FROM stays WHERE sex = 'e' ORDER BY id",
        "SELECT checkpoint, 'nextval(', \"write_log(\", my_nextval(1) FROM stays ORDER BY id",
    ],
)
def test_queries_that_may_run(query):
    assert query_problem(query) is None


def test_a_database_is_opened_for_reading_only(folder):
    for database in (
        DatabaseFile(folder / "north.duckdb"),
        DatabaseFile(folder / "north.db"),
    ):
        with pytest.raises(Exception, match=r"(?i)read.?only"):  # noqa: SIM117
            with database.reading("DELETE FROM stays") as reader:
                reader.read_all()


def test_a_query_reaches_no_other_file_and_no_variable(folder):
    parquet_path = folder / "stays.parquet"
    duck = DatabaseFile(folder / "north.duckdb")
    file_query = f"SELECT * FROM '{parquet_path}' ORDER BY id"  # noqa: S608
    for query in (file_query, "SELECT * FROM here ORDER BY id"):
        here = pa.table(columns(9))
        text = refusal(lambda query=query: list(stream(duck, query)))
        assert "it fails (" in text
        del here


@pytest.mark.parametrize(
    "query",
    [
        "FROM enable_logging(storage = 'file', storage_path = 'logs')",
        "FROM query('FROM enable_profiling()')",
        "SET memory_limit = '9GB'",
        "SET autoload_known_extensions = true",
    ],
)
def test_a_query_changes_no_setting(folder, query):
    duck = DatabaseFile(folder / "north.duckdb")
    with pytest.raises(duckdb.InvalidInputException, match="configuration has been locked"):  # noqa: SIM117
        with duck.reading(query) as reader:
            reader.read_all()


def test_no_extension_is_loaded_by_itself(folder):
    query = "SELECT value FROM duckdb_settings() WHERE name LIKE 'auto%known_extensions'"
    with DatabaseFile(folder / "north.duckdb").reading(query) as reader:
        assert reader.read_all().column("value").to_pylist() == ["false", "false"]


def test_columns_that_are_missing_are_named_and_suggested(database):
    text = refusal(
        lambda: list(stream(database, "SELECT y, sex, sbp, age AS Age FROM stays ORDER BY 1"))
    )
    assert "The query of source 'a' must have the 4 column(s) of the study" in text
    assert "'age' (did you mean 'Age'?)" in text


def test_a_query_that_the_database_cannot_answer(database):
    query = f"SELECT * FROM none WHERE x = '{SECRET}' ORDER BY id"  # noqa: S608
    text = refusal(lambda: list(stream(database, query)), TableError)
    assert "Source 'a' must have a query that its database can answer; it fails (" in text


def test_a_cell_that_breaks_the_query_is_not_quoted(folder):
    query = "SELECT id, y, sbp, sex, CAST(age AS DOUBLE) AS age FROM texts ORDER BY id"
    text = refusal(lambda: list(stream(DatabaseFile(folder / "north.duckdb"), query)), TableError)
    assert "it fails (ConversionException)" in text
    sqlite = DatabaseFile(folder / "north.db")
    text = refusal(lambda: list(stream(sqlite, "SELECT * FROM mixed ORDER BY id")))
    assert "'age' of source 'a' must hold numbers; 1 of its cells in rows" in text


def test_cells_that_are_wrong_are_counted_with_their_rows(folder):
    rows = stream(DatabaseFile(folder / "north.duckdb"), "FROM texts ORDER BY id")
    text = refusal(lambda: list(rows))
    assert "'age' of source 'a' must hold numbers; 16384 of its cells in rows 1 to 16384" in text


def in_sqlite(path, cells):
    """A table of one column, and a query of it that ends with a comment."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x)")
        connection.executemany("INSERT INTO t (x) VALUES (?)", [(cell,) for cell in cells])
    connection.close()
    return Query(DatabaseFile(path), "SELECT x FROM t ORDER BY id; -- x", WHERE)


@pytest.mark.parametrize(
    ("cells", "read"),
    [
        ([1.23456789, 0.1 + 0.2, "?"], ["1.23456789", "0.30000000000000004", "?"]),
        ([17057012345, None, "A1"], ["17057012345", None, "A1"]),
        ([None] * BATCH_ROWS + [2.5, 1], [None] * BATCH_ROWS + [2.5, 1.0]),
        ([1, 2**62], [1, 2**62]),
    ],
)
def test_sqlite_gives_every_cell_exactly_whatever_the_others_are(tmp_path, cells, read):
    query = in_sqlite(tmp_path / "t.db", cells)
    assert query.read()["x"].to_pylist() == read
    assert len({piece.schema for piece in query.pieces()}) == 1


@pytest.mark.parametrize("cells", [[b"x", "x"], [2**62 + 1, 0.5]])
def test_sqlite_cells_that_share_no_type_are_refused(tmp_path, cells):
    refusal(in_sqlite(tmp_path / "t.db", cells).read)


def test_a_query_without_rows(database):
    query = "SELECT * FROM stays WHERE id < 0 ORDER BY id"
    assert "must have rows; its table has none" in refusal(lambda: list(stream(database, query)))
    empty = Query(database, query, WHERE).read(CODING.needed(with_outcome=True))
    with pytest.raises(DataError, match="must have rows"):
        CODING.encode(empty, WHERE, with_outcome=True)


def test_another_number_of_rows_is_a_change(tmp_path):
    path = tmp_path / "t.duckdb"

    def insert(statement):
        with duckdb.connect(str(path)) as connection:
            connection.execute(statement)

    insert("CREATE TABLE stays AS SELECT 1 AS id, 2.5 AS age, 'F' AS sex, 1.0 AS sbp, 0.5 AS y")
    rows = stream(DatabaseFile(path))
    assert [len(y) for _, y in rows] == [len(y) for _, y in rows] == [1]
    insert("INSERT INTO stays SELECT 2, 2.5, 'F', 1.0, 0.5")
    text = refusal(lambda: list(rows), TableError)
    assert "What the query of source 'a' gives must stay as it is" in text
    assert "it had 1 rows and now has 2" in text


def test_rows_in_another_order_are_a_change(folder):
    for query in ("FROM stays ORDER BY random()", "FROM (FROM stays ORDER BY random(), id)"):
        rows = stream(DatabaseFile(folder / "north.duckdb"), query)
        assert sum(len(y) for _, y in rows) == N
        text = refusal(partial(list, rows), TableError)
        assert "What the query of source 'a' gives must stay as it is" in text
        assert "its rows are others than at the last pass" in text


@pytest.mark.parametrize("change", ["y = -y", "age = age + 1e-12", "sex = 'M'", "sbp = NULL"])
def test_a_database_that_changes_between_passes_is_refused(tmp_path, change):
    with sqlite3.connect(tmp_path / "t.db") as connection:
        connection.execute("CREATE TABLE stays (id, y REAL, sbp REAL, sex TEXT, age REAL)")
        connection.execute("INSERT INTO stays VALUES (1, 0.5, 1.0, 'F', 2.5), (2, 1, 2, 'F', 3)")
    rows = stream(DatabaseFile(tmp_path / "t.db"))
    assert [len(y) for _, y in rows] == [len(y) for _, y in rows] == [2]
    with connection:
        connection.execute(f"UPDATE stays SET {change} WHERE id = 2")  # noqa: S608
    connection.close()
    assert "its rows are others than at the last pass" in refusal(partial(list, rows), TableError)


def test_a_pass_that_is_left_early_is_not_compared(database):
    rows = stream(database)
    next(iter(rows))
    whole = [len(y) for _, y in rows]
    begun = iter(rows)
    next(begun)
    begun.close()
    assert [len(y) for _, y in rows] == whole


def test_a_caller_may_write_into_a_batch(database):
    rows = stream(database)
    for _ in range(2):
        for X, y in rows:
            X[:] = y[:] = 0.0


def test_a_database_that_is_not_there_or_not_one(tmp_path):
    rows, path = stream(DatabaseFile(tmp_path / "north.duckdb")), tmp_path / "north.duckdb"
    text = refusal(partial(list, rows), TableError)
    assert text.startswith(f"The database {str(path)!r} does not exist")
    path.touch()
    text = refusal(partial(list, rows), TableError)
    assert text.startswith(f"The database {str(path)!r} must have rows")
    path.write_text(SECRET * 500)
    text = refusal(partial(list, rows), TableError)
    assert "is neither a DuckDB nor a SQLite file" in text


@pytest.mark.parametrize("start", [b"SQLite format 3\0", b"\0" * 8 + b"DUCK"])
def test_a_damaged_database_is_refused(tmp_path, start):
    (tmp_path / "t.db").write_bytes(start + SECRET.encode() * 500)
    assert "it fails (" in refusal(partial(list, stream(DatabaseFile(tmp_path / "t.db"))))


# Addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["mysql", "snowflake", "grpc+tls", "postgresq", "file"])
def test_no_other_server_is_asked(scheme):
    with pytest.raises(ParameterError, match="Unknown kind of database"):
        open_database(f"{scheme}://host/db")


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://me:hunter2@host/db",
        "postgresql://host/db?password=hunter2",
        "grpc://host;PWD = hunter2",
        "grpc://host?access_token=hunter2",
        "jane:hunter2@myorg-acct/db/schema",
        "jane:hunter2@host:443/db?warehouse=w",
        "postgresql://u:a/hunter2@h/db",
        "postgresql://u:a?hunter2@h/db",
        "postgresql://u:1/hunter2@h/db",
        "postgresql://u:@hunter2@h/db",
        "postgresql://jane%40org:hunter2@h/db",
        "postgresql://jane%3Ahunter2@h/db",
        "postgresql://:hunter2@h/db",
        "postgresql://h/db?pass%77ord=hunter2",
        "postgresql://h/db?sslPassword=hunter2",
        "host=h password = hunter2",
        "grpc://h?authorization=Bearer%20hunter2",
        "grpc://h?header=Authorization%3A%20Bearer%20hunter2",
        "jane@acct/db?private_key=hunter2",
        "jane@acct/db?privateKey=hunter2",
        "grpc://h?client_secret=hunter2",
        "grpc://h?aws_secret_access_key=hunter2",
        "grpc://h?TOKEN=hunter2",
    ],
)
def test_a_password_does_not_belong_into_a_study(uri):
    with pytest.raises(ParameterError, match="must hold no password") as caught:
        open_database(uri)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "database",
    [
        "south.db",
        "C:/x/y.db",
        "C:\\x@home\\y.db",
        "data/password/south.duckdb",
        "postgresql://u@h:5432/db",
        "postgres://h:5432/db",
        "postgresql://h/db?sslmode=require",
        "postgresql://h:5432/db?user=jane@org",
        "postgresql://h:5432,i:5433/db?user=jane%40org",
        "postgresql://jane%40org@h:5432/db?passfile=/home/jane/.pgpass",
        "postgresql://u@secret:5432/token",
    ],
)
def test_a_path_or_an_address_without_a_password_may_be_used(database):
    assert database_problem(database) is None


def test_the_address_is_not_shown():
    assert "host" not in repr(Query(Server("postgresql://host/db"), QUERY, WHERE))


def test_a_driver_that_is_not_installed_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql.dbapi", None)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    for database, what in (
        (DatabaseFile(folder / "north.duckdb"), "a DuckDB database"),
        (Server("postgresql://host/db"), "from a PostgreSQL server"),
    ):
        with pytest.raises(MissingExtraError, match=rf"Reading {what} needs .*fedcsa\[sql\]"):
            list(stream(database))
