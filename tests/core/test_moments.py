"""Sums that are made batch by batch are those of all rows."""

import numpy as np
import pytest

from fedcsa.core.batches import BATCH_ROWS, HeldRows
from fedcsa.core.table import Table1, moments_of
from fedcsa.errors import DataError


def rows(n=2 * BATCH_ROWS + 100, offset=1e6):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3)) + offset
    return np.column_stack([X, rng.random(n) < 0.3])


def test_moments_of_batches_are_those_of_numpy():
    X = rows()
    found = moments_of(HeldRows(X), 4)
    assert found.n_rows == len(X)
    np.testing.assert_allclose(found.total / len(X), X.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(found.squares / len(X), np.cov(X.T, bias=True), rtol=1e-9, atol=1e-9)
    assert found.low.tolist() == X.min(axis=0).tolist()
    assert found.high.tolist() == X.max(axis=0).tolist()
    assert found.binary.tolist() == [False, False, False, True]


def test_correlations_are_mean_products_around_the_told_means_in_told_units():
    X = rows(500, 3.0)[:, :3]
    table = Table1.of(moments_of([X[:7], X[7:]], 3), list("abc"), [False] * 3)
    Z = (X - table.mean) / table.sd
    np.testing.assert_allclose(table.correlations, Z.T @ Z / len(X), rtol=0, atol=0.005 + 1e-12)


@pytest.mark.parametrize("share", [0.19, 0.21])
def test_a_variance_of_a_few_patients(share):
    X = np.ones((1000, 1)) * np.resize([1.0, -1.0], 1000)[:, None]
    X[0] = np.sqrt(share / (1 - share) * 999)
    X -= X.mean()
    table = Table1.of(moments_of([X[:300], X[300:]], 1), ["a"], [False], fewest=5)
    assert (table.correlations is None) == (share > 0.2)


def test_a_table_of_sums_is_that_of_rows():
    X = rows(3000, 50.0)[:, :3]
    names, flags = ["a", "b", "c"], [False] * 3
    assert Table1.of(moments_of([X[:1000], X[1000:]], 3), names, flags) == Table1.of(
        X, names, flags
    )


def test_no_rows_have_no_moments():
    with pytest.raises(DataError, match="must have rows"):
        moments_of([], 2)
