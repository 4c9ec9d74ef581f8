"""Every rule of a policy refuses by its name, and lets its counterpart through."""

import dataclasses
import math
from decimal import ROUND_HALF_EVEN, Context, Decimal

import numpy as np
import pytest
from sklearn.linear_model import Lasso, LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from fedcsa.errors import ParameterError, PolicyError
from fedcsa.models.registry import expand_candidates, model_description
from fedcsa.protocol.messages import ModelReport, RiskReport
from fedcsa.protocol.policy import Policy, model_names, round_significant


def admit(policy, brief, fold_rows=(30, 30, 30), train_rows=30, sd=None):
    policy.admit(brief, fold_rows, train_rows, brief.sd if sd is None else sd)


def refuses(rule):
    return pytest.raises(PolicyError, match=rf"This site's policy refuses \({rule}\): ")


@pytest.fixture
def brief(tools):
    return tools.exchange().brief


@pytest.fixture
def rows_brief(tools):
    return tools.exchange(kind="rows").brief


def with_model(brief, estimator, candidates=None):
    description = model_description(estimator)
    return dataclasses.replace(
        brief,
        model=description,
        candidates=list(expand_candidates(description["name"], candidates)),
    )


# The source's side -------------------------------------------------------------------------------


def test_the_default_policy_admits_an_ordinary_brief(brief):
    admit(Policy(), brief)


def test_the_rule_is_on_the_error(rows_brief):
    with refuses("exchanges") as caught:
        admit(Policy(), rows_brief)
    assert caught.value.rule == "exchanges"


@pytest.mark.parametrize(("allowed", "kind"), [(("embedding",), "rows"), (("rows",), "embedding")])
def test_an_exchange_must_be_allowed_by_name(tools, allowed, kind):
    brief = tools.exchange(kind=kind).brief
    with refuses("exchanges"):
        admit(Policy(exchanges=allowed), brief)
    admit(Policy(exchanges=(kind,)), brief)


def test_no_exchange_may_be_allowed_at_all(brief):
    with refuses("exchanges"):
        admit(Policy(exchanges=()), brief)


def test_a_model_off_the_list_is_refused(brief):
    with refuses("models"):
        admit(Policy(models=("weighted-least-squares",)), brief)
    with refuses("models"):
        admit(Policy(models=()), brief)
    admit(Policy(models=("weighted-least-squares", "ridge")), brief)
    admit(Policy(models=None), brief)


def test_every_estimator_inside_the_model_must_be_on_the_list(brief):
    pipeline = with_model(brief, make_pipeline(StandardScaler(), Lasso()))
    names = (
        "sklearn.pipeline.Pipeline",
        "sklearn.preprocessing.StandardScaler",
        "sklearn.linear_model.Lasso",
    )
    admit(Policy(models=names), pipeline)
    for missing in names:
        with refuses("models"):
            admit(Policy(models=tuple(name for name in names if name != missing)), pipeline)


def test_the_refused_model_is_the_one_that_is_named(brief):
    pipeline = with_model(brief, make_pipeline(StandardScaler(), Lasso()))
    allowed = ("sklearn.pipeline.Pipeline", "sklearn.preprocessing.StandardScaler")
    with pytest.raises(PolicyError, match=r"'sklearn\.linear_model\.Lasso' is not on this"):
        admit(Policy(models=allowed), pipeline)


def test_an_estimator_inside_a_candidate_must_be_on_the_list_too(brief):
    model = Pipeline([("model", Lasso())])
    sneaky = with_model(brief, model, {"model": [Lasso(), KNeighborsRegressor(1)]})
    allowed = ("sklearn.pipeline.Pipeline", "sklearn.linear_model.Lasso")
    with refuses("models"):
        admit(Policy(models=allowed), sneaky)
    more = (*allowed, "sklearn.neighbors.KNeighborsRegressor")
    admit(Policy(models=more, row_keeping_models=True), sneaky)
    with refuses("row_keeping_models"):
        admit(Policy(models=more), sneaky)


