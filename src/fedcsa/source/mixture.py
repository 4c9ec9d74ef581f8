"""The mixture that a source is asked to examine, opened and bound to what was agreed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.weights import median_mixture
from fedcsa.errors import MessageError, ModelError, PolicyError
from fedcsa.messages.fields import Message, to_json
from fedcsa.messages.messages import Brief, Examination
from fedcsa.models.arrivals import open_agreed
from fedcsa.models.description import GIVEN, given_column
from fedcsa.models.fitted import FittedModel
from fedcsa.models.linear_format import LinearModel, Lines
from fedcsa.models.model import predicted_or_why_not
from fedcsa.source.weigh import Batch

if TYPE_CHECKING:
    from fedcsa.source.measure import Work

#: From a batch to what the mixture and its members predict, see `mixture_and_members`.
Predictor = Callable[[Batch], tuple[Array | None, "Array | list[Array | None]"]]


def members_of(asked: Examination, brief: Brief) -> Sequence[FittedModel]:
    """The models in an examination, opened and bound to what was agreed.

    Parameters
    ----------
    asked : Examination
    brief : Brief
        Of the study, on which this site has reported.
    """
    n_classes = len(brief.classes)
    if brief.exchange != "table" or len(asked.constant) != max(n_classes, 1):
        raise MessageError("An examination must be of the study's features and outcome.")
    model, column = brief.model, given_column(brief.model)
    if asked.own_weight == 1.0 and not column and model.get("name") == GIVEN:
        raise MessageError("An examination of a given model must hold it.")
    if column and (asked.own_weight != 1.0 or len(asked.forms)):
        raise MessageError("An examination must be of the sites' own column of predictions.")
    together = asked.together
    if together and model.get("name") == GIVEN:
        raise MessageError("An examination of a given model must hold one.")
    held, found = asked.held or (None,) * len(asked.forms), []
    first = {name: rows[0] for name, rows in together.items()}
    members = [(asked.forms[0], first)] if together else asked.members
    try:
        for own, (form, arrays) in zip(held, members, strict=True):
            found.append(open_agreed(form, arrays, brief, asked.candidate, brief.sd, own))
    except ModelError as error:
        raise MessageError(f"An examination must hold models of the study. {error}") from None
    if not together:
        return found
    line = found[0]
    if not isinstance(line, LinearModel):
        raise MessageError("An examination must have a form for every model that is no line.")
    return Lines(together["coefficients"], together["intercept"][:, 0], line.link)


def check_second(asked: Examination, first: Message | None) -> None:
    """Refuse a second examination unless it is of some of the first one's models.

    Parameters
    ----------
    asked : Examination
        The second.
    first : Examination or None
        None if there was none.
    """
    known = _fingerprints(first) if isinstance(first, Examination) else []
    if first is None or not set(_fingerprints(asked)) <= set(known):
        raise PolicyError(
            "one_examination",
            "A second examination must be of models that were examined in the first.",
        )


def _fingerprints(asked: Examination) -> list[Hashable]:
    """What tells an examination's members apart: all their bytes, or which object they are."""
    held = asked.held or (None,) * len(asked.weights)
    return [
        (to_json(form), *((name, array.shape, array.tobytes()) for name, array in arrays.items()))
        if own is None
        else id(own)
        for own, (form, arrays) in zip(held, asked.members, strict=True)
    ]


def mixture_and_members(
    asked: Examination, members: Sequence[FittedModel], work: Work, batch: Batch
) -> tuple[Array | None, Array | list[Array | None]]:
    """What the mixture predicts for a batch, and what every member does.

    Where most of it is the source's own, that is held-out predictions.

    Parameters
    ----------
    asked : Examination
    members : sequence of FittedModel
    work : Work
        Whose paths hold the chosen candidate alone, if the source's own model takes part.
    batch : Batch

    Returns
    -------
    mixture : array of shape (rows,) or (rows, classes), or None
        None where a member cannot predict the rows.
    members : array of shape (members, rows), or list of arrays and None
        An array of lines.
    """
    X, lines, weights = batch.seen, Lines.of(members), asked.weights
    # A mean of lines is a line.
    one = lines.mean(weights) if lines is not None and asked.combine == "mean" else None
    each: Array | list[Array | None]
    if one is not None and lines is not None and lines.link == "identity":
        with np.errstate(all="ignore"):  # what is not finite is looked for
            each = (X @ lines.coefficients.T + lines.intercepts).T
    else:  # a model of another site may know nothing of a level that is only here
        each = [predicted_or_why_not(member, X)[0] for member in members]
    taken, outputs = each, list[Array]()
    if one is not None:
        taken, weights = [predicted_or_why_not(one, X)[0]], np.array([weights.sum()])
    for output in taken:
        if output is None:
            return None, each
        outputs.append(output)
    if asked.own_weight:
        outputs.append(_held_out(work, batch))
        weights = np.append(weights, asked.own_weight)
    if asked.combine == "median":
        return median_mixture(np.stack(outputs, axis=1), weights), each
    total: Array = weights[0] * outputs[0]
    for weight, output in zip(weights[1:], outputs[1:], strict=True):
        total = total + weight * output
    return total, each


def _held_out(work: Work, batch: Batch) -> Array:
    """The site's column of predictions, or those of its own models, each on rows it has not seen.

    Parameters
    ----------
    work : Work
        With fits, of one candidate: a source without them has no weight.
    batch : Batch
    """
    if batch.given is not None:
        p = batch.given
        return np.column_stack([1.0 - p, p]) if work.rows.brief.classes else p
    if work.outputs is not None:
        own: Array = work.outputs[0, batch.place]
        return own
    assert work.fits is not None  # noqa: S101 - see above
    folds = work.fits.folds
    labels = folds.labels(batch)
    found: Array | None = None
    for turn, path in zip(folds.turns, work.paths, strict=True):
        here, [model] = np.flatnonzero(labels == turn.judge), path.models
        if len(here) and model is not None:
            output = model.predict(batch.seen[here])
            found = np.zeros((len(labels), *output.shape[1:])) if found is None else found
            found[here] = output
    assert found is not None  # noqa: S101 - there is a row
    return found
