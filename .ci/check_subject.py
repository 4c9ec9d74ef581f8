"""Refuse a commit whose subject is too long or does not start with the part it touches."""

from __future__ import annotations

import re
import sys
from pathlib import Path

#: Longer subjects are cut off in lists of commits.
MAX_LENGTH = 72


def problem_of(subject: str) -> str | None:
    """What is wrong with a subject; None if nothing is."""
    if re.match(r"(Merge|Revert|fixup!|squash!) ?", subject):
        return None
    if len(subject) > MAX_LENGTH:
        return f"The subject has {len(subject)} characters; at most {MAX_LENGTH} are allowed."
    if not re.match(r"[a-z][\w./-]*: \S", subject):
        return "The subject does not start with the part it touches, for example 'core: '."
    return None


if __name__ == "__main__":
    sys.exit(problem_of(Path(sys.argv[1]).read_text(encoding="utf-8").split("\n")[0]))
