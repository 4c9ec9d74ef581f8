"""A target announces, chooses and combines; it believes no answer that is not to its question."""

import dataclasses
from datetime import UTC, datetime

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LassoCV, LogisticRegression
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier

from fedcsa.core.table import Table1
from fedcsa.errors import (
    BindingError,
    CandidatesError,
    DataError,
    MessageError,
    ModelError,
    NoSourcesError,
    ParameterError,
    PolicyError,
    ProtocolError,
)
from fedcsa.messages.codec import digest, encode
from fedcsa.messages.messages import Refusal
from fedcsa.messages.policy import Policy
from fedcsa.models.fitted import EstimatorModel
from fedcsa.models.linear_format import LinearModel

NAMES = ("a", "b", "c")


@pytest.fixture
def talk(make):
    """A target that has announced, and the reports of three sources by name."""
    target = make.target()
    brief = target.brief(NAMES)
    sources = {name: make.source(name) for name in NAMES}
    return target, brief, sources, {name: site.answer(brief) for name, site in sources.items()}


def mixed(target, answers):
    """What follows from the models, if no source examines them."""
    target.mix(answers)
    return target.conclude({})


def conclude(target, sources, request):
    return mixed(target, {name: site.answer(request) for name, site in sources.items()})


def refusal(name, message, rule="min_fold_rows"):
    return Refusal(message.study, name, digest(encode(message)), rule)


# The brief ---------------------------------------------------------------------------------------


def test_a_brief_says_what_the_plan_says(make):
    design = make.plan(study="stroke", loss="absolute", folds=4, seed=12, scale=False)
    brief = make.target(design).brief(["a"])
    assert (brief.study, brief.loss, brief.seed, brief.scale) == ("stroke", "absolute", 12, False)
    assert brief.features == ("x0", "x1")
    assert [dict(c) for c in brief.candidates] == [dict(c) for c in design.candidates]
    assert (brief.n_folds, brief.scheme, brief.moments) == (4, "cross-fit", False)
    assert brief.n_rows == 40


def test_a_brief_announces_the_table_and_no_row(make):
    X, _ = make.rows(60, 99)
    brief = make.target(X=X).brief(["a"])
    table = Table1.of(X, ("x0", "x1"), (False, False))
    assert brief.table == table
    assert brief.rows.shape == (0, 2)


def test_a_brief_by_rows_announces_the_rows(make):
    X, _ = make.rows(40, 99)
    brief = make.target(make.plan(method="feddae", exchange="rows")).brief(["a"])
    assert brief.rows.tobytes() == X.tobytes()
    assert len(brief.correlations) == 0


def test_the_sd_is_floored_at_three_tenths_of_the_public_one(make):
    design = make.plan(public_sd=np.array([1.0, 100.0]))
    brief = make.target(design).brief(["a"])
    assert brief.sd[1] == 30.0


def test_a_table_is_told_in_the_order_of_the_plan(make):
    table = Table1.typed(100, ["x1", "x0"], [False, False], [3.0, 8.0], [1.0, 2.0])
    brief = make.target(X=table).brief(["a"])
    assert brief.mean.tolist() == [8.0, 3.0]
    assert brief.sd.tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    ("features", "flags", "text"),
    [
        (["x0"], [False], "must have the study's 2 features"),
        (["x0", "x1", "x2"], [False] * 3, "must have the study's 2 features"),
        (["x0", "age"], [False] * 2, "missing: 'x1'"),
        (["x0", "x1"], [False, True], "must call the same features flags"),
    ],
)
def test_a_table_of_other_features_is_an_error(make, features, flags, text):
    d = len(features)
    table = Table1.typed(100, features, flags, [0.5] * d, [1.0] * d)
    with pytest.raises(DataError, match=text):
        make.target(X=table)


def test_a_table_is_no_target_for_an_exchange_of_rows(make):
    table = Table1.typed(100, ["x0", "x1"], [False] * 2, [0.0] * 2, [1.0] * 2)
    with pytest.raises(ParameterError, match="rows with exchange='rows'"):
        make.target(make.plan(method="feddae", exchange="rows"), X=table)


