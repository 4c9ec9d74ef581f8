"""The exception tree is the one drawn in its docstring, and refuses in one sentence."""

import inspect
import re

import pytest

from fedcsa import errors
from fedcsa.errors import (
    DataError,
    FedCSAError,
    MissingExtraError,
    ParameterError,
    PolicyError,
    must,
)

CLASSES = [
    value
    for _, value in inspect.getmembers(errors, inspect.isclass)
    if issubclass(value, FedCSAError)
]


def drawn_tree():
    """Parent of every name in the docstring's drawing, from its indentation."""
    parents, path = {}, []
    for line in errors.__doc__.splitlines():
        match = re.match(r"^    ([│├└─ ]*)(\w+Error)\b", line)
        if match:
            depth = len(match.group(1)) // 4
            path = [*path[:depth], match.group(2)]
            parents[match.group(2)] = path[-2] if depth else "Exception"
    return parents


def test_the_tree_in_the_docstring_is_the_tree():
    def parent(cls):
        return cls.__bases__[0].__name__

    assert drawn_tree() == {cls.__name__: parent(cls) for cls in CLASSES}


@pytest.mark.parametrize("cls", CLASSES)
def test_every_error_is_described(cls):
    assert cls.__doc__
    assert cls.__doc__.strip().split("\n")[0].endswith(".") or ":" in cls.__doc__


@pytest.mark.parametrize(
    ("cls", "builtin"),
    [(DataError, ValueError), (ParameterError, ValueError), (MissingExtraError, ImportError)],
)
def test_errors_can_be_caught_as_the_builtin_they_also_are(cls, builtin):
    assert issubclass(cls, builtin)


def test_must_is_one_sentence_with_name_rule_and_what_came():
    error = must("shrinkage", "between 0 and 1", 2)
    assert type(error) is ParameterError
    assert str(error) == "The 'shrinkage' parameter must be between 0 and 1. Got 2 instead."
    assert "Got 'two' instead." in str(must("shrinkage", "between 0 and 1", "two"))


def test_a_policy_error_names_its_rule():
    error = PolicyError("min_fold_rows", "A fold must have 30 rows.")
    assert error.rule == "min_fold_rows"
    assert str(error) == "A fold must have 30 rows."


def test_a_missing_extra_says_how_to_install_it():
    error = MissingExtraError("duckdb", "sql", "Reading a DuckDB database")
    assert str(error) == (
        "Reading a DuckDB database needs the package 'duckdb'. "
        'Install it with: pip install "fedcsa[sql]"'
    )
