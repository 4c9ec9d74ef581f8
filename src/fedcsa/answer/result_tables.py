"""The tables about an answer, every cell a text: terminal, notebook and page show the same ones."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedcsa.answer.forests import drawn, is_known, is_same, promised_text
from fedcsa.answer.measure_words import (
    LOSS_NAMES,
    WORDS,
    found_ends,
    spread_text,
    title_and_subgroup,
    title_of,
)
from fedcsa.answer.sentences import MOST_LISTED, MOST_MARKS, MOST_PRINTED
from fedcsa.answer.updated import ShownUpdate
from fedcsa.messages.policy import LedgerEntry
from fedcsa.models.registry import title_of_model
from fedcsa.plan import Plan
from fedcsa.target.backtest_result import Backtest, BacktestRow
from fedcsa.target.promised_measures import MeasurePromise, Recalibration
from fedcsa.target.risk_units import OF_LOSS, on_scale
from fedcsa.words import (
    candidate_text,
    count,
    counted,
    interval,
    listed,
    number,
    percent,
    printable,
)

if TYPE_CHECKING:
    from fedcsa.answer.view import SourceLine, View

#: What means something in Markdown.
_SIGNS = re.compile(r"([\\`*_{}\[\]|#~$])")
_GROUP_HEADINGS = ("subgroup", "measure", "at a new site", "less all others")


@dataclass(frozen=True)
class Table:
    """Rows under headings.

    Attributes
    ----------
    caption : str
    headings : tuple of str
    rows : sequence of sequence of str
    text : tuple of int
        Columns that are words; the others are numbers, aligned to the right.
    wrap : tuple of int
        Columns of words that may take several lines.
    tones : sequence of str
        One word a row for the style sheet: "", ``"own"``, ``"far"``; or none at all.
    printed : bool
        Whether it is unfolded on paper; else it is left out there.
    """

    caption: str
    headings: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    text: tuple[int, ...] = (0,)
    wrap: tuple[int, ...] = ()
    tones: Sequence[str] = ()
    printed: bool = True

    def __post_init__(self) -> None:
        clean = tuple(tuple(map(printable, row)) for row in self.rows)  # names come from elsewhere
        object.__setattr__(self, "rows", clean)
        object.__setattr__(self, "caption", printable(self.caption))


def escaped(text: object) -> str:
    r"""A text that stays as it is when Markdown is shown.

    >>> escaped("a_b | <b>"), escaped("*x*")
    ('a\\_b \\| &lt;b&gt;', '\\*x\\*')
    """
    return _SIGNS.sub(r"\\\1", html.escape(printable(text), quote=False))


def markdown_table(table: Table) -> str:
    """A table with its headings, in Markdown; numbers to the right."""
    sides = ["---" if i in table.text else "---:" for i in range(len(table.headings))]
    rows = [table.headings, sides, *table.rows]
    lines = [" | ".join(map(str, row) if row is sides else map(escaped, row)) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def answer_tables(view: View) -> Iterator[Table]:
    """What terminal and notebook show: what outcomes change, measures, subgroups, the sources."""
    if view.came is not None:
        yield update_table(view.came)
    if len(view.everybody) > 1:
        yield measure_table(view)
    if view.subgroups:
        yield subgroup_table(view)
    yield source_table(view)


def source_table(view: View) -> Table:
    """What every source found, its weight, and how far off it is."""
    if view.plan is None or not view.sources:
        return Table("Sources", ("source", "what became of it"), [*view.absent.items()], (0, 1))
    rows: list[tuple[str, ...]] = [
        (
            line.name,
            line.found_text,
            line.weight_text,
            count(line.n_rows),
            number(line.effective_rows),
            number(line.imbalance),
        )
        for line in view.sources
    ]
    rows += [(name, fate, *["—"] * 4) for name, fate in view.absent.items()]
    tones = ["" if line.reaches else "far" for line in view.sources] + ["far"] * len(view.absent)
    found = f"{view.loss_words.title} found ({percent(view.plan.level)})"
    headings = ("source", found, "weight", "rows", "effective rows", "imbalance")
    return Table("Sources", headings, rows, (0, 1), (1,), tones)


def measure_table(view: View) -> Table:
    """Every measure over all patients: at a new site, between sites, at the sources."""
    rows = [
        (
            title_of(item),
            promised_text(item),
            spread_text(item) if is_known(item) else "—",
            WORDS[item.name].between(*(found_ends(item) or (None, None))),
        )
        for item in view.everybody
    ]
    level = "" if view.promise is None else f" ({percent(view.promise.level)})"
    headings = ("measure", f"at a new site{level}", "sd between sites", "at the sources")
    return Table("Measures", headings, rows, (0, 1, 3), (0, 1))


def measure_details(view: View) -> Iterator[Table]:
    """What the measures mean, and what every source found of each."""
    names = dict.fromkeys(item.name for item in view.measures)
    meanings = [(WORDS[name].title, WORDS[name].meaning) for name in names]
    yield Table("What the measures mean", ("measure", "meaning"), meanings, (0, 1), (1,))
    rows = [
        (title_of(item), source, WORDS[item.name].text(value), WORDS[item.name].between(*ends))
        for item in view.everybody
        for source, (value, *ends) in sorted(item.by_source.items())
    ]
    if 0 < len(rows) <= MOST_LISTED:
        headings = ("measure", "source", "found", "interval")
        yield Table("Every measure at every source", headings, rows, (0, 1), printed=False)


def subgroup_table(view: View) -> Table:
    """The measures that are drawn, in every subgroup; one line for a subgroup of too few."""
    rows: list[tuple[str, ...]] = []
    for group in view.subgroups:
        told = [m for kind in drawn(view) for m in _of_group(view, group) if is_same(m, kind)]
        if told and not any(map(is_known, told)):
            rows.append((group, "every measure", told[0].why_not, "—"))
        else:
            rows += _group_rows(view, told)
    return Table("Subgroups", _GROUP_HEADINGS, rows, (0, 1, 2, 3), (1, 2, 3))


def every_subgroup_table(view: View) -> Table:
    """Every measure in every subgroup."""
    rows = [row for group in view.subgroups for row in _group_rows(view, _of_group(view, group))]
    title = "Every measure in every subgroup"
    return Table(title, _GROUP_HEADINGS, rows, (0, 1, 2, 3), (1, 2, 3), printed=False)


def _of_group(view: View, group: str) -> list[MeasurePromise]:
    return [item for item in view.measures if item.subgroup == group]


def _group_rows(view: View, told: Sequence[MeasurePromise]) -> list[tuple[str, ...]]:
    """What is promised to a subgroup, and how far that lies from what all others may expect."""
    rows = []
    for item in told:
        apart = [x for x in view.differences if x.subgroup == item.subgroup and is_same(x, item)]
        less = [promised_text(x) for x in apart if is_known(x)]
        rows.append((item.subgroup, title_of(item), promised_text(item), *(less or ["—"])))
    return rows


def recalibration_table(told: Recalibration) -> Table:
    """The measures before and after a recalibration that is offered."""
    rows = [
        (title_of(before), promised_text(before), promised_text(after))
        for before, after in zip(told.before, told.after, strict=True)
    ]
    headings = ("measure", "as it is", "recalibrated")
    return Table("Before and after recalibration", headings, rows, (0, 1, 2), (0, 1, 2))


def method_table(view: View) -> Table:
    """The study's own method and those that it compares."""
    rows = [
        (
            line.title,
            number(line.risk),
            candidate_text(line.candidate),
            listed([f"{name} {percent(weight)}" for name, weight in line.weights.items()]),
        )
        for line in view.methods
    ]
    own = None if view.plan is None else view.plan.method
    tones = ["own" if line.method == own else "" for line in view.methods]
    headings = ("method", f"estimated {view.loss_words.title}", "chosen", "weights")
    return Table("Estimates by method", headings, rows, (0, 2, 3), (2, 3), tones)


