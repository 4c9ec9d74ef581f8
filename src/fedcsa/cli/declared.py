"""What a command says of its parameters, beside their types and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Declared:
    """An option or an argument, as an annotation of a function's parameter.

    Attributes
    ----------
    argument : bool
        Whether it has a place instead of a name.
    names : tuple of str
        Of an option; by default the parameter's.
    settings : mapping
        ``help``, ``metavar``, ``min`` (of a whole number), ``envvar``, ``shell_complete``.
    """

    argument: bool
    names: tuple[str, ...]
    settings: Mapping[str, Any]


def option(*names: str, **settings: Any) -> Declared:
    """An option, such as ``option("--out", "-o", metavar="DIR", help="…")``."""
    return Declared(argument=False, names=names, settings=settings)


def argument(**settings: Any) -> Declared:
    """An argument, such as ``argument(metavar="STUDY", help="…")``."""
    return Declared(argument=True, names=(), settings=settings)
