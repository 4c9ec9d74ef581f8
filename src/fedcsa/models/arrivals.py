"""Models that came from another site: opened, and bound to what was agreed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from fedcsa.core.arrays import Array
from fedcsa.errors import FedCSAError
from fedcsa.models.allowed import agreed_estimator, objection
from fedcsa.models.chosen import sklearn_name, split_pipeline
from fedcsa.models.description import GIVEN, LINEAR, another_model, must_agree
from fedcsa.models.formats import FORMATS, open_model
from fedcsa.models.given import model_digest
from fedcsa.models.inputs import inputs_of
from fedcsa.models.portable import Arrays, Before, Form, agreed_grid
from fedcsa.models.settling import made_columns

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
            raise another_model("digest")
    elif description.get("name") in LINEAR:
        if dict(form) != {"kind": "linear", "link": "identity"}:
            raise another_model("format")
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
    must_agree(not reason, "estimator")
    final = split_pipeline(estimator)[1]
    own = FORMATS.get(form["kind"])
    if own is None or sklearn_name(final) not in [*own.estimators]:
        raise another_model("format")
    before = Before(*made_columns(estimator, inputs, n_features, grid), n_features, grid)
    try:
        own.compared(form, arrays, final, before, n_classes)
    except (TypeError, ValueError):  # parameters of a wrong kind
        must_agree(False, "estimator")
