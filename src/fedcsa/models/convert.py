"""Fitted scikit-learn estimators in our own formats, with trees on an agreed grid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.errors import ModelError
from fedcsa.models.portable import DesignModel, LinearModel, PortableModel, TreeModel
from fedcsa.models.steps import MAX_COLUMNS, Part, Steps, steps_of_parts, width_of
from fedcsa.models.trees import LEAF, MAX_BIN, MAX_NODES, MAX_TREE_DEPTH, Grid

#: Steps of the grid in a target's sd: far too coarse for a threshold to stand between two patients,
#: and fine enough to cost 1 to 4 % of the squared error on Friedman's functions, 300 to 1,000 rows.
STEPS_PER_SD = 8
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
#: Scalers that hold means and sds, and those that hold cells: the smallest, the largest, a median.
MEAN_SCALERS = frozenset({"StandardScaler"})
CELL_SCALERS = frozenset({"MaxAbsScaler", "MinMaxScaler", "RobustScaler"})


def sklearn_name(estimator: Any) -> str:
    """The class's name if it is scikit-learn's own, else ""."""
    cls = type(estimator)
    return cls.__name__ if cls.__module__.split(".")[0] == "sklearn" else ""


def agreed_grid(sd: Array, *, scale: bool) -> Array:
    """The step of thresholds per feature, in the units in which models see the features.

    Follows from the brief alone (`brief.sd`, `brief.scale`).

    Parameters
    ----------
    sd : array of shape (features,)
        The target's standard deviations.
    scale : bool
        Whether models see features in units of the target's sds.

    Returns
    -------
    array of shape (features,)

    Examples
    --------
    >>> agreed_grid(np.array([4.0, 0.5]), scale=False)
    array([0.5   , 0.0625])
    >>> agreed_grid(np.array([4.0, 0.5]), scale=True)
    array([0.125, 0.125])
    """
    return np.asarray((np.ones(len(sd)) if scale else sd) / STEPS_PER_SD)


def to_portable(estimator: Any, n_classes: int, grid: Array | None) -> PortableModel:
    """The fitted estimator in our own format.

    A tree, a forest or boosting must have been fitted on ``to_bins(X, grid)``; the model that
    comes back takes X itself.

    Parameters
    ----------
    estimator : fitted scikit-learn estimator
        One that `fedcsa.models.allowed.objection` has nothing against.
    n_classes : int
        Of the study's outcome; 0 for numbers.
    grid : array of shape (features,) or None
        As `agreed_grid` gives it; only trees need it.

    Raises
    ------
    ModelError
        With the estimator's name if there is no format for it.
    """
    transformers, final = split_pipeline(estimator)
    name, width = sklearn_name(final), int(getattr(estimator, "n_features_in_", 0))
    if name in TREES and grid is not None:
        return _trees(final, n_classes, grid)
    if name not in (LINEAR_CLASSIFIERS if n_classes else LINEAR_REGRESSORS):
        raise ModelError(
            f"{type(final).__name__} has no format of ours. Use an estimator that has one."
        )
    steps = _in_sequence(transformers, width, fitted=True)
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


def split_pipeline(estimator: Any) -> tuple[list[Any], Any]:
    """The transformers of a pipeline, however nested, and its last estimator."""
    if sklearn_name(estimator) != "Pipeline":
        return [], estimator
    inner, final = split_pipeline(estimator.steps[-1][1])
    return [step for _, step in estimator.steps[:-1]] + inner, final


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


# Steps ----------------------------------------------------------------------------------------


def agreed_steps(estimator: Any, n_features: int) -> Steps:
    """The steps of an estimator that is not fitted, with scalers that do nothing yet.

    Parameters
    ----------
    estimator : scikit-learn estimator
    n_features : int
    """
    try:
        steps = _in_sequence(split_pipeline(estimator)[0], n_features, fitted=False)
    except (IndexError, TypeError, ValueError):
        raise ModelError(
            "A model's steps must fit the study's features. Check columns, levels and knots."
        ) from None
    width = width_of(steps, n_features)
    return fold(steps, np.zeros((1, width)), np.zeros(1), n_features)[0]


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
    while steps and all(part.kind in ("keep", "affine") for part in steps[-1]):
        parts, steps = steps[-1], steps[:-1]
        onto = np.zeros((len(coefficients), width_of(steps, n_features)))
        start = 0
        for part in parts:
            own = coefficients[:, start : start + part.width]
            if part.kind == "affine":
                own = own / part.arrays["scale"]
                intercept = intercept - own @ part.arrays["shift"]
            for column, slope in zip(part.columns, own.T, strict=True):
                onto[:, column] += slope
            start += part.width
        coefficients = onto
    return steps, coefficients, intercept


def _in_sequence(transformers: Sequence[Any], width: int, *, fitted: bool) -> Steps:
    """Steps of transformers one after the other.

    Parameters
    ----------
    transformers : sequence of scikit-learn transformers
    width : int
        Columns that come.
    fitted : bool
        Else scalers do nothing yet.
    """
    steps: Steps = ()
    for transformer in transformers:
        own = _steps_of(transformer, width, fitted=fitted)
        width = width_of(own, width)
        steps += own
    return steps


def _steps_of(transformer: Any, width: int, *, fitted: bool) -> Steps:
    """Steps of one transformer.

    Parameters
    ----------
    transformer : scikit-learn transformer
    width : int
        Columns that come.
    fitted : bool
    """
    name = sklearn_name(transformer)
    if transformer is None or transformer == "passthrough" or name == "SimpleImputer":
        return ()  # no row of a study has a missing cell
    if name == "Pipeline":
        return _in_sequence([step for _, step in transformer.steps], width, fitted=fitted)
    if name == "ColumnTransformer":
        return _side_by_side(transformer, width, fitted=fitted)
    columns = tuple(range(width))
    if name in MEAN_SCALERS | CELL_SCALERS:
        shift, scale = _affine(transformer, width) if fitted else (np.zeros(width), np.ones(width))
        return ((Part("affine", columns, {}, {"shift": shift, "scale": scale}),),)
    if name == "PolynomialFeatures":
        made = _clone(transformer).fit(np.zeros((1, width)))
        if made.n_output_features_ > MAX_COLUMNS:  # before they are listed
            raise ModelError(
                f"PolynomialFeatures must give at most {MAX_COLUMNS} columns. Lower its degree."
            )
        powers = made.powers_.astype(np.int32)
        return ((Part("powers", columns, {}, {"powers": powers}),),)
    if name == "SplineTransformer":
        bases = _clone(transformer).fit(np.zeros((2, width))).bsplines_
        words = {"degree": int(transformer.degree), "bias": bool(transformer.include_bias)}
        knots = np.array([base.t for base in bases], dtype=np.float64)
        return ((Part("spline", columns, words, {"knots": knots}),),)
    return ((_levels(transformer, columns),),)


def _side_by_side(transformer: Any, width: int, *, fitted: bool) -> Steps:
    """Steps of a ColumnTransformer: first a choice of columns, then its branches.

    Parameters
    ----------
    transformer : ColumnTransformer
    width : int
        Columns that come.
    fitted : bool
    """
    made = {name: branch for name, branch, _ in transformer.transformers_} if fitted else {}
    pairs = [
        (branch if isinstance(branch, str) else made.get(name, branch), _positions(columns, width))
        for name, branch, columns in transformer.transformers
    ]
    rest = sorted(set(range(width)) - {column for _, columns in pairs for column in columns})
    pairs.append((transformer.remainder, rest))
    used = [(branch, columns) for branch, columns in pairs if columns and not _is_drop(branch)]
    chosen = tuple(column for _, columns in used for column in columns)
    widths = [len(columns) for _, columns in used]
    branches = [_steps_of(branch, len(columns), fitted=fitted) for branch, columns in used]
    return ((Part("keep", chosen),), *steps_of_parts(branches, widths))


def _is_drop(branch: Any) -> bool:
    return isinstance(branch, str) and branch == "drop"


def _positions(columns: Any, width: int) -> list[int]:
    """Columns of a ColumnTransformer as a list of their numbers.

    Parameters
    ----------
    columns : int, slice or sequence of int or bool
    width : int
    """
    return [int(column) for column in np.ravel(np.arange(width)[columns])]


def _affine(scaler: Any, width: int) -> tuple[Array, Array]:
    """What a fitted scaler takes off, and by what it divides.

    Parameters
    ----------
    scaler : fitted scikit-learn scaler
    width : int
    """
    scale = getattr(scaler, "scale_", None)
    scale = np.ones(width) if scale is None else np.asarray(scale, dtype=np.float64)
    if sklearn_name(scaler) == "MinMaxScaler":  # x · scale_ + min_
        return np.asarray(-scaler.min_ / scale), 1.0 / scale
    shift = getattr(scaler, "mean_" if sklearn_name(scaler) in MEAN_SCALERS else "center_", None)
    asked = getattr(scaler, "with_mean", True) and shift is not None
    return np.asarray(shift, dtype=np.float64) if asked else np.zeros(width), scale


def _levels(encoder: Any, columns: tuple[int, ...]) -> Part:
    """An encoder of agreed levels.

    Parameters
    ----------
    encoder : OneHotEncoder or OrdinalEncoder
    columns : tuple of int
    """
    lists = [np.asarray(levels, dtype=np.float64) for levels in encoder.categories]
    codes, drop = sklearn_name(encoder) == "OrdinalEncoder", getattr(encoder, "drop", None)
    first = [0 if drop == "first" or (drop and len(levels) == 2) else -1 for levels in lists]
    words = {"codes": codes, "unknown": encoder.handle_unknown}
    sizes = np.array([len(levels) for levels in lists], np.int32)
    dropped = np.array(first, np.int32)
    arrays: dict[str, NDArray[Any]] = {
        "levels": np.concatenate(lists),
        "sizes": sizes,
        "dropped": dropped,
    }
    return Part("levels", columns, words, arrays)


def _clone(transformer: Any) -> Any:
    from sklearn.base import clone

    return clone(transformer)


# Trees ----------------------------------------------------------------------------------------


def _trees(estimator: Any, n_classes: int, grid: Array) -> TreeModel:
    """A fitted tree, forest or boosting.

    Parameters
    ----------
    estimator : fitted scikit-learn estimator
    n_classes : int
    grid : array of shape (features,)
    """
    name, classes = sklearn_name(estimator), _codes(estimator, n_classes)
    if name.startswith("Hist"):
        read, base = _read_hist(estimator), np.ravel(estimator._baseline_prediction)
    elif name in BOOSTED_TREES:
        rate = float(estimator.learning_rate)
        read = (_read_tree(t.tree_, rate) for t in estimator.estimators_.ravel())
        zeros = np.zeros((1, estimator.n_features_in_))
        base = np.ravel(estimator._raw_predict_init(zeros))
    else:
        members = getattr(estimator, "estimators_", [estimator])
        read = (_read_tree(tree.tree_, 1.0, classes, n_classes) for tree in members)
        base = np.zeros(n_classes or 1)
    feature, threshold, value = _joined(read)
    averaged = name in AVERAGED_TREES
    link = "probabilities" if averaged and n_classes else "identity"
    if not averaged:
        link = boosting_link(str(estimator.loss), len(classes))
    return TreeModel(
        Grid(np.asarray(grid, dtype=np.float64)), feature, threshold, value,
        base.astype(np.float64), "mean" if averaged else "sum", link,
        () if averaged else classes, n_classes,
    )  # fmt: skip


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


#: Features, thresholds in bins and values of one tree's nodes in preorder.
_Tree = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


def _joined(trees: Iterator[_Tree]) -> tuple[NDArray[np.int32], NDArray[np.int32], Array]:
    """All trees one after the other: features, thresholds of splits, values of leaves.

    Parameters
    ----------
    trees : iterator of arrays
    """
    features, thresholds, values, nodes = [], [], [], 0
    for feature, threshold, value in trees:
        nodes += len(feature)
        if nodes > MAX_NODES:
            raise ModelError(
                f"A model must have at most {MAX_NODES} nodes. "
                "Use fewer trees or a larger min_samples_leaf."
            )
        split = feature != LEAF
        features.append(feature)
        thresholds.append(np.clip(np.floor(threshold[split]), -MAX_BIN, MAX_BIN))
        values.append(value[~split])
    joined = np.concatenate(features).astype(np.int32), np.concatenate(thresholds).astype(np.int32)
    return *joined, np.concatenate(values).astype(np.float64)


def _read_tree(tree: Any, factor: float, classes: Sequence[int] = (), n_classes: int = 0) -> _Tree:
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
    order = preorder(tree.children_left, tree.children_right)
    feature = np.where(tree.children_left == LEAF, LEAF, tree.feature)[order]
    value = factor * tree.value[order, 0, :]
    if n_classes:
        full = np.zeros((len(value), n_classes))
        full[:, list(classes)] = value / value.sum(axis=1, keepdims=True)
        value = full
    return feature, tree.threshold[order], value


def _read_hist(estimator: Any) -> Iterator[_Tree]:
    """The nodes of every tree of HistGradientBoosting, round by round, class by class."""
    for predictor in (p for turn in estimator._predictors for p in turn):
        nodes = predictor.nodes
        leaf = nodes["is_leaf"] == 1
        left = np.where(leaf, LEAF, nodes["left"].astype(np.int64))
        order = preorder(left, nodes["right"])
        feature = np.where(leaf, LEAF, nodes["feature_idx"])[order]
        yield feature, nodes["num_threshold"][order], nodes["value"][order][:, None]


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
        if lefts[node] != LEAF:
            todo += [(rights[node], depth + 1), (lefts[node], depth + 1)]
    return found
