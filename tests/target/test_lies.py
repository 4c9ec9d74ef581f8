"""Sources that lie: what cannot be is refused by name; under a median one lie moves little."""
# ruff: noqa: ARG005 - every lie takes the honest report

import dataclasses

import numpy as np
import pytest
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeClassifier

from fedcsa.errors import MessageError, ParameterError
from fedcsa.messages.messages import Refusal
from fedcsa.messages.policy import round_significant
from fedcsa.models.fitted import EstimatorModel
from fedcsa.target.accept import (
    MAX_ROWS,
    accept_examination,
    accept_model,
    accept_models,
    accept_report,
)

TREE = DecisionTreeClassifier(max_depth=2, random_state=0)
TREES = ("sklearn.tree._tree.Tree",)


def reported(make, loss="squared", compare=("fediwe",)):
    """A brief, and what an honest source says to it."""
    if loss in ("squared", "absolute"):
        plan, data = make.plan(loss=loss, compare=compare), make.rows(60)
    else:
        plan = make.plan(TREE, None, classes=("no", "yes"), loss=loss, compare=compare)
        data = make.labelled(60)
    brief = make.target(plan).brief(["a"])
    return brief, make.source("a", data).answer(brief)


# Reports ------------------------------------------------------------------------------------


def scaled(report, **factors):
    return {name: factor * getattr(report, name) for name, factor in factors.items()}


REPORTS = {
    "rows": (lambda _: {"n_rows": MAX_ROWS + 1}, "at most 100000000 rows"),
    "features": (
        lambda r: {
            "difference_before": np.zeros(3), "difference_after": np.zeros(3),
            "correlations": np.empty(0),
        },
        "the study's 3 candidates and 2 features",
    ),
    "judged": (lambda r: {"n_rows": r.n_rows + 1}, "must judge every row once"),
    "folds": (lambda _: {"n_folds": 6}, "must have the study's folds, or fewer"),
    "moments": (
        lambda r: {
            n: np.empty(0)
            for n in ("loss_mean", "loss_m2", "product_mean", "product_m2", "co_moment")
        },
        "must have moments if the study asks",
    ),
    "outcome": (lambda r: {"outcome_mean": np.zeros(2)}, "must be on the study's outcome"),
    "negative risk": (lambda r: {"risk": -r.risk}, "has a negative risk"),
    "negative loss": (lambda r: scaled(r, loss_mean=-1.0), "has a negative risk"),
    "negative product": (lambda r: scaled(r, product_mean=-1.0), "has a negative risk"),
    "effective rows": (
        lambda r: scaled(r, ratio_m2=30.0, co_moment=0.0),
        "effective rows that follow from its ratio",
    ),
    "weighted risk": (lambda r: scaled(r, product_mean=1e6), "an impossible weighted risk"),
    "spread of losses": (lambda r: {"loss_m2": 2 * 60 * 59 * r.loss_mean**2}, "loss_m2"),
    "spread of products": (
        lambda r: {"product_m2": 2 * 60 * 59 * r.product_mean**2}, "impossible product_m2",
    ),
    "words": (lambda _: {"failed": {"0": "row 7 of Ulm"}}, "by name, not in words"),
    "long name": (lambda _: {"failed": {"0": "U" * 61}}, "by name, not in words"),
    "code": (
        lambda r: {"findings": [{"code": "no-overlap", "evidence": {"imbalance": 3.0}}]},
        "findings of a source's own",
    ),
    "evidence": (
        lambda r: {"findings": [{"code": "fit-warning", "evidence": {"to": "Ulm"}}]},
        "findings of a source's own",
    ),
}  # fmt: skip


@pytest.mark.parametrize("lie", REPORTS)
def test_a_report_that_no_honest_source_could_send_is_refused_by_name(make, lie):
    brief, report = reported(make)
    accept_report(report, brief)  # the honest one passes
    changed, text = REPORTS[lie]
    with pytest.raises(MessageError, match=text) as caught:
        accept_report(dataclasses.replace(report, **changed(report)), brief)
    assert "'a'" in str(caught.value)
    assert "Ulm" not in str(caught.value)


CLASSES = {
    "shares": (lambda r: {"outcome_mean": np.array([0.4, 0.4])}, "shares that sum to 1"),
    "negative share": (lambda r: {"outcome_mean": np.array([-0.5, 1.5])}, "shares that sum to 1"),
    "risk": (lambda r: {"risk": r.risk + 1.5}, "a risk above 1"),
    "loss": (lambda r: {"loss_mean": r.loss_mean + 1.5}, "a risk above 1"),
    "variance": (lambda r: {"variance": np.full(len(r.risk), 0.5)}, "an impossible variance"),
    "spread": (lambda r: {"loss_m2": np.full(len(r.risk), 30.0)}, "an impossible loss_m2"),
}


