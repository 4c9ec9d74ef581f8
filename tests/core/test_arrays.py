"""What an array must be, and what the refusals say and do not say."""

import datetime
import decimal

import numpy as np
import pandas as pd
import pytest

from fedcsa.core.arrays import as_matrix, as_outcome, as_vector, read_only
from fedcsa.errors import DataError

#: Stands for a patient's value: it must never appear in an error text.
PLANTED = 123456.789


@pytest.mark.parametrize(
    "values",
    [
        [[1, 2], [3, 4]],
        ((1.0, 2.0), (3.0, 4.0)),
        np.array([[1, 2], [3, 4]], dtype=np.int8),
        np.array([[1, 2], [3, 4]], dtype=np.uint64),
        np.array([[1, 2], [3, 4]], dtype=np.float32),
        np.array([[1, 2], [3, 4]], dtype=object),
        [[decimal.Decimal(1), 2.0], [3, 4]],
        pd.DataFrame({"a": [1, 3], "b": [2.0, 4.0]}),
    ],
)
def test_a_table_of_numbers_becomes_a_float_matrix(values):
    matrix = as_matrix(values, "X")
    assert matrix.dtype == np.float64
    np.testing.assert_array_equal(matrix, [[1.0, 2.0], [3.0, 4.0]])


def test_booleans_become_zero_and_one():
    np.testing.assert_array_equal(as_matrix([[True, False]], "X"), [[1.0, 0.0]])


def test_a_transposed_or_strided_table_becomes_contiguous():
    X = np.arange(12.0).reshape(3, 4)
    matrix = as_matrix(X.T[::2], "X")
    assert matrix.flags.c_contiguous
    np.testing.assert_array_equal(matrix, [[0.0, 4.0, 8.0], [2.0, 6.0, 10.0]])


def test_one_cell_is_a_matrix():
    assert as_matrix([[7]], "X", n_columns=1).shape == (1, 1)


@pytest.mark.parametrize(
    ("values", "dimensions"), [([1.0, 2.0], 1), (np.zeros((2, 2, 2)), 3), (np.zeros(0), 1)]
)
def test_a_matrix_must_have_two_dimensions(values, dimensions):
    with pytest.raises(DataError, match=rf"X must be a matrix .* has {dimensions} dimension"):
        as_matrix(values, "X")


def test_a_matrix_must_have_the_columns_of_its_partner():
    with pytest.raises(DataError, match=r"X_target must have 3 column\(s\).*; it has 2\."):
        as_matrix(np.zeros((4, 2)), "X_target", n_columns=3)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_a_matrix_must_not_be_empty(shape):
    with pytest.raises(DataError, match=r"X must have rows and columns; its shape is \(\d, \d\)"):
        as_matrix(np.zeros(shape), "X")


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ([np.nan], "1 of its 4 cells is NaN or infinite"),
        ([np.inf, -np.inf], "2 of its 4 cells are NaN or infinite"),
        ([np.nan, np.inf, -np.inf], "3 of its 4 cells are NaN or infinite"),
    ],
)
def test_cells_that_are_not_finite_are_counted(cells, text):
    values = np.array(cells + [PLANTED] * (4 - len(cells)))
    for array, check in ((values.reshape(2, 2), as_matrix), (values, as_vector)):
        with pytest.raises(DataError, match=text):
            check(array, "X")


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ([1.1e150], "1 of its 4 cells is larger"),
        ([1e308, -1e308], "2 of its 4 cells are larger"),
    ],
)
def test_cells_whose_squares_overflow_are_counted_and_not_shown(cells, text):
    values = np.array(cells + [PLANTED] * (4 - len(cells))).reshape(2, 2)
    with pytest.raises(DataError, match=text) as caught:
        as_matrix(values, "X")
    assert "X must hold numbers of at most 1e+150 in size" in str(caught.value)
    assert not any(str(value) in str(caught.value) for value in (PLANTED, *cells))
    assert as_matrix([[1e150, -1e150]], "X").shape == (1, 2)


@pytest.mark.parametrize("values", [[1.0, 2.0], [[1.0], [2.0]], pd.Series([1, 2]), (True, 2)])
def test_one_column_becomes_a_vector(values):
    vector = as_vector(values, "y", n_rows=2)
    assert vector.dtype == np.float64
    np.testing.assert_array_equal(vector, [1.0, 2.0])


