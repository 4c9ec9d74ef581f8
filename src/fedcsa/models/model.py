"""The seam between a source and whatever it fits: one model, many candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.losses import REGRESSION, Loss, row_losses
from fedcsa.core.ridge import ridge_path
from fedcsa.errors import one_of
from fedcsa.models.description import PENALTY, RATIO_POWER, Candidate
from fedcsa.models.linear_format import Lines

if TYPE_CHECKING:
    from fedcsa.models.fitted import FittedModel


@dataclass(frozen=True)
class Path:
    """One fitted model per candidate, ``None`` where fitting failed.

    Attributes
    ----------
    models : sequence of FittedModel or None
        `Lines`, if every candidate is a line.
    failures : mapping of int to str
        Index of a candidate -> the name of the exception's class, never its text.
    warned : mapping of str to int
        Name of a warning's class -> how often the model library gave it.
    texts : mapping of int to str
        The failures with the exception's text, for a process in which nothing is secret.
    n_rows : int
        Rows on which the models were fitted.
    """

    models: Sequence[FittedModel | None]
    failures: Mapping[int, str] = field(default_factory=dict)
    warned: Mapping[str, int] = field(default_factory=dict)
    texts: Mapping[int, str] = field(default_factory=dict, repr=False)
    n_rows: int = 0


def path_of_lines(
    slopes: Array, intercepts: Array, failures: Mapping[int, str], n_rows: int
) -> Path:
    """The path of candidates that are lines.

    Parameters
    ----------
    slopes : array of shape (features, candidates)
    intercepts : array of shape (candidates,)
    failures : mapping of int to str
        Candidates that have no line.
    n_rows : int
    """
    models: Sequence[FittedModel | None] = Lines(slopes.T, intercepts)
    if failures:
        models = [None if k in failures else line for k, line in enumerate(models)]
    return Path(models, failures, n_rows=n_rows)


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
        """Fit all candidates on the same rows.

        Parameters
        ----------
        X : array of shape (rows, features)
        y : array of shape (rows,)
            Numbers, or codes of classes.
        ratios : array of shape (rows,)
            Density ratios, of which candidates with a power make training weights.
        candidates : sequence of Candidate
        rng : Generator
        """
        ...


def path_losses(path: Path, X: Array, y: Array, loss: Loss) -> tuple[Array, Mapping[int, str]]:
    """Losses of every row under every candidate, shape (rows, candidates), and new failures.

    A candidate without a model, or with predictions that are not finite, has a column of zeros
    and is a failure.

    Parameters
    ----------
    path : Path
    X : array of shape (rows, features)
    y : array of shape (rows,)
    loss : Loss
    """
    lines = path.models
    if isinstance(lines, Lines) and lines.link == "identity" and loss in REGRESSION.values():
        predictions = X @ lines.coefficients.T
        predictions += lines.intercepts
        losses = loss(predictions, y[:, None])
        if np.isfinite(losses.sum()):
            return losses, {}
        bad = np.flatnonzero(~np.isfinite(losses).all(axis=0))
        losses[:, bad] = 0.0
        return losses, {int(index): "NonFinitePrediction" for index in bad}
    losses = np.zeros((len(X), len(path.models)))
    failures = dict(path.failures)
    for index, model in enumerate(path.models):
        if model is None:
            continue
        prediction, failure = predicted_or_why_not(model, X)
        if prediction is None:
            failures[index] = failure
        else:
            losses[:, index] = row_losses(loss, prediction, y)
    return losses, failures


def predicted_or_why_not(model: FittedModel, X: Array) -> tuple[Array | None, str]:
    """Finite predictions of every row and nothing, or None and the name of what went wrong.

    Parameters
    ----------
    model : FittedModel
    X : array of shape (rows, features)
    """
    try:
        prediction = model.predict(X)
    except Exception as error:  # it was fitted, but cannot predict; the text may quote a cell
        return None, type(error).__name__
    return (prediction, "") if np.isfinite(prediction).all() else (None, "NonFinitePrediction")


@dataclass(frozen=True)
class LinearRegression:
    """Least squares with penalty θ (``penalty``) and training weights r^γ (``ratio_power``).

    Both default to 0 in a candidate that does not name them. The weights are those of adaptive
    importance weighting (Shimodaira 2000), from plain (γ = 0) to full (γ = 1).

    Attributes
    ----------
    penalty_scale : {"mean", "sklearn"}
        Whether θ multiplies ‖b‖² beside the *mean* squared error, or beside the sum.
    intercept : bool
    """

    penalty_scale: Literal["mean", "sklearn"] = "mean"
    intercept: bool = True

    def __post_init__(self) -> None:
        if self.penalty_scale not in ("mean", "sklearn"):
            raise one_of("penalty_scale", ("mean", "sklearn"), self.penalty_scale)

    @property
    def n_classes(self) -> int:
        """0: this predicts numbers."""
        return 0

    def fit(
        self,
        X: Array,
        y: Array,
        ratios: Array,
        candidates: Sequence[Candidate],
        rng: np.random.Generator,  # noqa: ARG002 - nothing here is random
    ) -> Path:
        """Fit all candidates, with one decomposition for every distinct ratio_power.

        Parameters
        ----------
        X : array of shape (rows, features)
        y : array of shape (rows,)
        ratios : array of shape (rows,)
        candidates : sequence of Candidate
        rng : Generator
            Not used.
        """
        slopes = np.zeros((X.shape[1], len(candidates)))
        intercepts, failures = np.zeros(len(candidates)), dict[int, str]()
        powers = [candidate.get(RATIO_POWER, 0.0) for candidate in candidates]
        for power in sorted(set(powers)):
            members = [index for index, value in enumerate(powers) if value == power]
            weights = ratios**power if power else None
            if weights is not None and not weights.any():
                failures.update(dict.fromkeys(members, "ZeroWeights"))
                continue
            total = float(len(y) if weights is None else weights.sum())
            penalties = self.penalties([candidates[i] for i in members], total)
            slopes[:, members], intercepts[members] = ridge_path(
                X, y, penalties, weights, intercept=self.intercept
            )
        return path_of_lines(slopes, intercepts, failures, len(y))

    def penalties(self, candidates: Sequence[Candidate], total: float) -> Array:
        """θ of every candidate beside the mean squared error.

        Parameters
        ----------
        candidates : sequence of Candidate
        total : float
            Sum of the training weights.
        """
        given = np.array([float(candidate.get(PENALTY, 0.0)) for candidate in candidates])
        return given / total if self.penalty_scale == "sklearn" else given
