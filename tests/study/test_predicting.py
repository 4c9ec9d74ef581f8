"""Predictions in batches: ids and kept columns beside them, any table, the bits of one call."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from fedcsa.answer.store import save_result
from fedcsa.cli.app import app
from fedcsa.core.batches import BATCH_ROWS
from fedcsa.data.tables import open_table, write_table
from fedcsa.errors import DataError
from fedcsa.study import Study
from fedcsa.study.predicting import predicted_batches

STUDY = """
name = "ids"
[outcome]
name = "days"
[features]
patient = "id"
age = "number"
sex = { levels = ["F", "M"] }
[model]
name = "ridge"
[target]
table = "new.parquet"
[sources.north]
table = "north.parquet"
[sources.south]
table = "north.parquet"
"""
N = BATCH_ROWS + 30


def stays(n, seed):
    rng = np.random.default_rng(seed)
    age = rng.normal(60.0, 10.0, n)
    return {
        "note": pa.array(["a,b" if k % 2 else 'say "x"' for k in range(n)]),
        "age": pa.array(age),
        "patient": pa.array([f"P{k:05d}" for k in range(n)]),
        "sex": pa.array(["F", "M"] * (n // 2)),
        "days": pa.array(0.1 * age + rng.normal(size=n)),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A result of a study with an id, and rows to predict of more than one batch."""
    folder = tmp_path_factory.mktemp("ids")
    write_table(folder / "north.parquet", stays(400, 1))
    write_table(folder / "new.parquet", stays(N, 2))
    study = Study.parse(STUDY, folder=folder)
    save_result(study.run(), folder / "result", study.to_toml())
    return folder


@pytest.fixture(scope="module")
def known(folder):
    """The study, its answer, and what one call predicts for all rows."""
    from fedcsa import load_result

    study = Study.parse(STUDY, folder=folder)
    found = load_result(folder / "result")
    return study, found, found.predict(study.read_target())


def predict(folder, *words):
    done = CliRunner().invoke(app, ["predict", str(folder / "result"), *map(str, words)])
    assert done.exit_code == 0, done.output
    return done.stdout


def joined(pieces, name):
    return [value for piece in pieces for value in piece[name].tolist()]


def test_batches_give_what_one_call_gives_behind_the_ids(folder, known):
    study, found, expected = known
    pieces = list(predicted_batches(study.coding, found, folder / "new.parquet"))
    assert [list(piece) for piece in pieces] == [["patient", "prediction"]] * 2
    np.testing.assert_allclose(joined(pieces, "prediction"), expected, rtol=1e-13)
    ids = [value for piece in pieces for value in piece["patient"].to_pylist()]
    assert ids == stays(N, 2)["patient"].to_pylist()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_command_writes_ids_and_kept_columns(folder, known, tmp_path, kind):
    out = tmp_path / f"p.{kind}"
    predict(folder, folder / "new.parquet", "--keep", "note", "--keep", "age", "--out", out)
    table = open_table(out).read()
    assert table.column_names == ["patient", "note", "age", "prediction"]
    assert table.num_rows == N
    assert table["note"].to_pylist() == stays(N, 2)["note"].to_pylist()
    told = [float(value) for value in table["prediction"].to_pylist()]
    np.testing.assert_allclose(told, known[2], rtol=1e-13)


def test_a_group_stands_behind_the_id_where_the_table_has_one(folder, known):
    _, found, expected = known
    visits = 'patient = "id"\nnote = "group"'
    study = Study.parse(STUDY.replace('patient = "id"', visits), folder=folder)
    pieces = list(predicted_batches(study.coding, found, folder / "new.parquet"))
    assert [list(piece) for piece in pieces] == [["patient", "note", "prediction"]] * 2
    notes = [value for piece in pieces for value in piece["note"].to_pylist()]
    assert notes == stays(N, 2)["note"].to_pylist()
    np.testing.assert_allclose(joined(pieces, "prediction"), expected, rtol=1e-13)
    without = {name: cells for name, cells in stays(20, 2).items() if name != "note"}
    write_table(folder / "without.csv", without)
    (piece,) = predicted_batches(study.coding, found, folder / "without.csv")
    assert list(piece) == ["patient", "prediction"]


def test_all_columns_may_be_kept(folder, tmp_path):
    out = tmp_path / "p.parquet"
    predict(folder, folder / "new.parquet", "--keep", "all", "--interval", "0.5", "--out", out)
    found = pq.read_table(out)
    expected = ["patient", "note", "age", "sex", "days", "prediction", "lower", "upper"]
    assert found.column_names == expected
    assert found["days"].to_pylist() == stays(N, 2)["days"].to_pylist()
    assert pq.ParquetFile(out).num_row_groups == 1


