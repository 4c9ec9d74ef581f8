"""The third round: who examines what, who need not, and what the study says then."""

import dataclasses

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from fedcsa.core.scores import residual_sums, told_residuals
from fedcsa.errors import MessageError, NoSourcesError
from fedcsa.messages.codec import encode
from fedcsa.messages.messages import ExaminationReport, Refusal
from fedcsa.messages.policy import Policy
from fedcsa.models.fitted import EstimatorModel
from fedcsa.source.examine import members_of

NAMES = ("a", "b", "c", "d")


def sites(make, **policies):
    """Four sources; a name's rules that differ from the open ones."""
    return {
        name: make.source(
            name,
            make.rows(80, i),
            policy=dataclasses.replace(Policy.open(), **policies.get(name, {})),
        )
        for i, name in enumerate(NAMES)
    }


def study(make, plan=None, target=None, **policies):
    return make.study(plan, list(sites(make, **policies).values()), **(target or {}))


def asked_of(make, sources, plan=None):
    """The target, and what every source is asked to examine."""
    target = make.target(plan)
    brief = target.brief(sorted(sources))
    request = target.choose({name: site.answer(brief) for name, site in sources.items()})
    return target, target.mix({name: sources[name].answer(request) for name in target.asked})


def of(adaptation, code):
    return {f.source: dict(f.evidence) for f in adaptation.findings if f.code == code}


# Sites that keep something to themselves ----------------------------------------------------


def test_a_site_that_sends_no_model_examines_the_others(make):
    adaptation = study(make, a={"models": "never"})
    assert set(adaptation.source_weights) == {"b", "c", "d"}
    assert "a" in adaptation.promise.examined_by
    assert of(adaptation, "model-withheld") == {"a": {"rule": "models"}}
    for entry in adaptation.ledgers["a"]:
        assert entry.message != "model-report"


def test_a_model_that_may_not_be_shown_has_no_weight(make):
    adaptation = study(make, a={"show_model": False})
    assert adaptation.source_weights["a"] == 0.0
    assert sum(adaptation.source_weights.values()) == pytest.approx(1.0)
    assert "a" in adaptation.promise.examined_by
    assert of(adaptation, "model-not-shown") == {"a": {}}
    others = study(make, a={"models": "never"})
    for name in ("b", "c", "d"):
        assert adaptation.source_weights[name] == pytest.approx(others.source_weights[name])
    assert adaptation.promise == others.promise


def test_a_model_that_may_not_be_shown_is_in_no_examination(make):
    sources = sites(make, a={"show_model": False})
    target, asked = asked_of(make, sources)
    assert set(asked) == set(NAMES)
    hidden = target._models["a"].coefficients
    for name, examination in asked.items():
        others = {n: w for n, w in target._weights.items() if n not in ("a", name)}
        shown = [arrays["coefficients"] for _, arrays in examination.members]
        np.testing.assert_array_equal(shown, [target._models[n].coefficients for n in others])
        assert not any(np.allclose(line, hidden) for line in shown)


def test_if_no_model_may_be_shown_there_is_no_answer(make):
    with pytest.raises(NoSourcesError, match="At least one model must be shown"):
        study(make, **{name: {"show_model": False} for name in NAMES})


def test_if_no_site_sends_a_model_there_is_no_answer(make):
    with pytest.raises(NoSourcesError, match="0 of 4 sources sent a model"):
        study(make, **{name: {"models": "never"} for name in NAMES})


TREE = DecisionTreeRegressor(max_depth=2, min_samples_leaf=10, random_state=0)


@pytest.mark.parametrize("policy", [Policy(), Policy.open()], ids=["strict", "open"])
def test_trees_are_examined_like_any_other_model(make, policy):
    sources = [make.source(name, make.rows(200, i), policy=policy) for i, name in enumerate(NAMES)]
    adaptation = make.study(make.plan(TREE, None), sources, policy=policy)
    assert {report.form["kind"] for report in adaptation.model_reports.values()} == {"trees"}
    assert adaptation.promise.examined_by == NAMES


def test_a_model_without_a_format_is_examined_in_one_process_as_the_object_it_is(make):
    sources = [make.source(name, make.rows(80, i)) for i, name in enumerate(NAMES)]
    adaptation = make.study(make.plan(SVR(), None), sources)
    assert adaptation.promise.examined_by == NAMES
    for name in NAMES:
        [entry] = [e for e in adaptation.ledgers[name] if e.message == "model-report"]
        assert "held.sklearn.svm._classes.SVR" in [item.name for item in entry.fields]


def test_models_too_large_for_one_message_are_not_examined(make, monkeypatch):
    monkeypatch.setattr("fedcsa.messages.fields.MAX_ARRAYS_BYTES", 50)  # two lines fit, not three
    adaptation = study(make)
    assert of(adaptation, "not-examined") == {name: {"reason": "too_large"} for name in NAMES}
    assert adaptation.promise is None
    assert set(adaptation.models) == set(NAMES)


