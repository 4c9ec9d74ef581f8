"""How far a weighted source resembles the target: the numbers a statistician asks for first."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fedcsa.core.arrays import Array


@dataclass(frozen=True)
class Overlap:
    """Diagnostics of one source's density ratio on its validation rows.

    Attributes
    ----------
    mean_ratio : float
        Must be near 1: E_S[p_T/p_S] = 1.
    effective_rows : float
        (Σr)²/Σr², Kish's effective sample size; 0 where r ≡ 0.
    largest_share : float
        The largest r_i/Σr: how much one row can say.
    target_mean_ratio : float
        Estimate of E_T[r] = E_S[r²], from the target's side; large for a far source.
    difference_before, difference_after : array of shape (features,)
        Standardised mean differences against the target, (mean − target's mean)/target's sd,
        of the plain and of the weighted source rows.
    """

    mean_ratio: float
    effective_rows: float
    largest_share: float
    target_mean_ratio: float
    difference_before: Array = field(repr=False)
    difference_after: Array = field(repr=False)

    @property
    def imbalance(self) -> float:
        """Mean over features of the squared weighted difference."""
        return float(np.mean(self.difference_after**2))


def overlap(ratios: Array, standardised: Array, target_mean_ratio: float) -> Overlap:
    """Overlap numbers from `ratios` (rows,) and rows in the target's units (rows, features).

    >>> rows = np.array([[-1.0], [1.0], [3.0]])
    >>> numbers = overlap(np.array([1.0, 1.0, 0.0]), rows, 1.5)
    >>> round(numbers.effective_rows, 6), numbers.difference_before, numbers.difference_after
    (2.0, array([1.]), array([0.]))
    """
    before = standardised.mean(axis=0)
    if not ratios.any():
        return Overlap(0.0, 0.0, 0.0, target_mean_ratio, before, before)
    weights = normalised(ratios)
    return Overlap(
        mean_ratio=float(ratios.mean()),
        effective_rows=float(1.0 / (weights @ weights)),
        largest_share=float(weights.max()),
        target_mean_ratio=target_mean_ratio,
        difference_before=before,
        difference_after=weights @ standardised,
    )


def normalised(ratios: Array) -> Array:
    """r/Σr; equal weights where r ≡ 0."""
    largest = float(ratios.max())
    if largest == 0.0:
        return np.full(len(ratios), 1.0 / len(ratios))
    scaled = ratios / largest  # Σr of tiny ratios would lose digits
    weights: Array = scaled / scaled.sum()
    return weights
