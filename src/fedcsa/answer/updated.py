"""What outcomes at the target change, in words: terminal, notebook and page alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedcsa.answer.measure_words import WORDS, MeasureWords, loss_words_of, title_and_subgroup
from fedcsa.models.description import given_column
from fedcsa.plan import Plan
from fedcsa.target.risk_units import in_units, ratio_on, risk_scale, risk_word
from fedcsa.words import count, counted, number, percent

if TYPE_CHECKING:
    from fedcsa.target.with_outcomes import MeasureUpdate, Three
    from fedcsa.update import Update

#: Characters of the chart on a terminal.
CHART_WIDTH = 36
#: Of a correction that is smaller nothing is said: it moves no digit that is shown.
SMALLEST_CHANGE = 5e-4
_PREDICTS = ". Predictions use it from now on"
#: A verdict is about the model as the sources examined it; of the corrected one nobody knows.
_NOT_EITHER = ". No source has examined the corrected model, so the verdict holds for it too"


@dataclass(frozen=True)
class ShownMeasure:
    """One measure as people read it: promised, from the outcomes alone, now.

    Attributes
    ----------
    title : str
    words : MeasureWords
    before, alone, now : (estimate, lower, upper) or None
    all_looks : (estimate, lower, upper) or None
        With the interval that is right at all looks together; None at the first look.
    worth_rows : float or None
        Outcomes alone that are as good, if that is known.
    """

    title: str
    words: MeasureWords
    before: Three | None
    alone: Three | None
    now: Three
    all_looks: Three | None
    worth_rows: float | None

    def text(self, three: Three | None) -> str:
        """An estimate with its interval; a dash where there is none."""
        if three is None:
            return "—"
        if self.ends(three) == "—":
            return self.words.text(three[0])
        return self.words.with_interval(*three)

    def ends(self, three: Three | None) -> str:
        """An interval alone; a dash where there is none."""
        return "—" if three is None else self.words.between(*three[1:])


@dataclass(frozen=True)
class ShownUpdate:
    """All that outcomes change, as people read it: a view's `came`.

    Attributes
    ----------
    update : Update
    plan : Plan
        Of the study, whose loss is told in units that people use.
    """

    update: Update
    plan: Plan

    @property
    def words(self) -> MeasureWords:
        """How the study's loss is told."""
        return loss_words_of(self.plan)

    @property
    def often(self) -> bool:
        """Whether this is not the first look."""
        return len(self.update.path) > 1

    def measure(self, item: MeasureUpdate) -> ShownMeasure:
        """One of its measures in units that people use."""
        own = item is self.update.risk

        def units(three: Three | None) -> Three | None:
            if three is None or not own:
                return three
            return tuple(in_units(self.plan, value) for value in three)  # type: ignore[return-value]

        words = self.words if own else WORDS[item.name]
        title = words.title if own else title_and_subgroup(item)
        before, alone, now = units(item.before), units(item.alone), units(item.after)
        looks = units((item.after[0], *item.anytime)) if self.often else None
        return ShownMeasure(title, words, before, alone, now or item.after, looks, item.worth_rows)

    @property
    def looks(self) -> list[tuple[int, list[float]]]:
        """The promise, with no outcomes, if there was one; then every look.

        Each is a number of outcomes; then the estimate, its interval, and that for all looks.
        """
        before = self.update.risk.before
        looks = [] if before is None else [(0, (*before, *before[1:]))]
        looks += [(x.n_rows, (x.estimate, x.lower, x.upper, *x.anytime)) for x in self.update.path]
        return [(n, [in_units(self.plan, value) for value in five]) for n, five in looks]

    @property
    def path_lines(self) -> Iterator[str]:
        """The same as a chart of characters: the promise first, then every look.

        A line is thick where the interval of a look is, and thin where only that for all looks is.
        """
        spans = self.looks
        low, high = min(min(five) for _, five in spans), max(max(five) for _, five in spans)
        step = (high - low) / (CHART_WIDTH - 1) or 1.0
        for n, (estimate, lower, upper, *ends) in spans:
            at, *inner, first, last = (
                round((x - low) / step) for x in (estimate, lower, upper, *ends)
            )
            bar = "".join(
                "●" if x == at
                else "━" if inner[0] <= x <= inner[1]
                else "─" if first <= x <= last
                else " "
                for x in range(CHART_WIDTH)
            )  # fmt: skip
            name = count(n) if n else "promised"
            yield f"{name:>8} {bar} {self.words.with_interval(estimate, lower, upper)}"

    @property
    def sentence(self) -> str:
        """How good the model is with what is known now, and what was promised."""
        found = self.update
        shown = self.measure(found.risk)
        told = f"{shown.title} {shown.text(shown.now)} with {counted(found.n_rows, 'outcome')}"
        if shown.before is None:
            return told
        alone = "" if shown.alone is None else f"; the outcomes alone say {shown.text(shown.alone)}"
        doubts = [x.sentence for x in found.verdict.legs if x.name == "agreement" and not x.passed]
        though = f", though {doubts[0]}" if doubts and found.conclusion == "as promised" else ""
        promise = f"; the promise was {shown.text(shown.before)}"
        return f"{told}{promise}{alone}: {found.conclusion}{though}"

    @property
    def worth(self) -> str:
        """How many outcomes alone would have been needed; nothing if that is not known."""
        worth, n_rows = self.update.risk.worth_rows, self.update.n_rows
        if worth is None or worth <= n_rows:
            return ""
        is_worth = "is worth" if n_rows == 1 else "are worth"
        many = counted(n_rows, "outcome")
        return f"together with the promise, {many} {is_worth} {count(worth)} alone"

    @property
    def intervals(self) -> str:
        """What the intervals are right for, and of which model they are."""
        level, promised = percent(self.update.level), self.update.risk.before is not None
        told = f"intervals: {level}, of the outcomes alone"
        if promised:
            told = (
                f"the interval 'now, with both' is right in {level} of sites that "
                "differ from the sources as these differ from each other, whenever one stops "
                "looking"
            )
        if self.often and promised:
            told += ". The interval 'for all looks' is right at all looks together; findings use it"
        if self.update.correction is not None:
            told += ". Numbers describe the model before its correction"
        return told

    @property
    def model(self) -> str:
        """What changes in the model."""
        change = self.update.correction
        if change is None:
            why = f": {self.update.why_same_model}" if self.update.why_same_model else ""
            return f"the model stays as it is{why}"
        told = [f"intercept {number(change.intercept)}, slope {number(change.slope)}"]
        moved = sum(abs(value) > SMALLEST_CHANGE for value in change.coefficients)
        told += [f"{counted(moved, 'coefficient')} moved"] if moved else []
        used = "" if given_column(self.plan.model) else _PREDICTS  # a column has no model
        if self.update.verdict.advice == "no":
            used = _NOT_EITHER
        return f"the model is corrected: {', '.join(told)}{self._gain}{used}"

    @property
    def _gain(self) -> str:
        """What the correction is expected to gain, and whether these outcomes show it."""
        expected, seen, told = self.update.expected_gain, self.update.gain, ""
        scale = risk_scale(self.plan)
        risk = risk_word(scale)
        if expected is not None:
            share = number(ratio_on(scale, expected))
            told = f". Its {risk} is expected to be {share} of what it was"
        if seen is None:
            return told
        shown = f"{number(ratio_on(scale, seen))} of what it was on these rows"
        shown += ", each predicted without its own outcome"
        if seen >= 1.0:
            return f"{told}. These outcomes do not show a gain: the {risk} was {shown}"
        return f"{told}. The {risk} was {shown}"
