"""From the words of a study to a model and its candidates, with help for misspelt ones."""

import math

import numpy as np
import pytest
from sklearn.linear_model import Lasso
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeRegressor

from fedcsa.errors import FedCSAError, ModelError, ParameterError, UntrustedError
from fedcsa.models.description import build_parameters
from fedcsa.models.estimators import SklearnModel
from fedcsa.models.model import LinearRegression
from fedcsa.models.registry import (
    default_candidates,
    expand_candidates,
    instantiate,
    model_description,
    unknown,
)

NAMES = ["ridge", "weighted-least-squares"]


# Models --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_a_model(name):
    assert model_description(name) == {"name": name}
    assert model_description({"name": name}) == {"name": name}
    assert instantiate({"name": name}, (), 0)[0] == LinearRegression()


def test_options_of_a_linear_model_are_kept():
    description = {"name": "ridge", "penalty_scale": "sklearn", "intercept": False}
    assert model_description(description) == description
    assert instantiate(description, (), 0)[0] == LinearRegression("sklearn", False)


def test_an_estimator_is_a_model():
    description = model_description(make_pipeline(StandardScaler(), Lasso(0.5)))
    assert description["name"] == "sklearn"
    model = instantiate(description, (), 0)[0]
    assert isinstance(model, SklearnModel)
    assert isinstance(model.estimator, Pipeline)
    assert model.estimator.steps[-1][1].alpha == 0.5


def test_a_description_of_an_estimator_passes_through():
    description = model_description(SVR())
    assert model_description(description) == description


@pytest.mark.parametrize("model", ["rigde", "", {"name": "lasso"}, {}, {"name": None}])
def test_an_unknown_name_is_an_error(model):
    with pytest.raises(ParameterError, match=r"'model' parameter must be .*scikit-learn estimator"):
        model_description(model)


@pytest.mark.parametrize("model", [None, 5, SVR, len, ["ridge"]])
def test_what_is_neither_a_name_nor_an_estimator_is_an_error(model):
    with pytest.raises(ParameterError, match="'model' parameter must be"):
        model_description(model)


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("penalty_scales", "Did you mean 'penalty_scale'"),
        ("intercpt", "Did you mean 'intercept'"),
        ("zzz", "Known: intercept, name, penalty_scale"),
    ],
)
def test_an_unknown_option_is_named_with_the_nearest_known_one(option, hint):
    with pytest.raises(ParameterError, match=f"Unknown model option '{option}'. {hint}"):
        model_description({"name": "ridge", option: 1})


def test_a_wrong_value_of_an_option_is_an_error_at_once():
    with pytest.raises(ParameterError, match="'penalty_scale' parameter must be"):
        model_description({"name": "ridge", "penalty_scale": "sum"})


@pytest.mark.parametrize("name", NAMES)
def test_a_linear_regression_refuses_classes(name):
    with pytest.raises(ParameterError, match=f"'{name}' predicts numbers, but the outcome is decl"):
        instantiate({"name": name}, (), 2)[0]


@pytest.mark.parametrize("name", ["lasso", None, 5, ["ridge"], "x" * 500])
def test_a_forged_name_is_an_error_of_ours(name):
    with pytest.raises(FedCSAError, match="'model' parameter must be"):
        instantiate({"name": name}, (), 0)[0]


@pytest.mark.parametrize(
    "description",
    [
        {"name": "sklearn"},
        {"name": "sklearn", "estimator": 5},
        {"name": "sklearn", "estimator": []},
    ],
    ids=repr,
)
def test_a_forged_estimator_is_an_error_of_ours(description):
    with pytest.raises(FedCSAError, match=r"\w"):
        instantiate(description, (), 0)[0]


def test_what_cannot_predict_is_no_model():
    with pytest.raises(FedCSAError, match="StandardScaler"):
        instantiate(model_description(StandardScaler()), (), 0)[0]


def test_an_untrusted_estimator_is_refused():
    forged = {"name": "sklearn", "estimator": {"class": "os.system", "parameters": {}}}
    with pytest.raises(UntrustedError, match=r"os\.system"):
        instantiate(forged, (), 0)[0]


def test_the_kind_of_the_outcome_is_checked():
    with pytest.raises(ModelError, match="is a classifier"):
        instantiate(model_description(SVC()), (), 0)[0]
    with pytest.raises(ModelError, match="is a regressor"):
        instantiate(model_description(SVR()), (), 2)[0]


