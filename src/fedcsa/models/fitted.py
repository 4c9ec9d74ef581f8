"""Fitted models: what predicts at the target."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.models.inputs import Inputs, given_to
from fedcsa.models.portable import Arrays, Form, PortableModel


@dataclass(frozen=True)
class EstimatorModel:
    """A fitted scikit-learn estimator as it is, in one process.

    For a classifier, codes 0…K−1 stand for the classes. With `inputs` it gets the table's own
    columns, or numbers with empty cells; without them the study's matrix.
    """

    estimator: Any
    n_classes: int = 0
    inputs: Inputs | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"EstimatorModel({type(self.estimator).__name__})"

    @property
    def form(self) -> Form:
        """Its class by name: it has no format, and is handed over as an object."""
        kind = type(self.estimator)
        return {"kind": "held", "class": f"{kind.__module__}.{kind.__qualname__}"}

    @property
    def arrays(self) -> Arrays:
        """None: nothing of it is ever written."""
        return {}

    def predict(self, X: Array) -> Array:
        """Predict every row."""
        X = given_to(self.estimator, self.inputs, X)
        if self.n_classes == 0:
            return np.asarray(self.estimator.predict(X), dtype=np.float64).reshape(len(X))
        full = np.zeros((len(X), self.n_classes))
        if hasattr(self.estimator, "predict_proba"):
            seen = np.asarray(self.estimator.classes_, dtype=np.intp)  # a fold may miss a class
            full[:, seen] = self.estimator.predict_proba(X)
        else:
            codes = np.asarray(self.estimator.predict(X), dtype=np.intp)
            full[np.arange(len(X)), codes] = 1.0
        return full


#: Predicts a vector (rows,), or probabilities (rows, classes) if it is a classifier.
FittedModel: TypeAlias = PortableModel | EstimatorModel
