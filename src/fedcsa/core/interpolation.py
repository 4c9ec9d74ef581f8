"""The losses of a whole ridge path from those of a few candidates.

A squared loss is a quadratic form, (aᵀβ_c)² with a = (1, x, y), so that candidates whose matrices
β_c β_cᵀ are linear combinations of some others' have losses that are the same combinations, row by
row. Along a path of penalties these matrices are so alike that a dozen or two span hundreds, to
rounding: only those *pivots* are evaluated on the rows.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import qr, solve_triangular

from fedcsa.core.arrays import Array

#: What the pivots may leave unexplained of a candidate's matrix, relative to its norm.
TOLERANCE = 1e-13


def loss_pivots(residuals: Array) -> tuple[list[int], Array]:
    """Pivots among the candidates, and every candidate's combination of them.

    Parameters
    ----------
    residuals : array of shape (views, coordinates, candidates)
        β of every fold, in coordinates in which some rows are about orthonormal, so that ‖β_c‖² is
        their mean loss. Every view counts alike, however large the losses are in it.

    Returns
    -------
    pivots : list of int
    combinations : array of shape (pivots, candidates)
        L_c = Σ_q L_q · combinations[q, c] for every row.

    Examples
    --------
    >>> pivots, combinations = loss_pivots(np.array([[[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]]))
    >>> pivots, combinations.round(6)
    ([0], array([[1., 4., 9.]]))
    """
    stacked = np.vstack([_levelled(_reduced(_products(beta))) for beta in residuals])
    norms = np.linalg.norm(stacked, axis=0)
    scale = np.where(norms > 0.0, norms, 1.0)
    R, order = qr(stacked / scale, mode="r", pivoting=True, check_finite=False)
    diagonal = np.abs(np.diag(R))
    rank = max(1, int((diagonal > TOLERANCE).sum()))
    combinations = np.zeros((rank, len(order)))
    combinations[:, order[:rank]] = np.eye(rank)
    if rank < len(order) and diagonal[0] > 0.0:
        tail = solve_triangular(R[:rank, :rank], R[:rank, rank:], check_finite=False)
        combinations[:, order[rank:]] = tail
    pivots = order[:rank]
    return pivots.tolist(), combinations * (norms / scale[pivots, None])


def _products(beta: Array) -> Array:
    """ββᵀ of every column, its upper half as a vector with the norm of the whole."""
    rows, columns = np.triu_indices(len(beta))
    weight = np.where(rows == columns, 1.0, np.sqrt(2.0))
    products: Array = weight[:, None] * beta[rows] * beta[columns]
    return products


def _levelled(matrix: Array) -> Array:
    """The matrix, its columns of norm 1 in the middle."""
    level = float(np.median(np.linalg.norm(matrix, axis=0)))
    return matrix / level if level > 0.0 else matrix


def _reduced(matrix: Array) -> Array:
    """Fewer rows with the same inner products of columns."""
    if len(matrix) <= matrix.shape[1]:
        return matrix
    return np.asarray(np.linalg.qr(matrix, mode="r"), dtype=np.float64)
