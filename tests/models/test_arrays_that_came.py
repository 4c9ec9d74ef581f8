"""Every bound on the words and arrays of a model that comes, one by one."""

import numpy as np
import pytest

from fedcsa.errors import ModelError
from fedcsa.models import description
from fedcsa.models.formats import open_model


@pytest.fixture
def small(monkeypatch):
    """As if a model had at most four numbers an array."""
    monkeypatch.setattr(description, "MAX_NUMBERS", 4)


def refused(words):
    return pytest.raises(ModelError, match=words)


def test_an_array_has_the_agreed_type_and_number_of_dimensions():
    arrays = {"a": np.ones(2), "b": np.ones(2, dtype=np.int32), "c": np.ones((1, 2)), "d": [1.0]}
    assert description.take(arrays, "a", np.float64, (2,)) is arrays["a"]
    for name in ("b", "c", "d", "absent"):
        with refused("an array"):
            description.take(arrays, name, np.float64, (2,))


@pytest.mark.parametrize("length", [1, 3])
def test_an_array_has_the_agreed_length(length):
    with refused("of the agreed shape"):
        description.take({"a": np.ones(length)}, "a", np.float64, (2,))


def test_an_array_of_any_length_has_an_end(small):  # noqa: ARG001
    assert len(description.take({"a": np.ones(4)}, "a", np.float64, (None,))) == 4
    with refused("of the agreed shape"):
        description.take({"a": np.ones(5)}, "a", np.float64, (None,))


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_every_number_is_finite(number):
    with refused("finite numbers"):
        description.take({"a": np.array([0.0, number])}, "a", np.float64, (2,))


@pytest.mark.parametrize("names", [("a",), ("a", "b", "c"), ("a", "c")])
def test_no_word_is_missing_and_none_too_many(names):
    description.exactly(dict.fromkeys("ab"), ("a", "b"), "words")
    with refused("no others"):
        description.exactly(dict.fromkeys(names), ("a", "b"), "words")


@pytest.mark.parametrize("value", [-1, 3, True, 1.0, "1", None])
def test_whole_numbers_are_whole_and_below_their_bound(value):
    assert description.whole_numbers([0, 2], 3, "a rule") == (0, 2)
    with refused("a rule"):
        description.whole_numbers([0, value], 3, "a rule")


@pytest.mark.parametrize(
    ("link", "n_classes"), [("logistic", 0), ("identity", 2), ("logistic", 3), ("log", 0)]
)
def test_a_line_has_the_link_of_the_studys_outcome(link, n_classes):
    arrays = {"coefficients": np.ones(2), "intercept": np.ones(1)}
    with refused("a link of the study's outcome"):
        open_model({"kind": "linear", "link": link}, arrays, 2, n_classes)
