"""Ridge regression and weighted least squares: whole paths in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.ridge import ridge_path
from fedcsa.errors import one_of
from fedcsa.models.fitted import FittedModel, LinearModel
from fedcsa.models.model import Candidate, Path, power_of, training_weights

#: The parameter θ of a candidate.
PENALTY = "penalty"


@dataclass(frozen=True)
class LinearRegression:
    """Least squares with penalty θ (``penalty``) and training weights r^γ (``ratio_power``).

    Both default to 0 in a candidate that does not name them.

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
        models: list[FittedModel | None] = [None] * len(candidates)
        failures: dict[int, str] = {}
        powers = [power_of(candidate) for candidate in candidates]
        for power in sorted(set(powers)):
            members = [index for index, value in enumerate(powers) if value == power]
            weights = training_weights(ratios, candidates[members[0]]) if power else None
            if weights is not None and not weights.any():
                failures.update(dict.fromkeys(members, "ZeroWeights"))
                continue
            total = float(len(y) if weights is None else weights.sum())
            penalties = self.penalties([candidates[i] for i in members], total)
            B, intercepts = ridge_path(X, y, penalties, weights, intercept=self.intercept)
            for column, index in enumerate(members):
                models[index] = LinearModel(B[:, column].copy(), float(intercepts[column]))
        return Path(tuple(models), failures, n_rows=len(y))

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