@pytest.mark.parametrize("loss", ["brier", "zero-one"])
@pytest.mark.parametrize("lie", CLASSES)
def test_a_loss_of_at_most_one_bounds_what_can_be_said(make, loss, lie):
    brief, report = reported(make, loss)
    accept_report(report, brief)
    changed, text = CLASSES[lie]
    with pytest.raises(MessageError, match=text):
        accept_report(dataclasses.replace(report, **changed(report)), brief)


@pytest.mark.parametrize("loss", ["squared", "absolute", "brier", "zero-one", "log"])
@pytest.mark.parametrize("digits", [3, 4])
@pytest.mark.parametrize("compare", [(), ("fediwe",)])
def test_rounding_makes_no_liar(make, loss, digits, compare):
    brief, report = reported(make, loss, compare)
    rounded = {
        item.name: round_significant(getattr(report, item.name), digits)
        for item in dataclasses.fields(report)
        if item.metadata["kind"] == "vector"
    }
    accept_report(dataclasses.replace(report, **rounded), brief)


def test_the_target_refuses_what_the_checks_refuse(make):
    target = make.target()
    report = make.source("a").answer(target.brief(["a"]))
    with pytest.raises(MessageError, match="'a' has a negative risk"):
        target.choose({"a": dataclasses.replace(report, risk=-report.risk)})


# Models -------------------------------------------------------------------------------------


def sent(make, model="ridge"):
    plan = make.plan(model, (0.0, 0.1) if model == "ridge" else None)
    target, site = make.target(plan), make.source("a")
    brief = target.brief(["a"])
    said = site.answer(brief)
    request = target.choose({"a": said})
    return target.plan, brief, said, request.candidate, site.answer(request)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (lambda m: {"candidate": m.candidate + 1}, "must send the candidate asked for"),
        (lambda m: {"n_rows": m.n_rows - 1}, "must be of the rows that its report was on"),
        (lambda m: {"n_rows": m.n_rows + 1}, "must be of the rows that its report was on"),
        (
            lambda _: {
                "format": "skops", "coefficients": np.empty(0), "packed": np.ones(9, np.uint8)
            },
            "must send a model of the kind agreed on",
        ),
    ],
)  # fmt: skip
def test_a_model_that_was_not_agreed_is_refused_by_name(make, changed, text):
    _, brief, said, candidate, model = sent(make)
    accept_model(model, brief, said, candidate)
    with pytest.raises(MessageError, match=text) as caught:
        accept_model(dataclasses.replace(model, **changed(model)), brief, said, candidate)
    assert "'a'" in str(caught.value)


def verdicts(make, plan, said, model, **changed):
    seen = make.rows(40, 99)[0]
    forged = dataclasses.replace(model, **changed)
    return accept_models({"a": forged}, {"a": said}, plan, seen, ())


def test_a_model_that_cannot_be_is_left_out_by_its_kind(make):
    plan, _, said, _, model = sent(make)
    assert verdicts(make, plan, said, model) == {}
    for changed, rule in (
        ({"n_rows": MAX_ROWS + 1}, "malformed"),
        ({"coefficients": np.ones(3)}, "malformed"),
        ({"link": "logistic"}, "malformed"),
        ({"coefficients": np.array([1e308, 1e308]), "intercept": 1e308}, "malformed"),
    ):
        assert verdicts(make, plan, said, model, **changed) == {"a": rule}


def test_a_model_far_from_all_errors_is_wild(make):
    plan, _, said, _, model = sent(make)
    near = dataclasses.replace(model, source="b")
    far = dataclasses.replace(model, source="c", intercept=1e6)
    models = {"a": model, "b": near, "c": far}
    found = accept_models(models, dict.fromkeys("abc", said), plan, make.rows(40, 99)[0], ())
    assert found == {"c": "wild_model"}


def test_a_packed_model_of_unknown_types_is_untrusted(make):
    class Twisted(SVR):
        pass

    plan, _, said, _, model = sent(make, SVR())
    X, y = make.rows(30)
    packed = EstimatorModel(Twisted().fit(X, y)).pack()
    assert verdicts(make, plan, said, model, packed=packed) == {"a": "untrusted"}
    assert verdicts(make, plan, said, model, packed=model.packed[:-9]) == {"a": "malformed"}


