"""What a forest plot shows: one line a source, a subgroup or a new site, for any measure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fedcsa.answer.measure_words import WORDS, MeasureWords, title_of
from fedcsa.answer.updated import ShownMeasure
from fedcsa.target.promised_measures import MeasurePromise
from fedcsa.target.risk_units import in_units
from fedcsa.words import count, number, percent, printable

if TYPE_CHECKING:
    from fedcsa.answer.view import SourceLine, View
    from fedcsa.target.with_outcomes import MeasureUpdate, Three

#: Measures with a forest plot on the page, of those that a study has; its own loss has one too.
DRAWN = ("auroc", "observed_expected", "rmse", "r2", "calibration_slope", "calibration_intercept")
#: Plots on the page: more would repeat what the table says.
MOST_FORESTS = 4


@dataclass(frozen=True)
class ForestLine:
    """One line of a forest plot.

    Attributes
    ----------
    name : str
    kind : {"source", "far", "new", "came", "group"}
        A source, one that found nothing, a new site, what outcomes here say, a subgroup at a new
        site.
    said : str
        Its value in words; or why there is none.
    value, lower, upper : float or None
    weight : float
        Of the source's model: the area of its mark.
    others : tuple of float
        Further values on the line: of all sources, where they have no lines of their own.
    """

    name: str
    kind: Literal["source", "far", "new", "came", "group"]
    said: str
    value: float | None = None
    lower: float | None = None
    upper: float | None = None
    weight: float = 0.0
    others: tuple[float, ...] = ()


@dataclass(frozen=True)
class ForestPlot:
    """One measure.

    Attributes
    ----------
    title : str
    words : MeasureWords
    lines : tuple of ForestLine
        From top to bottom.
    label : str
        Of the axis.
    beside : float or None
        The value to compare with: the grey line.
    """

    title: str
    words: MeasureWords
    lines: tuple[ForestLine, ...]
    label: str
    beside: float | None


def is_known(measure: MeasurePromise) -> bool:
    """Whether anything is promised of it."""
    return not math.isnan(measure.estimate)


def is_same(item: MeasurePromise | MeasureUpdate, other: MeasurePromise) -> bool:
    """Whether two promises are of one measure, in whatever subgroup."""
    keys = ("name", "threshold", "of_class")
    return all(getattr(item, key) == getattr(other, key) for key in keys)


def promised_text(measure: MeasurePromise) -> str:
    """What a new site may expect; or why nobody can say."""
    if not is_known(measure):
        return measure.why_not or "not known"
    return WORDS[measure.name].with_interval(measure.estimate, measure.lower, measure.upper)


def source_forest(view: View, measure: MeasurePromise) -> ForestPlot:
    """What every source found, and what a new site may expect; then what outcomes here say."""
    lines = [*(_source(line, measure) for line in view.in_chart), _expected(measure, "a new site")]
    return _forest(view, measure, [*lines, *_from_here(view, measure)])


def first_forest(view: View, measure: MeasurePromise) -> ForestPlot:
    """The picture of the first screen: all sources on one line, a new site, here, subgroups."""
    words, values = WORDS[measure.name], [x[0] for x in measure.by_source.values()]
    lines = [_expected(measure, "a new site"), *_from_here(view, measure)[1:]]
    lines += _groups(view, measure)
    if values:
        ends = words.between(min(values), max(values))
        name = f"{count(len(values))} sources" if len(values) > 1 else "1 source"
        said = f"found by the sources: {ends}"
        lines.insert(0, ForestLine(name, "source", said, others=tuple(values)))
    return _forest(view, measure, lines)


def subgroup_forests(view: View) -> Iterator[ForestPlot]:
    """Each measure that is drawn, over everybody and over every subgroup."""
    for measure in drawn(view):
        groups = [*_groups(view, measure)]
        if groups:
            lines = [_expected(measure, "everybody"), *_from_here(view, measure)[1:], *groups]
            yield _forest(view, measure, lines)


def drawn(view: View) -> list[MeasurePromise]:
    """The measures over everybody that have a forest plot on the page."""
    found = [
        item
        for name in DRAWN
        for item in view.everybody
        if item.name == name and item.threshold is None and is_known(item)
    ]
    own = [] if view.loss is None or view.loss in found else [view.loss]
    return [*found[: MOST_FORESTS - len(own)], *own]


def _source(line: SourceLine, measure: MeasurePromise) -> ForestLine:
    """One source: what it found, or why it found nothing."""
    words, found = WORDS[measure.name], measure.by_source.get(line.name)
    about = (
        f"weight {line.weight_text}, effective rows {number(line.effective_rows)} of "
        f"{count(line.n_rows)}, imbalance {number(line.imbalance)}"
    )
    why = "not told" if line.reaches else "does not reach the target"
    told = why if found is None else words.with_interval(*found)
    said = printable(f"{line.name}: {about}, {words.title}: {told}")
    if found is None:
        return ForestLine(line.name, "far", said)
    return ForestLine(line.name, "source", said, *found, line.weight or 0.0)


def _expected(
    measure: MeasurePromise, name: str, kind: Literal["new", "group"] = "new"
) -> ForestLine:
    """A new site, or a subgroup there."""
    said = printable(f"{name}: {promised_text(measure)}")
    if not is_known(measure):
        return ForestLine(name, kind, said)
    return ForestLine(name, kind, said, measure.estimate, measure.lower, measure.upper)


def _groups(view: View, measure: MeasurePromise) -> Iterator[ForestLine]:
    """The same measure in every subgroup: here if outcomes say something, else at a new site."""
    for item in view.measures:
        if item.subgroup and is_same(item, measure):
            here = _shown_here(view, item)
            if here is None:
                yield _expected(item, item.subgroup, "group")
            else:
                yield _came(item.subgroup, here, here.now)


def _from_here(view: View, measure: MeasurePromise) -> list[ForestLine]:
    """What outcomes here say alone, and together with the promise; none before any came."""
    if view.update is None:
        return []
    here = _shown_here(view, measure)
    alone, both = (None, None) if here is None else (here.alone, here.now)
    return [_came("outcomes here", here, alone), _came("here, with both", here, both)]


def _came(name: str, here: ShownMeasure | None, three: Three | None) -> ForestLine:
    """A line about outcomes here; or that they are too few."""
    if here is None or three is None:
        return ForestLine(name, "came", f"{name}: too few outcomes")
    return ForestLine(name, "came", printable(f"{name}: {here.text(three)}"), *three)


def _shown_here(view: View, measure: MeasurePromise) -> ShownMeasure | None:
    """What outcomes make of a measure; None if they change nothing."""
    if view.came is None:
        return None
    for item in view.came.update.measures:
        same = is_same(item, measure) and item.subgroup == measure.subgroup
        same = item.name == "risk" if measure is view.loss else same
        if same and not item.why_not:
            return view.came.measure(item)
    return None


def _forest(view: View, measure: MeasurePromise, lines: Sequence[ForestLine]) -> ForestPlot:
    """A measure with its lines; its loss is compared with a constant's, before outcomes came.

    Outcomes change what a constant's loss is here: the one that was promised is of no use then.
    """
    words, promise = WORDS[measure.name], view.promise
    beside, what = words.beside, words.beside_is
    is_loss = is_same(measure, view.loss or measure) and view.update is None
    if is_loss and promise is not None and view.plan is not None:
        beside = in_units(view.plan, promise.risk / promise.ratio)
        what = "a constant"
    level = "interval" if promise is None else f"{percent(promise.level)} interval"
    label = f"{level}; grey: {what}" if what else level
    return ForestPlot(title_of(measure), words, tuple(lines), label, beside)
