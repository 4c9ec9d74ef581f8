"""``fedcsa ledger RESULT`` or ``fedcsa ledger SITE``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from fedcsa.cli.common import Json, console, named_errors, print_json
from fedcsa.errors import ResultError, unknown
from fedcsa.protocol.chain import LEDGER, to_plain, verify
from fedcsa.protocol.ledger import FieldRecord, LedgerEntry
from fedcsa.result import load_ledgers
from fedcsa.site.file import SiteFile


@named_errors
def ledger(
    result: Annotated[
        Path, typer.Argument(help="A result folder; or a site's file or state folder.")
    ],
    site: Annotated[str | None, typer.Option(help="Only this site.")] = None,
    fields: Annotated[bool, typer.Option("--fields", help="Every field of every message.")] = False,
    json: Json = False,
) -> None:
    """Show what left which site: every message, its size and its hash.

    A site's own ledger is verified first: a changed or missing line is an error (exit code 3).

    Example: [bold]fedcsa ledger result --site Abbey --fields[/bold], or
    [bold]fedcsa ledger site.toml[/bold]
    """
    folder = _state_of(result)
    if folder is not None:
        _show_site(folder, fields=fields, json=json)
        return
    ledgers = load_ledgers(result)
    if site is not None and site not in ledgers:
        raise ResultError(unknown("site", site, ledgers))
    ledgers = {name: entries for name, entries in ledgers.items() if site in (None, name)}
    if json:
        print_json(
            {name: [dataclasses.asdict(e) for e in entries] for name, entries in ledgers.items()}
        )
        return
    screen = console()
    for name, entries in ledgers.items():
        screen.print(_table(f"What left {name}", [(entry, "") for entry in entries], fields))
        screen.print()


def _state_of(path: Path) -> Path | None:
    """The state folder of a site, if `path` leads to one."""
    if path.suffix == ".toml":
        return SiteFile.load(path).state_folder
    if path.name == LEDGER:
        return path.parent
    return path if (path / LEDGER).is_file() else None


def _show_site(folder: Path, *, fields: bool, json: bool) -> None:
    lines = verify(folder)
    if json:
        print_json([to_plain(line) for line in lines])
        return
    screen = console()
    shown = [(line.entry, line.kind) for line in lines]
    site = lines[0].entry.site if lines else "this site"
    screen.print(_table(f"What left {site}", shown, fields))
    left = sum(line.entry.n_bytes + line.envelope_bytes for line in lines)
    screen.print(Text(f"{len(lines)} messages, {left} bytes with envelopes; the chain is intact."))


def _table(title: str, entries: list[tuple[LedgerEntry, str]], fields: bool) -> Table:
    table = Table(title=Text(title), title_justify="left", title_style="bold")
    for heading, justify in (
        ("message", "left"), ("to", "left"), ("numbers", "right"), ("bytes", "right"),
        ("sha256", "left"), ("time", "left"), ("", "left"),
    ):  # fmt: skip
        table.add_column(heading, justify=justify, no_wrap=heading != "to")  # type: ignore[arg-type]
    for entry, kind in entries:
        table.add_row(
            entry.message, Text(entry.recipient), f"{entry.n_numbers}", f"{entry.n_bytes}",
            entry.sha256[:12], entry.time[:19].replace("T", " "), kind,
        )  # fmt: skip
        for item in entry.fields if fields else ():
            table.add_row(
                f"  {item.name}", "", _shape(item), f"{item.n_bytes}", item.sha256[:12], ""
            )
    return table


def _shape(item: FieldRecord) -> str:
    return " × ".join(str(size) for size in item.shape) or "1"
