"""The figure of docs/search-evidence.md: how near every search comes, and how optimistic it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from lib.page import Results
from lib.plotting import panels, save

STYLES = {
    "random": {"color": "#999999", "marker": "s", "label": "random"},
    "tpe": {"color": "#009E73", "marker": "P", "label": "Optuna (tpe)"},
    "gp": {"color": "#0072B2", "marker": "D", "label": "Gaussian process"},
}
TITLES = {"logistic": "Stroke, logistic", "tree": "Stroke, tree", "ridge": "Parkinson's, ridge"}


def draw_search(folder: Path, out: Path) -> None:
    """Median gap to the grid's best against the budget, a panel a space.

    Parameters
    ----------
    folder : Path
        Of the tables.
    out : Path
        Where the figure goes.
    """
    results = Results(folder)
    spaces = list(dict.fromkeys(line["space"] for line in results("search_gaps")))
    figure, axes = panels(len(spaces), 3.3, 2.8)
    for axis, space in zip(axes, spaces, strict=True):
        for how, style in STYLES.items():
            lines = results("search_gaps", space=space, search=how)
            budgets = sorted({int(line["budget"]) for line in lines})
            gaps = [
                100.0 * np.mean([float(x["gap_median"]) for x in lines if int(x["budget"]) == b])
                for b in budgets
            ]
            axis.plot(budgets, gaps, lw=1.2, **style)
        axis.axhline(1.0, color="black", lw=0.8, ls=":")
        axis.axhline(0.0, color="black", lw=0.8)
        axis.set_title(TITLES[space])
        axis.set_xlabel("candidates asked for")
        axis.set_xticks(budgets)
    axes[0].set_ylabel("risk above the grid's best, %")
    axes[0].legend(loc="upper right")
    save(figure, out, "search")
