"""What the value of an option must be, in words and as a function, and what a preset sets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcsa.core.arrays import is_whole
from fedcsa.core.folds import check_shares
from fedcsa.errors import ParameterError, must, one_of


@dataclass(frozen=True)
class Option:
    """What the value of an option must be.

    Attributes
    ----------
    words : str
        Ends the sentence "The option must be …".
    holds : function
        Whether a value is that.
    optional : bool
        Whether None will do: the plan then fills the value in.
    allowed : tuple of str
        The texts to choose from, if there are few.
    """

    words: str
    holds: Callable[[Any], bool]
    optional: bool = False
    allowed: tuple[str, ...] = ()

    def problem(self, name: str, value: Any) -> ParameterError | None:
        """What is wrong with the value of the option `name`, if anything is."""
        sound = (value is None and self.optional) or self.holds(value)
        return None if sound else self.refusal(name, value)

    def refusal(self, name: str, value: Any) -> ParameterError:
        """What is wrong with a value that does not hold."""
        short = value is None or isinstance(value, str | int | float)
        got = value if short else type(value).__name__
        return one_of(name, self.allowed, got) if self.allowed else must(name, self.words, got)


def is_number(value: Any) -> bool:
    """Whether a value is a number, and no truth value."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def is_list(value: Any, holds: Callable[[Any], bool]) -> bool:
    """Whether a value is a list of which `holds` is true throughout."""
    many = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)
    return many and getattr(value, "ndim", 1) > 0 and all(map(holds, value))


def are_shares(value: Any) -> bool:
    """Whether a value is three positive shares that sum to 1."""
    try:
        return bool(check_shares(value))
    except ParameterError:
        return False


def are_weights(value: Any) -> bool:
    """Whether a value is a weight for every name, one of them above 0."""
    given = [*value.values()] if isinstance(value, Mapping) else []
    return all(is_number(w) and 0.0 <= w < math.inf for w in given) and any(given)


SHARES = "three positive shares that sum to 1"
WEIGHTS = "one weight ≥ 0 per source, not all zero, as a mapping of names to finite numbers"
RATIO = "a mapping of options to values, or an object with fit and predict"
TEXT = Option("a text", lambda value: isinstance(value, str))
FLAG = Option("true or false", lambda value: isinstance(value, bool | np.bool_))
_NUMBERS = Option(
    "a number or a list of numbers", lambda v: is_number(v) or is_list(v, is_number), True
)
#: Options of the density ratio; `ULSIF` checks the ranges.
RATIO_OPTIONS: Mapping[str, Option] = {
    "bandwidths": _NUMBERS,
    "regularizations": _NUMBERS,
    "n_centres": Option("a number", is_number),
    "nonnegative": TEXT,
    "alpha": Option("a number", is_number),
    "score_rows": Option("a number", is_number, optional=True),
}
#: scheme -> what `folds` must be with it.
FOLD_RULES: Mapping[str, Option] = {
    "cross-fit": Option(
        "a whole number of at least 2 with scheme 'cross-fit'",
        lambda value: is_whole(value, 2),
        True,
    ),
    "split": Option(
        f"3, or {SHARES}, with scheme 'split'",
        lambda value: value == 3 if is_whole(value, 0) else are_shares(value),
        True,
    ),
}


# Presets: there is one, Algorithm 1 of the paper as it is printed; `docs/paper-algorithm.md` tells
# what every line of it became.

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
