"""A source answers one brief and one request per study, and says clearly why not."""

import contextlib
import dataclasses
from datetime import UTC, datetime

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Lasso, LassoCV, LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeRegressor

from fedcsa.errors import (
    DataError,
    FedCSAError,
    MessageError,
    ModelError,
    ParameterError,
    UntrustedError,
)
from fedcsa.messages.codec import decode, digest, encode
from fedcsa.messages.messages import ModelReport, Refusal, RiskReport
from fedcsa.messages.policy import Policy, round_significant, told_rule
from fedcsa.models.registry import model_description
from fedcsa.source.source import Source


def brief_of(make, design=None, **options):
    return make.target(design, **options).brief(["a"])


def by_rows(make, **options):
    """The paper's exchange and folds."""
    return make.plan(**{"method": "feddae", "exchange": "rows", **options})


def scheme_plan(make, scheme):
    return make.plan() if scheme == "cross-fit" else by_rows(make, scheme=scheme)


def refused(answer, rule):
    assert isinstance(answer, Refusal), answer
    assert answer.rule == rule
    return True


# Answers -----------------------------------------------------------------------------------------


def test_a_brief_is_answered_with_a_report_and_a_request_with_a_model(make):
    brief = brief_of(make, make.plan(study="stroke"))
    site = make.source("a")
    report = site.answer(brief)
    assert isinstance(report, RiskReport)
    assert (report.study, report.source) == ("stroke", "a")
    assert report.in_reply_to == digest(encode(brief))
    assert report.n_rows == 30
    request = make.request_for(brief, 1)
    model = site.answer(request)
    assert isinstance(model, ModelReport)
    assert (model.study, model.source, model.candidate) == ("stroke", "a", 1)
    assert model.in_reply_to == digest(encode(request))


@pytest.mark.parametrize("exchange", ["table", "rows"])
@pytest.mark.parametrize("scheme", ["split", "cross-fit"])
def test_a_brief_that_travelled_is_answered_as_if_it_had_not(make, exchange, scheme):
    ratio = {"bandwidths": [0.5, 2.0], "n_centres": 7} if exchange == "rows" else {}
    brief = brief_of(
        make, make.plan(method="feddae", exchange=exchange, scheme=scheme, ratio=ratio)
    )
    travelled = decode(encode(brief))
    here, there = make.source("a"), make.source("a")
    assert encode(here.answer(brief)) == encode(there.answer(travelled))
    request = make.request_for(brief)
    assert encode(here.answer(request)) == encode(there.answer(decode(encode(request))))


def test_any_other_message_is_an_error(make):
    site = make.source("a")
    report = site.answer(brief_of(make))
    with pytest.raises(MessageError, match="a model request or an examination, not a risk-report"):
        site.answer(report)


def test_repr_names_the_site_and_shows_no_row(make):
    assert repr(make.source("Ulm")) == "Source('Ulm', 30 rows, 2 columns)"


# Order and repetition ----------------------------------------------------------------------------


def test_the_same_brief_twice_gets_the_same_answer(make):
    brief, site = brief_of(make), make.source("a")
    assert encode(site.answer(brief)) == encode(site.answer(brief))


def test_the_same_request_twice_gets_the_same_model(make):
    brief, site = brief_of(make), make.source("a")
    site.answer(brief)
    request = make.request_for(brief)
    assert encode(site.answer(request)) == encode(site.answer(request))


def test_a_second_brief_in_one_study_is_refused(make):
    site = make.source("a")
    assert isinstance(site.answer(brief_of(make)), RiskReport)
    assert refused(site.answer(brief_of(make, seed=1)), "one_brief")
    # and the first stays the one that counts
    assert isinstance(site.answer(brief_of(make)), RiskReport)


def test_a_second_brief_is_refused_after_another_study_came_between(make):
    site = make.source("a")
    assert isinstance(site.answer(brief_of(make)), RiskReport)
    assert isinstance(site.answer(brief_of(make, make.plan(study="other"))), RiskReport)
    assert refused(site.answer(brief_of(make, seed=1)), "one_brief")


