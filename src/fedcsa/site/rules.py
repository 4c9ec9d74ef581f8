"""The one word by which a site tells another what went wrong; its own status has the text."""

from __future__ import annotations

from fedcsa.errors import (
    BindingError,
    FedCSAError,
    MessageError,
    ModelError,
    NoOverlapError,
    NoSourcesError,
    PolicyError,
)

FAILED = "failed"
_WORDS: tuple[tuple[type[FedCSAError], str], ...] = (
    (MessageError, "malformed"),
    (NoSourcesError, "min_sources"),
    (NoOverlapError, "no_overlap"),
    (ModelError, "no_model"),
)


def rule_of(error: Exception) -> str:
    """The rule that `error` names, or the word for its kind.

    >>> rule_of(PolicyError("one_brief", "This site answers one brief per study."))
    'one_brief'
    >>> rule_of(ValueError("whose text may quote a cell"))
    'failed'
    """
    if isinstance(error, PolicyError | BindingError):
        return error.rule
    for kind, word in _WORDS:
        if isinstance(error, kind):
            return word
    return FAILED
