"""How cells become numbers, and what is said, without showing one, when they cannot."""

import dataclasses
import datetime
import decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcsa.data import cells as cells_module
from fedcsa.data.cells import MISSING_VALUES
from fedcsa.data.coding import Columns
from fedcsa.data.columns import KEYS, KINDS, Feature, Outcome
from fedcsa.errors import DataError, ParameterError

AGE = Feature("age")
SEX = Feature("sex", "levels", ("F", "M"))
#: Stand for a patient's values: they must never appear in an error text.
PLANTED, SECRET = 4711.25, "SECRET"


def encode(features, columns, outcome=None, where="source 'a'"):
    """Encode a table given as a mapping; with the outcome if there is one."""
    table = pa.table({name: pa.chunked_array([values]) for name, values in columns.items()})
    coding = Columns(tuple(features), outcome)
    X, y = coding.encode(table, where, with_outcome=outcome is not None)
    return X, None if y is None else outcome.labelled(y)


def refusal(features, columns, outcome=None):
    """The error text of a table that cannot be used; it never holds a planted value."""
    with pytest.raises(DataError, match=r"must ") as caught:
        encode(features, columns, outcome)
    text = str(caught.value)
    assert str(PLANTED) not in text
    assert "4711" not in text
    assert SECRET not in text
    return text


# Numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([1, 0, 1], pa.int8()),
        pa.array([1, 0, 1], pa.uint64()),
        pa.array([1.0, 0.0, 1.0], pa.float32()),
        pa.array([1.0, 0.0, 1.0], pa.float16()),
        pa.array([True, False, True]),
        pa.array([decimal.Decimal("1.0"), decimal.Decimal("0.0"), decimal.Decimal("1.0")]),
        pa.array(["1", "0.0", " +1e0 "]),
        pa.array(["1", "0.0", "1."], pa.large_string()),
        pa.array(["1", "0", "1"]).dictionary_encode(),
        pa.array([1, 0, 1]).dictionary_encode(),
    ],
    ids=lambda cells: str(cells.type),
)
def test_every_kind_of_number_becomes_a_float(cells):
    X, y = encode([AGE], {"age": cells})
    assert X.dtype == np.float64
    assert y is None
    np.testing.assert_array_equal(X, [[1.0], [0.0], [1.0]])


@given(
    st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), max_size=40),
    st.integers(0, 20),
    st.integers(0, 40),
)
def test_floats_of_any_slice_and_chunks_are_those_of_arrow(cells, start, cut):
    """Missing cells are bits that begin anywhere in a byte."""
    whole = pa.array(cells, pa.float64())
    column = pa.chunked_array([whole[start:], whole[:0], whole[:cut]], pa.float64())
    found = cells_module._floats(column)
    assert found.tobytes() == column.to_numpy().astype(np.float64).tobytes()


def test_a_whole_number_beyond_two_to_the_53_is_rounded_and_not_refused():
    X, _ = encode([AGE], {"age": pa.array([2**53 + 1, 2**62])})
    np.testing.assert_array_equal(X[:, 0], [float(2**53 + 1), float(2**62)])


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_a_number_written_as_text_comes_back_to_the_bit(values):
    X, _ = encode([AGE], {"age": pa.array([repr(value) for value in values])})
    assert X[:, 0].tobytes() == np.array(values).tobytes()


@given(st.text(alphabet="0123456789+-.eE naif_x,", max_size=8))
def test_a_text_is_a_number_exactly_if_python_says_so_and_it_is_neither_nan_nor_odd(text):
    try:
        expected = float(text)
    except ValueError:
        expected = float("nan")
    if "_" in text or expected != expected:
        wrong = "missing" if text.strip() in MISSING_VALUES else "text"
        assert f"1 of its 1 cells is {wrong}" in refusal([AGE], {"age": pa.array([text])})
    elif np.isinf(expected):
        assert "infinite or too large" in refusal([AGE], {"age": pa.array([text])})
    else:
        assert encode([AGE], {"age": pa.array([text])})[0][0, 0] == expected


