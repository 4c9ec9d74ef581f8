"""The sections [model] and [candidates]."""

import numpy as np
import pytest
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from fedcsa.errors import FedCSAError, StudyError
from fedcsa.models.allowed import refused_before_fitting
from fedcsa.models.registry import expand_candidates, model_description
from fedcsa.models.space import spread_points
from fedcsa.study import Study
from fedcsa.study.model_section import check_candidates_section, describe_model


def list_candidates(model_name, candidates):
    if candidates is not None:
        check_candidates_section(candidates)
    return expand_candidates(model_name, spread_points(candidates))


FOREST = "sklearn.ensemble.RandomForestClassifier"


@pytest.mark.parametrize(
    "model",
    [
        {"name": "ridge"},
        {"name": "ridge", "penalty_scale": "sklearn", "intercept": False},
        {"name": "weighted-least-squares", "intercept": True},
    ],
)
def test_a_model_of_ours_is_described_as_it_is(model):
    assert describe_model(model) == model


def test_a_class_and_its_parameters():
    model = {"name": FOREST, "parameters": {"n_estimators": 20, "class_weight": {"a": 2.0}}}
    expected = RandomForestClassifier(n_estimators=20, class_weight={"a": 2.0})
    assert describe_model(model) == model_description(expected)
    assert describe_model({"name": FOREST}) == model_description(RandomForestClassifier())


def test_an_estimator_inside_an_estimator():
    tree = {"class": "sklearn.tree.DecisionTreeClassifier", "parameters": {"max_depth": 1}}
    model = {"name": "sklearn.ensemble.AdaBoostClassifier", "parameters": {"estimator": tree}}
    expected = AdaBoostClassifier(estimator=DecisionTreeClassifier(max_depth=1))
    assert describe_model(model) == model_description(expected)


def test_a_pipeline():
    model = {
        "name": "pipeline",
        "steps": [
            {"name": "scale", "class": "sklearn.preprocessing.StandardScaler"},
            {
                "name": "model",
                "class": "sklearn.linear_model.LogisticRegression",
                "parameters": {"C": 0.5},
            },
        ],
    }
    expected = Pipeline([("scale", StandardScaler()), ("model", LogisticRegression(C=0.5))])
    assert describe_model(model) == model_description(expected)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ({}, r"\[model\] 'name' must be given: a text"),
        ({"name": 3}, r"\[model\] 'name' must be a text; it is a whole number"),
        ({"name": "rigde"}, r"\[model\] Unknown model 'rigde'. Did you mean 'ridge'\?"),
        ({"name": "forest"}, r"Known: given, pipeline, ridge.*full name of a scikit-learn class"),
        ({"name": "ridge", "penalty": 1}, r"\[model\] Unknown model option 'penalty'"),
        ({"name": "ridge", "penalty_scale": "sum"}, r"\[model\] The 'penalty_scale' parameter"),
        ({"name": "ridge", "intercept": "no"}, r"\[model\] 'intercept' must be true or false"),
        ({"name": FOREST, "parameter": {}}, r"Unknown key 'parameter'. Did you mean 'parameters'"),
        ({"name": FOREST, "parameters": [1]}, r"'parameters' must be a table of keys and values"),
        ({"name": "pipeline"}, r"\[model\] 'steps' must be given: a list"),
        ({"name": "pipeline", "steps": []}, r"\[model\] 'steps' must list at least one step"),
        (
            {"name": "pipeline", "steps": [{"name": "a", "klass": "b"}]},
            r"number 1 'class' must be given: a text.\n.* number 1 Unknown key 'klass'. Did you",
        ),
        ({"name": "pipeline", "steps": ["a"]}, r"number 1 'name' must be given"),
    ],
)
def test_a_section_that_describes_no_model(model, text):
    with pytest.raises(StudyError, match=text):
        describe_model(model)


def test_lists_are_combined():
    found = list_candidates("sklearn", {"b": [1, 2], "a": [True]})
    assert found == ({"a": True, "b": 1}, {"a": True, "b": 2})


def test_tables_are_taken_one_by_one():
    listed = [{"penalty": 0.5}, {"ratio_power": 1}]
    assert list_candidates("ridge", listed) == ({"penalty": 0.5}, {"ratio_power": 1.0})


def test_a_range_is_the_grid_of_the_paper_to_the_bit():
    grid = {"penalty": {"low": 0.0, "high": 1.0, "points": 101}}
    listed = list_candidates("ridge", grid)
    assert [candidate["penalty"] for candidate in listed] == np.linspace(0.0, 1.0, 101).tolist()


def test_a_log_range_has_equal_ratios_and_exact_ends():
    grid = {"C": {"low": 1e-3, "high": 10, "points": 9, "log": True}}
    values = [candidate["C"] for candidate in list_candidates("sklearn", grid)]
    assert (values[0], values[-1], len(values)) == (1e-3, 10.0, 9)
    np.testing.assert_allclose(np.diff(np.log10(values)), 0.5)


