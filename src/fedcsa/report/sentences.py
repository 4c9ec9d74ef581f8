"""The sentences of the page: each a function that says nothing where it is not true.

`SENTENCES` has all of them, by section; a test asks each for a result of which it is true and for
one of which it is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from fedcsa.findings import number, percent
from fedcsa.models.base import RATIO_POWER
from fedcsa.report import words
from fedcsa.report.charts import backtest as backtest_chart
from fedcsa.report.charts import balance as balance_chart
from fedcsa.report.charts import risk as risk_chart
from fedcsa.report.charts import sources as sources_chart
from fedcsa.report.folder import Folder
from fedcsa.roles.adaptation import Adaptation
from fedcsa.roles.ending import Ending
from fedcsa.roles.estimation import MAX_IMBALANCE, MIN_EFFECTIVE_ROWS
from fedcsa.roles.view import (
    candidate_text,
    examined_sentence,
    interval,
    ratio_sentence,
    risk_sentence,
    source_lines,
)

Sentence = Callable[[Folder], str]
#: Candidates in a table that is worth its paper.
MOST_PRINTED = 100


def said(section: str, folder: Folder) -> tuple[tuple[str, str], ...]:
    """The sentences of a section that are true of a result, each with its name.

    Parameters
    ----------
    section : str
        A key of `SENTENCES`.
    folder : Folder
    """
    found = ((tell.__name__, words.sentence(tell(folder))) for tell in SENTENCES[section])
    return tuple((name, words.clean(text)) for name, text in found if text)


def _of(tell: Callable[[Adaptation], str]) -> Sentence:
    """A sentence about a model, which says nothing where there is none."""

    def about(folder: Folder) -> str:
        return "" if folder.adaptation is None else tell(folder.adaptation)

    about.__name__ = tell.__name__
    return about


# The first screen ---------------------------------------------------------------------------


def realised(folder: Folder) -> str:
    """What came true, once outcomes have arrived."""
    return "" if folder.reconciliation is None else folder.reconciliation.sentence


def ended(folder: Folder) -> str:
    """Why there is no model."""
    if isinstance(folder.answer, Ending):
        return f"there is no model. {folder.answer.text}"
    if folder.answer is None and folder.federation.get("outcome") != "done":
        return f"there is no model: the study ended ({folder.federation.get('outcome', '')})"
    return ""


def kept_away(folder: Folder) -> str:
    """Where to ask for a result that is not here."""
    if folder.answer is None and folder.federation.get("outcome") == "done":
        return "the study is done; the target keeps its result to itself. Ask there"
    return ""


@_of
def why(a: Adaptation) -> str:
    """The verdict's reason."""
    return a.verdict.sentence


@_of
def promised(a: Adaptation) -> str:
    """The risk, with its prediction interval."""
    return risk_sentence(a)


@_of
def ratio(a: Adaptation) -> str:
    """The risk beside that of a constant."""
    return ratio_sentence(a)


@_of
def unit(a: Adaptation) -> str:
    """What the risk is."""
    return f"risk is the {', '.join(words.loss(a.plan.loss))}"


@_of
def root(a: Adaptation) -> str:
    """The risk in units of the outcome."""
    if a.plan.loss != "squared" or a.promise is None:
        return ""
    risk, lower, upper = (
        math.sqrt(value) for value in (a.promise.risk, a.promise.lower, a.promise.upper)
    )
    return f"its square root, {number(risk)} ({interval(lower, upper)}), is in units of the outcome"


# Sources ------------------------------------------------------------------------------------


@_of
def examined(a: Adaptation) -> str:
    """Who examined what."""
    return examined_sentence(a)


@_of
def between_sites(a: Adaptation) -> str:
    """How much sites differ."""
    if a.promise is None:
        return ""
    return (
        f"between sites the log risk has a standard deviation of {number(a.promise.between_sites)}"
    )


