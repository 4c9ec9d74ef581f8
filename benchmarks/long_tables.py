"""Commands on tables of many rows: work, and the most memory of the process.

``fedcsa table``, ``fedcsa run --stream`` and ``fedcsa predict`` on a Parquet file, or a CSV file,
that is written in pieces. The sources are Parquet files.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import options, peak_mb, write_provenance, write_table
from benchmarks.studies import outcomes, rows_of

ROW_GROUP = 1 << 17
STUDY = """
name = "long"
[outcome]
name = "y"
[features]
id = "id"
{features}
[model]
name = "ridge"
[target]
table = "rows.{kind}"
[sources.north]
table = "source.parquet"
[sources.south]
table = "source.parquet"
"""


@dataclass(frozen=True)
class Settings:
    """Rows of the long table and of the sources; columns beside id and outcome."""

    rows: int = 1_000_000
    source_rows: int = 300_000
    features: int = 10
    kinds: tuple[str, ...] = ("parquet", "csv")


QUICK = Settings(rows=2_000, source_rows=500, features=3, kinds=("parquet",))


def write_rows(path: Path, rows: int, features: int) -> None:
    """A table with id and outcome, in pieces."""
    import pyarrow as pa

    from fedcsa.data.tables import writing_table

    with writing_table(path) as writer:
        for start in range(0, rows, ROW_GROUP):
            X = rows_of(min(ROW_GROUP, rows - start), features, seed=1 + start)
            columns = {f"x{k}": np.ascontiguousarray(column) for k, column in enumerate(X.T)}
            ids = pa.array(np.arange(start, start + len(X)))
            writer.write({"id": ids, **columns, "y": outcomes(X, seed=start)})


def child(words: Sequence[str]) -> dict[str, float]:
    """What one process measures of a command."""
    from click.testing import CliRunner

    from fedcsa.cli.app import app

    start, cpu = time.perf_counter(), time.process_time()
    done = CliRunner().invoke(app, list(words), catch_exceptions=False)
    if done.exit_code:
        raise SystemExit(f"{words[0]} ended with {done.exit_code}: {done.output}")
    return {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
        "peak_mb": peak_mb(),
    }


def commands(folder: Path, kind: str) -> dict[str, list[str]]:
    """What is measured, by name."""
    study, rows, result = folder / "study.toml", folder / f"rows.{kind}", folder / f"result-{kind}"
    ways = {
        "table": ["table", rows, "--study", study, "--quiet"],
        "run --stream": ["run", study, "--stream", "--out", result, "--quiet"],
        "predict": ["predict", result, rows, "--out", folder / f"p.{kind}", "--quiet"],
    }
    more = ["--keep", "all", "--interval", "0.9"]
    ways[f"predict {' '.join(more)}"] = [*ways["predict"], *more]
    return {name: [str(word) for word in words] for name, words in ways.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(
        __doc__,
        arguments,
        child={"nargs": argparse.REMAINDER, "help": argparse.SUPPRESS},
        rows={"type": int, "help": "rows of the long table"},
        sources={"type": int, "help": "rows of either source"},
    )
    if given.child:
        print(json.dumps(child(given.child)))
        return
    settings = QUICK if given.quick else Settings()
    settings = replace(
        settings,
        rows=given.rows or settings.rows,
        source_rows=given.sources or settings.source_rows,
    )
    lines: list[dict[str, Any]] = []
    for kind in settings.kinds:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_rows(folder / f"rows.{kind}", settings.rows, settings.features)
            write_rows(folder / "source.parquet", settings.source_rows, settings.features)
            features = "\n".join(f'x{k} = "number"' for k in range(settings.features))
            text = STUDY.format(features=features, kind=kind)
            (folder / "study.toml").write_text(text, encoding="utf-8")
            for way, words in commands(folder, kind).items():
                print(f"long_tables: {way}, {kind}", flush=True)
                command = [sys.executable, "-m", "benchmarks.long_tables", "--child", *words]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                told = json.loads(done.stdout.splitlines()[-1])
                lines.append({"way": way, "kind": kind, "rows": settings.rows, **told})
    write_table(given.out, "long_tables", lines)
    write_provenance(given.out, "long_tables", asdict(settings), quick=given.quick)


if __name__ == "__main__":
    main()
