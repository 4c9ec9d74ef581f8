"""The shape of an answer on a terminal: verdict, risk, sources, findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedcsa.cli.common import printable
from fedcsa.findings import ADVICE, left_out, number
from fedcsa.findings import VERDICTS as WORDS
from fedcsa.report.words import about_left_out, unknown_if_shared

if TYPE_CHECKING:
    from fedcsa.core.ensemble import EnsembleRisk
    from fedcsa.findings import Finding
    from fedcsa.roles.adaptation import Adaptation

_STYLES = {"note": "dim", "warning": "yellow", "danger": "bold red"}


def source_table(adaptation: Adaptation) -> Table:
    """Weight and overlap of every source, heaviest first."""
    table = Table(title="Sources", title_justify="left", title_style="bold")
    for heading, justify in (
        ("source", "left"), ("weight", "right"), ("rows", "right"),
        ("effective", "right"), ("mean ratio", "right"), ("imbalance", "right"), ("", "left"),
    ):  # fmt: skip
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    weights = adaptation.source_weights
    for name in sorted(adaptation.reports, key=lambda source: (-weights.get(source, 0.0), source)):
        report = adaptation.reports[name]
        weight = weights.get(name, 0.0)
        imbalance = report.imbalance
        table.add_row(
            Text(printable(name)),
            f"{weight:.1%}",
            f"{report.n_rows}",
            f"{report.effective_rows:.0f} of {report.n_validation}",
            f"{report.ratio_mean:.2f}",
            f"{imbalance:.2f}",
            "█" * round(20 * weight),
        )
    return table


def print_findings(
    screen: Console, findings: Sequence[Finding], weights: Mapping[str, float]
) -> None:
    """One line a finding, gravest first; those against a source without weight come last.

    Parameters
    ----------
    weights : mapping of str to float
        Of the sources.
    """
    without = left_out(weights)
    apart = [item for item in findings if item.source in without and item.severity != "note"]
    others = [item for item in findings if item not in apart]
    if others:
        _print_grid(screen, others)
    if others and apart:
        screen.print()
    if apart:
        title = about_left_out([finding.source for finding in apart])
        screen.print(Text(title))
        _print_grid(screen, apart)


def _print_grid(screen: Console, findings: Sequence[Finding]) -> None:
    order = ("danger", "warning", "note")
    grid = Table.grid(padding=(0, 2))
    for finding in sorted(findings, key=lambda item: order.index(item.severity)):
        grid.add_row(
            Text(finding.severity, style=_STYLES[finding.severity]), Text(printable(str(finding)))
        )
    screen.print(grid)


def candidate_text(candidate: Any) -> str:
    """A candidate as people write it.

    >>> candidate_text({"penalty": 0.1, "ratio_power": 1.0})
    'penalty 0.1, ratio_power 1'
    """
    parts = [
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in candidate.items()
    ]
    return ", ".join(parts) or "as given"


_COLOURS = {"use": "green", "care": "yellow", "no": "red"}
#: status -> (colour, what it means for the reader)
VERDICTS = {
    status: (_COLOURS[advice], f"{ADVICE[advice][0].lower()}: {why}")
    for status, (advice, why) in WORDS.items()
}


def risk_text(adaptation: Adaptation) -> str:
    """The risk with its interval.

    A loss for which only a bound is known says so.
    """
    risk = adaptation.risk
    text = number(adaptation.target_risk) if risk is None else _about(risk)
    if adaptation.interval is not None and risk is not None:
        lower, upper = adaptation.interval
        text += f"  ({risk.level:.0%} interval {number(lower)} to {number(upper)})"
    return text


def _about(risk: EnsembleRisk) -> str:
    return f"{'at most about ' if risk.kind == 'bound' else ''}{number(risk.risk)}"


def print_adaptation(screen: Console, adaptation: Adaptation) -> None:
    """The answer: verdict, risk beside its yardsticks, choice, sources, findings."""
    plan = adaptation.plan
    colour, meaning = VERDICTS[adaptation.status]
    screen.print(Text.assemble((f"{adaptation.status}", f"bold {colour}"), f" — {meaning}\n"))
    rows = [
        ("risk at the target", risk_text(adaptation)),
        ("naive estimate", number(adaptation.naive_risk)),
        ("constant predictor", number(adaptation.constant_risks[plan.method])),
        ("chosen", candidate_text(adaptation.candidate)),
        ("loss, method", f"{plan.loss}, {plan.method}"),
    ]
    rows[1:1] = _readings(adaptation)
    for label, value in rows:
        screen.print(Text.assemble((f"{label:>26}  ", "dim"), value))
    screen.print()
    screen.print(source_table(adaptation))
    if adaptation.findings:
        screen.print(Text("\nFindings", style="bold"))
        print_findings(screen, adaptation.findings, adaptation.source_weights)


def _readings(adaptation: Adaptation) -> list[tuple[str, str]]:
    """What else the risk may be where sources disagree."""
    risk, by_rows = adaptation.risk, adaptation.by_rows
    if risk is None or by_rows is None or risk.status != "sources disagree":
        return []
    shared = unknown_if_shared(adaptation.plan.combine)
    if risk.if_shared is not None:
        shared = number(risk.if_shared)
    return [
        ("if p(y|x) is shared", shared),
        ("if p(y|x) differs by site", number(risk.worst)),
        ("weighted by rows instead", _about(by_rows)),
    ]