def test_a_brief_that_was_refused_does_not_count(make):
    policy = dataclasses.replace(Policy.open(), exchanges=("table",))
    site = make.source("a", policy=policy)
    assert refused(site.answer(brief_of(make, by_rows(make))), "exchanges")
    assert isinstance(site.answer(brief_of(make)), RiskReport)


def test_a_second_model_in_one_study_is_refused(make):
    brief, site = brief_of(make), make.source("a")
    site.answer(brief)
    assert isinstance(site.answer(make.request_for(brief, 0)), ModelReport)
    assert refused(site.answer(make.request_for(brief, 1)), "one_model")
    assert isinstance(site.answer(make.request_for(brief, 0)), ModelReport)


def test_every_study_gets_its_own_model(make):
    site = make.source("a")
    for name in ("first", "second"):
        brief = brief_of(make, make.plan(study=name))
        assert isinstance(site.answer(brief), RiskReport)
        assert isinstance(site.answer(make.request_for(brief)), ModelReport)


def test_a_model_before_the_report_is_refused(make):
    assert refused(make.source("a").answer(make.request_for(brief_of(make))), "phase_order")


def test_a_model_for_another_brief_is_refused(make):
    site = make.source("a")
    site.answer(brief_of(make))
    assert refused(site.answer(make.request_for(brief_of(make, seed=5))), "phase_order")


def test_a_candidate_that_the_brief_does_not_have_is_an_error(make):
    brief, site = brief_of(make), make.source("a")
    site.answer(brief)
    with pytest.raises(MessageError, match="must name a candidate of the brief"):
        site.answer(make.request_for(brief, 3))


def test_a_candidate_that_cannot_be_fitted_is_refused_by_name(make):
    brief = brief_of(make, make.plan(LassoCV(), {"cv": [3, 40]}))
    site = make.source("a")
    report = site.answer(brief)
    assert dict(report.failed) == {"1": "ValueError"}
    assert refused(site.answer(make.request_for(brief, 1)), "fit_failed")


# Policy ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "policy", "n_target"),
    [
        ("exchanges", {"exchanges": ("rows",)}, 40),
        ("models", {"models": ("sklearn.svm.SVR",)}, 40),
        ("min_target_rows", {"min_target_rows": 41}, 40),
        ("min_fold_rows", {"min_fold_rows": 7}, 40),
        ("max_parameters_per_row", {"max_parameters_per_row": 0.09}, 40),
        ("min_sd_share", {"min_sd_share": 10.0}, 40),
    ],
)
def test_every_rule_of_the_policy_refuses_by_its_name(make, rule, policy, n_target):
    site = make.source("a", policy=dataclasses.replace(Policy.open(), **policy))
    brief = brief_of(make, n=n_target)
    answer = site.answer(brief)
    assert refused(answer, told_rule(rule))
    assert site.refusal.rule == rule
    assert answer.in_reply_to == digest(encode(brief))
    assert answer.source == "a"


def test_the_strict_policy_is_the_default(make):
    X, y = make.rows(30)
    assert refused(Source("a", X, y).answer(brief_of(make)), "min_fold_rows")
    X, y = make.rows(150)
    assert isinstance(Source("a", X, y).answer(brief_of(make)), RiskReport)


def test_folds_and_training_rows_are_counted_as_they_are_used(make):
    # 30 rows: 3 parameters on ten training rows of a split, or on thirty when refitted
    strict = dataclasses.replace(Policy.open(), max_parameters_per_row=0.2)
    split = brief_of(make, by_rows(make))
    assert refused(make.source("a", policy=strict).answer(split), "max_parameters_per_row")
    refit = brief_of(make, by_rows(make, refit=True))
    assert isinstance(make.source("a", policy=strict).answer(refit), RiskReport)


def test_a_source_whose_rows_are_spread_wide_refuses_a_narrow_target(make):
    X, y = make.rows(30)
    strict = dataclasses.replace(Policy.open(), min_sd_share=0.3)
    near = make.source("a", (X, y), policy=strict)
    wide = make.source("a", (1000.0 * X, y), policy=strict)
    assert isinstance(near.answer(brief_of(make)), RiskReport)
    assert refused(wide.answer(brief_of(make)), "row_floors")


