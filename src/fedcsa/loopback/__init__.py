"""Pages on this machine alone: mappings of addresses to views, kept safe in one place, `pages`."""

from __future__ import annotations

import importlib.util

from fedcsa.errors import MissingExtraError


def require_page() -> None:
    """Raise a `MissingExtraError` unless what serves a page is installed."""
    for package in ("starlette", "uvicorn"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError(package, "page", "A page")
