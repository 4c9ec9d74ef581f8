"""`FedCSA` as an estimator of scikit-learn's: its own checks, score, tags, clones and pickles."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, r2_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator

from fedcsa import FedCSA
from fedcsa.errors import DataError


class OneSource(FedCSA):
    """`fit(X, y)`: the rows are the only source, and the target too."""

    def fit(self, X, y):
        return super().fit({"all": (X, y)}, X)


OPTIONS = {"random_state": 0, "folds": 2, "on_no_overlap": "predict"}
ESTIMATORS = {
    "regressor": OneSource(candidates=[0.1], **OPTIONS),
    "classifier": OneSource(GaussianNB(), [{}], **OPTIONS),
}
_WORDS = "our error says the same in our own words, with what to do"
#: Checks that do not hold, and why. The tests below hold the list against what fails.
NOT_MET = {
    "check_n_features_in_after_fitting": _WORDS,
    "check_complex_data": _WORDS,
    "check_dtype_object": f"{_WORDS}; it is a ValueError for every kind of cell",
    "check_estimators_empty_data_messages": _WORDS,
    "check_fit2d_1sample": _WORDS,
    "check_fit2d_predict1d": _WORDS,
    "check_supervised_y_2d": "a column of outcomes is taken as outcomes, without a warning",
    "check_array_api_input": "skipped by scikit-learn unless a variable of the environment is set",
}


def failing(estimator, wanted):
    """Names of the checks that do not hold, of those whose name is `wanted`."""
    failed = set()
    for own, check in estimator_checks_generator(estimator):
        if wanted(check.func.__name__):
            try:
                check(own)
            except (Exception, pytest.skip.Exception):
                failed.add(check.func.__name__)
    return failed


@pytest.mark.filterwarnings("ignore")
def test_all_checks_of_scikit_learn_hold_but_those_with_a_reason():
    assert failing(ESTIMATORS["regressor"], bool) == set(NOT_MET)


@pytest.mark.filterwarnings("ignore")
def test_all_checks_of_classifiers_hold():
    assert failing(ESTIMATORS["classifier"], lambda name: "classif" in name) == set()


# Scores and tags -------------------------------------------------------------------------------

RNG = np.random.default_rng(0)


def hospital(mean, rows=80):
    X = RNG.normal(mean, 1.0, (rows, 2))
    return X, X.sum(axis=1) + RNG.normal(size=rows)


SOURCES = {"north": hospital(0.0), "south": hospital(0.5)}
NEW, OUTCOMES = hospital(0.3)
CLASSES = {name: (X, np.where(y > 0, "ill", "well")) for name, (X, y) in SOURCES.items()}
LABELS = np.where(OUTCOMES > 0, "ill", "well")
COLUMNS = make_pipeline(ColumnTransformer([("a", SimpleImputer(), [0, 1])]), Ridge())
STUDIES = {
    "ridge": (FedCSA(candidates=[0.0, 0.1], random_state=0), SOURCES),
    "columns": (FedCSA(COLUMNS, [{}], random_state=0), SOURCES),
    "held": (FedCSA(KNeighborsRegressor(5), [{}], random_state=0), SOURCES),
    "classes": (FedCSA(LogisticRegression(), [{}], random_state=0), CLASSES),
    "trees": (
        FedCSA(HistGradientBoostingClassifier(max_iter=3), [{}], random_state=0),
        CLASSES,
    ),
}


@pytest.fixture(scope="module", params=STUDIES)
def study(request):
    estimator, sources = STUDIES[request.param]
    return clone(estimator).fit(sources, NEW)


def test_score_is_r2_or_the_share_of_right_classes(study):
    weights = np.arange(1.0, 81.0)
    of, y = (accuracy_score, LABELS) if is_classifier(study) else (r2_score, OUTCOMES)
    assert study.score(NEW, y) == of(y, study.predict(NEW))
    expected = of(y, study.predict(NEW), sample_weight=weights)
    assert study.score(NEW, y, sample_weight=weights) == expected


@pytest.mark.parametrize("study", ["ridge", "columns", "held"], indirect=True)
def test_a_score_of_outcomes_that_are_no_numbers_quotes_none(study):
    with pytest.raises(DataError, match=r"^y must") as refused:
        study.score(NEW, ["secret"] * len(NEW))
    assert "secret" not in str(refused.value)


def test_tags_say_whether_it_classifies(study):
    assert is_classifier(study) == hasattr(study, "classes_")
    assert is_regressor(study) != is_classifier(study)


def test_a_pickle_gives_the_same_to_the_bit(study):
    again = pickle.loads(pickle.dumps(study))  # noqa: S301 - of this test's own
    method = "predict_proba" if is_classifier(study) else "predict"
    assert getattr(again, method)(NEW).tobytes() == getattr(study, method)(NEW).tobytes()
    assert (again.target_risk_, again.interval_) == (study.target_risk_, study.interval_)
    assert again.verdict_ == study.verdict_
    assert again.findings_ == study.findings_
    assert str(again.adaptation_) == str(study.adaptation_)


@pytest.mark.parametrize("name", STUDIES)
def test_a_clone_and_a_pickle_of_an_estimator_that_is_not_fitted_have_its_parameters(name):
    estimator, _ = STUDIES[name]
    for again in (clone(estimator), pickle.loads(pickle.dumps(estimator))):  # noqa: S301
        assert repr(again) == repr(estimator)
        with pytest.raises(NotFittedError):
            again.predict(NEW)


def test_a_clone_of_a_fitted_estimator_fits_to_the_same(study):
    again = clone(study)
    assert not hasattr(again, "adaptation_")
    sources = CLASSES if is_classifier(study) else SOURCES
    assert again.fit(sources, NEW).target_risk_ == study.target_risk_


def test_parameters_of_the_model_can_be_set_and_read():
    estimator = FedCSA(make_pipeline(Ridge(alpha=2.0)), random_state=0)
    assert estimator.get_params()["model__ridge__alpha"] == 2.0
    assert estimator.set_params(model__ridge__alpha=3.0).model[-1].alpha == 3.0


def test_html_shows_the_parameters_or_the_answer(study):
    assert "Use it" in study._repr_html_() or "Do not use it" in study._repr_html_()
    assert "sk-top-container" in clone(study)._repr_html_()


def test_a_continuous_outcome_is_no_class():
    with pytest.raises(DataError, match="must hold classes; it is continuous"):
        FedCSA(LogisticRegression(), random_state=0).fit(SOURCES, NEW)


def test_a_sparse_matrix_is_named():
    from scipy.sparse import csr_array

    with pytest.raises(DataError, match=r"must not be sparse.*toarray"):
        FedCSA(random_state=0).fit({"a": (csr_array(NEW), OUTCOMES)}, NEW)