def test_a_query_is_predicted(folder, tmp_path, known):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "stays.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS FROM read_parquet(?)", [str(folder / "new.parquet")])
    query = "SELECT * FROM t WHERE patient < 'P00009' ORDER BY patient"
    told = json.loads(predict(folder, path, "--query", query, "--json"))
    assert told["patient"] == [f"P{k:05d}" for k in range(9)]
    np.testing.assert_allclose(told["prediction"], known[2][:9], rtol=1e-13)
    done = CliRunner().invoke(app, ["predict", str(folder / "result"), str(path)])
    assert done.exit_code == 3
    assert "must come with a query" in done.stderr


def test_a_kept_column_with_the_name_of_a_prediction_is_refused(known, tmp_path):
    columns = stays(4, 3)
    write_table(tmp_path / "t.parquet", {**columns, "prediction": columns["age"]})
    study, found, _ = known
    with pytest.raises(DataError, match="must have other names than the predictions"):
        list(predicted_batches(study.coding, found, tmp_path / "t.parquet", keep=["all"]))
    assert len(list(predicted_batches(study.coding, found, tmp_path / "t.parquet"))) == 1


@pytest.mark.parametrize("keep", [["nte"], ["age", "nothing"]])
def test_a_kept_column_that_is_not_there_is_named(folder, known, keep):
    study, found, _ = known
    with pytest.raises(DataError, match=f"missing: '{keep[-1]}'"):
        list(predicted_batches(study.coding, found, folder / "new.parquet", keep=keep))


def test_a_failed_prediction_leaves_no_file(folder, tmp_path):
    columns = stays(N, 4)
    write_table(tmp_path / "t.parquet", {**columns, "sex": ["F"] * (N - 1) + ["SECRET"]})
    out = tmp_path / "p.csv"
    words = [str(folder / "result"), str(tmp_path / "t.parquet"), "--out", str(out)]
    done = CliRunner().invoke(app, ["predict", *words])
    assert done.exit_code == 3
    assert f"in rows {BATCH_ROWS + 1} to {N}" in done.stderr
    assert "SECRET" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_ids_that_are_stored_as_decimal_numbers_are_written_whole(folder, tmp_path, kind):
    ids = pa.array([17057012345.0, 2.0, None, float("nan")], from_pandas=False)
    write_table(tmp_path / "t.parquet", {**stays(4, 3), "patient": ids})
    predict(folder, tmp_path / "t.parquet", "--out", tmp_path / f"p.{kind}")
    found = open_table(tmp_path / f"p.{kind}").read()["patient"].to_pylist()
    expected = [17057012345, 2, None, None]
    assert found == (expected if kind == "parquet" else ["17057012345", "2", "", ""])


def test_dates_that_are_kept_are_iso_texts_in_json(folder, tmp_path):
    days = pa.array([0, 1], pa.int32()).cast(pa.date32())
    moments = pa.array([0, None], pa.timestamp("ms"))
    columns = {**stays(2, 3), "seen": days, "at": moments}
    write_table(tmp_path / "t.parquet", columns)
    told = json.loads(predict(folder, tmp_path / "t.parquet", "--keep", "all", "--json"))
    assert told["seen"] == ["1970-01-01", "1970-01-02"]
    assert told["at"] == ["1970-01-01T00:00:00", None]


@pytest.mark.parametrize(
    "cells", [pa.array([[1], [2]]), pa.array([1, 2], pa.duration("s")), pa.array([b"a", b"b"])]
)
@pytest.mark.parametrize("json_too", [(), ("--json",)])
def test_what_no_table_of_texts_holds_is_not_kept(folder, tmp_path, cells, json_too):
    write_table(tmp_path / "t.parquet", {**stays(2, 3), "odd": cells})
    words = [str(folder / "result"), str(tmp_path / "t.parquet"), "--keep", "odd", *json_too]
    done = CliRunner().invoke(app, ["predict", *words])
    assert done.exit_code == 3
    assert "prediction" not in done.stdout
    assert "'odd' of the table" in (done.stdout if json_too else done.stderr)


def test_a_row_that_cannot_be_predicted_is_named_by_its_number(folder, tmp_path):
    cells = stays(4, 3) | {"sex": pa.array(["F", "unsaid", "M", "F"])}
    write_table(tmp_path / "bad.csv", cells)
    words = ["predict", str(folder / "result"), str(tmp_path / "bad.csv")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 3
    assert "See row 2 below the header." in done.stderr.replace("\n", " ")
    assert "unsaid" not in done.output
