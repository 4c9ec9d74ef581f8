"""What a target believes of another site: an answer that cannot be honest is refused by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.errors import MessageError, UntrustedError
from fedcsa.models.fitted import FittedModel
from fedcsa.protocol.messages import Brief, ModelReport, RiskReport
from fedcsa.roles.adaptation import unpack
from fedcsa.roles.judgement import check_report
from fedcsa.roles.plan import Plan

#: No hospital has more rows; a larger claim is meant to outweigh the others.
MAX_ROWS = 100_000_000
#: A model whose predictions lie farther off, in errors of a constant prediction, is no model.
MAX_ERRORS_OFF = 100.0


def accept_report(report: RiskReport, brief: Brief) -> None:
    """Raise a `MessageError` unless an honest source could have sent `report`."""
    if report.n_rows > MAX_ROWS:
        raise MessageError(
            f"The report of source {report.source!r} must be on at most {MAX_ROWS} rows."
        )
    check_report(report, brief)


def accept_models(
    models: Mapping[str, ModelReport],
    reports: Mapping[str, RiskReport],
    plan: Plan,
    seen: Array,
    trusted: Collection[str],
) -> dict[str, str]:
    """Sources whose model is not accepted, and why: ``untrusted``, ``malformed``, ``wild_model``.

    Parameters
    ----------
    seen : array of shape (rows, features)
        The target's rows as the models see them.
    """
    refused: dict[str, str] = {}
    outputs: dict[str, Array] = {}
    for name, report in sorted(models.items()):
        try:
            outputs[name] = _predict(unpack(report, plan, trusted), seen)
            if report.n_rows > MAX_ROWS:
                refused[name] = "malformed"
        except UntrustedError:
            refused[name] = "untrusted"
        except Exception:  # a foreign model may fail in any way; its text is not for us to show
            refused[name] = "malformed"
    return {**refused, **_wild(outputs, reports, plan)}


def _predict(model: FittedModel, seen: Array) -> Array:
    output = np.asarray(model.predict(seen))
    if not np.isfinite(output).all():
        raise MessageError("A model must give finite predictions.")
    return output


def _wild(
    outputs: Mapping[str, Array], reports: Mapping[str, RiskReport], plan: Plan
) -> dict[str, str]:
    """Predictions far outside of what all sources together call an error."""
    if plan.loss not in ("squared", "absolute") or not outputs:
        return {}
    power = 0.5 if plan.loss == "squared" else 1.0
    error = float(np.median([report.loss_mean[-1] ** power for report in reports.values()]))
    centre = float(np.median([np.median(output) for output in outputs.values()]))
    farthest = MAX_ERRORS_OFF * error
    return {
        name: "wild_model"
        for name, output in outputs.items()
        if error > 0.0 and float(np.median(np.abs(output - centre))) > farthest
    }
