"""What a target believes of another site: an answer that cannot be honest is refused by name.

`accept` and `open_models` hold every bound. They serve a study in one process and one between
sites alike: in one process a refusal is raised, at a desk it costs that source its part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.losses import BOUNDED, CLASSIFICATION, REGRESSION
from fedcsa.core.random_effects import SMALLEST_VARIANCE
from fedcsa.core.units import CONVERSIONS, DIRECTIONS
from fedcsa.errors import BindingError, FedCSAError, MessageError, ModelError
from fedcsa.findings import FROM_SOURCES
from fedcsa.messages.fields import Message
from fedcsa.messages.messages import (
    SLACK,
    Brief,
    Examination,
    ExaminationReport,
    ModelReport,
    ModelRequest,
    MoreCandidates,
    Refusal,
    RiskReport,
)
from fedcsa.models.arrivals import open_agreed
from fedcsa.models.description import thaw
from fedcsa.models.fitted import FittedModel
from fedcsa.target.accept_scores import score_problem
from fedcsa.target.estimate import reaches, wild_models
from fedcsa.target.search import check_same_rows

if TYPE_CHECKING:
    from fedcsa.plan import Plan

#: No hospital has more rows; a larger claim is meant to outweigh the others.
MAX_ROWS = 100_000_000
#: Names of exceptions and classes are shorter; a longer text could carry rows.
LONGEST_NAME = 60
#: Products of numbers this small may have underflowed.
TINY_PRODUCT = 1e-150
#: What to do about a source whose numbers cannot be.
_ASK = "Ask the source which version of fedcsa it runs, or leave it out."
#: What answers which question, unless the source refuses.
_ANSWERS: Mapping[type[Message], type[Message]] = {
    Brief: RiskReport, MoreCandidates: RiskReport, ModelRequest: ModelReport,
    Examination: ExaminationReport,
}  # fmt: skip


#: Told of a source whose answer is not accepted, and why.
Refuse = Callable[[str, FedCSAError], None]


def raise_refusal(source: str, error: FedCSAError) -> None:  # noqa: ARG001
    """End the study: in one process a source that lies is a mistake, and no other site's doing.

    Parameters
    ----------
    source : str
        Not used.
    error : FedCSAError
    """
    raise error


@dataclass(frozen=True)
class Asked:
    """One question to one source, and all that an answer to it is held against.

    Attributes
    ----------
    source : str
        Name of the source.
    question : Brief, MoreCandidates, ModelRequest or Examination
    digest : str
        SHA-256 of the question's bytes.
    brief : Brief
        With the candidates that the question is about.
    said : RiskReport, optional
        What the source reported before; none when it is asked for its first report.
    """

    source: str
    question: Message
    digest: str
    brief: Brief
    said: RiskReport | None = None


def accept(answer: Message, asked: Asked) -> None:
    """Raise a `ProtocolError` unless an honest source could answer `asked` with this.

    Parameters
    ----------
    answer : Message
        As it came; a refusal of the source's own is an answer too.
    asked : Asked
    """
    name, kind = asked.source, _ANSWERS[type(asked.question)]
    if not isinstance(answer, kind | Refusal):
        text = f"Source {name!r} must answer with a {kind.name}; a {answer.name} came."
        raise BindingError("phase_order", text)
    assert isinstance(answer, RiskReport | ModelReport | ExaminationReport | Refusal)  # noqa: S101
    if (answer.study, answer.source) != (asked.brief.study, name):
        raise BindingError("wrong_sender", f"The answer of source {name!r} must be its own.")
    if answer.in_reply_to != asked.digest:
        raise BindingError("replayed", f"Source {name!r} must answer this very question.")
    if isinstance(answer, RiskReport):
        _accept_report(answer, asked.brief)
        if asked.said is not None:  # in an earlier round of a search
            check_same_rows(answer, asked.said)
    elif isinstance(answer, ModelReport):
        _accept_model(answer, asked)
    elif isinstance(answer, ExaminationReport):
        _accept_examination(answer, asked)


def _accept_report(report: RiskReport, brief: Brief) -> None:
    """The bounds of a report that need the brief; its own it has checked when it was made.

    Parameters
    ----------
    report : RiskReport
    brief : Brief
    """
    name, classes = report.source, len(brief.classes)
    if report.n_rows > MAX_ROWS:
        raise MessageError(f"The report of source {name!r} must be on at most {MAX_ROWS} rows.")
    sizes = (len(report.risk), len(report.difference_after))
    if sizes != (len(brief.candidates), len(brief.features)):
        raise MessageError(
            f"The report of source {name!r} must cover the study's {len(brief.candidates)} "
            f"candidates and {len(brief.features)} features."
        )
    if report.findings or report.failed:
        _check_words(report, brief)
    if brief.scheme == "cross-fit" and report.n_judged != report.n_rows:
        raise MessageError(f"The report of source {name!r} must judge every row once.")
    if report.n_folds > brief.n_folds:
        raise MessageError(f"The report of source {name!r} must have the study's folds, or fewer.")
    if (len(report.loss_mean) > 0) != brief.moments:
        raise MessageError(f"The report of source {name!r} must have moments if the study asks.")
    if len(report.outcome_mean) != max(classes, 1):
        raise MessageError(f"The report of source {name!r} must be on the study's outcome.")
    if classes and report.outcome_sd:
        raise MessageError(f"The report of source {name!r} must have no sd of classes. {_ASK}")
    shares = report.outcome_mean
    if classes and ((shares < 0.0).any() or not 1 / SLACK <= shares.sum() <= SLACK):
        raise MessageError(f"The report of source {name!r} must have shares that sum to 1. {_ASK}")
    if brief.loss in (*REGRESSION, *CLASSIFICATION):
        _check_risks(report, bounded=brief.loss in BOUNDED)
        if brief.moments:
            _check_moments(report, bounded=brief.loss in BOUNDED)


def _accept_model(report: ModelReport, asked: Asked) -> None:
    """The candidate that was asked for, the model that was agreed, of the rows reported on.

    Parameters
    ----------
    report : ModelReport
    asked : Asked
    """
    name, brief, said, request = report.source, asked.brief, asked.said, asked.question
    assert isinstance(said, RiskReport)  # noqa: S101 - else it was not asked
    assert isinstance(request, ModelRequest)  # noqa: S101 - for the type checker
    if report.candidate != request.candidate:
        raise MessageError(f"Source {name!r} must send the candidate asked for. {_ASK}")
    if report.n_rows > said.n_rows or (brief.refit and report.n_rows != said.n_rows):
        raise MessageError(
            f"The model of source {name!r} must be of the rows that its report was on. {_ASK}"
        )
    try:
        fitted_model(report, brief, brief.sd)
    except ModelError as error:
        raise MessageError(f"The model of source {name!r} is refused. {error}") from None


def _accept_examination(report: ExaminationReport, asked: Asked) -> None:
    """Risks and variances above 0, and at most 1 where the loss is; one risk a member.

    Parameters
    ----------
    report : ExaminationReport
    asked : Asked
    """
    brief, said, question = asked.brief, asked.said, asked.question
    assert isinstance(question, Examination)  # noqa: S101 - for the type checker
    name, classes = report.source, len(brief.classes)
    silent = bool(report.reason) and report.reason != "mixture_failed"
    if len(report.member_risk) != (0 if silent else len(question.weights)):
        raise MessageError(f"The examination of source {name!r} must be of every single model.")
    if not silent and min([report.constant_risk, *report.member_risk.tolist()]) < 0.0:
        raise MessageError(f"The examination of source {name!r} has an impossible risk. {_ASK}")
    if report.reason:
        return
    if len(report.level) != (1 if classes in (0, 2) else classes):
        raise MessageError(f"The examination of source {name!r} must be of the study's outcome.")
    told = [report.level_variance, report.member_variance]
    least = min(report.risk_variance, report.ratio_variance, *np.concatenate(told).tolist())
    sound = min(report.risk, report.constant_risk) > 0.0 and least >= SMALLEST_VARIANCE / SLACK
    bounded = brief.loss not in BOUNDED or max(report.risk, report.constant_risk) <= SLACK
    # The explained part of V/f² is at most V/f², of which the variance is at least 1/ESS.
    rows = 1.0 if said is None else max(said.effective_rows, 1.0)
    explained = report.explained <= SLACK**3 * rows * report.risk_variance
    if not (sound and bounded and explained):
        raise MessageError(f"The examination of source {name!r} has an impossible risk. {_ASK}")
    wrong = score_problem(report, brief.score_bins(question.centre, question.unit), said)
    if wrong is not None:
        raise MessageError(f"The examination of source {name!r} has {wrong}. {_ASK}")


def _check_risks(report: RiskReport, *, bounded: bool) -> None:
    """Built-in losses are not negative, and some are at most 1; their variances follow.

    Parameters
    ----------
    report : RiskReport
    bounded : bool
        Whether the loss lies in [0, 1].
    """
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
    if (report.variance > SLACK**2 * share * _of_two_values(report.risk) + TINY_PRODUCT).any():
        raise MessageError(f"The report of source {name!r} has an impossible variance. {_ASK}")


def _check_words(report: RiskReport, brief: Brief) -> None:
    """A source may say only what it alone can know, in numbers and in names of classes.

    A column in another unit is a number of the study, and the conversion a known one.

    Parameters
    ----------
    report : RiskReport
    brief : Brief
    """
    where, texts = f"The report of source {report.source!r}", list(report.failed.values())
    for item in report.findings:
        code, evidence = item["code"], item["evidence"]
        if code not in FROM_SOURCES or set(evidence) != set(FROM_SOURCES[code]):
            raise MessageError(f"{where} must hold findings of a source's own. {_ASK}")
        texts += [text for text in evidence.values() if isinstance(text, str)]
    if not all(text.isidentifier() and len(text) <= LONGEST_NAME for text in texts):
        raise MessageError(f"{where} must give reasons by name, not in words. {_ASK}")
    numbers = {float(i) for i, flag in enumerate(brief.flags) if not flag}
    told = [item["evidence"] for item in report.findings if item["code"] == "other-unit"]
    if len({item["column"] for item in told}) < len(told) or not all(
        item["column"] in numbers
        and item["conversion"] in CONVERSIONS
        and item["direction"] in DIRECTIONS
        for item in told
    ):
        raise MessageError(f"{where} must name columns and conversions that there are. {_ASK}")


def _check_moments(report: RiskReport, *, bounded: bool) -> None:
    """What the moments for the paper's formulas must satisfy besides.

    Parameters
    ----------
    report, bounded
        As for `_check_risks`.
    """
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
    """Losses that are not negative vary most if all of them but one are zero.

    Parameters
    ----------
    report, bounded
        As for `_check_risks`.
    """
    n, mean, product = report.n_judged, report.loss_mean, report.product_mean
    with np.errstate(over="ignore"):  # then nothing is too large
        largest = {
            "loss_m2": n * _of_two_values(mean) if bounded else n * (n - 1.0) * mean**2,
            "product_m2": n * (n - 1.0) * product**2,
        }
    for what, most in largest.items():
        rounding = 1e-12 * float(most.max())  # of nearly equal losses
        if (getattr(report, what) > SLACK**2 * most + rounding + TINY_PRODUCT).any():
            raise MessageError(
                f"The report of source {report.source!r} has an impossible {what}. {_ASK}"
            )


def _of_two_values(mean: Array) -> Array:
    """The largest variance of numbers in [0, 1] with about this mean: p(1 − p)."""
    nearest = np.clip(0.5, np.minimum(mean / SLACK, 1.0), np.minimum(mean * SLACK, 1.0))
    variance: Array = nearest * (1.0 - nearest)
    return variance


def open_models(
    sent: Mapping[str, ModelReport],
    reports: Mapping[str, RiskReport],
    plan: Plan,
    seen: Array,
    sd: Array,
) -> tuple[dict[str, FittedModel], dict[str, str], dict[str, FedCSAError]]:
    """Open every model that was accepted, and let it predict the target's rows.

    Those that can be used; of those that cannot predict the rows, the name of the reason; and of
    those that no honest source sends, what is wrong. A model may know nothing of a level that the
    target has; that is no lie.

    Parameters
    ----------
    sent : mapping of str to ModelReport
    reports : mapping of str to RiskReport
        Of all sources; they tell how large an error typically is.
    plan : Plan
    seen : array of shape (rows, features)
        The target's rows in the models' units; its means alone, if it told only a table.
    sd : array of shape (features,)
        The target's, as it told them.
    """
    models, outputs = dict[str, FittedModel](), dict[str, Array]()
    unable, refused = dict[str, str](), dict[str, FedCSAError]()
    for name, report in sorted(sent.items()):
        model = fitted_model(report, plan, sd)
        output, reason = predicted(model, seen)
        if reason:
            unable[name] = reason
        else:
            models[name], outputs[name] = model, output
    for name in wild_models(outputs, reports, plan.loss):
        del models[name]
        if not reaches(reports[name]):  # an honest model may be far off where its site has no rows
            unable[name] = "WildModel"
            continue
        text = f"The model of source {name!r} predicts what no honest model would. {_ASK}"
        refused[name] = wild = MessageError(text)
        wild.rule = "wild_model"
    return models, unable, refused


def predicted(model: FittedModel, seen: Array) -> tuple[Array, str]:
    """Predictions of the target's rows, and the name of what is wrong with them, if anything.

    Parameters
    ----------
    model : FittedModel
    seen : array of shape (rows, features)
    """
    try:
        output = np.asarray(model.predict(seen))
    except Exception as error:  # its text may quote a cell
        return np.empty(0), type(error).__name__
    return output, "" if np.isfinite(output).all() else "NonFinitePrediction"


def fitted_model(report: ModelReport, design: Brief | Plan, sd: Array) -> FittedModel:
    """The fitted model in a source's report, if it is sound and the one that was agreed.

    Parameters
    ----------
    report : ModelReport
    design : Brief or Plan
        Of the study.
    sd : array of shape (features,)
        The target's, as it told them.
    """
    if report.held is not None:  # in one process
        held: FittedModel = report.held
        return held
    return open_agreed(
        report.form,
        report.arrays,
        thaw(design.model),
        thaw(design.candidates[report.candidate]) if design.candidates else {},
        sd,
        scale=design.scale,
        n_classes=len(design.classes),
    )