def test_the_brief_is_in_the_ledger_once_for_every_recipient(make):
    noon = datetime(2025, 1, 2, 12, tzinfo=UTC)
    target = make.target(clock=lambda: noon)
    brief = target.brief(["b", "a"])
    assert [(e.message, e.recipient) for e in target.ledger.entries] == [
        ("brief", "b"),
        ("brief", "a"),
    ]
    assert {e.sha256 for e in target.ledger.entries} == {digest(encode(brief))}
    assert {e.time for e in target.ledger.entries} == {"2025-01-02T12:00:00.000+00:00"}


def test_the_strict_policy_is_the_default_and_nothing_is_announced_against_it(make):
    rows = make.target(make.plan(method="feddae", exchange="rows"), policy=None)
    with pytest.raises(PolicyError, match=r"\(exchanges\): exchange 'rows' is not allowed here"):
        rows.brief(["a"])
    assert rows.ledger.entries == []


@pytest.mark.parametrize(
    ("patients", "told"), [(0, 0.0), (1, 0.0), (4, 0.0), (5, 0.12), (36, 1.0), (40, 1.0)]
)
def test_under_the_strict_policy_nothing_tells_of_a_flag_that_few_have_or_lack(
    make, patients, told
):
    X, _ = make.rows(40, 99)
    X[:, 1] = np.arange(40) < patients
    target = make.target(make.plan(flags=(False, True)), X=X, policy=None)
    assert target.brief(["a"]).mean[1] == pytest.approx(told)


def test_a_table_told_before_is_told_again_to_the_bit(make):
    first = make.target().table
    again = make.target(X=make.rows(41, 7)[0], told=first)
    assert again.table is first
    assert again.brief(["a"]).table == first


def test_repr_shows_no_row(make):
    assert repr(make.target()) == "Target(40 rows, 2 features)"


# Bad targets -------------------------------------------------------------------------------------


def test_a_target_of_one_row_is_an_error(make):
    with pytest.raises(DataError, match="The target must have at least 2 rows"):
        make.target(n=1)


def test_a_target_of_two_rows_is_enough(make):
    assert make.target(n=2).brief(["a"]).n_rows == 2


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_target_that_is_not_finite_is_an_error(make, bad):
    X, _ = make.rows(40)
    X[5, 0] = bad
    with pytest.raises(DataError, match="X of the target must be finite, but 1 of its 80 cells"):
        make.target(X=X)


@pytest.mark.parametrize("width", [1, 3])
def test_a_target_with_another_number_of_columns_is_an_error(make, width):
    with pytest.raises(DataError, match=r"X of the target must have 2 column\(s\)"):
        make.target(X=np.zeros((5, width)))


@pytest.mark.parametrize(
    ("model", "classes", "error", "text"),
    [
        ("ridge", ("no", "yes"), ParameterError, "'ridge' predicts numbers"),
        ("weighted-least-squares", ("no", "yes"), ParameterError, "predicts numbers"),
        (SVC(), (), ModelError, "is a classifier"),
        (SVR(), ("no", "yes"), ModelError, "is a regressor"),
    ],
)
def test_a_model_of_the_wrong_kind_is_an_error_before_anything_is_announced(
    make, model, classes, error, text
):
    with pytest.raises(error, match=text):
        make.target(make.plan(model, None, classes=classes, loss="log" if classes else "squared"))


# The reports -------------------------------------------------------------------------------------


def test_the_request_names_the_best_candidate_and_the_brief(talk):
    target, brief, _, reports = talk
    request = target.choose(reports)
    assert request.brief == digest(encode(brief))
    assert 0 <= request.candidate < 3
    assert [e.recipient for e in target.ledger.entries if e.message == "model-request"] == [*NAMES]


def test_a_refusal_is_a_finding_and_the_others_go_on(talk):
    target, brief, sources, reports = talk
    request = target.choose({**reports, "b": refusal("b", brief)})
    assert [e.recipient for e in target.ledger.entries if e.message == "model-request"] == [
        "a",
        "c",
    ]
    rest = {name: sources[name] for name in ("a", "c")}
    adaptation = conclude(target, rest, request)
    assert adaptation.sources == ("a", "c")
    [finding] = [f for f in adaptation.findings if f.code == "source-refused"]
    assert finding.source == "b"
    assert dict(finding.evidence) == {"rule": "min_fold_rows"}


