"""Sources that lie: what cannot be is refused, and under a median one lie moves nothing far."""

import dataclasses

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from fedcsa.errors import MessageError, ParameterError
from fedcsa.protocol.messages import Refusal
from fedcsa.protocol.policy import round_significant


@pytest.mark.parametrize("loss", ["squared", "brier", "zero-one", "log", "absolute"])
@pytest.mark.parametrize("field", ["loss_m2", "product_m2", "spread"])
def test_second_moments_that_no_losses_have_are_refused(make, loss, field):
    if loss in ("squared", "absolute"):
        design, data = make.plan(method="guarded", loss=loss), make.rows(60)
    else:
        model = DecisionTreeClassifier(max_depth=2, random_state=0)
        design = make.plan(model, None, classes=("no", "yes"), loss=loss, method="guarded")
        data = make.labelled(60)
    target = make.target(design)
    report = make.source("a", data).answer(target.brief(["a"]))
    target.choose({"a": report})  # the honest one passes
    largest = {"loss_m2": 60 * 59 * report.loss_mean**2}
    largest["product_m2"] = 60 * 59 * report.product_mean**2
    largest["spread"] = 60 * report.loss_mean * report.product_mean / report.ratio_mean
    if loss in ("brier", "zero-one"):
        largest["loss_m2"] = np.full(len(report.loss_mean), 60 / 4)
        largest["spread"] = np.full(len(report.loss_mean), 1 / 4)
    forged = {field: 2.0 * largest[field]}
    if field == "spread":  # the variance must fit it
        forged["variance"] = forged["spread"] / report.effective_rows * 1.05
        forged["explained"] = 0.0 * forged["spread"]
    if field == "product_m2":
        forged["co_moment"] = 0.0 * report.co_moment
    with pytest.raises(MessageError, match=f"'a' has an impossible {field}"):
        target.choose({"a": dataclasses.replace(report, **forged)})


@pytest.mark.parametrize("errors", [0, 1, 30, 59, 60])
def test_losses_of_two_values_pass_whatever_their_mean_and_rounding(make, errors):
    design = make.plan(
        DecisionTreeClassifier(), None, classes=("no", "yes"), loss="zero-one", method="feddae"
    )
    target = make.target(design)
    report = make.source("a", make.labelled(180)).answer(target.brief(["a"]))
    losses = (np.arange(60) < errors).astype(float)[:, None]
    forged = make.crafted(report, np.ones(60), losses)
    rounded = {
        name: round_significant(getattr(forged, name), 3)
        for name in ("loss_mean", "loss_m2", "product_mean", "product_m2")
    }
    target.choose({"a": dataclasses.replace(forged, **rounded)})


def test_a_model_of_other_rows_than_the_reports_is_refused(make):
    target = make.target(make.plan(method="guarded"))
    source = make.source("a")
    request = target.choose({"a": source.answer(target.brief(["a"]))})
    model = source.answer(request)
    for other in (model.n_rows - 1, model.n_rows + 1):
        with pytest.raises(MessageError, match="'a' must be of the rows that its report was on"):
            target.conclude({"a": dataclasses.replace(model, n_rows=other)})


# A source that lies under a median ---------------------------------------------------------------


def median_study(make, lie, model_lie=None, method="guarded"):
    """Five sources, the last of which lies; the last candidate is the worst by far."""
    design = make.plan(method=method, combine="median", candidates=(0.0, 0.1, 1e4))
    sources = {name: make.source(name, make.rows(60, i)) for i, name in enumerate("abcde")}
    target = make.target(design)
    brief = target.brief(list(sources))
    reports = {name: source.answer(brief) for name, source in sources.items()}
    reports["e"] = dataclasses.replace(reports["e"], **lie(reports["e"]))
    request = target.choose(reports)
    models = {name: source.answer(request) for name, source in sources.items()}
    models["e"] = dataclasses.replace(models["e"], **(model_lie or {}))
    return target.conclude(models)


def tempting(report):
    """Only the worst candidate seems any good; all moments fit."""
    worst = [index for index in range(len(report.loss_mean)) if index % 3 == 2]
    factor = np.full(len(report.loss_mean), 200.0)
    factor[worst] = factor[-1] = 1.0
    once, twice = ("loss_mean", "product_mean", "co_moment"), ("loss_m2", "product_m2")
    twice = (*twice, "spread", "variance", "explained")
    scaled = {name: factor * getattr(report, name) for name in once}
    return scaled | {
        name: factor**2 * getattr(report, name) for name in twice if len(getattr(report, name))
    }


def refusing(report):
    """It says that all candidates failed but the worst."""
    return {"failed": {str(i): "Boom" for i in range(len(report.loss_mean) - 1) if i % 3 != 2}}


@pytest.mark.parametrize("method", ["guarded", "naive", "fediwe"])
@pytest.mark.parametrize("lie", [tempting, refusing])
def test_one_source_does_not_choose_for_all_under_a_median(make, lie, method):
    adaptation = median_study(make, lie, method=method)
    assert adaptation.candidate["penalty"] < 1.0
    honest = median_study(make, lambda _: {}, method=method)
    assert adaptation.target_risk < 1.5 * honest.target_risk


