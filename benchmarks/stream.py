"""A source that reads its table in batches: time against rows, and the memory it needs.

Each size runs in a process of its own, whose peak memory is told by the system. The table is a
Parquet file, written in pieces. The in-memory source of the same rows stands beside it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import exponent, options, write_provenance, write_table
from benchmarks.studies import outcomes, rows_of, target
from fedcsa import Policy, Source, Study
from fedcsa.messages.messages import RiskReport

ROW_GROUP = 1 << 17


@dataclass(frozen=True)
class Settings:
    """Sizes; `in_memory` is the number of rows at which both kinds of source are compared."""

    rows: tuple[int, ...] = (100_000, 1_000_000, 10_000_000)
    in_memory: int = 1_000_000
    features: int = 20
    penalties: int = 101


QUICK = Settings(rows=(1_000, 2_000), in_memory=2_000, penalties=5)


def available() -> bool:
    needed = hasattr(Study, "stream_source") and hasattr(Source, "streaming")
    return needed and importlib.util.find_spec("pyarrow") is not None


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


def child(kind: str, path: Path, penalties: int, features: int) -> dict[str, Any]:
    """What one process measures: the answer's time, and the most memory it ever held."""
    study = Study.load(path)
    brief = target(features, penalties).brief(["north"])
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if kind == "stream":
        site = Source.streaming("north", study.stream_source("north"), policy=Policy.open())
    else:
        X, y = study.read_source("north")
        site = Source("north", X, y, policy=Policy.open())
    start, cpu = time.perf_counter(), time.process_time()
    report = site.answer(brief)
    taken, cpu = time.perf_counter() - start, time.process_time() - cpu
    if not isinstance(report, RiskReport):
        raise SystemExit("The source must answer the brief; it refused.")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    scale = 1.0 if sys.platform == "darwin" else 1024.0  # bytes there, kilobytes elsewhere
    return {
        "seconds": taken,
        "cpu_seconds": cpu,
        "peak_mb": peak * scale / 1e6,
        "peak_mb_before": base * scale / 1e6,
    }


def measured(kind: str, path: Path, settings: Settings) -> dict[str, Any]:
    numbers = [str(settings.penalties), str(settings.features)]
    command = [sys.executable, "-m", "benchmarks.stream", "--child", kind, str(path), *numbers]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(
        __doc__,
        arguments,
        child={"nargs": 4, "help": argparse.SUPPRESS},
        rows={"type": int, "nargs": "+", "help": "numbers of rows"},
    )
    if given.child:
        kind, path, penalties, features = given.child
        print(json.dumps(child(kind, Path(path), int(penalties), int(features))))
        return
    if not available():
        print("stream: not available; sources that read in batches are not part of this version.")
        return
    settings = QUICK if given.quick else Settings()
    if given.rows:
        settings = replace(settings, rows=tuple(given.rows))
    lines: list[dict[str, Any]] = []
    for rows in settings.rows:
        with tempfile.TemporaryDirectory() as folder:
            path = write_study(Path(folder), rows, settings.features)
            kinds = ["stream", "memory"] if rows == settings.in_memory else ["stream"]
            for kind in kinds:
                line = {"kind": kind, "rows": rows, **measured(kind, path, settings)}
                line["microseconds_per_row"] = 1e6 * line["seconds"] / rows
                lines.append(line)
    streamed = [line for line in lines if line["kind"] == "stream"]
    held = [line for line in lines if line["kind"] == "memory"]
    sizes, times = [x["rows"] for x in streamed], [x["seconds"] for x in streamed]
    for line in lines:
        line["times_memory_per_row"] = (
            line["microseconds_per_row"] / held[0]["microseconds_per_row"] if held else None
        )
        line["exponent"] = exponent(sizes, times) if len(streamed) > 1 else None
    write_table(given.out, "stream", lines)
    write_provenance(given.out, "stream", asdict(settings), quick=given.quick)


if __name__ == "__main__":
    main()
