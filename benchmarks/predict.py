"""``fedcsa predict`` from Parquet to Parquet, beside Polars: CPU, time and memory.

The table has an id, features that are numbers, and an outcome that nobody asks for; its result is
that of a default study. Polars reads the id and the features, multiplies them with one vector and
writes id and product; that is judged. ``streamed`` is Polars by expressions in its streaming
engine, which never holds the table either. Every run is a new process, imports included, and all
write with the same compression (zstd). The page cache is warm: the table was just written.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.harness import PACKAGES, ROOT, options, write_provenance, write_table
from benchmarks.studies import outcomes, rows_of, write_study
from fedcsa import Study
from fedcsa.answer.store import save_result
from fedcsa.data.tables import writing_table

#: Rows that are made at a time.
PIECE = 1 << 17
OURS = """
import sys
from fedcsa.cli.app import app
try:
    app(["predict", sys.argv[1], sys.argv[2], "--out", sys.argv[3], "--quiet"])
except SystemExit as end:
    if end.code:
        raise
"""
POLARS = """
import sys
import numpy as np
import polars as pl
names = [f"x{k}" for k in range(int(sys.argv[1]))]
table = pl.read_parquet(sys.argv[2], columns=["id", *names])
product = table.select(names).to_numpy() @ np.ones(len(names))
table.select("id").with_columns(prediction=product).write_parquet(sys.argv[3])
"""
STREAMED = """
import sys
import polars as pl
products = [pl.col(f"x{k}") * 1.5 for k in range(int(sys.argv[1]))]
told = pl.scan_parquet(sys.argv[2]).select("id", prediction=pl.sum_horizontal(products))
told.sink_parquet(sys.argv[3])
"""
#: Ends every process: what it took, before anything is imported to tell it.
TOLD = """
import time
cpu = time.process_time()
import json
from benchmarks.harness import peak_mb
print(json.dumps({"cpu_seconds": cpu, "peak_mb": peak_mb()}))
"""


@dataclass(frozen=True)
class Settings:
    """Rows to predict, their features, how often everything runs, and the study's own rows."""

    rows: int = 10_000_000
    features: int = 10
    repeats: int = 3
    study_rows: int = 2_000


QUICK = Settings(rows=20_000, features=3, repeats=1, study_rows=200)


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments, rows={"type": int, "help": "rows to predict"})
    settings = QUICK if given.quick else Settings()
    settings = replace(
        settings,
        rows=given.rows or settings.rows,
        repeats=given.repeats or settings.repeats,
    )
    with tempfile.TemporaryDirectory() as folder:
        line = measure(Path(folder), settings)
    write_table(given.out, "predict", [line])
    packages = (*PACKAGES, "pyarrow", "polars")
    write_provenance(given.out, "predict", asdict(settings), quick=given.quick, packages=packages)


def measure(folder: Path, settings: Settings) -> dict[str, Any]:
    """The line of the table: medians, and the median of the ratios of each round."""
    rows, result = folder / "rows.parquet", folder / "result"
    write_rows(rows, settings.rows, settings.features)
    save_result(solved(folder, settings), result)
    features = str(settings.features)
    ways = {
        "": (OURS, str(result)),
        "polars_": (POLARS, features),
        "streamed_": (STREAMED, features),
    }
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for _ in range(settings.repeats):
        for name, (code, first) in ways.items():
            taken[name].append(child(code, first, str(rows), str(folder / f"{name}out.parquet")))
    line: dict[str, Any] = {"rows": settings.rows, "features": settings.features}
    line["repeats"] = settings.repeats
    ours = [told["cpu_seconds"] for told in taken[""]]
    for name, runs in taken.items():
        for key in ("seconds", "cpu_seconds", "peak_mb"):
            line[f"{name}{key}"] = statistics.median(told[key] for told in runs)
    line["cpu_ratio"] = _ratio(ours, taken["polars_"])
    line["streamed_cpu_ratio"] = _ratio(ours, taken["streamed_"])
    return line


def _ratio(ours: Sequence[float], peer: Sequence[dict[str, float]]) -> float:
    return statistics.median(a / b["cpu_seconds"] for a, b in zip(ours, peer, strict=True))


def write_rows(path: Path, n_rows: int, features: int) -> None:
    """A table with id and outcome, in pieces."""
    with writing_table(path) as writer:
        for start in range(0, n_rows, PIECE):
            X = rows_of(min(PIECE, n_rows - start), features, seed=1 + start)
            columns = {f"x{k}": np.ascontiguousarray(column) for k, column in enumerate(X.T)}
            ids = pa.array(np.arange(start, start + len(X)))
            writer.write({"id": ids, **columns, "y": outcomes(X, seed=start)})


def solved(folder: Path, settings: Settings) -> Any:
    """The answer of a default study whose tables have an id."""
    study = write_study(folder, 3, settings.study_rows, settings.features, settings.study_rows)
    text = study.read_text(encoding="utf-8")
    study.write_text(text.replace("[features]\n", '[features]\nid = "id"\n'), encoding="utf-8")
    return Study.load(study).run()


def child(code: str, *words: str) -> dict[str, float]:
    """What a new process takes to run `code`."""
    start = time.perf_counter()
    command = [sys.executable, "-c", code + TOLD, *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, **json.loads(done.stdout.splitlines()[-1])}


if __name__ == "__main__":
    main()