def test_a_risk_that_one_source_makes_up_does_not_reach_the_estimate_under_a_median(make):
    def huge(report):
        return {"loss_mean": 1e9 * report.loss_mean, "product_mean": 1e9 * report.product_mean}

    lied, honest = median_study(make, huge), median_study(make, lambda _: {})
    assert lied.target_risk < 1.5 * honest.target_risk
    assert lied.constant_risks["guarded"] < 1.5 * honest.constant_risks["guarded"]


def test_rows_that_one_source_makes_up_do_not_outweigh_the_others_under_a_median(make):
    def many(report):
        return {
            "n_rows": 10**6 * report.n_rows,
            "n_validation": 10**6 * report.n_validation,
            **{n: 1e6 * getattr(report, n) for n in ("ratio_m2", "loss_m2", "product_m2")},
            "co_moment": 1e6 * report.co_moment,
            "effective_rows": 1e6 * report.effective_rows,
            "largest_share": report.largest_share / 1e6,
            "variance": report.variance / 1e6,
        }

    wild = {"n_rows": 60 * 10**6, "coefficients": np.array([100.0, 100.0])}
    adaptation = median_study(make, many, wild)
    X, y = make.rows(200, 7)
    for by_rows in (False, True):
        error = np.abs(adaptation.predict(X, by_rows=by_rows) - y).mean()
        assert error < 2.0 * np.abs(y - y.mean()).mean()
    assert adaptation.by_rows.weights.max() == pytest.approx(1.0 / 3.0)


def median_of(make, failed, n_sources=5):
    """A study under a median in which sources fail candidates: name -> indices."""
    design = make.plan(method="guarded", combine="median", candidates=(0.0, 0.1, 1e4))
    names = "abcdefg"[:n_sources]
    sources = {name: make.source(name, make.rows(60, i)) for i, name in enumerate(names)}
    target = make.target(design)
    brief = target.brief(list(sources))
    reports = {name: source.answer(brief) for name, source in sources.items()}
    for name, indices in failed.items():
        reasons = {str(index): "Boom" for index in indices}
        reports[name] = dataclasses.replace(reports[name], failed=reasons)
    request = target.choose(reports)
    return target, target.conclude({name: sources[name].answer(request) for name in target.asked})


def test_two_sources_that_fail_a_candidate_drop_it_under_a_median_too(make):
    _, adaptation = median_of(make, {"d": [0], "e": [0], "c": [1]})
    assert 0 not in adaptation.kept
    assert 1 in adaptation.kept  # one source's failure is not enough
    weights = adaptation.estimates["guarded"].weights
    row = adaptation.kept.index(1)
    assert weights[row, 2] == 0.0  # it has no say about this one
    assert (np.delete(weights, row, axis=0)[:, 2] > 0.0).all()  # but about the others
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("n_sources", [4, 5])
def test_a_source_that_failed_the_chosen_candidate_is_not_asked_for_it(make, n_sources):
    _, honest = median_of(make, {}, n_sources)
    target, adaptation = median_of(make, {"b": [0, 1]}, n_sources)
    assert adaptation.candidate["penalty"] < 1.0
    assert "b" not in target.asked
    assert "b" not in adaptation.models
    assert "b" in adaptation.reports
    assert adaptation.target_risk == pytest.approx(honest.target_risk, rel=0.5)


@pytest.mark.parametrize(
    ("failed", "n_sources"),
    [
        ({"a": [0], "d": [1]}, 4),  # d lies, a does not
        ({"a": [0], "d": [0, 1]}, 4),
        ({"a": [0], "b": [1], "e": [0]}, 5),
    ],
)
def test_failures_of_honest_sources_do_not_help_one_that_lies(make, failed, n_sources):
    _, adaptation = median_of(make, failed, n_sources)
    assert adaptation.candidate["penalty"] < 1.0


def test_a_median_of_too_few_reports_is_refused_before_a_model_is_asked_for(make):
    target = make.target(make.plan(method="guarded", combine="median"))
    sources = {name: make.source(name, make.rows(60, i)) for i, name in enumerate("abcd")}
    brief = target.brief(list(sources))
    reports = {name: source.answer(brief) for name, source in sources.items()}
    reports["d"] = Refusal(brief.study, "d", reports["d"].in_reply_to, "min_fold_rows")
    with pytest.raises(ParameterError, match="'mean' with fewer than 4 sources"):
        target.choose(reports)
    assert "model-request" not in {entry.message for entry in target.ledger.entries}


def test_one_enormous_candidate_does_not_excuse_the_others(make):
    target = make.target(make.plan(method="guarded"))
    report = make.source("a", make.rows(60)).answer(target.brief(["a"]))
    factor = np.ones(len(report.loss_mean))
    factor[2] = 1e70
    once = {name: factor * getattr(report, name) for name in ("loss_mean", "product_mean")}
    once["co_moment"] = factor * report.co_moment
    twice = ("loss_m2", "product_m2", "spread", "variance", "explained")
    scaled = once | {name: factor**2 * getattr(report, name) for name in twice}
    target.choose({"a": dataclasses.replace(report, **scaled)})
    scaled["loss_m2"][0] *= 1e10
    with pytest.raises(MessageError, match="an impossible loss_m2"):
        target.choose({"a": dataclasses.replace(report, **scaled)})
