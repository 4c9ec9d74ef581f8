import os
import sys
from pathlib import Path

from fedcsa import __version__

# Before numpy is loaded: threads only cost on tables as small as those of the examples.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

sys.path.insert(0, str(Path(__file__).parent))  # for drawings.py and tree.py

project = "fedcsa"
author = "The fedcsa developers"
copyright = "2026, the fedcsa developers"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
    "numpydoc",
]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "generated/tree.md"]  # the tree is part of architecture.md
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
default_role = "py:obj"
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_title = f"fedcsa {release}"
nitpicky = False

sphinx_gallery_conf = {
    "examples_dirs": ["../examples/gallery"],
    "gallery_dirs": ["generated/gallery"],
    "image_scrapers": ("matplotlib", "drawings.keep"),
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "min_reported_time": 1e9,  # how long a page took says nothing to a reader
    "remove_config_comments": True,
}


def setup(app):
    from drawings import draw_results
    from tree import write_tree

    app.connect("builder-inited", draw_results)
    app.connect("builder-inited", write_tree)