@pytest.mark.parametrize("text", ["١٢", "1,5", "0x10", "1e", "12 kg", "--1", "1 2", "1\n2"])
def test_a_text_that_only_resembles_a_number_is_text(text):
    assert "1 of its 2 cells is text" in refusal([AGE], {"age": pa.array([text, "1"])})


def test_texts_in_a_column_of_numbers_are_counted_and_not_shown():
    text = refusal([AGE], {"age": pa.array(["50", SECRET, f"{PLANTED} kg", "61"])})
    assert text == (
        "Column 'age' of source 'a' must hold numbers; 2 of its 4 cells are text. See rows 2 "
        "and 3 below the header. Correct them, with a point as the decimal sign, or list the "
        "spelling of a missing cell in missing_values."
    )


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([float("inf"), PLANTED, -float("inf")]),
        pa.array(["inf", str(PLANTED), "-Infinity"]),
        pa.array(["1e999", str(PLANTED), "-1e999"]),
    ],
)
def test_infinities_are_counted(cells):
    text = refusal([AGE], {"age": cells})
    assert "must be finite; 2 of its 3 cells are infinite or too large." in text


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([1.0, None, float("nan"), PLANTED]),
        pa.array(["1", None, None, str(PLANTED)]),
        pa.array([decimal.Decimal("4711.25"), None, None, decimal.Decimal("1.00")]),
    ],
)
def test_a_missing_number_is_an_error_unless_agreed_otherwise(cells):
    text = refusal([AGE], {"age": cells})
    assert "Column 'age' of source 'a' must be complete; 2 of its 4 cells are missing." in text
    assert 'missing = "indicator"' in text


def test_a_missing_number_becomes_the_agreed_one_and_an_indicator():
    feature = Feature("sbp", missing="indicator", fill=140)
    X, _ = encode([feature], {"sbp": pa.array([120.0, None, float("nan")])})
    assert feature.columns == ("sbp", "sbp=missing")
    np.testing.assert_array_equal(X, [[120.0, 0.0], [140.0, 1.0], [140.0, 1.0]])


def test_a_missing_number_becomes_zero_if_no_other_was_agreed():
    X, _ = encode([Feature("sbp", missing="indicator")], {"sbp": pa.array([None, 2.5])})
    np.testing.assert_array_equal(X, [[0.0, 1.0], [2.5, 0.0]])


def test_a_column_without_any_value_is_missing_throughout():
    X, _ = encode([Feature("sbp", missing="indicator")], {"sbp": pa.nulls(2)})
    np.testing.assert_array_equal(X, [[0.0, 1.0], [0.0, 1.0]])
    feature = Feature("sex", "levels", ("F", "M"), missing="indicator")
    X, _ = encode([feature], {"sex": pa.nulls(2)})
    np.testing.assert_array_equal(X, [[0.0, 1.0], [0.0, 1.0]])


def test_a_negative_zero_stays_one():
    X, _ = encode([AGE], {"age": pa.array(["-0.0"])})
    assert np.signbit(X[0, 0])


OTHER_TYPES = [
    (pa.array([datetime.date(2020, 1, 1)]), "dates or times"),
    (pa.array([datetime.datetime(2020, 1, 1)]), "dates or times"),
    (pa.array([datetime.time(4, 7)]), "dates or times"),
    (pa.array([datetime.timedelta(1)]), "dates or times"),
    (pa.array([[1.0]]), "lists or records"),
    (pa.array([{SECRET: 1.0}]), "lists or records"),
    (pa.array([b"SECRET"]), "bytes or another type"),
]


@pytest.mark.parametrize(("cells", "words"), OTHER_TYPES)
@pytest.mark.parametrize("feature", [Feature("x"), Feature("x", "levels", ("a", "b"))])
def test_dates_and_other_types_are_named_by_kind(cells, words, feature):
    assert f"it holds {words}" in refusal([feature], {"x": cells})


# Levels ---------------------------------------------------------------------------------------


