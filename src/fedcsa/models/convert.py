"""Fitted scikit-learn estimators in our own formats, with trees on an agreed grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.errors import ModelError
from fedcsa.models.chosen import codes_of, sklearn_name, split_pipeline
from fedcsa.models.inputs import Inputs
from fedcsa.models.linear_format import (
    LINEAR_CLASSIFIERS,
    LINEAR_REGRESSORS,
    DesignModel,
    LinearModel,
    fold,
    linear_link,
)
from fedcsa.models.portable import PortableModel
from fedcsa.models.settling import seen_columns
from fedcsa.models.steps import without_nothing
from fedcsa.models.transformers import in_sequence
from fedcsa.models.tree_format import TREES, on_agreed_grid


def to_portable(
    estimator: Any,
    n_classes: int,
    grid: Array | None,
    inputs: Inputs | None = None,
    n_features: int | None = None,
) -> PortableModel:
    """The fitted estimator in our own format.

    A tree, a forest or boosting must have been fitted behind `fedcsa.models.estimators.Rounded`;
    the model that comes back takes the study's matrix itself.

    Parameters
    ----------
    estimator : fitted scikit-learn estimator
        One that `fedcsa.models.allowed.objection` has nothing against.
    n_classes : int
        Of the study's outcome; 0 for numbers.
    grid : array of shape (features,) or None
        As `agreed_grid` gives it; only trees need it.
    inputs : Inputs, optional
        What it got of the study's matrix.
    n_features : int, optional
        Of the study; by default as many as the estimator got.

    Raises
    ------
    ModelError
        With the estimator's name if there is no format for it.
    """
    transformers, final = split_pipeline(estimator)
    transformers = [step for step in transformers if type(step).__name__ != "Rounded"]
    name, width = sklearn_name(final), n_features or int(getattr(estimator, "n_features_in_", 0))
    before, columns = seen_columns(estimator, inputs, width, grid)
    if name not in TREES and name not in (LINEAR_CLASSIFIERS if n_classes else LINEAR_REGRESSORS):
        raise ModelError(
            f"{type(final).__name__} has no format of ours. Use an estimator that has one."
        )
    steps, columns = in_sequence(transformers, columns, fitted=True)
    steps = before + steps
    if name in TREES and grid is not None:
        return on_agreed_grid(final, n_classes, without_nothing(steps, width), columns)
    if name in TREES:
        raise ModelError(f"{name} has a format of ours only on an agreed grid.")
    coefficients = np.atleast_2d(final.coef_).astype(np.float64)
    intercept = np.ravel(final.intercept_).astype(np.float64)
    intercept = np.resize(intercept, len(coefficients))  # one 0 where none was fitted
    link, classes = linear_link(name, codes_of(final, n_classes))
    if len(coefficients) != (len(classes) if link == "softmax" else 1):
        raise ModelError(f"{name} must be fitted to one outcome. Give it a single column.")
    steps, coefficients, intercept = fold(steps, coefficients, intercept, width)
    if not steps and link in ("identity", "logistic") and n_classes in (0, 2):
        return LinearModel(coefficients[0], float(intercept[0]), link)
    return DesignModel(coefficients, intercept, link, steps, classes, n_classes)
