"""The one number that a source sends beside its model: how much its predictions owe to chance."""

from __future__ import annotations

import numpy as np

from fedcsa.core.ensemble import EXACT
from fedcsa.core.folds import generator_for
from fedcsa.core.jackknife import jackknife_variance
from fedcsa.core.overlap import normalised
from fedcsa.errors import PolicyError
from fedcsa.models.base import Candidate, Model
from fedcsa.protocol.messages import Brief
from fedcsa.roles.local import LocalRatio, LocalRows


def asks_for_noise(brief: Brief) -> bool:
    """Whether the number is of use: cross-fitted, and a loss whose ambiguity it explains."""
    return (
        brief.scheme == "cross-fit" and brief.exchange == "embedding" and str(brief.loss) in EXACT
    )


def prediction_variance(
    brief: Brief, rows: LocalRows, ratio: LocalRatio, model: Model, candidate: Candidate
) -> float:
    """s² of the chosen candidate on the weighted rows; 0 where nobody asks for it."""
    if not asks_for_noise(brief):
        return 0.0
    predictions = []
    for turn, rotation in enumerate(ratio.plan):
        rng = generator_for(brief.seed, rows.source, f"model-{turn}")
        X, y = rows.seen[rotation.train], rows.outcome[rotation.train]
        fitted = model.fit(X, y, ratio.train[turn], [candidate], rng).models[0]
        if fitted is None:
            raise PolicyError(
                "fit_failed",
                "The chosen candidate could not be fitted here; leave it out of the study.",
            )
        predictions.append(fitted.predict(rows.seen))
    weights = np.empty(len(rows.seen))
    weights[np.concatenate([rotation.validation for rotation in ratio.plan])] = normalised(
        np.concatenate(ratio.validation)
    )
    return jackknife_variance(np.stack(predictions), weights)
