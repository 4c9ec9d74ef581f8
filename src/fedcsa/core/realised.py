"""How sure the mean of some rows' losses is.

Losses that are all equal, or nearly so, have hardly any sample variance, and yet the next one may
differ: two correct predictions do not prove that every prediction is correct, and rows without the
rare event do not prove that it never comes. For a loss in [0, 1] that much is bounded: an error
rate is binomial, and its error is that of a sample with two losses of 0 and two of 1 more (Agresti
and Coull 1998); so we take that of a Brier score. For any other loss nothing is known.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv, stdtrit

from fedcsa.core.arrays import Array

#: Losses in [0, 1].
BOUNDED = ("brier", "zero-one")


def standard_error(losses: Array, loss: str) -> float:
    """Standard error of the mean of at least two losses.

    Parameters
    ----------
    loss : str
        Its name; ``""`` for one of the user's own. ``"zero-one"`` and ``"brier"`` have the
        plus-four error, which is never 0, all others the sample's own.
    """
    if loss in BOUNDED:
        return float(np.append(losses, (0.0, 0.0, 1.0, 1.0)).std() / np.sqrt(len(losses) + 4.0))
    return float(losses.std(ddof=1) / np.sqrt(len(losses)))


def mean_interval(losses: Array, loss: str, level: float) -> tuple[float, float] | None:
    """Interval of the mean of at least two losses; None if they are equal and may be any number.

    Clopper and Pearson's for an error rate, else Student's with the error above.
    """
    n, tail = len(losses), 0.5 - level / 2.0
    if loss == "zero-one":
        k = float(losses.sum())
        lower = float(betaincinv(k, n - k + 1.0, tail)) if k > 0.0 else 0.0
        upper = float(betaincinv(k + 1.0, n - k, 1.0 - tail)) if k < n else 1.0
        return lower, upper
    # Not by the variance: rounding of the mean gives equal losses a tiny one.
    if loss not in BOUNDED and losses.min() == losses.max():
        return None
    mean, slack = float(losses.mean()), standard_error(losses, loss)
    slack *= float(stdtrit(n - 1, 1.0 - tail))
    if loss in BOUNDED:
        return max(mean - slack, 0.0), min(mean + slack, 1.0)
    return mean - slack, mean + slack
