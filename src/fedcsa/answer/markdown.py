"""Texts and tables as Markdown; names that come from elsewhere mean nothing in it."""

from __future__ import annotations

import html
import re

from fedcsa.answer.result_tables import Table
from fedcsa.words import printable

_SIGNS = re.compile(r"([\\`*_{}\[\]|#~$])")


def escaped(text: object) -> str:
    r"""A text that stays as it is when Markdown is shown.

    >>> escaped("a_b | <b>"), escaped("*x*")
    ('a\\_b \\| &lt;b&gt;', '\\*x\\*')
    """
    return _SIGNS.sub(r"\\\1", html.escape(printable(text), quote=False))


def markdown_table(table: Table) -> str:
    """A table with its headings; numbers to the right."""
    sides = ["---" if i in table.text else "---:" for i in range(len(table.headings))]
    rows = [table.headings, sides, *table.rows]
    lines = [" | ".join(map(str, row) if row is sides else map(escaped, row)) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)
