"""Models that came from another site: opened, and bound to what was agreed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.errors import FedCSAError, ModelError
from fedcsa.models.allowed import agreed_estimator, objection
from fedcsa.models.chosen import sklearn_name, split_pipeline
from fedcsa.models.description import GIVEN, LINEAR, thaw
from fedcsa.models.formats import open_model
from fedcsa.models.given import model_digest
from fedcsa.models.inputs import inputs_of
from fedcsa.models.linear_format import linear_link
from fedcsa.models.portable import Arrays, Form, agreed_grid
from fedcsa.models.settling import agreed_steps, made_columns
from fedcsa.models.steps import Steps, steps_arrays, steps_form, without_nothing
from fedcsa.models.tree_format import AVERAGED_TREES, TREES, boosting_link
from fedcsa.models.trees import Forest

if TYPE_CHECKING:
    from fedcsa.models.fitted import FittedModel


class Agreed(Protocol):
    """What was agreed of a study's model: a plan says it, and a brief."""

    @property
    def model(self) -> Mapping[str, Any]:
        """Its description, in plain values."""
        ...

    @property
    def candidates(self) -> Sequence[Mapping[str, Any]]:
        """In plain values; none of a given model."""
        ...

    @property
    def scale(self) -> bool:
        """Whether models see features in units of the target's sds."""
        ...

    @property
    def classes(self) -> Sequence[Any]:
        """Of the study's outcome; none for numbers."""
        ...


def open_agreed(
    form: Form,
    arrays: Arrays,
    agreed: Agreed,
    chosen: int,
    sd: Array,
    held: FittedModel | None = None,
) -> FittedModel:
    """The model of a message, if it is sound and the one that was agreed; else a `ModelError`.

    Parameters
    ----------
    form : mapping
    arrays : mapping of str to array
    agreed : Agreed
        The study's plan or brief.
    chosen : int
        Number of the candidate.
    sd : array of shape (features,)
        The target's standard deviations, from which the agreed grid follows.
    held : FittedModel, optional
        In one process, a model that has no format of ours: it is taken as it is.
    """
    if held is not None:
        return held
    description, n_classes = agreed.model, len(agreed.classes)
    candidate = agreed.candidates[chosen] if agreed.candidates else {}
    model = open_model(form, arrays, len(sd), n_classes)
    if description.get("name") == GIVEN:
        if model_digest(model) != description.get("sha256"):
            raise _another("digest")
    elif description.get("name") in LINEAR:
        if dict(form) != {"kind": "linear", "link": "identity"}:
            raise _another("format")
    else:
        grid = agreed_grid(sd, scale=agreed.scale)
        check_agreed(form, arrays, description, candidate, len(sd), n_classes, grid)
    return model


def check_agreed(
    form: Form,
    arrays: Arrays,
    description: Mapping[str, Any],
    candidate: Mapping[str, Any],
    n_features: int,
    n_classes: int,
    grid: Array | None = None,
) -> None:
    """Raise a `ModelError` unless this is the model of scikit-learn that was agreed.

    Kind, link, classes, numbers of trees, depth, leaves, steps and their parameters. Call it
    after `open_model`, which checks that the arrays are sound.

    Parameters
    ----------
    form : mapping
    arrays : mapping of str to array
    description : mapping
        Of the study's model.
    candidate : mapping
        The chosen one, with its plain values.
    n_features : int
    n_classes : int
        Of the study's outcome; 0 for numbers.
    grid : array of shape (features,), optional
        As `fedcsa.models.portable.agreed_grid` gives it; the steps of trees must be it.
    """
    try:
        inputs = inputs_of(description)
        estimator = agreed_estimator(description, candidate)
        reason = objection(estimator, inputs)
    except FedCSAError:
        reason = "unknown"
    _must(not reason, "estimator")
    final = split_pipeline(estimator)[1]
    if sklearn_name(final) in TREES:
        try:
            _check_trees(form, arrays, final, n_classes)
        except (TypeError, ValueError):  # parameters of a wrong kind
            _must(False, "estimator")
        steps, columns = made_columns(estimator, inputs, n_features, grid)
        _check_steps(form, arrays, without_nothing(steps, n_features))
        _must(("missing_left" in arrays) == any(c.missing for c in columns), "way of empty cells")
        own = np.array([column.step for column in columns])
        _must(grid is None or np.array_equal(arrays.get("step", ()), own), "grid")
    else:
        steps = agreed_steps(estimator, n_features, inputs)
        _check_linear(form, arrays, sklearn_name(final), steps, n_classes)


