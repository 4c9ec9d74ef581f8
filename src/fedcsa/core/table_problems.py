"""What a Table 1 cannot be: sentences about numbers that contradict themselves, none quoted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import LARGEST, Array

#: Two digits of an sd move a second moment in its units by up to 10.3 % (1.05 told as 1.0), and
#: two digits of the moment itself by half a hundredth.
LARGEST_MOMENT = 1.12
#: The most by which rounding to two digits moves a share or a correlation.
SLACK = 0.005
Flags = Sequence[bool] | NDArray[np.bool_]


def value_problems(
    features: Sequence[str],
    flags: Flags,
    mean: Array,
    sd: Array,
) -> Iterator[str]:
    """A sentence for every column whose told mean or sd cannot be.

    Parameters
    ----------
    features : sequence of d str
    flags : sequence of d bool
        Columns of zeros and ones, whose mean is a share.
    mean, sd : arrays of shape (d,)
    """
    for name, flag, m, s in zip(features, flags, mean, sd, strict=True):
        if flag and not 0.0 <= m <= 1.0:
            advice = (
                "It looks like percent; divide it by 100." if 1.0 < m <= 100.0 else "Correct it."
            )
            yield f"The share of {name!r} must lie between 0 and 1; it does not. {advice}"
        if not flag and abs(m) > LARGEST:
            yield f"The mean of {name!r} must be at most {LARGEST:.0e} in size. Check its unit."
        if not (np.isfinite(s) and 0.0 < s <= LARGEST):
            yield (
                f"The sd of {name!r} must be a positive number of at most {LARGEST:.0e}; "
                "it is not. Correct it."
            )


def level_problems(features: Sequence[str], flags: Flags, mean: Array) -> list[str]:
    """A sentence for every column of levels whose shares are more than all rows.

    Parameters
    ----------
    features : sequence of d str
        Levels of one column have names that begin alike: ``"sex=F"``, ``"sex=M"``.
    flags : sequence of d bool
    mean : array of shape (d,)
    """
    shares: dict[str, list[float]] = {}
    for name, flag, m in zip(features, flags, mean, strict=True):
        if flag and "=" in name:
            shares.setdefault(name.partition("=")[0], []).append(float(m))
    return [
        f"The shares of the levels of {name!r} must sum to at most 1; they sum to more. "
        "Correct them."
        for name, own in shares.items()
        if sum(own) > 1.0 + SLACK * len(own) + 1e-9  # each is rounded
    ]


def moment_problems(R: Array) -> list[str]:
    """What keeps R, of shape (d, d), from being second moments of z, their rounding allowed for."""
    d = R.shape[1]
    if len(R) != d:
        return [f"Correlations must have {d} rows, one a column; they have {len(R)}. Add rows."]
    if np.abs(R - R.T).max() > 1e-9:
        return ["Correlations must be the same on both sides of the diagonal. Correct them."]
    if np.abs(R).max() > LARGEST_MOMENT:
        return ["Correlations must lie between -1 and 1; they do not. Correct them."]
    if np.linalg.eigvalsh(R).min() < -SLACK * d - 1e-9:  # d·slack bounds what rounding does
        return ["Correlations must be possible together; they are not. Check signs and pairs."]
    return []