# Examinations -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"level": np.zeros(2), "level_variance": np.ones(2)}, "must be of the study's outcome"),
        ({"risk": 0.0}, "an impossible risk"),
        ({"risk": -1.0}, "an impossible risk"),
        ({"constant_risk": 0.0}, "an impossible risk"),
        ({"risk_variance": 0.0}, "an impossible risk"),
        ({"level_variance": np.zeros(1)}, "an impossible risk"),
    ],
    ids=str,
)
def test_an_examination_that_cannot_be_is_refused_by_name(make, changed, text):
    adaptation = make.study()
    brief = make.target().brief(["a", "b"])
    honest = adaptation.examinations["a"]
    accept_examination(honest, brief)
    with pytest.raises(MessageError, match=text) as caught:
        accept_examination(dataclasses.replace(honest, **changed), brief)
    assert "'a'" in str(caught.value)


@pytest.mark.parametrize("field", ["risk", "constant_risk"])
def test_an_examined_risk_above_one_is_refused_where_the_loss_is_at_most_one(make, field):
    plan = make.plan(TREE, None, classes=("no", "yes"), loss="brier")
    sources = [
        make.source(name, make.labelled(80, i), trusted_types=TREES) for i, name in enumerate("ab")
    ]
    honest = make.study(plan, sources, trusted_types=TREES).examinations["a"]
    brief = make.target(plan).brief(["a", "b"])
    accept_examination(honest, brief)
    with pytest.raises(MessageError, match="an impossible risk"):
        accept_examination(dataclasses.replace(honest, **{field: 1.5}), brief)


# A source that lies under a median ----------------------------------------------------------


def median_study(make, lie, model_lie=None):
    """Five sources, the last of which lies; the last candidate is the worst by far."""
    design = make.plan(combine="median", candidates=(0.0, 0.1, 1e4))
    sources = {name: make.source(name, make.rows(60, i)) for i, name in enumerate("abcde")}
    target = make.target(design)
    brief = target.brief(list(sources))
    reports = {name: source.answer(brief) for name, source in sources.items()}
    reports["e"] = dataclasses.replace(reports["e"], **lie(reports["e"]))
    request = target.choose(reports)
    models = {name: sources[name].answer(request) for name in target.asked}
    if "e" in models:
        models["e"] = dataclasses.replace(models["e"], **(model_lie or {}))
    return make.examined(target, sources, target.mix(models))


def tempting(report):
    """Only the worst candidate seems any good."""
    factor = np.array([200.0, 200.0, 1.0])
    return {"risk": factor * report.risk, "variance": factor**2 * report.variance}


def refusing(_):
    """It says that all candidates failed but the worst."""
    return {"failed": {"0": "Boom", "1": "Boom"}}


def huge(report):
    return {"risk": 1e9 * report.risk}


@pytest.mark.parametrize("lie", [tempting, refusing, huge])
def test_one_source_does_not_choose_for_all_under_a_median(make, lie):
    adaptation = median_study(make, lie)
    assert adaptation.candidate["penalty"] < 1.0
    honest = median_study(make, lambda _: {})
    assert adaptation.target_risk < 1.5 * honest.target_risk


def test_rows_that_one_source_makes_up_do_not_outweigh_the_others_under_a_median(make):
    def many(report):
        return {
            "n_rows": 10**6 * report.n_rows,
            "n_judged": 10**6 * report.n_judged,
            "effective_rows": 1e6 * report.effective_rows,
            "largest_share": report.largest_share / 1e6,
            "variance": report.variance / 1e6,
        }

    wild = {"n_rows": 60 * 10**6, "coefficients": np.array([100.0, 100.0])}
    adaptation = median_study(make, many, wild)
    X, y = make.rows(200, 7)
    assert np.abs(adaptation.predict(X) - y).mean() < 2.0 * np.abs(y - y.mean()).mean()
    assert adaptation.source_weights["e"] <= 1.0 / 3.0 + 1e-12


def test_a_median_of_too_few_reports_is_refused_before_a_model_is_asked_for(make):
    target = make.target(make.plan(combine="median"))
    sources = {name: make.source(name, make.rows(60, i)) for i, name in enumerate("abcd")}
    brief = target.brief(list(sources))
    reports = {name: source.answer(brief) for name, source in sources.items()}
    reports["d"] = Refusal(brief.study, "d", reports["d"].in_reply_to, "min_fold_rows")
    with pytest.raises(ParameterError, match="'mean' with fewer than 4 sources"):
        target.choose(reports)
    assert "model-request" not in {entry.message for entry in target.ledger.entries}
