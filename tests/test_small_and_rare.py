"""What one honest source has, small, flat or rare, ends no study of the others."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from fedcsa import CandidatesError, FedCSA, Plan, Policy, Source, Target
from fedcsa.core.folds import fold_key, fold_labels, generator_for
from fedcsa.models.registry import model_description


def fit(sources, target, **options):
    return FedCSA(**{"candidates": [0.0, 0.1], "random_state": 0, **options}).fit(sources, target)


def hospital(rng, mean, rows, noise=1.0):
    X = rng.normal(mean, 1.0, (rows, 2))
    return X, X.sum(axis=1) + noise * rng.normal(size=rows)


def with_site(name, X, y, **options):
    """A study of five good sources and one more."""
    rng = np.random.default_rng(7)
    sources = {f"good-{k}": hospital(rng, 0.1 * k, 120) for k in range(5)}
    return fit({**sources, name: (X, y)}, rng.normal(0.2, 1.0, (80, 2)), **options)


def rare(rows, events, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(0.2, 1.0, (rows, 2))
    y = np.zeros(rows, dtype=int)
    y[:events] = 1
    return X, y


def rare_study(X, y, loss="brier"):
    """Five good sources of a rare event and one more."""
    rng = np.random.default_rng(7)
    sources = {}
    for k in range(5):
        Z = rng.normal(0.1 * k, 1.0, (150, 2))
        p = 1.0 / (1.0 + np.exp(1.5 - Z.sum(axis=1)))
        sources[f"good-{k}"] = (Z, (rng.random(150) < p).astype(int))
    target = rng.normal(0.2, 1.0, (80, 2))
    candidates = [{"C": 1.0}]
    model = LogisticRegression()
    return fit({**sources, "small": (X, y)}, target, model=model, candidates=candidates, loss=loss)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 9])
def test_a_source_of_a_handful_of_rows_ends_no_study(rows):
    X, y = hospital(np.random.default_rng(1), 0.2, rows)
    estimator = with_site("tiny", X, y)
    assert estimator.interval_ is not None
    assert "tiny" not in estimator.adaptation_.reaching
    assert {f.source for f in estimator.findings_ if f.code == "few-effective-rows"} == {"tiny"}
    assert sum(estimator.source_weights_.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("loss", ["brier", "log", "zero-one"])
def test_one_event_in_120_rows_ends_no_study(loss):
    estimator = rare_study(*rare(120, 1), loss)
    report = estimator.adaptation_.reports["small"]
    assert report.n_folds == 0
    assert dict(report.failed) == {"0": "TooFewOutcomes"}
    assert "small" not in estimator.source_weights_  # it sends no model …
    assert estimator.examinations_["small"].reason == ""  # … and examines the others'
    assert "small" in estimator.adaptation_.promise.examined_by


def most_folds(places, name="small", seed=0):
    """The largest number of folds, up to five, in no single one of which all events lie."""
    key = fold_key(generator_for(seed, name, "folds"))
    for k in range(5, 1, -1):
        if len({int(fold_labels(place, place + 1, k, key)[0]) for place in places}) > 1:
            return k
    return 0


def test_a_few_events_are_dealt_to_fewer_folds_before_a_source_gives_up():
    plan = Plan(
        ("x0", "x1"), model_description(LogisticRegression()), ({},), classes=(0, 1), loss="brier"
    )
    brief = Target(rare(80, 0)[0], plan, policy=Policy.open()).brief(["small"])
    seen = set()
    for first in range(60):
        X, y = rare(120, 0)
        y[[first, first + 7]] = 1
        report = Source("small", X, y, policy=Policy.open()).answer(brief)
        seen.add(report.n_folds)
        assert report.n_folds == most_folds((first, first + 7))
        assert bool(report.failed) is (report.n_folds == 0)
    assert {4, 5} <= seen


@pytest.mark.parametrize("events", [0, 120])
def test_a_source_of_one_class_says_not_estimable_and_ends_no_study(events):
    estimator = rare_study(*rare(120, events))
    assert estimator.examinations_["small"].reason == "outcomes_alike"
    assert "small" not in estimator.adaptation_.promise.examined_by
    [finding] = [f for f in estimator.findings_ if f.code == "not-examined"]
    assert (finding.source, finding.evidence["reason"]) == ("small", "outcomes_alike")


def test_a_source_whose_outcome_does_not_vary_says_not_estimable_and_ends_no_study():
    X, _ = hospital(np.random.default_rng(1), 0.2, 100)
    estimator = with_site("flat", X, np.full(100, 3.0))
    assert estimator.examinations_["flat"].reason == "outcomes_alike"
    assert estimator.interval_ is not None


@pytest.mark.parametrize("value", [0.0, 0.2, 7.0])
def test_a_column_that_does_not_vary_at_one_source_ends_no_study(value):
    X, y = hospital(np.random.default_rng(1), 0.2, 100)
    X[:, 1] = value
    estimator = with_site("flat", X, y)
    assert estimator.interval_ is not None
    assert np.isfinite(estimator.predict(X)).all()


def test_a_source_that_is_predicted_without_error_ends_no_study():
    X = np.random.default_rng(1).normal(0.2, 1.0, (100, 2))
    rng = np.random.default_rng(7)
    sources = {f"good-{k}": hospital(rng, 0.0, 120, noise=0.0) for k in range(3)}
    estimator = fit({**sources, "exact": (X, X.sum(axis=1))}, X[:50], candidates=[0.0])
    assert np.allclose(estimator.predict(X), X.sum(axis=1))


class Fussy(Ridge):
    """Fails on a table that holds a large number, and says which."""

    def fit(self, X, y, sample_weight=None):
        if np.abs(X).max() > 50.0:
            raise ValueError("cannot bear large numbers")
        return super().fit(X, y, sample_weight)


def test_a_source_whose_pipeline_raises_is_left_out_by_name(monkeypatch):
    import fedcsa.models.linear as place

    monkeypatch.setattr(place, "Fussy", Fussy, raising=False)
    monkeypatch.setattr(Fussy, "__module__", place.__name__)
    X, y = hospital(np.random.default_rng(1), 0.2, 100)
    X[0] = 900.0
    trusted = ["fedcsa.models.linear.Fussy"]
    estimator = with_site("odd", X, y, model=Fussy(), candidates=[{}], trusted_types=trusted)
    [finding] = [f for f in estimator.findings_ if f.code == "candidate-failed"]
    assert (finding.source, finding.evidence["reason"]) == ("odd", "ValueError")
    assert "odd" not in estimator.source_weights_
    assert estimator.interval_ is not None
    with pytest.raises(CandidatesError, match="The model says: ValueError: cannot bear large"):
        fit({"odd": (X, y)}, X[50:], model=Fussy(), candidates=[{}], trusted_types=trusted)
