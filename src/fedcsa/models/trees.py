"""Trees as two flat arrays on cells, and a walk through them that cannot leave them.

Nodes stand in preorder, as in Polish notation: a split (the number of its feature) is followed by
its whole left branch, then by its right one; a leaf is −1. So there are no pointers that could
point outside or in a circle, and where one tree ends the next begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedcsa.errors import ModelError
from fedcsa.models.description import damaged, take

if TYPE_CHECKING:
    from fedcsa.core.arrays import Array

#: What stands for a leaf among the features.
LEAF = -1
#: Bins beyond are one bin: whole numbers up to 2²⁴ are exact in scikit-learn's float32.
MAX_BIN = 2**24 - 1
#: The bin of an empty cell: beyond the last, and exact in float32 too.
EMPTY_BIN = MAX_BIN + 1
#: Of one model: what 500 trees on 10,000 rows have with ten rows a leaf. As many are opened within
#: 120 MB and two seconds.
MAX_NODES = 1 << 20
#: Rows times trees that are walked at a time: their few arrays fit into a core's own memory.
MAX_WALKERS = 1 << 15
#: Of one tree; unpruned trees on a million rows stay below 100.
MAX_TREE_DEPTH = 256


def to_bins(X: Array, grid: Array) -> NDArray[np.int32]:
    """The number of the grid's cell that holds every value: ⌊x / step⌋, `EMPTY_BIN` for NaN.

    Parameters
    ----------
    X : array of shape (rows, features)
    grid : array of shape (features,)
        Steps.

    Examples
    --------
    >>> to_bins(np.array([[0.24, -0.1], [0.25, 0.0]]), np.array([0.25, 1.0]))
    array([[ 0, -1],
           [ 1,  0]], dtype=int32)
    """
    cells = on_grid(X, grid)
    return np.where(np.isnan(cells), EMPTY_BIN, cells).astype(np.int32)


def on_grid(X: Array, grid: Array) -> Array:
    """The same as float64, with NaN where a cell is empty.

    Parameters
    ----------
    X : array of shape (rows, features)
    grid : array of shape (features,)
        Steps.
    """
    with np.errstate(over="ignore"):  # infinite is beyond the last bin too
        cells = np.floor(X / grid)
    return np.clip(cells, -MAX_BIN, MAX_BIN)


@dataclass(frozen=True)
class Grid:
    """TreeCells of equal width: what every source agrees on before it fits a tree.

    Attributes
    ----------
    step : array of shape (features,)
    """

    step: Array = field(repr=False)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Its numbers."""
        return {"step": self.step}

    def of_rows(self, X: Array) -> NDArray[np.int32]:
        """Number of the cell of every row and feature of X of shape (rows, features)."""
        return to_bins(X, self.step)


