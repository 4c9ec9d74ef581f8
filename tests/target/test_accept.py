"""Rounding makes no liar, and under a median one lie moves little.

What cannot be honest is refused by name: `tests/site/test_lies.py` has the list.
"""

import dataclasses

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from fedcsa import FedCSA
from fedcsa.core.scores import NUMBER_SUMS
from fedcsa.errors import MessageError, ParameterError
from fedcsa.messages.messages import ExaminationReport, Refusal
from fedcsa.messages.policy import round_significant
from fedcsa.source.source import Source
from fedcsa.target.accept import accept

TREE = DecisionTreeClassifier(max_depth=2, random_state=0)


def is_accepted(answer, question, brief):
    try:
        accept(answer, "a", question, brief)
    except MessageError:
        return False
    return True


def reported(make, loss="squared", compare=("fediwe",)):
    """A brief, and what an honest source says to it."""
    if loss in ("squared", "absolute"):
        plan, data = make.plan(loss=loss, compare=compare), make.rows(60)
    else:
        plan = make.plan(TREE, None, classes=("no", "yes"), loss=loss, compare=compare)
        data = make.labelled(60)
    brief = make.target(plan).brief(["a"])
    return brief, make.source("a", data).answer(brief)


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
    forged = dataclasses.replace(report, **rounded)
    accept(forged, "a", brief, brief)


UNIT = {"column": 1.0, "conversion": "glucose", "direction": "multiply"}


@pytest.mark.parametrize(
    ("changes", "honest"),
    [
        ([{}], True),
        ([{}, {"column": 0.0}], True),
        ([{}, {}], False),
        ([{"column": 2.0}], False),
        ([{"column": -1.0}], False),
        ([{"column": 0.5}], False),
        ([{"column": "x1"}], False),
        ([{"conversion": "furlongs"}], False),
        ([{"conversion": 18.02}], False),
        ([{"direction": "add"}], False),
    ],
)
def test_only_a_number_of_the_study_and_a_known_conversion_are_accepted(make, changes, honest):
    brief, report = reported(make)
    told = [{"code": "other-unit", "evidence": {**UNIT, **change}} for change in changes]
    forged = dataclasses.replace(report, findings=tuple(told))
    assert is_accepted(forged, brief, brief) == honest


def test_a_flag_has_no_unit(make):
    brief, report = reported(make)
    forged = dataclasses.replace(report, findings=({"code": "other-unit", "evidence": dict(UNIT)},))
    flagged = dataclasses.replace(
        brief, flags=(False, True), mean=np.array([0.0, 0.5]), sd=np.array([1.0, 0.5])
    )
    assert is_accepted(forged, brief, brief)
    assert not is_accepted(forged, brief, flagged)


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
    asked = target.mix(models)
    asked.pop("e", None)  # what it would tell of its rows contradicts the lie
    return make.examined(target, sources, asked)


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

    wild = {
        "n_rows": 60 * 10**6,
        "arrays": {"coefficients": np.array([100.0, 100.0]), "intercept": np.zeros(1)},
    }
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


@pytest.mark.parametrize("column", range(len(NUMBER_SUMS)))
def test_sums_that_no_float_can_square_are_refused_by_name(column, monkeypatch):
    honest = Source.answer

    def lies(source, question):
        answer = honest(source, question)
        if source.name == "b" and isinstance(answer, ExaminationReport):
            sums = answer.score_sums.copy()
            sums[0, column] = 1e200
            return dataclasses.replace(answer, score_sums=sums)
        return answer

    monkeypatch.setattr(Source, "answer", lies)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4, 60, 2))
    sources = {name: (X[k], X[k].sum(axis=1) + rng.normal(size=60)) for k, name in enumerate("abc")}
    with pytest.raises(MessageError, match="The examination of source 'b'"):
        FedCSA(random_state=0).fit(sources, X[3])
