"""Tables of the validation study: by measure and family, by distance, by country."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from lib.validation_families import VALIDATED
from lib.validation_runs import stretched
from scipy.special import ndtri

#: Name of the lines over all families whose sites can be exchanged for each other.
OVERALL = "overall"
#: Level of the intervals of measures.
LEVEL = 0.95


@dataclass(frozen=True)
class Told:
    """One measure of one study: what was promised, what is true, what rows without weights say.

    Attributes
    ----------
    part : {"events", "numbers"}
    family, measure : str
    half_width : float
        In the measure's own units.
    covered : bool
    error, plain_error : float
        Distance of the promise, and of the estimate without weights, from what is true, on a scale
        without walls; NaN where there is none.
    """

    part: str
    family: str
    measure: str
    half_width: float
    covered: bool
    error: float
    plain_error: float

    @classmethod
    def of(cls, line: Mapping[str, str]) -> Told | None:
        """From a line of a table of runs; None where there was no promise."""
        if not line["measure"] or line["estimate"] in ("", "nan"):
            return None
        name = line["measure"]
        estimate, lower, upper, true = (
            float(line[key]) for key in ("estimate", "lower", "upper", "true")
        )
        at, low, high, truth = (stretched(name, x) for x in (estimate, lower, upper, true))
        own = float(ndtri(0.5 + LEVEL / 2.0)) * float(line.get("true_error") or 0.0)
        low, high = at - np.hypot(at - low, own), at + np.hypot(high - at, own)
        plain = line["unweighted"]
        return cls(
            line.get("part", "events"),
            line.get("family", "stroke trial"),
            name,
            (upper - lower) / 2.0,
            bool(low <= truth <= high),
            abs(at - truth),
            abs(stretched(name, float(plain)) - truth) if plain else float("nan"),
        )


def told_by(lines: Iterable[Mapping[str, str]]) -> list[Told]:
    """All promises in the lines of a table."""
    return [told for told in map(Told.of, lines) if told is not None]


def exchangeable(family: str) -> bool:
    """Whether the family's target differs from the sources as they differ from each other."""
    return VALIDATED[family].exchangeable


def measure_table(lines: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Coverage, half-width and error, by kind of outcome, measure and family, and overall."""
    promises, found = told_by(lines), []
    for part, measure in dict.fromkeys((each.part, each.measure) for each in promises):
        those = [each for each in promises if (each.part, each.measure) == (part, measure)]
        asked = [line for line in lines if (line["part"], line["measure"]) == (part, measure)]
        for family in (OVERALL, *VALIDATED):
            some = [x for x in those if _within(x.family, family)]
            if some:
                runs = sum(_within(line["family"], family) for line in asked)
                head = {"part": part, "measure": measure, "family": family, "promises": runs}
                found.append({**head, **summary(some)})
    return found


def _within(family: str, name: str) -> bool:
    return exchangeable(family) if name == OVERALL else family == name


def summary(promises: Sequence[Told]) -> dict[str, Any]:
    """Coverage, half-width, and the mean error over that of the estimate without weights."""
    error, plain = (
        np.array([getattr(x, key) for x in promises]) for key in ("error", "plain_error")
    )
    both = np.isfinite(plain) & np.isfinite(error)
    return {
        "answered": len(promises),
        "coverage": float(np.mean([each.covered for each in promises])),
        "half_width": float(np.mean([each.half_width for each in promises])),
        "error_ratio": float(error[both].mean() / plain[both].mean()) if both.any() else None,
    }


def stroke_table(lines: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """One line a measure; a country's own sampling error is allowed for."""
    promises, found = told_by(lines), []
    for measure in dict.fromkeys(each.measure for each in promises):
        runs = sum(line["measure"] == measure for line in lines)
        those = [each for each in promises if each.measure == measure]
        found.append({"measure": measure, "promises": runs, **summary(those)})
    return found


def patient_table(lines: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """How often intervals and sets hold, by kind of outcome, family and quarter of distance."""
    known, found = [line for line in lines if line["part_of_rows"]], []
    for part in dict.fromkeys(line["part"] for line in known):
        for family in (OVERALL, *VALIDATED):
            those = [x for x in known if x["part"] == part and _within(x["family"], family)]
            for rows in dict.fromkeys(line["part_of_rows"] for line in those):
                some = [line for line in those if line["part_of_rows"] == rows]
                found.append({"part": part, "family": family, **patient_summary(some)})
    return found


def patient_summary(lines: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Mean over studies of the coverage and of the width of intervals, or of the size of sets."""
    return {
        "part_of_rows": lines[0]["part_of_rows"],
        "studies": len(lines),
        "coverage": float(np.mean([float(line["covered"]) for line in lines])),
        "half_width": float(np.mean([float(line["half_width"]) for line in lines])),
    }
