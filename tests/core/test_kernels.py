"""Distances and the Gaussian kernel against plain loops."""

import math

import numpy as np
import pytest

from fedcsa.core.kernels import gaussian, squared_distances


def slow_squared_distances(X, C):
    return np.array(
        [[math.fsum((a - b) ** 2 for a, b in zip(x, c, strict=True)) for c in C] for x in X]
    )


@pytest.mark.parametrize("offset", [0.0, 1e3, -1e6, 1e6])
@pytest.mark.parametrize(("n", "k", "d"), [(7, 5, 1), (5, 7, 2), (6, 1, 10), (1, 1, 1), (1, 4, 3)])
def test_squared_distances_equal_a_loop_wherever_the_data_lie(n, k, d, offset):
    rng = np.random.default_rng(n + 10 * d)
    X, C = offset + rng.normal(size=(n, d)), offset + rng.normal(size=(k, d))
    got = squared_distances(X, C)
    assert got.shape == (n, k)
    np.testing.assert_allclose(got, slow_squared_distances(X, C), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("d", [1, 2, 10])
def test_squared_distances_are_never_negative(d):
    X = np.random.default_rng(d).normal(size=(200, d)) + 1e6
    distances = squared_distances(X, X)
    assert (distances >= 0.0).all()
    assert np.diag(distances).max() < 1e-12


def test_squared_distances_leave_their_arguments_alone():
    X, C = np.array([[1.0], [2.0]]), np.array([[4.0]])
    squared_distances(X, C)
    assert X.tolist() == [[1.0], [2.0]]
    assert C.tolist() == [[4.0]]


@pytest.mark.parametrize("bandwidth", [0.1, 1.0, 7.5])
def test_gaussian_equals_its_formula(bandwidth):
    distances = np.array([[0.0, 1.0, 2.5], [4.0, 0.01, 900.0]])
    expected = [[math.exp(-q / (2 * bandwidth**2)) for q in row] for row in distances]
    np.testing.assert_allclose(gaussian(distances, bandwidth), expected, rtol=1e-12)
