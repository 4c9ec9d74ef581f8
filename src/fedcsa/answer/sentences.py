"""The sentences of the page, by section: each is said only where it is true.

Every sentence has a name; a test asks for a result of which it is true, and for one of which it
is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from fedcsa import words
from fedcsa.answer.charts import forest_plot as sources_chart
from fedcsa.answer.charts import kept_promises as backtest_chart
from fedcsa.answer.charts import love_plot as balance_chart
from fedcsa.answer.charts import risk_curve as risk_chart
from fedcsa.answer.folder import Folder
from fedcsa.answer.view import (
    candidate_text,
    examined_sentence,
    loss_in_words,
    ratio_sentence,
    risk_sentence,
    source_lines,
)
from fedcsa.models.model import RATIO_POWER
from fedcsa.target.estimate import MAX_IMBALANCE, MIN_EFFECTIVE_ROWS
from fedcsa.words import interval, number, percent

#: The name of a sentence, and what it says.
Said = Iterator[tuple[str, str]]
#: Candidates in a table that is worth its paper.
MOST_PRINTED = 100
_REACH = (
    "rows are weighted so that their means and spreads match the target's table; effective rows "
    "are those that carry the weight, imbalance is the mean squared difference that is left, in "
    "the target's standard deviations. A source reaches the target with at least "
    f"{number(MIN_EFFECTIVE_ROWS)} effective rows and an imbalance of at most "
    f"{number(MAX_IMBALANCE)}"
)
_TABLE_WEIGHTS = (
    "the paper's methods on the table's weights, from this study's messages and candidates. The "
    "paper itself fits a density ratio on the target's rows, and may say something else"
)
_SINGLE_MODELS = (
    "this is the average risk of the sources' single models, each on rows of its own source that "
    "it has not seen; the promise is about their mixture"
)
_HANDICAP = (
    "training weights w^γ, with γ the ratio_power, must be better by γ/2 standard errors to be "
    "chosen"
)
_DIFFERENCES = (
    "differences of means between source and target, in the target's standard deviations; within "
    "±0.25 is the usual bound for balance"
)


def said(section: str, folder: Folder) -> tuple[tuple[str, str], ...]:
    """The sentences of a section that are true of a result, each with its name.

    Parameters
    ----------
    section : str
        A key of `SECTIONS`.
    folder : Folder
    """
    found = ((name, words.sentence(text)) for name, text in SECTIONS[section](folder))
    return tuple((name, words.printable(text)) for name, text in found if text)


def _verdict(folder: Folder) -> Said:
    """The first screen: what came true, why, and how well."""
    answer, outcome = folder.answer, folder.federation.get("outcome", "")
    if folder.reconciliation is not None:
        yield "realised", folder.reconciliation.sentence
    if answer is not None and answer.stopped is not None:
        yield "stopped", answer.verdict.sentence
    elif answer is None and outcome == "done":
        yield "kept_away", "the study is done; the target keeps its result to itself. Ask there"
    elif answer is None:
        yield "failed", f"there is no model: the study ended ({outcome})"
    else:
        yield "why", answer.verdict.sentence
        yield "promised", risk_sentence(answer)


def _measure(folder: Folder) -> Said:
    """What the risk is."""
    a = folder.adaptation
    if a is None:
        return
    yield "ratio", ratio_sentence(a)
    yield "unit", f"risk is the {', '.join(loss_in_words(a.plan.loss))}"
    if a.plan.loss == "squared" and a.promise is not None:
        risk, *ends = map(math.sqrt, (a.promise.risk, a.promise.lower, a.promise.upper))
        root = f"its square root, {number(risk)} ({interval(*ends)})"
        yield "root", f"{root}, is in units of the outcome"


def _sources(folder: Folder) -> Said:
    a, answer = folder.adaptation, folder.answer
    if answer is None or not answer.reports:
        yield "no_reports", "there are no numbers of theirs here"
        return
    found = source_lines(answer)
    if a is not None:
        yield "examined", examined_sentence(a)
    if a is not None and a.promise is not None:
        spread = number(a.promise.between_sites)
        yield "between_sites", f"between sites the log risk has a standard deviation of {spread}"
    far = [line.name for line in found if not line.reaches]
    if far:
        them = "it" if len(far) == 1 else "them"
        names = words.listed(far)
        yield "far", f"the target is not reached by {names}, and no promise rests on {them}"
    yield "reach", _REACH
    hidden = len(found) - len(sources_chart.those_that_matter(found))
    if a is not None and hidden:
        left = words.counted(hidden, "source")
        yield "hidden", f"the chart shows the heaviest and the farthest; {left} more in the table"


def _compared(folder: Folder) -> Said:
    """What the paper's methods are given."""
    a = folder.adaptation
    if a is None or len(a.estimates) < 2:
        return
    if a.plan.exchange == "rows":
        yield "ratio_weights", "all methods are given this study's messages and density ratios"
    else:
        yield "table_weights", _TABLE_WEIGHTS


