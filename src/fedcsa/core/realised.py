"""How sure the mean of some rows' losses is, and whether it keeps a promise.

Losses that are all equal, or nearly so, have hardly any sample variance, and yet the next one may
differ: two correct predictions do not prove that every prediction is correct, and rows without the
rare event do not prove that it never comes. For a loss in [0, 1] that much is bounded: an error
rate is binomial, and its error is that of a sample with two losses of 0 and two of 1 more (Agresti
and Coull 1998); so we take that of a Brier score. For any other loss nothing is known.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedcsa.core.arrays import Array, betaincinv, stdtrit
from fedcsa.core.losses import BOUNDED

#: Beyond this many times the nearer end of its interval a promise was worth nothing: sites differ
#: by a fifth, and an interval allows for that already.
FAR = 2.0

Place = Literal["inside", "above", "far above", "below", "far below"]


def place(lowest: float, highest: float, lower: float, upper: float) -> Place:
    """Where a realised risk lies against the interval that was promised.

    Parameters
    ----------
    lowest, highest : float
        The realised risk, its own sampling error taken off and added.
    lower, upper : float
        The promised interval; not negative.

    Examples
    --------
    >>> [place(r - 0.1, r + 0.1, 1.0, 2.0) for r in (0.3, 0.6, 1.5, 2.05, 4.0, 4.2)]
    ['far below', 'below', 'inside', 'inside', 'above', 'far above']
    """
    if lowest > FAR * upper:
        return "far above"
    if highest < lower / FAR:
        return "far below"
    if lowest > upper:
        return "above"
    return "below" if highest < lower else "inside"


def standard_error(losses: Array, loss: str, groups: Array | None = None) -> float:
    """Standard error of the mean of at least two losses.

    Parameters
    ----------
    losses : array of shape (rows,)
    loss : str
        Its name; ``""`` for one of the user's own. ``"zero-one"`` and ``"brier"`` have the
        plus-four error, which is never 0, all others the sample's own.
    groups : array of shape (rows,), optional
        Which rows are of one patient. Their losses go together, so the error is at least that of
        the patients' sums.
    """
    n = len(losses)
    if loss in BOUNDED:
        own = float(np.append(losses, (0.0, 0.0, 1.0, 1.0)).std() / np.sqrt(n + 4.0))
    else:
        own = float(losses.std(ddof=1) / np.sqrt(n))
    if groups is None:
        return own
    _, patient = np.unique(groups, return_inverse=True)
    sums = np.bincount(patient, losses - losses.mean())
    if len(sums) < 2:  # of one patient nobody can say how patients differ
        return own
    return max(own, float(np.sqrt(sums @ sums * len(sums) / (len(sums) - 1.0)) / n))


def mean_interval(losses: Array, loss: str, level: float) -> tuple[float, float] | None:
    """Interval of the mean of at least two losses; None if they are equal and may be any number.

    Clopper and Pearson's for an error rate, else Student's with the error above.

    Parameters
    ----------
    losses : array of shape (rows,)
    loss : str
        As for `standard_error`.
    level : float
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
