"""Tables of the promise study: by set of families, family, number of sources, site and case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lib.promise_measures import (
    CARE,
    NOT,
    RIVALS,
    USE,
    Run,
    answered,
    coverage,
    family_of,
    half_width,
    pairs,
    score,
    score_difference,
    score_ratio,
)
from lib.promise_runs import CODES, read_packed
from lib.worlds import RANDOM, SHARED

#: A mean over fewer answered runs says nothing of a family.
FEWEST = 10
K_GROUPS = ((1, 1), (2, 2), (3, 3), (4, 4), (5, 6), (7, 12), (13, 99))
SIMULATED = ("regression", "classes")

Pick = Callable[[Run], bool]


def _exchangeable(run: Run) -> bool:
    item = family_of(run)
    return item.sites == RANDOM or (_shared(run) and run.n_sources >= 5)


def _shared(run: Run) -> bool:
    item = family_of(run)
    return item.sites == SHARED and not item.violates


SETS: dict[str, Pick] = {
    "all": lambda _: True,
    "sites exchangeable": _exchangeable,
    "random effects": lambda run: family_of(run).sites == RANDOM,
    "shared rule, K ≥ 5": lambda run: _shared(run) and run.n_sources >= 5,
    "shared rule": _shared,
    "heavy tails": lambda run: family_of(run).violates == "heavy tails",
    "violates nothing": lambda run: not family_of(run).violates,
    "violates something": lambda run: bool(family_of(run).violates),
    "no label shift, no drift": lambda run: family_of(run).violates not in ("label shift", "drift"),
    "label shift, drift": lambda run: family_of(run).violates in ("label shift", "drift"),
}


@dataclass(frozen=True)
class Evidence:
    """All runs of one code base."""

    studies: Sequence[Run]
    cases: Sequence[Run]
    real: Sequence[Run]

    @classmethod
    def read(cls, folder: Path, code: str, phase: str = "") -> Evidence:
        """From the packed tables.

        Parameters
        ----------
        folder : Path
        code : {"old", "new"}
        phase : str
            Ending of the name of the table of simulated studies.
        """
        runs = [Run.of(line) for line in read_packed(folder / f"promise_{code}{phase}.csv.gz")]
        real = folder / f"promise_real_{code}.csv.gz"
        return cls(
            [run for run in runs if run.part in SIMULATED],
            [run for run in runs if run.part == "cases"],
            [Run.of(line) for line in read_packed(real)] if real.is_file() else [],
        )

    def of(self, pick: Pick) -> list[Run]:
        """The studies of a set."""
        return [run for run in self.studies if pick(run)]


# Tables -----------------------------------------------------------------------------------------


def set_lines(old: Evidence, new: Evidence) -> list[dict[str, Any]]:
    """Coverage, width and score by set, kind of outcome, code base and verdict."""
    lines = []
    for name, pick in SETS.items():
        for part in ("both", *SIMULATED):
            for code, evidence in zip(CODES, (old, new), strict=True):
                runs = [run for run in evidence.of(pick) if part in ("both", run.part)]
                for verdict in ("all", *sorted({run.verdict for run in runs})):
                    those = [run for run in runs if verdict in ("all", run.verdict)]
                    lines.append(
                        {
                            "set": name,
                            "outcome": part,
                            "code": code,
                            "verdict": verdict,
                            **_summary(those),
                        }
                    )
    return lines


def _summary(runs: Sequence[Run], suffix: str = "") -> dict[str, Any]:
    told = answered(runs)
    found: dict[str, Any] = {"runs": len(runs), "answered": len(told)}
    if told:
        found |= coverage(told).columns("coverage")
        found |= {
            "too_low": sum(run.true > run.upper for run in told),  # type: ignore[operator]
            "half_width": half_width(told),
            "score": score(told),
        }
    else:
        names = ("coverage", "coverage_lower", "coverage_upper", "too_low", "half_width", "score")
        found |= dict.fromkeys(names)
    return {f"{key}{suffix}": value for key, value in found.items()}


def family_lines(old: Evidence, new: Evidence) -> list[dict[str, Any]]:
    """One line a family and kind of outcome."""
    ratios = {
        code: risk_ratios(each, old, RIVALS) for code, each in zip(CODES, (old, new), strict=True)
    }
    hindsight = risk_ratios(new, old, ("single_in_truth",))
    lines = []
    for part, name in dict.fromkeys((run.part, run.family) for run in new.studies):
        before, after = (
            [run for run in each.studies if (run.part, run.family) == (part, name)]
            for each in (old, new)
        )
        item, label = family_of(after[0]), label_of(after[0])
        both = pairs(before, after)
        verdicts = [run.verdict for run in after]
        legs = ("reach", "agreement", "skill")
        lines.append(
            {
                "family": name,
                "outcome": part,
                "violates": item.violates,
                "sites": item.sites,
                "n_sources": item.n_sources,
                **_summary(before, "_old"),
                **_summary(after, "_new"),
                "pairs": len(both),
                "score_difference": score_difference(both).value if both else None,
                **{f"risk_ratio_{code}": ratios[code].get(label) for code in CODES},
                "over_best_single_in_truth": hindsight.get(label),
                **{
                    verdict.replace(" ", "_"): verdicts.count(verdict) / len(verdicts)
                    for verdict in (USE, CARE, NOT, "failed")
                },
                **{
                    f"{leg}_fails": share_of(after, lambda r, leg=leg: _failed(r, leg))
                    for leg in legs
                },
            }
        )
    return lines


def _failed(run: Run, leg: str) -> bool:
    return run.line.get(f"{leg}_passed") == "False"


def source_lines(old: Evidence, new: Evidence) -> list[dict[str, Any]]:
    """Interval score by number of sources where nothing is violated, on pairs."""
    both = pairs(old.of(SETS["violates nothing"]), new.of(SETS["violates nothing"]))
    lines = []
    for low, high in K_GROUPS:
        those = [pair for pair in both if low <= pair[1].n_sources <= high]
        before, after = [run for run, _ in those], [run for _, run in those]
        lines.append(
            {
                "n_sources": str(low) if low == high else f"{low}–{high}",
                "pairs": len(those),
                "score_old": score(before) if those else None,
                "score_new": score(after) if those else None,
                "ratio": score_ratio(those) if those else None,
                "half_width_old": half_width(before) if those else None,
                "half_width_new": half_width(after) if those else None,
                "coverage_old": coverage(before).value if those else None,
                "coverage_new": coverage(after).value if those else None,
            }
        )
    return lines


def site_lines(old: Evidence, new: Evidence) -> list[dict[str, Any]]:
    """Real data: distance of promised from realised loss over naive's, coverage, width, score."""
    naive = {run.key: run for run in old.real if run.number("naive_promised") is not None}
    lines = []
    for name in dict.fromkeys(run.family for run in old.real):
        line: dict[str, Any] = {"data_set": name}
        for code, each in zip(CODES, (old, new), strict=True):
            runs = [run for run in each.real if run.family == name]
            told = [run for run in runs if run.answered and run.key in naive]
            own = [_off(run, "promised", "realised") for run in told]
            plain = [_off(naive[run.key], "naive_promised", "naive_realised") for run in told]
            line[f"gap_{code}"] = np.mean(own) / np.mean(plain) if told else None
            line |= _summary(runs, f"_{code}")
            line[f"realised_{code}"] = np.mean([run.true for run in told]) if told else None
        both = pairs(*([run for run in each.real if run.family == name] for each in (old, new)))
        line["pairs"] = len(both)
        line |= score_difference(both).columns("score_difference")
        lines.append(line)
    return lines


