"""``fedcsa federation``: set up a federation, run its server, check a kit."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from fedcsa.cli.common import EXIT_INPUT, Json, Quiet, console, named_errors, print_json, printable
from fedcsa.errors import ProtocolError, ResultError
from fedcsa.protocol.lines import alone
from fedcsa.site.federation import AUTHORITY, TEMPLATE, Federation

federation = typer.Typer(
    name="federation", no_args_is_help=True, help="Set up a federation of real sites."
)
FederationFile = Annotated[Path, typer.Argument(help="The federation file.")]
KitFolder = Annotated[Path, typer.Argument(help="A start-up kit.")]


@federation.command()
@named_errors
def init(file: FederationFile = Path("federation.toml"), json: Json = False) -> None:
    """Write a commented federation file to fill in.

    Example: [bold]fedcsa federation init federation.toml[/bold]
    """
    if file.exists():
        raise ResultError(f"The file {str(file)!r} must not be there yet; it is. Choose another.")
    name = re.sub(r"[^A-Za-z0-9]", "-", file.absolute().parent.name) or "federation"
    file.write_text(TEMPLATE.format(name=name[:60]), encoding="utf-8")
    _said(
        {"file": str(file)},
        f"Written to {file}. Fill it in, then: fedcsa federation provision",
        json,
    )


@federation.command()
@named_errors
def provision(
    file: FederationFile = Path("federation.toml"),
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the kits.")] = Path("kits"),
    json: Json = False,
) -> None:
    """Make one start-up kit per participant, with every protection switched on.

    Example: [bold]fedcsa federation provision federation.toml --out kits[/bold]
    """
    from fedcsa.transport.flare import require_engine

    described = Federation.load(file)
    require_engine()
    from fedcsa.transport.flare.kits import provision as make

    kits = make(described, out)
    lines = [f"{len(kits)} kits in {out}:", *(f"  {kit}" for kit in kits)]
    lines.append(f"Keep {out / AUTHORITY} to yourself: it holds the key that makes certificates.")
    _said({"kits": [str(kit) for kit in kits]}, "\n".join(lines), json)


@federation.command()
@named_errors
def serve(kit: KitFolder, quiet: Quiet = False) -> None:
    """Run the server of a federation in the foreground, until Ctrl-C.

    Example: [bold]fedcsa federation serve kits/localhost[/bold]
    """
    from fedcsa.transport.flare import require_engine

    require_engine()
    from fedcsa.transport.flare.kits import Kit
    from fedcsa.transport.flare.process import EngineProcess, until_stopped

    about = Kit.load(kit)
    if about.role != "server":
        raise ProtocolError(f"This must be the server's kit; it is that of a {about.role}.")
    with alone(kit), EngineProcess(kit, about) as process, until_stopped() as stopped:
        if not quiet:
            console().print(Text(f"serving {about.federation} on port {about.port}"))
        while not stopped.is_set() and process.poll() is None:
            time.sleep(0.2)
        ended = process.poll()
    if ended not in (None, 0) and not stopped.is_set():
        raise ProtocolError(f"The server ended ({ended}); see {kit / 'engine.log'}.")


@federation.command()
@named_errors
def doctor(
    kit: KitFolder,
    data: Annotated[Path | None, typer.Option(help="The site's own file.")] = None,
    json: Json = False,
) -> None:
    """Check a kit, the way to the server, and a site's file; say what is wrong and how to mend it.

    Example: [bold]fedcsa federation doctor kits/abbey --data site.toml[/bold]
    """
    from fedcsa.transport.flare import require_engine

    require_engine()
    from fedcsa.transport.flare.doctor import examine

    checks = examine(kit, data)
    problems = [text for _, ok, text in checks if not ok]
    if json:
        print_json({"checks": [{"what": w, "ok": ok, "text": t} for w, ok, t in checks]})
    else:
        screen = console()
        for what, ok, text in checks:
            mark = ("ok  ", "green") if ok else ("bad ", "bold red")
            screen.print(Text.assemble(mark, printable(f"{what}: {text}")), soft_wrap=True)
    if problems:
        raise typer.Exit(EXIT_INPUT)


@federation.command()
@named_errors
def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="A new folder for kits, sites and the result.")
    ] = Path("federation-demo"),
    seed: Annotated[int, typer.Option(help="Draws the patients and the folds.", min=0)] = 1,
) -> None:
    """Run a whole federation on this machine: a server, a target, four sources, mutual TLS.

    Example: [bold]fedcsa federation demo --out federation-demo[/bold]
    """
    from fedcsa.transport.flare import require_engine

    require_engine()
    from fedcsa.cli.federation_demo import run_demo

    if out.exists() and any(out.iterdir()):
        raise ResultError(f"The folder {str(out)!r} must be new or empty; it is not.")
    code = run_demo(out, console(), seed)
    if code:
        raise typer.Exit(code)


def _said(plain: dict[str, object], text: str, as_json: bool) -> None:
    if as_json:
        print_json(plain)
    else:
        console().print(Text(text), soft_wrap=True)
