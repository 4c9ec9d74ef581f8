"""Ridge regression for a whole path of penalties from one singular value decomposition."""

from __future__ import annotations

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.errors import must

#: A column whose deviations from its mean are smaller than this share of it is constant.
CONSTANT = 1e-12
#: Of a column that others determine up to a smaller share of its size, products keep too few
#: digits: at a hundredth they lose four of sixteen.
SMALLEST_PIVOT = 1e-2


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

    packed, _, _, info = dgeqrf(rows, lwork=64 * size)
    if info:
        raise must("rows", "finite numbers", "others")
    R = np.zeros((size, size))
    R[: min(packed.shape)] = np.triu(packed[:size])
    return R


def product_triangle(products: Array) -> Array | None:
    """The triangle of rows from the products RᵀR; None where these have lost too many digits.

    Parameters
    ----------
    products : array of shape (size, size)
        The last column is the outcome: rows may determine it.
    """
    norms = np.sqrt(np.diag(products))
    if not norms[:-1].all():
        return None
    norms[-1] = norms[-1] or 1.0
    with np.errstate(invalid="ignore"):
        scaled = products / norms / norms[:, None]
    R = np.zeros_like(products)
    try:
        L = np.linalg.cholesky(scaled[:-1, :-1])
    except np.linalg.LinAlgError:
        return None
    if not np.diag(L).min() >= SMALLEST_PIVOT:  # no number, where a square was too large
        return None
    R[:-1, :-1], R[:-1, -1] = L.T, np.linalg.solve(L, scaled[:-1, -1])
    R[-1, -1] = np.sqrt(max(scaled[-1, -1] - R[:-1, -1] @ R[:-1, -1], 0.0))
    R *= norms
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
    if not (penalties >= 0.0).all():
        raise must("penalty", "at least 0", float(penalties.min()))
    # Large columns first: small ones then keep their digits.
    order = np.argsort(-np.linalg.norm(Z, axis=0), kind="stable")
    U, s, Vt = np.linalg.svd(Z[:, order], full_matrices=False)
    projected = U.T @ r  # (rank,)
    null = s <= s.max(initial=0.0) * max(n_rows, Z.shape[1]) * np.finfo(np.float64).eps
    with np.errstate(divide="ignore", invalid="ignore"):
        shrunk = s[:, None] / (s[:, None] ** 2 + penalties)  # (rank, candidates)
    shrunk[null] = 0.0
    slopes = np.empty((Z.shape[1], len(penalties)))
    slopes[order] = Vt.T @ (shrunk * projected[:, None])
    return slopes
