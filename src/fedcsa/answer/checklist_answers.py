"""What a result answers to an item of a checklist: a text, or None where it does not know.

Every function takes the typed view of a study whose design is known. ``checklists.csv`` names these
functions beside the items of the checklists and of the model card; one fact that several lists ask
for is told by one function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from fedcsa.answer.forests import is_known, promised_text
from fedcsa.answer.measure_words import WORDS, spread_text, title_of
from fedcsa.answer.sentences import (
    NEW_SITE,
    examined_sentence,
    outcomes_sentence,
    target_words,
)
from fedcsa.core.table import MISSING_MARK
from fedcsa.findings import CATALOGUE
from fedcsa.models.registry import title_of_model
from fedcsa.plan import Plan
from fedcsa.target.promised_measures import MeasurePromise
from fedcsa.words import candidate_text, count, counted, listed, number, percent

if TYPE_CHECKING:
    from fedcsa.answer.view import View

#: Names in one answer: more belong into a table.
MOST_NAMES = 12


# What was studied ---------------------------------------------------------------------------


def title(view: View) -> str:
    """What kind of study it is."""
    kind = "evaluation of a given" if view.is_given else "development and evaluation of a"
    return f"{view.study}: {kind} prediction model for a site without outcomes"


def objective(view: View) -> str:
    """What is developed, and what is evaluated."""
    if view.is_given:
        return "to judge a given model at a site without outcomes, from sites with outcomes"
    return (
        "to develop a model at sites with outcomes, and to say how well it will do at a site "
        "without: every site judges a model learnt at the others (internal–external validation)"
    )


def data_sources(view: View) -> str | None:
    """Who had rows with outcomes, and who had none."""
    if not view.sources:
        return None
    names = listed([line.name for line in view.sources], MOST_NAMES)
    many = counted(len(view.sources), "source")
    return f"{many} with outcomes: {names}; {target_words(view)}"


def participants(view: View) -> str | None:
    """Which sources answered, reach the target and examined; who did not, and why."""
    if not (view.sources or view.absent):
        return None
    asked = len(view.sources) + len(view.absent)
    near = sum(line.reaches for line in view.sources)
    rows = count(sum(line.n_rows for line in view.sources))
    told = f"{len(view.sources)} of {counted(asked, 'source')} answered, with {rows} rows; "
    told += f"{near} {'resembles' if near == 1 else 'resemble'} the target after weighting"
    if view.promise is not None:
        told += f"; the promise rests on {len(view.promise.examined_by)}"
    fates = [f"{name}: {fate}" for name, fate in view.absent.items()]
    return f"{told}. Without an answer: {listed(fates, MOST_NAMES)}" if fates else told


def sample_size(view: View) -> str | None:
    """Rows, and what is left of them after weighting."""
    if view.table is None or not view.sources:
        return None
    rows = count(sum(line.n_rows for line in view.sources))
    effective = number(sum(line.effective_rows for line in view.sources))
    target = count(view.table.n_rows)
    at_sources = f"{rows} rows at the sources, {effective} effective ones after weighting"
    return f"{at_sources}; {target} rows at the target"


def events(view: View) -> str | None:
    """How often the event is at the sources, weighted to the target."""
    rates = [item for item in view.everybody if item.name == "event_rate"]
    if not rates or not rates[0].by_source:
        return None
    words = WORDS["event_rate"]
    told = [f"{name} {words.text(value)}" for name, (value, *_) in rates[0].by_source.items()]
    return f"{words.title}, weighted to the target: {listed(told, MOST_NAMES)}"


def rows_and_events(view: View) -> str | None:
    """Rows of every analysis, with events where known."""
    parts = [text for text in (sample_size(view), events(view)) if text]
    return ". ".join(map(_capital, parts)) or None


def characteristics(view: View) -> str | None:
    """Where the target's Table 1 and the sources' differences from it are told."""
    if not view.sources:
        return None
    own = "" if view.tells_rows else "the target's Table 1 is in tables/target.csv; "
    where = "are in tables/sources.csv, their differences from the target in tables/balance.csv"
    return f"{own}the sources' rows {where}"


def shift(view: View) -> str | None:
    """The largest difference of a mean from the target's, before and after weighting."""
    cells = [
        (line.name, feature, before, after)
        for line in view.sources
        for feature, before, after in zip(view.features, line.before, line.after, strict=True)
    ]
    if not cells:
        return None
    name, feature, before, _ = max(cells, key=lambda cell: abs(cell[2]))
    left = max(abs(after) for *_, after in cells)
    return (
        "the largest difference of a mean from the target's, in the target's standard deviations, "
        f"is {number(before)} before weighting ({feature} at {name}), and {number(left)} after"
    )


