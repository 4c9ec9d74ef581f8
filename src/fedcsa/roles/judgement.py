"""Named dangers in a finished adaptation. It computes no estimate and changes none."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.losses import CLASSIFICATION, REGRESSION
from fedcsa.core.risk import risk_terms
from fedcsa.errors import MessageError, NoOverlapError
from fedcsa.findings import FROM_SOURCES, Finding
from fedcsa.models.base import RATIO_POWER
from fedcsa.models.linear import PENALTY
from fedcsa.protocol.messages import SLACK, Brief, ModelReport, RiskReport
from fedcsa.roles.adaptation import Adaptation
from fedcsa.roles.noise import asks_for_noise

#: The mean ratio must be 1; outside these bounds it is called off.
RATIO_MEAN = (0.5, 2.0)
MIN_EFFECTIVE_ROWS = 10.0
#: Mean squared standardised difference after weighting: 0.0625 is a quarter of an sd throughout,
#: the usual bound for balance; 1 is a whole sd throughout, where nothing overlaps.
MAX_IMBALANCE, NO_OVERLAP = 0.0625, 1.0
DOMINANT = 0.9
#: Bounds that no wider grid could pass.
NATURAL_BOUNDS = {PENALTY: (0.0,), RATIO_POWER: (0.0, 1.0)}
LONGEST_NAME = 60
#: Products of numbers this small may have underflowed.
TINY = 1e-150
#: What to do about a source whose numbers cannot be.
_ASK = "Ask the source which version of fedcsa it runs, or leave it out."


def check_report(report: RiskReport, brief: Brief) -> None:
    """Refuse by name a report whose numbers no honest source could have sent for this brief."""
    name = report.source
    if len(report.loss_mean) != len(brief.candidates) + 1 or len(report.difference_after) != len(
        brief.features
    ):
        raise MessageError(
            f"The report of source {name!r} must cover the study's {len(brief.candidates)} "
            f"candidates and {len(brief.features)} features."
        )
    _check_words(report)
    cross_fitted = brief.scheme == "cross-fit"
    if cross_fitted and (report.n_validation != report.n_rows):
        raise MessageError(f"The report of source {name!r} must judge every row once.")
    if (len(report.spread) > 0) != (cross_fitted and brief.exchange == "embedding"):
        raise MessageError(f"The report of source {name!r} must suit the study's scheme.")
    if len(brief.embedding) and brief.trace > 0.0:  # ‖ψ‖ ≤ 1, so ‖Σwψ − h‖ ≤ 1 + ‖h‖
        largest = (1.0 + float(np.linalg.norm(brief.embedding))) ** 2 / brief.trace
        if report.kernel_imbalance > SLACK * largest:
            raise MessageError(
                f"The report of source {name!r} has an impossible kernel imbalance. {_ASK}"
            )
    if brief.loss in (*REGRESSION, *CLASSIFICATION):
        _check_losses(report, bounded=brief.loss in ("brier", "zero-one"))


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


def check_model(report: ModelReport, brief: Brief, said: RiskReport) -> None:
    """Refuse by name a count or a prediction variance that no honest source could have sent.

    Models vary around their mean by no more than they miss the outcomes, about as much as `said`
    in the risk report; ten times is impossible. A smaller lie passes.
    """
    if report.n_rows > said.n_rows or (brief.refit and report.n_rows != said.n_rows):
        raise MessageError(
            f"The model of source {report.source!r} must be of the rows that its report was on. "
            f"{_ASK}"
        )
    variance, candidate = report.prediction_variance, report.candidate
    misses = said.loss_mean[candidate]
    if said.ratio_mean > 0.0:
        misses = max(misses, said.product_mean[candidate] / said.ratio_mean)
    largest = 10.0 * brief.n_folds * float(misses)
    if not asks_for_noise(brief):
        largest = 0.0
    elif brief.classes:  # ½‖p − p̄‖² ≤ ½ per fold, since ‖p‖ ≤ 1
        largest = (brief.n_folds - 1.0) / 2.0
    if variance > SLACK * largest:
        raise MessageError(
            f"The model of source {report.source!r} has an impossible prediction variance. {_ASK}"
        )


def _check_losses(report: RiskReport, *, bounded: bool) -> None:
    """Built-in losses are not negative, and some are at most 1; weighted ones follow."""
    name, n = report.source, report.n_validation
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
    n, mean, product = report.n_validation, report.loss_mean, report.product_mean
    with np.errstate(over="ignore"):  # then nothing is too large
        largest = {
            "loss_m2": n * _of_two_values(mean) if bounded else n * (n - 1.0) * mean**2,
            "product_m2": n * (n - 1.0) * product**2,
        }
        if len(report.spread) and report.ratio_mean > 1e-100:  # below, products may underflow
            risk = product / report.ratio_mean
            # Σ w (L − f)² ≤ f · max L
            largest["spread"] = _of_two_values(risk) if bounded else n * mean * risk
    for what, most in largest.items():
        rounding = 1e-12 * float(most[-1])  # of losses about as large as a constant prediction's
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


def refuse_without_overlap(adaptation: Adaptation) -> None:
    """Raise a `NoOverlapError` if the verdict is that there is no answer."""
    if adaptation.status != "no overlap" or adaptation.plan.on_no_overlap == "predict":
        return
    far = sorted(adaptation.sources, key=lambda name: adaptation.reports[name].imbalance)
    nearest = adaptation.reports[far[0]]
    worst = int(np.argmax(np.abs(nearest.difference_after)))
    raise NoOverlapError(
        f"At least one source must resemble the target; the nearest, {far[0]!r}, still lies "
        f"{abs(nearest.difference_after[worst]):.1f} standard deviations off in "
        f"{adaptation.plan.features[worst]!r} after weighting. Look for another source, or insist "
        "with on_no_overlap='predict' and get a model without an interval."
    )


def judge(adaptation: Adaptation) -> tuple[Finding, ...]:
    """All findings that the messages support, by source and then about the choice."""
    findings: list[Finding] = []
    for name in adaptation.sources:
        findings += _of_source(adaptation, name, adaptation.reports[name])
    findings += _verdict(adaptation)
    if len(adaptation.source_weights) > 1:
        for name, weight in adaptation.source_weights.items():
            if weight > DOMINANT:
                findings.append(Finding("dominant-source", name, {"weight": weight}))
    findings += _edges(adaptation)
    return tuple(findings)


def _verdict(adaptation: Adaptation) -> Iterator[Finding]:
    risk = adaptation.risk
    if risk is None:
        return
    if risk.status == "no overlap":
        yield Finding("no-overlap", evidence={"imbalance": risk.mean_imbalance})
    elif risk.status == "sources disagree":
        evidence = {"ambiguity": risk.ambiguity, "average risk": risk.average}
        yield Finding("sources-disagree", evidence=evidence)
    elif risk.status == "weak overlap":
        evidence = {
            "kernel imbalance": risk.kernel_imbalance,
            "rows of the target it is worth": risk.target_rows,
        }
        yield Finding("weak-overlap", evidence=evidence)
    if risk.kind == "none":
        yield Finding("not-certified", evidence={"combine": adaptation.plan.combine})


def _of_source(adaptation: Adaptation, name: str, report: RiskReport) -> Iterator[Finding]:
    for item in report.findings:
        yield Finding(str(item["code"]), name, item["evidence"])

    for key, reason in report.failed.items():
        yield Finding("candidate-failed", name, {"candidate": float(key), "reason": reason})

    terms = risk_terms(report.moments)
    chosen = adaptation.kept[adaptation.estimate.chosen]
    if terms.outcome != "ok":
        yield Finding(terms.outcome, name)
    if terms.zero_divergence[chosen] and adaptation.plan.method == "feddae":
        yield Finding("zero-divergence", name)
    if not RATIO_MEAN[0] <= report.ratio_mean <= RATIO_MEAN[1]:
        yield Finding("ratio-mean-off", name, {"mean ratio": report.ratio_mean})
    if report.effective_rows < MIN_EFFECTIVE_ROWS:
        evidence = {"effective rows": report.effective_rows, "of": float(report.n_validation)}
        yield Finding("few-effective-rows", name, evidence)

    after = report.difference_after
    imbalance = report.imbalance
    if imbalance > MAX_IMBALANCE:
        worst = np.argsort(-np.abs(after), kind="stable")[:3]
        off = {adaptation.plan.features[i]: float(after[i]) for i in worst}
        code = "no-overlap" if imbalance > NO_OVERLAP else "imbalance"
        yield Finding(code, name, {"imbalance": imbalance, **off})


def _edges(adaptation: Adaptation) -> Iterator[Finding]:
    """The chosen value of a parameter lies at the edge of the values tried."""
    for parameter, value in adaptation.candidate.items():
        tried = sorted(
            {
                other[parameter]
                for other in adaptation.plan.candidates
                if isinstance(other.get(parameter), int | float)
                and not isinstance(other.get(parameter), bool)
            }
        )
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or len(tried) < 3 or value not in (tried[0], tried[-1]):
            continue
        if value not in NATURAL_BOUNDS.get(parameter, ()):
            yield Finding("grid-edge", evidence={"parameter": parameter, "value": float(value)})
