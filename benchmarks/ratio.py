"""uLSIF against the floor of its arithmetic.

The floor: the nine kernel matrices and their Gram matrices with numpy alone. Everything else that
a fit does (eigendecompositions, leave-one-out scores of 81 pairs, solving) comes on top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks.harness import (
    blas_threads,
    compared,
    interleaved,
    options,
    write_provenance,
    write_table,
)
from fedcsa import ULSIF
from fedcsa.core.ulsif import BANDWIDTH_MULTIPLES

FLOOR, CAPPED, EXACT = "floor", "ulsif", "ulsif-exact"


@dataclass(frozen=True)
class Settings:
    """Sizes; the last number of rows is the one that bars are about."""

    rows: tuple[int, ...] = (1_000, 3_000, 10_000)
    features: int = 10
    centres: int = 100
    repeats: int = 9


QUICK = Settings(rows=(50, 100), repeats=1)


def two_samples(rows: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(0.0, 1.0, (rows, features)), rng.normal(0.3, 1.0, (rows, features))


def floor(source: np.ndarray, target: np.ndarray, centres: np.ndarray) -> None:
    def squared(X: np.ndarray) -> np.ndarray:
        return (X**2).sum(1)[:, None] + (centres**2).sum(1) - 2.0 * X @ centres.T

    to_source, to_target = squared(source), squared(target)
    median = float(np.sqrt(np.abs(to_source[0])).mean())
    for sigma in median * BANDWIDTH_MULTIPLES:
        phi = np.exp(to_source / (-2.0 * sigma**2))
        psi = np.exp(to_target / (-2.0 * sigma**2))
        _ = phi.T @ phi, psi.mean(0)


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(
        __doc__,
        arguments,
        threads={
            "choices": ("one", "both"),
            "default": "both",
            "help": "BLAS threads: one, or one and then all (needs a machine of its own)",
        },
    )
    settings = QUICK if given.quick else Settings()
    repeats = given.repeats or settings.repeats
    lines = []
    for rows in settings.rows:
        source, target = two_samples(rows, settings.features)
        functions = {
            FLOOR: lambda s=source, t=target: floor(s, t, t[: settings.centres]),
            CAPPED: lambda s=source, t=target: ULSIF(random_state=0).fit(s, t),
            EXACT: lambda s=source, t=target: ULSIF(score_rows=None, random_state=0).fit(s, t),
        }
        for threads in (1, None) if given.threads == "both" else (1,):
            with blas_threads(threads):
                found = compared(interleaved(functions, repeats), FLOOR)
            label = "all" if threads is None else str(threads)
            lines += [
                {"rows": rows, "blas_threads": label, "what": name, **numbers}
                for name, numbers in found.items()
            ]
    write_table(given.out, "ratio", lines)
    write_provenance(given.out, "ratio", asdict(settings), quick=given.quick)


if __name__ == "__main__":
    main()
