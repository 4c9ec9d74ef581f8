"""Columns described in Python: what they mean, and how frames and arrays are read by them."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fedcsa.data.coding import Columns
from fedcsa.data.columns import KEYS, Feature
from fedcsa.data.frames import as_described_matrix
from fedcsa.errors import DataError, ParameterError

PLANTED = "4711-PLANTED"
COLUMNS = {
    "patient": "group",
    "age": {"kind": "number", "sd": 12},
    "smoker": "flag",
    "stage": ["I", "II", "III"],
    "sex": {"levels": ("F", "M"), "missing": "indicator"},
}
CELLS = {
    "stage": ["II", "I", "III"],
    "note": [PLANTED, PLANTED, PLANTED],
    "age": [50.5, 61.0, 47.0],
    "sex": ["M", None, "F"],
    "patient": ["p1", "p2", "p1"],
    "smoker": [True, False, True],
}
NAMES = ("age", "smoker", "stage=II", "stage=III", "sex=M", "sex=missing")
EXPECTED = [[50.5, 1, 1, 0, 1, 0], [61.0, 0, 0, 0, 0, 1], [47.0, 1, 0, 1, 0, 0]]


def refusal(action, error):
    with pytest.raises(error, match=r"must |Unknown ") as caught:
        action()
    assert PLANTED not in str(caught.value)
    return str(caught.value)


def test_a_description_is_a_coding():
    assert Columns(COLUMNS) == Columns(
        (
            Feature("patient", "group"),
            Feature("age", sd=12.0),
            Feature("smoker", "flag"),
            Feature("stage", "levels", ("I", "II", "III")),
            Feature("sex", "levels", ("F", "M"), missing="indicator"),
        )
    )


def test_every_mistake_of_a_description_is_said_at_once():
    wrong = {
        "a": "nmber",
        "b": 7,
        "c": {"knd": "flag"},
        "d": {"kind": "flag", "levels": ["x", "y"]},
        "e": ["only"],
        "f": {"sd": 0},
        "g": "levels",
    }
    lines = refusal(lambda: Columns(wrong), ParameterError).splitlines()
    assert len(lines) == len(wrong)
    assert "Did you mean 'kind'?" in lines[2]
    for name, line in zip(wrong, lines, strict=True):
        assert f"Column {name!r}" in line


@pytest.mark.parametrize("columns", [{}, {"p": "group"}, ["age"], None])
def test_a_description_has_a_feature(columns):
    refusal(lambda: Columns(columns), ParameterError)


def test_all_that_a_feature_has_may_be_said():
    also = ("other", "since", "at", "missing", "fill", "sd", "unit")
    assert list(KEYS) == ["kind", "levels", *also]


FRAMES = {
    "pandas": pd.DataFrame,
    "pandas-categories": lambda cells: pd.DataFrame(cells).astype({"stage": "category"}),
    "polars": pl.DataFrame,
    "polars-categories": lambda c: pl.DataFrame(c).with_columns(
        pl.col("stage").cast(pl.Categorical)
    ),
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_a_frame_is_encoded_by_name(make):
    coding = Columns(COLUMNS)
    X, names = as_described_matrix(make(CELLS), "X", coding)
    assert names == NAMES
    np.testing.assert_array_equal(X, EXPECTED)
    X, names = as_described_matrix(make(CELLS), "X", coding, with_group=True)
    assert names == (*NAMES, "patient")
    np.testing.assert_array_equal(X[:, :-1], EXPECTED)
    assert X[0, -1] == X[2, -1] != X[1, -1]


def test_a_frame_without_the_group_will_do_where_none_is_asked_for():
    frame = pd.DataFrame(CELLS).drop(columns="patient")
    coding = Columns(COLUMNS)
    assert as_described_matrix(frame, "X", coding)[1] == NAMES
    text = refusal(lambda: as_described_matrix(frame, "X", coding, with_group=True), DataError)
    assert "missing: 'patient'" in text


@pytest.mark.parametrize("dtype", [object, str])
def test_an_array_has_the_described_columns_in_their_order(dtype):
    cells = [CELLS[name] for name in COLUMNS if name != "sex"]
    coding = Columns({name: COLUMNS[name] for name in COLUMNS if name != "sex"})
    array = np.array(cells, dtype=dtype).T
    for X in (array, array[:, 1:]):
        found, names = as_described_matrix(X, "X", coding)
        assert names == NAMES[:4]
        np.testing.assert_array_equal(found, np.array(EXPECTED)[:, :4])
    grouped, _ = as_described_matrix(array, "X", coding, with_group=True)
    assert grouped.shape == (3, 5)
    with pytest.raises(DataError, match="must have the 4 described columns"):
        as_described_matrix(array[:, 1:], "X", coding, with_group=True)
    with pytest.raises(DataError, match="must have the 4 described columns"):
        as_described_matrix(array[:, 0], "X", coding)


def test_whole_numbers_in_an_array_are_levels():
    coding = Columns({"grade": [1, 2, 3], "flag": "flag"})
    X, _ = as_described_matrix(np.array([[2.0, 1.0], [3.0, 0.0]]), "X", coding)
    np.testing.assert_array_equal(X, [[1, 0, 1], [0, 1, 0]])


@pytest.mark.parametrize(
    ("name", "cells", "text"),
    [
        ("stage", ["I", "II", PLANTED], "agreed level"),
        ("smoker", [1, 0, 4711], "only 0 and 1"),
        ("age", ["50", PLANTED, "1"], "is text"),
        ("age", [50, PLANTED, 1.5], "cells of one type"),
        ("age", [50.0, None, 1.5], "must be complete"),
    ],
)
def test_cells_that_do_not_fit_are_counted_and_not_shown(name, cells, text):
    frame = pd.DataFrame({**CELLS, name: cells})
    coding = Columns(COLUMNS)
    assert text in refusal(lambda: as_described_matrix(frame, "X", coding), DataError)
