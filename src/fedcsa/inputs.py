"""What a user gives to `FedCSA`, checked and in one shape."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from fedcsa.core.arrays import Array
from fedcsa.core.folds import check_shares
from fedcsa.errors import DataError, must
from fedcsa.messages.policy import Policy
from fedcsa.models.description import describe


def ratio_options(options: Any, exchange: str) -> dict[str, Any]:
    """Options of the density ratio as plain values; none if it is an object of the user's own.

    Parameters
    ----------
    options : mapping, object with fit and predict, or None
    exchange : {"table", "rows"}
    """
    if options is not None and not isinstance(options, Mapping):
        if exchange != "rows":
            raise must("ratio", "left out unless exchange is 'rows'", type(options).__name__)
        if not (hasattr(options, "fit") and hasattr(options, "predict")):
            rule = "a mapping of options to values, or an object with fit and predict"
            raise must("ratio", rule, type(options).__name__)
        return {}
    listed = {k: list(v) if isinstance(v, tuple) else v for k, v in (options or {}).items()}
    return {key: describe(value) for key, value in listed.items()}


def check_sites(policy: Any, trusted: Any) -> None:
    """Raise unless these are rules and names that a site can be given."""
    if not isinstance(policy, Policy | None):
        raise must("policy", "a Policy or None", type(policy).__name__)
    texts = isinstance(trusted, Collection) and all(isinstance(name, str) for name in trusted)
    if not texts or isinstance(trusted, str):
        raise must("trusted_types", "a list of full names of classes", type(trusted).__name__)


def fold_shares(folds: Any) -> int | tuple[float, float, float] | None:
    """A number of folds, or the three shares of the paper's."""
    if folds is None or isinstance(folds, int | np.integer):
        return None if folds is None else int(folds)
    return check_shares(folds)


def named_pairs(sources: Any) -> list[tuple[str, Any, Any]]:
    """Name, X and y of every source."""
    if isinstance(sources, Mapping):
        items = [(str(name), pair) for name, pair in sources.items()]
    elif isinstance(sources, Sequence) and not isinstance(sources, str):
        items = [(f"source-{index + 1}", pair) for index, pair in enumerate(sources)]
    else:
        raise must("sources", "a mapping name -> (X, y) or a list of pairs", type(sources).__name__)
    if not items:
        raise must("sources", "at least one source", 0)
    names = [name for name, _ in items]
    if len(set(names)) < len(names):
        raise must("sources", "sources with distinct names", max(names, key=names.count))
    triples = []
    for name, pair in items:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise DataError(
                f"Source {name!r} must be a pair (X, y); it is not. Put both in a tuple."
            )
        if pair[1] is None:
            raise DataError(
                f"Source {name!r} must have outcomes y; they are missing. "
                "A site without outcomes can only be the target."
            )
        triples.append((name, pair[0], pair[1]))
    return triples


def classes_of(data: Mapping[str, tuple[Array, Any]]) -> tuple[Any, ...]:
    """The union of all sources' labels, sorted; in a federation the study file declares them."""
    labels: set[Any] = set()
    for name, (_, y) in data.items():
        found = np.asarray(y).ravel().tolist()
        if any(label is None or label != label for label in found):
            raise DataError(
                f"The outcome of source {name!r} must be complete; some are missing. "
                "Drop those rows."
            )
        labels |= set(found)
    if not all(isinstance(label, str | int | float) for label in labels):
        raise DataError("Classes must be texts or numbers; some are neither. Convert them first.")
    try:
        return tuple(sorted(labels))
    except TypeError:
        raise DataError(
            "Classes must all be texts or all be numbers; they are mixed. Convert them first."
        ) from None


def seed_of(random_state: Any) -> int:
    """A seed from a number, a generator or nothing."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**32))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**32))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return int(random_state)
    raise must("random_state", "a whole number, a generator or None", type(random_state).__name__)


def classifies(model: Any) -> bool:
    """Whether `model` is a scikit-learn classifier."""
    instance = hasattr(model, "get_params") and not isinstance(model, type)
    return instance and bool(is_classifier(model))