def candidate_table(view: View) -> Table:
    """Risk of every candidate, the smallest first."""
    order = sorted(view.told_points, key=lambda point: point.risk)
    order = [point for rank, point in enumerate(order) if rank < MOST_MARKS or point.chosen]
    rows = [(candidate_text(p.candidate), number(p.risk), number(p.error)) for p in order]
    tones = ["own" if point.chosen else "" for point in order]
    headings = ("candidate", view.risk_name, "standard error")
    printed = len(rows) <= MOST_PRINTED
    return Table("Risk of every candidate", headings, rows, tones=tones, printed=printed)


def search_table(view: View) -> Table:
    """Every candidate of a search in the order in which it was asked for."""
    rows, smallest = [], view.smallest_so_far[-1]
    for point in view.told_points:
        more = percent(point.risk / smallest - 1.0) if smallest > 0.0 else "—"
        told = (candidate_text(point.candidate), number(point.risk), more)
        rows.append((str(view.round_of(point)), *told))
    headings = ("round", "candidate", view.risk_name, "above the smallest")
    tones = ["own" if point.chosen else "" for point in view.points]
    title, printed = "Every candidate of the search", len(rows) <= MOST_PRINTED
    return Table(title, headings, rows, (0, 1), tones=tones, printed=printed)


def balance_table(view: View) -> Table:
    """Every feature at every source; of very many, those that the Love plot shows."""
    sources: Sequence[SourceLine] = view.sources
    places: Sequence[int] = range(len(view.features))
    if len(sources) * len(places) > MOST_LISTED:
        sources, places = view.in_panels, view.most_different
    rows = [
        (line.name, view.features[i], number(line.before[i]), number(line.after[i]))
        for line in sources
        for i in places
    ]
    title, printed = "Standardised mean differences", len(rows) <= MOST_PRINTED
    headings = ("source", "feature", "before", "after")
    return Table(title, headings, rows, (0, 1), printed=printed)


