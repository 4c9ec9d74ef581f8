"""The sections about the answer: sources, the paper's methods, candidates, balance, back-test."""

from __future__ import annotations

from fedcsa import words
from fedcsa.answer.charts import forest_plot as sources_chart
from fedcsa.answer.charts import kept_promises as backtest_chart
from fedcsa.answer.charts import love_plot as balance_chart
from fedcsa.answer.charts import risk_curve as risk_chart
from fedcsa.answer.folder import Folder
from fedcsa.answer.page_parts import Section, Table
from fedcsa.answer.sentences import MOST_PRINTED
from fedcsa.answer.svg import inline
from fedcsa.answer.view import candidate_text, source_lines
from fedcsa.target.adaptation import Adaptation
from fedcsa.words import interval, number, percent

#: Lines of the table of all features at all sources; a larger study has them in its result alone.
MOST_DIFFERENCES = 4000


def sources(folder: Folder) -> Section:
    """What every source found, its weight, and how far off it is."""
    a, title = folder.adaptation, "What the sources found"
    found = [] if folder.answer is None else source_lines(folder.answer)
    absent = [(words.printable(name), words.printable(fate)) for name, fate in _absent(folder)]
    if not found:
        table = Table("Sources", ("source", "what became of it"), tuple(absent), (0, 1))
        return Section("sources", "Sources", table=table)
    rows: list[tuple[str, ...]] = [
        (
            words.printable(line.name),
            words.printable(line.found_text),
            line.weight_text,
            words.count(line.n_rows),
            number(line.effective_rows),
            number(line.imbalance),
            "yes" if line.reaches else "no",
        )
        for line in found
    ]
    rows += [(name, fate, *["—"] * 5) for name, fate in absent]
    tones = ("" if line.reaches else "far" for line in found)
    level = percent(folder.answer.plan.level) if folder.answer is not None else ""
    headings = (
        "source", f"risk found ({level})", "weight", "rows", "effective rows", "imbalance",
        "reaches",
    )  # fmt: skip
    table = Table(
        "Sources", headings, tuple(rows), (0, 1, 6), (1,), (*tones, *("far" for _ in absent))
    )
    svg = "" if a is None else inline(sources_chart.draw(a, folder.reconciliation), "sources")
    return Section("sources", title if a else "Sources", svg=svg, table=table)


def _absent(folder: Folder) -> list[tuple[str, str]]:
    """Sources that did not report, and why."""
    reported = set() if folder.answer is None else set(folder.answer.reports)
    fates = dict(folder.fates)
    for item in () if folder.answer is None else folder.answer.findings:
        if item.code == "source-refused":
            fates.setdefault(item.source, f"refused: {item.evidence.get('rule', '')}")
    return sorted((name, fate) for name, fate in fates.items() if name not in reported)


def compared(a: Adaptation) -> Section:
    """The paper's methods, where a study asks for them."""
    rows = tuple(
        (
            method,
            number(float(found.risk[found.chosen])),
            candidate_text(a.plan.candidates[a.kept[found.chosen]]),
            words.listed(
                [
                    f"{name} {percent(weight)}"
                    for name, weight in zip(a.sources, found.source_weights.tolist(), strict=True)
                ]
            ),
        )
        for method, found in a.estimates.items()
    )
    tones = tuple("own" if method == a.plan.method else "" for method in a.estimates)
    headings = ("method", "estimated risk", "chosen", "weights")
    table = Table("Estimates by method", headings, rows, (0, 2, 3), (2, 3), tones)
    return Section("compared", "Beside other methods", table=table)


def candidates(a: Adaptation) -> Section:
    """Risk against the candidates."""
    order = sorted(risk_chart.points(a), key=lambda point: point.risk)
    most = risk_chart.MOST_MARKS
    order = [point for rank, point in enumerate(order) if rank < most or point.chosen]
    rows = tuple(
        (words.printable(candidate_text(p.candidate)), number(p.risk), number(p.error))
        for p in order
    )
    tones = tuple("own" if point.chosen else "" for point in order)
    headings = ("candidate", "risk", "standard error")
    printed = len(rows) <= MOST_PRINTED
    table = Table("Risk of every candidate", headings, rows, tones=tones, printed=printed)
    svg = inline(risk_chart.draw(a), "candidates")
    return Section("candidates", "Risk against the candidates", svg=svg, table=table)


def balance(answer: Adaptation) -> Section:
    """The Love plot."""
    shown = balance_chart.balance(answer)
    every = _every_difference(answer) if balance_chart.hidden(shown) else ()
    headings = ["feature"]
    for line in shown.sources:
        headings += [f"{words.short(line.name)}, before", "after"]
    rows = []
    for index, feature in enumerate(shown.features):
        row = [words.printable(feature)]
        for line in shown.sources:
            row += [number(side[line.name][index]) for side in (shown.before, shown.after)]
        rows.append(tuple(row))
    table = Table("Standardised mean differences", tuple(headings), tuple(rows))
    svg = inline(balance_chart.draw(answer), "balance")
    return Section("balance", "Balance", svg=svg, table=table, folded=every)


def _every_difference(answer: Adaptation) -> tuple[Table, ...]:
    """Those of all features at all sources, if there is room."""
    features, reports = answer.plan.features, answer.reports
    if len(features) * len(reports) > MOST_DIFFERENCES:
        return ()
    rows = tuple(
        (words.printable(name), words.printable(feature), number(before), number(after))
        for name, report in reports.items()
        for feature, before, after in zip(
            features, report.difference_before, report.difference_after, strict=True
        )
    )
    headings = ("source", "feature", "before", "after")
    return (Table("Every feature at every source", headings, rows, (0, 1), printed=False),)


def backtest(a: Adaptation) -> Section:
    """What was promised to every source that played the target."""
    found = a.backtest
    if found is None:
        return Section("backtest", "Back-test")
    order = backtest_chart.ordered(found)
    rows = tuple(
        (
            words.printable(row.source),
            words.count(row.n_rows),
            number(row.promised),
            interval(row.lower, row.upper),
            backtest_chart.realised(row, found.level),
            number(row.reference),
            backtest_chart.outcome(row, found.level),
            words.printable(row.status),
        )
        for row in order
    )
    headings = (
        "source", "rows", "promised", "for a new site", "realised", "own model", "promise",
        "verdict",
    )  # fmt: skip
    tones = tuple("far" if row.kept(found.level) is False else "" for row in order)
    table = Table("Each source as the target", headings, rows, (0, 6, 7), tones=tones)
    svg = inline(backtest_chart.draw(found), "backtest")
    return Section("backtest", "Back-test", svg=svg, table=table)
