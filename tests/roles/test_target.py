"""A target announces, chooses and combines; it believes no answer that is not to its question."""

import dataclasses
from datetime import UTC, datetime

import numpy as np
import pytest
from fedcsa.core.embedding import MeanEmbedding
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LassoCV, LogisticRegression
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier

from fedcsa.errors import (
    CandidatesError,
    DataError,
    MessageError,
    ModelError,
    NoSourcesError,
    ParameterError,
    PolicyError,
    UntrustedError,
)
from fedcsa.models.fitted import EstimatorModel
from fedcsa.protocol.codec import digest, encode
from fedcsa.protocol.messages import Refusal
from fedcsa.protocol.policy import Policy

NAMES = ("a", "b", "c")


@pytest.fixture
def talk(make):
    """A target that has announced, and the reports of three sources by name."""
    target = make.target(make.plan(method="fediwe"))
    brief = target.brief(NAMES)
    sources = {name: make.source(name) for name in NAMES}
    return target, brief, sources, {name: site.answer(brief) for name, site in sources.items()}


def conclude(target, sources, request):
    return target.conclude({name: site.answer(request) for name, site in sources.items()})


def refusal(name, message, rule="min_fold_rows"):
    return Refusal(message.study, name, digest(encode(message)), rule)


# The brief ---------------------------------------------------------------------------------------


def test_a_brief_says_what_the_plan_says(make):
    design = make.plan(study="stroke", loss="absolute", folds=(0.2, 0.3, 0.5), seed=12, scale=False)
    brief = make.target(design).brief(["a"])
    assert (brief.study, brief.loss, brief.seed, brief.scale) == ("stroke", "absolute", 12, False)
    assert brief.features == ("x0", "x1")
    assert [dict(c) for c in brief.candidates] == [dict(c) for c in design.candidates]
    assert brief.shares.tolist() == [0.2, 0.3, 0.5]
    assert brief.n_rows == 40


