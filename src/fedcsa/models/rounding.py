"""Rounding to the agreed grid as a step of a pipeline, before trees are fitted."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline

from fedcsa.core.arrays import Array
from fedcsa.models.chosen import Seen, sklearn_name
from fedcsa.models.trees import on_grid


class Rounded(BaseEstimator, TransformerMixin):  # type: ignore[misc]
    """The last transformer before trees: every column rounded down to its agreed grid.

    Parameters
    ----------
    step : array of shape (columns,)
    """

    def __init__(self, step: Array) -> None:
        self.step = step

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002 - there is nothing to learn
        """Take note that a pipeline was fitted.

        Parameters
        ----------
        X : array of shape (rows, columns)
        y : array of shape (rows,), optional
        """
        self.n_features_in_ = len(self.step)
        return self

    def transform(self, X: Any) -> Array:
        """Numbers of cells as float64, NaN where a cell is empty."""
        dense = X.toarray() if hasattr(X, "toarray") else X
        return on_grid(np.asarray(dense, dtype=np.float64), self.step)


def rounded_pipeline(estimator: Any, columns: Seen) -> Any:
    """The estimator of trees with the rounding before its last step.

    Parameters
    ----------
    estimator : scikit-learn estimator
        A pipeline or trees alone; not fitted.
    columns : tuple of Column
        That the trees get.
    """
    step = np.array([column.step for column in columns])
    if sklearn_name(estimator) != "Pipeline":
        return Pipeline([("rounded", Rounded(step)), ("trees", estimator)])
    *steps, (name, last) = estimator.steps
    if sklearn_name(last) == "Pipeline":
        return Pipeline([*steps, (name, rounded_pipeline(last, columns))])
    return Pipeline([*steps, ("rounded", Rounded(step)), (name, last)])
