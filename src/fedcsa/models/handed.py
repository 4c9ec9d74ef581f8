"""A given model as somebody hands it over in Python: a fitted estimator, a formula, a file's."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.errors import ModelError, must
from fedcsa.models.description import given_description
from fedcsa.models.fitted import EstimatorModel, FittedModel
from fedcsa.models.given import FileModel, Formula, for_columns, model_digest, places_of
from fedcsa.models.inputs import Inputs, begins_with_columns, no_empty_cells
from fedcsa.models.portable import PortableModel
from fedcsa.models.settling import check_fitted

#: What a study calls the predictions that are handed over beside the rows.
PREDICTIONS = "predictions"
#: Probabilities of single precision may miss a sum of 1 by as much.
SUM_SLACK = 1e-3


@dataclass(frozen=True)
class InStudy:
    """A fitted estimator as a study asks it: columns by position, classes by their codes.

    Its module stands in messages and saved results, so it stays where it is.

    Attributes
    ----------
    estimator : fitted scikit-learn estimator
    order : tuple of int
        The study's columns in the order in which it was fitted.
    classes_ : array of int
        Codes of its own classes; empty for a regressor.
    inputs : Inputs, optional
        The table's own columns, for a pipeline that was fitted on them.
    """

    estimator: Any
    order: tuple[int, ...]
    classes_: NDArray[Any]
    inputs: Inputs | None = None

    def predict(self, X: Array) -> Array:
        """Numbers, or codes of classes."""
        found = self._asked("predict", X)
        if not len(self.classes_):
            return np.asarray(found, dtype=np.float64)
        labels = self.estimator.classes_.tolist()
        return np.array([self.classes_[labels.index(label)] for label in np.ravel(found).tolist()])

    def predict_proba(self, X: Array) -> Array:
        """Probabilities of its own classes."""
        if not hasattr(self.estimator, "predict_proba"):
            raise ModelError(
                "A classifier must give probabilities to be judged. Calibrate it first, for "
                "example with scikit-learn's CalibratedClassifierCV."
            )
        found = np.asarray(self._asked("predict_proba", X), dtype=np.float64)
        if found.shape != (len(X), len(self.classes_)):
            raise ModelError(
                "A classifier must give a probability of each of its classes for every row; this "
                f"one has {len(self.classes_)} classes, and gives an array of shape {found.shape}."
            )
        sound = (found >= 0.0).all() and np.allclose(
            found.sum(axis=1), 1.0, rtol=0.0, atol=SUM_SLACK
        )
        if np.isfinite(found).all() and not sound:
            raise ModelError(
                "A classifier must give probabilities that are not negative and sum to 1; this "
                "one does not."
            )
        return found

    def _asked(self, what: str, X: Array) -> Any:
        """What a method of the estimator says of the rows.

        Parameters
        ----------
        what : str
            Name of the method.
        X : array of shape (rows, features)
        """
        with warnings.catch_warnings():  # that columns have no names here: their order was checked
            warnings.simplefilter("ignore", UserWarning)
            if self.inputs is not None:
                return getattr(self.estimator, what)(self.inputs.frame(X).iloc[:, list(self.order)])
            return getattr(self.estimator, what)(X[:, list(self.order)])


def has_classes(model: Any) -> bool | None:
    """Whether a model predicts classes; None if that cannot be seen, as of bare predictions."""
    if isinstance(model, Formula):
        return bool(model.risks) or model.link == "logit"
    if isinstance(model, FileModel):
        return model.n_classes > 0
    if model is None:
        return None
    return hasattr(model, "classes_")


def handed_over(
    model: Any,
    features: Sequence[str],
    classes: Sequence[Any],
    inputs: Sequence[Mapping[str, Any]] | None = None,
) -> tuple[dict[str, str], FittedModel | None]:
    """What a plan says of a given model, and the model itself; None for bare predictions.

    Parameters
    ----------
    model : fitted scikit-learn estimator, Formula, FileModel or None
    features : sequence of str
        The study's columns.
    classes : sequence
        Labels of the outcome in the agreed order; empty for a number.
    inputs : sequence of mapping, optional
        The table's own columns, for a pipeline that begins with them.
    """
    if model is None:
        return given_description(column=PREDICTIONS), None
    found: PortableModel | None = None
    if isinstance(model, Formula):
        found = model.model(features, len(classes))
    elif isinstance(model, FileModel):
        if model.n_classes != len(classes):
            raise ModelError("The given model does not predict the study's outcome.")
        found = for_columns(model.model, model.columns, features)
    if found is not None:
        title = model.title if isinstance(model, Formula) else ""
        return given_description(title, sha256=model_digest(found)), found
    if isinstance(model, type) or not hasattr(model, "predict"):
        rule = "a fitted estimator, a formula, a path, or None beside predictions"
        raise must("model", rule, type(model).__name__)
    kind = type(model)
    told = given_description(**{"class": f"{kind.__module__}.{kind.__qualname__}"})
    table = Inputs.from_plain(inputs) if inputs and begins_with_columns(model) else None
    if table is None and any(item["missing"] for item in inputs or ()):
        raise ModelError(no_empty_cells([i["name"] for i in inputs or () if i["missing"]]))
    known = features if table is None else [item.name for item in table.items]
    order = places_of([str(name) for name in getattr(model, "feature_names_in_", known)], known)
    if table is not None:
        columns = table.columns(None, texts=True)
        check_fitted(model, tuple(columns[k] for k in order))
    own = InStudy(model, order, _codes_of(model, classes), table)
    return told, EstimatorModel(own, len(classes))


def _codes_of(estimator: Any, classes: Sequence[Any]) -> NDArray[Any]:
    """Codes of the estimator's classes in the study's order.

    Parameters
    ----------
    estimator : fitted scikit-learn estimator
    classes : sequence
    """
    if not len(classes):
        return np.empty(0, np.intp)
    labels, known = np.ravel(getattr(estimator, "classes_", ())).tolist(), list(classes)
    if not labels or any(label not in known for label in labels):
        raise ModelError("The given model does not predict the study's classes.")
    return np.array([known.index(label) for label in labels], dtype=np.intp)