def other_unit(make, factor=88.4):
    """A brief on two columns, and rows of which the second is in another unit."""
    X, y = make.rows(30)
    X = X + 10.0
    return make.target(X=X).brief(["a"]), (X * [1.0, factor], y)


def test_a_column_in_another_unit_is_told_by_its_place_and_the_conversion_alone(make):
    brief, rows = other_unit(make)
    [found] = [
        f for f in make.source("a", rows).answer(brief).findings if f["code"] == "other-unit"
    ]
    assert found["evidence"] == {"column": 1.0, "conversion": "creatinine", "direction": "divide"}


def test_a_refusal_for_another_unit_names_the_column_at_home_and_nothing_elsewhere(make):
    brief, rows = other_unit(make)
    strict = dataclasses.replace(Policy.open(), min_sd_share=0.3)
    source = make.source("a", rows, policy=strict)
    assert refused(source.answer(brief), "row_floors")
    sentence = "Column 'x1' here looks like µmol/L where the target's is mg/dL: divide by 88.4."
    assert str(source.refusal).count(sentence) == 1
    assert [str(error).count(sentence) for error in source.refusals(brief)] == [1]
    assert "looks like" not in str(make.source("a", policy=strict).refusals(brief))


@pytest.mark.parametrize("digits", [3, 4, 6])
def test_what_leaves_is_rounded(make, digits):
    brief = brief_of(make)
    exact = make.source("a")
    rounding = make.source(
        "a", policy=dataclasses.replace(Policy.open(), significant_digits=digits)
    )
    for message in (brief, make.request_for(brief)):
        full, short = exact.answer(message), rounding.answer(message)
        for name, kind in full.kinds.items():
            if kind == "number":
                value = np.asarray(getattr(full, name))
                assert getattr(short, name) == round_significant(value, digits)
        left = dict(short.buffers())
        for name, value in full.buffers():
            np.testing.assert_array_equal(left[name], round_significant(value, digits))


# The ledger --------------------------------------------------------------------------------------


def test_every_answer_is_in_the_ledger_refusals_too(make):
    noon = datetime(2025, 1, 2, 12, tzinfo=UTC)
    site, brief = make.source("a", clock=lambda: noon), brief_of(make)
    answers = [
        site.answer(make.request_for(brief)),
        site.answer(brief),
        site.answer(make.request_for(brief)),
    ]
    assert [entry.message for entry in site.ledger.entries] == [
        "refusal",
        "risk-report",
        "model-report",
    ]
    assert [entry.sha256 for entry in site.ledger.entries] == [
        digest(encode(answer)) for answer in answers
    ]
    assert {entry.site for entry in site.ledger.entries} == {"a"}
    assert {entry.recipient for entry in site.ledger.entries} == {"target"}
    assert {entry.time for entry in site.ledger.entries} == {"2025-01-02T12:00:00.000+00:00"}


def test_nothing_is_in_the_ledger_after_an_error(make):
    X, _ = make.rows(30)
    site = make.source("a", (X, np.full(30, np.nan)))
    with pytest.raises(DataError, match="must be finite"):
        site.answer(brief_of(make))
    assert site.ledger.entries == []


# Bad data ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 1, 29, 31])
def test_an_outcome_of_another_length_is_an_error(make, length):
    text = f"The outcome of source 'a' must have 30 rows like its features; it has {length}"
    with pytest.raises(DataError, match=text):
        make.source("a", (make.rows(30)[0], np.zeros(length)))


def test_an_outcome_that_is_a_single_number_is_an_error(make):
    with pytest.raises(DataError, match="must have 30 rows like its features; it has 0"):
        make.source("a", (make.rows(30)[0], 5.0))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_features_that_are_not_finite_are_an_error(make, bad):
    X, y = make.rows(30)
    X[3, 1] = bad
    with pytest.raises(DataError, match="X of source 'a' must be finite, but 1 of its 60 cells is"):
        make.source("a", (X, y))


