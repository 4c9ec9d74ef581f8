"""The figures of the pages: drawn from kept results, or by an example, whenever docs are built."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

ROOT = Path(__file__).resolve().parents[1]
#: Where the pages look for figures; not kept.
FIGURES = ROOT / "docs" / "generated" / "figures"


def draw_results(_: Any) -> None:
    """Draw the results of the experiments and of the benchmarks."""
    sys.path[:0] = [str(ROOT), str(ROOT / "experiments")]
    from benchmarks.bars import Results
    from benchmarks.harness import RESULTS as TIMES
    from benchmarks.plots import draw
    from lib.common import RESULTS
    from lib.paper_figures import draw_all
    from lib.search_figures import draw_search

    draw_all(RESULTS, FIGURES)
    draw_search(RESULTS, FIGURES)
    draw(Results(TIMES), FIGURES)


def keep(_: Any, block: dict[str, Any], gallery: dict[str, Any]) -> str:
    """Save the figure with which a block of an example ends; pyplot does not know it."""
    names = block["example_globals"]
    figure = names.get("___")  # the block's last value
    figure = getattr(figure, "figure_", figure)
    if not isinstance(figure, Figure):
        return ""
    names["___"] = None  # shown once, and not printed besides
    path = next(block["image_path_iterator"])
    figure.savefig(path, dpi=150)
    return str(figure_rst([path], gallery["src_dir"]))
