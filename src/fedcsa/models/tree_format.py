"""The format of trees, on the agreed grid or on the cuts of a given model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.errors import ModelError
from fedcsa.models.chosen import HOLDERS, codes_of, is_made_of, only, sklearn_name
from fedcsa.models.description import check_link, damaged, exactly, known_classes, must_agree, take
from fedcsa.models.portable import QUIET, Arrays, Before, FittedRows, Form, Format, in_parts, linked
from fedcsa.models.steps import (
    Steps,
    apply_steps,
    check_steps,
    open_steps,
    steps_arrays,
    steps_form,
    widest_of,
    width_of,
    without_nothing,
)
from fedcsa.models.trees import (
    LEAF,
    MAX_BIN,
    MAX_NODES,
    MAX_TREE_DEPTH,
    MAX_WALKERS,
    Cuts,
    Forest,
    Grid,
    OneTree,
    TreeCells,
    joined_nodes,
    open_cells,
)

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
#: Criteria that make leaves of means; the others make leaves of medians, which are outcomes.
_CRITERIA = ("squared_error", "friedman_mse", "poisson", "gini", "entropy", "log_loss")
#: Of all rows, what every tree must at least be fitted to: a tree of one row holds its outcome.
_LEAST_SHARE = 0.5
#: Transformers whose columns have thresholds on the agreed grid.
_BEFORE_TREES = HOLDERS | {"SimpleImputer", "MissingIndicator", "OneHotEncoder", "OrdinalEncoder"}


@dataclass(frozen=True)
class TreeModel:
    """Trees on cells of every feature: their leaves' values, added or averaged, with a link.

    Attributes
    ----------
    cells : TreeCells
        The agreed grid, or the given model's own cuts.
    feature : array of int32 of shape (nodes,)
        In preorder, −1 for a leaf; see `fedcsa.models.trees`.
    threshold : array of int32 of shape (splits,)
        A row goes left if the cell of its feature is at most that.
    value : array of shape (leaves, 1), or (leaves, classes) where probabilities are averaged
    base : array of shape (outputs,)
        Added to the sum. Of several outputs, tree k adds to the one k modulo outputs.
    combine : {"mean", "sum"}
    link : {"identity", "log", "logistic", "softmax", "probabilities"}
    classes : tuple of int
        Codes of the classes that the scores are about.
    n_classes : int
        Of the study's outcome; 0 for numbers.
    steps : Steps
        What makes the columns that the trees split; none if these are the features.
    missing_left : array of int32 of shape (splits,), optional
        1 where an empty cell goes left; None where no cell is empty.
    """

    cells: TreeCells = field(repr=False)
    feature: NDArray[np.int32] = field(repr=False)
    threshold: NDArray[np.int32] = field(repr=False)
    value: Array = field(repr=False)
    base: Array = field(repr=False)
    combine: str
    link: str
    classes: tuple[int, ...] = ()
    n_classes: int = 0
    steps: Steps = field(default=(), repr=False)
    missing_left: NDArray[np.int32] | None = field(default=None, repr=False)

    @property
    def form(self) -> Form:
        """Its words; of steps only if there are some."""
        words: dict[str, Any] = {"kind": "trees", "combine": self.combine, "link": self.link}
        words["classes"] = list(self.classes)
        return {**words, "steps": steps_form(self.steps)} if self.steps else words

    @property
    def arrays(self) -> Arrays:
        """Its numbers."""
        own = {name: getattr(self, name) for name in _TREE_ARRAYS}
        if self.missing_left is not None:
            own["missing_left"] = self.missing_left
        return {**self.cells.arrays, **own, **steps_arrays(self.steps)}

    @cached_property
    def forest(self) -> Forest:
        """The trees, ready to be walked."""
        return Forest.of(self.feature, self.threshold, self.missing_left)

    def leaves_of_rows(self, X: Array) -> Iterator[NDArray[np.intp]]:
        """For every tree the leaf of every row of X of shape (rows, features)."""
        return self.forest.leaves_of_rows(self.cells.of_rows(apply_steps(self.steps, X)))

    @QUIET
    def predict(self, X: Array) -> Array:
        """Predict every row, a bounded number at a time."""
        scores = in_parts(self.scores, X, widest_of(self.steps, X.shape[1]), MAX_WALKERS)
        return linked(scores, self.link, self.classes, self.n_classes)

    def scores(self, X: Array) -> Array:
        """What the link is applied to, of shape (rows, outputs)."""
        total: Array = np.tile(self.base, (len(X), 1))
        for tree, leaf in enumerate(self.leaves_of_rows(X)):
            if self.value.shape[1] == 1:
                total[:, tree % len(self.base)] += self.value[:, 0].take(leaf)
            else:
                total += self.value.take(leaf, axis=0)
        if self.combine == "mean":
            total /= len(self.forest.roots)
        return total

    @classmethod
    def opened(cls, form: Form, arrays: Arrays, n_features: int, n_classes: int) -> TreeModel:
        """The model of a message, checked.

        Parameters
        ----------
        form : mapping
        arrays : mapping of str to array
        n_features : int
        n_classes : int
        """
        words = ("kind", "combine", "link", "classes", *(["steps"] if "steps" in form else []))
        exactly(form, words, "words")
        steps = open_steps(form["steps"], arrays, n_features) if "steps" in form else ()
        width = width_of(steps, n_features)
        cells = open_cells(arrays, width)
        ways = ["missing_left"] if "missing_left" in arrays else []
        exactly(arrays, (*cells.arrays, *_TREE_ARRAYS, *steps_arrays(steps), *ways), "arrays")
        link, classes = check_link(form, n_classes)
        mean = link == "probabilities" or (link == "identity" and form["combine"] == "mean")
        if form["combine"] != ("mean" if mean else "sum"):
            raise damaged("leaves that are added or averaged, as its link needs")
        columns = n_classes if link == "probabilities" else 1
        outputs = {"softmax": len(classes), "probabilities": n_classes}.get(link, 1)
        feature, threshold = _nodes_in(arrays, width)
        value = take(arrays, "value", np.float64, (len(feature) - len(threshold), columns))
        base = take(arrays, "base", np.float64, (outputs,))
        if mean and base.any():
            raise damaged("nothing to add to a mean")
        if link == "probabilities" and not _are_probabilities(value):
            raise damaged("probabilities in its leaves")
        model = cls(
            cells, feature, threshold, value, base, form["combine"], link, classes, n_classes,
            steps, _ways_in(arrays, len(threshold)) if ways else None,
        )  # fmt: skip
        trees = model.forest
        if (len(trees.roots) % outputs and not mean) or trees.depths.max() > MAX_TREE_DEPTH:
            raise damaged(f"whole rounds of trees at most {MAX_TREE_DEPTH} deep")
        return model


_TREE_ARRAYS = ("feature", "threshold", "value", "base")


def _nodes_in(arrays: Arrays, n_features: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Features and thresholds of trees, if they are in range.

    Parameters
    ----------
    arrays : mapping of str to array
    n_features : int
    """
    feature = take(arrays, "feature", np.int32, (None,))
    if not 1 <= len(feature) <= MAX_NODES:
        raise damaged(f"1 to {MAX_NODES} nodes")
    if (feature < LEAF).any() or (feature >= n_features).any():
        raise damaged("splits on features of the study")
    threshold = take(arrays, "threshold", np.int32, (int((feature != LEAF).sum()),))
    if (np.abs(threshold.astype(np.int64)) > MAX_BIN).any():
        raise damaged("thresholds on the grid")
    return feature, threshold