def test_all_levels_but_the_first_become_one_column_each_in_the_agreed_order():
    feature = Feature("sex", "levels", ("M", "F", "X"))
    X, _ = encode([feature], {"sex": pa.array(["F", "M", "X"])})
    assert feature.columns == ("sex=F", "sex=X")
    np.testing.assert_array_equal(X, [[1, 0], [0, 0], [0, 1]])


@pytest.mark.parametrize("levels", [("1", "2"), (1, 2)])
@pytest.mark.parametrize(
    "cells",
    [
        pa.array([2, 1], pa.int32()),
        pa.array(["2", "1"]),
        pa.array(["2", "1"]).dictionary_encode(),
        pa.array([2.0, 1.0]),
        pa.array(["2.0", "1.00"]),
        pa.array([decimal.Decimal("2.0"), decimal.Decimal("1.0")]),
    ],
    ids=lambda cells: str(getattr(cells, "type", cells)),
)
def test_whole_numbers_are_levels_by_their_text(levels, cells):
    X, _ = encode([Feature("grade", "levels", levels)], {"grade": cells})
    np.testing.assert_array_equal(X, [[1], [0]])


@pytest.mark.parametrize("levels", [("true", "false"), (True, False), ("True", "False")])
@pytest.mark.parametrize(
    "cells", [pa.array([False, True]), pa.array(["false", "TRUE"]), pa.array(["False", "True"])]
)
def test_true_and_false_are_levels_however_they_are_written(levels, cells):
    X, _ = encode([Feature("smoker", "levels", levels)], {"smoker": cells})
    np.testing.assert_array_equal(X, [[1], [0]])


def test_case_matters_for_all_other_levels():
    assert "1 of its 2 cells is something else" in refusal([SEX], {"sex": pa.array(["f", "M"])})
    feature = Feature("flag", "levels", ("true", "unknown"))
    assert "1 of its 1 cells is something" in refusal([feature], {"flag": pa.array(["TRUE"])})


def test_a_leading_zero_is_part_of_a_level():
    feature = Feature("ward", "levels", ("01", "1"))
    X, _ = encode([feature], {"ward": pa.array(["1", "01"])})
    np.testing.assert_array_equal(X, [[1], [0]])
    assert "2 of its 2 cells are something" in refusal(
        [Feature("ward", "levels", ("1", "2"))], {"ward": pa.array(["01", "1.50"])}
    )


def test_half_a_level_is_none():
    text = refusal([Feature("grade", "levels", (1, 2))], {"grade": pa.array([1.5, 1.0, PLANTED])})
    assert "must hold only its 2 agreed level(s); 2 of its 3 cells are something else." in text


def test_an_unknown_level_is_counted_and_not_shown():
    text = refusal([SEX], {"sex": pa.array(["F", SECRET, "M", SECRET])})
    assert text == (
        "Column 'sex' of source 'a' must hold only its 2 agreed level(s); 2 of its 4 cells are "
        "something else. See rows 2 and 4 below the header. Check spelling and case, or agree on a "
        "further level."
    )


@pytest.mark.parametrize(
    ("levels", "cells"),
    [(("F", "M"), pa.array(["M", None])), ((1, 2), pa.array([2.0, float("nan")]))],
)
def test_a_missing_level_is_an_error_unless_agreed_otherwise(levels, cells):
    text = refusal([Feature("sex", "levels", levels)], {"sex": cells})
    assert "must be complete; 1 of its 2 cells is missing." in text
    feature = Feature("sex", "levels", levels, missing="indicator")
    X, _ = encode([feature], {"sex": cells})
    assert feature.columns[-1] == "sex=missing"
    np.testing.assert_array_equal(X, [[1, 0], [0, 1]])


@given(
    levels=st.lists(st.text(max_size=4), min_size=2, max_size=5, unique=True),
    data=st.data(),
)
def test_the_columns_say_exactly_which_level_a_cell_has(levels, data):
    feature = Feature("x", "levels", tuple(levels), missing="indicator")
    cells = data.draw(st.lists(st.sampled_from([*levels, None]), min_size=1, max_size=12))
    X, _ = encode([feature], {"x": pa.array(cells, pa.string())})
    first = 1.0 - X.sum(axis=1)
    assert set(first) <= {0.0, 1.0}
    chosen = [[*levels, None][position] for position in np.column_stack([first, X]).argmax(axis=1)]
    assert chosen == cells


