"""The seam between a source and whatever it fits: one model, many candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.losses import REGRESSION, Loss, evaluate
from fedcsa.models.fitted import FittedModel, LinearModel

#: One hyperparameter setting: parameter name -> plain value.
Candidate: TypeAlias = Mapping[str, Any]
#: The parameter γ that every model with sample weights understands: training weights r(x)^γ.
RATIO_POWER = "ratio_power"


@dataclass(frozen=True)
class Path:
    """One fitted model per candidate, ``None`` where fitting failed.

    Attributes
    ----------
    models : tuple of FittedModel or None
    failures : mapping of int to str
        Index of a candidate -> the name of the exception's class, never its text.
    texts : mapping of int to str
        The same with the exception's text, for a process in which nothing is secret.
    warned : mapping of str to int
        Name of a warning's class -> how often the model library gave it.
    """

    models: tuple[FittedModel | None, ...]
    failures: Mapping[int, str] = field(default_factory=dict)
    warned: Mapping[str, int] = field(default_factory=dict)
    texts: Mapping[int, str] = field(default_factory=dict, repr=False)


class Model(Protocol):
    """Fits every candidate on the same rows."""

    @property
    def n_classes(self) -> int:
        """0 for a regressor."""
        ...

    def fit(
        self,
        X: Array,
        y: Array,
        ratios: Array,
        candidates: Sequence[Candidate],
        rng: np.random.Generator,
    ) -> Path:
        """Fit all candidates on rows `X`, `y` whose density ratios are `ratios`."""
        ...


def path_losses(path: Path, X: Array, y: Array, loss: Loss) -> tuple[Array, Mapping[int, str]]:
    """Losses of every row under every candidate, shape (rows, candidates), and new failures.

    A candidate without a model, or with predictions that are not finite, has a column of zeros
    and is a failure.
    """
    linear = [
        model
        for model in path.models
        if isinstance(model, LinearModel) and model.link == "identity"
    ]
    if len(linear) == len(path.models) and loss in REGRESSION.values():
        B = np.column_stack([model.coefficients for model in linear])  # (features, candidates)
        predictions = X @ B + np.array([model.intercept for model in linear])
        losses = loss(predictions, y[:, None])
        bad = np.flatnonzero(~np.isfinite(losses).all(axis=0))
        losses[:, bad] = 0.0
        return losses, {int(index): "NonFinitePrediction" for index in bad}
    losses = np.zeros((len(X), len(path.models)))
    failures = dict(path.failures)
    for index, model in enumerate(path.models):
        if model is None:
            continue
        try:
            prediction = model.predict(X)
        except Exception as error:  # it was fitted, but cannot predict
            failures[index] = type(error).__name__
            continue
        if np.isfinite(prediction).all():
            losses[:, index] = evaluate(loss, prediction, y)
        else:
            failures[index] = "NonFinitePrediction"
    return losses, failures
