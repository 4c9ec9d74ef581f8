"""Writing and reading TOML, and collecting what is wrong with it."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcsa.errors import StudyError
from fedcsa.study.toml import RULES, Section, format_toml, kind_of, parse_toml

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ODD = TEXTS | st.sampled_from(['"', "'", "\\", "\x7f", "\x00", "\r\n", "a.b", "a b", "#", "日本"])
PLAIN = ODD | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ODD, inner, max_size=3)
)


def typed(value):
    """The value with its types, because 1 == 1.0 == True."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return type(value).__name__, repr(value)


@given(st.dictionaries(ODD, VALUES, max_size=5))
def test_what_is_written_is_read_with_its_types(document):
    assert typed(parse_toml(format_toml(document), "study.toml")) == typed(document)


@given(st.dictionaries(ODD, st.dictionaries(ODD, VALUES, max_size=3), min_size=1, max_size=3))
def test_nested_sections_are_read_back(sections):
    text = format_toml({"sources": sections, "seed": 1}, nested=["sources"])
    assert typed(tomllib.loads(text)) == typed({"seed": 1, "sources": sections})


@given(st.dictionaries(ODD, VALUES, min_size=1, max_size=4))
def test_the_order_of_keys_is_kept(section):
    text = format_toml({"features": section})
    assert list(tomllib.loads(text)["features"]) == list(section)


@pytest.mark.parametrize("value", [None, b"x", {1}, object()])
def test_what_toml_cannot_hold_is_not_written(value):
    with pytest.raises(StudyError, match=f"{type(value).__name__} is none of them"):
        format_toml({"a": [value]})


def test_half_a_character_is_not_written():
    with pytest.raises(StudyError, match="is not valid Unicode"):
        format_toml({"a": "\ud800"})


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("seed = SECRET", "line 1"),
        ("a = 1\nb = [SECRET\nc = 2\n", "line 2"),
        ("a = 1\n\na = 'SECRET'\n", "line 3"),
        ("a = 1\n[SECRET]\n[SECRET]\n", "line 3"),
        ("a = 'SECRET", "line 1|the end of the file"),
        ("a = [1, # SECRET", "line 1|the end of the file"),
    ],
)
def test_a_syntax_error_is_located_and_not_quoted(text, line):
    with pytest.raises(StudyError, match=rf"^study.toml: ({line}) is not valid TOML") as caught:
        parse_toml(text, "study.toml")
    assert "SECRET" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_brackets_without_end_are_refused():
    with pytest.raises(StudyError, match=r"nested so deeply|is not valid TOML"):
        parse_toml("a = " + "[" * 100_000, "study.toml")


@pytest.mark.parametrize("date", ["2020-01-01", "10:00:00", "2020-01-01T10:00:00Z"])
def test_a_date_is_refused_by_its_key(date):
    with pytest.raises(StudyError, match=r"study.toml: 'since' must be a text or a number"):
        parse_toml(f"[a]\nb = [{{ since = [{date}] }}]", "study.toml")


GOOD = {
    "str": ["", "x"],
    "bool": [True],
    "int": [0, -3],
    "float": [0, 1.5, float("inf")],
    "tuple[str, ...]": [[], ["a"]],
    "tuple[str, ...] | Literal['never']": [[], ["a"], "never"],
    "list": [[], [1, "a", {}]],
    "Mapping[str, Any]": [{}, {"a": [1]}],
    "Mapping[str, str]": [{}, {"a": "b"}],
    "Mapping[str, Any] | list[Mapping[str, Any]]": [{}, [], [{}]],
}
BAD = {
    "str": [1, ["x"]],
    "bool": [0, "true"],
    "int": [True, 1.0, "1"],
    "float": [True, float("nan"), "1"],
    "tuple[str, ...]": ["a", [1]],
    "tuple[str, ...] | Literal['never']": ["always", [1]],
    "list": [{}, "a"],
    "Mapping[str, Any]": [[], "a"],
    "Mapping[str, str]": [{"a": 1}, ["a"]],
    "Mapping[str, Any] | list[Mapping[str, Any]]": ["a", [1], [{}, 2]],
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_lets_through_what_it_says(rule):
    for value in GOOD[rule]:
        problems = []
        assert Section({"key": value}, "[a]", problems).take("key", rule) is value
        assert problems == []
    for value in BAD[rule]:
        problems = []
        assert Section({"key": value}, "[a]", problems).take("key", rule, "default") == "default"
        assert problems == [f"[a] 'key' must be {RULES[rule][0]}; it is {kind_of(value)}."]


def test_a_key_that_is_needed_and_one_that_nobody_knows():
    problems = []
    section = Section({"tabel": "x", "zzz": 1}, "[target]", problems)
    assert section.take("table", "str") is None
    assert section.take("rows", "int", 7) == 7
    section.close()
    assert problems == [
        "[target] 'table' must be given: a text.",
        "[target] Unknown key 'tabel'. Did you mean 'table'?",
        "[target] Unknown key 'zzz'. Known: rows, table.",
    ]
