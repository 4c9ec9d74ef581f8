"""Frames of every library with every change at one site: the right answer or a named error."""

import datetime as dt
import decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from fedcsa.data.coding import Columns
from fedcsa.data.frames import as_described_matrix, as_named_matrix
from fedcsa.data.tables import open_table
from fedcsa.errors import DataError

COLUMNS = Columns(
    {
        "patient": "group",
        "number": "id",
        "age": "number",
        "sbp": {"missing": "indicator", "fill": 120},
        "smoker": "flag",
        "stage": ["I", "II", "III"],
        "grade": [1, 2, 3],
        "ward": {"levels": ["A", "B"], "other": True},
        "seen": {"kind": "date", "since": "2020-01-01", "missing": "indicator"},
    }
)
DAYS = [dt.date(2020, 1, 2), None, dt.date(1969, 12, 31), dt.date(2024, 2, 29)]
CELLS = {
    "patient": pa.array(["p1", "p2", "p1", "p3"]),
    "number": pa.array(["N1", "N2", "N3", "N4"]),
    "age": pa.array([50.0, 61.0, 47.0, 38.0]),
    "sbp": pa.array([110.25, None, 130.1, 0.1]),
    "smoker": pa.array([True, False, True, False]),
    "stage": pa.array(["II", "I", "III", "I"]),
    "grade": pa.array([1, 2, 3, 1]),
    "ward": pa.array(["A", "B", "C", "D"]),
    "seen": pa.array(DAYS),
}
EXPECTED = [
    [50.0, 110.25, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0],
    [61.0, 120.0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 1],
    [47.0, 130.1, 0, 1, 0, 1, 0, 1, 0, 1, -18263, 0],
    [38.0, 0.1, 0, 0, 0, 0, 0, 0, 0, 1, 1520, 0],
]

# The kinds of frames --------------------------------------------------------------------------


def duck(table):
    connection = duckdb.connect()
    return connection.from_arrow(table)


FRAMES = {
    "pandas": lambda table: table.to_pandas(),
    "pandas nullable": lambda table: table.to_pandas().convert_dtypes(),
    "pandas of pyarrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.from_arrow,
    "polars lazy": lambda table: pl.from_arrow(table).lazy(),
    "pyarrow": lambda table: table,
    "duckdb": duck,
}


def described(frame, **options):
    return as_described_matrix(frame, "Source 'a'", COLUMNS, **options)[0]


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_every_frame_gives_the_same_bits(make):
    X = described(make(pa.table(CELLS)), with_group=True)
    np.testing.assert_array_equal(X[:, :-1], EXPECTED)
    assert X[0, -1] == X[2, -1]
    assert len(set(X[:, -1])) == 3
    np.testing.assert_array_equal(X, described(pa.table(CELLS), with_group=True))


@pytest.mark.parametrize("write", ["csv", "parquet"])
def test_files_give_the_bits_of_frames(tmp_path, write):
    path = tmp_path / f"table.{write}"
    if write == "csv":
        csv.write_csv(pa.table(CELLS), path)
    else:
        parquet.write_table(pa.table(CELLS), path)
    needed = COLUMNS.needed(with_outcome=False)
    X, _ = COLUMNS.encode(open_table(path).read(needed), "it", with_outcome=False)
    np.testing.assert_array_equal(X, EXPECTED)


# Changes at one site --------------------------------------------------------------------------


def texts(cells):
    return pa.array([None if cell is None else str(cell) for cell in cells.to_pylist()])


