"""The federation on NVIDIA FLARE: the only package that knows the engine.

Nothing here decides anything: the desks of `fedcsa.site` do, and FLARE carries their bytes.
"""

from __future__ import annotations

import importlib.util

from fedcsa.errors import MissingExtraError


def require_engine() -> None:
    """Raise a `MissingExtraError` unless the engine is installed."""
    if importlib.util.find_spec("nvflare") is None:
        raise MissingExtraError("nvflare", "federation", "A federation")
