"""The sections about the answer: risk, candidates, sources, balance, back-test."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fedcsa.models.base import RATIO_POWER
from fedcsa.report import words
from fedcsa.report.charts import backtest as backtest_chart
from fedcsa.report.charts import balance as balance_chart
from fedcsa.report.charts import estimates as estimates_chart
from fedcsa.report.charts import risk as risk_chart
from fedcsa.report.charts import sources as sources_chart
from fedcsa.report.folder import Folder
from fedcsa.report.model import Section, Table
from fedcsa.report.svg import inline

Content = Mapping[str, Any]
_MEANING = {
    "own": "{method}, chosen {chosen}",
    "realised": "on {rows} whose outcomes arrived later: {conclusion}",
    "naive": "the average of the sources' risks, as if nothing had shifted",
    "fediwe": "the paper's importance-weighted estimate",
    "feddae": "the paper's divergence-adjusted estimate",
    "fedle": "the paper's estimate with the weights that the study gives",
    "constant predictor": "predicting the sources' mean for everybody",
    "if p(y|x) is shared": "if all disagreement of the models is chance",
    "if p(y|x) differs by site": "if all disagreement of the models is real",
    "weighted by rows": "models weighted by their numbers of rows instead",
}
#: Lines of the table of all features at all sources; a larger study has them in its result alone.
MOST_DIFFERENCES = 4000
#: Candidates in a table that is worth its paper.
MOST_PRINTED = 100


def risk(folder: Folder) -> Section:
    """How well the model will do, beside what it can be compared with."""
    content = folder.content
    name, unit = words.loss(content["plan"]["loss"])
    found = estimates_chart.yardsticks(content, folder.reconciliation)
    rows = [
        (
            item.name,
            words.number(item.risk),
            words.interval(item.lower, item.upper),
            _said(item, folder),
        )
        for item in found
    ]
    table = Table(
        "Risk at the target", ("", "risk", "interval", "what it is"), tuple(rows), (0, 3), (3,),
        tuple(item.kind if item.kind != "other" else "" for item in found),
    )  # fmt: skip
    sentences = [f"Risk is the {name}, {unit}."]
    if content["plan"]["loss"] == "squared":
        sentences.append(_root(content))
    if content["risk"] is None:
        sentences.append("The study's method gives neither an interval nor a verdict.")
    elif content["interval"] is None:
        sentences.append("There is no interval for this result.")
    elif content["risk"]["kind"] == "bound":
        sentences.append(
            "For this loss only a bound is known: the estimate is its largest value, and the "
            "interval adds the uncertainty of the estimate."
        )
    if estimates_chart.disagree(content) and content["risk"]["if_shared"] is None:
        why = words.unknown_if_shared(content["plan"]["combine"])
        sentences.append(f"The risk if p(y|x) is shared is {why}.")
    sentences.append(
        "All methods are given this study's messages and candidates; run by themselves, those of "
        "the paper divide the rows otherwise and may say something else."
    )
    own, constant = found[0].risk, found[-1].risk
    if own >= constant:
        sentences.append("A constant prediction is expected to do no worse than the model.")
    svg = inline(estimates_chart.draw(content, folder.reconciliation), "estimates")
    return Section("risk", "Risk at the target", tuple(sentences), svg, table)


def _said(item: estimates_chart.Yardstick, folder: Folder) -> str:
    content, told = folder.content, folder.reconciliation or {}
    key = item.kind if item.kind != "other" else item.name.removesuffix(", at most")
    conclusion = str(told.get("conclusion", ""))
    if conclusion == "no interval" and "reason" in told:
        conclusion += f", because {words.clean(told['reason'])}"
    return _MEANING[key].format(
        method=words.clean(content["method"]),
        chosen=words.candidate(content["candidate"]),
        rows=words.counted(told.get("n_rows", 0), "row"),
        conclusion=conclusion,
    )


def _root(content: Content) -> str:
    text = f"Its square root, {words.number(math.sqrt(max(content['target_risk'], 0.0)))}"
    if content["interval"] is not None:
        lower, upper = (math.sqrt(max(value, 0.0)) for value in content["interval"])
        text += f" ({words.interval(lower, upper)})"
    return f"{text}, is in units of the outcome."


def candidates(content: Content) -> Section:
    """Risk against the candidates."""
    points = risk_chart.points(content)
    chosen = words.candidate(content["candidate"])
    sentences = [f"{words.counted(len(points), 'candidate')} tried; chosen: {chosen}."]
    if risk_chart.at_edge(content):
        sentences.append("The choice lies at the edge of the grid: widen it in that direction.")
    dropped = len(content["plan"]["candidates"]) - len(points)
    if dropped:
        sentences.append(f"{words.counted(dropped, 'candidate')} could not be fitted everywhere.")
    if points[0].error is not None:
        sentences.append("The band is one standard error to either side.")
    if content["risk"] is not None:
        sentences.append(
            "This is the average risk of the sources' single models; the risk above is that of "
            "their mixture."
        )
    if content["method"] == "guarded" and any(RATIO_POWER in point.candidate for point in points):
        sentences.append(
            "Training weights r^γ, with γ the ratio_power, must be better by γ/2 standard errors "
            "to be chosen."
        )
    order = sorted(points, key=lambda point: point.risk)
    if len(order) > risk_chart.MOST_MARKS:
        order = [p for rank, p in enumerate(order) if rank < risk_chart.MOST_MARKS or p.chosen]
        sentences.append(f"The best {words.count(risk_chart.MOST_MARKS)} are in the table.")
    rows = tuple(
        (words.candidate(point.candidate), words.number(point.risk), words.number(point.error))
        for point in order
    )
    tones = tuple("own" if point.chosen else "" for point in order)
    headings = ("candidate", "risk", "standard error")
    printed = len(rows) <= MOST_PRINTED
    if not printed:
        sentences.append("A print leaves out their table.")
    table = Table("Risk of every candidate", headings, rows, tones=tones, printed=printed)
    svg = inline(risk_chart.draw(content), "candidates")
    return Section("candidates", "Risk against the candidates", tuple(sentences), svg, table)


def sources(folder: Folder) -> Section:
    """Who answered, with which weight, and how far off."""
    found = sources_chart.lines(folder.content) if folder.content else []
    absent = [(words.clean(name), words.clean(fate)) for name, fate in _absent(folder)]
    if not found:
        told = Table("Sources", ("source", "what became of it"), tuple(absent), (0, 1))
        return Section("sources", "Sources", ("There are no numbers of theirs here.",), table=told)
    sentences = [
        "Effective rows are those that carry the weight.",
        "The mean ratio must be near 1.",
        "Imbalance is the mean squared difference of means after weighting, in the target's SDs.",
        "Above 1 a source does not reach the target.",
    ]
    hidden = len(found) - len(sources_chart.those_that_matter(found))
    if hidden:
        text = "The chart shows the heaviest and the farthest; {} are in the table alone."
        sentences.append(text.format(words.counted(hidden, "source")))
    rows = [
        (
            words.clean(line.name),
            "—" if line.weight is None else words.percent(line.weight),
            words.count(line.n_rows),
            words.number(line.effective_rows),
            words.number(line.mean_ratio),
            words.number(line.imbalance),
            ", ".join(line.codes),
        )
        for line in found
    ]
    rows += [(name, "—", "—", "—", "—", "—", fate) for name, fate in absent]
    tones = ("far" if line.far else "" for line in found)
    headings = ("source", "weight", "rows", "effective rows", "mean ratio", "imbalance", "findings")
    table = Table(
        "Sources", headings, tuple(rows), (0, 6), (6,), (*tones, *("far" for _ in absent))
    )
    svg = inline(sources_chart.draw(folder.content), "sources")
    return Section("sources", "Sources", tuple(sentences), svg, table)


def _absent(folder: Folder) -> list[tuple[str, str]]:
    """Sources that did not report, and why."""
    reported = set(folder.content.get("reports", ()))
    fates = dict(folder.fates)
    for item in folder.content.get("findings", ()):
        if item["code"] == "source-refused":
            fates.setdefault(item["source"], f"refused: {item['evidence'].get('rule', '')}")
    return sorted((name, fate) for name, fate in fates.items() if name not in reported)


def balance(content: Content) -> Section:
    """The Love plot."""
    shown = balance_chart.balance(content)
    sentences = [
        "Differences of means between source and target, in the target's standard deviations.",
        "Within ±0.25 is the usual bound for balance.",
    ]
    hidden = balance_chart.hidden(shown)
    every = _every_difference(content) if hidden else ()
    if hidden:
        sentences.append(f"The largest differences before weighting are shown; {hidden}")
    if every:
        sentences.append("The folded table has them all.")
    headings = ["feature"]
    for line in shown.sources:
        headings += [f"{words.short(line.name)}, before", "after"]
    rows = []
    for index, feature in enumerate(shown.features):
        row = [words.clean(feature)]
        for line in shown.sources:
            row += [words.number(side[line.name][index]) for side in (shown.before, shown.after)]
        rows.append(tuple(row))
    table = Table("Standardised mean differences", tuple(headings), tuple(rows))
    svg = inline(balance_chart.draw(content), "balance")
    return Section("balance", "Balance", tuple(sentences), svg, table, every)


def _every_difference(content: Content) -> tuple[Table, ...]:
    """Those of all features at all sources, if there is room."""
    features, reports = content["plan"]["features"], content["reports"]
    if len(features) * len(reports) > MOST_DIFFERENCES:
        return ()
    rows = tuple(
        (words.clean(name), words.clean(feature), words.number(before), words.number(after))
        for name, report in reports.items()
        for feature, before, after in zip(
            features, report["difference_before"], report["difference_after"], strict=True
        )
    )
    headings = ("source", "feature", "before", "after")
    return (Table("Every feature at every source", headings, rows, (0, 1), printed=False),)


def backtest(content: Content) -> Section:
    """What was promised to every source that played the target."""
    found = content["backtest"]
    if found is None:
        text = "No back-test was run. It is the only available check that p(y|x) is shared."
        return Section("backtest", "Back-test", (text,))
    told = words.clean(found["sentence"])
    sentences = [f"{told[0].upper()}{told[1:]}."]
    judged = [row["kept"] for row in found["rows"] if row["kept"] is not None]
    if judged:
        kept = f"{sum(judged)} of {words.counted(len(judged), 'promise')}"
        sentences.append(f"Kept, if the outcomes' own chance is allowed for: {kept}.")
    for key, told in (
        ("coverage", "{} of the intervals hold the realised risk"),
        ("calibration", "promised over realised risk is {} on average"),
        ("regret", "realised risk is {} times that of a site's own model"),
    ):
        if found[key] is not None:
            number = f"{found[key]:.0%}" if key == "coverage" else words.number(found[key])
            text = told.format(number)
            sentences.append(f"{text[0].upper()}{text[1:]}.")
    order = backtest_chart.ordered(content)
    hidden = len(order) - backtest_chart.MOST_ROWS
    if hidden > 0:
        sentences.append(f"{words.counted(hidden, 'source')} are in the table alone.")
    rows = tuple(
        (
            words.clean(row["source"]),
            words.count(row["n_rows"]),
            words.number(row["promised"]),
            words.interval(row["lower"], row["upper"]),
            backtest_chart.realised(row),
            words.number(row["reference"]),
            backtest_chart.outcome(row),
            words.clean(row["status"]),
        )
        for row in order
    )
    headings = (
        "source",
        "rows",
        "promised",
        "interval",
        "realised",
        "own model",
        "promise",
        "status",
    )
    tones = tuple("far" if backtest_chart.outcome(row) == "broken" else "" for row in order)
    table = Table("Each source as the target", headings, rows, (0, 6, 7), tones=tones)
    svg = inline(backtest_chart.draw(content), "backtest")
    return Section("backtest", "Back-test", tuple(sentences), svg, table)
