"""Every kind of column against loops that take one cell at a time."""

import ast
import datetime as dt
import math

import numpy as np
import pyarrow as pa
import pytest

from fedcsa.data.coding import Columns
from fedcsa.data.columns import Feature
from fedcsa.errors import DataError

PLANTED = "4711-PLANTED"


def encode(feature, cells, missing_values=()):
    column = cells if isinstance(cells, pa.ChunkedArray) else pa.chunked_array([pa.array(cells)])
    coding = Columns((feature,), None, missing_values)
    return coding.encode(pa.table({feature.name: column}), "the target", with_outcome=False)[0]


def refusal(feature, cells):
    with pytest.raises(DataError, match="must ") as caught:
        encode(feature, cells)
    assert PLANTED not in str(caught.value)
    return str(caught.value)


def slow_date(feature, cell):
    """The columns of one cell, by Python's own calendar."""
    if cell is None:
        return [float(feature.fill or 0.0), 1.0]
    day = dt.date.fromisoformat(str(cell)[:10])
    if feature.since:
        return [float((day - dt.date.fromisoformat(feature.since)).days), 0.0]
    return [(dt.date.fromisoformat(feature.at) - day).days / 365.25, 0.0]


def slow_levels(feature, cell):
    wanted = [*feature.levels, *(["other"] if feature.other else [])]
    if cell is None:
        return [0.0] * (len(wanted) - 1) + [1.0]
    text = cell.strip() if cell.strip() in feature.levels else "other"
    return [float(level == text) for level in wanted[1:]] + [0.0]


# Dates ----------------------------------------------------------------------------------------

DAYS = ["1899-12-31", "1969-12-31", "1970-01-01", "2000-02-29", None, "2024-06-30", "9999-12-31"]
SINCE = Feature("d", "date", since="2020-01-01", missing="indicator")
AT = Feature("d", "date", at="2024-06-30", missing="model", fill=50)


def moments(hour, unit="us"):
    """The same days as moments, late or early in them."""
    days = [d and dt.datetime.fromisoformat(d).replace(hour=hour, minute=30) for d in DAYS[:-1]]
    return pa.array(days, pa.timestamp(unit))


DATES = {
    "texts": pa.array(DAYS),
    "large texts": pa.array(DAYS, pa.large_string()),
    "texts in a dictionary": pa.array(DAYS).dictionary_encode(),
    "blanks around": pa.array([d and f" {d} " for d in DAYS]),
    "date32": pa.array([d and dt.date.fromisoformat(d) for d in DAYS], pa.date32()),
    "date64": pa.array([d and dt.date.fromisoformat(d) for d in DAYS], pa.date64()),
    "texts with T": pa.array([d and f"{d}T23:59:59.999" for d in DAYS]),
    "texts with a time": pa.array([d and f"{d} 23:30" for d in DAYS]),
    "early": moments(0),
    "late": moments(23),
    "seconds": moments(23, "s"),
}


@pytest.mark.parametrize("feature", [SINCE, AT], ids=["since", "at"])
@pytest.mark.parametrize("cells", DATES.values(), ids=DATES)
def test_the_day_counts_and_not_its_time(cells, feature):
    expected = [slow_date(feature, day) for day in DAYS[: len(cells)]]
    np.testing.assert_array_equal(encode(feature, pa.chunked_array([cells])), expected)


@pytest.mark.parametrize(
    "cell",
    [
        "31.12.2020", "12/31/2020", "2020-13-01", "2023-02-29", "2020-1-1", "20200101",
        "0000-01-01", "2020-01-01T25:00", "2020-01-01 noon", "2020-01-01T12:00Z",
        "2020-01-01 12:00:00+02", "2020", "43831", "٢٠٢٠-٠١-٠١", PLANTED,
    ],
)  # fmt: skip
def test_a_text_that_is_no_such_day_is_counted_and_not_shown(cell):
    text = refusal(SINCE, [cell, "2020-01-01", None])
    assert "must hold dates; 1 of its 3 cells is no such date" in text