def test_if_all_refuse_there_is_no_answer(talk):
    target, brief, _, _ = talk
    with pytest.raises(NoSourcesError, match="0 of 3 answers were reports"):
        target.choose({name: refusal(name, brief) for name in NAMES})


def test_the_report_of_another_source_is_refused(talk):
    target, _, _, reports = talk
    with pytest.raises(BindingError, match="The answer of source 'a' must be its own"):
        target.choose({**reports, "a": reports["b"]})


def test_a_report_in_reply_to_something_else_is_refused(talk):
    target, _, _, reports = talk
    for other in ("", "0" * 64, reports["a"].in_reply_to.upper()):
        forged = dataclasses.replace(reports["a"], in_reply_to=other)
        with pytest.raises(BindingError, match="'a' must answer this very question"):
            target.choose({**reports, "a": forged})


def test_a_refusal_of_another_source_or_to_something_else_is_refused(talk):
    target, brief, _, reports = talk
    for forged in (
        refusal("b", brief),
        dataclasses.replace(refusal("a", brief), in_reply_to="0" * 64),
    ):
        with pytest.raises(BindingError, match=r"'a' must (be its own|answer this very)"):
            target.choose({**reports, "a": forged})


def test_a_message_of_another_kind_is_refused(talk):
    target, brief, _, reports = talk
    with pytest.raises(BindingError, match="'a' must answer with a risk-report; a brief came"):
        target.choose({**reports, "a": brief})


def test_a_report_on_another_number_of_candidates_is_refused(make, talk):
    target, brief, _, reports = talk
    other = make.target(make.plan(candidates=(0.0, 0.5))).brief(["a"])
    report = dataclasses.replace(make.source("a").answer(other), in_reply_to=digest(encode(brief)))
    with pytest.raises(MessageError, match="'a' must cover the study's 3 candidates and 2 feat"):
        target.choose({**reports, "a": report})


def choose_forged(target, reports, changes):
    target.choose({**reports, "a": dataclasses.replace(reports["a"], **changes)})


@pytest.mark.parametrize(
    ("code", "evidence", "text"),
    [
        ("send-money", {"to": "Ulm"}, "findings of a source's own"),
        ("backtest-failed", {}, "findings of a source's own"),  # the study's, not a source's
        ("no-overlap", {"imbalance": 3.0}, "findings of a source's own"),
        ("grid-edge", {"parameter": "bandwidth", "value": 1.0, "to": "Ulm"}, "source's own"),
        ("grid-edge", {"parameter": "see Ulm", "value": 1.0}, "by name, not in words"),
        ("fit-warning", {"warning": "U" * 61, "count": 1.0}, "by name, not in words"),
        ("grid-edge", {"parameter": None, "value": 1.0}, "numbers and names as evidence"),
        ("grid-edge", {"parameter": ("a",), "value": 1.0}, "numbers and names as evidence"),
    ],
)
def test_a_finding_that_is_not_a_sources_own_is_refused(talk, code, evidence, text):
    target, _, _, reports = talk
    with pytest.raises(MessageError, match=text) as caught:
        choose_forged(target, reports, {"findings": [{"code": code, "evidence": evidence}]})
    assert code not in str(caught.value)
    assert "Ulm" not in str(caught.value)


def test_a_reason_in_words_is_refused(talk):
    target, _, _, reports = talk
    with pytest.raises(MessageError, match="by name, not in words"):
        choose_forged(target, reports, {"failed": {"0": "row 7 of Ulm"}})


def test_what_a_source_may_find_stands_in_the_result(talk):
    target, _, sources, reports = talk
    findings = [{"code": "fit-warning", "evidence": {"warning": "Slow", "count": 2.0}}]
    forged = dataclasses.replace(reports["a"], findings=findings)
    adaptation = conclude(target, sources, target.choose({**reports, "a": forged}))
    [finding] = [f for f in adaptation.findings if f.code == "fit-warning"]
    assert finding.source == "a"
    assert dict(finding.evidence) == {"warning": "Slow", "count": 2.0}