# Flags ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([1, 0], pa.int8()),
        pa.array([1.0, 0.0]),
        pa.array([True, False]),
        pa.array(["1", " 0 "]),
        pa.array(["1.0", "0.00"]),
        pa.array(["TRUE", "false"]),
        pa.array(["YES", "no"]),
        pa.array(["true", "0"]).dictionary_encode(),
        pa.array([decimal.Decimal("1.0"), decimal.Decimal("0.0")]),
    ],
    ids=lambda cells: str(cells.type),
)
def test_a_flag_is_0_or_1_however_it_is_written(cells):
    feature = Feature("smoker", "flag")
    assert feature.columns == ("smoker",)
    np.testing.assert_array_equal(encode([feature], {"smoker": cells})[0], [[1.0], [0.0]])


@pytest.mark.parametrize(
    ("cells", "count"),
    [
        (pa.array([0.0, 0.5, PLANTED]), 2),
        (pa.array(["y", "0", "1"]), 1),
        (pa.array([2, 1, 0]), 1),
    ],
)
def test_a_flag_that_is_neither_is_counted_and_not_shown(cells, count):
    text = refusal([Feature("smoker", "flag")], {"smoker": cells})
    are = "is" if count == 1 else "are"
    assert "must hold only 0 and 1, or true and false, or yes and no;" in text
    assert f"{count} of its 3 cells {are} something else." in text


def test_a_missing_flag_is_an_error_unless_agreed_otherwise():
    cells = pa.array([True, None])
    assert "1 of its 2 cells is missing" in refusal([Feature("x", "flag")], {"x": cells})
    X, _ = encode([Feature("x", "flag", missing="indicator")], {"x": cells})
    np.testing.assert_array_equal(X, [[1, 0], [0, 1]])


@pytest.mark.parametrize(("cells", "words"), OTHER_TYPES)
@pytest.mark.parametrize("kind", ["flag", "group"])
def test_a_flag_or_a_group_is_no_date(kind, cells, words):
    coding = Columns((AGE, Feature("x", kind)))
    table = pa.table({"age": pa.array([1.0]), "x": cells})
    with pytest.raises(DataError, match=f"it holds {words}") as caught:
        coding.encode(table, "it", with_outcome=False, with_group=True)
    assert SECRET not in str(caught.value)


# The group ------------------------------------------------------------------------------------


def grouped(cells):
    coding = Columns((Feature("patient", "group"), AGE))
    table = pa.table({"patient": cells, "age": pa.array([50.0] * len(cells))})
    return coding.encode(table, "source 'a'", with_outcome=False, with_group=True)[0]


def mixed(value):
    """splitmix64's finaliser, in whole numbers of any size."""
    cut = 2**64 - 1
    value = (value + 0x9E3779B97F4A7C15) & cut
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & cut
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & cut
    return value ^ (value >> 31)


def slow_hash(text):
    letters = text.encode()
    total = sum(mixed(256 * place + letter) for place, letter in enumerate(letters)) % 2**64
    return float(mixed(total ^ len(letters)) >> 11)


@given(st.lists(st.text(max_size=6), min_size=1, max_size=9))
def test_a_group_is_the_hash_that_loops_give(texts):
    kept = [text for text in texts if pc.utf8_trim_whitespace(text).as_py() not in MISSING_VALUES]
    if kept:
        cells = pa.array(["", *kept]).slice(1)  # not at the beginning of its buffer
        expected = [slow_hash(pc.utf8_trim_whitespace(text).as_py()) for text in kept]
        assert grouped(cells)[:, 1].tolist() == expected
        assert grouped(pa.array(kept).dictionary_encode())[:, 1].tolist() == expected


