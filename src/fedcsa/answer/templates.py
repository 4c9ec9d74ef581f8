"""Templates of pages: every text that comes from elsewhere is escaped."""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2


@functools.cache
def templates() -> jinja2.Environment:
    """The one environment of all pages; a template is named ``"package:file"``."""
    import jinja2

    return jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FunctionLoader(lambda name: page_asset(*name.split(":", 1))),
    )


def page_asset(package: str, name: str) -> str:
    """The content of a file of this program that a page is made of.

    Parameters
    ----------
    package : str
        In which the file lies, such as ``"fedcsa.answer"``.
    name : str
        Of the file.
    """
    return files(package).joinpath(name).read_text(encoding="utf-8")