@pytest.mark.parametrize("X", [np.zeros(5), np.zeros((5, 0)), np.zeros((0, 2)), [["a", "b"]], [[]]])
def test_features_that_are_no_table_are_an_error(make, X):
    with pytest.raises(DataError, match="X of source 'a' must"):
        make.source("a", (X, np.zeros(5)))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_outcome_that_is_not_finite_is_an_error(make, bad):
    X, y = make.rows(30)
    y[3] = bad
    with pytest.raises(DataError, match="The outcome of source 'a' must be finite"):
        make.source("a", (X, y)).answer(brief_of(make))


def test_an_outcome_of_text_is_an_error(make):
    X, _ = make.rows(30)
    with pytest.raises(DataError, match="The outcome of source 'a' must hold numbers"):
        make.source("a", (X, np.array(["x", "y"] * 15))).answer(brief_of(make))


@pytest.mark.parametrize("classes", [(), ("no", "yes")])
def test_an_outcome_of_two_columns_is_an_error(make, classes):
    X, y = make.rows(30)
    if classes:
        X, y = make.labelled(30)
    model = LogisticRegression() if classes else "ridge"
    design = make.plan(model, None, classes=classes, loss="log" if classes else "squared")
    with pytest.raises(DataError, match="The outcome of source 'a' must be one column"):
        make.source("a", (X, np.column_stack([y, y]))).answer(brief_of(make, design))


def test_a_column_of_outcomes_is_as_good_as_a_vector(make):
    X, y = make.rows(30)
    brief = brief_of(make)
    flat, tall = make.source("a", (X, y)), make.source("a", (X, y[:, None]))
    assert encode(flat.answer(brief)) == encode(tall.answer(brief))


def test_an_unknown_class_is_an_error(make):
    X, y = make.labelled(30, classes=("no", "yes", "unknown"))
    design = make.plan(LogisticRegression(), None, classes=("no", "yes"), loss="log")
    text = "The outcome of source 'a' must hold only the 2 agreed classes; 10 of its 30 rows"
    with pytest.raises(DataError, match=text):
        make.source("a", (X, y)).answer(brief_of(make, design))


def test_a_missing_column_is_named(make):
    site = make.source("a", features=("x0", "age"))
    with pytest.raises(DataError, match="'a' must have the study's 2 columns; missing: 'x1'"):
        site.answer(brief_of(make))


def test_a_source_with_more_columns_than_the_study_uses_those_it_needs(make):
    X, y = make.rows(30)
    more = np.column_stack([np.ones(30), X[:, 1], X[:, 0]])
    site = make.source("a", (more, y), features=("one", "x1", "x0"))
    assert encode(site.answer(brief_of(make))) == encode(
        make.source("a", (X, y)).answer(brief_of(make))
    )


@pytest.mark.parametrize("features", [("x0",), ("x0", "x1", "x2"), ("x0", "x0")])
def test_every_column_has_one_name_of_its_own(make, features):
    with pytest.raises(FedCSAError, match="'a'"):
        make.source("a", features=features)


@pytest.mark.parametrize("n", [2, 5])
def test_fewer_than_six_rows_are_an_error_with_three_folds(make, n):
    text = f"A source must have at least 6 rows.* it has {n}"
    with pytest.raises(DataError, match=text):
        make.source("a", make.rows(n)).answer(brief_of(make, by_rows(make)))


def test_six_rows_are_enough_for_the_papers_folds(make):
    report = make.source("a", make.rows(6)).answer(brief_of(make, by_rows(make)))
    assert (report.n_rows, report.n_judged) == (6, 2)


def test_a_fold_that_would_be_too_small_is_an_error(make):
    design = by_rows(make, folds=(0.8, 0.1, 0.1))
    with pytest.raises(DataError, match="Every fold must have at least 2 rows"):
        make.source("a", make.rows(10)).answer(brief_of(make, design))


# Bad studies -------------------------------------------------------------------------------------


def test_a_classifier_with_a_loss_of_numbers_is_an_error(make):
    X, y = make.labelled(30)
    design = make.plan(LogisticRegression(), None, classes=("no", "yes"), loss="squared")
    with pytest.raises(
        ParameterError, match=r"'loss' parameter must be .* for an outcome of class"
    ):
        make.source("a", (X, y)).answer(brief_of(make, design))


