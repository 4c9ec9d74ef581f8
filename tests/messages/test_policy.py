"""Every rule of a policy refuses by its name, and lets its counterpart through."""

import contextlib
import dataclasses
import math
from decimal import ROUND_HALF_EVEN, Context, Decimal

import numpy as np
import pytest
from sklearn.linear_model import Lasso, LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeRegressor

from fedcsa.errors import ParameterError, PolicyError
from fedcsa.messages.policy import (
    Policy,
    model_names,
    narrow_features,
    round_significant,
    told_rule,
)
from fedcsa.models.convert import to_portable
from fedcsa.models.fitted import EstimatorModel
from fedcsa.models.formats import open_model
from fedcsa.models.registry import expand_candidates, model_description

#: Rows of every class at a source that is not short of any.
BOTH = np.array([15.0, 15.0])


def refused(policy, brief, fold_rows=30, train_rows=30, sd=None, classes=BOTH):
    """Names of the rules under which a source must not answer."""
    sd = brief.sd if sd is None else sd
    found = list(policy.refusals(brief, fold_rows, train_rows, sd, classes))
    for error in found:
        assert str(error).startswith(f"This site's policy refuses ({error.rule}): ")
    return {error.rule for error in found}


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
    assert refused(Policy(), brief) == set()


@pytest.mark.parametrize(("allowed", "kind"), [(("table",), "rows"), (("rows",), "table")])
def test_an_exchange_must_be_allowed_by_name(tools, allowed, kind):
    brief = tools.exchange(kind=kind).brief
    assert refused(Policy(exchanges=allowed), brief) == {"exchanges"}
    assert refused(Policy(exchanges=()), brief) == {"exchanges"}
    assert refused(Policy(exchanges=(kind,)), brief) == set()


def test_every_rule_that_refuses_is_named(brief):
    policy = Policy(exchanges=(), models=(), features=(), min_target_rows=1000, min_penalty=1.0)
    found = refused(policy, brief, fold_rows=1, train_rows=1, sd=1e9 * brief.sd)
    assert found == {
        "exchanges", "models", "features", "min_target_rows", "min_penalty", "min_fold_rows",
        "max_parameters_per_row", "min_sd_share",
    }  # fmt: skip


@pytest.mark.parametrize("allowed", [("weighted-least-squares",), ()])
def test_a_model_off_the_list_is_refused(brief, allowed):
    assert refused(Policy(models=allowed), brief) == {"models"}
    assert refused(Policy(models=(*allowed, "ridge")), brief) == set()


def test_every_estimator_inside_the_model_must_be_on_the_list(brief):
    pipeline = with_model(brief, make_pipeline(StandardScaler(), Lasso()))
    names = (
        "sklearn.pipeline.Pipeline",
        "sklearn.preprocessing.StandardScaler",
        "sklearn.linear_model.Lasso",
    )
    assert refused(Policy(models=names), pipeline) == set()
    for missing in names:
        others = tuple(name for name in names if name != missing)
        [error] = Policy(models=others).refusals(pipeline, 30, 30, pipeline.sd, BOTH)
        assert f"{missing!r} is not on this site's list" in str(error)


def test_an_estimator_inside_a_candidate_must_be_on_the_list_too(brief):
    model = Pipeline([("model", Lasso())])
    sneaky = with_model(brief, model, {"model": [Lasso(), KNeighborsRegressor(1)]})
    allowed = ("sklearn.pipeline.Pipeline", "sklearn.linear_model.Lasso")
    assert refused(Policy(models=allowed), sneaky) == {"models", "portable_models"}
    more = (*allowed, "sklearn.neighbors.KNeighborsRegressor")
    assert refused(Policy(models=more), sneaky) == {"portable_models"}
    assert refused(Policy(models=more, portable_models=False), sneaky) == set()


def test_names_of_a_description_come_outermost_first():
    description = model_description(make_pipeline(StandardScaler(), Lasso()))
    assert model_names(description) == [
        "sklearn.pipeline.Pipeline",
        "sklearn.preprocessing.StandardScaler",
        "sklearn.linear_model.Lasso",
    ]
    assert model_names({"name": "ridge", "intercept": True}) == ["ridge"]
    assert model_names(5) == []


