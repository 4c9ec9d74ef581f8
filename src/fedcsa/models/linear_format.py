"""The formats of linear models: a line, or a line behind agreed steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, overload

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.errors import ModelError
from fedcsa.models.chosen import codes_of, only, sklearn_name
from fedcsa.models.description import (
    check_link,
    damaged,
    exactly,
    known_classes,
    must_agree,
    no_format,
    take,
)
from fedcsa.models.portable import QUIET, Arrays, Before, FittedRows, Form, Format, in_parts, linked
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
#: Larger predictions are all the same, so that sums of them are finite.
_LARGEST_COUNT = 1e200


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
        slopes, intercepts, links = list[Array](), list[float](), set[str]()
        for model in models:
            if not isinstance(model, LinearModel):
                return None
            slopes.append(model.coefficients)
            intercepts.append(model.intercept)
            links.add(model.link)
        return cls(np.array(slopes), np.array(intercepts), *links) if len(links) == 1 else None

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


def agreed_steps(before: Before) -> Steps:
    """The steps of a model that is not fitted, without the scalers that are folded."""
    width = width_of(before.steps, before.n_features)
    return fold(before.steps, np.zeros((1, width)), np.zeros(1), before.n_features)[0]


def _objection(estimator: Any, transformers: Sequence[Any]) -> str:  # noqa: ARG001 - any may
    """What is wrong with the parameters of a linear estimator: few rows must not decide it.

    Parameters
    ----------
    estimator : scikit-learn estimator
    transformers : sequence of scikit-learn transformers
        Before it; all that have agreed steps may stand there.
    """
    name = sklearn_name(estimator)
    if name == "HuberRegressor" and not estimator.epsilon >= _LEAST_EPSILON:
        return only(name, f"with epsilon={_LEAST_EPSILON} or more", "Set that")
    if not getattr(estimator, "refit", True):  # else it is of folds, which may be of few rows
        return only(name, "fitted to all rows", "Use refit=True")
    return ""


def _converted(estimator: Any, before: Before, n_classes: int) -> LinearModel | DesignModel:
    """The coefficients, with the scalers before them taken in.

    Parameters
    ----------
    estimator : fitted scikit-learn estimator
    before : Before
    n_classes : int
    """
    name = sklearn_name(estimator)
    if name not in (LINEAR_CLASSIFIERS if n_classes else LINEAR_REGRESSORS):
        raise no_format(estimator)
    coefficients = np.atleast_2d(estimator.coef_).astype(np.float64)
    intercept = np.ravel(estimator.intercept_).astype(np.float64)
    intercept = np.resize(intercept, len(coefficients))  # one 0 where none was fitted
    link, classes = linear_link(name, codes_of(estimator, n_classes))
    if len(coefficients) != (len(classes) if link == "softmax" else 1):
        raise ModelError(f"{name} must be fitted to one outcome. Give it a single column.")
    steps, coefficients, intercept = fold(before.steps, coefficients, intercept, before.n_features)
    if _is_plain(steps, link, n_classes):
        return LinearModel(coefficients[0], float(intercept[0]), link)
    return DesignModel(coefficients, intercept, link, steps, classes, n_classes)


def _is_plain(steps: Steps, link: str, n_classes: int) -> bool:
    """Whether a line says it all.

    Parameters
    ----------
    steps : Steps
        That are left.
    link : str
    n_classes : int
    """
    return not steps and link in ("identity", "logistic") and n_classes in (0, 2)


def _compared(form: Form, arrays: Arrays, estimator: Any, before: Before, n_classes: int) -> None:
    """Compare a linear model with what was agreed.

    Parameters
    ----------
    form : mapping
    arrays : mapping of str to array
    estimator : scikit-learn estimator
    before : Before
    n_classes : int
    """
    steps, classes = agreed_steps(before), known_classes(form, n_classes)
    link = linear_link(sklearn_name(estimator), classes)[0]
    plain = _is_plain(steps, link, n_classes)
    must_agree(form["kind"] == ("linear" if plain else "design"), "format")
    must_agree(form["link"] == link, "link")
    if not plain:
        check_steps(form, arrays, steps)


def outcome_shares(model: LinearModel | DesignModel, rows: FittedRows) -> Array:
    """The leverage h of every row.

    Under a log link a count counts as much as is expected of it, and the row of the largest may
    decide alone; a class counts p(1 − p), and of rare ones the row with the largest p may. The
    largest of these leverages is taken, with such weights and without.

    Parameters
    ----------
    model : LinearModel or DesignModel
    rows : FittedRows
    """
    columns = partial(apply_steps, model.steps if isinstance(model, DesignModel) else ())
    shares = rows.leverages(columns)
    if model.link == "identity":
        return shares
    n_outputs = max(model.n_classes, 1) if isinstance(model, DesignModel) else 2
    outputs = [partial(_varies, model, k) for k in range(n_outputs)]
    weighted = [rows.leverages(columns, varies) for varies in outputs]
    largest: Array = np.maximum.reduce([shares, *weighted])
    return largest


def _varies(model: LinearModel | DesignModel, output: int, X: Array) -> Array:
    """How much outcomes vary by chance around what the model expects, shape (rows,).

    Parameters
    ----------
    model : LinearModel or DesignModel
        With a link: of counts, or of classes.
    output : int
        Of counts 0, else the class.
    X : array of shape (rows, features)
    """
    expected = np.minimum(model.predict(X), _LARGEST_COUNT)
    varies: Array = expected[:, None] if model.link == "log" else expected * (1.0 - expected)
    return varies[:, output]


def _shares(model: LinearModel | DesignModel, rows: FittedRows) -> Array:
    """The larger share of every row: in its own prediction, or in the variance of the outcomes.

    Parameters
    ----------
    model : LinearModel or DesignModel
    rows : FittedRows
    """
    return np.maximum(outcome_shares(model, rows), rows.variance_shares())


def _n_columns(before: Before) -> int:
    """Coefficients of one output."""
    return width_of(agreed_steps(before), before.n_features)


def _placed(
    model: LinearModel | DesignModel, places: Sequence[int], n_features: int
) -> LinearModel | DesignModel:
    """The model where its columns have other places.

    Parameters
    ----------
    model : LinearModel or DesignModel
    places : sequence of int
        Of its columns.
    n_features : int
    """
    if isinstance(model, DesignModel):
        return replace(model, steps=((Part("keep", tuple(places)),), *model.steps))
    slopes = np.zeros(n_features)
    slopes[list(places)] = model.coefficients
    return replace(model, coefficients=slopes)


LINE_FORMAT = Format(
    estimators=(*LINEAR_REGRESSORS, *LINEAR_CLASSIFIERS),
    arrays={
        "coefficients": "coefficients of the model's columns",
        "intercept": "what is added to every prediction",
    },
    objection=_objection,
    converted=_converted,
    opened=LinearModel.opened,
    compared=_compared,
    shares=_shares,
    n_columns=_n_columns,
    placed=_placed,
    folds_scalers=True,
)
#: The same estimators, where a line does not say it all.
DESIGN_FORMAT = replace(LINE_FORMAT, opened=DesignModel.opened)
