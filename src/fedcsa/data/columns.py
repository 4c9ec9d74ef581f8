"""Whether a table has the columns that a study needs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from fedcsa.errors import DataError, nearest

_SHOWN = 5


def require_columns(present: Sequence[str], needed: Sequence[str], where: str) -> None:
    """Raise a `DataError` unless every column of `needed` is in `present`, once.

    A near miss is suggested. In a file without a header, however, what looks like names are a
    patient's values: unless some needed column is there, only a name that differs in nothing
    but case and signs is shown.
    """
    counts = Counter(present)
    doubled = [name for name in needed if counts[name] > 1]
    missing = [name for name in needed if not counts[name]]
    problems = []
    if doubled:
        problems.append(f"{sentence_start(where)} must have every column once; twice or more: ")
        problems[-1] += _listed([repr(name) for name in doubled])
    if missing:
        are_names = len(missing) < len(needed)
        problems.append(
            f"{sentence_start(where)} must have the {len(needed)} column(s) of the study; missing: "
            + _listed([_with_hint(name, present, are_names) for name in missing])
        )
        if not are_names:
            problems[-1] += " Does it begin with the names of its columns, separated as agreed?"
    if problems:
        raise DataError("\n".join(problems))


def _with_hint(name: str, present: Sequence[str], are_names: bool) -> str:
    printable = [other for other in present if other.isprintable()]
    near = [other for other in printable if _bare(other) == _bare(name)]
    found = near[0] if near else nearest(name, printable) if are_names else None
    return f"{name!r} (did you mean {found!r}?)" if found else repr(name)


def _bare(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def _listed(items: Sequence[str]) -> str:
    more = len(items) - _SHOWN
    return ", ".join(items[:_SHOWN]) + (f" and {more} more." if more > 0 else ".")


def sentence_start(text: str) -> str:
    """`text` with a capital letter at its beginning."""
    return text[:1].upper() + text[1:]
