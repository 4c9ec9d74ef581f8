"""Rows in batches: all of them in order, on threads that end, and what one pass finds out."""

import functools
import statistics
import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from fedcsa.core import batches
from fedcsa.core.batches import (
    BATCH_ROWS,
    BandedBatches,
    HeldBatches,
    available_cores,
    in_order,
    known_moments,
    one_blas_thread,
    over_blocks,
)


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


# --- threads ------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2, 5, None])
@pytest.mark.parametrize("n", [0, 1, 2, 50])
def test_results_come_in_the_order_of_the_items(workers, n):
    def slow_first(x):
        time.sleep(0.002 if x % 3 == 0 else 0.0)
        return x * x

    assert list(in_order(slow_first, range(n), workers)) == [x * x for x in range(n)]


@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize("sizes", [[1], [4], [4, 4, 1], [4] * 9])
def test_a_pass_merges_block_by_block_and_then_the_batches(monkeypatch, cores, sizes):
    monkeypatch.setattr(batches, "available_cores", lambda: cores)
    parts = [[f"{k}{i}" for i in range(size)] for k, size in enumerate(sizes)]
    found = over_blocks((iter(part) for part in parts), str, lambda a, b: f"({a}{b})")
    of_batches = [functools.reduce(lambda a, b: f"({a}{b})", part) for part in parts]
    assert found == functools.reduce(lambda a, b: f"({a}{b})", of_batches)


def test_a_single_batch_needs_no_threads():
    names = over_blocks([[1, 2]], lambda _: {threading.current_thread().name}, set.union)
    assert names == {threading.current_thread().name}


def test_few_items_are_taken_ahead():
    taken = []

    def items():
        for x in range(100):
            taken.append(x)
            yield x

    results = in_order(lambda x: x, items(), workers=2)
    next(results)
    assert len(taken) <= 4
    results.close()
    assert len(taken) <= 4


def test_an_error_reaches_the_caller_and_ends_the_threads():
    def broken(x):
        if x == 7:
            raise ValueError("seven")
        return x

    before = threading.active_count()
    with pytest.raises(ValueError, match="seven"):
        list(in_order(broken, range(1000), workers=2))
    assert threading.active_count() == before


def test_blas_is_held_to_one_thread_and_let_go_again():
    def threads():
        return [item["num_threads"] for item in threadpool_info() if item["user_api"] == "blas"]

    before = threads()
    with one_blas_thread():
        assert set(threads()) == {1}
    assert threads() == before


def test_the_last_thread_to_leave_gives_blas_its_threads_back():
    def threads():
        return [item["num_threads"] for item in threadpool_info() if item["user_api"] == "blas"]

    before = threads()
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(threads()) == {1}
    second.__exit__(None, None, None)
    assert threads() == before


def test_there_is_at_least_one_core():
    assert available_cores() >= 1


@pytest.mark.parametrize("size", [1, 4, 100])
def test_moments_of_known_cells_leave_the_others_out(monkeypatch, size):
    monkeypatch.setattr(batches, "BATCH_ROWS", size)
    rng = np.random.default_rng(4)
    missing = rng.uniform(size=(40, 2)) < [0.3, 1.1]  # of the second column nothing is known
    X = np.where(missing, 1e6, rng.normal(3.0, 2.0, size=(40, 2)))
    rows = HeldBatches(("a", "b", "c", "d"), np.hstack([X, missing]), np.zeros(40))
    mean, sd = known_moments(rows, [(0, 2), (1, 3)])
    known = [float(x) for x in X[~missing[:, 0], 0]]
    assert mean == pytest.approx([statistics.fmean(known), 0.0], rel=1e-12)
    assert sd == pytest.approx([statistics.pstdev(known), 0.0], rel=1e-9)


def test_whoever_interrupts_does_not_wait_for_what_is_on_its_way():
    begun, go_on = threading.Event(), threading.Event()

    def work(item):
        if item == 0:
            begun.wait(600)
            raise KeyboardInterrupt  # as the main thread gets it while it waits for a result
        begun.set()
        assert go_on.wait(600)

    with pytest.raises(KeyboardInterrupt):
        list(in_order(work, range(2), workers=2))
    go_on.set()  # reached although the second item is still at work
