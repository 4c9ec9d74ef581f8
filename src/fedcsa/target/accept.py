"""What a target believes of another site: an answer that cannot be honest is refused by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.losses import BOUNDED, CLASSIFICATION, REGRESSION
from fedcsa.errors import MessageError, UntrustedError
from fedcsa.findings import FROM_SOURCES
from fedcsa.messages.messages import (
    SLACK,
    Brief,
    ExaminationReport,
    ModelReport,
    RiskReport,
)
from fedcsa.models.fitted import FittedModel
from fedcsa.plan import Plan
from fedcsa.target.estimate import fitted_model

#: No hospital has more rows; a larger claim is meant to outweigh the others.
MAX_ROWS = 100_000_000
#: A model whose predictions lie farther off, in typical errors, is no model.
MAX_ERRORS_OFF = 100.0
LONGEST_NAME = 60
#: Products of numbers this small may have underflowed.
TINY = 1e-150
#: What to do about a source whose numbers cannot be.
_ASK = "Ask the source which version of fedcsa it runs, or leave it out."


def accept_report(report: RiskReport, brief: Brief) -> None:
    """Raise a `MessageError` unless an honest source could have sent `report` for `brief`.

    Parameters
    ----------
    report : RiskReport
    brief : Brief
    """
    name, classes = report.source, len(brief.classes)
    if report.n_rows > MAX_ROWS:
        raise MessageError(f"The report of source {name!r} must be on at most {MAX_ROWS} rows.")
    if len(report.risk) != len(brief.candidates) or len(report.difference_after) != len(
        brief.features
    ):
        raise MessageError(
            f"The report of source {name!r} must cover the study's {len(brief.candidates)} "
            f"candidates and {len(brief.features)} features."
        )
    _check_words(report)
    if brief.scheme == "cross-fit" and report.n_judged != report.n_rows:
        raise MessageError(f"The report of source {name!r} must judge every row once.")
    if report.n_folds > brief.n_folds:
        raise MessageError(f"The report of source {name!r} must have the study's folds, or fewer.")
    if (len(report.loss_mean) > 0) != brief.moments:
        raise MessageError(f"The report of source {name!r} must have moments if the study asks.")
    if len(report.outcome_mean) != max(classes, 1):
        raise MessageError(f"The report of source {name!r} must be on the study's outcome.")
    shares = report.outcome_mean
    if classes and ((shares < 0.0).any() or not 1 / SLACK <= shares.sum() <= SLACK):
        raise MessageError(f"The report of source {name!r} must have shares that sum to 1. {_ASK}")
    if brief.loss in (*REGRESSION, *CLASSIFICATION):
        _check_risks(report, bounded=brief.loss in BOUNDED)
        if brief.moments:
            _check_moments(report, bounded=brief.loss in BOUNDED)


def accept_model(report: ModelReport, brief: Brief, said: RiskReport, candidate: int) -> None:
    """Raise a `MessageError` unless the model is of the candidate and rows that were agreed.

    Parameters
    ----------
    report : ModelReport
    brief : Brief
    said : RiskReport
        What the source reported before.
    candidate : int
        The one that was asked for.
    """
    if report.candidate != candidate:
        raise MessageError(f"Source {report.source!r} must send the candidate asked for.")
    if report.format != "linear" and brief.model.get("name") != "sklearn":
        raise MessageError(f"Source {report.source!r} must send a model of the kind agreed on.")
    if report.n_rows > said.n_rows or (brief.refit and report.n_rows != said.n_rows):
        raise MessageError(
            f"The model of source {report.source!r} must be of the rows that its report was on. "
            f"{_ASK}"
        )


def accept_examination(report: ExaminationReport, brief: Brief) -> None:
    """Raise a `MessageError` unless an honest source could have found this.

    Parameters
    ----------
    report : ExaminationReport
    brief : Brief
    """
    if report.reason:
        return
    name, classes = report.source, len(brief.classes)
    if len(report.level) != (1 if classes in (0, 2) else classes):
        raise MessageError(f"The examination of source {name!r} must be of the study's outcome.")
    sound = report.risk > 0.0 and report.constant_risk > 0.0 and report.risk_variance > 0.0
    bounded = brief.loss not in BOUNDED or max(report.risk, report.constant_risk) <= SLACK
    if not (sound and bounded and (report.level_variance > 0.0).all()):
        raise MessageError(f"The examination of source {name!r} has an impossible risk. {_ASK}")


def _check_risks(report: RiskReport, *, bounded: bool) -> None:
    """Built-in losses are not negative, and some are at most 1; their variances follow."""
    name = report.source
    if (report.risk < 0.0).any():
        raise MessageError(f"The report of source {name!r} has a negative risk. {_ASK}")
    if not bounded:
        return
    if (report.risk > SLACK).any():
        raise MessageError(f"The report of source {name!r} has a risk above 1. {_ASK}")
    # Σw²(L − f)² ≤ max w · Σw(L − f)², and losses in [0, 1] vary most if all are 0 or 1.
    rows = max(report.effective_rows, 1.0)
    share = max(report.largest_share, 1.0 / rows) * rows / max(rows - 1.0, 0.5)
    if (report.variance > SLACK**2 * share * _of_two_values(report.risk) + TINY).any():
        raise MessageError(f"The report of source {name!r} has an impossible variance. {_ASK}")


def _check_words(report: RiskReport) -> None:
    """A source may say only what it alone can know, in numbers and in names of classes."""
    texts = list(report.failed.values())
    for item in report.findings:
        code, evidence = item["code"], item["evidence"]
        if code not in FROM_SOURCES or set(evidence) != set(FROM_SOURCES[code]):
            raise MessageError(
                f"The report of source {report.source!r} must hold findings of a source's own. "
                f"{_ASK}"
            )
        texts += [text for text in evidence.values() if isinstance(text, str)]
    if not all(text.isidentifier() and len(text) <= LONGEST_NAME for text in texts):
        raise MessageError(
            f"The report of source {report.source!r} must give reasons by name, not in words. "
            f"{_ASK}"
        )


def _check_moments(report: RiskReport, *, bounded: bool) -> None:
    """What the moments for the paper's methods must satisfy besides."""
    name, n = report.source, report.n_judged
    if report.ratio_mean > 1e-100:  # below, second moments may underflow
        expected = n / (1.0 + report.ratio_m2 / report.ratio_mean / report.ratio_mean / n)
        if not expected / SLACK <= report.effective_rows <= SLACK * expected:
            raise MessageError(
                f"The report of source {name!r} must have effective rows that follow from its "
                f"ratio. {_ASK}"
            )
    if (report.loss_mean < 0.0).any() or (report.product_mean < 0.0).any():
        raise MessageError(f"The report of source {name!r} has a negative risk. {_ASK}")
    # Σ rL ≤ max r · ΣL, with max r = largest share · Σr
    ceiling = report.largest_share * n * report.ratio_mean * report.loss_mean
    if (report.product_mean > SLACK * ceiling + 1e-300).any():
        raise MessageError(f"The report of source {name!r} has an impossible weighted risk. {_ASK}")
    if bounded:
        weighted = report.product_mean > SLACK * report.ratio_mean
        if (report.loss_mean > SLACK).any() or weighted.any():
            raise MessageError(f"The report of source {name!r} has a risk above 1. {_ASK}")
    _check_second_moments(report, bounded=bounded)


