"""The sections about the answer: sources, the paper's methods, candidates, balance, back-test."""

from __future__ import annotations

from fedcsa.findings import number, percent
from fedcsa.report import words
from fedcsa.report.charts import backtest as backtest_chart
from fedcsa.report.charts import balance as balance_chart
from fedcsa.report.charts import risk as risk_chart
from fedcsa.report.charts import sources as sources_chart
from fedcsa.report.folder import Folder
from fedcsa.report.model import Section, Table
from fedcsa.report.sentences import MOST_PRINTED, said
from fedcsa.report.svg import inline
from fedcsa.roles.adaptation import Adaptation
from fedcsa.roles.ending import Ending
from fedcsa.roles.view import candidate_text, interval, source_lines

#: Lines of the table of all features at all sources; a larger study has them in its result alone.
MOST_DIFFERENCES = 4000


def texts(section: str, folder: Folder) -> tuple[str, ...]:
    """The sentences of a section.

    Parameters
    ----------
    section : str
    folder : Folder
    """
    return tuple(text for _, text in said(section, folder))


def sources(folder: Folder) -> Section:
    """What every source found, its weight, and how far off it is."""
    a, title = folder.adaptation, "What the sources found"
    found = [] if folder.answer is None else source_lines(folder.answer)
    absent = [(words.clean(name), words.clean(fate)) for name, fate in _absent(folder)]
    told = texts("sources", folder)
    if not found:
        table = Table("Sources", ("source", "what became of it"), tuple(absent), (0, 1))
        return Section("sources", "Sources", told, table=table)
    rows: list[tuple[str, ...]] = [
        (
            words.clean(line.name),
            words.clean(line.found_text),
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
    return Section("sources", title if a else "Sources", told, svg, table)


def _absent(folder: Folder) -> list[tuple[str, str]]:
    """Sources that did not report, and why."""
    reported = set() if folder.answer is None else set(folder.answer.reports)
    fates = dict(folder.fates)
    for item in () if folder.answer is None else folder.answer.findings:
        if item.code == "source-refused":
            fates.setdefault(item.source, f"refused: {item.evidence.get('rule', '')}")
    return sorted((name, fate) for name, fate in fates.items() if name not in reported)


def compared(folder: Folder, a: Adaptation) -> Section:
    """The paper's methods, where a study asks for them.

    Parameters
    ----------
    folder : Folder
    a : Adaptation
    """
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
    return Section("compared", "Beside other methods", texts("compared", folder), table=table)


def candidates(folder: Folder, a: Adaptation) -> Section:
    """Risk against the candidates.

    Parameters
    ----------
    folder : Folder
    a : Adaptation
    """
    order = sorted(risk_chart.points(a), key=lambda point: point.risk)
    most = risk_chart.MOST_MARKS
    order = [point for rank, point in enumerate(order) if rank < most or point.chosen]
    rows = tuple(
        (words.clean(candidate_text(p.candidate)), number(p.risk), words.known(p.error))
        for p in order
    )
    tones = tuple("own" if point.chosen else "" for point in order)
    headings = ("candidate", "risk", "standard error")
    printed = len(rows) <= MOST_PRINTED
    table = Table("Risk of every candidate", headings, rows, tones=tones, printed=printed)
    svg = inline(risk_chart.draw(a), "candidates")
    told = texts("candidates", folder)
    return Section("candidates", "Risk against the candidates", told, svg, table)


def balance(folder: Folder, answer: Adaptation | Ending) -> Section:
    """The Love plot.

    Parameters
    ----------
    folder : Folder
    answer : Adaptation or Ending
    """
    shown = balance_chart.balance(answer)
    every = _every_difference(answer) if balance_chart.hidden(shown) else ()
    headings = ["feature"]
    for line in shown.sources:
        headings += [f"{words.short(line.name)}, before", "after"]
    rows = []
    for index, feature in enumerate(shown.features):
        row = [words.clean(feature)]
        for line in shown.sources:
            row += [number(side[line.name][index]) for side in (shown.before, shown.after)]
        rows.append(tuple(row))
    table = Table("Standardised mean differences", tuple(headings), tuple(rows))
    svg = inline(balance_chart.draw(answer), "balance")
    return Section("balance", "Balance", texts("balance", folder), svg, table, every)


def _every_difference(answer: Adaptation | Ending) -> tuple[Table, ...]:
    """Those of all features at all sources, if there is room."""
    features, reports = answer.plan.features, answer.reports
    if len(features) * len(reports) > MOST_DIFFERENCES:
        return ()
    rows = tuple(
        (words.clean(name), words.clean(feature), number(before), number(after))
        for name, report in reports.items()
        for feature, before, after in zip(
            features, report.difference_before, report.difference_after, strict=True
        )
    )
    headings = ("source", "feature", "before", "after")
    return (Table("Every feature at every source", headings, rows, (0, 1), printed=False),)


def backtest(folder: Folder, a: Adaptation) -> Section:
    """What was promised to every source that played the target.

    Parameters
    ----------
    folder : Folder
    a : Adaptation
    """
    title, told, found = "Back-test", texts("backtest", folder), a.backtest
    if found is None:
        return Section("backtest", title, told)
    order = backtest_chart.ordered(found)
    rows = tuple(
        (
            words.clean(row.source),
            words.count(row.n_rows),
            words.known(row.promised),
            interval(row.lower, row.upper),
            backtest_chart.realised(row, found.level),
            words.known(row.reference),
            backtest_chart.outcome(row, found.level),
            words.clean(row.status),
        )
        for row in order
    )
    headings = (
        "source", "rows", "promised", "for a new site", "realised", "own model", "promise",
        "verdict",
    )  # fmt: skip
    tones = tuple("far" if row.kept(found.level) is False else "" for row in order)
    table = Table("Each source as the target", headings, rows, (0, 6, 7), tones=tones)
    return Section("backtest", title, told, inline(backtest_chart.draw(found), "backtest"), table)