def reach(folder: Folder) -> str:
    """What it takes to reach the target."""
    if folder.answer is None or not folder.answer.reports:
        return ""
    return (
        "rows are weighted so that their means and spreads match the target's table; effective "
        "rows are those that carry the weight, imbalance is the mean squared difference that is "
        "left, in the target's standard deviations. A source reaches the target with at least "
        f"{number(MIN_EFFECTIVE_ROWS)} effective rows and an imbalance of at most "
        f"{number(MAX_IMBALANCE)}"
    )


def not_reaching(folder: Folder) -> str:
    """Who does not reach the target."""
    if folder.answer is None:
        return ""
    far = [line.name for line in source_lines(folder.answer) if not line.reaches]
    if not far:
        return ""
    them = "it" if len(far) == 1 else "them"
    return f"the target is not reached by {words.listed(far)}, and no promise rests on {them}"


@_of
def sources_hidden(a: Adaptation) -> str:
    """How many sources the chart leaves out."""
    found = source_lines(a)
    hidden = len(found) - len(sources_chart.those_that_matter(found))
    if not hidden:
        return ""
    left = words.counted(hidden, "source")
    return f"the chart shows the heaviest and the farthest; {left} more in the table"


def no_reports(folder: Folder) -> str:
    """That there are no numbers of the sources."""
    none = folder.answer is None or not folder.answer.reports
    return "there are no numbers of theirs here" if none else ""


# The paper's methods ------------------------------------------------------------------------


@_of
def table_weights(a: Adaptation) -> str:
    """What the paper's methods are given with a table."""
    if a.plan.exchange != "table" or len(a.estimates) < 2:
        return ""
    return (
        "the paper's methods on the table's weights, from this study's messages and candidates. "
        "The paper itself fits a density ratio on the target's rows, and may say something else"
    )


@_of
def ratio_weights(a: Adaptation) -> str:
    """What the paper's methods are given with rows."""
    if a.plan.exchange != "rows" or len(a.estimates) < 2:
        return ""
    return "all methods are given this study's messages, candidates and density ratios"


# Candidates ---------------------------------------------------------------------------------


@_of
def chosen(a: Adaptation) -> str:
    """How many were tried, and which was chosen."""
    tried = words.counted(len(a.kept), "candidate")
    return f"{tried} tried; chosen: {candidate_text(a.candidate)}"


@_of
def edge(a: Adaptation) -> str:
    """Whether a wider grid might do better."""
    if not risk_chart.at_edge(a):
        return ""
    return "the choice lies at the edge of the grid: widen it in that direction"


@_of
def dropped(a: Adaptation) -> str:
    """Whether candidates failed at too many sources."""
    n = len(a.plan.candidates) - len(a.kept)
    return f"{words.counted(n, 'candidate')} could not be fitted at enough sources" if n else ""


@_of
def band(a: Adaptation) -> str:
    """What the band is."""
    if a.estimate.standard_errors is None:
        return ""
    return "the band is one standard error to either side"


@_of
def single_models(a: Adaptation) -> str:
    """Why these risks are not the promise."""
    if a.promise is None:
        return ""
    return (
        "this is the average risk of the sources' single models, each on rows of its own source "
        "that it has not seen; the promise is about their mixture"
    )


@_of
def handicap(a: Adaptation) -> str:
    """That weighted training must be clearly better."""
    if a.plan.method != "validated" or not any(RATIO_POWER in c for c in a.plan.candidates):
        return ""
    return (
        "training weights w^γ, with γ the ratio_power, must be better by γ/2 standard errors to "
        "be chosen"
    )


@_of
def best_only(a: Adaptation) -> str:
    """How many candidates are listed."""
    if len(a.kept) <= risk_chart.MOST_MARKS:
        return ""
    return f"the best {words.count(risk_chart.MOST_MARKS)} are in the table"


@_of
def candidates_unprinted(a: Adaptation) -> str:
    """Whether a print has their table."""
    return "a print leaves out their table" if len(a.kept) > MOST_PRINTED else ""


# Balance ------------------------------------------------------------------------------------


def differences(folder: Folder) -> str:
    """What the Love plot shows."""
    if folder.answer is None or not folder.answer.reports:
        return ""
    return (
        "differences of means between source and target, in the target's standard deviations; "
        "within ±0.25 is the usual bound for balance"
    )


