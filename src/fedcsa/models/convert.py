"""Fitted scikit-learn estimators in our own formats, with trees on an agreed grid."""

from __future__ import annotations

from typing import Any

from fedcsa.core.arrays import Array
from fedcsa.models.chosen import split_pipeline
from fedcsa.models.description import no_format
from fedcsa.models.formats import format_of
from fedcsa.models.inputs import Inputs
from fedcsa.models.portable import Before, PortableModel
from fedcsa.models.settling import seen_columns
from fedcsa.models.transformers import in_sequence


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
    width = n_features or int(getattr(estimator, "n_features_in_", 0))
    seen, columns = seen_columns(estimator, inputs, width, grid)
    own = format_of(final)
    if own is None:
        raise no_format(final)
    steps, columns = in_sequence(transformers, columns, fitted=True)
    return own.converted(final, Before(seen + steps, columns, width, grid), n_classes)
