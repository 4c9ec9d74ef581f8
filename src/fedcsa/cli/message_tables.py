"""Fields of a message as a table for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

#: Characters of a field's name on one line: the other columns need the rest of 80.
WIDEST_NAME = 24


def fields_table(title: str, rows: Iterable[Sequence[str]]) -> Table:
    """One line a field: its name, how many numbers it has, what it is and what it is made from.

    Parameters
    ----------
    title : str
        With the recipient.
    rows : iterable of (field, numbers, what it is, computed from)
    """
    table = Table(title=Text(title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("field", no_wrap=True)
    table.add_column("numbers", no_wrap=True, justify="right")
    for heading in ("what it is", "computed from"):
        table.add_column(heading, overflow="fold")
    for name, *cells in rows:
        table.add_row(Text(broken_name(name)), *map(Text, cells))
    return table


def broken_name(name: str) -> str:
    """A long name over several lines, broken where its words end.

    >>> broken_name("model.standardscaler__ridge.coefficients").split(chr(10))
    ['model.standardscaler__', 'ridge.coefficients']
    """
    lines = [""]
    for part in re.findall(rf"[^._]{{1,{WIDEST_NAME}}}[._]*|[._]+", name):
        if lines[-1] and len(lines[-1]) + len(part) > WIDEST_NAME:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)