def test_names_of_a_description_come_outermost_first():
    description = model_description(make_pipeline(StandardScaler(), Lasso()))
    assert model_names(description) == [
        "sklearn.pipeline.Pipeline",
        "sklearn.preprocessing.StandardScaler",
        "sklearn.linear_model.Lasso",
    ]
    assert model_names({"name": "ridge", "intercept": True}) == ["ridge"]
    assert model_names(5) == []


@pytest.mark.parametrize("bound", [20, 40])
def test_a_target_with_too_few_rows_is_refused(brief, bound):
    policy = Policy(min_target_rows=bound)
    with refuses("min_target_rows"):
        admit(policy, dataclasses.replace(brief, n_rows=bound - 1))
    admit(policy, dataclasses.replace(brief, n_rows=bound))


@pytest.mark.parametrize("sizes", [(29, 30, 30), (30, 29, 30), (30, 30, 29), (90, 90, 1)])
def test_a_fold_with_too_few_rows_is_refused(brief, sizes):
    with refuses("min_fold_rows"):
        admit(Policy(), brief, fold_rows=sizes)
    admit(Policy(min_fold_rows=min(sizes)), brief, fold_rows=sizes)


def test_too_many_parameters_for_the_rows_are_refused(brief):
    # two coefficients and an intercept: 3/0.33 = 9.09 rows
    with refuses("max_parameters_per_row"):
        admit(Policy(), brief, train_rows=9)
    admit(Policy(), brief, train_rows=10)
    admit(Policy(max_parameters_per_row=1.0), brief, train_rows=3)
    with refuses("max_parameters_per_row"):
        admit(Policy(max_parameters_per_row=1.0), brief, train_rows=2)


@pytest.mark.parametrize("estimator", [Lasso(), LinearRegression()])
def test_the_parameters_of_a_linear_model_of_scikit_learn_count_as_well(brief, estimator):
    with refuses("max_parameters_per_row"):
        admit(Policy(), with_model(brief, estimator), train_rows=9)


def test_a_kernel_too_narrow_for_the_sources_rows_is_refused(brief):
    ones = np.ones(2)
    narrow = dataclasses.replace(brief, bandwidth=0.5 * math.sqrt(2.0), sd=ones)
    admit(Policy(min_bandwidth=0.5), narrow, sd=0.999 * ones)
    with refuses("min_bandwidth"):
        admit(Policy(min_bandwidth=0.5), narrow, sd=1.001 * ones)
    with refuses("min_bandwidth"):
        admit(Policy(min_bandwidth=0.5), narrow, sd=np.array([0.1, 1.001]))
    admit(Policy(min_bandwidth=0.0), narrow, sd=1e9 * ones)


def test_a_target_of_near_copies_is_refused_by_the_default_policy(brief):
    copies = dataclasses.replace(brief, sd=1e-6 * np.ones(2))
    with refuses("min_bandwidth"):
        admit(Policy(), copies, sd=np.ones(2))


def test_a_narrow_kernel_is_refused_in_the_exchange_of_rows_too(rows_brief):
    narrow = dataclasses.replace(rows_brief, ratio={"bandwidths": [1e-6]})
    with refuses("min_bandwidth"):
        admit(Policy(exchanges=("rows",)), narrow)


def test_an_open_policy_admits_everything(tools):
    brief = dataclasses.replace(
        tools.exchange().brief, n_rows=2, bandwidth=1e-9, sd=1e-9 * np.ones(2)
    )
    admit(Policy.open(), brief, fold_rows=(1, 1, 1), train_rows=1, sd=1e9 * np.ones(2))
    admit(Policy.open(), tools.exchange(kind="rows").brief, fold_rows=(1, 1, 1), train_rows=1)


# The target's side -------------------------------------------------------------------------------