# Candidates ----------------------------------------------------------------------------------


def test_without_candidates_the_grid_is_the_models_own():
    ridge = expand_candidates("ridge", None)
    assert [c["penalty"] for c in ridge] == pytest.approx(PENALTIES)
    weighted = expand_candidates("weighted-least-squares", None)
    assert [c["ratio_power"] for c in weighted] == np.linspace(0.0, 1.0, 21).tolist()
    assert expand_candidates("sklearn", None) == ({},)


@pytest.mark.parametrize(
    "numbers", [[0.0, 0.5], (0, 0.5), np.array([0.0, 0.5]), [np.float64(0.0), 0.5]]
)
def test_numbers_stand_for_the_main_parameter(numbers):
    assert expand_candidates("ridge", numbers) == ({"penalty": 0.0}, {"penalty": 0.5})
    assert expand_candidates("weighted-least-squares", numbers) == (
        {"ratio_power": 0.0},
        {"ratio_power": 0.5},
    )


def test_a_mapping_stands_for_all_combinations_in_the_order_of_the_names():
    grid = {"penalty": [0.1, 0.2], "ratio_power": np.array([0.0, 1.0])}
    expected = [(0.1, 0.0), (0.1, 1.0), (0.2, 0.0), (0.2, 1.0)]
    for candidates in (grid, dict(reversed(grid.items()))):
        expanded = expand_candidates("ridge", candidates)
        assert [(c["penalty"], c["ratio_power"]) for c in expanded] == expected


def test_a_list_of_mappings_is_kept_in_order():
    given = [{"max_depth": 3}, {}, {"max_depth": None, "ratio_power": 1}]
    assert expand_candidates("sklearn", given) == (
        {"max_depth": 3},
        {},
        {"max_depth": None, "ratio_power": 1.0},
    )


def test_values_become_plain_and_are_built_again():
    tree = DecisionTreeRegressor(max_depth=2)
    candidates = expand_candidates(
        "sklearn", {"model": [tree], "sizes": [(5, 3)], "n": [np.int64(4)]}
    )
    assert candidates[0]["sizes"] == {"tuple": [5, 3]}
    assert type(candidates[0]["n"]) is int
    built = build_parameters(candidates[0])
    assert built["sizes"] == (5, 3)
    assert isinstance(built["model"], DecisionTreeRegressor)
    assert built["model"] is not tree


def test_an_untrusted_value_of_a_candidate_is_refused():
    forged = {"model": {"class": "os.system", "parameters": {}}}
    with pytest.raises(UntrustedError, match=r"os\.system"):
        build_parameters(forged)


def test_a_function_cannot_be_a_value_of_a_candidate():
    with pytest.raises(ModelError, match="object of type"):
        expand_candidates("sklearn", [{"metric": len}])


@pytest.mark.parametrize("candidates", ["ridge", 5, 0.5, {1, 2}, iter([1.0]), b"abc"[0]])
def test_candidates_of_another_form_are_an_error(candidates):
    with pytest.raises(ParameterError, match="'candidates' parameter must be a list of numbers"):
        expand_candidates("ridge", candidates)


@pytest.mark.parametrize("candidates", [[], (), np.empty(0), {"penalty": []}])
def test_no_candidates_are_an_error(candidates):
    with pytest.raises(ParameterError, match="'candidates' parameter must be at least one"):
        expand_candidates("ridge", candidates)


@pytest.mark.parametrize("values", [0.5, "abc", None, {0.5}])
def test_a_grid_is_made_of_lists(values):
    with pytest.raises(ParameterError, match=r"candidates\['penalty'\].* must be a list of values"):
        expand_candidates("ridge", {"penalty": values})


@pytest.mark.parametrize("candidate", [0.5, 1, "text", None, True])
def test_a_bare_number_has_no_meaning_for_an_estimator(candidate):
    with pytest.raises(ParameterError, match="must be mappings of parameter names to values"):
        expand_candidates("sklearn", [candidate])


def test_a_truth_value_is_no_penalty():
    with pytest.raises(ParameterError, match="must be mappings of parameter names to values"):
        expand_candidates("ridge", [True])


