"""Trees as two flat arrays on a grid, and a walk through them that cannot leave them.

Nodes stand in preorder, as in Polish notation: a split (the number of its feature) is followed by
its whole left branch, then by its right one; a leaf is −1. So there are no pointers that could
point outside or in a circle, and where one tree ends the next begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array
from fedcsa.models.sound import damaged

#: What stands for a leaf among the features.
LEAF = -1
#: Bins beyond are one bin: whole numbers up to 2²⁴ are exact in scikit-learn's float32.
MAX_BIN = 2**24 - 1
#: Of one model: what 500 trees on 10,000 rows have with ten rows a leaf. As many are opened within
#: 120 MB and two seconds.
MAX_NODES = 1 << 20
#: Of one tree; unpruned trees on a million rows stay below 100.
MAX_TREE_DEPTH = 256


def to_bins(X: Array, grid: Array) -> NDArray[np.int32]:
    """The number of the grid's cell that holds every value: ⌊x / step⌋.

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
    with np.errstate(over="ignore"):  # infinite is beyond the last bin too
        cells = np.floor(X / grid)
    return np.clip(cells, -MAX_BIN, MAX_BIN).astype(np.int32)


@dataclass(frozen=True)
class Forest:
    """The trees of two flat arrays, ready to be walked.

    Attributes
    ----------
    feature : list of int
        Per node; `LEAF` for a leaf.
    threshold : list of int
        Per node; a row goes left if the bin of its feature is at most that.
    right : list of int
        Per node: the right child of a split. Its left child is the next node.
    leaf : list of int
        Per node: the number of leaves before it.
    roots : list of int
        First node of every tree.
    depths, leaves : list of int
        Per tree.
    """

    feature: Sequence[int]
    threshold: Sequence[int]
    right: Sequence[int]
    leaf: Sequence[int]
    roots: Sequence[int]
    depths: Sequence[int]
    leaves: Sequence[int]

    @classmethod
    def of(cls, feature: NDArray[np.int32], threshold: NDArray[np.int32]) -> Forest:
        """Parse the nodes from the last to the first; a `ModelError` unless they are trees.

        Parameters
        ----------
        feature : array of int32 of shape (nodes,)
        threshold : array of int32 of shape (splits,)
        """
        split = feature != LEAF
        spread = np.zeros(len(feature), np.int32)
        spread[split] = threshold
        order = np.cumsum(~split) - ~split
        right, height = [0] * len(feature), [0] * len(feature)
        waiting: list[int] = []  # roots of the branches that begin further on
        for node in range(len(feature) - 1, -1, -1):
            if split[node]:
                if len(waiting) < 2:
                    raise damaged("trees in which every split has two branches")
                left, right[node] = waiting.pop(), waiting.pop()
                height[node] = 1 + max(height[left], height[right[node]])
            waiting.append(node)
        roots = waiting[::-1]
        ends = np.append(roots[1:], len(feature)).astype(np.intp)
        per_tree = (ends - np.array(roots, np.intp) + 1) // 2
        depths = [height[root] for root in roots]
        return cls(
            feature.tolist(), spread.tolist(), right, order.tolist(), roots, depths,
            per_tree.tolist(),
        )  # fmt: skip

    def leaf_of_rows(self, root: int, columns: NDArray[np.int32]) -> NDArray[np.intp]:
        """The number of the leaf in which every row ends.

        Rows that go the same way stay together, so that a node costs one comparison of a column.

        Parameters
        ----------
        root : int
            First node of the tree.
        columns : array of int32 of shape (features, rows)
            Bins.
        """
        found = np.empty(columns.shape[1], np.intp)
        todo = [(root, np.arange(columns.shape[1]))]
        while todo:
            node, rows = todo.pop()
            if self.feature[node] == LEAF:
                found[rows] = self.leaf[node]
                continue
            goes_left = columns[self.feature[node]].take(rows) <= self.threshold[node]
            left = rows[goes_left]
            if len(left):
                todo.append((node + 1, left))
            if len(left) < len(rows):
                todo.append((self.right[node], rows[~goes_left]))
        return found