def test_a_target_announces_a_third_of_its_cells_at_most(brief):
    # 40 rows of 2 columns: 80 cells
    Policy().announce(brief, 26)
    with refuses("max_release_share") as caught:
        Policy().announce(brief, 27)
    assert "27 numbers would be announced about 80 cells" in str(caught.value)
    assert caught.value.rule == "max_release_share"
    Policy(max_release_share=None).announce(brief, 10**9)
    Policy(max_release_share=1.0).announce(brief, 80)
    with refuses("max_release_share"):
        Policy(max_release_share=1.0).announce(brief, 81)


def test_a_target_announces_by_an_allowed_exchange_only(brief, rows_brief):
    with refuses("exchanges"):
        Policy().announce(rows_brief, 0)
    with refuses("exchanges"):
        Policy(exchanges=("rows",)).announce(brief, 0)
    Policy(exchanges=("rows",)).announce(rows_brief, 10**9)
    Policy.open().announce(rows_brief, 10**9)
    Policy.open().announce(brief, 10**9)


# The policy itself -------------------------------------------------------------------------------


@pytest.mark.parametrize("exchanges", [("pigeon",), ("embedding", "pigeon"), "embedding"])
def test_unknown_exchanges_are_an_error(exchanges):
    with pytest.raises(ParameterError, match="'exchanges' parameter must be made of 'embedding'"):
        Policy(exchanges=exchanges)


@pytest.mark.parametrize("digits", [-1, 0, 2, 18])
def test_digits_are_between_three_and_seventeen(digits):
    with pytest.raises(ParameterError, match="'significant_digits' parameter must be between 3"):
        Policy(significant_digits=digits)


@pytest.mark.parametrize("digits", [3, 17, None])
def test_the_bounds_of_the_digits_are_allowed(digits):
    assert Policy(significant_digits=digits).significant_digits == digits


# Rounding ----------------------------------------------------------------------------------------

VALUES = [
    0.0, 1.0, -1.0, 0.5, 123456.0, -0.0012345678, 9.9995, 99995.0, 0.00099995, 2.5, 3.5, 1e-310,
    5e-324, -5e-324, 2.2250738585072014e-308, 1e300, -1.2345e-300, 1 / 3, math.pi, 1e15 + 0.5,
    12345.0, 12355.0,
]  # fmt: skip


def oracle(value, digits):
    rounded = Context(prec=digits, rounding=ROUND_HALF_EVEN).create_decimal(Decimal(value))
    return float(rounded)


@pytest.mark.parametrize("digits", [1, 2, 4, 15, 17])
@pytest.mark.parametrize("value", VALUES)
def test_rounding_agrees_with_decimal_arithmetic(value, digits):
    assert round_significant(np.array([value]), digits).tolist() == [oracle(value, digits)]


def test_rounding_to_seventeen_digits_changes_nothing():
    values = np.array(VALUES)
    assert round_significant(values, 17).tobytes() == values.tobytes()


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_rounding_keeps_the_shape(shape):
    values = np.full(shape, 1.23456)
    rounded = round_significant(values, 3)
    assert rounded.shape == shape
    assert (rounded == 1.23).all()


# Release -----------------------------------------------------------------------------------------


def test_a_released_report_has_its_numbers_rounded_and_nothing_else_changed(tools):
    for message in (tools.exchange().report, tools.exchange().model):
        released = Policy(significant_digits=3).release(message)
        for item in dataclasses.fields(message):
            before, after = getattr(message, item.name), getattr(released, item.name)
            if item.metadata["kind"] == "vector":
                assert after.tolist() == [oracle(value, 3) for value in before.tolist()]
                assert not after.flags.writeable
            elif item.metadata["kind"] == "number":
                assert after == oracle(before, 3)
                assert type(after) is float
            elif item.metadata["kind"] == "blob":
                assert after.tobytes() == before.tobytes()
            else:
                assert after == before


def test_the_brief_the_request_and_the_refusal_leave_untouched(tools):
    exchange = tools.exchange()
    for message in (exchange.brief, exchange.request, exchange.refusal):
        assert Policy(significant_digits=3).release(message) is message


def test_a_packed_model_leaves_untouched(messages):
    packed = messages["model-report-packed"]
    assert Policy().release(packed) == packed


