"""Every method on real sites: what it promises and predicts, without an outcome of the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from lib.common import Array, paper_methods
from lib.promise_runs import Study, flags_of, guess, run_default
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fedcsa
from fedcsa.models.registry import POWERS

Sources = Mapping[str, tuple[Array, Array]]


@dataclass(frozen=True)
class Learner:
    """A model family and its candidates, for a loss."""

    loss: str  # "brier", "log" or "squared"
    values: tuple[float, ...]  # C of the logistic regression, or θ of the ridge regression
    n_centres: int = 50  # of uLSIF, for the paper's methods

    @property
    def classes(self) -> bool:
        """Whether the outcome is 0 or 1."""
        return self.loss != "squared"

    def options(self, powers: Sequence[float]) -> dict[str, Any]:
        """Model, candidates and loss for `fedcsa.FedCSA`, with training weights r^γ."""
        name = "C" if self.classes else "penalty"
        candidates = {name: list(self.values), "ratio_power": list(powers)}
        model = LogisticRegression(solver="newton-cholesky") if self.classes else "ridge"
        return {"model": model, "candidates": candidates, "loss": self.loss}

    def alone(self, value: float, n_rows: int) -> Any:
        """A scikit-learn model for rows in one place."""
        if self.classes:
            model = LogisticRegression(C=value, solver="newton-cholesky")
        else:
            model = Ridge(alpha=max(value * n_rows, 1e-9))
        return make_pipeline(StandardScaler(), model)

    def losses(self, prediction: Array, y: Array) -> Array:
        """One number a row."""
        if self.loss == "log":
            p = np.clip(prediction, 1e-12, 1.0 - 1e-12)
            found: Array = -np.log(np.where(y > 0.5, p, 1.0 - p))
            return found
        squared: Array = (prediction - y) ** 2
        return squared


@dataclass(frozen=True)
class Answer:
    """What a method tells the target."""

    prediction: Array = field(repr=False)  # for the target's rows
    promised: float | None = None
    interval: tuple[float, float] | None = None
    verdict: str = ""


def answers(
    sources: Sources, X: Array, learner: Learner, seed: int, public_sd: Any, level: float
) -> dict[str, Answer]:
    """The default method, the paper's three, pooled rows, a constant.

    The paper's methods are given the target's rows; they fit uLSIF and split every source in
    thirds. Their features are scaled like the default's, and they train without weights.

    Parameters
    ----------
    sources : mapping of str to (X, y)
    X : array of shape (rows, features)
        The target's.
    learner : Learner
    seed : int
    public_sd : sequence of float or None
        Agreed scales of the columns.
    level : float
        Of the interval.
    """
    flags = flags_of([X, *(rows for rows, _ in sources.values())])
    study = Study(sources, X, flags, public_sd)
    told, ours = run_default(study, seed, {**learner.options(POWERS), "level": level})
    interval = None if told["lower"] is None else (told["lower"], told["upper"])
    promised = None if interval is None else told["promised"]
    found = {"default": Answer(guess(ours, X), promised, interval, told["verdict"])}
    paper = {**learner.options([0.0]), "ratio": {"n_centres": learner.n_centres}}
    for method, answer in paper_methods(sources, X, seed, **paper).items():
        found[method] = Answer(_number(answer, X), answer.target_risk)
    found["pooled"] = Answer(_pooled(sources, X, learner, seed))
    mean = float(np.concatenate([y for _, y in sources.values()]).mean())
    found["constant"] = Answer(np.full(len(X), mean))
    return found


def _number(adaptation: fedcsa.Adaptation, X: Array) -> Array:
    """A number a row: the prediction, or the probability of 1."""
    output = adaptation.output(X)
    return output if output.ndim == 1 else output[:, 1]


def _pooled(sources: Sources, X: Array, learner: Learner, seed: int) -> Array:
    """All rows in one place, which is not allowed: a yardstick."""
    rows = np.concatenate([pair[0] for pair in sources.values()])
    y = np.concatenate([pair[1] for pair in sources.values()])
    best = learner.values[int(np.argmin(_cross_validated(rows, y, learner, seed)))]
    return _predict(learner.alone(best, len(y)).fit(rows, y), X, learner)


def own_risk(X: Array, y: Array, learner: Learner, seed: int) -> float:
    """Reference: the cross-validated risk of a model of the site's own, at its best candidate."""
    return float(min(_cross_validated(X, y, learner, seed)))


def _cross_validated(X: Array, y: Array, learner: Learner, seed: int) -> Sequence[float]:
    n_folds, maker = 5, KFold
    if learner.classes:  # every fold must know both classes
        n_folds, maker = max(2, min(5, int(min(y.sum(), (1.0 - y).sum())))), StratifiedKFold
    folds = maker(n_folds, shuffle=True, random_state=seed)
    risks = []
    for value in learner.values:
        model = learner.alone(value, round(len(y) * (1.0 - 1.0 / n_folds)))
        how = "predict_proba" if learner.classes else "predict"
        guess = cross_val_predict(model, X, y, cv=folds, method=how)
        guess = guess[:, 1] if learner.classes else guess
        risks.append(float(learner.losses(guess, y).mean()))
    return risks


def _predict(model: Any, X: Array, learner: Learner) -> Array:
    found: Array = model.predict_proba(X)[:, 1] if learner.classes else model.predict(X)
    return found