def broken_first(backtest: Backtest) -> list[BacktestRow]:
    """The sources as targets: broken promises first, then by name."""
    return sorted(
        backtest.rows, key=lambda row: (row.kept(backtest.level) is not False, row.source)
    )


def kept_text(row: BacktestRow, level: float) -> str:
    """``kept``, ``broken``, ``far off`` or ``not judged``; `level` is that of the interval."""
    if row.far_off(level):
        return "far off"
    return {True: "kept", False: "broken", None: "not judged"}[row.kept(level)]


@dataclass(frozen=True)
class PlayedRisks:
    """Risks of a source that played the target, as people are told them; None if not known.

    Attributes
    ----------
    promised, lower, upper, own_model : float or None
    realised : float or None
    realised_ends : tuple of float
        Two ends of what came true, if the chance in its rows is allowed for; empty without it.
    """

    promised: float | None
    lower: float | None
    upper: float | None
    own_model: float | None
    realised: float | None
    realised_ends: tuple[float, ...]

    @classmethod
    def of(cls, row: BacktestRow, found: Backtest) -> PlayedRisks:
        """The risks of one row of a back-test."""
        slack, came, scale = row.slack(found.level), row.realised, found.scale
        ends = () if came is None else (came - slack, came + slack)
        promised, lower, upper, own, realised = (
            None if risk is None else on_scale(scale, risk)
            for risk in (row.promised, row.lower, row.upper, row.reference, came)
        )
        told = tuple(on_scale(scale, end) for end in ends)
        return cls(promised, lower, upper, own, realised, told)

    @property
    def realised_text(self) -> str:
        """The realised risk, and about how far chance may have moved it."""
        ends = self.realised_ends or (0.0,)
        chance = (max(ends) - min(ends)) / 2
        return f"{number(self.realised)} ± {number(chance)}" if chance else number(self.realised)


def backtest_table(found: Backtest, risk: str) -> Table:
    """What was promised to every source that played the target; `risk` is what its numbers are."""
    order = broken_first(found)
    risks = [PlayedRisks.of(row, found) for row in order]
    own = any(row.reference is not None for row in order)  # nobody fits one beside a given model
    rows = [
        (
            row.source,
            count(row.n_rows),
            number(told.promised),
            interval(told.lower, told.upper),
            told.realised_text,
            *([number(told.own_model)] if own else []),
            kept_text(row, found.level),
            row.status,
        )
        for row, told in zip(order, risks, strict=True)
    ]
    headings = (
        "source", "rows", "promised", "for a new site", "realised", *(["own model"] if own else []),
        "promise", "verdict",
    )  # fmt: skip
    tones = ["far" if row.kept(found.level) is False else "" for row in order]
    words = (0, len(headings) - 2, len(headings) - 1)
    return Table(f"Each source as the target: {risk}", headings, rows, words, tones=tones)


def played_measures_table(found: Backtest) -> Table:
    """How often the promises of every measure held in the back-test."""
    rows = [
        (title_and_subgroup(x), f"{x.covered} of {x.judged}", f"{x.kept} of {x.judged}")
        for x in found.measures
    ]
    headings = ("measure", "in the interval", "kept, with chance")
    return Table("Promises of every measure", headings, rows, (0,), (0,))


def update_table(came: ShownUpdate) -> Table:
    """Every measure that the outcomes change: before and after, side by side."""
    rows, own = [], OF_LOSS.get(came.plan.loss)
    for item in came.update.measures:
        again = item.name == own and not item.subgroup  # the study's loss stands first
        if not item.why_not and not again:
            shown = came.measure(item)
            worth = shown.worth_rows
            rows.append(
                (
                    shown.title,
                    shown.text(shown.before),
                    shown.text(shown.alone),
                    shown.text(shown.now),
                    *([shown.ends(shown.all_looks)] if came.often else []),
                    "—" if worth is None else count(worth),
                )
            )
    looks = ("for all looks",) if came.often else ()
    headings = ("measure", "promised", "outcomes alone", "now, with both", *looks, "worth")
    words = tuple(range(len(headings) - 1))  # all but the last; an interval alone stays on one line
    return Table("Before and after", headings, rows, words, words[:4])


def path_table(came: ShownUpdate) -> Table:
    """The study's loss after every update."""
    words = came.words
    rows = [
        (count(n), words.text(estimate), words.between(lower, upper), words.between(*anytime))
        for n, (estimate, lower, upper, *anytime) in came.looks
        if n  # the first is the promise
    ]
    headings = ("outcomes", words.title, "interval", "interval for all looks")
    return Table("Over time", headings, rows, ())


