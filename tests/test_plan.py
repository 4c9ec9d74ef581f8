"""A plan says everything, and says at once what is wrong with it."""

import numpy as np
import pytest

from fedcsa.core.arrays import as_outcome
from fedcsa.core.losses import CLASSIFICATION, REGRESSION, loss_named
from fedcsa.errors import DataError, ParameterError
from fedcsa.models.registry import instantiate
from fedcsa.plan import Plan

#: An exchange of rows, with a formula of the paper.
ROWS = {"method": "feddae", "exchange": "rows"}


def test_a_plan_keeps_what_it_was_given(make):
    plan = make.plan(study="stroke", seed=7, scale=False)
    assert (plan.study, plan.seed, plan.scale) == ("stroke", 7, False)
    assert plan.features == ("x0", "x1")
    assert len(plan.candidates) == 3


def test_a_plan_cannot_be_changed(make):
    with pytest.raises(AttributeError, match="cannot assign to field 'seed'"):
        make.plan().seed = 5


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"method": "fedavg"}, "'method' parameter must be one of"),
        ({"method": "fedle"}, "'fedle_weights' parameter must be given for the method 'fedle'"),
        ({"fedle_weights": [1.0]}, "'fedle_weights' .* mapping of names .* Got 'list'"),
        (
            {"fedle_weights": {"a": "one"}},
            "mapping of names to finite numbers. Got 'dict'",
        ),
        ({"fedle_weights": {"a": True}}, "mapping of names to finite numbers. Got 'dict'"),
        ({"fedle_weights": {"a": np.nan}}, "finite numbers. Got 'dict'"),
        ({"fedle_weights": {"a": np.inf}}, "finite numbers. Got 'dict'"),
        ({"fedle_weights": {"a": -1.0, "b": 2.0}}, "one weight ≥ 0 per source"),
        ({"fedle_weights": {"a": 0.0}}, "not all zero, .* Got 'dict'"),
        ({"exchange": "pigeon"}, "'exchange' parameter must be one of"),
        ({"scheme": "bootstrap"}, "'scheme' parameter must be one of"),
        ({**ROWS, "folds": (0.5, 0.5, 0.5)}, "'folds' parameter must be"),
        ({**ROWS, "folds": (1.0, 0.0, 0.0)}, "'folds' parameter must be"),
        ({**ROWS, "folds": (0.5, 0.5)}, "'folds' parameter must be"),
        ({**ROWS, "folds": 4}, "'folds' parameter must be 3, or three positive shares"),
        ({"scheme": "cross-fit", "folds": 1}, "a whole number of at least 2"),
        ({"scheme": "cross-fit", "folds": True}, "a whole number of at least 2"),
        ({"scheme": "cross-fit", "folds": (0.2, 0.3, 0.5)}, "a whole number of at least 2"),
        ({**ROWS, "scheme": "cross-fit", "refit": False}, "'refit' parameter must be on"),
        ({"scheme": "cross-fit", "refit": False}, "'refit' parameter must be on"),
        ({"seed": -1}, "'seed' parameter must be a whole number from 0 up"),
        ({"seed": 2**63}, "'seed' parameter must be a whole number from 0 up"),
        ({"combine": "mode"}, "'combine' parameter must be one of"),
        ({"on_no_overlap": "hope"}, "'on_no_overlap' parameter must be one of"),
        ({"level": 0.0}, "'level' parameter must be a number between 0 and 1"),
        ({"level": 1.0}, "'level' parameter must be a number between 0 and 1"),
        ({"level": np.nan}, "'level' parameter must be a number between 0 and 1"),
        ({"level": "0.9"}, "'level' parameter must be a number between 0 and 1. Got '0.9'"),
        ({"level": None}, "'level' parameter must be a number between 0 and 1. Got None"),
        ({"level": [0.9]}, "'level' parameter must be a number between 0 and 1. Got 'list'"),
        ({"level": 0.9j}, "'level' parameter must be a number between 0 and 1. Got 'complex'"),
        (
            {"ratio": [1]},
            "'ratio' parameter must be a mapping of options .* Got 'list'",
        ),
        (
            {**ROWS, "ratio": {"alpha": None}},
            r"ratio\['alpha'\]. parameter must be a number",
        ),
        ({**ROWS, "ratio": {"alpha": True}}, r"ratio\['alpha'\]. parameter must be a number"),
        (
            {**ROWS, "ratio": {"n_centres": "a"}},
            r"'n_centres'\]. parameter must be a number",
        ),
        (
            {**ROWS, "ratio": {"nonnegative": 3}},
            r"'nonnegative'\]. parameter must be a text",
        ),
        ({**ROWS, "ratio": {"regularizations": "abc"}}, "a list of numbers. Got 'abc'"),
        ({**ROWS, "ratio": {"regularizations": ["a"]}}, "a list of numbers. Got 'list'"),
        ({**ROWS, "ratio": {"bandwidths": "1"}}, "must be a number or a list of"),
        ({"exchange": "rows"}, "default method must have exchange='table'"),
        ({"scheme": "split"}, "default method must have .*scheme='cross-fit'"),
        ({**ROWS, "ratio": {"bandwith": 1.0}}, "Unknown option of the ratio .* 'bandwidths'"),
        ({"ratio": {"n_centres": 5}}, "'ratio' parameter must be left out unless exchange"),
        ({"compare": "naive"}, "'compare' parameter must be a list of formulas of the paper"),
        ({"compare": [["naive"]]}, "'compare' parameter must be a list of formulas of the paper"),
        ({"compare": [{"a": 1}]}, "'compare' parameter must be a list of formulas of the paper"),
        ({"compare": ("validated",)}, "'compare' parameter must be a list of formulas of the p"),
        ({"compare": ("fedle",)}, "'fedle_weights' parameter must be given for the method 'fedle'"),
        ({"flags": (True,)}, "'flags' parameter must be one true or false per feature"),
        ({"group": "x0"}, "'group' parameter must be a column that is not a feature"),
    ],
    ids=str,
)
def test_a_plan_that_contradicts_itself_is_refused(make, options, text):
    with pytest.raises(ParameterError, match=text):
        make.plan(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"level": np.float32(0.9)},
        {**ROWS, "ratio": {"bandwidths": 2, "n_centres": 4, "regularizations": (0.1, 1)}},
        {**ROWS, "ratio": {"bandwidths": None, "score_rows": None, "alpha": 0}},
        {"fedle_weights": {"a": np.int64(1), "b": 0.0}},
    ],
    ids=str,
)
def test_numbers_of_any_kind_and_what_is_left_open_are_accepted(make, options):
    assert make.plan(**options)


