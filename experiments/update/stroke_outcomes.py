"""A few outcomes at real sites: the stroke trial, each country the target of all others.

Of every country some outcomes are drawn, again and again; its value over all its rows is the truth.
What a number of outcomes is worth is told twice: by the width of the interval, and by the error of
the estimate: so many outcomes alone would err as little.

Table: ``update_stroke.csv``, a line a quantity and number of outcomes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

from lib.common import ROOT, Array, options, write_provenance, write_table
from lib.promise_runs import Lines, Study, flags_of, run_default
from lib.real_data import Sites, data_folder, stroke_trial
from lib.update_runs import LEVEL, labelled
from lib.update_tables import stroke_table
from lib.validation_runs import LOGISTIC

import fedcsa
from fedcsa.core.few_outcomes import worth_rows
from fedcsa.target.adaptation import Adaptation
from fedcsa.target.own_outcomes import OwnOutcomes, Quantity


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    seed: int = 95_000
    n_rows: tuple[int, ...] = (10, 25, 50)
    draws: int = 20
    fewest: int = 200  # rows of a country that plays the target
    max_sites: int | None = None  # the smallest of them


FULL = Settings()
QUICK = Settings(seed=0, n_rows=(10, 25), draws=2, max_sites=1)


def run_one(site: str, sites: Sites, settings: Settings) -> dict[str, Any]:
    """One country as the target of all others.

    Parameters
    ----------
    site : str
    sites : Sites
    settings : Settings
    """
    X, y = sites.rows[site]
    others = {name: pair for name, pair in sites.rows.items() if name != site}
    study = Study(others, X, flags_of(r for r, _ in sites.rows.values()), sites.public_sd)
    found: dict[str, Any] = {"site": site, "rows": len(y)}
    try:
        _, fitted = run_default(study, settings.seed, LOGISTIC)
    except fedcsa.FedCSAError as error:
        return {**found, "error": type(error).__name__}
    if fitted.adaptation_.promise is None:
        return {**found, "error": "no promise"}
    return {**found, "draws": _draws(fitted.adaptation_, X, y, settings)}


def _draws(adaptation: Adaptation, X: Array, y: Array, settings: Settings) -> list[dict[str, Any]]:
    """Every draw: error and width with the promise, and of the outcomes alone.

    Parameters
    ----------
    adaptation : Adaptation
    X : array of shape (rows, features)
    y : array of shape (rows,)
    settings : Settings
    """
    rng, found = np.random.default_rng(settings.seed), []
    whole = OwnOutcomes(adaptation, labelled(adaptation, X, y))
    for _ in range(settings.draws):
        order = rng.permutation(len(y))
        for n in settings.n_rows:
            here = order[:n]
            own = OwnOutcomes(adaptation, labelled(adaptation, X[here], y[here]))
            for name, item, true in (
                ("Brier", own.risk, whole.risk),
                ("calibration in the large", own.levels[0], whole.levels[0]),
            ):
                told = _one(item, true, own.unlike, n, len(y))
                found.append({"quantity": name, "n": n, **told})
    return found


def _one(item: Quantity, true: Quantity, unlike: float, n: int, rows: int) -> dict[str, float]:
    """One quantity in one draw, on its scale.

    Parameters
    ----------
    item, true : Quantity
        From the draw, and from all rows of the country.
    unlike : float
    n, rows : int
        Outcomes drawn, and rows of the country.
    """
    assert item.alone is not None  # noqa: S101 - there are outcomes
    assert true.alone is not None  # noqa: S101 - likewise
    after, truth = item.after(unlike), true.alone.estimate
    lower, upper = after.interval(LEVEL)
    return {
        "covered": float(lower <= truth <= upper),
        "error": after.quantile(0.5) - truth,
        "alone_error": item.alone.estimate - truth,
        "promised_error": item.before.quantile(0.5) - truth,
        "width": upper - lower,
        "worth": worth_rows(upper - lower, item.one_row, LEVEL),
        "one_row": true.alone.variance * rows * (1.0 - n / rows),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(
        __doc__,
        arguments,
        lines={"type": Path, "help": "file of one line a country"},
        data={"type": Path, "default": data_folder(), "help": "folder"},
    )
    settings, name = QUICK if given.quick else FULL, "update_stroke"
    sites = stroke_trial(given.data)
    enough = [each for each, (_, y) in sites.rows.items() if len(y) >= settings.fewest]
    kept = sorted(enough, key=lambda each: len(sites.rows[each][1]))[: settings.max_sites]
    if given.quick:
        near = sorted(sites.rows, key=lambda each: len(sites.rows[each][1]))[:3]
        some = {each: sites.rows[each] for each in {*kept, *near}}
        sites = Sites(sites.columns, sites.public_sd, some)
    folder = given.out if given.quick else ROOT / "results"
    lines = Lines(given.lines or folder / f"{name}.jsonl", ("site",))
    lines.run(lambda site: run_one(site, sites, settings), (((each,), each) for each in kept))
    write_table(given.out, name, stroke_table(lines.read()))
    write_provenance(given.out, __file__, settings, quick=given.quick, name=name)


if __name__ == "__main__":
    main()