def test_a_brief_by_embedding_announces_means_sds_and_averages(make):
    X, _ = make.rows(40, 99)
    brief = make.target(make.plan(seed=3)).brief(["a"])
    np.testing.assert_allclose(brief.mean, X.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(brief.sd, X.std(axis=0), rtol=1e-14)
    embedding = MeanEmbedding.of(X, seed=3)
    assert brief.embedding.tobytes() == embedding.mean_features.tobytes()
    assert (brief.trace, brief.bandwidth) == (embedding.trace, embedding.basis.bandwidth)
    assert brief.rows.shape == (0, 2)


def test_a_brief_by_rows_announces_the_rows(make):
    X, _ = make.rows(40, 99)
    brief = make.target(make.plan(exchange="rows")).brief(["a"])
    assert brief.rows.tobytes() == X.tobytes()
    assert len(brief.embedding) == 0


def test_options_of_the_ratio_reach_the_sources_that_need_them(make):
    ratio = {"basis": "fourier", "n_features": 12, "bandwidth": 2.5, "regularizations": [0.1, 1.0]}
    brief = make.target(make.plan(ratio=ratio)).brief(["a"])
    assert (brief.basis, len(brief.embedding), brief.bandwidth) == ("fourier", 12, 2.5)
    assert dict(brief.ratio) == {"regularizations": (0.1, 1.0)}


def test_the_sd_is_floored_at_a_fifth_of_the_public_one(make):
    design = make.plan(public_sd=np.array([1.0, 100.0]))
    brief = make.target(design).brief(["a"])
    assert brief.sd[1] == 20.0
    assert brief.sd[0] == pytest.approx(make.rows(40, 99)[0][:, 0].std())


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
    target = make.target(policy=None, n=10)
    with pytest.raises(PolicyError, match=r"\(max_release_share\)") as caught:
        target.brief(["a"])
    assert caught.value.rule == "max_release_share"
    assert target.ledger.entries == []
    rows = make.target(make.plan(exchange="rows"), policy=None)
    with pytest.raises(PolicyError, match=r"\(exchanges\): exchange 'rows' is not allowed here"):
        rows.brief(["a"])


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
    n = np.array([reports[name].n_validation for name in NAMES], dtype=float)
    risk = sum(n[i] * reports[name].product_mean[:-1] for i, name in enumerate(NAMES)) / n.sum()
    assert request.candidate == int(np.argmin(risk))
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
    with pytest.raises(NoSourcesError, match="3 were asked and all refused"):
        target.choose({name: refusal(name, brief) for name in NAMES})


def test_the_report_of_another_source_is_refused(talk):
    target, _, _, reports = talk
    text = "The answer of source 'a' must be its own, and to this very question"
    with pytest.raises(MessageError, match=text):
        target.choose({**reports, "a": reports["b"]})


def test_a_report_in_reply_to_something_else_is_refused(talk):
    target, _, _, reports = talk
    for other in ("", "0" * 64, reports["a"].in_reply_to.upper()):
        forged = dataclasses.replace(reports["a"], in_reply_to=other)
        with pytest.raises(MessageError, match="'a' must be its own, and to this very question"):
            target.choose({**reports, "a": forged})


def test_a_refusal_of_another_source_or_to_something_else_is_refused(talk):
    target, brief, _, reports = talk
    for forged in (
        refusal("b", brief),
        dataclasses.replace(refusal("a", brief), in_reply_to="0" * 64),
    ):
        with pytest.raises(MessageError, match="'a' must be its own, and to this very question"):
            target.choose({**reports, "a": forged})


def test_a_message_of_another_kind_is_refused(talk):
    target, brief, _, reports = talk
    with pytest.raises(MessageError, match="'a' must answer with a risk-report; a brief came"):
        target.choose({**reports, "a": brief})


def test_a_report_on_another_number_of_candidates_is_refused(make, talk):
    target, brief, _, reports = talk
    other = make.target(make.plan(candidates=(0.0, 0.5))).brief(["a"])
    report = dataclasses.replace(make.source("a").answer(other), in_reply_to=digest(encode(brief)))
    with pytest.raises(MessageError, match="'a' must cover the study's 3 candidates and 2 feat"):
        target.choose({**reports, "a": report})


def test_a_report_on_another_number_of_features_is_refused(talk):
    target, _, _, reports = talk
    three = dataclasses.replace(
        reports["a"], difference_before=np.zeros(3), difference_after=np.zeros(3)
    )
    with pytest.raises(MessageError, match="'a' must cover the study's 3 candidates and 2 feat"):
        target.choose({**reports, "a": three})


def choose_forged(target, reports, changes):
    target.choose({**reports, "a": dataclasses.replace(reports["a"], **changes)})


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (lambda _: {"kernel_imbalance": 1e6}, "an impossible kernel imbalance"),
        (lambda r: {"loss_mean": -r.loss_mean}, "a negative risk"),
        (lambda r: {"product_mean": -r.product_mean}, "a negative risk"),
        (lambda r: {"product_mean": 1e6 * r.product_mean}, "an impossible weighted risk"),
        (
            lambda _: {name: np.ones(4) for name in ("spread", "explained", "variance")},
            "must suit the study's scheme|variances that fit",
        ),
    ],
)
def test_numbers_that_no_honest_source_could_send_are_refused(talk, changes, text):
    target, _, _, reports = talk
    with pytest.raises(MessageError, match=text):
        choose_forged(target, reports, changes(reports["a"]))


@pytest.mark.parametrize("loss", ["brier", "zero-one"])
def test_a_risk_above_one_is_refused_where_the_loss_is_at_most_one(make, loss):
    design = make.plan(DecisionTreeClassifier(), None, classes=("no", "yes"), loss=loss)
    target = make.target(design)
    brief = target.brief(["a"])
    report = make.source("a", make.labelled(60)).answer(brief)
    forged = dataclasses.replace(report, loss_mean=report.loss_mean + 1.5)
    with pytest.raises(MessageError, match="'a' has a risk above 1"):
        target.choose({"a": forged})


@pytest.mark.parametrize("scheme", ["cross-fit"])
def test_a_cross_fitted_report_must_judge_every_row(make, scheme):
    target = make.target(make.plan(scheme=scheme))
    report = make.source("a").answer(target.brief(["a"]))
    with pytest.raises(MessageError, match="'a' must judge every row once"):
        target.choose({"a": dataclasses.replace(report, n_rows=report.n_rows + 1)})


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


def test_a_candidate_that_fails_at_one_source_is_dropped_everywhere(make):
    # folds of 20 rows at 'big' and of 8 at 'small': twelve splits are too many for eight
    design = make.plan(LassoCV(), {"cv": [3, 12, 4]})
    sources = [make.source("big", make.rows(60)), make.source("small", make.rows(24, 1))]
    adaptation = make.study(design, sources)
    assert adaptation.kept == (0, 2)
    assert adaptation.candidate in ({"cv": 3}, {"cv": 4})
    assert all(len(found.risk) == 2 for found in adaptation.estimates.values())
    [finding] = [f for f in adaptation.findings if f.code == "candidate-failed"]
    assert finding.source == "small"
    assert dict(finding.evidence) == {"candidate": 1.0, "reason": "ValueError"}


