"""The others' mixture as a source sees it: which models, checked, and what they predict here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.weights import median_mixture
from fedcsa.errors import MessageError, PolicyError
from fedcsa.messages.messages import Brief, Examination
from fedcsa.models.fitted import EstimatorModel, FittedModel, LinearModel
from fedcsa.source.measure import Work
from fedcsa.source.site_rows import Batch

#: From a batch to predictions (rows,) or (rows, classes).
Predictor = Callable[[Batch], Array]


def check_examination(brief: Brief, asked: Examination, *, packed_models: bool) -> None:
    """Refuse models that this site does not open, or that are of another study.

    Parameters
    ----------
    brief : Brief
    asked : Examination
    packed_models : bool
        Whether this site opens models that are not linear.
    """
    n_classes, fits = len(brief.classes), True
    if asked.format == "linear":
        fits = asked.coefficients.shape[1] == len(brief.features)
        fits = fits and (asked.link == "logistic") == (n_classes == 2)
    elif not packed_models:
        raise PolicyError(
            "packed_models", "Models of other sites are opened here only if they are linear."
        )
    constant = len(asked.constant) == max(n_classes, 1)
    if brief.exchange != "table" or not (fits and constant):
        raise MessageError("An examination must be of the study's features and outcome.")


def members_of(asked: Examination, n_classes: int, trusted: Collection[str]) -> list[FittedModel]:
    """The models in an examination.

    Parameters
    ----------
    asked : Examination
    n_classes : int
    trusted : collection of str
        Types outside scikit-learn that a packed model may hold.
    """
    if asked.format == "linear":
        return [
            LinearModel(np.array(b), float(b0), asked.link)
            for b, b0 in zip(asked.coefficients, asked.intercepts, strict=True)
        ]
    ends = np.cumsum(asked.sizes.astype(np.intp))
    blobs = np.split(asked.packed, ends[:-1])
    return [EstimatorModel.unpack(blob, n_classes, trusted) for blob in blobs]


def mixture_of(asked: Examination, members: Sequence[FittedModel], work: Work) -> Predictor:
    """The mixture as a function of a batch; where most is the source's own, held-out predictions.

    Parameters
    ----------
    asked : Examination
    members : sequence of FittedModel
    work : Work
        Whose paths hold the chosen candidate alone, if the source's own model takes part.
    """
    weights = asked.weights
    if asked.own_weight:
        weights = np.append(weights, asked.own_weight)

    def predict(batch: Batch) -> Array:
        outputs = [_output(member, batch) for member in members]
        if asked.own_weight:
            outputs.append(_held_out(work, batch))
        if asked.combine == "median":
            return median_mixture(np.stack(outputs, axis=1), weights)
        total: Array = weights[0] * outputs[0]
        for weight, output in zip(weights[1:], outputs[1:], strict=True):
            total = total + weight * output
        return total

    return predict


def _output(member: FittedModel, batch: Batch) -> Array:
    """What a model of another site predicts; it may know nothing of a level that is only here.

    Parameters
    ----------
    member : FittedModel
    batch : Batch
    """
    try:
        output: Array = member.predict(batch.seen)
    except Exception:  # a foreign model may fail in any way, and its text may quote a cell
        output = np.full(1, np.nan)
    if not np.isfinite(output).all():
        raise PolicyError("mixture_failed", "The others' mixture cannot predict the rows here.")
    return output


def _held_out(work: Work, batch: Batch) -> Array:
    """Predictions of the source's own models, each on the rows that it has not seen.

    Parameters
    ----------
    work : Work
        With folds and one model a path: a source without them has no weight.
    batch : Batch
    """
    assert work.folds is not None  # noqa: S101 - see above
    labels = work.folds.labels(batch)
    found: Array | None = None
    for turn, path in zip(work.folds.turns, work.paths, strict=True):
        here, [model] = np.flatnonzero(labels == turn.judge), path.models
        if len(here) and model is not None:
            output = model.predict(batch.seen[here])
            found = np.zeros((len(labels), *output.shape[1:])) if found is None else found
            found[here] = output
    assert found is not None  # noqa: S101 - there is a row
    return found