@pytest.mark.parametrize("bound", [20, 100])
def test_a_target_with_too_few_rows_is_refused(rows_brief, bound):
    def of(n):
        return dataclasses.replace(rows_brief, n_rows=n, rows=rows_brief.rows[:n])

    policy = Policy(exchanges=("rows",), min_target_rows=bound)
    assert refused(policy, of(bound - 1)) == {"min_target_rows"}
    assert refused(policy, of(bound)) == set()


@pytest.mark.parametrize("bound", [1, 30])
def test_a_fold_with_too_few_rows_is_refused(brief, bound):
    policy = Policy(min_fold_rows=bound)
    assert refused(policy, brief, fold_rows=bound - 1) == {"min_fold_rows"}
    assert refused(policy, brief, fold_rows=bound) == set()


@pytest.mark.parametrize("model", ["ridge", Lasso(), LinearRegression()], ids=str)
@pytest.mark.parametrize(("most", "enough"), [(0.33, 10), (1.0, 3)])
def test_too_many_parameters_for_the_rows_are_refused(brief, model, most, enough):
    # two coefficients and an intercept: 3/0.33 = 9.09 rows
    asked, policy = with_model(brief, model), Policy(max_parameters_per_row=most)
    assert refused(policy, asked, train_rows=enough - 1) == {"max_parameters_per_row"}
    assert refused(policy, asked, train_rows=enough) == set()


@pytest.mark.parametrize("share", [0.3, 0.5])
def test_a_table_too_narrow_for_the_sources_rows_is_refused(brief, share):
    policy, widest = Policy(min_sd_share=share), brief.sd / share
    assert refused(policy, brief, sd=0.999 * widest) == set()
    assert refused(policy, brief, sd=1.001 * widest) == {"min_sd_share"}
    assert refused(policy, brief, sd=widest * [0.1, 1.001]) == {"min_sd_share"}
    assert refused(Policy(min_sd_share=0.0), brief, sd=1e9 * widest) == set()


def test_flags_and_rows_are_never_narrow(brief, rows_brief):
    flags = dataclasses.replace(
        brief, flags=[True, True], mean=np.full(2, 0.5), correlations=np.empty((0, 0))
    )
    assert narrow_features(flags, 1e9 * flags.sd, 0.3) == 0
    assert narrow_features(rows_brief, 1e9 * rows_brief.sd, 0.3) == 0
    assert narrow_features(brief, brief.sd * [1e9, 1.0], 0.3) == 1


# Every rule, whatever the columns are ------------------------------------------------------------


def with_columns(brief, features, flags):
    """`brief` about other columns: flags are levels, or marks of missing cells."""
    return dataclasses.replace(
        brief,
        features=list(features),
        flags=list(flags),
        mean=np.where(flags, 0.25, 0.0),
        sd=np.where(flags, 0.5, 1.0),
        correlations=np.empty((0, 0)),
    )


COLUMNS = {
    "numbers": (("age", "bmi"), (False, False)),
    "a level": (("age", "sex=M"), (False, True)),
    "a mark": (("age", "age=missing"), (False, True)),
    "a flag": (("age", "smoker"), (False, True)),
}
#: Of every rule a value that refuses every one of these briefs, or the report on it.
STRICT = {
    "exchanges": ("rows",),
    "models": ("lasso",),
    "portable_models": True,
    "min_target_rows": 1000,
    "min_fold_rows": 31,
    "min_class_rows": 16,
    "max_parameters_per_row": 0.05,
    "min_rows_per_leaf": 11,
    "min_sd_share": 1.1,
    "min_penalty": 1.0,
    "min_effective_rows": 1000.0,
    "max_row_share": 1e-6,
    "max_row_leverage": 1e-6,
    "max_candidates": 1,
    "features": (),
}
#: Rules that refuse nothing: what they do is tested where it is done.
ELSEWHERE = {
    "max_membership_auc", "show_model", "count_band", "significant_digits", "min_level_rows",
    "max_briefs", "max_tables", "period_days", "min_changed_rows", "min_changed_share",
    "no_own_values", "min_cell_rows",
}  # fmt: skip