def test_without_digits_reports_leave_untouched(tools):
    exchange = tools.exchange()
    for message in (exchange.report, exchange.model):
        assert Policy(significant_digits=None).release(message) is message
        assert Policy.open().release(message) is message


def test_a_released_message_is_of_the_same_kind(tools):
    assert type(Policy().release(tools.exchange().report)) is RiskReport
    assert type(Policy().release(tools.exchange().model)) is ModelReport


def rounded_to(digits, report):
    return Policy(significant_digits=digits, min_effective_rows=0.0).release(report)


@pytest.mark.parametrize("digits", [3, 4, 8])
def test_a_report_with_equal_losses_survives_rounding(tools, digits):
    # rL is a multiple of r, and Cauchy–Schwarz holds with equality.
    report = tools.crafted(1.49 * np.arange(4), np.full((4, 3), 1.2))
    assert rounded_to(digits, report).n_validation == 4


@pytest.mark.parametrize("digits", [3, 4, 8])
@pytest.mark.parametrize("rows", [146, 1006])
def test_a_report_with_every_row_effective_survives_rounding(tools, digits, rows):
    losses = np.random.default_rng(0).gamma(1.0, size=(rows, 3))
    assert rounded_to(digits, tools.crafted(np.ones(rows), losses)).n_validation == rows


@pytest.mark.parametrize("digits", [3, 4, 8])
def test_a_report_of_the_guarded_method_survives_rounding(messages, digits):
    report = messages["risk-report-guarded"]
    assert rounded_to(digits, report).n_rows == report.n_rows


def test_a_report_that_rests_on_a_few_rows_does_not_leave(tools):
    report = tools.exchange().report
    few = dataclasses.replace(
        report,
        n_rows=100,
        n_validation=100,
        ratio_mean=1.0,
        ratio_m2=100.0 * (100.0 / 4.0 - 1.0),  # ESS = n / (1 + M2/n) = 4
        effective_rows=4.0,
        largest_share=0.3,
        co_moment=np.zeros_like(report.co_moment),
        spread=np.empty(0),
        variance=np.empty(0),
        explained=np.empty(0),
    )
    with refuses("min_effective_rows"):
        Policy(min_effective_rows=5.0).release(few)
    assert Policy(min_effective_rows=4.0).release(few).effective_rows == 4.0


def test_a_ratio_sharper_than_the_floor_is_refused(brief):
    sharp = dataclasses.replace(brief, ratio={"regularizations": [1e-12, 1.0]})
    with refuses("min_regularization"):
        admit(Policy(), sharp)
    admit(Policy(min_regularization=1e-12), sharp)


def test_a_penalty_below_the_floor_is_refused_whatever_its_scale(brief):
    asked = dataclasses.replace(brief, candidates=[{"penalty": 0.3}, {"penalty": 3.0}])
    admit(Policy(min_penalty=0.3), asked)
    with refuses("min_penalty"):
        admit(Policy(min_penalty=0.31), asked)
    by_sum = dataclasses.replace(asked, model={"name": "ridge", "penalty_scale": "sklearn"})
    admit(Policy(min_penalty=0.01), by_sum, train_rows=30)
    with refuses("min_penalty"):
        admit(Policy(min_penalty=0.01), by_sum, train_rows=31)


@pytest.mark.parametrize("candidate", [{}, {"fit__alpha": 9.0}, {"penalty": "l2"}])
def test_a_candidate_that_names_no_penalty_has_none(brief, candidate):
    asked = dataclasses.replace(brief, candidates=[{"penalty": 1.0}, candidate])
    admit(Policy(), asked)
    with refuses("min_penalty"):
        admit(Policy(min_penalty=1e-9), asked)


@pytest.mark.parametrize("band", [0, -10, 1001])
def test_a_band_holds_at_least_one_row_and_at_most_a_thousand(band):
    with pytest.raises(ParameterError, match="count_band"):
        Policy(count_band=band)