def test_a_regression_with_a_loss_of_classes_is_an_error(make):
    with pytest.raises(
        ParameterError, match=r"'loss' parameter must be .* for an outcome of numbe"
    ):
        make.source("a").answer(brief_of(make, make.plan(loss="brier")))


@pytest.mark.parametrize(
    "changes",
    [
        {"model": {"name": "lasso"}},
        {"model": {"name": 5}},
        {"model": {}},
        {"model": {"name": "sklearn"}},
        {"model": {"name": "sklearn", "estimator": 5}},
        {"model": {"name": "sklearn", "estimator": {"class": "os.system", "parameters": {}}}},
        {"candidates": [{"penalty": "much"}]},
        {"candidates": [{"penalty": -1.0}]},
        {"candidates": [{"penalty": {"class": "builtins.eval", "parameters": {}}}]},
        {"shares": np.array([1.0, 1.0, 1.0])},
        {"shares": np.zeros(3)},
        {"scheme": "bootstrap"},
        {"loss": "no such loss"},
    ],
    ids=str,
)
@pytest.mark.parametrize("scheme", ["split", "cross-fit"])
def test_a_forged_brief_is_refused_by_an_error_of_ours(make, scheme, changes):
    forged = dataclasses.replace(brief_of(make, scheme_plan(make, scheme)), **changes)
    if scheme == "cross-fit" and "shares" in changes:
        assert isinstance(make.source("a").answer(forged), RiskReport)  # they play no part there
        return
    with pytest.raises(FedCSAError, match=r"\w"):
        make.source("a").answer(forged)


@pytest.mark.parametrize("value", ["call 555-1234", ["call 555-1234"], {"call 555-1234": 1}])
@pytest.mark.parametrize("name", ["penalty", "ratio_power"])
def test_an_error_does_not_quote_a_forged_value(make, name, value):
    forged = dataclasses.replace(
        brief_of(make, scheme_plan(make, "split")), candidates=[{name: value}]
    )
    with pytest.raises(FedCSAError) as caught:
        make.source("a").answer(forged)
    assert "555" not in str(caught.value)


@pytest.mark.parametrize(
    "ratio",
    [
        {"random_state": 0},
        {"no_such_option": 1},
        {"bandwidths": "narrow"},
        {"bandwidths": [-1.0]},
        {"n_centres": 0},
        {"n_centres": "all"},
        {"nonnegative": "never"},
        {"alpha": 2.0},
        {"alpha": "half"},
    ],
    ids=str,
)
def test_forged_options_of_the_ratio_are_refused_by_an_error_of_ours(make, ratio):
    brief = brief_of(make, by_rows(make))
    with pytest.raises(FedCSAError, match=r"\w"):
        make.source("a").answer(dataclasses.replace(brief, ratio=ratio))


@pytest.mark.parametrize("where", ["model", "candidate"])
def test_a_brief_cannot_make_a_source_write_or_unpickle_files(make, tmp_path, where):
    # Pipeline(memory=folder) caches what it has fitted there, with pickle, and reads it again.
    folder = tmp_path / "cache"
    steps = [("scale", StandardScaler()), ("model", Lasso(0.1))]
    model = Pipeline(steps, memory=str(folder) if where == "model" else None)
    candidates = [{}] if where == "model" else [{"memory": str(folder)}]
    forged = dataclasses.replace(
        brief_of(make), model=model_description(model), candidates=candidates
    )
    site = make.source("a")
    with contextlib.suppress(FedCSAError):
        site.answer(forged)
    assert not folder.exists()


def test_a_class_of_an_untrusted_library_is_refused_and_a_trusted_one_is_not(make, monkeypatch):
    import fedcsa.models.model as place

    class Mean(RegressorMixin, BaseEstimator):
        def fit(self, X, y):  # noqa: ARG002
            self.mean_ = y.mean()
            return self

        def predict(self, X):
            return np.full(len(X), self.mean_)

    Mean.__module__, Mean.__qualname__ = place.__name__, "Mean"
    monkeypatch.setattr(place, "Mean", Mean, raising=False)
    trusted = ("fedcsa.models.model.Mean",)
    brief = brief_of(make, make.plan(Mean(), None), trusted_types=trusted)
    with pytest.raises(UntrustedError, match=r"fedcsa\.models\.model\.Mean"):
        make.source("a").answer(brief)
    assert isinstance(make.source("a", trusted_types=trusted).answer(brief), RiskReport)


