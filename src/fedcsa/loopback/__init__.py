"""Pages on this machine alone: who may open them, what they load, how they are served.

A page is a mapping of addresses to views; what makes it safe is done once, in `guard`.
"""

from __future__ import annotations

import importlib.util

from fedcsa.errors import MissingExtraError


def require_page() -> None:
    """Raise a `MissingExtraError` unless what serves a page is installed."""
    for package in ("starlette", "uvicorn"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError(package, "page", "A page")
