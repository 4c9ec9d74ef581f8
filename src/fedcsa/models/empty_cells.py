"""Whether a model takes the empty cells that are left to it, tried on rows that are made up."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.errors import ModelError
from fedcsa.models.description import Candidate
from fedcsa.models.estimators import SklearnModel
from fedcsa.models.inputs import Inputs, no_empty_cells

#: Enough for five folds of two classes, and for every level of most columns.
ROWS = 120
#: Of four cells one is empty.
EMPTY_SHARE = 0.25


def check_takes_empty(model: SklearnModel, candidates: Sequence[Candidate]) -> None:
    """Raise a `ModelError` if a candidate can be fitted on full rows, and not with empty cells.

    What fails on full rows too, made up as they are, is left to the study itself.

    Parameters
    ----------
    model : SklearnModel
    candidates : sequence of Candidate
        As the model takes them. Of those that differ in numbers alone, one is tried.
    """
    inputs = model.inputs
    if inputs is None or not inputs.missing:
        return
    y = np.arange(ROWS) % max(model.n_classes, ROWS if not model.n_classes else 1)
    for candidate in _unlike(candidates):
        fits = []
        for share in (0.0, EMPTY_SHARE):
            X = made_up_rows(inputs, share)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rng = np.random.default_rng(0)
                [fitted] = model.fit(X, y.astype(float), np.ones(ROWS), [candidate], rng).models
            fits.append(fitted is not None)
        if fits == [True, False]:
            raise ModelError(no_empty_cells([item.name for item in inputs.items if item.missing]))


def made_up_rows(inputs: Inputs, share: float) -> Array:
    """Rows of the study's matrix with every level, and with empty cells.

    Parameters
    ----------
    inputs : Inputs
    share : float
        Of cells that are empty, where they may be.

    Returns
    -------
    array of shape (rows, features)
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, inputs.n_features))
    for item in inputs.items:
        if item.kind == "flag":
            X[:, item.own[0]] = rng.integers(0, 2, ROWS)
        if item.levels:
            place = np.arange(ROWS) % len(item.levels)
            X[:, list(item.own)] = rng.permutation(place)[:, None] == np.arange(1, len(item.levels))
        if item.missing:
            X[:, item.columns[-1]] = rng.random(ROWS) < share
    return X


def _unlike(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates that differ in more than numbers."""
    found: dict[str, Candidate] = {}
    for candidate in candidates:
        words = {k: repr(v) for k, v in candidate.items() if not isinstance(v, int | float)}
        found.setdefault(repr(sorted(words.items())), candidate)
    return list(found.values())
