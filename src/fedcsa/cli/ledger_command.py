"""``fedcsa ledger RESULT`` or ``fedcsa ledger SITE``."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from fedcsa.cli.common import Output, Screen, argument, option
from fedcsa.errors import ResultError, unknown
from fedcsa.words import printable

if TYPE_CHECKING:
    from fedcsa.messages.policy import LedgerEntry, Policy


def ledger(
    output: Output,
    result: Annotated[
        Path,
        argument(metavar="RESULT", help="A result folder; or a site's file or state folder."),
    ],
    site: Annotated[str | None, option(metavar="NAME", help="Only this site.")] = None,
    fields: Annotated[bool, option("--fields", help="Every field of every message.")] = False,
) -> None:
    """Show what left which site: every message, its size and its hash.

    Reads a result folder, or a site's own ledger, which is verified first: a changed or missing
    line is an error (exit code 3), also with --quiet. A site's own also says how many tables it
    told of each cohort, and how many briefs of each target it took up, in a period.

    Examples
    --------
    fedcsa ledger result
    fedcsa ledger result --site Abbey --fields
    fedcsa ledger site.toml                    # a site's own, verified
    """
    from fedcsa.answer.store import load_ledgers

    found = _state_of(result)
    if found is not None:
        _show_site(*found, output, fields=fields)
        return
    ledgers = load_ledgers(result)
    if site is not None and site not in ledgers:
        raise ResultError(unknown("site", site, ledgers))
    ledgers = {name: entries for name, entries in ledgers.items() if site in (None, name)}

    def show(screen: Screen) -> None:
        for name, entries in ledgers.items():
            screen.print(_table(f"What left {name}", [_cells(entry) for entry in entries]))
            if fields:
                _print_fields(screen, entries, {})
            screen.print()

    output.answer({n: [dataclasses.asdict(e) for e in es] for n, es in ledgers.items()}, show)


def _state_of(path: Path) -> tuple[Path, Policy] | None:
    """The state folder and the rules of a site, if `path` leads to one; else the strict rules."""
    from fedcsa.messages.policy import Policy
    from fedcsa.site.log import LOG
    from fedcsa.site.site_file import SiteFile

    if path.suffix == ".toml" and not _is_study(path):
        site = SiteFile.load(path)
        return site.state_folder, site.policy
    if path.name == LOG:
        return path.parent, Policy()
    return (path, Policy()) if (path / LOG).is_file() else None


def _is_study(path: Path) -> bool:
    """Whether a file is a study's: no site's file has sources."""
    from fedcsa.study.toml import parse_toml, read_text

    text = read_text(path, "site file", "Name a result folder, or a site's file.")
    return "sources" in parse_toml(text, path.name)


def _show_site(folder: Path, policy: Policy, output: Output, *, fields: bool) -> None:
    from fedcsa.site.account import (
        briefs_by_target,
        cohort_accounts,
        told_sentences,
        without_repeats,
    )
    from fedcsa.site.log import SiteLog

    log, days = SiteLog(folder), policy.period_days
    lines, cohorts, targets = log.sent, cohort_accounts(log, days), briefs_by_target(log, days)
    tried = {x["sha256"]: x["certificate"] for x in log.events if x["event"] == "certified"}

    def show(screen: Screen) -> None:
        site = lines[0].entry.site if lines else "this site"
        once = [_cells(li.entry, what, li.numbers) for li, what in without_repeats(lines)]
        screen.print(_table(f"What left {site}", once))
        if fields:
            _print_fields(screen, [li.entry for li in lines if li.kind == "sent"], tried)
        left = sum(line.entry.n_bytes + line.envelope_bytes for line in lines)
        screen.print(f"{len(lines)} messages, {left} bytes with envelopes; the chain is intact.")
        for sentence in told_sentences(log, policy):
            screen.say(sentence)

    content = {
        "messages": [
            {**line.to_plain(), "certificate": tried.get(line.entry.sha256)} for line in lines
        ],
        "period_days": days,
        "cohorts": cohorts,
        "briefs": targets,
    }
    output.answer(content, show)


def _cells(entry: LedgerEntry, what: str = "", numbers: str = "") -> tuple[str | Text, ...]:
    """A line of the table; what it is and how many numbers, if not as the entry says."""
    return (
        what or entry.message, Text(printable(entry.recipient)), numbers or f"{entry.n_numbers}",
        f"{entry.n_bytes}", entry.sha256[:8], entry.time[:16].replace("T", " "),
    )  # fmt: skip


def _table(title: str, rows: Sequence[tuple[str | Text, ...]]) -> Group:
    """One line a message; the recipient is never cut off, however narrow the screen is."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("message", overflow="fold", min_width=18)
    table.add_column("to", overflow="fold", min_width=8)
    for heading in ("numbers", "bytes"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("sha256", no_wrap=True)
    table.add_column("time", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return _titled(printable(title), table)


def _titled(title: str, table: Table) -> Group:
    """A table below its title, which a title of Rich's own cuts if a word is longer than a line."""
    return Group(Text(title, style="bold", overflow="fold"), table)


def _print_fields(
    screen: Screen, entries: Sequence[LedgerEntry], tried: Mapping[str, Mapping[str, Any]]
) -> None:
    """Every field of every message, and what attacks on a model had reached before it left."""
    from fedcsa.site.account import attack_sentences
    from fedcsa.site.meanings import meaning_of

    for entry in entries:
        title = f"{entry.message} to {printable(entry.recipient)}"
        rows = [
            (item.name, item.numbers, *meaning_of(entry.message, item.name))
            for item in entry.fields
        ]
        screen.print(fields_table(title, rows))
        for sentence in attack_sentences(tried[entry.sha256]) if entry.sha256 in tried else ():
            screen.say(f"  {sentence}")


#: Characters of a field's name on one line: the other columns need the rest of 80.
WIDEST_NAME = 24


def fields_table(title: str, rows: Iterable[Sequence[str]]) -> Group:
    """One line a field: its name, how many numbers it has, what it is and what it is made from.

    Parameters
    ----------
    title : str
        With the recipient.
    rows : iterable of (field, numbers, what it is, computed from)
    """
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("field", no_wrap=True)
    table.add_column("numbers", no_wrap=True, justify="right")
    for heading in ("what it is", "computed from"):
        table.add_column(heading, overflow="fold")
    for name, *cells in rows:
        table.add_row(Text(broken_name(name)), *map(Text, cells))
    return _titled(title, table)


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