def _candidates(folder: Folder) -> Said:
    a = folder.adaptation
    if a is None:
        return
    tried = words.counted(len(a.kept), "candidate")
    yield "chosen", f"{tried} tried; chosen: {candidate_text(a.candidate)}"
    if risk_chart.at_edge(a):
        yield "edge", "the choice lies at the edge of the grid: widen it in that direction"
    dropped = len(a.plan.candidates) - len(a.kept)
    if dropped:
        which = words.counted(dropped, "candidate")
        yield "dropped", f"{which} could not be fitted at enough sources"
    yield "band", "the band is one standard error to either side"
    if a.promise is not None:
        yield "single_models", _SINGLE_MODELS
    if a.plan.method == "validated" and any(RATIO_POWER in c for c in a.plan.candidates):
        yield "handicap", _HANDICAP
    if len(a.kept) > risk_chart.MOST_MARKS:
        yield "best_only", f"the best {words.count(risk_chart.MOST_MARKS)} are in the table"
    if len(a.kept) > MOST_PRINTED:
        yield "unprinted", "a print leaves out their table"


def _balance(folder: Folder) -> Said:
    if folder.answer is None or not folder.answer.reports:
        return
    yield "differences", _DIFFERENCES
    hidden = balance_chart.hidden(balance_chart.balance(folder.answer))
    if hidden:
        yield "largest", f"the largest differences before weighting are shown; {hidden}"


def _backtest(folder: Folder) -> Said:
    a = folder.adaptation
    if a is None:
        return
    if a.backtest is None:
        only = "Only it compares promises with outcomes before the target has any"
        yield "no_backtest", f"no back-test was run. {only}"
        return
    found, judged = a.backtest, len(a.backtest.judged)
    yield "backtest", found.sentence
    if judged:
        kept = f"{judged - found.broken} of {words.counted(judged, 'promise')}"
        yield "kept", f"kept, if the outcomes' own chance is allowed for: {kept}"
    if found.coverage is not None:
        yield "coverage", f"{percent(found.coverage)} of the intervals hold the realised risk"
    if found.calibration is not None:
        average = number(found.calibration)
        yield "calibration", f"promised over realised risk is {average} on average"
    if found.regret is not None:
        times = number(found.regret)
        yield "regret", f"realised risk is {times} times that of a site's own model"
    hidden = len(found.rows) - backtest_chart.MOST_ROWS
    if hidden > 0:
        yield "left_out", f"the chart leaves out {words.counted(hidden, 'source')}"


def _ledger(folder: Folder) -> Said:
    """What left the sites."""
    if folder.answer is not None and folder.answer.plan.exchange == "rows":
        yield "target_rows", "the target's brief holds its rows; no other field can hold one"
    elif folder.ledgers:
        yield "no_row", "no field can hold a row"
    if folder.ledgers:
        yield "recorded", "every message stood in its site's ledger before it went"
        yield "fields", "every field is listed in the folded tables, which a print leaves out"
    else:
        where = "Every site keeps its own, and shows it with: fedcsa ledger SITE"
        yield "no_ledger", f"this folder holds no ledger. {where}"


SECTIONS: Mapping[str, Callable[[Folder], Said]] = {
    "verdict": _verdict,
    "measure": _measure,
    "sources": _sources,
    "compared": _compared,
    "candidates": _candidates,
    "balance": _balance,
    "backtest": _backtest,
    "ledger": _ledger,
}
