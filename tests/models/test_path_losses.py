"""Losses of a whole path: the shortcut agrees with the loop, and failures are marked."""

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

from fedcsa.core.losses import CLASSIFICATION, REGRESSION
from fedcsa.errors import DataError, ModelError
from fedcsa.models.estimators import SklearnModel
from fedcsa.models.fitted import EstimatorModel
from fedcsa.models.linear_format import LinearModel, Lines
from fedcsa.models.model import Path, path_losses

X = np.array([[0.0, 1.0], [2.0, -1.0], [0.5, 0.5]])
Y = np.array([1.0, -2.0, 0.25])
LINEAR = LinearModel(np.array([1.0, 2.0]), 0.5)
OTHER = LinearModel(np.array([0.0, -1.0]), 0.0)


@pytest.mark.parametrize("name", sorted(REGRESSION))
def test_linear_paths_take_a_shortcut_that_changes_nothing(name):
    loss = REGRESSION[name]
    losses, failures = path_losses(Path(Lines.of((LINEAR, OTHER))), X, Y, loss)
    assert failures == {}
    assert losses.shape == (3, 2)
    for column, model in enumerate((LINEAR, OTHER)):
        by_hand = [
            float(loss(np.array([model.predict(X[i : i + 1])[0]]), Y[i : i + 1])[0])
            for i in range(3)
        ]
        np.testing.assert_allclose(losses[:, column], by_hand, rtol=1e-14)


def test_linear_and_other_models_may_mix():
    tree = EstimatorModel(DecisionTreeRegressor(random_state=0).fit(X, Y))
    losses, failures = path_losses(Path((LINEAR, tree)), X, Y, REGRESSION["squared"])
    assert failures == {}
    np.testing.assert_allclose(losses[:, 0], (LINEAR.predict(X) - Y) ** 2, rtol=1e-14)
    np.testing.assert_array_equal(losses[:, 1], 0.0)  # a tree learns three rows by heart


def test_a_candidate_without_a_model_has_zeros_and_keeps_its_failure():
    path = Path((None, LINEAR), {0: "LinAlgError"})
    losses, failures = path_losses(path, X, Y, REGRESSION["squared"])
    assert failures == {0: "LinAlgError"}
    np.testing.assert_array_equal(losses[:, 0], 0.0)
    assert (losses[:, 1] > 0.0).any()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_predictions_that_are_not_finite_are_a_failure(bad):
    both = LINEAR, LinearModel(np.array([0.0, 0.0]), bad)
    for models in (both, Lines.of(both)):
        losses, failures = path_losses(Path(models), X, Y, REGRESSION["absolute"])
        assert failures == {1: "NonFinitePrediction"}
        np.testing.assert_array_equal(losses[:, 1], 0.0)
        assert np.isfinite(losses).all()


def test_predictions_of_an_estimator_that_are_not_finite_are_a_failure():
    broken = DummyRegressor(strategy="constant", constant=1.0).fit(X, Y)
    broken.constant_ = np.array([[np.inf]])
    losses, failures = path_losses(
        Path((EstimatorModel(broken), LINEAR)), X, Y, REGRESSION["squared"]
    )
    assert failures == {0: "NonFinitePrediction"}
    np.testing.assert_array_equal(losses[:, 0], 0.0)


def test_an_estimator_that_cannot_predict_is_a_failure_by_its_class_name():
    # Fits on 3 rows without complaint; more neighbours than rows are found out when predicting.
    path = SklearnModel(KNeighborsRegressor()).fit(
        X, Y, np.ones(3), [{"n_neighbors": 1}, {"n_neighbors": 4}], np.random.default_rng(0)
    )
    losses, failures = path_losses(path, X, Y, REGRESSION["squared"])
    assert failures == {1: "ValueError"}
    np.testing.assert_array_equal(losses[:, 1], 0.0)


@pytest.mark.parametrize("name", sorted(CLASSIFICATION))
def test_a_logistic_path_is_judged_by_its_probabilities(name):
    loss = CLASSIFICATION[name]
    model = LinearModel(np.array([1.0, 2.0]), 0.5, "logistic")
    codes = np.array([1.0, 0.0, 1.0])
    for models in ((model,), Lines.of((model,))):
        losses, failures = path_losses(Path(models), X, codes, loss)
        assert failures == {}
        np.testing.assert_array_equal(losses[:, 0], loss(model.predict(X), codes))


def test_a_loss_of_the_users_own_is_called_row_by_row_for_every_candidate():
    def pinball(prediction, y):
        return np.where(y > prediction, 0.9 * (y - prediction), 0.1 * (prediction - y))

    losses, failures = path_losses(Path((LINEAR, OTHER)), X, Y, pinball)
    assert failures == {}
    for column, model in enumerate((LINEAR, OTHER)):
        np.testing.assert_array_equal(losses[:, column], pinball(model.predict(X), Y))


def test_a_loss_of_the_wrong_shape_is_an_error():
    with pytest.raises(ModelError, match=r"one number per row, shape \(3,\); it returned shape"):
        path_losses(Path((LINEAR,)), X, Y, lambda *_: np.float64(0.0))


def test_a_loss_that_is_not_finite_is_an_error():
    with pytest.raises(DataError, match="must be finite on every row"):
        path_losses(Path((LINEAR,)), X, Y, lambda *_: np.full(3, np.nan))
