"""How sure the mean of some rows' losses is.

Losses that are all equal have a sample variance of 0, and yet the next one may differ: two correct
predictions do not prove that every prediction is correct. For a loss in [0, 1] the binomial
distribution says how much is possible, because no loss with the same mean varies more than one that
is 0 or 1. For any other loss nothing is known.
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
        Its name; ``""`` for one of the user's own. ``"zero-one"`` has the plus-four error
        √(p̃(1 − p̃)/ñ) with p̃ = (Σ loss + 2)/ñ and ñ = n + 4 (Agresti and Coull 1998), which is
        never 0; so has ``"brier"`` where all losses are equal. All others have the sample's own.
    """
    n = len(losses)
    if not _binomial(losses, loss):
        return float(losses.std(ddof=1) / np.sqrt(n))
    p = (_successes(losses) + 2.0) / (n + 4.0)
    return float(np.sqrt(p * (1.0 - p) / (n + 4.0)))


def mean_interval(losses: Array, loss: str, level: float) -> tuple[float, float] | None:
    """Interval of the mean of at least two losses; None if they are equal and may be any number.

    It is Clopper and Pearson's where `standard_error` has the plus-four error, else Student's.
    """
    n, tail = len(losses), 0.5 - level / 2.0
    if _binomial(losses, loss):
        k = _successes(losses)
        lower = float(betaincinv(k, n - k + 1.0, tail)) if k > 0.0 else 0.0
        upper = float(betaincinv(k + 1.0, n - k, 1.0 - tail)) if k < n else 1.0
        return lower, upper
    if _equal(losses):
        return None
    mean, slack = float(losses.mean()), standard_error(losses, loss)
    slack *= float(stdtrit(n - 1, 1.0 - tail))
    return mean - slack, mean + slack


def _binomial(losses: Array, loss: str) -> bool:
    return loss == "zero-one" or (loss in BOUNDED and _equal(losses))


def _equal(losses: Array) -> bool:
    # Not by the variance: rounding of the mean gives equal losses a tiny one.
    return bool(losses.min() == losses.max())


def _successes(losses: Array) -> float:
    return min(float(losses.sum()), float(len(losses)))  # a Brier score may be rounded beyond 1
