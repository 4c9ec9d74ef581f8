"""Fields of a message as a table for people, and what attacks on a model reached as sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from fedcsa.words import number

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


def attack_sentences(found: Mapping[str, Any], most: float | None = None) -> list[str]:
    """What attacks on a model reached, in words.

    Parameters
    ----------
    found : mapping
        As `fedcsa.source.certificate.Certificate.to_plain` gives it.
    most : float, optional
        The AUC above which the site's file keeps a model.
    """
    limit = "" if most is None else f"; above {most:g} a model stays"
    told = [
        f"{attack['auc']:.3f} ± {attack['error']:.3f} {words}"
        for name, words in (("loss", "by the loss"), ("reference", "with reference models"))
        if (attack := found[name]) is not None
    ]
    lines = ["Who was in the model could not be tried out: too few folds could be fitted."]
    if told:
        auc, rows = " and ".join(told), found["n_rows"]
        chance = f"0.5 is chance{limit}"
        lines = [
            f"Who was in it can be told with an AUC of {auc} ({chance}), tried on {rows} rows."
        ]
    share, per_row = number(found["outcome_share"]), number(found["parameters_per_row"])
    lines.append(f"One patient's own outcome makes up {share} of a prediction at most.")
    leaf = found["smallest_leaf"]
    leaves = "" if leaf is None else f"; {leaf} rows in the smallest leaf"
    lines.append(f"It holds {per_row} fitted numbers a row{leaves}.")
    where = ", ".join(found["own_values"])
    held = f"It holds cells or outcomes: {where}." if where else "It holds no cell and no outcome."
    return [*lines, held]