def test_dropping_a_candidate_changes_nothing_about_the_others(make):
    sites = [("big", 60), ("small", 24)]

    def study(candidates):
        sources = [make.source(name, make.rows(n, n)) for name, n in sites]
        return make.study(make.plan(LassoCV(), {"cv": candidates}), sources)

    with_failure, without = study([3, 12, 4]), study([3, 4])
    for method, found in without.estimates.items():
        dropped = with_failure.estimates[method]
        np.testing.assert_allclose(dropped.risk, found.risk, rtol=1e-12)
        np.testing.assert_allclose(dropped.weights, found.weights, rtol=1e-12)


def test_the_chosen_index_counts_the_candidates_of_the_plan(talk):
    target, _, _, reports = talk
    failed = {name: dataclasses.replace(r, failed={"0": "Boom"}) for name, r in reports.items()}
    assert target.choose(failed).candidate in (1, 2)


def test_if_every_candidate_fails_somewhere_the_sources_and_reasons_are_named(talk):
    target, _, _, reports = talk
    reports["a"] = dataclasses.replace(reports["a"], failed={"0": "Boom", "1": "Bang"})
    reports["c"] = dataclasses.replace(reports["c"], failed={"2": "Boom"})
    text = r"all 3 failed at 'a', 'c' \(Bang, Boom\)"
    with pytest.raises(CandidatesError, match=text):
        target.choose(reports)


def test_if_every_candidate_fails_at_every_source_they_are_all_named(make):
    design = make.plan(LassoCV(), {"no_such_parameter": [1, 2]})
    with pytest.raises(CandidatesError, match=r"all 2 failed at 'a', 'b' \(ValueError\)"):
        make.study(design)


# The models --------------------------------------------------------------------------------------


def test_the_models_are_weighted_by_the_methods_weights(talk):
    target, _, sources, reports = talk
    adaptation = conclude(target, sources, target.choose(reports))
    assert list(adaptation.source_weights.values()) == adaptation.estimate.source_weights.tolist()
    assert sum(adaptation.source_weights.values()) == pytest.approx(1.0, abs=1e-15)


def test_a_source_that_refuses_its_model_loses_its_weight_to_the_others(talk):
    target, _, sources, reports = talk
    request = target.choose(reports)
    answers = {name: site.answer(request) for name, site in sources.items()}
    answers["b"] = refusal("b", request, "one_model")
    adaptation = target.conclude(answers)
    assert sorted(adaptation.models) == ["a", "c"]
    assert adaptation.sources == NAMES
    before = dict(zip(NAMES, adaptation.estimate.source_weights, strict=True))
    total = before["a"] + before["c"]
    for name in ("a", "c"):
        assert adaptation.source_weights[name] == pytest.approx(before[name] / total)
    [finding] = [f for f in adaptation.findings if f.code == "source-refused"]
    assert (finding.source, finding.evidence["rule"]) == ("b", "one_model")


def test_if_all_refuse_their_models_there_is_no_answer(talk):
    target, _, _, reports = talk
    request = target.choose(reports)
    with pytest.raises(NoSourcesError, match="must send its model; all refused"):
        target.conclude({name: refusal(name, request) for name in NAMES})


def test_if_only_sources_without_weight_send_a_model_there_is_no_answer(make):
    target = make.target(make.plan(method="feddae"))
    brief = target.brief(("a", "b"))
    sources = {name: make.source(name) for name in ("a", "b")}
    reports = {name: site.answer(brief) for name, site in sources.items()}
    n = 10
    # Div = 0 at 'a': under FedDAE it takes all the weight
    reports["a"] = make.crafted(reports["a"], np.ones(n), np.ones((n, 3)))
    request = target.choose(reports)
    answers = {"a": refusal("a", request), "b": sources["b"].answer(request)}
    with pytest.raises(NoSourcesError, match="no weight"):
        target.conclude(answers)


def test_a_model_that_does_not_come_is_an_error(talk):
    target, _, sources, reports = talk
    request = target.choose(reports)
    answers = {name: site.answer(request) for name, site in sources.items()}
    del answers["b"]
    with pytest.raises(MessageError, match="'b' must answer with a model-report; nothing came"):
        target.conclude(answers)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"candidate": 99}, "Source 'a' must send the candidate asked for"),
        ({"coefficients": np.ones(3)}, "Source 'a' must send one coefficient per feature"),
        ({"link": "logistic"}, "Source 'a' must send a model of the study's outcome"),
        ({"source": "b"}, "'a' must be its own, and to this very question"),
        ({"in_reply_to": "0" * 64}, "'a' must be its own, and to this very question"),
    ],
)
def test_a_model_that_was_not_asked_for_is_refused(talk, changes, text):
    target, _, sources, reports = talk
    request = target.choose(reports)
    answers = {name: site.answer(request) for name, site in sources.items()}
    answers["a"] = dataclasses.replace(answers["a"], **changes)
    with pytest.raises(MessageError, match=text):
        target.conclude(answers)


