"""Distances and the Gaussian kernel of which a density ratio is a linear combination."""

from __future__ import annotations

import numpy as np

from fedcsa.core.arrays import Array


def squared_distances(X: Array, centres: Array) -> Array:
    """‖x − c‖² for every row x and every centre c, shape (rows, centres).

    Both are moved to the centres' mean first: the expansion ‖x‖² + ‖c‖² − 2xᵀc cancels
    badly when the data lie far from the origin.
    """
    origin = centres.mean(axis=0)
    x, c = X - origin, centres - origin
    distances: Array = np.einsum("ij,ij->i", x, x)[:, None] + np.einsum("ij,ij->i", c, c)
    distances -= 2.0 * (x @ c.T)
    np.maximum(distances, 0.0, out=distances)
    return distances


def gaussian(distances: Array, bandwidth: float, out: Array | None = None) -> Array:
    """exp(−distance²/2σ²), from squared distances; into `out` if given."""
    scaled = np.multiply(distances, -0.5 / bandwidth**2, out=out)
    return np.exp(scaled, out=scaled)
