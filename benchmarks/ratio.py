"""How far the density ratio is from the floor of its arithmetic, as ratios in one run.

The floor: the nine kernel matrices and their Gram matrices with numpy alone. Everything else that
a fit does (eigendecompositions, leave-one-out scores of 81 pairs, solving) comes on top.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Callable

import numpy as np
import scipy

from fedcsa import ULSIF, EmbeddingRatio, MeanEmbedding, __version__


def floor(source: np.ndarray, target: np.ndarray, centres: np.ndarray) -> None:
    def squared(X: np.ndarray) -> np.ndarray:
        return (X**2).sum(1)[:, None] + (centres**2).sum(1) - 2.0 * X @ centres.T

    to_source, to_target = squared(source), squared(target)
    for sigma in 2.0 ** np.arange(-2.0, 2.25, 0.5):
        phi = np.exp(to_source / (-2.0 * sigma**2))
        psi = np.exp(to_target / (-2.0 * sigma**2))
        _ = phi.T @ phi, psi.mean(0)


def seconds(function: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1,000 rows, one repeat")
    quick = parser.parse_args().quick
    n, repeats = (1_000, 1) if quick else (10_000, 5)
    rng = np.random.default_rng(0)
    source, target = rng.normal(0.0, 1.0, (n, 10)), rng.normal(0.3, 1.0, (n, 10))
    embedding = MeanEmbedding.of(target)
    base = seconds(lambda: floor(source, target, target[:100]), repeats)
    rows = {
        "floor: nine kernel and Gram matrices": base,
        "ULSIF, 9 × 9, exact leave-one-out": seconds(
            lambda: ULSIF(random_state=0).fit(source, target), repeats
        ),
        "EmbeddingRatio, 10 λ, 5 folds": seconds(
            lambda: EmbeddingRatio(random_state=0).fit(source, embedding), repeats
        ),
    }
    print(f"fedcsa {__version__}, numpy {np.__version__}, scipy {scipy.__version__}, ", end="")
    print(f"Python {platform.python_version()}; n_S = n_T = {n}, d = 10, median of {repeats}")
    for name, value in rows.items():
        print(f"{name:40} {value:8.3f} s {value / base:8.1f} × floor")


if __name__ == "__main__":
    main()
