"""Ridge regression for a whole path of penalties from one singular value decomposition."""

from __future__ import annotations

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.errors import must


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
    if (penalties < 0.0).any():
        raise must("penalty", "at least 0", float(penalties.min()))
    share = np.full(len(y), 1.0 / len(y)) if weights is None else weights / weights.sum()
    x_mean, y_mean = share @ X, float(share @ y)
    if not intercept:
        x_mean, y_mean = np.zeros_like(x_mean), 0.0
    root = np.sqrt(share)
    centred = X - x_mean
    if intercept:  # of a constant column only rounding is left, which must not become a slope
        centred[:, np.ptp(X, axis=0) == 0.0] = 0.0
    U, s, Vt = np.linalg.svd(root[:, None] * centred, full_matrices=False)
    projected = U.T @ (root * (y - y_mean))  # (rank,)
    null = s <= s.max(initial=0.0) * max(X.shape) * np.finfo(np.float64).eps
    with np.errstate(divide="ignore", invalid="ignore"):
        shrunk = s[:, None] / (s[:, None] ** 2 + penalties)  # (rank, candidates)
    shrunk[null] = 0.0
    coefficients = Vt.T @ (shrunk * projected[:, None])
    return coefficients, y_mean - x_mean @ coefficients
