"""A source's last look at its model, on the very message that is about to leave."""

from __future__ import annotations

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.errors import PolicyError
from fedcsa.messages.fields import thaw
from fedcsa.messages.messages import Brief, ModelReport
from fedcsa.messages.policy import Policy
from fedcsa.models.arrivals import open_agreed
from fedcsa.models.leaving import own_values, rows_per_leaf
from fedcsa.models.portable import PortableModel
from fedcsa.source.weigh import StudyRows


def check_leaving(report: ModelReport, rows: StudyRows, policy: Policy) -> None:
    """Raise a `PolicyError` if the model in `report` tells more of the rows than the policy lets.

    Parameters
    ----------
    report : ModelReport
        Rounded, as it leaves.
    rows : StudyRows
    policy : Policy
        What it must not hold; a rule that is off is not looked at.
    """
    if report.held is not None:  # in one process, where nothing leaves
        return
    if policy.min_rows_per_leaf:
        fewest = _smallest_leaf(_as_it_arrives(report, rows.brief), rows)
        if fewest is not None and fewest < policy.min_rows_per_leaf:
            why = f"every leaf of its trees must have {policy.min_rows_per_leaf} rows or more"
            raise PolicyError("min_rows_per_leaf", f"This site's model stays here: {why}.")
    if policy.no_own_values:
        agreed = agreed_constants(rows.brief)
        names: set[str] = set()
        for batch in rows:
            names.update(own_values(report.form, report.arrays, batch.seen, batch.y, agreed))
        if names:
            where = ", ".join(sorted(names))
            raise PolicyError(
                "no_own_values",
                f"This site's model stays here: it holds cells or outcomes of its rows ({where}).",
            )


def _as_it_arrives(report: ModelReport, brief: Brief) -> PortableModel:
    return open_agreed(
        report.form,
        report.arrays,
        thaw(brief.model),
        thaw(brief.candidates[report.candidate]),
        brief.sd,
        scale=brief.scale,
        n_classes=len(brief.classes),
    )


def _smallest_leaf(model: PortableModel, rows: StudyRows) -> int | None:
    """Rows in the smallest leaf; None if the model has none.

    Parameters
    ----------
    model : PortableModel
    rows : StudyRows
    """
    counts = np.sum([rows_per_leaf(model, batch.seen) for batch in rows], axis=0)
    return int(counts.min()) if len(counts) else None


def agreed_constants(brief: Brief) -> Array:
    """Numbers that every site knows: 0 and 1 of flags as models see them, and the model's own.

    Parameters
    ----------
    brief : Brief

    Returns
    -------
    array of shape (numbers,)
    """
    flags = np.array(brief.flags, dtype=bool)
    levels = np.array([0.0, 1.0])[:, None]
    if brief.scale:
        levels = (levels - brief.mean[flags]) / brief.sd[flags]
    return np.concatenate([levels.ravel(), np.array(_numbers(thaw(brief.model)), dtype=float)])


def _numbers(value: object) -> list[float]:
    """Every number inside plain values."""
    if isinstance(value, bool):
        return []
    if isinstance(value, int | float):
        return [float(value)]
    if isinstance(value, dict):
        value = list(value.values())
    items = value if isinstance(value, list) else []
    return [number for item in items for number in _numbers(item)]
