"""Distances and the two bases that a density ratio is a linear combination of."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from fedcsa.core.arrays import Array

#: σ = factor · √d in units of the target's standard deviations. Bumps: the value confirmed
#: for the guarded rule. Fourier: √(2 Σ variances) = √(2d), the median distance of two rows.
BANDWIDTH_FACTOR = {"bumps": 0.7, "fourier": float(np.sqrt(2.0))}


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


@dataclass(frozen=True)
class Basis:
    """Features ψ(x) that every site can build from a few agreed numbers and no data row.

    Attributes
    ----------
    kind : {"bumps", "fourier"}
        Gaussian bumps exp(−‖z − c‖²/2σ²)/√D, or pairs cos(ωᵀz), sin(ωᵀz) scaled to ‖ψ‖ = 1.
    mean, sd : array of shape (features,)
        The target's; z = (x − mean)/sd.
    n_features : int
        D, even for ``"fourier"``.
    bandwidth : float
        σ, in target standard deviations.
    seed : int
        Draws the centres c ~ N(0, I) or the frequencies ω ~ N(0, I/σ²).
    """

    kind: Literal["bumps", "fourier"]
    mean: Array = field(repr=False)
    sd: Array = field(repr=False)
    n_features: int
    bandwidth: float
    seed: int

    def standardise(self, X: Array) -> Array:
        """Rows in units of the target's standard deviations, around the target's means."""
        return (X - self.mean) / self.sd

    def __call__(self, X: Array) -> Array:
        """ψ(x) for every row, shape (rows, n_features)."""
        return self.of_standardised(self.standardise(X))

    def of_standardised(self, z: Array) -> Array:
        """ψ for rows that are in units of the target's standard deviations already."""
        if self.kind == "bumps":
            # −‖z − c‖²/2σ² − log √D is linear in (z, ‖z‖², 1): one product, then exp.
            lifted = np.column_stack([z, np.einsum("ij,ij->i", z, z), np.ones(len(z))])
            bumps: Array = lifted @ self._directions
            return np.exp(bumps, out=bumps)
        angles = z @ self._directions
        waves = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        waves /= np.sqrt(self.n_features // 2)
        return waves

    @cached_property
    def _directions(self) -> Array:
        """What rows are multiplied with, drawn from the seed."""
        generator, d = np.random.default_rng(self.seed), len(self.mean)
        if self.kind == "fourier":
            return generator.standard_normal((d, self.n_features // 2)) / self.bandwidth
        centres = generator.standard_normal((self.n_features, d))
        squares = np.einsum("ij,ij->i", centres, centres)
        height = -0.5 * np.log(self.n_features)
        scaled = [2.0 * centres.T, np.full(self.n_features, -1.0), -squares]
        directions: Array = np.vstack(scaled) * (0.5 / self.bandwidth**2)
        directions[-1] += height
        return directions
