"""A proposal of what every column of one's own tables is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedcsa.data.coding import Columns


def infer_columns(frames: Mapping[str, Any], outcome: str | None = None) -> Columns:
    """Propose what every column is; see `Columns.infer`.

    Parameters
    ----------
    frames : mapping of str to frame
    outcome : str, optional
    """
    raise NotImplementedError
