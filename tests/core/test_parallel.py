"""Batches on threads: in order, bounded, errors come through, nothing is left behind."""

import threading
import time

import pytest
from threadpoolctl import threadpool_info

from fedcsa.core.parallel import available_cores, in_order, one_blas_thread


@pytest.mark.parametrize("workers", [1, 2, 5, None])
@pytest.mark.parametrize("n", [0, 1, 2, 50])
def test_results_come_in_the_order_of_the_items(workers, n):
    def slow_first(x):
        time.sleep(0.002 if x % 3 == 0 else 0.0)
        return x * x

    assert list(in_order(slow_first, range(n), workers)) == [x * x for x in range(n)]


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
