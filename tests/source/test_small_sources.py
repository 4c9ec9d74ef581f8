"""Nothing that one honest small source has can end the study of all."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from fedcsa import FedCSA
from fedcsa.core.batches import HeldBatches
from fedcsa.errors import CandidatesError, NoSourcesError, ProtocolError
from fedcsa.messages.policy import Policy
from fedcsa.source.source import Source

OTHERS = ("a", "b", "c")


def numbers(make, n=120):
    return {name: make.rows(n, i) for i, name in enumerate(OTHERS)}


def classes(make, n=120):
    return {name: make.labelled(n, i) for i, name in enumerate(OTHERS)}


def fit(sources, make, model="ridge", **options):
    X = options.pop("X", make.rows(80, 99)[0])
    candidates = [0.0, 0.1] if model == "ridge" else None
    return FedCSA(model, candidates, random_state=0, **options).fit(sources, X)


def of(fitted, source, code):
    return [dict(f.evidence) for f in fitted.findings_ if (f.source, f.code) == (source, code)]


def rests_on_the_others(fitted):
    """A promise by the others alone, to whom nothing happened."""
    assert fitted.adaptation_.promise.examined_by == OTHERS
    for name in OTHERS:
        assert not of(fitted, name, "not-examined")


# Rows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_source_of_so_few_rows_examines_and_sends_no_model(make, n):
    fitted = fit({**numbers(make), "tiny": make.rows(n, 7)}, make)
    rests_on_the_others(fitted)
    assert "tiny" not in fitted.source_weights_
    assert fitted.adaptation_.reports["tiny"].n_folds == 0
    assert of(fitted, "tiny", "candidate-failed") == [
        {"candidates": 2.0, "of": 2.0, "reason": "TooFewOutcomes"}
    ]
    alone = fit(numbers(make), make)
    assert fitted.interval_ == alone.interval_
    assert fitted.verdict_ == alone.verdict_ == "use it"


@pytest.mark.parametrize(("n", "folds"), [(4, 2), (6, 3), (9, 4), (10, 5), (11, 5)])
def test_a_small_source_uses_fewer_folds(make, n, folds):
    fitted = fit({**numbers(make), "tiny": make.rows(n, 7)}, make)
    assert fitted.adaptation_.reports["tiny"].n_folds == folds
    assert fitted.source_weights_["tiny"] < 0.05


@pytest.mark.parametrize("n", [1, 3, 4, 9])
def test_a_small_source_in_batches_is_one_in_memory(make, n):
    X, y = make.rows(n, 7)
    streamed = Source.streaming("tiny", HeldBatches(("x0", "x1"), X, y), policy=Policy.open())
    others = [make.source(name, data) for name, data in numbers(make).items()]
    found = make.study(sources=[*others, streamed])
    held = make.study(sources=[*others_again(make), make.source("tiny", (X, y))])
    assert found.promise.examined_by == held.promise.examined_by == OTHERS
    np.testing.assert_allclose(found.interval, held.interval, rtol=1e-10)


def others_again(make):
    return [make.source(name, data) for name, data in numbers(make).items()]


def test_rows_that_are_all_alike_are_no_obstacle(make):
    X = np.repeat(make.rows(1)[0], 30, axis=0)
    fitted = fit({**numbers(make), "same": (X, np.arange(30.0))}, make)
    assert "same" in fitted.examinations_
    assert set(OTHERS) <= set(fitted.adaptation_.promise.examined_by)


def test_an_outcome_that_does_not_vary_is_not_estimable(make):
    X, _ = make.rows(60, 7)
    fitted = fit({**numbers(make), "same": (X, np.full(60, 2.0))}, make)
    rests_on_the_others(fitted)
    assert of(fitted, "same", "not-examined") == [{"reason": "outcomes_alike"}]


@pytest.mark.parametrize("where", ["source", "target", "everywhere"])
def test_a_column_that_does_not_vary_is_no_obstacle(make, where):
    sources, X = numbers(make), make.rows(80, 99)[0]
    for name, (rows, _) in sources.items():
        if where == "everywhere" or (where == "source" and name == "a"):
            rows[:, 1] = 0.3
    if where != "source":
        X[:, 1] = 0.3
    fitted = fit(sources, make, X=X)
    assert fitted.adaptation_.promise is not None
    assert set(fitted.source_weights_) == set(OTHERS)


# Classes ------------------------------------------------------------------------------------

MODELS = [LogisticRegression(), DecisionTreeClassifier(max_depth=2, random_state=0)]
LOSSES = ["brier", "log", "zero-one"]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_a_source_of_one_class_examines_as_not_estimable(make, model, loss):
    X, _ = make.rows(60, 7)
    fitted = fit({**classes(make), "same": (X, ["no"] * 60)}, make, model, loss=loss)
    rests_on_the_others(fitted)
    assert of(fitted, "same", "not-examined") == [{"reason": "outcomes_alike"}]
    # By the others' shares it should have had events; a few rows may lack them by chance.
    [found] = of(fitted, "same", "only-one-class")
    others = [fitted.adaptation_.reports[name] for name in OTHERS]
    rows = [report.effective_rows for report in others]
    share = np.average([report.outcome_mean[1] for report in others], weights=rows)
    own = fitted.adaptation_.reports["same"].effective_rows
    assert found == {"effective rows": own, "expected of other classes": pytest.approx(own * share)}


def test_few_rows_of_one_class_are_chance(make):
    X, _ = make.rows(4, 7)
    fitted = fit({**classes(make), "same": (X, ["no"] * 4)}, make, LogisticRegression())
    assert of(fitted, "same", "not-examined") == [{"reason": "outcomes_alike"}]
    assert not of(fitted, "same", "only-one-class")


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_a_source_with_one_event_examines_and_sends_no_model(make, model, loss):
    X, _ = make.rows(120, 7)
    labels = np.where(np.arange(120) == 17, "yes", "no")
    fitted = fit({**classes(make), "rare": (X, labels)}, make, model, loss=loss)
    assert fitted.adaptation_.promise.examined_by == (*OTHERS, "rare")
    assert "rare" not in fitted.source_weights_
    assert of(fitted, "rare", "candidate-failed") == [
        {"candidates": 3.0, "of": 3.0, "reason": "TooFewOutcomes"}
    ]


def test_two_events_use_as_many_folds_as_leave_one_to_every_model(make):
    X, _ = make.rows(120, 7)
    labels = np.where(np.isin(np.arange(120), (17, 83)), "yes", "no")
    fitted = fit({**classes(make), "rare": (X, labels)}, make, LogisticRegression())
    report = fitted.adaptation_.reports["rare"]
    assert 2 <= report.n_folds <= 5
    assert not report.failed


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_one_source_alone_is_examined_by_itself(make, model):
    fitted = fit({"a": make.labelled(150)}, make, model)
    assert [f.code for f in fitted.findings_ if f.code.endswith("examined")] == ["nothing-examined"]
    assert fitted.adaptation_.promise.examined_by == ("a",)
    assert fitted.verdict_ == "use it with care"


# Models and losses that raise ---------------------------------------------------------------


class Moody(RegressorMixin, BaseEstimator):
    """Fits no outcome above a bound."""

    def __init__(self, bound=1e3):
        self.bound = bound

    def fit(self, X, y):
        if y.max() > self.bound:
            raise ValueError("this outcome is beyond me")
        self.model_ = Lasso(0.01).fit(X, y)
        return self

    def predict(self, X):
        return self.model_.predict(X)


@pytest.fixture
def moody(monkeypatch):
    import fedcsa.models.model as place

    monkeypatch.setattr(place, "Moody", Moody, raising=False)
    monkeypatch.setattr(Moody, "__module__", place.__name__)
    return {"model": Moody(), "trusted_types": ("fedcsa.models.model.Moody",)}


def test_a_pipeline_that_raises_at_one_source_is_left_out_there(make, moody):
    X, y = make.rows(60, 7)
    fitted = fit({**numbers(make), "wild": (X, y + 1e4)}, make, **moody)
    assert "wild" not in fitted.source_weights_
    assert of(fitted, "wild", "candidate-failed") == [
        {"candidates": 1.0, "of": 1.0, "reason": "ValueError"}
    ]
    assert "wild" in fitted.examinations_


def test_a_pipeline_that_raises_everywhere_is_shown_with_its_own_text(make, moody):
    sources = {name: (X, y + 1e4) for name, (X, y) in numbers(make).items()}
    text = r"all 1 failed at 'a', 'b', 'c' \(ValueError\)[\s\S]*this outcome is beyond me"
    with pytest.raises(CandidatesError, match=text):
        fit(sources, make, **moody)


def test_between_sites_only_the_kind_of_an_error_is_told(make, moody):
    trusted = moody["trusted_types"]
    sites = [
        make.source(name, (X, y + 1e4), trusted_types=trusted)
        for name, (X, y) in numbers(make).items()
    ]
    with pytest.raises(CandidatesError, match="ValueError") as caught:
        make.study(make.plan(moody["model"], None), sites, trusted_types=trusted)
    assert "beyond me" not in str(caught.value)


def test_a_loss_that_raises_is_shown_with_its_own_text(make):
    def broken(*_):
        raise ValueError("no loss today")

    with pytest.raises(ProtocolError, match="ValueError: no loss today"):
        fit(numbers(make), make, loss=broken)


def test_a_loss_that_can_be_negative_has_no_promise(make):
    fitted = fit(numbers(make), make, loss=lambda prediction, y: prediction - y)
    assert fitted.interval_ is None
    assert fitted.verdict_ == "use it with care"
    for name in OTHERS:
        assert of(fitted, name, "not-examined") == [{"reason": "loss_not_positive"}]
    assert of(fitted, "", "no-promise") == [{}]


# Levels that one site has and another has not ----------------------------------------------


def levels(n, seed, count):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, count, (n, 1)).astype(float)
    return X, X[:, 0] + rng.normal(size=n)


def level_study(counts, at_target):
    model = make_pipeline(OneHotEncoder(handle_unknown="error"), Lasso(0.01))
    sources = {name: levels(100, i, count) for i, (name, count) in enumerate(counts.items())}
    return FedCSA(model, random_state=0, scale=False).fit(sources, levels(80, 9, at_target)[0])


def test_a_level_that_only_one_source_has_keeps_it_from_examining():
    fitted = level_study({"a": 3, "b": 3, "c": 3, "more": 4}, 3)
    assert of(fitted, "more", "not-examined") == [{"reason": "mixture_failed"}]
    rests_on_the_others(fitted)


def test_a_model_that_does_not_know_a_level_of_the_target_has_no_part():
    fitted = level_study({"a": 4, "b": 4, "c": 4, "less": 3}, 4)
    assert set(fitted.source_weights_) == set(OTHERS)
    assert of(fitted, "less", "candidate-failed")[0]["reason"] == "ValueError"
    assert "less" in fitted.examinations_


def test_a_level_of_the_target_that_no_model_knows_is_an_error_of_ours():
    with pytest.raises(NoSourcesError, match="able to predict the target's rows; all fail"):
        level_study({"a": 3, "b": 3, "c": 3}, 4)