def refusing(policy, brief, messages):
    """Names of the rules under which the brief is not announced, answered, or reported on."""
    neighbours = with_model(brief, KNeighborsRegressor(1), {"n_neighbors": [1]})
    found = {error.rule for error in policy.announcement_refusals(brief)}
    found |= refused(policy, brief)
    found |= refused(policy, neighbours) & {"portable_models"}
    tree = with_model(brief, DecisionTreeRegressor(min_samples_leaf=10), {"max_depth": [2]})
    found |= refused(policy, tree) & {"min_rows_per_leaf"}
    for message in (messages["risk-report"],):
        try:
            policy.release(message)
        except PolicyError as error:
            found.add(error.rule)
    return found


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("rule", [item.name for item in dataclasses.fields(Policy)])
def test_every_rule_refuses_alone_whatever_the_columns_are(brief, messages, rule, columns):
    assert (rule in STRICT) != (rule in ELSEWHERE)
    asked = with_columns(brief, *COLUMNS[columns])
    assert refusing(Policy.open(), asked, messages) == set()
    if rule in STRICT:
        policy = dataclasses.replace(Policy.open(), **{rule: STRICT[rule]})
        assert refusing(policy, asked, messages) == {rule}


@pytest.mark.parametrize("columns", COLUMNS)
def test_every_column_must_be_on_the_list_by_itself_or_by_its_feature(brief, columns):
    names, flags = COLUMNS[columns]
    asked = with_columns(brief, names, flags)
    own = {name: name.partition("=")[0] for name in names}
    for allowed in (names, tuple(own.values())):
        assert refused(Policy(features=allowed), asked) == set()
    for name in names:
        others = tuple(other for other in own.values() if other != own[name])
        refusals = [str(error) for error in Policy(features=others).announcement_refusals(asked)]
        assert any(f"(features): {name!r} is not on this site's list" in text for text in refusals)


@pytest.mark.parametrize(
    ("allowed", "column", "flag", "refusing"),
    [
        ("sex", "sex=M", True, False),
        ("sex", "sex=a=b", True, False),  # a level may hold the sign
        ("sex=M", "sex=M", True, False),
        ("sex", "sex=M", False, True),  # a number is no level, whatever it is called
        ("sex", "sexual_history", True, True),
        ("sex=F", "sex=M", True, True),
        ("M", "sex=M", True, True),
        ("se", "sex=M", True, True),
        ("", "sex=M", True, True),
    ],
)
def test_a_level_belongs_to_its_feature(brief, allowed, column, flag, refusing):
    asked = with_columns(brief, ["age", column], [False, flag])
    expected = {"features"} if refusing else set()
    policy = Policy(features=("age", allowed))
    assert refused(policy, asked) == expected
    assert {error.rule for error in policy.announcement_refusals(asked)} == expected


# The target's side -------------------------------------------------------------------------------


def announced(policy, brief):
    return [error.rule for error in policy.announcement_refusals(brief)]


def test_a_target_announces_by_an_allowed_exchange_only(brief, rows_brief):
    assert announced(Policy(), rows_brief) == ["exchanges"]
    assert announced(Policy(exchanges=("rows",)), brief) == ["exchanges"]
    assert announced(Policy(exchanges=("rows",)), rows_brief) == []


# The policy itself -------------------------------------------------------------------------------


#: What switches every rule off. A rule that is missing here fails the test below.
OFF = {
    "exchanges": ("table", "rows"),
    "models": None,
    "portable_models": False,
    "min_target_rows": 2,  # a brief has no fewer
    "min_fold_rows": 0,
    "min_class_rows": 0,
    "max_parameters_per_row": math.inf,
    "min_rows_per_leaf": 0,
    "no_own_values": False,
    "min_sd_share": 0.0,
    "min_level_rows": 0,
    "min_penalty": 0.0,
    "min_effective_rows": 0.0,
    "max_row_share": 1.0,
    "max_row_leverage": math.inf,
    "max_briefs": None,
    "max_candidates": None,
    "max_tables": None,
    "period_days": 0,
    "min_changed_rows": 0,
    "min_changed_share": 0.0,
    "min_cell_rows": 1,
    "max_membership_auc": 1.0,
    "show_model": True,
    "count_band": 1,
    "significant_digits": None,
    "features": None,
}


