"""Tables of the study of a few outcomes, from its runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from lib.update_families import FAMILIES

Run = Mapping[str, Any]


def simulated_table(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """A line a kind, family and number of outcomes."""
    found = []
    for kind, family, n, looks in _groups(runs):
        ratio = [x["width"] / x["alone_width"] for x in looks if x.get("alone_width")]
        gain = [x["gain"] for x in looks if "gain" in x]
        found.append(
            {
                "kind": kind,
                "family": family,
                "outcomes": n,
                "studies": len(looks),
                "coverage": _mean(x["covered"] for x in looks),
                "alone": _mean(x["alone"] for x in looks if "alone" in x),
                "level_coverage": _mean(x["level"][0] for x in looks),
                "width_ratio": float(np.median(ratio)) if ratio else "",
                "worth": float(np.median([x["worth"] for x in looks])),
                "unlike": _mean(x["unlike"] for x in looks),
                "gain": _mean(gain),
                "best": _mean(
                    run["best"]
                    for run in runs
                    if (run["kind"], run["family"]) == (kind, family) and "best" in run
                ),
            }
        )
    return found


def measure_table(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """A line a kind, measure, number of outcomes: over exchangeable families, and the others."""
    found = []
    for kind in dict.fromkeys(run["kind"] for run in runs):
        for exchangeable in (True, False):
            names = [f.name for f in FAMILIES.values() if f.exchangeable == exchangeable]
            looks = [
                look
                for run in runs
                if run["kind"] == kind and run["family"] in names
                for look in run.get("looks", ())
            ]
            measures = dict.fromkeys(name for look in looks for name in look["measures"])
            for name in measures:
                for n in dict.fromkeys(look["n"] for look in looks):
                    some = [
                        x["measures"][name] for x in looks if x["n"] == n and name in x["measures"]
                    ]
                    ratios = [x[1] / x[2] for x in some if x[2]]
                    if some:
                        found.append(
                            {
                                "kind": kind,
                                "exchangeable": "yes" if exchangeable else "no",
                                "measure": name,
                                "outcomes": n,
                                "studies": len(some),
                                "coverage": _mean(x[0] for x in some),
                                "width_ratio": float(np.median(ratios)) if ratios else "",
                            }
                        )
    return found


def often_table(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """A line a family, of whoever looks after every outcome."""
    found = []
    for family in FAMILIES:
        some = [run["ever"] for run in runs if run["family"] == family and "ever" in run]
        if some:
            found.append(
                {
                    "family": family,
                    "studies": len(some),
                    "anytime_missed": _mean(x["missed"] for x in some),
                    "one_look_missed": _mean(x["once"] for x in some),
                    "called_unlike": _mean(x["unlike"] for x in some),
                }
            )
    return found


def _groups(runs: Sequence[Run]) -> Iterable[tuple[str, str, int, list[Any]]]:
    """Looks by kind, family and number of outcomes."""
    for kind in dict.fromkeys(run["kind"] for run in runs):
        for family in FAMILIES:
            looks = [
                look
                for run in runs
                if (run["kind"], run["family"]) == (kind, family)
                for look in run.get("looks", ())
            ]
            for n in sorted({look["n"] for look in looks}):
                yield kind, family, n, [look for look in looks if look["n"] == n]


def _mean(values: Iterable[float]) -> float | str:
    """The mean; nothing of nothing."""
    some = [float(value) for value in values]
    return float(np.mean(some)) if some else ""


def stroke_table(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """A line a quantity and number of outcomes, over all draws at all countries.

    `as_good_as` is by the error: outcomes alone whose mean squared error is as small. The variance
    of one row is that of all of a country's rows, and the truth is of finitely many.
    """
    draws = [draw for run in runs for draw in run.get("draws", ())]
    found = []
    for quantity in dict.fromkeys(draw["quantity"] for draw in draws):
        for n in sorted({draw["n"] for draw in draws}):
            some = [x for x in draws if (x["quantity"], x["n"]) == (quantity, n)]
            squares = {k: _mean(x[k] ** 2 for x in some) for k in _ERRORS}
            one_row = _mean(x["one_row"] for x in some)
            found.append(
                {
                    "quantity": quantity,
                    "outcomes": n,
                    "countries": sum("draws" in run for run in runs),
                    "draws": len(some),
                    "coverage": _mean(x["covered"] for x in some),
                    "worth_by_width": float(np.median([x["worth"] for x in some])),
                    "as_good_as": float(one_row) / float(squares["error"]),
                    "rms_error": float(squares["error"]) ** 0.5,
                    "rms_alone": float(squares["alone_error"]) ** 0.5,
                    "rms_promised": float(squares["promised_error"]) ** 0.5,
                }
            )
    return found


#: Errors that are squared and averaged.
_ERRORS = ("error", "alone_error", "promised_error")


# Bars ---------------------------------------------------------------------------------------------

#: Seeds that were planned, all families each.
PLANNED = 200
#: Kinds of outcome.
KINDS = ("numbers", "classes")
#: Families whose coverage may be low with ten outcomes, and must then rise.
RISING = ("label shift", "drift")
Bar = tuple[str, str, str, bool]


Line = Mapping[str, str]
Cells = Mapping[tuple[str, str, int], Line]


def bars_of(simulated: Sequence[Line], often: Sequence[Line], stroke: Sequence[Line]) -> list[Bar]:
    """What was asked, the bar, what was found, and whether it is met.

    Parameters
    ----------
    simulated, often, stroke : sequence of mapping
        Lines of the tables.
    """
    cells = {(x["kind"], x["family"], int(x["outcomes"])): x for x in simulated}
    [brier] = [x for x in stroke if (x["quantity"], x["outcomes"]) == ("Brier", "25")]
    worth = float(brier["as_good_as"])
    asked = "stroke trial, Brier: 25 outcomes err as little as … alone"
    return [
        *_coverage_bars(cells),
        *_model_bars(cells),
        *_often_bars(often),
        (asked, "at least 80", f"{worth:.1f}", worth >= 80),
    ]


def _coverage_bars(cells: Cells) -> list[Bar]:
    """Coverage and width."""
    every = float(np.mean([float(x["coverage"]) for x in cells.values()]))
    judged = {
        key: float(x["coverage"])
        for key, x in cells.items()
        if not (key[1] in RISING and key[2] == 10)
    }
    least = min(judged, key=lambda key: judged[key])
    low = sum(value < 0.88 for value in judged.values())
    where = f"{least[1]}, {least[0]}, {least[2]} outcomes"
    rises = [
        float(cells[kind, family, 100]["coverage"]) - float(x["coverage"])
        for (kind, family, n), x in cells.items()
        if family in RISING and n == 10 and float(x["coverage"]) < 0.88
    ]
    like = [f.name for f in FAMILIES.values() if f.exchangeable]
    wide = {
        kinds: _over(cells, "width_ratio", kinds, like, 20)
        for kinds in (KINDS, *zip(KINDS, strict=True))
    }
    width = wide[KINDS]
    each = ", ".join(f"{kind} {wide[kind,]:.2f}" for kind in KINDS)
    return [
        ("coverage over all settings", "0.92 to 0.98", f"{every:.3f}", 0.92 <= every <= 0.98),
        (
            "coverage in each (label shift and drift from 20 outcomes on)",
            "at least 0.88",
            f"{judged[least]:.2f} ({where}); {low} of {len(judged)} below",
            judged[least] >= 0.88,
        ),
        (
            "label shift and drift: below 0.88 with 10 outcomes, coverage rises to 100",
            "rises",
            f"by {min(rises):.2f} to {max(rises):.2f}" if rises else "none is below",
            min(rises, default=1.0) > 0.0,
        ),
        (
            "width with 20 outcomes, sites exchangeable, over the classical one",
            "at most 0.6",
            f"{width:.2f} ({each})",
            width <= 0.6,
        ),
    ]


def _model_bars(cells: Cells) -> list[Bar]:
    """The corrected model."""
    shared = max(float(x["gain"]) for k, x in cells.items() if k[1] == "shared rule")
    other = [f.name for f in FAMILIES.values() if f.differs]
    asked = "risk of the corrected model over that before, "
    found: list[Bar] = [
        (f"{asked}rule shared, worst setting", "at most 1.01", f"{shared:.3f}", shared <= 1.01)
    ]
    for kinds in (KINDS, *zip(KINDS, strict=True)):
        gain, best = (_over(cells, key, kinds, other, 50) for key in ("gain", "best"))
        what = f"{asked}50 outcomes, rule differs, {' and '.join(kinds)}"
        told = f"{gain:.3f} (with all outcomes {best:.3f})"
        found.append((what, "at most 0.88", told, gain <= 0.88))
    return found


def _over(cells: Cells, key: str, kinds: Sequence[str], families: Sequence[str], n: int) -> float:
    """The mean of a column over all settings of these kinds and families with n outcomes.

    Parameters
    ----------
    cells : mapping
    key : str
        The column.
    kinds, families : sequence of str
    n : int
    """
    some = [x for (k, f, size), x in cells.items() if k in kinds and f in families and size == n]
    return float(np.mean([float(x[key]) for x in some]))


def _often_bars(often: Sequence[Line]) -> list[Bar]:
    """Whoever looks after every outcome, where sites are exchangeable."""
    like = [f.name for f in FAMILIES.values() if f.exchangeable]
    some = [x for x in often if x["family"] in like]
    total, found = sum(int(x["studies"]) for x in some), []
    for key, what in (
        ("anytime_missed", "the interval for all looks ever misses"),
        ("called_unlike", "ever called unlike, though exchangeable"),
    ):
        share = sum(float(x[key]) * int(x["studies"]) for x in some) / total
        told = f"{share:.3f} of {total}"
        found.append((f"looking after every outcome: {what}", "at most 0.05", told, share <= 0.05))
    return found
