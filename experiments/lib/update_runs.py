"""One study of a few outcomes: the answer without outcomes, then with more and more of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from lib.common import Array
from sklearn.linear_model import LinearRegression, LogisticRegression

from fedcsa import FedCSA
from fedcsa.core.few_outcomes import TOO_UNLIKE, worth_rows
from fedcsa.core.losses import Loss, loss_named, row_losses
from fedcsa.core.realised import mean_interval
from fedcsa.target.adaptation import Adaptation
from fedcsa.target.own_outcomes import Labelled, OwnOutcomes, Quantity
from fedcsa.target.with_outcomes import correction_of, line_prior

LEVEL = 0.95
Rows = tuple[Array, Array]


def fitted(
    kind: str, sources: Mapping[str, Rows], X: Array, seed: int, options: Mapping[str, Any]
) -> Adaptation:
    """The answer without outcomes, from one candidate: fast, and what is studied does not choose.

    Parameters
    ----------
    kind : {"numbers", "classes"}
    sources : mapping of str to (X, y)
    X : array of shape (rows, features)
        The target's.
    seed : int
    options : mapping
        Of `FedCSA`.
    """
    model: tuple[Any, ...] = ()
    given: dict[str, Any] = {"candidates": [{"penalty": 0.01, "ratio_power": 0.5}]}
    if kind == "classes":
        model = (LogisticRegression(max_iter=500),)
        given = {"candidates": [{"C": 1.0}], "loss": "brier"}
    found = FedCSA(*model, random_state=seed, **given, **options)
    return found.fit(dict(sources), X).adaptation_


def labelled(adaptation: Adaptation, X: Array, y: Array) -> Labelled:
    """Rows with outcomes, all of the same weight.

    Parameters
    ----------
    adaptation : Adaptation
    X : array of shape (rows, features)
    y : array of shape (rows,)
    """
    rows = np.asarray(X, dtype=np.float64)
    outcome = np.asarray(y, dtype=np.float64)
    return Labelled(
        rows, outcome, adaptation.output(rows, corrected=False), np.full(len(y), 1.0 / len(y))
    )


def first(rows: Labelled, n: int) -> Labelled:
    """The first of them.

    Parameters
    ----------
    rows : Labelled
    n : int
    """
    w = rows.weights[:n]
    return Labelled(rows.X[:n], rows.y[:n], rows.output[:n], w / w.sum())


def study_of(
    adaptation: Adaptation, target: Rows, truth: Rows, n_rows: Sequence[int], *, every: bool
) -> dict[str, Any]:
    """What is covered, how wide it is, and how good the corrected model, after more and more rows.

    Parameters
    ----------
    adaptation : Adaptation
        With a promise.
    target, truth : (X, y)
        Rows whose outcomes come in, and rows that show the truth.
    n_rows : sequence of int
        Outcomes at every look.
    every : bool
        Whether somebody also looks after every single outcome.
    """
    whole = OwnOutcomes(adaptation, labelled(adaptation, *truth))
    loss, rows = loss_named(adaptation.plan.loss), labelled(adaptation, *target)
    true = float(whole.losses.mean())
    levels = [item.alone.estimate if item.alone else np.nan for item in whole.levels]
    shown = {place: found[1] for place, found in whole.shown.items()}
    z, looks = adaptation.standardised(truth[0]), []
    for n in n_rows:
        own = OwnOutcomes(adaptation, first(rows, n))
        found = _look(own, true, levels, shown)
        prior = line_prior(own)
        if prior is not None:
            made = correction_of(adaptation, own.labelled, prior)
            output = made.corrected(whole.labelled.output, z)
            found["gain"] = float(row_losses(loss, output, whole.labelled.y).mean()) / true
        looks.append({"n": n, **found})
    promise = adaptation.promise
    assert promise is not None  # noqa: S101 - see above
    told = {"promised": promise.lower <= true <= promise.upper, "looks": looks}
    told["best"] = _best(whole.labelled, loss) / true
    if every:
        told["ever"] = _ever(adaptation, rows, true, max(n_rows))
    return told


def _best(rows: Labelled, loss: Loss) -> float:
    """Risk of the model that is fitted to all rows that show the truth, and judged on them.

    No correction can do better, of however many outcomes it is.

    Parameters
    ----------
    rows : Labelled
    loss : function
    """
    if rows.output.ndim == 2:
        classifier = LogisticRegression(C=np.inf, max_iter=500).fit(rows.X, rows.y)
        return float(row_losses(loss, classifier.predict_proba(rows.X), rows.y).mean())
    line = LinearRegression().fit(rows.X, rows.y)
    return float(row_losses(loss, line.predict(rows.X), rows.y).mean())


def _look(
    own: OwnOutcomes, true: float, levels: Sequence[float], shown: Mapping[tuple[int, int], float]
) -> dict[str, Any]:
    """One look.

    Parameters
    ----------
    own : OwnOutcomes
    true : float
        The risk.
    levels : sequence of float
        The level of outcomes, of every class.
    shown : mapping of (subgroup, column) to float
        Every measure, on its scale.
    """
    after = own.risk.after(own.unlike)
    ends = np.exp(after.interval(LEVEL))
    alone = mean_interval(own.losses, own.plan.loss, LEVEL)
    anytime = np.exp(after.anytime(LEVEL))
    found: dict[str, Any] = {
        "covered": bool(ends[0] <= true <= ends[1]),
        "width": float(ends[1] - ends[0]),
        "anytime": bool(anytime[0] <= true <= anytime[1]),
        "unlike": own.against >= TOO_UNLIKE,
        "worth": worth_rows(float(np.ptp(after.interval(LEVEL))), own.risk.one_row, LEVEL),
    }
    if alone is not None:
        low = max(alone[0], 0.0)
        found |= {"alone": bool(low <= true <= alone[1]), "alone_width": alone[1] - low}
    found["level"] = _covered(own.levels[0], own.unlike, levels[0])
    columns = own.adaptation.evidence.columns if own.adaptation.evidence else ()
    found["measures"] = {
        columns[k].measure.name: _covered(item, own.unlike, shown[s, k])
        for (s, k), item in own.measures.items()
        if s == 0 and item.alone is not None and np.isfinite(shown.get((s, k), np.nan))
    }
    return found


def _covered(item: Quantity, against: float, true: float) -> list[float | None]:
    """Whether it is covered, its width, that of the outcomes alone, what it is worth.

    Parameters
    ----------
    item : Quantity
    against : float
    true : float
        On its scale.
    """
    lower, upper = item.after(against).interval(LEVEL)
    alone = float(np.ptp(item.own.interval(LEVEL))) if item.own is not None else None
    worth = worth_rows(upper - lower, item.one_row, LEVEL)
    return [float(lower <= true <= upper), upper - lower, alone, worth]


def _ever(adaptation: Adaptation, rows: Labelled, true: float, most: int) -> dict[str, bool]:
    """Whether the interval ever missed, and the site was ever called unlike, at looks 1 … most.

    Parameters
    ----------
    adaptation : Adaptation
    rows : Labelled
    true : float
    most : int
    """
    missed, once, unlike = False, False, False
    for n in range(1, most + 1):
        own = OwnOutcomes(adaptation, first(rows, n))
        after = own.risk.after(own.unlike)
        lower, upper = np.exp(after.anytime(LEVEL))
        missed |= not lower <= true <= upper
        lower, upper = np.exp(after.interval(LEVEL))
        once |= not lower <= true <= upper
        unlike |= own.against >= TOO_UNLIKE
    return {"missed": missed, "once": once, "unlike": unlike}
