"""The answer as one HTML file: which sections it has, in which order."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from markupsafe import Markup

from fedcsa.answer import result_tables
from fedcsa.answer.charts.calibration_plot import draw_calibration
from fedcsa.answer.charts.decision_plot import draw_decision_curve
from fedcsa.answer.charts.forest_plot import draw_forest_plots
from fedcsa.answer.charts.kept_promises import draw_kept_promises
from fedcsa.answer.charts.love_plot import draw_love_plot
from fedcsa.answer.charts.over_time import draw_over_time
from fedcsa.answer.charts.risk_curve import draw_risk_curve, draw_search
from fedcsa.answer.checklists import (
    card_markdown,
    card_table,
    checklist_tables,
    checklists_markdown,
    summary_table,
)
from fedcsa.answer.csv_tables import write_csv_tables
from fedcsa.answer.forests import ForestPlot, drawn, first_forest, source_forest, subgroup_forests
from fedcsa.answer.result_tables import Table
from fedcsa.answer.sentences import SECTIONS, about_left_out, by_kind, said, target_words
from fedcsa.answer.store import CARD_FILE, CHECKLISTS_FILE, TABLES_FOLDER
from fedcsa.answer.svg import inline
from fedcsa.answer.templates import page_asset, templates
from fedcsa.answer.view import View, view_of
from fedcsa.words import counted, printable

REPORT = "report.html"
VERSION = version("fedcsa")


@dataclass(frozen=True)
class PageSection:
    """A heading, a chart, the same as a table, and more tables; the sentences follow its name."""

    name: str
    title: str
    svg: str = ""
    table: Table | None = None
    folded: tuple[Table, ...] = ()


def write_report(folder: str | Path, out: str | Path | None = None) -> Path:
    """Write the report of a result folder: one file that needs nothing else.

    The model card, the checklists and the tables go into the result folder.

    Parameters
    ----------
    folder : path
        A result folder; its models are not needed.
    out : path, optional
        By default ``report.html`` in the folder.
    """
    folder = Path(folder)
    view = view_of(folder)
    (folder / CARD_FILE).write_text(card_markdown(view), encoding="utf-8")
    (folder / CHECKLISTS_FILE).write_text(checklists_markdown(view), encoding="utf-8")
    write_csv_tables(view, folder / TABLES_FOLDER)
    text = render(view)
    path = folder / REPORT if out is None else Path(out)
    path.write_text(text, encoding="utf-8")
    return path


def sections(view: View) -> Iterator[PageSection]:
    """The sections of the page, in their order."""
    yield from _came(view)
    yield from _measured(view)
    svg = _forests([source_forest(view, item) for item in drawn(view)], "sources")
    title = "What the sources found" if view.has_model else "Sources"
    yield PageSection("sources", title, svg, result_tables.source_table(view))
    if view.findings:
        yield PageSection("findings", "Findings")
    if len(view.methods) > 1:
        yield PageSection(
            "compared", "Beside other methods", table=result_tables.method_table(view)
        )
    yield from _made(view)
    sent, *folded = result_tables.ledger_tables(view) if view.ledgers else (None,)
    told = (*result_tables.told_table(view), *folded)
    yield PageSection("ledger", "What left each site", table=sent, folded=told)
    yield PageSection("card", "Model card", table=card_table(view))
    lists = tuple(checklist_tables(view))
    yield PageSection("checklists", "Checklists", table=summary_table(view), folded=lists)
    yield PageSection("making", "How it was made", table=result_tables.design_table(view, VERSION))


def _came(view: View) -> Iterator[PageSection]:
    """What outcomes have changed since, and how it came over time."""
    if view.came is None:
        return
    svg = inline(draw_over_time(view.came), "outcomes")
    table = result_tables.update_table(view.came)
    folded = (result_tables.path_table(view.came),)
    yield PageSection("outcomes", "With outcomes from here", svg, table, folded)


def _measured(view: View) -> Iterator[PageSection]:
    """How good it is: measures, calibration, decisions, subgroups, as far as they are known."""
    if len(view.everybody) > 1:
        details = tuple(result_tables.measure_details(view))
        table = result_tables.measure_table(view)
        yield PageSection("measures", "How good it is", table=table, folded=details)
    if view.calibration:
        svg = inline(draw_calibration(view), "calibration")
        told = view.recalibration
        corrected = None if told is None else result_tables.recalibration_table(told)
        yield PageSection("calibration", "Calibration", svg, corrected)
    if view.decision_curve is not None:
        declared = () if view.plan is None else view.plan.thresholds
        svg = inline(draw_decision_curve(view.decision_curve, declared), "decision")
        yield PageSection("decision", "Is it worth acting on?", svg)
    if view.subgroups:
        svg = _forests(list(subgroup_forests(view)), "subgroups")
        table, every = result_tables.subgroup_table(view), result_tables.every_subgroup_table(view)
        yield PageSection("subgroups", "For whom", svg, table, (every,))


def _made(view: View) -> Iterator[PageSection]:
    """How the answer came about: balance, back-test, candidates."""
    if view.sources:
        svg = inline(draw_love_plot(view), "balance")
        yield PageSection("balance", "Balance", svg, result_tables.balance_table(view))
    if view.backtest is not None:
        svg = inline(draw_kept_promises(view.backtest), "backtest")
        table = result_tables.backtest_table(view.backtest, view.risk_name)
        told = result_tables.played_measures_table(view.backtest)
        folded = (told,) if told.rows else ()
        yield PageSection("backtest", "Back-test", svg, table, folded)
    elif view.has_model:
        yield PageSection("backtest", "Back-test")
    if view.points:
        svg = inline(draw_risk_curve(view), "candidates")
        title = "Risk against the candidates"
        yield PageSection("candidates", title, svg, result_tables.candidate_table(view))
    if view.points and view.round_ends:
        svg = inline(draw_search(view), "search")
        yield PageSection("search", "The search", svg, folded=(result_tables.search_table(view),))


def _forests(forests: Sequence[ForestPlot], name: str, *, small: bool = False) -> str:
    """ForestPlot plots as part of the page; nothing if there are none."""
    return inline(draw_forest_plots(forests, small=small), name) if forests else ""


def render(view: View) -> str:
    """The page as text."""
    style, script = (page_asset("fedcsa.answer", name) for name in ("style.css", "script.js"))
    advice, word, sign = view.heading
    first = [] if view.headline is None else [first_forest(view, view.headline)]
    return (
        templates()
        .get_template("fedcsa.answer:page.html.jinja")
        .render(
            title=printable(view.study),
            subtitle=subtitle(view),
            advice=advice,
            word=word,
            sign=sign,
            picture=_forests(first, "first", small=True),
            legs=view.legs,
            said={name: said(name, view) for name in SECTIONS},
            sections=tuple(sections(view)),
            reasons=by_kind([item for item in view.findings if item not in view.apart]),
            apart=about_left_out(view.apart) if view.apart else "",
            reasons_apart=by_kind(view.apart),
            method="" if view.plan is None else view.plan.method,
            style=Markup(style),  # noqa: S704 - files of this package
            script=Markup(script),  # noqa: S704
            policy=_policy(style, script),
            version=VERSION,
        )
    )


def subtitle(view: View) -> str:
    """What was judged, if anything, where, and by how many."""
    if view.table is None:
        return "A study over a federation"
    told = f"{target_words(view)}; {counted(len(view.sources), 'source')} with outcomes answered."
    if not view.is_given:
        return told[0].upper() + told[1:]
    return printable(f"Judged: {view.given_title}, at {told}")


def _policy(style: str, script: str) -> str:
    """No request to anywhere; the one style sheet and the one script, by their hashes."""
    return (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
