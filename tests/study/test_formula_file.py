"""Formula files: what is read, and what is said of mistakes."""

import pytest

from fedcsa import Formula, StudyError, Term, load_formula
from fedcsa.study.formula_file import formula_text, parse_formula

TEXT = """
title = "EWS"
source = "a journal, 2020"
link = "logit"
intercept = -6.5
[terms]
age = 0.04
"sex=M" = 1
crp = { coefficient = 0.5, at_least = 5, at_most = 300.0, plus = 1, log = true }
bmi = [0.2, { coefficient = -0.003, power = 2 }]
pulse = { from = [90, 110], points = [1, 2] }
"""
POINTS = """
[terms]
urea = { above = [7], points = [1] }
[risks]
total = [0, 1]
risk = [0.01, 0.2]
"""


def test_a_formula_file_is_read_as_it_is_written():
    formula = parse_formula(TEXT, "f.toml")
    assert formula == Formula(
        (
            Term("age", 0.04),
            Term("sex=M", 1.0),
            Term("crp", 0.5, 5, 300.0, 1.0, True),
            Term("bmi", 0.2),
            Term("bmi", -0.003, power=2),
            Term("pulse", bounds=(90.0, 110.0), points=(1.0, 2.0)),
        ),
        -6.5,
        "logit",
        title="EWS",
        source="a journal, 2020",
    )


def test_a_bound_that_must_be_passed_belongs_to_the_band_below():
    formula = parse_formula(POINTS, "f.toml")
    [bound] = formula.terms[0].bounds
    assert bound > 7.0
    assert bound - 7.0 < 1e-14
    assert (formula.totals, formula.risks) == ((0.0, 1.0), (0.01, 0.2))


@pytest.mark.parametrize("text", [TEXT, POINTS])
def test_what_is_written_is_read_as_the_same_formula(text, tmp_path):
    formula = parse_formula(text, "f.toml")
    path = tmp_path / "f.toml"
    path.write_text(formula_text(formula))
    assert load_formula(path) == formula


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[terms]\nage = = 1", "line 2 is not valid TOML"),
        ("intercept = 1", "'terms' must be given"),
        ("[terms]", r"\[terms\] must have at least one term"),
        ("link = 'probit'\n[terms]\na = 1", "must be one of .*logit"),
        ("linc = 'log'\n[terms]\na = 1", "Unknown key 'linc'. Did you mean 'link'"),
        ("intercept = inf\n[terms]\na = 1", "'intercept' must be finite"),
        ("[terms]\nb = 1\na = 'x'", r"f.toml: line 3, \[terms\] 'a' must be a number, a table"),
        ("[terms]\n'a=M' = []", r"line 2, \[terms\] 'a=M' must have at least one"),
        ("[terms]\na = { coeficient = 1 }", "line 2.*Did you mean 'coefficient'"),
        ("[terms]\na = { coefficient = 1, power = 6 }", "'power' must be from 1 to 5"),
        ("[terms]\na = { coefficient = 1, at_least = 2, at_most = 1 }", "'at_least' must not"),
        ("[terms]\na = { coefficient = inf }", "must have finite numbers"),
        ("[terms]\na = { coefficient = 1, at_most = inf }", "must have finite numbers"),
        ("[terms]\na = { from = [1, 2], points = [1] }", "lists of the same length"),
        ("[terms]\na = { from = [2, 2], points = [1, 1] }", "'from' must rise"),
        ("[terms]\na = { above = [2, 1], points = [1, 1] }", "'above' must rise"),
        ("[terms]\na = { from = ['x'], points = [1] }", "'from' must be a list of numbers"),
        ("[terms]\na = { from = [1], points = [1], log = true }", "Unknown key 'log'"),
        ("[terms]\na = 1\n[risks]\ntotal = [0]\nrisk = [0]", "'risk' must be above 0 and below 1"),
        ("[terms]\na = 1\n[risks]\ntotal = [0]\nrisk = [1.0]", "'risk' must be above 0 and"),
        ("[terms]\na = 1\n[risks]\ntotal = [1, 0]\nrisk = [0.1, 0.2]", "'total' must rise"),
        ("[terms]\na = 1\n[risks]\ntotal = []\nrisk = []", "same length, at least one"),
        ("[terms]\na = 1\n[risks]\ntotal = [0, nan]\nrisk = [0.1, 0.2]", "have finite numbers"),
        (f"[terms]\na = 1{'0' * 400}", "'a' must be a number below 1e308"),
        (f"link = 'logit'{POINTS}", "'link' must be left out beside"),
    ],
    ids=range(25),
)
def test_a_mistake_is_named_with_its_line_and_what_to_do(text, words):
    with pytest.raises(StudyError, match=words):
        parse_formula(text, "f.toml")


def test_all_mistakes_are_named_at_once():
    with pytest.raises(StudyError) as error:
        parse_formula("link = 'x'\n[terms]\na = 'x'\nb = { power = 0 }", "f.toml")
    assert len(str(error.value).splitlines()) == 4


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StudyError, match=r"The formula .* does not exist"):
        load_formula(tmp_path / "none.toml")
