"""Sources as somebody hands them over in Python: pairs by name, classes, predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.errors import DataError, must
from fedcsa.models.handed import has_classes


def named_pairs(sources: Any) -> list[tuple[str, Any, Any]]:
    """Name, X and y of every source."""
    if isinstance(sources, Sequence) and not isinstance(sources, str):
        sources = {f"source-{index + 1}": pair for index, pair in enumerate(sources)}
    if not isinstance(sources, Mapping) or not all(isinstance(name, str) for name in sources):
        raise must("sources", "a mapping name -> (X, y) or a list of pairs", type(sources).__name__)
    if not sources:
        raise must("sources", "at least one source", 0)
    for name, pair in sources.items():
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise DataError(f"Source {name!r} must be a pair (X, y). Put both in a tuple.")
        if pair[1] is None:
            raise DataError(
                f"Source {name!r} must have outcomes y. A site without them can only be the target."
            )
    return [(name, *pair) for name, pair in sources.items()]


def frames_of(sources: Any) -> dict[str, Any]:
    """Rows of every source as they were given, by its name."""
    return {name: X for name, X, _ in named_pairs(sources)}


def classes_of(data: Mapping[str, tuple[Array, Any]]) -> tuple[Any, ...]:
    """The union of all sources' labels, sorted; in a federation the study file declares them."""
    labels: set[Any] = set()
    for name, (_, y) in data.items():
        found = set(np.asarray(y).ravel().tolist())
        # nan is not equal to itself, and whether pandas.NA is, is NA.
        if any(label is None or (label == label) is not True for label in found):
            raise DataError(f"The outcome of source {name!r} has missing labels. Drop those rows.")
        if any(isinstance(label, float) and not label.is_integer() for label in found):
            raise DataError(
                f"The outcome of source {name!r} must hold classes; it is continuous. Use a "
                "regressor, or make classes of it first."
            )
        labels |= found
    kinds = {isinstance(label, str) for label in labels}
    if len(kinds) != 1 or not all(isinstance(label, str | int | float) for label in labels):
        raise DataError("Classes must all be texts or all be numbers. Convert them first.")
    return tuple(sorted(labels))


def classes_for(model: Any, data: Mapping[str, tuple[Array, Any]]) -> tuple[Any, ...]:
    """Labels of the outcome that a given model predicts; bare predictions are of two, or numbers.

    Parameters
    ----------
    model : fitted estimator, Formula, FileModel or None
    data : mapping of str to (X, y)
    """
    wanted = has_classes(model)
    labels = {label for _, y in data.values() for label in np.ravel(y).tolist()}
    without_event = len(labels) == 1 and labels <= {0, 1}  # then nobody else says what an event is
    if wanted is None:
        wanted = len(labels) == 2 or without_event
    if not wanted:
        return ()
    known = np.ravel(getattr(model, "classes_", (0, 1) if without_event else ())).tolist()
    return tuple(sorted(known)) if labels <= set(known) else classes_of(data)


def apart(sources: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Pairs (X, y) and predictions by name, out of triples."""
    if isinstance(sources, Sequence) and not isinstance(sources, str):
        sources = {f"source-{index + 1}": item for index, item in enumerate(sources)}
    if not isinstance(sources, Mapping):
        rule = "a mapping name -> (X, y, predictions) or a list of triples"
        raise must("sources", rule, type(sources).__name__)
    for name, item in sources.items():
        if not isinstance(item, tuple | list) or len(item) != 3:
            raise DataError(
                f"Source {name!r} must be (X, y, predictions) where no model is given. Put all "
                "three in a tuple."
            )
        if len(np.shape(item[2])) != 1 or len(item[2]) != len(item[1]):
            raise DataError(f"Source {name!r} must have one prediction for every outcome.")
    pairs = {name: tuple(item[:2]) for name, item in sources.items()}
    return pairs, {
        name: (as_predictions(item[2], f"source {name!r}"),) for name, item in sources.items()
    }


def as_predictions(values: Any, whose: str) -> Array:
    """Predictions as numbers; whether they are finite is looked at later.

    Parameters
    ----------
    values : array
    whose : str
    """
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        # `from None`: numpy's own text quotes the cell that it could not convert.
        raise DataError(
            f"The predictions of {whose} must be numbers. Convert them first."
        ) from None