def test_a_target_whose_rows_are_all_equal_is_an_error(make):
    with pytest.raises(DataError, match="at least 2 rows that differ"):
        make.target(X=np.full((50, 2), 3.5))


# Candidates that fail ----------------------------------------------------------------------------


def test_the_chosen_index_counts_the_candidates_of_the_plan(talk):
    target, _, _, reports = talk
    failed = {name: dataclasses.replace(r, failed={"0": "Boom"}) for name, r in reports.items()}
    assert target.choose(failed).candidate in (1, 2)


def test_if_every_candidate_fails_at_every_source_they_are_all_named(make):
    design = make.plan(LassoCV(), {"no_such_parameter": [1, 2]})
    with pytest.raises(CandidatesError, match=r"all 2 failed at 'a', 'b' \(ValueError\)"):
        make.study(design)


# The models --------------------------------------------------------------------------------------


def test_the_models_are_weighted_by_the_papers_weights(make):
    adaptation = make.study(make.plan(method="fediwe"))
    assert list(adaptation.source_weights.values()) == adaptation.estimate.source_weights.tolist()
    assert sum(adaptation.source_weights.values()) == pytest.approx(1.0, abs=1e-15)


def test_a_source_that_refuses_its_model_loses_its_weight_to_the_others(talk):
    target, _, sources, reports = talk
    request = target.choose(reports)
    answers = {name: site.answer(request) for name, site in sources.items()}
    answers["b"] = refusal("b", request, "one_model")
    adaptation = mixed(target, answers)
    assert sorted(adaptation.models) == ["a", "c"]
    assert adaptation.sources == NAMES
    [finding] = [f for f in adaptation.findings if f.code == "model-withheld"]
    assert (finding.source, finding.evidence["rule"]) == ("b", "one_model")


def test_if_all_refuse_their_models_there_is_no_answer(talk):
    target, _, _, reports = talk
    request = target.choose(reports)
    named = r"0 of 3 sources sent a model.* Rules that refused: \w+\."
    with pytest.raises(NoSourcesError, match=named):
        mixed(target, {name: refusal(name, request) for name in NAMES})


def test_without_a_model_a_source_is_as_if_it_were_not_there(talk):
    target, _, sources, reports = talk
    request = target.choose(reports)
    answers = {name: site.answer(request) for name, site in sources.items()}
    del answers["b"]
    adaptation = mixed(target, answers)
    assert adaptation.sources == ("a", "c")
    assert not adaptation.findings or "b" not in {f.source for f in adaptation.findings}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"candidate": 99}, "Source 'a' must send the candidate asked for"),
        ({"form": {"kind": "linear", "link": "logistic"}}, "model of source 'a' is refused"),
        ({"arrays": LinearModel(np.ones(3), 0.0).arrays}, "model of source 'a' is refused"),
        ({"source": "b"}, "'a' must be its own"),
        ({"in_reply_to": "0" * 64}, "'a' must answer this very question"),
    ],
)
def test_a_model_that_was_not_asked_for_is_refused(talk, changes, text):
    target, _, sources, reports = talk
    request = target.choose(reports)
    answers = {name: site.answer(request) for name, site in sources.items()}
    answers["a"] = dataclasses.replace(answers["a"], **changes)
    with pytest.raises(ProtocolError, match=text):
        mixed(target, answers)


def test_a_report_instead_of_a_model_is_refused(talk):
    target, _, sources, reports = talk
    request = target.choose(reports)
    answers = {name: site.answer(request) for name, site in sources.items()}
    answers["a"] = reports["a"]
    with pytest.raises(BindingError, match="must answer with a model-report; a risk-report came"):
        mixed(target, answers)


def classes_study(make, classes, estimator=None):
    """A target of a study of classes, and the model that source 'a' sends."""
    loss = "brier"
    design = make.plan(estimator or DecisionTreeClassifier(), None, classes=classes, loss=loss)
    target = make.target(design)
    site = make.source("a", make.labelled(90, classes=classes))
    request = target.choose({"a": site.answer(target.brief(["a"]))})
    return target, site.answer(request)