def test_a_million_groups_hardly_share_a_number():
    numbers = grouped(pa.array(np.arange(1_000_000)))[:, 1]
    assert len(np.unique(numbers)) == 1_000_000


def test_the_group_is_the_last_column_and_only_where_it_is_asked_for():
    X = grouped(pa.array(["p1", "p2", "p1"]))
    assert X.shape == (3, 2)
    assert X[:, 0].tolist() == [50.0] * 3
    assert X[0, 1] == X[2, 1] != X[1, 1]
    coding = Columns((Feature("patient", "group"), AGE))
    without, _ = coding.encode(pa.table({"age": [50.0]}), "the target", with_outcome=False)
    assert without.shape == (1, 1)


def test_a_group_is_a_whole_number_that_a_float_holds_and_stays_the_same():
    numbers = grouped(pa.array([f"p{i}" for i in range(1000)]))[:, 1]
    assert len(set(numbers)) == 1000
    assert (numbers == np.floor(numbers)).all()
    assert numbers.min() >= 0
    assert 2**51 < numbers.max() < 2**53
    assert grouped(pa.array(["patient 17"]))[0, 1] == slow_hash("patient 17")


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([17, 4], pa.int64()),
        pa.array([17.0, 4.0]),
        pa.array([" 17", "4 "]),
        pa.array(["17", "4"]).dictionary_encode(),
        pa.array([decimal.Decimal("17.0"), decimal.Decimal("4.0")]),
    ],
    ids=lambda cells: str(cells.type),
)
def test_a_group_is_known_by_its_text(cells):
    np.testing.assert_array_equal(grouped(cells), grouped(pa.array(["17", "4"])))


@pytest.mark.parametrize(
    "cells", [pa.array(["a", None]), pa.array([1.0, float("nan")]), pa.array(["a", "  "])]
)
def test_a_row_without_a_group_is_refused(cells):
    with pytest.raises(DataError, match="Column 'patient' of source 'a' must be complete; 1 of"):
        grouped(cells)


def test_chunks_with_dictionaries_of_their_own_agree():
    chunks = [pa.array(["F", "M"]).dictionary_encode(), pa.array(["M", "F"]).dictionary_encode()]
    table = pa.table({"sex": pa.chunked_array(chunks)})
    X, _ = Columns((SEX,)).encode(table, "the target", with_outcome=False)
    np.testing.assert_array_equal(X[:, 0], [0, 1, 1, 0])


@pytest.mark.parametrize("unused", [0, 9])
def test_a_dictionary_may_hold_gaps_and_texts_that_no_cell_has(unused):
    dictionary = pa.array(["M", None, "F", "NA", *[SECRET] * unused])
    cells = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, None], pa.uint8()), dictionary)
    feature = Feature("sex", "levels", ("F", "M"), missing="indicator")
    X, _ = encode([feature], {"sex": cells})
    np.testing.assert_array_equal(X, [[1, 0], [0, 1], [0, 0], [0, 1], [0, 1]])


def test_of_a_dictionary_only_texts_that_some_cell_has_are_looked_at(monkeypatch):
    asked = []
    monkeypatch.setattr(cells_module, "level_text", lambda value: asked.append(value) or value)
    dictionary = pa.array(["F", "M", *(f"level {k}" for k in range(1_000))])
    encode([SEX], {"sex": pa.DictionaryArray.from_arrays(pa.array([1, 0, 1]), dictionary)})
    assert set(asked) == {"F", "M"}


# The outcome ----------------------------------------------------------------------------------


def test_an_outcome_of_numbers():
    _, y = encode([AGE], {"age": pa.array([1, 2]), "y": pa.array(["0.5", "-3"])}, Outcome("y"))
    np.testing.assert_array_equal(y, [0.5, -3.0])
    assert y.dtype == np.float64