@pytest.mark.parametrize("rule", [item.name for item in dataclasses.fields(Policy)])
def test_an_open_policy_switches_every_rule_off(rule):
    assert getattr(Policy.open(), rule) == OFF[rule]


def test_an_open_policy_refuses_nothing(tools, messages):
    for brief in (tools.exchange().brief, tools.exchange(kind="rows").brief):
        assert refused(Policy.open(), brief, 1, 1, sd=1e9 * brief.sd) == set()
        assert announced(Policy.open(), brief) == []
    for message in messages.values():
        assert Policy.open().release(message) is message
        assert Policy.open().rules(message) == ""


@pytest.mark.parametrize(
    ("rule", "default"), [(item.name, item.default) for item in dataclasses.fields(Policy)]
)
def test_a_rule_that_differs_from_the_open_policy_is_named_with_a_message(messages, rule, default):
    strict = {
        "exchanges": ("table",), "models": ("ridge",), "portable_models": True,
        "max_membership_auc": 0.6, "show_model": False, "no_own_values": True, "features": ("x0",),
        "count_band": 10, "significant_digits": 5,
        "max_briefs": 5, "max_candidates": 120, "max_tables": 3, "period_days": 90,
    }  # fmt: skip
    policy = dataclasses.replace(
        Policy.open(), **{rule: strict.get(rule, 5 if isinstance(default, int) else 0.25)}
    )
    named = [name for name, message in messages.items() if rule in policy.rules(message)]
    assert named
    assert all(policy.rules(messages[name]).startswith(f"{rule} ") for name in named)


@pytest.mark.parametrize("exchanges", [("pigeon",), ("table", "pigeon"), "table"])
def test_unknown_exchanges_are_an_error(exchanges):
    with pytest.raises(ParameterError, match="'exchanges' parameter must be made of 'table'"):
        Policy(exchanges=exchanges)


@pytest.mark.parametrize("rows", [-1, 0, 1001])
def test_a_cell_has_between_one_and_a_thousand_rows_at_least(rows):
    with pytest.raises(ParameterError, match="'min_cell_rows' parameter must be between 1"):
        Policy(min_cell_rows=rows)


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
    exchange = tools.exchange()
    for message in (exchange.report, exchange.model, exchange.found):
        released = Policy(significant_digits=3).release(message)
        for name, kind in message.kinds.items():
            before, after = getattr(message, name), getattr(released, name)
            if kind == "number":
                assert after == oracle(before, 3)
                assert type(after) is float
            elif kind not in ("vector", "matrix", "arrays"):
                assert after == before
        for (name, before), (_, after) in zip(message.buffers(), released.buffers(), strict=True):
            rounded = [oracle(value, 3) for value in before.ravel().tolist()]
            assert after.ravel().tolist() == rounded, name
            assert not after.flags.writeable


def test_the_brief_the_request_and_the_refusal_leave_untouched(tools):
    exchange = tools.exchange()
    for message in (exchange.brief, exchange.request, exchange.examination, exchange.refusal):
        assert Policy(significant_digits=3).release(message) is message


def test_the_fitted_numbers_of_a_model_are_rounded_and_its_indices_are_not(messages):
    report = messages["model-report-trees"]
    report = dataclasses.replace(report, arrays={**report.arrays, "step": np.array([0.123456])})
    left = Policy(significant_digits=3).release(report).arrays
    assert left["value"].tolist() == [0.0, 1.23, -2.5]
    assert left["feature"].tolist() == [1, -1, -1]
    assert left["step"].tolist() == [0.123456]  # agreed, not fitted


