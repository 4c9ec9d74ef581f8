"""Real multi-site data, read from where the user keeps them: site name -> (X, y)."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Known:
    """A published file: where it is kept, what it must hold, where to get it."""

    path: str
    sha256: str
    publisher: str


class DataAbsentError(SystemExit):
    """A file is not there, or not the published one; a script ends with how to get it."""


#: Countries of the stroke trial with fewer patients are not sites of a study.
MIN_ROWS = 100
STROKE = Known(
    "stroke_trial/IST.csv.gz",
    "3514ae9fb3b578d98e524cc7e0fd0ef9a9c0dfe94b934191c1e48139241c4e9c",
    "Edinburgh DataShare, https://doi.org/10.7488/ds/104 (IST_corrected.csv, packed with gzip)",
)
PARKINSONS = Known(
    "parkinsons/parkinsons_updrs.data",
    "f2c7d5025dec4e92e7feae367a5f7ccf58789a10ac6b54bdf15976c599f9dd39",
    "UCI Machine Learning Repository, https://doi.org/10.24432/C5ZS3N",
)
HOSPITALS = {
    name: Known(
        f"heart_disease/processed.{name}.data",
        sha256,
        "UCI Machine Learning Repository, https://doi.org/10.24432/C52P4X",
    )
    for name, sha256 in {
        "cleveland": "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8",
        "hungarian": "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796",
        "switzerland": "834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314",
        "va": "e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f",
    }.items()
}


def data_folder() -> Path:
    """Where the data are kept: FEDCSA_DATA, or the folder beside the project."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    return Path(os.environ.get("FEDCSA_DATA") or beside)


@dataclass(frozen=True)
class Sites:
    """Rows and outcomes by site, and an agreed scale of every column."""

    columns: tuple[str, ...]
    public_sd: tuple[float, ...] | None
    rows: dict[str, tuple[Array, Array]]


def stroke_trial(folder: Path) -> Sites:
    """International Stroke Trial by country; dead or dependent at six months."""
    table = _records(gzip.decompress(_read(folder, STROKE)).decode("latin-1"))
    known = [row for row in table if row["OCCODE"] in ("1", "2", "3", "4")]
    numbers = {"AGE": 12.0, "RSBP": 28.0, "RDELAY": 12.0}  # with an agreed scale
    levels = {
        "SEX": ("F",),
        "RSLEEP": ("Y",),
        "RCT": ("Y",),
        "RVISINF": ("Y",),
        "RCONSC": ("D", "U"),
        "RATRIAL": ("Y", ""),  # not asked in the pilot phase
        **{f"RDEF{index}": ("Y", "C") for index in range(1, 9)},
        "STYPE": ("TACS", "PACS", "POCS", "OTH"),
    }
    X = np.column_stack(
        [[float(row[name]) for row in known] for name in numbers]
        + [[row[name] == level for row in known] for name, ls in levels.items() for level in ls]
    ).astype(np.float64)
    columns = (*numbers, *(f"{name}={level}" for name, ls in levels.items() for level in ls))
    y = np.array([int(row["OCCODE"]) <= 2 for row in known], dtype=np.float64)
    sd = (*numbers.values(), *[0.5] * (len(columns) - len(numbers)))
    return Sites(columns, sd, _by_site([row["COUNTRY"] for row in known], X, y, MIN_ROWS))


def heart_disease(folder: Path) -> Sites:
    """UCI Heart Disease by hospital; any disease.

    Left out: slope, ca and thal, which are mostly missing; chol and fbs, which Switzerland
    hardly measured; then rows with a missing value.
    """
    place = {"age": 0, "sex": 1, "cp": 2, "trestbps": 3, "restecg": 6, "thalach": 7, "exang": 8}
    place["oldpeak"] = 9
    numbers = {"age": 10.0, "trestbps": 18.0, "thalach": 25.0, "oldpeak": 1.0}
    levels = {"sex": (1,), "exang": (1,), "cp": (2, 3, 4), "restecg": (1, 2)}
    rows = {}
    for hospital, file in HOSPITALS.items():
        cells = [line.split(",") for line in _read(folder, file).decode("ascii").split()]
        whole = [line for line in cells if all(line[i] != "?" for i in place.values())]
        column = {name: np.array([float(line[i]) for line in whole]) for name, i in place.items()}
        X = np.column_stack(
            [column[name] for name in numbers]
            + [column[name] == level for name, ls in levels.items() for level in ls]
        ).astype(np.float64)
        rows[hospital] = X, np.array([float(line[13]) > 0.0 for line in whole], dtype=np.float64)
    columns = (*numbers, *(f"{name}={level}" for name, ls in levels.items() for level in ls))
    return Sites(columns, (*numbers.values(), *[0.5] * (len(columns) - len(numbers))), rows)


def parkinsons(folder: Path) -> Sites:
    """Parkinsons Telemonitoring by patient; total UPDRS from 16 voice measurements."""
    table = _records(_read(folder, PARKINSONS).decode("ascii"))
    columns = tuple(table[0])[6:]
    X = np.array([[float(row[name]) for name in columns] for row in table])
    y = np.array([float(row["total_UPDRS"]) for row in table])
    return Sites(columns, None, _by_site([f"{int(row['subject#']):02d}" for row in table], X, y, 1))


def _read(folder: Path, file: Known) -> bytes:
    path = folder / file.path
    if not path.is_file():
        raise DataAbsentError(
            f"{file.path} must be in the data folder; it is not. Get it from {file.publisher}, "
            "and name the folder with --data, FEDCSA_DATA, or make paper DATA=folder."
        )
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise DataAbsentError(
            f"{file.path} must be the published file; its sha256 is another. "
            f"Get it from {file.publisher}."
        )
    return content


def _records(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def _by_site(
    names: Sequence[str], X: Array, y: Array, min_rows: int
) -> dict[str, tuple[Array, Array]]:
    site = np.array(names)
    found = {name: site == name for name in sorted(set(names))}
    return {name: (X[own], y[own]) for name, own in found.items() if own.sum() >= min_rows}