@pytest.mark.parametrize("cells", [[43831], [1.5], [True], [dt.time(1)], [b"2020-01-01"], [[1]]])
def test_only_dates_and_texts_hold_dates(cells):
    assert "must hold dates; it holds numbers or another type" in refusal(SINCE, cells)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "+02:00"])
def test_a_moment_with_a_time_zone_has_no_day_of_its_own(zone):
    cells = pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("us", zone))
    assert "moments with a time zone, on which the day depends" in refusal(SINCE, cells)


def test_dates_that_stand_for_a_missing_cell_may_be_listed():
    codes = ("9999-12-31", "unknown")
    for cells in ([dt.date(9999, 12, 31), dt.date(2020, 1, 2)], ["unknown", "2020-01-02"]):
        np.testing.assert_array_equal(encode(SINCE, cells, codes), [[0, 1], [1, 0]])


def test_a_column_without_any_cell_is_missing():
    np.testing.assert_array_equal(encode(AT, pa.chunked_array([pa.nulls(2)])), [[50, 1], [50, 1]])
    assert "1 of its 2 cells is missing" in refusal(
        Feature("d", "date", since="2020-01-01"), ["2020-01-01", None]
    )


def test_a_date_that_is_described_otherwise_says_how():
    text = refusal(Feature("d"), [dt.date(2020, 1, 1)])
    assert 'kind = "date" with since' in text


def test_a_day_may_be_given_as_a_date():
    assert Feature("d", "date", since=dt.date(2020, 1, 1), missing="indicator") == SINCE


def test_dates_are_measured_and_not_flags():
    assert SINCE.flags == (False, True)
    assert math.isnan(SINCE.public_sd[0])
    assert Feature("d", "date", at="2020-01-01", sd=20).public_sd == (20.0,)


# Levels and gaps ------------------------------------------------------------------------------

STAGE = ["I", " II", "III ", "IV", "V", None, "other", PLANTED]


@pytest.mark.parametrize("missing", ["indicator", "model"])
def test_a_text_that_is_not_agreed_becomes_other(missing):
    feature = Feature("s", "levels", ("I", "II", "III"), other=True, missing=missing)
    assert feature.columns == ("s=II", "s=III", "s=other", "s=missing")
    expected = [slow_levels(feature, cell) for cell in STAGE]
    np.testing.assert_array_equal(encode(feature, STAGE), expected)


@pytest.mark.parametrize("other", [False, True])
def test_another_case_is_not_another_level(other):
    feature = Feature("s", "levels", ("F", "M"), other=other)
    text = refusal(feature, ["F", "f", "M"])
    assert "must hold only its 2 agreed level(s)" in text
    assert "1 of its 3 cells is something else" in text


def test_blanks_around_a_level_do_not_count_unless_they_are_agreed():
    np.testing.assert_array_equal(
        encode(Feature("s", "levels", ("F", " F", "M")), ["F", " F", " F ", "M\t"]),
        [[0, 0], [1, 0], [0, 0], [0, 1]],
    )


def test_one_level_and_all_others():
    feature = Feature("s", "levels", ("I",), other=True)
    np.testing.assert_array_equal(encode(feature, ["I", "II"]), [[0], [1]])
    assert Columns((feature,)).levels == {"s": ("I", "other")}


@pytest.mark.parametrize("kind", ["number", "flag", "levels", "date"])
def test_gaps_for_the_model_are_coded_like_an_indicator(kind):
    options = {"levels": {"levels": ("0", "1")}, "date": {"since": "2020-01-01"}}.get(kind, {})
    cells = ["2020-01-01", None] if kind == "date" else ["1", None]
    codes = [
        encode(Feature("x", kind, missing=missing, **options), cells)
        for missing in ("indicator", "model")
    ]
    np.testing.assert_array_equal(codes[0], codes[1])


# What models decode from ----------------------------------------------------------------------

