"""``fedcsa federation``: set up a federation, run its server, check a kit."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from fedcsa.cli.common import (
    EXIT_INPUT,
    Json,
    Output,
    Quiet,
    named_errors,
    unbroken,
    working,
)
from fedcsa.cli.program import Command, Group
from fedcsa.errors import ProtocolError, ResultError
from fedcsa.words import printable

federation = typer.Typer(
    name="federation", cls=Group, no_args_is_help=True, help="Set up a federation of real sites."
)
FederationFile = Annotated[Path, typer.Argument(metavar="FILE", help="The federation file.")]
KitFolder = Annotated[
    Path, typer.Argument(metavar="KIT", help="A start-up kit, as provision makes it.")
]


@federation.command(cls=Command)
@named_errors
def init(
    file: FederationFile = Path("federation.toml"), json: Json = False, quiet: Quiet = False
) -> None:
    """Write a commented federation file to fill in.

    It is never written over an older one (exit code 3).

    Examples
    --------
    fedcsa federation init                     # writes federation.toml
    fedcsa federation init trials/federation.toml
    """
    from fedcsa.federation.federation_file import FEDERATION_TEMPLATE

    if file.exists():
        raise ResultError(f"{str(file)!r} already exists. Delete it or choose another name.")
    name = re.sub(r"[^A-Za-z0-9]", "-", file.absolute().parent.name) or "federation"
    with unbroken():
        file.write_text(FEDERATION_TEMPLATE.format(name=name[:60]), encoding="utf-8")
    told = f"Written to {file}. Fill it in, then: fedcsa federation provision {file}"
    Output(json, quiet).answer({"file": str(file)}, _telling(told), file)


@federation.command(cls=Command)
@named_errors
def provision(
    file: FederationFile = Path("federation.toml"),
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for the kits.")
    ] = Path("kits"),
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make one start-up kit per participant, with every protection switched on.

    Reads the federation file and writes a folder per participant: keys, certificates, settings.
    Hand each kit to its participant alone.

    Examples
    --------
    fedcsa federation provision federation.toml --out kits
    """
    from fedcsa.federation.federation_file import AUTHORITY, Federation
    from fedcsa.federation.flare import require_engine

    described = Federation.load(file)
    require_engine()
    from fedcsa.federation.flare.kits import provision as make

    with working("making keys and certificates", quiet=quiet), unbroken():
        kits = make(described, out)
    lines = [f"{len(kits)} kits in {out}:", *(f"  {kit}" for kit in kits)]
    lines.append(f"Keep {out / AUTHORITY} to yourself: it holds the key that makes certificates.")
    content = {"kits": [str(kit) for kit in kits]}
    Output(json, quiet).answer(content, _telling("\n".join(lines)), out)


@federation.command(cls=Command)
@named_errors
def serve(kit: KitFolder, json: Json = False, quiet: Quiet = False) -> None:
    """Run the server of a federation in the foreground, until Ctrl-C.

    It carries messages and holds no data. Its log is engine.log in the kit. With --json, one
    object a line. Ctrl-C is the ordinary end (exit code 0); 4 if the server ends by itself.

    Examples
    --------
    fedcsa federation serve kits/localhost
    """
    from fedcsa.federation.flare import require_engine
    from fedcsa.site.state import alone

    require_engine()
    from fedcsa.federation.flare.kits import Kit
    from fedcsa.federation.flare.process import EngineProcess, until_stopped

    about = Kit.load(kit)
    if about.role != "server":
        raise ProtocolError(
            f"{str(kit)!r} is the kit of a {about.role}, not of the server. "
            "Name the folder called as the server's host."
        )
    with alone(kit), EngineProcess(kit, about) as process, until_stopped() as stopped:
        Output(json, quiet).line(
            {"federation": about.federation, "port": about.port, "text": "serving"},
            f"serving {about.federation} on port {about.port}",
        )
        while not stopped.is_set() and process.poll() is None:
            time.sleep(0.2)
        ended = process.poll()
    if ended not in (None, 0) and not stopped.is_set():
        raise ProtocolError(
            f"The server ended by itself, with code {ended}. See {kit / 'engine.log'}."
        )


@federation.command(cls=Command)
@named_errors
def doctor(
    kit: KitFolder,
    data: Annotated[Path | None, typer.Option(metavar="SITE", help="The site's own file.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check a kit, the way to the server, and a site's file; say what is wrong and how to mend it.

    Reads the kit and the file, knocks at the server, and writes nothing. Exit code 3 if
    something is wrong; --quiet then shows only that.

    Examples
    --------
    fedcsa federation doctor kits/abbey --data site.toml
    """
    from fedcsa.federation.flare import require_engine

    require_engine()
    from fedcsa.federation.flare.doctor import check_kit

    with working("examining", quiet=quiet):
        checks = check_kit(kit, data)
    problems = [text for _, ok, text in checks if not ok]

    def show(screen: Console) -> None:
        for what, ok, text in checks:
            mark = ("ok  ", "green") if ok else ("bad ", "bold red")
            if not (ok and quiet):
                screen.print(Text.assemble(mark, printable(f"{what}: {text}")), soft_wrap=True)

    content = {"checks": [{"what": w, "ok": ok, "text": t} for w, ok, t in checks]}
    Output(json, quiet and not problems).answer(content, show)
    if problems:
        raise typer.Exit(EXIT_INPUT)


@federation.command(cls=Command)
@named_errors
def demo(
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="DIR", help="A new folder for kits, sites and the result."
        ),
    ] = Path("federation-demo"),
    seed: Annotated[
        int, typer.Option(metavar="N", help="Draws the patients and the folds.", min=0)
    ] = 1,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a whole federation on this machine: a server, a target, four sources, mutual TLS.

    Writes kits, tables, ledgers and a result into a new folder, runs a study, and stops
    everything. It listens on this machine only.

    Examples
    --------
    fedcsa federation demo --out federation-demo
    """
    from fedcsa.federation.flare import require_engine

    require_engine()
    from fedcsa.cli.federation_demo import run_demo

    if out.exists() and any(out.iterdir()):
        raise ResultError(f"The folder {str(out)!r} is not empty. Choose another.")
    code = run_demo(out, Output(json, quiet), seed)
    if code:
        raise typer.Exit(code)


def _telling(text: str) -> Callable[[Console], None]:
    return lambda screen: screen.print(Text(text), soft_wrap=True)
