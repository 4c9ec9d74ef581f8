"""Linear models as arrays: a line, or a line behind agreed steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.models.chosen import only
from fedcsa.models.description import check_link, damaged, exactly, known_classes, must_agree, take
from fedcsa.models.portable import QUIET, Arrays, Form, in_parts, linked
from fedcsa.models.steps import (
    Part,
    Steps,
    apply_steps,
    check_steps,
    open_steps,
    steps_arrays,
    steps_form,
    widest_of,
    width_of,
)

#: Regressors whose score is exactly b₀ + xᵀb, and what turns it into a prediction. Only such as are
#: fitted to all rows at once: SGDRegressor may end with a single row, TheilSenRegressor pass
#: through a few.
LINEAR_REGRESSORS = dict.fromkeys(
    (
        "ARDRegression", "BayesianRidge", "ElasticNet", "ElasticNetCV", "HuberRegressor", "Lars",
        "LarsCV", "Lasso", "LassoCV", "LassoLars", "LassoLarsCV", "LassoLarsIC",
        "LinearRegression", "OrthogonalMatchingPursuit", "Ridge", "RidgeCV",
    ),
    "identity",
) | {"GammaRegressor": "log", "PoissonRegressor": "log"}  # fmt: skip
#: Classifiers whose log-odds are exactly that.
LINEAR_CLASSIFIERS = frozenset({"LogisticRegression", "LogisticRegressionCV"})
#: Scikit-learn's own; towards 1 the fit passes through as many rows as it has coefficients.
_LEAST_EPSILON = 1.35


@dataclass(frozen=True)
class LinearModel:
    """b₀ + xᵀb, or for two classes the probability with that log-odds."""

    coefficients: Array
    intercept: float
    link: str = "identity"

    def __repr__(self) -> str:
        return f"LinearModel({len(self.coefficients)} coefficients, link={self.link!r})"

    @property
    def form(self) -> Form:
        """Its words."""
        return {"kind": "linear", "link": self.link}

    @property
    def arrays(self) -> Arrays:
        """Its numbers."""
        return {"coefficients": self.coefficients, "intercept": np.array([self.intercept])}

    @QUIET
    def predict(self, X: Array) -> Array:
        """Predict every row."""
        score: Array = X @ self.coefficients + self.intercept
        return score if self.link == "identity" else linked(score[:, None], self.link, (0, 1), 2)

    @classmethod
    def opened(cls, form: Form, arrays: Arrays, n_features: int, n_classes: int) -> LinearModel:
        """The model of a message, checked.

        Parameters
        ----------
        form : mapping
        arrays : mapping of str to array
        n_features : int
        n_classes : int
        """
        exactly(form, ("kind", "link"), "words")
        exactly(arrays, ("coefficients", "intercept"), "arrays")
        if n_classes not in (0, 2) or form["link"] != ("logistic" if n_classes else "identity"):
            raise damaged("a link of the study's outcome")
        coefficients = take(arrays, "coefficients", np.float64, (n_features,))
        [intercept] = take(arrays, "intercept", np.float64, (1,))
        return cls(coefficients, float(intercept), form["link"])


@dataclass(frozen=True, eq=False)
class Lines(Sequence[LinearModel]):
    """Lines of one link, as two arrays: a thousand of them are handled at once.

    Attributes
    ----------
    coefficients : array of shape (lines, features)
    intercepts : array of shape (lines,)
    link : str
        As of `LinearModel`.
    """

    coefficients: Array = field(repr=False)
    intercepts: Array = field(repr=False)
    link: str = "identity"

    @classmethod
    def of(cls, models: Sequence[object]) -> Lines | None:
        """Models as lines; None if there is none, or they are not all lines of one link."""
        if isinstance(models, cls):
            return models
        lines = [model for model in models if isinstance(model, LinearModel)]
        if not lines or len(lines) < len(models) or len({line.link for line in lines}) > 1:
            return None
        slopes = np.array([line.coefficients for line in lines])
        return cls(slopes, np.array([line.intercept for line in lines]), lines[0].link)

    def __len__(self) -> int:
        return len(self.intercepts)

    @overload
    def __getitem__(self, index: int) -> LinearModel: ...
    @overload
    def __getitem__(self, index: slice) -> Lines: ...
    def __getitem__(self, index: int | slice) -> LinearModel | Lines:
        if isinstance(index, slice):
            return Lines(self.coefficients[index], self.intercepts[index], self.link)
        slopes = np.ascontiguousarray(self.coefficients[index])
        return LinearModel(slopes, float(self.intercepts[index]), self.link)

    def mean(self, weights: Array) -> LinearModel | None:
        """The line that predicts the weighted mean of what they predict; None if none does.

        Parameters
        ----------
        weights : array of shape (lines,)
            They need not sum to one. Of probabilities there may be one line alone.

        Examples
        --------
        >>> lines = Lines(np.array([[1.0], [3.0]]), np.array([0.0, 1.0]))
        >>> lines.mean(np.array([0.5, 0.5])).predict(np.array([[1.0]]))
        array([2.5])
        """
        if len(self.intercepts) > 1 and self.link != "identity":
            return None
        share = weights / weights.sum()
        intercept = float(share @ self.intercepts)
        return LinearModel(share @ self.coefficients, intercept, self.link)


@dataclass(frozen=True)
class DesignModel:
    """Linear in the columns that agreed steps make of the features, with a link.

    Attributes
    ----------
    coefficients : array of shape (outputs, columns)
    intercept : array of shape (outputs,)
    link : {"identity", "log", "logistic", "softmax"}
    steps : Steps
    classes : tuple of int
        Codes of the classes that the scores are about.
    n_classes : int
        Of the study's outcome; 0 for numbers.
    """

    coefficients: Array = field(repr=False)
    intercept: Array = field(repr=False)
    link: str
    steps: Steps = field(default=(), repr=False)
    classes: tuple[int, ...] = ()
    n_classes: int = 0

    @property
    def form(self) -> Form:
        """Its words."""
        steps, classes = steps_form(self.steps), list(self.classes)
        return {"kind": "design", "link": self.link, "steps": steps, "classes": classes}

    @property
    def arrays(self) -> Arrays:
        """Its numbers."""
        own = {"coefficients": self.coefficients, "intercept": self.intercept}
        return {**own, **steps_arrays(self.steps)}

    @QUIET
    def predict(self, X: Array) -> Array:
        """Predict every row, as many at a time as make a design of bounded size."""
        scores = in_parts(self.scores, X, widest_of(self.steps, X.shape[1]))
        return linked(scores, self.link, self.classes, self.n_classes)

    def scores(self, X: Array) -> Array:
        """What the link is applied to, of shape (rows, outputs)."""
        scores: Array = apply_steps(self.steps, X) @ self.coefficients.T + self.intercept
        return scores

    @classmethod
    def opened(cls, form: Form, arrays: Arrays, n_features: int, n_classes: int) -> DesignModel:
        """The model of a message, checked.

        Parameters
        ----------
        form : mapping
        arrays : mapping of str to array
        n_features : int
        n_classes : int
        """
        exactly(form, ("kind", "link", "steps", "classes"), "words")
        link, classes = check_link(form, n_classes)
        if link == "probabilities":
            raise damaged("a link of its format")
        steps = open_steps(form["steps"], arrays, n_features)
        exactly(arrays, ("coefficients", "intercept", *steps_arrays(steps)), "arrays")
        outputs = len(classes) if link == "softmax" else 1
        shape = outputs, width_of(steps, n_features)
        coefficients = take(arrays, "coefficients", np.float64, shape)
        intercept = take(arrays, "intercept", np.float64, (outputs,))
        return cls(coefficients, intercept, link, steps, classes, n_classes)


def linear_link(name: str, classes: Sequence[int]) -> tuple[str, tuple[int, ...]]:
    """Link of a linear estimator, and the classes that its scores are about.

    Parameters
    ----------
    name : str
        Of the class.
    classes : sequence of int
        Codes that it was fitted on; none for numbers.
    """
    if not classes:
        return LINEAR_REGRESSORS[name], ()
    return ("logistic" if len(classes) == 2 else "softmax"), tuple(classes)


def fold(
    steps: Steps, coefficients: Array, intercept: Array, n_features: int
) -> tuple[Steps, Array, Array]:
    """Take the last scalers into the coefficients, so that nothing of them leaves.

    Parameters
    ----------
    steps : Steps
    coefficients : array of shape (outputs, columns)
    intercept : array of shape (outputs,)
    n_features : int
    """
    while steps:
        coefficients, intercept = _unscaled(steps[-1], coefficients, intercept)
        kept = [replace(p, kind="keep", arrays={}) if p.kind == "affine" else p for p in steps[-1]]
        places = [place for part in kept for place in part.columns]
        width = width_of(steps[:-1], n_features)
        left_out = len(set(places)) < width  # whose empty cells times 0 would still be empty
        before = [part for parts in steps[:-1] for part in parts]
        empty = any(part.kind == "gaps" or part.words.get("marked") for part in before)
        if any(part.kind != "keep" for part in kept) or (left_out and empty):
            return (*steps[:-1], tuple(kept)), coefficients, intercept
        steps = steps[:-1]
        onto = np.zeros((len(coefficients), width))
        for place, slope in zip(places, coefficients.T, strict=True):
            onto[:, place] += slope
        coefficients = onto
    return steps, coefficients, intercept


def _unscaled(parts: Sequence[Part], coefficients: Array, intercept: Array) -> tuple[Array, Array]:
    """Coefficients and intercept as if the scalers among the last parts did nothing.

    Parameters
    ----------
    parts : sequence of Part
    coefficients : array of shape (outputs, columns)
    intercept : array of shape (outputs,)
    """
    start, coefficients = 0, coefficients.copy()
    for part in parts:
        stop = start + part.width
        if part.kind == "affine":
            own = coefficients[:, start:stop] / part.arrays["scale"]
            intercept = intercept - own @ part.arrays["shift"]
            coefficients[:, start:stop] = own
        start = stop
    return coefficients, intercept


def linear_objection(estimator: Any, name: str) -> str:
    """What is wrong with the parameters of a linear estimator: few rows must not decide it.

    Parameters
    ----------
    estimator : scikit-learn estimator
    name : str
        Of its class.
    """
    if name == "HuberRegressor" and not estimator.epsilon >= _LEAST_EPSILON:
        return only(name, f"with epsilon={_LEAST_EPSILON} or more", "Set that")
    if not getattr(estimator, "refit", True):  # else it is of folds, which may be of few rows
        return only(name, "fitted to all rows", "Use refit=True")
    return ""


def check_linear(form: Form, arrays: Arrays, name: str, steps: Steps, n_classes: int) -> None:
    """Compare a linear model with what was agreed.

    Parameters
    ----------
    form : mapping
    arrays : mapping of str to array
    name : str
        Of the linear estimator.
    steps : Steps
        That were agreed.
    n_classes : int
    """
    classes = known_classes(form, n_classes)
    link = linear_link(name, classes)[0]
    plain = not steps and link in ("identity", "logistic") and n_classes in (0, 2)
    must_agree(form["kind"] == ("linear" if plain else "design"), "format")
    must_agree(form["link"] == link, "link")
    if not plain:
        check_steps(form, arrays, steps)
