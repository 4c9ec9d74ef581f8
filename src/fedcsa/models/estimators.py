"""Any scikit-learn regressor, classifier or pipeline as the model of a study."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from fedcsa.core.arrays import Array
from fedcsa.errors import ModelError
from fedcsa.models.allowed import objection
from fedcsa.models.convert import TREES, sklearn_name, split_pipeline, to_portable
from fedcsa.models.fitted import EstimatorModel, FittedModel
from fedcsa.models.model import RATIO_POWER, Candidate, Path, power_of, training_weights
from fedcsa.models.trees import to_bins


@dataclass(frozen=True)
class SklearnModel:
    """A scikit-learn estimator, cloned and fitted once per candidate.

    Attributes
    ----------
    estimator : scikit-learn estimator
        Not fitted; never changed.
    n_classes : int
        Of the outcome, 0 for a regressor.
    grid : array of shape (features,), optional
        The agreed grid, on which trees that may travel are fitted.
    """

    estimator: Any
    n_classes: int = 0
    grid: Array | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if is_classifier(self.estimator) != (self.n_classes > 0):
            kind, other = ("regressor", "classes") if self.n_classes else ("classifier", "numbers")
            raise ModelError(
                f"The model is a {kind} ({type(self.estimator).__name__}), but the outcome is "
                f"declared as {other}. Change the model or the outcome."
            )

    def fit(
        self,
        X: Array,
        y: Array,
        ratios: Array,
        candidates: Sequence[Candidate],
        rng: np.random.Generator,
    ) -> Path:
        """Fit all candidates; one that raises is a failure, not an error.

        Parameters
        ----------
        X : array of shape (rows, features)
        y : array of shape (rows,)
        ratios : array of shape (rows,)
        candidates : sequence of Candidate
        rng : Generator
        """
        models: list[FittedModel | None] = []
        failures: dict[int, str] = {}
        texts: dict[int, str] = {}
        warned: Counter[str] = Counter()
        seed = int(rng.integers(2**31 - 1))  # the same for all candidates: a fair comparison
        for index, candidate in enumerate(candidates):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    models.append(self._fit_one(X, y, ratios, candidate, seed))
                except Exception as error:
                    models.append(None)
                    failures[index] = type(error).__name__
                    texts[index] = f"{type(error).__name__}: {error}"
            warned.update(item.category.__name__ for item in caught)
        return Path(tuple(models), failures, dict(warned), texts, len(y))

    def _fit_one(
        self, X: Array, y: Array, ratios: Array, candidate: Candidate, seed: int
    ) -> FittedModel:
        """Fit one candidate.

        Parameters
        ----------
        X : array of shape (rows, features)
        y : array of shape (rows,)
        ratios : array of shape (rows,)
        candidate : Candidate
        seed : int
            For every random_state that was left open.
        """
        # Fitting must not change a candidate, so estimators among its values are copied.
        parameters = {
            key: clone(value) if hasattr(value, "get_params") else value
            for key, value in candidate.items()
            if key != RATIO_POWER
        }
        estimator = clone(self.estimator).set_params(**parameters)
        _seed(estimator, seed)
        keywords = {}
        if power_of(candidate):
            keywords[weight_keyword(estimator)] = training_weights(ratios, candidate)
        y = y.astype(np.intp) if self.n_classes else y
        if objection(estimator):
            return EstimatorModel(estimator.fit(X, y, **keywords), self.n_classes)
        grid = self.grid if sklearn_name(split_pipeline(estimator)[1]) in TREES else None
        if grid is not None:
            X = to_bins(X, grid).astype(np.float64)
        estimator.fit(X, y, **keywords)
        try:
            return to_portable(estimator, self.n_classes, grid)
        except ModelError:  # trees without a grid, and those that are too large to travel
            return EstimatorModel(estimator, self.n_classes, grid)


def weight_keyword(estimator: Any) -> str:
    """The name under which `estimator`.fit takes sample weights.

    >>> from sklearn.linear_model import Lasso
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> weight_keyword(make_pipeline(StandardScaler(), Lasso()))
    'lasso__sample_weight'
    """
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return f"{name}__{weight_keyword(last)}"
    if has_fit_parameter(estimator, "sample_weight"):
        return "sample_weight"
    raise ModelError(
        f"{type(estimator).__name__} does not take sample weights; "
        f"leave {RATIO_POWER!r} out of its candidates."
    )


def _seed(estimator: Any, seed: int) -> None:
    """Fix every random_state that was left open, so that a run can be repeated.

    Parameters
    ----------
    estimator : scikit-learn estimator
    seed : int
    """
    for key, value in estimator.get_params(deep=True).items():
        if (key == "random_state" or key.endswith("__random_state")) and value is None:
            estimator.set_params(**{key: seed})