def feature_columns(view: View) -> str:
    """The features, as all sites agreed on them."""
    many = counted(len(view.features), "column")
    told = f"{many}, agreed by all sites before the study: {listed(view.features, MOST_NAMES)}"
    if "column" not in _plan(view).model:
        return told
    return f"{told}. They describe the patients; what the given model takes, its owner knows"


def available(_: View) -> str:
    """That the target has all features, and no outcome."""
    return "the target knows every feature, and had no outcome when it told its Table 1"


def outcome(view: View) -> str:
    """What kind of outcome is predicted."""
    if not view.classes:
        return "a number, in the same unit at every site"
    names = listed([str(label) for label in view.classes], MOST_NAMES)
    return f"one of {len(view.classes)} classes, agreed by all sites: {names}"


def preparation(_: View) -> str:
    """What was agreed about cells."""
    return (
        "kinds, levels and units of the columns were agreed before the study and are the same at "
        "every site; a cell that does not fit is an error"
    )


def missing_data(view: View) -> str:
    """How missing cells of features are treated."""
    filled = [
        name.removesuffix(MISSING_MARK) for name in view.features if name.endswith(MISSING_MARK)
    ]
    if not filled:
        return "no cell of a feature may be missing"
    return (
        f"a missing cell becomes an agreed value, and a column of its own says so, for "
        f"{listed(filled, MOST_NAMES)}; no other cell may be missing"
    )


def kept_apart(view: View) -> str | None:
    """How rows that made a model are kept away from judging it; of a given model nobody knows."""
    if view.is_given:
        return None
    told, group = "no row judges a model that was fitted on it", _plan(view).group
    return f"{told}; rows with the same {group} stay together" if group else told


# How it was done ----------------------------------------------------------------------------


def data_use(view: View) -> str:
    """Which rows did what."""
    if view.is_given:
        return (
            "every source judged the given model on all its rows, weighted to the target's Table 1"
        )
    plan = _plan(view)
    return (
        "every source judged the candidates on rows that they had not seen "
        f"({plan.scheme}, {plan.design()['n_folds']} folds), weighted to the target, and "
        f"then sent one model, fitted on {'all' if plan.refit else 'a part of'} its rows"
    )


def predictor_handling(view: View) -> str:
    """Units and flags."""
    if view.is_given:
        return "as the given model takes them, in their own units"
    units = "the target's standard deviations" if _plan(view).scale else "their own units"
    return f"levels enter as flags, all but the first; models see columns in {units}"


def model_type(view: View) -> str:
    """What the model is."""
    if view.is_given:
        return _given_model(view)
    name, many = title_of_model(_plan(view).model), len(view.weights)
    return f"{name}; the mixture of {many} sources' models" if many > 1 else name


def _given_model(view: View) -> str:
    """What is known of a model that was made elsewhere."""
    name, model = view.given_title, _plan(view).model
    if "column" in model:
        return f"{name}: every site has its predictions, as the column {model['column']}"
    if "class" in model:
        return f"{name}: a fitted {model['class']}"
    return f"{name}, a formula or trees with the digest {str(model.get('sha256', ''))[:12]}"


def model_building(view: View) -> str | None:
    """Candidates, and how one was chosen."""
    if view.chosen is None or view.is_given:
        return None
    tried = counted(len(_plan(view).candidates), "candidate")
    return (
        f"{model_type(view)}; {tried}, of which the one with the smallest estimated risk at the "
        f"target was chosen: {candidate_text(view.chosen)}"
    )


def every_step(view: View) -> str | None:
    """What is done anew when models are judged, and what is not."""
    if model_building(view) is None:
        return None
    told = "every fold fits its models anew; the candidate is chosen by all sources together"
    if view.backtest is not None:
        told += ", but not in the back-test, which repeats every step without the judged source"
    return told


def overfitting(view: View) -> str | None:
    """What guards against too good a fit."""
    if model_building(view) is None:
        return None
    return (
        "candidates are judged on rows that they have not seen, the mixture by sources that did "
        "not train the judged part"
    )