def test_fitted_arrays_are_rounded_and_agreed_ones_are_not(messages):
    rng = np.random.default_rng(0)
    X = rng.normal([1e6, 3.0], [0.1, 2.0], size=(200, 2))
    steps = make_pipeline(StandardScaler(), PolynomialFeatures(2), LinearRegression())
    model = to_portable(steps.fit(X, X[:, 0] - 1e6 + X[:, 1] ** 2), 0, None)
    report = dataclasses.replace(
        messages["model-report"], n_rows=200, form=model.form, arrays=model.arrays
    )
    told = Policy(significant_digits=4).release(report).arrays
    assert (told["step1.0.powers"] == model.arrays["step1.0.powers"]).all()
    for name in ("coefficients", "intercept", "step0.0.scale"):
        assert (told[name] == round_significant(model.arrays[name], 4)).all()
        assert (told[name] != model.arrays[name]).any()
    off = (told["step0.0.shift"] - model.arrays["step0.0.shift"]) / told["step0.0.scale"]
    assert 0.0 < np.abs(off).max() < 1e-4, "in sds, however far from 0 the mean is"
    np.testing.assert_allclose(
        open_model(model.form, told, 2, 0).predict(X), steps.predict(X), rtol=1e-3, atol=0.01
    )


def test_a_model_with_more_numbers_than_the_rows_bear_does_not_leave(messages):
    report = dataclasses.replace(messages["model-report"], n_rows=8)  # three numbers
    with refuses("max_parameters_per_row"):
        Policy().release(report)
    assert Policy().release(dataclasses.replace(report, n_rows=10)).n_rows == 10


def test_without_digits_reports_leave_untouched(tools):
    exchange = tools.exchange()
    for message in (exchange.report, exchange.model):
        assert Policy(significant_digits=None).release(message) is message
        assert Policy.open().release(message) is message


def rounded_to(digits, report):
    policy = dataclasses.replace(Policy.open(), significant_digits=digits)
    return policy.release(report)


@pytest.mark.parametrize("digits", [3, 4, 8])
def test_a_report_with_equal_losses_survives_rounding(tools, digits):
    # rL is a multiple of r, and Cauchy–Schwarz holds with equality.
    report = tools.crafted(1.49 * np.arange(4), np.full((4, 3), 1.2))
    assert rounded_to(digits, report).n_judged == 4


@pytest.mark.parametrize("digits", [3, 4, 8])
@pytest.mark.parametrize("rows", [146, 1006])
def test_a_report_with_every_row_effective_survives_rounding(tools, digits, rows):
    losses = np.random.default_rng(0).gamma(1.0, size=(rows, 3))
    assert rounded_to(digits, tools.crafted(np.ones(rows), losses)).n_judged == rows


@pytest.mark.parametrize("digits", [3, 4, 8])
def test_a_report_without_moments_survives_rounding(messages, digits):
    report = messages["risk-report-bare"]
    assert rounded_to(digits, report).n_rows == report.n_rows


def test_a_report_that_rests_on_a_few_rows_does_not_leave(tools):
    report = dataclasses.replace(tools.exchange().report, effective_rows=9.0, largest_share=0.15)
    with refuses("min_effective_rows"):
        Policy().release(report)
    assert Policy(min_effective_rows=9.0).release(report).effective_rows == 9.0


def test_a_report_in_which_one_row_weighs_too_much_does_not_leave(tools):
    report = dataclasses.replace(tools.exchange().report, effective_rows=12.0, largest_share=0.21)
    with refuses("max_row_share"):
        Policy().release(report)
    allowed = Policy(max_row_share=0.21, max_row_leverage=0.6)
    assert allowed.release(report).largest_share == 0.21


@pytest.mark.parametrize(("share", "refusing"), [(0.15, False), (0.16, True)])
def test_a_report_of_which_one_row_is_more_than_half_does_not_leave(tools, share, refusing):
    """Of the variance of a weighted mean: 20 effective rows, 0.16² · 20 = 0.512."""
    changes = {"effective_rows": 20.0, "largest_share": share}
    report = dataclasses.replace(tools.exchange().report, **changes)
    with refuses("max_row_leverage") if refusing else contextlib.nullcontext():
        Policy().release(report)


