"""The result predicts by the weighted sum of the sources' models, as one would by hand."""

import dataclasses

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVR, LinearSVC

from fedcsa.errors import DataError, ModelError
from fedcsa.models.linear_format import LinearModel

TREES = ("sklearn.tree._tree.Tree",)
METHODS = ["naive", "fediwe", "feddae", "validated"]


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_a_prediction_is_the_weighted_sum_by_hand(make, method, scale):
    adaptation = make.study(make.plan(method=method, scale=scale))
    X, _ = make.rows(7, 123)
    for row, predicted in zip(X, adaptation.predict(X), strict=True):
        seen = (row - adaptation.table.mean) / adaptation.table.sd if scale else row
        total = 0.0
        for name in ("a", "b"):
            model = adaptation.models[name]
            assert isinstance(model, LinearModel)
            value = model.intercept
            for coefficient, cell in zip(model.coefficients, seen, strict=True):
                value += coefficient * cell
            total += adaptation.source_weights[name] * value
        assert predicted == pytest.approx(total, rel=1e-12)


def test_a_prediction_by_objects_is_the_weighted_sum(make):
    adaptation = make.study(make.plan(SVR(), None))
    X, _ = make.rows(7, 123)
    seen = (X - adaptation.table.mean) / adaptation.table.sd
    by_hand = sum(
        adaptation.source_weights[name] * adaptation.models[name].estimator.predict(seen)
        for name in ("a", "b")
    )
    np.testing.assert_allclose(adaptation.predict(X), by_hand, rtol=1e-14)


def classes_study(make, estimator, classes, method="validated", loss="log"):
    design = make.plan(estimator, None, classes=classes, loss=loss, method=method)
    sources = [make.source(n, make.labelled(90, i, classes)) for i, n in enumerate("ab")]
    return make.study(design, sources)


ESTIMATORS = (LogisticRegression(), RandomForestClassifier(5), LinearSVC())
CLASSES = (("no", "yes"), ("low", "middle", "high"), (0, 1), (3, 1, 2))
#: Every estimator with all classes, every method with all classes; who predicts knows no method.
CASES = {
    *((estimator, classes, METHODS[-1]) for estimator in ESTIMATORS for classes in CLASSES),
    *((ESTIMATORS[0], classes, method) for method in METHODS for classes in CLASSES),
}


@pytest.mark.parametrize(("estimator", "classes", "method"), sorted(CASES, key=str), ids=str)
def test_probabilities_sum_to_one_and_the_largest_is_the_label(make, estimator, classes, method):
    adaptation = classes_study(make, estimator, classes, method, "brier")
    X, _ = make.rows(25, 77)
    proba = adaptation.predict_proba(X)
    assert proba.shape == (25, len(classes))
    assert (proba >= 0.0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)
    labels = adaptation.predict(X)
    assert labels.tolist() == [classes[i] for i in proba.argmax(axis=1)]
    assert set(labels.tolist()) <= set(classes)


def test_probabilities_are_the_weighted_sum_of_the_sources(make):
    adaptation = classes_study(make, LogisticRegression(), ("no", "yes"))
    X, _ = make.rows(25, 77)
    seen = (X - adaptation.table.mean) / adaptation.table.sd
    yes = np.zeros(25)
    for name in ("a", "b"):
        model = adaptation.models[name]
        score = seen @ model.coefficients + model.intercept
        yes += adaptation.source_weights[name] / (1.0 + np.exp(-score))
    np.testing.assert_allclose(adaptation.predict_proba(X)[:, 1], yes, rtol=1e-12)


def test_a_study_of_classes_predicts_better_than_chance(make):
    adaptation = classes_study(make, LogisticRegression(), ("no", "yes"))
    X, y = make.labelled(300, 55)
    assert (adaptation.predict(X) == y).mean() > 0.8


def test_a_study_of_numbers_has_no_probabilities(make):
    with pytest.raises(ModelError, match="Only a classifier has probabilities"):
        make.study().predict_proba(make.rows(3)[0])


@pytest.mark.parametrize("X", [np.zeros((3, 1)), np.zeros((3, 3)), np.zeros(2), [[np.nan, 0.0]]])
def test_rows_of_another_shape_or_not_finite_are_an_error(make, X):
    with pytest.raises(DataError, match="X must"):
        make.study().predict(X)


def test_without_models_there_is_nothing_to_predict_with(make):
    empty = dataclasses.replace(make.study(), models={})
    with pytest.raises(ModelError, match="No source sent a model"):
        empty.predict(make.rows(3)[0])


@pytest.mark.parametrize("method", ["naive", "fediwe", "feddae"])
def test_the_result_says_what_was_chosen_and_at_which_risk(make, method):
    adaptation = make.study(make.plan(method=method))
    chosen = adaptation.estimate.chosen
    assert adaptation.estimate is adaptation.estimates[method]
    assert (
        adaptation.target_risk == adaptation.estimate.risk[chosen] == adaptation.estimate.risk.min()
    )
    assert adaptation.candidate == adaptation.plan.candidates[adaptation.kept[chosen]]
    assert adaptation.sources == ("a", "b")
    assert adaptation.n_target_rows == 40
    assert sum(adaptation.source_weights.values()) == pytest.approx(1.0, abs=1e-12)


def test_the_default_method_gives_an_interval_around_its_risk(make):
    sources = [make.source(name, make.rows(200, i)) for i, name in enumerate("abc")]
    adaptation = make.study(sources=sources, n=100)
    lower, upper = adaptation.interval
    assert 0.0 < lower < adaptation.target_risk < upper
    assert adaptation.target_risk == adaptation.promise.risk
    assert adaptation.status == adaptation.verdict.words == "use it"


@pytest.mark.parametrize("method", ["naive", "fediwe", "feddae"])
def test_the_papers_methods_have_no_promise(make, method):
    adaptation = make.study(make.plan(method=method))
    assert adaptation.verdict.advice == "none"
    assert adaptation.verdict.sentence == (
        f"an estimate by {adaptation.plan.titled(method)}: no source examined the model, so there "
        "is no interval and no verdict"
    )
    assert adaptation.verdict.legs == ()
    assert (adaptation.promise, adaptation.interval) == (None, None)
    assert adaptation.examinations == {}


def test_repr_shows_no_array(make):
    text = repr(make.study())
    assert "array" not in text
    assert "LinearModel" not in text
    assert "RiskReport" not in text


def test_the_median_of_the_models_withstands_one_that_lies(make):
    X, y = make.rows(60, 9)
    rows, truth = make.rows(200, 5)
    errors = {}
    for how in ("mean", "median"):
        sources = [make.source(name, make.rows(60, i)) for i, name in enumerate("abcd")]
        liar = make.source("e", (X, 40.0 + 10.0 * y))  # not so far that it is refused
        adaptation = make.study(make.plan(method="naive", combine=how), [*sources, liar])
        errors[how] = np.abs(adaptation.predict(rows) - truth).mean()
    assert errors["median"] < 1.0 < 5.0 < errors["mean"]
