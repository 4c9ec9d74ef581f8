"""What every field of a message is, and what it is computed from: for the person who approves.

Every field of every message, and every array of a model, has its own entry; there is no other
text to fall back on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fedcsa.models.formats import FORMATS

#: What a field can be computed from.
_NOTHING = "no row"
_AGREED = "agreed study"
_FILE = "this site's own file"
_ROWS = "rows here"
_WEIGHTED = "rows here, target's table"
_OUTCOMES = "rows and outcomes here, target's table"
_SOURCES = "sources' answers"
_SOURCES_AND_ROWS = "sources' answers, rows here"


class Meaning(NamedTuple):
    """What a field is, and what it is computed from."""

    what: str
    computed_from: str


#: Of moments that no other study needs.
_COMPARED = "for the paper's formulas, if the study compares them"

#: message -> what it tells, in one sentence
IN_SHORT: Mapping[str, str] = {
    "brief": "what is agreed, and the table of means and spreads of the rows here",
    "risk-report": "how far the rows here resemble the target's, and how large the mean loss "
    "of every candidate is",
    "more-candidates": "in a search, which candidates come next; the sources' reports on the "
    "earlier ones led to them",
    "model-request": "which candidate was chosen",
    "model-report": "one model, fitted on the rows here; unless this site's file forbids it, "
    "the other sources examine it, without this site's name",
    "examination": "the sources' models without names, for one source to examine",
    "examination-report": "how well the other sites' models do on the rows here",
    "refusal": "that this site refuses, and under which rule",
    "backtest-report": "what came true when this site played the target",
    "conclusion": "how the study ended, for the lead who submitted it",
}
#: field of several messages -> its meaning
SHARED: Mapping[str, Meaning] = {
    "study": Meaning("name of the study", _AGREED),
    "source": Meaning("name of this site", _NOTHING),
    "in_reply_to": Meaning("hash of the message that is answered", _NOTHING),
    "brief": Meaning("hash of the brief, by which sources know which weights are meant", _NOTHING),
}
#: message -> field -> its meaning
MEANINGS: Mapping[str, Mapping[str, Meaning]] = {
    "brief": {
        "features": Meaning("names of the columns", _AGREED),
        "flags": Meaning("which columns are flags", _AGREED),
        "group": Meaning("name of the column that tells patients apart", _AGREED),
        "classes": Meaning("classes of the outcome", _AGREED),
        "model": Meaning("what is fitted", _AGREED),
        "candidates": Meaning("settings of the model to choose from", _AGREED),
        "loss": Meaning("loss by which models are judged", _AGREED),
        "scheme": Meaning("how rows are split into parts to fit and to judge", _AGREED),
        "n_folds": Meaning("number of these parts", _AGREED),
        "shares": Meaning("sizes of these parts", _AGREED),
        "refit": Meaning("whether the model is fitted on all rows in the end", _AGREED),
        "scale": Meaning("whether models see columns in the target's units", _AGREED),
        "moments": Meaning("whether the paper's formulas are compared", _AGREED),
        "seed": Meaning("seed of all random numbers", _AGREED),
        "exchange": Meaning("whether a table is told, or rows", _AGREED),
        "ratio": Meaning("settings of the density ratio, where rows are told", _AGREED),
        "thresholds": Meaning("predicted risks at which one would act", _AGREED),
        "subgroups": Meaning("patients for whom all measures are told too", _AGREED),
        "n_rows": Meaning("number of rows, in tens", _ROWS),
        "mean": Meaning("mean of every number to 1/100 sd, share of every flag to 1/100", _ROWS),
        "sd": Meaning("sd of every number to two digits, with the agreed floor", _ROWS),
        "correlations": Meaning("of few columns, all numbers, to two digits", _ROWS),
        "rows": Meaning("the rows themselves, without outcomes", _ROWS),
    },
    "risk-report": {
        "n_rows": Meaning("number of rows that take part, in bands", _ROWS),
        "n_judged": Meaning("number of rows on which models were judged", _ROWS),
        "n_folds": Meaning("folds that rows and outcomes allow", _OUTCOMES),
        "effective_rows": Meaning("how many rows carry the weight", _WEIGHTED),
        "largest_share": Meaning("weight of the heaviest row", _WEIGHTED),
        "difference_before": Meaning("mean of every column less the target's", _WEIGHTED),
        "difference_after": Meaning("the same difference after weighting", _WEIGHTED),
        "outcome_mean": Meaning("weighted mean outcome, or share of every class", _OUTCOMES),
        "outcome_sd": Meaning("weighted sd of an outcome of numbers", _OUTCOMES),
        "correlations": Meaning("weighted correlations of the columns, per pair", _WEIGHTED),
        "risk": Meaning("weighted mean loss, per candidate", _OUTCOMES),
        "variance": Meaning("sampling variance of that mean, per candidate", _OUTCOMES),
        "ratio_mean": Meaning(f"mean of the row ratios; {_COMPARED}", _WEIGHTED),
        "ratio_m2": Meaning(f"variation of the row ratios; {_COMPARED}", _WEIGHTED),
        "loss_mean": Meaning(f"mean loss, per candidate; {_COMPARED}", _OUTCOMES),
        "loss_m2": Meaning(f"variation of the losses, per candidate; {_COMPARED}", _OUTCOMES),
        "product_mean": Meaning(f"mean of ratio × loss, per candidate; {_COMPARED}", _OUTCOMES),
        "product_m2": Meaning(f"variation of ratio × loss, per candidate; {_COMPARED}", _OUTCOMES),
        "co_moment": Meaning(f"how ratio and ratio × loss vary together; {_COMPARED}", _OUTCOMES),
        "failed": Meaning("candidates that could not be fitted, and the kind of error", _OUTCOMES),
        "findings": Meaning("named dangers, with counts; columns in another unit", _OUTCOMES),
    },
    "more-candidates": {
        "round": Meaning("number of the round", _AGREED),
        "candidates": Meaning("the next settings of the model to choose from", _SOURCES),
    },
    "model-request": {
        "candidate": Meaning("number of the chosen candidate", _SOURCES),
    },
    "model-report": {
        "candidate": Meaning("number of the candidate that the target asked for", _SOURCES),
        "n_rows": Meaning("number of rows that the model was fitted on, in bands", _ROWS),
        "show": Meaning("whether other sources may examine the model", _FILE),
        "form": Meaning("kind of the model, its link and its steps", _AGREED),
        "arrays": Meaning("all numbers of the model, array by array", _OUTCOMES),
        "held": Meaning("the model as an object, in one process only", _OUTCOMES),
    },
    "examination": {
        "candidate": Meaning("number of the chosen candidate", _SOURCES),
        "combine": Meaning("how predictions are combined", _AGREED),
        "own_weight": Meaning("weight of the recipient's own model", _SOURCES_AND_ROWS),
        "weights": Meaning("weights of the other sources' models", _SOURCES_AND_ROWS),
        "forms": Meaning("kinds of the other sources' models, links and steps", _AGREED),
        "arrays": Meaning("all numbers of the other sources' models", _SOURCES),
        "constant": Meaning("the others' mean outcome, or share of every class", _SOURCES),
        "centre": Meaning("number from which scores are counted", _SOURCES),
        "unit": Meaning("unit in which scores are counted: the outcome's typical sd", _SOURCES),
        "again": Meaning("whether useless models have left since the first examination", _SOURCES),
        "held": Meaning("the models as objects, in one process only", _SOURCES),
    },
    "examination-report": {
        "reason": Meaning("why nothing could be estimated", _OUTCOMES),
        "risk": Meaning("weighted mean loss of the others' mixture", _OUTCOMES),
        "risk_variance": Meaning("sampling variance of its logarithm", _OUTCOMES),
        "explained": Meaning("part of the loss's variance that columns explain", _OUTCOMES),
        "constant_risk": Meaning("weighted mean loss of the others' mean outcome", _OUTCOMES),
        "ratio_variance": Meaning("sampling variance of the log of their ratio", _OUTCOMES),
        "level": Meaning("weighted mean of outcome less prediction", _OUTCOMES),
        "level_variance": Meaning("sampling variance of that mean", _OUTCOMES),
        "member_risk": Meaning("weighted mean loss of every single model", _OUTCOMES),
        "member_variance": Meaning("sampling variance of the log of its ratio", _OUTCOMES),
        "scores": Meaning("outcomes by predicted score: counts and weighted sums", _OUTCOMES),
        "score_sums": Meaning("weighted sums over everybody and over subgroups", _OUTCOMES),
        "measure_variance": Meaning("sampling variance of every measure", _OUTCOMES),
        "residuals": Meaning("how far outcomes lie from predictions: shares in bins", _OUTCOMES),
    },
    "refusal": {
        "rule": Meaning("name of the rule that forbids an answer, or waiting", _OUTCOMES),
        "reason": Meaning("what a person here wrote about a refusal, to be told", _NOTHING),
    },
    "backtest-report": {
        "realised": Meaning("mean loss after this site has played the target", _OUTCOMES),
        "standard_error": Meaning("standard error of that loss", _OUTCOMES),
        "reference": Meaning("mean loss of the constant prediction", _OUTCOMES),
        "held_for": Meaning("share of rows whose interval held, by distance", _OUTCOMES),
        "measures": Meaning("every measure here, with its interval", _OUTCOMES),
    },
    "conclusion": {
        "outcome": Meaning("that the study is done, or the rule that ended it", _SOURCES_AND_ROWS),
        "sources": Meaning("what became of every source", _SOURCES),
        "result": Meaning("hash of the result, which stays here", _SOURCES_AND_ROWS),
        "summary": Meaning("the result without its models", _SOURCES_AND_ROWS),
    },
}

#: array of a model's grid or steps, without the step it belongs to -> its meaning
ARRAYS: Mapping[str, Meaning] = {
    "step": Meaning("width of the grid for every column", _AGREED),
    "cuts": Meaning("of a given model: number of cuts of every column", _AGREED),
    "cut": Meaning("of a given model: where columns are cut", _AGREED),
    "shift": Meaning("what is taken off every column: its mean here", _ROWS),
    "scale": Meaning("by what every column is divided: its sd here", _ROWS),
    "powers": Meaning("powers of columns that are multiplied", _AGREED),
    "levels": Meaning("levels of coded columns", _AGREED),
    "sizes": Meaning("number of levels of every coded column", _AGREED),
    "dropped": Meaning("which level of every coded column is left out", _AGREED),
    "constant": Meaning("what empty cells of every column count as", _AGREED),
    "fill": Meaning("the same, learnt: a mean, a median or the most frequent value here", _ROWS),
    "chosen": Meaning("the level that empty cells count as: the most frequent one here", _ROWS),
    "knots": Meaning("where splines bend", _AGREED),
    "low": Meaning("of a given model: what smaller values count as", _AGREED),
    "high": Meaning("of a given model: what larger values count as", _AGREED),
    "bounds": Meaning("of a given model: where its bands begin", _AGREED),
    "weights": Meaning("of a given model: what the bands add to its total", _AGREED),
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
    of_field = SHARED.get(name) or MEANINGS[message][name]
    if name != "arrays" or not array:
        return of_field
    own = {**ARRAYS, **_fitted_arrays()}[array.rpartition(".")[2]]
    return own if message == "model-report" else Meaning(own.what, of_field.computed_from)


def _fitted_arrays() -> dict[str, Meaning]:
    """Every array of every format that was fitted, as the format describes it."""
    told = [pair for own in FORMATS.values() for pair in own.arrays.items()]
    return {name: Meaning(what, _OUTCOMES) for name, what in told}
