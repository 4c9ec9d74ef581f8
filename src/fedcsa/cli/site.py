"""``fedcsa site``: run a site, and decide what leaves it."""

from __future__ import annotations

import json as jsonlib
import shlex
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from fedcsa.cli.common import Json, Quiet, console, named_errors, print_json, printable
from fedcsa.errors import ProtocolError, ResultError
from fedcsa.protocol.envelope import PHASES
from fedcsa.protocol.lines import alone
from fedcsa.site.file import TEMPLATE, SiteFile
from fedcsa.site.memory import check_memory
from fedcsa.site.state import Approvals, Status

site = typer.Typer(name="site", no_args_is_help=True, help="Run a site of a federation.")
Data = Annotated[Path, typer.Option("--data", help="The site's own file.")]
SITE_FILE = Path("site.toml")


@site.command()
@named_errors
def init(
    file: Annotated[Path, typer.Argument(help="Where to write it.")] = SITE_FILE,
    json: Json = False,
) -> None:
    """Write a commented site file to fill in: table, columns, policy.

    Example: [bold]fedcsa site init site.toml[/bold]
    """
    if file.exists():
        raise ResultError(f"The file {str(file)!r} must not be there yet; it is. Choose another.")
    file.write_text(TEMPLATE, encoding="utf-8")
    if json:
        print_json({"file": str(file)})
    else:
        console().print(Text(f"Written to {file}. Fill it in."), soft_wrap=True)


@site.command()
@named_errors
def start(
    kit: Annotated[Path, typer.Argument(help="This site's start-up kit.")],
    data: Data = SITE_FILE,
    quiet: Quiet = False,
) -> None:
    """Run this site in the foreground, until Ctrl-C; say what it is doing.

    Example: [bold]fedcsa site start kits/abbey --data site.toml[/bold]
    """
    from fedcsa.transport.flare import require_engine

    loaded = SiteFile.load(data)
    require_engine()
    from fedcsa.transport.flare.doctor import PID
    from fedcsa.transport.flare.hardening import problems_of
    from fedcsa.transport.flare.kits import Kit
    from fedcsa.transport.flare.process import EngineProcess, until_stopped
    from fedcsa.transport.flare.settings import write_settings

    about = Kit.load(kit)
    if about.role not in ("source", "target"):
        raise ProtocolError(f"This must be a site's kit; it is that of a {about.role}.")
    problems = problems_of(kit, about.role)
    if problems:
        raise ProtocolError("\n".join(problems))
    status, screen = Status(loaded.state_folder), console()
    with alone(loaded.state_folder), alone(kit):
        check_memory(loaded.state_folder, about.participant)
        seen = len(status.lines())
        status.say("starting")  # and an error at once if nothing can be written there
        write_settings(kit, data)
        with until_stopped() as stopped, EngineProcess(kit, about) as process:
            (kit / PID).write_text(f"{process.pid}\n")
            if not quiet:
                screen.print(Text(f"{about.participant}: connecting to {about.host}:{about.port}"))
            while not stopped.is_set() and process.poll() is None:
                lines = status.lines(seen)
                for line in [] if quiet else lines:
                    study = f"{printable(line['study'])}: " if line["study"] else ""
                    text = f"{line['time'][11:19]} {study}{printable(line['text'])}"
                    screen.print(Text(text), soft_wrap=True)
                seen += len(lines)
                time.sleep(0.2)
            ended = process.poll()
        (kit / PID).unlink(missing_ok=True)
    if not stopped.is_set():
        raise ProtocolError(f"The site's engine ended ({ended}); see {kit / 'engine.log'}.")


@site.command()
@named_errors
def preview(
    study: Annotated[Path, typer.Argument(help="The study file.")],
    data: Data = SITE_FILE,
    values: Annotated[
        bool, typer.Option("--values", help="The values, too, rounded as they would leave.")
    ] = False,
    json: Json = False,
) -> None:
    """Show which numbers would leave this site in a study, before anything does.

    Example: [bold]fedcsa site preview study.toml --data site.toml[/bold]
    """
    from fedcsa.site.agreed import read_study_text
    from fedcsa.site.preview import preview as look

    found = look(read_study_text(study), SiteFile.load(data))
    if json:
        print_json(found)
        return
    screen = console()
    screen.print(Text.assemble("Study ", (printable(found["study"]), "bold")))
    screen.print(Text(f"This site would be a {found['role']}."))
    for message in found["messages"]:
        screen.print(_message_table(message, values))
    for text in found["refusals"]:
        screen.print(Text.assemble(("refused: ", "bold yellow"), printable(text)), soft_wrap=True)
    if not found["refusals"]:
        screen.print(Text("This site's policy would let these leave, and nothing else."))
    if not all(message["exact"] for message in found["messages"]):
        screen.print(Text(_NOT_EXACT), soft_wrap=True)
    name = shlex.quote(found["study"])
    screen.print(Text(f"To approve it: fedcsa site approve {name} --data {data}"), soft_wrap=True)


_NOT_EXACT = (
    "Where the target's question has not come yet, this site's own rows and the first candidate "
    "stand in for it: names and counts are as they will be, values are not. With approve in the "
    "site's file the study waits here, and a preview then shows the very values."
)


def _message_table(message: dict[str, Any], values: bool) -> Table:
    title = message["message"] + ("" if message["exact"] else " (with a stand-in for the target)")
    table = Table(title=Text(title), title_justify="left", title_style="bold")
    headings = ("field", "numbers", "what it is", *(["values"] if values else []))
    for heading in headings:
        table.add_column(heading, justify="right" if heading == "numbers" else "left")
    for item in message["fields"]:
        told = printable(jsonlib.dumps(item["value"], ensure_ascii=False))
        cells = (item["name"], item["numbers"], item["meaning"], *([told] if values else []))
        table.add_row(*map(Text, cells))
    return table


@site.command()
@named_errors
def approve(
    study: Annotated[str, typer.Argument(help="Name or id of the study.")],
    data: Data = SITE_FILE,
    phase: Annotated[
        str | None, typer.Option(help="Only this phase: risk (the numbers) or model.")
    ] = None,
    refuse: Annotated[bool, typer.Option("--refuse", help="Refuse it instead.")] = False,
    json: Json = False,
) -> None:
    """Let a study that waits at this site go on, or refuse it.

    Example: [bold]fedcsa site approve demo --data site.toml[/bold]
    """
    if phase is not None and phase not in PHASES:
        raise typer.BadParameter(f"must be one of {list(PHASES)}", param_hint="--phase")
    approvals = Approvals(SiteFile.load(data).state_folder)
    decision = "refused" if refuse else "approved"
    full = approvals.decide(study, decision, PHASES if phase is None else (phase,))
    if json:
        print_json({"study": full, "decision": decision})
    else:
        console().print(Text(f"{decision}: {printable(full)}"))