# What left each site, and how the answer came about ------------------------------------------


def told_table(view: View) -> Iterator[Table]:
    """The target's Table 1, which every source has seen."""
    if view.table is None or not view.has_model or view.tells_rows:
        return
    told = view.table
    rows = [
        (name, "share" if flag else "mean", number(mean), "—" if flag else number(sd))
        for name, flag, mean, sd in zip(
            told.features, told.flags, told.mean.tolist(), told.sd.tolist(), strict=True
        )
    ]
    caption = f"Table 1 of the target, as it was told: {counted(told.n_rows, 'row')}"
    yield Table(caption, ("feature", "", "value", "sd"), rows, (0, 1))


def ledger_tables(view: View) -> Iterator[Table]:
    """Every message; under which rules it went; every field, if there is room; hashes."""
    groups = [
        (site, group) for site, entries in view.ledgers.items() for group in _grouped(entries)
    ]
    rows = [
        (
            site,
            group[0].message,
            listed([entry.recipient for entry in group]),
            count(group[0].n_numbers),
            count(group[0].n_bytes),
            group[0].time[:19].replace("T", " "),
            group[0].sha256[:12],
        )
        for site, group in groups
    ]
    headings = ("site", "message", "to", "numbers", "bytes", "time (UTC)", "SHA-256")
    yield Table("Messages", headings, rows, (0, 1, 2, 5, 6), (2,))
    yield _rules(groups)
    if view.n_fields <= MOST_LISTED:
        yield from _fields(groups)
    hashes = [(site, view.hashes.get(f"ledger of {site}", "—")) for site in view.ledgers]
    yield Table("Hashes of the ledgers", ("site", "SHA-256"), hashes, (0, 1))


def _grouped(entries: Iterable[LedgerEntry]) -> list[list[LedgerEntry]]:
    """The same message to several recipients is one line."""
    groups: dict[tuple[str, str], list[LedgerEntry]] = {}
    for entry in entries:
        groups.setdefault((entry.message, entry.sha256), []).append(entry)
    return list(groups.values())


def _rules(groups: Sequence[tuple[str, list[LedgerEntry]]]) -> Table:
    """Which rules of a site's policy a message has passed, sites with the same ones together."""
    sites: dict[tuple[str, str], list[str]] = {}
    for site, group in groups:
        sites.setdefault((group[0].message, group[0].rules), []).append(site)
    rows = [
        (message, rules or "none on record", listed(names))
        for (message, rules), names in sites.items()
    ]
    return Table("Under which rules", ("message", "rules", "sites"), rows, (0, 1, 2), (1, 2))


def _fields(groups: Sequence[tuple[str, list[LedgerEntry]]]) -> Iterator[Table]:
    """Every field of every message, one table a site."""
    tables: dict[str, list[tuple[str, ...]]] = {}
    for site, (entry, *_) in groups:
        tables.setdefault(site, []).extend(
            (
                entry.message,
                item.name,
                item.numbers,
                count(item.n_bytes),
                item.sha256[:12],
            )
            for item in entry.fields
        )
    headings = ("message", "field", "shape", "bytes", "SHA-256")
    for site, rows in tables.items():
        title = f"Every field that left {site}"
        yield Table(title, headings, rows, (0, 1, 2, 4), printed=False)


def design_table(view: View, version: str) -> Table:
    """Study, versions, seed, hashes.

    Parameters
    ----------
    view : View
    version : str
        Of fedcsa.
    """
    rows = [("study", view.study)]
    if view.plan is not None and view.table is not None:
        rows += _design(view.plan, view.table.n_rows)
        rows.append(("computed by", f"fedcsa {view.made_with}"))
    rows += [(f"SHA-256 of {name}", value) for name, value in view.hashes.items() if "." in name]
    rows.append(("this page", f"fedcsa {version}; it computes nothing and holds no row"))
    return Table("Design", ("", ""), rows, (0, 1), (1,))


def _design(plan: Plan, n_target_rows: int) -> list[tuple[str, str]]:
    classes = [str(label) for label in plan.classes]
    return [
        ("method", f"{plan.titled(plan.method)}, combined by {plan.combine}"),
        ("model", title_of_model(plan.model)),
        ("loss", LOSS_NAMES.get(plan.loss, plan.loss)),
        ("candidates", count(len(plan.candidates)) + (", searched" if plan.space else "")),
        ("features", listed(plan.features, 12)),
        *([("classes", listed(classes, 12))] if classes else []),
        *([("rows of one patient", plan.group)] if plan.group else []),
        ("target", counted(n_target_rows, "row")),
        ("exchange", f"{plan.exchange}, {plan.scheme}, folds {plan.folds}"),
        ("level", percent(plan.level)),
        ("seed", str(plan.seed)),
    ]
