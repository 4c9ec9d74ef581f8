"""What a source finds in the very model that is about to leave."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeRegressor

from fedcsa.models.convert import to_portable
from fedcsa.models.description import count_parameters
from fedcsa.models.leaving import long_arrays, own_values, rows_behind
from fedcsa.models.linear_format import LinearModel
from fedcsa.models.tree_format import rows_per_leaf
from fedcsa.models.trees import to_bins

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 3))
Y = X[:, 0] * X[:, 1] + rng.normal(size=300)
GRID = np.full(3, 0.125)
NONE = np.empty(0)


def on_grid(estimator, y=Y, weights=None):
    estimator.fit(to_bins(X, GRID).astype(float), y, sample_weight=weights)
    return to_portable(estimator, 0, GRID)


# What is counted --------------------------------------------------------------------------------


def test_numbers_that_were_fitted_are_counted_and_agreed_ones_are_not():
    assert count_parameters(LinearModel(np.ones(3), 1.0).arrays) == 4
    tree = on_grid(DecisionTreeRegressor(max_leaf_nodes=5))
    assert count_parameters(tree.arrays) == 4 + 5 + 1
    steps = make_pipeline(StandardScaler(), PolynomialFeatures(2), Ridge()).fit(X, Y)
    assert count_parameters(to_portable(steps, 0, None).arrays) == 3 + 3 + 10 + 1


def test_rows_of_every_leaf_are_those_that_scikit_learn_counted():
    estimator = DecisionTreeRegressor(min_samples_leaf=7, random_state=0)
    model = on_grid(estimator)
    leaves = estimator.tree_.children_left == -1
    own = estimator.tree_.n_node_samples[leaves]
    assert sorted(rows_per_leaf(model, X)) == sorted(own)
    assert rows_per_leaf(model, X).min() >= 7
    halves = rows_per_leaf(model, X[:100]) + rows_per_leaf(model, X[100:])
    np.testing.assert_array_equal(halves, rows_per_leaf(model, X))


def test_rows_of_every_tree_are_counted():
    forest = on_grid(RandomForestRegressor(4, min_samples_leaf=10, random_state=0))
    assert rows_per_leaf(forest, X).sum() == 4 * len(X)


def test_a_leaf_of_many_rows_may_hang_on_one_heavy_one():
    weights = np.full(len(X), 1e-6)
    weights[0] = 1.0
    model = on_grid(DecisionTreeRegressor(min_samples_leaf=20), weights=weights)
    assert rows_per_leaf(model, X).min() >= 20
    assert rows_per_leaf(model, X, weights).max() < 1.0 + 300 * 1e-6
    assert abs(model.predict(X[:1])[0] - Y[0]) < 1e-3, "which is why weights are looked at"


def test_a_line_has_no_leaves():
    assert len(rows_behind(LinearModel(np.ones(3), 1.0), X, X[:, 0])) == 0


# Cells and outcomes -----------------------------------------------------------------------------


def found_in(model, y=Y, agreed=NONE):
    return own_values(model.form, model.arrays, X, y, agreed)


def test_honest_models_hold_no_cell():
    lines = make_pipeline(StandardScaler(), PolynomialFeatures(2), Ridge()).fit(X, Y)
    assert found_in(to_portable(lines, 0, None)) == []
    assert found_in(on_grid(RandomForestRegressor(5, min_samples_leaf=10, random_state=0))) == []
    assert found_in(on_grid(GradientBoostingRegressor(min_samples_leaf=10, random_state=0))) == []


@pytest.mark.parametrize("factor", [1.0, 1.0 + 1e-14])
def test_a_cell_or_an_outcome_is_found_wherever_it_is(factor):
    for secret in (X[17, 2], Y[5]):
        slopes = np.array([0.5, secret * factor, 0.7])
        assert found_in(LinearModel(slopes, 0.3)) == ["coefficients"]
        assert found_in(LinearModel(np.full(3, 0.5), secret * factor)) == ["intercept"]


def test_an_unpruned_tree_is_full_of_outcomes():
    assert found_in(on_grid(DecisionTreeRegressor())) == ["value"]


def test_a_mean_of_a_scaler_that_is_a_cell_is_found():
    constant = X.copy()
    constant[:, 1] = 0.37
    estimator = make_pipeline(StandardScaler(), PolynomialFeatures(2), Ridge()).fit(constant, Y)
    model = to_portable(estimator, 0, None)
    assert own_values(model.form, model.arrays, constant, Y, NONE) == ["step0.0.shift"]
    assert own_values(model.form, model.arrays, constant, Y, np.array([0.37])) == []


def test_agreed_constants_and_0_and_1_are_no_secrets():
    flags = np.column_stack([X[:, :2], np.where(X[:, 2] > 0, -0.6, 1.7)])
    model = LinearModel(np.array([0.0, 1.0, 1.7]), -0.6)
    y = np.where(Y > 0, 1.0, 0.0)
    assert own_values(model.form, model.arrays, flags, y, NONE) == ["coefficients", "intercept"]
    assert own_values(model.form, model.arrays, flags, y, np.array([-0.6, 1.7])) == []


def test_means_of_outcomes_with_few_decimals_are_no_outcomes():
    y = np.round(10 * Y)
    model = on_grid(RandomForestRegressor(20, min_samples_leaf=10, random_state=0), y=y)
    assert np.isin(model.value, y[(y != 0) & (y != 1)]).any(), "by chance"
    assert found_in(model, y) == []
    assert found_in(LinearModel(np.ones(3), 7.0), y) == ["intercept"]


def test_an_array_as_long_as_the_rows_is_found():
    line = LinearModel(np.full(300, 0.123), 0.3)
    assert long_arrays(line.form, line.arrays, 300) == ["coefficients"]
    assert long_arrays(line.form, line.arrays, 310) == []
    forest = on_grid(RandomForestRegressor(4, min_samples_leaf=10, random_state=0))
    n_leaves, n_splits = len(forest.value), len(forest.threshold)
    assert long_arrays(forest.form, forest.arrays, n_leaves) == [], "leaves, not rows"
    assert long_arrays(forest.form, forest.arrays, n_splits) == []
