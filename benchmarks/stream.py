"""A source that reads its table in batches: work and memory, against one that reads it whole.

Each size runs in a process of its own, whose peak memory is told by the system. The table is a
Parquet file, written in pieces. Reading is included on both sides, the import of libraries on
neither. The source answers the default study: its weights, every candidate, its model, and the
examination with all measures.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import (
    blas_threads,
    options,
    peak_mb,
    timed,
    write_provenance,
    write_table,
)
from benchmarks.source import answer, brief_of
from benchmarks.studies import outcomes, rows_of
from fedcsa import Policy, Source, Study

ROW_GROUP = 1 << 17


@dataclass(frozen=True)
class Settings:
    """Sizes; at those of `in_memory` both kinds of source are compared.

    The smaller one is decoded once, for it fits into what a stream keeps; the larger one is not.
    """

    rows: tuple[int, ...] = (1_000_000, 3_000_000, 10_000_000)
    in_memory: tuple[int, ...] = (1_000_000, 3_000_000)
    features: int = 20


QUICK = Settings(rows=(1_000, 2_000), in_memory=(2_000,), features=12)


def available() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


def write_study(folder: Path, rows: int, features: int) -> Path:
    """A table of `rows` rows and the study that names it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [f"x{i}" for i in range(features)]
    schema = pa.schema([(name, pa.float64()) for name in [*names, "y"]])
    with pq.ParquetWriter(folder / "north.parquet", schema) as writer:
        for start in range(0, rows, ROW_GROUP):
            X = rows_of(min(ROW_GROUP, rows - start), features, seed=1 + start)
            columns = [*X.T, outcomes(X, seed=start)]
            arrays = [pa.array(np.ascontiguousarray(column)) for column in columns]
            writer.write_table(pa.table(arrays, schema=schema), row_group_size=ROW_GROUP)
    lines = ['name = "stream"', "[outcome]", 'name = "y"', "[features]"]
    lines += [f'{name} = "number"' for name in names]
    lines += ["[model]", 'name = "ridge"', "[target]", 'table = "north.parquet"']
    lines += ["[sources.north]", 'table = "north.parquet"']
    path = folder / "study.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def child(kind: str, path: Path, features: int) -> dict[str, Any]:
    """What one process measures: the work of reading and answering, and the most memory."""
    import pyarrow.parquet  # noqa: F401 - before the clock starts

    study, brief = Study.load(path), brief_of(features)
    before = peak_mb()

    def work() -> None:
        if kind == "stream":
            site = Source.streaming("north", study.stream_source("north"), policy=Policy.open())
        else:
            X, y = study.read_source("north")
            site = Source("north", X, y, policy=Policy.open())
        answer(site, brief)

    with blas_threads(1):
        taken = timed(work)
    return {
        "seconds": taken.wall,
        "cpu_seconds": taken.cpu,
        "peak_mb": peak_mb(),
        "peak_mb_before": before,
    }


def measured(kind: str, path: Path, settings: Settings) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.stream", "--child", kind, str(path)]
    command.append(str(settings.features))
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(
        __doc__,
        arguments,
        child={"nargs": 3, "help": argparse.SUPPRESS},
        rows={"type": int, "nargs": "+", "help": "numbers of rows"},
    )
    if given.child:
        kind, path, features = given.child
        print(json.dumps(child(kind, Path(path), int(features))))
        return
    if not available():
        print("stream: not available; Parquet needs pyarrow.")
        return
    settings = QUICK if given.quick else Settings()
    if given.rows:
        settings = replace(settings, rows=tuple(given.rows))
    lines: list[dict[str, Any]] = []
    for rows in settings.rows:
        with tempfile.TemporaryDirectory() as folder:
            path = write_study(Path(folder), rows, settings.features)
            kinds = ["memory", "stream"] if rows in settings.in_memory else ["stream"]
            found = {kind: measured(kind, path, settings) for kind in kinds}
        for kind, told in found.items():
            line = {"what": kind, "rows": rows, "features": settings.features, **told}
            line["microseconds_per_row"] = 1e6 * line["cpu_seconds"] / rows
            whole = found.get("memory")
            line["cpu_ratio"] = line["cpu_seconds"] / whole["cpu_seconds"] if whole else None
            lines.append(line)
    write_table(given.out, "stream", lines)
    write_provenance(given.out, "stream", asdict(settings), quick=given.quick)


if __name__ == "__main__":
    main()
