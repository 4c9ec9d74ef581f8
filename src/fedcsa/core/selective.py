"""Whether rows with outcomes are like the target's at random, and weights for them if not.

Compared are the means of all features with the target's Table 1, in its standard deviations. If n
rows and the N of the table are drawn from the same patients, their means differ by
sd · sqrt(1/n + 1/N), with weights by sd · sqrt(Σw² + 1/N); by less, if the n are some of the N.
Means of few rows are not normal: of numbers the rows' own sd counts if it is larger, and a flag's
error is at least that with which its count is as rare as the binomial distribution says.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array, betainc, betaincc, ndtri
from fedcsa.core.table import Table1
from fedcsa.core.tilt import fit_tilt

#: Of rows drawn at random, so many would be called selective, all features together.
FALSE_ALARMS = 0.01
#: A smaller difference, in standard deviations, is nobody's concern however sure it is.
NEGLIGIBLE = 0.1
#: From so many rows on, the mean of a skewed feature is normal enough.
NORMAL_ROWS = 30
#: A count that is no rarer than this many standard errors is no news, and nothing is divided by 0 …
LEAST_ERRORS = 1e-3
#: … nor is the quantile of a chance of 0 asked for.
LEAST_CHANCE = 1e-300


@dataclass(frozen=True)
class Selection:
    """How rows with outcomes differ from the target's Table 1.

    Attributes
    ----------
    differences : array of shape (features,)
        Of the weighted means, in the target's standard deviations.
    errors : array of shape (features,)
        Standard errors that the differences of rows drawn at random would have.
    """

    differences: Array = field(repr=False)
    errors: Array = field(repr=False)

    @property
    def differs(self) -> NDArray[np.bool_]:
        """Which features differ by more than chance, and by enough to matter."""
        bound = float(ndtri(1.0 - FALSE_ALARMS / (2.0 * len(self.errors))))
        size = np.abs(self.differences)
        found: NDArray[np.bool_] = (size > bound * self.errors) & (size > NEGLIGIBLE)
        return found

    @property
    def imbalance(self) -> float:
        """ι, the mean of the squared differences."""
        return float(np.square(self.differences).mean())


def selection_of(z: Array, row_weights: Array, table: Table1) -> Selection:
    """Compare rows with a Table 1.

    Parameters
    ----------
    z : array of shape (rows, features)
        In the target's units: (x − mean)/sd.
    row_weights : array of shape (rows,)
        They sum to one.
    table : Table1
        Of all the target's rows.

    Examples
    --------
    >>> table = Table1.typed(400, ["age"], [False], [60.0], [10.0])
    >>> z = np.full((25, 1), 0.8)  # 25 patients, eight years too old
    >>> found = selection_of(z, np.full(25, 1 / 25), table)
    >>> found.differences.round(2), found.errors.round(3), found.differs
    (array([0.8]), array([0.206]), array([ True]))
    """
    share = np.clip(table.mean, 1.0 / table.n_rows, 1.0 - 1.0 / table.n_rows)
    variance = np.where(table.flags, share * (1.0 - share) / np.square(table.sd), 1.0)
    squares, mean = float(row_weights @ row_weights), row_weights @ z
    if 1.0 / NORMAL_ROWS < squares < 1.0:
        own = row_weights @ np.square(z - mean) / (1.0 - squares)
        variance = np.where(table.flags, variance, np.maximum(variance, own))
    errors = np.sqrt(variance * (squares + 1.0 / table.n_rows))
    rare = -ndtri(_binomial_chance(table.mean + table.sd * mean, share, 1.0 / squares) / 2.0)
    exact = np.abs(mean) / np.maximum(rare, LEAST_ERRORS)
    larger = table.flags & (np.abs(mean) > errors) & (exact > errors)
    return Selection(mean, np.where(larger, exact, errors))


def _binomial_chance(seen: Array, share: Array, rows: float) -> Array:
    """How often a share as far from the expected one is seen, on either side.

    Parameters
    ----------
    seen, share : array of shape (features,)
        Of the rows that have the flag: seen and expected.
    rows : float
        Effective rows.
    """
    k = np.clip(rows * seen, 0.0, rows)
    above = np.where(k > 0.0, betainc(np.maximum(k, LEAST_CHANCE), rows - k + 1.0, share), 1.0)
    below = np.where(k < rows, betaincc(k + 1.0, np.maximum(rows - k, LEAST_CHANCE), share), 1.0)
    found: Array = np.clip(2.0 * np.minimum(above, below), LEAST_CHANCE, 1.0)
    return found


def balanced_weights(z: Array, row_weights: Array) -> Array:
    """Weights as near to `row_weights` as they can be with the target's means; they sum to one.

    Only means are balanced, not squares and products: outcomes are few.

    Parameters
    ----------
    z : array of shape (rows, features)
        In the target's units.
    row_weights : array of shape (rows,)
        Of the design; they sum to one.
    """
    means_only = np.ones(z.shape[1], dtype=np.bool_)
    tilt = fit_tilt([np.column_stack([z, np.log(row_weights)])], means_only)
    moved = row_weights * tilt.weights(z)
    weights: Array = moved / moved.sum()
    return weights
