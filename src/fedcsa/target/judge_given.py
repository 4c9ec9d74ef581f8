"""The target's part where the model is given: nobody fits, everybody examines the same."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.scores import ScoreDesign
from fedcsa.errors import DataError, MessageError, ModelError, NoSourcesError
from fedcsa.messages.messages import Examination, ModelReport, ModelRequest
from fedcsa.models.description import GIVEN, given_column
from fedcsa.models.fitted import EstimatorModel, FittedModel
from fedcsa.models.given import model_digest
from fedcsa.target.estimate import Reported

if TYPE_CHECKING:
    from fedcsa.plan import Plan

#: A model, the target's own column of predictions (rows,), or nothing where it has none.
Given: TypeAlias = FittedModel | Array | None


def check_target_has(given: Given, plan: Plan, rows: Array | None) -> None:
    """Raise unless the target has the model that was agreed, and it can predict its rows.

    Parameters
    ----------
    given : FittedModel, array of shape (rows,) or None
    plan : Plan
    rows : array of shape (rows, features) or None
        The target's; None if it told only a table.
    """
    if plan.method != GIVEN or given_column(plan.model):
        _check_column(given, plan, rows)
        return
    if given is None or isinstance(given, np.ndarray):
        raise ModelError("The target must have the given model itself. Name its file or formula.")
    digest = plan.model.get("sha256")
    if digest and (isinstance(given, EstimatorModel) or model_digest(given) != digest):
        raise ModelError(
            "The given model must be the one that was agreed; its digest is another. "
            "Ask the lead for the model of this study."
        )
    if rows is None:
        return
    try:
        finite = bool(np.isfinite(given.predict(rows)).all())
    except ModelError:  # ours, which says what is wrong with it
        raise
    except Exception as error:  # its text may quote a cell
        raise ModelError(
            f"The given model fails on the target's rows ({type(error).__name__}). Check that it "
            "was fitted on the study's columns, in their order and units."
        ) from None
    if not finite:
        raise ModelError(
            "The given model does not predict a finite number for every row of the target. "
            "Check its logarithms, and cap columns that can be 0."
        )


def _check_column(given: Given, plan: Plan, rows: Array | None) -> None:
    """Raise unless the target's own predictions, if it has any, are one for every row.

    Parameters
    ----------
    given, plan, rows
        As for `check_target_has`.
    """
    if given is None:
        return
    told = isinstance(given, np.ndarray) and plan.method == GIVEN and rows is not None
    if not told or given.shape != rows.shape[:1]:  # type: ignore[union-attr]
        raise DataError("The target's own predictions must be one per row, or left out.")
    assert isinstance(given, np.ndarray)  # noqa: S101 - for the type checker
    inside = not plan.classes or ((given >= 0.0) & (given <= 1.0)).all()
    if not np.isfinite(given).all() or not inside:
        raise DataError(
            "The target's own predictions must be finite, and between 0 and 1 for classes. "
            "Divide percentages by 100."
        )


def predictions_of(given: Given, rows: Array | None, n_classes: int) -> Array | None:
    """What is predicted for the target's own rows; None where that is not known.

    Parameters
    ----------
    given : FittedModel, array of shape (rows,) or None
    rows : array of shape (rows, features) or None
    n_classes : int

    Returns
    -------
    array of shape (rows,) or (rows, classes), or None
    """
    if given is None or rows is None:
        return None
    if not isinstance(given, np.ndarray):
        return np.asarray(given.predict(rows))
    return np.column_stack([1.0 - given, given]) if n_classes else given


def report_of_given(given: Given, plan: Plan) -> ModelReport | None:
    """The given model as a result keeps it; None for a column.

    Parameters
    ----------
    given : FittedModel, array or None
    plan : Plan
    """
    if given is None or isinstance(given, np.ndarray):
        return None
    return ModelReport(
        study=plan.study,
        source=GIVEN,
        in_reply_to="",
        candidate=0,
        n_rows=0,
        show=True,
        form=given.form,
        arrays=given.arrays,
        held=given if isinstance(given, EstimatorModel) else None,
    )


def evidence_shares(reported: Reported) -> dict[str, float]:
    """Share of every source in the rows of the target that all of them are worth."""
    value = reported.worth
    if not value.sum() > 0.0:
        raise NoSourcesError(
            "Every source has weight zero, so nothing is known of the model at the target. "
            "Look for a source whose rows resemble the target's."
        )
    return dict(zip(reported.names, (value / value.sum()).tolist(), strict=True))


def examinations_of_given(
    names: Collection[str],
    request: ModelRequest,
    plan: Plan,
    shares: Mapping[str, float],
    model: FittedModel | None,
    outcomes: Mapping[str, Array],
    design: ScoreDesign,
) -> Iterator[tuple[str, Examination | MessageError]]:
    """The given model, or every site's own column of predictions, for every source to examine.

    Or the error, if the model has more bytes than a message may have.

    Parameters
    ----------
    names : collection of str
        Of the sources.
    request : ModelRequest
        Of nothing: it names the brief.
    plan : Plan
    shares : mapping of str to float
        Of every source in the evidence.
    model : FittedModel or None
        None for a column of predictions.
    outcomes : mapping of str to array
        Mean outcome of every source, or its share of every class: those of the others make the
        constant that the model must beat.
    design : ScoreDesign
        Of the score tables.
    """
    held = isinstance(model, EstimatorModel)
    for name in sorted(names):
        others = {n: a for n, a in shares.items() if n != name and a > 0.0} or {name: 1.0}
        constant = sum(a * outcomes[n] for n, a in others.items()) / sum(others.values())
        try:
            yield name, Examination(
                study=plan.study, brief=request.brief, candidate=0, combine=plan.combine,
                own_weight=0.0 if model else 1.0,
                weights=np.ones(1 if model else 0),
                forms=[model.form] if model else [],
                arrays={f"0.{key}": array for key, array in model.arrays.items()} if model else {},
                constant=np.atleast_1d(constant), centre=design.centre, unit=design.unit,
                again=False, held=(model,) if held else (),
            )  # fmt: skip
        except MessageError as error:
            yield name, error
