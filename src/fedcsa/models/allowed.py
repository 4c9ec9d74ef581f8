"""Which models may leave a site, and whether one that came is the one that was agreed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedcsa.core.arrays import Array
from fedcsa.models.portable import Arrays, Form


def refused_before_fitting(
    description: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]] = ()
) -> str:
    """Why models of this description never leave a site, or "" if they may.

    Parameters
    ----------
    description : mapping
        Of the study's model, as `fedcsa.models.registry.model_description` gives it.
    candidates : sequence of mapping
        Of the study, whose values may replace parts of the model.

    Returns
    -------
    str
        A sentence that names the estimator and the nearest thing that is allowed; or "".
    """
    raise NotImplementedError


def agreed_rows_per_leaf(
    description: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]] = ()
) -> int | None:
    """The fewest rows that a leaf may have by the study's own words; None if it has no leaves.

    For the rule `min_rows_per_leaf` before anything is fitted.

    Parameters
    ----------
    description : mapping
        Of the study's model.
    candidates : sequence of mapping
    """
    raise NotImplementedError


def check_agreed(
    form: Form,
    arrays: Arrays,
    description: Mapping[str, Any],
    candidate: Mapping[str, Any],
    n_features: int,
    n_classes: int,
    grid: Array | None = None,
) -> None:
    """Raise a `ModelError` unless this is the model that was agreed.

    Kind, link, classes, numbers of trees, depth, leaves, steps and their parameters. Call it
    after `open_model`, which checks that the arrays are sound.

    Parameters
    ----------
    form : mapping
    arrays : mapping of str to array
    description : mapping
        Of the study's model.
    candidate : mapping
        The chosen one, with its plain values.
    n_features : int
    n_classes : int
        Of the study's outcome; 0 for numbers.
    grid : array of shape (features,), optional
        As `fedcsa.models.convert.agreed_grid` gives it; the steps of trees and points must be it.
    """
    raise NotImplementedError