@pytest.mark.parametrize(
    ("ends", "whole"),
    [
        ((1, 9, 5), True),
        ((1, 9, 2), True),
        ((0, 9999, 10_000), True),
        ((1, 2, 3), False),
        ((1.0, 9.0, 5), False),
    ],
)
def test_a_range_is_of_whole_numbers_if_all_of_it_is(ends, whole):
    start, stop, points = ends
    grid = {"depth": {"low": start, "high": stop, "points": points}}
    values = [candidate["depth"] for candidate in list_candidates("sklearn", grid)]
    assert values == np.linspace(start, stop, points).tolist()
    assert {type(value) for value in values} == {int if whole else float}


@pytest.mark.parametrize(
    ("range_", "text"),
    [
        ({"high": 1, "points": 3}, "'low' below 'high'"),
        ({"low": 1, "high": 1, "points": 3}, "'low' below 'high'"),
        ({"low": 0, "high": float("inf"), "points": 3}, "two finite numbers"),
        ({"low": True, "high": 2, "points": 3}, "two finite numbers"),
        ({"low": 0, "high": 1, "points": 2.5}, "'points' are from 2 to 10000"),
        ({"low": 0, "high": 1, "points": 1}, "'points' are from 2 to 10000"),
        ({"low": 0, "high": 1, "points": 10**9}, "'points' are from 2 to 10000"),
        ({"low": 0, "high": 1, "points": 3, "step": 0.5}, "'points' or with a 'step', not both"),
        ({"low": 0, "high": 1, "log": True}, "'low' above 0 if it is true"),
        ({"low": 1, "high": 2, "log": "yes"}, "'log' true or false"),
        ({"low": 1, "high": 2, "step": 3}, "'step' is above 0 and fits into it"),
        ({"low": 1, "high": 2, "step": 1, "log": True}, "without 'log'"),
        ({"low": 0, "high": 1, "lgo": True}, "Unknown key of a range 'lgo'. Did you mean 'log'"),
        ({"lo": 0, "high": 1}, "Unknown key of a range 'lo'. Did you mean 'low'"),
        ({"distribution": "os"}, "a distribution of scipy.stats by its name"),
        ({"distribution": "gamma"}, "and valid arguments"),
        ({"distribution": "norm", "arguments": [0, -1]}, "and valid arguments"),
        ({"choices": []}, "a list of at least one choice"),
    ],
)
def test_a_range_that_is_none(range_, text):
    with pytest.raises(StudyError, match=rf"\[candidates\] .*'penalty'.*{text}"):
        list_candidates("ridge", {"penalty": range_})


@pytest.mark.parametrize(
    ("candidates", "text"),
    [
        ({"penalty": 1.0}, r"\[candidates\] 'penalty' must be a list; it is a number"),
    ],
)
def test_candidates_that_are_none(candidates, text):
    with pytest.raises(StudyError, match=text):
        list_candidates("ridge", candidates)


# Pipelines on the table's own columns ----------------------------------------------------------

COLUMNS = """
name = "columns"
[outcome]
name = "y"
[features]
age = { kind = "number", missing = "model" }
sex = ["F", "M"]
[model]
name = "pipeline"
[[model.steps]]
name = "columns"
class = "sklearn.compose.ColumnTransformer"
[model.steps.parameters]
transformers = [
  ["n", { class = "sklearn.impute.SimpleImputer", parameters = { add_indicator = true } }, ["age"]],
  ["t", { class = "sklearn.preprocessing.OneHotEncoder" }, ["sex"]],
]
[[model.steps]]
name = "ridge"
class = "sklearn.linear_model.Ridge"
[sources.a]
table = "a.csv"
[target]
table = "t.csv"
"""


def test_a_pipeline_of_a_study_file_gets_the_table_by_name_in_its_own_units():
    plan = Study.parse(COLUMNS).plan(build=True)
    assert [item["name"] for item in plan.model["inputs"]] == ["age", "sex"]
    assert not plan.scale
    assert refused_before_fitting(plan.model, plan.candidates) == ""


def test_a_study_file_that_leaves_missing_cells_to_ridge_has_a_problem():
    start, end = COLUMNS.index("[model]"), COLUMNS.index("[sources.a]")
    study = Study.parse(f'{COLUMNS[:start]}[model]\nname = "ridge"\n{COLUMNS[end:]}')
    with pytest.raises(FedCSAError, match="takes no missing cells, but those of 'age'"):
        study.plan()


def test_a_column_that_the_study_does_not_have_is_named():
    study = Study.parse(COLUMNS.replace('["sex"]],', '["sx"]],'))
    with pytest.raises(FedCSAError, match=r"'sx'. Did you mean 'sex'"):
        study.plan(build=True)