@pytest.mark.parametrize(
    ("levels", "cells"),
    [
        (("no", "yes"), pa.array(["yes", "no"])),
        ((0, 1), pa.array([1, 0])),
        ((0, 1), pa.array(["1", "0"])),
        ((0, 1), pa.array([1.0, 0.0])),
        ((False, True), pa.array([True, False])),
        ((False, True), pa.array(["True", "False"])),
    ],
)
def test_labels_are_those_that_were_declared(levels, cells):
    _, y = encode([AGE], {"age": pa.array([1, 2]), "y": cells}, Outcome("y", levels))
    assert y.tolist() == [levels[1], levels[0]]
    assert [type(label) for label in y.tolist()] == [type(levels[0])] * 2


@pytest.mark.parametrize("outcome", [Outcome("y"), Outcome("y", ("4711.25", "no"))])
def test_a_missing_outcome_is_always_an_error(outcome):
    columns = {"age": pa.array([1, 2, 3]), "y": pa.array(["4711.25", None, None])}
    text = refusal([AGE], columns, outcome)
    assert "Outcome 'y' of source 'a' must be complete; 2 of its 3 cells are missing." in text
    assert "indicator" not in text


def test_an_unknown_class_is_counted_and_not_shown():
    columns = {"age": pa.array([1, 2]), "y": pa.array(["no", SECRET])}
    text = refusal([AGE], columns, Outcome("y", ("no", "yes")))
    assert "Outcome 'y' of source 'a' must hold only its 2 agreed level(s); 1 of its 2" in text


def test_an_outcome_that_is_not_asked_for_is_not_looked_at():
    coding = Columns((AGE,), Outcome("y"))
    table = pa.table({"age": [1.0], "y": [datetime.date(2020, 1, 1)]})
    X, y = coding.encode(table, "the target", with_outcome=False)
    assert y is None
    np.testing.assert_array_equal(X, [[1.0]])


def test_a_coding_without_outcome_cannot_give_one():
    with pytest.raises(ParameterError, match="'with_outcome' parameter must be False"):
        Columns((AGE,)).encode(pa.table({"age": [1.0]}), "it", with_outcome=True)


# The table ------------------------------------------------------------------------------------


def test_features_come_in_the_agreed_order_and_further_columns_are_ignored():
    columns = {"note": pa.array([SECRET]), "sex": pa.array(["M"]), "age": pa.array([50])}
    X, _ = encode([AGE, SEX], columns)
    np.testing.assert_array_equal(X, [[50, 1]])
    assert Columns((AGE, SEX)).columns == ("age", "sex=M")


def test_a_mapping_of_arrays_is_a_table():
    X, _ = Columns((AGE,)).encode({"age": np.array([1.0, 2.0])}, "it", with_outcome=False)
    np.testing.assert_array_equal(X, [[1.0], [2.0]])


@pytest.mark.parametrize(
    "columns", [{"age": [1.0, SECRET]}, {"age": [1.0], "sex": [SECRET, SECRET]}]
)
def test_a_mapping_that_is_no_table_is_refused_without_a_cell(columns):
    with pytest.raises(DataError, match="The target must be a table") as caught:
        Columns((AGE,)).encode(columns, "the target", with_outcome=False)
    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_table_without_rows_is_refused():
    assert refusal([AGE], {"age": pa.array([], pa.float64())}) == (
        "Source 'a' must have rows; its table has none. Check which file it names."
    )


def test_everything_that_is_wrong_is_said_at_once():
    columns = {
        "age": pa.array(["x", "inf", None]),
        "sex": pa.array(["F", SECRET, None]),
        "y": pa.array([1.0, None, float("inf")]),
    }
    lines = refusal([AGE, SEX], columns, Outcome("y")).splitlines()
    expected = ["is text", "is infinite", "is missing", "something else", "is missing"]
    expected += ["is infinite", "is missing"]
    assert len(lines) == len(expected)
    for line, words in zip(lines, expected, strict=True):
        assert words in line
        assert line.count("1 of its 3 cells") == 1


#: An example of everything that may be said of a column, and of which kinds.
SAID = {
    "levels": (("a", "b"), {"levels"}),
    "other": (True, {"levels"}),
    "since": ("2020-01-01", {"date"}),
    "at": ("2020-01-01", {"date"}),
    "missing": ("indicator", {"number", "flag", "levels", "date"}),
    "fill": (1.0, {"number", "date"}),
    "sd": (1.0, {"number", "flag", "levels", "date"}),
    "unit": ("mg/dL", {"number"}),
}