@pytest.mark.parametrize(
    ("parameter", "hint"),
    [
        ("penalties", "Did you mean 'penalty'"),
        ("ratio_pwer", "Did you mean 'ratio_power'"),
        ("alpha", "Known: penalty, ratio_power"),
    ],
)
def test_an_unknown_parameter_is_named_with_the_nearest_known_one(parameter, hint):
    with pytest.raises(ParameterError, match=f"Unknown candidate parameter '{parameter}'. {hint}"):
        expand_candidates("ridge", [{parameter: 0.1}])


@pytest.mark.parametrize("value", [-1e-9, math.inf, math.nan, "0.5", None, True, [0.5]])
def test_a_penalty_is_a_finite_number_from_zero_up(value):
    with pytest.raises(ParameterError, match="'penalty' parameter must be a number at least 0"):
        expand_candidates("ridge", [{"penalty": value}])


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, "1", None, False])
@pytest.mark.parametrize("model", ["ridge", "weighted-least-squares", "sklearn"])
def test_a_ratio_power_lies_between_zero_and_one(model, value):
    with pytest.raises(ParameterError, match="'ratio_power' parameter must be a number between 0"):
        expand_candidates(model, [{"ratio_power": value}])
    described = model_description(Lasso() if model == "sklearn" else model)
    with pytest.raises(ParameterError, match="'ratio_power' parameter must be a number between 0"):
        instantiate(described, [{"ratio_power": value}], 0)


def test_a_source_takes_no_forged_candidate_of_a_line():
    for forged in ({"penalty": -1.0}, {"penalty": {"class": "os.system", "parameters": {}}}):
        with pytest.raises(ParameterError, match="'penalty' parameter must be a number at least 0"):
            instantiate({"name": "ridge"}, [forged], 0)
    with pytest.raises(ParameterError, match="Unknown candidate parameter 'alpha'"):
        instantiate({"name": "ridge"}, [{"alpha": 1.0}], 0)


def test_a_penalty_of_an_estimator_is_its_own_business():
    assert expand_candidates("sklearn", [{"penalty": "l1"}]) == ({"penalty": "l1"},)


@pytest.mark.parametrize("value", [0, 1, 0.0, 1.0])
def test_the_bounds_of_a_ratio_power_are_allowed(value):
    [candidate] = expand_candidates("ridge", [{"ratio_power": value}])
    assert candidate == {"ratio_power": float(value)}
    assert type(candidate["ratio_power"]) is float


def test_the_nearest_known_name_is_suggested():
    assert unknown("thing", "bandwith", ["bandwidth", "alpha"]) == (
        "Unknown thing 'bandwith'. Did you mean 'bandwidth'?"
    )
    assert unknown("thing", "q", ["b", "a"]) == "Unknown thing 'q'. Known: a, b."


# The default grid ----------------------------------------------------------------------------

PENALTIES = [0.0, *np.geomspace(1e-3, 1.0, 12).tolist()]


@pytest.mark.parametrize(
    ("model", "method", "powers"),
    [
        ("ridge", "validated", [0.0, 0.5, 1.0]),
        ("ridge", "feddae", [None]),
        (SVR(), "validated", [0.0, 0.5, 1.0]),
        (SVR(), "naive", [None]),
        (make_pipeline(StandardScaler(), Lasso()), "validated", [0.0, 0.5, 1.0]),
        (KNeighborsRegressor(), "validated", [None]),
    ],
    ids=str,
)
def test_the_default_method_tries_three_powers_where_a_model_takes_weights(model, method, powers):
    found = default_candidates(model_description(model), method)
    assert list(dict.fromkeys(candidate.get("ratio_power") for candidate in found)) == powers
    assert len(found) == len(powers) * (len(PENALTIES) if model == "ridge" else 1)


def test_the_default_ridge_grid_is_none_and_twelve_penalties_with_every_power():
    found = default_candidates({"name": "ridge"}, "validated")
    for power in (0.0, 0.5, 1.0):
        tried = [c["penalty"] for c in found if c["ratio_power"] == power]
        assert tried == pytest.approx(PENALTIES)


def test_powers_that_are_the_models_own_grid_are_not_multiplied():
    found = default_candidates({"name": "weighted-least-squares"}, "validated")
    assert [c["ratio_power"] for c in found] == pytest.approx(np.linspace(0.0, 1.0, 21))


def test_an_estimator_of_an_unknown_library_gets_no_powers():
    foreign = {"name": "sklearn", "estimator": {"class": "other.Model", "parameters": {}}}
    assert default_candidates(foreign, "validated") == ({},)