@pytest.mark.parametrize(
    ("method", "loss", "claim"), [("fediwe", "squared", 1e-9), ("guarded", "absolute", 1e-9)]
)
def test_a_prediction_variance_that_nobody_asked_for_is_refused(make, method, loss, claim):
    target = make.target(make.plan(method=method, loss=loss))
    site = make.source("a")
    model = site.answer(target.choose({"a": site.answer(target.brief(["a"]))}))
    assert model.prediction_variance == 0.0
    forged = dataclasses.replace(model, prediction_variance=claim)
    with pytest.raises(MessageError, match="model of source 'a' has an impossible prediction var"):
        target.conclude({"a": forged})


def test_predictions_vary_no_more_than_ten_times_what_they_miss(make):
    target = make.target(make.plan(method="guarded", loss="squared"))
    site = make.source("a")
    report = site.answer(target.brief(["a"]))
    model = site.answer(target.choose({"a": report}))
    misses = max(
        report.loss_mean[model.candidate],
        report.product_mean[model.candidate] / report.ratio_mean,
    )
    assert 0.0 < model.prediction_variance < misses
    forged = dataclasses.replace(model, prediction_variance=60.0 * float(misses))
    with pytest.raises(MessageError, match="model of source 'a' has an impossible prediction var"):
        target.conclude({"a": forged})


def test_probabilities_vary_no_more_than_they_can(make):
    design = make.plan(
        DecisionTreeClassifier(), None, classes=("no", "yes"), loss="brier", method="guarded"
    )
    target, site = make.target(design), make.source("a", make.labelled(90, classes=("no", "yes")))
    model = site.answer(target.choose({"a": site.answer(target.brief(["a"]))}))
    assert 0.0 < model.prediction_variance < 1.0
    forged = dataclasses.replace(model, prediction_variance=2.2)
    with pytest.raises(MessageError, match="model of source 'a' has an impossible prediction var"):
        target.conclude({"a": forged})
    target.conclude({"a": dataclasses.replace(model, prediction_variance=2.0)})


@pytest.mark.parametrize(
    ("claim", "text"),
    [(-1e-9, "prediction variance that is not negative"), (np.nan, "finite"), (np.inf, "finite")],
)
def test_a_prediction_variance_is_a_finite_number_from_0_up(make, claim, text):
    _, model = classes_study(make, ("no", "yes"))
    with pytest.raises(MessageError, match=text):
        dataclasses.replace(model, prediction_variance=claim)


def test_a_report_instead_of_a_model_is_refused(talk):
    target, _, sources, reports = talk
    request = target.choose(reports)
    answers = {name: site.answer(request) for name, site in sources.items()}
    answers["a"] = reports["a"]
    with pytest.raises(MessageError, match="must answer with a model-report; a risk-report came"):
        target.conclude(answers)


def classes_study(make, classes, estimator=None):
    """A target of a study of classes, and the model that source 'a' sends."""
    loss = "brier"
    design = make.plan(estimator or DecisionTreeClassifier(), None, classes=classes, loss=loss)
    target = make.target(design)
    site = make.source("a", make.labelled(90, classes=classes))
    request = target.choose({"a": site.answer(target.brief(["a"]))})
    return target, site.answer(request)


@pytest.mark.parametrize("link", ["identity", "logistic"])
def test_a_linear_model_is_no_model_of_three_classes(make, link):
    target, model = classes_study(make, ("low", "middle", "high"))
    forged = dataclasses.replace(
        model,
        format="linear",
        link=link,
        coefficients=np.ones(2),
        packed=np.empty(0, np.uint8),
    )
    with pytest.raises(MessageError, match="'a' must send a model of the study's outcome"):
        target.conclude({"a": forged})


def test_a_linear_model_of_numbers_is_no_model_of_two_classes(make):
    target, model = classes_study(make, ("no", "yes"), LogisticRegression())
    assert model.link == "logistic"
    with pytest.raises(MessageError, match="'a' must send a model of the study's outcome"):
        target.conclude({"a": dataclasses.replace(model, link="identity")})