#: What may be different about a site's column, and must not change the answer.
HARMLESS = {
    "age as whole numbers": {"age": CELLS["age"].cast(pa.int64())},
    "age as small numbers": {"age": CELLS["age"].cast(pa.float32())},
    "age as texts": {"age": texts(CELLS["age"])},
    "age as whole texts": {"age": texts(CELLS["age"].cast(pa.int8()))},
    "age as decimals": {"age": CELLS["age"].cast(pa.decimal128(9, 3))},
    "age as categories": {"age": texts(CELLS["age"]).dictionary_encode()},
    "age in another order": {"age": pa.chunked_array([CELLS["age"][:1], CELLS["age"][1:]])},
    "decimals with a gap": {
        "sbp": pa.array([None if c is None else decimal.Decimal(str(c)) for c in
                         CELLS["sbp"].to_pylist()])
    },
    "texts with a gap": {"sbp": texts(CELLS["sbp"])},
    "NaN for a gap": {"sbp": pa.array([110.25, float("nan"), 130.1, 0.1])},
    "flags as numbers": {"smoker": pa.array([1, 0, 1, 0])},
    "flags as floats": {"smoker": pa.array([1.0, 0.0, 1.0, 0.0])},
    "flags as words": {"smoker": pa.array(["True", "false", "TRUE", "0"])},
    "categories": {"stage": CELLS["stage"].dictionary_encode()},
    "grades as floats": {"grade": pa.array([1.0, 2.0, 3.0, 1.0])},
    "grades as texts": {"grade": pa.array(["1", "2", "3.0", "1"])},
    "grades as categories": {"grade": pa.array(["1", "2", "3", "1"]).dictionary_encode()},
    "days as texts": {"seen": texts(CELLS["seen"])},
    "days as moments": {"seen": CELLS["seen"].cast(pa.timestamp("us"))},
    "nanoseconds": {"seen": CELLS["seen"].cast(pa.timestamp("ns"))},
    "ids as numbers": {"number": pa.array([1, 2, 3, 4])},
    "ids that are lists": {"number": pa.array([[1], [2], [3], [4]])},
    "an extra column": {"note": pa.array(["x", "y", "z", None])},
}  # fmt: skip
PLANTED = "4711-PLANTED"
#: What must be refused, and by which words.
HARMFUL = {
    "age with text": ({"age": pa.array(["50", PLANTED, "47", "38"])}, "must hold numbers; 1 of"),
    "age with a comma": ({"age": pa.array(["50,5", "61", "47", "38"])}, "must hold numbers"),
    "age with a gap": ({"age": pa.array([50.0, None, 47.0, 38.0])}, "must be complete"),
    "age infinite": ({"age": pa.array([50.0, float("inf"), 47.0, 38.0])}, "must be finite"),
    "age as days": ({"age": CELLS["seen"]}, "it holds dates or times"),
    "age as lists": ({"age": pa.array([[1.0], [2.0], [3.0], [4.0]])}, "must hold"),
    "flags of two": ({"smoker": pa.array([1, 0, 2, 0])}, "must hold only 0 and 1"),
    "flags as y": ({"smoker": pa.array(["y", "no", "no", "no"])}, "must hold only 0 and 1"),
    "another level": ({"stage": pa.array(["II", PLANTED, "I", "I"])}, "its 3 agreed level"),
    "another case": ({"stage": pa.array(["ii", "I", "I", "I"])}, "its 3 agreed level"),
    "levels as numbers": ({"stage": pa.array([2, 1, 3, 1])}, "its 3 agreed level"),
    "grades of half": ({"grade": pa.array([1.5, 2.0, 3.0, 1.0])}, "its 3 agreed level"),
    "days as numbers": ({"seen": pa.array([1, 2, 3, 4])}, "must hold dates; it holds numbers"),
    "moments of a zone": (
        {"seen": pa.compute.assume_timezone(CELLS["seen"].cast(pa.timestamp("us")), "Asia/Tokyo")},
        "moments with a time zone",
    ),
    "days of two forms": ({"seen": pa.array(["2020-01-01", "31.12.2020", None, None])},
                          "must hold dates; 1 of its 4"),
    "no age": ({"age": None}, "missing: 'age'"),
    "no days": ({"seen": None}, "missing: 'seen'"),
    "another name": ({"age": None, "AGE": CELLS["age"]}, "did you mean 'AGE'"),
    "names exchanged": ({"age": CELLS["stage"], "stage": CELLS["age"]}, "must hold numbers"),
}  # fmt: skip


