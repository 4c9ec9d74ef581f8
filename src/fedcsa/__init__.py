"""Federated covariate shift adaptation.

A site without outcomes learns which model to use and how well it will do there, from sites that
have outcomes and never share a row. Start with `FedCSA`; the public names are in `__init__.pyi`.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"


def _homes() -> dict[str, str]:
    """The module of every public name, as type checkers are told it: ``from HOME import NAME``."""
    stub = __spec__.loader.get_data(f"{__file__}i").decode()  # __init__.pyi
    lines = [line.split() for line in stub.splitlines() if line.startswith("from ")]
    return {name: home for _, home, _, name, *_ in lines}


_HOMES = _homes()
__all__ = sorted(["__version__", *_HOMES])


def __getattr__(name: str) -> Any:
    # Loaded when first used, so that `import fedcsa` costs little more than nothing.
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'fedcsa' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
