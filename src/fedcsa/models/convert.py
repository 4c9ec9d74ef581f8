"""Fitted scikit-learn estimators in our own formats, with trees on an agreed grid."""

from __future__ import annotations

from typing import Any

from fedcsa.core.arrays import Array
from fedcsa.models.portable import PortableModel


def agreed_grid(sd: Array, *, scale: bool) -> Array:
    """The step of thresholds per feature, in the units in which models see the features.

    Follows from the brief alone (`brief.sd`, `brief.scale`), so it is never sent.

    Parameters
    ----------
    sd : array of shape (features,)
        The target's standard deviations.
    scale : bool
        Whether models see features in units of the target's sds.

    Returns
    -------
    array of shape (features,)
    """
    raise NotImplementedError


def to_portable(estimator: Any, n_classes: int, grid: Array) -> PortableModel:
    """The fitted estimator in our own format.

    A tree, a forest or boosting must have been fitted on ``to_bins(X, grid)``; the model that
    comes back takes X itself.

    Parameters
    ----------
    estimator : fitted scikit-learn estimator
    n_classes : int
        Of the study's outcome; 0 for numbers.
    grid : array of shape (features,)
        As `agreed_grid` gives it.

    Raises
    ------
    ModelError
        With the estimator's name if there is no format for it.
    """
    raise NotImplementedError