#: Arrays of steps that were learnt; all others were agreed.
_LEARNT = (".shift", ".scale", ".fill", ".chosen")


def _check_steps(form: Form, arrays: Arrays, steps: Steps) -> None:
    """Compare steps with what was agreed.

    Parameters
    ----------
    form : mapping
    arrays : mapping of str to array
    steps : Steps
        That were agreed.
    """
    _must(thaw(form.get("steps", [])) == steps_form(steps), "steps")
    for name, array in steps_arrays(steps).items():
        same = name.endswith(_LEARNT) or np.array_equal(arrays[name], array)
        _must(same, f"array {name!r}")


def _must(holds: object, what: str) -> None:
    """Raise a `ModelError` that names `what` unless it holds.

    Parameters
    ----------
    holds : object
    what : str
    """
    if not holds:
        raise _another(what)


def _another(what: str) -> ModelError:
    """The error for a model that is not the one that was agreed."""
    return ModelError(
        f"A received model must be the one that was agreed; its {what} is another. "
        "Ask the source which version of fedcsa it runs, or leave it out."
    )


def _known_classes(form: Form, n_classes: int) -> list[int]:
    """Classes of a form; a source that has not seen one of two cannot fit a model.

    Parameters
    ----------
    form : mapping
    n_classes : int
    """
    classes = list(form.get("classes", range(n_classes)))
    _must(len(classes) == n_classes or (n_classes > 2 and len(classes) >= 2), "number of classes")
    return classes


def _check_linear(form: Form, arrays: Arrays, name: str, steps: Steps, n_classes: int) -> None:
    """Compare a linear model with what was agreed.

    Parameters
    ----------
    form : mapping
    arrays : mapping of str to array
    name : str
        Of the linear estimator.
    steps : Steps
        That were agreed.
    n_classes : int
    """
    classes = _known_classes(form, n_classes)
    link = linear_link(name, classes)[0]
    plain = not steps and link in ("identity", "logistic") and n_classes in (0, 2)
    _must(form["kind"] == ("linear" if plain else "design"), "format")
    _must(form["link"] == link, "link")
    if not plain:
        _check_steps(form, arrays, steps)


def _check_trees(form: Form, arrays: Arrays, estimator: Any, n_classes: int) -> None:
    """Compare trees with what was agreed.

    Parameters
    ----------
    form : mapping
    arrays : mapping of str to array
    estimator : scikit-learn estimator
        As agreed, with the candidate's parameters.
    n_classes : int
    """
    name = sklearn_name(estimator)
    averaged = name in AVERAGED_TREES
    _must(form["kind"] == "trees", "format")
    _must(form["combine"] == ("mean" if averaged else "sum"), "way to combine trees")
    if averaged:
        link, outputs = ("probabilities" if n_classes else "identity"), 1
    else:
        classes = _known_classes(form, n_classes)
        link = boosting_link(estimator.loss, len(classes))
        outputs = len(classes) if link == "softmax" else 1
    _must(form["link"] == link, "link")
    forest = Forest.of(arrays["feature"], arrays["threshold"])
    most = int(getattr(estimator, "max_iter", getattr(estimator, "n_estimators", 1)))
    n_trees = len(forest.roots)
    exact = averaged or getattr(estimator, "n_iter_no_change", None) is None
    exact = exact and not name.startswith("Hist")
    _must(n_trees == most * outputs if exact else n_trees <= most * outputs, "number of trees")
    if estimator.max_depth is not None:
        _must(max(forest.depths) <= estimator.max_depth, "depth of trees")
    if getattr(estimator, "max_leaf_nodes", None) is not None:
        _must(max(forest.leaves) <= estimator.max_leaf_nodes, "number of leaves")
