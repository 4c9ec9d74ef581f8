"""Trees as arrays, on the agreed grid or on the cuts of a given model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.errors import ModelError
from fedcsa.models.chosen import HOLDERS, Seen, codes_of, only, sklearn_name
from fedcsa.models.description import check_link, damaged, exactly, known_classes, must_agree, take
from fedcsa.models.portable import QUIET, Arrays, Form, in_parts, linked
from fedcsa.models.steps import (
    Steps,
    apply_steps,
    open_steps,
    steps_arrays,
    steps_form,
    widest_of,
    width_of,
)
from fedcsa.models.trees import (
    LEAF,
    MAX_BIN,
    MAX_NODES,
    MAX_TREE_DEPTH,
    MAX_WALKERS,
    Forest,
    Grid,
    TreeCells,
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
BEFORE_TREES = HOLDERS | {"SimpleImputer", "MissingIndicator", "OneHotEncoder", "OrdinalEncoder"}


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


def on_agreed_grid(estimator: Any, n_classes: int, steps: Steps, columns: Seen) -> TreeModel:
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


def tree_objection(estimator: Any, name: str) -> str:
    """What is wrong with the parameters of trees.

    Parameters
    ----------
    estimator : scikit-learn estimator
    name : str
        Of its class.
    """
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


def check_trees(form: Form, arrays: Arrays, estimator: Any, n_classes: int) -> None:
    """Compare trees with what was agreed.

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
    must_agree(form["kind"] == "trees", "format")
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
