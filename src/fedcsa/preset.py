"""Presets: what one word sets of a study's options, each value with its reason.

There is one, ``"paper"``: Algorithm 1 of the paper, as it is printed. What every line of it became
is told in ``docs/paper-algorithm.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: preset -> option -> value.
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {
        #: Step 4 with the risk (09) and the weights (10).
        "method": "feddae",
        #: Step 1: the target transmits its rows.
        "exchange": "rows",
        #: Step 3.1: three disjoint folds, one use of each.
        "scheme": "split",
        #: The paper gives no shares for its simulations; thirds favour none of the three tasks.
        "folds": 3,
        #: Step 3.3 learns on the train fold alone, and step 3.5 sends that model.
        "refit": False,
        #: No line of the paper scales a column.
        "scale": False,
        #: Step 3.2, Kanamori et al. (2009): centres at up to 100 rows of the target, coefficients
        #: clipped at zero, σ and λ by the exact leave-one-out score of all pairs of rows.
        "ratio": {
            "n_centres": 100,
            "nonnegative": "coefficients",
            "alpha": 0.0,
            "score_rows": None,
        },
        #: Step 5: the sum over sources of α_j h_j.
        "combine": "mean",
    },
}
#: Methods under which sources examine a model, so that something is promised.
EXAMINED = ("validated", "given")
#: What may be chosen otherwise, for the paper leaves it open or compares: FedIWE and the naive
#: choice are run beside FedDAE, and no shares of the folds are printed.
OPEN = ("method", "folds")
#: Θ = [0, 1] in steps of a hundredth: both of the paper's models are linear, so that a finer grid
#: costs nothing and a hundredth is less than any choice can be told apart by.
THETA = tuple(k / 100 for k in range(101))


def preset_values(preset: Any) -> Mapping[str, Any]:
    """What a preset sets; nothing if there is no such preset."""
    return PRESETS.get(preset, {}) if isinstance(preset, str) else {}


def is_value(value: Any, other: Any) -> bool:
    """Whether two values of an option are one; an array is none that a preset or default has.

    Parameters
    ----------
    value, other : object
    """
    return value is other or (type(value) is type(other) and bool(value == other))


def method_title(method: str, exchange: str, preset: str | None) -> str:
    """What a method is called: a formula of the paper says on which weights of rows it runs.

    Parameters
    ----------
    method : str
    exchange : {"table", "rows"}
    preset : str or None

    Examples
    --------
    >>> method_title("feddae", "table", None)
    "feddae, on the table's weights"
    >>> method_title("feddae", "rows", "paper")
    'feddae, preset paper'
    """
    if method in EXAMINED:
        return method
    if preset is not None:
        return f"{method}, preset {preset}"
    if method == "naive":
        return "naive, rows unweighted"
    weights = "the table's weights" if exchange == "table" else "a ratio fitted on rows"
    return f"{method}, on {weights}"
