"""How fast a table becomes numbers: our reader beside pyarrow, Polars and DuckDB.

Each way runs in a process of its own: seconds by the clock and of work on all cores, and the most
memory that the system saw. A table has numbers only, or numbers and texts of a few levels. The
others only read it; ours also makes the matrix of the study.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import PACKAGES, options, peak_mb, write_provenance, write_table

LEVELS = ("low", "middle", "high", "01")
ROW_GROUP = 1 << 17


@dataclass(frozen=True)
class Settings:
    """Rows and columns; of the mixed table two in five are texts."""

    rows: int = 1_000_000
    columns: int = 20


QUICK = Settings(rows=2_000, columns=5)


def names(content: str, columns: int) -> list[str]:
    """Columns of numbers begin with x, of texts with s."""
    texts = 0 if content == "numbers" else 2 * columns // 5
    return [f"x{k}" for k in range(columns - texts)] + [f"s{k}" for k in range(texts)]


def write_tables(folder: Path, content: str, settings: Settings) -> None:
    """One table as CSV and Parquet, a piece at a time."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    columns = names(content, settings.columns)
    schema = pa.schema([(n, pa.float64() if n[0] == "x" else pa.string()) for n in columns])
    path = folder / content
    with (
        pa_csv.CSVWriter(f"{path}.csv", schema) as text,
        pq.ParquetWriter(f"{path}.parquet", schema) as parquet,
    ):
        for start in range(0, settings.rows, ROW_GROUP):
            n = min(ROW_GROUP, settings.rows - start)
            cells = [
                np.round(rng.normal(60.0, 10.0, n), 6)
                if name[0] == "x"
                else np.array(LEVELS)[rng.integers(0, len(LEVELS), n)]
                for name in columns
            ]
            table = pa.table([pa.array(cell) for cell in cells], schema=schema)
            text.write_table(table)
            parquet.write_table(table)


def ours(path: Path, columns: Sequence[str]) -> Callable[[], object]:
    """Read and encoded, held in memory."""
    from fedcsa.data.coding import Columns
    from fedcsa.data.streams import read_rows
    from fedcsa.data.tables import open_table

    coding = Columns({name: "number" if name[0] == "x" else list(LEVELS) for name in columns})
    return lambda: read_rows(open_table(path), coding, "the table", with_outcome=False)


def in_batches(path: Path, columns: Sequence[str]) -> Callable[[], object]:
    """Read and encoded, never held."""
    from fedcsa.data.coding import Columns
    from fedcsa.data.streams import TableStream

    coding = Columns({name: "number" if name[0] == "x" else list(LEVELS) for name in columns})
    stream = TableStream(path, coding, where="the table", with_outcome=False)
    return lambda: sum(len(X) for X, _ in stream)


def with_pyarrow(path: Path, columns: Sequence[str]) -> Callable[[], object]:
    """All threads, numbers parsed at once."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq

    if path.suffix == ".parquet":
        return lambda: pq.read_table(path)
    types = {name: pa.float64() if name[0] == "x" else pa.string() for name in columns}
    convert = pa_csv.ConvertOptions(column_types=types)
    parse = pa_csv.ParseOptions(newlines_in_values=True)
    return lambda: pa_csv.read_csv(path, convert_options=convert, parse_options=parse)


def with_polars(path: Path, columns: Sequence[str]) -> Callable[[], object]:
    import polars as pl

    if path.suffix == ".parquet":
        return lambda: pl.read_parquet(path)
    types = {name: pl.Float64 if name[0] == "x" else pl.String for name in columns}
    return lambda: pl.read_csv(path, schema_overrides=types)


def with_duckdb(path: Path, columns: Sequence[str]) -> Callable[[], object]:
    import duckdb

    types = {name: "DOUBLE" if name[0] == "x" else "VARCHAR" for name in columns}
    if path.suffix == ".parquet":
        return lambda: duckdb.read_parquet(str(path)).to_arrow_table()
    return lambda: duckdb.read_csv(str(path), dtype=types).to_arrow_table()


WAYS: dict[str, Callable[[Path, Sequence[str]], Callable[[], object]]] = {
    "fedcsa": ours,
    "fedcsa in batches": in_batches,
    "pyarrow": with_pyarrow,
    "polars": with_polars,
    "duckdb": with_duckdb,
}


def child(way: str, path: Path, columns: int) -> dict[str, float]:
    """What one process measures."""
    for module in ("pyarrow.compute", "pyarrow.csv", "pyarrow.parquet", "pandas"):
        importlib.import_module(module)
    read = WAYS[way](path, names(path.stem, columns))
    before = peak_mb()
    start, cpu = time.perf_counter(), time.process_time()
    read()
    return {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
        "peak_mb": peak_mb(),
        "peak_mb_before": before,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments, child={"nargs": 3, "help": argparse.SUPPRESS})
    if given.child:
        way, path, columns = given.child
        print(json.dumps(child(way, Path(path), int(columns))))
        return
    settings = QUICK if given.quick else Settings()
    ways = [way for way in WAYS if way not in ("polars", "duckdb") or importlib.util.find_spec(way)]
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for content in ("numbers", "mixed"):
            write_tables(Path(folder), content, settings)
            for kind in ("csv", "parquet"):
                path = Path(folder) / f"{content}.{kind}"
                lines += [_measured(way, path, settings) for way in ways]
                path.unlink()
    write_table(given.out, "reading", lines)
    write_provenance(
        given.out, "reading", asdict(settings), quick=given.quick, packages=(*PACKAGES, "pyarrow")
    )


def _measured(way: str, path: Path, settings: Settings) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.reading", "--child", way, str(path)]
    command.append(str(settings.columns))
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    told = json.loads(done.stdout.splitlines()[-1])
    return {
        "way": way,
        "content": path.stem,
        "kind": path.suffix[1:],
        "rows": settings.rows,
        **told,
    }


if __name__ == "__main__":
    main()
