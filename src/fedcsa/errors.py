"""Every error that fedcsa raises on purpose.

A text says what must hold, what came (a name, a number, a shape) and what to do. It never
contains a data value, because an error text may cross from one site to another.

::

    FedCSAError
    ├── DataError             rows, columns or outcomes that cannot be used (also a ValueError)
    │   └── TableError        a file that is not there, cut off, or not a table
    ├── ParameterError        an argument outside its range (also a ValueError)
    │   └── StudyError        a study file with an unknown key or a wrong value
    ├── ModelError            a model that cannot be built, fitted or carried
    │   ├── CandidatesError   every candidate failed somewhere
    │   └── UntrustedError    a model is of a class that nobody here trusts
    ├── ProtocolError         the exchange between sites went wrong
    │   ├── MessageError      bytes that are not a well-formed message
    │   ├── PolicyError       a site's own policy refuses to let a message out
    │   ├── BindingError      a message of another study, phase, site or time
    │   ├── OpeningError      a message that cannot be opened safely
    │   └── NoSourcesError    too few sources answered to go on
    ├── NoOverlapError        no source resembles the target, so there is no answer
    ├── ResultError           a result folder that is missing, damaged or of another version
    │   └── LedgerError       a site's log in which a line was changed or removed
    └── MissingExtraError     an optional dependency is not installed (also an ImportError)
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


class FedCSAError(Exception):
    """Base class: catching this catches everything that fedcsa raises on purpose.

    Attributes
    ----------
    rule : str
        The one word by which a site tells another what went wrong; the text stays at home.
    adaptation : Adaptation or None
        What is left of a study that ended without a model.
    """

    rule: str = "failed"
    adaptation: Any = None


class DataError(FedCSAError, ValueError):
    """Rows, columns or outcomes that cannot be used."""


class TableError(DataError):
    """A file that is not there, cut off, or not a table."""


class ParameterError(FedCSAError, ValueError):
    """An argument outside its range."""


class StudyError(ParameterError):
    """A study file with an unknown key or a wrong value."""


class ModelError(FedCSAError):
    """A model that cannot be built, fitted or carried to another site."""

    rule = "no_model"


class CandidatesError(ModelError):
    """No candidate could be fitted at every source."""


class UntrustedError(ModelError):
    """A study's model is of a class that nobody here has declared as trusted."""

    rule = "untrusted"


class ProtocolError(FedCSAError):
    """The exchange between sites went wrong."""


class MessageError(ProtocolError):
    """Bytes that are not a well-formed message, or a message whose parts contradict each other."""

    rule = "malformed"


class PolicyError(ProtocolError):
    """A site's own policy refuses to let a message out.

    Attributes
    ----------
    rule : str
        The name of the rule, for example ``"min_fold_rows"``.
    """

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(text)
        self.rule = rule


class BindingError(ProtocolError):
    """A message of another study, phase, site or time: replayed, doubled or misdirected.

    Attributes
    ----------
    rule : str
        The name of the rule, for example ``"replayed"``.
    """

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(text)
        self.rule = rule


class OpeningError(ProtocolError):
    """A message that crashed the process that opened it, or took too much memory or time.

    Attributes
    ----------
    rule : str
        The name of the rule, for example ``"opening_crashed"``.
    """

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(text)
        self.rule = rule


class NoSourcesError(ProtocolError):
    """Too few sources answered to go on."""

    rule = "min_sources"


class NoOverlapError(FedCSAError):
    """No source resembles the target, so there is no answer worth giving."""

    rule = "no_overlap"


class ResultError(FedCSAError):
    """A result folder that is missing, damaged or of another version."""


class LedgerError(ResultError):
    """A site's log in which a line was changed or removed."""


class MissingExtraError(FedCSAError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}. "
            f'Install it with: pip install "fedcsa[{extra}]"'
        )


def raise_all(problems: Sequence[str], kind: type[FedCSAError] = ParameterError) -> None:
    """Raise one error with one line per problem, if there are any."""
    if problems:
        raise kind("\n".join(problems))


@contextmanager
def gathered(problems: list[str], where: str = "") -> Iterator[None]:
    """Let an error become lines of `problems`, so that the rest is looked at as well.

    >>> problems = []
    >>> with gathered(problems, "study.toml: "):
    ...     raise StudyError("Give it a name.")
    >>> problems
    ['study.toml: Give it a name.']
    """
    try:
        yield
    except FedCSAError as error:
        problems += [where + line for line in str(error).splitlines()]


def must(name: str, rule: str, got: object) -> ParameterError:
    """Return the one sentence in which every argument is refused.

    >>> raise must("folds", "a whole number of at least 2", 1)
    Traceback (most recent call last):
        ...
    fedcsa.errors.ParameterError: The 'folds' parameter must be a whole number of at least 2. ...
    """
    return ParameterError(f"The {name!r} parameter must be {rule}. Got {got!r} instead.")


def unknown(what: str, got: str, known: Collection[str]) -> str:
    """One sentence about a misspelt name, with the nearest known one.

    >>> unknown("loss", "sqared", ["squared", "absolute"])
    "Unknown loss 'sqared'. Did you mean 'squared'?"
    """
    return f"Unknown {what} {got!r}. {hint(got, known)}"


def hint(got: str, known: Collection[str]) -> str:
    """The known name that was probably meant, or else all of them."""
    near = nearest(got, known)
    listed = f"Known: {', '.join(sorted(known))}." if known else "None is known."
    return f"Did you mean {near!r}?" if near else listed


def one_of(name: str, allowed: Collection[str], got: object, note: str = "") -> ParameterError:
    """Return the sentence of `must` for an argument that has a few allowed values.

    >>> raise one_of("combine", ["mean", "median"], "meadian")
    Traceback (most recent call last):
        ...
    fedcsa.errors.ParameterError: The 'combine' parameter must be one of ['mean', 'median']. ...
    """
    error = must(name, f"one of {list(allowed)}{note}", got)
    near = nearest(got, allowed) if isinstance(got, str) else None
    return ParameterError(f"{error} Did you mean {near!r}?") if near else error


def nearest(got: str, known: Collection[str]) -> str | None:
    """The known name that a misspelt one resembles most, if any does.

    Neither case nor the dashes before an option matter.

    >>> nearest("--jsn", ["--json", "--quiet"]), nearest("--out", ["--json", "--quiet"])
    ('--json', None)
    """
    import difflib

    lower = {name.lower().lstrip("-"): name for name in known}
    found = difflib.get_close_matches(got.lower().lstrip("-"), lower, n=1)
    return lower[found[0]] if found else None


def known_parameters(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """Let a misspelt keyword of `function` be answered with the nearest one."""

    @functools.wraps(function)
    def wrapped(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
        known = [*inspect.signature(function).parameters][1:]
        for name in kwargs:
            if name not in known:
                raise ParameterError(unknown("parameter", name, known))
        return function(*args, **kwargs)

    return wrapped
