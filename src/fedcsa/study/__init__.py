"""A study as one file: what all sites agreed on before anything is computed."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedcsa.study.study import Study

__all__ = ["Study"]


def __getattr__(name: str) -> Any:
    """Load the class when it is asked for: not every look at a study file needs numpy."""
    if name != "Study":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fedcsa.study.study import Study

    return Study
