"""The paper derives r ≤ C from common support. Its own simulated cases, in closed form.

Both sides are normal with independent, equal coordinates, so that r is a product over coordinates
and E[r²] under the source is E[r] under the target. The rows that n rows of a source are worth when
they are weighted by the true ratio are about n / E[r²]. Every closed form is checked by numerical
integration.

Tables: ``assumption`` (a line a source), ``claims_assumption``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

import numpy as np
from lib.claims import Claim, write_claims
from lib.common import options, write_provenance, write_table
from scipy.integrate import trapezoid


@dataclass(frozen=True)
class Settings:
    """What the study fixes: the paper's cases."""

    features: int = 10
    distances: tuple[float, ...] = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0)
    case1_rows: tuple[int, int] = (100, 90)  # its largest
    case2_rows: tuple[int, int] = (50, 40)


FULL = Settings()
QUICK = Settings(distances=(1.0, 5.0))


def log_sup(mean: float, variance: float) -> float:
    """Log sup r of one coordinate, N(0, 1) over N(mean, variance); infinite where it grows."""
    if variance < 1.0 or (variance == 1.0 and mean):
        return np.inf
    if variance == 1.0:
        return 0.0
    return 0.5 * np.log(variance) + 0.5 * mean**2 / (variance - 1.0)


def log_second_moment(mean: float, variance: float) -> float:
    """Log E[r²] of one coordinate under N(mean, variance); infinite unless its variance is > ½.

    r φ = √v φ(x)² / φ((x − m)/√v) is a normal density times a constant where its precision
    2 − 1/v is positive.
    """
    precision = 2.0 - 1.0 / variance
    if precision <= 0.0:
        return np.inf
    return 0.5 * np.log(variance / precision) + 0.5 * mean**2 * (
        1.0 / variance + 1.0 / (variance**2 * precision)
    )


def integrated(mean: float, variance: float) -> float:
    """Log E[r²] of one coordinate by numerical integration; infinite where it keeps growing."""
    x = np.linspace(-60.0, 60.0, 1_200_001)
    # log of φ(x)² / p(x), p the source's density
    values = -(x**2) + 0.5 * (x - mean) ** 2 / variance + 0.5 * np.log(variance / (2.0 * np.pi))
    if values[0] >= values[len(x) // 4]:
        return np.inf
    top = values.max()
    return float(np.log(trapezoid(np.exp(values - top), x)) + top)


def cases(settings: Settings) -> list[tuple[str, float, float, int]]:
    """(name, mean, variance, rows) of every source."""
    near, far = settings.case1_rows
    found = [("Case 1, near", 1.0, 3.0, near), ("Case 1, far", 5.0, 0.5, far)]
    for c in settings.distances:
        for away, rows in zip((c, c + 1.0), settings.case2_rows, strict=True):
            found.append((f"Case 2, c = {c:g}, N({away:g}, 1)", away, 1.0, rows))
    return found


def line(name: str, mean: float, variance: float, rows: int, features: int) -> dict[str, Any]:
    """log₁₀ of sup r and E[r²], and what the rows are worth."""
    moment = features * log_second_moment(mean, variance) / np.log(10.0)
    return {
        "source": name,
        "rows": rows,
        "log10_sup": features * log_sup(mean, variance) / np.log(10.0),
        "log10_second_moment": moment,
        "log10_integrated": features * integrated(mean, variance) / np.log(10.0),
        "effective_rows": rows * 10.0**-moment,
    }


def claims(lines: Sequence[dict[str, Any]]) -> list[Claim]:
    """What is said of the assumption."""
    bounded = [x for x in lines if np.isfinite(x["log10_sup"])]
    infinite = [x for x in lines if np.isinf(x["log10_second_moment"])]
    finite = [x for x in lines if np.isfinite(x["log10_second_moment"])]
    largest = max(x["log10_second_moment"] for x in finite)
    most = max(x["effective_rows"] for x in lines)
    sentence = (
        f"r is bounded for {len(bounded)} of {len(lines)} sources; E[r²] is infinite for "
        f"{len(infinite)} ({', '.join(x['source'] for x in infinite)}) and reaches "
        f"1e{largest:.0f} elsewhere; no source is worth more than {most:.1g} rows."
    )
    verdict = "broken by the paper's own cases"
    return [Claim("Section 2", "r ≤ C", verdict, sentence, "assumption")]


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else FULL
    lines = [line(*case, settings.features) for case in cases(settings)]
    write_table(given.out, "assumption", lines)
    write_claims(given.out, __file__, claims(lines))
    write_provenance(given.out, __file__, settings, quick=given.quick)


if __name__ == "__main__":
    main()
