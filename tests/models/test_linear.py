"""The closed-form path agrees with scikit-learn's fits, one candidate at a time."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression as SklearnLeastSquares
from sklearn.linear_model import Ridge

from fedcsa.errors import ParameterError
from fedcsa.models.linear_format import LinearModel
from fedcsa.models.model import LinearRegression


@pytest.fixture
def rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(25, 3)) * [1.0, 5.0, 0.2] + [0.0, 10.0, -1.0]
    y = X @ [1.0, -0.5, 3.0] + 2.0 + rng.normal(size=25)
    return X, y, rng.gamma(1.0, size=25)


def fit(model, rows, candidates):
    X, y, ratios = rows
    return model.fit(X, y, ratios, candidates, np.random.default_rng(0))


PENALTIES = (1e-3, 0.1, 1.0, 50.0)
POWERS = (0.0, 0.3, 1.0)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("scale", ["mean", "sklearn"])
def test_a_path_equals_ridge_of_scikit_learn(rows, scale, power, intercept):
    X, y, ratios = rows
    candidates = [{"penalty": penalty, "ratio_power": power} for penalty in PENALTIES]
    path = fit(LinearRegression(scale, intercept), rows, candidates)
    weights = ratios**power
    assert path.failures == {}
    assert path.warned == {}
    for penalty, model in zip(PENALTIES, path.models, strict=True):
        alpha = penalty * weights.sum() if scale == "mean" else penalty
        oracle = Ridge(alpha=alpha, fit_intercept=intercept, solver="svd")
        oracle.fit(X, y, sample_weight=weights)
        np.testing.assert_allclose(model.coefficients, oracle.coef_, rtol=1e-9)
        np.testing.assert_allclose(model.intercept, oracle.intercept_, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(model.predict(X), oracle.predict(X), rtol=1e-9)


@pytest.mark.parametrize("power", POWERS)
def test_weighted_least_squares_equals_that_of_scikit_learn(rows, power):
    X, y, ratios = rows
    [model] = fit(LinearRegression(), rows, [{"ratio_power": power}]).models
    oracle = SklearnLeastSquares().fit(X, y, sample_weight=ratios**power)
    np.testing.assert_allclose(model.coefficients, oracle.coef_, rtol=1e-9)
    np.testing.assert_allclose(model.intercept, oracle.intercept_, rtol=1e-9)


def test_candidates_keep_their_order_whatever_their_powers(rows):
    candidates = [
        {"penalty": 1.0, "ratio_power": 1.0},
        {"penalty": 0.0},
        {"penalty": 0.5, "ratio_power": 0.5},
        {},
        {"ratio_power": 1.0, "penalty": 0.0},
    ]
    path = fit(LinearRegression(), rows, candidates)
    for candidate, model in zip(candidates, path.models, strict=True):
        [alone] = fit(LinearRegression(), rows, [candidate]).models
        np.testing.assert_allclose(model.coefficients, alone.coefficients, rtol=1e-12)
        np.testing.assert_allclose(model.intercept, alone.intercept, rtol=1e-12)
    np.testing.assert_array_equal(path.models[1].coefficients, path.models[3].coefficients)


def test_ratios_do_not_matter_at_power_zero(rows):
    X, y, _ = rows
    [plain] = fit(LinearRegression(), (X, y, np.zeros(25)), [{"penalty": 0.1}]).models
    [other] = fit(LinearRegression(), rows, [{"penalty": 0.1, "ratio_power": 0}]).models
    assert plain.coefficients.tobytes() == other.coefficients.tobytes()


def test_ratios_that_are_all_zero_fail_the_weighted_candidates_only(rows):
    X, y, _ = rows
    candidates = [{"ratio_power": 0.5}, {"ratio_power": 0.0}, {"ratio_power": 1.0}]
    path = fit(LinearRegression(), (X, y, np.zeros(25)), candidates)
    assert path.failures == {0: "ZeroWeights", 2: "ZeroWeights"}
    assert path.models[0] is None
    assert path.models[2] is None
    assert isinstance(path.models[1], LinearModel)


def test_a_single_feature_and_two_rows_are_enough():
    X, y = np.array([[0.0], [2.0]]), np.array([1.0, 5.0])
    [model] = fit(LinearRegression(), (X, y, np.ones(2)), [{}]).models
    np.testing.assert_allclose(model.predict(np.array([[1.0]])), [3.0], rtol=1e-12)


def test_more_features_than_rows_give_the_smallest_solution():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4, 9)), rng.normal(size=4)
    [model] = fit(LinearRegression(), (X, y, np.ones(4)), [{}]).models
    oracle = np.linalg.pinv(X - X.mean(axis=0)) @ (y - y.mean())
    np.testing.assert_allclose(model.coefficients, oracle, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scale", ["sum", "", None])
def test_an_unknown_penalty_scale_is_an_error(scale):
    with pytest.raises(
        ParameterError, match=r"'penalty_scale' parameter must be one of \['mean', 'skl"
    ):
        LinearRegression(scale)


def test_it_predicts_numbers():
    assert LinearRegression().n_classes == 0