def changed(change):
    """The table with the change, in another order of columns."""
    cells = {name: column for name, column in {**CELLS, **change}.items() if column is not None}
    return pa.table(dict(reversed(cells.items())))


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS)
def test_what_says_the_same_gives_the_same(change, make):
    np.testing.assert_array_equal(described(make(changed(change))), EXPECTED)


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("change", HARMFUL.values(), ids=HARMFUL)
def test_what_says_something_else_is_refused_by_name(change, make):
    with pytest.raises(DataError, match=change[1]) as caught:
        described(make(changed(change[0])))
    assert PLANTED not in str(caught.value)


@pytest.mark.parametrize(
    "cells",
    [
        [dt.date(2020, 1, 2), pd.NaT, dt.date(1969, 12, 31), dt.date(2024, 2, 29)],
        [pd.Timestamp("2020-01-02 23:30"), pd.NaT, *map(pd.Timestamp, DAYS[2:])],
        ["2020-01-02", float("nan"), "1969-12-31", "2024-02-29"],
    ],
)
def test_objects_of_pandas_are_the_days_they_are(cells):
    frame = pa.table(CELLS).to_pandas()
    frame["seen"] = pd.Series(cells, dtype=object)
    np.testing.assert_array_equal(described(frame), EXPECTED)


@pytest.mark.parametrize(
    "cells", [[1, PLANTED, 2.5, 3], [object()] * 4, [dt.date(2020, 1, 1), 1] * 2]
)
def test_objects_of_several_types_are_refused(cells):
    frame = pa.table(CELLS).to_pandas()
    frame["age"] = pd.Series(cells, dtype=object)
    with pytest.raises(
        DataError, match="Source 'a': column 'age' must hold cells of one"
    ) as caught:
        described(frame)
    assert PLANTED not in str(caught.value)


def test_a_number_among_dates_is_no_day():
    frame = pa.table(CELLS).to_pandas()
    frame["seen"] = pd.Series([dt.date(2020, 1, 1), 1, None, None], dtype=object)
    with pytest.raises(DataError, match="column 'seen' must hold cells of one"):
        described(frame)


def test_objects_of_polars_are_refused():
    frame = pl.from_arrow(pa.table(CELLS)).with_columns(pl.Series("age", [object()] * 4, pl.Object))
    with pytest.raises(DataError, match="must hold"):
        described(frame)


def test_a_frame_that_cannot_be_computed_is_refused_without_its_cells():
    frame = pl.LazyFrame({**pa.table(CELLS).to_pydict(), "age": [PLANTED] * 4})
    with pytest.raises(DataError, match="must be a frame that can be computed") as caught:
        described(frame.with_columns(pl.col("age").cast(pl.Float64)))
    assert PLANTED not in str(caught.value)


@pytest.mark.parametrize("frame", [
    pa.table([CELLS["age"], CELLS["age"]], names=["age", "age"]),
    pd.DataFrame([[1.0, 2.0]], columns=["age", "age"]),
])  # fmt: skip
def test_a_column_that_stands_twice_is_refused(frame):
    for read in (lambda: as_named_matrix(frame, "X", None), lambda: described(frame)):
        with pytest.raises(DataError, match=r"twice or more: 'age'|missing"):
            read()


# Without a description ------------------------------------------------------------------------

