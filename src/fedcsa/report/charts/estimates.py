"""The risk beside its yardsticks: other methods, a constant, and what came true."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl

from fedcsa.report import words
from fedcsa.report.charts.base import ACCENT, FAINT, INK, MUTED, STYLE, Chart, height_of, names_down


@dataclass(frozen=True)
class Yardstick:
    """One risk with its interval, where it has one."""

    name: str
    risk: float
    lower: float | None = None
    upper: float | None = None
    kind: str = "other"  # "own", "realised" or "other"

    @property
    def text(self) -> str:
        """Name and numbers in words."""
        between = "" if self.lower is None else f", {words.interval(self.lower, self.upper)}"
        return f"{self.name}: {words.number(self.risk)}{between}"


def yardsticks(
    content: Mapping[str, Any], reconciliation: Mapping[str, Any] | None
) -> list[Yardstick]:
    """The study's own estimate first, then what came true, then the others."""
    method = content["method"]
    lower, upper = content["interval"] or (None, None)
    own, rows = "this estimate", "weighted by rows"
    risk = content["risk"]
    if risk is not None and risk["kind"] == "bound":
        own, rows = f"{own}, at most", f"{rows}, at most"
    found = [Yardstick(own, content["target_risk"], lower, upper, "own")]
    if reconciliation is not None:
        r = reconciliation
        found.append(Yardstick("realised", r["realised"], r["lower"], r["upper"], "realised"))
    if disagree(content):
        if risk["if_shared"] is not None:
            found.append(Yardstick("if p(y|x) is shared", risk["if_shared"]))
        found.append(Yardstick("if p(y|x) differs by site", risk["worst"]))
        found.append(Yardstick(rows, content["by_rows"]["risk"]))
    others = [name for name in ("naive", "fediwe", "feddae", "fedle") if name != method]
    for name in others:
        if name in content["estimates"]:
            found.append(Yardstick(name, content["estimates"][name]["target_risk"]))
    return [*found, Yardstick("constant predictor", content["constant_risks"][method])]


def disagree(content: Mapping[str, Any]) -> bool:
    """Whether the sources' models contradict each other, so that the risk has several readings."""
    risk = content["risk"]
    return bool(risk and content["by_rows"] and risk["status"] == "sources disagree")


@mpl.rc_context(STYLE)
def draw(content: Mapping[str, Any], reconciliation: Mapping[str, Any] | None = None) -> Chart:
    """One line a risk, with its interval."""
    shown = yardsticks(content, reconciliation)
    chart = Chart("Estimated risk beside its yardsticks", height_of(len(shown), 0.6))
    axes = chart.panels[0]
    colours = {"own": ACCENT, "realised": INK, "other": MUTED}
    for y, item in enumerate(shown):
        colour = colours[item.kind]
        if item.lower is not None and item.upper is not None:
            axes.plot([item.lower, item.upper], [y, y], color=colour, linewidth=1.8)
        marker = "D" if item.kind == "realised" else "o"
        chart.dot(axes, item.risk, y, item.text, color=colour, marker=marker)
    names_down(axes, [item.name for item in shown], [colours[item.kind] for item in shown])
    axes.set_xlim(left=min(0.0, *(item.risk for item in shown)))
    axes.grid(axis="x", color=FAINT, linewidth=0.5)
    axes.set_xlabel(f"risk ({words.loss(content['plan']['loss'])[0]})")
    return chart
