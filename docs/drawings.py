"""Let the build keep the charts of fedcsa that an example draws: pyplot does not know them."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst


def keep(_: Any, block: dict[str, Any], gallery: dict[str, Any]) -> str:
    """Save the figure with which a block of an example ends, and show it there."""
    names = block["example_globals"]
    figure = names.get("___")  # the block's last value
    if not isinstance(figure, Figure):
        return ""
    names["___"] = None  # shown once, and not printed besides
    path = next(block["image_path_iterator"])
    figure.savefig(path, dpi=150)
    return str(figure_rst([path], gallery["src_dir"]))
