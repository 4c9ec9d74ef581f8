"""``fedcsa ledger RESULT``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from fedcsa.cli.common import Json, console, named_errors, print_json
from fedcsa.errors import ResultError
from fedcsa.models.registry import unknown
from fedcsa.protocol.ledger import FieldRecord
from fedcsa.result import load_ledgers


@named_errors
def ledger(
    result: Annotated[Path, typer.Argument(help="A result folder.")],
    site: Annotated[str | None, typer.Option(help="Only this site.")] = None,
    fields: Annotated[bool, typer.Option("--fields", help="Every field of every message.")] = False,
    json: Json = False,
) -> None:
    """Show what left which site: every message, its size and its hash.

    Example: [bold]fedcsa ledger result --site Abbey --fields[/bold]
    """
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
        table = Table(title=Text(f"What left {name}"), title_justify="left", title_style="bold")
        for heading, justify in (
            ("message", "left"), ("to", "left"), ("numbers", "right"), ("bytes", "right"),
            ("sha256", "left"), ("time", "left"),
        ):  # fmt: skip
            table.add_column(heading, justify=justify)  # type: ignore[arg-type]
        for entry in entries:
            table.add_row(
                entry.message, Text(entry.recipient), f"{entry.n_numbers}", f"{entry.n_bytes}",
                entry.sha256[:12], entry.time[:19].replace("T", " "),
            )  # fmt: skip
            if fields:
                for item in entry.fields:
                    table.add_row(
                        f"  {item.name}", "", _shape(item), f"{item.n_bytes}", item.sha256[:12], ""
                    )
        screen.print(table)
        screen.print()


def _shape(item: FieldRecord) -> str:
    return " × ".join(str(size) for size in item.shape) or "1"