@pytest.mark.parametrize("option", [name for name in KEYS if name != "kind"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_option_is_said_of_its_kinds_only(option, kind):
    value, kinds = SAID[option]
    options = {"levels": ("a", "b")} if kind == "levels" else {}
    options |= {"since": "2020-01-01"} if kind == "date" and option != "at" else {}
    options |= {"missing": "model"} if option == "fill" and kind in SAID["missing"][1] else {}
    options[option] = value
    if kind in kinds:
        assert getattr(Feature("x", kind, **options), option) == value
    else:
        with pytest.raises(ParameterError, match=f"'{option}' parameter must be left out unless"):
            Feature("x", kind, **options)


# The agreement --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"name": ""}, "'name' parameter must be a text that is not empty"),
        (
            {"kind": "level"},
            r"'kind' parameter must be one of \['number', 'flag', 'levels', 'date'",
        ),
        ({"kind": "levels"}, "'levels' parameter must be two or more, or one beside other"),
        ({"kind": "levels", "levels": ("a",)}, "'levels' parameter must be two or more"),
        ({"kind": "levels", "other": True}, "'levels' parameter must be two or more"),
        ({"kind": "levels", "levels": ("a", "b"), "other": 1}, "'other' parameter must be true"),
        ({"kind": "levels", "levels": ("a", "other"), "other": True}, "must be without 'other'"),
        (
            {"kind": "levels", "levels": ("missing", "a"), "missing": "model"},
            "must be without 'missing'",
        ),
        ({"kind": "levels", "levels": ("a", "a")}, "'levels' parameter must be distinct"),
        ({"kind": "levels", "levels": ("1", 1)}, "'levels' parameter must be distinct"),
        ({"kind": "levels", "levels": (1.5,)}, "'levels' parameter must be texts, whole numbers"),
        ({"kind": "levels", "levels": "FM"}, "'levels' parameter must be texts, whole numbers"),
        ({"missing": "drop"}, r"must be one of \['error', 'indicator', 'model'\]"),
        ({"fill": 1.0}, "'fill' parameter must be left out unless missing cells are expected"),
        ({"kind": "date"}, "must be described with one of 'since' and 'at'. Got 'none'"),
        ({"kind": "date", "since": "2020-01-01", "at": "2020-01-01"}, "with one of 'since'"),
        ({"kind": "date", "since": "01.02.2020"}, "'since' parameter must be a day, written like"),
        ({"kind": "date", "at": "2023-02-29"}, "'at' parameter must be a day, written like"),
        ({"kind": "date", "at": datetime.datetime(2020, 1, 1)}, "'at' parameter must be a day"),
        ({"kind": "date", "at": 2020}, "'at' parameter must be a day"),
        ({"unit": 3}, "'unit' parameter must be a text"),
        ({"missing": "indicator", "fill": float("nan")}, "'fill' parameter must be a finite"),
        ({"missing": "indicator", "fill": True}, "'fill' parameter must be a finite"),
        ({"sd": 0}, "'sd' parameter must be a positive number"),
        ({"sd": float("inf")}, "'sd' parameter must be a positive number"),
    ],
)
def test_a_feature_that_cannot_be_meant_is_refused(options, rule):
    with pytest.raises(ParameterError, match=rule):
        Feature(**{"name": "x", **options})


@pytest.mark.parametrize(
    ("levels", "rule"),
    [
        (("a",), "two or more, or left out"),
        (("a", "a"), "distinct"),
        (("a", 1), "all of one type"),
        ((1, True), "all of one type"),
        ((0.5, 1.5), "texts, whole numbers, or true and false"),
    ],
)
def test_classes_that_cannot_be_meant_are_refused(levels, rule):
    with pytest.raises(ParameterError, match=f"'levels' parameter must be {rule}"):
        Outcome("y", levels)


