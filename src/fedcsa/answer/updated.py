"""What outcomes at the target change, in words: terminal, notebook and page alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fedcsa.answer.measure_words import WORDS, MeasureWords, title_of
from fedcsa.answer.view import loss_words_of
from fedcsa.models.given import given_column
from fedcsa.plan import Plan
from fedcsa.target.realised_measures import in_units
from fedcsa.update import MeasureUpdate, Three, Update
from fedcsa.words import count, counted, number, percent

#: Characters of the chart on a terminal.
CHART_WIDTH = 36
#: Of a correction that is smaller nothing is said: it moves no digit that is shown.
SMALLEST_CHANGE = 5e-4


@dataclass(frozen=True)
class ShownMeasure:
    """One measure as people read it: promised, from the outcomes alone, now.

    Attributes
    ----------
    title : str
    words : MeasureWords
    before, alone, now : (estimate, lower, upper) or None
    worth_rows : float or None
        Outcomes alone that are as good, if that is known.
    """

    title: str
    words: MeasureWords
    before: Three | None
    alone: Three | None
    now: Three
    worth_rows: float | None

    def text(self, three: Three | None) -> str:
        """An estimate with its interval; a dash where there is none."""
        if three is None:
            return "—"
        told = self.words.between(*three[1:])
        value = self.words.text(three[0])
        return value if told == "—" else f"{value} ({told})"


def shown_measure(found: Update, item: MeasureUpdate, plan: Plan) -> ShownMeasure:
    """A measure in units that people use.

    Parameters
    ----------
    found : Update
    item : MeasureUpdate
        One of its measures.
    plan : Plan
    """
    own = item is found.risk

    def units(three: Three | None) -> Three | None:
        if three is None or not own:
            return three
        return tuple(in_units(plan, value) for value in three)  # type: ignore[return-value]

    words = loss_words_of(plan) if own else WORDS[item.name]
    title = words.title if own else title_of(item)
    # From the second look on, only the interval that allows for many looks is right.
    now = item.after if len(found.path) < 2 else (item.after[0], *item.anytime)
    title = f"{title}, {item.subgroup}" if item.subgroup else title
    before, alone = units(item.before), units(item.alone)
    return ShownMeasure(title, words, before, alone, units(now) or now, item.worth_rows)


def path_lines(found: Update, plan: Plan) -> Iterator[str]:
    """The same as a chart of characters: the promise first, then every look.

    Parameters
    ----------
    found : Update
    plan : Plan
    """
    lines = [] if found.risk.before is None else [("promised", found.risk.before)]
    lines += [(count(x.n_rows), (x.estimate, x.lower, x.upper)) for x in found.path]
    spans = [(name, [in_units(plan, value) for value in three]) for name, three in lines]
    low, high = min(three[1] for _, three in spans), max(three[2] for _, three in spans)
    step = (high - low) / (CHART_WIDTH - 1) or 1.0
    for name, (estimate, lower, upper) in spans:
        at, start, stop = (round((x - low) / step) for x in (estimate, lower, upper))
        bar = "".join(
            "●" if place == at else "─" if start <= place <= stop else " "
            for place in range(CHART_WIDTH)
        )
        words = loss_words_of(plan)
        yield f"{name:>8} {bar} {words.text(estimate)} ({words.between(lower, upper)})"


def update_sentence(found: Update, plan: Plan) -> str:
    """How good the model is with what is known now, and what was promised.

    Parameters
    ----------
    found : Update
    plan : Plan
    """
    shown = shown_measure(found, found.risk, plan)
    told = f"{shown.title} {shown.text(shown.now)} with {counted(found.n_rows, 'outcome')}"
    if shown.before is None:
        return told
    alone = "" if shown.alone is None else f"; the outcomes alone say {shown.text(shown.alone)}"
    return f"{told}; promised was {shown.text(shown.before)}{alone}: {found.conclusion}"


def worth_sentence(found: Update) -> str:
    """How many outcomes alone would have been needed; nothing if that is not known."""
    worth = found.risk.worth_rows
    if worth is None or worth <= found.n_rows:
        return ""
    many = counted(found.n_rows, "outcome")
    return f"together with the promise, {many} are worth {count(worth)} alone"


def interval_sentence(found: Update) -> str:
    """What the intervals are right for, and of which model they are."""
    looks = "for one look" if len(found.path) < 2 else "however often one looks"
    of = "" if found.correction is None else "; all numbers are of the model before its correction"
    return f"intervals: {percent(found.level)}, {looks} at the outcomes{of}"


def model_sentence(found: Update, plan: Plan) -> str:
    """What changes in the model.

    Parameters
    ----------
    found : Update
    plan : Plan
    """
    change = found.correction
    if change is None:
        why = f": {found.why_same_model}" if found.why_same_model else ""
        return f"the model stays as it is{why}"
    told = [f"intercept {number(change.intercept)}, slope {number(change.slope)}"]
    moved = sum(abs(value) > SMALLEST_CHANGE for value in change.coefficients)
    told += [f"{counted(moved, 'coefficient')} moved"] if moved else []
    if found.gain is not None:
        told.append(f"on these rows its risk is {number(found.gain)} of what it was")
    # Of a column of predictions there is no model that could predict.
    used = "" if given_column(plan.model) else ". Predictions use it from now on"
    return f"the model is corrected: {', '.join(told)}{used}"
