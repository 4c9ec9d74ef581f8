"""Sources of a study: files and databases, held or in batches."""

import sqlite3

import numpy as np
import pytest

from fedcsa.core.batches import BATCH_ROWS
from fedcsa.data.tables import write_table
from fedcsa.errors import DataError, StudyError
from fedcsa.study import Study

duckdb = pytest.importorskip("duckdb")

TEXT = """
name = "s"
missing_values = ["?"]
[outcome]
name = "y"
levels = ["no", "yes"]
[features]
age = "number"
sbp = { kind = "number", missing = "indicator" }
[model]
name = "sklearn.linear_model.LogisticRegression"
[target]
table = "new.csv"
[sources]
north = { database = "data/north.duckdb", query = "SELECT age, sbp, y FROM stays ORDER BY id" }
[sources.west]
database = "data/west.db"
query = "SELECT * FROM stays ORDER BY id"
[sources.south]
table = "south.parquet"
"""
N = BATCH_ROWS + 10
MINIMAL = """
name = "s"
outcome = {{ name = "y" }}
features = {{ x = "number" }}
model = {{ name = "ridge" }}
target = {{ table = "t.csv" }}
sources.a = {{ {} }}
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The same rows in three places."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "data").mkdir()
    rng = np.random.default_rng(0)
    columns = {
        "id": list(range(N)),
        "age": rng.normal(size=N).tolist(),
        "sbp": ["?" if k % 7 == 0 else str(k) for k in range(N)],
        "y": ["yes" if k % 3 else "no" for k in range(N)],
    }
    write_table(folder / "south.parquet", columns)
    with duckdb.connect(str(folder / "data/north.duckdb")) as connection:
        path = folder / "south.parquet"
        connection.execute("CREATE TABLE stays AS FROM read_parquet(?)", [str(path)])
    with sqlite3.connect(folder / "data/west.db") as connection:
        connection.execute(
            "CREATE TABLE stays (id INTEGER PRIMARY KEY, age REAL, sbp TEXT, y TEXT)"
        )
        rows = zip(*columns.values(), strict=True)
        connection.executemany("INSERT INTO stays VALUES (?, ?, ?, ?)", rows)
    connection.close()
    return Study.parse(TEXT, folder=folder)


@pytest.mark.parametrize("name", ["north", "west"])
def test_a_database_gives_what_a_file_gives(study, name):
    X, y = study.read_source("south")
    X_database, y_database = study.read_source(name)
    assert X_database.tobytes() == X.tobytes()
    assert y_database.tolist() == y.tolist()
    assert set(y.tolist()) == {"no", "yes"}


@pytest.mark.parametrize("name", ["north", "south", "west"])
def test_batches_are_the_rows_that_are_read_whole(study, name):
    rows = study.stream_source(name)
    assert rows.columns == study.coding.columns
    X, y = study.read_source(name)
    for _ in range(2):
        batches = list(rows)
        assert [len(part) for _, part in batches] == [BATCH_ROWS, 10]
        assert np.concatenate([part for part, _ in batches]).tobytes() == X.tobytes()
        codes = np.concatenate([part for _, part in batches])
        assert np.array(study.outcome.levels)[codes.astype(int)].tolist() == y.tolist()


def test_a_file_in_another_folder_is_found_from_the_study(study):
    assert len(Study.parse(study.to_toml(), folder=study.folder).read_source("west")[1]) == N


def test_a_study_equals_the_one_that_is_read_from_what_it_writes(study):
    again = Study.parse(study.to_toml())
    assert again == study
    assert again.sources["north"] == {
        "database": "data/north.duckdb",
        "query": "SELECT age, sbp, y FROM stays ORDER BY id",
    }
    assert again.sources["south"] == "south.parquet"
    assert again.to_toml() == study.to_toml()


def test_a_source_that_does_not_exist_is_suggested(study):
    for read in (study.read_source, study.stream_source):
        with pytest.raises(StudyError, match="Did you mean 'north'"):
            read("nort")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ('databse = "n.duckdb", query = "FROM t ORDER BY id"', "Did you mean 'database'"),
        ('database = "n.duckdb", qurey = "FROM t ORDER BY id"', "Did you mean 'query'"),
        ('database = "n.duckdb"', "'query' must be given: a text"),
        ('query = "FROM t ORDER BY id"', "'database' must be given: a text"),
        ('database = 1, query = "FROM t ORDER BY id"', "'database' must be a text; it is a whole"),
        ('database = "n.duckdb", query = "FROM t"', "'query' must have an ORDER BY"),
        ('database = "n.duckdb", query = "DROP TABLE t"', "'query' must be one statement that"),
        (
            'table = "a.csv", query = "FROM t"',
            "Unknown key 'query'. Known: predictions, sh",
        ),
        ('adbc = "x", query = "FROM t ORDER BY 1"', "Unknown key 'adbc'"),
        ('database = "a://b:c@d", query = "FROM t ORDER BY 1"', "hold no password"),
        ('database = "mysql://d", query = "FROM t ORDER BY 1"', "Unknown kind of database 'mysql'"),
        ('sheet = "s"', "'table' must be given: a text"),
        ("", "'table' must be given: a text"),
        ('tabel = "a.csv"', "Did you mean 'table'"),
    ],
)
def test_a_slip_in_a_source_is_said_with_its_name(entry, words):
    with pytest.raises(StudyError, match=r"study.toml: \[sources\] 'a'") as caught:
        Study.parse(MINIMAL.format(entry))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"database": "n.duckdb", "query": "FROM t"}, "'query' must have an ORDER BY"),
        (3, "must be a path or a table; it is a whole number"),
    ],
)
def test_a_study_made_in_python_is_checked_as_well(study, table, words):
    with pytest.raises(StudyError, match=r"\[sources\] 'a'") as caught:
        Study(**{**vars(study), "sources": {"a": table}})
    assert words in str(caught.value)


def test_the_target_may_be_a_query(study):
    entry = 'table = "new.csv"\n'
    query = "SELECT age, sbp FROM stays WHERE id < 90 ORDER BY id"
    place = {"database": "data/north.duckdb", "query": query}
    lines = "".join(f'{key} = "{value}"\n' for key, value in place.items())
    asked = Study.parse(TEXT.replace(entry, lines), folder=study.folder)
    assert asked.target == place
    assert Study.parse(asked.to_toml()) == asked
    X = study.read_source("north")[0]
    assert asked.read_target().tobytes() == X[:90].tobytes()
    assert np.concatenate(list(asked.stream_target())).tobytes() == X[:90].tobytes()
    with pytest.raises(StudyError, match=r"\[target\] 'query' must be given"):
        Study.parse(TEXT.replace(entry, 'database = "data/north.duckdb"\n'))


def test_looking_ahead_reads_databases_too(study):
    found = study.problems()
    assert [line for line in found if "new.csv" not in line] == []
    missing = Study(**{**vars(study), "folder": study.folder / "data"}).problems()
    assert any("The database" in line and "does not exist" in line for line in missing)


def test_cells_that_are_wrong_name_the_source(study):
    strict = study.features[0], type(study.features[1])("sbp")
    changed = Study(**{**vars(study), "features": strict})
    with pytest.raises(DataError, match=r"'sbp' of source 'north' must be complete; .* rows 1 to"):
        list(changed.stream_source("north"))
