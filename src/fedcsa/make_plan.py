"""From what a user says of a study, in Python or in a file, to its plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from fedcsa.core.losses import check_loss
from fedcsa.errors import FedCSAError, ModelError, gathered, raise_all
from fedcsa.models.model import RATIO_POWER, Candidate
from fedcsa.models.registry import (
    check_names,
    default_candidates,
    expand_candidates,
    instantiate,
    model_description,
)
from fedcsa.plan import Plan


def make_plan(
    model: Any,
    candidates: Any,
    options: Mapping[str, Any],
    own_losses: Collection[str] = (),
    trusted: Collection[str] = (),
    build: bool = True,
    **columns: Any,
) -> Plan:
    """The plan of a study, or one error with a line for everything that is wrong.

    Parameters
    ----------
    model : str, mapping or scikit-learn estimator
    candidates : None, sequence or mapping
        As for `FedCSA`.
    options : mapping
        Of a plan, by name.
    own_losses : collection of str
        Names of losses that are not built in.
    trusted : collection of str
        Classes outside scikit-learn that the model may use.
    build : bool
        Build the model, to see whether it can be, and has the parameters that candidates set.
    **columns
        The other fields of a plan: features, classes, flags …
    """
    problems: list[str] = []
    n_classes, method = len(columns.get("classes", ())), options.get("method", Plan.method)
    loss = options.get("loss", Plan.loss)
    loss = "brier" if n_classes and loss == "squared" else loss
    described: dict[str, Any] = {}
    listed: tuple[Candidate, ...] = ()
    with gathered(problems):
        described = model_description(model)
        if candidates is None:
            listed = default_candidates(described, method, trusted)
        else:
            listed = expand_candidates(described["name"], candidates)
    with gathered(problems):
        plan = Plan(model=described, candidates=listed, **columns, **{**options, "loss": loss})
    if isinstance(loss, str):
        with gathered(problems):
            check_loss(loss, n_classes, own_losses)
    if build and listed:  # if it alone is wrong, its own kind of error says more
        with gathered(problems) if problems else nullcontext():
            _check_model(described, listed, n_classes, trusted)
    raise_all(problems)
    return plan


def _check_model(
    description: Mapping[str, Any],
    candidates: Sequence[Candidate],
    n_classes: int,
    trusted: Collection[str],
) -> None:
    try:
        model, _ = instantiate(description, candidates, n_classes, trusted)
    except FedCSAError:
        raise
    except Exception as error:  # whatever a class says to parameters that it does not like
        raise ModelError(
            f"The model cannot be built from its parameters ({type(error).__name__}). "
            "Look up which parameters its class wants."
        ) from None
    from fedcsa.models.estimators import SklearnModel, weight_keyword  # loads scikit-learn

    if isinstance(model, SklearnModel):
        check_names(model.estimator, candidates)
        if any(candidate.get(RATIO_POWER) for candidate in candidates):
            weight_keyword(model.estimator)