# What is computed --------------------------------------------------------------------------------


def test_a_loss_of_ones_own_is_used(make):
    def pinball(prediction, y):
        return np.where(y > prediction, 0.9 * (y - prediction), 0.1 * (prediction - y))

    brief = brief_of(make, make.plan(loss="pinball"))
    with pytest.raises(ParameterError, match="'loss' parameter must be"):
        make.source("a").answer(brief)
    report = make.source("a", losses={"pinball": pinball}).answer(brief)
    squared = make.source("a").answer(brief_of(make))
    assert report.effective_rows == squared.effective_rows
    assert (report.risk != squared.risk).all()


def test_a_built_in_loss_under_another_name_gives_the_same_numbers(make):
    report = make.source("a", losses={"mine": lambda p, y: (p - y) ** 2}).answer(
        brief_of(make, make.plan(loss="mine"))
    )
    plain = make.source("a").answer(brief_of(make))
    np.testing.assert_allclose(report.risk, plain.risk, rtol=1e-12)
    np.testing.assert_allclose(report.variance, plain.variance, rtol=1e-12)


def test_a_loss_of_ones_own_with_the_wrong_shape_is_an_error(make):
    site = make.source("a", losses={"mine": lambda *_: np.zeros(2)})
    with pytest.raises(ModelError, match="The loss must return one number per row"):
        site.answer(brief_of(make, make.plan(loss="mine")))


def test_a_candidate_that_raises_while_it_predicts_is_a_failure(make):
    # 24 training rows: 25 neighbours are too many, which scikit-learn sees when predicting
    design = make.plan(KNeighborsRegressor(), {"n_neighbors": [3, 25]})
    report = make.source("a").answer(brief_of(make, design))
    assert dict(report.failed) == {"1": "ValueError"}


def test_failures_of_any_rotation_are_reported(make):
    design = make.plan(LassoCV(), {"cv": [3, 24]})
    report = make.source("a", make.rows(29)).answer(brief_of(make, design))
    assert dict(report.failed) == {"1": "ValueError"}


def test_warnings_of_the_library_are_reported_by_class_and_count(make):
    design = make.plan(Lasso(), {"alpha": [1e-9], "max_iter": [1]})
    report = make.source("a").answer(brief_of(make, design))
    found = [item for item in report.findings if item["code"] == "fit-warning"]
    assert [dict(item["evidence"]) for item in found] == [
        {"warning": "ConvergenceWarning", "count": 5.0}
    ]


def test_the_same_finding_of_several_rotations_is_reported_once(make):
    design = make.plan(Lasso(), {"alpha": [1e-9], "max_iter": [1]})
    report = make.source("a").answer(brief_of(make, design))
    codes = [item["code"] for item in report.findings]
    assert codes.count("fit-warning") == 1


def test_weighted_candidates_fail_where_no_row_resembles_the_target(make):
    design = make.plan("weighted-least-squares", (0.0, 0.5), method="naive", exchange="rows")
    report = make.source("a", make.rows(30, shift=200.0)).answer(brief_of(make, design))
    assert dict(report.failed) == {"1": "ZeroWeights"}
    assert report.ratio_mean == 0.0


@pytest.mark.parametrize("scheme", ["split", "cross-fit"])
@pytest.mark.parametrize("shift", [0.0, 3.0, 8.0, 12.0, 15.0, 17.0, 20.0, 25.0, 60.0, 1e4])
def test_a_source_however_far_away_can_answer(make, shift, scheme):
    site = make.source("a", make.rows(60, shift=shift))
    report = site.answer(brief_of(make, scheme_plan(make, scheme)))
    assert isinstance(report, RiskReport)
    strict = make.source(
        "a",
        make.rows(60, shift=shift),
        policy=dataclasses.replace(Policy.open(), significant_digits=4),
    )
    assert isinstance(strict.answer(brief_of(make, scheme_plan(make, scheme))), RiskReport)