EVERYTHING = Columns(
    {
        "id": "id",
        "age": "number",
        "patient": "group",
        "sbp": {"missing": "indicator", "fill": 120},
        "lactate": {"missing": "model", "unit": "mmol/L"},
        "smoker": {"kind": "flag", "missing": "indicator"},
        "sex": ["F", "M"],
        "stage": {"levels": ["I", "II"], "other": True, "missing": "indicator"},
        "ward": {"levels": ["A", "B", "C"], "missing": "model"},
        "born": {"kind": "date", "at": "2024-06-30"},
    }
)
CELLS = {
    "id": ["P1", "P2", "P3"],
    "patient": ["a", "b", "a"],
    "age": [50.0, 60.0, 70.0],
    "sbp": [110.0, None, 130.0],
    "lactate": [None, 1.5, 2.5],
    "smoker": [True, None, False],
    "sex": ["M", "F", "M"],
    "stage": ["II", None, "IV"],
    "ward": ["C", "A", None],
    "born": ["1984-06-30", "1950-01-01", "2000-12-31"],
}
#: What a model is given, by hand.
DECODED = {
    "age": [50.0, 60.0, 70.0],
    "sbp": [110.0, 120.0, 130.0],
    "sbp=missing": [0.0, 1.0, 0.0],
    "lactate": [None, 1.5, 2.5],
    "smoker": [1.0, 0.0, 0.0],
    "smoker=missing": [0.0, 1.0, 0.0],
    "sex": ["M", "F", "M"],
    "stage": ["II", "missing", "other"],
    "ward": ["C", "A", None],
    "born": [14610 / 365.25, 27209 / 365.25, 8582 / 365.25],
}


def decoded(item, row):
    """One cell of the table's own column, as its description says."""
    places = list(item["columns"])
    if item["missing"] and row[places.pop()] == 1.0:
        return None
    if not item["levels"]:
        (place,) = places
        return row[place]
    ones = [k for k, place in enumerate(places) if row[place] == 1.0]
    return item["levels"][ones[0] + 1 if ones else 0]


def test_the_own_columns_are_found_in_the_matrix():
    X, _ = EVERYTHING.encode(CELLS, "it", with_outcome=False)
    found = {item["name"]: [decoded(item, row) for row in X] for item in EVERYTHING.inputs}
    assert found == DECODED
    places = [place for item in EVERYTHING.inputs for place in item["columns"]]
    assert places == list(range(len(EVERYTHING.columns)))
    assert {item["kind"] for item in EVERYTHING.inputs} == {"number", "flag", "levels", "date"}


def test_an_id_is_read_nowhere():
    assert EVERYTHING.id == "id"
    for with_group in (False, True):
        assert "id" not in EVERYTHING.needed(with_outcome=False, with_group=with_group)
    without = {name: cells for name, cells in CELLS.items() if name != "id"}
    X, _ = EVERYTHING.encode(CELLS, "it", with_outcome=False, with_group=True)
    Y, _ = EVERYTHING.encode(without, "it", with_outcome=False, with_group=True)
    np.testing.assert_array_equal(X, Y)
    assert EVERYTHING.matrix_columns[-1] == "patient"


def test_a_description_is_read_from_what_it_writes_and_can_be_edited():
    assert Columns(EVERYTHING.described) == EVERYTHING
    text = repr(EVERYTHING).removeprefix("Columns(").removesuffix(")")
    assert Columns(ast.literal_eval(text)) == EVERYTHING
    edited = EVERYTHING.described | {"sex": ["M", "F"]}
    assert "sex=F" in Columns(edited).columns


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([2**31 - 1, 18262], pa.int32()).cast(pa.date32()),
        pa.array([-(2**31) + 10_957, 18262], pa.int32()).cast(pa.date32()),
        pa.array([2**63 - 1, 0], pa.timestamp("us")),
        pa.array([-(2**63) + 1, 0], pa.timestamp("us")),
    ],
)
def test_the_infinite_dates_of_databases_are_refused(cells):
    columns = Columns({"seen": {"kind": "date", "since": "2020-01-01"}, "age": "number"})
    table = pa.table({"seen": cells, "age": [1.0, 2.0]})
    with pytest.raises(DataError, match="1 of its 2 cells is outside the years 1 to 9999"):
        columns.encode(table, "the target", with_outcome=False)
    proposal = Columns.infer({"a": table})
    assert [feature.name for feature in proposal.features] == ["age"]
