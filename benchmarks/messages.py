"""How many bytes leave a source: so many for every candidate, and none more for more rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from benchmarks.harness import blas_threads, options, write_provenance, write_table
from benchmarks.studies import outcomes, rows_of, source, target
from fedcsa.messages.codec import encode
from fedcsa.messages.messages import RiskReport


@dataclass(frozen=True)
class Settings:
    """Sizes."""

    rows: tuple[int, ...] = (200, 2_000, 20_000)
    features: int = 20
    candidates: tuple[int, ...] = (1, 10, 100, 1_000)


QUICK = Settings(rows=(200, 400), candidates=(1, 10))


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else Settings()
    lines = []
    for rows in settings.rows:
        X = rows_of(rows, settings.features, seed=1)
        y = outcomes(X, seed=2)
        for candidates in settings.candidates:
            brief = target(settings.features, candidates).brief(["north"])
            with blas_threads(1):
                report = source("north", X, y).answer(brief)
            if not isinstance(report, RiskReport):
                raise SystemExit("The source must answer the brief; it refused.")
            per_candidate = report.risk.nbytes + report.variance.nbytes
            lines.append(
                {
                    "rows": rows,
                    "candidates": candidates,
                    "bytes": len(encode(report)),
                    "bytes_per_candidate": per_candidate / candidates,
                    "other_bytes": len(encode(report)) - per_candidate,
                }
            )
    write_table(given.out, "messages", lines)
    write_provenance(given.out, "messages", asdict(settings), quick=given.quick)


if __name__ == "__main__":
    main()