def differences_hidden(folder: Folder) -> str:
    """What the Love plot leaves out."""
    if folder.answer is None or not folder.answer.reports:
        return ""
    hidden = balance_chart.hidden(balance_chart.balance(folder.answer))
    return f"the largest differences before weighting are shown; {hidden}" if hidden else ""


# Back-test ----------------------------------------------------------------------------------


@_of
def no_backtest(a: Adaptation) -> str:
    """That none was run."""
    if a.backtest is not None:
        return ""
    return "no back-test was run. Only it compares promises with outcomes before the target has any"


@_of
def backtest_verdict(a: Adaptation) -> str:
    """The verdict of the back-test."""
    return "" if a.backtest is None else a.backtest.sentence


@_of
def promises_kept(a: Adaptation) -> str:
    """How many promises were kept."""
    if a.backtest is None or not a.backtest.judged:
        return ""
    judged = len(a.backtest.judged)
    kept = f"{judged - a.backtest.broken} of {words.counted(judged, 'promise')}"
    return f"kept, if the outcomes' own chance is allowed for: {kept}"


@_of
def coverage(a: Adaptation) -> str:
    """Share of intervals that hold."""
    if a.backtest is None or a.backtest.coverage is None:
        return ""
    return f"{percent(a.backtest.coverage)} of the intervals hold the realised risk"


@_of
def calibration(a: Adaptation) -> str:
    """Promised over realised."""
    if a.backtest is None or a.backtest.calibration is None:
        return ""
    return f"promised over realised risk is {number(a.backtest.calibration)} on average"


@_of
def regret(a: Adaptation) -> str:
    """Realised over a model of the site's own."""
    if a.backtest is None or a.backtest.regret is None:
        return ""
    return f"realised risk is {number(a.backtest.regret)} times that of a site's own model"


@_of
def targets_hidden(a: Adaptation) -> str:
    """How many sources the chart leaves out."""
    hidden = 0 if a.backtest is None else len(a.backtest.rows) - backtest_chart.MOST_ROWS
    return f"the chart leaves out {words.counted(hidden, 'source')}" if hidden > 0 else ""


# What left ----------------------------------------------------------------------------------


def recorded(folder: Folder) -> str:
    """That nothing left without a record."""
    return "every message stood in its site's ledger before it went" if folder.ledgers else ""


def no_row(folder: Folder) -> str:
    """That no message can hold a row."""
    rows = folder.answer is not None and folder.answer.plan.exchange == "rows"
    return "" if rows or not folder.ledgers else "no field can hold a row"


def target_rows(folder: Folder) -> str:
    """That the target's rows left it."""
    rows = folder.answer is not None and folder.answer.plan.exchange == "rows"
    return "the target's brief holds its rows; no other field can hold one" if rows else ""


def fields_listed(folder: Folder) -> str:
    """Where every field is."""
    if not folder.ledgers:
        return ""
    return "every field is listed in the folded tables, which a print leaves out"


def no_ledger(folder: Folder) -> str:
    """Where the ledgers are."""
    if folder.ledgers:
        return ""
    return (
        "this folder holds no ledger. Every site keeps its own, and shows it with: "
        "fedcsa ledger SITE"
    )


SENTENCES: Mapping[str, tuple[Sentence, ...]] = {
    "verdict": (realised, ended, kept_away, why, promised),
    "measure": (ratio, unit, root),
    "sources": (examined, between_sites, not_reaching, reach, sources_hidden, no_reports),
    "compared": (table_weights, ratio_weights),
    "candidates": (
        chosen, edge, dropped, band, single_models, handicap, best_only, candidates_unprinted
    ),
    "balance": (differences, differences_hidden),
    "backtest": (
        no_backtest, backtest_verdict, promises_kept, coverage, calibration, regret, targets_hidden
    ),
    "ledger": (recorded, no_row, target_rows, fields_listed, no_ledger),
}  # fmt: skip
