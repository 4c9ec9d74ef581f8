"""Missing and doubled columns, and what may be suggested."""

import pytest

from fedcsa.data.columns import require_columns
from fedcsa.errors import DataError


def refusal(present, needed):
    with pytest.raises(DataError, match=r"must ") as caught:
        require_columns(present, needed, "source 'a'")
    return str(caught.value)


def test_columns_may_come_in_any_order_among_others():
    require_columns(["z", "b", "a", "z"], ["a", "b"], "source 'a'")


def test_a_missing_column_is_named_with_its_nearest_neighbour():
    assert refusal(["age", "creatinin"], ["age", "creatinine"]) == (
        "Source 'a' must have the 2 column(s) of the study; missing: 'creatinine' "
        "(did you mean 'creatinin'?)."
    )


def test_nothing_is_suggested_where_nothing_is_near():
    text = refusal(["age", "ward"], ["age", "creatinine"])
    assert "'creatinine'." in text
    assert "ward" not in text


def test_all_missing_columns_are_counted_and_some_are_named():
    text = refusal(["a"], ["a", *(f"x{i}" for i in range(8))])
    assert "missing: 'x0', 'x1', 'x2', 'x3', 'x4' and 3 more." in text


def test_a_column_that_stands_twice_is_named():
    assert refusal(["a", "b", "a"], ["a", "b"]) == (
        "Source 'a' must have every column once; twice or more: 'a'."
    )


def test_missing_and_doubled_columns_are_said_together():
    assert len(refusal(["a", "a"], ["a", "b"]).splitlines()) == 2


def test_a_row_of_values_in_place_of_names_is_not_quoted():
    text = refusal(["ages", "4711.25", "SECRET"], ["age", "sex"])
    assert "ages" not in text
    assert "Does it begin with the names of its columns" in text


@pytest.mark.parametrize("spelling", ["Age", "AGE", " age", "age ", "a_ge", "a-g-e"])
def test_a_name_that_differs_only_in_case_and_signs_is_suggested_always(spelling):
    assert f"did you mean {spelling!r}?" in refusal([spelling], ["age"])


def test_a_name_that_has_swallowed_a_row_is_not_quoted():
    assert "12.5" not in refusal(["age", "haemoglobin\n12.5\n"], ["age", "haemoglobin"])
