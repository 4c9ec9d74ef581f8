"""A data dictionary, one line per column, as columns of a study: for a lead who sees no table."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedcsa.data.coding import Columns
from fedcsa.data.columns import KINDS, Feature, Outcome
from fedcsa.errors import ParameterError, StudyError, raise_all, unknown
from fedcsa.study.new_study import StudyDraft
from fedcsa.study.toml import read_text

#: The kind of the line that describes the outcome.
OUTCOME = "outcome"
#: Headings that are read; any other is an error, so that a misspelt one is not overlooked.
HEADINGS = (
    "name", "kind", "levels", "other", "since", "at", "missing", "fill", "sd", "unit",
    "description",
)  # fmt: skip
_FLAGS = {"": False, "true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def draft_from_dictionary(
    path: Path, sources: Sequence[str], target: str, outcome: str | None = None
) -> StudyDraft:
    """The study that a data dictionary and the names of the sites propose.

    Parameters
    ----------
    path : Path
        A CSV file: ``name`` and ``kind``, and as needed the other `HEADINGS`. Levels are
        separated by ``|``. One line has the kind ``outcome``, unless `outcome` names it.
    sources : sequence of str
        Names of the sites with outcomes.
    target : str
        Name of the site without.
    outcome : str, optional
        Name of the outcome.

    Raises
    ------
    StudyError
        With one line for everything that is wrong, and the line of the file where it is.
    """
    if not sources:
        raise StudyError("Name the sites with outcomes: --source NAME, or --federation FILE.")
    columns = read_dictionary(path, outcome)
    tables = {name: {"table": f"{name}.csv"} for name in sources}
    origin = f"the data dictionary {path.name}"
    told = "as the dictionary says"
    place = {"table": f"{target}.csv"}
    return StudyDraft(columns, told, place, tables, (), origin, seen=False)


def read_dictionary(path: Path, outcome: str | None = None) -> Columns:
    """The columns and the outcome that a data dictionary describes.

    Parameters
    ----------
    path : Path
    outcome : str, optional
        Name of the outcome; else the line whose kind is ``outcome``.
    """
    problems: list[str] = []
    features: list[Feature] = []
    outcomes: list[Outcome] = []
    for line, row in _rows(path, problems):
        try:
            if row["kind"] == OUTCOME or row["name"] == outcome:
                outcomes.append(Outcome(row["name"], _levels(row.get("levels", ""))))
            else:
                features.append(_feature(row))
        except ParameterError as error:
            problems.append(f"{path.name}, line {line}: {error}")
    if outcome is not None and not any(o.name == outcome for o in outcomes):
        problems.append(f"{path.name}: {unknown('column', outcome, [f.name for f in features])}")
    elif len(outcomes) != 1 and not problems:
        problems.append(
            f"{path.name}: One line must have the kind 'outcome'; {len(outcomes)} have. "
            "Or name the outcome with --outcome NAME."
        )
    raise_all(problems, StudyError)
    try:
        return Columns(features, outcomes[0])
    except ParameterError as error:
        raise StudyError(f"{path.name}: {error}") from None


def _rows(path: Path, problems: list[str]) -> list[tuple[int, dict[str, str]]]:
    """Every line that is not empty, with its number, by heading."""
    text = read_text(path, "data dictionary", f"Its headings are: {', '.join(HEADINGS)}.")
    if "\0" in text:
        raise StudyError(f"{path.name} is not a CSV file. Save it as CSV in UTF-8.")
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    reader = csv.reader(io.StringIO(text), delimiter=delimiter)
    try:
        headings = [cell.strip().lower() for cell in next(reader, [])]
        wrong = [unknown("heading", name, HEADINGS) for name in headings if name not in HEADINGS]
        absent = [name for name in HEADINGS[:2] if name not in headings]
        wrong += [f"It must have the heading {name!r}." for name in absent]
        wrong += ["A heading appears twice."] if len(set(headings)) < len(headings) else []
        raise_all([f"{path.name}, line 1: {text}" for text in wrong], StudyError)
        found = []
        for cells in reader:
            cells = [cell.strip() for cell in cells]
            if not any(cells):
                continue
            if len(cells) > len(headings):
                text = (
                    "It has more cells than headings. Put a cell with a comma in quotation marks."
                )
                problems.append(f"{path.name}, line {reader.line_num}: {text}")
                continue
            padded = cells + [""] * (len(headings) - len(cells))
            found.append((reader.line_num, dict(zip(headings, padded, strict=True))))
    except csv.Error:
        raise StudyError(
            f"{path.name}, line {reader.line_num}: This is not a line of a CSV file. "
            "Check its quotation marks."
        ) from None
    return found


def _feature(row: Mapping[str, str]) -> Feature:
    """The feature that a line describes, or a `ParameterError`."""
    kind = row["kind"].lower()
    if kind not in KINDS:
        raise ParameterError(unknown("kind", row["kind"], [*KINDS, OUTCOME]))
    options: dict[str, Any] = {"kind": kind, "levels": _levels(row.get("levels", ""))}
    options |= {key: row[key] for key in ("since", "at", "missing", "unit") if row.get(key)}
    options |= {key: _number(key, row[key]) for key in ("fill", "sd") if row.get(key)}
    other = row.get("other", "").lower()
    if other not in _FLAGS:
        raise ParameterError("The 'other' of a line must be true or false, or empty.")
    options["other"] = _FLAGS[other]
    return Feature(row["name"], **options)


def _levels(text: str) -> tuple[str, ...]:
    return tuple(level.strip() for level in text.split("|")) if text else ()


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ParameterError(f"The {key!r} of a line must be a number, with a point.") from None
