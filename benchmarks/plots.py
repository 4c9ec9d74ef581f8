"""The two plots of the page: every bar, and peers against rows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.bars import BARS, Results


def draw(results: Results, folder: Path) -> None:
    """Every plot that has results, as an SVG file, the same bytes for the same results."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    style = {"svg.hashsalt": "fedcsa", "svg.fonttype": "none", "font.size": 9}
    for name, (size, drawing) in PLOTS.items():
        with pyplot.rc_context(style):
            figure, axes = pyplot.subplots(figsize=size, layout="constrained")
            drawing(axes, results)
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
            pyplot.close(figure)


def _bars(axes: Any, results: Results) -> None:
    """What was measured as a share of what is allowed; the line is the bar."""
    shares = [(bar, bar.measured(results)) for bar in BARS]
    known = [(bar.what, value / bar.limit) for bar, value in shares if value is not None][::-1]
    colours = ["#b2182b" if share > 1.0 else "#2166ac" for _, share in known]
    names = [_short(what) for what, _ in known]
    axes.barh(range(len(known)), [share for _, share in known], color=colours)
    axes.set_yticks(range(len(known)), names, fontsize=7)
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xlabel("measured, as a share of what is allowed")


def _short(what: str) -> str:
    words = what.replace("`", "")
    return words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"


#: Longer names leave no room for the bars.
LONGEST = 60


def _peers(axes: Any, results: Results) -> None:
    lines = results("peers")
    first = lines[0]["family"] if lines else ""
    shown = [x for x in lines if x["family"] == first and x["what"] != "unweighted"]
    for name in dict.fromkeys(x["shown"] for x in shown):
        points = sorted(_points(x for x in shown if x["shown"] == name))
        style = "-" if name.startswith("fedcsa") else "--"
        axes.loglog(*zip(*points, strict=True), style, marker="o", label=name.replace("`", ""))
    axes.set_xlabel("rows a side")
    axes.set_ylabel("CPU seconds")
    axes.grid(True, which="major", alpha=0.3)
    if shown:
        axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _points(lines: Iterable[dict[str, str]]) -> list[tuple[float, float]]:
    return [(float(line["rows"]), float(line["cpu_seconds"])) for line in lines]


#: file -> its size in inches, and what draws it
PLOTS = {"bench-bars": ((7.0, 4.2), _bars), "bench-peers": ((6.5, 3.6), _peers)}
