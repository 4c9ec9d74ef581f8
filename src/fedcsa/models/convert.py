"""Fitted scikit-learn estimators in our own formats, with trees on an agreed grid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.errors import ModelError
from fedcsa.models.chosen import Column, Seen, sklearn_name, split_pipeline
from fedcsa.models.inputs import Inputs, begins_with_columns
from fedcsa.models.portable import DesignModel, LinearModel, PortableModel, TreeModel
from fedcsa.models.steps import Steps, width_of, without_nothing
from fedcsa.models.transformers import fold, in_sequence
from fedcsa.models.trees import LEAF, MAX_BIN, MAX_NODES, MAX_TREE_DEPTH, Grid

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
#: Estimators made of trees whose leaves hold means of at least some rows.
AVERAGED_TREES = frozenset(
    f"{name}{kind}"
    for name in ("DecisionTree", "ExtraTree", "RandomForest", "ExtraTrees")
    for kind in ("Regressor", "Classifier")
)
#: Estimators whose trees add up.
BOOSTED_TREES = frozenset(
    f"{name}{kind}"
    for name in ("GradientBoosting", "HistGradientBoosting")
    for kind in ("Regressor", "Classifier")
)
#: All that travel as trees.
TREES = AVERAGED_TREES | BOOSTED_TREES
#: Links of boosting by its loss; of classes, by their number.
BOOSTING_LINKS = {"squared_error": "identity", "poisson": "log", "gamma": "log"}


def seen_columns(
    estimator: Any, inputs: Inputs | None, n_features: int, grid: Array | None = None
) -> tuple[Steps, Seen]:
    """From the study's matrix to what an estimator gets: the steps, and its columns.

    Parameters
    ----------
    estimator : scikit-learn estimator
    inputs : Inputs or None
        None if it gets the matrix as it is.
    n_features : int
        Of the study.
    grid : array of shape (features,), optional
        As `agreed_grid` gives it.
    """
    if inputs is None:
        steps = np.zeros(n_features) if grid is None else grid
        return (), tuple(Column(step=float(step)) for step in steps)
    texts = begins_with_columns(estimator)
    return inputs.steps(texts=texts), inputs.columns(grid, texts=texts)


def made_columns(
    estimator: Any, inputs: Inputs | None, n_features: int, grid: Array | None = None
) -> tuple[Steps, Seen]:
    """All steps before the last estimator, not fitted, and the columns that it gets.

    Parameters
    ----------
    estimator : scikit-learn estimator
        As `fedcsa.models.settling.settle_columns` leaves it.
    inputs : Inputs or None
    n_features : int
    grid : array of shape (features,), optional
    """
    before, columns = seen_columns(estimator, inputs, n_features, grid)
    try:
        steps, columns = in_sequence(split_pipeline(estimator)[0], columns, fitted=False)
    except ModelError:
        raise
    except (IndexError, TypeError, ValueError):
        raise ModelError(
            "A model's steps must fit the study's features. Check columns, levels and knots."
        ) from None
    return before + steps, columns


def agreed_steps(estimator: Any, n_features: int, inputs: Inputs | None = None) -> Steps:
    """The steps of a linear model that is not fitted, without the scalers that are folded.

    Parameters
    ----------
    estimator : scikit-learn estimator
        As `fedcsa.models.settling.settle_columns` leaves it.
    n_features : int
        Of the study.
    inputs : Inputs, optional
    """
    steps, _ = made_columns(estimator, inputs, n_features)
    width = width_of(steps, n_features)
    return fold(steps, np.zeros((1, width)), np.zeros(1), n_features)[0]


def to_portable(
    estimator: Any,
    n_classes: int,
    grid: Array | None,
    inputs: Inputs | None = None,
    n_features: int | None = None,
) -> PortableModel:
    """The fitted estimator in our own format.

    A tree, a forest or boosting must have been fitted behind `fedcsa.models.estimators.Rounded`;
    the model that comes back takes the study's matrix itself.

    Parameters
    ----------
    estimator : fitted scikit-learn estimator
        One that `fedcsa.models.allowed.objection` has nothing against.
    n_classes : int
        Of the study's outcome; 0 for numbers.
    grid : array of shape (features,) or None
        As `agreed_grid` gives it; only trees need it.
    inputs : Inputs, optional
        What it got of the study's matrix.
    n_features : int, optional
        Of the study; by default as many as the estimator got.

    Raises
    ------
    ModelError
        With the estimator's name if there is no format for it.
    """
    transformers, final = split_pipeline(estimator)
    transformers = [step for step in transformers if type(step).__name__ != "Rounded"]
    name, width = sklearn_name(final), n_features or int(getattr(estimator, "n_features_in_", 0))
    before, columns = seen_columns(estimator, inputs, width, grid)
    if name not in TREES and name not in (LINEAR_CLASSIFIERS if n_classes else LINEAR_REGRESSORS):
        raise ModelError(
            f"{type(final).__name__} has no format of ours. Use an estimator that has one."
        )
    steps, columns = in_sequence(transformers, columns, fitted=True)
    steps = before + steps
    if name in TREES and grid is not None:
        return _trees(final, n_classes, without_nothing(steps, width), columns)
    if name in TREES:
        raise ModelError(f"{name} has a format of ours only on an agreed grid.")
    coefficients = np.atleast_2d(final.coef_).astype(np.float64)
    intercept = np.ravel(final.intercept_).astype(np.float64)
    intercept = np.resize(intercept, len(coefficients))  # one 0 where none was fitted
    link, classes = linear_link(name, _codes(final, n_classes))
    if len(coefficients) != (len(classes) if link == "softmax" else 1):
        raise ModelError(f"{name} must be fitted to one outcome. Give it a single column.")
    steps, coefficients, intercept = fold(steps, coefficients, intercept, width)
    if not steps and link in ("identity", "logistic") and n_classes in (0, 2):
        return LinearModel(coefficients[0], float(intercept[0]), link)
    return DesignModel(coefficients, intercept, link, steps, classes, n_classes)


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


def _codes(estimator: Any, n_classes: int) -> tuple[int, ...]:
    """Codes of the classes that a classifier was fitted on.

    Parameters
    ----------
    estimator : fitted scikit-learn estimator
    n_classes : int
        0 for a regressor.
    """
    return tuple(int(code) for code in estimator.classes_) if n_classes else ()


# Trees ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OneTree:
    """A tree's nodes; the first is the root.

    Attributes
    ----------
    left, right : array of int of shape (nodes,)
        Children; `LEAF` on the left of a leaf.
    feature : array of int of shape (nodes,)
        Of a split.
    threshold : array of shape (nodes,)
        Of a split: values up to it go left.
    value : array of shape (nodes, columns)
        Of a leaf.
    missing_left : array of shape (nodes,), optional
        Of a split: whether an empty cell goes left.
    """

    left: NDArray[Any]
    right: NDArray[Any]
    feature: NDArray[Any]
    threshold: Array
    value: Array
    missing_left: NDArray[Any] | None = None


def _trees(estimator: Any, n_classes: int, steps: Steps, columns: Seen) -> TreeModel:
    """A fitted tree, forest or boosting, on the agreed grid.

    Parameters
    ----------
    estimator : fitted scikit-learn estimator
    n_classes : int
    steps : Steps
        Before it.
    columns : tuple of Column
        That the steps give.
    """
    trees, base, combine, link, classes = read_trees(estimator, n_classes)
    feature, threshold, missing_left, value = joined_nodes(trees, " or a larger min_samples_leaf")
    return TreeModel(
        Grid(np.array([column.step for column in columns])), feature,
        np.clip(np.floor(threshold), -MAX_BIN, MAX_BIN).astype(np.int32), value,
        base, combine, link, classes, n_classes, steps,
        missing_left if any(column.missing for column in columns) else None,
    )  # fmt: skip


def read_trees(
    estimator: Any, n_classes: int
) -> tuple[Iterator[OneTree], Array, str, str, tuple[int, ...]]:
    """The trees of scikit-learn's, what is added to them, how they are combined, link and classes.

    Parameters
    ----------
    estimator : fitted scikit-learn estimator
        One of `TREES`.
    n_classes : int
    """
    name, classes = sklearn_name(estimator), _codes(estimator, n_classes)
    if name in AVERAGED_TREES:
        members = getattr(estimator, "estimators_", [estimator])
        trees = (_read_tree(tree.tree_, 1.0, classes, n_classes) for tree in members)
        link = "probabilities" if n_classes else "identity"
        return trees, np.zeros(n_classes or 1), "mean", link, ()
    link = boosting_link(str(estimator.loss), len(classes))
    if name.startswith("Hist"):
        base = np.ravel(estimator._baseline_prediction)
        return _read_hist(estimator), base.astype(np.float64), "sum", link, classes
    rate = float(estimator.learning_rate)
    trees = (_read_tree(tree.tree_, rate) for tree in estimator.estimators_.ravel())
    base = np.ravel(estimator._raw_predict_init(np.zeros((1, estimator.n_features_in_))))
    return trees, base.astype(np.float64), "sum", link, classes


def boosting_link(loss: str, n_codes: int) -> str:
    """Link of boosting.

    Parameters
    ----------
    loss : str
        Of the estimator.
    n_codes : int
        How many classes it was fitted on; 0 for numbers.
    """
    if not n_codes:
        return BOOSTING_LINKS[loss]
    return "logistic" if n_codes == 2 else "softmax"


def joined_nodes(
    trees: Iterable[OneTree], advice: str = ""
) -> tuple[NDArray[np.int32], Array, NDArray[np.int32], Array]:
    """All trees one after the other, each in preorder.

    Features of all nodes, thresholds and ways of empty cells of all splits, values of all leaves.

    Parameters
    ----------
    trees : iterable of OneTree
    advice : str
        What else to do about too many nodes.
    """
    features, thresholds, lefts, values, nodes = [], [], [], [], 0
    for tree in trees:
        order = preorder(tree.left, tree.right)
        nodes += len(order)
        if nodes > MAX_NODES:
            raise ModelError(
                f"A model must have at most {MAX_NODES} nodes. Use fewer trees{advice}."
            )
        leaf = tree.left[order] == LEAF
        features.append(np.where(leaf, LEAF, tree.feature[order]))
        thresholds.append(tree.threshold[order][~leaf])
        ways = np.zeros(len(tree.left)) if tree.missing_left is None else tree.missing_left
        lefts.append(ways[order][~leaf])
        values.append(tree.value[order][leaf])
    feature, left = (np.concatenate(own).astype(np.int32) for own in (features, lefts))
    return feature, np.concatenate(thresholds), left, np.concatenate(values).astype(np.float64)


def _read_tree(
    tree: Any, factor: float, classes: Sequence[int] = (), n_classes: int = 0
) -> OneTree:
    """The nodes of scikit-learn's `Tree`.

    Parameters
    ----------
    tree : Tree
    factor : float
        By which leaves are multiplied.
    classes : sequence of int
        Codes of its columns, for probabilities.
    n_classes : int
    """
    value = factor * tree.value[:, 0, :]
    if n_classes:
        full = np.zeros((len(value), n_classes))
        full[:, list(classes)] = value / value.sum(axis=1, keepdims=True)
        value = full
    children = tree.children_left, tree.children_right
    return OneTree(*children, tree.feature, tree.threshold, value, tree.missing_go_to_left)


def _read_hist(estimator: Any) -> Iterator[OneTree]:
    """The nodes of every tree of HistGradientBoosting, round by round, class by class."""
    for predictor in (p for turn in estimator._predictors for p in turn):
        nodes = predictor.nodes
        left = np.where(nodes["is_leaf"] == 1, LEAF, nodes["left"].astype(np.int64))
        yield OneTree(
            left, nodes["right"], nodes["feature_idx"], nodes["num_threshold"],
            nodes["value"][:, None], nodes["missing_go_to_left"],
        )  # fmt: skip


def preorder(left: NDArray[Any], right: NDArray[Any]) -> list[int]:
    """The nodes of one tree in preorder.

    Parameters
    ----------
    left, right : array of int of shape (nodes,)
        Children; `LEAF` on the left of a leaf.
    """
    lefts, rights = left.tolist(), right.tolist()
    found, todo = [], [(0, 0)]
    while todo:
        node, depth = todo.pop()
        if depth > MAX_TREE_DEPTH:
            raise ModelError(f"A tree must be at most {MAX_TREE_DEPTH} deep. Set max_depth.")
        found.append(node)
        if len(found) > len(lefts):  # a node that is reached twice doubles all below it
            raise ModelError("A tree must reach every node once; this one does not.")
        if lefts[node] != LEAF:
            todo += [(rights[node], depth + 1), (lefts[node], depth + 1)]
    return found
