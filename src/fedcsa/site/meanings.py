"""What every field of a message is, and what it is computed from: for the person who approves.

Every field of every message, and every array of a model, has its own entry; there is no other
text to fall back on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fedcsa.messages.messages import (
    BacktestReport,
    Brief,
    Conclusion,
    Examination,
    ExaminationReport,
    ModelReport,
    ModelRequest,
    Refusal,
    RiskReport,
)

#: What a field can be computed from.
NOTHING = "no row"
AGREED = "agreed study"
FILE = "this site's own file"
ROWS = "rows here"
WEIGHTED = "rows here, target's table"
OUTCOMES = "rows and outcomes here, target's table"
SOURCES = "sources' answers"
SOURCES_AND_ROWS = "sources' answers, rows here"


class Meaning(NamedTuple):
    """What a field is, and what it is computed from."""

    what: str
    computed_from: str


_STUDY = Meaning("name of the study", AGREED)
_SOURCE = Meaning("name of this site", NOTHING)
_ANSWERED = Meaning("hash of the message that is answered", NOTHING)
_BRIEF = Meaning("hash of the brief, by which sources know which weights are meant", NOTHING)
_COMPARED = "for the paper's methods, if the study compares them"

#: message -> field -> its meaning
MEANINGS: Mapping[str, Mapping[str, Meaning]] = {
    Brief.name: {
        "study": _STUDY,
        "features": Meaning("names of the columns", AGREED),
        "flags": Meaning("which columns are flags", AGREED),
        "group": Meaning("name of the column that tells patients apart", AGREED),
        "classes": Meaning("classes of the outcome", AGREED),
        "model": Meaning("what is fitted", AGREED),
        "candidates": Meaning("settings of the model to choose from", AGREED),
        "loss": Meaning("by which models are judged", AGREED),
        "scheme": Meaning("how rows are split into parts to fit and to judge", AGREED),
        "n_folds": Meaning("number of these parts", AGREED),
        "shares": Meaning("sizes of these parts", AGREED),
        "refit": Meaning("whether the model is fitted on all rows in the end", AGREED),
        "scale": Meaning("whether models see columns in the target's units", AGREED),
        "moments": Meaning("whether the paper's methods are compared", AGREED),
        "seed": Meaning("of all random numbers", AGREED),
        "exchange": Meaning("whether a table is told, or rows", AGREED),
        "ratio": Meaning("settings of the density ratio, where rows are told", AGREED),
        "n_rows": Meaning("number of rows, in tens", ROWS),
        "mean": Meaning("mean of every number to 1/100 sd, share of every flag to 1/100", ROWS),
        "sd": Meaning("sd of every number to two digits, with the agreed floor", ROWS),
        "correlations": Meaning("of the columns, two digits; numbers only, and few", ROWS),
        "rows": Meaning("the rows themselves, without outcomes", ROWS),
    },
    RiskReport.name: {
        "study": _STUDY,
        "source": _SOURCE,
        "in_reply_to": _ANSWERED,
        "n_rows": Meaning("number of rows that take part, in bands", ROWS),
        "n_judged": Meaning("number of rows on which models were judged", ROWS),
        "n_folds": Meaning("folds that rows and outcomes allow", OUTCOMES),
        "effective_rows": Meaning("how many rows carry the weight", WEIGHTED),
        "largest_share": Meaning("weight of the heaviest row", WEIGHTED),
        "difference_before": Meaning("mean of every column less the target's", WEIGHTED),
        "difference_after": Meaning("the same difference after weighting", WEIGHTED),
        "outcome_mean": Meaning("weighted mean outcome, or share of every class", OUTCOMES),
        "correlations": Meaning("weighted correlations of the columns, per pair", WEIGHTED),
        "risk": Meaning("weighted mean loss, per candidate", OUTCOMES),
        "variance": Meaning("sampling variance of that mean, per candidate", OUTCOMES),
        "ratio_mean": Meaning(f"mean of the row ratios; {_COMPARED}", WEIGHTED),
        "ratio_m2": Meaning(f"variation of the row ratios; {_COMPARED}", WEIGHTED),
        "loss_mean": Meaning(f"mean loss, per candidate; {_COMPARED}", OUTCOMES),
        "loss_m2": Meaning(f"variation of the losses, per candidate; {_COMPARED}", OUTCOMES),
        "product_mean": Meaning(f"mean of ratio × loss, per candidate; {_COMPARED}", OUTCOMES),
        "product_m2": Meaning(f"variation of ratio × loss, per candidate; {_COMPARED}", OUTCOMES),
        "co_moment": Meaning(f"how ratio and ratio × loss vary together; {_COMPARED}", OUTCOMES),
        "failed": Meaning("candidates that could not be fitted, and the kind of error", OUTCOMES),
        "findings": Meaning("named dangers, with counts", OUTCOMES),
    },
    ModelRequest.name: {
        "study": _STUDY,
        "brief": _BRIEF,
        "candidate": Meaning("number of the chosen candidate", SOURCES),
    },
    ModelReport.name: {
        "study": _STUDY,
        "source": _SOURCE,
        "in_reply_to": _ANSWERED,
        "candidate": Meaning("number of the candidate that the target asked for", SOURCES),
        "n_rows": Meaning("number of rows that the model was fitted on, in bands", ROWS),
        "show": Meaning("whether other sources may examine the model", FILE),
        "form": Meaning("kind of the model, its link and its steps", AGREED),
        "arrays": Meaning("all numbers of the model, array by array", OUTCOMES),
        "held": Meaning("the model as an object, in one process only", OUTCOMES),
    },
    Examination.name: {
        "study": _STUDY,
        "brief": _BRIEF,
        "candidate": Meaning("number of the chosen candidate", SOURCES),
        "combine": Meaning("how predictions are combined", AGREED),
        "own_weight": Meaning("weight of the recipient's own model", SOURCES_AND_ROWS),
        "weights": Meaning("weights of the other sources' models", SOURCES_AND_ROWS),
        "forms": Meaning("kinds of the other sources' models, links and steps", AGREED),
        "arrays": Meaning("all numbers of the other sources' models", SOURCES),
        "constant": Meaning("the others' mean outcome, or share of every class", SOURCES),
        "again": Meaning("whether useless models have left since the first examination", SOURCES),
        "held": Meaning("the models as objects, in one process only", SOURCES),
    },
    ExaminationReport.name: {
        "study": _STUDY,
        "source": _SOURCE,
        "in_reply_to": _ANSWERED,
        "reason": Meaning("why nothing could be estimated", OUTCOMES),
        "risk": Meaning("weighted mean loss of the others' mixture", OUTCOMES),
        "risk_variance": Meaning("sampling variance of its logarithm", OUTCOMES),
        "explained": Meaning("part of the loss's variance that columns explain", OUTCOMES),
        "constant_risk": Meaning("weighted mean loss of the others' mean outcome", OUTCOMES),
        "ratio_variance": Meaning("sampling variance of the log of their ratio", OUTCOMES),
        "level": Meaning("weighted mean of outcome less prediction", OUTCOMES),
        "level_variance": Meaning("sampling variance of that mean", OUTCOMES),
        "member_risk": Meaning("weighted mean loss of every single model", OUTCOMES),
        "member_variance": Meaning("sampling variance of the log of its ratio", OUTCOMES),
    },
    Refusal.name: {
        "study": _STUDY,
        "source": _SOURCE,
        "in_reply_to": _ANSWERED,
        "rule": Meaning("name of the rule that forbids an answer", OUTCOMES),
    },
    BacktestReport.name: {
        "study": _STUDY,
        "source": _SOURCE,
        "realised": Meaning("mean loss after this site has played the target", OUTCOMES),
        "standard_error": Meaning("standard error of that loss", OUTCOMES),
        "reference": Meaning("mean loss of the constant prediction", OUTCOMES),
    },
    Conclusion.name: {
        "study": _STUDY,
        "outcome": Meaning("that the study is done, or the rule that ended it", SOURCES_AND_ROWS),
        "sources": Meaning("what became of every source", SOURCES),
        "result": Meaning("hash of the result, which stays here", SOURCES_AND_ROWS),
        "summary": Meaning("the result without its models", SOURCES_AND_ROWS),
    },
}

#: array of a model, without the step it belongs to -> its meaning
ARRAYS: Mapping[str, Meaning] = {
    "coefficients": Meaning("of the model's columns", OUTCOMES),
    "intercept": Meaning("what is added to every prediction", OUTCOMES),
    "step": Meaning("width of the grid for every column", AGREED),
    "cuts": Meaning("number of cuts of every column", OUTCOMES),
    "cut": Meaning("where columns are cut, in steps of the grid", OUTCOMES),
    "points": Meaning("what every bin adds to a prediction", OUTCOMES),
    "feature": Meaning("which column every node of the trees asks about", OUTCOMES),
    "threshold": Meaning("where every node splits, in steps of the grid", OUTCOMES),
    "value": Meaning("what every leaf predicts: a mean over its rows", OUTCOMES),
    "base": Meaning("what is added to the sum of all trees", OUTCOMES),
    "shift": Meaning("what is taken off every column: its mean here", ROWS),
    "scale": Meaning("by what every column is divided: its sd here", ROWS),
    "powers": Meaning("powers of columns that are multiplied", AGREED),
    "levels": Meaning("levels of coded columns", AGREED),
    "sizes": Meaning("number of levels of every coded column", AGREED),
    "dropped": Meaning("which level of every coded column is left out", AGREED),
    "knots": Meaning("where splines bend", AGREED),
}


def meaning_of(message: str, record: str) -> Meaning:
    """What a line of a ledger is about.

    Parameters
    ----------
    message : str
        Kind of the message.
    record : str
        A field, or an array of a model, ``"arrays.step0.0.scale"``.

    Examples
    --------
    >>> meaning_of("model-report", "arrays.step0.0.scale").what
    'by what every column is divided: its sd here'
    >>> meaning_of("examination", "arrays.2.intercept").computed_from
    "sources' answers"
    """
    name, _, array = record.partition(".")
    of_field = MEANINGS[message][name]
    if name != "arrays" or not array:
        return of_field
    own = ARRAYS[array.rpartition(".")[2]]
    return own if message == ModelReport.name else Meaning(own.what, of_field.computed_from)
