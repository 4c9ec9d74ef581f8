"""Rows in batches, and what one pass over them finds out."""

import statistics
from fractions import Fraction

import numpy as np
import pytest

from fedcsa.core import batches
from fedcsa.core.batches import BATCH_ROWS, BandedBatches, HeldBatches, summarise


@pytest.mark.parametrize("size", [1, 3, 10, 11, 100])
def test_batches_are_all_rows_in_order(monkeypatch, size):
    monkeypatch.setattr(batches, "BATCH_ROWS", size)
    X, y = np.arange(22.0).reshape(11, 2), np.arange(11.0)
    held = HeldBatches(("a", "b"), X, y)
    for _ in range(2):  # again and again
        parts = list(held)
        assert all(len(part) == size for _, part in parts[:-1])
        np.testing.assert_array_equal(np.vstack([x for x, _ in parts]), X)
        np.testing.assert_array_equal(np.concatenate([part for _, part in parts]), y)


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_a_summary_is_that_of_the_whole_table(monkeypatch, offset):
    monkeypatch.setattr(batches, "BATCH_ROWS", 7)
    rng = np.random.default_rng(0)
    X = rng.normal(offset, [1.0, 100.0, 1e-3], size=(60, 3))
    X[:, 1] = 5.0
    found = summarise(HeldBatches(("a", "b", "c"), X, rng.normal(size=60)))
    assert found.n_rows == 60
    assert found.outcome_varies
    assert found.sd[1] == 0.0
    for column, sd in zip(X.T, found.sd, strict=True):
        exact = statistics.pstdev([Fraction(value) for value in column])
        assert sd == pytest.approx(float(exact), rel=1e-12, abs=0.0)


def test_an_outcome_that_varies_only_between_batches_varies(monkeypatch):
    monkeypatch.setattr(batches, "BATCH_ROWS", 5)
    X = np.zeros((10, 1))
    assert summarise(HeldBatches(("a",), X, np.repeat([0.0, 1.0], 5))).outcome_varies
    assert not summarise(HeldBatches(("a",), X, np.ones(10))).outcome_varies


@pytest.mark.parametrize("band", [1, 10, 1000])
@pytest.mark.parametrize(
    "n", [0, 7, 10, BATCH_ROWS, BATCH_ROWS + 3, 2 * BATCH_ROWS + 9, 3 * BATCH_ROWS + 1]
)
def test_rows_in_bands_are_the_first_ones_in_whole_batches(n, band):
    X, y = np.arange(2.0 * n).reshape(n, 2), np.arange(float(n))
    kept = n if n < band else band * (n // band)
    found = list(BandedBatches(HeldBatches(("a", "b"), X, y), band))
    expected = list(HeldBatches(("a", "b"), X[:kept], y[:kept]))
    assert [len(batch[1]) for batch in found] == [len(batch[1]) for batch in expected]
    for (X_found, y_found), (X_kept, y_kept) in zip(found, expected, strict=True):
        assert (X_found == X_kept).all()
        assert (y_found == y_kept).all()