@pytest.mark.parametrize("link", ["identity", "logistic"])
def test_a_line_is_no_model_of_three_classes(make, link):
    target, model = classes_study(make, ("low", "middle", "high"), LogisticRegression())
    line = LinearModel(np.ones(2), 0.0, link)
    forged = dataclasses.replace(model, form=line.form, arrays=line.arrays, held=None)
    with pytest.raises(MessageError, match="The model of source 'a' is refused"):
        mixed(target, {"a": forged})


def test_a_linear_model_of_numbers_is_no_model_of_two_classes(make):
    target, model = classes_study(make, ("no", "yes"), LogisticRegression())
    assert model.form["link"] == "logistic"
    forged = dataclasses.replace(model, form={**model.form, "link": "identity"})
    with pytest.raises(MessageError, match="The model of source 'a' is refused"):
        mixed(target, {"a": forged})


def test_an_object_of_this_process_that_cannot_predict_is_left_out(make):
    design = make.plan(SVR(), None)
    target, sites = make.target(design), {"a": make.source("a"), "b": make.source("b")}
    request = target.choose({n: site.answer(target.brief(["a", "b"])) for n, site in sites.items()})
    rng = np.random.default_rng(0)
    other = EstimatorModel(SVR().fit(rng.normal(size=(20, 5)), rng.normal(size=20)))
    models = {name: site.answer(request) for name, site in sites.items()}
    models["a"] = dataclasses.replace(models["a"], held=other)
    adaptation = mixed(target, models)
    assert set(adaptation.models) == {"b"}


def test_a_forest_travels(make):
    adaptation = make.study(make.plan(RandomForestRegressor(3), None))
    X, _ = make.rows(5)
    assert adaptation.predict(X).shape == (5,)


# Methods -----------------------------------------------------------------------------------------


def test_given_weights_are_used_whatever_their_order(make):
    for weights in ({"a": 3.0, "b": 1.0}, {"b": 1.0, "a": 3.0}):
        design = make.plan(method="fedle", fedle_weights=weights)
        adaptation = make.study(design)
        assert dict(adaptation.source_weights) == {"a": 0.75, "b": 0.25}


def test_given_weights_must_cover_every_source(make):
    design = make.plan(method="fedle", fedle_weights={"a": 1.0, "z": 1.0})
    with pytest.raises(ParameterError, match=r"one weight for every source.*none for 'b'"):
        make.study(design)


@pytest.mark.parametrize("weights", [{"a": 0.0, "b": 0.0}, {"a": -1.0, "b": 2.0}])
def test_given_weights_are_not_negative_and_not_all_zero(make, weights):
    with pytest.raises(ParameterError, match="one weight ≥ 0 per source, not all zero"):
        make.plan(method="fedle", fedle_weights=weights)


@pytest.mark.parametrize("method", ["validated", "naive"])
def test_a_median_of_too_few_sources_is_refused_before_anything_is_announced(make, method):
    target = make.target(make.plan(method=method, combine="median"))
    with pytest.raises(ParameterError, match="'combine' parameter must be 'mean' with fewer than"):
        target.brief(["a", "b", "c"])
    assert not target.ledger.entries
    assert target.brief(["a", "b", "c", "d"])


@pytest.mark.parametrize("method", ["naive", "fediwe", "feddae", "validated"])
def test_a_single_source_carries_all_the_weight(make, method):
    adaptation = make.study(make.plan(method=method), [make.source("only")])
    assert dict(adaptation.source_weights) == {"only": 1.0}
    assert "dominant-source" not in {finding.code for finding in adaptation.findings}


def test_the_policys_refusal_reaches_the_result(make):
    strict = dataclasses.replace(Policy.open(), min_fold_rows=7)
    sources = [make.source("a", policy=strict), make.source("b")]
    adaptation = make.study(sources=sources)
    assert adaptation.sources == ("b",)
    assert [f.evidence["rule"] for f in adaptation.findings if f.code == "source-refused"] == [
        "min_fold_rows"
    ]


def test_if_every_policy_refuses_there_is_no_answer(make):
    strict = dataclasses.replace(Policy.open(), min_fold_rows=7)
    with pytest.raises(NoSourcesError, match="0 of 2 answers were reports"):
        make.study(sources=[make.source("a", policy=strict), make.source("b", policy=strict)])
