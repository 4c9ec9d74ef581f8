"""The simulated studies that several benchmarks run, by the public roles alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedcsa import Policy, Source
from fedcsa.data.tables import writing_table

POWERS = (0.0, 0.5, 1.0)


def rows_of(n_rows: int, features: int, seed: int, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(shift, 1.0, (n_rows, features))


def outcomes(X: np.ndarray, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(0.0, 0.5, len(X))
    return np.asarray(X.mean(axis=1) + 0.2 * X[:, 0] ** 2 + noise)


def source(name: str, X: np.ndarray, y: np.ndarray) -> Source:
    return Source(name, X, y, policy=Policy.open())


def write_study(
    folder: Path, sources: int, rows: int, features: int, target_rows: int, head: str = ""
) -> Path:
    """The tables of a default study as Parquet, and the file that names them.

    `head` is what else the file says before its first section.
    """
    names = [f"x{i}" for i in range(features)]
    sites = {"new": target_rows, **{f"s{i:03d}": rows for i in range(sources)}}
    for index, (site, n_rows) in enumerate(sites.items()):
        X = rows_of(n_rows, features, seed=2 * index, shift=0.05 * (index % 5))
        columns = dict(zip(names, X.T, strict=True))
        if site != "new":
            columns["y"] = outcomes(X, seed=2 * index + 1)
        with writing_table(folder / f"{site}.parquet") as writer:
            writer.write({name: np.ascontiguousarray(c) for name, c in columns.items()})
    lines = ['name = "bench"', head, "[outcome]", 'name = "y"', "[features]"]
    lines += [f'{name} = "number"' for name in names]
    lines += ["[model]", 'name = "ridge"', "[target]", 'table = "new.parquet"']
    for site in list(sites)[1:]:
        lines += [f"[sources.{site}]", f'table = "{site}.parquet"']
    path = folder / "study.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
