"""Log-log plots of the results, with fitted exponents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bars import Results
from benchmarks.harness import exponent


@dataclass(frozen=True)
class Curve:
    """One line of a log-log plot."""

    label: str
    sizes: Sequence[float]
    values: Sequence[float]


def curves(lines: Iterable[dict[str, str]], size: str, value: str, label: str) -> list[Curve]:
    """Lines of a table as curves, one for every value of the column `label`."""
    grouped: dict[str, list[tuple[float, float]]] = {}
    for line in lines:
        grouped.setdefault(line[label], []).append((float(line[size]), float(line[value])))
    return [Curve(key, *zip(*sorted(pairs), strict=True)) for key, pairs in grouped.items()]


def plots(results: Results) -> dict[str, tuple[str, list[Curve]]]:
    """File -> label of the horizontal axis, and curves."""
    others = [line for line in results("peers") if line["version"]]
    by_candidates = [
        {**line, "curve": f"{line['what']}, {line['candidates']} candidates"}
        for line in results("source", blas_threads="1")
    ]
    by_sources = [line for line in results("target") if line["varied"] == "sources"]
    by_count = [line for line in results("target") if line["varied"] == "candidates"]
    return {
        "bench-ratio": (
            "rows a side",
            curves(results("ratio", blas_threads="1"), "rows", "cpu_seconds", "what")
            + curves(others, "rows", "cpu_seconds", "what"),
        ),
        "bench-source": (
            "rows of a source",
            curves(by_candidates, "rows", "cpu_seconds", "curve")
            + curves(results("stream"), "rows", "seconds", "kind"),
        ),
        "bench-sources": ("sources", curves(by_sources, "sources", "seconds", "varied")),
        "bench-candidates": ("candidates", curves(by_count, "candidates", "seconds", "varied")),
    }


def draw(results: Results, folder: Path) -> None:
    """Every plot as an SVG file, the same bytes for the same results."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    style = {"svg.hashsalt": "fedcsa", "svg.fonttype": "none", "font.size": 9}
    for name, (axis, lines) in plots(results).items():
        if not lines:
            continue
        with pyplot.rc_context(style):
            figure, axes = pyplot.subplots(figsize=(5.0, 3.2), layout="constrained")
            for curve in lines:
                slope = exponent(curve.sizes, curve.values) if len(curve.sizes) > 1 else None
                told = curve.label if slope is None else f"{curve.label} (exponent {slope:.2f})"
                axes.loglog(curve.sizes, curve.values, marker="o", label=told)
            axes.set_xlabel(axis)
            axes.set_ylabel("seconds of work")
            axes.grid(True, which="major", alpha=0.3)
            axes.legend(frameon=False)
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
            pyplot.close(figure)