def _off(run: Run, promised: str, realised: str) -> float:
    return abs(float(run.line[promised]) - float(run.line[realised]))


def case_lines(old: Evidence, new: Evidence) -> list[dict[str, Any]]:
    """The paper's cases: largest weight of the last source, share of refusals."""
    lines = []
    for name in dict.fromkeys(run.family for run in new.cases):
        line: dict[str, Any] = {"family": name}
        for code, each in zip(CODES, (old, new), strict=True):
            runs = [run for run in each.cases if run.family == name]
            weights = [run.number("last_weight") or 0.0 for run in runs]
            line[f"runs_{code}"] = len(runs)
            line[f"weight_{code}"] = max(weights, default=float("nan"))
            line[f"refused_{code}"] = share_of(runs, lambda run: run.line["refused"] == "True")
        lines.append(line)
    return lines


def share_of(runs: Sequence[Run], which: Pick) -> float:
    return float(np.mean([which(run) for run in runs])) if runs else float("nan")


def risk_ratios(judged: Evidence, old: Evidence, rivals: Sequence[str]) -> dict[str, float]:
    """Mean true risk over that of the best rival, of every family with enough answered runs.

    Parameters
    ----------
    judged : Evidence
        Whose default is asked.
    old : Evidence
        Beside it the rivals were run.
    rivals : sequence of str
    """
    there = {run.key: run for run in old.studies if run.number(rivals[0]) is not None}
    rows: dict[str, list[list[float]]] = {}
    for run in answered(judged.studies):
        if run.key in there:
            others = [there[run.key].number(rival) for rival in rivals]
            rows.setdefault(label_of(run), []).append([run.true, *others])
    found = {}
    for name, values in rows.items():
        if len(values) >= FEWEST:
            own, *rest = np.mean(np.array(values, dtype=np.float64), axis=0)
            found[name] = float(own / min(rest))
    return found


def label_of(run: Run) -> str:
    return run.family + (", classes" if run.part == "classes" else "")
