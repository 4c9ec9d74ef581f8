"""The ridge path against scikit-learn, least squares and the normal equations."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from fedcsa.core.ridge import (
    merge_triangles,
    product_triangle,
    ridge_path,
    triangle,
    triangle_path,
)
from fedcsa.errors import ParameterError

PENALTIES = np.array([1e-6, 1e-3, 0.1, 1.0, 30.0])


def problem(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(3.0, 2.0, size=(n, d))
    return X, X @ rng.normal(size=d) + rng.normal(size=n) + 5.0, 0.1 + rng.random(n)


@pytest.mark.parametrize(("n", "d"), [(20, 1), (30, 4), (5, 8), (2, 1), (2, 3)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_path_equals_scikit_learn_with_the_summed_penalty(n, d, weighted, intercept):
    X, y, w = problem(n, d)
    w = w if weighted else None
    coefficients, intercepts = ridge_path(X, y, PENALTIES, w, intercept=intercept)
    assert coefficients.shape == (d, len(PENALTIES))
    assert intercepts.shape == (len(PENALTIES),)
    total = n if w is None else w.sum()  # Σ w̃ (…)² + θ|b|², times Σ w
    for k, theta in enumerate(PENALTIES):
        model = Ridge(alpha=total * theta, fit_intercept=intercept, solver="svd").fit(X, y, w)
        np.testing.assert_allclose(coefficients[:, k], model.coef_, rtol=1e-6, atol=1e-8)
        assert intercepts[k] == pytest.approx(model.intercept_, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize(("n", "d"), [(3, 1), (12, 3), (4, 9)])
def test_path_solves_the_weighted_normal_equations(n, d):
    X, y, w = problem(n, d, seed=1)
    share = w / w.sum()
    design = np.column_stack([np.ones(n), X])
    for theta in PENALTIES[1:]:
        coefficients, intercepts = ridge_path(X, y, np.array([theta]), w)
        solution = np.concatenate([intercepts, coefficients[:, 0]])
        penalty = theta * np.diag([0.0] + [1.0] * d)  # the intercept is free
        gram = sum(share[i] * np.outer(design[i], design[i]) for i in range(n))
        moment = sum(share[i] * y[i] * design[i] for i in range(n))
        np.testing.assert_allclose((gram + penalty) @ solution, moment, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("n", "d"), [(20, 3), (4, 10), (10, 10), (2, 5)])
def test_no_penalty_gives_the_least_squares_solution_of_smallest_norm(n, d):
    X, y, _ = problem(n, d, seed=2)
    coefficients, intercepts = ridge_path(X, y, np.array([0.0]))
    expected = np.linalg.lstsq(X - X.mean(axis=0), y - y.mean(), rcond=None)[0]
    np.testing.assert_allclose(coefficients[:, 0], expected, rtol=1e-8, atol=1e-9)
    assert intercepts[0] == pytest.approx(y.mean() - X.mean(axis=0) @ expected, rel=1e-9)


def test_without_an_intercept_the_line_goes_through_the_origin():
    X, y, w = problem(9, 2, seed=10)
    coefficients, intercepts = ridge_path(X, y, np.array([0.0, 0.4]), w, intercept=False)
    assert intercepts.tolist() == [0.0, 0.0]
    share = w / w.sum()
    for k, theta in enumerate((0.0, 0.4)):
        gram = sum(share[i] * np.outer(X[i], X[i]) for i in range(9))
        moment = sum(share[i] * y[i] * X[i] for i in range(9))
        expected = np.linalg.solve(gram + theta * np.eye(2), moment)
        np.testing.assert_allclose(coefficients[:, k], expected, rtol=1e-9)


def test_no_penalty_with_a_repeated_column_shares_the_slope():
    X = np.arange(5.0)[:, None]
    coefficients, _ = ridge_path(np.hstack([X, X]), 2.0 * X[:, 0], np.array([0.0]))
    np.testing.assert_allclose(coefficients[:, 0], [1.0, 1.0], atol=1e-12)


def test_whole_weights_are_repeated_rows():
    X, y, _ = problem(8, 2, seed=3)
    times = np.array([1, 2, 0, 3, 1, 1, 2, 5])
    weighted = ridge_path(X, y, PENALTIES, times.astype(float))
    repeated = ridge_path(np.repeat(X, times, axis=0), np.repeat(y, times), PENALTIES)
    for got, expected in zip(weighted, repeated, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("scale", [1e-8, 3.0, 1e8])
def test_the_scale_of_the_weights_does_not_matter(scale):
    X, y, w = problem(12, 3, seed=4)
    for got, expected in zip(
        ridge_path(X, y, PENALTIES, scale * w), ridge_path(X, y, PENALTIES, w), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)


def test_duplicating_every_row_leaves_the_path_unchanged():
    X, y, w = problem(9, 2, seed=5)
    for got, expected in zip(
        ridge_path(np.vstack([X, X]), np.tile(y, 2), PENALTIES, np.tile(w, 2)),
        ridge_path(X, y, PENALTIES, w),
        strict=True,
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)


def test_shifting_the_rows_moves_only_the_intercept():
    X, y, _ = problem(15, 2, seed=6)
    coefficients, intercepts = ridge_path(X, y, PENALTIES)
    shifted, moved = ridge_path(X + 100.0, y + 7.0, PENALTIES)
    np.testing.assert_allclose(shifted, coefficients, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(
        moved, intercepts + 7.0 - 100.0 * coefficients.sum(axis=0), rtol=1e-9
    )


def test_a_huge_penalty_leaves_the_weighted_mean():
    X, y, w = problem(10, 2, seed=7)
    coefficients, intercepts = ridge_path(X, y, np.array([1e14]), w)
    np.testing.assert_allclose(coefficients, 0.0, atol=1e-12)
    assert intercepts[0] == pytest.approx(np.average(y, weights=w), rel=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6 + 0.1])
@pytest.mark.parametrize("theta", [0.0, 0.5])
@pytest.mark.parametrize("seed", [8, 9, 10])
def test_a_constant_column_beside_others_gets_no_slope(theta, value, seed):
    X, y, w = problem(12, 2, seed=seed)
    with_constant = np.column_stack([X, np.full(12, value)])
    coefficients, intercepts = ridge_path(with_constant, y, np.array([theta]), w)
    expected, expected_intercepts = ridge_path(X, y, np.array([theta]), w)
    np.testing.assert_allclose(coefficients[:2], expected, rtol=1e-7)
    assert abs(coefficients[2, 0]) < 1e-9
    np.testing.assert_allclose(intercepts, expected_intercepts, rtol=1e-7)


@pytest.mark.parametrize("value", [0.0, 2.0, 0.1, 1e6 + 0.1])
@pytest.mark.parametrize("n", [6, 10])
@pytest.mark.parametrize("weighted", [False, True])
def test_features_that_do_not_vary_get_no_slope_and_the_intercept_is_the_mean(value, n, weighted):
    y, w = np.random.default_rng(n).normal(size=(2, n))
    w = np.abs(w) if weighted else np.ones(n)
    coefficients, intercepts = ridge_path(np.full((n, 2), value), y, np.array([0.0, 0.1]), w)
    np.testing.assert_allclose(coefficients, 0.0, atol=1e-9)
    np.testing.assert_allclose(intercepts, np.average(y, weights=w), rtol=1e-9)


def test_one_row_is_predicted_by_its_own_outcome():
    coefficients, intercepts = ridge_path(
        np.array([[4.0, 2.0]]), np.array([3.0]), np.array([0.0, 1.0])
    )
    assert coefficients.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert intercepts.tolist() == [3.0, 3.0]


def test_a_row_of_weight_zero_is_not_seen():
    X, y, w = problem(10, 2, seed=9)
    w[3] = 0.0
    y_other = y.copy()
    y_other[3] = 1e6
    for got, expected in zip(
        ridge_path(X, y_other, PENALTIES, w), ridge_path(X, y, PENALTIES, w), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)


def test_a_negative_penalty_is_refused():
    X, y, _ = problem(5, 1)
    with pytest.raises(ParameterError, match=r"'penalty' .* at least 0\. Got -0\.5 instead"):
        ridge_path(X, y, np.array([1.0, -0.5]))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_triangles_of_parts_give_the_path_of_the_whole(intercept, weighted):
    X, y, w = problem(40, 3)
    w = w if weighted else np.ones(40)
    rows = np.sqrt(w)[:, None] * np.column_stack([np.ones(40), X, y])
    R = merge_triangles(triangle(rows[:5]), triangle(rows[5:5]), triangle(rows[5:]))
    found = triangle_path(R, PENALTIES, w.sum(), 40, intercept=intercept)
    expected = ridge_path(X, y, PENALTIES, w, intercept=intercept)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-10)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-10, atol=1e-12)


def test_rounding_in_a_constant_column_becomes_no_slope():
    X, y, _ = problem(50, 2)
    X = np.column_stack([1e-6 * X, np.full(50, 1e4 / 3.0)])
    R = triangle(np.column_stack([np.ones(50), X, y]))
    slopes, _ = triangle_path(R, np.array([0.0]), 50.0, 50)
    assert slopes[2, 0] == 0.0
    np.testing.assert_allclose(slopes, ridge_path(X, y, np.array([0.0]))[0], rtol=1e-6)


def test_a_triangle_knows_no_negative_penalty():
    with pytest.raises(ParameterError, match=r"'penalty' .* at least 0"):
        triangle_path(np.eye(3), np.array([-1.0]), 1.0, 3)


def test_the_triangle_of_products_is_that_of_the_rows():
    rng = np.random.default_rng(3)
    rows = np.column_stack([np.ones(60), rng.normal(size=(60, 4)) * [1e-6, 1.0, 30.0, 1e5]])
    rows = np.column_stack([rows, rows @ rng.normal(size=5)])  # an outcome without noise
    R, expected = product_triangle(rows.T @ rows), triangle(rows)
    signs = np.sign(np.diag(expected))
    np.testing.assert_allclose(R[:-1], (signs[:, None] * expected)[:-1], rtol=1e-9, atol=1e-9)
    assert abs(R[-1, -1]) <= 1e-6 * np.linalg.norm(rows[:, -1])


@pytest.mark.parametrize("share", [0.0, 1e-3])
def test_products_of_nearly_collinear_columns_give_no_triangle(share):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 3))
    X[:, 2] = X[:, 0] + share * X[:, 2]
    rows = np.column_stack([np.ones(60), X, rng.normal(size=60)])
    assert product_triangle(rows.T @ rows) is None
    rows[:, 2] = 0.0
    assert product_triangle(rows.T @ rows) is None