def parameter_differences(view: View) -> str | None:
    """What becomes of models that differ between sites."""
    if not view.weights or view.is_given:
        return None
    told = [f"{name} {percent(weight)}" for name, weight in view.weights.items()]
    mixed = f"they are mixed with weights: {listed(told, MOST_NAMES)}"
    return f"every source fits a model of its own; {mixed}"


def performance_differences(view: View) -> str | None:
    """The random effects."""
    if view.promise is None:
        return None
    return (
        "random effects: what the sources find varies between sites with a standard deviation that "
        f"is estimated; the interval is for a new site, {NEW_SITE}"
    )


def measures_used(view: View) -> str:
    """Which measures and plots there are; of no more than the loss, the loss."""
    names = [WORDS[item.name].title for item in view.everybody]
    plots = [
        name
        for name, has in (
            ("calibration plot", view.calibration),
            ("decision curve", view.decision_curve),
            ("distributions of risk by outcome", view.risk_distributions),
        )
        if has
    ]
    if not names:
        return view.loss_words.title
    return "; ".join((*dict.fromkeys(names), *plots))


def prediction_rule(view: View) -> str | None:
    """How predictions come about."""
    if not view.has_model:
        return None
    plan = _plan(view)
    if "column" in plan.model:
        return f"taken from the column {plan.model['column']}, which every site has"
    if view.is_given:
        return "by the given model, as agreed in the study file"
    middle = "weighted mean" if plan.combine == "mean" else "weighted median"
    told = f"the {middle} of the sources' predictions"
    if view.update is not None and view.update.correction is not None:
        told += f", corrected by {counted(view.update.n_rows, 'outcome')} from here"
    return f"{told}; fedcsa predict computes it"


def imbalance(view: View) -> str:
    """Whether classes were weighted."""
    if not view.classes:
        return "not applicable: the outcome is a number"
    if view.is_given:
        return "none in the evaluation: classes keep their shares"
    if _weights_classes(_plan(view)):
        return "the model weights classes when it is fitted (class_weight); the evaluation does not"
    return "none: rows are weighted to the target's table, classes keep their shares"


def _weights_classes(plan: Plan) -> bool:
    """Whether the model, or a candidate, has the option class_weight, and it is not off."""
    parameters = plan.model.get("parameters") or {}
    return any(
        key.endswith("class_weight") and value is not None
        for given in (parameters, *plan.candidates)
        for key, value in given.items()
    )


def evaluated_without_correction(view: View) -> str | None:
    """That the evaluation keeps the shares of classes."""
    if view.promise is None:
        return None
    if not view.classes:
        return "not applicable: the outcome is a number"
    return "the evaluation weights rows to the target's table and never by class"


def beyond_apparent(view: View) -> str | None:
    """Who judged the model."""
    return examined_sentence(view) or None


def fairness(view: View) -> str | None:
    """The subgroups in which the model is judged."""
    if not view.subgroups:
        return None
    return f"the model is judged in declared subgroups: {listed(view.subgroups, MOST_NAMES)}"


def model_output(view: View) -> str:
    """What a prediction is; thresholds."""
    if not view.classes:
        return "a number"
    cuts = sorted({item.threshold for item in view.measures if item.threshold is not None})
    declared = f"; declared thresholds: {listed([number(cut) for cut in cuts])}" if cuts else ""
    return f"a probability for every class{declared}"


def updating(view: View) -> str | None:
    """That a correction is offered."""
    if view.recalibration is None:
        return None
    return (
        "an intercept and a slope from the weighted score tables: offered, never applied silently"
    )


def data_sharing(view: View) -> str | None:
    """What left the sites."""
    if not view.ledgers:
        return None
    if view.tells_rows:
        return "the target's rows left it, as the study asked; no source's row left"
    return f"no row left a site; the ledgers name the {count(view.n_fields)} fields that did"


def code(view: View) -> str | None:
    """Which program computed it."""
    return (
        f"computed by fedcsa {view.made_with}, an open-source program" if view.made_with else None
    )


def protocol(view: View) -> str | None:
    """The study file, by its digest."""
    digest = view.hashes.get("study.toml")
    return (
        f"the study file, study.toml in the result folder, SHA-256 {digest[:12]}…"
        if digest
        else None
    )