@pytest.mark.parametrize("scheme", ["split", "cross-fit"])
def test_a_source_whose_outcome_is_predicted_without_error_can_answer(make, scheme):
    X, _ = make.rows(60)
    site = make.source("a", (X, X @ [1.0, 2.0] + 3.0))
    report = site.answer(brief_of(make, scheme_plan(make, scheme)))
    assert report.risk[0] < 1e-20


@pytest.mark.parametrize("scheme", ["split", "cross-fit"])
def test_a_column_that_does_not_vary_at_the_source_is_no_obstacle(make, scheme):
    X, y = make.rows(60)
    X[:, 1] = 0.5
    site = make.source("a", (X, y))
    assert isinstance(site.answer(brief_of(make, scheme_plan(make, scheme))), RiskReport)


@pytest.mark.parametrize("scheme", ["split", "cross-fit"])
def test_a_column_that_does_not_vary_at_the_target_is_no_obstacle(make, scheme):
    X, _ = make.rows(40, 99)
    X[:, 1] = 0.5
    brief = brief_of(make, scheme_plan(make, scheme), X=X)
    assert isinstance(make.source("a").answer(brief), RiskReport)


def test_validation_rows_are_those_of_the_folds(make):
    brief = brief_of(make, by_rows(make, folds=(0.2, 0.3, 0.5)))
    assert make.source("a").answer(brief).n_judged == 15


@pytest.mark.parametrize(("scheme", "judged"), [("split", 10), ("cross-fit", 30)])
def test_crossed_folds_judge_every_row_once(make, scheme, judged):
    report = make.source("a").answer(brief_of(make, scheme_plan(make, scheme)))
    assert report.n_judged == judged


@pytest.mark.parametrize(
    ("options", "n_rows"), [({}, 10), ({"refit": True}, 30), ({"scheme": "cross-fit"}, 30)]
)
def test_the_model_says_how_many_rows_it_was_fitted_on(make, options, n_rows):
    brief, site = brief_of(make, by_rows(make, **options)), make.source("a")
    site.answer(brief)
    assert site.answer(make.request_for(brief)).n_rows == n_rows


def test_models_travel_in_our_formats_and_others_are_handed_over(make):
    tree = DecisionTreeRegressor(min_samples_leaf=5, random_state=0)
    for model, form in (
        ("ridge", "linear"), (Lasso(), "linear"), (tree, "trees"), (SVC(), "held")
    ):  # fmt: skip
        classes = ("no", "yes") if form == "held" else ()
        loss = "brier" if classes else "squared"
        brief = brief_of(make, make.plan(model, None, classes=classes, loss=loss))
        site = make.source("a", make.labelled(30) if classes else make.rows(30))
        site.answer(brief)
        report = site.answer(make.request_for(brief))
        assert report.form["kind"] == form
        assert (len(report.arrays) == 0) == report.is_held == (form == "held")


def test_a_column_transformer_in_a_pipeline_can_be_asked_for(make):
    from sklearn.compose import ColumnTransformer

    columns = ColumnTransformer([("n", make_pipeline(StandardScaler()), [0, 1])])
    brief = brief_of(make, make.plan(make_pipeline(columns, Lasso(0.01)), None))
    assert isinstance(make.source("a").answer(brief), RiskReport)


def test_rows_are_not_changed_by_an_answer(make):
    X, y = make.rows(30)
    kept = X.copy(), y.copy()
    brief, site = brief_of(make), make.source("a", (X, y))
    site.answer(brief)
    site.answer(make.request_for(brief))
    assert X.tobytes() == kept[0].tobytes()
    assert y.tobytes() == kept[1].tobytes()


def test_a_tree_is_fitted_with_the_studys_seed(make):
    design = make.plan(DecisionTreeRegressor(splitter="random"), None)
    other = make.plan(DecisionTreeRegressor(splitter="random"), None, seed=1)
    one, two = (encode(make.source("a").answer(brief_of(make, design))) for _ in range(2))
    assert one == two
    assert encode(make.source("a").answer(brief_of(make, other))) != one
