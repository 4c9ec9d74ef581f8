"""An error text may cross from one site to another, so that no data value is ever in it."""

import dataclasses

import numpy as np
import pytest
from sklearn.linear_model import LassoCV, LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import SVC

from fedcsa.errors import FedCSAError

SECRET = 987654.321
TRACES = ("987654", "9.876")


def chain(error):
    """The error and everything that a traceback would show beneath it."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def assert_silent(error):
    for link in chain(error):
        for text in (str(link), repr(link), repr(link.args)):
            assert not any(trace in text for trace in TRACES), text


def planted(make, n=30, seed=0):
    """Rows in which the secret is a cell, an outcome, and close to both means."""
    X, y = make.rows(n, seed)
    X[n // 2, 0] = SECRET
    y[n // 3] = SECRET
    return X, y


def with_nan(make):
    X, y = planted(make)
    X[0, 0] = np.nan
    return X, y


def with_infinite_outcome(make):
    X, y = planted(make)
    y[0] = np.inf
    return X, y


def short(make):
    X, y = planted(make)
    return X, y[:-1]


def as_text(make):
    X, y = planted(make)
    return X.astype(str), y


def outcome_as_text(make):
    X, y = planted(make)
    return X, y.astype(str)


def ragged(make):
    X, y = planted(make)
    return [*X.tolist(), [SECRET]], [*y.tolist(), SECRET]


BROKEN = [with_nan, with_infinite_outcome, short, as_text, outcome_as_text, ragged]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda f: f.__name__)
def test_bad_rows_are_refused_without_a_word_about_their_values(make, broken):
    with pytest.raises(FedCSAError, match="source 'a'") as caught:
        make.study(sources=[make.source("a", broken(make))])
    assert_silent(caught.value)


def test_labels_that_were_not_agreed_are_not_quoted(make):
    X, _ = planted(make)
    labels = np.where(np.arange(30) % 3 == 0, str(SECRET), "no")
    design = make.plan(LogisticRegression(), None, classes=("no", "yes"), loss="log")
    with pytest.raises(FedCSAError, match="agreed classes") as caught:
        make.study(design, [make.source("a", (X, labels))])
    assert_silent(caught.value)


@pytest.mark.parametrize("n", [1, 5])
def test_too_few_rows_are_refused_without_a_word_about_their_values(make, n):
    X, y = planted(make)
    design = make.plan(method="feddae", exchange="rows")
    with pytest.raises(FedCSAError, match="at least 6 rows") as caught:
        make.study(design, [make.source("a", (X[:n], y[:n]))])
    assert_silent(caught.value)


def test_a_bad_target_is_refused_without_a_word_about_its_values(make):
    X, _ = planted(make, 40)
    broken = X.copy()
    broken[0, 1] = np.nan
    for table in (broken, X[:1], X[:, :1], X.astype(str)):
        with pytest.raises(FedCSAError, match="target") as caught:
            make.target(X=table)
        assert_silent(caught.value)


def test_a_missing_column_is_refused_without_a_word_about_its_values(make):
    site = make.source("a", planted(make), features=("x0", "age"))
    with pytest.raises(FedCSAError, match="missing: 'x1'") as caught:
        make.study(sources=[site])
    assert_silent(caught.value)


@pytest.mark.parametrize(
    ("estimator", "grid"),
    [
        (LassoCV(), {"cv": [29]}),
        (LassoCV(), {"alphas": ["text"]}),
        (KNeighborsRegressor(), {"n_neighbors": [29]}),
    ],
    ids=str,
)
def test_a_model_that_fails_says_nothing_about_the_rows(make, estimator, grid):
    with pytest.raises(FedCSAError, match="At least one candidate must be fitted") as caught:
        make.study(make.plan(estimator, grid), [make.source("a", planted(make))])
    assert_silent(caught.value)


class Talkative(SVC):
    """Quotes the rows it cannot fit."""

    def fit(self, X, y, sample_weight=None):  # noqa: ARG002
        raise ValueError(f"cannot fit {X.tolist()} to {y.tolist()}")


def test_a_library_that_quotes_the_rows_is_not_quoted(make, monkeypatch):
    import fedcsa.models.model as place

    monkeypatch.setattr(place, "Talkative", Talkative, raising=False)
    monkeypatch.setattr(Talkative, "__module__", place.__name__)
    trusted = ("fedcsa.models.model.Talkative",)
    X, _ = planted(make)
    labels = np.where(np.arange(30) % 2 == 0, "no", "yes")
    design = make.plan(Talkative(), None, classes=("no", "yes"), loss="brier", scale=False)
    site = make.source("a", (X, labels), trusted_types=trusted)
    with pytest.raises(FedCSAError, match=r"all 1 failed at 'a' \(ValueError\)") as caught:
        make.study(design, [site], trusted_types=trusted)
    assert_silent(caught.value)


def test_a_loss_that_fails_on_some_rows_is_refused_without_a_word_about_them(make):
    def picky(prediction, y):
        return np.where(y > 1e5, np.nan, (prediction - y) ** 2)

    design = make.plan(loss="picky")
    with pytest.raises(FedCSAError, match="must be finite on every row") as caught:
        make.study(design, [make.source("a", planted(make), losses={"picky": picky})])
    assert_silent(caught.value)


def test_a_loss_that_quotes_the_rows_it_fails_on_is_not_quoted(make):
    def quoting(prediction, y):
        raise ValueError(f"cannot judge {prediction.tolist()} by {y.tolist()}")

    site = make.source("a", planted(make), losses={"quoting": quoting})
    with pytest.raises(FedCSAError, match=r"'a'.*ValueError") as caught:
        make.study(make.plan(loss="quoting"), [site])
    assert not any(trace in str(caught.value) for trace in TRACES)


def test_refusals_hold_the_name_of_the_rule_and_no_value(make):
    from fedcsa.messages.codec import encode
    from fedcsa.messages.policy import Policy

    strict = dataclasses.replace(Policy.open(), min_fold_rows=1000)
    site = make.source("a", planted(make), policy=strict)
    answer = site.answer(make.target(X=planted(make, 40)[0]).brief(["a"]))
    assert answer.rule == "min_fold_rows"
    assert not any(trace.encode() in encode(answer) for trace in TRACES)


def test_what_a_study_shows_of_itself_holds_no_value(make):
    site = make.source("a", planted(make))
    target = make.target(X=planted(make, 40)[0])
    brief = target.brief(["a"])
    report = site.answer(brief)
    for shown in (site, target, brief, report, site.answer(target.choose({"a": report}))):
        assert not any(trace in repr(shown) for trace in TRACES)
