"""The default as it was before Table 1: what it said of a study, and its rivals on the same rows.

It ran with the package as of commit a3ba0df (announced averages, sources that judge their own
models) and is kept to say how the yardstick was made. The rivals are the paper's three methods,
cross-fitted with the same candidates and folds, and single sources: the one that is worth most rows
of the target, alone, and (with hindsight) the model that is best in truth.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from common import PAPER_METHODS, Array, risk
from promise_code import Study
from worlds import Drawn

import fedcsa


def old_default(study: Study, seed: int, learner: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Promise, verdict and weights of one study, and the fitted estimator.

    Parameters
    ----------
    study : Study
        It knew of public scales, and of nothing else that describes a column.
    seed : int
    learner : dict
        Model, candidates and loss; nothing for ridge with its default candidates.
    """
    fitted = fedcsa.FedCSA(
        random_state=seed, on_no_overlap="predict", public_sd=study.public_sd, **learner
    )
    fitted.fit(study.sources, study.X_target)
    lower, upper = fitted.interval_ or (None, None)
    told = {
        "verdict": fitted.status_,
        "refused": fitted.status_ == "no overlap",
        "promised": fitted.adaptation_.risk.risk,
        "lower": lower,
        "upper": upper,
        "level": fitted.level,
        "candidate": json.dumps(fitted.candidate_),
        "last_weight": fitted.source_weights_[max(study.sources)],
    }
    return told, fitted


def rivals(
    drawn: Drawn, seed: int, learner: dict[str, Any], fitted: fedcsa.FedCSA
) -> dict[str, float]:
    """True risks of the other methods on the same rows.

    Parameters
    ----------
    drawn : Drawn
    seed : int
    learner : dict
    fitted : FedCSA
        The default, fitted to the same study.
    """
    X, y = drawn.X_truth, drawn.y_truth
    found = {}
    crossed = _paper_methods(drawn.sources, drawn.X_target, seed, scheme="cross-fit", **learner)
    for method, adaptation in crossed.items():
        found[method] = risk(event(adaptation.output(X)), y)
    alone = _best_single(fitted, drawn.sources, drawn.X_target)
    found["single"] = risk(event(alone.adaptation_.output(X)), y)
    found["single_in_truth"] = min(_single_risks(fitted.adaptation_, X, y))
    return found


def event(output: Array) -> Array:
    """The number predicted, or the probability of the second class."""
    return output[:, 1] if output.ndim == 2 else output


def _single_risks(adaptation: fedcsa.Adaptation, X: Array, y: Array) -> list[float]:
    names = list(adaptation.models)
    shares = [{name: float(name == one) for name in names} for one in names]
    each = (replace(adaptation, source_weights=share).output(X) for share in shares)
    return [risk(event(np.asarray(output)), y) for output in each]


def _paper_methods(
    sources: Mapping[str, tuple[Array, Array]], X_target: Array, seed: int, **settings: Any
) -> dict[str, fedcsa.Adaptation]:
    """Naive, FedIW and FedDA with the same settings and folds.

    All three read the same reports, so a method that chooses the candidate of another also gets
    the same models, and only the weights are its own: then nothing is fitted twice.
    """
    found: dict[str, fedcsa.Adaptation] = {}
    for method in PAPER_METHODS:
        if method in found:
            continue
        fitted = fedcsa.FedCSA(
            method=method, random_state=seed, on_no_overlap="predict", **settings
        ).fit(sources, X_target)
        mine = fitted.adaptation_
        for other in PAPER_METHODS:
            estimate = mine.estimates[other]
            if other not in found and estimate.chosen == mine.estimate.chosen:
                weights = dict(zip(mine.sources, estimate.source_weights.tolist(), strict=True))
                plan = replace(mine.plan, method=other)
                found[other] = replace(mine, plan=plan, source_weights=weights)
    return {method: found[method] for method in PAPER_METHODS}


def _best_single(
    guarded: fedcsa.FedCSA, sources: Mapping[str, tuple[Array, Array]], X_target: Array
) -> fedcsa.FedCSA:
    """Only the source that is worth most rows of the target, same settings and folds."""
    adaptation = guarded.adaptation_
    if len(sources) == 1:
        return guarded
    share = adaptation.estimates["guarded"].source_weights
    best = adaptation.sources[int(np.argmax(share))]
    alone = fedcsa.FedCSA(**guarded.get_params(deep=False))
    return alone.fit({best: sources[best]}, X_target)
