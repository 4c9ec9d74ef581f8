"""The sentences about an answer, by section: each is said only where it is true.

Every sentence has a name; a test asks for a result of which it is true, and for one of which it
is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from fedcsa.answer.forests import is_known, is_same, promised_text
from fedcsa.answer.measure_words import WORDS, found_ends
from fedcsa.findings import CATALOGUE, CAUSES, SEVERITIES, Finding, Severity
from fedcsa.models.description import RATIO_POWER
from fedcsa.target.backtest_result import Backtest
from fedcsa.target.estimate import MAX_IMBALANCE, MIN_EFFECTIVE_ROWS, MOSTLY_OWN
from fedcsa.target.per_patient import PATIENT_LEVEL, whole_rows
from fedcsa.target.promised_measures import MeasurePromise
from fedcsa.target.risk_units import ratio_on, risk_word
from fedcsa.words import (
    candidate_text,
    count,
    counted,
    interval,
    listed,
    number,
    percent,
    printable,
    sentence,
)

if TYPE_CHECKING:
    from fedcsa.answer.view import View

#: The name of a sentence, and what it says.
Said = Iterator[tuple[str, str]]
#: What every prediction interval assumes.
NEW_SITE = "if it differs from these as they differ from each other"
#: Lines of the back-test in its chart: more cannot be read.
MOST_PLAYED = 30
#: Candidates with a mark and a line in the table: more would only make the page large.
MOST_MARKS = 1000
#: Candidates in a table that is worth its paper.
MOST_PRINTED = 100
#: Classes with a calibration plot: more are too narrow to read.
MOST_CLASSES = 3
#: Fields, or features at sources, listed one by one: more would only make the page large.
MOST_LISTED = 4000
#: Places named under one kind of finding; the result file has all.
MOST_PLACES = 6
#: Of more findings of one kind, those with the same words share a line, which names so many.
_FEW = 3
#: How rows are weighted, by what the target tells.
_WEIGHTED = {
    "table": "rows are weighted so that their means and spreads match the target's table",
    "rows": "rows are weighted by a density ratio that was fitted on the target's rows",
}
_REACH = (
    "effective rows are those that carry the weight, imbalance is the mean squared difference that "
    "is left, in the target's standard deviations. A source reaches the target with at least "
    f"{number(MIN_EFFECTIVE_ROWS)} effective rows and an imbalance of at most "
    f"{number(MAX_IMBALANCE)}"
)
_TABLE_WEIGHTS = (
    "formulas of the paper on the table's weights, from this study's messages and candidates. The "
    "paper's own algorithm, preset 'paper', fits a density ratio on the target's rows, and may say "
    "something else"
)
_SINGLE_MODELS = (
    "this is the average risk of the sources' single models, each on rows of its own source that "
    "it has not seen; the promise is about their mixture"
)
_TOOK_PART = (
    "the sources that examined the mixture took part in this choice, as they do with a "
    "grid: the longer a search, the more its smallest risk is due to chance"
)
#: Why a search drew no more, by the reason that `search-ended` has.
_SEARCH_ENDS = {
    "": "its budget was used up",
    "numbers": "the agreed limit on numbers was reached",
    "max_candidates": "a site's rule (max_candidates) allowed no more",
    "space_used_up": "the space had no further candidates",
}
_HANDICAP = (
    "training weights w^γ, with γ the ratio_power, must be better by γ/2 standard errors to be "
    "chosen"
)
_BENEFIT = (
    "net benefit counts true positives, less false ones at the exchange rate of the threshold. A "
    "model is of use where its curve lies above both others"
)
_ASSUMED = "how much sites differ is assumed, because one source cannot show it"
_DIFFERENCES = (
    "differences of means between source and target, in the target's standard deviations; within "
    "±0.25 is the usual bound for balance"
)


def said(section: str, view: View) -> tuple[tuple[str, str], ...]:
    """The sentences of a section that are true of a result, each with its name.

    Parameters
    ----------
    section : str
        A key of `SECTIONS`.
    view : View
    """
    found = ((name, printable(sentence(text))) for name, text in SECTIONS[section](view))
    return tuple((name, text) for name, text in found if text)


# What terminal, notebook and page say alike --------------------------------------------------


def promise_sentence(view: View) -> str:
    """How good it is at a new site; or the estimate of a method that promises nothing."""
    measure = view.headline
    if view.promise is None or measure is None:
        if view.risk is None:
            return "nothing is promised: no source resembles the target"
        words = view.loss_words
        return f"{words.title} {words.text(view.risk)}, an estimate without an interval"
    words = WORDS[measure.name]
    level = f"{100.0 * view.promise.level:.6g} %"
    between = f"{words.between(measure.lower, measure.upper)} for a new site ({level})"
    return _then(view, f"{words.title} {words.text(measure.estimate)}, {between}, {NEW_SITE}")


def _then(view: View, promised: str) -> str:
    """What was promised; once outcomes came, it says that it is older than they are."""
    return f"before outcomes came: {promised}" if promised and view.update else promised


def level_sentence(view: View) -> str:
    """Events and how many were predicted; AUROC of more than two classes; as far as known."""
    known = {m.name: m for m in view.everybody if is_known(m) and m.of_class is None}
    said = (
        f"{text} {promised_text(known[name])}"
        for name, text in (
            ("event_rate", "events per 100 patients"),
            ("observed_expected", "events for 100 predicted"),
        )
        if name in known
    )
    each = [
        f"{m.of_class} {WORDS['auroc'].text(m.estimate)}"
        for m in view.everybody
        if m.name == "auroc" and m.of_class is not None and is_known(m)
    ]
    ranks = [f"AUROC of each class against the rest: {listed(each)}"] if each else []
    return _then(view, "; ".join((*said, *ranks)))


def ratio_sentence(view: View) -> str:
    """The loss beside that of a constant; nothing where it is not known."""
    if view.promise is None or view.loss is None:
        return ""
    title = view.loss_words.title
    told = "" if view.loss is view.headline else f"{title} {promised_text(view.loss)}; "
    ratio = ratio_on(view.scale, view.promise.ratio)
    of = f"{told}the {view.risk_name} is {number(ratio)} of that of a constant prediction"
    return _then(view, of)


def whom_sentence(view: View) -> str:
    """For whom it is worse, and for whom nobody can say; nothing without a promise."""
    measure = view.headline
    if view.promise is None or measure is None:
        return ""
    if not view.subgroups:
        return "no subgroup was declared, so nobody knows whether it fails for some patients"
    title, ranks = WORDS[measure.name].title, measure.name == "auroc"
    told = {m.subgroup: m for m in view.measures if is_same(m, measure) and m.subgroup}
    unknown = [name for name in view.subgroups if name not in told or not is_known(told[name])]
    worse = [
        f"{item.subgroup} ({title} {promised_text(told[item.subgroup])})"
        for item in view.differences
        if is_same(item, measure) and (item.upper < 0.0 if ranks else item.lower > 0.0)
    ]
    parts = [f"clearly worse for {listed(worse)}"] if worse else []
    parts += [f"not enough patients to say for {listed(unknown)}"] if unknown else []
    if not worse and len(unknown) < len(view.subgroups):
        which = counted(len(view.subgroups) - len(unknown), "subgroup")
        parts.insert(0, f"not clearly worse in {which}")
    return _then(view, "; ".join(parts))


def target_words(view: View) -> str:
    """How many rows the target has, and how many outcomes came since."""
    rows = 0 if view.table is None else view.table.n_rows
    if view.update is None:
        return f"a target of {counted(rows, 'row')} without outcomes"
    return f"a target of {counted(rows, 'row')}, {counted(view.update.n_rows, 'outcome')} in by now"


def outcomes_sentence(view: View) -> str:
    """What outcomes say, and whether it was as promised; nothing before outcomes came."""
    return "" if view.came is None else view.came.sentence


def examined_sentence(view: View) -> str:
    """Who examined what; nothing where nobody could."""
    promise, weights = view.promise, view.weights
    if promise is None:
        return ""
    if view.is_given:
        many = f"{len(promise.examined_by)} of {counted(len(view.sources), 'source')}"
        alone = f"; {_ASSUMED}" if len(promise.examined_by) == 1 else ""
        return f"{many} judged the given model on their weighted rows{alone}"
    if len(weights) == 1:
        [name] = weights
        own = f"the promise rests on rows that the model of {name} has not seen"
        return f"nothing was examined: there was one model, and {own}; {_ASSUMED}"
    who, all_sources = len(promise.examined_by), len(view.sources)
    told = f"{who} of {all_sources} sources examined the others' models on their weighted rows"
    if len(weights) == 2 and who == all_sources == 2:
        told = "each examined the other's model"
    [*most] = (name for name, weight in weights.items() if weight > MOSTLY_OWN)
    if not most:
        return told
    return (
        f"{told}; {most[0]}, with more than half of the weight, examined the whole mixture, its "
        "own part by held-out predictions"
    )


# The page -----------------------------------------------------------------------------------


def _verdict(view: View) -> Said:
    """The first screen: what outcomes say, why, and how well."""
    yield "realised", outcomes_sentence(view)
    if view.has_model:
        yield "why", view.why
        yield "promised", promise_sentence(view)
        if view.update is None:  # else a table says what came of it
            yield "level", level_sentence(view)
        yield "whom", whom_sentence(view)
    elif view.plan is None and view.outcome == "done":
        yield "kept_away", "the study is done; the target keeps its result to itself. Ask there"
    else:
        yield "stopped", view.why


def _outcomes(view: View) -> Said:
    """What outcomes at the target change."""
    if view.came is None:
        return
    yield "changed", view.came.update.changed
    yield "corrected", view.came.model
    yield "worth", view.came.worth
    yield "looks", view.came.intervals
    yield "older", "the sections below show the answer from before outcomes came"


def _measure(view: View) -> Said:
    """What the numbers of the first screen are."""
    if not view.has_model:
        return
    yield "ratio", ratio_sentence(view)
    own = view.loss_words
    yield "unit", f"{own.title}: {own.meaning}"
    if len(view.classes) == 2:
        yield "event", f"the event is the second class, {view.classes[1]}"
    if view.headline is not None and WORDS[view.headline.name] is not own:
        first = WORDS[view.headline.name]
        yield "headline", f"{first.title}: {first.meaning}"


def _measures(view: View) -> Said:
    """What stands in the table of measures."""
    if len(view.everybody) < 2:
        return
    yield "new_site", "each number is what a new site may expect, with its prediction interval"
    if any(map(_is_outside, view.everybody)):
        where = "where the target's own predictions spread differently from theirs"
        yield "outside", f"an estimate may lie outside what the sources found, {where}"
    asked = _held_for(view)
    if view.half_widths and asked:
        widths = listed([f"± {number(width)}" for width in view.half_widths])
        if view.update:  # the table beside it is from before
            asked = f"after the outcomes, {asked}"
        within = f"{asked} patients have an outcome within {widths} of the prediction"
        far = "from the quarter nearest to the target's centre to the farthest"
        yield "patients", f"{within}, {far}"


def _held_for(view: View) -> str:
    """Of how many patients half widths hold the outcome; nothing if outcomes say of fewer."""
    found = view.update
    if found is not None and any(check.contradicted for check in found.intervals):
        n = whole_rows(found.effective_rows)
        if not any(check.wider for check in found.intervals):
            return ""
        if n / (n + 1) < PATIENT_LEVEL:  # their largest distance tells no more
            return f"{n} of {n + 1}"
    return f"{percent(PATIENT_LEVEL)} of"


def _is_outside(measure: MeasurePromise) -> bool:
    """Whether a new site may expect more, or less, than any source found."""
    ends = found_ends(measure)
    return ends is not None and not ends[0] <= measure.estimate <= ends[1]


def _calibration(view: View) -> Said:
    if not view.calibration:
        return
    yield "diagonal", "on the diagonal, observed equals predicted; the band is for a new site"
    if len(view.calibration) > MOST_CLASSES:
        told = f"{MOST_CLASSES} of {len(view.calibration)} classes"
        yield "classes_left", f"the chart shows the first {told}"
    item = view.recalibration
    if item is not None:
        what, of = "a prediction becomes", "itself"
        if view.classes:
            what, of = "log-odds become", "log-odds"
        line = f"{what} {number(item.intercept)} + {number(item.slope)} × {of}"
        told = f"recalibration is offered and not applied: {line}"
        yield "recalibration", f"{told}. The table shows what it would change"


def _decision(view: View) -> Said:
    if view.decision_curve is None:
        return
    yield "benefit", _BENEFIT
    if view.plan is not None and view.plan.thresholds:
        yield "declared", "large dots are at the declared thresholds"


def _subgroups(view: View) -> Said:
    if view.differences:
        yield "differences_of", "a difference is the subgroup less all other patients"


def _sources(view: View) -> Said:
    if not view.sources:
        yield "no_reports", "no numbers of the sources are here"
        return
    yield "examined", examined_sentence(view)
    far = [line.name for line in view.sources if not line.reaches]
    if far:
        them = "it" if len(far) == 1 else "them"
        rests = "" if view.promise is None else f", and no promise rests on {them}"
        yield "far", f"the target is not reached by {listed(far)}{rests}"
    if view.plan is not None:
        yield "reach", f"{_WEIGHTED[view.plan.exchange]}; {_REACH}"
    hidden = len(view.sources) - len(view.in_chart)
    if view.promise is not None and hidden:
        left = counted(hidden, "source")
        yield "hidden", f"the chart shows the heaviest and the farthest; {left} more in the table"


def _methods(view: View) -> Said:
    """What the formulas of the paper are given."""
    if len(view.methods) < 2:
        return
    if view.tells_rows:
        yield "ratio_weights", "all of them use this study's messages and density ratios"
    else:
        yield "table_weights", _TABLE_WEIGHTS


def _candidates(view: View) -> Said:
    if view.plan is None or view.chosen is None:
        return
    tried, candidates = len(view.points), view.plan.candidates
    yield "chosen", f"{counted(tried, 'candidate')} tried; chosen: {candidate_text(view.chosen)}"
    if view.at_edge:
        yield "edge", "the choice lies at the edge of the grid: widen it in that direction"
    if len(candidates) > tried:
        which = counted(len(candidates) - tried, "candidate")
        yield "dropped", f"{which} could not be fitted at enough sources"
    yield "band", "the band is one standard error to either side"
    if view.promise is not None:
        yield "single_models", _SINGLE_MODELS
    if view.plan.method == "validated" and any(RATIO_POWER in c for c in candidates):
        yield "handicap", _HANDICAP
    if tried > MOST_MARKS:
        yield "best_only", f"the best {count(MOST_MARKS)} are in the table"
    if tried > MOST_PRINTED:
        yield "unprinted", "a printed page leaves out their table"


def drawn_sentence(view: View) -> str:
    """How many candidates were drawn, and why not more; empty if they were listed."""
    if view.plan is None or not view.round_ends:
        return ""
    tried, rounds = counted(view.round_ends[-1], "candidate"), counted(len(view.rounds), "round")
    how = "where earlier ones did well" if view.plan.search == "tpe" else "at random"
    ended = [f.evidence["reason"] for f in view.findings if f.code == "search-ended"]
    why = _SEARCH_ENDS[str(ended[0]) if ended else ""]
    return f"{tried} in {rounds}, drawn {how}; then {why}"


def _search(view: View) -> Said:
    """How candidates were drawn, and whose word chose among them."""
    drawn = drawn_sentence(view)
    if drawn:
        yield "drawn", f"{drawn}; all sources reported on every one"
        yield "took_part", _TOOK_PART


def _balance(view: View) -> Said:
    if view.plan is None or not view.sources:
        return
    yield "differences", _DIFFERENCES
    hidden = (
        (len(view.features) - len(view.most_different), "feature"),
        (len(view.sources) - len(view.in_panels), "source"),
    )
    parts = " and ".join(counted(many, noun) for many, noun in hidden if many > 0)
    if parts:
        yield "largest", f"the chart shows the largest before weighting, and leaves out {parts}"


def _backtest(view: View) -> Said:
    found = view.backtest
    if found is None:
        only = "Only a back-test compares promises with outcomes before the target has any"
        if view.advice == "none":
            yield "nothing_to_test", "nothing is promised, so there is nothing to back-test"
        elif view.has_model:
            yield "no_backtest", f"no back-test was run. {only}"
        return
    yield "backtest", found.sentence
    yield from backtest_numbers(found, view.risk_name)
    hidden = len(found.rows) - MOST_PLAYED
    if hidden > 0:
        yield "left_out", f"the chart leaves out {counted(hidden, 'source')}"


def backtest_numbers(found: Backtest, risk_name: str) -> Said:
    """How often and how well the promises of a back-test were kept.

    Parameters
    ----------
    found : Backtest
    risk_name : str
        What the risk is called.
    """
    judged, risk = len(found.judged), risk_word(found.scale)
    if risk == "risk":
        yield "risk_is", f"risk is the {risk_name}"
    if judged:
        kept = f"{judged - found.broken} of {counted(judged, 'promise')}"
        yield "kept", f"kept, with chance in the outcomes allowed for: {kept}"
    if found.coverage is not None:
        yield "coverage", f"{percent(found.coverage)} of the intervals hold the realised {risk}"
    if found.calibration is not None:
        average = number(ratio_on(found.scale, found.calibration))
        yield "calibration", f"promised over realised {risk} is {average} on average"
    if found.regret is not None:
        times = number(ratio_on(found.scale, found.regret))
        yield "regret", f"realised {risk} is {times} times that of a site's own model"
    if found.held_for:
        everybody = percent(round(fmean(found.held_for), 2))
        far = f"{percent(round(found.held_for[-1], 2))} of the quarter farthest from their centre"
        asked = f"an interval or set for {percent(PATIENT_LEVEL)} of patients"
        yield "held_for", f"{asked} held for {everybody}, and for {far}"


def _ledger(view: View) -> Said:
    """What left the sites."""
    if view.tells_rows:
        yield "target_rows", "the target's brief holds its rows; no other field can hold one"
    elif view.ledgers:
        yield "no_row", "no field can hold a row"
    if view.ledgers:
        yield "recorded", "every message was written into its site's ledger before it left"
        if view.n_fields <= MOST_LISTED:
            yield "fields", "the folded tables list every field; a printed page leaves them out"
        else:
            yield "no_fields", "to see their fields: fedcsa ledger RESULT --fields"
    else:
        where = "Every site keeps its own, and shows it with: fedcsa ledger SITE"
        yield "no_ledger", f"this folder holds no ledger. {where}"


SECTIONS: Mapping[str, Callable[[View], Said]] = {
    "verdict": _verdict,
    "outcomes": _outcomes,
    "measure": _measure,
    "measures": _measures,
    "calibration": _calibration,
    "decision": _decision,
    "subgroups": _subgroups,
    "sources": _sources,
    "compared": _methods,
    "candidates": _candidates,
    "search": _search,
    "balance": _balance,
    "backtest": _backtest,
    "ledger": _ledger,
}

# Findings -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reason:
    """A kind of finding, where it was found, and what to do about it."""

    severity: Severity
    code: str
    meaning: str
    places: tuple[str, ...]
    advice: str


def by_kind(findings: Sequence[Finding]) -> list[Reason]:
    """The findings by kind, the gravest first; a cause before what may follow from it.

    >>> [(r.severity, r.places) for r in by_kind([Finding("grid-edge", "north", {"value": 0.5})])]
    [('note', ('north: value 0.5',))]
    """
    kinds: dict[str, list[Finding]] = {}
    for item in findings:
        kinds.setdefault(item.code, []).append(item)
    told = []
    for code, items in kinds.items():
        severity, meaning, advice = CATALOGUE[code]
        shapes = _shapes(items)
        places = [printable(text) for text in map(_place, shapes[:MOST_PLACES]) if text]
        more = sum(map(len, shapes[MOST_PLACES:]))
        places += [f"and {more} more"] if more else []
        told.append(Reason(severity, code, sentence(meaning), tuple(places), sentence(advice)))
    return sorted(told, key=lambda reason: _rank(reason.code, findings))


def _rank(code: str, findings: Sequence[Finding]) -> tuple[int, bool]:
    """How grave a kind is; a cause is as grave as the gravest finding at its sources."""
    of = {item.source for item in findings if item.code == code}
    cause = code in CAUSES
    counted = [f for f in findings if f.code == code or (cause and f.source in of)]
    return min(SEVERITIES.index(item.severity) for item in counted), not cause


def _shapes(items: Sequence[Finding]) -> list[list[Finding]]:
    """Findings that are told in one line each: many with the same words together."""
    if len(items) <= _FEW:
        return [[item] for item in items]
    shapes: dict[tuple[object, ...], list[Finding]] = {}
    for item in items:
        texts = (f"{k} {v}" for k, v in item.evidence.items() if isinstance(v, str))
        shapes.setdefault((bool(item.source), *texts), []).append(item)
    return sorted(shapes.values(), key=len, reverse=True)


def _place(items: Sequence[Finding]) -> str:
    """Where a finding was made, and its evidence.

    Of many sources it tells the range of every number that all have, and which others they
    name most often.

    >>> many = [Finding("heavy-row", f"s{i}", {"share": 0.2 + i / 100}) for i in range(9)]
    >>> _place(many)
    '9 sources, s0, s1, s2 and 6 more: share 0.2 to 0.28'
    """
    if len(items) == 1:
        return ": ".join(filter(None, (items[0].source, items[0].facts)))
    names = [item.source for item in items if item.source]
    where = f"{counted(len(names), 'source')}, {listed(names, _FEW)}" if names else ""
    named = Counter(key for item in items for key in item.evidence)
    facts = [
        _range(key, [item.evidence[key] for item in items])
        for key in items[0].evidence
        if named[key] == len(items)
    ]
    often = [key for key, times in named.most_common() if times < len(items)][:_FEW]
    facts += [f"most often {', '.join(often)}"] if often else []
    return ": ".join(filter(None, (where, ", ".join(facts))))


def _range(key: str, values: Sequence[float | str]) -> str:
    """A piece of evidence that several findings have: the same text, or numbers."""
    numbers = [value for value in values if not isinstance(value, str)]
    if not numbers:
        return f"{key} {values[0]}"
    low, high = min(numbers), max(numbers)
    return f"{key} {number(low) if low == high else interval(low, high)}"


def about_left_out(apart: Sequence[Finding]) -> str:
    """A title for findings about sources on which the answer does not rest.

    >>> about_left_out([Finding("no-overlap", "far"), Finding("imbalance", "far")])
    'About one source that was left out, with less than 1 % of the weight: far'
    """
    which = sorted({item.source for item in apart})
    who = "one source that was" if len(which) == 1 else f"{len(which)} sources that were"
    return f"About {who} left out, with less than 1 % of the weight: {listed(which)}"