def test_lists_become_tuples_and_nothing_can_be_changed():
    coding = Columns([Feature("x", "levels", ["a", 1])], Outcome("y", ["no", "yes"]))
    assert coding == Columns((Feature("x", "levels", ("a", "1")),), Outcome("y", ("no", "yes")))
    for record in (coding, coding.features[0], coding.outcome):
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign"):
            record.name = "z"


def test_an_outcome_has_a_name():
    with pytest.raises(ParameterError, match="'name' parameter must be a text that is not empty"):
        Outcome("")


@pytest.mark.parametrize(
    ("features", "outcome"),
    [
        ((AGE, AGE), None),
        ((AGE,), Outcome("age")),
        ((Feature("a", "levels", ("b", "c")), Feature("a=c")), None),
        ((AGE, Feature("age", "id")), None),
        ((AGE, Feature("y", "id")), Outcome("y")),
        ((AGE, Feature("age", "group")), None),
        ((AGE, Feature("y", "group")), Outcome("y")),
        ((SEX, Feature("sex=M", "group")), None),
    ],
)
def test_one_name_stands_for_one_column(features, outcome):
    with pytest.raises(ParameterError, match="must be columns and an outcome of distinct names"):
        Columns(features, outcome)


@pytest.mark.parametrize("features", [(), (Feature("patient", "group"),), (Feature("n", "id"),)])
def test_a_coding_needs_a_feature(features):
    with pytest.raises(ParameterError, match="at least one feature"):
        Columns(features, Outcome("y"))


@pytest.mark.parametrize("kind", ["id", "group"])
def test_rows_are_named_and_belong_together_in_one_way_only(kind):
    with pytest.raises(ParameterError, match=f"at most one {kind}"):
        Columns((AGE, Feature("patient", kind), Feature("ward", kind)))


def test_every_column_has_its_public_scale_and_says_if_it_is_a_flag():
    sbp = Feature("sbp", missing="indicator", sd=20)
    sex = Feature("sex", "levels", ("F", "M"), sd=0.4)
    stage = Feature("stage", "levels", ("I", "II", "III"), missing="indicator")
    coding = Columns((sbp, Feature("patient", "group"), sex, stage, Feature("smoker", "flag"), AGE))
    assert coding.columns == (
        "sbp", "sbp=missing", "sex=M", "stage=II", "stage=III", "stage=missing", "smoker", "age",
    )  # fmt: skip
    np.testing.assert_array_equal(
        coding.public_sd, [20, 0.5, 0.4, 0.5, 0.5, 0.5, 0.5, float("nan")]
    )
    assert coding.flags == (False, True, True, True, True, True, True, False)
    assert coding.group == "patient"
    assert coding.matrix_columns == (*coding.columns, "patient")
    assert Columns((AGE,)).group == ""
    assert Columns((AGE,)).matrix_columns == ("age",)


@pytest.mark.parametrize(
    ("feature", "cells"),
    [
        (Feature("x", missing="indicator"), pa.array([1.0, -999.0])),
        (Feature("x", missing="indicator"), pa.array([1, -999])),
        (Feature("x", missing="indicator"), pa.array(["1", "-999"])),
        (Feature("x", "levels", ("1", "2"), missing="indicator"), pa.array([2, -999])),
        (Feature("x", "levels", ("1", "2"), missing="indicator"), pa.array([2.0, -999.0])),
        (Feature("x", "flag", missing="indicator"), pa.array([1, -999])),
    ],
)
def test_a_number_that_stands_for_a_missing_cell_does_so_in_every_type(feature, cells):
    coding = Columns((feature,), None, ("-999",))
    X, _ = coding.encode(pa.table({"x": cells}), "source 'a'", with_outcome=False)
    np.testing.assert_array_equal(X, [[1.0, 0.0], [0.0, 1.0]])


def test_levels_of_a_frame_may_be_numbers_of_numpy():
    levels = list(np.unique(np.array([2, 1], dtype=np.int64)))
    assert Feature("x", "levels", levels).levels == ("1", "2")