#: What a lying target may put into an examination of lines.
FORGED = {
    "another kind": lambda m: {"forms": [{**form, "kind": "trees"} for form in m.forms]},
    "another link": lambda m: {"forms": [{**form, "link": "logistic"} for form in m.forms]},
    "a word more": lambda m: {"forms": [{**form, "more": 1} for form in m.forms]},
    "an array more": lambda m: {"arrays": {**m.arrays, "0.more": np.zeros((3, 1))}},
    "an array less": lambda m: {
        "arrays": {k: v for k, v in m.arrays.items() if k != "0.intercept"}
    },
    "a feature more": lambda m: {"arrays": {**m.arrays, "0.coefficients": np.zeros((3, 3))}},
    "two intercepts": lambda m: {"arrays": {**m.arrays, "0.intercept": np.zeros((3, 2))}},
    "whole numbers": lambda m: {
        "arrays": {**m.arrays, "0.coefficients": np.zeros((3, 2), np.int32)}
    },
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_a_source_opens_only_models_that_were_agreed(make, change):
    sources = sites(make)
    _, asked = asked_of(make, sources)
    forged = dataclasses.replace(asked["a"], **change(asked["a"]))
    with pytest.raises(MessageError, match="An examination must hold models of the study"):
        sources["a"].answer(forged)
    assert isinstance(sources["a"].answer(asked["a"]), ExaminationReport)


def test_lines_told_one_by_one_are_examined_like_lines_told_together(make):
    sources = sites(make)
    target, asked = asked_of(make, sources)
    together = asked["a"]
    assert (len(together.forms), len(together.members)) == (1, 3)
    one_by_one = dataclasses.replace(
        together,
        forms=[form for form, _ in together.members],
        arrays={
            f"{k}.{name}": array
            for k, (_, arrays) in enumerate(together.members)
            for name, array in arrays.items()
        },
    )
    assert one_by_one.members[2][1].keys() == together.members[2][1].keys()
    found = sources["a"].answer(together)
    again = sites(make)["a"]
    again.answer(target._brief)
    other = again.answer(one_by_one)
    np.testing.assert_array_equal(other.member_risk, found.member_risk)
    assert other.risk == found.risk


def test_only_lines_are_told_together(make, monkeypatch):
    target, asked = asked_of(make, sites(make))
    assert asked["a"].together
    kind = EstimatorModel(SVR())
    monkeypatch.setattr("fedcsa.source.examine.open_agreed", lambda *_, **__: kind)
    with pytest.raises(MessageError, match="a form for every model that is no line"):
        members_of(asked["a"], target._brief)


# What is asked ------------------------------------------------------------------------------


def test_a_source_of_most_of_the_weight_examines_the_whole_mixture(make):
    sources = {
        "big": make.source("big", make.rows(600, 1)),
        "small": make.source("small", make.rows(40, 2)),
    }
    target, asked = asked_of(make, sources)
    weights = target._weights
    assert weights["big"] > 0.5
    assert asked["big"].own_weight == weights["big"]
    assert asked["big"].weights.sum() == pytest.approx(weights["small"])
    assert asked["small"].own_weight == 0.0
    assert asked["small"].weights.tolist() == [1.0]


def test_the_constant_is_the_mean_outcome_of_the_others(make):
    target, asked = asked_of(make, sites(make))
    for name, examination in asked.items():
        others = {n: w for n, w in target._weights.items() if n != name}
        total = sum(others.values())
        mean = (
            sum(w * target._reported.reports[n].outcome_mean[0] for n, w in others.items()) / total
        )
        assert examination.constant[0] == pytest.approx(mean, rel=1e-12)


# What a source answers ----------------------------------------------------------------------


def test_the_same_examination_twice_gets_the_same_answer_and_another_none(make):
    sources = sites(make)
    _, asked = asked_of(make, sources)
    first = sources["a"].answer(asked["a"])
    assert isinstance(first, ExaminationReport)
    assert encode(sources["a"].answer(asked["a"])) == encode(first)
    other = dataclasses.replace(asked["a"], constant=asked["a"].constant + 1.0)
    refusal = sources["a"].answer(other)
    assert isinstance(refusal, Refusal)
    assert refusal.rule == "one_examination"
    assert encode(sources["a"].answer(asked["a"])) == encode(first)


def test_an_examination_before_the_report_is_refused(make):
    _, asked = asked_of(make, sites(make))
    refusal = make.source("a", make.rows(80, 0)).answer(asked["a"])
    assert refusal.rule == "phase_order"


@pytest.mark.parametrize(
    "forged",
    [
        lambda _: {"constant": np.zeros(2)},
        lambda _: {"candidate": 99},
    ],
    ids=["constant", "candidate"],
)
def test_an_examination_of_another_study_is_an_error(make, forged):
    sources = sites(make)
    _, asked = asked_of(make, sources)
    with pytest.raises(MessageError, match=r"must be of the study's|must name a candidate"):
        sources["a"].answer(dataclasses.replace(asked["a"], **forged(asked["a"])))


def test_a_site_that_was_restarted_examines_as_before(make):
    sources = sites(make)
    target = make.target()
    brief = target.brief(NAMES)
    reports = {name: site.answer(brief) for name, site in sources.items()}
    request = target.choose(reports)
    asked = target.mix({name: site.answer(request) for name, site in sources.items()})
    again = sites(make)["a"]
    again.recall(brief, reports["a"], others=[request])
    assert encode(again.answer(asked["a"])) == encode(sources["a"].answer(asked["a"]))


def test_a_source_that_refuses_to_examine_is_named_and_the_others_stand(make):
    sources = sites(make)
    target, asked = asked_of(make, sources)
    found = {name: sources[name].answer(item) for name, item in asked.items()}
    found["a"] = Refusal("study", "a", found["a"].in_reply_to, "one_examination")
    adaptation = target.conclude(found)
    assert adaptation.promise.examined_by == ("b", "c", "d")
    assert of(adaptation, "not-examined") == {"a": {"reason": "one_examination"}}


def test_a_source_that_does_not_reach_the_target_examines_without_a_say(make):
    sources = [*sites(make).values(), make.source("far", make.rows(80, 9, shift=6.0))]
    adaptation = make.study(sources=sources)
    assert "far" in adaptation.examinations
    assert "far" not in adaptation.reaching
    assert adaptation.promise.examined_by == NAMES


def test_no_variance_is_an_exact_zero_whatever_the_losses(make):
    """Rows with the table's own moments, and a loss that is the same on every row."""
    X = np.array([[a, b] for a in (-1.0, 1.0) for b in (-1.0, 1.0)] * 25)
    y = np.where(np.arange(100) % 2, 1.0, -1.0)
    constant = DummyRegressor(strategy="constant", constant=0.0)
    design = make.plan(constant, [{}], method="validated", loss="absolute")
    adaptation = make.study(design, [make.source(name, (X, y)) for name in "abc"], X=X)
    for found in adaptation.examinations.values():
        assert found.risk == pytest.approx(1.0, rel=1e-12)
        assert min(found.risk_variance, found.ratio_variance) >= 1e-12
    assert adaptation.promise.risk == pytest.approx(1.0, abs=1e-5)
    assert adaptation.verdict.words == "do not use it"


@pytest.mark.parametrize("errors", [0, 1])
def test_patients_without_an_error_are_a_small_rate_and_no_certainty(make, errors):
    """Groups, and a zero-one loss that hardly anybody has."""
    rng = np.random.default_rng(0)
    sources = []
    for name in "abc":
        X = rng.normal(size=(120, 2))
        labels = (X[:, 0] > 0.0).astype(int)
        labels[:errors] = 1 - labels[:errors]
        rows = np.column_stack([X, np.repeat(np.arange(40), 3)])
        sources.append(make.source(name, (rows, labels), features=("x0", "x1", "patient")))
    design = make.plan(
        DecisionTreeClassifier(max_depth=1), [{}], method="validated", loss="zero-one",
        classes=(0, 1), group="patient",
    )  # fmt: skip
    adaptation = make.study(design, sources)
    for name, found in adaptation.examinations.items():
        ess = adaptation.reports[name].effective_rows
        assert found.risk >= 0.5 / (ess + 1.0) * (1 - 1e-9)
        assert 0.0 < found.ratio_variance < 10.0
    assert 0.0 < adaptation.promise.lower < adaptation.promise.upper < 1.0


# Residuals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("min_rows", [1, 5])
def test_residuals_are_told_by_distance_in_cells_of_enough_rows(make, min_rows):
    rule = {"min_cell_rows": min_rows}
    sources = sites(make, **dict.fromkeys(NAMES, rule))
    target, asked = asked_of(make, sources)
    adaptation = target.conclude({name: sources[name].answer(asked[name]) for name in sources})
    X, y = make.rows(80, 0)
    z = (X - adaptation.table.mean) / adaptation.table.sd
    others = {n: a for n, a in adaptation.source_weights.items() if n != "a"}
    mixture = sum(
        a * adaptation.models[n].predict(z if adaptation.plan.scale else X)
        for n, a in others.items()
    ) / sum(others.values())
    w = sources["a"].row_weights(target.brief(sorted(sources)))
    expected = told_residuals(*residual_sums(z, (y - mixture) / asked["a"].unit, w), min_rows)
    np.testing.assert_allclose(adaptation.examinations["a"].residuals, expected, atol=1e-9)


def test_classes_tell_no_residuals(make):
    model = DecisionTreeClassifier(max_depth=2, min_samples_leaf=10)
    plan = make.plan(model, None, classes=("no", "yes"), loss="brier")
    sources = [make.source(name, make.labelled(80, i)) for i, name in enumerate(NAMES)]
    adaptation = make.study(plan, sources)
    assert all(len(report.scores) for report in adaptation.examinations.values())
    assert not any(report.residuals.size for report in adaptation.examinations.values())