# What was found -----------------------------------------------------------------------------


def performance(view: View) -> str | None:
    """The measures with their intervals for a new site, as far as they need no threshold."""
    told = _first(view.everybody, _measure_text)
    return f"for a new site ({percent(_plan(view).level)}): {told}" if told else None


def performance_in_subgroups(view: View) -> str | None:
    """How subgroups differ from all others."""
    told = _first(view.differences, lambda item: f"{item.subgroup}: {_measure_text(item)}")
    return f"differences from all others: {told}" if told else None


def all_performance(view: View) -> str | None:
    """Overall, and in subgroups."""
    overall = performance(view)
    if overall is None:
        return None
    nobody = "no difference is known for any subgroup" if view.subgroups else ""
    groups = performance_in_subgroups(view) or nobody or "no subgroup was declared"
    return f"{overall}. {_capital(groups)}"


def performance_everywhere(view: View) -> str | None:
    """Overall, and where the numbers of every source are."""
    overall = performance(view)
    return overall and f"{overall}. Every source: tables/measures_by_source.csv"


def performance_by_source(view: View) -> str | None:
    """The range of every measure over the sources, and the standard deviation between sites."""
    return _first([item for item in view.everybody if item.by_source], _range) or None


def updated(view: View) -> str | None:
    """The correction that is offered."""
    found = view.recalibration
    if found is None:
        return None
    numbers = f"intercept {number(found.intercept)}, slope {number(found.slope)}"
    return f"{numbers}; before and after: tables/recalibration.csv"


def sensitivity_planned(view: View) -> str | None:
    """Back-test and subgroups, as far as they were run."""
    parts = []
    if view.backtest is not None:
        parts.append("a back-test: every source in turn plays the target")
    parts += [text for text in (fairness(view),) if text]
    return "; ".join(parts) or None


def backtest_found(view: View) -> str | None:
    """How the back-test ended."""
    return None if view.backtest is None else view.backtest.sentence


def sensitivity_found(view: View) -> str | None:
    """What back-test and subgroups gave."""
    parts = [text for text in (backtest_found(view), performance_in_subgroups(view)) if text]
    return "; ".join(parts) or None


def interpretation(view: View) -> str:
    """The verdict with its reason."""
    return f"{view.heading[1]}: {view.why}"


def limitations(view: View) -> str:
    """Warnings and dangers, and what every interval assumes."""
    found = {item.code for item in view.findings if item.severity != "note"}
    told = [f"an interval holds for a new site {NEW_SITE}"] if view.promise is not None else []
    told += [meaning for code, (_, meaning, _) in CATALOGUE.items() if code in found]
    return "; ".join(told) or "no warning and no danger was found"


def next_steps(view: View) -> str | None:
    """What came of it, or how to learn that."""
    if view.update is not None:
        return outcomes_sentence(view)
    if not view.has_model:
        return None
    return "as soon as some outcomes are known at the target: fedcsa update RESULT TABLE"


def specification(view: View) -> str | None:
    """Where the whole model is."""
    if not view.has_model:
        return None
    if "column" in _plan(view).model:
        return "with its owner: the sites have only its predictions"
    if view.is_given:
        return f"with whoever gave it: {_given_model(view)}"
    return "the sources' models are in models/ of the target's result folder, with their weights"


# Parts --------------------------------------------------------------------------------------


def _plan(view: View) -> Plan:
    assert view.plan is not None  # noqa: S101 - without one nothing here is asked
    return view.plan


def _measure_text(item: MeasurePromise) -> str:
    return f"{title_of(item)} {promised_text(item)}"


def _first(items: Iterable[MeasurePromise], text: Callable[[MeasurePromise], str]) -> str:
    """Known measures in words, those at thresholds only counted: a table has them all."""
    known = [item for item in items if is_known(item)]
    told = [text(item) for item in known if item.threshold is None] or list(map(text, known))
    more = len(known) - len(told)
    return "; ".join([*told, *([f"{more} at thresholds in tables/measures.csv"] if more else [])])


def _range(item: MeasurePromise) -> str:
    words = WORDS[item.name]
    values = {name: value for name, (value, *_) in item.by_source.items()}
    low, high = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
    between = f"{words.text(values[low])} ({low}) to {words.text(values[high])} ({high})"
    return f"{title_of(item)}: {between}, between-site sd {spread_text(item)}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