@dataclass(frozen=True)
class Cuts:
    """TreeCells between the thresholds of a given model, as they are.

    Attributes
    ----------
    cuts : array of int32 of shape (features,)
        How many every feature has.
    cut : array
        All of them, feature by feature, rising. A value equal to a cut lies below it.
    """

    cuts: NDArray[np.int32] = field(repr=False)
    cut: Array = field(repr=False)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Its numbers."""
        return {"cuts": self.cuts, "cut": self.cut}

    def of_rows(self, X: Array) -> NDArray[np.int32]:
        """Number of the cell of every row and feature of X of shape (rows, features)."""
        own = np.split(self.cut, np.cumsum(self.cuts)[:-1])
        found = [np.searchsorted(cut, x) for cut, x in zip(own, X.T, strict=True)]
        return np.column_stack(found).astype(np.int32)


#: How trees see the features.
TreeCells: TypeAlias = Grid | Cuts


def open_cells(arrays: Mapping[str, Any], n_features: int) -> TreeCells:
    """The grid or the cuts of a message, checked.

    Parameters
    ----------
    arrays : mapping of str to array
        Of a model of trees.
    n_features : int
    """
    if "step" in arrays:
        step = take(arrays, "step", np.float64, (n_features,))
        if not (step > 0.0).all():
            raise damaged("a grid with positive steps")
        return Grid(step)
    cuts = take(arrays, "cuts", np.int32, (n_features,))
    if (cuts < 0).any() or (cuts > MAX_NODES).any():
        raise damaged("as many cuts as it says")
    cut = take(arrays, "cut", np.float64, (int(cuts.sum(dtype=np.int64)),))
    falls = np.flatnonzero(np.diff(cut) <= 0.0) + 1
    if not np.isin(falls, np.cumsum(cuts)).all():
        raise damaged("cuts that rise")
    return Cuts(cuts, cut)


@dataclass(frozen=True)
class Forest:
    """The trees of two flat arrays, ready to be walked.

    Attributes
    ----------
    feature : array of shape (nodes,)
        Of a split; 0 for a leaf.
    threshold : array of int32 of shape (nodes,)
        A row goes left if the bin of its feature is at most that.
    child : array of shape (2 · nodes,)
        The left and the right child of every node; a leaf leads to itself.
    leaf : array of shape (nodes,)
        The number of leaves before a node.
    missing_left : array of bool of shape (nodes,), optional
        Where an empty cell goes left; nowhere unless told.
    roots, depths, leaves : array of shape (trees,)
        First node, depth and number of leaves of every tree.
    """

    feature: NDArray[np.intp]
    threshold: NDArray[np.int32]
    child: NDArray[np.intp]
    leaf: NDArray[np.intp]
    roots: NDArray[np.intp]
    depths: NDArray[np.intp]
    leaves: NDArray[np.intp]
    missing_left: NDArray[np.bool_] | None = None

    @classmethod
    def of(
        cls,
        feature: NDArray[np.int32],
        threshold: NDArray[np.int32],
        missing_left: NDArray[np.int32] | None = None,
    ) -> Forest:
        """Parse the nodes from the last to the first; a `ModelError` unless they are trees.

        Parameters
        ----------
        feature : array of int32 of shape (nodes,)
        threshold : array of int32 of shape (splits,)
        missing_left : array of int32 of shape (splits,), optional
            1 where an empty cell goes left.
        """
        split, node = feature != LEAF, np.arange(len(feature))
        spread = np.zeros(len(feature), np.int32)
        spread[split] = threshold
        lefts = None
        if missing_left is not None:
            lefts = np.zeros(len(feature), dtype=bool)
            lefts[split] = missing_left == 1
        right, height, roots = _parsed(split.tolist())
        ends = np.append(roots[1:], len(feature))
        return cls(
            feature=np.where(split, feature, 0).astype(np.intp),
            threshold=spread,
            child=np.column_stack([node + split, np.where(split, right, node)]).ravel(),
            leaf=np.cumsum(~split) - ~split,
            roots=roots,
            depths=height[roots],
            leaves=(ends - roots + 1) // 2,
            missing_left=lefts,
        )

    def leaves_of_rows(self, bins: NDArray[np.int32]) -> Iterator[NDArray[np.intp]]:
        """For every tree the number of the leaf in which every row ends.

        All rows go through several trees at once, one level after the other.

        Parameters
        ----------
        bins : array of int32 of shape (rows, features)
        """
        n_rows, n_features = bins.shape
        cells, start = bins.ravel(), n_features * np.arange(n_rows)
        at_once = max(1, MAX_WALKERS // max(1, n_rows))
        for first in range(0, len(self.roots), at_once):
            roots = self.roots[first : first + at_once]
            node, row = np.repeat(roots, n_rows), np.tile(start, len(roots))
            for _ in range(self.depths[first : first + at_once].max()):
                cell = cells.take(row + self.feature.take(node))
                goes_right = cell > self.threshold.take(node)  # an empty cell is beyond all
                if self.missing_left is not None:
                    goes_right &= ~((cell == EMPTY_BIN) & self.missing_left.take(node))
                node = self.child.take(2 * node + goes_right)
            yield from self.leaf.take(node).reshape(len(roots), n_rows)


def _parsed(split: list[bool]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Right children and heights of all nodes, and the roots.

    Parameters
    ----------
    split : list of bool
        Of every node in preorder whether it has branches.
    """
    right, height = [0] * len(split), [0] * len(split)
    waiting: list[int] = []  # roots of the branches that begin further on
    for node in range(len(split) - 1, -1, -1):
        if split[node]:
            if len(waiting) < 2:
                raise damaged("trees in which every split has two branches")
            left, right[node] = waiting.pop(), waiting.pop()
            height[node] = 1 + max(height[left], height[right[node]])
        waiting.append(node)
    return np.array(right), np.array(height), np.array(waiting[::-1])


# Trees with pointers, as other libraries have them --------------------------------------------


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
