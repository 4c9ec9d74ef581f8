"""Every field of every message says what it is, and what it is computed from."""

import dataclasses

import numpy as np
import pytest

from fedcsa.messages.messages import MESSAGES
from fedcsa.models.formats import FORMATS
from fedcsa.models.linear_format import LinearModel
from fedcsa.models.steps import _ARRAYS
from fedcsa.models.tree_format import _TREE_ARRAYS
from fedcsa.models.trees import Cuts, Grid
from fedcsa.site.meanings import ARRAYS, IN_SHORT, MEANINGS, SHARED, meaning_of

FIELDS = [(name, f.name) for name, kind in MESSAGES.items() for f in dataclasses.fields(kind)]


@pytest.mark.parametrize(("message", "field"), FIELDS)
def test_every_field_of_every_message_has_its_own_description(message, field):
    own = meaning_of(message, field)
    assert len(own.what) > 6
    assert own.computed_from
    every = {**SHARED, **MEANINGS[message]}
    assert [f for f, meaning in every.items() if meaning.what == own.what] == [field]


def test_no_description_is_of_a_field_that_does_not_exist():
    shared = {(m, f) for m, f in FIELDS if f in SHARED}
    assert {f for _, f in shared} == set(SHARED)
    own = {(m, f) for m, fields in MEANINGS.items() for f in fields}
    assert own == set(FIELDS) - shared


def test_every_message_is_told_in_one_sentence_of_its_own():
    assert set(IN_SHORT) == set(MESSAGES)
    assert len(set(IN_SHORT.values())) == len(MESSAGES)


def test_every_array_of_every_format_has_its_own_description():
    line, whole = LinearModel(np.zeros(1), 0.0), np.zeros(1, np.int32)
    cells = {**Grid(np.ones(1)).arrays, **Cuts(whole, np.zeros(0)).arrays}
    names = {*line.arrays, *cells, *_TREE_ARRAYS, "missing_left"}
    names |= {name for arrays in _ARRAYS.values() for name in arrays}
    fitted = {name for own in FORMATS.values() for name in own.arrays}
    assert names == fitted | set(ARRAYS)
    assert len({meaning_of("model-report", f"arrays.{name}").what for name in names}) == len(names)


def test_an_unknown_array_or_field_has_no_description_to_fall_back_on():
    for record in ("arrays.rows", "secret"):
        with pytest.raises(KeyError):
            meaning_of("model-report", record)
