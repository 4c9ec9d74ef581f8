"""Figures that come out the same, byte for byte, on one machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

#: Okabe and Ito's palette, which colour-blind readers can tell apart; markers differ as well.
STYLES: dict[str, dict[str, Any]] = {
    "naive": {"color": "#999999", "marker": "s", "label": "Naive"},
    "fediwe": {"color": "#E69F00", "marker": "^", "label": "FedIW"},
    "feddae": {"color": "#D55E00", "marker": "o", "label": "FedDA"},
    "reference": {"color": "#0072B2", "marker": "D", "label": "Reference"},
    "default": {"color": "#009E73", "marker": "P", "label": "default"},
    "pooled": {"color": "#CC79A7", "marker": "X", "label": "pooled (not allowed)"},
    "constant": {"color": "#000000", "marker": "_", "label": "constant"},
}

_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "fedcsa",
    "svg.fonttype": "path",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "figure.dpi": 110,
    "lines.markersize": 4.5,
}


def panels(n: int, width: float, height: float, **more: Any) -> tuple[Figure, Any]:
    """A figure with `n` panels side by side."""
    plt.rcParams.update(_SETTINGS)
    figure, axes = plt.subplots(
        1, n, figsize=(width * n, height), layout="constrained", squeeze=False, **more
    )
    return figure, axes[0]


def save(figure: Figure, folder: Path, name: str) -> None:
    """Save it as SVG, without a date or a version inside."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