def _check_second_moments(report: RiskReport, *, bounded: bool) -> None:
    """Losses that are not negative vary most if all of them but one are zero."""
    n, mean, product = report.n_judged, report.loss_mean, report.product_mean
    with np.errstate(over="ignore"):  # then nothing is too large
        largest = {
            "loss_m2": n * _of_two_values(mean) if bounded else n * (n - 1.0) * mean**2,
            "product_m2": n * (n - 1.0) * product**2,
        }
    for what, most in largest.items():
        rounding = 1e-12 * float(most.max())  # of nearly equal losses
        if (getattr(report, what) > SLACK**2 * most + rounding + TINY).any():
            raise MessageError(
                f"The report of source {report.source!r} has an impossible {what}. {_ASK}"
            )


def _of_two_values(mean: Array) -> Array:
    """The largest variance of numbers in [0, 1] with about this mean: p(1 − p)."""
    low, high = np.minimum(mean / SLACK, 1.0), np.minimum(mean * SLACK, 1.0)
    nearest = np.clip(0.5, low, high)
    variance: Array = nearest * (1.0 - nearest)
    return variance


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
    models : mapping of str to ModelReport
    reports : mapping of str to RiskReport
    plan : Plan
    seen : array of shape (rows, features)
        The target's rows as the models see them; its means alone, if it told only a table.
    trusted : collection of str
        Types outside scikit-learn that a model may hold.
    """
    refused: dict[str, str] = {}
    outputs: dict[str, Array] = {}
    for name, report in sorted(models.items()):
        try:
            outputs[name] = _predict(fitted_model(report, plan, trusted), seen)
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
    errors = [float(report.risk.max()) ** power for report in reports.values()]
    error = float(np.median(errors))
    centre = float(np.median([np.median(output) for output in outputs.values()]))
    farthest = MAX_ERRORS_OFF * error
    return {
        name: "wild_model"
        for name, output in outputs.items()
        if error > 0.0 and float(np.median(np.abs(output - centre))) > farthest
    }
