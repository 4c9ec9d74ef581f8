"""Lines, and estimators as they are in one process."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.cross_decomposition import PLSRegression
from sklearn.linear_model import Lasso
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier

from fedcsa.errors import ModelError
from fedcsa.models.fitted import EstimatorModel
from fedcsa.models.formats import open_model
from fedcsa.models.linear_format import LinearModel

RNG = np.random.default_rng(4)
X = RNG.normal(size=(40, 3))
Y = X @ [1.0, 2.0, -1.0] + 0.1 * RNG.normal(size=40)
CODES = np.digitize(Y, np.quantile(Y, [1 / 3, 2 / 3]))


def test_a_linear_model_predicts_by_hand():
    model = LinearModel(np.array([1.0, -2.0, 0.5]), 3.0)
    expected = [sum(b * x for b, x in zip((1.0, -2.0, 0.5), row, strict=True)) + 3.0 for row in X]
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-12)


def test_a_logistic_model_gives_two_probabilities():
    model = LinearModel(np.array([1.0, -2.0, 0.5]), 3.0, "logistic")
    score = X @ [1.0, -2.0, 0.5] + 3.0
    np.testing.assert_allclose(model.predict(X)[:, 1], expit(score), rtol=1e-12)
    np.testing.assert_allclose(model.predict(X).sum(axis=1), 1.0, rtol=1e-14)


@pytest.mark.parametrize("score", [-800.0, -40.0, 40.0, 800.0])
def test_a_logistic_model_neither_overflows_nor_loses_the_small_side(score):
    [[no, yes]] = LinearModel(np.array([score]), 0.0, "logistic").predict(np.ones((1, 1)))
    np.testing.assert_allclose([no, yes], [expit(-score), expit(score)], rtol=1e-14)
    assert min(no, yes) == float(expit(-abs(score)))


@pytest.mark.parametrize("link", ["probit", "", "Identity"])
def test_an_unknown_link_is_an_error(link):
    line = LinearModel(np.zeros(1), 0.0, link)
    with pytest.raises(ModelError, match="a link of the study's outcome"):
        open_model(line.form, line.arrays, 1, 0)


def test_repr_holds_no_parameter():
    assert repr(LinearModel(np.array([0.123456]), 9.87)) == (
        "LinearModel(1 coefficients, link='identity')"
    )
    assert repr(EstimatorModel(Lasso(0.123456))) == "EstimatorModel(Lasso)"


# Estimators as they are -----------------------------------------------------------------------


def test_an_estimator_is_called_by_its_class_and_writes_nothing():
    model = EstimatorModel(SVR().fit(X, Y))
    assert model.form == {"kind": "held", "class": "sklearn.svm._classes.SVR"}
    assert model.arrays == {}


def test_a_column_of_predictions_becomes_a_vector():
    estimator = PLSRegression(1).fit(X, Y[:, None])
    assert EstimatorModel(estimator).predict(X).shape == (40,)


def test_a_single_row_is_predicted():
    estimator = SVR().fit(X, Y)
    assert EstimatorModel(estimator).predict(X[:1]).shape == (1,)


@pytest.mark.parametrize("estimator", [SVC(), DecisionTreeClassifier(max_depth=1)], ids=str)
def test_classes_that_were_not_seen_have_no_probability(estimator):
    codes = 2 * (CODES > 0)
    found = EstimatorModel(estimator.fit(X, codes), 3).predict(X)
    assert found.shape == (40, 3)
    assert not found[:, 1].any()
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
