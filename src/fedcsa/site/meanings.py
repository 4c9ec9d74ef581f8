"""What every field of a message is, and what it is computed from: for the person who approves."""

from __future__ import annotations

from collections.abc import Mapping

from fedcsa.messages.messages import (
    Brief,
    Examination,
    ExaminationReport,
    ModelReport,
    ModelRequest,
    RiskReport,
)

_STUDY = "name of the study"
_SOURCE = "name of this site"
_ANSWERED = "hash of the message that is answered"
_BRIEF = "hash of the brief, by which sources know which weights are meant"
_CANDIDATE = "number of the chosen candidate, from all sources' reports"
_AGREED = "as in the study's file; from no row"
_IF_COMPARED = "for the paper's methods, only if the study compares them"

#: message -> field -> its description
MEANINGS: Mapping[str, Mapping[str, str]] = {
    Brief.name: {
        "study": _STUDY,
        "features": _AGREED,
        "flags": _AGREED,
        "group": _AGREED,
        "classes": _AGREED,
        "model": _AGREED,
        "candidates": _AGREED,
        "loss": _AGREED,
        "scheme": _AGREED,
        "n_folds": _AGREED,
        "shares": _AGREED,
        "refit": _AGREED,
        "scale": _AGREED,
        "moments": _AGREED,
        "seed": _AGREED,
        "exchange": _AGREED,
        "ratio": _AGREED,
        "n_rows": "number of this site's rows, in tens",
        "mean": "mean of every number to a hundredth of its sd, share of every flag to a hundredth",
        "sd": "sd of every number to two digits, with the agreed floor; the agreed unit of a flag",
        "correlations": "correlations of this site's columns, two digits; numbers only, and few",
        "rows": "the rows themselves",
    },
    RiskReport.name: {
        "study": _STUDY,
        "source": _SOURCE,
        "in_reply_to": _ANSWERED,
        "n_rows": "number of this site's rows that take part, in bands",
        "n_judged": "number of this site's rows on which models were judged",
        "n_folds": "folds that this site's outcomes allow",
        "effective_rows": "how many of this site's rows carry the weight, from the row weights",
        "largest_share": "weight of this site's heaviest row",
        "difference_before": "mean of every column here less the target's, in the target's units",
        "difference_after": "the same from weighted rows",
        "outcome_mean": "weighted mean of this site's outcomes, or share of every class",
        "correlations": "weighted correlations of this site's columns, per pair",
        "risk": "weighted mean loss of this site's rows, per candidate",
        "variance": "sampling variance of that mean, from the rows' losses, per candidate",
        "ratio_mean": f"mean of this site's row ratios; {_IF_COMPARED}",
        "ratio_m2": f"variation of this site's row ratios; {_IF_COMPARED}",
        "loss_mean": f"mean loss of this site's rows, per candidate; {_IF_COMPARED}",
        "loss_m2": f"variation of the rows' losses, per candidate; {_IF_COMPARED}",
        "product_mean": f"mean weighted loss of the rows, per candidate; {_IF_COMPARED}",
        "product_m2": f"variation of the weighted losses, per candidate; {_IF_COMPARED}",
        "co_moment": f"how row ratio and weighted loss vary together; {_IF_COMPARED}",
        "failed": "candidates that could not be fitted on this site's rows, and the kind of error",
        "findings": "named dangers on this site's rows, with counts",
    },
    ModelRequest.name: {"study": _STUDY, "brief": _BRIEF, "candidate": _CANDIDATE},
    ModelReport.name: {
        "study": _STUDY,
        "source": _SOURCE,
        "in_reply_to": _ANSWERED,
        "candidate": "number of the candidate that the target asked for",
        "n_rows": "number of this site's rows that the model was fitted on",
        "show": "whether this site's file lets other sources examine the model",
        "form": "kind of the one model, its link and its steps, as agreed in the study",
        "arrays": "numbers of the one model, fitted on this site's weighted rows and outcomes",
    },
    Examination.name: {
        "study": _STUDY,
        "brief": _BRIEF,
        "candidate": _CANDIDATE,
        "combine": _AGREED,
        "own_weight": "weight of the recipient's own model, where most of the mixture is its own",
        "weights": "weights of the other models, from reports, and from predictions on rows here",
        "forms": "kinds of the other sources' models, their links and steps, as agreed",
        "arrays": "numbers of the other sources' models",
        "constant": "the other sources' weighted mean outcome, or share of every class",
        "again": "whether sources found models useless, which then left, and examine the rest",
    },
    ExaminationReport.name: {
        "study": _STUDY,
        "source": _SOURCE,
        "in_reply_to": _ANSWERED,
        "reason": "why nothing could be estimated on this site's rows",
        "risk": "weighted mean loss of the others' mixture on this site's rows",
        "risk_variance": "sampling variance of its logarithm, from the rows' losses",
        "explained": "part of that loss's variance over rows that the columns explain",
        "constant_risk": "weighted mean loss of the others' mean outcome on this site's rows",
        "ratio_variance": "sampling variance of the logarithm of the ratio of the two",
        "level": "weighted mean of outcome less prediction on this site's rows, or in log-odds",
        "level_variance": "sampling variance of that mean, from the rows",
        "member_risk": "weighted mean loss of every single model of the others on this site's rows",
        "member_variance": "sampling variance of the log of its ratio to the mean outcome's loss",
    },
}
