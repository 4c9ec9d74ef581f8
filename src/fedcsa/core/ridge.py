"""Ridge regression for a whole path of penalties from one singular value decomposition."""

from __future__ import annotations

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.errors import must

#: A column whose deviations from its mean are smaller than this share of it is constant.
CONSTANT = 1e-12


def ridge_path(
    X: Array,
    y: Array,
    penalties: Array,
    weights: Array | None = None,
    *,
    intercept: bool = True,
) -> tuple[Array, Array]:
    """Minimise Σ w̃_i (y_i − b₀ − x_iᵀb)² + θ‖b‖² for every θ, w̃ = w/Σw, the intercept free.

    The loss is a *mean*, as in eq. (02); scikit-learn's ``alpha`` is n·θ. At θ = 0 and rank
    below the number of features this is the least-squares solution of smallest norm.

    Parameters
    ----------
    X : array of shape (rows, features)
    y : array of shape (rows,)
    penalties : array of shape (candidates,)
        θ ≥ 0.
    weights : array of shape (rows,), optional
        Not negative, not all zero.
    intercept : bool, default True
        Off, b₀ is held at zero.

    Returns
    -------
    coefficients : array of shape (features, candidates)
    intercepts : array of shape (candidates,)

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 3.0, 5.0])
    >>> ridge_path(X, y, np.array([0.0, 2 / 3]))
    (array([[2., 1.]]), array([1., 2.]))
    """
    _check_penalties(penalties)
    share = np.full(len(y), 1.0 / len(y)) if weights is None else weights / weights.sum()
    x_mean, y_mean = share @ X, float(share @ y)
    if not intercept:
        x_mean, y_mean = np.zeros_like(x_mean), 0.0
    root = np.sqrt(share)
    centred = X - x_mean
    if intercept:  # of a constant column only rounding is left, which must not become a slope
        centred[:, np.ptp(X, axis=0) == 0.0] = 0.0
    coefficients = _slopes(root[:, None] * centred, root * (y - y_mean), penalties, len(X))
    return coefficients, y_mean - x_mean @ coefficients


def triangle(rows: Array) -> Array:
    """The square upper triangular R with RᵀR = rowsᵀ rows: all that least squares needs of rows.

    Unlike the product rowsᵀ rows itself it keeps every digit of nearly collinear columns.
    """
    size = rows.shape[1]
    if not len(rows):
        return np.zeros((size, size))
    from scipy.linalg.lapack import dgeqrf  # slow to load

    packed, _, _, info = dgeqrf(np.asfortranarray(rows), lwork=64 * size, overwrite_a=1)
    if info:
        raise must("rows", "finite numbers", "others")
    R = np.zeros((size, size))
    R[: min(packed.shape)] = np.triu(packed[:size])
    return R


def merge_triangles(*stacks: Array) -> Array:
    """The triangles of rows put together, from theirs; stacks of shape (…, size, size)."""
    return np.asarray(np.linalg.qr(np.concatenate(stacks, axis=-2), mode="r"), dtype=np.float64)


def triangle_path(
    R: Array, penalties: Array, total: float, n_rows: int, *, intercept: bool = True
) -> tuple[Array, Array]:
    """`ridge_path` from the triangle of √w·(1, X, y).

    Parameters
    ----------
    R : array of shape (features + 2, features + 2)
        Upper triangular, RᵀR = Σ w (1, x, y)(1, x, y)ᵀ.
    penalties : array of shape (candidates,)
        θ ≥ 0.
    total : float
        Σw.
    n_rows : int
        From which `R` was made; it decides what is rounding.
    intercept : bool, default True
        Off, b₀ is held at zero.
    """
    _check_penalties(penalties)
    first = 1 if intercept else 0  # what is left below the first line has no intercept in it
    scaled = R[first:] / np.sqrt(total)
    if intercept:  # of a constant column only rounding is left, which must not become a slope
        left = np.linalg.norm(R[1:, 1:-1], axis=0)
        constant = left <= CONSTANT * np.linalg.norm(R[:, 1:-1], axis=0)
        scaled[:, 1:-1][:, constant] = 0.0
    coefficients = _slopes(scaled[:, 1:-1], scaled[:, -1], penalties, n_rows)
    if not intercept:
        return coefficients, np.zeros(len(penalties))
    return coefficients, (R[0, -1] - R[0, 1:-1] @ coefficients) / R[0, 0]


def _check_penalties(penalties: Array) -> None:
    if not (penalties >= 0.0).all():
        raise must("penalty", "at least 0", float(penalties.min()))


def _slopes(Z: Array, r: Array, penalties: Array, n_rows: int) -> Array:
    """Minimise |r − Zb|² + θ|b|² for every θ, shape (features, candidates).

    Parameters
    ----------
    Z : array of shape (rows, features)
    r : array of shape (rows,)
    penalties : array of shape (candidates,)
        θ.
    n_rows : int
        Singular values below this many roundings of the largest are zero.
    """
    U, s, Vt = np.linalg.svd(Z, full_matrices=False)
    projected = U.T @ r  # (rank,)
    null = s <= s.max(initial=0.0) * max(n_rows, Z.shape[1]) * np.finfo(np.float64).eps
    with np.errstate(divide="ignore", invalid="ignore"):
        shrunk = s[:, None] / (s[:, None] ** 2 + penalties)  # (rank, candidates)
    shrunk[null] = 0.0
    slopes: Array = Vt.T @ (shrunk * projected[:, None])
    return slopes
