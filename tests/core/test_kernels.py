"""Distances, Gaussian kernel and the two bases against plain loops."""

import math

import numpy as np
import pytest

from fedcsa.core.kernels import BANDWIDTH_FACTOR, Basis, gaussian, squared_distances


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


def make_basis(kind, d, n_features=12, seed=3):
    rng = np.random.default_rng(d)
    mean, sd = rng.normal(size=d), 0.5 + rng.random(d)
    return Basis(kind, mean, sd, n_features, BANDWIDTH_FACTOR[kind] * math.sqrt(d), seed)


def slow_basis(basis, X):
    d, D, s = len(basis.mean), basis.n_features, basis.bandwidth
    rng = np.random.default_rng(basis.seed)
    rows = []
    if basis.kind == "bumps":
        centres = rng.standard_normal((D, d))
        for x in X:
            z = [(x[k] - basis.mean[k]) / basis.sd[k] for k in range(d)]
            rows.append(
                [
                    math.exp(-sum((z[k] - c[k]) ** 2 for k in range(d)) / (2 * s * s))
                    / math.sqrt(D)
                    for c in centres
                ]
            )
    else:
        frequencies = rng.standard_normal((d, D // 2)) / s
        for x in X:
            z = [(x[k] - basis.mean[k]) / basis.sd[k] for k in range(d)]
            angles = [sum(z[k] * frequencies[k, j] for k in range(d)) for j in range(D // 2)]
            waves = [math.cos(a) for a in angles] + [math.sin(a) for a in angles]
            rows.append([wave / math.sqrt(D / 2) for wave in waves])
    return np.array(rows)


@pytest.mark.parametrize("kind", ["bumps", "fourier"])
@pytest.mark.parametrize("d", [1, 2, 10])
@pytest.mark.parametrize("n", [1, 9])
def test_features_equal_a_loop(kind, d, n):
    basis = make_basis(kind, d)
    X = np.random.default_rng(n).normal(1.0, 2.0, size=(n, d))
    got = basis(X)
    assert got.shape == (n, 12)
    np.testing.assert_allclose(got, slow_basis(basis, X), rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("d", [1, 3])
def test_fourier_features_have_norm_one(d):
    X = np.random.default_rng(0).normal(size=(20, d))
    np.testing.assert_allclose((make_basis("fourier", d)(X) ** 2).sum(axis=1), 1.0, rtol=1e-13)


@pytest.mark.parametrize("d", [1, 3])
def test_bumps_are_positive_and_their_norm_is_at_most_one(d):
    psi = make_basis("bumps", d)(np.random.default_rng(0).normal(size=(50, d)))
    assert (psi > 0.0).all()
    assert ((psi**2).sum(axis=1) <= 1.0).all()


@pytest.mark.parametrize("kind", ["bumps", "fourier"])
def test_the_same_seed_gives_the_same_features_and_another_seed_others(kind):
    X = np.random.default_rng(0).normal(size=(5, 2))
    assert (make_basis(kind, 2, seed=4)(X) == make_basis(kind, 2, seed=4)(X)).all()
    assert not np.allclose(make_basis(kind, 2, seed=4)(X), make_basis(kind, 2, seed=5)(X))


@pytest.mark.parametrize("kind", ["bumps", "fourier"])
def test_features_of_a_row_do_not_depend_on_the_other_rows(kind):
    basis, X = make_basis(kind, 3), np.random.default_rng(0).normal(size=(8, 3))
    together = basis(X)
    for i in range(8):
        np.testing.assert_allclose(basis(X[i : i + 1])[0], together[i], rtol=1e-13, atol=1e-16)


def test_standardise_is_in_the_targets_units():
    basis = Basis("bumps", np.array([1.0, -2.0]), np.array([2.0, 0.5]), 4, 1.0, 0)
    np.testing.assert_array_equal(
        basis.standardise(np.array([[3.0, -2.0], [1.0, -1.0]])), [[1.0, 0.0], [0.0, 2.0]]
    )


def test_default_bandwidths_are_those_of_the_guarded_rule_and_the_median_distance():
    assert BANDWIDTH_FACTOR["bumps"] == 0.7
    assert BANDWIDTH_FACTOR["fourier"] == pytest.approx(math.sqrt(2.0), abs=1e-15)