def test_a_vector_may_be_empty_until_a_length_is_asked_for():
    assert as_vector([], "y").shape == (0,)
    with pytest.raises(DataError, match=r"y must have 1 row\(s\); it has 0"):
        as_vector([], "y", n_rows=1)


@pytest.mark.parametrize("shape", [(2, 2), (1, 2), (2, 1, 1)])
def test_a_vector_must_be_one_column(shape):
    with pytest.raises(DataError, match=r"y must be one column; its shape is \(\d, \d"):
        as_vector(np.ones(shape), "y")


def test_a_vector_must_have_the_rows_of_its_partner():
    with pytest.raises(DataError, match=r"y must have 3 row\(s\); it has 2\."):
        as_vector([1.0, 2.0], "y", n_rows=3)


NOT_NUMBERS = {
    "text": [[PLANTED, "high"]],
    "text that holds the value": [[f"{PLANTED} mmHg", 1.0]],
    "text in an object array": np.array([[PLANTED, "high"]], dtype=object),
    "value as text in an object array": np.array([[f"{PLANTED} mmHg", 1]], dtype=object),
    "numbers typed as text": [["1", "2"]],
    "date": [[PLANTED, datetime.date(2020, 1, 2)]],
    "time": np.array([["2020-01-02", "2020-01-03"]], dtype="datetime64[D]"),
    "duration": np.array([[1, 2]], dtype="timedelta64[D]"),
    "complex": np.array([[PLANTED + 1j, 2.0]]),
    "ragged": [[PLANTED, 1.0], [2.0]],
    "bytes": [[b"1", b"2"]],
    "pandas text column": pd.DataFrame({"a": [PLANTED, 2.0], "b": ["low", "high"]}),
    "dict": {"a": PLANTED},
}


@pytest.mark.parametrize("values", NOT_NUMBERS.values(), ids=NOT_NUMBERS)
@pytest.mark.parametrize("check", [as_matrix, as_vector])
def test_cells_that_are_not_numbers_are_refused_without_quoting_them(check, values):
    with pytest.raises(DataError, match=r"blood must hold numbers; .* Encode categories") as caught:
        check(values, "blood")
    assert "123456" not in str(caught.value)
    # What numpy said quotes the cell, so it must not be printed below ours.
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_numbers_typed_as_text_are_refused_in_an_object_array_too():
    with pytest.raises(DataError, match="must hold numbers"):
        as_matrix(np.array([[1.0, "2"]], dtype=object), "X")


def test_a_whole_number_too_large_for_a_float_is_refused():
    with pytest.raises(DataError, match="X must"):
        as_matrix([[10**400, 1]], "X")


@pytest.mark.parametrize(
    "values",
    [
        [[PLANTED, np.nan]],
        [[PLANTED, None]],
        pd.DataFrame({"a": [PLANTED, np.nan]}),
        pd.DataFrame({"a": pd.array([123456, None], dtype="Int64")}),
    ],
)
def test_the_text_about_a_missing_cell_does_not_quote_its_neighbours(values):
    with pytest.raises(DataError, match="X must") as caught:
        as_matrix(values, "X")
    assert "123456" not in str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda: as_matrix([PLANTED, PLANTED], "X"),
        lambda: as_matrix([[PLANTED]], "X", n_columns=2),
        lambda: as_vector([[PLANTED, PLANTED]], "y"),
        lambda: as_vector([PLANTED], "y", n_rows=2),
    ],
)
def test_the_text_about_a_shape_does_not_quote_a_cell(call):
    with pytest.raises(DataError, match=r"[Xy] must") as caught:
        call()
    assert "123456" not in str(caught.value)


def test_a_read_only_view_cannot_be_written_and_leaves_its_base_alone():
    array = np.arange(3.0)
    view = read_only(array)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 9.0
    assert array.flags.writeable
    assert np.shares_memory(view, array)
    np.testing.assert_array_equal(view, [0.0, 1.0, 2.0])


@pytest.mark.parametrize(("size", "word"), [(1e61, "larger"), (1e-61, "smaller"), (1e-310, "sm")])
def test_outcomes_whose_fourth_powers_are_no_numbers_are_refused(size, word):
    with pytest.raises(DataError, match=f"between 1e-60 and 1e.60; they are {word}"):
        as_outcome(np.array([0.0, -size]), (), "y")
    for sound in (1e59, 1e-59, 0.0):
        assert as_outcome(np.array([0.0, sound]), (), "y").tolist() == [0.0, sound]