@pytest.mark.parametrize(
    ("options", "scheme", "folds", "refit"),
    [
        ({}, "cross-fit", 5, True),
        ({"folds": 10}, "cross-fit", 10, True),
        ({"folds": 2}, "cross-fit", 2, True),
        ({"method": "feddae"}, "cross-fit", 5, True),
        ({**ROWS}, "split", 3, False),
        ({**ROWS, "folds": 3}, "split", 3, False),
        ({**ROWS, "refit": True}, "split", 3, True),
        ({**ROWS, "scheme": "cross-fit"}, "cross-fit", 5, True),
        ({**ROWS, "folds": (0.21, 0.49, 0.30)}, "split", (0.21, 0.49, 0.30), False),
    ],
    ids=str,
)
def test_what_is_left_open_is_filled_in(make, options, scheme, folds, refit):
    plan = make.plan(**options)
    assert (plan.scheme, plan.folds, plan.refit) == (scheme, folds, refit)
    assert plan.design()["n_folds"] == (folds if isinstance(folds, int) else 3)
    assert sum(plan.design()["shares"]) == pytest.approx(1.0)


def test_the_validated_method_with_a_table_is_the_default(make):
    given = make.plan()
    plan = Plan(given.features, given.model, given.candidates)
    assert (plan.method, plan.exchange, plan.compare, plan.compared) == (
        "validated",
        "table",
        (),
        (),
    )


@pytest.mark.parametrize(
    ("options", "compared"),
    [
        ({"compare": ("naive", "feddae")}, ("naive", "feddae")),
        ({"method": "fediwe"}, ("fediwe",)),
        ({"method": "fediwe", "compare": ["naive", "fediwe"]}, ("fediwe", "naive")),
        ({"fedle_weights": {"a": 1.0}}, ("fedle",)),
    ],
    ids=str,
)
def test_the_papers_methods_are_estimated_where_a_study_asks(make, options, compared):
    plan = make.plan(**options)
    assert plan.compared == compared
    assert plan.design()["moments"]


@pytest.mark.parametrize("loss", sorted(REGRESSION))
def test_a_loss_of_numbers_judges_numbers_only(loss):
    loss_named(loss, 0)
    with pytest.raises(ParameterError, match=r"'loss' parameter must be .* for an outcome of clas"):
        loss_named(loss, 2)


@pytest.mark.parametrize("loss", sorted(CLASSIFICATION))
def test_a_loss_of_classes_judges_classes_only(loss):
    loss_named(loss, 3)
    with pytest.raises(ParameterError, match=r"'loss' parameter must be .* for an outcome of numb"):
        loss_named(loss, 0)


def test_an_unknown_loss_is_refused_unless_it_is_ones_own():
    with pytest.raises(ParameterError, match="'loss' parameter must be"):
        loss_named("pinball", 0)
    assert loss_named("pinball", 2, {"pinball": abs}) is abs


@pytest.mark.parametrize(
    ("labels", "classes", "codes"),
    [
        (["no", "yes", "no"], ("no", "yes"), [0, 1, 0]),
        ([2, 0, 1], (0, 1, 2), [2, 0, 1]),
        ([2.0, 0.0], (0, 1, 2), [2, 0]),
        ([True, False], (False, True), [1, 0]),
        (np.array([["a"], ["b"]]), ("b", "a"), [1, 0]),
        (np.array(["a", "b"], dtype=object), ("a", "b"), [0, 1]),
    ],
)
def test_labels_become_codes_in_the_order_of_the_classes(labels, classes, codes):
    assert as_outcome(labels, classes, "y").tolist() == codes


@pytest.mark.parametrize(
    ("labels", "strangers"),
    [(["no", "maybe", "yes"], 1), (["NO", "YES"], 2), ([0, 1], 2), (np.array([None, "no"]), 1)],
)
def test_labels_that_were_not_agreed_are_counted_and_not_shown(labels, strangers):
    text = f"y must hold only the 2 agreed classes; {strangers} of its {len(labels)} rows"
    with pytest.raises(DataError, match=text) as caught:
        as_outcome(labels, ("no", "yes"), "y")
    assert "maybe" not in str(caught.value)


def test_missing_labels_of_numbers_are_strangers():
    with pytest.raises(DataError, match="1 of its 2 rows hold something else"):
        as_outcome([0.0, np.nan], (0, 1), "y")


def test_the_model_and_the_candidates_of_a_plan_are_made_together(make):
    plan = make.plan()
    model, candidates = instantiate(plan.model, plan.candidates, 0, ())
    assert model.n_classes == 0
    assert candidates == [{"penalty": 0.0}, {"penalty": 0.1}, {"penalty": 1.0}]
