from fedcsa import __version__

project = "fedcsa"
author = "The fedcsa developers"
copyright = "2026, the fedcsa developers"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
default_role = "py:obj"
html_theme = "furo"
html_static_path = ["_static"]
html_title = f"fedcsa {release}"
nitpicky = False