def test_a_packed_regressor_is_no_model_of_classes(make):
    target, model = classes_study(make, ("low", "middle", "high"))
    X, y = make.rows(30)
    forged = dataclasses.replace(model, packed=EstimatorModel(SVR().fit(X, y)).pack())
    with pytest.raises((MessageError, ModelError), match=r"\w"):
        target.conclude({"a": forged}).predict(X)


def test_a_packed_model_of_other_classes_is_refused(make):
    target, model = classes_study(make, ("low", "middle", "high"))
    X, y = make.rows(30)
    other = SVC().fit(X, np.where(y > 0.0, 7, 8))
    forged = dataclasses.replace(model, packed=EstimatorModel(other).pack())
    with pytest.raises((MessageError, ModelError), match=r"\w"):
        target.conclude({"a": forged}).predict(X)


def test_a_packed_model_of_another_number_of_features_is_refused(make):
    design = make.plan(SVR(), None)
    target, site = make.target(design), make.source("a")
    request = target.choose({"a": site.answer(target.brief(["a"]))})
    rng = np.random.default_rng(0)
    other = EstimatorModel(SVR().fit(rng.normal(size=(20, 5)), rng.normal(size=20))).pack()
    forged = dataclasses.replace(site.answer(request), packed=other)
    with pytest.raises((MessageError, ModelError), match=r"\w"):
        target.conclude({"a": forged}).predict(make.rows(5)[0])


def test_a_model_with_untrusted_types_is_refused_unless_they_are_declared(make):
    class Twisted(SVR):
        pass

    X, y = make.rows(30)
    packed = EstimatorModel(Twisted().fit(X, y)).pack()
    target, site = make.target(make.plan(SVR(), None)), make.source("a")
    request = target.choose({"a": site.answer(target.brief(["a"]))})
    forged = dataclasses.replace(site.answer(request), packed=packed)
    with pytest.raises(UntrustedError, match="Twisted"):
        target.conclude({"a": forged})


def test_a_damaged_model_is_an_error(make):
    target, site = make.target(make.plan(SVR(), None)), make.source("a")
    request = target.choose({"a": site.answer(target.brief(["a"]))})
    model = site.answer(request)
    with pytest.raises(ModelError, match="damaged"):
        target.conclude({"a": dataclasses.replace(model, packed=model.packed[:-9])})


def test_a_forest_travels(make):
    adaptation = make.study(make.plan(RandomForestRegressor(3), None))
    X, _ = make.rows(5)
    assert adaptation.predict(X).shape == (5,)


# Methods -----------------------------------------------------------------------------------------


def test_the_papers_methods_are_estimated_from_the_same_messages(make):
    adaptation = make.study(make.plan(method="naive"))
    assert set(adaptation.estimates) >= {"naive", "fediwe", "feddae"}
    again = make.study(make.plan(method="feddae"))
    for method in ("naive", "fediwe", "feddae"):
        assert adaptation.estimates[method].risk.tobytes() == again.estimates[method].risk.tobytes()


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


@pytest.mark.parametrize("method", ["guarded", "naive"])
def test_a_median_of_too_few_sources_is_refused_before_anything_is_announced(make, method):
    target = make.target(make.plan(method=method, combine="median"))
    with pytest.raises(ParameterError, match="'combine' parameter must be 'mean' with fewer than"):
        target.brief(["a", "b", "c"])
    assert not target.ledger.entries
    assert target.brief(["a", "b", "c", "d"])


@pytest.mark.parametrize("method", ["naive", "fediwe", "feddae", "guarded"])
def test_a_single_source_carries_all_the_weight(make, method):
    adaptation = make.study(make.plan(method=method), [make.source("only")])
    assert dict(adaptation.source_weights) == {"only": 1.0}
    assert "dominant-source" not in {finding.code for finding in adaptation.findings}


def test_the_policys_refusal_reaches_the_result(make):
    strict = dataclasses.replace(Policy.open(), min_fold_rows=11)
    sources = [make.source("a", policy=strict), make.source("b")]
    adaptation = make.study(sources=sources)
    assert adaptation.sources == ("b",)
    assert [f.evidence["rule"] for f in adaptation.findings if f.code == "source-refused"] == [
        "min_fold_rows"
    ]


def test_if_every_policy_refuses_there_is_no_answer(make):
    strict = dataclasses.replace(Policy.open(), min_fold_rows=11)
    with pytest.raises(NoSourcesError, match="2 were asked and all refused"):
        make.study(sources=[make.source("a", policy=strict), make.source("b", policy=strict)])