def _ways_in(arrays: Arrays, n_splits: int) -> NDArray[np.int32]:
    """Where empty cells go at every split: 1 is left, 0 right.

    Parameters
    ----------
    arrays : mapping of str to array
    n_splits : int
    """
    ways = take(arrays, "missing_left", np.int32, (n_splits,))
    if not np.isin(ways, (0, 1)).all():
        raise damaged("a way for empty cells at every split")
    return ways


#: A site may round its shares to three digits before they leave.
_ROUNDING = 0.01


def _are_probabilities(value: Array) -> bool:
    """Whether every row of `value` is a distribution, up to rounding."""
    return bool((value >= 0.0).all() and (np.abs(value.sum(axis=1) - 1.0) < _ROUNDING).all())


# Scikit-learn's trees -------------------------------------------------------------------------


def _converted(estimator: Any, before: Before, n_classes: int) -> TreeModel:
    """A fitted tree, forest or boosting, on the agreed grid.

    Parameters
    ----------
    estimator : fitted scikit-learn estimator
    before : Before
    n_classes : int
    """
    if before.grid is None:
        name = sklearn_name(estimator)
        raise ModelError(f"{name} has a format of ours only on an agreed grid.")
    trees, base, combine, link, classes = read_trees(estimator, n_classes)
    feature, threshold, missing_left, value = joined_nodes(trees, " or a larger min_samples_leaf")
    return TreeModel(
        Grid(np.array([column.step for column in before.columns])), feature,
        np.clip(np.floor(threshold), -MAX_BIN, MAX_BIN).astype(np.int32), value,
        base, combine, link, classes, n_classes,
        without_nothing(before.steps, before.n_features),
        missing_left if any(column.missing for column in before.columns) else None,
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
    name, classes = sklearn_name(estimator), codes_of(estimator, n_classes)
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


# What may leave, and what is compared when it arrives -----------------------------------------


def _objection(estimator: Any, transformers: Sequence[Any]) -> str:
    """What is wrong with the parameters of trees, or with what stands before them.

    Parameters
    ----------
    estimator : scikit-learn estimator
    transformers : sequence of scikit-learn transformers
    """
    name = sklearn_name(estimator)
    if not all(is_made_of(step, _BEFORE_TREES) for step in transformers):
        rule = "behind imputers and encoders: trees need no scaling"
        return only(name, rule, f"Use {name} without other steps")
    if name in AVERAGED_TREES and estimator.criterion not in _CRITERIA:
        return only(name, "with leaves of means", "Use criterion='squared_error'")
    if name in BOOSTED_TREES and estimator.loss not in ("log_loss", *BOOSTING_LINKS):
        usual = "log_loss" if name.endswith("Classifier") else "squared_error"
        return only(name, "with leaves of means", f"Use loss={usual!r}")
    if getattr(estimator, "init", None) not in (None, "zero"):
        return only(name, "without a model of its own to begin with", "Use init=None")
    few = _fits_few_rows(estimator)
    if few:
        return only(name, "with trees of half of the rows or more", f"Change {few}")
    if getattr(estimator, "categorical_features", None) not in (None, "from_dtype"):
        return only(name, "with splits of numbers", "Use categorical_features=None")
    return ""


def _fits_few_rows(estimator: Any) -> str:
    """The parameter by which trees are fitted to less than half of the rows; "" if none does."""
    shares = {
        "max_samples": getattr(estimator, "max_samples", None),
        "subsample": float(getattr(estimator, "subsample", 1.0)),
    }
    for name, share in shares.items():  # a whole number is one of rows
        if share is not None and not (isinstance(share, float) and share >= _LEAST_SHARE):
            return name
    held_out = getattr(estimator, "validation_fraction", None)
    few = held_out is not None and not (
        isinstance(held_out, float) and held_out <= 1.0 - _LEAST_SHARE
    )
    return "validation_fraction" if few else ""


def _compared(form: Form, arrays: Arrays, estimator: Any, before: Before, n_classes: int) -> None:
    """Compare trees with what was agreed.

    Parameters
    ----------
    form : mapping
    arrays : mapping of str to array
    estimator : scikit-learn estimator
    before : Before
    n_classes : int
    """
    _compare_nodes(form, arrays, estimator, n_classes)
    check_steps(form, arrays, without_nothing(before.steps, before.n_features))
    ways = any(column.missing for column in before.columns)
    must_agree(("missing_left" in arrays) == ways, "way of empty cells")
    own = np.array([column.step for column in before.columns])
    must_agree(before.grid is None or np.array_equal(arrays.get("step", ()), own), "grid")


def _compare_nodes(form: Form, arrays: Arrays, estimator: Any, n_classes: int) -> None:
    """Compare links, numbers of trees, depths and leaves.

    Parameters
    ----------
    form : mapping
    arrays : mapping of str to array
    estimator : scikit-learn estimator
        As agreed, with the candidate's parameters.
    n_classes : int
    """
    name = sklearn_name(estimator)
    averaged = name in AVERAGED_TREES
    must_agree(form["combine"] == ("mean" if averaged else "sum"), "way to combine trees")
    if averaged:
        link, outputs = ("probabilities" if n_classes else "identity"), 1
    else:
        classes = known_classes(form, n_classes)
        link = boosting_link(estimator.loss, len(classes))
        outputs = len(classes) if link == "softmax" else 1
    must_agree(form["link"] == link, "link")
    forest = Forest.of(arrays["feature"], arrays["threshold"])
    most = int(getattr(estimator, "max_iter", getattr(estimator, "n_estimators", 1)))
    n_trees = len(forest.roots)
    exact = averaged or getattr(estimator, "n_iter_no_change", None) is None
    exact = exact and not name.startswith("Hist")
    must_agree(n_trees == most * outputs if exact else n_trees <= most * outputs, "number of trees")
    if estimator.max_depth is not None:
        must_agree(max(forest.depths) <= estimator.max_depth, "depth of trees")
    if getattr(estimator, "max_leaf_nodes", None) is not None:
        must_agree(max(forest.leaves) <= estimator.max_leaf_nodes, "number of leaves")


# How exposed rows are -------------------------------------------------------------------------


def rows_per_leaf(model: TreeModel, X: Array, row_weights: Array | None = None) -> Array:
    """How many of a source's rows every leaf holds, or what they weigh; stays at the site.

    Parameters
    ----------
    model : TreeModel
    X : array of shape (rows, features)
        As models see it.
    row_weights : array of shape (rows,), optional
        By default 1 for every row.

    Returns
    -------
    array of shape (leaves,)
        Of all trees.
    """
    total = np.zeros(len(model.value))
    for leaf in model.leaves_of_rows(X):
        total += np.bincount(leaf, row_weights, len(total))
    return total


def _rows_behind(model: TreeModel, X: Array, y: Array) -> Array:  # noqa: ARG001 - in any leaf
    """Rows in every leaf.

    Parameters
    ----------
    model : TreeModel
    X : array of shape (rows, features)
    y : array of shape (rows,)
    """
    return rows_per_leaf(model, X)


def _least_rows(estimator: Any) -> int:
    """Rows that a leaf may have by the estimator's own words."""
    told = estimator.min_samples_leaf  # a share of the rows may be a single one
    return told if isinstance(told, int) else 1


def _shares(model: TreeModel, rows: FittedRows) -> Array:
    """The largest share of every row in the weight of one of its leaves, which tells no features.

    Parameters
    ----------
    model : TreeModel
    rows : FittedRows
    """
    total = np.zeros(len(model.value))
    for X, _, weights in rows:
        total += rows_per_leaf(model, X, weights)
    total[total == 0.0] = 1.0
    found = []
    for X, _, weights in rows:
        largest = np.zeros(len(X))
        for leaf in model.leaves_of_rows(X):
            np.maximum(largest, weights / total[leaf], out=largest)
        found.append(largest)
    return np.concatenate(found)


def _placed(model: TreeModel, places: Sequence[int], n_features: int) -> TreeModel:
    """A given model where its columns have other places.

    Parameters
    ----------
    model : TreeModel
    places : sequence of int
        Of its columns.
    n_features : int
    """
    assert isinstance(model.cells, Cuts)  # noqa: S101 - of given trees
    cuts = np.zeros(n_features, np.int32)
    cuts[list(places)] = model.cells.cuts
    parts = np.split(model.cells.cut, np.cumsum(model.cells.cuts)[:-1])
    in_order = [parts[k] for k in np.argsort(places)]
    feature = np.where(
        model.feature == LEAF, LEAF, np.array(places)[np.maximum(model.feature, 0)]
    ).astype(np.int32)
    return replace(model, cells=Cuts(cuts, np.concatenate(in_order)), feature=feature)


TREE_FORMAT = Format(
    estimators=TREES,
    arrays={
        "feature": "which column every node of the trees asks about",
        "threshold": "where every node splits, in steps of the grid",
        "value": "what every leaf predicts: a mean over its rows",
        "base": "what is added to the sum of all trees",
        "missing_left": "which way empty cells go at every node that splits",
    },
    objection=_objection,
    converted=_converted,
    opened=TreeModel.opened,
    compared=_compared,
    shares=_shares,
    rows_behind=_rows_behind,
    least_rows=_least_rows,
    placed=_placed,
    of_leaves=("value", "base", "threshold", "missing_left"),
    on_grid=True,
)
