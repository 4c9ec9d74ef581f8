"""The final model for use elsewhere: a formula in raw units, or a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.errors import ModelError
from fedcsa.models.correction import Correction
from fedcsa.models.given import Formula, Term
from fedcsa.models.linear_format import LinearModel, Lines

#: Links of ours as a formula calls them.
_LINKS = {"identity": "identity", "logistic": "logit"}


def corrected_lines(
    weights: Array, lines: Lines, correction: Correction, mean: Array, sd: Array
) -> tuple[Array, Lines]:
    """One line that predicts what the corrected mixture does, with a weight of one.

    Parameters
    ----------
    weights : array of shape (lines,)
    lines : Lines
        In raw units.
    correction : Correction
    mean, sd : array of shape (features,)
        Of the target: in these units the correction's coefficients are.
    """
    line = lines.mean(weights)
    if line is None:
        raise ModelError(
            "A corrected mean of several probabilities is not a linear model, so it cannot be "
            "exported. The result folder predicts with it: fedcsa predict."
        )
    further = np.zeros(len(mean))
    if correction.coefficients:
        further = np.array(correction.coefficients) / sd
    moved = correction.slope * line.coefficients + further
    at_zero = correction.intercept + correction.slope * line.intercept - float(further @ mean)
    return np.ones(1), Lines(moved[None], np.array([at_zero]), line.link)


def formula_of_lines(weights: Array, lines: Lines, features: Sequence[str]) -> Formula:
    """One formula that predicts what the lines' mixture does.

    Parameters
    ----------
    weights : array of shape (lines,)
    lines : Lines
        In raw units.
    features : sequence of str
    """
    line = lines.mean(weights)
    if line is None:
        raise ModelError(
            "A mean of several probabilities is not a formula, so this model cannot be written as "
            "one. In Python, Adaptation.estimator() exports it."
        )
    terms = zip(features, line.coefficients.tolist(), strict=True)
    return Formula(tuple(Term(n, b) for n, b in terms), line.intercept, _LINKS[line.link])


def estimator_of_lines(
    weights: Array, lines: Lines, features: Sequence[str], classes: Sequence[Any]
) -> Any:
    """A fitted scikit-learn estimator that predicts what the lines' mixture does.

    Parameters
    ----------
    weights : array of shape (lines,)
    lines : Lines
        In raw units.
    features : sequence of str
    classes : sequence
        Labels of the outcome; empty for a number.
    """
    from sklearn.ensemble import VotingClassifier
    from sklearn.linear_model import LinearRegression
    from sklearn.preprocessing import LabelEncoder

    names = np.asarray(features, dtype=object)
    if not len(classes):
        formula = formula_of_lines(weights, lines, features)
        slopes = np.array([term.coefficient for term in formula.terms])
        return _fitted(LinearRegression(), names, coef_=slopes, intercept_=formula.intercept)
    labels = np.asarray(classes)
    if len(lines) == 1:
        return _logistic(lines[0], names, labels)
    members = [_logistic(line, names, np.arange(len(labels))) for line in lines]
    named = [(f"source-{k + 1}", member) for k, member in enumerate(members)]
    voting = VotingClassifier(named, voting="soft", weights=weights.tolist())
    coder = LabelEncoder()
    coder.classes_ = labels
    return _fitted(voting, names, estimators_=members, le_=coder, classes_=labels)


def _logistic(line: LinearModel, names: Any, labels: Any) -> Any:
    """A fitted logistic regression.

    Parameters
    ----------
    line : LinearModel
    names, labels : array
        Of the features, and of the classes.
    """
    from sklearn.linear_model import LogisticRegression

    slopes, intercept = line.coefficients[None], np.array([line.intercept])
    empty = LogisticRegression()
    return _fitted(empty, names, coef_=slopes, intercept_=intercept, classes_=labels)


def _fitted(estimator: Any, names: Any, **learnt: Any) -> Any:
    """The estimator as if it had been fitted.

    Parameters
    ----------
    estimator : scikit-learn estimator
    names : array of str
        Of the features.
    **learnt : object
        Its attributes.
    """
    for key, value in learnt.items():
        setattr(estimator, key, value)
    if "estimators_" not in learnt:  # a mixture passes on what it is given
        estimator.feature_names_in_, estimator.n_features_in_ = names, len(names)
    return estimator