NUMBERS = {
    "a": pa.array([1.5, -2.0, 1e-300]),
    "b": pa.array([1, 2, 2**53 + 1]),
    "c": pa.array([True, False, True]),
    "d": pa.array([decimal.Decimal("0.1"), decimal.Decimal("0.2"), decimal.Decimal("0.3")]),
}
MATRIX = [[1.5, 1, 1, 0.1], [-2, 2, 0, 0.2], [1e-300, 2.0**53, 1, 0.3]]


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_numbers_need_no_description(make):
    for names in (list(NUMBERS), list(reversed(NUMBERS))):
        frame = make(pa.table({name: NUMBERS[name] for name in names}))
        X, found = as_named_matrix(frame, "X", ["a", "b", "c", "d"])
        np.testing.assert_array_equal(X, MATRIX)
        assert found == ("a", "b", "c", "d")
        assert as_named_matrix(frame, "X", None)[1] == tuple(names)


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"a": pa.array(["1", "2", PLANTED])}, r"it holds texts\. .*Columns.infer"),
        ({"a": pa.array([dt.date(2020, 1, 1)] * 3)}, r"holds dates or another type.*Columns.infer"),
        ({"a": pa.array(["x", "y", "z"]).dictionary_encode()}, "it holds texts"),
        ({"a": pa.array([1.0, None, 2.0])}, "must be finite, but 1 of its 3"),
        ({"a": pa.array([1.0, 1e200, 2.0])}, "at most 1e"),
        ({"a": None}, "missing: 'a'; not at the target: none"),
        ({"z": NUMBERS["a"]}, "missing: none; not at the target: 'z'"),
        ({"a": None, "A": NUMBERS["a"]}, "missing: 'a'; not at the target: 'A'"),
    ],
)  # fmt: skip
def test_what_is_no_number_must_be_described(change, words, make):
    cells = {name: cells for name, cells in {**NUMBERS, **change}.items() if cells is not None}
    with pytest.raises(DataError, match=words) as caught:
        as_named_matrix(make(pa.table(cells)), "X", list(NUMBERS))
    assert PLANTED not in str(caught.value)


# What would be read wrongly -------------------------------------------------------------------


def test_a_batch_of_pyarrow_is_read_by_its_names():
    batch = pa.record_batch({"b": [1.0, 2.0], "a": [3.0, 4.0]})
    matrix, names = as_named_matrix(batch, "X", ["a", "b"])
    assert matrix.tolist() == [[3.0, 1.0], [4.0, 2.0]]
    assert names == ("a", "b")


@pytest.mark.parametrize(
    "name", ["schema", "__arrow_c_stream__", "__arrow_c_array__", "__dataframe__"]
)
def test_a_frame_of_an_unknown_library_is_refused(name):
    X = type("Strange", (), {name: None, "__array__": lambda *_, **__: np.eye(2)})()
    with pytest.raises(DataError, match="Strange is neither"):
        as_named_matrix(X, "X", None)


def test_a_relation_with_a_column_twice_is_refused():
    relation = duckdb.connect().sql("SELECT 1.0 AS a, 2.0 AS b, 3.0 AS a")
    with pytest.raises(DataError, match="'a'"):
        as_named_matrix(relation, "X", None)
    with pytest.raises(DataError, match="'a'"):
        as_described_matrix(relation, "X", Columns({"a": "number"}))


def test_an_array_that_may_lack_the_id_or_the_group_is_refused():
    columns = Columns({"number": "id", "patient": "group", "age": "number"})
    assert as_described_matrix([[7.0, 8.0, 50.0]], "X", columns)[0].tolist() == [[50.0]]
    assert as_described_matrix([[50.0]], "X", columns)[0].tolist() == [[50.0]]
    with pytest.raises(DataError, match="the id or the group is missing"):
        as_described_matrix([[7.0, 50.0]], "X", columns)
    grouped = as_described_matrix([[8.0, 50.0]], "X", columns, with_group=True)[0]
    assert grouped[0, 0] == 50.0


@pytest.mark.parametrize(
    "cells",
    [
        [dt.datetime(2020, 1, 2), dt.datetime(2020, 1, 3, tzinfo=dt.UTC)],
        [dt.datetime(2020, 1, 3, tzinfo=dt.UTC), dt.datetime(2020, 1, 2)],
        [dt.date(2020, 1, 2), decimal.Decimal(4)],
        [dt.date(2020, 1, 2), 4],
    ],
)
def test_zones_and_numbers_among_dates_are_refused(cells):
    columns = Columns({"seen": {"kind": "date", "since": "2020-01-01"}})
    frame = pd.DataFrame({"seen": pd.Series(cells, dtype=object)})
    with pytest.raises(DataError, match="'seen' must hold cells of one type"):
        as_described_matrix(frame, "X", columns)