@pytest.mark.parametrize("rule", [item.name for item in dataclasses.fields(Policy)])
def test_a_refusal_that_depends_on_single_rows_leaves_under_one_name(rule):
    hidden = {"min_class_rows", "min_sd_share", "min_effective_rows", "max_row_share"}
    hidden |= {"max_row_leverage"}
    assert told_rule(rule) == ("row_floors" if rule in hidden else rule)


@pytest.mark.parametrize("counts", [(4, 26), (26, 4), (1, 29), (20, 6, 4)])
def test_a_class_has_five_rows_or_none(brief, counts):
    assert refused(Policy(), brief, classes=np.array(counts)) == {"min_class_rows"}
    for enough in ((5, 25), (0, 30), (20, 0, 10), ()):
        assert refused(Policy(), brief, classes=np.array(enough)) == set()


@pytest.mark.parametrize("rule", ["max_briefs", "max_candidates", "max_tables"])
def test_what_is_counted_is_allowed_once_or_more_or_without_end(rule):
    for most in (1, None):
        assert getattr(Policy(**{rule: most}), rule) == most
    with pytest.raises(ParameterError, match=f"{rule!r} parameter must be 1 or more, or none"):
        Policy(**{rule: 0})


@pytest.mark.parametrize("days", [-1, 36_501])
def test_a_period_is_at_most_a_hundred_years(days):
    with pytest.raises(ParameterError, match="'period_days' parameter must be between 0 and 36500"):
        Policy(period_days=days)


def test_a_model_without_a_format_leaves_only_in_one_process(messages):
    held = EstimatorModel(KNeighborsRegressor(1))
    report = dataclasses.replace(messages["model-report"], form=held.form, arrays={}, held=held)
    with refuses("portable_models"):
        Policy().release(report)
    assert Policy.open().release(report) is report


def test_a_penalty_below_the_floor_is_refused_whatever_its_scale(brief):
    asked = dataclasses.replace(brief, candidates=[{"penalty": 0.3}, {"penalty": 3.0}])
    assert refused(Policy(min_penalty=0.3), asked) == set()
    assert refused(Policy(min_penalty=0.31), asked) == {"min_penalty"}
    by_sum = dataclasses.replace(asked, model={"name": "ridge", "penalty_scale": "sklearn"})
    assert refused(Policy(min_penalty=0.01), by_sum, train_rows=30) == set()
    assert refused(Policy(min_penalty=0.01), by_sum, train_rows=31) == {"min_penalty"}


@pytest.mark.parametrize("candidate", [{}, {"fit__alpha": 9.0}, {"penalty": "l2"}])
def test_a_candidate_that_names_no_penalty_has_none(brief, candidate):
    asked = dataclasses.replace(brief, candidates=[{"penalty": 1.0}, candidate])
    assert refused(Policy(), asked) == set()
    assert refused(Policy(min_penalty=1e-9), asked) == {"min_penalty"}


@pytest.mark.parametrize("band", [0, -10, 1001])
def test_a_band_holds_at_least_one_row_and_at_most_a_thousand(band):
    with pytest.raises(ParameterError, match="count_band"):
        Policy(count_band=band)


@pytest.mark.parametrize("rule", dataclasses.fields(Policy), ids=lambda rule: rule.name)
@pytest.mark.parametrize(
    "value", [object(), "x", float("nan"), [1]], ids=["object", "text", "nan", "list"]
)
def test_a_value_of_another_kind_is_refused_when_a_policy_is_made(rule, value):
    with pytest.raises(ParameterError, match=f"'{rule.name}' parameter must be") as refused:
        Policy(**{rule.name: value})
    assert "object at" not in str(refused.value)


@pytest.mark.parametrize("rule", dataclasses.fields(Policy), ids=lambda rule: rule.name)
def test_both_values_that_a_rule_declares_are_of_its_kind(rule):
    for value in (rule.default, rule.metadata["off"]):
        assert getattr(Policy(**{rule.name: value}), rule.name) == value
