"""The experiments are scripts beside the package; the tests import them from there."""

import sys
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"
sys.path.insert(0, str(EXPERIMENTS))


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread():
    with threadpool_limits(1):
        yield
